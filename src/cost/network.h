/* Collectives as training frameworks run them on a cluster: rings and trees of libraries such as
 * NCCL, with the rates and latencies that they reach, rings along the axes of a torus, and
 * dispatchers of tokens to experts.
 *
 * A network has levels, from the links inside a node outward (chip/chip.h).  A tensor of `bytes` is
 * the undivided one; for an all-to-all it is what one device holds.  Rates and latencies that a
 * cluster or a generation of chips has measured are in the levels (pz_cost_set_chip); all others
 * are in constants.def, passed as `constants`. */
#ifndef PZ_COST_NETWORK_H
#define PZ_COST_NETWORK_H

#include "chip/chip.h"

enum pz_collective {
  PZ_COLLECTIVE_ALL_REDUCE,
  PZ_COLLECTIVE_REDUCE_SCATTER,
  PZ_COLLECTIVE_ALL_GATHER,
  PZ_COLLECTIVE_ALL_TO_ALL,
  PZ_COLLECTIVE_SEND, /* from one member of a group to the next */
};

struct pz_constants;

/* A group of devices: every stride-th device, from the first on. */
struct pz_group {
  int64_t devices, stride;
};

/* Returns the rate of a ring over the group, in bytes/s: a pass moves (g-1)/g of the tensor at this
 * rate.  Inside the innermost level it is that of a device's links; across levels each level limits
 * it, with as many interfaces as members of the group are in one unit of the level below.  On a
 * torus, a job of net->devices has the most even shape, in whole cubes of side `wrap` if possible;
 * a group uses all axes that it is aligned with at the same time. */
double pz_network_rate(const struct pz_constants *constants, const struct pz_cluster *net,
                       struct pz_group group);

/* Returns the rate of a ring in which every device sends only to its neighbour.  Between nodes,
 * such a ring uses one interface, that of the device at the edge of the node. */
double pz_network_neighbour_rate(const struct pz_constants *constants, const struct pz_cluster *net,
                                 struct pz_group group);

/* Returns the seconds of a large message in addition to those of its bytes: the library's start-up
 * and the latency of the outermost level that the group crosses. */
double pz_network_message_s(const struct pz_constants *constants, const struct pz_cluster *net,
                            struct pz_group group);

/* Returns the rate that collectives reach on a device's interface to an outer level, in bytes/s. */
double pz_network_outer_rate(const struct pz_constants *constants, const struct pz_level *level);

/* Returns whether a group reaches beyond the innermost level. */
bool pz_network_crosses_levels(const struct pz_cluster *net, struct pz_group group);

/* Kinds of links of a device: those of the innermost level, and interfaces to outer levels. */
enum pz_wire { PZ_WIRE_INNER, PZ_WIRE_OUTER, PZ_WIRES };

/* The seconds of a collective, and the seconds for which its bytes occupy each kind of link. */
struct pz_wire_time {
  double s, busy_s[PZ_WIRES];
};

/* Returns the time of a collective over a group.  It is 0 for one device. */
struct pz_wire_time pz_network_time(const struct pz_constants *constants,
                                    const struct pz_cluster *net, enum pz_collective kind,
                                    double bytes, struct pz_group group);

/* Adds the time of a collective that is run `times` times to a sum. */
void pz_wire_add(struct pz_wire_time *sum, const struct pz_wire_time *time, double times);

/* Sends the tokens of a device to the devices of their experts (dispatch), or the results back,
 * where they are summed (combine). */
struct pz_dispatch {
  enum pz_dispatcher dispatcher;
  bool combine;
  double tokens, token_bytes; /* tokens of the device, and bytes of each */
  double experts;             /* number of experts of a token, which are chosen randomly */
  double most_nodes;          /* largest number of nodes with experts of a token, or 0 if any */
  double cores;               /* cores that the dispatcher's kernels occupy */
  struct pz_group group;
};

/* Returns the time of a dispatch or combine.  An all-to-all moves a copy of a token for each of its
 * experts.  DeepEP and HybridEP send a token at most once to each node, and inside a node at most
 * once to each device. */
struct pz_wire_time pz_dispatch_time(const struct pz_constants *constants,
                                     const struct pz_cluster *net,
                                     const struct pz_dispatch *dispatch);

/* ---- rings inside each level of a network, from the chip outward ----------------------------- */

/* Returns the seconds of a collective over `devices` devices that fill each level before they reach
 * the next, at the full rates of the links.  In each half (scatter and gather), a ring of g units
 * of a level moves (g-1)/g of the remaining tensor and has g-1 latencies, which leaves 1/g of the
 * tensor for the next level. */
double pz_collective_s(const struct pz_cluster *net, enum pz_collective kind, double bytes,
                       int64_t devices);

/* Returns a network of one level. */
struct pz_cluster pz_cluster_flat(int64_t devices, double bytes_per_s, double latency_s);

#endif
