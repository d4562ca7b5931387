/* phaze plans the distributed training of language models and searches for the accelerator chip
 * that trains them best. This header declares the whole library: a program can do everything that
 * the command does.
 *
 *     model      pz_workload_load           builds operator graphs of a model's layers
 *     chip       pz_chip_load               loads the description of a chip
 *                pz_cluster_load            loads the description of a network
 *     cost       pz_cost_new, pz_cost_op    estimates time and energy of an operator on a chip
 *     schedule   pz_schedule_layer          schedules the operators of a layer on a chip's cores
 *                pz_training_schedule       does so for every layer of a training plan
 *     partition  pz_partition_model         divides a model into the stages of a pipeline
 *     predict    pz_training_predict        predicts step time and memory of a training plan
 *     explain    pz_training_explain        tells the origin of each field and its constants
 *     place      pz_training_place          finds the best training plan, with a proof
 *                pz_training_scale          does so for several numbers of devices
 *     tune       pz_run_plan_read           reads an existing training run
 *                pz_plan_tune               finds changes that make it faster
 *     diff       pz_plan_diff               compares two runs, term by term
 *     emit       pz_launch_text             writes the launch script of a plan
 *     calibrate  pz_calibrate               fits a chip's constants to measured operators
 *                pz_calibrate_network       fits a network to the logs of nccl-tests
 *     explore    pz_explore_page            makes an HTML page that finds plans by itself
 *     search     pz_run_open, pz_run_search find the best chip of a design space
 *     result     pz_result_text             writes what a search found, with its certificate
 *     validate   pz_validate                compares predictions with measurements
 *
 * Errors. A function that can fail returns an enum pz_status and describes the error in a struct
 * pz_error, which may be NULL. It then leaves its results untouched. PZ_BAD_USE means that a
 * required argument is NULL or that an option is out of range; PZ_BAD_INPUT means that a chip or a
 * cluster has fields that its file could not have.
 *
 * Options are structs whose first member is their size. Call the function named ..._default() and
 * change members of its result. Where options are passed by pointer, NULL means the defaults.
 *
 * Ownership. The caller owns what a function returns in *out, *text or *word. An object is freed
 * with the function declared below the one that makes it, a text with pz_text_free(). Strings and
 * arrays in an object live as long as the object.
 *
 * Units are SI and part of the names: _bytes, _flop, _s, _mm2 (areas also _um2). The library never
 * prints, exits or aborts. Its only global state is the allocator (pz_alloc_use), so that threads
 * may call it at the same time if no two of them use the same object. The same input and options
 * give the same bytes on any number of threads.
 *
 *     struct pz_error err = {0};
 *     struct pz_workload_options opt = pz_workload_options_default();
 *     struct pz_workload *w = NULL;
 *     if (pz_workload_load("gpt2-xl", &opt, &w, &err) != PZ_OK) puts(err.message);
 *     ...read w->layers, w->totals...
 *     pz_workload_free(w);
 *
 * The directory examples/ contains complete programs. */
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

/* Returns the version of the linked library, to be compared with PZ_VERSION of this header. */
PZ_API const char *pz_version(void);

/* ---- errors --------------------------------------------------------------------------------- */
/* Whether a call succeeded, and otherwise the kind of error. */
enum pz_status {
  PZ_OK = 0,
  PZ_BAD_INPUT, /* a file, name or field is wrong; the message says what is accepted */
  PZ_BAD_USE,   /* an argument or option is wrong */
  PZ_NO_MEMORY, /* memory has run out */
  PZ_IO,        /* a file could not be read or written */
  PZ_LIMIT,     /* a documented limit was exceeded (size, count, integer range) */
  PZ_INTERNAL,  /* a bug of this library */
  PZ_NO_ANSWER, /* the question has no answer, for example because nothing fits in memory */
  PZ_STOPPED    /* cancelled before the end */
};
/* Returns a short name for logs, such as "bad input" or "out of memory". */
PZ_API const char *pz_status_name(enum pz_status status);

/* An error. Zero it before the first call and before reusing it after an error, because a later
 * error does not replace an earlier one. `message` is a complete sentence. If `input` names a text
 * file, line and column give the place in it (counted from 1; 0 if unknown). origin_file and
 * origin_line name the source line of the library that raised the error. */
struct pz_error {
  enum pz_status status;
  char message[1024];
  char input[256];
  int line, column;
  const char *origin_file;
  int origin_line;
};

/* ---- memory --------------------------------------------------------------------------------- */
/* An allocator. Its functions may be called from any thread. alloc and resize return NULL if memory
 * has run out; resize then leaves the block unchanged. free is never called with NULL. */
struct pz_allocator {
  void *(*alloc)(void *ctx, size_t bytes);
  void *(*resize)(void *ctx, void *block, size_t bytes); /* block may be NULL */
  void (*free)(void *ctx, void *block);
  void *ctx;
};

/* Makes the library, jansson and SQLite use this allocator; NULL means that of the C library. Call
 * it before any other function of the three, and never while memory is in use. *allocator must live
 * as long as it is in use. This is the only global state that the library changes. Without this
 * call, jansson and SQLite use their own allocators, and a JSON document may lack parts for which
 * jansson found no memory; with it, such a document is reported as PZ_NO_MEMORY. Returns PZ_BAD_USE
 * if SQLite is already initialised. */
PZ_NODISCARD PZ_API enum pz_status pz_alloc_use(const struct pz_allocator *allocator,
                                                struct pz_error *err);
PZ_API void pz_text_free(char *text); /* frees a text of the library; accepts NULL */

/* ---- long calls ----------------------------------------------------------------------------- */
/* Progress of a long call. Its strings live until the progress function returns. */
struct pz_progress_state {
  const char *phase, *unit; /* for example "tables" and "chips" */
  const char *note;         /* the best chip so far, or "" */
  uint64_t done, total;     /* the total may change during a phase */
  bool ended;               /* whether this is the last report of the phase */
  /* In a search, the gap that is proved so far (HUGE_VAL if none) and the gap at which it ends;
   * 0.05 means that a better chip is better by at most 5%. In other phases, target is negative. The
   * number of chips left does not indicate the time left. */
  double gap, target;
};

/* Reports progress at the start and end of each phase and several times a second in between, from
 * one thread at a time. If it returns false, the work is cancelled and ends with PZ_STOPPED. */
typedef bool pz_progress_fn(void *ctx, const struct pz_progress_state *state);

/* ---- operators and tensors ------------------------------------------------------------------ */
enum pz_op_class {
  PZ_CLASS_TENSOR, /* a GEMM */
  PZ_CLASS_VECTOR, /* element-wise operations, reductions, data movement */
  PZ_CLASS_FUSED,  /* a GEMM with the element-wise operators fused into its epilogue */
  PZ_CLASS_NONE, /* a view, which takes no time and uses no core but keeps the order of operators */
  PZ_CLASS_COLLECTIVE, /* a collective, which occupies the link */
};

enum pz_direction { PZ_FORWARD = 0, PZ_BACKWARD = 1 };

enum pz_tensor_role {
  PZ_ROLE_ACTIVATION,
  PZ_ROLE_PARAM,
  PZ_ROLE_DATA, /* token ids, labels, masks, rotary tables; never has a gradient */
  PZ_ROLE_GRAD,
};

/* An index that stands for "no tensor" or "no operator". */
#define PZ_NONE UINT32_MAX

/* A tensor of a layer, as one device holds it. */
struct pz_tensor {
  const char *name;
  int64_t shape[4];
  int n_dims;
  int elem_bytes;
  int64_t elems;
  enum pz_tensor_role role;
  uint32_t storage; /* the tensor that owns the memory: this one, or the one it is a view of */
  bool split;       /* divided over the tensor-parallel group */
  bool tied;        /* a parameter that another layer owns and counts */
  int64_t experts;  /* number of experts with a part each, or 0 */
  int64_t held;     /* most elements in memory at a time, or 0 if it is held whole */
  bool frozen;      /* a frozen parameter, which has no gradient */
};

/* An element-wise operator that is fused into another operator. */
struct pz_tail {
  int kind;
  enum pz_direction direction;
  int64_t elems;
  bool replicated; /* as in struct pz_op */
};

/* Sizes of an operator. A GEMM multiplies `batch` pairs of matrices, m x k by k x n. A vector
 * operator works on m rows of n elements, a collective joins `batch` devices with m rows of n. */
struct pz_dims {
  int64_t batch, m, n, k;
};

/* The group of devices that a collective joins. */
enum pz_peers {
  PZ_PEERS_TENSOR,        /* the tensor-parallel group */
  PZ_PEERS_EXPERT,        /* the expert-parallel group, over which the experts are distributed */
  PZ_PEERS_EXPERT_TENSOR, /* the group over which each expert is divided */
  PZ_PEERS_CONTEXT, /* the context-parallel group, over which the tokens of a sample are divided */
};

/* An operator of a layer in one direction. */
struct pz_op {
  const char *name;
  int kind;                    /* named by pz_op_kind_name() */
  enum pz_direction direction; /* PZ_BACKWARD for a derivative of `kind` */
  enum pz_op_class op_class;
  bool replicated; /* every device of a tensor-parallel group does the same work */
  bool strided;    /* element-wise with a broadcast, converted or permuted operand */
  struct pz_dims dims;
  int64_t flop; /* all operations, including the tail */
  /* FLOP of GEMMs alone: 2 batch m n k. Expert GEMMs count the rows that exist, flash attention
   * counts two GEMMs (five in backward), and scans count the GEMMs of their chunks. */
  int64_t matmul_flop;
  int64_t bytes_read;              /* each input once, including weights */
  int64_t bytes_written;           /* each output once, including activations saved for backward */
  int64_t weight_bytes;            /* the part of bytes_read that is parameters */
  int64_t scratch_bytes;           /* workspace that exists only while the operator runs */
  const uint32_t *in, *out, *pred; /* indices of tensors and of earlier operators */
  uint32_t n_in, n_out, n_pred;
  const struct pz_tail *tail;
  uint32_t n_tail;
  enum pz_peers peers; /* the group of a collective; dims.batch is its size */
  /* A grouped GEMM over the dims.batch experts that receive rows. dims.m is the mean number of rows
   * of an expert, rounded up (dims.k in the gradient of weights). */
  bool grouped;
  /* Attention: the number of queries in the context-parallel group, dims.m of which belong to this
   * device; 0 means dims.m. Scans: the number of tokens in a chunk. */
  int64_t span;
};

struct pz_ops {
  const struct pz_op *op;
  uint32_t n;
};

/* ---- layers and models ---------------------------------------------------------------------- */
/* Where the backward pass writes the gradients of parameters. */
enum pz_gradients {
  PZ_GRADIENTS_IN_PLACE, /* the GEMM kernel adds them to the gradient buffer */
  PZ_GRADIENTS_PASSING,  /* a tensor that is added to the buffer and freed */
  PZ_GRADIENTS_KEPT,     /* a tensor that stays allocated */
  PZ_GRADIENTS
};

/* Change of the allocated bytes while a layer runs, relative to its start. */
struct pz_live {
  int64_t peak_bytes; /* at the peak */
  int64_t net_bytes;  /* at the end */
};

/* Operators that read a saved activation in backward, as a bit set. */
enum pz_saved_use {
  PZ_SAVED_BY_GEMM = 1,  /* the gradient of a weight */
  PZ_SAVED_BY_OTHER = 2, /* another operator, in 16 bits */
  PZ_SAVED_BY_GATE = 4   /* the derivative of a gated activation, which reads its input */
};

/* How layers with 8-bit GEMMs save their activations. */
enum pz_saved_form {
  PZ_SAVED_16BIT,
  PZ_SAVED_GEMM_8BIT, /* inputs of GEMMs in 8 bits; another copy for 16-bit readers */
  /* inputs of GEMMs and gated activations in 8 bits, in 12 if others read them in 16 bits */
  PZ_SAVED_8BIT,
  PZ_SAVED_GEMM_8BIT_GATE, /* as PZ_SAVED_GEMM_8BIT, and inputs of gated activations in 8 bits */
  PZ_SAVED_GEMM_4BIT,      /* inputs of GEMMs in 4 bits, with one scale for 16 values */
  PZ_SAVED_GEMM_4BIT_GATE, /* as PZ_SAVED_GEMM_4BIT, and inputs of gated activations in 8 bits */
  PZ_SAVED_FORMS
};

/* A layer of a model, as one device runs it. Equal layers are described once. */
struct pz_layer {
  const char *name;
  int64_t count; /* number of occurrences in the model; pz_workload.order gives their order */
  /* Indices of the layers whose results it reads, ascending; there are several where the model
   * branches. Repeated layers also read their predecessor. */
  const uint32_t *from;
  uint32_t n_from;
  const struct pz_tensor *tensors;
  uint32_t n_tensors;
  struct pz_ops ops[2];   /* indexed by enum pz_direction */
  uint32_t input, output; /* tensor indices; input is PZ_NONE in the first layer */
  uint32_t output_grad;   /* the tensor whose gradient enters the backward pass */
  int64_t params;         /* parameters on this device, without tied ones */
  int64_t split_params;   /* the part that is divided over the tensor-parallel group */
  int64_t tied_params;    /* on this device, but counted by another layer */
  int64_t model_params;   /* of the undivided layer, without tied ones */
  /* Parameters whose gradients are partial sums, to be summed over the tensor-parallel group once a
   * step; no operator of the layer does this. */
  int64_t group_grad_params;
  /* The part of `params` in routed experts. With their own grid (ep above 1, or etp other than tp)
   * they are not in split_params, and are replicated over devices with the same part. */
  int64_t expert_params;
  int64_t model_expert_params; /* of the undivided layer */
  const uint32_t *saved;       /* tensors saved for backward, in order of first use */
  uint32_t n_saved;
  int64_t activation_bytes;  /* bytes of `saved`, for one layer and one microbatch */
  int64_t shared_bytes;      /* also saved, but shared by all layers: rotary tables, token ids */
  int64_t buffer_bytes;      /* constants that the implementation stores for each layer */
  int64_t output_bytes;      /* bytes passed to the next layer */
  struct pz_live live[2];    /* indexed by enum pz_direction */
  struct pz_live live_plain; /* forward pass without saved activations (recomputation) */
  struct pz_live live_backward[PZ_GRADIENTS]; /* backward pass, indexed by enum pz_gradients */
  int64_t logits;          /* elements that a fused loss kernel reads, or 0 without such a kernel */
  int64_t context_bytes;   /* bytes of the results of attention kernels */
  const uint8_t *saved_by; /* for each saved tensor, a set of enum pz_saved_use */
  int64_t less_bytes[PZ_SAVED_FORMS]; /* reduction of activation_bytes by enum pz_saved_form */
  bool wide;                          /* GEMMs use 16 bits in every precision (bf16_layers) */
  /* The trained parts of params, expert_params and model_params, which are all without adapters. */
  int64_t trained_params, trained_expert_params, model_trained_params;
};

/* Sums over the model, for one device of the tensor-parallel group and one microbatch. */
struct pz_totals {
  int64_t params, model_params, split_params;
  int64_t forward_flop, backward_flop;
  int64_t matmul_forward_flop, matmul_backward_flop;
  int64_t activation_bytes;
  int64_t param_bytes;
  int64_t peak_bytes; /* largest sum of weights, gradients, activations and workspace at any time */
  int64_t layers, ops;
  int64_t expert_params; /* on this device, as in struct pz_layer */
  /* Parameters of the undivided model that one token uses, with only the chosen routed experts;
   * model_params without experts. */
  int64_t active_params;
  int64_t model_trained_params; /* trained part of model_params; all of it without adapters */
};

/* Which operators share a kernel. */
enum pz_kernels {
  PZ_KERNELS_FUSED,   /* GEMMs include the element-wise operators that follow them */
  PZ_KERNELS_EAGER,   /* every step of a norm, softmax or activation is a kernel */
  PZ_KERNELS_MODULES, /* one kernel for each norm, softmax, activation and addition; GEMMs alone */
  PZ_KERNELS_POINTWISE, /* as PZ_KERNELS_MODULES, with fused chains of element-wise operators */
  /* One kernel for each norm and activation; gates, rotary embedding and loss as single operators.
   * Saved activations are those of PyTorch's eager mode. */
  PZ_KERNELS_OPERATORS
};
enum pz_attention { PZ_ATTENTION_STANDARD, PZ_ATTENTION_FLASH };
enum pz_recompute { PZ_RECOMPUTE_NONE, PZ_RECOMPUTE_FULL };
enum pz_unknown_ops { PZ_UNKNOWN_REFUSE, PZ_UNKNOWN_VECTOR };

/* How attention reaches the tokens of the other devices in a context-parallel group. */
enum pz_context_form {
  PZ_CONTEXT_RING,       /* keys and values are passed around a ring */
  PZ_CONTEXT_ALL_TO_ALL, /* all-to-all collectives divide attention by heads, not tokens */
};

enum { PZ_MOST_DIMS = 16 };
/* How to build the graphs of a model. Call pz_workload_options_default() and change members. */
struct pz_workload_options {
  size_t size;            /* sizeof *this, set by the default function */
  int64_t seq;            /* tokens of a sample; 0 means the model's default */
  int64_t mbs;            /* samples of a microbatch, at least 1 */
  int64_t tp;             /* tensor-parallel degree, at least 1 */
  int64_t slice;          /* slice index; slices differ if tp does not divide the vocabulary */
  int64_t num_layers;     /* number of repeated layers; 0 means that of the model */
  bool sequence_parallel; /* norms, dropout and residuals divided over the tensor-parallel group */
  double dropout;         /* dropout probability; 0 means none, negative that of the model */
  enum pz_kernels kernels;
  enum pz_attention attention;
  enum pz_recompute recompute;
  bool input_gradients_only; /* gradients of weights cost nothing; for comparisons only */

  /* Options of ONNX files. */
  const char *dims[PZ_MOST_DIMS]; /* "NAME=SIZE" of symbolic dimensions, up to NULL; not copied */
  const char *layers;    /* a regular expression that groups nodes into layers by name, or NULL */
  const char *batch_dim; /* batch dimension of the inputs: its name, or INPUT:AXIS; may be NULL */
  enum pz_unknown_ops unknown_ops; /* treatment of unknown operator types */

  /* Options of presets and config.json files. */
  int64_t ep; /* expert-parallel degree: a device holds 1/ep of the experts; 0 means 1 */
  /* Devices over which each expert is divided; 0 means tp. Experts have their own grid if ep is
   * above 1 or etp differs from tp; with tp above 1 this requires sequence_parallel. */
  int64_t etp;
  bool mtp; /* include the multi-token-prediction layers of the configuration (DeepSeek-V3) */
  /* Context-parallel degree; 0 means 1. A device holds seq/cp tokens of each sample, as two pieces
   * of seq/(2 cp), one from each end, to balance causal attention. Requires flash attention. */
  int64_t cp;
  enum pz_context_form cp_form;
  /* The vocabulary is padded to a multiple of this; 0 means no padding. model_params and vocab of
   * the workload stay those of the model. */
  int64_t vocab_multiple;
  struct pz_lora {
    /* Rank of the low-rank adapters of linear layers (LoRA, arXiv 2106.09685), with all other
     * parameters frozen; 0 means no adapters. */
    int64_t rank;
    int modules;    /* layers with adapters, a set of enum pz_lora_module */
    double dropout; /* dropout probability of the inputs of adapters; 0 means none */
  } lora;
  const char *peft; /* text that replaces `lora` (see pz_lora_parse), or NULL; not copied */
  /* rows of this device's experts over the mean of the ep devices, at most all rows; 0 means 1 */
  double imbalance;
};

/* Linear layers that may have adapters. Megatron fuses query, key and value, and also gate and up,
 * into one layer each; the adapters of such a layer share their first matrix. */
enum pz_lora_module {
  PZ_LORA_QUERY = 1,
  PZ_LORA_KEY = 1 << 1,
  PZ_LORA_VALUE = 1 << 2,
  PZ_LORA_OUT = 1 << 3,
  PZ_LORA_GATE = 1 << 4,
  PZ_LORA_UP = 1 << 5,
  PZ_LORA_DOWN = 1 << 6,
  PZ_LORA_QUERY_DOWN = 1 << 7, /* latent attention, this and the next three */
  PZ_LORA_QUERY_UP = 1 << 8,
  PZ_LORA_KV_DOWN = 1 << 9,
  PZ_LORA_KV_UP = 1 << 10,
  PZ_LORA_SSM_IN = 1 << 11, /* state-space layers, this and the next */
  PZ_LORA_SSM_OUT = 1 << 12,
  PZ_LORA_SHARED = 1 << 13,        /* one first matrix for layers that Megatron fuses */
  PZ_LORA_AS_FRAMEWORK = 1 << 14,  /* PZ_LORA_SHARED if the framework is Megatron */
  PZ_LORA_SHARED_EXPERTS = 1 << 15 /* one adapter for all experts of a device */
};

/* Parses "none" or "lora:RANK:MODULES[:DROPOUT]"; MODULES are joined by +, or "all" or
 * "attention". */
PZ_NODISCARD PZ_API enum pz_status pz_lora_parse(const char *text, struct pz_lora *out,
                                                 struct pz_error *err);

/* Names of these choices in the order of the enums; each list ends with NULL. */
PZ_API extern const char *const pz_kernels_names[],
    *const pz_attention_names[], *const pz_recompute_names[], *const pz_unknown_ops_names[],
                                                                  *const pz_context_names[];

/* A part of a model's sequence of layers: `unit` (indices of layers), `repeats` times. */
struct pz_segment {
  const uint32_t *unit;
  uint32_t n_unit;
  int64_t repeats;
};

/* The operator graphs of a model, for one device and one microbatch. */
struct pz_workload {
  const char *model;
  const char *family;
  struct pz_workload_options options; /* with all defaults filled in */
  int64_t hidden, heads, kv_heads, ffn, vocab, positions;
  bool causal; /* a token attends only to earlier ones, as in a decoder */
  const struct pz_layer *layers;
  uint32_t n_layers;
  struct pz_totals totals;
  const char *warning; /* a sentence that the user should see, or NULL */

  /* The order of the layers. With one kind of repeated layer it is [embedding] x 1, [block] x L,
   * [head] x 1; with alternating kinds, as in Gemma 3, [embedding] x 1, [w, w, w, w, w, f] x 8,
   * [head] x 1; if the first layers differ, as in DeepSeek-V3, [embedding] x 1, [dense] x 3, [moe]
   * x 58, [head] x 1. The occurrences of a layer add up to its count. */
  const struct pz_segment *order;
  uint32_t n_order;
  int64_t head_dim;                   /* of queries and keys; 0 for ONNX files */
  int64_t experts, experts_per_token; /* routed experts; 0 in dense models */
  int64_t expert_groups; /* groups of experts (usually nodes) that a token may use; 0 means any */
};
PZ_API struct pz_workload_options pz_workload_options_default(void);

/* Builds the graphs of `model`: the name of a preset, or the path of a Hugging Face config.json or
 * of an ONNX file, whose name ends with .onnx and whose weights may be absent. The caller frees
 * *out. The call takes tens of microseconds for any number of layers. */
PZ_NODISCARD PZ_API enum pz_status pz_workload_load(const char *model,
                                                    const struct pz_workload_options *options,
                                                    struct pz_workload **out, struct pz_error *err);
/* Like pz_workload_load(), from the text of a config.json. Messages call it `name`. */
PZ_NODISCARD PZ_API enum pz_status pz_workload_parse(const char *name, const char *text,
                                                     size_t bytes,
                                                     const struct pz_workload_options *options,
                                                     struct pz_workload **out,
                                                     struct pz_error *err);
/* Like pz_workload_load(), within milliseconds, from the contents of an ONNX file, which it
 * does not keep. */
PZ_NODISCARD PZ_API enum pz_status pz_workload_parse_onnx(const char *name, const void *data,
                                                          size_t bytes,
                                                          const struct pz_workload_options *options,
                                                          struct pz_workload **out,
                                                          struct pz_error *err);
PZ_API void pz_workload_free(struct pz_workload *w); /* accepts NULL */

/* Writes a workload as JSON or as a Graphviz graph. The caller frees *text. */
enum pz_workload_form { PZ_WORKLOAD_JSON, PZ_WORKLOAD_DOT };
PZ_NODISCARD PZ_API enum pz_status pz_workload_text(const struct pz_workload *w,
                                                    enum pz_workload_form form, char **text,
                                                    struct pz_error *err);
/* Returns the name of preset i, or NULL after the last. */
PZ_API const char *pz_preset_name(size_t i);

/* Returns the name of preset i on Hugging Face ("meta-llama/Llama-3.1-70B"), or NULL. */
PZ_API const char *pz_preset_hub_name(size_t i);

/* Returns the preset that a word names, by its own name or that on Hugging Face, in upper or lower
 * case. Returns NULL if there is none, or if a file has this path. */
PZ_API const char *pz_preset_named(const char *word);

/* Return the name of a kind or class of operators, or "unknown" for other values. */
PZ_API const char *pz_op_kind_name(int kind);
PZ_API const char *pz_op_class_name(enum pz_op_class c);

/* ---- chips ---------------------------------------------------------------------------------- */
/* Technology nodes with published densities and energies. */
enum pz_tech {
  PZ_TECH_45NM,
  PZ_TECH_22NM,
  PZ_TECH_16NM, /* 16 and 12 nm */
  PZ_TECH_7NM,  /* 7 and 6 nm */
  PZ_TECH_5NM,  /* 5 and 4 nm */
  PZ_TECH_3NM,
  PZ_TECHS
};

/* Area, energy and price of components of a node; `phaze chips --constants` prints their sources.
 * For 45 and 22 nm only data of the original system's library is set. */
struct pz_tech_info {
  const char *name;
  double mac_um2, lane_um2; /* a multiplier of an array, a vector lane, with registers */
  double fp64_um2;          /* a 64-bit unit */
  double sram_um2_per_byte; /* memory of a core; 0 means the 22 nm library's tables of macros */
  double glb_um2_per_byte;
  double hbm_phy_um2;          /* interface and controller of one stack */
  double noc_um2;              /* port of one core */
  double glb_port_um2_per_gbs; /* port of a global buffer, for each 1e9 B/s */
  double link_um2_per_gbs;     /* PHY and controller, for each 1e9 B/s in one direction */
  double die_link_um2_per_gbs; /* between dies of a package, both ends */
  double io_um2;               /* of one die: host interface, management, test */
  double other_share;          /* area outside of the blocks, over their sum */
  double mac_j, lane_j; /* one multiply-accumulate (16 bits, 32-bit sum); one vector operation */
  double local_j, glb_j, hbm_j, link_j, die_link_j; /* energy to move one byte */
  double static_w_per_mm2, clock_w_per_mm2;         /* leakage; power of the running clock */
  double reference_hz;                              /* clock for which the energies are valid */
  double voltage_slope; /* relative change of the voltage over that of the clock */
  double voltage_floor; /* lowest voltage over that at reference_hz */
  double wafer_dollars, defects_per_cm2;
  double hbm_dollars_per_gb, package_dollars_per_mm2;
  double hbm_edge_mm, link_edge_mm_per_gbs; /* die edge that a stack or a link occupies */
  /* Cost of ownership: a chip's share of server and network, price of energy, power of the site
   * over that of the computers, and lifetime. */
  double server_dollars, network_dollars, energy_dollars_per_kwh, power_overhead, life_years;
};
/* Returns the data of a technology node, or NULL for other values. */
PZ_API const struct pz_tech_info *pz_tech_at(enum pz_tech tech);

/* A constant of the chip cost model, with its range over the sources. */
struct pz_silicon {
  const char *name, *unit, *kind, *source;
  double value[4], low, high; /* for 16, 7, 5 and 3 nm; low and high are factors on them */
  size_t offset;              /* offset of the member of struct pz_tech_info */
};
/* Returns constant i, or NULL after the last. */
PZ_API const struct pz_silicon *pz_silicon_at(size_t i);

/* A constant of unmeasured ("cold") chips: the part of a data-sheet figure that programs reach, the
 * same for all chips of a class, and its range over chips or sources. */
struct pz_cold_info {
  const char *name;
  double value, low, high;
  const char *kind, *source;
};
/* Returns constant i, or NULL after the last. */
PZ_API const struct pz_cold_info *pz_cold_at(size_t i);

/* Returns the standard deviation, over unmeasured chips, of the mean error of the predictions of
 * their published runs, as `phaze validate --cold` reports it. */
PZ_API double pz_cold_spread(void);

/* Another value for one of these constants. */
struct pz_cold_value {
  const char *name;
  double value;
};

/* A chip as a chip.json describes it. Its fields are accessed by name (pz_chip_number), so that new
 * fields need no change in programs. */
struct pz_chip;

/* Precision of the operands of the layers' GEMMs. */
enum pz_precision {
  PZ_PRECISION_BF16,  /* 16 bits */
  PZ_PRECISION_FP8,   /* 8 bits, with casts; attention, head and all other operators in 16 bits */
  PZ_PRECISION_FP16,  /* 16 bits with a shorter exponent, as fast as bf16 */
  PZ_PRECISION_NVFP4, /* 4 bits with one scale for 16 values, otherwise as FP8 */
  PZ_PRECISIONS
};

/* Scales of 8-bit operands: one per tensor from the largest values of earlier steps (delayed) or of
 * the same step (current), one per 128 values (128 x 128 of weights), or one per 32 (Blackwell). */
enum pz_fp8_recipe { PZ_FP8_DELAYED, PZ_FP8_CURRENT, PZ_FP8_BLOCKWISE, PZ_FP8_MX, PZ_FP8_RECIPES };

/* Modules whose GEMMs use more bits than the plan's precision, as a set (bf16_modules). */
enum pz_wide_module {
  PZ_WIDE_ATTENTION = 1,       /* projections of queries, keys, values and of the result */
  PZ_WIDE_LATENT = 2,          /* projections of experts in a latent space */
  PZ_WIDE_PREDICT = 4,         /* layers of multi-token prediction */
  PZ_WIDE_MAMBA_OUT = 8,       /* output of state-space layers, in mxfp8 if others use nvfp4 */
  PZ_WIDE_MAMBA_OUT_BF16 = 16, /* output of state-space layers, always in 16 bits */
  PZ_WIDE_ALL = 31
};

/* Rates that collectives reach over a link; 0 means the constant of the model. */
struct pz_collective_facts {
  double efficiency;        /* part of the link's rate that rings reach with large messages */
  double startup_s;         /* start of a collective between two devices */
  double switch_efficiency; /* part of the link's rate where switches reduce; 0 if they do not */
};

/* Area by component, for the components of the original system's library. */
struct pz_area {
  double tensor_um2, tensor_local_um2, vector_um2, vector_local_um2, glb_um2, hbm_um2;
};

/* These functions and the peak rates below do not check the fields of the chip. */
PZ_API struct pz_area pz_chip_area(const struct pz_chip *c);
PZ_API double pz_area_total_um2(const struct pz_area *a);

/* Returns the peak power in watts, which a search limits. It is that of the cost breakdown; chips
 * that run kernels on streams lower their clock for it, scheduled ones hold theirs with GEMMs at
 * full rate. At 45 and 22 nm everything runs at full speed at once. */
PZ_API double pz_chip_peak_watts(const struct pz_chip *c);

/* Returns the clock of GEMMs at full rate in Hz: for unmeasured chips the one that the power limit
 * allows, for others that of the chip. */
PZ_API double pz_chip_gemm_hz(const struct pz_chip *c);

/* The constants of a cost breakdown: the model's, or the lowest or highest of the sources. */
enum pz_bill_range { PZ_BILL_LIKELY, PZ_BILL_LOW, PZ_BILL_HIGH };

/* Cost breakdown of a chip: area of all dies by block, power, price and die edge. More of any
 * resource never lowers area, power, price or edge. At 45 and 22 nm the area excludes network on
 * chip, HBM, links and host interface, as in the original library, and prices are 0. */
struct pz_bill {
  int64_t dies;
  double tensor_mm2, tensor_local_mm2, vector_mm2, vector_local_mm2, fp64_mm2, glb_mm2, noc_mm2;
  double hbm_mm2, link_mm2, die_link_mm2, io_mm2, other_mm2, area_mm2; /* area_mm2 is the sum */
  double static_watts, link_watts;
  double product_watts, stream_watts; /* dynamic power: sustained GEMMs; reading HBM at full rate */
  double watts;                       /* static and link power plus the larger of these two */
  double die_dollars, hbm_dollars, package_dollars, dollars;
  double edge_mm, edge_room_mm; /* edge that HBM and links occupy, and edge of the dies */
};

/* Returns the cost breakdown of a chip. */
PZ_API struct pz_bill pz_chip_bill(const struct pz_chip *c, enum pz_bill_range range);

/* A part of the cost breakdown. */
struct pz_bill_part {
  const char *key, *label; /* name of the member; label for people */
  const char *unit;        /* "mm2", "W", "$" or "mm" */
  size_t offset;           /* of the member of struct pz_bill, a double */
};
/* Returns part i, or NULL after the last. */
PZ_API const struct pz_bill_part *pz_bill_part_at(size_t i);

/* Writes the cost breakdown as JSON: parts, sums and ranges. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_bill_text(const struct pz_chip *c, char **text,
                                                struct pz_error *err);

/* Published data of a real chip's dies, to judge its cost breakdown. */
struct pz_known {
  char die[32];      /* name that presets of one die share; "" if nothing is known */
  double mm2, watts; /* of all dies of the package; TDP; 0 if unknown */
  bool fitted;       /* the constants were fitted to this die */
};

/* Finds the published data of a preset; other chips have none. */
PZ_NODISCARD PZ_API enum pz_status pz_known_load(const char *chip, struct pz_known *out,
                                                 struct pz_error *err);

/* Returns the static power in watts, charged to operators by time; 0 for original libraries. */
PZ_API double pz_power_static_watts(const struct pz_chip *c);

/* Returns the technology of the chip's cores: that of the real dies if the package names one. Cost
 * breakdowns of chips of one technology can be compared. */
PZ_API enum pz_tech pz_chip_bill_tech(const struct pz_chip *c);

/* Loads a preset or a chip.json in about ten microseconds. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_load(const char *chip, struct pz_chip **out,
                                                struct pz_error *err);
/* Like pz_chip_load(), from the text of a chip.json. Messages call it `name`. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_parse(const char *name, const char *text, size_t bytes,
                                                 struct pz_chip **out, struct pz_error *err);

/* Copies a chip, to change fields of the copy. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_copy(const struct pz_chip *c, struct pz_chip **out,
                                                struct pz_error *err);
PZ_API void pz_chip_free(struct pz_chip *c); /* accepts NULL */

/* Returns the name of the chip, which lives as long as the chip. */
PZ_API const char *pz_chip_name(const struct pz_chip *c);

/* The type of a chip's field. */
enum pz_chip_kind { PZ_CHIP_INTEGER, PZ_CHIP_REAL, PZ_CHIP_FLAG, PZ_CHIP_WORD };

/* Returns the name of field i of chip.json, such as "clock_hz", "tensor.cores" or
 * "calibration.tensor_efficiency", or NULL after the last. Sets *kind unless it is NULL. */
PZ_API const char *pz_chip_field(size_t i, enum pz_chip_kind *kind);

/* Gets a number of a chip by its name; flags are 0 or 1. Also accepts
 * "calibration.kernels.KERNEL.NUMBER" for a kernel that the chip describes. Fields that the file
 * does not set have their default, or 0. Lists (calibration.tiles) are only in pz_chip_text(). For
 * an unknown name, the message of PZ_BAD_INPUT lists the accepted ones. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_number(const struct pz_chip *c, const char *field,
                                                  double *value, struct pz_error *err);

/* Sets a number of a chip. Returns PZ_BAD_INPUT for a value that a chip.json could not have. Fields
 * that contradict each other are reported by the function that uses the chip. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_set_number(struct pz_chip *c, const char *field,
                                                      double value, struct pz_error *err);

/* Get and set fields that are strings: name, about, tech, execution, precisions, package.tech,
 * package.io_tech. The caller frees *word. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_word(const struct pz_chip *c, const char *field,
                                                char **word, struct pz_error *err);
PZ_NODISCARD PZ_API enum pz_status pz_chip_set_word(struct pz_chip *c, const char *field,
                                                    const char *word, struct pz_error *err);

/* Writes the chip as a chip.json, which pz_chip_parse() reads. Returns PZ_BAD_INPUT if a field has
 * a value that no file could have. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_text(const struct pz_chip *c, char **text,
                                                struct pz_error *err);

/* Returns whether training frameworks run on the chip: it is a GPU, or its speed was measured.
 * Other chips exist only as descriptions. */
PZ_API bool pz_chip_built(const struct pz_chip *c);

/* Checks that the tensor cores support a precision; the message of PZ_BAD_USE lists the supported
 * ones. Chips that exist only as descriptions support all of them. */
PZ_NODISCARD PZ_API enum pz_status
pz_chip_can_run(const struct pz_chip *c, enum pz_precision precision, struct pz_error *err);

/* Return peak rates and HBM capacity of the whole chip. A multiply-accumulate is 2 FLOP. */
PZ_API double pz_chip_tensor_flop_per_s(const struct pz_chip *c);
PZ_API double pz_chip_vector_op_per_s(const struct pz_chip *c);
PZ_API double pz_chip_hbm_bytes_per_s(const struct pz_chip *c);
PZ_API int64_t pz_chip_hbm_bytes(const struct pz_chip *c);

/* Return the name of preset i, or NULL after the last; and its text, or NULL. */
PZ_API const char *pz_chip_preset_name(size_t i);
PZ_API const char *pz_chip_preset_text(const char *name);

/* ---- networks ------------------------------------------------------------------------------- */
enum { PZ_CLUSTER_MOST_LEVELS = 8, PZ_CLUSTER_MOST_AXES = 4 };

/* A level of a network: groups of devices with the same link. */
struct pz_level {
  char name[32];
  int64_t devices;    /* devices in one group of this level */
  double bytes_per_s; /* of one device in one direction, over all its links */
  double latency_s;   /* of one message */
  int n_axes; /* 0 if any device reaches any other; otherwise a torus with two links per axis */
  int64_t axis[PZ_CLUSTER_MOST_AXES]; /* sizes of the whole torus */
  /* On a torus, jobs that consist of whole cubes of this side have rings on all axes. Other jobs
   * have rings only on axes that span the torus, and lines on the others. */
  int64_t wrap;
  bool mesh; /* every two devices have a link, with equal parts of bytes_per_s */
  /* Rates of collectives over this level. A value of 0 means that of the chips (innermost level) or
   * of the model's constants. On outer levels startup_s is added to the start of large messages. */
  struct pz_collective_facts collectives;
};

/* A network of devices. Its levels are ordered from the innermost to the outermost. */
struct pz_cluster {
  char name[48], about[160];
  int64_t devices;
  int64_t stated_devices; /* devices before pz_cluster_reach() */
  bool scales;            /* the outermost level may have any number of devices */
  char chips[120];        /* names of its chips, separated by spaces; "" means any */
  bool standard;          /* the default network of these chips */
  int n_levels;
  struct pz_level level[PZ_CLUSTER_MOST_LEVELS];
  bool instant;             /* collectives and transfers between devices take no time */
  bool any_units;           /* accept numbers far outside of the usual range */
  char calibrated[160];     /* measurements to which its collectives were fitted; "" if none */
  double calibration_error; /* mean relative error of the fit for large messages */
};

/* Load a network: a preset, a cluster.json, or the text of one, which messages call `name`. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_load(const char *cluster, struct pz_cluster *out,
                                                   struct pz_error *err);
PZ_NODISCARD PZ_API enum pz_status pz_cluster_parse(const char *name, const char *text,
                                                    size_t bytes, struct pz_cluster *out,
                                                    struct pz_error *err);

/* Writes the text of a cluster.json. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_text(const struct pz_cluster *c, char **text,
                                                   struct pz_error *err);

/* Grows a network to at least this many devices at its outermost level, with unchanged rates.
 * Returns PZ_BAD_USE if it has fewer and does not scale. Messages name `option`, which asks for
 * the number. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_reach(struct pz_cluster *c, int64_t devices,
                                                    const char *option, struct pz_error *err);
/* Returns the name of preset i, or NULL after the last. */
PZ_API const char *pz_cluster_preset_name(size_t i);

/* Gets the default network of a chip. Returns false if none is known. */
PZ_API bool pz_cluster_standard(const char *chip, struct pz_cluster *out);

/* Returns the devices of a node: those of the largest level inside the outermost one that has at
 * most PZ_SERVER_DEVICES, otherwise those of the innermost level. */
PZ_API int64_t pz_cluster_node(const struct pz_cluster *c);

/* Returns whether this many devices need more of the network than the link of a chip, because they
 * fill more than one node or because the network is a torus or a mesh. */
PZ_API bool pz_cluster_needed(const struct pz_cluster *c, int64_t devices);

/* Devices of a node of chips without a known network. */
enum { PZ_SERVER_DEVICES = 8 };
/* Returns whether the network may contain this chip, as far as its description says. */
PZ_API bool pz_cluster_has_chip(const struct pz_cluster *c, const char *chip);

/* The network of a plan. */
struct pz_network {
  struct pz_cluster cluster;
  bool own_link;     /* there is no network, only the chip's own link */
  bool standard;     /* the default network of the chip */
  char warning[256]; /* warning if the chip is in a network of other chips or in none, or "" */
};

/* Finds the network for this many devices: `named`, scaled out, or if it is NULL the chip's default
 * network, if more than the chip's own link is needed. Messages name `option` as the source of the
 * number. Returns PZ_BAD_USE if there is neither a link nor a network. */
PZ_NODISCARD PZ_API enum pz_status pz_network_find(const struct pz_chip *chip,
                                                   const struct pz_cluster *named, int64_t devices,
                                                   const char *option, struct pz_network *out,
                                                   struct pz_error *err);

/* Lets collectives and transfers of this network take no time, also over the chip's own link. A
 * prediction then shows the compute time of a rank alone, the step without its bubble. */
PZ_API void pz_network_make_instant(struct pz_network *n, const struct pz_chip *chip,
                                    int64_t devices);

/* ---- cost of an operator -------------------------------------------------------------------- */
/* The resource that limits an operator. */
enum pz_bound {
  PZ_BOUND_COMPUTE,
  PZ_BOUND_HBM,
  PZ_BOUND_GLB,
  PZ_BOUND_LOCAL,
  PZ_BOUND_STARTUP,
  PZ_BOUND_LINK, /* collectives */
  PZ_BOUNDS
};
/* Returns the name of the resource. */
PZ_API const char *pz_bound_name(enum pz_bound b);

/* The estimate of one operator. */
struct pz_estimate {
  double latency_s;
  double energy_j;     /* dynamic energy, and static energy of the whole chip during the latency */
  double utilisation;  /* part of the tensor cores' peak that GEMMs reach; 0 for other operators */
  double hbm_s, glb_s; /* time of its traffic at the rates of HBM and of the global buffer */
  enum pz_bound bound;
};

/* A chip in a network with a cache of estimates. Each thread needs its own. */
struct pz_cost;

/* Makes an empty cache for a chip; if `net` is NULL, it has only its own link. The caller frees
 * *out. A new GEMM takes some microseconds, other operators less. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_new(const struct pz_chip *chip,
                                               const struct pz_cluster *net, struct pz_cost **out,
                                               struct pz_error *err);
PZ_API void pz_cost_free(struct pz_cost *cost); /* accepts NULL */

/* Estimates one operator of a layer. Returns PZ_BAD_USE for a collective without a link, or if its
 * group is larger than the network. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_op(struct pz_cost *cost, const struct pz_op *op,
                                              struct pz_estimate *out, struct pz_error *err);

/* A GEMM of `batch` pairs of matrices, m x k by k x n. */
struct pz_product {
  int64_t batch, m, n, k;
  bool warm; /* repeated on the same data, as in benchmarks: what fits stays in the global buffer */
};

enum pz_dim { PZ_DIM_M, PZ_DIM_N, PZ_DIM_K, PZ_DIMS };

/* Which operand is kept in a buffer while the other two stream through it: the results
 * (output-stationary), the second operand (weight-stationary) or the first (input-stationary).
 * Terms of Chen et al., Eyeriss, ISCA 2016. */
enum pz_stationary {
  PZ_STATIONARY_RESULTS,
  PZ_STATIONARY_WEIGHTS,
  PZ_STATIONARY_INPUTS,
  PZ_STATIONARITIES
};
/* Return the names of the values. */
PZ_API const char *pz_dim_name(enum pz_dim d);
PZ_API const char *pz_stationary_name(enum pz_stationary s);

/* The mapping of a GEMM to the tensor cores; doc/cost.md defines the mapspace. */
struct pz_mapping {
  int64_t tile[PZ_DIMS]; /* of one work item */
  int64_t items, rounds;
  enum pz_dim along_rows, along_cols;
  int64_t keep_rows, keep_cols; /* values that each multiplier keeps along each dimension */
  enum pz_stationary local_stationary;
  int64_t glb_tile[PZ_DIMS];
  enum pz_stationary glb_stationary;
  int64_t glb_batch; /* GEMMs of the batch in the global buffer at a time */
  double compute_s, local_s, glb_s, hbm_s, startup_s;
  double local_bytes, glb_bytes, hbm_bytes;
  double least_hbm_s; /* HBM time of the mapping with the least traffic past the global buffer */
  double latency_s;
  double energy_j;    /* dynamic energy */
  double utilisation; /* part of the multipliers' peak, over the latency */
  enum pz_bound bound;
};

/* Finds the mapping of a GEMM, from the cache if it was found before. Returns PZ_BAD_INPUT for
 * sizes below 1 or beyond the range of integers. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_product(struct pz_cost *cost, const struct pz_product *p,
                                                   struct pz_mapping *out, struct pz_error *err);

/* Estimates one optimizer step over `params` parameters, which reads and writes bytes_per_param
 * bytes for each. PZ_ADAM_BYTES is for Adam with 32-bit master weights and states: it reads
 * gradient 2, master 4, states 8, and writes 4 + 8 and the weight 2. */
enum { PZ_ADAM_BYTES = 28 };
PZ_API void pz_cost_optimizer(const struct pz_chip *c, double params, double bytes_per_param,
                              struct pz_estimate *out);

/* Return the chip, which lives as long as `cost`, and the numbers of estimates that were requested
 * and of those found in the cache. `asked` and `found` may be NULL. */
PZ_API const struct pz_chip *pz_cost_chip(const struct pz_cost *cost);
PZ_API void pz_cost_counts(const struct pz_cost *cost, uint64_t *asked, uint64_t *found);

/* ---- tables of operators -------------------------------------------------------------------- */
/* An operator of a table. */
struct pz_op_time {
  const char *op;
  int64_t batch, m, n, k;
  double us, measured_us; /* times in microseconds: predicted; measured, or 0 */
};

struct pz_op_times {
  struct pz_op_time *rows;
  uint32_t n_rows;
};

/* Predicts the operators of a table as a benchmark loop measures them, with repeated calls, so that
 * data that fits in the global buffer stays there. The CSV `text` has the columns op, batch (or b),
 * m, n, k, and extra for operators with another parameter (doc/cost.md). Messages call it `name`.
 * The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_cost_table(struct pz_cost *cost, const char *name,
                                                 const char *text, size_t bytes,
                                                 struct pz_op_times **out, struct pz_error *err);
PZ_API void pz_op_times_free(struct pz_op_times *t); /* accepts NULL */

/* Power of an operator that a chip runs repeatedly. */
struct pz_power {
  double latency_s, watts, joules; /* latency and energy are of one call */
  double clock_hz;
};

/* A measured operator with predictions of its power. */
struct pz_power_row {
  const char *op;
  int64_t m, n, k;
  double cap_watts, lock_hz;              /* limits of the measurement; 0 means those of the chip */
  double call_s, watts, clock_hz, joules; /* as measured, or 0 */
  /* `sustained` predicts calls without pauses. `called` predicts calls at the measured intervals,
   * because the host could not launch more often. */
  struct pz_power sustained, called;
  double throttled_s; /* latency at the fitted slower rate of sustained GEMMs */
};

struct pz_power_table {
  struct pz_power_row *rows;
  uint32_t n_rows;
};

/* Predicts the power of operators that ran for seconds. The CSV `text` has the columns op, b (or
 * batch), m, n, k, flop for the heads of attention, and optionally call_us, watts, sm_mhz and
 * joules_per_call as measured, and the limits cap_w and lock_mhz. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_power_table(const struct pz_chip *chip, const char *name,
                                                  const char *text, size_t bytes,
                                                  struct pz_power_table **out,
                                                  struct pz_error *err);
PZ_API void pz_power_table_free(struct pz_power_table *t); /* accepts NULL */

/* ---- calibration ---------------------------------------------------------------------------- */
/* Rows of an operator: their number, the number held out from the first fit, and mean errors:
 * before the fit, of both halves after the fit to one, and after the fit to all rows. */
struct pz_fit_residual {
  const char *op;
  uint32_t rows, held;
  double before, fitted_half, held_half, after;
};

/* A constant that the fit changed. */
struct pz_constant_change {
  char name[64];
  double before, after;
  bool at_bound; /* at the end of the range that a chip file accepts; values beyond fit better */
};

/* A group of constants that stays, because a fit to one half does not predict the other half
 * better. Errors are means over the rows of the other half, or over all rows. */
struct pz_rejected_fit {
  const char *name; /* a name as in `kept` */
  double before, fitted;
};

/* A calibrated chip. */
struct pz_calibrated {
  const struct pz_chip *chip;              /* the chip with the constants fitted to all rows */
  const struct pz_fit_residual *residuals; /* one for each operator with rows */
  uint32_t n_residuals;
  struct pz_fit_residual all;
  const struct pz_constant_change *changes;
  uint32_t n_changes;
  const char *const *kept; /* constants that no row shows: kernels, products, fp8 products */
  uint32_t n_kept;
  const struct pz_rejected_fit *rejected;
  uint32_t n_rejected;
  const char *const *notes; /* sentences about the tables and the fit */
  uint32_t n_notes;
};

struct pz_calibrate_options {
  size_t size;              /* sizeof *this, set by the default function */
  const char *ops;          /* path of a table of measured operators, or of a directory of tables */
  pz_progress_fn *progress; /* NULL if none */
  void *ctx;                /* context of `progress` */
};
PZ_API struct pz_calibrate_options pz_calibrate_options_default(void);

/* Fits the chip's constants to measured operators: first to every second row of each operator,
 * judged by the other rows, then to all. Constants that no row shows stay, and so do those of
 * groups whose mean error over the other rows does not fall. Returns PZ_BAD_INPUT for tables that
 * are unreadable or of another chip, and PZ_STOPPED if cancelled. The caller frees *out. The call
 * predicts each row some thousand times. */
PZ_NODISCARD PZ_API enum pz_status pz_calibrate(const struct pz_chip *chip,
                                                const struct pz_calibrate_options *options,
                                                struct pz_calibrated **out, struct pz_error *err);
PZ_API void pz_calibrated_free(struct pz_calibrated *c); /* accepts NULL */

/* A measured training step with predictions by the original chip, by a chip corrected with all
 * other steps (0 if there are none), and by a chip corrected with all steps. */
struct pz_step_residual {
  const char *id;
  double measured_s, before_s, left_out_s, after_s;
};

/* The correction factor of a part of the step, and the mean share of the part in the steps. */
struct pz_step_factor {
  const char *name; /* "gemms", "attention", "elementwise", "launches" or "collectives" */
  double factor, share;
};

/* Mean errors of the three predictions over `measured_s`. */
struct pz_step_errors {
  double before, left_out, after; /* left_out is NaN for one step */
};

/* A chip corrected by measured training steps. */
struct pz_step_calibration {
  const struct pz_chip *chip; /* the corrected chip; NULL if the steps are of several chips */
  const struct pz_step_residual *steps; /* steps that determine the factors */
  uint32_t n_steps;
  const struct pz_step_residual *held; /* held-out steps, which judge the factors; no left_out_s */
  uint32_t n_held;
  struct pz_step_errors errors, held_errors;
  const struct pz_step_factor *factors;
  uint32_t n_factors;
  const char *const *notes; /* sentences about the tables and the fit */
  uint32_t n_notes;
  const char *const *files; /* files that were read: tables, logs, plans, models, chips, clusters */
  uint32_t n_files;
};

struct pz_calibrate_steps_options {
  size_t size; /* sizeof *this, set by the default function */
  /* Path of a table for pz_runs_predict() with step_time_s, or comma-separated paths of logs of
   * Megatron-LM or torchtitan. */
  const char *steps;
  const char *plan; /* plan files, one for each log that does not state its plan, or NULL */
  const char *held; /* path of a table of held-out steps, or NULL */
  /* Chip and cluster of rows that name none, and the chip to correct if a table has several. NULL
   * means those of the rows. */
  const char *chip, *cluster;
  unsigned threads; /* 0 means one per processor */
  int64_t devices;  /* devices of logs that do not state them; 0 if all do */
};
PZ_API struct pz_calibrate_steps_options pz_calibrate_steps_options_default(void);

/* Corrects predictions by a few measured training steps. The times of GEMMs, attention,
 * element-wise operators, launches and collectives get a factor each, stored in the chip (its field
 * "correction") and used by every prediction of a training step. Because a few steps do not
 * determine five factors, each is changed only as far as the steps agree. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status
pz_calibrate_steps(const struct pz_calibrate_steps_options *options,
                   struct pz_step_calibration **out, struct pz_error *err);
PZ_API void pz_step_calibration_free(struct pz_step_calibration *c); /* accepts NULL */

/* Number of size classes of messages: up to 64 KiB, up to 16 MiB, larger ones, and all. */
enum { PZ_NETWORK_SIZES = 4 };

/* The fit of one level of a network. */
struct pz_network_level_fit {
  uint32_t rows; /* rows whose outermost level this is; its constants stay if there are none */
  double before_bytes_per_s, after_bytes_per_s; /* rate of a device that large messages reach */
  double before_s, after_s;       /* innermost level: collective start; others: message latency */
  double least_bytes, most_bytes; /* range of message sizes */
};

/* Errors of one test, by size class. */
struct pz_network_error {
  const char *test; /* for example "all_reduce"; the last is "all" */
  uint32_t rows[PZ_NETWORK_SIZES];
  double before[PZ_NETWORK_SIZES], after[PZ_NETWORK_SIZES]; /* mean relative errors */
};

/* A network fitted to measured collectives. */
struct pz_network_calibration {
  struct pz_cluster cluster; /* the calibrated network */
  const char *chip;          /* preset or file with the rates inside a node before the fit */
  const struct pz_network_level_fit *levels; /* one for each level of the cluster */
  const struct pz_network_error *tests;
  uint32_t n_tests;
  const char *const *notes; /* sentences about the logs and the fit */
  uint32_t n_notes;
  const char *const *files; /* logs that were read */
  uint32_t n_files;
};

struct pz_calibrate_network_options {
  size_t size;      /* sizeof *this, set by the default function */
  const char *logs; /* comma-separated paths of outputs of nccl-tests */
  const char *chip; /* NULL means the device that the logs name, or the first chip of the cluster */
  const char *cluster;  /* the network's data sheet; NULL means the default network of the chip */
  int64_t devices;      /* devices of every log; 0 means the ranks of the log */
  int64_t node_devices; /* devices of a node; 0 means as the ranks of the log */
};
PZ_API struct pz_calibrate_network_options pz_calibrate_network_options_default(void);

/* Fits efficiency and latency of each level of a network to collectives measured by nccl-tests.
 * Levels without rows stay. Returns PZ_BAD_INPUT for logs without rows, with contradictory numbers,
 * with an unknown test or number of devices, or faster than the data sheet of the network. The
 * caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status
pz_calibrate_network(const struct pz_calibrate_network_options *options,
                     struct pz_network_calibration **out, struct pz_error *err);
PZ_API void pz_network_calibration_free(struct pz_network_calibration *c); /* accepts NULL */

/* ---- schedule of a layer -------------------------------------------------------------------- */
/* Resources that operators share while they run concurrently. */
enum pz_resource {
  PZ_TENSOR_CORES,
  PZ_VECTOR_CORES,
  PZ_LINK,
  PZ_HBM_RATE, /* bandwidth of HBM, and of the global buffer */
  PZ_GLB_RATE,
  PZ_POWER, /* power limit of the chip minus its power at rest */
  PZ_RESOURCES
};

/* The modes in which an operator can run. */
enum pz_mode_set {
  /* On 1, 2, 4 ... all cores of its class; collectives use the link. Concurrent operators share the
   * rates of HBM and of the global buffer. */
  PZ_MODES_ALL,
  PZ_MODES_CORES, /* the same, but the rates of an operator depend only on its own cores */
  PZ_MODES_TWO,   /* as the original system: on one core or on all; collectives use a vector core */
};

/* With PZ_MODES_TWO: what an operator on all cores of its class excludes. */
enum pz_exclusive { PZ_EXCLUSIVE_ALL, PZ_EXCLUSIVE_CLASS };

enum pz_solver {
  PZ_SOLVER_EXACT, /* local search, bounds and tree search */
  PZ_SOLVER_ILP    /* an integer program solved by CBC, a reference for at most 128 operators */
};
/* Names of these choices, in the order of the enums; each list ends with NULL. */
PZ_API extern const char *const pz_modes_names[], *const pz_exclusive_names[],
                                                      *const pz_solver_names[];

/* Effort limits of the solver. PZ_LAYER_STEPS takes some milliseconds and proves most layers
 * optimal; it is the default of placements and searches. PZ_PASS_STEPS is for a pass in a predicted
 * step. PZ_SCHEDULE_STEPS is the command's: 16 million, less for more than 64 operators. */
enum { PZ_LAYER_STEPS = 60000, PZ_PASS_STEPS = 1000, PZ_SCHEDULE_STEPS = -1 };

struct pz_schedule_options {
  size_t size;   /* sizeof *this, set by the default function */
  int64_t steps; /* effort limit in steps of the solver */
  enum pz_mode_set modes;
  enum pz_exclusive exclusive; /* for PZ_MODES_TWO and instances */
  enum pz_solver solver;
  double seconds;      /* time limit of the integer program; 0 means 60 */
  const char *disable; /* comma-separated techniques of the exact solver to omit, or NULL */
  const char *lp;      /* path of a .lp or .mps file for the integer program, or NULL */
  bool views;          /* list views, too */
};
PZ_API struct pz_schedule_options pz_schedule_options_default(void);

/* An operator in a schedule. */
struct pz_scheduled_operator {
  const char *name;
  enum pz_op_class op_class;
  int64_t tensor_cores, vector_cores; /* cores that it uses */
  double start_s, end_s;
  double used[PZ_RESOURCES]; /* cores, link, parts of the rates */

  /* The following members are not stored by runs. */
  int64_t id;       /* index in its layer, or id in the file */
  const char *mode; /* number of cores of its class, "single", "intra", "link" or "none" */
  int64_t tensor_held, vector_held; /* blocked cores, including those that stay idle */
  double energy_j;
};

/* Why a solver stopped. */
enum pz_stop { PZ_STOP_PROVED, PZ_STOP_STEPS, PZ_STOP_TIME };

/* Effort and success of a technique of the exact solver. */
struct pz_technique_count {
  const char *name;
  int64_t calls;
  int64_t steps;      /* steps of searches, including those that they call */
  int64_t prunes;     /* nodes, starts or modes that it excluded */
  int64_t incumbents; /* schedules that were the best so far */
  double raised;      /* total increase of the lower bound */
};

/* The schedule of a layer on a chip in one direction, or of an instance in its own unit. */
struct pz_layer_schedule {
  const char *model; /* the instance's name, or NULL if unknown */
  const char *layer; /* NULL for an instance */
  int64_t count;     /* occurrences of the layer */
  enum pz_direction direction;
  double makespan_s, lower_bound_s;        /* no schedule is shorter than lower_bound_s */
  bool optimal;                            /* whether these two are equal */
  double use[PZ_RESOURCES];                /* utilisation of each resource over the makespan */
  struct pz_scheduled_operator *operators; /* without views, unless the options list them */
  uint32_t n_operators;
  double serial_s; /* time of the operators one after another in their fastest modes */

  /* The following members are not stored by runs. */
  bool limits[PZ_RESOURCES]; /* whether the resource is limited; cores and link always are */
  enum pz_stop stop;
  int64_t steps;
  struct pz_technique_count *techniques; /* all techniques, in a fixed order */
  uint32_t n_techniques;
};

/* Finds the shortest schedule of a direction of a layer within the effort limit. The result depends
 * only on the arguments and contains copies of all names. The caller frees *out. A step takes at
 * most some microseconds; most layers are proved optimal in milliseconds. */
PZ_NODISCARD PZ_API enum pz_status
pz_schedule_layer(struct pz_cost *cost, const struct pz_layer *layer, enum pz_direction direction,
                  const struct pz_schedule_options *options, struct pz_layer_schedule **out,
                  struct pz_error *err);
enum { PZ_INSTANCE_MOST_BYTES = 1 << 28 };
/* Like pz_schedule_layer(), for a problem in the original system's JSON format: {num_tc, num_vc,
 * ops: [{id, type: TC|VC|TCandVC|Nop, latency, intra_op_latency}], edges: [[before, after]]}, with
 * two modes for each operator and times in the file's unit. Messages call it `name`. */
PZ_NODISCARD PZ_API enum pz_status pz_schedule_instance(const char *name, const char *text,
                                                        size_t bytes,
                                                        const struct pz_schedule_options *options,
                                                        struct pz_layer_schedule **out,
                                                        struct pz_error *err);
PZ_API void pz_layer_schedule_free(struct pz_layer_schedule *s); /* accepts NULL */

/* Writes schedules as a trace-event file for Perfetto (JSON): each is a process that starts at time
 * 0, with lanes for concurrent operators and a counter for each resource. The caller frees *text.
 * Returns PZ_LIMIT for more than PZ_TRACE_MOST_OPS operators or a makespan above 1e12 us. */
enum { PZ_TRACE_MOST_OPS = 1 << 16 };
PZ_NODISCARD PZ_API enum pz_status pz_schedule_trace(const struct pz_layer_schedule *const *list,
                                                     uint32_t n, char **text, struct pz_error *err);

/* ---- plans ---------------------------------------------------------------------------------- */
/* Lists of choices that a user may have given. */
enum pz_list { PZ_LIST_TP = 1, PZ_LIST_MBS = 2 };

/* Receives a sentence that the user should see: a note on the model, or choices that were left out
 * and why. `lists` is a set of enum pz_list: the sentence concerns only entries of these lists and
 * may be dropped if they are defaults. If it is 0, the sentence always matters. */
typedef void pz_note_fn(void *ctx, unsigned lists, const char *text);

enum { PZ_CHOICES_MOST = 32 };
/* A list of numbers to choose from. */
struct pz_choices {
  int64_t v[PZ_CHOICES_MOST]; /* ascending and distinct */
  int n;
};

/* Parts of the time of a training step; they add up to it. */
struct pz_step_parts {
  double compute_s;     /* of the slowest stage, for the microbatches of a replica */
  double collectives_s; /* tensor-parallel collectives of the slowest stage */
  double transfers_s;   /* transfers between stages that compute does not hide */
  double bubble_s;      /* filling and draining the pipeline */
  double exchange_s;    /* gradient all-reduce between replicas */
};

/* Consecutive layers of the same name. */
struct pz_partition_layers {
  const char *name;
  uint32_t count;
};

/* A pipeline stage. Times are for one microbatch, bytes for one device. */
struct pz_partition_stage {
  const struct pz_partition_layers *layers; /* in the order of the model */
  uint32_t n_layers;                        /* entries of `layers` */
  uint32_t layer_count;                     /* layers in total */
  int64_t devices;              /* devices of the stage in one replica: its tensor-parallel group */
  double forward_s, backward_s; /* with transfers; backward with recomputation */
  double load_s;                /* sum of both */
  double param_bytes;
  double optimizer_bytes;  /* gradients and optimizer state */
  double activation_bytes; /* of the microbatch that runs */
  double in_flight_bytes;  /* saved for the other microbatches in flight */
  double memory_bytes;     /* sum of these */
};

/* A training plan of pz_partition_model(). Its pointers are owned by the struct pz_partitions or
 * struct pz_result that contains it. */
struct pz_partition {
  int64_t tp, dp;
  uint32_t pp;             /* number of stages */
  int64_t mbs, batch, seq; /* samples, samples, tokens of a sample */
  int64_t microbatches; /* of one replica in a step: the batch over mbs and replicas, rounded up */
  bool recompute;       /* recompute activations instead of saving them */
  int64_t devices_used;
  double hbm_bytes;       /* of a device */
  double step_s;          /* time of a global batch */
  double lower_bound_s;   /* lower bound for all plans; below step_s if schedules are open */
  double slowest_stage_s; /* time of a microbatch in the slowest stage */
  struct pz_step_parts parts;
  double samples_per_s, tokens_per_s;
  double flop_utilisation;   /* FLOP of GEMMs over the peak of the used devices */
  uint32_t n_open_schedules; /* layer schedules (by direction) that are not proved optimal */
  double worst_schedule_gap; /* largest gap of these: 1 - bound / makespan */
  struct pz_partition_stage *stages; /* from the first to the last */
};
/* Writes the layers of a stage ("embedding, block x 11") to buf and returns buf. */
PZ_API const char *pz_partition_stage_text(const struct pz_partition_stage *s, char *buf,
                                           size_t size);

struct pz_partition_options {
  size_t size;            /* sizeof *this, set by the default function */
  int64_t devices, batch; /* number of devices; global batch size in samples */
  struct pz_choices mbs;  /* microbatch sizes to try, in samples; n = 0 means 1, 2, 4, 8 */
  struct pz_choices tp;   /* tensor-parallel degrees to try; n = 0 means powers of two */
  int recompute;          /* PZ_RECOMPUTATION_NONE or _FULL; PZ_AS_FRAMEWORK means the faster one */
  double state;           /* training-state bytes per parameter byte: 3 with Adam, 2 with SGD */
  double hbm_bytes;       /* of a device; 0 means that of the chip */
  int64_t steps;          /* effort limit of each layer schedule */
  uint32_t n_next;        /* number of further plans to return, the best first; at most 999 */
  bool check;             /* check every plan by code that shares nothing with the solver */
  bool first_stage_gradients;          /* gradient all-reduce of the first stage, as originally */
  struct pz_workload_options workload; /* sequence length and options of ONNX files */
  pz_note_fn *note;                    /* receives notes for the user; may be NULL */
  void *note_ctx;
};
PZ_API struct pz_partition_options pz_partition_options_default(void);

/* Plans of a model on a chip, the best first. */
struct pz_partitions {
  struct pz_partition *plans;
  uint32_t n_plans; /* at least one */
};

/* Finds the fastest plan over stages, replicas, tensor-parallel degrees, microbatch sizes and
 * recomputation. It is exact for the layer times found; their bounds determine lower_bound_s.
 * `model` is as in pz_workload_load(); if `net` is NULL, the chip has only its own link. Returns
 * PZ_NO_ANSWER if no plan fits in memory, with a message that says what is missing. The caller
 * frees *out. The call takes milliseconds to seconds, depending on the number of variants. */
PZ_NODISCARD PZ_API enum pz_status pz_partition_model(const char *model, const struct pz_chip *chip,
                                                      const struct pz_cluster *net,
                                                      const struct pz_partition_options *options,
                                                      struct pz_partitions **out,
                                                      struct pz_error *err);
PZ_API void pz_partitions_free(struct pz_partitions *p); /* accepts NULL */

/* Writes a plan's pipeline as a trace-event file for Perfetto (JSON): a thread for each stage with
 * its microbatches (the first 2^17 events), in time slots of the slowest stage, then the gradient
 * all-reduce. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_partition_trace(const struct pz_partition *p,
                                                      const char *model, char **text,
                                                      struct pz_error *err);

struct pz_instance_options {
  size_t size;    /* sizeof *this, set by the default function */
  bool corrected; /* gradient all-reduce of the largest stage, not of the first */
  bool compat; /* divide the layers of the expert plan as the original program does, off by one */
  bool check;  /* check the plan by code that shares nothing with the solver */
};
PZ_API struct pz_instance_options pz_instance_options_default(void);

/* A stage of an instance's plan: the ids of its nodes and the time of a microbatch. */
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
  double step_s, slowest_stage_s, exchange_s; /* of a batch; of a microbatch; of the all-reduce */
  double hbm_bytes;                           /* of a device */
  double expert_s;    /* time of a batch with the expert plan of the instance */
  const char *expert; /* reason why there is no expert plan, or NULL */
  double solve_s;     /* time that the solver took */
};

/* Finds the fastest plan of a placement problem in the original program's JSON format (see `phaze
 * place --help`), and the time of its expert plan. Messages call it `name`. Returns PZ_NO_ANSWER if
 * no plan fits, with a message that says how much memory would suffice. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_partition_instance(const char *name, const char *text,
                                                         size_t bytes,
                                                         const struct pz_instance_options *options,
                                                         struct pz_instance_plan **out,
                                                         struct pz_error *err);
PZ_API void pz_instance_plan_free(struct pz_instance_plan *p); /* accepts NULL */

/* ---- predictions of training runs ----------------------------------------------------------- */
/* What is recomputed in the backward pass instead of saved. */
enum pz_recomputation {
  PZ_RECOMPUTATION_NONE,
  PZ_RECOMPUTATION_SELECTIVE, /* the attention core */
  PZ_RECOMPUTATION_FULL,      /* every layer */
  PZ_RECOMPUTATION_ALTERNATE, /* every second GEMM of a layer */
  PZ_RECOMPUTATION_HALF,      /* every second layer */
  PZ_RECOMPUTATIONS
};

/* How the operators of a device are executed. */
enum pz_execution {
  PZ_EXECUTION_EAGER,     /* kernels are launched one by one */
  PZ_EXECUTION_COMPILE,   /* element-wise kernels are fused, but still launched */
  PZ_EXECUTION_GRAPH,     /* no launches: CUDA graphs or compiled programs */
  PZ_EXECUTION_SERIAL,    /* one by one without launches, on chips whose cores could be scheduled */
  PZ_EXECUTION_SCHEDULED, /* operators and collectives run concurrently on scheduled cores */
  PZ_EXECUTIONS
};

/* Communication that a framework overlaps with compute, as a set. */
enum pz_overlap {
  PZ_OVERLAP_GRAD = 1,  /* reduction of gradients */
  PZ_OVERLAP_PARAM = 2, /* gathering of parameters */
  PZ_OVERLAP_TP = 4,    /* tensor-parallel collectives */
  PZ_OVERLAP_P2P = 8,   /* transfers between stages */
  PZ_OVERLAP_EP = 16,   /* all-to-all of experts, during another microbatch */
  PZ_OVERLAP_ALL = 31
};

/* Modules of a layer that selective recomputation recomputes, as a set. The names are those of
 * Megatron Core's --recompute-modules. */
enum pz_module {
  PZ_MODULE_NORM = 1,       /* layernorm */
  PZ_MODULE_ACTIVATION = 2, /* moe_act: activation of experts */
  PZ_MODULE_UP = 4,         /* mla_up_proj: queries, keys and values of latent attention */
  PZ_MODULE_MLP = 8,        /* mlp: of dense layers */
  PZ_MODULE_EXPERTS = 16,   /* moe */
  PZ_MODULE_SHARED = 32,    /* shared_experts */
  PZ_MODULE_CORE = 64,      /* core_attn */
  PZ_MODULE_ALL = 127
};

/* Modules of a layer that are captured in CUDA graphs, as a set. The names are those of Megatron
 * Core's --cuda-graph-modules. PZ_EXECUTION_GRAPH captures everything. */
enum pz_graph_module {
  PZ_GRAPH_ATTENTION = 1,   /* attn: with its norm */
  PZ_GRAPH_MLP = 2,         /* mlp: of dense layers, with its norm */
  PZ_GRAPH_ROUTER = 4,      /* moe_router: with its norm */
  PZ_GRAPH_PREPARATION = 8, /* moe_preprocess: work of the dispatcher before it sends tokens */
  PZ_GRAPH_MAMBA = 16,      /* mamba: Mamba-2 layers */
  PZ_GRAPH_ALL = 31
};

/* The optimizer's master copies of weights with fewer bits. */
enum pz_main_params {
  PZ_MAIN_FP32,
  PZ_MAIN_FP16,
  PZ_MAIN_REMAINDERS, /* the 16 bits of fp32 that bf16 weights lack */
  PZ_MAIN_NONE,       /* no copies: the weights themselves are updated */
  PZ_MAIN_KINDS
};

/* What is kept in host memory while it is not used, as a set. */
enum pz_offload {
  PZ_OFFLOAD_ACTIVATIONS = 1, /* between forward and backward */
  PZ_OFFLOAD_OPTIMIZER = 2,   /* state and master copies, which are updated on the host */
  PZ_OFFLOAD_ALL = 3
};

/* Modules of a layer whose saved inputs are offloaded if not the whole layer is, as a set. The
 * names are those of Megatron Core's --offload-modules. */
enum pz_offload_module {
  PZ_AWAY_ATTENTION_NORM = 1,
  PZ_AWAY_QKV = 2,
  PZ_AWAY_CORE = 4,
  PZ_AWAY_PROJECTION = 8,
  PZ_AWAY_MLP_NORM = 16,
  PZ_AWAY_EXPERT_UP = 32,         /* expert_fc1 */
  PZ_AWAY_EXPERT_ACTIVATION = 64, /* moe_act */
  PZ_AWAY_EXPERTS = 128,          /* fused_group_mlp: both, and the input of the last GEMM */
  PZ_AWAY_ALL = 255
};

/* The order in which the stages of a pipeline run their microbatches. */
enum pz_pipeline_order {
  PZ_PIPELINE_1F1B,
  PZ_PIPELINE_INTERLEAVED,
  PZ_PIPELINE_GPIPE,
  PZ_PIPELINE_ZB_H1, /* zero bubble: gradients of weights fill the gaps; needs the memory of 1F1B */
  PZ_PIPELINE_ZB_2P, /* zero bubble with about twice the microbatches in flight */
  PZ_PIPELINE_ZB_V,  /* zero bubble: stage k runs chunks k and 2 pp - 1 - k; memory of 1F1B */
  PZ_PIPELINE_DUALPIPE_V, /* chunks of ZB-V; forward overlaps backward of the other chunk */
  PZ_PIPELINE_DUALPIPE,   /* microbatches enter at both ends; two copies of the parameters */
  PZ_PIPELINES
};

/* GEMMs of a layer whose results are saved although the rest is recomputed, as a set. */
enum pz_saved {
  PZ_SAVED_QKV = 1,
  PZ_SAVED_CONTEXT = 2, /* result of attention */
  PZ_SAVED_OUT = 4,     /* output projection of attention */
  PZ_SAVED_MLP_IN = 8,
  PZ_SAVED_MLP_OUT = 16,
  PZ_SAVED_HOST = 32 /* the saved results are kept in host memory */
};

/* How tokens are sent to the devices of their experts and back. */
enum pz_dispatcher {
  PZ_DISPATCHER_ALLTOALL, /* an all-to-all of every copy of a token */
  PZ_DISPATCHER_DEEPEP,   /* a token is sent once to a node and once to a device, copied by cores */
  PZ_DISPATCHER_HYBRIDEP, /* the same, copied by copy engines at the links' rate */
  PZ_DISPATCHERS
};

/* Names of these choices, in the order of the enums (of sets: of their bits); each list ends with
 * NULL. pz_framework_names has the frameworks whose defaults and kernels are known. */
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
/* Returns the index of a framework in pz_framework_names, or -1 if it is unknown. */
PZ_API int pz_framework_find(const char *name);

/* Returns a chip's default framework: maxtext on TPUs and other compiled chips, else megatron. */
PZ_API int pz_framework_default(const struct pz_chip *c);

/* Value of a choice that is left to the framework. */
enum { PZ_AS_FRAMEWORK = -1 };

/* A training plan. Call pz_plan_default(), which leaves every field unset (the framework's default,
 * or derived from other fields), and change fields. phaze/plan_fields.def lists the fields with
 * meaning, unset value and range. */
struct pz_plan {
  size_t size; /* sizeof *this, set by the default function */
#define PZ_PLAN_FIELD(id, type, name, ...) type name;
#include "phaze/plan_fields.def"
#undef PZ_PLAN_FIELD
};

/* The fields of a plan by number (PZ_PLAN_TP ...); PZ_PLAN_PIN(TP) is a set of one. */
enum pz_plan_field {
#define PZ_PLAN_FIELD(id, ...) PZ_PLAN_##id,
#include "phaze/plan_fields.def"
#undef PZ_PLAN_FIELD
  PZ_PLAN_FIELDS
};
#define PZ_PLAN_PIN(id) (UINT64_C(1) << PZ_PLAN_##id)

PZ_API struct pz_plan pz_plan_default(void);

/* Return sets: fields that are set; fields that a search chooses unless pinned. */
PZ_API uint64_t pz_plan_given(const struct pz_plan *p);
PZ_API uint64_t pz_plan_searched(void);

/* Sets a field by its name ("tp", "recompute_modules") to a value in the form of plan files: "8",
 * "full", "grad,param". Returns PZ_BAD_USE for unknown names and values, with a message that says
 * what is accepted. The strings must outlive the plan. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_set(struct pz_plan *p, const char *name,
                                               const char *value, struct pz_error *err);

/* Return the name of a field, and buf with its value as text: "8", "selective", "grad,param", "on",
 * or "-" if it has none. The text has at most PZ_FIELD_TEXT_MOST bytes. */
PZ_API const char *pz_plan_field_name(enum pz_plan_field f);
PZ_API char *pz_plan_field_text(const struct pz_plan *p, enum pz_plan_field f, char *buf,
                                size_t size);
enum { PZ_FIELD_TEXT_MOST = 200 };
/* Returns the number of devices of a plan with unset fields, as far as it states them. */
PZ_API int64_t pz_plan_asked_devices(const struct pz_plan *p);

/* Parts of the time of a predicted step; they add up to it. */
struct pz_training_parts {
  double products_s, attention_s, elementwise_s;
  double launch_s;   /* waiting for launches by the host */
  double tensor_s;   /* exposed tensor- and context-parallel collectives */
  double expert_s;   /* exposed all-to-all of experts */
  double transfer_s; /* exposed transfers between stages, and offloading */
  double bubble_s;
  double gradient_s; /* exposed exchange of gradients and weights */
  double waiting_s;  /* waiting for the slowest device */
  double optimizer_s;
};

/* Memory of one device of a stage at its peak, by part. */
struct pz_training_memory {
  double weight_bytes, gradient_bytes, optimizer_bytes;
  double activation_bytes;    /* saved for backward, of all microbatches in flight */
  double work_bytes;          /* of the running layer: recomputed activations and workspace */
  double logit_bytes;         /* logits and loss */
  double communication_bytes; /* gathered weights, gradients not yet scattered, transfers */
  double reserve_bytes;       /* workspace of libraries */
};

/* A part of a step's time or of a device's memory. */
struct pz_part_info {
  const char *key;   /* name of the member, such as "products_s" */
  const char *label; /* label for people */
  size_t offset;     /* offset of the member, a double */
  size_t hidden;     /* offset in struct pz_prediction of the time hidden by compute, or 0 */
};
/* Return part i of struct pz_training_parts or pz_training_memory, or NULL after the last. */
PZ_API const struct pz_part_info *pz_time_part_at(size_t i);
PZ_API const struct pz_part_info *pz_memory_part_at(size_t i);

/* The prediction of a training step. */
struct pz_prediction {
  double step_s;
  struct pz_training_parts parts;
  double tensor_hidden_s, expert_hidden_s, gradient_hidden_s; /* communication hidden by compute */
  double bound_s; /* lower bound of the pipeline alone */
  double samples_per_s, tokens_per_s_per_device;
  /* Model FLOP utilisation of the data-sheet peak in the plan's precision: 6 FLOP per parameter and
   * token, without the embedding, and attention to the keys that a token attends to (half of a
   * causal sequence, a window, a chunk). hfu includes recomputation. */
  double mfu, hfu;
  struct pz_training_memory peak; /* of the stage with the highest peak */
  double peak_bytes;
  uint32_t peak_stage;
  int64_t microbatches;    /* of a replica in a step */
  double tokens, params;   /* tokens of a step, parameters of the model */
  double active_params;    /* parameters that a token uses, with only the chosen routed experts */
  double mfu_conventional; /* mfu with full attention in every layer, as papers report it */
  double usable_bytes;     /* HBM that the allocator can reserve, compared with needed_bytes */
  double host_bytes;       /* host memory for each device, of the stage with most; 0 if none */
  double offload_s;     /* exposed part of offloading activations, included in parts.transfer_s */
  double scan_layers;   /* layers with a state-space scan instead of attention */
  double sparse_layers; /* layers with attention to keys that an indexer chooses */
  double usable_host_bytes; /* usable host memory per device, compared with host_bytes */
  /* Bytes that the allocator reserves, of the stage with most: as predicted, and the ends of the
   * error interval of such plans. */
  double reserved_bytes, reserved_low_bytes, needed_bytes;
  double flop_per_s_per_device; /* FLOP counted as in mfu_conventional */
};

/* Returns the label of a part of this step ("attention and scans" with state-space layers). */
PZ_API const char *pz_time_part_label(const struct pz_prediction *p,
                                      const struct pz_part_info *part);

/* Return the value of a part, and how much of it is hidden. */
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

/* Returns whether the plan fits in the memory of the device and of the host. */
static inline bool pz_prediction_fits(const struct pz_prediction *p) {
  return p->needed_bytes <= p->usable_bytes && p->host_bytes <= p->usable_host_bytes;
}

/* A forward or backward pass of a chunk of a stage for one microbatch. */
struct pz_pipeline_event {
  uint32_t stage, chunk, microbatch;
  bool backward;
  double start_s, end_s;
};

/* A prediction with its details. */
struct pz_training_run {
  struct pz_plan plan; /* with all unset fields filled in */
  struct pz_prediction p;
  double hbm_bytes;                  /* of a device */
  struct pz_training_memory *stages; /* plan.pp entries */
  struct pz_pipeline_event *events;  /* of one replica; NULL if not requested */
  uint32_t n_events;
  struct pz_expectation {
    double error;      /* 8 of 10 such runs are within this part of the predicted step */
    uint32_t runs;     /* validated runs with the plan's rarest feature; 0 if unknown */
    char of[400];      /* sources of the error: "all runs 9%, experts 6%"; squares add up */
    char beyond[1000]; /* features of no validated run: "ZeRO-3 with experts", separated by "; " */
  } expected;
  int64_t layers;    /* repeated layers of the model, which stages divide */
  char refusal[480]; /* reason why the plan's framework cannot run it, or "" */
  /* launches take longer than the kernels that they start; such steps differ by up to 1.9 times
   * between runs of the same code */
  bool launch_bound;
  const char *layers_text;    /* "10 a stage", or "stage 1: 9; stages 2-7: 10; stage 8: 9" */
  const char *recompute_text; /* "none", "full", "stages 1-3: 4 of 10 layers; stage 4: none" */
  double *stage_s;            /* plan.pp entries: time of a device in a step, without the bubble */
  /* plan.pp entries: bytes that the allocator reserves on a device of each stage, which runs out of
   * memory when they reach its capacity */
  double *reserved_bytes;
  double watts; /* mean power of a device, at most that of the data sheet; 0 if unknown */
};

/* Predicts a plan as training frameworks run it: operators run one after another on a device, and
 * the pipeline is simulated event by event. `model` is as in pz_workload_load(); if `net` is NULL,
 * the chip has only its own link. If `events` is true, the events of the pipeline are returned.
 * Returns PZ_BAD_USE for an impossible plan, for example if degrees do not divide devices, heads or
 * batch. A plan that does not fit in memory is predicted like any other; see pz_prediction_fits().
 * The caller frees *out. The call takes milliseconds. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_predict(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                    const struct pz_plan *plan, bool events, struct pz_training_run **out,
                    struct pz_error *err);
PZ_API void pz_training_run_free(struct pz_training_run *r); /* accepts NULL */

/* Predictions of many plans. A plan has either a run or an error message. */
struct pz_training_sweep {
  struct pz_training_run **runs; /* by plan; NULL if it has an error */
  char **errors;                 /* by plan; NULL if it is predicted */
  uint32_t n;
};

/* Predicts many plans for one model like pz_training_predict(), but several times as fast, because
 * plans that differ only in stages, replicas, batch, ZeRO and recomputation share layer times. If
 * `threads` is 0, it uses one per processor. It succeeds even if no plan can be predicted. The
 * caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_sweep(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                  const struct pz_plan *plans, uint32_t n_plans, unsigned threads,
                  struct pz_training_sweep **out, struct pz_error *err);
PZ_API void pz_training_sweep_free(struct pz_training_sweep *sweep); /* accepts NULL */

/* Schedules of the passes of every layer of a plan on a chip with scheduled cores. */
struct pz_plan_schedules {
  struct pz_plan plan;            /* with all unset fields filled in */
  int64_t microbatches;           /* of a replica in a step, which runs each pass as often */
  struct pz_layer_schedule *list; /* in the order of the model, forward before backward */
  uint32_t n;
};

/* Schedules the passes of which a predicted step consists, for one microbatch: operators on cores
 * and collectives on the link, within the chip's power. Names of half microbatches end with "(1)"
 * and "(2)", those of recomputed operators begin with "again". The backward pass of recomputed
 * layers is listed separately as LAYER-recomputed. `count` sums over all stages, and `serial_s` is
 * the pass with operators one after another, as PZ_EXECUTION_SERIAL runs it; the step uses the
 * shorter of both. Arguments are as in pz_training_predict(). In the options, `modes` must be
 * PZ_MODES_ALL, and `lp` is one file per pass, with "-LAYER-PASS" before its extension. NULL
 * options mean PZ_PASS_STEPS, which yields the makespans of the predicted step. Returns PZ_BAD_USE
 * for chips and plans that run operators one after another. The caller frees *out. A solver step
 * takes some microseconds. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_schedule(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                     const struct pz_plan *plan, const struct pz_schedule_options *options,
                     struct pz_plan_schedules **out, struct pz_error *err);
PZ_API void pz_plan_schedules_free(struct pz_plan_schedules *s); /* accepts NULL */

/* Writes the plan in one line, such as "tp 8 sp, pp 8 x 2, dp 16, mbs 1, zero 1, recompute none",
 * with uneven division, FP8 or NVFP4, adapters and offloading if used. Returns buf;
 * PZ_PLAN_TEXT_MOST bytes suffice. */
PZ_API const char *pz_plan_text(const struct pz_plan *p, char *buf, size_t size);
enum { PZ_PLAN_TEXT_MOST = 500 };
/* Like pz_plan_text(), with the framework and more fields: "megatron: tp 8 with sp, pp 4 x 2
 * chunks, dp 16, zero 1, flash attention ..."; with recomputation if `recompute` is true.
 * PZ_PLAN_LINE_MOST bytes suffice. */
PZ_API const char *pz_plan_line(const struct pz_plan *p, bool recompute, char *buf, size_t size);
enum { PZ_PLAN_LINE_MOST = 640 };

/* Writes the simulated pipeline of a run with events as a trace-event file for Perfetto (JSON): a
 * thread per stage with its passes, then the exposed exchange of gradients and the optimizer.
 * Returns PZ_LIMIT for more than PZ_TRACE_MOST_EVENTS, above which viewers slow down, or for a step
 * of 1e6 s or more. The caller frees *text. */
enum { PZ_TRACE_MOST_EVENTS = 1 << 19 };
PZ_NODISCARD PZ_API enum pz_status pz_training_run_trace(const struct pz_training_run *r,
                                                         const char *model, char **text,
                                                         struct pz_error *err);

/* A field of a plan with its value and origin. */
struct pz_field_origin {
  const char *name, *value;
  const char *from; /* "given", "default of megatron", "--seq-length, line 12" */
  bool shown;       /* whether the field matters for this plan */
};

/* A constant of the model that matters for a plan. */
struct pz_constant_effect {
  const char *name, *unit, *kind, *source;
  double value;
  double step_change, memory_change; /* relative changes of step and peak memory */
  const char *part;                  /* the part of the step that changes most, or "memory" */
};

struct pz_explanation {
  struct pz_field_origin *fields; /* fields that matter for this plan */
  uint32_t n_fields;
  struct pz_constant_effect *constants; /* constants that change the prediction */
  uint32_t n_constants;
  double raised_by; /* relative change of each constant, one at a time: 0.1 */
};

/* Finds the origin of every field of a plan and the constants that matter, by a prediction for each
 * constant. Arguments are as in pz_training_predict(). The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_explain(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                    const struct pz_plan *plan, struct pz_explanation **out, struct pz_error *err);
PZ_API void pz_explanation_free(struct pz_explanation *e); /* accepts NULL */

/* Another plan for a run, and the options that change. */
struct pz_plan_change {
  struct pz_plan plan;      /* with all fields filled in */
  enum pz_plan_field field; /* the changed field, or PZ_PLAN_FIELDS if several */
  struct pz_prediction p;
  double gain;          /* part of the run's step that it saves; negative if it is slower */
  const char *options;  /* options of the command: "--tp 4 --dp 16" */
  const char *megatron; /* the same as Megatron's arguments, or NULL for other frameworks */
};

struct pz_plan_changes {
  struct pz_plan_change *list; /* fastest first */
  uint32_t n;
};

/* Finds changes with which the plan of a run fits in memory: single ones, or pairs if no single one
 * suffices; n is 0 if none does. Only the smallest numbers of layers to recompute or offload are
 * listed. Arguments are those of pz_training_predict() that made the run. The caller frees *out.
 * The call makes some tens of predictions, or their square. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_changes(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                    const struct pz_training_run *r, struct pz_plan_changes **out,
                    struct pz_error *err);
PZ_API void pz_plan_changes_free(struct pz_plan_changes *c); /* accepts NULL */

/* Layers of a stage (counted from 0), and how many of them are recomputed. */
struct pz_stage_layers {
  int64_t layers, again;
};
PZ_API struct pz_stage_layers pz_training_run_stage(const struct pz_training_run *r, int64_t stage);

/* What the best plan minimises: step time, memory of the fullest device, or device-seconds. */
enum pz_plan_objective { PZ_PLAN_TIME, PZ_PLAN_MEMORY, PZ_PLAN_COST, PZ_PLAN_OBJECTIVES };
PZ_API extern const char *const pz_plan_objective_names[];
PZ_API extern const char *const pz_plan_risk_names[]; /* by enum pz_plan_risk; ends with NULL */
PZ_API extern const char *const pz_software_names[];  /* by bit of enum pz_software */

/* Default time limit of a search for plans in seconds, after which its gap stays open. */
enum { PZ_PLAN_SECONDS = 300 };

/* Options of pz_training_place(). Call pz_training_place_options_default() and change members. */
struct pz_training_place_options {
  size_t size; /* sizeof *this, set by the default function */
  /* The question (framework, devices, batch, seq), values of pinned fields, and fields that are the
   * same in every plan (attention, execution ...). Plans use whole nodes, or a part of one. If
   * recomputation is pinned to full, plans recompute the fewest layers with which they fit. */
  struct pz_plan plan;
  uint64_t pinned; /* searched fields with the values of `plan`: a set of PZ_PLAN_PIN(TP) ... */

  int objective; /* enum pz_plan_objective */
  /* Plans whose step is at most this part longer than the fastest count as equal, and the simplest
   * of them is chosen; 0 chooses the fastest. */
  double tie;
  uint32_t top;             /* number of plans to return, of different kinds; at most 1000 */
  unsigned threads;         /* 0 means one per processor */
  bool uniform;             /* use the same recomputation in every stage */
  bool all_devices;         /* leave no device idle */
  bool events;              /* return the events of the best plan's pipeline */
  pz_progress_fn *progress; /* NULL if none */
  void *ctx;                /* context of `progress` */
  double tokens;            /* tokens of the run that has a deadline */
  /* Deadline of the run without failures: only plans that meet it are returned. If none does, the
   * fastest plans are returned and marked `late`. 0 means no deadline. */
  double deadline_s;
  double seconds; /* time limit, after which the best plans so far are returned; 0 means none */
  int risk;       /* enum pz_plan_risk */
  int without;    /* software that plans must not use, a set of enum pz_software */
};

/* Whether a plan's step time is multiplied by 1 + its expected error (struct pz_expectation), so
 * that an untested plan must be faster by what it risks. */
enum pz_plan_risk { PZ_RISK_COUNTED, PZ_RISK_NONE };

/* Software that a plan may need besides its framework. */
enum pz_software {
  PZ_SOFTWARE_TE = 1, /* Transformer Engine: tensor-parallel overlap, CUDA graphs */
  PZ_SOFTWARE_DEEPEP = 2,
  PZ_SOFTWARE_HYBRIDEP = 4,
  PZ_SOFTWARE_GRAPHS = 8 /* CUDA graphs */
};
PZ_API struct pz_training_place_options pz_training_place_options_default(void);

/* The proof that a plan is the best of its space. */
struct pz_plan_certificate {
  uint64_t plans;               /* plans of the space */
  uint64_t solved;              /* simulated plans */
  uint64_t by_bound, by_memory; /* plans excluded by a lower bound, and by memory */
  double gap; /* relative gap of the best plan to the lowest open bound; 0 if all are decided */
};

/* The best plans of a training run. */
struct pz_training_plans {
  /* The chosen plan, then the best of other kinds in order: with and without tensor, context,
   * pipeline and expert parallelism, ZeRO-3, and offload. */
  struct pz_training_run **runs;
  uint32_t n;                      /* 0 if nothing fits */
  struct pz_training_run *fastest; /* the fastest, if a simpler one was chosen, or NULL */
  int64_t experts;                 /* number of experts of the model */
  const char *warning;             /* a warning about the model, or "" */
  struct pz_training_run *least;   /* the plan that needs the least memory if none fits, or NULL */
  struct pz_plan_certificate certificate;
  struct pz_training_run *all_devices; /* the best without idle devices, or NULL if chosen */
  struct pz_switched {
    const char *option; /* for example "overlap tp (--tp-comm-overlap)" */
    double gain;        /* step time without the option over that with it, minus 1 */
  } * switched; /* options of the chosen plan that its framework does not enable by default */
  uint32_t n_switched;
  bool late;    /* no plan meets the deadline: these are the fastest */
  bool stopped; /* cancelled or out of time: these are the best so far, within certificate.gap */
};

/* Finds the best plans, as pz_training_predict() predicts them, over tensor and sequence
 * parallelism, stages and chunks, replicas, microbatch, ZeRO and recomputation by stage, within the
 * chip's memory. Returns PZ_BAD_USE if the question has no plan at all. If no fitting plan was
 * found yet, it returns PZ_STOPPED when cancelled and PZ_NO_ANSWER when out of time; later the
 * plans are marked `stopped`. The caller frees *out. The call takes a second or less, or minutes
 * with hundreds of layers. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_place(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                  const struct pz_training_place_options *options, struct pz_training_plans **out,
                  struct pz_error *err);
PZ_API void pz_training_plans_free(struct pz_training_plans *p); /* accepts NULL */

/* Explains why nothing fits (p->n is 0). Returns PZ_NO_ANSWER with a message that says what lacks
 * memory and which single changes make a plan fit (unpinning a field, more devices, more HBM,
 * shorter samples), or PZ_BAD_USE if no plan has the pinned degrees. If `weak` is true, the batch
 * grows with the devices. The call makes some searches. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_nothing_fits(const char *model, const struct pz_chip *chip,
                         const struct pz_cluster *net,
                         const struct pz_training_place_options *options, bool weak,
                         const struct pz_training_plans *p, struct pz_error *err);

/* Options of the cost of a whole training run. */
struct pz_run_cost_options {
  size_t size;         /* sizeof *this, set by the default function */
  double tokens;       /* tokens of the training run */
  double price;        /* dollars per device-hour; 0 if not requested */
  double mtbf_s;       /* mean time between failures of a device; 0 means no failures */
  double checkpoint_s; /* time to write a checkpoint; negative means by a documented rate */
  double restart_s;    /* time from a failure until training resumes; negative means a default */
};
PZ_API struct pz_run_cost_options pz_run_cost_options_default(void);

/* The cost of a training run. Failures of devices are independent and exponential, so that a job on
 * n devices fails every mtbf_s / n. The checkpoint interval is the cheapest one. */
struct pz_run_cost {
  double steps;
  double seconds; /* without failures and checkpoints */
  double device_hours, dollars;
  double energy_j; /* of the devices, at watts of the run or data sheet; 0 if unknown */

  /* With failures; 0 without. */
  double job_mtbf_s, checkpoint_s, restart_s;
  double interval_s; /* training time between two checkpoints */
  double goodput;    /* seconds over all_seconds */
  double all_seconds, all_device_hours, all_dollars, all_energy_j;
};

/* Computes the cost of a training run. Returns PZ_BAD_USE for numbers out of range, and
 * PZ_NO_ANSWER if failures are so frequent that the run never ends. */
PZ_NODISCARD PZ_API enum pz_status pz_run_cost(const struct pz_training_run *r,
                                               const struct pz_chip *chip,
                                               const struct pz_run_cost_options *options,
                                               struct pz_run_cost *out, struct pz_error *err);

/* ---- scaling -------------------------------------------------------------------------------- */
/* The best plan for a number of devices. */
struct pz_scaling_row {
  int64_t devices, batch;
  const struct pz_training_run *run; /* NULL if no plan fits, or none was found in time */
  double tokens_per_s_per_device;    /* over all devices, including idle ones; 0 if nothing fits */
  double efficiency;                 /* this rate over that of the first row with a plan */
  struct pz_training_plans *plans;   /* all plans that were found */
};

struct pz_scaling {
  bool weak; /* the batch grows with the devices */
  struct pz_scaling_row *rows;
  uint32_t n_rows;
};

/* Calls pz_training_place() for each number of devices, with the batch of the options, or if
 * batch_per_device is above 0 with this many samples per device. Returns PZ_NO_ANSWER if nothing
 * fits on any. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status
pz_training_scale(const char *model, const struct pz_chip *chip, const struct pz_cluster *net,
                  const struct pz_training_place_options *options, const struct pz_choices *devices,
                  int64_t batch_per_device, struct pz_scaling **out, struct pz_error *err);
PZ_API void pz_scaling_free(struct pz_scaling *s); /* accepts NULL */

/* Contents of a page of plans. Initialise it with zeros. */
struct pz_plan_page {
  size_t size; /* sizeof *this */
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;      /* NULL means the chip's own link */
  const struct pz_scaling_row *rows; /* by ascending number of devices; at least one has a run */
  uint32_t n_rows;
  bool weak;
  const char *explore; /* name of a page of `phaze explore` to link to, or NULL */
};

/* Writes plans as a self-contained HTML page: parts of the step, pipeline and memory over time, and
 * scaling. Each run is predicted again with its events. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_page(const struct pz_plan_page *page, char **text,
                                                size_t *bytes, struct pz_error *err);

/* ---- existing training runs
 * ------------------------------------------------------------------- */

/* Fields of a run in addition to those of its plan. */
enum { PZ_RUN_MODEL = PZ_PLAN_FIELDS, PZ_RUN_CHIP, PZ_RUN_CLUSTER, PZ_RUN_FIELDS };

/* A training run: its model, machine and plan, and the origin of each field. It is read by
 * pz_run_plan_read(), or made by setting model and plan in the result of pz_run_plan_default(). */
struct pz_run_plan {
  size_t size;                /* sizeof *this, set by the default function */
  const char *model;          /* name or path of the model, or the name of `config` */
  const char *config;         /* text of a config.json, or NULL to load `model` by name */
  const char *chip, *cluster; /* NULL if not stated */
  struct pz_plan plan;
  const char *from[PZ_RUN_FIELDS]; /* "given", or an argument and its line; NULL for a default */

  /* The following members are only set for Megatron's arguments. */
  bool megatron;         /* read from Megatron's arguments, not from a plan file or fields */
  int64_t layers, vocab; /* of the model */
  bool chunks_by_rank;   /* --num-virtual-stages-per-pipeline-rank, not layers per virtual stage */
  bool ends_as_layers;   /* --account-for-embedding-in-pipeline-split or ...-loss-... */
  bool p2p_off;          /* --no-overlap-p2p-communication */
  const char **ignored;  /* arguments without a known effect */
  uint32_t n_ignored;
  const char **notes; /* sentences for the user, for example on arguments with two values */
  uint32_t n_notes;
  double measured_s; /* step time from a log of the run; 0 if unknown */
};
PZ_API struct pz_run_plan pz_run_plan_default(void);

/* Sets the set fields of `given` in the plan of a run. Fields derived from their old values, such
 * as dp from tp, become unset. Lists of `given` must outlive the run. */
PZ_API void pz_run_plan_change(struct pz_run_plan *r, const struct pz_plan *given);

/* Makes a changed copy of a run. `changes` is a list such as "tp 8, pp 2, recompute full", options
 * of `phaze predict` ("--tp 8 --chip h200"), or another plan as printed by place and predict.
 * Devices and batch stay unless named, and overlap becomes the framework's default for the new
 * degrees. Returns PZ_BAD_USE for a word that is no field or value. The caller frees *out; the
 * strings of `r` must outlive it. */
PZ_NODISCARD PZ_API enum pz_status pz_run_plan_with(const struct pz_run_plan *r,
                                                    const char *changes, struct pz_run_plan **out,
                                                    struct pz_error *err);

/* Options of pz_run_plan_read(): values that a file may leave open. */
struct pz_run_plan_options {
  size_t size;               /* sizeof *this, set by the default function */
  int64_t devices;           /* 0 means those of the file */
  int64_t vocab;             /* vocabulary, 0 means as stated; this and the next two for Megatron */
  const char *const *set;    /* NAME=VALUE for variables of the script, up to NULL; or NULL */
  const char *const *ignore; /* unsupported arguments to ignore, ending with NULL; NULL if none */
  const char *log;           /* text of a log of the run, for measured_s; or NULL */
  const char *log_name;      /* its name in messages; NULL means "the log" */
};
PZ_API struct pz_run_plan_options pz_run_plan_options_default(void);

enum { PZ_PLAN_FILE_MOST_BYTES = 4 << 20 };
/* Reads a run from a plan file (JSON with the names of `phaze predict --json`, or all of that
 * output), from Megatron-LM's arguments in a launch script or a plain list, from torchtitan's TOML
 * configuration, or from a script of pz_launch_text(). Messages call it `name`; that of
 * PZ_BAD_INPUT says what is missing, unknown, unsupported or wrong. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_run_plan_read(const char *name, const char *text,
                                                    size_t bytes,
                                                    const struct pz_run_plan_options *options,
                                                    struct pz_run_plan **out, struct pz_error *err);
PZ_API void pz_run_plan_free(struct pz_run_plan *r); /* accepts NULL */

/* Writes a run as a plan file for pz_run_plan_read(). The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_run_plan_text(const struct pz_run_plan *r, char **text,
                                                    struct pz_error *err);

struct pz_tune_options {
  size_t size;              /* sizeof *this, set by the default function */
  unsigned threads;         /* 0 means one per processor */
  pz_progress_fn *progress; /* NULL if none */
  void *ctx;                /* context of `progress` */
  double measured_s; /* measured step time, by which all times are corrected; 0 if not measured */
  double seconds;    /* time limit, after which the best plans so far are returned; 0 means none */
};
PZ_API struct pz_tune_options pz_tune_options_default(void);

/* A run, the best plan for the same model, devices and batch, and the most effective single
 * changes. Its framework can run all of them. */
struct pz_plan_tuning {
  struct pz_training_run own;     /* the run as it is */
  struct pz_field_origin *fields; /* model, chip, cluster and the fields of the plan */
  uint32_t n_fields;
  double limit_bytes; /* memory limit: usable bytes, or more if the run needs more */
  bool fits;          /* whether the run fits */
  bool has_best;      /* whether a plan was found that fits */
  const char *why;    /* reason why there is no plan to search, or NULL */
  double least_bytes; /* if none fits, those of the plan that needs the least memory */
  struct pz_plan_change best;
  struct pz_plan_certificate certificate;
  bool has_overlapped; /* the run disables overlaps; `overlapped` is the best plan with them */
  struct pz_plan_change overlapped;
  struct pz_plan_change *changes; /* single changes that fit, faster if the run fits */
  uint32_t n_changes;
  uint32_t n_tried;
  double uncorrected_s; /* predicted step of the run if it was measured, otherwise 0 */
  bool stopped;         /* cancelled or out of time: the best so far, within certificate.gap */
};

/* Tunes a run on a chip in a network (NULL means the chip's own link) by two searches. Framework,
 * attention, execution and gradient types stay. Returns PZ_BAD_USE for an impossible plan, and
 * PZ_STOPPED if cancelled before a plan was found. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_tune(const struct pz_run_plan *r,
                                                const struct pz_chip *chip,
                                                const struct pz_cluster *net,
                                                const struct pz_tune_options *options,
                                                struct pz_plan_tuning **out, struct pz_error *err);
PZ_API void pz_plan_tuning_free(struct pz_plan_tuning *t); /* accepts NULL */

/* A run with its chip and network (NULL means the chip's own link). */
struct pz_diff_side {
  size_t size; /* sizeof *this */
  const struct pz_run_plan *run;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
};

/* A field in which two runs differ: model, chip, cluster or a field of the plan. */
struct pz_field_difference {
  const char *name, *a, *b;
};

/* A change on the path from one run to the other. */
struct pz_diff_change {
  const char *change; /* "tp 8 -> 4", or "pp 4 -> 2, vpp 2 -> 1" if neither runs alone */
  uint32_t fields; /* number of fields that change together; model, chip and cluster count as one */
  struct pz_plan plan;       /* the plan after the change, with all fields filled in */
  struct pz_prediction p;    /* prediction of that plan */
  double step_s, peak_bytes; /* change of step time and peak memory */
};

/* The comparison of two runs. The terms of the step (pz_time_part_at) and of the fullest device's
 * memory (pz_memory_part_at) are those of a.p and b.p. Their differences add up to those of step
 * and peak, as do those of the changes on the path. */
struct pz_plan_diff {
  struct pz_training_run a, b;
  struct pz_field_difference *fields;
  uint32_t n_fields;
  struct pz_diff_change *path; /* from a to b, which is the last; empty if the runs are equal */
  uint32_t n_path;
  const char *changes; /* changes of the path with b's values: "tp 8, pp 2", or "" */
  /* b compared with a, such as "is 6.3% slower: +0.9 s tensor-parallel collectives, -0.1 s GEMMs",
   * "does not fit: ...", or "is refused: ..." with the rule of its framework. */
  const char *verdict;
};

/* Compares two runs by some tens of predictions. The path changes fields in a plan's order, and
 * those together that do not run alone; effects depend on the changes before. Returns PZ_BAD_USE
 * for an impossible plan. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_plan_diff(const struct pz_diff_side *a,
                                                const struct pz_diff_side *b,
                                                struct pz_plan_diff **out, struct pz_error *err);
PZ_API void pz_plan_diff_free(struct pz_plan_diff *d); /* accepts NULL */

/* ---- launch scripts ------------------------------------------------------------------------- */
/* Frameworks with launch scripts, ending with NULL; the first is "none". */
PZ_API extern const char *const pz_launch_names[];

/* Checks that launch scripts exist for this model, chip (GPUs only) and framework (an index of
 * pz_framework_names). The message of PZ_NO_ANSWER or PZ_BAD_USE says why not. */
PZ_NODISCARD PZ_API enum pz_status pz_launch_check(const char *model, const struct pz_chip *chip,
                                                   int framework, struct pz_error *err);

/* Writes the complete launch script of a plan whose fields are all filled in, as in struct
 * pz_training_run. If `net` is NULL, nodes have at most 8 devices. Returns the errors of
 * pz_launch_check(), and PZ_BAD_USE for a plan that the framework cannot run, with a message that
 * says what is accepted. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_launch_text(const char *model, const struct pz_chip *chip,
                                                  const struct pz_cluster *net,
                                                  const struct pz_plan *plan, char **text,
                                                  struct pz_error *err);

/* ---- rehearsals ------------------------------------------------------------------------------ */
/* Writes the bash script of a rehearsal. A rehearsal runs single ranks of a plan, each alone on one
 * GPU: it measures their memory and compute, so that only the network and the pipeline's bubble
 * remain predicted. The script runs the first and the last stage and the one with the most memory,
 * and prints CSV. `launch` is the text of the run's own launch script, which is executed unchanged
 * if it starts torchrun; otherwise, or if it is NULL, the script is that of pz_launch_text(). `set`
 * lists NAME=VALUE for variables of that script and ends with NULL; it may be NULL. Returns
 * PZ_BAD_USE for frameworks other than torchtitan and megatron. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_rehearsal_script(const struct pz_diff_side *side,
                                                       const char *launch, const char *const *set,
                                                       char **text, struct pz_error *err);

/* Measurements of a rank: compute time of a step in seconds; bytes allocated between two steps,
 * bytes of all tensors at the peak, and bytes reserved by the allocator. */
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

enum { PZ_REHEARSAL_MOST_BYTES = 1 << 20 }; /* largest file of results */
/* A rank of a rehearsal. */
struct pz_rehearsed_rank {
  int64_t rank, stage; /* counted from 0 */
  int64_t microbatches;
  enum pz_rank_status status;
  double predicted[PZ_REHEARSAL_MEASURES]; /* prediction of what ran, if parts were left out */
  double measured[PZ_REHEARSAL_MEASURES];  /* 0 if unknown */
  double corrected_s;  /* compute time predicted with the corrected chip; 0 if not measured */
  double needed_bytes; /* memory of the whole plan by measured reserved bytes; 0 if unknown */
  double usable_bytes; /* memory that the allocator can reserve on the device */
  const char *left_out, *message;
};

/* The results of a rehearsal. */
struct pz_rehearsal {
  char plan[17];                                    /* digest of the plan */
  const char *framework, *version, *torch, *device; /* as reported by the first rank that ran */
  struct pz_rehearsed_rank *ranks;
  uint32_t n_ranks;
  bool fits;          /* no rank ran out of memory or would need more than is usable */
  bool complete;      /* every decisive stage has a rank that ran or ran out of memory */
  double spare_bytes; /* spare memory of the fullest rank, may be negative; not after PZ_RANK_OOM */
  struct pz_prediction p, corrected; /* predictions before and after the correction */
  const struct pz_chip *chip;        /* the corrected chip; NULL if no rank's time was measured */
  const struct pz_step_factor *factors;
  uint32_t n_factors;
  const char *const *notes; /* sentences for the user, for example on parts that were left out */
  uint32_t n_notes;
};

/* Compares the printed results of a rehearsal with the prediction of the plan, and corrects the
 * chip's compute factors; the factor of collectives stays. Messages call the results `name`.
 * Returns PZ_BAD_INPUT if they are incomplete or of another plan, and PZ_NO_ANSWER if no rank ran.
 * The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_rehearsal_read(const struct pz_diff_side *side,
                                                     const char *name, const char *text,
                                                     size_t bytes, struct pz_rehearsal **out,
                                                     struct pz_error *err);
PZ_API void pz_rehearsal_free(struct pz_rehearsal *r); /* accepts NULL */

/* ---- interactive page ------------------------------------------------------------------------ */
/* Initial contents of the page of `phaze explore`. */
struct pz_explore_options {
  size_t size;                /* sizeof *this, set by the default function */
  const char *const *models;  /* names or paths of config.json files, ending with NULL */
  const char *chip, *cluster; /* names or paths of files; cluster is NULL if none */
  struct pz_plan plan;        /* set fields are pinned; unset devices and batch are 64 and 512 */
  const char *wasm;           /* path of explore.wasm of this version */
};
PZ_API struct pz_explore_options pz_explore_options_default(void);

/* Writes an HTML page that finds plans by itself while the user changes chip and run; it works
 * offline. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_explore_page(const struct pz_explore_options *options,
                                                   char **text, size_t *bytes,
                                                   struct pz_error *err);

/* ---- design spaces -------------------------------------------------------------------------- */
/* A design space: a grid of chips for each technology, array shape and HBM generation. */
struct pz_space;

/* Open a design space: a preset or the space.json at a path, or the text of a space.json, which
 * messages call `name`. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_space_open(const char *space, struct pz_space **out,
                                                 struct pz_error *err);
PZ_NODISCARD PZ_API enum pz_status pz_space_open_text(const char *name, const char *text,
                                                      size_t bytes, struct pz_space **out,
                                                      struct pz_error *err);
PZ_API void pz_space_close(struct pz_space *s); /* accepts NULL */

/* Writes the fields of a file that users write ("chip", "cluster" or "space") as a JSON object with
 * a list "fields" of objects: field (with dots), unit, accepted, required, default (a value) or
 * absent (in words), and meaning. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_file_fields(const char *file, char **text,
                                                  struct pz_error *err);
PZ_API extern const char *const pz_file_names[]; /* ends with NULL */

/* Writes a design space as JSON: the keys of its file, the number of "chips" and, if they can be
 * listed, "within", the number within the budget (see struct pz_study_options; NULL means the base
 * chip's area), with "limit_mm2". The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_space_describe(const struct pz_space *s, const char *budget,
                                                     char **text, struct pz_error *err);
/* Returns the name of preset i, or NULL after the last. */
PZ_API const char *pz_space_preset_name(size_t i);

/* ---- search --------------------------------------------------------------------------------- */
enum { PZ_SEARCH_MOST_MODELS = 64 };

/* The objective of a search, over the models' throughputs in samples/s. */
enum pz_objective_kind {
  PZ_OBJECTIVE_GEOMEAN,    /* geometric mean of throughputs over those of the reference chip */
  PZ_OBJECTIVE_MEAN,       /* arithmetic mean of throughputs, as in the original system */
  PZ_OBJECTIVE_WEIGHTED,   /* weighted geometric mean */
  PZ_OBJECTIVE_REGRET,     /* smallest ratio of a model's throughput to that on its own best chip */
  PZ_OBJECTIVE_PER_WATT,   /* geometric mean per peak watt, over the reference chip's */
  PZ_OBJECTIVE_PER_MM2,    /* geometric mean per area, over the reference chip's */
  PZ_OBJECTIVE_PER_DOLLAR, /* geometric mean per dollar of price, over the reference chip's */
  PZ_OBJECTIVE_PER_OWNERSHIP, /* geometric mean per dollar of chip, server, network, energy */
  PZ_OBJECTIVE_PER_JOULE,     /* geometric mean of samples per joule */
  PZ_OBJECTIVES
};
PZ_API extern const char *const pz_objective_names[]; /* ends with NULL */

/* Returns the unit of an objective: "times the reference", "samples/s". */
PZ_API const char *pz_objective_unit(enum pz_objective_kind kind);

/* How a chip is evaluated. */
enum pz_evaluator_kind {
  PZ_EVALUATOR_DEFAULT, /* original in the space `paper`, otherwise training */
  /* The best training plan of every model, as pz_training_place() finds it for chips that run
   * compiled programs, in a network of scale-up groups. */
  PZ_EVALUATOR_TRAINING,
  PZ_EVALUATOR_ORIGINAL, /* layers scheduled, then pipelined, as in the original */
  PZ_EVALUATORS
};
PZ_API extern const char *const pz_evaluator_names[]; /* ends with NULL */

/* The question of a search. Call pz_study_options_default() and change members. The caller owns the
 * strings, which must live as long as the run. */
struct pz_study_options {
  size_t size;                               /* sizeof *this, set by the default function */
  const char *models[PZ_SEARCH_MOST_MODELS]; /* or MODEL@SEQ, MODEL@SEQxBATCH (training) */
  uint32_t n_models;
  const char *space, *space_text; /* name or file; and its contents to use instead, or NULL */
  const char *node;               /* a technology of the space; NULL means all */
  const char *budget; /* chip or mm2; NULL means the limits below or the base chip's area */
  double limit_mm2, limit_watts, limit_dollars; /* limits of a chip; 0 means none */
  enum pz_evaluator_kind evaluator;
  int64_t devices, batch;
  enum pz_objective_kind objective;
  double weight[PZ_SEARCH_MOST_MODELS];
  bool each_model; /* also the best chip of each model (always with evaluator original) */
  double gap;      /* the search ends at this gap; negative: 1%, or 0 for the original */
  int64_t rounds;  /* effort limit for each objective, in rounds of 64 boxes; 0 means none */
  double seconds;  /* time limit for each objective; 0 means none */
  bool exhaustive, pareto; /* evaluate every chip within the limits; find the Pareto front, too */
  double pareto_tolerance; /* every chip of the front is within this part of a returned one */
  struct pz_workload_options workload; /* seq = 0: that of each model; mbs, tp: searched */

  /* The following two members belong to the evaluator training. */
  int64_t scale_up;         /* devices joined by the chip's own links */
  double outer_bytes_per_s; /* rate of a device to devices outside of its scale-up group */

  /* The following six members belong to the evaluator original. */
  const char *cluster, *cluster_text; /* name or file; and its contents to use instead, or NULL */
  struct pz_choices mbs, hbm_gib, tp;
  double state;  /* bytes of parameters, gradients and optimizer state per byte of parameters */
  int64_t steps; /* effort limit of decisive schedules */
  unsigned assumptions; /* a set of pz_assumptions; 0 if none */

  bool serial; /* evaluator training: run operators one after another instead of scheduling them */

  const char *precision, *peft; /* for pz_chips_compare() and pz_chips_rent(); may be NULL */

  uint32_t n_weight; /* entries of `weight` for the weighted objective: n_models, or 0 if unset */

  const char *fp8_recipe, *moment_bytes, *mtp, *offload; /* as precision and peft */
  const char *memory_margin; /* evaluator training: as in pz_plan_set(), or NULL */
};

/* Returns the defaults: a batch of 4096 on 1024 devices, microbatches of 1 to 32, degrees of 1 to
 * 8, 32, 64 or 80 GiB, and the design space and the network `paper`. */
PZ_API struct pz_study_options pz_study_options_default(void);

/* ---- result --------------------------------------------------------------------------------- */
/* How a search for one objective decided a chip. */
enum pz_chip_status_kind {
  PZ_CHIP_EXCLUDED_BY_TABLES,    /* its bound, or that of its box, is not above the best */
  PZ_CHIP_EXCLUDED_BY_SCHEDULES, /* nor is its bound with schedules of some models */
  PZ_CHIP_EVALUATED,             /* the best plan of every model was found */
  PZ_CHIP_STATUSES
};

struct pz_chip_status {
  enum pz_chip_status_kind kind;
  double value; /* the objective if evaluated, otherwise the bound that excluded it */
  double bound; /* upper bound; above value only if schedules are not proved optimal */
};

/* ---- result: what was asked ----------------------------------------------------------------- */
struct pz_result_input_model {
  const char *name;
  int64_t seq;        /* tokens of a sample */
  const char *digest; /* digest of its graphs */
};

struct pz_result_inputs {
  struct pz_study_options options; /* as used; the result owns the strings */
  struct pz_result_input_model models[PZ_SEARCH_MOST_MODELS];
  const char *space_name, *space_about;
  const char *cluster_name, *cluster_about; /* of the evaluator original, otherwise "" */
  double base_mm2;                          /* area of the space's base chip; 0 if it has none */
  const char *json;                         /* all inputs in the form of run files */
};

/* ---- result: the best chips ----------------------------------------------------------------- */
/* Summary of the ratios to the reference chip, as a mean may rest on one model. */
struct pz_ratios {
  uint32_t n_models; /* models with a reference; with fewer than 2 there are no ratios */
  double geometric_mean, median;
  const char *least_model, *most_model; /* the first of equal ones */
  double least, most;
};

/* A model on a chip, by the evaluator training. */
struct pz_training_answer {
  struct pz_plan plan;
  double step_s, mfu, mfu_conventional;
  double joules; /* energy of a step on all devices */
  double peak_bytes, usable_bytes;
  struct pz_training_parts parts;
  double full_watts;  /* mean power of a device over the step; 0 if unknown */
  double limit_watts; /* power limit for which its clock was lowered */
};

/* A model on the best chip. */
struct pz_answer_model {
  const char *model;
  double samples_per_s;
  double ratio;                    /* over the reference's throughput; NaN without reference */
  const struct pz_partition *plan; /* of the evaluator original, otherwise NULL */
  const struct pz_training_answer *training; /* of the evaluator training, otherwise NULL */
};

/* The proof that no chip of the space is better. */
struct pz_certificate {
  int64_t n_chips; /* chips of the space; the next four are all of them but the open ones */
  int64_t n_infeasible, n_excluded; /* in boxes beyond limits; in boxes excluded by bounds */
  int64_t n_excluded_by_schedules;  /* excluded after some models had been evaluated */
  int64_t n_evaluated;
  int64_t n_boxes, n_rounds;
  int64_t n_open; /* schedules not proved optimal */
  double gap;     /* another chip is better by at most this part */
  bool finished;  /* the requested gap is proved */
};

/* The uncertainty of the ratio of two throughputs on unmeasured chips. */
struct pz_uncertainty {
  double spread;    /* pz_cold_spread(), or 0 if unknown */
  double low, high; /* value over and times 1 + sqrt(2) spread (both chips err) */
};

/* The best chip for one model, or for all models. */
struct pz_answer {
  const char *name; /* name of the model, or "common" */
  const struct pz_chip *chip;
  uint64_t chip_id;                                     /* index in the full grid of the space */
  double hbm_gib, area_mm2, area_part, peak_watts;      /* area_part: over the limit, or 0 */
  double dollars, owner_dollars, edge_mm, edge_room_mm; /* 0 if the technology has no prices */
  double objective;
  struct pz_uncertainty uncertainty; /* of the objective */
  struct pz_answer_model *models;
  uint32_t n_models;
  struct pz_ratios ratios;
  struct pz_certificate certificate;
  const struct pz_chip_status *status; /* indexed by chip of the result; NULL if not listed */
};

/* The degrees of a plan. */
struct pz_reference_plan {
  int64_t tp, pp, dp, mbs;
  bool recompute;
};

/* A model on the reference chip. */
struct pz_result_reference {
  const char *model;
  double samples_per_s, hbm_gib;             /* 0 if nothing fits */
  bool expert;                               /* with an expert's plan instead of the best one */
  const struct pz_reference_plan *plan;      /* the expert's plan, otherwise NULL */
  const struct pz_training_answer *training; /* of the evaluator training, otherwise NULL */
};

struct pz_result_chip_summary {
  const char *name;
  double area_mm2, peak_watts, dollars;
  double clock_hz, tdp_watts; /* tdp_watts is that of the data sheet, or 0 */
  const char *breaks;         /* the limit of the search that it violates, or NULL */
};

/* A model on a chip one step from the best chip, with its best plan there. */
struct pz_step_answer {
  const char *model;
  double step_s;
  struct pz_training_parts parts;
  const char *plan; /* as written by pz_plan_text() */
};

/* A chip one step from the best chip on one axis. */
struct pz_result_step {
  const char *parameter;
  const char *from, *to;
  double objective, change, change_at_most; /* changes are relative to the best chip's objective */
  double area_mm2, peak_watts, dollars;
  const char *breaks; /* the limit that it violates, or NULL */
  /* Evaluator training: the part of the step that grows most (or shrinks most if the objective
   * rises), and its change, as a mean over the models relative to their steps on the best chip.
   * NULL if nothing fits, or for the other evaluator. */
  const char *where;
  double where_change;
  struct pz_step_answer *models; /* as in the best answer; empty if a model does not fit */
  uint32_t n_models;
};

/* A constant of unmeasured chips (pz_cold_at) at an end of its range. */
struct pz_moved_constant {
  const char *constant;
  double value;
  double objective, change; /* of the best chip; change relative to its usual objective */
  const char *better;       /* best other chip, if better by more than the tolerance, or NULL */
  double better_by;         /* relative to the best chip's objective */
};

/* Whether the best chip stays the best if constants change. Candidates are the best evaluated chips
 * of each kind, and nearly equal chips one or two steps from the best on the axes. */
struct pz_robustness {
  struct pz_moved_constant *moves; /* those that change something */
  uint32_t n_moves, n_candidates;
  double tolerance; /* the gap of the search */
  bool robust;      /* no move has a better candidate */
};

/* Objective of the best chip without schedules, to show their benefit. */
struct pz_executions {
  double serial; /* with the operators of a layer one after another */
  double whole;  /* with schedules, but without splitting microbatches into halves */
};

struct pz_result_front_chip {
  const char *chip;
  double objective, area_mm2, peak_watts;
  bool knee;
};

struct pz_result_front {
  struct pz_result_front_chip *points; /* ordered by area */
  uint32_t n_points;
  double tolerance;       /* every chip of the front is within this part of a listed one */
  uint32_t n_front_chips; /* chips of the whole front */
  uint32_t n_evaluated;
};

/* ---- result: other ways to choose ----------------------------------------------------------- */
struct pz_method_model {
  const char *model;
  double samples_per_s;
  double ratio; /* NaN without reference */
  bool expert_plan;
};

/* The name of the method that is the search itself. */
#define PZ_METHOD_SEARCH "search"

/* The chip that one method of choosing finds. */
struct pz_method_result {
  const char *name, *about;
  const char *chip; /* NULL if it finds none */
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
  double hbm_gib, area_mm2, area_part, objective;
  struct pz_ratios ratios;
  struct pz_method_model *models;
  uint32_t n_models;
  uint32_t n_evaluated; /* chips that it evaluated */
  double seconds;       /* its duration; 0 if not measured, for example when read from a run */
};

/* All methods for one objective; the last is the search. */
struct pz_comparison_run {
  const char *name; /* name of the answer */
  struct pz_method_result *methods;
  uint32_t n_methods;
};

struct pz_comparison {
  uint64_t seed;
  struct pz_comparison_run *runs;
  uint32_t n_runs;
};

/* ---- result: details ------------------------------------------------------------------------ */
/* Description of a chip of the space. */
struct pz_result_chip {
  uint64_t id;
  const char *name;
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
  double area_mm2, watts;
};

/* A model on an evaluated chip, with the parts of its step and the utilisation of the chip's
 * resources while the repeated layer runs. */
struct pz_chip_plan {
  uint64_t chip_id;
  uint32_t model;
  double samples_per_s;
  int64_t tp, pp, dp, mbs;
  bool recompute;
  struct pz_step_parts parts;
  double use[PZ_RESOURCES];
};

/* A chip evaluated for an objective, or a chip of the requested front. */
struct pz_shown_chip {
  uint32_t answer; /* index of the answer */
  uint64_t chip_id;
  double value, bound; /* of the objective */
  bool evaluated;      /* evaluated for the objective, not only for the front */
};

enum { PZ_MOST_SHOWN = 250 };
struct pz_result_detail {
  struct pz_shown_chip *shown; /* for each answer, the best first, at most PZ_MOST_SHOWN */
  uint32_t n_shown;
  struct pz_chip_plan *plans; /* of evaluated chips, by chip and model */
  uint32_t n_plans;
  struct pz_layer_schedule *schedules;
  uint32_t n_schedules;
};

/* ---- result: the whole ---------------------------------------------------------------------- */
struct pz_arena; /* private to the library */

/* The result of a search. */
struct pz_result {
  struct pz_result_inputs inputs;
  struct pz_answer *answers; /* one for each model, then the common one; or a single one */
  uint32_t n_answers;
  struct pz_result_reference *references; /* one for each model */
  uint32_t n_references;
  struct pz_result_chip_summary reference_chip;
  struct pz_result_step *sensitivity;
  uint32_t n_sensitivity;
  struct pz_robustness *robustness;   /* evaluator training if the gap is proved, otherwise NULL */
  struct pz_executions *executions;   /* as robustness, if operators are scheduled */
  struct pz_result_front *front;      /* NULL if not requested */
  struct pz_comparison *comparison;   /* NULL if not made */
  struct pz_result_detail *detail;    /* NULL if not made; for training only schedules */
  const char *training_detail;        /* JSON of the evaluator training; NULL if not made */
  const struct pz_result_chip *chips; /* with the detail: chips of the space, by id */
  uint32_t n_chips;
  struct pz_arena *arena; /* owns the result */
};

/* Returns the chip of the space with this id, or NULL. */
PZ_API const struct pz_result_chip *pz_result_chip(const struct pz_result *r, uint64_t id);

/* Forms of a result's text. */
enum pz_result_form {
  PZ_RESULT_JSON,   /* the result of the search */
  PZ_RESULT_REPORT, /* JSON: the tables of the report */
  PZ_RESULT_PAGE    /* HTML: the report, which works offline */
};

/* Writes a result. Returns PZ_BAD_USE for a report before pz_run_detail() and, with the evaluator
 * original, pz_run_compare(). The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_result_text(const struct pz_result *r,
                                                  enum pz_result_form form, char **text,
                                                  size_t *bytes, struct pz_error *err);

/* Default seed of random baselines. */
enum { PZ_COMPARE_SEED = 1 };

/* ---- runs ----------------------------------------------------------------------------------- */
struct pz_run_options {
  size_t size;              /* sizeof *this, set by the default function */
  const char *dir;          /* directory that stores every part of the run for reuse, or NULL */
  bool fresh;               /* move an existing run in `dir` aside */
  unsigned threads;         /* 0 means one per processor */
  pz_progress_fn *progress; /* NULL if none */
  void *ctx;                /* context of `progress` */
};
PZ_API struct pz_run_options pz_run_options_default(void);

/* Durations of the parts of a run; 0 if not done. */
struct pz_run_times {
  double bounds_s, search_s, result_s;
  uint64_t n_variants; /* number of evaluated workload variants */
};

/* A search, optionally stored in a directory. */
struct pz_run;

/* Reads and checks the inputs and opens the directory without searching. Returns PZ_BAD_INPUT for a
 * directory with another run, and PZ_IO if another process uses it. Any number of runs may be open
 * in as many threads. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_run_open(const struct pz_study_options *study,
                                               const struct pz_run_options *options,
                                               struct pz_run **out, struct pz_error *err);

/* Opens the finished run in a directory without writing there. Its result is available at once;
 * pz_run_compare() and pz_run_detail() add to it in memory. Returns PZ_IO if there is no run, and
 * PZ_BAD_INPUT for an unfinished run or one of another version. The caller frees *out. */
PZ_NODISCARD PZ_API enum pz_status pz_run_look(const struct pz_run_options *options,
                                               struct pz_run **out, struct pz_error *err);

/* Searches, or loads the result from the directory. Does nothing after a success. Returns
 * PZ_NO_ANSWER if a model fits on no chip, and PZ_STOPPED if cancelled; the directory then stores
 * what was found so far, and the call may be repeated. The result is the same for any number of
 * threads. The call takes seconds for the space `paper` and six models. */
PZ_NODISCARD PZ_API enum pz_status pz_run_search(struct pz_run *run, struct pz_error *err);

/* Compares the search with the other methods: loads the comparison from the directory if it was
 * made with this seed (NULL means any), or runs every baseline, which takes longer than the search.
 * Returns PZ_BAD_USE unless the evaluator original has searched, and PZ_STOPPED if cancelled. */
PZ_NODISCARD PZ_API enum pz_status pz_run_compare(struct pz_run *run, const uint64_t *seed,
                                                  struct pz_error *err);

/* Makes the details of a report, or loads them from the directory, within seconds. Returns
 * PZ_BAD_USE before the search, and PZ_STOPPED if cancelled. */
PZ_NODISCARD PZ_API enum pz_status pz_run_detail(struct pz_run *run, struct pz_error *err);

/* Returns what was found so far, with n_answers 0 before the search. It lives as long as the run;
 * later calls add to it and move nothing. */
PZ_API const struct pz_result *pz_run_result(const struct pz_run *run);

/* Return whether the result was loaded from the directory, whether anything new was found, the
 * durations, and the number of threads. */
PZ_API bool pz_run_reused(const struct pz_run *run);
PZ_API bool pz_run_changed(const struct pz_run *run);
PZ_API struct pz_run_times pz_run_times(const struct pz_run *run);
PZ_API unsigned pz_run_threads(const struct pz_run *run);
/* Returns the network, scaled out to the devices; NULL if the run was opened by pz_run_look(). */
PZ_API const struct pz_cluster *pz_run_cluster(const struct pz_run *run);

/* Returns note i on the models, or NULL after the last; `lists` is as in pz_note_fn. */
PZ_API const char *pz_run_note(const struct pz_run *run, uint32_t i, unsigned *lists);
PZ_API void pz_run_close(struct pz_run *run); /* accepts NULL */

/* ---- the original system's assumptions ------------------------------------------------------ */
/* Assumptions of the original system's released code that this program does not share. */
enum pz_assumption {
  PZ_ASSUME_FAST_NETWORK,        /* milliseconds of compute are added to seconds of communication */
  PZ_ASSUME_NO_WEIGHT_GRADIENTS, /* the backward pass of a GEMM is one GEMM, not two */
  PZ_ASSUME_FIXED_BANDWIDTH,     /* fixed limit of on-chip words per cycle */
  PZ_ASSUME_SHIFTED_EXPERT,      /* the expert plan's stages are off by one layer */
  PZ_ASSUME_FIRST_STAGE,         /* only gradients of the first stage are all-reduced */
  PZ_ASSUME_ARITHMETIC_MEAN,     /* the chip with the largest sum of samples/s wins */
  PZ_ASSUMPTIONS
};

typedef unsigned pz_assumptions; /* a set of bits 1 << enum pz_assumption */

enum { PZ_ASSUME_ALL = (1 << PZ_ASSUMPTIONS) - 1 };
struct pz_assumption_info {
  const char *name;      /* name in tables and JSON */
  const char *corrected; /* what this program assumes instead */
};
/* Returns the name and the meaning of an assumption, or NULL for other values. */
PZ_API const struct pz_assumption_info *pz_assumption_at(enum pz_assumption a);

/* Returns whether a set contains an assumption. */
static inline bool pz_assumed(pz_assumptions set, enum pz_assumption a) { return set >> a & 1; }

enum { PZ_ORIGINAL_MOST_ROWS = 2 * PZ_ASSUMPTIONS + 2 };
/* A search with some of the assumptions. */
struct pz_original_row {
  pz_assumptions assumptions; /* the assumptions of the search */
  bool walk;                  /* the chip is the one at which the original's walk stops */
  bool alone;                 /* one assumption in this program's own model, not in the sequence */
  char chip[48];              /* name of the common chip, with its memory */
  double hbm_gib, area_part;  /* area_part is over the budget */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  double reference[PZ_SEARCH_MOST_MODELS]; /* samples/s of tpuv4 with the expert plan; 0 if none */
  double gap; /* no chip's objective is higher by more than this part; 0 if proved the best */
};

struct pz_original {
  struct pz_original_row rows[PZ_ORIGINAL_MOST_ROWS];
  uint32_t n_rows;
  const char *models[PZ_SEARCH_MOST_MODELS]; /* owned by the caller */
  uint32_t n_models;
};

/* Runs all searches. Options are those of a study, whose assumptions and objective are ignored. The
 * original's optimizer state (SGD) is not among the assumptions; `o->state` applies to all rows. If
 * `alone` is true, each assumption is also tested by itself. `threads`, `progress` and `ctx` are as
 * in struct pz_run_options. The call makes five searches for a common chip, eight with `alone`. */
PZ_NODISCARD PZ_API enum pz_status pz_original_run(const struct pz_study_options *o, bool alone,
                                                   unsigned threads, pz_progress_fn *progress,
                                                   void *ctx, struct pz_original *out,
                                                   struct pz_error *err);

/* ---- comparison of chips --------------------------------------------------------------------- */
/* Compares chips by their best training plan for every model, each chip in its usual network. Of
 * the study, models, devices, batch, sequence and network are used; if `cluster` is NULL, each chip
 * has its own network. `chips` is a comma-separated list of names, chip.json files and directories
 * of saved searches. If `cold` is true, all are predicted from their data sheets, without
 * measurements. *text is JSON {chips: [...]}, with a flat object for each chip and model: area,
 * peak watts, dollars, and if it fits time, power, energy and plan. `ratio` is over the first chip
 * (0 if that has no plan). `known` says how a chip's times are known: measured (operators),
 * published runs, calibrated (a chip.json that does not say by what) or cold. `expected_error` is
 * the mean error of such chips' published runs, null for calibrated. `run` sets threads and
 * progress, and may be NULL. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_chips_compare(const struct pz_study_options *study,
                                                    const char *chips, bool cold,
                                                    const struct pz_run_options *run, char **text,
                                                    struct pz_error *err);

enum { PZ_PRICES_MOST_BYTES = 1 << 20 };
/* Options of pz_chips_rent(). Call pz_rent_options_default() and change members. */
struct pz_rent_options {
  size_t size;               /* sizeof *this, set by the default function */
  struct pz_choices devices; /* numbers of devices to rent; n = 0 means that of the study */
  double tokens;             /* tokens of the run */
  double price;              /* dollars per device-hour of every chip; 0 if not requested */
  const char *prices;        /* text of a CSV table chip,dollars_per_device_hour, or NULL */
  const char *prices_name;   /* name of the table in messages */
  double deadline_s;         /* 0 if none */
};
PZ_API struct pz_rent_options pz_rent_options_default(void);
/* Like pz_chips_compare(), for a training run on a number of tokens, with a row for each chip,
 * number of devices and model. Rows contain `devices`, and if they fit `days` and `device_hours`,
 * and with a price `dollars_per_device_hour`, `run_dollars` and `tokens_per_dollar`. The members
 * _low and _high of days and run_dollars are the range of the chip's expected error (null if
 * unknown); `ratio` is over the first row. Training is counted without failures, checkpoints,
 * restarts, storage and outgoing traffic; pz_run_cost() includes failures. With a deadline, a
 * single number of devices is the most available, and the plan uses the cheapest number that meets
 * it; several numbers are used as they are. `deadline` is "met", "uncertain" (met, but not at the
 * upper end of the error) or "missed". With prices, `cheapest` is true in the cheapest row of each
 * model that does not miss the deadline. Returns PZ_BAD_INPUT for a table without one of the
 * chips. */
PZ_NODISCARD PZ_API enum pz_status pz_chips_rent(const struct pz_study_options *study,
                                                 const char *chips, bool cold,
                                                 const struct pz_rent_options *rent,
                                                 const struct pz_run_options *run, char **text,
                                                 struct pz_error *err);

/* ---- verification --------------------------------------------------------------------------- */
struct pz_verify_options {
  size_t size;      /* sizeof *this, set by the default function */
  unsigned threads; /* 0 means one per processor */
  uint32_t sample;  /* boxes of each objective to check by evaluating chips without bounds */
  bool all;         /* check every box, repeat the search and compare every number */
  void (*say)(void *ctx, bool holds, const char *text); /* receives each check; or NULL */
  void *ctx;
};
PZ_API struct pz_verify_options pz_verify_options_default(void);

/* Verifies the finished run in a directory: the digests of its parts; that its inputs are
 * unchanged; that the boxes of every objective contain each chip of the space once; boxes, by
 * evaluating chips without bounds; and all recorded numbers, by computing them again. PZ_OK means
 * that the checks could be made; *holds is true if all of them passed. Errors are those of
 * pz_run_look(). The call takes as long as the search and the comparison. */
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

/* A measurement with its prediction. */
struct pz_validation_point {
  enum pz_point_kind kind;
  const char *id, *group;
  const char *quality; /* "ok", or why the measurement does not count */
  const char *chip, *framework;
  const char *model; /* name of the model for people */
  const char *shape; /* for people: "30 layers of 3072"; "" if unknown */
  const char *plan;  /* for people: degrees and microbatch; "" for an operator */
  const char *job; /* equal for plans of one model, chip, devices and batch; NULL without a plan */
  int64_t devices, batch;
  bool one_node;                  /* all devices are in the innermost level of the network */
  const char *work;               /* "16-bit", "experts", "fp8" ...; operators: kind or NULL */
  bool dense;                     /* dense 16-bit model, no context parallelism, 1F1B */
  bool context;                   /* context-parallel plan */
  bool zero_bubble;               /* zero-bubble pipeline */
  bool tpu;                       /* runs on a TPU */
  double measured_s, predicted_s; /* 0 if none */
  double measured_bytes, predicted_bytes; /* 0 if none */
  const char *reason;                     /* why there is no prediction, or "" */
  const char *choices; /* equal for runs of the same plan; NULL if it differs from all others */
  uint64_t features;   /* features of its plan, for expected errors (step/plan_features.def) */
  const char *cluster; /* of a run: name of the network; "" if unknown */
  int64_t seq;         /* tokens of a sample of a predicted run */
};

/* Errors of a group: predicted over measured minus 1; means are NaN if it is empty. */
struct pz_errors {
  const char *name;
  enum pz_point_kind kind;
  uint32_t n, not_predicted;
  double mean; /* mean of absolute errors */
  double bias; /* mean of errors */
  double worst;
  const char *worst_id; /* NULL if none */
  uint32_t n_memory;    /* points with measured and predicted peak memory */
  double memory_mean, memory_bias, memory_worst;
};

/* How well plans of one model on the same devices with the same batch are ordered. */
struct pz_plan_order {
  const char *name; /* for people: model, shape, devices, batch */
  const char *model, *shape, *group, *chip;
  int64_t devices, batch;
  uint32_t plans;
  double rank_correlation; /* Spearman; NaN if all plans take the same time */
  double regret;
};

/* Means over models with several plans. */
struct pz_order_mean {
  const char *name;
  uint32_t n;
  double rank_correlation, regret;
};

/* Quantities with limits. */
enum pz_limited {
  PZ_LIMITED_TIME,
  PZ_LIMITED_MEMORY,
  PZ_LIMITED_MISSING,
  PZ_LIMITED_RANK, /* of plans: a lower limit, unlike the others */
  PZ_LIMITED_REGRET,
  PZ_LIMITEDS
};

/* Chips of one product line, predicted with constants fitted to the runs of all other lines. */
struct pz_cold_family {
  const char *name;
  uint32_t n;                            /* number of runs */
  double mean, bias;                     /* means over its chips of the means over their runs */
  const struct pz_cold_value *constants; /* the fitted constants */
  uint32_t n_constants;
};

/* Errors of predictions that use nothing that was measured on the chips. */
struct pz_cold_errors {
  const struct pz_errors *chips; /* dense 16-bit runs of quality "ok", by chip */
  uint32_t n_chips;
  double mean;                    /* mean over chips of their mean errors */
  double spread;                  /* standard deviation of the chips' biases */
  const struct pz_errors *others; /* runs with 8 bits or experts, by chip */
  uint32_t n_others;
  const struct pz_cold_family *families;
  uint32_t n_families;
  double families_mean;
};

/* Limits of a group, a total, the plans of a model or a mean over models. */
struct pz_limit {
  const char *group;
  double value[PZ_LIMITEDS]; /* NaN if none */
};

/* A limit that is violated. */
struct pz_broken_limit {
  const char *group;
  enum pz_limited what;
  double value, limit; /* value is NaN if no points are left */
};

struct pz_validation {
  const struct pz_validation_point *points;
  uint32_t n_points;
  const struct pz_errors *groups; /* of quality "ok": operators by kind, steps, runs by group */
  uint32_t n_groups;
  const struct pz_errors *apart; /* of another quality */
  uint32_t n_apart;
  const struct pz_errors *totals; /* over training runs of quality "ok" */
  uint32_t n_totals;
  const struct pz_plan_order *orders; /* of models with PZ_LEAST_PLANS or more */
  uint32_t n_orders;
  const struct pz_order_mean *order_means;
  uint32_t n_order_means;
  const struct pz_limit *limits;
  uint32_t n_limits;
  const struct pz_broken_limit *broken;
  uint32_t n_broken;
  const char *const *notes; /* sentences about the tables, for example on skipped files */
  uint32_t n_notes;
  struct pz_cold_errors cold; /* if requested */
};

enum { PZ_LEAST_PLANS = 3 };
/* Selects the built-in limits of operators by chip and kind, for groups with 20 rows or more. */
#define PZ_LIMITS_OPS "builtin-ops"

/* Call pz_validate_options_default() and change members. */
struct pz_validate_options {
  size_t size;              /* sizeof *this, set by the default function */
  const char *const *runs;  /* paths of tables of runs, up to NULL; if empty, built-in data */
  const char *ops;          /* path of a table of operators or of a directory of tables, or NULL */
  const char *chip;         /* default chip, or the chip to validate: a preset or a chip.json */
  const char *limits;       /* path of a table, or PZ_LIMITS_OPS; NULL means the default limits */
  unsigned threads;         /* 0 means one per processor */
  const char *beside;       /* table of kernels concurrent with communication, or NULL */
  pz_progress_fn *progress; /* NULL if none; each table is a phase */
  void *ctx;                /* context of `progress` */
  bool cold; /* predict training runs without measurements of their chips (pz_cold_errors) */
};
PZ_API struct pz_validate_options pz_validate_options_default(void);

/* Predicts all measurements. It also succeeds if limits are violated, which are listed in `broken`.
 * Returns PZ_STOPPED if cancelled. The caller frees *out. The call takes milliseconds per run, and
 * seconds for the built-in data. */
PZ_NODISCARD PZ_API enum pz_status pz_validate(const struct pz_validate_options *options,
                                               struct pz_validation **out, struct pz_error *err);
PZ_API void pz_validation_free(struct pz_validation *v); /* accepts NULL */

/* Forms of a validation's text. */
enum pz_validation_form {
  PZ_VALIDATION_JSON,      /* groups, totals, orders of plans, violated limits ... */
  PZ_VALIDATION_JSON_ROWS, /* the same, and every point */
  PZ_VALIDATION_GROUPS,    /* CSV: a line for each group, total, and model with several plans */
  PZ_VALIDATION_ROWS,      /* CSV: a line for each point */
  PZ_VALIDATION_LIMITS, /* CSV: limits that hold now: mean errors rounded up with a small margin */
  PZ_VALIDATION_EXPECTED, /* CSV: errors of runs by feature, used for expected errors */
  PZ_VALIDATION_PAGE,     /* HTML: predicted against measured, and errors by group */
  PZ_VALIDATION_FEATURES  /* table for people: sources of errors, and runs within their intervals */
};

/* Writes a validation. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_validation_text(const struct pz_validation *v,
                                                      enum pz_validation_form form, char **text,
                                                      size_t *bytes, struct pz_error *err);

/* ---- tables of runs ------------------------------------------------------------------------- */
/* A run of a table with its prediction. */
struct pz_run_row {
  const char *id, *group, *quality;
  double measured_s, measured_bytes; /* 0 if not stated */
  bool predicted;
  char reason[200]; /* why it is not predicted */
  int64_t devices;
  double hbm_bytes; /* of a device */
  struct pz_prediction p;
  const struct pz_plan *plan; /* the predicted plan */
};

struct pz_runs {
  struct pz_run_row *rows;
  uint32_t n_rows;
  struct pz_errors *groups; /* rows of quality "ok" by group; the last entry is all of them */
  uint32_t n_groups;
  struct pz_errors *apart; /* the same for rows of other quality */
  uint32_t n_apart;
};

/* Predicts every run of a CSV table. Columns are model and chip, which suffice, fields of the plan
 * (n_dev for devices, gbs for batch), measurements (step_time_s, peak_bytes) and the model's shape;
 * see doc/predict.md. A run that cannot be predicted has a reason. If `threads` is 0, it uses one
 * per processor. The caller frees *out. The call takes milliseconds per row. */
PZ_NODISCARD PZ_API enum pz_status pz_runs_predict(const char *name, const char *text, size_t bytes,
                                                   unsigned threads, struct pz_runs **out,
                                                   struct pz_error *err);
/* Like pz_runs_predict(), but on an instant network (pz_network_make_instant). */
PZ_NODISCARD PZ_API enum pz_status pz_runs_predict_alone(const char *name, const char *text,
                                                         size_t bytes, unsigned threads,
                                                         struct pz_runs **out,
                                                         struct pz_error *err);

/* Writes the table with predictions, errors and step parts as CSV. The caller frees *text. */
PZ_NODISCARD PZ_API enum pz_status pz_runs_csv(const struct pz_runs *r, char **text, size_t *bytes,
                                               struct pz_error *err);
PZ_API void pz_runs_free(struct pz_runs *r); /* accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
