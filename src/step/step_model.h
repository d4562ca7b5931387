/* A model on a chip in a network, for one size of a microbatch and of the tensor-parallel group: its
 * graphs and the time of every layer's kernels.  All plans that share these are priced from it, each in
 * microseconds.  For one thread. */
#ifndef PZ_STEP_STEP_MODEL_H
#define PZ_STEP_STEP_MODEL_H

#include "step/layer_step.h"
#include "step/predict.h"
#include "step/training_memory.h"

/* Three parts of a model: before the repeated layers, these, behind them. */
struct pz_model_steps {
  struct pz_layer_step before, after;
  struct pz_layer_step *block,
      *again; /* by kind of repeated layer, without and with recomputation */
};

/* Parameters on a device: of all devices of a stage alike, and of routed experts; of these, those that are trained. */
struct pz_step_params {
  double dense, expert;
  double trained, trained_expert;
};

static inline void pz_step_params_add(struct pz_step_params *to, const struct pz_step_params *n,
                                      double times) {
  to->dense += times * n->dense;
  to->expert += times * n->expert;
  to->trained += times * n->trained;
  to->trained_expert += times * n->trained_expert;
}

enum { PZ_STEP_VARIANTS = 6, PZ_TIMED_PLANS = 8 };
struct pz_step_model {
  struct pz_arena arena; /* of the model's own tables */
  struct pz_arena work;  /* intermediate data of the plan that is timed or priced */
  struct pz_workload *w;
  struct pz_workload *half; /* of a plan with halves: what one of them runs; else NULL */
  struct pz_workload
      *fullest;     /* of an uneven load of experts: that of the device with most; else NULL */
  double imbalance; /* of that load, at least 1 */
  struct pz_cost cost;
  const struct pz_constants *k;
  struct pz_layer_kernels
      *kernels; /* by layer of w, or of half: those of the plan that was timed last */
  /* the same of plans with other dispatchers of experts' tokens or CUDA graphs */
  struct pz_kernels_of {
    int dispatcher, cuda_graphs;
    struct pz_layer_kernels *kernels;
  } of[PZ_STEP_VARIANTS];
  int n_of;
  struct pz_op_run *runs; /* theirs, where operators are scheduled; else NULL */
  struct pz_solved_passes *solved;
  struct pz_layer_kinds kinds;         /* of repeated layers */
  int64_t n_blocks;                    /* of all kinds */
  int64_t seq;                         /* tokens of a sample, on all devices of the context */
  struct pz_step_params *block_params; /* by kind */
  struct pz_step_params before_params, after_params;
  double tied_params;
  struct pz_memory_model memory;

  /* of the plans that were bounded and priced last; `steps` is what was asked for last */
  struct pz_timed_steps {
    struct pz_steps_key {
      int recompute, overlap, saved, modules, pipeline, dispatcher, cuda_graphs;
      int64_t devices, shards,
          expert_shards; /* shards: of gradients that every microbatch scatters */
      bool several;      /* microbatches */
      bool gathers;      /* weights of every layer */
      bool autocasts;    /* weights to 16 bit in every pass */
    } key;
    bool timed;
    struct pz_model_steps steps;
  } by[2 * PZ_TIMED_PLANS]; /* bounds, then solved ones */
  uint32_t n_timed;         /* the next one goes to the place of the oldest */
  const struct pz_model_steps *steps;
};

/* Layers with a lower bound for each schedule in its place, or solved; the same where operators run one after another. */
enum pz_timing { PZ_TIMING_BOUND, PZ_TIMING_SOLVED };

/* Of the plan its tp, ep, etp, imbalance, sp, mbs, halves, framework, execution, attention library, seq, mtp and attention count;
 * kernels are timed anew for a plan with another dispatcher of experts' tokens or other CUDA graphs.  The model is freed
 * when the call ends, or with pz_close(); after pz_undefer(), by pz_step_model_free(). */
struct pz_step_model *pz_step_model_new(struct pz_call *call, const struct pz_job *job,
                                        const struct pz_plan *plan);
void pz_step_model_free(void *model); /* accepts NULL */

/* The same model on another chip without calibration, in another network; GEMMs by the table, which may be
 * NULL.  Kernels are timed anew, memory stays. */
void pz_step_model_set_chip(struct pz_call *call, struct pz_step_model *m,
                            const struct pz_chip *chip, const struct pz_cluster *net,
                            const struct pz_plan *plan, struct pz_product_times *times);

/* A call that allocates intermediate data in the model, until it is called again. */
struct pz_call pz_step_model_work(const struct pz_call *call, struct pz_step_model *m);

/* Layers of a plan, for pricing. */
void pz_step_model_time(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *plan,
                        int64_t microbatches, enum pz_timing timing);

/* What one of its layers is timed with, in such a plan. */
struct pz_step_context pz_step_layer_context(struct pz_step_model *m, const struct pz_plan *plan,
                                             uint32_t layer);

/* What a pass runs, once or, of halves, twice. */
static inline const struct pz_workload *pz_step_pass(const struct pz_step_model *m) {
  return m->half ? m->half : m->w;
}

/* Is a pass of such a plan scheduled? */
bool pz_step_is_scheduled(const struct pz_chip *chip, const struct pz_plan *plan);

/* Raises an error if the model cannot be trained so. */
void pz_step_check(struct pz_call *call, const struct pz_step_model *m, const struct pz_plan *plan);

/* Repeated layers of one kind that the plan recomputes, of all stages. */
int64_t pz_step_recomputed(struct pz_step_model *m, const struct pz_plan *plan, uint32_t kind);

/* The one function that prices a plan: its pipeline simulated, its parts, its memory.  `detail` may be NULL; what it
 * points to is allocated in the arena of the call. */
struct pz_prediction pz_step_price(struct pz_call *call, struct pz_step_model *m,
                                   const struct pz_plan *plan, struct pz_prediction_detail *detail);

/* Seconds of the step with the pipeline's lower bound in place of its simulation, and only the step, its parts for
 * exchange and optimizer: no plan is faster than that. */
double pz_step_bound(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *plan);

/* Part of its time that a step on so many devices waits for the slowest of them: jitter of hosts, clocks and the network in
 * every collective.  Zero on an instant network.  (1 + this) / devices falls with the devices, so that a lower bound of
 * all plans of a question may use the most devices of any.  `k` and `net` may be NULL. */
double pz_step_waiting(const struct pz_constants *k, const struct pz_cluster *net, int64_t devices);

/* Bytes of a stage at its peak. */
struct pz_training_memory pz_step_memory(const struct pz_step_model *m, const struct pz_plan *plan,
                                         int64_t stage);

/* Bytes that the allocator reserves for it, at most: the plan fits if the device offers so many. */
double pz_step_needed_bytes(const struct pz_step_model *m, const struct pz_plan *plan,
                            int64_t stage);

/* Of a stage, the host's memory for each device. */
double pz_step_host_bytes(const struct pz_step_model *m, const struct pz_plan *plan, int64_t stage);

#endif
