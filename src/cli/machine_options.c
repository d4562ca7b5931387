#include "cli/machine_options.h"

enum pz_status pz_machine_cost(const struct pz_machine_options *o, struct pz_cost *cost,
                               struct pz_error *err) {
  struct pz_chip chip;
  struct pz_cluster net;
  enum pz_status status = pz_chip_load(o->chip, &chip, err);
  if (status == PZ_OK && o->cluster) status = pz_cluster_load(o->cluster, &net, err);
  if (status == PZ_OK) pz_cost_init(cost, &chip, o->cluster ? &net : NULL);
  return status;
}
