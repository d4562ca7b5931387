/* The scheduling problems that the benchmarks of the scheduler solve. */
#ifndef PZ_BENCH_PROBLEMS_H
#define PZ_BENCH_PROBLEMS_H

#include "unit/schedule_calls.h"

/* Prints the error and ends the program. */
void give_up(const struct pz_error *err);

/* 100 x (makespan - bound) / makespan. */
double gap_percent(const struct pz_schedule *s);
const char *outcome_name(const struct pz_schedule *s);

/* ---- layers --------------------------------------------------------------------------------- */

enum { LAYER_KINDS = 4, LAYER_CHIPS = 2 };
extern const char *const layer_kinds[LAYER_KINDS], *const layer_chips[LAYER_CHIPS];

struct layer_problem {
  int kind, chip;
  const char *model, *layer, *direction;
  int64_t tp;
  uint32_t index; /* in the order of each_layer */
};

/* Every layer of every preset model, forward and backward, at every tensor-parallel degree, on every
 * chip: the original system's two modes with both exclusivities, and all modes, of cores and link
 * alone and with memory bandwidth shared. */
typedef void layer_visitor(void *ctx, const struct layer_problem *l, const struct pz_problem *p);
void each_layer(layer_visitor *visit, void *ctx);

/* ---- random graphs -------------------------------------------------------------------------- */

enum { RANDOM_GRAPHS = 30, RANDOM_CORES = 4, RANDOM_MOST_OPS = 200 };
extern const int32_t random_cores[RANDOM_CORES][2];

/* 30 random layered graphs of so many operators and this width, on one of the numbers of cores. */
struct random_options {
  uint32_t ops, width;
  uint64_t seed;
  int cores;
};
typedef void problem_visitor(void *ctx, const struct pz_problem *p);
void each_random(const struct random_options *o, problem_visitor *visit, void *ctx);

/* ---- reference instances -------------------------------------------------------------------- */

struct reference {
  const char *name, *incumbent, *bound, *ilp_seconds; /* as index.csv has them */
};

/* The instances that index.csv of a folder lists. */
typedef void reference_visitor(void *ctx, const struct reference *r, const struct pz_problem *p);
void each_reference(const char *folder, reference_visitor *visit, void *ctx);

#endif
