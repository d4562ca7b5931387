/* Schedules of layers and of instances for programs and reports. */
#include "core/held.h"
#include "core/status.h"
#include "schedule/ilp/ilp.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"

const char *const pz_solver_names[] = {"exact", "ilp", NULL};

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for a schedule");
}

static bool tell_operator(const struct pz_task *task, const struct pz_slot *slot, bool whole,
                          struct pz_arena *arena, struct pz_scheduled_operator *o) {
  const struct pz_mode *m = &task->modes[slot->mode];
  char mode[16];
  *o =
      (struct pz_scheduled_operator){.name = pz_arena_strdup(arena, task->name),
                                     .op_class = task->op_class,
                                     .tensor_cores = pz_task_use(task, slot->mode, PZ_TENSOR_CORES),
                                     .vector_cores = pz_task_use(task, slot->mode, PZ_VECTOR_CORES),
                                     .start_s = slot->start,
                                     .end_s = slot->end};
  if (!whole) return o->name != NULL;
  o->id = task->id;
  o->mode = pz_arena_strdup(arena, pz_mode_name(m, mode));
  o->tensor_held = m->use[PZ_TENSOR_CORES];
  o->vector_held = m->use[PZ_VECTOR_CORES];
  o->energy_j = m->j;
  for (enum pz_resource r = 0; r < PZ_RESOURCES; r++)
    o->used[r] = (double)pz_task_use(task, slot->mode, r) / (r < PZ_HBM_RATE ? 1 : PZ_RATE_PARTS);
  return o->name && o->mode;
}

/* Is the rate, or power, part of the problem?  Cores and link always are. */
static bool limits(const struct pz_problem *p, enum pz_resource r) {
  if (r <= PZ_LINK) return true;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++)
      if (p->tasks[i].modes[m].use[r]) return true;
  return false;
}

static bool tell_solve(const struct pz_problem *p, const struct pz_schedule *schedule,
                       struct pz_arena *arena, struct pz_layer_schedule *out) {
  out->serial_s = pz_problem_serial(p);
  out->stop = schedule->stop;
  out->steps = schedule->steps;
  for (enum pz_resource r = 0; r < PZ_RESOURCES; r++) out->limits[r] = limits(p, r);
  if (!PZ_ARRAY(arena, out->techniques, PZ_TECHNIQUES)) return false;
  for (enum pz_technique t = 0; t < PZ_TECHNIQUES; t++) {
    out->techniques[t] = schedule->statistics.by[t];
    out->techniques[t].name = pz_technique_name(t);
  }
  out->n_techniques = PZ_TECHNIQUES;
  return true;
}

enum pz_status pz_layer_schedule_tell(const struct pz_problem *problem,
                                      const struct pz_schedule *schedule, bool whole, bool views,
                                      struct pz_arena *arena, struct pz_layer_schedule *out,
                                      struct pz_error *err) {
  out->makespan_s = schedule->makespan;
  out->lower_bound_s = schedule->lower_bound;
  out->optimal = schedule->outcome == PZ_OUTCOME_OPTIMAL;
  pz_schedule_use(problem, schedule->slots, schedule->makespan, out->use);
  if (out->layer && !(out->layer = pz_arena_strdup(arena, out->layer))) return no_memory(err);
  if (!PZ_ARRAY(arena, out->operators, problem->n)) return no_memory(err);
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    if (task->op_class == PZ_CLASS_NONE && !views) continue;
    if (!tell_operator(task, &schedule->slots[i], whole, arena,
                       &out->operators[out->n_operators++]))
      return no_memory(err);
  }
  return !whole || tell_solve(problem, schedule, arena, out) ? PZ_OK : no_memory(err);
}

/* ---- for programs --------------------------------------------------------------------------- */

struct pz_schedule_options pz_schedule_options_default(void) {
  return (struct pz_schedule_options){
      .size = sizeof(struct pz_schedule_options), .steps = PZ_LAYER_STEPS, .modes = PZ_MODES_ALL};
}

enum pz_status pz_schedule_options_take(const struct pz_schedule_options *given,
                                        struct pz_schedule_options *o, struct pz_error *err) {
  *o = pz_schedule_options_default();
  enum pz_status status = pz_sized_take(o, sizeof *o, given, "pz_schedule_options_default", err);
  int64_t steps = status == PZ_OK && o->steps == PZ_SCHEDULE_STEPS ? 1 : o->steps;
  if (status == PZ_OK) status = pz_need_range("steps", steps, 1, INT64_MAX, err);
  if (status == PZ_OK) status = pz_need_range("modes", (int64_t)o->modes, 0, PZ_MODES_TWO, err);
  if (status == PZ_OK)
    status = pz_need_range("exclusive", (int64_t)o->exclusive, 0, PZ_EXCLUSIVE_CLASS, err);
  if (status == PZ_OK) status = pz_need_range("solver", (int64_t)o->solver, 0, PZ_SOLVER_ILP, err);
  if (status == PZ_OK && !(o->seconds >= 0 && o->seconds <= 1e6))
    status = pz_fail(err, PZ_BAD_USE, "seconds %g; accepted: 0 to 1e6", o->seconds);
  return status;
}

enum pz_status pz_schedule_problem(const struct pz_problem *p, const struct pz_schedule_options *o,
                                   struct pz_arena *work, struct pz_arena *arena,
                                   struct pz_layer_schedule *s, struct pz_error *err) {
  struct pz_techniques techniques = pz_techniques_all;
  struct pz_solve_options how = {.solver = o->solver,
                                 .steps = o->steps == PZ_SCHEDULE_STEPS ? 0 : o->steps,
                                 .seconds = o->seconds,
                                 .techniques = &techniques};
  struct pz_schedule schedule;
  enum pz_status status = o->disable ? pz_techniques_disable(&techniques, o->disable, err) : PZ_OK;
  if (status == PZ_OK && o->lp) status = pz_ilp_write(p, o->lp, err);
  if (status == PZ_OK) status = pz_schedule_solve(p, &how, work, &schedule, err);
  return status == PZ_OK ? pz_layer_schedule_tell(p, &schedule, true, o->views, arena, s, err)
                         : status;
}

enum pz_status pz_schedule_layer(struct pz_cost *cost, const struct pz_layer *layer,
                                 enum pz_direction direction,
                                 const struct pz_schedule_options *options,
                                 struct pz_layer_schedule **out, struct pz_error *err) {
  struct pz_schedule_options o;
  struct pz_problem problem;
  struct pz_arena work, *arena;
  void *made = NULL;
  enum pz_status status = pz_schedule_options_take(options, &o, err);
  if (status == PZ_OK) status = pz_need_each(err, {cost, "cost"}, {layer, "layer"}, {out, "out"});
  if (status == PZ_OK) status = pz_need_range("direction", (int64_t)direction, 0, PZ_BACKWARD, err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "a schedule", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_layer_schedule *s = made;
  struct pz_layer_options kind = {o.modes, o.exclusive};
  *s = (struct pz_layer_schedule){
      .layer = layer->name, .count = layer->count, .direction = direction};
  pz_arena_init(&work, NULL);
  status = pz_layer_problem(cost, &layer->ops[direction], &kind, &work, &problem, err);
  if (status == PZ_OK) status = pz_schedule_problem(&problem, &o, &work, arena, s, err);
  pz_arena_release(&work);
  return pz_held_give(status, s, out);
}

enum pz_status pz_schedule_instance(const char *name, const char *text, size_t bytes,
                                    const struct pz_schedule_options *options,
                                    struct pz_layer_schedule **out, struct pz_error *err) {
  struct pz_schedule_options o;
  struct pz_problem problem;
  struct pz_arena work, *arena;
  void *made = NULL;
  enum pz_status status = pz_schedule_options_take(options, &o, err);
  if (status == PZ_OK) status = pz_need_each(err, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "a schedule", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_layer_schedule *s = made;
  s->count = 1;
  s->model = pz_arena_strdup(arena, name);
  pz_arena_init(&work, NULL);
  status = s->model ? pz_instance_parse(name, text, bytes, o.exclusive, &work, &problem, err)
                    : no_memory(err);
  if (status == PZ_OK) status = pz_schedule_problem(&problem, &o, &work, arena, s, err);
  pz_arena_release(&work);
  return pz_held_give(status, s, out);
}

void pz_layer_schedule_free(struct pz_layer_schedule *s) { pz_held_free(s); }
