#include "schedule/solve.h"

#include <string.h>

#include "schedule/checker.h"
#include "schedule/context.h"
#include "schedule/ilp.h"

/* Some 20 s of one core, at most. */
static const int64_t DEFAULT_STEPS = 20000000;

/* Short tasks that nothing waits for: they mostly fit somewhere beside the others. */
static uint32_t mark_late(const struct pz_context *c, bool *late) {
  uint32_t n = 0;
  for (uint32_t i = c->p->n; i-- > 0;) {
    const struct pz_task *t = &c->p->tasks[i];
    late[i] = c->least_s[i] > 0 && c->least_s[i] < 0.03 * c->best_s &&
              c->head_s[i] + c->least_s[i] < 0.9 * c->bound_s;
    for (uint32_t k = 0; k < t->n_succ; k++) late[i] = late[i] && late[t->succ[k]];
    n += late[i];
  }
  return n;
}

/* First without late tasks, as long as those that do not fit are few, then with all. */
static enum pz_status prove(struct pz_context *c, int64_t steps, struct pz_error *err) {
  bool *late = pz_arena_alloc(c->arena, c->p->n, sizeof *late);
  if (!late) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  enum pz_status status = PZ_OK;
  int64_t end = c->steps + steps;
  for (uint32_t n = mark_late(c, late), left = 0; n && status == PZ_OK && pz_open(c); n = left) {
    status = pz_exact_search(c, (end - c->steps) / 2, late, err);
    pz_bound_tighten(c);
    left = 0;
    for (uint32_t i = 0; i < c->p->n; i++) left += late[i];
    if (left == n) break;
  }
  if (status == PZ_OK && pz_open(c)) status = pz_exact_search(c, end - c->steps, NULL, err);
  return status;
}

/* Local and exact search by turns, each turn ten times longer: easy problems end in the first, hard
 * ones get most of their effort where it helps, in the local search.  Between them relaxations. */
static enum pz_status exact_search(struct pz_context *c, const struct pz_solve_options *options,
                                   enum pz_stop *stop, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  c->most_steps = options->steps > 0 ? options->steps : DEFAULT_STEPS;
  *stop = PZ_STOP_STEPS;
  pz_bound_tighten(c);
  for (int64_t turn = 2000; status == PZ_OK && c->steps < c->most_steps; turn *= 10) {
    int64_t left = c->most_steps - c->steps, part = turn < left / 2 ? turn : left;
    status = pz_local_search(c, part / 2, err);
    pz_bound_tighten(c);
    if (status == PZ_OK && turn > 2000 && pz_open(c)) pz_price(c, part / 4);
    if (status == PZ_OK && turn > 200000 && pz_open(c)) pz_relax_integer(c, (int)(turn / 1000));
    if (status == PZ_OK && pz_open(c)) status = prove(c, part / 2 + 1, err);
    if (!pz_open(c) || c->p->n > PZ_EXACT_MOST_TASKS) break;
  }
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
