#include "workload/order.h"

#include <string.h>

#include "core/vec.h"

/* The longest unit that is looked for: twice the longest that models have. */
enum { LONGEST_UNIT = 16 };

/* How often the first `unit` of n layers stand one after the other. */
static uint32_t repeats_of(const uint32_t *layer, uint32_t n, uint32_t unit) {
  uint32_t r = 1;
  while ((r + 1) * unit <= n && memcmp(layer, layer + r * unit, unit * sizeof *layer) == 0) r++;
  return r;
}

/* The unit at the front that covers most of the rest by repetition; of equals the shortest. */
static uint32_t best_unit(const uint32_t *layer, uint32_t n) {
  uint32_t best = 1, most = repeats_of(layer, n, 1);
  for (uint32_t u = 2; u <= LONGEST_UNIT && 2 * u <= n; u++) {
    uint32_t r = repeats_of(layer, n, u);
    if (r < 2 || r * u <= most) continue;
    best = u;
    most = r * u;
  }
  return best;
}

static bool add_segment(struct pz_vec *list, const uint32_t *unit, uint32_t n, int64_t repeats) {
  uint32_t *copy = pz_arena_alloc(list->arena, n, sizeof *copy);
  if (!copy) return false;
  memcpy(copy, unit, n * sizeof *copy);
  return pz_vec_push(list, &(struct pz_segment){copy, n, repeats}) != NULL;
}

enum pz_status pz_order_set(struct pz_workload *w, const uint32_t *layer, uint32_t n,
                            struct pz_arena *arena) {
  struct pz_vec list;
  pz_vec_init(&list, arena, sizeof(struct pz_segment));
  for (uint32_t i = 0; i < n;) {
    uint32_t unit = best_unit(layer + i, n - i), r = repeats_of(layer + i, n - i, unit);
    if (!add_segment(&list, layer + i, unit, r)) return PZ_NO_MEMORY;
    i += unit * r;
  }
  w->order = list.items;
  w->n_order = list.n;
  return PZ_OK;
}

enum pz_status pz_order_grouped(struct pz_workload *w, struct pz_arena *arena) {
  struct pz_vec list;
  pz_vec_init(&list, arena, sizeof(struct pz_segment));
  for (uint32_t i = 0; i < w->n_layers; i++)
    if (!add_segment(&list, &i, 1, w->layers[i].count)) return PZ_NO_MEMORY;
  w->order = list.items;
  w->n_order = list.n;
  return PZ_OK;
}
