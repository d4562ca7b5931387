/* phaze schedule: the shortest schedule of operators on a chip's cores, for the layers of a model,
 * for the passes of a training plan, or for an instance file. */
#include <inttypes.h>
#include <string.h>

#include "cli/machine_options.h"
#include "cli/schedule_view.h"
#include "cli/workload_options.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/vec.h"

struct settings {
  struct pz_common common;
  const char *instance, *plan, *trace, *lp, *disable;
  int exclusive, solver;
  int64_t steps;
  double seconds;
  struct pz_machine_options machine; /* from here on: of a MODEL or a plan only */
  const char *layers;
  bool gantt;
  struct of_model { /* of a MODEL only */
    int modes;
    struct pz_workload_options w;
  } model;
};

static const struct settings defaults = {.model = {.w = PZ_WORKLOAD_DEFAULTS}};

enum { NOT_GIVEN = -1 }; /* a choice the user left open */

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "instance", .type = PZ_OPTION_TEXT, .offset = AT(instance), .arg = "FILE.json",
     .help = "Read a scheduling problem instead of a MODEL (format above)"},
    {.name = "plan", .type = PZ_OPTION_TEXT, .offset = AT(plan), .arg = "FILE.json",
     .help = "Schedule the passes of a training plan with its model, as 'phaze predict --json' prints it; - is standard input (default effort: that of the predicted step, 1000)"},
    {.name = "exclusive", .type = PZ_OPTION_CHOICE, .offset = AT(exclusive), .choices = pz_exclusive_names,
     .help = "While an operator runs on all cores of its type, no other runs on the chip (all), or on cores of that type (class); with --modes two or --instance"},
    {.name = "steps", .type = PZ_OPTION_INT, .offset = AT(steps), .arg = "N", .min = 1, .max = 1e15,
     .help = "Effort limit per schedule, in solver steps; the same limit gives the same result on any machine (default: 16 million)"},
    {.name = "solver", .type = PZ_OPTION_CHOICE, .offset = AT(solver), .choices = pz_solver_names,
     .help = "exact: branch and bound; ilp: integer program solved by CBC, up to 128 operators"},
    {.name = "disable", .type = PZ_OPTION_TEXT, .offset = AT(disable), .arg = "NAME,...",
     .help = "Switch off techniques of --solver exact, for example left_shift,diving; results stay correct, gaps may grow. An unknown name lists all; -v shows what each did"},
    {.name = "time-limit", .type = PZ_OPTION_REAL, .offset = AT(seconds), .arg = "S", .min = 0.001, .max = 1e6,
     .help = "Time limit of --solver ilp per schedule, in seconds (default: 60)"},
    {.name = "write-lp", .type = PZ_OPTION_TEXT, .offset = AT(lp), .arg = "FILE",
     .help = "Write the integer program to FILE.lp or FILE.mps for another solver; with a MODEL one file per schedule, named FILE-LAYER-PASS"},
    {.name = "trace", .type = PZ_OPTION_TEXT, .offset = AT(trace), .arg = "FILE.json",
     .help = "Write the schedules as a timeline for ui.perfetto.dev or chrome://tracing"},
    PZ_MACHINE_OPTIONS(struct settings, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    {.name = "layer", .type = PZ_OPTION_TEXT, .offset = AT(layers), .arg = "L,...",
     .help = "Schedule only these layers, and draw each schedule (default: all layers, as a table)"},
    {.name = "gantt", .type = PZ_OPTION_FLAG, .offset = AT(gantt),
     .help = "Draw the schedule of every layer as a chart"},
    {.name = "modes", .type = PZ_OPTION_CHOICE, .offset = AT(model.modes), .choices = pz_modes_names,
     .help = "Cores of an operator. all: 1, 2, 4 .. all cores, memory bandwidth shared; cores: the same, bandwidth not shared; two: one core or all cores"},
    PZ_WORKLOAD_OPTIONS(struct settings, model.w),
};
/* clang-format on */

/* What is being made, and its report. */
struct job {
  const struct settings *s;
  struct pz_schedule_options how;
  struct pz_arena arena;
  struct pz_vec list;               /* struct pz_layer_schedule * */
  struct pz_vec seconds;            /* double: what solving each took; of a plan none */
  struct pz_plan_schedules *passes; /* of a plan: it holds the list */
  struct pz_progress progress;
  struct pz_error *err;
};

/* ---- solving -------------------------------------------------------------------------------- */

/* A choice that was not given is the first. */
static struct pz_schedule_options solve_options(const struct settings *s) {
  struct pz_schedule_options o = pz_schedule_options_default();
  o.steps = s->steps ? s->steps : s->plan ? PZ_PASS_STEPS : PZ_SCHEDULE_STEPS;
  if (s->model.modes != NOT_GIVEN) o.modes = (enum pz_mode_set)s->model.modes;
  if (s->exclusive != NOT_GIVEN) o.exclusive = (enum pz_exclusive)s->exclusive;
  o.solver = (enum pz_solver)s->solver;
  o.seconds = s->seconds;
  o.disable = s->disable;
  o.lp = s->lp;
  o.views = true;
  return o;
}

static enum pz_status keep(struct job *j, struct pz_layer_schedule *made, double start) {
  double took = pz_clock_s() - start;
  char title[256];
  if (j->s->common.verbose && !j->s->common.quiet)
    pz_command_say("%s: %" PRId64 " steps in %.3f s", pz_scheduled_title(made, title), made->steps,
                   took);
  if (pz_vec_push(&j->seconds, &took) && pz_vec_push(&j->list, &made)) return PZ_OK;
  pz_layer_schedule_free(made);
  return PZ_NO_MEMORY;
}

static enum pz_status solve_instance(struct job *j) {
  struct pz_layer_schedule *made = NULL;
  char *text = NULL;
  size_t bytes = 0;
  double start = pz_clock_s();
  j->progress.total = 1;
  pz_progress_update(&j->progress, 0, j->s->instance);
  enum pz_status status =
      pz_file_read(j->s->instance, PZ_INSTANCE_MOST_BYTES, &text, &bytes, j->err);
  if (status == PZ_OK)
    status = pz_schedule_instance(j->s->instance, text, bytes, &j->how, &made, j->err);
  pz_free(text);
  return status == PZ_OK ? keep(j, made, start) : status;
}

/* The integer program is in the file that was named, with "-LAYER-PASS" before its end. */
static enum pz_status solve_layer(struct job *j, struct pz_cost *cost, const struct pz_layer *l,
                                  enum pz_direction d) {
  static const char *const names[] = {"forward", "backward"};
  struct pz_schedule_options how = j->how;
  struct pz_layer_schedule *made = NULL;
  double start = pz_clock_s();
  const char *title = pz_arena_printf(&j->arena, "%s %s", l->name, names[d]);
  const char *end = pz_arena_printf(&j->arena, "-%s-%s", l->name, names[d]);
  if (!title || !end) return PZ_NO_MEMORY;
  if (how.lp && !(how.lp = pz_file_with(how.lp, end, &j->arena))) return PZ_NO_MEMORY;
  pz_progress_update(&j->progress, j->list.n, title);
  enum pz_status status = pz_schedule_layer(cost, l, d, &how, &made, j->err);
  return status == PZ_OK ? keep(j, made, start) : status;
}

/* ---- which layers --------------------------------------------------------------------------- */

/* Is a layer in the list with commas?  Without a list all are. */
static bool is_chosen(const char *list, const char *layer) {
  size_t n = strlen(layer);
  for (const char *at = list; at; at = (at = strchr(at, ',')) ? at + 1 : NULL)
    if (strcspn(at, ",") == n && strncmp(at, layer, n) == 0) return true;
  return !list;
}

static const char *name_at(const void *ctx, size_t i) { return ((const char *const *)ctx)[i]; }

/* Does every name of the list have a layer?  `names` ends with NULL. */
static enum pz_status check_list(const char *list, const char *model, const char *const *names,
                                 struct pz_error *err) {
  for (const char *at = list; at; at = (at = strchr(at, ',')) ? at + 1 : NULL) {
    char all[256];
    size_t n = strcspn(at, ","), i = 0;
    while (names[i] && (strlen(names[i]) != n || strncmp(at, names[i], n) != 0)) i++;
    if (!names[i])
      return pz_fail(err, PZ_BAD_USE, "--layer: %s has no layer '%.*s'; accepted: %s", model,
                     (int)n, at, pz_text_join(all, sizeof all, name_at, names));
  }
  return PZ_OK;
}

static enum pz_status solve_layers(struct job *j, struct pz_cost *cost,
                                   const struct pz_workload *w) {
  const char **names = pz_arena_alloc(&j->arena, w->n_layers + 1, sizeof *names);
  if (!names) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < w->n_layers; i++) {
    names[i] = w->layers[i].name;
    j->progress.total += 2 * is_chosen(j->s->layers, names[i]);
  }
  enum pz_status status = check_list(j->s->layers, w->model, names, j->err);
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD && status == PZ_OK; d++)
      if (is_chosen(j->s->layers, names[i])) status = solve_layer(j, cost, &w->layers[i], d);
  return status;
}

/* All passes are made; the list has those that are shown. */
static enum pz_status choose_passes(struct job *j, const char *model) {
  const struct pz_plan_schedules *p = j->passes;
  const char **names = pz_arena_alloc(&j->arena, p->n + 1, sizeof *names);
  uint32_t n = 0;
  if (!names) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_layer_schedule *s = &p->list[i];
    if (!n || strcmp(s->layer, names[n - 1]) != 0) names[n++] = s->layer;
    if (is_chosen(j->s->layers, s->layer) && !pz_vec_push(&j->list, &s)) return PZ_NO_MEMORY;
  }
  return check_list(j->s->layers, model, names, j->err);
}

/* ---- the command ---------------------------------------------------------------------------- */

static enum pz_status write_trace(struct job *j) {
  char *text = NULL;
  if (!j->s->trace) return PZ_OK;
  enum pz_status status = pz_schedule_trace(j->list.items, j->list.n, &text, j->err);
  if (status == PZ_OK) status = pz_file_write(j->s->trace, text, strlen(text), j->err);
  pz_free(text);
  return status;
}

/* `v`: what the schedules are of. */
static enum pz_status report(struct job *j, struct pz_schedule_view v) {
  v.list = j->list.items;
  v.seconds = j->seconds.items;
  v.n = j->list.n;
  v.passes = j->passes;
  v.how = &j->how;
  v.whole = !j->s->layers;
  v.charts = j->s->layers || j->s->gantt;
  enum pz_status status = write_trace(j);
  if (status == PZ_OK && j->s->common.verbose && !j->s->common.quiet)
    status = pz_scheduled_statistics(v.list, v.n, &j->arena, stderr);
  if (status != PZ_OK) return status;
  return j->s->common.json ? pz_command_json(pz_schedule_view_json(&v), j->err)
                           : pz_schedule_view_print(&v, &j->arena);
}

static enum pz_status schedule_model(struct job *j, const char *model) {
  struct pz_cost *cost = NULL;
  struct pz_workload *w = NULL;
  const char *option = NULL;
  int64_t group = pz_workload_group(&j->s->model.w, &option);
  struct pz_machine_use use = {option, group, j->s->common.quiet, false};
  enum pz_status status = pz_machine_cost(&j->s->machine, use, &cost, j->err);
  if (status != PZ_OK) return status;
  status = pz_workload_load(model, &j->s->model.w, &w, j->err);
  if (status == PZ_OK) {
    pz_command_warn(j->s->common.quiet, w->warning);
    status = solve_layers(j, cost, w);
    pz_progress_update(&j->progress, j->list.n, NULL);
    pz_progress_finish(&j->progress, NULL);
  }
  if (status == PZ_OK)
    status = report(j, (struct pz_schedule_view){
                           .model = w->model, .workload = w, .chip = pz_cost_chip(cost)->name});
  pz_workload_free(w);
  pz_cost_free(cost);
  return status;
}

static enum pz_status schedule_plan(struct job *j) {
  const struct settings *s = j->s;
  struct pz_machine machine;
  struct pz_run_plan *r = NULL;
  const char *name;
  enum pz_status status = pz_machine_run(s->plan, NULL, &name, &r, j->err);
  if (status == PZ_OK && r->config)
    status = pz_fail(j->err, PZ_BAD_INPUT,
                     "%s has a config of its own; accepted: a model by its name or path", name);
  if (status == PZ_OK)
    status = pz_machine_of_run(&s->machine, name, s->common.quiet, r, &machine, j->err);
  if (status == PZ_OK) {
    j->progress.total = 1;
    pz_progress_update(&j->progress, 0, name);
    status = pz_training_schedule(r->model, &machine.chip, pz_machine_net(&machine), &r->plan,
                                  &j->how, &j->passes, j->err);
    pz_progress_finish(&j->progress, NULL);
  }
  if (status == PZ_OK) status = choose_passes(j, r->model);
  if (status == PZ_OK)
    status = report(j, (struct pz_schedule_view){.model = r->model,
                                                 .chip = machine.chip.name,
                                                 .cluster = pz_machine_net_name(&machine)});
  pz_run_plan_free(r);
  return status;
}

static enum pz_status schedule(const struct settings *s, const char *model, struct pz_error *err) {
  struct job j = {.s = s, .how = solve_options(s), .err = err};
  pz_arena_init(&j.arena, NULL);
  pz_vec_init(&j.list, &j.arena, sizeof(struct pz_layer_schedule *));
  pz_vec_init(&j.seconds, &j.arena, sizeof(double));
  pz_progress_start(&j.progress, stderr,
                    s->common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr), "schedule",
                    "problems", 0);
  enum pz_status status = s->trace ? pz_file_output(s->trace, NULL, 0, err) : PZ_OK;
  if (status == PZ_OK)
    status = s->instance ? solve_instance(&j)
             : s->plan   ? schedule_plan(&j)
                         : schedule_model(&j, model);
  if (status == PZ_OK && s->instance) status = report(&j, (struct pz_schedule_view){.model = NULL});
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the schedules");
  for (uint32_t i = 0; i < j.list.n && !j.passes; i++)
    pz_layer_schedule_free(*pz_vec_at(&j.list, struct pz_layer_schedule *, i));
  pz_plan_schedules_free(j.passes);
  pz_arena_release(&j.arena);
  return status;
}

/* What is wrong with the arguments, or NULL. */
static const char *misuse(const struct settings *s, const struct settings *none, int n_args,
                          const char *model, char buf[80]) {
  const char *input = s->instance ? s->instance : s->plan ? s->plan : model;
  const struct pz_option *o =
      pz_command_changed(&pz_cmd_schedule, s->instance ? AT(machine) : AT(model), s, none);
  if (n_args + (s->instance != NULL) + (s->plan != NULL) != 1)
    return "expected either a MODEL, --plan FILE.json or --instance FILE.json";
  if (s->trace && (pz_file_same(s->trace, input) || pz_machine_reads(&s->machine, s->trace)))
    return "--trace would overwrite the input file";
  if (s->solver == PZ_SOLVER_ILP ? s->steps > 0 : s->seconds > 0)
    return "--steps requires --solver exact, --time-limit requires --solver ilp";
  if (s->solver == PZ_SOLVER_ILP && s->disable) return "--disable requires --solver exact";
  if (s->trace && s->lp && pz_file_same(s->trace, s->lp))
    return "--trace and --write-lp name the same file";
  if ((s->instance || s->plan) && o) {
    snprintf(buf, 80, "--%s requires a MODEL, it does not apply to --%s", o->name,
             s->instance ? "instance" : "plan");
    return buf;
  }
  if (s->instance) return NULL;
  if (!s->machine.chip && !s->plan) return "--chip CHIP is required";
  if (s->exclusive != NOT_GIVEN && s->model.modes != PZ_MODES_TWO)
    return "--exclusive requires --modes two or --instance";
  return s->common.json && s->gantt ? "--json and --gantt cannot be combined" : NULL;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings none = defaults;
  struct pz_error err = {0};
  enum pz_exit code;
  char buf[80];
  int n_args;
  none.exclusive = none.model.modes = NOT_GIVEN;
  struct settings s = none;
  if (!pz_command_begin(&pz_cmd_schedule, argc, argv, &s, &n_args, &code)) return code;
  const char *wrong = misuse(&s, &none, n_args, argv[1], buf);
  if (wrong) return pz_command_misuse(&pz_cmd_schedule, wrong);
  return schedule(&s, argv[1], &err) == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

const struct pz_command pz_cmd_schedule = {
    .name = "schedule",
    .synopsis = "(MODEL --chip CHIP | --plan FILE.json | --instance FILE.json) [options]",
    .summary = "Find the shortest schedule of each layer's operators on a chip's cores",
    .detail = "With a MODEL: every distinct layer, forward and backward, as a table of\n"
              "makespan, proven lower bound and utilisation; with --layer or --gantt also as\n"
              "charts. With --plan: the passes of a training plan of framework compiled on a\n"
              "chip whose cores are scheduled, which its predicted step adds up: collectives\n"
              "on the link, recomputation, halves of a microbatch, within the chip's watts.\n"
              "With --instance: a scheduling problem from a file,\n"
              "  {num_tc, num_vc, edges: [[before, after]],\n"
              "   ops: [{id, type: TC|VC|TCandVC|Nop, latency, intra_op_latency}]}\n"
              "where an operator takes latency on one core of its type (tensor, vector, both,\n"
              "none) and intra_op_latency on all of them.\n"
              "\n"
              "Examples:\n"
              "  phaze schedule llama3-8b --chip h200 --tp 8\n"
              "  phaze schedule gpt2 --chip tpuv4 --layer block --trace block.json\n"
              "  phaze predict gpt2 --chip ./chip.json --framework compiled --json |\n"
              "      phaze schedule --plan - --layer block\n"
              "  phaze schedule --instance problem.json --solver ilp\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
