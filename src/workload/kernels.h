/* Kernels: the operators of a norm, an activation, a softmax, ... in the two implementations.
 * fused: one 16-bit operator each.  eager: the operators that Hugging Face's PyTorch code runs. */
#ifndef PZ_WORKLOAD_KERNELS_H
#define PZ_WORKLOAD_KERNELS_H

#include "workload/arch.h"
#include "workload/build.h"

uint32_t pz_kernel_layernorm(struct pz_builder *b, const char *name, uint32_t x, int64_t width,
                             bool affine);
uint32_t pz_kernel_rmsnorm(struct pz_builder *b, const char *name, uint32_t x, int64_t width);
/* The same inside a tensor-parallel region, of rows that each device has for its own heads or partial
 * gradients of: the weight's gradient is partial. */
uint32_t pz_kernel_rmsnorm_inside(struct pz_builder *b, const char *name, uint32_t x,
                                  int64_t width);
/* Of rows that are divided over the tensor-parallel group, and the weight with them.  The sums of
 * squares that the devices exchange, 4 bytes a row, are not counted. */
uint32_t pz_kernel_rmsnorm_divided(struct pz_builder *b, const char *name, uint32_t x,
                                   int64_t width);
/* Of groups of `group` values, each of which one device has; the weight is as wide as all of them. */
uint32_t pz_kernel_rmsnorm_groups(struct pz_builder *b, const char *name, uint32_t x, int64_t width,
                                  int64_t group);
/* Without a weight. */
uint32_t pz_kernel_rmsnorm_plain(struct pz_builder *b, const char *name, uint32_t x, int64_t width);
uint32_t pz_kernel_activation(struct pz_builder *b, const char *name, enum pz_act act, uint32_t x);
/* act(gate) * up */
uint32_t pz_kernel_gated(struct pz_builder *b, const char *name, enum pz_act act, uint32_t gate,
                         uint32_t up);
/* Softmax over the last axis, with one more logit for each head (PZ_NONE: without); f32: the eager
 * code converts to 32 bit and back. */
uint32_t pz_kernel_softmax(struct pz_builder *b, const char *name, uint32_t x, uint32_t sinks,
                           bool f32);
/* cap * tanh(x / cap) */
uint32_t pz_kernel_cap(struct pz_builder *b, const char *name, uint32_t x);
/* Rotary embedding of `dims` of each head's width. */
uint32_t pz_kernel_rotary(struct pz_builder *b, const char *name, uint32_t x, int64_t dims,
                          int64_t head_dim);
/* p as the options override it; nothing is added when it is 0. */
uint32_t pz_kernel_dropout(struct pz_builder *b, const char *name, uint32_t x, double p);
uint32_t pz_kernel_add(struct pz_builder *b, const char *name, uint32_t x, uint32_t y);
/* Rows of a table by index; the table may be divided by rows over the tensor-parallel group. */
uint32_t pz_kernel_embedding(struct pz_builder *b, const char *name, int64_t rows, int64_t table,
                             int64_t width, bool divide);
/* Rows for all tokens of a table, divided over the group, that another layer owns. */
uint32_t pz_kernel_embedding_tied(struct pz_builder *b, const char *name, int64_t table,
                                  int64_t width);
/* Cross-entropy of logits (rows x this slice's classes) with the labels. */
uint32_t pz_kernel_loss(struct pz_builder *b, uint32_t logits, bool f32);

#endif
