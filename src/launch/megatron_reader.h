/* Arguments of Megatron-LM that were given, for the files that make a plan and a model of them. */
#ifndef PZ_LAUNCH_MEGATRON_READER_H
#define PZ_LAUNCH_MEGATRON_READER_H

#include <string.h>

#include "core/vec.h"
#include "launch/megatron_args.h"
#include "launch/shell_words.h"

enum pz_megatron_value {
  PZ_ARG_LAYERS,
  PZ_ARG_HIDDEN,
  PZ_ARG_FFN,
  PZ_ARG_HEADS,
  PZ_ARG_KV_CHANNELS,
  PZ_ARG_GROUPED,
  PZ_ARG_GROUPS,
  PZ_ARG_SEQ,
  PZ_ARG_POSITIONS,
  PZ_ARG_POSITION_TYPE,
  PZ_ARG_ROTARY,
  PZ_ARG_SWIGLU,
  PZ_ARG_NORM,
  PZ_ARG_UNTIED,
  PZ_ARG_NO_BIAS,
  PZ_ARG_QKV_BIAS,
  PZ_ARG_HIDDEN_DROPOUT,
  PZ_ARG_ATTENTION_DROPOUT,
  PZ_ARG_VOCAB,
  PZ_ARG_PADDED_VOCAB,
  PZ_ARG_VOCAB_MULTIPLE,
  PZ_ARG_TOKENIZER,
  PZ_ARG_MBS,
  PZ_ARG_BATCH,
  PZ_ARG_RAMPUP,
  PZ_ARG_TP,
  PZ_ARG_SP,
  PZ_ARG_CP,
  PZ_ARG_CP_FORM,
  PZ_ARG_PP,
  PZ_ARG_CHUNK_LAYERS,
  PZ_ARG_CHUNKS,
  PZ_ARG_FIRST_LAYERS,
  PZ_ARG_LAST_LAYERS,
  PZ_ARG_EMBEDDING_AS_LAYER,
  PZ_ARG_LOSS_AS_LAYER,
  PZ_ARG_SELECTIVE,
  PZ_ARG_GRANULARITY,
  PZ_ARG_METHOD,
  PZ_ARG_AGAIN_LAYERS,
  PZ_ARG_MODULES,
  PZ_ARG_DISTRIBUTED,
  PZ_ARG_INSTANCES,
  PZ_ARG_FSDP2,
  PZ_ARG_FSDP2_KEEPS,
  PZ_ARG_FSDP,
  PZ_ARG_STRATEGY,
  PZ_ARG_OVERLAP_GRAD,
  PZ_ARG_OVERLAP_PARAM,
  PZ_ARG_OVERLAP_TP,
  PZ_ARG_NO_OVERLAP_P2P,
  PZ_ARG_GRAD_BF16,
  PZ_ARG_BF16,
  PZ_ARG_FP16,
  PZ_ARG_FP8,
  PZ_ARG_FP8_FORMAT,
  PZ_ARG_FP8_RECIPE,
  PZ_ARG_FLASH,
  PZ_ARG_BACKEND,
  PZ_ARG_IMPLEMENTATION,
  PZ_ARG_GRAPH,
  PZ_ARG_GRAPH_IMPL,
  PZ_ARG_NODES,
  PZ_ARG_PROCESSES,
  PZ_ARG_BATCH_NODES,
  PZ_ARG_BATCH_GPUS,
  PZ_ARG_BATCH_TASKS,
  PZ_ARG_BATCH_GRES,
  PZ_ARG_EXPERTS,
  PZ_ARG_TOPK,
  PZ_ARG_EXPERT_FFN,
  PZ_ARG_SHARED_FFN,
  PZ_ARG_EXPERT_LAYERS,
  PZ_ARG_GROUPED_PRODUCTS,
  PZ_ARG_DISPATCHER,
  PZ_ARG_EXPERT_GROUPS,
  PZ_ARG_GROUP_TOPK,
  PZ_ARG_CAPACITY,
  PZ_ARG_PADS,
  PZ_ARG_EP,
  PZ_ARG_ETP,
  PZ_ARG_OVERLAP_EP,
  PZ_ARG_EXPERTS_AGAIN,
  PZ_ARG_LATENT,
  PZ_ARG_Q_RANK,
  PZ_ARG_KV_RANK,
  PZ_ARG_NOPE_DIM,
  PZ_ARG_ROPE_DIM,
  PZ_ARG_V_DIM,
  PZ_ARG_QK_NORM,
  PZ_ARG_PREDICT_LAYERS,
  PZ_MEGATRON_VALUES
};

/* What was given for a value. */
struct pz_megatron_given {
  const char *name, *text, *unknown;
  uint32_t line;
  int64_t n;
  double real;
  bool set;
};

struct pz_megatron_reader {
  const char *name;
  const struct pz_megatron_options *o;
  struct pz_arena *arena;
  struct pz_shell_text text;
  struct pz_megatron_given g[PZ_MEGATRON_VALUES];
  struct pz_vec ignored, notes; /* const char * */
  struct pz_megatron_run *out;
  struct pz_error *err;
};

static inline bool pz_megatron_has(const struct pz_megatron_reader *r, enum pz_megatron_value v) {
  return r->g[v].set;
}

static inline int64_t pz_megatron_count(const struct pz_megatron_reader *r,
                                        enum pz_megatron_value v, int64_t absent) {
  return pz_megatron_has(r, v) ? r->g[v].n : absent;
}

static inline bool pz_megatron_says(const struct pz_megatron_reader *r, enum pz_megatron_value v,
                                    const char *word) {
  return pz_megatron_has(r, v) && strcmp(r->g[v].text, word) == 0;
}

/* Errors: of an argument's value, of memory. */
enum pz_status pz_megatron_wrong(struct pz_megatron_reader *r, const struct pz_megatron_given *g,
                                 const char *accepted);
enum pz_status pz_megatron_no_memory(struct pz_megatron_reader *r);

/* Among the notes, or another list; NULL: no memory. */
PZ_NODISCARD enum pz_status pz_megatron_add_text(struct pz_megatron_reader *r, struct pz_vec *list,
                                                 const char *text);

PZ_NODISCARD enum pz_status pz_megatron_need(struct pz_megatron_reader *r, enum pz_megatron_value v,
                                             const char *name);

/* A word among some; NULL in the list ends it. */
PZ_NODISCARD enum pz_status pz_megatron_need_word(struct pz_megatron_reader *r,
                                                  enum pz_megatron_value v, const char *const *list,
                                                  const char *accepted);

/* Where a field comes from: the first of two arguments that was given. */
PZ_NODISCARD enum pz_status pz_megatron_mark(struct pz_megatron_reader *r, int f,
                                             enum pz_megatron_value a, enum pz_megatron_value b);

/* The model, once the plan is read: megatron_model.c. */
PZ_NODISCARD enum pz_status pz_megatron_read_model(struct pz_megatron_reader *r);

/* Experts, megatron_experts.c: their part of the plan, and that of a model's configuration. */
bool pz_megatron_has_experts(const struct pz_megatron_reader *r);
PZ_NODISCARD enum pz_status pz_megatron_read_experts(struct pz_megatron_reader *r);
PZ_NODISCARD enum pz_status pz_megatron_expert_config(struct pz_megatron_reader *r,
                                                      const char **family, const char **fields);

#endif
