/* Layers at the ends of a model in 16 bit (wide_layers.h): a layer of the graph that stands for
 * several repeated layers is split into a 16-bit layer and one for the rest. */
#include "step/wide_layers.h"

#include <string.h>

#include "step/training_memory.h"
#include "workload/assemble.h"

/* Returns the indices of all layers of the model in the order in which they run. */
static uint32_t *list_layers(struct pz_call *call, const struct pz_workload *workload,
                             uint32_t *n_listed) {
  int64_t n_layers = 0;
  for (uint32_t i = 0; i < workload->n_layers; i++) n_layers += workload->layers[i].count;
  if (n_layers >= UINT32_MAX) pz_raise_memory(call, workload->model);
  uint32_t *order = pz_alloc(call, (size_t)n_layers, sizeof *order);
  *n_listed = 0;
  for (uint32_t run = 0; run < workload->n_order; run++)
    for (int64_t repeat = 0; repeat < workload->order[run].repeats; repeat++)
      for (uint32_t unit = 0; unit < workload->order[run].n_unit && *n_listed < n_layers; unit++)
        order[(*n_listed)++] = workload->order[run].unit[unit];
  return order;
}

/* Returns whether the layer is one of multi-token prediction. */
static bool is_predict(const struct pz_layer *layer) {
  return strncmp(layer->name, "predict", 7) == 0;
}

/* Marks the first n_first and the last n_last repeated layers as 16-bit layers.  A layer of the
 * graph stands for all equal layers of the model, and is split if only some of them are marked. */
void pz_wide_layers(struct pz_call *call, struct pz_workload *workload, int64_t n_first,
                    int64_t n_last, bool wide_predict) {
  struct pz_call result = pz_call_in(call, &((struct pz_owned_workload *)workload)->arena);
  uint32_t n_order = 0, *order = list_layers(&result, workload, &n_order);
  int64_t *wide_count = pz_alloc(&result, workload->n_layers, sizeof *wide_count);
  bool *is_wide = pz_alloc(&result, n_order, sizeof *is_wide);
  uint32_t *new_index = pz_alloc(&result, workload->n_layers, sizeof *new_index);
  struct pz_layer *layers = pz_alloc(&result, 2 * (size_t)workload->n_layers, sizeof *layers);
  /* mark the first and the last repeated layers, and count them by layer of the graph */
  int64_t n_blocks = 0, n_blocks_seen = 0;
  for (uint32_t i = 0; i < n_order; i++)
    n_blocks +=
        pz_is_block(&workload->layers[order[i]]) && !is_predict(&workload->layers[order[i]]);
  for (uint32_t i = 0; i < n_order; i++) {
    if (!pz_is_block(&workload->layers[order[i]]) || is_predict(&workload->layers[order[i]]))
      continue;
    is_wide[i] = n_blocks_seen < n_first || n_blocks_seen >= n_blocks - n_last;
    wide_count[order[i]] += is_wide[i];
    n_blocks_seen++;
  }
  /* split the layers; a 16-bit part follows the layer that it is split from */
  uint32_t n_layers = 0;
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    new_index[i] = n_layers;
    struct pz_layer *layer = &layers[n_layers++];
    *layer = workload->layers[i];
    layer->wide = wide_count[i] == layer->count || (wide_predict && is_predict(layer));
    if (!wide_count[i] || layer->wide) continue;
    struct pz_layer *wide_layer = &layers[n_layers++];
    *wide_layer = *layer;
    wide_layer->count = wide_count[i];
    wide_layer->wide = true;
    layer->count -= wide_count[i];
    /* pz_is_block() recognises even a single repeated layer by this prefix */
    const char *prefix = strncmp(layer->name, "block", 5) == 0 ? "" : "block_";
    wide_layer->name = pz_format(&result, "%s%s_16bit", prefix, layer->name);
    layer->name = pz_format(&result, "%s%s", prefix, layer->name);
  }
  /* renumber the inputs of layers and the order in which they run */
  for (uint32_t i = 0; i < n_layers; i++) {
    uint32_t *inputs = pz_alloc(&result, layers[i].n_from, sizeof *inputs);
    for (uint32_t k = 0; k < layers[i].n_from; k++) inputs[k] = new_index[layers[i].from[k]];
    layers[i].from = inputs;
  }
  for (uint32_t i = 0; i < n_order; i++)
    order[i] = new_index[order[i]] + (is_wide[i] && !layers[new_index[order[i]]].wide);
  workload->layers = layers;
  workload->n_layers = n_layers;
  pz_describe_order(&result, workload, order, n_order);
}
