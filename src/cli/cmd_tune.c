/* phaze tune: reads the training run of a user, predicts it, and searches for faster plans.
 *
 * tune() reads the run, opens its machine, has the library find the prediction, the best plan
 * and the single changes, and prints them as tables or with print_answer_json(). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/alloc.h"
#include "report/records.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, vocab, threads;
  double measured_s, seconds;
  const char *set[PZ_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_MOST_SETS + 1];
};

#define SETTINGS struct settings
#define AT(field) offsetof(SETTINGS, field)
static const SETTINGS defaults = {.seconds = PZ_PLAN_SECONDS};

/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    PZ_INT_OPTION("devices", AT(devices), "N", 1, 1 << 24, "Number of devices (default: as the file says)"),
    PZ_INT_OPTION("vocab", AT(vocab), "V", 1, 1 << 26, "Size of the vocabulary, before padding, where Megatron's arguments name a tokenizer alone"),
    PZ_TEXTS_OPTION("set", AT(set), "NAME=VALUE", PZ_MOST_SETS, "Value of a variable of the script; may be given several times"),
    PZ_TEXTS_OPTION("ignore", AT(ignore), "NAME", PZ_MOST_SETS, "Leave out an argument or key of the run that is not covered, and predict the run without it; may be given several times"),
    PZ_REAL_OPTION("measured-s", AT(measured_s), "S", 1e-9, 1e9, "Measured seconds per step, to compare the prediction with and to correct all times by (default: of a log what it shows)"),
    PZ_INT_OPTION("threads", AT(threads), "T", 0, 1024, "Number of threads (default: 0, one per processor)"),
    PZ_REAL_OPTION("seconds", AT(seconds), "S", 0, 1e9, "End the searches for the best plan after so many seconds, with the best so far and its gap (default: 300; 0: never)"),
};
/* clang-format on */

enum { MOST_CHANGES = 8 }; /* largest number of single changes to print */

/* A training run that was read, and how it can be made faster. */
struct tuned_run {
  struct pz_run_plan *run;
  const struct pz_plan_tuning *tuning;
  double measured_s; /* measured seconds per step, or 0 if unknown */
};

/* ---- the run and its prediction ------------------------------------------------------------- */

/* Prints the fields of the run with their origins, its prediction, and the parts of its step. */
static void print_prediction(struct pz_call *call, const struct tuned_run *tuned) {
  const struct pz_plan_tuning *tuning = tuned->tuning;
  const struct pz_prediction *prediction = &tuning->own.p;
  double measured_s = tuned->measured_s, predicted_s = tuning->uncorrected_s;
  struct pz_table *fields = pz_table_new(call, "run|value|from");
  for (uint32_t i = 0; i < tuning->n_fields; i++) {
    const struct pz_field_origin *field = &tuning->fields[i];
    if (field->shown) pz_table_cells(fields, "%s|%s|%s", field->name, field->value, field->from);
  }
  pz_table_print(fields, 0, stdout);
  printf("\n%s: %.4g s per step, MFU %.1f%% (conventional %.1f%%), %.4g tokens/s per device\n",
         measured_s > 0 ? "corrected" : "predicted", prediction->step_s, 100 * prediction->mfu,
         100 * prediction->mfu_conventional, prediction->tokens_per_s_per_device);
  /* All times are corrected by a measured step, so the error expected of other runs is not
   * shown. */
  if (measured_s > 0) {
    bool too_long = predicted_s > measured_s;
    double error = too_long ? predicted_s / measured_s - 1 : 1 - predicted_s / measured_s;
    printf("measured: %.4g s per step, where %.4g s are predicted, %.1f%% too %s; all times here "
           "are corrected by it\n",
           measured_s, predicted_s, 100 * error, too_long ? "long" : "short");
  } else {
    pz_predict_print_expected(&tuning->own.expected, prediction->step_s);
  }
  printf("memory: %s, ", tuning->fits ? "fits" : "does not fit");
  pz_predict_print_reserved(&tuning->own);
  if (prediction->host_bytes > 0)
    printf("on the host: %.1f of %.1f GB usable for each device\n", prediction->host_bytes / 1e9,
           prediction->usable_host_bytes / 1e9);
  putchar('\n');
  struct pz_table *table = pz_table_new(call, "part of the step|>seconds|>share");
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    double part_s = pz_time_part(&prediction->parts, part);
    bool negligible = !(part_s > 1e-4 * prediction->step_s);
    if (negligible) continue;
    pz_table_cells(table, "%s|%.4g|%.1f%%", pz_time_part_label(prediction, part), part_s,
                   100 * part_s / prediction->step_s);
  }
  pz_table_print(table, 0, stdout);
}

/* ---- other plans ---------------------------------------------------------------------------- */

/* Prints the best plan that was found and its change of the run, as arguments of Megatron-LM or as
 * options of phaze; or prints that no plan is faster than the run. */
static void print_best(const struct tuned_run *tuned, const char *title,
                       const struct pz_plan_change *best) {
  const struct pz_plan_tuning *tuning = tuned->tuning;
  const char *text = tuned->run->megatron ? best->megatron : best->options;
  char line[PZ_PLAN_LINE_MOST];
  if (tuning->fits && best->gain <= 0) {
    bool faster_change = tuning->n_changes && tuning->changes[0].gain > 0;
    printf("\n%s: none %sis faster than the run\n", title,
           faster_change ? "of those searched, which fill whole nodes, " : "");
    return;
  }
  printf("\n%s: %.4g s per step (%+.1f%%), MFU %.1f%%, %.1f GB\n", title, best->p.step_s,
         -100 * best->gain, 100 * best->p.mfu, best->p.peak_bytes / 1e9);
  printf("  %s", pz_plan_line(&best->plan, true, line, sizeof line));
  printf("\n  %s\n", *text ? text : "no change");
}

/* Prints the best plan, also with every overlap turned on, and the certificate of the search. */
static void print_best_plans(const struct tuned_run *tuned) {
  static const char title[] = "best plan for the same devices and batch";
  const struct pz_plan_tuning *tuning = tuned->tuning;
  const struct pz_plan_certificate *proof = &tuning->certificate;
  if (tuning->why)
    printf("\n%s: %s\n", title, tuning->why);
  else if (!tuning->has_best)
    printf("\n%s: none fits in memory; the smallest holds %.1f GB\n", title,
           tuning->least_bytes / 1e9);
  else
    print_best(tuned, title, &tuning->best);
  bool overlaps_help =
      tuning->has_overlapped &&
      (!tuning->has_best || tuning->overlapped.p.step_s < tuning->best.p.step_s * 0.999);
  if (overlaps_help)
    print_best(tuned, "best plan with every overlap turned on", &tuning->overlapped);
  if (tuning->why) return;
  if (tuning->has_overlapped && !overlaps_help) printf("  other overlaps make it no faster\n");
  printf("  of %" PRIu64 " plans: %" PRIu64 " simulated, %" PRIu64 " excluded by a bound, %" PRIu64
         " by memory",
         proof->plans, proof->solved, proof->by_bound, proof->by_memory);
  if (tuning->stopped) printf("; the best so far, gap %.3g%%", 100 * proof->gap);
  putchar('\n');
}

/* Prints the single changes of the run that save most time, or that none helps. */
static void print_changes(struct pz_call *call, const struct tuned_run *tuned) {
  const struct pz_plan_tuning *tuning = tuned->tuning;
  if (!tuning->n_changes) {
    printf("\nno single change that fits in memory %s (%u tried)\n",
           tuning->fits ? "is faster" : "was found", tuning->n_tried);
    return;
  }
  struct pz_table *table = pz_table_new(call, "single change|>s per step|>time|>GB");
  for (uint32_t i = 0; i < tuning->n_changes && i < MOST_CHANGES; i++) {
    const struct pz_plan_change *change = &tuning->changes[i];
    pz_table_cells(table, "%s|%.4g|%+.1f%%|%.1f",
                   tuned->run->megatron ? change->megatron : change->options, change->p.step_s,
                   -100 * change->gain, change->p.peak_bytes / 1e9);
  }
  putchar('\n');
  pz_table_print(table, 0, stdout);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Returns the run with another plan as the JSON of a plan file, which the call owns. */
static json_t *run_json(struct pz_call *call, const struct tuned_run *tuned,
                        const struct pz_plan *plan) {
  struct pz_run_plan run = *tuned->run;
  char *text = NULL;
  run.plan = *plan;
  pz_must(call, pz_run_plan_text(&run, &text, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  return pz_json_read(call, "plan", text, strlen(text));
}

/* Returns a change with the name of its field and the plan file of the changed run. */
static struct pz_tuned_change tuned_change(struct pz_call *call, const struct tuned_run *tuned,
                                           const struct pz_plan_change *change) {
  return (struct pz_tuned_change){.field = pz_plan_field_name(change->field),
                                  .change = change,
                                  .plan = run_json(call, tuned, &change->plan)};
}

/* Prints the answer as JSON; each plan is also a plan file, which other commands read. */
static void print_answer_json(struct pz_call *call, const struct tuned_run *tuned) {
  const struct pz_plan_tuning *tuning = tuned->tuning;
  struct pz_tuned_change best, overlapped, changes[MOST_CHANGES];
  const struct pz_measured_step measured = {tuned->measured_s, tuning->uncorrected_s,
                                            tuning->uncorrected_s / tuned->measured_s - 1};
  struct pz_tune_answer answer = {.tuning = tuning,
                                  .run = tuned->run,
                                  .run_plan = run_json(call, tuned, &tuning->own.plan),
                                  .measured = tuned->measured_s > 0 ? &measured : NULL,
                                  .changes = changes};
  if (tuning->has_best) {
    best = tuned_change(call, tuned, &tuning->best);
    answer.best = &best;
  }
  if (tuning->has_overlapped) {
    overlapped = tuned_change(call, tuned, &tuning->overlapped);
    answer.overlapped = &overlapped;
  }
  for (uint32_t i = 0; i < tuning->n_changes && i < MOST_CHANGES; i++)
    changes[answer.n_changes++] = tuned_change(call, tuned, &tuning->changes[i]);
  pz_command_print_json(call, pz_record_json(&pz_tune_answer_record, &answer));
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Reads and predicts the run, searches for faster plans, and prints them. */
static void tune(struct pz_call *call, struct pz_invocation *invocation) {
  SETTINGS settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  bool quiet = settings.common.quiet;
  const atomic_bool *stop = pz_command_listen();
  struct pz_run_plan_options read_options = pz_run_plan_options_default();
  read_options.vocab = settings.vocab;
  read_options.devices = settings.devices;
  read_options.set = settings.set;
  read_options.ignore = settings.ignore;
  struct pz_run_file file = pz_run_file_read(call, invocation->args[0], &read_options);
  struct tuned_run tuned = {.run = file.run,
                            .measured_s = settings.measured_s > 0 ? settings.measured_s
                                                                  : file.run->measured_s};
  pz_run_file_warn(quiet, file.run);
  struct pz_machine *machine =
      pz_machine_of_run(call, &settings.machine, file.name, quiet, file.run);

  struct pz_tune_options tune_options = pz_tune_options_default();
  struct pz_progress progress;
  struct pz_error why = {0};
  struct pz_plan_tuning *tuning = NULL;
  tune_options.threads = (unsigned)settings.threads;
  tune_options.measured_s = tuned.measured_s;
  tune_options.seconds = settings.seconds;
  tune_options.progress = pz_command_progress;
  tune_options.ctx = &progress;
  pz_command_progress_start(&progress, quiet, false);
  if (pz_plan_tune(file.run, &machine->chip, machine->net, &tune_options, &tuning, &why) != PZ_OK)
    pz_command_raise_about(call, file.name, &why);
  pz_defer(call, pz_object_free, tuning);
  tuned.tuning = tuning;

  if (tuning->own.refusal[0]) pz_command_warn(quiet, tuning->own.refusal);
  if (settings.common.json) {
    print_answer_json(call, &tuned);
  } else {
    print_prediction(call, &tuned);
    print_best_plans(&tuned);
    print_changes(call, &tuned);
  }
  bool any_fits = tuning->fits || tuning->has_best || tuning->n_changes;
  if (!any_fits)
    pz_raise(call, PZ_NO_ANSWER,
             "the run does not fit in memory, and no plan on its %lld devices does: %.1f GB "
             "needed, %.1f GB usable",
             (long long)tuning->own.plan.devices, tuning->least_bytes / 1e9,
             tuning->limit_bytes / 1e9);
  if (atomic_load(stop)) invocation->exit = PZ_EXIT_STOPPED;
}

const struct pz_command pz_cmd_tune = {
    .name = "tune",
    .synopsis = "FILE [--chip CHIP] [--cluster NET] [options]",
    .summary = "Show what would make a training run faster: the best plan, and single changes",
    .detail =
        "FILE is a launch script or list of arguments of Megatron-LM (pretrain_gpt.py), "
        "torchtitan's\n"
        "configuration (TOML), a script that '--emit' writes for any framework, or a plan as JSON\n"
        "with the names that 'phaze predict --json' prints; - is standard input. Shown are\n"
        "the run as it was read, its prediction, the best plan for the same devices and batch, "
        "and\n"
        "the single changes that bring most, with the arguments to change. FILE is never written.\n"
        "\n"
        "Examples:\n"
        "  phaze tune pretrain_llama.sh --chip h100 --cluster dgx-h100 --vocab 128256\n"
        "  phaze tune llama3_70b.toml --chip h100 --devices 256\n"
        "  phaze tune plan.json --measured-s 12.4\n"
        "  phaze tune - --chip a100-80 --cluster dgx-a100 --devices 64 < arguments.txt\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "FILE",
    .body = tune,
};
