/* Schedules of every layer of every preset model, forward and backward, at every tensor width, on
 * two chips: the original system's two modes with both exclusivities, and all modes, of cores and
 * link alone and with memory rates shared.
 *
 * bench_layers [STEPS]            how many are proven and how long they take, by kind and chip
 * bench_layers STEPS rows         every problem
 * bench_layers STEPS SECONDS      problems across the range of times, more of the slow ones, beside
 *                                 CBC's time for the integer program, at most SECONDS each */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/progress.h"
#include "core/vec.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"
#include "workload/preset.h"
#include "workload/workload.h"

static const char *const kinds[] = {"two-all", "two-class", "cores", "all"};
static const char *const chips[] = {"tpuv4", "h200"};
static const struct pz_layer_options options[] = {{PZ_MODES_TWO, PZ_EXCLUSIVE_ALL},
                                                  {PZ_MODES_TWO, PZ_EXCLUSIVE_CLASS},
                                                  {PZ_MODES_CORES, PZ_EXCLUSIVE_ALL},
                                                  {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL}};
enum { KINDS = 4, CHIPS = 2 };

struct job {
  int kind, chip, direction;
  size_t model;
  int64_t tp;
  uint32_t layer;
  double us, gap;
  bool proven;
};

static void give_up(const struct pz_error *err) {
  fprintf(stderr, "%s\n", err->message);
  exit(1);
}

static double solve_us(const struct pz_problem *p, const struct pz_solve_options *o,
                       struct pz_schedule *out, int most_times) {
  struct pz_error err = {0};
  double best = 1e15;
  for (int again = 0; again < most_times; again++) {
    struct pz_arena arena;
    pz_arena_init(&arena, NULL);
    double start = pz_clock_s();
    if (pz_schedule_solve(p, o, &arena, out, &err) != PZ_OK) give_up(&err);
    double took = 1e6 * (pz_clock_s() - start);
    if (took < best) best = took;
    pz_arena_release(&arena);
    if (took > 50000) break;
  }
  return best;
}

static void print_job(const struct job *j, const struct pz_workload *w,
                      const struct pz_problem *p) {
  printf("%s,%s,%s,%lld,%s,%s,%u", kinds[j->kind], chips[j->chip], w->model, (long long)j->tp,
         w->layers[j->layer].name, j->direction ? "backward" : "forward", p->n);
}

static double gap_percent(const struct pz_schedule *s) {
  return s->makespan > 0 ? 100 * (s->makespan - s->lower_bound) / s->makespan : 0;
}

static const char *outcome(const struct pz_schedule *s) {
  return s->outcome == PZ_OUTCOME_OPTIMAL ? "optimal" : "feasible";
}

/* The problem solved by us; with `seconds` by CBC too. */
static void work(struct job *j, const struct pz_workload *w, struct pz_cost *cost, int64_t steps,
                 double seconds, bool print) {
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule s, by_cbc;
  struct pz_error err = {0};
  struct pz_solve_options o = {.steps = steps}, cbc = {.solver = PZ_SOLVER_ILP, .seconds = seconds};
  pz_arena_init(&arena, NULL);
  if (pz_layer_problem(cost, &w->layers[j->layer].ops[j->direction], &options[j->kind], &arena, &p,
                       &err) != PZ_OK)
    give_up(&err);
  j->us = solve_us(&p, &o, &s, 3);
  j->gap = gap_percent(&s);
  j->proven = s.outcome == PZ_OUTCOME_OPTIMAL;
  if (print) {
    print_job(j, w, &p);
    printf(",%.9g,%.5f,%s,%lld,%.1f", s.makespan * 1e6, gap_percent(&s), outcome(&s),
           (long long)s.steps, j->us);
  }
  if (seconds > 0) {
    double us = solve_us(&p, &cbc, &by_cbc, 1);
    printf(",%.9g,%.5f,%s,%.1f,%.1f", by_cbc.makespan * 1e6, gap_percent(&by_cbc), outcome(&by_cbc),
           us, us / j->us);
  }
  if (print) putchar('\n');
  fflush(stdout);
  pz_arena_release(&arena);
}

static void open_job(const struct job *j, struct pz_cost *cost, struct pz_workload **w) {
  struct pz_chip chip;
  struct pz_error err = {0};
  struct pz_workload_options o = pz_workload_options_default();
  o.tp = j->tp;
  if (pz_workload_load(pz_preset_name(j->model), &o, w, &err) != PZ_OK ||
      pz_chip_load(chips[j->chip], &chip, &err) != PZ_OK)
    give_up(&err);
  pz_cost_init(cost, &chip, NULL);
}

/* Every layer of the model at this tensor width, in both directions and all kinds. */
static void all_of(struct job j, struct pz_vec *list, int64_t steps, bool print) {
  struct pz_cost cost;
  struct pz_workload *w = NULL;
  open_job(&j, &cost, &w);
  for (j.layer = 0; j.layer < w->n_layers; j.layer++)
    for (j.direction = 0; j.direction < 2; j.direction++)
      for (j.kind = 0; j.kind < KINDS; j.kind++) {
        work(&j, w, &cost, steps, 0, print);
        if (!pz_vec_push(list, &j)) exit(1);
      }
  pz_cost_release(&cost);
  pz_workload_free(w);
}

static int by_time(const void *a, const void *b) {
  const struct job *x = a, *y = b;
  int group = x->chip != y->chip ? x->chip - y->chip : x->kind - y->kind;
  return group ? group : x->us < y->us ? -1 : x->us > y->us;
}

/* Jobs of one chip and kind, by time. */
static void summarise(const struct job *j, uint32_t n) {
  uint32_t proven = 0, over = 0, slow = 0;
  double worst = 0;
  for (uint32_t i = 0; i < n; i++) {
    proven += j[i].proven;
    over += j[i].gap > 1;
    slow += j[i].us > 10000;
    if (j[i].gap > worst) worst = j[i].gap;
  }
  printf("%s,%s,%u,%u,%.2f,%u,%.2f,%.1f,%.1f,%.1f,%.1f,%u\n", kinds[j->kind], chips[j->chip], n,
         proven, 100.0 * proven / n, over, worst, j[n / 2].us, j[n * 9 / 10].us, j[n * 99 / 100].us,
         j[n - 1].us, slow);
}

static void summaries(struct pz_vec *list) {
  printf("problem,chip,layers,proven,proven_percent,over_1_percent,worst_gap_percent,median_us,"
         "p90_us,p99_us,slowest_us,over_10_ms\n");
  qsort(list->items, list->n, sizeof(struct job), by_time);
  uint32_t n = list->n / (KINDS * CHIPS);
  for (uint32_t g = 0; g < KINDS * CHIPS; g++)
    summarise(pz_vec_at(list, struct job, (size_t)g * n), n);
}

static void compare(struct pz_vec *list, int64_t steps, double seconds) {
  static const double at[] = {0.1, 0.3, 0.5, 0.7, 0.8, 0.91, 0.93, 0.95, 0.97, 0.99};
  printf("problem,chip,model,tp,layer,direction,ops,makespan_us,gap_percent,outcome,steps,us,"
         "cbc_makespan_us,cbc_gap_percent,cbc_outcome,cbc_us,times_faster\n");
  qsort(list->items, list->n, sizeof(struct job), by_time);
  uint32_t n = list->n / (KINDS * CHIPS);
  for (uint32_t g = 0; g < KINDS * CHIPS; g++)
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
      struct job j = *pz_vec_at(list, struct job, g * n + (uint32_t)(at[k] * n));
      struct pz_cost cost;
      struct pz_workload *w = NULL;
      open_job(&j, &cost, &w);
      work(&j, w, &cost, steps, seconds, true);
      pz_cost_release(&cost);
      pz_workload_free(w);
    }
}

int main(int argc, char **argv) {
  int64_t steps = argc > 1 ? atoll(argv[1]) : 0;
  double seconds = argc > 2 ? atof(argv[2]) : 0;
  bool rows = argc > 2 && strcmp(argv[2], "rows") == 0;
  struct pz_arena arena;
  struct pz_vec list;
  pz_arena_init(&arena, NULL);
  pz_vec_init(&list, &arena, sizeof(struct job));
  if (rows)
    printf("problem,chip,model,tp,layer,direction,ops,makespan_us,gap_percent,outcome,steps,us\n");
  for (int c = 0; c < CHIPS; c++)
    for (size_t m = 0; pz_preset_name(m); m++)
      for (int64_t tp = 1; tp <= 128; tp++) {
        struct pz_workload_options o = pz_workload_options_default();
        struct pz_workload *w = NULL;
        o.tp = tp;
        if (pz_workload_load(pz_preset_name(m), &o, &w, NULL) != PZ_OK) continue;
        pz_workload_free(w);
        all_of((struct job){.chip = c, .model = m, .tp = tp}, &list, steps, rows);
      }
  if (seconds > 0)
    compare(&list, steps, seconds);
  else if (!rows)
    summaries(&list);
  pz_arena_release(&arena);
  return 0;
}
