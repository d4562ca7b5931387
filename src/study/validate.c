/* Validates the model: predictions beside measurements, their errors by group, and limits on
 * them.
 *
 * validate_into() is the whole procedure: it reads the shipped data or the given tables as
 * points (study/points.h), summarizes them (groups, totals over training runs, and how well
 * predictions order the plans of one model), and compares the summary with limits.  With the
 * option `cold`, runs are predicted from the data sheets of their chips alone
 * (study/cold_validation.h).  Printing is the task of src/report. */
#include "study/validate.h"

#include <inttypes.h>
#include <math.h>

#include "core/file.h"
#include "study/cold_validation.h"
#include "study/measured.h"
#include "study/rank.h"

const char *const pz_point_kind_names[] = {"run", "passes", "operator", NULL};

/* ---- groups --------------------------------------------------------------------------------- */

/* Adds the errors of a point's time and peak memory to a group, or counts it as not predicted. */
static void add_point_errors(struct pz_errors *errors, const struct pz_validation_point *point) {
  if (!(point->predicted_s > 0 && point->measured_s > 0)) {
    errors->not_predicted++;
    return;
  }
  pz_errors_time(errors, point->id, point->predicted_s / point->measured_s - 1);
  if (point->measured_bytes > 0 && point->predicted_bytes > 0)
    pz_errors_memory(errors, point->predicted_bytes / point->measured_bytes - 1);
}

/* Returns the errors of points by group, as a vector of struct pz_errors: those of the points whose
 * quality is "ok", or (`ok` false) of all others, whose quality says why the measurement is not to
 * be counted.  An operator from a table of many chips states in `work` the group of its kind on all
 * chips; if its quality is ok, it counts in this group, too. */
static struct pz_vec group_errors(struct pz_call *call, const struct pz_validation_point *points,
                                  uint32_t n, bool ok) {
  struct pz_vec groups;
  pz_vec_init(&groups, call->arena, sizeof(struct pz_errors));
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_validation_point *point = &points[i];
    if ((strcmp(point->quality, "ok") == 0) == ok)
      add_point_errors(pz_errors_find(call, &groups, point->group, point->kind), point);
  }
  /* Groups over all chips, which follow those of single chips. */
  for (uint32_t i = 0; i < n && ok; i++) {
    const struct pz_validation_point *point = &points[i];
    bool is_ok = strcmp(point->quality, "ok") == 0;
    if (is_ok && point->kind == PZ_POINT_OPERATOR && point->work)
      add_point_errors(pz_errors_find(call, &groups, point->work, point->kind), point);
  }
  for (uint32_t i = 0; i < groups.n; i++) pz_errors_finish(pz_vec_at(&groups, struct pz_errors, i));
  return groups;
}

/* ---- totals over training runs -------------------------------------------------------------- */

/* Names of the totals, in the order in which find_totals() decides on them. */
static const char *const total_names[] = {"all runs",
                                          "dense bf16 on GPUs",
                                          "dense bf16 on GPUs, single node",
                                          "on TPUs",
                                          "with experts",
                                          "dense fp8",
                                          "dense, context parallel, on GPUs",
                                          "zero bubble",
                                          "dense nvfp4",
                                          "LoRA",
                                          "with state-space layers"};
enum { TOTALS = sizeof total_names / sizeof *total_names };

/* Sets for each total whether a training run counts in it. */
static void find_totals(const struct pz_validation_point *point, bool counts[TOTALS]) {
  const char *work = point->work ? point->work : "";
  bool dense = point->dense && !point->tpu, fp8 = strcmp(work, "fp8") == 0;
  bool context = point->context && !point->tpu && (fp8 || strcmp(work, "16-bit") == 0);
  const bool values[TOTALS] = {true,
                               dense,
                               dense && point->one_node,
                               point->tpu,
                               strcmp(work, "experts") == 0,
                               fp8,
                               context,
                               point->zero_bubble,
                               strcmp(work, "nvfp4") == 0,
                               strcmp(work, "LoRA") == 0,
                               strcmp(work, "state-space layers") == 0};
  memcpy(counts, values, sizeof values);
}

/* ---- order of plans ------------------------------------------------------------------------- */

/* Returns whether two runs have the same plan.  Plans are unequal if `choices` are unknown. */
static bool has_same_plan(const struct pz_validation_point *first,
                          const struct pz_validation_point *second) {
  if (first == second) return true;
  return first->choices && second->choices && strcmp(first->choices, second->choices) == 0;
}

/* Appends how well predictions order the plans of one job by step time, unless there are too few
 * plans.  The runs of a plan count once, with their median time, so that a plan measured often
 * weighs no more than others. */
static void append_order(struct pz_call *call, const struct pz_validation_point *const *runs,
                         uint32_t n_runs, struct pz_vec *orders) {
  double *predicted = pz_alloc(call, n_runs, sizeof *predicted);
  double *measured = pz_alloc(call, n_runs, sizeof *measured);
  double *scratch = pz_alloc(call, 2 * (size_t)n_runs, sizeof *scratch);
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_runs; i++) {
    uint32_t first_of_plan = 0, n_times = 0;
    while (!has_same_plan(runs[first_of_plan], runs[i])) first_of_plan++;
    if (first_of_plan < i) continue;
    for (uint32_t k = i; k < n_runs; k++)
      if (has_same_plan(runs[i], runs[k])) scratch[n_times++] = runs[k]->measured_s;
    predicted[n] = runs[i]->predicted_s;
    measured[n] = pz_median(scratch, n_times);
    n++;
  }
  if (n < PZ_LEAST_PLANS) return;
  struct pz_plan_order order = {.model = runs[0]->model,
                                .shape = runs[0]->shape,
                                .group = runs[0]->group,
                                .chip = runs[0]->chip,
                                .devices = runs[0]->devices,
                                .batch = runs[0]->batch,
                                .plans = n,
                                .rank_correlation = pz_spearman(predicted, measured, n, scratch),
                                .regret = pz_regret(predicted, measured, n)};
  order.name = pz_format(call, "%s (%s) on %" PRId64 " x %s, batch %" PRId64, order.model,
                         order.shape, order.devices, order.chip, order.batch);
  pz_append(call, orders, &order);
}

/* Returns the mean over the orders of one group, or over all orders if `group` is NULL. */
static struct pz_order_mean mean_of_orders(const struct pz_vec *orders, const char *group) {
  struct pz_order_mean mean = {.name = group ? group : "all models"};
  uint32_t n_correlations = 0;
  for (uint32_t i = 0; i < orders->n; i++) {
    const struct pz_plan_order *order = pz_vec_at(orders, struct pz_plan_order, i);
    if (group && strcmp(order->group, group) != 0) continue;
    mean.n++;
    mean.regret += order->regret;
    if (isnan(order->rank_correlation)) continue;
    n_correlations++;
    mean.rank_correlation += order->rank_correlation;
  }
  mean.regret /= mean.n ? (double)mean.n : (double)NAN;
  mean.rank_correlation /= n_correlations ? (double)n_correlations : (double)NAN;
  return mean;
}

/* Sets the orders of all jobs with enough plans, and their means by group and over all. */
static void order_plans(struct pz_call *call, const struct pz_validation_point *points, uint32_t n,
                        struct pz_validation *validation) {
  const struct pz_validation_point **runs = pz_alloc(call, n, sizeof *runs);
  struct pz_vec orders, means;
  pz_vec_init(&orders, call->arena, sizeof(struct pz_plan_order));
  pz_vec_init(&means, call->arena, sizeof(struct pz_order_mean));
  for (uint32_t i = 0; i < n; i++) {
    /* Collects the runs of the job of run i if it is the first run of this job. */
    uint32_t n_runs = 0;
    bool is_first = points[i].job && strcmp(points[i].quality, "ok") == 0 &&
                    points[i].predicted_s > 0 && points[i].measured_s > 0;
    for (uint32_t k = 0; k < n && is_first; k++) {
      if (!(points[k].job && strcmp(points[k].quality, "ok") == 0 && points[k].predicted_s > 0 &&
            points[k].measured_s > 0) ||
          strcmp(points[k].job, points[i].job) != 0)
        continue;
      if (k < i) is_first = false;
      runs[n_runs] = &points[k];
      n_runs++;
    }
    if (is_first) append_order(call, runs, n_runs, &orders);
  }
  for (uint32_t i = 0; i < orders.n; i++) {
    const char *group = pz_vec_at(&orders, struct pz_plan_order, i)->group;
    bool is_listed = false;
    for (uint32_t k = 0; k < means.n && !is_listed; k++)
      is_listed = strcmp(pz_vec_at(&means, struct pz_order_mean, k)->name, group) == 0;
    struct pz_order_mean mean = mean_of_orders(&orders, group);
    if (!is_listed) pz_append(call, &means, &mean);
  }
  struct pz_order_mean all = mean_of_orders(&orders, NULL);
  if (orders.n > 0) pz_append(call, &means, &all);
  validation->orders = orders.items;
  validation->n_orders = orders.n;
  validation->order_means = means.items;
  validation->n_order_means = means.n;
}

/* Groups the points, totals the training runs, and orders the plans of each job. */
struct pz_validation pz_validation_summarize(struct pz_call *call,
                                             const struct pz_validation_point *points, uint32_t n) {
  struct pz_vec groups = group_errors(call, points, n, true);
  struct pz_vec apart = group_errors(call, points, n, false);
  struct pz_errors *totals = pz_alloc(call, TOTALS, sizeof *totals);
  for (int k = 0; k < TOTALS; k++)
    totals[k] = (struct pz_errors){.name = total_names[k], .kind = PZ_POINT_RUN};
  for (uint32_t i = 0; i < n; i++) {
    bool counts[TOTALS];
    if (points[i].kind != PZ_POINT_RUN || strcmp(points[i].quality, "ok") != 0) continue;
    find_totals(&points[i], counts);
    for (int k = 0; k < TOTALS; k++)
      if (counts[k]) add_point_errors(&totals[k], &points[i]);
  }
  for (int k = 0; k < TOTALS; k++) pz_errors_finish(&totals[k]);
  struct pz_validation validation = {.points = points,
                                     .n_points = n,
                                     .groups = groups.items,
                                     .n_groups = groups.n,
                                     .apart = apart.items,
                                     .n_apart = apart.n,
                                     .totals = totals,
                                     .n_totals = TOTALS};
  order_plans(call, points, n, &validation);
  return validation;
}

/* ---- limits --------------------------------------------------------------------------------- */

const char *const pz_limit_heads[PZ_LIMITEDS + 1] = {
    "group", "mean_error", "memory_error", "not_predicted", "rank_correlation", "regret"};

/* Reads a row for each limited group; an empty cell becomes NaN, which limits nothing. */
void pz_limits_parse(struct pz_call *call, const char *name, const char *text, size_t bytes,
                     struct pz_validation *validation) {
  const struct pz_csv *csv = pz_csv_read(call, name, text, bytes);
  bool columns_known = csv->columns == PZ_LIMITEDS + 1;
  for (uint32_t column = 0; columns_known && column < csv->columns; column++)
    columns_known = strcmp(csv->cells[column], pz_limit_heads[column]) == 0;
  if (!columns_known)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:1: unknown columns; accepted: group,mean_error,memory_error,not_predicted,"
             "rank_correlation,regret",
             name);
  struct pz_limit *limits = pz_alloc(call, csv->rows, sizeof *limits);
  for (uint32_t i = 0; i < csv->rows; i++) {
    limits[i].group = pz_csv_cell(csv, i, 0);
    for (uint32_t k = 0; k < PZ_LIMITEDS; k++) {
      limits[i].value[k] = pz_csv_real(call, name, csv, i, k + 1, 1e6);
      if (!*pz_csv_cell(csv, i, k + 1)) limits[i].value[k] = (double)NAN;
    }
  }
  validation->limits = limits;
  validation->n_limits = csv->rows;
}

/* Returns the limit of a group on one of its values, or NaN if it has none. */
double pz_limit_of(const struct pz_validation *validation, const char *name, enum pz_limited what) {
  for (uint32_t i = 0; i < validation->n_limits; i++) /* several rows may limit one name */
    if (strcmp(validation->limits[i].group, name) == 0 && !isnan(validation->limits[i].value[what]))
      return validation->limits[i].value[what];
  return (double)NAN;
}

/* Looks up the values of every limited group, and lists those that do not hold. */
void pz_limits_compare(struct pz_call *call, struct pz_validation *validation) {
  struct pz_vec broken;
  pz_vec_init(&broken, call->arena, sizeof(struct pz_broken_limit));
  for (uint32_t i = 0; i < validation->n_limits; i++) {
    const struct pz_limit *limit = &validation->limits[i];
    /* Find the values of the group, the total or the order of plans that has the name of the limit.
     * A value that does not exist is NaN. */
    const char *name = limit->group;
    double values[PZ_LIMITEDS];
    for (int k = 0; k < PZ_LIMITEDS; k++) values[k] = (double)NAN;
    for (uint32_t k = 0; k < validation->n_groups + validation->n_totals; k++) {
      const struct pz_errors *errors = k < validation->n_groups
                                           ? &validation->groups[k]
                                           : &validation->totals[k - validation->n_groups];
      if (strcmp(errors->name, name) != 0) continue;
      values[PZ_LIMITED_TIME] = errors->mean;
      values[PZ_LIMITED_MEMORY] = errors->memory_mean;
      values[PZ_LIMITED_MISSING] = errors->not_predicted;
    }
    for (uint32_t k = 0; k < validation->n_orders; k++) {
      if (strcmp(validation->orders[k].name, name) != 0) continue;
      values[PZ_LIMITED_RANK] = validation->orders[k].rank_correlation;
      values[PZ_LIMITED_REGRET] = validation->orders[k].regret;
    }
    for (uint32_t k = 0; k < validation->n_order_means; k++) {
      if (strcmp(validation->order_means[k].name, name) != 0) continue;
      values[PZ_LIMITED_RANK] = validation->order_means[k].rank_correlation;
      values[PZ_LIMITED_REGRET] = validation->order_means[k].regret;
    }
    for (enum pz_limited k = 0; k < PZ_LIMITEDS; k++) {
      struct pz_broken_limit violated = {limit->group, k, values[k], limit->value[k]};
      /* Comparisons with NaN are false, so a limit without a value to compare is broken. */
      bool holds =
          k == PZ_LIMITED_RANK ? values[k] >= limit->value[k] : values[k] <= limit->value[k];
      if (!isnan(limit->value[k]) && !holds) pz_append(call, &broken, &violated);
    }
  }
  validation->broken = broken.items;
  validation->n_broken = broken.n;
}

/* Reads the limits on errors: from the file that the options name, or built-in ones, which are for
 * operators (option PZ_LIMITS_OPS) or, without the option, for the shipped data. */
static void read_limits(struct pz_call *call, const struct pz_validate_options *options,
                        bool shipped, struct pz_validation *validation) {
  const char *built_in = NULL;
  bool for_operators = options->limits && strcmp(options->limits, PZ_LIMITS_OPS) == 0;
  if (for_operators) built_in = "limits_ops";
  if (!options->limits && shipped && !options->cold) built_in = "limits";
  if (built_in) {
    const char *text = pz_embedded_text(pz_embedded_limits, built_in);
    pz_limits_parse(call, built_in, text, strlen(text), validation);
    if (for_operators) {
      /* Drops limits of groups with few rows, whose mean says little, and those over all chips,
       * whose mean depends on the mix of chips. */
      static const uint32_t LEAST_ROWS = 20;
      struct pz_vec kept;
      pz_vec_init(&kept, call->arena, sizeof(struct pz_limit));
      for (uint32_t i = 0; i < validation->n_limits; i++) {
        const struct pz_limit *limit = &validation->limits[i];
        bool all_chips = strncmp(limit->group, PZ_ALL_CHIPS, sizeof PZ_ALL_CHIPS - 1) == 0;
        bool found = false;
        for (uint32_t group_index = 0; group_index < validation->n_groups && !found; group_index++)
          found = validation->groups[group_index].n >= LEAST_ROWS &&
                  strcmp(validation->groups[group_index].name, limit->group) == 0;
        if (found && !all_chips) pz_append(call, &kept, limit);
      }
      validation->limits = kept.items;
      validation->n_limits = kept.n;
    }
  } else if (options->limits) {
    size_t bytes = 0;
    char *text = pz_file_text(call, options->limits, PZ_CSV_MOST_BYTES, &bytes);
    pz_limits_parse(call, options->limits, text, bytes, validation);
    pz_close(call, text);
  }
}

/* ---- the whole procedure -------------------------------------------------------------------- */

static const char DEFAULT_CHIP[] = "h200";

/* Reads a table of operators or a directory of tables, and notes if no row uses the chip. */
static void read_operator_tables(struct pz_call *call, const struct pz_point_reader *reader,
                                 const char *path, const char *chip, struct pz_vec *notes) {
  struct pz_measured measured = pz_measured_load_path(call, path);
  bool chip_used = pz_points_add_operators(call, reader, &measured, chip);
  for (uint32_t i = 0; i < measured.n_skipped; i++) pz_append(call, notes, &measured.skipped[i]);
  if (chip_used || strcmp(chip, DEFAULT_CHIP) == 0) return;
  const char *note = pz_format(
      call, "%s: no predicted row is of chip %s; rows are predicted with the presets they name",
      path, chip);
  pz_append(call, notes, &note);
}

/* Runs the validation and stores it in *out.  `call` allocates in the object that is returned. */
static void validate_into(struct pz_call *call, const struct pz_validate_options *options,
                          struct pz_validation *out) {
  struct pz_vec points, notes, tables;
  struct pz_cold usual = pz_cold_usual();
  struct pz_progress progress;
  atomic_bool stop = false;
  bool shipped = !options->ops && !options->beside && (!options->runs || !options->runs[0]);
  if (options->cold && (options->ops || options->beside))
    pz_raise(call, PZ_BAD_USE, "cold is of training runs; accepted: without ops and beside");
  if (options->progress) pz_progress_start_call(&progress, options->progress, options->ctx, &stop);
  pz_vec_init(&notes, call->arena, sizeof(const char *));
  pz_vec_init(&tables, call->arena, sizeof(struct pz_run_table));
  pz_vec_init(&points, call->arena, sizeof(struct pz_validation_point));
  struct pz_point_reader reader = {.points = &points,
                                   .threads = options->threads,
                                   .progress = options->progress ? &progress : NULL,
                                   .cold = options->cold ? &usual : NULL,
                                   .tables = &tables};
  if (shipped) {
    /* The built-in measurements.  If chips are predicted by their data sheets, training runs
     * alone: operators and steps were used to calibrate the chip that they were measured on. */
    const struct pz_embedded *file = pz_embedded_operators;
    for (; file->name && !reader.cold; file++) {
      const struct pz_csv *csv = pz_csv_read(call, file->name, file->text, strlen(file->text));
      struct pz_measured measured = pz_measured_read_csv(call, file->name, csv);
      pz_points_add_operators(call, &reader, &measured, "h200");
    }
    for (file = pz_embedded_steps; file->name && !reader.cold; file++)
      pz_points_add_steps(call, &reader, file->name, file->text, strlen(file->text), "h200");
    for (file = pz_embedded_runs; file->name; file++)
      pz_points_add_runs(call, &reader, file->name, file->text, strlen(file->text));
  }
  size_t bytes = 0;
  for (const char *const *path = options->runs; path && *path; path++) {
    char *text = pz_file_text(call, *path, PZ_CSV_MOST_BYTES, &bytes);
    pz_points_add_runs(call, &reader, *path, text, bytes);
    pz_close(call, text);
  }
  if (options->ops) read_operator_tables(call, &reader, options->ops, options->chip, &notes);
  if (options->beside) {
    char *text = pz_file_text(call, options->beside, PZ_CSV_MOST_BYTES, &bytes);
    pz_points_add_overlapped(call, &reader, options->beside, text, bytes, options->chip);
    pz_close(call, text);
  }

  struct pz_validation validation = pz_validation_summarize(call, points.items, points.n);
  validation.notes = notes.items;
  validation.n_notes = notes.n;
  if (options->cold) {
    validation.cold = pz_cold_chip_errors(call, &points);
    pz_cold_leave_out_families(call, &tables, &points, options->threads, &validation.cold);
  }
  read_limits(call, options, shipped, &validation);
  pz_limits_compare(call, &validation);
  *out = validation;
}

struct pz_validate_options pz_validate_options_default(void) {
  return (struct pz_validate_options){.size = sizeof(struct pz_validate_options),
                                      .chip = DEFAULT_CHIP};
}

struct validate_args {
  const struct pz_validate_options *options;
  struct pz_validation **out;
};

/* Checks the options and makes a validation, which the caller of the public function owns. */
static void run_validation(struct pz_call *call, void *ctx) {
  struct validate_args *args = ctx;
  struct pz_validate_options options = pz_validate_options_default();
  pz_require_options(call, &options, sizeof options, args->options, "pz_validate_options_default");
  pz_require(call, args->out, "out");
  pz_require(call, options.chip, "chip");
  struct pz_call own;
  struct pz_validation *validation = pz_object_new(call, sizeof *validation, &own);
  validate_into(&own, &options, validation);
  *args->out = pz_object_keep(call, validation);
}

enum pz_status pz_validate(const struct pz_validate_options *options, struct pz_validation **out,
                           struct pz_error *err) {
  struct validate_args args = {options, out};
  return pz_border(run_validation, &args, err);
}

void pz_validation_free(struct pz_validation *validation) { pz_object_free(validation); }
