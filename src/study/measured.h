/* Measured data that are built into the library, as text: training runs (measured/runs),
 * operators and single-device steps of an H200 (tests/data), and the limits that a validation
 * checks.  The table "limits" (measured/limits.csv) is for the built-in data; "limits_ops"
 * (measured/limits_ops.csv) is for tables of operators by chip and kind, on request. */
#ifndef PZ_STUDY_MEASURED_H
#define PZ_STUDY_MEASURED_H

#include "chip/embedded.h"

extern const struct pz_embedded pz_embedded_runs[], pz_embedded_operators[], pz_embedded_steps[],
    pz_embedded_limits[];

#endif
