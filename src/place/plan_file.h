/* A training run that people have: its model, machine and plan, and where each field comes from.  Read from a plan file
 * (JSON, this file) or from Megatron's arguments (megatron_args.h).
 *
 * A plan file is one object with the names that `phaze predict --json` prints: model, chip, cluster, and the fields of
 * its plan (tp, pp, mbs ...).  What it leaves out is as the framework does it.  The whole output of `phaze predict
 * --json` is accepted too: then what it says about times and memory is not read. */
#ifndef PZ_PLACE_PLAN_FILE_H
#define PZ_PLACE_PLAN_FILE_H

#include "core/arena.h"
#include "core/json.h"
#include "place/training.h"

enum { PZ_PLAN_FILE_MOST_BYTES = 4 << 20 };

/* Fields that are told one by one, in the order of the listing. */
enum pz_run_field {
  PZ_RUN_MODEL,
  PZ_RUN_CHIP,
  PZ_RUN_CLUSTER,
  PZ_RUN_FRAMEWORK,
  PZ_RUN_DEVICES,
  PZ_RUN_SEQ,
  PZ_RUN_BATCH,
  PZ_RUN_MBS,
  PZ_RUN_TP,
  PZ_RUN_SP,
  PZ_RUN_CP,
  PZ_RUN_EP,
  PZ_RUN_ETP,
  PZ_RUN_IMBALANCE,
  PZ_RUN_MTP,
  PZ_RUN_PP,
  PZ_RUN_VPP,
  PZ_RUN_PIPELINE,
  PZ_RUN_FIRST_LAYERS,
  PZ_RUN_LAST_LAYERS,
  PZ_RUN_DP,
  PZ_RUN_ZERO,
  PZ_RUN_SHARD,
  PZ_RUN_RECOMPUTE,
  PZ_RUN_RECOMPUTE_LAYERS,
  PZ_RUN_RECOMPUTE_MODULES,
  PZ_RUN_ATTENTION,
  PZ_RUN_ATTENTION_LIBRARY,
  PZ_RUN_OVERLAP,
  PZ_RUN_EXECUTION,
  PZ_RUN_PRECISION,
  PZ_RUN_GRAD_BYTES,
  PZ_RUN_FIELDS
};

struct pz_run_plan {
  const char *model;          /* its name or path, or the name of `config` */
  const char *config;         /* text of a config.json; NULL: load by name */
  const char *chip, *cluster; /* NULL: not stated */
  struct pz_training_options plan;
  const char *from[PZ_RUN_FIELDS]; /* "given", an argument and its line; NULL: a default */
};

/* The key of a field. */
const char *pz_run_field_name(enum pz_run_field f);

/* Does the plan say something by it?  Of experts and modules most plans do not, and files leave them out. */
bool pz_run_field_told(const struct pz_run_plan *r, enum pz_run_field f);

/* Its value as text: "8", "selective", "grad,param"; "-" where there is none.  Returns buf. */
char *pz_run_field_text(const struct pz_run_plan *r, enum pz_run_field f, char *buf, size_t size);

/* Read a plan file.  `name` stands for it in messages.  PZ_BAD_INPUT: no JSON, unknown fields, other types, no model.
 * Whether the degrees divide is for pz_run_plan_fill.  The arena holds all texts. */
PZ_NODISCARD enum pz_status pz_plan_file_read(const char *name, const char *text, size_t bytes,
                                              struct pz_arena *arena, struct pz_run_plan *out,
                                              struct pz_error *err);

/* A run as a plan file, which pz_plan_file_read reads again; new reference, NULL: out of memory. */
json_t *pz_run_plan_json(const struct pz_run_plan *r);

/* Fill in what is left open and check it, as pz_training_options_fill. */
PZ_NODISCARD enum pz_status pz_run_plan_fill(struct pz_run_plan *r, struct pz_error *err);

/* The plan and the model of a filled run. */
struct pz_training_plan pz_run_training_plan(const struct pz_run_plan *r);
struct pz_training_model pz_run_training_model(const struct pz_run_plan *r);

#endif
