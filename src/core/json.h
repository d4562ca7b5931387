/* JSON through jansson: parsing with the position of errors, and writing with a stable layout.
 *
 * Documents are built without a check after each call.  jansson passes NULL values on, so an object
 * for which there was no memory is missing in the end.  If pz_alloc_use() was called, the thread
 * remembers that an allocation failed until an error reports it, and until then writing or reading
 * a document raises PZ_NO_MEMORY.  A thread that builds a part of a document for another one asks
 * pz_json_lost(). */
#ifndef PZ_CORE_JSON_H
#define PZ_CORE_JSON_H

#include <jansson.h>

#include "core/buffer.h"

/* Parses one JSON object, which is released when the call ends.  `name` is that of the text, for
 * messages. */
json_t *pz_json_read(struct pz_call *call, const char *name, const char *text, size_t bytes);

/* Checks that a document was built completely, and releases it when the call ends. */
json_t *pz_json_built(struct pz_call *call, json_t *value);

/* Appends the indented text of a value: ASCII with a closing newline, keys in the order of
 * insertion, 17 digits. */
void pz_json_print(struct pz_call *call, struct pz_buffer *buffer, const json_t *value);

/* Returns the text of pz_json_print(), for the caller of a public function, who frees it with
 * pz_text_free(). */
char *pz_json_take(struct pz_call *call, const json_t *value);

/* Appends the text of a value in the layout of json_dumps(). */
void pz_json_add(struct pz_call *call, struct pz_buffer *buffer, const json_t *value, size_t flags);

/* Returns the text of pz_json_add(), in the memory of the call. */
char *pz_json_format(struct pz_call *call, const json_t *value, size_t flags);

/* Parses a text that has been parsed before, as a part of a new document.  Returns a new reference,
 * or NULL if there is no memory, which pz_json_built() then raises. */
json_t *pz_json_parse_again(const char *text);

/* Writes a value as compact text for a message into buf, cut to fit, and returns buf. */
char *pz_json_brief(const json_t *value, char *buf, size_t size);

/* Returns the type of a value for messages: "an object", "a string", ... */
const char *pz_json_type(const json_t *value);

#endif
