/* Models whose layers differ: the kind of each layer, and the shape of each kind.
 *
 * A kind is a set of PZ_LAYER_* properties.  Families read the properties of every layer from a
 * configuration (pz_mixed_read_types, pz_mixed_read_attention, pz_mixed_mark_listed,
 * pz_mixed_mark).  Then pz_mixed_kinds() lists the kinds of as many layers as the user asks for,
 * with names that state their differences. */
#include "workload/family.h"

#include <stdio.h>
#include <string.h>

/* Most layers of a repeated pattern; the patterns of known models have at most half as many. */
enum { LONGEST_PERIOD = 16 };

static const unsigned PROPERTIES = PZ_LAYER_LOCAL | PZ_LAYER_UNROTATED | PZ_LAYER_DENSE |
                                   PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER | PZ_LAYER_NO_FFN |
                                   PZ_LAYER_REUSED;

/* ---- reading properties ---------------------------------------------------------------------- */

/* Adds properties to a layer.  read_config() refuses models with layers beyond the limit. */
void pz_mixed_mark(struct pz_arch *arch, int64_t layer, unsigned properties) {
  arch->has_mixed_layers = true;
  if (layer >= 0 && layer < PZ_MOST_MIXED_LAYERS) arch->layer_kind[layer] |= (uint8_t)properties;
}

/* Returns the properties of a layer type, or refuses the field with the names of all known
 * types. */
static unsigned read_layer_type(struct pz_fields *config, const char *key, const json_t *type,
                                const struct pz_layer_type *known) {
  const char *name = json_string_value(type);
  char accepted[160] = "a list of";
  size_t used = strlen(accepted);
  for (const struct pz_layer_type *layer_type = known; layer_type->name; layer_type++) {
    if (name && strcmp(name, layer_type->name) == 0) return layer_type->properties;
    const char *separator = layer_type[1].name ? "," : " and";
    if (layer_type == known) separator = "";
    used += (size_t)snprintf(accepted + used, sizeof accepted - used, "%s %s", separator,
                             layer_type->name);
  }
  pz_fields_refuse(config, key, accepted);
  return 0;
}

/* Reads the types of all layers.  The list must have a known name for each layer. */
void pz_mixed_read_types(struct pz_fields *config, struct pz_arch *arch, const char *key,
                         const struct pz_layer_type *known) {
  const json_t *types = pz_fields_value(config, key);
  if (config->status != PZ_OK) return;
  if (!json_is_array(types) || json_array_size(types) != (size_t)arch->layers) {
    pz_fields_refuse(config, key, "a list with an entry for every layer");
    return;
  }
  for (int64_t i = 0; i < arch->layers && config->status == PZ_OK; i++)
    pz_mixed_mark(arch, i, read_layer_type(config, key, json_array_get(types, (size_t)i), known));
}

/* Marks the layers with a window or chunk, by the field layer_types or else by the period. */
void pz_mixed_read_attention(struct pz_fields *config, struct pz_arch *arch, int64_t period) {
  static const struct pz_layer_type known[] = {{"sliding_attention", PZ_LAYER_LOCAL},
                                               {"chunked_attention", PZ_LAYER_LOCAL},
                                               {"full_attention", 0},
                                               {NULL, 0}};
  if (config->status != PZ_OK || (!arch->window && !arch->chunk)) return;
  if (pz_fields_value(config, "layer_types")) {
    pz_mixed_read_types(config, arch, "layer_types", known);
    return;
  }
  for (int64_t i = 0; i < arch->layers && period; i++)
    pz_mixed_mark(arch, i, (i + 1) % period ? PZ_LAYER_LOCAL : 0);
}

/* Adds or removes properties of the layers that a field lists by number. */
void pz_mixed_mark_listed(struct pz_fields *config, struct pz_arch *arch, const char *key,
                          unsigned properties, bool adds) {
  const json_t *list = pz_fields_value(config, key);
  if (!list || config->status != PZ_OK) return;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    json_int_t layer = json_integer_value(item);
    if (!json_is_integer(item) || layer < 0 || layer >= arch->layers) {
      pz_fields_refuse(config, key, "a list of layers, from 0 to their number less one");
      return;
    }
    pz_mixed_mark(arch, layer, adds ? properties : 0);
    if (!adds && layer < PZ_MOST_MIXED_LAYERS) arch->layer_kind[layer] &= (uint8_t)~properties;
  }
  if (!json_is_array(list)) pz_fields_refuse(config, key, "a list of layers");
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Returns the shortest period with which kinds repeat in the second half of the layers (the first
 * half may begin with special layers), or 1 if there is none. */
static int64_t find_period(const struct pz_arch *arch) {
  for (int64_t period = 1; period <= arch->layers / 2 && period <= LONGEST_PERIOD; period++) {
    int64_t i = arch->layers / 2;
    while (i < arch->layers && (i < period || arch->layer_kind[i] == arch->layer_kind[i - period]))
      i++;
    if (i == arch->layers) return period;
  }
  return 1;
}

/* Returns the shape of a layer of the given kind: that of the model without other kinds. */
struct pz_arch pz_mixed_layer_arch(const struct pz_arch *arch, unsigned kind) {
  struct pz_arch layer = *arch;
  if (!arch->has_mixed_layers) return layer;
  if (!(kind & PZ_LAYER_LOCAL)) {
    layer.window = 0;
    layer.chunk = 0;
  }
  if (kind & PZ_LAYER_UNROTATED) layer.rotary_dims = 0;
  if (kind & PZ_LAYER_REUSED) layer.index_heads = 0;
  if (kind & PZ_LAYER_DENSE) layer.ffn = arch->dense_ffn;
  if (kind & (PZ_LAYER_DENSE | PZ_LAYER_NO_FFN)) {
    layer.experts = 0;
    layer.experts_per_token = 0;
    layer.shared_ffn = 0;
  }
  if (kind & PZ_LAYER_RECURRENT) layer.mixer = arch->recurrence.mixer;
  if (kind & PZ_LAYER_NO_MIXER) layer.mixer = PZ_MIXER_NONE;
  layer.no_ffn = kind & PZ_LAYER_NO_FFN;
  return layer;
}

/* Returns the name of a kind, such as "block_window_moe", which states the kind's properties among
 * `differences`, those in which the kinds of the model differ. */
static const char *name_kind(struct pz_call *call, const struct pz_arch *arch, unsigned kind,
                             unsigned differences) {
  static const char *const recurrent[] = {
      [PZ_MIXER_MAMBA] = "_mamba", [PZ_MIXER_MAMBA2] = "_mamba", [PZ_MIXER_DELTA] = "_delta"};
  const char *mixer = "", *span = "", *rotation = "", *index = "", *ffn = "";
  bool attends = !(kind & (PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER));
  if (differences & (PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER)) {
    if (attends)
      mixer = "_attention";
    else if (!(kind & PZ_LAYER_NO_MIXER))
      mixer = recurrent[arch->recurrence.mixer];
  }
  if (attends && differences & PZ_LAYER_LOCAL) {
    const char *local = arch->chunk ? "_chunk" : "_window";
    span = kind & PZ_LAYER_LOCAL ? local : "_full";
  }
  if (attends && differences & PZ_LAYER_UNROTATED)
    rotation = kind & PZ_LAYER_UNROTATED ? "_unrotated" : "_rotated";
  if (attends && differences & PZ_LAYER_REUSED)
    index = kind & PZ_LAYER_REUSED ? "_reused" : "_indexed";
  bool has_ffn = !(kind & PZ_LAYER_NO_FFN);
  if (has_ffn && differences & (PZ_LAYER_DENSE | PZ_LAYER_NO_FFN)) {
    const char *sparse = arch->experts ? "_moe" : "_mlp";
    ffn = kind & PZ_LAYER_DENSE ? "_dense" : sparse;
  }
  return pz_format(call, "block%s%s%s%s%s", mixer, span, rotation, index, ffn);
}

/* Lists the kinds of layers.  Layers of a kind are equal, so only one of each kind is built. */
int pz_mixed_kinds(struct pz_call *call, const struct pz_arch *arch, int64_t n,
                   struct pz_kind *kinds, uint32_t *kind_index) {
  int index_of[PZ_LAYER_REUSED * 2], count = 0; /* PZ_LAYER_REUSED is the largest property */
  unsigned properties[PZ_MOST_KINDS];
  int64_t period = arch->has_mixed_layers ? find_period(arch) : 1;
  /* index_of[kind] is its index in `kinds`, or -1 if it is new */
  memset(index_of, -1, sizeof index_of);
  for (int64_t i = 0; i < n; i++) {
    /* Layers beyond those of the model continue the pattern of its last period. */
    int64_t past_end = i - arch->layers;
    int64_t layer = past_end < 0 ? i : arch->layers - period + past_end % period;
    unsigned kind = arch->has_mixed_layers ? arch->layer_kind[layer] : 0;
    /* Properties of parts that a layer lacks make no difference. */
    if (kind & (PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER))
      kind &= ~(unsigned)(PZ_LAYER_LOCAL | PZ_LAYER_UNROTATED);
    if (kind & PZ_LAYER_NO_FFN) kind &= ~(unsigned)PZ_LAYER_DENSE;
    if (index_of[kind] < 0) {
      properties[count] = kind;
      kinds[count] = (struct pz_kind){.arch = pz_mixed_layer_arch(arch, kind)};
      index_of[kind] = count;
      count++;
    }
    kinds[index_of[kind]].count++;
    kind_index[i] = (uint32_t)index_of[kind];
  }
  /* The names state the properties in which the kinds differ.  Missing rotary positions are not
   * stated if exactly the layers with full attention lack them. */
  unsigned common = PROPERTIES, present = 0;
  bool unrotated_is_full = true;
  for (int i = 0; i < count; i++) {
    bool full = !(properties[i] & PZ_LAYER_LOCAL), unrotated = properties[i] & PZ_LAYER_UNROTATED;
    common &= properties[i];
    present |= properties[i];
    if (full != unrotated) unrotated_is_full = false;
  }
  unsigned differences = present & ~common;
  if (unrotated_is_full) differences &= ~(unsigned)PZ_LAYER_UNROTATED;
  for (int i = 0; i < count; i++) kinds[i].name = name_kind(call, arch, properties[i], differences);
  return count;
}
