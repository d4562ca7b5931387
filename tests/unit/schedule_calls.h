/* Functions of src/schedule for tests and benchmarks: each in a border of its own, which returns a status. */
#ifndef PZ_TEST_SCHEDULE_CALLS_H
#define PZ_TEST_SCHEDULE_CALLS_H

#include "schedule/model/instance.h"
#include "schedule/model/layer.h"
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

#endif
