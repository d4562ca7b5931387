/* phaze: finds the best accelerator chip for training models, and how to train them on a cluster.
 *
 * The header to include: plain structs and a few functions.  Typical use:
 *
 *     struct pz_error err = {0};
 *     struct pz_workload_options opt = pz_workload_options_default();
 *     struct pz_workload *w = NULL;
 *     if (pz_workload_load("gpt2-xl", &opt, &w, &err) != PZ_OK) puts(err.message);
 *     ...read w->layers, w->totals...
 *     pz_workload_free(w);
 *
 * Units are SI and part of the names: _bytes, _flop, _s.  The library never prints, exits or
 * aborts.
 */
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

/* What went wrong.  `message` is a whole sentence for people; line and column (1-based, 0 =
 * unknown) point into `input` where that is a text file; origin_* name the source line that raised
 * it. */
struct pz_error {
  enum pz_status status;
  char message[1024];
  char input[256];
  int line, column;
  const char *origin_file;
  int origin_line;
};

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

struct pz_op {
  const char *name;
  int kind;                    /* see pz_op_kind_name */
  enum pz_direction direction; /* a derivative of `kind` when PZ_BACKWARD */
  enum pz_op_class op_class;
  bool replicated; /* every device of a tensor-parallel group does this same work */
  struct pz_dims dims;
  int64_t flop;        /* all of it, tail included */
  int64_t matmul_flop; /* of the matrix products alone: 2 batch m n k (experts: the rows there are;
                          flash attention: two products, backward five) */
  int64_t bytes_read;  /* each input once, weights included */
  int64_t bytes_written; /* each output once, what is kept for backward included */
  int64_t weight_bytes;  /* the part of bytes_read that is parameters */
  int64_t scratch_bytes; /* held during the operator only */
  const uint32_t *in, *out, *pred;
  uint32_t n_in, n_out, n_pred;
  const struct pz_tail *tail;
  uint32_t n_tail;
};

struct pz_ops {
  const struct pz_op *op;
  uint32_t n;
};

/* ---- layers and models ---------------------------------------------------------------------- */

/* Change of live bytes while one layer runs, relative to its entry. */
struct pz_live {
  int64_t peak_bytes;
  int64_t net_bytes;
};

struct pz_layer {
  const char *name;
  int64_t count;        /* how often it stands in the model, in a row */
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
  const uint32_t *saved; /* storages kept for backward, in order of first use */
  uint32_t n_saved;
  int64_t activation_bytes;  /* sum of those, one instance of the layer, one microbatch */
  int64_t shared_bytes;      /* kept too, but common to all layers: rotary tables, token ids */
  int64_t buffer_bytes;      /* constants the implementation keeps per layer */
  int64_t output_bytes;      /* what goes to the next layer */
  struct pz_live live[2];    /* by enum pz_direction */
  struct pz_live live_plain; /* forward when nothing is kept (recomputation) */
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
};

enum pz_kernels { PZ_KERNELS_FUSED, PZ_KERNELS_EAGER };
enum pz_attention { PZ_ATTENTION_STANDARD, PZ_ATTENTION_FLASH };
enum pz_recompute { PZ_RECOMPUTE_NONE, PZ_RECOMPUTE_FULL };
enum pz_unknown_ops { PZ_UNKNOWN_REFUSE, PZ_UNKNOWN_VECTOR };

enum { PZ_MOST_DIMS = 16 };

/* How a model is to be built.  Take pz_workload_options_default() and change fields. */
struct pz_workload_options {
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
};

struct pz_workload {
  const char *model;
  const char *family;
  struct pz_workload_options options; /* with defaults filled in */
  int64_t hidden, heads, kv_heads, ffn, vocab, positions;
  const struct pz_layer *layers;
  uint32_t n_layers;
  struct pz_totals totals;
  const char *warning; /* NULL, or a sentence the user should see */
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

/* The same from the bytes of an ONNX file. */
PZ_NODISCARD PZ_API enum pz_status pz_workload_parse_onnx(const char *name, const void *data,
                                                          size_t bytes,
                                                          const struct pz_workload_options *options,
                                                          struct pz_workload **out,
                                                          struct pz_error *err);

/* Accepts NULL. */
PZ_API void pz_workload_free(struct pz_workload *w);

/* Names of the presets: pz_preset_name(i) for i from 0, NULL after the last. */
PZ_API const char *pz_preset_name(size_t i);

PZ_API const char *pz_op_kind_name(int kind);
PZ_API const char *pz_op_class_name(enum pz_op_class c);

/* ---- chips -------------------------------------------------------------------------------------- */

/* Technologies with published densities and energies. */
enum pz_tech { PZ_TECH_45NM, PZ_TECH_22NM, PZ_TECH_16NM, PZ_TECH_7NM, PZ_TECH_5NM, PZ_TECHS };

struct pz_tensor_cores {
  int64_t cores, rows, cols;
  int64_t local_bytes;      /* buffer of one core */
  int64_t register_bytes;   /* of one multiplier, for the operand on the array */
  double local_bytes_per_s; /* of one core, reads and writes together; 0: feeds its array every
                               cycle */
  double local_total_bytes_per_s; /* over all cores; 0: no such limit */
};

struct pz_vector_cores {
  int64_t cores, lanes;
  int64_t local_bytes;
};

struct pz_hbm {
  int64_t stacks, bytes_per_stack;
  double bytes_per_s_per_stack;
  double core_bytes_per_s; /* what one core can draw; 0: all of it */
};

/* How the numbers are counted.  The defaults are this program's own model; a chip file may change
 * them to reproduce another tool's assumptions. */
struct pz_rules {
  bool fill;             /* filling and draining the array takes time */
  bool duplex;           /* every bandwidth holds for reads and for writes, each */
  bool partitioned;      /* local_bytes holds for each operand */
  bool double_buffer;    /* what streams through a buffer stands in it twice */
  bool vector_memory;    /* vector operators wait for the bytes they read and write */
  int64_t operand_bytes; /* of an input or a result */
  int64_t sum_bytes;     /* of a partial sum */
};

struct pz_chip {
  char name[48], about[160];
  enum pz_tech tech;
  double clock_hz;
  struct pz_tensor_cores tensor;
  struct pz_vector_cores vector;
  int64_t glb_bytes;
  double glb_bytes_per_s;
  double glb_core_bytes_per_s; /* what one core can draw; 0: all of it */
  struct pz_hbm hbm;
  double watts; /* of the data sheet; 0: unknown */
  double link_bytes_per_s, link_latency_s;
  struct pz_rules rules;
  struct pz_calibration calibration;
};

/* Area by component, um2. */
struct pz_area {
  double tensor_um2, tensor_local_um2, vector_um2, vector_local_um2, glb_um2, hbm_um2;
};

PZ_API struct pz_area pz_chip_area(const struct pz_chip *c);
PZ_API double pz_area_total_um2(const struct pz_area *a);

/* Power at full speed of everything at once: the most the description can draw, W. */
PZ_API double pz_chip_peak_watts(const struct pz_chip *c);

/* A preset's name or the path of a chip.json. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_load(const char *chip, struct pz_chip *out,
                                         struct pz_error *err);

/* From the text of a chip.json; `name` stands for it in messages. */
PZ_NODISCARD PZ_API enum pz_status pz_chip_parse(const char *name, const char *text, size_t bytes,
                                          struct pz_chip *out, struct pz_error *err);

/* Multiply-accumulate peak, 2 FLOP each; vector operations; sums over the chip. */
PZ_API double pz_chip_tensor_flop_per_s(const struct pz_chip *c);
PZ_API double pz_chip_vector_op_per_s(const struct pz_chip *c);
PZ_API double pz_chip_hbm_bytes_per_s(const struct pz_chip *c);
PZ_API int64_t pz_chip_hbm_bytes(const struct pz_chip *c);

/* Names of the presets, NULL after the last; the text of one, NULL if there is none. */
PZ_API const char *pz_chip_preset_name(size_t i);
PZ_API const char *pz_chip_preset_text(const char *name);

/* ---- networks ----------------------------------------------------------------------------------- */

enum { PZ_CLUSTER_MOST_LEVELS = 8 };

struct pz_level {
  char name[32];
  int64_t devices;    /* that one group of this level spans */
  double bytes_per_s; /* of one device, one direction */
  double latency_s;   /* of one message */
};

struct pz_cluster {
  char name[48], about[160];
  int64_t devices;
  int64_t stated_devices; /* before pz_cluster_reach */
  bool scales;            /* the outermost level may have any number of devices */
  int n_levels;
  struct pz_level level[PZ_CLUSTER_MOST_LEVELS];
};

/* A preset's name or the path of a cluster.json. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_load(const char *cluster, struct pz_cluster *out,
                                            struct pz_error *err);
PZ_NODISCARD PZ_API enum pz_status pz_cluster_parse(const char *name, const char *text, size_t bytes,
                                             struct pz_cluster *out, struct pz_error *err);

/* Have at least so many devices: one that scales grows at its outermost level, at the rates that it
 * has there; for another that has fewer it is PZ_BAD_USE.  `option` is the one that asks. */
PZ_NODISCARD PZ_API enum pz_status pz_cluster_reach(struct pz_cluster *c, int64_t devices,
                                             const char *option, struct pz_error *err);

PZ_API const char *pz_cluster_preset_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif
