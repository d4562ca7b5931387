/* Section of a report: the run itself, with its objective runs and certificates, the sensitivity of
 * the best chip, the inputs, and the command line that repeats the search.  Objective runs and
 * command exist only in results of the evaluator original, which have a comparison. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "report/report_data.h"

/* Names and units of search parameters; others are shown by their own name, without a unit. */
static const struct {
  const char *name, *text, *unit;
} parameters[] = {{"tensor_cores", "tensor cores", ""},
                  {"rows", "rows of a tensor core", ""},
                  {"cols", "columns of a tensor core", ""},
                  {"vector_cores", "vector cores", ""},
                  {"lanes", "lanes of a vector core", ""},
                  {"glb_mib", "global buffer", "MiB"},
                  {"hbm_gib", "HBM capacity", "GiB"},
                  {"local_kib", "buffer of a tensor core", "KiB"},
                  {"clock_mhz", "clock", "MHz"},
                  {"glb_bytes_per_cycle", "global buffer rate", "B/cycle"},
                  {"hbm_stacks", "HBM stacks", ""},
                  {"link_gb_per_s", "link", "GB/s"},
                  {"hbm", "HBM generation", ""}};

/* ---- objective runs ------------------------------------------------------------------------- */

/* Appends the best chip of each objective run, and how many chips were evaluated or excluded. */
static void append_objective_runs(struct pz_call *call, struct pz_report *report) {
  json_t *rows = pz_dataset_new(call, report->datasets, "objective_runs",
                                "objective_run,chip,chip_id,hbm_gib,area_mm2,area_part,watts,"
                                "objective,chips,evaluated,excluded_after_schedules,excluded_by_"
                                "tables,open_schedules,gap");
  const struct pz_result *result = report->result;
  for (uint32_t i = 0; i < result->n_answers; i++) {
    const struct pz_answer *answer = &result->answers[i];
    const struct pz_result_chip *chip = pz_result_chip(result, answer->chip_id);
    uint32_t n_of_kind[PZ_CHIP_STATUSES] = {0};
    json_t *row = NULL; /* stays NULL, which raises an error, if the chip is not in the space */
    for (uint32_t k = 0; k < result->n_chips; k++) n_of_kind[answer->status[k].kind]++;
    if (chip)
      row = json_pack("[s,s,I,f,f,f,f,f,I,I,I,I,I,f]", answer->name, answer->chip->name,
                      (json_int_t)answer->chip_id, answer->hbm_gib, chip->area_mm2,
                      answer->area_part, chip->watts, answer->objective,
                      (json_int_t)result->n_chips, (json_int_t)n_of_kind[PZ_CHIP_EVALUATED],
                      (json_int_t)n_of_kind[PZ_CHIP_EXCLUDED_BY_SCHEDULES],
                      (json_int_t)n_of_kind[PZ_CHIP_EXCLUDED_BY_TABLES],
                      (json_int_t)answer->certificate.n_open, fmax(0, answer->certificate.gap));
    pz_dataset_append(call, rows, row);
  }
}

/* ---- sensitivity of the best chip ----------------------------------------------------------- */

/* Returns a value of an axis as a number, or as text if it is a name ("hbm3"). */
static json_t *axis_value_json(const char *text) {
  char *end;
  double value = strtod(text, &end);
  return end != text && !*end ? json_real(value) : json_string(text);
}

/* Appends the parts of each model's step on the changed chip, and what differs from the best. */
static void append_changed_parts(struct pz_call *call, const struct pz_answer *best,
                                 const struct pz_result_step *step, const char *parameter,
                                 json_t *rows) {
  for (uint32_t i = 0; i < step->n_models; i++) {
    const struct pz_step_answer *changed = &step->models[i];
    const struct pz_training_answer *on_best = best->models[i].training;
    for (size_t k = 0; pz_time_part_at(k); k++) {
      const struct pz_part_info *part = pz_time_part_at(k);
      double changed_s = pz_time_part(&changed->parts, part);
      double best_s = pz_time_part(&on_best->parts, part);
      bool negligible = !(fmax(changed_s, best_s) > 1e-9 * changed->step_s);
      if (negligible) continue;
      pz_dataset_add(call, rows, "[s,o,o,s,s,f,f,s]", parameter, axis_value_json(step->from),
                     axis_value_json(step->to), changed->model, part->label, changed_s,
                     (changed_s - best_s) / on_best->step_s, changed->plan);
    }
  }
}

/* Appends how the objective changes if a parameter of the best chip changes by one step. */
static void append_sensitivity(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *result = report->result;
  json_t *rows = pz_dataset_new(call, report->datasets, "sensitivity",
                                "parameter,unit,from,to,change,change_at_most,area_mm2,watts,"
                                "dollars,breaks,where,where_change");
  json_t *parts = NULL;
  if (result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING)
    parts = pz_dataset_new(call, report->datasets, "neighbours",
                           "parameter,from,to,model,term,seconds,change,plan");
  for (uint32_t i = 0; i < result->n_sensitivity; i++) {
    const struct pz_result_step *step = &result->sensitivity[i];
    const char *text = step->parameter, *unit = "";
    for (size_t k = 0; k < sizeof parameters / sizeof *parameters; k++) {
      if (strcmp(parameters[k].name, step->parameter) != 0) continue;
      text = parameters[k].text;
      unit = parameters[k].unit;
    }
    pz_dataset_add(call, rows, "[s,s,o,o,f,f,f,f,f,s?,s?,o]", text, unit,
                   axis_value_json(step->from), axis_value_json(step->to), step->change,
                   step->change_at_most, step->area_mm2, step->peak_watts, step->dollars,
                   step->breaks, step->where,
                   step->where ? json_real(step->where_change) : json_null());
    append_changed_parts(call, pz_result_best(result), step, text, parts);
  }
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* Appends an input and its formatted value. */
static void append_input(struct pz_call *call, json_t *rows, const char *input, const char *format,
                         ...) PZ_PRINTF(4, 5);

static void append_input(struct pz_call *call, json_t *rows, const char *input, const char *format,
                         ...) {
  va_list args;
  va_start(args, format);
  json_t *value = json_vsprintf(format, args);
  va_end(args);
  pz_dataset_add(call, rows, "[s,o]", input, value);
}

/* Returns the choices of an option, separated by commas. */
static const char *choices_text(struct pz_call *call, const struct pz_choices *choices) {
  struct pz_buffer *text = pz_buffer_new(call);
  pz_buffer_add(call, text, "", 0);
  for (int i = 0; i < choices->n; i++)
    pz_buffer_print(call, text, i ? ",%" PRId64 : "%" PRId64, choices->v[i]);
  return text->text;
}

/* Appends the inputs: the program, the models, the chips with their network, and the search. */
static void append_inputs(struct pz_call *call, struct pz_report *report) {
  const struct pz_result_inputs *inputs = &report->result->inputs;
  const struct pz_study_options *options = &inputs->options;
  uint32_t n_chips = report->result->n_chips;
  json_t *rows = pz_dataset_new(call, report->datasets, "inputs", "input,value");
  append_input(call, rows, "phaze", "version %s", pz_version());
  for (uint32_t i = 0; i < options->n_models; i++)
    append_input(call, rows, "model", "%s: %" PRId64 " tokens per sample, digest %s",
                 inputs->models[i].name, inputs->models[i].seq, inputs->models[i].digest);
  append_input(call, rows, "chips in the cluster", "%" PRId64, options->devices);
  append_input(call, rows, "global batch size", "%" PRId64 " sample%s", options->batch,
               pz_text_s((double)options->batch));
  if (options->limit_mm2 > 0)
    append_input(call, rows, "area budget", "%.3f mm²", options->limit_mm2);
  if (options->limit_watts > 0)
    append_input(call, rows, "limit of peak watts", "%.6g W", options->limit_watts);
  if (options->limit_dollars > 0)
    append_input(call, rows, "limit of price", "%.6g dollars", options->limit_dollars);
  if (options->evaluator == PZ_EVALUATOR_TRAINING) {
    append_input(call, rows, "design space", "%s: %s", inputs->space_name, inputs->space_about);
    append_input(call, rows, "network",
                 "the chip's links in groups of %" PRId64 ", %.4g GB/s of a device between them",
                 options->scale_up, options->outer_bytes_per_s / 1e9);
    append_input(call, rows, "operators of a layer", "%s",
                 options->serial ? "one after another" : "scheduled beside each other");
  } else {
    append_input(call, rows, "design space", "%s: %s (%u chip%s within the area budget)",
                 inputs->space_name, inputs->space_about, n_chips, pz_text_s(n_chips));
    append_input(call, rows, "network", "%s: %s", inputs->cluster_name, inputs->cluster_about);
    append_input(call, rows, "microbatch sizes considered", "%s",
                 choices_text(call, &options->mbs));
    append_input(call, rows, "tensor-parallel degrees considered", "%s",
                 choices_text(call, &options->tp));
    append_input(call, rows, "HBM capacities considered", "%s GiB",
                 choices_text(call, &options->hbm_gib));
    append_input(call, rows, "parameters, gradients and optimizer state",
                 "%g bytes per byte of parameters", options->state);
    append_input(call, rows, "step limit of a schedule solve", "%" PRId64, options->steps);
  }
  append_input(call, rows, "objective", "%s: %s", pz_objective_names[options->objective],
               pz_objective_unit(options->objective));
  append_input(call, rows, "search", "%s",
               options->exhaustive
                   ? "exhaustive: every chip evaluated"
                   : "chips excluded by upper bounds, of their own or of boxes of chips");
}

/* ---- the command line ----------------------------------------------------------------------- */

static const char unquoted_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/,:+";

/* Prints a space and a word, quoted for the shell if necessary. */
static void print_word(const char *word, FILE *out) {
  bool needs_quotes = !*word || word[strspn(word, unquoted_letters)];
  if (!needs_quotes) {
    fprintf(out, " %s", word);
    return;
  }
  fputs(" '", out);
  for (; *word; word++)
    if (*word == '\'')
      fputs("'\\''", out);
    else
      fputc(*word, out);
  fputc('\'', out);
}

/* Prints an option with a text, or nothing if the text is NULL. */
static void print_text_option(const char *option, const char *value, FILE *out) {
  if (!value) return;
  fprintf(out, " --%s", option);
  print_word(value, out);
}

/* Prints an option with an integer, or nothing if it has its default. */
static void print_int_option(const char *option, int64_t value, int64_t by_default, FILE *out) {
  if (value != by_default) fprintf(out, " --%s %" PRId64, option, value);
}

/* Prints an option with a list of integers, or nothing if it has its default. */
static void print_list_option(struct pz_call *call, const char *option,
                              const struct pz_choices *list, const struct pz_choices *standard,
                              FILE *out) {
  size_t bytes = (size_t)list->n * sizeof *list->v;
  bool same = list->n == standard->n && memcmp(list->v, standard->v, bytes) == 0;
  if (!same) fprintf(out, " --%s %s", option, choices_text(call, list));
}

/* Prints the command that repeats a study: the models and the options that differ from their
 * defaults.  It is 'phaze search', unless only 'phaze compare' can set the seed. */
static void print_command_line(struct pz_call *call, const struct pz_result_inputs *inputs,
                               uint64_t seed, FILE *out) {
  struct pz_study_options standard = pz_study_options_default();
  const struct pz_study_options *options = &inputs->options;
  const struct pz_workload_options *workload = &options->workload;
  fputs(seed == PZ_COMPARE_SEED ? "phaze search" : "phaze compare", out);
  for (uint32_t i = 0; i < options->n_models; i++) print_word(options->models[i], out);
  /* The default space 'paper' is omitted with its evaluator.  Other spaces may be files. */
  bool default_space = strcmp(inputs->space_name, "paper") == 0, preset = false;
  for (size_t i = 0; pz_space_preset_name(i); i++)
    if (strcmp(pz_space_preset_name(i), inputs->space_name) == 0) preset = true;
  char file[64];
  snprintf(file, sizeof file, preset ? "%s" : "%s.json", inputs->space_name);
  if (!default_space) print_text_option("space", file, out);
  if (options->limit_mm2 != inputs->base_mm2)
    fprintf(out, " --limit-mm2 %.17g", options->limit_mm2);
  if (options->limit_watts > 0) fprintf(out, " --limit-watts %.17g", options->limit_watts);
  if (options->limit_dollars > 0) fprintf(out, " --limit-dollars %.17g", options->limit_dollars);
  if (!default_space) fprintf(out, " --evaluator %s", pz_evaluator_names[options->evaluator]);
  if (strcmp(inputs->cluster_name, standard.cluster) != 0)
    print_text_option("cluster", inputs->cluster_name, out);
  print_int_option("devices", options->devices, standard.devices, out);
  print_int_option("batch", options->batch, standard.batch, out);
  print_int_option("seq", workload->seq, standard.workload.seq, out);
  for (int i = 0; i < PZ_MOST_DIMS && workload->dims[i]; i++)
    print_text_option("dim", workload->dims[i], out);
  print_text_option("batch-dim", workload->batch_dim, out);
  print_text_option("layers", workload->layers, out);
  if (workload->unknown_ops == PZ_UNKNOWN_VECTOR) fputs(" --unknown-ops vector", out);
  print_list_option(call, "mbs", &options->mbs, &standard.mbs, out);
  print_list_option(call, "hbm", &options->hbm_gib, &standard.hbm_gib, out);
  print_list_option(call, "tp", &options->tp, &standard.tp, out);
  if (options->objective != PZ_OBJECTIVE_GEOMEAN)
    fprintf(out, " --objective %s", pz_objective_names[options->objective]);
  if (options->objective == PZ_OBJECTIVE_WEIGHTED) {
    fputs(" --weights ", out);
    for (uint32_t i = 0; i < options->n_models; i++)
      fprintf(out, i ? ",%.17g" : "%.17g", options->weight[i]);
  }
  if (options->state < standard.state) fputs(" --optimizer sgd", out);
  print_int_option("steps", options->steps, standard.steps, out);
  if (options->exhaustive) fputs(" --exhaustive", out);
  if (options->assumptions) fputs(" --rules original", out);
  if (options->pareto) fputs(" --pareto", out);
  if (options->pareto && options->pareto_tolerance != standard.pareto_tolerance)
    fprintf(out, " --pareto-tolerance %.15g", 100 * options->pareto_tolerance);
  print_int_option("seed", (int64_t)seed, PZ_COMPARE_SEED, out);
  fputs(" -o DIR", out);
}

/* Adds the datasets of the run; those of a comparison only if the result has one. */
void pz_report_run(struct pz_call *call, struct pz_report *report) {
  const struct pz_comparison *comparison = report->result->comparison;
  if (comparison) append_objective_runs(call, report);
  append_sensitivity(call, report);
  append_inputs(call, report);
  if (!comparison) return;
  json_t *rows = pz_dataset_new(call, report->datasets, "command", "command");
  struct pz_buffer *command = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, command);
  print_command_line(call, &report->result->inputs, comparison->seed, out);
  pz_buffer_flush(call, out);
  pz_dataset_add(call, rows, "[s]", command->text);
}
