/* Values that follow from the inputs of a search. */
#include "evaluate/task.h"

double pz_task_most_hbm(const struct pz_original_task *task) {
  return (double)task->o.hbm_gib.v[task->o.hbm_gib.n - 1];
}

enum pz_semantics pz_task_semantics(const struct pz_original_task *task) {
  return pz_assumed(task->assumptions, PZ_ASSUME_FIRST_STAGE) ? PZ_SEMANTICS_ORIGINAL
                                                              : PZ_SEMANTICS_CORRECTED;
}

struct pz_place_problem pz_task_problem(const struct pz_original_task *task,
                                        const struct pz_variant *variant, double hbm_gib,
                                        bool recompute) {
  struct pz_place_problem problem = pz_place_problem_on(&task->net, task->o.devices);
  problem.hbm_bytes = hbm_gib * 0x1p30;
  problem.state = task->o.state;
  problem.microbatches = variant->microbatches;
  problem.recompute = recompute;
  problem.semantics = pz_task_semantics(task);
  return problem;
}
