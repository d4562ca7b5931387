/* Models and plans in the terms of Megatron Core, which has two launchers: as arguments of
 * Megatron-LM, or as the fields of Megatron Bridge that these arguments set.  `launcher` is
 * PZ_LAUNCH_MEGATRON or PZ_LAUNCH_BRIDGE. */
#ifndef PZ_LAUNCH_MEGATRON_CORE_H
#define PZ_LAUNCH_MEGATRON_CORE_H

#include "launch/launch.h"

void pz_core_write_model(const struct pz_launch *launch, enum pz_launcher launcher, FILE *out);
void pz_core_write_parallelism(const struct pz_launch *launch, enum pz_launcher launcher,
                               FILE *out);

/* Writes recomputation, activations on the host and CUDA graphs. */
void pz_core_write_recomputation(const struct pz_launch *launch, enum pz_launcher launcher,
                                 FILE *out);

/* Writes the environment variables that a plan needs. */
void pz_core_write_environment(const struct pz_launch *launch, enum pz_launcher launcher,
                               FILE *out);

/* Returns the type of Adam's moments, or NULL for fp32. */
const char *pz_core_moment_type(const struct pz_launch *launch);

/* Returns whether the plan needs the precision-aware optimizer, for state that is not in fp32. */
bool pz_core_is_precision_aware(const struct pz_launch *launch);

/* Sharding strategies of Megatron FSDP, by ZeRO stage. */
extern const char *const pz_core_strategies[4];

/* Writes a pipeline layout such as Et*18|t*21|t*20,L: the embedding, the number of layers of each
 * chunk, the layers of multi-token prediction, and the loss. */
void pz_core_write_layout(const struct pz_plan *plan, int64_t layers, int64_t prediction_layers,
                          FILE *out);

/* Writes the names of the modules that selective recomputation recomputes. */
void pz_core_write_modules(const struct pz_plan *plan, FILE *out);

/* Returns the format of 8-bit GEMMs, or NULL if the plan has none. */
const char *pz_core_fp8_format(const struct pz_plan *plan);
extern const char *const pz_core_fp8_recipes[]; /* names by enum pz_fp8_recipe */

#endif
