/* Phi-3 and Phi-4: Llama with one projection for query, key and value and one for gate and up. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  a->fused_qkv = a->fused_gate = true;
  a->drop_hidden = pz_config_dropout(c, "resid_pdrop", 0.0);
  a->drop_embed = pz_config_dropout(c, "embd_pdrop", 0.0);
  a->rotary_dims = pz_config_rotary(c, a, 1.0);
  pz_config_window(c, a, NULL);
}

const struct pz_family pz_family_phi3 = {"phi3",         "Llama with joint projections",
                                         read,           pz_llama_embedding,
                                         pz_llama_block, pz_llama_head};
