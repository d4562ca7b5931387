#include "cost/network.h"

#include <math.h>
#include <stdio.h>

#include "core/num.h"
#include "cost/constants.h"

/* The innermost level that spans so many consecutive devices. */
static int level_of(const struct pz_cluster *net, int64_t span) {
  int l = 0;
  while (l + 1 < net->n_levels && net->level[l].devices < span) l++;
  return l;
}

/* ---- torus ---------------------------------------------------------------------------------- */

struct shape {
  int n;
  bool cubes; /* a job of whole cubes */
  int64_t axis[PZ_CLUSTER_MOST_AXES];
};

static int64_t largest_factor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; p++)
    while (n % p == 0) largest = p, n /= p;
  return n > 1 ? n : largest;
}

/* Prime factors, the largest first, each to the axis that is shortest so far. */
static struct shape even_shape(int n_axes, int64_t devices) {
  struct shape s = {.n = n_axes};
  for (int i = 0; i < n_axes; i++) s.axis[i] = 1;
  while (devices > 1) {
    int64_t p = largest_factor(devices);
    int shortest = 0;
    for (int i = 1; i < n_axes; i++)
      if (s.axis[i] < s.axis[shortest]) shortest = i;
    s.axis[shortest] *= p;
    devices /= p;
  }
  return s;
}

/* What a job of so many devices occupies: whole cubes, which have wrap-around, where it can. */
static struct shape job_shape(const struct pz_level *l, int64_t devices) {
  int64_t cube = 1, n = pz_min(devices, l->devices);
  for (int i = 0; i < l->n_axes && cube <= n; i++) cube *= l->wrap;
  if (n % cube) return even_shape(l->n_axes, n);
  struct shape s = even_shape(l->n_axes, n / cube);
  s.cubes = true;
  for (int i = 0; i < s.n; i++) s.axis[i] *= l->wrap;
  return s;
}

/* Is an axis of a job closed?  Those of whole cubes are, and those as long as the torus. */
static bool is_ring(const struct pz_level *l, const struct shape *s, int64_t length) {
  for (int i = 0; i < l->n_axes; i++)
    if (l->axis[i] == length) return true;
  return s->cubes;
}

/* What a group has of the axes in one order: links of a device, and how far data travels. */
struct use {
  int torn;       /* axes that it shares with other groups */
  double links;   /* of both directions of all its axes */
  double hops;    /* of a ring around all its axes */
  double slowest; /* all-to-all: mean distance over links, on the axis where that is largest */
};

static struct use use_of(const struct pz_level *l, const struct shape *s, struct pz_group g) {
  struct use u = {.torn = 0};
  int64_t inner = 1, end = g.stride * g.devices;
  for (int i = 0; i < s->n; inner *= s->axis[i++]) {
    int64_t outer = inner * s->axis[i], from = pz_max(g.stride, inner), to = pz_min(end, outer);
    if (to <= from) continue;
    bool whole = from == inner && to == outer, ring = whole && is_ring(l, s, s->axis[i]);
    double length = (double)to / (double)from;
    double links = (ring ? 2.0 : 1.0) * (double)inner / (double)from;
    u.torn += !whole;
    u.links += links;
    u.hops += length - 1;
    /* on a ring a quarter of the way around, both ways; on a line a third, one link at its middle */
    u.slowest = pz_fmax(u.slowest, length / (ring ? 4 : 3) / links);
  }
  return u;
}

/* The order of axes that tears the fewest, then the one with most links: rotations, each also with its
 * first two exchanged, which are all orders of up to three axes. */
static struct use best_use(const struct pz_level *l, struct shape s, struct pz_group g) {
  struct use best = use_of(l, &s, g);
  for (int i = 0; i < 2 * s.n; i++) {
    struct shape t = s;
    for (int j = 0; j < s.n; j++) t.axis[j] = s.axis[(i / 2 + j) % s.n];
    if (i % 2 && s.n > 1) {
      int64_t first = t.axis[0];
      t.axis[0] = t.axis[1];
      t.axis[1] = first;
    }
    struct use u = use_of(l, &t, g);
    if (u.torn < best.torn || (u.torn == best.torn && u.links > best.links)) best = u;
  }
  return best;
}

static struct use torus_use(const struct pz_cluster *net, struct pz_group g) {
  const struct pz_level *l = &net->level[0];
  g.devices = pz_max(1, pz_min(g.devices, l->devices / pz_max(1, g.stride)));
  return best_use(l, job_shape(l, pz_max(net->devices, g.devices * g.stride)), g);
}

static double link_rate(const struct pz_constants *k, const struct pz_level *l) {
  return l->bytes_per_s * k->torus_efficiency / (2.0 * l->n_axes);
}

/* ---- rates ---------------------------------------------------------------------------------- */

/* Bytes/s of the links that a device has to the others of so many members of the innermost level: of a mesh those of its
 * pairs alone. */
static double member_rate(const struct pz_level *l, double members) {
  double part = (pz_fmax(members, 2) - 1) / (double)pz_max(l->devices - 1, 1);
  return l->bytes_per_s * (l->mesh ? pz_fmin(part, 1) : 1);
}

/* The same of large messages. */
static double reached_rate(const struct pz_constants *k, const struct pz_level *l, double members) {
  return member_rate(l, members) *
         (l->collectives.efficiency > 0 ? l->collectives.efficiency : k->ring_efficiency);
}

double pz_network_outer_rate(const struct pz_constants *k, const struct pz_level *l) {
  return l->bytes_per_s *
         (l->collectives.efficiency > 0 ? l->collectives.efficiency : k->outer_efficiency);
}

static double startup_s(const struct pz_constants *k, const struct pz_level *l) {
  return l->collectives.startup_s > 0 ? l->collectives.startup_s : k->ring_startup_s;
}

/* A pass of a ring whose members all lie inside the innermost level. */
static double inner_rate(const struct pz_constants *k, const struct pz_cluster *net,
                         struct pz_group g) {
  const struct pz_level *l = &net->level[0];
  if (l->n_axes) return pz_fmax(1, torus_use(net, g).links) * link_rate(k, l);
  double others = (double)(pz_max(g.devices, 2) - 1);
  return reached_rate(k, l, others + 1) * others / (others + k->ring_extra);
}

/* Members of a group that lie together in one unit of level l; the unit of level -1 is one device. */
static double members_at(const struct pz_cluster *net, int l, struct pz_group g) {
  if (l < 0) return 1;
  if (l + 1 == net->n_levels) return (double)g.devices;
  int64_t inside = net->level[l].devices / pz_max(1, g.stride);
  return (double)pz_max(1, pz_min(g.devices, inside));
}

/* What a group needs of the levels outside the innermost one.  Every level that it crosses bounds its rate: what leaves a
 * unit passes the interfaces of the members in it, once.  A message that goes round a ring, or up a tree, crosses each level
 * as often as that level joins units, so that two equal levels are the same as one. */
struct crossing {
  double members;    /* in one unit of the innermost level */
  double rate;       /* of a ring, in bytes/s */
  double outer_rate; /* the same of the outer levels alone */
  double slowest;    /* of one device's own interfaces, in bytes/s */
  double ring_hops;  /* between units, of one turn of a ring */
  double ring_s;     /* latencies of one turn of a ring */
  double tree_s;     /* latencies from the leaves of a tree to its root */
  double message_s;  /* latency of one message between members that are farthest apart */
  double start_s;    /* later start of large messages beside that of each hop */
};

/* The software's share of a hop between two devices, on top of the latency that the description states. */
static double hop_software_s(const struct pz_constants *k, const struct pz_cluster *net) {
  return k->ring_hop * startup_s(k, &net->level[0]);
}

/* The later start of the protocol for large messages: a wait at each hop.  large_startup is that of a ring inside one server;
 * longer rings have it once for each server that they pass, hop_s for each hop between units of the innermost level, and what
 * was measured of the network. */
static double later_s(const struct pz_constants *k, const struct pz_cluster *net, double inner_hops,
                      const struct crossing *c, double outer_hops) {
  double servers = pz_fmax(1, inner_hops / (PZ_SERVER_DEVICES - 1));
  return servers * startup_s(k, &net->level[0]) * k->large_startup +
         (c ? outer_hops * k->hop_s + c->start_s : 0);
}

/* The same of one message between two members. */
static double message_later_s(const struct pz_constants *k, const struct pz_cluster *net,
                              const struct crossing *c) {
  return later_s(k, net, 0, c, c->ring_hops > 0);
}

static struct crossing crossing_of(const struct pz_constants *k, const struct pz_cluster *net,
                                   struct pz_group g) {
  const struct pz_level *inner = &net->level[0];
  struct crossing c = {
      .members = members_at(net, 0, g), .message_s = inner->latency_s, .outer_rate = HUGE_VAL};
  c.slowest = c.rate = inner->n_axes ? inner->bytes_per_s * k->torus_efficiency
                                     : reached_rate(k, inner, (double)inner->devices);
  if (!inner->n_axes) c.slowest *= k->alltoall_efficiency;
  if (!inner->n_axes && c.members <= 1) {
    double others = (double)(pz_max(g.devices, 2) - 1);
    c.rate *= others / (others + k->ring_extra);
  }
  if (c.members > 1) c.rate = inner_rate(k, net, (struct pz_group){(int64_t)c.members, g.stride});
  for (int l = 1; l < net->n_levels; l++) {
    double below = members_at(net, l - 1, g), units = members_at(net, l, g) / below;
    if (!(units > 1)) continue;
    double rate = pz_network_outer_rate(k, &net->level[l]);
    c.outer_rate = pz_fmin(c.outer_rate, rate * below);
    c.slowest = pz_fmin(c.slowest, rate);
    double hop_s = net->level[l].latency_s + hop_software_s(k, net);
    double hops = ((double)g.devices / below) * (1 - 1 / units);
    c.ring_hops += hops;
    c.start_s = pz_fmax(c.start_s, net->level[l].collectives.startup_s);
    c.ring_s += hops * hop_s;
    c.tree_s += log2(units) * hop_s;
    c.message_s = pz_fmax(c.message_s, net->level[l].latency_s);
  }
  c.rate = pz_fmin(c.rate, c.outer_rate);
  return c;
}

double pz_network_rate(const struct pz_constants *k, const struct pz_cluster *net,
                       struct pz_group g) {
  return pz_network_leaves(net, g) ? crossing_of(k, net, g).rate : inner_rate(k, net, g);
}

bool pz_network_leaves(const struct pz_cluster *net, struct pz_group g) {
  return level_of(net, g.devices * g.stride) > 0;
}

double pz_network_neighbour_rate(const struct pz_constants *k, const struct pz_cluster *net,
                                 struct pz_group g) {
  const struct pz_level *inner = &net->level[0];
  double pair = member_rate(inner, 2) / member_rate(inner, (double)g.devices);
  if (inner->n_axes || !pz_network_leaves(net, g)) return pair * pz_network_rate(k, net, g);
  struct crossing c = crossing_of(k, net, g);
  return c.members > 1 ? pz_fmin(c.slowest, reached_rate(k, inner, 2)) : c.slowest;
}

double pz_network_message_s(const struct pz_constants *k, const struct pz_cluster *net,
                            struct pz_group g) {
  double start = startup_s(k, &net->level[0]);
  struct crossing c = crossing_of(k, net, g);
  return start + message_later_s(k, net, &c) + hop_software_s(k, net) + c.message_s;
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* A collective whose bytes keep the links busy for `links_s` and whose hops between members take latency_s.  Protocols for
 * small messages start at once and are slower by small_rate, the one for large messages starts later; libraries go from one
 * to the other with the size. */
static double collective_s(const struct pz_constants *k, const struct pz_cluster *net,
                           double latency_s, double later, double links_s) {
  double slower = (k->small_rate - 1) * links_s;
  return startup_s(k, &net->level[0]) + latency_s + links_s +
         (slower > 0 ? later * slower / (later + slower) : 0);
}

static struct pz_wire_time send_time(const struct pz_constants *k, const struct pz_cluster *net,
                                     double bytes, struct pz_group g) {
  struct pz_wire_time t = {.s = 0};
  const struct pz_level *inner = &net->level[0];
  bool leaves = level_of(net, 2 * g.stride) > 0;
  double *busy = &t.busy_s[leaves ? PZ_WIRE_OUTER : PZ_WIRE_INNER];
  if (!leaves && inner->n_axes) {
    *busy = bytes / link_rate(k, inner);
    t.s = inner->latency_s + *busy;
    return t;
  }
  struct crossing c = crossing_of(k, net, (struct pz_group){2, g.stride});
  double pair = inner->n_axes ? HUGE_VAL : reached_rate(k, inner, 2) * k->alltoall_efficiency;
  *busy = bytes / (leaves ? c.slowest : pair);
  t.s = collective_s(k, net, c.message_s + hop_software_s(k, net),
                     later_s(k, net, 0, &c, c.ring_hops), *busy);
  return t;
}

/* Everything on the torus: time of the links, and a latency for each hop. */
static struct pz_wire_time torus_time(const struct pz_constants *k, const struct pz_cluster *net,
                                      enum pz_collective kind, double bytes, struct pz_group g) {
  struct use u = torus_use(net, g);
  double n = (double)g.devices, passes = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  double rate = link_rate(k, &net->level[0]), latency = net->level[0].latency_s * u.hops;
  double links_s = passes * (n - 1) / n * bytes / (pz_fmax(1, u.links) * rate);
  if (kind == PZ_COLLECTIVE_ALL_TO_ALL) links_s = pz_fmax(links_s, bytes * u.slowest / rate);
  return (struct pz_wire_time){passes * latency + links_s, {links_s, 0}};
}

/* Every device sends the same to every other.  All that leaves a unit passes the interfaces at its edge, all levels at the
 * same time; what stays on the device is copied. */
static struct pz_wire_time all_to_all_time(const struct pz_constants *k,
                                           const struct pz_cluster *net, double bytes,
                                           struct pz_group g) {
  struct pz_wire_time t = {.s = 0};
  double n = (double)g.devices, own = members_at(net, 0, g);
  double passing =
      net->level[0].mesh ? own : n; /* but for a mesh, no device sends faster outside than inside */
  double inner_s = bytes / n / (reached_rate(k, &net->level[0], passing) * k->alltoall_efficiency);
  if (own > 1) t.busy_s[PZ_WIRE_INNER] = (own - 1 + k->ring_extra) * inner_s;
  for (int l = 1; l < net->n_levels; l++) {
    double below = members_at(net, l - 1, g);
    if (!(members_at(net, l, g) > below)) continue;
    double *busy = &t.busy_s[PZ_WIRE_OUTER];
    *busy = pz_fmax(*busy, (1 - below / n) * bytes /
                               (pz_network_outer_rate(k, &net->level[l]) * k->alltoall_efficiency));
  }
  double links_s = pz_fmax((passing - 1 + k->ring_extra) * inner_s, t.busy_s[PZ_WIRE_OUTER]);
  struct crossing c = crossing_of(k, net, g);
  double latency_s = c.message_s + hop_software_s(k, net);
  t.s = collective_s(k, net, latency_s, message_later_s(k, net, &c), links_s);
  return t;
}

/* Latency of the hops of one pass inside the innermost level: round a ring; in domains of many servers, trees join the
 * rings of these. */
static double inner_latency_s(const struct pz_constants *k, const struct pz_cluster *net,
                              struct pz_group g) {
  double n = (double)g.devices, servers = pz_fmax(1, n / PZ_SERVER_DEVICES);
  double hops = pz_fmin(n, PZ_SERVER_DEVICES) - 1 + ceil(log2(servers));
  if (net->level[0].n_axes) return torus_use(net, g).hops * net->level[0].latency_s;
  return hops * (net->level[0].latency_s + hop_software_s(k, net));
}

/* All members in the innermost level: a ring, or sums in the switches, of which every device reads its part and to which
 * it writes the sum (NCCL's NVLS), whichever is faster. */
static struct pz_wire_time inner_time(const struct pz_constants *k, const struct pz_cluster *net,
                                      double passes, double bytes, struct pz_group g) {
  const struct pz_level *l = &net->level[0];
  double n = (double)g.devices;
  double links_s = (passes * (n - 1) + k->ring_extra) / n * bytes / reached_rate(k, l, n);
  double later = later_s(k, net, n - 1, NULL, 0);
  struct pz_wire_time ring = {
      collective_s(k, net, passes * inner_latency_s(k, net, g), later, links_s), {links_s, 0}};
  if (passes < 2 || l->mesh || !(l->collectives.switch_efficiency > 0)) return ring;
  double hop_s = l->latency_s + hop_software_s(k, net);
  links_s = (1 + 1 / n) * bytes / (l->bytes_per_s * l->collectives.switch_efficiency);
  struct pz_wire_time sums = {
      collective_s(k, net, k->switch_hops * hop_s, later_s(k, net, 0, NULL, 0), links_s),
      {links_s, 0}};
  return sums.s < ring.s ? sums : ring;
}

/* Over several units of the innermost level.  Large messages go round a ring, small ones over trees where their latency is
 * shorter; an all-reduce is a reduce-scatter with an all-gather behind it.  Between two units whose switches add up, two trees
 * of half of the tensor each are faster: every unit sends the tensor once, which a ring does nearly twice (NCCL's NVLS tree;
 * 2 nodes of H100 reach 1.2 times the rate of their interfaces). */
static struct pz_wire_time outer_time(const struct pz_constants *k, const struct pz_cluster *net,
                                      double passes, double bytes, struct pz_group g) {
  struct crossing c = crossing_of(k, net, g);
  struct pz_group own = {(int64_t)c.members, g.stride};
  double n = (double)g.devices, inner_s = own.devices > 1 ? inner_latency_s(k, net, own) : 0;
  double tensor = bytes;
  bytes *= (n - 1) / n;
  double links_s = bytes / c.rate;
  double later = later_s(k, net, n - n / c.members, &c, c.ring_hops);
  double ring_s = collective_s(k, net, n / c.members * inner_s + c.ring_s, later, links_s);
  double tree_s = startup_s(k, &net->level[0]) + inner_s + c.tree_s + k->small_rate * links_s;
  struct pz_wire_time t = {passes * pz_fmin(ring_s, tree_s), {0}};
  t.busy_s[PZ_WIRE_OUTER] = passes * bytes / c.outer_rate;
  if (own.devices > 1) t.busy_s[PZ_WIRE_INNER] = passes * bytes / inner_rate(k, net, own);
  if (passes < 2 || n != 2 * c.members || !(net->level[0].collectives.switch_efficiency > 0))
    return t;
  double sum_s =
      own.devices > 1 ? inner_time(k, net, passes, tensor, own).busy_s[PZ_WIRE_INNER] : 0;
  struct pz_wire_time pair = {.busy_s = {sum_s, tensor / c.outer_rate}};
  links_s = pz_fmax(sum_s, pair.busy_s[PZ_WIRE_OUTER]);
  pair.s = collective_s(k, net, passes * (inner_s + c.tree_s), later, links_s);
  return pair.s < t.s ? pair : t;
}

struct pz_wire_time pz_network_time(const struct pz_constants *k, const struct pz_cluster *net,
                                    enum pz_collective kind, double bytes, struct pz_group g) {
  if (g.devices <= 1 || !net->n_levels || net->instant) return (struct pz_wire_time){.s = 0};
  if (kind == PZ_COLLECTIVE_SEND) return send_time(k, net, bytes, g);
  bool leaves = pz_network_leaves(net, g);
  if (net->level[0].n_axes && !leaves) return torus_time(k, net, kind, bytes, g);
  if (kind == PZ_COLLECTIVE_ALL_TO_ALL) return all_to_all_time(k, net, bytes, g);
  double passes = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  return leaves ? outer_time(k, net, passes, bytes, g) : inner_time(k, net, passes, bytes, g);
}

double pz_network_s(const struct pz_constants *k, const struct pz_cluster *net,
                    enum pz_collective kind, double bytes, struct pz_group g) {
  return pz_network_time(k, net, kind, bytes, g).s;
}

void pz_wire_add(struct pz_wire_time *to, const struct pz_wire_time *t, double times) {
  to->s += times * t->s;
  for (int i = 0; i < PZ_WIRES; i++) to->busy_s[i] += times * t->busy_s[i];
}

/* ---- dispatchers of experts' tokens --------------------------------------------------------- */

/* Of n devices or nodes, how many have one of k experts chosen evenly. */
static double distinct(double n, double k) { return n * (1 - pow(1 - 1 / n, k)); }

/* DeepEP's cores copy a token for each device that wants it, and add up what comes back, at so much for a token, for its
 * bytes and for those of each copy; copy units (HybridEP) keep up with the links. */
static double cores_s(const struct pz_constants *k, const struct pz_dispatch *d, double copies) {
  if (d->dispatcher != PZ_DISPATCHER_DEEPEP) return 0;
  double token_s = d->combine ? k->combine_token_s + d->token_bytes * (k->combine_sum_byte_s +
                                                                       copies * k->combine_byte_s)
                              : k->dispatch_token_s + d->token_bytes * copies * k->dispatch_byte_s;
  return d->tokens * token_s / pz_fmax(1, d->cores);
}

struct pz_wire_time pz_dispatch_time(const struct pz_constants *k, const struct pz_cluster *net,
                                     const struct pz_dispatch *d) {
  struct pz_group g = d->group;
  double bytes = d->tokens * d->token_bytes, n = (double)g.devices;
  bool torus = net->n_levels && net->level[0].n_axes;
  if (g.devices <= 1 || !net->n_levels) return (struct pz_wire_time){.s = 0};
  if (d->dispatcher == PZ_DISPATCHER_ALLTOALL || torus)
    return pz_network_time(k, net, PZ_COLLECTIVE_ALL_TO_ALL, bytes * d->experts, g);
  struct crossing c = crossing_of(k, net, g);
  double own = c.members, nodes = ceil(n / own);
  double reached = distinct(nodes, d->experts), copies = distinct(n, d->experts);
  if (d->most_nodes > 0 && d->most_nodes < reached) {
    reached = d->most_nodes;
    copies = reached * distinct(own, d->experts / reached);
  }
  if (net->instant) return (struct pz_wire_time){.s = cores_s(k, d, copies)};
  struct pz_wire_time t = {.s = (d->combine ? k->combine_s : k->dispatch_s) + c.message_s};
  if (nodes > 1) t.s += nodes * (d->combine ? k->combine_node_s : k->dispatch_node_s);
  t.busy_s[PZ_WIRE_INNER] = bytes * copies * (own - 1) / own / reached_rate(k, &net->level[0], own);
  for (int l = 1; l < net->n_levels; l++) {
    double below = members_at(net, l - 1, g), others = 1 - below / n;
    if (!(members_at(net, l, g) > below)) continue;
    t.busy_s[PZ_WIRE_OUTER] = pz_fmax(
        t.busy_s[PZ_WIRE_OUTER],
        bytes * reached * others / pz_fmin(c.rate, pz_network_outer_rate(k, &net->level[l])));
  }
  double inner =
      pow(pow(cores_s(k, d, copies), k->copy_smooth) + pow(t.busy_s[PZ_WIRE_INNER], k->copy_smooth),
          1 / k->copy_smooth);
  t.s += pz_fmax(inner, t.busy_s[PZ_WIRE_OUTER]);
  return t;
}

/* ---- rings inside each level -------------------------------------------------------------------- */

/* How many of the groups inside it a level joins, for a collective over `devices`. */
static int64_t joined(const struct pz_cluster *net, int l, int64_t devices) {
  int64_t inner = l ? net->level[l - 1].devices : 1;
  int64_t reach = net->level[l].devices < devices ? net->level[l].devices : devices;
  return reach <= inner ? 1 : reach / inner + (reach % inner != 0);
}

static double halves(enum pz_collective kind) { return kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1; }

static double send_s(const struct pz_cluster *net, double bytes, int64_t devices) {
  const struct pz_level *l = pz_cluster_level(net, devices);
  return l ? bytes / member_rate(l, 2) + l->latency_s : 0;
}

double pz_collective_s(const struct pz_cluster *net, enum pz_collective kind, double bytes,
                       int64_t devices) {
  double s = 0, left = bytes;
  if (devices <= 1 || net->instant) return 0;
  if (kind == PZ_COLLECTIVE_SEND) return send_s(net, bytes, devices);
  for (int l = 0; l < net->n_levels; l++) {
    double g = (double)joined(net, l, devices);
    double rate = member_rate(&net->level[l], g);
    s += halves(kind) * (g - 1) * (left / g / rate + net->level[l].latency_s);
    /* every device keeps its own part of an all-to-all: nothing is summed on the way out */
    if (kind != PZ_COLLECTIVE_ALL_TO_ALL) left /= g;
  }
  return s;
}

struct pz_cluster pz_cluster_flat(int64_t devices, double bytes_per_s, double latency_s) {
  struct pz_cluster c = {.devices = devices, .n_levels = 1};
  snprintf(c.name, sizeof c.name, "flat");
  c.level[0] = (struct pz_level){
      .name = "link", .devices = devices, .bytes_per_s = bytes_per_s, .latency_s = latency_s};
  return c;
}
