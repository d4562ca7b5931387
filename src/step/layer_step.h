/* What one layer of a model takes on a device, forward and backward, of one microbatch: its operators
 * one after another as the chip runs them, launches by the host, collectives, and what is
 * recomputed. */
#ifndef PZ_STEP_LAYER_STEP_H
#define PZ_STEP_LAYER_STEP_H

#include "core/call.h"
#include "cost/cost.h"
#include "cost/network.h"
#include "plan/plan.h"
#include "step/op_run.h"

/* One direction of a layer. */
struct pz_pass {
  double products_s, elementwise_s;
  double attention_s; /* the attention core, which selective recomputation recomputes, and scans */
  bool scans;         /* the layer has a scan in place of scores */
  double slowed_s;    /* all these kernels while collectives run beside them */
  double weight_s;    /* of products_s: gradients of weights */
  double last_s;      /* of products_s: the last, whose result backward does not read */
  double n_ops;       /* launched one by one from Python */
  double native_s;    /* host: launches of single experts' kernels from native code */
  double waits;       /* of the host, for the experts' numbers of tokens ... */
  double early_n, early_s; /* ... and what is launched and runs before */
  double collectives_s;    /* of tensor and context parallelism, those that show */
  double hidden_s;         /* of these, beside GEMMs */
  double ring_s;   /* of context parallelism, beside attention; apart till the layer is timed */
  double expert_s; /* all-to-all of experts */
  double busy_s[PZ_WIRES]; /* links, by all collectives */
};

static inline double pz_kernels_s(const struct pz_pass *p) {
  return p->products_s + p->attention_s + p->elementwise_s;
}

/* Collectives of a pass that have a GEMM beside them; further ones have none. */
enum { PZ_PASS_WINDOWS = 16 };

/* Of a layer, whatever the plan does with it: kernels, without collectives and accumulation. */
struct pz_layer_kernels {
  struct pz_pass forward, backward;
  /* by direction and collective of tensor parallelism: the GEMM that reads what it gathers or whose result it adds up */
  double window_s[2][PZ_PASS_WINDOWS];
  double n_params; /* tensors */
  struct pz_op_run
      *runs[2]; /* by direction and operator, where a schedule asks for them; else NULL */
};

/* Of a layer in a plan. */
struct pz_layer_step {
  struct pz_pass forward, backward; /* collectives: those not hidden */
  double forward_s, backward_s;     /* with launches and exposed collectives */
  double launch_s;                  /* of these: waiting for the host */
  double hidden_s, expert_hidden_s; /* collectives beside compute, not of these */
  double beside_s; /* kernels beside others, or beside collectives that show, not of these */
  double forward_j, backward_j; /* dynamic energy, of schedules alone; 0: not known */
};

/* Schedules of passes, kept as long as chip, network and kernels stay. */
struct pz_solved_passes;
struct pz_solved_passes *pz_solved_passes_new(struct pz_call *call);
void pz_solved_passes_clear(struct pz_solved_passes *s); /* accepts NULL; gives all memory back */

/* What a layer is timed with. */
struct pz_step_context {
  struct pz_cost *cost;
  const struct pz_constants *k;
  const struct pz_cluster *net;
  const struct pz_plan *plan;
  int64_t seq, microbatches; /* tokens of a sample on a device; microbatches of a replica */
  int64_t mbs;               /* samples of a pass, or of a half of one */
  bool flash;                /* attention in one kernel */
  int adapted;               /* linear layers with adapters, a set of enum pz_lora_module */
  enum pz_format format;     /* of operands of GEMMs of this layer */
  bool gathers;              /* weights of every layer, for every microbatch (ZeRO 3) */
  bool scheduled;            /* operators beside each other */
  int chains;           /* halves of a microbatch, each with samples of its own; 1: the whole */
  int64_t solver_steps; /* of a schedule; 0: its bound in its place */
  struct pz_solved_passes *solved; /* schedules found so far */
  int64_t experts_per_token, expert_groups;
  double imbalance; /* tokens of the busiest expert device over the mean */
  double beside;    /* part of the cores that collectives hold */
};

/* Kernels of all operators of a layer. */
void pz_layer_kernels(struct pz_call *call, const struct pz_step_context *c,
                      const struct pz_layer *l, struct pz_layer_kernels *out);

/* The layer as the plan runs it; `recomputed`: with the plan's recomputation. */
struct pz_layer_step pz_layer_step(struct pz_call *call, const struct pz_step_context *c,
                                   const struct pz_layer *l, const struct pz_layer_kernels *kernels,
                                   bool recomputed);

/* One direction of a layer as a question about schedules (step/pass_schedule.h); of kernels with runs. */
struct pz_pass_question;
struct pz_pass_question pz_layer_pass(struct pz_call *call, const struct pz_step_context *c,
                                      const struct pz_layer *l,
                                      const struct pz_layer_kernels *kernels, enum pz_direction d,
                                      bool recomputed);

/* Add `times` a layer. */
void pz_layer_step_add(struct pz_layer_step *sum, const struct pz_layer_step *t, double times);

#endif
