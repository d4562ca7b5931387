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

/* The layer that a->part names. */
void pz_part_layer(struct pz_builder *b, const struct pz_arch *a);

#endif
