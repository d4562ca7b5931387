/* A coordinate search: each round multiplies every constant by 1 + step and divides it by the same
 * factor, and keeps what lowers the loss.  If no single constant improves it, pairs of constants
 * are moved together, because a start-up time and a rate, for example, lie in a narrow valley of
 * the loss.  If that does not help either, the step is halved.  The loss of a row and the prior are
 * both in units of squared logarithms of times, so that they can be added. */
#include "cost/fit.h"

#include <math.h>
#include <stdbool.h>

/* Standard deviations of the natural logarithms of one measured time (5%), and of a constant around
 * its initial value (a factor of two). */
static const double ROW_NOISE = 0.05, CONSTANT_SPREAD = 0.7;

void pz_fit_add(struct pz_fit *fit, double *value, double min, double max) {
  if (*value > 0 && fit->n < PZ_FIT_MOST_CONSTANTS)
    fit->constants[fit->n++] = (struct pz_fit_constant){value, min, max, *value};
}

/* Returns the penalty, in units of row losses, for constants that left their initial values. */
double pz_fit_prior(const struct pz_fit *fit) {
  double sum = 0;
  for (int i = 0; i < fit->n; i++) {
    const struct pz_fit_constant *constant = &fit->constants[i];
    sum += pow(log(*constant->value / constant->initial) / CONSTANT_SPREAD, 2);
  }
  return sum * ROW_NOISE * ROW_NOISE;
}

/* Returns the loss of a row: log_ratio squared, continued as a straight line (Huber 1964). */
double pz_fit_row_loss(double log_ratio) {
  static const double LINEAR_FROM = 0.3;
  double distance = fabs(log_ratio);
  return distance < LINEAR_FROM ? log_ratio * log_ratio
                                : LINEAR_FROM * (2 * distance - LINEAR_FROM);
}

/* Multiplies constant i by factor_i and, if j is another constant, constant j by factor_j, both
 * within their ranges.  The move is kept, and *best_loss lowered, if it reduces the loss by more
 * than one part in ten thousand; otherwise it is undone. */
static bool try_move(struct pz_fit *fit, int i, double factor_i, int j, double factor_j,
                     double *best_loss) {
  static const double LEAST_GAIN = 1e-4;
  struct pz_fit_constant *first = &fit->constants[i], *second = &fit->constants[j];
  double old_first = *first->value, old_second = *second->value;
  *first->value = fmin(fmax(old_first * factor_i, first->min), first->max);
  if (j != i) *second->value = fmin(fmax(old_second * factor_j, second->min), second->max);
  double loss = fit->loss(fit->ctx);
  if (loss < *best_loss * (1 - LEAST_GAIN)) {
    *best_loss = loss;
    return true;
  }
  *first->value = old_first;
  *second->value = old_second;
  return false;
}

/* Moves the constants to the smallest loss found, by steps of 32% that are halved down to 0.5%. */
void pz_fit_search(struct pz_fit *fit) {
  static const double FIRST_STEP = 0.32, LAST_STEP = 0.005;
  enum { MOST_ROUNDS = 60, MOST_PAIRED = 6 };
  if (fit->n == 0) return;
  double best_loss = fit->loss(fit->ctx), step = FIRST_STEP;
  for (int round = 0; round < MOST_ROUNDS && step > LAST_STEP && best_loss < HUGE_VAL; round++) {
    const double factors[] = {1 + step, 1 / (1 + step)};
    bool improved = false;
    for (int i = 0; i < fit->n; i++)
      for (int up = 0; up < 2; up++)
        if (try_move(fit, i, factors[up], i, 1, &best_loss)) improved = true;
    /* Pairs of constants are tried only if there are few of them. */
    if (!improved && fit->n <= MOST_PAIRED)
      for (int i = 0; i < fit->n; i++)
        for (int j = 0; j < i; j++)
          for (int pair = 0; pair < 4; pair++)
            if (try_move(fit, i, factors[pair & 1], j, factors[pair >> 1], &best_loss))
              improved = true;
    if (!improved) step /= 2;
  }
}
