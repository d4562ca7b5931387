#include "chip/chip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chip/embedded.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/num.h"
#include "core/text.h"

static const struct pz_range DEVICES = {1, 1LL << 32};

enum { INT = PZ_KEY_INT, REAL = PZ_KEY_REAL, FLAG = PZ_KEY_FLAG, TEXT = PZ_KEY_TEXT };
enum { MUST = PZ_KEY_MUST };
static const struct pz_key fields[] = {
#define FIELD(name, type, member, min, max, absent, unit, ...)                                     \
  PZ_KEY(name, type, offsetof(struct pz_cluster, member), min, max, absent, unit, __VA_ARGS__),
#include "chip/cluster_fields.def"
};
static const struct pz_key level_fields[] = {
#define LEVEL(name, type, member, min, max, absent, unit, ...)                                     \
  PZ_KEY(name, type, offsetof(struct pz_level, member), min, max, absent, unit, __VA_ARGS__),
#include "chip/cluster_fields.def"
};
enum {
  FIELDS = sizeof fields / sizeof *fields,
  LEVEL_FIELDS = sizeof level_fields / sizeof *level_fields
};

/* The field of a level that cannot be, and what would be accepted; NULL: the level is right.  Each level joins groups of
 * the one inside it; axes of a torus and links of pairs are of the innermost only, whose devices they hold. */
static const char *level_fault(const struct pz_cluster *c, int i, char *accepted, size_t size) {
  const struct pz_level *l = &c->level[i], *inner = i ? l - 1 : NULL;
  int64_t product = 1;
  pz_text_copy(accepted, size, "a number from 1 to 1e18");
  if (!(l->bytes_per_s >= 1 && l->bytes_per_s <= 1e18)) return "bytes_per_s";
  pz_text_copy(accepted, size, "a number from 0 to 1");
  if (!(l->latency_s >= 0 && l->latency_s <= 1)) return "latency_s";
  const struct pz_collective_facts *f = &l->collectives;
  if (!(f->efficiency >= 0 && f->efficiency <= 1)) return "efficiency";
  if (!(f->startup_s >= 0 && f->startup_s <= 1)) return "startup_s";
  if (!(f->switch_efficiency >= 0 && f->switch_efficiency <= 1)) return "switch_efficiency";
  pz_text_copy(accepted, size, "an integer from 1 to 4294967296");
  if (l->devices < DEVICES.min || l->devices > DEVICES.max) return "devices";
  if (l->n_axes && (l->wrap < 1 || l->wrap > DEVICES.max)) return "wrap";
  for (int k = 0; k < l->n_axes && k < PZ_CLUSTER_MOST_AXES; k++) {
    bool fits = l->axis[k] >= 2 && l->axis[k] <= l->devices / pz_max(product, 1);
    product = fits ? product * l->axis[k] : 0;
  }
  snprintf(accepted, size, "1 to %d lengths whose product is the %" PRId64 " devices",
           PZ_CLUSTER_MOST_AXES, l->devices);
  if (l->n_axes < 0 || l->n_axes > PZ_CLUSTER_MOST_AXES || (l->n_axes && product != l->devices))
    return "torus";
  pz_text_copy(accepted, size, "without \"torus\"");
  if (l->mesh && l->n_axes) return "mesh";
  if (!inner) return NULL;
  pz_text_copy(accepted, size, "on the innermost level only");
  if (l->n_axes || l->mesh) return l->mesh ? "mesh" : "torus";
  if (l->collectives.switch_efficiency > 0) return "switch_efficiency";
  pz_text_copy(accepted, size, "more than the level inside it has");
  if (l->devices <= inner->devices) return "devices";
  snprintf(accepted, size, "a multiple of the %" PRId64 " of the level inside it", inner->devices);
  if (l->devices % inner->devices) return "devices";
  snprintf(accepted, size, "at most the %g of the level inside it", inner->bytes_per_s);
  return l->bytes_per_s > inner->bytes_per_s ? "bytes_per_s" : NULL;
}

enum pz_status pz_cluster_check(const struct pz_cluster *c, struct pz_error *err) {
  enum pz_status status = pz_need(c, "cluster", err);
  if (status == PZ_OK)
    status = pz_need_range("levels of the cluster", c->n_levels, 1, PZ_CLUSTER_MOST_LEVELS, err);
  if (status == PZ_OK &&
      !(memchr(c->name, 0, sizeof c->name) && memchr(c->about, 0, sizeof c->about) &&
        memchr(c->chips, 0, sizeof c->chips) && memchr(c->calibrated, 0, sizeof c->calibrated)))
    status = pz_fail(err, PZ_BAD_INPUT,
                     "cluster: accepted: name, about, chips and calibrated that end with NUL");
  if (status == PZ_OK && !(c->calibration_error >= 0 && c->calibration_error <= 10))
    status = pz_fail(err, PZ_BAD_INPUT, "cluster: calibration_error; accepted: 0 to 10");
  for (int i = 0; status == PZ_OK && i < c->n_levels; i++) {
    char accepted[80];
    const char *field = level_fault(c, i, accepted, sizeof accepted);
    if (field)
      status =
          pz_fail(err, PZ_BAD_INPUT, "cluster: levels[%d]: %s; accepted: %s", i, field, accepted);
  }
  if (status == PZ_OK && (c->devices < 1 || c->devices > c->level[c->n_levels - 1].devices))
    status = pz_fail(err, PZ_BAD_INPUT,
                     "cluster: %" PRId64 " devices; accepted: 1 to the devices of the last level",
                     c->devices);
  return status;
}

static void read_level(struct pz_fields *f, const json_t *item, struct pz_cluster *c) {
  char where[300], accepted[80];
  snprintf(where, sizeof where, "%.200s: levels[%d]", f->name, c->n_levels);
  struct pz_fields g = {.name = where, .root = item, .err = f->err, .status = f->status};
  g.any_units = f->any_units;
  struct pz_level *l = &c->level[c->n_levels];
  for (size_t i = 0; i < LEVEL_FIELDS; i++) pz_fields_read(&g, &level_fields[i], l);
  if (!pz_fields_value(&g, "name")) pz_text_copy(l->name, sizeof l->name, "link");
  const json_t *axes = pz_fields_value(&g, "torus");
  size_t n = json_array_size(axes);
  for (size_t i = 0; i < n && i < PZ_CLUSTER_MOST_AXES; i++)
    l->axis[i] = json_integer_value(json_array_get(axes, i));
  /* no array, and more lengths than there is space for, are faults too */
  l->n_axes = axes ? (n < 1 || n > PZ_CLUSTER_MOST_AXES ? -1 : (int)n) : 0;
  const char *field =
      g.status == PZ_OK ? level_fault(c, c->n_levels, accepted, sizeof accepted) : NULL;
  if (field) pz_fields_refuse(&g, field, accepted);
  c->n_levels++;
  f->status = pz_fields_finish(&g);
}

static void read_levels(struct pz_fields *f, struct pz_cluster *c) {
  const json_t *list = pz_fields_value(f, "levels"), *item;
  size_t i, n = json_array_size(list);
  char accepted[64];
  snprintf(accepted, sizeof accepted, "an array of 1 to %d levels", PZ_CLUSTER_MOST_LEVELS);
  if (n < 1 || n > PZ_CLUSTER_MOST_LEVELS) {
    pz_fields_refuse(f, "levels", accepted);
    return;
  }
  json_array_foreach(list, i, item) if (f->status == PZ_OK) read_level(f, item, c);
  if (f->status == PZ_OK && c->level[c->n_levels - 1].devices < c->devices)
    pz_fields_refuse(f, "devices", "at most the devices of the last level");
}

void pz_cluster_fields(json_t *list) {
  enum { OTHER = PZ_KEY_OTHER };
  static const struct pz_key
      levels = PZ_KEY(
          "levels", OTHER, 0, 0, 0, MUST, "",
          "The network, from the chip outward; each level joins groups of the one inside it"),
      torus = PZ_KEY("levels[].torus", OTHER, 0, 0, 0, 0, "",
                     "Innermost level: lengths of the axes of a torus, two links an axis; absent: "
                     "any device reaches any other"),
      sources = PZ_KEY("sources", OTHER, 0, 0, 0, 0, "",
                       "Where the numbers are from; not read; absent: none");
  for (size_t i = 0; i < FIELDS; i++) pz_key_describe(&fields[i], NULL, list);
  pz_key_describe(&levels, "a list of 1 to 8 objects", list);
  for (size_t i = 0; i < LEVEL_FIELDS; i++) {
    struct pz_key x = level_fields[i];
    char key[40];
    snprintf(key, sizeof key, "levels[].%s", x.key);
    x.key = key;
    pz_key_describe(&x, NULL, list);
  }
  pz_key_describe(&torus, "a list of 1 to 4 lengths of 2 or more whose product is devices", list);
  pz_key_describe(&sources, "anything", list);
}

static enum pz_status parse(const char *name, const char *text, size_t bytes, bool any_units,
                            struct pz_cluster *out, struct pz_error *err) {
  static const char *const words[] = {"sources"};
  json_t *root = NULL;
  enum pz_status status = pz_need_each(err, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields f = {.name = name, .root = root, .err = err};
  f.any_units = any_units || json_is_true(json_object_get(root, "any_units"));
  struct pz_cluster c = {0};
  for (size_t i = 0; i < FIELDS; i++) pz_fields_read(&f, &fields[i], &c);
  c.stated_devices = c.devices;
  c.any_units = f.any_units;
  pz_fields_allow(&f, words, 1);
  read_levels(&f, &c);
  status = pz_fields_finish(&f);
  json_decref(root);
  if (status == PZ_OK) *out = c;
  return status;
}

enum pz_status pz_cluster_parse(const char *name, const char *text, size_t bytes,
                                struct pz_cluster *out, struct pz_error *err) {
  return parse(name, text, bytes, false, out, err);
}

enum pz_status pz_cluster_reach(struct pz_cluster *c, int64_t devices, const char *option,
                                struct pz_error *err) {
  enum pz_status status = pz_need(c, "cluster", err);
  if (status == PZ_OK)
    status = pz_need_range("levels of the cluster", c->n_levels, 1, PZ_CLUSTER_MOST_LEVELS, err);
  if (status == PZ_OK) status = pz_need_range("devices", devices, 1, DEVICES.max, err);
  if (status != PZ_OK || devices <= c->devices) return status;
  if (!c->scales)
    return pz_fail(err, PZ_BAD_USE,
                   "%s %" PRId64 ": cluster %s has %" PRId64 " device%s; accepted: at most %" PRId64
                   ", or a cluster.json with \"scales\": true",
                   option ? option : "devices", devices, c->name, c->devices,
                   pz_text_s((double)c->devices), c->devices);
  struct pz_level *last = &c->level[c->n_levels - 1];
  int64_t inner = c->n_levels > 1 ? last[-1].devices : 1;
  if (last->devices < devices) last->devices = pz_ceil_div(devices, inner) * inner;
  c->devices = devices;
  return PZ_OK;
}

const char *pz_cluster_preset_name(size_t i) { return pz_embedded_name(pz_embedded_clusters, i); }

bool pz_cluster_has_chip(const struct pz_cluster *c, const char *chip) {
  char name[sizeof((struct pz_chip *)0)->name];
  pz_text_copy(name, sizeof name, chip);
  name[strcspn(name, ",")] = '\0'; /* "h100, calibrated with ..." */
  for (const char *at = c->chips; *(at += strspn(at, " ")); at += strcspn(at, " "))
    if (pz_text_is(at, strcspn(at, " "), name)) return true;
  return !*c->chips;
}

bool pz_cluster_standard(const char *chip, struct pz_cluster *out) {
  struct pz_cluster c;
  const char *name;
  for (size_t i = 0; (name = pz_cluster_preset_name(i)); i++) {
    if (pz_cluster_load(name, &c, NULL) != PZ_OK) continue;
    if (!c.standard || !pz_cluster_has_chip(&c, chip)) continue;
    *out = c;
    return true;
  }
  return false;
}

void pz_cluster_correct(struct pz_cluster *net, const struct pz_correction *c) {
  double times = pz_corrected(c->collectives);
  for (int i = 0; i < net->n_levels; i++) {
    net->level[i].bytes_per_s /= times;
    net->level[i].latency_s *= times;
    net->level[i].collectives.startup_s *= times;
  }
}

struct pz_collective_facts pz_cluster_facts(const struct pz_cluster *net,
                                            const struct pz_collective_facts *chip) {
  struct pz_collective_facts f = net->level[0].collectives;
  if (!(f.efficiency > 0)) f.efficiency = chip->efficiency;
  if (!(f.startup_s > 0)) f.startup_s = chip->startup_s;
  if (!(f.switch_efficiency > 0)) f.switch_efficiency = chip->switch_efficiency;
  return f;
}

int64_t pz_cluster_node(const struct pz_cluster *c) {
  int last = c->n_levels < PZ_CLUSTER_MOST_LEVELS ? c->n_levels : PZ_CLUSTER_MOST_LEVELS;
  int64_t node = c->level[0].devices;
  for (int l = 1; l + 1 < last && c->level[l].devices <= PZ_SERVER_DEVICES; l++)
    node = c->level[l].devices;
  return node;
}

void pz_cluster_join_equal(struct pz_cluster *net) {
  struct pz_level *l = net->level;
  while (net->n_levels > 1 && !l[0].n_axes && !l[0].mesh && l[0].bytes_per_s == l[1].bytes_per_s &&
         l[0].latency_s == l[1].latency_s && !(l[1].collectives.efficiency > 0)) {
    l[0].devices = l[1].devices;
    net->n_levels--;
    memmove(&l[1], &l[2], (size_t)(net->n_levels - 1) * sizeof *l);
  }
}

bool pz_cluster_needed(const struct pz_cluster *c, int64_t devices) {
  return devices > (c->level[0].n_axes || c->level[0].mesh ? 1 : c->level[0].devices);
}

enum pz_status pz_cluster_load(const char *cluster, struct pz_cluster *out, struct pz_error *err) {
  return pz_cluster_read_units(cluster, false, out, err);
}

enum pz_status pz_cluster_read_units(const char *cluster, bool any_units, struct pz_cluster *out,
                                     struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  if (!cluster || !out) return pz_need(NULL, cluster ? "out" : "cluster", err);
  enum pz_status status =
      pz_embedded_load(pz_embedded_clusters, "cluster", NULL, cluster, &text, &bytes, err);
  if (status == PZ_OK) status = parse(cluster, text, bytes, any_units, out, err);
  pz_free(text);
  return status;
}

const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices) {
  int l = 0;
  while (l + 1 < net->n_levels && net->level[l].devices < devices) l++;
  return net->n_levels ? &net->level[l] : NULL;
}

enum pz_status pz_cluster_take(const struct pz_cluster *net, int64_t devices,
                               struct pz_cluster *wide, const struct pz_cluster **out,
                               struct pz_error *err) {
  *out = NULL;
  if (!net) return PZ_OK;
  enum pz_status status = pz_cluster_check(net, err);
  if (status != PZ_OK) return status;
  *wide = *net;
  *out = wide;
  return pz_cluster_reach(wide, devices, "devices", err);
}
