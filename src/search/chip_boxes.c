#include "search/chip_boxes.h"

#include <math.h>

#include "core/alloc.h"
#include "core/vec.h"

enum { LEAF = 8 };

struct pz_chip_boxes {
  const struct pz_search *s;
  struct pz_arena arena;
  struct pz_vec boxes; /* struct pz_chip_box */
  uint32_t *points;    /* each box has a part of it */
};

/* A box around points first .. first + n - 1 of the list. */
static bool add_box(struct pz_chip_boxes *b, uint32_t first, uint32_t n) {
  const struct pz_search *s = b->s;
  struct pz_chip_box x = {.first = first, .n = n, .child = {PZ_NONE, PZ_NONE}};
  x.least = b->points[first];
  x.lo = x.hi = s->points[x.least];
  x.nature = s->nature[x.least];
  for (uint32_t i = first; i < first + n; i++) {
    uint32_t p = b->points[i];
    if (p < x.least) x.least = p;
    x.nature.area_um2 = fmin(x.nature.area_um2, s->nature[p].area_um2);
    x.nature.watts = fmin(x.nature.watts, s->nature[p].watts);
    for (int a = 0; a < PZ_AXES; a++) {
      if (s->points[p].at[a] < x.lo.at[a]) x.lo.at[a] = s->points[p].at[a];
      if (s->points[p].at[a] > x.hi.at[a]) x.hi.at[a] = s->points[p].at[a];
    }
  }
  x.rate = pz_arena_alloc(&b->arena, s->n_models, sizeof *x.rate);
  for (uint32_t m = 0; x.rate && m < s->n_models; m++) x.rate[m] = -1;
  return x.rate && pz_vec_push(&b->boxes, &x);
}

struct pz_chip_boxes *pz_chip_boxes_new(const struct pz_search *s) {
  struct pz_chip_boxes *b = pz_calloc(1, sizeof *b);
  if (!b) return NULL;
  b->s = s;
  pz_arena_init(&b->arena, NULL);
  pz_vec_init(&b->boxes, &b->arena, sizeof(struct pz_chip_box));
  b->points = pz_arena_alloc(&b->arena, s->n_points, sizeof *b->points);
  for (uint32_t p = 0; b->points && p < s->n_points; p++) b->points[p] = p;
  if (b->points && add_box(b, 0, s->n_points)) return b;
  pz_chip_boxes_free(b);
  return NULL;
}

void pz_chip_boxes_free(struct pz_chip_boxes *b) {
  if (!b) return;
  pz_arena_release(&b->arena);
  pz_free(b);
}

const struct pz_chip_box *pz_chip_box_at(const struct pz_chip_boxes *b, uint32_t i) {
  return pz_vec_at(&b->boxes, struct pz_chip_box, i);
}

const uint32_t *pz_chip_boxes_points(const struct pz_chip_boxes *b, const struct pz_chip_box *x) {
  return &b->points[x->first];
}

bool pz_chip_box_is_leaf(const struct pz_chip_box *x) { return x->n <= LEAF; }

/* The axis on which the highest value is most times the lowest. */
static int widest(const struct pz_space *s, const struct pz_chip_box *x) {
  double most = 0;
  int axis = 0;
  for (int a = 0; a < PZ_AXES; a++) {
    if (x->lo.at[a] == x->hi.at[a]) continue;
    double ratio = (double)s->value[a][x->hi.at[a]] / (double)s->value[a][x->lo.at[a]];
    if (ratio > most) most = ratio, axis = a;
  }
  return axis;
}

enum pz_status pz_chip_box_split(struct pz_chip_boxes *b, uint32_t i, struct pz_error *err) {
  struct pz_chip_box x = *pz_chip_box_at(b, i);
  if (x.child[0] != PZ_NONE) return PZ_OK;
  int axis = widest(b->s->task->space, &x);
  int middle = (x.lo.at[axis] + x.hi.at[axis]) / 2;
  uint32_t *list = &b->points[x.first], low = 0;
  for (uint32_t k = 0; k < x.n; k++) {
    uint32_t p = list[k];
    if (b->s->points[p].at[axis] > middle) continue;
    list[k] = list[low];
    list[low++] = p;
  }
  uint32_t at = b->boxes.n;
  if (!add_box(b, x.first, low) || !add_box(b, x.first + low, x.n - low))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the boxes");
  struct pz_chip_box *parent = pz_vec_at(&b->boxes, struct pz_chip_box, i);
  parent->child[0] = at;
  parent->child[1] = at + 1;
  return PZ_OK;
}
