/* Layers at the ends of a model in 16 bit (wide_layers.h): a layer of the graph that stands for
 * several repeated layers is split into one for the ends and one for the rest, and the order of the
 * layers is listed anew. */
#include "step/wide_layers.h"

#include <string.h>

#include "step/training_memory.h"
#include "workload/assemble.h"

/* Lists the indices of all layers in the order in which they run. */
static uint32_t *listed_layers(struct pz_call *call, const struct pz_workload *workload,
                               uint32_t *n) {
  int64_t all = 0;
  for (uint32_t i = 0; i < workload->n_layers; i++) all += workload->layers[i].count;
  if (all >= UINT32_MAX) pz_raise_memory(call, workload->model);
  uint32_t *list = pz_alloc(call, (size_t)all, sizeof *list);
  *n = 0;
  for (uint32_t s = 0; s < workload->n_order; s++)
    for (int64_t r = 0; r < workload->order[s].repeats; r++)
      for (uint32_t u = 0; u < workload->order[s].n_unit && *n < all; u++)
        list[(*n)++] = workload->order[s].unit[u];
  return list;
}

/* Returns the name of a part of the repeated layers.  It begins with "block", because a single
 * repeated layer is recognised by its name. */
static const char *block_name(struct pz_call *call, const char *name, const char *end) {
  return pz_format(call, "%s%s%s", strncmp(name, "block", 5) == 0 ? "" : "block_", name, end);
}

static bool is_predict(const struct pz_layer *layer) {
  return strncmp(layer->name, "predict", 7) == 0;
}

void pz_wide_layers(struct pz_call *call, struct pz_workload *workload, int64_t first, int64_t last,
                    bool predict) {
  struct pz_call own = pz_call_in(call, &((struct pz_owned_workload *)workload)->arena);
  uint32_t n_list = 0, *list = listed_layers(&own, workload, &n_list);
  int64_t *wide = pz_alloc(&own, workload->n_layers, sizeof *wide); /* of each layer, at the ends */
  bool *marked = pz_alloc(&own, n_list, sizeof *marked);
  uint32_t *place = pz_alloc(&own, workload->n_layers, sizeof *place);
  struct pz_layer *layers = pz_alloc(&own, 2 * (size_t)workload->n_layers, sizeof *layers);
  /* Marks the first and the last blocks of a list of layers, and counts them by layer. */
  int64_t blocks = 0, at = 0;
  for (uint32_t i = 0; i < n_list; i++)
    blocks += pz_is_block(&workload->layers[list[i]]) && !is_predict(&workload->layers[list[i]]);
  for (uint32_t i = 0; i < n_list; i++) {
    if (!pz_is_block(&workload->layers[list[i]]) || is_predict(&workload->layers[list[i]]))
      continue;
    marked[i] = at < first || at >= blocks - last;
    wide[list[i]] += marked[i];
    at++;
  }
  uint32_t n_layers = 0;
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    struct pz_layer *layer = &layers[place[i] = n_layers++];
    *layer = workload->layers[i];
    layer->wide = wide[i] == layer->count || (predict && is_predict(layer));
    if (!wide[i] || layer->wide) continue;
    struct pz_layer *end = &layers[n_layers++];
    *end = *layer;
    end->count = wide[i];
    end->wide = true;
    layer->count -= wide[i];
    end->name = block_name(&own, layer->name, "_16bit");
    layer->name = block_name(&own, layer->name, "");
  }
  for (uint32_t i = 0; i < n_layers; i++) {
    uint32_t *from = pz_alloc(&own, layers[i].n_from, sizeof *from);
    for (uint32_t k = 0; k < layers[i].n_from; k++) from[k] = place[layers[i].from[k]];
    layers[i].from = from;
  }
  for (uint32_t i = 0; i < n_list; i++)
    list[i] = place[list[i]] + (marked[i] && !layers[place[list[i]]].wide);
  workload->layers = layers;
  workload->n_layers = n_layers;
  pz_describe_order(&own, workload, list, n_list);
}
