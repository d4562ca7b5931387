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
  double fwd_s, bwd_s;
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

enum { PZ_PLACE_MOST_DOMAINS = 8 };

struct pz_place_problem {
  double hbm_bytes, bytes_per_s;
  int64_t devices, microbatches;
  struct pz_place_domain domains[PZ_PLACE_MOST_DOMAINS]; /* smaller than `devices`, ascending */
  uint32_t n_domains;
  double state; /* bytes held for a byte of parameters: 2, with Adam 3 */
  bool recompute;
  const struct pz_place_width *widths;
  uint32_t n_widths;
};

enum { PZ_PLACE_MOST_LAYERS = 1024, PZ_PLACE_MOST_WIDTHS = 64 };

/* Put layers and edges (between indices of layers) into topological order.  Errors: a cycle. */
PZ_NODISCARD enum pz_status pz_place_order(struct pz_arena *arena, struct pz_place_width *w,
                                           const char *name, struct pz_error *err);

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

/* The smallest domain for so many devices. */
uint32_t pz_place_domain(const struct pz_place_problem *p, int64_t devices);

/* The time of a batch, and its gradient all-reduce. */
double pz_place_allreduce_s(const struct pz_place_problem *p, int64_t d, double param_bytes);
double pz_place_time_s(const struct pz_place_problem *p, double maxload_s, uint32_t n_stages,
                       int64_t d, double param_bytes);

/* The best number of replicas of s stages that take n_devices together: the time, DBL_MAX if none
 * is below limit_s. */
double pz_place_best_d(const struct pz_place_problem *p, double maxload_s, uint32_t n_stages,
                       int64_t n_devices, double param_bytes, double limit_s, int64_t *d);

#endif
