/* Parts of a transformer shared by families: self-attention, feed-forward, head. */
#ifndef PZ_WORKLOAD_PARTS_H
#define PZ_WORKLOAD_PARTS_H

#include "workload/kernels.h"

/* Self-attention of x (rows x hidden): projections, rotary embedding, scores, softmax, dropout,
 * context, output projection.  The result stands outside the tensor-parallel region. */
uint32_t pz_part_attention(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* Attention of x to the rows of y, which are as many. */
uint32_t pz_part_cross_attention(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                                 uint32_t y);

/* Query, key and value of latent attention. */
void pz_latent_qkv(struct pz_builder *b, const struct pz_arch *a, uint32_t x, uint32_t qkv[3]);

/* act(x W1 + b1) W2 + b2 */
uint32_t pz_part_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* (act(x Wgate) * (x Wup)) Wdown */
uint32_t pz_part_gated_mlp(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* Routed experts, each a feed-forward, gated or not: FLOP of the active ones, memory of all; beside them the
 * one that all tokens share. */
uint32_t pz_part_experts(struct pz_builder *b, const struct pz_arch *a, uint32_t x);

/* The usual block: x + dropout(attention(x)), then x + dropout(mlp(x)), with a layer norm before or
 * after. */
void pz_part_block(struct pz_builder *b, const struct pz_arch *a);

/* x + attention(norm1(x)) + mlp(norm2(x)), or with one norm for both. */
void pz_part_parallel_block(struct pz_builder *b, const struct pz_arch *a);

/* The usual head: a layer norm, then logits and loss. */
void pz_part_head(struct pz_builder *b, const struct pz_arch *a);

/* Logits of x (rows x width) over the vocabulary, and the loss; ends the model. */
void pz_part_logits_and_loss(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                             int64_t width, bool bias);

/* Rotary tables for all layers, made once in eager mode. */
void pz_part_rotary_tables(struct pz_builder *b, const struct pz_arch *a);

#endif
