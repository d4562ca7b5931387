/* The time of one layer of a model on a device, for one microbatch, forward and backward: kernels
 * one after another as the chip runs them, launches by the host, collectives, and recomputation. */
#ifndef PZ_STEP_LAYER_STEP_H
#define PZ_STEP_LAYER_STEP_H

#include "core/call.h"
#include "cost/cost.h"
#include "cost/network.h"
#include "plan/plan.h"
#include "step/op_run.h"

/* The forward or the backward pass of a layer.  Times are seconds of one microbatch. */
struct pz_pass {
  double gemm_s;
  double attention_s; /* scans, and the attention core, which selective recomputation runs again */
  double elementwise_s;
  double contended_s;       /* the sum of these while collectives run beside them */
  double weight_gradient_s; /* part of gemm_s: gradients of weights */
  double last_gemm_s;       /* part of gemm_s: the last GEMM, whose result backward does not read */
  bool has_scan;            /* the layer has a state-space scan instead of attention */
  double launched_ops;      /* operators that the host launches one by one from Python */
  double native_launch_s;   /* host time of launches from native code, one per expert */
  double host_waits;        /* times that the host waits for the experts' token counts */
  double early_ops;         /* of launched_ops: launched before the host waits */
  double early_kernels_s;   /* kernels that run before the host waits */
  double collective_s;      /* exposed collectives of tensor and context parallelism */
  double hidden_s;          /* the part of these collectives that GEMMs hide */
  double ring_s;   /* ring of context parallelism; part of collective_s only after finish_pass() */
  double expert_s; /* all-to-all of expert parallelism */
  double busy_s[PZ_WIRES]; /* by kind of link: seconds in which collectives use it */
};

/* Returns the seconds of a pass's kernels alone, without collectives and launches. */
static inline double pz_kernels_s(const struct pz_pass *pass) {
  return pass->gemm_s + pass->attention_s + pass->elementwise_s;
}

/* The most collectives of a pass that can run beside a GEMM.  Further ones are exposed. */
enum { PZ_PASS_WINDOWS = 16 };

/* The kernels of a layer, which do not depend on the plan's recomputation and overlap. */
struct pz_layer_kernels {
  struct pz_pass forward, backward; /* without collectives and without adding up gradients */
  /* By direction and tensor-parallel collective: seconds of the GEMM whose input it gathers or
   * whose result it reduces, and which may run beside it (its window). */
  double window_s[2][PZ_PASS_WINDOWS];
  double trained_tensors; /* parameter tensors with a gradient */
  /* By direction and operator, if passes are scheduled; otherwise NULL. */
  struct pz_op_run *runs[2];
};

/* A layer as a plan runs it.  Times are seconds of one microbatch. */
struct pz_layer_step {
  struct pz_pass forward, backward; /* collective_s and expert_s are exposed times */
  double forward_s, backward_s;     /* with launches and exposed collectives */
  double launch_s;                  /* part of both: the device waits for the host */
  double hidden_s;                  /* tensor- and context-parallel collectives hidden by compute */
  double expert_hidden_s;           /* experts' all-to-all hidden by compute */
  double overlapped_s;              /* kernels that a schedule runs beside others */
  double forward_j, backward_j;     /* dynamic energy of scheduled passes, or 0 if unknown */
};

/* The schedules that were found for passes on one chip and network with one set of kernels. */
struct pz_solved_passes;
struct pz_solved_passes *pz_solved_passes_new(struct pz_call *call);
void pz_solved_passes_clear(struct pz_solved_passes *solved); /* accepts NULL; frees all memory */

/* Everything besides the layer that its time depends on. */
struct pz_step_context {
  struct pz_cost *cost;
  const struct pz_constants *constants;
  const struct pz_cluster *network;
  const struct pz_plan *plan;
  int64_t seq;          /* tokens of a sample on a device */
  int64_t microbatches; /* microbatches of a replica in a step */
  int64_t mbs;          /* samples of a pass, or of half a microbatch */
  int chains; /* 2 if a microbatch is split into halves that run beside each other, otherwise 1 */
  bool flash; /* attention is one kernel */
  int adapted_modules;   /* linear layers with LoRA adapters: a set of enum pz_lora_module */
  enum pz_format format; /* number format of the layer's GEMM operands */
  bool gathers_weights;  /* ZeRO 3: every layer gathers its weights for every microbatch */
  bool scheduled;        /* operators run concurrently by a schedule */
  int64_t solver_steps;  /* solver effort for a schedule, or 0 to use its lower bound */
  struct pz_solved_passes *solved;
  int64_t experts_per_token;
  int64_t expert_groups;   /* nodes that the experts of one token may be on, or 0 if any */
  double imbalance;        /* tokens of the busiest expert-parallel device over the mean */
  double collective_cores; /* part of the cores that kernels of collectives occupy */
};

/* Times all kernels of a layer.  On entry kernels->runs are NULL or arrays to be filled. */
void pz_layer_kernels(struct pz_call *call, const struct pz_step_context *context,
                      const struct pz_layer *layer, struct pz_layer_kernels *kernels);

/* Returns the times of a layer.  `recomputed` says whether the plan recomputes it. */
struct pz_layer_step pz_layer_step(struct pz_call *call, const struct pz_step_context *context,
                                   const struct pz_layer *layer,
                                   const struct pz_layer_kernels *kernels, bool recomputed);

/* Returns one direction of a layer as a scheduling problem.  The kernels must have runs. */
struct pz_pass_question;
struct pz_pass_question pz_layer_pass(struct pz_call *call, const struct pz_step_context *context,
                                      const struct pz_layer *layer,
                                      const struct pz_layer_kernels *kernels,
                                      enum pz_direction direction, bool recomputed);

/* Adds the times and energies of a layer, multiplied by `times`, to a sum. */
void pz_layer_step_add(struct pz_layer_step *sum, const struct pz_layer_step *step, double times);

#endif
