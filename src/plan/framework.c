/* The table of training frameworks: frameworks.def has one row for each of them, and the macros
 * below abbreviate its columns.  Which plans a framework can run is in framework_rules.c. */
#include "plan/framework.h"

#include "chip/chip.h"
#include "core/text.h"

#define KERNELS(set, add_up, per_operator)                                                         \
  .kernels = PZ_KERNELS_##set, .accumulation = PZ_ACCUMULATION_##add_up,                           \
  .launches_per_op = per_operator
#define STATE(moved, held) .optimizer_bytes = moved, .state_bytes = held
#define MEMORY(weights, go) .weight_bytes = weights, .gradients = PZ_GRADIENTS_##go
#define SHARD_COPIES(gather, scatter) .gather_copy_bytes = gather, .scatter_copy_bytes = scatter
#define PADDED_VOCAB .vocab_multiple = 128
#define WORK_SPACE .reserve_bytes = 64 << 20
#define TE_WORK_SPACE WORK_SPACE, .transformer_engine = true
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

static const struct pz_framework frameworks[] = {
#define FRAMEWORK(called, ...) {.name = called, __VA_ARGS__},
#include "plan/frameworks.def"
#undef FRAMEWORK
};

const char *const pz_framework_names[] = {
#define FRAMEWORK(called, ...) called,
#include "plan/frameworks.def"
#undef FRAMEWORK
    NULL};

const struct pz_framework *pz_framework_at(int position) {
  enum { FRAMEWORKS = sizeof frameworks / sizeof *frameworks };
  return &frameworks[position >= 0 && position < FRAMEWORKS ? position : 0];
}

int pz_framework_find(const char *name) {
  for (int i = 0; name && pz_framework_names[i]; i++)
    if (pz_text_same(pz_framework_names[i], name)) return i;
  return -1;
}

int pz_framework_default(const struct pz_chip *chip) {
  bool runs_compiled_programs = chip && chip->execution != PZ_CHIP_STREAM;
  return pz_framework_find(runs_compiled_programs ? "maxtext" : "megatron");
}

bool pz_framework_compiles(const struct pz_framework *framework) {
  return framework->launches_per_op == 0;
}
