/* Terms of training steps (step_terms.h): how often a plan runs each term, and tables of the work
 * and time of each term.
 *
 * pz_term_tables_init() walks over the operators of all shapes (visit_ops) twice: find_shape_work()
 * sums up the work that every chip has to do, and add_gemm_use() lists the GEMMs.  Tables that
 * depend on a property of a chip or network are computed when they are first needed, and found
 * again by a key of that property: array_cycles(), gemm_bytes() and network_collectives().
 * pz_term_rates_of() combines the tables for one chip. */
#include "place/step_terms.h"

#include <math.h>
#include <string.h>

#include "cost/power.h"
#include "cost/scan.h"
#include "step/recompute.h"
#include "workload/op.h"

/* ---- how often each term runs --------------------------------------------------------------- */

/* Adds to the counts how often `times` executions of a chunk run each term: its layers by kind,
 * their recomputation, the operators before the first and after the last layer of the model, and
 * two transfers to other stages. */
void pz_term_counts_add(const struct pz_step_shape *shape, const struct pz_plan *plan,
                        int64_t chunk, double times, struct pz_term_counts *counts) {
  const struct pz_layer_kinds *kinds = &shape->model->kinds;
  int64_t layers = pz_plan_chunk_layers(plan, shape->model->n_blocks, chunk);
  int64_t start = pz_plan_layers_before(plan, shape->model->n_blocks, chunk);
  int64_t recomputed = pz_plan_recomputed_layers(plan, chunk % plan->pp, layers);
  bool is_selective = plan->recompute == PZ_RECOMPUTATION_SELECTIVE;
  int first_recompute_term = (is_selective ? 2 : 1) * PZ_TERM_KINDS; /* see PZ_TERM_KINDS */
  for (uint32_t i = 0; i < kinds->n; i++) {
    counts->n[i] += times * (double)pz_kind_count(kinds, i, start, layers);
    if (recomputed)
      counts->n[first_recompute_term + (int)i] +=
          times * (double)pz_kind_count(kinds, i, start, recomputed);
  }
  if (chunk == 0) counts->n[PZ_TERM_ENDS] += times;
  if (chunk == plan->pp * plan->vpp - 1) counts->n[PZ_TERM_ENDS + 1] += times;
  counts->n[PZ_TERM_SEND] += 2 * times;
}

/* Returns how often a microbatch runs a term in a plan without recomputation: layers of a kind as
 * often as the model has them, and the operators before and after the layers once. */
static double times_in_microbatch(const struct pz_step_shape *shape, int term) {
  const struct pz_step_model *model = shape->model;
  if (term >= PZ_TERM_ENDS) return 1;
  if (term >= (int)model->kinds.n) return 0;
  return (double)model->workload->layers[model->kinds.layer[term]].count;
}

/* Adds up the terms of a whole microbatch in both halves of a table's row (step_terms.h).  A half
 * has a column for each term except transfers (PZ_TERM_SEND), in whose place the sum is stored
 * (PZ_TERM_WHOLE).  The first half counts all operators, and the second one, from PZ_TERM_PATH on,
 * only those of the longest path through a pass. */
static void sum_microbatch(const struct pz_step_shape *shape, double *row) {
  for (int half = 0; half < PZ_TERM_ROW; half += PZ_TERM_PATH)
    for (int i = 0; i < PZ_TERM_SEND; i++)
      row[half + PZ_TERM_WHOLE] += times_in_microbatch(shape, i) * row[half + i];
}

/* ---- operators ------------------------------------------------------------------------------ */

/* Receives an operator that runs `times` in one execution of a term. */
typedef void op_fn(struct pz_call *call, void *ctx, const struct pz_op *op, int term, double times);

/* Marks the operators of the longest path through a pass, by the times on the chip for which the
 * shape was made.  No schedule can run two of them at the same time.  end_s is working memory for
 * the earliest end of each operator. */
static void mark_longest_path(const struct pz_ops *ops, const struct pz_op_run *runs, double *end_s,
                              bool *on_path) {
  uint32_t last = PZ_NONE; /* the operator that ends last */
  for (uint32_t i = 0; i < ops->n; i++) {
    end_s[i] = 0;
    for (uint32_t k = 0; k < ops->op[i].n_pred; k++)
      end_s[i] = pz_fmax(end_s[i], end_s[ops->op[i].pred[k]]);
    end_s[i] += runs[i].kind == PZ_RUN_NONE ? 0 : runs[i].s;
    if (last == PZ_NONE || end_s[i] > end_s[last]) last = i;
  }
  while (last != PZ_NONE) { /* go back to the predecessor that ends last */
    const struct pz_op *op = &ops->op[last];
    on_path[last] = true;
    last = PZ_NONE;
    for (uint32_t k = 0; k < op->n_pred; k++)
      if (last == PZ_NONE || end_s[op->pred[k]] > end_s[last]) last = op->pred[k];
  }
}

/* Calls fn for every operator of each term of a shape, with the number of times that the term runs
 * it.  Operators on the longest path of a pass are visited a second time, for the term of the path,
 * unless the pass is divided into two halves. */
static void visit_ops(struct pz_call *call, const struct pz_plan_space *space,
                      const struct pz_step_shape *shape, op_fn *fn, void *ctx) {
  struct pz_call scratch = pz_scratch(call);
  const struct pz_workload *workload = pz_step_pass(shape->model);
  const struct pz_layer_kinds *kinds = &shape->model->kinds;
  double halves = shape->halves ? 2 : 1;
  uint32_t kind = 0;
  for (uint32_t l = 0; l < workload->n_layers; l++) {
    const struct pz_layer *layer = &workload->layers[l];
    bool is_block = kind < kinds->n && kinds->layer[kind] == l;
    bool is_after_layers = kind > 0;
    int term = is_block ? (int)kind : PZ_TERM_ENDS + is_after_layers;
    double layers = is_block ? 1 : (double)layer->count; /* a term is one of the repeated layers */
    double times = halves * layers;
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
      const struct pz_ops *ops = &layer->ops[d];
      bool *on_path = pz_alloc(&scratch, ops->n, sizeof *on_path);
      double *end_s = pz_alloc(&scratch, ops->n, sizeof *end_s);
      const struct pz_op_run *runs = shape->halves ? NULL : shape->model->kernels[l].runs[d];
      if (runs) mark_longest_path(ops, runs, end_s, on_path);
      for (uint32_t i = 0; i < ops->n; i++) {
        fn(&scratch, ctx, &ops->op[i], term, times);
        if (on_path[i]) fn(&scratch, ctx, &ops->op[i], PZ_TERM_PATH + term, times);
      }
    }
    if (!is_block) continue;
    /* full and selective recomputation */
    const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
    const bool *recomputed = pz_recompute_ops(&scratch, layer, space->question->plan.saved);
    for (uint32_t i = 0; i < ops->n; i++) {
      const struct pz_op *op = &ops->op[i];
      bool is_attention = op->kind == PZ_OP_ATTENTION;
      if (recomputed[i]) fn(&scratch, ctx, op, PZ_TERM_KINDS + term, halves);
      if (is_attention) fn(&scratch, ctx, op, 2 * PZ_TERM_KINDS + term, halves);
    }
    kind++;
  }
  pz_scratch_end(&scratch);
}

/* Returns whether an operator counts in a lower bound.  Operators that move tokens to experts and
 * back do not, because tokens may be sent by GEMMs, and sorted or not. */
static bool is_counted(const struct pz_op *op) {
  bool moves = op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE || op->kind == PZ_OP_SORT;
  return op->op_class != PZ_CLASS_NONE && op->op_class != PZ_CLASS_COLLECTIVE && !moves;
}

/* ---- work that no chip saves ---------------------------------------------------------------- */

/* The resources of a chip.  The work of an operator on one of them is its time on a chip that has
 * one unit of this resource and unlimited others. */
enum resource { ARRAYS, LANES, MEMORY, RESOURCES };

static const double UNLIMITED = 1e18;

/* A sum of the work of the terms of a shape. */
struct work_sum {
  const struct pz_step_shape *shape;
  struct pz_cost cost[RESOURCES]; /* cost model of a chip on which only this resource is finite */
  struct pz_term_work *work;      /* work of each term */
};

/* Releases the cost models of a sum; a pz_close_fn. */
static void release_costs(void *sum) {
  for (enum resource r = 0; r < RESOURCES; r++) pz_cost_release(&((struct work_sum *)sum)->cost[r]);
}

/* Adds the work of an operator that runs `times` to its term: multiply-accumulates of GEMMs, and
 * for other operators what the cost model computes for a chip with one unit of each resource.  An
 * array of one multiply-accumulate unit needs a cycle for two floating-point operations. */
static void add_op_work(struct pz_call *call, void *ctx, const struct pz_op *op, int term,
                        double times) {
  struct work_sum *sum = ctx;
  struct pz_term_work *work = &sum->work[term];
  bool is_attention = op->kind == PZ_OP_ATTENTION;
  struct pz_estimate estimate[RESOURCES];
  struct pz_op whole = *op; /* attention over the whole sequence, also with context parallelism */
  if (!is_counted(op)) return;
  if (op->matmul_flop && !pz_op_mixes_tokens(op->kind)) {
    const struct pz_dims *dims = &op->dims;
    work->macs += times * (double)dims->batch * (double)dims->m * (double)dims->n * (double)dims->k;
    work->tail_ops += times * pz_cost_extra(&sum->cost[LANES].chip, op).tail_ops;
    return;
  }
  /* the GEMMs of a scan are left out, because at peak rate they take less time */
  if (pz_op_is_scan(op->kind)) {
    struct pz_scan_work scan = pz_scan_work_of(op);
    struct pz_scan_counts counts = pz_scan_counts(&scan);
    work->ops += times * counts.lane_ops;
    work->bytes += times * counts.bytes;
    return;
  }
  if (is_attention && whole.dims.n == sum->shape->model->workload->options.seq)
    whole.dims.n = sum->shape->model->seq;
  for (enum resource r = 0; r < RESOURCES; r++)
    estimate[r] = pz_estimate_op(call, &sum->cost[r], &whole, NULL);
  if (is_attention) {
    work->attention_flop += times * 2 * estimate[ARRAYS].latency_s;
    work->attention_ops += times * estimate[LANES].latency_s;
  } else {
    work->ops += times * estimate[LANES].latency_s;
    work->bytes += times * estimate[MEMORY].latency_s;
  }
}

/* Adds the work of all terms of a microbatch to that of the whole microbatch.  `terms` is the first
 * or the second half of a row, which has only the longest path. */
static void sum_microbatch_work(const struct pz_step_shape *shape, struct pz_term_work *terms) {
  struct pz_term_work *whole = &terms[PZ_TERM_WHOLE];
  for (int i = 0; i < PZ_TERM_SEND; i++) {
    double times = times_in_microbatch(shape, i);
    whole->attention_flop += times * terms[i].attention_flop;
    whole->attention_ops += times * terms[i].attention_ops;
    whole->ops += times * terms[i].ops;
    whole->bytes += times * terms[i].bytes;
    whole->tail_ops += times * terms[i].tail_ops;
    whole->macs += times * terms[i].macs;
  }
}

/* Sums up the work of the terms of an open shape with one cost model per resource: a chip that has
 * one unit of it at 1 Hz, so that seconds are units of work, and plenty of the others. */
static void find_shape_work(struct pz_call *call, const struct pz_plan_space *space,
                            const struct pz_step_shape *shape,
                            struct pz_term_work row[PZ_TERM_ROW]) {
  struct pz_call scratch = pz_scratch(call);
  struct work_sum *sum = pz_alloc(&scratch, 1, sizeof *sum);
  sum->shape = shape;
  sum->work = row;
  for (enum resource r = 0; r < RESOURCES; r++) {
    enum { MANY = 1 << 20 };
    struct pz_chip chip = *space->question->job.chip;
    chip.clock_hz = 1;
    chip.tensor.rows = chip.tensor.cols = r == ARRAYS ? 1 : 1 << 14;
    chip.tensor.cores = r == MEMORY ? MANY : 1;
    chip.cold = false; /* so that power does not lower the clock */
    chip.vector.cores = chip.vector.lanes = r == LANES ? 1 : MANY;
    chip.glb_bytes_per_s = UNLIMITED;
    chip.hbm.stacks = 1;
    chip.hbm.bytes_per_s_per_stack = r == MEMORY ? 1 : UNLIMITED;
    pz_cost_init(&sum->cost[r], &chip, NULL);
    sum->cost[r].causal = shape->model->cost.causal;
    sum->cost[r].attention_library = shape->model->cost.attention_library;
  }
  pz_defer(call, release_costs, sum);
  visit_ops(call, space, shape, add_op_work, sum);
  sum_microbatch_work(shape, row);
  sum_microbatch_work(shape, row + PZ_TERM_PATH);
  pz_close(call, sum);
  pz_scratch_end(&scratch);
}

/* ---- tables by shape and term --------------------------------------------------------------- */

/* Returns a zeroed table, with a number for each term of each shape. */
static double *new_table(struct pz_call *call, struct pz_term_tables *tables) {
  struct pz_call in_tables = pz_call_in(call, tables->arena);
  return pz_alloc(&in_tables, tables->space->shapes.n, PZ_TERM_ROW * sizeof(double));
}

/* Returns the table that was stored for this key, or NULL.  Keys of arrays, of buffers and of
 * networks have different sizes, so that they are not confused. */
static const double *find_table(const struct pz_term_tables *tables, const void *key,
                                size_t bytes) {
  uint32_t at = pz_map_get(&tables->table_index, key, bytes);
  return at == PZ_NONE ? NULL : *pz_vec_at(&tables->tables, const double *, at);
}

/* Stores a table under a key. */
static void store_table(struct pz_call *call, struct pz_term_tables *tables, const void *key,
                        size_t bytes, const double *table) {
  uint32_t at = tables->tables.n;
  pz_append(call, &tables->tables, &table);
  pz_map_set(call, &tables->table_index, key, bytes, at);
}

/* ---- GEMMs ---------------------------------------------------------------------------------- */

/* A GEMM that runs `times` in a term of a shape. */
struct gemm_use {
  uint32_t gemm;
  int term;
  double times;
};

/* Lists a use of a GEMM, and the GEMM unless it is listed already.  Shapes with the same number
 * of tokens per device share GEMMs, so that few are different. */
static void add_gemm_use(struct pz_call *call, void *ctx, const struct pz_op *op, int term,
                         double times) {
  struct pz_term_tables *tables = ctx;
  bool is_gemm = is_counted(op) && op->matmul_flop && !pz_op_mixes_tokens(op->kind);
  if (!is_gemm) return;
  struct pz_product gemm = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  const int64_t key[] = {gemm.batch, gemm.m, gemm.n, gemm.k};
  uint32_t at = pz_map_get(&tables->gemm_index, key, sizeof key);
  if (at == PZ_NONE) {
    at = tables->gemms.n;
    pz_append(call, &tables->gemms, &gemm);
    pz_map_set(call, &tables->gemm_index, key, sizeof key, at);
  }
  struct gemm_use use = {at, term, times};
  pz_append(call, &tables->uses, &use);
}

/* Adds the value of each GEMM (tables->gemm_value: cycles or bytes) to the terms that run it. */
static void add_gemm_values(const struct pz_term_tables *tables, double *table) {
  for (uint32_t i = 0; i < tables->space->shapes.n; i++) {
    double *row = table + (size_t)i * PZ_TERM_ROW;
    for (uint32_t k = tables->first_use[i]; k < tables->first_use[i + 1]; k++) {
      const struct gemm_use *use = pz_vec_at(&tables->uses, struct gemm_use, k);
      row[use->term] += use->times * tables->gemm_value[use->gemm];
    }
    sum_microbatch(pz_shape_at(tables->space, i), row);
  }
}

/* Returns a table of the cycles of the GEMMs of each term in each shape, on one core with its share
 * of the rate of the global buffer.  Several cores together do not need fewer cycles.  The clock is
 * arbitrary; buffer and HBM are too large to matter. */
static const double *array_cycles(struct pz_call *call, struct pz_term_tables *tables,
                                  const struct pz_chip *chip) {
  const struct pz_shared_table *shared = tables->space->question->shared;
  size_t bytes = (size_t)tables->space->shapes.n * PZ_TERM_ROW * sizeof(double);
  struct pz_chip core = *chip;
  core.rules.nested_mapping = false;
  core.tensor.cores = 1;
  core.tensor.local_bytes_per_s = core.tensor.local_total_bytes_per_s = 0;
  core.clock_hz = 1e9;
  core.glb_bytes_per_s = chip->glb_bytes_per_s / (double)chip->tensor.cores / chip->clock_hz * 1e9;
  core.glb_bytes = INT64_C(1) << 40;
  core.hbm.bytes_per_s_per_stack = UNLIMITED;
  const struct pz_rules *rules = &chip->rules;
  double question_key = tables->space->question->sharing_key;
  double rows = (double)chip->tensor.rows, cols = (double)chip->tensor.cols;
  double local_bytes = (double)chip->tensor.local_bytes;
  double register_bytes = (double)chip->tensor.register_bytes;
  double operand_bytes = (double)rules->operand_bytes, sum_bytes = (double)rules->sum_bytes;
  const double key[] = {
      PZ_SHARED_CYCLES,     question_key,         rows,        cols,          local_bytes,
      register_bytes,       core.glb_bytes_per_s, rules->fill, rules->duplex, rules->partitioned,
      rules->double_buffer, operand_bytes,        sum_bytes};
  const double *table = find_table(tables, key, sizeof key);
  if (table) return table;
  table = pz_shared_table_get(shared, key, sizeof key);
  if (!table) {
    for (uint32_t i = 0; i < tables->gemms.n; i++) {
      const struct pz_product *gemm = pz_vec_at(&tables->gemms, struct pz_product, i);
      tables->gemm_value[i] = pz_product_core_s(call, gemm, &core);
      tables->gemm_value[i] *= core.clock_hz;
    }
    memset(tables->sums, 0, bytes);
    add_gemm_values(tables, tables->sums);
    table = pz_shared_table_put(shared, key, sizeof key, tables->sums, bytes);
  }
  if (!table) table = memcpy(new_table(call, tables), tables->sums, bytes);
  store_table(call, tables, key, sizeof key, table);
  return table;
}

/* Returns a table of the least HBM bytes that the GEMMs of a term move, for each shape and term (a
 * part of a step, such as the layers of one kind). */
static const double *gemm_bytes(struct pz_call *call, struct pz_term_tables *tables,
                                const struct pz_chip *chip) {
  const int64_t key[] = {chip->tensor.rows, chip->tensor.cols, chip->glb_bytes};
  const double *stored = find_table(tables, key, sizeof key);
  if (stored) return stored;
  double *table = new_table(call, tables);
  for (uint32_t i = 0; i < tables->gemms.n; i++) {
    const struct pz_product *gemm = pz_vec_at(&tables->gemms, struct pz_product, i);
    tables->gemm_value[i] = pz_product_times_hbm_bytes(call, tables->times, gemm, chip);
  }
  add_gemm_values(tables, table);
  store_table(call, tables, key, sizeof key, table);
  return table;
}

/* Returns the seconds of the collectives of a layer that nothing hides. */
static double exposed_s(const struct pz_layer_step *layer) {
  return layer->forward.collective_s + layer->backward.collective_s + layer->forward.expert_s +
         layer->backward.expert_s;
}

/* Stores the seconds of collectives in `terms`, the terms of a shape.  With `slow`, these are the
 * collectives that stay exposed on a very slow chip that runs operators one after another.
 * Otherwise they are the whole time of a scheduled pass on a chip that computes in no time. */
static void find_shape_collectives(struct pz_call *call, struct pz_term_tables *tables,
                                   struct pz_step_shape *shape, const struct pz_cluster *net,
                                   bool slow, double *terms) {
  struct pz_plan plan = pz_step_shape_fastest(tables->space->question, shape);
  struct pz_chip chip = *tables->space->question->job.chip;
  double rate = slow ? 1 : UNLIMITED; /* of clock, HBM and global buffer */
  chip.clock_hz = rate;
  chip.cold = false;
  chip.rules.nested_mapping = false;
  chip.hbm.bytes_per_s_per_stack = chip.glb_bytes_per_s = rate;
  plan.recompute = PZ_RECOMPUTATION_FULL;
  if (tables->scheduled && slow) plan.execution = PZ_EXECUTION_SERIAL;
  shape->timed_for = 0;
  pz_step_model_set_chip(call, shape->model, &chip, net, &plan, tables->times);
  pz_step_model_time(call, shape->model, &plan, 2, PZ_TIMING_BOUND);
  const struct pz_model_steps *steps = shape->model->steps;
  double (*seconds)(const struct pz_layer_step *) = slow ? exposed_s : pz_layer_step_s;
  for (uint32_t k = 0; k < shape->model->kinds.n; k++) {
    terms[k] = seconds(&steps->block[k]);
    if (slow && !tables->scheduled)
      terms[PZ_TERM_KINDS + k] = pz_fmax(0, seconds(&steps->again[k]) - terms[k]);
  }
  terms[PZ_TERM_ENDS] = seconds(&steps->before);
  terms[PZ_TERM_ENDS + 1] = seconds(&steps->after);
}

/* Returns a table of the seconds of collectives in a network, for each shape and term.  `slow`
 * selects the chip as in find_shape_collectives(). */
static const double *network_collectives(struct pz_call *call, struct pz_term_tables *tables,
                                         const struct pz_cluster *net, bool slow) {
  double key[3 * PZ_CLUSTER_MOST_LEVELS + 1] = {0};
  for (int l = 0; l < net->n_levels; l++) {
    key[3 * l] = (double)net->level[l].devices;
    key[3 * l + 1] = net->level[l].bytes_per_s;
    key[3 * l + 2] = net->level[l].latency_s;
  }
  key[3 * PZ_CLUSTER_MOST_LEVELS] = slow;
  const double *stored = find_table(tables, key, sizeof key);
  if (stored) return stored;
  double *table = new_table(call, tables);
  bool is_path_table = tables->scheduled && slow;
  for (uint32_t i = 0; i < tables->space->shapes.n; i++) {
    struct pz_step_shape *shape = pz_shape_at(tables->space, i);
    double *row = table + (size_t)i * PZ_TERM_ROW;
    double *terms = is_path_table ? row + PZ_TERM_PATH : row;
    /* the two halves of a microbatch never wait for each other and have no longest path */
    bool has_no_path = is_path_table && shape->halves;
    if (!has_no_path) find_shape_collectives(call, tables, shape, net, slow, terms);
    sum_microbatch(shape, row);
  }
  store_table(call, tables, key, sizeof key, table);
  return table;
}

/* ---- rates of a chip ------------------------------------------------------------------------ */

/* Returns the seconds per unit of work of a chip, and the tables of cycles and collectives. */
struct pz_term_rates pz_term_rates_of(struct pz_call *call, struct pz_term_tables *tables,
                                      const struct pz_chip *chip, const struct pz_cluster *net) {
  const struct pz_correction *correction = &chip->correction;
  struct pz_cluster corrected = *net;
  /* the least correction factor, because GEMMs and attention also use lanes */
  double least_factor =
      pz_fmin(pz_fmin(pz_corrected(correction->gemms), pz_corrected(correction->attention)),
              pz_corrected(correction->elementwise));
  double least_mac_s = 0; /* seconds per multiply-accumulate, or 0 if power is not limited */
  if (chip->cold) {
    /* Let f be the highest clock within the power limit for GEMMs at the full rate.  No GEMM needs
     * less time for a multiply-accumulate than these do at f.  Below f, its cycles are longer.
     * Above f, a multiply-accumulate needs at least the energy that it needs at f, for which the
     * power limit requires at least the same time. */
    struct pz_power power;
    double rate = pz_power_products(chip, &power);
    least_mac_s = power.latency_s / rate;
  }
  double cycles_per_s = (double)chip->tensor.cores * chip->clock_hz;
  struct pz_term_rates rates = {.cycle = least_factor / cycles_per_s,
                                .mac = least_factor * least_mac_s,
                                .flop = least_factor / pz_chip_tensor_flop_per_s(chip),
                                .op = least_factor / pz_chip_vector_op_per_s(chip),
                                .byte = least_factor / pz_chip_hbm_bytes_per_s(chip)};
  pz_cluster_correct(&corrected, correction);
  rates.cycles = array_cycles(call, tables, chip);
  rates.collectives = network_collectives(call, tables, &corrected, !tables->scheduled);
  if (tables->scheduled)
    rates.path_collectives = network_collectives(call, tables, &corrected, true);
  return rates;
}

/* Opens all shapes, sums up their work, and lists their GEMMs. */
void pz_term_tables_init(struct pz_call *call, struct pz_term_tables *tables,
                         struct pz_plan_space *space) {
  *tables = (struct pz_term_tables){.space = space, .arena = call->arena};
  tables->scheduled = pz_step_is_scheduled(space->question->job.chip, &space->question->plan);
  tables->times = space->question->job.times;
  pz_map_init(&tables->gemm_index, call->arena);
  pz_map_init(&tables->table_index, call->arena);
  pz_vec_init(&tables->gemms, call->arena, sizeof(struct pz_product));
  pz_vec_init(&tables->uses, call->arena, sizeof(struct gemm_use));
  pz_vec_init(&tables->tables, call->arena, sizeof(const double *));
  uint32_t n = space->shapes.n;
  tables->work = pz_alloc(call, n, PZ_TERM_ROW * sizeof *tables->work);
  tables->share = pz_alloc(call, n, sizeof *tables->share);
  for (uint32_t i = 0; i < n; i++) {
    struct pz_step_shape *shape = pz_shape_at(space, i);
    pz_step_shape_open(call, space->question, shape);
    if (shape->model->kinds.n > PZ_TERM_KINDS)
      pz_raise(call, PZ_LIMIT, "%u kinds of layers; accepted: at most %d", shape->model->kinds.n,
               PZ_TERM_KINDS);
    tables->share[i] = pz_step_shape_share(space->question, shape);
    find_shape_work(call, space, shape, tables->work + (size_t)i * PZ_TERM_ROW);
  }
  tables->first_use = pz_alloc(call, n + 1, sizeof *tables->first_use);
  for (uint32_t i = 0; i < n; i++) {
    visit_ops(call, space, pz_shape_at(space, i), add_gemm_use, tables);
    tables->first_use[i + 1] = tables->uses.n;
  }
  tables->gemm_value = pz_alloc(call, tables->gemms.n, sizeof(double));
  tables->sums = new_table(call, tables);
}

/* Returns a lower bound of the joules of a step on all devices without static power: the least over
 * all shapes (tp, cp, ep and microbatch size).  Work at the voltage of the cores is multiplied by
 * `voltage2`, the squared relative voltage. */
double pz_term_least_j(struct pz_call *call, struct pz_term_tables *tables,
                       const struct pz_chip *chip, double voltage2) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  const double *bytes = gemm_bytes(call, tables, chip);
  double mac_j = tech->mac_j + pz_chip_local_bytes_per_mac(chip) * tech->local_j;
  double least_j = HUGE_VAL;
  for (uint32_t i = 0; i < tables->space->shapes.n; i++) {
    /* energy of a whole microbatch on one device, as chip/bill.c computes it; a mac is two flop */
    size_t at = (size_t)i * PZ_TERM_ROW + PZ_TERM_WHOLE;
    const struct pz_term_work *work = &tables->work[at];
    double macs = work->macs + work->attention_flop / 2;
    double lane_ops = work->attention_ops + work->ops + work->tail_ops;
    double joules = voltage2 * (macs * mac_j + lane_ops * tech->lane_j) +
                    (work->bytes + bytes[at]) * (tech->hbm_j + tech->glb_j);
    /* share[i]: microbatches of each device if the batch is divided evenly.  Pipelining does not
     * change the sum over all devices: a stage runs more microbatches, but less of each. */
    least_j = pz_fmin(least_j, tables->share[i] * joules);
  }
  /* the margin covers the rounding of sums in another order */
  return least_j * (double)tables->space->question->plan.devices * (1 - 1e-9);
}
