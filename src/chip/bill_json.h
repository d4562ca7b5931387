/* The bill of a chip as JSON. */
#ifndef PZ_CHIP_BILL_JSON_H
#define PZ_CHIP_BILL_JSON_H

#include "core/json.h"

/* The parts and sums; with ranges of the sums.  New reference; NULL: out of memory. */
json_t *pz_bill_json(const struct pz_chip *c);

#endif
