/* phaze schedule: the shortest schedule of operators on a chip's cores, for the layers of a model, for the passes of a
 * training plan, or for an instance file.
 *
 * schedule() checks the arguments; then schedule_instance(), schedule_plan() or schedule_model() solves the schedules
 * into the lists of a struct schedule_job, and report_schedules() writes the trace and prints them. */
#include <inttypes.h>
#include <string.h>

#include "cli/machine_options.h"
#include "cli/owned.h"
#include "cli/workload_options.h"
#include "core/file.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/vec.h"
#include "report/schedule_table.h"

struct settings {
  struct pz_common common;
  const char *instance, *plan, *trace, *lp, *disable;
  int exclusive, solver;
  int64_t steps;
  double seconds;
  struct pz_machine_options machine; /* this field and those below: not with --instance */
  const char *layers;
  bool gantt;
  struct { /* with a MODEL only */
    int modes;
    struct pz_workload_options w;
  } model;
};

static const struct settings defaults = {.model = {.w = PZ_WORKLOAD_DEFAULTS}};

enum { NOT_GIVEN = -1 }; /* a choice that the user left open */

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

/* What is scheduled, and the schedules. */
struct schedule_job {
  const struct settings *s;
  struct pz_schedule_options how;
  struct pz_progress progress;
  struct pz_vec list;    /* const struct pz_layer_schedule *: those to show; one for an instance */
  struct pz_vec seconds; /* double: solving time of each; none for a plan */
  const char *model;     /* NULL: an instance */
  const struct pz_workload *workload;     /* of a model without a plan, else NULL */
  const struct pz_plan_schedules *passes; /* of a model with a plan, else NULL */
  const char *chip, *cluster;             /* cluster of a plan; NULL: the chip's own link */
};

/* ---- output --------------------------------------------------------------------------------- */

static const struct pz_layer_schedule *schedule_at(const struct schedule_job *job, uint32_t i) {
  return *pz_vec_at(&job->list, const struct pz_layer_schedule *, i);
}

static json_t *schedule_json(const struct schedule_job *job, uint32_t i) {
  double solving_s = job->seconds.n ? *pz_vec_at(&job->seconds, double, i) : -1;
  return pz_scheduled_json(schedule_at(job, i), solving_s);
}

static json_t *schedules_json(const struct schedule_job *job) {
  double sum_s[2] = {0}; /* of each direction */
  if (!job->model) return schedule_json(job, 0);
  json_t *layers = json_array();
  for (uint32_t i = 0; i < job->list.n; i++) {
    const struct pz_layer_schedule *made = schedule_at(job, i);
    json_array_append_new(layers, schedule_json(job, i));
    sum_s[made->direction] += made->makespan_s * (double)made->count;
  }
  json_t *root = json_pack("{s:s,s:s}", "model", job->model, "chip", job->chip);
  if (job->passes) {
    json_object_set_new(root, "cluster", job->cluster ? json_string(job->cluster) : json_null());
    json_object_set_new(root, "plan", pz_scheduled_plan_json(job->passes));
    json_object_set_new(root, "microbatches", json_integer((json_int_t)job->passes->microbatches));
  } else {
    json_object_set_new(root, "modes", json_string(pz_modes_names[job->how.modes]));
  }
  if (job->how.modes == PZ_MODES_TWO)
    json_object_set_new(root, "exclusive", json_string(pz_exclusive_names[job->how.exclusive]));
  json_object_set_new(root, "layers", layers);
  if (!job->s->layers)
    json_object_set_new(
        root, "totals",
        json_pack("{s:f,s:f}", "forward_s", sum_s[PZ_FORWARD], "backward_s", sum_s[PZ_BACKWARD]));
  return root;
}

static void print_instance(struct pz_call *call, const struct pz_layer_schedule *s) {
  char gap[16];
  printf("makespan %.9g, ", s->makespan_s);
  if (s->optimal)
    printf("optimal\n");
  else
    printf("gap at most %s (lower bound %.9g)\n",
           pz_scheduled_gap_text(pz_schedule_gap(s->makespan_s, s->lower_bound_s), false, gap),
           s->lower_bound_s);
  if (s->makespan_s > 0)
    printf(
        "utilisation: tensor cores %.0f%%, vector cores %.0f%%; speedup over sequential execution "
        "%.2fx\n\n",
        100 * s->use[PZ_TENSOR_CORES], 100 * s->use[PZ_VECTOR_CORES], s->serial_s / s->makespan_s);
  else
    printf("no operator takes time\n\n");
  pz_gantt_chart(call, s, stdout);
}

static void print_title(const struct schedule_job *job) {
  if (job->passes) {
    const struct pz_plan *p = &job->passes->plan;
    char line[PZ_PLAN_LINE_MOST];
    printf("%s on %" PRId64 " x %s%s%s\n%s\n", job->model, p->devices, job->chip,
           job->cluster ? " in " : "", job->cluster ? job->cluster : "",
           pz_plan_line(p, true, line, sizeof line));
    printf("sequence %" PRId64 ", microbatch %" PRId64 "; a step runs each pass %" PRId64
           " times on each replica\n\n",
           p->seq, p->mbs, job->passes->microbatches);
    return;
  }
  const struct pz_workload_options *o = &job->workload->options;
  enum pz_mode_set modes = job->how.modes;
  char context[64];
  printf("%s on %s: sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64 "%s",
         job->model, job->chip, o->seq, o->mbs, o->tp,
         pz_workload_context(o, context, sizeof context));
  if (modes != PZ_MODES_ALL) printf(", modes %s", pz_modes_names[modes]);
  if (modes == PZ_MODES_TWO) printf(", exclusive %s", pz_exclusive_names[job->how.exclusive]);
  printf("\n\n");
}

/* Prints the table of the schedules, and the Gantt chart of each if layers were chosen or --gantt was given. */
static void print_schedules(struct pz_call *call, const struct schedule_job *job) {
  static const char cores[] = "mode: number of tensor (t) and vector (v) cores";
  static const char single[] = "mode: one core of its type (single), or all (intra)";
  print_title(job);
  pz_schedules_table(call, job->list.items, job->list.n, !job->s->layers, stdout);
  fputs(job->passes
            ? "\nus: makespan; bound: proven lower bound; gap: (us - bound) / us; %: utilisation "
              "over the\nmakespan; speedup: over operators one after another (execution serial)\n"
            : "\nus: makespan; bound: proven lower bound; gap: (us - bound) / us; tensor .. glb: "
              "utilisation\nover the makespan; speedup: over sequential execution, each operator "
              "in its fastest mode\n",
        stdout);
  if (!job->s->layers && !job->s->gantt) return;
  printf("\n%s\nbars: # tensor cores, = vector cores only, ~ collectives; times in us\n",
         job->how.modes == PZ_MODES_TWO ? single : cores);
  for (uint32_t i = 0; i < job->list.n; i++) {
    char title[256];
    printf("\n%s\n", pz_scheduled_title(schedule_at(job, i), title));
    pz_gantt_chart(call, schedule_at(job, i), stdout);
  }
}

/* Writes the trace of the schedules and prints them. */
static void report_schedules(struct pz_call *call, const struct schedule_job *job) {
  const struct settings *s = job->s;
  if (s->trace) {
    char *trace = NULL;
    pz_must(call, pz_schedule_trace(job->list.items, job->list.n, &trace, pz_call_error(call)));
    pz_command_save_text(call, s->trace, trace);
  }
  if (s->common.verbose && !s->common.quiet)
    pz_schedules_statistics(call, job->list.items, job->list.n, stderr);
  if (s->common.json)
    pz_command_print_json(call, schedules_json(job));
  else if (job->model)
    print_schedules(call, job);
  else
    print_instance(call, schedule_at(job, 0));
}

/* ---- an instance, or the layers of a model --------------------------------------------------- */

/* Appends a schedule, which the call frees, with the time that it took. */
static void append_schedule(struct pz_call *call, struct schedule_job *job,
                            struct pz_layer_schedule *made, double start_s) {
  double took_s = pz_clock_s() - start_s;
  char title[256];
  pz_defer(call, pz_free_layer_schedule, made);
  if (job->s->common.verbose && !job->s->common.quiet)
    pz_command_say("%s: %" PRId64 " steps in %.3f s", pz_scheduled_title(made, title), made->steps,
                   took_s);
  pz_append(call, &job->seconds, &took_s);
  pz_append(call, &job->list, &made);
}

static void schedule_instance(struct pz_call *call, struct schedule_job *job) {
  const char *path = job->s->instance;
  struct pz_layer_schedule *made = NULL;
  size_t bytes = 0;
  double start_s = pz_clock_s();
  job->progress.total = 1;
  pz_progress_update(&job->progress, 0, path);
  const char *text = pz_file_text(call, path, PZ_INSTANCE_MOST_BYTES, &bytes);
  pz_must(call, pz_schedule_instance(path, text, bytes, &job->how, &made, pz_call_error(call)));
  append_schedule(call, job, made, start_s);
  report_schedules(call, job);
}

/* Returns the name after the next comma, or NULL after the last. */
static const char *next_name(const char *at) {
  const char *comma = strchr(at, ',');
  return comma ? comma + 1 : NULL;
}

/* Returns whether the comma-separated list contains a layer, which is true of all layers without a list. */
static bool is_chosen(const char *list, const char *layer) {
  size_t n = strlen(layer);
  if (!list) return true;
  for (const char *at = list; at; at = next_name(at))
    if (strcspn(at, ",") == n && strncmp(at, layer, n) == 0) return true;
  return false;
}

static const char *name_at(const void *ctx, size_t i) { return ((const char *const *)ctx)[i]; }

/* Raises PZ_BAD_USE if a name of the list is none of the layers in `names`, which ends with NULL. */
static void check_layers(struct pz_call *call, const char *list, const char *model,
                         const char *const *names) {
  for (const char *at = list; at; at = next_name(at)) {
    char all[256];
    size_t n = strcspn(at, ","), i = 0;
    while (names[i] && (strlen(names[i]) != n || strncmp(at, names[i], n) != 0)) i++;
    if (!names[i])
      pz_raise(call, PZ_BAD_USE, "--layer: %s has no layer '%.*s'; accepted: %s", model, (int)n, at,
               pz_text_join(all, sizeof all, name_at, names));
  }
}

/* Solves one pass of a layer.  Its integer program is written to the file that was named, with "-LAYER-PASS" before the
 * end of the name. */
static void schedule_layer(struct pz_call *call, struct schedule_job *job, struct pz_cost *cost,
                           const struct pz_layer *l, enum pz_direction d) {
  static const char *const passes[] = {"forward", "backward"};
  struct pz_schedule_options how = job->how;
  struct pz_layer_schedule *made = NULL;
  double start_s = pz_clock_s();
  if (how.lp) {
    how.lp = pz_file_with(how.lp, pz_format(call, "-%s-%s", l->name, passes[d]), call->arena);
    if (!how.lp) pz_must(call, PZ_NO_MEMORY);
  }
  pz_progress_update(&job->progress, job->list.n, pz_format(call, "%s %s", l->name, passes[d]));
  pz_must(call, pz_schedule_layer(cost, l, d, &how, &made, pz_call_error(call)));
  append_schedule(call, job, made, start_s);
}

static void finish_progress(void *progress) { pz_progress_finish(progress, NULL); }

static void schedule_model(struct pz_call *call, struct schedule_job *job, const char *model) {
  const struct settings *s = job->s;
  struct pz_workload *w = NULL;
  const char *option = NULL;
  int64_t group = pz_workload_group(&s->model.w, &option);
  struct pz_machine_use use = {option, group, s->common.quiet, .training = false};
  struct pz_cost *cost = pz_machine_cost(call, &s->machine, use);
  pz_must(call, pz_workload_load(model, &s->model.w, &w, pz_call_error(call)));
  pz_defer(call, pz_free_workload, w);
  pz_command_warn(s->common.quiet, w->warning);

  const char **names = pz_alloc(call, w->n_layers + 1, sizeof *names);
  pz_defer(call, finish_progress, &job->progress);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    names[i] = w->layers[i].name;
    if (is_chosen(s->layers, names[i])) job->progress.total += 2;
  }
  check_layers(call, s->layers, w->model, names);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    if (!is_chosen(s->layers, names[i])) continue;
    schedule_layer(call, job, cost, &w->layers[i], PZ_FORWARD);
    schedule_layer(call, job, cost, &w->layers[i], PZ_BACKWARD);
  }
  pz_progress_update(&job->progress, job->list.n, NULL);
  pz_close(call, &job->progress);
  job->model = w->model;
  job->workload = w;
  job->chip = pz_cost_chip(cost)->name;
  report_schedules(call, job);
}

/* ---- a training plan ------------------------------------------------------------------------ */

/* All passes of the plan are solved at once; the list contains those of the chosen layers. */
static void schedule_plan(struct pz_call *call, struct schedule_job *job) {
  const struct settings *s = job->s;
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_plan_schedules *p = NULL;
  const char *name;
  struct pz_run_plan *r = pz_machine_read_run(call, s->plan, &o, &name);
  if (r->config)
    pz_raise(call, PZ_BAD_INPUT,
             "%s has a config of its own; accepted: a model by its name or path", name);
  const struct pz_machine *machine = pz_machine_of(call, &s->machine, name, s->common.quiet, r);
  job->progress.total = 1;
  pz_progress_update(&job->progress, 0, name);
  pz_defer(call, finish_progress, &job->progress);
  pz_must(call, pz_training_schedule(r->model, &machine->chip, pz_machine_net(machine), &r->plan,
                                     &job->how, &p, pz_call_error(call)));
  pz_close(call, &job->progress);
  pz_defer(call, pz_free_plan_schedules, p);
  job->passes = p;

  const char **names = pz_alloc(call, p->n + 1, sizeof *names);
  uint32_t n_names = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_layer_schedule *pass = &p->list[i];
    bool first_of_layer = !n_names || strcmp(pass->layer, names[n_names - 1]) != 0;
    if (first_of_layer) names[n_names++] = pass->layer;
    if (is_chosen(s->layers, pass->layer)) pz_append(call, &job->list, &pass);
  }
  check_layers(call, s->layers, r->model, names);
  job->model = r->model;
  job->chip = machine->chip.name;
  job->cluster = pz_machine_net_name(machine);
  report_schedules(call, job);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns what is wrong with the arguments, or NULL.  `none` are the settings without any option. */
static const char *find_misuse(struct pz_call *call, const struct settings *s,
                               const struct settings *none, int n_args, const char *model) {
  const char *input = model;
  if (s->plan) input = s->plan;
  if (s->instance) input = s->instance;
  const struct pz_option *o =
      pz_command_changed(&pz_cmd_schedule, s->instance ? AT(machine) : AT(model), s, none);
  if (n_args + (s->instance != NULL) + (s->plan != NULL) != 1)
    return "expected either a MODEL, --plan FILE.json or --instance FILE.json";
  if (pz_machine_overwrites(&s->machine, input, s->trace))
    return "--trace would overwrite the input file";
  bool ilp = s->solver == PZ_SOLVER_ILP;
  if ((ilp && s->steps > 0) || (!ilp && s->seconds > 0))
    return "--steps requires --solver exact, --time-limit requires --solver ilp";
  if (ilp && s->disable) return "--disable requires --solver exact";
  if (s->trace && s->lp && pz_file_same(s->trace, s->lp))
    return "--trace and --write-lp name the same file";
  if ((s->instance || s->plan) && o)
    return pz_format(call, "--%s requires a MODEL, it does not apply to --%s", o->name,
                     s->instance ? "instance" : "plan");
  if (s->instance) return NULL;
  if (!s->machine.chip && !s->plan) return "--chip CHIP is required";
  if (s->exclusive != NOT_GIVEN && s->model.modes != PZ_MODES_TWO)
    return "--exclusive requires --modes two or --instance";
  if (s->common.json && s->gantt) return "--json and --gantt cannot be combined";
  return NULL;
}

static void schedule(struct pz_call *call, struct pz_invocation *in) {
  struct settings none = defaults;
  none.exclusive = none.model.modes = NOT_GIVEN;
  struct settings s = none;
  if (!pz_command_options(call, in, &s)) return;
  const char *misuse = find_misuse(call, &s, &none, in->n_args, in->args[0]);
  if (misuse) pz_command_refuse(call, in, misuse);
  struct schedule_job *job = pz_alloc(call, 1, sizeof *job);
  job->s = &s;
  /* A choice that was not given keeps its default. */
  struct pz_schedule_options *how = &job->how;
  *how = pz_schedule_options_default();
  how->steps = s.plan ? PZ_PASS_STEPS : PZ_SCHEDULE_STEPS;
  if (s.steps) how->steps = s.steps;
  if (s.model.modes != NOT_GIVEN) how->modes = (enum pz_mode_set)s.model.modes;
  if (s.exclusive != NOT_GIVEN) how->exclusive = (enum pz_exclusive)s.exclusive;
  how->solver = (enum pz_solver)s.solver;
  how->seconds = s.seconds;
  how->disable = s.disable;
  how->lp = s.lp;
  how->views = true;
  pz_vec_init(&job->list, call->arena, sizeof(struct pz_layer_schedule *));
  pz_vec_init(&job->seconds, call->arena, sizeof(double));
  pz_progress_start(&job->progress, stderr,
                    s.common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr), "schedule",
                    "problems", 0);
  if (s.trace) pz_file_require_output(call, s.trace, NULL, 0);
  if (s.instance)
    schedule_instance(call, job);
  else if (s.plan)
    schedule_plan(call, job);
  else
    schedule_model(call, job, in->args[0]);
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
    .n_args = -1,
    .body = schedule,
};
