/* Sets of tasks as bit vectors, for problems small enough for exact search, and the precedence
 * relation between them. */
#ifndef PZ_SCHEDULE_MODEL_BITS_H
#define PZ_SCHEDULE_MODEL_BITS_H

#include "schedule/model/problem.h"

enum { PZ_BITS = 256, PZ_BITS_WORDS = PZ_BITS / 64 };

struct pz_bits {
  uint64_t w[PZ_BITS_WORDS];
};

/* For each i of a set of which `word` is word w. */
#define PZ_EACH_BIT(i, words, word)                                                                \
  for (int w = 0; w < (words); w++)                                                                \
    for (uint64_t rest_ = (word); rest_; rest_ &= rest_ - 1)                                       \
      for (uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(rest_)), once_ = 1; once_; once_ = 0)

static inline bool pz_bits_has(const struct pz_bits *b, uint32_t i) {
  return b->w[i / 64] >> (i % 64) & 1;
}

static inline void pz_bits_set(struct pz_bits *b, uint32_t i) {
  b->w[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void pz_bits_clear(struct pz_bits *b, uint32_t i) {
  b->w[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static inline void pz_bits_merge(struct pz_bits *to, const struct pz_bits *from) {
  for (int k = 0; k < PZ_BITS_WORDS; k++) to->w[k] |= from->w[k];
}

static inline struct pz_bits pz_bits_minus(const struct pz_bits *a, const struct pz_bits *b) {
  struct pz_bits out;
  for (int k = 0; k < PZ_BITS_WORDS; k++) out.w[k] = a->w[k] & ~b->w[k];
  return out;
}

static inline bool pz_bits_empty(const struct pz_bits *b) {
  uint64_t any = 0;
  for (int k = 0; k < PZ_BITS_WORDS; k++) any |= b->w[k];
  return any == 0;
}

static inline uint32_t pz_bits_count(const struct pz_bits *b) {
  uint32_t n = 0;
  for (int k = 0; k < PZ_BITS_WORDS; k++) n += (uint32_t)__builtin_popcountll(b->w[k]);
  return n;
}

/* By task: all that must come before it, and after it; both zeroed. */
static inline void pz_bits_order(const struct pz_problem *p, struct pz_bits *before,
                                 struct pz_bits *after) {
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < p->tasks[i].n_pred; k++) {
      pz_bits_set(&before[i], p->tasks[i].pred[k]);
      pz_bits_merge(&before[i], &before[p->tasks[i].pred[k]]);
    }
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (pz_bits_has(&before[i], k)) pz_bits_set(&after[k], i);
}

#endif
