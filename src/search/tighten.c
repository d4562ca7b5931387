#include "search/tighten.h"

#include <math.h>
#include <string.h>

#include "core/num.h"

/* ---- bounds --------------------------------------------------------------------------------- */

static enum pz_status bound_entry(const struct pz_box_task *t, const struct pz_boxed *b,
                                  uint32_t entry, int level, double enough_s, double *step_s) {
  const struct pz_search_entry *e = &t->q->entries[entry];
  return e->by->ops->bound(e->by, t->worker, b, e->model, level, enough_s, step_s, t->err);
}

static enum pz_status least_energy(const struct pz_box_task *t, const struct pz_boxed *b,
                                   struct pz_step_cost *steps) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < t->o->n && status == PZ_OK; i++) {
    const struct pz_search_entry *e = &t->q->entries[t->o->models[i]];
    double *joules = &steps[t->o->models[i]].dynamic_j;
    *joules = 0;
    if (pz_objective_needs_energy(t->o) && e->by->ops->least_j)
      status = e->by->ops->least_j(e->by, t->worker, b, e->model, joules, t->err);
  }
  return status;
}

enum pz_status pz_box_bound(const struct pz_box_task *t, const struct pz_boxed *b, int level,
                            struct pz_step_cost *steps, double *bound) {
  enum pz_status status = least_energy(t, b, steps);
  for (uint32_t i = 0; i < t->o->n && status == PZ_OK; i++) {
    uint32_t m = t->o->models[i];
    status = bound_entry(t, b, m, 0, HUGE_VAL, &steps[m].step_s);
  }
  *bound = status == PZ_OK ? pz_objective_value(t->o, steps, &b->least) : HUGE_VAL;
  for (uint32_t i = 0; i < t->o->n && level && status == PZ_OK && *bound > t->cutoff; i++) {
    uint32_t m = t->o->models[i];
    double step_s = 0, enough_s = pz_objective_limit_s(t->o, steps, &b->least, m, t->cutoff);
    if (!t->q->entries[m].by->ops->cheap) continue; /* level 0 is all there is */
    status = bound_entry(t, b, m, level, enough_s, &step_s);
    steps[m].step_s = pz_fmax(steps[m].step_s, step_s);
    *bound = pz_objective_value(t->o, steps, &b->least);
  }
  return status;
}

/* Of level 0. */
static enum pz_status floor_of(const struct pz_box_task *t, const struct pz_box *b, double *bound) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed x;
  pz_boxed_set(t->q->space, b, &x);
  return pz_box_bound(t, &x, 0, steps, bound);
}

/* ---- cutting -------------------------------------------------------------------------------- */

static bool breaks(const struct pz_box_task *t, const struct pz_box *b) {
  struct pz_boxed x;
  pz_boxed_set(t->q->space, b, &x);
  return pz_boxed_breaks(&x, &t->q->limits) != NULL;
}

enum pz_status pz_box_close(const struct pz_box_task *t, const struct pz_closed_box *b) {
  if (pz_vec_push(t->boxes, b)) return PZ_OK;
  return pz_fail(t->err, PZ_NO_MEMORY, "out of memory for the boxes");
}

/* The part of the box from `from` to `to` on an axis. */
static struct pz_box slab(const struct pz_box *b, enum pz_axis a, int from, int to) {
  struct pz_box s = *b;
  s.lo[a] = (uint8_t)from;
  s.hi[a] = (uint8_t)to;
  return s;
}

/* The largest value of an axis with which not even the least of everything else breaks a limit. */
static int highest(const struct pz_box_task *t, const struct pz_box *b, enum pz_axis a) {
  int low = b->lo[a], high = b->hi[a]; /* low does not break; above high all do */
  while (low < high) {
    int middle = (low + high + 1) / 2;
    struct pz_box s = slab(b, a, middle, b->hi[a]);
    if (breaks(t, &s))
      high = middle - 1;
    else
      low = middle;
  }
  return high;
}

static enum pz_status cut_top(const struct pz_box_task *t, struct pz_box *b, enum pz_axis a,
                              bool *changed) {
  int high = highest(t, b, a);
  if (high == b->hi[a]) return PZ_OK;
  struct pz_closed_box top = {slab(b, a, high + 1, b->hi[a]), PZ_BOX_INFEASIBLE, 0, 0};
  b->hi[a] = (uint8_t)high;
  *changed = true;
  return pz_box_close(t, &top);
}

/* With the least values of an axis even the most of everything else is not enough. */
static enum pz_status cut_bottom(const struct pz_box_task *t, struct pz_box *b, enum pz_axis a,
                                 bool *changed) {
  int low = b->lo[a], high = b->hi[a]; /* below low none is enough; high may be */
  double bound = 0;
  while (low < high) {
    int middle = (low + high) / 2;
    struct pz_box s = slab(b, a, b->lo[a], middle);
    double most = 0;
    enum pz_status status = floor_of(t, &s, &most);
    if (status != PZ_OK) return status;
    if (most <= t->cutoff) {
      low = middle + 1;
      bound = most;
    } else {
      high = middle;
    }
  }
  if (low == b->lo[a]) return PZ_OK;
  struct pz_closed_box bottom = {slab(b, a, b->lo[a], low - 1), PZ_BOX_BOUND, bound, 0};
  b->lo[a] = (uint8_t)low;
  *changed = true;
  return pz_box_close(t, &bottom);
}

/* One pass over the axes. */
static enum pz_status cut(const struct pz_box_task *t, struct pz_box *b, bool *left,
                          bool *changed) {
  enum pz_status status = PZ_OK;
  double most = HUGE_VAL;
  *changed = *left = false;
  if (breaks(t, b)) return pz_box_close(t, &(struct pz_closed_box){*b, PZ_BOX_INFEASIBLE, 0, 0});
  if (t->cheap) status = floor_of(t, b, &most);
  if (status == PZ_OK && most <= t->cutoff)
    return pz_box_close(t, &(struct pz_closed_box){*b, PZ_BOX_BOUND, most, 0});
  for (enum pz_axis a = 0; a < PZ_AXES && status == PZ_OK; a++)
    if (b->lo[a] < b->hi[a]) status = cut_top(t, b, a, changed);
  for (enum pz_axis a = 0; t->cheap && a < PZ_AXES && status == PZ_OK; a++)
    if (b->lo[a] < b->hi[a]) status = cut_bottom(t, b, a, changed);
  *left = true;
  return status;
}

enum pz_status pz_box_tighten(const struct pz_box_task *t, struct pz_box *b, bool *left) {
  bool changed = false;
  enum pz_status status = cut(t, b, left, &changed);
  while (status == PZ_OK && changed && *left) status = cut(t, b, left, &changed);
  return status;
}

/* ---- splitting ------------------------------------------------------------------------------ */

/* What the box is worth, about; of some use only after its bound. */
static enum pz_status estimate_of(const struct pz_box_task *t, const struct pz_box *b,
                                  double *value) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_boxed x;
  pz_boxed_set(t->q->space, b, &x);
  enum pz_status status = least_energy(t, &x, steps);
  for (uint32_t i = 0; i < t->o->n && status == PZ_OK; i++) {
    uint32_t m = t->o->models[i];
    const struct pz_search_entry *e = &t->q->entries[m];
    status = e->by->ops->estimate(e->by, t->worker, &x, e->model, &steps[m].step_s, t->err);
  }
  *value = pz_objective_value(t->o, steps, &x.least);
  return status;
}

static enum pz_status score_axis(const struct pz_box_task *t, const struct pz_box *b,
                                 enum pz_axis a, double all, double *score) {
  int middle = (b->lo[a] + b->hi[a]) / 2;
  struct pz_box low = slab(b, a, b->lo[a], middle), high = slab(b, a, middle + 1, b->hi[a]);
  double x = 0, y = 0;
  if (!breaks(t, &high))
    for (enum pz_axis k = 0; k < PZ_AXES; k++) high.hi[k] = (uint8_t)highest(t, &high, k);
  enum pz_status status = estimate_of(t, &low, &x);
  if (status == PZ_OK) status = estimate_of(t, &high, &y);
  x /= all;
  y /= all;
  *score = x * y * pz_fmax(x, y) * pz_fmax(x, y); /* what both lose, most of all the lesser */
  return status;
}

/* The axis on which the highest value is most times the lowest. */
static enum pz_axis widest(const struct pz_space *s, const struct pz_box *b) {
  enum pz_axis best = PZ_AXES;
  double most = 0;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    if (b->lo[a] == b->hi[a]) continue;
    double ratio = (double)s->value[a][b->hi[a]] / (double)s->value[a][b->lo[a]];
    if (ratio > most) most = ratio, best = a;
  }
  return best;
}

enum pz_status pz_box_split_axis(const struct pz_box_task *t, const struct pz_box *b,
                                 enum pz_axis *axis, uint8_t *at) {
  enum pz_status status = PZ_OK;
  double all = 0, least = HUGE_VAL;
  *axis = PZ_AXES;
  if (t->cheap) status = estimate_of(t, b, &all);
  for (enum pz_axis a = 0; t->cheap && a < PZ_AXES && status == PZ_OK; a++) {
    double score = 0;
    if (b->lo[a] == b->hi[a]) continue;
    status = score_axis(t, b, a, all, &score);
    if (*axis != PZ_AXES && score >= least) continue;
    *axis = a;
    least = score;
  }
  if (!t->cheap) *axis = widest(t->q->space, b);
  *at = (uint8_t)((b->lo[*axis] + b->hi[*axis]) / 2);
  return status;
}

/* ---- good chips ----------------------------------------------------------------------------- */

/* The largest part of a limit that a chip takes. */
static double used(const struct pz_limits *l, const struct pz_taken *t) {
  double most = 0;
  if (l->mm2 > 0) most = pz_fmax(most, t->mm2 / l->mm2);
  if (l->watts > 0) most = pz_fmax(most, t->watts / l->watts);
  return l->dollars > 0 ? pz_fmax(most, t->dollars / l->dollars) : most;
}

/* One more of an axis: what it gains for what it costs; not above 0 where it breaks a limit. */
static enum pz_status gain_of(const struct pz_box_task *t, const struct pz_box *chip,
                              enum pz_axis a, double now, double before, double *gain) {
  struct pz_box more = *chip;
  struct pz_boxed x;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  double then = 0;
  more.lo[a] = ++more.hi[a];
  *gain = 0;
  pz_boxed_set(t->q->space, &more, &x);
  if (pz_boxed_breaks(&x, &t->q->limits)) return PZ_OK;
  enum pz_status status = pz_box_bound(t, &x, 0, steps, &then);
  double cost = pz_fmax(used(&t->q->limits, &x.least) - before, 1e-6);
  *gain = (log(then + 1e-300) - log(now + 1e-300) + 1e-9) / cost;
  return status;
}

enum pz_status pz_box_greedy(const struct pz_box_task *t, const struct pz_box *b,
                             struct pz_point *out) {
  struct pz_box chip = *b;
  enum pz_status status = PZ_OK;
  memcpy(chip.hi, chip.lo, sizeof chip.hi);
  for (enum pz_axis best = 0; best != PZ_AXES && status == PZ_OK;) {
    struct pz_boxed x;
    struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
    double now = 0, gain = 0;
    best = PZ_AXES;
    pz_boxed_set(t->q->space, &chip, &x);
    status = pz_box_bound(t, &x, 0, steps, &now);
    double before = used(&t->q->limits, &x.least);
    for (enum pz_axis a = 0; a < PZ_AXES && status == PZ_OK; a++) {
      double g = 0;
      if (chip.hi[a] == b->hi[a]) continue;
      status = gain_of(t, &chip, a, now, before, &g);
      if (g > gain) gain = g, best = a;
    }
    if (best != PZ_AXES) chip.lo[best] = ++chip.hi[best];
  }
  *out = pz_box_point(&chip);
  return status;
}
