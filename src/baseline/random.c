/* Baseline: the best of random chips, as many as the search looked at. */

#include "baseline/baseline.h"
#include "core/alloc.h"
#include "core/num.h"

enum pz_status pz_baseline_random(const struct pz_baseline_question *q,
                                  struct pz_baseline_answer *out, struct pz_error *err) {
  uint32_t n = q->evaluations < q->n_points ? q->evaluations : q->n_points;
  uint32_t *points = pz_calloc(q->n_points, sizeof *points);
  struct pz_baseline_best best = {0};
  uint64_t state = q->seed;
  if (!points) return pz_fail(err, PZ_NO_MEMORY, "out of memory for random chips");
  for (uint32_t i = 0; i < q->n_points; i++) points[i] = i;
  pz_random_draw(&state, points, q->n_points, n);
  enum pz_status status = pz_baseline_see(q, points, n, &best, err);
  pz_free(points);
  return status == PZ_OK ? pz_baseline_conclude(q, &best, out, err) : status;
}
