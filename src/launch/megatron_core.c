#include "launch/megatron_core.h"

#include <inttypes.h>
#include <string.h>

/* The numbers of first and last stage go with other stages that are alike, and without chunks. */
static bool by_ends(const struct pz_plan *p, int64_t layers) {
  int64_t middle = p->pp - 2, rest = layers - p->first_layers - p->last_layers;
  return p->vpp == 1 && (middle ? rest % middle == 0 : rest == 0);
}

enum pz_core_division pz_core_division(const struct pz_launch *l) {
  const struct pz_plan *p = &l->plan;
  if (pz_plan_is_even(p, l->shape.layers)) return PZ_CORE_EVEN;
  if (p->first_layers || p->last_layers)
    return by_ends(p, l->shape.layers) ? PZ_CORE_ENDS : PZ_CORE_LAYOUT;
  return (l->shape.layers + 2) % (p->pp * p->vpp) == 0 ? PZ_CORE_LAYERS : PZ_CORE_LAYOUT;
}

void pz_core_layout(const struct pz_launch *l, FILE *out) {
  int64_t n = l->plan.pp * l->plan.vpp;
  for (int64_t j = 0; j < n; j++) {
    int64_t layers = pz_plan_blocks(&l->plan, l->shape.layers, j);
    if (j) fputc('|', out);
    if (j == 0) fputc('E', out);
    if (layers) fprintf(out, layers > 1 ? "t*%" PRId64 : "t", layers);
    if (j < n - 1) continue;
    if (layers > 1) fputc(',', out);
    for (int64_t i = 0; i < pz_core_predict_layers(l); i++) fputc('m', out);
    fputc('L', out);
  }
}

/* Kernels and collectives are issued in one order where tensor parallelism overlaps them; sharded weights are gathered,
 * and rows moved to experts, beside them. */
void pz_core_environment(const struct pz_launch *l, FILE *out) {
  int queues = pz_plan_overlaps(&l->plan, PZ_OVERLAP_EP) ? 32 : 1;
  if (pz_core_sharding(l))
    fputs("unset CUDA_DEVICE_MAX_CONNECTIONS\n\n", out);
  else
    fprintf(out, "export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-%d}\n\n",
            queues);
}

int64_t pz_core_predict_layers(const struct pz_launch *l) {
  return l->plan.mtp ? l->shape.predict_layers : 0;
}

void pz_core_modules(const struct pz_launch *l, const char *quote, const char *between, FILE *out) {
  int set = pz_plan_modules(&l->plan);
  const char *gap = "";
  if (!set) set = PZ_MODULE_CORE;
  for (int i = 0; pz_module_names[i]; i++) {
    if (!(set >> i & 1)) continue;
    fprintf(out, "%s%s%s%s", gap, quote, pz_module_names[i], quote);
    gap = between;
  }
}

void pz_core_expert_layers(const struct pz_launch *l, FILE *out) {
  int64_t dense = l->shape.dense_layers;
  if (dense)
    fprintf(out, "([0]*%" PRId64 "+[1]*%" PRId64 ")", dense, l->shape.layers - dense);
  else
    fprintf(out, "([1]*%" PRId64 ")", l->shape.layers);
}

const char *pz_core_attention(const struct pz_launch *l) {
  const char *library = l->plan.attention_library;
  if (l->plan.attention == PZ_ATTENTION_STANDARD) return "unfused";
  if (!library || !*library) return "auto";
  return strcmp(library, "cudnn") == 0 ? "fused" : "flash";
}

const char *pz_core_sharding(const struct pz_launch *l) {
  if (l->plan.zero < 2) return NULL;
  return l->plan.zero == 2 ? "optim_grads" : "optim_grads_params";
}
