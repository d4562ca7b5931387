/* A frontier of plans in one piece without pointers, so that other processes may have made it: plans of a grid or of a
 * shape, how many of each part their stages run, and the layers that each stage computes again. */
#ifndef PZ_PLACE_FRONTIER_H
#define PZ_PLACE_FRONTIER_H

#include "place/plan_parts.h"
#include "place/plan_space.h"

/* ---- as a list, while it is made ------------------------------------------------------------ */

/* A plan of the list: where the counts of its stages are. */
struct pz_listed_plan {
  struct pz_plan plan;
  double params; /* of the largest stage */
  uint32_t first_count, n_counts;
};

struct pz_frontier_list {
  struct pz_vec plans;  /* struct pz_listed_plan: none is never slower than another */
  struct pz_vec counts; /* struct pz_part_counts, of their stages */
};

void pz_frontier_list_init(struct pz_frontier_list *list, struct pz_arena *arena);

/* ---- in one piece --------------------------------------------------------------------------- */

/* What differs from the other plans of a grid; of a shape's frontier the counts alone. */
struct pz_frontier_plan {
  uint32_t first_count, n_counts;
  uint32_t first_stage; /* layers computed again by stage; PZ_NONE: of all alike */
  int32_t vpp, first_layers, last_layers, recompute_layers;
  uint8_t zero, pipeline, recompute;
};

/* Plans follow, then counts (double), then layers of stages (int64_t).  Counts of the parts that a model with so many
 * kinds of layers has (pz_part_term_at). */
struct pz_frontier {
  uint32_t n_plans, n_counts, n_stages, kinds;
};

size_t pz_frontier_bytes(const struct pz_frontier *f);

static inline const struct pz_frontier_plan *pz_frontier_plans(const struct pz_frontier *f) {
  return (const struct pz_frontier_plan *)(f + 1);
}

/* The i-th of all: pz_part_terms(f->kinds) of them. */
static inline const double *pz_frontier_counts(const struct pz_frontier *f, uint32_t i) {
  const double *all = (const double *)(const void *)(pz_frontier_plans(f) + f->n_plans);
  return all + (size_t)i * pz_part_terms(f->kinds);
}

/* The list in one piece of the arena; NULL: out of memory. */
struct pz_frontier *pz_frontier_pack(const struct pz_frontier_list *list, uint32_t kinds,
                                     struct pz_arena *arena);

/* A plan of the grid's frontier; its layers by stage lie in the piece. */
struct pz_plan pz_frontier_unpack(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                                  const struct pz_plan_space *space, const struct pz_step_shape *x,
                                  const struct pz_plan_grid *g);

/* No pipeline of the plan, or of any, is faster when parts take so long; nothing for transfers. */
double pz_frontier_plan_s(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                          const struct pz_part_seconds *t);
double pz_frontier_least_s(const struct pz_frontier *f, const struct pz_part_seconds *t);

#endif
