#include "chip/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chip/embedded.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/num.h"
#include "core/text.h"

static const struct pz_range DEVICES = {1, 1LL << 32};
enum { MOST_BYTES = 1 << 20 };

/* Axes of a torus: of the innermost level only, whose devices they hold. */
static void read_torus(struct pz_fields *g, bool innermost, struct pz_level *l) {
  const json_t *list = pz_fields_value(g, "torus");
  char accepted[80];
  l->wrap = pz_fields_int_or(g, "wrap", DEVICES, 1);
  if (!list) return;
  size_t n = json_array_size(list);
  int64_t product = 1;
  for (size_t i = 0; i < n && i < PZ_CLUSTER_MOST_AXES; i++) {
    l->axis[i] = json_integer_value(json_array_get(list, i));
    bool fits = l->axis[i] >= 2 && l->axis[i] <= l->devices / pz_max(product, 1);
    product = fits ? product * l->axis[i] : 0;
  }
  l->n_axes = (int)pz_min((int64_t)n, PZ_CLUSTER_MOST_AXES);
  snprintf(accepted, sizeof accepted, "1 to %d lengths whose product is the %" PRId64 " devices",
           PZ_CLUSTER_MOST_AXES, l->devices);
  if (n < 1 || n > PZ_CLUSTER_MOST_AXES || product != l->devices)
    pz_fields_refuse(g, "torus", accepted);
  else if (!innermost)
    pz_fields_refuse(g, "torus", "on the innermost level only");
}

/* Each level joins groups of the one inside it, and the last spans all devices. */
static void read_level(struct pz_fields *f, const json_t *item, struct pz_cluster *c) {
  char where[300], accepted[80];
  snprintf(where, sizeof where, "%.200s: levels[%d]", f->name, c->n_levels);
  struct pz_fields g = {.name = where, .root = item, .err = f->err, .status = f->status};
  struct pz_level *l = &c->level[c->n_levels];
  int64_t inner = c->n_levels ? c->level[c->n_levels - 1].devices : 0;
  pz_text_copy(l->name, sizeof l->name, pz_fields_text_or(&g, "name", "link"));
  l->devices = pz_fields_int(&g, "devices", DEVICES);
  l->bytes_per_s = pz_fields_real(&g, "bytes_per_s", 1, 1e18);
  l->latency_s = pz_fields_real_or(&g, "latency_s", 0, 1, 0);
  read_torus(&g, !c->n_levels, l);
  if (g.status == PZ_OK && l->devices <= inner)
    pz_fields_refuse(&g, "devices", "more than the level inside it has");
  snprintf(accepted, sizeof accepted, "a multiple of the %" PRId64 " of the level inside it",
           inner);
  if (g.status == PZ_OK && inner && l->devices % inner) pz_fields_refuse(&g, "devices", accepted);
  double faster = c->n_levels ? c->level[c->n_levels - 1].bytes_per_s : l->bytes_per_s;
  snprintf(accepted, sizeof accepted, "at most the %g of the level inside it", faster);
  if (g.status == PZ_OK && l->bytes_per_s > faster) pz_fields_refuse(&g, "bytes_per_s", accepted);
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

enum pz_status pz_cluster_parse(const char *name, const char *text, size_t bytes,
                                struct pz_cluster *out, struct pz_error *err) {
  static const char *const words[] = {"sources"};
  json_t *root = NULL;
  enum pz_status status = pz_need(name, "name", err);
  if (status == PZ_OK) status = pz_need(text, "text", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields f = {.name = name, .root = root, .err = err};
  struct pz_cluster c = {0};
  pz_text_plain(pz_text_copy(c.name, sizeof c.name, pz_fields_text_or(&f, "name", name)));
  pz_text_copy(c.about, sizeof c.about, pz_fields_text_or(&f, "about", ""));
  c.devices = c.stated_devices = pz_fields_int(&f, "devices", DEVICES);
  c.scales = pz_fields_bool_or(&f, "scales", false);
  pz_fields_allow(&f, words, 1);
  read_levels(&f, &c);
  status = pz_fields_finish(&f);
  json_decref(root);
  if (status == PZ_OK) *out = c;
  return status;
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
                   "--%s %" PRId64 ": cluster %s has %" PRId64
                   " device%s; accepted: at most %" PRId64
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

static const char *preset_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_cluster_preset_name(i);
}

enum pz_status pz_cluster_load(const char *cluster, struct pz_cluster *out, struct pz_error *err) {
  if (!cluster || !out) return pz_need(NULL, cluster ? "out" : "cluster", err);
  const char *preset = pz_embedded_text(pz_embedded_clusters, cluster);
  if (preset) return pz_cluster_parse(cluster, preset, strlen(preset), out, err);
  char list[400], meant[160], *text = NULL;
  size_t bytes = 0;
  if (!pz_file_named(cluster))
    return pz_fail(err, PZ_BAD_INPUT,
                   "unknown cluster '%s'%s; accepted: %s, or the path of a cluster.json", cluster,
                   pz_text_meant(meant, sizeof meant, cluster, preset_name, NULL),
                   pz_text_join(list, sizeof list, preset_name, NULL));
  enum pz_status status = pz_file_read(cluster, MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_cluster_parse(cluster, text, bytes, out, err);
  pz_free(text);
  return status;
}

const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices) {
  int l = 0;
  while (l + 1 < net->n_levels && net->level[l].devices < devices) l++;
  return net->n_levels ? &net->level[l] : NULL;
}
