/* phaze schedule: the shortest schedule of operators on a chip's cores, for the layers of a model,
 * for the passes of a training plan, or for an instance file.
 *
 * schedule() checks the arguments; then schedule_instance(), schedule_plan() or schedule_model()
 * solves the schedules into the lists of a struct schedule_job, and report_schedules() writes
 * the trace and prints them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/machine_options.h"
#include "cli/workload_options.h"
#include "core/file.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/vec.h"
#include "report/records.h"
#include "report/schedule_table.h"

struct settings {
  struct pz_common common;
  const char *instance, *plan, *trace, *lp, *disable;
  int exclusive, solver;
  int64_t steps;
  double seconds;
  struct pz_machine_options machine; /* the options from here on do not apply to --instance */
  const char *layers;
  bool gantt;
  struct { /* these options require a MODEL */
    int modes;
    struct pz_workload_options workload;
  } model;
};

static const struct settings defaults = {.model = {.workload = PZ_WORKLOAD_DEFAULTS}};

enum { NOT_GIVEN = -1 }; /* value of a choice that was not given */

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_TEXT_OPTION("instance", AT(instance), "FILE.json", "Read a scheduling problem instead of a MODEL (format above)"),
    PZ_TEXT_OPTION("plan", AT(plan), "FILE.json", "Schedule the passes of a training plan with its model, as 'phaze predict --json' prints it; - is standard input (default effort: that of the predicted step, 1000)"),
    PZ_CHOICE_OPTION("exclusive", AT(exclusive), pz_exclusive_names, "While an operator runs on all cores of its type, no other runs on the chip (all), or on cores of that type (class); with --modes two or --instance"),
    PZ_INT_OPTION("steps", AT(steps), "N", 1, 1e15, "Effort limit per schedule, in solver steps; the same limit gives the same result on any machine (default: 16 million)"),
    PZ_CHOICE_OPTION("solver", AT(solver), pz_solver_names, "exact: branch and bound; ilp: integer program solved by CBC, up to 128 operators"),
    PZ_TEXT_OPTION("disable", AT(disable), "NAME,...", "Switch off techniques of --solver exact, for example left_shift,diving; results stay correct, gaps may grow. An unknown name lists all; -v shows what each did"),
    PZ_REAL_OPTION("time-limit", AT(seconds), "S", 0.001, 1e6, "Time limit of --solver ilp per schedule, in seconds (default: 60)"),
    PZ_TEXT_OPTION("write-lp", AT(lp), "FILE", "Write the integer program to FILE.lp or FILE.mps for another solver; with a MODEL one file per schedule, named FILE-LAYER-PASS"),
    PZ_TEXT_OPTION("trace", AT(trace), "FILE.json", "Write the schedules as a timeline for ui.perfetto.dev or chrome://tracing"),
    PZ_MACHINE_OPTIONS(struct settings, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    PZ_TEXT_OPTION("layer", AT(layers), "L,...", "Schedule only these layers, and draw each schedule (default: all layers, as a table)"),
    PZ_FLAG_OPTION("gantt", AT(gantt), "Draw the schedule of every layer as a chart"),
    PZ_CHOICE_OPTION("modes", AT(model.modes), pz_modes_names, "Cores of an operator. all: 1, 2, 4 .. all cores, memory bandwidth shared; cores: the same, bandwidth not shared; two: one core or all cores"),
    PZ_WORKLOAD_OPTIONS(struct settings, model.workload),
};
/* clang-format on */

/* The question and its answer: what is scheduled, and the schedules that were found. */
struct schedule_job {
  const struct settings *settings;
  struct pz_schedule_options options;
  struct pz_progress progress;
  struct pz_vec list;                 /* const struct pz_layer_schedule *: the schedules to print */
  struct pz_vec seconds;              /* double: solving time of each schedule; empty for a plan */
  const char *model;                  /* name of the model, or NULL for an instance */
  const struct pz_workload *workload; /* operators of the MODEL, otherwise NULL */
  const struct pz_plan_schedules *passes; /* schedules of the plan, otherwise NULL */
  const char *chip;
  const char *cluster; /* network of the plan, or NULL if it is the chip's own link */
};

/* ---- output --------------------------------------------------------------------------------- */

/* Prints the schedule of an instance, or the schedules of all layers with their sums. */
static void print_schedules_json(struct pz_call *call, const struct schedule_job *job) {
  struct pz_solved_schedule *layers = pz_alloc(call, job->list.n, sizeof *layers);
  const struct pz_scheduled_plan plan = {job->cluster, job->passes};
  double sum_s[2] = {0}; /* by direction */
  struct pz_schedule_answer answer = {.model = job->model,
                                      .chip = job->chip,
                                      .plan = job->passes ? &plan : NULL,
                                      .layers = layers,
                                      .n_layers = job->list.n};
  if (!job->passes) answer.modes = pz_modes_names[job->options.modes];
  if (job->options.modes == PZ_MODES_TWO)
    answer.exclusive = pz_exclusive_names[job->options.exclusive];
  for (uint32_t i = 0; i < job->list.n; i++) {
    const struct pz_layer_schedule *schedule =
        *pz_vec_at(&job->list, const struct pz_layer_schedule *, i);
    layers[i] = (struct pz_solved_schedule){
        .schedule = schedule,
        .layer = schedule->layer ? schedule : NULL,
        .gap = pz_schedule_gap(schedule->makespan_s, schedule->lower_bound_s),
        .solving_s = job->seconds.n ? *pz_vec_at(&job->seconds, double, i) : (double)NAN,
        .outcome = schedule->optimal ? "optimal" : "feasible"};
    sum_s[schedule->direction] += schedule->makespan_s * (double)schedule->count;
  }
  const struct pz_schedule_totals totals = {sum_s[PZ_FORWARD], sum_s[PZ_BACKWARD]};
  if (!job->settings->layers) answer.totals = &totals;
  pz_command_print_json(call, job->model ? pz_record_json(&pz_schedule_answer_record, &answer)
                                         : pz_record_json(&pz_solved_schedule_record, layers));
}

/* Prints the makespan of an instance, its bound and utilisation, and the Gantt chart. */
static void print_instance(struct pz_call *call, const struct pz_layer_schedule *schedule) {
  double makespan = schedule->makespan_s;
  char gap[16];
  printf("makespan %.9g, ", makespan);
  if (schedule->optimal)
    printf("optimal\n");
  else
    printf("gap at most %s (lower bound %.9g)\n",
           pz_scheduled_gap_text(pz_schedule_gap(makespan, schedule->lower_bound_s), false, gap),
           schedule->lower_bound_s);
  if (makespan > 0)
    printf(
        "utilisation: tensor cores %.0f%%, vector cores %.0f%%; speedup over sequential execution "
        "%.2fx\n\n",
        100 * schedule->use[PZ_TENSOR_CORES], 100 * schedule->use[PZ_VECTOR_CORES],
        schedule->serial_s / makespan);
  else
    printf("no operator takes time\n\n");
  pz_gantt_chart(call, schedule, stdout);
}

/* Prints the question above the table of schedules. */
static void print_title(const struct schedule_job *job) {
  if (job->passes) {
    const struct pz_plan *plan = &job->passes->plan;
    char line[PZ_PLAN_LINE_MOST];
    printf("%s on %" PRId64 " x %s%s%s\n%s\n", job->model, plan->devices, job->chip,
           job->cluster ? " in " : "", job->cluster ? job->cluster : "",
           pz_plan_line(plan, true, line, sizeof line));
    printf("sequence %" PRId64 ", microbatch %" PRId64 "; a step runs each pass %" PRId64
           " times on each replica\n\n",
           plan->seq, plan->mbs, job->passes->microbatches);
    return;
  }
  const struct pz_workload_options *workload = &job->workload->options;
  enum pz_mode_set modes = job->options.modes;
  char context[64];
  printf("%s on %s: sequence %" PRId64 ", microbatch %" PRId64 ", tensor parallel %" PRId64 "%s",
         job->model, job->chip, workload->seq, workload->mbs, workload->tp,
         pz_workload_context(workload, context, sizeof context));
  if (modes != PZ_MODES_ALL) printf(", modes %s", pz_modes_names[modes]);
  if (modes == PZ_MODES_TWO) printf(", exclusive %s", pz_exclusive_names[job->options.exclusive]);
  printf("\n\n");
}

/* Prints the table of the schedules, and their Gantt charts with --layer or --gantt. */
static void print_schedules(struct pz_call *call, const struct schedule_job *job) {
  static const char cores[] = "mode: number of tensor (t) and vector (v) cores";
  static const char single[] = "mode: one core of its type (single), or all (intra)";
  print_title(job);
  pz_schedules_table(call, job->list.items, job->list.n, !job->settings->layers, stdout);
  fputs(job->passes
            ? "\nus: makespan; bound: proven lower bound; gap: (us - bound) / us; %: utilisation "
              "over the\nmakespan; speedup: over operators one after another (execution serial)\n"
            : "\nus: makespan; bound: proven lower bound; gap: (us - bound) / us; tensor .. glb: "
              "utilisation\nover the makespan; speedup: over sequential execution, each operator "
              "in its fastest mode\n",
        stdout);
  if (!job->settings->layers && !job->settings->gantt) return;
  printf("\n%s\nbars: # tensor cores, = vector cores only, ~ collectives; times in us\n",
         job->options.modes == PZ_MODES_TWO ? single : cores);
  for (uint32_t i = 0; i < job->list.n; i++) {
    const struct pz_layer_schedule *schedule =
        *pz_vec_at(&job->list, const struct pz_layer_schedule *, i);
    char title[256];
    printf("\n%s\n", pz_scheduled_title(schedule, title));
    pz_gantt_chart(call, schedule, stdout);
  }
}

/* Writes the trace of the schedules and prints them. */
static void report_schedules(struct pz_call *call, const struct schedule_job *job) {
  const struct settings *settings = job->settings;
  if (settings->trace) {
    char *trace = NULL;
    pz_must(call, pz_schedule_trace(job->list.items, job->list.n, &trace, pz_call_error(call)));
    pz_command_save_text(call, settings->trace, trace);
  }
  if (settings->common.verbose && !settings->common.quiet)
    pz_schedules_statistics(call, job->list.items, job->list.n, stderr);
  if (settings->common.json)
    print_schedules_json(call, job);
  else if (job->model)
    print_schedules(call, job);
  else
    print_instance(call, *pz_vec_at(&job->list, const struct pz_layer_schedule *, 0));
}

/* ---- an instance, or the layers of a model -------------------------------------------------- */

/* Appends a schedule and the time that solving it has taken since start_s.  The call frees it. */
static void append_schedule(struct pz_call *call, struct schedule_job *job,
                            struct pz_layer_schedule *schedule, double start_s) {
  double solving_s = pz_clock_s() - start_s;
  char title[256];
  pz_defer(call, pz_object_free, schedule);
  if (job->settings->common.verbose && !job->settings->common.quiet)
    pz_command_say("%s: %" PRId64 " steps in %.3f s", pz_scheduled_title(schedule, title),
                   schedule->steps, solving_s);
  pz_append(call, &job->seconds, &solving_s);
  pz_append(call, &job->list, &schedule);
}

/* Schedules the operators of an instance file. */
static void schedule_instance(struct pz_call *call, struct schedule_job *job) {
  const char *path = job->settings->instance;
  struct pz_layer_schedule *schedule = NULL;
  size_t bytes = 0;
  double start_s = pz_clock_s();
  job->progress.total = 1;
  pz_progress_update(&job->progress, 0, path);
  const char *text = pz_file_text(call, path, PZ_INSTANCE_MOST_BYTES, &bytes);
  pz_must(call,
          pz_schedule_instance(path, text, bytes, &job->options, &schedule, pz_call_error(call)));
  append_schedule(call, job, schedule, start_s);
  report_schedules(call, job);
}

/* Returns whether a comma-separated list contains a layer; NULL contains every layer. */
static bool is_chosen(const char *list, const char *layer) {
  if (!list) return true;
  while (true) {
    size_t n = strcspn(list, ",");
    if (n == strlen(layer) && strncmp(list, layer, n) == 0) return true;
    if (!list[n]) return false;
    list += n + 1;
  }
}

/* Raises PZ_BAD_USE if a name of the list is none of `layers`, which ends with NULL. */
static void check_layers(struct pz_call *call, const char *list, const char *model,
                         const char *const *layers) {
  for (const char *name = list; name;) {
    char accepted[256];
    size_t n = strcspn(name, ","), i = 0;
    while (layers[i] && (strlen(layers[i]) != n || strncmp(name, layers[i], n) != 0)) i++;
    if (!layers[i])
      pz_raise(call, PZ_BAD_USE, "--layer: %s has no layer '%.*s'; accepted: %s", model, (int)n,
               name, pz_text_join(accepted, sizeof accepted, pz_name_in_list, layers));
    name = name[n] ? name + n + 1 : NULL; /* after the next comma */
  }
}

/* Finds the schedule of one pass of a layer.  With --write-lp FILE, its integer program is written
 * to a file whose name contains "-LAYER-PASS" before the suffix. */
static void schedule_layer(struct pz_call *call, struct schedule_job *job, struct pz_cost *cost,
                           const struct pz_layer *layer, enum pz_direction direction) {
  const char *pass = direction == PZ_FORWARD ? "forward" : "backward";
  struct pz_schedule_options options = job->options;
  struct pz_layer_schedule *schedule = NULL;
  double start_s = pz_clock_s();
  if (options.lp)
    options.lp = pz_file_with(call, options.lp, pz_format(call, "-%s-%s", layer->name, pass));
  pz_progress_update(&job->progress, job->list.n, pz_format(call, "%s %s", layer->name, pass));
  pz_must(call,
          pz_schedule_layer(cost, layer, direction, &options, &schedule, pz_call_error(call)));
  append_schedule(call, job, schedule, start_s);
}

/* Schedules the forward and backward pass of each chosen layer of a model. */
static void schedule_model(struct pz_call *call, struct schedule_job *job, const char *model) {
  const struct settings *settings = job->settings;
  const char *option = NULL;
  int64_t group = pz_workload_group(&settings->model.workload, &option);
  struct pz_machine_use use = {option, group, settings->common.quiet, .training = false};
  struct pz_cost *cost = pz_machine_cost(call, &settings->machine, use);
  const struct pz_workload *workload =
      pz_workload_open(call, model, &settings->model.workload, settings->common.quiet);

  const char **names = pz_alloc(call, workload->n_layers + 1, sizeof *names);
  pz_defer(call, pz_progress_close, &job->progress);
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    names[i] = workload->layers[i].name;
    if (is_chosen(settings->layers, names[i])) job->progress.total += 2;
  }
  check_layers(call, settings->layers, workload->model, names);
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    if (!is_chosen(settings->layers, names[i])) continue;
    schedule_layer(call, job, cost, &workload->layers[i], PZ_FORWARD);
    schedule_layer(call, job, cost, &workload->layers[i], PZ_BACKWARD);
  }
  pz_progress_update(&job->progress, job->list.n, NULL);
  pz_close(call, &job->progress);
  job->model = workload->model;
  job->workload = workload;
  job->chip = pz_cost_chip(cost)->name;
  report_schedules(call, job);
}

/* ---- a training plan ------------------------------------------------------------------------ */

/* Schedules all passes of a training plan and lists those of the chosen layers. */
static void schedule_plan(struct pz_call *call, struct schedule_job *job) {
  const struct settings *settings = job->settings;
  struct pz_run_plan_options read_options = pz_run_plan_options_default();
  struct pz_plan_schedules *passes = NULL;
  struct pz_run_file file = pz_run_file_read(call, settings->plan, &read_options);
  struct pz_run_plan *run = file.run;
  if (run->config)
    pz_raise(call, PZ_BAD_INPUT,
             "%s has a config of its own; accepted: a model by its name or path", file.name);
  const struct pz_machine *machine =
      pz_machine_of_run(call, &settings->machine, file.name, settings->common.quiet, run);
  job->progress.total = 1;
  pz_progress_update(&job->progress, 0, file.name);
  pz_defer(call, pz_progress_close, &job->progress);
  pz_must(call, pz_training_schedule(run->model, &machine->chip, machine->net, &run->plan,
                                     &job->options, &passes, pz_call_error(call)));
  pz_close(call, &job->progress);
  pz_defer(call, pz_object_free, passes);
  job->passes = passes;

  const char **names = pz_alloc(call, passes->n + 1, sizeof *names);
  uint32_t n_names = 0;
  for (uint32_t i = 0; i < passes->n; i++) {
    const struct pz_layer_schedule *pass = &passes->list[i];
    bool first_of_layer = !n_names || strcmp(pass->layer, names[n_names - 1]) != 0;
    if (first_of_layer) names[n_names++] = pass->layer;
    if (is_chosen(settings->layers, pass->layer)) pz_append(call, &job->list, &pass);
  }
  check_layers(call, settings->layers, run->model, names);
  job->model = run->model;
  job->chip = machine->chip.name;
  job->cluster = machine->net_name;
  report_schedules(call, job);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns an error message if the arguments are inconsistent; `unset` has no option. */
static const char *schedule_misuse(struct pz_call *call, const struct settings *settings,
                                   const struct settings *unset, int n_args, const char *model) {
  bool instance = settings->instance != NULL, plan = settings->plan != NULL;
  bool ilp = settings->solver == PZ_SOLVER_ILP;
  const char *input = model;
  if (plan) input = settings->plan;
  if (instance) input = settings->instance;
  if (n_args + (int)instance + (int)plan != 1)
    return "expected either a MODEL, --plan FILE.json or --instance FILE.json";
  const char *overwrite =
      pz_machine_find_overwrite(&settings->machine, input, settings->trace, NULL);
  if (overwrite) return overwrite;
  if ((ilp && settings->steps > 0) || (!ilp && settings->seconds > 0))
    return "--steps requires --solver exact, --time-limit requires --solver ilp";
  if (ilp && settings->disable) return "--disable requires --solver exact";
  if (settings->trace && settings->lp && pz_file_same(settings->trace, settings->lp))
    return "--trace and --write-lp name the same file";
  const struct pz_option *model_option =
      pz_command_changed(&pz_cmd_schedule, instance ? AT(machine) : AT(model), settings, unset);
  if ((instance || plan) && model_option)
    return pz_format(call, "--%s requires a MODEL, it does not apply to --%s", model_option->name,
                     instance ? "instance" : "plan");
  if (instance) return NULL;
  if (!settings->machine.chip && !plan) return "--chip CHIP is required";
  if (settings->exclusive != NOT_GIVEN && settings->model.modes != PZ_MODES_TWO)
    return "--exclusive requires --modes two or --instance";
  if (settings->common.json && settings->gantt) return "--json and --gantt cannot be combined";
  return NULL;
}

/* Checks the options, and schedules an instance, the passes of a plan, or the layers of a model. */
static void schedule(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings unset = defaults;
  unset.exclusive = NOT_GIVEN;
  unset.model.modes = NOT_GIVEN;
  struct settings settings = unset;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *misuse =
      schedule_misuse(call, &settings, &unset, invocation->n_args, invocation->args[0]);
  if (misuse) pz_command_refuse(call, invocation, misuse);
  struct schedule_job *job = pz_alloc(call, 1, sizeof *job);
  job->settings = &settings;
  /* A choice that was not given keeps its default. */
  struct pz_schedule_options *options = &job->options;
  *options = pz_schedule_options_default();
  options->steps = settings.plan ? PZ_PASS_STEPS : PZ_SCHEDULE_STEPS;
  if (settings.steps) options->steps = settings.steps;
  if (settings.model.modes != NOT_GIVEN) options->modes = (enum pz_mode_set)settings.model.modes;
  if (settings.exclusive != NOT_GIVEN) options->exclusive = (enum pz_exclusive)settings.exclusive;
  options->solver = (enum pz_solver)settings.solver;
  options->seconds = settings.seconds;
  options->disable = settings.disable;
  options->lp = settings.lp;
  options->views = true;
  pz_vec_init(&job->list, call->arena, sizeof(struct pz_layer_schedule *));
  pz_vec_init(&job->seconds, call->arena, sizeof(double));
  pz_progress_start(&job->progress, stderr,
                    settings.common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr),
                    "schedule", "problems", 0);
  if (settings.trace) pz_file_require_output(call, settings.trace, NULL, 0);
  if (settings.instance)
    schedule_instance(call, job);
  else if (settings.plan)
    schedule_plan(call, job);
  else
    schedule_model(call, job, invocation->args[0]);
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = schedule,
};
