#include "box/box_details.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "box/chip_comparison.h"
#include "core/alloc.h"
#include "core/num.h"
#include "step/step_energy.h"
#include "workload/op.h"

/* ---- a judge with its reference ------------------------------------------------------------- */

struct details {
  const struct pz_range_space *s;
  const struct pz_box_options *o;
  struct pz_box best;
  struct pz_judge *judge;
  double best_value;
  struct pz_error *err;
};

static enum pz_status begin(struct details *d) {
  struct pz_chip c;
  struct pz_steps steps;
  double value = 0;
  enum pz_status status = pz_box_reference_chip(&c, d->err);
  if (status == PZ_OK) status = pz_judge_new(&d->o->question, &c, &d->judge, d->err);
  if (status != PZ_OK) return status;
  struct pz_taken taken = pz_chip_taken(&c);
  status = pz_judge_value(d->judge, &c, &taken, 0, &value, &steps, NULL, d->err);
  if (status != PZ_OK) return status;
  pz_judge_set_reference(d->judge, &steps, &taken);
  pz_box_lo(d->s, &d->best, &c);
  taken = pz_chip_taken(&c);
  return pz_judge_value(d->judge, &c, &taken, 0, &d->best_value, NULL, NULL, d->err);
}

/* ---- one step ------------------------------------------------------------------------------- */

static enum pz_status judge_step(struct details *d, const struct pz_box *b,
                                 struct pz_box_step *out) {
  struct pz_chip c;
  double value = 0;
  pz_box_lo(d->s, b, &c);
  out->taken = pz_chip_taken(&c);
  out->breaks = pz_limits_broken(&d->o->limits, &out->taken, &out->taken);
  enum pz_status status = pz_judge_value(d->judge, &c, &out->taken, 0, &value, NULL, NULL, d->err);
  out->change = value / d->best_value - 1;
  return status;
}

static bool axis_step(const struct details *d, enum pz_range_axis a, int by, struct pz_box *b,
                      struct pz_box_step *out) {
  int at = d->best.lo[a] + by;
  if (at < 0 || at >= d->s->n[a]) return false;
  *b = d->best;
  b->lo[a] = b->hi[a] = (uint8_t)at;
  out->axis = pz_range_axis_name(a);
  snprintf(out->from, sizeof out->from, "%d", d->s->value[a][d->best.lo[a]]);
  snprintf(out->to, sizeof out->to, "%d", d->s->value[a][at]);
  return true;
}

static void name_array(const struct pz_array_shape *a, char out[24]) {
  snprintf(out, 24, "%lldx%lld", (long long)a->rows, (long long)a->cols);
}

/* Kinds are node, array, HBM, the last running fastest. */
static bool kind_step(const struct details *d, bool array, int by, struct pz_box *b,
                      struct pz_box_step *out) {
  const struct pz_range_space *s = d->s;
  int hbm = (int)(d->best.kind % (uint32_t)s->n_hbm),
      rest = (int)(d->best.kind / (uint32_t)s->n_hbm);
  int shape = rest % s->n_arrays, at = (array ? shape : hbm) + by;
  if (at < 0 || at >= (array ? s->n_arrays : s->n_hbm)) return false;
  *b = d->best;
  b->kind = (uint32_t)((int)b->kind + by * (array ? s->n_hbm : 1));
  out->axis = array ? "array" : "hbm";
  if (array) {
    name_array(&s->array[shape], out->from);
    name_array(&s->array[at], out->to);
  } else {
    snprintf(out->from, sizeof out->from, "%s", pz_range_hbm_name(s, hbm));
    snprintf(out->to, sizeof out->to, "%s", pz_range_hbm_name(s, at));
  }
  return true;
}

static enum pz_status find_steps(struct details *d, struct pz_box_step *steps, uint32_t *n) {
  enum pz_status status = PZ_OK;
  struct pz_box b;
  *n = 0;
  for (int a = 0; a < PZ_RANGE_AXES + 2; a++)
    for (int by = -1; by <= 1 && status == PZ_OK; by += 2) {
      struct pz_box_step *x = &steps[*n];
      bool is = a < PZ_RANGE_AXES ? axis_step(d, (enum pz_range_axis)a, by, &b, x)
                                  : kind_step(d, a == PZ_RANGE_AXES, by, &b, x);
      if (!is) continue;
      status = judge_step(d, &b, x);
      ++*n;
    }
  return status;
}

enum pz_status pz_box_steps(const struct pz_range_space *s, const struct pz_box_options *o,
                            const struct pz_box *best, struct pz_box_step steps[PZ_BOX_MOST_STEPS],
                            uint32_t *n, struct pz_error *err) {
  struct details d = {.s = s, .o = o, .best = *best, .err = err};
  enum pz_status status = begin(&d);
  if (status == PZ_OK) status = find_steps(&d, steps, n);
  pz_judge_free(d.judge);
  return status;
}

json_t *pz_box_steps_json(const struct pz_box_step *steps, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_box_step *x = &steps[i];
    json_t *o = json_pack("{s:s,s:s,s:s,s:f,s:s?,s:f,s:f,s:f}", "axis", x->axis, "from", x->from,
                          "to", x->to, "change", x->change, "breaks", x->breaks, "area_mm2",
                          x->taken.mm2, "watts", x->taken.watts, "dollars", x->taken.dollars);
    if (json_array_append_new(list, o) != 0) return json_decref(list), NULL;
  }
  return list;
}

/* ---- chips of today ------------------------------------------------------------------------- */

static const char *const built[] = {"h100",   "h200",   "b200",     "tpuv5p",
                                    "tpuv6e", "mi300x", "trainium2"};

/* A chip in the network of the search: its value, and its energy by the best plans. */
static enum pz_status chip_row(struct details *d, const struct pz_chip *c, const char *role,
                               json_t *rows) {
  const struct pz_judge_question *q = &d->o->question;
  struct pz_found_plan plans[PZ_JUDGE_MOST_MODELS];
  struct pz_steps steps;
  double value = 0, watts = 0;
  struct pz_taken t = pz_chip_taken(c);
  struct pz_cluster net = pz_judge_cluster(q, c);
  enum pz_status status = pz_judge_value(d->judge, c, &t, 0, &value, &steps, plans, d->err);
  for (uint32_t i = 0; i < q->n_models && status == PZ_OK && value > 0; i++) {
    struct pz_plan_question one;
    struct pz_step_energy e = {0};
    status = pz_judge_plan_question(q, i, &one, d->err);
    one.job.chip = c;
    one.job.net = &net;
    if (status == PZ_OK) status = pz_step_energy(&one.job, &plans[i].plan, &plans[i].p, &e, d->err);
    char plan[PZ_PLAN_TEXT_MOST];
    watts = e.watts;
    json_t *o =
        json_pack("{s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:s}", "chip", c->name,
                  "role", role, "model", q->models[i], "step_s", plans[i].p.step_s, "samples_per_s",
                  plans[i].p.samples_per_s, "mfu", plans[i].p.mfu, "mfu_conventional",
                  plans[i].p.mfu_conventional, "watts", watts, "joules_per_sample",
                  e.joules_per_sample, "value", value, "area_mm2", t.mm2, "peak_watts", t.watts,
                  "dollars", t.dollars, "plan", pz_plan_text(&plans[i].plan, plan, sizeof plan));
    if (status == PZ_OK && json_array_append_new(rows, o) != 0)
      status = pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
  }
  return status;
}

static enum pz_status chips_json(struct details *d, json_t *rows) {
  const struct pz_comparison_question q = {.models = d->o->question};
  struct pz_chip c;
  pz_box_lo(d->s, &d->best, &c);
  enum pz_status status = chip_row(d, &c, "best", rows);
  for (size_t i = 0; i < sizeof built / sizeof *built && status == PZ_OK; i++) {
    struct pz_compared_chip x;
    status = pz_compared_chip_load(built[i], &q, &x, d->err);
    if (status == PZ_OK) status = chip_row(d, &x.chip, "built", rows);
  }
  return status;
}

/* ---- under tighter limits ------------------------------------------------------------------- */

/* Of the search of one point. */
enum { FRONT_ROUNDS = 20 };
static const double FRONT_GAP = 0.05;

/* The space with the node, array and HBM of the best chip alone. */
static void keep_kind(const struct details *d, struct pz_range_space *out) {
  uint32_t kind = d->best.kind, hbm = kind % (uint32_t)d->s->n_hbm,
           rest = kind / (uint32_t)d->s->n_hbm;
  *out = *d->s;
  out->hbm[0] = d->s->hbm[hbm];
  out->array[0] = d->s->array[rest % (uint32_t)d->s->n_arrays];
  out->node[0] = d->s->node[rest / (uint32_t)d->s->n_arrays];
  out->n_hbm = out->n_arrays = out->n_nodes = 1;
}

static enum pz_status front_point(struct details *d, const struct pz_range_space *s,
                                  const struct pz_limits *l, json_t *rows) {
  struct pz_arena arena;
  struct pz_error err = {0};
  struct pz_box_options o = *d->o;
  o.question.objective = PZ_BOX_THROUGHPUT;
  o.limits = *l;
  o.rounds = FRONT_ROUNDS;
  o.gap = pz_fmax(o.gap, FRONT_GAP);
  o.seconds = 0;
  o.progress = NULL;
  pz_arena_init(&arena, NULL);
  struct pz_box_result *r = pz_arena_alloc(&arena, 1, sizeof *r);
  enum pz_status status = r ? pz_box_search(s, &o, &arena, r, &err) : PZ_NO_MEMORY;
  if (status == PZ_OK) {
    const struct pz_taken *t = &r->best.taken;
    json_t *gap = isfinite(r->gap) ? json_real(r->gap) : json_null();
    json_t *x =
        json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "chip", r->best.chip.name, "throughput",
                  r->best.value, "area_mm2", t->mm2, "watts", t->watts, "dollars", t->dollars,
                  "limit_watts", l->watts, "limit_dollars", l->dollars, "gap", gap);
    if (json_array_append_new(rows, x) != 0) status = PZ_NO_MEMORY;
  }
  pz_arena_release(&arena);
  if (status == PZ_NO_ANSWER) return PZ_OK; /* nothing is that small */
  return status == PZ_OK ? PZ_OK : pz_fail(d->err, status, "%s", err.message);
}

/* Watts at the price of the best chip, and its price at its watts. */
static enum pz_status front_json(struct details *d, json_t *rows) {
  static const double parts[] = {0.5, 0.75};
  struct pz_chip c;
  pz_box_lo(d->s, &d->best, &c);
  struct pz_taken t = pz_chip_taken(&c);
  struct pz_range_space *s = pz_malloc(sizeof *s);
  if (!s) return pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the report");
  keep_kind(d, s);
  enum pz_status status = PZ_OK;
  for (int way = 0; way < 2; way++)
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == PZ_OK; i++) {
      struct pz_limits l = {d->o->limits.mm2, (way ? 1 : parts[i]) * t.watts,
                            (way ? parts[i] : 1) * t.dollars};
      status = front_point(d, s, &l, rows);
    }
  pz_free(s);
  return status;
}

/* ---- operators ------------------------------------------------------------------------------ */

struct operators {
  json_t *rows;
  const char *model;
  const struct pz_chip *chip;
  struct pz_error *err;
};

static enum pz_status operator_row(void *ctx, const struct pz_layer *layer, const struct pz_op *op,
                                   const struct pz_estimate *e, double times) {
  struct operators *x = ctx;
  double bytes = e->hbm_s * pz_chip_hbm_bytes_per_s(x->chip);
  json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:s,s:f}", "model", x->model, "layer",
                        layer->name, "operator", op->name, "direction",
                        op->direction == PZ_BACKWARD ? "backward" : "forward", "flop",
                        (double)op->flop, "hbm_bytes", bytes, "seconds", e->latency_s, "bound",
                        pz_bound_name(e->bound), "times", times);
  return json_array_append_new(x->rows, o) == 0
             ? PZ_OK
             : pz_fail(x->err, PZ_NO_MEMORY, "out of memory for the report");
}

static enum pz_status operators_json(struct details *d, json_t *rows) {
  const struct pz_judge_question *q = &d->o->question;
  struct pz_found_plan plans[PZ_JUDGE_MOST_MODELS];
  struct pz_chip c;
  double value = 0;
  pz_box_lo(d->s, &d->best, &c);
  struct pz_taken t = pz_chip_taken(&c);
  struct pz_cluster net = pz_judge_cluster(q, &c);
  enum pz_status status = pz_judge_value(d->judge, &c, &t, 0, &value, NULL, plans, d->err);
  for (uint32_t i = 0; i < q->n_models && status == PZ_OK; i++) {
    struct operators x = {rows, q->models[i], &c, d->err};
    struct pz_plan_question one;
    status = pz_judge_plan_question(q, i, &one, d->err);
    one.job.chip = &c;
    one.job.net = &net;
    if (status == PZ_OK)
      status = pz_step_operators(&one.job, &plans[i].plan, operator_row, &x, d->err);
  }
  return status;
}

enum pz_status pz_box_details(const struct pz_range_space *s, const struct pz_box_options *o,
                              const struct pz_box *best, json_t **out, struct pz_error *err) {
  struct details d = {.s = s, .o = o, .best = *best, .err = err};
  struct pz_box_step steps[PZ_BOX_MOST_STEPS];
  uint32_t n = 0;
  json_t *chips = json_array(), *front = json_array(), *operators = json_array();
  enum pz_status status = begin(&d);
  if (status == PZ_OK) status = find_steps(&d, steps, &n);
  if (status == PZ_OK) status = chips_json(&d, chips);
  if (status == PZ_OK) status = front_json(&d, front);
  if (status == PZ_OK) status = operators_json(&d, operators);
  pz_judge_free(d.judge);
  json_t *all = json_pack("{s:o,s:o,s:o,s:o}", "sensitivity", pz_box_steps_json(steps, n), "chips",
                          chips, "front", front, "operators", operators);
  if (status == PZ_OK && !all) status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the report");
  if (status == PZ_OK)
    *out = all;
  else
    json_decref(all);
  return status;
}
