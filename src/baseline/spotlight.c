/* A baseline that finds a chip by Bayesian optimisation as Spotlight does (Sakhuja, Shi, Lin, HPCA 2023).  It minimises the
 * delay of the models' operators on a single chip, one after another on all cores, and does not consider placement.
 *
 * The logarithm of the delay is modelled by a Gaussian process with a linear kernel (linear_gp.h) on logarithms of a
 * few features that matter to a designer.  optimise() evaluates a few random chips, and then rounds of those chips
 * whose predicted delay, minus its standard deviation, is least. */
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
  double score; /* predicted delay minus its standard deviation; lower is better */
  uint32_t point;
};

/* The state of the optimisation.  Delays are logarithms, see log_delay(). */
struct tuner {
  const struct pz_baseline_question *question;
  /* by model of the objective: one device computes a microbatch of one sample */
  struct pz_workload *workloads[PZ_SEARCH_MOST_MODELS];
  struct pz_cost cost;
  feature_vector *features; /* by point */
  uint32_t *order;          /* indices of all points, evaluated points first */
  uint32_t n_evaluated;
  struct candidate *candidates; /* scratch of rank_candidates() */
  struct pz_linear_gp process;
  uint64_t random; /* state of the random generator */
  uint32_t best;   /* index of the point with the least delay so far */
  double best_delay;
};

/* ---- the delay of a chip -------------------------------------------------------------------- */

/* Returns the logarithm of the product of all models' delays, so that every model has the same
 * weight.  The delay of a model is the time of a training microbatch of one sample. */
static double log_delay(struct pz_call *call, struct tuner *tuner, uint32_t point) {
  struct pz_chip chip;
  double sum = 0;
  pz_space_chip(tuner->question->task->space, &tuner->question->points[point], &chip);
  pz_cost_set_chip(&tuner->cost, &chip, &tuner->question->task->net);
  for (uint32_t model = 0; model < tuner->question->objective->n; model++) {
    const struct pz_workload *workload = tuner->workloads[model];
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

/* Sets the features of a chip.  Products of sizes are computed as integers, so that chips with
 * equal products have exactly equal features, and ties do not depend on rounding. */
static void set_features(const struct pz_chip *chip, double features[PZ_GP_FEATURES]) {
  const struct pz_tensor_cores *tensor = &chip->tensor;
  const struct pz_vector_cores *vector = &chip->vector;
  int64_t array_cells = tensor->rows * tensor->cols;
  int64_t edge_values_per_cycle = tensor->cores * (tensor->rows + tensor->cols);
  int64_t sram_bytes =
      chip->glb_bytes + tensor->cores * tensor->local_bytes + vector->cores * vector->local_bytes;
  features[0] = log((double)(vector->cores * vector->lanes));
  features[1] = log((double)edge_values_per_cycle);
  features[2] = log((double)sram_bytes);
  features[3] = log((double)(tensor->cores * array_cells));
  features[4] = log((double)array_cells);
}

/* Scales every feature to mean 0 and standard deviation 1 over the design space.  A constant feature
 * becomes 0. */
static void standardise_features(feature_vector *features, uint32_t n_points) {
  for (int k = 0; k < PZ_GP_FEATURES; k++) {
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < n_points; i++) mean += features[i][k] / n_points;
    for (uint32_t i = 0; i < n_points; i++)
      variance += (features[i][k] - mean) * (features[i][k] - mean) / n_points;
    for (uint32_t i = 0; i < n_points; i++)
      features[i][k] = variance > 1e-18 ? (features[i][k] - mean) / sqrt(variance) : 0;
  }
}

/* ---- the optimisation ----------------------------------------------------------------------- */

/* Compares two candidates for qsort(): lower scores first, then lower indices. */
static int compare_candidates(const void *left, const void *right) {
  const struct candidate *first = left, *second = right;
  if (first->score != second->score) return first->score < second->score ? -1 : 1;
  return (first->point > second->point) - (first->point < second->point);
}

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Returns whether a chip is better than the best one so far.  Of chips with equal delays the
 * smaller is better, then the one with the lower index. */
static bool is_better(const struct tuner *tuner, uint32_t point, double delay) {
  if (tuner->n_evaluated == 0) return true;
  if (delay != tuner->best_delay) return delay < tuner->best_delay;
  double area = pz_baseline_area_um2(tuner->question, point),
         best_area = pz_baseline_area_um2(tuner->question, tuner->best);
  if (area != best_area) return area < best_area;
  return point < tuner->best;
}

/* Evaluates the first n chips that were not evaluated yet, in the tuner's order. */
static void evaluate_next(struct pz_call *call, struct tuner *tuner, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t point = tuner->order[tuner->n_evaluated];
    pz_baseline_check_stop(call, tuner->question);
    double delay = log_delay(call, tuner, point);
    pz_linear_gp_add(&tuner->process, tuner->features[point], delay);
    if (is_better(tuner, point, delay)) {
      tuner->best = point;
      tuner->best_delay = delay;
    }
    tuner->n_evaluated++;
  }
}

/* Draws random candidates from the points that were not evaluated yet, sorts them by their scores,
 * and places them next in the tuner's order. */
static void rank_candidates(struct tuner *tuner) {
  uint32_t *rest = tuner->order + tuner->n_evaluated;
  uint32_t n_rest = tuner->question->n_points - tuner->n_evaluated;
  uint32_t n = smaller(n_rest, CANDIDATES);
  pz_random_draw(&tuner->random, rest, n_rest, n);
  for (uint32_t i = 0; i < n; i++) {
    double mean, deviation;
    pz_linear_gp_predict(&tuner->process, tuner->features[rest[i]], &mean, &deviation);
    tuner->candidates[i] = (struct candidate){mean - deviation, rest[i]};
  }
  qsort(tuner->candidates, n, sizeof *tuner->candidates, compare_candidates);
  for (uint32_t i = 0; i < n; i++) rest[i] = tuner->candidates[i].point;
}

/* Runs the optimisation: a few random chips, then rounds of the most promising ones.  A tenth of
 * a round is random, in case the model misleads. */
static void optimise(struct pz_call *call, struct tuner *tuner) {
  uint32_t n_points = tuner->question->n_points, warm_up = smaller(n_points, WARM_UP);
  pz_random_draw(&tuner->random, tuner->order, n_points, warm_up);
  evaluate_next(call, tuner, warm_up);
  while (tuner->n_evaluated < smaller(n_points, SAMPLES)) {
    uint32_t n_rest = n_points - tuner->n_evaluated;
    uint32_t n = smaller(smaller(ROUND_SIZE, n_rest), SAMPLES - tuner->n_evaluated);
    uint32_t n_ranked = n > RANDOM_OF_ROUND ? n - RANDOM_OF_ROUND : n;
    pz_linear_gp_fit(&tuner->process, NOISE);
    rank_candidates(tuner);
    pz_random_draw(&tuner->random, tuner->order + tuner->n_evaluated + n_ranked, n_rest - n_ranked,
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
    set_features(&chip, tuner->features[i]);
    tuner->order[i] = i;
  }
  standardise_features(tuner->features, question->n_points);
  optimise(call, tuner);
  return tuner;
}

/* Evaluates the experts' plans on the chip that the optimisation finds. */
struct pz_baseline_answer
pz_baseline_spotlight_expert(struct pz_call *call, const struct pz_baseline_question *question) {
  const struct tuner *tuner = run_tuner(call, question);
  struct pz_chip chip;
  pz_space_chip(question->task->space, &question->points[tuner->best], &chip);
  struct pz_baseline_answer answer = pz_baseline_expert(call, question, &chip);
  answer.n_evaluated = tuner->n_evaluated;
  return answer;
}

/* Finds the best plans for the chip that the optimisation finds. */
struct pz_baseline_answer
pz_baseline_spotlight_placed(struct pz_call *call, const struct pz_baseline_question *question) {
  const struct tuner *tuner = run_tuner(call, question);
  struct pz_baseline_answer answer = pz_baseline_place_point(call, question, tuner->best);
  answer.n_evaluated = tuner->n_evaluated;
  return answer;
}
