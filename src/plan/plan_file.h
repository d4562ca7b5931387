/* A training run (struct pz_run_plan) as a plan file in JSON.
 *
 * A plan file is one object with the names that `phaze predict --json` prints: model, chip, cluster, and the fields of the plan
 * (tp, pp, mbs ...).  Fields that are left out have the framework's defaults.  The whole outputs of `phaze predict --json`, `phaze
 * place --json` and `phaze tune --json` are accepted too; what they say about times and memory is ignored. */
#ifndef PZ_PLAN_PLAN_FILE_H
#define PZ_PLAN_PLAN_FILE_H

#include "plan/plan_fields.h"

/* Reads a plan file.  `name` stands for it in messages.  Raises PZ_BAD_INPUT for text that is no JSON, for unknown fields, for values
 * of another type and if there is no model.  Whether degrees divide the devices is checked by pz_fill_plan(). */
void pz_read_plan_file(struct pz_call *call, const char *name, const char *text, size_t bytes,
                       struct pz_run_plan *run);

/* Returns a run as a plan file, which pz_read_plan_file() reads again.  A new reference; NULL: out of memory. */
json_t *pz_run_plan_json(const struct pz_run_plan *run);

/* Returns the fields of a run, *n in number: model, chip and cluster first, then those of its filled plan.  Fields that matter for
 * this run are marked as `shown`. */
struct pz_field_origin *pz_list_run_fields(struct pz_call *call, const struct pz_run_plan *run,
                                           uint32_t *n);

#endif
