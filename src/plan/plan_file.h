/* A training run that people have (struct pz_run_plan) as a plan file, JSON; from Megatron's arguments it is read by
 * launch/megatron_args.h.
 *
 * A plan file is one object with the names that `phaze predict --json` prints: model, chip, cluster, and the fields of
 * its plan (tp, pp, mbs ...).  What it leaves out is as the framework does it.  The whole output of `phaze predict
 * --json` is accepted too: then what it says about times and memory is not read. */
#ifndef PZ_PLAN_PLAN_FILE_H
#define PZ_PLAN_PLAN_FILE_H

#include "plan/plan_fields.h"

/* Read a plan file.  `name` stands for it in messages.  PZ_BAD_INPUT: no JSON, unknown fields, other types, no model.
 * Whether the degrees divide is for pz_plan_fill.  The arena holds all texts. */
PZ_NODISCARD enum pz_status pz_plan_file_read(const char *name, const char *text, size_t bytes,
                                              struct pz_arena *arena, struct pz_run_plan *out,
                                              struct pz_error *err);

/* A run as a plan file, which pz_plan_file_read reads again; new reference, NULL: out of memory. */
json_t *pz_run_plan_json(const struct pz_run_plan *r);

/* Its fields, model, chip and cluster first: all that its filled plan has to say, those `shown` that say something for
 * this run.  The arena holds the list.  PZ_NO_MEMORY. */
PZ_NODISCARD enum pz_status pz_run_plan_fields(const struct pz_run_plan *r, struct pz_arena *arena,
                                               struct pz_field_origin **list, uint32_t *n,
                                               struct pz_error *err);

#endif
