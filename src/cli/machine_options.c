#include "cli/machine_options.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/file.h"

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

enum pz_status pz_machine_load(const struct pz_machine_options *o, struct pz_machine_use use,
                               struct pz_machine *out, struct pz_error *err) {
  enum pz_status status = pz_chip_load(o->chip, &out->chip, err);
  if (status == PZ_OK && o->cluster) status = pz_cluster_load(o->cluster, &out->net, err);
  if (status == PZ_OK && o->cluster)
    status = pz_cluster_reach(&out->net, use.devices, use.option, err);
  if (status != PZ_OK) return status;
  out->own_link = !o->cluster;
  if (o->cluster && !use.quiet) pz_machine_tell_scale(&out->net);
  return PZ_OK;
}

enum pz_status pz_machine_cost(const struct pz_machine_options *o, struct pz_machine_use use,
                               struct pz_cost **cost, struct pz_error *err) {
  struct pz_machine m;
  enum pz_status status = pz_machine_load(o, use, &m, err);
  return status == PZ_OK ? pz_cost_new(&m.chip, m.own_link ? NULL : &m.net, cost, err) : status;
}
