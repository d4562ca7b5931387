#include "study/validate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/held.h"
#include "core/status.h"
#include "step/run_table.h"
#include "study/cold_validation.h"
#include "study/measured.h"
#include "study/rank.h"

const char *const pz_point_kind_names[] = {"run", "passes", "operator", NULL};

static bool is_ok(const struct pz_validation_point *p) { return strcmp(p->quality, "ok") == 0; }

static bool is_compared(const struct pz_validation_point *p) {
  return p->predicted_s > 0 && p->measured_s > 0;
}

/* ---- groups --------------------------------------------------------------------------------- */

static void add_point(struct pz_errors *g, const struct pz_validation_point *p) {
  if (!is_compared(p)) {
    g->not_predicted++;
    return;
  }
  pz_errors_time(g, p->id, p->predicted_s / p->measured_s - 1);
  if (p->measured_bytes > 0 && p->predicted_bytes > 0)
    pz_errors_memory(g, p->predicted_bytes / p->measured_bytes - 1);
}

/* The group of that name and kind; a new one at the end. */
static struct pz_errors *errors_of(struct pz_vec *list, const char *name, enum pz_point_kind kind) {
  for (uint32_t i = 0; i < list->n; i++) {
    struct pz_errors *g = pz_vec_at(list, struct pz_errors, i);
    if (g->kind == kind && strcmp(g->name, name) == 0) return g;
  }
  struct pz_errors fresh = {.name = name, .kind = kind};
  return pz_vec_push(list, &fresh);
}

/* Operators of many chips are counted with those of their kind on all chips, too. */
static enum pz_status make_groups(const struct pz_validation_point *points, uint32_t n, bool ok,
                                  struct pz_vec *list) {
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_validation_point *p = &points[i];
    if (is_ok(p) != ok) continue;
    struct pz_errors *g = errors_of(list, p->group, p->kind);
    if (!g) return PZ_NO_MEMORY;
    add_point(g, p);
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_validation_point *p = &points[i];
    if (!ok || !is_ok(p) || p->kind != PZ_POINT_OPERATOR || !p->work) continue;
    struct pz_errors *g = errors_of(list, p->work, p->kind);
    if (!g) return PZ_NO_MEMORY;
    add_point(g, p);
  }
  for (uint32_t i = 0; i < list->n; i++) pz_errors_finish(pz_vec_at(list, struct pz_errors, i));
  return PZ_OK;
}

/* ---- totals --------------------------------------------------------------------------------- */

static bool any_run(const struct pz_validation_point *p) { return p != NULL; }
static bool dense_gpu(const struct pz_validation_point *p) { return p->dense && !p->tpu; }
static bool single_node(const struct pz_validation_point *p) { return dense_gpu(p) && p->one_node; }
static bool on_tpu(const struct pz_validation_point *p) { return p->tpu; }
static bool works_by(const struct pz_validation_point *p, const char *work) {
  return p->work && strcmp(p->work, work) == 0;
}
static bool experts(const struct pz_validation_point *p) { return works_by(p, "experts"); }
static bool dense_fp8(const struct pz_validation_point *p) { return works_by(p, "fp8"); }
static bool nvfp4(const struct pz_validation_point *p) { return works_by(p, "nvfp4"); }
static bool lora(const struct pz_validation_point *p) { return works_by(p, "LoRA"); }
static bool hybrid(const struct pz_validation_point *p) {
  return works_by(p, "state-space layers");
}
static bool context(const struct pz_validation_point *p) {
  return p->context && !p->tpu && (dense_fp8(p) || works_by(p, "16-bit"));
}
static bool zero_bubble(const struct pz_validation_point *p) { return p->zero_bubble; }

static const struct {
  const char *name;
  bool (*has)(const struct pz_validation_point *p);
} totals[] = {{"all runs", any_run},
              {"dense bf16 on GPUs", dense_gpu},
              {"dense bf16 on GPUs, single node", single_node},
              {"on TPUs", on_tpu},
              {"with experts", experts},
              {"dense fp8", dense_fp8},
              {"dense, context parallel, on GPUs", context},
              {"zero bubble", zero_bubble},
              {"dense nvfp4", nvfp4},
              {"LoRA", lora},
              {"with state-space layers", hybrid}};
enum { TOTALS = sizeof totals / sizeof *totals };

static enum pz_status make_totals(const struct pz_validation_point *points, uint32_t n,
                                  struct pz_arena *arena, struct pz_validation *v) {
  struct pz_errors *list = pz_arena_alloc(arena, TOTALS, sizeof *list);
  if (!list) return PZ_NO_MEMORY;
  for (uint32_t k = 0; k < TOTALS; k++) {
    list[k] = (struct pz_errors){.name = totals[k].name, .kind = PZ_POINT_RUN};
    for (uint32_t i = 0; i < n; i++)
      if (points[i].kind == PZ_POINT_RUN && is_ok(&points[i]) && totals[k].has(&points[i]))
        add_point(&list[k], &points[i]);
    pz_errors_finish(&list[k]);
  }
  v->totals = list;
  v->n_totals = TOTALS;
  return PZ_OK;
}

/* ---- order of plans ------------------------------------------------------------------------- */

static bool has_order(const struct pz_validation_point *p) {
  return p->job && is_ok(p) && is_compared(p);
}

/* Plans like that of point i, if none stands before it. */
static uint32_t plans_like(const struct pz_validation_point *points, uint32_t n, uint32_t i,
                           const struct pz_validation_point **plans) {
  uint32_t found = 0;
  for (uint32_t j = 0; j < n; j++) {
    if (!has_order(&points[j]) || strcmp(points[j].job, points[i].job) != 0) continue;
    if (j < i) return 0;
    plans[found++] = &points[j];
  }
  return found;
}

static bool same_plan(const struct pz_validation_point *a, const struct pz_validation_point *b) {
  return a == b || (a->choices && b->choices && strcmp(a->choices, b->choices) == 0);
}

/* Runs of one plan count once, with the median of their times, so that a plan that was measured often weighs no more than
 * another.  Returns how many plans there are; `times` is scratch for n numbers. */
static uint32_t distinct_plans(const struct pz_validation_point *const *plans, uint32_t n,
                               double *predicted, double *measured, double *times) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t runs = 0, before = 0;
    while (!same_plan(plans[before], plans[i])) before++;
    if (before < i) continue;
    for (uint32_t j = i; j < n; j++)
      if (same_plan(plans[i], plans[j])) times[runs++] = plans[j]->measured_s;
    predicted[found] = plans[i]->predicted_s;
    measured[found++] = pz_median(times, runs);
  }
  return found;
}

static enum pz_status make_order(const struct pz_validation_point *const *plans, uint32_t n,
                                 struct pz_arena *arena, struct pz_vec *orders) {
  double *x = pz_arena_alloc(arena, 4 * (size_t)n, sizeof *x);
  if (!x) return PZ_NO_MEMORY;
  double *predicted = x, *measured = x + n, *ranks = x + 2 * (size_t)n;
  n = distinct_plans(plans, n, predicted, measured, ranks);
  if (n < PZ_LEAST_PLANS) return PZ_OK;
  struct pz_plan_order o = {.model = plans[0]->model,
                            .shape = plans[0]->shape,
                            .group = plans[0]->group,
                            .chip = plans[0]->chip,
                            .devices = plans[0]->devices,
                            .batch = plans[0]->batch,
                            .plans = n,
                            .rank_correlation = pz_spearman(predicted, measured, n, ranks),
                            .regret = pz_regret(predicted, measured, n)};
  o.name = pz_arena_printf(arena, "%s (%s) on %" PRId64 " x %s, batch %" PRId64, o.model, o.shape,
                           o.devices, o.chip, o.batch);
  return o.name && pz_vec_push(orders, &o) ? PZ_OK : PZ_NO_MEMORY;
}

/* The mean of orders of one group; of all where `group` is NULL. */
static struct pz_order_mean order_mean(const struct pz_vec *orders, const char *group) {
  struct pz_order_mean m = {.name = group ? group : "all models"};
  uint32_t ranked = 0;
  for (uint32_t i = 0; i < orders->n; i++) {
    const struct pz_plan_order *o = pz_vec_at(orders, struct pz_plan_order, i);
    if (group && strcmp(o->group, group) != 0) continue;
    m.n++;
    m.regret += o->regret;
    if (isnan(o->rank_correlation)) continue;
    ranked++;
    m.rank_correlation += o->rank_correlation;
  }
  m.regret /= m.n ? (double)m.n : (double)NAN;
  m.rank_correlation /= ranked ? (double)ranked : (double)NAN;
  return m;
}

static enum pz_status make_order_means(const struct pz_vec *orders, struct pz_vec *means) {
  for (uint32_t i = 0; i < orders->n; i++) {
    const char *group = pz_vec_at(orders, struct pz_plan_order, i)->group;
    bool known = false;
    for (uint32_t k = 0; k < means->n && !known; k++)
      known = strcmp(pz_vec_at(means, struct pz_order_mean, k)->name, group) == 0;
    struct pz_order_mean m = order_mean(orders, group);
    if (!known && !pz_vec_push(means, &m)) return PZ_NO_MEMORY;
  }
  struct pz_order_mean all = order_mean(orders, NULL);
  return orders->n == 0 || pz_vec_push(means, &all) ? PZ_OK : PZ_NO_MEMORY;
}

static enum pz_status make_orders(const struct pz_validation_point *points, uint32_t n,
                                  struct pz_arena *arena, struct pz_validation *v) {
  const struct pz_validation_point **plans = pz_arena_alloc(arena, n, sizeof *plans);
  struct pz_vec orders, means;
  pz_vec_init(&orders, arena, sizeof(struct pz_plan_order));
  pz_vec_init(&means, arena, sizeof(struct pz_order_mean));
  if (!plans) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t k = has_order(&points[i]) ? plans_like(points, n, i, plans) : 0;
    if (k && make_order(plans, k, arena, &orders) != PZ_OK) return PZ_NO_MEMORY;
  }
  if (make_order_means(&orders, &means) != PZ_OK) return PZ_NO_MEMORY;
  v->orders = orders.items;
  v->n_orders = orders.n;
  v->order_means = means.items;
  v->n_order_means = means.n;
  return PZ_OK;
}

/* ---- limits --------------------------------------------------------------------------------- */

const char *const pz_limit_heads[PZ_LIMITEDS + 1] = {
    "group", "mean_error", "memory_error", "not_predicted", "rank_correlation", "regret"};

static enum pz_status read_limit(const char *name, const struct pz_csv *csv, uint32_t row,
                                 struct pz_limit *out, struct pz_error *err) {
  out->group = pz_csv_cell(csv, row, 0);
  for (uint32_t k = 0; k < PZ_LIMITEDS; k++) {
    enum pz_status status = pz_csv_number(name, csv, row, k + 1, 1e6, &out->value[k], err);
    if (status != PZ_OK) return status;
    if (!*pz_csv_cell(csv, row, k + 1)) out->value[k] = (double)NAN;
  }
  return PZ_OK;
}

enum pz_status pz_limits_read(const char *name, const char *text, size_t bytes,
                              struct pz_arena *arena, struct pz_validation *out,
                              struct pz_error *err) {
  struct pz_csv csv;
  enum pz_status status = pz_csv_parse(name, text, bytes, arena, &csv, err);
  if (status != PZ_OK) return status;
  bool known = csv.columns == PZ_LIMITEDS + 1;
  for (uint32_t c = 0; known && c < csv.columns; c++)
    known = strcmp(csv.cells[c], pz_limit_heads[c]) == 0;
  if (!known)
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:1: unknown columns; accepted: group,mean_error,memory_error,not_predicted,"
                   "rank_correlation,regret",
                   name);
  struct pz_limit *list = pz_arena_alloc(arena, csv.rows, sizeof *list);
  if (!list) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  for (uint32_t i = 0; i < csv.rows && status == PZ_OK; i++)
    status = read_limit(name, &csv, i, &list[i], err);
  if (status != PZ_OK) return status;
  out->limits = list;
  out->n_limits = csv.rows;
  return PZ_OK;
}

double pz_limit_of(const struct pz_validation *v, const char *name, enum pz_limited what) {
  for (uint32_t i = 0; i < v->n_limits; i++) /* a name may stand in several rows */
    if (strcmp(v->limits[i].group, name) == 0 && !isnan(v->limits[i].value[what]))
      return v->limits[i].value[what];
  return (double)NAN;
}

static void take_errors(const struct pz_errors *list, uint32_t n, const char *name, double *value) {
  for (uint32_t i = 0; i < n; i++) {
    if (strcmp(list[i].name, name) != 0) continue;
    value[PZ_LIMITED_TIME] = list[i].mean;
    value[PZ_LIMITED_MEMORY] = list[i].memory_mean;
    value[PZ_LIMITED_MISSING] = list[i].not_predicted;
  }
}

static void take_order(double rank, double regret, double *value) {
  value[PZ_LIMITED_RANK] = rank;
  value[PZ_LIMITED_REGRET] = regret;
}

/* What was found under a name that a limit has; NaN: nothing. */
static void found_values(const struct pz_validation *v, const char *name, double *value) {
  for (int k = 0; k < PZ_LIMITEDS; k++) value[k] = (double)NAN;
  take_errors(v->groups, v->n_groups, name, value);
  take_errors(v->totals, v->n_totals, name, value);
  for (uint32_t i = 0; i < v->n_orders; i++)
    if (strcmp(v->orders[i].name, name) == 0)
      take_order(v->orders[i].rank_correlation, v->orders[i].regret, value);
  for (uint32_t i = 0; i < v->n_order_means; i++)
    if (strcmp(v->order_means[i].name, name) == 0)
      take_order(v->order_means[i].rank_correlation, v->order_means[i].regret, value);
}

/* A value of NaN keeps no limit. */
static bool keeps(enum pz_limited what, double value, double limit) {
  return isnan(limit) || (what == PZ_LIMITED_RANK ? value >= limit : value <= limit);
}

enum pz_status pz_limits_check(struct pz_arena *arena, struct pz_validation *v) {
  struct pz_vec broken;
  pz_vec_init(&broken, arena, sizeof(struct pz_broken_limit));
  for (uint32_t i = 0; i < v->n_limits; i++) {
    const struct pz_limit *l = &v->limits[i];
    double value[PZ_LIMITEDS];
    found_values(v, l->group, value);
    for (enum pz_limited k = 0; k < PZ_LIMITEDS; k++) {
      struct pz_broken_limit b = {l->group, k, value[k], l->value[k]};
      if (!keeps(k, value[k], l->value[k]) && !pz_vec_push(&broken, &b)) return PZ_NO_MEMORY;
    }
  }
  v->broken = broken.items;
  v->n_broken = broken.n;
  return PZ_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

enum pz_status pz_validation_make(const struct pz_validation_point *points, uint32_t n,
                                  struct pz_arena *arena, struct pz_validation *out) {
  struct pz_validation v = {.points = points, .n_points = n};
  struct pz_vec groups, apart;
  pz_vec_init(&groups, arena, sizeof(struct pz_errors));
  pz_vec_init(&apart, arena, sizeof(struct pz_errors));
  enum pz_status status = make_groups(points, n, true, &groups);
  if (status == PZ_OK) status = make_groups(points, n, false, &apart);
  if (status == PZ_OK) status = make_totals(points, n, arena, &v);
  if (status == PZ_OK) status = make_orders(points, n, arena, &v);
  if (status != PZ_OK) return status;
  v.groups = groups.items;
  v.n_groups = groups.n;
  v.apart = apart.items;
  v.n_apart = apart.n;
  *out = v;
  return PZ_OK;
}

static const char DEFAULT_CHIP[] = "h200";

static enum pz_status read_operators(const struct pz_point_reader *r, const char *name,
                                     const char *text) {
  struct pz_measured m;
  struct pz_csv csv;
  enum pz_status status = pz_csv_parse(name, text, strlen(text), r->points->arena, &csv, r->err);
  if (status == PZ_OK) status = pz_measured_read(name, &csv, r->points->arena, &m, r->err);
  bool given;
  return status == PZ_OK ? pz_points_operators(r, &m, "h200", &given) : status;
}

/* Without the calibration of their chips: training runs alone. */
static enum pz_status read_shipped(const struct pz_point_reader *r) {
  enum pz_status status = PZ_OK;
  const struct pz_embedded *e = pz_embedded_operators;
  for (; e->name && status == PZ_OK && !r->cold; e++) status = read_operators(r, e->name, e->text);
  for (e = pz_embedded_steps; e->name && status == PZ_OK && !r->cold; e++)
    status = pz_points_steps(r, e->name, e->text, strlen(e->text), "h200");
  for (e = pz_embedded_runs; e->name && status == PZ_OK; e++)
    status = pz_points_runs(r, e->name, e->text, strlen(e->text));
  return status;
}

/* A table of runs, or of kernels beside communication on a chip. */
static enum pz_status read_file(const struct pz_point_reader *r, const char *path,
                                const char *beside_chip) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, r->err);
  if (status == PZ_OK)
    status = beside_chip ? pz_points_beside(r, path, text, bytes, beside_chip)
                         : pz_points_runs(r, path, text, bytes);
  pz_free(text);
  return status;
}

/* A table of operators or a directory of such. */
static enum pz_status read_ops(const struct pz_point_reader *r, const char *path, const char *chip,
                               struct pz_vec *notes) {
  struct pz_arena *arena = r->points->arena;
  struct pz_measured m;
  bool given = false, room = true;
  enum pz_status status = pz_measured_load(path, arena, &m, r->err);
  if (status == PZ_OK) status = pz_points_operators(r, &m, chip, &given);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < m.n_skipped; i++) room = room && pz_vec_push(notes, &m.skipped[i]);
  if (!given && strcmp(chip, DEFAULT_CHIP) != 0) {
    const char *note = pz_arena_printf(
        arena, "%s: no predicted row is of chip %s; rows are predicted with the presets they name",
        path, chip);
    room = room && note && pz_vec_push(notes, &note);
  }
  return room ? PZ_OK : pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", path);
}

/* Of the built-in limits of operators those of the groups that are there, with enough rows; a mean over all chips depends
 * on their mix. */
static enum pz_status keep_found(struct pz_arena *arena, struct pz_validation *v) {
  static const uint32_t LEAST_ROWS = 20; /* the mean of fewer says little */
  struct pz_vec kept;
  pz_vec_init(&kept, arena, sizeof(struct pz_limit));
  for (uint32_t i = 0; i < v->n_limits; i++) {
    bool found = false;
    for (uint32_t g = 0; g < v->n_groups && !found; g++)
      found = v->groups[g].n >= LEAST_ROWS && strcmp(v->groups[g].name, v->limits[i].group) == 0;
    if (strncmp(v->limits[i].group, PZ_ALL_CHIPS, sizeof PZ_ALL_CHIPS - 1) == 0) continue;
    if (found && !pz_vec_push(&kept, &v->limits[i])) return PZ_NO_MEMORY;
  }
  v->limits = kept.items;
  v->n_limits = kept.n;
  return PZ_OK;
}

static enum pz_status read_limits(const struct pz_validate_options *o, bool shipped,
                                  struct pz_arena *arena, struct pz_validation *v,
                                  struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  bool ops = o->limits && strcmp(o->limits, PZ_LIMITS_OPS) == 0;
  const char *own = ops ? "limits_ops" : shipped && !o->limits && !o->cold ? "limits" : NULL;
  if (own) {
    const char *known = pz_embedded_text(pz_embedded_limits, own);
    enum pz_status status = pz_limits_read(own, known, strlen(known), arena, v, err);
    if (status == PZ_OK && ops) status = keep_found(arena, v);
    return status == PZ_NO_MEMORY ? pz_fail(err, status, "out of memory for the limits") : status;
  }
  if (!o->limits) return PZ_OK;
  enum pz_status status = pz_file_read(o->limits, PZ_CSV_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_limits_read(o->limits, text, bytes, arena, v, err);
  pz_free(text);
  return status;
}

static enum pz_status validate_in(const struct pz_validate_options *o, struct pz_arena *arena,
                                  struct pz_validation *out, struct pz_error *err) {
  struct pz_vec points, notes, tables;
  struct pz_cold usual = pz_cold_usual();
  struct pz_progress progress;
  atomic_bool stop = false;
  if (o->progress) pz_progress_start_call(&progress, o->progress, o->ctx, &stop);
  struct pz_point_reader r = {.points = &points,
                              .threads = o->threads,
                              .progress = o->progress ? &progress : NULL,
                              .err = err,
                              .cold = o->cold ? &usual : NULL,
                              .tables = &tables};
  bool shipped = !o->ops && !o->beside && (!o->runs || !o->runs[0]);
  if (o->cold && (o->ops || o->beside))
    return pz_fail(err, PZ_BAD_USE, "cold is of training runs; accepted: without ops and beside");
  pz_vec_init(&notes, arena, sizeof(const char *));
  pz_vec_init(&tables, arena, sizeof(struct pz_run_table));
  pz_vec_init(&points, arena, sizeof(struct pz_validation_point));
  enum pz_status status = shipped ? read_shipped(&r) : PZ_OK;
  for (const char *const *path = o->runs; path && *path && status == PZ_OK; path++)
    status = read_file(&r, *path, NULL);
  if (status == PZ_OK && o->ops) status = read_ops(&r, o->ops, o->chip, &notes);
  if (status == PZ_OK && o->beside) status = read_file(&r, o->beside, o->chip);
  if (status != PZ_OK) return status;
  struct pz_validation v;
  status = pz_validation_make(points.items, points.n, arena, &v);
  if (status != PZ_OK) return pz_fail(err, status, "out of memory for the validation");
  v.notes = notes.items;
  v.n_notes = notes.n;
  if (o->cold && pz_cold_chips(&points, &v.cold) != PZ_OK)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the validation");
  if (o->cold) status = pz_cold_families(&tables, &points, o->threads, &v.cold, err);
  if (status != PZ_OK) return status;
  status = read_limits(o, shipped, arena, &v, err);
  if (status == PZ_OK && pz_limits_check(arena, &v) != PZ_OK)
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the validation");
  if (status == PZ_OK) *out = v;
  return status;
}

struct pz_validate_options pz_validate_options_default(void) {
  return (struct pz_validate_options){.size = sizeof(struct pz_validate_options),
                                      .chip = DEFAULT_CHIP};
}

enum pz_status pz_validate(const struct pz_validate_options *options, struct pz_validation **out,
                           struct pz_error *err) {
  struct pz_validate_options o = pz_validate_options_default();
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_validate_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {out, "out"}, {o.chip, "chip"});
  if (status != PZ_OK) return status;
  struct pz_arena *arena;
  void *made;
  status = pz_held_new(sizeof **out, "the validation", &made, &arena, err);
  if (status == PZ_OK) status = pz_held_give(validate_in(&o, arena, made, err), made, out);
  return status;
}

void pz_validation_free(struct pz_validation *v) { pz_held_free(v); }
