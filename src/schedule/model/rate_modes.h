/* Modes at lower rates: an operator may hold less of the bandwidth of HBM and global buffer than it
 * could use, and then takes longer.
 *
 * Shares of the two bandwidths come in levels that are the same for every chip (rate_modes.c), as
 * cores come in powers of two or all.  An operator on given cores that holds shares h, g and w takes
 *   max(its latency on these cores with a share w of the watts, time at HBM / h, time at global buffer / g).
 *
 * More hardware is never slower.  Let chip B have at least as much of everything as chip A (cores,
 * lanes, clock, bandwidths, bytes of the global buffer, link; the array's shape is the same), and
 * let no operator on the same number of cores take longer on B, nor need more time at a memory.
 * Then every schedule of A is one of B, with the same start times, once each operator runs in the
 * mode of B that has the same shares and
 *   - the same number of cores, if that is a power of two;
 *   - all cores of B, if it was all of A: no other operator held any of them.
 * It ends no later, since each of the three terms is no larger; and shares, which are relative to
 * each chip's own bandwidth, add up as before.  So the best schedule of B is no longer than that of
 * A.  A share of exactly what an operator needs, as a number of its own for every operator and
 * chip, would not allow this: a faster operator needs more, and no longer fits beside another.
 *
 * The second assumption is the mapper's, which minimises time and then energy: rarely it finds for a
 * faster core a mapping that asks more of the global buffer than that for the slower one.  Then a
 * schedule can be longer: one in 2,500 random pairs of chips and layers, by 0.12%.
 *
 * What is left out: modes that take longer than a schedule that is known, and modes that another
 * mode dominates.  Neither is needed by a shortest schedule. */
#ifndef PZ_SCHEDULE_MODEL_RATE_MODES_H
#define PZ_SCHEDULE_MODEL_RATE_MODES_H

#include "core/vec.h"
#include "schedule/model/problem.h"

enum { PZ_RATE_LEVELS = 8 };

/* Shares of a bandwidth or of the watts, ascending; the last is 1. */
double pz_rate_level(int i);

/* An operator on some cores, as fast as they are.  Power is one more bandwidth: with a share of the watts it runs at the
 * clock that these allow, and what runs side by side holds shares that add up to 1 at most. */
struct pz_full_mode {
  struct pz_mode at;
  bool limited; /* by watts: what follows is known */
  double power_s[PZ_RATE_LEVELS],
      power_j
          [PZ_RATE_LEVELS]; /* with each share of them: no longer with more; the last: at.s, at.j */
};

/* Adds the modes of an operator to `out` (struct pz_mode): those of `full` (struct pz_full_mode), in which it is as fast
 * as its cores are, fewest cores first, and slower ones up to limit_s; without those that others
 * dominate, by decreasing duration for each number of cores.  False: out of memory. */
PZ_NODISCARD bool pz_rate_modes(const struct pz_vec *full, double limit_s, struct pz_vec *out);

/* The same without slower ones: each holds the share of a bandwidth that it needs, to one of
 * PZ_RATE_PARTS (rules.rate_levels false). */
PZ_NODISCARD bool pz_full_rate_modes(const struct pz_vec *full, struct pz_vec *out);

#endif
