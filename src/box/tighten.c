#include "box/tighten.h"

#include <math.h>

#include "core/num.h"

static bool breaks(const struct pz_box_task *t, const struct pz_box *b) {
  struct pz_chip lo, hi;
  pz_box_lo(t->s, b, &lo);
  pz_box_hi(t->s, b, &hi);
  struct pz_taken least = pz_chip_taken(&lo), most = pz_chip_taken(&hi);
  return pz_limits_broken(t->limits, &least, &most) != NULL;
}

static double floor_of(const struct pz_box_task *t, const struct pz_box *b) {
  struct pz_chip lo, hi;
  pz_box_lo(t->s, b, &lo);
  pz_box_hi(t->s, b, &hi);
  struct pz_taken least = pz_chip_taken(&lo);
  double bound = HUGE_VAL;
  enum pz_status status = pz_judge_floor(t->judge, &hi, &least, &bound, t->err);
  if (status == PZ_OK) return bound;
  *t->status = status;
  return HUGE_VAL;
}

/* What the box is worth, about; of some use only after its bound. */
static double estimate_of(const struct pz_box_task *t, const struct pz_box *b) {
  struct pz_chip lo, hi;
  pz_box_lo(t->s, b, &lo);
  pz_box_hi(t->s, b, &hi);
  struct pz_taken least = pz_chip_taken(&lo);
  double value = HUGE_VAL;
  enum pz_status status = pz_judge_estimate(t->judge, &hi, &least, &value, t->err);
  if (status != PZ_OK) *t->status = status;
  return value;
}

static enum pz_status close_box(const struct pz_box_task *t, const struct pz_box *b,
                                enum pz_box_end end, double bound) {
  struct pz_closed_box one = {*b, end, bound};
  if (pz_vec_push(t->boxes, &one)) return PZ_OK;
  return pz_fail(t->err, PZ_NO_MEMORY, "out of memory for the boxes");
}

/* The part of the box from `from` to `to` on an axis. */
static struct pz_box slab(const struct pz_box *b, enum pz_range_axis a, int from, int to) {
  struct pz_box s = *b;
  s.lo[a] = (uint8_t)from;
  s.hi[a] = (uint8_t)to;
  return s;
}

/* The largest values of an axis break a limit even with the least of everything else. */
static enum pz_status cut_top(const struct pz_box_task *t, struct pz_box *b, enum pz_range_axis a,
                              bool *changed) {
  int low = b->lo[a], high = b->hi[a]; /* low does not break; above high all do */
  while (low < high) {
    int middle = (low + high + 1) / 2;
    struct pz_box s = slab(b, a, middle, b->hi[a]);
    if (breaks(t, &s))
      high = middle - 1;
    else
      low = middle;
  }
  if (high == b->hi[a]) return PZ_OK;
  struct pz_box s = slab(b, a, high + 1, b->hi[a]);
  b->hi[a] = (uint8_t)high;
  *changed = true;
  return close_box(t, &s, PZ_BOX_INFEASIBLE, 0);
}

/* With the least values of an axis even the most of everything else is not enough. */
static enum pz_status cut_bottom(const struct pz_box_task *t, struct pz_box *b,
                                 enum pz_range_axis a, bool *changed) {
  int low = b->lo[a], high = b->hi[a]; /* below low none is enough; high may be */
  double bound = 0;
  while (low < high) {
    int middle = (low + high) / 2;
    struct pz_box s = slab(b, a, b->lo[a], middle);
    double most = floor_of(t, &s);
    if (most <= t->cutoff) {
      low = middle + 1;
      bound = most;
    } else {
      high = middle;
    }
  }
  if (low == b->lo[a]) return PZ_OK;
  struct pz_box s = slab(b, a, b->lo[a], low - 1);
  b->lo[a] = (uint8_t)low;
  *changed = true;
  return close_box(t, &s, PZ_BOX_BOUND, bound);
}

enum pz_status pz_box_tighten(const struct pz_box_task *t, struct pz_box *b, bool *left) {
  enum pz_status status = PZ_OK;
  bool changed = true;
  *left = false;
  while (changed && status == PZ_OK) {
    changed = false;
    if (breaks(t, b)) return close_box(t, b, PZ_BOX_INFEASIBLE, 0);
    double most = floor_of(t, b);
    if (most <= t->cutoff) return close_box(t, b, PZ_BOX_BOUND, most);
    for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES && status == PZ_OK; a++)
      if (b->lo[a] < b->hi[a]) status = cut_top(t, b, a, &changed);
    for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES && status == PZ_OK; a++)
      if (b->lo[a] < b->hi[a]) status = cut_bottom(t, b, a, &changed);
  }
  *left = true;
  return status == PZ_OK ? *t->status : status;
}

/* ---- splitting ------------------------------------------------------------------------------ */

/* The largest values of all axes that limits leave, without closing anything. */
static void shrink(const struct pz_box_task *t, struct pz_box *b) {
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
    int low = b->lo[a], high = b->hi[a];
    while (low < high) {
      int middle = (low + high + 1) / 2;
      struct pz_box s = slab(b, a, middle, b->hi[a]);
      if (breaks(t, &s))
        high = middle - 1;
      else
        low = middle;
    }
    b->hi[a] = (uint8_t)high;
  }
}

enum pz_range_axis pz_box_split_axis(const struct pz_box_task *t, const struct pz_box *b,
                                     uint8_t *at) {
  enum pz_range_axis best = PZ_RANGE_AXES;
  double all = estimate_of(t, b), least = HUGE_VAL;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
    if (b->lo[a] == b->hi[a]) continue;
    int middle = (b->lo[a] + b->hi[a]) / 2;
    struct pz_box low = slab(b, a, b->lo[a], middle), high = slab(b, a, middle + 1, b->hi[a]);
    if (!breaks(t, &high)) shrink(t, &high);
    double x = estimate_of(t, &low) / all, y = estimate_of(t, &high) / all;
    /* what both halves lose, most of all the one that loses less */
    double score = x * y * pz_fmax(x, y) * pz_fmax(x, y);
    if (best != PZ_RANGE_AXES && score >= least) continue;
    best = a;
    least = score;
    *at = (uint8_t)middle;
  }
  return best;
}

/* ---- good chips ----------------------------------------------------------------------------- */

/* The largest part of a limit that a chip takes. */
static double used(const struct pz_limits *l, const struct pz_taken *t) {
  double most = 0;
  if (l->mm2 > 0) most = pz_fmax(most, t->mm2 / l->mm2);
  if (l->watts > 0) most = pz_fmax(most, t->watts / l->watts);
  return l->dollars > 0 ? pz_fmax(most, t->dollars / l->dollars) : most;
}

void pz_box_greedy(const struct pz_box_task *t, const struct pz_box *b, struct pz_box *chip) {
  struct pz_chip c;
  struct pz_taken taken;
  *chip = *b;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) chip->hi[a] = chip->lo[a];
  for (;;) {
    enum pz_range_axis best = PZ_RANGE_AXES;
    double gain = 0, now = floor_of(t, chip);
    pz_box_lo(t->s, chip, &c);
    taken = pz_chip_taken(&c);
    double before = used(t->limits, &taken);
    for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
      struct pz_box more = *chip;
      if (chip->hi[a] == b->hi[a]) continue;
      more.lo[a] = ++more.hi[a];
      if (breaks(t, &more)) continue;
      pz_box_lo(t->s, &more, &c);
      taken = pz_chip_taken(&c);
      double cost = pz_fmax(used(t->limits, &taken) - before, 1e-6);
      double g = (log(floor_of(t, &more) + 1e-300) - log(now + 1e-300) + 1e-9) / cost;
      if (g > gain) gain = g, best = a;
    }
    if (best == PZ_RANGE_AXES) return;
    chip->lo[best] = ++chip->hi[best];
  }
}
