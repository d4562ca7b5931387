/* Schedules of a plan's passes, from which its step is predicted (pz_training_schedule). */
#include "chip/chip.h"
#include "core/file.h"
#include "plan/pipeline_order.h"
#include "schedule/solve.h"
#include "step/pass_schedule.h"
#include "step/prediction.h"
#include "step/step_model.h"

/* Raises PZ_BAD_USE unless the chip schedules the operators of such a plan. */
static void require_scheduled(struct pz_call *call, const struct pz_chip *chip,
                              const struct pz_plan *plan) {
  if (chip->execution == PZ_CHIP_STREAM)
    pz_raise(call, PZ_BAD_USE,
             "chip %s runs kernels in a stream; accepted: a chip with execution %s or %s",
             chip->name, pz_chip_execution_names[PZ_CHIP_SCHEDULED],
             pz_chip_execution_names[PZ_CHIP_SERIAL]);
  if (plan->execution != PZ_EXECUTION_SCHEDULED)
    pz_raise(call, PZ_BAD_USE,
             "framework %s with execution %s runs operators one after another; accepted: "
             "framework compiled with execution %s",
             pz_framework_names[plan->framework], pz_execution_names[plan->execution],
             pz_execution_names[PZ_EXECUTION_SCHEDULED]);
  if (!pz_step_is_scheduled(chip, plan))
    pz_raise(call, PZ_BAD_USE,
             "pipeline %s divides backward passes, which are not scheduled then; accepted: "
             "another pipeline",
             pz_pipeline_names[plan->pipeline]);
}

/* The schedules of a plan while they are collected. */
struct schedule_builder {
  struct pz_call *result; /* allocates in the result */
  struct pz_step_model *model;
  struct pz_schedule_options options;
  struct pz_plan_schedules *schedules;
};

/* Appends the schedule of one direction of layer `index` of the graph, which occurs `count` times
 * in the model with or without recomputation.  Does nothing if count is 0. */
static void append_schedule(struct pz_call *call, struct schedule_builder *builder, uint32_t index,
                            enum pz_direction direction, bool recomputed, int64_t count) {
  static const char *const names[] = {"forward", "backward"};
  struct pz_step_model *model = builder->model;
  struct pz_plan_schedules *schedules = builder->schedules;
  const struct pz_layer *layer = &pz_step_pass(model)->layers[index];
  const struct pz_layer_kernels *kernels = &model->kernels[index];
  struct pz_schedule_options options = builder->options;
  if (!count) return;
  struct pz_call scratch = pz_scratch(call);
  struct pz_step_context context = pz_step_layer_context(model, &schedules->plan, index);
  struct pz_layer_schedule *schedule = &schedules->list[schedules->n];
  *schedule = (struct pz_layer_schedule){.count = count, .direction = direction};
  schedule->layer = pz_format(&scratch, "%s%s", layer->name, recomputed ? "-recomputed" : "");
  if (options.lp) { /* a file for each pass */
    const char *suffix = pz_format(&scratch, "-%s-%s", schedule->layer, names[direction]);
    options.lp = pz_file_with(&scratch, options.lp, suffix);
  }
  struct pz_pass_question question =
      pz_layer_pass(&scratch, &context, layer, kernels, direction, recomputed);
  const bool named = true;
  struct pz_problem problem = pz_pass_problem(&scratch, &question, named);
  pz_layer_schedule_find(builder->result, &problem, &options, schedule);
  context.scheduled = false; /* for comparison: operators one after another */
  struct pz_layer_step serial = pz_layer_step(&scratch, &context, layer, kernels, recomputed);
  schedule->serial_s = direction == PZ_FORWARD ? serial.forward_s : serial.backward_s;
  schedules->n++;
  pz_scratch_end(&scratch);
}

/* The arguments of pz_training_schedule(). */
struct schedule_args {
  struct pz_job job;
  const struct pz_plan *plan;
  const struct pz_schedule_options *options;
  struct pz_plan_schedules **out;
};

/* Checks the arguments, and schedules each layer of the plan: forward, and backward without and
 * with recomputation, so that a layer has up to three schedules. */
static void schedule_plan(struct pz_call *call, void *ctx) {
  struct schedule_args *args = ctx;
  struct schedule_builder builder = {.options = pz_schedule_options_check(call, args->options)};
  struct pz_plan filled;
  struct pz_cluster extended; /* the job's network, if it has to be extended to all devices */
  struct pz_call result;
  if (!args->options) builder.options.steps = PZ_PASS_STEPS;
  /* pz_pass_problem() always makes modes as PZ_MODES_ALL asks for: several numbers of cores, and
   * shared bandwidths.  Other sets of modes exist only for layers without a plan. */
  if (builder.options.modes != PZ_MODES_ALL)
    pz_raise(call, PZ_BAD_USE, "modes %s; accepted: all, which the passes of a plan have",
             pz_modes_names[builder.options.modes]);
  pz_require(call, args->out, "out");
  pz_training_question(call, &args->job, args->plan, &filled, &extended);
  require_scheduled(call, args->job.chip, &filled);

  struct pz_plan_schedules *schedules = pz_object_new(call, sizeof *schedules, &result);
  struct pz_plan *plan = &schedules->plan;
  *plan = filled;
  pz_training_own_plan(&result, plan);
  pz_require_plan(call, plan);
  struct pz_step_model *model = pz_step_model_new(call, &args->job, plan);
  pz_step_check(call, model, plan);
  plan->seq = model->seq;
  schedules->microbatches = pz_plan_microbatches(plan);
  uint32_t n_layers = model->workload->n_layers;
  schedules->list = pz_alloc(&result, 3 * (size_t)n_layers, sizeof *schedules->list);
  builder.result = &result;
  builder.model = model;
  builder.schedules = schedules;

  uint32_t kind = 0; /* the next kind of repeated layer; only these are recomputed */
  for (uint32_t i = 0; i < n_layers; i++) {
    int64_t count = model->workload->layers[i].count, recomputed = 0;
    bool is_repeated = kind < model->kinds.n && model->kinds.layer[kind] == i;
    if (is_repeated) {
      recomputed = pz_step_recomputed(model, plan, kind);
      kind++;
    }
    const bool recomputes = true;
    append_schedule(call, &builder, i, PZ_FORWARD, !recomputes, count);
    append_schedule(call, &builder, i, PZ_BACKWARD, !recomputes, count - recomputed);
    append_schedule(call, &builder, i, PZ_BACKWARD, recomputes, recomputed);
  }
  *args->out = pz_object_keep(call, schedules);
}

enum pz_status pz_training_schedule(const char *model, const struct pz_chip *chip,
                                    const struct pz_cluster *net, const struct pz_plan *plan,
                                    const struct pz_schedule_options *options,
                                    struct pz_plan_schedules **out, struct pz_error *err) {
  struct schedule_args args = {{.model = model, .chip = chip, .net = net}, plan, options, out};
  return pz_border(schedule_plan, &args, err);
}

void pz_plan_schedules_free(struct pz_plan_schedules *schedules) { pz_object_free(schedules); }
