/* What a whole training run costs: steps, days, device-hours, dollars, energy; and with failures
 * the interval between checkpoints and the goodput. */
#ifndef PZ_STEP_RUN_COST_H
#define PZ_STEP_RUN_COST_H

#include <phaze/phaze.h>

/* Seconds of work between checkpoints of `checkpoint_s` that make a run with failures every
 * `mtbf_s` shortest: J. W. Young, CACM 17(9), 1974, with the higher terms of J. T. Daly, Future
 * Generation Computer Systems 22(3), 2006. */
double pz_checkpoint_interval_s(double checkpoint_s, double mtbf_s);

/* Returns the part of the time that is work which is not done again: Daly's expected run time,
 * with failures also while a checkpoint is written and while the run is started again. */
double pz_checkpoint_goodput(double interval_s, double checkpoint_s, double restart_s,
                             double mtbf_s);

#endif
