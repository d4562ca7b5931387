/* JSON through jansson: parsing with a position in every error, and writing with a stable layout.
 */
#ifndef PZ_CORE_JSON_H
#define PZ_CORE_JSON_H

#include <jansson.h>

#include "core/status.h"

/* Parse one JSON object.  `name` stands for the text in messages.  The reference in *out is the
 * caller's. */
PZ_NODISCARD enum pz_status pz_json_parse(const char *name, const char *text, size_t bytes,
                                          json_t **out, struct pz_error *err);

/* Indented text with a closing newline (malloc'd, the caller's to free); keys keep their order of
 * insertion, reals print with 17 digits.  PZ_NO_MEMORY is the only error. */
PZ_NODISCARD enum pz_status pz_json_text(const json_t *value, char **text, struct pz_error *err);

/* One value as compact text for a message, cut to fit.  Returns buf. */
char *pz_json_brief(const json_t *value, char *buf, size_t size);

/* "an object", "a string", ... */
const char *pz_json_type(const json_t *value);

#endif
