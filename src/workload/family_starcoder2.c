/* StarCoder 2: layer norms, rotary positions, grouped key/value heads, a plain feed-forward, biases. */
#include "workload/family.h"

static void read(struct pz_fields *c, struct pz_arch *a) {
  pz_llama_read_as(c, a,
                   (struct pz_llama_defaults){.kv_heads = 2,
                                              .act_keys = "hidden_act",
                                              .act = "gelu_pytorch_tanh",
                                              .positions = 4096,
                                              .tied = true});
  a->qkv_bias = a->out_bias = a->mlp_bias = pz_fields_bool_or(c, "use_bias", true);
  a->norm_affine = true;
  a->drop_hidden = pz_config_dropout(c, "residual_dropout", 0.0);
  a->drop_embed = pz_config_dropout(c, "embedding_dropout", 0.0);
  pz_config_window(c, a, NULL);
}

const struct pz_family pz_family_starcoder2 = {
    "starcoder2",  "decoder with rotary positions, layer norms and biases",
    read,          pz_llama_embedding,
    pz_part_block, pz_part_head};
