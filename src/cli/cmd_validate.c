/* phaze validate: predictions beside measurements, and limits that must hold. */
#include <string.h>

#include "cli/command.h"
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

static enum pz_status write_file(const char *path, enum pz_validation_form form,
                                 const struct pz_validation *v, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  if (!path) return PZ_OK;
  enum pz_status status = pz_validation_text(v, form, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(path, text, bytes, err);
  pz_text_free(text);
  return status;
}

static enum pz_status write_files(const struct settings *s, const struct pz_validation *v,
                                  struct pz_error *err) {
  enum pz_status status =
      write_file(s->csv, s->rows ? PZ_VALIDATION_ROWS : PZ_VALIDATION_GROUPS, v, err);
  if (status == PZ_OK) status = write_file(s->report, PZ_VALIDATION_PAGE, v, err);
  if (status == PZ_OK) status = write_file(s->write_limits, PZ_VALIDATION_LIMITS, v, err);
  if (status == PZ_OK) status = write_file(s->write_expected, PZ_VALIDATION_EXPECTED, v, err);
  return status;
}

static enum pz_status print(const struct settings *s, const struct pz_validation *v,
                            struct pz_arena *arena, struct pz_error *err) {
  if (!s->common.json && !s->features) return pz_validation_print(v, s->rows, arena, stdout);
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_validation_text(v,
                                             s->features ? PZ_VALIDATION_FEATURES
                                             : s->rows   ? PZ_VALIDATION_JSON_ROWS
                                                         : PZ_VALIDATION_JSON,
                                             &text, &bytes, err);
  if (status == PZ_OK) fputs(text, stdout);
  pz_text_free(text);
  return status;
}

/* Every limit that does not hold on a line of stderr; PZ_NO_ANSWER if there is one. */
static enum pz_status tell_broken(const struct pz_validation *v, struct pz_error *err) {
  char text[300];
  for (uint32_t i = 0; i < v->n_broken; i++)
    fprintf(stderr, "phaze validate: %s\n", pz_broken_limit_text(&v->broken[i], text, sizeof text));
  if (!v->n_broken) return PZ_OK;
  return pz_fail(err, PZ_NO_ANSWER, "%u limit%s broken", v->n_broken,
                 v->n_broken == 1 ? " is" : "s are");
}

/* Outputs that are not among the files that are read. */
static enum pz_status check_outputs(const struct settings *s, struct pz_arena *arena,
                                    struct pz_error *err) {
  const char *const outputs[] = {s->csv, s->report, s->write_limits, s->write_expected};
  const char *const others[] = {s->beside, s->limits,
                                s->chip && pz_file_named(s->chip) ? s->chip : NULL};
  const char *const *ops = NULL;
  struct pz_vec inputs;
  bool room = true;
  pz_vec_init(&inputs, arena, sizeof(const char *));
  enum pz_status status = s->ops ? pz_csv_files(s->ops, arena, &ops, err) : PZ_OK;
  if (status != PZ_OK) return status;
  for (; ops && *ops; ops++) room = room && pz_vec_push(&inputs, ops);
  for (int i = 0; s->runs[i]; i++) room = room && pz_vec_push(&inputs, &s->runs[i]);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i]) room = room && pz_vec_push(&inputs, &others[i]);
  if (!room) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the names of files");
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs && status == PZ_OK; i++)
    if (outputs[i]) status = pz_file_output(outputs[i], inputs.items, inputs.n, err);
  return status;
}

/* A given chip that no row is of, where it is the default: pz_validate, which has a note of others, cannot know that it
 * was given. */
static void tell_unused_chip(const struct settings *s, const struct pz_validation *v,
                             const char *chip) {
  bool used = !s->ops || !s->chip || strcmp(s->chip, chip) != 0;
  char text[300];
  for (uint32_t i = 0; i < v->n_points && !used; i++)
    used = v->points[i].kind == PZ_POINT_OPERATOR && !*v->points[i].reason &&
           strcmp(v->points[i].chip, chip) == 0;
  if (used) return;
  snprintf(text, sizeof text,
           "%.200s: no predicted row is of chip %s; rows are predicted with the presets they name",
           s->ops, chip);
  pz_command_warn(s->common.quiet, text);
}

static bool limits_of_ops(const struct settings *s) {
  return s->limits && strcmp(s->limits, PZ_LIMITS_OPS) == 0;
}

static enum pz_status validate(const struct settings *s, struct pz_error *err) {
  struct pz_validate_options o = pz_validate_options_default();
  struct pz_arena arena;
  struct pz_validation *v = NULL;
  o.runs = s->runs;
  o.ops = s->ops;
  o.beside = s->beside;
  if (s->chip) o.chip = s->chip;
  o.limits = s->limits;
  o.cold = s->cold;
  o.threads = (unsigned)s->threads;
  pz_arena_init(&arena, NULL);
  enum pz_status status = check_outputs(s, &arena, err);
  if (status == PZ_OK) status = pz_validate(&o, &v, err);
  for (uint32_t i = 0; status == PZ_OK && i < v->n_notes; i++)
    pz_command_warn(s->common.quiet, v->notes[i]);
  if (status == PZ_OK) tell_unused_chip(s, v, pz_validate_options_default().chip);
  if (status == PZ_OK && limits_of_ops(s) && v->n_limits == 0)
    pz_command_warn(s->common.quiet, "no limit of " PZ_LIMITS_OPS
                                     " is of a group with 20 rows or more: none is checked");
  if (status == PZ_OK) status = write_files(s, v, err);
  if (status == PZ_OK) status = print(s, v, &arena, err);
  if (status == PZ_OK) status = tell_broken(v, err);
  pz_arena_release(&arena);
  pz_validation_free(v);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_long_call call;
  if (!pz_call_begin(&call, &pz_cmd_validate, argc, argv, &s)) return call.code;
  if (limits_of_ops(&s) && !s.ops)
    return pz_command_misuse(&pz_cmd_validate, "--limits " PZ_LIMITS_OPS " needs --ops");
  if (s.cold && (s.ops || s.beside))
    return pz_command_misuse(&pz_cmd_validate,
                             "--cold is of training runs: without --ops and --beside");
  if (s.features && (s.common.json || s.rows))
    return pz_command_misuse(&pz_cmd_validate,
                             "--features cannot be combined with --json or --rows");
  return pz_call_end(&call, validate(&s, &call.err));
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
    .run = run,
};
