/* Models and plans in the words of Megatron Core, as both of its launchers write them: arguments of Megatron-LM, or the
 * fields of Megatron Bridge that they set. */
#ifndef PZ_LAUNCH_MEGATRON_CORE_H
#define PZ_LAUNCH_MEGATRON_CORE_H

#include "launch/launch.h"

/* `whose`: PZ_LAUNCH_MEGATRON or PZ_LAUNCH_BRIDGE. */
void pz_core_model(const struct pz_launch *l, enum pz_launcher whose, FILE *out);
void pz_core_parallel(const struct pz_launch *l, enum pz_launcher whose, FILE *out);
/* The type of Adam's moments; NULL: fp32. */
const char *pz_core_moments(const struct pz_launch *l);
/* Is the optimizer one whose state may have other types, or lie on the host? */
bool pz_core_is_aware(const struct pz_launch *l);
void pz_core_recompute(const struct pz_launch *l, enum pz_launcher whose, FILE *out);

/* Hardware queues, as CUDA's variable has them. */
void pz_core_environment(const struct pz_launch *l, enum pz_launcher whose, FILE *out);

/* What Megatron FSDP divides, by ZeRO stage. */
extern const char *const pz_core_strategies[4];

/* Et*18|t*21|t*20,L: embedding, the layers of every chunk of so many, of multi-token prediction, and loss. */
void pz_core_layout(const struct pz_plan *p, int64_t layers, int64_t predict, FILE *out);

/* Modules of selective recomputation, of Megatron Bridge as strings of Python. */
void pz_core_modules(const struct pz_plan *p, bool bridge, FILE *out);

/* 8-bit GEMMs: the format's name, NULL: none; and names of the recipes, by enum pz_fp8_recipe. */
const char *pz_core_fp8_format(const struct pz_plan *p);
extern const char *const pz_core_fp8_recipes[];

#endif
