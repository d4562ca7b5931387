/* Functions of src/evaluate and src/baseline for tests: each in a border of its own, which returns a status. */
#ifndef PZ_TEST_EVALUATE_CALLS_H
#define PZ_TEST_EVALUATE_CALLS_H

#include "baseline/baseline.h"
#include "evaluate/training.h"

struct portfolio_args {
  struct pz_portfolio *portfolio;
  const char *const *models;
  uint32_t n_models;
  const struct pz_variant_choices *choices;
  const struct pz_workload_options *how;
};

static inline void run_build(struct pz_call *call, void *ctx) {
  const struct portfolio_args *x = ctx;
  pz_portfolio_build(call, x->portfolio, x->models, x->n_models, x->choices, x->how);
}

static inline enum pz_status pz_portfolio_init(struct pz_portfolio *p, const char *const *models,
                                               uint32_t n_models,
                                               const struct pz_variant_choices *choices,
                                               const struct pz_workload_options *how,
                                               struct pz_error *err) {
  struct portfolio_args x = {p, models, n_models, choices, how};
  return pz_border(run_build, &x, err);
}

/* Arguments and results of all functions below; each uses some of them. */
struct original_args {
  const struct pz_original_task *task;
  bool exhaustive;
  struct pz_pool *pool;
  struct pz_watch watch;
  struct pz_original_worker *worker;
  const struct pz_point *point;
  const struct pz_chip *chip;
  uint32_t model;
  double hbm_gib, limit_s;
  enum pz_effort effort;
  const struct pz_evaluation *evaluation;
  struct pz_arena *arena;
  struct pz_evaluator *evaluator;
  struct pz_evaluation *found;
  struct pz_partition *plan;
};

static inline void run_create(struct pz_call *call, void *ctx) {
  struct original_args *x = ctx;
  x->evaluator = pz_original_create(call, x->task, x->exhaustive, x->pool, x->watch);
}

static inline enum pz_status pz_original_new(const struct pz_original_task *task, bool exhaustive,
                                             struct pz_pool *pool, struct pz_watch watch,
                                             struct pz_evaluator **out, struct pz_error *err) {
  struct original_args x = {.task = task, .exhaustive = exhaustive, .pool = pool, .watch = watch};
  enum pz_status status = pz_border(run_create, &x, err);
  if (status == PZ_OK) *out = x.evaluator;
  return status;
}

static inline void run_evaluate_point(struct pz_call *call, void *ctx) {
  const struct original_args *x = ctx;
  *x->found =
      pz_original_evaluate(call, x->worker, x->point, x->model, x->hbm_gib, x->effort, x->limit_s);
}

static inline enum pz_status pz_original_value(struct pz_original_worker *w,
                                               const struct pz_point *p, uint32_t model,
                                               double hbm_gib, enum pz_effort effort,
                                               double limit_s, struct pz_evaluation *out,
                                               struct pz_error *err) {
  struct original_args x = {.worker = w,
                            .point = p,
                            .model = model,
                            .hbm_gib = hbm_gib,
                            .effort = effort,
                            .limit_s = limit_s,
                            .found = out};
  return pz_border(run_evaluate_point, &x, err);
}

static inline void run_evaluate_chip(struct pz_call *call, void *ctx) {
  const struct original_args *x = ctx;
  *x->found = pz_original_evaluate_chip(call, x->worker, x->chip, x->model, x->hbm_gib, x->effort);
}

static inline enum pz_status pz_original_value_of_chip(struct pz_original_worker *w,
                                                       const struct pz_chip *chip, uint32_t model,
                                                       double hbm_gib, enum pz_effort effort,
                                                       struct pz_evaluation *out,
                                                       struct pz_error *err) {
  struct original_args x = {.worker = w,
                            .chip = chip,
                            .model = model,
                            .hbm_gib = hbm_gib,
                            .effort = effort,
                            .found = out};
  return pz_border(run_evaluate_chip, &x, err);
}

static inline void run_restore_plan(struct pz_call *call, void *ctx) {
  const struct original_args *x = ctx;
  struct pz_call in_arena = pz_call_in(call, x->arena);
  pz_original_restore_plan(&in_arena, x->worker, x->chip, x->hbm_gib, x->evaluation, x->plan);
}

static inline enum pz_status pz_original_plan(struct pz_original_worker *w,
                                              const struct pz_chip *chip, double hbm_gib,
                                              const struct pz_evaluation *v, struct pz_arena *arena,
                                              struct pz_partition *out, struct pz_error *err) {
  struct original_args x = {
      .worker = w, .chip = chip, .hbm_gib = hbm_gib, .evaluation = v, .arena = arena, .plan = out};
  return pz_border(run_restore_plan, &x, err);
}

/* Arguments and results of all functions below; each uses some of them. */
struct training_args {
  const struct pz_training_question *q;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  struct pz_pool *pool;
  struct pz_product_times *times;
  struct pz_evaluator *evaluator;
  unsigned worker;
  uint32_t model;
  struct pz_plan_question *question;
  struct pz_found_plan *plan;
  double *dynamic_j;
  bool fits;
};

static inline void run_ask(struct pz_call *call, void *ctx) {
  const struct training_args *x = ctx;
  *x->question = pz_training_ask(call, x->q, x->model, x->chip, x->net);
}

static inline enum pz_status pz_training_plan_question(const struct pz_training_question *q,
                                                       uint32_t model, const struct pz_chip *chip,
                                                       const struct pz_cluster *net,
                                                       struct pz_plan_question *out,
                                                       struct pz_error *err) {
  struct training_args x = {.q = q, .model = model, .chip = chip, .net = net, .question = out};
  return pz_border(run_ask, &x, err);
}

static inline void run_create_training(struct pz_call *call, void *ctx) {
  struct training_args *x = ctx;
  x->evaluator = pz_training_create(call, x->q, x->chip, x->pool, x->times);
}

static inline enum pz_status pz_training_new(const struct pz_training_question *q,
                                             const struct pz_chip *like, struct pz_pool *pool,
                                             struct pz_product_times *times,
                                             struct pz_evaluator **out, struct pz_error *err) {
  struct training_args x = {.q = q, .chip = like, .pool = pool, .times = times};
  enum pz_status status = pz_border(run_create_training, &x, err);
  if (status == PZ_OK) *out = x.evaluator;
  return status;
}

static inline void run_find_plan(struct pz_call *call, void *ctx) {
  struct training_args *x = ctx;
  x->fits = pz_training_find_plan(call, x->evaluator, x->worker, x->chip, x->model, x->plan,
                                  x->dynamic_j);
}

static inline enum pz_status pz_training_plan(struct pz_evaluator *e, unsigned worker,
                                              const struct pz_chip *chip, uint32_t model,
                                              struct pz_found_plan *out, double *dynamic_j,
                                              bool *fits, struct pz_error *err) {
  struct training_args x = {.evaluator = e,
                            .worker = worker,
                            .chip = chip,
                            .model = model,
                            .plan = out,
                            .dynamic_j = dynamic_j};
  enum pz_status status = pz_border(run_find_plan, &x, err);
  *fits = x.fits;
  return status;
}

struct reference_args {
  struct pz_original_worker *worker;
  uint32_t model;
  struct pz_reference *out;
};

static inline void run_reference(struct pz_call *call, void *ctx) {
  const struct reference_args *x = ctx;
  *x->out = pz_reference_of_model(call, x->worker, x->model);
}

static inline enum pz_status pz_reference_find(struct pz_original_worker *w, uint32_t model,
                                               struct pz_reference *out, struct pz_error *err) {
  struct reference_args x = {w, model, out};
  return pz_border(run_reference, &x, err);
}

struct evaluator_args {
  struct pz_evaluator *evaluator;
  unsigned worker;
  const struct pz_boxed *chip;
  uint32_t model;
  enum pz_effort effort;
  double limit_s;
  struct pz_evaluation *out;
};

static inline void run_evaluator(struct pz_call *call, void *ctx) {
  const struct evaluator_args *x = ctx;
  *x->out = x->evaluator->ops->evaluate(call, x->evaluator, x->worker, x->chip, x->model, x->effort,
                                        x->limit_s);
}

static inline enum pz_status evaluate_chip(struct pz_evaluator *evaluator, unsigned worker,
                                           const struct pz_boxed *chip, uint32_t model,
                                           enum pz_effort effort, double limit_s,
                                           struct pz_evaluation *out, struct pz_error *err) {
  struct evaluator_args x = {evaluator, worker, chip, model, effort, limit_s, out};
  return pz_border(run_evaluator, &x, err);
}

struct baseline_args {
  const struct pz_baseline *baseline;
  const struct pz_baseline_question *question;
  struct pz_baseline_answer *out;
};

static inline void run_baseline(struct pz_call *call, void *ctx) {
  const struct baseline_args *x = ctx;
  *x->out = x->baseline->answer(call, x->baseline, x->question);
}

static inline enum pz_status ask_baseline(const struct pz_baseline *baseline,
                                          const struct pz_baseline_question *question,
                                          struct pz_baseline_answer *out, struct pz_error *err) {
  struct baseline_args x = {baseline, question, out};
  return pz_border(run_baseline, &x, err);
}

#endif
