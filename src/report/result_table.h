/* The result of a search: the chip, its plans, sensitivity, the reference, the proof. */
#ifndef PZ_REPORT_RESULT_TABLE_H
#define PZ_REPORT_RESULT_TABLE_H

#include <stdio.h>

#include "core/arena.h"
#include "core/json.h"

PZ_NODISCARD enum pz_status pz_result_print(const struct pz_result *r, struct pz_arena *arena,
                                            FILE *out);

/* The same for machines, with the time that it took; takes over the reference.  NULL: no memory. */
json_t *pz_result_report_json(const struct pz_result *r, json_t *timing);

#endif
