/* A model on a chip in a network, for one microbatch size and one tensor-parallel degree: the
 * graphs of its layers and the times of their kernels.  All plans that share these are priced from
 * it within microseconds.  Not thread-safe. */
#ifndef PZ_STEP_STEP_MODEL_H
#define PZ_STEP_STEP_MODEL_H

#include "step/layer_step.h"
#include "step/predict.h"
#include "step/training_memory.h"

/* The times of a model's layers under a plan: one of each kind of repeated layer, and the sums
 * of the layers before and after the repeated ones. */
struct pz_model_steps {
  struct pz_layer_step before, after;
  struct pz_layer_step *block; /* each kind of repeated layer without recomputation */
  struct pz_layer_step *again; /* each kind with the plan's recomputation */
};

/* Parameters on a device.  Experts are counted separately, because they are sharded differently. */
struct pz_step_params {
  double dense, expert;           /* all parameters */
  double trained, trained_expert; /* those with a gradient */
};

/* Adds `times` the parameters to a sum. */
static inline void pz_step_params_add(struct pz_step_params *sum,
                                      const struct pz_step_params *params, double times) {
  sum->dense += times * params->dense;
  sum->expert += times * params->expert;
  sum->trained += times * params->trained;
  sum->trained_expert += times * params->trained_expert;
}

enum { PZ_KERNEL_VARIANTS = 6, PZ_TIMED_PLANS = 8 };

struct pz_step_model {
  struct pz_arena arena; /* holds the model's tables */
  struct pz_arena work;  /* intermediate data of the plan that is timed or priced */
  struct pz_workload *workload;
  struct pz_workload *half_workload; /* graphs of half a microbatch, or NULL if it is not split */
  /* Graphs of the device with the most tokens, or NULL if loads are even. */
  struct pz_workload *fullest_workload;
  double imbalance; /* tokens of the busiest expert device over the mean */
  struct pz_cost cost;
  const struct pz_constants *constants;
  struct pz_layer_kinds kinds; /* kinds of repeated layers */
  int64_t n_blocks;            /* number of repeated layers of all kinds */
  int64_t seq;                 /* tokens of a sample, before context parallelism divides them */
  struct pz_step_params *block_params; /* by kind of repeated layer */
  struct pz_step_params before_params, after_params;
  double tied_params; /* parameters of an embedding that is also the head */
  struct pz_memory_model memory;

  /* Kernel times by layer, for each dispatcher and set of CUDA graphs. */
  struct pz_kernel_variant {
    int dispatcher, cuda_graphs;
    struct pz_layer_kernels *kernels;
  } variant[PZ_KERNEL_VARIANTS];
  int n_variants;
  const struct pz_layer_kernels *kernels; /* the variant of the plan that was timed last */
  struct pz_op_run *runs;          /* runs of these kernels, or NULL unless passes are scheduled */
  struct pz_solved_passes *solved; /* NULL unless passes are scheduled */

  /* Layer times of the plans timed last: first with bounds of schedules, then with solved ones. */
  struct pz_timed_plan {
    struct pz_timed_plan_key {
      int recompute, overlap, saved, modules, pipeline, dispatcher, cuda_graphs;
      int several_microbatches, gathers_weights, autocasts; /* 0 or 1 */
      int64_t devices; /* devices of the plan on a torus, otherwise 0 */
      /* shards of gradients that are scattered in every microbatch, otherwise 1 */
      int64_t shards, expert_shards;
    } key;
    bool valid;
    struct pz_model_steps steps;
  } timed[2 * PZ_TIMED_PLANS];
  uint32_t n_timed; /* number of plans timed so far; a new plan replaces the oldest */
  const struct pz_model_steps *steps; /* layer times of the plan that was timed last */
};

/* How passes are timed on a chip whose operators are scheduled: by a lower bound, or by a
 * schedule.  On other chips both are the same. */
enum pz_timing { PZ_TIMING_BOUND, PZ_TIMING_SOLVED };

/* Makes a model for plans with the same tp, ep, etp, imbalance, sp, mbs, halves, framework,
 * execution, attention library, seq, mtp and attention as this plan.  The model is freed when the
 * call ends or with pz_close(); after pz_undefer(), with pz_step_model_free(). */
struct pz_step_model *pz_step_model_new(struct pz_call *call, const struct pz_job *job,
                                        const struct pz_plan *plan);
void pz_step_model_free(void *model); /* accepts NULL */

/* Changes the chip and the network of the model.  The chips must have the same calibration.
 * GEMM times are taken from `times` unless it is NULL. */
void pz_step_model_set_chip(struct pz_call *call, struct pz_step_model *model,
                            const struct pz_chip *chip, const struct pz_cluster *network,
                            const struct pz_plan *plan, struct pz_product_times *times);

/* Returns a call that allocates intermediate data in the model.  The data is freed when this is
 * called again, which also pz_step_model_time(), pz_step_price() and pz_step_bound() do. */
struct pz_call pz_step_model_work(const struct pz_call *call, struct pz_step_model *model);

/* Times the layers for a plan: sets model->steps. */
void pz_step_model_time(struct pz_call *call, struct pz_step_model *model,
                        const struct pz_plan *plan, int64_t microbatches, enum pz_timing timing);

/* Returns the context in which pz_layer_step() times a layer for a plan. */
struct pz_step_context pz_step_layer_context(struct pz_step_model *model,
                                             const struct pz_plan *plan, uint32_t layer);

/* Returns the graphs that one pass runs: those of half a microbatch if it is split. */
static inline const struct pz_workload *pz_step_pass(const struct pz_step_model *model) {
  return model->half_workload ? model->half_workload : model->workload;
}

/* Returns whether the chip schedules the operators of a pass under such a plan. */
bool pz_step_is_scheduled(const struct pz_chip *chip, const struct pz_plan *plan);

/* Raises an error if the plan is inconsistent, or does not fit the model or the network. */
void pz_step_check(struct pz_call *call, const struct pz_step_model *model,
                   const struct pz_plan *plan);

/* Returns how many repeated layers of a kind the plan recomputes, in all stages. */
int64_t pz_step_recomputed(const struct pz_step_model *model, const struct pz_plan *plan,
                           uint32_t kind);

/* Prices a plan: simulates its pipeline, and finds the terms of its step and its memory.  *detail
 * may be NULL; what it points to is allocated in the arena of the call. */
struct pz_prediction pz_step_price(struct pz_call *call, struct pz_step_model *model,
                                   const struct pz_plan *plan, struct pz_prediction_detail *detail);

/* Sets tokens, parameters, throughput and utilisation of a prediction from its step time. */
void pz_step_rates(struct pz_call *call, const struct pz_step_model *model,
                   const struct pz_plan *plan, struct pz_prediction *out);

/* Like pz_predict(), with a model that other plans may share. */
struct pz_prediction pz_predict_with(struct pz_call *call, const struct pz_job *job,
                                     struct pz_step_model *model, const struct pz_plan *plan,
                                     struct pz_prediction_detail *detail);

/* Returns a lower bound of the plan's step in seconds: like pz_step_price(), but with the lower
 * bounds of the pipeline and of schedules. */
double pz_step_bound(struct pz_call *call, struct pz_step_model *model, const struct pz_plan *plan);

/* Returns the part by which a step on `devices` is longer because it waits for the slowest of
 * them: jitter of hosts, clocks and the network in every collective.  It is 0 on an instant
 * network.  (1 + this) / devices falls with the number of devices, so that a lower bound for all
 * plans of a question may use its largest number.  `constants` and `network` may be NULL. */
double pz_step_waiting(const struct pz_constants *constants, const struct pz_cluster *network,
                       int64_t devices);

/* Returns the peak bytes of a stage. */
struct pz_training_memory pz_step_memory(const struct pz_step_model *model,
                                         const struct pz_plan *plan, int64_t stage);

/* Returns the most bytes that the allocator may reserve for a stage: those a device must offer. */
double pz_step_needed_bytes(const struct pz_step_model *model, const struct pz_plan *plan,
                            int64_t stage);

/* Returns the bytes of host memory that a stage needs for each device. */
double pz_step_host_bytes(const struct pz_step_model *model, const struct pz_plan *plan,
                          int64_t stage);

#endif
