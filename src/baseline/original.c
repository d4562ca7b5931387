/* The original system's search (Solver/solver.py of its released code): it walks over the chips in buckets of area,
 * from the largest down, until the best values of the last five buckets do not rise from one to the next.  It proves
 * nothing: a better chip may be smaller.
 *
 * Unlike there, each model may have its own microbatch size, memory and recomputation, and the walk does not end before
 * a chip was found. */
#include <math.h>
#include <stdlib.h>

#include "baseline/baseline.h"

enum { BUCKET_UM2 = 10000, BUCKETS_COMPARED = 5 };

struct bucketed_point {
  int64_t bucket;
  uint32_t point;
};

static int compare_larger_first(const void *a, const void *b) {
  const struct bucketed_point *x = a, *y = b;
  if (x->bucket != y->bucket) return x->bucket > y->bucket ? -1 : 1;
  return x->point < y->point ? -1 : 1;
}

/* Returns whether the best values of the last buckets do not rise.  `last` is a ring buffer; n
 * buckets were seen. */
static bool has_converged(const double last[BUCKETS_COMPARED], uint32_t n) {
  if (n < BUCKETS_COMPARED) return false;
  for (uint32_t i = n - BUCKETS_COMPARED; i + 1 < n; i++)
    if (last[i % BUCKETS_COMPARED] < last[(i + 1) % BUCKETS_COMPARED]) return false;
  return true;
}

/* Evaluates chips in buckets of decreasing area until the best values of the buckets do not rise
 * any more. */
struct pz_baseline_answer pz_baseline_sweep(struct pz_call *call,
                                            const struct pz_baseline_question *question) {
  struct pz_baseline_best best = {0};
  double last[BUCKETS_COMPARED] = {0};
  uint32_t n_buckets = 0;
  struct bucketed_point *list = pz_alloc(call, question->n_points, sizeof *list);
  for (uint32_t i = 0; i < question->n_points; i++)
    list[i] = (struct bucketed_point){(int64_t)(pz_baseline_area_um2(question, i) / BUCKET_UM2), i};
  qsort(list, question->n_points, sizeof *list, compare_larger_first);
  for (uint32_t i = 0; i < question->n_points; i++) {
    bool is_first_of_bucket = i == 0 || list[i].bucket != list[i - 1].bucket;
    if (is_first_of_bucket) {
      if (best.any && has_converged(last, n_buckets)) break;
      last[n_buckets % BUCKETS_COMPARED] = 0;
      n_buckets++;
    }
    double value = pz_baseline_value(call, question, list[i].point);
    double *bucket_best = &last[(n_buckets - 1) % BUCKETS_COMPARED];
    *bucket_best = fmax(*bucket_best, value);
    best.n_seen++;
    if (value > best.value) {
      best.any = true;
      best.point = list[i].point;
      best.value = value;
    }
  }
  return pz_baseline_conclude(call, question, &best);
}
