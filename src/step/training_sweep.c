/* Predictions of many plans in one call: pz_training_sweep().
 *
 * A prediction spends most of its time on the graphs and kernel times of a model (struct
 * pz_step_model), which plans share that differ only in fields of shared_fields[].  The plans are
 * therefore sorted by all other fields, and runs of equal plans become the tasks of a pool, each
 * with one model.  The predictions are those of pz_training_predict(), on any number of threads. */
#include <stdlib.h>

#include "core/alloc.h"
#include "core/pool.h"
#include "plan/plan_fields.h"
#include "step/prediction.h"
#include "step/step_model.h"

/* Fields in which plans of one step model may differ: the plan's division into stages and replicas,
 * and what is recomputed.  Plans with more devices than the network, which is then extended, share
 * a model only if the extended networks are equal. */
static const enum pz_plan_field shared_fields[] = {
    PZ_PLAN_DEVICES, PZ_PLAN_BATCH,     PZ_PLAN_PP,           PZ_PLAN_VPP,
    PZ_PLAN_DP,      PZ_PLAN_ZERO,      PZ_PLAN_FIRST_LAYERS, PZ_PLAN_LAST_LAYERS,
    PZ_PLAN_SHARD,   PZ_PLAN_RECOMPUTE, PZ_PLAN_PIPELINE,     PZ_PLAN_RECOMPUTE_LAYERS};

/* Most plans of a task, so that several threads have work if all plans share one model. */
enum { MOST_TASK_PLANS = 64 };

struct sweep_plan {
  struct pz_plan plan;     /* without unset fields */
  struct pz_plan key;      /* the same with the fields of shared_fields[] unset */
  int64_t network_devices; /* devices of the network of the plan; 0: the chip's own link */
  uint32_t index;          /* position among the plans of the question */
};

struct sweep {
  struct pz_job job; /* with the network of the question */
  const struct sweep_plan *plans;
  uint32_t *first_plans;         /* of each task, and at the end the number of plans */
  struct pz_training_run **runs; /* by position among the plans of the question */
  char **errors;
};

/* ---- plans and tasks ------------------------------------------------------------------------ */

/* Orders plans by what their step models depend on.  Returns 0 if they can share a model. */
static int compare_models(const struct sweep_plan *a, const struct sweep_plan *b) {
  if (a->network_devices != b->network_devices)
    return a->network_devices < b->network_devices ? -1 : 1;
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    int order = pz_plan_field_compare(&a->key, &b->key, (enum pz_plan_field)i);
    if (order) return order;
  }
  return 0;
}

/* Orders plans by their step models, and equal ones by their position, for qsort(). */
static int compare_plans(const void *a_item, const void *b_item) {
  const struct sweep_plan *a = a_item, *b = b_item;
  int order = compare_models(a, b);
  if (order) return order;
  return a->index < b->index ? -1 : a->index > b->index;
}

struct checked_plan {
  struct pz_job job;
  const struct pz_plan *asked;
  struct sweep_plan *out;
};

/* Fills in a plan and the key by which plans are sorted.  Raises an error for a bad plan. */
static void check_plan(struct pz_call *call, void *ctx) {
  struct checked_plan *checked = ctx;
  struct pz_cluster wide;
  const struct pz_plan unset = pz_plan_default();
  struct sweep_plan *out = checked->out;
  pz_training_question(call, &checked->job, checked->asked, &out->plan, &wide);
  out->network_devices = checked->job.net ? checked->job.net->devices : 0;
  out->key = out->plan;
  for (size_t i = 0; i < sizeof shared_fields / sizeof *shared_fields; i++)
    pz_plan_field_copy(&out->key, &unset, shared_fields[i]);
}

/* ---- predictions ---------------------------------------------------------------------------- */

struct task {
  const struct sweep_plan *plan;
  const struct pz_job *job;
  struct pz_step_model **model; /* made by the first plan that needs it */
  struct pz_training_run *run;
};

/* Predicts one plan with the model of its task. */
static void predict_plan(struct pz_call *call, void *ctx) {
  struct task *task = ctx;
  struct pz_call result;
  struct pz_training_run *run = pz_object_new(call, sizeof *run, &result);
  pz_require_plan(call, &task->plan->plan);
  if (!*task->model) {
    *task->model = pz_step_model_new(call, task->job, &task->plan->plan);
    pz_undefer(call, *task->model);
  }
  const bool events = false;
  *run = pz_training_run_price(&result, task->job, *task->model, &task->plan->plan, events);
  task->run = pz_object_keep(call, run);
}

static void free_model(void *model) { pz_step_model_free(*(struct pz_step_model **)model); }

/* Predicts the plans of a task.  A plan that cannot be predicted gets an error; the model is made
 * again after it, because an error may leave a model half changed. */
static void predict_task(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  const struct sweep *sweep = ctx;
  (void)worker;
  const struct sweep_plan *first = &sweep->plans[sweep->first_plans[i]];
  struct pz_step_model *model = NULL;
  struct pz_job job = sweep->job;
  struct pz_cluster wide;
  pz_defer(call, free_model, &model);
  job.net = pz_cluster_widen(call, job.net, first->plan.devices, &wide);
  for (uint32_t k = sweep->first_plans[i]; k < sweep->first_plans[i + 1]; k++) {
    const struct sweep_plan *plan = &sweep->plans[k];
    struct task task = {.plan = plan, .job = &job, .model = &model};
    struct pz_error why = {0};
    if (pz_border(predict_plan, &task, &why) == PZ_OK) {
      sweep->runs[plan->index] = task.run;
      continue;
    }
    pz_raise_if_memory(call, &why);
    sweep->errors[plan->index] = pz_strdup(why.message);
    if (!sweep->errors[plan->index]) pz_raise_memory(call, "a message");
    pz_step_model_free(model);
    model = NULL;
  }
}

/* ---- the public functions ------------------------------------------------------------------- */

struct sweep_args {
  struct pz_job job;
  const struct pz_plan *plans;
  uint32_t n_plans;
  unsigned threads;
  struct pz_training_sweep **out;
};

static void free_sweep(void *sweep) { pz_training_sweep_free(sweep); }

/* Fills in all plans, divides them into tasks of plans that share a step model, and predicts the
 * tasks in parallel.  A plan that is inconsistent or cannot be predicted gets an error instead. */
static void sweep_plans(struct pz_call *call, void *ctx) {
  const struct sweep_args *args = ctx;
  uint32_t n = args->n_plans, n_checked = 0, n_tasks = 0;
  pz_require(call, args->out, "out");
  if (n) pz_require(call, args->plans, "plans");
  struct pz_training_sweep *found = pz_calloc(1, sizeof *found);
  if (!found) pz_raise_memory(call, "the predictions");
  pz_defer(call, free_sweep, found);
  found->runs = pz_calloc(n, sizeof *found->runs);
  found->errors = pz_calloc(n, sizeof *found->errors);
  if (!found->runs || !found->errors) pz_raise_memory(call, "the predictions");
  found->n = n;

  struct sweep_plan *plans = pz_alloc(call, n, sizeof *plans);
  for (uint32_t i = 0; i < n; i++) {
    struct checked_plan checked = {args->job, &args->plans[i], &plans[n_checked]};
    struct pz_error why = {0};
    plans[n_checked].index = i;
    enum pz_status status = pz_border(check_plan, &checked, &why);
    if (status == PZ_OK) {
      n_checked++;
      continue;
    }
    pz_raise_if_memory(call, &why);
    found->errors[i] = pz_strdup(why.message);
    if (!found->errors[i]) pz_raise_memory(call, "a message");
  }
  /* a task begins where the step model changes, or after MOST_TASK_PLANS plans */
  if (n_checked) qsort(plans, n_checked, sizeof *plans, compare_plans);
  uint32_t *first_plans = pz_alloc(call, (size_t)n_checked + 1, sizeof *first_plans);
  for (uint32_t i = 0; i < n_checked; i++) {
    bool starts = i == 0 || compare_models(&plans[i - 1], &plans[i]) != 0 ||
                  i - first_plans[n_tasks - 1] == MOST_TASK_PLANS;
    if (starts) first_plans[n_tasks++] = i;
  }
  first_plans[n_tasks] = n_checked;
  struct sweep sweep = {args->job, plans, first_plans, found->runs, found->errors};
  struct pz_pool *pool = n_tasks > 1 ? pz_pool_open(call, args->threads) : NULL;
  pz_pool_run(call, pool, n_tasks, predict_task, &sweep);
  pz_undefer(call, found);
  *args->out = found;
}

enum pz_status pz_training_sweep(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net, const struct pz_plan *plans,
                                 uint32_t n_plans, unsigned threads, struct pz_training_sweep **out,
                                 struct pz_error *err) {
  struct sweep_args args = {.job = {.model = model, .chip = chip, .net = net},
                            .plans = plans,
                            .n_plans = n_plans,
                            .threads = threads,
                            .out = out};
  return pz_border(sweep_plans, &args, err);
}

void pz_training_sweep_free(struct pz_training_sweep *sweep) {
  if (!sweep) return;
  for (uint32_t i = 0; i < sweep->n; i++) {
    pz_training_run_free(sweep->runs[i]);
    pz_free(sweep->errors[i]);
  }
  pz_free(sweep->runs);
  pz_free(sweep->errors);
  pz_free(sweep);
}
