/* Habits of training frameworks: a framework is one row. */
#include <string.h>

#include "place/training.h"

/* launches: kernels that the framework starts for one operator of the fused graph, with what its
 * autograd, dropout and casts add. */
static const struct pz_framework frameworks[] = {
    {"megatron", true, PZ_KERNELS_POINTWISE, 1.6, 18, false},
    {"megatron-deepspeed", true, PZ_KERNELS_POINTWISE, 1.6, 18, false},
    {"deepspeed", true, PZ_KERNELS_POINTWISE, 1.6, 18, true},
    {"nemo", false, PZ_KERNELS_POINTWISE, 1.6, 18, false},
    {"zero-bubble", true, PZ_KERNELS_POINTWISE, 1.6, 18, false},
    {"llm-foundry", false, PZ_KERNELS_MODULES, 1.6, 16, false},
    {"torchtitan", false, PZ_KERNELS_EAGER, 0.6, 16, false},
    {"torch", false, PZ_KERNELS_EAGER, 0.3, 18, false},
    {"maxtext", false, PZ_KERNELS_POINTWISE, 0, 16, false},
    {"paxml", false, PZ_KERNELS_POINTWISE, 0, 16, false},
    {"jax", false, PZ_KERNELS_POINTWISE, 0, 16, false},
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
