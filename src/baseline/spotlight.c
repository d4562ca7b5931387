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
  const struct pz_baseline_question *question;
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

/* Logarithm of the product of all models' delays, so that every model has the same weight.  The
 * delay of a model is the time of a training microbatch of one sample. */
static double log_delay(struct pz_call *call, struct tuner *tuner, uint32_t point) {
  struct pz_chip chip;
  double sum = 0;
  pz_space_chip(tuner->question->task->space, &tuner->question->points[point], &chip);
  pz_cost_set_chip(&tuner->cost, &chip, &tuner->question->task->net);
  for (uint32_t m = 0; m < tuner->question->objective->n; m++) {
    const struct pz_workload *workload = tuner->workloads[m];
    double delay_s = 0;
    for (uint32_t i = 0; i < workload->n_layers; i++)
      for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
        const struct pz_ops *ops = &workload->layers[i].ops[direction];
        for (uint32_t k = 0; k < ops->n; k++) {
          struct pz_estimate estimate = pz_estimate_op(call, &tuner->cost, &ops->op[k], NULL);
          delay_s += (double)workload->layers[i].count * estimate.latency_s;
        }
      }
    sum += log(delay_s);
  }
  return sum;
}

/* ---- features ------------------------------------------------------------------------------- */

/* Sets the features of a chip.  Products of sizes are exact integers: chips with equal products
 * have equal features to the last bit, so that ties do not depend on rounding. */
static void describe_chip(const struct pz_chip *chip, double x[PZ_GP_FEATURES]) {
  const struct pz_tensor_cores *tensor_cores = &chip->tensor;
  const struct pz_vector_cores *vector_cores = &chip->vector;
  x[0] = log((double)(vector_cores->cores * vector_cores->lanes));
  x[1] = log((double)(tensor_cores->cores *
                      (tensor_cores->rows +
                       tensor_cores->cols))); /* values per cycle at the arrays' edges */
  x[2] = log((double)(chip->glb_bytes + tensor_cores->cores * tensor_cores->local_bytes +
                      vector_cores->cores * vector_cores->local_bytes));
  x[3] = log((double)(tensor_cores->cores * tensor_cores->rows * tensor_cores->cols));
  x[4] = log((double)(tensor_cores->rows * tensor_cores->cols));
}

/* ---- the optimisation ----------------------------------------------------------------------- */

static int compare_candidates(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? -1 : 1;
  return (x->point > y->point) - (x->point < y->point);
}

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Returns whether a chip is better than the best one so far.  Of chips with equal delays the
 * smaller is better, then the one with the lower index. */
static bool is_better(const struct tuner *tuner, uint32_t point, double delay) {
  if (tuner->n_seen == 0) return true;
  if (delay != tuner->best_delay) return delay < tuner->best_delay;
  double area = pz_baseline_area_um2(tuner->question, point),
         best_area = pz_baseline_area_um2(tuner->question, tuner->best);
  if (area != best_area) return area < best_area;
  return point < tuner->best;
}

/* Evaluates the next n chips in the order. */
static void evaluate_next(struct pz_call *call, struct tuner *tuner, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t point = tuner->order[tuner->n_seen];
    pz_baseline_check_stop(call, tuner->question);
    double delay = log_delay(call, tuner, point);
    pz_linear_gp_add(&tuner->gp, tuner->features[point], delay);
    if (is_better(tuner, point, delay)) {
      tuner->best = point;
      tuner->best_delay = delay;
    }
    tuner->n_seen++;
  }
}

/* Draws random points to the front of the unseen ones, and sorts them, the most promising first. */
static void rank_candidates(struct tuner *tuner) {
  uint32_t *unseen = tuner->order + tuner->n_seen,
           n_unseen = tuner->question->n_points - tuner->n_seen;
  uint32_t n = smaller(n_unseen, CANDIDATES);
  pz_random_draw(&tuner->random, unseen, n_unseen, n);
  for (uint32_t i = 0; i < n; i++) {
    double mean, sd;
    pz_linear_gp_predict(&tuner->gp, tuner->features[unseen[i]], &mean, &sd);
    tuner->candidates[i] = (struct candidate){mean - sd, unseen[i]};
  }
  qsort(tuner->candidates, n, sizeof *tuner->candidates, compare_candidates);
  for (uint32_t i = 0; i < n; i++) unseen[i] = tuner->candidates[i].point;
}

/* Runs the optimisation: a few random chips, then rounds of the most promising ones.  A tenth of
 * a round is random, in case the model misleads. */
static void optimise(struct pz_call *call, struct tuner *tuner) {
  uint32_t n_points = tuner->question->n_points, warm_up = smaller(n_points, WARM_UP);
  pz_random_draw(&tuner->random, tuner->order, n_points, warm_up);
  evaluate_next(call, tuner, warm_up);
  while (tuner->n_seen < smaller(n_points, SAMPLES)) {
    uint32_t n_unseen = n_points - tuner->n_seen;
    uint32_t n = smaller(smaller(ROUND_SIZE, n_unseen), SAMPLES - tuner->n_seen);
    uint32_t n_ranked = n > RANDOM_OF_ROUND ? n - RANDOM_OF_ROUND : n;
    pz_linear_gp_fit(&tuner->gp, NOISE);
    rank_candidates(tuner);
    pz_random_draw(&tuner->random, tuner->order + tuner->n_seen + n_ranked, n_unseen - n_ranked,
                   n - n_ranked);
    evaluate_next(call, tuner, n);
  }
}

/* ---- the baselines -------------------------------------------------------------------------- */

static void release_cost(void *cost) { pz_cost_release(cost); }
static void free_workload(void *workload) { pz_workload_free(workload); }

/* Returns a tuner that has run the optimisation. */
static const struct tuner *run_tuner(struct pz_call *call,
                                     const struct pz_baseline_question *question) {
  struct tuner *tuner = pz_alloc(call, 1, sizeof *tuner);
  tuner->question = question;
  tuner->random = question->seed;
  pz_cost_init(&tuner->cost, &question->task->space->base, &question->task->net);
  pz_defer(call, release_cost, &tuner->cost);
  for (uint32_t i = 0; i < question->objective->n; i++) {
    const char *model = question->task->portfolio->models[question->objective->models[i]];
    struct pz_workload_options options = question->task->portfolio->built;
    pz_must(call, pz_workload_load(model, &options, &tuner->workloads[i], pz_call_error(call)));
    pz_defer(call, free_workload, tuner->workloads[i]);
  }
  tuner->features = pz_alloc(call, question->n_points, sizeof *tuner->features);
  tuner->order = pz_alloc(call, question->n_points, sizeof *tuner->order);
  tuner->candidates = pz_alloc(call, CANDIDATES, sizeof *tuner->candidates);
  for (uint32_t i = 0; i < question->n_points; i++) {
    struct pz_chip chip;
    pz_space_chip(question->task->space, &question->points[i], &chip);
    describe_chip(&chip, tuner->features[i]);
    tuner->order[i] = i;
  }
  /* Scales every feature to mean 0 and standard deviation 1 over the space; a constant feature
   * becomes 0. */
  feature_vector *x = tuner->features;
  uint32_t n = question->n_points;
  for (int f = 0; f < PZ_GP_FEATURES; f++) {
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < n; i++) mean += x[i][f] / n;
    for (uint32_t i = 0; i < n; i++) variance += (x[i][f] - mean) * (x[i][f] - mean) / n;
    for (uint32_t i = 0; i < n; i++)
      x[i][f] = variance > 1e-18 ? (x[i][f] - mean) / sqrt(variance) : 0;
  }
  optimise(call, tuner);
  return tuner;
}

/* The chip with the least delay found by Bayesian optimisation, with the experts' plans. */
struct pz_baseline_answer
pz_baseline_spotlight_expert(struct pz_call *call, const struct pz_baseline_question *question) {
  const struct tuner *tuner = run_tuner(call, question);
  struct pz_chip chip;
  pz_space_chip(question->task->space, &question->points[tuner->best], &chip);
  struct pz_baseline_answer answer = pz_baseline_expert(call, question, &chip);
  answer.n_evaluated = tuner->n_seen;
  return answer;
}

/* The chip with the least delay found by Bayesian optimisation, with the best plans for it. */
struct pz_baseline_answer
pz_baseline_spotlight_placed(struct pz_call *call, const struct pz_baseline_question *question) {
  const struct tuner *tuner = run_tuner(call, question);
  struct pz_baseline_answer answer = pz_baseline_place_point(call, question, tuner->best);
  answer.n_evaluated = tuner->n_seen;
  return answer;
}
