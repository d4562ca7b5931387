/* Sets of tasks as bit vectors, for problems of at most PZ_BITS tasks, and the precedence
 * relation between tasks as such sets. */
#ifndef PZ_SCHEDULE_MODEL_BITS_H
#define PZ_SCHEDULE_MODEL_BITS_H

#include "schedule/model/problem.h"

enum { PZ_BITS = 256, PZ_BITS_WORDS = PZ_BITS / 64 };

struct pz_bits {
  uint64_t words[PZ_BITS_WORDS];
};

/* Loops over the members i of a set in ascending order.  `word` is an expression for word w of the
 * set, and `n_words` is the number of words that are visited. */
#define PZ_EACH_BIT(i, n_words, word)                                                              \
  for (int w = 0; w < (n_words); w++)                                                              \
    for (uint64_t rest_ = (word); rest_; rest_ &= rest_ - 1)                                       \
      for (uint32_t i = (uint32_t)(64 * w + __builtin_ctzll(rest_)), once_ = 1; once_; once_ = 0)

static inline bool pz_bits_has(const struct pz_bits *set, uint32_t i) {
  return set->words[i / 64] >> (i % 64) & 1;
}

static inline void pz_bits_set(struct pz_bits *set, uint32_t i) {
  set->words[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void pz_bits_clear(struct pz_bits *set, uint32_t i) {
  set->words[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* Adds all members of `other` to the set. */
static inline void pz_bits_merge(struct pz_bits *set, const struct pz_bits *other) {
  for (int k = 0; k < PZ_BITS_WORDS; k++) set->words[k] |= other->words[k];
}

/* Returns the members of a that are not in b. */
static inline struct pz_bits pz_bits_minus(const struct pz_bits *a, const struct pz_bits *b) {
  struct pz_bits difference;
  for (int k = 0; k < PZ_BITS_WORDS; k++) difference.words[k] = a->words[k] & ~b->words[k];
  return difference;
}

/* Returns the number of tasks in a set. */
static inline uint32_t pz_bits_count(const struct pz_bits *set) {
  uint32_t n = 0;
  for (int k = 0; k < PZ_BITS_WORDS; k++) n += (uint32_t)__builtin_popcountll(set->words[k]);
  return n;
}

/* Sets, for each task, all its direct and indirect predecessors and successors.  Both arrays are
 * zeroed before the call. */
static inline void pz_bits_order(const struct pz_problem *problem, struct pz_bits *predecessors,
                                 struct pz_bits *successors) {
  for (uint32_t i = 0; i < problem->n; i++)
    for (uint32_t k = 0; k < problem->tasks[i].n_pred; k++) {
      uint32_t direct = problem->tasks[i].pred[k];
      pz_bits_set(&predecessors[i], direct);
      pz_bits_merge(&predecessors[i], &predecessors[direct]);
    }
  for (uint32_t i = 0; i < problem->n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (pz_bits_has(&predecessors[i], k)) pz_bits_set(&successors[k], i);
}

#endif
