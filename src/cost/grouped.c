#include "cost/grouped.h"

#include <math.h>

#include "core/num.h"

enum pz_status pz_cost_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                               struct pz_mapping *out, struct pz_error *err) {
  struct pz_product p = {g->experts, pz_max(1, pz_ceil_div(g->tokens, g->experts)), g->n, g->k,
                         g->warm};
  return pz_cost_product(cost, &p, out, err);
}
