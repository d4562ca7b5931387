/* phaze predict: step time and memory of a training plan, or of every run of a table.
 *
 * predict() checks the arguments and calls predict_file() for a plan file, predict_plan() for a
 * model with options, or pz_predict_runs() for a table.  predict_plan() opens the machine, asks
 * the library for the prediction, writes the files that are asked for, and prints the answer as
 * a script, JSON or text.  The text and the cost of a run are in predict_print.c, and --runs is
 * in predict_runs.c. */
#include <stdio.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/alloc.h"
#include "core/file.h"
#include "report/records.h"
#include "report/table.h"

static const struct pz_predict_settings defaults = {.plan =
                                                        {
                                                            .size = sizeof(struct pz_plan),
#include "cli/plan_unset.def"
                                                        },
                                                    .checkpoint_s = -1,
                                                    .restart_s = -1};

#define SETTINGS struct pz_predict_settings
#define AT(field) offsetof(SETTINGS, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
#define PLAN_OF(field) AT(plan.field)
#define OWN
#define SEARCH(x) .default_text = x,
#define FOLLOW(x) .default_text = x,
#include "cli/plan_options.def"
    PZ_FLAG_OPTION("no-network", AT(no_network), "Collectives and transfers take no time: the step without its bubble is the compute of a rank alone"),
    PZ_TEXT_OPTION("tokens", AT(tokens), "N", "Show what a run over so many tokens costs: 300B, 15T"),
    PZ_REAL_OPTION("price", AT(price), "P", 0, 1e9, "With --tokens: dollars per device-hour"),
    PZ_REAL_OPTION("mtbf-hours", AT(mtbf_hours), "H", 1e-3, 1e12, "With --tokens: mean time between failures of one device, with its share of host and network (hours); a job on N devices fails N times as often"),
    PZ_REAL_OPTION("checkpoint-s", AT(checkpoint_s), "S", 0, 1e9, "With --mtbf-hours: seconds to write a checkpoint (default: 14 bytes a parameter at 0.125 GB/s from each device)"),
    PZ_REAL_OPTION("restart-s", AT(restart_s), "S", 0, 1e9, "With --mtbf-hours: seconds from a failure until training goes on (default: 600)"),
    PZ_FLAG_OPTION("explain", AT(explain), "Show where every field of the plan comes from, and which constants count for the result"),
    PZ_TEXT_OPTION("trace", AT(trace), "FILE.json", "Write the simulated pipeline of one replica as a trace for Perfetto or chrome://tracing"),
    PZ_TEXT_OPTION("report", AT(report), "PAGE.html", "Write the plan as one self-contained HTML page: parts of the step, pipeline and memory over time"),
    PZ_CHOICE_OPTION("emit", AT(emit), pz_launch_names, "Print a script that launches the plan in this framework instead of the prediction"),
    PZ_TEXT_OPTION("runs", AT(runs), "FILE.csv", "Predict every run of a table instead of a MODEL"),
    PZ_TEXT_OPTION("csv", AT(csv), "OUT.csv", "With --runs: write the table with predictions, errors and parts to this file"),
    PZ_INT_OPTION("threads", AT(threads), "T", 0, 1024, "Number of threads for --runs (default: 0, one per processor)"),
};
/* clang-format on */

/* ---- files ---------------------------------------------------------------------------------- */

struct page_test {
  const char *path;
  bool is_explore;
};

/* Tests whether the first bytes of a file contain the title of a page of `phaze explore`. */
static void test_page(struct pz_call *call, void *ctx) {
  static const char title[] = "<title>phaze explore</title>";
  enum { HEAD_BYTES = 1 << 12, MOST_BYTES = 1 << 24 };
  struct page_test *test = ctx;
  const size_t n = strlen(title);
  const struct pz_file_bytes *file = pz_file_open(call, test->path, MOST_BYTES);
  size_t head_bytes = file->bytes < HEAD_BYTES ? file->bytes : HEAD_BYTES;
  for (size_t at = 0; at + n <= head_bytes; at++)
    if (memcmp((const char *)file->data + at, title, n) == 0) test->is_explore = true;
}

/* Writes the plans of a scaling as an HTML page. */
void pz_predict_write_page(struct pz_call *call, const char *path, const char *model,
                           const struct pz_machine *machine, const struct pz_scaling *scaling) {
  static const char explore[] = "explore.html";
  char *text = NULL;
  size_t bytes = 0;
  /* The page links to a page of `phaze explore` in the same folder, if there is one. */
  const char *slash = strrchr(path, '/');
  int folder_bytes = slash ? (int)(slash - path) + 1 : 0;
  struct page_test neighbour = {.path = pz_format(call, "%.*s%s", folder_bytes, path, explore)};
  bool found = pz_border(test_page, &neighbour, NULL) == PZ_OK && neighbour.is_explore;
  struct pz_plan_page page = {.size = sizeof page,
                              .model = model,
                              .chip = &machine->chip,
                              .net = machine->net,
                              .rows = scaling->rows,
                              .n_rows = scaling->n_rows,
                              .weak = scaling->weak,
                              .explore = found ? explore : NULL};
  pz_must(call, pz_plan_page(&page, &text, &bytes, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  pz_file_save(call, path, text, bytes);
}

/* ---- the explanation ------------------------------------------------------------------------ */

/* Returns the origin of every plan field and the constants that affect the prediction. */
static const struct pz_explanation *explain_plan(struct pz_call *call,
                                                 const struct pz_predicted *predicted) {
  struct pz_explanation *explanation = NULL;
  pz_must(call,
          pz_training_explain(predicted->model, &predicted->machine->chip, predicted->machine->net,
                              &predicted->settings->plan, &explanation, pz_call_error(call)));
  pz_defer(call, pz_object_free, explanation);
  return explanation;
}

/* Prints the origin of each plan field, and the effect of each constant on step and memory. */
static void print_explanation(struct pz_call *call, const struct pz_explanation *explanation,
                              const char *chip) {
  struct pz_table *fields = pz_table_new(call, "plan|value|from");
  struct pz_table *constants = pz_table_new(call, "constant|>value|unit|>step|>memory|part|source");
  for (uint32_t i = 0; i < explanation->n_fields; i++) {
    const struct pz_field_origin *field = &explanation->fields[i];
    pz_table_cells(fields, "%s|%s|%s", field->name, field->value, field->from);
  }
  for (uint32_t i = 0; i < explanation->n_constants; i++) {
    const struct pz_constant_effect *constant = &explanation->constants[i];
    pz_table_cells(constants, "%s|%g|%s", constant->name, constant->value,
                   constant->unit[0] ? constant->unit : "-");
    const double changes[] = {constant->step_change, constant->memory_change};
    for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
      bool visible = changes[k] > 5e-6 || changes[k] < -5e-6; /* not printed as 0.00% */
      pz_table_known(constants, visible, "%+.2f%%", 100 * changes[k]);
    }
    pz_table_cells(constants, "%s|%s: %s", constant->part, constant->kind, constant->source);
  }
  putchar('\n');
  pz_table_print(fields, 0, stdout);
  printf(
      "\nConstants that count for this plan; step, memory: the change if one is a tenth larger.\n"
      "Rates of the chip and of the network are in 'phaze chip %s' and its cluster.\n",
      chip);
  pz_table_print(constants, 0, stdout);
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* Prints the plan as a script, whose second line says so if the plan does not fit. */
static void print_plan_script(struct pz_call *call, const struct pz_predicted *predicted) {
  char *text = NULL;
  pz_must(call, pz_launch_text(predicted->model, &predicted->machine->chip, predicted->machine->net,
                               &predicted->run->plan, &text, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  if (pz_prediction_fits(&predicted->run->p)) {
    fputs(text, stdout);
    return;
  }
  size_t interpreter_line = strcspn(text, "\n") + 1;
  pz_command_warn(predicted->settings->common.quiet, "the plan does not fit in memory");
  printf("%.*s# ", (int)interpreter_line, text);
  pz_predict_print_misfit(predicted->run);
  fputs(text + interpreter_line, stdout);
}

/* Prints the prediction as JSON, with changes that make the plan fit if it does not. */
static void print_predicted_json(struct pz_call *call, const struct pz_predicted *predicted) {
  const struct pz_predict_settings *settings = predicted->settings;
  struct pz_predict_answer answer = {
      .asked = pz_machine_asked(predicted->machine, &settings->machine, predicted->model),
      .run = predicted->run,
      .no_network = settings->no_network};
  if (settings->tokens) answer.cost = &predicted->cost;
  if (!pz_prediction_fits(&predicted->run->p))
    answer.fits_with = pz_predict_changes(call, predicted);
  if (settings->explain) answer.explanation = explain_plan(call, predicted);
  pz_command_print_json(call, pz_record_json(&pz_predict_answer_record, &answer));
}

/* Warns if the devices do not fill whole nodes, which the model of the network assumes. */
static void warn_of_partial_nodes(const struct pz_predicted *predicted) {
  const struct pz_cluster *cluster = predicted->machine->net;
  if (!cluster || cluster->instant || cluster->n_levels < 2) return;
  int64_t node = cluster->level[0].devices, devices = predicted->run->plan.devices;
  char text[160];
  if (devices <= node || devices % node == 0) return;
  snprintf(text, sizeof text,
           "%lld devices do not fill groups of %lld, the innermost level of cluster %s",
           (long long)devices, (long long)node, cluster->name);
  pz_command_warn(predicted->settings->common.quiet, text);
}

/* Predicts a plan and prints the answer.  Returns whether the plan fits in memory. */
static bool predict_plan(struct pz_call *call, const struct pz_predict_settings *settings,
                         const char *model) {
  bool quiet = settings->common.quiet;
  struct pz_plan plan = settings->plan;
  struct pz_machine_use use = {"devices", pz_plan_asked_devices(&plan), quiet, .training = true};
  if (settings->emit) {
    int emitted = pz_framework_find(pz_launch_names[settings->emit]);
    if (plan.framework >= 0 && plan.framework != emitted)
      pz_raise(call, PZ_BAD_USE, "framework %s with --emit %s; accepted: the same",
               pz_framework_names[plan.framework], pz_launch_names[settings->emit]);
    plan.framework = emitted;
  }
  if (plan.sp == 1 && plan.tp <= 1)
    pz_raise(call, PZ_BAD_USE, "--sp with --tp 1; accepted: --tp above 1");
  struct pz_machine *machine = pz_machine_open(call, &settings->machine, use);
  if (settings->no_network) {
    pz_network_make_instant(&machine->network, &machine->chip, use.devices);
    machine->net = &machine->network.cluster;
  }
  if (settings->trace) pz_file_require_output(call, settings->trace, NULL, 0);
  if (settings->report) pz_file_require_output(call, settings->report, NULL, 0);

  struct pz_training_run *run = NULL;
  pz_must(call, pz_training_predict(model, &machine->chip, machine->net, &plan,
                                    settings->trace != NULL, &run, pz_call_error(call)));
  pz_defer(call, pz_object_free, run);
  struct pz_predicted predicted = {
      .settings = settings, .model = model, .machine = machine, .run = run};
  warn_of_partial_nodes(&predicted);
  if (run->refusal[0] && !settings->emit) pz_command_warn(quiet, run->refusal);
  if (settings->tokens) predicted.cost = pz_predict_cost(call, settings, machine, run);
  if (settings->trace) {
    char *trace = NULL;
    pz_must(call, pz_training_run_trace(run, model, &trace, pz_call_error(call)));
    pz_command_save_text(call, settings->trace, trace);
  }
  if (settings->report) {
    struct pz_scaling_row row = {.devices = run->plan.devices,
                                 .batch = run->plan.batch,
                                 .run = run,
                                 .tokens_per_s_per_device = run->p.tokens_per_s_per_device};
    struct pz_scaling one = {.rows = &row, .n_rows = 1};
    pz_predict_write_page(call, settings->report, model, machine, &one);
  }

  if (settings->emit) {
    print_plan_script(call, &predicted);
  } else if (settings->common.json) {
    print_predicted_json(call, &predicted);
  } else {
    pz_predict_print(call, &predicted);
    if (settings->explain)
      print_explanation(call, explain_plan(call, &predicted), machine->chip.name);
  }
  return pz_prediction_fits(&run->p);
}

/* ---- a plan file ---------------------------------------------------------------------------- */

struct file_prediction {
  struct pz_predict_settings *settings;
  const char *path;
  bool fits;
};

/* Predicts the run of a plan file.  Options that were given override its plan, chip and cluster. */
static void predict_file(struct pz_call *call, void *ctx) {
  struct file_prediction *prediction = ctx;
  struct pz_predict_settings *settings = prediction->settings;
  struct pz_run_plan_options options = pz_run_plan_options_default();
  struct pz_run_file file = pz_run_file_read(call, prediction->path, &options);
  if (file.run->config)
    pz_raise(call, PZ_BAD_INPUT,
             "%s describes its model by a config; accepted: a model by its name or the path of its "
             "config.json",
             file.name);
  pz_run_plan_change(file.run, &settings->plan);
  settings->plan = file.run->plan;
  if (!settings->machine.chip) settings->machine.chip = file.run->chip;
  if (!settings->machine.cluster) settings->machine.cluster = file.run->cluster;
  if (!settings->machine.chip)
    pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP", file.name);
  prediction->fits = predict_plan(call, settings, file.run->model);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns an error message if the options are inconsistent, otherwise NULL.  `is_plan` says
 * whether the argument is a plan file. */
static const char *predict_misuse(struct pz_call *call, const struct pz_predict_settings *settings,
                                  const char *model, bool is_plan) {
  const struct pz_option *model_option =
      settings->runs ? pz_command_changed(&pz_cmd_predict, AT(machine), settings, &defaults) : NULL;
  if (model_option) {
    char name[64];
    return pz_format(call, "--%s is for one MODEL; --runs takes all from the table",
                     pz_option_name(model_option->name, name, sizeof name));
  }
  if (settings->csv && !settings->runs) return "--csv requires --runs";
  if (settings->emit &&
      (settings->common.json || settings->explain || settings->tokens || settings->no_network))
    return "--emit cannot be combined with --json, --explain, --tokens or --no-network";
  if (!settings->tokens && (settings->price > 0 || settings->mtbf_hours > 0))
    return "--price and --mtbf-hours require --tokens";
  if (!(settings->mtbf_hours > 0) && (settings->checkpoint_s >= 0 || settings->restart_s >= 0))
    return "--checkpoint-s and --restart-s require --mtbf-hours";
  if (settings->runs) return NULL;
  if (!settings->machine.chip && !is_plan) return "--chip is required with a MODEL";
  return pz_machine_find_overwrite(&settings->machine, model, settings->trace, settings->report);
}

/* Predicts the runs of a table, a plan file, or a model with the plan of the options. */
static void predict(struct pz_call *call, struct pz_invocation *invocation) {
  SETTINGS settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  if (invocation->n_args != (settings.runs ? 0 : 1))
    pz_command_refuse(call, invocation, "expected one MODEL or PLAN.json, or --runs FILE.csv");
  const char *model = invocation->args[0];
  bool is_plan = !settings.runs && pz_is_plan_file(model), fits = true;
  const char *misuse = predict_misuse(call, &settings, model, is_plan);
  if (misuse) pz_command_refuse(call, invocation, misuse);
  if (settings.runs) {
    pz_predict_runs(call, &settings);
  } else if (is_plan) {
    /* Every error message about the input must contain the name of the file. */
    struct file_prediction prediction = {.settings = &settings, .path = model};
    struct pz_error why = {0};
    if (pz_border(predict_file, &prediction, &why) != PZ_OK)
      pz_command_raise_about(call, model, &why);
    fits = prediction.fits;
  } else {
    fits = predict_plan(call, &settings, model);
  }
  if (!fits) invocation->exit = PZ_EXIT_NO_ANSWER;
}

const struct pz_command pz_cmd_predict = {
    .name = "predict",
    .synopsis = "MODEL --chip CHIP [--cluster NET] [--devices N] [plan] | PLAN.json [plan] | "
                "--runs FILE.csv",
    .summary = "Predict the step time and memory of a training plan as frameworks run it",
    .detail =
        "Operators run one after another on each device, as fast as the chip's calibration\n"
        "says or as the host launches them; the pipeline is simulated event by event.\n"
        "What is not given is as the framework does it; --explain shows each field.\n"
        "A plan that does not fit in memory is predicted all the same: the first line says so,\n"
        "and the exit status is 1.\n"
        "PLAN.json is what place or predict printed with --json; options change it.\n"
        "--runs predicts every row of a table: a model's name and a chip are enough, other\n"
        "columns are fields of the plan (n_dev devices, gbs batch), what was measured\n"
        "(step_time_s, peak_bytes; errors are shown by group) and the model's shape. What is\n"
        "not covered is a reason in the table.\n"
        "\n"
        "Examples:\n"
        "  phaze predict llama2-7b --chip h100 --cluster dgx-h100 --devices 64 --tp 4 --batch 512\n"
        "  phaze predict llama3-70b --chip h100 --cluster dgx-h100 --devices 1024 --tp 8 --pp 4\n"
        "      --batch 1024 --tokens 15T --price 2.5 --mtbf-hours 50000\n"
        "  phaze predict llama2-7b --chip h100 --cluster dgx-h100 --devices 64 --tp 4 --batch 512\n"
        "      --zero 1 --emit megatron > launch.sh\n"
        "  phaze place llama3-8b --chip h100 --devices 64 --json > plan.json\n"
        "  phaze predict plan.json --mbs 2\n"
        "  phaze predict --runs runs.csv --csv predicted.csv\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = predict,
};
