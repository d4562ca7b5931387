/* Lower bounds at the root: the longest path, and energetic reasoning (Baptiste, Le Pape and Nuijten 1999).  For every
 * surrogate resource and every tail, the energy of all tasks with at least that tail must fit before the tail begins, and
 * in the same way for heads.
 *
 * A mode whose bound reaches the incumbent is eliminated (Sprecher, Hartmann and Drexl 1997), which improves the bounds;
 * pz_bound_tighten() repeats both until no mode is eliminated. */
#include "schedule/bound/root_bound.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/model/bits.h"

/* ---- heads and tails by energy --------------------------------------------------------------- */

/* Head and tail tightening by energetic reasoning (Carlier and Latapie 1991; Baptiste, Le Pape and
 * Nuijten 1999).  The head of a task is at least the longest path to it.  It is also at least a head
 * of its predecessors, plus the energy of all predecessors with at least that head and that path to
 * the task, plus the path.  Energy is measured by surrogate resources and by dual values.  Tails are
 * bounded in reverse, and the makespan by all tasks.  Used for at most MAX_ENERGY_TASKS tasks. */
enum { MAX_ENERGY_TASKS = 128 };

/* A task with its head and its tail in the part of the schedule that is bounded. */
struct item {
  double head, tail;
  const double *energy; /* energy of the task by measure */
};

struct energy_reasoning {
  struct pz_context *context;
  uint32_t n; /* number of tasks */
  int n_measures;
  double (*energy)[PZ_MEASURES]; /* by task */
  double *path; /* longest path from the end of task i to the start of task j, at i * n + j */
  struct pz_bits *predecessors, *successors;
  const bool *left_out; /* by task: it is not part of the problem; NULL if all tasks are */
  struct item *items;   /* tasks in the part that is bounded, by descending tail */
  uint32_t n_items;
};

/* Sets the energy of every task by each surrogate resource that some task uses, and by dual
 * values. */
static void set_energy(struct energy_reasoning *reasoning) {
  const struct pz_context *context = reasoning->context;
  double(*energy)[PZ_MEASURES] = reasoning->energy;
  for (int k = 0; k < PZ_MIXES; k++) {
    double sum = 0;
    for (uint32_t i = 0; i < reasoning->n; i++) sum += context->energy[i][k];
    if (sum <= 0) continue;
    for (uint32_t i = 0; i < reasoning->n; i++)
      energy[i][reasoning->n_measures] = context->energy[i][k];
    reasoning->n_measures++;
  }
  if (context->duals.sum <= 0) return;
  for (uint32_t i = 0; i < reasoning->n; i++)
    energy[i][reasoning->n_measures] = context->duals.least[i];
  reasoning->n_measures++;
}

/* Sets the longest path, in least durations, from the end of every task to the start of every
 * other. */
static void set_longest_paths(struct energy_reasoning *reasoning) {
  const struct pz_context *context = reasoning->context;
  uint32_t n = reasoning->n;
  double *path = reasoning->path;
  for (uint32_t j = 0; j < n; j++) {
    const struct pz_task *task = &context->problem->tasks[j];
    for (uint32_t i = 0; i < n; i++) path[i * n + j] = 0;
    for (uint32_t k = 0; k < task->n_pred; k++) {
      uint32_t last = task->pred[k]; /* the last task before j on the path */
      for (uint32_t i = 0; i < last; i++)
        if (pz_bits_has(&reasoning->predecessors[last], i))
          path[i * n + j] = pz_fmax(path[i * n + j], path[i * n + last] + context->least_s[last]);
    }
  }
}

/* Inserts a task into the items, which are sorted by descending tail. */
static void insert_item(struct energy_reasoning *reasoning, double head, double tail,
                        uint32_t task) {
  struct item *items = reasoning->items;
  uint32_t at = reasoning->n_items++;
  for (; at > 0 && items[at - 1].tail < tail; at--) items[at] = items[at - 1];
  items[at] = (struct item){head, tail, reasoning->energy[task]};
}

/* Returns a lower bound on the length of a part of the schedule that contains the tasks in `items`:
 * the maximum over heads and tails of that head, plus that tail, plus the energy of all items with
 * at least that head and that tail. */
static double energy_bound(const struct energy_reasoning *reasoning) {
  const struct item *items = reasoning->items;
  double most[PZ_MEASURES] = {0}, bound = 0;
  for (uint32_t first_item = 0; first_item < reasoning->n_items; first_item++) {
    double head = items[first_item].head, sum[PZ_MEASURES] = {0};
    bool head_was_tried = false;
    for (uint32_t i = 0; i < first_item && !head_was_tried; i++)
      head_was_tried = items[i].head >= head && items[i].head <= head;
    if (head_was_tried) continue;
    for (uint32_t i = 0; i < reasoning->n_items; i++) {
      const struct item *item = &items[i];
      if (item->head < head) continue;
      double head_and_tail = head + item->tail;
      for (int first = 0; first < reasoning->n_measures; first += 4)
        for (int k = first; k < first + 4; k++) {
          sum[k] += item->energy[k];
          most[k] = pz_fmax(most[k], sum[k] + head_and_tail);
        }
    }
  }
  for (int k = 0; k < PZ_MEASURES; k++) bound = pz_fmax(bound, most[k]);
  return bound;
}

/* Raises every tail by the paths and the energy of the task's successors. */
static void tighten_tails(struct energy_reasoning *reasoning) {
  const double *least_s = reasoning->context->least_s;
  const bool *left_out = reasoning->left_out;
  double *tail_s = reasoning->context->tail_s;
  for (uint32_t j = reasoning->n; j-- > 0;) {
    const struct pz_task *task = &reasoning->context->problem->tasks[j];
    for (uint32_t k = 0; k < task->n_succ; k++)
      if (!(left_out && left_out[task->succ[k]]))
        tail_s[j] = pz_fmax(tail_s[j], tail_s[task->succ[k]] + least_s[task->succ[k]]);
    reasoning->n_items = 0;
    for (uint32_t i = j + 1; i < reasoning->n; i++)
      if (pz_bits_has(&reasoning->successors[j], i) && !(left_out && left_out[i]))
        insert_item(reasoning, reasoning->path[j * reasoning->n + i], tail_s[i], i);
    tail_s[j] = pz_fmax(tail_s[j], energy_bound(reasoning));
  }
}

/* Raises heads and tails by energy, and returns a lower bound on the makespan.  If tasks are left
 * out (left_out is not NULL), raises only tails and returns 0, which is no bound.  With more than
 * MAX_ENERGY_TASKS tasks, does nothing and returns 0. */
static double tighten_by_energy(struct pz_context *context, const bool *left_out) {
  uint32_t n = context->problem->n;
  double bound = 0;
  if (n > MAX_ENERGY_TASKS) return 0;
  struct pz_call scratch = pz_scratch(context->call);
  struct energy_reasoning reasoning = {.context = context, .n = n, .left_out = left_out};
  reasoning.energy = pz_alloc(&scratch, n, sizeof *reasoning.energy);
  reasoning.path = pz_alloc(&scratch, (size_t)n * n, sizeof *reasoning.path);
  reasoning.predecessors = pz_alloc(&scratch, n, sizeof *reasoning.predecessors);
  reasoning.successors = pz_alloc(&scratch, n, sizeof *reasoning.successors);
  reasoning.items = pz_alloc(&scratch, n, sizeof *reasoning.items);
  pz_bits_order(context->problem, reasoning.predecessors, reasoning.successors);
  set_energy(&reasoning);
  set_longest_paths(&reasoning);
  if (!left_out) {
    /* Raises every head by the paths and the energy of the task's predecessors. */
    const double *least_s = reasoning.context->least_s;
    double *head_s = reasoning.context->head_s;
    for (uint32_t j = 0; j < reasoning.n; j++) {
      const struct pz_task *task = &reasoning.context->problem->tasks[j];
      for (uint32_t k = 0; k < task->n_pred; k++)
        head_s[j] = pz_fmax(head_s[j], head_s[task->pred[k]] + least_s[task->pred[k]]);
      reasoning.n_items = 0;
      for (uint32_t i = 0; i < j; i++)
        if (pz_bits_has(&reasoning.predecessors[j], i))
          insert_item(&reasoning, head_s[i], reasoning.path[i * reasoning.n + j], i);
      head_s[j] = pz_fmax(head_s[j], energy_bound(&reasoning));
    }
  }
  tighten_tails(&reasoning);
  if (!left_out) { /* the bound of the whole problem */
    reasoning.n_items = 0;
    for (uint32_t i = 0; i < n; i++)
      insert_item(&reasoning, context->head_s[i], context->tail_s[i], i);
    bound = energy_bound(&reasoning);
  }
  pz_scratch_end(&scratch);
  return bound;
}

/* ---- heads and tails by paths ---------------------------------------------------------------- */

/* Sets every tail to the longest path to the end; left_out is NULL if no task is left out. */
static void set_path_tails(struct pz_context *context, const bool *left_out) {
  const struct pz_problem *problem = context->problem;
  memset(context->tail_s, 0, problem->n * sizeof *context->tail_s);
  for (uint32_t i = problem->n; i-- > 0;)
    for (uint32_t k = 0; k < problem->tasks[i].n_succ; k++) {
      uint32_t next = problem->tasks[i].succ[k];
      if (left_out && left_out[next]) continue;
      double path_s = context->tail_s[next] + context->least_s[next];
      context->tail_s[i] = pz_fmax(context->tail_s[i], path_s);
    }
}

/* Sets the tails by paths and energy in the problem without the tasks that are left out. */
void pz_bound_tails(struct pz_context *context, const bool *left_out) {
  context->derived = false;
  set_path_tails(context, left_out);
  if (context->energy_heads && context->techniques->head_tail_tightening)
    tighten_by_energy(context, left_out);
}

/* Sets the least duration and energy over the modes that are not eliminated, and heads and tails
 * by paths.  Returns false if a task has no mode left. */
static bool derive_paths_and_energy(struct pz_context *context) {
  const struct pz_problem *problem = context->problem;
  double *head_s = context->head_s, *least_s = context->least_s;
  memset(head_s, 0, problem->n * sizeof *head_s);
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    double *energy = context->energy[i];
    least_s[i] = DBL_MAX;
    for (int k = 0; k < PZ_MIXES; k++) energy[k] = DBL_MAX;
    for (uint32_t m = 0; m < task->n_modes; m++) {
      const struct pz_mode *mode = &task->modes[m];
      if (context->eliminated[context->first_mode[i] + m]) continue;
      least_s[i] = pz_fmin(least_s[i], mode->duration);
      for (int k = 0; k < PZ_MIXES; k++)
        energy[k] = pz_fmin(energy[k], pz_mode_share(context, mode, k) * mode->duration);
    }
    if (least_s[i] == DBL_MAX) return false;
    for (uint32_t k = 0; k < task->n_pred; k++)
      head_s[i] = pz_fmax(head_s[i], head_s[task->pred[k]] + least_s[task->pred[k]]);
  }
  set_path_tails(context, NULL);
  return true;
}

/* ---- bounds at the root ---------------------------------------------------------------------- */

struct keyed_task {
  double key; /* head or tail of the task */
  uint32_t task;
};

/* Compares two tasks for qsort(): the higher key first, then the lower index. */
static int compare_descending(const void *left, const void *right) {
  const struct keyed_task *first = left, *second = right;
  if (first->key < second->key) return 1;
  if (first->key > second->key) return -1;
  return first->task < second->task ? -1 : 1;
}

/* Returns a lower bound on the makespan: the maximum over all keys (heads, or tails) of the key plus
 * the energy of the tasks with at least that key.  `list` is scratch with room for all tasks. */
static double keyed_energy_bound(const struct pz_context *context, struct keyed_task *list,
                                 const double *key) {
  uint32_t n = context->problem->n;
  double sum[PZ_MIXES] = {0}, bound = 0;
  for (uint32_t i = 0; i < n; i++) list[i] = (struct keyed_task){key[i], i};
  qsort(list, n, sizeof *list, compare_descending);
  for (uint32_t i = 0; i < n; i++)
    for (int k = 0; k < PZ_MIXES; k++) {
      sum[k] += context->energy[list[i].task][k];
      bound = pz_fmax(bound, sum[k] + list[i].key);
    }
  return bound;
}

/* Returns the sum over tasks of the least rate times duration of their modes. */
double pz_duals_sum(const struct pz_context *context, const double *rate, double *least) {
  double sum = 0;
  for (uint32_t i = 0; i < context->problem->n; i++) {
    const struct pz_task *task = &context->problem->tasks[i];
    double value = DBL_MAX;
    for (uint32_t m = 0; m < task->n_modes; m++) {
      uint32_t mode = context->first_mode[i] + m;
      if (!context->eliminated[mode]) value = pz_fmin(value, rate[mode] * task->modes[m].duration);
    }
    if (least) least[i] = value;
    sum += value;
  }
  return sum;
}

/* Raises the lower bound in four ways: by the dual values of the modes that are left, by tightening
 * heads and tails by energy, by the longest path, and by energy.  `scratch` has room for all tasks. */
static void derive_bounds(struct pz_context *context, struct keyed_task *scratch) {
  const struct pz_techniques *techniques = context->techniques;
  struct pz_duals *duals = &context->duals;
  double bound = 0;
  /* the least rate times duration of a task grows if the mode that has it was eliminated since */
  duals->sum = pz_duals_sum(context, duals->rate, duals->least);
  pz_update_bound(context, duals->sum, PZ_T_column_generation);
  if (context->energy_heads && techniques->head_tail_tightening) {
    context->count[PZ_T_head_tail_tightening].calls++;
    pz_update_bound(context, tighten_by_energy(context, NULL), PZ_T_head_tail_tightening);
  }
  for (uint32_t i = 0; i < context->problem->n; i++)
    bound = pz_fmax(bound, context->head_s[i] + context->least_s[i] + context->tail_s[i]);
  pz_update_bound(context, bound, PZ_T_NONE);
  if (techniques->energetic_bound) {
    bound = keyed_energy_bound(context, scratch, context->tail_s);
    bound = pz_fmax(bound, keyed_energy_bound(context, scratch, context->head_s));
    context->count[PZ_T_energetic_bound].calls++;
    pz_update_bound(context, bound, PZ_T_energetic_bound);
  }
  context->derived = true;
}

/* ---- elimination of modes -------------------------------------------------------------------- */

/* Eliminates modes whose bound reaches the incumbent.  Returns whether there were any. */
static bool eliminate_modes(struct pz_context *context) {
  const struct pz_problem *problem = context->problem;
  struct pz_technique_count *count = &context->count[PZ_T_mode_elimination];
  double total_energy[PZ_MIXES] = {0};
  bool any = false;
  count->calls++;
  for (uint32_t i = 0; i < problem->n; i++)
    for (int k = 0; k < PZ_MIXES; k++) total_energy[k] += context->energy[i][k];
  for (uint32_t i = 0; i < problem->n; i++)
    for (uint32_t m = 0; m < problem->tasks[i].n_modes; m++) {
      bool *eliminated = &context->eliminated[context->first_mode[i] + m];
      if (*eliminated) continue;
      /* A lower bound on schedules in which task i has mode m, by its path, by energy and by
       * dual values.  total_energy is the least energy of all tasks. */
      const struct pz_mode *mode = &context->problem->tasks[i].modes[m];
      const struct pz_duals *duals = &context->duals;
      double bound = context->head_s[i] + mode->duration + context->tail_s[i];
      for (int k = 0; k < PZ_MIXES && context->techniques->energetic_bound; k++) {
        double energy = pz_mode_share(context, mode, k) * mode->duration;
        bound = pz_fmax(bound, total_energy[k] - context->energy[i][k] + energy);
      }
      double value = duals->rate[context->first_mode[i] + m] * mode->duration;
      double bound_s = pz_fmax(bound, duals->sum - duals->least[i] + value);
      if (pz_better(context, bound_s, context->incumbent_s)) continue;
      *eliminated = any = true;
      context->derived = false;
      count->prunes++;
    }
  return any;
}

/* Raises the lower bound and eliminates modes until no more are eliminated. */
void pz_bound_tighten(struct pz_context *context) {
  struct pz_call scratch = pz_scratch(context->call);
  struct keyed_task *list = pz_alloc(&scratch, context->problem->n, sizeof *list);
  bool again = true;
  while (again && (context->lower_bound_s <= 0 || pz_open(context))) {
    if (!context->derived && !derive_paths_and_energy(context)) {
      /* no schedule is better than the incumbent */
      pz_update_bound(context, context->incumbent_s, PZ_T_mode_elimination);
      break;
    }
    if (!context->derived) derive_bounds(context, list);
    again = context->incumbent_s < DBL_MAX && context->techniques->mode_elimination &&
            eliminate_modes(context);
  }
  pz_scratch_end(&scratch);
}
