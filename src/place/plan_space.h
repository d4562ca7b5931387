/* The space of training plans that place/plan_question.h defines, in four levels: shapes, grids,
 * plans, and ways.
 *
 * A shape fixes the microbatch size and the sizes of the parallel groups; its plans share one step
 * model.  A grid adds the numbers of pipeline stages and replicas, and has a lower bound for all
 * its plans.  The plans of a grid differ in chunks, pipeline order, ZeRO stage and division of
 * layers.  Each plan can be run in several ways, which differ in recomputation, offload and
 * overlap of communication.
 *
 * The space knows nothing about prices, except the layer times of each shape. */
#ifndef PZ_PLACE_PLAN_SPACE_H
#define PZ_PLACE_PLAN_SPACE_H

#include "core/vec.h"
#include "place/plan_question.h"
#include "plan/framework_rules.h"
#include "step/expected_error.h"

enum { PZ_PLAN_VARIANTS = 6 };

/* Seconds of a microbatch through all layers, if it is the only one of a step or one of several. */
struct pz_shape_time {
  double single_s, several_s;
};

/* The plans with given sizes of the parallel groups and of the microbatch. */
struct pz_step_shape {
  int64_t tp, cp, ep, mbs;
  bool sp;
  bool halves;                 /* a pass runs two halves of a microbatch beside each other */
  struct pz_step_model *model; /* NULL until pz_step_shape_open() */
  struct pz_shape_time time[PZ_PLAN_VARIANTS];
  bool always_several; /* no plan has a single microbatch, so that single_s is not computed */

  /* used by the plan finder */
  uint32_t first_grid, n_grids; /* the grids of the shape are adjacent */
  /* The shape with the same plans and memory that differs at most in `halves`. */
  uint32_t representative;
  uint64_t timed_for; /* key of the chip for which the model is timed, or 0 if none */
};

/* Features of the framework that a search can switch on in all plans of a shape. */
struct pz_plan_variant {
  int dispatcher;  /* enum pz_dispatcher */
  int cuda_graphs; /* a set of enum pz_graph_module */
};

/* The plans of a shape with given numbers of pipeline stages and replicas. */
struct pz_plan_grid {
  uint32_t shape, variant; /* indices */
  int64_t pp, dp;
  double bound_s; /* lower bound of the step of all its plans */
  double bound;   /* lower bound of their value (pz_plan_value) */
};

/* A way to save memory: a recomputation of activations, whether activations are offloaded to the
 * host, and the fraction of the optimizer state that is on the host.  If the question does not
 * state for how many layers activations are offloaded, these are as few as memory requires. */
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

/* The ways in which one plan can be run. */
struct pz_plan_ways {
  bool allowed[PZ_PLAN_WAYS];
  int overlap[PZ_PLAN_WAYS]; /* the overlap that the plan has with each way */
  uint64_t n;                /* number of allowed ways, counted with each overlap that is tried */
};

/* The space of plans that a question allows. */
struct pz_plan_space {
  const struct pz_plan_question *question;
  struct pz_vec shapes; /* struct pz_step_shape */
  struct pz_vec grids;  /* struct pz_plan_grid; the grids of a shape are adjacent */
  /* struct plan_division: divisions of layers for the chunks that are being visited */
  struct pz_vec divisions;
  struct pz_vec divisors; /* int64_t: divisors of the batch, up to the number of devices */
  int64_t devices_per_node;
  int64_t n_layers; /* repeated layers of the model */
  int64_t seq;      /* sequence length */
  struct pz_model_shape model;
  struct pz_rule_list rules;          /* of the framework */
  struct pz_feature_context features; /* features that all plans share */
  struct pz_risk risk;                /* expected errors by feature, if the question counts them */
  /* The ways to save memory.  The first one saves nothing, unless the question demands it. */
  struct pz_plan_way way[PZ_PLAN_WAYS];
  size_t n_ways;
  /* Overlaps tried with each way: all of the framework, and without optional ones. */
  size_t n_overlaps;
  struct pz_plan_variant variant[PZ_PLAN_VARIANTS]; /* the first variant is that of the question */
  uint32_t n_variants;
  struct pz_plan_ways ways; /* of the plan that is being visited */
  /* sets of bits 1 << enum that the framework supports */
  unsigned pipeline_orders, recomputations;
  char warning[200]; /* warning about the model for the user, or "" */
};

/* ---- the whole space ------------------------------------------------------------------------ */

/* Initializes an empty space, whose lists are in the arena.  The question must outlive it. */
void pz_plan_space_init(struct pz_plan_space *space, const struct pz_plan_question *question,
                        struct pz_arena *arena);

/* Frees the step models of all shapes; a pz_close_fn. */
void pz_plan_space_release(void *space);

/* Lists all shapes and grids, and makes the step models.  Raises an error if there are none. */
void pz_plan_space_list(struct pz_call *call, struct pz_plan_space *space);

/* Raises an error that says why the space has no plan. */
_Noreturn void pz_plan_space_refuse(struct pz_call *call, const struct pz_plan_space *space);

/* Raises PZ_STOPPED if the search was cancelled or its time is over. */
void pz_plan_space_check_stop(struct pz_call *call, const struct pz_plan_space *space);

/* Begins a phase of `total` units in the progress, which is finished when the call ends. */
void pz_plan_begin_progress(struct pz_call *call, const struct pz_plan_question *question,
                            const char *label, const char *unit, uint64_t total);

static inline struct pz_step_shape *pz_shape_at(const struct pz_plan_space *space, uint32_t i) {
  return pz_vec_at(&space->shapes, struct pz_step_shape, i);
}

static inline struct pz_plan_grid *pz_grid_at(const struct pz_plan_space *space, uint32_t i) {
  return pz_vec_at(&space->grids, struct pz_plan_grid, i);
}

/* Returns the value of a plan by the objective of the question; less is better.  If the question
 * counts expected errors, an additional feature of a plan never lowers its value. */
double pz_plan_value(const struct pz_plan_space *space, const struct pz_plan *plan, double step_s,
                     double needed_bytes);

/* ---- shapes --------------------------------------------------------------------------------- */

/* Returns the plainest plan of a shape: one stage, one replica, and no way to save memory. */
struct pz_plan pz_step_shape_plan(const struct pz_plan_question *question,
                                  const struct pz_step_shape *shape);

/* Returns a plan of a shape whose layers take the least time of all its plans, for lower bounds. */
struct pz_plan pz_step_shape_fastest(const struct pz_plan_question *question,
                                     const struct pz_step_shape *shape);

/* Makes the step model of a shape, unless it has one.  Raises the errors of pz_step_model_new(). */
void pz_step_shape_open(struct pz_call *call, const struct pz_plan_question *question,
                        struct pz_step_shape *shape);

/* Computes the microbatch times of an open shape in every variant, in the fastest order. */
void pz_step_shape_time(struct pz_call *call, const struct pz_plan_space *space,
                        struct pz_step_shape *shape);

/* Returns the number of microbatches that each device would process if all devices had equal shares
 * of the batch; in general not an integer. */
double pz_step_shape_share(const struct pz_plan_question *question,
                           const struct pz_step_shape *shape);

/* Returns the seconds of a layer, forward and backward. */
static inline double pz_layer_step_s(const struct pz_layer_step *step) {
  return step->forward_s + step->backward_s;
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* Returns the plainest plan of a grid: one chunk per stage, and no way to save memory. */
struct pz_plan pz_plan_grid_plan(const struct pz_plan_space *space,
                                 const struct pz_plan_grid *grid);

/* Returns a lower bound of the step of all plans of a grid: at best the stages share the layers
 * evenly, and nothing but layers takes time. */
double pz_plan_grid_bound_s(const struct pz_plan_question *question,
                            const struct pz_step_shape *shape, const struct pz_plan_grid *grid);

/* Compares two struct pz_plan_grid for qsort(): by bound, lowest first, then by their sizes. */
int pz_plan_grid_order(const void *a, const void *b);

/* ---- plans of a grid ------------------------------------------------------------------------ */

/* Receives a plan of a grid, to which it may apply ways to save memory (pz_plan_apply_way). */
typedef void pz_plan_fn(struct pz_call *call, void *ctx, struct pz_step_shape *shape,
                        struct pz_plan *plan);

/* Calls fn, unless it is NULL, for every plan of a grid.  Returns the number of plans, each counted
 * once for every way in which it can be run.  With PZ_VISIT_DOMINANT, plans with the most chunks
 * come first, and plans with ZeRO 0 are left out if ZeRO 1 is never worse. */
enum pz_plan_visit { PZ_VISIT_ALL, PZ_VISIT_DOMINANT };
uint64_t pz_plan_grid_visit(struct pz_call *call, struct pz_plan_space *space,
                            const struct pz_plan_grid *grid, enum pz_plan_visit which,
                            pz_plan_fn *fn, void *ctx);

/* Applies a way to save memory and an overlap to the plan that is being visited, and returns
 * whether it can be run like this.  `choice`, below n_ways x n_overlaps, selects both: choices of
 * the same way are consecutive, and the first of them has all overlap. */
bool pz_plan_apply_way(const struct pz_plan_space *space, struct pz_plan *plan, size_t choice);

/* Sets the fields that follow from the others: devices, sequence length, and the overlap that the
 * framework has for the plan. */
void pz_plan_set_derived(const struct pz_plan_space *space, struct pz_plan *plan);

/* Returns whether memory is to decide how many layers offload their activations. */
static inline bool pz_plan_offload_is_open(const struct pz_plan_question *question,
                                           const struct pz_plan *plan) {
  return plan->offload & PZ_OFFLOAD_ACTIVATIONS && !question->plan.offload_layers &&
         !question->plan.offload_modules;
}

/* Returns the plan without full recomputation and without offloaded activations (its relaxation).
 * It is at least as fast as the plan with any number of recomputed or offloaded layers.  Therefore
 * a lower bound of its step holds for the plan before these numbers are chosen. */
struct pz_plan pz_plan_relaxed(const struct pz_plan *plan);

#endif
