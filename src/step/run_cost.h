/* The cost of a whole training run in steps, days, device-hours, dollars and energy, and under
 * failures the interval between checkpoints and the goodput. */
#ifndef PZ_STEP_RUN_COST_H
#define PZ_STEP_RUN_COST_H

#include <phaze/phaze.h>

/* Returns the seconds of work between checkpoints that minimise the run time, if a checkpoint
 * takes `checkpoint_s` and failures occur every `mtbf_s`: J. W. Young, CACM 17(9), 1974, with
 * the higher-order terms of J. T. Daly, Future Generation Computer Systems 22(3), 2006. */
double pz_checkpoint_interval_s(double checkpoint_s, double mtbf_s);

/* Returns the part of the run time that is useful work, by Daly's expected run time.  Failures
 * also occur during checkpoints and restarts. */
double pz_checkpoint_goodput(double interval_s, double checkpoint_s, double restart_s,
                             double mtbf_s);

#endif
