/* A plan as flags or configuration of a training framework.  A target is one file emit_*.c and a
 * row of the table in emit.c. */
#ifndef PZ_REPORT_EMIT_H
#define PZ_REPORT_EMIT_H

#include <stdio.h>

#include "core/arena.h"

/* What every target tells in its own words. */
struct pz_launch {
  const struct pz_model_plan *plan;
  int64_t stages, tensor, replicas, microbatch, seq;
  int64_t rounds; /* microbatches of a replica */
  int64_t batch;  /* rounds x replicas x microbatch: frameworks want whole rounds */
  bool recompute;
};

struct pz_launch pz_launch_of(const struct pz_model_plan *p);

/* What a layer is to a framework. */
enum pz_launch_layer { PZ_LAUNCH_EMBEDDING, PZ_LAUNCH_BLOCK, PZ_LAUNCH_HEAD };
enum pz_launch_layer pz_launch_layer(const char *name);

/* A layer that is none of these, which frameworks have no words for, or NULL. */
const char *pz_launch_stranger(const struct pz_launch *l);

/* Names of the targets; ends with NULL.  The first, "none", is no target. */
extern const char *const pz_emit_names[];

/* Print a plan for target `i` of these. */
void pz_emit(int i, const struct pz_launch *l, FILE *out);

/* What the configuration cannot say and people must know into buf; false: nothing. */
bool pz_emit_note(int i, const struct pz_launch *l, char *buf, size_t size);

/* ---- the rows ------------------------------------------------------------------------------- */

typedef void pz_emit_fn(const struct pz_launch *l, FILE *out);
pz_emit_fn pz_emit_megatron, pz_emit_deepspeed, pz_emit_torchtitan, pz_emit_nemo;

/* Leaves buf empty where there is nothing to say. */
typedef void pz_emit_note_fn(const struct pz_launch *l, char *buf, size_t size);
pz_emit_note_fn pz_note_deepspeed, pz_note_torchtitan, pz_note_nemo;

#endif
