/* Random layered graphs of 40 operators and width 6, 30 of them, on 1+1, 2+2, 3+5 and 4+4 cores:
 * how far the bound is from the answer after so many steps.  Usage: bench_random [STEPS [OPS [WIDTH
 * [SEED]]]]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/progress.h"
#include "schedule/model/instance.h"
#include "schedule/solve.h"

enum { GRAPHS = 30, MOST_OPS = 200, KINDS = 4 };

static uint64_t seed;

static uint32_t draw(uint32_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((seed >> 33) % n);
}

struct graph {
  uint32_t n, n_edges;
  enum pz_task_class type[MOST_OPS];
  double single[MOST_OPS], speedup[MOST_OPS]; /* 0: none, 1: as many times as there are cores */
  struct pz_edge edges[4 * MOST_OPS];
};

/* Layers of 1 to `width` operators; each has one to three of the layer before it, now and then of
 * an earlier one. */
static void draw_graph(struct graph *g, uint32_t n, uint32_t width) {
  uint32_t first = 0, before = 0, end = 0; /* of the layer, of the one before */
  g->n = n;
  g->n_edges = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i == end) {
      before = first;
      first = i;
      end = i + 1 + draw(width);
    }
    uint32_t kind = draw(20);
    g->type[i] = kind < 9 ? PZ_TASK_TENSOR : kind < 17 ? PZ_TASK_VECTOR : PZ_TASK_BOTH;
    g->single[i] = 10 + draw(490);
    g->speedup[i] = draw(5) ? (50 + draw(51)) / 100.0 : 0;
    for (uint32_t k = first ? 1 + draw(2) : 0; k > 0; k--) {
      uint32_t from = draw(8) ? before + draw(first - before) : draw(first);
      g->edges[g->n_edges++] = (struct pz_edge){from, i};
    }
  }
}

static void make(const struct graph *g, const int32_t cores[2], struct pz_arena *arena,
                 struct pz_problem *p) {
  struct pz_task tasks[MOST_OPS] = {{0}};
  struct pz_mode modes[MOST_OPS][2];
  int32_t capacity[PZ_RESOURCES] = {cores[0], cores[1], 1, 1, 1};
  struct pz_error err = {0};
  for (uint32_t i = 0; i < g->n; i++) {
    int32_t n = cores[g->type[i] == PZ_TASK_VECTOR];
    double all = g->single[i] / (1 + (n - 1) * g->speedup[i]);
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = modes[i]};
    tasks[i].n_modes =
        pz_two_modes(g->type[i], capacity, g->single[i], ceil(all), PZ_EXCLUSIVE_ALL, modes[i]);
  }
  if (pz_problem_make(arena, capacity, tasks, g->n, g->edges, g->n_edges, p, &err) != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    exit(1);
  }
}

int main(int argc, char **argv) {
  static const int32_t cores[KINDS][2] = {{1, 1}, {2, 2}, {3, 5}, {4, 4}};
  int64_t steps = argc > 1 ? atoll(argv[1]) : 0;
  uint32_t n = argc > 2 ? (uint32_t)atoi(argv[2]) : 40;
  uint32_t width = argc > 3 ? (uint32_t)atoi(argv[3]) : 6;
  if (n > MOST_OPS || width < 1) return 2;
  printf("cores,steps,proven,mean_gap_percent,worst_gap_percent,mean_s,worst_s,sum_of_makespans\n");
  for (int k = 0; k < KINDS; k++) {
    double gap = 0, worst = 0, s_sum = 0, s_worst = 0, sum = 0;
    int proven = 0;
    seed = argc > 4 ? (uint64_t)atoll(argv[4]) : 1;
    for (int i = 0; i < GRAPHS; i++) {
      struct graph g;
      struct pz_arena arena;
      struct pz_problem p;
      struct pz_schedule s;
      struct pz_error err = {0};
      struct pz_solve_options o = {.steps = steps};
      pz_arena_init(&arena, NULL);
      draw_graph(&g, n, width);
      make(&g, cores[k], &arena, &p);
      double start = pz_clock_s();
      if (pz_schedule_solve(&p, &o, &arena, &s, &err) != PZ_OK) return 1;
      double took = pz_clock_s() - start, off = 100 * (1 - s.lower_bound / s.makespan);
      proven += s.outcome == PZ_OUTCOME_OPTIMAL;
      gap += off / GRAPHS;
      worst = fmax(worst, off);
      s_sum += took / GRAPHS;
      s_worst = fmax(s_worst, took);
      sum += s.makespan;
      pz_arena_release(&arena);
    }
    printf("%d+%d,%lld,%d,%.3f,%.3f,%.3f,%.3f,%.0f\n", cores[k][0], cores[k][1], (long long)steps,
           proven, gap, worst, s_sum, s_worst, sum);
    fflush(stdout);
  }
  return 0;
}
