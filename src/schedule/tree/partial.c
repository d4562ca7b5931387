/* Moves between partial schedules, and rules that prune moves (partial.h): starts that could
 * have happened earlier, waits during which another task could run, and permutations of
 * interchangeable tasks. */
#include "schedule/tree/partial.h"

#include <float.h>
#include <string.h>

/* ---- dominance ------------------------------------------------------------------------------- */

/* Returns whether `by` dominates `a`: every running task of `by` runs in `a` too, ends no earlier
 * there, and uses no less. */
bool pz_partial_dominated(const struct pz_branching *tree, const struct pz_going *a,
                          const struct pz_going *by) {
  if (by->next_start > a->next_start + 1e-12 * tree->context->scale) return false;
  for (uint32_t i = 0; i < by->n; i++) {
    const struct pz_running *running = &by->running[i], *same = NULL;
    if (running->end <= a->next_start) continue; /* it ends before anything can start in `a` */
    for (uint32_t k = 0; k < a->n && !same; k++)
      if (a->running[k].task == running->task) same = &a->running[k];
    if (!same || running->end > same->end) return false;
    if (running->mode == same->mode) continue;
    const struct pz_mode *modes = tree->problem->tasks[same->task].modes;
    if (!pz_mode_fits(modes[same->mode].use, &modes[running->mode])) return false;
  }
  return true;
}

/* ---- ready tasks ----------------------------------------------------------------------------- */

/* Returns whether the task is ready, and no ready task that is interchangeable with it comes first. */
static bool is_eligible(const struct pz_branching *tree, const struct pz_partial *node,
                        uint32_t i) {
  const struct pz_bits *earlier = &tree->interchangeable[i];
  uint64_t ready_earlier = 0;
  if (!pz_bits_has(&node->ready, i)) return false;
  for (int w = 0; w < tree->words; w++) ready_earlier |= earlier->words[w] & node->ready.words[w];
  return !ready_earlier;
}

/* Sets the ready tasks from the started and finished ones. */
static void find_ready(const struct pz_branching *tree, struct pz_partial *node) {
  node->ready = (struct pz_bits){{0}};
  for (uint32_t i = 0; i < tree->problem->n; i++)
    if (!pz_bits_has(&node->started, i) &&
        pz_branching_within(tree, &tree->predecessors[i], &node->finished))
      pz_bits_set(&node->ready, i);
}

/* Marks a task as finished, and the successors whose predecessors are all finished as ready. */
static void finish_task(const struct pz_branching *tree, struct pz_partial *node, uint32_t i) {
  const struct pz_task *task = &tree->problem->tasks[i];
  pz_bits_set(&node->finished, i);
  for (uint32_t k = 0; k < task->n_succ; k++) {
    uint32_t next = task->succ[k];
    if (pz_branching_within(tree, &tree->predecessors[next], &node->finished) &&
        !pz_bits_has(&node->started, next)) /* deferred tasks count as started */
      pz_bits_set(&node->ready, next);
  }
}

/* Starts and finishes all milestones (tasks with a mode of zero duration) that fit now, because it
 * is never better to start one later. */
static void finish_milestones(struct pz_branching *tree, struct pz_partial *node) {
  const struct pz_context *context = tree->context;
  for (bool again = true; again;) {
    again = false;
    PZ_EACH_BIT(i, tree->words, node->ready.words[w] & tree->milestones.words[w]) {
      const struct pz_task *task = &tree->problem->tasks[i];
      uint32_t m = 0; /* becomes the first mode of zero duration that fits now */
      for (; m < task->n_modes; m++) {
        bool fits = pz_mode_fits(node->residual, &task->modes[m]);
        bool eliminated = context->eliminated[context->first_mode[i] + m];
        if (fits && !eliminated && task->modes[m].duration <= 0) break;
      }
      if (m == task->n_modes || !is_eligible(tree, node, i)) continue;
      pz_bits_set(&node->started, i);
      pz_bits_clear(&node->ready, i);
      finish_task(tree, node, i);
      node->serial += context->least_s[i];
      node->remaining_dual -= context->duals.least[i];
      tree->slots[i] = (struct pz_slot){node->now, node->now, m};
      again = true;
    }
  }
}

/* ---- starts ---------------------------------------------------------------------------------- */

/* Returns whether one more task could run now and be done at the next end. */
bool pz_partial_wait_dominated(const struct pz_branching *tree, const struct pz_partial *node) {
  const struct pz_context *context = tree->context;
  struct pz_technique_count *count = &context->count[PZ_T_wait_dominance];
  double until_next_end = DBL_MAX;
  for (uint32_t i = 0; i < node->n_running; i++)
    until_next_end = pz_fmin(until_next_end, node->running[i].end - node->now);
  if (tree->milestones_use || !context->techniques->wait_dominance) return false;
  count->calls++;
  PZ_EACH_BIT(i, tree->words, node->ready.words[w]) {
    const struct pz_task *task = &tree->problem->tasks[i];
    if (context->least_s[i] > until_next_end || !is_eligible(tree, node, i)) continue;
    for (uint32_t m = 0; m < task->n_modes; m++) {
      bool in_time = task->modes[m].duration <= until_next_end;
      if (!in_time || context->eliminated[context->first_mode[i] + m]) continue;
      if (!pz_mode_fits(node->residual, &task->modes[m])) continue;
      count->prunes++;
      return true;
    }
  }
  return false;
}

/* Returns whether the task may start now in this mode: the mode fits, it cannot be shifted left, and a quick bound by dual
 * values and the task's own path is better than the incumbent.
 *
 * Left shift: if the task could have started at the previous decision time and run until now, a schedule in which it did is
 * as good (only semi-active schedules need to be searched: Sprecher, Kolisch and Drexl 1995), unless a milestone needs the
 * capacity at this instant. */
static bool may_start(const struct pz_branching *tree, const struct pz_partial *node, uint32_t i,
                      uint32_t mode_index) {
  const struct pz_context *context = tree->context;
  const struct pz_techniques *techniques = context->techniques;
  const struct pz_duals *duals = &context->duals;
  const struct pz_mode *mode = &tree->problem->tasks[i].modes[mode_index];
  uint32_t mode_number = context->first_mode[i] + mode_index;
  if (context->eliminated[mode_number] || !pz_mode_fits(node->residual, mode)) return false;
  if (!tree->milestones_use && techniques->left_shift) {
    bool shifts_left = node->now > node->previous && pz_bits_has(&node->ready_before, i) &&
                       pz_mode_fits(node->residual_before, mode);
    context->count[PZ_T_left_shift].calls++;
    context->count[PZ_T_left_shift].prunes += shifts_left;
    if (shifts_left) return false;
  }
  double remaining = mode->duration + context->tail_s[i];
  if (techniques->node_dual_bound)
    remaining = pz_fmax(remaining, node->remaining_dual - duals->least[i] +
                                       duals->rate[mode_number] * mode->duration);
  return pz_better(context, node->now + remaining, context->incumbent_s);
}

/* Returns an iterator over ready tasks of higher rank than the last one started now. */
struct pz_start pz_partial_starts(const struct pz_branching *tree, const struct pz_partial *node) {
  struct pz_start start = {.n_modes = 0};
  uint32_t first_rank = node->last_rank == PZ_NONE ? 0 : node->last_rank + 1;
  PZ_EACH_BIT(i, tree->words, node->ready.words[w]) {
    if (tree->rank[i] >= first_rank) pz_bits_set(&start.untried_ranks, tree->rank[i]);
  }
  return start;
}

/* Sets *start to the next task and mode that may start now.  Returns false if there is none. */
bool pz_partial_next(const struct pz_branching *tree, const struct pz_partial *node,
                     struct pz_start *start) {
  struct pz_technique_count *count = &tree->context->count[PZ_T_interchangeable_tasks];
  for (;;) {
    while (start->next_mode < start->n_modes) {
      start->mode = start->next_mode++;
      if (may_start(tree, node, start->task, start->mode)) return true;
    }
    /* the next task in the order of branching */
    int w = 0;
    while (w < tree->words && !start->untried_ranks.words[w]) w++;
    if (w == tree->words) return false;
    start->task = tree->by_path[64 * w + __builtin_ctzll(start->untried_ranks.words[w])];
    start->untried_ranks.words[w] &= start->untried_ranks.words[w] - 1;
    bool eligible = is_eligible(tree, node, start->task);
    count->calls++;
    count->prunes += !eligible;
    if (!eligible) continue;
    start->next_mode = 0;
    start->n_modes = tree->problem->tasks[start->task].n_modes;
  }
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Sets `to`, which may be `from`, to the partial schedule in which this task starts now. */
void pz_partial_start(struct pz_branching *tree, const struct pz_partial *from, uint32_t task,
                      uint32_t mode, struct pz_partial *to) {
  const struct pz_context *context = tree->context;
  const struct pz_mode *chosen = &tree->problem->tasks[task].modes[mode];
  double end = from->now + chosen->duration;
  pz_partial_copy(to, from);
  pz_bits_set(&to->started, task);
  pz_bits_clear(&to->ready, task);
  to->running[to->n_running++] = (struct pz_running){task, mode, end};
  to->serial += context->least_s[task];
  for (int r = 0; r < PZ_RESOURCES; r++) to->residual[r] -= chosen->use[r];
  to->remaining_dual += context->duals.rate[context->first_mode[task] + mode] * chosen->duration -
                        context->duals.least[task];
  to->last_rank = tree->rank[task];
  tree->slots[task] = (struct pz_slot){from->now, end, mode};
}

/* Returns the index of the fastest mode of a task that is not eliminated. */
uint32_t pz_partial_fastest(const struct pz_branching *tree, uint32_t task) {
  const struct pz_context *context = tree->context;
  const struct pz_mode *modes = tree->problem->tasks[task].modes;
  uint32_t m = 0;
  while (context->eliminated[context->first_mode[task] + m] ||
         modes[m].duration > context->least_s[task])
    m++;
  return m;
}

/* Runs the tasks one after another, each alone in its fastest mode. */
void pz_partial_alone(struct pz_branching *tree, struct pz_partial *node,
                      const struct pz_bits *tasks) {
  const struct pz_context *context = tree->context;
  PZ_EACH_BIT(i, tree->words, tasks->words[w]) {
    double end = node->now + context->least_s[i];
    tree->slots[i] = (struct pz_slot){node->now, end, pz_partial_fastest(tree, i)};
    node->now = end;
    node->serial += context->least_s[i];
    pz_bits_set(&node->started, i);
    pz_bits_set(&node->finished, i);
    node->remaining_dual -= context->duals.least[i];
  }
  node->previous = node->now;
  node->last_rank = PZ_NONE;
  find_ready(tree, node);
  finish_milestones(tree, node);
}

/* Sets `to` to the partial schedule at the next end of a running task, and finishes tasks that end
 * then. */
void pz_partial_advance(struct pz_branching *tree, const struct pz_partial *from,
                        struct pz_partial *to) {
  const struct pz_context *context = tree->context;
  double next_end = DBL_MAX, slack = 1e-13 * context->scale;
  for (uint32_t i = 0; i < from->n_running; i++) next_end = pz_fmin(next_end, from->running[i].end);
  pz_partial_copy(to, from);
  /* remember the interval that ends, for left shifts of tasks that could have run during it */
  to->previous = from->now;
  to->now = next_end;
  if (from->last_rank != PZ_NONE) to->wait = ++tree->n_waits;
  to->last_rank = PZ_NONE;
  to->n_running = 0;
  memcpy(to->residual_before, from->residual, sizeof to->residual);
  PZ_EACH_BIT(i, tree->words, from->ready.words[w]) {
    if (is_eligible(tree, from, i)) pz_bits_set(&to->ready_before, i);
  }
  /* finish the tasks that end now, and keep the others running */
  for (uint32_t i = 0; i < from->n_running; i++) {
    const struct pz_running *running = &from->running[i];
    double dual_rate = context->duals.rate[context->first_mode[running->task] + running->mode];
    to->remaining_dual -= dual_rate * (next_end - from->now);
    if (running->end > next_end + slack) {
      to->running[to->n_running++] = *running;
      continue;
    }
    finish_task(tree, to, running->task);
    const struct pz_mode *mode = &tree->problem->tasks[running->task].modes[running->mode];
    for (int r = 0; r < PZ_RESOURCES; r++) to->residual[r] += mode->use[r];
  }
  finish_milestones(tree, to);
}

/* ---- from beginning to end ------------------------------------------------------------------- */

/* Sets *out to the partial schedule at time 0.  Deferred tasks count as finished. */
void pz_partial_begin(struct pz_branching *tree, const bool *deferred, struct pz_partial *out) {
  const struct pz_duals *duals = &tree->context->duals;
  *out = (struct pz_partial){.last_rank = PZ_NONE, .remaining_dual = duals->sum};
  memcpy(out->residual, tree->problem->capacity, sizeof out->residual);
  for (uint32_t i = 0; deferred && i < tree->problem->n; i++) {
    if (!deferred[i]) continue;
    pz_bits_set(&out->started, i);
    pz_bits_set(&out->finished, i);
    out->remaining_dual -= duals->least[i];
  }
  find_ready(tree, out);
  finish_milestones(tree, out);
}

/* Returns an array of partial schedules, each with memory for all tasks in running[]. */
struct pz_partials pz_partials_new(struct pz_call *call, uint32_t n_tasks, size_t n_partials) {
  size_t bytes = sizeof(struct pz_partial) + n_tasks * sizeof(struct pz_running);
  size_t aligned_bytes = (bytes + 15) / 16 * 16;
  return (struct pz_partials){pz_alloc(call, n_partials, aligned_bytes), aligned_bytes};
}

/* Copies a partial schedule without the unused part of running[]. */
void pz_partial_copy(struct pz_partial *to, const struct pz_partial *from) {
  if (to == from) return;
  memcpy(to, from, sizeof *from + from->n_running * sizeof *from->running);
}

/* Returns the last end of the started tasks. */
double pz_partial_end(const struct pz_partial *node) {
  double end = node->now;
  for (uint32_t i = 0; i < node->n_running; i++) end = pz_fmax(end, node->running[i].end);
  return end;
}
