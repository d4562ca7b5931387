/* Kernels add norms, activations, softmax, embeddings and losses as operators.  The options choose
 * between two implementations: fused kernels are one 16-bit operator each, and eager ones are the
 * operators that Hugging Face's PyTorch code runs.  Functions return the result. */
#ifndef PZ_WORKLOAD_KERNELS_H
#define PZ_WORKLOAD_KERNELS_H

#include "workload/arch.h"
#include "workload/build.h"

/* ---- norms of rows of `width` values --------------------------------------------------------- */

/* Layer norm, with a weight and a bias if `affine` is set. */
uint32_t pz_kernel_layernorm(struct pz_builder *builder, const char *name, uint32_t input,
                             int64_t width, bool affine);

/* The kinds of RMS norms: without weights; outside of the tensor-parallel regions; or inside, where
 * each device has rows of its own heads or partial gradients of the same rows. */
enum pz_norm_kind { PZ_NORM_PLAIN, PZ_NORM_OUTSIDE, PZ_NORM_INSIDE };
uint32_t pz_kernel_rmsnorm(struct pz_builder *builder, const char *name, uint32_t input,
                           int64_t width, enum pz_norm_kind kind);

/* RMS norm of each group of group_width values in rows of `width` values, which are divided over
 * the tensor-parallel group, like the weight.  A group is on one device, unless it is the whole
 * row.  The exchange of the sums of squares, 4 bytes a row, is not counted. */
uint32_t pz_kernel_rmsnorm_divided(struct pz_builder *builder, const char *name, uint32_t input,
                                   int64_t width, int64_t group_width);

/* ---- element-wise functions, softmax, rotary embedding --------------------------------------- */

/* Activation function of each value. */
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

/* How devices of a tensor-parallel group hold the table of an embedding: as a whole on each of
 * them, divided by rows, or divided by rows and owned by another layer. */
enum pz_table { PZ_TABLE_WHOLE, PZ_TABLE_DIVIDED, PZ_TABLE_TIED };

/* Looks up n_rows rows in a table of table_rows rows. */
uint32_t pz_kernel_embedding(struct pz_builder *builder, const char *name, int64_t n_rows,
                             int64_t table_rows, int64_t width, enum pz_table kind);

/* Cross-entropy of the logits (tokens x this device's classes) and the labels.  If f32 is set,
 * eager code converts the logits to 32 bit. */
uint32_t pz_kernel_loss(struct pz_builder *builder, uint32_t logits, bool f32);

#endif
