/* A workload as JSON and as a drawing. */
#ifndef PZ_WORKLOAD_WORKLOAD_JSON_H
#define PZ_WORKLOAD_WORKLOAD_JSON_H

#include <stdio.h>

#include "core/json.h"

/* New reference, the caller's; NULL when out of memory. */
json_t *pz_workload_json(const struct pz_workload *w);

/* Both directions of every layer as one drawing. */
void pz_workload_dot(const struct pz_workload *w, FILE *out);

#endif
