/* Llama 4 (text): layers with routed experts and dense ones in turn, a shared expert, attention within
 * chunks in three layers of four; the fourth has no rotary positions. */
#include "workload/family.h"

static const int64_t PERIOD = 4;

/* no_rope_layers has 0 for a layer without rotary positions. */
static void read_positions(struct pz_fields *c, struct pz_arch *a) {
  const json_t *list = pz_fields_value(c, "no_rope_layers");
  int64_t period = pz_fields_int_or(c, "no_rope_layer_interval", PZ_RANGE_LAYERS, PERIOD);
  bool given = json_is_array(list) && json_array_size(list) > 0;
  if (c->status != PZ_OK) return;
  if (given && json_array_size(list) != (size_t)a->layers) {
    pz_fields_refuse(c, "no_rope_layers", "a list with an entry for every layer");
    return;
  }
  for (int64_t i = 0; i < a->layers; i++) {
    bool none =
        given ? json_integer_value(json_array_get(list, (size_t)i)) == 0 : (i + 1) % period == 0;
    pz_mixed_mark(a, i, none ? PZ_LAYER_UNROTATED : 0);
  }
  bool whole = pz_config_null(c, "attention_chunk_size");
  a->chunk = whole ? 0 : pz_fields_int_or(c, "attention_chunk_size", PZ_RANGE_POSITIONS, 8192);
  pz_mixed_attention(c, a, period);
}

/* Layers with experts: those listed, or one of `step`, the last. */
static void read_experts(struct pz_fields *c, struct pz_arch *a) {
  int64_t step = pz_fields_int_or(c, "interleave_moe_layer_step", PZ_RANGE_LAYERS, 1);
  a->dense_ffn = pz_fields_int_or(c, "intermediate_size_mlp", PZ_RANGE_FFN, 16384);
  pz_config_experts(c, a, "num_local_experts", NULL);
  a->shared_ffn = a->ffn;
  if (pz_fields_value(c, "moe_layers")) {
    for (int64_t i = 0; i < a->layers; i++) pz_mixed_mark(a, i, PZ_LAYER_DENSE);
    pz_mixed_list(c, a, "moe_layers", PZ_LAYER_DENSE, false);
    return;
  }
  for (int64_t i = 0; i < a->layers && c->status == PZ_OK; i++)
    pz_mixed_mark(a, i, (i + 1) % step ? PZ_LAYER_DENSE : 0);
}

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a,
                   (struct pz_llama_defaults){.kv_heads = 8, .head_dim = 128, .positions = 131072});
  a->mlp_bias = false;
  a->fused_gate = true;
  a->router = PZ_ROUTER_CHOSEN_SIGMOID;
  if (pz_fields_bool_or(c, "use_qk_norm", true)) a->qk_norm = PZ_QK_NORM_PLAIN;
  read_experts(c, a);
  read_positions(c, a);
}

const struct pz_family pz_family_llama4 = {
    "llama4_text",  "decoder with experts, a shared one, and attention within chunks",
    read,           pz_llama_embedding,
    pz_llama_block, pz_llama_head};
