/* Layers at the ends of a model in 16 bit (wide_layers.h): a layer of the graph that stands for
 * several repeated layers is split into one for the ends and one for the rest, and the order of the
 * layers is listed anew. */
#include "step/wide_layers.h"

#include <string.h>

#include "step/training_memory.h"
#include "workload/assemble.h"

/* Lists the indices of all layers in the order in which they run. */
static uint32_t *listed_layers(struct pz_call *call, const struct pz_workload *w, uint32_t *n) {
  int64_t all = 0;
  for (uint32_t i = 0; i < w->n_layers; i++) all += w->layers[i].count;
  if (all >= UINT32_MAX) pz_raise(call, PZ_NO_MEMORY, "%s: out of memory", w->model);
  uint32_t *list = pz_alloc(call, (size_t)all, sizeof *list);
  *n = 0;
  for (uint32_t s = 0; s < w->n_order; s++)
    for (int64_t r = 0; r < w->order[s].repeats; r++)
      for (uint32_t u = 0; u < w->order[s].n_unit && *n < all; u++)
        list[(*n)++] = w->order[s].unit[u];
  return list;
}

/* Returns the name of a part of the repeated layers.  It begins with "block", because a single
 * repeated layer is recognised by its name. */
static const char *block_name(struct pz_call *call, const char *name, const char *end) {
  return pz_format(call, "%s%s%s", strncmp(name, "block", 5) == 0 ? "" : "block_", name, end);
}

static bool is_predict(const struct pz_layer *l) { return strncmp(l->name, "predict", 7) == 0; }

/* Marks the first and the last blocks of a list of layers, and counts them by layer. */
static void mark_ends(const struct pz_workload *w, const uint32_t *list, uint32_t n, int64_t first,
                      int64_t last, bool *marked, int64_t *wide) {
  int64_t blocks = 0, at = 0;
  for (uint32_t i = 0; i < n; i++)
    blocks += pz_is_block(&w->layers[list[i]]) && !is_predict(&w->layers[list[i]]);
  for (uint32_t i = 0; i < n; i++) {
    if (!pz_is_block(&w->layers[list[i]]) || is_predict(&w->layers[list[i]])) continue;
    marked[i] = at < first || at >= blocks - last;
    wide[list[i]] += marked[i];
    at++;
  }
}

void pz_wide_layers(struct pz_call *call, struct pz_workload *w, int64_t first, int64_t last,
                    bool predict) {
  struct pz_call own = pz_call_in(call, &((struct pz_owned_workload *)w)->arena);
  uint32_t n_list = 0, *list = listed_layers(&own, w, &n_list);
  int64_t *wide = pz_alloc(&own, w->n_layers, sizeof *wide); /* of each layer, at the ends */
  bool *marked = pz_alloc(&own, n_list, sizeof *marked);
  uint32_t *place = pz_alloc(&own, w->n_layers, sizeof *place);
  struct pz_layer *layers = pz_alloc(&own, 2 * (size_t)w->n_layers, sizeof *layers);
  mark_ends(w, list, n_list, first, last, marked, wide);
  uint32_t n_layers = 0;
  for (uint32_t i = 0; i < w->n_layers; i++) {
    struct pz_layer *l = &layers[place[i] = n_layers++];
    *l = w->layers[i];
    l->wide = wide[i] == l->count || (predict && is_predict(l));
    if (!wide[i] || l->wide) continue;
    struct pz_layer *end = &layers[n_layers++];
    *end = *l;
    end->count = wide[i];
    end->wide = true;
    l->count -= wide[i];
    end->name = block_name(&own, l->name, "_16bit");
    l->name = block_name(&own, l->name, "");
  }
  for (uint32_t i = 0; i < n_layers; i++) {
    uint32_t *from = pz_alloc(&own, layers[i].n_from, sizeof *from);
    for (uint32_t k = 0; k < layers[i].n_from; k++) from[k] = place[layers[i].from[k]];
    layers[i].from = from;
  }
  for (uint32_t i = 0; i < n_list; i++)
    list[i] = place[list[i]] + (marked[i] && !layers[place[list[i]]].wide);
  w->layers = layers;
  w->n_layers = n_layers;
  pz_describe_order(&own, w, list, n_list);
}
