/* Chips: those that were evaluated, one by one with their plans and what limits them; those that
 * bounds excluded as counts in cells of area and bound. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/plan_table.h"
#include "report/report_data.h"
#include "report/result.h"
#include "schedule/model/use.h"

/* Of a objective run, the best; the others are told with the excluded ones.  Only searches that exclude
 * nothing have more. */
enum { MOST_POINTS = 250 };
enum { CELLS = 56 }; /* each way */

/* ---- what limits a model on a chip ---------------------------------------------------------- */

enum limit {
  LIMIT_TENSOR,
  LIMIT_VECTOR,
  LIMIT_HBM,
  LIMIT_GLB,
  LIMIT_TRANSFERS,
  LIMIT_EXCHANGE,
  LIMIT_BUBBLE,
  LIMITS
};

static const char *const limit_names[LIMITS] = {"tensor cores",
                                                "vector cores",
                                                "HBM bandwidth",
                                                "global-buffer bandwidth",
                                                "transfers and collectives",
                                                "gradient all-reduce",
                                                "pipeline bubble"};

/* A model on a chip. */
struct plan {
  uint32_t point, model;
  const struct pz_evaluation *e;
  struct pz_step_parts parts;
  double use[PZ_RESOURCES]; /* of the repeated layer, forward and backward */
  double share[LIMITS];     /* of the step; they sum up to 1 */
  int64_t mbs, t;
};

static enum limit largest(const double share[LIMITS]) {
  enum limit most = 0;
  for (enum limit i = 1; i < LIMITS; i++)
    if (share[i] > share[most]) most = i;
  return most;
}

/* Time of compute counts for the resource that is busiest meanwhile. */
static void share_out(struct plan *p) {
  static const enum pz_resource of[] = {PZ_TENSOR_CORES, PZ_VECTOR_CORES, PZ_HBM_RATE, PZ_GLB_RATE};
  double total = p->parts.compute_s + p->parts.collectives_s + p->parts.transfers_s +
                 p->parts.bubble_s + p->parts.exchange_s;
  enum limit busy = LIMIT_TENSOR;
  for (enum limit i = LIMIT_TENSOR; i <= LIMIT_GLB; i++)
    if (p->use[of[i]] > p->use[of[busy]]) busy = i;
  p->share[busy] = p->parts.compute_s / total;
  p->share[LIMIT_BUBBLE] = p->parts.bubble_s / total;
  p->share[LIMIT_TRANSFERS] = (p->parts.collectives_s + p->parts.transfers_s) / total;
  p->share[LIMIT_EXCHANGE] = p->parts.exchange_s / total;
}

static enum pz_status use_layer(struct pz_evaluator *e, struct plan *p, struct pz_arena *arena,
                                struct pz_error *err) {
  const struct pz_workload *w = e->task->portfolio->variants[p->e->plan.variant].w;
  const struct pz_layer *l = &w->layers[pz_story_main_layer(w)];
  double total = 0, share[PZ_RESOURCES];
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct pz_scheduled s;
    enum pz_status status = pz_story_schedule(e, l, d, PZ_EFFORT_QUICK, arena, &s, err);
    if (status != PZ_OK) return status;
    pz_schedule_use(&s.problem, s.schedule.slots, s.schedule.makespan, share);
    total += s.schedule.makespan;
    for (int r = 0; r < PZ_RESOURCES; r++) p->use[r] += share[r] * s.schedule.makespan;
  }
  for (int r = 0; r < PZ_RESOURCES && total > 0; r++) p->use[r] /= total;
  return PZ_OK;
}

/* ---- the chips of the report ---------------------------------------------------------------- */

struct point {
  uint32_t objective_run, at; /* index of the point */
  double value, bound;
  bool evaluated; /* in this objective run; else of the front that was asked for */
};

struct chips {
  struct pz_story *t;
  struct pz_vec points, plans; /* struct point, struct plan */
  uint32_t knee;               /* of the front that was asked for, a point; PZ_NONE: none */
};

static enum pz_status make_plan(void *ctx, size_t i, struct pz_evaluator *e, struct pz_error *err) {
  struct chips *c = ctx;
  struct plan *p = pz_vec_at(&c->plans, struct plan, i);
  const struct pz_study *s = c->t->study;
  const struct pz_variant *l = &s->portfolio.variants[p->e->plan.variant];
  struct pz_place_model model;
  struct pz_plan plan;
  struct pz_chip chip;
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  pz_space_chip(&s->space, &s->points[p->point], &chip);
  enum pz_status status =
      pz_evaluation_plan(e, &chip, pz_task_most_hbm(&s->task), p->e, &arena, &model, &plan, err);
  if (status == PZ_OK) {
    struct pz_planned planned = {&model, &plan, p->e->plan.recompute, s->o.batch,
                                 pz_chip_tensor_flop_per_s(&chip)};
    p->parts = pz_planned_parts(&planned);
    p->mbs = l->mbs;
    p->t = l->tp;
    status = use_layer(e, p, &arena, err);
    share_out(p);
  }
  pz_arena_release(&arena);
  if (status != PZ_INTERNAL) return status;
  err->status = PZ_BAD_INPUT; /* the plan is not the recorded one: the run has been changed */
  return PZ_BAD_INPUT;
}

static int by_value(const void *a, const void *b) {
  const struct point *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

/* The evaluated chips of a objective run, the best first. */
static bool list_objective_run(struct chips *c, uint32_t objective_run) {
  const struct pz_study *s = c->t->study;
  const struct pz_chip_status *chip_status = s->objective_run[objective_run].chip_status;
  uint32_t first = c->points.n;
  for (uint32_t i = 0; i < s->n_points; i++) {
    struct point p = {objective_run, i, chip_status[i].value, chip_status[i].bound, true};
    if (chip_status[i].kind != PZ_CHIP_EVALUATED || !(p.value > 0)) continue;
    if (!pz_vec_push(&c->points, &p)) return false;
  }
  if (c->points.n > first)
    qsort(pz_vec_at(&c->points, struct point, first), c->points.n - first, sizeof(struct point),
          by_value);
  if (c->points.n > first + MOST_POINTS) c->points.n = first + MOST_POINTS;
  return true;
}

static bool listed(const struct chips *c, uint32_t objective_run, uint32_t at) {
  for (uint32_t i = 0; i < c->points.n; i++) {
    const struct point *p = pz_vec_at(&c->points, struct point, i);
    if (p->objective_run == objective_run && p->at == at) return true;
  }
  return false;
}

/* The front that a search was asked for: its chips were evaluated outside of the objective_run.  It is of
 * geometric means, and comparable with nothing else. */
static bool list_front(struct chips *c) {
  const struct pz_study *s = c->t->study;
  const json_t *list = pz_result_at(pz_result_at(c->t->result, "pareto"), "points");
  uint32_t common = s->n_runs - 1;
  if (s->o.objective != PZ_OBJECTIVE_GEOMEAN) return true;
  for (uint32_t at = 0; at < s->n_points && json_array_size(list); at++) {
    struct pz_chip chip;
    pz_space_chip(&s->space, &s->points[at], &chip);
    for (size_t i = 0; i < json_array_size(list); i++) {
      const json_t *o = json_array_get(list, i);
      if (strcmp(chip.name, pz_result_text(o, "chip")) != 0) continue;
      if (json_is_true(pz_result_at(o, "knee"))) c->knee = at;
      if (listed(c, common, at)) continue;
      double value = pz_result_number(o, "objective");
      struct point p = {common, at, value, value, false};
      if (!pz_vec_push(&c->points, &p)) return false;
    }
  }
  return true;
}

static int by_place(const void *a, const void *b) {
  const struct plan *x = a, *y = b;
  if (x->point != y->point) return x->point < y->point ? -1 : 1;
  return (x->model > y->model) - (x->model < y->model);
}

/* What the run kept of these chips for the models of their objective runs, each once. */
static bool list_plans(struct chips *c) {
  const struct pz_study *s = c->t->study;
  for (uint32_t i = 0; i < c->points.n; i++) {
    const struct point *at = pz_vec_at(&c->points, struct point, i);
    const struct pz_objective *o = &s->objective_run[at->objective_run].objective;
    for (uint32_t k = 0; k < o->n; k++) {
      struct plan p = {.point = at->at, .model = o->models[k]};
      p.e = pz_story_kept(c->t, p.point, p.model);
      if (p.e && p.e->plan.n_stages && !pz_vec_push(&c->plans, &p)) return false;
    }
  }
  struct plan *list = c->plans.items;
  uint32_t n = 0;
  if (c->plans.n) qsort(list, c->plans.n, sizeof *list, by_place);
  for (uint32_t i = 0; i < c->plans.n; i++)
    if (!n || by_place(&list[n - 1], &list[i]) != 0) list[n++] = list[i];
  c->plans.n = n;
  return true;
}

/* ---- telling -------------------------------------------------------------------------------- */

static const struct plan *plan_at(const struct chips *c, uint32_t point, uint32_t model) {
  struct plan key = {.point = point, .model = model};
  return c->plans.n ? bsearch(&key, c->plans.items, c->plans.n, sizeof key, by_place) : NULL;
}

/* Over the models of the objective_run. */
static const char *limit_of(const struct chips *c, const struct point *p) {
  const struct pz_objective *o = &c->t->study->objective_run[p->objective_run].objective;
  double share[LIMITS] = {0};
  for (uint32_t k = 0; k < o->n; k++) {
    const struct plan *plan = plan_at(c, p->at, o->models[k]);
    for (enum limit i = 0; i < LIMITS && plan; i++) share[i] += plan->share[i];
  }
  return limit_names[largest(share)];
}

/* Does no point of the objective run have more value on as little area? */
static bool on_front(const struct chips *c, const struct point *p) {
  const struct pz_search *s = c->t->study->search;
  double area = pz_search_area_um2(s, p->at);
  for (uint32_t i = 0; i < c->points.n; i++) {
    const struct point *q = pz_vec_at(&c->points, struct point, i);
    if (q->objective_run != p->objective_run || q->at == p->at) continue;
    double other = pz_search_area_um2(s, q->at);
    bool as_good = q->value >= p->value && other <= area;
    if (as_good && (q->value > p->value || other < area || q->at < p->at)) return false;
  }
  return true;
}

static bool tell_point(const struct chips *c, const struct point *p, json_t *rows) {
  const struct pz_study *s = c->t->study;
  struct pz_chip chip;
  pz_space_chip(&s->space, &s->points[p->at], &chip);
  return pz_dataset_row(
      rows, json_pack("[s,I,s,f,f,f,f,s,b,b,b,b,I,I,I,I,I,f]",
                      pz_study_run_name(s, p->objective_run), (json_int_t)s->points[p->at].id,
                      chip.name, pz_search_area_um2(s->search, p->at) / 1e6,
                      pz_search_watts(s->search, p->at), p->value, p->bound, limit_of(c, p),
                      on_front(c, p), p->objective_run + 1 == s->n_runs && p->at == c->knee,
                      p->at == s->objective_run[p->objective_run].best, p->evaluated,
                      (json_int_t)chip.tensor.cores, (json_int_t)chip.tensor.rows,
                      (json_int_t)chip.tensor.cols, (json_int_t)chip.vector.cores,
                      (json_int_t)chip.vector.lanes, (double)chip.glb_bytes / 0x1p20));
}

static enum pz_status tell_points(const struct chips *c) {
  json_t *rows = pz_dataset_add(
      c->t->datasets, "chips",
      "objective_run,chip_id,chip,area_mm2,watts,objective,bound,limit,front,"
      "knee,best,in_objective_run,tensor_cores,rows,cols,vector_cores,lanes,glb_mib");
  bool good = rows;
  for (uint32_t i = 0; i < c->points.n && good; i++)
    good = tell_point(c, pz_vec_at(&c->points, struct point, i), rows);
  return pz_story_check(c->t, good);
}

static enum pz_status tell_plans(const struct chips *c) {
  json_t *rows = pz_dataset_add(
      c->t->datasets, "plans",
      "chip_id,model,samples_per_s,ratio,stages,replicas,tensor_parallel,microbatch,"
      "recompute,compute_part,network_part,bubble_part,tensor_use,vector_use,hbm_use,"
      "limit");
  const struct pz_study *s = c->t->study;
  bool good = rows;
  for (uint32_t i = 0; i < c->plans.n && good; i++) {
    const struct plan *p = pz_vec_at(&c->plans, struct plan, i);
    double rate = (double)s->o.batch / p->e->time_s, ref = s->reference[p->model].samples_per_s;
    double network = p->share[LIMIT_TRANSFERS] + p->share[LIMIT_EXCHANGE];
    good = pz_dataset_row(
        rows,
        json_pack("[I,s,f,o,I,I,I,I,b,f,f,f,f,f,f,s]", (json_int_t)s->points[p->point].id,
                  s->portfolio.models[p->model], rate,
                  ref > 0 ? json_real(rate / ref) : json_null(), (json_int_t)p->e->plan.n_stages,
                  (json_int_t)p->e->plan.d, (json_int_t)p->t, (json_int_t)p->mbs,
                  p->e->plan.recompute, 1 - network - p->share[LIMIT_BUBBLE], network,
                  p->share[LIMIT_BUBBLE], p->use[PZ_TENSOR_CORES], p->use[PZ_VECTOR_CORES],
                  p->use[PZ_HBM_RATE], limit_names[largest(p->share)]));
  }
  return pz_story_check(c->t, good);
}

/* ---- what bounds excluded ------------------------------------------------------------------- */

static int cell_of(double v, double most) {
  if (!(v < most)) return CELLS - 1;
  return v > 0 ? (int)(v / most * CELLS) : 0;
}

/* Six digits are more than a chart shows; there are thousands of cells. */
static double cell_edge(double most, int i) {
  double edge = most * i / CELLS;
  if (!(edge > 0)) return 0;
  double unit = pow(10, floor(log10(edge)) - 5);
  return round(edge / unit) * unit;
}

static bool tell_cells(const struct chips *c, uint32_t objective_run, json_t *rows) {
  const struct pz_study *s = c->t->study;
  const struct pz_objective_run *k = &s->objective_run[objective_run];
  uint32_t n[CELLS][CELLS] = {{0}};
  double area = 0;
  for (uint32_t i = 0; i < s->n_points; i++) area = fmax(area, pz_search_area_um2(s->search, i));
  for (uint32_t i = 0; i < s->n_points; i++)
    if (k->chip_status[i].kind != PZ_CHIP_EVALUATED || !listed(c, objective_run, i))
      n[cell_of(pz_search_area_um2(s->search, i), area)]
       [cell_of(k->chip_status[i].value, k->value)]++;
  for (int x = 0; x < CELLS; x++)
    for (int y = 0; y < CELLS; y++)
      if (n[x][y] &&
          !pz_dataset_row(rows, json_pack("[s,f,f,f,f,I]", pz_study_run_name(s, objective_run),
                                          cell_edge(area / 1e6, x), cell_edge(area / 1e6, x + 1),
                                          cell_edge(k->value, y), cell_edge(k->value, y + 1),
                                          (json_int_t)n[x][y])))
        return false;
  return true;
}

static enum pz_status tell_excluded(const struct chips *c) {
  json_t *rows =
      pz_dataset_add(c->t->datasets, "excluded",
                     "objective_run,area_from_mm2,area_to_mm2,bound_from,bound_to,chips");
  bool good = rows;
  for (uint32_t i = 0; i < c->t->study->n_runs && good; i++) good = tell_cells(c, i, rows);
  return pz_story_check(c->t, good);
}

enum pz_status pz_story_chips(struct pz_story *t) {
  struct chips c = {.t = t, .knee = PZ_NONE};
  bool good = true;
  pz_vec_init(&c.points, &t->arena, sizeof(struct point));
  pz_vec_init(&c.plans, &t->arena, sizeof(struct plan));
  for (uint32_t i = 0; i < t->study->n_runs && good; i++) good = list_objective_run(&c, i);
  enum pz_status status = pz_story_check(t, good && list_front(&c) && list_plans(&c));
  if (status == PZ_OK) status = pz_search_each(t->study->search, c.plans.n, make_plan, &c, t->err);
  if (status == PZ_OK) status = tell_points(&c);
  if (status == PZ_OK) status = tell_plans(&c);
  return status == PZ_OK ? tell_excluded(&c) : status;
}
