#include "step/layer_kinds.h"

#include <string.h>

#include "core/alloc.h"

/* Of the table of counts. */
static const int64_t MOST_ENTRIES = 1 << 22;

bool pz_is_block(const struct pz_layer *l) {
  return l->count > 1 || strncmp(l->name, "block", 5) == 0;
}

static void list_kinds(const struct pz_workload *w, struct pz_layer_kinds *k) {
  for (uint32_t i = 0; i < w->n_layers; i++)
    if (pz_is_block(&w->layers[i])) {
      k->layer[k->n++] = i;
      k->n_blocks += w->layers[i].count;
    }
  if (k->n) return;
  k->layer[k->n++] = 0;
  k->n_blocks = w->layers[0].count;
}

static uint32_t kind_of(const struct pz_layer_kinds *k, uint32_t layer) {
  uint32_t i = 0;
  while (i < k->n && k->layer[i] != layer) i++;
  return i;
}

/* Layers one after another: each kind's count so far. */
static void count_kinds(const struct pz_workload *w, struct pz_layer_kinds *k) {
  int64_t at = 0, row = k->n_blocks + 1;
  for (uint32_t s = 0; s < w->n_order; s++)
    for (int64_t r = 0; r < w->order[s].repeats; r++)
      for (uint32_t u = 0; u < w->order[s].n_unit; u++) {
        uint32_t kind = kind_of(k, w->order[s].unit[u]);
        if (kind == k->n || at == k->n_blocks) continue;
        for (uint32_t i = 0; i < k->n; i++)
          k->before[i * row + at + 1] = k->before[i * row + at] + (i == kind);
        at++;
      }
}

enum pz_status pz_layer_kinds_of(const struct pz_workload *w, struct pz_layer_kinds *out,
                                 struct pz_error *err) {
  struct pz_layer_kinds k = {.n = 0};
  k.layer = pz_calloc(w->n_layers, sizeof *k.layer);
  if (k.layer) list_kinds(w, &k);
  if (k.n > 1 && k.n_blocks >= MOST_ENTRIES / k.n) {
    pz_layer_kinds_free(&k);
    return pz_fail(err, PZ_LIMIT, "%s has too many kinds of repeated layers for a training plan",
                   w->model);
  }
  if (k.n > 1) {
    k.before = pz_calloc((size_t)k.n * ((size_t)k.n_blocks + 1), sizeof *k.before);
    if (k.before) count_kinds(w, &k);
  }
  if (k.layer && (k.n == 1 || k.before)) return *out = k, PZ_OK;
  pz_layer_kinds_free(&k);
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the layers of %s", w->model);
}

void pz_layer_kinds_free(struct pz_layer_kinds *k) {
  pz_free(k->layer);
  pz_free(k->before);
  *k = (struct pz_layer_kinds){.n = 0};
}
