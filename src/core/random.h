/* Seeded random numbers: the same on every machine.  Sized for sampling, not for cryptography. */
#ifndef PZ_CORE_RANDOM_H
#define PZ_CORE_RANDOM_H

#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood 2014); any state is a seed. */
static inline uint64_t pz_random_next(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* 31 bits of a 64-bit linear congruential generator (Knuth's MMIX; TAOCP 2, 3.3.4): of the problems
 * that tests and benchmarks draw, which are to stay the same. */
static inline uint32_t pz_random_lcg(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

/* Below n > 0; the bias is n / 2^64. */
static inline uint32_t pz_random_below(uint64_t *state, uint32_t n) {
  return (uint32_t)(pz_random_next(state) % n);
}

/* Bring k of the n items (all, if there are fewer), drawn without replacement, to the front. */
static inline void pz_random_draw(uint64_t *state, uint32_t *items, uint32_t n, uint32_t k) {
  for (uint32_t i = 0; i < k && i < n; i++) {
    uint32_t j = i + pz_random_below(state, n - i), t = items[i];
    items[i] = items[j];
    items[j] = t;
  }
}

#endif
