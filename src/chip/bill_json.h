/* The bill of a chip as JSON. */
#ifndef PZ_CHIP_BILL_JSON_H
#define PZ_CHIP_BILL_JSON_H

#include "core/json.h"

/* A part or a sum: its key and label, and where it stands in struct pz_bill. */
struct pz_bill_part {
  const char *key, *label;
  size_t offset;
};

enum { PZ_BILL_AREAS = 12, PZ_BILL_OTHERS = 7, PZ_BILL_SUMS = 4 };
extern const struct pz_bill_part pz_bill_areas[PZ_BILL_AREAS]; /* of area_mm2 */
/* Watts: static, links, long products, HBM at full rate; dollars: dies, HBM, package. */
extern const struct pz_bill_part pz_bill_others[PZ_BILL_OTHERS];
extern const struct pz_bill_part pz_bill_sums[PZ_BILL_SUMS]; /* area, watts, dollars, edge */

double pz_bill_value(const struct pz_bill *b, const struct pz_bill_part *p);

/* The parts and sums; with ranges of the sums.  New reference; NULL: out of memory. */
json_t *pz_bill_json(const struct pz_chip *c);

#endif
