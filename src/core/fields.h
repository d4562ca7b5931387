/* Typed fields of a JSON object from outside.  Keys may have alternatives, "n_embd|hidden_size", of
 * which the first that is present and not null counts; "a.b" is field b of the object a.  The first
 * error is kept, and names the file, the field, the value and what is accepted.
 *
 * The keys that were asked for are remembered.  Where a format is ours, pz_fields_end() refuses
 * every other key, so that a misspelt key is not mistaken for an absent one.  A reader therefore
 * asks for all keys, also after an error. */
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
  bool any_units; /* numbers outside of their usual range are intended */
  int n_asked;
  const char *asked[PZ_FIELDS_MOST]; /* keys, not copied */
};

struct pz_range {
  int64_t min, max;
};

int64_t pz_fields_int(struct pz_fields *fields, const char *keys, struct pz_range range);
int64_t pz_fields_int_or(struct pz_fields *fields, const char *keys, struct pz_range range,
                         int64_t absent);
double pz_fields_real(struct pz_fields *fields, const char *keys, double min, double max);
double pz_fields_real_or(struct pz_fields *fields, const char *keys, double min, double max,
                         double absent);
bool pz_fields_bool_or(struct pz_fields *fields, const char *keys, bool absent);
/* Returns the text of a field, or `absent`.  Control characters are refused.  The text belongs
 * to the JSON value. */
const char *pz_fields_text_or(struct pz_fields *fields, const char *keys, const char *absent);

/* A field of one of our formats: how it is read, and how doc/fields.md describes it. */
enum pz_key_type { PZ_KEY_INT, PZ_KEY_REAL, PZ_KEY_FLAG, PZ_KEY_TEXT, PZ_KEY_OTHER };
enum { PZ_KEY_MUST = -1 };
struct pz_key {
  const char *key;
  int type;      /* enum pz_key_type, or from PZ_KEY_OTHER on a type of the reader's own */
  size_t offset; /* in the struct: of an int64_t, a double, a bool or an array of max characters */
  double min, max;
  double
      absent; /* default, or PZ_KEY_MUST if required, and a required text defaults to the file's name */
  const char *unit; /* "" without a unit */
  const char
      *about; /* "MEANING", or "MEANING; absent: CONSEQUENCE" if the default is not a value */
  /* Usual range of a physical value.  A number outside of it is probably in another unit.  0, 0: no
   * check. */
  double usual_min, usual_max;
};

/* Reads a field into its member of *out, unless its type is PZ_KEY_OTHER or above. */
void pz_fields_read(struct pz_fields *fields, const struct pz_key *row, void *out);

/* Appends {field, unit, accepted, required, default or absent, meaning} to a list.  `accepted` is
 * NULL where it follows from type and range. */
void pz_key_describe(const struct pz_key *row, const char *accepted, json_t *list);

/* Returns the value of a field of any type, or NULL if it is absent or null. */
const json_t *pz_fields_value(struct pz_fields *fields, const char *keys);

/* A row of a table of fields; the usual range may be left out. */
#define PZ_KEY(name, ...)                                                                          \
  { .key = name, __VA_ARGS__ }

/* Returns the largest usual value, or the largest accepted one if no range is usual. */
static inline double pz_key_most(const struct pz_key *row) {
  return row->usual_max > 0 ? row->usual_max : row->max;
}

/* Refuses a number outside of its usual range, and names the value that is probably meant, unless
 * any unit is accepted. */
void pz_fields_check_usual(struct pz_fields *fields, const struct pz_key *row);

/* Accepts fields of any content that are not read. */
void pz_fields_allow(struct pz_fields *fields, const char *const *keys, size_t n);

/* Refuses the value of a field; `accepted` names the accepted values. */
void pz_fields_refuse(struct pz_fields *fields, const char *keys, const char *accepted);

/* Reads the fields of an object, whose first error pz_fields_end() raises. */
struct pz_fields pz_fields_of(struct pz_call *call, const char *name, const json_t *root);

/* Refuses keys that were never asked for, also within objects whose fields were ("a.b"), with the
 * nearest known key or all of them, and raises the first error of all fields.  An unknown key
 * replaces an error about a missing field, because it may be that field misspelt. */
void pz_fields_end(struct pz_call *call, struct pz_fields *fields);

/* Like pz_fields_end(), but returns the error. */
PZ_NODISCARD enum pz_status pz_fields_finish(struct pz_fields *fields);

#endif
