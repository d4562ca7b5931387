/* Mistral: Llama with fewer key/value heads by default.  Its sliding window changes which scores
 * are masked, not which are computed, so full attention is counted. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 8);
  a->qkv_bias = a->out_bias = a->mlp_bias = false;
}

const struct pz_family pz_family_mistral = {"mistral",      "Llama with grouped key/value heads",
                                            read,           pz_llama_embedding,
                                            pz_llama_block, pz_llama_head};
