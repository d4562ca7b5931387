/* Each search that proves, alone and from a poor schedule, against every schedule there is: what
 * one of them leaves out must not matter.  Small problems of two modes and both exclusivities, many
 * of them a chain with tasks hanging off it, some interchangeable, or two sides that an
 * automorphism exchanges, or nearly do, as layers are. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "unit/schedule_calls.h"

#include "unit/searching.h"

static uint64_t seed = 5;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

enum { LEAST = 5, MOST = 9 };

/* ---- problems -------------------------------------------------------------------------------- */

/* Tasks of each side; those of the other follow. */
static uint32_t side_of(uint32_t n) { return (n - 1) / 2; }

/* After the first task two sides, and perhaps one more that waits for both, or for one, or further
 * down in one than in the other. */
static uint32_t draw_sides(uint32_t n, struct pz_edge *edges) {
  uint32_t n_edges = 0, side = side_of(n), last = 2 * side + 1;
  for (uint32_t i = 1; i <= side; i++)
    for (uint32_t k = 0; k < i; k++) {
      if (!draw(2)) continue;
      edges[n_edges++] = (struct pz_edge){k, i};
      edges[n_edges++] = (struct pz_edge){k ? k + side : 0, i + side};
    }
  for (uint32_t i = 1; i <= side && last < n; i++) {
    if (!draw(2)) continue;
    edges[n_edges++] = (struct pz_edge){i, last};
    if (draw(4)) edges[n_edges++] = (struct pz_edge){1 + draw(4) % side + side, last};
    if (draw(2)) edges[n_edges++] = (struct pz_edge){i + side, last};
  }
  return n_edges;
}

static uint32_t draw_edges(uint32_t n, bool spine, struct pz_edge *edges) {
  uint32_t n_edges = 0, last = 0, density = 1 + draw(4);
  for (uint32_t i = 1; i < n; i++) {
    for (uint32_t k = 0; k < i && !spine; k++)
      if (draw(8) < density) edges[n_edges++] = (struct pz_edge){k, i};
    if (!spine) continue;
    edges[n_edges++] = (struct pz_edge){last, i};
    if (draw(2)) last = i;
  }
  return n_edges;
}

static void draw_problem(struct pz_arena *arena, struct pz_problem *p) {
  const int32_t capacity[PZ_RESOURCES] = {1 + (int32_t)draw(8), 1 + (int32_t)draw(4), 1, 1, 1};
  enum pz_exclusive exclusive = draw(3) ? PZ_EXCLUSIVE_ALL : PZ_EXCLUSIVE_CLASS;
  struct pz_task tasks[MOST] = {{0}};
  struct pz_mode modes[MOST][2];
  struct pz_edge edges[MOST * MOST];
  struct pz_error err = {0};
  uint32_t n = LEAST + draw(MOST - LEAST + 1), most = draw(2) ? 6 : 40, kind = draw(3),
           n_edges = kind == 2 ? draw_sides(n, edges) : draw_edges(n, kind, edges);
  for (uint32_t i = 0; i < n; i++) {
    enum pz_op_class type = (enum pz_op_class)draw(draw(2) ? 3 : 4);
    double single = 1 + draw(most), intra = draw(3) ? ceil(single * (4 + draw(6)) / 10) : single;
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = modes[i]};
    tasks[i].n_modes = pz_two_modes(type, capacity, type == PZ_CLASS_NONE ? 0 : single,
                                    type == PZ_CLASS_NONE ? 0 : intra, exclusive, modes[i]);
    bool copied = kind == 2 && i > side_of(n) && i <= 2 * side_of(n) && draw(20);
    if (copied || (i && draw(3) == 0)) {
      uint32_t like = copied ? i - side_of(n) : draw(i);
      memcpy(modes[i], modes[like], sizeof modes[i]);
      tasks[i].n_modes = tasks[like].n_modes;
    }
  }
  if (pz_problem_make(arena, capacity, tasks, n, edges, n_edges, p, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

/* ---- every schedule -------------------------------------------------------------------------- */

/* Tasks start at the beginning or when another ends: of the shortest schedules one is so. */
struct every {
  const struct pz_problem *p;
  double end[MOST]; /* of those started */
  uint32_t mode[MOST];
  double tail[MOST]; /* least time from a task's start to the end */
  double best;
};

static bool can_start(const struct every *x, uint32_t started, uint32_t i, double t,
                      const struct pz_mode *m) {
  const struct pz_task *task = &x->p->tasks[i];
  for (uint32_t k = 0; k < task->n_pred; k++)
    if (!(started >> task->pred[k] & 1) || x->end[task->pred[k]] > t) return false;
  for (int r = 0; r < PZ_RESOURCES; r++) {
    int32_t use = m->use[r];
    for (uint32_t k = 0; k < x->p->n; k++)
      if (started >> k & 1 && x->end[k] > t) use += x->p->tasks[k].modes[x->mode[k]].use[r];
    if (use > x->p->capacity[r]) return false;
  }
  return true;
}

static double last_end(const struct every *x, uint32_t started) {
  double last = 0;
  for (uint32_t k = 0; k < x->p->n; k++)
    if (started >> k & 1 && x->end[k] > last) last = x->end[k];
  return last;
}

/* Tasks from `from` on may start now, all of them when something ends next. */
static void try_all(struct every *x, uint32_t started, uint32_t from, double t) {
  double last = last_end(x, started), next = DBL_MAX;
  for (uint32_t i = 0; i < x->p->n; i++)
    if (!(started >> i & 1) && t + x->tail[i] >= x->best) return;
  if (last >= x->best) return;
  if (started == (1u << x->p->n) - 1) {
    x->best = last;
    return;
  }
  for (uint32_t i = from; i < x->p->n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes && !(started >> i & 1); m++) {
      const struct pz_mode *mode = &x->p->tasks[i].modes[m];
      if (!can_start(x, started, i, t, mode)) continue;
      x->end[i] = t + mode->duration;
      x->mode[i] = m;
      try_all(x, started | 1u << i, mode->duration > 0 ? i + 1 : 0, t);
    }
  for (uint32_t k = 0; k < x->p->n; k++)
    if (started >> k & 1 && x->end[k] > t && x->end[k] < next) next = x->end[k];
  if (next < DBL_MAX) try_all(x, started, 0, next);
}

static double shortest(const struct pz_problem *p) {
  struct every x = {.p = p, .best = DBL_MAX};
  for (uint32_t i = p->n; i-- > 0;) {
    double least = DBL_MAX;
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++)
      least = fmin(least, p->tasks[i].modes[m].duration);
    for (uint32_t k = 0; k < p->tasks[i].n_succ; k++)
      x.tail[i] = fmax(x.tail[i], x.tail[p->tasks[i].succ[k]]);
    x.tail[i] += least;
  }
  try_all(&x, 0, 0, 0);
  return x.best;
}

/* With modes eliminated as if there were a schedule longer by so many units: that leaves the
 * shortest. */
struct narrowed {
  const struct pz_problem *p;
  double makespan;
  int units;
};

static void search_narrowed(struct pz_call *call, void *ctx) {
  struct narrowed *x = ctx;
  struct pz_context *context = pz_context_new(call, x->p);
  double unit = context->time_unit > 0 ? context->time_unit : 1;
  context->incumbent_s = x->makespan + x->units * unit;
  context->energy_heads = true;
  pz_bound_tighten(context);
  if (pz_open(context)) run_alone(context, BEST_WITH_DUALS);
  assert_true(!pz_open(context));
  x->makespan = context->incumbent_s;
}

static double narrowed_from(const struct pz_problem *p, double makespan, int units) {
  struct narrowed x = {p, makespan, units};
  assert_int_equal(pz_border(search_narrowed, &x, NULL), PZ_OK);
  return x.makespan;
}

/* With one technique switched off: each search, and the solver as a whole. */
static void check_without(const struct pz_problem *p, enum pz_technique off, double best) {
  struct pz_techniques techniques = pz_techniques_all;
  struct pz_solve_options o = {.techniques = &techniques};
  struct pz_arena arena;
  struct pz_schedule s;
  struct pz_error err = {0};
  assert_int_equal(disable_techniques(&techniques, pz_technique_name(off), &err), PZ_OK);
  for (enum search which = 0; which < SEARCHES; which++)
    if (search_tuned(p, which, NULL, &techniques) != best)
      fail_msg("without %s, %u operators: search %d gives %g, the shortest is %g",
               pz_technique_name(off), p->n, (int)which, search_tuned(p, which, NULL, &techniques),
               best);
  pz_arena_init(&arena);
  assert_int_equal(pz_schedule_solve(p, &o, &arena, &s, &err), PZ_OK);
  if (s.makespan != best || s.lower_bound != best)
    fail_msg("without %s, %u operators: %g, bound %g; the shortest is %g", pz_technique_name(off),
             p->n, s.makespan, s.lower_bound, best);
  pz_arena_release(&arena);
}

/* Each problem also with each of six techniques switched off, in turn. */
static void each_search_finds_the_shortest(void **state) {
  (void)state;
  for (int round = 0; round < pz_test_part(3000); round++) {
    struct pz_arena arena;
    struct pz_problem p;
    pz_arena_init(&arena);
    draw_problem(&arena, &p);
    double best = shortest(&p);
    for (enum search which = 0; which < SEARCHES; which++)
      if (search_alone(&p, which) != best)
        fail_msg("round %d, %u operators: search %d gives %g, the shortest is %g", round, p.n,
                 (int)which, search_alone(&p, which), best);
    assert_true(search_alone(&p, TWO_MACHINE) <= best);
    for (int k = 0; k < 6; k++)
      check_without(&p, (enum pz_technique)((6 * round + k) % PZ_TECHNIQUES), best);
    for (int more = 1; more < 8; more *= 2) assert_true(narrowed_from(&p, best, more) == best);
    pz_arena_release(&arena);
  }
}

/* ---- some modes only ------------------------------------------------------------------------- */

/* The same problem without some of the modes; one of each task is left. */
static void leave_out_modes(struct pz_problem *p, struct pz_task *tasks, struct pz_mode (*modes)[2],
                            bool *eliminated) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_task *t = &p->tasks[i];
    tasks[i] = *t;
    tasks[i].modes = modes[i];
    tasks[i].n_modes = 0;
    uint32_t out = t->n_modes == 2 && draw(3) == 0 ? draw(2) : PZ_NONE;
    for (uint32_t m = 0; m < t->n_modes; m++) {
      eliminated[at++] = m == out;
      if (m != out) modes[i][tasks[i].n_modes++] = t->modes[m];
    }
  }
  p->tasks = tasks;
}

static double in_sequence(const struct pz_problem *p) {
  double s = 0;
  for (uint32_t i = 0; i < p->n; i++) s += p->tasks[i].modes[0].duration;
  return s;
}

/* Tasks that have lost different modes are interchangeable no longer. */
static void modes_that_are_dropped_are_not_there(void **state) {
  (void)state;
  for (int round = 0; round < pz_test_part(1000); round++) {
    struct pz_arena arena;
    struct pz_problem p, fewer;
    struct pz_task tasks[MOST];
    struct pz_mode modes[MOST][2];
    bool eliminated[2 * MOST];
    pz_arena_init(&arena);
    draw_problem(&arena, &p);
    fewer = p;
    leave_out_modes(&fewer, tasks, modes, eliminated);
    double best = fmin(shortest(&fewer), in_sequence(&p)); /* from where the searches begin */
    for (enum search which = BEST_FIRST; which < SEARCHES; which++)
      if (search_without(&p, which, eliminated) != best)
        fail_msg("round %d, %u operators: search %d gives %g, the shortest is %g", round, p.n,
                 (int)which, search_without(&p, which, eliminated), best);
    pz_arena_release(&arena);
  }
}

/* ---- known problems -------------------------------------------------------------------------- */

/* Problems that were once solved wrongly.  Each task takes some cores for a time, or all of them
 * for another, if that is given. */
struct known {
  uint32_t n;
  int32_t cores[2];
  double single[9], all[9];
  int32_t tensor[9], vector[9];
  uint32_t n_edges;
  struct pz_edge edges[9];
  double best;
};

static void solve_known(const struct known *k) {
  const int32_t capacity[PZ_RESOURCES] = {k->cores[0], k->cores[1], 1, 1, 1};
  struct pz_mode modes[9][2];
  struct pz_task tasks[9] = {{0}};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  for (uint32_t i = 0; i < k->n; i++) {
    modes[i][0] = (struct pz_mode){.use = {k->tensor[i], k->vector[i]}, .duration = k->single[i]};
    modes[i][1] = (struct pz_mode){.use = {k->cores[0], k->cores[1]}, .duration = k->all[i]};
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = modes[i]};
    tasks[i].n_modes = k->all[i] > 0 ? 2 : 1;
  }
  assert_int_equal(pz_problem_make(&arena, capacity, tasks, k->n, k->edges, k->n_edges, &p, &err),
                   PZ_OK);
  assert_true(shortest(&p) == k->best);
  for (enum search which = 0; which < SEARCHES; which++)
    assert_true(search_alone(&p, which) == k->best);
  pz_arena_release(&arena);
}

/* Two operators of no length one after the other, and one behind them that joins others late. */
static void what_takes_no_time_holds_nothing_up(void **state) {
  (void)state;
  solve_known(&(struct known){.n = 8,
                              .cores = {3, 3},
                              .single = {1, 188, 0, 0, 1, 108, 188, 80},
                              .all = {0, 0, 0, 0, 0, 2, 1, 1},
                              .tensor = {3, 1, 0, 0, 1, 1, 0, 1},
                              .vector = {3, 1, 0, 0, 1, 1, 1, 0},
                              .n_edges = 4,
                              .edges = {{0, 2}, {2, 3}, {3, 5}, {4, 7}},
                              .best = 189});
}

/* Of the short operators two run beside the first and one alone: which one, schedules that are as
 * good as each other do not agree. */
static void what_did_not_run_alone_may_do_so_later(void **state) {
  (void)state;
  solve_known(&(struct known){
      .n = 9,
      .cores = {1, 3},
      .single = {3, 2, 2, 1, 84, 84, 0, 59, 98},
      .all = {1.75},
      .tensor = {0, 1, 1, 1, 1, 1, 0, 1, 1},
      .vector = {1, 0, 0, 1, 1, 1, 0, 0, 1},
      .n_edges = 9,
      .edges = {{0, 4}, {0, 5}, {4, 6}, {1, 7}, {2, 7}, {4, 7}, {3, 7}, {3, 8}, {6, 8}},
      .best = 330});
}

/* Two sides but for one task, which waits for the first of one and the second of the other. */
static void nearly_equal_sides_are_no_automorphism(void **state) {
  (void)state;
  enum { N = 9 };
  static const struct pz_mode first[] = {{.use = {0, 2}, .duration = 5},
                                         {.use = {0, 3}, .duration = 5}},
                              second[] = {{.use = {0, 0, 0, 3, 5}, .duration = 8},
                                          {.use = {1, 0, 0, 3, 0}, .duration = 2},
                                          {.use = {0, 3, 1, 0, 0}, .duration = 4}},
                              brief[] = {{.use = {0, 0, 0, 3, 0}, .duration = 1}},
                              last[] = {{.use = {2}, .duration = 1},
                                        {.use = {4}, .duration = 0.02}};
  static const struct pz_task tasks[N] = {
      {.name = "0", .id = 0, .modes = first, .n_modes = 2},
      {.name = "1", .id = 1, .modes = second, .n_modes = 3},
      {.name = "2", .id = 2, .modes = brief, .n_modes = 1},
      {.name = "3", .id = 3, .modes = first, .n_modes = 2},
      {.name = "4", .id = 4, .modes = second, .n_modes = 3},
      {.name = "5", .id = 5, .modes = brief, .n_modes = 1},
      {.name = "6", .id = 6, .modes = brief, .n_modes = 1},
      {.name = "7", .id = 7, .modes = last, .n_modes = 2},
      {.name = "8", .id = 8, .modes = brief, .n_modes = 1},
  };
  const struct pz_edge edges[] = {{0, 1}, {0, 2}, {3, 4}, {3, 5}, {0, 6},
                                  {3, 6}, {2, 7}, {0, 8}, {4, 8}};
  const int32_t capacity[PZ_RESOURCES] = {4, 3, 1, 3, 6};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  assert_int_equal(pz_problem_make(&arena, capacity, tasks, N, edges, 9, &p, &err), PZ_OK);
  double best = shortest(&p);
  for (enum search which = 0; which < SEARCHES; which++)
    assert_true(search_alone(&p, which) == best);
  pz_arena_release(&arena);
}

/* Half of 12 is a sum; half of 11 is not, but 6 is; of 5, 4 and 4 neither 6.5 nor 7 is. */
static void two_cores_share_sums(void **state) {
  (void)state;
  static const struct {
    double s[5], bound;
  } cases[] = {{{3, 3, 2, 2, 2}, 6}, {{5, 3, 3, 0, 0}, 6}, {{5, 4, 4, 0, 0}, 8}};
  const int32_t capacity[PZ_RESOURCES] = {2, 1, 1, 1, 1};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    struct pz_mode modes[5];
    struct pz_task tasks[5] = {{0}};
    struct pz_arena arena;
    struct pz_problem p;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    for (uint32_t i = 0; i < 5; i++) {
      modes[i] = (struct pz_mode){.use = {cases[k].s[i] > 0}, .duration = cases[k].s[i]};
      tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = &modes[i], .n_modes = 1};
    }
    assert_int_equal(pz_problem_make(&arena, capacity, tasks, 5, NULL, 0, &p, &err), PZ_OK);
    assert_true(search_alone(&p, TWO_MACHINE) == cases[k].bound);
    pz_arena_release(&arena);
  }
}

/* ---- mode bounds ----------------------------------------------------------------------------- */

/* One that takes 2 on all cores or 12 on one; one that waits for it and takes all, and one for
 * that; two that take all cores but one for 20.  With the long mode neither of these fits before
 * the second. */
static void make_separator(struct pz_arena *arena, bool back, struct pz_problem *p) {
  enum { N = 5 };
  static const struct pz_mode first[] = {{.use = {1}, .duration = 12}, {.use = {8}, .duration = 2}},
                              wide[] = {{.use = {8}, .duration = 10}},
                              thin[] = {{.use = {1}, .duration = 29}},
                              other[] = {{.use = {7}, .duration = 20}};
  static const struct pz_task forth[N] = {{.name = "i", .id = 0, .modes = first, .n_modes = 2},
                                          {.name = "j", .id = 1, .modes = wide, .n_modes = 1},
                                          {.name = "k", .id = 2, .modes = thin, .n_modes = 1},
                                          {.name = "v", .id = 3, .modes = other, .n_modes = 1},
                                          {.name = "w", .id = 4, .modes = other, .n_modes = 1}};
  const struct pz_edge edges[] = {{0, 1}, {1, 2}};
  const int32_t capacity[PZ_RESOURCES] = {8, 1, 1, 1, 1};
  struct pz_task tasks[N];
  struct pz_error err = {0};
  for (uint32_t i = 0; i < N; i++) tasks[i] = forth[back && i < 3 ? 2 - i : i];
  assert_int_equal(pz_problem_make(arena, capacity, tasks, N, edges, 2, p, &err), PZ_OK);
}

/* It takes 52; with the long mode longer, but by path only 51, by work less. */
static void a_mode_may_part_the_others_badly(void **state) {
  (void)state;
  for (int back = 0; back < 2; back++) {
    struct pz_arena arena;
    struct pz_problem p;
    pz_arena_init(&arena);
    make_separator(&arena, back, &p);
    assert_true(shortest(&p) == 52);
    for (enum search which = 0; which < SEARCHES; which++)
      assert_true(search_alone(&p, which) == 52);
    pz_arena_release(&arena);
  }
}

/* Two short ones just fill the time until the second can start, beside the long mode; of eight
 * longer ones one would fit there too, and lose time. */
static void many_that_are_parted_may_add_up(void **state) {
  (void)state;
  enum { N = 13 };
  static const struct pz_mode first[] = {{.use = {1}, .duration = 12}, {.use = {8}, .duration = 2}},
                              wide[] = {{.use = {8}, .duration = 10}},
                              thin[] = {{.use = {1}, .duration = 81}},
                              brief[] = {{.use = {7}, .duration = 6}},
                              other[] = {{.use = {7}, .duration = 10}};
  const struct pz_edge edges[] = {{0, 1}, {1, 2}};
  const int32_t capacity[PZ_RESOURCES] = {8, 1, 1, 1, 1};
  struct pz_task tasks[N] = {{.name = "i", .modes = first, .n_modes = 2},
                             {.name = "j", .modes = wide, .n_modes = 1},
                             {.name = "k", .modes = thin, .n_modes = 1}};
  for (uint32_t i = 3; i < N; i++)
    tasks[i] = (struct pz_task){.name = "w", .modes = i < 5 ? brief : other, .n_modes = 1};
  for (uint32_t i = 0; i < N; i++) tasks[i].id = i;
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  assert_int_equal(pz_problem_make(&arena, capacity, tasks, N, edges, 2, &p, &err), PZ_OK);
  assert_true(narrowed_from(&p, 103, 1) == 103);
  pz_arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_search_finds_the_shortest),
                                     cmocka_unit_test(what_takes_no_time_holds_nothing_up),
                                     cmocka_unit_test(what_did_not_run_alone_may_do_so_later),
                                     cmocka_unit_test(modes_that_are_dropped_are_not_there),
                                     cmocka_unit_test(nearly_equal_sides_are_no_automorphism),
                                     cmocka_unit_test(a_mode_may_part_the_others_badly),
                                     cmocka_unit_test(many_that_are_parted_may_add_up),
                                     cmocka_unit_test(two_cores_share_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
