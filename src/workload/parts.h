/* The parts of the layers of transformers and hybrid models, built from the shape in a struct
 * pz_arch. */
#ifndef PZ_WORKLOAD_PARTS_H
#define PZ_WORKLOAD_PARTS_H

#include "workload/kernels.h"

/* Builds the layer that a struct pz_arch describes, whose member `part` states its kind (a callback
 * of struct pz_layer_plan). */
void pz_part_layer(struct pz_builder *builder, void *arch);

/* ---- attention.c ----------------------------------------------------------------------------- */

/* Adds attention of the input's rows of `hidden` values to those of `source`, which has as many
 * rows: self-attention if both are the same tensor, otherwise cross-attention.  The result is
 * outside of the tensor-parallel region. */
uint32_t pz_part_attention(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input,
                           uint32_t source);

/* Returns whether `tp` devices share key/value heads: each device has one head, and several
 * devices have the same. */
bool pz_attention_shares(const struct pz_arch *arch, int64_t tp);

/* Raises PZ_BAD_USE if the context-parallel degree does not fit the model. */
void pz_check_context(struct pz_call *call, const char *model, const struct pz_arch *arch,
                      const struct pz_workload_options *options);

/* Returns how many keys of a sample the attention of this device reads: those of its own tokens and
 * those that other devices of the context group send. */
int64_t pz_context_keys(const struct pz_builder *builder, const struct pz_arch *arch);

/* ---- recurrence.c ---------------------------------------------------------------------------- */

/* Adds the recurrence of a hybrid model, which replaces self-attention. */
uint32_t pz_part_recurrence(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input);

/* Raises PZ_BAD_USE if the context-parallel degree does not fit the recurrent layers. */
void pz_check_recurrence(struct pz_call *call, const char *model, const struct pz_arch *arch,
                         const struct pz_workload_options *options);

#endif
