/* Runs a study.  pz_study_open() checks the options, reads the space, the network and the models, and applies defaults;
 * pz_study_start() makes the evaluator and the search and finds the step times of the reference chip, in whose units
 * objectives are expressed; pz_study_run_objective() hands one objective to the search.  The inputs as JSON are in
 * study_inputs.c. */
#include "study/study.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/options.h"
#include "core/text.h"
#include "study/tasks.h"
#include "workload/workload.h"

struct pz_study_options pz_study_options_default(void) {
  struct pz_study_options o = {.size = sizeof o,
                               .space = "paper",
                               .cluster = "paper",
                               .mbs = pz_choices_powers(32),
                               .hbm_gib = {{32, 64, 80}, 3},
                               .tp = pz_choices_powers(8),
                               .devices = 1024,
                               .batch = 4096,
                               .state = 3,
                               .gap = -1,
                               .scale_up = 8,
                               .outer_bytes_per_s =
                                   50e9, /* one 400 Gb/s interface per device, as in a DGX H100 */
                               .pareto_tolerance = 0.01,
                               .workload = pz_workload_options_default(),
                               .steps = PZ_LAYER_STEPS};
  for (int i = 0; i < PZ_SEARCH_MOST_MODELS; i++) o.weight[i] = 1;
  return o;
}

/* ---- checks --------------------------------------------------------------------------------- */

static void check_real(struct pz_call *call, const char *name, double value, double min,
                       double max) {
  bool in_range = value >= min && value <= max; /* false for NaN */
  if (!in_range) pz_raise(call, PZ_BAD_USE, "%s %g; accepted: %g to %g", name, value, min, max);
}

static void check_models(struct pz_call *call, const struct pz_study_options *o) {
  pz_require_range(call, "number of models", o->n_models, 1, PZ_SEARCH_MOST_MODELS);
  for (uint32_t i = 0; i < o->n_models; i++) {
    const char *name = o->models[i];
    pz_require(call, name, "the name of a model");
    /* Names are written to inputs, results and pages, all of which are UTF-8. */
    json_t *text = json_string(name);
    json_decref(text);
    if (!text)
      pz_raise(call, PZ_BAD_USE, "model %u: '%s' is not UTF-8; accepted: a file name in UTF-8",
               i + 1, name);
    if (!pz_text_is_plain(name))
      pz_raise(call, PZ_BAD_INPUT, "%s: accepted: a path without control characters", name);
    bool weight_in_range = o->weight[i] > 0 && o->weight[i] < 1e9;
    if (!weight_in_range) pz_raise(call, PZ_BAD_USE, "weight %g; accepted: above 0", o->weight[i]);
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(o->models[k], name) == 0) pz_raise(call, PZ_BAD_USE, "%s is given twice", name);
  }
}

static void check_study_options(struct pz_call *call, const struct pz_study_options *o) {
  static const int64_t MOST_STEPS = 1000000000000000, MOST_ROUNDS = 1000000000000000;
  check_models(call, o);
  if (!o->space_text) pz_require(call, o->space, "space");
  pz_require_range(call, "devices", o->devices, 1, 1 << 30);
  pz_require_range(call, "batch", o->batch, 1, 1 << 30);
  pz_require_range(call, "scale_up", o->scale_up, 1, 1 << 30);
  check_real(call, "outer_bytes_per_s", o->outer_bytes_per_s, 1, 1e18);
  check_real(call, "limit_mm2", o->limit_mm2, 0, 1e9);
  check_real(call, "limit_watts", o->limit_watts, 0, 1e9);
  check_real(call, "limit_dollars", o->limit_dollars, 0, 1e9);
  check_real(call, "gap", o->gap, -1, 1);
  pz_require_range(call, "rounds", o->rounds, 0, MOST_ROUNDS);
  check_real(call, "seconds", o->seconds, 0, 1e9);
  check_real(call, "pareto_tolerance", o->pareto_tolerance, 0, 1);
  pz_require_range(call, "objective", (int64_t)o->objective, 0, PZ_OBJECTIVES - 1);
  pz_require_range(call, "evaluator", (int64_t)o->evaluator, 0, PZ_EVALUATORS - 1);
  if (o->n_weight && o->n_weight != o->n_models)
    pz_raise(call, PZ_BAD_USE, "%u weights for %u models; accepted: one for each", o->n_weight,
             o->n_models);
  if (o->n_weight && o->objective != PZ_OBJECTIVE_WEIGHTED)
    pz_raise(call, PZ_BAD_USE, "weights with the objective %s; accepted: weighted",
             pz_objective_names[o->objective]);
  /* Options of the evaluator original */
  pz_must(call, pz_choices_check("mbs", &o->mbs, 1, pz_call_error(call)));
  if (!o->cluster_text) pz_require(call, o->cluster, "cluster");
  pz_must(call, pz_choices_check("tp", &o->tp, 1, pz_call_error(call)));
  pz_must(call, pz_choices_check("hbm_gib", &o->hbm_gib, 1, pz_call_error(call)));
  pz_require_range(call, "steps", o->steps, 1, MOST_STEPS);
  check_real(call, "state", o->state, 1, 100);
  pz_require_range(call, "assumptions", o->assumptions, 0, PZ_ASSUME_ALL);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads the space and the limits, and decides the options whose defaults depend on the space. */
static void read_study_space(struct pz_call *call, struct pz_study *s) {
  struct pz_study_options *o = &s->o;
  struct pz_error *err = pz_call_error(call);
  const char *text = o->space_text;
  if (text)
    pz_must(call, pz_space_parse("space", text, strlen(text), &s->space, err));
  else
    pz_must(call, pz_space_load(o->space, &s->space, err));
  if (o->node) pz_must(call, pz_space_set_node(&s->space, o->node, err));

  if (o->evaluator == PZ_EVALUATOR_DEFAULT) {
    bool paper = strcmp(s->space.name, "paper") == 0;
    o->evaluator = paper ? PZ_EVALUATOR_ORIGINAL : PZ_EVALUATOR_TRAINING;
  }
  bool training = pz_study_is_training(s);
  if (o->gap < 0) o->gap = training ? 0.01 : 0;
  if (!training || o->objective == PZ_OBJECTIVE_REGRET) o->each_model = true;
  s->space.compiled = s->space.cold = training;
  if (!training && o->gap > 0)
    pz_raise(call, PZ_BAD_USE, "gap %g; accepted by the evaluator original: 0", o->gap);
  if (training && o->assumptions)
    pz_raise(call, PZ_BAD_USE, "assumptions; accepted by the evaluator training: none");

  s->limits =
      (struct pz_limits){.mm2 = o->limit_mm2, .watts = o->limit_watts, .dollars = o->limit_dollars};
  pz_must(call, pz_limits_complete(&s->space, o->budget, o->node, &s->limits, err));
  s->space.watts = s->limits.watts;
}

static void list_study_points(struct pz_call *call, struct pz_study *s) {
  pz_must(call, pz_space_list(&s->space, &s->limits, &s->arena, &s->points, &s->n_points,
                              pz_call_error(call)));
}

static void read_training_study(struct pz_call *call, struct pz_study *s) {
  struct pz_training_question *q = &s->training;
  *q = (struct pz_training_question){.n_models = s->o.n_models,
                                     .devices = s->o.devices,
                                     .batch = s->o.batch,
                                     .seq = s->o.workload.seq,
                                     .scale_up = s->o.scale_up,
                                     .outer_bytes_per_s = s->o.outer_bytes_per_s,
                                     .serial = s->o.serial,
                                     .precision = s->o.precision,
                                     .peft = s->o.peft,
                                     .fp8_recipe = s->o.fp8_recipe,
                                     .moment_bytes = s->o.moment_bytes,
                                     .mtp = s->o.mtp,
                                     .offload = s->o.offload,
                                     .memory_margin = s->o.memory_margin};
  for (uint32_t i = 0; i < q->n_models; i++) {
    q->models[i] =
        pz_model_of_text(s->o.models[i], &s->arena, &q->model_seq[i], &q->model_batch[i]);
    if (!q->models[i]) pz_raise(call, PZ_NO_MEMORY, "out of memory for the models");
    s->names[i] = q->models[i];
  }
  if (s->o.pareto) list_study_points(call, s);
}

static void read_original_study(struct pz_call *call, struct pz_study *s) {
  enum { QUICK_STEPS = 2000 };
  const struct pz_study_options *o = &s->o;
  struct pz_original_task *task = &s->task;
  struct pz_error *err = pz_call_error(call);
  const char *text = o->cluster_text;
  pz_assume_chip(o->assumptions, &s->space.base);
  if (text)
    pz_must(call, pz_cluster_parse("cluster", text, strlen(text), &task->net, err));
  else
    pz_must(call, pz_cluster_load(o->cluster, &task->net, err));
  pz_must(call, pz_cluster_reach(&task->net, o->devices, "devices", err));
  task->assumptions = o->assumptions;
  pz_assume_network(task->assumptions, &task->net);
  task->space = &s->space;
  task->portfolio = &s->portfolio;
  task->most_mm2 = s->limits.mm2;
  task->o = (struct pz_task_options){.devices = o->devices,
                                     .batch = o->batch,
                                     .state = o->state,
                                     .hbm_gib = o->hbm_gib,
                                     .quick_steps = pz_min(o->steps, QUICK_STEPS),
                                     .steps = o->steps};
  list_study_points(call, s);
  struct pz_variant_choices choices = {&o->mbs, &o->tp, o->batch, o->devices};
  pz_portfolio_build(call, &s->portfolio, o->models, o->n_models, &choices, &o->workload);
  for (uint32_t i = 0; i < o->n_models; i++) s->names[i] = s->portfolio.models[i];
}

static void release_deferred_study(void *s) { pz_study_release(s); }

void pz_study_open(struct pz_call *call, struct pz_study *s, const struct pz_study_options *o,
                   unsigned threads) {
  *s = (struct pz_study){.o = *o};
  s->o.workload.input_gradients_only = pz_assumed(o->assumptions, PZ_ASSUME_NO_WEIGHT_GRADIENTS);
  pz_arena_init(&s->arena, NULL);
  pz_vec_init(&s->notes, &s->arena, sizeof(struct pz_note));
  pz_defer(call, release_deferred_study, s);
  check_study_options(call, &s->o);
  read_study_space(call, s);
  if (pz_study_is_training(s))
    read_training_study(call, s);
  else
    read_original_study(call, s);
  pz_study_hash_models(call, s);
  pz_must(call, pz_pool_new(threads, &s->pool, pz_call_error(call)));
  s->n_runs = s->o.each_model && s->o.n_models > 1 ? s->o.n_models + 1 : 1;
  for (uint32_t i = 0; i < s->n_runs; i++) s->most_rounds[i] = s->o.rounds;
}

void pz_study_release(struct pz_study *s) {
  if (!s) return;
  pz_search_free(s->search);
  pz_evaluator_free(s->by);
  pz_pool_free(s->pool);
  pz_portfolio_release(&s->portfolio);
  pz_arena_release(&s->arena);
  *s = (struct pz_study){.n_runs = 0};
}

/* ---- references ----------------------------------------------------------------------------- */

struct reference_task {
  struct pz_study *s;
  struct reference_result {
    struct pz_reference reference; /* evaluator original */
    struct pz_step_cost step;
  } found[PZ_SEARCH_MOST_MODELS];
};

/* Finds the step time of model i on the reference chip. */
static void find_reference(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct reference_task *task = ctx;
  struct pz_study *s = task->s;
  struct reference_result *out = &task->found[i];
  struct pz_progress *progress = pz_search_asked(s->search)->progress;
  if (!pz_study_is_training(s)) {
    struct pz_reference *r = &out->reference;
    *r = pz_reference_of_model(call, pz_original_worker(s->by, worker), (uint32_t)i);
    out->step.step_s = r->samples_per_s > 0 ? (double)s->o.batch / r->samples_per_s : HUGE_VAL;
    pz_progress_add(progress, 1);
    return;
  }
  struct pz_found_plan plan;
  bool fits = pz_training_find_plan(call, s->by, worker, &s->reference_chip, (uint32_t)i, &plan,
                                    &out->step.dynamic_j);
  pz_progress_add(progress, 1);
  if (!fits)
    pz_raise(call, PZ_NO_ANSWER,
             "no plan of %s fits on %lld x %s, the reference; accepted: more devices", s->names[i],
             (long long)s->o.devices, s->reference_chip.name);
  out->step.step_s = plan.p.step_s;
}

void pz_study_find_references(struct pz_call *call, struct pz_study *s, struct pz_watch watch) {
  struct reference_task task = {.s = s};
  struct pz_study_tasks tasks = {.run = find_reference,
                                 .ctx = &task,
                                 .results = task.found,
                                 .result_bytes = sizeof *task.found};
  pz_study_phase_begin(call, watch.progress, "reference", "models", s->o.n_models);
  pz_study_run_tasks(call, s->search, s->o.n_models, &tasks);
  pz_study_phase_end(call, watch.progress);
  for (uint32_t i = 0; i < s->o.n_models; i++) {
    s->reference[i] = task.found[i].reference;
    s->reference_step[i] = task.found[i].step;
  }
}

/* ---- running -------------------------------------------------------------------------------- */

void pz_study_start(struct pz_call *call, struct pz_study *s, const struct pz_study_watch *w) {
  struct pz_error *err = pz_call_error(call);
  bool training = pz_study_is_training(s);
  pz_search_free(s->search); /* of an earlier call that was stopped */
  pz_evaluator_free(s->by);
  s->search = NULL;
  s->by = NULL;
  s->ending = (struct pz_ending){.progress = w->watch.progress};
  s->training.ending = &s->ending;

  pz_must(call, pz_chip_read(training ? "h100" : PZ_REFERENCE_CHIP, &s->reference_chip, err));
  if (training) pz_must(call, pz_chip_make_cold(&s->reference_chip, s->space.constants, err));
  s->reference_taken = pz_chip_taken(&s->reference_chip);

  if (training) {
    struct pz_box all = pz_box_all(&s->space, 0);
    struct pz_boxed largest;
    pz_boxed_set(&s->space, &all, &largest);
    s->by = pz_training_create(call, &s->training, &largest.hi, s->pool, NULL);
  } else {
    s->by = pz_original_create(call, &s->task, s->o.exhaustive, s->pool, w->watch);
  }

  struct pz_search_question q = {.space = &s->space,
                                 .limits = s->limits,
                                 .n_entries = s->o.n_models,
                                 .gap = s->o.gap,
                                 .seconds = s->o.seconds,
                                 .exhaustive = s->o.exhaustive,
                                 .store = w->store,
                                 .progress = w->watch.progress,
                                 .stop = w->watch.stop,
                                 .ending = &s->ending};
  for (uint32_t i = 0; i < s->o.n_models; i++)
    q.entries[i] = (struct pz_search_entry){s->by, i, s->o.models[i]};
  pz_must(call, pz_search_new(&q, s->pool, &s->search, err));
  pz_study_find_references(call, s, w->watch);
}

static bool is_common(const struct pz_study *s, uint32_t i) { return i + 1 == s->n_runs; }

const char *pz_study_run_name(const struct pz_study *s, uint32_t i) {
  return is_common(s, i) && s->o.n_models > 1 ? "common" : s->o.models[i];
}

struct pz_objective pz_study_objective(struct pz_study *s, uint32_t i) {
  bool training = pz_study_is_training(s), common = is_common(s, i);
  struct pz_objective o = {.kind = s->o.objective,
                           .reference_taken = s->reference_taken,
                           .devices = (double)s->o.devices};
  for (uint32_t m = 0; m < s->o.n_models; m++) {
    struct pz_evaluation alone;
    o.batch[m] = (double)(training ? pz_training_batch(&s->training, m) : s->o.batch);
    if (common || i == m) o.models[o.n++] = m;
    o.reference[m] = s->reference_step[m];
    /* If the model does not fit on the reference chip, the throughput itself is the objective. */
    bool has_reference = o.reference[m].step_s < HUGE_VAL;
    if (!has_reference) o.reference[m].step_s = o.batch[m];
    o.weight[m] = s->o.weight[m];
    o.best_alone[m] = 1;
    if (common && s->n_runs > 1 && pz_search_known(s->search, &s->objective_run[m].best, m, &alone))
      o.best_alone[m] = o.batch[m] / alone.step_s;
  }
  return o;
}

void pz_study_run_objective(struct pz_call *call, struct pz_study *s, uint32_t i) {
  s->objective_run[i] = (struct pz_objective_run){.objective = pz_study_objective(s, i),
                                                  .most_rounds = s->most_rounds[i]};
  pz_must(call, pz_search_run(s->search, i, &s->objective_run[i], pz_call_error(call)));
}

/* ---- the best chip -------------------------------------------------------------------------- */

/* More memory is never slower, and the search evaluated chips with the largest memory. */
double pz_study_smallest_memory(struct pz_call *call, struct pz_study *s,
                                const struct pz_objective_run *run) {
  const struct pz_choices *hbm = &s->o.hbm_gib;
  if (pz_study_is_training(s) || !hbm->n) {
    struct pz_chip chip;
    pz_space_chip(&s->space, &run->best, &chip);
    return (double)pz_chip_hbm_bytes(&chip) / 0x1p30;
  }
  for (int h = 0; h < hbm->n; h++) {
    bool as_fast = true;
    for (uint32_t i = 0; i < run->objective.n && as_fast; i++) {
      uint32_t m = run->objective.models[i];
      struct pz_evaluation largest;
      if (!pz_search_known(s->search, &run->best, m, &largest))
        pz_raise(call, PZ_INTERNAL, "the best chip was not evaluated");
      struct pz_evaluation e = pz_original_evaluate(call, pz_original_worker(s->by, 0), &run->best,
                                                    m, (double)hbm->v[h], largest.effort, HUGE_VAL);
      as_fast = e.step_s <= largest.step_s;
    }
    if (as_fast) return (double)hbm->v[h];
  }
  return (double)hbm->v[hbm->n - 1];
}

void pz_study_chip(const struct pz_study *s, const struct pz_objective_run *run, double hbm_gib,
                   struct pz_chip *out) {
  pz_space_chip(&s->space, &run->best, out);
  if (!pz_study_is_training(s))
    out->hbm.bytes_per_stack = (int64_t)(hbm_gib * 0x1p30) / out->hbm.stacks;
}
