/* Chips and networks as JSON. */
#ifndef PZ_CHIP_CHIP_JSON_H
#define PZ_CHIP_CHIP_JSON_H

#include "core/json.h"

/* The description as JSON, readable by pz_chip_parse.  New reference, the caller's. */
json_t *pz_chip_json(const struct pz_chip *c);

/* Is every field of a description that a program made or changed in the range that pz_chip_parse
 * and pz_cluster_parse accept?  PZ_BAD_USE for NULL, PZ_BAD_INPUT for a field. */
PZ_NODISCARD enum pz_status pz_chip_check(const struct pz_chip *c, struct pz_error *err);

/* In the layout that pz_cluster_parse reads; the reference is the caller's. */
json_t *pz_cluster_json(const struct pz_cluster *c);

#endif
