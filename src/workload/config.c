#include "workload/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct pz_range PZ_RANGE_LAYERS = {1, 65536}, PZ_RANGE_HIDDEN = {1, 1 << 20},
                      PZ_RANGE_HEADS = {1, 65536}, PZ_RANGE_FFN = {1, 1 << 22},
                      PZ_RANGE_VOCAB = {1, 1 << 26}, PZ_RANGE_POSITIONS = {1, 1 << 26},
                      PZ_RANGE_EXPERTS = {1, 65536};

double pz_config_dropout(struct pz_fields *c, const char *keys, double absent) {
  return pz_fields_real_or(c, keys, 0, 0.999, absent);
}

enum pz_act pz_config_act(struct pz_fields *c, const char *keys, const char *absent) {
  static const struct {
    const char *name;
    enum pz_act act;
  } known[] = {{"gelu", PZ_ACT_GELU},          {"gelu_pytorch_tanh", PZ_ACT_GELU},
               {"gelu_new", PZ_ACT_GELU_TANH}, {"gelu_fast", PZ_ACT_GELU_FAST},
               {"relu", PZ_ACT_RELU},          {"silu", PZ_ACT_SILU},
               {"swish", PZ_ACT_SILU}};
  const char *name = pz_fields_text_or(c, keys, absent);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, known[i].name) == 0) return known[i].act;
  pz_fields_refuse(c, keys, "gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, silu or swish");
  return PZ_ACT_GELU;
}

bool pz_config_null(const struct pz_fields *c, const char *key) {
  return json_is_null(json_object_get(c->root, key));
}

int64_t pz_config_rotary(struct pz_fields *c, const struct pz_arch *a, double absent) {
  double part = pz_fields_real_or(
      c, "rotary_pct|partial_rotary_factor|rope_parameters.partial_rotary_factor", 0, 1, absent);
  return (int64_t)((double)a->head_dim * part) / 2 * 2;
}

void pz_config_window(struct pz_fields *c, struct pz_arch *a, const char *use) {
  int64_t window = pz_fields_int_or(c, "sliding_window", PZ_RANGE_POSITIONS, 0);
  if (!use || pz_fields_bool_or(c, use, false)) a->window = window;
}

void pz_config_experts(struct pz_fields *c, struct pz_arch *a, const char *keys,
                       const char *width) {
  a->experts = pz_fields_int(c, keys, PZ_RANGE_EXPERTS);
  a->experts_per_token = pz_fields_int(c, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  if (width) {
    a->dense_ffn = a->ffn;
    a->ffn = pz_fields_int(c, width, PZ_RANGE_FFN);
  }
  if (a->experts_per_token <= a->experts || c->status != PZ_OK) return;
  char accepted[64];
  snprintf(accepted, sizeof accepted, "at most the number of experts, %" PRId64, a->experts);
  pz_fields_refuse(c, "num_experts_per_tok", accepted);
}
