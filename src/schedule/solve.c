#include "schedule/solve.h"

#include <string.h>

#include "schedule/bound/root_bound.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/ilp/ilp.h"
#include "schedule/model/context.h"
#include "schedule/tree/deferred.h"

/* The effort schedule.  Constants marked "tuned", here and in the other files, were tuned on the
 * layers of bench_layers, the reference instances of bench_schedule and the graphs of
 * bench_random. */
enum {
  DEFAULT_STEPS = 16000000, /* some 10 s of one core */
  DEFAULT_STEPS_TASKS = 64, /* above this many tasks the default falls: steps take longer */
  /* tuned: limits of rounds in steps; later ones are each ten times longer */
  SHORT_ROUND = 200, /* most layers end here */
  FIRST_ROUND = 1000,
  SECOND_ROUND = 40000, /* column generation begins */
  THIRD_ROUND = 400000,
  /* tuned: local search gets 1/this of the steps of a round */
  LOCAL_SHARE_EARLY = 2,   /* up to the first */
  LOCAL_SHARE_MIDDLE = 40, /* up to the third: what is open needs a proof */
  LOCAL_SHARE_LATE = 4,    /* later: what is open needs a better schedule */
  /* tuned: with many modes */
  MANY_MODES_TRIAL = 40,  /* best-first search gets 1/this of the round before column generation */
  MANY_MODES_COLUMNS = 5, /* column generation gets 1/this of what is left */
  ROUNDING_DRAWS = 16     /* tuned: schedules drawn from a solution of the linear program */
};
/* Tuned: bound / incumbent above which only a proof is missing and the third round is skipped. */
static const double SMALL_GAP = 0.94;

/* A step takes longer the more tasks there are. */
static int64_t default_steps(uint32_t n) {
  return n <= DEFAULT_STEPS_TASKS ? DEFAULT_STEPS
                                  : (int64_t)DEFAULT_STEPS * DEFAULT_STEPS_TASKS / n;
}

/* Heads and tails by energy from now on. */
static void use_head_tail(struct pz_context *c) {
  c->derived = c->derived && c->head_tail;
  c->head_tail = true;
}

/* Column generation is set up when first used, and kept: its columns are of use later. */
static void generate_columns(struct pz_context *c, struct pz_colgen **colgen, int64_t steps) {
  use_head_tail(c);
  if (!*colgen) *colgen = pz_colgen_new(c);
  if (*colgen) {
    pz_colgen_run(*colgen, c, steps);
    pz_colgen_round(*colgen, c, ROUNDING_DRAWS);
  }
  pz_bound_tighten(c);
}

/* Tree search by best-first or depth-first search or, where that is switched off, by the other. */
static enum pz_status search_tree(struct pz_context *c, bool best_first, int64_t steps,
                                  struct pz_error *err) {
  if (!c->o->depth_first && !c->o->best_first) return PZ_OK;
  if (best_first ? !c->o->best_first : c->o->depth_first)
    return pz_deferred_search(c, pz_depth_first_search, steps, err);
  return pz_deferred_search(c, pz_best_first_search, steps, err);
}

/* Local search's share of a round: all if there are too many tasks for tree search.  What is open
 * after the second round mostly needs a proof, what is open after the fourth a better schedule. */
static int64_t local_search_share(const struct pz_context *c, int64_t limit, int64_t steps) {
  if (c->p->n > PZ_TREE_MOST_TASKS) return steps;
  return steps / (limit <= FIRST_ROUND   ? LOCAL_SHARE_EARLY
                  : limit <= THIRD_ROUND ? LOCAL_SHARE_MIDDLE
                                         : LOCAL_SHARE_LATE);
}

static int64_t next_limit(int64_t limit) {
  int64_t longer = limit < INT64_MAX / 10 ? 10 * limit : limit;
  return limit < FIRST_ROUND ? FIRST_ROUND : limit < SECOND_ROUND ? SECOND_ROUND : longer;
}

static int64_t capped(int64_t limit, int64_t left) { return limit < left / 2 ? limit : left; }

/* Column generation, then tree search.  When local search found nothing in the third round and the
 * gap is small, only a proof is missing, and the fourth round begins. */
static enum pz_status prove(struct pz_context *c, struct pz_colgen **colgen, bool no_progress,
                            int64_t *limit, int64_t end, struct pz_error *err) {
  generate_columns(c, colgen, c->most_steps - c->steps);
  if (no_progress && *limit == SECOND_ROUND && c->bound_s > SMALL_GAP * c->best_s) {
    *limit = THIRD_ROUND;
    end = c->steps + capped(*limit, c->most_steps - c->steps);
  }
  return pz_open(c) ? search_tree(c, true, end - c->steps, err) : PZ_OK;
}

/* With many modes column generation takes long, and best-first search ends most problems soon
 * without.  Otherwise it gets a share of the steps, best-first search the rest. */
static enum pz_status prove_many_modes(struct pz_context *c, struct pz_colgen **colgen, int64_t end,
                                       struct pz_error *err) {
  use_head_tail(c);
  pz_bound_tighten(c);
  enum pz_status status = search_tree(c, true, (end - c->steps) / MANY_MODES_TRIAL, err);
  if (status == PZ_OK && pz_open(c))
    generate_columns(c, colgen, (end - c->steps) / MANY_MODES_COLUMNS);
  if (status == PZ_OK && pz_open(c)) status = search_tree(c, true, end - c->steps, err);
  return status;
}

/* One round, up to `end`: local search, then a proof. */
static enum pz_status run_round(struct pz_context *c, struct pz_colgen **colgen, int64_t *limit,
                                struct pz_error *err) {
  int64_t end = c->steps + capped(*limit, c->most_steps - c->steps);
  double before = c->best_s;
  if (*limit == SECOND_ROUND) pz_two_machine_bound(c);
  enum pz_status status = pz_local_search(c, local_search_share(c, *limit, end - c->steps), err);
  pz_bound_tighten(c);
  if (status != PZ_OK || !pz_open(c)) return status;
  if (*limit <= FIRST_ROUND) return search_tree(c, false, end - c->steps + 1, err);
  if (*limit == SECOND_ROUND && c->n_modes > 2 * c->p->n)
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
  for (int64_t limit = SHORT_ROUND, before = -1;
       status == PZ_OK && c->steps < c->most_steps && (c->steps > before || limit <= THIRD_ROUND);
       limit = next_limit(limit)) {
    before = c->steps;
    status = run_round(c, colgen, &limit, err);
    if (!pz_open(c) || c->p->n > PZ_LOCAL_MOST_TASKS) break;
  }
  return status;
}

static enum pz_status exact_solve(struct pz_context *c, const struct pz_solve_options *options,
                                  enum pz_stop *stop, struct pz_error *err) {
  struct pz_colgen *colgen = NULL;
  if (options->techniques) c->o = options->techniques;
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
