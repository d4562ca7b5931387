/* The network between chips: levels from the chip outward, each joining groups of the one before.
 */
#ifndef PZ_CHIP_CLUSTER_H
#define PZ_CHIP_CLUSTER_H

#include "core/json.h"

enum { PZ_CLUSTER_MOST_LEVELS = 8 };

struct pz_level {
  char name[32];
  int64_t devices;    /* that one group of this level spans */
  double bytes_per_s; /* of one device, one direction */
  double latency_s;   /* of one message */
};

struct pz_cluster {
  char name[48], about[160];
  int64_t devices;
  int64_t stated_devices; /* before pz_cluster_reach */
  bool scales;            /* the outermost level may have any number of devices */
  int n_levels;
  struct pz_level level[PZ_CLUSTER_MOST_LEVELS];
};

/* A preset's name or the path of a cluster.json. */
PZ_NODISCARD enum pz_status pz_cluster_load(const char *cluster, struct pz_cluster *out,
                                            struct pz_error *err);
PZ_NODISCARD enum pz_status pz_cluster_parse(const char *name, const char *text, size_t bytes,
                                             struct pz_cluster *out, struct pz_error *err);

/* Have at least so many devices: one that scales grows at its outermost level, at the rates that it
 * has there; for another that has fewer it is PZ_BAD_USE.  `option` is the one that asks. */
PZ_NODISCARD enum pz_status pz_cluster_reach(struct pz_cluster *c, int64_t devices,
                                             const char *option, struct pz_error *err);

const char *pz_cluster_preset_name(size_t i);

/* In the layout that pz_cluster_parse reads; the reference is the caller's. */
json_t *pz_cluster_json(const struct pz_cluster *c);

/* The innermost level that joins so many devices, or the outermost where none does; NULL where the
 * network has no levels. */
const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices);

#endif
