/* Searches for the best plan as training frameworks execute it (place_training.h).  pz_place_training() checks the options,
 * opens the machine and reads the options of the search; place_once() searches for one number of devices and writes what
 * is asked for.  The search itself is pz_training_place(). */
#include "cli/place_training.h"

#include <math.h>
#include <string.h>

#include "core/file.h"
#include "core/options.h"
#include "report/training_json.h"

enum { DEFAULT_BATCH = 4096 };

/* Plans tie if their predicted times differ by less than a hundredth, or their counted times (risk) by less than a
 * thousandth.  Of plans that tie, the simplest is chosen. */
static const double TIE = 0.01, COUNTED_TIE = 0.001;

/* ---- options -------------------------------------------------------------------------------- */

static void check_combination(struct pz_call *call, const struct pz_place_job *j) {
  const struct pz_place_settings *s = j->s;
  const struct pz_place_training_settings *t = j->t;
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
  if (j->devices.n == 1) return;
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
  struct pz_choices list;
  if (!text || strcmp(text, "auto") == 0) return;
  pz_must(call, pz_choices_parse(text, name, 1 << 20, &list, pz_call_error(call)));
  if (list.n > 1)
    pz_raise(call, PZ_BAD_USE,
             "--%s %s with --semantics training; accepted: one number, or auto (all are searched)",
             name, text);
  *degree = list.v[0];
}

static void read_options(struct pz_call *call, struct pz_place_job *j,
                         struct pz_progress *progress) {
  const struct pz_place_settings *s = j->s;
  const struct pz_place_training_settings *t = j->t;
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
  o.plan.devices = j->devices.v[0];
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
  j->options = o;
}

/* Raises PZ_NO_ANSWER unless a script can be written: only for GPUs and models whose shape a framework can be told. */
static void check_emit(struct pz_call *call, const struct pz_place_job *j) {
  struct pz_error why = {0};
  enum pz_status status =
      pz_launch_check(j->model, &j->machine->chip, j->options.plan.framework, &why);
  if (status == PZ_BAD_USE) pz_raise(call, PZ_NO_ANSWER, "%s", why.message);
  if (status != PZ_OK) pz_raise(call, status, "%s", why.message);
}

/* ---- one number of devices ------------------------------------------------------------------ */

struct pz_run_cost pz_place_cost(struct pz_call *call, const struct pz_place_job *j,
                                 const struct pz_training_run *run) {
  struct pz_predicted x = {.s = &j->priced, .machine = j->machine, .run = run};
  return pz_predict_cost(call, &x);
}

static void print_plans_json(struct pz_call *call, const struct pz_place_job *j,
                             const struct pz_training_plans *p) {
  json_t *out = pz_json_built(call, json_pack("{s:o,s:s,s:s?,s:I,s:I}", "model",
                                              json_string(j->model), "chip", j->machine->chip.name,
                                              "cluster", pz_machine_net_name(j->machine), "devices",
                                              (json_int_t)j->options.plan.devices, "batch",
                                              (json_int_t)j->options.plan.batch));
  json_object_update(out, pz_json_built(call, pz_found_plans_json(p)));
  pz_machine_files_json(&j->s->machine, out);
  json_object_set_new(out, "warnings", pz_machine_warnings(j->machine));
  json_object_set_new(out, "cost", j->t->tokens ? pz_run_cost_json(&j->cost) : json_null());
  if (j->diff) json_object_set_new(out, "compare", pz_place_compared_json(j));
  if (j->t->deadline) json_object_set_new(out, "late", json_boolean(j->late));
  pz_command_print_json(call, json_incref(out));
}

/* Prints the launch script of the plan to stdout, and its prediction to stderr. */
static void print_launch_script(struct pz_call *call, const struct pz_place_job *j,
                                const struct pz_training_run *r) {
  char *text = NULL;
  pz_must(call, pz_launch_text(j->model, &j->machine->chip, pz_machine_net(j->machine), &r->plan,
                               &text, pz_call_error(call)));
  pz_command_own_text(call, text);
  fputs(text, stdout);
  if (!j->s->quiet && fflush(stdout) == 0)
    pz_command_say("%.4g s per step, MFU %.1f%%, %.1f GB of a device's memory", r->p.step_s,
                   100 * r->p.mfu, r->p.peak_bytes / 1e9);
}

static void free_plans(void *plans) { pz_training_plans_free(plans); }

static void place_once(struct pz_call *call, struct pz_place_job *j) {
  const struct pz_place_training_settings *t = j->t;
  const struct pz_cluster *net = pz_machine_net(j->machine);
  const struct pz_chip *chip = &j->machine->chip;
  struct pz_plan *asked = &j->options.plan;
  struct pz_training_plans *p = NULL;
  bool weak = t->batch_per_device > 0;
  if (weak) asked->batch = t->batch_per_device * asked->devices;
  pz_must(call, pz_training_place(j->model, chip, net, &j->options, &p, pz_call_error(call)));
  pz_defer(call, free_plans, p);
  if (*p->warning) pz_command_warn(j->s->quiet, p->warning);
  if (!p->n)
    pz_must(call, pz_training_nothing_fits(j->model, chip, net, &j->options, weak, p,
                                           pz_call_error(call)));
  const struct pz_training_run *best = p->runs[0];
  if (j->s->emit) {
    print_launch_script(call, j, best);
    return;
  }
  j->late = p->late;
  if (t->tokens) j->cost = pz_place_cost(call, j, best);
  if (j->compared) pz_place_compare(call, j, best);
  if (j->s->trace) pz_predict_write_trace(call, best, j->model, j->s->trace);
  if (t->report) {
    double rate = best->p.tokens / best->p.step_s / (double)asked->devices;
    struct pz_scaling_row row = {.devices = asked->devices,
                                 .batch = asked->batch,
                                 .run = best,
                                 .tokens_per_s_per_device = rate};
    struct pz_scaling one = {.rows = &row, .n_rows = 1};
    pz_predict_write_page(call, t->report, j->model, j->machine, &one);
  }
  if (j->json)
    print_plans_json(call, j, p);
  else
    pz_place_print(call, j, p);
}

enum pz_exit pz_place_training(struct pz_call *call, struct pz_place_job *j) {
  const struct pz_place_settings *s = j->s;
  struct pz_progress progress;
  check_combination(call, j);
  struct pz_machine_use use = {"devices", j->devices.v[j->devices.n - 1], s->quiet,
                               .training = true};
  j->machine = pz_machine_open(call, &s->machine, use);
  read_options(call, j, &progress);
  if (s->emit) check_emit(call, j);
  if (s->trace) pz_must(call, pz_file_output(s->trace, NULL, 0, pz_call_error(call)));
  if (j->t->report) pz_must(call, pz_file_output(j->t->report, NULL, 0, pz_call_error(call)));
  if (s->hbm_gb > 0) {
    struct pz_chip *c = &j->machine->chip;
    c->hbm.bytes_per_stack = (int64_t)floor(s->hbm_gb * 0x1p30 / (double)c->hbm.stacks);
  }
  j->priced = (struct pz_predict_settings){
      .tokens = j->t->tokens, .price = j->t->price, .checkpoint_s = -1, .restart_s = -1};
  pz_command_progress_start(&progress, s->quiet, false);
  const atomic_bool *stop = pz_command_listen();
  if (j->devices.n > 1)
    pz_place_scaling(call, j);
  else
    place_once(call, j);
  if (atomic_load(stop)) return PZ_EXIT_STOPPED;
  return j->late ? PZ_EXIT_NO_ANSWER : PZ_EXIT_DONE;
}
