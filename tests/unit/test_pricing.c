/* The search for the dearest pack against every pack there is: small random problems with many
 * modes, at prices that each task has, some modes without. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/colgen/pricing.h"

#include "unit/testing.h"

static uint64_t seed = 11;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

enum { LEAST = 3, MOST = 8, MODES = 4 };

/* Modes of 1, 2, 4 and 8 cores, some with a share of a rate; some tasks like the one before. */
static void draw_problem(struct pz_arena *arena, struct pz_problem *p) {
  const int32_t capacity[PZ_RESOURCES] = {4 + (int32_t)draw(6), 1 + (int32_t)draw(4), 1, 20, 20};
  struct pz_task tasks[MOST] = {{0}};
  struct pz_mode modes[MOST][MODES];
  struct pz_edge edges[MOST * MOST];
  struct pz_error err = {0};
  memset(modes, 0, sizeof modes);
  uint32_t n = LEAST + draw(MOST - LEAST + 1), n_edges = 0;
  for (uint32_t i = 0; i < n; i++) {
    int r = draw(3) ? PZ_TENSOR_CORES : PZ_VECTOR_CORES;
    uint32_t n_modes = 0, s = 8 + draw(100);
    for (; n_modes < MODES && 1 << n_modes <= capacity[r]; n_modes++) {
      modes[i][n_modes].s = s * pow(0.55, n_modes);
      modes[i][n_modes].use[r] = 1 << n_modes;
      modes[i][n_modes].use[PZ_HBM_RATE] = (int32_t)draw(20);
    }
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = modes[i], .n_modes = n_modes};
    if (i && draw(2)) {
      memcpy(modes[i], modes[i - 1], sizeof modes[i]);
      tasks[i].n_modes = tasks[i - 1].n_modes;
    }
    for (uint32_t k = 0; k < i; k++)
      if (draw(5) == 0) edges[n_edges++] = (struct pz_edge){k, i};
  }
  if (pz_problem_make(arena, capacity, tasks, n, edges, n_edges, p, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

/* A price for each task, often that of the one before; a quarter of the modes left out. */
static void draw_rates(const struct pz_problem *p, struct pz_pricing *x) {
  double value = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    if (i == 0 || draw(2)) value = 1 + draw(40);
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++)
      x->rate[x->mode_at[i] + m] = draw(4) ? value / p->tasks[i].modes[m].s : 0;
  }
}

/* With the tasks from i on. */
static double best_of_all(const struct pz_pricing *x, uint32_t i, struct pz_bits incompatible,
                          const int32_t residual[PZ_RESOURCES]) {
  if (i == x->p->n) return 0;
  double best = best_of_all(x, i + 1, incompatible, residual);
  if (pz_bits_has(&incompatible, i)) return best;
  pz_bits_merge(&incompatible, &x->incompatible[i]);
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
    const struct pz_mode *mode = &x->p->tasks[i].modes[m];
    double rate = x->rate[x->mode_at[i] + m];
    int32_t left[PZ_RESOURCES];
    if (rate <= 0 || !pz_mode_fits(residual, mode)) continue;
    for (int r = 0; r < PZ_RESOURCES; r++) left[r] = residual[r] - mode->use[r];
    best = fmax(best, rate + best_of_all(x, i + 1, incompatible, left));
  }
  return best;
}

/* No dearer one is missed: `most` says how dear it may be where looks are few. */
static void check_nodes(struct pz_pricing *x, double best_value, int most_nodes) {
  double found = 1;
  pz_pricing_reset(x);
  for (uint32_t k = 0; k < x->n_order; k++) {
    x->most_nodes = most_nodes;
    pz_pricing_solve(x, k);
    if (x->best.n) found = fmax(found, x->best.value);
  }
  assert_true(x->n_order == 0 || x->most >= best_value * (1 - 1e-12));
  assert_true(found <= best_value * (1 + 1e-12));
  if (most_nodes == INT32_MAX) assert_true(found >= best_value * (1 - 1e-12));
  if (most_nodes == INT32_MAX) assert_true(x->most <= best_value * (1 + 1e-12));
}

static void the_best_subset_is_found(void **state) {
  (void)state;
  static const int nodes[] = {INT32_MAX, 6, 1, 0};
  for (int round = 0; round < 3000; round++) {
    struct pz_arena arena;
    struct pz_problem p;
    struct pz_context c;
    struct pz_pricing x;
    struct pz_error err = {0};
    pz_arena_init(&arena, NULL);
    draw_problem(&arena, &p);
    assert_int_equal(pz_context_init(&c, &p, &arena, &err), PZ_OK);
    assert_true(pz_pricing_init(&x, &c, &arena));
    for (int again = 0; again < 3; again++) { /* tolls are kept from one to the next */
      draw_rates(&p, &x);
      double best_value = best_of_all(&x, 0, (struct pz_bits){{0}}, p.capacity);
      for (uint32_t m = 0; m < c.n_modes && again < 2; m++) x.rate[m] /= fmax(best_value, 1e-9);
      if (again < 2) best_value = best_of_all(&x, 0, (struct pz_bits){{0}}, p.capacity);
      pz_pricing_begin(&x);
      for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++)
        check_nodes(&x, fmax(1, best_value), nodes[k]);
    }
    pz_arena_release(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_subset_is_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
