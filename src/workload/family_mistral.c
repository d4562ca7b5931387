/* Mistral: Llama with fewer key/value heads by default, and in some versions a sliding window. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 8);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
  pz_config_window(c, a, NULL);
}

const struct pz_family pz_family_mistral = {"mistral",      "Llama with grouped key/value heads",
                                            read,           pz_llama_embedding,
                                            pz_llama_block, pz_llama_head};
