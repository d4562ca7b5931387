/* Corrects predictions by measured training steps: pz_calibrate_steps().
 *
 * read_steps() reads the steps from tables of runs (step/run_table.h) and from logs of runs
 * (launch/run_log.h).  The fit itself is that of step/correction.h; here its errors are found,
 * on the steps before and after it, on each run by a fit to the other runs, and on held-out
 * steps.  If all steps are of one chip, the result has this chip with the correction. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/file.h"
#include "core/vec.h"
#include "launch/run_log.h"
#include "plan/plan_fill.h"
#include "step/correction.h"
#include "step/run_table.h"

struct pz_calibrate_steps_options pz_calibrate_steps_options_default(void) {
  return (struct pz_calibrate_steps_options){.size = sizeof(struct pz_calibrate_steps_options)};
}

struct step_reader {
  const struct pz_calibrate_steps_options *options;
  struct pz_chip chip; /* chip of the options, if they name one */
  struct pz_vec notes; /* const char * */
  struct pz_vec files; /* const char *: paths of all files that were read */
};

/* Records the path of a file that the calibration has read.  A name that is NULL is ignored, and,
 * if may_be_built_in, also that of a built-in model, chip or cluster, which has no file. */
static void add_file_read(struct pz_call *call, struct step_reader *reader, const char *name,
                          bool may_be_built_in) {
  if (!name || (may_be_built_in && !pz_file_named(name))) return;
  const char *copy = pz_copy_text(call, name);
  pz_append(call, &reader->files, &copy);
}

/* Returns whether names are equal up to a comma, as in "h100, calibrated with ...". */
static bool is_same_chip(const struct pz_chip *first, const struct pz_chip *second) {
  size_t n = strcspn(first->name, ",");
  return n == strcspn(second->name, ",") && strncmp(first->name, second->name, n) == 0;
}

/* Adds a step, and checks that its time is plausible for the run. */
static void add_step(struct pz_call *call, struct step_reader *reader, const char *where,
                     const struct pz_measured_step *step, struct pz_vec *steps) {
  struct pz_job *job = pz_copy(call, step->job, 1, sizeof *job);
  struct pz_measured_step added = *step;
  if (reader->options->chip)
    job->chip = &reader->chip; /* even if its file has other values than the run's */
  added.job = job;
  pz_append(call, steps, &added);
  struct pz_prediction prediction = pz_predict(call, job, step->plan, NULL);
  pz_measured_step_check(call, where, &prediction, step->measured_s);
}

/* ---- the steps of a table ------------------------------------------------------------------- */

/* Adds the measured steps of a table of runs, and a note about each row that is not used. */
static void add_table(struct pz_call *call, struct step_reader *reader, const char *path,
                      const char *text, size_t bytes, struct pz_vec *steps) {
  static const char *const file_columns[] = {"model", "chip", "cluster"};
  const struct pz_calibrate_steps_options *options = reader->options;
  struct pz_run_terms terms = {
      .chip = options->chip, .cluster = options->cluster, .threads = options->threads};
  struct pz_run_table table;
  pz_run_table_read(call, &terms, path, text, bytes, &table);
  for (uint32_t i = 0; i < table.n_rows; i++) {
    const struct pz_run_row *row = &table.rows[i];
    uint32_t line = table.csv.lines[i];
    const char *reason = NULL; /* why the row is not used */
    if (!row->predicted)
      reason = row->reason;
    else if (!(row->measured_s > 0))
      reason = "no step_time_s";
    else if (strcmp(row->quality, "ok") != 0)
      reason = row->quality;
    else if (options->chip && !is_same_chip(pz_run_table_job(&table, i)->chip, &reader->chip))
      reason = "of another chip";
    if (reason) {
      const char *note = pz_format(call, "%s:%u: not used: %s", path, line, reason);
      pz_append(call, &reader->notes, &note);
    }
    for (size_t k = 0; k < sizeof file_columns / sizeof *file_columns; k++) {
      uint32_t column = pz_csv_column(&table.csv, file_columns[k]);
      if (column != PZ_NONE) add_file_read(call, reader, pz_csv_cell(&table.csv, i, column), true);
    }
    if (reason) continue;
    char where[300];
    snprintf(where, sizeof where, "%.200s:%u", path, line);
    struct pz_measured_step step = {.id = row->id,
                                    .job = pz_run_table_job(&table, i),
                                    .plan = row->plan,
                                    .measured_s = row->measured_s};
    add_step(call, reader, where, &step, steps);
  }
}

/* ---- the step of a log ---------------------------------------------------------------------- */

static void free_run_plan(void *run) { pz_run_plan_free(run); }

/* Adds the measured step of a run log, which the log itself or the file `plan_path` describes. */
static void add_log(struct pz_call *call, struct step_reader *reader, const char *path,
                    const char *text, size_t bytes, const char *plan_path, struct pz_vec *steps) {
  const struct pz_calibrate_steps_options *options = reader->options;
  struct pz_run_plan_options plan_options = pz_run_plan_options_default();
  struct pz_run_plan *run = NULL;
  struct pz_error *err = pz_call_error(call);
  if (plan_path) {
    size_t plan_bytes = 0;
    char *plan_text = pz_file_text(call, plan_path, PZ_PLAN_FILE_MOST_BYTES, &plan_bytes);
    plan_options.devices = options->devices;
    plan_options.log = text;
    plan_options.log_name = path;
    pz_must(call, pz_run_plan_read(plan_path, plan_text, plan_bytes, &plan_options, &run, err));
    pz_close(call, plan_text);
  } else {
    pz_must(call, pz_run_plan_read(path, text, bytes, &plan_options, &run, err));
  }
  pz_defer(call, free_run_plan, run);
  const char *chip_name = options->chip ? options->chip : run->chip;
  const char *cluster_name = options->cluster ? options->cluster : run->cluster;
  if (!chip_name)
    pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP, and --cluster NET", path);
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  struct pz_plan *plan = pz_copy(call, &run->plan, 1, sizeof *plan);
  struct pz_network *network = pz_alloc(call, 1, sizeof *network);
  struct pz_cluster cluster;
  pz_chip_read(call, chip_name, chip);
  pz_fill_plan(call, plan, chip);
  if (cluster_name) pz_must(call, pz_cluster_load(cluster_name, &cluster, err));
  pz_must(call, pz_network_find(chip, cluster_name ? &cluster : NULL, plan->devices, "devices",
                                network, err));
  struct pz_job job = {.model = run->model,
                       .config = run->config,
                       .chip = chip,
                       .net = network->own_link ? NULL : &network->cluster};
  struct pz_measured_step step = {
      .id = pz_copy_text(call, path), .job = &job, .plan = plan, .measured_s = run->measured_s};
  add_file_read(call, reader, run->model, true);
  add_file_read(call, reader, chip_name, true);
  add_file_read(call, reader, cluster_name, true);
  add_step(call, reader, path, &step, steps);
}

/* ---- all files ------------------------------------------------------------------------------ */

/* Cuts the next word off the comma-separated list *rest, and returns NULL after the last word. */
static char *next_word(char **rest) {
  char *word = *rest;
  char *comma = word ? strchr(word, ',') : NULL;
  if (comma) *comma = '\0';
  *rest = comma ? comma + 1 : NULL;
  return word;
}

/* Returns the steps of files as struct pz_measured_step; `plans` are those of the logs, or NULL. */
static struct pz_vec read_steps(struct pz_call *call, struct step_reader *reader, const char *paths,
                                const char *plans) {
  struct pz_vec steps;
  pz_vec_init(&steps, call->arena, sizeof(struct pz_measured_step));
  char *rest = pz_copy_text(call, paths);
  char *plans_rest = plans ? pz_copy_text(call, plans) : NULL;
  while (rest) {
    const char *path = next_word(&rest), *plan = next_word(&plans_rest);
    if (plans && !plan)
      pz_raise(call, PZ_BAD_USE, "--plan '%s'; accepted: one for each log", plans);
    if (plan && !*plan) plan = NULL;
    add_file_read(call, reader, path, false);
    add_file_read(call, reader, plan, false);
    size_t bytes = 0;
    char *text = pz_file_text(call, path, PZ_CSV_MOST_BYTES, &bytes);
    if (pz_run_log_is(text, bytes))
      add_log(call, reader, path, text, bytes, plan, &steps);
    else if (plan)
      pz_raise(call, PZ_BAD_USE, "%s is no log; accepted: --plan with logs", path);
    else
      add_table(call, reader, path, text, bytes, &steps);
    pz_close(call, text);
  }
  if (plans_rest) pz_raise(call, PZ_BAD_USE, "--plan '%s'; accepted: one for each log", plans);
  const char *note = reader->notes.n ? *pz_vec_at(&reader->notes, const char *, 0) : "";
  if (!steps.n)
    pz_raise(call, PZ_BAD_INPUT, "%s: no step to use%s%s", paths, *note ? "; " : "", note);
  return steps;
}

/* ---- errors and the corrected chip ---------------------------------------------------------- */

/* Returns the steps with their predictions before and after the correction. */
static struct pz_step_residual *find_residuals(struct pz_call *call, const struct pz_vec *steps,
                                               const struct pz_correction *correction,
                                               unsigned threads) {
  const struct pz_measured_step *step = steps->items;
  uint32_t n = steps->n;
  struct pz_step_residual *residuals = pz_alloc(call, n, sizeof *residuals);
  double *step_s = pz_alloc(call, n, sizeof *step_s);
  const struct pz_correction none = {.steps = 0};
  pz_steps_corrected(call, step, n, &none, threads, step_s);
  for (uint32_t i = 0; i < n; i++)
    residuals[i] = (struct pz_step_residual){
        .id = step[i].id, .measured_s = step[i].measured_s, .before_s = step_s[i]};
  pz_steps_corrected(call, step, n, correction, threads, step_s);
  for (uint32_t i = 0; i < n; i++) residuals[i].after_s = step_s[i];
  return residuals;
}

/* Returns the mean errors of steps; that of left-out steps is NaN if there are none. */
static struct pz_step_errors mean_errors(const struct pz_step_residual *residual, uint32_t n) {
  struct pz_step_errors sum = {0, 0, 0};
  for (uint32_t i = 0; i < n; i++) {
    sum.before += fabs(residual[i].before_s / residual[i].measured_s - 1);
    sum.left_out += fabs(residual[i].left_out_s / residual[i].measured_s - 1);
    sum.after += fabs(residual[i].after_s / residual[i].measured_s - 1);
  }
  bool left_out = n > 0 && residual[0].left_out_s > 0;
  return (struct pz_step_errors){.before = sum.before / n,
                                 .left_out = left_out ? sum.left_out / n : (double)NAN,
                                 .after = sum.after / n};
}

/* Returns the chip of all steps with the correction and a name that states its source, or NULL if
 * there are several chips.  The factor of memory stays, because steps say nothing about it. */
static const struct pz_chip *corrected_chip(struct pz_call *call, const struct step_reader *reader,
                                            const struct pz_vec *steps,
                                            const struct pz_correction *correction) {
  const struct pz_measured_step *step = steps->items;
  for (uint32_t i = 1; i < steps->n; i++)
    if (!is_same_chip(step[0].job->chip, step[i].job->chip)) return NULL;
  struct pz_chip *chip = pz_copy(call, step[0].job->chip, 1, sizeof *chip);
  double memory = chip->correction.memory;
  pz_chip_name_calibrated(chip, reader->options->steps);
  chip->correction = *correction;
  chip->correction.memory = memory;
  return chip;
}

/* Fits the factors and finds their errors, in the memory of the returned object. */
static void calibrate_steps(struct pz_call *call, struct step_reader *reader,
                            struct pz_step_calibration *out) {
  /* Smallest stated error; no group of published runs is predicted better (bench/steps.csv). */
  static const double LEAST_ERROR = 0.025;
  const struct pz_calibrate_steps_options *options = reader->options;
  struct pz_vec steps = read_steps(call, reader, options->steps, options->plan), held = {.n = 0};
  if (options->held) held = read_steps(call, reader, options->held, NULL);
  const struct pz_measured_step *step = steps.items;
  uint32_t n = steps.n;
  struct pz_step_sensitivity *sensitivity = pz_step_sensitivities(call, step, n, options->threads);
  bool several_runs = false; /* or only repeated steps of one run */
  for (uint32_t i = 1; i < n; i++)
    if (!pz_step_repeats(&sensitivity[0], &sensitivity[i])) several_runs = true;
  struct pz_correction correction = pz_correction_fit(step, sensitivity, n, n);
  struct pz_step_residual *residuals = find_residuals(call, &steps, &correction, options->threads);
  /* Predict every step with a fit to the other runs, if there are any. */
  for (uint32_t i = 0; i < n && several_runs; i++) {
    struct pz_correction others = pz_correction_fit(step, sensitivity, n, i);
    pz_steps_corrected(call, &step[i], 1, &others, 1, &residuals[i].left_out_s);
  }
  out->steps = residuals;
  out->n_steps = n;
  out->errors = mean_errors(residuals, n);
  if (options->held) {
    out->held = find_residuals(call, &held, &correction, options->threads);
    out->n_held = held.n;
    out->held_errors = mean_errors(out->held, held.n);
  }
  correction.steps = n;
  correction.error = several_runs ? fmax(out->errors.left_out, LEAST_ERROR) : 0;
  correction.kinds = 0; /* set of the kinds of runs: dense or with experts, by precision */
  for (uint32_t i = 0; i < n; i++) {
    struct pz_prediction run = pz_predict(call, step[i].job, step[i].plan, NULL);
    bool has_experts = run.active_params < run.params;
    correction.kinds |= pz_correction_kind(has_experts, step[i].plan->precision);
  }
  struct pz_step_factor *factors = pz_alloc(call, PZ_CORRECTION_FACTORS, sizeof *factors);
  pz_correction_tell(&correction, sensitivity, n, factors, PZ_CORRECTION_FACTORS);
  out->factors = factors;
  out->n_factors = PZ_CORRECTION_FACTORS;
  out->chip = corrected_chip(call, reader, &steps, &correction);
  /* Adds notes about how far the calibration can be trusted. */
  enum { FEW_STEPS = 3 };
  static const double LARGE_ERROR = 0.5;
  static const char *const few =
      "fewer than 3 steps, or of one run alone: factors are moved less than more would, and "
      "nothing is known of other runs";
  static const char *const far =
      "steps are far from their predictions: are plan, chip and cluster those that ran?";
  static const char *const unlike =
      "steps left out are predicted no better by the others: measure more, or steps that are more "
      "alike";
  if (out->n_steps < FEW_STEPS || !several_runs) pz_append(call, &reader->notes, &few);
  if (out->errors.before > LARGE_ERROR) pz_append(call, &reader->notes, &far);
  if (out->errors.left_out > out->errors.before) pz_append(call, &reader->notes, &unlike);
}

struct calibrate_args {
  const struct pz_calibrate_steps_options *options;
  struct pz_step_calibration **out;
};

/* Checks the options, calibrates, and returns an object with the notes and the files read. */
static void run_step_calibration(struct pz_call *call, void *ctx) {
  const struct calibrate_args *args = ctx;
  struct pz_calibrate_steps_options options = pz_calibrate_steps_options_default();
  struct step_reader reader = {.options = &options};
  pz_require_options(call, &options, sizeof options, args->options,
                     "pz_calibrate_steps_options_default");
  pz_require(call, options.steps, "steps");
  pz_require(call, args->out, "out");
  if (options.chip) pz_chip_read(call, options.chip, &reader.chip);
  struct pz_call object_call;
  struct pz_step_calibration *out = pz_object_new(call, sizeof *out, &object_call);
  pz_vec_init(&reader.notes, object_call.arena, sizeof(const char *));
  pz_vec_init(&reader.files, object_call.arena, sizeof(const char *));
  add_file_read(&object_call, &reader, options.chip, true);
  add_file_read(&object_call, &reader, options.cluster, true);
  calibrate_steps(&object_call, &reader, out);
  out->notes = reader.notes.items;
  out->n_notes = reader.notes.n;
  out->files = reader.files.items;
  out->n_files = reader.files.n;
  *args->out = pz_object_keep(call, out);
}

enum pz_status pz_calibrate_steps(const struct pz_calibrate_steps_options *options,
                                  struct pz_step_calibration **out, struct pz_error *err) {
  struct calibrate_args args = {options, out};
  return pz_border(run_step_calibration, &args, err);
}

void pz_step_calibration_free(struct pz_step_calibration *calibration) {
  pz_object_free(calibration);
}
