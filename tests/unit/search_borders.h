/* Functions of src/space and src/search for tests that check a status. */
#ifndef PZ_TESTS_SEARCH_BORDERS_H
#define PZ_TESTS_SEARCH_BORDERS_H

#include "search/search.h"

/* ---- space ---- */
/* Arguments of all functions below; each uses some of them. */
struct space_args {
  const char *name, *text;
  size_t bytes;
  struct pz_space *space;
};

static inline void read_in_border(struct pz_call *call, void *ctx) {
  const struct space_args *x = ctx;
  pz_space_read(call, x->name, x->text, x->bytes, x->space);
}

static inline enum pz_status pz_space_parse(const char *name, const char *text, size_t bytes,
                                            struct pz_space *out, struct pz_error *err) {
  struct space_args x = {name, text, bytes, out};
  return pz_border(read_in_border, &x, err);
}

static inline void read_named_in_border(struct pz_call *call, void *ctx) {
  const struct space_args *x = ctx;
  pz_space_read_named(call, x->name, x->space);
}

static inline enum pz_status pz_space_load(const char *space, struct pz_space *out,
                                           struct pz_error *err) {
  struct space_args x = {.name = space, .space = out};
  return pz_border(read_named_in_border, &x, err);
}

static inline void choose_node_in_border(struct pz_call *call, void *ctx) {
  const struct space_args *x = ctx;
  pz_space_choose_node(call, x->space, x->name);
}

static inline enum pz_status pz_space_set_node(struct pz_space *s, const char *node,
                                               struct pz_error *err) {
  struct space_args x = {.name = node, .space = s};
  return pz_border(choose_node_in_border, &x, err);
}

/* ---- space ---- */
struct budget_args {
  const struct pz_space *space;
  const char *budget, *node;
  struct pz_limits *limits;
};

static inline void apply_budget_in_border(struct pz_call *call, void *ctx) {
  const struct budget_args *x = ctx;
  pz_limits_apply_budget(call, x->space, x->budget, x->node, x->limits);
}

static inline enum pz_status pz_limits_complete(const struct pz_space *s, const char *budget,
                                                const char *node, struct pz_limits *limits,
                                                struct pz_error *err) {
  struct budget_args x = {s, budget, node, limits};
  return pz_border(apply_budget_in_border, &x, err);
}

/* ---- search ---- */
struct space_list_args {
  const struct pz_space *space;
  const struct pz_limits *limits;
  struct pz_arena *arena;
  struct pz_point **out;
  uint32_t *n;
};

static inline void list_within_in_border(struct pz_call *call, void *ctx) {
  const struct space_list_args *x = ctx;
  struct pz_call in_arena = pz_call_in(call, x->arena);
  *x->out = pz_space_list_within(&in_arena, x->space, x->limits, x->n);
}

static inline enum pz_status pz_space_list(const struct pz_space *s, const struct pz_limits *l,
                                           struct pz_arena *arena, struct pz_point **out,
                                           uint32_t *n, struct pz_error *err) {
  struct space_list_args x = {s, l, arena, out, n};
  return pz_border(list_within_in_border, &x, err);
}

/* ---- search ---- */
/* Arguments and results of all functions below; each uses some of them. */
struct search_args {
  struct pz_search *search;
  const struct pz_search_question *question;
  struct pz_pool *pool;
  struct pz_objective_run *run;
  const struct pz_point *point;
  unsigned worker;
  uint32_t number;
  enum pz_effort effort;
  struct pz_evaluation evaluation;
};

static inline void create_in_border(struct pz_call *call, void *ctx) {
  struct search_args *x = ctx;
  x->search = pz_search_create(call, x->question, x->pool);
}

static inline enum pz_status pz_search_new(const struct pz_search_question *q, struct pz_pool *pool,
                                           struct pz_search **out, struct pz_error *err) {
  struct search_args x = {.question = q, .pool = pool};
  enum pz_status status = pz_border(create_in_border, &x, err);
  if (status == PZ_OK) *out = x.search;
  return status;
}

static inline void optimize_in_border(struct pz_call *call, void *ctx) {
  const struct search_args *x = ctx;
  pz_search_optimize(call, x->search, x->number, x->run);
}

static inline enum pz_status pz_search_run(struct pz_search *s, uint32_t number,
                                           struct pz_objective_run *run, struct pz_error *err) {
  struct search_args x = {.search = s, .number = number, .run = run};
  return pz_border(optimize_in_border, &x, err);
}

static inline void evaluate_chip_in_border(struct pz_call *call, void *ctx) {
  struct search_args *x = ctx;
  x->evaluation =
      pz_search_evaluate_chip(call, x->search, x->worker, x->point, x->number, x->effort);
}

static inline enum pz_status pz_search_evaluate(struct pz_search *s, unsigned worker,
                                                const struct pz_point *p, uint32_t entry,
                                                enum pz_effort effort, struct pz_evaluation *out,
                                                struct pz_error *err) {
  struct search_args x = {
      .search = s, .worker = worker, .point = p, .number = entry, .effort = effort};
  enum pz_status status = pz_border(evaluate_chip_in_border, &x, err);
  if (status == PZ_OK) *out = x.evaluation;
  return status;
}

#endif
