/* The costs of all possible stages, at one tensor-parallel degree.
 *
 * A cut is a set of layers closed under predecessors (a downset); a stage is the difference of two.
 * On a chain, cuts are prefixes. */
#ifndef PZ_PARTITION_STAGES_H
#define PZ_PARTITION_STAGES_H

#include "partition/problem.h"

/* From a cut to a later one. */
struct pz_stage_cost {
  double stash_s, recompute_s; /* FW + BW, FW + RB */
  double work_s;               /* forward and backward alone: grows with the stage */
  double recompute_work_s;     /* the same when it is not the last: with the forward again */
  double param_bytes, act_bytes, in_bytes;
  bool tensor_parallel;
};

struct pz_stages {
  const struct pz_place_width *w;
  const uint64_t *cuts;       /* sets of layers, `words` each; NULL: prefixes */
  struct pz_stage_cost *cost; /* [from * n_cuts + to] */
  uint32_t n_cuts;            /* from the empty one to the whole, each after those within it */
  uint32_t words;
  struct pz_edge_lists {
    uint32_t *first, *edge; /* edges of layer i: edge[first[i]] .. edge[first[i + 1]] */
  } in, out;
};

enum { PZ_STAGES_MOST_CUTS = 1024 };

/* Errors: no memory; a graph with more than PZ_STAGES_MOST_CUTS cuts. */
PZ_NODISCARD enum pz_status pz_stages_make(const struct pz_place_problem *p,
                                           const struct pz_place_width *w, struct pz_arena *arena,
                                           struct pz_stages *out, struct pz_error *err);

/* Is there a stage from one cut to the other? */
bool pz_stages_has(const struct pz_stages *s, uint32_t from, uint32_t to);

/* Its layers into `list`, which has room for all; returns how many. */
uint32_t pz_stages_layers(const struct pz_stages *s, uint32_t from, uint32_t to, uint32_t *list);

/* Of the i-th stage from the end. */
static inline double pz_stage_load_s(const struct pz_place_problem *p,
                                     const struct pz_stage_cost *c, uint32_t i) {
  return p->recompute && i > 1 ? c->recompute_s : c->stash_s;
}

static inline double pz_stage_memory(const struct pz_place_problem *p,
                                     const struct pz_stage_cost *c, uint32_t i) {
  double kept = p->recompute ? c->in_bytes : c->act_bytes;
  return p->state * c->param_bytes + c->act_bytes + (double)(i - 1) * kept;
}

#endif
