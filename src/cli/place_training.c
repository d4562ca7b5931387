#include "cli/place_training.h"

#include <math.h>
#include <string.h>

#include "cli/plan_page.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/options.h"
#include "launch/launch.h"
#include "place/found_plan_json.h"
#include "step/prediction.h"
#include "step/run_cost.h"

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

/* Plans within a hundredth are equal to the model: the simplest is printed. */
static const double TIE = 0.01;

static enum pz_status read_options(struct pz_place_job *j) {
  const struct pz_place_settings *s = j->q->s;
  const struct pz_place_training_settings *t = j->q->t;
  struct pz_training_place_options o = pz_training_place_options_default();
  int64_t tp = PZ_FREE, mbs = PZ_FREE;
  o.plan = t->plan;
  o.objective = t->objective;
  o.tie = TIE;
  o.top = (uint32_t)t->top;
  o.all_devices = t->all_devices;
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
  struct pz_model_shape shape;
  struct pz_error why = {0};
  if (!j->emit) return PZ_OK;
  if (j->machine.chip.execution != PZ_CHIP_STREAM)
    return pz_fail(j->err, PZ_NO_ANSWER, "no plan: %s runs on GPUs, %s is none",
                   pz_launch_names[j->emit], j->machine.chip.name);
  enum pz_status status = pz_model_shape_load(j->q->model, &shape, &why);
  if (status == PZ_OK) return PZ_OK;
  return pz_fail(j->err, status == PZ_BAD_USE ? PZ_NO_ANSWER : status, "%s", why.message);
}

/* ---- one search ----------------------------------------------------------------------------- */

enum pz_status pz_place_search(const struct pz_place_job *j, const struct pz_chip *chip,
                               const struct pz_training_place_options *o,
                               struct pz_training_plans **out, struct pz_error *err) {
  const struct pz_machine *m = &j->machine;
  return pz_training_place(j->q->model, chip, m->own_link ? NULL : &m->net, o, out, err);
}

enum pz_status pz_place_nothing_fits(struct pz_place_job *j, const struct pz_training_plans *p) {
  const struct pz_machine *m = &j->machine;
  return pz_training_nothing_fits(j->q->model, &m->chip, m->own_link ? NULL : &m->net, &j->options,
                                  j->q->t->batch_per_device > 0, p, j->err);
}

static enum pz_status write_trace(const struct pz_place_job *j, const struct pz_training_run *r) {
  char *text = NULL;
  enum pz_status status = pz_prediction_trace(r, j->q->model, &text, j->err);
  if (status == PZ_OK) status = pz_file_write(j->q->s->trace, text, strlen(text), j->err);
  pz_free(text);
  return status;
}

static enum pz_status tell_json(const struct pz_place_job *j, const struct pz_training_plans *p) {
  const struct pz_place_question *q = j->q;
  json_t *out = json_pack(
      "{s:o,s:s,s:s?,s:I,s:I}", "model", json_string(q->model), "chip", j->machine.chip.name,
      "cluster", j->machine.own_link ? NULL : j->machine.net.name, "devices",
      (json_int_t)j->options.plan.devices, "batch", (json_int_t)j->options.plan.batch);
  json_t *found = pz_found_plans_json(p);
  if (out && found) json_object_update(out, found);
  json_decref(found);
  json_object_set_new(out, "warnings", pz_machine_warnings(&j->machine));
  json_object_set_new(out, "cost", q->t->tokens ? pz_run_cost_json(&j->cost) : json_null());
  return pz_command_json(out, j->err);
}

static enum pz_status find_cost(struct pz_place_job *j, struct pz_training_run *best) {
  const struct pz_place_training_settings *t = j->q->t;
  if (!t->tokens) return PZ_OK;
  j->cost_asked = (struct pz_predict_settings){
      .tokens = t->tokens, .price = t->price, .checkpoint_s = -1, .restart_s = -1};
  struct pz_predicted x = {.s = &j->cost_asked, .machine = j->machine, .run = best};
  return pz_predict_cost(&x, &j->cost, j->err);
}

static enum pz_status write_page(struct pz_place_job *j, const struct pz_training_run *best) {
  const struct pz_plan *o = &j->options.plan;
  struct pz_plan_page_row row = {o->devices, o->batch, best,
                                 best->p.tokens / best->p.step_s / (double)o->devices};
  struct pz_plan_page page = {
      .path = j->q->t->report, .model = j->q->model, .machine = &j->machine, .rows = &row, .n = 1};
  return pz_plan_page_write(&page, &j->arena, j->err);
}

static enum pz_status place_one(struct pz_place_job *j) {
  struct pz_training_plans *p = NULL;
  struct pz_plan *asked = &j->options.plan;
  if (j->q->t->batch_per_device) asked->batch = j->q->t->batch_per_device * asked->devices;
  enum pz_status status = pz_place_search(j, &j->machine.chip, &j->options, &p, j->err);
  if (status == PZ_OK && *p->warning) pz_command_warn(j->q->s->quiet, p->warning);
  if (status == PZ_OK && !p->n) status = pz_place_nothing_fits(j, p);
  if (status == PZ_OK && j->emit) {
    status = pz_place_emit(j, p->runs[0]);
    pz_training_plans_free(p);
    return status;
  }
  if (status == PZ_OK) status = find_cost(j, p->runs[0]);
  if (status == PZ_OK && j->q->s->trace) status = write_trace(j, p->runs[0]);
  if (status == PZ_OK && j->q->t->report) status = write_page(j, p->runs[0]);
  if (status == PZ_OK) status = j->q->json ? tell_json(j, p) : pz_place_print(j, p);
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
  if (q->s->emit && (t->tokens || t->top > 1 || q->s->trace || t->report))
    return "--emit cannot be combined with --tokens, --top, --trace or --report";
  if (q->devices.n == 1) return NULL;
  if (q->s->emit) return "--emit with several --devices; accepted: one number of devices";
  if (q->s->trace) return "--trace with several --devices; accepted: one number of devices";
  if (t->tokens) return "--tokens with several --devices; accepted: one number of devices";
  if (t->top > 1) return "--top with several --devices; accepted: one number of devices";
  return NULL;
}

enum pz_status pz_place_training(const struct pz_place_question *q, struct pz_error *err) {
  struct pz_place_job j = {.q = q, .err = err};
  j.emit = q->s->emit;
  struct pz_machine_use use = {"devices", q->devices.v[q->devices.n - 1], q->s->quiet,
                               .training = true};
  const char *wrong = misuse(q);
  if (wrong) return pz_fail(err, PZ_BAD_USE, "%s", wrong);
  enum pz_status status = pz_machine_load(&q->s->machine, use, &j.machine, err);
  if (status == PZ_OK) status = read_options(&j);
  if (status == PZ_OK) status = check_emit(&j);
  if (status == PZ_OK && q->s->trace) status = pz_file_writable(q->s->trace, err);
  if (status == PZ_OK && q->t->report) status = pz_file_writable(q->t->report, err);
  if (status != PZ_OK) return status;
  set_hbm(&j.machine.chip, q->s->hbm_gb);
  pz_arena_init(&j.arena, NULL);
  status = q->devices.n > 1 ? pz_place_scaling(&j) : place_one(&j);
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the plans");
  pz_arena_release(&j.arena);
  return status;
}
