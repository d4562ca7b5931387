/* A partition of a model over a cluster (partition/partition.h) as text and as a table. */
#ifndef PZ_REPORT_PLAN_TABLE_H
#define PZ_REPORT_PLAN_TABLE_H

#include <stdio.h>

#include "core/call.h"

/* Writes "14 stages, 72 replicas, tensor parallel 1, ..." into buf and returns buf. */
const char *pz_partition_text(const struct pz_partition *partition, char *buf, size_t size);

/* Prints one row for each stage; equal neighbours share a row. */
void pz_partition_table(struct pz_call *call, const struct pz_partition *partition, FILE *out);

#endif
