/* phaze estimate: latency and energy of operators on a chip, for all operators of a model, for
 * one matrix product with its mapping onto the cores, or for a table of operators.
 *
 * estimate_operators() checks the arguments and opens an estimator of the machine; then
 * estimate_gemm(), estimate_table() or estimate_model() prints the answer.  The estimates
 * themselves come from pz_cost_product(), pz_cost_table() and pz_cost_op(). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "cli/machine_options.h"
#include "cli/workload_options.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  const char *gemm, *ops;
  struct pz_workload_options workload;
};

static const struct settings defaults = {.workload = PZ_WORKLOAD_DEFAULTS};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_MACHINE_OPTIONS(struct settings, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    PZ_TEXT_OPTION("gemm", AT(gemm), "B,M,N,K", "Estimate one batched matrix product, B times M x K by K x N, and show its mapping"),
    PZ_TEXT_OPTION("ops", AT(ops), "FILE.csv", "Estimate a table of operators (columns op,batch,m,n,k); adds a column predicted_us"),
    PZ_WORKLOAD_OPTIONS(struct settings, workload),
};
/* clang-format on */

/* ---- one product ---------------------------------------------------------------------------- */

/* Prints the time on each resource, marks the bottleneck, and prints traffic and mapping. */
static void print_mapping(const struct pz_chip *chip, const struct pz_mapping *mapping) {
  const double needed_s[] = {mapping->compute_s, mapping->hbm_s, mapping->glb_s, mapping->local_s,
                             mapping->startup_s};
  char local[32], glb[32], hbm[32];
  for (enum pz_bound bound = PZ_BOUND_COMPUTE; bound <= PZ_BOUND_STARTUP; bound++)
    printf("  %-8s %12.3f us%s\n", pz_bound_name(bound), needed_s[bound] * 1e6,
           bound == mapping->bound ? "   <- bottleneck" : "");
  printf("\ntraffic: %s HBM, %s global buffer, %s local buffers\n\n",
         pz_text_si(hbm, sizeof hbm, mapping->hbm_bytes, "B"),
         pz_text_si(glb, sizeof glb, mapping->glb_bytes, "B"),
         pz_text_si(local, sizeof local, mapping->local_bytes, "B"));
  const int64_t *tile = mapping->tile, *glb_tile = mapping->glb_tile;
  printf("mapping\n  tiles          %" PRId64 " of m x n x k = %" PRId64 " x %" PRId64 " x %" PRId64
         ", on %" PRId64 " core%s in %" PRId64 " round%s\n",
         mapping->items, tile[PZ_DIM_M], tile[PZ_DIM_N], tile[PZ_DIM_K], chip->tensor.cores,
         pz_text_s((double)chip->tensor.cores), mapping->rounds,
         pz_text_s((double)mapping->rounds));
  printf("  core           %s stationary; %s along the %" PRId64 " row%s, %s along the %" PRId64
         " column%s, %" PRId64 " x %" PRId64 " values per multiplier\n",
         pz_stationary_name(mapping->local_stationary), pz_dim_name(mapping->along_rows),
         chip->tensor.rows, pz_text_s((double)chip->tensor.rows), pz_dim_name(mapping->along_cols),
         chip->tensor.cols, pz_text_s((double)chip->tensor.cols), mapping->keep_rows,
         mapping->keep_cols);
  printf("  global buffer  %s stationary, tile m x n x k = %" PRId64 " x %" PRId64 " x %" PRId64,
         pz_stationary_name(mapping->glb_stationary), glb_tile[PZ_DIM_M], glb_tile[PZ_DIM_N],
         glb_tile[PZ_DIM_K]);
  if (mapping->glb_batch > 1) printf(", %" PRId64 " products at a time", mapping->glb_batch);
  printf("\n");
}

/* Parses --gemm B,M,N,K, estimates the product, and prints it with its mapping. */
static void estimate_gemm(struct pz_call *call, const struct settings *settings,
                          struct pz_cost *cost) {
  const struct pz_chip *chip = pz_cost_chip(cost);
  struct pz_product product = {0};
  struct pz_mapping mapping;
  int64_t *const sizes[] = {&product.batch, &product.m, &product.n, &product.k};
  const char *position = settings->gemm;
  for (int i = 0; i < 4; i++) {
    char *end, separator = i < 3 ? ',' : '\0';
    long long n = strtoll(position, &end, 10);
    if (end == position || n < 1 || n > 1LL << 40 || *end != separator)
      pz_raise(call, PZ_BAD_USE, "--gemm: '%s'; accepted: B,M,N,K, four integers from 1 to 2^40",
               settings->gemm);
    *sizes[i] = n;
    position = end + 1;
  }
  pz_must(call, pz_cost_product(cost, &product, &mapping, pz_call_error(call)));
  mapping.energy_j += mapping.latency_s * pz_power_static_watts(chip);
  if (settings->common.json) {
    const struct pz_mapped_product mapped = {
        .mapping = &mapping,
        .bound = pz_bound_name(mapping.bound),
        .along_rows = pz_dim_name(mapping.along_rows),
        .along_cols = pz_dim_name(mapping.along_cols),
        .local_stays = pz_stationary_name(mapping.local_stationary),
        .glb_stays = pz_stationary_name(mapping.glb_stationary)};
    pz_command_print_json(call, pz_record_json(&pz_mapped_product_record, &mapped));
    return;
  }
  printf("%" PRId64 " x (%" PRId64 " x %" PRId64 ")(%" PRId64 " x %" PRId64
         ") on %s: %.3f us, %.3g J, %.1f%% of peak\n\n",
         product.batch, product.m, product.k, product.k, product.n, chip->name,
         mapping.latency_s * 1e6, mapping.energy_j, 100 * mapping.utilisation);
  print_mapping(chip, &mapping);
}

/* ---- a table of operators ------------------------------------------------------------------- */

/* Returns a number if the cell is a decimal number that JSON can represent, otherwise its text. */
static json_t *cell_json(const char *text) {
  char *end;
  bool decimal = *text && strspn(text, "0123456789+-.eE") == strlen(text);
  errno = 0;
  long long integer = strtoll(text, &end, 10);
  if (decimal && end != text && !*end && !errno) return json_integer(integer);
  errno = 0;
  double real = strtod(text, &end);
  if (decimal && end != text && !*end && !errno) return json_real(real);
  json_t *value = json_string(text);
  return value ? value : json_string("(not UTF-8)");
}

/* Prints the columns of the file, as many as a table has room for, and the predicted times. */
static void print_op_times(struct pz_call *call, const struct pz_csv *csv,
                           const struct pz_op_times *times) {
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1];
  uint32_t n_shown =
      csv->columns < PZ_TABLE_MOST_COLUMNS - 1 ? csv->columns : PZ_TABLE_MOST_COLUMNS - 1;
  heads[0] = csv->cells[0];
  for (uint32_t k = 1; k < n_shown; k++) heads[k] = pz_format(call, ">%s", csv->cells[k]);
  heads[n_shown] = ">predicted_us";
  heads[n_shown + 1] = NULL;
  struct pz_table *table = pz_table_with(call, heads);
  for (uint32_t row_index = 0; row_index < csv->rows; row_index++) {
    for (uint32_t k = 0; k < n_shown; k++)
      pz_table_cell(table, "%s", pz_csv_cell(csv, row_index, k));
    pz_table_cell(table, "%.2f", times->rows[row_index].us);
  }
  pz_table_print(table, 0, stdout);
}

/* Estimates every operator of a CSV file and prints the file with a column for the times. */
static void estimate_table(struct pz_call *call, const struct settings *settings,
                           struct pz_cost *cost) {
  struct pz_op_times *times = NULL;
  size_t bytes = 0;
  const char *path = settings->ops, *text = pz_file_text(call, path, PZ_CSV_MOST_BYTES, &bytes);
  pz_must(call, pz_cost_table(cost, path, text, bytes, &times, pz_call_error(call)));
  pz_defer(call, pz_object_free, times);
  const struct pz_csv *csv = pz_csv_read(call, path, text, bytes);
  if (!settings->common.json) {
    print_op_times(call, csv, times);
    return;
  }
  json_t *list = json_array();
  for (uint32_t i = 0; i < csv->rows; i++) {
    json_t *row = json_object();
    for (uint32_t k = 0; k < csv->columns; k++)
      json_object_set_new(row, csv->cells[k], cell_json(pz_csv_cell(csv, i, k)));
    json_object_set_new(row, "predicted_us", json_real(times->rows[i].us));
    json_array_append_new(list, row);
  }
  pz_command_print_json(call, json_pack("{s:o}", "ops", list));
}

/* ---- a model -------------------------------------------------------------------------------- */

/* Estimates the operators of one pass of a layer, and adds them to the sums of the model. */
static void estimate_pass(struct pz_call *call, struct pz_cost *cost, const struct pz_ops *ops,
                          enum pz_direction direction, struct pz_layer_estimate *layer,
                          struct pz_model_estimate *model) {
  double latency_s = 0, energy_j = 0;
  layer->n_ops[direction] = ops->n;
  layer->ops[direction] = pz_alloc(call, ops->n, sizeof *layer->ops[direction]);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool is_view = op->op_class == PZ_CLASS_NONE; /* moves no data and has no bound */
    struct pz_estimate estimate;
    pz_must(call, pz_cost_op(cost, op, &estimate, pz_call_error(call)));
    layer->ops[direction][i] =
        (struct pz_operator_estimate){.name = op->name,
                                      .op_class = pz_op_class_name(op->op_class),
                                      .bound = is_view ? "none" : pz_bound_name(estimate.bound),
                                      .flop = op->flop,
                                      .bytes = op->bytes_read + op->bytes_written,
                                      .latency_s = estimate.latency_s,
                                      .energy_j = estimate.energy_j,
                                      .utilisation = estimate.utilisation};
    latency_s += estimate.latency_s;
    energy_j += estimate.energy_j;
  }
  model->latency_s[direction] += latency_s * (double)layer->count;
  model->energy_j[direction] += energy_j * (double)layer->count;
}

/* Prints the operators of both passes of a layer. */
static void print_layer(struct pz_call *call, const struct pz_layer_estimate *layer) {
  static const char *const names[] = {"forward", "backward"};
  for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
    struct pz_call scratch = pz_scratch(call);
    struct pz_table *table = pz_table_new(&scratch, "operator|class|>us|>mJ|bound|>utilisation");
    double latency_s = 0;
    for (uint32_t i = 0; i < layer->n_ops[direction]; i++) {
      const struct pz_operator_estimate *op = &layer->ops[direction][i];
      char utilisation[32] = "";
      if (op->utilisation > 0)
        snprintf(utilisation, sizeof utilisation, "%.1f%%", 100 * op->utilisation);
      pz_table_cells(table, "%s|%s|%.2f|%.3f|%s|%s", op->name, op->op_class, op->latency_s * 1e6,
                     op->energy_j * 1e3, strcmp(op->bound, "none") == 0 ? "" : op->bound,
                     utilisation);
      latency_s += op->latency_s;
    }
    printf("\n%s x%" PRId64 ", %s: %.2f us in sequence\n", layer->name, layer->count,
           names[direction], latency_s * 1e6);
    pz_table_print(table, 2, stdout);
    pz_scratch_end(&scratch);
  }
}

/* Estimates every operator of a model, and prints the sums of a microbatch and of the optimizer. */
static void estimate_model(struct pz_call *call, const struct settings *settings, const char *model,
                           struct pz_cost *cost) {
  const struct pz_chip *chip = pz_cost_chip(cost);
  struct pz_estimate optimizer;
  double trained_params = 0; /* on this device; without adapters all parameters are trained */
  char context[64];
  const struct pz_workload *workload =
      pz_workload_open(call, model, &settings->workload, settings->common.quiet);
  struct pz_model_estimate total = {
      .model = workload->model, .chip = chip->name, .n_layers = workload->n_layers};
  total.layers = pz_alloc(call, total.n_layers, sizeof *total.layers);
  for (uint32_t i = 0; i < total.n_layers; i++) {
    const struct pz_layer *layer = &workload->layers[i];
    total.layers[i].name = layer->name;
    total.layers[i].count = layer->count;
    for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++)
      estimate_pass(call, cost, &layer->ops[direction], direction, &total.layers[i], &total);
    trained_params += (double)layer->count * (double)layer->trained_params;
  }
  pz_cost_optimizer(chip, trained_params, PZ_ADAM_BYTES, &optimizer);
  total.optimizer_s = optimizer.latency_s;
  if (settings->common.json) {
    pz_command_print_json(call, pz_record_json(&pz_model_estimate_record, &total));
    return;
  }
  printf("%s on %s: sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64 "%s\n",
         workload->model, chip->name, workload->options.seq, workload->options.mbs,
         workload->options.tp, pz_workload_context(&workload->options, context, sizeof context));
  for (uint32_t i = 0; i < total.n_layers; i++) print_layer(call, &total.layers[i]);
  const struct pz_totals *totals = &workload->totals;
  double seconds = total.latency_s[PZ_FORWARD] + total.latency_s[PZ_BACKWARD];
  double flop = (double)(totals->matmul_forward_flop + totals->matmul_backward_flop);
  printf("\none microbatch, operators in sequence\n");
  printf("  forward    %10.3f ms %10.3f J\n", total.latency_s[PZ_FORWARD] * 1e3,
         total.energy_j[PZ_FORWARD]);
  printf("  backward   %10.3f ms %10.3f J\n", total.latency_s[PZ_BACKWARD] * 1e3,
         total.energy_j[PZ_BACKWARD]);
  printf("  optimizer  %10.3f ms (Adam, once per step)\n", total.optimizer_s * 1e3);
  printf("  %.1f%% of peak matrix FLOP/s in forward and backward\n",
         100 * flop / seconds / pz_chip_tensor_flop_per_s(chip));
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Estimates a product, a table of operators or a model, and with -v prints the cache hits. */
static void estimate_operators(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  if (!settings.machine.chip) pz_command_refuse(call, invocation, "--chip CHIP is required");
  if (invocation->n_args + (settings.gemm != NULL) + (settings.ops != NULL) != 1)
    pz_command_refuse(call, invocation, "expected exactly one of MODEL, --gemm and --ops");
  const char *option = NULL;
  int64_t group = pz_workload_group(&settings.workload, &option);
  struct pz_machine_use use = {option, group, settings.common.quiet, .training = false};
  struct pz_cost *cost = pz_machine_cost(call, &settings.machine, use);
  if (settings.gemm)
    estimate_gemm(call, &settings, cost);
  else if (settings.ops)
    estimate_table(call, &settings, cost);
  else
    estimate_model(call, &settings, invocation->args[0], cost);
  if (settings.common.verbose) {
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = estimate_operators,
};
