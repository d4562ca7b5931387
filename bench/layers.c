/* Schedules of every layer of every preset model, forward and backward, at every tensor width, on
 * two chips: the original system's two modes with both exclusivities, and all modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/progress.h"
#include "schedule/layer.h"
#include "schedule/solve.h"
#include "workload/preset.h"
#include "workload/workload.h"

static const char *const kinds[] = {"two-all", "two-class", "modes"};
static const struct pz_layer_options options[] = {{PZ_MODES_TWO, PZ_EXCLUSIVE_ALL},
                                                  {PZ_MODES_TWO, PZ_EXCLUSIVE_CLASS},
                                                  {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL}};

static double solve_s(const struct pz_problem *p, int64_t steps, struct pz_schedule *out) {
  struct pz_solve_options o = {.steps = steps};
  struct pz_error err = {0};
  double best = 1e9;
  for (int again = 0; again < 3; again++) {
    struct pz_arena arena;
    pz_arena_init(&arena, NULL);
    double start = pz_clock_s();
    if (pz_schedule_solve(p, &o, &arena, out, &err) != PZ_OK) {
      fprintf(stderr, "%s\n", err.message);
      exit(1);
    }
    double took = pz_clock_s() - start;
    if (took < best) best = took;
    pz_arena_release(&arena);
    if (took > 0.05) break;
  }
  return best;
}

static void layer(struct pz_cost *cost, const struct pz_workload *w, const struct pz_layer *l,
                  int64_t steps) {
  for (int d = 0; d < 2; d++)
    for (int k = 0; k < 3; k++) {
      if (getenv("KIND") && atoi(getenv("KIND")) != k) continue;
      struct pz_arena arena;
      struct pz_problem p;
      struct pz_schedule s;
      struct pz_error err = {0};
      pz_arena_init(&arena, NULL);
      double start = pz_clock_s();
      if (pz_layer_problem(cost, &l->ops[d], &options[k], &arena, &p, &err) != PZ_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
      }
      double build = pz_clock_s() - start;
      double took = solve_s(&p, steps, &s);
      printf("%s,%s,%s,%lld,%s,%s,%u,%.9g,%.5f,%s,%lld,%.1f,%.1f\n", kinds[k], cost->chip.name,
             w->model, (long long)w->options.tp, l->name, d ? "backward" : "forward", p.n,
             s.makespan * 1e6, 100 * (s.makespan - s.lower_bound) / s.makespan,
             s.outcome == PZ_OUTCOME_OPTIMAL ? "optimal" : "feasible", (long long)s.steps,
             took * 1e6, build * 1e6);
      fflush(stdout);
      pz_arena_release(&arena);
    }
}

int main(int argc, char **argv) {
  static const char *const chips[] = {"tpuv4", "h200"};
  int64_t steps = argc > 1 ? atoll(argv[1]) : 0;
  printf("problem,chip,model,tp,layer,direction,ops,makespan_us,gap_percent,outcome,steps,us,build_"
         "us\n");
  for (size_t c = 0; c < 2; c++)
    for (size_t m = 0; pz_preset_name(m); m++)
      for (int64_t tp = 1; tp <= 128; tp++) {
        struct pz_chip chip;
        struct pz_cost cost;
        struct pz_workload *w = NULL;
        struct pz_workload_options o = pz_workload_options_default();
        o.tp = tp;
        if (getenv("CHIP") && strcmp(getenv("CHIP"), chips[c]) != 0) continue;
        if (pz_workload_load(pz_preset_name(m), &o, &w, NULL) != PZ_OK) continue;
        if (pz_chip_load(chips[c], &chip, NULL) != PZ_OK) return 1;
        pz_cost_init(&cost, &chip, NULL);
        for (uint32_t i = 0; i < w->n_layers; i++) layer(&cost, w, &w->layers[i], steps);
        pz_cost_release(&cost);
        pz_workload_free(w);
      }
  return 0;
}
