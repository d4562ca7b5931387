#include "study/training_detail.h"

#include <math.h>
#include <string.h>

#include "chip/bill_json.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/vec.h"
#include "step/step_energy.h"
#include "study/result_json.h"
#include "workload/op.h"

struct details {
  struct pz_study *s;
  struct pz_objective_run *run; /* of all models */
  struct pz_chip best;
  struct pz_watch watch;
  struct pz_error *err;
};

static enum pz_status append(struct details *d, json_t *rows, json_t *row) {
  return json_array_append_new(rows, row) == 0
             ? PZ_OK
             : pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
}

/* A model's plan on a chip in the network of the search, and what is asked of it. */
static enum pz_status find_plan(struct details *d, const struct pz_chip *c, uint32_t model,
                                struct pz_cluster *net, struct pz_plan_question *one,
                                struct pz_found_plan *plan, double *dynamic_j, bool *fits) {
  *net = pz_training_cluster(&d->s->training, c);
  enum pz_status status = pz_training_plan_question(&d->s->training, model, c, net, one, d->err);
  if (status != PZ_OK) return status;
  return pz_training_plan(d->s->by, 0, c, model, plan, dynamic_j, fits, d->err);
}

/* ---- chips of today ------------------------------------------------------------------------- */

static const char *const built[] = {"h100",   "h200",   "b200",     "tpuv5p",
                                    "tpuv6e", "mi300x", "trainium2"};

/* A model on a chip; its value stands at 0 yet.  NULL: the model does not fit. */
static enum pz_status chip_row(struct details *d, const struct pz_chip *c, const char *role,
                               uint32_t i, struct pz_step_cost *step, json_t **row) {
  struct pz_taken t = pz_chip_taken(c);
  struct pz_cluster net;
  struct pz_plan_question one;
  struct pz_found_plan x;
  struct pz_step_energy e = {0};
  char plan[PZ_PLAN_TEXT_MOST];
  bool fits = false;
  *row = NULL;
  enum pz_status status = find_plan(d, c, i, &net, &one, &x, &step->dynamic_j, &fits);
  if (status != PZ_OK || !fits) return status;
  step->step_s = x.p.step_s;
  if (!pz_tech_is_library(pz_tech_at(c->tech)))
    status = pz_step_energy(&one.job, &x.plan, &x.p, &e, d->err);
  if (status != PZ_OK) return status;
  *row = json_pack("{s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:s}", "chip", c->name,
                   "role", role, "model", d->s->o.models[i], "step_s", x.p.step_s, "samples_per_s",
                   x.p.samples_per_s, "mfu", x.p.mfu, "mfu_conventional", x.p.mfu_conventional,
                   "watts", e.watts, "joules_per_sample", e.joules_per_sample, "value", 0.0,
                   "area_mm2", t.mm2, "peak_watts", t.watts, "gemm_hz", pz_chip_gemm_hz(c),
                   "dollars", t.dollars, "plan", pz_plan_text(&x.plan, plan, sizeof plan));
  return *row ? PZ_OK : pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
}

/* None where a model does not fit. */
static enum pz_status chip_rows(struct details *d, const struct pz_chip *c, const char *role,
                                json_t *rows) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_taken taken = pz_chip_taken(c);
  json_t *own[PZ_SEARCH_MOST_MODELS] = {NULL};
  uint32_t n = d->s->o.n_models, fitting = 0;
  enum pz_status status = PZ_OK;
  for (; fitting < n && status == PZ_OK; fitting++) {
    status = chip_row(d, c, role, fitting, &steps[fitting], &own[fitting]);
    if (!own[fitting]) break;
  }
  double value = fitting == n ? pz_objective_value(&d->run->objective, steps, &taken) : 0;
  for (uint32_t i = 0; i < fitting; i++) {
    if (value > 0 && status == PZ_OK)
      status = json_object_set_new(own[i], "value", json_real(value)) == 0
                   ? append(d, rows, json_incref(own[i]))
                   : pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
    json_decref(own[i]);
  }
  pz_progress_add(d->watch.progress, 1);
  return status;
}

static enum pz_status chips_json(struct details *d, json_t *rows) {
  enum pz_status status = chip_rows(d, &d->best, "best", rows);
  for (size_t i = 0; i < sizeof built / sizeof *built && status == PZ_OK; i++) {
    struct pz_chip c;
    status = pz_chip_read(built[i], &c, d->err);
    if (status == PZ_OK) status = pz_chip_make_cold(&c, d->s->space.constants, d->err);
    if (status == PZ_OK) status = chip_rows(d, &c, "built", rows);
  }
  return status;
}

/* ---- under tighter limits ------------------------------------------------------------------- */

/* Of the search of one point. */
enum { FRONT_ROUNDS = 4 };
static const double FRONT_GAP = 0.1;
static const double front_parts[] = {0.5, 0.75};
enum { FRONT = 2 * sizeof front_parts / sizeof *front_parts };

/* The space with the node, array and HBM of the best chip alone. */
static void keep_kind(const struct details *d, struct pz_space *out) {
  struct pz_kind k = pz_space_kind(&d->s->space, d->run->best.kind);
  *out = d->s->space;
  out->hbm[0] = d->s->space.hbm[k.hbm];
  out->array[0] = d->s->space.array[k.array];
  out->node[0] = d->s->space.node[k.node];
  out->n_hbm = out->n_arrays = out->n_nodes = 1;
}

static enum pz_status front_point(struct details *d, const struct pz_space *s,
                                  const struct pz_limits *l, json_t *rows) {
  struct pz_search_question q = *pz_search_asked(d->s->search);
  struct pz_objective_run run = {.objective = d->run->objective, .most_rounds = FRONT_ROUNDS};
  struct pz_search *search = NULL;
  struct pz_error err = {0};
  struct pz_chip c;
  q.space = s;
  q.limits = *l;
  q.gap = pz_fmax(q.gap, FRONT_GAP);
  q.seconds = 0;
  q.store = NULL;
  q.progress = NULL;
  run.objective.kind = PZ_OBJECTIVE_GEOMEAN;
  enum pz_status status = pz_search_new(&q, d->s->pool, &search, &err);
  if (status == PZ_OK) status = pz_search_run(search, 0, &run, &err);
  if (status == PZ_OK) {
    pz_space_chip(s, &run.best, &c);
    struct pz_taken t = pz_chip_taken(&c);
    double gap = run.bound / run.value - 1;
    status = append(d, rows,
                    json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "chip", c.name, "throughput",
                              run.value, "area_mm2", t.mm2, "watts", t.watts, "dollars", t.dollars,
                              "limit_watts", l->watts, "limit_dollars", l->dollars, "gap",
                              isfinite(gap) ? json_real(gap) : json_null()));
  }
  pz_search_free(search);
  pz_progress_add(d->watch.progress, 1);
  if (status == PZ_NO_ANSWER) return PZ_OK; /* nothing is that small */
  return status == PZ_OK || !err.status ? status : pz_fail(d->err, status, "%s", err.message);
}

/* Watts at the price of the best chip, and its price at its watts. */
static enum pz_status front_json(struct details *d, json_t *rows) {
  struct pz_taken t = pz_chip_taken(&d->best);
  struct pz_space *s = pz_malloc(sizeof *s);
  enum pz_status status = PZ_OK;
  if (!s) return pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
  keep_kind(d, s);
  for (int i = 0; i < FRONT && status == PZ_OK; i++) {
    double part = front_parts[i % (FRONT / 2)];
    struct pz_limits l = {.mm2 = d->s->limits.mm2,
                          .watts = (i < FRONT / 2 ? part : 1) * t.watts,
                          .dollars = (i < FRONT / 2 ? 1 : part) * t.dollars};
    s->watts = l.watts; /* their clocks fall to these */
    status = front_point(d, s, &l, rows);
  }
  pz_free(s);
  return status;
}

/* ---- roofline ------------------------------------------------------------------------------- */

struct operators {
  struct details *d;
  json_t *rows;
  const char *model;
};

static enum pz_status operator_row(void *ctx, const struct pz_step_operator *o) {
  struct operators *x = ctx;
  return append(x->d, x->rows,
                json_pack("{s:s,s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:s,s:f}", "model", x->model, "layer",
                          o->layer->name, "operator", o->op->name, "direction",
                          o->op->direction == PZ_BACKWARD ? "backward" : "forward", "cores",
                          o->op->matmul_flop ? "tensor" : "vector", "operations", o->operations,
                          "hbm_bytes", o->hbm_bytes, "seconds", o->seconds, "bound", o->bound,
                          "times", o->times));
}

static enum pz_status roofline_json(struct details *d, json_t *rows) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < d->s->o.n_models && status == PZ_OK; i++) {
    struct operators x = {d, rows, d->s->o.models[i]};
    struct pz_cluster net;
    struct pz_plan_question one;
    struct pz_found_plan plan;
    double dynamic_j = 0;
    bool fits = false;
    status = find_plan(d, &d->best, i, &net, &one, &plan, &dynamic_j, &fits);
    if (status == PZ_OK && fits)
      status = pz_step_operators(&one.job, &plan.plan, operator_row, &x, d->err);
  }
  return status;
}

/* ---- schedules ------------------------------------------------------------------------------ */

/* Of a model's layers, none where its operators run one after another; *made holds them. */
static enum pz_status add_schedules(struct details *d, uint32_t i, struct pz_vec *list,
                                    struct pz_plan_schedules **made) {
  struct pz_cluster net;
  struct pz_plan_question one;
  struct pz_found_plan x;
  double dynamic_j = 0;
  bool fits = false;
  enum pz_status status = find_plan(d, &d->best, i, &net, &one, &x, &dynamic_j, &fits);
  if (status != PZ_OK || !fits || !pz_step_is_scheduled(&d->best, &x.plan)) return status;
  status =
      pz_training_schedule(d->s->training.models[i], &d->best, &net, &x.plan, NULL, made, d->err);
  for (uint32_t k = 0; status == PZ_OK && k < (*made)->n; k++) {
    (*made)->list[k].model = d->s->o.models[i];
    if (!pz_vec_push(list, &(*made)->list[k]))
      status = pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
  }
  return status;
}

static enum pz_status schedules_json(struct details *d, json_t **out) {
  struct pz_plan_schedules *made[PZ_SEARCH_MOST_MODELS] = {NULL};
  struct pz_arena arena;
  struct pz_vec list;
  enum pz_status status = PZ_OK;
  pz_arena_init(&arena, NULL);
  pz_vec_init(&list, &arena, sizeof(struct pz_layer_schedule));
  for (uint32_t i = 0; i < d->s->o.n_models && status == PZ_OK; i++)
    status = add_schedules(d, i, &list, &made[i]);
  struct pz_result_detail all = {.schedules = list.items, .n_schedules = list.n};
  struct pz_result r = {.detail = &all};
  if (status == PZ_OK && !(*out = pz_detail_json(&r)))
    status = pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
  for (uint32_t i = 0; i < d->s->o.n_models; i++) pz_plan_schedules_free(made[i]);
  pz_arena_release(&arena);
  return status;
}

/* ---- bills ---------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n >= k && strcmp(text + n - k, end) == 0;
}

/* Which sum of a bill a part belongs to; NULL: it is none. */
static const char *sum_of(const char *key) {
  if (ends_with(key, "_mm2")) return strcmp(key, "area_mm2") ? "area" : NULL;
  if (ends_with(key, "_watts")) return "watts";
  return ends_with(key, "_dollars") ? "dollars" : NULL;
}

static enum pz_status bill_rows(struct details *d, const struct pz_chip *c, const char *role,
                                json_t *rows) {
  json_t *bill = pz_bill_json(c), *v;
  const char *key;
  enum pz_status status =
      bill ? PZ_OK : pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
  json_object_foreach(bill, key, v) {
    const char *sum = sum_of(key);
    if (status != PZ_OK || !sum || !(json_number_value(v) > 0)) continue;
    status = append(d, rows,
                    json_pack("{s:s,s:s,s:s,s:s,s:f}", "role", role, "chip", c->name, "sum", sum,
                              "part", key, "amount", json_number_value(v)));
  }
  json_decref(bill);
  return status;
}

enum pz_status pz_training_detail(struct pz_study *s, struct pz_watch watch, json_t **out,
                                  struct pz_error *err) {
  struct details d = {.s = s, .run = &s->objective_run[s->n_runs - 1], .watch = watch, .err = err};
  json_t *chips = json_array(), *front = json_array(), *roofline = json_array(),
         *bills = json_array(), *layers = NULL;
  pz_space_chip(&s->space, &d.run->best, &d.best);
  pz_progress_next(watch.progress, "details", "chips", sizeof built / sizeof *built + 1 + FRONT);
  enum pz_status status = chips_json(&d, chips);
  if (status == PZ_OK) status = front_json(&d, front);
  if (status == PZ_OK) status = roofline_json(&d, roofline);
  if (status == PZ_OK) status = schedules_json(&d, &layers);
  if (status == PZ_OK) status = bill_rows(&d, &d.best, "best", bills);
  if (status == PZ_OK) status = bill_rows(&d, &s->reference_chip, "reference", bills);
  pz_progress_finish(watch.progress, NULL);
  json_t *all = json_pack("{s:o,s:o,s:o,s:o,s:o*}", "chips", chips, "front", front, "roofline",
                          roofline, "bills", bills, "layers", layers);
  if (status == PZ_OK && !all) status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the report");
  if (status == PZ_OK)
    *out = all;
  else
    json_decref(all);
  return status;
}
