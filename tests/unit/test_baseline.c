/* Baselines: what they answer is what the evaluator says of their chips, the same every time, and
 * never above the search's best; the parts they are made of against plain oracles. */
#include "unit/core_borders.h"
#include "unit/search_borders.h"
#include "unit/testing.h"

#include <math.h>

#include "baseline/linear_gp.h"
#include "chip/chip.h"
#include "core/num.h"
#include "unit/chip_borders.h"
#include "unit/evaluate_calls.h"

static const char SPACE[] = "{\"tensor_cores\": [1, 2, 4, 8], \"rows\": [64, 128], "
                            "\"cols\": [64, 128], \"vector_cores\": [1, 2, 8], "
                            "\"glb_mib\": [4, 16, 64]}";

/* ---- a small question ----------------------------------------------------------------------- */

struct world {
  struct pz_space space;
  struct pz_arena arena;
  struct pz_point *points;
  struct pz_portfolio portfolio;
  struct pz_original_task task;
  struct pz_pool *pool;
  struct pz_evaluator *by;
  struct pz_search *search;
  struct pz_objective objective;
  struct pz_baseline_question q;
};

#define must(call)                                                                                 \
  do {                                                                                             \
    struct pz_error err = {0};                                                                     \
    if ((call) != PZ_OK) fail_msg("%s", err.message);                                              \
  } while (0)

/* cmocka's own compares floats. */
#define assert_near(a, b, part) assert_true(fabs((a) - (b)) <= (part)*fabs((double)(b)))

static void make_world(struct world *w, const char *const *models, uint32_t n,
                       const struct pz_task_options *o) {
  const struct pz_choices mbs = {{1, 4}, 2}, tp = {{1, 2}, 2};
  const struct pz_watch none = {NULL, NULL};
  struct pz_limits limits = {.mm2 = 0};
  *w = (struct world){.objective = {.n = n}};
  pz_arena_init(&w->arena);
  must(pz_space_parse("small", SPACE, sizeof SPACE - 1, &w->space, &err));
  must(pz_limits_complete(&w->space, NULL, NULL, &limits, &err));
  must(pz_space_list(&w->space, &limits, &w->arena, &w->points, &w->q.n_points, &err));
  struct pz_workload_options how = pz_workload_options_default();
  const struct pz_variant_choices choices = {&mbs, &tp, o->batch, o->devices};
  must(pz_portfolio_init(&w->portfolio, models, n, &choices, &how, &err));
  w->task = (struct pz_original_task){
      .space = &w->space, .portfolio = &w->portfolio, .o = *o, .most_mm2 = limits.mm2};
  must(pz_cluster_load("paper", &w->task.net, &err));
  must(pz_pool_new(1, &w->pool, &err));
  must(pz_original_new(&w->task, false, w->pool, none, &w->by, &err));
  struct pz_search_question asked = {.space = &w->space, .limits = limits, .n_entries = n};
  for (uint32_t m = 0; m < n; m++) {
    asked.entries[m] = (struct pz_search_entry){w->by, m, models[m]};
    w->objective.models[m] = m;
    w->objective.batch[m] = (double)o->batch;
    w->objective.reference[m].step_s = (double)o->batch; /* one sample a second */
  }
  must(pz_search_new(&asked, w->pool, &w->search, &err));
  w->q.search = w->search;
  w->q.evaluator = w->by;
  w->q.worker = PZ_BASELINE_ALL;
  w->q.task = &w->task;
  w->q.points = w->points;
  w->q.objective = &w->objective;
  w->q.evaluations = 12;
  w->q.seed = 7;
}

static void free_world(struct world *w) {
  pz_search_free(w->search);
  pz_evaluator_free(w->by);
  pz_pool_free(w->pool);
  pz_portfolio_release(&w->portfolio);
  pz_arena_release(&w->arena);
}

/* An expert's plan is known for the first and not for the second. */
static const char *const two[] = {"bert-large", "gpt2"};
static const struct pz_task_options small = {.devices = 64,
                                             .batch = 256,
                                             .state = 3,
                                             .hbm_gib = {{1, 2, 32}, 3},
                                             .quick_steps = 50,
                                             .steps = 500};

static struct pz_baseline_answer ask(const struct world *w, const char *name) {
  struct pz_baseline_answer a;
  const struct pz_baseline *b = pz_baseline_find(name);
  assert_non_null(b);
  must(ask_baseline(b, &w->q, &a, &err));
  return a;
}

/* ---- what they answer ----------------------------------------------------------------------- */

static double placed_rate(const struct world *w, const struct pz_chip *chip, uint32_t model,
                          double hbm_gib) {
  struct pz_evaluation v;
  must(pz_original_value_of_chip(pz_original_worker(w->by, 0), chip, model, hbm_gib, PZ_EFFORT_FULL,
                                 &v, &err));
  return (double)small.batch / v.step_s;
}

static void check_placed(const struct world *w, const struct pz_baseline_answer *a) {
  bool least = true;
  for (uint32_t m = 0; m < 2; m++) {
    assert_true(a->samples_per_s[m] > 0);
    assert_near(a->samples_per_s[m], placed_rate(w, &a->chip, m, a->hbm_gib), 1e-12);
    assert_near(a->samples_per_s[m], placed_rate(w, &a->chip, m, 32), 1e-12);
    assert_false(a->expert[m]);
  }
  for (int h = 0; small.hbm_gib.v[h] < (int64_t)a->hbm_gib; h++) {
    double less = (double)small.hbm_gib.v[h];
    least = least && (placed_rate(w, &a->chip, 0, less) < a->samples_per_s[0] ||
                      placed_rate(w, &a->chip, 1, less) < a->samples_per_s[1]);
  }
  assert_true(least);
}

struct expert_question {
  struct pz_original_worker *worker;
  const struct pz_chip *chip;
  uint32_t model;
  double hbm_gib;
  struct pz_expert_result result;
};

static void run_expert(struct pz_call *call, void *ctx) {
  struct expert_question *x = ctx;
  x->result = pz_expert_evaluate(call, x->worker, x->chip, x->model, x->hbm_gib);
}

static struct pz_expert_result expert_result(const struct world *w, const struct pz_chip *chip,
                                             uint32_t model, double hbm_gib) {
  struct expert_question x = {
      .worker = pz_original_worker(w->by, 0), .chip = chip, .model = model, .hbm_gib = hbm_gib};
  must(pz_border(run_expert, &x, &err));
  return x.result;
}

static void check_expert(const struct world *w, const struct pz_baseline_answer *a) {
  struct pz_expert_result r = expert_result(w, &a->chip, 0, 32);
  assert_true(a->expert[0]);
  assert_false(a->expert[1]);
  assert_int_equal((int)a->hbm_gib, 32);
  assert_near(a->samples_per_s[0], (double)small.batch / r.time_s, 0);
  assert_near(a->samples_per_s[1], placed_rate(w, &a->chip, 1, 32), 0);
}

static void test_answers(void **state) {
  struct world w;
  (void)state;
  make_world(&w, two, 2, &small);
  for (size_t i = 0; pz_baseline_at(i); i++) {
    struct pz_baseline_answer a = ask(&w, pz_baseline_at(i)->name);
    bool expert = strstr(pz_baseline_at(i)->name, "-expert") != NULL;
    assert_true(a.n_evaluated > 0 && a.n_evaluated <= w.q.n_points);
    (expert ? check_expert : check_placed)(&w, &a);
  }
  assert_string_equal(ask(&w, "tpuv4-expert").chip.name, "tpuv4");
  assert_string_equal(ask(&w, "tpuv4-real-placed").chip.name, "tpuv4-real");
  struct pz_baseline_answer e = ask(&w, "spotlight-expert"), p = ask(&w, "spotlight-placed");
  assert_string_equal(e.chip.name, p.chip.name);
  assert_true(e.samples_per_s[0] <= p.samples_per_s[0] * (1 + 1e-9));
  assert_null(pz_baseline_find("none"));
  free_world(&w);
}

/* The second time everything is known already, and they come in another order. */
static void test_again(void **state) {
  struct world w;
  struct pz_baseline_answer first[16];
  size_t n = 0;
  (void)state;
  make_world(&w, two, 2, &small);
  for (; pz_baseline_at(n); n++) first[n] = ask(&w, pz_baseline_at(n)->name);
  for (size_t i = n; i-- > 0;) {
    struct pz_baseline_answer a = ask(&w, pz_baseline_at(i)->name);
    assert_string_equal(a.chip.name, first[i].chip.name);
    assert_int_equal(a.n_evaluated, first[i].n_evaluated);
    assert_near(a.hbm_gib, first[i].hbm_gib, 0);
    assert_memory_equal(a.samples_per_s, first[i].samples_per_s, sizeof a.samples_per_s);
  }
  free_world(&w);
}

static void test_search_is_best(void **state) {
  static const char *const names[] = {"tpuv4-placed", "spotlight-placed", "original", "random"};
  struct world w;
  (void)state;
  make_world(&w, two, 2, &small);
  for (uint32_t m = 0; m < 2; m++) {
    struct pz_objective_run c = {.objective = w.objective};
    c.objective.n = 1;
    c.objective.models[0] = m;
    must(pz_search_run(w.search, m, &c, &err));
    w.q.objective = &c.objective;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      struct pz_baseline_answer a = ask(&w, names[i]);
      assert_true(a.samples_per_s[m] <= c.value * (1 + 1e-9));
      assert_near(a.samples_per_s[1 - m], 0, 0);
    }
  }
  free_world(&w);
}

/* ---- the best of several chips -------------------------------------------------------------- */

/* The objective of a chip with full effort, whatever the bounds say. */
static double plain_value(const struct world *w, uint32_t point) {
  struct pz_step_cost steps[2];
  struct pz_taken none = {.mm2 = 1};
  for (uint32_t m = 0; m < 2; m++) {
    struct pz_evaluation e = {.step_s = 0};
    must(pz_search_evaluate(w->search, 0, &w->points[point], m, PZ_EFFORT_FULL, &e, &err));
    steps[m] = (struct pz_step_cost){e.step_s, 0};
  }
  return pz_objective_value(&w->objective, steps, &none);
}

/* The best of the first n; of equals the smallest. */
static uint32_t plain_best(const struct world *w, const uint32_t *points, uint32_t n) {
  double most = 0, smallest = HUGE_VAL;
  uint32_t best = 0;
  for (uint32_t i = 0; i < n; i++) {
    double value = plain_value(w, points[i]), um2 = pz_baseline_area_um2(&w->q, points[i]);
    if (value < most || (value == most && um2 > smallest)) continue;
    if (value == most && um2 == smallest && points[i] > best) continue;
    most = value, smallest = um2, best = points[i];
  }
  return best;
}

/* Few, so that chips that are nearly alike meet; at last more than there are. */
static void test_random(void **state) {
  struct world w;
  uint32_t points[256];
  (void)state;
  make_world(&w, two, 2, &small);
  assert_true(w.q.n_points <= 256);
  for (w.q.seed = 0; w.q.seed <= 30; w.q.seed++) {
    struct pz_chip chip;
    uint64_t random = w.q.seed;
    uint32_t n = w.q.seed < 30 ? 6 : w.q.n_points;
    for (uint32_t i = 0; i < w.q.n_points; i++) points[i] = i;
    pz_random_draw(&random, points, w.q.n_points, n);
    pz_space_chip(&w.space, &w.points[plain_best(&w, points, n)], &chip);
    w.q.evaluations = n < w.q.n_points ? n : n + 5;
    struct pz_baseline_answer a = ask(&w, "random");
    assert_int_equal(a.n_evaluated, n);
    assert_string_equal(a.chip.name, chip.name);
  }
  free_world(&w);
}

/* The walk once more, bucket by bucket with a scan of all points for each. */
static void test_walk(void **state) {
  struct world w;
  double most = 0, best[1000];
  uint32_t seen = 0, n_buckets = 0;
  (void)state;
  make_world(&w, two, 2, &small);
  int64_t bucket_of[1000], top = 0;
  assert_true(w.q.n_points <= 1000);
  for (uint32_t i = 0; i < w.q.n_points; i++) {
    bucket_of[i] = (int64_t)floor(pz_baseline_area_um2(&w.q, i) / 1e4);
    top = bucket_of[i] > top ? bucket_of[i] : top;
  }
  for (int64_t bucket = top; bucket >= 0; bucket--) {
    double here = -1;
    for (uint32_t i = 0; i < w.q.n_points; i++)
      if (bucket_of[i] == bucket) {
        here = fmax(here, plain_value(&w, i));
        seen++;
      }
    if (here < 0) continue; /* no chip */
    most = fmax(most, here);
    best[n_buckets++] = here;
    const double *b = &best[n_buckets] - 5;
    if (n_buckets >= 5 && b[0] >= b[1] && b[1] >= b[2] && b[2] >= b[3] && b[3] >= b[4]) break;
  }
  struct pz_baseline_answer a = ask(&w, "original");
  assert_int_equal(a.n_evaluated, seen);
  struct pz_step_cost steps[2];
  struct pz_taken none = {.mm2 = 1};
  for (uint32_t m = 0; m < 2; m++) steps[m].step_s = (double)small.batch / a.samples_per_s[m];
  assert_near(pz_objective_value(&w.objective, steps, &none), most, 1e-12);
  free_world(&w);
}

static void test_no_answer(void **state) {
  const struct pz_task_options tight = {
      .devices = 1, .batch = 16, .state = 3, .hbm_gib = {{1}, 1}, .quick_steps = 50, .steps = 50};
  struct world w;
  struct pz_error err = {0};
  struct pz_baseline_answer a = {.n_evaluated = 99};
  atomic_bool stop = true;
  (void)state;
  make_world(&w, two, 1, &tight);
  assert_int_equal(ask_baseline(pz_baseline_find("original"), &w.q, &a, &err), PZ_NO_ANSWER);
  assert_int_equal(ask_baseline(pz_baseline_find("random"), &w.q, &a, &err), PZ_NO_ANSWER);
  assert_int_equal(a.n_evaluated, 99);
  assert_near(ask(&w, "spotlight-placed").samples_per_s[0], 0, 0);
  w.q.stop = &stop;
  for (size_t i = 0; pz_baseline_at(i); i++) {
    enum pz_status status = ask_baseline(pz_baseline_at(i), &w.q, &a, &err);
    assert_true(status == PZ_STOPPED || status == PZ_NO_ANSWER);
  }
  free_world(&w);
}

/* ---- the chip for one sample on one chip ---------------------------------------------------- */

/* Seconds of every operator of both directions, one after another. */
static double delay(struct pz_cost *cost, const struct pz_workload *w) {
  double s = 0;
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++)
      for (uint32_t k = 0; k < w->layers[i].ops[d].n; k++) {
        struct pz_estimate e;
        must(pz_cost_op(cost, &w->layers[i].ops[d].op[k], &e, &err));
        s += e.latency_s * (double)w->layers[i].count;
      }
  return s;
}

/* It samples part of the space and finds the best of it, whatever the seed. */
static void test_spotlight(void **state) {
  struct world w;
  struct pz_workload *loads[2] = {pz_test_load(two[0], NULL), pz_test_load(two[1], NULL)};
  struct pz_cost cost;
  double best = HUGE_VAL;
  (void)state;
  make_world(&w, two, 2, &small);
  assert_true(w.q.n_points > 100);
  pz_cost_init(&cost, &w.space.base, NULL);
  for (uint32_t i = 0; i < w.q.n_points; i++) {
    struct pz_chip chip;
    pz_space_chip(&w.space, &w.points[i], &chip);
    pz_cost_set_chip(&cost, &chip, NULL);
    best = fmin(best, delay(&cost, loads[0]) * delay(&cost, loads[1]));
  }
  for (w.q.seed = 0; w.q.seed < 10; w.q.seed++) {
    struct pz_baseline_answer a = ask(&w, "spotlight-placed");
    assert_int_equal(a.n_evaluated, 100);
    pz_cost_set_chip(&cost, &a.chip, NULL);
    assert_near(delay(&cost, loads[0]) * delay(&cost, loads[1]), best, 1e-12);
  }
  pz_cost_release(&cost);
  pz_workload_free(loads[0]);
  pz_workload_free(loads[1]);
  free_world(&w);
}

/* ---- the experts' plans --------------------------------------------------------------------- */

static void test_expert_plans(void **state) {
  static const char *const models[] = {"bert-large",    "gpt2-xl",       "opt-350m",
                                       "megatron-2.5b", "megatron-8.3b", "gpt3-175b",
                                       "megatron-bert", "llama2-7b"};
  static const int64_t pdt[][3] = {{8, 128, 1}, {32, 32, 1}, {12, 85, 1}, {8, 32, 4},
                                   {8, 16, 8},  {32, 8, 4},  {8, 128, 1}, {8, 128, 1}};
  const struct pz_task_options o = {.devices = 1024,
                                    .batch = 1024,
                                    .state = 3,
                                    .hbm_gib = {{32, 80}, 2},
                                    .quick_steps = 20,
                                    .steps = 20};
  struct world w;
  struct pz_chip chip;
  (void)state;
  make_world(&w, models, 8, &o);
  must(pz_test_chip_read("tpuv4", &chip, &err));
  for (uint32_t m = 0; m < 8; m++) {
    struct pz_expert_result r = expert_result(&w, &chip, m, 80);
    assert_true(r.time_s < HUGE_VAL);
    assert_int_equal(r.stages, pdt[m][0]);
    assert_int_equal(r.replicas, pdt[m][1]);
    assert_int_equal(r.tp, pdt[m][2]);
  }
  free_world(&w);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static double uniform(uint64_t *state) {
  return (double)(pz_random_next(state) >> 11) / 0x1p52 - 1;
}

static double line(const double x[PZ_GP_FEATURES]) { return 40 + 3 * x[0] - 2 * x[3] + x[4] / 8; }

static void test_gp_recovers_a_line(void **state) {
  struct pz_linear_gp g = {0};
  double x[PZ_GP_FEATURES], mean, sd;
  uint64_t random = 3;
  (void)state;
  for (int i = 0; i < 40; i++) {
    for (int f = 0; f < PZ_GP_FEATURES; f++) x[f] = f == 2 ? 0 : uniform(&random);
    pz_linear_gp_add(&g, x, line(x));
  }
  pz_linear_gp_fit(&g, 1e-8);
  for (int i = 0; i < 20; i++) {
    for (int f = 0; f < PZ_GP_FEATURES; f++) x[f] = f == 2 ? 0 : 2 * uniform(&random);
    pz_linear_gp_predict(&g, x, &mean, &sd);
    assert_near(mean, line(x), 1e-5);
    assert_true(sd >= 0 && sd < 1e-2);
  }
  x[2] = 1; /* where nothing is known, the prior's deviation */
  pz_linear_gp_predict(&g, x, &mean, &sd);
  assert_near(sd, g.deviation, 1e-4);
}

/* By the kernel: k(x, x') = 1 + x.x', two samples, so that their standardised values are -1, 1. */
static void test_gp_is_the_kernel(void **state) {
  static const double a[PZ_GP_FEATURES] = {1, 2, -1, 0, 1}, b[PZ_GP_FEATURES] = {0, 1, 1, -2, 0},
                      x[PZ_GP_FEATURES] = {-1, 1, 0.5, 3, 2}, noise = 0.3;
  const double *const p[] = {a, b, x};
  double k[3][3], mean, sd;
  struct pz_linear_gp g = {0};
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      k[i][j] = 1;
      for (int f = 0; f < PZ_GP_FEATURES; f++) k[i][j] += p[i][f] * p[j][f];
    }
  pz_linear_gp_add(&g, a, 5);
  pz_linear_gp_add(&g, b, 9);
  pz_linear_gp_fit(&g, noise);
  pz_linear_gp_predict(&g, x, &mean, &sd);
  double aa = k[0][0] + noise, bb = k[1][1] + noise, ab = k[0][1], det = aa * bb - ab * ab;
  double wa = (k[2][0] * bb - k[2][1] * ab) / det, wb = (k[2][1] * aa - k[2][0] * ab) / det;
  assert_near(mean, 7 + 2 * (wb - wa), 1e-9);
  assert_near(sd, 2 * sqrt(k[2][2] - wa * k[2][0] - wb * k[2][1]), 1e-9);
}

static void test_draw(void **state) {
  enum { N = 50, K = 20, TIMES = 4000 };
  uint32_t items[N], first[N] = {0};
  uint64_t random = 1;
  (void)state;
  for (uint32_t t = 0; t < TIMES; t++) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < N; i++) items[i] = i;
    pz_random_draw(&random, items, N, K);
    for (uint32_t i = 0; i < N; i++) sum += items[i];
    assert_int_equal(sum, N * (N - 1) / 2);
    for (uint32_t i = 0; i < K; i++) first[items[i]]++;
  }
  for (uint32_t i = 0; i < N; i++) /* 1600 expected, deviation 31 */
    assert_in_range(first[i], 1600 - 155, 1600 + 155);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gp_recovers_a_line),
      cmocka_unit_test(test_gp_is_the_kernel),
      cmocka_unit_test(test_draw),
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_again),
      cmocka_unit_test(test_search_is_best),
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_walk),
      cmocka_unit_test(test_no_answer),
      cmocka_unit_test(test_spotlight),
      cmocka_unit_test(test_expert_plans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
