/* Qwen2 and Qwen2.5: Llama with a bias on query, key and value alone; some layers may have a sliding
 * window. */
#include "workload/family.h"

void pz_qwen_window(struct pz_fields *c, struct pz_arch *a) {
  int64_t from = pz_fields_int_or(c, "max_window_layers", (struct pz_range){0, 65536}, 28);
  bool listed = pz_fields_value(c, "layer_types") != NULL;
  pz_config_window(c, a, "use_sliding_window");
  if (!a->window || c->status != PZ_OK) return;
  for (int64_t i = 0; i < a->layers && !listed; i++)
    pz_mixed_mark(a, i, i >= from ? PZ_LAYER_LOCAL : 0);
  if (listed) pz_mixed_attention(c, a, 0);
}

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->qkv_bias = true;
  a->out_bias = a->mlp_bias = false;
  pz_qwen_window(c, a);
}

const struct pz_family pz_family_qwen2 = {
    "qwen2",        "Llama with a bias on query, key and value",
    read,           pz_llama_embedding,
    pz_llama_block, pz_llama_head};
