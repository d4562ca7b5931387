/* A training run that people have: its model, machine and plan, and where each field comes from.  Read from a plan file
 * (JSON, this file) or from Megatron's arguments (launch/megatron_args.h).
 *
 * A plan file is one object with the names that `phaze predict --json` prints: model, chip, cluster, and the fields of
 * its plan (tp, pp, mbs ...).  What it leaves out is as the framework does it.  The whole output of `phaze predict
 * --json` is accepted too: then what it says about times and memory is not read. */
#ifndef PZ_PLAN_PLAN_FILE_H
#define PZ_PLAN_PLAN_FILE_H

#include "plan/plan_fields.h"

enum { PZ_PLAN_FILE_MOST_BYTES = 4 << 20 };

/* Beside the fields of the plan. */
enum { PZ_RUN_MODEL = PZ_PLAN_FIELDS, PZ_RUN_CHIP, PZ_RUN_CLUSTER, PZ_RUN_FIELDS };

struct pz_run_plan {
  const char *model;          /* its name or path, or the name of `config` */
  const char *config;         /* text of a config.json; NULL: load by name */
  const char *chip, *cluster; /* NULL: not stated */
  struct pz_plan plan;
  const char *from[PZ_RUN_FIELDS]; /* "given", an argument and its line; NULL: a default */
};

/* Read a plan file.  `name` stands for it in messages.  PZ_BAD_INPUT: no JSON, unknown fields, other types, no model.
 * Whether the degrees divide is for pz_plan_fill.  The arena holds all texts. */
PZ_NODISCARD enum pz_status pz_plan_file_read(const char *name, const char *text, size_t bytes,
                                              struct pz_arena *arena, struct pz_run_plan *out,
                                              struct pz_error *err);

/* A run as a plan file, which pz_plan_file_read reads again; new reference, NULL: out of memory. */
json_t *pz_run_plan_json(const struct pz_run_plan *r);

#endif
