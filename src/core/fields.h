/* Typed fields of a JSON object from outside.  Keys may be given as alternatives,
 * "n_embd|hidden_size": the first that is present and not null counts; "a.b" is field b of the
 * object a.  Errors are sticky and name file, field, value and what is accepted.
 *
 * What was asked for is remembered: where a format is ours, pz_fields_finish refuses every other
 * key, so that a misspelt one is not taken for absent.  A reader therefore asks for all keys, also
 * after an error. */
#ifndef PZ_CORE_FIELDS_H
#define PZ_CORE_FIELDS_H

#include "core/json.h"

enum { PZ_FIELDS_MOST = 128 };

struct pz_fields {
  const char *name; /* of the file, for messages */
  const json_t *root;
  struct pz_error *err;
  enum pz_status status;
  bool missing;   /* the error is a field that is not there */
  bool any_units; /* numbers out of their usual range are meant */
  int n_asked;
  const char *asked[PZ_FIELDS_MOST]; /* keys, not copied */
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
/* The text of a field, or `absent`; control characters are refused.  Lives as long as the JSON
 * value. */
const char *pz_fields_text_or(struct pz_fields *f, const char *keys, const char *absent);

/* A field of one of our formats: how it is read, and what doc/fields.md says of it. */
enum pz_key_type { PZ_KEY_INT, PZ_KEY_REAL, PZ_KEY_FLAG, PZ_KEY_TEXT, PZ_KEY_OTHER };
enum { PZ_KEY_MUST = -1 };
struct pz_key {
  const char *key;
  int type;      /* enum pz_key_type, or from PZ_KEY_OTHER on one of the reader's own */
  size_t offset; /* in what is read: an int64_t, a double, a bool, an array of max characters */
  double min, max;
  double absent;     /* PZ_KEY_MUST: it has to be there; a text: it is the file's name */
  const char *unit;  /* "": a number, or no number */
  const char *about; /* "MEANING; absent: WHAT THEN", where that is no value of it */
  /* Usual range of a physical value: a number outside of it is probably in another unit.  0, 0: no check */
  double usual_min, usual_max;
};

/* Read it into its member of *out; not of PZ_KEY_OTHER. */
void pz_fields_read(struct pz_fields *f, const struct pz_key *row, void *out);

/* Append {field, unit, accepted, required, default, absent, meaning}: one of default and absent is there where it is not
 * required.  accepted NULL: by type and range. */
void pz_key_describe(const struct pz_key *row, const char *accepted, json_t *list);

/* Any value, NULL where there is none or null.  Lives as long as the JSON value. */
const json_t *pz_fields_value(struct pz_fields *f, const char *keys);

/* A row of a table of fields; the usual range may be left out. */
#define PZ_KEY(name, ...)                                                                          \
  { .key = name, __VA_ARGS__ }

/* The largest value that is usual, or else accepted. */
static inline double pz_key_most(const struct pz_key *row) {
  return row->usual_max > 0 ? row->usual_max : row->max;
}

/* Refuses a number out of its usual range with the value that is probably meant, unless any unit is accepted. */
void pz_fields_check_usual(struct pz_fields *f, const struct pz_key *row);

/* Fields of any content that are accepted and not read. */
void pz_fields_allow(struct pz_fields *f, const char *const *keys, size_t n);

/* Refuse a field's value; `accepted` says what would do. */
void pz_fields_refuse(struct pz_fields *f, const char *keys, const char *accepted);

/* Refuse a key that was never asked for, here or in an object whose fields were ("a.b"); the
 * message has the nearest that was, or all.  It takes the place of an error about a field that is
 * missing, which may be the same one.  Returns the status. */
PZ_NODISCARD enum pz_status pz_fields_finish(struct pz_fields *f);

/* Fields of a JSON object, whose first error pz_fields_end() raises. */
struct pz_fields pz_fields_of(struct pz_call *call, const char *name, const json_t *root);

/* Like pz_fields_finish(), and raises the first error of all fields that were read. */
void pz_fields_end(struct pz_call *call, struct pz_fields *f);

#endif
