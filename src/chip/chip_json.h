/* Chips and networks as JSON. */
#ifndef PZ_CHIP_CHIP_JSON_H
#define PZ_CHIP_CHIP_JSON_H

#include "core/json.h"

/* The description as JSON, readable by pz_chip_parse.  New reference, the caller's. */
json_t *pz_chip_json(const struct pz_chip *c);

/* In the layout that pz_cluster_parse reads; the reference is the caller's. */
json_t *pz_cluster_json(const struct pz_cluster *c);

#endif
