#include "search/order.h"

#include <stdlib.h>

#include "core/alloc.h"
#include "core/vec.h"
#include "search/chip_boxes.h"

#define NO_MEMORY "out of memory for the order of the chips"
enum { ROUND = 32 }; /* boxes that are opened together */

/* A chip, or a box in which no chip comes before it. */
struct entry {
  double value, area_um2;
  uint32_t point, box; /* box PZ_NONE: a chip */
};

struct pz_order {
  struct pz_search *s;
  struct pz_objective_run *c;
  struct pz_arena arena;
  uint32_t *list, known;
  struct pz_vec heap;   /* struct entry, the first one at the top; without boxes: none */
  struct pz_vec opened; /* struct entry: what is in the boxes at hand, not yet bounded */
};

static bool comes_first(const void *x, const void *y) {
  const struct entry *a = x, *b = y;
  if (a->value != b->value) return a->value > b->value;
  if (a->area_um2 != b->area_um2) return a->area_um2 < b->area_um2;
  if (a->point != b->point) return a->point < b->point;
  return a->box != PZ_NONE && b->box == PZ_NONE;
}

/* ---- all at once ---------------------------------------------------------------------------- */

static int by_order(const void *a, const void *b) {
  return comes_first(a, b) ? -1 : comes_first(b, a);
}

static void set_bound(struct pz_order *o, uint32_t point, double value) {
  o->c->chip_status[point] = (struct pz_chip_status){PZ_CHIP_EXCLUDED_BY_TABLES, value, value};
}

static double value_of_chip(const struct pz_order *o, uint32_t point) {
  return pz_value_of(o->s, &o->c->objective, point, pz_bound_at(o->s, point, 0));
}

static enum pz_status sort_all(struct pz_order *o, struct pz_error *err) {
  const struct pz_search *s = o->s;
  struct entry *list = pz_calloc(s->n_points, sizeof *list);
  if (!list) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t p = 0; p < s->n_points; p++) {
    list[p] = (struct entry){value_of_chip(o, p), s->nature[p].area_um2, p, PZ_NONE};
    set_bound(o, p, list[p].value);
  }
  qsort(list, s->n_points, sizeof *list, by_order);
  for (uint32_t p = 0; p < s->n_points; p++) o->list[p] = list[p].point;
  o->known = s->n_points;
  pz_free(list);
  return PZ_OK;
}

/* ---- by boxes ------------------------------------------------------------------------------- */

static struct entry pop(struct pz_order *o) {
  struct entry top;
  pz_heap_pop(&o->heap, comes_first, &top);
  return top;
}

/* Rates of a chip or of a box, by model. */
static double *rates_of(const struct pz_order *o, const struct entry *x) {
  return x->box == PZ_NONE ? pz_bound_at(o->s, x->point, 0)
                           : pz_chip_box_at(o->s->boxes, x->box)->rate;
}

/* Those that are not known yet. */
static void bound_one(void *ctx, size_t i, unsigned worker) {
  struct pz_order *o = ctx;
  const struct entry *x = pz_vec_at(&o->opened, struct entry, i);
  struct pz_bounds_at *at = o->s->evaluators[worker].at;
  double *rate = rates_of(o, x);
  bool there = false;
  if (pz_search_stopped(o->s)) return;
  for (uint32_t k = 0; k < o->c->objective.n; k++) {
    uint32_t m = o->c->objective.models[k];
    if (rate[m] >= 0) continue;
    if (!there && x->box == PZ_NONE) pz_bounds_go(at, &o->s->points[x->point]);
    if (!there && x->box != PZ_NONE) {
      const struct pz_chip_box *box = pz_chip_box_at(o->s->boxes, x->box);
      pz_bounds_go_box(at, &box->lo, &box->hi);
    }
    there = true;
    rate[m] = pz_rate(o->s, pz_bounds_model_s(at, m));
  }
}

static void pack_one(void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_order *o = ctx;
  const double *rate = rates_of(o, pz_vec_at(&o->opened, struct entry, i));
  pz_buffer_append(out, (const char *)rate, o->s->n_models * sizeof *rate);
}

static enum pz_status unpack_one(void *ctx, size_t i, struct pz_bytes *in) {
  struct pz_order *o = ctx;
  double *rate = rates_of(o, pz_vec_at(&o->opened, struct entry, i));
  return pz_bytes_take(in, rate, o->s->n_models * sizeof *rate) ? PZ_OK : PZ_BAD_INPUT;
}

/* A box's value, a hair above: its chips' come through other roundings. */
static double value_of(const struct pz_order *o, const struct entry *x) {
  if (x->box == PZ_NONE) return value_of_chip(o, x->point);
  const struct pz_chip_box *box = pz_chip_box_at(o->s->boxes, x->box);
  return pz_objective_value(&o->c->objective, box->rate, box->nature.area_um2, box->nature.watts) *
         (1 + 1e-9);
}

/* Bound what was opened, and put it into the heap. */
static enum pz_status bound_opened(struct pz_order *o, struct pz_error *err) {
  struct pz_round round = {o, o->opened.n, bound_one, pack_one, unpack_one, o->s->o.stop, NULL};
  enum pz_status status = pz_round_run(o->s->pool, &round, err);
  for (uint32_t i = 0; i < o->opened.n && status == PZ_OK; i++) {
    struct entry *x = pz_vec_at(&o->opened, struct entry, i);
    x->value = value_of(o, x);
    if (x->box == PZ_NONE) set_bound(o, x->point, x->value);
    if (!pz_heap_push(&o->heap, comes_first, x)) status = pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  }
  return status;
}

static bool add_opened(struct pz_order *o, uint32_t point, uint32_t box) {
  struct entry x = {0, 0, point, box};
  x.area_um2 = box == PZ_NONE ? o->s->nature[point].area_um2
                              : pz_chip_box_at(o->s->boxes, box)->nature.area_um2;
  return pz_vec_push(&o->opened, &x);
}

/* What a box consists of. */
static enum pz_status open_box(struct pz_order *o, uint32_t i, struct pz_error *err) {
  struct pz_chip_boxes *boxes = o->s->boxes;
  bool good = true;
  if (pz_chip_box_is_leaf(pz_chip_box_at(boxes, i))) {
    const struct pz_chip_box *x = pz_chip_box_at(boxes, i);
    const uint32_t *points = pz_chip_boxes_points(boxes, x);
    for (uint32_t k = 0; k < x->n && good; k++) good = add_opened(o, points[k], PZ_NONE);
  } else {
    enum pz_status status = pz_chip_box_split(boxes, i, err);
    if (status != PZ_OK) return status;
    for (int k = 0; k < 2 && good; k++) {
      uint32_t child = pz_chip_box_at(boxes, i)->child[k];
      good = add_opened(o, pz_chip_box_at(boxes, child)->least, child);
    }
  }
  return good ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
}

static bool top_is_box(const struct pz_order *o, double cutoff) {
  const struct entry *top = o->heap.items;
  return o->heap.n && top->box != PZ_NONE && top->value >= cutoff;
}

/* Open the boxes that come before all chips. */
static enum pz_status open_boxes(struct pz_order *o, double cutoff, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  o->opened.n = 0;
  for (int k = 0; k < ROUND && status == PZ_OK && top_is_box(o, cutoff); k++)
    status = open_box(o, pop(o).box, err);
  return status == PZ_OK ? bound_opened(o, err) : status;
}

/* ---- asking --------------------------------------------------------------------------------- */

static enum pz_status begin(struct pz_order *o, struct pz_error *err) {
  const struct pz_search *s = o->s;
  o->list = pz_arena_alloc(&o->arena, s->n_points, sizeof *o->list);
  o->c->chip_status = pz_arena_alloc(&o->s->arena, s->n_points, sizeof *o->c->chip_status);
  if (!o->list || !o->c->chip_status) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  if (!s->boxes) return sort_all(o, err);
  if (!add_opened(o, 0, 0)) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  return bound_opened(o, err);
}

enum pz_status pz_order_new(struct pz_search *s, struct pz_objective_run *c, struct pz_order **out,
                            struct pz_error *err) {
  struct pz_order *o = pz_calloc(1, sizeof *o);
  if (!o) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  o->s = s;
  o->c = c;
  pz_arena_init(&o->arena, NULL);
  pz_vec_init(&o->heap, &o->arena, sizeof(struct entry));
  pz_vec_init(&o->opened, &o->arena, sizeof(struct entry));
  enum pz_status status = begin(o, err);
  if (status == PZ_OK)
    *out = o;
  else
    pz_order_free(o);
  return status;
}

void pz_order_free(struct pz_order *o) {
  if (!o) return;
  pz_arena_release(&o->arena);
  pz_free(o);
}

const uint32_t *pz_order_list(const struct pz_order *o) { return o->list; }

enum pz_status pz_order_need(struct pz_order *o, uint32_t n, double cutoff, uint32_t *known,
                             struct pz_error *err) {
  enum pz_status status = PZ_OK;
  while (status == PZ_OK && o->known < n && o->heap.n) {
    const struct entry *top = o->heap.items;
    if (top->value < cutoff) break;
    if (top->box == PZ_NONE)
      o->list[o->known++] = pop(o).point;
    else
      status = open_boxes(o, cutoff, err);
  }
  *known = o->known < n ? o->known : n;
  return status;
}

uint32_t pz_order_above(const struct pz_order *o, uint32_t from, double value) {
  uint32_t n = 0;
  const struct entry *h = o->heap.items;
  for (uint32_t i = from; i < o->known && o->c->chip_status[o->list[i]].bound > value; i++) n++;
  for (uint32_t i = 0; i < o->heap.n; i++)
    if (h[i].value > value) n += h[i].box == PZ_NONE ? 1 : pz_chip_box_at(o->s->boxes, h[i].box)->n;
  return n;
}

void pz_order_end(struct pz_order *o) {
  const struct entry *h = o->heap.items;
  for (uint32_t i = 0; i < o->heap.n; i++) {
    if (h[i].box == PZ_NONE) continue;
    const struct pz_chip_box *x = pz_chip_box_at(o->s->boxes, h[i].box);
    const uint32_t *points = pz_chip_boxes_points(o->s->boxes, x);
    for (uint32_t k = 0; k < x->n; k++) set_bound(o, points[k], h[i].value);
  }
}
