/* Options of a workload: names of the choices, and the checks that hold for every model. */
#ifndef PZ_WORKLOAD_OPTIONS_H
#define PZ_WORKLOAD_OPTIONS_H

#include "core/status.h"

/* The options of a caller, whose struct may be of an older header; NULL: the defaults. */
PZ_NODISCARD enum pz_status pz_workload_options_take(const struct pz_workload_options *caller,
                                                     struct pz_workload_options *out,
                                                     struct pz_error *err);

/* All sizes and choices in range.  `least` is 1 for the sequence length and the number of
 * layers, or 0 where 0 stands for what the model's file has. */
PZ_NODISCARD enum pz_status pz_workload_options_check(const struct pz_workload_options *o,
                                                      int64_t least, struct pz_error *err);

#endif
