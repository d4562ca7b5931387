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

/* Numbers of chips: all that are evaluated, the first random ones, those of a round and the random ones
 * of them, and the candidates from which a round is chosen. */
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

/* ---- the optimisation ----------------------------------------------------------------------- */

/* Compares two candidates for qsort(): lower scores first, then lower indices. */
static int compare_candidates(const void *left, const void *right) {
  const struct candidate *first = left, *second = right;
  if (first->score != second->score) return first->score < second->score ? -1 : 1;
  return (first->point > second->point) - (first->point < second->point);
}

/* Evaluates the first n chips that were not evaluated yet, in the tuner's order. */
static void evaluate_next(struct pz_call *call, struct tuner *tuner, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t point = tuner->order[tuner->n_evaluated];
    pz_baseline_check_stop(call, tuner->question);
    double delay = log_delay(call, tuner, point);
    pz_linear_gp_add(&tuner->process, tuner->features[point], delay);
    bool better = tuner->n_evaluated == 0 || delay < tuner->best_delay;
    if (!better && delay == tuner->best_delay) { /* ties: the smaller chip, then the lower index */
      double area = pz_baseline_area_um2(tuner->question, point);
      double best_area = pz_baseline_area_um2(tuner->question, tuner->best);
      better = area < best_area || (area == best_area && point < tuner->best);
    }
    if (better) {
      tuner->best = point;
      tuner->best_delay = delay;
    }
    tuner->n_evaluated++;
  }
}

/* Draws random candidates from the points that were not evaluated yet, sorts them by the lower
 * confidence bound of the fitted process, and puts them next in the order of evaluation. */
static void rank_candidates(struct tuner *tuner) {
  uint32_t *rest = tuner->order + tuner->n_evaluated;
  uint32_t n_rest = tuner->question->n_points - tuner->n_evaluated;
  uint32_t n = (uint32_t)pz_min(n_rest, CANDIDATES);
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
  uint32_t n_points = tuner->question->n_points, warm_up = (uint32_t)pz_min(n_points, WARM_UP);
  pz_random_draw(&tuner->random, tuner->order, n_points, warm_up);
  evaluate_next(call, tuner, warm_up);
  while (tuner->n_evaluated < pz_min(n_points, SAMPLES)) {
    uint32_t n_rest = n_points - tuner->n_evaluated;
    uint32_t n = (uint32_t)pz_min(pz_min(ROUND_SIZE, n_rest), SAMPLES - tuner->n_evaluated);
    uint32_t n_ranked = n > RANDOM_OF_ROUND ? n - RANDOM_OF_ROUND : n;
    pz_linear_gp_fit(&tuner->process, NOISE);
    rank_candidates(tuner);
    /* the last of the round are random: drawn from all points behind the chosen candidates */
    pz_random_draw(&tuner->random, tuner->order + tuner->n_evaluated + n_ranked, n_rest - n_ranked,
                   n - n_ranked);
    evaluate_next(call, tuner, n);
  }
}

/* ---- the baselines -------------------------------------------------------------------------- */

/* Releases the cost model and the workloads of a tuner (a callback of pz_defer). */
static void release_tuner(void *released) {
  struct tuner *tuner = released;
  pz_cost_release(&tuner->cost);
  for (int i = 0; i < PZ_SEARCH_MOST_MODELS; i++) pz_workload_free(tuner->workloads[i]);
}

/* Prepares and runs the optimisation: loads the models, computes the features of all chips, and
 * evaluates SAMPLES of them.  Returns the tuner, whose `best` is the chip that was found. */
static const struct tuner *run_tuner(struct pz_call *call,
                                     const struct pz_baseline_question *question) {
  struct tuner *tuner = pz_alloc(call, 1, sizeof *tuner);
  tuner->question = question;
  tuner->random = question->seed;
  pz_cost_init(&tuner->cost, &question->task->space->base, &question->task->net);
  pz_defer(call, release_tuner, tuner);
  for (uint32_t i = 0; i < question->objective->n; i++) {
    const char *model = question->task->portfolio->models[question->objective->models[i]];
    struct pz_workload_options options = question->task->portfolio->built;
    pz_must(call, pz_workload_load(model, &options, &tuner->workloads[i], pz_call_error(call)));
  }
  tuner->features = pz_alloc(call, question->n_points, sizeof *tuner->features);
  tuner->order = pz_alloc(call, question->n_points, sizeof *tuner->order);
  tuner->candidates = pz_alloc(call, CANDIDATES, sizeof *tuner->candidates);
  for (uint32_t i = 0; i < question->n_points; i++) {
    struct pz_chip chip;
    pz_space_chip(question->task->space, &question->points[i], &chip);
    tuner->order[i] = i;
    /* Features: numbers of vector lanes, of values that enter the arrays in a cycle, of bytes of
     * buffers, and of multipliers in all and per array.  They are products of integers, so that ties
     * do not depend on rounding. */
    const struct pz_tensor_cores *tensor = &chip.tensor;
    const struct pz_vector_cores *vector = &chip.vector;
    int64_t array_cells = tensor->rows * tensor->cols;
    int64_t edge_values_per_cycle = tensor->cores * (tensor->rows + tensor->cols);
    int64_t sram_bytes =
        chip.glb_bytes + tensor->cores * tensor->local_bytes + vector->cores * vector->local_bytes;
    double *features = tuner->features[i];
    features[0] = log((double)(vector->cores * vector->lanes));
    features[1] = log((double)edge_values_per_cycle);
    features[2] = log((double)sram_bytes);
    features[3] = log((double)(tensor->cores * array_cells));
    features[4] = log((double)array_cells);
  }
  for (int k = 0; k < PZ_GP_FEATURES; k++) {
    /* scale the feature to mean 0 and standard deviation 1; a constant feature becomes 0 */
    feature_vector *features = tuner->features;
    uint32_t n = question->n_points;
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < n; i++) mean += features[i][k] / n;
    for (uint32_t i = 0; i < n; i++)
      variance += (features[i][k] - mean) * (features[i][k] - mean) / n;
    for (uint32_t i = 0; i < n; i++)
      features[i][k] = variance > 1e-18 ? (features[i][k] - mean) / sqrt(variance) : 0;
  }
  optimise(call, tuner);
  return tuner;
}

/* Answers with the chip that Bayesian optimisation of the chip alone finds (run_tuner).  The models
 * run on it with plans of human experts (expert_plan.h) if baseline->expert is set, otherwise with
 * the best plans of the placement search. */
struct pz_baseline_answer pz_baseline_spotlight(struct pz_call *call,
                                                const struct pz_baseline *baseline,
                                                const struct pz_baseline_question *question) {
  const struct tuner *tuner = run_tuner(call, question);
  struct pz_baseline_answer answer;
  if (baseline->expert) {
    struct pz_chip chip;
    pz_space_chip(question->task->space, &question->points[tuner->best], &chip);
    answer = pz_baseline_expert(call, question, &chip);
  } else {
    answer = pz_baseline_place_point(call, question, tuner->best);
  }
  answer.n_evaluated = tuner->n_evaluated;
  return answer;
}
