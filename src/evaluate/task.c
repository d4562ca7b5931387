/* Values that follow from the inputs of a search. */
#include "evaluate/task.h"

double pz_task_most_hbm(const struct pz_original_task *t) {
  return (double)t->o.hbm_gib.v[t->o.hbm_gib.n - 1];
}

enum pz_semantics pz_task_semantics(const struct pz_original_task *t) {
  return pz_assumed(t->assumptions, PZ_ASSUME_FIRST_STAGE) ? PZ_SEMANTICS_ORIGINAL
                                                           : PZ_SEMANTICS_CORRECTED;
}

struct pz_place_problem pz_task_problem(const struct pz_original_task *t,
                                        const struct pz_variant *variant, double hbm_gib,
                                        bool recompute) {
  struct pz_place_problem p = pz_place_problem_on(&t->net, t->o.devices);
  p.hbm_bytes = hbm_gib * 0x1p30;
  p.state = t->o.state;
  p.microbatches = variant->microbatches;
  p.recompute = recompute;
  p.semantics = pz_task_semantics(t);
  return p;
}
