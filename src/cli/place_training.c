/* phaze place --semantics training: the best plan as training frameworks execute it, or how the
 * best plan scales over a list of numbers of devices.
 *
 * pz_place_training() at the end checks the options, opens the machine, reads the options of the
 * search, and calls place_once() for one number of devices or place_scaling() for several.  The
 * searches themselves are pz_training_place() and pz_training_scale().  place_once() compares
 * the answer with the user's own plan (compare_plans()), writes the files that are asked for,
 * and prints a launch script, JSON or text. */
#include "cli/place_training.h"
#include "core/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/options.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

static const double DAY_S = 86400;
enum { DEFAULT_BATCH = 4096 };

/* Plans tie if their predicted times differ by less than a hundredth, or, with --risk counted,
 * if their times including the expected error differ by less than a thousandth.  The simplest of
 * tied plans is chosen. */
static const double TIE = 0.01, COUNTED_TIE = 0.001;

/* ---- options -------------------------------------------------------------------------------- */

/* Raises PZ_BAD_USE if options are given that cannot be combined. */
static void check_combination(struct pz_call *call, const struct pz_place_job *job) {
  const struct pz_place_settings *settings = job->settings;
  const struct pz_place_training_settings *training = job->training;
  const char *conflict = NULL, *single_only = NULL;
  if (settings->batch && training->batch_per_device)
    conflict = "--batch and --batch-per-device; accepted: one of them";
  else if (training->price > 0 && !training->tokens)
    conflict = "--price requires --tokens";
  else if (training->deadline && !training->tokens)
    conflict = "--deadline requires --tokens";
  else if (settings->emit && (training->tokens || training->top > 1 || settings->trace ||
                              training->report || training->compare))
    conflict = "--emit cannot be combined with --tokens, --top, --trace, --report or --compare";
  if (conflict) pz_raise(call, PZ_BAD_USE, "%s", conflict);
  if (job->devices.n == 1) return;
  if (settings->emit)
    single_only = "emit";
  else if (settings->trace)
    single_only = "trace";
  else if (training->top > 1)
    single_only = "top";
  if (single_only)
    pz_raise(call, PZ_BAD_USE, "--%s with several --devices; accepted: one number of devices",
             single_only);
}

/* Returns the options of the search.  Degrees that are given are fixed, the others are searched. */
static struct pz_training_place_options
read_options(struct pz_call *call, const struct pz_place_job *job, struct pz_progress *progress) {
  const struct pz_place_settings *settings = job->settings;
  const struct pz_place_training_settings *training = job->training;
  struct pz_training_place_options options = pz_training_place_options_default();
  options.plan = training->plan;
  options.objective = training->objective;
  options.risk = training->risk;
  options.without = training->without;
  options.tie = training->risk == PZ_RISK_NONE ? TIE : COUNTED_TIE;
  options.top = (uint32_t)training->top;
  options.all_devices = training->all_devices;
  options.seconds = training->seconds;
  options.progress = pz_command_progress;
  options.ctx = progress;
  options.events = settings->trace != NULL;
  struct pz_plan *plan = &options.plan;
  plan->seq = settings->seq;
  plan->batch = settings->batch ? settings->batch : DEFAULT_BATCH;
  plan->devices = job->devices.v[0];
  plan->recompute = settings->recompute;
  /* Other semantics accept lists of degrees and microbatch sizes, these one number of each. */
  const struct {
    const char *name, *text;
    int64_t *number;
  } lists[] = {{"tp", settings->tp, &plan->tp}, {"mbs", settings->mbs, &plan->mbs}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (!lists[i].text) continue;
    const struct pz_choices list = pz_choices_read(call, lists[i].text, lists[i].name, 1 << 20);
    if (list.n > 1)
      pz_raise(call, PZ_BAD_USE,
               "--%s %s with --semantics training; accepted: one number, or auto (all are "
               "searched)",
               lists[i].name, lists[i].text);
    *lists[i].number = list.v[0];
  }
  if (plan->sp == 1 && plan->tp == 1)
    pz_raise(call, PZ_BAD_USE, "--sp with --tp 1; accepted: --tp above 1");
  if (settings->emit) {
    const char *emitted_name = pz_launch_names[settings->emit];
    int emitted = pz_framework_find(emitted_name);
    if (plan->framework >= 0 && plan->framework != emitted)
      pz_raise(call, PZ_BAD_USE, "--framework %s with --emit %s; accepted: the same",
               pz_framework_names[plan->framework], emitted_name);
    plan->framework = emitted;
  }
  if (training->deadline) {
    options.tokens = pz_parse_tokens(call, training->tokens);
    options.deadline_s = pz_parse_deadline(call, training->deadline);
  }
  options.pinned = pz_plan_given(plan) & pz_plan_searched();
  return options;
}

/* ---- the user's own plan -------------------------------------------------------------------- */

/* Reads the user's plan, and takes options that were not given from it. */
struct pz_run_plan *pz_place_read_compared(struct pz_call *call, struct pz_place_settings *settings,
                                           struct pz_place_training_settings *training,
                                           bool devices_given) {
  struct pz_run_plan_options options = pz_run_plan_options_default();
  struct pz_choices devices = {.n = 0};
  if (devices_given) devices = pz_choices_read(call, settings->devices_text, "devices", 1 << 24);
  if (devices.n > 1)
    pz_raise(call, PZ_BAD_USE, "--compare with several --devices; accepted: one number of devices");
  if (devices.n == 1) options.devices = devices.v[0];
  options.vocab = training->vocab;
  options.set = training->set;
  options.ignore = training->ignore;
  struct pz_run_file file = pz_run_file_read(call, training->compare, &options);
  struct pz_machine_options *machine = &settings->machine;
  if (!machine->chip && !machine->cluster) machine->cluster = file.run->cluster;
  if (!machine->chip) machine->chip = file.run->chip;
  if (!machine->chip)
    pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP", file.name);
  const struct pz_plan *user_plan = &file.run->plan;
  if (!devices_given) {
    snprintf(training->compared_devices, sizeof training->compared_devices, "%lld",
             (long long)pz_plan_asked_devices(user_plan));
    settings->devices_text = training->compared_devices;
  }
  /* Options that were not given come from the plan: batch, sequence length, framework, precision
   * and the like.  All other fields are searched, or have the default of the framework. */
  struct pz_plan *plan = &training->plan;
  if (!settings->batch && !training->batch_per_device) settings->batch = user_plan->batch;
  if (!settings->seq) settings->seq = user_plan->seq;
  if (plan->framework < 0) plan->framework = user_plan->framework;
  if (plan->precision < 0) plan->precision = user_plan->precision;
  if (plan->fp8_recipe < 0) plan->fp8_recipe = user_plan->fp8_recipe;
  if (!(plan->imbalance > 0)) plan->imbalance = user_plan->imbalance;
  plan->mtp = plan->mtp || user_plan->mtp;
  if (!plan->peft) plan->peft = user_plan->peft;
  return file.run;
}

/* Returns the differences between the user's plan and the best one.  Both train the model of the
 * user's file with the batch and sequence length of the search. */
static const struct pz_plan_diff *compare_plans(struct pz_call *call,
                                                const struct pz_place_job *job,
                                                const struct pz_training_run *best) {
  /* Paddings of the vocabulary change the number of parameters of a model by up to this ratio. */
  static const double SAME_MODEL = 0.02;
  const char *file = job->training->compare;
  const struct pz_machine *machine = job->machine;
  struct pz_run_plan user_run = *job->compared, best_run = *job->compared;
  struct pz_plan_diff *diff = NULL;
  struct pz_error why = {0};
  user_run.plan.batch = best->plan.batch;
  user_run.plan.seq = best->plan.seq;
  best_run.plan = best->plan;
  struct pz_diff_side user_side = {sizeof user_side, &user_run, &machine->chip, machine->net};
  struct pz_diff_side best_side = {sizeof best_side, &best_run, &machine->chip, machine->net};
  enum pz_status status = pz_plan_diff(&user_side, &best_side, &diff, &why);
  if (status != PZ_OK) pz_raise(call, status, "%s: %s", file, why.message);
  pz_defer(call, pz_object_free, diff);
  if (diff->a.refusal[0]) pz_command_warn(job->settings->quiet, diff->a.refusal);
  bool same_model = fabs(diff->b.p.params / best->p.params - 1) < SAME_MODEL;
  if (!same_model)
    pz_raise(call, PZ_BAD_USE,
             "%s trains a model of %.4g billion parameters, but %s has %.4g billion; accepted: "
             "a plan of the same model",
             file, diff->b.p.params / 1e9, job->model, best->p.params / 1e9);
  return diff;
}

/* Prints the user's own plan beside the best one: its step, the changes, and what they save. */
static void print_compared(struct pz_call *call, const struct pz_place_job *job) {
  const struct pz_plan_diff *diff = job->diff;
  const struct pz_prediction *user_prediction = &diff->a.p;
  const struct pz_place_training_settings *training = job->training;
  char text[800], best_amount[32], user_amount[32];
  printf("\nyour plan (%s): %.4g s per step, MFU %.1f%%, %.1f GB%s\n",
         pz_text_plain(pz_text_copy(text, sizeof text, training->compare)), user_prediction->step_s,
         100 * user_prediction->mfu, user_prediction->peak_bytes / 1e9,
         pz_prediction_fits(user_prediction) ? "" : " (does not fit)");
  if (!diff->n_path) {
    printf("the recommended plan is the same\n");
    return;
  }
  printf("the recommended plan %s\n", diff->verdict);
  for (uint32_t i = 0; i < diff->n_path; i++)
    printf("%s%s", i ? ", " : "changes: ",
           pz_text_plain(pz_text_copy(text, sizeof text, diff->path[i].change)));
  putchar('\n');
  if (!training->tokens) return;
  const struct pz_run_cost user_cost = pz_predict_cost(call, &job->priced, job->machine, &diff->a);
  printf("over %s tokens: %s instead of %s days", training->tokens,
         pz_text_number(best_amount, sizeof best_amount, job->cost.seconds / DAY_S),
         pz_text_number(user_amount, sizeof user_amount, user_cost.seconds / DAY_S));
  if (training->price > 0)
    printf(", %s instead of %s dollars",
           pz_text_number(best_amount, sizeof best_amount, job->cost.dollars),
           pz_text_number(user_amount, sizeof user_amount, user_cost.dollars));
  putchar('\n');
}

/* ---- one number of devices, as text --------------------------------------------------------- */

/* Prints the best plan with its layers, recomputation, batch and rates. */
static void print_plan(const struct pz_place_job *job, const struct pz_training_run *run) {
  const struct pz_plan *plan = &run->plan;
  const char *cluster = job->machine->net_name;
  int64_t n_idle = job->options.plan.devices - plan->devices;
  char name[256], line[PZ_PLAN_LINE_MOST];
  printf("%s on %" PRId64 " x %s%s%s: %.4g s per step\n",
         pz_text_plain(pz_text_copy(name, sizeof name, job->model)), job->options.plan.devices,
         job->machine->chip.name, cluster ? " in " : "", cluster ? cluster : "", run->p.step_s);
  printf("%s\n", pz_plan_line(plan, false, line, sizeof line));
  printf("layers: %s", run->layers_text);
  if (plan->first_layers && plan->vpp > 1)
    printf(" (first chunk %" PRId64 ", last chunk %" PRId64 ")", plan->first_layers,
           plan->last_layers);
  printf("\nrecompute: %s\n", run->recompute_text);
  pz_predict_print_batch(run);
  if (n_idle > 0)
    printf("%" PRId64 " device%s used, %" PRId64 " idle\n", plan->devices,
           plan->devices == 1 ? " is" : "s are", n_idle);
  pz_predict_print_rates(run);
  pz_predict_print_expected(&run->expected, run->p.step_s);
}

/* Prints the options that the plan switches on, the plans that were not chosen although they use
 * all devices or are slightly faster, and the certificate of the search. */
static void print_alternatives(const struct pz_place_job *job,
                               const struct pz_training_plans *plans) {
  const struct pz_training_run *best = plans->runs[0], *all_devices = plans->all_devices;
  const struct pz_training_run *fastest = plans->fastest;
  const struct pz_plan_certificate *proof = &plans->certificate;
  char text[PZ_PLAN_TEXT_MOST];
  if (plans->n_switched) {
    printf("switched on beyond the framework's defaults, with the time that it saves: ");
    for (uint32_t i = 0; i < plans->n_switched; i++)
      printf("%s%s %.1f%%", i ? ", " : "", plans->switched[i].option,
             100 * (1 - 1 / (1 + plans->switched[i].gain)));
    putchar('\n');
  }
  if (all_devices)
    printf("with all devices: %.4g s (%+.2f%%), +-%.0f%%: %s\n", all_devices->p.step_s,
           100 * (all_devices->p.step_s / best->p.step_s - 1), 100 * all_devices->expected.error,
           pz_plan_text(&all_devices->plan, text, sizeof text));
  else if (best->plan.devices < job->options.plan.devices)
    puts("no plan uses all of them");
  if (fastest) {
    bool counted = job->options.risk == PZ_RISK_COUNTED;
    /* The times by which plans are ranked contain the expected error if it is counted. */
    double fastest_s = fastest->p.step_s * (counted ? 1 + fastest->expected.error : 1);
    double best_s = best->p.step_s * (counted ? 1 + best->expected.error : 1);
    double saved = 1 - fastest_s / best_s;
    char percent[32] = "less than 0.01%";
    if (100 * saved >= 0.01) snprintf(percent, sizeof percent, "%.2f%%", 100 * saved);
    printf("%s, %s less than this simpler plan: %.4g s, %s\n",
           counted ? "least counted time" : "fastest by prediction", percent, fastest->p.step_s,
           pz_plan_text(&fastest->plan, text, sizeof text));
  }
  char count[32], solved[32], bound[32], memory[32], gap[32] = "0";
  if (proof->gap > 0) snprintf(gap, sizeof gap, "%.3g%%", 100 * proof->gap);
  printf("%s: %s plans, %s simulated, %s excluded by their bound, %s by memory; gap %s\n",
         plans->stopped ? "the best so far" : "proved",
         pz_text_count(count, sizeof count, (int64_t)proof->plans),
         pz_text_count(solved, sizeof solved, (int64_t)proof->solved),
         pz_text_count(bound, sizeof bound, (int64_t)proof->by_bound),
         pz_text_count(memory, sizeof memory, (int64_t)proof->by_memory), gap);
}

/* Prints the next best plans, each with the part of the step that grows most over the best. */
static void print_others(struct pz_call *call, const struct pz_training_plans *plans) {
  const struct pz_prediction *best = &plans->runs[0]->p;
  if (plans->n < 2) return;
  struct pz_table *table =
      pz_table_new(call, ">s per step|>slower|>error|>at most GB|best of its kind|what grew most");
  for (uint32_t i = 1; i < plans->n; i++) {
    const struct pz_training_run *run = plans->runs[i];
    char text[PZ_PLAN_TEXT_MOST];
    double grown_s;
    const struct pz_part_info *part = pz_grown_part(best, &run->p, &grown_s);
    pz_table_cells(table, "%.4g|%+.2f%%|%.0f%%|%.1f|%s", run->p.step_s,
                   100 * (run->p.step_s / best->step_s - 1), 100 * run->expected.error,
                   run->p.needed_bytes / 1e9, pz_plan_text(&run->plan, text, sizeof text));
    bool grown = part && grown_s > 1e-4 * best->step_s;
    pz_table_known(table, grown, "%s +%.3g s", part ? pz_time_part_label(&run->p, part) : "",
                   grown_s);
  }
  putchar('\n');
  pz_table_print(table, 0, stdout);
}

/* Prints the answer as text: the best plan, what it was compared with, its step, memory and cost. */
static void print_plans(struct pz_call *call, const struct pz_place_job *job,
                        const struct pz_training_plans *plans) {
  const struct pz_training_run *best = plans->runs[0];
  int64_t devices = job->options.plan.devices;
  print_plan(job, best);
  print_alternatives(job, plans);
  if (job->diff) print_compared(call, job);
  pz_predict_print_parts(call, &best->p);
  pz_predict_print_memory(call, best);
  print_others(call, plans);
  if (job->training->tokens) pz_predict_print_cost(call, &job->priced, best, &job->cost);
  if (job->late)
    printf("\nno plan on %" PRId64 " device%s ends within %s; this is the fastest\n", devices,
           pz_text_s((double)devices), job->training->deadline);
  /* Suggests to rehearse the plan on one GPU, if a script can be written for it. */
  int framework = best->plan.framework;
  bool supported =
      framework == pz_framework_find("torchtitan") || framework == pz_framework_find("megatron");
  if (!supported || best->plan.devices == 1 || *best->refusal) return;
  struct pz_error refusal = {0};
  enum pz_status status = pz_launch_check(job->model, &job->machine->chip, framework, &refusal);
  pz_raise_if_memory(call, &refusal);
  if (status == PZ_OK)
    printf("\nto try the plan on one GPU: save it with --json, then 'phaze rehearse'\n");
}

/* ---- one number of devices ------------------------------------------------------------------ */

/* Prints the plans as JSON with the question, the cost and the comparison that were asked for. */
static void print_plans_json(struct pz_call *call, const struct pz_place_job *job,
                             const struct pz_training_plans *plans) {
  const struct pz_place_training_settings *training = job->training;
  const struct pz_plan_diff *diff = job->diff;
  const struct pz_compared_plan compared = {training->compare, diff};
  const struct pz_place_answer answer = {
      .asked = pz_machine_asked(job->machine, &job->settings->machine, job->model),
      .devices = job->options.plan.devices,
      .batch = job->options.plan.batch,
      .placed = pz_placed_plans_new(call, plans),
      .cost = training->tokens ? &job->cost : NULL,
      .compared = diff ? &compared : NULL,
      .late = training->deadline ? &job->late : NULL};
  pz_command_print_json(call, pz_record_json(&pz_place_answer_record, &answer));
}

static void free_plans(void *plans) { pz_training_plans_free(plans); }

/* Searches for the best plan on one number of devices and prints the answer. */
static void place_once(struct pz_call *call, struct pz_place_job *job) {
  const struct pz_place_settings *settings = job->settings;
  const struct pz_place_training_settings *training = job->training;
  const struct pz_machine *machine = job->machine;
  struct pz_error *err = pz_call_error(call);
  struct pz_plan *asked = &job->options.plan;
  struct pz_training_plans *plans = NULL;
  bool weak = training->batch_per_device > 0;
  if (weak) asked->batch = training->batch_per_device * asked->devices;
  pz_must(call,
          pz_training_place(job->model, &machine->chip, machine->net, &job->options, &plans, err));
  pz_defer(call, free_plans, plans);
  if (*plans->warning) pz_command_warn(settings->quiet, plans->warning);
  if (!plans->n)
    pz_must(call, pz_training_nothing_fits(job->model, &machine->chip, machine->net, &job->options,
                                           weak, plans, err));
  const struct pz_training_run *best = plans->runs[0];
  if (settings->emit) {
    /* Prints the launch script of the plan to stdout, and its prediction to stderr. */
    char *text = NULL;
    pz_must(call, pz_launch_text(job->model, &job->machine->chip, job->machine->net, &best->plan,
                                 &text, pz_call_error(call)));
    pz_defer(call, pz_free, text);
    fputs(text, stdout);
    if (!job->settings->quiet && fflush(stdout) == 0)
      pz_command_say("%.4g s per step, MFU %.1f%%, %.1f GB of a device's memory", best->p.step_s,
                     100 * best->p.mfu, best->p.peak_bytes / 1e9);
    return;
  }
  job->late = plans->late;
  if (training->tokens) job->cost = pz_predict_cost(call, &job->priced, machine, best);
  if (job->compared) job->diff = compare_plans(call, job, best);
  if (settings->trace) {
    char *trace = NULL;
    pz_must(call, pz_training_run_trace(best, job->model, &trace, err));
    pz_command_save_text(call, settings->trace, trace);
  }
  if (training->report) {
    double rate = best->p.tokens / best->p.step_s / (double)asked->devices;
    struct pz_scaling_row row = {.devices = asked->devices,
                                 .batch = asked->batch,
                                 .run = best,
                                 .tokens_per_s_per_device = rate};
    struct pz_scaling one = {.rows = &row, .n_rows = 1};
    pz_predict_write_page(call, training->report, job->model, machine, &one);
  }
  if (job->json)
    print_plans_json(call, job, plans);
  else
    print_plans(call, job, plans);
}

/* ---- several numbers of devices ------------------------------------------------------------- */

/* A scaling with the cost of a run in each row, if --tokens asks for it. */
struct priced_scaling {
  struct pz_place_job *job;
  const struct pz_scaling *found;
  struct pz_run_cost *cost; /* cost of each row, or NULL if none was asked for */
  uint32_t cheapest; /* row with the fewest device-hours by the deadline, or n_rows if none */
  uint32_t soonest;  /* row that ends first */
};

/* Computes the cost of a run for each row, and finds the cheapest and the soonest row. */
static void price_rows(struct pz_call *call, struct priced_scaling *scaling) {
  const uint32_t none = scaling->found->n_rows;
  struct pz_place_job *job = scaling->job;
  struct pz_run_cost *cost = pz_alloc(call, scaling->found->n_rows, sizeof *cost);
  scaling->cost = cost;
  for (uint32_t i = 0; i < scaling->found->n_rows; i++) {
    const struct pz_training_plans *plans = scaling->found->rows[i].plans;
    if (!plans->n) continue;
    cost[i] = pz_predict_cost(call, &job->priced, job->machine, plans->runs[0]);
    if (scaling->soonest == none || cost[i].seconds < cost[scaling->soonest].seconds)
      scaling->soonest = i;
    if (plans->late) continue;
    if (scaling->cheapest == none || cost[i].device_hours < cost[scaling->cheapest].device_hours)
      scaling->cheapest = i;
  }
  job->late = scaling->cheapest == none;
}

/* Prints the best plan of every number of devices as JSON, with its cost if it was asked for. */
static void print_scaling_json(struct pz_call *call, const struct priced_scaling *scaling) {
  const struct pz_place_job *job = scaling->job;
  uint32_t n = scaling->found->n_rows;
  struct pz_scaled_plans *rows = pz_alloc(call, n, sizeof *rows);
  struct pz_scaled_plan *chosen = pz_alloc(call, n, sizeof *chosen);
  bool *cheapest = pz_alloc(call, n, sizeof *cheapest);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_scaling_row *row = &scaling->found->rows[i];
    const struct pz_training_plans *plans = row->plans;
    rows[i] = (struct pz_scaled_plans){.row = row,
                                       .fits = plans->n > 0,
                                       .stopped = plans->stopped,
                                       .certificate = &plans->certificate};
    if (!plans->n) continue;
    const struct pz_training_run *run = plans->runs[0];
    rows[i].chosen = &chosen[i];
    chosen[i] = (struct pz_scaled_plan){.row = row,
                                        .run = run,
                                        .tokens_per_s = run->p.tokens / run->p.step_s,
                                        .plan = pz_found_plan_new(call, run, NULL, 0)};
    if (!scaling->cost) continue;
    cheapest[i] = i == scaling->cheapest;
    chosen[i].cost = &scaling->cost[i];
    chosen[i].cheapest = &cheapest[i];
    if (job->training->deadline) chosen[i].late = &plans->late;
  }
  const struct pz_scaling_answer answer = {
      .asked = pz_machine_asked(job->machine, &job->settings->machine, job->model),
      .weak = scaling->found->weak,
      .rows = rows,
      .n_rows = n};
  pz_command_print_json(call, pz_record_json(&pz_scaling_answer_record, &answer));
}

/* Appends the best plan for one number of devices, or a row of dashes if there is none. */
static void append_row(struct pz_table *table, const struct priced_scaling *scaling, uint32_t i) {
  const struct pz_scaling_row *row = &scaling->found->rows[i];
  const struct pz_training_run *run = row->run;
  const struct pz_run_cost *cost = scaling->cost ? &scaling->cost[i] : NULL;
  bool price = cost && scaling->job->training->price > 0;
  char rate[32], text[PZ_PLAN_TEXT_MOST], idle[40] = "", gap[40] = "";
  pz_table_cells(table, "%" PRId64 "|%" PRId64, row->devices, row->batch);
  if (!run) {
    pz_table_dashes(table, 4 + (cost ? 1 : 0) + (price ? 1 : 0));
    pz_table_cell(table, row->plans->stopped ? "not found in time" : "nothing fits");
    return;
  }
  pz_table_cells(table, "%.4g|%s|%.1f%%|%.1f%%", run->p.step_s,
                 pz_text_number(rate, sizeof rate, row->tokens_per_s_per_device),
                 100 * row->efficiency, 100 * run->p.mfu);
  if (cost) pz_table_cell(table, "%.1f%s", cost->seconds / DAY_S, row->plans->late ? " late" : "");
  if (price) pz_table_number(table, cost->dollars);
  if (run->plan.devices < row->devices)
    snprintf(idle, sizeof idle, ", %" PRId64 " idle", row->devices - run->plan.devices);
  if (row->plans->stopped)
    snprintf(gap, sizeof gap, " (so far, gap %.3g%%)", 100 * row->plans->certificate.gap);
  pz_table_cell(table, "%s%s%s", pz_plan_text(&run->plan, text, sizeof text), idle, gap);
}

/* Recommends the cheapest number of devices within the deadline, or else the soonest. */
static void print_recommendation(const struct priced_scaling *scaling) {
  const struct pz_place_training_settings *training = scaling->job->training;
  const char *deadline = training->deadline;
  bool late = scaling->cheapest == scaling->found->n_rows;
  uint32_t row = late ? scaling->soonest : scaling->cheapest;
  const struct pz_run_cost *cost = &scaling->cost[row];
  const struct pz_training_run *run = scaling->found->rows[row].run;
  int64_t devices = run->plan.devices;
  char text[40];
  if (late)
    printf("\nno number of devices ends within %s; nearest", deadline);
  else
    printf("\n%s%s%s", training->price > 0 ? "cheapest" : "fewest device-hours",
           deadline ? " within " : "", deadline ? deadline : "");
  printf(": %" PRId64 " device%s, %.1f days", devices, pz_text_s((double)devices),
         cost->seconds / DAY_S);
  printf(", %s device-hours",
         pz_text_count(text, sizeof text, (int64_t)(cost->device_hours + 0.5)));
  if (training->price > 0)
    printf(", $%s", pz_text_count(text, sizeof text, (int64_t)(cost->dollars + 0.5)));
  if (run->expected.runs) printf("; +-%.0f%%", 100 * run->expected.error);
  putchar('\n');
}

/* Prints a row for each number of devices, and a recommendation if costs were asked for. */
static void print_scaling(struct pz_call *call, const struct priced_scaling *scaling) {
  const struct pz_place_job *job = scaling->job;
  const char *cluster = job->machine->net_name;
  const char *heads[10] = {">devices",         ">batch",      ">s per step",
                           ">tokens/s/device", ">efficiency", ">MFU"};
  size_t n = 6;
  if (scaling->cost) heads[n++] = ">days";
  if (scaling->cost && job->training->price > 0) heads[n++] = ">dollars";
  heads[n] = "best plan";
  struct pz_table *table = pz_table_with(call, heads);
  char name[256];
  for (uint32_t i = 0; i < scaling->found->n_rows; i++) append_row(table, scaling, i);
  printf("%s on %s%s%s: %s scaling, the best plan for each number of devices\n\n",
         pz_text_plain(pz_text_copy(name, sizeof name, job->model)), job->machine->chip.name,
         cluster ? " in " : "", cluster ? cluster : "", scaling->found->weak ? "weak" : "strong");
  pz_table_print(table, 0, stdout);
  if (scaling->cost) print_recommendation(scaling);
}

static void free_scaling(void *scaling) { pz_scaling_free(scaling); }

/* Searches for the best plan on each number of devices and prints how it scales. */
static void place_scaling(struct pz_call *call, struct pz_place_job *job) {
  const struct pz_machine *machine = job->machine;
  const struct pz_place_training_settings *training = job->training;
  struct pz_scaling *found = NULL;
  pz_must(call,
          pz_training_scale(job->model, &machine->chip, machine->net, &job->options, &job->devices,
                            training->batch_per_device, &found, pz_call_error(call)));
  pz_defer(call, free_scaling, found);
  if (training->report) pz_predict_write_page(call, training->report, job->model, machine, found);
  struct priced_scaling scaling = {
      .job = job, .found = found, .cheapest = found->n_rows, .soonest = found->n_rows};
  if (training->tokens) price_rows(call, &scaling);
  if (job->json)
    print_scaling_json(call, &scaling);
  else
    print_scaling(call, &scaling);
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Checks the options, searches on one or several numbers of devices, and prints the answer. */
enum pz_exit pz_place_training(struct pz_call *call, struct pz_place_job *job) {
  const struct pz_place_settings *settings = job->settings;
  const struct pz_place_training_settings *training = job->training;
  struct pz_progress progress;
  check_combination(call, job);
  struct pz_machine_use use = {"devices", job->devices.v[job->devices.n - 1], settings->quiet,
                               .training = true};
  job->machine = pz_machine_open(call, &settings->machine, use);
  struct pz_chip *chip = &job->machine->chip;
  job->options = read_options(call, job, &progress);
  if (settings->emit) {
    /* Scripts exist only for GPUs and for models whose shape the framework can express. */
    struct pz_error why = {0};
    enum pz_status status = pz_launch_check(job->model, chip, job->options.plan.framework, &why);
    if (status == PZ_BAD_USE) pz_raise(call, PZ_NO_ANSWER, "%s", why.message);
    if (status != PZ_OK) pz_raise_again(call, &why);
  }
  if (settings->trace) pz_file_require_output(call, settings->trace, NULL, 0);
  if (training->report) pz_file_require_output(call, training->report, NULL, 0);
  if (settings->hbm_gb > 0)
    chip->hbm.bytes_per_stack =
        (int64_t)floor(settings->hbm_gb * 0x1p30 / (double)chip->hbm.stacks);
  job->priced = (struct pz_predict_settings){
      .tokens = training->tokens, .price = training->price, .checkpoint_s = -1, .restart_s = -1};
  pz_command_progress_start(&progress, settings->quiet, false);
  const atomic_bool *stop = pz_command_listen();
  if (job->devices.n > 1)
    place_scaling(call, job);
  else
    place_once(call, job);
  if (atomic_load(stop)) return PZ_EXIT_STOPPED;
  return job->late ? PZ_EXIT_NO_ANSWER : PZ_EXIT_DONE;
}
