/* The result of a search for people: the chip, its plans, sensitivity, the reference, the proof. */
#ifndef PZ_REPORT_RESULT_TABLE_H
#define PZ_REPORT_RESULT_TABLE_H

#include <stdio.h>

#include "core/arena.h"

PZ_NODISCARD enum pz_status pz_result_print(const struct pz_result *r, struct pz_arena *arena,
                                            FILE *out);

#endif
