/* Counts the terms of plans and makes tables of what they take (step_terms.h).
 *
 * pz_term_tables_init() walks over all operators of all shapes (visit_ops) twice: find_work() adds up the work that no
 * chip saves, and find_gemms() lists the GEMMs.  Tables that depend on some property of a chip or network are made when
 * they are first needed, and found again by a key of that property: array_cycles(), gemm_bytes() and
 * network_collectives().  pz_term_rates_of() combines them for one chip. */
#include "place/step_terms.h"

#include <math.h>
#include <string.h>

#include "cost/power.h"
#include "cost/scan.h"
#include "step/recompute.h"
#include "workload/op.h"

/* ---- how often each term runs --------------------------------------------------------------- */

void pz_term_counts_add(const struct pz_step_shape *x, const struct pz_plan *p, int64_t chunk,
                        double times, struct pz_term_counts *counts) {
  const struct pz_layer_kinds *kinds = &x->model->kinds;
  int64_t n = pz_plan_chunk_layers(p, x->model->n_blocks, chunk);
  int64_t start = pz_plan_layers_before(p, x->model->n_blocks, chunk);
  int64_t recomputed = pz_plan_recomputed_layers(p, chunk % p->pp, n);
  int recompute_terms = (p->recompute == PZ_RECOMPUTATION_SELECTIVE ? 2 : 1) * PZ_TERM_KINDS;
  for (uint32_t i = 0; i < kinds->n; i++) {
    counts->n[i] += times * (double)pz_kind_count(kinds, i, start, n);
    if (recomputed)
      counts->n[recompute_terms + (int)i] +=
          times * (double)pz_kind_count(kinds, i, start, recomputed);
  }
  if (chunk == 0) counts->n[PZ_TERM_ENDS] += times;
  if (chunk == p->pp * p->vpp - 1) counts->n[PZ_TERM_ENDS + 1] += times;
  counts->n[PZ_TERM_SEND] += 2 * times;
}

/* How often the term runs in one microbatch without recomputation. */
static double times_in_microbatch(const struct pz_step_shape *x, int term) {
  const struct pz_step_model *m = x->model;
  if (term >= PZ_TERM_ENDS) return 1;
  return term < (int)m->kinds.n ? (double)m->w->layers[m->kinds.layer[term]].count : 0;
}

/* Sets the whole microbatch in both parts of a row. */
static void sum_microbatch(const struct pz_step_shape *x, double *row) {
  for (int part = 0; part < PZ_TERM_ROW; part += PZ_TERM_PATH)
    for (int i = 0; i < PZ_TERM_SEND; i++)
      row[part + PZ_TERM_WHOLE] += times_in_microbatch(x, i) * row[part + i];
}

/* ---- operators ------------------------------------------------------------------------------ */

typedef void op_fn(struct pz_call *call, void *ctx, const struct pz_op *op, int term, double times);

/* Marks the operators of the longest path through a pass, by the times of the chip that the shape was made for.  No
 * schedule runs two of them at the same time. */
static void mark_longest_path(const struct pz_ops *ops, const struct pz_op_run *runs, double *end_s,
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

/* Visits the operators of one direction of a layer, those of its longest path also in the path's term.  `runs` is NULL
 * for halves, which have no such path. */
static void visit_pass(struct pz_call *call, const struct pz_ops *ops, const struct pz_op_run *runs,
                       int term, double times, op_fn *fn, void *ctx) {
  bool *on_path = pz_alloc(call, ops->n, sizeof *on_path);
  double *end_s = pz_alloc(call, ops->n, sizeof *end_s);
  if (runs) mark_longest_path(ops, runs, end_s, on_path);
  for (uint32_t i = 0; i < ops->n; i++) {
    fn(call, ctx, &ops->op[i], term, times);
    if (on_path[i]) fn(call, ctx, &ops->op[i], PZ_TERM_PATH + term, times);
  }
}

/* Visits the operators that a layer recomputes, fully and selectively. */
static void visit_recomputed(struct pz_call *call, const struct pz_plan_space *s,
                             const struct pz_layer *layer, uint32_t kind, double times, op_fn *fn,
                             void *ctx) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  const bool *recomputed = pz_recompute_ops(call, layer, s->q->plan.saved);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (recomputed[i]) fn(call, ctx, op, PZ_TERM_KINDS + (int)kind, times);
    if (op->kind == PZ_OP_ATTENTION) fn(call, ctx, op, 2 * PZ_TERM_KINDS + (int)kind, times);
  }
}

/* Calls fn for every operator of each term of a shape; it runs `times` in that term. */
static void visit_ops(struct pz_call *call, const struct pz_plan_space *s,
                      const struct pz_step_shape *x, op_fn *fn, void *ctx) {
  struct pz_call scratch = pz_scratch(call);
  const struct pz_workload *w = pz_step_pass(x->model);
  const struct pz_layer_kinds *kinds = &x->model->kinds;
  double halves = x->halves ? 2 : 1;
  uint32_t kind = 0;
  for (uint32_t l = 0; l < w->n_layers; l++) {
    const struct pz_layer *layer = &w->layers[l];
    bool is_block = kind < kinds->n && kinds->layer[kind] == l;
    int term = is_block ? (int)kind : PZ_TERM_ENDS + (kind > 0);
    double times = halves * (is_block ? 1 : (double)layer->count);
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
      const struct pz_op_run *runs = x->halves ? NULL : x->model->kernels[l].runs[d];
      visit_pass(&scratch, &layer->ops[d], runs, term, times, fn, ctx);
    }
    if (is_block) visit_recomputed(&scratch, s, layer, kind++, halves, fn, ctx);
  }
  pz_scratch_end(&scratch);
}

/* Whether an operator counts in a lower bound.  Tokens may be sent to experts by GEMMs, and sorted or not, so that these
 * operators do not. */
static bool is_counted(const struct pz_op *op) {
  bool moves = op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE || op->kind == PZ_OP_SORT;
  return op->op_class != PZ_CLASS_NONE && op->op_class != PZ_CLASS_COLLECTIVE && !moves;
}

static bool is_gemm(const struct pz_op *op) {
  return is_counted(op) && op->matmul_flop && !pz_op_mixes_tokens(op->kind);
}

/* ---- work that no chip saves ---------------------------------------------------------------- */

/* The work of an operator on one resource is its time on a chip on which only this resource is finite. */
enum resource { ARRAYS, LANES, MEMORY, RESOURCES };

static const double UNLIMITED = 1e18;

static struct pz_chip chip_with_one_resource(const struct pz_chip *like, enum resource r) {
  enum { MANY = 1 << 20 };
  struct pz_chip c = *like;
  c.clock_hz = 1;
  c.tensor.rows = c.tensor.cols = r == ARRAYS ? 1 : 1 << 14;
  c.tensor.cores = r == MEMORY ? MANY : 1;
  c.cold = false; /* it does not lower its clock */
  c.vector.cores = c.vector.lanes = r == LANES ? 1 : MANY;
  c.glb_bytes_per_s = UNLIMITED;
  c.hbm.stacks = 1;
  c.hbm.bytes_per_s_per_stack = r == MEMORY ? 1 : UNLIMITED;
  return c;
}

struct work_sum {
  const struct pz_step_shape *x;
  struct pz_cost cost[RESOURCES];
  struct pz_term_work *work; /* by term */
};

static void release_costs(void *sum) {
  for (enum resource r = 0; r < RESOURCES; r++) pz_cost_release(&((struct work_sum *)sum)->cost[r]);
}

static void add_op_work(struct pz_call *call, void *ctx, const struct pz_op *op, int term,
                        double times) {
  struct work_sum *sum = ctx;
  struct pz_term_work *work = &sum->work[term];
  bool attention = op->kind == PZ_OP_ATTENTION;
  struct pz_estimate e[RESOURCES];
  struct pz_op one = *op;
  if (!is_counted(op)) return;
  if (is_gemm(op)) {
    const struct pz_dims *d = &op->dims;
    work->macs += times * (double)d->batch * (double)d->m * (double)d->n * (double)d->k;
    work->tail_ops += times * pz_cost_extra(&sum->cost[LANES].chip, op).tail_ops;
    return;
  }
  if (pz_op_is_scan(op->kind)) { /* its products are left out: at the peak rate they take less */
    struct pz_scan_work scan = pz_scan_work_of(op);
    struct pz_scan_counts n = pz_scan_counts(&scan);
    work->ops += times * n.lane_ops;
    work->bytes += times * n.bytes;
    return;
  }
  if (attention && one.dims.n == sum->x->model->w->options.seq) one.dims.n = sum->x->model->seq;
  for (enum resource r = 0; r < RESOURCES; r++)
    pz_must(call, pz_cost_op(&sum->cost[r], &one, &e[r], pz_call_error(call)));
  if (attention) {
    work->attention_flop += times * 2 * e[ARRAYS].latency_s;
    work->attention_ops += times * e[LANES].latency_s;
  } else {
    work->ops += times * e[LANES].latency_s;
    work->bytes += times * e[MEMORY].latency_s;
  }
}

/* Sets the whole microbatch in one part of a row. */
static void sum_microbatch_work(const struct pz_step_shape *x, struct pz_term_work *part) {
  struct pz_term_work *whole = &part[PZ_TERM_WHOLE];
  for (int i = 0; i < PZ_TERM_SEND; i++) {
    double n = times_in_microbatch(x, i);
    whole->attention_flop += n * part[i].attention_flop;
    whole->attention_ops += n * part[i].attention_ops;
    whole->ops += n * part[i].ops;
    whole->bytes += n * part[i].bytes;
    whole->tail_ops += n * part[i].tail_ops;
    whole->macs += n * part[i].macs;
  }
}

/* Adds up the work of the terms of an open shape. */
static void find_shape_work(struct pz_call *call, const struct pz_plan_space *s,
                            const struct pz_step_shape *x, struct pz_term_work row[PZ_TERM_ROW]) {
  struct pz_call scratch = pz_scratch(call);
  struct work_sum *sum = pz_alloc(&scratch, 1, sizeof *sum);
  sum->x = x;
  sum->work = row;
  for (enum resource r = 0; r < RESOURCES; r++) {
    struct pz_chip c = chip_with_one_resource(s->q->job.chip, r);
    pz_cost_init(&sum->cost[r], &c, NULL);
    sum->cost[r].causal = x->model->cost.causal;
    sum->cost[r].attention_library = x->model->cost.attention_library;
  }
  pz_defer(call, release_costs, sum);
  visit_ops(call, s, x, add_op_work, sum);
  sum_microbatch_work(x, row);
  sum_microbatch_work(x, row + PZ_TERM_PATH);
  pz_close(call, sum);
  pz_scratch_end(&scratch);
}

static void find_work(struct pz_call *call, struct pz_term_tables *t) {
  struct pz_plan_space *s = t->space;
  t->work = pz_alloc(call, s->shapes.n, PZ_TERM_ROW * sizeof *t->work);
  t->share = pz_alloc(call, s->shapes.n, sizeof *t->share);
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    struct pz_step_shape *x = pz_shape_at(s, i);
    pz_step_shape_open(call, s->q, x);
    if (x->model->kinds.n > PZ_TERM_KINDS)
      pz_raise(call, PZ_LIMIT, "%u kinds of layers; accepted: at most %d", x->model->kinds.n,
               PZ_TERM_KINDS);
    t->share[i] = pz_step_shape_share(s->q, x);
    find_shape_work(call, s, x, t->work + (size_t)i * PZ_TERM_ROW);
  }
}

/* ---- tables by shape and term --------------------------------------------------------------- */

static size_t table_bytes(const struct pz_term_tables *t) {
  return (size_t)t->space->shapes.n * PZ_TERM_ROW * sizeof(double);
}

static double *new_table(struct pz_call *call, struct pz_term_tables *t) {
  struct pz_call own = pz_call_in(call, t->arena);
  return pz_alloc(&own, t->space->shapes.n, PZ_TERM_ROW * sizeof(double));
}

/* The table that was made for this key, or NULL.  Keys of arrays, of buffers and of networks have different sizes. */
static const double *find_table(const struct pz_term_tables *t, const void *key, size_t bytes) {
  uint32_t at = pz_map_get(&t->table_index, key, bytes);
  return at == PZ_NONE ? NULL : *pz_vec_at(&t->tables, const double *, at);
}

static void store_table(struct pz_call *call, struct pz_term_tables *t, const void *key,
                        size_t bytes, const double *table) {
  uint32_t at = t->tables.n;
  pz_append(call, &t->tables, &table);
  pz_map_set(call, &t->table_index, key, bytes, at);
}

/* ---- GEMMs ---------------------------------------------------------------------------------- */

/* A GEMM of a shape that runs `times` in a term. */
struct gemm_use {
  uint32_t gemm;
  int term;
  double times;
};

/* Lists a GEMM and its use.  There are few different ones: shapes with the same number of tokens on a device share them. */
static void add_gemm_use(struct pz_call *call, void *ctx, const struct pz_op *op, int term,
                         double times) {
  struct pz_term_tables *t = ctx;
  if (!is_gemm(op)) return;
  struct pz_product p = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  const int64_t key[] = {p.batch, p.m, p.n, p.k};
  uint32_t at = pz_map_get(&t->gemm_index, key, sizeof key);
  if (at == PZ_NONE) {
    at = t->gemms.n;
    pz_append(call, &t->gemms, &p);
    pz_map_set(call, &t->gemm_index, key, sizeof key, at);
  }
  struct gemm_use use = {at, term, times};
  pz_append(call, &t->uses, &use);
}

static void find_gemms(struct pz_call *call, struct pz_term_tables *t) {
  uint32_t n = t->space->shapes.n;
  t->first_use = pz_alloc(call, n + 1, sizeof *t->first_use);
  for (uint32_t i = 0; i < n; i++) {
    visit_ops(call, t->space, pz_shape_at(t->space, i), add_gemm_use, t);
    t->first_use[i + 1] = t->uses.n;
  }
  t->gemm_value = pz_alloc(call, t->gemms.n, sizeof(double));
  t->sums = new_table(call, t);
}

/* Adds t->gemm_value of all uses by shape and term. */
static void add_gemm_values(const struct pz_term_tables *t, double *table) {
  for (uint32_t i = 0; i < t->space->shapes.n; i++) {
    double *row = table + (size_t)i * PZ_TERM_ROW;
    for (uint32_t k = t->first_use[i]; k < t->first_use[i + 1]; k++) {
      const struct gemm_use *u = pz_vec_at(&t->uses, struct gemm_use, k);
      row[u->term] += u->times * t->gemm_value[u->gemm];
    }
    sum_microbatch(pz_shape_at(t->space, i), row);
  }
}

/* Cycles of GEMMs on one core with its part of the global buffer's rate.  Several cores together do not need fewer. */
static const double *array_cycles(struct pz_call *call, struct pz_term_tables *t,
                                  const struct pz_chip *chip) {
  const struct pz_shared_table *shared = t->space->q->shared;
  struct pz_chip core = *chip;
  core.rules.nested_mapping = false;
  core.tensor.cores = 1;
  core.tensor.local_bytes_per_s = core.tensor.local_total_bytes_per_s = 0;
  core.clock_hz = 1e9;
  core.glb_bytes_per_s = chip->glb_bytes_per_s / (double)chip->tensor.cores / chip->clock_hz * 1e9;
  core.glb_bytes = INT64_C(1) << 40;
  core.hbm.bytes_per_s_per_stack = 1e18;
  const double key[] = {PZ_SHARED_CYCLES,
                        t->space->q->shared_as,
                        (double)chip->tensor.rows,
                        (double)chip->tensor.cols,
                        (double)chip->tensor.local_bytes,
                        (double)chip->tensor.register_bytes,
                        core.glb_bytes_per_s,
                        chip->rules.fill,
                        chip->rules.duplex,
                        chip->rules.partitioned,
                        chip->rules.double_buffer,
                        (double)chip->rules.operand_bytes,
                        (double)chip->rules.sum_bytes};
  const double *table = find_table(t, key, sizeof key);
  if (table) return table;
  table = pz_shared_table_get(shared, key, sizeof key);
  if (!table) {
    for (uint32_t i = 0; i < t->gemms.n; i++) {
      const struct pz_product *p = pz_vec_at(&t->gemms, struct pz_product, i);
      pz_must(call, pz_product_core_s(p, &core, &t->gemm_value[i], pz_call_error(call)));
      t->gemm_value[i] *= core.clock_hz;
    }
    memset(t->sums, 0, table_bytes(t));
    add_gemm_values(t, t->sums);
    table = pz_shared_table_put(shared, key, sizeof key, t->sums, table_bytes(t));
  }
  if (!table) table = memcpy(new_table(call, t), t->sums, table_bytes(t));
  store_table(call, t, key, sizeof key, table);
  return table;
}

/* Bytes of HBM that GEMMs move at least. */
static const double *gemm_bytes(struct pz_call *call, struct pz_term_tables *t,
                                const struct pz_chip *c) {
  const int64_t key[] = {c->tensor.rows, c->tensor.cols, c->glb_bytes};
  const double *known = find_table(t, key, sizeof key);
  if (known) return known;
  double *table = new_table(call, t);
  for (uint32_t i = 0; i < t->gemms.n; i++) {
    const struct pz_product *p = pz_vec_at(&t->gemms, struct pz_product, i);
    pz_must(call,
            pz_product_times_hbm_bytes(t->times, p, c, &t->gemm_value[i], pz_call_error(call)));
  }
  add_gemm_values(t, table);
  store_table(call, t, key, sizeof key, table);
  return table;
}

/* ---- collectives ---------------------------------------------------------------------------- */

static double exposed_s(const struct pz_layer_step *l) {
  return l->forward.collectives_s + l->backward.collectives_s + l->forward.expert_s +
         l->backward.expert_s;
}

/* Sets the collectives of a shape.  On an infinitely slow chip with operators one after another, these are the collectives
 * that stay exposed although everything hides that can.  On an infinitely fast chip with scheduled passes, they are all
 * that a pass takes. */
static void find_shape_collectives(struct pz_call *call, struct pz_term_tables *t,
                                   struct pz_step_shape *x, const struct pz_cluster *net, bool slow,
                                   double *terms) {
  struct pz_plan p = pz_step_shape_fastest(t->space->q, x);
  struct pz_chip chip = *t->space->q->job.chip;
  double rate = slow ? 1 : UNLIMITED;
  chip.clock_hz = rate;
  chip.cold = false;
  chip.rules.nested_mapping = false;
  chip.hbm.bytes_per_s_per_stack = chip.glb_bytes_per_s = rate;
  p.recompute = PZ_RECOMPUTATION_FULL;
  if (t->scheduled && slow) p.execution = PZ_EXECUTION_SERIAL;
  x->timed_for = 0;
  pz_step_model_set_chip(call, x->model, &chip, net, &p, t->times);
  pz_step_model_time(call, x->model, &p, 2, PZ_TIMING_BOUND);
  const struct pz_model_steps *m = x->model->steps;
  double (*seconds)(const struct pz_layer_step *) = slow ? exposed_s : pz_layer_step_s;
  for (uint32_t k = 0; k < x->model->kinds.n; k++) {
    terms[k] = seconds(&m->block[k]);
    if (slow && !t->scheduled)
      terms[PZ_TERM_KINDS + k] = pz_fmax(0, seconds(&m->again[k]) - terms[k]);
  }
  terms[PZ_TERM_ENDS] = seconds(&m->before);
  terms[PZ_TERM_ENDS + 1] = seconds(&m->after);
}

static const double *network_collectives(struct pz_call *call, struct pz_term_tables *t,
                                         const struct pz_cluster *net, bool slow) {
  double key[3 * PZ_CLUSTER_MOST_LEVELS + 1] = {0};
  for (int l = 0; l < net->n_levels; l++) {
    key[3 * l] = (double)net->level[l].devices;
    key[3 * l + 1] = net->level[l].bytes_per_s;
    key[3 * l + 2] = net->level[l].latency_s;
  }
  key[3 * PZ_CLUSTER_MOST_LEVELS] = slow;
  const double *known = find_table(t, key, sizeof key);
  if (known) return known;
  double *table = new_table(call, t);
  bool of_path = t->scheduled && slow;
  for (uint32_t i = 0; i < t->space->shapes.n; i++) {
    struct pz_step_shape *x = pz_shape_at(t->space, i);
    double *row = table + (size_t)i * PZ_TERM_ROW;
    double *terms = of_path ? row + PZ_TERM_PATH : row;
    bool has_no_path = of_path && x->halves; /* halves never wait for each other */
    if (!has_no_path) find_shape_collectives(call, t, x, net, slow, terms);
    sum_microbatch(x, row);
  }
  store_table(call, t, key, sizeof key, table);
  return table;
}

/* ---- rates of a chip ------------------------------------------------------------------------ */

/* The least time of a multiply-accumulate on a chip with limited power.  Let f be the clock at which products at the full
 * rate use all of the power.  A product below f gains nothing from a lower clock, and one above f needs at least the
 * energy of one at f, from the same power. */
static double least_mac_s(const struct pz_chip *c) {
  struct pz_power p;
  if (!c->cold) return 0;
  double rate = pz_power_products(c, &p);
  return p.latency_s / rate;
}

struct pz_term_rates pz_term_rates_of(struct pz_call *call, struct pz_term_tables *t,
                                      const struct pz_chip *c, const struct pz_cluster *net) {
  const struct pz_correction *f = &c->correction;
  struct pz_cluster corrected = *net;
  /* the least of the correction factors, because GEMMs also have tails and attention also uses lanes */
  double least = pz_fmin(pz_fmin(pz_corrected(f->gemms), pz_corrected(f->attention)),
                         pz_corrected(f->elementwise));
  struct pz_term_rates r = {.cycle = least / ((double)c->tensor.cores * c->clock_hz),
                            .mac = least * least_mac_s(c),
                            .flop = least / pz_chip_tensor_flop_per_s(c),
                            .op = least / pz_chip_vector_op_per_s(c),
                            .byte = least / pz_chip_hbm_bytes_per_s(c)};
  pz_cluster_correct(&corrected, f);
  r.cycles = array_cycles(call, t, c);
  r.collectives = network_collectives(call, t, &corrected, !t->scheduled);
  if (t->scheduled) r.path_collectives = network_collectives(call, t, &corrected, true);
  return r;
}

void pz_term_tables_init(struct pz_call *call, struct pz_term_tables *t,
                         struct pz_plan_space *space) {
  *t = (struct pz_term_tables){.space = space, .arena = call->arena};
  t->scheduled = pz_step_is_scheduled(space->q->job.chip, &space->q->plan);
  t->times = space->q->job.times;
  pz_map_init(&t->gemm_index, call->arena);
  pz_map_init(&t->table_index, call->arena);
  pz_vec_init(&t->gemms, call->arena, sizeof(struct pz_product));
  pz_vec_init(&t->uses, call->arena, sizeof(struct gemm_use));
  pz_vec_init(&t->tables, call->arena, sizeof(const double *));
  find_work(call, t);
  find_gemms(call, t);
}

/* ---- energy --------------------------------------------------------------------------------- */

/* Energy of a term of a shape on one device, as the bill computes it (chip/bill.c). */
static double term_j(const struct pz_term_tables *tables, const struct pz_chip *c, double voltage2,
                     const double *bytes, size_t at) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  const struct pz_term_work *w = &tables->work[at];
  double mac_j = t->mac_j + pz_chip_local_bytes_per_mac(c) * t->local_j;
  return voltage2 * ((w->macs + w->attention_flop / 2) * mac_j +
                     (w->attention_ops + w->ops + w->tail_ops) * t->lane_j) +
         (w->bytes + bytes[at]) * (t->hbm_j + t->glb_j);
}

double pz_term_least_j(struct pz_call *call, struct pz_term_tables *t, const struct pz_chip *chip,
                       double voltage2) {
  const double *bytes = gemm_bytes(call, t, chip);
  double least = HUGE_VAL;
  for (uint32_t i = 0; i < t->space->shapes.n; i++) {
    size_t whole = (size_t)i * PZ_TERM_ROW + PZ_TERM_WHOLE;
    least = pz_fmin(least, t->share[i] * term_j(t, chip, voltage2, bytes, whole));
  }
  /* the step adds up the same numbers in another order */
  return least * (double)t->space->q->plan.devices * (1 - 1e-9);
}
