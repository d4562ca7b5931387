/* The original system's search (Solver/solver.py of its released code): it walks over the chips in buckets of area,
 * from the largest down, until the best values of the last five buckets do not rise from one to the next.  It proves
 * nothing: a better chip may be smaller.
 *
 * Unlike there, each model may have its own microbatch size, memory and recomputation, and the walk does not end before
 * a chip was found. */
#include <math.h>
#include <stdlib.h>

#include "baseline/baseline.h"

/* The area of a bucket, and the number of last buckets whose best values must not rise. */
enum { BUCKET_UM2 = 10000, BUCKETS_COMPARED = 5 };

struct bucketed_point {
  int64_t bucket;
  uint32_t point;
};

/* Compares two chips for qsort(): larger areas first, then lower indices. */
static int compare_larger_first(const void *left, const void *right) {
  const struct bucketed_point *first = left, *second = right;
  if (first->bucket != second->bucket) return first->bucket > second->bucket ? -1 : 1;
  return first->point < second->point ? -1 : 1;
}

/* Answers with the chip that the original system's search finds.  A bucket has the chips whose areas
 * are equal when divided by BUCKET_UM2; buckets are evaluated from the largest area down, until their
 * best values do not rise any more. */
struct pz_baseline_answer pz_baseline_sweep(struct pz_call *call,
                                            const struct pz_baseline *baseline,
                                            const struct pz_baseline_question *question) {
  (void)baseline;
  struct pz_baseline_best best = {0};
  double bucket_best[BUCKETS_COMPARED] = {0};
  uint32_t n_buckets = 0;
  struct bucketed_point *list = pz_alloc(call, question->n_points, sizeof *list);
  for (uint32_t i = 0; i < question->n_points; i++)
    list[i] = (struct bucketed_point){(int64_t)(pz_baseline_area_um2(question, i) / BUCKET_UM2), i};
  qsort(list, question->n_points, sizeof *list, compare_larger_first);
  for (uint32_t i = 0; i < question->n_points; i++) {
    bool is_first_of_bucket = i == 0 || list[i].bucket != list[i - 1].bucket;
    if (is_first_of_bucket) {
      /* The walk ends if none of the last buckets is better than the one before it.  bucket_best is a
       * ring buffer, in which the oldest of them has the position n_buckets % BUCKETS_COMPARED. */
      bool converged = best.has_chip && n_buckets >= BUCKETS_COMPARED;
      for (uint32_t k = n_buckets; converged && k + 1 < n_buckets + BUCKETS_COMPARED; k++) {
        bool rises = bucket_best[k % BUCKETS_COMPARED] < bucket_best[(k + 1) % BUCKETS_COMPARED];
        if (rises) converged = false;
      }
      if (converged) break;
      bucket_best[n_buckets % BUCKETS_COMPARED] = 0;
      n_buckets++;
    }
    double value = pz_baseline_value(call, question, list[i].point);
    double *current = &bucket_best[(n_buckets - 1) % BUCKETS_COMPARED];
    *current = fmax(*current, value);
    best.n_considered++;
    if (value > best.value) {
      best.has_chip = true;
      best.point = list[i].point;
      best.value = value;
    }
  }
  return pz_baseline_conclude(call, question, &best);
}
