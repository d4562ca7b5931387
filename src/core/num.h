/* Numbers: integers with checks for overflow, so that sizes and FLOP counts are exact or an error;
 * minimum and maximum; random numbers. */
#ifndef PZ_CORE_NUM_H
#define PZ_CORE_NUM_H

#include <stdbool.h>
#include <stdint.h>

/* Multiply *acc by a factor, or add a term.  Return false, with *acc unchanged, on overflow. */
static inline bool pz_mul(int64_t *acc, int64_t factor) {
  int64_t result;
  if (__builtin_mul_overflow(*acc, factor, &result)) return false;
  *acc = result;
  return true;
}

static inline bool pz_add(int64_t *acc, int64_t term) {
  int64_t result;
  if (__builtin_add_overflow(*acc, term, &result)) return false;
  *acc = result;
  return true;
}

static inline int64_t pz_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

static inline int64_t pz_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t pz_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Inline fmin() and fmax() for numbers that are not NaN. */
static inline double pz_fmin(double a, double b) { return a < b ? a : b; }
static inline double pz_fmax(double a, double b) { return a > b ? a : b; }

/* ---- seeded random numbers, the same on every machine; for sampling, not for cryptography ---- */

/* Returns the next number of splitmix64 (Steele, Lea, Flood 2014); any state is a seed. */
static inline uint64_t pz_random_next(uint64_t *state) {
  uint64_t bits = *state += UINT64_C(0x9e3779b97f4a7c15);
  bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
  return bits ^ (bits >> 31);
}

/* 31 bits of a 64-bit linear congruential generator (Knuth's MMIX; TAOCP 2, 3.3.4), with which
 * tests and benchmarks draw problems that must stay the same. */
static inline uint32_t pz_random_lcg(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

/* Returns a number below n, with a bias of n / 2^64. */
static inline uint32_t pz_random_below(uint64_t *state, uint32_t n) {
  return (uint32_t)(pz_random_next(state) % n);
}

/* Draws k of the n items without replacement, all if n < k, and moves them to the front. */
static inline void pz_random_draw(uint64_t *state, uint32_t *items, uint32_t n, uint32_t k) {
  for (uint32_t i = 0; i < k && i < n; i++) {
    uint32_t j = i + pz_random_below(state, n - i), drawn = items[j];
    items[j] = items[i];
    items[i] = drawn;
  }
}

#endif
