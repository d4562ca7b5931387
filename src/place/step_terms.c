#include "place/step_terms.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "cost/power.h"
#include "cost/scan.h"
#include "step/recompute.h"
#include "workload/op.h"

/* ---- how often each runs ---------------------------------------------------------------------- */

void pz_term_counts_add(const struct pz_step_shape *x, const struct pz_plan *p, int64_t chunk,
                        double times, struct pz_term_counts *f) {
  const struct pz_layer_kinds *k = &x->m->kinds;
  int64_t n = pz_plan_blocks(p, x->m->n_blocks, chunk);
  int64_t start = pz_plan_start(p, x->m->n_blocks, chunk);
  int64_t recomputed = pz_plan_recomputed(p, chunk % p->pp, n);
  int how = p->recompute == PZ_RECOMPUTATION_SELECTIVE ? 2 : 1;
  for (uint32_t i = 0; i < k->n; i++) {
    f->n[i] += times * (double)pz_kind_count(k, i, start, n);
    if (recomputed)
      f->n[how * PZ_TERM_KINDS + (int)i] += times * (double)pz_kind_count(k, i, start, recomputed);
  }
  if (chunk == 0) f->n[PZ_TERM_ENDS] += times;
  if (chunk == p->pp * p->vpp - 1) f->n[PZ_TERM_ENDS + 1] += times;
  f->n[PZ_TERM_SEND] += 2 * times;
}

/* How often the term runs in one microbatch without recomputation. */
static double times_in_microbatch(const struct pz_step_shape *x, int term) {
  if (term >= PZ_TERM_ENDS) return 1;
  return term < (int)x->m->kinds.n ? (double)x->m->w->layers[x->m->kinds.layer[term]].count : 0;
}

static void add_whole(const struct pz_step_shape *x, double *v) {
  for (int row = 0; row < PZ_TERM_ROW; row += PZ_TERM_PATH)
    for (int i = 0; i < PZ_TERM_SEND; i++)
      v[row + PZ_TERM_WHOLE] += times_in_microbatch(x, i) * v[row + i];
}

/* ---- operators -------------------------------------------------------------------------------- */

typedef enum pz_status op_fn(void *ctx, const struct pz_op *op, int term, double times);

static enum pz_status each_recomputed(const struct pz_plan_space *s, const struct pz_layer *l,
                                      uint32_t kind, double times, op_fn *fn, void *ctx) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  bool *recomputed = pz_calloc(ops->n + 1, sizeof *recomputed);
  if (!recomputed) return pz_plan_no_memory(s);
  enum pz_status status = pz_recompute_ops(l, s->q->plan.saved, recomputed, s->err);
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++) {
    if (recomputed[i]) status = fn(ctx, &ops->op[i], PZ_TERM_KINDS + (int)kind, times);
    if (status == PZ_OK && ops->op[i].kind == PZ_OP_ATTENTION)
      status = fn(ctx, &ops->op[i], 2 * PZ_TERM_KINDS + (int)kind, times);
  }
  pz_free(recomputed);
  return status;
}

/* The longest path through a pass, by the times of the chip that the shape was made for: operators that no schedule runs
 * beside each other. */
static void mark_path(const struct pz_ops *ops, const struct pz_op_run *runs, double *end_s,
                      bool *on_path) {
  uint32_t last = PZ_NONE;
  for (uint32_t i = 0; i < ops->n; i++) {
    end_s[i] = 0;
    for (uint32_t k = 0; k < ops->op[i].n_pred; k++)
      end_s[i] = pz_fmax(end_s[i], end_s[ops->op[i].pred[k]]);
    end_s[i] += runs[i].kind == PZ_RUN_NONE ? 0 : runs[i].s;
    if (last == PZ_NONE || end_s[i] > end_s[last]) last = i;
  }
  while (last != PZ_NONE) {
    const struct pz_op *op = &ops->op[last];
    on_path[last] = true;
    last = PZ_NONE;
    for (uint32_t k = 0; k < op->n_pred; k++)
      if (last == PZ_NONE || end_s[op->pred[k]] > end_s[last]) last = op->pred[k];
  }
}

/* Operators of one direction, those of its longest path also as such. */
static enum pz_status each_of_pass(const struct pz_plan_space *s, const struct pz_ops *ops,
                                   const struct pz_op_run *runs, int term, double times, op_fn *fn,
                                   void *ctx) {
  double *end_s = runs ? pz_calloc(ops->n + 1, sizeof *end_s) : NULL;
  bool *on_path = runs ? pz_calloc(ops->n + 1, sizeof *on_path) : NULL;
  enum pz_status status = runs && !(end_s && on_path) ? pz_plan_no_memory(s) : PZ_OK;
  if (status == PZ_OK && runs) mark_path(ops, runs, end_s, on_path);
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++) {
    status = fn(ctx, &ops->op[i], term, times);
    if (status == PZ_OK && runs && on_path[i])
      status = fn(ctx, &ops->op[i], PZ_TERM_PATH + term, times);
  }
  pz_free(end_s);
  pz_free(on_path);
  return status;
}

/* Every operator of each term, `times` that often.  Ends with what fn returns where that is not PZ_OK. */
static enum pz_status each_op(const struct pz_plan_space *s, const struct pz_step_shape *x,
                              op_fn *fn, void *ctx) {
  const struct pz_workload *w = pz_step_pass(x->m);
  double halves = x->halves ? 2 : 1;
  enum pz_status status = PZ_OK;
  uint32_t kind = 0;
  for (uint32_t l = 0; l < w->n_layers && status == PZ_OK; l++) {
    const struct pz_layer *layer = &w->layers[l];
    bool block = kind < x->m->kinds.n && x->m->kinds.layer[kind] == l;
    int term = block ? (int)kind : PZ_TERM_ENDS + (kind > 0);
    double times = halves * (block ? 1 : (double)layer->count);
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD && status == PZ_OK; d++) {
      const struct pz_op_run *runs = x->halves ? NULL : x->m->kernels[l].runs[d];
      status = each_of_pass(s, &layer->ops[d], runs, term, times, fn, ctx);
    }
    if (block && status == PZ_OK) status = each_recomputed(s, layer, kind++, halves, fn, ctx);
  }
  return status;
}

/* Tokens may go to experts and back by GEMMs, and be sorted or not: these count as nothing. */
static bool counts(const struct pz_op *op) {
  bool moved = op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE || op->kind == PZ_OP_SORT;
  return op->op_class != PZ_CLASS_NONE && op->op_class != PZ_CLASS_COLLECTIVE && !moved;
}

static bool is_gemm(const struct pz_op *op) {
  return counts(op) && op->matmul_flop && !pz_op_mixes_tokens(op->kind);
}

/* ---- work that no chip saves ------------------------------------------------------------------ */

/* Chips with one resource that is finite: what an operator takes of it, whatever the rest. */
enum resource { ARRAYS, LANES, MEMORY, RESOURCES };

static const double ENDLESS = 1e18;

static struct pz_chip lone_chip(const struct pz_chip *like, enum resource r) {
  enum { MANY = 1 << 20 };
  struct pz_chip c = *like;
  c.clock_hz = 1;
  c.tensor.rows = c.tensor.cols = r == ARRAYS ? 1 : 1 << 14;
  c.tensor.cores = r == MEMORY ? MANY : 1;
  c.cold = false; /* no clock to lower */
  c.vector.cores = c.vector.lanes = r == LANES ? 1 : MANY;
  c.glb_bytes_per_s = ENDLESS;
  c.hbm.stacks = 1;
  c.hbm.bytes_per_s_per_stack = r == MEMORY ? 1 : ENDLESS;
  return c;
}

struct working {
  const struct pz_step_shape *x;
  struct pz_cost cost[RESOURCES];
  struct pz_term_work *work; /* by term */
  struct pz_error *err;
};

static enum pz_status add_work(void *ctx, const struct pz_op *op, int term, double times) {
  struct working *w = ctx;
  struct pz_term_work *to = &w->work[term];
  bool attention = op->kind == PZ_OP_ATTENTION;
  struct pz_op one = *op;
  struct pz_estimate e[RESOURCES];
  if (!counts(op)) return PZ_OK;
  if (is_gemm(op)) {
    const struct pz_dims *d = &op->dims;
    to->macs += times * (double)d->batch * (double)d->m * (double)d->n * (double)d->k;
    to->tail_ops += times * pz_cost_extra(&w->cost[LANES].chip, op).tail_ops;
    return PZ_OK;
  }
  if (pz_op_is_scan(
          op->kind)) { /* of its products, which take less at the peak rate, nothing is claimed */
    struct pz_scan_work scan = pz_scan_work_of(op);
    struct pz_scan_counts n = pz_scan_counts(&scan);
    to->ops += times * n.lane_ops;
    to->bytes += times * n.bytes;
    return PZ_OK;
  }
  if (attention && one.dims.n == w->x->m->w->options.seq) one.dims.n = w->x->m->seq;
  for (enum resource r = 0; r < RESOURCES; r++) {
    enum pz_status status = pz_cost_op(&w->cost[r], &one, &e[r], w->err);
    if (status != PZ_OK) return status;
  }
  if (attention) {
    to->attention_flop += times * 2 * e[ARRAYS].latency_s;
    to->attention_ops += times * e[LANES].latency_s;
  } else {
    to->ops += times * e[LANES].latency_s;
    to->bytes += times * e[MEMORY].latency_s;
  }
  return PZ_OK;
}

static void add_whole_work(const struct pz_step_shape *x, struct pz_term_work *out) {
  struct pz_term_work *all = &out[PZ_TERM_WHOLE];
  for (int i = 0; i < PZ_TERM_SEND; i++) {
    double n = times_in_microbatch(x, i);
    all->attention_flop += n * out[i].attention_flop;
    all->attention_ops += n * out[i].attention_ops;
    all->ops += n * out[i].ops;
    all->bytes += n * out[i].bytes;
    all->tail_ops += n * out[i].tail_ops;
    all->macs += n * out[i].macs;
  }
}

static enum pz_status find_shape_work(const struct pz_plan_space *s, const struct pz_step_shape *x,
                                      struct pz_term_work out[PZ_TERM_ROW]) {
  struct working w = {.x = x, .work = out, .err = s->err};
  for (enum resource r = 0; r < RESOURCES; r++) {
    struct pz_chip c = lone_chip(s->q->job.chip, r);
    pz_cost_init(&w.cost[r], &c, NULL);
    w.cost[r].causal = x->m->cost.causal;
    w.cost[r].attention_library = x->m->cost.attention_library;
  }
  enum pz_status status = each_op(s, x, add_work, &w);
  for (enum resource r = 0; r < RESOURCES; r++) pz_cost_release(&w.cost[r]);
  add_whole_work(x, out);
  add_whole_work(x, out + PZ_TERM_PATH);
  return status;
}

static enum pz_status find_work(struct pz_term_tables *t) {
  struct pz_plan_space *s = t->space;
  t->work = pz_arena_alloc(t->arena, s->shapes.n, PZ_TERM_ROW * sizeof *t->work);
  t->share = pz_arena_alloc(t->arena, s->shapes.n, sizeof *t->share);
  if (!t->work || !t->share) return pz_plan_no_memory(s);
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    struct pz_step_shape *x = pz_shape_at(s, i);
    enum pz_status status = pz_step_shape_open(s->q, x, s->err);
    if (status != PZ_OK) return status;
    if (x->m->kinds.n > PZ_TERM_KINDS)
      return pz_fail(s->err, PZ_LIMIT, "%u kinds of layers; accepted: at most %d", x->m->kinds.n,
                     PZ_TERM_KINDS);
    t->share[i] = pz_step_shape_share(s->q, x);
    status = find_shape_work(s, x, t->work + (size_t)i * PZ_TERM_ROW);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

/* ---- tables of numbers by shape and term ------------------------------------------------------ */

static double *new_table(struct pz_term_tables *t) {
  return pz_arena_alloc(t->arena, t->space->shapes.n, PZ_TERM_ROW * sizeof(double));
}

/* One that was made for this key; NULL: none was.  Those of arrays, bytes and networks have keys of other sizes. */
static const double *find_table(const struct pz_term_tables *t, const void *key, size_t bytes) {
  uint32_t at = pz_map_get(&t->table_at, key, bytes);
  return at == PZ_NONE ? NULL : *pz_vec_at(&t->tables, const double *, at);
}

static enum pz_status keep_table(struct pz_term_tables *t, const void *key, size_t bytes,
                                 const double *table) {
  uint32_t at = t->tables.n;
  bool kept = pz_vec_push(&t->tables, &table) && pz_map_put(&t->table_at, key, bytes, at) == PZ_OK;
  return kept ? PZ_OK : pz_plan_no_memory(t->space);
}

/* ---- GEMMs ------------------------------------------------------------------------------------ */

/* A GEMM of a shape, so many times in a term. */
struct gemm_use {
  uint32_t gemm;
  int term;
  double times;
};

/* GEMMs are few: shapes with as many tokens on a device have the same. */
static enum pz_status add_gemm(void *ctx, const struct pz_op *op, int term, double times) {
  struct pz_term_tables *t = ctx;
  if (!is_gemm(op)) return PZ_OK;
  struct pz_product p = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  const int64_t key[] = {p.batch, p.m, p.n, p.k};
  uint32_t at = pz_map_get(&t->gemm_at, key, sizeof key);
  if (at == PZ_NONE) {
    at = t->gemms.n;
    if (!pz_vec_push(&t->gemms, &p) || pz_map_put(&t->gemm_at, key, sizeof key, at) != PZ_OK)
      return pz_plan_no_memory(t->space);
  }
  struct gemm_use one = {at, term, times};
  return pz_vec_push(&t->uses, &one) ? PZ_OK : pz_plan_no_memory(t->space);
}

static enum pz_status find_gemms(struct pz_term_tables *t) {
  uint32_t n = t->space->shapes.n;
  enum pz_status status = PZ_OK;
  t->first_use = pz_arena_alloc(t->arena, n + 1, sizeof *t->first_use);
  if (!t->first_use) return pz_plan_no_memory(t->space);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    status = each_op(t->space, pz_shape_at(t->space, i), add_gemm, t);
    t->first_use[i + 1] = t->uses.n;
  }
  t->gemm_number = pz_arena_alloc(t->arena, t->gemms.n, sizeof(double));
  t->sums = new_table(t);
  return t->gemm_number && t->sums ? status : pz_plan_no_memory(t->space);
}

/* The numbers of GEMMs at hand, summed by shape and term. */
static void add_gemms(const struct pz_term_tables *t, double *out) {
  for (uint32_t i = 0; i < t->space->shapes.n; i++) {
    double *one = out + (size_t)i * PZ_TERM_ROW;
    for (uint32_t k = t->first_use[i]; k < t->first_use[i + 1]; k++) {
      const struct gemm_use *u = pz_vec_at(&t->uses, struct gemm_use, k);
      one[u->term] += u->times * t->gemm_number[u->gemm];
    }
    add_whole(pz_shape_at(t->space, i), one);
  }
}

static enum pz_status sum_cycles(struct pz_term_tables *t, const struct pz_chip *c, const void *key,
                                 size_t key_bytes, const double **out) {
  size_t bytes = (size_t)t->space->shapes.n * PZ_TERM_ROW * sizeof(double);
  for (uint32_t i = 0; i < t->gemms.n; i++) {
    const struct pz_product *p = pz_vec_at(&t->gemms, struct pz_product, i);
    enum pz_status status = pz_product_core_s(p, c, &t->gemm_number[i], t->space->err);
    if (status != PZ_OK) return status;
    t->gemm_number[i] *= c->clock_hz;
  }
  memset(t->sums, 0, bytes);
  add_gemms(t, t->sums);
  *out = pz_shared_table_put(t->space->q->shared, key, key_bytes, t->sums, bytes);
  if (*out) return PZ_OK;
  double *own = new_table(t);
  if (!own) return pz_plan_no_memory(t->space);
  return *out = memcpy(own, t->sums, bytes), PZ_OK;
}

/* On one core with its part of the global buffer's rate: several cores take no less of all their cycles together. */
static enum pz_status array_cycles(struct pz_term_tables *t, const struct pz_chip *chip,
                                   const double **out) {
  struct pz_chip c = *chip;
  c.rules.nested_mapping = false;
  c.tensor.cores = 1;
  c.tensor.local_bytes_per_s = c.tensor.local_total_bytes_per_s = 0;
  c.clock_hz = 1e9;
  c.glb_bytes_per_s = chip->glb_bytes_per_s / (double)chip->tensor.cores / chip->clock_hz * 1e9;
  c.glb_bytes = INT64_C(1) << 40;
  c.hbm.bytes_per_s_per_stack = 1e18;
  const double key[] = {PZ_SHARED_CYCLES,
                        t->space->q->shared_as,
                        (double)chip->tensor.rows,
                        (double)chip->tensor.cols,
                        (double)chip->tensor.local_bytes,
                        (double)chip->tensor.register_bytes,
                        c.glb_bytes_per_s,
                        chip->rules.fill,
                        chip->rules.duplex,
                        chip->rules.partitioned,
                        chip->rules.double_buffer,
                        (double)chip->rules.operand_bytes,
                        (double)chip->rules.sum_bytes};
  if ((*out = find_table(t, key, sizeof key))) return PZ_OK;
  *out = pz_shared_table_get(t->space->q->shared, key, sizeof key);
  enum pz_status status = *out ? PZ_OK : sum_cycles(t, &c, key, sizeof key, out);
  return status == PZ_OK ? keep_table(t, key, sizeof key, *out) : status;
}

/* Bytes of HBM that GEMMs move at least. */
static enum pz_status gemm_bytes(struct pz_term_tables *t, const struct pz_chip *c,
                                 const double **out) {
  const int64_t key[] = {c->tensor.rows, c->tensor.cols, c->glb_bytes};
  if ((*out = find_table(t, key, sizeof key))) return PZ_OK;
  double *bytes = new_table(t);
  if (!bytes) return pz_plan_no_memory(t->space);
  for (uint32_t i = 0; i < t->gemms.n; i++) {
    const struct pz_product *p = pz_vec_at(&t->gemms, struct pz_product, i);
    enum pz_status status =
        pz_product_times_hbm_bytes(t->times, p, c, &t->gemm_number[i], t->space->err);
    if (status != PZ_OK) return status;
  }
  add_gemms(t, bytes);
  *out = bytes;
  return keep_table(t, key, sizeof key, bytes);
}

/* ---- collectives ------------------------------------------------------------------------------ */

static double shown_s(const struct pz_layer_step *l) {
  return l->forward.collectives_s + l->backward.collectives_s + l->forward.expert_s +
         l->backward.expert_s;
}

/* Collectives of a shape: on a chip that is `slow`, those that show where everything hides that can while operators run
 * one after another; else, of a schedule, all that passes take on a chip that computes at once. */
static enum pz_status shape_collectives(struct pz_term_tables *t, struct pz_step_shape *x,
                                        const struct pz_cluster *net, bool slow, double *out) {
  struct pz_plan p = pz_step_shape_least(t->space->q, x);
  struct pz_chip chip = *t->space->q->job.chip;
  double rate = slow ? 1 : ENDLESS;
  chip.clock_hz = rate;
  chip.cold = false;
  chip.rules.nested_mapping = false;
  chip.hbm.bytes_per_s_per_stack = chip.glb_bytes_per_s = rate;
  p.recompute = PZ_RECOMPUTATION_FULL;
  if (t->scheduled && slow) p.execution = PZ_EXECUTION_SERIAL;
  x->timed_for = 0;
  enum pz_status status = pz_step_model_set_chip(x->m, &chip, net, &p, t->times, t->space->err);
  if (status == PZ_OK) status = pz_step_model_time(x->m, &p, 2, PZ_TIMING_BOUND, t->space->err);
  if (status != PZ_OK) return status;
  const struct pz_model_steps *m = x->m->steps;
  double (*of)(const struct pz_layer_step *) = slow ? shown_s : pz_layer_step_s;
  for (uint32_t k = 0; k < x->m->kinds.n; k++) {
    out[k] = of(&m->block[k]);
    if (slow && !t->scheduled) out[PZ_TERM_KINDS + k] = pz_fmax(0, of(&m->again[k]) - out[k]);
  }
  out[PZ_TERM_ENDS] = of(&m->before);
  out[PZ_TERM_ENDS + 1] = of(&m->after);
  return PZ_OK;
}

static enum pz_status net_collectives(struct pz_term_tables *t, const struct pz_cluster *net,
                                      bool slow, const double **out) {
  double key[3 * PZ_CLUSTER_MOST_LEVELS + 1] = {0};
  for (int l = 0; l < net->n_levels; l++) {
    key[3 * l] = (double)net->level[l].devices;
    key[3 * l + 1] = net->level[l].bytes_per_s;
    key[3 * l + 2] = net->level[l].latency_s;
  }
  key[3 * PZ_CLUSTER_MOST_LEVELS] = slow;
  if ((*out = find_table(t, key, sizeof key))) return PZ_OK;
  double *s = new_table(t);
  if (!s) return pz_plan_no_memory(t->space);
  for (uint32_t i = 0; i < t->space->shapes.n; i++) {
    struct pz_step_shape *x = pz_shape_at(t->space, i);
    bool path = t->scheduled && slow; /* halves wait for each other nowhere */
    double *row = s + (size_t)i * PZ_TERM_ROW;
    enum pz_status status =
        path && x->halves ? PZ_OK
                          : shape_collectives(t, x, net, slow, row + (path ? PZ_TERM_PATH : 0));
    if (status != PZ_OK) return status;
    add_whole(x, row);
  }
  *out = s;
  return keep_table(t, key, sizeof key, s);
}

/* ---- the whole -------------------------------------------------------------------------------- */

/* Of a multiply-accumulate at least: at the clock f at which products at the full rate take all of the watts.  A product
 * below f is no faster for its clock; one above takes as much energy as one at f, or more, from the same watts. */
static double product_s(const struct pz_chip *c) {
  struct pz_power p;
  if (!c->cold) return 0;
  double rate = pz_power_products(c, &p);
  return p.latency_s / rate;
}

enum pz_status pz_term_rates_of(struct pz_term_tables *t, const struct pz_chip *c,
                                const struct pz_cluster *net, struct pz_term_rates *r) {
  const struct pz_correction *f = &c->correction;
  struct pz_cluster corrected = *net;
  /* of all factors: GEMMs have tails, attention lanes */
  double least = pz_fmin(pz_fmin(pz_corrected(f->gemms), pz_corrected(f->attention)),
                         pz_corrected(f->elementwise));
  pz_cluster_correct(&corrected, f);
  *r = (struct pz_term_rates){.cycle = least / ((double)c->tensor.cores * c->clock_hz),
                              .mac = least * product_s(c),
                              .flop = least / pz_chip_tensor_flop_per_s(c),
                              .op = least / pz_chip_vector_op_per_s(c),
                              .byte = least / pz_chip_hbm_bytes_per_s(c)};
  enum pz_status status = array_cycles(t, c, &r->cycles);
  if (status == PZ_OK) status = net_collectives(t, &corrected, !t->scheduled, &r->collectives);
  if (status == PZ_OK && t->scheduled)
    status = net_collectives(t, &corrected, true, &r->path_collectives);
  return status;
}

void pz_term_tables_init(struct pz_term_tables *t, struct pz_plan_space *space,
                         struct pz_arena *arena) {
  *t = (struct pz_term_tables){.space = space, .arena = arena};
  pz_map_init(&t->gemm_at, arena);
  pz_map_init(&t->table_at, arena);
  pz_vec_init(&t->gemms, arena, sizeof(struct pz_product));
  pz_vec_init(&t->uses, arena, sizeof(struct gemm_use));
  pz_vec_init(&t->tables, arena, sizeof(const double *));
}

enum pz_status pz_term_tables_begin(struct pz_term_tables *t) {
  t->scheduled = pz_step_is_scheduled(t->space->q->job.chip, &t->space->q->plan);
  t->times = t->space->q->job.times;
  enum pz_status status = find_work(t);
  return status == PZ_OK ? find_gemms(t) : status;
}

/* ---- energy ----------------------------------------------------------------------------------- */

/* Of a term of a shape on one device, as the bill has it (chip/bill.c). */
static double term_j(const struct pz_term_tables *tables, const struct pz_chip *c, double voltage2,
                     const double *bytes, size_t at) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  const struct pz_term_work *w = &tables->work[at];
  double mac_j = t->mac_j + pz_chip_local_bytes_per_mac(c) * t->local_j;
  return voltage2 * ((w->macs + w->attention_flop / 2) * mac_j +
                     (w->attention_ops + w->ops + w->tail_ops) * t->lane_j) +
         (w->bytes + bytes[at]) * (t->hbm_j + t->glb_j);
}

enum pz_status pz_term_least_j(struct pz_term_tables *t, const struct pz_chip *chip,
                               double voltage2, double *joules) {
  const double *bytes = NULL;
  double least = HUGE_VAL;
  enum pz_status status = gemm_bytes(t, chip, &bytes);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < t->space->shapes.n; i++) {
    size_t whole = (size_t)i * PZ_TERM_ROW + PZ_TERM_WHOLE;
    least = pz_fmin(least, t->share[i] * term_j(t, chip, voltage2, bytes, whole));
  }
  /* sums in another order */
  return *joules = least * (double)t->space->q->plan.devices * (1 - 1e-9), PZ_OK;
}
