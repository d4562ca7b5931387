/* Plan files: a training run (struct pz_run_plan) as JSON.
 *
 * A plan file is an object with the keys that `phaze predict --json` prints: model, chip, cluster,
 * and the fields of the plan (tp, pp, mbs ...).  Missing fields have the framework's defaults.
 * Whole outputs of `phaze predict --json`, `phaze place --json` and `phaze tune --json` are
 * accepted too, and their results are ignored. */
#ifndef PZ_PLAN_PLAN_FILE_H
#define PZ_PLAN_PLAN_FILE_H

#include "plan/plan_fields.h"

/* Reads a plan file; `name` denotes it in error messages.  Raises PZ_BAD_INPUT for invalid JSON,
 * unknown fields, values of the wrong type, and a missing model.  pz_fill_plan() checks whether the
 * degrees divide the devices. */
void pz_read_plan_file(struct pz_call *call, const char *name, const char *text, size_t bytes,
                       struct pz_run_plan *run);

/* Returns a new reference to a run as a plan file, or NULL if memory ran out. */
json_t *pz_run_plan_json(const struct pz_run_plan *run);

/* Returns a list of *n fields of a run: model, chip and cluster, then the fields of its filled
 * plan.  Fields that are worth showing for this run are marked as `shown`. */
struct pz_field_origin *pz_list_run_fields(struct pz_call *call, const struct pz_run_plan *run,
                                           uint32_t *n);

#endif
