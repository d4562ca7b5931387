/* phaze schedule: the shortest schedule of operators on a chip's cores, for the layers of a model
 * or for an instance file. */
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
  const char *instance, *trace, *lp, *disable;
  int exclusive, solver;
  int64_t steps;
  double seconds;
  struct of_model {
    struct pz_machine_options machine;
    const char *layers;
    int modes;
    bool gantt;
    struct pz_workload_options w;
  } model; /* the last: an option that sets a field of it goes with a MODEL only */
};

static const struct settings defaults = {.model = {.w = PZ_WORKLOAD_DEFAULTS}};

enum { NOT_GIVEN = -1 }; /* a choice the user left open */

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "instance", .type = PZ_OPTION_TEXT, .offset = AT(instance), .arg = "FILE.json",
     .help = "Read a scheduling problem instead of a MODEL (format above)"},
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
    PZ_MACHINE_OPTIONS(struct settings, model.machine),
    {.name = "layer", .type = PZ_OPTION_TEXT, .offset = AT(model.layers), .arg = "L,...",
     .help = "Schedule only these layers, and draw each schedule (default: all layers, as a table)"},
    {.name = "gantt", .type = PZ_OPTION_FLAG, .offset = AT(model.gantt),
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
  struct pz_vec list;    /* struct pz_layer_schedule * */
  struct pz_vec seconds; /* double: what solving each took */
  struct pz_progress progress;
  struct pz_error *err;
};

/* ---- solving -------------------------------------------------------------------------------- */

/* A choice that was not given is the first. */
static struct pz_schedule_options solve_options(const struct settings *s) {
  struct pz_schedule_options o = pz_schedule_options_default();
  o.steps = s->steps ? s->steps : PZ_SCHEDULE_STEPS;
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

/* The integer program is in the file that was named, with "-layer-pass" before its end. */
static enum pz_status solve_layer(struct job *j, struct pz_cost *cost, const struct pz_layer *l,
                                  enum pz_direction d) {
  static const char *const names[] = {"forward", "backward"};
  struct pz_schedule_options how = j->how;
  struct pz_layer_schedule *made = NULL;
  double start = pz_clock_s();
  const char *end = how.lp ? strrchr(how.lp, '.') : NULL;
  if (end && !strchr(end, '/'))
    how.lp = pz_arena_printf(&j->arena, "%.*s-%s-%s%s", (int)(end - how.lp), how.lp, l->name,
                             names[d], end);
  const char *title = pz_arena_printf(&j->arena, "%s %s", l->name, names[d]);
  if (!title || (end && !how.lp)) return PZ_NO_MEMORY;
  pz_progress_update(&j->progress, j->list.n, title);
  enum pz_status status = pz_schedule_layer(cost, l, d, &how, &made, j->err);
  return status == PZ_OK ? keep(j, made, start) : status;
}

/* ---- which layers --------------------------------------------------------------------------- */

static const char *layer_name(const void *ctx, size_t i) {
  const struct pz_workload *w = ctx;
  return i < w->n_layers ? w->layers[i].name : NULL;
}

/* The layers of the list with commas; without a list all. */
static enum pz_status choose_layers(const struct pz_workload *w, const char *list, bool *chosen,
                                    struct pz_error *err) {
  for (uint32_t i = 0; i < w->n_layers; i++) chosen[i] = !list;
  for (const char *at = list, *end; at; at = (end = strchr(at, ',')) ? end + 1 : NULL) {
    char all[256];
    size_t n = strcspn(at, ",");
    uint32_t i = 0;
    while (i < w->n_layers &&
           (strlen(w->layers[i].name) != n || strncmp(at, w->layers[i].name, n) != 0))
      i++;
    if (i == w->n_layers)
      return pz_fail(err, PZ_BAD_USE, "--layer: %s has no layer '%.*s'; accepted: %s", w->model,
                     (int)n, at, pz_text_join(all, sizeof all, layer_name, w));
    chosen[i] = true;
  }
  return PZ_OK;
}

static enum pz_status solve_layers(struct job *j, struct pz_cost *cost,
                                   const struct pz_workload *w) {
  bool *chosen = pz_arena_alloc(&j->arena, w->n_layers, sizeof *chosen);
  if (!chosen) return PZ_NO_MEMORY;
  enum pz_status status = choose_layers(w, j->s->model.layers, chosen, j->err);
  for (uint32_t i = 0; i < w->n_layers; i++) j->progress.total += 2 * chosen[i];
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD && status == PZ_OK; d++)
      if (chosen[i]) status = solve_layer(j, cost, &w->layers[i], d);
  return status;
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

static enum pz_status report(struct job *j, const struct pz_workload *w, const char *chip) {
  const struct of_model *m = &j->s->model;
  struct pz_schedule_view v = {.list = j->list.items,
                               .seconds = j->seconds.items,
                               .n = j->list.n,
                               .workload = w,
                               .chip = chip,
                               .how = &j->how,
                               .whole = !m->layers,
                               .charts = m->layers || m->gantt};
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
  enum pz_status status = pz_machine_cost(&j->s->model.machine, use, &cost, j->err);
  if (status != PZ_OK) return status;
  status = pz_workload_load(model, &j->s->model.w, &w, j->err);
  if (status == PZ_OK) {
    pz_command_warn(j->s->common.quiet, w->warning);
    status = solve_layers(j, cost, w);
    pz_progress_update(&j->progress, j->list.n, NULL);
    pz_progress_finish(&j->progress, NULL);
  }
  if (status == PZ_OK) status = report(j, w, pz_cost_chip(cost)->name);
  pz_workload_free(w);
  pz_cost_free(cost);
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
  enum pz_status status = s->trace ? pz_file_writable(s->trace, err) : PZ_OK;
  if (status == PZ_OK) status = s->instance ? solve_instance(&j) : schedule_model(&j, model);
  if (status == PZ_OK && s->instance) status = report(&j, NULL, NULL);
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the schedules");
  for (uint32_t i = 0; i < j.list.n; i++)
    pz_layer_schedule_free(*pz_vec_at(&j.list, struct pz_layer_schedule *, i));
  pz_arena_release(&j.arena);
  return status;
}

/* What is wrong with the arguments, or NULL. */
static const char *misuse(const struct settings *s, const struct settings *none, int n_args,
                          const char *model, char buf[80]) {
  const struct pz_option *o = pz_command_changed(&pz_cmd_schedule, AT(model), s, none);
  if (n_args + (s->instance != NULL) != 1) return "expected either a MODEL or --instance FILE.json";
  if (s->trace && (pz_file_same(s->trace, s->instance ? s->instance : model) ||
                   pz_machine_reads(&s->model.machine, s->trace)))
    return "--trace would overwrite the input file";
  if (s->solver == PZ_SOLVER_ILP ? s->steps > 0 : s->seconds > 0)
    return "--steps requires --solver exact, --time-limit requires --solver ilp";
  if (s->solver == PZ_SOLVER_ILP && s->disable) return "--disable requires --solver exact";
  if (s->trace && s->lp && pz_file_same(s->trace, s->lp))
    return "--trace and --write-lp name the same file";
  if (s->instance && o) {
    snprintf(buf, 80, "--%s requires a MODEL, it does not apply to --instance", o->name);
    return buf;
  }
  if (s->instance) return NULL;
  if (!s->model.machine.chip) return "--chip CHIP is required";
  if (s->exclusive != NOT_GIVEN && s->model.modes != PZ_MODES_TWO)
    return "--exclusive requires --modes two or --instance";
  return s->common.json && s->model.gantt ? "--json and --gantt cannot be combined" : NULL;
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
    .synopsis = "(MODEL --chip CHIP | --instance FILE.json) [options]",
    .summary = "Find the shortest schedule of each layer's operators on a chip's cores",
    .detail = "With a MODEL: every distinct layer, forward and backward, as a table of\n"
              "makespan, proven lower bound and utilisation; with --layer or --gantt also as\n"
              "charts. With --instance: a scheduling problem from a file,\n"
              "  {num_tc, num_vc, edges: [[before, after]],\n"
              "   ops: [{id, type: TC|VC|TCandVC|Nop, latency, intra_op_latency}]}\n"
              "where an operator takes latency on one core of its type (tensor, vector, both,\n"
              "none) and intra_op_latency on all of them.\n"
              "\n"
              "Examples:\n"
              "  phaze schedule llama3-8b --chip h200 --tp 8\n"
              "  phaze schedule gpt2 --chip tpuv4 --layer block --trace block.json\n"
              "  phaze schedule --instance problem.json --solver ilp\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
