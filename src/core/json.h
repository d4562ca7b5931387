/* JSON through jansson: parsing with a position in every error, and writing with a stable layout.
 *
 * Documents are built without looking at every call: jansson passes a NULL on, so that an object
 * for which there was no memory is left out.  The thread remembers that an allocation failed (if
 * pz_alloc_use was called), until an error says so: writing a document, or reading one, is
 * PZ_NO_MEMORY till then.  A thread that builds a part for another asks pz_json_lost. */
#ifndef PZ_CORE_JSON_H
#define PZ_CORE_JSON_H

#include <jansson.h>

#include "core/buffer.h"

/* Parse one JSON object.  `name` stands for the text in messages.  The reference in *out is the
 * caller's. */
PZ_NODISCARD enum pz_status pz_json_parse(const char *name, const char *text, size_t bytes,
                                          json_t **out, struct pz_error *err);

/* The text of a value, laid out as json_dumps would; the caller's to pz_free.  NULL: out of memory,
 * now or while the value was built, or it has no text. */
char *pz_json_dump(const json_t *value, size_t flags);

/* Indented text in ASCII with a closing newline (the caller's to pz_free); keys keep their order of
 * insertion, reals print with 17 digits.  PZ_NO_MEMORY, as with pz_json_dump, is the only error. */
PZ_NODISCARD enum pz_status pz_json_text(const json_t *value, char **text, struct pz_error *err);

/* One value as compact text for a message, cut to fit.  Returns buf. */
char *pz_json_brief(const json_t *value, char *buf, size_t size);

/* "an object", "a string", ... */
const char *pz_json_type(const json_t *value);

/* Parses one JSON object; `name` stands for the text in messages.  The value is released when the call ends. */
json_t *pz_json_read(struct pz_call *call, const char *name, const char *text, size_t bytes);

/* Checks that a document was built completely, and releases it when the call ends. */
json_t *pz_json_built(struct pz_call *call, json_t *value);

/* Appends the indented text of a value: ASCII with a closing newline, keys in the order of insertion, 17 digits. */
void pz_json_print(struct pz_call *call, struct pz_buffer *b, const json_t *value);

#endif
