/* The files of a page (files.c), for the page. */
#ifndef PZ_WASM_FILES_H
#define PZ_WASM_FILES_H

#include <stddef.h>

/* The text of a file, which lives until it is written again; NULL: there is none. */
const char *pz_memory_file(const char *name, size_t *bytes);

#endif
