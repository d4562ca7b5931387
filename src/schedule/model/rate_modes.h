/* Modes at lower rates: an operator may hold less of the bandwidth of HBM and global buffer, or less power, than it could
 * use, and then takes longer.
 *
 * Shares of the bandwidths and of power come in levels that are the same for every chip (rate_modes.c), like cores, which
 * come in powers of two or all.  An operator on given cores that holds the shares h, g and w takes
 *   max(its latency on these cores with a share w of the watts, time at HBM / h, time at global buffer / g).
 *
 * Because of the levels, more hardware is never slower.  Let chip B have at least as much of everything as chip A (cores,
 * lanes, clock, bandwidths, bytes of the global buffer, link; the array's shape is the same), and let no operator on the
 * same number of cores take longer on B, or need more time at a memory.  Then every schedule of A is one of B with the
 * same start times, once each operator runs in the mode of B that has the same shares and
 *   - the same number of cores, if that is a power of two;
 *   - all cores of B, if it had all cores of A: no other operator held any of them.
 * It ends no later, because each of the three terms is no larger; and shares, which are relative to each chip's own
 * bandwidth, add up as before.  Therefore the best schedule of B is no longer than that of A.  If an operator could hold
 * exactly the share that it needs, this would not hold: a faster operator needs more, and no longer fits beside another.
 *
 * The second assumption depends on the mapper, which minimises time and then energy.  Rarely, it finds for a faster core a
 * mapping that needs more of the global buffer than that for the slower one, and then a schedule can be longer: one in
 * 2,500 random pairs of chips and layers, by 0.12%.
 *
 * Modes that take longer than a known schedule, and modes that another mode dominates, are left out.  A shortest schedule
 * needs neither. */
#ifndef PZ_SCHEDULE_MODEL_RATE_MODES_H
#define PZ_SCHEDULE_MODEL_RATE_MODES_H

#include "core/vec.h"
#include "schedule/model/problem.h"

enum { PZ_RATE_LEVELS = 8 };

/* Returns the i-th share of a bandwidth or of the watts, in ascending order; the last is 1. */
double pz_rate_level(int i);

/* The mode of an operator at full rate on some cores.  Power is shared like a bandwidth: with a share
 * of the watts the operator runs at the clock that these allow, and the shares of concurrent
 * operators add up to at most 1. */
struct pz_full_mode {
  struct pz_mode mode;
  bool limited; /* whether power limits the operator, so that the following members are set */
  /* time and energy by share of the watts; the time does not grow with the share, and the last
   * values are mode.duration and mode.energy_j */
  double power_s[PZ_RATE_LEVELS], power_j[PZ_RATE_LEVELS];
};

/* Appends to `modes` (struct pz_mode) the modes of an operator: the full-rate modes in `full` (struct
 * pz_full_mode, fewest cores first), and modes at lower rates with durations up to limit_s.
 * Dominated modes are left out.  For each number of cores, durations descend. */
void pz_append_rate_modes(struct pz_call *call, const struct pz_vec *full, double limit_s,
                          struct pz_vec *modes);

/* Appends the modes of `full` without slower ones.  Each holds the share of a bandwidth that it
 * needs, rounded up to one of PZ_RATE_PARTS (rules.rate_levels is false). */
void pz_append_full_rate_modes(struct pz_call *call, const struct pz_vec *full,
                               struct pz_vec *modes);

#endif
