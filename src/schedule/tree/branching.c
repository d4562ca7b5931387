/* Derives the constant data of the tree searches (branching.h), and finds symmetries: tasks with
 * the same modes and successors, and automorphisms that exchange two tasks together with their
 * successors. */
#include "schedule/tree/branching.h"

#include <string.h>

/* Tuned: surrogate resources with less energy than this fraction of the makespan are ignored. */
static const double LEAST_ENERGY = 0.5;

/* ---- orders and measures --------------------------------------------------------------------- */

/* The key by which tasks are sorted: the tail alone, or the tail plus the least duration. */
enum tail_key { TAIL_ALONE, TAIL_PLUS_DURATION };

/* Writes all tasks to `list` by descending key (insertion sort).  Ties stay in topological order. */
static void sort_by_tail(const struct pz_branching *tree, uint32_t *list, enum tail_key tail_key) {
  bool with_own_duration = tail_key == TAIL_PLUS_DURATION;
  const double *least_s = tree->context->least_s, *tail_s = tree->context->tail_s;
  for (uint32_t i = 0; i < tree->problem->n; i++) {
    double key = tail_s[i] + (with_own_duration ? least_s[i] : 0);
    uint32_t at = i;
    for (; at > 0; at--) {
      uint32_t other = list[at - 1];
      if (tail_s[other] + (with_own_duration ? least_s[other] : 0) >= key) break;
      list[at] = other;
    }
    list[at] = i;
  }
}

/* Chooses the measures of energy for the energy bound of partial schedules: surrogate resources of
 * which enough energy is used and whose resources all matter, and the dual values.  Their number is
 * rounded up to a multiple of four, for vectorised loops. */
static void add_energy_measures(struct pz_branching *tree) {
  const struct pz_context *context = tree->context;
  /* a resource matters if some mode that uses it leaves capacity of a resource free */
  bool matters[PZ_RESOURCES] = {false};
  for (uint32_t i = 0; i < tree->problem->n; i++)
    for (uint32_t m = 0; m < tree->problem->tasks[i].n_modes; m++) {
      const int32_t *use = tree->problem->tasks[i].modes[m].use;
      bool leaves_capacity = false;
      for (int r = 0; r < PZ_RESOURCES; r++)
        leaves_capacity = leaves_capacity || use[r] < tree->problem->capacity[r];
      for (int r = 0; r < PZ_RESOURCES; r++) matters[r] = matters[r] || (use[r] && leaves_capacity);
    }
  for (int k = 0; k < PZ_MIXES; k++) {
    double sum = 0;
    bool all_matter = true;
    for (uint32_t i = 0; i < tree->problem->n; i++) sum += context->energy[i][k];
    for (int r = 0; r < PZ_RESOURCES; r++)
      all_matter = all_matter && (matters[r] || pz_mixes[k][r] <= 0);
    if (!all_matter || !(sum > LEAST_ENERGY * context->incumbent_s)) continue;
    int measure = tree->n_measures++;
    for (uint32_t i = 0; i < tree->problem->n; i++) {
      const struct pz_task *task = &tree->problem->tasks[i];
      tree->energy[i][measure] = context->energy[tree->by_tail[i]][k];
      for (uint32_t m = 0; m < task->n_modes; m++)
        tree->energy_rate[context->first_mode[i] + m][measure] =
            pz_mode_share(context, &task->modes[m], k);
    }
  }
  if (context->duals.sum > 0 && context->techniques->node_dual_bound) {
    int measure = tree->n_measures++;
    for (uint32_t i = 0; i < tree->problem->n; i++)
      tree->energy[i][measure] = context->duals.least[tree->by_tail[i]];
    for (uint32_t m = 0; m < context->n_modes; m++)
      tree->energy_rate[m][measure] = context->duals.rate[m];
  }
  tree->n_measures = (tree->n_measures + 3) / 4 * 4;
}

/* Finds the largest set of tasks that each use most of one resource, so that no two run concurrently.
 * Sets that are so large that energy bounds are as good are not considered. */
static void find_disjunctive(struct pz_branching *tree) {
  const struct pz_context *context = tree->context;
  for (int r = 0; r < PZ_RESOURCES; r++) {
    uint32_t n = 0, list[PZ_LARGEST_DISJUNCTIVE];
    for (uint32_t k = 0; k < tree->problem->n && n <= PZ_LARGEST_DISJUNCTIVE; k++) {
      uint32_t i = tree->by_tail[k];
      const struct pz_task *task = &tree->problem->tasks[i];
      bool uses_most = true; /* more than half of the resource in every mode */
      for (uint32_t m = 0; m < task->n_modes; m++)
        if (!context->eliminated[context->first_mode[i] + m])
          uses_most = uses_most && task->modes[m].use[r] > tree->problem->capacity[r] / 2;
      if (!uses_most) continue;
      if (n < PZ_LARGEST_DISJUNCTIVE) list[n] = i;
      n++;
    }
    if (n > PZ_LARGEST_DISJUNCTIVE || n < 2 || n <= tree->n_disjunctive) continue;
    tree->n_disjunctive = n;
    memcpy(tree->disjunctive, list, n * sizeof *list);
  }
}

/* ---- symmetries ------------------------------------------------------------------------------ */

/* Returns whether two tasks have the same modes, and the same of them are eliminated. */
static bool same_modes(const struct pz_branching *tree, uint32_t a, uint32_t b) {
  const struct pz_context *context = tree->context;
  const struct pz_task *task = &tree->problem->tasks[a];
  return pz_same_modes(task, &tree->problem->tasks[b]) &&
         !memcmp(&context->eliminated[context->first_mode[a]],
                 &context->eliminated[context->first_mode[b]],
                 task->n_modes * sizeof *context->eliminated);
}

/* An exchange of two tasks together with all their successors (symmetry breaking by lexicographic order, Crawford et al.
 * 1996).
 *
 * Examples are the query and key sides of a layer, or its experts.  Every schedule then has an image of the same makespan,
 * and only those need be searched in which the first task of one side, of lower rank than all exchanged tasks, starts no
 * later than that of the other.  (The optimal schedule whose start times are lexicographically smallest by rank is among
 * them; it also obeys the order of identical tasks.) */
struct automorphism {
  const struct pz_branching *tree;
  struct pz_bits deferred;            /* tasks that are left out */
  uint32_t image[PZ_TREE_MOST_TASKS]; /* by task: the task that it is exchanged with, or itself */
};

/* Returns whether the images of the tasks of a set are the tasks of the other set. */
static bool has_image(const struct automorphism *automorphism, const struct pz_bits *set,
                      const struct pz_bits *other) {
  struct pz_bits image = {{0}};
  PZ_EACH_BIT(i, automorphism->tree->words, set->words[w]) {
    pz_bits_set(&image, automorphism->image[i]);
  }
  return pz_branching_same(automorphism->tree, &image, other);
}

/* Finds an image for task i among the candidates, and removes it from them: a task with the same
 * modes whose predecessors are the images of the predecessors of i.  Returns false if there is
 * none. */
static bool find_image(struct automorphism *automorphism, uint32_t i, struct pz_bits *candidates) {
  const struct pz_branching *tree = automorphism->tree;
  for (uint32_t k = 0; k < tree->problem->n; k++) {
    if (!pz_bits_has(candidates, k) || !same_modes(tree, i, k)) continue;
    if (!has_image(automorphism, &tree->predecessors[i], &tree->predecessors[k])) continue;
    pz_bits_clear(candidates, k);
    automorphism->image[i] = k;
    automorphism->image[k] = i;
    return true;
  }
  return false;
}

/* Exchanges a and b, and the tasks that come after only one of them.  Returns whether this is an
 * automorphism. */
static bool exchange_tasks(struct automorphism *automorphism, uint32_t a, uint32_t b) {
  const struct pz_branching *tree = automorphism->tree;
  const struct pz_bits *deferred = &automorphism->deferred;
  uint32_t *image = automorphism->image;
  struct pz_bits after_a = pz_bits_minus(&tree->successors[a], &tree->successors[b]);
  struct pz_bits after_b = pz_bits_minus(&tree->successors[b], &tree->successors[a]);
  after_a = pz_bits_minus(&after_a, deferred);
  after_b = pz_bits_minus(&after_b, deferred);
  if (pz_bits_count(&after_a) != pz_bits_count(&after_b)) return false;
  for (uint32_t i = 0; i < tree->problem->n; i++) image[i] = i;
  image[a] = b;
  image[b] = a;
  for (uint32_t i = 0; i < tree->problem->n; i++)
    if (pz_bits_has(&after_a, i) && !find_image(automorphism, i, &after_b)) return false;
  for (uint32_t i = 0; i < tree->problem->n; i++) {
    if (pz_bits_has(deferred, i)) continue;
    /* a has the lowest rank of all exchanged tasks; never violated so far, but the rule needs it */
    bool preserves_start_order = image[i] == i || tree->rank[i] >= tree->rank[a];
    if (!preserves_start_order) return false;
    if (!has_image(automorphism, &tree->predecessors[i], &tree->predecessors[image[i]]))
      return false;
  }
  return true;
}

/* Finds pairs of tasks that an automorphism of the problem exchanges, and lets the one of lower
 * rank start first. */
void pz_automorphisms(struct pz_branching *tree, const bool *deferred) {
  struct automorphism automorphism = {.tree = tree};
  struct pz_technique_count *count = &tree->context->count[PZ_T_automorphisms];
  uint32_t n = tree->problem->n;
  if (!tree->context->techniques->automorphisms) return;
  count->calls++;
  for (uint32_t i = 0; deferred && i < n; i++)
    if (deferred[i]) pz_bits_set(&automorphism.deferred, i);
  for (uint32_t b = 0; b < n; b++)
    for (uint32_t a = 0; a < n; a++) {
      bool searched = !pz_bits_has(&automorphism.deferred, a) &&
                      !pz_bits_has(&automorphism.deferred, b) && tree->rank[a] < tree->rank[b];
      if (!searched) continue;
      if (!pz_branching_same(tree, &tree->predecessors[a], &tree->predecessors[b])) continue;
      if (pz_branching_same(tree, &tree->successors[a], &tree->successors[b])) continue;
      if (!same_modes(tree, a, b) || !exchange_tasks(&automorphism, a, b)) continue;
      pz_bits_set(&tree->interchangeable[b], a);
      count->prunes++;
    }
}

/* ---- all data -------------------------------------------------------------------------------- */

/* Derives the constant data of the tree search from the context: orders of tasks, measures of energy,
 * milestones (tasks that can have zero duration), precedence, and interchangeable tasks. */
void pz_branching_init(struct pz_call *call, struct pz_branching *tree,
                       struct pz_context *context) {
  const struct pz_problem *problem = context->problem;
  uint32_t n = problem->n;
  *tree =
      (struct pz_branching){.context = context, .problem = problem, .words = (int)(n + 63) / 64};
  tree->slots = pz_alloc(call, n, sizeof *tree->slots);
  tree->by_tail = pz_alloc(call, n, sizeof *tree->by_tail);
  tree->by_path = pz_alloc(call, n, sizeof *tree->by_path);
  tree->rank = pz_alloc(call, n, sizeof *tree->rank);
  tree->interchangeable = pz_alloc(call, n, sizeof *tree->interchangeable);
  tree->energy = pz_alloc(call, n, sizeof *tree->energy);
  tree->energy_rate = pz_alloc(call, context->n_modes, sizeof *tree->energy_rate);
  tree->predecessors = pz_alloc(call, n, sizeof *tree->predecessors);
  tree->successors = pz_alloc(call, n, sizeof *tree->successors);
  sort_by_tail(tree, tree->by_tail, TAIL_ALONE);
  sort_by_tail(tree, tree->by_path, TAIL_PLUS_DURATION);
  add_energy_measures(tree); /* by index in by_tail */
  if (context->techniques->disjunctive_bound) find_disjunctive(tree);
  for (uint32_t i = 0; i < n; i++) {
    tree->rank[tree->by_path[i]] = i;
    pz_bits_set(&tree->all, i);
    if (context->least_s[i] <= 0) pz_bits_set(&tree->milestones, i);
    tree->milestones_use = tree->milestones_use || pz_milestone_uses(&problem->tasks[i]);
  }
  pz_bits_order(problem, tree->predecessors, tree->successors);
  if (context->techniques->interchangeable_tasks) {
    /* Of two ready tasks with the same modes and successors, the one of lower rank starts first: a
     * schedule that starts the other one first is as good with the two exchanged. */
    for (uint32_t a = 0; a < tree->problem->n; a++)
      for (uint32_t b = 0; b < tree->problem->n; b++) {
        if (tree->rank[a] >= tree->rank[b]) continue;
        if (pz_branching_same(tree, &tree->successors[a], &tree->successors[b]) &&
            same_modes(tree, a, b))
          pz_bits_set(&tree->interchangeable[b], a);
      }
  }
}
