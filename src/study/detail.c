/* Makes the data of a report.  pz_detail_build() lists all chips with their statuses (pz_detail_list_chips), chooses the
 * evaluated chips to show (show_best_chips, show_front), lists the plans of these chips for all models (list_plans), makes
 * every plan again with the resources that its most frequent layer uses (describe_plan, one task for each plan), and
 * schedules every layer on the common chip (schedule_model). */
#include "study/detail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/vec.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"
#include "study/tasks.h"

const char *const pz_chip_status_names[PZ_CHIP_STATUSES] = {"tables", "schedules", "evaluated"};

struct detail_maker {
  struct pz_study *s;
  struct pz_result *r;
  struct pz_vec shown, plans; /* struct pz_shown_chip, struct shown_plan */
};

struct shown_plan {
  struct pz_chip_plan p;
  struct pz_point point;
};

/* ---- chips ---------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b) {
  const struct pz_result_chip *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

/* Sets the status of every chip of a closed box. */
static void set_box_statuses(const struct pz_study *s, const struct pz_result *r,
                             const struct pz_closed_box *b, struct pz_chip_status *list) {
  struct pz_point p = pz_box_point(&b->box);
  struct pz_chip_status status = {PZ_CHIP_EXCLUDED_BY_TABLES, b->bound, b->bound};
  if (b->end == PZ_BOX_PARTLY) status.kind = PZ_CHIP_EXCLUDED_BY_SCHEDULES;
  if (b->end == PZ_BOX_EVALUATED) {
    status.kind = PZ_CHIP_EVALUATED;
    status.value = b->value;
  }
  for (;;) {
    const struct pz_result_chip *chip = pz_result_chip(r, pz_space_id(&s->space, &p));
    if (chip) list[chip - r->chips] = status;
    int axis = 0; /* the next point of the box, axis 0 fastest */
    while (axis < PZ_AXES && p.at[axis] == b->box.hi[axis]) {
      p.at[axis] = b->box.lo[axis];
      axis++;
    }
    if (axis == PZ_AXES) return;
    p.at[axis]++;
  }
}

void pz_detail_list_chips(struct pz_call *call, const struct pz_study *s, struct pz_result *r) {
  struct pz_call own = pz_call_in(call, r->arena);
  struct pz_result_chip *chips = pz_alloc(&own, s->n_points, sizeof *chips);
  for (uint32_t i = 0; i < s->n_points; i++) {
    struct pz_chip chip;
    pz_space_chip(&s->space, &s->points[i], &chip);
    struct pz_taken taken = pz_chip_taken(&chip);
    chips[i] = (struct pz_result_chip){.id = pz_space_id(&s->space, &s->points[i]),
                                       .name = pz_copy_text(&own, chip.name),
                                       .tensor_cores = chip.tensor.cores,
                                       .rows = chip.tensor.rows,
                                       .cols = chip.tensor.cols,
                                       .vector_cores = chip.vector.cores,
                                       .lanes = chip.vector.lanes,
                                       .glb_bytes = chip.glb_bytes,
                                       .area_mm2 = taken.mm2,
                                       .watts = taken.watts};
  }
  qsort(chips, s->n_points, sizeof *chips, compare_ids);
  r->chips = chips;
  r->n_chips = s->n_points;
  for (uint32_t run = 0; run < s->n_runs; run++) {
    const struct pz_objective_run *c = &s->objective_run[run];
    struct pz_chip_status *list = pz_alloc(&own, r->n_chips, sizeof *list);
    for (uint32_t i = 0; i < c->n_boxes; i++)
      if (c->boxes[i].end != PZ_BOX_INFEASIBLE) set_box_statuses(s, r, &c->boxes[i], list);
    r->answers[run].status = list;
  }
}

/* ---- chips to show -------------------------------------------------------------------------- */

static int compare_shown(const void *a, const void *b) {
  const struct pz_shown_chip *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return (x->chip_id > y->chip_id) - (x->chip_id < y->chip_id);
}

/* Adds the evaluated chips of an objective run, the best first, at most PZ_MOST_SHOWN. */
static void show_best_chips(struct pz_call *call, struct detail_maker *m, uint32_t run) {
  const struct pz_chip_status *status = m->r->answers[run].status;
  uint32_t first = m->shown.n;
  for (uint32_t i = 0; i < m->r->n_chips; i++) {
    struct pz_shown_chip c = {run, m->r->chips[i].id, status[i].value, status[i].bound, true};
    if (status[i].kind == PZ_CHIP_EVALUATED && c.value > 0) pz_append(call, &m->shown, &c);
  }
  if (m->shown.n > first)
    qsort(pz_vec_at(&m->shown, struct pz_shown_chip, first), m->shown.n - first,
          sizeof(struct pz_shown_chip), compare_shown);
  if (m->shown.n > first + PZ_MOST_SHOWN) m->shown.n = first + PZ_MOST_SHOWN;
}

static bool is_shown(const struct detail_maker *m, uint32_t run, uint64_t id) {
  for (uint32_t i = 0; i < m->shown.n; i++) {
    const struct pz_shown_chip *c = pz_vec_at(&m->shown, struct pz_shown_chip, i);
    if (c->answer == run && c->chip_id == id) return true;
  }
  return false;
}

/* Adds the chips of the Pareto front, which were evaluated outside of the objective run.  Values of the front are
 * geometric means, which can be compared with no other objective. */
static void show_front(struct pz_call *call, struct detail_maker *m) {
  const struct pz_result *r = m->r;
  uint32_t common = r->n_answers - 1;
  if (!r->front || m->s->o.objective != PZ_OBJECTIVE_GEOMEAN) return;
  for (uint32_t i = 0; i < r->n_chips; i++)
    for (uint32_t k = 0; k < r->front->n_points; k++) {
      const struct pz_result_front_chip *f = &r->front->points[k];
      if (strcmp(r->chips[i].name, f->chip) != 0) continue;
      if (is_shown(m, common, r->chips[i].id)) continue;
      struct pz_shown_chip c = {common, r->chips[i].id, f->objective, f->objective, false};
      pz_append(call, &m->shown, &c);
    }
}

/* ---- their plans ---------------------------------------------------------------------------- */

static int compare_plans(const void *a, const void *b) {
  const struct shown_plan *x = a, *y = b;
  if (x->p.chip_id != y->p.chip_id) return x->p.chip_id < y->p.chip_id ? -1 : 1;
  return (x->p.model > y->p.model) - (x->p.model < y->p.model);
}

/* Lists each shown chip with each model of its objective run, once, if the model fits. */
static void list_plans(struct pz_call *call, struct detail_maker *m) {
  const struct pz_study *s = m->s;
  for (uint32_t i = 0; i < m->shown.n; i++) {
    const struct pz_shown_chip *c = pz_vec_at(&m->shown, struct pz_shown_chip, i);
    const struct pz_objective *o = &s->objective_run[c->answer].objective;
    struct pz_point point = pz_space_point(&s->space, c->chip_id);
    for (uint32_t k = 0; k < o->n; k++) {
      struct shown_plan plan = {.p = {.chip_id = c->chip_id, .model = o->models[k]},
                                .point = point};
      struct pz_evaluation e;
      /* The rounds from which a run is restored do not contain the chips of the front. */
      if (!pz_search_known(s->search, &point, o->models[k], &e))
        pz_must(call, pz_search_evaluate(s->search, 0, &point, o->models[k], PZ_EFFORT_QUICK, &e,
                                         pz_call_error(call)));
      if (e.plan.n_stages) pz_append(call, &m->plans, &plan);
    }
  }
  struct shown_plan *list = m->plans.items;
  uint32_t n = 0;
  if (m->plans.n) qsort(list, m->plans.n, sizeof *list, compare_plans);
  for (uint32_t i = 0; i < m->plans.n; i++)
    if (!n || compare_plans(&list[n - 1], &list[i]) != 0) list[n++] = list[i];
  m->plans.n = n;
}

struct layer_schedule {
  struct pz_problem problem;
  struct pz_schedule schedule;
};

/* Schedules a layer on the chip of the evaluator, as the search does: with little effort first, and with more if the
 * schedule is not proved optimal. */
static void schedule_layer(struct pz_call *call, struct pz_original_worker *e,
                           const struct pz_ops *ops, enum pz_effort effort,
                           struct layer_schedule *out) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options quick = {.steps = e->task->o.quick_steps};
  struct pz_solve_options full = {.steps = e->task->o.steps};
  out->problem = pz_layer_problem_build(call, &e->cost, ops, &kind);
  out->schedule = pz_schedule_find(call, &out->problem, &quick);
  if (effort < PZ_EFFORT_FULL || out->schedule.outcome == PZ_OUTCOME_OPTIMAL) return;
  struct pz_schedule more = pz_schedule_find(call, &out->problem, &full);
  double bound = out->schedule.lower_bound;
  if (more.makespan < out->schedule.makespan) out->schedule = more;
  if (more.lower_bound > bound) bound = more.lower_bound;
  out->schedule.lower_bound = bound;
  if (bound >= out->schedule.makespan) out->schedule.outcome = PZ_OUTCOME_OPTIMAL;
}

/* The use of each resource by the most frequent layer of a model, averaged over its forward and backward pass. */
static void measure_layer_use(struct pz_call *call, struct pz_original_worker *e, uint32_t variant,
                              double *use) {
  const struct pz_workload *w = e->task->portfolio->variants[variant].w;
  const struct pz_layer *layer = &w->layers[0];
  double total = 0, share[PZ_RESOURCES];
  for (uint32_t i = 1; i < w->n_layers; i++)
    if (w->layers[i].count > layer->count) layer = &w->layers[i];
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct layer_schedule s;
    schedule_layer(call, e, &layer->ops[d], PZ_EFFORT_QUICK, &s);
    pz_schedule_use(&s.problem, s.schedule.slots, s.schedule.makespan, share);
    total += s.schedule.makespan;
    for (int r = 0; r < PZ_RESOURCES; r++) use[r] += share[r] * s.schedule.makespan;
  }
  for (int r = 0; r < PZ_RESOURCES && total > 0; r++) use[r] /= total;
}

struct plan_description {
  struct detail_maker *m;
  struct shown_plan *plan;
  unsigned worker;
};

static void remake_plan(struct pz_call *call, void *ctx) {
  struct plan_description *x = ctx;
  const struct pz_study *s = x->m->s;
  struct pz_original_worker *e = pz_original_worker(s->by, x->worker);
  struct pz_chip_plan *p = &x->plan->p;
  struct pz_evaluation known;
  struct pz_partition made;
  struct pz_chip chip;
  pz_space_chip(&s->space, &x->plan->point, &chip);
  if (!pz_search_known(s->search, &x->plan->point, p->model, &known))
    pz_raise(call, PZ_INTERNAL, "the chip was not evaluated");
  pz_original_restore_plan(call, e, &chip, pz_task_most_hbm(&s->task), &known, &made);
  p->samples_per_s = (double)s->o.batch / known.step_s;
  p->pp = made.pp;
  p->dp = made.dp;
  p->tp = made.tp;
  p->mbs = made.mbs;
  p->recompute = made.recompute;
  p->parts = made.parts;
  measure_layer_use(call, e, known.plan.variant, p->use);
}

/* Task i: makes plan i again.  If that contradicts the evaluation, the saved run was changed, and its input is bad. */
static void describe_plan(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct detail_maker *m = ctx;
  struct plan_description x = {m, pz_vec_at(&m->plans, struct shown_plan, i), worker};
  struct pz_error error = {0};
  enum pz_status status = pz_border(remake_plan, &x, &error);
  if (status == PZ_INTERNAL) error.status = PZ_BAD_INPUT;
  if (status != PZ_OK) pz_raise_again(call, &error);
}

/* ---- schedules of the common chip ----------------------------------------------------------- */

/* Appends the schedules of all layers of a model, forward and backward. */
static void schedule_model(struct pz_call *call, struct detail_maker *m, uint32_t model,
                           struct pz_vec *out) {
  struct pz_study *s = m->s;
  const struct pz_objective_run *common = &s->objective_run[s->n_runs - 1];
  struct pz_original_worker *e = pz_original_worker(s->by, 0);
  struct pz_call own = pz_call_in(call, m->r->arena);
  struct pz_evaluation known;
  if (!pz_search_known(s->search, &common->best, model, &known))
    pz_raise(call, PZ_BAD_INPUT, "the run does not have its best chip's plans");
  struct pz_evaluation v = pz_original_evaluate(
      call, e, &common->best, model, pz_result_best(m->r)->hbm_gib, known.effort, HUGE_VAL);
  const struct pz_workload *w = s->portfolio.variants[v.plan.variant].w;
  struct pz_call work = pz_scratch(call);
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
      struct layer_schedule solved;
      struct pz_layer_schedule row = {.model = m->r->inputs.models[model].name,
                                      .layer = w->layers[i].name,
                                      .count = w->layers[i].count,
                                      .direction = d};
      schedule_layer(&work, e, &w->layers[i].ops[d], known.effort, &solved);
      pz_layer_schedule_describe(&own, &solved.problem, &solved.schedule, true, false, &row);
      pz_append(call, out, &row);
    }
  pz_scratch_end(&work);
}

/* ---- the detail ----------------------------------------------------------------------------- */

void pz_detail_build(struct pz_call *call, struct pz_study *s, struct pz_watch watch,
                     struct pz_result *r) {
  struct pz_call own = pz_call_in(call, r->arena);
  struct detail_maker m = {.s = s, .r = r};
  struct pz_vec schedules;
  pz_vec_init(&m.shown, r->arena, sizeof(struct pz_shown_chip));
  pz_vec_init(&m.plans, r->arena, sizeof(struct shown_plan));
  pz_vec_init(&schedules, r->arena, sizeof(struct pz_layer_schedule));
  pz_study_phase_begin(call, watch.progress, "details", "models", s->portfolio.n_models);
  pz_detail_list_chips(call, s, r);
  for (uint32_t run = 0; run < s->n_runs; run++) show_best_chips(call, &m, run);
  show_front(call, &m);
  list_plans(call, &m);
  struct pz_study_tasks tasks = {.run = describe_plan, .ctx = &m};
  pz_study_run_tasks(call, s->search, m.plans.n, &tasks);
  for (uint32_t i = 0; i < s->portfolio.n_models; i++) {
    if (watch.stop && atomic_load(watch.stop)) pz_raise(call, PZ_STOPPED, "stopped");
    schedule_model(call, &m, i, &schedules);
    pz_progress_add(watch.progress, 1);
  }
  pz_study_phase_end(call, watch.progress);

  struct pz_result_detail *d = pz_alloc(&own, 1, sizeof *d);
  struct pz_chip_plan *plans = pz_alloc(&own, m.plans.n, sizeof *plans);
  for (uint32_t i = 0; i < m.plans.n; i++) plans[i] = pz_vec_at(&m.plans, struct shown_plan, i)->p;
  *d = (struct pz_result_detail){.shown = m.shown.items,
                                 .n_shown = m.shown.n,
                                 .plans = plans,
                                 .n_plans = m.plans.n,
                                 .schedules = schedules.items,
                                 .n_schedules = schedules.n};
  r->detail = d;
}
