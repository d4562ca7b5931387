/* Collectives as training frameworks run them on a cluster of nodes: rings of libraries such as
 * NCCL, with the rates and latencies that they reach, and rings along the axes of a torus.  Constants
 * stand in constants.def. */
#ifndef PZ_COST_NETWORK_H
#define PZ_COST_NETWORK_H

#include "cost/collective.h"

struct pz_constants;

/* A group of devices: every stride-th one, packed from the inside. */
struct pz_group {
  int64_t devices, stride;
};

/* Bytes/s at which a pass of a ring over the group takes (g-1)/g of the tensor: inside the innermost
 * level that joins it, or over that level's network with as many interfaces as members lie in one
 * group of the level below.
 *
 * On a torus a job of net->devices has the most even shape, in whole cubes of side `wrap` where it
 * can; axes belong to groups as far as they align, and those of a group are used together. */
double pz_network_rate(const struct pz_constants *k, const struct pz_cluster *net,
                       struct pz_group g);

/* The same of a ring in which every device sends to its neighbour alone: between nodes it has the interface of the device
 * at the node's edge. */
double pz_network_neighbour_rate(const struct pz_constants *k, const struct pz_cluster *net,
                                 struct pz_group g);

/* Does a group reach beyond the innermost level? */
bool pz_network_leaves(const struct pz_cluster *net, struct pz_group g);

/* Links of the innermost level, and interfaces to what is outside it: all that leaves it passes these. */
enum pz_wire { PZ_WIRE_INNER, PZ_WIRE_OUTER, PZ_WIRES };

/* A collective: its seconds, and those for which its bytes keep each kind of link of a device busy. */
struct pz_wire_time {
  double s, busy_s[PZ_WIRES];
};

/* A collective over a group on `bytes` (the undivided tensor; of an all-to-all what one device holds);
 * PZ_COLLECTIVE_SEND: from one member to the next.  0 for one device.  Of an all-to-all, `outer_part` of the bytes for
 * devices outside the innermost level really leave it: a row that several of them want may cross once and be copied on
 * the other side. */
struct pz_wire_time pz_network_time(const struct pz_constants *k, const struct pz_cluster *net,
                                    enum pz_collective kind, double bytes, struct pz_group g,
                                    double outer_part);

/* `bytes` that pass a device of a ring, at pz_network_rate, without latency. */
struct pz_wire_time pz_network_ring_time(const struct pz_constants *k, const struct pz_cluster *net,
                                         double bytes, struct pz_group g);

/* Of one collective, without its bytes. */
double pz_network_latency_s(const struct pz_constants *k, const struct pz_cluster *net,
                            enum pz_collective kind, struct pz_group g);

/* The seconds alone, with outer_part 1. */
double pz_network_s(const struct pz_constants *k, const struct pz_cluster *net,
                    enum pz_collective kind, double bytes, struct pz_group g);

/* Add `times` a collective. */
void pz_wire_add(struct pz_wire_time *to, const struct pz_wire_time *t, double times);

#endif
