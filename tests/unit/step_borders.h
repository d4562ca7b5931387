/* Functions of src/step for tests and benchmarks that check a status. */
#ifndef PZ_TESTS_STEP_BORDERS_H
#define PZ_TESTS_STEP_BORDERS_H

#include <string.h>

#include "step/correction.h"
#include "step/memory_curve.h"
#include "step/pass_schedule.h"
#include "step/pipeline.h"
#include "step/prediction.h"
#include "step/rank_alone.h"
#include "step/recompute.h"
#include "step/run_table.h"
#include "step/step_energy.h"
#include "step/step_model.h"

struct step_arguments {
  const struct pz_job *job;
  const struct pz_plan *plan;
  struct pz_step_model *model;
  struct pz_arena *arena; /* of the result */
  struct pz_prediction_detail *detail;
  const struct pz_pipeline *pipeline;
  const struct pz_run_terms *terms;
  const char *name, *text;
  const struct pz_layer *layer;
  const struct pz_workload *workload;
  const struct pz_memory_question *memory;
  const struct pz_pass_question *pass;
  const struct pz_prediction *priced;
  const struct pz_measured_step *steps;
  const struct pz_correction *correction;
  pz_step_operator_fn *fn;
  void *ctx;
  size_t bytes;
  int64_t count, stage;
  int saved;
  uint32_t n, *n_out;
  unsigned threads;
  enum pz_timing timing;
  bool keep;
  void *out;
};

static inline void try_predict_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  *(struct pz_prediction *)x->out = pz_predict(call, x->job, x->plan, NULL);
}

static inline enum pz_status try_predict(const struct pz_job *job, const struct pz_plan *plan,
                                         struct pz_prediction *out, struct pz_error *err) {
  struct step_arguments x = {.job = job, .plan = plan, .out = out};
  return pz_border(try_predict_in_border, &x, err);
}

static inline void try_predict_detail_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *(struct pz_prediction *)x->out = pz_predict(&result, x->job, x->plan, x->detail);
}

static inline enum pz_status try_predict_detail(const struct pz_job *job,
                                                const struct pz_plan *plan, struct pz_arena *arena,
                                                struct pz_prediction *out,
                                                struct pz_prediction_detail *detail,
                                                struct pz_error *err) {
  struct step_arguments x = {
      .job = job, .plan = plan, .arena = arena, .out = out, .detail = detail};
  return pz_border(try_predict_detail_in_border, &x, err);
}

static inline void try_simulate_pipeline_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *(struct pz_pipeline_run *)x->out =
      pz_pipeline_simulate(call, x->pipeline, x->keep ? &result : NULL);
}

static inline enum pz_status try_simulate_pipeline(const struct pz_pipeline *pipeline, bool keep,
                                                   struct pz_arena *arena,
                                                   struct pz_pipeline_run *out,
                                                   struct pz_error *err) {
  struct step_arguments x = {.pipeline = pipeline, .keep = keep, .arena = arena, .out = out};
  return pz_border(try_simulate_pipeline_in_border, &x, err);
}

static inline void try_read_runs_with_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  pz_run_table_read(&result, x->terms, x->name, x->text, x->bytes, x->out);
}

static inline enum pz_status try_read_runs_with(const struct pz_run_terms *terms, const char *name,
                                                const char *text, size_t bytes,
                                                struct pz_arena *arena, struct pz_run_table *out,
                                                struct pz_error *err) {
  struct step_arguments x = {
      .terms = terms, .name = name, .text = text, .bytes = bytes, .arena = arena, .out = out};
  return pz_border(try_read_runs_with_in_border, &x, err);
}

static inline enum pz_status try_read_runs(const char *name, const char *text, size_t bytes,
                                           unsigned threads, struct pz_arena *arena,
                                           struct pz_run_table *out, struct pz_error *err) {
  struct pz_run_terms terms = {.threads = threads};
  return try_read_runs_with(&terms, name, text, bytes, arena, out, err);
}

static inline void try_rank_alone_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  *(struct pz_rank_alone *)x->out = pz_rank_alone(call, x->job, x->plan, x->stage, x->count);
}

static inline enum pz_status try_rank_alone(const struct pz_job *job, const struct pz_plan *plan,
                                            int64_t stage, int64_t microbatches,
                                            struct pz_rank_alone *out, struct pz_error *err) {
  struct step_arguments x = {
      .job = job, .plan = plan, .stage = stage, .count = microbatches, .out = out};
  return pz_border(try_rank_alone_in_border, &x, err);
}

static inline void try_recompute_ops_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  memcpy(x->out, pz_recompute_ops(call, x->layer, x->saved),
         x->layer->ops[PZ_FORWARD].n * sizeof(bool));
}

static inline enum pz_status try_recompute_ops(const struct pz_layer *layer, int saved, bool *out,
                                               struct pz_error *err) {
  struct step_arguments x = {.layer = layer, .saved = saved, .out = out};
  return pz_border(try_recompute_ops_in_border, &x, err);
}

static inline void try_step_operators_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  pz_step_operators(call, x->job, x->plan, x->fn, x->ctx);
}

static inline enum pz_status try_step_operators(const struct pz_job *job,
                                                const struct pz_plan *plan, pz_step_operator_fn *fn,
                                                void *ctx, struct pz_error *err) {
  struct step_arguments x = {.job = job, .plan = plan, .fn = fn, .ctx = ctx};
  return pz_border(try_step_operators_in_border, &x, err);
}

/* The model is freed with pz_step_model_free(). */
static inline void try_step_model_new_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_step_model *model = pz_step_model_new(call, x->job, x->plan);
  pz_undefer(call, model);
  *(struct pz_step_model **)x->out = model;
}

static inline enum pz_status try_step_model_new(const struct pz_job *job,
                                                const struct pz_plan *plan,
                                                struct pz_step_model **out, struct pz_error *err) {
  struct step_arguments x = {.job = job, .plan = plan, .out = out};
  return pz_border(try_step_model_new_in_border, &x, err);
}

static inline void try_step_model_time_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  pz_step_model_time(call, x->model, x->plan, x->count, x->timing);
}

static inline enum pz_status try_step_model_time(struct pz_step_model *model,
                                                 const struct pz_plan *plan, int64_t microbatches,
                                                 enum pz_timing timing, struct pz_error *err) {
  struct step_arguments x = {.model = model, .plan = plan, .count = microbatches, .timing = timing};
  return pz_border(try_step_model_time_in_border, &x, err);
}

static inline void try_step_price_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  *(struct pz_prediction *)x->out = pz_step_price(call, x->model, x->plan, NULL);
}

static inline enum pz_status try_step_price(struct pz_step_model *model, const struct pz_plan *plan,
                                            struct pz_prediction *out, struct pz_error *err) {
  struct step_arguments x = {.model = model, .plan = plan, .out = out};
  return pz_border(try_step_price_in_border, &x, err);
}

static inline void try_step_bound_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  *(double *)x->out = pz_step_bound(call, x->model, x->plan);
}

static inline enum pz_status try_step_bound(struct pz_step_model *model, const struct pz_plan *plan,
                                            double *step_s, struct pz_error *err) {
  struct step_arguments x = {.model = model, .plan = plan, .out = step_s};
  return pz_border(try_step_bound_in_border, &x, err);
}

static inline void try_step_energy_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  *(struct pz_step_energy *)x->out = pz_step_energy(call, x->job, x->plan, x->priced);
}

static inline enum pz_status try_step_energy(const struct pz_job *job, const struct pz_plan *plan,
                                             const struct pz_prediction *priced,
                                             struct pz_step_energy *out, struct pz_error *err) {
  struct step_arguments x = {.job = job, .plan = plan, .priced = priced, .out = out};
  return pz_border(try_step_energy_in_border, &x, err);
}

static inline void try_memory_curves_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *(struct pz_memory_curve **)x->out = pz_memory_curves(&result, x->memory);
}

static inline enum pz_status try_memory_curves(const struct pz_memory_question *memory,
                                               struct pz_arena *arena, struct pz_memory_curve **out,
                                               struct pz_error *err) {
  struct step_arguments x = {.memory = memory, .arena = arena, .out = out};
  return pz_border(try_memory_curves_in_border, &x, err);
}

static inline void try_steps_corrected_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  pz_steps_corrected(call, x->steps, x->n, x->correction, x->threads, x->out);
}

static inline enum pz_status try_steps_corrected(const struct pz_measured_step *steps, uint32_t n,
                                                 const struct pz_correction *correction,
                                                 unsigned threads, double *step_s,
                                                 struct pz_error *err) {
  struct step_arguments x = {
      .steps = steps, .n = n, .correction = correction, .threads = threads, .out = step_s};
  return pz_border(try_steps_corrected_in_border, &x, err);
}

static inline void try_step_sensitivities_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  memcpy(x->out, pz_step_sensitivities(call, x->steps, x->n, x->threads),
         x->n * sizeof(struct pz_step_sensitivity));
}

static inline enum pz_status try_step_sensitivities(const struct pz_measured_step *steps,
                                                    uint32_t n, unsigned threads,
                                                    struct pz_step_sensitivity *out,
                                                    struct pz_error *err) {
  struct step_arguments x = {.steps = steps, .n = n, .threads = threads, .out = out};
  return pz_border(try_step_sensitivities_in_border, &x, err);
}

static inline void try_constant_effects_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *(struct pz_constant_effect **)x->out = pz_constant_effects(&result, x->job, x->plan, x->n_out);
}

static inline enum pz_status
try_constant_effects(const struct pz_job *job, const struct pz_plan *plan, struct pz_arena *arena,
                     struct pz_constant_effect **out, uint32_t *n, struct pz_error *err) {
  struct step_arguments x = {.job = job, .plan = plan, .arena = arena, .out = out, .n_out = n};
  return pz_border(try_constant_effects_in_border, &x, err);
}

static inline void try_layer_kinds_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *(struct pz_layer_kinds *)x->out = pz_layer_kinds_of(&result, x->workload);
}

static inline enum pz_status try_layer_kinds(const struct pz_workload *workload,
                                             struct pz_arena *arena, struct pz_layer_kinds *out,
                                             struct pz_error *err) {
  struct step_arguments x = {.workload = workload, .arena = arena, .out = out};
  return pz_border(try_layer_kinds_in_border, &x, err);
}

static inline void try_pass_bound_s_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  *(double *)x->out = pz_pass_bound_s(call, x->pass);
}

static inline enum pz_status try_pass_bound_s(const struct pz_pass_question *pass, double *bound_s,
                                              struct pz_error *err) {
  struct step_arguments x = {.pass = pass, .out = bound_s};
  return pz_border(try_pass_bound_s_in_border, &x, err);
}

static inline void try_pass_problem_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *(struct pz_problem *)x->out = pz_pass_problem(&result, x->pass, true);
}

static inline enum pz_status try_pass_problem(const struct pz_pass_question *pass,
                                              struct pz_arena *arena, struct pz_problem *out,
                                              struct pz_error *err) {
  struct step_arguments x = {.pass = pass, .arena = arena, .out = out};
  return pz_border(try_pass_problem_in_border, &x, err);
}

static inline void try_pass_solve_in_border(struct pz_call *call, void *ctx) {
  struct step_arguments *x = ctx;
  *(struct pz_pass_schedule *)x->out = pz_pass_solve(call, x->pass, x->count);
}

static inline enum pz_status try_pass_solve(const struct pz_pass_question *pass, int64_t steps,
                                            struct pz_pass_schedule *out, struct pz_error *err) {
  struct step_arguments x = {.pass = pass, .count = steps, .out = out};
  return pz_border(try_pass_solve_in_border, &x, err);
}

#endif
