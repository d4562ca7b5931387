/* Functions of src/study for tests and benchmarks that check a status. */
#ifndef PZ_TESTS_STUDY_BORDERS_H
#define PZ_TESTS_STUDY_BORDERS_H

#include "study/compare.h"
#include "study/detail.h"
#include "study/pareto.h"
#include "study/result_json.h"
#include "study/result_make.h"
#include "study/robustness.h"

struct study_arguments {
  struct pz_study *s;
  struct pz_watch watch;
  struct pz_result *r;
  uint64_t seed;
  const struct pz_objective_run *run;
  double hbm_gib, *hbm_gib_out;
  struct pz_step *steps;
  uint32_t *n;
  struct pz_front *front;
  struct pz_moved_question moved;
  unsigned worker;
  struct pz_moved *moved_out;
  const json_t *inputs; /* or another document to parse */
  struct pz_arena *arena;
  struct pz_study_options *options;
  const struct pz_study_options *given;
  unsigned threads;
  const struct pz_study_watch *study_watch;
  uint32_t run_number;
  void (*parse)(struct pz_call *call, const json_t *json, struct pz_result *r);
};

/* On success the study is the caller's to release. */
static inline void open_study_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  pz_study_open(call, x->s, x->given, x->threads);
  pz_undefer(call, x->s);
}

static inline enum pz_status pz_study_init(struct pz_study *s, const struct pz_study_options *o,
                                           unsigned threads, struct pz_error *err) {
  struct study_arguments x = {.s = s, .given = o, .threads = threads};
  return pz_border(open_study_in_border, &x, err);
}

static inline void start_study_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  pz_study_start(call, x->s, x->study_watch);
}

static inline enum pz_status pz_study_prepare(struct pz_study *s, const struct pz_study_watch *w,
                                              struct pz_error *err) {
  struct study_arguments x = {.s = s, .study_watch = w};
  return pz_border(start_study_in_border, &x, err);
}

static inline void run_objective_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  pz_study_run_objective(call, x->s, x->run_number);
}

static inline enum pz_status pz_study_run(struct pz_study *s, uint32_t i, struct pz_error *err) {
  struct study_arguments x = {.s = s, .run_number = i};
  return pz_border(run_objective_in_border, &x, err);
}

static inline void parse_result_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  x->parse(call, x->inputs, x->r);
}

static inline enum pz_status pz_result_read(const json_t *json, struct pz_result *r,
                                            struct pz_error *err) {
  struct study_arguments x = {.inputs = json, .r = r, .parse = pz_result_parse};
  return pz_border(parse_result_in_border, &x, err);
}

static inline enum pz_status pz_comparison_read(const json_t *json, struct pz_result *r,
                                                struct pz_error *err) {
  struct study_arguments x = {.inputs = json, .r = r, .parse = pz_comparison_parse};
  return pz_border(parse_result_in_border, &x, err);
}

static inline enum pz_status pz_detail_read(const json_t *json, struct pz_result *r,
                                            struct pz_error *err) {
  struct study_arguments x = {.inputs = json, .r = r, .parse = pz_detail_parse};
  return pz_border(parse_result_in_border, &x, err);
}

static inline void make_result_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  pz_result_build(call, x->r, x->s, x->watch);
}

static inline enum pz_status pz_result_make(struct pz_result *r, struct pz_study *s,
                                            struct pz_watch watch, struct pz_error *err) {
  struct study_arguments x = {.r = r, .s = s, .watch = watch};
  return pz_border(make_result_in_border, &x, err);
}

static inline void make_detail_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  pz_detail_build(call, x->s, x->watch, x->r);
}

static inline enum pz_status pz_detail_make(struct pz_study *s, struct pz_watch watch,
                                            struct pz_result *r, struct pz_error *err) {
  struct study_arguments x = {.r = r, .s = s, .watch = watch};
  return pz_border(make_detail_in_border, &x, err);
}

static inline void compare_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  pz_compare_methods(call, x->s, x->seed, x->watch, x->r);
}

static inline enum pz_status pz_compare(struct pz_study *s, uint64_t seed, struct pz_watch watch,
                                        struct pz_result *r, struct pz_error *err) {
  struct study_arguments x = {.r = r, .s = s, .watch = watch, .seed = seed};
  return pz_border(compare_in_border, &x, err);
}

static inline void find_front_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  *x->front = pz_pareto_front(call, x->s, x->watch);
}

static inline enum pz_status pz_front_find(struct pz_study *s, struct pz_watch watch,
                                           struct pz_front *out, struct pz_error *err) {
  struct study_arguments x = {.s = s, .watch = watch, .front = out};
  return pz_border(find_front_in_border, &x, err);
}

static inline void find_sensitivity_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  *x->n = pz_sensitivity_steps(call, x->s, x->run, x->hbm_gib, x->watch, x->steps);
}

static inline enum pz_status pz_sensitivity(struct pz_study *s, const struct pz_objective_run *run,
                                            double hbm_gib, struct pz_watch watch,
                                            struct pz_step steps[PZ_MOST_STEPS], uint32_t *n,
                                            struct pz_error *err) {
  struct study_arguments x = {
      .s = s, .run = run, .hbm_gib = hbm_gib, .watch = watch, .steps = steps, .n = n};
  return pz_border(find_sensitivity_in_border, &x, err);
}

static inline void find_moved_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  *x->moved_out = pz_moved_compare(call, x->s, &x->moved, x->worker);
}

static inline enum pz_status pz_moved_find(struct pz_study *s, const struct pz_objective *o,
                                           const struct pz_cold *k, const struct pz_point *best,
                                           const struct pz_point *candidates, uint32_t n,
                                           unsigned worker, struct pz_moved *out,
                                           struct pz_error *err) {
  struct study_arguments x = {
      .s = s, .moved = {o, k, best, candidates, n}, .worker = worker, .moved_out = out};
  return pz_border(find_moved_in_border, &x, err);
}

static inline void find_memory_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  *x->hbm_gib_out = pz_study_smallest_memory(call, x->s, x->run);
}

static inline enum pz_status pz_study_least_memory(struct pz_study *s,
                                                   const struct pz_objective_run *run,
                                                   double *hbm_gib, struct pz_error *err) {
  struct study_arguments x = {.s = s, .run = run, .hbm_gib_out = hbm_gib};
  return pz_border(find_memory_in_border, &x, err);
}

static inline void read_inputs_in_border(struct pz_call *call, void *ctx) {
  struct study_arguments *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  *x->options = pz_study_options_from_inputs(&own, x->inputs);
}

static inline enum pz_status pz_study_from_inputs(const json_t *inputs, struct pz_arena *arena,
                                                  struct pz_study_options *out,
                                                  struct pz_error *err) {
  struct study_arguments x = {.inputs = inputs, .arena = arena, .options = out};
  return pz_border(read_inputs_in_border, &x, err);
}

#endif
