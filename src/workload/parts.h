/* Parts of a transformer shared by families: self-attention, feed-forward, head. */
#ifndef PZ_WORKLOAD_PARTS_H
#define PZ_WORKLOAD_PARTS_H

#include "workload/kernels.h"

/* Self-attention of x (rows x hidden): projections, rotary embedding, scores, softmax, dropout,
 * context, output projection.  The result stands outside the tensor-parallel region. */
uint32_t pz_part_attention(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* act(x W1 + b1) W2 + b2 */
uint32_t pz_part_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* (act(x Wgate) * (x Wup)) Wdown */
uint32_t pz_part_gated_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* Routed experts, each a gated feed-forward: FLOP of the active ones, memory of all. */
uint32_t pz_part_experts(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* The usual block: x + dropout(attention(x)), then x + dropout(mlp(x)), with a layer norm before or
 * after. */
void pz_part_block(struct pz_builder *b, const struct pz_arch *a);

/* The usual head: a layer norm, then logits and loss. */
void pz_part_head(struct pz_builder *b, const struct pz_arch *a);

/* Logits of x (rows x width) over the vocabulary, and the loss; ends the model. */
void pz_part_logits_and_loss(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                             int64_t width, bool bias);

/* Rotary tables for all layers, made once in eager mode. */
void pz_part_rotary_tables(struct pz_builder *b, const struct pz_arch *a);

#endif
