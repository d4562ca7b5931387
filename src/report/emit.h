/* A plan as other programs take it: flags or a configuration for a training framework.  A target is
 * one file emit_*.c and a row of the table in emit.c. */
#ifndef PZ_REPORT_EMIT_H
#define PZ_REPORT_EMIT_H

#include "report/planned.h"

/* What every target tells in its own words. */
struct pz_launch {
  const struct pz_planned *plan;
  int64_t stages, tensor, replicas, microbatch, seq;
  int64_t rounds; /* microbatches of a replica */
  int64_t batch;  /* rounds x replicas x microbatch: frameworks want whole rounds */
  bool recompute;
};

struct pz_launch pz_launch_of(const struct pz_planned *p);

/* What a layer is to a framework. */
enum pz_launch_layer { PZ_LAUNCH_EMBEDDING, PZ_LAUNCH_BLOCK, PZ_LAUNCH_HEAD };
enum pz_launch_layer pz_launch_layer(const struct pz_launch *l, uint32_t stage, uint32_t i);

/* Names of the targets; ends with NULL.  The first, "none", is no target. */
extern const char *const pz_emit_names[];

/* Print a plan for target `i` of these. */
void pz_emit(int i, const struct pz_launch *l, FILE *out);

/* Can it be told which layers a stage has?  Else it divides them by itself. */
bool pz_emit_takes_stages(int i);

/* ---- the rows ------------------------------------------------------------------------------- */

typedef void pz_emit_fn(const struct pz_launch *l, FILE *out);
pz_emit_fn pz_emit_megatron, pz_emit_deepspeed, pz_emit_torchtitan, pz_emit_nemo;

#endif
