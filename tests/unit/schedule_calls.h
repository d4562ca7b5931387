/* Functions of src/schedule for tests and benchmarks: each in a border of its own, which returns a status. */
#ifndef PZ_TEST_SCHEDULE_CALLS_H
#define PZ_TEST_SCHEDULE_CALLS_H

#include "schedule/ilp/ilp.h"
#include "schedule/model/instance.h"
#include "schedule/model/layer.h"
#include "schedule/model/rate_modes.h"
#include "schedule/solve.h"

struct instance_args {
  const char *name, *text;
  size_t bytes;
  enum pz_exclusive exclusive;
  struct pz_arena *arena;
  struct pz_problem *out;
};

static inline void read_instance(struct pz_call *call, void *ctx) {
  struct instance_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *x->out = pz_instance_read(&result, x->name, x->text, x->bytes, x->exclusive);
}

static inline enum pz_status pz_instance_parse(const char *name, const char *text, size_t bytes,
                                               enum pz_exclusive exclusive, struct pz_arena *arena,
                                               struct pz_problem *out, struct pz_error *err) {
  struct instance_args x = {name, text, bytes, exclusive, arena, out};
  return pz_border(read_instance, &x, err);
}

struct layer_problem_args {
  struct pz_cost *cost;
  const struct pz_ops *ops;
  const struct pz_layer_options *options;
  struct pz_arena *arena;
  struct pz_problem *out;
};

static inline void build_layer_problem(struct pz_call *call, void *ctx) {
  struct layer_problem_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *x->out = pz_layer_problem_build(&result, x->cost, x->ops, x->options);
}

static inline enum pz_status pz_layer_problem(struct pz_cost *cost, const struct pz_ops *ops,
                                              const struct pz_layer_options *options,
                                              struct pz_arena *arena, struct pz_problem *out,
                                              struct pz_error *err) {
  struct layer_problem_args x = {cost, ops, options, arena, out};
  return pz_border(build_layer_problem, &x, err);
}

struct describe_args {
  const struct pz_problem *problem;
  const struct pz_schedule *schedule;
  bool whole, views;
  struct pz_arena *arena;
  struct pz_layer_schedule *out;
};

static inline void describe_schedule(struct pz_call *call, void *ctx) {
  struct describe_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  pz_layer_schedule_describe(&result, x->problem, x->schedule, x->whole, x->views, x->out);
}

static inline enum pz_status pz_layer_schedule_tell(const struct pz_problem *problem,
                                                    const struct pz_schedule *schedule, bool whole,
                                                    bool views, struct pz_arena *arena,
                                                    struct pz_layer_schedule *out,
                                                    struct pz_error *err) {
  struct describe_args x = {problem, schedule, whole, views, arena, out};
  return pz_border(describe_schedule, &x, err);
}

struct disable_args {
  struct pz_techniques *techniques;
  const char *list;
};

static inline void run_disable(struct pz_call *call, void *ctx) {
  struct disable_args *args = ctx;
  pz_techniques_disable(call, args->techniques, args->list);
}

static inline enum pz_status disable_techniques(struct pz_techniques *techniques, const char *list,
                                                struct pz_error *err) {
  struct disable_args args = {techniques, list};
  return pz_border(run_disable, &args, err);
}

struct check_args {
  const struct pz_problem *problem;
  const struct pz_slot *slots;
  double makespan;
};

static inline void run_check(struct pz_call *call, void *ctx) {
  const struct check_args *args = ctx;
  pz_schedule_check(call, args->problem, args->slots, args->makespan);
}

static inline enum pz_status check_slots(const struct pz_problem *problem,
                                         const struct pz_slot *slots, double makespan,
                                         struct pz_error *err) {
  struct check_args args = {problem, slots, makespan};
  return pz_border(run_check, &args, err);
}

struct ilp_file {
  const struct pz_problem *problem;
  const char *path;
};

static inline void run_ilp_write(struct pz_call *call, void *ctx) {
  const struct ilp_file *file = ctx;
  pz_ilp_write(call, file->problem, file->path);
}

static inline enum pz_status write_ilp(const struct pz_problem *problem, const char *path,
                                       struct pz_error *err) {
  struct ilp_file file = {problem, path};
  return pz_border(run_ilp_write, &file, err);
}

struct problem_args {
  struct pz_arena *arena;
  const int32_t *capacity;
  const struct pz_task *tasks;
  uint32_t n;
  const struct pz_edge *edges;
  uint32_t n_edges;
  struct pz_problem *out;
};

static inline void build_problem(struct pz_call *call, void *ctx) {
  struct problem_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *x->out = pz_problem_build(&result, x->capacity, x->tasks, x->n, x->edges, x->n_edges);
}

static inline enum pz_status pz_problem_make(struct pz_arena *arena,
                                             const int32_t capacity[PZ_RESOURCES],
                                             const struct pz_task *tasks, uint32_t n,
                                             const struct pz_edge *edges, uint32_t n_edges,
                                             struct pz_problem *out, struct pz_error *err) {
  struct problem_args x = {arena, capacity, tasks, n, edges, n_edges, out};
  return pz_border(build_problem, &x, err);
}

struct rate_modes_args {
  const struct pz_vec *full;
  double limit_s;
  struct pz_vec *modes;
};

static inline void append_rate_modes(struct pz_call *call, void *ctx) {
  struct rate_modes_args *x = ctx;
  pz_append_rate_modes(call, x->full, x->limit_s, x->modes);
}

static inline bool pz_rate_modes(const struct pz_vec *full, double limit_s, struct pz_vec *modes) {
  struct rate_modes_args x = {full, limit_s, modes};
  return pz_border(append_rate_modes, &x, NULL) == PZ_OK;
}

struct solve_args {
  const struct pz_problem *p;
  const struct pz_solve_options *options;
  struct pz_arena *arena;
  struct pz_schedule *out;
};

static inline void find_schedule(struct pz_call *call, void *ctx) {
  struct solve_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *x->out = pz_schedule_find(&result, x->p, x->options);
}

static inline enum pz_status pz_schedule_solve(const struct pz_problem *p,
                                               const struct pz_solve_options *options,
                                               struct pz_arena *arena, struct pz_schedule *out,
                                               struct pz_error *err) {
  struct solve_args x = {p, options, arena, out};
  return pz_border(find_schedule, &x, err);
}

#endif
