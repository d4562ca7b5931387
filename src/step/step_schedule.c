/* Schedules of a plan's passes, for programs: those that its predicted step adds up. */
#include "chip/chip.h"
#include "core/file.h"
#include "plan/pipeline_order.h"
#include "schedule/solve.h"
#include "step/pass_schedule.h"
#include "step/prediction.h"
#include "step/step_model.h"

static void check_scheduled(struct pz_call *call, const struct pz_chip *chip,
                            const struct pz_plan *p) {
  if (chip->execution == PZ_CHIP_STREAM)
    pz_raise(call, PZ_BAD_USE,
             "chip %s runs kernels in a stream; accepted: a chip with execution %s or %s",
             chip->name, pz_chip_execution_names[PZ_CHIP_SCHEDULED],
             pz_chip_execution_names[PZ_CHIP_SERIAL]);
  if (p->execution != PZ_EXECUTION_SCHEDULED)
    pz_raise(call, PZ_BAD_USE,
             "framework %s with execution %s runs operators one after another; accepted: "
             "framework compiled with execution %s",
             pz_framework_names[p->framework], pz_execution_names[p->execution],
             pz_execution_names[PZ_EXECUTION_SCHEDULED]);
  if (!pz_step_is_scheduled(chip, p))
    pz_raise(call, PZ_BAD_USE,
             "pipeline %s divides backward passes, which are not scheduled then; accepted: "
             "another pipeline",
             pz_pipeline_names[p->pipeline]);
}

struct maker {
  struct pz_call *own; /* allocates in the result */
  struct pz_step_model *m;
  struct pz_schedule_options how;
  struct pz_plan_schedules *out;
};

/* One pass of so many layers, behind those in the list. */
static void add_pass(struct pz_call *call, struct maker *k, uint32_t i, enum pz_direction d,
                     bool recomputed, int64_t count) {
  static const char *const names[] = {"forward", "backward"};
  struct pz_step_context c = pz_step_layer_context(k->m, &k->out->plan, i);
  const struct pz_layer *l = &pz_step_pass(k->m)->layers[i];
  const struct pz_layer_kernels *kernels = &k->m->kernels[i];
  struct pz_layer_schedule *s = &k->out->list[k->out->n];
  struct pz_schedule_options how = k->how;
  if (!count) return;
  struct pz_call work = pz_scratch(call);
  *s = (struct pz_layer_schedule){.count = count, .direction = d};
  s->layer = pz_format(&work, "%s%s", l->name, recomputed ? "-recomputed" : "");
  if (how.lp) {
    how.lp = pz_file_with(&work, how.lp, pz_format(&work, "-%s-%s", s->layer, names[d]));
    if (!how.lp) pz_raise(call, PZ_NO_MEMORY, "out of memory for a schedule");
  }
  struct pz_pass_question q = pz_layer_pass(&work, &c, l, kernels, d, recomputed);
  struct pz_problem problem = pz_pass_problem(&work, &q, true);
  pz_layer_schedule_find(k->own, &problem, &how, s);
  c.scheduled = false;
  struct pz_layer_step serial = pz_layer_step(&work, &c, l, kernels, recomputed);
  s->serial_s = d == PZ_FORWARD ? serial.forward_s : serial.backward_s;
  k->out->n++;
  pz_scratch_end(&work);
}

static void add_layers(struct pz_call *call, struct maker *k) {
  const struct pz_layer_kinds *kinds = &k->m->kinds;
  uint32_t kind = 0;
  for (uint32_t i = 0; i < k->m->workload->n_layers; i++) {
    int64_t n = k->m->workload->layers[i].count, again = 0;
    if (kind < kinds->n && kinds->layer[kind] == i)
      again = pz_step_recomputed(k->m, &k->out->plan, kind++);
    add_pass(call, k, i, PZ_FORWARD, false, n);
    add_pass(call, k, i, PZ_BACKWARD, false, n - again);
    add_pass(call, k, i, PZ_BACKWARD, true, again);
  }
}

struct schedule_args {
  struct pz_job job;
  const struct pz_plan *plan;
  const struct pz_schedule_options *options;
  struct pz_plan_schedules **out;
};

static void schedule_plan(struct pz_call *call, void *ctx) {
  struct schedule_args *x = ctx;
  struct maker k = {.how = pz_schedule_options_check(call, x->options)};
  struct pz_plan p;
  struct pz_cluster wide;
  struct pz_call own;
  if (!x->options) k.how.steps = PZ_PASS_STEPS;
  if (k.how.modes != PZ_MODES_ALL)
    pz_raise(call, PZ_BAD_USE, "modes %s; accepted: all, which the passes of a plan have",
             pz_modes_names[k.how.modes]);
  pz_require(call, x->job.model, "model");
  pz_require(call, x->out, "out");
  pz_training_question(call, &x->job, x->plan, &p, &wide);
  check_scheduled(call, x->job.chip, &p);
  k.own = &own;
  k.out = pz_object_new(call, sizeof *k.out, &own);
  k.out->plan = p;
  pz_training_own_plan(&own, &k.out->plan);
  pz_require_plan(call, &k.out->plan);
  k.m = pz_step_model_new(call, &x->job, &k.out->plan);
  pz_step_check(call, k.m, &k.out->plan);
  k.out->plan.seq = k.m->seq;
  k.out->microbatches = pz_plan_microbatches(&k.out->plan);
  k.out->list = pz_alloc(&own, 3 * (size_t)k.m->workload->n_layers, sizeof *k.out->list);
  add_layers(call, &k);
  *x->out = pz_object_keep(call, k.out);
}

enum pz_status pz_training_schedule(const char *model, const struct pz_chip *chip,
                                    const struct pz_cluster *net, const struct pz_plan *plan,
                                    const struct pz_schedule_options *options,
                                    struct pz_plan_schedules **out, struct pz_error *err) {
  struct schedule_args x = {{.model = model, .chip = chip, .net = net}, plan, options, out};
  return pz_border(schedule_plan, &x, err);
}

void pz_plan_schedules_free(struct pz_plan_schedules *s) { pz_object_free(s); }
