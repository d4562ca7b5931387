/* Utilisation of resources by a schedule, for reports.  A task may hold more of a resource than
 * it uses: all cores of the chip in order to be alone, or more of a bandwidth than it needs.
 * Only what it uses counts here. */
#include "schedule/model/schedule.h"

#include <math.h>

/* Returns the amount of a resource that a task uses in a mode, without cores that it only holds. */
int32_t pz_task_use(const struct pz_task *task, uint32_t mode, enum pz_resource resource) {
  enum pz_op_class op_class = task->op_class;
  const struct pz_mode *chosen = &task->modes[mode];
  if (chosen->label != PZ_MODE_INTRA) return chosen->use[resource];
  /* in the two-mode problem collectives use vector cores */
  bool tensor = op_class == PZ_CLASS_TENSOR || op_class == PZ_CLASS_FUSED;
  bool vector = op_class != PZ_CLASS_TENSOR;
  bool uses = (resource == PZ_TENSOR_CORES && tensor) || (resource == PZ_VECTOR_CORES && vector);
  return uses ? chosen->use[resource] : 0;
}

/* Sets the utilisation of each resource: its use over time / (capacity x makespan).  A mode may hold
 * more of a bandwidth than it uses, because shares are rounded up to levels (rate_modes.h).
 * Therefore the use of a bandwidth is the mean rate at which the task's bytes move, if they are
 * known.  A bandwidth of which modes hold nothing is not limited, and counts as unused. */
void pz_schedule_use(const struct pz_problem *problem, const struct pz_slot *slots, double makespan,
                     double share[PZ_RESOURCES]) {
  for (enum pz_resource r = 0; r < PZ_RESOURCES; r++) {
    share[r] = 0;
    for (uint32_t i = 0; i < problem->n && problem->capacity[r] > 0 && makespan > 0; i++) {
      const struct pz_task *task = &problem->tasks[i];
      const struct pz_mode *mode = &task->modes[slots[i].mode];
      double moving_s = 0; /* time to move the task's bytes at the full bandwidth, 0 if unknown */
      if (r == PZ_HBM_RATE) moving_s = mode->hbm_s;
      if (r == PZ_GLB_RATE) moving_s = mode->glb_s;
      bool holds_bandwidth = moving_s > 0 && mode->use[r] > 0;
      double used = (double)pz_task_use(task, slots[i].mode, r) / problem->capacity[r];
      if (holds_bandwidth) used = moving_s / mode->duration;
      share[r] += used * ((slots[i].end - slots[i].start) / makespan);
    }
  }
}

/* Returns the time of all tasks one after another, each in its fastest mode. */
double pz_problem_serial(const struct pz_problem *problem) {
  double sum = 0;
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    double least = task->modes[0].duration;
    for (uint32_t m = 1; m < task->n_modes; m++) least = fmin(least, task->modes[m].duration);
    sum += least;
  }
  return sum;
}
