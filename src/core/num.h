/* Numbers: overflow-checked integers, so that sizes and FLOP counts are exact or an error; the
 * smaller and the larger of two. */
#ifndef PZ_CORE_NUM_H
#define PZ_CORE_NUM_H

#include <stdbool.h>
#include <stdint.h>

/* *acc *= f, *acc += t; false (and *acc untouched) when the result leaves int64_t. */
static inline bool pz_mul(int64_t *acc, int64_t f) {
  int64_t r;
  if (__builtin_mul_overflow(*acc, f, &r)) return false;
  *acc = r;
  return true;
}

static inline bool pz_add(int64_t *acc, int64_t t) {
  int64_t r;
  if (__builtin_add_overflow(*acc, t, &r)) return false;
  *acc = r;
  return true;
}

static inline int64_t pz_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

static inline int64_t pz_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t pz_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* fmin and fmax without the call; neither number may be NaN. */
static inline double pz_fmin(double a, double b) { return a < b ? a : b; }
static inline double pz_fmax(double a, double b) { return a > b ? a : b; }

#endif
