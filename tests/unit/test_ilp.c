/* The integer program: equal to the exact search on problems with many modes and all resources;
 * as files, read and solved by the library alone, equal too; limits. */
#include "unit/testing.h"

#include <Cbc_C_Interface.h>
#include <Clp_C_Interface.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "lp/lp.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/model/context.h"
#include "unit/schedule_calls.h"
#include "unit/searching.h"

static uint64_t seed = 11;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

enum { MOST = 7, MODES = 4 };

/* Times that are no integers, modes of any use, a few of no length, some with the same modes. */
static void draw_problem(struct pz_arena *arena, uint32_t n, struct pz_problem *p) {
  int32_t capacity[PZ_RESOURCES] = {1 + (int32_t)draw(4), 1 + (int32_t)draw(4), 1, PZ_RATE_PARTS,
                                    PZ_RATE_PARTS};
  struct pz_task tasks[MOST] = {{0}};
  struct pz_mode modes[MOST][MODES];
  memset(modes, 0, sizeof modes);
  struct pz_edge edges[MOST * MOST];
  struct pz_error err = {0};
  uint32_t n_edges = 0, density = draw(5);
  for (uint32_t i = 0; i < n; i++) {
    tasks[i] =
        (struct pz_task){.name = "op", .id = i, .modes = modes[i], .n_modes = 1 + draw(MODES)};
    for (uint32_t m = 0; m < tasks[i].n_modes; m++) {
      modes[i][m].duration = draw(8) ? 1e-6 * (1 + draw(1000)) / (1 + m) : 0;
      for (int r = 0; r < PZ_RESOURCES; r++)
        modes[i][m].use[r] = draw(2) ? (int32_t)draw((uint32_t)capacity[r] + 1) : 0;
    }
    if (i && draw(3) == 0) { /* one that is like another */
      uint32_t other = draw(i);
      tasks[i].n_modes = tasks[other].n_modes;
      memcpy(modes[i], modes[other], sizeof modes[i]);
    }
    for (uint32_t k = 0; k < i; k++)
      if (draw(8) < density) edges[n_edges++] = (struct pz_edge){k, i};
  }
  if (pz_problem_make(arena, capacity, tasks, n, edges, n_edges, p, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

/* A chain with short tasks hanging off it and some of the same modes: what a layer backward is. */
static void draw_spine(struct pz_arena *arena, uint32_t n, struct pz_problem *p) {
  const int32_t capacity[PZ_RESOURCES] = {4, 2, 1, PZ_RATE_PARTS, PZ_RATE_PARTS};
  struct pz_task tasks[MOST] = {{0}};
  struct pz_mode modes[MOST][MODES];
  struct pz_edge edges[MOST];
  struct pz_error err = {0};
  uint32_t n_edges = 0, last = 0;
  memset(modes, 0, sizeof modes);
  for (uint32_t i = 0; i < n; i++) {
    bool leaf = i > 1 && draw(2), brief = leaf && draw(2), vector = draw(3) == 0;
    tasks[i] =
        (struct pz_task){.name = "op", .id = i, .modes = modes[i], .n_modes = vector ? 2 : 3};
    double s = brief ? 1 + draw(3) : draw(2) ? 200 : 100 + draw(300);
    for (uint32_t m = 0; m < tasks[i].n_modes; m++) {
      modes[i][m].duration = 1e-6 * s / (1 << m) * (1 + 0.1 * m);
      modes[i][m].use[vector ? PZ_VECTOR_CORES : PZ_TENSOR_CORES] = 1 << m;
      modes[i][m].use[PZ_HBM_RATE] = (int32_t)draw(PZ_RATE_PARTS / 2);
    }
    if (i && draw(3) == 0 && vector == (tasks[i - 1].n_modes == 2))
      memcpy(modes[i], modes[i - 1], sizeof modes[i]);
    if (i) edges[n_edges++] = (struct pz_edge){last, i};
    if (!leaf) last = i;
  }
  if (pz_problem_make(arena, capacity, tasks, n, edges, n_edges, p, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

static double solve(const struct pz_problem *p, enum pz_solver solver, struct pz_arena *arena) {
  struct pz_solve_options o = {.solver = solver};
  struct pz_schedule s;
  struct pz_error err = {0};
  if (pz_schedule_solve(p, &o, arena, &s, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_int_equal(s.outcome, PZ_OUTCOME_OPTIMAL);
  return s.makespan;
}

/* However few the steps, what is said is true. */
static void check_limits(const struct pz_problem *p, double best) {
  static const int64_t steps[] = {300, 1500, 4000, 12000};
  for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
    struct pz_arena arena;
    struct pz_schedule s;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    const struct pz_solve_options o = {.steps = steps[k]};
    if (pz_schedule_solve(p, &o, &arena, &s, &err) != PZ_OK) fail_msg("%s", err.message);
    assert_true(s.lower_bound <= best * (1 + 1e-9) && s.makespan >= best * (1 - 1e-9));
    pz_arena_release(&arena);
  }
}

static void many_modes_are_as_by_exact_search(void **state) {
  (void)state;
  for (int round = 0; round < pz_test_part(300); round++) {
    struct pz_arena arena;
    struct pz_problem p;
    pz_arena_init(&arena);
    if (round % 3 == 0)
      draw_spine(&arena, MOST, &p);
    else
      draw_problem(&arena, 1 + draw(MOST), &p);
    double exact = solve(&p, PZ_SOLVER_EXACT, &arena), ilp = solve(&p, PZ_SOLVER_ILP, &arena);
    if (fabs(exact - ilp) > 1e-9 * exact)
      fail_msg("round %d, %u operators: exact search %.12g, ILP %.12g", round, p.n, exact, ilp);
    for (enum search which = 0; which < SEARCHES; which++)
      if (fabs(search_alone(&p, which) - ilp) > 1e-9 * ilp)
        fail_msg("round %d, %u operators: search %d gives %.12g, ILP %.12g", round, p.n, (int)which,
                 search_alone(&p, which), ilp);
    check_limits(&p, ilp);
    pz_arena_release(&arena);
  }
}

/* ---- dual values ---------------------------------------------------------------------------- */

/* All feasible subsets of a small problem: by enumeration, each with the rates' sum and as a
 * column. */
struct subsets {
  const struct pz_problem *p;
  bool before[MOST][MOST];
  const struct pz_context *context;
  const struct pz_duals *duals;
  double largest;
  struct pz_lp *lp;
  uint32_t row[MOST];
};

static void each_subset(struct subsets *x, uint32_t i, int *mode,
                        const int32_t residual[PZ_RESOURCES]) {
  if (i == x->p->n) {
    double value = 0;
    uint32_t col =
        x->lp ? pz_lp_add_column(x->lp, (struct pz_lp_col){.upper = DBL_MAX, .cost = 1}, "c") : 0;
    for (uint32_t k = 0; k < i; k++) {
      if (mode[k] < 0) continue;
      if (x->duals) value += x->duals->rate[x->context->first_mode[k] + (uint32_t)mode[k]];
      double s = x->p->tasks[k].modes[mode[k]].duration;
      if (x->lp && x->row[k] != PZ_NONE) pz_lp_set_entry(x->lp, x->row[k], col, 1e-6 / s);
    }
    x->largest = fmax(x->largest, value);
    return;
  }
  bool incompatible = false;
  for (uint32_t k = 0; k < i && i < MOST; k++)
    incompatible = incompatible || (mode[k] >= 0 && x->before[k][i]);
  for (int m = -1; m < (incompatible ? 0 : (int)x->p->tasks[i].n_modes); m++) {
    int32_t left[PZ_RESOURCES];
    if (m >= 0 && !pz_mode_fits(residual, &x->p->tasks[i].modes[m])) continue;
    for (int r = 0; r < PZ_RESOURCES; r++)
      left[r] = residual[r] - (m < 0 ? 0 : x->p->tasks[i].modes[m].use[r]);
    mode[i] = m;
    each_subset(x, i + 1, mode, left);
  }
}

/* The least cost, by Clp; entries stand column by column, and rows are at least 1. */
static double clp_objective(const struct pz_lp *lp, struct pz_arena *arena) {
  const struct pz_lp_entry *e = lp->entries.items;
  uint32_t n = lp->cols.n, at = 0;
  int *start = pz_arena_alloc(arena, n + 1, sizeof *start);
  int *index = pz_arena_alloc(arena, lp->entries.n, sizeof *index);
  double *value = pz_arena_alloc(arena, lp->entries.n, sizeof *value);
  double *cost = pz_arena_alloc(arena, n, sizeof *cost);
  double *least = pz_arena_alloc(arena, lp->rows.n, sizeof *least);
  assert_true(start && index && value && cost && least);
  for (uint32_t c = 0; c < n; c++) {
    cost[c] = 1;
    for (; at < lp->entries.n && e[at].col == c; at++) {
      index[at] = (int)e[at].row;
      value[at] = e[at].value;
    }
    start[c + 1] = (int)at;
  }
  for (uint32_t r = 0; r < lp->rows.n; r++) least[r] = 1;
  Clp_Simplex *m = Clp_newModel();
  Clp_setLogLevel(m, 0);
  Clp_loadProblem(m, (int)n, (int)lp->rows.n, start, index, value, NULL, NULL, cost, least, NULL);
  Clp_dual(m, 0);
  Clp_primal(m, 0);
  assert_int_equal(Clp_status(m), 0);
  double objective = Clp_objectiveValue(m);
  Clp_deleteModel(m);
  return objective;
}

/* By the library, with every subset as a column. */
static double bound_by_all_subsets(struct pz_call *call, struct subsets *x) {
  struct pz_lp lp;
  int mode[MOST];
  pz_lp_init(&lp, call);
  for (uint32_t i = 0; i < x->p->n && i < MOST; i++) {
    const struct pz_task *t = &x->p->tasks[i];
    bool always = true;
    for (uint32_t m = 0; m < t->n_modes; m++) always = always && t->modes[m].duration > 0;
    x->row[i] = always ? pz_lp_add_row(&lp, PZ_LP_AT_LEAST, 1, "r%u", i) : PZ_NONE;
    for (uint32_t k = 0; k < t->n_pred; k++)
      for (uint32_t q = 0; q < i; q++)
        if (q == t->pred[k] || x->before[q][t->pred[k]]) x->before[q][i] = true;
  }
  x->lp = &lp;
  each_subset(x, 0, mode, x->p->capacity);
  x->lp = NULL;
  return lp.rows.n ? 1e-6 * clp_objective(&lp, call->arena) : 0;
}

/* The incumbent far away: nothing is eliminated. */
static struct pz_context *dual_values_alone(struct pz_call *call, const struct pz_problem *p) {
  struct pz_context *context = pz_context_new(call, p);
  struct pz_slot slots[MOST];
  double t = 0;
  for (uint32_t i = 0; i < p->n; i++, t = slots[i - 1].end)
    slots[i] = (struct pz_slot){t, t + p->tasks[i].modes[0].duration, 0};
  pz_update_incumbent(context, slots, 1 + t, PZ_T_NONE);
  struct pz_colgen *colgen = pz_colgen_new(context);
  if (colgen) pz_colgen_run(colgen, INT64_MAX / 16);
  return context;
}

struct dual_round {
  int round;
  const struct pz_problem *p;
};

static void compare_duals(struct pz_call *call, void *ctx) {
  const struct dual_round *x = ctx;
  struct subsets subsets = {.p = x->p};
  int mode[MOST];
  double bound = bound_by_all_subsets(call, &subsets);
  subsets.context = dual_values_alone(call, x->p);
  subsets.duals = &subsets.context->duals;
  each_subset(&subsets, 0, mode, x->p->capacity);
  assert_true(subsets.largest <= 1 + 1e-9);
  if (fabs(subsets.duals->sum - bound) > 1e-7 * bound)
    fail_msg("round %d, %u operators: dual values %.12g, all subsets %.12g", x->round, x->p->n,
             subsets.duals->sum, bound);
}

static void dual_values_are_those_of_all_subsets(void **state) {
  (void)state;
  for (int round = 0; round < pz_test_part(400); round++) {
    struct pz_arena arena;
    struct pz_problem p;
    pz_arena_init(&arena);
    if (round % 2)
      draw_spine(&arena, 2 + draw(MOST - 2), &p);
    else
      draw_problem(&arena, 1 + draw(MOST - 1), &p);
    struct dual_round in_round = {round, &p};
    assert_int_equal(pz_border(compare_duals, &in_round, NULL), PZ_OK);
    pz_arena_release(&arena);
  }
}

/* Tasks of the same modes of which one has more behind it: starting that first in a slow mode is
 * not as good as starting the other first. */
static void same_modes_are_not_interchangeable(void **state) {
  (void)state;
  static const struct pz_mode four[] = {{.use = {0, 1}, .duration = 4},
                                        {.use = {0, 2}, .duration = 1},
                                        {.use = {0, 3, 0, 0, 1}, .duration = 1}};
  static const struct pz_mode last[] = {{.use = {1, 1, 0, 1}, .duration = 3},
                                        {.use = {2, 2, 0, 1}, .duration = 2}};
  static const struct pz_mode one[] = {{.use = {1, 0, 0, 2}, .duration = 3}};
  const int32_t capacity[PZ_RESOURCES] = {4, 3, 1, 4, 4};
  struct pz_task tasks[6] = {{0}};
  static const struct pz_edge edges[] = {{0, 4}, {0, 5}, {1, 5}, {2, 5}};
  struct pz_arena arena;
  struct pz_problem p;
  pz_arena_init(&arena);
  for (uint32_t i = 0; i < 6; i++)
    tasks[i] = (struct pz_task){.name = "op",
                                .id = i,
                                .modes = i < 4    ? four
                                         : i == 4 ? one
                                                  : last,
                                .n_modes = i < 4    ? 3
                                           : i == 4 ? 1
                                                    : 2};
  assert_int_equal(pz_problem_make(&arena, capacity, tasks, 6, edges, 4, &p, NULL), PZ_OK);
  for (enum search which = 0; which < SEARCHES; which++) assert_true(search_alone(&p, which) == 5);
  assert_true(solve(&p, PZ_SOLVER_ILP, &arena) == 5);
  pz_arena_release(&arena);
}

/* Of five interchangeable operators some are to be fast and first, others slow: in either half of a
 * search over the modes of one of them it is not like the others. */
static void interchangeable_may_run_in_different_modes(void **state) {
  (void)state;
  static const struct pz_mode wide[] = {{.use = {1, 0, 0, 361855}, .duration = 40},
                                        {.use = {2, 0, 0, 482977}, .duration = 22},
                                        {.use = {4, 0, 0, 212238}, .duration = 12}};
  static const struct pz_mode brief[] = {{.use = {1, 0, 0, 349784}, .duration = 3},
                                         {.use = {2, 0, 0, 238603}, .duration = 2},
                                         {.use = {4, 0, 0, 0}, .duration = 1}};
  static const struct pz_mode after[] = {{.use = {1, 0, 0, 414656}, .duration = 40},
                                         {.use = {2, 0, 0, 0}, .duration = 22},
                                         {.use = {4, 0, 0, 215780}, .duration = 12}};
  static const struct pz_mode *const modes[] = {wide,  wide,  wide,  brief, wide,
                                                after, after, brief, wide};
  static const struct pz_edge edges[] = {{2, 3}, {2, 7}, {3, 5}, {3, 6}};
  const int32_t capacity[PZ_RESOURCES] = {4, 2, 1, PZ_RATE_PARTS, PZ_RATE_PARTS};
  struct pz_task tasks[9] = {{0}};
  struct pz_arena arena;
  struct pz_problem p;
  pz_arena_init(&arena);
  for (uint32_t i = 0; i < 9; i++)
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = modes[i], .n_modes = 3};
  assert_int_equal(pz_problem_make(&arena, capacity, tasks, 9, edges, 4, &p, NULL), PZ_OK);
  for (int64_t steps = 1000; steps <= 1000000; steps *= 2) {
    struct pz_solve_options o = {.steps = steps};
    struct pz_schedule s;
    assert_int_equal(pz_schedule_solve(&p, &o, &arena, &s, NULL), PZ_OK);
    assert_true(s.lower_bound <= 78 && s.makespan >= 78);
  }
  assert_true(solve(&p, PZ_SOLVER_EXACT, &arena) == 78);
  pz_arena_release(&arena);
}

/* What CBC makes of the file, in seconds. */
static double solve_file(const struct pz_problem *p, const char *path) {
  struct pz_error err = {0};
  if (write_ilp(p, path, &err) != PZ_OK) fail_msg("%s", err.message);
  Cbc_Model *m = Cbc_newModel();
  Cbc_setLogLevel(m, 0);
  Cbc_setParameter(m, "log", "0");
  int failed = strstr(path, ".mps") ? Cbc_readMps(m, path) : Cbc_readLp(m, path);
  assert_int_equal(failed, 0);
  Cbc_solve(m);
  assert_true(Cbc_isProvenOptimal(m));
  double objective = Cbc_getObjValue(m);
  Cbc_deleteModel(m);
  unlink(path);
  return objective * 1e-6;
}

static void files_say_the_same(void **state) {
  (void)state;
  char lp[64], mps[64];
  snprintf(lp, sizeof lp, "test_ilp_%d.lp", (int)getpid());
  snprintf(mps, sizeof mps, "test_ilp_%d.mps", (int)getpid());
  for (int round = 0; round < pz_test_part(40); round++) {
    struct pz_arena arena;
    struct pz_problem p;
    pz_arena_init(&arena);
    draw_problem(&arena, 2 + draw(MOST - 1), &p);
    double exact = solve(&p, PZ_SOLVER_EXACT, &arena);
    double by_lp = solve_file(&p, lp), by_mps = solve_file(&p, mps);
    if (fabs(by_lp - exact) > 1e-5 * exact || fabs(by_mps - exact) > 1e-5 * exact)
      fail_msg("round %d: exact search %.12g, .lp %.12g, .mps %.12g", round, exact, by_lp, by_mps);
    pz_arena_release(&arena);
  }
}

static void limits_are_said(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  draw_problem(&arena, 3, &p);
  assert_int_equal(write_ilp(&p, "model.txt", &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, ".lp or .mps"));
  struct pz_mode mode = {.duration = 1};
  struct pz_task tasks[PZ_ILP_MOST_TASKS + 1] = {{0}};
  for (int i = 0; i <= PZ_ILP_MOST_TASKS; i++)
    tasks[i] = (struct pz_task){.name = "op", .modes = &mode, .n_modes = 1};
  assert_int_equal(
      pz_problem_make(&arena, p.capacity, tasks, PZ_ILP_MOST_TASKS + 1, NULL, 0, &p, &err), PZ_OK);
  struct pz_solve_options o = {.solver = PZ_SOLVER_ILP};
  struct pz_schedule s;
  err = (struct pz_error){0};
  assert_int_equal(pz_schedule_solve(&p, &o, &arena, &s, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "at most 128"));
  pz_arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_modes_are_as_by_exact_search),
      cmocka_unit_test(dual_values_are_those_of_all_subsets),
      cmocka_unit_test(same_modes_are_not_interchangeable),
      cmocka_unit_test(interchangeable_may_run_in_different_modes),
      cmocka_unit_test(files_say_the_same),
      cmocka_unit_test(limits_are_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
