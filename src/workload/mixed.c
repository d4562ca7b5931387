#include "workload/family.h"

#include <string.h>

enum { LONGEST_PERIOD = 16 };

static const unsigned PROPERTIES = PZ_LAYER_LOCAL | PZ_LAYER_UNROTATED | PZ_LAYER_DENSE;

void pz_mixed_mark(struct pz_arch *a, int64_t layer, unsigned properties) {
  a->mixed = true;
  if (layer >= 0 && layer < PZ_MOST_MIXED_LAYERS) a->kind[layer] |= (uint8_t)properties;
}

/* One entry of layer_types: is it local? */
static bool is_local(struct pz_fields *c, const json_t *type) {
  const char *s = json_string_value(type);
  bool local = s && (strcmp(s, "sliding_attention") == 0 || strcmp(s, "chunked_attention") == 0);
  if (!local && (!s || strcmp(s, "full_attention") != 0))
    pz_fields_refuse(c, "layer_types",
                     "a list of sliding_attention, chunked_attention and full_attention");
  return local;
}

void pz_mixed_attention(struct pz_fields *c, struct pz_arch *a, int64_t period) {
  const json_t *types = pz_fields_value(c, "layer_types");
  if (c->status != PZ_OK || (!a->window && !a->chunk)) return;
  if (!types) {
    for (int64_t i = 0; i < a->layers && period; i++)
      pz_mixed_mark(a, i, (i + 1) % period ? PZ_LAYER_LOCAL : 0);
    return;
  }
  if (!json_is_array(types) || json_array_size(types) != (size_t)a->layers) {
    pz_fields_refuse(c, "layer_types", "a list with an entry for every layer");
    return;
  }
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK; i++)
    pz_mixed_mark(a, i, is_local(c, json_array_get(types, (size_t)i)) ? PZ_LAYER_LOCAL : 0);
}

void pz_mixed_list(struct pz_fields *c, struct pz_arch *a, const char *key, unsigned properties,
                   bool give) {
  const json_t *list = pz_fields_value(c, key);
  if (!list || c->status != PZ_OK) return;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *v = json_array_get(list, i);
    json_int_t layer = json_integer_value(v);
    if (!json_is_integer(v) || layer < 0 || layer >= a->layers) {
      pz_fields_refuse(c, key, "a list of layers, from 0 to their number less one");
      return;
    }
    pz_mixed_mark(a, layer, give ? properties : 0);
    if (!give && layer < PZ_MOST_MIXED_LAYERS) a->kind[layer] &= (uint8_t)~properties;
  }
  if (!json_is_array(list)) pz_fields_refuse(c, key, "a list of layers");
}

/* The shortest period of the pattern's second half. */
static int64_t period_of(const struct pz_arch *a) {
  for (int64_t p = 1; p <= a->layers / 2 && p <= LONGEST_PERIOD; p++) {
    int64_t i = a->layers / 2;
    while (i < a->layers && (i < p || a->kind[i] == a->kind[i - p])) i++;
    if (i == a->layers) return p;
  }
  return 1;
}

/* Past the model's own layers its pattern goes on. */
static unsigned kind_at(const struct pz_arch *a, int64_t layer, int64_t period) {
  if (!a->mixed) return 0;
  return a->kind[layer < a->layers ? layer : a->layers - period + (layer - a->layers) % period];
}

static struct pz_arch arch_of(const struct pz_arch *a, unsigned kind) {
  struct pz_arch x = *a;
  if (!a->mixed) return x;
  if (!(kind & PZ_LAYER_LOCAL)) x.window = x.chunk = 0;
  if (kind & PZ_LAYER_UNROTATED) x.rotary_dims = 0;
  if (kind & PZ_LAYER_DENSE) {
    x.ffn = a->dense_ffn;
    x.experts = x.experts_per_token = x.shared_ffn = 0;
  }
  return x;
}

/* `differ` has the properties in which the model's layers are not all alike. */
static const char *name_of(struct pz_arena *arena, const struct pz_arch *a, unsigned kind,
                           unsigned differ) {
  const char *span = kind & PZ_LAYER_LOCAL ? (a->chunk ? "_chunk" : "_window") : "_full";
  const char *turn = kind & PZ_LAYER_UNROTATED ? "_unrotated" : "_rotated";
  const char *ffn = kind & PZ_LAYER_DENSE ? "_dense" : "_moe";
  return pz_arena_printf(arena, "block%s%s%s", differ & PZ_LAYER_LOCAL ? span : "",
                         differ & PZ_LAYER_UNROTATED ? turn : "",
                         differ & PZ_LAYER_DENSE ? ffn : "");
}

/* In what n kinds differ.  That the layers without rotary positions are those with full attention
 * is not said twice. */
static unsigned differences(const unsigned *kind, int n) {
  unsigned all = PROPERTIES, any = 0;
  bool twice = true;
  for (int i = 0; i < n; i++) {
    all &= kind[i];
    any |= kind[i];
    twice = twice && !(kind[i] & PZ_LAYER_LOCAL) == !!(kind[i] & PZ_LAYER_UNROTATED);
  }
  return any & ~all & ~(twice ? (unsigned)PZ_LAYER_UNROTATED : 0);
}

int pz_mixed_kinds(const struct pz_arch *a, int64_t n, struct pz_arena *arena,
                   struct pz_kind *kinds, uint32_t *of_layer) {
  int at[PZ_MOST_KINDS], count = 0;
  unsigned list[PZ_MOST_KINDS];
  int64_t period = a->mixed ? period_of(a) : 1;
  memset(at, -1, sizeof at);
  for (int64_t i = 0; i < n; i++) {
    unsigned k = kind_at(a, i, period);
    if (at[k] < 0) {
      list[count] = k;
      kinds[count] = (struct pz_kind){.arch = arch_of(a, k)};
      at[k] = count++;
    }
    kinds[at[k]].count++;
    of_layer[i] = (uint32_t)at[k];
  }
  unsigned differ = differences(list, count);
  for (int i = 0; i < count; i++)
    if (!(kinds[i].name = name_of(arena, a, list[i], differ))) return 0;
  return count;
}
