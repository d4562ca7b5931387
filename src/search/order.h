/* Chips in the order of their bounds under an objective, the highest first: all bounds at once, or as far as they are asked
 * for, from boxes of chips.  Both orders are the same; ties go to the smaller chip, then to the lower index. */
#ifndef PZ_SEARCH_ORDER_H
#define PZ_SEARCH_ORDER_H

#include "search/search.h"
#include "search/state.h"

struct pz_order;

/* Chips stand as excluded by tables in c->chip_status, with their bounds as far as these are known.  On success *out is the
 * caller's to free. */
PZ_NODISCARD enum pz_status pz_order_new(struct pz_search *s, struct pz_objective_run *c,
                                         struct pz_order **out, struct pz_error *err);
void pz_order_free(struct pz_order *o); /* accepts NULL */

/* Make the first n chips known, but none whose bounds are below `cutoff`: *known in all, fewer than n where there are no
 * more. */
PZ_NODISCARD enum pz_status pz_order_need(struct pz_order *o, uint32_t n, double cutoff,
                                          uint32_t *known, struct pz_error *err);
/* Those known. */
const uint32_t *pz_order_list(const struct pz_order *o);

/* Chips behind the first `from` whose bounds, or those of their boxes, are above a value. */
uint32_t pz_order_above(const struct pz_order *o, uint32_t from, double value);

/* Chips that have no bound of their own get that of their box. */
void pz_order_end(struct pz_order *o);

#endif
