#include "cost/network.h"

#include <math.h>

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

/* Of a ring inside the innermost level. */
static double inner_rate(const struct pz_constants *k, const struct pz_cluster *net,
                         struct pz_group g) {
  if (net->level[0].n_axes)
    return pz_fmax(1, torus_use(net, g).links) * link_rate(k, &net->level[0]);
  double part = (double)(pz_max(g.devices, 2) - 1) / (double)pz_max(g.devices, 2);
  return net->level[0].bytes_per_s * k->ring_efficiency * part / (part + k->ring_extra);
}

/* Members of a group that lie together in one group of the level below. */
static int64_t members_inside(const struct pz_cluster *net, int l, struct pz_group g) {
  int64_t inside = l ? net->level[l - 1].devices / pz_max(1, g.stride) : g.devices;
  return pz_max(1, pz_min(g.devices, inside));
}

/* Of a ring that leaves the innermost level, over the interfaces of so many members. */
static double outer_rate(const struct pz_constants *k, const struct pz_cluster *net, int l,
                         int64_t members) {
  double rate = net->level[l].bytes_per_s * k->outer_efficiency * (double)members;
  return members > 1 ? rate : pz_fmin(rate, net->level[0].bytes_per_s);
}

double pz_network_rate(const struct pz_constants *k, const struct pz_cluster *net,
                       struct pz_group g) {
  int l = level_of(net, g.devices * g.stride);
  if (l == 0) return inner_rate(k, net, g);
  int64_t own = members_inside(net, l, g);
  double rate = outer_rate(k, net, l, own);
  return own > 1 ? pz_fmin(rate, inner_rate(k, net, (struct pz_group){own, g.stride})) : rate;
}

bool pz_network_leaves(const struct pz_cluster *net, struct pz_group g) {
  return level_of(net, g.devices * g.stride) > 0;
}

double pz_network_neighbour_rate(const struct pz_constants *k, const struct pz_cluster *net,
                                 struct pz_group g) {
  int l = level_of(net, g.devices * g.stride);
  if (net->level[0].n_axes || l == 0) return pz_network_rate(k, net, g);
  return outer_rate(k, net, l, 1);
}

/* ---- collectives ---------------------------------------------------------------------------- */

static struct pz_wire_time send_time(const struct pz_constants *k, const struct pz_cluster *net,
                                     double bytes, struct pz_group g) {
  int l = level_of(net, 2 * g.stride);
  const struct pz_level *level = &net->level[l];
  struct pz_wire_time t = {.s = 0};
  double *busy = &t.busy_s[l ? PZ_WIRE_OUTER : PZ_WIRE_INNER];
  if (level->n_axes) {
    *busy = bytes / link_rate(k, level);
    t.s = level->latency_s + *busy;
  } else {
    *busy = bytes / (level->bytes_per_s * (l ? k->outer_efficiency : k->inner_efficiency));
    t.s = k->latency_s + k->hop_s + *busy;
  }
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

/* Rings go from member to member; between nodes sums and single messages go over trees, both ways, where these are
 * shorter. */
double pz_network_latency_s(const struct pz_constants *k, const struct pz_cluster *net,
                            enum pz_collective kind, struct pz_group g) {
  if (g.devices <= 1) return 0;
  double hops = (double)(g.devices - 1);
  bool trees = kind == PZ_COLLECTIVE_ALL_REDUCE || kind == PZ_COLLECTIVE_ALL_TO_ALL;
  if (trees && pz_network_leaves(net, g)) hops = pz_fmin(hops, 2 * ceil(log2((double)g.devices)));
  return k->latency_s + k->hop_s * hops;
}

/* Every device sends the same to every other: what crosses a level goes through the interfaces there, all levels at
 * the same time. */
static struct pz_wire_time all_to_all_time(const struct pz_constants *k,
                                           const struct pz_cluster *net, double bytes,
                                           struct pz_group g, double outer_part) {
  struct pz_wire_time t = {.s = 0};
  int64_t inside = 1, own = pz_min(g.devices, net->level[0].devices / g.stride);
  double inner = net->level[0].bytes_per_s * k->inner_efficiency;
  for (int l = 0; l < net->n_levels && inside < g.devices; l++) {
    bool last = l + 1 == net->n_levels;
    int64_t all = last ? g.devices : pz_min(g.devices, net->level[l].devices / g.stride);
    double rate = net->level[l].bytes_per_s * (l ? k->outer_efficiency : k->inner_efficiency);
    double part = (double)(pz_max(all, inside) - inside) / (double)g.devices * (l ? outer_part : 1);
    double *busy = &t.busy_s[l ? PZ_WIRE_OUTER : PZ_WIRE_INNER];
    *busy = pz_fmax(*busy, part * bytes / rate);
    /* what crosses once is copied to its devices on the other side */
    if (l && outer_part < 1 && own > 1)
      t.busy_s[PZ_WIRE_INNER] += (double)(pz_max(all, inside) - inside) / (double)g.devices *
                                 bytes * (double)(own - 1) / (double)own / inner;
    inside = pz_max(all, inside);
  }
  t.s = pz_network_latency_s(k, net, PZ_COLLECTIVE_ALL_TO_ALL, g) +
        pz_fmax(t.busy_s[PZ_WIRE_INNER], t.busy_s[PZ_WIRE_OUTER]);
  return t;
}

struct pz_wire_time pz_network_ring_time(const struct pz_constants *k, const struct pz_cluster *net,
                                         double bytes, struct pz_group g) {
  struct pz_wire_time t = {.s = bytes / pz_network_rate(k, net, g)};
  int l = level_of(net, g.devices * g.stride);
  if (l == 0) return t.busy_s[PZ_WIRE_INNER] = t.s, t;
  int64_t own = members_inside(net, l, g);
  t.busy_s[PZ_WIRE_OUTER] = bytes / outer_rate(k, net, l, own);
  if (own > 1)
    t.busy_s[PZ_WIRE_INNER] = bytes / inner_rate(k, net, (struct pz_group){own, g.stride});
  return t;
}

struct pz_wire_time pz_network_time(const struct pz_constants *k, const struct pz_cluster *net,
                                    enum pz_collective kind, double bytes, struct pz_group g,
                                    double outer_part) {
  double n = (double)g.devices;
  if (g.devices <= 1 || !net->n_levels) return (struct pz_wire_time){.s = 0};
  if (kind == PZ_COLLECTIVE_SEND) return send_time(k, net, bytes, g);
  if (net->level[0].n_axes && level_of(net, g.devices * g.stride) == 0)
    return torus_time(k, net, kind, bytes, g);
  if (kind == PZ_COLLECTIVE_ALL_TO_ALL) return all_to_all_time(k, net, bytes, g, outer_part);
  double passes = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  struct pz_wire_time t = pz_network_ring_time(k, net, passes * (n - 1) / n * bytes, g);
  t.s += pz_network_latency_s(k, net, kind, g);
  return t;
}

double pz_network_s(const struct pz_constants *k, const struct pz_cluster *net,
                    enum pz_collective kind, double bytes, struct pz_group g) {
  return pz_network_time(k, net, kind, bytes, g, 1).s;
}

void pz_wire_add(struct pz_wire_time *to, const struct pz_wire_time *t, double times) {
  to->s += times * t->s;
  for (int i = 0; i < PZ_WIRES; i++) to->busy_s[i] += times * t->busy_s[i];
}
