/* A plan as JSON, and its fields for results that hold plans. */
#ifndef PZ_PARTITION_PARTITION_JSON_H
#define PZ_PARTITION_PARTITION_JSON_H

#include "core/record.h"
#include "partition/partition.h"

/* Of struct pz_partition. */
extern const struct pz_record pz_partition_record;

/* `whole`: with every stage.  New reference; NULL: no memory. */
json_t *pz_partition_json(const struct pz_partition *p, bool whole);

#endif
