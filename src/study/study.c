#include "study/study.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/options.h"
#include "core/text.h"
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
                                   50e9, /* one 400 Gb/s interface a device, as a DGX H100 has */
                               .pareto_tolerance = 0.01,
                               .workload = pz_workload_options_default(),
                               .steps = PZ_LAYER_STEPS};
  for (int i = 0; i < PZ_SEARCH_MOST_MODELS; i++) o.weight[i] = 1;
  return o;
}

/* ---- checks --------------------------------------------------------------------------------- */

static enum pz_status check_real(const char *what, double v, double min, double max,
                                 struct pz_error *err) {
  if (v >= min && v <= max) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE, "%s %g; accepted: %g to %g", what, v, min, max);
}

/* Inputs, results and pages are UTF-8, and a name stands in all of them. */
static enum pz_status check_name(const char *name, uint32_t i, struct pz_error *err) {
  json_t *text = json_string(name);
  json_decref(text);
  if (!text)
    return pz_fail(err, PZ_BAD_USE, "model %u: '%s' is not UTF-8; accepted: a file name in UTF-8",
                   i + 1, name);
  return pz_text_is_plain(name)
             ? PZ_OK
             : pz_fail(err, PZ_BAD_INPUT, "%s: accepted: a path without control characters", name);
}

static enum pz_status check_models(const struct pz_study_options *o, struct pz_error *err) {
  enum pz_status status =
      pz_need_range("number of models", o->n_models, 1, PZ_SEARCH_MOST_MODELS, err);
  for (uint32_t i = 0; i < o->n_models && status == PZ_OK; i++) {
    status = pz_need(o->models[i], "the name of a model", err);
    if (status == PZ_OK) status = check_name(o->models[i], i, err);
    if (status == PZ_OK && !(o->weight[i] > 0 && o->weight[i] < 1e9))
      status = pz_fail(err, PZ_BAD_USE, "weight %g; accepted: above 0", o->weight[i]);
    for (uint32_t k = 0; k < i && status == PZ_OK; k++)
      if (strcmp(o->models[k], o->models[i]) == 0)
        status = pz_fail(err, PZ_BAD_USE, "%s is given twice", o->models[i]);
  }
  return status;
}

static enum pz_status check_limits(const struct pz_study_options *o, struct pz_error *err) {
  enum pz_status s = check_real("limit_mm2", o->limit_mm2, 0, 1e9, err);
  if (s == PZ_OK) s = check_real("limit_watts", o->limit_watts, 0, 1e9, err);
  if (s == PZ_OK) s = check_real("limit_dollars", o->limit_dollars, 0, 1e9, err);
  if (s == PZ_OK) s = check_real("gap", o->gap, -1, 1, err);
  if (s == PZ_OK) s = pz_need_range("rounds", o->rounds, 0, INT64_C(1000000000000000), err);
  if (s == PZ_OK) s = check_real("seconds", o->seconds, 0, 1e9, err);
  if (s == PZ_OK) s = check_real("pareto_tolerance", o->pareto_tolerance, 0, 1, err);
  if (s == PZ_OK) s = pz_need_range("objective", (int64_t)o->objective, 0, PZ_OBJECTIVES - 1, err);
  if (s == PZ_OK) s = pz_need_range("evaluator", (int64_t)o->evaluator, 0, PZ_EVALUATORS - 1, err);
  return s;
}

static enum pz_status check_original(const struct pz_study_options *o, struct pz_error *err) {
  static const int64_t STEPS = 1000000000000000;
  enum pz_status s = pz_choices_check("mbs", &o->mbs, 1, err);
  if (s == PZ_OK && !o->cluster_text) s = pz_need(o->cluster, "cluster", err);
  if (s == PZ_OK) s = pz_choices_check("tp", &o->tp, 1, err);
  if (s == PZ_OK) s = pz_choices_check("hbm_gib", &o->hbm_gib, 1, err);
  if (s == PZ_OK) s = pz_need_range("steps", o->steps, 1, STEPS, err);
  if (s == PZ_OK) s = check_real("state", o->state, 1, 100, err);
  if (s == PZ_OK) s = pz_need_range("assumptions", o->assumptions, 0, PZ_ASSUME_ALL, err);
  return s;
}

static enum pz_status check_options(const struct pz_study_options *o, struct pz_error *err) {
  enum pz_status s = check_models(o, err);
  if (s == PZ_OK && !o->space_text) s = pz_need(o->space, "space", err);
  if (s == PZ_OK) s = pz_need_range("devices", o->devices, 1, 1 << 30, err);
  if (s == PZ_OK) s = pz_need_range("batch", o->batch, 1, 1 << 30, err);
  if (s == PZ_OK) s = pz_need_range("scale_up", o->scale_up, 1, 1 << 30, err);
  if (s == PZ_OK) s = check_real("outer_bytes_per_s", o->outer_bytes_per_s, 1, 1e18, err);
  if (s == PZ_OK) s = check_limits(o, err);
  if (s == PZ_OK && o->n_weight && o->n_weight != o->n_models)
    s = pz_fail(err, PZ_BAD_USE, "%u weights for %u models; accepted: one for each", o->n_weight,
                o->n_models);
  if (s == PZ_OK && o->n_weight && o->objective != PZ_OBJECTIVE_WEIGHTED)
    s = pz_fail(err, PZ_BAD_USE, "weights with the objective %s; accepted: weighted",
                pz_objective_names[o->objective]);
  return s == PZ_OK ? check_original(o, err) : s;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Options that were left to the program. */
static enum pz_status decide(struct pz_study *s, struct pz_error *err) {
  struct pz_study_options *o = &s->o;
  if (o->evaluator == PZ_EVALUATOR_DEFAULT)
    o->evaluator =
        strcmp(s->space.name, "paper") == 0 ? PZ_EVALUATOR_ORIGINAL : PZ_EVALUATOR_TRAINING;
  bool training = pz_study_is_training(s);
  if (o->gap < 0) o->gap = training ? 0.01 : 0;
  if (!training || o->objective == PZ_OBJECTIVE_REGRET) o->each_model = true;
  s->space.compiled = s->space.cold = training;
  if (!training && o->gap > 0)
    return pz_fail(err, PZ_BAD_USE, "gap %g; accepted by the evaluator original: 0", o->gap);
  if (training && o->assumptions)
    return pz_fail(err, PZ_BAD_USE, "assumptions; accepted by the evaluator training: none");
  return PZ_OK;
}

static enum pz_status read_space(struct pz_study *s, struct pz_error *err) {
  const char *text = s->o.space_text;
  enum pz_status status = text ? pz_space_parse("space", text, strlen(text), &s->space, err)
                               : pz_space_load(s->o.space, &s->space, err);
  if (status == PZ_OK && s->o.node) status = pz_space_set_node(&s->space, s->o.node, err);
  if (status == PZ_OK) status = decide(s, err);
  s->limits = (struct pz_limits){
      .mm2 = s->o.limit_mm2, .watts = s->o.limit_watts, .dollars = s->o.limit_dollars};
  if (status == PZ_OK)
    status = pz_limits_complete(&s->space, s->o.budget, s->o.node, &s->limits, err);
  s->space.watts = s->limits.watts;
  return status;
}

static enum pz_status read_training(struct pz_study *s, struct pz_error *err) {
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
    q->models[i] = s->names[i] =
        pz_model_of_text(s->o.models[i], &s->arena, &q->model_seq[i], &q->model_batch[i]);
    if (!q->models[i]) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the models");
  }
  if (!s->o.pareto) return PZ_OK;
  return pz_space_list(&s->space, &s->limits, &s->arena, &s->points, &s->n_points, err);
}

static enum pz_status read_cluster(const struct pz_study_options *o, struct pz_cluster *net,
                                   struct pz_error *err) {
  const char *text = o->cluster_text;
  enum pz_status status = text ? pz_cluster_parse("cluster", text, strlen(text), net, err)
                               : pz_cluster_load(o->cluster, net, err);
  return status == PZ_OK ? pz_cluster_reach(net, o->devices, "devices", err) : status;
}

static enum pz_status read_original(struct pz_study *s, struct pz_error *err) {
  enum { QUICK_STEPS = 2000 };
  struct pz_original_task *t = &s->task;
  pz_assume_chip(s->o.assumptions, &s->space.base);
  enum pz_status status = read_cluster(&s->o, &t->net, err);
  if (status != PZ_OK) return status;
  t->assumptions = s->o.assumptions;
  pz_assume_network(t->assumptions, &t->net);
  t->space = &s->space;
  t->portfolio = &s->portfolio;
  t->most_mm2 = s->limits.mm2;
  t->o = (struct pz_task_options){.devices = s->o.devices,
                                  .batch = s->o.batch,
                                  .state = s->o.state,
                                  .hbm_gib = s->o.hbm_gib,
                                  .quick_steps = pz_min(s->o.steps, QUICK_STEPS),
                                  .steps = s->o.steps};
  status = pz_space_list(&s->space, &s->limits, &s->arena, &s->points, &s->n_points, err);
  if (status != PZ_OK) return status;
  struct pz_variant_choices choices = {&s->o.mbs, &s->o.tp, s->o.batch, s->o.devices};
  status =
      pz_portfolio_init(&s->portfolio, s->o.models, s->o.n_models, &choices, &s->o.workload, err);
  for (uint32_t i = 0; i < s->o.n_models && status == PZ_OK; i++)
    s->names[i] = s->portfolio.models[i];
  return status;
}

enum pz_status pz_study_init(struct pz_study *s, const struct pz_study_options *o, unsigned threads,
                             struct pz_error *err) {
  *s = (struct pz_study){.o = *o};
  s->o.workload.input_gradients_only = pz_assumed(o->assumptions, PZ_ASSUME_NO_WEIGHT_GRADIENTS);
  pz_arena_init(&s->arena, NULL);
  pz_vec_init(&s->notes, &s->arena, sizeof(struct pz_note));
  enum pz_status status = check_options(&s->o, err);
  if (status == PZ_OK) status = read_space(s, err);
  if (status == PZ_OK) status = (pz_study_is_training(s) ? read_training : read_original)(s, err);
  if (status == PZ_OK) status = pz_study_digest_models(s, err);
  if (status == PZ_OK) status = pz_pool_new(threads, &s->pool, err);
  s->n_runs = s->o.each_model && s->o.n_models > 1 ? s->o.n_models + 1 : 1;
  for (uint32_t i = 0; i < s->n_runs; i++) s->most_rounds[i] = s->o.rounds;
  if (status != PZ_OK) pz_study_release(s);
  return status;
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

/* The chip that values are told in times of. */
static enum pz_status load_reference(struct pz_study *s, struct pz_error *err) {
  bool training = pz_study_is_training(s);
  enum pz_status status =
      pz_chip_read(training ? "h100" : PZ_REFERENCE_CHIP, &s->reference_chip, err);
  if (status == PZ_OK && training)
    status = pz_chip_make_cold(&s->reference_chip, s->space.constants, err);
  if (status == PZ_OK) s->reference_taken = pz_chip_taken(&s->reference_chip);
  return status;
}

static enum pz_status find_reference(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct pz_study *s = ctx;
  struct pz_step_cost *step = &s->reference_step[i];
  struct pz_found_plan plan;
  bool fits = false;
  struct pz_progress *progress = pz_search_asked(s->search)->progress;
  if (!pz_study_is_training(s)) {
    struct pz_reference *r = &s->reference[i];
    enum pz_status status =
        pz_reference_find(pz_original_worker(s->by, worker), (uint32_t)i, r, err);
    step->step_s = r->samples_per_s > 0 ? (double)s->o.batch / r->samples_per_s : HUGE_VAL;
    pz_progress_add(progress, 1);
    return status;
  }
  enum pz_status status = pz_training_plan(s->by, worker, &s->reference_chip, (uint32_t)i, &plan,
                                           &step->dynamic_j, &fits, err);
  if (status != PZ_OK) return status;
  pz_progress_add(progress, 1);
  step->step_s = plan.p.step_s;
  if (fits) return PZ_OK;
  return pz_fail(err, PZ_NO_ANSWER,
                 "no plan of %s fits on %lld x %s, the reference; accepted: more devices",
                 s->names[i], (long long)s->o.devices, s->reference_chip.name);
}

static void pack_reference(void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_study *s = ctx;
  pz_buffer_append(out, (const char *)&s->reference[i], sizeof s->reference[i]);
  pz_buffer_append(out, (const char *)&s->reference_step[i], sizeof s->reference_step[i]);
}

static enum pz_status unpack_reference(void *ctx, size_t i, struct pz_bytes *in) {
  struct pz_study *s = ctx;
  return pz_bytes_take(in, &s->reference[i], sizeof s->reference[i]) &&
                 pz_bytes_take(in, &s->reference_step[i], sizeof s->reference_step[i])
             ? PZ_OK
             : PZ_BAD_INPUT;
}

enum pz_status pz_study_references(struct pz_study *s, struct pz_watch watch,
                                   struct pz_error *err) {
  struct pz_search_work work = {find_reference, pack_reference, unpack_reference, s, false};
  pz_progress_next(watch.progress, "reference", "models", s->o.n_models);
  enum pz_status status = pz_search_deal(s->search, s->o.n_models, &work, err);
  pz_progress_finish(watch.progress, NULL);
  return status;
}

/* ---- running -------------------------------------------------------------------------------- */

static enum pz_status make_evaluator(struct pz_study *s, struct pz_watch watch,
                                     struct pz_error *err) {
  struct pz_box all = pz_box_all(&s->space, 0);
  struct pz_boxed like;
  if (!pz_study_is_training(s))
    return pz_original_new(&s->task, s->o.exhaustive, s->pool, watch, &s->by, err);
  pz_boxed_set(&s->space, &all, &like);
  return pz_training_new(&s->training, &like.hi, s->pool, NULL, &s->by, err);
}

enum pz_status pz_study_prepare(struct pz_study *s, const struct pz_study_watch *w,
                                struct pz_error *err) {
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
  s->ending = (struct pz_ending){.progress = w->watch.progress};
  s->training.ending = &s->ending;
  pz_search_free(s->search); /* of an earlier call that was stopped */
  pz_evaluator_free(s->by);
  s->search = NULL;
  s->by = NULL;
  enum pz_status status = load_reference(s, err);
  if (status == PZ_OK) status = make_evaluator(s, w->watch, err);
  for (uint32_t i = 0; i < s->o.n_models; i++)
    q.entries[i] = (struct pz_search_entry){s->by, i, s->o.models[i]};
  if (status == PZ_OK) status = pz_search_new(&q, s->pool, &s->search, err);
  return status == PZ_OK ? pz_study_references(s, w->watch, err) : status;
}

static bool is_common(const struct pz_study *s, uint32_t i) { return i + 1 == s->n_runs; }

const char *pz_study_run_name(const struct pz_study *s, uint32_t i) {
  return is_common(s, i) && s->o.n_models > 1 ? "common" : s->o.models[i];
}

struct pz_objective pz_study_objective(struct pz_study *s, uint32_t i) {
  struct pz_objective o = {.kind = s->o.objective,
                           .reference_taken = s->reference_taken,
                           .devices = (double)s->o.devices};
  for (uint32_t m = 0; m < s->o.n_models; m++) {
    struct pz_evaluation e;
    o.batch[m] =
        (double)(pz_study_is_training(s) ? pz_training_batch(&s->training, m) : s->o.batch);
    if (is_common(s, i) || i == m) o.models[o.n++] = m;
    o.reference[m] = s->reference_step[m];
    /* nothing to compare with: the throughput itself decides */
    if (!(o.reference[m].step_s < HUGE_VAL)) o.reference[m].step_s = o.batch[m];
    o.weight[m] = s->o.weight[m];
    o.best_alone[m] = 1;
    if (is_common(s, i) && s->n_runs > 1 &&
        pz_search_known(s->search, &s->objective_run[m].best, m, &e))
      o.best_alone[m] = o.batch[m] / e.step_s;
  }
  return o;
}

enum pz_status pz_study_run(struct pz_study *s, uint32_t i, struct pz_error *err) {
  s->objective_run[i] = (struct pz_objective_run){.objective = pz_study_objective(s, i),
                                                  .most_rounds = s->most_rounds[i]};
  return pz_search_run(s->search, i, &s->objective_run[i], err);
}

/* ---- the best chip -------------------------------------------------------------------------- */

/* Is it as good with this memory? */
static enum pz_status as_good(struct pz_study *s, const struct pz_objective_run *run,
                              double hbm_gib, bool *same, struct pz_error *err) {
  *same = true;
  for (uint32_t i = 0; i < run->objective.n && *same; i++) {
    uint32_t m = run->objective.models[i];
    struct pz_evaluation most, e;
    if (!pz_search_known(s->search, &run->best, m, &most))
      return pz_fail(err, PZ_INTERNAL, "the best chip was not evaluated");
    enum pz_status status = pz_original_value(pz_original_worker(s->by, 0), &run->best, m, hbm_gib,
                                              most.effort, HUGE_VAL, &e, err);
    if (status != PZ_OK) return status;
    *same = e.step_s <= most.step_s;
  }
  return PZ_OK;
}

/* More memory is never slower, and the search has the most: the least that is as good. */
enum pz_status pz_study_least_memory(struct pz_study *s, const struct pz_objective_run *run,
                                     double *hbm_gib, struct pz_error *err) {
  const struct pz_choices *hbm = &s->o.hbm_gib;
  enum pz_status status = PZ_OK;
  bool same = false;
  struct pz_chip c;
  pz_space_chip(&s->space, &run->best, &c);
  *hbm_gib = (double)pz_chip_hbm_bytes(&c) / 0x1p30;
  for (int h = 0; h < hbm->n && !pz_study_is_training(s) && !same && status == PZ_OK; h++) {
    *hbm_gib = (double)hbm->v[h];
    status = as_good(s, run, *hbm_gib, &same, err);
  }
  return status;
}

void pz_study_chip(const struct pz_study *s, const struct pz_objective_run *run, double hbm_gib,
                   struct pz_chip *out) {
  pz_space_chip(&s->space, &run->best, out);
  if (!pz_study_is_training(s))
    out->hbm.bytes_per_stack = (int64_t)(hbm_gib * 0x1p30) / out->hbm.stacks;
}
