/* Qwen2 and Qwen2.5: Llama with a bias on query, key and value alone. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read(c, a, 0);
  a->qkv_bias = true;
  a->out_bias = a->mlp_bias = false;
}

const struct pz_family pz_family_qwen2 = {
    "qwen2",        "Llama with a bias on query, key and value",
    read,           pz_llama_embedding,
    pz_llama_block, pz_llama_head};
