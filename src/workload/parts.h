/* Layers of a transformer, as a pz_arch describes them. */
#ifndef PZ_WORKLOAD_PARTS_H
#define PZ_WORKLOAD_PARTS_H

#include "workload/kernels.h"

/* Self-attention of x (rows x hidden): projections, rotary embedding, scores, softmax, dropout,
 * context, output projection.  The result stands outside the tensor-parallel region. */
uint32_t pz_part_attention(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* Attention of x to the rows of y, which are as many. */
uint32_t pz_part_cross_attention(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                                 uint32_t y);

/* Do so many devices of tensor parallelism share key/value heads, each of them with one? */
bool pz_attention_shares(const struct pz_arch *a, int64_t tp);

/* Context parallelism: a device has part of every sample's tokens, two pieces, one from each end, so that
 * causal attention is even (Megatron-LM; Brandon et al., arXiv 2311.09431).  What attention needs of the
 * others comes before it, in one of two forms:
 *   ring        keys and values of the others pass one part after another (Liu et al., arXiv 2310.01889),
 *               backward again and with their gradients; of a window or a chunk only those it reaches
 *   all-to-all  query, key and value of all tokens for part of the heads, and the result back (Jacobs et
 *               al., DeepSpeed Ulysses, arXiv 2309.14509) */

/* Can the model be divided so?  PZ_BAD_USE says why not. */
PZ_NODISCARD enum pz_status pz_context_check(const char *name, const struct pz_arch *a,
                                             const struct pz_workload_options *o,
                                             struct pz_error *err);

/* Keys of a sample that an attention of this device reads, its own included. */
int64_t pz_context_keys(const struct pz_builder *b, const struct pz_arch *a);

/* Tokens of a context group for heads, or heads for tokens: x in this shape. */
uint32_t pz_context_exchange(struct pz_builder *b, const char *name, uint32_t x,
                             struct pz_shape shape);

/* The recurrence of a hybrid in place of self-attention, and whether it can be divided so. */
uint32_t pz_part_recurrence(struct pz_builder *b, const struct pz_arch *a, uint32_t x);
PZ_NODISCARD enum pz_status pz_recurrence_check(const char *name, const struct pz_arch *a,
                                                const struct pz_workload_options *o,
                                                struct pz_error *err);

/* The layer that a->part names. */
void pz_part_layer(struct pz_builder *b, const struct pz_arch *a);

#endif
