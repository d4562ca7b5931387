/* Launch scripts: a training plan as a framework's own users would start it, complete, as a shell
 * script.  A framework is one file and a row of the table in launch.c.  What it can run is the
 * predicate's to say (plan/framework_rules.h): every plan that this allows is written, no other.
 * Versions that the writers were held against stand in doc/launch.md. */
#ifndef PZ_LAUNCH_LAUNCH_H
#define PZ_LAUNCH_LAUNCH_H

#include <stdio.h>

#include "plan/framework_rules.h"
#include "plan/plan_fields.h"

struct pz_launch {
  const char *model; /* for comments and messages */
  struct pz_model_shape shape;
  struct pz_plan plan; /* with every field filled in */
  int64_t nodes, gpus; /* nodes x devices of a node = plan.devices */
  bool blackwell;      /* or newer chips */
};

/* What a plan launches: the shape of its model, and whole nodes of the cluster (NULL: one node of
 * at most 8 devices).  `plan` is a filled one, as of pz_training_run.  `model` must outlive *out. */
PZ_NODISCARD enum pz_status pz_launch_fill(const char *model, const struct pz_plan *plan,
                                           const struct pz_cluster *net, struct pz_launch *out,
                                           struct pz_error *err);

/* The script for framework `i` of pz_launch_names; *text is the caller's to pz_free.  PZ_BAD_USE for what
 * the framework cannot run: the message says what, and what is accepted. */
PZ_NODISCARD enum pz_status pz_launch_script(int i, const struct pz_launch *l, char **text,
                                             struct pz_error *err);

/* What the head of a script says in its comments, into the run that was read from its words: the model by its name, where
 * it has the shape that was read, as its config.json may say more than arguments do (GEMMs that are one, chunks of a
 * scan); and fields that no argument has.  Other texts have none.  PZ_NO_MEMORY. */
PZ_NODISCARD enum pz_status pz_launch_comments_read(const char *text, size_t bytes,
                                                    struct pz_arena *arena, struct pz_run_plan *run,
                                                    struct pz_error *err);

/* ---- for the emitters ----------------------------------------------------------------------- */

/* A number of the plan under its name in the framework (plan_fields.def), with texts before and between:
 * "  --tensor-model-parallel-size 8". */
void pz_launch_number(const struct pz_launch *l, enum pz_plan_field f, enum pz_launcher whose,
                      const char *before, const char *between, FILE *out);

/* Words of a list of arguments on a line of their own, if `on`. */
void pz_launch_words(FILE *out, bool on, const char *words);

/* Dropout that the plan was predicted with. */
double pz_launch_drop(const struct pz_launch *l, double of_model);

/* First lines of a script: what it is, where it runs; variables NODE_RANK, MASTER_ADDR, MASTER_PORT
 * are set, from Slurm's where it runs under srun. */
void pz_launch_head(const struct pz_launch *l, const char *framework, FILE *out);

/* "NAME=${NAME:?text}": a variable that users must set. */
void pz_launch_need(FILE *out, const char *name, const char *text);

/* Arguments of Megatron-LM that its DeepSpeed branch has too: steps, learning rate and optimizer; then logs and
 * checkpoints, which end the list. */
void pz_launch_schedule(const struct pz_launch *l, FILE *out);
void pz_launch_saving(FILE *out);

/* The torchrun command up to the program, with a backslash at the end of each line. */
void pz_launch_torchrun(const struct pz_launch *l, FILE *out);

typedef void pz_launch_writer(const struct pz_launch *l, FILE *out);
pz_launch_writer pz_launch_megatron, pz_launch_torchtitan, pz_launch_nemo, pz_launch_deepspeed;

#endif
