/* A partition of a model over a cluster (partition/partition.h) as text, as a table and as JSON. */
#ifndef PZ_REPORT_PLAN_TABLE_H
#define PZ_REPORT_PLAN_TABLE_H

#include <stdio.h>

#include "core/json.h"

/* Writes "14 stages, 72 replicas, tensor parallel 1, ..." into buf and returns buf. */
const char *pz_partition_text(const struct pz_partition *partition, char *buf, size_t size);

/* Prints one row for each stage; equal neighbours share a row. */
void pz_partition_table(struct pz_call *call, const struct pz_partition *partition, FILE *out);

/* Returns a new reference, or NULL if out of memory.  `with_stages` includes every stage. */
json_t *pz_partition_json(const struct pz_partition *partition, bool with_stages);

#endif
