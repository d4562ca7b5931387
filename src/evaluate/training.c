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
  /* memory of each worker for plans of chips of another class than the space's */
  struct pz_arena *plan_arenas;
  /* GEMM times of each worker for all models, or NULL if they are borrowed */
  struct pz_product_times **times;
  struct pz_shared_table shared;
  void *block; /* memory of `shared`, or NULL if all ranks share it */
};

static const struct pz_evaluator_ops training_ops;

/* Returns the evaluator as its own type. */
static struct training *training_of(struct pz_evaluator *evaluator) {
  return (struct training *)evaluator;
}

/* ---- the question --------------------------------------------------------------------------- */

/* Reads "@SEQ" or "@SEQxBATCH" at the end of a text.  Returns its length, or 0 if there is none. */
static size_t read_size_suffix(const char *text, int64_t *seq, int64_t *batch) {
  enum { LARGEST = 1 << 24 };
  const char *at = strrchr(text, '@');
  char *end;
  if (!at || at == text || at[1] < '1' || at[1] > '9') return 0;
  *seq = strtol(at + 1, &end, 10);
  if (*end == 'x' && end[1] >= '1' && end[1] <= '9') *batch = strtol(end + 1, &end, 10);
  if (*end || *seq > LARGEST || *batch > LARGEST) return 0;
  return strlen(at);
}

const char *pz_model_of_text(struct pz_call *call, const char *text, int64_t *seq, int64_t *batch) {
  int64_t own_seq = 0, own_batch = 0;
  size_t suffix = read_size_suffix(text, &own_seq, &own_batch);
  char *name = pz_copy_text(call, text);
  if (suffix) name[strlen(name) - suffix] = 0;
  *seq = suffix ? own_seq : 0;
  *batch = suffix ? own_batch : 0;
  return name;
}

int64_t pz_training_batch(const struct pz_training_question *question, uint32_t model) {
  return question->model_batch[model] ? question->model_batch[model] : question->batch;
}

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
  if (question->whole) plan.halves = 0;
  plan.seq = question->model_seq[model] ? question->model_seq[model] : question->seq;
  plan.devices = question->devices;
  plan.batch = pz_training_batch(question, model);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].value)
      pz_must(call, pz_plan_set(&plan, fields[i].name, fields[i].value, pz_call_error(call)));
  struct pz_plan_question plan_question =
      pz_plan_question_make(call, &job, &plan, question->whole ? PZ_PLAN_PIN(HALVES) : 0);
  plan_question.threads = 1;
  plan_question.all_devices = true;
  plan_question.ending = question->ending;
  return plan_question;
}

/* ---- creation ------------------------------------------------------------------------------- */

/* Releases everything that is not in the memory of the evaluator. */
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

struct pz_product_times *pz_training_times(const struct pz_evaluator *evaluator, unsigned worker) {
  return ((const struct training *)evaluator)->times[worker];
}

/* ---- bounds --------------------------------------------------------------------------------- */

/* Returns the plan finder of a worker for a model. */
static struct pz_plan_finder *finder_of(struct training *training, unsigned worker,
                                        uint32_t model) {
  return training->finders[(size_t)worker * training->question.n_models + model];
}

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
  struct training *training = training_of(evaluator);
  struct pz_cluster net = pz_training_cluster(&training->question, &box->hi);
  struct pz_finder_chip largest = {&box->hi, &net};
  struct pz_plan_finder *finder = finder_of(training, worker, model);
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
  return pz_finder_least_j(call, finder_of(training_of(evaluator), worker, model), &box->hi,
                           box->least.voltage2);
}

/* Estimates the step of a model on the best chip of a box, which is the largest. */
static double estimate_training(struct pz_call *call, struct pz_evaluator *evaluator,
                                unsigned worker, const struct pz_boxed *box, uint32_t model) {
  struct training *training = training_of(evaluator);
  struct pz_cluster net = pz_training_cluster(&training->question, &box->hi);
  struct pz_finder_chip largest = {&box->hi, &net};
  if (!holds_tiles(&box->hi)) return HUGE_VAL;
  return pz_finder_promising_s(call, finder_of(training, worker, model), largest);
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* Finds the plans with a step below limit_s, or none if the chip cannot hold a tile. */
static struct pz_found_plans find_plans(struct pz_call *call, struct training *training,
                                        unsigned worker, const struct pz_chip *chip, uint32_t model,
                                        double limit_s, double *least_s) {
  struct pz_cluster net = pz_training_cluster(&training->question, chip);
  struct pz_finder_chip finder_chip = {chip, &net};
  if (!holds_tiles(chip)) return (struct pz_found_plans){.n = 0};
  return pz_finder_best(call, finder_of(training, worker, model), finder_chip, limit_s, least_s);
}

/* Returns the dynamic energy of one step with a plan, joules. */
static double energy_of_plan(struct pz_call *call, struct training *training, unsigned worker,
                             const struct pz_chip *chip, uint32_t model,
                             const struct pz_found_plan *found) {
  struct pz_cluster net = pz_training_cluster(&training->question, chip);
  struct pz_finder_chip finder_chip = {chip, &net};
  return pz_finder_plan_j(call, finder_of(training, worker, model), finder_chip, &found->plan,
                          found->p.params);
}

/* Returns the best plan of a model on the only chip of a box, with its energy. */
static struct pz_evaluation evaluate_training(struct pz_call *call, struct pz_evaluator *evaluator,
                                              unsigned worker, const struct pz_boxed *chip,
                                              uint32_t model, enum pz_effort effort,
                                              double limit_s) {
  struct training *training = training_of(evaluator);
  double least_s = limit_s;
  struct pz_found_plans found =
      find_plans(call, training, worker, &chip->lo, model, limit_s, &least_s);
  if (!found.n)
    return (struct pz_evaluation){.effort = limit_s < HUGE_VAL ? PZ_EFFORT_NONE : effort,
                                  .step_s = HUGE_VAL,
                                  .least_s = limit_s};
  double step_s = found.list[0].p.step_s;
  return (struct pz_evaluation){
      .effort = effort,
      .step_s = step_s,
      .least_s = least_s,
      .n_open = least_s < step_s,
      .dynamic_j = energy_of_plan(call, training, worker, &chip->lo, model, &found.list[0])};
}

/* Finds the best plan on a chip of another class than those of the space.  This needs a separate
 * search, because plan finders handle chips of one class only.  Returns false if none fits. */
static bool find_plan_of_other_class(struct pz_call *call, struct training *training,
                                     unsigned worker, const struct pz_chip *chip, uint32_t model,
                                     struct pz_found_plan *out, double *dynamic_j) {
  struct pz_cluster net = pz_training_cluster(&training->question, chip);
  pz_arena_release(&training->plan_arenas[worker]);
  pz_arena_init(&training->plan_arenas[worker]);
  struct pz_plan_question question = pz_training_ask(call, &training->question, model, chip, &net);
  struct pz_call plans = pz_call_in(call, &training->plan_arenas[worker]);
  const struct pz_found_plans *found = pz_find_plans(&plans, &question);
  if (!found->n) return false;
  *out = found->list[0];
  *dynamic_j = pz_step_energy(call, &question.job, &out->plan, &out->p).dynamic_j;
  return true;
}

bool pz_training_find_plan(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                           const struct pz_chip *chip, uint32_t model, struct pz_found_plan *out,
                           double *dynamic_j) {
  struct training *training = training_of(evaluator);
  double least_s;
  if (chip->execution != PZ_CHIP_SCHEDULED)
    return find_plan_of_other_class(call, training, worker, chip, model, out, dynamic_j);
  struct pz_found_plans found = find_plans(call, training, worker, chip, model, HUGE_VAL, &least_s);
  if (!found.n) return false;
  *out = found.list[0];
  *dynamic_j = energy_of_plan(call, training, worker, chip, model, out);
  return true;
}

static const struct pz_evaluator_ops training_ops = {.name = "training",
                                                     .has_cheap_bounds = true,
                                                     .free = free_training,
                                                     .bound = bound_training,
                                                     .least_j = least_joules,
                                                     .estimate = estimate_training,
                                                     .evaluate = evaluate_training};
