/* Lower bounds on the makespan of every completion of a partial schedule (partial_bound.h).  The
 * searches try the cheaper ones first: dual values, then paths, then energy. */
#include "schedule/tree/partial_bound.h"

#include <float.h>
#include <string.h>

/* Sets the capacity that running tasks leave, now and from each of their ends on. */
void pz_residual_find(const struct pz_branching *tree, const struct pz_partial *node,
                      struct pz_residual *out) {
  const struct pz_running *by_end[PZ_TREE_MOST_TASKS];
  for (uint32_t i = 0; i < node->n_running; i++) {
    uint32_t at = i;
    for (; at > 0 && by_end[at - 1]->end > node->running[i].end; at--) by_end[at] = by_end[at - 1];
    by_end[at] = &node->running[i];
  }
  out->n = node->n_running;
  out->time[0] = node->now;
  memcpy(out->free[0], node->residual, sizeof node->residual);
  for (uint32_t i = 0; i < out->n; i++) {
    const int32_t *use = tree->problem->tasks[by_end[i]->task].modes[by_end[i]->mode].use;
    out->time[i + 1] = by_end[i]->end;
    for (int r = 0; r < PZ_RESOURCES; r++) out->free[i + 1][r] = out->free[i][r] + use[r];
  }
}

/* Returns the bound, after counting in the statistics of the technique that it was computed and
 * whether it prunes. */
static double count_bound(const struct pz_branching *tree, enum pz_technique technique,
                          double bound) {
  struct pz_technique_count *count = &tree->context->count[technique];
  count->calls++;
  count->prunes += !pz_better(tree->context, bound, tree->context->incumbent_s);
  return bound;
}

/* Returns the longest path from now to the end.  Of the tasks that are not started, only ready ones
 * are visited, because the tail of a task includes its successors. */
double pz_partial_path_bound(const struct pz_branching *tree, const struct pz_partial *node) {
  const double *least_s = tree->context->least_s, *tail_s = tree->context->tail_s;
  double longest = 0, bound = node->now;
  for (uint32_t i = 0; i < node->n_running; i++)
    bound = pz_fmax(bound, node->running[i].end + tail_s[node->running[i].task]);
  PZ_EACH_BIT(i, tree->words, node->ready.words[w]) {
    longest = pz_fmax(longest, least_s[i] + tail_s[i]);
  }
  return pz_fmax(bound, node->now + longest);
}

/* Earliest start and end of a task, as far as its predecessors and the running tasks allow. */
struct span {
  double start, end;
};

/* Returns the one-machine bound (Carlier 1982) of the disjunctive set, of which no two tasks run
 * concurrently: for every start and tail, the tasks with at least these run one after another.  A
 * task with a single mode starts no earlier than its earliest end minus its duration. */
static double disjunctive_bound(const struct pz_branching *tree, const struct pz_partial *node,
                                const struct span *earliest) {
  const double *least_s = tree->context->least_s, *tail_s = tree->context->tail_s;
  double start[PZ_LARGEST_DISJUNCTIVE], bound = 0;
  uint32_t list[PZ_LARGEST_DISJUNCTIVE], n = 0;
  for (uint32_t k = 0; k < tree->n_disjunctive; k++) {
    uint32_t i = tree->disjunctive[k];
    if (pz_bits_has(&node->started, i)) continue;
    bool single_mode = tree->problem->tasks[i].n_modes == 1;
    start[n] = single_mode ? earliest[i].end - least_s[i] : earliest[i].start;
    list[n++] = i;
  }
  for (uint32_t first = 0; first < n; first++) {
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) { /* by descending tail */
      if (start[k] < start[first]) continue;
      sum += least_s[list[k]];
      bound = pz_fmax(bound, start[first] + sum + tail_s[list[k]]);
    }
  }
  return bound;
}

/* Returns the earliest start and end of task i, which is not started.  `earliest` has those of its
 * predecessors. */
static struct span earliest_span(const struct pz_branching *tree, const struct pz_partial *node,
                                 const struct pz_residual *residual, const struct span *earliest,
                                 uint32_t i) {
  const struct pz_task *task = &tree->problem->tasks[i];
  const bool *eliminated = &tree->context->eliminated[tree->context->first_mode[i]];
  struct span span = {node->now, DBL_MAX};
  for (uint32_t k = 0; k < task->n_pred; k++)
    if (!pz_bits_has(&node->finished, task->pred[k]))
      span.start = pz_fmax(span.start, earliest[task->pred[k]].end);
  if (span.start >= residual->time[residual->n]) {
    span.end = span.start + tree->context->least_s[i];
    return span;
  }
  for (uint32_t m = task->n_modes; m-- > 0;) {
    const struct pz_mode *mode = &task->modes[m];
    if (span.start + mode->duration >= span.end || eliminated[m]) continue;
    double start = pz_fmax(span.start, pz_residual_earliest(residual, mode));
    span.end = pz_fmin(span.end, start + mode->duration);
  }
  return span;
}

/* Returns the longest path through the residual capacity: until the running tasks end, they
 * limit the modes that fit. */
double pz_partial_residual_bound(const struct pz_branching *tree, const struct pz_partial *node) {
  const double *tail_s = tree->context->tail_s;
  struct span earliest[PZ_TREE_MOST_TASKS];
  struct pz_residual residual;
  double bound = node->now;
  if (!node->n_running || !tree->context->techniques->residual_bound)
    return pz_partial_path_bound(tree, node);
  pz_residual_find(tree, node, &residual);
  for (uint32_t i = 0; i < node->n_running; i++) {
    const struct pz_running *running = &node->running[i];
    earliest[running->task].end = running->end;
    bound = pz_fmax(bound, running->end + tail_s[running->task]);
  }
  PZ_EACH_BIT(i, tree->words, tree->all.words[w] & ~node->started.words[w]) {
    earliest[i] = earliest_span(tree, node, &residual, earliest, i);
    bound = pz_fmax(bound, earliest[i].end + tail_s[i]);
    if (bound >= tree->context->incumbent_s) return count_bound(tree, PZ_T_residual_bound, bound);
  }
  count_bound(tree, PZ_T_residual_bound, bound);
  if (!tree->n_disjunctive) return bound;
  double disjunctive = disjunctive_bound(tree, node, earliest);
  return pz_fmax(bound, count_bound(tree, PZ_T_disjunctive_bound, disjunctive));
}

/* Returns the maximum over tails of the tail plus the energy of all tasks with at least that tail.
 * Running tasks count with the energy of the time that is left. */
double pz_partial_energy_bound(const struct pz_branching *tree, const struct pz_partial *node) {
  double sum[PZ_MEASURES] = {0}, most[PZ_MEASURES] = {0}, left[PZ_TREE_MOST_TASKS], bound = 0;
  const double *rate[PZ_TREE_MOST_TASKS];
  if (!tree->context->techniques->node_energy_bound) return node->now;
  for (uint32_t i = 0; i < node->n_running; i++) {
    const struct pz_running *running = &node->running[i];
    left[running->task] = running->end - node->now;
    rate[running->task] =
        tree->energy_rate[tree->context->first_mode[running->task] + running->mode];
  }
  for (uint32_t i = 0; i < tree->problem->n; i++) {
    uint32_t task = tree->by_tail[i];
    if (pz_bits_has(&node->finished, task)) continue;
    bool runs = pz_bits_has(&node->started, task);
    const double *energy = runs ? rate[task] : tree->energy[i];
    double tail = tree->context->tail_s[task], factor = runs ? left[task] : 1;
    for (int first = 0; first < tree->n_measures; first += 4)
      for (int k = first; k < first + 4; k++) {
        sum[k] += energy[k] * factor;
        most[k] = pz_fmax(most[k], sum[k] + tail);
      }
  }
  for (int k = 0; k < tree->n_measures; k++) bound = pz_fmax(bound, most[k]);
  return count_bound(tree, PZ_T_node_energy_bound, node->now + bound);
}

/* Returns the time of the node plus the dual value of the remaining tasks, which is a lower bound on
 * their time (colgen/column_generation.c). */
double pz_partial_dual_bound(const struct pz_branching *tree, const struct pz_partial *node) {
  const struct pz_context *context = tree->context;
  if (!context->techniques->node_dual_bound || context->duals.sum <= 0) return node->now;
  return count_bound(tree, PZ_T_node_dual_bound, node->now + node->remaining_dual);
}
