/* Access of a web page to its files in memory (files.c). */
#ifndef PZ_WASM_FILES_H
#define PZ_WASM_FILES_H

#include <stddef.h>

/* Returns the text of a file, valid until it is written again, or NULL without such a file. */
const char *pz_memory_file(const char *name, size_t *bytes);

#endif
