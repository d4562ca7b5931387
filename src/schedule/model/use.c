/* Utilisation of resources by a schedule, for reports. */
#include "schedule/model/schedule.h"

#include <math.h>

/* Whether operators of a class work with a resource in the two-mode problem, where collectives use vector cores. */
static bool works_with(enum pz_op_class c, enum pz_resource r) {
  bool tensor = c == PZ_CLASS_TENSOR || c == PZ_CLASS_FUSED;
  return r == PZ_TENSOR_CORES ? tensor : r == PZ_VECTOR_CORES && c != PZ_CLASS_TENSOR;
}

int32_t pz_task_use(const struct pz_task *t, uint32_t mode, enum pz_resource r) {
  const struct pz_mode *m = &t->modes[mode];
  return m->label == PZ_MODE_INTRA && !works_with(t->op_class, r) ? 0 : m->use[r];
}

/* The fraction of a resource that a task uses over its duration.  It may hold more of a bandwidth than it needs; the bytes
 * that it moves count. */
static double used_part(const struct pz_problem *p, const struct pz_task *t,
                        const struct pz_slot *slot, enum pz_resource r) {
  const struct pz_mode *m = &t->modes[slot->mode];
  double moved_s = r == PZ_HBM_RATE ? m->hbm_s : r == PZ_GLB_RATE ? m->glb_s : 0;
  if (m->use[r] && moved_s > 0) return moved_s / m->s;
  return (double)pz_task_use(t, slot->mode, r) / p->capacity[r];
}

void pz_schedule_use(const struct pz_problem *p, const struct pz_slot *slots, double makespan,
                     double share[PZ_RESOURCES]) {
  for (int r = 0; r < PZ_RESOURCES; r++) {
    share[r] = 0;
    for (uint32_t i = 0; i < p->n && p->capacity[r] > 0 && makespan > 0; i++)
      share[r] += used_part(p, &p->tasks[i], &slots[i], (enum pz_resource)r) *
                  ((slots[i].end - slots[i].start) / makespan);
  }
}

double pz_problem_serial(const struct pz_problem *p) {
  double sum = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_task *t = &p->tasks[i];
    double least = t->modes[0].s;
    for (uint32_t m = 1; m < t->n_modes; m++) least = fmin(least, t->modes[m].s);
    sum += least;
  }
  return sum;
}
