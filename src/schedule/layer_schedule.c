/* Schedules of layers and of instances for programs and reports.
 *
 * pz_schedule_layer() and pz_schedule_instance() make a problem, pz_layer_schedule_find() solves it, and
 * pz_layer_schedule_describe() describes the schedule by its operators and statistics. */
#include "schedule/ilp/ilp.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"

const char *const pz_solver_names[] = {"exact", "ilp", NULL};

/* ---- describing a schedule ------------------------------------------------------------------ */

/* Whether the problem has the resource.  Cores and link always count, rates and power only if some mode uses them. */
static bool has_resource(const struct pz_problem *p, enum pz_resource r) {
  if (r <= PZ_LINK) return true;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++)
      if (p->tasks[i].modes[m].use[r]) return true;
  return false;
}

static void describe_operator(struct pz_call *call, const struct pz_task *task,
                              const struct pz_slot *slot, bool whole,
                              struct pz_scheduled_operator *o) {
  const struct pz_mode *m = &task->modes[slot->mode];
  char mode[16];
  *o =
      (struct pz_scheduled_operator){.name = pz_copy_text(call, task->name),
                                     .op_class = task->op_class,
                                     .tensor_cores = pz_task_use(task, slot->mode, PZ_TENSOR_CORES),
                                     .vector_cores = pz_task_use(task, slot->mode, PZ_VECTOR_CORES),
                                     .start_s = slot->start,
                                     .end_s = slot->end};
  if (!whole) return;
  o->id = task->id;
  o->mode = pz_copy_text(call, pz_mode_name(m, mode));
  o->tensor_held = m->use[PZ_TENSOR_CORES];
  o->vector_held = m->use[PZ_VECTOR_CORES];
  o->energy_j = m->j;
  for (enum pz_resource r = 0; r < PZ_RESOURCES; r++)
    o->used[r] = (double)pz_task_use(task, slot->mode, r) / (r < PZ_HBM_RATE ? 1 : PZ_RATE_PARTS);
}

void pz_layer_schedule_describe(struct pz_call *call, const struct pz_problem *problem,
                                const struct pz_schedule *schedule, bool whole, bool views,
                                struct pz_layer_schedule *s) {
  s->makespan_s = schedule->makespan;
  s->lower_bound_s = schedule->lower_bound;
  s->optimal = schedule->outcome == PZ_OUTCOME_OPTIMAL;
  pz_schedule_use(problem, schedule->slots, schedule->makespan, s->use);
  if (s->layer) s->layer = pz_copy_text(call, s->layer);
  s->operators = pz_alloc(call, problem->n, sizeof *s->operators);
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    if (task->op_class != PZ_CLASS_NONE || views)
      describe_operator(call, task, &schedule->slots[i], whole, &s->operators[s->n_operators++]);
  }
  if (!whole) return;
  s->serial_s = pz_problem_serial(problem);
  s->stop = schedule->stop;
  s->steps = schedule->steps;
  for (enum pz_resource r = 0; r < PZ_RESOURCES; r++) s->limits[r] = has_resource(problem, r);
  s->techniques = pz_alloc(call, PZ_TECHNIQUES, sizeof *s->techniques);
  s->n_techniques = PZ_TECHNIQUES;
  for (enum pz_technique t = 0; t < PZ_TECHNIQUES; t++) {
    s->techniques[t] = schedule->statistics.by[t];
    s->techniques[t].name = pz_technique_name(t);
  }
}

/* ---- solving -------------------------------------------------------------------------------- */

struct pz_schedule_options pz_schedule_options_default(void) {
  return (struct pz_schedule_options){
      .size = sizeof(struct pz_schedule_options), .steps = PZ_LAYER_STEPS, .modes = PZ_MODES_ALL};
}

struct pz_schedule_options pz_schedule_options_check(struct pz_call *call,
                                                     const struct pz_schedule_options *given) {
  struct pz_schedule_options o = pz_schedule_options_default();
  pz_require_options(call, &o, sizeof o, given, "pz_schedule_options_default");
  if (o.steps != PZ_SCHEDULE_STEPS) pz_require_range(call, "steps", o.steps, 1, INT64_MAX);
  pz_require_range(call, "modes", (int64_t)o.modes, 0, PZ_MODES_TWO);
  pz_require_range(call, "exclusive", (int64_t)o.exclusive, 0, PZ_EXCLUSIVE_CLASS);
  pz_require_range(call, "solver", (int64_t)o.solver, 0, PZ_SOLVER_ILP);
  if (!(o.seconds >= 0 && o.seconds <= 1e6))
    pz_raise(call, PZ_BAD_USE, "seconds %g; accepted: 0 to 1e6", o.seconds);
  return o;
}

void pz_layer_schedule_find(struct pz_call *call, const struct pz_problem *p,
                            const struct pz_schedule_options *o, struct pz_layer_schedule *s) {
  struct pz_techniques techniques = pz_techniques_all;
  struct pz_solve_options how = {.solver = o->solver,
                                 .steps = o->steps == PZ_SCHEDULE_STEPS ? 0 : o->steps,
                                 .seconds = o->seconds,
                                 .techniques = &techniques};
  struct pz_call work = pz_scratch(call);
  if (o->disable)
    pz_must(call, pz_techniques_disable(&techniques, o->disable, pz_call_error(call)));
  if (o->lp) pz_must(call, pz_ilp_write(p, o->lp, pz_call_error(call)));
  struct pz_schedule schedule = pz_schedule_find(&work, p, &how);
  pz_layer_schedule_describe(call, p, &schedule, true, o->views, s);
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

static void schedule_layer(struct pz_call *call, void *ctx) {
  struct layer_args *x = ctx;
  struct pz_call own;
  struct pz_schedule_options o = pz_schedule_options_check(call, x->options);
  struct pz_layer_options kind = {o.modes, o.exclusive};
  pz_require(call, x->cost, "cost");
  pz_require(call, x->layer, "layer");
  pz_require(call, x->out, "out");
  pz_require_range(call, "direction", (int64_t)x->direction, 0, PZ_BACKWARD);
  struct pz_layer_schedule *s = pz_object_new(call, sizeof *s, &own);
  s->layer = x->layer->name;
  s->count = x->layer->count;
  s->direction = x->direction;
  struct pz_problem problem =
      pz_layer_problem_build(call, x->cost, &x->layer->ops[x->direction], &kind);
  pz_layer_schedule_find(&own, &problem, &o, s);
  *x->out = pz_object_keep(call, s);
}

enum pz_status pz_schedule_layer(struct pz_cost *cost, const struct pz_layer *layer,
                                 enum pz_direction direction,
                                 const struct pz_schedule_options *options,
                                 struct pz_layer_schedule **out, struct pz_error *err) {
  struct layer_args x = {cost, layer, direction, options, out};
  return pz_border(schedule_layer, &x, err);
}

struct instance_args {
  const char *name, *text;
  size_t bytes;
  const struct pz_schedule_options *options;
  struct pz_layer_schedule **out;
};

static void schedule_instance(struct pz_call *call, void *ctx) {
  struct instance_args *x = ctx;
  struct pz_call own;
  struct pz_schedule_options o = pz_schedule_options_check(call, x->options);
  pz_require(call, x->name, "name");
  pz_require(call, x->text, "text");
  pz_require(call, x->out, "out");
  struct pz_layer_schedule *s = pz_object_new(call, sizeof *s, &own);
  s->count = 1;
  s->model = pz_copy_text(&own, x->name);
  struct pz_problem problem = pz_instance_read(call, x->name, x->text, x->bytes, o.exclusive);
  pz_layer_schedule_find(&own, &problem, &o, s);
  *x->out = pz_object_keep(call, s);
}

enum pz_status pz_schedule_instance(const char *name, const char *text, size_t bytes,
                                    const struct pz_schedule_options *options,
                                    struct pz_layer_schedule **out, struct pz_error *err) {
  struct instance_args x = {name, text, bytes, options, out};
  return pz_border(schedule_instance, &x, err);
}

void pz_layer_schedule_free(struct pz_layer_schedule *s) { pz_object_free(s); }

/* ---- for callers that return a status ---- */

struct options_args {
  const struct pz_schedule_options *given;
  struct pz_schedule_options *out;
};

static void check_options(struct pz_call *call, void *ctx) {
  struct options_args *x = ctx;
  *x->out = pz_schedule_options_check(call, x->given);
}

enum pz_status pz_schedule_options_take(const struct pz_schedule_options *given,
                                        struct pz_schedule_options *o, struct pz_error *err) {
  struct options_args x = {given, o};
  return pz_border(check_options, &x, err);
}

struct find_args {
  const struct pz_problem *p;
  const struct pz_schedule_options *options;
  struct pz_arena *arena;
  struct pz_layer_schedule *s;
};

static void find_layer_schedule(struct pz_call *call, void *ctx) {
  struct find_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  pz_layer_schedule_find(&result, x->p, x->options, x->s);
}

enum pz_status pz_schedule_problem(const struct pz_problem *p, const struct pz_schedule_options *o,
                                   struct pz_arena *work, struct pz_arena *arena,
                                   struct pz_layer_schedule *s, struct pz_error *err) {
  struct find_args x = {p, o, arena, s};
  (void)work;
  return pz_border(find_layer_schedule, &x, err);
}
