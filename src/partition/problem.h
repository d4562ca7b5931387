/* A placement problem: the layers of a model, with their costs for every tensor-parallel degree, to
 * be divided into pipeline stages and replicated over devices so that the step time is minimal.  A
 * width is a tensor-parallel degree.
 *
 * Stages are numbered from the end (the last is 1).  With M microbatches, s stages, d replicas:
 *     time      = maxload (ceil(M / d) + s - 1) + allreduce
 *     allreduce = 4 (d - 1) / d P / bw
 *     memory    = state P + A + (i - 1) K    of stage i
 * P are parameter bytes, A activations kept, K what each further microbatch in flight keeps: A, or
 * with recomputation the input bytes of the stage. */
#ifndef PZ_PARTITION_PROBLEM_H
#define PZ_PARTITION_PROBLEM_H

#include "core/arena.h"

/* Whose parameters the gradient all-reduce is charged for. */
enum pz_semantics {
  PZ_SEMANTICS_ORIGINAL, /* the first stage's, as the published program does */
  PZ_SEMANTICS_CORRECTED /* the largest stage's */
};

struct pz_place_layer {
  int64_t id;
  const char *name; /* of a model's layer; else NULL */
  double fwd_s, bwd_s;
  double link_s[2]; /* collectives of a model's layer, by direction; may overlap with the rest */
  double param_bytes, act_bytes;
  bool tensor_parallel; /* a stage with such a layer takes t devices, others one */
};

struct pz_place_edge {
  uint32_t from, to;
  double bytes;
};

/* The layers at one width, in topological order: among ready ones the one listed first. */
struct pz_place_width {
  int64_t t;
  const struct pz_place_layer *layers;
  const struct pz_place_edge *edges;
  uint32_t n, n_edges;
};

/* A part of the network: plans on at most so many devices stay inside it and have its bandwidth. */
struct pz_place_domain {
  int64_t devices;
  double bytes_per_s;
};

enum { PZ_PLACE_MOST_DOMAINS = 8, PZ_PLACE_MOST_LAYERS = 1024, PZ_PLACE_MOST_WIDTHS = 64 };

struct pz_place_problem {
  double hbm_bytes, bytes_per_s;
  int64_t devices, microbatches;
  struct pz_place_domain domains[PZ_PLACE_MOST_DOMAINS]; /* smaller than `devices`, ascending */
  uint32_t n_domains;
  double state; /* bytes held for a byte of parameters: 2, with Adam 3 */
  bool recompute;
  enum pz_semantics semantics;
  const struct pz_place_width *widths;
  uint32_t n_widths;
};

/* A stage: which layers, what it takes. */
struct pz_stage {
  const uint32_t *layers; /* indices in the width's layers, ascending */
  uint32_t n;
  int64_t devices;
  double load_s, param_bytes, memory_bytes;
};

struct pz_place_solution {
  uint32_t width;  /* index in the problem's */
  uint32_t domain; /* the same; n_domains: the whole network */
  int64_t d;
  struct pz_stage *stages; /* from the first to the last */
  uint32_t n_stages;
  double maxload_s, allreduce_s, time_s;
};

/* The problem as a plan in one domain (n_domains: the whole network) sees it. */
struct pz_place_problem pz_place_within(const struct pz_place_problem *p, uint32_t domain);

/* The time of a batch, and its gradient all-reduce. */
double pz_place_allreduce_s(const struct pz_place_problem *p, int64_t d, double param_bytes);
double pz_place_time_s(const struct pz_place_problem *p, double maxload_s, uint32_t n_stages,
                       int64_t d, double param_bytes);

/* The best number of replicas of s stages that take n_devices together. */
struct pz_replicas {
  int64_t d;     /* 0: none is below limit_s ... */
  double time_s; /* ... and this is DBL_MAX */
};
struct pz_replicas pz_place_best_d(const struct pz_place_problem *p, double maxload_s,
                                   uint32_t n_stages, int64_t n_devices, double param_bytes,
                                   double limit_s);

/* What one stage of a plan takes, from its layers: the formulas above, plainly, for plans that are
 * given and for the checker.  The solver has a table of its own (solve.c), so that each can test the
 * other. */
struct pz_stage_sum {
  double forward_s, backward_s; /* with waiting for what comes from outside; backward with forward
                                   again where it is recomputed */
  double load_s;                /* both */
  double param_bytes, act_bytes;
  double in_flight_bytes; /* (i - 1) K */
  double memory_bytes;
  bool tensor_parallel;
};

/* stage[i]: which of the stages, from 0, layer i is in; the sum of stage k. */
struct pz_stage_sum pz_stage_sum(const struct pz_place_problem *p, const struct pz_place_width *w,
                                 const uint32_t *stage, uint32_t k, uint32_t n_stages);

/* ---- plans that are given ------------------------------------------------------------------- */

/* As experts' plans are: repeated layers divided evenly into stages, in one of two ways. */
enum pz_fixed_split {
  PZ_SPLIT_EVEN,  /* layer i of L in stage floor(i p / L); what stands before or after goes along */
  PZ_SPLIT_COMPAT /* as the original program, off by one: the first L nodes, ceil(L / p) each */
};

struct pz_fixed {
  int64_t stages; /* 0: there is no such plan */
  enum pz_fixed_split split;
  int64_t t, d;
  int64_t first, layers; /* id of the first repeated layer; how many there are */
};

/* The plan in full; the arena holds it.  PZ_NO_ANSWER when it cannot be: `err` says why. */
PZ_NODISCARD enum pz_status pz_fixed_plan(const struct pz_place_problem *p,
                                          const struct pz_fixed *f, struct pz_arena *arena,
                                          struct pz_place_solution *out, struct pz_error *err);

/* ---- the problem of a model ----------------------------------------------------------------- */

/* A problem of one width on so many devices; layers, memory and microbatches are yet to be set.  The
 * bandwidth is that of the innermost level of the network that joins all devices; plans that need
 * fewer have that of the levels inside it. */
struct pz_place_problem pz_place_problem_on(const struct pz_cluster *net, int64_t devices);

/* A layer's schedule in one direction. */
struct pz_layer_time {
  double s, least_s; /* its makespan, and the bound: no schedule is shorter */
  double link_s;     /* collectives in it; may overlap with the rest */
  bool open;         /* not proven the best */
};

/* A workload's layers one by one, as often as they stand in the model, each with an edge to the
 * next: times[i] are those of w->layers[i], by direction, or with `least` their bounds.  Names are
 * the workload's. */
PZ_NODISCARD enum pz_status pz_place_chain(const struct pz_workload *w,
                                           struct pz_layer_time (*times)[2], bool least,
                                           struct pz_arena *arena, struct pz_place_width *out,
                                           struct pz_error *err);

/* ---- solve.c ---------------------------------------------------------------------------------
 *
 * The optimal plan: a dynamic program over stages from the last to the first, for every
 * tensor-parallel degree, after J. Tarnawski, D. Narayanan, A. Phanishayee, "Piper:
 * Multidimensional Planner for DNN Parallelization", NeurIPS 2021. */

/* Of plans that take at most limit_s (DBL_MAX: all), the fastest; of equally fast plans a limit may
 * give another.  PZ_NO_ANSWER when there is none.  Errors: no memory; a graph with too many cuts into
 * two parts. */
PZ_NODISCARD enum pz_status pz_place_solve(const struct pz_place_problem *p, double limit_s,
                                           struct pz_arena *arena, struct pz_place_solution *out,
                                           struct pz_error *err);

/* For infeasible problems: the least memory with which a plan would be feasible. */
struct pz_fit {
  double hbm_bytes;         /* the least that would do, to a thousandth; DBL_MAX: no amount would */
  uint32_t stage, n_stages; /* of the plan that fits it: the stage that takes most (from 0) */
  uint32_t n_layers;        /* of that stage ... */
  int64_t first, last;      /* ... and their ids */
  double param_bytes, memory_bytes;
};

struct pz_fit pz_fit_least(const struct pz_place_problem *p);

/* Independent checker of a plan: recomputed from the layers; shares only the formula of the time with the
 * solver.  PZ_INTERNAL, with what is wrong. */
PZ_NODISCARD enum pz_status pz_partition_check(const struct pz_place_problem *p,
                                               const struct pz_place_solution *plan,
                                               struct pz_error *err);

/* ---- lower_bound.c ---------------------------------------------------------------------------
 *
 * A lower bound on the step time of any plan of a model, in a fraction of a microsecond.  Memory does not
 * depend on the speed of a chip, so the numbers of stages it rules out are computed once; afterwards only
 * the layers' times enter.  Relaxations: stages share the work evenly except for whole repeated layers, the
 * largest stage has its even share of parameters, transfers are the smallest between any two layers. */

struct pz_place_bound {
  struct pz_place_problem p;          /* its layers' times are not looked at */
  uint32_t least_stages, most_stages; /* that memory and devices allow; most 0: none */
  const uint32_t *runs;               /* of equal layers: how many each has */
  uint32_t n_runs, main_run;          /* the longest */
  double edge_bytes, transfer_s;      /* between two stages, at least */
  double share;   /* of the work of a microbatch, if devices shared it all evenly */
  double *params; /* by stages: of the stage that is charged, at least */
  double *rounds; /* by stages: microbatches' times, at least */
  const struct pz_place_bound *inner; /* of each domain of the network, which p does not have */
  uint32_t n_inner;
};

/* For a problem of one width, a chain of runs of equal layers. */
PZ_NODISCARD enum pz_status pz_place_bound_init(struct pz_place_bound *x,
                                                const struct pz_place_problem *p,
                                                const uint32_t *runs, uint32_t n_runs,
                                                struct pz_arena *arena, struct pz_error *err);

/* No plan whose layers take at least these times (by run) is faster.  `limit_s`: nothing from there
 * on is of interest, and the result may be anything not below it.  HUGE_VAL: nothing fits. */
double pz_place_bound_time_s(const struct pz_place_bound *x, const double *fwd_s,
                             const double *bwd_s, double limit_s);

#endif
