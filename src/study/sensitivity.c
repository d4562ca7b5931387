#include "study/sensitivity.h"

#include <math.h>

#include "chip/chip.h"

struct place {
  struct pz_point point;
  double hbm_gib;
};

struct work {
  struct pz_study *s;
  const struct pz_objective_run *c;
  struct pz_step *steps;
  struct place place[PZ_MOST_STEPS];
  double rates[PZ_MOST_STEPS][PZ_SEARCH_MOST_MODELS]; /* samples/s: found, ... */
  double most[PZ_MOST_STEPS][PZ_SEARCH_MOST_MODELS];  /* ... and at most */
};

static double area_of(const struct pz_space *space, const struct pz_point *p) {
  struct pz_chip chip;
  pz_space_chip(space, p, &chip);
  struct pz_area area = pz_chip_area(&chip);
  return pz_area_total_um2(&area);
}

/* One step on an axis; false at its end. */
static bool axis_step(struct work *w, enum pz_axis axis, int by, uint32_t n) {
  const struct pz_space *space = &w->s->space;
  struct pz_point from = w->s->points[w->c->best], to = from;
  int at = from.at[axis] + by;
  if (at < 0 || at >= space->n[axis]) return false;
  to.at[axis] = (uint8_t)at;
  to.id = pz_space_id(space, to.at);
  int64_t unit = axis == PZ_AXIS_GLB ? 1 << 20 : 1;
  w->place[n] = (struct place){to, w->c->hbm_gib};
  w->steps[n] = (struct pz_step){.what = pz_axis_name(axis),
                                 .from = pz_space_value(space, &from, axis) / unit,
                                 .to = pz_space_value(space, &to, axis) / unit,
                                 .within = pz_space_has(space, &to),
                                 .over = area_of(space, &to) > space->budget_um2,
                                 .area_um2 = area_of(space, &to)};
  return true;
}

/* One step among the memories to choose. */
static bool memory_step(struct work *w, int by, uint32_t n) {
  const struct pz_choices *hbm = &w->s->task.o.hbm_gib;
  int at = 0;
  while ((double)hbm->v[at] < w->c->hbm_gib) at++;
  if (at + by < 0 || at + by >= hbm->n) return false;
  struct pz_point p = w->s->points[w->c->best];
  w->place[n] = (struct place){p, (double)hbm->v[at + by]};
  w->steps[n] = (struct pz_step){.what = "hbm_gib",
                                 .from = hbm->v[at],
                                 .to = hbm->v[at + by],
                                 .within = true,
                                 .area_um2 = area_of(&w->s->space, &p)};
  return true;
}

static uint32_t list_steps(struct work *w) {
  uint32_t n = 0;
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    for (int by = -1; by <= 1; by += 2) n += axis_step(w, a, by, n);
  for (int by = -1; by <= 1; by += 2) n += memory_step(w, by, n);
  return n;
}

static enum pz_status evaluate(void *ctx, size_t i, struct pz_evaluator *e, struct pz_error *err) {
  struct work *w = ctx;
  const struct pz_objective *o = &w->c->objective;
  struct pz_evaluation v;
  size_t step = i / o->n;
  uint32_t model = o->models[i % o->n];
  enum pz_status status =
      pz_evaluate(e, &w->place[step].point, model, w->place[step].hbm_gib, PZ_EFFORT_FULL, &v, err);
  if (status != PZ_OK) return status;
  double batch = (double)w->s->o.batch;
  w->rates[step][model] = v.time_s < HUGE_VAL ? batch / v.time_s : 0;
  w->most[step][model] = v.least_s < HUGE_VAL ? batch / v.least_s : 0;
  pz_progress_add(pz_search_progress(w->s->search), 1);
  return PZ_OK;
}

static void pack_evaluation(void *ctx, size_t i, struct pz_buffer *out) {
  const struct work *w = ctx;
  size_t step = i / w->c->objective.n;
  uint32_t model = w->c->objective.models[i % w->c->objective.n];
  pz_buffer_append(out, (const char *)&w->rates[step][model], sizeof(double));
  pz_buffer_append(out, (const char *)&w->most[step][model], sizeof(double));
}

static enum pz_status unpack_evaluation(void *ctx, size_t i, struct pz_bytes *in) {
  struct work *w = ctx;
  size_t step = i / w->c->objective.n;
  uint32_t model = w->c->objective.models[i % w->c->objective.n];
  pz_progress_add(pz_search_progress(w->s->search), 1);
  return pz_bytes_take(in, &w->rates[step][model], sizeof(double)) &&
                 pz_bytes_take(in, &w->most[step][model], sizeof(double))
             ? PZ_OK
             : PZ_BAD_INPUT;
}

enum pz_status pz_sensitivity(struct pz_study *s, const struct pz_objective_run *c,
                              struct pz_step steps[PZ_MOST_STEPS], uint32_t *n,
                              struct pz_error *err) {
  struct work w = {.s = s, .c = c, .steps = steps};
  uint32_t count = list_steps(&w);
  size_t evaluations = (size_t)count * c->objective.n;
  struct pz_search_items items = {evaluate, pack_evaluation, unpack_evaluation, &w, false};
  pz_progress_next(pz_search_progress(s->search), "sensitivity", "evaluations", evaluations);
  enum pz_status status = pz_search_deal(s->search, evaluations, &items, err);
  pz_progress_finish(pz_search_progress(s->search), NULL);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < count; i++) {
    struct pz_chip chip;
    pz_space_chip(&s->space, &w.place[i].point, &chip);
    double watts = pz_chip_peak_watts(&chip);
    steps[i].value = pz_objective_value(&c->objective, w.rates[i], steps[i].area_um2, watts);
    steps[i].bound = pz_objective_value(&c->objective, w.most[i], steps[i].area_um2, watts);
  }
  *n = count;
  return PZ_OK;
}
