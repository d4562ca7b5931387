/* Typed fields of a JSON object that a user has written.  Keys may have alternatives, as in
 * "n_embd|hidden_size", of which the first that is present and not null is read; "a.b" is field b
 * of the object a.  The first error is recorded with file, field, value and accepted values.
 *
 * The keys that were asked for are remembered.  pz_fields_end() refuses every other key, so that a
 * misspelt key is not mistaken for an absent one.  A reader asks for all keys, also after an
 * error. */
#ifndef PZ_CORE_FIELDS_H
#define PZ_CORE_FIELDS_H

#include "core/json.h"

enum { PZ_FIELDS_MOST = 128 };

struct pz_fields {
  const char *name; /* the name of the file, for messages */
  const json_t *root;
  struct pz_error *err;
  enum pz_status status;
  bool missing;   /* the error is about a missing field */
  bool any_units; /* accept numbers outside of their usual range */
  int n_asked;
  const char *asked[PZ_FIELDS_MOST]; /* keys that were asked for; their texts are not copied */
};

struct pz_range {
  int64_t min, max;
};

/* Return the value of a required field or, with `_or`, that of a field or else `absent`. */
int64_t pz_fields_int(struct pz_fields *fields, const char *keys, struct pz_range range);
int64_t pz_fields_int_or(struct pz_fields *fields, const char *keys, struct pz_range range,
                         int64_t absent);
double pz_fields_real(struct pz_fields *fields, const char *keys, double min, double max);
double pz_fields_real_or(struct pz_fields *fields, const char *keys, double min, double max,
                         double absent);
bool pz_fields_bool_or(struct pz_fields *fields, const char *keys, bool absent);
/* Returns the text of a field, which the JSON value owns, or `absent`. */
const char *pz_fields_text_or(struct pz_fields *fields, const char *keys, const char *absent);

/* A field of one of our formats, as it is read and as doc/fields.md describes it. */
enum pz_key_type { PZ_KEY_INT, PZ_KEY_REAL, PZ_KEY_FLAG, PZ_KEY_TEXT, PZ_KEY_OTHER };
enum { PZ_KEY_MUST = -1 };
struct pz_key {
  const char *key;
  int type;      /* enum pz_key_type; its reader defines the types from PZ_KEY_OTHER on */
  size_t offset; /* offset of the int64_t, double, bool or array of max characters */
  double min, max;
  /* The default of a number or flag, or PZ_KEY_MUST if the field is required.  A text is never
   * required: its default is "", or with PZ_KEY_MUST the name of the file. */
  double absent;
  const char *unit; /* "" without a unit */
  /* "MEANING", or "MEANING; absent: CONSEQUENCE" if the default is not a value. */
  const char *about;
  /* The usual range of a physical value, or 0 and 0 if there is none.  A number outside of it is
   * probably in another unit. */
  double usual_min, usual_max;
};

/* Reads a field into its member of the struct *out.  Ignores types from PZ_KEY_OTHER on. */
void pz_fields_read(struct pz_fields *fields, const struct pz_key *row, void *out);

/* Appends a description of a field to a list: {field, unit, accepted, required, meaning, default or
 * absent}.  `accepted` is NULL if it follows from the type and the range. */
void pz_key_describe(const struct pz_key *row, const char *accepted, json_t *list);

/* Returns the value of a field of any type, or NULL if it is absent or null. */
const json_t *pz_fields_value(struct pz_fields *fields, const char *keys);

/* A row of a table of fields, with values for the other members. */
#define PZ_KEY(name, ...)                                                                          \
  { .key = name, __VA_ARGS__ }

/* Records an error for a number outside of its usual range, unless any_units is set. */
void pz_fields_check_usual(struct pz_fields *fields, const struct pz_key *row);

/* Accepts fields that are not read, whatever their values. */
void pz_fields_allow(struct pz_fields *fields, const char *const *keys, size_t n);

/* Records an error about the value of a field; `accepted` describes the accepted values. */
void pz_fields_refuse(struct pz_fields *fields, const char *keys, const char *accepted);

/* Returns a reader of the fields of an object.  pz_fields_end() raises its first error. */
struct pz_fields pz_fields_of(struct pz_call *call, const char *name, const json_t *root);

/* Raises the first error, or an error about a key that was never asked for, also in objects of
 * which fields were asked for ("a.b").  An error about such a key suggests the nearest known key
 * and replaces an error about a missing field, which may be the same field misspelt. */
void pz_fields_end(struct pz_call *call, struct pz_fields *fields);

/* Like pz_fields_end(), but returns the error. */
PZ_NODISCARD enum pz_status pz_fields_finish(struct pz_fields *fields);

#endif
