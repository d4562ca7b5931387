/* JSON through jansson: parsing with the position of errors, and writing with a stable layout.
 *
 * Documents are built without a check after each call.  jansson passes NULL values on, so an object
 * for which there was no memory is missing in the end.  If pz_alloc_use() was called, the thread
 * remembers that an allocation failed (pz_json_lost), and writing or reading a document raises
 * PZ_NO_MEMORY until an error has reported it. */
#ifndef PZ_CORE_JSON_H
#define PZ_CORE_JSON_H

#include <jansson.h>

#include "core/buffer.h"

/* Parses one JSON object, released when the call ends; `name` stands for it in messages. */
json_t *pz_json_read(struct pz_call *call, const char *name, const char *text, size_t bytes);

/* Checks that a document was built completely, and releases it when the call ends. */
json_t *pz_json_built(struct pz_call *call, json_t *value);

/* Appends the indented text of a value and a newline: ASCII, keys in the order of insertion. */
void pz_json_print(struct pz_call *call, struct pz_buffer *buffer, const json_t *value);

/* Returns the text of pz_json_print() for a caller of the library, who frees it (pz_text_free). */
char *pz_json_take(struct pz_call *call, const json_t *value);

/* Appends the text of a value in the layout of json_dumps(). */
void pz_json_add(struct pz_call *call, struct pz_buffer *buffer, const json_t *value, size_t flags);

/* Returns the text of pz_json_add(), in the memory of the call. */
char *pz_json_format(struct pz_call *call, const json_t *value, size_t flags);

/* Parses a text that is known to be valid, as a part of a new document.  Returns a new reference,
 * or NULL if there is no memory, which pz_json_built() then raises. */
json_t *pz_json_parse_again(const char *text);

/* Writes a value as compact text for a message into buf, cut to fit, and returns buf. */
char *pz_json_brief(const json_t *value, char *buf, size_t size);

/* Returns the type of a value for messages: "an object", "a string", ... */
const char *pz_json_type(const json_t *value);

#endif
