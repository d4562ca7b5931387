/* The model of a row of a table of runs: its shape by columns, written as a configuration that a
 * model family reads (workload/family.c). */
#ifndef PZ_STEP_RUN_MODEL_H
#define PZ_STEP_RUN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PZ_RUN_CONFIG = 4096, PZ_RUN_WHY = 200 };

struct pz_run_model {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq;
  int64_t experts, topk, expert_ffn, shared_experts, shared_ffn, dense_layers, mtp;
  int64_t moe_latent; /* width in which experts work, or 0 if hidden */
  int64_t q_rank, kv_rank, rope_dim, nope_dim,
      value_dim;         /* latent attention; kv_rank 0: ordinary */
  const char *mlp;       /* gelu, swiglu, geglu, relu2 */
  const char *ssm;       /* "mamba2:heads=64,...", "gdn:key_heads=16,...", or "" if none */
  const char *layers_as; /* column layer_pattern, or "" if all alike */
  bool plain;            /* of plain PyTorch: the decoder family */
  bool own_head;         /* GPT's shape with a head of its own */
};

/* Returns whether the model has state-space layers. */
bool pz_run_model_hybrid(const struct pz_run_model *model);

/* Returns the configuration into `config` (PZ_RUN_CONFIG bytes).  False: `why` (PZ_RUN_WHY
 * bytes) says what is not covered. */
bool pz_run_model_config(const struct pz_run_model *model, char *config, char *why);

#endif
