#include "schedule/tree/tree_search.h"

#include "schedule/tree/best_first.h"
#include "schedule/tree/depth_first.h"

enum pz_status pz_tree_search(struct pz_context *c, enum pz_tree_order preferred, int64_t steps,
                              struct pz_error *err) {
  if (!c->o->depth_first && !c->o->best_first) return PZ_OK;
  bool depth_first = preferred == PZ_DEPTH_FIRST ? c->o->depth_first : !c->o->best_first;
  return pz_deferred_search(c, depth_first ? pz_depth_first_search : pz_best_first_search, steps,
                            err);
}
