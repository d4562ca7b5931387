#include "workload/preset.h"

#include <string.h>

#include "phaze/phaze.h"

/* Shapes are those the models were published with.  Sources: the models' own config.json
 * (google-bert, openai-community, facebook, meta-llama, mistralai, Qwen, EleutherAI on Hugging
 * Face), Megatron-LM (arXiv 1909.08053, 2104.04473, 2205.05198) and GPT-3 (arXiv 2005.14165). GPT-3
 * and Megatron models are GPT-2-shaped with a tied head; vocabulary 50,257 where the paper does not
 * pad it. */
#define BERT(L, H, A)                                                                              \
  "{\"model_type\":\"bert\",\"num_hidden_layers\":" #L ",\"hidden_size\":" #H                      \
  ",\"num_attention_heads\":" #A ",\"intermediate_size\":"
#define BERT_REST "\"vocab_size\":30522,\"max_position_embeddings\":512,\"type_vocab_size\":2}"
#define GPT(L, H, A, S, V)                                                                         \
  "{\"model_type\":\"gpt2\",\"n_layer\":" #L ",\"n_embd\":" #H ",\"n_head\":" #A                   \
  ",\"n_positions\":" #S ",\"vocab_size\":" #V "}"
#define OPT(L, H, A, F, E, BEFORE)                                                                 \
  "{\"model_type\":\"opt\",\"num_hidden_layers\":" #L ",\"hidden_size\":" #H                       \
  ",\"num_attention_heads\":" #A ",\"ffn_dim\":" #F ",\"word_embed_proj_dim\":" #E                 \
  ",\"do_layer_norm_before\":" #BEFORE ",\"vocab_size\":50272,\"max_position_embeddings\":2048}"
#define LLAMA_LIKE(TYPE, L, H, A, KV, F, V, S, REST)                                               \
  "{\"model_type\":\"" TYPE "\",\"num_hidden_layers\":" #L ",\"hidden_size\":" #H                  \
  ",\"num_attention_heads\":" #A ",\"num_key_value_heads\":" #KV ",\"intermediate_size\":" #F      \
  ",\"vocab_size\":" #V ",\"max_position_embeddings\":" #S REST "}"
#define LLAMA(L, H, A, KV, F, V, S) LLAMA_LIKE("llama", L, H, A, KV, F, V, S, "")
#define LLAMA3(L, H, A, KV, F, V, S)                                                               \
  LLAMA_LIKE("llama", L, H, A, KV, F, V, S, ",\"rope_theta\":500000")

static const struct pz_preset table[] = {
    {"bert-base", BERT(12, 768, 12) "3072," BERT_REST},
    {"bert-large", BERT(24, 1024, 16) "4096," BERT_REST},
    {"megatron-bert",
     "{\"model_type\":\"megatron-bert\",\"num_hidden_layers\":24,\"hidden_size\":1024,"
     "\"num_attention_heads\":16,\"intermediate_size\":4096,\"vocab_size\":29056,"
     "\"max_position_embeddings\":512,\"type_vocab_size\":2}"},
    {"gpt2", GPT(12, 768, 12, 1024, 50257)},
    {"gpt2-medium", GPT(24, 1024, 16, 1024, 50257)},
    {"gpt2-large", GPT(36, 1280, 20, 1024, 50257)},
    {"gpt2-xl", GPT(48, 1600, 25, 1024, 50257)},
    {"megatron-1.2b", GPT(40, 1536, 16, 1024, 50257)},
    {"megatron-2.5b", GPT(54, 1920, 20, 1024, 50257)},
    {"megatron-8.3b", GPT(72, 3072, 24, 1024, 50257)},
    {"megatron-22b", GPT(48, 6144, 64, 2048, 51200)},
    {"gpt3-175b", GPT(96, 12288, 96, 2048, 50257)},
    {"megatron-530b", GPT(105, 20480, 128, 2048, 51200)},
    {"megatron-1t", GPT(128, 25600, 160, 2048, 51200)},
    {"opt-125m", OPT(12, 768, 12, 3072, 768, true)},
    {"opt-350m", OPT(24, 1024, 16, 4096, 512, false)},
    {"opt-1.3b", OPT(24, 2048, 32, 8192, 2048, true)},
    {"opt-6.7b", OPT(32, 4096, 32, 16384, 4096, true)},
    {"opt-30b", OPT(48, 7168, 56, 28672, 7168, true)},
    {"opt-175b", OPT(96, 12288, 96, 49152, 12288, true)},
    {"llama2-7b", LLAMA(32, 4096, 32, 32, 11008, 32000, 4096)},
    {"llama2-13b", LLAMA(40, 5120, 40, 40, 13824, 32000, 4096)},
    {"llama2-70b", LLAMA(80, 8192, 64, 8, 28672, 32000, 4096)},
    {"llama3-8b", LLAMA3(32, 4096, 32, 8, 14336, 128256, 8192)},
    {"llama3-70b", LLAMA3(80, 8192, 64, 8, 28672, 128256, 8192)},
    {"llama3-405b", LLAMA3(126, 16384, 128, 8, 53248, 128256, 131072)},
    {"mistral-7b", LLAMA_LIKE("mistral", 32, 4096, 32, 8, 14336, 32000, 32768, "")},
    {"qwen2.5-1.5b",
     LLAMA_LIKE("qwen2", 28, 1536, 12, 2, 8960, 151936, 131072, ",\"tie_word_embeddings\":true")},
    {"qwen2.5-7b", LLAMA_LIKE("qwen2", 28, 3584, 28, 4, 18944, 152064, 131072, "")},
    {"gpt-neox-20b",
     "{\"model_type\":\"gpt_neox\",\"num_hidden_layers\":44,\"hidden_size\":6144,"
     "\"num_attention_heads\":64,\"intermediate_size\":24576,\"vocab_size\":50432,"
     "\"max_position_embeddings\":2048,\"rotary_pct\":0.25,\"hidden_act\":\"gelu_fast\"}"},
    {"mixtral-8x7b", LLAMA_LIKE("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768,
                                ",\"num_local_experts\":8,\"num_experts_per_tok\":2")},
    {"mixtral-8x22b", LLAMA_LIKE("mixtral", 56, 6144, 48, 8, 16384, 32768, 65536,
                                 ",\"num_local_experts\":8,\"num_experts_per_tok\":2")},
};

const char *pz_preset_name(size_t i) {
  return i < sizeof table / sizeof *table ? table[i].name : NULL;
}

const struct pz_preset *pz_preset_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}
