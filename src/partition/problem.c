#include "partition/problem.h"

#include <float.h>
#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct pz_place_problem pz_place_within(const struct pz_place_problem *p, uint32_t domain) {
  struct pz_place_problem q = *p;
  q.n_domains = 0;
  if (domain >= p->n_domains) return q;
  q.devices = p->domains[domain].devices;
  q.bytes_per_s = p->domains[domain].bytes_per_s;
  return q;
}

uint32_t pz_place_domain(const struct pz_place_problem *p, int64_t devices) {
  uint32_t i = 0;
  while (i < p->n_domains && p->domains[i].devices < devices) i++;
  return i;
}

double pz_place_allreduce_s(const struct pz_place_problem *p, int64_t d, double param_bytes) {
  return 4.0 * (double)(d - 1) / (double)d * param_bytes / p->bytes_per_s;
}

double pz_place_time_s(const struct pz_place_problem *p, double maxload_s, uint32_t n_stages,
                       int64_t d, double param_bytes) {
  double rounds = (double)(ceil_div(p->microbatches, d) + n_stages - 1);
  return maxload_s * rounds + pz_place_allreduce_s(p, d, param_bytes);
}

/* Rounds grow from the least possible; the exchange can save no more than all of it, which ends the
 * search. */
double pz_place_best_d(const struct pz_place_problem *p, double maxload_s, uint32_t n_stages,
                       int64_t n_devices, double param_bytes, double limit_s, int64_t *d_out) {
  int64_t m = p->microbatches, most = n_devices > 0 ? p->devices / n_devices : 0, best = 0;
  if (most > m) most = m;
  if (most < 1) return DBL_MAX;
  double time = limit_s, all = pz_place_allreduce_s(p, most, param_bytes);
  int64_t first = ceil_div(m, most);
  for (int64_t rounds = first;;) {
    if (maxload_s * (double)(rounds + n_stages - 1) >= time) break;
    if (maxload_s * (double)(rounds - first) > all) break;
    int64_t d = ceil_div(m, rounds); /* the fewest replicas with so many rounds */
    double now = pz_place_time_s(p, maxload_s, n_stages, d, param_bytes);
    if (now < time) time = now, best = d;
    if (d == 1) break;
    rounds = ceil_div(m, d - 1);
  }
  *d_out = best;
  return best ? time : DBL_MAX;
}

/* The layer listed first of those that wait for nothing, or PZ_NONE. */
static uint32_t first_ready(const uint32_t *waits, const bool *done, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!done[i] && waits[i] == 0) return i;
  return PZ_NONE;
}

/* place[i]: where layer i comes.  False: a cycle. */
static bool sort(const struct pz_place_width *w, uint32_t *waits, bool *done, uint32_t *place) {
  for (uint32_t e = 0; e < w->n_edges; e++) waits[w->edges[e].to]++;
  for (uint32_t at = 0; at < w->n; at++) {
    uint32_t i = first_ready(waits, done, w->n);
    if (i == PZ_NONE) return false;
    done[i] = true;
    place[i] = at;
    for (uint32_t e = 0; e < w->n_edges; e++)
      if (w->edges[e].from == i) waits[w->edges[e].to]--;
  }
  return true;
}

enum pz_status pz_place_order(struct pz_arena *arena, struct pz_place_width *w, const char *name,
                              struct pz_error *err) {
  uint32_t *waits = pz_arena_alloc(arena, w->n, sizeof *waits);
  uint32_t *place = pz_arena_alloc(arena, w->n, sizeof *place);
  bool *done = pz_arena_alloc(arena, w->n, sizeof *done);
  struct pz_place_layer *layers = pz_arena_alloc(arena, w->n, sizeof *layers);
  struct pz_place_edge *edges = pz_arena_alloc(arena, w->n_edges, sizeof *edges);
  if (!waits || !place || !done || !layers || !edges)
    return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  if (!sort(w, waits, done, place))
    return pz_fail(err, PZ_BAD_INPUT, "%s: the layers of tensor-parallel degree %lld form a cycle",
                   name, (long long)w->t);
  for (uint32_t i = 0; i < w->n; i++) layers[place[i]] = w->layers[i];
  for (uint32_t e = 0; e < w->n_edges; e++)
    edges[e] =
        (struct pz_place_edge){place[w->edges[e].from], place[w->edges[e].to], w->edges[e].bytes};
  w->layers = layers;
  w->edges = edges;
  return PZ_OK;
}
