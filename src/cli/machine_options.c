/* Reads the chip and the network that the options or the file of a training run name
 * (machine_options.h): first the network of a chip, then the files of chip and cluster, runs and
 * plan files, and the description of a chip as output. */
#include "cli/machine_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "report/table.h"

/* ---- chip and network ----------------------------------------------------------------------- */

/* Prints to stderr that a cluster was scaled out beyond the devices of its description. */
void pz_machine_report_scaling(const struct pz_cluster *cluster) {
  if (cluster->devices > cluster->stated_devices)
    fprintf(stderr,
            "phaze: cluster %s: %" PRId64 " devices, scaled out from %" PRId64
            " at the rates of its outermost level\n",
            cluster->name, cluster->devices, cluster->stated_devices);
}

/* Reads chip and cluster, chooses the network for the devices, and prints notes about it. */
struct pz_machine *pz_machine_open(struct pz_call *call, const struct pz_machine_options *options,
                                   struct pz_machine_use use) {
  struct pz_error *err = pz_call_error(call);
  struct pz_machine *machine = pz_alloc(call, 1, sizeof *machine);
  struct pz_network *network = &machine->network;
  struct pz_cluster *named = NULL;
  pz_chip_read_units(call, options->chip, options->any_units, &machine->chip);
  if (options->cluster) {
    named = pz_alloc(call, 1, sizeof *named);
    pz_cluster_read_units(call, options->cluster, options->any_units, named);
  }
  if (use.training) {
    pz_must(call, pz_network_find(&machine->chip, named, use.devices, use.option, network, err));
  } else {
    /* Without a plan, only a cluster that was named is used, or else the chip's own link. */
    network->own_link = !named;
    if (named) {
      network->cluster = *named;
      pz_must(call, pz_cluster_reach(&network->cluster, use.devices, use.option, err));
    }
  }
  if (!network->own_link || network->cluster.instant) machine->net = &network->cluster;
  if (!network->own_link) machine->net_name = network->cluster.name;
  if (use.quiet) return machine;
  if (network->standard)
    pz_command_say("no --cluster: %s, the network of %s", network->cluster.name,
                   machine->chip.name);
  if (*network->warning) pz_command_warn(false, network->warning);
  if (!network->own_link) pz_machine_report_scaling(&network->cluster);
  return machine;
}

/* Opens the machine of the options and returns an estimator of operators for it. */
struct pz_cost *pz_machine_cost(struct pz_call *call, const struct pz_machine_options *options,
                                struct pz_machine_use use) {
  const struct pz_machine *machine = pz_machine_open(call, options, use);
  struct pz_cost *cost = NULL;
  pz_must(call, pz_cost_new(&machine->chip, machine->net, &cost, pz_call_error(call)));
  pz_defer(call, pz_object_free, cost);
  return cost;
}

/* ---- files of chip and cluster -------------------------------------------------------------- */

/* Returns whether a path is the file of the chip or of the cluster. */
bool pz_machine_reads(const struct pz_machine_options *options, const char *path) {
  const char *const paths[] = {options->chip, options->cluster};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (paths[i] && pz_file_named(paths[i]) && pz_file_same(paths[i], path)) return true;
  return false;
}

/* Returns an error message if an output would overwrite a file that is read, otherwise NULL. */
const char *pz_machine_find_overwrite(const struct pz_machine_options *options, const char *input,
                                      const char *trace_path, const char *report_path) {
  if (trace_path && (pz_file_same(trace_path, input) || pz_machine_reads(options, trace_path)))
    return "--trace would overwrite the input file";
  if (report_path && (pz_file_same(report_path, input) || pz_machine_reads(options, report_path)))
    return "--report would overwrite the input file";
  return NULL;
}

/* Returns the part of a JSON answer that states model, chip, cluster and their files. */
struct pz_asked pz_machine_asked(const struct pz_machine *machine,
                                 const struct pz_machine_options *options, const char *model) {
  struct pz_asked asked = {.model = model,
                           .chip = machine->chip.name,
                           .cluster = machine->net_name,
                           .warning = machine->network.warning};
  if (options->chip && pz_file_named(options->chip)) asked.chip_file = options->chip;
  if (options->cluster && pz_file_named(options->cluster)) asked.cluster_file = options->cluster;
  return asked;
}

/* ---- training runs -------------------------------------------------------------------------- */

/* Reads a training run from a file, or from standard input if the path is "-". */
struct pz_run_file pz_run_file_read(struct pz_call *call, const char *path,
                                    const struct pz_run_plan_options *options) {
  bool is_stdin = strcmp(path, "-") == 0;
  struct pz_run_file file = {.name = is_stdin ? "standard input" : path};
  const char *source = is_stdin ? "/dev/stdin" : path;
  size_t bytes = 0;
  file.text = pz_file_text(call, source, PZ_PLAN_FILE_MOST_BYTES, &bytes);
  pz_must(call,
          pz_run_plan_read(file.name, file.text, bytes, options, &file.run, pz_call_error(call)));
  pz_defer(call, pz_object_free, file.run);
  return file;
}

/* Prints the notes on a run, and its arguments that were not understood, as warnings. */
void pz_run_file_warn(bool quiet, const struct pz_run_plan *run) {
  enum { MOST_BYTES = 300 }; /* length at which the list of names is cut */
  char names[400] = "", line[480];
  size_t n = 0;
  for (uint32_t i = 0; i < run->n_notes; i++) pz_command_warn(quiet, run->notes[i]);
  for (uint32_t i = 0; i < run->n_ignored && n < MOST_BYTES; i++) {
    bool is_key = strchr(run->ignored[i], '.'); /* a key of a configuration file, not an argument */
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s%s", i ? ", " : "", is_key ? "" : "--",
                          run->ignored[i]);
  }
  if (!n) return;
  snprintf(line, sizeof line, "not understood, and not counted: %s%s", names,
           n >= MOST_BYTES ? " ..." : "");
  pz_command_warn(quiet, line);
}

/* Opens the machine of a run; options for chip and cluster override those of the run. */
struct pz_machine *pz_machine_of_run(struct pz_call *call, const struct pz_machine_options *options,
                                     const char *name, bool quiet, struct pz_run_plan *run) {
  if (options->chip) {
    run->from[PZ_RUN_CHIP] = "--chip";
    run->chip = options->chip;
  }
  if (options->cluster) {
    run->from[PZ_RUN_CLUSTER] = "--cluster";
    run->cluster = options->cluster;
  }
  if (!run->chip)
    pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP, and --cluster NET", name);
  struct pz_machine_options merged = {run->chip, run->cluster, options->any_units};
  struct pz_machine_use use = {"devices", pz_plan_asked_devices(&run->plan), quiet,
                               .training = true};
  return pz_machine_open(call, &merged, use);
}

struct plan_test {
  const char *path;
  bool is_plan;
};

/* Sets is_plan if the file is a JSON object with the key model, plan or run. */
static void test_plan_file(struct pz_call *call, void *ctx) {
  struct plan_test *test = ctx;
  size_t bytes = 0;
  char *text = pz_file_text(call, test->path, PZ_PLAN_FILE_MOST_BYTES, &bytes);
  if (text[strspn(text, " \t\r\n")] != '{') return;
  test->is_plan = true; /* even if the JSON is malformed: the reader of plans then reports it */
  json_t *root = pz_json_read(call, test->path, text, bytes);
  test->is_plan = json_object_get(root, "model") || json_object_get(root, "plan") ||
                  json_object_get(root, "run");
}

/* Returns whether a regular file is JSON with a model, a plan or a run. */
bool pz_is_plan_file(const char *path) {
  struct plan_test test = {.path = path};
  if (!pz_file_is_regular(path)) return false;
  enum pz_status status = pz_border(test_plan_file, &test, NULL);
  (void)status; /* the function that reads the file next reports the error */
  return test.is_plan;
}

/* ---- calibrated chips ----------------------------------------------------------------------- */

/* Writes the description of a chip to a file. */
void pz_machine_save_chip(struct pz_call *call, const struct pz_chip *chip, const char *path) {
  char *text = NULL;
  pz_must(call, pz_chip_text(chip, &text, pz_call_error(call)));
  pz_command_save_text(call, path, text);
}

/* Prints the factors of a correction as changes in percent, with their shares of the step. */
void pz_machine_show_factors(struct pz_call *call, const struct pz_step_factor *factors,
                             uint32_t n) {
  static const char *const names[] = {"GEMMs", "attention", "element-wise, optimizer", "launches",
                                      "collectives, transfers"};
  struct pz_table *table = pz_table_new(call, "part of the step|>share|>time by");
  for (uint32_t i = 0; i < n; i++)
    pz_table_cells(table, "%s|%.0f%%|%+.1f%%", names[i], 100 * factors[i].share,
                   100 * (factors[i].factor - 1));
  printf("\n");
  pz_table_print(table, 0, stdout);
}
