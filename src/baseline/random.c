/* A baseline that chooses the best of randomly drawn chips. */
#include "baseline/baseline.h"
#include "core/num.h"

/* Draws as many random chips as the search evaluated, and answers with the best of them. */
struct pz_baseline_answer pz_baseline_random(struct pz_call *call,
                                             const struct pz_baseline *baseline,
                                             const struct pz_baseline_question *question) {
  (void)baseline;
  uint32_t n = (uint32_t)pz_min(question->evaluations, question->n_points);
  uint32_t *points = pz_alloc(call, question->n_points, sizeof *points);
  struct pz_baseline_best best = {0};
  uint64_t state = question->seed;
  for (uint32_t i = 0; i < question->n_points; i++) points[i] = i;
  pz_random_draw(&state, points, question->n_points, n);
  pz_baseline_consider(call, question, points, n, &best);
  return pz_baseline_conclude(call, question, &best);
}
