/* The JSON library of src/wasm, for a comparison with jansson. */
#ifndef PZ_FUZZ_OWN_JSON_H
#define PZ_FUZZ_OWN_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* Read a text and write the value again with jansson's flags.  False: it is no JSON document. */
bool own_json_again(const char *text, size_t bytes, size_t flags,
                    int (*put_text)(const char *, size_t, void *), void *to);

#endif
