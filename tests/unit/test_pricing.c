/* The pricing problem against every feasible subset there is: small random problems with many
 * modes, at dual values of tasks, some modes without; and dual values by an independent checker. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/colgen/pricing.h"

#include "schedule/colgen/column_generation.h"
#include "unit/dual_checker.h"
#include "unit/schedule_calls.h"
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
      modes[i][n_modes].duration = s * pow(0.55, n_modes);
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

/* A dual value for each task, often that of the one before; a quarter of the modes left out. */
static void draw_rates(const struct pz_problem *p, struct pz_pricing *x) {
  double value = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    if (i == 0 || draw(2)) value = 1 + draw(40);
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++)
      x->rate[x->first_mode[i] + m] = draw(4) ? value / p->tasks[i].modes[m].duration : 0;
  }
}

/* With the tasks from i on. */
static double best_of_all(const struct pz_pricing *x, uint32_t i, struct pz_bits incompatible,
                          const int32_t residual[PZ_RESOURCES]) {
  if (i == x->problem->n) return 0;
  double best = best_of_all(x, i + 1, incompatible, residual);
  if (pz_bits_has(&incompatible, i)) return best;
  pz_bits_merge(&incompatible, &x->incompatible[i]);
  for (uint32_t m = 0; m < x->problem->tasks[i].n_modes; m++) {
    const struct pz_mode *mode = &x->problem->tasks[i].modes[m];
    double rate = x->rate[x->first_mode[i] + m];
    int32_t left[PZ_RESOURCES];
    if (rate <= 0 || !pz_mode_fits(residual, mode)) continue;
    for (int r = 0; r < PZ_RESOURCES; r++) left[r] = residual[r] - mode->use[r];
    best = fmax(best, rate + best_of_all(x, i + 1, incompatible, left));
  }
  return best;
}

/* No better one is missed: `upper_bound` says how good it may be where nodes are few. */
static void check_nodes(struct pz_pricing *x, double best_value, int most_nodes) {
  double found = 1;
  pz_pricing_reset(x);
  for (uint32_t k = 0; k < x->n_choices; k++) {
    x->most_nodes = most_nodes;
    pz_pricing_solve(x, k);
    if (x->best.n) found = fmax(found, x->best.value);
  }
  assert_true(x->n_choices == 0 || x->upper_bound >= best_value * (1 - 1e-12));
  assert_true(found <= best_value * (1 + 1e-12));
  if (most_nodes == INT32_MAX) assert_true(found >= best_value * (1 - 1e-12));
  if (most_nodes == INT32_MAX) assert_true(x->upper_bound <= best_value * (1 + 1e-12));
}

/* Multipliers are kept from one set of rates to the next. */
static void check_problem(struct pz_call *call, void *ctx) {
  static const int nodes[] = {INT32_MAX, 6, 1, 0};
  struct pz_problem p;
  struct pz_pricing x;
  (void)ctx;
  draw_problem(call->arena, &p);
  struct pz_context *context = pz_context_new(call, &p);
  pz_pricing_init(call, &x, context);
  for (int again = 0; again < 3; again++) {
    draw_rates(&p, &x);
    double best_value = best_of_all(&x, 0, (struct pz_bits){{0}}, p.capacity);
    for (uint32_t m = 0; m < context->n_modes && again < 2; m++)
      x.rate[m] /= fmax(best_value, 1e-9);
    if (again < 2) best_value = best_of_all(&x, 0, (struct pz_bits){{0}}, p.capacity);
    pz_pricing_begin(&x);
    for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++)
      check_nodes(&x, fmax(1, best_value), nodes[k]);
  }
}

static void the_best_subset_is_found(void **state) {
  (void)state;
  for (int round = 0; round < 3000; round++)
    assert_int_equal(pz_border(check_problem, NULL, NULL), PZ_OK);
}

/* ---- dual values ----------------------------------------------------------------------------- */

/* Feasible: no subset is worth more than 1.  What is claimed is what they prove. */
static void check_duals(const struct pz_context *context) {
  const struct pz_duals *duals = &context->duals;
  struct dual_checker x = dual_checker(context->problem, duals->rate, context->eliminated);
  double largest = dual_check_largest(&x, 0), bound = dual_check_bound(&x);
  if (largest > 1 + 1e-12) fail_msg("a subset has value %.17g", largest);
  if (pz_open(context) &&
      fabs(bound - duals->sum) > 1e-12 * context->scale) /* else a task has no mode left */
    fail_msg("bound %.17g is claimed, %.17g is proved", duals->sum, bound);
  assert_true(context->lower_bound_s <= context->incumbent_s);
}

/* The incumbent has the makespan of all tasks in sequence, each in its fastest mode, times a
 * factor: with 1 modes are eliminated, with 10 hardly any. */
struct dual_run {
  const struct pz_problem *p;
  int64_t steps;
  double factor;
  const struct pz_techniques *techniques;
};

static void generate_within(struct pz_call *call, void *ctx) {
  const struct dual_run *run = ctx;
  const struct pz_problem *p = run->p;
  struct pz_context *context = pz_context_new(call, p);
  struct pz_slot slots[MOST];
  double t = 0;
  context->techniques = run->techniques;
  for (uint32_t i = 0; i < p->n; i++, t = slots[i - 1].end) {
    uint32_t best = 0;
    for (uint32_t m = 1; m < p->tasks[i].n_modes; m++)
      if (p->tasks[i].modes[m].duration < p->tasks[i].modes[best].duration) best = m;
    slots[i] = (struct pz_slot){t, t + p->tasks[i].modes[best].duration, best};
  }
  pz_update_incumbent(context, slots, t * run->factor, PZ_T_NONE);
  struct pz_colgen *colgen = pz_colgen_new(context);
  if (colgen) pz_colgen_run(colgen, run->steps);
  check_duals(context);
  if (colgen) pz_colgen_run(colgen, run->steps); /* with the modes that are left */
  check_duals(context);
}

/* Ended early or not, with pricing as it is or without one of its techniques. */
static void dual_values_are_feasible(void **state) {
  (void)state;
  static const int64_t steps[] = {1, 5, 20, 100, 1000000};
  static const enum pz_technique off[] = {PZ_T_pricing_multipliers, PZ_T_pricing_dominance,
                                          PZ_T_mode_elimination, PZ_T_energetic_bound};
  for (int round = 0; round < 800; round++) {
    struct pz_arena arena;
    struct pz_problem p;
    struct pz_error err = {0};
    struct pz_techniques techniques = pz_techniques_all;
    pz_arena_init(&arena);
    draw_problem(&arena, &p);
    if (round % 5 < 4)
      assert_int_equal(disable_techniques(&techniques, pz_technique_name(off[round % 5]), &err),
                       PZ_OK);
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
      struct dual_run run = {&p, steps[k], round % 2 ? 1 : 10, &techniques};
      assert_int_equal(pz_border(generate_within, &run, NULL), PZ_OK);
    }
    pz_arena_release(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_best_subset_is_found),
                                     cmocka_unit_test(dual_values_are_feasible)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
