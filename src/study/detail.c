#include "study/detail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/vec.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"

const char *const pz_chip_status_names[PZ_CHIP_STATUSES] = {"tables", "schedules", "evaluated"};

struct maker {
  struct pz_study *s;
  struct pz_result *r;
  struct pz_vec shown, plans; /* struct pz_shown_chip, struct plan */
  struct pz_error *err;
};

/* A plan to be told, and where its chip and evaluation are. */
struct plan {
  struct pz_chip_plan p;
  struct pz_point point;
};

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the report's data");
}

/* ---- chips ---------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
  const struct pz_result_chip *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

static bool set_chip(const struct pz_study *s, const struct pz_point *p, struct pz_arena *arena,
                     struct pz_result_chip *out) {
  struct pz_chip c;
  pz_space_chip(&s->space, p, &c);
  struct pz_taken taken = pz_chip_taken(&c);
  *out = (struct pz_result_chip){.id = pz_space_id(&s->space, p),
                                 .name = pz_arena_strdup(arena, c.name),
                                 .tensor_cores = c.tensor.cores,
                                 .rows = c.tensor.rows,
                                 .cols = c.tensor.cols,
                                 .vector_cores = c.vector.cores,
                                 .lanes = c.vector.lanes,
                                 .glb_bytes = c.glb_bytes,
                                 .area_mm2 = taken.mm2,
                                 .watts = taken.watts};
  return out->name;
}

/* Every chip of a box, as the box left the search. */
static void set_box(const struct pz_study *s, const struct pz_result *r,
                    const struct pz_closed_box *b, struct pz_chip_status *list) {
  struct pz_point p = pz_box_point(&b->box);
  enum pz_chip_status_kind kind = b->end == PZ_BOX_EVALUATED ? PZ_CHIP_EVALUATED
                                  : b->end == PZ_BOX_PARTLY  ? PZ_CHIP_EXCLUDED_BY_SCHEDULES
                                                             : PZ_CHIP_EXCLUDED_BY_TABLES;
  for (;;) {
    const struct pz_result_chip *c = pz_result_chip(r, pz_space_id(&s->space, &p));
    if (c)
      list[c - r->chips] =
          (struct pz_chip_status){kind, kind == PZ_CHIP_EVALUATED ? b->value : b->bound, b->bound};
    int a = 0;
    while (a < PZ_AXES && p.at[a] == b->box.hi[a]) {
      p.at[a] = b->box.lo[a];
      a++;
    }
    if (a == PZ_AXES) return;
    p.at[a]++;
  }
}

static bool set_statuses(const struct pz_study *s, uint32_t run, struct pz_result *r) {
  const struct pz_objective_run *c = &s->objective_run[run];
  struct pz_chip_status *list = pz_arena_alloc(r->arena, r->n_chips, sizeof *list);
  r->answers[run].status = list;
  for (uint32_t i = 0; list && i < c->n_boxes; i++)
    if (c->boxes[i].end != PZ_BOX_INFEASIBLE) set_box(s, r, &c->boxes[i], list);
  return list;
}

enum pz_status pz_detail_chips(const struct pz_study *s, struct pz_result *r,
                               struct pz_error *err) {
  struct pz_result_chip *chips = pz_arena_alloc(r->arena, s->n_points, sizeof *chips);
  bool good = chips;
  for (uint32_t i = 0; i < s->n_points && good; i++)
    good = set_chip(s, &s->points[i], r->arena, &chips[i]);
  if (good && s->n_points) qsort(chips, s->n_points, sizeof *chips, by_id);
  r->chips = chips;
  r->n_chips = s->n_points;
  for (uint32_t i = 0; i < s->n_runs && good; i++) good = set_statuses(s, i, r);
  return good ? PZ_OK : no_memory(err);
}

/* ---- which are shown ------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
  const struct pz_shown_chip *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return (x->chip_id > y->chip_id) - (x->chip_id < y->chip_id);
}

/* The evaluated chips of an objective run, the best first. */
static bool show_run(struct maker *m, uint32_t run) {
  const struct pz_chip_status *status = m->r->answers[run].status;
  uint32_t first = m->shown.n;
  for (uint32_t i = 0; i < m->r->n_chips; i++) {
    struct pz_shown_chip c = {run, m->r->chips[i].id, status[i].value, status[i].bound, true};
    if (status[i].kind != PZ_CHIP_EVALUATED || !(c.value > 0)) continue;
    if (!pz_vec_push(&m->shown, &c)) return false;
  }
  if (m->shown.n > first)
    qsort(pz_vec_at(&m->shown, struct pz_shown_chip, first), m->shown.n - first,
          sizeof(struct pz_shown_chip), by_value);
  if (m->shown.n > first + PZ_MOST_SHOWN) m->shown.n = first + PZ_MOST_SHOWN;
  return true;
}

static bool is_shown(const struct maker *m, uint32_t run, uint64_t id) {
  for (uint32_t i = 0; i < m->shown.n; i++) {
    const struct pz_shown_chip *c = pz_vec_at(&m->shown, struct pz_shown_chip, i);
    if (c->answer == run && c->chip_id == id) return true;
  }
  return false;
}

/* The front that a search was asked for: its chips were evaluated outside of the objective run.  It
 * is of geometric means, and comparable with nothing else. */
static bool show_front(struct maker *m) {
  const struct pz_result *r = m->r;
  uint32_t common = r->n_answers - 1;
  if (!r->front || m->s->o.objective != PZ_OBJECTIVE_GEOMEAN) return true;
  for (uint32_t i = 0; i < r->n_chips; i++)
    for (uint32_t k = 0; k < r->front->n_points; k++) {
      const struct pz_result_front_chip *f = &r->front->points[k];
      if (strcmp(r->chips[i].name, f->chip) != 0) continue;
      if (is_shown(m, common, r->chips[i].id)) continue;
      struct pz_shown_chip c = {common, r->chips[i].id, f->objective, f->objective, false};
      if (!pz_vec_push(&m->shown, &c)) return false;
    }
  return true;
}

/* ---- their plans ---------------------------------------------------------------------------- */

static int by_chip_and_model(const void *a, const void *b) {
  const struct plan *x = a, *y = b;
  if (x->p.chip_id != y->p.chip_id) return x->p.chip_id < y->p.chip_id ? -1 : 1;
  return (x->p.model > y->p.model) - (x->p.model < y->p.model);
}

/* What is known of these chips for the models of their objective runs, each once. */
static enum pz_status list_plans(struct maker *m) {
  const struct pz_study *s = m->s;
  for (uint32_t i = 0; i < m->shown.n; i++) {
    const struct pz_shown_chip *c = pz_vec_at(&m->shown, struct pz_shown_chip, i);
    const struct pz_objective *o = &s->objective_run[c->answer].objective;
    struct pz_point point = pz_space_point(&s->space, c->chip_id);
    for (uint32_t k = 0; k < o->n; k++) {
      struct plan plan = {.p = {.chip_id = c->chip_id, .model = o->models[k]}, .point = point};
      struct pz_evaluation e;
      enum pz_status status = PZ_OK;
      /* chips of the front are not among the rounds that a run is restored from */
      if (!pz_search_known(s->search, &point, o->models[k], &e))
        status =
            pz_search_evaluate(s->search, 0, &point, o->models[k], PZ_EFFORT_QUICK, &e, m->err);
      if (status != PZ_OK) return status;
      if (e.plan.n_stages && !pz_vec_push(&m->plans, &plan)) return no_memory(m->err);
    }
  }
  struct plan *list = m->plans.items;
  uint32_t n = 0;
  if (m->plans.n) qsort(list, m->plans.n, sizeof *list, by_chip_and_model);
  for (uint32_t i = 0; i < m->plans.n; i++)
    if (!n || by_chip_and_model(&list[n - 1], &list[i]) != 0) list[n++] = list[i];
  m->plans.n = n;
  return PZ_OK;
}

/* A solved schedule of a layer. */
struct layer_schedule {
  struct pz_problem problem;
  struct pz_schedule schedule;
};

/* As the search does: a first try, then a harder one where that left it open.  The evaluator stands
 * on the chip. */
static enum pz_status schedule_layer(struct pz_original_worker *e, const struct pz_ops *ops,
                                     enum pz_effort effort, struct pz_arena *arena,
                                     struct layer_schedule *out, struct pz_error *err) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options quick = {.steps = e->task->o.quick_steps},
                          full = {.steps = e->task->o.steps};
  struct pz_schedule more;
  enum pz_status status = pz_layer_problem(&e->cost, ops, &kind, arena, &out->problem, err);
  if (status == PZ_OK)
    status = pz_schedule_solve(&out->problem, &quick, arena, &out->schedule, err);
  if (status != PZ_OK || effort < PZ_EFFORT_FULL || out->schedule.outcome == PZ_OUTCOME_OPTIMAL)
    return status;
  status = pz_schedule_solve(&out->problem, &full, arena, &more, err);
  if (status != PZ_OK) return status;
  double bound = out->schedule.lower_bound;
  if (more.makespan < out->schedule.makespan) out->schedule = more;
  if (more.lower_bound > bound) bound = more.lower_bound;
  out->schedule.lower_bound = bound;
  if (bound >= out->schedule.makespan) out->schedule.outcome = PZ_OUTCOME_OPTIMAL;
  return PZ_OK;
}

/* The layer that stands most often in a model. */
static const struct pz_layer *repeated_layer(const struct pz_workload *w) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < w->n_layers; i++)
    if (w->layers[i].count > w->layers[most].count) most = i;
  return &w->layers[most];
}

static enum pz_status use_of_layer(struct pz_original_worker *e, uint32_t variant, double *use,
                                   struct pz_arena *arena, struct pz_error *err) {
  const struct pz_layer *l = repeated_layer(e->task->portfolio->variants[variant].w);
  double total = 0, share[PZ_RESOURCES];
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct layer_schedule s;
    enum pz_status status = schedule_layer(e, &l->ops[d], PZ_EFFORT_QUICK, arena, &s, err);
    if (status != PZ_OK) return status;
    pz_schedule_use(&s.problem, s.schedule.slots, s.schedule.makespan, share);
    total += s.schedule.makespan;
    for (int r = 0; r < PZ_RESOURCES; r++) use[r] += share[r] * s.schedule.makespan;
  }
  for (int r = 0; r < PZ_RESOURCES && total > 0; r++) use[r] /= total;
  return PZ_OK;
}

static enum pz_status make_plan(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct maker *m = ctx;
  struct plan *plan = pz_vec_at(&m->plans, struct plan, i);
  const struct pz_study *s = m->s;
  struct pz_original_worker *e = pz_original_worker(s->by, worker);
  struct pz_evaluation v;
  struct pz_partition made;
  struct pz_chip chip;
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  pz_space_chip(&s->space, &plan->point, &chip);
  if (!pz_search_known(s->search, &plan->point, plan->p.model, &v))
    return pz_fail(err, PZ_INTERNAL, "the chip was not evaluated");
  enum pz_status status =
      pz_original_plan(e, &chip, pz_task_most_hbm(&s->task), &v, &arena, &made, err);
  if (status == PZ_OK) {
    plan->p.samples_per_s = (double)s->o.batch / v.step_s;
    plan->p.pp = made.pp;
    plan->p.dp = made.dp;
    plan->p.tp = made.tp;
    plan->p.mbs = made.mbs;
    plan->p.recompute = made.recompute;
    plan->p.parts = made.parts;
    status = use_of_layer(e, v.plan.variant, plan->p.use, &arena, err);
  }
  pz_arena_release(&arena);
  if (status != PZ_INTERNAL) return status;
  err->status = PZ_BAD_INPUT; /* the plan is not the recorded one: the run has been changed */
  return PZ_BAD_INPUT;
}

/* ---- schedules of the common chip ----------------------------------------------------------- */

static enum pz_status schedule_model(struct maker *m, uint32_t model, struct pz_vec *out) {
  struct pz_study *s = m->s;
  const struct pz_objective_run *c = &s->objective_run[s->n_runs - 1];
  struct pz_original_worker *e = pz_original_worker(s->by, 0);
  struct pz_evaluation v, most;
  struct pz_arena arena;
  if (!pz_search_known(s->search, &c->best, model, &most))
    return pz_fail(m->err, PZ_BAD_INPUT, "the run does not have its best chip's plans");
  enum pz_status status = pz_original_value(e, &c->best, model, pz_result_best(m->r)->hbm_gib,
                                            most.effort, HUGE_VAL, &v, m->err);
  const struct pz_workload *w = s->portfolio.variants[status == PZ_OK ? v.plan.variant : 0].w;
  pz_arena_init(&arena, NULL);
  for (uint32_t i = 0; i < w->n_layers && status == PZ_OK; i++)
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD && status == PZ_OK; d++) {
      struct layer_schedule one;
      struct pz_layer_schedule told = {.model = m->r->inputs.models[model].name,
                                       .layer = w->layers[i].name,
                                       .count = w->layers[i].count,
                                       .direction = d};
      status = schedule_layer(e, &w->layers[i].ops[d], most.effort, &arena, &one, m->err);
      if (status == PZ_OK)
        status = pz_layer_schedule_tell(&one.problem, &one.schedule, true, false, m->r->arena,
                                        &told, m->err);
      if (status == PZ_OK && !pz_vec_push(out, &told)) status = no_memory(m->err);
    }
  pz_arena_release(&arena);
  return status;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static enum pz_status choose_chips(struct maker *m) {
  enum pz_status status = pz_detail_chips(m->s, m->r, m->err);
  bool good = status == PZ_OK;
  for (uint32_t i = 0; i < m->s->n_runs && good; i++) good = show_run(m, i);
  if (status != PZ_OK) return status;
  return good && show_front(m) ? list_plans(m) : no_memory(m->err);
}

static enum pz_status finish(const struct maker *m, const struct pz_vec *schedules) {
  struct pz_result_detail *d = pz_arena_alloc(m->r->arena, 1, sizeof *d);
  struct pz_chip_plan *plans = pz_arena_alloc(m->r->arena, m->plans.n, sizeof *plans);
  if (!d || !plans) return no_memory(m->err);
  for (uint32_t i = 0; i < m->plans.n; i++) plans[i] = pz_vec_at(&m->plans, struct plan, i)->p;
  *d = (struct pz_result_detail){m->shown.items, m->shown.n,       plans,
                                 m->plans.n,     schedules->items, schedules->n};
  m->r->detail = d;
  return PZ_OK;
}

enum pz_status pz_detail_make(struct pz_study *s, struct pz_watch watch, struct pz_result *r,
                              struct pz_error *err) {
  struct maker m = {.s = s, .r = r, .err = err};
  struct pz_vec schedules;
  pz_vec_init(&m.shown, r->arena, sizeof(struct pz_shown_chip));
  pz_vec_init(&m.plans, r->arena, sizeof(struct plan));
  pz_vec_init(&schedules, r->arena, sizeof(struct pz_layer_schedule));
  pz_progress_next(watch.progress, "details", "models", s->portfolio.n_models);
  enum pz_status status = choose_chips(&m);
  struct pz_search_work work = {.fn = make_plan, .ctx = &m};
  if (status == PZ_OK) status = pz_search_deal(s->search, m.plans.n, &work, err);
  for (uint32_t i = 0; i < s->portfolio.n_models && status == PZ_OK; i++) {
    if (watch.stop && atomic_load(watch.stop)) status = pz_fail(err, PZ_STOPPED, "stopped");
    if (status == PZ_OK) status = schedule_model(&m, i, &schedules);
    pz_progress_add(watch.progress, 1);
  }
  pz_progress_finish(watch.progress, NULL);
  return status == PZ_OK ? finish(&m, &schedules) : status;
}
