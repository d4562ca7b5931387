/* Fits the correction of a chip to measured steps (correction.h): predictions with other
 * corrections in parallel, then a Bayesian linear regression of the logarithms. */
#include "step/correction.h"

#include <math.h>
#include <string.h>

#include "core/pool.h"
#include "cost/constants.h"
#include "step/rank_alone.h"

const char *const pz_correction_names[PZ_CORRECTION_FACTORS] = {"gemms", "attention", "elementwise",
                                                                "launches", "collectives"};

/* Returns a pointer to a factor in a correction, by its index in pz_correction_names. */
double *pz_correction_factor(struct pz_correction *correction, int factor) {
  double *const factors[PZ_CORRECTION_FACTORS] = {&correction->gemms, &correction->attention,
                                                  &correction->elementwise, &correction->launches,
                                                  &correction->collectives};
  return factors[factor];
}

/* Raises an error unless the time is between that at the peak rate and 10 times the prediction. */
void pz_measured_step_check(struct pz_call *call, const char *where,
                            const struct pz_prediction *prediction, double measured_s) {
  static const double MOST = 10; /* the largest factor that a chip file accepts */
  double step_s = prediction->step_s;
  double least_s = prediction->mfu * step_s; /* the FLOP at the chip's peak rate */
  if (measured_s >= least_s && measured_s <= MOST * step_s) return;
  pz_raise(call, PZ_BAD_INPUT,
           "%s: a step of %.4g s where %.4g s are predicted, and %.4g s are the FLOP at the "
           "peak rate; accepted: seconds of one step from %.4g to %.4g",
           where, measured_s, step_s, least_s, least_s, MOST * step_s);
}

/* ---- predictions with a correction ---------------------------------------------------------- */

/* Returns the predicted seconds of a step, or of one rank alone, with a correction of the chip. */
static double corrected_step_s(struct pz_call *call, const struct pz_measured_step *step,
                               const struct pz_correction *correction) {
  struct pz_chip chip = *step->job->chip;
  struct pz_job job = *step->job;
  chip.correction = *correction;
  job.chip = &chip;
  if (step->microbatches)
    return pz_rank_alone(call, &job, step->plan, step->stage, step->microbatches).compute_s;
  return pz_predict(call, &job, step->plan, NULL).step_s;
}

/* Steps that are predicted in parallel. */
struct correction_job {
  const struct pz_measured_step *steps;
  const struct pz_correction *correction; /* NULL to find the sensitivities */
  struct pz_step_sensitivity *sensitivities;
  double *step_s;
};

/* Pool task: predicts step i with the correction, or without one finds its sensitivity to each
 * factor: the share of the step that grows with the factor, d ln(step) / d ln(factor).  For this a
 * factor is raised by 5%, half of its usual error. */
static void run_step(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  static const double CHANGE = 1.05;
  struct correction_job *job = ctx;
  const struct pz_measured_step *step = &job->steps[i];
  (void)worker;
  if (job->correction) {
    job->step_s[i] = corrected_step_s(task, step, job->correction);
    return;
  }
  struct pz_step_sensitivity *sensitivity = &job->sensitivities[i];
  const struct pz_correction none = {.steps = 0};
  sensitivity->step_s = corrected_step_s(task, step, &none);
  for (int factor = 0; factor < PZ_CORRECTION_FACTORS; factor++) {
    struct pz_correction changed = none;
    *pz_correction_factor(&changed, factor) = CHANGE;
    double ratio = corrected_step_s(task, step, &changed) / sensitivity->step_s;
    sensitivity->share[factor] = log(ratio) / log(CHANGE);
  }
}

/* Returns each step's prediction without correction, and its sensitivity to each factor. */
struct pz_step_sensitivity *pz_step_sensitivities(struct pz_call *call,
                                                  const struct pz_measured_step *steps, uint32_t n,
                                                  unsigned threads) {
  struct correction_job job = {.steps = steps};
  job.sensitivities = pz_alloc(call, n, sizeof *job.sensitivities);
  struct pz_pool *pool = pz_pool_open(call, threads);
  pz_pool_run(call, pool, n, run_step, &job);
  pz_close(call, pool);
  return job.sensitivities;
}

/* Stores the predicted seconds of each step with this correction in step_s. */
void pz_steps_corrected(struct pz_call *call, const struct pz_measured_step *steps, uint32_t n,
                        const struct pz_correction *correction, unsigned threads, double *step_s) {
  struct correction_job job = {.steps = steps, .correction = correction, .step_s = step_s};
  struct pz_pool *pool = pz_pool_open(call, threads);
  pz_pool_run(call, pool, n, run_step, &job);
  pz_close(call, pool);
}

/* ---- the fit -------------------------------------------------------------------------------- */

/* The standard deviations of logarithms that are tried: of the factors around 1, and of the
 * measured steps around their prediction (the range of the groups in bench/steps). */
static const double factor_deviations[] = {0.02, 0.05, 0.1, 0.2, 0.4};
static const double step_deviations[] = {0.03, 0.06, 0.12};
enum {
  FACTOR_DEVIATIONS = sizeof factor_deviations / sizeof *factor_deviations,
  STEP_DEVIATIONS = sizeof step_deviations / sizeof *step_deviations,
  CANDIDATES = FACTOR_DEVIATIONS * STEP_DEVIATIONS
};

/* Ranks that run alone use no network and meet no other job.  Their repetitions differ by 1%
 * (bench/rehearsals), so their standard deviation is a quarter of that of steps on clusters. */
static const double RANK_ALONE_PART = 0.25;

/* The normal equations of ln(measured / predicted) = sum of shares times logarithms of factors. */
struct normal_equations {
  double xx[PZ_CORRECTION_FACTORS][PZ_CORRECTION_FACTORS], xy[PZ_CORRECTION_FACTORS], yy;
  double n; /* runs */
};

/* Returns whether two steps measure the same run: their predictions and sensitivities are equal. */
bool pz_step_repeats(const struct pz_step_sensitivity *a, const struct pz_step_sensitivity *b) {
  return fabs(a->step_s / b->step_s - 1) < 1e-9 && memcmp(a->share, b->share, sizeof a->share) == 0;
}

/* Sums up the equations of all steps but `skip` and the other measurements of the same run.  All
 * measurements of a run weigh as much as one step. */
static struct normal_equations sum_equations(const struct pz_measured_step *steps,
                                             const struct pz_step_sensitivity *sensitivities,
                                             uint32_t n, uint32_t skip) {
  struct normal_equations sum = {.n = 0};
  for (uint32_t i = 0; i < n; i++) {
    const double *share = sensitivities[i].share;
    if (skip < n && pz_step_repeats(&sensitivities[i], &sensitivities[skip])) continue;
    double repetitions = 0;
    for (uint32_t k = 0; k < n; k++)
      repetitions += pz_step_repeats(&sensitivities[i], &sensitivities[k]);
    double y = log(steps[i].measured_s / sensitivities[i].step_s), weight = 1 / repetitions;
    for (int f = 0; f < PZ_CORRECTION_FACTORS; f++) {
      for (int g = 0; g < PZ_CORRECTION_FACTORS; g++) sum.xx[f][g] += weight * share[f] * share[g];
      sum.xy[f] += weight * share[f] * y;
    }
    sum.yy += weight * y * y;
    sum.n += weight;
  }
  return sum;
}

/* Finds the most likely logarithms of the factors for a pair of standard deviations: ridge
 * regression, whose matrix is xx / step_variance + 1 / factor_variance on the diagonal.  Returns
 * the logarithm of the marginal likelihood of the measured steps, times the prior 1 /
 * factor_deviation, up to a constant. */
static double solve_equations(const struct normal_equations *equations, double factor_deviation,
                              double step_deviation, double *logarithms) {
  enum { N = PZ_CORRECTION_FACTORS };
  double lower[N][N] = {{0}}, determinant = 0, explained = 0;
  double step_variance = step_deviation * step_deviation;
  double factor_variance = factor_deviation * factor_deviation;
  /* Cholesky decomposition of the matrix */
  for (int i = 0; i < N; i++)
    for (int j = 0; j <= i; j++) {
      double x = equations->xx[i][j] / step_variance + (i == j ? 1 / factor_variance : 0);
      for (int k = 0; k < j; k++) x -= lower[i][k] * lower[j][k];
      lower[i][j] = i == j ? sqrt(x) : x / lower[j][j];
    }
  /* forward substitution, then backward substitution */
  for (int i = 0; i < N; i++) {
    double x = equations->xy[i] / step_variance;
    for (int k = 0; k < i; k++) x -= lower[i][k] * logarithms[k];
    logarithms[i] = x / lower[i][i];
    explained += logarithms[i] * logarithms[i];
    determinant += 2 * log(lower[i][i]);
  }
  for (int i = N - 1; i >= 0; i--) {
    double x = logarithms[i];
    for (int k = i + 1; k < N; k++) x -= lower[k][i] * logarithms[k];
    logarithms[i] = x / lower[i][i];
  }
  return -0.5 * (equations->n * log(step_variance) + (N + 1) * log(factor_variance) + determinant +
                 equations->yy / step_variance - explained);
}

/* Returns the correction that fits the steps best.  Its factors are between 0.1 and 10, and the
 * chip does not exceed the peak rates of its data sheet with them. */
struct pz_correction pz_correction_fit(const struct pz_measured_step *steps,
                                       const struct pz_step_sensitivity *sensitivities, uint32_t n,
                                       uint32_t skip) {
  struct normal_equations equations = sum_equations(steps, sensitivities, n, skip);
  double logarithms[CANDIDATES][PZ_CORRECTION_FACTORS], weight[CANDIDATES];
  double most_likely = -HUGE_VAL, sum = 0;
  static const double LOW = 0.1, HIGH = 10; /* the range of a factor in a chip file */
  double deviation_part = n && steps[0].microbatches ? RANK_ALONE_PART : 1;
  struct pz_correction correction = {.steps = 0};
  /* The factors of every pair of standard deviations, weighted by the likelihood of the steps; the
   * division by the largest likelihood avoids underflow. */
  for (int i = 0; i < CANDIDATES; i++) {
    weight[i] =
        solve_equations(&equations, factor_deviations[i / STEP_DEVIATIONS],
                        deviation_part * step_deviations[i % STEP_DEVIATIONS], logarithms[i]);
    most_likely = fmax(most_likely, weight[i]);
  }
  for (int i = 0; i < CANDIDATES; i++) {
    weight[i] = exp(weight[i] - most_likely);
    sum += weight[i];
  }
  /* The least factors: a time cannot be shorter than at the peak rate, which is the efficiency that
   * the calibration assumes times the predicted time. */
  struct pz_correction least = {
      .gemms = LOW, .attention = LOW, .elementwise = LOW, .launches = LOW, .collectives = LOW};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_chip *chip = steps[i].job->chip;
    const struct pz_kernel *attention = pz_chip_kernel(chip, "attention");
    double gemms = chip->calibration.tensor_efficiency, links = chip->collectives.efficiency;
    if (!(links > 0)) links = pz_constants_default.ring_efficiency;
    least.gemms = fmax(least.gemms, gemms);
    least.attention = fmax(least.attention, attention ? attention->efficiency : gemms);
    least.elementwise = fmax(least.elementwise, chip->calibration.hbm_read_efficiency);
    least.collectives = fmax(least.collectives, links);
  }
  for (int factor = 0; factor < PZ_CORRECTION_FACTORS; factor++) {
    double mean = 0;
    for (int i = 0; i < CANDIDATES; i++) mean += weight[i] / sum * logarithms[i][factor];
    double least_factor = fmin(*pz_correction_factor(&least, factor), 1);
    *pz_correction_factor(&correction, factor) = fmin(fmax(exp(mean), least_factor), HIGH);
  }
  return correction;
}

/* Lists the first n factors of a correction in the order of pz_correction_names, each with the
 * share of a step that grows with it, on average over the n_steps steps. */
void pz_correction_tell(const struct pz_correction *correction,
                        const struct pz_step_sensitivity *sensitivities, uint32_t n_steps,
                        struct pz_step_factor *list, int n) {
  struct pz_correction copy = *correction;
  for (int factor = 0; factor < n; factor++) {
    list[factor] = (struct pz_step_factor){.name = pz_correction_names[factor],
                                           .factor = *pz_correction_factor(&copy, factor)};
    for (uint32_t i = 0; i < n_steps; i++)
      list[factor].share += sensitivities[i].share[factor] / n_steps;
  }
}
