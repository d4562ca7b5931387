/* Schedules of layers and of instances for programs and reports.
 *
 * pz_schedule_layer() and pz_schedule_instance() build a problem, pz_layer_schedule_find() solves it, and
 * pz_layer_schedule_describe() describes the schedule by its operators and statistics. */
#include "schedule/ilp/ilp.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"

const char *const pz_solver_names[] = {"exact", "ilp", NULL};

/* ---- describing a schedule ------------------------------------------------------------------ */

/* Describes a schedule by its times and operators, and if `whole` is set, also by the mode and the
 * resources of each operator and by statistics.  `views` adds operators without work, such as reshapes. */
void pz_layer_schedule_describe(struct pz_call *call, const struct pz_problem *problem,
                                const struct pz_schedule *schedule, bool whole, bool views,
                                struct pz_layer_schedule *out) {
  out->makespan_s = schedule->makespan;
  out->lower_bound_s = schedule->lower_bound;
  out->optimal = schedule->outcome == PZ_OUTCOME_OPTIMAL;
  pz_schedule_use(problem, schedule->slots, schedule->makespan, out->use);
  if (out->layer) out->layer = pz_copy_text(call, out->layer);
  out->operators = pz_alloc(call, problem->n, sizeof *out->operators);
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    const struct pz_slot *slot = &schedule->slots[i];
    const struct pz_mode *mode = &task->modes[slot->mode];
    if (task->op_class == PZ_CLASS_NONE && !views) continue;
    struct pz_scheduled_operator *op = &out->operators[out->n_operators++];
    op->name = pz_copy_text(call, task->name);
    op->op_class = task->op_class;
    op->tensor_cores = pz_task_use(task, slot->mode, PZ_TENSOR_CORES);
    op->vector_cores = pz_task_use(task, slot->mode, PZ_VECTOR_CORES);
    op->start_s = slot->start;
    op->end_s = slot->end;
    if (!whole) continue;
    char mode_name[16];
    op->id = task->id;
    op->mode = pz_copy_text(call, pz_mode_name(mode, mode_name));
    op->tensor_held = mode->use[PZ_TENSOR_CORES];
    op->vector_held = mode->use[PZ_VECTOR_CORES];
    op->energy_j = mode->energy_j;
    for (enum pz_resource r = 0; r < PZ_RESOURCES; r++) {
      int unit = r < PZ_HBM_RATE ? 1 : PZ_RATE_PARTS; /* cores and link; bandwidths and power */
      op->used[r] = (double)pz_task_use(task, slot->mode, r) / unit;
    }
  }
  if (!whole) return;
  out->serial_s = pz_problem_serial(problem);
  out->stop = schedule->stop;
  out->steps = schedule->steps;
  for (enum pz_resource r = 0; r < PZ_RESOURCES; r++) {
    out->limits[r] = r <= PZ_LINK; /* other resources limit schedules only if some mode uses them */
    for (uint32_t i = 0; i < problem->n; i++)
      for (uint32_t m = 0; m < problem->tasks[i].n_modes; m++)
        if (problem->tasks[i].modes[m].use[r]) out->limits[r] = true;
  }
  out->techniques = pz_alloc(call, PZ_TECHNIQUES, sizeof *out->techniques);
  out->n_techniques = PZ_TECHNIQUES;
  for (enum pz_technique t = 0; t < PZ_TECHNIQUES; t++) {
    out->techniques[t] = schedule->statistics.techniques[t];
    out->techniques[t].name = pz_technique_name(t);
  }
}

/* ---- solving -------------------------------------------------------------------------------- */

struct pz_schedule_options pz_schedule_options_default(void) {
  return (struct pz_schedule_options){
      .size = sizeof(struct pz_schedule_options), .steps = PZ_LAYER_STEPS, .modes = PZ_MODES_ALL};
}

/* Returns the options of a caller, or the defaults, after checking their ranges. */
struct pz_schedule_options pz_schedule_options_check(struct pz_call *call,
                                                     const struct pz_schedule_options *given) {
  struct pz_schedule_options options = pz_schedule_options_default();
  pz_require_options(call, &options, sizeof options, given, "pz_schedule_options_default");
  if (options.steps != PZ_SCHEDULE_STEPS)
    pz_require_range(call, "steps", options.steps, 1, INT64_MAX);
  pz_require_range(call, "modes", (int64_t)options.modes, 0, PZ_MODES_TWO);
  pz_require_range(call, "exclusive", (int64_t)options.exclusive, 0, PZ_EXCLUSIVE_CLASS);
  pz_require_range(call, "solver", (int64_t)options.solver, 0, PZ_SOLVER_ILP);
  if (!(options.seconds >= 0 && options.seconds <= 1e6))
    pz_raise(call, PZ_BAD_USE, "seconds %g; accepted: 0 to 1e6", options.seconds);
  return options;
}

/* Solves a problem with these options, and describes the schedule in *out. */
void pz_layer_schedule_find(struct pz_call *call, const struct pz_problem *problem,
                            const struct pz_schedule_options *options,
                            struct pz_layer_schedule *out) {
  struct pz_techniques techniques = pz_techniques_all;
  struct pz_solve_options solve = {.solver = options->solver,
                                   .steps = options->steps,
                                   .seconds = options->seconds,
                                   .techniques = &techniques};
  struct pz_call work = pz_scratch(call);
  if (options->steps == PZ_SCHEDULE_STEPS) solve.steps = 0;
  if (options->disable) pz_techniques_disable(call, &techniques, options->disable);
  if (options->lp) pz_ilp_write(call, problem, options->lp);
  struct pz_schedule schedule = pz_schedule_find(&work, problem, &solve);
  pz_layer_schedule_describe(call, problem, &schedule, true, options->views, out);
  pz_scratch_end(&work);
}

/* ---- for programs --------------------------------------------------------------------------- */

struct layer_args {
  struct pz_cost *cost;
  const struct pz_layer *layer;
  enum pz_direction direction;
  const struct pz_schedule_options *options;
  struct pz_layer_schedule **out;
};

/* Checks the arguments of pz_schedule_layer(), and schedules the layer. */
static void schedule_layer(struct pz_call *call, void *ctx) {
  struct layer_args *args = ctx;
  struct pz_call own;
  struct pz_schedule_options options = pz_schedule_options_check(call, args->options);
  struct pz_layer_options layer_options = {options.modes, options.exclusive};
  pz_require(call, args->cost, "cost");
  pz_require(call, args->layer, "layer");
  pz_require(call, args->out, "out");
  pz_require_range(call, "direction", (int64_t)args->direction, 0, PZ_BACKWARD);
  struct pz_layer_schedule *schedule = pz_object_new(call, sizeof *schedule, &own);
  schedule->layer = args->layer->name;
  schedule->count = args->layer->count;
  schedule->direction = args->direction;
  struct pz_problem problem =
      pz_layer_problem_build(call, args->cost, &args->layer->ops[args->direction], &layer_options);
  pz_layer_schedule_find(&own, &problem, &options, schedule);
  *args->out = pz_object_keep(call, schedule);
}

enum pz_status pz_schedule_layer(struct pz_cost *cost, const struct pz_layer *layer,
                                 enum pz_direction direction,
                                 const struct pz_schedule_options *options,
                                 struct pz_layer_schedule **out, struct pz_error *err) {
  struct layer_args args = {cost, layer, direction, options, out};
  return pz_border(schedule_layer, &args, err);
}

struct instance_args {
  const char *name, *text;
  size_t bytes;
  const struct pz_schedule_options *options;
  struct pz_layer_schedule **out;
};

/* Checks the arguments of pz_schedule_instance(), reads the instance and schedules it. */
static void schedule_instance(struct pz_call *call, void *ctx) {
  struct instance_args *args = ctx;
  struct pz_call own;
  struct pz_schedule_options options = pz_schedule_options_check(call, args->options);
  pz_require(call, args->name, "name");
  pz_require(call, args->text, "text");
  pz_require(call, args->out, "out");
  struct pz_layer_schedule *schedule = pz_object_new(call, sizeof *schedule, &own);
  schedule->count = 1;
  schedule->model = pz_copy_text(&own, args->name);
  struct pz_problem problem =
      pz_instance_read(call, args->name, args->text, args->bytes, options.exclusive);
  pz_layer_schedule_find(&own, &problem, &options, schedule);
  *args->out = pz_object_keep(call, schedule);
}

enum pz_status pz_schedule_instance(const char *name, const char *text, size_t bytes,
                                    const struct pz_schedule_options *options,
                                    struct pz_layer_schedule **out, struct pz_error *err) {
  struct instance_args args = {name, text, bytes, options, out};
  return pz_border(schedule_instance, &args, err);
}

void pz_layer_schedule_free(struct pz_layer_schedule *schedule) { pz_object_free(schedule); }
