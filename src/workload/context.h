/* Context parallelism: a device has part of every sample's tokens, two pieces, one from each end, so that
 * causal attention is even (Megatron-LM; Brandon et al., arXiv 2311.09431).  What attention needs of the
 * others comes before it, in one of two forms:
 *   ring        keys and values of the others pass one part after another (Liu et al., arXiv 2310.01889),
 *               backward again and with their gradients; of a window or a chunk only those it reaches
 *   all-to-all  query, key and value of all tokens for part of the heads, and the result back (Jacobs et
 *               al., DeepSpeed Ulysses, arXiv 2309.14509) */
#ifndef PZ_WORKLOAD_CONTEXT_H
#define PZ_WORKLOAD_CONTEXT_H

#include "workload/arch.h"
#include "workload/build.h"

/* Can the model be divided so?  PZ_BAD_USE says why not. */
PZ_NODISCARD enum pz_status pz_context_check(const char *name, const struct pz_arch *a,
                                             const struct pz_workload_options *o,
                                             struct pz_error *err);

/* Does attention run on part of the heads? */
bool pz_context_by_heads(const struct pz_builder *b);

/* Parts into which the queries of an attention are divided. */
int64_t pz_context_parts(const struct pz_builder *b);

/* Keys of a sample that an attention of this device reads, its own included. */
int64_t pz_context_keys(const struct pz_builder *b, const struct pz_arch *a);

/* Into attention (query, key and value become what it reads) and out of it. */
void pz_context_enter(struct pz_builder *b, const struct pz_arch *a, uint32_t qkv[3]);
uint32_t pz_context_leave(struct pz_builder *b, uint32_t context);

#endif
