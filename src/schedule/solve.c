/* The effort schedule of the exact solver, and the choice of the solver.
 *
 * run_effort_schedule() alternates local search and proof in rounds of increasing limits, so that easy problems end in the
 * shortest round.  Later rounds prove by column generation followed by tree search (prove, prove_many_modes).  Incumbent,
 * bound and statistics are in the context (model/context.h). */
#include "schedule/solve.h"

#include <string.h>

#include "schedule/bound/root_bound.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/ilp/ilp.h"
#include "schedule/model/context.h"
#include "schedule/tree/deferred.h"

/* Constants marked "tuned", here and in the other files, were tuned on the layers of bench_layers, the reference
 * instances of bench_schedule and the graphs of bench_random. */
enum {
  DEFAULT_STEPS = 16000000, /* about 10 s of one core */
  DEFAULT_STEPS_TASKS =
      64, /* the default falls above this number of tasks, because steps take longer */
  /* tuned: limits of rounds in steps; later ones are each ten times longer */
  SHORT_ROUND = 200, /* most layers end here */
  FIRST_ROUND = 1000,
  SECOND_ROUND = 40000, /* column generation begins */
  THIRD_ROUND = 400000,
  /* tuned: local search gets 1/this of the steps of a round */
  LOCAL_SHARE_EARLY = 2,   /* up to the first round */
  LOCAL_SHARE_MIDDLE = 40, /* up to the third: open problems mostly need a proof */
  LOCAL_SHARE_LATE = 4,    /* later: open problems mostly need a better schedule */
  /* tuned: for problems with many modes */
  MANY_MODES_TRIAL = 40,  /* best-first search gets 1/this of the round before column generation */
  MANY_MODES_COLUMNS = 5, /* column generation gets 1/this of what is left */
  ROUNDING_DRAWS = 16     /* tuned: schedules drawn from a solution of the linear program */
};
/* Tuned: if bound / incumbent is above this, only a proof is missing and the third round is skipped. */
static const double SMALL_GAP = 0.94;

static int64_t default_steps(uint32_t n) {
  if (n <= DEFAULT_STEPS_TASKS) return DEFAULT_STEPS;
  return (int64_t)DEFAULT_STEPS * DEFAULT_STEPS_TASKS / n;
}

/* ---- one round ------------------------------------------------------------------------------ */

/* Heads and tails are tightened by energy from now on. */
static void use_head_tail_tightening(struct pz_context *c) {
  c->derived = c->derived && c->head_tail;
  c->head_tail = true;
}

/* Generates columns in about `steps` steps.  The linear program is set up when it is first used, and its columns are used
 * again in later rounds. */
static void generate_columns(struct pz_context *c, struct pz_colgen **colgen, int64_t steps) {
  use_head_tail_tightening(c);
  if (!*colgen) *colgen = pz_colgen_new(c);
  if (*colgen) {
    pz_colgen_run(*colgen, c, steps);
    pz_colgen_round(*colgen, c, ROUNDING_DRAWS);
  }
  pz_bound_tighten(c);
}

/* Runs best-first or depth-first search, or the other one if that is switched off. */
static void search_tree(struct pz_call *call, struct pz_context *c, bool best_first,
                        int64_t steps) {
  if (!c->o->depth_first && !c->o->best_first) return;
  if (best_first && !c->o->best_first) best_first = false;
  if (!best_first && !c->o->depth_first) best_first = true;
  pz_searcher *search = best_first ? pz_best_first_search : pz_depth_first_search;
  pz_must(call, pz_deferred_search(c, search, steps, pz_call_error(call)));
}

/* The steps of a round for local search; all of them if there are too many tasks for tree search. */
static int64_t local_search_share(const struct pz_context *c, int64_t limit, int64_t steps) {
  if (c->p->n > PZ_TREE_MOST_TASKS) return steps;
  if (limit <= FIRST_ROUND) return steps / LOCAL_SHARE_EARLY;
  return steps / (limit <= THIRD_ROUND ? LOCAL_SHARE_MIDDLE : LOCAL_SHARE_LATE);
}

static int64_t next_limit(int64_t limit) {
  if (limit < FIRST_ROUND) return FIRST_ROUND;
  if (limit < SECOND_ROUND) return SECOND_ROUND;
  return limit < INT64_MAX / 10 ? 10 * limit : limit;
}

/* The step at which a round with this limit ends.  A round that would use half of the steps that are left uses all. */
static int64_t round_end(const struct pz_context *c, int64_t limit) {
  int64_t left = c->most_steps - c->steps;
  return c->steps + (limit < left / 2 ? limit : left);
}

/* Runs column generation, then tree search.  If local search found nothing in the second round and the gap is small, only
 * a proof is missing and the third round begins at once. */
static void prove(struct pz_call *call, struct pz_context *c, struct pz_colgen **colgen,
                  bool no_progress, int64_t *limit, int64_t end) {
  generate_columns(c, colgen, c->most_steps - c->steps);
  if (no_progress && *limit == SECOND_ROUND && c->bound_s > SMALL_GAP * c->best_s) {
    *limit = THIRD_ROUND;
    end = round_end(c, *limit);
  }
  if (pz_open(c)) search_tree(call, c, true, end - c->steps);
}

/* With many modes column generation takes long, and best-first search solves most problems soon without it.  Therefore
 * best-first search comes first, and column generation gets only a share of the steps. */
static void prove_many_modes(struct pz_call *call, struct pz_context *c, struct pz_colgen **colgen,
                             int64_t end) {
  use_head_tail_tightening(c);
  pz_bound_tighten(c);
  search_tree(call, c, true, (end - c->steps) / MANY_MODES_TRIAL);
  if (pz_open(c)) generate_columns(c, colgen, (end - c->steps) / MANY_MODES_COLUMNS);
  if (pz_open(c)) search_tree(call, c, true, end - c->steps);
}

static void run_round(struct pz_call *call, struct pz_context *c, struct pz_colgen **colgen,
                      int64_t *limit) {
  int64_t end = round_end(c, *limit);
  double before = c->best_s;
  if (*limit == SECOND_ROUND) pz_two_machine_bound(c);
  int64_t local_steps = local_search_share(c, *limit, end - c->steps);
  pz_local_search(call, c, local_steps);
  pz_bound_tighten(c);
  if (!pz_open(c)) return;
  if (*limit <= FIRST_ROUND)
    search_tree(call, c, false, end - c->steps + 1);
  else if (*limit == SECOND_ROUND && c->n_modes > 2 * c->p->n)
    prove_many_modes(call, c, colgen, end);
  else
    prove(call, c, colgen, c->best_s >= before, limit, end);
}

/* ---- solvers -------------------------------------------------------------------------------- */

/* Runs rounds until the problem is solved or the steps are used.  After the third round, a round that does nothing because
 * of techniques that are switched off is the last. */
static void run_effort_schedule(struct pz_call *call, struct pz_context *c,
                                struct pz_colgen **colgen) {
  int64_t before = -1;
  pz_bound_tighten(c);
  for (int64_t limit = SHORT_ROUND; c->steps < c->most_steps; limit = next_limit(limit)) {
    bool idle = c->steps <= before;
    if (idle && limit > THIRD_ROUND) return;
    before = c->steps;
    run_round(call, c, colgen, &limit);
    if (!pz_open(c) || c->p->n > PZ_LOCAL_MOST_TASKS) return;
  }
}

struct exact_solver {
  struct pz_context *c;
  struct pz_colgen *colgen;
};

static void solve_exactly(struct pz_call *call, void *ctx) {
  struct exact_solver *solver = ctx;
  run_effort_schedule(call, solver->c, &solver->colgen);
}

/* Solves the problem of the context.  Returns why the gap is left open. */
static enum pz_stop run_exact_solver(struct pz_call *call, struct pz_context *c,
                                     const struct pz_solve_options *options) {
  struct exact_solver solver = {.c = c};
  struct pz_error err = {0};
  if (options->techniques) c->o = options->techniques;
  c->most_steps = options->steps > 0 ? options->steps : default_steps(c->p->n);
  enum pz_status status = pz_border(solve_exactly, &solver, &err);
  pz_colgen_free(solver.colgen);
  if (status != PZ_OK) pz_raise_again(call, &err);
  return PZ_STOP_STEPS;
}

struct pz_schedule pz_schedule_find(struct pz_call *call, const struct pz_problem *p,
                                    const struct pz_solve_options *options) {
  struct pz_call work = pz_scratch(call);
  struct pz_context c;
  enum pz_stop stop = PZ_STOP_PROVED;
  pz_must(call, pz_context_init(&c, p, work.arena, pz_call_error(call)));
  if (options->solver == PZ_SOLVER_ILP)
    pz_must(call, pz_ilp_search(&c, options, &stop, pz_call_error(call)));
  else
    stop = run_exact_solver(call, &c, options);
  pz_left_shift_incumbent(&c);
  bool proved = !pz_open(&c);
  struct pz_schedule s = {.slots = pz_copy(call, c.best, p->n, sizeof *c.best),
                          .makespan = c.best_s,
                          .lower_bound = proved ? c.best_s : c.bound_s,
                          .outcome = proved ? PZ_OUTCOME_OPTIMAL : PZ_OUTCOME_FEASIBLE,
                          .stop = proved ? PZ_STOP_PROVED : stop,
                          .steps = c.steps};
  memcpy(s.statistics.by, c.count, sizeof s.statistics.by);
  pz_must(call, pz_schedule_check(p, s.slots, s.makespan, pz_call_error(call)));
  pz_scratch_end(&work);
  return s;
}

/* ---- for callers that return a status ---- */

struct solve_args {
  const struct pz_problem *p;
  const struct pz_solve_options *options;
  struct pz_arena *arena;
  struct pz_schedule *out;
};

static void find_schedule(struct pz_call *call, void *ctx) {
  struct solve_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *x->out = pz_schedule_find(&result, x->p, x->options);
}

enum pz_status pz_schedule_solve(const struct pz_problem *p, const struct pz_solve_options *options,
                                 struct pz_arena *arena, struct pz_schedule *out,
                                 struct pz_error *err) {
  struct solve_args x = {p, options, arena, out};
  return pz_border(find_schedule, &x, err);
}
