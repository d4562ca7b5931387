/* phaze predict: step time and memory of a training plan, or of every run of a table.
 *
 * predict() checks the arguments and calls predict_file() for a plan file, predict_plan() for a model with options, or
 * pz_predict_runs() for a table.  predict_plan() opens the machine, asks the library for the prediction, writes the files
 * that are asked for, and prints the answer as a script, JSON or text.  The text is in predict_print.c, the cost of a run
 * in predict_cost.c and --runs in predict_runs.c. */
#include <stdio.h>
#include <string.h>

#include "cli/owned.h"
#include "cli/predict_options.h"
#include "core/file.h"
#include "report/table.h"
#include "report/training_json.h"

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
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
#define PLAN_OF(field) AT(plan.field)
#define OWN
#define SEARCH(x) .standard = x,
#define FOLLOW(x) .standard = x,
#include "cli/plan_options.def"
    {.name = "no-network", .type = PZ_OPTION_FLAG, .offset = AT(no_network), .help = "Collectives and transfers take no time: the step without its bubble is the compute of a rank alone"},
    {.name = "tokens", .type = PZ_OPTION_TEXT, .offset = AT(tokens), .arg = "N", .help = "Show what a run over so many tokens costs: 300B, 15T"},
    {.name = "price", .type = PZ_OPTION_REAL, .offset = AT(price), .arg = "P", .min = 0, .max = 1e9, .help = "With --tokens: dollars per device-hour"},
    {.name = "mtbf-hours", .type = PZ_OPTION_REAL, .offset = AT(mtbf_hours), .arg = "H", .min = 1e-3, .max = 1e12, .help = "With --tokens: mean time between failures of one device, with its share of host and network (hours); a job on N devices fails N times as often"},
    {.name = "checkpoint-s", .type = PZ_OPTION_REAL, .offset = AT(checkpoint_s), .arg = "S", .min = 0, .max = 1e9, .help = "With --mtbf-hours: seconds to write a checkpoint (default: 14 bytes a parameter at 0.125 GB/s from each device)"},
    {.name = "restart-s", .type = PZ_OPTION_REAL, .offset = AT(restart_s), .arg = "S", .min = 0, .max = 1e9, .help = "With --mtbf-hours: seconds from a failure until training goes on (default: 600)"},
    {.name = "explain", .type = PZ_OPTION_FLAG, .offset = AT(explain), .help = "Show where every field of the plan comes from, and which constants count for the result"},
    {.name = "trace", .type = PZ_OPTION_TEXT, .offset = AT(trace), .arg = "FILE.json", .help = "Write the simulated pipeline of one replica as a trace for Perfetto or chrome://tracing"},
    {.name = "report", .type = PZ_OPTION_TEXT, .offset = AT(report), .arg = "PAGE.html", .help = "Write the plan as one self-contained HTML page: parts of the step, pipeline and memory over time"},
    {.name = "emit", .type = PZ_OPTION_CHOICE, .offset = AT(emit), .choices = pz_launch_names, .help = "Print a script that launches the plan in this framework instead of the prediction"},
    {.name = "runs", .type = PZ_OPTION_TEXT, .offset = AT(runs), .arg = "FILE.csv", .help = "Predict every run of a table instead of a MODEL"},
    {.name = "csv", .type = PZ_OPTION_TEXT, .offset = AT(csv), .arg = "OUT.csv", .help = "With --runs: write the table with predictions, errors and parts to this file"},
    {.name = "threads", .type = PZ_OPTION_INT, .offset = AT(threads), .arg = "T", .min = 0, .max = 1024, .help = "Number of threads for --runs (default: 0, one per processor)"},
};
/* clang-format on */

/* ---- files ---------------------------------------------------------------------------------- */

void pz_predict_write_trace(struct pz_call *call, const struct pz_training_run *r,
                            const char *model, const char *path) {
  char *text = NULL;
  pz_must(call, pz_training_run_trace(r, model, &text, pz_call_error(call)));
  pz_command_save_text(call, path, text);
}

static const char EXPLORE[] = "explore.html";

struct page_test {
  const char *page;
  bool is_explore;
};

/* Tests for the title of a page of `phaze explore` in the first bytes of a file. */
static void test_page(struct pz_call *call, void *ctx) {
  static const char title[] = "<title>phaze explore</title>";
  enum { HEAD_BYTES = 1 << 12, MOST_BYTES = 1 << 24 };
  struct page_test *test = ctx;
  const size_t n = strlen(title);
  const struct pz_file_bytes *file = pz_file_open(call, test->page, MOST_BYTES);
  size_t head_bytes = file->bytes < HEAD_BYTES ? file->bytes : HEAD_BYTES;
  const char *at = file->data, *end = at + head_bytes;
  for (; at + n <= end && !test->is_explore; at++) test->is_explore = memcmp(at, title, n) == 0;
}

void pz_predict_write_page(struct pz_call *call, const char *path, const char *model,
                           const struct pz_machine *m, const struct pz_scaling *s) {
  char *text = NULL;
  size_t bytes = 0;
  /* The page links to a page of `phaze explore` in the same folder, if there is one. */
  const char *slash = strrchr(path, '/');
  int folder_bytes = slash ? (int)(slash - path) + 1 : 0;
  struct page_test beside = {.page = pz_format(call, "%.*s%s", folder_bytes, path, EXPLORE)};
  bool found = pz_border(test_page, &beside, NULL) == PZ_OK && beside.is_explore;
  struct pz_plan_page page = {.size = sizeof page,
                              .model = model,
                              .chip = &m->chip,
                              .net = pz_machine_net(m),
                              .rows = s->rows,
                              .n_rows = s->n_rows,
                              .weak = s->weak,
                              .explore = found ? EXPLORE : NULL};
  pz_must(call, pz_plan_page(&page, &text, &bytes, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  pz_file_save(call, path, text, bytes);
}

/* ---- the explanation ------------------------------------------------------------------------ */

/* Returns the explanation of the prediction, or NULL without --explain. */
static const struct pz_explanation *explain_plan(struct pz_call *call,
                                                 const struct pz_predicted *predicted) {
  struct pz_explanation *e = NULL;
  if (!predicted->s->explain) return NULL;
  pz_must(call, pz_training_explain(predicted->model, &predicted->machine->chip,
                                    pz_machine_net(predicted->machine), &predicted->s->plan, &e,
                                    pz_call_error(call)));
  pz_defer(call, pz_free_explanation, e);
  return e;
}

static void append_change(struct pz_table *t, double change) {
  if (change > 5e-6 || change < -5e-6)
    pz_table_cell(t, "%+.2f%%", 100 * change);
  else
    pz_table_cell(t, "-");
}

static void print_explanation(struct pz_call *call, const struct pz_predicted *predicted,
                              const struct pz_explanation *e) {
  static const char *const field_heads[] = {"plan", "value", "from", NULL};
  static const char *const constant_heads[] = {"constant", ">value", "unit",   ">step",
                                               ">memory",  "part",   "source", NULL};
  struct pz_table *fields = pz_table_new(call, field_heads);
  for (uint32_t i = 0; i < e->n_fields; i++) {
    pz_table_cell(fields, "%s", e->fields[i].name);
    pz_table_cell(fields, "%s", e->fields[i].value);
    pz_table_cell(fields, "%s", e->fields[i].from);
  }
  putchar('\n');
  pz_table_print(fields, 0, stdout);
  struct pz_table *constants = pz_table_new(call, constant_heads);
  for (uint32_t i = 0; i < e->n_constants; i++) {
    const struct pz_constant_effect *c = &e->constants[i];
    pz_table_cell(constants, "%s", c->name);
    pz_table_cell(constants, "%g", c->value);
    pz_table_cell(constants, "%s", c->unit[0] ? c->unit : "-");
    append_change(constants, c->step_change);
    append_change(constants, c->memory_change);
    pz_table_cell(constants, "%s", c->part);
    pz_table_cell(constants, "%s: %s", c->kind, c->source);
  }
  printf(
      "\nConstants that count for this plan; step, memory: the change if one is a tenth larger.\n"
      "Rates of the chip and of the network are in 'phaze chip %s' and its cluster.\n",
      predicted->machine->chip.name);
  pz_table_print(constants, 0, stdout);
}

static json_t *explanation_json(const struct pz_explanation *e) {
  json_t *from = json_object(), *constants = json_array();
  for (uint32_t i = 0; i < e->n_fields; i++)
    json_object_set_new(from, e->fields[i].name, json_string(e->fields[i].from));
  for (uint32_t i = 0; i < e->n_constants; i++) {
    const struct pz_constant_effect *c = &e->constants[i];
    json_array_append_new(constants, json_pack("{s:s,s:f,s:s,s:s,s:s,s:s,s:f,s:f}", "name", c->name,
                                               "value", c->value, "unit", c->unit, "kind", c->kind,
                                               "source", c->source, "part", c->part, "step_change",
                                               c->step_change, "memory_change", c->memory_change));
  }
  return json_pack("{s:o,s:f,s:o}", "from", from, "raised_by", e->raised_by, "constants",
                   constants);
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* Prints the plan as a script.  A plan that does not fit is marked by a comment in its second line. */
static void print_plan_script(struct pz_call *call, const struct pz_predicted *predicted) {
  char *text = NULL;
  pz_must(call, pz_launch_text(predicted->model, &predicted->machine->chip,
                               pz_machine_net(predicted->machine), &predicted->run->plan, &text,
                               pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  if (pz_prediction_fits(&predicted->run->p)) {
    fputs(text, stdout);
    return;
  }
  size_t interpreter_line = strcspn(text, "\n") + 1;
  pz_command_warn(predicted->s->common.quiet, "the plan does not fit in memory");
  printf("%.*s# ", (int)interpreter_line, text);
  pz_predict_print_misfit(predicted);
  fputs(text + interpreter_line, stdout);
}

static void print_predicted_json(struct pz_call *call, const struct pz_predicted *predicted) {
  json_t *j =
      pz_json_built(call, json_pack("{s:o,s:s,s:s?}", "model", json_string(predicted->model),
                                    "chip", predicted->machine->chip.name, "cluster",
                                    pz_machine_net_name(predicted->machine)));
  json_t *run = pz_json_built(call, pz_training_run_json(predicted->run));
  json_object_update(j, run);
  if (predicted->s->no_network) json_object_set_new(j, "no_network", json_true());
  pz_machine_files_json(&predicted->s->machine, j);
  json_object_set_new(j, "warnings", pz_machine_warnings(predicted->machine));
  json_object_set_new(j, "cost",
                      predicted->s->tokens ? pz_run_cost_json(&predicted->cost) : json_null());
  if (!pz_prediction_fits(&predicted->run->p))
    json_object_set(j, "fits_with", pz_predict_changes_json(call, predicted));
  const struct pz_explanation *e = explain_plan(call, predicted);
  if (e) json_object_set_new(j, "explain", explanation_json(e));
  pz_command_print_json(call, json_incref(j));
}

/* Warns if the plan uses a part of a node only, because then the model of the network is too optimistic. */
static void warn_of_partial_nodes(const struct pz_predicted *predicted) {
  const struct pz_cluster *net = pz_machine_net(predicted->machine);
  if (!net || net->instant || net->n_levels < 2) return;
  int64_t node = net->level[0].devices, devices = predicted->run->plan.devices;
  char text[160];
  if (devices <= node || devices % node == 0) return;
  snprintf(text, sizeof text,
           "%lld devices do not fill groups of %lld, the innermost level of cluster %s",
           (long long)devices, (long long)node, net->name);
  pz_command_warn(predicted->s->common.quiet, text);
}

/* Predicts a plan and prints the answer.  Returns whether the plan fits in memory. */
static bool predict_plan(struct pz_call *call, const struct pz_predict_settings *s,
                         const char *model) {
  struct pz_error *err = pz_call_error(call);
  struct pz_plan plan = s->plan;
  struct pz_machine_use use = {"devices", pz_plan_asked_devices(&s->plan), s->common.quiet,
                               .training = true};
  if (s->emit) {
    int emitted = pz_framework_find(pz_launch_names[s->emit]);
    if (plan.framework >= 0 && plan.framework != emitted)
      pz_raise(call, PZ_BAD_USE, "framework %s with --emit %s; accepted: the same",
               pz_framework_names[plan.framework], pz_launch_names[s->emit]);
    plan.framework = emitted;
  }
  if (plan.sp == 1 && plan.tp <= 1)
    pz_raise(call, PZ_BAD_USE, "--sp with --tp 1; accepted: --tp above 1");
  struct pz_machine *machine = pz_machine_open(call, &s->machine, use);
  if (s->no_network) pz_network_make_instant(&machine->network, &machine->chip, use.devices);
  if (s->trace) pz_file_require_output(call, s->trace, NULL, 0);
  if (s->report) pz_file_require_output(call, s->report, NULL, 0);

  struct pz_training_run *run = NULL;
  pz_must(call, pz_training_predict(model, &machine->chip, pz_machine_net(machine), &plan,
                                    s->trace != NULL, &run, err));
  pz_defer(call, pz_free_training_run, run);
  struct pz_predicted predicted = {.s = s, .model = model, .machine = machine, .run = run};
  warn_of_partial_nodes(&predicted);
  if (run->refusal[0] && !s->emit) pz_command_warn(s->common.quiet, run->refusal);
  if (s->tokens) predicted.cost = pz_predict_cost(call, &predicted);
  if (s->trace) pz_predict_write_trace(call, run, model, s->trace);
  if (s->report) {
    struct pz_scaling_row row = {.devices = run->plan.devices,
                                 .batch = run->plan.batch,
                                 .run = run,
                                 .tokens_per_s_per_device = run->p.tokens_per_s_per_device};
    struct pz_scaling one = {.rows = &row, .n_rows = 1};
    pz_predict_write_page(call, s->report, model, machine, &one);
  }

  if (s->emit) {
    print_plan_script(call, &predicted);
  } else if (s->common.json) {
    print_predicted_json(call, &predicted);
  } else {
    pz_predict_print(call, &predicted);
    const struct pz_explanation *e = explain_plan(call, &predicted);
    if (e) print_explanation(call, &predicted, e);
  }
  return pz_prediction_fits(&run->p);
}

/* ---- a plan file ---------------------------------------------------------------------------- */

struct file_prediction {
  struct pz_predict_settings *s;
  const char *path;
  bool fits;
};

/* Predicts the run of a plan file.  Options that were given override its plan, chip and cluster. */
static void predict_run_of_file(struct pz_call *call, void *ctx) {
  struct file_prediction *f = ctx;
  struct pz_predict_settings *s = f->s;
  struct pz_run_plan_options o = pz_run_plan_options_default();
  const char *name;
  struct pz_run_plan *r = pz_machine_read_run(call, f->path, &o, &name);
  if (r->config)
    pz_raise(call, PZ_BAD_INPUT,
             "%s describes its model by a config; accepted: a model by its name or the path of its "
             "config.json",
             name);
  pz_run_plan_change(r, &s->plan);
  s->plan = r->plan;
  if (!s->machine.chip) s->machine.chip = r->chip;
  if (!s->machine.cluster) s->machine.cluster = r->cluster;
  if (!s->machine.chip) pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP", name);
  f->fits = predict_plan(call, s, r->model);
}

/* Like predict_plan(), for a plan file, whose name the message of every error about the input contains. */
static bool predict_file(struct pz_call *call, struct pz_predict_settings *s, const char *path) {
  struct file_prediction f = {.s = s, .path = path};
  struct pz_error why = {0};
  enum pz_status status = pz_border(predict_run_of_file, &f, &why);
  if (status != PZ_OK) pz_command_raise_about(call, path, &why);
  return f.fits;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns what is wrong with the combination of options, or NULL.  `is_plan`: the argument is a plan file. */
static const char *find_misuse(struct pz_call *call, const struct pz_predict_settings *s,
                               const char *model, bool is_plan) {
  const struct pz_option *alone =
      s->runs ? pz_command_changed(&pz_cmd_predict, AT(machine), s, &defaults) : NULL;
  if (alone) {
    char name[64];
    return pz_format(call, "--%s is for one MODEL; --runs takes all from the table",
                     pz_option_name(alone, name, sizeof name));
  }
  if (s->csv && !s->runs) return "--csv requires --runs";
  if (s->emit && (s->common.json || s->explain || s->tokens || s->no_network))
    return "--emit cannot be combined with --json, --explain, --tokens or --no-network";
  if (!s->tokens && (s->price > 0 || s->mtbf_hours > 0))
    return "--price and --mtbf-hours require --tokens";
  if (!(s->mtbf_hours > 0) && (s->checkpoint_s >= 0 || s->restart_s >= 0))
    return "--checkpoint-s and --restart-s require --mtbf-hours";
  if (s->runs) return NULL;
  if (!s->machine.chip && !is_plan) return "--chip is required with a MODEL";
  if (pz_machine_overwrites(&s->machine, model, s->trace))
    return "--trace would overwrite the input file";
  if (pz_machine_overwrites(&s->machine, model, s->report))
    return "--report would overwrite the input file";
  return NULL;
}

static void predict(struct pz_call *call, struct pz_invocation *in) {
  SETTINGS s = defaults;
  if (!pz_command_options(call, in, &s)) return;
  if (in->n_args != (s.runs ? 0 : 1))
    pz_command_refuse(call, in, "expected one MODEL or PLAN.json, or --runs FILE.csv");
  const char *model = in->args[0];
  bool is_plan = !s.runs && pz_machine_is_plan(model);
  const char *misuse = find_misuse(call, &s, model, is_plan);
  if (misuse) pz_command_refuse(call, in, misuse);
  bool fits = true;
  if (s.runs)
    pz_predict_runs(call, &s);
  else if (is_plan)
    fits = predict_file(call, &s, model);
  else
    fits = predict_plan(call, &s, model);
  if (!fits) in->exit = PZ_EXIT_NO_ANSWER;
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
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .body = predict,
};
