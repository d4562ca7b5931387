/* phaze calibrate: fits the constants of a chip to operators that were measured on it (calibrate_chip), corrects a chip by
 * measured training steps (correct_chip), or fits a cluster to measured collectives (calibrate_network).  Each prints the
 * errors before and after, and writes the result if --output is given. */
#include <math.h>

#include "chip/chip.h"
#include "cli/machine_options.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  const char *ops, *steps, *network, *plan, *held, *chip, *cluster, *out;
  int64_t devices, node_devices, threads;
};

static const struct settings defaults;

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "ops", .type = PZ_OPTION_TEXT, .offset = AT(ops), .arg = "FILE|DIR",
     .help = "Measured operators (columns op,b,m,n,k,extra,kernel_us); scripts/measure-ops makes such a table on a CUDA GPU; or tables of AIConfigurator's collectors, also a directory of them (.csv, _perf.txt)"},
    {.name = "steps", .type = PZ_OPTION_TEXT, .offset = AT(steps), .arg = "FILE",
     .help = "Measured training steps, three or more: a table of runs (columns model, chip, cluster, n_dev, fields of the plan, step_time_s), or logs of Megatron-LM or torchtitan with commas between them"},
    {.name = "network", .type = PZ_OPTION_TEXT, .offset = AT(network), .arg = "LOG,...",
     .help = "Output of nccl-tests or rccl-tests, several with commas between them, to fit a cluster to"},
    {.name = "plan", .type = PZ_OPTION_TEXT, .offset = AT(plan), .arg = "FILE",
     .help = "With logs: the launch script, configuration or plan file of each, with commas between them; Megatron-LM's logs show their arguments and need none"},
    {.name = "devices", .type = PZ_OPTION_INT, .offset = AT(devices), .arg = "N", .min = 1, .max = 1 << 24,
     .help = "With --plan or --network: devices of runs and logs that do not state them"},
    {.name = "devices-per-node", .type = PZ_OPTION_INT, .offset = AT(node_devices), .arg = "N", .min = 1, .max = 1 << 16,
     .help = "With --network: devices of a node where the logs do not list their ranks"},
    {.name = "held", .type = PZ_OPTION_TEXT, .offset = AT(held), .arg = "FILE.csv",
     .help = "With --steps: a table of further steps, which are not used but judge the correction"},
    {.name = "chip", .type = PZ_OPTION_TEXT, .offset = AT(chip), .arg = "CHIP",
     .help = "Chip to begin with, a preset or a chip.json: its description stays, and its constants where no row shows better ones; with --steps: of rows that name none, and the one to correct"},
    {.name = "cluster", .type = PZ_OPTION_TEXT, .offset = AT(cluster), .arg = "NET",
     .help = "With --steps: the network of rows that name none; with --network: the data sheet of the network (default: the cluster that the chip stands in)"},
    {.name = "threads", .type = PZ_OPTION_INT, .offset = AT(threads), .arg = "T", .min = 0, .max = 1024,
     .help = "Number of threads for --steps (default: 0, one per processor)"},
    {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = AT(out), .arg = "FILE.json",
     .help = "Write the calibrated chip or cluster to this file (default: show the fit and write nothing)"},
};
/* clang-format on */

/* ---- chips fitted to operators -------------------------------------------------------------- */

static json_t *residual_json(const struct pz_fit_residual *r) {
  return json_pack("{s:s,s:I,s:I,s:f,s:f,s:f,s:o}", "op", r->op, "rows", (json_int_t)r->rows,
                   "held", (json_int_t)r->held, "before", r->before, "fitted_half", r->fitted_half,
                   "after", r->after, "held_half", r->held ? json_real(r->held_half) : json_null());
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

static void append_residual(struct pz_table *t, const struct pz_fit_residual *r) {
  pz_table_cell(t, "%s", r->op);
  pz_table_cell(t, "%u", r->rows);
  pz_table_cell(t, "%.1f%%", 100 * r->before);
  pz_table_cell(t, "%.1f%%", 100 * r->fitted_half);
  pz_table_known(t, r->held > 0, "%.1f%%", 100 * r->held_half);
  pz_table_cell(t, "%.1f%%", 100 * r->after);
}

static void print_residuals(struct pz_call *call, const struct pz_calibrated *c) {
  static const char *const heads[] = {"operator",   ">rows",          ">before", ">fitted half",
                                      ">held half", ">fitted to all", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < c->n_residuals; i++) append_residual(t, &c->residuals[i]);
  append_residual(t, &c->all);
  printf("mean error by operator: of the chip as it was; of both halves of the rows after the "
         "fit to\none; after the fit to all\n\n");
  pz_table_print(t, 0, stdout);
}

static void print_fit(struct pz_call *call, const struct pz_calibrated *c) {
  static const char *const heads[] = {"constant", ">before", ">after", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  bool any_at_bound = false;
  for (uint32_t i = 0; i < c->n_changes; i++) {
    pz_table_cell(t, "%s", c->changes[i].name);
    pz_table_cell(t, "%.4g", c->changes[i].before);
    pz_table_cell(t, "%.4g", c->changes[i].after);
  }
  print_residuals(call, c);
  if (c->n_changes) {
    printf("\n");
    pz_table_print(t, 0, stdout);
  }
  for (uint32_t i = 0; i < c->n_changes; i++) {
    if (!c->changes[i].at_bound) continue;
    printf("%s %s", any_at_bound ? "," : "\nat a bound of the accepted range:", c->changes[i].name);
    any_at_bound = true;
  }
  if (any_at_bound) printf("\n");
  if (c->n_rejected) {
    printf(
        "\nkept, for rows held back, or those of one operator, are predicted no better after the "
        "fit\n(mean error before, after):");
    for (uint32_t i = 0; i < c->n_rejected; i++)
      printf("%s %s %.1f%%, %.1f%%", i ? ";" : "", c->rejected[i].name, 100 * c->rejected[i].before,
             100 * c->rejected[i].fitted);
    printf("\n");
  }
  if (c->n_kept) {
    printf("\nkept, for no row shows them:");
    for (uint32_t i = 0; i < c->n_kept; i++) printf("%s %s", i ? "," : "", c->kept[i]);
    printf("\n");
  }
}

static void free_calibrated(void *fit) { pz_calibrated_free(fit); }

static void calibrate_chip(struct pz_call *call, const struct settings *s) {
  struct pz_calibrate_options o = pz_calibrate_options_default();
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  struct pz_calibrated *fit = NULL;
  o.ops = s->ops;
  pz_chip_read(call, s->chip, chip);
  if (s->out) {
    const char *const *tables = pz_csv_list(call, s->ops);
    size_t n = 0;
    while (tables[n]) n++;
    if (pz_file_named(s->chip)) pz_file_require_output(call, s->out, &s->chip, 1);
    pz_file_require_output(call, s->out, tables, n);
  }
  pz_must(call, pz_calibrate(chip, &o, &fit, pz_call_error(call)));
  pz_defer(call, free_calibrated, fit);
  for (uint32_t i = 0; i < fit->n_notes; i++) pz_command_warn(s->common.quiet, fit->notes[i]);
  if (s->out) pz_machine_save_chip(call, fit->chip, s->out);
  if (s->common.json)
    pz_command_print_json(call, fit_json(fit));
  else
    print_fit(call, fit);
}

/* ---- chips corrected by training steps ------------------------------------------------------ */

static json_t *errors_json(const struct pz_step_errors *e, bool left_out) {
  json_t *o = json_pack("{s:f,s:f}", "before", e->before, "after", e->after);
  if (left_out)
    json_object_set_new(o, "left_out", isnan(e->left_out) ? json_null() : json_real(e->left_out));
  return o;
}

static json_t *steps_json(const struct pz_step_residual *r, uint32_t n, bool left_out) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n; i++) {
    json_t *o = json_pack("{s:s,s:f,s:f,s:f}", "id", r[i].id, "measured_s", r[i].measured_s,
                          "before_s", r[i].before_s, "after_s", r[i].after_s);
    if (left_out)
      json_object_set_new(o, "left_out_s",
                          r[i].left_out_s > 0 ? json_real(r[i].left_out_s) : json_null());
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *correction_json(const struct pz_step_calibration *c) {
  json_t *o = json_pack(
      "{s:o,s:o,s:o}", "factors", pz_machine_factors_json(c->factors, c->n_factors), "errors",
      errors_json(&c->errors, true), "steps", steps_json(c->steps, c->n_steps, true));
  if (c->n_held) {
    json_object_set_new(o, "held_errors", errors_json(&c->held_errors, false));
    json_object_set_new(o, "held", steps_json(c->held, c->n_held, false));
  }
  json_object_set_new(o, "description", c->chip ? pz_chip_json(c->chip) : json_null());
  return o;
}

static void error_cell(struct pz_table *t, double predicted_s, double measured_s) {
  pz_table_known(t, predicted_s > 0, "%+.1f%%", 100 * (predicted_s / measured_s - 1));
}

static void print_steps(struct pz_call *call, const struct pz_step_calibration *c) {
  static const char *const heads[] = {"step",       ">measured (s)", ">before",
                                      ">by others", ">corrected",    NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < c->n_steps; i++) {
    const struct pz_step_residual *r = &c->steps[i];
    pz_table_cell(t, "%s", r->id);
    pz_table_cell(t, "%.4g", r->measured_s);
    error_cell(t, r->before_s, r->measured_s);
    error_cell(t, r->left_out_s, r->measured_s);
    error_cell(t, r->after_s, r->measured_s);
  }
  pz_table_print(t, 0, stdout);
}

static void print_correction(struct pz_call *call, const struct pz_step_calibration *c) {
  print_steps(call, c);
  pz_machine_show_factors(call, c->factors, c->n_factors);
  printf("\nmean error of the step time: %.1f%% before, %.1f%% corrected", 100 * c->errors.before,
         100 * c->errors.after);
  if (!isnan(c->errors.left_out))
    printf("; %.1f%% where each step is predicted from the others", 100 * c->errors.left_out);
  printf("\n");
  if (c->n_held)
    printf("%u steps that were not used: %.1f%% before, %.1f%% corrected\n", c->n_held,
           100 * c->held_errors.before, 100 * c->held_errors.after);
}

static void free_step_calibration(void *fit) { pz_step_calibration_free(fit); }

static void correct_chip(struct pz_call *call, const struct settings *s) {
  struct pz_calibrate_steps_options o = pz_calibrate_steps_options_default();
  struct pz_step_calibration *fit = NULL;
  o.steps = s->steps;
  o.plan = s->plan;
  o.devices = s->devices;
  o.threads = (unsigned)s->threads;
  o.held = s->held;
  o.chip = s->chip;
  o.cluster = s->cluster;
  pz_must(call, pz_calibrate_steps(&o, &fit, pz_call_error(call)));
  pz_defer(call, free_step_calibration, fit);
  for (uint32_t i = 0; i < fit->n_notes; i++) pz_command_warn(s->common.quiet, fit->notes[i]);
  if (s->out) {
    if (!fit->chip)
      pz_raise(call, PZ_BAD_USE,
               "%s has steps of several chips; accepted: --chip CHIP, the one to correct",
               s->steps);
    pz_file_require_output(call, s->out, fit->files, fit->n_files);
    pz_machine_save_chip(call, fit->chip, s->out);
  }
  if (s->common.json)
    pz_command_print_json(call, correction_json(fit));
  else
    print_correction(call, fit);
}

/* ---- clusters fitted to collectives --------------------------------------------------------- */

static json_t *network_json(const struct pz_network_calibration *c) {
  json_t *levels = json_array(), *tests = json_array();
  for (int l = 0; l < c->cluster.n_levels; l++) {
    const struct pz_network_level_fit *f = &c->levels[l];
    const struct pz_level *level = &c->cluster.level[l];
    json_array_append_new(
        levels, json_pack("{s:s,s:I,s:f,s:f,s:f,s:f,s:f}", "name", level->name, "rows",
                          (json_int_t)f->rows, "data_sheet_bytes_per_s", level->bytes_per_s,
                          "before_bytes_per_s", f->before_bytes_per_s, "after_bytes_per_s",
                          f->after_bytes_per_s, "before_s", f->before_s, "after_s", f->after_s));
  }
  for (uint32_t i = 0; i < c->n_tests; i++) {
    const struct pz_network_error *e = &c->tests[i];
    json_t *before = json_array(), *after = json_array(), *rows = json_array();
    for (int k = 0; k < PZ_NETWORK_SIZES; k++) {
      json_array_append_new(rows, json_integer(e->rows[k]));
      json_array_append_new(before, json_real(e->before[k]));
      json_array_append_new(after, json_real(e->after[k]));
    }
    json_array_append_new(tests, json_pack("{s:s,s:o,s:o,s:o}", "test", e->test, "rows", rows,
                                           "before", before, "after", after));
  }
  return json_pack("{s:s,s:o,s:o,s:o}", "chip", c->chip, "levels", levels, "tests", tests,
                   "description", pz_cluster_json(&c->cluster));
}

/* Prints in words what was fitted for each level of the network. */
static void print_levels(const struct pz_network_calibration *c) {
  for (int l = 0; l < c->cluster.n_levels; l++) {
    const struct pz_network_level_fit *f = &c->levels[l];
    const struct pz_level *level = &c->cluster.level[l];
    char least[32], most[32];
    if (!f->rows) {
      printf("%s: no row shows it; it stays as it was\n", level->name);
      continue;
    }
    printf("%s: a device reaches %.4g of the %.4g GB/s of the data sheet (%.0f%%; before the fit "
           "%.0f%%)\n",
           level->name, f->after_bytes_per_s / 1e9, level->bytes_per_s / 1e9,
           100 * f->after_bytes_per_s / level->bytes_per_s,
           100 * f->before_bytes_per_s / level->bytes_per_s);
    printf("  %s takes %.3g us (before the fit %.3g us)",
           l ? "a message" : "the start of a collective", 1e6 * f->after_s, 1e6 * f->before_s);
    if (l) printf(", large messages start %.3g us later", 1e6 * level->collectives.startup_s);
    printf("\n  %u row%s from %s to %s\n", f->rows, pz_text_s(f->rows),
           pz_text_si(least, sizeof least, f->least_bytes, "B"),
           pz_text_si(most, sizeof most, f->most_bytes, "B"));
  }
}

static void print_network(struct pz_call *call, const struct pz_network_calibration *c) {
  static const char *const heads[] = {
      "test", ">rows", ">up to 64 KiB", ">up to 16 MiB", ">larger", ">all sizes", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < c->n_tests; i++) {
    const struct pz_network_error *e = &c->tests[i];
    pz_table_cell(t, "%s", e->test);
    pz_table_cell(t, "%u", e->rows[PZ_NETWORK_SIZES - 1]);
    for (int k = 0; k < PZ_NETWORK_SIZES; k++)
      pz_table_known(t, e->rows[k] > 0, "%.1f%%, %.1f%%", 100 * e->before[k], 100 * e->after[k]);
  }
  printf("cluster %s, chip %s\n\n", c->cluster.name, c->chip);
  print_levels(c);
  printf("\nmean error of predicted times, before and after the fit\n\n");
  pz_table_print(t, 0, stdout);
}

static void free_network_calibration(void *fit) { pz_network_calibration_free(fit); }

static void calibrate_network(struct pz_call *call, const struct settings *s) {
  struct pz_calibrate_network_options o = pz_calibrate_network_options_default();
  struct pz_network_calibration *fit = NULL;
  o.logs = s->network;
  o.chip = s->chip;
  o.cluster = s->cluster;
  o.devices = s->devices;
  o.node_devices = s->node_devices;
  pz_must(call, pz_calibrate_network(&o, &fit, pz_call_error(call)));
  pz_defer(call, free_network_calibration, fit);
  for (uint32_t i = 0; i < fit->n_notes; i++) pz_command_warn(s->common.quiet, fit->notes[i]);
  if (s->out) {
    char *text = NULL;
    pz_file_require_output(call, s->out, fit->files, fit->n_files);
    if (s->cluster) pz_file_require_output(call, s->out, &s->cluster, 1);
    if (s->chip) pz_file_require_output(call, s->out, &s->chip, 1);
    pz_must(call, pz_cluster_text(&fit->cluster, &text, pz_call_error(call)));
    pz_command_save_text(call, s->out, text);
  }
  if (s->common.json)
    pz_command_print_json(call, network_json(fit));
  else
    print_network(call, fit);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns an error message if the arguments are inconsistent, otherwise NULL. */
static const char *calibrate_misuse(const struct settings *s) {
  int n_inputs = (s->ops != NULL) + (s->steps != NULL) + (s->network != NULL);
  if (n_inputs != 1) return "one of --ops FILE|DIR, --steps FILE and --network LOG,... is required";
  if (!s->steps && (s->held || s->plan)) return "--held and --plan are of --steps";
  if (s->ops && (s->cluster || s->devices))
    return "--devices and --cluster are of --steps and --network";
  if (!s->network && s->node_devices) return "--devices-per-node is of --network";
  if (s->ops && !s->chip) return "--chip CHIP is required";
  return NULL;
}

static void calibrate(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  if (!pz_command_options(call, in, &s)) return;
  const char *wrong = calibrate_misuse(&s);
  if (wrong) pz_command_refuse(call, in, wrong);
  if (s.network)
    calibrate_network(call, &s);
  else if (s.steps)
    correct_chip(call, &s);
  else
    calibrate_chip(call, &s);
}

const struct pz_command pz_cmd_calibrate = {
    .name = "calibrate",
    .synopsis =
        "--ops FILE|DIR --chip CHIP [-o FILE.json] | --steps FILE [--chip CHIP] [-o FILE.json] | "
        "--network LOG,... [--cluster NET] [-o FILE.json]",
    .summary = "Fit a chip or a cluster to operators, training steps or collectives measured on it",
    .detail =
        "--steps corrects predictions by a few training steps that you measured: the times of\n"
        "GEMMs, attention, element-wise operators, launches and collectives get a factor each,\n"
        "moved only as far as the steps agree. The error left is shown: of each step by a\n"
        "correction from the others, and with --held of steps that were not used.\n"
        "\n"
        "--network fits the efficiency and latency of each level of a cluster, inside a node and\n"
        "between nodes, to collectives that nccl-tests measured: all_reduce_perf, "
        "all_gather_perf,\n"
        "reduce_scatter_perf, alltoall_perf, sendrecv_perf.  Use the result as --cluster "
        "FILE.json.\n"
        "\n"
        "--ops fits constants of kernels.\n"
        "The table has a row for each measured operator, as scripts/measure-ops prints it, or\n"
        "is one of AIConfigurator's (GEMMs, attention, experts, collectives), of which the rows\n"
        "of CHIP are used, at most 300 of a kernel for the fit; where all rows are of one chip,\n"
        "they are used for CHIP.\n"
        "The fit is made twice: to every second row of each operator, judged with the other\n"
        "half, and to all rows, which is what -o writes. Constants that no row shows, and those\n"
        "of kernels whose held-back rows are predicted no better after the fit, keep the values\n"
        "of CHIP; the output names them. Use either result as --chip FILE.json.\n"
        "\n"
        "Examples:\n"
        "  phaze calibrate --ops h200.csv --chip h200\n"
        "  phaze calibrate --ops mine.csv --chip h100 -o mine.json\n"
        "  phaze calibrate --steps my.csv --chip h100 --cluster dgx-h100 -o mine.json\n"
        "  phaze calibrate --steps 70b.log,8b.log --chip h100 -o mine.json\n"
        "  phaze calibrate --ops collected/ --chip b200 -o mine.json\n"
        "  phaze calibrate --network one-node.log,four-nodes.log --cluster dgx-h100 -o "
        "mynet.json\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .body = calibrate,
};
