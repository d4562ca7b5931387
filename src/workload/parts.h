/* The parts that layers of transformers and hybrid models consist of, built from the shape in a
 * struct pz_arch. */
#ifndef PZ_WORKLOAD_PARTS_H
#define PZ_WORKLOAD_PARTS_H

#include "workload/kernels.h"

/* Builds the layer that arch->part names. */
void pz_part_layer(struct pz_builder *builder, const struct pz_arch *arch);

/* ---- attention.c ----------------------------------------------------------------------------- */

/* Self-attention of rows of `hidden` values.  The result lies outside of the tensor-parallel
 * region. */
uint32_t pz_part_attention(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input);

/* Attention of the input to the rows of `source`, which are as many. */
uint32_t pz_part_cross_attention(struct pz_builder *builder, const struct pz_arch *arch,
                                 uint32_t input, uint32_t source);

/* Returns whether `tp` devices share key/value heads, so that each has one of them and several
 * devices have the same. */
bool pz_attention_shares(const struct pz_arch *arch, int64_t tp);

/* Raises PZ_BAD_USE if the context-parallel degree does not fit the model. */
void pz_check_context(struct pz_call *call, const char *model, const struct pz_arch *arch,
                      const struct pz_workload_options *options);

/* Returns how many keys of a sample the attention of this device reads, its own included. */
int64_t pz_context_keys(const struct pz_builder *builder, const struct pz_arch *arch);

/* Returns an all-to-all over the context group that exchanges tokens for heads, or back.  The
 * result has the given shape. */
uint32_t pz_context_exchange(struct pz_builder *builder, const char *name, uint32_t input,
                             struct pz_shape shape);

/* ---- recurrence.c ---------------------------------------------------------------------------- */

/* Returns the recurrence of a hybrid model, which replaces self-attention. */
uint32_t pz_part_recurrence(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input);

/* Raises PZ_BAD_USE if the context-parallel degree does not fit the recurrent layers. */
void pz_check_recurrence(struct pz_call *call, const char *model, const struct pz_arch *arch,
                         const struct pz_workload_options *options);

#endif
