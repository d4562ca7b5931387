/* phaze validate: compares predictions with measurements, prints the errors and writes them to
 * files, and checks the limits that they must keep. */
#include <string.h>

#include "cli/command.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "report/validation_table.h"

enum { MOST_TABLES = 16 };

struct settings {
  struct pz_common common;
  const char *runs[MOST_TABLES + 1]; /* ends with NULL */
  const char *ops, *beside, *chip, *limits, *csv, *report, *write_limits, *write_expected;
  bool rows, cold, features;
  int64_t threads;
};

static const struct settings defaults;

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_TEXTS_OPTION("runs", AT(runs), "FILE.csv", MOST_TABLES, "Validate this table of training runs instead of the built-in data (columns as for predict --runs); may be given again"),
    PZ_TEXT_OPTION("ops", AT(ops), "FILE|DIR", "Validate this table of operators: columns as for estimate --ops, and kernel_us, measured on --chip; or those of AIConfigurator's collectors; or all such tables (.csv, _perf.txt) of a directory"),
    PZ_TEXT_OPTION("beside", AT(beside), "FILE.csv", "Validate this table of kernels measured on --chip alone and beside communication (columns compute, m, n, k, beside, sms, compute_alone_us, compute_together_us)"),
    PZ_TEXT_OPTION("chip", AT(chip), "CHIP", "Chip of --beside, and of rows of --ops that name no chip or this one: a preset or the path of a chip.json (default: h200)"),
    PZ_TEXT_OPTION("limits", AT(limits), "FILE.csv|builtin-ops", "Limits to check (columns group, mean_error, memory_error, not_predicted, rank_correlation, regret); the built-in data have their own; builtin-ops, with --ops: those of operators by chip and kind, for groups of 20 rows or more"),
    PZ_FLAG_OPTION("cold", AT(cold), "Predict training runs by the data sheets of their chips alone: nothing that was measured on a chip is used (errors by chip, and with constants that were fitted on other families of chips)"),
    PZ_FLAG_OPTION("rows", AT(rows), "Show every row, not groups; with --csv and --json too"),
    PZ_FLAG_OPTION("features", AT(features), "Show the errors of training runs by what their plans have (expert parallelism, ZeRO-3, fp8 ...): what each adds to the error that is printed with predictions, how wide the interval is, and the part of the runs within it"),
    PZ_TEXT_OPTION("csv", AT(csv), "OUT.csv", "Write the errors by group to this file"),
    PZ_TEXT_OPTION("report", AT(report), "PAGE.html", "Write predicted against measured, one point a row, as one self-contained HTML page"),
    PZ_TEXT_OPTION("write-limits", AT(write_limits), "OUT.csv", "Write limits that hold now, with a little to spare, to this file"),
    PZ_TEXT_OPTION("write-expected", AT(write_expected), "OUT.csv", "Write the errors of training runs by their features (chip line, layers, precision, framework, ...), which predictions are shown with, to this file"),
    PZ_INT_OPTION("threads", AT(threads), "T", 0, 1024, "Number of threads (default: 0, one per processor)"),
};
/* clang-format on */

/* ---- output --------------------------------------------------------------------------------- */

/* Prints the validation as tables, or in the form that --json, --rows and --features ask for. */
static void print_validation(struct pz_call *call, const struct settings *settings,
                             const struct pz_validation *validation) {
  if (!settings->common.json && !settings->features) {
    pz_validation_tables(call, validation, settings->rows, stdout);
    return;
  }
  enum pz_validation_form form = PZ_VALIDATION_JSON;
  if (settings->rows) form = PZ_VALIDATION_JSON_ROWS;
  if (settings->features) form = PZ_VALIDATION_FEATURES;
  char *text = NULL;
  size_t bytes = 0;
  pz_must(call, pz_validation_text(validation, form, &text, &bytes, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  fputs(text, stdout);
}

/* ---- checks and warnings -------------------------------------------------------------------- */

/* Checks that no output would overwrite a file that is read. */
static void check_outputs(struct pz_call *call, const struct settings *settings) {
  const char *const outputs[] = {settings->csv, settings->report, settings->write_limits,
                                 settings->write_expected};
  bool chip_file = settings->chip && pz_file_named(settings->chip);
  const char *const other_inputs[] = {settings->beside, settings->limits,
                                      chip_file ? settings->chip : NULL};
  const char *const *tables = settings->ops ? pz_csv_list(call, settings->ops) : NULL;
  struct pz_vec inputs;
  pz_vec_init(&inputs, call->arena, sizeof(const char *));
  for (; tables && *tables; tables++) pz_append(call, &inputs, tables);
  for (int i = 0; settings->runs[i]; i++) pz_append(call, &inputs, &settings->runs[i]);
  for (size_t i = 0; i < sizeof other_inputs / sizeof *other_inputs; i++)
    if (other_inputs[i]) pz_append(call, &inputs, &other_inputs[i]);
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    if (outputs[i]) pz_file_require_output(call, outputs[i], inputs.items, inputs.n);
}

/* Warns about a --chip that no row uses, if it is the default chip.  pz_validate() has a note
 * about other chips, but cannot know that the default was given. */
static void warn_about_unused_chip(const struct settings *settings,
                                   const struct pz_validation *validation,
                                   const char *default_chip) {
  if (!settings->ops || !settings->chip || strcmp(settings->chip, default_chip) != 0) return;
  for (uint32_t i = 0; i < validation->n_points; i++) {
    const struct pz_validation_point *point = &validation->points[i];
    bool predicted = point->kind == PZ_POINT_OPERATOR && !*point->reason;
    if (predicted && strcmp(point->chip, default_chip) == 0) return;
  }
  char text[300];
  snprintf(text, sizeof text,
           "%.200s: no predicted row is of chip %s; rows are predicted with the presets they name",
           settings->ops, default_chip);
  pz_command_warn(settings->common.quiet, text);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Validates predictions, writes the files and tables, and raises an error if a limit is broken. */
static void validate(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  struct pz_validation *validation = NULL;
  if (!pz_command_options(call, invocation, &settings)) return;
  bool quiet = settings.common.quiet;
  bool limits_of_ops = settings.limits && strcmp(settings.limits, PZ_LIMITS_OPS) == 0;
  if (limits_of_ops && !settings.ops)
    pz_command_refuse(call, invocation, "--limits " PZ_LIMITS_OPS " needs --ops");
  if (settings.cold && (settings.ops || settings.beside))
    pz_command_refuse(call, invocation, "--cold is of training runs: without --ops and --beside");
  if (settings.features && (settings.common.json || settings.rows))
    pz_command_refuse(call, invocation, "--features cannot be combined with --json or --rows");
  struct pz_validate_options options = pz_validate_options_default();
  const char *default_chip = options.chip;
  options.runs = settings.runs;
  options.ops = settings.ops;
  options.beside = settings.beside;
  if (settings.chip) options.chip = settings.chip;
  options.limits = settings.limits;
  options.cold = settings.cold;
  options.threads = (unsigned)settings.threads;
  check_outputs(call, &settings);
  pz_must(call, pz_validate(&options, &validation, pz_call_error(call)));
  pz_defer(call, pz_object_free, validation);
  for (uint32_t i = 0; i < validation->n_notes; i++) pz_command_warn(quiet, validation->notes[i]);
  warn_about_unused_chip(&settings, validation, default_chip);
  if (limits_of_ops && validation->n_limits == 0)
    pz_command_warn(quiet, "no limit of " PZ_LIMITS_OPS
                           " is of a group with 20 rows or more: none is checked");
  const struct {
    const char *path;
    enum pz_validation_form form;
  } files[] = {{settings.csv, settings.rows ? PZ_VALIDATION_ROWS : PZ_VALIDATION_GROUPS},
               {settings.report, PZ_VALIDATION_PAGE},
               {settings.write_limits, PZ_VALIDATION_LIMITS},
               {settings.write_expected, PZ_VALIDATION_EXPECTED}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char *text = NULL;
    size_t bytes = 0;
    if (!files[i].path) continue;
    pz_must(call,
            pz_validation_text(validation, files[i].form, &text, &bytes, pz_call_error(call)));
    pz_command_save_text(call, files[i].path, text);
  }
  print_validation(call, &settings, validation);
  for (uint32_t i = 0; i < validation->n_broken; i++) {
    char limit[300];
    fprintf(stderr, "phaze validate: %s\n",
            pz_broken_limit_text(&validation->broken[i], limit, sizeof limit));
  }
  if (validation->n_broken)
    pz_raise(call, PZ_NO_ANSWER, "%u limit%s broken", validation->n_broken,
             validation->n_broken == 1 ? " is" : "s are");
}

const struct pz_command pz_cmd_validate = {
    .name = "validate",
    .synopsis = "[--runs FILE.csv]... [--ops FILE|DIR] [--beside FILE.csv] [--limits "
                "FILE.csv|builtin-ops] [--cold] [--rows] "
                "[--csv OUT.csv] [--report PAGE.html]",
    .summary = "Compare predictions with measured operators and training runs",
    .detail =
        "The built-in data are operators and steps of an H200 and published training runs.\n"
        "Errors are predicted over measured minus 1. For questions with three or more plans\n"
        "it shows how well predictions order them: the rank correlation, and the regret,\n"
        "the time lost by using the plan that is predicted fastest. Exit status 1: a group is\n"
        "worse than its limit.\n"
        "\n"
        "Examples:\n"
        "  phaze validate\n"
        "  phaze validate --runs runs.csv --rows\n"
        "  phaze validate --cold\n"
        "  phaze validate --ops collected/ --csv errors.csv\n"
        "  phaze validate --report validation.html\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .body = validate,
};
