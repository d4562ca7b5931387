/* Regret of idle points, the choice whether to branch on them, and the bound of busy periods
 * (idle_point.h). */
#include "schedule/tree/idle_point.h"

#include <float.h>
#include <string.h>

#include "schedule/tree/partial_bound.h"

/* The number of idle points that are stored. */
enum { MAX_PAST = 4096 };

/* Tuned: tasks must be this much slower in busy periods than alone for their bound to be tried. */
static const double BUSY_SLOW = 2;

struct past_idle_point {
  struct pz_bits done; /* tasks that are finished */
  double regret_s;
};

/* ---- regret ---------------------------------------------------------------------------------- */

/* Returns whether an idle point is dominated: one that was visited before has no more tasks done and
 * no more regret.  Otherwise stores it. */
bool pz_idle_dominated(struct pz_call *call, struct pz_idle *idle, const struct pz_partial *node) {
  struct pz_context *context = idle->tree->context;
  struct pz_technique_count *count = &context->count[PZ_T_idle_points];
  struct past_idle_point current = {node->started, node->now - node->serial};
  double slack = 1e-12 * context->scale;
  count->calls++;
  context->steps += idle->past.n / PZ_LOOKS_PER_STEP;
  for (uint32_t k = 0; k < idle->past.n; k++) {
    const struct past_idle_point *past = pz_vec_at(&idle->past, struct past_idle_point, k);
    if (past->regret_s <= current.regret_s + slack &&
        pz_branching_within(idle->tree, &past->done, &current.done)) {
      count->prunes++;
      return true;
    }
  }
  if (idle->past.n < MAX_PAST) pz_append(call, &idle->past, &current);
  return false;
}

/* ---- which modes may run in busy periods ----------------------------------------------------- */

/* Returns whether no other task of positive duration fits beside task i in this mode.  least[k] has
 * the least use of each resource by task k. */
static bool leaves_no_capacity(const struct pz_branching *tree, const struct pz_mode *least,
                               uint32_t i, const struct pz_mode *mode) {
  int32_t residual[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) residual[r] = tree->problem->capacity[r] - mode->use[r];
  for (uint32_t k = 0; k < tree->problem->n; k++) {
    bool incompatible =
        k == i || pz_bits_has(&tree->predecessors[i], k) || pz_bits_has(&tree->successors[i], k);
    if (!incompatible && tree->context->least_s[k] > 0 && pz_mode_fits(residual, &least[k]))
      return false;
  }
  return true;
}

/* Prepares the search for idle points (moments at which nothing runs): finds the modes in which a task
 * leaves capacity for others and so may join a busy period, and decides whether to branch on idle points
 * and to bound busy periods.  Idle points are frequent if most tasks leave no capacity for others in their
 * fastest mode.  Busy periods are slow if the modes that join them take much longer than the fastest. */
void pz_idle_init(struct pz_call *call, struct pz_idle *idle, struct pz_branching *tree) {
  const struct pz_context *context = tree->context;
  const struct pz_problem *problem = tree->problem;
  struct pz_mode *least = pz_alloc(call, problem->n, sizeof *least);
  uint32_t n = 0, n_alone = 0; /* tasks that take time, and those that run alone if fastest */
  double joined_s = 0, fastest_s = 0; /* times of joining tasks, in busy periods and if fastest */
  *idle = (struct pz_idle){.tree = tree};
  idle->joins = pz_alloc(call, context->n_modes, sizeof *idle->joins);
  pz_vec_init(&idle->past, call->arena, sizeof(struct past_idle_point));
  /* the least use of each resource by a task's modes, which shows whether it may fit beside others */
  for (uint32_t i = 0; i < problem->n; i++) {
    memcpy(least[i].use, problem->capacity, sizeof least[i].use);
    for (uint32_t m = 0; m < problem->tasks[i].n_modes; m++)
      for (int r = 0; r < PZ_RESOURCES && !context->eliminated[context->first_mode[i] + m]; r++)
        if (problem->tasks[i].modes[m].use[r] < least[i].use[r])
          least[i].use[r] = problem->tasks[i].modes[m].use[r];
  }
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    double shortest_joining = DBL_MAX; /* duration of the fastest mode that leaves capacity */
    if (task->n_succ) pz_bits_set(&idle->inner, i);
    if (context->least_s[i] <= 0) continue;
    for (uint32_t m = 0; m < task->n_modes; m++) {
      uint32_t mode = context->first_mode[i] + m;
      idle->joins[mode] =
          !context->eliminated[mode] && !leaves_no_capacity(tree, least, i, &task->modes[m]);
      if (idle->joins[mode]) shortest_joining = pz_fmin(shortest_joining, task->modes[m].duration);
    }
    n++;
    n_alone += leaves_no_capacity(tree, least, i, &task->modes[pz_partial_fastest(tree, i)]);
    bool joins = shortest_joining < DBL_MAX;
    if (!joins) continue;
    pz_bits_set(&idle->joining, i);
    joined_s += shortest_joining;
    fastest_s += context->least_s[i];
  }
  bool most_run_alone = 2 * n_alone > n;
  idle->frequent = context->techniques->idle_points && most_run_alone && !tree->milestones_use;
  idle->period_bound_pays =
      idle->frequent && context->techniques->busy_period_bound && joined_s > BUSY_SLOW * fastest_s;
}

/* ---- busy periods ---------------------------------------------------------------------------- */

/* The tasks that may still run in the current busy period. */
struct busy_period {
  struct pz_residual residual;
  double end[PZ_TREE_MOST_TASKS];    /* by task: its earliest end in the busy period */
  uint32_t list[PZ_TREE_MOST_TASKS]; /* tasks that end after all running tasks, by end */
  uint32_t n;
  double serial;         /* time of the tasks done by the last running end, if each had run alone */
  double remaining_dual; /* dual value of the other tasks */
};

/* Sets the earliest ends, in modes that leave capacity free, of all tasks that are not started, and
 * lists those that end after all running ones. */
static void find_busy_ends(const struct pz_idle *idle, const struct pz_partial *node,
                           struct busy_period *period) {
  const struct pz_branching *tree = idle->tree;
  const struct pz_context *context = tree->context;
  pz_residual_find(tree, node, &period->residual);
  double last_running_end = period->residual.time[period->residual.n];
  period->n = 0;
  period->serial = node->serial;
  period->remaining_dual = 0;
  for (uint32_t i = 0; i < node->n_running; i++)
    period->end[node->running[i].task] = node->running[i].end;
  PZ_EACH_BIT(i, tree->words, tree->all.words[w] & ~node->started.words[w]) {
    const struct pz_task *task = &tree->problem->tasks[i];
    double ready = node->now, end = DBL_MAX;
    for (uint32_t k = 0; k < task->n_pred; k++)
      if (!pz_bits_has(&node->finished, task->pred[k]))
        ready = pz_fmax(ready, period->end[task->pred[k]]);
    bool is_milestone = context->least_s[i] <= 0;
    for (uint32_t m = 0; m < task->n_modes && !is_milestone && ready < context->incumbent_s; m++) {
      if (!idle->joins[context->first_mode[i] + m]) continue;
      double start = pz_fmax(ready, pz_residual_earliest(&period->residual, &task->modes[m]));
      end = pz_fmin(end, start + task->modes[m].duration);
    }
    if (is_milestone) end = ready;
    uint32_t *list = period->list;
    period->end[i] = end;
    if (end <= last_running_end) { /* can be done by the earliest end of the busy period */
      period->serial += context->least_s[i];
      continue;
    }
    period->remaining_dual += context->duals.least[i];
    if (end >= context->incumbent_s) continue; /* no better schedule runs it in this busy period */
    uint32_t at = period->n++;
    for (; at > 0 && period->end[list[at - 1]] > end; at--) list[at] = list[at - 1];
    list[at] = i;
  }
}

/* Returns a lower bound on the completions of a node in a busy period, which ends when all tasks that
 * were started in it have ended.  For every possible end, tasks that can be done by then count as
 * done, and the others take at least their dual values after it.  Busy periods that save no time
 * over running their tasks alone are left out. */
double pz_busy_period_bound(const struct pz_idle *idle, const struct pz_partial *node,
                            double regret_s) {
  const struct pz_context *context = idle->tree->context;
  struct pz_technique_count *count = &context->count[PZ_T_busy_period_bound];
  struct busy_period period;
  double bound = DBL_MAX;
  find_busy_ends(idle, node, &period);
  double end = period.residual.time[period.residual.n];
  for (uint32_t k = 0; end < bound; k++) { /* `end` is a possible end of the busy period */
    bool saves_time = end - period.serial < regret_s;
    if (saves_time) bound = pz_fmin(bound, end + period.remaining_dual);
    if (k == period.n) break;
    end = period.end[period.list[k]];
    period.serial += context->least_s[period.list[k]];
    period.remaining_dual -= context->duals.least[period.list[k]];
  }
  count->calls++;
  count->prunes += !pz_better(context, bound, context->incumbent_s);
  return bound;
}
