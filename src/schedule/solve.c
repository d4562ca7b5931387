#include "schedule/solve.h"

#include <string.h>

#include "schedule/bound/root_bound.h"
#include "schedule/bound/two_machine.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/ilp/ilp.h"
#include "schedule/model/checker.h"
#include "schedule/model/context.h"
#include "schedule/tree/best_first.h"
#include "schedule/tree/depth_first.h"
#include "schedule/tree/mode_branching.h"

/* Limits of the rounds, in steps; after the third each is ten times the one before. */
enum { SHORT_LIMIT = 200, FIRST_LIMIT = 1000, SECOND_LIMIT = 40000, THIRD_LIMIT = 400000 };

/* A bound this near to the incumbent, as a part of it, may well be proved its own. */
static const double NEAR = 0.94;

/* Some 10 s of one core: a step takes longer the more tasks there are. */
static int64_t default_steps(uint32_t n) {
  enum { STEPS = 16000000, TASKS = 64 };
  return n <= TASKS ? STEPS : (int64_t)STEPS * TASKS / n;
}

/* Column generation is set up when first used, and kept: its columns are of use later. */
static void generate_columns(struct pz_context *c, struct pz_colgen **colgen, int64_t steps) {
  if (!*colgen) *colgen = pz_colgen_new(c);
  if (!*colgen) return;
  c->head_tail = true;
  pz_colgen_run(*colgen, c, steps);
  pz_colgen_round(*colgen, c, 16);
  pz_bound_tighten(c);
}

/* Local search's share of a round: all if there are too many tasks for tree search.  What is open
 * after the first round mostly needs a proof, what is open after the third a better schedule. */
static int64_t local_search_share(uint32_t n, int64_t limit, int64_t steps) {
  if (n > PZ_TREE_MOST_TASKS) return steps;
  return limit > FIRST_LIMIT && limit <= THIRD_LIMIT ? steps / 40
                                                     : steps / (limit > THIRD_LIMIT ? 4 : 2);
}

/* Best-first search's share of a proof; in long ones mode branching gets more. */
static int64_t best_first_share(int64_t limit, int64_t steps) {
  return limit <= THIRD_LIMIT ? steps * 7 / 8 : steps * 3 / 4;
}

static int64_t next_limit(int64_t limit) {
  int64_t longer = limit < INT64_MAX / 10 ? 10 * limit : limit;
  return limit < FIRST_LIMIT ? FIRST_LIMIT : limit < SECOND_LIMIT ? SECOND_LIMIT : longer;
}

static int64_t capped(int64_t limit, int64_t left) { return limit < left / 2 ? limit : left; }

/* Column generation, then best-first search; mode branching gets what that leaves open.  When local
 * search found nothing in the second round and the gap is small, only a proof is missing, and the
 * third round begins. */
static enum pz_status prove(struct pz_context *c, struct pz_colgen **colgen, bool no_progress,
                            int64_t *limit, int64_t end, struct pz_error *err) {
  generate_columns(c, colgen, c->most_steps - c->steps);
  if (no_progress && *limit == SECOND_LIMIT && c->bound_s > NEAR * c->best_s) {
    *limit = THIRD_LIMIT;
    end = c->steps + capped(*limit, c->most_steps - c->steps);
  }
  enum pz_status status = PZ_OK;
  if (pz_open(c))
    status =
        pz_deferred_search(c, pz_best_first_search, best_first_share(*limit, end - c->steps), err);
  if (status == PZ_OK && pz_open(c))
    status = pz_mode_branching(c, *colgen, end - c->steps + 1, err);
  return status;
}

/* With many modes column generation takes long, and best-first search ends most problems soon
 * without.  Otherwise it gets a share of the steps, best-first search the rest. */
static enum pz_status prove_many_modes(struct pz_context *c, struct pz_colgen **colgen, int64_t end,
                                       struct pz_error *err) {
  c->head_tail = true;
  pz_bound_tighten(c);
  enum pz_status status = pz_deferred_search(c, pz_best_first_search, (end - c->steps) / 40, err);
  if (status == PZ_OK && pz_open(c)) generate_columns(c, colgen, (end - c->steps) / 5);
  if (status == PZ_OK && pz_open(c))
    status = pz_deferred_search(c, pz_best_first_search, end - c->steps, err);
  return status;
}

/* The effort schedule: local search and proof alternate in rounds of increasing limits, so that
 * easy problems end in the shortest. */
static enum pz_status run_effort_schedule(struct pz_context *c, struct pz_colgen **colgen,
                                          struct pz_error *err) {
  enum pz_status status = PZ_OK;
  bool many_modes = c->n_modes > 2 * c->p->n;
  pz_bound_tighten(c);
  for (int64_t limit = SHORT_LIMIT; status == PZ_OK && c->steps < c->most_steps;
       limit = next_limit(limit)) {
    int64_t end = c->steps + capped(limit, c->most_steps - c->steps);
    double before = c->best_s;
    if (limit == SECOND_LIMIT) pz_two_machine_bound(c);
    status = pz_local_search(c, local_search_share(c->p->n, limit, end - c->steps), err);
    pz_bound_tighten(c);
    if (status == PZ_OK && pz_open(c))
      status = limit <= FIRST_LIMIT
                   ? pz_deferred_search(c, pz_depth_first_search, end - c->steps + 1, err)
               : limit == SECOND_LIMIT && many_modes
                   ? prove_many_modes(c, colgen, end, err)
                   : prove(c, colgen, c->best_s >= before, &limit, end, err);
    if (!pz_open(c) || c->p->n > PZ_LOCAL_MOST_TASKS) break;
  }
  return status;
}

static enum pz_status tree_search(struct pz_context *c, const struct pz_solve_options *options,
                                  enum pz_stop *stop, struct pz_error *err) {
  struct pz_colgen *colgen = NULL;
  c->most_steps = options->steps > 0 ? options->steps : default_steps(c->p->n);
  *stop = PZ_STOP_STEPS;
  enum pz_status status = run_effort_schedule(c, &colgen, err);
  pz_colgen_free(colgen);
  return status;
}

/* A solver leaves its incumbent and bound in the context; `stop` is why it left the gap open. */
typedef enum pz_status solver(struct pz_context *c, const struct pz_solve_options *options,
                              enum pz_stop *stop, struct pz_error *err);

static solver *const solvers[] = {
    [PZ_SOLVER_EXACT] = tree_search,
    [PZ_SOLVER_ILP] = pz_ilp_search,
};

enum pz_status pz_schedule_solve(const struct pz_problem *p, const struct pz_solve_options *options,
                                 struct pz_arena *arena, struct pz_schedule *out,
                                 struct pz_error *err) {
  struct pz_context c;
  struct pz_arena work;
  pz_arena_init(&work, arena->mem);
  enum pz_status status = pz_context_init(&c, p, &work, err);
  enum pz_stop stop = PZ_STOP_PROVED;
  if (status == PZ_OK) status = solvers[options->solver](&c, options, &stop, err);
  if (status == PZ_OK) pz_left_shift_incumbent(&c);
  struct pz_slot *slots = status == PZ_OK ? pz_arena_alloc(arena, p->n, sizeof *slots) : NULL;
  if (slots) {
    memcpy(slots, c.best, p->n * sizeof *slots);
    bool proved = !pz_open(&c);
    *out = (struct pz_schedule){.slots = slots,
                                .makespan = c.best_s,
                                .lower_bound = proved ? c.best_s : c.bound_s,
                                .outcome = proved ? PZ_OUTCOME_OPTIMAL : PZ_OUTCOME_FEASIBLE,
                                .stop = proved ? PZ_STOP_PROVED : stop,
                                .steps = c.steps};
    status = pz_schedule_check(p, slots, out->makespan, err);
  } else if (status == PZ_OK) {
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  }
  pz_arena_release(&work);
  return status;
}
