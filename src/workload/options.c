#include "workload/workload.h"

#include "workload/family.h"

const char *const pz_kernels_names[] = {"fused",     "eager",     "modules",
                                        "pointwise", "operators", NULL};
const char *const pz_attention_names[] = {"standard", "flash", NULL};
const char *const pz_recompute_names[] = {"none", "full", NULL};
const char *const pz_unknown_ops_names[] = {"refuse", "vector", NULL};
const char *const pz_context_names[] = {"ring", "all-to-all", NULL};

struct pz_workload_options pz_workload_options_default(void) {
  return (struct pz_workload_options){
      .size = sizeof(struct pz_workload_options), .mbs = 1, .tp = 1, .dropout = -1};
}

enum pz_status pz_workload_options_take(const struct pz_workload_options *caller,
                                        struct pz_workload_options *out, struct pz_error *err) {
  *out = pz_workload_options_default();
  return pz_sized_take(out, sizeof *out, caller, "pz_workload_options_default", err);
}

enum pz_status pz_workload_options_check(const struct pz_workload_options *o, int64_t least,
                                         struct pz_error *err) {
  enum pz_status s = pz_need_range("sequence length", o->seq, least, 1 << 24, err);
  if (s == PZ_OK) s = pz_need_range("microbatch size", o->mbs, 1, 1 << 20, err);
  if (s == PZ_OK) s = pz_need_range("tensor-parallel degree", o->tp, 1, 65536, err);
  if (s == PZ_OK) s = pz_need_range("context-parallel degree", o->cp, 0, 65536, err);
  if (s == PZ_OK) s = pz_need_range("cp_form", (int64_t)o->cp_form, 0, PZ_CONTEXT_ALL_TO_ALL, err);
  if (s == PZ_OK) s = pz_need_range("expert-parallel degree", o->ep, 0, 65536, err);
  if (s == PZ_OK) s = pz_need_range("expert-tensor-parallel degree", o->etp, 0, 65536, err);
  if (s == PZ_OK) s = pz_need_range("slice", o->slice, 0, o->tp - 1, err);
  if (s == PZ_OK)
    s = pz_need_range("number of layers", o->num_layers, least, PZ_RANGE_LAYERS.max, err);
  if (s == PZ_OK) s = pz_need_range("vocab_multiple", o->vocab_multiple, 0, INT64_C(1) << 31, err);
  if (s == PZ_OK) s = pz_need_range("kernels", (int64_t)o->kernels, 0, PZ_KERNELS_OPERATORS, err);
  if (s == PZ_OK) s = pz_need_range("attention", (int64_t)o->attention, 0, PZ_ATTENTION_FLASH, err);
  if (s == PZ_OK) s = pz_need_range("recompute", (int64_t)o->recompute, 0, PZ_RECOMPUTE_FULL, err);
  if (s == PZ_OK)
    s = pz_need_range("unknown_ops", (int64_t)o->unknown_ops, 0, PZ_UNKNOWN_VECTOR, err);
  return s;
}
