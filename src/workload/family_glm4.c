/* GLM-4 (0414): norms before and after attention and feed-forward, rotary positions on half of each
 * head, one projection for gate and up; the output projection has no bias. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a, (struct pz_llama_defaults){.kv_heads = 2, .head_dim = 128});
  a->out_bias = a->mlp_bias = false;
  a->fused_gate = a->post_norm = true;
  a->rotary_dims = pz_config_rotary(c, a, 0.5);
}

const struct pz_family pz_family_glm4 = {
    "glm4",         "decoder with four norms a layer and partial rotary positions",
    read,           pz_llama_embedding,
    pz_llama_block, pz_llama_head};
