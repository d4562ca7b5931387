/* A workload as JSON and as a drawing. */
#ifndef PZ_WORKLOAD_WORKLOAD_JSON_H
#define PZ_WORKLOAD_WORKLOAD_JSON_H

#include "core/json.h"

/* New reference, the caller's; NULL when out of memory. */
json_t *pz_workload_json(const struct pz_workload *w);

#endif
