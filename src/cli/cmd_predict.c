/* phaze predict: what one training plan takes, or every run of a table. */
#include <string.h>

#include "cli/predict_options.h"
#include "core/file.h"
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

/* ---- one plan ------------------------------------------------------------------------------- */

static json_t *predicted_json(const struct pz_predicted *x) {
  json_t *j = json_pack("{s:o,s:s,s:s?}", "model", json_string(x->model), "chip",
                        x->machine.chip.name, "cluster", pz_machine_net_name(&x->machine));
  json_t *run = pz_training_run_json(x->run);
  if (j && run) json_object_update(j, run);
  json_decref(run);
  if (x->s->no_network) json_object_set_new(j, "no_network", json_true());
  pz_machine_files_json(&x->s->machine, j);
  json_object_set_new(j, "warnings", pz_machine_warnings(&x->machine));
  json_object_set_new(j, "cost", x->s->tokens ? pz_run_cost_json(&x->cost) : json_null());
  return j;
}

enum pz_status pz_predict_write_trace(const struct pz_training_run *r, const char *model,
                                      const char *path, struct pz_error *err) {
  char *text = NULL;
  enum pz_status status = pz_training_run_trace(r, model, &text, err);
  if (status == PZ_OK) status = pz_file_write(path, text, strlen(text), err);
  pz_text_free(text);
  return status;
}

static const char EXPLORE[] = "explore.html";

/* Does a page of `phaze explore` lie in the same folder? */
static bool explore_beside(const char *path, struct pz_arena *arena) {
  static const char title[] = "<title>phaze explore</title>";
  enum { HEAD = 1 << 12, MOST_BYTES = 1 << 24 };
  struct pz_file_bytes m;
  const char *slash = strrchr(path, '/');
  const char *beside =
      pz_arena_printf(arena, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, EXPLORE);
  if (!beside || pz_file_map(beside, MOST_BYTES, &m, NULL) != PZ_OK) return false;
  const char *at = m.data, *end = at + (m.bytes < HEAD ? m.bytes : HEAD);
  size_t n = strlen(title);
  bool found = false;
  for (; at + n <= end && !found; at++) found = memcmp(at, title, n) == 0;
  pz_file_unmap(&m);
  return found;
}

enum pz_status pz_predict_write_page(const char *path, const char *model,
                                     const struct pz_machine *m, const struct pz_scaling *s,
                                     struct pz_error *err) {
  struct pz_arena arena;
  char *text = NULL;
  size_t bytes = 0;
  pz_arena_init(&arena, NULL);
  struct pz_plan_page page = {.size = sizeof page,
                              .model = model,
                              .chip = &m->chip,
                              .net = pz_machine_net(m),
                              .rows = s->rows,
                              .n_rows = s->n_rows,
                              .weak = s->weak,
                              .explore = explore_beside(path, &arena) ? EXPLORE : NULL};
  enum pz_status status = pz_plan_page(&page, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(path, text, bytes, err);
  pz_text_free(text);
  pz_arena_release(&arena);
  return status;
}

static enum pz_status explain(const struct pz_predicted *x, struct pz_explanation **out,
                              struct pz_error *err) {
  if (!x->s->explain) return PZ_OK;
  return pz_training_explain(x->model, &x->machine.chip, pz_machine_net(&x->machine), &x->s->plan,
                             out, err);
}

static enum pz_status tell_json(const struct pz_predicted *x, struct pz_error *err) {
  json_t *j = predicted_json(x), *changes = NULL;
  struct pz_explanation *e = NULL;
  enum pz_status status = PZ_OK;
  if (!pz_prediction_fits(&x->run->p)) status = pz_predict_changes_json(x, &changes, err);
  if (changes) json_object_set_new(j, "fits_with", changes);
  if (status == PZ_OK) status = explain(x, &e, err);
  if (e) json_object_set_new(j, "explain", pz_predict_explain_json(e));
  pz_explanation_free(e);
  if (status == PZ_OK) return pz_command_json(j, err);
  json_decref(j);
  return status;
}

static enum pz_status emit(const struct pz_predicted *x, struct pz_error *err) {
  char *text = NULL;
  enum pz_status status = pz_launch_text(x->model, &x->machine.chip, pz_machine_net(&x->machine),
                                         &x->run->plan, &text, err);
  if (status == PZ_OK && !pz_prediction_fits(&x->run->p)) {
    size_t first = strcspn(text, "\n") + 1; /* the interpreter stands there */
    pz_command_warn(x->s->common.quiet, "the plan does not fit in memory");
    printf("%.*s# ", (int)first, text);
    pz_predict_print_misfit(x);
    fputs(text + first, stdout);
  } else if (status == PZ_OK) {
    fputs(text, stdout);
  }
  pz_text_free(text);
  return status;
}

static enum pz_status tell(const struct pz_predicted *x, struct pz_error *err) {
  struct pz_explanation *e = NULL;
  if (x->s->emit) return emit(x, err);
  if (x->s->common.json) return tell_json(x, err);
  enum pz_status status = pz_predict_print(x, err);
  if (status == PZ_OK) status = explain(x, &e, err);
  if (e) status = pz_predict_explain(x, e);
  pz_explanation_free(e);
  return status;
}

/* Nodes are filled, or a part of one is used: else the network is told too well. */
static void warn_of_nodes(const struct pz_predicted *x) {
  const struct pz_cluster *net = pz_machine_net(&x->machine);
  int64_t node = net ? net->level[0].devices : 0, n = x->run->plan.devices;
  char text[160];
  if (!net || net->instant || net->n_levels < 2 || n <= node || n % node == 0) return;
  snprintf(text, sizeof text,
           "%lld devices do not fill groups of %lld, the innermost level of cluster %s",
           (long long)n, (long long)node, net->name);
  pz_command_warn(x->s->common.quiet, text);
}

/* The run of a plan file becomes the settings' plan, chip and cluster, as far as these were not given. */
static enum pz_status read_plan(const char *path, struct pz_predict_settings *s,
                                struct pz_run_plan **out, struct pz_error *err) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_run_plan *r = NULL;
  const char *name;
  enum pz_status status = pz_machine_run(path, &o, &name, &r, err);
  *out = r;
  if (status == PZ_OK && r->config)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "%s describes its model by a config; accepted: a model by its name or the "
                     "path of its config.json",
                     name);
  if (status != PZ_OK) return status;
  pz_run_plan_change(r, &s->plan);
  s->plan = r->plan;
  if (!s->machine.chip) s->machine.chip = r->chip;
  if (!s->machine.cluster) s->machine.cluster = r->cluster;
  return s->machine.chip
             ? PZ_OK
             : pz_fail(err, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP", name);
}

/* `fits`: the plan does. */
static enum pz_status predict_plan(const struct pz_predict_settings *s, const char *model,
                                   bool *fits, struct pz_error *err) {
  struct pz_predicted x = {.s = s, .model = model};
  struct pz_plan plan = s->plan;
  struct pz_machine_use use = {"devices", pz_plan_asked_devices(&s->plan), s->common.quiet,
                               .training = true};
  enum pz_status status = PZ_OK;
  if (s->emit) {
    int emitted = pz_framework_find(pz_launch_names[s->emit]);
    if (plan.framework >= 0 && plan.framework != emitted)
      status = pz_fail(err, PZ_BAD_USE, "framework %s with --emit %s; accepted: the same",
                       pz_framework_names[plan.framework], pz_launch_names[s->emit]);
    plan.framework = emitted;
  }
  if (status == PZ_OK && plan.sp == 1 && plan.tp <= 1)
    status = pz_fail(err, PZ_BAD_USE, "--sp with --tp 1; accepted: --tp above 1");
  if (status == PZ_OK) status = pz_machine_load(&s->machine, use, &x.machine, err);
  if (status == PZ_OK && s->no_network)
    pz_network_make_instant(&x.machine.at, &x.machine.chip, use.devices);
  if (status == PZ_OK && s->trace) status = pz_file_output(s->trace, NULL, 0, err);
  if (status == PZ_OK && s->report) status = pz_file_output(s->report, NULL, 0, err);
  if (status == PZ_OK)
    status = pz_training_predict(model, &x.machine.chip, pz_machine_net(&x.machine), &plan,
                                 s->trace != NULL, &x.run, err);
  if (status == PZ_OK) warn_of_nodes(&x);
  if (status == PZ_OK && x.run->refusal[0] && !s->emit)
    pz_command_warn(s->common.quiet, x.run->refusal);
  if (status == PZ_OK && s->tokens) status = pz_predict_cost(&x, &x.cost, err);
  if (status == PZ_OK && s->trace) status = pz_predict_write_trace(x.run, model, s->trace, err);
  if (status == PZ_OK && s->report) {
    struct pz_scaling_row row = {.devices = x.run->plan.devices,
                                 .batch = x.run->plan.batch,
                                 .run = x.run,
                                 .tokens_per_s_per_device = x.run->p.tokens_per_s_per_device};
    struct pz_scaling one = {.rows = &row, .n_rows = 1};
    status = pz_predict_write_page(s->report, model, &x.machine, &one, err);
  }
  if (status == PZ_OK) status = tell(&x, err);
  if (status == PZ_OK) *fits = pz_prediction_fits(&x.run->p);
  pz_training_run_free(x.run);
  return status;
}

/* What is wrong with the plan is said of its file. */
static enum pz_status predict_file(struct pz_predict_settings *s, const char *path, bool *fits,
                                   struct pz_error *err) {
  struct pz_run_plan *file = NULL;
  struct pz_error why = {0};
  enum pz_status status = read_plan(path, s, &file, &why);
  if (status == PZ_OK) status = predict_plan(s, file->model, fits, &why);
  bool input = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  if (input && !strstr(why.message, path))
    status = pz_fail(err, status, "%s: %s", path, why.message);
  else
    *err = why;
  pz_run_plan_free(file);
  return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Options that need another; NULL, or what is wrong. */
static const char *needs_another(const struct pz_predict_settings *s) {
  if (s->csv && !s->runs) return "--csv requires --runs";
  if (s->emit && (s->common.json || s->explain || s->tokens || s->no_network))
    return "--emit cannot be combined with --json, --explain, --tokens or --no-network";
  if (!s->tokens && (s->price > 0 || s->mtbf_hours > 0))
    return "--price and --mtbf-hours require --tokens";
  if (!(s->mtbf_hours > 0) && (s->checkpoint_s >= 0 || s->restart_s >= 0))
    return "--checkpoint-s and --restart-s require --mtbf-hours";
  return NULL;
}

/* The same with what the settings are for; `text` may hold it. */
static const char *misuse(const struct pz_predict_settings *s, const char *model, bool plan,
                          char *text, size_t size) {
  const struct pz_option *alone =
      s->runs ? pz_command_changed(&pz_cmd_predict, AT(machine), s, &defaults) : NULL;
  if (alone) {
    char name[64];
    snprintf(text, size, "--%s is for one MODEL; --runs takes all from the table",
             pz_option_name(alone, name, sizeof name));
    return text;
  }
  const char *wrong = needs_another(s);
  if (wrong) return wrong;
  if (s->runs) return NULL;
  if (!s->machine.chip && !plan) return "--chip is required with a MODEL";
  if (s->trace && (pz_file_same(s->trace, model) || pz_machine_reads(&s->machine, s->trace)))
    return "--trace would overwrite the input file";
  if (s->report && (pz_file_same(s->report, model) || pz_machine_reads(&s->machine, s->report)))
    return "--report would overwrite the input file";
  return NULL;
}

static enum pz_exit run(int argc, char **argv) {
  SETTINGS s = defaults;
  struct pz_error err = {0};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_predict, argc, argv, &s, &n_args, &code)) return code;
  if (n_args != (s.runs ? 0 : 1))
    return pz_command_misuse(&pz_cmd_predict,
                             "expected one MODEL or PLAN.json, or --runs FILE.csv");
  char text[120];
  bool plan = !s.runs && pz_machine_is_plan(argv[1]);
  const char *wrong = misuse(&s, argv[1], plan, text, sizeof text);
  if (wrong) return pz_command_misuse(&pz_cmd_predict, wrong);
  bool fits = true;
  enum pz_status status = plan     ? predict_file(&s, argv[1], &fits, &err)
                          : s.runs ? pz_predict_runs(&s, &err)
                                   : predict_plan(&s, argv[1], &fits, &err);
  if (status != PZ_OK) return pz_command_fail(&err);
  code = pz_command_end();
  return code == PZ_EXIT_DONE && !fits ? PZ_EXIT_NO_ANSWER : code;
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
    .run = run,
};
