/* Launch scripts: a training plan as a framework's own users would start it, complete, as a shell
 * script.  A framework is one file and a row of the table in launch.c; it refuses what it cannot
 * express and never prints part of a plan.  Versions that the emitters were held against stand in
 * doc/launch.md. */
#ifndef PZ_LAUNCH_LAUNCH_H
#define PZ_LAUNCH_LAUNCH_H

#include <stdio.h>

#include "launch/shape.h"

struct pz_launch {
  const char *model; /* for comments and messages */
  struct pz_launch_shape shape;
  struct pz_training_options plan; /* with every field filled in */
  int64_t nodes, gpus;             /* nodes x devices of a node = plan.devices */
};

/* Names of the frameworks, NULL after the last.  The first, "none", is no framework. */
extern const char *const pz_launch_names[];

/* What a plan launches: the shape of its model, and whole nodes of the cluster (NULL: one node of
 * at most 8 devices).  `plan` is a filled one, as of pz_training_run.  `model` must outlive *out. */
PZ_NODISCARD enum pz_status pz_launch_fill(const char *model,
                                           const struct pz_training_options *plan,
                                           const struct pz_cluster *net, struct pz_launch *out,
                                           struct pz_error *err);

/* The script for framework `i` of the names; *text is the caller's to pz_free.  PZ_BAD_USE for what
 * the framework cannot express: the message says what, and what is accepted. */
PZ_NODISCARD enum pz_status pz_launch_script(int i, const struct pz_launch *l, char **text,
                                             struct pz_error *err);

/* ---- for the emitters ----------------------------------------------------------------------- */

/* Microbatches of a replica in a step. */
int64_t pz_launch_rounds(const struct pz_launch *l);

/* Layers of chunk j of the pp x vpp chunks of the model; chunk j is on stage j mod pp. */
int64_t pz_launch_chunk(const struct pz_launch *l, int64_t j);

/* Devices with the same weights: replicas, and parts of a context. */
int64_t pz_launch_replicas(const struct pz_launch *l);

/* Every chunk has as many layers as the others. */
bool pz_launch_even(const struct pz_launch *l);

/* Dropout that the plan was predicted with. */
double pz_launch_drop(const struct pz_launch *l, double of_model);

/* First lines of a script: what it is, where it runs; variables NODE_RANK, MASTER_ADDR, MASTER_PORT
 * are set, from Slurm's where it runs under srun. */
void pz_launch_head(const struct pz_launch *l, const char *framework, FILE *out);

/* "NAME=${NAME:?text}": a variable that users must set. */
void pz_launch_need(FILE *out, const char *name, const char *text);

/* The torchrun command up to the program, with a backslash at the end of each line. */
void pz_launch_torchrun(const struct pz_launch *l, FILE *out);

struct pz_launch_framework {
  const char *name;
  enum pz_status (*check)(const struct pz_launch *l, struct pz_error *err);
  void (*print)(const struct pz_launch *l, FILE *out);
};

extern const struct pz_launch_framework pz_launch_megatron, pz_launch_torchtitan, pz_launch_nemo,
    pz_launch_deepspeed;

#endif
