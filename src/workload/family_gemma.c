/* Gemma 2 and Gemma 3: four norms a layer, scaled embedding, sliding windows in most layers; Gemma 2
 * caps scores and logits, Gemma 3 has norms of query and key. */
#include "workload/family.h"

static const int64_t GEMMA2_PERIOD = 2, GEMMA3_PERIOD = 6;

static void read_gemma(struct pz_fields *c, struct pz_arch *a, int64_t period) {
  pz_llama_read_as(c, a,
                   (struct pz_llama_defaults){.kv_heads = 4,
                                              .head_dim = 256,
                                              .act_keys = "hidden_activation|hidden_act",
                                              .act = "gelu_pytorch_tanh",
                                              .positions = 8192,
                                              .tied = true});
  a->mlp_bias = false;
  a->post_norm = a->scale_embed = true;
  a->window = pz_fields_int_or(c, "sliding_window", PZ_RANGE_POSITIONS, 4096);
  pz_mixed_attention(c, a,
                     pz_fields_int_or(c, "sliding_window_pattern|_sliding_window_pattern",
                                      PZ_RANGE_LAYERS, period));
  a->score_cap = pz_fields_real_or(c, "attn_logit_softcapping", 0, 1e9, 0) > 0;
  a->logit_cap = pz_fields_real_or(c, "final_logit_softcapping", 0, 1e9, 0) > 0;
}

static void read_gemma2(struct pz_fields *c, struct pz_arch *a) { read_gemma(c, a, GEMMA2_PERIOD); }

static void read_gemma3(struct pz_fields *c, struct pz_arch *a) {
  read_gemma(c, a, GEMMA3_PERIOD);
  a->qk_norm = PZ_QK_NORM_HEAD;
}

const struct pz_family pz_family_gemma2 = {
    "gemma2",       "decoder with four norms a layer, windows in every other one, soft caps",
    read_gemma2,    pz_llama_embedding,
    pz_llama_block, pz_llama_head};
const struct pz_family pz_family_gemma3 = {
    "gemma3_text",  "decoder with four norms a layer, windows in five of six",
    read_gemma3,    pz_llama_embedding,
    pz_llama_block, pz_llama_head};
