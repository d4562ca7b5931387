/* The effort schedule of the exact solver, and the choice of the solver.
 *
 * pz_schedule_find() alternates local search and proof in rounds of increasing limits, so that easy problems end in the
 * shortest round.  Early rounds prove by depth-first search; later rounds prove by column generation followed by best-first
 * search.  Incumbent, bound and statistics are in the context (model/context.h). */
#include "schedule/solve.h"

#include <string.h>

#include "schedule/bound/root_bound.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/ilp/ilp.h"
#include "schedule/model/context.h"
#include "schedule/tree/deferred.h"

/* Constants marked "tuned", here and in the other files, were tuned on the layers of
 * bench_layers, the reference instances of bench_schedule and the graphs of bench_random. */
enum {
  DEFAULT_STEPS = 16000000, /* about 10 s of one core */
  DEFAULT_STEPS_TASKS = 64, /* with more tasks the default is lower, because steps take longer */
  /* tuned: limits of rounds in steps; later ones are each ten times longer */
  SHORT_ROUND = 200, /* most layers end here */
  FIRST_ROUND = 1000,
  SECOND_ROUND = 40000, /* column generation begins */
  THIRD_ROUND = 400000,
  /* tuned: divisors that give the steps of local search in a round */
  LOCAL_SHARE_EARLY = 2,   /* up to the first round */
  LOCAL_SHARE_MIDDLE = 40, /* up to the third: open problems mostly need a proof */
  LOCAL_SHARE_LATE = 4,    /* later: open problems mostly need a better schedule */
  /* tuned: for problems with many modes */
  MANY_MODES_TRIAL = 40,  /* divisor of the round's steps for a first best-first search */
  MANY_MODES_COLUMNS = 5, /* divisor of the steps that are left for column generation */
  ROUNDING_DRAWS = 16     /* tuned: schedules drawn from a solution of the linear program */
};
/* Tuned: if lower bound / incumbent is above this, the incumbent is probably optimal and only the
 * proof is missing.  The second round then continues with the step limit of the third. */
static const double SMALL_GAP = 0.94;

struct exact_solver {
  struct pz_context *context;
  struct pz_colgen *colgen; /* NULL until it is first used; its columns are kept between rounds */
  int64_t limit;            /* effort limit of the current round in steps */
};

/* ---- one round ------------------------------------------------------------------------------ */

/* Generates columns in about this number of steps, draws schedules from the solution of the
 * linear program, and tightens the bounds. */
static void generate_columns(struct exact_solver *solver, int64_t steps) {
  struct pz_context *context = solver->context;
  if (!solver->colgen) solver->colgen = pz_colgen_new(context);
  if (solver->colgen) {
    pz_colgen_run(solver->colgen, steps);
    pz_colgen_round(solver->colgen, ROUNDING_DRAWS);
  }
  pz_bound_tighten(context);
}

enum tree_search { DEPTH_FIRST, BEST_FIRST };

/* Runs best-first or depth-first search, or the other one if that is switched off. */
static void search_tree(struct pz_context *context, enum tree_search kind, int64_t steps) {
  bool best_first = kind == BEST_FIRST;
  const struct pz_techniques *techniques = context->techniques;
  if (!techniques->depth_first && !techniques->best_first) return;
  if (best_first && !techniques->best_first) best_first = false;
  if (!best_first && !techniques->depth_first) best_first = true;
  pz_deferred_search(context, best_first ? pz_best_first_search : pz_depth_first_search, steps);
}

/* Proves by column generation and best-first search until the step `end`.
 *
 * With many modes, column generation is slow, and best-first search solves most problems without
 * it.  In the second round of such problems, best-first search therefore runs first, and column
 * generation gets only a share of the steps.  In other problems, if local search did not improve
 * the incumbent in the second round and the gap is small, the round continues with the step limit
 * of the third, because another local search would hardly help. */
static void prove(struct exact_solver *solver, bool local_search_improved, int64_t end) {
  struct pz_context *context = solver->context;
  bool second_round = solver->limit == SECOND_ROUND;
  context->derived = context->derived && context->energy_heads; /* else derive heads again */
  context->energy_heads = true;
  if (second_round && context->n_modes > 2 * context->problem->n) {
    pz_bound_tighten(context);
    search_tree(context, BEST_FIRST, (end - context->steps) / MANY_MODES_TRIAL);
    if (pz_open(context)) generate_columns(solver, (end - context->steps) / MANY_MODES_COLUMNS);
  } else {
    generate_columns(solver, context->most_steps - context->steps);
    bool small_gap = context->lower_bound_s > SMALL_GAP * context->incumbent_s;
    if (second_round && !local_search_improved && small_gap) {
      solver->limit = THIRD_ROUND;
      int64_t left = context->most_steps - context->steps;
      end = context->steps + (solver->limit < left / 2 ? solver->limit : left);
    }
  }
  if (pz_open(context)) search_tree(context, BEST_FIRST, end - context->steps);
}

/* Runs local search for its share of the round, and then tries to prove the incumbent.  Problems
 * with too many tasks for tree search get local search alone. */
static void run_round(struct exact_solver *solver) {
  struct pz_context *context = solver->context;
  int64_t limit = solver->limit, left = context->most_steps - context->steps;
  /* A round that would use half of the steps that are left uses all of them. */
  int64_t round_steps = limit < left / 2 ? limit : left, end = context->steps + round_steps;
  int64_t local_steps = round_steps; /* the share of local search */
  double incumbent_before_s = context->incumbent_s;
  if (limit == SECOND_ROUND) pz_two_machine_bound(context);
  if (context->problem->n <= PZ_TREE_MOST_TASKS) {
    if (limit <= FIRST_ROUND)
      local_steps /= LOCAL_SHARE_EARLY;
    else
      local_steps /= limit <= THIRD_ROUND ? LOCAL_SHARE_MIDDLE : LOCAL_SHARE_LATE;
  }
  pz_local_search(context, local_steps);
  pz_bound_tighten(context);
  if (!pz_open(context)) return;
  if (limit <= FIRST_ROUND)
    search_tree(context, DEPTH_FIRST, end - context->steps + 1);
  else
    prove(solver, context->incumbent_s < incumbent_before_s, end);
}

/* ---- all rounds ----------------------------------------------------------------------------- */

/* Finds a schedule by the solver of the options, and checks it.  The exact solver runs rounds of
 * increasing limits until the incumbent is proved optimal or the steps are used up. */
struct pz_schedule pz_schedule_find(struct pz_call *call, const struct pz_problem *problem,
                                    const struct pz_solve_options *options) {
  struct pz_call work = pz_scratch(call);
  struct pz_context *context = pz_context_new(&work, problem);
  enum pz_stop stop = PZ_STOP_STEPS;
  if (options->solver == PZ_SOLVER_ILP) {
    stop = pz_ilp_search(&work, context, options);
  } else {
    int64_t default_steps = DEFAULT_STEPS;
    if (problem->n > DEFAULT_STEPS_TASKS)
      default_steps = (int64_t)DEFAULT_STEPS * DEFAULT_STEPS_TASKS / problem->n;
    context->most_steps = options->steps > 0 ? options->steps : default_steps;
    if (options->techniques) context->techniques = options->techniques;
    struct exact_solver solver = {.context = context, .limit = SHORT_ROUND};
    int64_t steps_before = -1;
    pz_bound_tighten(context);
    while (context->steps < context->most_steps) {
      /* after the third round, a round that does nothing, because of techniques that are switched
       * off, is the last */
      bool idle = context->steps <= steps_before;
      if (idle && solver.limit > THIRD_ROUND) break;
      steps_before = context->steps;
      run_round(&solver);
      if (!pz_open(context) || problem->n > PZ_LOCAL_MOST_TASKS) break;
      if (solver.limit < FIRST_ROUND)
        solver.limit = FIRST_ROUND;
      else if (solver.limit < SECOND_ROUND)
        solver.limit = SECOND_ROUND;
      else if (solver.limit < INT64_MAX / 10)
        solver.limit *= 10;
    }
  }
  pz_left_shift_incumbent(context);
  bool proved = !pz_open(context);
  struct pz_schedule schedule = {
      .slots = pz_copy(call, context->incumbent, problem->n, sizeof *context->incumbent),
      .makespan = context->incumbent_s,
      .lower_bound = proved ? context->incumbent_s : context->lower_bound_s,
      .outcome = proved ? PZ_OUTCOME_OPTIMAL : PZ_OUTCOME_FEASIBLE,
      .stop = proved ? PZ_STOP_PROVED : stop,
      .steps = context->steps};
  memcpy(schedule.statistics.techniques, context->count, sizeof schedule.statistics.techniques);
  pz_schedule_check(&work, problem, schedule.slots, schedule.makespan);
  pz_scratch_end(&work);
  return schedule;
}
