/* phaze estimate: latency and energy of operators on a chip, for all operators of a model, for one matrix product with the
 * mapping that was chosen for it, or for a table of operators.
 *
 * estimate_operators() checks the arguments and opens an estimator of the machine; then estimate_gemm(), estimate_table()
 * or estimate_model() prints the answer.  The estimates themselves come from pz_cost_product(), pz_cost_table() and
 * pz_cost_op(). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "cli/machine_options.h"
#include "cli/owned.h"
#include "cli/workload_options.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  const char *gemm, *ops;
  struct pz_workload_options w;
};

static const struct settings defaults = {.w = PZ_WORKLOAD_DEFAULTS};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_MACHINE_OPTIONS(struct settings, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    {.name = "gemm", .type = PZ_OPTION_TEXT, .offset = AT(gemm), .arg = "B,M,N,K",
     .help = "Estimate one batched matrix product, B times M x K by K x N, and show its mapping"},
    {.name = "ops", .type = PZ_OPTION_TEXT, .offset = AT(ops), .arg = "FILE.csv",
     .help = "Estimate a table of operators (columns op,batch,m,n,k); adds a column predicted_us"},
    PZ_WORKLOAD_OPTIONS(struct settings, w),
};
/* clang-format on */

/* ---- one product ---------------------------------------------------------------------------- */

static json_t *tile_json(const int64_t t[PZ_DIMS]) {
  return json_pack("{s:I,s:I,s:I}", "m", (json_int_t)t[0], "n", (json_int_t)t[1], "k",
                   (json_int_t)t[2]);
}

static json_t *mapping_json(const struct pz_mapping *o) {
  json_t *m = json_pack(
      "{s:o,s:I,s:I,s:s,s:s,s:I,s:I,s:s,s:o,s:I,s:s}", "tile", tile_json(o->tile), "items",
      (json_int_t)o->items, "rounds", (json_int_t)o->rounds, "along_rows",
      pz_dim_name(o->along_rows), "along_cols", pz_dim_name(o->along_cols), "keep_rows",
      (json_int_t)o->keep_rows, "keep_cols", (json_int_t)o->keep_cols, "local_stays",
      pz_stationary_name(o->local_stationary), "glb_tile", tile_json(o->glb_tile), "glb_batch",
      (json_int_t)o->glb_batch, "glb_stays", pz_stationary_name(o->glb_stationary));
  return json_pack("{s:f,s:f,s:s,s:f,s:{s:f,s:f,s:f,s:f,s:f},s:{s:f,s:f,s:f},s:o}", "latency_s",
                   o->latency_s, "energy_j", o->energy_j, "bound", pz_bound_name(o->bound),
                   "utilisation", o->utilisation, "seconds", "compute", o->compute_s, "local",
                   o->local_s, "glb", o->glb_s, "hbm", o->hbm_s, "startup", o->startup_s, "bytes",
                   "local", o->local_bytes, "glb", o->glb_bytes, "hbm", o->hbm_bytes, "mapping", m);
}

/* Prints the time that each resource needs and marks the bottleneck, then the traffic and the mapping. */
static void print_mapping(const struct pz_chip *c, const struct pz_mapping *o) {
  const double s[] = {o->compute_s, o->hbm_s, o->glb_s, o->local_s, o->startup_s};
  char local[32], glb[32], hbm[32];
  for (enum pz_bound b = PZ_BOUND_COMPUTE; b <= PZ_BOUND_STARTUP; b++)
    printf("  %-8s %12.3f us%s\n", pz_bound_name(b), s[b] * 1e6,
           b == o->bound ? "   <- bottleneck" : "");
  printf("\ntraffic: %s HBM, %s global buffer, %s local buffers\n\n",
         pz_text_si(hbm, sizeof hbm, o->hbm_bytes, "B"),
         pz_text_si(glb, sizeof glb, o->glb_bytes, "B"),
         pz_text_si(local, sizeof local, o->local_bytes, "B"));
  printf("mapping\n  tiles          %" PRId64 " of m x n x k = %" PRId64 " x %" PRId64 " x %" PRId64
         ", on %" PRId64 " core%s in %" PRId64 " round%s\n",
         o->items, o->tile[PZ_DIM_M], o->tile[PZ_DIM_N], o->tile[PZ_DIM_K], c->tensor.cores,
         pz_text_s((double)c->tensor.cores), o->rounds, pz_text_s((double)o->rounds));
  printf("  core           %s stationary; %s along the %" PRId64 " row%s, %s along the %" PRId64
         " column%s, %" PRId64 " x %" PRId64 " values per multiplier\n",
         pz_stationary_name(o->local_stationary), pz_dim_name(o->along_rows), c->tensor.rows,
         pz_text_s((double)c->tensor.rows), pz_dim_name(o->along_cols), c->tensor.cols,
         pz_text_s((double)c->tensor.cols), o->keep_rows, o->keep_cols);
  printf("  global buffer  %s stationary, tile m x n x k = %" PRId64 " x %" PRId64 " x %" PRId64,
         pz_stationary_name(o->glb_stationary), o->glb_tile[PZ_DIM_M], o->glb_tile[PZ_DIM_N],
         o->glb_tile[PZ_DIM_K]);
  if (o->glb_batch > 1) printf(", %" PRId64 " products at a time", o->glb_batch);
  printf("\n");
}

static void estimate_gemm(struct pz_call *call, const struct settings *s, struct pz_cost *cost) {
  const struct pz_chip *chip = pz_cost_chip(cost);
  struct pz_product p = {0};
  struct pz_mapping o;
  int64_t *const sizes[] = {&p.batch, &p.m, &p.n, &p.k};
  const char *at = s->gemm;
  for (int i = 0; i < 4; i++) {
    char *end, separator = i < 3 ? ',' : '\0';
    long long n = strtoll(at, &end, 10);
    if (end == at || n < 1 || n > 1LL << 40 || *end != separator)
      pz_raise(call, PZ_BAD_USE, "--gemm: '%s'; accepted: B,M,N,K, four integers from 1 to 2^40",
               s->gemm);
    *sizes[i] = n;
    at = end + 1;
  }
  pz_must(call, pz_cost_product(cost, &p, &o, pz_call_error(call)));
  o.energy_j += o.latency_s * pz_power_static_watts(chip);
  if (s->common.json) {
    pz_command_print_json(call, mapping_json(&o));
    return;
  }
  printf("%" PRId64 " x (%" PRId64 " x %" PRId64 ")(%" PRId64 " x %" PRId64
         ") on %s: %.3f us, %.3g J, %.1f%% of peak\n\n",
         p.batch, p.m, p.k, p.k, p.n, chip->name, o.latency_s * 1e6, o.energy_j,
         100 * o.utilisation);
  print_mapping(chip, &o);
}

/* ---- a table of operators ------------------------------------------------------------------- */

/* Returns a number if the cell is a decimal number that JSON can represent, otherwise its text. */
static json_t *cell_json(const char *text) {
  char *end;
  bool decimal = *text && strspn(text, "0123456789+-.eE") == strlen(text);
  errno = 0;
  long long n = strtoll(text, &end, 10);
  if (decimal && end != text && !*end && !errno) return json_integer(n);
  errno = 0;
  double x = strtod(text, &end);
  if (decimal && end != text && !*end && !errno) return json_real(x);
  json_t *s = json_string(text);
  return s ? s : json_string("(not UTF-8)");
}

static json_t *table_json(const struct pz_csv *csv, const struct pz_op_times *times) {
  json_t *list = json_array();
  for (uint32_t r = 0; r < csv->rows; r++) {
    json_t *o = json_object();
    for (uint32_t k = 0; k < csv->columns; k++)
      json_object_set_new(o, csv->cells[k], cell_json(pz_csv_cell(csv, r, k)));
    json_object_set_new(o, "predicted_us", json_real(times->rows[r].us));
    json_array_append_new(list, o);
  }
  return json_pack("{s:o}", "ops", list);
}

/* Prints the columns of the file, as many as a table has room for, and the predicted times. */
static void print_op_times(struct pz_call *call, const struct pz_csv *csv,
                           const struct pz_op_times *times) {
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1];
  uint32_t shown =
      csv->columns < PZ_TABLE_MOST_COLUMNS - 1 ? csv->columns : PZ_TABLE_MOST_COLUMNS - 1;
  heads[0] = csv->cells[0];
  for (uint32_t k = 1; k < shown; k++) heads[k] = pz_format(call, ">%s", csv->cells[k]);
  heads[shown] = ">predicted_us";
  heads[shown + 1] = NULL;
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t r = 0; r < csv->rows; r++) {
    for (uint32_t k = 0; k < shown; k++) pz_table_cell(t, "%s", pz_csv_cell(csv, r, k));
    pz_table_cell(t, "%.2f", times->rows[r].us);
  }
  pz_table_print(t, 0, stdout);
}

static void estimate_table(struct pz_call *call, const struct settings *s, struct pz_cost *cost) {
  struct pz_op_times *times = NULL;
  size_t bytes = 0;
  const char *text = pz_file_text(call, s->ops, PZ_CSV_MOST_BYTES, &bytes);
  pz_must(call, pz_cost_table(cost, s->ops, text, bytes, &times, pz_call_error(call)));
  pz_defer(call, pz_free_op_times, times);
  const struct pz_csv *csv = pz_csv_read(call, s->ops, text, bytes);
  if (s->common.json)
    pz_command_print_json(call, table_json(csv, times));
  else
    print_op_times(call, csv, times);
}

/* ---- a model -------------------------------------------------------------------------------- */

/* Of both directions, which are its indices. */
struct sums {
  double latency_s[2], energy_j[2];
};

static json_t *estimate_json(const struct pz_op *op, const struct pz_estimate *e) {
  return json_pack("{s:s,s:s,s:I,s:I,s:f,s:f,s:s,s:f}", "name", op->name, "class",
                   pz_op_class_name(op->op_class), "flop", (json_int_t)op->flop, "bytes",
                   (json_int_t)(op->bytes_read + op->bytes_written), "latency_s", e->latency_s,
                   "energy_j", e->energy_j, "bound",
                   op->op_class == PZ_CLASS_NONE ? "none" : pz_bound_name(e->bound), "utilisation",
                   e->utilisation);
}

static void append_estimate_row(struct pz_table *t, const struct pz_op *op,
                                const struct pz_estimate *e) {
  pz_table_cell(t, "%s", op->name);
  pz_table_cell(t, "%s", pz_op_class_name(op->op_class));
  pz_table_cell(t, "%.2f", e->latency_s * 1e6);
  pz_table_cell(t, "%.3f", e->energy_j * 1e3);
  pz_table_cell(t, "%s", op->op_class == PZ_CLASS_NONE ? "" : pz_bound_name(e->bound));
  if (e->utilisation > 0)
    pz_table_cell(t, "%.1f%%", 100 * e->utilisation);
  else
    pz_table_cell(t, "%s", "");
}

/* Estimates the operators of a layer, prints them as a table for each direction unless the output is JSON, and adds them
 * to the JSON object of the layer and to the sums over all layers. */
static void estimate_layer(struct pz_call *call, struct pz_cost *cost, const struct pz_layer *l,
                           bool print, json_t *layer, struct sums *total) {
  static const char *const heads[] = {"operator", "class",        ">us", ">mJ",
                                      "bound",    ">utilisation", NULL};
  static const char *const names[] = {"forward", "backward"};
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct pz_call scratch = pz_scratch(call);
    struct sums s = {0};
    json_t *list = pz_json_built(call, json_array());
    struct pz_table *t = pz_table_new(&scratch, heads);
    for (uint32_t i = 0; i < l->ops[d].n; i++) {
      const struct pz_op *op = &l->ops[d].op[i];
      struct pz_estimate e;
      pz_must(call, pz_cost_op(cost, op, &e, pz_call_error(call)));
      append_estimate_row(t, op, &e);
      json_array_append_new(list, estimate_json(op, &e));
      s.latency_s[d] += e.latency_s;
      s.energy_j[d] += e.energy_j;
    }
    json_object_set(layer, names[d], list);
    if (print) {
      printf("\n%s x%" PRId64 ", %s: %.2f us in sequence\n", l->name, l->count, names[d],
             s.latency_s[d] * 1e6);
      pz_table_print(t, 2, stdout);
    }
    total->latency_s[d] += s.latency_s[d] * (double)l->count;
    total->energy_j[d] += s.energy_j[d] * (double)l->count;
    pz_scratch_end(&scratch);
  }
}

static void print_totals(const struct pz_workload *w, const struct pz_chip *c, const struct sums *t,
                         double optimizer_s) {
  double s = t->latency_s[0] + t->latency_s[1];
  double flop = (double)(w->totals.matmul_forward_flop + w->totals.matmul_backward_flop);
  printf("\none microbatch, operators in sequence\n");
  printf("  forward    %10.3f ms %10.3f J\n", t->latency_s[0] * 1e3, t->energy_j[0]);
  printf("  backward   %10.3f ms %10.3f J\n", t->latency_s[1] * 1e3, t->energy_j[1]);
  printf("  optimizer  %10.3f ms (Adam, once per step)\n", optimizer_s * 1e3);
  printf("  %.1f%% of peak matrix FLOP/s in forward and backward\n",
         100 * flop / s / pz_chip_tensor_flop_per_s(c));
}

/* Returns the number of parameters on this device that are trained: all unless adapters are used. */
static double trained_params(const struct pz_workload *w) {
  double sum = 0;
  for (uint32_t i = 0; i < w->n_layers; i++)
    sum += (double)w->layers[i].count * (double)w->layers[i].trained_params;
  return sum;
}

static void estimate_model(struct pz_call *call, const struct settings *s, const char *model,
                           struct pz_cost *cost) {
  const struct pz_chip *chip = pz_cost_chip(cost);
  struct pz_workload *w = NULL;
  struct sums total = {0};
  struct pz_estimate optimizer;
  char context[64];
  pz_must(call, pz_workload_load(model, &s->w, &w, pz_call_error(call)));
  pz_defer(call, pz_free_workload, w);
  pz_command_warn(s->common.quiet, w->warning);
  json_t *root = pz_json_built(
      call, json_pack("{s:s,s:s,s:[]}", "model", w->model, "chip", chip->name, "layers"));
  if (!s->common.json)
    printf("%s on %s: sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64
           "%s\n",
           w->model, chip->name, w->options.seq, w->options.mbs, w->options.tp,
           pz_workload_context(&w->options, context, sizeof context));
  for (uint32_t i = 0; i < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    json_t *layer =
        pz_json_built(call, json_pack("{s:s,s:I}", "name", l->name, "count", (json_int_t)l->count));
    estimate_layer(call, cost, l, !s->common.json, layer, &total);
    json_array_append(json_object_get(root, "layers"), layer);
  }
  pz_cost_optimizer(chip, trained_params(w), PZ_ADAM_BYTES, &optimizer);
  if (s->common.json) {
    json_object_set_new(root, "totals",
                        json_pack("{s:f,s:f,s:f,s:f,s:f}", "forward_s", total.latency_s[0],
                                  "backward_s", total.latency_s[1], "forward_j", total.energy_j[0],
                                  "backward_j", total.energy_j[1], "optimizer_s",
                                  optimizer.latency_s));
    pz_command_print_json(call, json_incref(root));
  } else {
    print_totals(w, chip, &total, optimizer.latency_s);
  }
}

/* ---- the command ---------------------------------------------------------------------------- */

static void estimate_operators(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  if (!pz_command_options(call, in, &s)) return;
  if (!s.machine.chip) pz_command_refuse(call, in, "--chip CHIP is required");
  if (in->n_args + (s.gemm != NULL) + (s.ops != NULL) != 1)
    pz_command_refuse(call, in, "expected exactly one of MODEL, --gemm and --ops");
  const char *option = NULL;
  int64_t group = pz_workload_group(&s.w, &option);
  struct pz_machine_use use = {option, group, s.common.quiet, .training = false};
  struct pz_cost *cost = pz_machine_cost(call, &s.machine, use);
  if (s.gemm)
    estimate_gemm(call, &s, cost);
  else if (s.ops)
    estimate_table(call, &s, cost);
  else
    estimate_model(call, &s, in->args[0], cost);
  if (s.common.verbose) {
    uint64_t lookups, hits;
    pz_cost_counts(cost, &lookups, &hits);
    pz_command_say("estimate cache: %" PRIu64 " lookups, %" PRIu64 " hits (%.0f%%)", lookups, hits,
                   lookups ? 100.0 * (double)hits / (double)lookups : 0.0);
  }
}

const struct pz_command pz_cmd_estimate = {
    .name = "estimate",
    .synopsis = "(MODEL | --gemm B,M,N,K | --ops FILE.csv) --chip CHIP [options]",
    .summary = "Estimate latency, energy and bottleneck of operators on a chip",
    .detail = "With a MODEL: every operator of its layers. With --gemm: one matrix product and\n"
              "the mapping chosen for it. With --ops: a table of operators, each as a benchmark\n"
              "loop would measure it (data that fits in the global buffer stays there between\n"
              "calls).\n"
              "\n"
              "Examples:\n"
              "  phaze estimate gpt2-xl --chip tpuv4 --mbs 4\n"
              "  phaze estimate --gemm 1,4096,4096,4096 --chip h200\n"
              "  phaze estimate --ops shapes.csv --chip h200 --json\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .body = estimate_operators,
};
