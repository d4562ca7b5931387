/* phaze validate: compares predictions with measurements, prints the errors and writes them to files, and checks the limits
 * that they must keep. */
#include <string.h>

#include "cli/command.h"
#include "cli/owned.h"
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
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "runs", .type = PZ_OPTION_TEXTS, .offset = AT(runs), .arg = "FILE.csv", .max = MOST_TABLES, .help = "Validate this table of training runs instead of the built-in data (columns as for predict --runs); may be given again"},
    {.name = "ops", .type = PZ_OPTION_TEXT, .offset = AT(ops), .arg = "FILE|DIR", .help = "Validate this table of operators: columns as for estimate --ops, and kernel_us, measured on --chip; or those of AIConfigurator's collectors; or all such tables (.csv, _perf.txt) of a directory"},
    {.name = "beside", .type = PZ_OPTION_TEXT, .offset = AT(beside), .arg = "FILE.csv", .help = "Validate this table of kernels measured on --chip alone and beside communication (columns compute, m, n, k, beside, sms, compute_alone_us, compute_together_us)"},
    {.name = "chip", .type = PZ_OPTION_TEXT, .offset = AT(chip), .arg = "CHIP", .help = "Chip of --beside, and of rows of --ops that name no chip or this one: a preset or the path of a chip.json (default: h200)"},
    {.name = "limits", .type = PZ_OPTION_TEXT, .offset = AT(limits), .arg = "FILE.csv|builtin-ops", .help = "Limits to check (columns group, mean_error, memory_error, not_predicted, rank_correlation, regret); the built-in data have their own; builtin-ops, with --ops: those of operators by chip and kind, for groups of 20 rows or more"},
    {.name = "cold", .type = PZ_OPTION_FLAG, .offset = AT(cold), .help = "Predict training runs by the data sheets of their chips alone: nothing that was measured on a chip is used (errors by chip, and with constants that were fitted on other families of chips)"},
    {.name = "rows", .type = PZ_OPTION_FLAG, .offset = AT(rows), .help = "Show every row, not groups; with --csv and --json too"},
    {.name = "features", .type = PZ_OPTION_FLAG, .offset = AT(features), .help = "Show the errors of training runs by what their plans have (expert parallelism, ZeRO-3, fp8 ...): what each adds to the error that is printed with predictions, how wide the interval is, and the part of the runs within it"},
    {.name = "csv", .type = PZ_OPTION_TEXT, .offset = AT(csv), .arg = "OUT.csv", .help = "Write the errors by group to this file"},
    {.name = "report", .type = PZ_OPTION_TEXT, .offset = AT(report), .arg = "PAGE.html", .help = "Write predicted against measured, one point a row, as one self-contained HTML page"},
    {.name = "write-limits", .type = PZ_OPTION_TEXT, .offset = AT(write_limits), .arg = "OUT.csv", .help = "Write limits that hold now, with a little to spare, to this file"},
    {.name = "write-expected", .type = PZ_OPTION_TEXT, .offset = AT(write_expected), .arg = "OUT.csv", .help = "Write the errors of training runs by their features (chip line, layers, precision, framework, ...), which predictions are shown with, to this file"},
    {.name = "threads", .type = PZ_OPTION_INT, .offset = AT(threads), .arg = "T", .min = 0, .max = 1024, .help = "Number of threads (default: 0, one per processor)"},
};
/* clang-format on */

/* ---- output --------------------------------------------------------------------------------- */

static char *validation_text(struct pz_call *call, const struct pz_validation *v,
                             enum pz_validation_form form) {
  char *text = NULL;
  size_t bytes = 0;
  pz_must(call, pz_validation_text(v, form, &text, &bytes, pz_call_error(call)));
  return text;
}

static void write_files(struct pz_call *call, const struct settings *s,
                        const struct pz_validation *v) {
  const struct {
    const char *path;
    enum pz_validation_form form;
  } files[] = {{s->csv, s->rows ? PZ_VALIDATION_ROWS : PZ_VALIDATION_GROUPS},
               {s->report, PZ_VALIDATION_PAGE},
               {s->write_limits, PZ_VALIDATION_LIMITS},
               {s->write_expected, PZ_VALIDATION_EXPECTED}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i].path)
      pz_command_save_text(call, files[i].path, validation_text(call, v, files[i].form));
}

static void print_validation(struct pz_call *call, const struct settings *s,
                             const struct pz_validation *v) {
  if (!s->common.json && !s->features) {
    pz_validation_tables(call, v, s->rows, stdout);
    return;
  }
  enum pz_validation_form form = s->rows ? PZ_VALIDATION_JSON_ROWS : PZ_VALIDATION_JSON;
  char *text = validation_text(call, v, s->features ? PZ_VALIDATION_FEATURES : form);
  pz_defer(call, pz_free_text, text);
  fputs(text, stdout);
}

/* ---- checks and warnings -------------------------------------------------------------------- */

/* Checks that no output would overwrite a file that is read. */
static void check_outputs(struct pz_call *call, const struct settings *s) {
  const char *const outputs[] = {s->csv, s->report, s->write_limits, s->write_expected};
  const char *const others[] = {s->beside, s->limits,
                                s->chip && pz_file_named(s->chip) ? s->chip : NULL};
  const char *const *tables = s->ops ? pz_csv_list(call, s->ops) : NULL;
  struct pz_vec inputs;
  pz_vec_init(&inputs, call->arena, sizeof(const char *));
  for (; tables && *tables; tables++) pz_append(call, &inputs, tables);
  for (int i = 0; s->runs[i]; i++) pz_append(call, &inputs, &s->runs[i]);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i]) pz_append(call, &inputs, &others[i]);
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    if (outputs[i]) pz_file_require_output(call, outputs[i], inputs.items, inputs.n);
}

/* Warns about a --chip that no row uses, if it is the default chip.  pz_validate() has a note about other chips, but cannot
 * know that the default was given. */
static void warn_about_unused_chip(const struct settings *s, const struct pz_validation *v,
                                   const char *default_chip) {
  if (!s->ops || !s->chip || strcmp(s->chip, default_chip) != 0) return;
  for (uint32_t i = 0; i < v->n_points; i++) {
    const struct pz_validation_point *p = &v->points[i];
    bool predicted = p->kind == PZ_POINT_OPERATOR && !*p->reason;
    if (predicted && strcmp(p->chip, default_chip) == 0) return;
  }
  char text[300];
  snprintf(text, sizeof text,
           "%.200s: no predicted row is of chip %s; rows are predicted with the presets they name",
           s->ops, default_chip);
  pz_command_warn(s->common.quiet, text);
}

static bool uses_limits_of_ops(const struct settings *s) {
  return s->limits && strcmp(s->limits, PZ_LIMITS_OPS) == 0;
}

/* ---- the command ---------------------------------------------------------------------------- */

static void free_validation(void *v) { pz_validation_free(v); }

static void validate(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  struct pz_validation *v = NULL;
  if (!pz_command_options(call, in, &s)) return;
  if (uses_limits_of_ops(&s) && !s.ops)
    pz_command_refuse(call, in, "--limits " PZ_LIMITS_OPS " needs --ops");
  if (s.cold && (s.ops || s.beside))
    pz_command_refuse(call, in, "--cold is of training runs: without --ops and --beside");
  if (s.features && (s.common.json || s.rows))
    pz_command_refuse(call, in, "--features cannot be combined with --json or --rows");
  struct pz_validate_options o = pz_validate_options_default();
  const char *default_chip = o.chip;
  o.runs = s.runs;
  o.ops = s.ops;
  o.beside = s.beside;
  if (s.chip) o.chip = s.chip;
  o.limits = s.limits;
  o.cold = s.cold;
  o.threads = (unsigned)s.threads;
  check_outputs(call, &s);
  pz_must(call, pz_validate(&o, &v, pz_call_error(call)));
  pz_defer(call, free_validation, v);
  for (uint32_t i = 0; i < v->n_notes; i++) pz_command_warn(s.common.quiet, v->notes[i]);
  warn_about_unused_chip(&s, v, default_chip);
  if (uses_limits_of_ops(&s) && v->n_limits == 0)
    pz_command_warn(s.common.quiet, "no limit of " PZ_LIMITS_OPS
                                    " is of a group with 20 rows or more: none is checked");
  write_files(call, &s, v);
  print_validation(call, &s, v);
  for (uint32_t i = 0; i < v->n_broken; i++) {
    char limit[300];
    fprintf(stderr, "phaze validate: %s\n",
            pz_broken_limit_text(&v->broken[i], limit, sizeof limit));
  }
  if (v->n_broken)
    pz_raise(call, PZ_NO_ANSWER, "%u limit%s broken", v->n_broken,
             v->n_broken == 1 ? " is" : "s are");
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
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .body = validate,
};
