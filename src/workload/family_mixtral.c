/* Mixtral: Llama whose feed-forward is a routed layer of experts. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 8);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  pz_config_window(c, a, NULL);
  pz_config_experts(c, a, "num_local_experts|num_experts", NULL);
}

const struct pz_family pz_family_mixtral = {"mixtral",      "Llama with routed experts",
                                            read,           pz_llama_embedding,
                                            pz_llama_block, pz_llama_head};
