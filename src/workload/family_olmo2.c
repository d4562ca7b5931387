/* OLMo 2: Llama with norms after attention and feed-forward instead of before, and of the whole query
 * and key. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->mlp_bias = a->pre_norm = false;
  a->post_norm = true;
  a->qk_norm = PZ_QK_NORM_WIDTH;
}

const struct pz_family pz_family_olmo2 = {
    "olmo2",        "Llama with norms after attention and feed-forward",
    read,           pz_llama_embedding,
    pz_llama_block, pz_llama_head};
