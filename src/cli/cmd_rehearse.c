/* phaze rehearse: prints the script that runs single ranks of a plan on one GPU, or compares the
 * results of that script with the prediction.
 *
 * rehearse() calls rehearse_plan(), which reads the plan and its machine and prints the script,
 * or reads the results, writes the corrected chip and prints the comparison.  The script and the
 * comparison are made by pz_rehearsal_script() and pz_rehearsal_read(). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

struct rehearse_settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, vocab;
  int framework;
  const char *set[PZ_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_MOST_SETS + 1];
  const char *results, *out;
};

#define SETTINGS struct rehearse_settings
#define AT(field) offsetof(SETTINGS, field)
static const SETTINGS defaults;
static const char *const frameworks[] = {"plan", "torchtitan", "megatron", NULL};

/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    PZ_CHOICE_OPTION("framework", AT(framework), frameworks, "Framework of PLAN; plan: as PLAN says"),
    PZ_TEXT_OPTION("results", AT(results), "FILE.csv", "Compare what the rehearsal of PLAN printed with the prediction"),
    PZ_TEXT_OPTION("output", AT(out), "CHIP.json", "With --results: write the chip with the measured factors of compute, which other commands accept as --chip", .letter = 'o'),
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    PZ_INT_OPTION("devices", AT(devices), "N", 1, 1 << 24, "Number of devices (default: as PLAN says)"),
    PZ_INT_OPTION("vocab", AT(vocab), "V", 1, 1 << 26, "Size of the vocabulary, before padding, where Megatron's arguments name a tokenizer alone"),
    PZ_TEXTS_OPTION("set", AT(set), "NAME=VALUE", PZ_MOST_SETS, "Value of a variable of the script, which the rehearsal exports too; may be given several times"),
    PZ_TEXTS_OPTION("ignore", AT(ignore), "NAME", PZ_MOST_SETS, "Leave out an argument or key of the run that is not covered in the prediction; may be given several times"),
};
/* clang-format on */

/* The plan to rehearse. */
struct rehearse_input {
  const SETTINGS *settings;
  struct pz_run_file file; /* plan file or launch script; the rehearsal runs the text of a script */
  const struct pz_machine *machine;
};

/* Reads the plan and opens its machine. */
static void read_input(struct pz_call *call, struct rehearse_input *input, const char *path) {
  const SETTINGS *settings = input->settings;
  bool quiet = settings->common.quiet;
  struct pz_run_plan_options options = pz_run_plan_options_default();
  options.vocab = settings->vocab;
  options.devices = settings->devices;
  options.set = settings->set;
  options.ignore = settings->ignore;
  struct pz_run_file file = pz_run_file_read(call, path, &options);
  if (settings->framework) {
    const char *asked_name = frameworks[settings->framework];
    int asked_framework = pz_framework_find(asked_name), plan_framework = file.run->plan.framework;
    if (plan_framework >= 0 && plan_framework != asked_framework)
      pz_raise(call, PZ_BAD_USE,
               "--framework %s, but %s is a plan of %s; accepted: a plan of this framework "
               "('phaze place --framework %s')",
               asked_name, file.name, pz_framework_names[plan_framework], asked_name);
    file.run->plan.framework = asked_framework;
  }
  pz_run_file_warn(quiet, file.run);
  input->file = file;
  input->machine = pz_machine_of_run(call, &settings->machine, file.name, quiet, file.run);
}

/* ---- the comparison as tables --------------------------------------------------------------- */

/* Prints a row for each measure of each rank: predicted, measured, the error of the prediction,
 * and the error of the corrected time.  A rank that failed has only the row of its reserved
 * memory. */
static void print_ranks(struct pz_call *call, const struct pz_rehearsal *rehearsal) {
  static const char *const labels[] = {"compute (s)", "between steps (GB)", "peak (GB)",
                                       "reserved (GB)"};
  struct pz_table *table =
      pz_table_new(call, ">rank|>stage|measure|>predicted|>measured|>error|>corrected");
  for (uint32_t n = 0; n < rehearsal->n_ranks; n++)
    for (int i = 0; i < PZ_REHEARSAL_MEASURES; i++) {
      const struct pz_rehearsed_rank *rank = &rehearsal->ranks[n];
      double measured = rank->measured[i], predicted = rank->predicted[i];
      bool has_results = rank->status == PZ_RANK_OK, is_time = i == PZ_REHEARSAL_COMPUTE;
      double unit = is_time ? 1 : 1e9;
      if (!has_results && i != PZ_REHEARSAL_RESERVED) continue;
      pz_table_cells(table, "%" PRId64 "|%" PRId64 "|%s", rank->rank, rank->stage + 1, labels[i]);
      pz_table_cell(table, is_time ? "%.4g" : "%.1f", predicted / unit);
      if (measured > 0)
        pz_table_cell(table, is_time ? "%.4g" : "%.1f", measured / unit);
      else
        pz_table_cell(table, "%s", rank->status == PZ_RANK_OOM ? "out of memory" : "failed");
      pz_table_known(table, has_results, "%+.1f%%", 100 * (predicted / measured - 1));
      pz_table_known(table, is_time && rank->corrected_s > 0, "%+.1f%%",
                     100 * (rank->corrected_s / measured - 1));
    }
  pz_table_print(table, 0, stdout);
}

/* Prints whether the plan fits in memory, with the numbers of the tightest rank. */
static void print_fit(const struct pz_rehearsal *rehearsal) {
  const struct pz_rehearsed_rank *tightest = NULL;
  double least_spare_bytes = 0; /* spare memory of the tightest rank */
  putchar('\n');
  for (uint32_t i = 0; i < rehearsal->n_ranks; i++) {
    const struct pz_rehearsed_rank *rank = &rehearsal->ranks[i];
    double spare_bytes = rank->usable_bytes - rank->needed_bytes;
    if (rank->status == PZ_RANK_OOM)
      printf("the plan does not fit: rank %" PRId64 " ran out of memory\n", rank->rank);
    if (rank->status != PZ_RANK_OK) continue;
    if (tightest && !(spare_bytes < least_spare_bytes)) continue;
    tightest = rank;
    least_spare_bytes = spare_bytes;
  }
  if (!tightest) return;
  double spare_gb = rehearsal->spare_bytes / 1e9;
  bool lacking = spare_gb < 0;
  const char *verdict = "the ranks that ran fit, but not all that decide were measured";
  if (lacking)
    verdict = "the plan does not fit";
  else if (!rehearsal->fits)
    verdict = "the other ranks fit";
  else if (rehearsal->complete)
    verdict = "the plan fits";
  printf("%s: rank %" PRId64 " reserves %.1f GB of %.1f GB usable, %.1f GB %s\n", verdict,
         tightest->rank, tightest->needed_bytes / 1e9, tightest->usable_bytes / 1e9,
         lacking ? -spare_gb : spare_gb, lacking ? "too much" : "to spare");
  double excess_bytes =
      tightest->measured[PZ_REHEARSAL_RESERVED] - tightest->predicted[PZ_REHEARSAL_RESERVED];
  if (excess_bytes > 0) printf("that is %.1f GB more than predicted\n", excess_bytes / 1e9);
}

/* Prints the question, the measures of every rank, the fit in memory, and the corrected step. */
static void print_results(struct pz_call *call, const struct rehearse_input *input,
                          const struct pz_rehearsal *rehearsal) {
  const struct pz_run_plan *run = input->file.run;
  char text[700];
  snprintf(text, sizeof text,
           "%.200s on %" PRId64
           " x %s: %u rank%s rehearsed with %s %.60s, PyTorch %.60s, on one %.100s",
           run->model, run->plan.devices, input->machine->chip.name, rehearsal->n_ranks,
           pz_text_s(rehearsal->n_ranks), rehearsal->framework, rehearsal->version,
           rehearsal->torch, rehearsal->device);
  printf("%s\n\n", pz_text_plain(text));
  print_ranks(call, rehearsal);
  print_fit(rehearsal);
  if (rehearsal->chip) {
    pz_machine_show_factors(call, rehearsal->factors, rehearsal->n_factors);
    printf("\nstep with network and pipeline: %.4g s predicted, %.4g s with the measured compute\n",
           rehearsal->p.step_s, rehearsal->corrected.step_s);
  }
  for (uint32_t i = 0; i < rehearsal->n_notes; i++)
    printf("%snote: %s\n", i ? "" : "\n",
           pz_text_plain(pz_text_copy(text, sizeof text, rehearsal->notes[i])));
}

/* ---- the command ---------------------------------------------------------------------------- */

struct rehearse_work {
  struct rehearse_input input;
  const char *path;
  bool fits; /* whether the plan fits by the measurements */
};

/* Prints the script, or compares the results of an earlier run of it. */
static void rehearse_plan(struct pz_call *call, void *ctx) {
  struct rehearse_work *work = ctx;
  struct rehearse_input *input = &work->input;
  const SETTINGS *settings = input->settings;
  read_input(call, input, work->path);
  struct pz_diff_side side = {.size = sizeof side,
                              .run = input->file.run,
                              .chip = &input->machine->chip,
                              .net = input->machine->net};
  if (!settings->results) {
    char *script = NULL;
    pz_must(call, pz_rehearsal_script(&side, input->file.text, settings->set, &script,
                                      pz_call_error(call)));
    pz_defer(call, pz_free, script);
    fputs(script, stdout);
    return;
  }
  struct pz_rehearsal *rehearsal = NULL;
  size_t bytes = 0;
  const char *text = pz_file_text(call, settings->results, PZ_REHEARSAL_MOST_BYTES, &bytes);
  pz_must(call, pz_rehearsal_read(&side, settings->results, text, bytes, &rehearsal,
                                  pz_call_error(call)));
  pz_defer(call, pz_object_free, rehearsal);
  if (settings->out) {
    /* Writes the chip with the measured factors, unless that would overwrite an input. */
    const struct pz_chip *chip = rehearsal->chip;
    const char *path = input->settings->out, *results = input->settings->results;
    const struct pz_run_plan *run = input->file.run;
    const char *inputs[4] = {results, input->file.name};
    size_t n = 2;
    if (run->chip && pz_file_named(run->chip)) inputs[n++] = run->chip;
    if (run->cluster && pz_file_named(run->cluster)) inputs[n++] = run->cluster;
    if (!chip)
      pz_raise(call, PZ_NO_ANSWER, "%s: no rank ran to its end: nothing to write to %s", results,
               path);
    pz_file_require_output(call, path, inputs, n);
    pz_machine_save_chip(call, chip, path);
  }
  const struct pz_rehearsal_answer answer = {
      .model = input->file.run->model,
      .chip = input->machine->chip.name,
      .corrected_step_s = rehearsal->chip ? rehearsal->corrected.step_s : (double)NAN,
      .found = rehearsal};
  if (settings->common.json)
    pz_command_print_json(call, pz_record_json(&pz_rehearsal_record, &answer));
  else
    print_results(call, input, rehearsal);
  work->fits = rehearsal->fits;
}

/* Runs rehearse_plan() under a border of its own, so that every error about the input can be given
 * the name of the plan or of the results. */
static void rehearse(struct pz_call *call, struct pz_invocation *invocation) {
  SETTINGS settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *results = settings.results;
  if (!results && settings.out)
    pz_command_refuse(call, invocation, "-o requires --results FILE.csv");
  if (!results && settings.common.json)
    pz_command_refuse(call, invocation, "--json requires --results FILE.csv");
  struct rehearse_work work = {
      .input = {.settings = &settings}, .path = invocation->args[0], .fits = true};
  struct pz_error why = {0};
  if (pz_border(rehearse_plan, &work, &why) != PZ_OK) {
    bool about_results = results && strstr(why.message, results);
    const char *plan_name = strcmp(work.path, "-") == 0 ? "standard input" : work.path;
    pz_command_raise_about(call, about_results ? results : plan_name, &why);
  }
  if (!work.fits) invocation->exit = PZ_EXIT_NO_ANSWER;
}

const struct pz_command pz_cmd_rehearse = {
    .name = "rehearse",
    .synopsis = "PLAN [--chip CHIP] [--cluster NET] [--results FILE.csv [-o CHIP.json]]",
    .summary = "Measure single ranks of a training plan on one GPU, before the cluster is paid for",
    .detail =
        "PLAN is the JSON of 'phaze place' or 'phaze predict', or a launch script, for\n"
        "torchtitan or Megatron-LM; - is standard input. Without --results a bash script is\n"
        "printed. On one GPU it runs the ranks that decide, one after another, each alone: the\n"
        "first stage, the last one, and the one with the most memory. Weights, kernels and the\n"
        "allocator are real; collectives complete at once. It prints a line of CSV for each\n"
        "rank.\n"
        "\n"
        "With --results, memory and compute are compared with the prediction, and the step is\n"
        "predicted again with the measured compute. The exit status is 1 if the plan does not\n"
        "fit. A rank that ran out of memory is a result.\n"
        "\n"
        "Examples:\n"
        "  phaze place llama3-70b --chip h200 --devices 64 --framework torchtitan --json "
        ">plan.json\n"
        "  phaze rehearse plan.json >rehearsal.sh\n"
        "  TORCHTITAN_PATH=~/torchtitan bash rehearsal.sh >results.csv\n"
        "  phaze rehearse plan.json --results results.csv -o mine.json\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "PLAN",
    .body = rehearse,
};
