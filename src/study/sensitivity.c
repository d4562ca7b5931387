#include "study/sensitivity.h"

#include <math.h>
#include <stdio.h>

struct work {
  struct pz_study *s;
  const struct pz_objective_run *c;
  double hbm_gib; /* of the best chip */
  struct pz_watch watch;
  struct pz_step *steps;
  uint32_t n;
  double gib[PZ_MOST_STEPS]; /* of each step */
  struct pz_step_cost found[PZ_MOST_STEPS][PZ_SEARCH_MOST_MODELS];
  struct pz_step_cost least[PZ_MOST_STEPS][PZ_SEARCH_MOST_MODELS];
  struct pz_step_plan plans[PZ_MOST_STEPS][PZ_SEARCH_MOST_MODELS];
};

/* ---- which ---------------------------------------------------------------------------------- */

static struct pz_step *add(struct work *w, const char *what, const struct pz_point *p,
                           double hbm_gib) {
  struct pz_step *step = &w->steps[w->n];
  struct pz_chip c;
  pz_space_chip(&w->s->space, p, &c);
  *step = (struct pz_step){.what = what, .point = *p, .taken = pz_chip_taken(&c)};
  step->breaks = pz_limits_broken(&w->s->limits, &step->taken, &step->taken);
  w->gib[w->n++] = hbm_gib;
  return step;
}

static void axis_step(struct work *w, enum pz_axis a, int by) {
  const struct pz_space *s = &w->s->space;
  struct pz_point p = w->c->best;
  int at = p.at[a] + by;
  if (at < 0 || at >= s->n[a]) return;
  int32_t from = s->value[a][p.at[a]];
  p.at[a] = (uint8_t)at;
  struct pz_step *step = add(w, pz_axis_name(a), &p, w->hbm_gib);
  snprintf(step->from, sizeof step->from, "%d", from);
  snprintf(step->to, sizeof step->to, "%d", s->value[a][at]);
}

static int64_t side(const struct pz_array_shape *a, bool rows) { return rows ? a->rows : a->cols; }

/* The nearest array with more or fewer rows, and as many columns; or the other way round.  -1: there is none. */
static int next_array(const struct pz_space *s, int from, bool rows, int by) {
  const struct pz_array_shape *own = &s->array[from];
  int best = -1;
  for (int i = 0; i < s->n_arrays; i++) {
    const struct pz_array_shape *a = &s->array[i];
    int64_t more = by * (side(a, rows) - side(own, rows));
    if (side(a, !rows) != side(own, !rows) || more <= 0) continue;
    if (best < 0 || more < by * (side(&s->array[best], rows) - side(own, rows))) best = i;
  }
  return best;
}

static void array_step(struct work *w, int to, const char *what, bool rows) {
  const struct pz_space *s = &w->s->space;
  struct pz_point p = w->c->best;
  int from = pz_space_kind(s, p.kind).array;
  if (to < 0 || to >= s->n_arrays) return;
  p.kind = (uint32_t)((int)p.kind + (to - from) * s->n_hbm);
  struct pz_step *step = add(w, what, &p, w->hbm_gib);
  const struct pz_array_shape *a = &s->array[from], *b = &s->array[to];
  if (*what == 'a') {
    snprintf(step->from, sizeof step->from, "%lldx%lld", (long long)a->rows, (long long)a->cols);
    snprintf(step->to, sizeof step->to, "%lldx%lld", (long long)b->rows, (long long)b->cols);
  } else {
    snprintf(step->from, sizeof step->from, "%lld", (long long)side(a, rows));
    snprintf(step->to, sizeof step->to, "%lld", (long long)side(b, rows));
  }
}

/* More or fewer rows, columns; where no array differs in one of them alone, the next of the list. */
static void array_steps(struct work *w) {
  const struct pz_space *s = &w->s->space;
  int own = pz_space_kind(s, w->c->best.kind).array;
  uint32_t before = w->n;
  for (int rows = 1; rows >= 0; rows--)
    for (int by = -1; by <= 1; by += 2)
      array_step(w, next_array(s, own, rows, by), rows ? "rows" : "cols", rows);
  if (w->n > before) return;
  for (int by = -1; by <= 1; by += 2) array_step(w, own + by, "array", false);
}

static void hbm_step(struct work *w, int by) {
  const struct pz_space *s = &w->s->space;
  struct pz_point p = w->c->best;
  int own = pz_space_kind(s, p.kind).hbm, at = own + by;
  if (at < 0 || at >= s->n_hbm) return;
  p.kind = (uint32_t)((int)p.kind + by);
  struct pz_step *step = add(w, "hbm", &p, w->hbm_gib);
  snprintf(step->from, sizeof step->from, "%s", pz_space_hbm_name(s, own));
  snprintf(step->to, sizeof step->to, "%s", pz_space_hbm_name(s, at));
}

/* One step among the memories to choose. */
static void memory_step(struct work *w, int by) {
  const struct pz_choices *hbm = &w->s->o.hbm_gib;
  int at = 0;
  while (at + 1 < hbm->n && (double)hbm->v[at] < w->hbm_gib) at++;
  if (at + by < 0 || at + by >= hbm->n) return;
  struct pz_step *step = add(w, "hbm_gib", &w->c->best, (double)hbm->v[at + by]);
  snprintf(step->from, sizeof step->from, "%lld", (long long)hbm->v[at]);
  snprintf(step->to, sizeof step->to, "%lld", (long long)hbm->v[at + by]);
}

static void list_steps(struct work *w) {
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    for (int by = -1; by <= 1; by += 2) axis_step(w, a, by);
  array_steps(w);
  for (int by = -1; by <= 1; by += 2) hbm_step(w, by);
  for (int by = -1; by <= 1 && !pz_study_is_training(w->s); by += 2) memory_step(w, by);
}

/* ---- what they come to ---------------------------------------------------------------------- */

static enum pz_status find_plan(struct work *w, unsigned worker, const struct pz_chip *chip,
                                uint32_t model, struct pz_step_plan *plan, struct pz_evaluation *v,
                                struct pz_error *err) {
  struct pz_found_plan found;
  *v = (struct pz_evaluation){.step_s = HUGE_VAL};
  *plan = (struct pz_step_plan){.fits = false};
  enum pz_status status =
      pz_training_plan(w->s->by, worker, chip, model, &found, &v->dynamic_j, &plan->fits, err);
  if (status != PZ_OK || !plan->fits) return status;
  v->step_s = v->least_s = plan->step_s = found.p.step_s;
  plan->parts = found.p.parts;
  pz_plan_text(&found.plan, plan->text, sizeof plan->text);
  return PZ_OK;
}

static enum pz_status evaluate(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct work *w = ctx;
  const struct pz_objective *o = &w->c->objective;
  size_t step = i / o->n;
  uint32_t m = o->models[i % o->n];
  const struct pz_point *at = &w->steps[step].point;
  struct pz_box b = pz_box_of(at);
  struct pz_boxed chip;
  struct pz_evaluation v;
  pz_boxed_set(&w->s->space, &b, &chip);
  enum pz_status status = pz_study_is_training(w->s)
                              ? find_plan(w, worker, &chip.lo, m, &w->plans[step][m], &v, err)
                              : pz_original_value(pz_original_worker(w->s->by, worker), at, m,
                                                  w->gib[step], PZ_EFFORT_FULL, HUGE_VAL, &v, err);
  if (status != PZ_OK) return status;
  w->found[step][m] = (struct pz_step_cost){v.step_s, v.dynamic_j};
  w->least[step][m] =
      (struct pz_step_cost){v.step_s < HUGE_VAL ? v.least_s : HUGE_VAL, v.dynamic_j};
  pz_progress_add(w->watch.progress, 1);
  return PZ_OK;
}

static void pack(void *ctx, size_t i, struct pz_buffer *out) {
  const struct work *w = ctx;
  size_t step = i / w->c->objective.n;
  uint32_t m = w->c->objective.models[i % w->c->objective.n];
  pz_buffer_append(out, (const char *)&w->found[step][m], sizeof w->found[step][m]);
  pz_buffer_append(out, (const char *)&w->least[step][m], sizeof w->least[step][m]);
  pz_buffer_append(out, (const char *)&w->plans[step][m], sizeof w->plans[step][m]);
}

static enum pz_status unpack(void *ctx, size_t i, struct pz_bytes *in) {
  struct work *w = ctx;
  size_t step = i / w->c->objective.n;
  uint32_t m = w->c->objective.models[i % w->c->objective.n];
  pz_progress_add(w->watch.progress, 1);
  return pz_bytes_take(in, &w->found[step][m], sizeof w->found[step][m]) &&
                 pz_bytes_take(in, &w->least[step][m], sizeof w->least[step][m]) &&
                 pz_bytes_take(in, &w->plans[step][m], sizeof w->plans[step][m])
             ? PZ_OK
             : PZ_BAD_INPUT;
}

enum pz_status pz_sensitivity(struct pz_study *s, const struct pz_objective_run *c, double hbm_gib,
                              struct pz_watch watch, struct pz_step steps[PZ_MOST_STEPS],
                              uint32_t *n, struct pz_error *err) {
  struct work *w = pz_arena_alloc(&s->arena, 1, sizeof *w);
  if (!w) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the sensitivity");
  *w = (struct work){.s = s, .c = c, .hbm_gib = hbm_gib, .watch = watch, .steps = steps};
  list_steps(w);
  size_t evaluations = (size_t)w->n * c->objective.n;
  struct pz_search_work work = {evaluate, pack, unpack, w, false};
  pz_progress_next(watch.progress, "sensitivity", "evaluations", evaluations);
  enum pz_status status = pz_search_deal(s->search, evaluations, &work, err);
  pz_progress_finish(watch.progress, NULL);
  for (uint32_t i = 0; i < w->n && status == PZ_OK; i++) {
    steps[i].value = pz_objective_value(&c->objective, w->found[i], &steps[i].taken);
    steps[i].bound = pz_objective_value(&c->objective, w->least[i], &steps[i].taken);
    if (pz_study_is_training(s)) steps[i].plans = w->plans[i];
  }
  *n = w->n;
  return status;
}
