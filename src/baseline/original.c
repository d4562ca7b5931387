/* The original system's search (Solver/solver.py of its released code): chips in buckets of area,
 * from the largest down, until the best values of the last five buckets do not rise from one to the
 * next.  It has no proof: a better chip may stand below.
 *
 * Unlike there, each model may have its own microbatch size, memory and recomputation, and it does
 * not end before a chip was found. */
#include <math.h>
#include <stdlib.h>

#include "core/alloc.h"

#include "baseline/baseline.h"

enum { BUCKET_UM2 = 10000, BUCKETS_COMPARED = 5 };

struct entry {
  int64_t bucket;
  uint32_t point;
};

static int larger_first(const void *a, const void *b) {
  const struct entry *x = a, *y = b;
  if (x->bucket != y->bucket) return x->bucket > y->bucket ? -1 : 1;
  return x->point < y->point ? -1 : 1;
}

static struct entry *sort_points(const struct pz_baseline_question *q) {
  struct entry *list = pz_calloc(q->n_points, sizeof *list);
  for (uint32_t i = 0; i < q->n_points && list; i++)
    list[i] = (struct entry){(int64_t)(pz_baseline_area_um2(q, i) / BUCKET_UM2), i};
  if (list) qsort(list, q->n_points, sizeof *list, larger_first);
  return list;
}

/* Do the last five buckets not rise?  `last` is a ring. */
static bool has_converged(const double last[BUCKETS_COMPARED], uint32_t n) {
  for (uint32_t i = n - BUCKETS_COMPARED; n >= BUCKETS_COMPARED && i + 1 < n; i++)
    if (last[i % BUCKETS_COMPARED] < last[(i + 1) % BUCKETS_COMPARED]) return false;
  return n >= BUCKETS_COMPARED;
}

static enum pz_status walk(const struct pz_baseline_question *q, const struct entry *list,
                           struct pz_baseline_best *best, struct pz_error *err) {
  double last[BUCKETS_COMPARED] = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < q->n_points; i++) {
    double value = 0;
    bool first = i == 0 || list[i].bucket != list[i - 1].bucket;
    if (first && best->any && has_converged(last, n)) break;
    if (first) last[n++ % BUCKETS_COMPARED] = 0;
    enum pz_status status = pz_baseline_value(q, list[i].point, &value, err);
    if (status != PZ_OK) return status;
    double *bucket = &last[(n - 1) % BUCKETS_COMPARED];
    *bucket = fmax(*bucket, value);
    best->n_seen++;
    if (value > best->value) {
      best->any = true;
      best->point = list[i].point;
      best->value = value;
    }
  }
  return PZ_OK;
}

enum pz_status pz_baseline_original(const struct pz_baseline_question *q,
                                    struct pz_baseline_answer *out, struct pz_error *err) {
  struct pz_baseline_best best = {0};
  struct entry *list = sort_points(q);
  enum pz_status status =
      list ? walk(q, list, &best, err) : pz_fail(err, PZ_NO_MEMORY, "out of memory for the walk");
  pz_free(list);
  return status == PZ_OK ? pz_baseline_conclude(q, &best, out, err) : status;
}
