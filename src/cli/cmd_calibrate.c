/* phaze calibrate: a chip whose constants are fitted to operators that were measured on it. */
#include <string.h>

#include "chip/chip.h"
#include "cli/command.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  const char *ops, *chip, *out;
};

static const struct settings defaults;

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "ops", .type = PZ_OPTION_TEXT, .offset = AT(ops), .arg = "FILE|DIR",
     .help = "Measured operators (columns op,b,m,n,k,extra,kernel_us); scripts/measure-ops makes such a table on a CUDA GPU; or tables of AIConfigurator's collectors, also a directory of them (.csv, _perf.txt)"},
    {.name = "chip", .type = PZ_OPTION_TEXT, .offset = AT(chip), .arg = "CHIP",
     .help = "Chip to begin with, a preset or a chip.json: its description stays, and its constants where no row shows better ones"},
    {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = AT(out), .arg = "FILE.json",
     .help = "Write the calibrated chip to this file (default: show the fit and write nothing)"},
};
/* clang-format on */

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *residual_json(const struct pz_fit_residual *r) {
  json_t *o = json_pack("{s:s,s:I,s:I,s:f,s:f,s:f}", "op", r->op, "rows", (json_int_t)r->rows,
                        "held", (json_int_t)r->held, "before", r->before, "fitted_half",
                        r->fitted_half, "after", r->after);
  json_object_set_new(o, "held_half", r->held ? json_real(r->held_half) : json_null());
  return o;
}

static json_t *fit_json(const struct pz_calibrated *c) {
  json_t *ops = json_array(), *changes = json_array(), *kept = json_array();
  json_t *rejected = json_array();
  for (uint32_t i = 0; i < c->n_residuals; i++)
    json_array_append_new(ops, residual_json(&c->residuals[i]));
  for (uint32_t i = 0; i < c->n_changes; i++)
    json_array_append_new(changes,
                          json_pack("{s:s,s:f,s:f,s:b}", "constant", c->changes[i].name, "before",
                                    c->changes[i].before, "after", c->changes[i].after, "at_bound",
                                    c->changes[i].at_bound));
  for (uint32_t i = 0; i < c->n_rejected; i++)
    json_array_append_new(rejected,
                          json_pack("{s:s,s:f,s:f}", "group", c->rejected[i].name, "before",
                                    c->rejected[i].before, "fitted", c->rejected[i].fitted));
  for (uint32_t i = 0; i < c->n_kept; i++) json_array_append_new(kept, json_string(c->kept[i]));
  return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "chip", c->chip->name, "all",
                   residual_json(&c->all), "ops", ops, "constants", changes, "kept", kept,
                   "rejected", rejected, "description", pz_chip_json(c->chip));
}

/* ---- tables --------------------------------------------------------------------------------- */

static void residual_cells(struct pz_table *t, const struct pz_fit_residual *r) {
  pz_table_cell(t, "%s", r->op);
  pz_table_cell(t, "%u", r->rows);
  pz_table_cell(t, "%.1f%%", 100 * r->before);
  pz_table_cell(t, "%.1f%%", 100 * r->fitted_half);
  if (r->held)
    pz_table_cell(t, "%.1f%%", 100 * r->held_half);
  else
    pz_table_cell(t, "-");
  pz_table_cell(t, "%.1f%%", 100 * r->after);
}

static enum pz_status print_residuals(const struct pz_calibrated *c, struct pz_arena *arena) {
  static const char *const heads[] = {"operator",   ">rows",          ">before", ">fitted half",
                                      ">held half", ">fitted to all", NULL};
  struct pz_table t;
  printf("mean error by operator: of %s as it was; of both halves of the rows after the fit to "
         "one;\nafter the fit to all\n\n",
         c->chip->name);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < c->n_residuals; i++) residual_cells(&t, &c->residuals[i]);
  residual_cells(&t, &c->all);
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status print_changes(const struct pz_calibrated *c, struct pz_arena *arena) {
  static const char *const heads[] = {"constant", ">before", ">after", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < c->n_changes; i++) {
    pz_table_cell(&t, "%s", c->changes[i].name);
    pz_table_cell(&t, "%.4g", c->changes[i].before);
    pz_table_cell(&t, "%.4g", c->changes[i].after);
  }
  printf("\n");
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status print_fit(const struct pz_calibrated *c, struct pz_arena *arena) {
  enum pz_status status = print_residuals(c, arena);
  if (status == PZ_OK && c->n_changes) status = print_changes(c, arena);
  bool bound = false;
  for (uint32_t i = 0; i < c->n_changes; i++) {
    if (!c->changes[i].at_bound) continue;
    printf("%s %s", bound ? "," : "\nat a bound of the accepted range:", c->changes[i].name);
    bound = true;
  }
  if (bound) printf("\n");
  if (c->n_rejected)
    printf(
        "\nkept, for rows held back, or those of one operator, are predicted no better after the "
        "fit\n(mean error before, after):");
  for (uint32_t i = 0; i < c->n_rejected; i++)
    printf("%s %s %.1f%%, %.1f%%", i ? ";" : "", c->rejected[i].name, 100 * c->rejected[i].before,
           100 * c->rejected[i].fitted);
  if (c->n_rejected) printf("\n");
  if (c->n_kept) printf("\nkept, for no row shows them:");
  for (uint32_t i = 0; i < c->n_kept; i++) printf("%s %s", i ? "," : "", c->kept[i]);
  if (c->n_kept) printf("\n");
  return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

static enum pz_status write_chip(const struct pz_chip *chip, const char *path,
                                 struct pz_error *err) {
  char *text = NULL;
  enum pz_status status = pz_chip_text(chip, &text, err);
  if (status == PZ_OK) status = pz_file_write(path, text, strlen(text), err);
  pz_text_free(text);
  return status;
}

static enum pz_status check_output(const struct settings *s, struct pz_arena *arena,
                                   struct pz_error *err) {
  const char *const *files = NULL;
  size_t n = 0;
  if (!s->out) return PZ_OK;
  enum pz_status status = pz_csv_files(s->ops, arena, &files, err);
  while (status == PZ_OK && files[n]) n++;
  if (status == PZ_OK && pz_file_named(s->chip)) status = pz_file_output(s->out, &s->chip, 1, err);
  return status == PZ_OK ? pz_file_output(s->out, files, n, err) : status;
}

static enum pz_status calibrate(const struct settings *s, struct pz_error *err) {
  struct pz_calibrate_options o = pz_calibrate_options_default();
  struct pz_arena arena;
  struct pz_chip chip;
  struct pz_calibrated *fit = NULL;
  o.ops = s->ops;
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_chip_read(s->chip, &chip, err);
  if (status == PZ_OK) status = check_output(s, &arena, err);
  if (status == PZ_OK) status = pz_calibrate(&chip, &o, &fit, err);
  for (uint32_t i = 0; fit && i < fit->n_notes; i++)
    pz_command_warn(s->common.quiet, fit->notes[i]);
  if (status == PZ_OK && s->out) status = write_chip(fit->chip, s->out, err);
  if (status == PZ_OK)
    status = s->common.json ? pz_command_json(fit_json(fit), err) : print_fit(fit, &arena);
  pz_calibrated_free(fit);
  pz_arena_release(&arena);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_call call;
  if (!pz_call_begin(&call, &pz_cmd_calibrate, argc, argv, &s)) return call.code;
  if (!s.ops) return pz_command_misuse(&pz_cmd_calibrate, "--ops FILE|DIR is required");
  if (!s.chip) return pz_command_misuse(&pz_cmd_calibrate, "--chip CHIP is required");
  return pz_call_end(&call, calibrate(&s, &call.err));
}

const struct pz_command pz_cmd_calibrate = {
    .name = "calibrate",
    .synopsis = "--ops FILE|DIR --chip CHIP [-o FILE.json]",
    .summary = "Fit a chip's constants to operators measured on it",
    .detail =
        "The table has a row for each measured operator, as scripts/measure-ops prints it, or\n"
        "is one of AIConfigurator's (GEMMs, attention, experts, collectives), of which the rows\n"
        "of CHIP are used, at most 300 of a kernel for the fit; where all rows are of one chip,\n"
        "they are used for CHIP.\n"
        "The fit is made twice: to every second row of each operator, judged with the other\n"
        "half, and to all rows, which is what -o writes. Constants that no row shows, and those\n"
        "of kernels whose held-back rows are predicted no better after the fit, keep the values\n"
        "of CHIP; the output names them. Use the result as --chip FILE.json.\n"
        "\n"
        "Examples:\n"
        "  phaze calibrate --ops h200.csv --chip h200\n"
        "  phaze calibrate --ops mine.csv --chip h100 -o mine.json\n"
        "  phaze calibrate --ops collected/ --chip b200 -o mine.json\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
