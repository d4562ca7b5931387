#include "workload/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct pz_range PZ_RANGE_LAYERS = {1, 65536}, PZ_RANGE_HIDDEN = {1, 1 << 20},
                      PZ_RANGE_HEADS = {1, 65536}, PZ_RANGE_FFN = {1, 1 << 22},
                      PZ_RANGE_VOCAB = {1, 1 << 26}, PZ_RANGE_POSITIONS = {1, 1 << 26},
                      PZ_RANGE_EXPERTS = {1, 65536};

/* Field "a.b" is field b of the object a. */
static const json_t *descend(const json_t *root, const char *path) {
  size_t n = strcspn(path, ".");
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)n, path);
  const json_t *v = json_object_get(root, name);
  return path[n] && v ? descend(v, path + n + 1) : v;
}

/* The first alternative that is present; its name goes to key.  NULL (and the first name) if none
 * is. */
static const json_t *lookup(const struct pz_config *c, const char *keys, char *key, size_t size) {
  snprintf(key, size, "%.*s", (int)strcspn(keys, "|"), keys);
  for (const char *at = keys; *at;) {
    size_t n = strcspn(at, "|");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    const json_t *v = descend(c->root, name);
    if (v && !json_is_null(v)) {
      snprintf(key, size, "%s", name);
      return v;
    }
    at += n + (at[n] == '|');
  }
  return NULL;
}

static void refuse(struct pz_config *c, const char *key, const json_t *value,
                   const char *accepted) {
  if (c->status != PZ_OK) return;
  char found[80];
  if (value)
    c->status = pz_fail(c->err, PZ_BAD_INPUT, "%s: field '%s' is %s; accepted: %s", c->name, key,
                        pz_json_brief(value, found, sizeof found), accepted);
  else
    c->status = pz_fail(c->err, PZ_BAD_INPUT, "%s: field '%s' is missing; accepted: %s", c->name,
                        key, accepted);
  pz_error_at(c->err, c->name, 0, 0);
}

void pz_config_refuse(struct pz_config *c, const char *keys, const char *accepted) {
  char key[64];
  const json_t *v = lookup(c, keys, key, sizeof key);
  refuse(c, key, v, accepted);
}

bool pz_config_has(const struct pz_config *c, const char *key) {
  const json_t *v = json_object_get(c->root, key);
  return v && !json_is_null(v);
}

static int64_t read_int(struct pz_config *c, const char *keys, struct pz_range range, bool must,
                        int64_t absent) {
  char key[64], accepted[80];
  const json_t *v = lookup(c, keys, key, sizeof key);
  if (c->status != PZ_OK || (!v && !must)) return absent;
  int64_t n = v && json_is_integer(v) ? json_integer_value(v) : range.min - 1;
  if (n >= range.min && n <= range.max) return n;
  snprintf(accepted, sizeof accepted, "an integer from %" PRId64 " to %" PRId64, range.min,
           range.max);
  refuse(c, key, v, accepted);
  return range.min;
}

int64_t pz_config_int(struct pz_config *c, const char *keys, struct pz_range range) {
  return read_int(c, keys, range, true, range.min);
}

int64_t pz_config_int_or(struct pz_config *c, const char *keys, struct pz_range range,
                         int64_t absent) {
  return read_int(c, keys, range, false, absent);
}

double pz_config_real_or(struct pz_config *c, const char *keys, double min, double max,
                         double absent) {
  char key[64], accepted[80];
  const json_t *v = lookup(c, keys, key, sizeof key);
  if (c->status != PZ_OK || !v) return absent;
  double x = json_number_value(v);
  if (json_is_number(v) && x >= min && x <= max) return x;
  snprintf(accepted, sizeof accepted, "a number from %g to %g", min, max);
  refuse(c, key, v, accepted);
  return absent;
}

double pz_config_dropout(struct pz_config *c, const char *keys, double absent) {
  return pz_config_real_or(c, keys, 0, 0.999, absent);
}

bool pz_config_bool_or(struct pz_config *c, const char *keys, bool absent) {
  char key[64];
  const json_t *v = lookup(c, keys, key, sizeof key);
  if (c->status != PZ_OK || !v) return absent;
  if (!json_is_boolean(v)) refuse(c, key, v, "true or false");
  return json_is_true(v);
}

const char *pz_config_text_or(struct pz_config *c, const char *keys, const char *absent) {
  char key[64];
  const json_t *v = lookup(c, keys, key, sizeof key);
  if (c->status != PZ_OK || !v) return absent;
  if (!json_is_string(v)) refuse(c, key, v, "a string");
  return json_is_string(v) ? json_string_value(v) : absent;
}

enum pz_act pz_config_act(struct pz_config *c, const char *keys, const char *absent) {
  static const struct {
    const char *name;
    enum pz_act act;
  } known[] = {{"gelu", PZ_ACT_GELU},          {"gelu_pytorch_tanh", PZ_ACT_GELU},
               {"gelu_new", PZ_ACT_GELU_TANH}, {"gelu_fast", PZ_ACT_GELU_TANH},
               {"relu", PZ_ACT_RELU},          {"silu", PZ_ACT_SILU},
               {"swish", PZ_ACT_SILU}};
  const char *name = pz_config_text_or(c, keys, absent);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, known[i].name) == 0) return known[i].act;
  pz_config_refuse(c, keys, "gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, silu or swish");
  return PZ_ACT_GELU;
}
