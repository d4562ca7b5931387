/* Kernels add norms, activations, softmax, embeddings and losses as operators.  The options choose
 * between two implementations: fused kernels are one 16-bit operator each, and eager ones are the
 * operators that Hugging Face's PyTorch code runs.  Functions return the result. */
#ifndef PZ_WORKLOAD_KERNELS_H
#define PZ_WORKLOAD_KERNELS_H

#include "workload/arch.h"
#include "workload/build.h"

/* ---- norms of rows of `width` values --------------------------------------------------------- */

uint32_t pz_kernel_layernorm(struct pz_builder *builder, const char *name, uint32_t input,
                             int64_t width, bool affine);

uint32_t pz_kernel_rmsnorm(struct pz_builder *builder, const char *name, uint32_t input,
                           int64_t width);

/* RMS norm inside a tensor-parallel region, where each device has rows of its own heads, or
 * partial gradients of the same rows.  The gradient of the weight is a partial sum. */
uint32_t pz_kernel_rmsnorm_inside(struct pz_builder *builder, const char *name, uint32_t input,
                                  int64_t width);

/* RMS norm of rows that are divided over the tensor-parallel group, like the weight.  The exchange
 * of the sums of squares, 4 bytes a row, is not counted. */
uint32_t pz_kernel_rmsnorm_divided(struct pz_builder *builder, const char *name, uint32_t input,
                                   int64_t width);

/* RMS norm of each group of group_width values, all on one device.  The weight has `width` values
 * over all devices. */
uint32_t pz_kernel_rmsnorm_groups(struct pz_builder *builder, const char *name, uint32_t input,
                                  int64_t width, int64_t group_width);

/* RMS norm without a weight. */
uint32_t pz_kernel_rmsnorm_plain(struct pz_builder *builder, const char *name, uint32_t input,
                                 int64_t width);

/* ---- element-wise functions, softmax, rotary embedding --------------------------------------- */

uint32_t pz_kernel_activation(struct pz_builder *builder, const char *name, enum pz_act act,
                              uint32_t input);

/* Gated activation: act(gate) * up. */
uint32_t pz_kernel_gated(struct pz_builder *builder, const char *name, enum pz_act act,
                         uint32_t gate, uint32_t up);

/* Soft cap of scores or logits: cap * tanh(input / cap). */
uint32_t pz_kernel_cap(struct pz_builder *builder, const char *name, uint32_t input);

/* Softmax over the last dimension, with one more logit for each head unless `sinks` is PZ_NONE. If
 * f32 is set, eager code converts the scores to 32 bit and back. */
uint32_t pz_kernel_softmax(struct pz_builder *builder, const char *name, uint32_t input,
                           uint32_t sinks, bool f32);

/* Rotary embedding of the first `dims` of the head_dim values of each head. */
uint32_t pz_kernel_rotary(struct pz_builder *builder, const char *name, uint32_t input,
                          int64_t dims, int64_t head_dim);

/* Dropout.  The option `dropout` replaces a nonzero probability of the model.  A probability of 0
 * adds no operator and returns the input. */
uint32_t pz_kernel_dropout(struct pz_builder *builder, const char *name, uint32_t input,
                           double probability);

/* ---- embeddings and loss --------------------------------------------------------------------- */

/* Looks up n_rows rows in a table of table_rows rows, which are divided over the tensor-parallel
 * group if `divide` is set. */
uint32_t pz_kernel_embedding(struct pz_builder *builder, const char *name, int64_t n_rows,
                             int64_t table_rows, int64_t width, bool divide);

/* Looks up the rows of all tokens in a divided table that belongs to another layer. */
uint32_t pz_kernel_embedding_tied(struct pz_builder *builder, const char *name, int64_t table_rows,
                                  int64_t width);

/* Cross-entropy of the logits (tokens x this device's classes) and the labels.  If f32 is set,
 * eager code converts the logits to 32 bit. */
uint32_t pz_kernel_loss(struct pz_builder *builder, uint32_t logits, bool f32);

#endif
