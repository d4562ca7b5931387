/* A chip found by Bayesian optimisation in the manner of Spotlight (Sakhuja, Shi, Lin, HPCA 2023).  It minimises the
 * delay of the models' operators on a single chip, one after another on all cores, and knows nothing of placement.
 *
 * The delay is modelled by a Gaussian process with a linear kernel (linear_gp.h) on a few features that matter to a
 * designer.  Everything is in logarithms, in which products of sizes are sums.  optimise() evaluates a few random
 * chips, and then rounds of those whose predicted delay, minus its standard deviation, is least. */
#include <math.h>
#include <stdlib.h>

#include "baseline/baseline.h"
#include "baseline/linear_gp.h"
#include "core/num.h"

enum { SAMPLES = 100, WARM_UP = 10, ROUND_SIZE = 10, RANDOM_OF_ROUND = 1, CANDIDATES = 1000 };

/* The part of the delay's variance that a linear function of these features does not explain. */
static const double NOISE = 0.1;

typedef double feature_vector[PZ_GP_FEATURES];

struct candidate {
  double score;
  uint32_t point;
};

struct tuner {
  const struct pz_baseline_question *q;
  struct pz_workload
      *workloads[PZ_SEARCH_MOST_MODELS]; /* of each model of the objective; undivided, one sample */
  struct pz_cost cost;
  feature_vector *features; /* of each point */
  uint32_t *order;          /* the points: the n_seen that were evaluated first */
  uint32_t n_seen;
  struct candidate *candidates; /* of a round */
  struct pz_linear_gp gp;
  uint64_t random;
  uint32_t best;
  double best_delay;
};

/* ---- the delay of a chip -------------------------------------------------------------------- */

/* Logarithm of the product of all models' delays, so that every model has the same weight.  The delay of a model is the
 * time of a training microbatch of one sample. */
static double log_delay(struct pz_call *call, struct tuner *t, uint32_t point) {
  struct pz_chip chip;
  double sum = 0;
  pz_space_chip(t->q->task->space, &t->q->points[point], &chip);
  pz_cost_set_chip(&t->cost, &chip, &t->q->task->net);
  for (uint32_t m = 0; m < t->q->objective->n; m++) {
    const struct pz_workload *w = t->workloads[m];
    double delay_s = 0;
    for (uint32_t i = 0; i < w->n_layers; i++)
      for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
        const struct pz_ops *ops = &w->layers[i].ops[direction];
        for (uint32_t k = 0; k < ops->n; k++) {
          struct pz_estimate e;
          pz_must(call, pz_cost_op(&t->cost, &ops->op[k], &e, pz_call_error(call)));
          delay_s += (double)w->layers[i].count * e.latency_s;
        }
      }
    sum += log(delay_s);
  }
  return sum;
}

/* ---- features ------------------------------------------------------------------------------- */

/* Products of sizes are exact integers: chips with equal products have equal features to the last bit, so that ties do
 * not depend on rounding. */
static void describe_chip(const struct pz_chip *c, double x[PZ_GP_FEATURES]) {
  const struct pz_tensor_cores *t = &c->tensor;
  const struct pz_vector_cores *v = &c->vector;
  x[0] = log((double)(v->cores * v->lanes));
  x[1] = log((double)(t->cores * (t->rows + t->cols))); /* values per cycle at the arrays' edges */
  x[2] = log((double)(c->glb_bytes + t->cores * t->local_bytes + v->cores * v->local_bytes));
  x[3] = log((double)(t->cores * t->rows * t->cols));
  x[4] = log((double)(t->rows * t->cols));
}

/* Scales every feature to mean 0 and standard deviation 1 over the space; a constant feature becomes 0. */
static void standardise(feature_vector *x, uint32_t n) {
  for (int f = 0; f < PZ_GP_FEATURES; f++) {
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < n; i++) mean += x[i][f] / n;
    for (uint32_t i = 0; i < n; i++) variance += (x[i][f] - mean) * (x[i][f] - mean) / n;
    for (uint32_t i = 0; i < n; i++)
      x[i][f] = variance > 1e-18 ? (x[i][f] - mean) / sqrt(variance) : 0;
  }
}

/* ---- the optimisation ----------------------------------------------------------------------- */

static int compare_candidates(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? -1 : 1;
  return (x->point > y->point) - (x->point < y->point);
}

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Of chips with equal delays the smaller is better, then the one with the lower index. */
static bool is_better(const struct tuner *t, uint32_t point, double delay) {
  if (t->n_seen == 0) return true;
  if (delay != t->best_delay) return delay < t->best_delay;
  double area = pz_baseline_area_um2(t->q, point), best_area = pz_baseline_area_um2(t->q, t->best);
  if (area != best_area) return area < best_area;
  return point < t->best;
}

/* Evaluates the next n points in the order. */
static void evaluate_next(struct pz_call *call, struct tuner *t, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t point = t->order[t->n_seen];
    pz_baseline_check_stop(call, t->q);
    double delay = log_delay(call, t, point);
    pz_linear_gp_add(&t->gp, t->features[point], delay);
    if (is_better(t, point, delay)) {
      t->best = point;
      t->best_delay = delay;
    }
    t->n_seen++;
  }
}

/* Draws random points to the front of the unseen ones, and sorts them, the most promising first. */
static void rank_candidates(struct tuner *t) {
  uint32_t *unseen = t->order + t->n_seen, n_unseen = t->q->n_points - t->n_seen;
  uint32_t n = smaller(n_unseen, CANDIDATES);
  pz_random_draw(&t->random, unseen, n_unseen, n);
  for (uint32_t i = 0; i < n; i++) {
    double mean, sd;
    pz_linear_gp_predict(&t->gp, t->features[unseen[i]], &mean, &sd);
    t->candidates[i] = (struct candidate){mean - sd, unseen[i]};
  }
  qsort(t->candidates, n, sizeof *t->candidates, compare_candidates);
  for (uint32_t i = 0; i < n; i++) unseen[i] = t->candidates[i].point;
}

/* A tenth of a round's points is random, in case the model misleads. */
static void optimise(struct pz_call *call, struct tuner *t) {
  uint32_t n_points = t->q->n_points, warm_up = smaller(n_points, WARM_UP);
  pz_random_draw(&t->random, t->order, n_points, warm_up);
  evaluate_next(call, t, warm_up);
  while (t->n_seen < smaller(n_points, SAMPLES)) {
    uint32_t n_unseen = n_points - t->n_seen;
    uint32_t n = smaller(smaller(ROUND_SIZE, n_unseen), SAMPLES - t->n_seen);
    uint32_t n_ranked = n > RANDOM_OF_ROUND ? n - RANDOM_OF_ROUND : n;
    pz_linear_gp_fit(&t->gp, NOISE);
    rank_candidates(t);
    pz_random_draw(&t->random, t->order + t->n_seen + n_ranked, n_unseen - n_ranked, n - n_ranked);
    evaluate_next(call, t, n);
  }
}

/* ---- the baselines -------------------------------------------------------------------------- */

static void release_cost(void *cost) { pz_cost_release(cost); }
static void free_workload(void *workload) { pz_workload_free(workload); }

/* Returns a tuner that has finished. */
static const struct tuner *run_tuner(struct pz_call *call, const struct pz_baseline_question *q) {
  struct tuner *t = pz_alloc(call, 1, sizeof *t);
  t->q = q;
  t->random = q->seed;
  pz_cost_init(&t->cost, &q->task->space->base, &q->task->net);
  pz_defer(call, release_cost, &t->cost);
  for (uint32_t i = 0; i < q->objective->n; i++) {
    const char *model = q->task->portfolio->models[q->objective->models[i]];
    struct pz_workload_options o = q->task->portfolio->built;
    pz_must(call, pz_workload_load(model, &o, &t->workloads[i], pz_call_error(call)));
    pz_defer(call, free_workload, t->workloads[i]);
  }
  t->features = pz_alloc(call, q->n_points, sizeof *t->features);
  t->order = pz_alloc(call, q->n_points, sizeof *t->order);
  t->candidates = pz_alloc(call, CANDIDATES, sizeof *t->candidates);
  for (uint32_t i = 0; i < q->n_points; i++) {
    struct pz_chip chip;
    pz_space_chip(q->task->space, &q->points[i], &chip);
    describe_chip(&chip, t->features[i]);
    t->order[i] = i;
  }
  standardise(t->features, q->n_points);
  optimise(call, t);
  return t;
}

struct pz_baseline_answer pz_baseline_spotlight_expert(struct pz_call *call,
                                                       const struct pz_baseline_question *q) {
  const struct tuner *t = run_tuner(call, q);
  struct pz_chip chip;
  pz_space_chip(q->task->space, &q->points[t->best], &chip);
  struct pz_baseline_answer answer = pz_baseline_expert(call, q, &chip);
  answer.n_evaluated = t->n_seen;
  return answer;
}

struct pz_baseline_answer pz_baseline_spotlight_placed(struct pz_call *call,
                                                       const struct pz_baseline_question *q) {
  const struct tuner *t = run_tuner(call, q);
  struct pz_baseline_answer answer = pz_baseline_place_point(call, q, t->best);
  answer.n_evaluated = t->n_seen;
  return answer;
}
