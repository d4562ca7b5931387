/* Baseline: the original system's sweep: chips in buckets of area, from the largest down, until
 * five buckets in a row bring no improvement.  It has no proof: a better chip may be smaller.
 *
 * A bucket is 1% of the budget wide; the first ends at the budget, and buckets without a chip do
 * not count. */
#include <stdlib.h>

#include "search/baseline.h"

enum { BUCKETS = 100, MOST_IDLE = 5 };

struct placed {
  int bucket; /* 0: the largest chips */
  uint32_t point;
};

static int by_bucket(const void *a, const void *b) {
  const struct placed *x = a, *y = b;
  if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
  return x->point < y->point ? -1 : 1;
}

static struct placed *sort_points(const struct pz_baseline_question *q) {
  struct placed *list = calloc(q->n_points, sizeof *list);
  for (uint32_t i = 0; i < q->n_points && list; i++) {
    double part = pz_baseline_area_um2(q, i) / q->task->space->budget_um2;
    list[i] = (struct placed){(int)((1 - part) * BUCKETS), i};
  }
  if (list) qsort(list, q->n_points, sizeof *list, by_bucket);
  return list;
}

static enum pz_status walk(const struct pz_baseline_question *q, const struct placed *list,
                           uint32_t *bucket, struct pz_baseline_best *best, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  int idle = 0;
  for (uint32_t i = 0, n; i < q->n_points && idle < MOST_IDLE && status == PZ_OK; i += n) {
    double before = best->value;
    for (n = 0; i + n < q->n_points && list[i + n].bucket == list[i].bucket; n++)
      bucket[n] = list[i + n].point;
    status = pz_baseline_see(q, bucket, n, best, err);
    idle = best->value > before || !best->any ? 0 : idle + 1;
  }
  return status;
}

enum pz_status pz_baseline_original(const struct pz_baseline_question *q,
                                    struct pz_baseline_answer *out, struct pz_error *err) {
  struct pz_baseline_best best = {0};
  struct placed *list = sort_points(q);
  uint32_t *bucket = calloc(q->n_points, sizeof *bucket);
  enum pz_status status = list && bucket
                              ? walk(q, list, bucket, &best, err)
                              : pz_fail(err, PZ_NO_MEMORY, "out of memory for the buckets");
  free(list);
  free(bucket);
  return status == PZ_OK ? pz_baseline_conclude(q, &best, out, err) : status;
}
