/* Typed fields of JSON objects.  Every read goes through find_value(), which remembers the keys
 * that were asked for and follows alternatives "a|b" and paths "a.b".  store_error() keeps the
 * first error.  At the end pz_fields_finish() refuses keys that nobody has asked for
 * (check_keys). */
#include "core/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

enum { LONGEST_KEY = 64 };

/* ---- values --------------------------------------------------------------------------------- */

/* Records an error about the object, unless there is one already. */
PZ_PRINTF(2, 3) static void store_error(struct pz_fields *fields, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fields->status = pz_error_setv(fields->err, PZ_BAD_INPUT, __FILE__, __LINE__, format, args);
  va_end(args);
  pz_error_at(fields->err, fields->name, 0, 0);
}

/* Stores an error about a field unless there is one already; `value` is NULL if it is missing. */
static void refuse_value(struct pz_fields *fields, const char *key, const json_t *value,
                         const char *accepted) {
  char found[80];
  if (fields->status != PZ_OK) return;
  fields->missing = !value;
  if (value)
    store_error(fields, "%s: field '%s' is %s; accepted: %s", fields->name, key,
                pz_json_brief(value, found, sizeof found), accepted);
  else
    store_error(fields, "%s: field '%s' is missing; accepted: %s", fields->name, key, accepted);
}

/* Copies the first n characters of a text, as far as they fit. */
static char *copy_part(char *to, size_t size, const char *from, size_t n) {
  n = n < size ? n : size - 1;
  memcpy(to, from, n);
  to[n] = '\0';
  return to;
}

/* Returns the value at a path "a.b", or NULL.  Refuses an `a` that is not an object. */
static const json_t *value_at_path(struct pz_fields *fields, const char *path) {
  char name[LONGEST_KEY];
  const json_t *value = fields->root;
  for (const char *at = path; value && *at;) {
    size_t n = strcspn(at, ".");
    value = json_object_get(value, copy_part(name, sizeof name, at, n));
    at += n;
    if (*at && value && !json_is_null(value) && !json_is_object(value)) {
      refuse_value(fields, copy_part(name, sizeof name, path, (size_t)(at - path)), value,
                   "an object");
      return NULL;
    }
    if (*at == '.') at++;
  }
  return value;
}

/* Adds n keys to those that were asked for. */
void pz_fields_allow(struct pz_fields *fields, const char *const *keys, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool is_known = false;
    for (int k = 0; k < fields->n_asked && !is_known; k++)
      is_known = fields->asked[k] == keys[i] || strcmp(fields->asked[k], keys[i]) == 0;
    assert(is_known || fields->n_asked < PZ_FIELDS_MOST);
    if (is_known || fields->n_asked == PZ_FIELDS_MOST) continue;
    fields->asked[fields->n_asked] = keys[i];
    fields->n_asked++;
  }
}

/* Returns the beginning of the next alternative in "a|b|c", or NULL after the last. */
static const char *next_alternative(const char *alternative) {
  const char *bar = strchr(alternative, '|');
  return bar ? bar + 1 : NULL;
}

/* Returns the value of the first alternative of `keys` that is present, with the name of that
 * alternative in `key`; or NULL, with the name of the first alternative. */
static const json_t *find_value(struct pz_fields *fields, const char *keys, char key[LONGEST_KEY]) {
  char found[80];
  pz_fields_allow(fields, &keys, 1);
  /* Files are objects, but the entries of a list need not be. */
  if (fields->status == PZ_OK && fields->root && !json_is_object(fields->root))
    store_error(fields, "%s is %s; accepted: an object", fields->name,
                pz_json_brief(fields->root, found, sizeof found));
  for (const char *at = keys; at; at = next_alternative(at)) {
    copy_part(key, LONGEST_KEY, at, strcspn(at, "|"));
    const json_t *value = value_at_path(fields, key);
    if (value && !json_is_null(value)) return value;
  }
  copy_part(key, LONGEST_KEY, keys, strcspn(keys, "|"));
  return NULL;
}

void pz_fields_refuse(struct pz_fields *fields, const char *keys, const char *accepted) {
  char key[LONGEST_KEY];
  const json_t *value = find_value(fields, keys, key);
  refuse_value(fields, key, value, accepted);
}

/* Returns the value of a field of any type, or NULL if it is absent or null. */
const json_t *pz_fields_value(struct pz_fields *fields, const char *keys) {
  char key[LONGEST_KEY];
  return find_value(fields, keys, key);
}

/* Returns the integer of a field, or `absent`; stores an error if it is required and absent. */
static int64_t read_int(struct pz_fields *fields, const char *keys, struct pz_range range,
                        bool is_required, int64_t absent) {
  char key[LONGEST_KEY], accepted[80];
  const json_t *value = find_value(fields, keys, key);
  if (fields->status != PZ_OK || (!value && !is_required)) return absent;
  int64_t n = value && json_is_integer(value) ? json_integer_value(value) : range.min - 1;
  if (n >= range.min && n <= range.max) return n;
  snprintf(accepted, sizeof accepted, "an integer from %" PRId64 " to %" PRId64, range.min,
           range.max);
  refuse_value(fields, key, value, accepted);
  return range.min;
}

int64_t pz_fields_int(struct pz_fields *fields, const char *keys, struct pz_range range) {
  return read_int(fields, keys, range, true, range.min);
}

int64_t pz_fields_int_or(struct pz_fields *fields, const char *keys, struct pz_range range,
                         int64_t absent) {
  return read_int(fields, keys, range, false, absent);
}

/* Returns the number of a field, or `absent`; stores an error if it is required and absent. */
static double read_real(struct pz_fields *fields, const char *keys, double min, double max,
                        bool is_required, double absent) {
  char key[LONGEST_KEY], accepted[80];
  const json_t *value = find_value(fields, keys, key);
  if (fields->status != PZ_OK || (!value && !is_required)) return absent;
  double real = json_number_value(value);
  if (json_is_number(value) && real >= min && real <= max) return real;
  snprintf(accepted, sizeof accepted, "a number from %g to %g", min, max);
  refuse_value(fields, key, value, accepted);
  return absent;
}

double pz_fields_real(struct pz_fields *fields, const char *keys, double min, double max) {
  return read_real(fields, keys, min, max, true, min);
}

double pz_fields_real_or(struct pz_fields *fields, const char *keys, double min, double max,
                         double absent) {
  return read_real(fields, keys, min, max, false, absent);
}

/* Returns the truth value of a field, or `absent`. */
bool pz_fields_bool_or(struct pz_fields *fields, const char *keys, bool absent) {
  char key[LONGEST_KEY];
  const json_t *value = find_value(fields, keys, key);
  if (fields->status != PZ_OK || !value) return absent;
  if (!json_is_boolean(value)) refuse_value(fields, key, value, "true or false");
  return json_is_true(value);
}

/* Returns the text of a field, or `absent`.  Control characters are refused. */
const char *pz_fields_text_or(struct pz_fields *fields, const char *keys, const char *absent) {
  char key[LONGEST_KEY];
  const json_t *value = find_value(fields, keys, key);
  if (fields->status != PZ_OK || !value) return absent;
  bool is_accepted = json_is_string(value) && pz_text_is_plain(json_string_value(value));
  if (!is_accepted)
    refuse_value(fields, key, value,
                 json_is_string(value) ? "a string without control characters" : "a string");
  return is_accepted ? json_string_value(value) : absent;
}

/* ---- usual ranges of physical values -------------------------------------------------------- */

/* Writes the usual range as "1 to 100", or "0, 1 to 100" if 0 is accepted, too. */
static void print_usual_range(const struct pz_key *row, char *buf, size_t size) {
  const char *zero = row->min > 0 || !(row->usual_min > 0) ? "" : "0, ";
  if (row->type == PZ_KEY_INT)
    snprintf(buf, size, "%s%.0f to %.0f", zero, row->usual_min, row->usual_max);
  else
    snprintf(buf, size, "%s%g to %g", zero, row->usual_min, row->usual_max);
}

/* Records an error for a number outside of its usual range, with the number probably meant. */
void pz_fields_check_usual(struct pz_fields *fields, const struct pz_key *row) {
  enum { LARGEST_POWER = 18 };
  char key[LONGEST_KEY], range[64], meant[64] = ";", unit[80];
  const json_t *value = find_value(fields, row->key, key);
  double real = json_number_value(value);
  bool is_number = row->type == PZ_KEY_INT ? json_is_integer(value) : json_is_number(value);
  bool is_usual = real >= row->usual_min && real <= row->usual_max;
  bool is_checked = row->usual_max > 0 && is_number && real > 0 && !fields->any_units;
  if (fields->status != PZ_OK || !is_checked || is_usual) return;
  bool is_bytes = row->unit[0] == 'B';
  snprintf(unit, sizeof unit, "%s%s", is_bytes ? "bytes" : "", row->unit + is_bytes);
  /* suggest the value times the power of 1000 that brings it nearest to the middle of the range */
  double middle = row->usual_min > 0 ? sqrt(row->usual_min * row->usual_max) : row->usual_max;
  double least_distance = HUGE_VAL;
  for (int power = -LARGEST_POWER; power <= LARGEST_POWER; power += 3) {
    double candidate = real * pow(10, power), distance = fabs(log(candidate / middle));
    bool usual = candidate >= row->usual_min && candidate <= row->usual_max;
    if (!usual || distance >= least_distance) continue;
    least_distance = distance;
    if (row->type == PZ_KEY_INT)
      snprintf(meant, sizeof meant, "; did you mean %.0f?", candidate);
    else if (real >= 1e-3 && real < 1e5)
      snprintf(meant, sizeof meant, "; did you mean %ge%d?", real, power);
    else
      snprintf(meant, sizeof meant, "; did you mean %g?", candidate);
  }
  print_usual_range(row, range, sizeof range);
  store_error(fields,
              "%s: field '%s' is %g %s%s accepted: %s; \"any_units\": true in the file, or "
              "--any-units, accepts it",
              fields->name, key, real, unit, meant, range);
}

/* ---- fields of our formats ------------------------------------------------------------------ */

/* Reads the field that `row` describes into its member of the struct *out. */
void pz_fields_read(struct pz_fields *fields, const struct pz_key *row, void *out) {
  void *at = (char *)out + row->offset;
  struct pz_range range = {(int64_t)row->min, (int64_t)row->max};
  bool required = row->absent == PZ_KEY_MUST;
  pz_fields_check_usual(fields, row);
  if (row->type == PZ_KEY_INT)
    *(int64_t *)at = required ? pz_fields_int(fields, row->key, range)
                              : pz_fields_int_or(fields, row->key, range, (int64_t)row->absent);
  else if (row->type == PZ_KEY_REAL)
    *(double *)at = required ? pz_fields_real(fields, row->key, row->min, row->max)
                             : pz_fields_real_or(fields, row->key, row->min, row->max, row->absent);
  else if (row->type == PZ_KEY_FLAG)
    *(bool *)at = pz_fields_bool_or(fields, row->key, row->absent > 0);
  else if (row->type == PZ_KEY_TEXT)
    pz_text_plain(pz_text_copy(at, (size_t)row->max,
                               pz_fields_text_or(fields, row->key, required ? fields->name : "")));
}

/* Appends the description of a field to a list, for doc/fields.md. */
void pz_key_describe(const struct pz_key *row, const char *accepted, json_t *list) {
  static const char absent[] = "; absent: ";
  const char *consequence = strstr(row->about, absent);
  size_t length = consequence ? (size_t)(consequence - row->about) : strlen(row->about);
  bool required = row->absent == PZ_KEY_MUST && !consequence;
  bool is_whole = row->absent == (double)(int64_t)row->absent;
  char range[80] = "text";
  if (row->type == PZ_KEY_FLAG) pz_text_copy(range, sizeof range, "true, false");
  if (row->type == PZ_KEY_INT) snprintf(range, sizeof range, "%.0f to %.0f", row->min, row->max);
  if (row->type == PZ_KEY_REAL) snprintf(range, sizeof range, "%g to %g", row->min, row->max);
  if (row->usual_max > 0) print_usual_range(row, range, sizeof range);
  json_t *object =
      json_pack("{s:s,s:s,s:s,s:b,s:s%}", "field", row->key, "unit", row->unit, "accepted",
                accepted ? accepted : range, "required", required, "meaning", row->about, length);
  if (consequence) {
    json_object_set_new(object, "absent", json_string(consequence + sizeof absent - 1));
  } else if (!required) {
    json_t *value = NULL;
    if (row->type == PZ_KEY_FLAG)
      value = json_boolean(row->absent > 0);
    else if (row->type == PZ_KEY_TEXT)
      value = json_string("");
    else
      value = is_whole ? json_integer((json_int_t)row->absent) : json_real(row->absent);
    json_object_set_new(object, "default", value);
  }
  json_array_append_new(list, object);
}

/* ---- unknown keys --------------------------------------------------------------------------- */

/* How the reader of a file asked for a key: not at all, as a field, or as an object with fields. */
enum key_kind { UNKNOWN_KEY, FIELD_KEY, OBJECT_KEY };

/* Returns how the key at a path such as "a.b" was asked for.  It is an object if only longer paths,
 * such as "a.b.c", were asked for.  Entries of fields->asked may be alternatives "a.b|c". */
static enum key_kind kind_of_key(const struct pz_fields *fields, const char *path) {
  size_t length = strlen(path);
  enum key_kind kind = UNKNOWN_KEY;
  for (int i = 0; i < fields->n_asked; i++)
    for (const char *at = fields->asked[i]; at; at = next_alternative(at)) {
      if (strncmp(at, path, length) != 0) continue;
      if (!at[length] || at[length] == '|') return FIELD_KEY;
      if (at[length] == '.') kind = OBJECT_KEY;
    }
  return kind;
}

/* Finds the path that a key was meant for: "hbm_stacks" or "hbm.stacks" is the field stacks of the
 * object hbm.  Writes the path into buf, or returns false. */
static bool find_meant_path(const struct pz_fields *fields, const char *key,
                            char buf[LONGEST_KEY]) {
  size_t length = strlen(key);
  for (int i = 0; i < fields->n_asked; i++)
    for (const char *at = fields->asked[i]; at; at = next_alternative(at)) {
      size_t n = strcspn(at, "|");
      bool same = n == length && n < LONGEST_KEY && memchr(at, '.', n);
      for (size_t k = 0; k < n && same; k++) {
        bool are_separators = strchr("._", at[k]) && strchr("._", key[k]);
        same = at[k] == key[k] || are_separators;
      }
      if (!same) continue;
      copy_part(buf, LONGEST_KEY, at, n);
      return true;
    }
  return false;
}

/* Stores the error about an unknown key, also in place of one about a missing field. */
static void refuse_key(struct pz_fields *fields, const char *prefix, const char *key) {
  char names[PZ_FIELDS_MOST][LONGEST_KEY], list[600], path[LONGEST_KEY];
  const char *known[PZ_FIELDS_MOST + 1] = {NULL}; /* names of fields that were asked for here */
  int prefix_length = *prefix ? (int)strlen(prefix) - 1 : 0; /* without the dot */
  size_t n_prefix = strlen(prefix), n_known = 0;
  for (int i = 0; i < fields->n_asked; i++)
    for (const char *at = fields->asked[i]; at; at = next_alternative(at)) {
      if (strcspn(at, "|") <= n_prefix || strncmp(at, prefix, n_prefix) != 0) continue;
      char name[LONGEST_KEY];
      snprintf(name, sizeof name, "%.*s", (int)strcspn(at + n_prefix, ".|"), at + n_prefix);
      bool is_listed = n_known == PZ_FIELDS_MOST;
      for (size_t k = 0; k < n_known; k++) is_listed = is_listed || strcmp(known[k], name) == 0;
      if (is_listed) continue;
      known[n_known] = memcpy(names[n_known], name, sizeof name);
      n_known++;
    }
  const char *near = pz_text_nearest(key, pz_name_in_list, known);
  if (fields->missing && fields->err) *fields->err = (struct pz_error){0};
  if (find_meant_path(fields, key, path)) {
    const char *leaf = strrchr(path, '.') + 1;
    store_error(fields, "%s: unknown key '%s%.60s'; did you mean '%s' (%s in the object '%.*s')?",
                fields->name, prefix, key, path, leaf, (int)(leaf - 1 - path), path);
  } else if (near) {
    store_error(fields, "%s: unknown key '%s%.60s'; did you mean '%s%s'?", fields->name, prefix,
                key, prefix, near);
  } else {
    store_error(fields, "%s: unknown key '%s%.60s'; accepted%s%.*s: %s", fields->name, prefix, key,
                *prefix ? " in " : "", prefix_length, prefix,
                pz_text_join(list, sizeof list, pz_name_in_list, known));
  }
}

/* Returns whether all keys of an object, and of the objects inside of it, were asked for.  Stores
 * the error about the first one that was not.  Does not enter values that were asked for as a
 * field. */
static bool check_keys(struct pz_fields *fields, const json_t *object, const char *prefix) {
  char path[2 * LONGEST_KEY];
  json_t *members = (json_t *)(uintptr_t)object; /* jansson's iterators have no const variant */
  for (void *member = json_object_iter(members); member;
       member = json_object_iter_next(members, member)) {
    const char *key = json_object_iter_key(member);
    int n = snprintf(path, sizeof path, "%s%s", prefix, key);
    bool is_path = strchr(key, '.'); /* a key "a.b" is not the field b of an object a */
    enum key_kind kind = n < LONGEST_KEY && !is_path ? kind_of_key(fields, path) : UNKNOWN_KEY;
    if (kind == UNKNOWN_KEY) {
      refuse_key(fields, prefix, key);
      return false;
    }
    snprintf(path, sizeof path, "%s%.60s.", prefix, key);
    if (kind == OBJECT_KEY && !check_keys(fields, json_object_iter_value(member), path))
      return false;
  }
  return true;
}

/* Refuses keys that were never asked for, and returns the status of the first error. */
enum pz_status pz_fields_finish(struct pz_fields *fields) {
  if (fields->status == PZ_OK || fields->missing) check_keys(fields, fields->root, "");
  return fields->status;
}

struct pz_fields pz_fields_of(struct pz_call *call, const char *name, const json_t *root) {
  return (struct pz_fields){.name = name, .root = root, .err = pz_call_error(call)};
}

void pz_fields_end(struct pz_call *call, struct pz_fields *fields) {
  pz_must(call, pz_fields_finish(fields));
}
