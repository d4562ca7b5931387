#include "workload/family.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_PERIOD = 16 };

static const unsigned PROPERTIES = PZ_LAYER_LOCAL | PZ_LAYER_UNROTATED | PZ_LAYER_DENSE |
                                   PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER | PZ_LAYER_NO_FFN |
                                   PZ_LAYER_REUSED;

void pz_mixed_mark(struct pz_arch *a, int64_t layer, unsigned properties) {
  a->mixed = true;
  if (layer >= 0 && layer < PZ_MOST_MIXED_LAYERS) a->kind[layer] |= (uint8_t)properties;
}

/* One entry of a list of layers' types. */
static unsigned type_of(struct pz_fields *c, const char *key, const json_t *type,
                        const struct pz_layer_type *known) {
  const char *s = json_string_value(type);
  char accepted[160] = "a list of";
  size_t used = strlen(accepted);
  for (const struct pz_layer_type *t = known; t->name; t++) {
    if (s && strcmp(s, t->name) == 0) return t->properties;
    const char *before = t == known ? "" : t[1].name ? "," : " and";
    used += (size_t)snprintf(accepted + used, sizeof accepted - used, "%s %s", before, t->name);
  }
  pz_fields_refuse(c, key, accepted);
  return 0;
}

void pz_mixed_types(struct pz_fields *c, struct pz_arch *a, const char *key,
                    const struct pz_layer_type *known) {
  const json_t *types = pz_fields_value(c, key);
  if (c->status != PZ_OK) return;
  if (!json_is_array(types) || json_array_size(types) != (size_t)a->layers) {
    pz_fields_refuse(c, key, "a list with an entry for every layer");
    return;
  }
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK; i++)
    pz_mixed_mark(a, i, type_of(c, key, json_array_get(types, (size_t)i), known));
}

void pz_mixed_attention(struct pz_fields *c, struct pz_arch *a, int64_t period) {
  static const struct pz_layer_type known[] = {{"sliding_attention", PZ_LAYER_LOCAL},
                                               {"chunked_attention", PZ_LAYER_LOCAL},
                                               {"full_attention", 0},
                                               {NULL, 0}};
  if (c->status != PZ_OK || (!a->window && !a->chunk)) return;
  if (pz_fields_value(c, "layer_types")) {
    pz_mixed_types(c, a, "layer_types", known);
    return;
  }
  for (int64_t i = 0; i < a->layers && period; i++)
    pz_mixed_mark(a, i, (i + 1) % period ? PZ_LAYER_LOCAL : 0);
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

void pz_mixed_settle(struct pz_arch *a) {
  unsigned any = a->predict_kind | (a->beside ? PZ_LAYER_RECURRENT : 0);
  for (int64_t i = 0; i < a->layers && i < PZ_MOST_MIXED_LAYERS; i++) any |= a->kind[i];
  if (!(any & PZ_LAYER_RECURRENT)) a->recurrence = (struct pz_recurrence){0};
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

/* Properties of what a layer does not have say nothing. */
static unsigned plain_kind(unsigned kind) {
  if (kind & (PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER))
    kind &= ~(unsigned)(PZ_LAYER_LOCAL | PZ_LAYER_UNROTATED);
  return kind & PZ_LAYER_NO_FFN ? kind & ~(unsigned)PZ_LAYER_DENSE : kind;
}

/* Past the model's own layers its pattern goes on. */
static unsigned kind_at(const struct pz_arch *a, int64_t layer, int64_t period) {
  if (!a->mixed) return 0;
  return plain_kind(
      a->kind[layer < a->layers ? layer : a->layers - period + (layer - a->layers) % period]);
}

struct pz_arch pz_mixed_arch(const struct pz_arch *a, unsigned kind) {
  struct pz_arch x = *a;
  if (!a->mixed) return x;
  if (!(kind & PZ_LAYER_LOCAL)) x.window = x.chunk = 0;
  if (kind & PZ_LAYER_UNROTATED) x.rotary_dims = 0;
  if (kind & PZ_LAYER_REUSED) x.index_heads = 0;
  if (kind & PZ_LAYER_DENSE) x.ffn = a->dense_ffn;
  if (kind & (PZ_LAYER_DENSE | PZ_LAYER_NO_FFN)) x.experts = x.experts_per_token = x.shared_ffn = 0;
  if (kind & PZ_LAYER_RECURRENT) x.mixer = a->recurrence.mixer;
  if (kind & PZ_LAYER_NO_MIXER) x.mixer = PZ_MIXER_NONE;
  x.no_ffn = kind & PZ_LAYER_NO_FFN;
  return x;
}

/* `differ` has the properties in which the model's layers are not all alike. */
static const char *name_of(struct pz_arena *arena, const struct pz_arch *a, unsigned kind,
                           unsigned differ) {
  static const char *const recurrent[] = {
      [PZ_MIXER_MAMBA] = "_mamba", [PZ_MIXER_MAMBA2] = "_mamba", [PZ_MIXER_DELTA] = "_delta"};
  const char *mixer = kind & PZ_LAYER_NO_MIXER    ? ""
                      : kind & PZ_LAYER_RECURRENT ? recurrent[a->recurrence.mixer]
                                                  : "_attention";
  const char *span = kind & PZ_LAYER_LOCAL ? (a->chunk ? "_chunk" : "_window") : "_full";
  const char *index = kind & PZ_LAYER_REUSED ? "_reused" : "_indexed";
  const char *turn = kind & PZ_LAYER_UNROTATED ? "_unrotated" : "_rotated";
  const char *ffn = kind & PZ_LAYER_NO_FFN  ? ""
                    : kind & PZ_LAYER_DENSE ? "_dense"
                    : a->experts            ? "_moe"
                                            : "_mlp";
  bool attends = !(kind & (PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER));
  return pz_arena_printf(arena, "block%s%s%s%s%s",
                         differ & (PZ_LAYER_RECURRENT | PZ_LAYER_NO_MIXER) ? mixer : "",
                         attends && differ & PZ_LAYER_LOCAL ? span : "",
                         attends && differ & PZ_LAYER_UNROTATED ? turn : "",
                         attends && differ & PZ_LAYER_REUSED ? index : "",
                         differ & (PZ_LAYER_DENSE | PZ_LAYER_NO_FFN) ? ffn : "");
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
  int at[PZ_LAYER_REUSED * 2], count = 0;
  unsigned list[PZ_MOST_KINDS];
  int64_t period = a->mixed ? period_of(a) : 1;
  memset(at, -1, sizeof at);
  for (int64_t i = 0; i < n; i++) {
    unsigned k = kind_at(a, i, period);
    if (at[k] < 0) {
      list[count] = k;
      kinds[count] = (struct pz_kind){.arch = pz_mixed_arch(a, k)};
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
