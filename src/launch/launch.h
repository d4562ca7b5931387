/* Launch scripts: a training plan as a complete shell script, as the users of a framework write it.
 *
 * pz_launch_script() checks that the framework can run the plan (plan/framework_rules.h) and calls
 * the framework's writer, which is one file and one row of the table in launch.c.  A script can be
 * written for every plan that the rules allow.  doc/launch.md lists the versions that the scripts
 * were tested with. */
#ifndef PZ_LAUNCH_LAUNCH_H
#define PZ_LAUNCH_LAUNCH_H

#include <stdio.h>

#include "core/buffer.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"

/* The training job that a script launches. */
struct pz_launch {
  const char *model; /* name of the model, for comments and messages */
  struct pz_model_shape shape;
  struct pz_plan plan;          /* with every field filled in */
  int64_t nodes, gpus_per_node; /* their product is plan.devices */
  bool blackwell;               /* the GPUs are of NVIDIA's Blackwell generation or newer */
};

/* Returns the job of a plan whose fields are all filled in, on nodes of the cluster, or on nodes of
 * at most 8 devices if `cluster` is NULL.  `model` must outlive the result. */
struct pz_launch pz_launch_fill(struct pz_call *call, const char *model, const struct pz_plan *plan,
                                const struct pz_cluster *cluster);

/* Returns the script for pz_launch_names[i], or raises PZ_BAD_USE if it cannot run the plan. */
struct pz_buffer *pz_launch_script(struct pz_call *call, int i, const struct pz_launch *launch);

/* Completes a run that was read from a script by the comments at the script's head: plan fields
 * that no argument sets, and the name of a built-in model if it has the shape that the arguments
 * state.  The built-in model's config.json may say more than arguments do, for example which GEMMs
 * are fused. */
void pz_launch_comments_read(struct pz_call *call, const char *text, size_t bytes,
                             struct pz_run_plan *run);

/* ---- for the writers ------------------------------------------------------------------------ */

typedef void pz_script_writer(const struct pz_launch *launch, FILE *out);
pz_script_writer pz_write_megatron_script, pz_write_torchtitan_script, pz_write_nemo_script,
    pz_write_deepspeed_script;

/* Writes a field of the plan under its name for a launcher (plan_fields.def): "model.NAME = VALUE"
 * for Megatron Bridge, an argument such as "  --tensor-model-parallel-size 8" for the others. */
void pz_write_plan_field(const struct pz_launch *launch, enum pz_plan_field field,
                         enum pz_launcher launcher, FILE *out);

/* Writes a line with command-line arguments if the condition holds. */
void pz_write_if(FILE *out, bool condition, const char *arguments);

/* Writes the first lines of a script: comments that describe it, and the variables NODE_RANK,
 * MASTER_ADDR and MASTER_PORT, which are derived from Slurm's variables under srun. */
void pz_write_script_head(const struct pz_launch *launch, const char *framework, FILE *out);

/* Writes the check of a variable that users must set: "NAME=${NAME:?set it to MEANING}". */
void pz_write_required_variable(FILE *out, const char *name, const char *meaning);

/* Write arguments that Megatron-LM and its DeepSpeed branch share: those of steps, learning rate
 * and optimizer, and those of logs and checkpoints, which end the list. */
void pz_write_schedule_arguments(const struct pz_launch *launch, FILE *out);
void pz_write_saving_arguments(FILE *out);

/* Writes the torchrun command up to the program, with a backslash at the end of each line. */
void pz_write_torchrun(const struct pz_launch *launch, FILE *out);

#endif
