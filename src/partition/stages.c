#include "partition/stages.h"

#include <math.h>
#include <string.h>

#include "core/map.h"
#include "core/vec.h"

static bool in_cut(const struct pz_stages *s, uint32_t cut, uint32_t layer) {
  if (!s->cuts) return layer < cut;
  return s->cuts[(size_t)cut * s->words + layer / 64] >> (layer % 64) & 1;
}

bool pz_stages_has(const struct pz_stages *s, uint32_t from, uint32_t to) {
  if (from >= to) return false;
  for (uint32_t w = 0; s->cuts && w < s->words; w++)
    if (s->cuts[(size_t)from * s->words + w] & ~s->cuts[(size_t)to * s->words + w]) return false;
  return true;
}

uint32_t pz_stages_layers(const struct pz_stages *s, uint32_t from, uint32_t to, uint32_t *list) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->w->n; i++)
    if (in_cut(s, to, i) && !in_cut(s, from, i)) list[n++] = i;
  return n;
}

/* ---- cuts ----------------------------------------------------------------------------------- */

static bool is_chain(const struct pz_place_width *w, bool *linked) {
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (w->edges[e].to == w->edges[e].from + 1) linked[w->edges[e].from] = true;
  for (uint32_t i = 0; i + 1 < w->n; i++)
    if (!linked[i]) return false;
  return true;
}

/* May layer i follow this cut? */
static bool follows(const struct pz_stages *s, const uint64_t *cut, uint32_t i) {
  if (cut[i / 64] >> (i % 64) & 1) return false;
  for (uint32_t k = s->in.first[i]; k < s->in.first[i + 1]; k++) {
    uint32_t from = s->w->edges[s->in.edge[k]].from;
    if (!(cut[from / 64] >> (from % 64) & 1)) return false;
  }
  return true;
}

/* Edges by the layer they come to, or go from. */
static bool list_edges(const struct pz_place_width *w, bool in, struct pz_arena *arena,
                       struct pz_edge_lists *out) {
  out->first = pz_arena_alloc(arena, (size_t)w->n + 2, sizeof *out->first);
  out->edge = pz_arena_alloc(arena, w->n_edges, sizeof *out->edge);
  if (!out->first || !out->edge) return false;
  for (uint32_t e = 0; e < w->n_edges; e++)
    out->first[(in ? w->edges[e].to : w->edges[e].from) + 2]++;
  for (uint32_t i = 0; i < w->n; i++) out->first[i + 2] += out->first[i + 1];
  for (uint32_t e = 0; e < w->n_edges; e++)
    out->edge[out->first[(in ? w->edges[e].to : w->edges[e].from) + 1]++] = e;
  return true;
}

/* All cuts, breadth first: each comes after those within it. */
static enum pz_status find_cuts(struct pz_stages *s, struct pz_arena *arena, struct pz_error *err) {
  struct pz_vec list;
  struct pz_map seen;
  s->words = (s->w->n + 63) / 64;
  size_t bytes = s->words * sizeof(uint64_t);
  uint64_t *next = pz_arena_alloc(arena, s->words, sizeof *next);
  pz_vec_init(&list, arena, bytes);
  pz_map_init(&seen, arena);
  bool ok = next && pz_vec_push(&list, NULL) && list_edges(s->w, true, arena, &s->in) &&
            list_edges(s->w, false, arena, &s->out);
  for (uint32_t at = 0; ok && at < list.n && list.n <= PZ_STAGES_MOST_CUTS; at++)
    for (uint32_t i = 0; ok && i < s->w->n; i++) {
      memcpy(next, (char *)list.items + at * bytes, bytes);
      if (!follows(s, next, i)) continue;
      next[i / 64] |= UINT64_C(1) << (i % 64);
      if (pz_map_get(&seen, next, bytes) != PZ_NONE) continue;
      ok = pz_map_put(&seen, next, bytes, 0) == PZ_OK && pz_vec_push(&list, next);
    }
  if (!ok) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the stages");
  if (list.n > PZ_STAGES_MOST_CUTS)
    return pz_fail(err, PZ_BAD_INPUT,
                   "the layers branch too much: more than %d cuts into two parts",
                   PZ_STAGES_MOST_CUTS);
  s->cuts = list.items;
  s->n_cuts = list.n;
  return PZ_OK;
}

/* ---- costs: any graph ----------------------------------------------------------------------- */

/* The latest arrival over edges between this layer and those outside the stage. */
static double arrival(const struct pz_stages *s, double bytes_per_s, uint32_t layer, uint32_t from,
                      uint32_t to, bool forward) {
  double latest = 0;
  const struct pz_edge_lists *lists = forward ? &s->in : &s->out;
  for (uint32_t k = lists->first[layer]; k < lists->first[layer + 1]; k++) {
    const struct pz_place_edge *edge = &s->w->edges[lists->edge[k]];
    uint32_t there = forward ? edge->from : edge->to;
    if (in_cut(s, to, there) && !in_cut(s, from, there)) continue;
    latest = fmax(latest, edge->bytes / bytes_per_s);
  }
  return latest;
}

static void cost_of(const struct pz_place_problem *p, const struct pz_stages *s, uint32_t from,
                    uint32_t to, uint32_t *list, struct pz_stage_cost *c) {
  uint32_t n = pz_stages_layers(s, from, to, list);
  double fw = 0, bw = 0, again = 0, sum_bwd = 0;
  for (uint32_t k = 0; k < n; k++) {
    const struct pz_place_layer *l = &s->w->layers[list[k]];
    fw = fmax(fw, arrival(s, p->bytes_per_s, list[k], from, to, true)) + l->fwd_s;
    again += l->fwd_s;
    c->param_bytes += l->param_bytes;
    c->act_bytes += l->act_bytes;
    c->tensor_parallel = c->tensor_parallel || l->tensor_parallel;
  }
  for (uint32_t k = n; k-- > 0;) {
    const struct pz_place_layer *l = &s->w->layers[list[k]];
    bw = fmax(bw, arrival(s, p->bytes_per_s, list[k], from, to, false)) + l->bwd_s;
    sum_bwd += l->bwd_s;
  }
  for (uint32_t e = 0; e < s->w->n_edges; e++) {
    const struct pz_place_edge *edge = &s->w->edges[e];
    if (in_cut(s, from, edge->from) && in_cut(s, to, edge->to) && !in_cut(s, from, edge->to))
      c->in_bytes += edge->bytes;
  }
  c->stash_s = fw + bw;
  c->recompute_s = fw + fmax(bw, again + sum_bwd);
  c->work_s = again + sum_bwd;
  c->recompute_work_s = c->work_s + (p->recompute ? again : 0);
}

/* ---- costs: chains -------------------------------------------------------------------------- */

/* For every stage that begins at `from`: what goes forward, sums, and what enters. */
static void fill_forward(const struct pz_place_problem *p, struct pz_stages *s, uint32_t from,
                         double *latest, double *bytes) {
  struct pz_stage_cost sum = {0};
  memset(latest, 0, s->w->n * sizeof *latest);
  memset(bytes, 0, s->w->n * sizeof *bytes);
  for (uint32_t e = 0; e < s->w->n_edges; e++) {
    const struct pz_place_edge *edge = &s->w->edges[e];
    if (edge->from >= from || edge->to < from) continue;
    latest[edge->to] = fmax(latest[edge->to], edge->bytes / p->bytes_per_s);
    bytes[edge->to] += edge->bytes;
  }
  for (uint32_t i = from; i < s->w->n; i++) {
    const struct pz_place_layer *l = &s->w->layers[i];
    sum.stash_s = fmax(sum.stash_s, latest[i]) + l->fwd_s;
    sum.recompute_s += l->fwd_s; /* forward again */
    sum.work_s += l->fwd_s + l->bwd_s;
    sum.recompute_work_s += (p->recompute ? 2 : 1) * l->fwd_s + l->bwd_s;
    sum.param_bytes += l->param_bytes;
    sum.act_bytes += l->act_bytes;
    sum.in_bytes += bytes[i];
    sum.tensor_parallel = sum.tensor_parallel || l->tensor_parallel;
    s->cost[(size_t)from * s->n_cuts + i + 1] = sum;
  }
}

/* For every stage that ends at `to`: what goes backward. */
static void fill_backward(const struct pz_place_problem *p, struct pz_stages *s, uint32_t to,
                          double *latest) {
  double bw = 0, sum_bwd = 0;
  memset(latest, 0, s->w->n * sizeof *latest);
  for (uint32_t e = 0; e < s->w->n_edges; e++) {
    const struct pz_place_edge *edge = &s->w->edges[e];
    if (edge->from < to && edge->to >= to)
      latest[edge->from] = fmax(latest[edge->from], edge->bytes / p->bytes_per_s);
  }
  for (uint32_t i = to; i-- > 0;) {
    struct pz_stage_cost *c = &s->cost[(size_t)i * s->n_cuts + to];
    bw = fmax(bw, latest[i]) + s->w->layers[i].bwd_s;
    sum_bwd += s->w->layers[i].bwd_s;
    double fw = c->stash_s, again = c->recompute_s;
    c->stash_s = fw + bw;
    c->recompute_s = fw + fmax(bw, again + sum_bwd);
  }
}

/* ---- the call ------------------------------------------------------------------------------- */

static enum pz_status fill(const struct pz_place_problem *p, struct pz_stages *s,
                           struct pz_arena *arena, struct pz_error *err) {
  double *latest = pz_arena_alloc(arena, s->w->n, sizeof *latest);
  double *bytes = pz_arena_alloc(arena, s->w->n, sizeof *bytes);
  uint32_t *list = pz_arena_alloc(arena, s->w->n, sizeof *list);
  s->cost = pz_arena_alloc(arena, (size_t)s->n_cuts * s->n_cuts, sizeof *s->cost);
  if (!latest || !bytes || !list || !s->cost)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the stages");
  for (uint32_t i = 0; !s->cuts && i < s->w->n; i++) fill_forward(p, s, i, latest, bytes);
  for (uint32_t i = 1; !s->cuts && i <= s->w->n; i++) fill_backward(p, s, i, latest);
  for (uint32_t a = 0; s->cuts && a < s->n_cuts; a++)
    for (uint32_t b = a + 1; b < s->n_cuts; b++)
      if (pz_stages_has(s, a, b)) cost_of(p, s, a, b, list, &s->cost[(size_t)a * s->n_cuts + b]);
  return PZ_OK;
}

enum pz_status pz_stages_make(const struct pz_place_problem *p, const struct pz_place_width *w,
                              struct pz_arena *arena, struct pz_stages *out, struct pz_error *err) {
  *out = (struct pz_stages){.w = w, .n_cuts = w->n + 1};
  bool *linked = pz_arena_alloc(arena, w->n, sizeof *linked);
  if (!linked) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the stages");
  enum pz_status status = is_chain(w, linked) ? PZ_OK : find_cuts(out, arena, err);
  return status == PZ_OK ? fill(p, out, arena, err) : status;
}
