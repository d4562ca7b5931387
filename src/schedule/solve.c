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

/* Steps; those after the third are ten times longer each. */
enum { SHORT_TURN = 200, FIRST_TURN = 1000, SECOND_TURN = 40000, THIRD_TURN = 400000 };

/* A bound this near to the incumbent, as a part of it, may well be proved its own. */
static const double NEAR = 0.94;

/* Some 10 s of one core: a step takes longer the more tasks there are. */
static int64_t default_steps(uint32_t n) {
  enum { STEPS = 16000000, TASKS = 64 };
  return n <= TASKS ? STEPS : (int64_t)STEPS * TASKS / n;
}

/* The pricer is opened when it is first wanted, and kept: packs found are of use later. */
static void price(struct pz_context *c, struct pz_pricer **pricer, int64_t steps) {
  if (!*pricer) *pricer = pz_pricer_open(c);
  if (!*pricer) return;
  c->windows = true;
  pz_pricer_run(*pricer, c, steps);
  pz_pricer_round(*pricer, c, 16);
  pz_bound_tighten(c);
}

/* The local search's part of a turn: all where there are too many tasks for the others.  What is
 * open after the first turn mostly wants a proof, what is open after the third a better schedule.
 */
static int64_t local_part(uint32_t n, int64_t turn, int64_t steps) {
  if (n > PZ_EXACT_MOST_TASKS) return steps;
  return turn > FIRST_TURN && turn <= THIRD_TURN ? steps / 40 : steps / (turn > THIRD_TURN ? 4 : 2);
}

/* The part of a proof that best first gets; long ones want more of branching. */
static int64_t best_first_part(int64_t turn, int64_t steps) {
  return turn <= THIRD_TURN ? steps * 7 / 8 : steps * 3 / 4;
}

static int64_t next_turn(int64_t turn) {
  int64_t longer = turn < INT64_MAX / 10 ? 10 * turn : turn;
  return turn < FIRST_TURN ? FIRST_TURN : turn < SECOND_TURN ? SECOND_TURN : longer;
}

static int64_t shorter(int64_t turn, int64_t left) { return turn < left / 2 ? turn : left; }

/* Prices, and the searches that prove: best first; what that does not end is left to branching over
 * modes.  When local search found nothing in the second turn and the bound is near, a proof is all
 * that is wanted, and the third begins. */
static enum pz_status prove(struct pz_context *c, struct pz_pricer **pricer, bool idle,
                            int64_t *turn, int64_t end, struct pz_error *err) {
  price(c, pricer, c->most_steps - c->steps);
  if (idle && *turn == SECOND_TURN && c->bound_s > NEAR * c->best_s) {
    *turn = THIRD_TURN;
    end = c->steps + shorter(*turn, c->most_steps - c->steps);
  }
  enum pz_status status = PZ_OK;
  if (pz_open(c))
    status = pz_late_search(c, pz_frontier_search, best_first_part(*turn, end - c->steps), err);
  if (status == PZ_OK && pz_open(c)) status = pz_branch(c, *pricer, end - c->steps + 1, err);
  return status;
}

/* With many modes the dual values may take long, and best first ends most problems soon without.
 * What it does not: they get a part of the steps, best first the rest. */
static enum pz_status survey(struct pz_context *c, struct pz_pricer **pricer, int64_t end,
                             struct pz_error *err) {
  c->windows = true;
  pz_bound_tighten(c);
  enum pz_status status = pz_late_search(c, pz_frontier_search, (end - c->steps) / 40, err);
  if (status == PZ_OK && pz_open(c)) price(c, pricer, (end - c->steps) / 5);
  if (status == PZ_OK && pz_open(c))
    status = pz_late_search(c, pz_frontier_search, end - c->steps, err);
  return status;
}

/* Local and exact search by turns, each turn longer: easy problems end in the shortest. */
static enum pz_status take_turns(struct pz_context *c, struct pz_pricer **pricer,
                                 struct pz_error *err) {
  enum pz_status status = PZ_OK;
  bool many = c->n_modes > 2 * c->p->n;
  pz_bound_tighten(c);
  for (int64_t turn = SHORT_TURN; status == PZ_OK && c->steps < c->most_steps;
       turn = next_turn(turn)) {
    int64_t end = c->steps + shorter(turn, c->most_steps - c->steps);
    double before = c->best_s;
    if (turn == SECOND_TURN) pz_halves_raise(c);
    status = pz_local_search(c, local_part(c->p->n, turn, end - c->steps), err);
    pz_bound_tighten(c);
    if (status == PZ_OK && pz_open(c))
      status = turn <= FIRST_TURN ? pz_late_search(c, pz_exact_search, end - c->steps + 1, err)
               : turn == SECOND_TURN && many
                   ? survey(c, pricer, end, err)
                   : prove(c, pricer, c->best_s >= before, &turn, end, err);
    if (!pz_open(c) || c->p->n > PZ_LOCAL_MOST_TASKS) break;
  }
  return status;
}

static enum pz_status exact_search(struct pz_context *c, const struct pz_solve_options *options,
                                   enum pz_stop *stop, struct pz_error *err) {
  struct pz_pricer *pricer = NULL;
  c->most_steps = options->steps > 0 ? options->steps : default_steps(c->p->n);
  *stop = PZ_STOP_STEPS;
  enum pz_status status = take_turns(c, &pricer, err);
  pz_pricer_close(pricer);
  return status;
}

/* A solver leaves its incumbent and bound in the context; `stop` is why it left the gap open. */
typedef enum pz_status solver(struct pz_context *c, const struct pz_solve_options *options,
                              enum pz_stop *stop, struct pz_error *err);

static solver *const solvers[] = {
    [PZ_SOLVER_EXACT] = exact_search,
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
  if (status == PZ_OK) pz_local_settle(&c);
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
