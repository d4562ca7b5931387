#include "step/correction.h"

#include <math.h>
#include <string.h>

#include "core/pool.h"
#include "cost/constants.h"
#include "step/rank_alone.h"

const char *const pz_correction_names[PZ_CORRECTION_FACTORS] = {"gemms", "attention", "elementwise",
                                                                "launches", "collectives"};

double *pz_correction_factor(struct pz_correction *c, int factor) {
  double *const all[PZ_CORRECTION_FACTORS] = {&c->gemms, &c->attention, &c->elementwise,
                                              &c->launches, &c->collectives};
  return all[factor];
}

void pz_measured_step_check(struct pz_call *call, const char *where, const struct pz_prediction *p,
                            double measured_s) {
  static const double MOST = 10;       /* what a chip file accepts as a factor */
  double least_s = p->mfu * p->step_s; /* of the FLOP at the chip's peak */
  if (measured_s >= least_s && measured_s <= MOST * p->step_s) return;
  pz_raise(call, PZ_BAD_INPUT,
           "%s: a step of %.4g s where %.4g s are predicted, and %.4g s are the FLOP at the "
           "peak rate; accepted: seconds of one step from %.4g to %.4g",
           where, measured_s, p->step_s, least_s, least_s, MOST * p->step_s);
}

/* ---- steps with a correction ------------------------------------------------------------------ */

struct corrected_job {
  const struct pz_measured_step *steps;
  const struct pz_correction *correction; /* NULL: its sensitivities */
  struct pz_step_sensitivity *sensitivity;
  double *step_s;
};

static double price(struct pz_call *call, const struct pz_measured_step *m,
                    const struct pz_correction *c) {
  struct pz_chip chip = *m->job->chip;
  struct pz_job job = *m->job;
  chip.correction = *c;
  job.chip = &chip;
  if (m->microbatches)
    return pz_rank_alone(call, &job, m->plan, m->stage, m->microbatches).compute_s;
  return pz_predict(call, &job, m->plan, NULL).step_s;
}

/* By half of what the factor of a part usually is off, so that what it hides behind counts as it does then. */
static void find_shares(struct pz_call *call, const struct pz_measured_step *m,
                        struct pz_step_sensitivity *out) {
  static const double CHANGE = 1.05;
  struct pz_correction none = {.steps = 0};
  out->step_s = price(call, m, &none);
  for (int f = 0; f < PZ_CORRECTION_FACTORS; f++) {
    struct pz_correction c = none;
    *pz_correction_factor(&c, f) = CHANGE;
    out->share[f] = log(price(call, m, &c) / out->step_s) / log(CHANGE);
  }
}

static void run_step(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct corrected_job *j = ctx;
  (void)worker;
  if (j->correction)
    j->step_s[i] = price(task, &j->steps[i], j->correction);
  else
    find_shares(task, &j->steps[i], &j->sensitivity[i]);
}

static void run_all(struct pz_call *call, struct corrected_job *j, uint32_t n, unsigned threads) {
  struct pz_pool *pool = pz_pool_open(call, threads);
  pz_pool_run(call, pool, n, run_step, j);
  pz_close(call, pool);
}

struct pz_step_sensitivity *pz_step_sensitivities(struct pz_call *call,
                                                  const struct pz_measured_step *steps, uint32_t n,
                                                  unsigned threads) {
  struct corrected_job j = {.steps = steps,
                            .sensitivity = pz_alloc(call, n, sizeof *j.sensitivity)};
  run_all(call, &j, n, threads);
  return j.sensitivity;
}

void pz_steps_corrected(struct pz_call *call, const struct pz_measured_step *steps, uint32_t n,
                        const struct pz_correction *c, unsigned threads, double *step_s) {
  struct corrected_job j = {.steps = steps, .correction = c, .step_s = step_s};
  run_all(call, &j, n, threads);
}

/* ---- the fit ------------------------------------------------------------------------------------ */

/* Standard deviations in logarithms that are tried: of factors around 1, from less than runs of one script differ by to 1.5
 * times; of steps around the prediction, from the best groups of published runs to those that vary most (bench/steps).
 * Beforehand large factors are less likely, by as much as their spread is wider. */
static const double factor_spreads[] = {0.02, 0.05, 0.1, 0.2, 0.4};
static const double step_spreads[] = {0.03, 0.06, 0.12};

/* Ranks that run alone meet no network and no other job: repetitions differ by 1% (bench/rehearsals), so their spread around
 * the corrected prediction is a quarter of that of steps on clusters. */
static const double ALONE = 0.25;
enum {
  FACTOR_SPREADS = sizeof factor_spreads / sizeof *factor_spreads,
  STEP_SPREADS = sizeof step_spreads / sizeof *step_spreads
};

/* Normal equations of ln(measured / predicted) = sum of shares times logarithms of factors. */
struct normal {
  double xx[PZ_CORRECTION_FACTORS][PZ_CORRECTION_FACTORS], xy[PZ_CORRECTION_FACTORS], yy;
  double n; /* runs */
};

bool pz_step_repeats(const struct pz_step_sensitivity *a, const struct pz_step_sensitivity *b) {
  return fabs(a->step_s / b->step_s - 1) < 1e-9 && memcmp(a->share, b->share, sizeof a->share) == 0;
}

/* Steps of the run of step i, itself included. */
static double repeats_of(const struct pz_step_sensitivity *s, uint32_t n, uint32_t i) {
  double sum = 0;
  for (uint32_t k = 0; k < n; k++) sum += pz_step_repeats(&s[i], &s[k]);
  return sum;
}

static struct normal normal_of(const struct pz_measured_step *steps,
                               const struct pz_step_sensitivity *s, uint32_t n, uint32_t skip) {
  struct normal a = {.n = 0};
  for (uint32_t i = 0; i < n; i++) {
    if (skip < n && pz_step_repeats(&s[i], &s[skip])) continue;
    double y = log(steps[i].measured_s / s[i].step_s), part = 1 / repeats_of(s, n, i);
    for (int f = 0; f < PZ_CORRECTION_FACTORS; f++) {
      for (int g = 0; g < PZ_CORRECTION_FACTORS; g++)
        a.xx[f][g] += part * s[i].share[f] * s[i].share[g];
      a.xy[f] += part * s[i].share[f] * y;
    }
    a.yy += part * y * y;
    a.n += part;
  }
  return a;
}

/* The most likely logarithms with these spreads; returns the logarithm of how likely they make the steps, up to a
 * constant. */
static double solve(const struct normal *a, double factor, double step, double *w) {
  enum { N = PZ_CORRECTION_FACTORS };
  double l[N][N] = {{0}}, v = step * step, t = factor * factor, determinant = 0, explained = 0;
  for (int i = 0; i < N; i++) /* Cholesky */
    for (int j = 0; j <= i; j++) {
      double x = a->xx[i][j] / v + (i == j ? 1 / t : 0);
      for (int k = 0; k < j; k++) x -= l[i][k] * l[j][k];
      l[i][j] = i == j ? sqrt(x) : x / l[j][j];
    }
  for (int i = 0; i < N; i++) {
    double x = a->xy[i] / v;
    for (int k = 0; k < i; k++) x -= l[i][k] * w[k];
    w[i] = x / l[i][i];
    explained += w[i] * w[i];
    determinant += 2 * log(l[i][i]);
  }
  for (int i = N; i-- > 0;) {
    double x = w[i];
    for (int k = i + 1; k < N; k++) x -= l[k][i] * w[k];
    w[i] = x / l[i][i];
  }
  return -0.5 * (a->n * log(v) + (N + 1) * log(t) + determinant + a->yy / v - explained);
}

/* The factor with which a part would reach the peak rate of the chip's data sheet: no step is told with less. */
static double least_factor(const struct pz_chip *c, int factor) {
  const struct pz_kernel *attention = pz_chip_kernel(c, "attention");
  double links = c->collectives.efficiency > 0 ? c->collectives.efficiency
                                               : pz_constants_default.ring_efficiency;
  const double least[PZ_CORRECTION_FACTORS] = {c->calibration.tensor_efficiency,
                                               attention ? attention->efficiency
                                                         : c->calibration.tensor_efficiency,
                                               c->calibration.hbm_read_efficiency, 0.1, links};
  return fmax(least[factor], 0.1);
}

struct pz_correction pz_correction_fit(const struct pz_measured_step *steps,
                                       const struct pz_step_sensitivity *s, uint32_t n,
                                       uint32_t skip) {
  struct normal a = normal_of(steps, s, n, skip);
  double w[FACTOR_SPREADS * STEP_SPREADS][PZ_CORRECTION_FACTORS];
  double likely[FACTOR_SPREADS * STEP_SPREADS], most = -HUGE_VAL, sum = 0;
  double part = n && steps[0].microbatches ? ALONE : 1;
  struct pz_correction out = {.steps = 0};
  for (int i = 0; i < FACTOR_SPREADS * STEP_SPREADS; i++) {
    likely[i] =
        solve(&a, factor_spreads[i / STEP_SPREADS], part * step_spreads[i % STEP_SPREADS], w[i]);
    most = fmax(most, likely[i]);
  }
  for (int i = 0; i < FACTOR_SPREADS * STEP_SPREADS; i++) sum += likely[i] = exp(likely[i] - most);
  for (int f = 0; f < PZ_CORRECTION_FACTORS; f++) {
    double mean = 0;
    for (int i = 0; i < FACTOR_SPREADS * STEP_SPREADS; i++) mean += likely[i] / sum * w[i][f];
    double least = 0.1;
    for (uint32_t i = 0; i < n; i++) least = fmax(least, least_factor(steps[i].job->chip, f));
    *pz_correction_factor(&out, f) = fmin(fmax(exp(mean), fmin(least, 1)), 10);
  }
  return out;
}

void pz_correction_tell(const struct pz_correction *c, const struct pz_step_sensitivity *s,
                        uint32_t n_steps, struct pz_step_factor *list, int n) {
  struct pz_correction copy = *c;
  for (int f = 0; f < n; f++) {
    list[f] = (struct pz_step_factor){.name = pz_correction_names[f],
                                      .factor = *pz_correction_factor(&copy, f)};
    for (uint32_t i = 0; i < n_steps; i++) list[f].share += s[i].share[f] / n_steps;
  }
}
