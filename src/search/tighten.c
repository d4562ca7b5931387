/* Branch and reduce on one box (Ryoo and Sahinidis, 1996).  pz_box_bound() combines the evaluators' bounds on steps to
 * a bound on the value.  pz_box_tighten() cuts slabs from the top of an axis if even the smallest chips there violate a
 * limit (cut_top), and from its bottom if even the best chips there are not above the cutoff (cut_bottom).  More of any
 * axis is never slower and never smaller, which is why both can bisect.  pz_box_choose_split() and pz_box_greedy() only
 * guide the search; no proof depends on them. */
#include "search/tighten.h"

#include <math.h>
#include <string.h>

#include "core/num.h"

/* ---- bounds --------------------------------------------------------------------------------- */

static void set_least_energy(struct pz_call *call, const struct pz_box_task *t,
                             const struct pz_boxed *b, struct pz_step_cost *steps) {
  bool needed = pz_objective_needs_energy(t->o);
  for (uint32_t i = 0; i < t->o->n; i++) {
    uint32_t m = t->o->models[i];
    const struct pz_search_entry *e = &t->q->entries[m];
    bool known = needed && e->by->ops->least_j;
    steps[m].dynamic_j = known ? e->by->ops->least_j(call, e->by, t->worker, b, e->model) : 0;
  }
}

double pz_box_bound(struct pz_call *call, const struct pz_box_task *t, const struct pz_boxed *b,
                    int level, struct pz_step_cost *steps) {
  set_least_energy(call, t, b, steps);
  for (uint32_t i = 0; i < t->o->n; i++) {
    uint32_t m = t->o->models[i];
    const struct pz_search_entry *e = &t->q->entries[m];
    steps[m].step_s = e->by->ops->bound(call, e->by, t->worker, b, e->model, 0, HUGE_VAL);
  }
  double bound = pz_objective_value(t->o, steps, &b->least);
  for (uint32_t i = 0; i < t->o->n && level && bound > t->cutoff; i++) {
    uint32_t m = t->o->models[i];
    const struct pz_search_entry *e = &t->q->entries[m];
    if (!e->by->ops->has_cheap_bounds) continue; /* it has level 0 only */
    double enough_s = pz_objective_limit_s(t->o, steps, &b->least, m, t->cutoff);
    double step_s = e->by->ops->bound(call, e->by, t->worker, b, e->model, level, enough_s);
    steps[m].step_s = pz_fmax(steps[m].step_s, step_s);
    bound = pz_objective_value(t->o, steps, &b->least);
  }
  return bound;
}

static double quick_bound(struct pz_call *call, const struct pz_box_task *t,
                          const struct pz_box *b) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed boxed;
  pz_boxed_set(t->q->space, b, &boxed);
  return pz_box_bound(call, t, &boxed, 0, steps);
}

/* ---- cutting -------------------------------------------------------------------------------- */

/* Whether all chips of the box violate a limit. */
static bool is_infeasible(const struct pz_box_task *t, const struct pz_box *b) {
  struct pz_boxed boxed;
  pz_boxed_set(t->q->space, b, &boxed);
  return pz_boxed_breaks(&boxed, &t->q->limits) != NULL;
}

/* The part of the box from `from` to `to` on an axis. */
static struct pz_box slab(const struct pz_box *b, enum pz_axis a, int from, int to) {
  struct pz_box s = *b;
  s.lo[a] = (uint8_t)from;
  s.hi[a] = (uint8_t)to;
  return s;
}

/* The highest index on an axis with which the smallest chip of the rest of the box violates no limit. */
static int highest_feasible(const struct pz_box_task *t, const struct pz_box *b, enum pz_axis a) {
  int low = b->lo[a], high = b->hi[a]; /* low is feasible, everything above high is not */
  while (low < high) {
    int middle = (low + high + 1) / 2;
    struct pz_box s = slab(b, a, middle, b->hi[a]);
    if (is_infeasible(t, &s))
      high = middle - 1;
    else
      low = middle;
  }
  return high;
}

/* Returns whether a slab was cut off. */
static bool cut_top(struct pz_call *call, const struct pz_box_task *t, struct pz_box *b,
                    enum pz_axis a) {
  int high = highest_feasible(t, b, a);
  if (high == b->hi[a]) return false;
  struct pz_closed_box top = {slab(b, a, high + 1, b->hi[a]), PZ_BOX_INFEASIBLE, 0, 0};
  b->hi[a] = (uint8_t)high;
  pz_append(call, t->closed, &top);
  return true;
}

/* Returns whether a slab was cut off. */
static bool cut_bottom(struct pz_call *call, const struct pz_box_task *t, struct pz_box *b,
                       enum pz_axis a) {
  int low = b->lo[a], high = b->hi[a]; /* everything below low is excluded; high may not be */
  double bound = 0;
  while (low < high) {
    int middle = (low + high) / 2;
    struct pz_box s = slab(b, a, b->lo[a], middle);
    double slab_bound = quick_bound(call, t, &s);
    if (slab_bound <= t->cutoff) {
      low = middle + 1;
      bound = slab_bound;
    } else {
      high = middle;
    }
  }
  if (low == b->lo[a]) return false;
  struct pz_closed_box bottom = {slab(b, a, b->lo[a], low - 1), PZ_BOX_BOUND, bound, 0};
  b->lo[a] = (uint8_t)low;
  pz_append(call, t->closed, &bottom);
  return true;
}

/* One pass over the axes.  Returns false if nothing remains of the box. */
static bool cut_all_axes(struct pz_call *call, const struct pz_box_task *t, struct pz_box *b,
                         bool *changed) {
  *changed = false;
  if (is_infeasible(t, b)) {
    pz_append(call, t->closed, &(struct pz_closed_box){*b, PZ_BOX_INFEASIBLE, 0, 0});
    return false;
  }
  double bound = t->cheap_bounds ? quick_bound(call, t, b) : HUGE_VAL;
  if (bound <= t->cutoff) {
    pz_append(call, t->closed, &(struct pz_closed_box){*b, PZ_BOX_BOUND, bound, 0});
    return false;
  }
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    if (b->lo[a] < b->hi[a] && cut_top(call, t, b, a)) *changed = true;
  for (enum pz_axis a = 0; t->cheap_bounds && a < PZ_AXES; a++)
    if (b->lo[a] < b->hi[a] && cut_bottom(call, t, b, a)) *changed = true;
  return true;
}

bool pz_box_tighten(struct pz_call *call, const struct pz_box_task *t, struct pz_box *b) {
  bool changed = true, remains = true;
  while (changed && remains) remains = cut_all_axes(call, t, b, &changed);
  return remains;
}

/* ---- splitting ------------------------------------------------------------------------------ */

/* Estimates the value of the best chip of a box.  Meaningful only after a bound of level 1 of a box around it. */
static double estimate_value(struct pz_call *call, const struct pz_box_task *t,
                             const struct pz_box *b) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed boxed;
  pz_boxed_set(t->q->space, b, &boxed);
  set_least_energy(call, t, &boxed, steps);
  for (uint32_t i = 0; i < t->o->n; i++) {
    uint32_t m = t->o->models[i];
    const struct pz_search_entry *e = &t->q->entries[m];
    steps[m].step_s = e->by->ops->estimate(call, e->by, t->worker, &boxed, e->model);
  }
  return pz_objective_value(t->o, steps, &boxed.least);
}

/* The value that both halves lose, the lesser half most of all: smaller is better. */
static double score_split(struct pz_call *call, const struct pz_box_task *t, const struct pz_box *b,
                          enum pz_axis a, double whole_value) {
  int middle = (b->lo[a] + b->hi[a]) / 2;
  struct pz_box low = slab(b, a, b->lo[a], middle), high = slab(b, a, middle + 1, b->hi[a]);
  if (!is_infeasible(t, &high))
    for (enum pz_axis k = 0; k < PZ_AXES; k++) high.hi[k] = (uint8_t)highest_feasible(t, &high, k);
  double x = estimate_value(call, t, &low);
  double y = estimate_value(call, t, &high);
  x /= whole_value;
  y /= whole_value;
  return x * y * pz_fmax(x, y) * pz_fmax(x, y);
}

/* The axis with the largest ratio of its highest to its lowest value. */
static enum pz_axis widest_axis(const struct pz_space *s, const struct pz_box *b) {
  enum pz_axis widest = PZ_AXES;
  double largest = 0;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    if (b->lo[a] == b->hi[a]) continue;
    double ratio = (double)s->value[a][b->hi[a]] / (double)s->value[a][b->lo[a]];
    if (ratio > largest) {
      largest = ratio;
      widest = a;
    }
  }
  return widest;
}

struct pz_box_split pz_box_choose_split(struct pz_call *call, const struct pz_box_task *t,
                                        const struct pz_box *b) {
  enum pz_axis axis = PZ_AXES;
  if (t->cheap_bounds) {
    double whole_value = estimate_value(call, t, b), least = HUGE_VAL;
    for (enum pz_axis a = 0; a < PZ_AXES; a++) {
      if (b->lo[a] == b->hi[a]) continue;
      double score = score_split(call, t, b, a, whole_value);
      if (axis != PZ_AXES && score >= least) continue;
      axis = a;
      least = score;
    }
  } else {
    axis = widest_axis(t->q->space, b);
  }
  return (struct pz_box_split){axis, (uint8_t)((b->lo[axis] + b->hi[axis]) / 2)};
}

/* ---- a greedy chip -------------------------------------------------------------------------- */

/* The largest part of a limit that a chip uses. */
static double used_part(const struct pz_limits *l, const struct pz_taken *t) {
  double most = 0;
  if (l->mm2 > 0) most = pz_fmax(most, t->mm2 / l->mm2);
  if (l->watts > 0) most = pz_fmax(most, t->watts / l->watts);
  return l->dollars > 0 ? pz_fmax(most, t->dollars / l->dollars) : most;
}

/* The gain in value, per part of the limits, of the next higher value on an axis.  0 if a limit is violated there. */
static double gain_of_axis(struct pz_call *call, const struct pz_box_task *t,
                           const struct pz_box *chip, enum pz_axis a, double value_now,
                           double part_now) {
  struct pz_box more = *chip;
  struct pz_boxed boxed;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  more.hi[a]++;
  more.lo[a] = more.hi[a];
  pz_boxed_set(t->q->space, &more, &boxed);
  if (pz_boxed_breaks(&boxed, &t->q->limits)) return 0;
  double value = pz_box_bound(call, t, &boxed, 0, steps);
  double cost = pz_fmax(used_part(&t->q->limits, &boxed.least) - part_now, 1e-6);
  return (log(value + 1e-300) - log(value_now + 1e-300) + 1e-9) / cost;
}

struct pz_point pz_box_greedy(struct pz_call *call, const struct pz_box_task *t,
                              const struct pz_box *b) {
  struct pz_box chip = *b;
  memcpy(chip.hi, chip.lo, sizeof chip.hi);
  for (;;) {
    struct pz_boxed boxed;
    struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
    enum pz_axis best = PZ_AXES;
    double best_gain = 0;
    pz_boxed_set(t->q->space, &chip, &boxed);
    double value = pz_box_bound(call, t, &boxed, 0, steps);
    double part = used_part(&t->q->limits, &boxed.least);
    for (enum pz_axis a = 0; a < PZ_AXES; a++) {
      if (chip.hi[a] == b->hi[a]) continue;
      double gain = gain_of_axis(call, t, &chip, a, value, part);
      if (gain > best_gain) {
        best_gain = gain;
        best = a;
      }
    }
    if (best == PZ_AXES) return pz_box_point(&chip);
    chip.hi[best]++;
    chip.lo[best] = chip.hi[best];
  }
}
