#include "cli/machine_options.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/file.h"
#include "core/text.h"

bool pz_machine_reads(const struct pz_machine_options *o, const char *path) {
  return (o->chip && pz_file_named(o->chip) && pz_file_same(o->chip, path)) ||
         (o->cluster && pz_file_named(o->cluster) && pz_file_same(o->cluster, path));
}

void pz_machine_tell_scale(const struct pz_cluster *net) {
  if (net->devices > net->stated_devices)
    fprintf(stderr,
            "phaze: cluster %s: %" PRId64 " devices, scaled out from %" PRId64
            " at the rates of its outermost level\n",
            net->name, net->devices, net->stated_devices);
}

static const char *cluster_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_cluster_preset_name(i);
}

/* Devices of a training plan without a cluster: where the chip stands, or at the rate of its own link. */
static enum pz_status find_cluster(struct pz_machine_use use, struct pz_machine *m,
                                   struct pz_error *err) {
  const struct pz_chip *c = &m->chip;
  char list[400];
  bool known = pz_cluster_standard(c->name, &m->net);
  if (known && pz_cluster_needed(&m->net, use.devices)) {
    if (!use.quiet) pz_command_say("no --cluster: %s, in which %s stands", m->net.name, c->name);
    m->own_link = false;
  } else if (use.devices > 1 && !(c->link_bytes_per_s > 0)) {
    return pz_fail(err, PZ_BAD_USE,
                   "%" PRId64 " devices: %s has no link and stands in no known cluster; accepted: "
                   "--cluster with one of %s, or the path of a cluster.json",
                   use.devices, c->name, pz_text_join(list, sizeof list, cluster_name, NULL));
  } else if (!known && pz_chip_built(c) && use.devices > PZ_SERVER_DEVICES) {
    snprintf(m->warning, sizeof m->warning,
             "no --cluster, and none is known for %s: all %" PRId64
             " devices are linked at the chip's own rate",
             c->name, use.devices);
  }
  return PZ_OK;
}

json_t *pz_machine_warnings(const struct pz_machine *m) {
  json_t *list = json_array();
  if (*m->warning) json_array_append_new(list, json_string(m->warning));
  return list;
}

enum pz_status pz_machine_load(const struct pz_machine_options *o, struct pz_machine_use use,
                               struct pz_machine *out, struct pz_error *err) {
  enum pz_status status = pz_chip_load(o->chip, &out->chip, err);
  out->own_link = !o->cluster;
  out->warning[0] = '\0';
  if (status == PZ_OK && o->cluster) status = pz_cluster_load(o->cluster, &out->net, err);
  if (status == PZ_OK && !o->cluster && use.training) status = find_cluster(use, out, err);
  if (status == PZ_OK && !out->own_link)
    status = pz_cluster_reach(&out->net, use.devices, use.option, err);
  if (status != PZ_OK) return status;
  if (use.training && !out->own_link && !pz_cluster_has_chip(&out->net, out->chip.name))
    snprintf(out->warning, sizeof out->warning, "%s in cluster %s, which has %s", out->chip.name,
             out->net.name, out->net.chips);
  if (*out->warning) pz_command_warn(use.quiet, out->warning);
  if (!out->own_link && !use.quiet) pz_machine_tell_scale(&out->net);
  return PZ_OK;
}

enum pz_status pz_machine_cost(const struct pz_machine_options *o, struct pz_machine_use use,
                               struct pz_cost **cost, struct pz_error *err) {
  struct pz_machine m;
  enum pz_status status = pz_machine_load(o, use, &m, err);
  return status == PZ_OK ? pz_cost_new(&m.chip, m.own_link ? NULL : &m.net, cost, err) : status;
}
