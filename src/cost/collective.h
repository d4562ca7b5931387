/* Collectives on a hierarchical network: rings inside each level, from the chip outward. */
#ifndef PZ_COST_COLLECTIVE_H
#define PZ_COST_COLLECTIVE_H

#include "chip/chip.h"

enum pz_collective {
  PZ_COLLECTIVE_ALL_REDUCE,
  PZ_COLLECTIVE_REDUCE_SCATTER,
  PZ_COLLECTIVE_ALL_GATHER,
  PZ_COLLECTIVE_ALL_TO_ALL,
  PZ_COLLECTIVE_SEND, /* point to point, over the outermost level the two may be apart */
};

/* Seconds for a tensor of `bytes` (the undivided one) over a group of `devices`, packed innermost:
 * groups fill a level before they reach the next.  A ring of g on a level takes (g-1)/g of what is
 * left there over the link, and g-1 latencies, for each half (scatter, gather); an outer level has
 * 1/g of it left.  Zero for one device. */
double pz_collective_s(const struct pz_cluster *net, enum pz_collective kind, double bytes,
                       int64_t devices);

/* A flat network of one kind of link. */
struct pz_cluster pz_cluster_flat(int64_t devices, double bytes_per_s, double latency_s);

#endif
