/* Schedules: the exact search against brute force, known optima, relations, the checker, errors. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>

#include "core/file.h"

#include "unit/schedule_calls.h"

static uint64_t seed = 7;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

/* ---- small random problems ------------------------------------------------------------------ */

enum { MOST = 8 };

struct small {
  int n, tc, vc;
  enum pz_exclusive exclusive;
  enum pz_op_class type[MOST];
  double single[MOST], intra[MOST];
  bool edge[MOST][MOST];
};

/* All classes, both exclusivities, operators of no length, equal times, disconnected graphs. */
static struct small draw_small(int n) {
  struct small s = {.n = n,
                    .tc = 1 + (int)draw(3),
                    .vc = 1 + (int)draw(3),
                    .exclusive = (enum pz_exclusive)draw(2)};
  uint32_t most = draw(3) ? 9 : 2, density = 1 + draw(6);
  for (int i = 0; i < n; i++) {
    s.type[i] = (enum pz_op_class)draw(draw(3) ? 3 : 4);
    s.single[i] = draw(6) ? 1 + draw(most) : 0;
    s.intra[i] = draw(6) ? ceil(s.single[i] / (1 + draw(3))) : draw(most);
    if (s.type[i] == PZ_CLASS_NONE) s.single[i] = s.intra[i] = 0;
    for (int k = 0; k < i; k++) s.edge[k][i] = draw(8) < density && draw(2);
  }
  return s;
}

static void make(const struct small *s, const int *label, double scale, struct pz_arena *arena,
                 struct pz_problem *p) {
  struct pz_task tasks[MOST] = {{0}};
  struct pz_mode modes[MOST][2];
  struct pz_edge edges[MOST * MOST];
  int32_t capacity[PZ_RESOURCES] = {s->tc, s->vc, 1, 1, 1};
  uint32_t n_edges = 0;
  struct pz_error err = {0};
  for (int i = 0; i < s->n; i++) {
    struct pz_task *t = &tasks[label[i]];
    t->name = "op";
    t->id = i;
    t->modes = modes[i];
    t->n_modes = pz_two_modes(s->type[i], capacity, s->single[i] * scale, s->intra[i] * scale,
                              s->exclusive, modes[i]);
    for (int k = 0; k < s->n; k++)
      if (s->edge[i][k])
        edges[n_edges++] = (struct pz_edge){(uint32_t)label[i], (uint32_t)label[k]};
  }
  if (pz_problem_make(arena, capacity, tasks, (uint32_t)s->n, edges, n_edges, p, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

static double solve_with(enum pz_solver solver, const struct small *s, const int *label,
                         double scale) {
  static const int plain[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule out;
  struct pz_solve_options o = {.solver = solver};
  struct pz_error err = {0};
  pz_arena_init(&arena);
  make(s, label ? label : plain, scale, &arena, &p);
  if (pz_schedule_solve(&p, &o, &arena, &out, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_int_equal(out.outcome, PZ_OUTCOME_OPTIMAL);
  assert_int_equal(out.stop, PZ_STOP_PROVED);
  assert_true(out.lower_bound == out.makespan);
  double makespan = out.makespan;
  pz_arena_release(&arena);
  return makespan;
}

static double solve(const struct small *s, const int *label, double scale) {
  return solve_with(PZ_SOLVER_EXACT, s, label, scale);
}

/* ---- brute force ---------------------------------------------------------------------------- */

/* Every mode for every operator and every integer start time: depth first over operators in order,
 * cut only where the best known is reached. */
struct brute {
  const struct small *s;
  int use[MOST][2];
  double start[MOST], end[MOST];
  double best, horizon;
};

static int used_around(const struct brute *b, int placed, int r, double t, bool strictly) {
  int used = 0;
  for (int i = 0; i < placed; i++)
    if (b->end[i] > t && b->end[i] > b->start[i] && (strictly ? b->start[i] < t : b->start[i] <= t))
      used += b->use[i][r];
  return used;
}

/* Capacities hold at every start among the first `placed` operators. */
static bool capacities_hold(const struct brute *b, int placed) {
  const int capacity[2] = {b->s->tc, b->s->vc};
  for (int i = 0; i < placed; i++)
    for (int r = 0; r < 2; r++) {
      bool point = b->end[i] <= b->start[i];
      int used = used_around(b, placed, r, b->start[i], point) + (point ? b->use[i][r] : 0);
      if (used > capacity[r]) return false;
    }
  return true;
}

static void brute_from(struct brute *b, int i, double last) {
  const struct small *s = b->s;
  if (last >= b->best) return;
  if (i == s->n || i >= MOST) {
    b->best = last;
    return;
  }
  double ready = 0;
  for (int k = 0; k < i; k++)
    if (s->edge[k][i]) ready = fmax(ready, b->end[k]);
  bool tensor = s->type[i] == PZ_CLASS_TENSOR || s->type[i] == PZ_CLASS_FUSED;
  bool vector = s->type[i] == PZ_CLASS_VECTOR || s->type[i] == PZ_CLASS_FUSED,
       none = s->type[i] == PZ_CLASS_NONE;
  for (int intra = 0; intra < (none ? 1 : 2); intra++) {
    bool all = intra && s->exclusive == PZ_EXCLUSIVE_ALL;
    double length = none ? 0 : intra ? s->intra[i] : s->single[i];
    b->use[i][0] = none ? 0 : intra ? (tensor || all ? s->tc : 0) : tensor;
    b->use[i][1] = none ? 0 : intra ? (vector || all ? s->vc : 0) : vector;
    for (int t = (int)ready; t + length < b->best; t++) {
      b->start[i] = t;
      b->end[i] = t + length;
      if (capacities_hold(b, i + 1)) brute_from(b, i + 1, fmax(last, b->end[i]));
      if (none) break;
    }
  }
}

static double brute_force(const struct small *s) {
  double horizon = 1;
  for (int i = 0; i < s->n; i++) horizon += fmin(s->single[i], s->intra[i]);
  struct brute b = {.s = s, .best = horizon, .horizon = horizon};
  brute_from(&b, 0, 0);
  return b.best;
}

static void exact_is_ilp_is_brute_force(void **state) {
  (void)state;
  for (int round = 0; round < pz_test_part(600); round++) {
    struct small s = draw_small(1 + (int)draw(5));
    double want = brute_force(&s), exact = solve(&s, NULL, 1),
           ilp = solve_with(PZ_SOLVER_ILP, &s, NULL, 1);
    if (exact != want || ilp != want)
      fail_msg("round %d, %d operators: exact search %g, ILP %g, brute force %g", round, s.n, exact,
               ilp, want);
  }
}

/* ---- relations ------------------------------------------------------------------------------ */

static void relations_hold(void **state) {
  (void)state;
  for (int round = 0; round < pz_test_part(200); round++) {
    struct small s = draw_small(MOST);
    double makespan = solve(&s, NULL, 1);
    int label[MOST];
    for (int i = 0; i < MOST; i++) label[i] = (i + round) % MOST;
    assert_true(solve(&s, label, 1) == makespan);
    assert_true(fabs(solve(&s, NULL, 0.001) - 0.001 * makespan) <= 1e-12 * makespan);
    struct small more = s;
    *(draw(2) ? &more.tc : &more.vc) += 1;
    assert_true(solve(&more, NULL, 1) <= makespan);
    struct small incompatible = s;
    incompatible.exclusive = PZ_EXCLUSIVE_CLASS;
    assert_true(solve(&incompatible, NULL, 1) <= makespan);
  }
}

/* ---- instances ------------------------------------------------------------------------------ */

/* Two tensor operators of 4 (or 2 on both cores) and a vector one of 3 after the first, on 2 + 1
 * cores. */
static const char tiny[] =
    "{\"num_tc\":2,\"num_vc\":1,\"ops\":[{\"id\":5,\"type\":\"TC\",\"latency\":4,\"intra_op_"
    "latency\":2},"
    "{\"id\":7,\"type\":\"TC\",\"latency\":4,\"intra_op_latency\":3},"
    "{\"id\":9,\"type\":\"VC\",\"latency\":3,\"intra_op_latency\":3}],\"edges\":[[5,9]]}";

static struct pz_schedule solve_within(const char *text, enum pz_exclusive exclusive,
                                       int64_t steps) {
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule out;
  struct pz_solve_options o = {.steps = steps};
  struct pz_error err = {0};
  pz_arena_init(&arena);
  if (pz_instance_parse("tiny", text, strlen(text), exclusive, &arena, &p, &err) != PZ_OK ||
      pz_schedule_solve(&p, &o, &arena, &out, &err) != PZ_OK)
    fail_msg("%s", err.message);
  pz_arena_release(&arena);
  out.slots = NULL;
  return out;
}

static double solve_text(const char *text, enum pz_exclusive exclusive) {
  return solve_within(text, exclusive, 0).makespan;
}

static void exclusivity_matters(void **state) {
  (void)state;
  /* all: 5 alone on both cores until 2, then 7 on one core until 6 beside 9; class: 7 may also
   * follow on both, until 5 */
  assert_true(solve_text(tiny, PZ_EXCLUSIVE_ALL) == 6);
  assert_true(solve_text(tiny, PZ_EXCLUSIVE_CLASS) == 5);
}

/* However little effort: nothing proven that is not so. */
static void limits_do_not_lie(const char *name, const char *text, enum pz_exclusive exclusive,
                              double optimum) {
  static const int64_t limits[] = {300, 3000, 10000, 20000, 50000, 100000, 200000};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct pz_schedule s = solve_within(text, exclusive, limits[i]);
    double slack = 1e-9 * optimum;
    if (s.lower_bound > optimum + slack || s.makespan < optimum - slack ||
        (s.outcome == PZ_OUTCOME_OPTIMAL && s.makespan > optimum + slack))
      fail_msg("%s with %lld steps: %.12g, bound %.12g; the optimum is %.12g", name,
               (long long)limits[i], s.makespan, s.lower_bound, optimum);
  }
}

/* Instances whose optima others have proven. */
static void known_optima_are_met(void **state) {
  (void)state;
  DIR *dir = opendir(PHAZE_TEST_DATA "/schedule");
  int n = 0;
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) {
    char path[1024], *text = NULL;
    size_t bytes = 0;
    struct pz_error err = {0};
    if (e->d_name[0] == '.' || strcmp(e->d_name, "plan.json") == 0) continue; /* no instance */
    snprintf(path, sizeof path, PHAZE_TEST_DATA "/schedule/%s", e->d_name);
    assert_int_equal(pz_file_read(path, PZ_INSTANCE_MOST_BYTES, &text, &bytes, &err), PZ_OK);
    const char *at = strstr(text, "\"optimal_makespan\": ");
    assert_non_null(at);
    enum pz_exclusive exclusive =
        strstr(e->d_name, "_class_") ? PZ_EXCLUSIVE_CLASS : PZ_EXCLUSIVE_ALL;
    double want = atof(at + strlen("\"optimal_makespan\": ")), got = solve_text(text, exclusive);
    if (fabs(got - want) > 1e-12 * want)
      fail_msg("%s: %.9g, the optimum is %.9g", e->d_name, got, want);
    limits_do_not_lie(e->d_name, text, exclusive, want);
    free(text);
    n++;
  }
  closedir(dir);
  assert_true(n >= 20);
}

/* Reference instances of others, with what they say of themselves, are read where they are. */
static void reference_instances_are_read(void **state) {
  (void)state;
  static const char folder[] = PZ_TEST_SHARED "schedule";
  if (!pz_test_has(folder)) skip();
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir));) {
    char path[1024], *text = NULL;
    size_t bytes = 0;
    struct pz_error err = {0};
    struct pz_arena arena;
    struct pz_problem p;
    if (!strstr(e->d_name, ".json")) continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    pz_arena_init(&arena);
    assert_int_equal(pz_file_read(path, PZ_INSTANCE_MOST_BYTES, &text, &bytes, &err), PZ_OK);
    if (pz_instance_parse(path, text, bytes, PZ_EXCLUSIVE_ALL, &arena, &p, &err) != PZ_OK)
      fail_msg("%s", err.message);
    pz_arena_release(&arena);
    free(text);
  }
  closedir(dir);
}

static void bad_instances_say_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *old, *new, *message;
  } bad[] = {
      {"\"num_tc\":2", "\"num_tc\":0", "field 'num_tc' is 0; accepted: an integer from 1"},
      {"\"latency\":3", "\"latency\":-3",
       "ops[2]: field 'latency' is -3; accepted: a number from 0"},
      {"\"latency\":3", "\"latency\":NaN", "not valid JSON"},
      {"\"VC\"", "\"GPU\"", "ops[2]: field 'type' is \"GPU\"; accepted: TC, VC, TCandVC or Nop"},
      {"[5,9]", "[5,9],[9,5]", "is part of a cycle"},
      {"[5,9]", "[5,5]", "is part of a cycle"},
      {"[5,9]", "[5,8]", "edges[0] is [5,8]; accepted: [before, after], two ids of ops"},
      {"[5,9]", "5", "edges[0] is 5;"},
      {"\"id\":7", "\"id\":5", "ops[1]: id 5 occurs twice"},
      {"\"id\":7,", "", "ops[1]: field 'id' is missing"},
      {"\"ops\":[", "\"ops\":5,\"x\":[", "field 'ops' is 5; accepted: an array"},
      {"\"edges\"", "\"edge\"", "tiny: unknown key 'edge'; did you mean 'edges'?"},
      {"\"latency\":3", "\"latency\":3,\"intra_latency\":1",
       "tiny: ops[2]: unknown key 'intra_latency'; "},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[1024];
    const char *at = strstr(tiny, bad[i].old);
    struct pz_arena arena;
    struct pz_problem p;
    struct pz_error err = {0};
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - tiny), tiny, bad[i].new,
             at + strlen(bad[i].old));
    pz_arena_init(&arena);
    assert_int_equal(
        pz_instance_parse("tiny", text, strlen(text), PZ_EXCLUSIVE_ALL, &arena, &p, &err),
        PZ_BAD_INPUT);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
    pz_arena_release(&arena);
  }
}

static void an_operator_that_fits_no_core_is_refused(void **state) {
  (void)state;
  const int32_t capacity[PZ_RESOURCES] = {1, 1, 1, 1, 1};
  const struct pz_mode wide = {.use = {2, 0, 0}, .duration = 1};
  const struct pz_task task = {.name = "wide", .modes = &wide, .n_modes = 1};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  assert_int_equal(pz_problem_make(&arena, capacity, &task, 1, NULL, 0, &p, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "operator 'wide' fits no core"));
  pz_arena_release(&arena);
}

/* A million operators, half of them in a chain: a valid answer with a bound, at once. */
static void a_huge_problem_gets_a_bounded_answer(void **state) {
  (void)state;
  const uint32_t N = (uint32_t)pz_test_part(1000000);
  const int32_t capacity[PZ_RESOURCES] = {2, 2, 1, 1, 1};
  struct pz_mode mode = {.use = {1, 0, 0}, .duration = 1};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule out;
  struct pz_solve_options o = {0};
  struct pz_error err = {0};
  pz_arena_init(&arena);
  struct pz_task *tasks = pz_arena_alloc(&arena, N, sizeof *tasks);
  struct pz_edge *edges = pz_arena_alloc(&arena, N / 2, sizeof *edges);
  assert_true(tasks && edges);
  for (uint32_t i = 0; i < N; i++)
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = &mode, .n_modes = 1};
  for (uint32_t i = 0; i < N / 2; i++) edges[i] = (struct pz_edge){i, i + 1};
  assert_int_equal(pz_problem_make(&arena, capacity, tasks, N, edges, N / 2, &p, &err), PZ_OK);
  if (pz_schedule_solve(&p, &o, &arena, &out, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_true(out.lower_bound >= N / 2 && out.makespan <= 1.01 * out.lower_bound);
  pz_arena_release(&arena);
}

/* No two fit side by side.  Where there are too many for a proof, rounds end with the steps. */
static void what_is_too_large_for_a_proof_ends(void **state) {
  (void)state;
  enum { N = 600 };
  static const uint32_t sizes[] = {256, 257, 300, 512, 513, N};
  const int32_t capacity[PZ_RESOURCES] = {5, 1, 1, 1, 1};
  struct pz_mode modes[] = {
      {.use = {3}, .duration = 1}, {.use = {4}, .duration = 1}, {.use = {5}, .duration = 1}};
  struct pz_task tasks[N];
  for (uint32_t i = 0; i < N; i++)
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = modes, .n_modes = 1 + 2 * (i % 2)};
  for (size_t k = 0; k < 2 * (sizeof sizes / sizeof *sizes); k++) {
    uint32_t n = sizes[k / 2];
    struct pz_arena arena;
    struct pz_problem p;
    struct pz_schedule out;
    struct pz_solve_options o = {.steps = k % 2 ? 60000 : 5000};
    struct pz_error err = {0};
    pz_arena_init(&arena);
    assert_int_equal(pz_problem_make(&arena, capacity, tasks, n, NULL, 0, &p, &err), PZ_OK);
    if (pz_schedule_solve(&p, &o, &arena, &out, &err) != PZ_OK) fail_msg("%s", err.message);
    if (!(out.makespan == n && out.lower_bound <= n && out.steps < o.steps + 100000))
      fail_msg("%u operators, %lld steps: %g to %g in %lld", n, (long long)o.steps, out.lower_bound,
               out.makespan, (long long)out.steps);
    pz_arena_release(&arena);
  }
}

/* As many cores as there may be: all sums of uses are just below what an integer holds. */
static void the_most_cores_are_as_good_as_enough(void **state) {
  (void)state;
  static const char rest[] =
      "\"ops\":[{\"id\":0,\"type\":\"TC\",\"latency\":10,\"intra_op_latency\":6},"
      "{\"id\":1,\"type\":\"TC\",\"latency\":11,\"intra_op_latency\":7},"
      "{\"id\":2,\"type\":\"VC\",\"latency\":13,\"intra_op_latency\":7},"
      "{\"id\":3,\"type\":\"TCandVC\",\"latency\":9,\"intra_op_latency\":8},"
      "{\"id\":4,\"type\":\"VC\",\"latency\":5,\"intra_op_latency\":5},"
      "{\"id\":5,\"type\":\"TC\",\"latency\":17,\"intra_op_latency\":3}],"
      "\"edges\":[[0,3],[1,3],[2,4],[3,5]]}";
  for (int e = 0; e < 2; e++) {
    enum pz_exclusive exclusive = e ? PZ_EXCLUSIVE_CLASS : PZ_EXCLUSIVE_ALL;
    char most[1000], enough[1000];
    snprintf(most, sizeof most, "{\"num_tc\":%d,\"num_vc\":%d,%s", 1 << 30, 1 << 30, rest);
    snprintf(enough, sizeof enough, "{\"num_tc\":6,\"num_vc\":6,%s", rest);
    struct pz_schedule a = solve_within(most, exclusive, 0), b = solve_within(enough, exclusive, 0);
    assert_true(a.outcome == PZ_OUTCOME_OPTIMAL && b.outcome == PZ_OUTCOME_OPTIMAL);
    assert_true(a.makespan >= b.makespan && a.makespan <= b.makespan);
  }
}

/* ---- the checker ---------------------------------------------------------------------------- */

static void the_checker_finds_what_is_wrong(void **state) {
  (void)state;
  static const struct pz_slot right[] = {{0, 2, 1}, {2, 6, 0}, {2, 5, 0}};
  static const char *const wrong[] = {"the last operator ends", "runs from", "before", "are used",
                                      "in mode"};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  assert_int_equal(
      pz_instance_parse("tiny", tiny, strlen(tiny), PZ_EXCLUSIVE_ALL, &arena, &p, &err), PZ_OK);
  assert_int_equal(check_slots(&p, right, 6, &err), PZ_OK);
  for (int k = 0; k < 5; k++) {
    struct pz_slot slots[3];
    double makespan = k == 0 ? 5 : 6;
    memcpy(slots, right, sizeof slots);
    if (k == 1) slots[0].end += 1;
    if (k == 2) slots[2].start -= 1, slots[2].end -= 1;
    if (k == 3) slots[1] = (struct pz_slot){0, 4, 0}, makespan = 5;
    if (k == 4) slots[1].mode = 9;
    err = (struct pz_error){0};
    assert_int_equal(check_slots(&p, slots, makespan, &err), PZ_INTERNAL);
    if (!strstr(err.message, wrong[k])) fail_msg("'%s' lacks '%s'", err.message, wrong[k]);
  }
  pz_arena_release(&arena);
}

/* ---- options --------------------------------------------------------------------------------- */

static void techniques_are_switched_off_by_name(void **state) {
  (void)state;
  static const char *const wrong[] = {"", "left_shift,", "left_shif", "left_shift,,diving", "none"};
  struct pz_techniques t = pz_techniques_all;
  assert_int_equal(disable_techniques(&t, "left_shift,best_first", NULL), PZ_OK);
  assert_true(!t.left_shift && !t.best_first && t.depth_first);
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    struct pz_error err = {0};
    assert_int_equal(disable_techniques(&t, wrong[k], &err), PZ_BAD_USE);
    for (enum pz_technique i = 0; i < PZ_TECHNIQUES; i++)
      assert_non_null(strstr(err.message, pz_technique_name(i)));
  }
}

/* With everything off there is still a schedule and a bound, and an end. */
static void all_techniques_may_be_off(void **state) {
  (void)state;
  struct pz_techniques t = pz_techniques_all;
  const struct pz_solve_options o = {.techniques = &t};
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule out;
  struct pz_error err = {0};
  for (enum pz_technique i = 0; i < PZ_TECHNIQUES; i++)
    assert_int_equal(disable_techniques(&t, pz_technique_name(i), &err), PZ_OK);
  pz_arena_init(&arena);
  assert_int_equal(
      pz_instance_parse("tiny", tiny, strlen(tiny), PZ_EXCLUSIVE_ALL, &arena, &p, &err), PZ_OK);
  assert_int_equal(pz_schedule_solve(&p, &o, &arena, &out, &err), PZ_OK);
  assert_true(out.lower_bound > 0 && out.lower_bound <= 6 && out.makespan >= 6);
  for (enum pz_technique i = 0; i < PZ_TECHNIQUES; i++) {
    const struct pz_technique_count *n = &out.statistics.techniques[i];
    if (n->steps || n->prunes || n->incumbents || n->raised > 0)
      fail_msg("%s is off and did something", pz_technique_name(i));
  }
  pz_arena_release(&arena);
}

/* What raised the bound raised it to where it is. */
static void statistics_add_up(void **state) {
  (void)state;
  struct pz_schedule out = solve_within(tiny, PZ_EXCLUSIVE_ALL, 0);
  double raised = 0;
  int64_t incumbents = 0;
  for (int i = 0; i <= PZ_TECHNIQUES; i++) {
    raised += out.statistics.techniques[i].raised;
    incumbents += out.statistics.techniques[i].incumbents;
    assert_true(out.statistics.techniques[i].steps <= out.steps);
  }
  assert_true(fabs(raised - out.lower_bound) < 1e-9);
  assert_true(incumbents >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_is_ilp_is_brute_force),
      cmocka_unit_test(relations_hold),
      cmocka_unit_test(exclusivity_matters),
      cmocka_unit_test(known_optima_are_met),
      cmocka_unit_test(reference_instances_are_read),
      cmocka_unit_test(bad_instances_say_what_is_accepted),
      cmocka_unit_test(an_operator_that_fits_no_core_is_refused),
      cmocka_unit_test(a_huge_problem_gets_a_bounded_answer),
      cmocka_unit_test(what_is_too_large_for_a_proof_ends),
      cmocka_unit_test(the_most_cores_are_as_good_as_enough),
      cmocka_unit_test(the_checker_finds_what_is_wrong),
      cmocka_unit_test(techniques_are_switched_off_by_name),
      cmocka_unit_test(all_techniques_may_be_off),
      cmocka_unit_test(statistics_add_up),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
