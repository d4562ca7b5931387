/* Builds modes at lower rates (rate_modes.h).
 *
 * For each number of cores, list_durations() finds the durations at which one of the shares falls to a lower level.  Each
 * of them becomes a mode that holds the lowest levels that suffice for its duration. */
#include "schedule/model/rate_modes.h"

#include <math.h>
#include <stdlib.h>

/* The levels in parts of PZ_RATE_PARTS, ascending: quarters, and towards 0 and 1 a sixteenth and
 * 1/256, so that the rest beside a small share is a level too.  With more levels schedules are
 * hardly shorter and fewer are proven optimal, with fewer levels they are longer (tuned on the
 * layers of bench_layers). */
#define PART(numerator, denominator) (PZ_RATE_PARTS / (denominator) * (numerator))
static const int32_t levels[] = {PART(1, 256), PART(1, 16),  PART(1, 4),     PART(1, 2),
                                 PART(3, 4),   PART(15, 16), PART(255, 256), PZ_RATE_PARTS};
enum { LEVELS = PZ_RATE_LEVELS, MAX_DURATIONS = 3 * LEVELS + 1 };
_Static_assert(sizeof levels / sizeof *levels == LEVELS, "the header has this number");
_Static_assert(PZ_RATE_PARTS % 256 == 0, "levels are whole parts");

/* Returns the i-th level as a fraction of the full rate. */
double pz_rate_level(int i) { return (double)levels[i] / PZ_RATE_PARTS; }

/* Returns the lowest level of bandwidth at which a transfer that takes memory_s at full bandwidth
 * ends within duration_s, up to rounding errors. */
static int32_t memory_level(double memory_s, double duration_s) {
  if (!(memory_s > 0 && duration_s > 0)) return 0;
  double parts = memory_s / duration_s * PZ_RATE_PARTS * (1 - 1e-12);
  int i = 0;
  while (i + 1 < LEVELS && levels[i] < parts) i++;
  return levels[i];
}

/* Compares two doubles for qsort(), in descending order. */
static int compare_descending(const void *left, const void *right) {
  double first = *(const double *)left, second = *(const double *)right;
  return (first < second) - (first > second);
}

/* Lists the durations up to the limit at which one of the shares falls to a lower level, in
 * descending order, and as the last one the duration at the full rate.  Returns their number. */
static int list_durations(const struct pz_full_mode *full, double limit_s,
                          double durations[MAX_DURATIONS]) {
  const double memory_s[] = {full->mode.hbm_s, full->mode.glb_s};
  const bool shares_power = full->limited; /* power_s[] has the time at each share of the power */
  int n = 0;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < LEVELS && memory_s[k] > 0; i++) {
      double duration_s = memory_s[k] / levels[i] * PZ_RATE_PARTS;
      if (duration_s > full->mode.duration && duration_s <= limit_s) durations[n++] = duration_s;
    }
  for (int i = 0; i < LEVELS && shares_power; i++)
    if (full->power_s[i] > full->mode.duration && full->power_s[i] <= limit_s)
      durations[n++] = full->power_s[i];
  qsort(durations, (size_t)n, sizeof *durations, compare_descending);
  durations[n++] = full->mode.duration;
  return n;
}

/* Appends the modes of an operator at full and at lower rates that no other mode dominates: one
 * that takes no longer and holds no more of any resource. */
void pz_append_rate_modes(struct pz_call *call, const struct pz_vec *full, double limit_s,
                          struct pz_vec *modes) {
  /* the members of enum pz_resource before the shares: tensor cores, vector cores and link */
  enum { UNITS = PZ_HBM_RATE };
  double durations[MAX_DURATIONS];
  for (uint32_t k = 0; k < full->n; k++) {
    const struct pz_full_mode *full_mode = pz_vec_at(full, struct pz_full_mode, k);
    /* A mode on fewer cores that needs no more of the memories dominates slower modes on more
     * cores.  One that shares limited power does not: it may need a larger share than they do. */
    double shortest_s = limit_s;
    for (uint32_t fewer = 0; fewer < k; fewer++) {
      const struct pz_full_mode *other = pz_vec_at(full, struct pz_full_mode, fewer);
      bool needs_less = !other->limited && other->mode.hbm_s <= full_mode->mode.hbm_s &&
                        other->mode.glb_s <= full_mode->mode.glb_s;
      for (int r = 0; r < UNITS && needs_less; r++)
        needs_less = other->mode.use[r] <= full_mode->mode.use[r];
      if (needs_less) shortest_s = fmin(shortest_s, other->mode.duration);
    }
    int n = list_durations(full_mode, shortest_s, durations);
    for (int i = 0; i < n; i++) {
      struct pz_mode mode = full_mode->mode;
      bool dominated = false;
      mode.duration = durations[i];
      mode.use[PZ_HBM_RATE] = memory_level(mode.hbm_s, mode.duration);
      mode.use[PZ_GLB_RATE] = memory_level(mode.glb_s, mode.duration);
      if (full_mode->limited) { /* the lowest level of power that suffices for the duration */
        int level = 0;
        while (level + 1 < LEVELS && full_mode->power_s[level] > mode.duration * (1 + 1e-12))
          level++;
        mode.use[PZ_POWER] = levels[level];
        mode.energy_j = full_mode->power_j[level];
      }
      for (uint32_t m = 0; m < modes->n && !dominated; m++) {
        const struct pz_mode *other = pz_vec_at(modes, struct pz_mode, m);
        dominated = other->duration <= mode.duration && pz_mode_fits(mode.use, other);
      }
      if (!dominated) pz_append(call, modes, &mode);
    }
  }
}

/* Appends the modes of `full`, each with the shares of the bandwidths that it needs. */
void pz_append_full_rate_modes(struct pz_call *call, const struct pz_vec *full,
                               struct pz_vec *modes) {
  for (uint32_t k = 0; k < full->n; k++) {
    struct pz_mode mode = pz_vec_at(full, struct pz_full_mode, k)->mode;
    if (mode.duration > 0) { /* the shares that move the bytes within the duration, rounded up */
      double hbm_share = fmin(1, mode.hbm_s / mode.duration);
      double glb_share = fmin(1, mode.glb_s / mode.duration);
      mode.use[PZ_HBM_RATE] = (int32_t)ceil(hbm_share * PZ_RATE_PARTS);
      mode.use[PZ_GLB_RATE] = (int32_t)ceil(glb_share * PZ_RATE_PARTS);
    }
    pz_append(call, modes, &mode);
  }
}
