/* A plan of a model as text and table: its degrees, the parts of its step time, its stages. */
#ifndef PZ_REPORT_PLAN_TABLE_H
#define PZ_REPORT_PLAN_TABLE_H

#include <stdio.h>

#include "core/arena.h"
#include "core/json.h"

/* "14 stages, 72 replicas, tensor parallel 1, microbatch 1, activations kept" into buf. */
const char *pz_partition_text(const struct pz_partition *p, char *buf, size_t size);

/* One row for each stage, equal neighbours together. */
PZ_NODISCARD enum pz_status pz_plan_table(const struct pz_partition *p, struct pz_arena *arena,
                                          FILE *out);

/* `whole`: with every stage.  New reference; NULL: no memory. */
json_t *pz_partition_json(const struct pz_partition *p, bool whole);

#endif
