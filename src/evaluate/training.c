/* The evaluator `training`.  Each worker has a plan finder (place/plan_finder.h) for each model,
 * and all finders share the times of GEMMs through a table in memory.  The functions of struct
 * pz_evaluator_ops are at the end: bounds are those of the largest chip of a box, because more
 * of any resource is never slower. */
#include "evaluate/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/ranks.h"
#include "core/shared_table.h"
#include "step/step_energy.h"

/* Size of the table of GEMM times that threads and ranks share; pages are used only as it fills. */
enum { SHARED_BYTES = 192 << 20 };

struct training {
  struct pz_evaluator base;
  struct pz_training_question question;
  unsigned n_workers;
  struct pz_plan_finder **finders; /* [worker][model] */
  /* memory of each worker for plans of chips that launch kernels (pz_training_find_plan) */
  struct pz_arena *plan_arenas;
  /* GEMM times of each worker for all models, or NULL if they are borrowed */
  struct pz_product_times **times;
  struct pz_shared_table shared;
  void *block; /* memory of `shared`, or NULL if all ranks share it */
};

static const struct pz_evaluator_ops training_ops;

/* Returns a copy of the model's name in "MODEL", "MODEL@SEQ" or "MODEL@SEQxBATCH".  Sets sequence
 * length and batch size to 0 where they are not given. */
const char *pz_model_of_text(struct pz_call *call, const char *text, int64_t *seq, int64_t *batch) {
  enum { LARGEST = 1 << 24 };
  char *name = pz_copy_text(call, text), *at = strrchr(name, '@');
  *seq = *batch = 0;
  if (!at || at == name || at[1] < '1' || at[1] > '9') return name;
  char *end;
  int64_t own_seq = strtol(at + 1, &end, 10), own_batch = 0;
  if (*end == 'x' && end[1] >= '1' && end[1] <= '9') own_batch = strtol(end + 1, &end, 10);
  if (*end || own_seq > LARGEST || own_batch > LARGEST) return name;
  *at = 0;
  *seq = own_seq;
  *batch = own_batch;
  return name;
}

/* Returns the network of a cluster of these chips: one level at the rate of their links, or groups
 * of `scale_up` devices that a slower network with 5 us of latency connects. */
struct pz_cluster pz_training_cluster(const struct pz_training_question *question,
                                      const struct pz_chip *chip) {
  static const double OUTER_LATENCY_S = 5e-6;
  struct pz_cluster net =
      pz_cluster_flat(question->devices, chip->link_bytes_per_s, chip->link_latency_s);
  if (question->devices <= question->scale_up) return net;
  net.n_levels = 2;
  net.level[1] = net.level[0];
  net.level[0].devices = question->scale_up;
  net.level[1].bytes_per_s = pz_fmin(question->outer_bytes_per_s, chip->link_bytes_per_s);
  net.level[1].latency_s = OUTER_LATENCY_S;
  snprintf(net.name, sizeof net.name, "scale-up of %lld", (long long)question->scale_up);
  snprintf(net.level[0].name, sizeof net.level[0].name, "scale-up");
  snprintf(net.level[1].name, sizeof net.level[1].name, "scale-out");
  return net;
}

/* Returns the question for the best plan of a model on all devices of a cluster of a chip: its plan
 * has the values that the user fixed, and defaults where the search for plans chooses. */
struct pz_plan_question pz_training_ask(struct pz_call *call,
                                        const struct pz_training_question *question, uint32_t model,
                                        const struct pz_chip *chip, const struct pz_cluster *net) {
  const struct {
    const char *name, *value;
  } fields[] = {
      {"precision", question->precision},       {"fp8_recipe", question->fp8_recipe},
      {"moment_bytes", question->moment_bytes}, {"mtp", question->mtp},
      {"offload", question->offload},           {"memory_margin", question->memory_margin}};
  struct pz_plan plan = pz_plan_default();
  struct pz_job job = {.model = question->models[model], .chip = chip, .net = net};
  bool launches_kernels = chip->execution == PZ_CHIP_STREAM;
  plan.peft = question->peft;
  const char *framework = "compiled";
  if (launches_kernels) framework = pz_plan_trains_adapters(&plan) ? "nemo" : "megatron";
  plan.framework = pz_framework_find(framework);
  if (question->serial && !launches_kernels) plan.execution = PZ_EXECUTION_SERIAL;
  if (question->whole) plan.halves = 0; /* microbatches are not processed in two halves */
  plan.seq = question->model_seq[model] ? question->model_seq[model] : question->seq;
  plan.devices = question->devices;
  plan.batch = question->model_batch[model] ? question->model_batch[model] : question->batch;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].value)
      pz_must(call, pz_plan_set(&plan, fields[i].name, fields[i].value, pz_call_error(call)));
  struct pz_plan_question plan_question =
      pz_plan_question_make(call, &job, &plan, question->whole ? PZ_PLAN_PIN(HALVES) : 0);
  plan_question.threads = 1; /* each worker of the evaluator is a thread already */
  plan_question.all_devices = true;
  plan_question.ending = question->ending;
  return plan_question;
}

/* ---- creation ------------------------------------------------------------------------------- */

/* Releases what the evaluator owns outside its own memory; a pz_close_fn. */
static void release_training(void *training) {
  struct training *self = training;
  for (size_t i = 0; self->finders && i < (size_t)self->n_workers * self->question.n_models; i++)
    pz_plan_finder_free(self->finders[i]);
  for (unsigned i = 0; self->plan_arenas && i < self->n_workers; i++)
    pz_arena_release(&self->plan_arenas[i]);
  for (unsigned i = 0; self->times && i < self->n_workers; i++)
    pz_product_times_free(self->times[i]);
  pz_free(self->block);
}

/* Frees the evaluator (struct pz_evaluator_ops). */
static void free_training(struct pz_evaluator *evaluator) {
  release_training(evaluator);
  pz_object_free(evaluator);
}

/* The arguments of create_finders_of_worker(). */
struct finder_creation {
  struct training *training;
  const struct pz_chip *example_chip;
  struct pz_product_times *times; /* borrowed times, or NULL if every worker has its own */
};

/* Creates the plan finders of a worker for all models.  One thread creates them all, because
 * they share the worker's times. */
static void create_finders_of_worker(struct pz_call *call, void *ctx, size_t worker,
                                     unsigned thread) {
  const struct finder_creation *creation = ctx;
  struct training *training = creation->training;
  struct pz_cluster net = pz_training_cluster(&training->question, creation->example_chip);
  (void)thread;
  for (uint32_t model = 0; model < training->question.n_models; model++) {
    struct pz_plan_question question =
        pz_training_ask(call, &training->question, model, creation->example_chip, &net);
    question.shared = &training->shared;
    question.sharing_key = model;
    question.job.times = creation->times ? creation->times : training->times[worker];
    training->finders[worker * training->question.n_models + model] =
        pz_finder_new(call, &question);
  }
}

/* Creates the evaluator, with a plan finder for each thread and model. */
struct pz_evaluator *pz_training_create(struct pz_call *call,
                                        const struct pz_training_question *question,
                                        const struct pz_chip *example_chip, struct pz_pool *pool,
                                        struct pz_product_times *times) {
  struct pz_call in_evaluator;
  struct training *training = pz_object_new(call, sizeof *training, &in_evaluator);
  pz_defer(call, release_training, training);
  training->base.ops = &training_ops;
  training->question = *question;
  training->n_workers = pool ? pz_pool_threads(pool) : 1;
  /* The ranks of a node share a table; if that is not possible, the threads of this rank do.
   * Without memory for it, every thread computes all times itself. */
  void *block = pool ? pz_ranks_shared_memory(call, SHARED_BYTES) : NULL;
  if (!block && training->n_workers > 1) {
    training->block = pz_calloc(1, SHARED_BYTES);
    block = training->block;
  }
  pz_shared_table_init(&training->shared, block, SHARED_BYTES);
  training->plan_arenas =
      pz_alloc(&in_evaluator, training->n_workers, sizeof *training->plan_arenas);
  for (unsigned i = 0; i < training->n_workers; i++) pz_arena_init(&training->plan_arenas[i]);
  if (!times) {
    training->times = pz_alloc(&in_evaluator, training->n_workers, sizeof *training->times);
    for (unsigned i = 0; i < training->n_workers; i++)
      training->times[i] = pz_product_times_new(call, &training->shared);
  }
  training->finders =
      pz_alloc(&in_evaluator, (size_t)training->n_workers * training->question.n_models,
               sizeof *training->finders);
  struct finder_creation creation = {training, example_chip, times};
  pz_pool_run(call, pool, training->n_workers, create_finders_of_worker, &creation);
  pz_undefer(call, training);
  return pz_object_keep(call, training);
}

/* Returns the table of GEMM times that a worker fills. */
struct pz_product_times *pz_training_times(const struct pz_evaluator *evaluator, unsigned worker) {
  return ((const struct training *)evaluator)->times[worker];
}

/* ---- bounds --------------------------------------------------------------------------------- */

/* Returns whether the buffers of a chip hold a tile; otherwise it cannot run anything. */
static bool holds_tiles(const struct pz_chip *chip) {
  return chip->tensor.local_bytes >= pz_chip_least_local_bytes(chip) &&
         chip->glb_bytes >= pz_chip_least_glb_bytes(chip);
}

/* Returns a lower bound on the step of a model on all chips of a box.  GEMMs have nested
 * mappings (cost/mapper.h), as the rules of the space's chips require.  With more of a resource
 * there are more mappings and none is slower, so that the largest chip of a box bounds all of
 * them.  Level 0 is a coarser bound, which is often sufficient. */
static double bound_training(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                             const struct pz_boxed *box, uint32_t model, int level,
                             double enough_s) {
  struct training *training = (struct training *)evaluator;
  struct pz_cluster net = pz_training_cluster(&training->question, &box->hi);
  struct pz_finder_chip largest = {&box->hi, &net};
  struct pz_plan_finder *finder =
      training->finders[(size_t)worker * training->question.n_models + model];
  if (!holds_tiles(&box->hi)) return HUGE_VAL;
  return level ? pz_finder_bound_s(call, finder, largest, enough_s)
               : pz_finder_floor_s(call, finder, largest, enough_s);
}

/* Returns a lower bound on the dynamic energy of a step on all chips of a box.  It is the energy
 * to compute everything at the voltage of the slowest clock, and to move what the largest global
 * buffer cannot hold.  Static energy comes on top: at least static_watts of the smallest chip
 * times the bound on the step of the largest chip. */
static double least_joules(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                           const struct pz_boxed *box, uint32_t model) {
  const struct training *training = (const struct training *)evaluator;
  struct pz_plan_finder *finder =
      training->finders[(size_t)worker * training->question.n_models + model];
  return pz_finder_least_j(call, finder, &box->hi, box->least.voltage2);
}

/* Estimates the step of a model on the best chip of a box, which is the largest. */
static double estimate_training(struct pz_call *call, struct pz_evaluator *evaluator,
                                unsigned worker, const struct pz_boxed *box, uint32_t model) {
  struct training *training = (struct training *)evaluator;
  struct pz_cluster net = pz_training_cluster(&training->question, &box->hi);
  struct pz_finder_chip largest = {&box->hi, &net};
  if (!holds_tiles(&box->hi)) return HUGE_VAL;
  return pz_finder_promising_s(
      call, training->finders[(size_t)worker * training->question.n_models + model], largest);
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* The fastest plan of a model on a chip. */
struct fastest_plan {
  const struct pz_found_plan *found; /* NULL if no plan has a step below the limit */
  double least_s;                    /* lower bound on the step */
  double dynamic_j;                  /* energy of a step without static power, joules */
};

/* Finds the fastest plan with a step below limit_s on a chip whose cores are scheduled, as all chips
 * of a space are.  A chip whose buffers cannot hold a tile has no plan. */
static struct fastest_plan find_fastest(struct pz_call *call, struct training *training,
                                        unsigned worker, const struct pz_chip *chip, uint32_t model,
                                        double limit_s) {
  struct fastest_plan fastest = {.least_s = limit_s};
  struct pz_cluster net = pz_training_cluster(&training->question, chip);
  struct pz_finder_chip finder_chip = {chip, &net};
  struct pz_plan_finder *finder =
      training->finders[(size_t)worker * training->question.n_models + model];
  if (!holds_tiles(chip)) return fastest;
  struct pz_found_plans plans =
      pz_finder_best(call, finder, finder_chip, limit_s, &fastest.least_s);
  if (!plans.n) return fastest;
  fastest.found = &plans.list[0];
  fastest.dynamic_j =
      pz_finder_plan_j(call, finder, finder_chip, &fastest.found->plan, fastest.found->p.params);
  return fastest;
}

/* Returns the best plan of a model on the chip of a box that has only one, so that its smallest chip
 * (chip->lo) is that chip.  If no plan is found, none fits, or there is a limit and every step is at
 * least limit_s; only in the second case is the effort PZ_EFFORT_NONE. */
static struct pz_evaluation evaluate_training(struct pz_call *call, struct pz_evaluator *evaluator,
                                              unsigned worker, const struct pz_boxed *chip,
                                              uint32_t model, enum pz_effort effort,
                                              double limit_s) {
  struct training *training = (struct training *)evaluator;
  struct fastest_plan fastest = find_fastest(call, training, worker, &chip->lo, model, limit_s);
  bool has_limit = limit_s < HUGE_VAL;
  if (!fastest.found)
    return (struct pz_evaluation){
        .effort = has_limit ? PZ_EFFORT_NONE : effort, .step_s = HUGE_VAL, .least_s = limit_s};
  double step_s = fastest.found->p.step_s;
  return (struct pz_evaluation){.effort = effort,
                                .step_s = step_s,
                                .least_s = fastest.least_s,
                                .n_open = fastest.least_s < step_s,
                                .dynamic_j = fastest.dynamic_j};
}

/* Finds the best plan of a model on a chip.  The plan finders handle only chips whose cores are
 * scheduled, so that a chip that launches kernels (a GPU) needs a search of its own. */
bool pz_training_find_plan(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                           const struct pz_chip *chip, uint32_t model, struct pz_found_plan *out,
                           double *dynamic_j) {
  struct training *training = (struct training *)evaluator;
  if (chip->execution == PZ_CHIP_SCHEDULED) {
    struct fastest_plan fastest = find_fastest(call, training, worker, chip, model, HUGE_VAL);
    if (!fastest.found) return false;
    *out = *fastest.found;
    *dynamic_j = fastest.dynamic_j;
    return true;
  }
  struct pz_cluster net = pz_training_cluster(&training->question, chip);
  struct pz_arena *arena = &training->plan_arenas[worker];
  pz_arena_release(arena);
  pz_arena_init(arena);
  struct pz_plan_question question = pz_training_ask(call, &training->question, model, chip, &net);
  struct pz_call plans = pz_call_in(call, arena);
  const struct pz_found_plans *found = pz_find_plans(&plans, &question);
  if (!found->n) return false;
  *out = found->list[0];
  *dynamic_j = pz_step_energy(call, &question.job, &out->plan, &out->p).dynamic_j;
  return true;
}

static const struct pz_evaluator_ops training_ops = {.name = "training",
                                                     .has_cheap_bounds = true,
                                                     .free = free_training,
                                                     .bound = bound_training,
                                                     .least_j = least_joules,
                                                     .estimate = estimate_training,
                                                     .evaluate = evaluate_training};
