/* Schedules of every layer of every preset model (problems.h).  The table on stdout is what
 * bench/layers*.csv keep; times, which vary, go to stderr.
 *
 * bench_layers [STEPS]            how many are proven, and with how many steps, by kind and chip
 * bench_layers STEPS rows         every problem
 * bench_layers STEPS SECONDS      problems across the range of steps, more of the hard ones, beside
 *                                 CBC on the integer program, at most SECONDS each: ratios of time */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/progress.h"
#include "core/vec.h"
#include "problems.h"
#include "unit/vec_push.h"

struct job {
  struct layer_problem of;
  int64_t steps;
  double us, gap;
  bool proven;
};

struct run {
  int64_t steps;
  double seconds;
  bool rows;
  const bool *chosen; /* by index of the layer: for CBC */
  struct pz_vec jobs; /* struct job */
};

static double solve_us(const struct pz_problem *p, const struct pz_solve_options *o,
                       struct pz_schedule *out, int most_times) {
  struct pz_error err = {0};
  double best = 1e15;
  for (int again = 0; again < most_times; again++) {
    struct pz_arena arena;
    pz_arena_init(&arena);
    double start = pz_clock_s();
    if (pz_schedule_solve(p, o, &arena, out, &err) != PZ_OK) give_up(&err);
    double took = 1e6 * (pz_clock_s() - start);
    if (took < best) best = took;
    pz_arena_release(&arena);
    if (took > 50000) break;
  }
  return best;
}

static void print_job(const struct layer_problem *l, const struct pz_problem *p,
                      const struct pz_schedule *s) {
  printf("%s,%s,%s,%lld,%s,%s,%u,%.9g,%.5f,%s,%lld", layer_kinds[l->kind], layer_chips[l->chip],
         l->model, (long long)l->tp, l->layer, l->direction, p->n, s->makespan * 1e6,
         gap_percent(s), outcome_name(s), (long long)s->steps);
}

static void solve(void *ctx, const struct layer_problem *l, const struct pz_problem *p) {
  struct run *r = ctx;
  struct pz_schedule s;
  struct pz_solve_options o = {.steps = r->steps};
  struct job j = {.of = *l, .us = solve_us(p, &o, &s, 3)};
  j.gap = gap_percent(&s);
  j.steps = s.steps;
  j.proven = s.outcome == PZ_OUTCOME_OPTIMAL;
  if (!vec_push(&r->jobs, &j)) exit(1);
  if (!r->rows) return;
  print_job(l, p, &s);
  putchar('\n');
}

static int by_steps(const void *a, const void *b) {
  const struct job *x = a, *y = b;
  int group = x->of.chip != y->of.chip ? x->of.chip - y->of.chip : x->of.kind - y->of.kind;
  if (group) return group;
  if (x->steps != y->steps) return x->steps < y->steps ? -1 : 1;
  return x->of.index < y->of.index ? -1 : 1;
}

static int by_time(const void *a, const void *b) {
  const struct job *x = a, *y = b;
  return x->us < y->us ? -1 : x->us > y->us;
}

/* Jobs of one chip and kind, by steps; they are sorted by time then. */
static void summarise(struct job *j, uint32_t n) {
  uint32_t proven = 0, over = 0, slow = 0;
  double worst = 0;
  const char *kind = layer_kinds[j->of.kind], *chip = layer_chips[j->of.chip];
  for (uint32_t i = 0; i < n; i++) {
    proven += j[i].proven;
    over += j[i].gap > 1;
    slow += j[i].us > 10000;
    if (j[i].gap > worst) worst = j[i].gap;
  }
  printf("%s,%s,%u,%u,%.2f,%u,%.2f,%lld,%lld,%lld,%lld\n", kind, chip, n, proven,
         100.0 * proven / n, over, worst, (long long)j[n / 2].steps, (long long)j[n * 9 / 10].steps,
         (long long)j[n * 99 / 100].steps, (long long)j[n - 1].steps);
  qsort(j, n, sizeof *j, by_time);
  fprintf(stderr, "%-10s %-6s median %.1f us, p90 %.1f, p99 %.1f, slowest %.1f; over 10 ms: %u\n",
          kind, chip, j[n / 2].us, j[n * 9 / 10].us, j[n * 99 / 100].us, j[n - 1].us, slow);
}

static void summaries(struct pz_vec *list) {
  printf("problem,chip,layers,proven,proven_percent,over_1_percent,worst_gap_percent,median_steps,"
         "p90_steps,p99_steps,most_steps\n");
  qsort(list->items, list->n, sizeof(struct job), by_steps);
  uint32_t n = list->n / (LAYER_KINDS * LAYER_CHIPS);
  for (uint32_t g = 0; g < LAYER_KINDS * LAYER_CHIPS; g++)
    summarise(pz_vec_at(list, struct job, (size_t)g * n), n);
}

static void solve_by_cbc(void *ctx, const struct layer_problem *l, const struct pz_problem *p) {
  const struct run *r = ctx;
  struct pz_schedule s, by_cbc;
  struct pz_solve_options o = {.steps = r->steps},
                          cbc = {.solver = PZ_SOLVER_ILP, .seconds = r->seconds};
  if (!r->chosen[l->index]) return;
  double us = solve_us(p, &o, &s, 3), cbc_us = solve_us(p, &cbc, &by_cbc, 1);
  print_job(l, p, &s);
  printf(",%.9g,%.5f,%s,%.1f\n", by_cbc.makespan * 1e6, gap_percent(&by_cbc), outcome_name(&by_cbc),
         cbc_us / us);
  fprintf(stderr, "%u: %.1f us, CBC %.1f us\n", l->index, us, cbc_us);
  fflush(stdout);
}

/* Ten of each chip and kind, five of them of the tenth with the most steps. */
static void compare(struct run *r) {
  static const double at[] = {0.1, 0.3, 0.5, 0.7, 0.8, 0.91, 0.93, 0.95, 0.97, 0.99};
  bool *chosen = pz_arena_alloc(r->jobs.arena, r->jobs.n, sizeof *chosen);
  if (!chosen) exit(1);
  printf("problem,chip,model,tp,layer,direction,ops,makespan_us,gap_percent,outcome,steps,"
         "cbc_makespan_us,cbc_gap_percent,cbc_outcome,times_faster\n");
  qsort(r->jobs.items, r->jobs.n, sizeof(struct job), by_steps);
  uint32_t n = r->jobs.n / (LAYER_KINDS * LAYER_CHIPS);
  for (uint32_t g = 0; g < LAYER_KINDS * LAYER_CHIPS; g++)
    for (size_t k = 0; k < sizeof at / sizeof *at; k++)
      chosen[pz_vec_at(&r->jobs, struct job, g * n + (uint32_t)(at[k] * n))->of.index] = true;
  r->chosen = chosen;
  each_layer(solve_by_cbc, r);
}

int main(int argc, char **argv) {
  struct run r = {.steps = argc > 1 ? atoll(argv[1]) : 0,
                  .seconds = argc > 2 ? atof(argv[2]) : 0,
                  .rows = argc > 2 && strcmp(argv[2], "rows") == 0};
  struct pz_arena arena;
  pz_arena_init(&arena);
  pz_vec_init(&r.jobs, &arena, sizeof(struct job));
  if (r.rows)
    printf("problem,chip,model,tp,layer,direction,ops,makespan_us,gap_percent,outcome,steps\n");
  each_layer(solve, &r);
  if (r.seconds > 0)
    compare(&r);
  else if (!r.rows)
    summaries(&r.jobs);
  pz_arena_release(&arena);
  return 0;
}
