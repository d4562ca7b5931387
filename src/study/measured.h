/* Measured data built into the library: training runs (measured/runs), operators and single-device
 * steps of an H200 (tests/data), and the limits that validation keeps: of these (measured/limits.csv),
 * and, where they are asked for, of tables of operators by chip and kind (measured/limits_ops.csv). */
#ifndef PZ_STUDY_MEASURED_H
#define PZ_STUDY_MEASURED_H

#include "chip/embedded.h"

extern const struct pz_embedded pz_embedded_runs[], pz_embedded_operators[], pz_embedded_steps[],
    pz_embedded_limits[];

#endif
