#include "workload/config.h"

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
