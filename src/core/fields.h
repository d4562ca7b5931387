/* Typed fields of a JSON object from outside.  Keys may be given as alternatives,
 * "n_embd|hidden_size": the first that is present and not null counts; "a.b" is field b of the
 * object a.  Errors are sticky and name file, field, value and what is accepted. */
#ifndef PZ_CORE_FIELDS_H
#define PZ_CORE_FIELDS_H

#include "core/json.h"

struct pz_fields {
  const char *name; /* of the file, for messages */
  const json_t *root;
  struct pz_error *err;
  enum pz_status status;
};

struct pz_range {
  int64_t min, max;
};

int64_t pz_fields_int(struct pz_fields *f, const char *keys, struct pz_range range);
int64_t pz_fields_int_or(struct pz_fields *f, const char *keys, struct pz_range range,
                         int64_t absent);
double pz_fields_real(struct pz_fields *f, const char *keys, double min, double max);
double pz_fields_real_or(struct pz_fields *f, const char *keys, double min, double max,
                         double absent);
bool pz_fields_bool_or(struct pz_fields *f, const char *keys, bool absent);
/* The text of a field, or `absent`.  Lives as long as the JSON value. */
const char *pz_fields_text_or(struct pz_fields *f, const char *keys, const char *absent);

/* Is there a non-null field with this name? */
bool pz_fields_has(const struct pz_fields *f, const char *key);

/* Refuse a field's value; `accepted` says what would do. */
void pz_fields_refuse(struct pz_fields *f, const char *keys, const char *accepted);

#endif
