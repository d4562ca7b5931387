#include "core/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void refuse(struct pz_fields *f, const char *key, const json_t *value,
                   const char *accepted) {
  if (f->status != PZ_OK) return;
  char found[80];
  if (value)
    f->status = pz_fail(f->err, PZ_BAD_INPUT, "%s: field '%s' is %s; accepted: %s", f->name, key,
                        pz_json_brief(value, found, sizeof found), accepted);
  else
    f->status = pz_fail(f->err, PZ_BAD_INPUT, "%s: field '%s' is missing; accepted: %s", f->name,
                        key, accepted);
  pz_error_at(f->err, f->name, 0, 0);
}

/* Field "a.b" is field b of the object a; an `a` that is no object is refused. */
static const json_t *descend(struct pz_fields *f, const char *path) {
  char name[64];
  const json_t *v = f->root;
  for (const char *at = path; v && *at;) {
    size_t n = strcspn(at, ".");
    snprintf(name, sizeof name, "%.*s", (int)(at + n - path), path);
    char leaf[64];
    snprintf(leaf, sizeof leaf, "%.*s", (int)n, at);
    v = json_object_get(v, leaf);
    at += n + (at[n] == '.');
    if (*at && v && !json_is_null(v) && !json_is_object(v)) {
      refuse(f, name, v, "an object");
      return NULL;
    }
  }
  return v;
}

/* The first alternative that is present; its name goes to key.  NULL (and the first name) if none
 * is. */
static const json_t *lookup(struct pz_fields *f, const char *keys, char *key, size_t size) {
  snprintf(key, size, "%.*s", (int)strcspn(keys, "|"), keys);
  for (const char *at = keys; *at;) {
    size_t n = strcspn(at, "|");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    const json_t *v = descend(f, name);
    if (v && !json_is_null(v)) {
      snprintf(key, size, "%s", name);
      return v;
    }
    at += n + (at[n] == '|');
  }
  return NULL;
}

void pz_fields_refuse(struct pz_fields *f, const char *keys, const char *accepted) {
  char key[64];
  const json_t *v = lookup(f, keys, key, sizeof key);
  refuse(f, key, v, accepted);
}

bool pz_fields_has(const struct pz_fields *f, const char *key) {
  const json_t *v = json_object_get(f->root, key);
  return v && !json_is_null(v);
}

static int64_t read_int(struct pz_fields *f, const char *keys, struct pz_range range, bool must,
                        int64_t absent) {
  char key[64], accepted[80];
  const json_t *v = lookup(f, keys, key, sizeof key);
  if (f->status != PZ_OK || (!v && !must)) return absent;
  int64_t n = v && json_is_integer(v) ? json_integer_value(v) : range.min - 1;
  if (n >= range.min && n <= range.max) return n;
  snprintf(accepted, sizeof accepted, "an integer from %" PRId64 " to %" PRId64, range.min,
           range.max);
  refuse(f, key, v, accepted);
  return range.min;
}

int64_t pz_fields_int(struct pz_fields *f, const char *keys, struct pz_range range) {
  return read_int(f, keys, range, true, range.min);
}

int64_t pz_fields_int_or(struct pz_fields *f, const char *keys, struct pz_range range,
                         int64_t absent) {
  return read_int(f, keys, range, false, absent);
}

static double read_real(struct pz_fields *f, const char *keys, double min, double max, bool must,
                        double absent) {
  char key[64], accepted[80];
  const json_t *v = lookup(f, keys, key, sizeof key);
  if (f->status != PZ_OK || (!v && !must)) return absent;
  double x = json_number_value(v);
  if (json_is_number(v) && x >= min && x <= max) return x;
  snprintf(accepted, sizeof accepted, "a number from %g to %g", min, max);
  refuse(f, key, v, accepted);
  return absent;
}

double pz_fields_real(struct pz_fields *f, const char *keys, double min, double max) {
  return read_real(f, keys, min, max, true, min);
}

double pz_fields_real_or(struct pz_fields *f, const char *keys, double min, double max,
                         double absent) {
  return read_real(f, keys, min, max, false, absent);
}

bool pz_fields_bool_or(struct pz_fields *f, const char *keys, bool absent) {
  char key[64];
  const json_t *v = lookup(f, keys, key, sizeof key);
  if (f->status != PZ_OK || !v) return absent;
  if (!json_is_boolean(v)) refuse(f, key, v, "true or false");
  return json_is_true(v);
}

const char *pz_fields_text_or(struct pz_fields *f, const char *keys, const char *absent) {
  char key[64];
  const json_t *v = lookup(f, keys, key, sizeof key);
  if (f->status != PZ_OK || !v) return absent;
  if (!json_is_string(v)) refuse(f, key, v, "a string");
  return json_is_string(v) ? json_string_value(v) : absent;
}
