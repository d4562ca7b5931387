/* phaze calibrate: fits the constants of a chip to operators that were measured on it
 * (calibrate_chip), corrects a chip by measured training steps (correct_chip), or fits a cluster
 * to measured collectives (calibrate_network).  Each prints the errors before and after, and
 * writes the result if --output is given. */
#include <math.h>

#include "chip/chip.h"
#include "cli/machine_options.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  const char *ops, *steps, *network, *plan, *held, *chip, *cluster, *out;
  int64_t devices, node_devices, threads;
};

static const struct settings defaults;

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_TEXT_OPTION("ops", AT(ops), "FILE|DIR", "Measured operators (columns op,b,m,n,k,extra,kernel_us); scripts/measure-ops makes such a table on a CUDA GPU; or tables of AIConfigurator's collectors, also a directory of them (.csv, _perf.txt)"),
    PZ_TEXT_OPTION("steps", AT(steps), "FILE", "Measured training steps, three or more: a table of runs (columns model, chip, cluster, n_dev, fields of the plan, step_time_s), or logs of Megatron-LM or torchtitan with commas between them"),
    PZ_TEXT_OPTION("network", AT(network), "LOG,...", "Output of nccl-tests or rccl-tests, several with commas between them, to fit a cluster to"),
    PZ_TEXT_OPTION("plan", AT(plan), "FILE", "With logs: the launch script, configuration or plan file of each, with commas between them; Megatron-LM's logs show their arguments and need none"),
    PZ_INT_OPTION("devices", AT(devices), "N", 1, 1 << 24, "With --plan or --network: devices of runs and logs that do not state them"),
    PZ_INT_OPTION("devices-per-node", AT(node_devices), "N", 1, 1 << 16, "With --network: devices of a node where the logs do not list their ranks"),
    PZ_TEXT_OPTION("held", AT(held), "FILE.csv", "With --steps: a table of further steps, which are not used but judge the correction"),
    PZ_TEXT_OPTION("chip", AT(chip), "CHIP", "Chip to begin with, a preset or a chip.json: its description stays, and its constants where no row shows better ones; with --steps: of rows that name none, and the one to correct"),
    PZ_TEXT_OPTION("cluster", AT(cluster), "NET", "With --steps: the network of rows that name none; with --network: the data sheet of the network (default: the cluster that the chip stands in)"),
    PZ_INT_OPTION("threads", AT(threads), "T", 0, 1024, "Number of threads for --steps (default: 0, one per processor)"),
    PZ_TEXT_OPTION("output", AT(out), "FILE.json", "Write the calibrated chip or cluster to this file (default: show the fit and write nothing)", .letter = 'o'),
};
/* clang-format on */

/* ---- chips fitted to operators -------------------------------------------------------------- */

/* Prints the mean error of each kind of operator, and the changed and the kept constants. */
static void print_fit(struct pz_call *call, const struct pz_calibrated *fit) {
  struct pz_table *errors =
      pz_table_new(call, "operator|>rows|>before|>fitted half|>held half|>fitted to all");
  struct pz_table *constants = pz_table_new(call, "constant|>before|>after");
  bool any_at_bound = false;
  for (uint32_t i = 0; i <= fit->n_residuals; i++) {
    const struct pz_fit_residual *residual = i < fit->n_residuals ? &fit->residuals[i] : &fit->all;
    pz_table_cells(errors, "%s|%u|%.1f%%|%.1f%%", residual->op, residual->rows,
                   100 * residual->before, 100 * residual->fitted_half);
    pz_table_known(errors, residual->held > 0, "%.1f%%", 100 * residual->held_half);
    pz_table_cell(errors, "%.1f%%", 100 * residual->after);
  }
  for (uint32_t i = 0; i < fit->n_changes; i++)
    pz_table_cells(constants, "%s|%.4g|%.4g", fit->changes[i].name, fit->changes[i].before,
                   fit->changes[i].after);
  printf("mean error by operator: of the chip as it was; of both halves of the rows after the "
         "fit to\none; after the fit to all\n\n");
  pz_table_print(errors, 0, stdout);
  if (fit->n_changes) {
    printf("\n");
    pz_table_print(constants, 0, stdout);
  }
  for (uint32_t i = 0; i < fit->n_changes; i++) {
    if (!fit->changes[i].at_bound) continue;
    printf("%s %s",
           any_at_bound ? "," : "\nat a bound of the accepted range:", fit->changes[i].name);
    any_at_bound = true;
  }
  if (any_at_bound) printf("\n");
  if (fit->n_rejected) {
    printf(
        "\nkept, for rows held back, or those of one operator, are predicted no better after the "
        "fit\n(mean error before, after):");
    for (uint32_t i = 0; i < fit->n_rejected; i++)
      printf("%s %s %.1f%%, %.1f%%", i ? ";" : "", fit->rejected[i].name,
             100 * fit->rejected[i].before, 100 * fit->rejected[i].fitted);
    printf("\n");
  }
  if (fit->n_kept) {
    printf("\nkept, for no row shows them:");
    for (uint32_t i = 0; i < fit->n_kept; i++) printf("%s %s", i ? "," : "", fit->kept[i]);
    printf("\n");
  }
}

/* Fits the constants of --chip to measured operators, and prints the errors before and after. */
static void calibrate_chip(struct pz_call *call, const struct settings *settings) {
  struct pz_calibrate_options options = pz_calibrate_options_default();
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  struct pz_calibrated *fit = NULL;
  options.ops = settings->ops;
  pz_chip_read(call, settings->chip, chip);
  if (settings->out) {
    const char *const *tables = pz_csv_list(call, settings->ops);
    size_t n = 0;
    while (tables[n]) n++;
    if (pz_file_named(settings->chip))
      pz_file_require_output(call, settings->out, &settings->chip, 1);
    pz_file_require_output(call, settings->out, tables, n);
  }
  pz_must(call, pz_calibrate(chip, &options, &fit, pz_call_error(call)));
  pz_defer(call, pz_object_free, fit);
  for (uint32_t i = 0; i < fit->n_notes; i++)
    pz_command_warn(settings->common.quiet, fit->notes[i]);
  if (settings->out) pz_machine_save_chip(call, fit->chip, settings->out);
  if (settings->common.json)
    pz_command_print_json(call, pz_record_json(&pz_calibrated_record, fit));
  else
    print_fit(call, fit);
}

/* ---- chips corrected by training steps ------------------------------------------------------ */

/* Prints the errors of each measured step, the fitted factors, and the mean errors. */
static void print_correction(struct pz_call *call, const struct pz_step_calibration *fit) {
  struct pz_table *table = pz_table_new(call, "step|>measured (s)|>before|>by others|>corrected");
  for (uint32_t i = 0; i < fit->n_steps; i++) {
    const struct pz_step_residual *step = &fit->steps[i];
    pz_table_cells(table, "%s|%.4g", step->id, step->measured_s);
    const double predicted_s[] = {step->before_s, step->left_out_s, step->after_s};
    for (size_t k = 0; k < sizeof predicted_s / sizeof *predicted_s; k++) /* 0 is unknown */
      pz_table_known(table, predicted_s[k] > 0, "%+.1f%%",
                     100 * (predicted_s[k] / step->measured_s - 1));
  }
  pz_table_print(table, 0, stdout);
  pz_machine_show_factors(call, fit->factors, fit->n_factors);
  printf("\nmean error of the step time: %.1f%% before, %.1f%% corrected", 100 * fit->errors.before,
         100 * fit->errors.after);
  if (!isnan(fit->errors.left_out))
    printf("; %.1f%% where each step is predicted from the others", 100 * fit->errors.left_out);
  printf("\n");
  if (fit->n_held)
    printf("%u steps that were not used: %.1f%% before, %.1f%% corrected\n", fit->n_held,
           100 * fit->held_errors.before, 100 * fit->held_errors.after);
}

/* Corrects the times of --chip by factors that measured training steps determine. */
static void correct_chip(struct pz_call *call, const struct settings *settings) {
  struct pz_calibrate_steps_options options = pz_calibrate_steps_options_default();
  struct pz_step_calibration *fit = NULL;
  options.steps = settings->steps;
  options.plan = settings->plan;
  options.devices = settings->devices;
  options.threads = (unsigned)settings->threads;
  options.held = settings->held;
  options.chip = settings->chip;
  options.cluster = settings->cluster;
  pz_must(call, pz_calibrate_steps(&options, &fit, pz_call_error(call)));
  pz_defer(call, pz_object_free, fit);
  for (uint32_t i = 0; i < fit->n_notes; i++)
    pz_command_warn(settings->common.quiet, fit->notes[i]);
  if (settings->out) {
    if (!fit->chip)
      pz_raise(call, PZ_BAD_USE,
               "%s has steps of several chips; accepted: --chip CHIP, the one to correct",
               settings->steps);
    pz_file_require_output(call, settings->out, fit->files, fit->n_files);
    pz_machine_save_chip(call, fit->chip, settings->out);
  }
  if (settings->common.json)
    pz_command_print_json(call, pz_record_json(&pz_step_calibration_record, fit));
  else
    print_correction(call, fit);
}

/* ---- clusters fitted to collectives --------------------------------------------------------- */

/* Prints the rate and the latency that were fitted for each level of the network. */
static void print_levels(const struct pz_network_calibration *fit) {
  for (int level_index = 0; level_index < fit->cluster.n_levels; level_index++) {
    const struct pz_network_level_fit *fitted = &fit->levels[level_index];
    const struct pz_level *level = &fit->cluster.level[level_index];
    double rate = level->bytes_per_s;
    char least[32], most[32];
    if (!fitted->rows) {
      printf("%s: no row shows it; it stays as it was\n", level->name);
      continue;
    }
    printf("%s: a device reaches %.4g of the %.4g GB/s of the data sheet (%.0f%%; before the fit "
           "%.0f%%)\n",
           level->name, fitted->after_bytes_per_s / 1e9, rate / 1e9,
           100 * fitted->after_bytes_per_s / rate, 100 * fitted->before_bytes_per_s / rate);
    printf("  %s takes %.3g us (before the fit %.3g us)",
           level_index ? "a message" : "the start of a collective", 1e6 * fitted->after_s,
           1e6 * fitted->before_s);
    if (level_index)
      printf(", large messages start %.3g us later", 1e6 * level->collectives.startup_s);
    printf("\n  %u row%s from %s to %s\n", fitted->rows, pz_text_s(fitted->rows),
           pz_text_si(least, sizeof least, fitted->least_bytes, "B"),
           pz_text_si(most, sizeof most, fitted->most_bytes, "B"));
  }
}

/* Prints the fitted levels of a cluster, and the mean errors of each test by message size. */
static void print_network(struct pz_call *call, const struct pz_network_calibration *fit) {
  struct pz_table *table =
      pz_table_new(call, "test|>rows|>up to 64 KiB|>up to 16 MiB|>larger|>all sizes");
  for (uint32_t i = 0; i < fit->n_tests; i++) {
    const struct pz_network_error *test = &fit->tests[i];
    pz_table_cells(table, "%s|%u", test->test, test->rows[PZ_NETWORK_SIZES - 1]);
    for (int k = 0; k < PZ_NETWORK_SIZES; k++)
      pz_table_known(table, test->rows[k] > 0, "%.1f%%, %.1f%%", 100 * test->before[k],
                     100 * test->after[k]);
  }
  printf("cluster %s, chip %s\n\n", fit->cluster.name, fit->chip);
  print_levels(fit);
  printf("\nmean error of predicted times, before and after the fit\n\n");
  pz_table_print(table, 0, stdout);
}

/* Fits rate and latency of each level of a cluster to the output of nccl-tests. */
static void calibrate_network(struct pz_call *call, const struct settings *settings) {
  struct pz_calibrate_network_options options = pz_calibrate_network_options_default();
  struct pz_network_calibration *fit = NULL;
  options.logs = settings->network;
  options.chip = settings->chip;
  options.cluster = settings->cluster;
  options.devices = settings->devices;
  options.node_devices = settings->node_devices;
  pz_must(call, pz_calibrate_network(&options, &fit, pz_call_error(call)));
  pz_defer(call, pz_object_free, fit);
  for (uint32_t i = 0; i < fit->n_notes; i++)
    pz_command_warn(settings->common.quiet, fit->notes[i]);
  if (settings->out) {
    char *text = NULL;
    pz_file_require_output(call, settings->out, fit->files, fit->n_files);
    if (settings->cluster) pz_file_require_output(call, settings->out, &settings->cluster, 1);
    if (settings->chip) pz_file_require_output(call, settings->out, &settings->chip, 1);
    pz_must(call, pz_cluster_text(&fit->cluster, &text, pz_call_error(call)));
    pz_command_save_text(call, settings->out, text);
  }
  if (settings->common.json)
    pz_command_print_json(call, pz_record_json(&pz_network_calibration_record, fit));
  else
    print_network(call, fit);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Checks the options, and fits or corrects what --ops, --steps or --network asks for. */
static void calibrate(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  const char *misuse = NULL;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *ops = settings.ops, *steps = settings.steps, *network = settings.network;
  if ((ops != NULL) + (steps != NULL) + (network != NULL) != 1)
    misuse = "one of --ops FILE|DIR, --steps FILE and --network LOG,... is required";
  else if (!steps && (settings.held || settings.plan))
    misuse = "--held and --plan are of --steps";
  else if (ops && (settings.cluster || settings.devices))
    misuse = "--devices and --cluster are of --steps and --network";
  else if (!network && settings.node_devices)
    misuse = "--devices-per-node is of --network";
  else if (ops && !settings.chip)
    misuse = "--chip CHIP is required";
  if (misuse) pz_command_refuse(call, invocation, misuse);
  if (settings.network)
    calibrate_network(call, &settings);
  else if (settings.steps)
    correct_chip(call, &settings);
  else
    calibrate_chip(call, &settings);
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .body = calibrate,
};
