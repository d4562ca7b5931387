/* Random layered graphs of 40 operators and width 6, 30 of them, on 1+1, 2+2, 3+5 and 4+4 cores:
 * how far the bound is from the answer after so many steps.  Times, which vary, go to stderr.
 * Usage: bench_random [STEPS [OPS [WIDTH [SEED]]]]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/progress.h"
#include "problems.h"

struct tally {
  int64_t limit, steps;
  double gap, worst, s_sum, s_worst, makespans;
  int proven;
};

static void solve(void *ctx, const struct pz_problem *p) {
  struct tally *t = ctx;
  struct pz_arena arena;
  struct pz_schedule s;
  struct pz_error err = {0};
  struct pz_solve_options o = {.steps = t->limit};
  pz_arena_init(&arena);
  double start = pz_clock_s();
  if (pz_schedule_solve(p, &o, &arena, &s, &err) != PZ_OK) give_up(&err);
  double took = pz_clock_s() - start, gap = gap_percent(&s);
  t->proven += s.outcome == PZ_OUTCOME_OPTIMAL;
  t->steps += s.steps;
  t->gap += gap / RANDOM_GRAPHS;
  t->worst = fmax(t->worst, gap);
  t->s_sum += took / RANDOM_GRAPHS;
  t->s_worst = fmax(t->s_worst, took);
  t->makespans += s.makespan;
  pz_arena_release(&arena);
}

int main(int argc, char **argv) {
  int64_t limit = argc > 1 ? atoll(argv[1]) : 0;
  struct random_options o = {.ops = argc > 2 ? (uint32_t)atoi(argv[2]) : 40,
                             .width = argc > 3 ? (uint32_t)atoi(argv[3]) : 6,
                             .seed = argc > 4 ? (uint64_t)atoll(argv[4]) : 1};
  if (o.ops > RANDOM_MOST_OPS || o.width < 1) return 2;
  printf("cores,step_limit,proven,mean_gap_percent,worst_gap_percent,steps,sum_of_makespans\n");
  for (o.cores = 0; o.cores < RANDOM_CORES; o.cores++) {
    const int32_t *cores = random_cores[o.cores];
    struct tally t = {.limit = limit};
    each_random(&o, solve, &t);
    printf("%d+%d,%lld,%d,%.3f,%.3f,%lld,%.0f\n", cores[0], cores[1], (long long)limit, t.proven,
           t.gap, t.worst, (long long)t.steps, t.makespans);
    fprintf(stderr, "%d+%d cores: mean %.3f s, worst %.3f s\n", cores[0], cores[1], t.s_sum,
            t.s_worst);
    fflush(stdout);
  }
  return 0;
}
