/* Words of Megatron Core that both of its launchers use: Megatron-LM's own script and Megatron Bridge. */
#ifndef PZ_LAUNCH_MEGATRON_CORE_H
#define PZ_LAUNCH_MEGATRON_CORE_H

#include "launch/launch.h"

/* How its pipeline divides the layers. */
enum pz_core_division {
  PZ_CORE_EVEN,
  PZ_CORE_ENDS,   /* the numbers of the first and the last stage are given */
  PZ_CORE_LAYERS, /* embedding and loss count as a layer each */
  PZ_CORE_LAYOUT  /* every chunk is spelled out */
};
enum pz_core_division pz_core_division(const struct pz_launch *l);

/* Et*18|t*21|t*20,L: the layers of every chunk. */
void pz_core_layout(const struct pz_launch *l, FILE *out);

/* ([0]*3+[1]*58): which layers have experts. */
void pz_core_expert_layers(const struct pz_launch *l, FILE *out);

/* Hardware queues, as CUDA's variable has them. */
void pz_core_environment(const struct pz_launch *l, FILE *out);

/* Layers of multi-token prediction that the plan trains. */
int64_t pz_core_predict_layers(const struct pz_launch *l);

/* Modules of selective recomputation, each in quotes, with a text between two. */
void pz_core_modules(const struct pz_launch *l, const char *quote, const char *between, FILE *out);

/* The attention backend that the plan asks for: auto, flash, fused or unfused. */
const char *pz_core_attention(const struct pz_launch *l);

/* Sharding of Megatron FSDP for ZeRO stages 2 and 3, else NULL. */
const char *pz_core_sharding(const struct pz_launch *l);

#endif
