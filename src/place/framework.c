/* Habits of training frameworks: a framework is one row. */
#include <string.h>

#include "place/training.h"

/* launches: kernels that the framework starts for one operator of the fused graph, with what its
 * autograd, dropout and casts add.  optimizer_bytes: Adam in fp32 reads weight, gradient and two
 * moments and writes all but the gradient, 28 bytes; the norm of gradients reads 4; where gradients
 * are kept they are set to zero, 4; a 16-bit copy of the weight is written, 2; torch, as measured,
 * copies 16-bit gradients to fp32 and weights back, 12. */
static const struct pz_framework frameworks[] = {
    {"megatron", true, PZ_KERNELS_POINTWISE, true, 1.6, 38, 18, false},
    {"megatron-deepspeed", true, PZ_KERNELS_POINTWISE, false, 1.6, 38, 18, false},
    {"deepspeed", true, PZ_KERNELS_POINTWISE, false, 1.6, 38, 18, true},
    {"nemo", false, PZ_KERNELS_POINTWISE, true, 1.6, 38, 18, false},
    {"zero-bubble", true, PZ_KERNELS_POINTWISE, true, 1.6, 38, 18, false},
    {"llm-foundry", false, PZ_KERNELS_MODULES, false, 1.6, 32, 16, false},
    {"torchtitan", false, PZ_KERNELS_MODULES, false, 0.6, 32, 16, false},
    {"torch", false, PZ_KERNELS_MODULES, false, 0.3, 44, 18, false},
    {"maxtext", false, PZ_KERNELS_POINTWISE, false, 0, 32, 16, false},
    {"paxml", false, PZ_KERNELS_POINTWISE, false, 0, 32, 16, false},
    {"jax", false, PZ_KERNELS_POINTWISE, false, 0, 32, 16, false},
};

const char *pz_framework_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < sizeof frameworks / sizeof *frameworks ? frameworks[i].name : NULL;
}

const struct pz_framework *pz_framework_find(const char *name) {
  for (size_t i = 0; pz_framework_name(NULL, i); i++)
    if (strcmp(frameworks[i].name, name) == 0) return &frameworks[i];
  return NULL;
}
