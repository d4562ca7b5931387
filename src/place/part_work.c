#include "place/part_work.h"

#include "chip/chip.h"
#include "workload/op.h"

/* Chips with one resource that is finite: what an operator takes of it, whatever the rest. */
enum resource { ARRAYS, LANES, MEMORY, RESOURCES };

static struct pz_chip lone_chip(const struct pz_chip *like, enum resource r) {
  static const double ENDLESS = 1e18;
  enum { MANY = 1 << 20 };
  struct pz_chip c = *like;
  c.clock_hz = 1;
  c.tensor.rows = c.tensor.cols = r == ARRAYS ? 1 : 1 << 14;
  c.tensor.cores = r == ARRAYS ? 1 : MANY;
  c.vector.cores = c.vector.lanes = r == LANES ? 1 : MANY;
  c.glb_bytes_per_s = ENDLESS;
  c.hbm.stacks = 1;
  c.hbm.bytes_per_s_per_stack = r == MEMORY ? 1 : ENDLESS;
  return c;
}

/* Rows may go to experts and back by products, and be sorted or not: these count as nothing. */
static bool counts(const struct pz_op *op) {
  bool moved = op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE || op->kind == PZ_OP_SORT;
  return op->op_class != PZ_CLASS_NONE && op->op_class != PZ_CLASS_COLLECTIVE && !moved;
}

bool pz_part_has_product(const struct pz_op *op) {
  return counts(op) && op->matmul_flop && op->kind != PZ_OP_ATTENTION;
}

static enum pz_status add_work(const struct pz_step_shape *x, struct pz_cost cost[RESOURCES],
                               const struct pz_op *op, double times, struct pz_part_work *f,
                               struct pz_error *err) {
  bool attention = op->kind == PZ_OP_ATTENTION;
  struct pz_op one = *op;
  struct pz_estimate e[RESOURCES];
  if (!counts(op)) return PZ_OK;
  if (pz_part_has_product(op)) {
    const struct pz_dims *d = &op->dims;
    f->macs += times * (double)d->batch * (double)d->m * (double)d->n * (double)d->k;
    f->tail_ops += times * pz_cost_extra(&cost[LANES].chip, op).tail_ops;
    return PZ_OK;
  }
  if (attention && one.dims.n == x->m->w->options.seq) one.dims.n = x->m->seq;
  for (enum resource r = 0; r < RESOURCES; r++) {
    enum pz_status status = pz_cost_op(&cost[r], &one, &e[r], err);
    if (status != PZ_OK) return status;
  }
  if (attention) {
    f->attention_flop += times * 2 * e[ARRAYS].latency_s;
    f->attention_ops += times * e[LANES].latency_s;
  } else {
    f->ops += times * e[LANES].latency_s;
    f->bytes += times * e[MEMORY].latency_s;
  }
  return PZ_OK;
}

struct working {
  const struct pz_step_shape *x;
  struct pz_cost cost[RESOURCES];
  struct pz_part_work *work;
  struct pz_error *err;
};

static enum pz_status add_op_work(void *ctx, const struct pz_op *op, int part, double times) {
  struct working *w = ctx;
  return add_work(w->x, w->cost, op, times, &w->work[part], w->err);
}

enum pz_status pz_part_work_of(const struct pz_plan_question *q, const struct pz_step_shape *x,
                               struct pz_part_work out[PZ_PART_NUMBERS], struct pz_error *err) {
  struct working w = {.x = x, .work = out, .err = err};
  for (enum resource r = 0; r < RESOURCES; r++) {
    struct pz_chip c = lone_chip(q->job.chip, r);
    pz_cost_init(&w.cost[r], &c, NULL);
    w.cost[r].causal = x->m->cost.causal;
    w.cost[r].attention_library = x->m->cost.attention_library;
  }
  enum pz_status status = pz_part_ops(x, q->plan.saved, add_op_work, &w, err);
  for (enum resource r = 0; r < RESOURCES; r++) pz_cost_release(&w.cost[r]);
  for (int p = 0; p < PZ_PART_SEND; p++) {
    double n = pz_part_layers(x, p);
    out[PZ_PART_WHOLE].attention_flop += n * out[p].attention_flop;
    out[PZ_PART_WHOLE].attention_ops += n * out[p].attention_ops;
    out[PZ_PART_WHOLE].ops += n * out[p].ops;
    out[PZ_PART_WHOLE].bytes += n * out[p].bytes;
    out[PZ_PART_WHOLE].tail_ops += n * out[p].tail_ops;
    out[PZ_PART_WHOLE].macs += n * out[p].macs;
  }
  return status;
}
