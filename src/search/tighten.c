/* Branch and reduce on one box (Ryoo and Sahinidis, 1996).  pz_box_bound() combines the evaluators'
 * bounds on steps to a bound on the value.  pz_box_tighten() cuts slabs from the top of an axis if
 * even the smallest chips there violate a limit, and from its bottom if even the best chips there
 * are not above the cutoff (cut_bottom).  Both bisect, because more of any axis is never slower and
 * never smaller.  pz_box_choose_split() and pz_box_greedy() only guide the search; no proof depends
 * on them. */
#include "search/tighten.h"

#include <math.h>
#include <string.h>

#include "core/num.h"

/* ---- bounds --------------------------------------------------------------------------------- */

/* Sets lower bounds on the dynamic energy of steps, or 0 if the objective ignores it. */
static void set_least_energy(struct pz_call *call, const struct pz_box_task *task,
                             const struct pz_boxed *boxed, struct pz_step_cost *steps) {
  bool needs_energy = task->objective->kind == PZ_OBJECTIVE_PER_JOULE;
  for (uint32_t i = 0; i < task->objective->n; i++) {
    uint32_t index = task->objective->models[i];
    const struct pz_search_entry *entry = &task->question->entries[index];
    struct pz_evaluator *evaluator = entry->evaluator;
    steps[index].dynamic_j = 0;
    if (needs_energy && evaluator->ops->least_j)
      steps[index].dynamic_j =
          evaluator->ops->least_j(call, evaluator, task->worker, boxed, entry->model);
  }
}

/* Returns an upper bound on the value of every chip of a box, from quick bounds on all steps.
 * Unless they suffice, one step after another gets a tight bound, while the value is above the
 * cutoff. */
double pz_box_bound(struct pz_call *call, const struct pz_box_task *task,
                    const struct pz_boxed *boxed, int level, struct pz_step_cost *steps) {
  const struct pz_objective *objective = task->objective;
  set_least_energy(call, task, boxed, steps);
  for (uint32_t i = 0; i < objective->n; i++) {
    uint32_t index = objective->models[i];
    const struct pz_search_entry *entry = &task->question->entries[index];
    steps[index].step_s = entry->evaluator->ops->bound(call, entry->evaluator, task->worker, boxed,
                                                       entry->model, PZ_QUICK_BOUND, HUGE_VAL);
  }
  double bound = pz_objective_value(objective, steps, &boxed->least);
  if (level == PZ_QUICK_BOUND) return bound;
  for (uint32_t i = 0; i < objective->n && bound > task->cutoff; i++) {
    uint32_t index = objective->models[i];
    const struct pz_search_entry *entry = &task->question->entries[index];
    struct pz_evaluator *evaluator = entry->evaluator;
    if (!evaluator->ops->has_cheap_bounds) continue; /* such evaluators have only one level */
    double enough_s = pz_objective_limit_s(objective, steps, &boxed->least, index, task->cutoff);
    double step_s =
        evaluator->ops->bound(call, evaluator, task->worker, boxed, entry->model, level, enough_s);
    steps[index].step_s = pz_fmax(steps[index].step_s, step_s);
    bound = pz_objective_value(objective, steps, &boxed->least);
  }
  return bound;
}

/* Returns an upper bound on the values of a box, from the cheapest bounds on steps. */
double pz_box_quick_bound(struct pz_call *call, const struct pz_box_task *task,
                          const struct pz_box *box) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed boxed;
  pz_boxed_set(task->question->space, box, &boxed);
  return pz_box_bound(call, task, &boxed, PZ_QUICK_BOUND, steps);
}

/* ---- cutting -------------------------------------------------------------------------------- */

/* Returns whether all chips of the box violate a limit. */
static bool is_infeasible(const struct pz_box_task *task, const struct pz_box *box) {
  struct pz_boxed boxed;
  pz_boxed_set(task->question->space, box, &boxed);
  return pz_boxed_breaks(&boxed, &task->question->limits) != NULL;
}

/* Returns the slab of the box between two indices on an axis, both inclusive. */
static struct pz_box slab_of(const struct pz_box *box, enum pz_axis axis, int from, int to) {
  struct pz_box slab = *box;
  slab.lo[axis] = (uint8_t)from;
  slab.hi[axis] = (uint8_t)to;
  return slab;
}

/* Returns the highest index on an axis at which chips of the box may still be within the limits, by
 * bisection.  At the lowest index they may. */
static int highest_feasible(const struct pz_box_task *task, const struct pz_box *box,
                            enum pz_axis axis) {
  /* low is feasible, and everything above high is not */
  int low = box->lo[axis], high = box->hi[axis];
  while (low < high) {
    int middle = (low + high + 1) / 2;
    struct pz_box slab = slab_of(box, axis, middle, box->hi[axis]);
    if (is_infeasible(task, &slab))
      high = middle - 1;
    else
      low = middle;
  }
  return high;
}

/* Closes the largest slab at the bottom of an axis whose bound is not above the cutoff, found by
 * bisection, and cuts it off the box.  Returns whether there is one. */
static bool cut_bottom(struct pz_call *call, const struct pz_box_task *task, struct pz_box *box,
                       enum pz_axis axis) {
  int low = box->lo[axis], high = box->hi[axis]; /* everything below low is excluded */
  double bound = 0;
  while (low < high) {
    int middle = (low + high) / 2;
    struct pz_box slab = slab_of(box, axis, box->lo[axis], middle);
    double slab_bound = pz_box_quick_bound(call, task, &slab);
    if (slab_bound <= task->cutoff) {
      low = middle + 1;
      bound = slab_bound;
    } else {
      high = middle;
    }
  }
  if (low == box->lo[axis]) return false;
  struct pz_box bottom = slab_of(box, axis, box->lo[axis], low - 1);
  pz_append(call, task->closed, &(struct pz_closed_box){bottom, PZ_BOX_BOUND, bound, 0});
  box->lo[axis] = (uint8_t)low;
  return true;
}

/* Cuts slabs from the top and bottom of all axes.  Returns false if nothing remains of the box. */
bool pz_box_tighten(struct pz_call *call, const struct pz_box_task *task, struct pz_box *box) {
  bool has_changed = true;
  while (has_changed) {
    has_changed = false;
    if (is_infeasible(task, box)) {
      pz_append(call, task->closed, &(struct pz_closed_box){*box, PZ_BOX_INFEASIBLE, 0, 0});
      return false;
    }
    double bound = task->has_cheap_bounds ? pz_box_quick_bound(call, task, box) : HUGE_VAL;
    if (bound <= task->cutoff) {
      pz_append(call, task->closed, &(struct pz_closed_box){*box, PZ_BOX_BOUND, bound, 0});
      return false;
    }
    /* the top of an axis violates limits, and the bottom is too slow */
    for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
      int high = box->lo[axis] < box->hi[axis] ? highest_feasible(task, box, axis) : box->hi[axis];
      if (high == box->hi[axis]) continue;
      struct pz_box top = slab_of(box, axis, high + 1, box->hi[axis]);
      pz_append(call, task->closed, &(struct pz_closed_box){top, PZ_BOX_INFEASIBLE, 0, 0});
      box->hi[axis] = (uint8_t)high;
      has_changed = true;
    }
    for (enum pz_axis axis = 0; task->has_cheap_bounds && axis < PZ_AXES; axis++)
      if (box->lo[axis] < box->hi[axis] && cut_bottom(call, task, box, axis)) has_changed = true;
  }
  return true;
}

/* ---- splitting ------------------------------------------------------------------------------ */

/* Estimates the value of the best chip of a box.  This is meaningful only after a tight bound
 * (PZ_TIGHT_BOUND) was computed for a box around it. */
static double estimate_value(struct pz_call *call, const struct pz_box_task *task,
                             const struct pz_box *box) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed boxed;
  pz_boxed_set(task->question->space, box, &boxed);
  set_least_energy(call, task, &boxed, steps);
  for (uint32_t i = 0; i < task->objective->n; i++) {
    uint32_t index = task->objective->models[i];
    const struct pz_search_entry *entry = &task->question->entries[index];
    steps[index].step_s =
        entry->evaluator->ops->estimate(call, entry->evaluator, task->worker, &boxed, entry->model);
  }
  return pz_objective_value(task->objective, steps, &boxed.least);
}

/* Returns the score of splitting the box in the middle of an axis; the lowest is the best.  It is
 * the product of the estimated values of the halves, relative to that of the box, times the square
 * of the larger: a good split lowers both values, above all that of the better half. */
static double score_split(struct pz_call *call, const struct pz_box_task *task,
                          const struct pz_box *box, enum pz_axis axis, double whole_value) {
  int middle = (box->lo[axis] + box->hi[axis]) / 2;
  struct pz_box low = slab_of(box, axis, box->lo[axis], middle);
  struct pz_box high = slab_of(box, axis, middle + 1, box->hi[axis]);
  /* the part of the upper half that violates limits would be cut off next */
  if (!is_infeasible(task, &high))
    for (enum pz_axis a = 0; a < PZ_AXES; a++)
      high.hi[a] = (uint8_t)highest_feasible(task, &high, a);
  double low_value = estimate_value(call, task, &low) / whole_value;
  double high_value = estimate_value(call, task, &high) / whole_value;
  double larger = pz_fmax(low_value, high_value);
  return low_value * high_value * larger * larger;
}

/* Chooses the axis on which to split a box in the middle: that with the best score or, if bounds
 * are expensive, that with the largest ratio of its highest to its lowest value. */
struct pz_box_split pz_box_choose_split(struct pz_call *call, const struct pz_box_task *task,
                                        const struct pz_box *box) {
  const struct pz_space *space = task->question->space;
  double whole_value = task->has_cheap_bounds ? estimate_value(call, task, box) : 0;
  double least = HUGE_VAL;
  enum pz_axis best = PZ_AXES;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
    int lo = box->lo[axis], hi = box->hi[axis];
    if (lo == hi) continue;
    double score = task->has_cheap_bounds
                       ? score_split(call, task, box, axis, whole_value)
                       : -(double)space->value[axis][hi] / (double)space->value[axis][lo];
    if (best != PZ_AXES && score >= least) continue; /* PZ_AXES: none was chosen yet */
    best = axis;
    least = score;
  }
  return (struct pz_box_split){best, (uint8_t)((box->lo[best] + box->hi[best]) / 2)};
}

/* Returns the largest fraction of a limit that a chip uses. */
static double used_fraction(const struct pz_limits *limits, const struct pz_taken *costs) {
  double most = 0;
  if (limits->mm2 > 0) most = pz_fmax(most, costs->mm2 / limits->mm2);
  if (limits->watts > 0) most = pz_fmax(most, costs->watts / limits->watts);
  return limits->dollars > 0 ? pz_fmax(most, costs->dollars / limits->dollars) : most;
}

/* Returns a good chip of the box.  Beginning with the smallest chip, raises the axis with the
 * largest gain as long as there is one: the log ratio of the values after and before, over the
 * additional fraction of the limits.  The quick bound of a chip serves as its value. */
struct pz_point pz_box_greedy(struct pz_call *call, const struct pz_box_task *task,
                              const struct pz_box *box) {
  const struct pz_limits *limits = &task->question->limits;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_box chip = *box; /* a box of one chip */
  memcpy(chip.hi, chip.lo, sizeof chip.hi);
  for (;;) {
    struct pz_boxed boxed;
    enum pz_axis best = PZ_AXES;
    double best_gain = 0;
    pz_boxed_set(task->question->space, &chip, &boxed);
    double value = pz_box_bound(call, task, &boxed, PZ_QUICK_BOUND, steps);
    double fraction = used_fraction(limits, &boxed.least);
    for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
      struct pz_box raised = chip;
      if (chip.hi[axis] == box->hi[axis]) continue;
      raised.hi[axis]++;
      raised.lo[axis] = raised.hi[axis];
      pz_boxed_set(task->question->space, &raised, &boxed);
      if (pz_boxed_breaks(&boxed, limits)) continue;
      double raised_value = pz_box_bound(call, task, &boxed, PZ_QUICK_BOUND, steps);
      /* 1e-6 avoids a division by 0 for axes that use none of the limits */
      double extra_fraction = pz_fmax(used_fraction(limits, &boxed.least) - fraction, 1e-6);
      /* 1e-300 avoids log(0); 1e-9: of axes without gain, the one that uses the least is best */
      double log_ratio = log(raised_value + 1e-300) - log(value + 1e-300) + 1e-9;
      double gain = log_ratio / extra_fraction;
      if (gain > best_gain) {
        best_gain = gain;
        best = axis;
      }
    }
    if (best == PZ_AXES) return pz_box_point(&chip);
    chip.hi[best]++;
    chip.lo[best] = chip.hi[best];
  }
}
