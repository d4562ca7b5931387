#include "schedule/solve.h"

#include <string.h>

#include "schedule/bound/root_bound.h"
#include "schedule/bound/two_machine.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/ilp/ilp.h"
#include "schedule/model/checker.h"
#include "schedule/model/context.h"
#include "schedule/tree/branching.h"
#include "schedule/tree/tree_search.h"

/* A step takes longer the more tasks there are. */
static int64_t default_steps(const struct pz_tuning *o, uint32_t n) {
  return n <= o->default_steps_tasks ? o->default_steps
                                     : o->default_steps * o->default_steps_tasks / n;
}

/* Column generation is set up when first used, and kept: its columns are of use later. */
static void generate_columns(struct pz_context *c, struct pz_colgen **colgen, int64_t steps) {
  c->head_tail = true;
  if (!*colgen) *colgen = pz_colgen_new(c);
  if (*colgen) {
    pz_colgen_run(*colgen, c, steps);
    pz_colgen_round(*colgen, c, c->o->rounding_draws);
  }
  pz_bound_tighten(c);
}

/* Local search's share of a round: all if there are too many tasks for tree search.  What is open
 * after the second round mostly needs a proof, what is open after the fourth a better schedule. */
static int64_t local_search_share(const struct pz_context *c, int64_t limit, int64_t steps) {
  const struct pz_tuning *o = c->o;
  if (c->p->n > PZ_TREE_MOST_TASKS) return steps;
  return steps / (limit <= o->first_round   ? o->local_share_early
                  : limit <= o->third_round ? o->local_share_middle
                                            : o->local_share_late);
}

static int64_t next_limit(const struct pz_tuning *o, int64_t limit) {
  int64_t longer = limit < INT64_MAX / 10 ? 10 * limit : limit;
  return limit < o->first_round    ? o->first_round
         : limit < o->second_round ? o->second_round
                                   : longer;
}

static int64_t capped(int64_t limit, int64_t left) { return limit < left / 2 ? limit : left; }

/* Column generation, then tree search.  When local search found nothing in the third round and the
 * gap is small, only a proof is missing, and the fourth round begins. */
static enum pz_status prove(struct pz_context *c, struct pz_colgen **colgen, bool no_progress,
                            int64_t *limit, int64_t end, struct pz_error *err) {
  const struct pz_tuning *o = c->o;
  generate_columns(c, colgen, c->most_steps - c->steps);
  if (no_progress && *limit == o->second_round && c->bound_s > o->small_gap * c->best_s) {
    *limit = o->third_round;
    end = c->steps + capped(*limit, c->most_steps - c->steps);
  }
  return pz_open(c) ? pz_tree_search(c, PZ_BEST_FIRST, end - c->steps, err) : PZ_OK;
}

/* With many modes column generation takes long, and best-first search ends most problems soon
 * without.  Otherwise it gets a share of the steps, best-first search the rest. */
static enum pz_status prove_many_modes(struct pz_context *c, struct pz_colgen **colgen, int64_t end,
                                       struct pz_error *err) {
  const struct pz_tuning *o = c->o;
  c->head_tail = true;
  pz_bound_tighten(c);
  enum pz_status status =
      pz_tree_search(c, PZ_BEST_FIRST, (end - c->steps) / o->many_modes_trial, err);
  if (status == PZ_OK && pz_open(c))
    generate_columns(c, colgen, (end - c->steps) / o->many_modes_columns);
  if (status == PZ_OK && pz_open(c)) status = pz_tree_search(c, PZ_BEST_FIRST, end - c->steps, err);
  return status;
}

/* One round, up to `end`: local search, then a proof. */
static enum pz_status run_round(struct pz_context *c, struct pz_colgen **colgen, int64_t *limit,
                                struct pz_error *err) {
  const struct pz_tuning *o = c->o;
  int64_t end = c->steps + capped(*limit, c->most_steps - c->steps);
  double before = c->best_s;
  if (*limit == o->second_round) pz_two_machine_bound(c);
  enum pz_status status = pz_local_search(c, local_search_share(c, *limit, end - c->steps), err);
  pz_bound_tighten(c);
  if (status != PZ_OK || !pz_open(c)) return status;
  if (*limit <= o->first_round) return pz_tree_search(c, PZ_DEPTH_FIRST, end - c->steps + 1, err);
  if (*limit == o->second_round && c->n_modes > 2 * c->p->n)
    return prove_many_modes(c, colgen, end, err);
  return prove(c, colgen, c->best_s >= before, limit, end, err);
}

/* The effort schedule: local search and proof alternate in rounds of increasing limits, so that
 * easy problems end in the shortest.  A round that can do nothing, for what is switched off, is the
 * last. */
static enum pz_status run_effort_schedule(struct pz_context *c, struct pz_colgen **colgen,
                                          struct pz_error *err) {
  enum pz_status status = PZ_OK;
  pz_bound_tighten(c);
  for (int64_t limit = c->o->short_round, before = -1;
       status == PZ_OK && c->steps < c->most_steps &&
       (c->steps > before || limit <= c->o->third_round);
       limit = next_limit(c->o, limit)) {
    before = c->steps;
    status = run_round(c, colgen, &limit, err);
    if (!pz_open(c) || c->p->n > PZ_LOCAL_MOST_TASKS) break;
  }
  return status;
}

static enum pz_status exact_solve(struct pz_context *c, const struct pz_solve_options *options,
                                  enum pz_stop *stop, struct pz_error *err) {
  struct pz_colgen *colgen = NULL;
  if (options->tuning) c->o = options->tuning;
  c->most_steps = options->steps > 0 ? options->steps : default_steps(c->o, c->p->n);
  *stop = PZ_STOP_STEPS;
  enum pz_status status = pz_tuning_check(c->o, err);
  if (status == PZ_OK) status = run_effort_schedule(c, &colgen, err);
  pz_colgen_free(colgen);
  return status;
}

/* A solver leaves its incumbent and bound in the context; `stop` is why it left the gap open. */
typedef enum pz_status solver(struct pz_context *c, const struct pz_solve_options *options,
                              enum pz_stop *stop, struct pz_error *err);

static solver *const solvers[] = {
    [PZ_SOLVER_EXACT] = exact_solve,
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
    memcpy(out->statistics.by, c.count, sizeof out->statistics.by);
    status = pz_schedule_check(p, slots, out->makespan, err);
  } else if (status == PZ_OK) {
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  }
  pz_arena_release(&work);
  return status;
}
