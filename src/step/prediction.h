/* A prediction for people and programs: the terms of its time and memory by name, which tables, JSON and CSV go through, so
 * that a term is named once; the constants that count for it; its JSON; its pipeline as a trace. */
#ifndef PZ_STEP_PREDICTION_H
#define PZ_STEP_PREDICTION_H

#include "core/json.h"
#include "cost/constants.h"
#include "step/predict.h"

static inline double pz_time_part(const struct pz_training_parts *x, const struct pz_part_info *p) {
  return *(const double *)(const void *)((const char *)x + p->offset);
}

static inline double pz_memory_part(const struct pz_training_memory *x,
                                    const struct pz_part_info *p) {
  return *(const double *)(const void *)((const char *)x + p->offset);
}

/* 0 where nothing is. */
static inline double pz_hidden_part(const struct pz_prediction *x, const struct pz_part_info *p) {
  return p->hidden ? *(const double *)(const void *)((const char *)x + p->hidden) : 0;
}

/* Do launches take longer than the kernels they start?  Such steps differ by up to 1.9 times between runs of the
 * same code. */
bool pz_launch_bound(const struct pz_training_parts *x);

/* The term of the step that is longest beyond that of `best`, and by how much; NULL: none is. */
const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grew_s);

struct pz_constant_effect {
  const struct pz_constant_info *info;
  double value;
  double step_change, memory_change; /* parts of the step and of the peak, of a tenth more */
  const char *part;                  /* that changes most: of the step, or "memory" */
};

/* Which constants of the model count for a plan: each is raised by a tenth, alone, and the plan is predicted again.  Those
 * that change anything, in the order of constants.def; the plan is filled, as a run has it.  The arena holds the list.
 * Cost: a prediction for each constant. */
PZ_NODISCARD enum pz_status pz_constant_effects(const struct pz_job *job,
                                                const struct pz_plan *plan, struct pz_arena *arena,
                                                struct pz_constant_effect **list, uint32_t *n,
                                                struct pz_error *err);

/* The plan, step time and its terms, rates, memory of every stage.  New reference; NULL: no memory. */
json_t *pz_training_run_json(const struct pz_training_run *r);

/* Viewers of traces slow down beyond. */
enum { PZ_PREDICTION_TRACE_MOST = 1 << 19 };

/* The simulated pipeline as a trace-event file for Perfetto: one thread per stage with its forwards and backwards, then the
 * exchange of gradients that is not hidden, and the optimizer.  JSON text (the caller's to pz_free) of a run with events;
 * the last event ends with the step.  PZ_LIMIT beyond PZ_PREDICTION_TRACE_MOST events, or a step that is not below 1e6 s. */
PZ_NODISCARD enum pz_status pz_prediction_trace(const struct pz_training_run *r, const char *model,
                                                char **text, struct pz_error *err);

#endif
