/* The schedule instances of a folder: makespan, bound and effort beside the proven optimum or
 * the best known (index.csv of the folder).  Times, which vary, go to stderr beside the seconds
 * that the original ILP needed.  Usage: bench_schedule FOLDER [STEPS]. */
#include <stdio.h>
#include <stdlib.h>

#include "core/progress.h"
#include "problems.h"

static void solve(void *ctx, const struct reference *r, const struct pz_problem *p) {
  const int64_t *steps = ctx;
  struct pz_arena arena;
  struct pz_schedule s;
  struct pz_solve_options o = {.steps = *steps};
  struct pz_error err = {0};
  pz_arena_init(&arena);
  double start = pz_clock_s();
  if (pz_schedule_solve(p, &o, &arena, &s, &err) != PZ_OK) give_up(&err);
  double took = pz_clock_s() - start;
  const char *verdict = s.makespan > atof(r->incumbent) ? "above"
                        : s.makespan < atof(r->bound)   ? "IMPOSSIBLE"
                                                        : "good";
  printf("%s,%u,%.0f,%.1f,%s,%s,%s,%s,%lld\n", r->name, p->n, s.makespan, s.lower_bound,
         outcome_name(&s), r->incumbent, r->bound, verdict, (long long)s.steps);
  fprintf(stderr, "%-40s %.6f s, ILP %s s: %.0f times faster\n", r->name, took, r->ilp_seconds,
          atof(r->ilp_seconds) / took);
  fflush(stdout);
  pz_arena_release(&arena);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  int64_t steps = argc > 2 ? atoll(argv[2]) : 0;
  printf("instance,ops,makespan,lower_bound,outcome,best_known,known_bound,verdict,steps\n");
  each_reference(argv[1], solve, &steps);
  return 0;
}
