#include "cli/place_training.h"

#include <math.h>
#include <string.h>

#include "core/file.h"
#include "core/options.h"
#include "report/training_json.h"

enum { DEFAULT_BATCH = 4096 };

/* ---- what was asked for --------------------------------------------------------------------- */

/* What is searched. */
enum { PZ_FREE = -1 };

/* One number of an option that may be a list elsewhere; NULL or auto: it is searched. */
static enum pz_status read_pin(const char *text, const char *name, int64_t *out,
                               struct pz_error *err) {
  struct pz_choices list;
  *out = PZ_FREE;
  if (!text || strcmp(text, "auto") == 0) return PZ_OK;
  enum pz_status status = pz_choices_parse(text, name, 1 << 20, &list, err);
  if (status == PZ_OK && list.n > 1)
    status = pz_fail(err, PZ_BAD_USE,
                     "--%s %s with --semantics training; accepted: one number, or auto (all are "
                     "searched)",
                     name, text);
  if (status == PZ_OK) *out = list.v[0];
  return status;
}

/* Plans within a hundredth of the predicted time are equal to the model, of the counted time within a thousandth: the
 * simplest is printed. */
static const double TIE = 0.01, COUNTED_TIE = 0.001;

static enum pz_status read_options(struct pz_place_job *j) {
  const struct pz_place_settings *s = j->q->s;
  const struct pz_place_training_settings *t = j->q->t;
  struct pz_training_place_options o = pz_training_place_options_default();
  int64_t tp = PZ_FREE, mbs = PZ_FREE;
  o.plan = t->plan;
  o.objective = t->objective;
  o.risk = t->risk;
  o.without = t->without;
  o.tie = t->risk == PZ_RISK_NONE ? TIE : COUNTED_TIE;
  o.top = (uint32_t)t->top;
  o.all_devices = t->all_devices;
  o.seconds = t->seconds;
  o.progress = pz_command_progress;
  o.ctx = &j->progress;
  o.events = s->trace != NULL;
  o.plan.seq = s->seq;
  o.plan.batch = s->batch ? s->batch : DEFAULT_BATCH;
  o.plan.devices = j->q->devices.v[0];
  o.plan.recompute = s->recompute;
  enum pz_status status = read_pin(s->tp, "tp", &tp, j->err);
  if (status == PZ_OK) status = read_pin(s->mbs, "mbs", &mbs, j->err);
  if (tp != PZ_FREE) o.plan.tp = tp;
  if (mbs != PZ_FREE) o.plan.mbs = mbs;
  if (status == PZ_OK && o.plan.sp == 1 && o.plan.tp == 1)
    status = pz_fail(j->err, PZ_BAD_USE, "--sp with --tp 1; accepted: --tp above 1");
  if (status == PZ_OK && j->emit) {
    int emitted = pz_framework_find(pz_launch_names[j->emit]);
    if (o.plan.framework >= 0 && o.plan.framework != emitted)
      status = pz_fail(j->err, PZ_BAD_USE, "--framework %s with --emit %s; accepted: the same",
                       pz_framework_names[o.plan.framework], pz_launch_names[j->emit]);
    o.plan.framework = emitted;
  }
  if (status == PZ_OK && t->deadline) status = pz_read_tokens(t->tokens, &o.tokens, j->err);
  if (status == PZ_OK && t->deadline) status = pz_read_deadline(t->deadline, &o.deadline_s, j->err);
  o.pinned = pz_plan_given(&o.plan) & pz_plan_searched();
  j->options = o;
  return status;
}

/* --hbm: the chip with that much memory. */
static void set_hbm(struct pz_chip *c, double gib) {
  if (gib > 0) c->hbm.bytes_per_stack = (int64_t)floor(gib * 0x1p30 / (double)c->hbm.stacks);
}

/* Scripts are written for GPUs, and for models whose shape a framework can be told. */
static enum pz_status check_emit(const struct pz_place_job *j) {
  struct pz_error why = {0};
  if (!j->emit) return PZ_OK;
  enum pz_status status =
      pz_launch_check(j->q->model, &j->machine.chip, j->options.plan.framework, &why);
  if (status == PZ_OK) return PZ_OK;
  return pz_fail(j->err, status == PZ_BAD_USE ? PZ_NO_ANSWER : status, "%s", why.message);
}

/* ---- one search ----------------------------------------------------------------------------- */

static enum pz_status tell_json(const struct pz_place_job *j, const struct pz_training_plans *p) {
  const struct pz_place_question *q = j->q;
  json_t *out =
      json_pack("{s:o,s:s,s:s?,s:I,s:I}", "model", json_string(q->model), "chip",
                j->machine.chip.name, "cluster", pz_machine_net_name(&j->machine), "devices",
                (json_int_t)j->options.plan.devices, "batch", (json_int_t)j->options.plan.batch);
  json_t *found = pz_found_plans_json(p);
  if (out && found) json_object_update(out, found);
  json_decref(found);
  pz_machine_files_json(&q->s->machine, out);
  json_object_set_new(out, "warnings", pz_machine_warnings(&j->machine));
  json_object_set_new(out, "cost", q->t->tokens ? pz_run_cost_json(&j->cost) : json_null());
  if (j->diff) json_object_set_new(out, "compare", pz_place_compared_json(j));
  if (q->t->deadline) json_object_set_new(out, "late", json_boolean(j->late));
  return pz_command_json(out, j->err);
}

enum pz_status pz_place_cost(struct pz_place_job *j, struct pz_training_run *run,
                             struct pz_run_cost *out) {
  const struct pz_place_training_settings *t = j->q->t;
  j->cost_asked = (struct pz_predict_settings){
      .tokens = t->tokens, .price = t->price, .checkpoint_s = -1, .restart_s = -1};
  struct pz_predicted x = {.s = &j->cost_asked, .machine = j->machine, .run = run};
  return pz_predict_cost(&x, out, j->err);
}

static enum pz_status write_page(const struct pz_place_job *j, const struct pz_training_run *best) {
  const struct pz_plan *o = &j->options.plan;
  struct pz_scaling_row row = {.devices = o->devices,
                               .batch = o->batch,
                               .run = best,
                               .tokens_per_s_per_device =
                                   best->p.tokens / best->p.step_s / (double)o->devices};
  struct pz_scaling one = {.rows = &row, .n_rows = 1};
  return pz_predict_write_page(j->q->t->report, j->q->model, &j->machine, &one, j->err);
}

/* The chosen plan as the launch script of its framework. */
static enum pz_status emit(const struct pz_place_job *j, const struct pz_training_run *r) {
  char *text = NULL;
  enum pz_status status = pz_launch_text(j->q->model, &j->machine.chip, pz_machine_net(&j->machine),
                                         &r->plan, &text, j->err);
  if (status != PZ_OK) return status;
  fputs(text, stdout);
  pz_text_free(text);
  if (!j->q->s->quiet && fflush(stdout) == 0)
    pz_command_say("%.4g s per step, MFU %.1f%%, %.1f GB of a device's memory", r->p.step_s,
                   100 * r->p.mfu, r->p.peak_bytes / 1e9);
  return PZ_OK;
}

static enum pz_status tell_plans(struct pz_place_job *j, const struct pz_training_plans *p) {
  struct pz_training_run *best = p->runs[0];
  if (j->emit) return emit(j, best);
  enum pz_status status = PZ_OK;
  j->late = p->late;
  if (j->q->t->tokens) status = pz_place_cost(j, best, &j->cost);
  if (status == PZ_OK && j->q->compared) status = pz_place_compare(j, best);
  if (status == PZ_OK && j->q->s->trace)
    status = pz_predict_write_trace(best, j->q->model, j->q->s->trace, j->err);
  if (status == PZ_OK && j->q->t->report) status = write_page(j, best);
  if (status != PZ_OK) return status;
  return j->q->json ? tell_json(j, p) : pz_place_print(j, p);
}

static enum pz_status place_one(struct pz_place_job *j) {
  const struct pz_cluster *net = pz_machine_net(&j->machine);
  const struct pz_chip *chip = &j->machine.chip;
  struct pz_training_plans *p = NULL;
  struct pz_plan *asked = &j->options.plan;
  bool weak = j->q->t->batch_per_device > 0;
  if (weak) asked->batch = j->q->t->batch_per_device * asked->devices;
  enum pz_status status = pz_training_place(j->q->model, chip, net, &j->options, &p, j->err);
  if (status == PZ_OK && *p->warning) pz_command_warn(j->q->s->quiet, p->warning);
  if (status == PZ_OK && !p->n)
    status = pz_training_nothing_fits(j->q->model, chip, net, &j->options, weak, p, j->err);
  if (status == PZ_OK) status = tell_plans(j, p);
  pz_training_plans_free(p);
  return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Options that cannot be combined; NULL, or what is wrong. */
static const char *misuse(const struct pz_place_question *q) {
  const struct pz_place_training_settings *t = q->t;
  if (q->s->batch && t->batch_per_device)
    return "--batch and --batch-per-device; accepted: one of them";
  if (t->price > 0 && !t->tokens) return "--price requires --tokens";
  if (t->deadline && !t->tokens) return "--deadline requires --tokens";
  if (q->s->emit && (t->tokens || t->top > 1 || q->s->trace || t->report || t->compare))
    return "--emit cannot be combined with --tokens, --top, --trace, --report or --compare";
  if (q->devices.n == 1) return NULL;
  if (q->s->emit) return "--emit with several --devices; accepted: one number of devices";
  if (q->s->trace) return "--trace with several --devices; accepted: one number of devices";
  if (t->top > 1) return "--top with several --devices; accepted: one number of devices";
  return NULL;
}

enum pz_status pz_place_training(const struct pz_place_question *q, enum pz_exit *code,
                                 struct pz_error *err) {
  struct pz_place_job j = {.q = q, .err = err};
  j.emit = q->s->emit;
  struct pz_machine_use use = {"devices", q->devices.v[q->devices.n - 1], q->s->quiet,
                               .training = true};
  const char *wrong = misuse(q);
  if (wrong) return pz_fail(err, PZ_BAD_USE, "%s", wrong);
  enum pz_status status = pz_machine_load(&q->s->machine, use, &j.machine, err);
  if (status == PZ_OK) status = read_options(&j);
  if (status == PZ_OK) status = check_emit(&j);
  if (status == PZ_OK && q->s->trace) status = pz_file_output(q->s->trace, NULL, 0, err);
  if (status == PZ_OK && q->t->report) status = pz_file_output(q->t->report, NULL, 0, err);
  if (status != PZ_OK) return status;
  set_hbm(&j.machine.chip, q->s->hbm_gb);
  pz_arena_init(&j.arena, NULL);
  pz_command_progress_start(&j.progress, q->s->quiet, false);
  const atomic_bool *stop = pz_command_listen();
  status = q->devices.n > 1 ? pz_place_scaling(&j) : place_one(&j);
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the plans");
  pz_plan_diff_free(j.diff);
  pz_arena_release(&j.arena);
  *code = status == PZ_OK && atomic_load(stop) ? PZ_EXIT_STOPPED
          : j.late                             ? PZ_EXIT_NO_ANSWER
                                               : PZ_EXIT_DONE;
  return status;
}
