/* Schedules of a plan's passes, for programs: those that its predicted step adds up. */
#include "chip/chip.h"
#include "core/file.h"
#include "core/held.h"
#include "core/status.h"
#include "plan/pipeline_order.h"
#include "schedule/solve.h"
#include "step/pass_schedule.h"
#include "step/prediction.h"
#include "step/step_model.h"

static enum pz_status check_scheduled(const struct pz_chip *chip, const struct pz_plan *p,
                                      struct pz_error *err) {
  if (chip->execution == PZ_CHIP_STREAM)
    return pz_fail(err, PZ_BAD_USE,
                   "chip %s runs kernels in a stream; accepted: a chip with execution %s or %s",
                   chip->name, pz_chip_execution_names[PZ_CHIP_SCHEDULED],
                   pz_chip_execution_names[PZ_CHIP_SERIAL]);
  if (p->execution != PZ_EXECUTION_SCHEDULED)
    return pz_fail(err, PZ_BAD_USE,
                   "framework %s with execution %s runs operators one after another; accepted: "
                   "framework compiled with execution %s",
                   pz_framework_names[p->framework], pz_execution_names[p->execution],
                   pz_execution_names[PZ_EXECUTION_SCHEDULED]);
  if (!pz_step_is_scheduled(chip, p))
    return pz_fail(err, PZ_BAD_USE,
                   "pipeline %s divides backward passes, which are not scheduled then; accepted: "
                   "another pipeline",
                   pz_pipeline_names[p->pipeline]);
  return PZ_OK;
}

struct maker {
  struct pz_step_model *m;
  struct pz_schedule_options how;
  struct pz_arena *arena; /* of the result */
  struct pz_plan_schedules *out;
  struct pz_error *err;
};

/* One pass of so many layers, behind those in the list. */
static enum pz_status add_pass(struct maker *k, uint32_t i, enum pz_direction d, bool recomputed,
                               int64_t count) {
  static const char *const names[] = {"forward", "backward"};
  struct pz_step_context c = pz_step_layer_context(k->m, &k->out->plan, i, k->err);
  const struct pz_layer *l = &pz_step_pass(k->m)->layers[i];
  const struct pz_layer_kernels *kernels = &k->m->kernels[i];
  struct pz_layer_schedule *s = &k->out->list[k->out->n];
  struct pz_schedule_options how = k->how;
  struct pz_pass_question q;
  struct pz_problem problem;
  struct pz_layer_step serial;
  struct pz_arena work;
  if (!count) return PZ_OK;
  pz_arena_init(&work, NULL);
  *s = (struct pz_layer_schedule){.count = count, .direction = d};
  s->layer = pz_arena_printf(&work, "%s%s", l->name, recomputed ? "-recomputed" : "");
  const char *end = pz_arena_printf(&work, "-%s-%s", s->layer ? s->layer : "", names[d]);
  if (how.lp && end) how.lp = pz_file_with(how.lp, end, &work);
  enum pz_status status = s->layer && end && !how.lp == !k->how.lp
                              ? pz_layer_pass(&c, l, kernels, d, recomputed, &work, &q)
                              : pz_fail(k->err, PZ_NO_MEMORY, "out of memory for a schedule");
  if (status == PZ_OK) status = pz_pass_problem(&q, true, &work, &problem, k->err);
  if (status == PZ_OK) status = pz_schedule_problem(&problem, &how, &work, k->arena, s, k->err);
  c.scheduled = false;
  if (status == PZ_OK) status = pz_layer_step(&c, l, kernels, recomputed, &serial);
  if (status == PZ_OK) {
    s->serial_s = d == PZ_FORWARD ? serial.forward_s : serial.backward_s;
    k->out->n++;
  }
  pz_arena_release(&work);
  return status;
}

static enum pz_status add_layers(struct maker *k) {
  const struct pz_layer_kinds *kinds = &k->m->kinds;
  enum pz_status status = PZ_OK;
  uint32_t kind = 0;
  for (uint32_t i = 0; i < k->m->w->n_layers && status == PZ_OK; i++) {
    int64_t n = k->m->w->layers[i].count, again = 0;
    if (kind < kinds->n && kinds->layer[kind] == i)
      again = pz_step_recomputed(k->m, &k->out->plan, kind++);
    status = add_pass(k, i, PZ_FORWARD, false, n);
    if (status == PZ_OK) status = add_pass(k, i, PZ_BACKWARD, false, n - again);
    if (status == PZ_OK) status = add_pass(k, i, PZ_BACKWARD, true, again);
  }
  return status;
}

static enum pz_status make(struct maker *k, const struct pz_job *job) {
  struct pz_plan *p = &k->out->plan;
  enum pz_status status = pz_training_own_plan(p, k->arena, k->err);
  if (status == PZ_OK) status = pz_plan_check(p, k->err);
  if (status == PZ_OK) status = pz_step_model_new(job, p, &k->m, k->err);
  if (status == PZ_OK) status = pz_step_check(k->m, p, k->err);
  if (status == PZ_OK) {
    p->seq = k->m->seq;
    k->out->microbatches = pz_plan_microbatches(p);
    if (!PZ_ARRAY(k->arena, k->out->list, 3 * k->m->w->n_layers))
      status = pz_fail(k->err, PZ_NO_MEMORY, "out of memory for a schedule");
  }
  if (status == PZ_OK) status = add_layers(k);
  pz_step_model_free(k->m);
  return status;
}

enum pz_status pz_training_schedule(const char *model, const struct pz_chip *chip,
                                    const struct pz_cluster *net, const struct pz_plan *plan,
                                    const struct pz_schedule_options *options,
                                    struct pz_plan_schedules **out, struct pz_error *err) {
  struct pz_job job = {.model = model, .chip = chip, .net = net};
  struct maker k = {.err = err};
  struct pz_plan p;
  struct pz_cluster wide;
  void *made = NULL;
  enum pz_status status = pz_schedule_options_take(options, &k.how, err);
  if (!options) k.how.steps = PZ_PASS_STEPS;
  if (status == PZ_OK && k.how.modes != PZ_MODES_ALL)
    status = pz_fail(err, PZ_BAD_USE, "modes %s; accepted: all, which the passes of a plan have",
                     pz_modes_names[k.how.modes]);
  if (status == PZ_OK) status = pz_training_question(&job, plan, out, &p, &wide, err);
  if (status == PZ_OK) status = check_scheduled(chip, &p, err);
  if (status == PZ_OK)
    status = pz_held_new(sizeof **out, "the schedules of a plan", &made, &k.arena, err);
  if (status != PZ_OK) return status;
  k.out = made;
  k.out->plan = p;
  return pz_held_give(make(&k, &job), made, out);
}

void pz_plan_schedules_free(struct pz_plan_schedules *s) { pz_held_free(s); }
