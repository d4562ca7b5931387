/* The space of training plans, as place/plan_question.h states it: shapes, of these grids of stages and replicas, of these
 * plans.  It prices nothing but the layers of each shape. */
#ifndef PZ_PLACE_PLAN_SPACE_H
#define PZ_PLACE_PLAN_SPACE_H

#include "core/vec.h"
#include "place/plan_question.h"
#include "plan/framework_rules.h"
#include "step/expected_error.h"

/* A size of a microbatch and of the tensor-parallel, context-parallel and expert-parallel groups, with the model of a step
 * that all plans of this size share. */
enum { PZ_PLAN_VARIANTS = 6 };
struct pz_step_shape {
  int64_t tp, cp, ep, mbs;
  bool sp, halves;
  struct pz_step_model *m; /* NULL: made anew when a plan is priced */
  struct pz_shape_time {
    double once_s,
        several_s; /* a microbatch through all layers, as the only one and as one of several */
  } time[PZ_PLAN_VARIANTS];
  bool never_once; /* no plan of it has a single microbatch: once_s is several_s */
  uint32_t first_grid, n_grids;
  uint32_t like; /* a shape that has the same plans, layers and memory but for halves; or itself */
  uint64_t timed_for; /* key of the chip */
  enum pz_status status;
  struct pz_error err;
};

/* One stage, one replica, nothing sharded or recomputed. */
struct pz_plan pz_step_shape_plan(const struct pz_plan_question *q, const struct pz_step_shape *x);

/* The plan of this shape whose layers take the least time, for lower bounds. */
struct pz_plan pz_step_shape_least(const struct pz_plan_question *q, const struct pz_step_shape *x);

/* What a framework can switch on in every plan of a shape. */
struct pz_plan_variant {
  int dispatcher, cuda_graphs;
};

/* The model for the question's chip, where there is none.  Errors as pz_step_model_new. */
PZ_NODISCARD enum pz_status pz_step_shape_open(const struct pz_plan_question *q,
                                               struct pz_step_shape *x, struct pz_error *err);

/* The part of all microbatches that every device has to work on, if all have the same. */
double pz_step_shape_share(const struct pz_plan_question *q, const struct pz_step_shape *x);

static inline double pz_layer_step_s(const struct pz_layer_step *t) {
  return t->forward_s + t->backward_s;
}

/* Stages and replicas of a shape, with a bound for all plans that have them. */
struct pz_plan_grid {
  uint32_t shape, variant;
  int64_t pp, dp;
  double bound_s, bound; /* of the step, of what is sought */
};

/* Ways to need less memory, each with the plans of a grid: a recomputation; activations on the host, of as few layers as
 * memory asks for unless the question has their number; and a part of the optimizer there. */
enum {
  PZ_PLAN_RECOMPUTATIONS = 5,
  PZ_PLAN_FRACTIONS = 5,
  PZ_PLAN_WAYS = 2 * PZ_PLAN_RECOMPUTATIONS * PZ_PLAN_FRACTIONS
};
struct pz_plan_way {
  enum pz_recomputation recompute;
  bool activations;
  double fraction;
};

/* Layers of the first and the last chunk; 0: even. */
struct pz_plan_division {
  int64_t first, last;
};

/* Which of them a plan may have, and its overlap with each; how many. */
struct pz_plan_ways {
  bool allowed[PZ_PLAN_WAYS];
  int overlap[PZ_PLAN_WAYS];
  uint64_t n;
};

struct pz_plan_space {
  const struct pz_plan_question *q;
  struct pz_error *err;
  struct pz_vec shapes,
      grids; /* struct pz_step_shape, struct pz_plan_grid: those of a shape together */
  struct pz_vec divisions; /* struct pz_plan_division: of the chunks at hand */
  struct pz_vec divisors;  /* of the batch, up to the devices: int64_t */
  int64_t node, n_blocks, seq;
  struct pz_model_shape model;
  struct pz_rule_list rules;
  struct pz_feature_context features; /* of all plans, and ... */
  struct pz_risk risk; /* ... the errors to expect, where time is counted with them */
  struct pz_plan_way
      way[PZ_PLAN_WAYS]; /* the first: nothing recomputed, nothing away that is not asked for */
  size_t n_ways;
  size_t
      overlaps; /* that a plan may have on each of its ways: all that its framework can, and without some of it */
  struct pz_plan_variant variant[PZ_PLAN_VARIANTS]; /* the first: as the question has it */
  uint32_t n_variants;
  struct pz_plan_ways ways;        /* of the plan at hand */
  unsigned orders, recomputations; /* that the framework has: sets */
  char warning[200];
};

/* The question outlives it; the arena holds the lists. */
void pz_plan_space_init(struct pz_plan_space *s, const struct pz_plan_question *q,
                        struct pz_arena *arena);
void pz_plan_space_release(struct pz_plan_space *s);

/* Shapes and their models, grids and their bounds.  Later errors go to `err` too. */
PZ_NODISCARD enum pz_status pz_plan_space_list(struct pz_plan_space *s, struct pz_error *err);

/* PZ_BAD_USE with a message: no plan has these degrees. */
PZ_NODISCARD enum pz_status pz_plan_space_empty(const struct pz_plan_space *s);

/* What the question's objective makes of a plan; less is better.  It does not fall with a feature more of the plan. */
double pz_plan_value(const struct pz_plan_space *s, const struct pz_plan *p, double step_s,
                     double needed_bytes);

static inline struct pz_step_shape *pz_shape_at(const struct pz_plan_space *s, uint32_t i) {
  return pz_vec_at(&s->shapes, struct pz_step_shape, i);
}

static inline struct pz_plan_grid *pz_grid_at(const struct pz_plan_space *s, uint32_t i) {
  return pz_vec_at(&s->grids, struct pz_plan_grid, i);
}

/* Times of an open shape, in that of the framework's orders of a pipeline that is fastest.  The shape holds the message of
 * an error. */
PZ_NODISCARD enum pz_status pz_step_shape_time(const struct pz_plan_space *s,
                                               struct pz_step_shape *x);

/* With one chunk a stage, nothing sharded or recomputed. */
struct pz_plan pz_plan_grid_plan(const struct pz_plan_space *s, const struct pz_plan_grid *g);

enum pz_status pz_plan_no_memory(const struct pz_plan_space *s);
enum pz_status pz_plan_stopped(const struct pz_plan_space *s);

/* No plan of the grid is faster: its stages share all layers at best evenly, and nothing else takes time. */
double pz_plan_grid_bound_s(const struct pz_plan_question *q, const struct pz_step_shape *x,
                            const struct pz_plan_grid *g);

/* Lowest bound first. */
void pz_plan_grids_sort(struct pz_vec *grids);

/* Ways and overlaps: overlap counts fastest, first with all that the framework can. */
static inline size_t pz_plan_space_ways(const struct pz_plan_space *s) {
  return s->n_ways * s->overlaps;
}

/* May a plan that pz_plan_space_each has come to go this one of the ways, with this overlap?  The plan is told of both. */
bool pz_plan_space_take(const struct pz_plan_space *s, struct pz_plan *p, size_t way);

/* Is the number of layers whose activations go to the host for memory to choose? */
static inline bool pz_plan_chooses_layers(const struct pz_plan_question *q,
                                          const struct pz_plan *p) {
  return p->offload & PZ_OFFLOAD_ACTIVATIONS && !q->plan.offload_layers && !q->plan.offload_modules;
}

/* A plan before memory has asked for anything: no slower than with it. */
struct pz_plan pz_plan_unburdened(const struct pz_plan *p);

/* Fields that follow from the others: devices, and the overlap that the framework has for such a plan. */
void pz_plan_space_settle(const struct pz_plan_space *s, struct pz_plan *p);

/* Every plan of a grid, but for its way, which fn chooses.  `dominant`: most chunks first, without those that
 * another one is always better than.  Ends with what fn returns where that is not PZ_OK. */
typedef enum pz_status pz_plan_fn(void *ctx, const struct pz_step_shape *x, struct pz_plan *p);
PZ_NODISCARD enum pz_status pz_plan_space_each(struct pz_plan_space *s,
                                               const struct pz_plan_grid *g, bool dominant,
                                               pz_plan_fn *fn, void *ctx);

/* Their number, ways counted. */
PZ_NODISCARD enum pz_status pz_plan_space_count(struct pz_plan_space *s,
                                                const struct pz_plan_grid *g, uint64_t *plans);

#endif
