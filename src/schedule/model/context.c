/* Creates the shared state of the solver (context.h), and keeps the incumbent and the lower bound.
 *
 * Debug builds assert that no incumbent is shorter than the lower bound.  This does not hold for a schedule that uses an
 * eliminated mode, because bounds ignore such schedules. */
#include "schedule/model/context.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/model/schedule.h"

const double pz_mixes[PZ_MIXES][PZ_RESOURCES] = {
    {1},
    {0, 1},
    {0, 0, 1},
    {0, 0, 0, 1},
    {0, 0, 0, 0, 1},
    {0.5, 0.5},
    {0.75, 0.25},
    {0.25, 0.75},
    {0.9, 0.1},
    {0.1, 0.9},
    {0.4, 0.4, 0.2},
    {0.5, 0, 0, 0.5},
    {0.2, 0, 0, 0.8},
    {0.8, 0, 0, 0.2},
    {0, 0, 0, 0, 0, 1},
};

/* Returns the greatest common divisor of all durations if they are integers and sums of them are
 * exact, otherwise 0. */
static double common_time_unit(const struct pz_problem *problem) {
  uint64_t divisor = 0;
  double sum = 0;
  for (uint32_t i = 0; i < problem->n; i++)
    for (uint32_t m = 0; m < problem->tasks[i].n_modes; m++) {
      double duration = problem->tasks[i].modes[m].duration;
      sum += duration;
      if (sum > 0x1p50 || duration != floor(duration)) return 0;
      uint64_t a = (uint64_t)duration, b = divisor;
      while (b) { /* Euclid's algorithm */
        uint64_t remainder = a % b;
        a = b;
        b = remainder;
      }
      divisor = a;
    }
  bool sums_are_exact = sum <= 0x1p26 * (double)divisor; /* errors are far below a unit */
  return sums_are_exact ? (double)divisor : 0;
}

/* Returns a context with all techniques switched on and neither incumbent nor bound. */
struct pz_context *pz_context_new(struct pz_call *call, const struct pz_problem *problem) {
  struct pz_context *context = pz_alloc(call, 1, sizeof *context);
  uint32_t n = problem->n;
  *context = (struct pz_context){.call = call,
                                 .problem = problem,
                                 .techniques = &pz_techniques_all,
                                 .scale = pz_problem_serial(problem),
                                 .time_unit = common_time_unit(problem),
                                 .incumbent_s = DBL_MAX};
  context->first_mode = pz_alloc(call, n, sizeof *context->first_mode);
  for (uint32_t i = 0; i < n; i++) {
    context->first_mode[i] = context->n_modes;
    context->n_modes += problem->tasks[i].n_modes;
  }
  context->count = pz_alloc(call, PZ_TECHNIQUES + 1, sizeof *context->count);
  context->eliminated = pz_alloc(call, context->n_modes, sizeof *context->eliminated);
  context->lp_share = pz_alloc(call, context->n_modes, sizeof *context->lp_share);
  context->duals.rate = pz_alloc(call, context->n_modes, sizeof *context->duals.rate);
  context->duals.least = pz_alloc(call, n, sizeof *context->duals.least);
  context->least_s = pz_alloc(call, n, sizeof *context->least_s);
  context->head_s = pz_alloc(call, n, sizeof *context->head_s);
  context->tail_s = pz_alloc(call, n, sizeof *context->tail_s);
  context->energy = pz_alloc(call, n, sizeof *context->energy);
  context->incumbent = pz_alloc(call, n, sizeof *context->incumbent);
  return context;
}

/* The largest sum of rounding errors, for assertions. */
#define ROUNDING_SLACK(context) (1e-9 * (context)->scale)

/* Replaces the incumbent if the schedule is better, and credits the technique `found_by`. */
void pz_update_incumbent(struct pz_context *context, const struct pz_slot *slots, double makespan_s,
                         enum pz_technique found_by) {
  if (!pz_better(context, makespan_s, context->incumbent_s)) return;
  assert(makespan_s >= context->lower_bound_s - ROUNDING_SLACK(context) ||
         pz_has_eliminated(context, slots));
  memcpy(context->incumbent, slots, context->problem->n * sizeof *slots);
  context->incumbent_s = makespan_s;
  context->count[found_by].incumbents++;
}

/* Raises the lower bound to bound_s, if that is higher, and credits the technique `found_by`.  If
 * all durations are multiples of a time unit, so is the makespan, and the bound is rounded up to
 * one; ROUNDING keeps a bound that is a multiple up to rounding errors.  A bound may exceed the
 * incumbent only if modes were eliminated because no schedule better than the incumbent uses them:
 * it then proves the incumbent optimal, and the bound becomes the incumbent's makespan. */
void pz_update_bound(struct pz_context *context, double bound_s, enum pz_technique found_by) {
  static const double ROUNDING = 1e-6; /* in time units */
  if (context->time_unit > 0)
    bound_s = ceil(bound_s / context->time_unit - ROUNDING) * context->time_unit;
  assert(bound_s <= context->incumbent_s + ROUNDING_SLACK(context) ||
         pz_has_eliminated(context, NULL));
  bound_s = fmin(bound_s, context->incumbent_s);
  if (!(bound_s > context->lower_bound_s)) return;
  context->count[found_by].raised += bound_s - context->lower_bound_s;
  context->lower_bound_s = bound_s;
}
