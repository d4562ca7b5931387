/* phaze: finds the best accelerator chip for training models, and how to train them on a
 * cluster.
 *
 * The one header: what the command does, a program can do.
 *
 *     model      pz_workload_load    operator graphs of a model, forward and backward
 *     chip       pz_chip_load, pz_cluster_load    descriptions of a chip and of a network
 *     cost       pz_cost_new, pz_cost_op          time and energy of an operator on a chip
 *     schedule   pz_schedule_layer, pz_schedule_instance    how a chip runs a layer's operators
 *                                    beside each other
 *                pz_training_schedule             the same for every layer as a plan runs it
 *     partition  pz_partition_model, pz_partition_instance  how a cluster trains a model
 *     predict    pz_training_predict what one plan takes, as training frameworks run it
 *     explain    pz_training_explain where its fields come from, which constants count
 *     place      pz_training_place, pz_training_scale    the best plan of a training run, proved
 *     tune       pz_run_plan_read, pz_plan_tune   what would make a run that you have faster
 *     diff       pz_plan_diff        what two runs differ by, second by second
 *     emit       pz_launch_text      a plan as the launch script of its framework
 *     calibrate  pz_calibrate        a chip whose constants are fitted to measured operators
 *                pz_calibrate_network    a cluster fitted to collectives measured by nccl-tests
 *     explore    pz_explore_page     a page that finds plans by itself
 *     search     pz_run_open, pz_run_search       which chip of a design space is best
 *     result     struct pz_result, pz_result_text    what a search found, with its certificate
 *     validate   pz_validate         predictions beside measurements
 *
 * A call that can fail returns enum pz_status and fills struct pz_error (which may be NULL) with
 * a sentence for people; its results are untouched then.  A NULL where an object, a text or a
 * result is needed, and numbers out of range are PZ_BAD_USE; a chip or cluster whose fields were
 * changed to what its file could not have is PZ_BAD_INPUT.  Options are structs that begin with
 * their size: take the default function's and change fields; where options are passed by
 * pointer, NULL means the defaults.  Objects that a call makes are the caller's, to be given
 * back with the function named beside it; texts inside them live as long.
 *
 * Units are SI and part of the names: _bytes, _flop, _s, _mm2 (areas also _um2).  The library
 * never prints, exits or aborts, and has no state of its own but the allocator (pz_alloc_use):
 * calls from several threads do not meet, as long as no object is used by two at once.  Same
 * input and options: same bytes out, on any number of threads.
 *
 *     struct pz_error err = {0};
 *     struct pz_workload_options opt = pz_workload_options_default();
 *     struct pz_workload *w = NULL;
 *     if (pz_workload_load("gpt2-xl", &opt, &w, &err) != PZ_OK) puts(err.message);
 *     ...read w->layers, w->totals...
 *     pz_workload_free(w);
 *
 * More in examples/. */
#ifndef PHAZE_PHAZE_H
#define PHAZE_PHAZE_H

#include <phaze/version.h> /* PZ_VERSION */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PZ_API __attribute__((visibility("default")))
#define PZ_NODISCARD __attribute__((warn_unused_result))
#define PZ_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define PZ_API
#define PZ_NODISCARD
#define PZ_PRINTF(f, a)
#endif

/* Version of the library in use, to compare with PZ_VERSION of the header. */
PZ_API const char *pz_version(void);

/* ---- did the call work ---------------------------------------------------------------------- */

enum pz_status {
  PZ_OK = 0,
  PZ_BAD_INPUT, /* a file, name or field is wrong; the message says what would be accepted */
  PZ_BAD_USE,   /* the caller's options are wrong */
  PZ_NO_MEMORY,
  PZ_IO,        /* a file could not be read or written */
  PZ_LIMIT,     /* a stated limit was passed (size, count, integer range) */
  PZ_INTERNAL,  /* a bug of this library */
  PZ_NO_ANSWER, /* there is none: nothing fits */
  PZ_STOPPED    /* asked to stop before the end */
};

/* "bad input", "out of memory": a short name for logs. */
PZ_API const char *pz_status_name(enum pz_status status);

/* What went wrong: to be zeroed before the first call, and before it is used again after an
 * error, since a second error does not replace the first.  `message` is a whole sentence for
 * people; line and column (1-based, 0 = unknown) point into `input` where that is a text file;
 * origin_* name the source line that raised it. */
struct pz_error {
  enum pz_status status;
  char message[1024];
  char input[256];
  int line, column;
  const char *origin_file;
  int origin_line;
};

/* ---- memory --------------------------------------------------------------------------------- */

/* All three are called from any thread.  alloc and resize return NULL when there is no memory;
 * resize then leaves the block as it was; free is never given NULL. */
struct pz_allocator {
  void *(*alloc)(void *ctx, size_t bytes);
  void *(*resize)(void *ctx, void *block, size_t bytes); /* block may be NULL */
  void (*free)(void *ctx, void *block);
  void *ctx;
};

/* Use this allocator (NULL: the C library's), also below jansson and SQLite.  To be called before
 * anything else of the library, of jansson and of SQLite, as sqlite3_config is, and never while a
 * block is in use; *allocator must live as long.  It is the only state of the process that the
 * library changes.  Without this call jansson and SQLite allocate as they are set up, and a JSON
 * document can lack what jansson found no memory for; with it such a document is PZ_NO_MEMORY.
 * PZ_BAD_USE: SQLite is running already. */
PZ_NODISCARD PZ_API enum pz_status pz_alloc_use(const struct pz_allocator *allocator,
                                                struct pz_error *err);

/* Gives back a text that a call made.  Accepts NULL. */
PZ_API void pz_text_free(char *text);

/* ---- long calls ----------------------------------------------------------------------------- */

/* How far a long call is.  Texts live as long as the call of the function that is told. */
struct pz_progress_state {
  const char *phase, *unit; /* "tables", "chips" */
  const char *note;         /* the best chip so far, or "" */
  uint64_t done, total;     /* the total may change */
  bool ended;               /* the last call of a phase */
  double gap, target; /* of a search: what is proved so far (HUGE_VAL: nothing yet) and what it
                             * goes on for, 0.05: a chip that is better by 5%; other phases: target < 0.
                             * Chips left say nothing of the time that it takes. */
};

/* Called at the beginning and end of each phase and some times a second between them, by one thread
 * at a time.  Returning false cancels the work, which then ends soon with PZ_STOPPED. */
typedef bool pz_progress_fn(void *ctx, const struct pz_progress_state *state);

/* ---- operators and tensors ------------------------------------------------------------------ */

enum pz_op_class {
  PZ_CLASS_TENSOR,     /* a matrix product */
  PZ_CLASS_VECTOR,     /* element-wise work, reductions, data movement */
  PZ_CLASS_FUSED,      /* a matrix product with its element-wise tail */
  PZ_CLASS_NONE,       /* a view: no time, no core, keeps precedence */
  PZ_CLASS_COLLECTIVE, /* occupies the link */
};

enum pz_direction { PZ_FORWARD = 0, PZ_BACKWARD = 1 };

enum pz_tensor_role {
  PZ_ROLE_ACTIVATION,
  PZ_ROLE_PARAM,
  PZ_ROLE_DATA, /* token ids, labels, masks, rotary tables: never has a gradient */
  PZ_ROLE_GRAD,
};

/* Index that means "no tensor" or "no operator". */
#define PZ_NONE UINT32_MAX

struct pz_tensor {
  const char *name;
  int64_t shape[4];
  int n_dims;
  int elem_bytes;
  int64_t elems;
  enum pz_tensor_role role;
  uint32_t storage; /* tensor that owns the bytes: itself, or the one this is a view of */
  bool split;       /* this device holds 1/t of it */
  bool tied;        /* a parameter that another layer owns and counts */
  int64_t experts;  /* > 0: one part for each expert */
  int64_t held;     /* > 0: passes through memory in parts of at most so many elements */
  bool frozen;      /* a parameter that is not trained: it has no gradient */
};

/* One element-wise step folded into an operator. */
struct pz_tail {
  int kind;
  enum pz_direction direction;
  int64_t elems;
  bool replicated; /* as in pz_op */
};

/* Sizes.  Product: batch x (m x k)(k x n).  Vector: m rows of n.  Collective: batch devices, m rows
 * of n. */
struct pz_dims {
  int64_t batch, m, n, k;
};

/* The devices that a collective joins. */
enum pz_peers {
  PZ_PEERS_TENSOR,        /* the tensor-parallel group */
  PZ_PEERS_EXPERT,        /* the expert-parallel group, over which the experts are divided */
  PZ_PEERS_EXPERT_TENSOR, /* the group over which each expert is divided */
  PZ_PEERS_CONTEXT,       /* the context-parallel group, over which a sample's tokens are divided */
};

struct pz_op {
  const char *name;
  int kind;                    /* see pz_op_kind_name */
  enum pz_direction direction; /* a derivative of `kind` when PZ_BACKWARD */
  enum pz_op_class op_class;
  bool replicated; /* every device of a tensor-parallel group does this same work */
  bool strided;    /* element-wise with an operand that is broadcast, widened or moved: by index */
  struct pz_dims dims;
  int64_t flop;        /* all of it, tail included */
  int64_t matmul_flop; /* of the matrix products alone: 2 batch m n k (experts: the rows there are;
                          flash attention: two products, backward five; scans: those of chunks) */
  int64_t bytes_read;  /* each input once, weights included */
  int64_t bytes_written; /* each output once, what is kept for backward included */
  int64_t weight_bytes;  /* the part of bytes_read that is parameters */
  int64_t scratch_bytes; /* held during the operator only */
  const uint32_t *in, *out, *pred;
  uint32_t n_in, n_out, n_pred;
  const struct pz_tail *tail;
  uint32_t n_tail;
  enum pz_peers peers; /* of a collective; dims.batch is their number */
  bool grouped; /* a product of experts: of dims.batch that have rows, with dims.m rows each on
                          average, rounded up (in the gradient of weights: dims.k) */
  int64_t span; /* of attention: queries of which dims.m are this device's, the others those of its
                   context-parallel group; 0: dims.m.  Of a scan: tokens of a chunk */
};

struct pz_ops {
  const struct pz_op *op;
  uint32_t n;
};

/* ---- layers and models ---------------------------------------------------------------------- */

/* Where backward puts the gradients of parameters. */
enum pz_gradients {
  PZ_GRADIENTS_IN_PLACE, /* the product's kernel adds them to their buffer */
  PZ_GRADIENTS_PASSING,  /* into a tensor that is added to the buffer and freed */
  PZ_GRADIENTS_KEPT,     /* into a tensor that stays */
  PZ_GRADIENTS
};

/* Change of live bytes while one layer runs, relative to its entry. */
struct pz_live {
  int64_t peak_bytes;
  int64_t net_bytes;
};

/* Who reads a saved storage in backward, as a set. */
enum pz_saved_use {
  PZ_SAVED_BY_GEMM = 1,  /* the gradient of a weight */
  PZ_SAVED_BY_OTHER = 2, /* another operator, in 16 bit */
  PZ_SAVED_BY_GATE = 4   /* the derivative of a gated activation: its input */
};

/* How layers with 8-bit GEMMs save their activations. */
enum pz_saved_form {
  PZ_SAVED_16BIT,
  PZ_SAVED_GEMM_8BIT, /* inputs of GEMMs in 8 bit; a copy of its own where others read 16 bit */
  PZ_SAVED_8BIT,      /* inputs of GEMMs and of gated activations; in 12 bit where others read it */
  PZ_SAVED_GEMM_8BIT_GATE, /* the first, and inputs of gated activations in 8 bit */
  PZ_SAVED_GEMM_4BIT,      /* inputs of GEMMs in 4 bit with scales of 16 values */
  PZ_SAVED_GEMM_4BIT_GATE, /* the same, and inputs of gated activations in 8 bit */
  PZ_SAVED_FORMS
};

struct pz_layer {
  const char *name;
  int64_t count; /* how often it stands in the model; in which order, pz_workload.order says */
  const uint32_t *from; /* layers whose results it reads, ascending; several where the model
                           branches (instances of a repeated layer also read the one before) */
  uint32_t n_from;
  const struct pz_tensor *tensors;
  uint32_t n_tensors;
  struct pz_ops ops[2];   /* by enum pz_direction */
  uint32_t input, output; /* tensors; input PZ_NONE: the layer begins the model */
  uint32_t output_grad;   /* the gradient that enters backward */
  int64_t params;         /* on this device, without tied ones */
  int64_t split_params;   /* the part of them that is divided over the tensor-parallel group */
  int64_t tied_params;    /* on this device, counted by another layer */
  int64_t model_params;   /* of the undivided layer, without tied ones */
  int64_t
      group_grad_params; /* their gradients are partial here: to be summed over the tensor-parallel
                            group once a step (no operator of a microbatch does it) */
  int64_t
      expert_params; /* the part of `params` that routed experts hold.  Where experts have a grid
                            of their own (ep above 1, or etp other than tp) they are not in
                            split_params, and the devices that hold the same are their replicas */
  int64_t model_expert_params; /* of the undivided layer */
  const uint32_t *saved;       /* storages kept for backward, in order of first use */
  uint32_t n_saved;
  int64_t activation_bytes;  /* sum of those, one instance of the layer, one microbatch */
  int64_t shared_bytes;      /* kept too, but common to all layers: rotary tables, token ids */
  int64_t buffer_bytes;      /* constants the implementation keeps per layer */
  int64_t output_bytes;      /* what goes to the next layer */
  struct pz_live live[2];    /* by enum pz_direction */
  struct pz_live live_plain; /* forward when nothing is kept (recomputation) */
  struct pz_live live_backward[PZ_GRADIENTS]; /* backward, by where gradients go */
  int64_t logits; /* elements that a loss in one kernel reads; 0: no such loss in this layer */
  int64_t context_bytes;              /* results of attention kernels */
  const uint8_t *saved_by;            /* of each saved storage: a set of enum pz_saved_use */
  int64_t less_bytes[PZ_SAVED_FORMS]; /* of activation_bytes, by enum pz_saved_form */
  bool wide; /* GEMMs in 16 bit whatever the precision of a plan is (bf16_layers) */
  /* of params, expert_params and model_params those that are trained: all without adapters */
  int64_t trained_params, trained_expert_params, model_trained_params;
};

/* Sums over the model, for one device of the tensor-parallel group, one microbatch. */
struct pz_totals {
  int64_t params, model_params, split_params;
  int64_t forward_flop, backward_flop;
  int64_t matmul_forward_flop, matmul_backward_flop;
  int64_t activation_bytes;
  int64_t param_bytes;
  int64_t peak_bytes; /* weights, gradients, activations and work space: a maximum over time */
  int64_t layers, ops;
  int64_t expert_params; /* on this device, as in pz_layer */
  int64_t active_params; /* of the undivided model: those that a token meets, routed experts by the
                            number chosen; model_params where there are none */
  int64_t model_trained_params; /* of the undivided model: without adapters model_params */
};

enum pz_kernels {
  PZ_KERNELS_FUSED,     /* products take the element-wise operators behind them */
  PZ_KERNELS_EAGER,     /* every step of a norm, softmax or activation is a kernel */
  PZ_KERNELS_MODULES,   /* one kernel per norm, softmax, activation, addition; products alone */
  PZ_KERNELS_POINTWISE, /* the same, and chains of element-wise operators are one kernel */
  PZ_KERNELS_OPERATORS  /* single norms and activations; gates, rotary embedding and loss in their
                           operators: what PyTorch's eager mode keeps */
};
enum pz_attention { PZ_ATTENTION_STANDARD, PZ_ATTENTION_FLASH };
enum pz_recompute { PZ_RECOMPUTE_NONE, PZ_RECOMPUTE_FULL };
enum pz_unknown_ops { PZ_UNKNOWN_REFUSE, PZ_UNKNOWN_VECTOR };

/* How attention reaches the tokens of the other devices of a context-parallel group. */
enum pz_context_form {
  PZ_CONTEXT_RING,       /* their keys and values come round a ring */
  PZ_CONTEXT_ALL_TO_ALL, /* query, key and value change from part of the tokens to part of the heads,
                            the result back */
};

enum { PZ_MOST_DIMS = 16 };

/* How a model is to be built.  Take pz_workload_options_default() and change fields. */
struct pz_workload_options {
  size_t size; /* sizeof *this, set by the default */
  int64_t seq; /* tokens per sample; 0: the model's default */
  int64_t mbs; /* samples per microbatch, >= 1 */
  int64_t tp;  /* tensor-parallel width, >= 1 */
  int64_t
      slice; /* which of the tp slices; they differ only where tp does not divide the vocabulary */
  int64_t num_layers;     /* repeated layers; 0: the model's */
  bool sequence_parallel; /* norms, dropout and residuals divided over the tensor-parallel group */
  double dropout; /* < 0: the model's; 0: none; else this probability where the model has dropout */
  enum pz_kernels kernels;
  enum pz_attention attention;
  enum pz_recompute recompute;
  bool input_gradients_only; /* every product's second gradient (that of the weights) costs nothing:
                                how some published estimators count; for comparisons alone */

  /* of an ONNX file alone */
  const char *dims[PZ_MOST_DIMS]; /* "NAME=SIZE" for symbolic dimensions, NULL after the last; the
                                     strings are the caller's */
  const char *layers;    /* NULL, or a regular expression on node names that says what a layer is */
  const char *batch_dim; /* NULL, or the batch dimension of the inputs: its name, or INPUT:AXIS */
  enum pz_unknown_ops unknown_ops; /* types of operators that are not known */

  /* of a config.json or a preset alone */
  int64_t ep;  /* expert-parallel width: a device holds 1/ep of the experts; 0: 1 */
  int64_t etp; /* devices over which each expert is divided; 0: tp.  Experts lie on a grid of their
                  own when ep is above 1 or etp is not tp; with tp above 1 that needs
                  sequence_parallel */
  bool mtp; /* with the multi-token-prediction layers that the configuration names (DeepSeek-V3) */
  int64_t cp; /* context-parallel width: a device has seq/cp of every sample's tokens, two pieces of
                 seq/(2 cp), one from each end, so that causal attention is even; needs flash
                 attention; 0: 1 */
  enum pz_context_form cp_form;
  int64_t vocab_multiple; /* the vocabulary is padded to a multiple of this; model_params and the
                             workload's vocab stay the model's own; 0: as it is */
  struct pz_lora {
    int64_t
        rank; /* > 0: the model's parameters are frozen, and linear layers have low-rank adapters of
                       this rank (LoRA, arXiv 2106.09685) */
    int modules;    /* those layers, a set of enum pz_lora_module */
    double dropout; /* of what adapters read; 0: none */
  } lora;
  const char
      *peft; /* NULL, or the same as a text (pz_lora_parse), which takes its place; the caller's */
  double imbalance; /* rows that the experts of this device get from all ep devices, over the mean;
                       at most all of them; 0: 1 */
};

/* Linear layers that adapters may have.  Megatron's layers of query, key and value, and of gate and up, are one each:
 * their adapters have one first matrix in common. */
enum pz_lora_module {
  PZ_LORA_QUERY = 1,
  PZ_LORA_KEY = 1 << 1,
  PZ_LORA_VALUE = 1 << 2,
  PZ_LORA_OUT = 1 << 3,
  PZ_LORA_GATE = 1 << 4,
  PZ_LORA_UP = 1 << 5,
  PZ_LORA_DOWN = 1 << 6,
  PZ_LORA_QUERY_DOWN = 1 << 7, /* of latent attention, this and the next three */
  PZ_LORA_QUERY_UP = 1 << 8,
  PZ_LORA_KV_DOWN = 1 << 9,
  PZ_LORA_KV_UP = 1 << 10,
  PZ_LORA_SSM_IN = 1 << 11, /* of state-space layers */
  PZ_LORA_SSM_OUT = 1 << 12,
  PZ_LORA_SHARED = 1 << 13,        /* one first matrix for layers that Megatron has as one */
  PZ_LORA_AS_FRAMEWORK = 1 << 14,  /* the same where the framework is Megatron's (all, attention) */
  PZ_LORA_SHARED_EXPERTS = 1 << 15 /* one adapter for all experts of a device */
};

/* "none", or "lora:RANK:MODULES" with a list of modules joined by +, or all or attention, and maybe ":DROPOUT". */
PZ_NODISCARD PZ_API enum pz_status pz_lora_parse(const char *text, struct pz_lora *out,
                                                 struct pz_error *err);

/* Names of these choices, in the order of the enums; each list ends with NULL. */
PZ_API extern const char *const pz_kernels_names[],
    *const pz_attention_names[], *const pz_recompute_names[], *const pz_unknown_ops_names[],
                                                                  *const pz_context_names[];

/* A part of a model's layers in the order in which they run: the layers of `unit` (indices) one
 * after another, and all of that `repeats` times. */
struct pz_segment {
  const uint32_t *unit;
  uint32_t n_unit;
  int64_t repeats;
};

struct pz_workload {
  const char *model;
  const char *family;
  struct pz_workload_options options; /* with defaults filled in */
  int64_t hidden, heads, kv_heads, ffn, vocab, positions;
  bool causal; /* a token attends to those before it: a decoder */
  const struct pz_layer *layers;
  uint32_t n_layers;
  struct pz_totals totals;
  const char *warning; /* NULL, or a sentence the user should see */

  /* The order of the layers.  One kind of repeated layer: [embedding] x 1, [block] x L, [head] x 1.
   * Kinds that alternate, as in Gemma 3: [embedding] x 1, [w, w, w, w, w, f] x 8, [head] x 1; a
   * model whose first layers differ, as DeepSeek-V3: [embedding] x 1, [dense] x 3, [moe] x 58,
   * [head] x 1.  A layer's repeats add up to its count. */
  const struct pz_segment *order;
  uint32_t n_order;
  int64_t head_dim;                   /* of query and key; 0 for an ONNX file */
  int64_t experts, experts_per_token; /* routed ones; 0: a dense model */
  int64_t expert_groups; /* groups of experts, as a rule nodes, that a token's are from; 0: any */
};

PZ_API struct pz_workload_options pz_workload_options_default(void);

/* Build the graphs of `model`: a preset's name, or the path of a Hugging Face config.json or of an
 * ONNX file, whose name ends with .onnx and whose weights may be absent.
 * On success *out is the caller's, to be freed with pz_workload_free; on error it is untouched.
 * Cost: tens of microseconds, whatever the number of layers. */
PZ_NODISCARD PZ_API enum pz_status pz_workload_load(const char *model,
                                                    const struct pz_workload_options *options,
                                                    struct pz_workload **out, struct pz_error *err);

/* The same from the text of a config.json; `name` stands for it in messages. */
PZ_NODISCARD PZ_API enum pz_status pz_workload_parse(const char *name, const char *text,
                                                     size_t bytes,
                                                     const struct pz_workload_options *options,
                                                     struct pz_workload **out,
                                                     struct pz_error *err);

/* The same from the bytes of an ONNX file, which are not needed after the call.  Cost:
 * milliseconds. */
PZ_NODISCARD PZ_API enum pz_status pz_workload_parse_onnx(const char *name, const void *data,
                                                          size_t bytes,
                                                          const struct pz_workload_options *options,
                                                          struct pz_workload **out,
                                                          struct pz_error *err);

/* Accepts NULL. */
PZ_API void pz_workload_free(struct pz_workload *w);

/* All of it as JSON, or as a graph for Graphviz; *text is the caller's to give back with
 * pz_text_free. */
enum pz_workload_form { PZ_WORKLOAD_JSON, PZ_WORKLOAD_DOT };
PZ_NODISCARD PZ_API enum pz_status pz_workload_text(const struct pz_workload *w,
                                                    enum pz_workload_form form, char **text,
                                                    struct pz_error *err);

/* Names of the presets: pz_preset_name(i) for i from 0, NULL after the last. */
PZ_API const char *pz_preset_name(size_t i);

/* Its name on Hugging Face ("meta-llama/Llama-3.1-70B"), by which it is found too; NULL: it is not there. */
PZ_API const char *pz_preset_hub_name(size_t i);

/* The name of the preset that a word names, by either name and in any case of letters, unless a file of that path exists.  NULL: none. */
PZ_API const char *pz_preset_named(const char *word);

/* "unknown" for what is none, as every name of an enum below. */
PZ_API const char *pz_op_kind_name(int kind);
PZ_API const char *pz_op_class_name(enum pz_op_class c);

/* ---- chips ---------------------------------------------------------------------------------- */

/* Technologies with published densities and energies. */
enum pz_tech {
  PZ_TECH_45NM,
  PZ_TECH_22NM,
  PZ_TECH_16NM, /* 16 and 12 nm */
  PZ_TECH_7NM,  /* 7 and 6 nm */
  PZ_TECH_5NM,  /* 5 and 4 nm */
  PZ_TECH_3NM,
  PZ_TECHS
};

/* Area, energy and price of components; 'phaze chips --constants' prints them with their sources.
 * 45 and 22 nm have only what the original system's library has. */
struct pz_tech_info {
  const char *name;
  double mac_um2, lane_um2; /* one multiplier of an array, one vector lane, with their registers */
  double fp64_um2;          /* one unit of 64 bits */
  double sram_um2_per_byte; /* of a core; 0: from the 22 nm library's tables of macros */
  double glb_um2_per_byte;
  double hbm_phy_um2;          /* interface and controller of one stack */
  double noc_um2;              /* of one core's port */
  double glb_port_um2_per_gbs; /* of a global buffer, for each 1e9 B/s */
  double link_um2_per_gbs;     /* PHY and controller, for each 1e9 B/s one way */
  double die_link_um2_per_gbs; /* between dies of a package, both ends */
  double io_um2;               /* of one die: host interface, management, test */
  double other_share;          /* what has no block of its own, over the sum of the blocks */
  double mac_j, lane_j; /* one multiply-accumulate (16 bit, 32-bit sum), one vector operation */
  double local_j, glb_j, hbm_j, link_j, die_link_j; /* one byte moved */
  double static_w_per_mm2, clock_w_per_mm2;         /* at rest; more with the clock running */
  double reference_hz;                              /* clock at which the energies hold */
  double voltage_slope; /* relative change of the voltage over that of the clock */
  double voltage_floor; /* the least, over that at reference_hz */
  double wafer_dollars, defects_per_cm2;
  double hbm_dollars_per_gb, package_dollars_per_mm2;
  double hbm_edge_mm, link_edge_mm_per_gbs; /* of a die's edge that a stack, a link takes */
  /* of ownership: a chip's part of server and network, energy, power of the site over the computers' */
  double server_dollars, network_dollars, energy_dollars_per_kwh, power_overhead, life_years;
};

/* NULL for none of them. */
PZ_API const struct pz_tech_info *pz_tech_at(enum pz_tech tech);

/* A constant of a chip's bill: values by node from 16 to 3 nm, and the range of what sources say, as
 * factors. */
struct pz_silicon {
  const char *name, *unit, *kind, *source;
  double value[4], low, high;
  size_t offset; /* in struct pz_tech_info */
};

/* NULL behind the last. */
PZ_API const struct pz_silicon *pz_silicon_at(size_t i);

/* What programs reach of the data sheet of a chip that nobody measured ("cold"): a constant, the same for all chips of a
 * class, and the range of what chips or sources show. */
struct pz_cold_info {
  const char *name;
  double value, low, high;
  const char *kind, *source;
};

/* NULL behind the last. */
PZ_API const struct pz_cold_info *pz_cold_at(size_t i);

/* How wrong such predictions are from chip to chip: the standard deviation over chips of the mean error of their
 * published runs, as 'phaze validate --cold' has it. */
PZ_API double pz_cold_spread(void);

/* One of these constants with another value. */
struct pz_cold_value {
  const char *name;
  double value;
};

/* A chip: the description that a chip.json gives.  Its fields are reached by their names there
 * (pz_chip_number), so that a new one changes no program. */
struct pz_chip;

/* Of the operands of the layers' products. */
enum pz_precision {
  PZ_PRECISION_BF16,  /* 16 bit */
  PZ_PRECISION_FP8,   /* 8 bit, with casts; attention, head and everything else in 16 */
  PZ_PRECISION_FP16,  /* 16 bit with a shorter exponent, at the cost of bf16 */
  PZ_PRECISION_NVFP4, /* 4 bit with scales of 16 values, otherwise as FP8 */
  PZ_PRECISIONS
};

/* Scales of 8-bit operands: one of a tensor, by the largest values of steps before or of its own; one of each 128 values
 * (128 x 128 of weights); one of each 32 (Blackwell). */
enum pz_fp8_recipe { PZ_FP8_DELAYED, PZ_FP8_CURRENT, PZ_FP8_BLOCKWISE, PZ_FP8_MX, PZ_FP8_RECIPES };

/* Modules whose GEMMs have more bits than a plan's precision says, a set (bf16_modules). */
enum pz_wide_module {
  PZ_WIDE_ATTENTION = 1,       /* projections of queries, keys, values and of the result */
  PZ_WIDE_LATENT = 2,          /* of experts in a latent space */
  PZ_WIDE_PREDICT = 4,         /* layers of multi-token prediction */
  PZ_WIDE_MAMBA_OUT = 8,       /* of state-space layers; where others have nvfp4 it has mxfp8 */
  PZ_WIDE_MAMBA_OUT_BF16 = 16, /* the same in 16 bit always */
  PZ_WIDE_ALL = 31
};

/* What collectives reach over a link between all devices of a node; 0: as constants of the model say. */
struct pz_collective_facts {
  double efficiency;        /* of the link's rate, that rings reach with large messages */
  double startup_s;         /* of one between two devices */
  double switch_efficiency; /* of the link's rate, where switches add up; 0: they do not */
};

/* Area by component, um2: of what the original system's library has. */
struct pz_area {
  double tensor_um2, tensor_local_um2, vector_um2, vector_local_um2, glb_um2, hbm_um2;
};

/* These and the sums below take a chip that pz_chip_load made, or one with fields changed, and
 * check nothing. */
PZ_API struct pz_area pz_chip_area(const struct pz_chip *c);
PZ_API double pz_area_total_um2(const struct pz_area *a);

/* Peak power, W, which a search limits.  Chips that run kernels on streams lower their clock: that of their bill.
 * Scheduled ones hold it, with products at full rate.  At 45 and 22 nm: everything at full speed at once. */
PZ_API double pz_chip_peak_watts(const struct pz_chip *c);

/* Clock of GEMMs at full rate, Hz: of a chip that nobody measured the one that its watts allow, of others its own. */
PZ_API double pz_chip_gemm_hz(const struct pz_chip *c);

enum pz_bill_range { PZ_BILL_LIKELY, PZ_BILL_LOW, PZ_BILL_HIGH };

/* What a chip takes: area of all its dies by block, power, price, edge of the dies.  More of any
 * resource never makes one of area, watts, dollars and edge smaller.  At 45 and 22 nm the area is
 * the original library's: no network on chip, HBM, links, host interface; and there are no prices. */
struct pz_bill {
  int64_t dies;
  double tensor_mm2, tensor_local_mm2, vector_mm2, vector_local_mm2, fp64_mm2, glb_mm2, noc_mm2;
  double hbm_mm2, link_mm2, die_link_mm2, io_mm2, other_mm2, area_mm2; /* the last is the sum */
  double static_watts, link_watts;
  double product_watts, stream_watts; /* dynamic, of long products, of reading HBM at full rate */
  double watts;                       /* static + link + the larger of the two */
  double die_dollars, hbm_dollars, package_dollars, dollars;
  double edge_mm, edge_room_mm; /* of the dies: what HBM and links take, what there is */
};

/* `range`: with the constants that the model takes, or with the least or greatest of those that
 * sources name. */
PZ_API struct pz_bill pz_chip_bill(const struct pz_chip *c, enum pz_bill_range range);

/* A part of a bill by name. */
struct pz_bill_part {
  const char *key, *label; /* the field's name; for people */
  const char *unit;        /* of area_mm2 "mm2", of watts "W", of dollars "$" */
  size_t offset;           /* of the field in struct pz_bill, a double */
};

/* NULL behind the last. */
PZ_API const struct pz_bill_part *pz_bill_part_at(size_t i);

/* The bill as the text of a JSON object: parts, sums, and ranges of these; *text is the caller's to give
 * back with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_bill_text(const struct pz_chip *c, char **text,
                                                struct pz_error *err);

/* What is known of a real chip's dies, to judge its bill. */
struct pz_known {
  char die[32];      /* presets of one die have its name; "": nothing is known */
  double mm2, watts; /* of all dies of the package; TDP; 0: not known */
  bool fitted;       /* the bill's shares were fitted to this die */
};

/* Of a preset by name; nothing for other chips. */
PZ_NODISCARD PZ_API enum pz_status pz_known_load(const char *chip, struct pz_known *out,
                                                 struct pz_error *err);

/* Static power of a chip at work, of which operators take their part by time; 0 for the original
 * libraries. */
PZ_API double pz_power_static_watts(const struct pz_chip *c);

/* The technology of its cores: that of the real dies where the package says so.  Bills of chips of one
 * technology can be compared. */
PZ_API enum pz_tech pz_chip_bill_tech(const struct pz_chip *c);

/* A preset's name or the path of a chip.json.  On success *out is the caller's to free.  Cost: some
 * ten microseconds. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_load(const char *chip, struct pz_chip **out,
                                                struct pz_error *err);

/* From the text of a chip.json, `bytes` long; `name` stands for it in messages. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_parse(const char *name, const char *text, size_t bytes,
                                                 struct pz_chip **out, struct pz_error *err);

/* Another one with the same fields, to change some.  On success *out is the caller's to free. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_copy(const struct pz_chip *c, struct pz_chip **out,
                                                struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_chip_free(struct pz_chip *c);

/* Its name, which lives as long as the chip and is not changed. */
PZ_API const char *pz_chip_name(const struct pz_chip *c);

/* What a field holds. */
enum pz_chip_kind { PZ_CHIP_INTEGER, PZ_CHIP_REAL, PZ_CHIP_FLAG, PZ_CHIP_WORD };

/* The fields of every chip by their names in chip.json, with dots: "clock_hz", "tensor.cores",
 * "calibration.tensor_efficiency"; NULL after the last.  `kind` may be NULL. */
PZ_API const char *pz_chip_field(size_t i, enum pz_chip_kind *kind);

/* A number of a chip by its name, flags as 0 and 1; also "calibration.kernels.KERNEL.NUMBER" of a
 * kernel that it has.  A field that no file said has its default, 0 where it has none.  Lists
 * (calibration.tiles) are in pz_chip_text.  PZ_BAD_INPUT for an unknown name says which are accepted. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_number(const struct pz_chip *c, const char *field,
                                                  double *value, struct pz_error *err);

/* Change it.  PZ_BAD_INPUT for what a chip.json could not have there; where fields contradict each
 * other, the call that takes the chip says so. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_set_number(struct pz_chip *c, const char *field,
                                                      double value, struct pz_error *err);

/* The same for words: name, about, tech, execution, precisions, package.tech, package.io_tech.  *word
 * is the caller's to give back with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_word(const struct pz_chip *c, const char *field,
                                                char **word, struct pz_error *err);
PZ_NODISCARD PZ_API enum pz_status pz_chip_set_word(struct pz_chip *c, const char *field,
                                                    const char *word, struct pz_error *err);

/* The description as the text of a chip.json, which pz_chip_parse reads; *text is the caller's to
 * give back with pz_text_free.  PZ_BAD_INPUT for fields that no file could say. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_text(const struct pz_chip *c, char **text,
                                                struct pz_error *err);

/* Is it built, so that training frameworks run on it: a GPU, or one whose speed was measured?  Else it
 * is only described. */
PZ_API bool pz_chip_built(const struct pz_chip *c);

/* Can its tensor cores run products in this precision?  PZ_BAD_USE says which they can.  A chip that is
 * only described has all of them. */
PZ_NODISCARD PZ_API enum pz_status
pz_chip_can_run(const struct pz_chip *c, enum pz_precision precision, struct pz_error *err);

/* Multiply-accumulate peak, 2 FLOP each; vector operations; sums over the chip. */
PZ_API double pz_chip_tensor_flop_per_s(const struct pz_chip *c);
PZ_API double pz_chip_vector_op_per_s(const struct pz_chip *c);
PZ_API double pz_chip_hbm_bytes_per_s(const struct pz_chip *c);
PZ_API int64_t pz_chip_hbm_bytes(const struct pz_chip *c);

/* Names of the presets, NULL after the last; the text of one, NULL if there is none. */
PZ_API const char *pz_chip_preset_name(size_t i);
PZ_API const char *pz_chip_preset_text(const char *name);

/* ---- networks ------------------------------------------------------------------------------- */

enum { PZ_CLUSTER_MOST_LEVELS = 8, PZ_CLUSTER_MOST_AXES = 4 };

struct pz_level {
  char name[32];
  int64_t devices;    /* that one group of this level spans */
  double bytes_per_s; /* of one device, one direction, all its links together */
  double latency_s;   /* of one message */
  int n_axes;         /* 0: any device reaches any other; else a torus, two links an axis */
  int64_t axis[PZ_CLUSTER_MOST_AXES]; /* lengths of the whole torus */
  int64_t wrap; /* jobs of whole cubes of this side have rings on all axes; others have lines where
                   an axis is not a whole one of the torus */
  bool mesh; /* a link of its own to every other device, each with the same part of bytes_per_s */
  /* What collectives reach over this level; 0: as the chips (innermost level) or constants of the model say.  On outer
   * levels startup_s is an additional start of large messages. */
  struct pz_collective_facts collectives;
};

struct pz_cluster {
  char name[48], about[160];
  int64_t devices;
  int64_t stated_devices; /* before pz_cluster_reach */
  bool scales;            /* the outermost level may have any number of devices */
  char chips[120];        /* names of the chips in it, with a space between; "": any */
  bool standard;          /* what these chips stand in where nothing else is known */
  int n_levels;
  struct pz_level level[PZ_CLUSTER_MOST_LEVELS];
  bool instant;             /* collectives and transfers between devices take no time */
  bool any_units;           /* numbers of a file that are far out of the usual range are meant */
  char calibrated[160];     /* measurements that its collectives were fitted to; "": none */
  double calibration_error; /* of that fit: mean relative error of large messages */
};

/* A preset's name or the path of a cluster.json, and its text; as for chips. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_load(const char *cluster, struct pz_cluster *out,
                                                   struct pz_error *err);
PZ_NODISCARD PZ_API enum pz_status pz_cluster_parse(const char *name, const char *text,
                                                    size_t bytes, struct pz_cluster *out,
                                                    struct pz_error *err);

/* The text of a cluster.json, as pz_chip_text. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_text(const struct pz_cluster *c, char **text,
                                                   struct pz_error *err);

/* Have at least so many devices: one that scales grows at its outermost level, at the rates that it
 * has there; for another that has fewer it is PZ_BAD_USE.  `option` is the one that asks. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_reach(struct pz_cluster *c, int64_t devices,
                                                    const char *option, struct pz_error *err);

PZ_API const char *pz_cluster_preset_name(size_t i);

/* The cluster that chips of this name stand in where none is named; false: none is known. */
PZ_API bool pz_cluster_standard(const char *chip, struct pz_cluster *out);

/* Returns the devices of a node: those of the largest level inside the outermost one that has at most PZ_SERVER_DEVICES,
 * otherwise those of the innermost level. */
PZ_API int64_t pz_cluster_node(const struct pz_cluster *c);

/* Do so many devices need more of it than the link of one chip, that is, more than one node, or a
 * torus or mesh? */
PZ_API bool pz_cluster_needed(const struct pz_cluster *c, int64_t devices);

/* Devices of one server of most chips, for chips of which no cluster is known. */
enum { PZ_SERVER_DEVICES = 8 };

/* Are chips of this name in it, as far as it says? */
PZ_API bool pz_cluster_has_chip(const struct pz_cluster *c, const char *chip);

/* The network that a plan on so many devices of a chip has. */
struct pz_network {
  struct pz_cluster cluster;
  bool own_link;     /* there is none, only the chip's own link */
  bool standard;     /* none was named: the chips stand in it */
  char warning[256]; /* of a chip in a network of other chips, or in none; "": none */
};

/* The one that is named, scaled out to the devices; `named` NULL: the cluster that the chip stands in,
 * where more than the chip's own link is needed.  `option` is the one that asks for the devices.
 * PZ_BAD_USE where there is neither a link nor a cluster. */
PZ_NODISCARD PZ_API enum pz_status pz_network_find(const struct pz_chip *chip,
                                                   const struct pz_cluster *named, int64_t devices,
                                                   const char *option, struct pz_network *out,
                                                   struct pz_error *err);

/* Lets collectives and transfers of this network take no time, also where it is the chip's own link: a plan predicted in it
 * shows the compute of a rank alone, which is the step without its bubble. */
PZ_API void pz_network_make_instant(struct pz_network *n, const struct pz_chip *chip,
                                    int64_t devices);

/* ---- cost of an operator -------------------------------------------------------------------- */

/* What limits an operator. */
enum pz_bound {
  PZ_BOUND_COMPUTE,
  PZ_BOUND_HBM,
  PZ_BOUND_GLB,
  PZ_BOUND_LOCAL,
  PZ_BOUND_STARTUP,
  PZ_BOUND_LINK, /* of collectives */
  PZ_BOUNDS
};

PZ_API const char *pz_bound_name(enum pz_bound b);

struct pz_estimate {
  double latency_s;
  double energy_j;     /* dynamic, and the static power of the whole chip for that long */
  double utilisation;  /* of the tensor cores' peak, over the latency; 0 for other operators */
  double hbm_s, glb_s; /* the parts of the latency its traffic takes of those rates */
  enum pz_bound bound;
};

/* A chip in its network with the estimates made so far, which are found again: one per thread. */
struct pz_cost;

/* `net` NULL: the chip's own link.  On success *out is the caller's to free.  Cost of an estimate:
 * some microseconds for a product that was not asked for before, less for others. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_new(const struct pz_chip *chip,
                                               const struct pz_cluster *net, struct pz_cost **out,
                                               struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_cost_free(struct pz_cost *cost);

/* Latency, energy and what limits one operator of a layer.  PZ_BAD_USE for a collective where there
 * is no link, or a group larger than the network. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_op(struct pz_cost *cost, const struct pz_op *op,
                                              struct pz_estimate *out, struct pz_error *err);

/* A matrix product batch x (m x k)(k x n). */
struct pz_product {
  int64_t batch, m, n, k;
  bool warm; /* a call repeated on the same data, as benchmarks do: what fits stays in the global
                buffer */
};

enum pz_dim { PZ_DIM_M, PZ_DIM_N, PZ_DIM_K, PZ_DIMS };

/* Stationarity: which operand is kept in a buffer while the other two stream through it: the
 * results (output-stationary), the second operand (weight-stationary) or the first
 * (input-stationary).  Terms of Chen et al., Eyeriss, ISCA 2016. */
enum pz_stationary {
  PZ_STATIONARY_RESULTS,
  PZ_STATIONARY_WEIGHTS,
  PZ_STATIONARY_INPUTS,
  PZ_STATIONARITIES
};

PZ_API const char *pz_dim_name(enum pz_dim d);
PZ_API const char *pz_stationary_name(enum pz_stationary s);

/* How a product is mapped to the tensor cores; doc/cost.md declares the mapspace. */
struct pz_mapping {
  int64_t tile[PZ_DIMS]; /* of one item */
  int64_t items, rounds;
  enum pz_dim along_rows, along_cols;
  int64_t keep_rows, keep_cols; /* values each multiplier keeps along them */
  enum pz_stationary local_stationary;
  int64_t glb_tile[PZ_DIMS];
  enum pz_stationary glb_stationary;
  int64_t glb_batch; /* products in the global buffer at a time */
  double compute_s, local_s, glb_s, hbm_s, startup_s;
  double local_bytes, glb_bytes, hbm_bytes;
  double least_hbm_s; /* at the memory, of the mapping that moves least past the global buffer */
  double latency_s;
  double energy_j;    /* dynamic */
  double utilisation; /* of the multipliers, over the latency */
  enum pz_bound bound;
};

/* The mapping of a product, from the cache where it was asked for before.  PZ_BAD_INPUT for sizes
 * below 1 or too large to count. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_product(struct pz_cost *cost, const struct pz_product *p,
                                                   struct pz_mapping *out, struct pz_error *err);

/* One step of the optimizer over `params` parameters: a pass over weights, gradients and states.
 * bytes_per_param: all that is read and written. */
enum {
  PZ_ADAM_BYTES = 28
}; /* Adam with 32-bit master weights and states: reads gradient 2, master
                                4, states 8; writes 4 + 8 and weight 2 */
PZ_API void pz_cost_optimizer(const struct pz_chip *c, double params, double bytes_per_param,
                              struct pz_estimate *out);

/* The chip of these estimates, which lives as long; estimates asked for, and found among those made
 * before (NULL: not asked). */
PZ_API const struct pz_chip *pz_cost_chip(const struct pz_cost *cost);
PZ_API void pz_cost_counts(const struct pz_cost *cost, uint64_t *asked, uint64_t *found);

/* ---- tables of operators -------------------------------------------------------------------- */

/* An operator of a table. */
struct pz_op_time {
  const char *op;
  int64_t batch, m, n, k;
  double us, measured_us; /* predicted, in microseconds as tables have them; 0: not measured */
};

struct pz_op_times {
  struct pz_op_time *rows;
  uint32_t n_rows;
};

/* Every operator of a table as a benchmark loop would measure it, with repeated calls, so that data
 * which fits in the global buffer stays there.  `text` is CSV with columns op, batch (or b), m, n, k,
 * and extra where an operator needs more (doc/cost.md); `name` stands for it in messages.  On success
 * *out is the caller's to free. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_table(struct pz_cost *cost, const char *name,
                                                 const char *text, size_t bytes,
                                                 struct pz_op_times **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_op_times_free(struct pz_op_times *t);

/* Power of an operator that a chip runs again and again. */
struct pz_power {
  double latency_s, watts, joules; /* of one call */
  double clock_hz;
};

struct pz_power_row {
  const char *op;
  int64_t m, n, k;
  double cap_watts, lock_hz;              /* limits of the measurement; 0: those of the chip */
  double call_s, watts, clock_hz, joules; /* as measured; 0: not */
  /* `sustained`: calls one after the other; `called`: not more often than they were measured to come,
   * since the host could not launch more */
  struct pz_power sustained, called;
  double throttled_s; /* latency by the calibration's fitted slower rate of long products */
};

struct pz_power_table {
  struct pz_power_row *rows;
  uint32_t n_rows;
};

/* Operators that ran for seconds, with the power they took: CSV with columns op, b (or batch), m, n,
 * k; call_us, watts, sm_mhz, joules_per_call as measured, cap_w and lock_mhz, the limits of the
 * measurement (each may be absent or empty); flop for the heads of attention.  On success *out is the caller's to free. */
PZ_NODISCARD PZ_API enum pz_status pz_power_table(const struct pz_chip *chip, const char *name,
                                                  const char *text, size_t bytes,
                                                  struct pz_power_table **out,
                                                  struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_power_table_free(struct pz_power_table *t);

/* ---- calibration ---------------------------------------------------------------------------- */

/* The rows of one operator: how many, how many of them were held back from the first fit, and mean
 * errors: of the chip as it was, of both halves after the fit to one, and after the fit to all. */
struct pz_fit_residual {
  const char *op;
  uint32_t rows, held;
  double before, fitted_half, held_half, after;
};

struct pz_constant_change {
  char name[64];
  double before, after;
  bool at_bound; /* of the range that a chip file accepts: other values were better still */
};

/* A group whose constants stay, because those of the fit to one half predict the other no better: mean
 * errors of its rows there, or of all rows after the fit to all. */
struct pz_rejected_fit {
  const char *name; /* as in `kept` */
  double before, fitted;
};

struct pz_calibrated {
  const struct pz_chip *chip;              /* with the constants of the fit to all rows */
  const struct pz_fit_residual *residuals; /* of operators that have rows */
  uint32_t n_residuals;
  struct pz_fit_residual all;
  const struct pz_constant_change *changes;
  uint32_t n_changes;
  const char *const *kept; /* kernels, products, fp8 products that no row shows */
  uint32_t n_kept;
  const struct pz_rejected_fit *rejected;
  uint32_t n_rejected;
  const char *const *notes; /* sentences about the tables and the fit */
  uint32_t n_notes;
};

struct pz_calibrate_options {
  size_t size;              /* sizeof *this, set by the default */
  const char *ops;          /* path of a table of measured operators, or of a directory of such */
  pz_progress_fn *progress; /* NULL: none */
  void *ctx;                /* of it */
};

PZ_API struct pz_calibrate_options pz_calibrate_options_default(void);

/* Fit the chip's constants to operators measured on it: to every second row of each, judged with the
 * others, then to all.  Constants that no row shows, and those of a group whose mean error over the
 * others does not fall, stay.  PZ_BAD_INPUT for tables that cannot be read, or are of another chip;
 * PZ_STOPPED when cancelled.  On success *out is the caller's to free.  Cost: some thousand predictions
 * of each row. */
PZ_NODISCARD PZ_API enum pz_status pz_calibrate(const struct pz_chip *chip,
                                                const struct pz_calibrate_options *options,
                                                struct pz_calibrated **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_calibrated_free(struct pz_calibrated *c);

/* A training step that was measured, and predicted: by the chip as it was, by a correction from all other
 * steps (0: there is none), by that from all. */
struct pz_step_residual {
  const char *id;
  double measured_s, before_s, left_out_s, after_s;
};

/* The factor of a part of the step, and the part of the steps that grows with it, on average. */
struct pz_step_factor {
  const char *name; /* "gemms", "attention", "elementwise", "launches" or "collectives" */
  double factor, share;
};

/* Mean errors of `after_s` and the others over `measured_s`. */
struct pz_step_errors {
  double before, left_out, after; /* left_out: NaN for one step */
};

struct pz_step_calibration {
  const struct pz_chip *chip;           /* corrected; NULL: the steps are of several chips */
  const struct pz_step_residual *steps; /* that the factors follow from */
  uint32_t n_steps;
  const struct pz_step_residual *held; /* that only judge them; without left_out_s */
  uint32_t n_held;
  struct pz_step_errors errors, held_errors;
  const struct pz_step_factor *factors;
  uint32_t n_factors;
  const char *const *notes; /* sentences about the tables and the fit */
  uint32_t n_notes;
  const char *const *files; /* that were read: tables, logs, plans, models, chips, clusters */
  uint32_t n_files;
};

struct pz_calibrate_steps_options {
  size_t size; /* sizeof *this, set by the default */
  const char
      *steps; /* path of a table as pz_runs_predict reads it, with step_time_s; or of the log of
                        a run of Megatron-LM or torchtitan, several with commas between them */
  const char *
      plan; /* of logs that do not show it: as many files that pz_run_plan_read reads; NULL: none */
  const char *held; /* of another, whose steps are not used; NULL: none */
  const char *chip,
      *cluster; /* of rows that name none; of a table's chips the one to correct; NULL: as the rows say */
  unsigned threads; /* 0: one per processor */
  int64_t devices;  /* of logs whose run does not state them; 0: they do */
};

PZ_API struct pz_calibrate_steps_options pz_calibrate_steps_options_default(void);

/* Correct predictions by a few measured training steps: times of GEMMs, attention, element-wise operators, launches and
 * collectives get a factor each, kept in the chip (its field "correction"), which every prediction of a training step
 * uses.  A few steps say little of five factors: each is moved only as far as the steps agree.  On success *out is the
 * caller's to free. */
PZ_NODISCARD PZ_API enum pz_status
pz_calibrate_steps(const struct pz_calibrate_steps_options *options,
                   struct pz_step_calibration **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_step_calibration_free(struct pz_step_calibration *c);

/* Classes of sizes by which errors are told: up to 64 KiB, up to 16 MiB, larger ones, all. */
enum { PZ_NETWORK_SIZES = 4 };

struct pz_network_level_fit {
  uint32_t rows; /* whose outermost level this is; 0: its constants stay */
  double before_bytes_per_s, after_bytes_per_s; /* of a device, that large messages reach */
  double before_s,
      after_s; /* innermost level: start of a collective; others: latency of a message */
  double least_bytes, most_bytes;
};

struct pz_network_error {
  const char *test; /* "all_reduce"; "all" for the last */
  uint32_t rows[PZ_NETWORK_SIZES];
  double before[PZ_NETWORK_SIZES], after[PZ_NETWORK_SIZES]; /* mean relative errors */
};

struct pz_network_calibration {
  struct pz_cluster cluster; /* calibrated */
  const char *chip;          /* preset or file: what applies inside a node before the fit */
  const struct pz_network_level_fit *levels; /* as many as the cluster has */
  const struct pz_network_error *tests;
  uint32_t n_tests;
  const char *const *notes; /* sentences about the logs and the fit */
  uint32_t n_notes;
  const char *const *files; /* logs that were read */
  uint32_t n_files;
};

struct pz_calibrate_network_options {
  size_t size;      /* sizeof *this, set by the default */
  const char *logs; /* paths of outputs of nccl-tests, with commas between them */
  const char *chip; /* NULL: the device that the logs name, or else the first chip of the cluster */
  const char *cluster;  /* the network's data sheet; NULL: the one that such chips stand in */
  int64_t devices;      /* of every log; 0: as their ranks say */
  int64_t node_devices; /* of them in a node; 0: as their ranks say */
};

PZ_API struct pz_calibrate_network_options pz_calibrate_network_options_default(void);

/* Fit efficiency and latency of each level of a network to collectives that nccl-tests measured on it.  Levels that no row
 * shows stay.  PZ_BAD_INPUT for logs without rows, whose numbers contradict each other, whose test or devices are unknown, or
 * that are faster than the network's data sheet.  On success *out is the caller's to free. */
PZ_NODISCARD PZ_API enum pz_status
pz_calibrate_network(const struct pz_calibrate_network_options *options,
                     struct pz_network_calibration **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_network_calibration_free(struct pz_network_calibration *c);

/* ---- schedule of a layer -------------------------------------------------------------------- */

/* What operators share while they run beside each other. */
enum pz_resource {
  PZ_TENSOR_CORES,
  PZ_VECTOR_CORES,
  PZ_LINK,
  PZ_HBM_RATE, /* bandwidth of HBM and of the global buffer */
  PZ_GLB_RATE,
  PZ_POWER, /* what the watts of a chip leave beside its power at rest */
  PZ_RESOURCES
};

/* Which modes an operator has. */
enum pz_mode_set {
  PZ_MODES_ALL,   /* on 1, 2, 4 .. all cores of its class; collectives take the link; operators that
                     run beside each other share the rates of HBM and global buffer */
  PZ_MODES_CORES, /* the same, but each has the rates of its cores, whatever runs beside it */
  PZ_MODES_TWO,   /* the original system's: on one core or on all; collectives take a vector core */
};

/* What an operator on all cores of its class excludes, of PZ_MODES_TWO: everything, or its class. */
enum pz_exclusive { PZ_EXCLUSIVE_ALL, PZ_EXCLUSIVE_CLASS };

enum pz_solver {
  PZ_SOLVER_EXACT, /* local search, bounds and tree search */
  PZ_SOLVER_ILP    /* the integer program, by CBC: an oracle, of at most 128 operators */
};

/* Each list ends with NULL. */
PZ_API extern const char *const pz_modes_names[], *const pz_exclusive_names[],
                                                      *const pz_solver_names[];

/* Effort that closes most layers, and brings the others near, in some milliseconds: the default of
 * placements and of the search, so that both say the same of a chip.  PZ_PASS_STEPS: that of a pass
 * in a predicted step.  PZ_SCHEDULE_STEPS: that of the command, 16 million, fewer for more than 64
 * operators. */
enum { PZ_LAYER_STEPS = 60000, PZ_PASS_STEPS = 1000, PZ_SCHEDULE_STEPS = -1 };

struct pz_schedule_options {
  size_t size;   /* sizeof *this, set by the default */
  int64_t steps; /* effort limit, in steps of the solver */
  enum pz_mode_set modes;
  enum pz_exclusive exclusive; /* of PZ_MODES_TWO and of instances */
  enum pz_solver solver;
  double seconds;      /* time limit of the integer program; 0: 60 */
  const char *disable; /* techniques of the exact solver to leave out, with commas; NULL: none */
  const char *lp;      /* path of a .lp or .mps file to write the integer program to; NULL: none */
  bool views;          /* views are listed too */
};

PZ_API struct pz_schedule_options pz_schedule_options_default(void);

/* An operator in a schedule. */
struct pz_scheduled_operator {
  const char *name;
  enum pz_op_class op_class;
  int64_t tensor_cores, vector_cores; /* that it runs on */
  double start_s, end_s;
  double used[PZ_RESOURCES]; /* cores, link, parts of the rates */

  /* not kept by runs */
  int64_t id;       /* of its layer, of the file */
  const char *mode; /* number of cores of its class; "single", "intra", "link", "none" */
  int64_t tensor_held, vector_held; /* its cores, and others that stay idle so that it is alone */
  double energy_j;
};

/* Why a solver left a gap open. */
enum pz_stop { PZ_STOP_PROVED, PZ_STOP_STEPS, PZ_STOP_TIME };

/* What a technique of the exact solver did. */
struct pz_technique_count {
  const char *name;
  int64_t calls;
  int64_t steps;      /* of searches, with those of what they call */
  int64_t prunes;     /* nodes, starts or modes it ruled out */
  int64_t incumbents; /* schedules it found that were the best so far */
  double raised;      /* sum by which it raised the lower bound */
};

/* A layer of a model on a chip, in one direction; or an instance, whose times are in its own unit. */
struct pz_layer_schedule {
  const char *model; /* NULL where it was not told; of an instance its name */
  const char *layer; /* NULL: an instance */
  int64_t count;     /* how often the layer occurs */
  enum pz_direction direction;
  double makespan_s, lower_bound_s; /* no schedule is shorter than the bound */
  bool optimal;                     /* proven: they are equal */
  double use[PZ_RESOURCES];         /* how busy each resource is, as a part of the makespan */
  struct pz_scheduled_operator *operators; /* without views, which take no time */
  uint32_t n_operators;
  double serial_s; /* the operators one after another, each in its fastest mode */

  /* not kept by runs */
  bool limits[PZ_RESOURCES]; /* is it part of the problem?  Cores and link are */
  enum pz_stop stop;
  int64_t steps;
  struct pz_technique_count *techniques; /* all, in one order */
  uint32_t n_techniques;
};

/* The shortest schedule found within the effort, of one direction of a layer.  The result
 * depends on nothing but the arguments.  On success *out is the caller's to free; it holds
 * copies of all names.  Cost: at most some microseconds for each step; most layers are proven
 * optimal in milliseconds. */
PZ_NODISCARD PZ_API enum pz_status
pz_schedule_layer(struct pz_cost *cost, const struct pz_layer *layer, enum pz_direction direction,
                  const struct pz_schedule_options *options, struct pz_layer_schedule **out,
                  struct pz_error *err);
enum { PZ_INSTANCE_MOST_BYTES = 1 << 28 };

/* The same for a problem in the original system's JSON format, {num_tc, num_vc, ops: [{id, type:
 * TC|VC|TCandVC|Nop, latency, intra_op_latency}], edges: [[before, after]]}: two modes for each
 * operator, and times in the file's unit.  `name` stands for it in messages. */
PZ_NODISCARD PZ_API enum pz_status pz_schedule_instance(const char *name, const char *text,
                                                        size_t bytes,
                                                        const struct pz_schedule_options *options,
                                                        struct pz_layer_schedule **out,
                                                        struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_layer_schedule_free(struct pz_layer_schedule *s);

/* Schedules as a trace-event file for Perfetto: a process for each, all from time 0, with a lane for
 * each operator that runs beside others and a counter for every resource in use; JSON text, the
 * caller's to give back with pz_text_free.  PZ_LIMIT beyond PZ_TRACE_MOST_OPS operators, or for a
 * makespan above 1e12 us. */
enum { PZ_TRACE_MOST_OPS = 1 << 16 };
PZ_NODISCARD PZ_API enum pz_status pz_schedule_trace(const struct pz_layer_schedule *const *list,
                                                     uint32_t n, char **text, struct pz_error *err);

/* ---- plans ---------------------------------------------------------------------------------- */

/* Lists of choices that a user may have written. */
enum pz_list { PZ_LIST_TP = 1, PZ_LIST_MBS = 2 };

/* A sentence the user should see: of the model, or what was left out of lists and why.  `lists`
 * is a set of enum pz_list: it concerns entries of these, and is no news where they are
 * defaults; 0: in any case. */
typedef void pz_note_fn(void *ctx, unsigned lists, const char *text);

enum { PZ_CHOICES_MOST = 32 };

/* A list of numbers to choose from. */
struct pz_choices {
  int64_t v[PZ_CHOICES_MOST]; /* each once, ascending */
  int n;
};

/* What a training step is made of; the parts sum up to its time. */
struct pz_step_parts {
  double compute_s;     /* of the slowest stage, over the microbatches of a replica */
  double collectives_s; /* tensor-parallel ones, there */
  double transfers_s;   /* activations and gradients between stages, that compute does not hide */
  double bubble_s;      /* filling and draining the pipeline */
  double exchange_s;    /* gradient all-reduce between replicas */
};

/* Layers of the same name that follow each other. */
struct pz_partition_layers {
  const char *name;
  uint32_t count;
};

/* A pipeline stage.  Times are of one microbatch, bytes of one device. */
struct pz_partition_stage {
  const struct pz_partition_layers *layers; /* in the order of the model */
  uint32_t n_layers;                        /* entries of `layers` ... */
  uint32_t layer_count;                     /* ... and layers in all */
  int64_t devices;                          /* of one replica: its tensor-parallel group */
  double forward_s, backward_s; /* with waiting for what comes from other stages; backward with
                                          recomputation where the plan has it */
  double load_s;                /* both together */
  double param_bytes;
  double optimizer_bytes;  /* gradients and optimizer state */
  double activation_bytes; /* of the microbatch at hand */
  double in_flight_bytes;  /* kept for the other microbatches in flight */
  double memory_bytes;     /* all of these */
};

/* A plan.  Its pointers lead into the memory of what holds it (struct pz_partitions, struct
 * pz_result) and live as long. */
struct pz_partition {
  int64_t tp, dp;
  uint32_t pp;             /* stages */
  int64_t mbs, batch, seq; /* samples, samples, tokens of a sample */
  int64_t microbatches;    /* of one replica in a step: the batch over the replicas, rounded up */
  bool recompute;          /* activations: else kept */
  int64_t devices_used;
  double hbm_bytes;       /* of a device */
  double step_s;          /* time of a global batch */
  double lower_bound_s;   /* no plan that was asked for is faster; below step_s only where layer
                            schedules are not proven optimal */
  double slowest_stage_s; /* of a microbatch: the pipeline's beat */
  struct pz_step_parts parts;
  double samples_per_s, tokens_per_s;
  double flop_utilisation;   /* products of a step over the peak of the devices in use */
  uint32_t n_open_schedules; /* layer schedules, by direction, not proven optimal ... */
  double worst_schedule_gap; /* ... and how far the worst may be off: 1 - bound / makespan */
  struct pz_partition_stage *stages; /* from the first to the last */
};

/* "embedding, block x 11" into buf.  Returns buf. */
PZ_API const char *pz_partition_stage_text(const struct pz_partition_stage *s, char *buf,
                                           size_t size);

struct pz_partition_options {
  size_t size;            /* sizeof *this, set by the default */
  int64_t devices, batch; /* number of devices; global batch size, samples */
  struct pz_choices mbs;  /* microbatch sizes to try, samples; n 0: 1, 2, 4, 8 */
  struct pz_choices tp;   /* tensor-parallel degrees to try; n 0: powers of two, as far as the
                             model allows */
  int recompute;          /* PZ_RECOMPUTATION_NONE or _FULL; PZ_AS_FRAMEWORK: whichever is faster */
  double state;     /* bytes held for a byte of parameters, gradients and optimizer state included:
                       3 with Adam, 2 with SGD */
  double hbm_bytes; /* of a device; 0: the chip's */
  int64_t steps;    /* effort limit of each layer schedule */
  uint32_t n_next;  /* how many further plans are told, the best first; at most 999 */
  bool check;       /* every plan is also checked by code that shares nothing with the solver */
  bool first_stage_gradients;          /* as the original system: the gradient all-reduce counts the
                                 parameters of the first stage, not of the largest */
  struct pz_workload_options workload; /* sequence length, how ONNX files are read */
  pz_note_fn *note;                    /* NULL, or told what the user should know */
  void *note_ctx;
};

PZ_API struct pz_partition_options pz_partition_options_default(void);

/* Plans of a model on a chip, the best first. */
struct pz_partitions {
  struct pz_partition *plans;
  uint32_t n_plans; /* at least one */
};

/* The fastest plan over stages, replicas, tensor-parallel degrees, microbatch sizes and
 * recomputation; exact for the layer times found, whose bounds enter lower_bound_s.
 * `model` as for pz_workload_load; `net` NULL: the chip's own link.  PZ_NO_ANSWER when no plan
 * fits; the message says what is missing.  On success *out is the caller's to free.  Cost:
 * milliseconds to seconds, by the number of variants. */
PZ_NODISCARD PZ_API enum pz_status pz_partition_model(const char *model, const struct pz_chip *chip,
                                                      const struct pz_cluster *net,
                                                      const struct pz_partition_options *options,
                                                      struct pz_partitions **out,
                                                      struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_partitions_free(struct pz_partitions *p);

/* A plan's pipeline as a trace-event file for Perfetto: a thread for each stage with its microbatches
 * (the first 2^17 events), each time slot as long as the slowest stage takes, then the gradient
 * all-reduce.  JSON text, the caller's to give back with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_partition_trace(const struct pz_partition *p,
                                                      const char *model, char **text,
                                                      struct pz_error *err);

struct pz_instance_options {
  size_t size;    /* sizeof *this, set by the default */
  bool corrected; /* the gradient all-reduce counts the parameters of the largest stage, not of the
                     first as the original program does */
  bool compat;    /* layers of the expert plan are divided as there, off by one */
  bool check;     /* the plan is also checked by code that shares nothing with the solver */
};

PZ_API struct pz_instance_options pz_instance_options_default(void);

/* A stage of an instance's plan: ids of its nodes; time of a microbatch. */
struct pz_instance_stage {
  int64_t *nodes;
  uint32_t n_nodes;
  int64_t devices;
  double load_s, memory_bytes;
};

struct pz_instance_plan {
  int64_t tp, dp;
  struct pz_instance_stage *stages; /* from the first to the last */
  uint32_t n_stages;
  double step_s, slowest_stage_s, exchange_s; /* of a batch; of a microbatch; gradient all-reduce */
  double hbm_bytes;                           /* of a device */
  double expert_s;    /* time of a batch with the expert plan of the instance ... */
  const char *expert; /* ... or why there is none; NULL: there is */
  double solve_s;     /* that finding the plan took */
};

/* The fastest plan of a placement problem in the original program's JSON format ('phaze place --help'
 * has it), and the time of the expert plan in it.  `name` stands for it in messages.  PZ_NO_ANSWER
 * when no plan fits; the message says how much memory would do.  On success *out is the caller's to
 * free. */
PZ_NODISCARD PZ_API enum pz_status pz_partition_instance(const char *name, const char *text,
                                                         size_t bytes,
                                                         const struct pz_instance_options *options,
                                                         struct pz_instance_plan **out,
                                                         struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_instance_plan_free(struct pz_instance_plan *p);

/* ---- predictions of training runs ----------------------------------------------------------- */

/* What is computed again in backward instead of kept. */
enum pz_recomputation {
  PZ_RECOMPUTATION_NONE,
  PZ_RECOMPUTATION_SELECTIVE, /* the attention core */
  PZ_RECOMPUTATION_FULL,      /* every layer */
  PZ_RECOMPUTATION_ALTERNATE, /* every second product of a layer */
  PZ_RECOMPUTATION_HALF,      /* every second layer */
  PZ_RECOMPUTATIONS
};

enum pz_execution {
  PZ_EXECUTION_EAGER,   /* kernels are launched one by one */
  PZ_EXECUTION_COMPILE, /* element-wise kernels fused, still launched */
  PZ_EXECUTION_GRAPH,   /* no launches: CUDA graphs, compiled programs */
  PZ_EXECUTION_SERIAL,  /* the same on chips whose cores could be scheduled */
  PZ_EXECUTION_SCHEDULED, /* operators beside each other, and beside collectives, on cores that are scheduled */
  PZ_EXECUTIONS
};

/* What a framework runs beside compute, a set. */
enum pz_overlap {
  PZ_OVERLAP_GRAD = 1,
  PZ_OVERLAP_PARAM = 2,
  PZ_OVERLAP_TP = 4,
  PZ_OVERLAP_P2P = 8,
  PZ_OVERLAP_EP = 16, /* experts' all-to-all, beside another microbatch */
  PZ_OVERLAP_ALL = 31
};

/* Modules of a layer whose results selective recomputation finds again, a set; the names are those of
 * Megatron Core's --recompute-modules. */
enum pz_module {
  PZ_MODULE_NORM = 1,       /* layernorm */
  PZ_MODULE_ACTIVATION = 2, /* moe_act: of the experts */
  PZ_MODULE_UP = 4,         /* mla_up_proj: queries, keys and values of latent attention */
  PZ_MODULE_MLP = 8,        /* mlp: of dense layers */
  PZ_MODULE_EXPERTS = 16,   /* moe */
  PZ_MODULE_SHARED = 32,    /* shared_experts */
  PZ_MODULE_CORE = 64,      /* core_attn */
  PZ_MODULE_ALL = 127
};

/* Modules of a layer that are captured in CUDA graphs, a set; the names are those of Megatron Core's
 * --cuda-graph-modules.  Execution graph captures everything. */
enum pz_graph_module {
  PZ_GRAPH_ATTENTION = 1,   /* attn: with its norm */
  PZ_GRAPH_MLP = 2,         /* mlp: of dense layers, with its norm */
  PZ_GRAPH_ROUTER = 4,      /* moe_router: with its norm */
  PZ_GRAPH_PREPARATION = 8, /* moe_preprocess: what dispatchers do before tokens are sent */
  PZ_GRAPH_MAMBA = 16,      /* mamba: Mamba-2 layers */
  PZ_GRAPH_ALL = 31
};

/* The optimizer's own copies of weights that have fewer bits. */
enum pz_main_params {
  PZ_MAIN_FP32,
  PZ_MAIN_FP16,
  PZ_MAIN_REMAINDERS, /* what bf16 weights leave of fp32: 16 bits */
  PZ_MAIN_NONE,       /* weights are updated as they are */
  PZ_MAIN_KINDS
};

/* What is in the memory of the host while it is not used, a set. */
enum pz_offload {
  PZ_OFFLOAD_ACTIVATIONS = 1, /* from forward to backward */
  PZ_OFFLOAD_OPTIMIZER = 2,   /* state and master copies, which are updated there */
  PZ_OFFLOAD_ALL = 3
};

/* Modules of a layer whose saved inputs go there where not all of a layer does, a set; the names are those of
 * Megatron Core's --offload-modules. */
enum pz_offload_module {
  PZ_AWAY_ATTENTION_NORM = 1,
  PZ_AWAY_QKV = 2,
  PZ_AWAY_CORE = 4,
  PZ_AWAY_PROJECTION = 8,
  PZ_AWAY_MLP_NORM = 16,
  PZ_AWAY_EXPERT_UP = 32,         /* expert_fc1 */
  PZ_AWAY_EXPERT_ACTIVATION = 64, /* moe_act */
  PZ_AWAY_EXPERTS = 128,          /* fused_group_mlp: both, and what the last GEMM reads */
  PZ_AWAY_ALL = 255
};

/* In which order the stages of a pipeline run their microbatches. */
enum pz_pipeline_order {
  PZ_PIPELINE_1F1B,
  PZ_PIPELINE_INTERLEAVED,
  PZ_PIPELINE_GPIPE,
  PZ_PIPELINE_ZB_H1, /* zero bubble: gradients of weights fill the gaps; the memory of 1F1B */
  PZ_PIPELINE_ZB_2P, /* the same with about twice the microbatches in flight */
  PZ_PIPELINE_ZB_V, /* zero bubble; stage k has the chunks k and 2 pp - 1 - k; the memory of 1F1B */
  PZ_PIPELINE_DUALPIPE_V, /* the same chunks; forwards run beside backwards of the other chunk */
  PZ_PIPELINE_DUALPIPE,   /* microbatches from both ends; two copies of the parameters */
  PZ_PIPELINES
};

/* GEMMs of a layer whose results are saved though the rest is recomputed, a set. */
enum pz_saved {
  PZ_SAVED_QKV = 1,
  PZ_SAVED_CONTEXT = 2, /* of the attention */
  PZ_SAVED_OUT = 4,     /* the projection behind the attention */
  PZ_SAVED_MLP_IN = 8,
  PZ_SAVED_MLP_OUT = 16,
  PZ_SAVED_HOST = 32 /* all that is saved is in the memory of the host */
};

/* What brings tokens to the devices of their experts and back. */
enum pz_dispatcher {
  PZ_DISPATCHER_ALLTOALL, /* an all-to-all of every copy of a token */
  PZ_DISPATCHER_DEEPEP,   /* a token goes once to a node and to a device, copied by cores */
  PZ_DISPATCHER_HYBRIDEP, /* the same, copied by copy units at the links' rate */
  PZ_DISPATCHERS
};

/* Names of these choices, in the order of the enums (of sets: of their bits); each list ends with
 * NULL.  Frameworks: those whose defaults and kernels are known. */
PZ_API extern const char *const pz_recomputation_names[],
    *const pz_execution_names[],
        *const pz_precision_names[],
            *const pz_fp8_recipe_names[],
                *const pz_act_precision_names[],
                    *const pz_wide_module_names[],
                        *const pz_dispatcher_names[],
                            *const pz_overlap_names[],
                                *const pz_module_names[],
                                    *const pz_graph_module_names[],
                                        *const pz_main_params_names[],
                                            *const pz_offload_names[],
                                                *const pz_offload_module_names[],
                                                    *const pz_pipeline_names[],
                                                        *const pz_saved_names[],
                                                            *const pz_framework_names[];

/* Position of a framework in its list; -1: unknown. */
PZ_API int pz_framework_find(const char *name);

/* The one that is taken for this chip where none is named: maxtext on chips that run compiled
 * programs, as TPUs, else megatron. */
PZ_API int pz_framework_default(const struct pz_chip *c);

/* A choice that is left to the framework. */
enum { PZ_AS_FRAMEWORK = -1 };

/* One plan of a training run.  Take pz_plan_default(), in which every field is unset (as the
 * framework does it, or derived from others), and change fields.  phaze/plan_fields.def has a row
 * for each, with its meaning, unset value and range. */
struct pz_plan {
  size_t size; /* sizeof *this, set by the default */
#define PZ_PLAN_FIELD(id, type, name, ...) type name;
#include "phaze/plan_fields.def"
#undef PZ_PLAN_FIELD
};

/* Its fields by number: PZ_PLAN_TP, PZ_PLAN_PP ...; and a set of them. */
enum pz_plan_field {
#define PZ_PLAN_FIELD(id, ...) PZ_PLAN_##id,
#include "phaze/plan_fields.def"
#undef PZ_PLAN_FIELD
  PZ_PLAN_FIELDS
};
#define PZ_PLAN_PIN(id) (UINT64_C(1) << PZ_PLAN_##id)

PZ_API struct pz_plan pz_plan_default(void);

/* Fields that are not unset, and those that a search for plans chooses unless they are pinned; as
 * sets. */
PZ_API uint64_t pz_plan_given(const struct pz_plan *p);
PZ_API uint64_t pz_plan_searched(void);

/* Set a field by its name ("tp", "recompute_modules") to a value as text, as in plan files: "8",
 * "full", "grad,param".  PZ_BAD_USE for unknown names and values; the message says what is
 * accepted.  Texts must outlive the plan. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_set(struct pz_plan *p, const char *name,
                                               const char *value, struct pz_error *err);

/* The name of a field; and its value in a plan as text: "8", "selective", "grad,param", "on"; "-" where
 * there is none.  PZ_FIELD_TEXT_MOST bytes hold it.  Returns buf. */
PZ_API const char *pz_plan_field_name(enum pz_plan_field f);
PZ_API char *pz_plan_field_text(const struct pz_plan *p, enum pz_plan_field f, char *buf,
                                size_t size);
enum { PZ_FIELD_TEXT_MOST = 200 };

/* Devices that a plan with unset fields is for, as far as it says. */
PZ_API int64_t pz_plan_asked_devices(const struct pz_plan *p);

/* Seconds of a step; they sum up to it. */
struct pz_training_parts {
  double products_s, attention_s, elementwise_s;
  double launch_s;   /* waiting for the host */
  double tensor_s;   /* tensor- and context-parallel collectives that are not hidden */
  double expert_s;   /* rows to and from the experts' devices, not hidden */
  double transfer_s; /* between stages */
  double bubble_s;
  double gradient_s; /* exchange of gradients and weights that is not hidden */
  double waiting_s;  /* for the slowest of many devices */
  double optimizer_s;
};

/* Bytes of one device of a stage at its peak. */
struct pz_training_memory {
  double weight_bytes, gradient_bytes, optimizer_bytes;
  double activation_bytes;    /* kept for backward, of all microbatches in flight */
  double work_bytes;          /* of the layer at hand: what it computes again, and its work space */
  double logit_bytes;         /* logits and loss */
  double communication_bytes; /* gathered weights, gradients not yet scattered, transfers */
  double reserve_bytes;       /* work space of libraries */
};

/* A part of a step's time or of a device's memory by name. */
struct pz_part_info {
  const char *key;   /* the field's name: "products_s" */
  const char *label; /* for people */
  size_t offset;     /* of the field, a double */
  size_t hidden;     /* in struct pz_prediction: what of it runs beside compute; 0: nothing */
};

/* Part i of struct pz_training_parts, of struct pz_training_memory; NULL behind the last. */
PZ_API const struct pz_part_info *pz_time_part_at(size_t i);
PZ_API const struct pz_part_info *pz_memory_part_at(size_t i);

struct pz_prediction {
  double step_s;
  struct pz_training_parts parts;
  double tensor_hidden_s, expert_hidden_s, gradient_hidden_s; /* what runs beside compute */
  double bound_s; /* lower bound of the pipeline alone */
  double samples_per_s, tokens_per_s_per_device;
  double mfu,
      hfu; /* over the data-sheet peak of the precision: 6 FLOP a parameter and token, without
                      the embedding's look-up, and attention to the keys that a token attends to
                      (half of a causal sequence, a window, a chunk); hfu: and what is recomputed */
  struct pz_training_memory peak; /* of the stage that holds most */
  double peak_bytes;
  uint32_t peak_stage;
  int64_t microbatches;  /* of a replica */
  double tokens, params; /* tokens of a step, parameters of the model */
  double active_params;  /* of these: those that a token meets, of routed experts the chosen ones */
  double mfu_conventional; /* mfu with attention in full in every layer, as papers print it */
  double
      usable_bytes; /* of a device's HBM that the allocator can reserve: it fits if needed_bytes is within */
  double host_bytes; /* of the host's memory for each device, of the stage with most; 0: none */
  double
      offload_s; /* of parts.transfer_s: activations on their way to the host and back that show */
  double scan_layers;   /* layers with a state-space scan in the place of attention */
  double sparse_layers; /* with attention to the keys that an indexer chooses */
  double
      usable_host_bytes; /* of the host's memory for each device: it fits if host_bytes is within */
  /* of the stage whose allocator reserves most: as predicted, and the least and the most with the error of such plans */
  double reserved_bytes, reserved_low_bytes, needed_bytes;
  double flop_per_s_per_device; /* of the model, counted as mfu_conventional counts them */
};

/* What people call a part of this step: its label, or "attention and scans" of a model with state-space layers. */
PZ_API const char *pz_time_part_label(const struct pz_prediction *p,
                                      const struct pz_part_info *part);

/* The value of a part, and what of it is hidden. */
static inline double pz_time_part(const struct pz_training_parts *x, const struct pz_part_info *p) {
  return *(const double *)(const void *)((const char *)x + p->offset);
}
static inline double pz_memory_part(const struct pz_training_memory *x,
                                    const struct pz_part_info *p) {
  return *(const double *)(const void *)((const char *)x + p->offset);
}
static inline double pz_hidden_part(const struct pz_prediction *x, const struct pz_part_info *p) {
  return p->hidden ? *(const double *)(const void *)((const char *)x + p->hidden) : 0;
}

/* Does the plan fit in memory, the device's and the host's? */
static inline bool pz_prediction_fits(const struct pz_prediction *p) {
  return p->needed_bytes <= p->usable_bytes && p->host_bytes <= p->usable_host_bytes;
}

/* One forward or backward of one chunk of a stage, for one microbatch. */
struct pz_pipeline_event {
  uint32_t stage, chunk, microbatch;
  bool backward;
  double start_s, end_s;
};

/* A prediction with its detail. */
struct pz_training_run {
  struct pz_plan plan; /* with all that was unset filled in */
  struct pz_prediction p;
  double hbm_bytes;                  /* of a device */
  struct pz_training_memory *stages; /* plan.pp of them */
  struct pz_pipeline_event *events;  /* of one replica; NULL: not asked for */
  uint32_t n_events;
  struct pz_expectation {
    double
        error; /* 8 of 10 runs like this measure a step within so large a part of the predicted one */
    uint32_t runs; /* validated ones that have a feature of the plan, of its rarest; 0: not known */
    char of[400];  /* where the error comes from, for people: "all runs 9%, experts 6%"; the parts
                      add in squares */
    char beyond[1000]; /* what the plan has and no validated run, "; " between them: "ZeRO-3 with
                          experts"; "": nothing */
  } expected;
  int64_t layers;    /* repeated ones of the model, which stages divide */
  char refusal[480]; /* why the plan's framework cannot run it; "": it can */
  bool
      launch_bound; /* launches take longer than the kernels they start: such steps differ by up to 1.9
                        times between runs of the same code */
  const char *layers_text;    /* "10 a stage", or "stage 1: 9; stages 2-7: 10; stage 8: 9" */
  const char *recompute_text; /* "none", "full", "stages 1-3: 4 of 10 layers; stage 4: none" */
  double *
      stage_s; /* plan.pp of them: what a device of each stage does in a step, without the bubble */
  double
      *reserved_bytes; /* plan.pp of them: what the allocator of each stage's devices reserves.  A
                             device runs out of memory when these bytes reach what it has. */
  double
      watts; /* of a device, mean over the step, by the energy of its operators and at most the data sheet's; 0: not
                   known */
};

/* What a plan takes, as training frameworks run it: operators one after another on a device, the
 * pipeline simulated event by event.  `model` as for pz_workload_load; `net` NULL: the chip's own
 * link.  PZ_BAD_USE for a plan that cannot be: degrees that do not divide the devices, the heads or
 * the batch, more stages than layers; one that does not fit in memory is told like any other:
 * pz_prediction_fits.  `events`: keep every event of the pipeline.  On success *out is the
 * caller's to free.  Cost: milliseconds. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_predict(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                    const struct pz_plan *plan, bool events, struct pz_training_run **out,
                    struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_training_run_free(struct pz_training_run *r);

/* Predictions of many plans, each with its run, or with an error message if it cannot be
 * predicted. */
struct pz_training_sweep {
  struct pz_training_run **runs; /* by plan; NULL: see errors */
  char **errors;                 /* by plan; NULL: it is predicted */
  uint32_t n;
};

/* Predicts many plans for one model, as pz_training_predict() does, but several times as fast: plans
 * that differ only in stages, replicas, batch, ZeRO and recomputation share the times of the
 * layers.  threads 0: one per processor.  On success *out is the caller's to free with
 * pz_training_sweep_free(), also if no plan could be predicted. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_sweep(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                  const struct pz_plan *plans, uint32_t n_plans, unsigned threads,
                  struct pz_training_sweep **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_training_sweep_free(struct pz_training_sweep *sweep);

/* Schedules of the passes of a plan: every layer, forward and backward, on a chip whose cores are
 * scheduled. */
struct pz_plan_schedules {
  struct pz_plan plan;            /* with all that was unset filled in */
  int64_t microbatches;           /* of a replica: so often a step runs each of the passes */
  struct pz_layer_schedule *list; /* in the order of the model, forward before backward */
  uint32_t n;
};

/* The passes that a predicted step of the plan is made of, one microbatch each: operators of the layer
 * on cores, collectives on the link, within the chip's watts.  Halves of a microbatch end with "(1)"
 * and "(2)", what is recomputed begins with "again"; the backward pass of layers that the plan
 * recomputes is listed apart, with "-recomputed" behind the name.  `count`: of all stages.
 * `serial_s`: the pass with operators one after another, as execution serial has it; the step has the
 * shorter of both.  Arguments as for pz_training_predict; of the options `modes` is PZ_MODES_ALL, and
 * `lp` is a file for each pass, with "-LAYER-PASS" before its end.  NULL: PZ_PASS_STEPS, with which
 * makespans are those of the predicted step.  PZ_BAD_USE for chips and plans that run operators one
 * after another.  On success *out is the caller's to free.  Cost: some microseconds for each step of
 * the solver. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_schedule(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                     const struct pz_plan *plan, const struct pz_schedule_options *options,
                     struct pz_plan_schedules **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_plan_schedules_free(struct pz_plan_schedules *s);

/* The plan in a line: "tp 8 sp, pp 8 x 2, dp 16, mbs 1, zero 1, recompute none", and where they are not the
 * default an uneven division, GEMMs in fp8 or nvfp4, adapters, what is on the host.  PZ_PLAN_TEXT_MOST bytes hold it.  Returns buf. */
PZ_API const char *pz_plan_text(const struct pz_plan *p, char *buf, size_t size);
enum { PZ_PLAN_TEXT_MOST = 500 };

/* The same with the framework and what else there is to say: "megatron: tp 8 with sp, pp 4 x 2 chunks,
 * dp 16, zero 1, flash attention ..."; `recompute`: with its recomputation.  PZ_PLAN_LINE_MOST bytes
 * hold it.  Returns buf. */
PZ_API const char *pz_plan_line(const struct pz_plan *p, bool recompute, char *buf, size_t size);
enum { PZ_PLAN_LINE_MOST = 640 };

/* The simulated pipeline as a trace-event file for Perfetto: one thread per stage with its forwards and
 * backwards, then the exchange of gradients that is not hidden, and the optimizer.  JSON text, of a run
 * with events, the caller's to give back with pz_text_free.  PZ_LIMIT beyond PZ_TRACE_MOST_EVENTS,
 * where viewers slow down, or for a step that is not below 1e6 s. */
enum { PZ_TRACE_MOST_EVENTS = 1 << 19 };
PZ_NODISCARD PZ_API enum pz_status pz_training_run_trace(const struct pz_training_run *r,
                                                         const char *model, char **text,
                                                         struct pz_error *err);

/* A field of a plan: its value, and where that comes from. */
struct pz_field_origin {
  const char *name, *value;
  const char *from; /* "given", "default of megatron", "--seq-length, line 12" */
  bool shown;       /* it says something for this plan */
};

/* A constant of the model that counts for a plan. */
struct pz_constant_effect {
  const char *name, *unit, *kind, *source;
  double value;
  double step_change,
      memory_change; /* parts of the step and of the peak, if it is a tenth larger */
  const char *part;  /* that changes most: of the step, or "memory" */
};

struct pz_explanation {
  struct pz_field_origin *fields; /* that say something for this plan */
  uint32_t n_fields;
  struct pz_constant_effect *constants; /* that change anything */
  uint32_t n_constants;
  double raised_by; /* the part by which each constant was raised, alone: 0.1 */
};

/* Where every field of a plan comes from, and which constants of the model count for it; arguments as
 * for pz_training_predict.  On success *out is the caller's to free.  Cost: a prediction for each
 * constant. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_explain(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                    const struct pz_plan *plan, struct pz_explanation **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_explanation_free(struct pz_explanation *e);

/* Another plan for a run, and what to change for it. */
struct pz_plan_change {
  struct pz_plan plan;      /* filled */
  enum pz_plan_field field; /* that was changed; PZ_PLAN_FIELDS: several */
  struct pz_prediction p;
  double gain;          /* part of the run's step that it saves; below 0: it is slower */
  const char *options;  /* to change, as of the command: "--tp 4 --dp 16" */
  const char *megatron; /* as Megatron's arguments; NULL: the run is not Megatron's */
};

struct pz_plan_changes {
  struct pz_plan_change *list; /* the fastest first */
  uint32_t n;
};

/* Changes after which the plan of a run fits in memory: single ones, and where none of them does, two
 * together; n 0: none does.  Of layers to recompute or to offload the fewest are told.  Arguments as of pz_training_predict, which made the run.  On success *out
 * is the caller's to free.  Cost: some tens of predictions, or their square. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_changes(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                    const struct pz_training_run *r, struct pz_plan_changes **out,
                    struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_plan_changes_free(struct pz_plan_changes *c);

/* Layers of a stage (from 0), and those of them that are computed again. */
struct pz_stage_layers {
  int64_t layers, again;
};
PZ_API struct pz_stage_layers pz_training_run_stage(const struct pz_training_run *r, int64_t stage);

/* What the best plan has least of: seconds of a step, bytes of the fullest device, device-seconds of
 * a step. */
enum pz_plan_objective { PZ_PLAN_TIME, PZ_PLAN_MEMORY, PZ_PLAN_COST, PZ_PLAN_OBJECTIVES };
PZ_API extern const char *const pz_plan_objective_names[];
PZ_API extern const char
    *const pz_plan_risk_names[];                     /* by enum pz_plan_risk; NULL after the last */
PZ_API extern const char *const pz_software_names[]; /* by bit of enum pz_software */

/* What a search for plans may take by default: the best one so far is the answer then, with its gap. */
enum { PZ_PLAN_SECONDS = 300 };

/* A training run whose best plan is wanted.  Take pz_training_place_options_default() and change
 * fields. */
struct pz_training_place_options {
  size_t size; /* sizeof *this, set by the default */
  /* The question (framework, devices, batch, seq), values of pinned fields, and what is the same in
   * every plan (attention, execution ...).  A plan takes whole nodes of the devices, or a part of
   * one; where recomputation is pinned to full, the fewest layers with which it fits. */
  struct pz_plan plan;
  uint64_t pinned; /* a set of PZ_PLAN_PIN(TP) ...: searched fields that are as in `plan` */

  int objective;    /* enum pz_plan_objective */
  double tie;       /* of time: plans within this part of the fastest are equal: of these the
                       simplest is chosen; 0: the best itself */
  uint32_t top;     /* plans to return, of as many kinds, at most 1000 */
  unsigned threads; /* 0: one per processor */
  bool uniform;     /* the same recomputation in every stage */
  bool all_devices; /* none stays idle */
  bool events;      /* keep every event of the best plan's pipeline */
  pz_progress_fn *progress; /* NULL: none */
  void *ctx;                /* of it */
  double tokens;            /* of the run that a deadline is for */
  double
      deadline_s; /* only plans with which the run ends by then, without failures; where none does, the fastest, which are
                        `late`; 0: none */
  double
      seconds; /* the search ends after these with the best plans so far; 0: when all is decided */
  int risk;    /* enum pz_plan_risk: what a step counts as */
  int without; /* a set of enum pz_software: not to be switched on */
};

/* A step counts as 1 + the error to expect of the plan (pz_expectation) times as long, so that a plan
 * that nobody has run must be faster by what it risks; or as it is predicted. */
enum pz_plan_risk { PZ_RISK_COUNTED, PZ_RISK_NONE };

/* Software that a plan may need besides its framework. */
enum pz_software {
  PZ_SOFTWARE_TE =
      1, /* Transformer Engine: overlap of tensor-parallel communication, CUDA graphs */
  PZ_SOFTWARE_DEEPEP = 2,
  PZ_SOFTWARE_HYBRIDEP = 4,
  PZ_SOFTWARE_GRAPHS = 8 /* CUDA graphs */
};

PZ_API struct pz_training_place_options pz_training_place_options_default(void);

/* The proof that a plan is the best of its space. */
struct pz_plan_certificate {
  uint64_t plans;               /* of the space */
  uint64_t solved;              /* simulated */
  uint64_t by_bound, by_memory; /* excluded */
  double gap; /* of the best to the least bound of what is left: 0 when all is decided */
};

struct pz_training_plans {
  struct pz_training_run **
      runs; /* the chosen one, then the best of other kinds in order: with and without tensor, context,
                                    pipeline and expert parallelism, ZeRO-3, and offload */
  uint32_t n;                      /* 0: nothing fits */
  struct pz_training_run *fastest; /* the best by prediction, where a simpler one within the tie was
                                      chosen; else NULL */
  int64_t experts;                 /* of the model */
  const char *warning;             /* of the model: "", or what its user should know */
  struct pz_training_run *least; /* where nothing fits: the plan that needs least memory; or NULL */
  struct pz_plan_certificate certificate;
  struct pz_training_run
      *all_devices; /* the best that leaves none idle, where the chosen one does; or NULL */
  struct pz_switched {
    const char *option; /* "overlap tp (--tp-comm-overlap)" */
    double gain;        /* the step without it over the step, minus 1 */
  } * switched;         /* what the chosen plan has and its framework has not by default */
  uint32_t n_switched;
  bool late; /* no plan ends by the deadline: these are the fastest that fit */
  bool
      stopped; /* cancelled, or the time was over: the best so far, certificate.gap from the best */
};

/* The best plans by the model of pz_training_predict, over tensor and sequence parallelism, stages
 * and chunks, replicas, microbatch, ZeRO and recomputation by stage, within the memory of the chip.
 * PZ_BAD_USE where the question has no plan at all; PZ_STOPPED when cancelled and PZ_NO_ANSWER when the
 * time was over before a plan was found that fits, later the plans are `stopped`.  On success *out is
 * the caller's to free.  Cost: a second or less; with hundreds of layers, minutes. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_place(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                  const struct pz_training_place_options *options, struct pz_training_plans **out,
                  struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_training_plans_free(struct pz_training_plans *p);

/* For the answer `p` to a question that has no plan within memory (p->n 0): PZ_NO_ANSWER, with a
 * message that says what lacks memory and with which single changes a plan fits (fields that are
 * pinned and would be searched, more devices, more HBM, shorter samples).  PZ_BAD_USE where the degrees that are pinned have no plan at all.  `weak`: the batch grows
 * with the devices.  Cost: some searches. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_nothing_fits(const char *model, const struct pz_chip *chip,
                         const struct pz_cluster *net,
                         const struct pz_training_place_options *options, bool weak,
                         const struct pz_training_plans *p, struct pz_error *err);

/* What a whole run is asked for. */
struct pz_run_cost_options {
  size_t size;         /* sizeof *this, set by the default */
  double tokens;       /* to be trained on */
  double price;        /* dollars of a device for an hour; 0: not asked for */
  double mtbf_s;       /* mean time between failures of one device; 0: there are none */
  double checkpoint_s; /* to write a checkpoint; negative: the state's bytes over a stated rate */
  double restart_s;    /* from a failure until training goes on; negative: a stated time */
};

PZ_API struct pz_run_cost_options pz_run_cost_options_default(void);

/* What it takes.  Failures of devices are independent and exponential: a job on n devices fails
 * every mtbf_s / n.  The interval between checkpoints is the one that costs least. */
struct pz_run_cost {
  double steps;
  double seconds; /* without failures and checkpoints */
  double device_hours, dollars;
  double energy_j; /* of the devices, at the run's watts, else at the data sheet's; 0: not known */

  /* with failures; 0 where there are none */
  double job_mtbf_s, checkpoint_s, restart_s;
  double interval_s; /* of training between two checkpoints */
  double goodput;    /* seconds over all_seconds */
  double all_seconds, all_device_hours, all_dollars, all_energy_j;
};

/* PZ_BAD_USE for numbers out of range.  PZ_NO_ANSWER: failures come so fast that the run does not
 * end within the age of the universe.  Cheap. */
PZ_NODISCARD PZ_API enum pz_status pz_run_cost(const struct pz_training_run *r,
                                               const struct pz_chip *chip,
                                               const struct pz_run_cost_options *options,
                                               struct pz_run_cost *out, struct pz_error *err);

/* ---- scaling -------------------------------------------------------------------------------- */

/* The best plan for a number of devices. */
struct pz_scaling_row {
  int64_t devices, batch;
  const struct pz_training_run
      *run; /* NULL: nothing fits, or plans->stopped: none was found in time */
  double tokens_per_s_per_device;  /* of the devices at hand, idle ones too; 0: nothing fits */
  double efficiency;               /* that over the rate of the first row that has a plan */
  struct pz_training_plans *plans; /* all that was found */
};

struct pz_scaling {
  bool weak; /* the batch grows with the devices */
  struct pz_scaling_row *rows;
  uint32_t n_rows;
};

/* How the best plan scales: pz_training_place for each number of devices, at the batch of the options
 * or, batch_per_device above 0, with so many samples a device.  PZ_NO_ANSWER where nothing fits on any.
 * On success *out is the caller's to free. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_scale(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                  const struct pz_training_place_options *options, const struct pz_choices *devices,
                  int64_t batch_per_device, struct pz_scaling **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_scaling_free(struct pz_scaling *s);

/* What a page shows of plans; take zeros and fill in. */
struct pz_plan_page {
  size_t size; /* sizeof *this */
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;      /* NULL: the chip's own link */
  const struct pz_scaling_row *rows; /* by devices, ascending; at least one has a run */
  uint32_t n_rows;
  bool weak;
  const char *explore; /* page of `phaze explore` that lies beside it; NULL: none */
};

/* Plans as one self-contained HTML page: parts of the step, pipeline and memory over time, and how they
 * scale.  Each run is predicted again with its events.  *text is the caller's to give back with
 * pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_page(const struct pz_plan_page *page, char **text,
                                                size_t *bytes, struct pz_error *err);

/* ---- runs that people have ------------------------------------------------------------------ */

/* Fields of a run beside those of its plan. */
enum { PZ_RUN_MODEL = PZ_PLAN_FIELDS, PZ_RUN_CHIP, PZ_RUN_CLUSTER, PZ_RUN_FIELDS };

/* A training run: its model, machine and plan, and where each field comes from.  Read by
 * pz_run_plan_read; or take pz_run_plan_default() and set model and plan. */
struct pz_run_plan {
  size_t size;                /* sizeof *this, set by the default */
  const char *model;          /* its name or path, or the name of `config` */
  const char *config;         /* text of a config.json; NULL: load by name */
  const char *chip, *cluster; /* NULL: not stated */
  struct pz_plan plan;
  const char *from[PZ_RUN_FIELDS]; /* "given", an argument and its line; NULL: a default */

  /* of Megatron's arguments */
  bool megatron;         /* they were read; else a plan file, or fields */
  int64_t layers, vocab; /* of the model */
  bool chunks_by_rank;   /* --num-virtual-stages-per-pipeline-rank, not layers per virtual stage */
  bool ends_as_layers;   /* --account-for-embedding-in-pipeline-split or ...-loss-... */
  bool p2p_off;          /* --no-overlap-p2p-communication */
  const char **ignored;  /* arguments that are not known to matter */
  uint32_t n_ignored;
  const char **notes; /* for people: arguments and variables that have two values ... */
  uint32_t n_notes;
  double measured_s; /* of a step, by a log of the run; 0: not told */
};

PZ_API struct pz_run_plan pz_run_plan_default(void);

/* Changes its plan by all fields that `given` does not leave unset; what followed from their old values, as dp from tp, is
 * unset, to follow anew.  Lists of `given` must outlive the run. */
PZ_API void pz_run_plan_change(struct pz_run_plan *r, const struct pz_plan *given);

/* The run with changes by words: "tp 8, pp 2, recompute full", options of predict ("--tp 8 --chip h200"), or the text of
 * another plan as place and predict print it.  Devices and batch stay unless they are named, and the overlap is as the
 * framework has it for the new degrees.  PZ_BAD_USE: a word that is no field or value.  On success *out is the caller's
 * to free with pz_run_plan_free(); the texts of `r` must outlive it. */
PZ_NODISCARD PZ_API enum pz_status pz_run_plan_with(const struct pz_run_plan *r,
                                                    const char *changes, struct pz_run_plan **out,
                                                    struct pz_error *err);

/* What a file may leave open. */
struct pz_run_plan_options {
  size_t size;     /* sizeof *this, set by the default */
  int64_t devices; /* 0: as the file says */
  int64_t vocab;   /* of Megatron's arguments, as what follows; 0: as they say */
  const char *const
      *set; /* NAME=VALUE of variables of the script, NULL behind the last; NULL: none */
  const char *const *ignore; /* arguments to leave out though they are not covered; the same */
  const char *log;           /* text of a log of the run, for measured_s; NULL: none */
  const char *log_name;      /* stands for it in messages; NULL: "the log" */
};

PZ_API struct pz_run_plan_options pz_run_plan_options_default(void);

enum { PZ_PLAN_FILE_MOST_BYTES = 4 << 20 };

/* Read a run from a text: a plan file (JSON with the names that `phaze predict --json` prints, or all of
 * that output), Megatron-LM's arguments, as a launch script or a plain list, torchtitan's configuration
 * (TOML), or a script that pz_launch_text writes.  `name` stands for it in messages.  PZ_BAD_INPUT says what is missing, unknown, not covered or wrong.  On success *out is the
 * caller's to free. */
PZ_NODISCARD PZ_API enum pz_status pz_run_plan_read(const char *name, const char *text,
                                                    size_t bytes,
                                                    const struct pz_run_plan_options *options,
                                                    struct pz_run_plan **out, struct pz_error *err);
/* Of one that was read.  Accepts NULL. */
PZ_API void pz_run_plan_free(struct pz_run_plan *r);

/* A run as a plan file, which pz_run_plan_read reads; *text is the caller's to give back with
 * pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_run_plan_text(const struct pz_run_plan *r, char **text,
                                                    struct pz_error *err);

struct pz_tune_options {
  size_t size;              /* sizeof *this, set by the default */
  unsigned threads;         /* 0: one per processor */
  pz_progress_fn *progress; /* NULL: none */
  void *ctx;                /* of it */
  double measured_s; /* of a step of the run: all times are corrected by it; 0: not measured */
  double
      seconds; /* the searches end after these with the best plans so far; 0: when all is decided */
};

PZ_API struct pz_tune_options pz_tune_options_default(void);

/* A run beside the best plan for the same model, devices and batch, and the single changes that bring
 * most; all that its framework can run. */
struct pz_plan_tuning {
  struct pz_training_run own;     /* the run as it is */
  struct pz_field_origin *fields; /* model, chip and cluster, then its plan */
  uint32_t n_fields;
  double limit_bytes; /* what a plan may hold: usable bytes, or what the run itself does, which runs
                         after all */
  bool fits;          /* the run itself does */
  bool has_best;      /* a plan was found that fits */
  const char *why;    /* ... or why there is no plan to search; NULL: there is */
  double least_bytes; /* where none fits: of the plan that needs least */
  struct pz_plan_change best;
  struct pz_plan_certificate certificate;
  bool has_overlapped; /* the run leaves overlaps off: the best plan with them on */
  struct pz_plan_change overlapped;
  struct pz_plan_change *changes; /* single ones that fit; faster than the run if that fits */
  uint32_t n_changes;
  uint32_t n_tried;
  double uncorrected_s; /* step of the run by prediction alone, where it was measured; else 0 */
  bool
      stopped; /* cancelled, or the time was over: the best so far, certificate.gap from the best */
};

/* Tune a run on a chip in a network (NULL: the chip's own link); framework, attention, execution and
 * gradient types stay as the run has them.  PZ_BAD_USE for a plan that cannot be, PZ_STOPPED when
 * cancelled before a plan was found.  On success *out is the caller's to free.  Cost: that of two searches for plans. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_tune(const struct pz_run_plan *r,
                                                const struct pz_chip *chip,
                                                const struct pz_cluster *net,
                                                const struct pz_tune_options *options,
                                                struct pz_plan_tuning **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_plan_tuning_free(struct pz_plan_tuning *t);

/* One of two runs that are compared: on a chip, in a network (NULL: the chip's own link). */
struct pz_diff_side {
  size_t size; /* sizeof *this */
  const struct pz_run_plan *run;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
};

/* A field in which two runs differ: model, chip, cluster, or one of the plan. */
struct pz_field_difference {
  const char *name, *a, *b;
};

/* A change on the way from one run to the other. */
struct pz_diff_change {
  const char *change;        /* "tp 8 -> 4"; "pp 4 -> 2, vpp 2 -> 1" where neither runs alone */
  uint32_t fields;           /* that change together; model, chip and cluster count as one */
  struct pz_plan plan;       /* after it, filled */
  struct pz_prediction p;    /* of that */
  double step_s, peak_bytes; /* what it adds; below 0: saves */
};

/* Two runs.  Terms of the step (pz_time_part_at) and of memory on the fullest device (pz_memory_part_at)
 * are those of a.p and b.p: their differences sum up to that of the steps and of the peaks, and so do
 * those of the path. */
struct pz_plan_diff {
  struct pz_training_run a, b;
  struct pz_field_difference *fields;
  uint32_t n_fields;
  struct pz_diff_change *path; /* from a, the last one is b; n_path 0: they are the same */
  uint32_t n_path;
  const char *changes; /* of the path, in b's values: "tp 8, pp 2"; "": they are the same */
  const char *
      verdict; /* of b beside a: "is 6.3% slower: +0.9 s tensor-parallel collectives, -0.1 s GEMMs";
                          "does not fit: ..."; "is refused: ..." and the rule of its framework */
};

/* What two runs differ by.  The path has the fields in the order of a plan's, and changes those together
 * that do not run alone; what a field brings depends on those before it.  PZ_BAD_USE for a plan that
 * cannot be.  On success *out is the caller's to free.  Cost: some tens of predictions. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_diff(const struct pz_diff_side *a,
                                                const struct pz_diff_side *b,
                                                struct pz_plan_diff **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_plan_diff_free(struct pz_plan_diff *d);

/* ---- launch scripts ------------------------------------------------------------------------- */

/* Names of the frameworks for which scripts are written, NULL after the last; the first, "none", is no
 * framework. */
PZ_API extern const char *const pz_launch_names[];

/* Are there scripts at all: for this model, on this chip (GPUs), in this framework of
 * pz_framework_names?  PZ_NO_ANSWER or PZ_BAD_USE says why not. */
PZ_NODISCARD PZ_API enum pz_status pz_launch_check(const char *model, const struct pz_chip *chip,
                                                   int framework, struct pz_error *err);

/* A plan with every field filled in, as of struct pz_training_run, as a complete launch script of its
 * framework; *text is the caller's to give back with pz_text_free.  `net` NULL: nodes of at most 8
 * devices.  Errors as of pz_launch_check, and PZ_BAD_USE for what the framework cannot run: the message
 * says what, and what is accepted. */
PZ_NODISCARD PZ_API enum pz_status pz_launch_text(const char *model, const struct pz_chip *chip,
                                                  const struct pz_cluster *net,
                                                  const struct pz_plan *plan, char **text,
                                                  struct pz_error *err);

/* ---- rehearsals ------------------------------------------------------------------------------ */

/* A rehearsal runs single ranks of a plan, each alone on one GPU: their memory and their compute are measured, and only the
 * network and the pipeline's bubble remain to be predicted.  The script of the rehearsal, in bash, which runs the first and
 * the last stage and the one that holds most, and prints CSV; *text is the caller's to give back with pz_text_free.
 * `launch`: the launch script that the run was read from, which the rehearsal runs as it is if it starts torchrun; NULL, or
 * a text that does not: the script of pz_launch_text.  `set`: NAME=VALUE of variables of that script, NULL after the last;
 * NULL: none.  PZ_BAD_USE for other frameworks than torchtitan and megatron. */
PZ_NODISCARD PZ_API enum pz_status pz_rehearsal_script(const struct pz_diff_side *side,
                                                       const char *launch, const char *const *set,
                                                       char **text, struct pz_error *err);

/* What a rehearsal measures of a rank: seconds in which it computes a step; bytes between two steps, of all tensors at the
 * peak, and reserved by the allocator. */
enum pz_rehearsal_measure {
  PZ_REHEARSAL_COMPUTE,
  PZ_REHEARSAL_STATIC,
  PZ_REHEARSAL_PEAK,
  PZ_REHEARSAL_RESERVED,
  PZ_REHEARSAL_MEASURES
};
enum pz_rank_status { PZ_RANK_OK, PZ_RANK_OOM, PZ_RANK_FAILED };
PZ_API extern const char *const pz_rehearsal_measure_names[]; /* "compute_s", "static_bytes" ... */
PZ_API extern const char *const pz_rank_status_names[];       /* "ok", "oom", "failed" */

enum { PZ_REHEARSAL_MOST_BYTES = 1 << 20 }; /* of results */

struct pz_rehearsed_rank {
  int64_t rank, stage; /* from 0 */
  int64_t microbatches;
  enum pz_rank_status status;
  double predicted[PZ_REHEARSAL_MEASURES]; /* of what ran, if something was left out */
  double measured[PZ_REHEARSAL_MEASURES];  /* 0: not known */
  double corrected_s;                      /* compute by the corrected chip; 0: not measured */
  double needed_bytes; /* of the plan as it is, by the measured reserved bytes; 0: not known */
  double usable_bytes; /* that the allocator can reserve on the device */
  const char *left_out, *message;
};

struct pz_rehearsal {
  char plan[17];                                    /* digest of the plan */
  const char *framework, *version, *torch, *device; /* as the first rank that ran says */
  struct pz_rehearsed_rank *ranks;
  uint32_t n_ranks;
  bool fits;          /* no rank ran out of memory or would need more than is usable */
  bool complete;      /* every stage that decides has a rank that ran, or ran out of memory */
  double spare_bytes; /* of the fullest rank; below 0: lacking; without meaning after PZ_RANK_OOM */
  struct pz_prediction p,
      corrected;              /* of the plan in its network, before and after the correction */
  const struct pz_chip *chip; /* corrected; NULL: no rank's time was measured */
  const struct pz_step_factor *factors;
  uint32_t n_factors;
  const char *const *notes; /* sentences: what was left out, what that does to the figures ... */
  uint32_t n_notes;
};

/* Compare the results of a rehearsal, which its script printed, with the prediction of the plan, and correct the chip's
 * factors of compute by them; that of collectives stays.  `name` stands for the results in messages.  PZ_BAD_INPUT where
 * they are not complete or of another plan, PZ_NO_ANSWER where no rank ran.  On success *out is the caller's to free. */
PZ_NODISCARD PZ_API enum pz_status pz_rehearsal_read(const struct pz_diff_side *side,
                                                     const char *name, const char *text,
                                                     size_t bytes, struct pz_rehearsal **out,
                                                     struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_rehearsal_free(struct pz_rehearsal *r);

/* ---- a page that computes ------------------------------------------------------------------- */

/* What the page of `phaze explore` begins with. */
struct pz_explore_options {
  size_t size;                /* sizeof *this, set by the default */
  const char *const *models;  /* names or paths of config.json files, NULL behind the last */
  const char *chip, *cluster; /* the same; cluster NULL: none */
  struct pz_plan plan; /* fields that are set are pinned; devices, batch: 64, 512 unless set */
  const char *wasm;    /* path of explore.wasm of this version */
};

PZ_API struct pz_explore_options pz_explore_options_default(void);

/* One HTML page that finds plans by itself while chip and run are changed; it opens offline.  *text is
 * the caller's to give back with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_explore_page(const struct pz_explore_options *options,
                                                   char **text, size_t *bytes,
                                                   struct pz_error *err);

/* ---- design spaces -------------------------------------------------------------------------- */

/* Chips on a grid of ordered axes, for each technology, array shape and generation of HBM. */
struct pz_space;

/* A preset's name or the path of a space.json; or the text of one, for which `name` stands in messages.  On success *out is
 * the caller's to free. */
PZ_NODISCARD PZ_API enum pz_status pz_space_open(const char *space, struct pz_space **out,
                                                 struct pz_error *err);
PZ_NODISCARD PZ_API enum pz_status pz_space_open_text(const char *name, const char *text,
                                                      size_t bytes, struct pz_space **out,
                                                      struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_space_close(struct pz_space *s);

/* The fields of a file that users write, "chip", "cluster" or "space" (.json), as the text of a JSON object with the list
 * "fields" of objects: field (with dots), unit, accepted, required, default (a value) or absent (in words), meaning.  *text is the caller's to give
 * back with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_file_fields(const char *file, char **text,
                                                  struct pz_error *err);
PZ_API extern const char *const pz_file_names[]; /* NULL after the last */

/* What it is, as the text of a JSON object: its file's keys with all values written out, "chips" in all and, where they can be
 * listed, "within": those within the limits that a budget sets (as of struct pz_study_options; NULL: the base chip's area),
 * with "limit_mm2".  *text is the caller's to give back with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_space_describe(const struct pz_space *s, const char *budget,
                                                     char **text, struct pz_error *err);

/* Names of the presets, NULL after the last. */
PZ_API const char *pz_space_preset_name(size_t i);

/* ---- search --------------------------------------------------------------------------------- */

enum { PZ_SEARCH_MOST_MODELS = 64 };

enum pz_objective_kind {
  PZ_OBJECTIVE_GEOMEAN,    /* geometric mean of throughputs over the reference's */
  PZ_OBJECTIVE_MEAN,       /* arithmetic mean of throughputs, the original's */
  PZ_OBJECTIVE_WEIGHTED,   /* geometric mean with weights */
  PZ_OBJECTIVE_REGRET,     /* the least part that a model keeps of its own best chip's throughput */
  PZ_OBJECTIVE_PER_WATT,   /* geometric mean per peak watt, over the reference chip's */
  PZ_OBJECTIVE_PER_MM2,    /* geometric mean per area, over the reference chip's */
  PZ_OBJECTIVE_PER_DOLLAR, /* per dollar of its bill, likewise */
  PZ_OBJECTIVE_PER_OWNERSHIP, /* per dollar of chip, server, network and energy of its life */
  PZ_OBJECTIVE_PER_JOULE,     /* geometric mean of samples per joule */
  PZ_OBJECTIVES
};

PZ_API extern const char *const pz_objective_names[]; /* ends with NULL */

/* What the number means: "times the reference", "samples/s". */
PZ_API const char *pz_objective_unit(enum pz_objective_kind kind);

/* How a chip is judged. */
enum pz_evaluator_kind {
  PZ_EVALUATOR_DEFAULT, /* original in the space `paper`, else training */
  PZ_EVALUATOR_TRAINING, /* the best training plan of every model, as pz_training_place finds it for chips that run compiled
                            programs, in a network of scale-up groups */
  PZ_EVALUATOR_ORIGINAL, /* layers scheduled on the chip's cores and divided into the stages of a pipeline, as the original
                            system does */
  PZ_EVALUATORS
};

PZ_API extern const char *const pz_evaluator_names[]; /* ends with NULL */

/* What is searched, and for which models.  Take pz_study_options_default() and change fields; texts
 * are the caller's and must live as long as the run. */
struct pz_study_options {
  size_t size; /* sizeof *this, set by the default */
  const char *
      models[PZ_SEARCH_MOST_MODELS]; /* of the evaluator training also MODEL@SEQ, MODEL@SEQxBATCH */
  uint32_t n_models;
  const char *space, *space_text; /* a name or a file; not NULL: its contents instead */
  const char *node;               /* one technology of the space; NULL: all */
  const char
      *budget; /* a chip, or an area in mm2; NULL: the limits below, else the base chip's area */
  double limit_mm2, limit_watts, limit_dollars; /* of a chip; 0: none */
  enum pz_evaluator_kind evaluator;
  int64_t devices, batch;
  enum pz_objective_kind objective;
  double weight[PZ_SEARCH_MOST_MODELS];
  bool each_model; /* also the best chip of each model alone; the evaluator original always does */
  double gap;     /* proved: no chip is better by more; negative: 1%, of the evaluator original 0 */
  int64_t rounds; /* effort limit of an objective run, in rounds of 64 boxes; 0: none */
  double seconds; /* an objective run ends after these, with what it has; 0: none */
  bool exhaustive, pareto; /* every chip within the limits; pareto: the front is asked for too */
  double pareto_tolerance; /* each chip of the front is within this part of one that is told */
  struct pz_workload_options workload; /* seq 0: each model's; mbs and tp are chosen */

  /* of the evaluator training */
  int64_t scale_up;         /* devices joined by the chip's own links */
  double outer_bytes_per_s; /* of a device, to those outside of its scale-up group */

  /* of the evaluator original */
  const char *cluster, *cluster_text; /* a name or a file; not NULL: its contents instead */
  struct pz_choices mbs, hbm_gib, tp;
  double state;         /* bytes held for a byte of parameters */
  int64_t steps;        /* of a schedule that decides */
  unsigned assumptions; /* of the original system's released code, a set; 0: none */

  bool
      serial; /* evaluator training: operators of a chip one after another, not scheduled beside each other */

  /* of pz_chips_compare and pz_chips_rent alone: fields that every plan has, as texts of pz_plan_set; NULL: default */
  const char *precision, *peft;

  uint32_t n_weight; /* of `weight`, of the objective weighted: n_models; 0: not told */

  const char *fp8_recipe, *moment_bytes, *mtp, *offload; /* as precision and peft */
  const char
      *memory_margin; /* evaluator training: of every plan, a text of pz_plan_set; NULL: default */
};

/* A batch of 4096 on 1024 devices, microbatches 1 to 32, degrees 1 to 8, 32, 64 or 80 GiB, the
 * design space and the network `paper`. */
PZ_API struct pz_study_options pz_study_options_default(void);

/* ---- result --------------------------------------------------------------------------------- */

/* How a chip left the search by one objective. */
enum pz_chip_status_kind {
  PZ_CHIP_EXCLUDED_BY_TABLES,    /* its bound, or that of its box, is not above the best */
  PZ_CHIP_EXCLUDED_BY_SCHEDULES, /* nor with schedules of some models and the others' bounds */
  PZ_CHIP_EVALUATED,             /* every model has its best plan there */
  PZ_CHIP_STATUSES
};

struct pz_chip_status {
  enum pz_chip_status_kind kind;
  double value; /* of the objective, if evaluated; else the bound that excluded it */
  double bound; /* the objective is not above it; above value only for schedules left open */
};

/* ---- result: what was asked ----------------------------------------------------------------- */

struct pz_result_input_model {
  const char *name;
  int64_t seq;        /* tokens per sample */
  const char *digest; /* of the graphs that were built */
};

struct pz_result_inputs {
  struct pz_study_options
      options; /* texts are the result's; evaluator, gap and limits as they were taken */
  struct pz_result_input_model models[PZ_SEARCH_MOST_MODELS];
  const char *space_name, *space_about;
  const char *cluster_name, *cluster_about; /* of the evaluator original; else "" */
  double base_mm2;                          /* area of the space's base chip; 0: it has none */
  const char *json;                         /* all of it, as run files keep it */
};

/* ---- result: the best chips ----------------------------------------------------------------- */

/* Throughputs over the reference's in few numbers: a mean may rest on one model. */
struct pz_ratios {
  uint32_t n_models; /* that have a reference; below 2 there are no ratios */
  double geometric_mean, median;
  const char *least_model, *most_model; /* of equals the first */
  double least, most;
};

/* A model on a chip by the evaluator training. */
struct pz_training_answer {
  struct pz_plan plan;
  double step_s, mfu, mfu_conventional;
  double joules; /* of a step on all devices */
  double peak_bytes, usable_bytes;
  struct pz_training_parts parts;
  double full_watts;  /* of a device, mean over this step; 0: not known */
  double limit_watts; /* that its clock was lowered to keep within */
};

/* A model on the best chip. */
struct pz_answer_model {
  const char *model;
  double samples_per_s;
  double ratio;                              /* to the reference's throughput; NaN: there is none */
  const struct pz_partition *plan;           /* of the evaluator original; else NULL */
  const struct pz_training_answer *training; /* of the evaluator training; else NULL */
};

/* Why no chip of the space is better. */
struct pz_certificate {
  int64_t n_chips; /* of the space: these three and the evaluated are all but the open ones */
  int64_t n_infeasible,
      n_excluded; /* in boxes beyond the limits; in boxes excluded by bounds alone */
  int64_t n_excluded_by_schedules; /* after some models had been evaluated */
  int64_t n_evaluated;
  int64_t n_boxes, n_rounds;
  int64_t n_open; /* schedules not proven optimal */
  double gap;     /* another chip may be better by this part at most */
  bool finished;  /* the gap that was asked for is proved */
};

/* Of a throughput in times that of another chip, neither of them measured. */
struct pz_uncertainty {
  double spread;    /* pz_cold_spread(); 0: nothing is said */
  double low, high; /* the value over and times 1 + sqrt(2) spread: both chips have that error */
};

/* The best chip by one objective: of a model alone, or of all models. */
struct pz_answer {
  const char *name; /* the model's, or "common" */
  const struct pz_chip *chip;
  uint64_t chip_id; /* in the space's full grid */
  double hbm_gib, area_mm2, area_part,
      peak_watts; /* part: of the limit of area; 0: there is none */
  double dollars, owner_dollars, edge_mm,
      edge_room_mm; /* of its bill; 0: its technology has none */
  double objective;
  struct pz_uncertainty uncertainty; /* of the objective */
  struct pz_answer_model *models;
  uint32_t n_models;
  struct pz_ratios ratios;
  struct pz_certificate certificate;
  const struct pz_chip_status *status; /* by chip of the result; NULL: not listed */
};

/* A plan in few words. */
struct pz_reference_plan {
  int64_t tp, pp, dp, mbs;
  bool recompute;
};

/* What a model does on the reference chip. */
struct pz_result_reference {
  const char *model;
  double samples_per_s, hbm_gib;             /* 0: nothing fits */
  bool expert;                               /* by an expert's plan; else the best one */
  const struct pz_reference_plan *plan;      /* the expert's; else NULL */
  const struct pz_training_answer *training; /* of the evaluator training; else NULL */
};

struct pz_result_chip_summary {
  const char *name;
  double area_mm2, peak_watts, dollars;
  double clock_hz, tdp_watts; /* tdp: of the data sheet; 0: none */
  const char *breaks;         /* a limit of the search that it does not keep; NULL: none */
};

/* A model on a chip one step from the best, with the best plan there. */
struct pz_step_answer {
  const char *model;
  double step_s;
  struct pz_training_parts parts;
  const char *plan; /* as pz_plan_text has it */
};

/* One step from the best chip on one axis. */
struct pz_result_step {
  const char *parameter;
  const char *from, *to;
  double objective, change, change_at_most; /* changes are parts of the best chip's objective */
  double area_mm2, peak_watts, dollars;
  const char *breaks; /* the limit that it does not keep; NULL: none */
  /* of the evaluator training: the term of the step that grows most, or shrinks most where the objective rises, and by how
   * much, mean over the models in parts of their steps on the best chip; NULL: nothing fits, or another evaluator */
  const char *where;
  double where_change;
  struct pz_step_answer *models; /* as the best answer's; none where a model does not fit */
  uint32_t n_models;
};

/* One of the constants of chips that nobody measured (pz_cold_at) at an end of its range, the others as usual. */
struct pz_moved_constant {
  const char *constant;
  double value;
  double objective, change; /* of the best chip; part of its usual objective */
  const char *better; /* the best of other chips, if better by more than the tolerance; else NULL */
  double better_by;   /* part of the best chip's */
};

/* Does the best chip stay the best?  Candidates are the best evaluated chip of every kind and chips one or two steps from
 * the best on the axes, within the limits and near its value. */
struct pz_robustness {
  struct pz_moved_constant *moves; /* those that change something */
  uint32_t n_moves, n_candidates;
  double tolerance; /* of the search's gap */
  bool robust;      /* no move has a better candidate */
};

/* The objective of the best chip, had it no schedules: what these bring. */
struct pz_executions {
  double serial; /* operators of a layer one after another */
  double whole;  /* schedules, but none of two halves of a microbatch */
};

struct pz_result_front_chip {
  const char *chip;
  double objective, area_mm2, peak_watts;
  bool knee;
};

struct pz_result_front {
  struct pz_result_front_chip *points; /* by area */
  uint32_t n_points;
  double tolerance;       /* each chip of the front is within this part of one shown */
  uint32_t n_front_chips; /* of the whole front */
  uint32_t n_evaluated;
};

/* ---- result: other ways to choose ----------------------------------------------------------- */

struct pz_method_model {
  const char *model;
  double samples_per_s;
  double ratio; /* NaN: there is no reference */
  bool expert_plan;
};

/* The method that is the search itself. */
#define PZ_METHOD_SEARCH "search"

/* What one way of choosing a chip came to. */
struct pz_method_result {
  const char *name, *about;
  const char *chip; /* NULL: it has no answer */
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
  double hbm_gib, area_mm2, area_part, objective;
  struct pz_ratios ratios;
  struct pz_method_model *models;
  uint32_t n_models;
  uint32_t n_evaluated; /* chips it looked at */
  double seconds;       /* it took; 0: not measured, as when it was read from a run */
};

/* All of them for one objective; the last is the search. */
struct pz_comparison_run {
  const char *name; /* as the answer's */
  struct pz_method_result *methods;
  uint32_t n_methods;
};

struct pz_comparison {
  uint64_t seed;
  struct pz_comparison_run *runs;
  uint32_t n_runs;
};

/* ---- result: details ------------------------------------------------------------------------ */

/* A chip of the space, for people. */
struct pz_result_chip {
  uint64_t id;
  const char *name;
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
  double area_mm2, watts;
};

/* An evaluated chip and a model, what its step is made of, and how busy the chip's parts are while
 * the repeated layer runs. */
struct pz_chip_plan {
  uint64_t chip_id;
  uint32_t model;
  double samples_per_s;
  int64_t tp, pp, dp, mbs;
  bool recompute;
  struct pz_step_parts parts;
  double use[PZ_RESOURCES];
};

/* An evaluated chip of an objective run, or one of the front that was asked for. */
struct pz_shown_chip {
  uint32_t answer; /* index */
  uint64_t chip_id;
  double value, bound; /* of the objective */
  bool evaluated;      /* in the objective run; else only for the front */
};

enum { PZ_MOST_SHOWN = 250 };

struct pz_result_detail {
  struct pz_shown_chip *shown; /* of each answer, the best first, at most PZ_MOST_SHOWN */
  uint32_t n_shown;
  struct pz_chip_plan *plans; /* of evaluated chips, by chip and model */
  uint32_t n_plans;
  struct pz_layer_schedule *schedules;
  uint32_t n_schedules;
};

/* ---- result: the whole ---------------------------------------------------------------------- */

struct pz_arena; /* of the library */

struct pz_result {
  struct pz_result_inputs inputs;
  struct pz_answer *answers; /* one a model, then the common one; one alone for one model */
  uint32_t n_answers;
  struct pz_result_reference *references; /* one a model */
  uint32_t n_references;
  struct pz_result_chip_summary reference_chip;
  struct pz_result_step *sensitivity;
  uint32_t n_sensitivity;
  struct pz_robustness
      *robustness; /* of the evaluator training, where the gap is proved; else NULL */
  struct pz_executions *executions; /* the same, where operators are scheduled */
  struct pz_result_front *front;    /* NULL: not asked for */
  struct pz_comparison *comparison; /* NULL: not made */
  struct pz_result_detail
      *detail;                 /* of the evaluator training the schedules alone; NULL: not made */
  const char *training_detail; /* of the evaluator training, JSON; NULL: not made */
  const struct pz_result_chip *chips; /* with the detail: of the space, by id */
  uint32_t n_chips;
  struct pz_arena *arena; /* holds all of it */
};

/* The chip of the space with this id, or NULL. */
PZ_API const struct pz_result_chip *pz_result_chip(const struct pz_result *r, uint64_t id);

/* What a text of it has. */
enum pz_result_form {
  PZ_RESULT_JSON,   /* the result of the search */
  PZ_RESULT_REPORT, /* JSON: the tables that a report shows */
  PZ_RESULT_PAGE    /* HTML: the report, which opens offline */
};

/* *text is the caller's to give back with pz_text_free.  PZ_BAD_USE for a report before pz_run_detail and, of
 * the evaluator original, pz_run_compare. */
PZ_NODISCARD PZ_API enum pz_status pz_result_text(const struct pz_result *r,
                                                  enum pz_result_form form, char **text,
                                                  size_t *bytes, struct pz_error *err);

/* Seed of the baselines that draw at random, where none is asked for. */
enum { PZ_COMPARE_SEED = 1 };

/* ---- runs ----------------------------------------------------------------------------------- */

struct pz_run_options {
  size_t size;      /* sizeof *this, set by the default */
  const char *dir;  /* NULL: nothing is kept; else every part is kept there and found again */
  bool fresh;       /* a run that stands there is moved aside */
  unsigned threads; /* 0: one per processor */
  pz_progress_fn *progress; /* NULL: none */
  void *ctx;                /* of it */
};

PZ_API struct pz_run_options pz_run_options_default(void);

/* How long its parts took; 0: not done. */
struct pz_run_times {
  double bounds_s, search_s, result_s;
  uint64_t n_variants; /* workload variants evaluated */
};

struct pz_run;

/* Inputs read and checked, the directory opened; nothing is searched yet.  On success *out is the
 * caller's to close.  PZ_BAD_INPUT for a directory that holds another run, PZ_IO where another
 * process has it.  Runs are independent: any number may be open in as many threads. */
PZ_NODISCARD PZ_API enum pz_status pz_run_open(const struct pz_study_options *study,
                                               const struct pz_run_options *options,
                                               struct pz_run **out, struct pz_error *err);

/* The finished run in a directory, to be read: nothing is written there.  Its result is there at
 * once; pz_run_compare and pz_run_detail add to it in memory.  PZ_IO where there is no run,
 * PZ_BAD_INPUT for one that has not finished, or was made by another version.  On success *out
 * is the caller's to close. */
PZ_NODISCARD PZ_API enum pz_status pz_run_look(const struct pz_run_options *options,
                                               struct pz_run **out, struct pz_error *err);

/* The search: as the directory has it, or by searching.  PZ_NO_ANSWER when a model fits no chip,
 * PZ_STOPPED when cancelled: what was found until then is kept in the directory, and the
 * call may be made again.  After a success it does nothing.  Same answer for any number of threads.
 * Cost: seconds for the space `paper` and six models. */
PZ_NODISCARD PZ_API enum pz_status pz_run_search(struct pz_run *run, struct pz_error *err);

/* After a search by the evaluator original (else PZ_BAD_USE), the comparison with the other ways to choose: as the
 * directory has it, if that was made with this seed (NULL: any), or by running every baseline,
 * which takes longer than the search.  PZ_STOPPED when cancelled. */
PZ_NODISCARD PZ_API enum pz_status pz_run_compare(struct pz_run *run, const uint64_t *seed,
                                                  struct pz_error *err);

/* After the search (else PZ_BAD_USE), the details that a report shows: as the directory has
 * them, or made.  PZ_STOPPED when cancelled.  Cost: seconds. */
PZ_NODISCARD PZ_API enum pz_status pz_run_detail(struct pz_run *run, struct pz_error *err);

/* What was found so far, n_answers 0 before the search; lives as long as the run.  A later call
 * adds to it and moves nothing that it has. */
PZ_API const struct pz_result *pz_run_result(const struct pz_run *run);

/* Was the result in the directory?  Was anything found that it did not have? */
PZ_API bool pz_run_reused(const struct pz_run *run);
PZ_API bool pz_run_changed(const struct pz_run *run);
PZ_API struct pz_run_times pz_run_times(const struct pz_run *run);
PZ_API unsigned pz_run_threads(const struct pz_run *run);
/* Its network, scaled out where the devices ask for it; NULL while a run is only looked at. */
PZ_API const struct pz_cluster *pz_run_cluster(const struct pz_run *run);

/* Sentences the user should see of the models: text i, NULL after the last; lists as in
 * pz_note_fn. */
PZ_API const char *pz_run_note(const struct pz_run *run, uint32_t i, unsigned *lists);

/* Accepts NULL. */
PZ_API void pz_run_close(struct pz_run *run);

/* ---- the original system's assumptions ------------------------------------------------------ */

/* Assumptions of the original system's released code that this program does not share. */
enum pz_assumption {
  PZ_ASSUME_FAST_NETWORK,        /* milliseconds of compute are added to seconds of communication */
  PZ_ASSUME_NO_WEIGHT_GRADIENTS, /* a product has one gradient product backward, not two */
  PZ_ASSUME_FIXED_BANDWIDTH,     /* on-chip words per cycle that no chip exceeds */
  PZ_ASSUME_SHIFTED_EXPERT,      /* the expert plan's stages are off by one layer */
  PZ_ASSUME_FIRST_STAGE,         /* gradients of the first stage alone are all-reduced */
  PZ_ASSUME_ARITHMETIC_MEAN,     /* the chip with the largest sum of samples/s wins */
  PZ_ASSUMPTIONS
};

typedef unsigned pz_assumptions; /* a set: bit 1 << enum pz_assumption */

enum { PZ_ASSUME_ALL = (1 << PZ_ASSUMPTIONS) - 1 };

struct pz_assumption_info {
  const char *name;      /* for tables and JSON */
  const char *corrected; /* what this program assumes instead */
};
/* NULL for none of them. */
PZ_API const struct pz_assumption_info *pz_assumption_at(enum pz_assumption a);

static inline bool pz_assumed(pz_assumptions set, enum pz_assumption a) { return set >> a & 1; }

enum { PZ_ORIGINAL_MOST_ROWS = 2 * PZ_ASSUMPTIONS + 2 };

/* One search. */
struct pz_original_row {
  pz_assumptions assumptions; /* that it made */
  bool walk;                  /* the chip is the one that the original's walk stops with */
  bool alone;                 /* one assumption in this program's own model; else of the sequence */
  char chip[48];              /* name of the common one, with the memory it needs */
  double hbm_gib, area_part;  /* of the budget */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  double reference[PZ_SEARCH_MOST_MODELS]; /* samples/s of tpuv4 with the expert plan; 0: none */
  double gap; /* no chip's objective is higher by more than this part; 0: proven the best */
};

struct pz_original {
  struct pz_original_row rows[PZ_ORIGINAL_MOST_ROWS];
  uint32_t n_rows;
  const char *models[PZ_SEARCH_MOST_MODELS]; /* the caller's */
  uint32_t n_models;
};

/* Run every row; options as for a study, whose own assumptions and objective do not count.  The
 * original's memory for optimizer state (SGD) is not among the assumptions: `o->state` holds for
 * all rows.  `alone`: also each assumption by itself.  Cost: five searches for one
 * common chip, eight with `alone`.  `threads`, `progress` and `ctx` as in pz_run_options. */
PZ_NODISCARD PZ_API enum pz_status pz_original_run(const struct pz_study_options *o, bool alone,
                                                   unsigned threads, pz_progress_fn *progress,
                                                   void *ctx, struct pz_original *out,
                                                   struct pz_error *err);

/* ---- chips beside each other ---------------------------------------------------------------- */

/* Given chips, each with its best training plan of every model in the network that it is sold in; of a study's options models,
 * devices, batch, sequence and network count, `cluster` NULL means each chip's own.  `chips`: names, chip.json files and
 * directories of saved searches, comma-separated; `cold`: all of them by their data sheets, without what was measured on
 * them.  *text, to be given back with pz_text_free: JSON {chips: [...]}, a flat object for each chip and model with its area,
 * peak watts and dollars, and where it fits time, power, energy and plan; `ratio` is to the first chip (0: it has no plan).
 * `known` says what a chip's times follow from: measured (operators), published runs, calibrated (a chip.json that does not say
 * by what) or cold; `expected_error` is the mean error over chips known so of their published runs, null for calibrated.
 * `run` (NULL: the default): threads and progress. */
PZ_NODISCARD PZ_API enum pz_status pz_chips_compare(const struct pz_study_options *study,
                                                    const char *chips, bool cold,
                                                    const struct pz_run_options *run, char **text,
                                                    struct pz_error *err);

enum { PZ_PRICES_MOST_BYTES = 1 << 20 };

/* What chips are rented for.  Take pz_rent_options_default() and change fields. */
struct pz_rent_options {
  size_t size;               /* sizeof *this, set by the default */
  struct pz_choices devices; /* numbers to rent; n 0: the study's */
  double tokens;             /* of the run */
  double price;              /* dollars of a device for an hour, of every chip; 0: not asked for */
  const char *prices; /* or the text of a table: chip,dollars_per_device_hour (CSV); NULL: none */
  const char *prices_name; /* stands for it in messages */
  double deadline_s;       /* 0: none */
};

PZ_API struct pz_rent_options pz_rent_options_default(void);

/* pz_chips_compare for a run over so many tokens: a row for each chip, number of devices and model, with `devices`, and in
 * those that fit `days` and `device_hours`, with a price `dollars_per_device_hour`, `run_dollars` and `tokens_per_dollar`;
 * _low and _high of days and run_dollars are what the chip's expected error leaves (null: not known); `ratio` is to the
 * first row.  Counted is training without failures, checkpoints, restarts, storage and traffic out; pz_run_cost has
 * failures.  With a deadline: one number of devices is the most that can be had, of which the plan takes those that cost
 * least and end by then, several are taken as they are; `deadline` is met, uncertain (met, but not at the upper end of the
 * error) or missed. With prices `cheapest` is true of the row of each model that costs least of those that do not miss it.
 * PZ_BAD_INPUT for a table without one of the chips. */
PZ_NODISCARD PZ_API enum pz_status pz_chips_rent(const struct pz_study_options *study,
                                                 const char *chips, bool cold,
                                                 const struct pz_rent_options *rent,
                                                 const struct pz_run_options *run, char **text,
                                                 struct pz_error *err);

/* ---- verification --------------------------------------------------------------------------- */

struct pz_verify_options {
  size_t size;      /* sizeof *this, set by the default */
  unsigned threads; /* 0: one per processor */
  uint32_t
      sample; /* boxes of each objective run that are checked by evaluating chips without bounds */
  bool all;   /* every box; and the search is run again, and every number compared */
  /* Told of each check in turn; may be NULL. */
  void (*say)(void *ctx, bool holds, const char *text);
  void *ctx;
};

PZ_API struct pz_verify_options pz_verify_options_default(void);

/* Check the finished run in a directory: the digests of its parts; that its inputs are as they were; that the boxes of every
 * objective run hold each chip of the space once; boxes, by evaluating chips without bounds; and all that was recorded,
 * recomputed.  PZ_OK: the checks could be made; *holds:
 * and all hold.  Errors as of pz_run_look.  Cost: that of the search and of the comparison. */
PZ_NODISCARD PZ_API enum pz_status pz_verify(const char *dir,
                                             const struct pz_verify_options *options, bool *holds,
                                             struct pz_error *err);

/* ---- validation ----------------------------------------------------------------------------- */

enum pz_point_kind {
  PZ_POINT_RUN,      /* a training step */
  PZ_POINT_PASSES,   /* forward and backward on one device, without the optimizer */
  PZ_POINT_OPERATOR, /* one kernel */
  PZ_POINT_KINDS
};

PZ_API extern const char *const pz_point_kind_names[]; /* ends with NULL */

/* One measurement beside its prediction. */
struct pz_validation_point {
  enum pz_point_kind kind;
  const char *id, *group;
  const char *quality; /* "ok", or why the measurement is not to be counted */
  const char *chip, *framework;
  const char *model; /* for people */
  const char *shape; /* for people: "30 layers of 3072"; "" if not known */
  const char *plan;  /* for people: degrees and microbatch; "" for an operator */
  const char *job;   /* equal for plans of one model, chip, devices and batch; NULL: no plan */
  int64_t devices, batch;
  bool one_node; /* all devices in the innermost level of the network */
  const char *
      work; /* "16-bit", "experts", "fp8", "nvfp4", "LoRA", "state-space layers"; operators: their kind on all chips, or NULL */
  bool dense;                             /* dense 16-bit model, no context parallelism, 1F1B */
  bool context;                           /* context parallel */
  bool zero_bubble;                       /* of the pipeline's orders */
  bool tpu;                               /* runs on a TPU */
  double measured_s, predicted_s;         /* 0: none */
  double measured_bytes, predicted_bytes; /* 0: none */
  const char *reason;                     /* why there is no prediction; "" if there is one */
  const char *choices; /* of the plan: equal for runs of one plan; NULL: as no other */
  uint64_t features; /* of its plan, by which errors to expect are found (step/plan_features.def) */
  const char *cluster; /* of a run: the network's name; "" if not known */
  int64_t seq;         /* tokens of a sample, of a run that is predicted */
};

/* Errors are predicted over measured minus 1.  Means are NaN where nothing was counted. */
struct pz_errors {
  const char *name;
  enum pz_point_kind kind;
  uint32_t n, not_predicted;
  double mean; /* of absolute errors */
  double bias; /* mean of errors */
  double worst;
  const char *worst_id; /* NULL: none */
  uint32_t n_memory;    /* points with measured and predicted peak memory */
  double memory_mean, memory_bias, memory_worst;
};

/* Plans of one model on the same devices with the same batch. */
struct pz_plan_order {
  const char *name; /* for people: model, shape, devices, batch */
  const char *model, *shape, *group, *chip;
  int64_t devices, batch;
  uint32_t plans;
  double rank_correlation; /* Spearman; NaN: all plans take the same time */
  double regret;
};

/* Means over models with several plans. */
struct pz_order_mean {
  const char *name;
  uint32_t n;
  double rank_correlation, regret;
};

enum pz_limited {
  PZ_LIMITED_TIME,
  PZ_LIMITED_MEMORY,
  PZ_LIMITED_MISSING,
  PZ_LIMITED_RANK, /* of plans: the least that is allowed, the others are the most */
  PZ_LIMITED_REGRET,
  PZ_LIMITEDS
};

/* Chips of one line, predicted with constants that were fitted on the runs of all other lines. */
struct pz_cold_family {
  const char *name;
  uint32_t n;                            /* runs */
  double mean, bias;                     /* means over its chips, each the mean of its runs */
  const struct pz_cold_value *constants; /* that were fitted */
  uint32_t n_constants;
};

/* How well runs are predicted where nothing that was measured on their chips is used. */
struct pz_cold_errors {
  const struct pz_errors *chips; /* dense 16-bit runs of quality ok, by chip */
  uint32_t n_chips;
  double mean;                    /* over chips of their mean errors */
  double spread;                  /* standard deviation of the chips' biases */
  const struct pz_errors *others; /* 8 bits or experts, by chip */
  uint32_t n_others;
  const struct pz_cold_family *families;
  uint32_t n_families;
  double families_mean;
};

/* Limits of a group, a total, the plans of a model or a mean over models. */
struct pz_limit {
  const char *group;
  double value[PZ_LIMITEDS]; /* NaN: none */
};

/* A limit that does not hold. */
struct pz_broken_limit {
  const char *group;
  enum pz_limited what;
  double value, limit; /* value NaN: nothing left to judge */
};

struct pz_validation {
  const struct pz_validation_point *points;
  uint32_t n_points;
  const struct pz_errors *groups; /* of quality ok: operators by kind, steps, runs by group */
  uint32_t n_groups;
  const struct pz_errors *apart; /* of another quality */
  uint32_t n_apart;
  const struct pz_errors *totals; /* over training runs of quality ok */
  uint32_t n_totals;
  const struct pz_plan_order *orders; /* of models with PZ_LEAST_PLANS or more */
  uint32_t n_orders;
  const struct pz_order_mean *order_means;
  uint32_t n_order_means;
  const struct pz_limit *limits;
  uint32_t n_limits;
  const struct pz_broken_limit *broken;
  uint32_t n_broken;
  const char *const *notes; /* sentences about the tables: files that were skipped, ... */
  uint32_t n_notes;
  struct pz_cold_errors cold; /* where it was asked for */
};

enum { PZ_LEAST_PLANS = 3 };

/* The built-in limits of operators by chip and kind, of the groups that have 20 rows or more. */
#define PZ_LIMITS_OPS "builtin-ops"

/* Take pz_validate_options_default() and change fields. */
struct pz_validate_options {
  size_t size;             /* sizeof *this, set by the default */
  const char *const *runs; /* paths of tables of runs, ends with NULL; none: the built-in data */
  const char *ops;         /* path of a table of operators or of a directory of such, or NULL */
  const char *chip;        /* of rows that name none, or it: a preset or the path of a chip.json */
  const char *limits; /* path of a table of limits, or PZ_LIMITS_OPS; NULL: those of the built-in
                              data, and none for tables */
  unsigned threads;   /* 0: one per processor */
  const char *beside; /* path of a table of kernels beside communication on `chip`, or NULL */
  pz_progress_fn *progress; /* NULL: none; a phase for every table */
  void *ctx;                /* of it */
  bool cold; /* training runs alone, and nothing that was measured on their chips: pz_cold_errors */
};

PZ_API struct pz_validate_options pz_validate_options_default(void);

/* Read and predict everything.  PZ_OK also where limits do not hold: those are told in `broken`.
 * PZ_STOPPED when cancelled.  On success *out is the caller's to free.  Cost: milliseconds a run; seconds for the built-in data. */
PZ_NODISCARD PZ_API enum pz_status pz_validate(const struct pz_validate_options *options,
                                               struct pz_validation **out, struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_validation_free(struct pz_validation *v);

/* What a text of it has. */
enum pz_validation_form {
  PZ_VALIDATION_JSON,      /* groups, totals, orders of plans, broken limits ... */
  PZ_VALIDATION_JSON_ROWS, /* ... and every point */
  PZ_VALIDATION_GROUPS,    /* CSV: a line a group, total and model with several plans */
  PZ_VALIDATION_ROWS,      /* CSV: a line a point */
  PZ_VALIDATION_LIMITS,   /* CSV: limits that hold now, mean errors rounded up with a little room */
  PZ_VALIDATION_EXPECTED, /* CSV: errors of runs by their features, which predictions are told with */
  PZ_VALIDATION_PAGE,     /* HTML: predicted against measured, and the errors by group */
  PZ_VALIDATION_FEATURES /* table for people: what errors come from, and how many runs are within their intervals */
};

/* *text is the caller's to give back with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_validation_text(const struct pz_validation *v,
                                                      enum pz_validation_form form, char **text,
                                                      size_t *bytes, struct pz_error *err);

/* ---- tables of runs ------------------------------------------------------------------------- */

/* What was asked and found of one row. */
struct pz_run_row {
  const char *id, *group, *quality;
  double measured_s, measured_bytes; /* 0: not told */
  bool predicted;
  char reason[200]; /* why not */
  int64_t devices;
  double hbm_bytes; /* of a device */
  struct pz_prediction p;
  const struct pz_plan *plan; /* that was predicted */
};

struct pz_runs {
  struct pz_run_row *rows;
  uint32_t n_rows;
  struct pz_errors *groups; /* of rows of quality ok, by group; all of them together as the last */
  uint32_t n_groups;
  struct pz_errors *apart; /* the same of others */
  uint32_t n_apart;
};

/* Predict every run of a table (CSV): a model's name and a chip are enough, other columns are fields of
 * the plan (n_dev devices, gbs batch), what was measured (step_time_s, peak_bytes) and the model's
 * shape; doc/predict.md.  A run that the model does not cover is a row with a reason.  threads 0: one
 * per processor.  On success *out is the caller's to free.  Cost: milliseconds a row. */
PZ_NODISCARD PZ_API enum pz_status pz_runs_predict(const char *name, const char *text, size_t bytes,
                                                   unsigned threads, struct pz_runs **out,
                                                   struct pz_error *err);

/* The same with collectives and transfers that take no time, as pz_network_make_instant. */
PZ_NODISCARD PZ_API enum pz_status pz_runs_predict_alone(const char *name, const char *text,
                                                         size_t bytes, unsigned threads,
                                                         struct pz_runs **out,
                                                         struct pz_error *err);

/* The table with predictions, errors and parts of the step, as CSV; *text is the caller's to give back
 * with pz_text_free. */
PZ_NODISCARD PZ_API enum pz_status pz_runs_csv(const struct pz_runs *r, char **text, size_t *bytes,
                                               struct pz_error *err);
/* Accepts NULL. */
PZ_API void pz_runs_free(struct pz_runs *r);

#ifdef __cplusplus
}
#endif
#endif
