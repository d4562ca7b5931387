/* Functions of src/partition for tests: each in a border of its own, which returns a status. */
#ifndef PZ_TEST_PARTITION_CALLS_H
#define PZ_TEST_PARTITION_CALLS_H

#include "partition/best.h"
#include "partition/instance.h"
#include "partition/partition.h"

/* The arguments of all of them. */
struct partition_call {
  struct pz_arena *arena;
  const struct pz_place_problem *p;
  const struct pz_place_solution *plan;
  const struct pz_fixed *fixed;
  const struct pz_plan_inputs *in;
  struct pz_cost *cost;
  const struct pz_ops *ops;
  const char *name, *text;
  size_t bytes;
  double limit_s;
  int64_t steps;
  uint32_t n_next;
  void *out;
};

static inline void call_place_solve(struct pz_call *call, void *ctx) {
  struct partition_call *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  if (!pz_place_find_fastest(&own, x->p, x->limit_s, x->out))
    pz_raise(call, PZ_NO_ANSWER, "no feasible plan");
}

static inline enum pz_status pz_place_solve(const struct pz_place_problem *p, double limit_s,
                                            struct pz_arena *arena, struct pz_place_solution *out,
                                            struct pz_error *err) {
  struct partition_call x = {.arena = arena, .p = p, .limit_s = limit_s, .out = out};
  return pz_border(call_place_solve, &x, err);
}

static inline void call_place_check(struct pz_call *call, void *ctx) {
  struct partition_call *x = ctx;
  pz_place_check(call, x->p, x->plan);
}

static inline enum pz_status pz_partition_check(const struct pz_place_problem *p,
                                                const struct pz_place_solution *plan,
                                                struct pz_error *err) {
  struct partition_call x = {.p = p, .plan = plan};
  return pz_border(call_place_check, &x, err);
}

static inline void call_place_parse(struct pz_call *call, void *ctx) {
  struct partition_call *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  pz_place_read_instance(&own, x->name, x->text, x->bytes, x->out);
}

static inline enum pz_status pz_place_parse(const char *name, const char *text, size_t bytes,
                                            struct pz_arena *arena, struct pz_instance *out,
                                            struct pz_error *err) {
  struct partition_call x = {
      .arena = arena, .name = name, .text = text, .bytes = bytes, .out = out};
  return pz_border(call_place_parse, &x, err);
}

static inline void call_fixed_plan(struct pz_call *call, void *ctx) {
  struct partition_call *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  const char *reason = pz_fixed_plan_evaluate(&own, x->p, x->fixed, x->out);
  if (reason) pz_raise(call, PZ_NO_ANSWER, "%s", reason);
}

static inline enum pz_status pz_fixed_plan(const struct pz_place_problem *p,
                                           const struct pz_fixed *fixed, struct pz_arena *arena,
                                           struct pz_place_solution *out, struct pz_error *err) {
  struct partition_call x = {.arena = arena, .p = p, .fixed = fixed, .out = out};
  return pz_border(call_fixed_plan, &x, err);
}

static inline void call_plan_best(struct pz_call *call, void *ctx) {
  struct partition_call *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  *(struct pz_plan_list *)x->out = pz_plan_list_best(&own, x->in, x->n_next);
}

static inline enum pz_status pz_plan_best(const struct pz_plan_inputs *in, uint32_t n_next,
                                          struct pz_arena *arena, struct pz_plan_list *out,
                                          struct pz_error *err) {
  struct partition_call x = {.arena = arena, .in = in, .n_next = n_next, .out = out};
  return pz_border(call_plan_best, &x, err);
}

static inline void call_layer_time(struct pz_call *call, void *ctx) {
  struct partition_call *x = ctx;
  *(struct pz_layer_time *)x->out = pz_layer_time_of(call, x->cost, x->ops, x->steps);
}

static inline enum pz_status layer_time(struct pz_cost *cost, const struct pz_ops *ops,
                                        int64_t steps, struct pz_layer_time *out,
                                        struct pz_error *err) {
  struct partition_call x = {.cost = cost, .ops = ops, .steps = steps, .out = out};
  return pz_border(call_layer_time, &x, err);
}

struct chain_args {
  const struct pz_workload *w;
  struct pz_layer_time (*times)[2];
  bool least;
  struct pz_arena *arena;
  struct pz_place_width *out;
};

static inline void make_chain(struct pz_call *call, void *ctx) {
  const struct chain_args *args = ctx;
  struct pz_call own = pz_call_in(call, args->arena);
  *args->out = pz_place_layer_chain(&own, args->w, args->times, args->least);
}

static inline enum pz_status pz_place_chain(const struct pz_workload *w,
                                            struct pz_layer_time (*times)[2], bool least,
                                            struct pz_arena *arena, struct pz_place_width *out,
                                            struct pz_error *err) {
  struct chain_args args = {w, times, least, arena, out};
  return pz_border(make_chain, &args, err);
}

struct bound_args {
  struct pz_place_bound *bound;
  const struct pz_place_problem *p;
  const uint32_t *runs;
  uint32_t n_runs;
  struct pz_arena *arena;
};

static inline void prepare_bound(struct pz_call *call, void *ctx) {
  const struct bound_args *args = ctx;
  struct pz_call own = pz_call_in(call, args->arena);
  pz_place_bound_prepare(&own, args->p, args->runs, args->n_runs, args->bound);
}

static inline enum pz_status pz_place_bound_init(struct pz_place_bound *bound,
                                                 const struct pz_place_problem *p,
                                                 const uint32_t *runs, uint32_t n_runs,
                                                 struct pz_arena *arena, struct pz_error *err) {
  struct bound_args args = {bound, p, runs, n_runs, arena};
  return pz_border(prepare_bound, &args, err);
}

struct choose_args {
  const struct pz_plan_inputs *in;
  double limit_s;
  struct pz_arena *arena;
  struct pz_plan_choice *out;
};

static inline void choose_plan(struct pz_call *call, void *ctx) {
  const struct choose_args *args = ctx;
  struct pz_call own = pz_call_in(call, args->arena);
  *args->out = pz_plan_find_best(&own, args->in, args->limit_s);
}

static inline enum pz_status pz_plan_choose(const struct pz_plan_inputs *in, double limit_s,
                                            struct pz_arena *arena, struct pz_plan_choice *out,
                                            struct pz_error *err) {
  struct choose_args args = {in, limit_s, arena, out};
  return pz_border(choose_plan, &args, err);
}

struct restore_args {
  const struct pz_plan_inputs *in;
  const struct pz_plan_record *record;
  double time_s;
  struct pz_arena *arena;
  struct pz_place_model *out;
};

static inline void restore_plan(struct pz_call *call, void *ctx) {
  const struct restore_args *args = ctx;
  struct pz_call own = pz_call_in(call, args->arena);
  *args->out = pz_plan_rebuild(&own, args->in, args->record, args->time_s);
}

static inline enum pz_status pz_plan_restore(const struct pz_plan_inputs *in,
                                             const struct pz_plan_record *record, double time_s,
                                             struct pz_arena *arena, struct pz_place_model *out,
                                             struct pz_error *err) {
  struct restore_args args = {in, record, time_s, arena, out};
  return pz_border(restore_plan, &args, err);
}

struct partition_description {
  const struct pz_place_model *m;
  double lower_bound_s;
  struct pz_arena *arena;
  struct pz_partition *out;
};

static inline void run_description(struct pz_call *call, void *ctx) {
  const struct partition_description *args = ctx;
  struct pz_call own = pz_call_in(call, args->arena);
  *args->out = pz_partition_describe(&own, args->m, args->lower_bound_s);
}

static inline enum pz_status pz_partition_make(const struct pz_place_model *m, double lower_bound_s,
                                               struct pz_arena *arena, struct pz_partition *out,
                                               struct pz_error *err) {
  struct partition_description args = {m, lower_bound_s, arena, out};
  return pz_border(run_description, &args, err);
}

#endif
