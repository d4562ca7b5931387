/* A chip found by Bayesian optimisation in the manner of Spotlight (Sakhuja, Shi, Lin, HPCA 2023):
 * it minimises the delay of the models' operators on a single chip, one after another on all cores,
 * and knows nothing of placement.  The model of the delay is a Gaussian process with a linear
 * kernel on few features that matter to a designer; all of it is in logarithms, where products of
 * sizes are sums. */
#include <math.h>
#include <stdlib.h>

#include "baseline/baseline.h"
#include "baseline/linear_gp.h"
#include "core/alloc.h"
#include "core/num.h"

enum { SAMPLES = 100, WARM_UP = 10, EACH_ROUND = 10, AT_RANDOM = 1, CANDIDATES = 1000 };
static const double NOISE = 0.1; /* what a line in these features leaves of the delay's variance */

/* ---- the delay of a chip -------------------------------------------------------------------- */

struct delays {
  const struct pz_baseline_question *q;
  struct pz_workload *w[PZ_SEARCH_MOST_MODELS]; /* by model of the objective; whole, one sample */
  struct pz_cost cost;
};

static enum pz_status delays_init(struct delays *d, const struct pz_baseline_question *q,
                                  struct pz_error *err) {
  enum pz_status status = PZ_OK;
  *d = (struct delays){.q = q};
  pz_cost_init(&d->cost, &q->task->space->base, &q->task->net);
  for (uint32_t i = 0; i < q->objective->n && status == PZ_OK; i++) {
    uint32_t m = q->objective->models[i];
    struct pz_workload_options o = q->task->portfolio->built;
    status = pz_workload_load(q->task->portfolio->models[m], &o, &d->w[i], err);
  }
  return status;
}

static void delays_release(struct delays *d) {
  for (uint32_t i = 0; i < d->q->objective->n; i++) pz_workload_free(d->w[i]);
  pz_cost_release(&d->cost);
}

/* A training microbatch of one sample, on the chip at hand. */
static enum pz_status model_delay(struct delays *d, const struct pz_workload *w, double *s,
                                  struct pz_error *err) {
  *s = 0;
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int dir = PZ_FORWARD; dir <= PZ_BACKWARD; dir++)
      for (uint32_t k = 0; k < w->layers[i].ops[dir].n; k++) {
        struct pz_estimate e;
        enum pz_status status = pz_cost_op(&d->cost, &w->layers[i].ops[dir].op[k], &e, err);
        if (status != PZ_OK) return status;
        *s += (double)w->layers[i].count * e.latency_s;
      }
  return PZ_OK;
}

/* Several models weigh alike: the product of their delays. */
static enum pz_status log_delay(struct delays *d, uint32_t point, double *out,
                                struct pz_error *err) {
  struct pz_chip chip;
  enum pz_status status = PZ_OK;
  pz_space_chip(d->q->task->space, &d->q->points[point], &chip);
  pz_cost_set_chip(&d->cost, &chip, &d->q->task->net);
  *out = 0;
  for (uint32_t i = 0; i < d->q->objective->n && status == PZ_OK; i++) {
    double s;
    status = model_delay(d, d->w[i], &s, err);
    *out += log(s);
  }
  return status;
}

/* ---- features ------------------------------------------------------------------------------- */

/* Equal sizes give equal features to the last bit: ties do not depend on rounding. */
static void describe(const struct pz_chip *c, double x[PZ_GP_FEATURES]) {
  const struct pz_tensor_cores *t = &c->tensor;
  const struct pz_vector_cores *v = &c->vector;
  x[0] = log((double)(v->cores * v->lanes));
  x[1] = log((double)(t->cores * (t->rows + t->cols))); /* values a cycle at the arrays' edges */
  x[2] = log((double)(c->glb_bytes + t->cores * t->local_bytes + v->cores * v->local_bytes));
  x[3] = log((double)(t->cores * t->rows * t->cols));
  x[4] = log((double)(t->rows * t->cols));
}

typedef double features[PZ_GP_FEATURES];

/* Mean 0 and deviation 1 over the space; what does not vary is 0. */
static void standardise(features *x, uint32_t n) {
  for (int f = 0; f < PZ_GP_FEATURES; f++) {
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < n; i++) mean += x[i][f] / n;
    for (uint32_t i = 0; i < n; i++) variance += (x[i][f] - mean) * (x[i][f] - mean) / n;
    for (uint32_t i = 0; i < n; i++)
      x[i][f] = variance > 1e-18 ? (x[i][f] - mean) / sqrt(variance) : 0;
  }
}

/* ---- the optimisation ----------------------------------------------------------------------- */

struct candidate {
  double score;
  uint32_t point;
};

struct tuner {
  struct delays delays;
  features *x;                  /* by point */
  uint32_t *order;              /* of the points: those evaluated come first ... */
  uint32_t n_seen;              /* ... so many */
  struct candidate *candidates; /* of a round */
  struct pz_linear_gp gp;
  uint64_t random;
  uint32_t best;
  double best_delay;
};

static int by_score(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? -1 : 1;
  return (x->point > y->point) - (x->point < y->point);
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void keep_best(struct tuner *t, uint32_t point, double y) {
  const struct pz_baseline_question *q = t->delays.q;
  if (t->n_seen > 0 && y > t->best_delay) return;
  if (t->n_seen > 0 && y == t->best_delay) {
    double a = pz_baseline_area_um2(q, point), b = pz_baseline_area_um2(q, t->best);
    if (a > b || (a == b && point > t->best)) return;
  }
  t->best = point;
  t->best_delay = y;
}

/* Evaluate the next points in the order. */
static enum pz_status sample(struct tuner *t, uint32_t n, struct pz_error *err) {
  const atomic_bool *stop = t->delays.q->stop;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t point = t->order[t->n_seen];
    double y;
    if (stop && atomic_load(stop)) return pz_fail(err, PZ_STOPPED, "stopped");
    enum pz_status status = log_delay(&t->delays, point, &y, err);
    if (status != PZ_OK) return status;
    pz_linear_gp_add(&t->gp, t->x[point], y);
    keep_best(t, point, y);
    t->n_seen++;
  }
  return PZ_OK;
}

/* Random points come next in the order, the most promising first. */
static void rank_candidates(struct tuner *t) {
  uint32_t *unseen = t->order + t->n_seen, left = t->delays.q->n_points - t->n_seen;
  uint32_t n = least(left, CANDIDATES);
  pz_random_draw(&t->random, unseen, left, n);
  for (uint32_t i = 0; i < n; i++) {
    double mean, sd;
    pz_linear_gp_predict(&t->gp, t->x[unseen[i]], &mean, &sd);
    t->candidates[i] = (struct candidate){mean - sd, unseen[i]};
  }
  qsort(t->candidates, n, sizeof *t->candidates, by_score);
  for (uint32_t i = 0; i < n; i++) unseen[i] = t->candidates[i].point;
}

/* A tenth of a round's points is random, against a model that misleads. */
static enum pz_status run_round(struct tuner *t, struct pz_error *err) {
  uint32_t left = t->delays.q->n_points - t->n_seen;
  uint32_t n = least(least(EACH_ROUND, left), SAMPLES - t->n_seen);
  pz_linear_gp_fit(&t->gp, NOISE);
  rank_candidates(t);
  uint32_t ranked = n > AT_RANDOM ? n - AT_RANDOM : n;
  pz_random_draw(&t->random, t->order + t->n_seen + ranked, left - ranked, n - ranked);
  return sample(t, n, err);
}

static enum pz_status optimise(struct tuner *t, struct pz_error *err) {
  uint32_t n_points = t->delays.q->n_points, warm_up = least(n_points, WARM_UP);
  pz_random_draw(&t->random, t->order, n_points, warm_up);
  enum pz_status status = sample(t, warm_up, err);
  while (status == PZ_OK && t->n_seen < least(n_points, SAMPLES)) status = run_round(t, err);
  return status;
}

static enum pz_status tuner_init(struct tuner *t, const struct pz_baseline_question *q,
                                 struct pz_error *err) {
  *t = (struct tuner){.random = q->seed};
  enum pz_status status = delays_init(&t->delays, q, err);
  t->x = pz_calloc(q->n_points, sizeof *t->x);
  t->order = pz_calloc(q->n_points, sizeof *t->order);
  t->candidates = pz_calloc(CANDIDATES, sizeof *t->candidates);
  if (!t->x || !t->order || !t->candidates)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the optimisation");
  for (uint32_t i = 0; i < q->n_points; i++) {
    struct pz_chip chip;
    pz_space_chip(q->task->space, &q->points[i], &chip);
    describe(&chip, t->x[i]);
    t->order[i] = i;
  }
  standardise(t->x, q->n_points);
  return status;
}

static void tuner_release(struct tuner *t) {
  delays_release(&t->delays);
  pz_free(t->x);
  pz_free(t->order);
  pz_free(t->candidates);
}

/* ---- the rows ------------------------------------------------------------------------------- */

static enum pz_status find_chip(const struct pz_baseline_question *q, uint32_t *point,
                                uint32_t *n_seen, struct pz_error *err) {
  struct tuner t;
  enum pz_status status = tuner_init(&t, q, err);
  if (status == PZ_OK) status = optimise(&t, err);
  *point = t.best;
  *n_seen = t.n_seen;
  tuner_release(&t);
  return status;
}

enum pz_status pz_baseline_spotlight_expert(const struct pz_baseline_question *q,
                                            struct pz_baseline_answer *out, struct pz_error *err) {
  struct pz_chip chip;
  uint32_t point, n_seen;
  enum pz_status status = find_chip(q, &point, &n_seen, err);
  if (status != PZ_OK) return status;
  pz_space_chip(q->task->space, &q->points[point], &chip);
  status = pz_baseline_expert(q, &chip, out, err);
  if (status == PZ_OK) out->n_evaluated = n_seen;
  return status;
}

enum pz_status pz_baseline_spotlight_placed(const struct pz_baseline_question *q,
                                            struct pz_baseline_answer *out, struct pz_error *err) {
  uint32_t point, n_seen;
  enum pz_status status = find_chip(q, &point, &n_seen, err);
  if (status == PZ_OK) status = pz_baseline_place_point(q, point, 0, out, err);
  if (status == PZ_OK) out->n_evaluated = n_seen;
  return status;
}
