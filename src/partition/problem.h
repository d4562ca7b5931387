/* The original system's placement problem: divide the layers of a model into pipeline stages, and replicate the pipeline
 * over devices, so that the step time is minimal.
 *
 * Stages are numbered from the end (the last is 1).  With M microbatches, s stages, d replicas:
 *     time      = maxload (ceil(M / d) + s - 1) + allreduce
 *     allreduce = 4 (d - 1) / d P / bw
 *     memory    = state P + A + (i - 1) K    of stage i
 * maxload is the time of the slowest stage for one microbatch, P are parameter bytes, A saved activations, and K what each
 * further microbatch in flight keeps: A, or with recompute the input bytes of the stage.
 *
 * The room works in this order: problem.c has the formulas and plans that are given; solve.c finds the best plan;
 * checker.c checks a plan without the solver; lower_bound.c bounds the time of all plans; best.h chooses among variants of
 * a model; partition.h describes a plan for users; instance.h reads problems from files.  None of it knows how a training
 * framework runs a plan: that is src/step. */
#ifndef PZ_PARTITION_PROBLEM_H
#define PZ_PARTITION_PROBLEM_H

#include "core/call.h"

/* Determines the stage whose parameters the gradient all-reduce is charged for. */
enum pz_semantics {
  PZ_SEMANTICS_ORIGINAL, /* the first stage, as in the published program */
  PZ_SEMANTICS_CORRECTED /* the stage with the most parameters */
};

struct pz_place_layer {
  int64_t id;
  const char *name;    /* name of a model's layer, or NULL if an instance file has the layer */
  double fwd_s, bwd_s; /* time of the forward and of the backward pass of a microbatch */
  double link_s[2];    /* by direction: time of collectives in a model's layer, which may overlap */
  double param_bytes, act_bytes; /* weights, and activations saved for a microbatch */
  bool tensor_parallel; /* a stage with such a layer uses `tp` devices, other stages use one */
};

/* A transfer between two layers, if these are in different stages. */
struct pz_place_edge {
  uint32_t from, to; /* indices of layers */
  double bytes;
};

/* The layers at one tensor-parallel degree ("width"), in topological order. */
struct pz_place_width {
  int64_t tp; /* the tensor-parallel degree */
  const struct pz_place_layer *layers;
  const struct pz_place_edge *edges;
  uint32_t n, n_edges;
};

/* A part of the network with its own bandwidth.  Plans on at most this many devices stay inside
 * one. */
struct pz_place_domain {
  int64_t devices;
  double bytes_per_s;
};

enum { PZ_PLACE_MOST_DOMAINS = 8, PZ_PLACE_MOST_LAYERS = 1024, PZ_PLACE_MOST_WIDTHS = 64 };

struct pz_place_problem {
  double hbm_bytes, bytes_per_s; /* memory of a device, and bandwidth between devices */
  int64_t devices, microbatches; /* microbatches of a batch, over all replicas */
  struct pz_place_domain domains[PZ_PLACE_MOST_DOMAINS]; /* smaller than `devices`, ascending */
  uint32_t n_domains;
  double state; /* bytes of weights, gradients and optimizer state per byte of weights */
  bool recompute;
  enum pz_semantics semantics;
  const struct pz_place_width *widths;
  uint32_t n_widths;
};

struct pz_stage {
  const uint32_t *layers; /* indices of the width's layers, ascending */
  uint32_t n;             /* number of layers */
  int64_t devices;
  double load_s; /* time for a microbatch, forward and backward */
  double param_bytes, memory_bytes;
};

/* A plan: pipeline stages and replicas. */
struct pz_place_solution {
  uint32_t width;  /* index of the problem's widths */
  uint32_t domain; /* index of the problem's domains, or n_domains for the whole network */
  int64_t replicas;
  struct pz_stage *stages; /* from the first to the last */
  uint32_t n_stages;
  double maxload_s, allreduce_s, time_s;
};

/* ---- formulas ------------------------------------------------------------------------------- */

/* Returns the problem inside one domain, or in the whole network if `domain` is n_domains. */
struct pz_place_problem pz_place_within(const struct pz_place_problem *problem, uint32_t domain);

/* Return the time of the gradient all-reduce and of a batch by the formulas above.  param_bytes are
 * the parameters of the stage that is charged. */
double pz_place_allreduce_s(const struct pz_place_problem *problem, int64_t n_replicas,
                            double param_bytes);
double pz_place_time_s(const struct pz_place_problem *problem, double maxload_s, uint32_t n_stages,
                       int64_t n_replicas, double param_bytes);

/* A number of replicas and the time of a batch with it, or 0 and DBL_MAX if no number has a time
 * below the limit. */
struct pz_replicas {
  int64_t n;
  double time_s;
};

/* Returns the best number of replicas of a pipeline of n_stages stages on n_devices devices, with a
 * time below limit_s. */
struct pz_replicas pz_place_best_replicas(const struct pz_place_problem *problem, double maxload_s,
                                          uint32_t n_stages, int64_t n_devices, double param_bytes,
                                          double limit_s);

/* Time and memory of one stage, computed from its layers by the formulas above.  Given plans and the
 * checker use it.  The solver has its own table, so that each can test the other. */
struct pz_stage_sum {
  double forward_s;  /* includes waiting for inputs from other stages */
  double backward_s; /* like forward_s, with the second forward pass if the stage recomputes */
  double load_s;     /* forward_s + backward_s */
  double param_bytes, act_bytes;
  double in_flight_bytes; /* memory of the other microbatches in flight, (i - 1) K */
  double memory_bytes;
  bool tensor_parallel;
};

/* Returns time and memory of stage k, from 0 at the first.  stage_of[i] is the stage of layer i. */
struct pz_stage_sum pz_stage_sum(const struct pz_place_problem *problem,
                                 const struct pz_place_width *place_width, const uint32_t *stage_of,
                                 uint32_t k, uint32_t n_stages);

/* ---- plans that are given ------------------------------------------------------------------- */

/* How the repeated layers of an expert's plan are divided into stages. */
enum pz_fixed_split {
  PZ_SPLIT_EVEN, /* layer i of L in stage floor(i p / L); layers before and after belong to the stages at the ends */
  PZ_SPLIT_COMPAT /* as the original program divides, off by one: the first L nodes, ceil(L / p) in each stage */
};

/* A given plan, such as an expert's. */
struct pz_fixed {
  int64_t stages; /* number of pipeline stages, or 0 if no plan is given */
  enum pz_fixed_split split;
  int64_t tp, replicas;
  int64_t first, layers; /* id of the first repeated layer, and the number of repeated layers */
};

/* Evaluates a given plan.  Returns NULL, or a sentence that says why the plan is impossible. */
const char *pz_fixed_plan_evaluate(struct pz_call *call, const struct pz_place_problem *problem,
                                   const struct pz_fixed *fixed, struct pz_place_solution *out);

/* ---- the problem of a model ----------------------------------------------------------------- */

/* Returns a problem of one width on this number of devices.  The caller sets layers, memory and
 * microbatches.  The bandwidth is that of the innermost level of the network that joins all devices,
 * and the levels inside it become domains. */
struct pz_place_problem pz_place_problem_on(const struct pz_cluster *net, int64_t devices);

/* The times of a layer's schedule in one direction. */
struct pz_layer_time {
  double s;       /* makespan of the schedule */
  double least_s; /* a lower bound on the makespan of every schedule */
  double link_s;  /* time of the collectives, which may overlap with other operators */
  bool open;      /* the schedule is not proven optimal */
};

/* Returns the layers of a workload as a chain, repeated as in the model, each with an edge to the
 * next.  times[i] are the times of workload->layers[i] by direction.  If `least` is set, layers take
 * the lower bounds.  Names are not copied. */
struct pz_place_width pz_place_layer_chain(struct pz_call *call, const struct pz_workload *workload,
                                           struct pz_layer_time (*times)[2], bool least);

/* ---- solve.c ---------------------------------------------------------------------------------
 *
 * The optimal plan: a dynamic program over stages from the last to the first, for every
 * tensor-parallel degree, after J. Tarnawski, D. Narayanan, A. Phanishayee, "Piper:
 * Multidimensional Planner for DNN Parallelization", NeurIPS 2021. */

/* Finds the fastest plan of at most limit_s (DBL_MAX for no limit).  Returns false if there is none.
 * Which of several equally fast plans is found may depend on the limit.  Raises PZ_BAD_INPUT for a
 * graph with too many cuts into two parts. */
bool pz_place_find_fastest(struct pz_call *call, const struct pz_place_problem *problem,
                           double limit_s, struct pz_place_solution *out);

/* The least memory with which an infeasible problem has a plan, and the stage of this plan that
 * needs the most memory. */
struct pz_fit {
  double hbm_bytes;         /* memory of a device, or DBL_MAX if no amount suffices */
  uint32_t stage, n_stages; /* index of the stage, from 0, and number of stages */
  uint32_t n_layers;        /* number of layers of the stage */
  int64_t first, last;      /* ids of the first and the last layer of the stage */
  double param_bytes, memory_bytes;
};

/* Returns the least memory to a thousandth. */
struct pz_fit pz_place_least_memory(struct pz_call *call, const struct pz_place_problem *problem);

/* Checks a plan by recomputing it from the layers.  Raises PZ_INTERNAL unless its stages, their
 * memory and devices, and the step time are right. */
void pz_place_check(struct pz_call *call, const struct pz_place_problem *problem,
                    const struct pz_place_solution *plan);

/* ---- lower_bound.c ---------------------------------------------------------------------------
 *
 * A lower bound on the step time of any plan of a model, in a fraction of a microsecond.  The numbers of stages that
 * memory rules out do not depend on the speed of a chip and are computed once; afterwards only the times of the layers
 * matter.  Relaxations: stages share the work evenly except for whole repeated layers, the largest stage has its even share
 * of parameters, and every transfer is the smallest between any two layers. */

struct pz_place_bound {
  struct pz_place_problem problem; /* the times of its layers are not used */
  uint32_t least_stages;           /* least number of stages that memory allows */
  uint32_t most_stages;            /* most stages that devices and memory allow, or 0 if none */
  const uint32_t *runs;            /* lengths of the runs of equal layers */
  uint32_t n_runs, main_run;       /* number of runs, and index of the longest */
  double edge_bytes;               /* smallest transfer between two layers */
  double transfer_s;               /* time of that transfer */
  double share;          /* step time / work of a microbatch, if devices share all work evenly */
  double *charged_bytes; /* by number of stages: least parameters of the stage that is charged */
  /* By number of stages: least step time over the time of the slowest stage for a microbatch, that
   * is the microbatches of a replica plus the stages less one. */
  double *rounds;
  const struct pz_place_bound *inner; /* one for each domain of the network */
  uint32_t n_inner;
};

/* Prepares bounds for a problem of one width whose layers are a chain of runs of equal layers, in
 * the whole network and in each domain.  `runs` must outlive *out. */
void pz_place_bound_prepare(struct pz_call *call, const struct pz_place_problem *problem,
                            const uint32_t *runs, uint32_t n_runs, struct pz_place_bound *out);

/* Returns a lower bound on the time of plans whose layers take at least fwd_s and bwd_s (by
 * run).  A result that is not below limit_s may be any such number.  Returns HUGE_VAL if no plan
 * is feasible. */
double pz_place_bound_time_s(const struct pz_place_bound *bound, const double *fwd_s,
                             const double *bwd_s, double limit_s);

#endif
