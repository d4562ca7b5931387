#include "place/plan_parts.h"

#include "core/alloc.h"
#include "step/recompute.h"
#include "workload/op.h"

void pz_part_counts_add(const struct pz_step_shape *x, const struct pz_plan *p, int64_t chunk,
                        double times, struct pz_part_counts *f) {
  const struct pz_layer_kinds *k = &x->m->kinds;
  int64_t n = pz_plan_blocks(p, x->m->n_blocks, chunk);
  int64_t start = pz_plan_start(p, x->m->n_blocks, chunk);
  int64_t again = pz_plan_recomputed(p, chunk % p->pp, n);
  int how = p->recompute == PZ_RECOMPUTATION_SELECTIVE ? 2 : 1;
  for (uint32_t i = 0; i < k->n; i++) {
    f->n[i] += times * (double)pz_kind_count(k, i, start, n);
    if (again)
      f->n[how * PZ_PART_KINDS + (int)i] += times * (double)pz_kind_count(k, i, start, again);
  }
  if (chunk == 0) f->n[PZ_PART_ENDS] += times;
  if (chunk == p->pp * p->vpp - 1) f->n[PZ_PART_ENDS + 1] += times;
  f->n[PZ_PART_SEND] += 2 * times;
}

double pz_part_layers(const struct pz_step_shape *x, int part) {
  if (part >= PZ_PART_ENDS) return 1;
  return part < (int)x->m->kinds.n ? (double)x->m->w->layers[x->m->kinds.layer[part]].count : 0;
}

static enum pz_status each_again(const struct pz_layer *l, uint32_t kind, int saved,
                                 pz_part_op_fn *fn, void *ctx, struct pz_error *err) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  bool *again = pz_calloc(ops->n + 1, sizeof *again);
  if (!again) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  enum pz_status status = pz_recompute_ops(l, saved, again, err);
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++) {
    if (again[i]) status = fn(ctx, &ops->op[i], PZ_PART_KINDS + (int)kind, 1);
    if (status == PZ_OK && ops->op[i].kind == PZ_OP_ATTENTION)
      status = fn(ctx, &ops->op[i], 2 * PZ_PART_KINDS + (int)kind, 1);
  }
  pz_free(again);
  return status;
}

enum pz_status pz_part_ops(const struct pz_step_shape *x, int saved, pz_part_op_fn *fn, void *ctx,
                           struct pz_error *err) {
  const struct pz_workload *w = x->m->w;
  enum pz_status status = PZ_OK;
  uint32_t kind = 0;
  for (uint32_t l = 0; l < w->n_layers && status == PZ_OK; l++) {
    const struct pz_layer *layer = &w->layers[l];
    bool block = kind < x->m->kinds.n && x->m->kinds.layer[kind] == l;
    int part = block ? (int)kind : PZ_PART_ENDS + (kind > 0);
    double times = block ? 1 : (double)layer->count;
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      for (uint32_t i = 0; i < layer->ops[d].n && status == PZ_OK; i++)
        status = fn(ctx, &layer->ops[d].op[i], part, times);
    if (block && status == PZ_OK) status = each_again(layer, kind++, saved, fn, ctx, err);
  }
  return status;
}
