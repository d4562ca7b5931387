/* A partition of a model over a cluster (partition/partition.h) as a table. */
#ifndef PZ_REPORT_PLAN_TABLE_H
#define PZ_REPORT_PLAN_TABLE_H

#include <stdio.h>

#include "core/call.h"

/* Prints one row for each stage; equal neighbours share a row. */
void pz_partition_table(struct pz_call *call, const struct pz_partition *partition, FILE *out);

#endif
