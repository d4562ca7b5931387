/* Times of collectives on a network of levels.
 *
 * Terms of a collective: start-up of the library; latency of the hops of a ring or tree; bytes over
 * the rate of the slowest link; and a later start of the protocol for large messages.  Its
 * algorithm is the fastest of those that NCCL has: a ring, trees for small messages, and sums in
 * switches (NVLS).  Simplifications: nothing else uses the links; a job's groups are placed from
 * the first device on; all levels that a group crosses work at the same time, so that the slowest
 * one determines the rate; a protocol changes gradually with the size of messages.
 *
 * Symbols: n or g is the number of devices of a group.  A ring sends (n-1)/n of the tensor over
 * each link in one pass; an all-reduce has two passes (Patarasuk and Yuan, J. Parallel Distrib.
 * Comput. 69, 2009).  A "unit" of a level is a set of devices that it joins, such as a node. */
#include "cost/network.h"

#include <math.h>
#include <stdio.h>

#include "core/num.h"
#include "cost/constants.h"

/* ---- torus ----------------------------------------------------------------------------------- */

/* The axes of the part of a torus that a job occupies. */
struct shape {
  int n;      /* number of axes */
  bool cubes; /* the job consists of whole cubes, whose axes are rings */
  int64_t axis[PZ_CLUSTER_MOST_AXES];
};

/* Returns the most even shape of a number of devices: their prime factors are distributed over the
 * axes, the largest first, each to the axis that is shortest so far. */
static struct shape even_shape(int n_axes, int64_t devices) {
  struct shape shape = {.n = n_axes};
  for (int i = 0; i < n_axes; i++) shape.axis[i] = 1;
  while (devices > 1) {
    int64_t factor = 1, rest = devices;
    for (int64_t divisor = 2; divisor * divisor <= rest; divisor++)
      while (rest % divisor == 0) {
        factor = divisor;
        rest /= divisor;
      }
    if (rest > 1) factor = rest;
    int shortest = 0;
    for (int i = 1; i < n_axes; i++)
      if (shape.axis[i] < shape.axis[shortest]) shortest = i;
    shape.axis[shortest] *= factor;
    devices /= factor;
  }
  return shape;
}

/* The links of a torus that a group uses for a given order of the axes. */
struct torus_use {
  int shared;     /* axes that the group covers in part, whose links other groups use too */
  double links;   /* links of a device that the group uses, in both directions of all its axes */
  double hops;    /* hops of a ring around all its axes */
  double slowest; /* largest ratio of mean distance to links over all axes, for an all-to-all */
};

/* Returns the links that a group uses if devices are numbered along the first axis of `shape`, then
 * along the second, and so on.  Each axis covers a range of strides between devices, and the group,
 * with stride s, uses the axes whose range overlaps [s, s * devices).  In an all-to-all, data
 * travel a quarter of the way around a ring, in both directions, and a third of a line, whose
 * middle has one link in each direction. */
static struct torus_use use_in_order(const struct pz_level *level, const struct shape *shape,
                                     struct pz_group group) {
  struct torus_use use = {.shared = 0};
  int64_t inner = 1, end = group.stride * group.devices;
  for (int i = 0; i < shape->n; i++) {
    int64_t outer = inner * shape->axis[i];
    int64_t from = pz_max(group.stride, inner), to = pz_min(end, outer);
    if (to > from) {
      bool is_whole = from == inner && to == outer;
      /* An axis is a ring in whole cubes, or if it is as long as an axis of the torus. */
      bool wraps = shape->cubes;
      for (int a = 0; a < level->n_axes; a++)
        if (level->axis[a] == shape->axis[i]) wraps = true;
      bool ring = is_whole && wraps;
      double length = (double)to / (double)from;
      double links = (ring ? 2.0 : 1.0) * (double)inner / (double)from;
      if (!is_whole) use.shared++;
      use.links += links;
      use.hops += length - 1;
      use.slowest = pz_fmax(use.slowest, length / (ring ? 4 : 3) / links);
    }
    inner = outer;
  }
  return use;
}

/* Returns the shape of a job on a torus: whole cubes with level->wrap devices on each side, in the
 * most even shape, if these cubes divide the job, otherwise the most even shape of its devices. */
static struct shape job_shape(const struct pz_level *level, int64_t job_devices) {
  int64_t cube_devices = 1;
  for (int i = 0; i < level->n_axes && cube_devices <= job_devices; i++)
    cube_devices *= level->wrap;
  if (job_devices % cube_devices) return even_shape(level->n_axes, job_devices);
  struct shape shape = even_shape(level->n_axes, job_devices / cube_devices);
  shape.cubes = true;
  for (int i = 0; i < shape.n; i++) shape.axis[i] *= level->wrap;
  return shape;
}

/* Returns the links that a group of a job uses in the best order of the job's axes: the order in
 * which it shares the fewest axes with other groups of the job, and among those has the most links.
 * It tries every rotation of the axes, with and without an exchange of the first two, which gives
 * all orders of up to three axes. */
static struct torus_use torus_use(const struct pz_cluster *net, struct pz_group group) {
  const struct pz_level *level = &net->level[0];
  group.devices = pz_max(1, pz_min(group.devices, level->devices / pz_max(1, group.stride)));
  int64_t job_devices = pz_max(net->devices, group.devices * group.stride);
  struct shape shape = job_shape(level, pz_min(job_devices, level->devices));
  struct torus_use best = use_in_order(level, &shape, group);
  for (int rotation = 0; rotation < shape.n; rotation++)
    for (int exchange = 0; exchange < 2; exchange++) {
      struct shape order = shape;
      for (int i = 0; i < shape.n; i++) order.axis[i] = shape.axis[(rotation + i) % shape.n];
      if (exchange && shape.n > 1) {
        int64_t first = order.axis[0];
        order.axis[0] = order.axis[1];
        order.axis[1] = first;
      }
      struct torus_use use = use_in_order(level, &order, group);
      bool is_better =
          use.shared < best.shared || (use.shared == best.shared && use.links > best.links);
      if (is_better) best = use;
    }
  return best;
}

/* Returns the bytes/s of one link of a device of a torus in one direction. */
static double torus_link_rate(const struct pz_constants *constants, const struct pz_level *level) {
  return level->bytes_per_s * constants->torus_efficiency / (2.0 * level->n_axes);
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* Returns the bytes/s of a device's links to the other members of a group with `members` members in
 * the innermost level.  In a mesh (links between all pairs of devices) only links between members
 * count. */
static double member_rate(const struct pz_level *level, double members) {
  double part = (pz_fmax(members, 2) - 1) / (double)pz_max(level->devices - 1, 1);
  return level->bytes_per_s * (level->mesh ? pz_fmin(part, 1) : 1);
}

/* Returns the bytes/s that large messages reach from a device to its group in the innermost
 * level. */
static double reached_rate(const struct pz_constants *constants, const struct pz_level *level,
                           double members) {
  bool is_measured = level->collectives.efficiency > 0;
  return member_rate(level, members) *
         (is_measured ? level->collectives.efficiency : constants->ring_efficiency);
}

/* Returns the bytes/s that collectives reach on a device's interface to an outer level. */
double pz_network_outer_rate(const struct pz_constants *constants, const struct pz_level *level) {
  bool is_measured = level->collectives.efficiency > 0;
  return level->bytes_per_s *
         (is_measured ? level->collectives.efficiency : constants->outer_efficiency);
}

/* Returns the start-up seconds of a collective: measured on the chip's link, or else a constant. */
static double startup_s(const struct pz_constants *constants, const struct pz_cluster *net) {
  double measured_s = net->level[0].collectives.startup_s;
  return measured_s > 0 ? measured_s : constants->ring_startup_s;
}

/* Returns the bytes/s of a pass of a ring whose members are all inside the innermost level.  The
 * ends of a ring copy data, which takes ring_extra steps. */
static double inner_rate(const struct pz_constants *constants, const struct pz_cluster *net,
                         struct pz_group group) {
  const struct pz_level *level = &net->level[0];
  if (level->n_axes)
    return pz_fmax(1, torus_use(net, group).links) * torus_link_rate(constants, level);
  double others = (double)(pz_max(group.devices, 2) - 1);
  return reached_rate(constants, level, others + 1) * others / (others + constants->ring_extra);
}

/* Returns the seconds of software for a hop between two devices, besides the network's latency. */
static double hop_software_s(const struct pz_constants *constants, const struct pz_cluster *net) {
  return constants->ring_hop * startup_s(constants, net);
}

/* ---- groups that cross levels ---------------------------------------------------------------- */

/* Returns the members of a group in one unit of a level.  The unit of level -1 is one device. */
static double members_in_unit(const struct pz_cluster *net, int level, struct pz_group group) {
  if (level < 0) return 1;
  if (level + 1 == net->n_levels) return (double)group.devices;
  int64_t inside = net->level[level].devices / pz_max(1, group.stride);
  return (double)pz_max(1, pz_min(group.devices, inside));
}

/* Rates and latencies of a group that crosses levels.  Each level that it crosses limits its rate,
 * because data that leave a unit pass the interfaces of its members once.  A message around a ring
 * or up a tree crosses each level as often as that level joins units. */
struct crossing {
  double members;    /* members in one unit of the innermost level */
  double rate;       /* rate of a ring in bytes/s */
  double outer_rate; /* rate of a ring over the outer levels alone, in bytes/s */
  double slowest;    /* rate of the slowest interface of a device, in bytes/s */
  double ring_hops;  /* hops between units in one turn of a ring */
  double ring_s;     /* latencies of one turn of a ring */
  double tree_s;     /* latencies from the leaves of a tree to its root */
  double message_s;  /* latency of one message between the members that are farthest apart */
  double start_s;    /* measured delay with which the protocol for large messages starts */
};

/* Returns rates and latencies of a group, from the levels that it crosses. */
static struct crossing find_crossing(const struct pz_constants *constants,
                                     const struct pz_cluster *net, struct pz_group group) {
  const struct pz_level *inner = &net->level[0];
  struct crossing crossing = {.members = members_in_unit(net, 0, group),
                              .message_s = inner->latency_s,
                              .outer_rate = HUGE_VAL};
  crossing.rate = inner->n_axes ? inner->bytes_per_s * constants->torus_efficiency
                                : reached_rate(constants, inner, (double)inner->devices);
  crossing.slowest = crossing.rate;
  if (!inner->n_axes) crossing.slowest *= constants->alltoall_efficiency;
  if (!inner->n_axes && crossing.members <= 1) {
    double others = (double)(pz_max(group.devices, 2) - 1);
    crossing.rate *= others / (others + constants->ring_extra);
  }
  if (crossing.members > 1)
    crossing.rate =
        inner_rate(constants, net, (struct pz_group){(int64_t)crossing.members, group.stride});
  for (int l = 1; l < net->n_levels; l++) {
    const struct pz_level *level = &net->level[l];
    double below = members_in_unit(net, l - 1, group);
    double units = members_in_unit(net, l, group) / below;
    if (!(units > 1)) continue;
    double rate = pz_network_outer_rate(constants, level);
    double hop_s = level->latency_s + hop_software_s(constants, net);
    double hops = ((double)group.devices / below) * (1 - 1 / units);
    crossing.outer_rate = pz_fmin(crossing.outer_rate, rate * below);
    crossing.slowest = pz_fmin(crossing.slowest, rate);
    crossing.ring_hops += hops;
    crossing.start_s = pz_fmax(crossing.start_s, level->collectives.startup_s);
    crossing.ring_s += hops * hop_s;
    crossing.tree_s += log2(units) * hop_s;
    crossing.message_s = pz_fmax(crossing.message_s, level->latency_s);
  }
  crossing.rate = pz_fmin(crossing.rate, crossing.outer_rate);
  return crossing;
}

/* Returns whether a group reaches beyond the innermost level, such as a node. */
bool pz_network_crosses_levels(const struct pz_cluster *net, struct pz_group group) {
  return net->n_levels > 1 && net->level[0].devices < group.devices * group.stride;
}

/* Returns the bytes/s of a ring: a pass moves (g-1)/g of the tensor at this rate. */
double pz_network_rate(const struct pz_constants *constants, const struct pz_cluster *net,
                       struct pz_group group) {
  return pz_network_crosses_levels(net, group) ? find_crossing(constants, net, group).rate
                                               : inner_rate(constants, net, group);
}

/* Returns the bytes/s of a ring that uses only one interface of a node, or one pair of a mesh. */
double pz_network_neighbour_rate(const struct pz_constants *constants, const struct pz_cluster *net,
                                 struct pz_group group) {
  const struct pz_level *inner = &net->level[0];
  double pair_part = member_rate(inner, 2) / member_rate(inner, (double)group.devices);
  if (inner->n_axes || !pz_network_crosses_levels(net, group))
    return pair_part * pz_network_rate(constants, net, group);
  struct crossing crossing = find_crossing(constants, net, group);
  return crossing.members > 1 ? pz_fmin(crossing.slowest, reached_rate(constants, inner, 2))
                              : crossing.slowest;
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Returns how many seconds later the protocol for large messages starts than those for small ones.
 * For each server that a ring passes, this is large_startup times the start-up of a collective;
 * inner_hops is the number of hops of the ring within units of the innermost level (0 if there is
 * no ring, which counts as one server).  If the group crosses levels, each of the outer_hops hops
 * between units adds hop_s, and the network adds a measured delay; otherwise `crossing` is NULL. */
static double later_start_s(const struct pz_constants *constants, const struct pz_cluster *net,
                            double inner_hops, const struct crossing *crossing, double outer_hops) {
  int hops_in_server = PZ_SERVER_DEVICES - 1;
  double servers = pz_fmax(1, inner_hops / hops_in_server);
  double inner_s = servers * startup_s(constants, net) * constants->large_startup;
  return crossing ? inner_s + (outer_hops * constants->hop_s + crossing->start_s) : inner_s;
}

/* Returns the seconds of a large message in addition to those of its bytes. */
double pz_network_message_s(const struct pz_constants *constants, const struct pz_cluster *net,
                            struct pz_group group) {
  struct crossing crossing = find_crossing(constants, net, group);
  return startup_s(constants, net) +
         later_start_s(constants, net, 0, &crossing, crossing.ring_hops > 0) +
         hop_software_s(constants, net) + crossing.message_s;
}

/* Returns the seconds of a collective whose bytes occupy the links for links_s and whose hops take
 * latency_s.  Protocols for small messages start at once but need small_rate times as long for the
 * bytes, and the protocol for large messages starts later_s later.  Libraries change gradually
 * between them: the extra time is a b / (a + b) for the extra times a and b of both protocols. */
static double collective_s(const struct pz_constants *constants, const struct pz_cluster *net,
                           double latency_s, double later_s, double links_s) {
  double slower_s = (constants->small_rate - 1) * links_s;
  double extra_s = slower_s > 0 ? later_s * slower_s / (later_s + slower_s) : 0;
  return startup_s(constants, net) + latency_s + links_s + extra_s;
}

/* Returns the time in which every member of a group sends `bytes` to the next member. */
static struct pz_wire_time send_time(const struct pz_constants *constants,
                                     const struct pz_cluster *net, double bytes,
                                     struct pz_group group) {
  struct pz_wire_time time = {.s = 0};
  const struct pz_level *inner = &net->level[0];
  bool crosses_levels = pz_network_crosses_levels(net, (struct pz_group){2, group.stride});
  double *busy_s = &time.busy_s[crosses_levels ? PZ_WIRE_OUTER : PZ_WIRE_INNER];
  if (!crosses_levels && inner->n_axes) {
    *busy_s = bytes / torus_link_rate(constants, inner);
    time.s = inner->latency_s + *busy_s;
    return time;
  }
  struct crossing crossing = find_crossing(constants, net, (struct pz_group){2, group.stride});
  double rate = crosses_levels ? crossing.slowest
                               : reached_rate(constants, inner, 2) * constants->alltoall_efficiency;
  *busy_s = bytes / rate;
  double latency_s = crossing.message_s + hop_software_s(constants, net);
  double later_s = later_start_s(constants, net, 0, &crossing, crossing.ring_hops);
  time.s = collective_s(constants, net, latency_s, later_s, *busy_s);
  return time;
}

/* Returns the time of an all-to-all, in which every device sends an equal part of its bytes to
 * every other device.  Data that leave a unit pass the interfaces at its edge, on all levels at the
 * same time, and the part for the device itself is copied.  Except in a mesh, the parts for other
 * nodes pass the links inside the node too. */
static struct pz_wire_time all_to_all_time(const struct pz_constants *constants,
                                           const struct pz_cluster *net, double bytes,
                                           struct pz_group group) {
  struct pz_wire_time time = {.s = 0};
  double n = (double)group.devices, own = members_in_unit(net, 0, group);
  double senders = net->level[0].mesh ? own : n; /* devices whose parts pass the inner links */
  double part_s =
      bytes / n /
      (reached_rate(constants, &net->level[0], senders) * constants->alltoall_efficiency);
  if (own > 1) time.busy_s[PZ_WIRE_INNER] = (own - 1 + constants->ring_extra) * part_s;
  double *outer_s = &time.busy_s[PZ_WIRE_OUTER];
  for (int l = 1; l < net->n_levels; l++) {
    double below = members_in_unit(net, l - 1, group);
    if (!(members_in_unit(net, l, group) > below)) continue;
    double rate = pz_network_outer_rate(constants, &net->level[l]) * constants->alltoall_efficiency;
    *outer_s = pz_fmax(*outer_s, (1 - below / n) * bytes / rate);
  }
  double links_s = pz_fmax((senders - 1 + constants->ring_extra) * part_s, *outer_s);
  struct crossing crossing = find_crossing(constants, net, group);
  double latency_s = crossing.message_s + hop_software_s(constants, net);
  time.s =
      collective_s(constants, net, latency_s,
                   later_start_s(constants, net, 0, &crossing, crossing.ring_hops > 0), links_s);
  return time;
}

/* Returns the seconds of the hops of one pass inside the innermost level: around a ring, and in
 * domains of many servers over trees that join the rings of the servers. */
static double inner_latency_s(const struct pz_constants *constants, const struct pz_cluster *net,
                              struct pz_group group) {
  const struct pz_level *level = &net->level[0];
  if (level->n_axes) return torus_use(net, group).hops * level->latency_s;
  double n = (double)group.devices, servers = pz_fmax(1, n / PZ_SERVER_DEVICES);
  double hops = pz_fmin(n, PZ_SERVER_DEVICES) - 1 + ceil(log2(servers));
  return hops * (level->latency_s + hop_software_s(constants, net));
}

/* Returns the time of a collective of one pass, or of two (all-reduce), whose members are all in
 * the innermost level.  It is the faster one of a ring and sums in the switches (NCCL's NVLS), for
 * which every device reads its part of the sum from the switches and writes it back. */
static struct pz_wire_time inner_time(const struct pz_constants *constants,
                                      const struct pz_cluster *net, double passes, double bytes,
                                      struct pz_group group) {
  const struct pz_level *level = &net->level[0];
  double n = (double)group.devices;
  double ring_links_s =
      (passes * (n - 1) + constants->ring_extra) / n * bytes / reached_rate(constants, level, n);
  double later_s = later_start_s(constants, net, n - 1, NULL, 0);
  double latency_s = passes * inner_latency_s(constants, net, group);
  struct pz_wire_time ring = {collective_s(constants, net, latency_s, later_s, ring_links_s),
                              {ring_links_s, 0}};
  bool switches_add = level->collectives.switch_efficiency > 0;
  bool is_all_reduce = passes > 1;
  if (!is_all_reduce || level->mesh || !switches_add) return ring;
  double hop_s = level->latency_s + hop_software_s(constants, net);
  double links_s =
      (1 + 1 / n) * bytes / (level->bytes_per_s * level->collectives.switch_efficiency);
  struct pz_wire_time sums = {collective_s(constants, net, constants->switch_hops * hop_s,
                                           later_start_s(constants, net, 0, NULL, 0), links_s),
                              {links_s, 0}};
  return sums.s < ring.s ? sums : ring;
}

/* Returns the time of a collective of one pass, or of two (all-reduce), whose group spans several
 * units of the innermost level, such as nodes.  Large messages use a ring, and small ones use trees
 * if their latency is shorter; an all-reduce is a reduce-scatter followed by an all-gather.
 * Between two units whose switches add up, two trees for half of the tensor each are faster: every
 * unit sends the tensor once, which a ring does nearly twice (NCCL's NVLS tree; two nodes of H100
 * reach 1.2 times the rate of their interfaces). */
static struct pz_wire_time outer_time(const struct pz_constants *constants,
                                      const struct pz_cluster *net, double passes, double bytes,
                                      struct pz_group group) {
  struct crossing crossing = find_crossing(constants, net, group);
  struct pz_group own = {(int64_t)crossing.members, group.stride};
  double n = (double)group.devices;
  double inner_s = own.devices > 1 ? inner_latency_s(constants, net, own) : 0;
  double pass_bytes = bytes * ((n - 1) / n);
  double links_s = pass_bytes / crossing.rate;
  double later_s =
      later_start_s(constants, net, n - n / crossing.members, &crossing, crossing.ring_hops);
  double ring_s = collective_s(constants, net, n / crossing.members * inner_s + crossing.ring_s,
                               later_s, links_s);
  double tree_s =
      startup_s(constants, net) + inner_s + crossing.tree_s + constants->small_rate * links_s;
  struct pz_wire_time time = {passes * pz_fmin(ring_s, tree_s), {0}};
  time.busy_s[PZ_WIRE_OUTER] = passes * pass_bytes / crossing.outer_rate;
  if (own.devices > 1)
    time.busy_s[PZ_WIRE_INNER] = passes * pass_bytes / inner_rate(constants, net, own);
  bool switches_add = net->level[0].collectives.switch_efficiency > 0;
  bool has_two_units = n == 2 * crossing.members, is_all_reduce = passes > 1;
  if (!is_all_reduce || !has_two_units || !switches_add) return time;
  struct pz_wire_time pair = {.busy_s[PZ_WIRE_OUTER] = bytes / crossing.outer_rate};
  if (own.devices > 1)
    pair.busy_s[PZ_WIRE_INNER] =
        inner_time(constants, net, passes, bytes, own).busy_s[PZ_WIRE_INNER];
  links_s = pz_fmax(pair.busy_s[PZ_WIRE_INNER], pair.busy_s[PZ_WIRE_OUTER]);
  pair.s = collective_s(constants, net, passes * (inner_s + crossing.tree_s), later_s, links_s);
  return pair.s < time.s ? pair : time;
}

/* Returns the time of a collective by the model for its kind, network and group. */
struct pz_wire_time pz_network_time(const struct pz_constants *constants,
                                    const struct pz_cluster *net, enum pz_collective kind,
                                    double bytes, struct pz_group group) {
  if (group.devices <= 1 || !net->n_levels || net->instant) return (struct pz_wire_time){.s = 0};
  if (kind == PZ_COLLECTIVE_SEND) return send_time(constants, net, bytes, group);
  bool crosses_levels = pz_network_crosses_levels(net, group);
  double n = (double)group.devices, passes = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  if (net->level[0].n_axes && !crosses_levels) {
    /* Inside a torus: link time, and a latency for each hop of a ring around all its axes. */
    struct torus_use use = torus_use(net, group);
    double rate = torus_link_rate(constants, &net->level[0]);
    double latency_s = net->level[0].latency_s * use.hops;
    double links_s = passes * (n - 1) / n * bytes / (pz_fmax(1, use.links) * rate);
    if (kind == PZ_COLLECTIVE_ALL_TO_ALL) links_s = pz_fmax(links_s, bytes * use.slowest / rate);
    return (struct pz_wire_time){passes * latency_s + links_s, {links_s, 0}};
  }
  if (kind == PZ_COLLECTIVE_ALL_TO_ALL) return all_to_all_time(constants, net, bytes, group);
  return crosses_levels ? outer_time(constants, net, passes, bytes, group)
                        : inner_time(constants, net, passes, bytes, group);
}

/* Adds the time of a collective that is run `times` times to *sum. */
void pz_wire_add(struct pz_wire_time *sum, const struct pz_wire_time *time, double times) {
  sum->s += times * time->s;
  for (int i = 0; i < PZ_WIRES; i++) sum->busy_s[i] += times * time->busy_s[i];
}

/* ---- dispatchers of tokens to experts -------------------------------------------------------- */

/* Returns how many of n devices or nodes are expected to have at least one of the experts of a
 * token, which chooses `choices` of them at random. */
static double expected_distinct(double n, double choices) {
  return n * (1 - pow(1 - 1 / n, choices));
}

/* Returns the time of a dispatch of tokens to their experts, or of a combine of the results.
 * DeepEP's cores copy a token for each device that needs it and sum the results, with a time for
 * each token, for its bytes, and for the bytes of each copy.  HybridEP's copy units are as fast as
 * the links.  The times a of the cores and b of a node's links overlap in part, as (a^n +
 * b^n)^(1/n) with n = copy_smooth.  Interfaces between nodes overlap with both. */
struct pz_wire_time pz_dispatch_time(const struct pz_constants *constants,
                                     const struct pz_cluster *net,
                                     const struct pz_dispatch *dispatch) {
  struct pz_group group = dispatch->group;
  double bytes = dispatch->tokens * dispatch->token_bytes, n = (double)group.devices;
  bool is_torus = net->n_levels && net->level[0].n_axes;
  if (group.devices <= 1 || !net->n_levels) return (struct pz_wire_time){.s = 0};
  if (dispatch->dispatcher == PZ_DISPATCHER_ALLTOALL || is_torus)
    return pz_network_time(constants, net, PZ_COLLECTIVE_ALL_TO_ALL, bytes * dispatch->experts,
                           group);
  struct crossing crossing = find_crossing(constants, net, group);
  /* The nodes and devices that are expected to need a copy of a token. */
  double members = crossing.members, nodes = ceil(n / members);
  double reached_nodes = expected_distinct(nodes, dispatch->experts);
  double copies = expected_distinct(n, dispatch->experts);
  if (dispatch->most_nodes > 0 && dispatch->most_nodes < reached_nodes) {
    reached_nodes = dispatch->most_nodes;
    copies = reached_nodes * expected_distinct(members, dispatch->experts / reached_nodes);
  }
  /* The time of the dispatcher's cores, then that of the links inside a node and between nodes. */
  double token_bytes = dispatch->token_bytes, cores_s = 0;
  if (dispatch->dispatcher == PZ_DISPATCHER_DEEPEP) {
    double token_s =
        constants->dispatch_token_s + token_bytes * copies * constants->dispatch_byte_s;
    if (dispatch->combine)
      token_s = constants->combine_token_s +
                token_bytes * (constants->combine_sum_byte_s + copies * constants->combine_byte_s);
    cores_s = dispatch->tokens * token_s / pz_fmax(1, dispatch->cores);
  }
  if (net->instant) return (struct pz_wire_time){.s = cores_s};
  struct pz_wire_time time = {
      .s = (dispatch->combine ? constants->combine_s : constants->dispatch_s) + crossing.message_s};
  if (nodes > 1)
    time.s += nodes * (dispatch->combine ? constants->combine_node_s : constants->dispatch_node_s);
  double *inner_s = &time.busy_s[PZ_WIRE_INNER], *outer_s = &time.busy_s[PZ_WIRE_OUTER];
  *inner_s =
      bytes * copies * (members - 1) / members / reached_rate(constants, &net->level[0], members);
  for (int l = 1; l < net->n_levels; l++) {
    double below = members_in_unit(net, l - 1, group), others = 1 - below / n;
    if (!(members_in_unit(net, l, group) > below)) continue;
    double rate = pz_fmin(crossing.rate, pz_network_outer_rate(constants, &net->level[l]));
    *outer_s = pz_fmax(*outer_s, bytes * reached_nodes * others / rate);
  }
  double smooth = constants->copy_smooth;
  double node_s = pow(pow(cores_s, smooth) + pow(*inner_s, smooth), 1 / smooth);
  time.s += pz_fmax(node_s, *outer_s);
  return time;
}

/* ---- rings inside each level ----------------------------------------------------------------- */

/* Returns the seconds of a collective at the full rates of the links, without a library's model: in
 * each half (scatter and gather), a ring on each level moves what the levels inside it left. */
double pz_collective_s(const struct pz_cluster *net, enum pz_collective kind, double bytes,
                       int64_t devices) {
  if (devices <= 1 || net->instant) return 0;
  if (kind == PZ_COLLECTIVE_SEND) {
    const struct pz_level *level = pz_cluster_level(net, devices);
    return level ? bytes / member_rate(level, 2) + level->latency_s : 0;
  }
  double s = 0, shard_bytes = bytes, halves = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  for (int l = 0; l < net->n_levels; l++) {
    /* The ring on level l joins `group` groups of the level below. */
    int64_t below = l ? net->level[l - 1].devices : 1;
    int64_t reach = pz_min(net->level[l].devices, devices);
    double group = reach <= below ? 1 : (double)pz_ceil_div(reach, below);
    double rate = member_rate(&net->level[l], group);
    s += halves * (group - 1) * (shard_bytes / group / rate + net->level[l].latency_s);
    /* In an all-to-all, every device also sends its whole tensor to the outer levels. */
    if (kind != PZ_COLLECTIVE_ALL_TO_ALL) shard_bytes /= group;
  }
  return s;
}

struct pz_cluster pz_cluster_flat(int64_t devices, double bytes_per_s, double latency_s) {
  struct pz_cluster net = {.devices = devices, .n_levels = 1};
  snprintf(net.name, sizeof net.name, "flat");
  net.level[0] = (struct pz_level){
      .name = "link", .devices = devices, .bytes_per_s = bytes_per_s, .latency_s = latency_s};
  return net;
}
