/* Reads tables of measurements and predicts their rows, in one section for each kind of table.
 * Every section predicts a row with the model that users call (nothing here computes a time) and
 * appends a point.  A row that the model does not cover becomes a point with a reason. */
#include "study/points.h"

#include <stdlib.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/json.h"
#include "core/pool.h"
#include "core/text.h"
#include "cost/beside_table.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/expected_error.h"
#include "step/prediction.h"
#include "workload/workload.h"

/* Returns the group with this name and kind of points, which is appended if it is new. */
struct pz_errors *pz_errors_find(struct pz_call *call, struct pz_vec *list, const char *name,
                                 enum pz_point_kind kind) {
  for (uint32_t i = 0; i < list->n; i++) {
    struct pz_errors *errors = pz_vec_at(list, struct pz_errors, i);
    if (errors->kind == kind && strcmp(errors->name, name) == 0) return errors;
  }
  struct pz_errors fresh = {.name = name, .kind = kind};
  return pz_append(call, list, &fresh);
}

/* ---- cells ---------------------------------------------------------------------------------- */

/* Returns the cell of an optional column: "" if the table does not have it. */
static const char *optional_cell(const struct pz_csv *csv, uint32_t row, const char *head) {
  uint32_t column = pz_csv_column(csv, head);
  return column == PZ_NONE ? "" : pz_csv_cell(csv, row, column);
}

/* Returns whether the cell of a column that may be missing is `word`; "" means empty or missing. */
static bool cell_equals(const struct pz_csv *csv, uint32_t row, const char *head,
                        const char *word) {
  return strcmp(optional_cell(csv, row, head), word) == 0;
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* Returns a key that is equal for runs that differ in their plans only. */
static const char *job_key(struct pz_call *call, const struct pz_csv *csv, uint32_t row) {
  static const char *const heads[] = {"group",    "layers", "hidden",     "heads",    "kv_heads",
                                      "head_dim", "ffn",    "mlp",        "vocab",    "seq",
                                      "experts",  "topk",   "expert_ffn", "chip",     "cluster",
                                      "n_dev",    "gbs",    "precision",  "framework"};
  const char *key = "";
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
    key = pz_format(call, "%s%s|", key, optional_cell(csv, row, heads[i]));
  return key;
}

/* Returns a key that is equal for runs with the same plan: its fields and two other columns. */
static const char *plan_key(struct pz_call *call, const struct pz_csv *csv, uint32_t row) {
  static const char *const more[] = {"cuda_graphs", "dispatcher"};
  const char *key = "";
  for (int field_index = 0; field_index < PZ_PLAN_FIELDS; field_index++) {
    const struct pz_plan_field_info *field = pz_plan_field((enum pz_plan_field)field_index);
    const char *head = field->column ? field->column : field->name;
    key = pz_format(call, "%s%s|", key, optional_cell(csv, row, head));
  }
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    key = pz_format(call, "%s%s|", key, optional_cell(csv, row, more[i]));
  return key;
}

/* Returns a short description of the plan: microbatch, degrees above 1, and recompute. */
static const char *describe_plan(struct pz_call *call, const struct pz_csv *csv, uint32_t row) {
  static const char *const degrees[] = {"tp", "cp", "pp", "vpp", "dp", "ep"};
  const char *plan = pz_format(call, "mbs %s", optional_cell(csv, row, "mbs"));
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
    const char *degree = optional_cell(csv, row, degrees[i]);
    if (*degree && strcmp(degree, "1") != 0)
      plan = pz_format(call, "%s, %s %s", plan, degrees[i], degree);
  }
  const char *recompute = optional_cell(csv, row, "recompute");
  if (*recompute && strcmp(recompute, "none") != 0)
    plan = pz_format(call, "%s, recompute %s", plan, recompute);
  return plan;
}

/* Returns the class of work that a run belongs to in the totals of a validation. */
static const char *work_of_run(const struct pz_csv *csv, uint32_t row) {
  bool peft = !cell_equals(csv, row, "peft", "") && !cell_equals(csv, row, "peft", "none");
  if (peft) return "LoRA";
  if (!cell_equals(csv, row, "ssm", "")) return "state-space layers";
  if (!cell_equals(csv, row, "experts", "")) return "experts";
  if (cell_equals(csv, row, "precision", "nvfp4")) return "nvfp4";
  return cell_equals(csv, row, "precision", "fp8") ? "fp8" : "16-bit";
}

/* Returns whether a run is dense in bf16, not context-parallel, and under (interleaved) 1F1B. */
bool pz_run_is_dense_bf16(const struct pz_csv *csv, uint32_t row) {
  bool pipelined =
      cell_equals(csv, row, "pipeline", "1f1b") || cell_equals(csv, row, "pipeline", "interleaved");
  bool context_parallel = !cell_equals(csv, row, "cp", "") && !cell_equals(csv, row, "cp", "1");
  bool bf16 =
      strcmp(work_of_run(csv, row), "16-bit") == 0 && cell_equals(csv, row, "precision", "bf16");
  return bf16 && !context_parallel && pipelined;
}

/* Adds a training run as a point, with the columns by which the validation groups and compares. */
static void add_run(struct pz_call *call, const struct pz_point_reader *reader,
                    const struct pz_run_table *table, uint32_t row) {
  const struct pz_csv *csv = &table->csv;
  const struct pz_run_row *run = &table->rows[row];
  const char *layers = optional_cell(csv, row, "layers");
  struct pz_validation_point point = {
      .kind = PZ_POINT_RUN,
      .id = run->id,
      .group = run->group,
      .quality = run->quality,
      .chip = optional_cell(csv, row, "chip"),
      .cluster = optional_cell(csv, row, "cluster"),
      .framework = optional_cell(csv, row, "framework"),
      .model = optional_cell(csv, row, "model"),
      .shape = pz_format(call, "%s layers of %s", layers, optional_cell(csv, row, "hidden")),
      .plan = describe_plan(call, csv, row),
      .job = job_key(call, csv, row),
      .choices = plan_key(call, csv, row),
      .devices = (int64_t)strtod(optional_cell(csv, row, "n_dev"), NULL),
      .batch = (int64_t)strtod(optional_cell(csv, row, "gbs"), NULL),
      .dense = pz_run_is_dense_bf16(csv, row),
      .work = work_of_run(csv, row),
      .measured_s = run->measured_s,
      .measured_bytes = run->measured_bytes,
      .reason = run->reason};
  point.tpu = strncmp(point.chip, "tpu", 3) == 0;
  point.context = (int64_t)strtod(optional_cell(csv, row, "cp"), NULL) > 1;
  point.zero_bubble = strncmp(optional_cell(csv, row, "pipeline"), "zb", 2) == 0;
  /* Devices per node, which is the innermost level of the network; 8 if the network is unknown. */
  const char *cluster = point.cluster;
  struct pz_cluster net;
  struct pz_error error = {0};
  enum pz_status status = pz_cluster_load(cluster, &net, &error);
  pz_raise_if_memory(call, &error);
  int64_t per_node = status == PZ_OK && net.n_levels > 0 ? net.level[0].devices : 8;
  point.one_node = point.devices <= per_node;
  if (run->predicted) {
    bool has_experts = run->p.active_params < run->p.params;
    bool has_scans = run->p.scan_layers > 0;
    struct pz_feature_context context = {
        .experts = has_experts,
        .scans = has_scans,
        .sparse = run->p.sparse_layers > 0,
        .layers = (int64_t)strtod(optional_cell(csv, row, "layers"), NULL),
        .node = per_node};
    point.predicted_s = run->p.step_s;
    point.predicted_bytes = run->p.peak_bytes;
    point.features = pz_plan_features(run->plan, &context);
    point.seq = (int64_t)(run->p.tokens / (double)run->plan->batch + 0.5);
  }
  pz_append(call, reader->points, &point);
}

/* Predicts a table of training runs and appends a point for each of its rows. */
void pz_points_add_runs(struct pz_call *call, const struct pz_point_reader *reader,
                        const char *name, const char *text, size_t bytes) {
  struct pz_run_terms terms = {
      .cold = reader->cold, .threads = reader->threads, .progress = reader->progress};
  struct pz_run_table *table = pz_alloc(call, 1, sizeof *table);
  pz_run_table_read(call, &terms, name, text, bytes, table);
  for (uint32_t i = 0; i < table->n_rows; i++) add_run(call, reader, table, i);
  if (reader->tables) pz_append(call, reader->tables, table);
}

/* ---- operators ------------------------------------------------------------------------------ */

/* Measured operators and the chips that ran them, of which each thread has cost models. */
struct operator_table {
  const struct pz_measured *measured;
  const char *chip_name;     /* name or path of chips[0], which rows without a chip use */
  bool has_rows_of_own_chip; /* whether a row is predicted on chips[0] */
  struct pz_chip chips[32];
  uint32_t n_chips;
  uint32_t *chip_of_row;
  const char **reason;   /* by row: why it is not predicted, or NULL if it is */
  struct pz_cost *costs; /* [thread][chip] */
  double *predicted_us;  /* by row */
  struct pz_progress *progress;
};

/* Finds the chip of every row that may be predicted, and loads a preset when it is met first. */
static void assign_chips(struct pz_call *call, struct operator_table *table) {
  const uint32_t most_chips = sizeof table->chips / sizeof *table->chips;
  for (uint32_t i = 0; i < table->measured->n; i++) {
    const struct pz_ops_row *row = &table->measured->rows[i];
    table->reason[i] = row->reason;
    if (row->reason) continue;
    uint32_t chip = 0;
    while (chip < table->n_chips && row->chip && strcmp(table->chips[chip].name, row->chip) != 0)
      chip++;
    if (chip == 0) table->has_rows_of_own_chip = true;
    if (chip == table->n_chips) {
      if (chip == most_chips)
        pz_raise(call, PZ_BAD_INPUT, "%s:%u: more than %u chips", row->table, row->line, chip);
      pz_chip_read(call, row->chip, &table->chips[chip]);
      table->n_chips++;
    }
    table->chip_of_row[i] = chip;
    table->reason[i] = pz_ops_not_on(&table->chips[chip], row);
  }
}

/* Task i: predicts row i on its chip, with the cost model that this thread has of the chip. */
static void predict_operator(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct operator_table *table = ctx;
  struct pz_cost *cost = &table->costs[worker * table->n_chips + table->chip_of_row[i]];
  pz_progress_add(table->progress, 1);
  if (table->reason[i] || pz_progress_stopped(table->progress)) return;
  table->predicted_us[i] = pz_ops_predicted_us(task, cost, &table->measured->rows[i]);
}

/* Predicts all rows on the threads of a pool.  `call` provides memory for this table only. */
static void predict_operators(struct pz_call *call, unsigned threads,
                              struct operator_table *table) {
  const struct pz_measured *measured = table->measured;
  struct pz_pool *pool = pz_pool_open(call, threads);
  size_t n_costs = (size_t)pz_pool_threads(pool) * table->n_chips;
  table->costs = pz_alloc(call, n_costs, sizeof *table->costs);
  table->predicted_us = pz_alloc(call, measured->n, sizeof *table->predicted_us);
  for (size_t i = 0; i < n_costs; i++) {
    pz_cost_init(&table->costs[i], &table->chips[i % table->n_chips], NULL);
    pz_defer(call, pz_cost_release, &table->costs[i]);
  }
  pz_progress_next(table->progress, measured->name, "operators", measured->n);
  pz_pool_run(call, pool, measured->n, predict_operator, table);
  pz_progress_finish(table->progress, NULL);
  if (pz_progress_stopped(table->progress)) pz_raise(call, PZ_STOPPED, "stopped");
  for (size_t i = n_costs; i > 0; i--) pz_close(call, &table->costs[i - 1]);
  pz_close(call, pool);
}

/* Returns a new point of an operator.  Members that only training runs have stay empty. */
static struct pz_validation_point new_operator_point(const char *chip) {
  return (struct pz_validation_point){.kind = PZ_POINT_OPERATOR,
                                      .quality = "ok",
                                      .chip = chip,
                                      .framework = "",
                                      .model = "",
                                      .shape = "",
                                      .plan = "",
                                      .devices = 1,
                                      .one_node = true};
}

/* Returns the point of row i: its measured and predicted time, or why there is none. */
static struct pz_validation_point operator_point(struct pz_call *call,
                                                 const struct operator_table *table, uint32_t i) {
  const struct pz_ops_row *row = &table->measured->rows[i];
  const char *chip = row->chip ? row->chip : table->chip_name;
  const char *group = row->group ? row->group : pz_ops_name(row->op);
  const char *reason = table->reason[i];
  struct pz_validation_point point = new_operator_point(chip);
  if (row->slow) point.quality = "slow: the table marks it";
  point.measured_s = row->us * 1e-6;
  point.predicted_s = reason ? 0 : table->predicted_us[i] * 1e-6;
  point.reason = reason ? reason : "";
  if (row->reason) {
    point.group = group;
    point.id = pz_format(call, "%s:%u", row->table, row->line);
  } else {
    point.group = pz_format(call, "%s %s", chip, group);
    point.id = pz_ops_describe(call, row);
  }
  if (row->chip && !reason) point.work = pz_format(call, PZ_ALL_CHIPS "%s", group);
  return point;
}

/* Compares pointers into one array of points: by group, then by position in the array. */
static int compare_groups(const void *a, const void *b) {
  const struct pz_validation_point *const *first = a, *const *second = b;
  int order = strcmp((*first)->group, (*second)->group);
  if (order != 0) return order;
  return (*first > *second) - (*first < *second);
}

/* Predicts measured operators on all threads and appends their points, sorted by group if any row
 * names its chip.  Returns whether any row was predicted on `chip`. */
bool pz_points_add_operators(struct pz_call *call, const struct pz_point_reader *reader,
                             const struct pz_measured *measured, const char *chip) {
  struct pz_call work = pz_scratch(call);
  uint32_t n = measured->n;
  struct operator_table *table = pz_alloc(&work, 1, sizeof *table);
  struct pz_validation_point *points = pz_alloc(&work, n, sizeof *points);
  const struct pz_validation_point **order = pz_alloc(&work, n, sizeof *order);
  table->measured = measured;
  table->chip_name = chip;
  table->n_chips = 1;
  table->progress = reader->progress;
  table->chip_of_row = pz_alloc(&work, n, sizeof *table->chip_of_row);
  table->reason = pz_alloc(&work, n, sizeof *table->reason);
  pz_chip_read(call, chip, &table->chips[0]);
  assign_chips(call, table);
  predict_operators(&work, reader->threads, table);

  bool names_chips = false;
  for (uint32_t i = 0; i < n; i++) {
    if (measured->rows[i].chip) names_chips = true;
    points[i] = operator_point(call, table, i);
    order[i] = &points[i];
  }
  if (names_chips) qsort(order, n, sizeof *order, compare_groups);
  for (uint32_t i = 0; i < n; i++) pz_append(call, reader->points, order[i]);
  bool has_rows_of_own_chip = table->has_rows_of_own_chip;
  pz_scratch_end(&work);
  return has_rows_of_own_chip;
}

/* ---- kernels beside communication ----------------------------------------------------------- */

/* Predicts the slowdowns of all kernels of the table, and appends a point for each kernel. */
void pz_points_add_overlapped(struct pz_call *call, const struct pz_point_reader *reader,
                              const char *name, const char *text, size_t bytes,
                              const char *chip_name) {
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  struct pz_cost *cost = pz_alloc(call, 1, sizeof *cost);
  pz_chip_read(call, chip_name, chip);
  const struct pz_csv *csv = pz_csv_read(call, name, text, bytes);
  pz_cost_init(cost, chip, NULL);
  pz_defer(call, pz_cost_release, cost);
  const struct pz_beside_row *rows = pz_beside_predict_csv(call, cost, name, csv);
  for (uint32_t i = 0; i < csv->rows; i++) {
    const struct pz_beside_row *row = &rows[i];
    struct pz_validation_point point = new_operator_point(chip_name);
    point.measured_s = row->together_s;
    point.predicted_s = row->alone_s * row->slowdown;
    point.reason = row->reason;
    point.group = row->beside == PZ_BESIDE_ENGINE ? "beside: copy engine" : "beside: host";
    if (row->beside == PZ_BESIDE_RESIDENT)
      point.group =
          pz_format(call, "beside: %lld core%s", (long long)row->sms, pz_text_s((double)row->sms));
    const char *k = row->k ? pz_format(call, " x %lld", (long long)row->k) : "";
    point.id = pz_format(call, "%s %lld x %lld%s, %s", row->compute, (long long)row->m,
                         (long long)row->n, k, pz_beside_names[row->beside]);
    if (row->slowdown > 0) point.plan = pz_format(call, "%.2f times as long", row->slowdown);
    if (row->slowdown > 0 && row->own_alone_s > 0) {
      char ms[32];
      pz_text_number(ms, sizeof ms, 1e3 * row->own_alone_s * row->slowdown);
      point.plan = pz_format(call, "%s; %s ms with the predicted time alone", point.plan, ms);
    }
    pz_append(call, reader->points, &point);
  }
  pz_close(call, cost);
}

/* ---- steps of preset models ----------------------------------------------------------------- */

/* The model and the settings of a measured step, from a row of a table of steps. */
struct preset_step {
  const char *model;
  const struct pz_chip *chip;
  double layers; /* 0 if all layers of the model ran */
  double seq, mbs;
  bool flash, recompute;
};

/* Returns the number in a cell of a column that a table of steps must have. */
static double step_cell(struct pz_call *call, const char *name, const struct pz_csv *csv,
                        uint32_t row, const char *head) {
  uint32_t column = pz_csv_column(csv, head);
  if (column == PZ_NONE) pz_raise(call, PZ_BAD_INPUT, "%s:1: no column '%s'", name, head);
  return pz_csv_real(call, name, csv, row, column, 1e15);
}

/* Predicts the time of forward and backward, which these measurements contain, and the peak memory.
 * Steps that launch kernels more slowly than they run differ by up to 1.9 times between runs. */
static void predict_passes(struct pz_call *call, const struct preset_step *step,
                           const struct pz_preset *preset, struct pz_validation_point *point) {
  /* Cuts the preset to the layers that ran. */
  static const char *const keys[] = {"n_layer", "num_hidden_layers"};
  json_t *json = pz_json_read(call, preset->name, preset->config, strlen(preset->config));
  for (size_t i = 0; i < sizeof keys / sizeof *keys && step->layers > 0; i++)
    if (json_object_get(json, keys[i]))
      json_object_set_new(json, keys[i], json_integer((int64_t)step->layers));
  const char *config = pz_json_format(call, json, JSON_COMPACT);
  pz_close(call, json);
  struct pz_job job = {.model = step->model, .config = config, .chip = step->chip};
  struct pz_plan plan = pz_plan_default();
  plan.framework = pz_framework_find("transformers");
  plan.seq = (int64_t)step->seq;
  plan.mbs = (int64_t)step->mbs;
  plan.batch = plan.mbs;
  plan.attention = step->flash ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
  plan.recompute = step->recompute ? PZ_RECOMPUTATION_FULL : PZ_RECOMPUTATION_NONE;
  plan.execution = PZ_EXECUTION_EAGER;
  plan.overlap = 0;
  plan.grad_bytes = 2;
  pz_fill_plan(call, &plan, step->chip);
  struct pz_prediction prediction = pz_predict(call, &job, &plan, NULL);
  point->predicted_s = prediction.step_s - prediction.parts.optimizer_s;
  if (pz_launch_bound(&prediction.parts)) point->quality = "launch-bound: differs between runs";

  /* Peak memory: 16-bit weights and gradients, and what eager kernels save. */
  struct pz_workload_options options = pz_workload_options_default();
  struct pz_workload *workload = NULL;
  options.kernels = PZ_KERNELS_EAGER;
  options.seq = (int64_t)step->seq;
  options.mbs = (int64_t)step->mbs;
  options.num_layers = (int64_t)step->layers;
  options.attention = step->flash ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
  options.recompute = step->recompute ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
  pz_must(call, pz_workload_load(step->model, &options, &workload, pz_call_error(call)));
  point->predicted_bytes = (double)workload->totals.peak_bytes;
  pz_workload_free(workload);
}

/* Adds a measured step of a preset model with predicted time and peak memory. */
static void add_preset_step(struct pz_call *call, const struct pz_point_reader *reader,
                            const char *name, const struct pz_csv *csv, uint32_t row,
                            const struct pz_chip *chip) {
  const char *model = optional_cell(csv, row, "model");
  const struct pz_preset *preset = pz_preset_find(model);
  if (!preset) pz_raise(call, PZ_BAD_INPUT, "%s: unknown model '%s'", name, model);
  struct preset_step step = {.model = model,
                             .chip = chip,
                             .flash = cell_equals(csv, row, "attn", "sdpa"),
                             .recompute = cell_equals(csv, row, "recompute", "True")};
  step.layers = step_cell(call, name, csv, row, "layers");
  step.seq = step_cell(call, name, csv, row, "seq");
  step.mbs = step_cell(call, name, csv, row, "mbs");
  struct pz_validation_point point = {.kind = PZ_POINT_PASSES,
                                      .group = "h200_steps",
                                      .quality = "ok",
                                      .chip = chip->name,
                                      .framework = "transformers",
                                      .model = model,
                                      .shape = "all layers",
                                      .devices = 1,
                                      .batch = (int64_t)step.mbs,
                                      .one_node = true,
                                      .reason = ""};
  point.measured_s = step_cell(call, name, csv, row, "fwd_bwd_s");
  point.measured_bytes = step_cell(call, name, csv, row, "peak_bytes");
  predict_passes(call, &step, preset, &point);
  if (step.layers > 0)
    point.shape = pz_format(call, "%.0f layer%s", step.layers, pz_text_s(step.layers));
  point.plan = pz_format(call, "mbs %.0f, %s%s", step.mbs, step.flash ? "flash" : "standard",
                         step.recompute ? ", recompute full" : "");
  point.id = pz_format(call, "%s, %s, %.0f x %.0f tokens", model, point.shape, step.mbs, step.seq);
  pz_append(call, reader->points, &point);
}

/* Appends the steps of a table that ran without an error, with their predictions. */
void pz_points_add_steps(struct pz_call *call, const struct pz_point_reader *reader,
                         const char *name, const char *text, size_t bytes, const char *chip_name) {
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  pz_chip_read(call, chip_name, chip);
  const struct pz_csv *csv = pz_csv_read(call, name, text, bytes);
  for (uint32_t i = 0; i < csv->rows; i++)
    if (cell_equals(csv, i, "status", "ok")) add_preset_step(call, reader, name, csv, i, chip);
}
