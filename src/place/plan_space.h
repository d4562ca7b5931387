/* The space of training plans that place/plan_question.h defines, in four levels: shapes, grids, plans, ways.
 *
 * A shape fixes the sizes of the microbatch and of the parallel groups; its plans share one model of a step.  A grid adds
 * the numbers of stages and replicas, and has a lower bound for all its plans.  pz_plan_grid_visit() enumerates the
 * plans of a grid by chunks, pipeline order, ZeRO stage and division of layers.  Each plan can be run in several ways:
 * recomputation, offload and overlap, which pz_plan_apply_way() sets.
 *
 * The space is listed with pz_plan_space_list().  It knows nothing about prices except the layer times of each shape. */
#ifndef PZ_PLACE_PLAN_SPACE_H
#define PZ_PLACE_PLAN_SPACE_H

#include "core/vec.h"
#include "place/plan_question.h"
#include "plan/framework_rules.h"
#include "step/expected_error.h"

enum { PZ_PLAN_VARIANTS = 6 };

/* Time of one microbatch through all layers, as the only microbatch of a step and as one of several. */
struct pz_shape_time {
  double single_s, several_s;
};

struct pz_step_shape {
  int64_t tp, cp, ep, mbs;
  bool sp, halves;
  struct pz_step_model *model; /* NULL until pz_step_shape_open() */
  struct pz_shape_time time[PZ_PLAN_VARIANTS];
  /* No plan of the shape has a single microbatch, so single_s is not computed. */
  bool always_several;
  /* used by the finder: */
  uint32_t first_grid, n_grids;
  /* The shape with the same plans, layers and memory, equal but for `halves`; or this one. */
  uint32_t representative;
  uint64_t timed_for; /* key of the chip that the model is timed for; 0: none */
};

/* What a framework can switch on in every plan of a shape. */
struct pz_plan_variant {
  int dispatcher, cuda_graphs;
};

/* The stages and replicas of a shape, with lower bounds for all plans that have them. */
struct pz_plan_grid {
  uint32_t shape, variant;
  int64_t pp, dp;
  double bound_s, bound; /* lower bounds of the step and of the objective */
};

/* A way to need less memory: a recomputation, offloaded activations (of as few layers as memory requires, unless the
 * question gives their number) and a fraction of the optimizer on the host. */
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

/* The ways that a plan may be run in, the overlap that it has with each, and their number with all overlaps. */
struct pz_plan_ways {
  bool allowed[PZ_PLAN_WAYS];
  int overlap[PZ_PLAN_WAYS];
  uint64_t n;
};

struct pz_plan_space {
  const struct pz_plan_question *q;
  struct pz_vec shapes,
      grids; /* struct pz_step_shape, struct pz_plan_grid; the grids of a shape are adjacent */
  struct pz_vec divisions; /* struct plan_division: divisions of layers for the current chunks */
  struct pz_vec divisors;  /* int64_t: divisors of the batch, up to the number of devices */
  int64_t node, n_blocks, seq; /* devices per node, repeated layers, sequence length */
  struct pz_model_shape model;
  struct pz_rule_list rules;
  struct pz_feature_context features; /* context of the features that all plans have in common */
  struct pz_risk risk;                /* expected errors by feature, if the question counts them */
  /* The first recomputes and offloads nothing that is not asked for. */
  struct pz_plan_way way[PZ_PLAN_WAYS];
  size_t n_ways;
  /* Overlaps per way: all that the framework can do, and the same without some of it. */
  size_t n_overlaps;
  struct pz_plan_variant variant[PZ_PLAN_VARIANTS]; /* the first is the question's own */
  uint32_t n_variants;
  struct pz_plan_ways ways;                 /* of the plan that is being visited */
  unsigned pipeline_orders, recomputations; /* sets of what the framework has */
  char warning[200];
};

/* ---- the whole space ------------------------------------------------------------------------ */

/* Begins an empty space.  The question must outlive it, and the arena holds its lists. */
void pz_plan_space_init(struct pz_plan_space *s, const struct pz_plan_question *q,
                        struct pz_arena *arena);

/* Closes the models of all shapes; a pz_close_fn. */
void pz_plan_space_release(void *space);

/* Lists the shapes with their models, and the grids with their bounds.  Raises an error if there are none. */
void pz_plan_space_list(struct pz_call *call, struct pz_plan_space *s);

/* Raises the reason why the space has no plan. */
_Noreturn void pz_plan_space_refuse(struct pz_call *call, const struct pz_plan_space *s);

/* Raises PZ_STOPPED if the search was cancelled or its time is over. */
void pz_plan_space_check_stop(struct pz_call *call, const struct pz_plan_space *s);

/* Begins a phase of the question's progress, which is finished when the call ends. */
void pz_plan_begin_progress(struct pz_call *call, const struct pz_plan_question *q,
                            const char *label, const char *unit, uint64_t total);

static inline struct pz_step_shape *pz_shape_at(const struct pz_plan_space *s, uint32_t i) {
  return pz_vec_at(&s->shapes, struct pz_step_shape, i);
}

static inline struct pz_plan_grid *pz_grid_at(const struct pz_plan_space *s, uint32_t i) {
  return pz_vec_at(&s->grids, struct pz_plan_grid, i);
}

/* The value of a plan by the question's objective; less is better.  It never falls when a plan has one more feature. */
double pz_plan_value(const struct pz_plan_space *s, const struct pz_plan *p, double step_s,
                     double needed_bytes);

/* ---- shapes --------------------------------------------------------------------------------- */

/* The plan of a shape with one stage and one replica, nothing sharded and nothing recomputed. */
struct pz_plan pz_step_shape_plan(const struct pz_plan_question *q, const struct pz_step_shape *x);

/* The plan of a shape whose layers take the least time, for lower bounds. */
struct pz_plan pz_step_shape_fastest(const struct pz_plan_question *q,
                                     const struct pz_step_shape *x);

/* Makes the model for the question's chip, unless the shape has one.  Raises the errors of pz_step_model_new(). */
void pz_step_shape_open(struct pz_call *call, const struct pz_plan_question *q,
                        struct pz_step_shape *x);

/* Computes the times of an open shape in every variant, each in the pipeline order that is fastest. */
void pz_step_shape_time(struct pz_call *call, const struct pz_plan_space *s,
                        struct pz_step_shape *x);

/* The number of microbatches that every device processes if all devices do equal work; not an integer in general. */
double pz_step_shape_share(const struct pz_plan_question *q, const struct pz_step_shape *x);

static inline double pz_layer_step_s(const struct pz_layer_step *t) {
  return t->forward_s + t->backward_s;
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* The plan of a grid with one chunk per stage, nothing sharded and nothing recomputed. */
struct pz_plan pz_plan_grid_plan(const struct pz_plan_space *s, const struct pz_plan_grid *g);

/* A lower bound of the step: the stages share all layers evenly at best, and nothing else takes time. */
double pz_plan_grid_bound_s(const struct pz_plan_question *q, const struct pz_step_shape *x,
                            const struct pz_plan_grid *g);

/* Sorts grids by ascending bound. */
void pz_plan_grids_sort(struct pz_vec *grids);

/* ---- plans of a grid ------------------------------------------------------------------------ */

/* Calls fn for every plan of a grid; fn chooses among the ways.  With `dominant`, plans with most chunks come first and
 * plans that are never better than another one are left out. */
typedef void pz_plan_fn(struct pz_call *call, void *ctx, struct pz_step_shape *x,
                        struct pz_plan *p);
void pz_plan_grid_visit(struct pz_call *call, struct pz_plan_space *s, const struct pz_plan_grid *g,
                        bool dominant, pz_plan_fn *fn, void *ctx);

/* The number of plans of a grid in all their ways. */
uint64_t pz_plan_grid_count(struct pz_call *call, struct pz_plan_space *s,
                            const struct pz_plan_grid *g);

/* The number of ways and overlaps.  The overlap is the fast-running index, beginning with all that the framework can do. */
static inline size_t pz_plan_space_ways(const struct pz_plan_space *s) {
  return s->n_ways * s->n_overlaps;
}

/* Sets the way and its overlap in the plan that is being visited.  Returns whether the plan may be run that way. */
bool pz_plan_apply_way(const struct pz_plan_space *s, struct pz_plan *p, size_t way);

/* Sets the fields that follow from the others: devices, and the overlap that the framework has for such a plan. */
void pz_plan_set_derived(const struct pz_plan_space *s, struct pz_plan *p);

/* Whether memory decides how many layers have their activations on the host. */
static inline bool pz_plan_offload_is_open(const struct pz_plan_question *q,
                                           const struct pz_plan *p) {
  return p->offload & PZ_OFFLOAD_ACTIVATIONS && !q->plan.offload_layers && !q->plan.offload_modules;
}

/* The same plan without full recomputation and offloaded activations.  It is not slower, so its bound holds for both. */
struct pz_plan pz_plan_relaxed(const struct pz_plan *p);

#endif
