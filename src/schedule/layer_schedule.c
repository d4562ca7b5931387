/* The schedule of a layer for programs and reports. */
#include <stdlib.h>

#include "core/alloc.h"
#include "core/status.h"
#include "schedule/model/layer.h"
#include "schedule/model/schedule.h"
#include "schedule/solve.h"

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for a schedule");
}

static enum pz_status copy_operators(const struct pz_problem *p, const struct pz_slot *slots,
                                     struct pz_arena *arena, struct pz_layer_schedule *out,
                                     struct pz_error *err) {
  out->operators = pz_arena_alloc(arena, p->n, sizeof *out->operators);
  if (!out->operators) return no_memory(err);
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_task *task = &p->tasks[i];
    if (task->op_class == PZ_CLASS_NONE) continue;
    struct pz_scheduled_operator o = {
        .name = pz_arena_strdup(arena, task->name),
        .op_class = task->op_class,
        .tensor_cores = pz_task_use(task, slots[i].mode, PZ_TENSOR_CORES),
        .vector_cores = pz_task_use(task, slots[i].mode, PZ_VECTOR_CORES),
        .start_s = slots[i].start,
        .end_s = slots[i].end};
    if (!o.name) return no_memory(err);
    out->operators[out->n_operators++] = o;
  }
  return PZ_OK;
}

enum pz_status pz_layer_schedule_tell(const struct pz_layer *layer, enum pz_direction direction,
                                      const struct pz_problem *problem,
                                      const struct pz_schedule *schedule, struct pz_arena *arena,
                                      struct pz_layer_schedule *out, struct pz_error *err) {
  *out = (struct pz_layer_schedule){.layer = pz_arena_strdup(arena, layer->name),
                                    .count = layer->count,
                                    .direction = direction,
                                    .makespan_s = schedule->makespan,
                                    .lower_bound_s = schedule->lower_bound,
                                    .optimal = schedule->outcome == PZ_OUTCOME_OPTIMAL};
  if (!out->layer) return no_memory(err);
  pz_schedule_use(problem, schedule->slots, schedule->makespan, out->use);
  return copy_operators(problem, schedule->slots, arena, out, err);
}

/* ---- for programs --------------------------------------------------------------------------- */

struct pz_schedule_options pz_schedule_options_default(void) {
  return (struct pz_schedule_options){
      .size = sizeof(struct pz_schedule_options), .steps = PZ_LAYER_STEPS, .modes = PZ_MODES_ALL};
}

/* A schedule with the memory it lies in. */
struct owned {
  struct pz_layer_schedule s; /* first: its address is the owner's */
  struct pz_arena arena;
};

static enum pz_status solve(struct pz_cost *cost, const struct pz_layer *layer,
                            enum pz_direction direction, const struct pz_schedule_options *o,
                            struct owned *out, struct pz_error *err) {
  struct pz_layer_options kind = {o->modes, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options how = {.steps = o->steps};
  struct pz_problem problem;
  struct pz_schedule schedule;
  struct pz_arena work;
  pz_arena_init(&work, NULL);
  enum pz_status status =
      pz_layer_problem(cost, &layer->ops[direction], &kind, &work, &problem, err);
  if (status == PZ_OK) status = pz_schedule_solve(&problem, &how, &work, &schedule, err);
  if (status == PZ_OK)
    status =
        pz_layer_schedule_tell(layer, direction, &problem, &schedule, &out->arena, &out->s, err);
  pz_arena_release(&work);
  return status;
}

enum pz_status pz_schedule_layer(struct pz_cost *cost, const struct pz_layer *layer,
                                 enum pz_direction direction,
                                 const struct pz_schedule_options *options,
                                 struct pz_layer_schedule **out, struct pz_error *err) {
  struct pz_schedule_options o = pz_schedule_options_default();
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_schedule_options_default", err);
  if (status == PZ_OK) status = pz_need(cost, "cost", err);
  if (status == PZ_OK) status = pz_need(layer, "layer", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_need_range("direction", (int64_t)direction, 0, PZ_BACKWARD, err);
  if (status == PZ_OK) status = pz_need_range("steps", o.steps, 1, INT64_MAX, err);
  if (status == PZ_OK) status = pz_need_range("modes", (int64_t)o.modes, 0, PZ_MODES_TWO, err);
  struct owned *made = status == PZ_OK ? pz_calloc(1, sizeof *made) : NULL;
  if (status != PZ_OK) return status;
  if (!made) return no_memory(err);
  pz_arena_init(&made->arena, NULL);
  status = solve(cost, layer, direction, &o, made, err);
  if (status == PZ_OK)
    *out = &made->s;
  else
    pz_layer_schedule_free(&made->s);
  return status;
}

void pz_layer_schedule_free(struct pz_layer_schedule *s) {
  struct owned *own = (struct owned *)(void *)s;
  if (!own) return;
  pz_arena_release(&own->arena);
  pz_free(own);
}
