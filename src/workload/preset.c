#include "workload/workload.h"

#include <string.h>

/* Shapes are those the models were published with.  Sources: the models' own config.json
 * (google-bert, openai-community, facebook, meta-llama, mistralai, Qwen, EleutherAI, microsoft,
 * google, deepseek-ai, openai, bigcode, bigscience, tiiuae, allenai, zai-org on Hugging Face), Megatron-LM (arXiv 1909.08053, 2104.04473, 2205.05198) and GPT-3 (arXiv 2005.14165). GPT-3
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
#define ROPE31(FACTOR)                                                                             \
  ",\"rope_theta\":500000,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":" #FACTOR          \
  ",\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}"
#define LLAMA31(L, H, A, F) LLAMA_LIKE("llama", L, H, A, 8, F, 128256, 131072, ROPE31(8))
#define TIED ",\"tie_word_embeddings\":true"
#define QWEN3(L, H, A, F, REST)                                                                    \
  LLAMA_LIKE("qwen3", L, H, A, 8, F, 151936, 40960, ",\"head_dim\":128" REST)
#define QWEN3_MOE(L, H, A, F, X)                                                                   \
  LLAMA_LIKE("qwen3_moe", L, H, A, 4, F, 151936, 40960,                                            \
             ",\"head_dim\":128,\"num_experts\":128,\"num_experts_per_tok\":8,"                    \
             "\"moe_intermediate_size\":" #X)
#define GEMMA(TYPE, L, H, A, KV, F, V, S, D, W, REST)                                              \
  LLAMA_LIKE(TYPE, L, H, A, KV, F, V, S, ",\"head_dim\":" #D ",\"sliding_window\":" #W TIED REST)
#define DEEPSEEK(TYPE, L, H, A, F, X, E, K, N, DENSE, V, REST)                                     \
  LLAMA_LIKE(TYPE, L, H, A, A, F, V, 163840,                                                       \
             ",\"moe_intermediate_size\":" #X ",\"n_routed_experts\":" #E                          \
             ",\"num_experts_per_tok\":" #K ",\"n_shared_experts\":" #N                            \
             ",\"first_k_dense_replace\":" #DENSE                                                  \
             ",\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"             \
             "\"v_head_dim\":128,\"q_lora_rank\":" REST)
#define GPT_OSS(L, E)                                                                              \
  LLAMA_LIKE("gpt_oss", L, 2880, 64, 8, 2880, 201088, 131072,                                      \
             ",\"head_dim\":64,\"sliding_window\":128,\"num_experts_per_tok\":4,"                  \
             "\"num_local_experts\":" #E)

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
    {"llama3.1-8b", LLAMA31(32, 4096, 32, 14336)},
    {"llama3.1-70b", LLAMA31(80, 8192, 64, 28672)},
    {"llama3.1-405b", LLAMA31(126, 16384, 128, 53248)},
    {"llama3.2-1b", LLAMA_LIKE("llama", 16, 2048, 32, 8, 8192, 128256, 131072, TIED ROPE31(32))},
    {"llama3.2-3b", LLAMA_LIKE("llama", 28, 3072, 24, 8, 8192, 128256, 131072, TIED ROPE31(32))},
    {"mistral-7b", LLAMA_LIKE("mistral", 32, 4096, 32, 8, 14336, 32000, 32768,
                              ",\"rope_theta\":1000000,\"rms_norm_eps\":1e-5")},
    {"mistral-nemo", LLAMA_LIKE("mistral", 40, 5120, 32, 8, 14336, 131072, 131072,
                                ",\"head_dim\":128,\"rope_theta\":1000000,\"rms_norm_eps\":1e-5")},
    {"qwen2.5-1.5b",
     LLAMA_LIKE("qwen2", 28, 1536, 12, 2, 8960, 151936, 131072, ",\"rope_theta\":1000000" TIED)},
    {"qwen2.5-7b",
     LLAMA_LIKE("qwen2", 28, 3584, 28, 4, 18944, 152064, 131072, ",\"rope_theta\":1000000")},
    {"qwen3-0.6b", QWEN3(28, 1024, 16, 3072, TIED)},
    {"qwen3-1.7b", QWEN3(28, 2048, 16, 6144, TIED)},
    {"qwen3-4b", QWEN3(36, 2560, 32, 9728, TIED)},
    {"qwen3-8b", QWEN3(36, 4096, 32, 12288, "")},
    {"qwen3-14b", QWEN3(40, 5120, 40, 17408, "")},
    {"qwen3-32b", QWEN3(64, 5120, 64, 25600, "")},
    {"qwen3-30b-a3b", QWEN3_MOE(48, 2048, 32, 6144, 768)},
    {"qwen3-235b-a22b", QWEN3_MOE(94, 4096, 64, 12288, 1536)},
    {"gemma2-9b", GEMMA("gemma2", 42, 3584, 16, 8, 14336, 256000, 8192, 256, 4096,
                        ",\"attn_logit_softcapping\":50.0,\"final_logit_softcapping\":30.0")},
    {"gemma3-12b", GEMMA("gemma3_text", 48, 3840, 16, 8, 15360, 262208, 131072, 256, 1024, "")},
    {"gemma3-27b", GEMMA("gemma3_text", 62, 5376, 32, 16, 21504, 262208, 131072, 128, 1024, "")},
    {"phi3-mini", LLAMA_LIKE("phi3", 32, 3072, 32, 32, 8192, 32064, 4096, "")},
    {"phi4", LLAMA_LIKE("phi3", 40, 5120, 40, 10, 17920, 100352, 16384, ",\"rope_theta\":250000")},
    {"olmo2-7b", LLAMA_LIKE("olmo2", 32, 4096, 32, 32, 11008, 100352, 4096, "")},
    {"glm4-9b", LLAMA_LIKE("glm4", 40, 4096, 32, 2, 13696, 151552, 32768,
                           ",\"head_dim\":128,\"attention_bias\":true")},
    {"starcoder2-15b", LLAMA_LIKE("starcoder2", 40, 6144, 48, 4, 24576, 49152, 16384,
                                  ",\"sliding_window\":4096,\"tie_word_embeddings\":false")},
    {"falcon-7b", "{\"model_type\":\"falcon\",\"num_hidden_layers\":32,\"hidden_size\":4544,"
                  "\"num_attention_heads\":71,\"vocab_size\":65024}"},
    {"bloom-176b", "{\"model_type\":\"bloom\",\"n_layer\":70,\"hidden_size\":14336,\"n_head\":112,"
                   "\"vocab_size\":250880,\"seq_length\":2048}"},
    {"gpt-j-6b",
     "{\"model_type\":\"gptj\",\"n_layer\":28,\"n_embd\":4096,\"n_head\":16,\"n_positions\":2048,"
     "\"rotary_dim\":64,\"vocab_size\":50400}"},
    {"gpt-neox-20b",
     "{\"model_type\":\"gpt_neox\",\"num_hidden_layers\":44,\"hidden_size\":6144,"
     "\"num_attention_heads\":64,\"intermediate_size\":24576,\"vocab_size\":50432,"
     "\"max_position_embeddings\":2048,\"rotary_pct\":0.25,\"hidden_act\":\"gelu_fast\"}"},
    {"mixtral-8x7b", LLAMA_LIKE("mixtral", 32, 4096, 32, 8, 14336, 32000, 32768,
                                ",\"num_local_experts\":8,\"num_experts_per_tok\":2")},
    {"mixtral-8x22b", LLAMA_LIKE("mixtral", 56, 6144, 48, 8, 16384, 32768, 65536,
                                 ",\"num_local_experts\":8,\"num_experts_per_tok\":2")},
    {"deepseek-v2",
     DEEPSEEK("deepseek_v2", 60, 5120, 128, 12288, 1536, 160, 6, 2, 1, 102400, "1536")},
    {"deepseek-v3",
     DEEPSEEK("deepseek_v3", 61, 7168, 128, 18432, 2048, 256, 8, 1, 3, 129280,
              "1536,\"num_nextn_predict_layers\":1,\"rope_scaling\":{\"type\":\"yarn\","
              "\"factor\":40,\"original_max_position_embeddings\":4096,"
              "\"beta_fast\":32,\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1}")},
    {"gpt-oss-20b", GPT_OSS(24, 32)},
    {"gpt-oss-120b", GPT_OSS(36, 128)},
    {"llama4-scout",
     LLAMA_LIKE("llama4_text", 48, 5120, 40, 8, 8192, 202048, 262144,
                ",\"head_dim\":128,\"intermediate_size_mlp\":16384,\"num_local_experts\":16,"
                "\"num_experts_per_tok\":1,\"interleave_moe_layer_step\":1,"
                "\"attention_chunk_size\":8192")},
    {"llama4-maverick",
     LLAMA_LIKE("llama4_text", 48, 5120, 40, 8, 8192, 202048, 262144,
                ",\"head_dim\":128,\"intermediate_size_mlp\":16384,\"num_local_experts\":128,"
                "\"num_experts_per_tok\":1,\"interleave_moe_layer_step\":2,"
                "\"use_qk_norm\":false,\"attention_chunk_size\":8192")},
};

const char *pz_preset_name(size_t i) {
  return i < sizeof table / sizeof *table ? table[i].name : NULL;
}

const struct pz_preset *pz_preset_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}
