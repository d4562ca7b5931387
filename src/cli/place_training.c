/* phaze place --semantics training: the best plan as training frameworks execute it, or how the best plan scales over a
 * list of numbers of devices.
 *
 * pz_place_training() at the end checks the options, opens the machine, reads the options of the search, and calls
 * place_once() for one number of devices or place_scaling() for several.  The searches themselves are
 * pz_training_place() and pz_training_scale().  place_once() compares the answer with the user's own plan
 * (compare_plans()), writes the files that are asked for, and prints a launch script, JSON or text. */
#include "cli/place_training.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/owned.h"
#include "core/file.h"
#include "core/options.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

static const double DAY_S = 86400;
enum { DEFAULT_BATCH = 4096 };

/* Plans tie if their predicted times differ by less than a hundredth, or their counted times (risk) by less than a
 * thousandth.  Of plans that tie, the simplest is chosen. */
static const double TIE = 0.01, COUNTED_TIE = 0.001;

/* ---- options -------------------------------------------------------------------------------- */

static void check_combination(struct pz_call *call, const struct pz_place_job *job) {
  const struct pz_place_settings *s = job->s;
  const struct pz_place_training_settings *t = job->training;
  const char *several = NULL, *wrong = NULL;
  if (s->batch && t->batch_per_device)
    wrong = "--batch and --batch-per-device; accepted: one of them";
  else if (t->price > 0 && !t->tokens)
    wrong = "--price requires --tokens";
  else if (t->deadline && !t->tokens)
    wrong = "--deadline requires --tokens";
  else if (s->emit && (t->tokens || t->top > 1 || s->trace || t->report || t->compare))
    wrong = "--emit cannot be combined with --tokens, --top, --trace, --report or --compare";
  if (wrong) pz_raise(call, PZ_BAD_USE, "%s", wrong);
  if (job->devices.n == 1) return;
  if (s->emit)
    several = "emit";
  else if (s->trace)
    several = "trace";
  else if (t->top > 1)
    several = "top";
  if (several)
    pz_raise(call, PZ_BAD_USE, "--%s with several --devices; accepted: one number of devices",
             several);
}

/* Fixes a degree that is otherwise searched.  `text` is a list in other semantics; NULL and auto leave it open. */
static void read_degree(struct pz_call *call, const char *text, const char *name, int64_t *degree) {
  if (!text || strcmp(text, "auto") == 0) return;
  const struct pz_choices list = pz_choices_read(call, text, name, 1 << 20);
  if (list.n > 1)
    pz_raise(call, PZ_BAD_USE,
             "--%s %s with --semantics training; accepted: one number, or auto (all are searched)",
             name, text);
  *degree = list.v[0];
}

static void read_options(struct pz_call *call, struct pz_place_job *job,
                         struct pz_progress *progress) {
  const struct pz_place_settings *s = job->s;
  const struct pz_place_training_settings *t = job->training;
  struct pz_training_place_options o = pz_training_place_options_default();
  o.plan = t->plan;
  o.objective = t->objective;
  o.risk = t->risk;
  o.without = t->without;
  o.tie = t->risk == PZ_RISK_NONE ? TIE : COUNTED_TIE;
  o.top = (uint32_t)t->top;
  o.all_devices = t->all_devices;
  o.seconds = t->seconds;
  o.progress = pz_command_progress;
  o.ctx = progress;
  o.events = s->trace != NULL;
  o.plan.seq = s->seq;
  o.plan.batch = s->batch ? s->batch : DEFAULT_BATCH;
  o.plan.devices = job->devices.v[0];
  o.plan.recompute = s->recompute;
  read_degree(call, s->tp, "tp", &o.plan.tp);
  read_degree(call, s->mbs, "mbs", &o.plan.mbs);
  if (o.plan.sp == 1 && o.plan.tp == 1)
    pz_raise(call, PZ_BAD_USE, "--sp with --tp 1; accepted: --tp above 1");
  if (s->emit) {
    int emitted = pz_framework_find(pz_launch_names[s->emit]);
    if (o.plan.framework >= 0 && o.plan.framework != emitted)
      pz_raise(call, PZ_BAD_USE, "--framework %s with --emit %s; accepted: the same",
               pz_framework_names[o.plan.framework], pz_launch_names[s->emit]);
    o.plan.framework = emitted;
  }
  if (t->deadline) {
    o.tokens = pz_parse_tokens(call, t->tokens);
    o.deadline_s = pz_parse_deadline(call, t->deadline);
  }
  o.pinned = pz_plan_given(&o.plan) & pz_plan_searched();
  job->options = o;
}

/* ---- the cost of a run ---------------------------------------------------------------------- */

/* Returns the cost of a run over the tokens of --tokens with a plan. */
static struct pz_run_cost cost_of_run(struct pz_call *call, const struct pz_place_job *job,
                                      const struct pz_training_run *run) {
  struct pz_predicted priced = {.s = &job->priced, .machine = job->machine, .run = run};
  return pz_predict_cost(call, &priced);
}

/* ---- the user's own plan -------------------------------------------------------------------- */

struct pz_run_plan *pz_place_read_compared(struct pz_call *call, struct pz_place_settings *s,
                                           struct pz_place_training_settings *t,
                                           bool devices_given) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_choices devices = {.n = 0};
  const char *name;
  if (devices_given) devices = pz_choices_read(call, s->devices_text, "devices", 1 << 24);
  if (devices.n > 1)
    pz_raise(call, PZ_BAD_USE, "--compare with several --devices; accepted: one number of devices");
  if (devices.n == 1) o.devices = devices.v[0];
  o.vocab = t->vocab;
  o.set = t->set;
  o.ignore = t->ignore;
  struct pz_run_plan *r = pz_machine_read_run(call, t->compare, &o, &name);
  if (!s->machine.chip && !s->machine.cluster) s->machine.cluster = r->cluster;
  if (!s->machine.chip) s->machine.chip = r->chip;
  if (!s->machine.chip) pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP", name);
  if (!devices_given) {
    snprintf(t->own_devices, sizeof t->own_devices, "%lld",
             (long long)pz_plan_asked_devices(&r->plan));
    s->devices_text = t->own_devices;
  }
  /* The plan also determines the question where the options leave it open.  Everything else is searched, or has the
   * default of the framework. */
  const struct pz_plan *own = &r->plan;
  struct pz_plan *plan = &t->plan;
  if (!s->batch && !t->batch_per_device) s->batch = own->batch;
  if (!s->seq) s->seq = own->seq;
  if (plan->framework < 0) plan->framework = own->framework;
  if (plan->precision < 0) plan->precision = own->precision;
  if (plan->fp8_recipe < 0) plan->fp8_recipe = own->fp8_recipe;
  if (!(plan->imbalance > 0)) plan->imbalance = own->imbalance;
  plan->mtp = plan->mtp || own->mtp;
  if (!plan->peft) plan->peft = own->peft;
  return r;
}

static void compare_plans(struct pz_call *call, struct pz_place_job *job,
                          const struct pz_training_run *best) {
  /* Vocabularies are padded differently, so that the numbers of parameters of one model differ by up to this ratio. */
  static const double SAME_MODEL = 0.02;
  const char *file = job->training->compare;
  const struct pz_cluster *net = pz_machine_net(job->machine);
  struct pz_run_plan theirs = *job->compared, ours = *job->compared;
  struct pz_plan_diff *diff = NULL;
  struct pz_error why = {0};
  /* Both sides train the model of the file, with the batch and sequence length of the question; the number of devices was
   * read with that of the question. */
  theirs.plan.batch = best->plan.batch;
  theirs.plan.seq = best->plan.seq;
  ours.plan = best->plan;
  struct pz_diff_side a = {sizeof a, &theirs, &job->machine->chip, net};
  struct pz_diff_side b = {sizeof b, &ours, &job->machine->chip, net};
  enum pz_status status = pz_plan_diff(&a, &b, &diff, &why);
  if (status != PZ_OK) pz_raise(call, status, "%s: %s", file, why.message);
  pz_defer(call, pz_free_plan_diff, diff);
  if (diff->a.refusal[0]) pz_command_warn(job->s->quiet, diff->a.refusal);
  bool same_model = fabs(diff->b.p.params / best->p.params - 1) < SAME_MODEL;
  if (!same_model)
    pz_raise(call, PZ_BAD_USE,
             "%s trains a model of %.4g billion parameters, but %s has %.4g billion; accepted: "
             "a plan of the same model",
             file, diff->b.p.params / 1e9, job->model, best->p.params / 1e9);
  job->diff = diff;
}

static void print_compared(struct pz_call *call, const struct pz_place_job *job) {
  const struct pz_plan_diff *d = job->diff;
  const struct pz_place_training_settings *t = job->training;
  char text[800], ours[32], theirs[32];
  printf("\nyour plan (%s): %.4g s per step, MFU %.1f%%, %.1f GB%s\n",
         pz_text_plain(pz_text_copy(text, sizeof text, t->compare)), d->a.p.step_s,
         100 * d->a.p.mfu, d->a.p.peak_bytes / 1e9,
         pz_prediction_fits(&d->a.p) ? "" : " (does not fit)");
  if (!d->n_path) {
    printf("the recommended plan is the same\n");
    return;
  }
  printf("the recommended plan %s\n", d->verdict);
  for (uint32_t i = 0; i < d->n_path; i++)
    printf("%s%s", i ? ", " : "changes: ",
           pz_text_plain(pz_text_copy(text, sizeof text, d->path[i].change)));
  putchar('\n');
  if (!t->tokens) return;
  const struct pz_run_cost own = cost_of_run(call, job, &d->a);
  printf("over %s tokens: %s instead of %s days", t->tokens,
         pz_text_number(ours, sizeof ours, job->cost.seconds / 86400),
         pz_text_number(theirs, sizeof theirs, own.seconds / 86400));
  if (t->price > 0)
    printf(", %s instead of %s dollars", pz_text_number(ours, sizeof ours, job->cost.dollars),
           pz_text_number(theirs, sizeof theirs, own.dollars));
  putchar('\n');
}

/* ---- one number of devices, as text --------------------------------------------------------- */

static void print_plan(const struct pz_place_job *job, const struct pz_training_run *r) {
  const struct pz_plan *o = &r->plan;
  const struct pz_machine *m = job->machine;
  bool own_link = m->network.own_link;
  char name[256], line[PZ_PLAN_LINE_MOST];
  printf("%s on %" PRId64 " x %s%s%s: %.4g s per step\n",
         pz_text_plain(pz_text_copy(name, sizeof name, job->model)), job->options.plan.devices,
         m->chip.name, own_link ? "" : " in ", own_link ? "" : m->network.cluster.name,
         r->p.step_s);
  printf("%s\n", pz_plan_line(o, false, line, sizeof line));
  printf("layers: %s", r->layers_text);
  if (o->first_layers && o->vpp > 1)
    printf(" (first chunk %" PRId64 ", last chunk %" PRId64 ")", o->first_layers, o->last_layers);
  printf("\nrecompute: %s\n", r->recompute_text);
  pz_predict_print_batch(r);
  if (o->devices < job->options.plan.devices)
    printf("%" PRId64 " device%s used, %" PRId64 " idle\n", o->devices,
           o->devices == 1 ? " is" : "s are", job->options.plan.devices - o->devices);
  pz_predict_print_rates(r);
  pz_predict_print_expected(&r->expected, r->p.step_s);
}

/* The time by which plans are ranked: `counted` adds the expected error. */
static double ranked_s(const struct pz_training_run *r, bool counted) {
  return r->p.step_s * (counted ? 1 + r->expected.error : 1);
}

/* Prints what the plan switches on, the plans that were not chosen although they use all devices or are slightly faster, and
 * the certificate of the search. */
static void print_alternatives(const struct pz_place_job *job, const struct pz_training_plans *p) {
  const struct pz_training_run *best = p->runs[0], *all = p->all_devices, *fastest = p->fastest;
  const struct pz_plan_certificate *c = &p->certificate;
  char text[PZ_PLAN_TEXT_MOST];
  if (p->n_switched) {
    printf("switched on beyond the framework's defaults, with the time that it saves: ");
    for (uint32_t i = 0; i < p->n_switched; i++)
      printf("%s%s %.1f%%", i ? ", " : "", p->switched[i].option,
             100 * (1 - 1 / (1 + p->switched[i].gain)));
    putchar('\n');
  }
  if (all)
    printf("with all devices: %.4g s (%+.2f%%), +-%.0f%%: %s\n", all->p.step_s,
           100 * (all->p.step_s / best->p.step_s - 1), 100 * all->expected.error,
           pz_plan_text(&all->plan, text, sizeof text));
  else if (best->plan.devices < job->options.plan.devices)
    puts("no plan uses all of them");
  if (fastest) {
    bool counted = job->options.risk == PZ_RISK_COUNTED;
    double saved = 1 - ranked_s(fastest, counted) / ranked_s(best, counted);
    char percent[32] = "less than 0.01%";
    if (100 * saved >= 0.01) snprintf(percent, sizeof percent, "%.2f%%", 100 * saved);
    printf("%s, %s less than this simpler plan: %.4g s, %s\n",
           counted ? "least counted time" : "fastest by prediction", percent, fastest->p.step_s,
           pz_plan_text(&fastest->plan, text, sizeof text));
  }
  char plans[32], solved[32], bound[32], memory[32], gap[32] = "0";
  if (c->gap > 0) snprintf(gap, sizeof gap, "%.3g%%", 100 * c->gap);
  printf("%s: %s plans, %s simulated, %s excluded by their bound, %s by memory; gap %s\n",
         p->stopped ? "the best so far" : "proved",
         pz_text_count(plans, sizeof plans, (int64_t)c->plans),
         pz_text_count(solved, sizeof solved, (int64_t)c->solved),
         pz_text_count(bound, sizeof bound, (int64_t)c->by_bound),
         pz_text_count(memory, sizeof memory, (int64_t)c->by_memory), gap);
}

/* Prints the next best plans, each with the part of its step that is longer than that of the best plan by most. */
static void print_others(struct pz_call *call, const struct pz_training_plans *p) {
  static const char *const heads[] = {">s per step",      ">slower",        ">error", ">at most GB",
                                      "best of its kind", "what grew most", NULL};
  const struct pz_prediction *best = &p->runs[0]->p;
  if (p->n < 2) return;
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 1; i < p->n; i++) {
    const struct pz_training_run *r = p->runs[i];
    char text[PZ_PLAN_TEXT_MOST];
    double grown_s;
    const struct pz_part_info *part = pz_grown_part(best, &r->p, &grown_s);
    pz_table_cell(t, "%.4g", r->p.step_s);
    pz_table_cell(t, "%+.2f%%", 100 * (r->p.step_s / best->step_s - 1));
    pz_table_cell(t, "%.0f%%", 100 * r->expected.error);
    pz_table_cell(t, "%.1f", r->p.needed_bytes / 1e9);
    pz_table_cell(t, "%s", pz_plan_text(&r->plan, text, sizeof text));
    if (part && grown_s > 1e-4 * best->step_s)
      pz_table_cell(t, "%s +%.3g s", pz_time_part_label(&r->p, part), grown_s);
    else
      pz_table_cell(t, "-");
  }
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

/* Suggests to rehearse the plan on one GPU, if a script can be written for it. */
static void suggest_rehearsal(struct pz_call *call, const struct pz_place_job *job,
                              const struct pz_training_run *r) {
  int framework = r->plan.framework;
  bool supported =
      framework == pz_framework_find("torchtitan") || framework == pz_framework_find("megatron");
  if (!supported || r->plan.devices == 1 || *r->refusal) return;
  enum pz_status status = pz_launch_check(job->model, &job->machine->chip, framework, NULL);
  if (status == PZ_NO_MEMORY) pz_must(call, status);
  if (status == PZ_OK)
    printf("\nto try the plan on one GPU: save it with --json, then 'phaze rehearse'\n");
}

static void print_plans(struct pz_call *call, const struct pz_place_job *job,
                        const struct pz_training_plans *p) {
  const struct pz_training_run *best = p->runs[0];
  int64_t devices = job->options.plan.devices;
  print_plan(job, best);
  print_alternatives(job, p);
  if (job->diff) print_compared(call, job);
  pz_predict_print_parts(call, &best->p);
  pz_predict_print_memory(call, best);
  print_others(call, p);
  struct pz_predicted priced = {.s = &job->priced, .machine = job->machine, .run = best};
  if (job->training->tokens) pz_predict_print_cost(call, &priced, &job->cost);
  if (job->late)
    printf("\nno plan on %" PRId64 " device%s ends within %s; this is the fastest\n", devices,
           pz_text_s((double)devices), job->training->deadline);
  suggest_rehearsal(call, job, best);
}

/* ---- one number of devices ------------------------------------------------------------------ */

static void print_plans_json(struct pz_call *call, const struct pz_place_job *job,
                             const struct pz_training_plans *p) {
  json_t *out = pz_json_built(
      call, json_pack("{s:o,s:s,s:s?,s:I,s:I}", "model", json_string(job->model), "chip",
                      job->machine->chip.name, "cluster", pz_machine_net_name(job->machine),
                      "devices", (json_int_t)job->options.plan.devices, "batch",
                      (json_int_t)job->options.plan.batch));
  json_object_update(out, pz_json_built(call, pz_found_plans_json(p)));
  pz_machine_files_json(&job->s->machine, out);
  json_object_set_new(out, "warnings", pz_machine_warnings(job->machine));
  json_object_set_new(out, "cost",
                      job->training->tokens ? pz_run_cost_json(&job->cost) : json_null());
  const struct pz_plan_diff *d = job->diff;
  if (d)
    json_object_set_new(out, "compare",
                        json_pack("{s:s,s:s,s:s,s:f,s:o}", "file", job->training->compare,
                                  "changes", d->changes, "verdict", d->verdict, "gain",
                                  1 - d->b.p.step_s / d->a.p.step_s, "prediction",
                                  pz_training_run_json(&d->a)));
  if (job->training->deadline) json_object_set_new(out, "late", json_boolean(job->late));
  pz_command_print_json(call, json_incref(out));
}

/* Prints the launch script of the plan to stdout, and its prediction to stderr. */
static void print_launch_script(struct pz_call *call, const struct pz_place_job *job,
                                const struct pz_training_run *r) {
  char *text = NULL;
  pz_must(call, pz_launch_text(job->model, &job->machine->chip, pz_machine_net(job->machine),
                               &r->plan, &text, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  fputs(text, stdout);
  if (!job->s->quiet && fflush(stdout) == 0)
    pz_command_say("%.4g s per step, MFU %.1f%%, %.1f GB of a device's memory", r->p.step_s,
                   100 * r->p.mfu, r->p.peak_bytes / 1e9);
}

static void place_once(struct pz_call *call, struct pz_place_job *job) {
  const struct pz_place_training_settings *t = job->training;
  const struct pz_cluster *net = pz_machine_net(job->machine);
  const struct pz_chip *chip = &job->machine->chip;
  struct pz_plan *asked = &job->options.plan;
  struct pz_training_plans *p = NULL;
  bool weak = t->batch_per_device > 0;
  if (weak) asked->batch = t->batch_per_device * asked->devices;
  pz_must(call, pz_training_place(job->model, chip, net, &job->options, &p, pz_call_error(call)));
  pz_defer(call, pz_free_training_plans, p);
  if (*p->warning) pz_command_warn(job->s->quiet, p->warning);
  if (!p->n)
    pz_must(call, pz_training_nothing_fits(job->model, chip, net, &job->options, weak, p,
                                           pz_call_error(call)));
  const struct pz_training_run *best = p->runs[0];
  if (job->s->emit) {
    print_launch_script(call, job, best);
    return;
  }
  job->late = p->late;
  if (t->tokens) job->cost = cost_of_run(call, job, best);
  if (job->compared) compare_plans(call, job, best);
  if (job->s->trace) pz_predict_write_trace(call, best, job->model, job->s->trace);
  if (t->report) {
    double rate = best->p.tokens / best->p.step_s / (double)asked->devices;
    struct pz_scaling_row row = {.devices = asked->devices,
                                 .batch = asked->batch,
                                 .run = best,
                                 .tokens_per_s_per_device = rate};
    struct pz_scaling one = {.rows = &row, .n_rows = 1};
    pz_predict_write_page(call, t->report, job->model, job->machine, &one);
  }
  if (job->json)
    print_plans_json(call, job, p);
  else
    print_plans(call, job, p);
}

/* ---- several numbers of devices -------------------------------------------------------------- */

/* A scaling with the cost of a run in each row, if --tokens asks for it. */
struct priced_scaling {
  struct pz_place_job *job;
  const struct pz_scaling *found;
  struct pz_run_cost *cost; /* of each row; NULL: not asked for */
  uint32_t cheapest; /* row with the least device-hours that ends by the deadline; n_rows: none */
  uint32_t soonest;  /* row that ends first */
};

static void price_rows(struct pz_call *call, struct priced_scaling *scaling) {
  const uint32_t none = scaling->found->n_rows;
  struct pz_run_cost *cost = pz_alloc(call, scaling->found->n_rows, sizeof *cost);
  scaling->cost = cost;
  for (uint32_t i = 0; i < scaling->found->n_rows; i++) {
    const struct pz_training_plans *p = scaling->found->rows[i].plans;
    if (!p->n) continue;
    cost[i] = cost_of_run(call, scaling->job, p->runs[0]);
    if (scaling->soonest == none || cost[i].seconds < cost[scaling->soonest].seconds)
      scaling->soonest = i;
    if (p->late) continue;
    if (scaling->cheapest == none || cost[i].device_hours < cost[scaling->cheapest].device_hours)
      scaling->cheapest = i;
  }
  scaling->job->late = scaling->cheapest == none;
}

static json_t *row_json(const struct priced_scaling *scaling, uint32_t i) {
  const struct pz_scaling_row *row = &scaling->found->rows[i];
  const struct pz_training_plans *p = row->plans;
  json_t *j = json_pack("{s:I,s:I,s:b,s:o}", "devices", (json_int_t)row->devices, "batch",
                        (json_int_t)row->batch, "fits", p->n > 0, "certificate",
                        pz_plan_certificate_json(&p->certificate));
  if (p->stopped) json_object_set_new(j, "stopped", json_true());
  if (!p->n) return j;
  const struct pz_training_run *r = p->runs[0];
  json_object_set_new(j, "step_s", json_real(r->p.step_s));
  json_object_set_new(j, "mfu", json_real(r->p.mfu));
  json_object_set_new(j, "mfu_conventional", json_real(r->p.mfu_conventional));
  json_object_set_new(j, "devices_used", json_integer((json_int_t)r->plan.devices));
  json_object_set_new(j, "tokens_per_s", json_real(r->p.tokens / r->p.step_s));
  json_object_set_new(j, "tokens_per_s_per_device", json_real(row->tokens_per_s_per_device));
  json_object_set_new(j, "efficiency", json_real(row->efficiency));
  json_object_set_new(j, "plan", pz_found_plan_json(r, NULL));
  if (!scaling->cost) return j;
  json_object_set_new(j, "cost", pz_run_cost_json(&scaling->cost[i]));
  json_object_set_new(j, "cheapest", json_boolean(i == scaling->cheapest));
  if (scaling->job->training->deadline) json_object_set_new(j, "late", json_boolean(p->late));
  return j;
}

static void print_scaling_json(struct pz_call *call, const struct priced_scaling *scaling) {
  const struct pz_place_job *job = scaling->job;
  json_t *rows = json_array();
  for (uint32_t i = 0; i < scaling->found->n_rows; i++)
    json_array_append_new(rows, row_json(scaling, i));
  json_t *out = json_pack("{s:o,s:s,s:s?,s:s,s:o}", "model", json_string(job->model), "chip",
                          job->machine->chip.name, "cluster", pz_machine_net_name(job->machine),
                          "scaling", scaling->found->weak ? "weak" : "strong", "rows", rows);
  json_object_set_new(out, "warnings", pz_machine_warnings(job->machine));
  pz_command_print_json(call, out);
}

static void append_row(struct pz_table *t, const struct priced_scaling *scaling, uint32_t i) {
  const struct pz_scaling_row *row = &scaling->found->rows[i];
  const struct pz_training_run *r = row->run;
  const struct pz_run_cost *c = scaling->cost ? &scaling->cost[i] : NULL;
  bool price = c && scaling->job->training->price > 0;
  char rate[32], text[PZ_PLAN_TEXT_MOST], gap[40] = "";
  pz_table_cell(t, "%" PRId64, row->devices);
  pz_table_cell(t, "%" PRId64, row->batch);
  if (!r) {
    int empty = 4;
    if (c) empty++;
    if (price) empty++;
    for (int k = 0; k < empty; k++) pz_table_cell(t, "-");
    pz_table_cell(t, row->plans->stopped ? "not found in time" : "nothing fits");
    return;
  }
  pz_table_cell(t, "%.4g", r->p.step_s);
  pz_table_cell(t, "%s", pz_text_number(rate, sizeof rate, row->tokens_per_s_per_device));
  pz_table_cell(t, "%.1f%%", 100 * row->efficiency);
  pz_table_cell(t, "%.1f%%", 100 * r->p.mfu);
  if (c) pz_table_cell(t, "%.1f%s", c->seconds / DAY_S, row->plans->late ? " late" : "");
  if (price) pz_table_number(t, c->dollars);
  pz_plan_text(&r->plan, text, sizeof text);
  size_t n = strlen(text);
  if (r->plan.devices < row->devices)
    snprintf(text + n, sizeof text - n, ", %" PRId64 " idle", row->devices - r->plan.devices);
  if (row->plans->stopped)
    snprintf(gap, sizeof gap, " (so far, gap %.3g%%)", 100 * row->plans->certificate.gap);
  pz_table_cell(t, "%s%s", text, gap);
}

/* Prints the row to rent: the cheapest within the deadline, or the one that ends first if all are late. */
static void print_recommendation(const struct priced_scaling *scaling) {
  const struct pz_place_training_settings *t = scaling->job->training;
  bool late = scaling->cheapest == scaling->found->n_rows;
  uint32_t row = late ? scaling->soonest : scaling->cheapest;
  const struct pz_run_cost *c = &scaling->cost[row];
  const struct pz_training_run *run = scaling->found->rows[row].run;
  int64_t n = run->plan.devices;
  char text[40];
  if (late)
    printf("\nno number of devices ends within %s; nearest", t->deadline);
  else
    printf("\n%s%s%s", t->price > 0 ? "cheapest" : "fewest device-hours",
           t->deadline ? " within " : "", t->deadline ? t->deadline : "");
  printf(": %" PRId64 " device%s, %.1f days", n, pz_text_s((double)n), c->seconds / DAY_S);
  printf(", %s device-hours", pz_text_count(text, sizeof text, (int64_t)(c->device_hours + 0.5)));
  if (t->price > 0) printf(", $%s", pz_text_count(text, sizeof text, (int64_t)(c->dollars + 0.5)));
  if (run->expected.runs) printf("; +-%.0f%%", 100 * run->expected.error);
  putchar('\n');
}

static void print_scaling(struct pz_call *call, const struct priced_scaling *scaling) {
  const struct pz_place_job *job = scaling->job;
  const char *heads[10] = {">devices",         ">batch",      ">s per step",
                           ">tokens/s/device", ">efficiency", ">MFU"};
  size_t n = 6;
  if (scaling->cost) heads[n++] = ">days";
  if (scaling->cost && job->training->price > 0) heads[n++] = ">dollars";
  heads[n] = "best plan";
  const char *net = pz_machine_net_name(job->machine);
  char name[256];
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < scaling->found->n_rows; i++) append_row(t, scaling, i);
  printf("%s on %s%s%s: %s scaling, the best plan for each number of devices\n\n",
         pz_text_plain(pz_text_copy(name, sizeof name, job->model)), job->machine->chip.name,
         net ? " in " : "", net ? net : "", scaling->found->weak ? "weak" : "strong");
  pz_table_print(t, 0, stdout);
  if (scaling->cost) print_recommendation(scaling);
}

static void place_scaling(struct pz_call *call, struct pz_place_job *job) {
  struct pz_scaling *s = NULL;
  pz_must(call, pz_training_scale(job->model, &job->machine->chip, pz_machine_net(job->machine),
                                  &job->options, &job->devices, job->training->batch_per_device, &s,
                                  pz_call_error(call)));
  pz_defer(call, pz_free_scaling, s);
  if (job->training->report)
    pz_predict_write_page(call, job->training->report, job->model, job->machine, s);
  struct priced_scaling scaling = {
      .job = job, .found = s, .cheapest = s->n_rows, .soonest = s->n_rows};
  if (job->training->tokens) price_rows(call, &scaling);
  if (job->json)
    print_scaling_json(call, &scaling);
  else
    print_scaling(call, &scaling);
}

/* ---- the search ----------------------------------------------------------------------------- */

enum pz_exit pz_place_training(struct pz_call *call, struct pz_place_job *job) {
  const struct pz_place_settings *s = job->s;
  struct pz_progress progress;
  check_combination(call, job);
  struct pz_machine_use use = {"devices", job->devices.v[job->devices.n - 1], s->quiet,
                               .training = true};
  job->machine = pz_machine_open(call, &s->machine, use);
  read_options(call, job, &progress);
  if (s->emit) {
    /* Scripts can be written only for GPUs, and for models whose shape a framework can be told. */
    struct pz_error why = {0};
    enum pz_status status =
        pz_launch_check(job->model, &job->machine->chip, job->options.plan.framework, &why);
    if (status == PZ_BAD_USE) pz_raise(call, PZ_NO_ANSWER, "%s", why.message);
    if (status != PZ_OK) pz_raise_again(call, &why);
  }
  if (s->trace) pz_file_require_output(call, s->trace, NULL, 0);
  if (job->training->report) pz_file_require_output(call, job->training->report, NULL, 0);
  if (s->hbm_gb > 0) {
    struct pz_chip *c = &job->machine->chip;
    c->hbm.bytes_per_stack = (int64_t)floor(s->hbm_gb * 0x1p30 / (double)c->hbm.stacks);
  }
  job->priced = (struct pz_predict_settings){.tokens = job->training->tokens,
                                             .price = job->training->price,
                                             .checkpoint_s = -1,
                                             .restart_s = -1};
  pz_command_progress_start(&progress, s->quiet, false);
  const atomic_bool *stop = pz_command_listen();
  if (job->devices.n > 1)
    place_scaling(call, job);
  else
    place_once(call, job);
  if (atomic_load(stop)) return PZ_EXIT_STOPPED;
  return job->late ? PZ_EXIT_NO_ANSWER : PZ_EXIT_DONE;
}
