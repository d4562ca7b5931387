/* Mixtral: Llama whose feed-forward is a routed layer of experts. */
#include "workload/family.h"

#include <stdio.h>

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 8);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  a->experts = pz_fields_int(c, "num_local_experts|num_experts", PZ_RANGE_EXPERTS);
  a->experts_per_token = pz_fields_int(c, "num_experts_per_tok", PZ_RANGE_EXPERTS);
  if (a->experts_per_token <= a->experts || c->status != PZ_OK) return;
  char accepted[64];
  snprintf(accepted, sizeof accepted, "at most the number of experts, %lld", (long long)a->experts);
  pz_fields_refuse(c, "num_experts_per_tok", accepted);
}

const struct pz_family pz_family_mixtral = {"mixtral",      "Llama with routed experts",
                                            read,           pz_llama_embedding,
                                            pz_llama_block, pz_llama_head};
