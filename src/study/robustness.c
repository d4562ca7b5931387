#include "study/robustness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the robustness");
}

/* ---- values --------------------------------------------------------------------------------- */

/* Who is asked for values of chips, and by which thread of its own. */
struct asked {
  struct pz_search *search;
  const struct pz_objective *o;
  unsigned worker;
  struct pz_error *err;
};

/* What a chip within the limits is worth, if that is more than `least`; else 0. */
static enum pz_status value_of(const struct asked *a, const struct pz_point *p, double least,
                               double *value) {
  const struct pz_search_question *q = pz_search_asked(a->search);
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
  struct pz_box b = pz_box_of(p);
  struct pz_boxed chip;
  double most = 0;
  *value = 0;
  pz_boxed_set(q->space, &b, &chip);
  if (pz_boxed_breaks(&chip, &q->limits)) return PZ_OK;
  enum pz_status status = pz_search_bound(a->search, a->worker, a->o, &chip, steps, &most, a->err);
  for (uint32_t i = 0; i < a->o->n && status == PZ_OK && most > least; i++) {
    uint32_t m = a->o->models[i];
    struct pz_evaluator *by = q->entries[m].by;
    struct pz_evaluation e = {.step_s = HUGE_VAL};
    double limit_s = pz_objective_limit_s(a->o, steps, &chip.least, m, least);
    status = by->ops->value(by, a->worker, &chip, m, PZ_EFFORT_FULL, limit_s, &e, a->err);
    steps[m] = (struct pz_step_cost){e.step_s, e.dynamic_j};
    most = pz_objective_value(a->o, steps, &chip.least);
  }
  if (status == PZ_OK && most > least) *value = most;
  return status;
}

/* The same question about chips with other constants. */
struct moved {
  struct pz_space space;
  struct pz_evaluator *by;
  struct asked a;
};

static enum pz_status begin(struct moved *x, struct pz_study *s, const struct pz_cold *k,
                            unsigned worker) {
  struct pz_search_question q = *pz_search_asked(s->search);
  struct pz_box all = pz_box_all(&s->space, 0);
  struct pz_boxed like;
  x->space = s->space;
  x->space.constants = k;
  pz_boxed_set(&x->space, &all, &like);
  enum pz_status status = pz_training_new(&s->training, &like.hi, NULL,
                                          pz_training_times(s->by, worker), &x->by, x->a.err);
  q.space = &x->space;
  for (uint32_t i = 0; i < q.n_entries; i++) q.entries[i].by = x->by;
  return status == PZ_OK ? pz_search_new(&q, NULL, &x->a.search, x->a.err) : status;
}

enum pz_status pz_moved_find(struct pz_study *s, const struct pz_objective *o,
                             const struct pz_cold *k, const struct pz_point *best,
                             const struct pz_point *candidates, uint32_t n, unsigned worker,
                             struct pz_moved *out, struct pz_error *err) {
  struct moved *x = pz_calloc(1, sizeof *x);
  if (!x) return no_memory(err);
  x->a = (struct asked){.o = o, .err = err};
  *out = (struct pz_moved){.better = -1};
  enum pz_status status = begin(x, s, k, worker);
  if (status == PZ_OK) status = value_of(&x->a, best, 0, &out->value);
  out->better_value = out->value * (1 + s->o.gap);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    double value = 0;
    status = value_of(&x->a, &candidates[i], out->better_value, &value);
    if (!(value > out->better_value)) continue;
    out->better = (int)i;
    out->better_value = value;
  }
  pz_search_free(x->a.search);
  pz_evaluator_free(x->by);
  pz_free(x);
  return status;
}

/* ---- candidates ----------------------------------------------------------------------------- */

enum { MOST_KINDS = 24, MOST_CANDIDATES = MOST_KINDS + PZ_MOST_STEPS * (PZ_MOST_STEPS + 1) / 2 };

struct work {
  struct pz_study *s;
  const struct pz_objective_run *c;
  struct pz_watch watch;
  struct pz_point candidate[MOST_CANDIDATES];
  double value[MOST_CANDIDATES]; /* as usual; 0: it is not near */
  uint32_t n;
  struct pz_moved found[2 * PZ_COLD_CONSTANTS]; /* of each constant at its least and its most */
};

/* A chip that was evaluated for every model. */
struct evaluated {
  struct pz_point point;
  double value;
};

/* Chips of a kind together, the best first. */
static int by_kind(const void *a, const void *b) {
  const struct evaluated *x = a, *y = b;
  if (x->point.kind != y->point.kind) return x->point.kind < y->point.kind ? -1 : 1;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return memcmp(x->point.at, y->point.at, sizeof x->point.at);
}

static int by_value(const void *a, const void *b) {
  const struct evaluated *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return by_kind(a, b);
}

/* By the evaluations of the search; 0: one of the models is missing. */
static double known_value(const struct work *w, const struct pz_objective *o,
                          const struct pz_point *p) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
  struct pz_chip chip;
  for (uint32_t i = 0; i < o->n; i++) {
    struct pz_evaluation e;
    if (!pz_search_known(w->s->search, p, o->models[i], &e)) return 0;
    steps[o->models[i]] = (struct pz_step_cost){e.step_s, e.dynamic_j};
  }
  pz_space_chip(&w->s->space, p, &chip);
  struct pz_taken taken = pz_chip_taken(&chip);
  return pz_objective_value(o, steps, &taken);
}

/* Not the best chip, within the limits, and once. */
static void add(struct work *w, const struct pz_point *p) {
  struct pz_box b = pz_box_of(p);
  struct pz_boxed chip;
  uint64_t id = pz_space_id(&w->s->space, p);
  if (id == pz_space_id(&w->s->space, &w->c->best)) return;
  for (uint32_t i = 0; i < w->n; i++)
    if (pz_space_id(&w->s->space, &w->candidate[i]) == id) return;
  pz_boxed_set(&w->s->space, &b, &chip);
  if (!pz_boxed_breaks(&chip, &w->s->limits)) w->candidate[w->n++] = *p;
}

/* The best evaluated chip of every kind, of the best of them. */
static enum pz_status add_kinds(struct work *w, struct pz_error *err) {
  struct pz_found_step *known = NULL;
  uint32_t n = 0, n_chips = 0, n_kinds = 0;
  enum pz_status status = pz_search_all_known(w->s->search, &w->s->arena, &known, &n, err);
  struct evaluated *list = pz_calloc(n + 1, sizeof *list);
  if (status == PZ_OK && !list) status = no_memory(err);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    struct evaluated e = {.point = pz_space_point(&w->s->space, known[i].id)};
    if (i && known[i].id == known[i - 1].id) continue;
    e.value = known_value(w, &w->c->objective, &e.point);
    if (e.value > 0) list[n_chips++] = e;
  }
  if (n_chips) qsort(list, n_chips, sizeof *list, by_kind);
  for (uint32_t i = 0; i < n_chips; i++)
    if (!n_kinds || list[n_kinds - 1].point.kind != list[i].point.kind) list[n_kinds++] = list[i];
  if (n_kinds) qsort(list, n_kinds, sizeof *list, by_value);
  for (uint32_t i = 0; i < n_kinds && i < MOST_KINDS; i++) add(w, &list[i].point);
  pz_free(list);
  return status;
}

/* Both steps from the best chip. */
static struct pz_point both(const struct pz_point *best, const struct pz_point *a,
                            const struct pz_point *b) {
  struct pz_point p = *a;
  if (b->kind != best->kind) p.kind = b->kind;
  for (int i = 0; i < PZ_AXES; i++)
    if (b->at[i] != best->at[i]) p.at[i] = b->at[i];
  return p;
}

/* One step from the best chip, and two: more of something for less of another. */
static void add_steps(struct work *w, const struct pz_step *steps, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    add(w, &steps[i].point);
    for (uint32_t k = i + 1; k < n; k++) {
      struct pz_point p = both(&w->c->best, &steps[i].point, &steps[k].point);
      add(w, &p);
    }
  }
}

/* That come within this part of the best: constants move the best chip's value by some percent, and its distance from others by
 * less. */
static const double NEAR = 0.03;

static enum pz_status evaluate(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct work *w = ctx;
  struct asked a = {w->s->search, &w->c->objective, worker, err};
  return value_of(&a, &w->candidate[i], (1 - NEAR) * w->c->value, &w->value[i]);
}

static void pack_value(void *ctx, size_t i, struct pz_buffer *out) {
  const struct work *w = ctx;
  pz_buffer_append(out, (const char *)&w->value[i], sizeof w->value[i]);
}

static enum pz_status unpack_value(void *ctx, size_t i, struct pz_bytes *in) {
  struct work *w = ctx;
  return pz_bytes_take(in, &w->value[i], sizeof w->value[i]) ? PZ_OK : PZ_BAD_INPUT;
}

static enum pz_status find_candidates(struct work *w, const struct pz_step *steps, uint32_t n,
                                      struct pz_error *err) {
  struct pz_search_work work = {evaluate, pack_value, unpack_value, w, false};
  uint32_t near = 0;
  enum pz_status status = add_kinds(w, err);
  if (status != PZ_OK) return status;
  add_steps(w, steps, n);
  status = pz_search_deal(w->s->search, w->n, &work, err);
  for (uint32_t i = 0; i < w->n; i++)
    if (w->value[i] > 0) w->candidate[near++] = w->candidate[i];
  w->n = near;
  return status;
}

/* ---- constants ------------------------------------------------------------------------------ */

static struct pz_cold moved_constants(const struct pz_study *s, size_t i, double *value) {
  struct pz_cold k = s->space.constants ? *s->space.constants : pz_cold_usual();
  const struct pz_cold_info *info = pz_cold_at(i / 2);
  *value = k.v[i / 2] = i % 2 ? info->high : info->low;
  return k;
}

static bool is_compiled(size_t constant) {
  return strncmp(pz_cold_at(constant)->name, "compiled_", 9) == 0;
}

static enum pz_status move_reference(struct pz_study *s, const struct pz_cold *k, unsigned worker,
                                     struct pz_objective *o, struct pz_error *err) {
  struct pz_chip c = s->reference_chip;
  enum pz_status status = pz_chip_read(c.name, &c, err);
  if (status == PZ_OK) status = pz_chip_make_cold(&c, k, err);
  if (status != PZ_OK) return status;
  o->reference_taken = pz_chip_taken(&c);
  for (uint32_t i = 0; i < o->n && status == PZ_OK; i++) {
    struct pz_step_cost *step = &o->reference[o->models[i]];
    struct pz_found_plan plan;
    bool fits = false;
    status = pz_training_plan(s->by, worker, &c, o->models[i], &plan, &step->dynamic_j, &fits, err);
    if (status == PZ_OK && fits) step->step_s = plan.p.step_s;
  }
  return status;
}

/* The searched chips' class is compiled, the reference's launched; energy is of both. */
static enum pz_status move(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct work *w = ctx;
  struct pz_objective o = w->c->objective;
  double value;
  struct pz_cold k = moved_constants(w->s, i, &value);
  bool energy = i / 2 == PZ_COLD_energy, chips = energy || is_compiled(i / 2);
  enum pz_status status = PZ_OK;
  if (energy || !chips) status = move_reference(w->s, &k, worker, &o, err);
  w->found[i] = (struct pz_moved){.value = known_value(w, &o, &w->c->best), .better = -1};
  if (status == PZ_OK && chips)
    status =
        pz_moved_find(w->s, &o, &k, &w->c->best, w->candidate, w->n, worker, &w->found[i], err);
  pz_progress_add(w->watch.progress, 1);
  return status;
}

static void pack(void *ctx, size_t i, struct pz_buffer *out) {
  const struct work *w = ctx;
  pz_buffer_append(out, (const char *)&w->found[i], sizeof w->found[i]);
}

static enum pz_status unpack(void *ctx, size_t i, struct pz_bytes *in) {
  struct work *w = ctx;
  pz_progress_add(w->watch.progress, 1);
  return pz_bytes_take(in, &w->found[i], sizeof w->found[i]) ? PZ_OK : PZ_BAD_INPUT;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static bool changes(const struct work *w, size_t i) {
  return w->found[i].better >= 0 || w->found[i].value != w->c->value;
}

static bool tell(const struct work *w, size_t i, struct pz_arena *arena,
                 struct pz_moved_constant *out) {
  const struct pz_moved *f = &w->found[i];
  struct pz_chip chip;
  *out = (struct pz_moved_constant){.constant = pz_cold_at(i / 2)->name,
                                    .objective = f->value,
                                    .change = f->value / w->c->value - 1};
  (void)moved_constants(w->s, i, &out->value);
  if (f->better < 0) return true;
  pz_space_chip(&w->s->space, &w->candidate[f->better], &chip);
  out->better = pz_arena_strdup(arena, chip.name);
  out->better_by = f->better_value / f->value - 1;
  return out->better;
}

static enum pz_status tell_all(const struct work *w, struct pz_arena *arena,
                               struct pz_robustness **out, struct pz_error *err) {
  struct pz_robustness *r = pz_arena_alloc(arena, 1, sizeof *r);
  if (!r) return no_memory(err);
  *r = (struct pz_robustness){.n_candidates = w->n, .tolerance = w->s->o.gap, .robust = true};
  r->moves = pz_arena_alloc(arena, 2 * PZ_COLD_CONSTANTS, sizeof *r->moves);
  if (!r->moves) return no_memory(err);
  for (size_t i = 0; i < 2 * PZ_COLD_CONSTANTS; i++) {
    if (!changes(w, i & ~(size_t)1) && !changes(w, i | 1)) continue;
    struct pz_moved_constant *m = &r->moves[r->n_moves++];
    if (!tell(w, i, arena, m)) return no_memory(err);
    r->robust = r->robust && !m->better;
  }
  *out = r;
  return PZ_OK;
}

enum pz_status pz_robustness_make(struct pz_study *s, const struct pz_objective_run *c,
                                  const struct pz_step *steps, uint32_t n_steps,
                                  struct pz_watch watch, struct pz_arena *arena,
                                  struct pz_robustness **out, struct pz_error *err) {
  struct work *w = pz_arena_alloc(&s->arena, 1, sizeof *w);
  if (!w) return no_memory(err);
  *w = (struct work){.s = s, .c = c, .watch = watch};
  struct pz_search_work work = {move, pack, unpack, w, false};
  pz_progress_next(watch.progress, "robustness", "constants", 2 * PZ_COLD_CONSTANTS);
  enum pz_status status = find_candidates(w, steps, n_steps, err);
  if (status == PZ_OK) status = pz_search_deal(s->search, 2 * PZ_COLD_CONSTANTS, &work, err);
  pz_progress_finish(watch.progress, NULL);
  return status == PZ_OK ? tell_all(w, arena, out, err) : status;
}
