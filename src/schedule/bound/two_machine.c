/* Two-machine partition bound: a lower bound for two cores of a kind, by dynamic programming over the difference of loads
 * (number partitioning, Karp 1972; P2||Cmax).
 *
 * Without precedence, each task runs on one of the two cores or on both.  The makespan is the time of those on both, plus
 * half of the sum of the others, plus half of the difference of the two loads.  The bound is the minimum over all
 * differences that the tasks can make.  Durations must be multiples of a time unit, and their sum must be small. */
#include <stdlib.h>

#include "core/num.h"
#include "schedule/bound/root_bound.h"

/* The largest product of differences and modes for which the bound is computed. */
enum { MAX_PARTITION_WORK = 2000000 };

/* For each difference of the two loads, in time units: the least value of twice the makespan
 * minus that difference, or INT64_MAX if the tasks added so far cannot make the difference. */
struct partition {
  int64_t *cost, *next_cost; /* next_cost is scratch of add_task() */
  uint32_t largest_difference;
};

/* Adds task i in each of its modes, and on either core, to the table of differences. */
static void add_task(const struct pz_context *context, struct partition *partition, uint32_t i,
                     int resource) {
  const struct pz_task *task = &context->problem->tasks[i];
  const int64_t *cost = partition->cost;
  int64_t *next_cost = partition->next_cost;
  for (uint32_t d = 0; d <= partition->largest_difference; d++) next_cost[d] = INT64_MAX;
  for (uint32_t m = 0; m < task->n_modes; m++) {
    if (context->eliminated[context->first_mode[i] + m]) continue;
    /* in time units, rounded to the nearest integer */
    int64_t duration = (int64_t)(task->modes[m].duration / context->time_unit + 0.5);
    int32_t n_cores = task->modes[m].use[resource];
    for (int64_t d = 0; d <= partition->largest_difference; d++) {
      if (cost[d] == INT64_MAX) continue;
      if (n_cores != 1) { /* on both cores or on none: the difference does not change */
        next_cost[d] = pz_min(next_cost[d], cost[d] + duration * n_cores);
        continue;
      }
      int64_t longer = d + duration, shorter = llabs(d - duration), new_cost = cost[d] + duration;
      if (longer <= partition->largest_difference)
        next_cost[longer] = pz_min(next_cost[longer], new_cost);
      next_cost[shorter] = pz_min(next_cost[shorter], new_cost);
    }
  }
  partition->next_cost = partition->cost;
  partition->cost = next_cost;
}

/* Raises the lower bound by each resource with a capacity of 2, if durations are multiples of a time
 * unit and the table of differences is small. */
void pz_two_machine_bound(struct pz_context *context) {
  const struct pz_problem *problem = context->problem;
  if (!context->techniques->two_machine_bound) return;
  for (int r = 0; r < PZ_RESOURCES && context->time_unit > 0; r++) {
    if (problem->capacity[r] != 2) continue;
    /* The sum of each task's longest duration on one core, which the difference of loads cannot
     * exceed. */
    int64_t largest = 0;
    for (uint32_t i = 0; i < context->problem->n; i++) {
      const struct pz_task *task = &context->problem->tasks[i];
      int64_t longest = 0;
      for (uint32_t m = 0; m < task->n_modes; m++) {
        int64_t duration = (int64_t)(task->modes[m].duration / context->time_unit + 0.5);
        if (task->modes[m].use[r] == 1 && duration > longest) longest = duration;
      }
      largest += longest;
    }
    if (largest * (int64_t)context->n_modes > MAX_PARTITION_WORK) continue;
    struct pz_call scratch = pz_scratch(context->call);
    struct partition partition = {.largest_difference = (uint32_t)largest};
    partition.cost = pz_alloc(&scratch, (size_t)largest + 1, sizeof *partition.cost);
    partition.next_cost = pz_alloc(&scratch, (size_t)largest + 1, sizeof *partition.next_cost);
    for (int64_t d = 1; d <= largest; d++) partition.cost[d] = INT64_MAX;
    for (uint32_t i = 0; i < problem->n; i++) add_task(context, &partition, i, r);
    int64_t least = INT64_MAX; /* twice the makespan */
    for (int64_t d = 0; d <= largest; d++)
      if (partition.cost[d] < INT64_MAX) least = pz_min(least, partition.cost[d] + d);
    double bound = least < INT64_MAX ? 0.5 * (double)least * context->time_unit : 0;
    context->count[PZ_T_two_machine_bound].calls++;
    pz_update_bound(context, bound, PZ_T_two_machine_bound);
    pz_scratch_end(&scratch);
  }
}
