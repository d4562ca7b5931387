/* Collectives as training frameworks run them on a cluster of nodes: rings of libraries such as
 * NCCL, with the rates and latencies that they reach, rings along the axes of a torus, and dispatchers
 * of experts' tokens.  Facts of a generation of chips are those of the innermost level, pz_cost_set_chip;
 * constants stand in constants.def. */
#ifndef PZ_COST_NETWORK_H
#define PZ_COST_NETWORK_H

#include "chip/chip.h"

enum pz_collective {
  PZ_COLLECTIVE_ALL_REDUCE,
  PZ_COLLECTIVE_REDUCE_SCATTER,
  PZ_COLLECTIVE_ALL_GATHER,
  PZ_COLLECTIVE_ALL_TO_ALL,
  PZ_COLLECTIVE_SEND, /* point to point, over the outermost level the two may be apart */
};

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

/* Seconds that a large message takes besides those of its bytes: the library's start and the latency of the outermost level
 * that the group crosses. */
double pz_network_message_s(const struct pz_constants *k, const struct pz_cluster *net,
                            struct pz_group g);

/* Bytes/s of a device's interface that collectives reach on a level outside the innermost one. */
double pz_network_outer_rate(const struct pz_constants *k, const struct pz_level *l);

/* Does a group reach beyond the innermost level? */
bool pz_network_leaves(const struct pz_cluster *net, struct pz_group g);

/* Links of the innermost level, and interfaces to what is outside it: all that leaves it passes these. */
enum pz_wire { PZ_WIRE_INNER, PZ_WIRE_OUTER, PZ_WIRES };

/* A collective: its seconds, and those for which its bytes keep each kind of link of a device busy. */
struct pz_wire_time {
  double s, busy_s[PZ_WIRES];
};

/* A collective over a group on `bytes` (the undivided tensor; of an all-to-all what one device holds);
 * PZ_COLLECTIVE_SEND: from one member to the next.  0 for one device. */
struct pz_wire_time pz_network_time(const struct pz_constants *k, const struct pz_cluster *net,
                                    enum pz_collective kind, double bytes, struct pz_group g);

/* The seconds alone. */
double pz_network_s(const struct pz_constants *k, const struct pz_cluster *net,
                    enum pz_collective kind, double bytes, struct pz_group g);

/* Tokens of a device to the devices of their experts, or the results back and added up. */
struct pz_dispatch {
  enum pz_dispatcher dispatcher;
  bool combine; /* back */
  double tokens, token_bytes;
  double experts;    /* of a token, chosen evenly */
  double most_nodes; /* that a token's experts are on; 0: any */
  double cores;      /* that the dispatcher's kernels hold */
  struct pz_group group;
};

/* An all-to-all moves a token for every expert.  DeepEP and HybridEP send it at most once to each node, and inside a node
 * at most once to each device; combining, devices and nodes add up what they send back. */
struct pz_wire_time pz_dispatch_time(const struct pz_constants *k, const struct pz_cluster *net,
                                     const struct pz_dispatch *d);

/* Add `times` a collective. */
void pz_wire_add(struct pz_wire_time *to, const struct pz_wire_time *t, double times);

/* ---- rings inside each level of a network, from the chip outward -------------------------------- */

/* Seconds for a tensor of `bytes` (the undivided one) over a group of `devices`, packed innermost:
 * groups fill a level before they reach the next.  A ring of g on a level takes (g-1)/g of what is
 * left there over the link, and g-1 latencies, for each half (scatter, gather); an outer level has
 * 1/g of it left.  Zero for one device. */
double pz_collective_s(const struct pz_cluster *net, enum pz_collective kind, double bytes,
                       int64_t devices);

/* A flat network of one kind of link. */
struct pz_cluster pz_cluster_flat(int64_t devices, double bytes_per_s, double latency_s);

#endif
