/* Habits of training frameworks: a framework is one row. */
#include <string.h>

#include "place/recompute.h"
#include "place/training.h"

/* launches: kernels that the framework starts for one operator of the fused graph, with what its
 * autograd, dropout and casts add.  optimizer_bytes: Adam in fp32 reads weight, gradient and two
 * moments and writes all but the gradient, 28 bytes; the norm of gradients reads 4; where gradients
 * are kept they are set to zero, 4; a 16-bit copy of the weight is written, 2; torch, as measured,
 * copies 16-bit gradients to fp32 and weights back, 12. */
#define KERNELS(set, add_up, per_operator)                                                         \
  .kernels = PZ_KERNELS_##set, .accumulation = PZ_ACCUMULATION_##add_up, .launches = per_operator
#define STATE(moved, held) .optimizer_bytes = moved, .state_bytes = held
/* weights: 2 bytes beside an fp32 master copy (12 bytes with Adam's moments), or 4 that are their own.
 * gradients: Megatron's products add to the fp32 buffer; Transformer Engine still gives autograd an
 * empty 16-bit gradient, one for each shape of a matrix, that stays allocated (get_dummy_wgrad in its
 * pytorch/module/base.py).  The plain loop of torch leaves 16-bit gradients in place until they are
 * copied to fp32.  Work space is what PyTorch gives the matrix library: src/workload/memory.c. */
#define MEMORY(weights, go) .weight_bytes = weights, .gradients = PZ_GRADIENTS_##go
#define WORK_SPACE .reserve_bytes = 64 << 20
#define PLAN(recompute, zero, overlap, execution, attention, grad_bytes, library)                  \
  {                                                                                                \
    PZ_RECOMPUTATION_##recompute, zero, overlap, PZ_EXECUTION_##execution,                         \
        PZ_ATTENTION_##attention, grad_bytes, library                                              \
  }

enum {
  NONE = 0,
  GRAD = PZ_OVERLAP_GRAD,
  SHARDS = PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM,
  ALL = PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM | PZ_OVERLAP_TP | PZ_OVERLAP_P2P
};

/* counts_rows: Megatron Core's dispatchers of tokens copy the numbers of rows to the host (cuda_sync_point in
 * megatron/core/transformer/moe/token_dispatcher.py).  graphs: NVIDIA's recipes for GB200 and GB300 capture attention, router and the
 * preparation of the dispatch (cuda_graph_scope in scripts/performance/configs of Megatron Bridge). */
/* torch-16bit: forward and backward alone, in 16 bit, gradients made anew (tests of layers with experts on an H200). */
/* capacity: MaxText's recipes for models with experts (capacity_factor, sparse_matmul off in its benchmarks/maxtext_trillium_model_configs.py). */
/* sorts_rows: the dispatcher of NVIDIA's recipes (HybridEP) writes rows in the experts' order.  hai-llm: DeepSeek's, as arXiv 2412.19437
 * tells it: rows go to experts in 8 bit (3.3), 20 of 132 SMs move them (3.2.2), norms, up-projections and activations are computed again (3.2.3, 3.3.3). */
/* The last column, what the framework does unless it is told: Megatron-LM's arguments (distributed
 * optimizer and overlap are asked for), NeMo's recipes (both are on), DeepSpeed's and Megatron-
 * DeepSpeed's configurations, FSDP of torchtitan's and LLM Foundry's, DistributedDataParallel of
 * PyTorch's training loops, and MaxText's base configuration (fully sharded, compiled by XLA). */
/* clang-format off */
static const struct pz_framework frameworks[] = {
    {"megatron", KERNELS(POINTWISE, FUSED, 1.6), .counts_rows = true, .sorts_rows = true, STATE(38, 18), .turns_on = SHARDS | PZ_OVERLAP_P2P, MEMORY(2, IN_PLACE), WORK_SPACE, .placeholders = true, .dropout = true, .plan = PLAN(NONE, 0, NONE, EAGER, FLASH, 4, NULL)},
    {"megatron-deepspeed", KERNELS(POINTWISE, FP32, 1.6), STATE(38, 18), MEMORY(2, PASSING), WORK_SPACE, .dropout = true, .plan = PLAN(NONE, 0, NONE, EAGER, STANDARD, 2, NULL)},
    {"deepspeed", KERNELS(POINTWISE, FP32, 1.6), STATE(38, 18), MEMORY(2, PASSING), WORK_SPACE, .dropout = true, .node_gather = true, .plan = PLAN(NONE, 0, NONE, EAGER, STANDARD, 2, NULL)},
    {"nemo", KERNELS(POINTWISE, FUSED, 1.6), .counts_rows = true, .graphs = true, STATE(38, 18), MEMORY(2, IN_PLACE), WORK_SPACE, .placeholders = true, .plan = PLAN(NONE, 1, ALL, EAGER, FLASH, 4, NULL)},
    {"hai-llm", KERNELS(POINTWISE, FUSED, 1.6), STATE(38, 18), .zero_bubble = true, .dualpipe = true, .fp8_dispatch = true, .communication_sms = 20.0 / 132, .modules = PZ_MODULE_NORM | PZ_MODULE_UP | PZ_MODULE_ACTIVATION, MEMORY(2, IN_PLACE), WORK_SPACE, .plan = PLAN(NONE, 1, ALL, EAGER, FLASH, 4, NULL)},
    {"zero-bubble", KERNELS(POINTWISE, FUSED, 1.6), STATE(38, 18), .zero_bubble = true, MEMORY(2, IN_PLACE), WORK_SPACE, .dropout = true, .plan = PLAN(NONE, 0, NONE, EAGER, STANDARD, 4, NULL)},
    {"llm-foundry", KERNELS(MODULES, FP32, 1.6), STATE(32, 16), MEMORY(4, PASSING), WORK_SPACE, .attention = "triton", .plan = PLAN(NONE, 3, SHARDS, EAGER, FLASH, 4, "fa2")},
    {"torchtitan", KERNELS(OPERATORS, FP32, 0.6), STATE(32, 16), MEMORY(4, PASSING), WORK_SPACE, .stops_early = true, .shards_stages = true, .plan = PLAN(ALTERNATE, 3, SHARDS, EAGER, FLASH, 4, "fa2")},
    {"transformers", KERNELS(EAGER, KEPT, 1), STATE(44, 4), MEMORY(2, PASSING), WORK_SPACE, .dropout = true, .plan = PLAN(NONE, 0, GRAD, EAGER, FLASH, 4, NULL)},
    {"torch", KERNELS(OPERATORS, FP32, 0.3), STATE(44, 18), MEMORY(2, KEPT), WORK_SPACE, .decoder = true, .stops_early = true, .plan = PLAN(NONE, 0, GRAD, EAGER, FLASH, 4, NULL)},
    {"torch-16bit", KERNELS(OPERATORS, FP32, 0.3), STATE(0, 2), MEMORY(2, KEPT), WORK_SPACE, .decoder = true, .stops_early = true, .plan = PLAN(NONE, 0, GRAD, EAGER, FLASH, 2, NULL)},
    {"maxtext", KERNELS(POINTWISE, FP32, 0), .capacity = 1.25, STATE(32, 16), MEMORY(4, IN_PLACE), .plan = PLAN(FULL, 3, ALL, GRAPH, FLASH, 4, NULL)},
    {"paxml", KERNELS(POINTWISE, FP32, 0), STATE(32, 16), MEMORY(4, IN_PLACE), .plan = PLAN(NONE, 3, ALL, GRAPH, FLASH, 4, NULL)},
    {"jax", KERNELS(POINTWISE, FP32, 0), STATE(32, 16), MEMORY(4, IN_PLACE), .plan = PLAN(NONE, 0, ALL, GRAPH, STANDARD, 4, NULL)},
};
/* clang-format on */

const char *pz_framework_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < sizeof frameworks / sizeof *frameworks ? frameworks[i].name : NULL;
}

const struct pz_framework *pz_framework_find(const char *name) {
  for (size_t i = 0; pz_framework_name(NULL, i); i++)
    if (strcmp(frameworks[i].name, name) == 0) return &frameworks[i];
  return NULL;
}

const char *pz_framework_at(size_t i) { return pz_framework_name(NULL, i); }

const char *pz_framework_default(const struct pz_chip *c) {
  return c->execution == PZ_CHIP_STREAM ? "megatron" : "maxtext";
}

bool pz_framework_compiles(const struct pz_framework *f) { return f->launches == 0; }
