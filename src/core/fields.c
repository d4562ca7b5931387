/* Every read goes through find_value(), which remembers the keys that were asked for and follows
 * alternatives ("a|b") and paths ("a.b").  refuse_value() stores the first error.  At the end
 * pz_fields_finish() walks over the object and refuses keys that nobody has asked for (check_keys),
 * with the nearest known key. */
#include "core/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

/* Stores an error about a field, unless there is one already.  A NULL value means that the field is
 * missing. */
static void refuse_value(struct pz_fields *fields, const char *key, const json_t *value,
                         const char *accepted) {
  if (fields->status != PZ_OK) return;
  char found[80];
  if (value)
    fields->status =
        pz_fail(fields->err, PZ_BAD_INPUT, "%s: field '%s' is %s; accepted: %s", fields->name, key,
                pz_json_brief(value, found, sizeof found), accepted);
  else
    fields->status = pz_fail(fields->err, PZ_BAD_INPUT, "%s: field '%s' is missing; accepted: %s",
                             fields->name, key, accepted);
  fields->missing = !value;
  pz_error_at(fields->err, fields->name, 0, 0);
}

static char *copy_part(char *to, size_t size, const char *from, size_t n) {
  n = n < size ? n : size - 1;
  memcpy(to, from, n);
  to[n] = '\0';
  return to;
}

/* The value at a path ("a.b" is field b of the object a), or NULL.  Refuses an `a` that is not an
 * object. */
static const json_t *value_at_path(struct pz_fields *fields, const char *path) {
  char name[64];
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
    at += *at == '.';
  }
  return value;
}

static void remember_keys(struct pz_fields *fields, const char *keys) {
  for (int i = 0; i < fields->n_asked; i++)
    if (fields->asked[i] == keys || strcmp(fields->asked[i], keys) == 0) return;
  assert(fields->n_asked < PZ_FIELDS_MOST);
  if (fields->n_asked < PZ_FIELDS_MOST) fields->asked[fields->n_asked++] = keys;
}

/* Refuses a root that is not an object.  Files are objects, but the entries of a list need not
 * be. */
static void check_root(struct pz_fields *fields) {
  char found[80];
  if (fields->status != PZ_OK || !fields->root || json_is_object(fields->root)) return;
  fields->status = pz_fail(fields->err, PZ_BAD_INPUT, "%s is %s; accepted: an object", fields->name,
                           pz_json_brief(fields->root, found, sizeof found));
  pz_error_at(fields->err, fields->name, 0, 0);
}

/* The first alternative of `keys` that is present, and its name in `key`; or NULL, and the name of
 * the first alternative. */
static const json_t *find_value(struct pz_fields *fields, const char *keys, char *key,
                                size_t size) {
  remember_keys(fields, keys);
  check_root(fields);
  for (const char *at = keys; *at;) {
    size_t n = strcspn(at, "|");
    const json_t *value = value_at_path(fields, copy_part(key, size, at, n));
    if (value && !json_is_null(value)) return value;
    at += n + (at[n] == '|');
  }
  copy_part(key, size, keys, strcspn(keys, "|"));
  return NULL;
}

void pz_fields_refuse(struct pz_fields *fields, const char *keys, const char *accepted) {
  char key[64];
  const json_t *value = find_value(fields, keys, key, sizeof key);
  refuse_value(fields, key, value, accepted);
}

const json_t *pz_fields_value(struct pz_fields *fields, const char *keys) {
  char key[64];
  return find_value(fields, keys, key, sizeof key);
}

void pz_fields_allow(struct pz_fields *fields, const char *const *keys, size_t n) {
  for (size_t i = 0; i < n; i++) remember_keys(fields, keys[i]);
}

static int64_t read_int(struct pz_fields *fields, const char *keys, struct pz_range range,
                        bool must, int64_t absent) {
  char key[64], accepted[80];
  const json_t *value = find_value(fields, keys, key, sizeof key);
  if (fields->status != PZ_OK || (!value && !must)) return absent;
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

static double read_real(struct pz_fields *fields, const char *keys, double min, double max,
                        bool must, double absent) {
  char key[64], accepted[80];
  const json_t *value = find_value(fields, keys, key, sizeof key);
  if (fields->status != PZ_OK || (!value && !must)) return absent;
  double x = json_number_value(value);
  if (json_is_number(value) && x >= min && x <= max) return x;
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

bool pz_fields_bool_or(struct pz_fields *fields, const char *keys, bool absent) {
  char key[64];
  const json_t *value = find_value(fields, keys, key, sizeof key);
  if (fields->status != PZ_OK || !value) return absent;
  if (!json_is_boolean(value)) refuse_value(fields, key, value, "true or false");
  return json_is_true(value);
}

const char *pz_fields_text_or(struct pz_fields *fields, const char *keys, const char *absent) {
  char key[64];
  const json_t *value = find_value(fields, keys, key, sizeof key);
  if (fields->status != PZ_OK || !value) return absent;
  bool good = json_is_string(value) && pz_text_is_plain(json_string_value(value));
  if (!good)
    refuse_value(fields, key, value,
                 json_is_string(value) ? "a string without control characters" : "a string");
  return good ? json_string_value(value) : absent;
}

/* The value times the power of 1000 that brings it nearest to the middle of the usual range, or
 * NULL if none brings it into the range. */
static const char *meant_number(const struct pz_key *row, double value, char *buf, size_t size) {
  enum { LARGEST_POWER = 18 };
  double middle = row->usual_min > 0 ? sqrt(row->usual_min * row->usual_max) : row->usual_max;
  double least_distance = HUGE_VAL;
  for (int power = -LARGEST_POWER; power <= LARGEST_POWER; power += 3) {
    double meant = value * pow(10, power), distance = fabs(log(meant / middle));
    bool usual = meant >= row->usual_min && meant <= row->usual_max;
    if (!usual || distance >= least_distance) continue;
    least_distance = distance;
    if (row->type == PZ_KEY_INT)
      snprintf(buf, size, "%.0f", meant);
    else if (value >= 1e-3 && value < 1e5)
      snprintf(buf, size, "%ge%d", value, power);
    else
      snprintf(buf, size, "%g", meant);
  }
  return isfinite(least_distance) ? buf : NULL;
}

static void usual_range_text(const struct pz_key *row, char *buf, size_t size) {
  const char *zero = row->min > 0 || !(row->usual_min > 0) ? "" : "0, ";
  if (row->type == PZ_KEY_INT)
    snprintf(buf, size, "%s%.0f to %.0f", zero, row->usual_min, row->usual_max);
  else
    snprintf(buf, size, "%s%g to %g", zero, row->usual_min, row->usual_max);
}

void pz_fields_check_usual(struct pz_fields *fields, const struct pz_key *row) {
  char key[64], range[64], meant[40];
  const json_t *v = find_value(fields, row->key, key, sizeof key);
  double value = json_number_value(v);
  bool readable = row->type == PZ_KEY_INT ? json_is_integer(v) : json_is_number(v);
  bool usual = value >= row->usual_min && value <= row->usual_max;
  if (fields->status != PZ_OK || fields->any_units || !(row->usual_max > 0) || !readable ||
      !(value > 0) || usual)
    return;
  bool bytes = row->unit[0] == 'B';
  const char *number = meant_number(row, value, meant, sizeof meant);
  usual_range_text(row, range, sizeof range);
  fields->status =
      pz_fail(fields->err, PZ_BAD_INPUT,
              "%s: field '%s' is %g %s%s%s%s%s accepted: %s; \"any_units\": true in the file, or "
              "--any-units, accepts it",
              fields->name, key, value, bytes ? "bytes" : row->unit, bytes ? row->unit + 1 : "",
              number ? "; did you mean " : ";", number ? number : "", number ? "?" : "", range);
  pz_error_at(fields->err, fields->name, 0, 0);
}

void pz_fields_read(struct pz_fields *fields, const struct pz_key *row, void *out) {
  void *at = (char *)out + row->offset;
  struct pz_range range = {(int64_t)row->min, (int64_t)row->max};
  bool must = row->absent == PZ_KEY_MUST;
  pz_fields_check_usual(fields, row);
  if (row->type == PZ_KEY_INT)
    *(int64_t *)at = must ? pz_fields_int(fields, row->key, range)
                          : pz_fields_int_or(fields, row->key, range, (int64_t)row->absent);
  else if (row->type == PZ_KEY_REAL)
    *(double *)at = must ? pz_fields_real(fields, row->key, row->min, row->max)
                         : pz_fields_real_or(fields, row->key, row->min, row->max, row->absent);
  else if (row->type == PZ_KEY_FLAG)
    *(bool *)at = pz_fields_bool_or(fields, row->key, row->absent > 0);
  else if (row->type == PZ_KEY_TEXT)
    pz_text_plain(pz_text_copy(at, (size_t)row->max,
                               pz_fields_text_or(fields, row->key, must ? fields->name : "")));
}

static json_t *default_json(const struct pz_key *row) {
  bool whole = row->absent == (double)(int64_t)row->absent;
  if (row->type == PZ_KEY_FLAG) return json_boolean(row->absent > 0);
  if (row->type == PZ_KEY_TEXT) return json_string("");
  return whole ? json_integer((json_int_t)row->absent) : json_real(row->absent);
}

void pz_key_describe(const struct pz_key *row, const char *accepted, json_t *list) {
  static const char absent[] = "; absent: ";
  const char *words = strstr(row->about, absent);
  size_t length = words ? (size_t)(words - row->about) : strlen(row->about);
  bool must = row->absent == PZ_KEY_MUST && !words;
  char range[80] = "text";
  if (row->type == PZ_KEY_FLAG) pz_text_copy(range, sizeof range, "true, false");
  if (row->type == PZ_KEY_INT) snprintf(range, sizeof range, "%.0f to %.0f", row->min, row->max);
  if (row->type == PZ_KEY_REAL) snprintf(range, sizeof range, "%g to %g", row->min, row->max);
  if (row->usual_max > 0) usual_range_text(row, range, sizeof range);
  json_t *object =
      json_pack("{s:s,s:s,s:s,s:b,s:s%}", "field", row->key, "unit", row->unit, "accepted",
                accepted ? accepted : range, "required", must, "meaning", row->about, length);
  if (words)
    json_object_set_new(object, "absent", json_string(words + sizeof absent - 1));
  else if (!must)
    json_object_set_new(object, "default", default_json(row));
  json_array_append_new(list, object);
}

/* ---- unknown keys ------------------------------------------------------------- */

enum { LONGEST_KEY = 64 };

/* The names that are known within one object: the parts behind `prefix` of the keys that were asked
 * for. */
struct known_names {
  char name[PZ_FIELDS_MOST][LONGEST_KEY];
  size_t n;
};

static const char *known_name(const void *ctx, size_t i) {
  const struct known_names *names = ctx;
  return i < names->n ? names->name[i] : NULL;
}

static void add_known_name(struct known_names *names, const char *name, size_t length) {
  char text[LONGEST_KEY];
  snprintf(text, sizeof text, "%.*s", (int)length, name);
  for (size_t i = 0; i < names->n; i++)
    if (strcmp(names->name[i], text) == 0) return;
  if (names->n == PZ_FIELDS_MOST) return;
  memcpy(names->name[names->n], text, sizeof text);
  names->n++;
}

static void list_known_names(const struct pz_fields *fields, const char *prefix,
                             struct known_names *names) {
  size_t before = strlen(prefix);
  names->n = 0;
  for (int i = 0; i < fields->n_asked; i++)
    for (const char *at = fields->asked[i]; *at;) {
      size_t n = strcspn(at, "|");
      if (n > before && strncmp(at, prefix, before) == 0)
        add_known_name(names, at + before, strcspn(at + before, ".|"));
      at += n + (at[n] == '|');
    }
}

enum key_kind { UNKNOWN_KEY, FIELD_KEY, OBJECT_KEY };

/* Was a key asked for as a field, or only fields inside of it, which makes it an object? */
static enum key_kind kind_of_key(const struct pz_fields *fields, const char *path) {
  size_t length = strlen(path);
  enum key_kind kind = UNKNOWN_KEY;
  for (int i = 0; i < fields->n_asked; i++)
    for (const char *at = fields->asked[i], *bar; at; at = bar ? bar + 1 : NULL) {
      bar = strchr(at, '|');
      if (strncmp(at, path, length) != 0) continue;
      if (!at[length] || at[length] == '|') return FIELD_KEY;
      if (at[length] == '.') kind = OBJECT_KEY;
    }
  return kind;
}

/* Are two keys equal if '.' and '_' count as the same character? */
static bool same_path(const char *a, const char *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool joint = (a[i] == '.' || a[i] == '_') && (b[i] == '.' || b[i] == '_');
    if (a[i] != b[i] && !joint) return false;
  }
  return true;
}

/* A key like "hbm_stacks" or "hbm.stacks" is meant for the field stacks of the object hbm.  Writes
 * that path into buf, or returns false. */
static bool find_meant_path(const struct pz_fields *fields, const char *key,
                            char buf[LONGEST_KEY]) {
  size_t length = strlen(key);
  for (int i = 0; i < fields->n_asked; i++)
    for (const char *at = fields->asked[i]; *at;) {
      size_t n = strcspn(at, "|");
      if (n == length && n < LONGEST_KEY && memchr(at, '.', n) && same_path(at, key, n)) {
        snprintf(buf, LONGEST_KEY, "%.*s", (int)n, at);
        return true;
      }
      at += n + (at[n] == '|');
    }
  return false;
}

/* Stores the error about an unknown key, also in the place of one about a missing field, which may
 * be the same field misspelt. */
static void refuse_key(struct pz_fields *fields, const char *prefix, const char *key) {
  struct known_names names;
  char list[600], path[LONGEST_KEY];
  int prefix_length = *prefix ? (int)strlen(prefix) - 1 : 0; /* without the dot */
  list_known_names(fields, prefix, &names);
  const char *near = pz_text_nearest(key, known_name, &names);
  if (fields->missing && fields->err) *fields->err = (struct pz_error){0};
  if (find_meant_path(fields, key, path)) {
    const char *leaf = strrchr(path, '.') + 1;
    fields->status =
        pz_fail(fields->err, PZ_BAD_INPUT,
                "%s: unknown key '%s%.60s'; did you mean '%s' (%s in the object '%.*s')?",
                fields->name, prefix, key, path, leaf, (int)(leaf - 1 - path), path);
  } else if (near)
    fields->status =
        pz_fail(fields->err, PZ_BAD_INPUT, "%s: unknown key '%s%.60s'; did you mean '%s%s'?",
                fields->name, prefix, key, prefix, near);
  else
    fields->status =
        pz_fail(fields->err, PZ_BAD_INPUT, "%s: unknown key '%s%.60s'; accepted%s%.*s: %s",
                fields->name, prefix, key, *prefix ? " in " : "", prefix_length, prefix,
                pz_text_join(list, sizeof list, known_name, &names));
  pz_error_at(fields->err, fields->name, 0, 0);
}

/* Checks the keys of an object and of the objects inside of it, no deeper than keys were asked for.
 * Returns false if one was refused. */
static bool check_keys(struct pz_fields *fields, const json_t *object, const char *prefix) {
  char path[2 * LONGEST_KEY];
  json_t *o = (json_t *)(uintptr_t)object; /* jansson's iterators have no const variant */
  for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
    const char *key = json_object_iter_key(it);
    int n = snprintf(path, sizeof path, "%s%s", prefix, key);
    bool is_path = strchr(key, '.'); /* a key "a.b" is not the field b of an object a */
    enum key_kind kind = n < LONGEST_KEY && !is_path ? kind_of_key(fields, path) : UNKNOWN_KEY;
    if (kind == UNKNOWN_KEY) {
      refuse_key(fields, prefix, key);
      return false;
    }
    snprintf(path, sizeof path, "%s%.60s.", prefix, key);
    if (kind == OBJECT_KEY && !check_keys(fields, json_object_iter_value(it), path)) return false;
  }
  return true;
}

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
