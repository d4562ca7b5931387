#include "cost/fit.h"

#include <math.h>
#include <stdbool.h>

/* What a row's time may be off by, and a constant from its first value: one standard deviation each. */
static const double NOISE = 0.05, DOUBT = 0.7; /* 5%; a factor of two */

void pz_fit_add(struct pz_fit *f, double *at, double min, double max) {
  if (*at > 0 && f->n < PZ_FIT_MOST_CONSTANTS)
    f->v[f->n++] = (struct pz_fit_constant){at, min, max, *at};
}

double pz_fit_prior(const struct pz_fit *f) {
  double sum = 0;
  for (int i = 0; i < f->n; i++) sum += pow(log(*f->v[i].at / f->v[i].first) / DOUBT, 2);
  return sum * NOISE * NOISE;
}

double pz_fit_row_loss(double e) {
  static const double FAR = 0.3;
  return fabs(e) < FAR ? e * e : FAR * (2 * fabs(e) - FAR);
}

/* Multiply constant i by a within its range, and another one by b.  Keeps what makes the loss smaller by more than a
 * ten-thousandth. */
static bool try_move(struct pz_fit *f, int i, double a, int j, double b, double *best) {
  struct pz_fit_constant *x = &f->v[i], *y = &f->v[j];
  double old_x = *x->at, old_y = *y->at;
  *x->at = fmin(fmax(old_x * a, x->min), x->max);
  if (j != i) *y->at = fmin(fmax(old_y * b, y->min), y->max);
  double now = f->loss(f->ctx);
  if (now < *best * (1 - 1e-4)) {
    *best = now;
    return true;
  }
  *x->at = old_x;
  *y->at = old_y;
  return false;
}

/* Moves one at a time, or two: start-up against rate, products against softmax lie in narrow valleys. */
static bool move(struct pz_fit *f, bool two, double factor, double *best) {
  const double a[] = {factor, 1 / factor};
  bool better = false;
  for (int i = 0; i < f->n; i++)
    for (int j = two ? 0 : i; j < i + !two; j++)
      for (int k = 0; k < (two ? 4 : 2); k++)
        better |= try_move(f, i, a[k & 1], j, a[k >> 1], best);
  return better;
}

/* Pairs are tried where that is cheap. */
void pz_fit_search(struct pz_fit *f) {
  static const double FIRST = 0.32, LAST = 0.005;
  enum { MOST_ROUNDS = 60, MOST_PAIRED = 6 };
  if (f->n == 0) return;
  double best = f->loss(f->ctx), step = FIRST;
  for (int round = 0; round < MOST_ROUNDS && step > LAST && best < HUGE_VAL; round++) {
    bool better = move(f, false, 1 + step, &best);
    if (!better && f->n <= MOST_PAIRED) better = move(f, true, 1 + step, &best);
    if (!better) step /= 2;
  }
}
