/* ctest runs a tenth of the random cases, the program alone all of them.
 *
 * Evaluators: bounds of boxes hold for every chip, more of everything is never slower, values are those of 'phaze place'. */
#include "unit/core_borders.h"
#include "unit/search_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "place/plan_question.h"
#include "search/tighten.h"
#include "unit/chip_borders.h"
#include "unit/evaluate_calls.h"
#include "unit/partition_calls.h"
#include "unit/plan_borders.h"
#include "unit/studying.h"

static uint64_t seed = 7;

static uint32_t draw(uint32_t n) { return pz_random_below(&seed, n); }

/* ---- the evaluator training ------------------------------------------------------------------ */

static struct pz_training_question small_question(void) {
  return (struct pz_training_question){.models = {"gpt2"},
                                       .n_models = 1,
                                       .devices = 4,
                                       .batch = 8,
                                       .seq = 64,
                                       .scale_up = 2,
                                       .outer_bytes_per_s = 2e9};
}

static const int all_values[PZ_AXES] = {8, 8, 8, 8, 8, 8, 8, 8, 8};

static struct pz_box random_box(const struct pz_space *s) {
  struct pz_box b = {.kind = draw(pz_space_kinds(s))};
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    uint8_t x = (uint8_t)draw((uint32_t)s->n[a]), y = (uint8_t)draw((uint32_t)s->n[a]);
    b.lo[a] = x < y ? x : y;
    b.hi[a] = x < y ? y : x;
  }
  return b;
}

static struct pz_box random_chip(const struct pz_box *b) {
  struct pz_box c = *b;
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    c.lo[a] = c.hi[a] = (uint8_t)(b->lo[a] + draw((uint32_t)(b->hi[a] - b->lo[a] + 1)));
  return c;
}

/* An evaluator of one thread. */
struct world {
  struct pz_space space;
  struct pz_pool *pool;
  struct pz_evaluator *e;
};

static void make_world(struct world *w, const struct pz_training_question *q) {
  struct pz_error err = {0};
  struct pz_box all = pz_box_all(&w->space, 0);
  struct pz_boxed like;
  w->space.cold = true;
  pz_boxed_set(&w->space, &all, &like);
  assert_int_equal(pz_pool_new(1, &w->pool, &err), PZ_OK);
  if (pz_training_new(q, &like.hi, w->pool, NULL, &w->e, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

static void free_world(struct world *w) {
  pz_evaluator_free(w->e);
  pz_pool_free(w->pool);
}

static struct pz_evaluation evaluate(const struct world *w, const struct pz_boxed *chip,
                                     double limit_s) {
  struct pz_evaluation v;
  struct pz_error err = {0};
  assert_int_equal(evaluate_chip(w->e, 0, chip, 0, PZ_EFFORT_QUICK, limit_s, &v, &err), PZ_OK);
  return v;
}

struct box_question {
  const struct pz_box_task *task;
  const struct pz_boxed *box;
  int level;
  struct pz_step_cost *steps;
  double bound;
};

static void run_box_bound(struct pz_call *call, void *ctx) {
  struct box_question *x = ctx;
  x->bound = pz_box_bound(call, x->task, x->box, x->level, x->steps);
}

static double bound_of_box(const struct pz_box_task *task, const struct pz_boxed *box, int level,
                           struct pz_step_cost *steps) {
  struct box_question x = {task, box, level, steps, 0};
  assert_int_equal(pz_border(run_box_bound, &x, NULL), PZ_OK);
  return x.bound;
}

/* No chip of a box is worth more than bounds of either level say; layers with attention, scans, delta rules. */
static void bounds_hold(void **state) {
  static const char *const models[] = {"gpt2",
                                       PHAZE_TEST_DATA "/hybrid/nemotron-3-nano-4b.config.json",
                                       PHAZE_TEST_DATA "/hybrid/qwen3.5-0.8b.config.json"};
  struct pz_training_question q = small_question();
  (void)state;
  for (int k = 0; k < PZ_OBJECTIVES; k++) {
    q.models[0] = models[k % 3];
    struct world w = {.space = random_space(&seed, 6, all_values)};
    w.space.watts = k % 3 ? 60 + draw(900) : 0;
    make_world(&w, &q);
    struct pz_search_question asked = {.entries = {{w.e, 0, "gpt2"}}, .n_entries = 1};
    struct pz_objective o = {
        .kind = (enum pz_objective_kind)k,
        .n = 1,
        .batch = {8},
        .weight = {1},
        .reference = {{0.1, 10}},
        .best_alone = {1},
        .reference_taken = {100, 200, 300, .static_watts = 30, .owner_dollars = 5000},
        .devices = 4};
    struct pz_box_task t = {.question = &asked, .objective = &o, .has_cheap_bounds = true};
    for (int i = 0; i < pz_test_part(400); i++) {
      struct pz_box b = random_box(&w.space), one = random_chip(&b);
      struct pz_boxed box, chip;
      struct pz_step_cost rough[1], fine[1];
      pz_boxed_set(&w.space, &b, &box);
      pz_boxed_set(&w.space, &one, &chip);
      double rates = bound_of_box(&t, &box, 0, rough), mapped = bound_of_box(&t, &box, 1, fine);
      struct pz_evaluation v = evaluate(&w, &chip, HUGE_VAL);
      struct pz_step_cost step = {v.step_s, v.dynamic_j};
      double value = pz_objective_value(&o, &step, &chip.least);
      assert_true(value <= mapped * (1 + 1e-9) && mapped <= rates * (1 + 1e-9));
      assert_true(fine[0].step_s <= v.step_s * (1 + 1e-9));
      if (v.step_s < HUGE_VAL) assert_true(fine[0].dynamic_j <= v.dynamic_j * (1 + 1e-9));
    }
    free_world(&w);
  }
}

/* With a limit there is a plan below it, the best one, or nothing is told. */
static void limits_cut_nothing_else(void **state) {
  struct pz_training_question q = small_question();
  struct world w = {.space = random_space(&seed, 6, all_values)};
  (void)state;
  make_world(&w, &q);
  for (int i = 0; i < pz_test_part(200); i++) {
    struct pz_box b = random_box(&w.space), one = random_chip(&b);
    struct pz_boxed chip;
    pz_boxed_set(&w.space, &one, &chip);
    struct pz_evaluation v = evaluate(&w, &chip, HUGE_VAL);
    if (!(v.step_s < HUGE_VAL)) continue;
    struct pz_evaluation above = evaluate(&w, &chip, v.step_s * 1.01),
                         below = evaluate(&w, &chip, v.step_s * 0.99);
    assert_true(above.effort == PZ_EFFORT_QUICK && fabs(above.step_s / v.step_s - 1) < 1e-9);
    assert_true(below.effort == PZ_EFFORT_NONE);
  }
  free_world(&w);
}

/* One step more on any axis is never slower, but by what schedules may be longer than the shortest: 0.2% in 24 of 1,073
 * cases. */
static void more_is_never_slower(void **state) {
  struct pz_training_question q = small_question();
  struct world w = {.space = random_space(&seed, 6, all_values)};
  (void)state;
  make_world(&w, &q);
  for (int i = 0; i < pz_test_part(100); i++) {
    struct pz_box b = pz_box_all(&w.space, draw(pz_space_kinds(&w.space))), one = random_chip(&b);
    struct pz_boxed chip;
    pz_boxed_set(&w.space, &one, &chip);
    double step_s = evaluate(&w, &chip, HUGE_VAL).step_s;
    for (enum pz_axis a = 0; a < PZ_AXES; a++) {
      struct pz_box more = one;
      if (one.lo[a] + 1 >= w.space.n[a]) continue;
      more.lo[a] = ++more.hi[a];
      pz_boxed_set(&w.space, &more, &chip);
      struct pz_evaluation v = evaluate(&w, &chip, HUGE_VAL);
      if (!(v.least_s <= step_s * (1 + 1e-9) && v.step_s <= step_s * 1.01))
        fail_msg("%s: %.9g s, at least %.9g s; with less of axis %d %.9g s", chip.lo.name, v.step_s,
                 v.least_s, (int)a, step_s);
    }
  }
  free_world(&w);
}

/* More watts are never slower, but by what schedules may be longer than the shortest; a step takes no more than the limit,
 * and without one the clock is the chip's. */
static void watts_limit_the_step(void **state) {
  struct pz_training_question q = small_question();
  struct world w = {.space = random_space(&seed, 6, all_values)};
  int lowered = 0;
  (void)state;
  make_world(&w, &q);
  for (int i = 0; i < pz_test_part(150); i++) {
    struct pz_box b = pz_box_all(&w.space, draw(pz_space_kinds(&w.space))), one = random_chip(&b);
    struct pz_boxed chip;
    double before = HUGE_VAL;
    for (double limit = 5; limit < 2000; limit *= 1.8) {
      w.space.watts = limit;
      pz_boxed_set(&w.space, &one, &chip);
      struct pz_evaluation v = evaluate(&w, &chip, HUGE_VAL);
      if (!(v.step_s < HUGE_VAL) || limit < 1.5 * chip.least.static_watts) continue;
      double watts = chip.least.static_watts + v.dynamic_j / ((double)q.devices * v.step_s);
      if (!(v.least_s <= before * (1 + 1e-9) && watts <= limit * (1 + 1e-6)))
        fail_msg("%s within %g W: %g s, at least %g s, after %g s, %g W, %g at rest", chip.lo.name,
                 limit, v.step_s, v.least_s, before, watts, chip.least.static_watts);
      lowered += v.step_s < before * 0.999 && before < HUGE_VAL;
      before = fmin(before, v.step_s);
    }
    w.space.watts = 0;
    pz_boxed_set(&w.space, &one, &chip);
    assert_true(evaluate(&w, &chip, HUGE_VAL).least_s <= before * (1 + 1e-9));
  }
  assert_true(lowered > 0);
  free_world(&w);
}

/* The evaluator's best plan for a random chip is that of pz_find_plans(). */
static void compare_plans(const struct world *w, const struct pz_training_question *q) {
  struct pz_error err = {0};
  struct pz_box b = pz_box_all(&w->space, draw(pz_space_kinds(&w->space))), one = random_chip(&b);
  struct pz_boxed chip;
  struct pz_plan_question p;
  struct pz_found_plan plan;
  struct pz_arena arena;
  struct pz_found_plans found;
  bool fits = false;
  double joules = 0;
  pz_boxed_set(&w->space, &one, &chip);
  chip.lo.hbm.bytes_per_stack = INT64_C(24) << 30;
  struct pz_cluster net = pz_training_cluster(q, &chip.lo);
  struct pz_evaluation v = evaluate(w, &chip, HUGE_VAL);
  assert_int_equal(pz_training_plan_question(q, 0, &chip.lo, &net, &p, &err), PZ_OK);
  pz_arena_init(&arena);
  assert_int_equal(try_find_plans(&p, &arena, &found, &err), PZ_OK);
  assert_int_equal(found.n > 0, v.step_s < HUGE_VAL);
  if (found.n && !(fabs(found.list[0].p.step_s / v.step_s - 1) < 1e-9))
    fail_msg("%s, %lld devices, batch %lld: %.9g s by place, %.9g s here", chip.lo.name,
             (long long)q->devices, (long long)q->batch, found.list[0].p.step_s, v.step_s);
  assert_int_equal(pz_training_plan(w->e, 0, &chip.lo, 0, &plan, &joules, &fits, &err), PZ_OK);
  assert_int_equal(fits, found.n > 0);
  if (fits) assert_true(fabs(plan.p.step_s / v.step_s - 1) < 1e-12 && joules > 0);
  pz_arena_release(&arena);
}

static void values_are_plan_search(void **state) {
  struct pz_training_question q = small_question();
  struct world w = {.space = random_space(&seed, 6, all_values)};
  (void)state;
  q.models[0] = "llama2-7b";
  q.devices = 16;
  q.batch = 4;
  q.seq = 256;
  q.scale_up = 4;
  make_world(&w, &q);
  for (int i = 0; i < pz_test_part(12); i++) compare_plans(&w, &q);
  free_world(&w);
}

/* With one microbatch all divisions of the layers compute the same, but update and hide unequal parts. */
static void one_microbatch_is_plan_search(void **state) {
  static const char text[] =
      "{\"nodes\":[\"7nm\"],\"arrays\":[\"32x64\",\"32x32\"],\"hbm\":[\"hbm3\"],\"axes\":{"
      "\"tensor_cores\":[8,16],\"local_kib\":[128],\"vector_cores\":[16],\"lanes\":[64],"
      "\"glb_mib\":[4],\"glb_bytes_per_cycle\":[512],\"clock_mhz\":[600],\"hbm_stacks\":[1,2],"
      "\"link_gb_per_s\":[200]}}";
  struct pz_training_question q = small_question();
  struct world w = {0};
  struct pz_error err = {0};
  (void)state;
  assert_int_equal(pz_space_parse("few", text, sizeof text - 1, &w.space, &err), PZ_OK);
  q.devices = 8;
  q.batch = 4;
  q.seq = 32;
  q.outer_bytes_per_s = 50e9;
  q.serial = true;
  make_world(&w, &q);
  for (int i = 0; i < 8; i++) compare_plans(&w, &q);
  free_world(&w);
}

struct model_text {
  const char *text;
  struct pz_arena *arena;
  struct pz_training_question *question;
};

static void split_model_text(struct pz_call *call, void *ctx) {
  const struct model_text *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  x->question->models[0] =
      pz_model_of_text(&own, x->text, &x->question->model_seq[0], &x->question->model_batch[0]);
}

/* A chip's value is the step of 'phaze place --framework compiled' with the files that a search saves. */
static void values_are_those_of_place(void **state) {
  struct pz_training_question q = small_question();
  struct world w = {.space = random_space(&seed, 6, all_values)};
  struct pz_error err = {0};
  (void)state;
  q.models[0] = "gpt2-medium";
  q.model_seq[0] = 128;
  q.model_batch[0] = 16;
  make_world(&w, &q);
  for (int i = 0; i < pz_test_part(20); i++) {
    struct pz_box b = pz_box_all(&w.space, draw(pz_space_kinds(&w.space))), one = random_chip(&b);
    struct pz_boxed chip;
    struct pz_chip read;
    char *text = NULL, *net_text = NULL;
    pz_boxed_set(&w.space, &one, &chip);
    assert_true(chip.lo.rules.nested_mapping);
    struct pz_evaluation v = evaluate(&w, &chip, HUGE_VAL);
    struct pz_cluster net = pz_training_cluster(&q, &chip.lo), read_net;
    assert_int_equal(pz_chip_text(&chip.lo, &text, &err), PZ_OK);
    assert_int_equal(pz_cluster_text(&net, &net_text, &err), PZ_OK);
    assert_int_equal(pz_test_chip_parse("chip.json", text, strlen(text), &read, &err), PZ_OK);
    assert_int_equal(pz_cluster_parse("cluster.json", net_text, strlen(net_text), &read_net, &err),
                     PZ_OK);
    struct pz_training_place_options o = pz_training_place_options_default();
    o.plan.framework = pz_framework_find("compiled");
    o.plan.devices = q.devices;
    o.plan.batch = 16;
    o.plan.seq = 128;
    o.all_devices = true;
    struct pz_training_plans *plans = NULL;
    assert_int_equal(pz_training_place(q.models[0], &read, &read_net, &o, &plans, &err), PZ_OK);
    if (fabs(plans->runs[0]->p.step_s - v.step_s) > 1e-12 * v.step_s)
      fail_msg("%s: %.17g s by place, %.17g s here", chip.lo.name, plans->runs[0]->p.step_s,
               v.step_s);
    pz_training_plans_free(plans);
    pz_text_free(text);
    pz_text_free(net_text);
  }
  free_world(&w);
}

static void models_have_their_own_sequence(void **state) {
  static const struct {
    const char *text, *model;
    int64_t seq, batch;
  } cases[] = {{"gpt2", "gpt2", 0, 0},           {"gpt2@512", "gpt2", 512, 0},
               {"gpt2@512x64", "gpt2", 512, 64}, {"a@b/config.json", "a@b/config.json", 0, 0},
               {"gpt2@512x", "gpt2@512x", 0, 0}, {"gpt2@99999999999", "gpt2@99999999999", 0, 0}};
  struct pz_arena arena;
  (void)state;
  pz_arena_init(&arena);
  for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_training_question q = {.n_models = 1, .batch = 7};
    struct model_text text = {cases[i].text, &arena, &q};
    assert_int_equal(pz_border(split_model_text, &text, NULL), PZ_OK);
    assert_string_equal(q.models[0], cases[i].model);
    assert_int_equal(q.model_seq[0], cases[i].seq);
    assert_int_equal(q.model_batch[0], cases[i].batch);
    assert_int_equal(q.model_batch[0] ? q.model_batch[0] : q.batch,
                     cases[i].batch ? cases[i].batch : 7);
  }
  pz_arena_release(&arena);
}

/* ---- the evaluator original ------------------------------------------------------------------ */

/* Stages and replicas exchange over the innermost level that joins the devices of the plan. */
static void the_rate_is_of_the_level_in_use(void **state) {
  (void)state;
  static const struct {
    int64_t devices;
    double bytes_per_s;
    uint32_t n_domains;
  } want[] = {{4, 3e11, 0}, {8, 3e11, 0}, {9, 2.5e10, 1}, {1024, 2.5e10, 1}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    struct pz_study s;
    struct pz_error err = {0};
    struct pz_study_options o = paper_study();
    o.cluster = "dgx-a100";
    o.devices = want[i].devices;
    assert_int_equal(pz_study_init(&s, &o, 1, &err), PZ_OK);
    struct pz_place_problem p = pz_task_problem(&s.task, s.portfolio.variants, 32, false);
    assert_true(p.bytes_per_s == want[i].bytes_per_s);
    assert_int_equal(p.n_domains, want[i].n_domains);
    for (uint32_t k = 0; k < p.n_domains; k++)
      assert_true(p.domains[k].devices == 8 && p.domains[k].bytes_per_s == 3e11);
    pz_study_release(&s);
  }
}

static void no_schedule_is_below_the_tables(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = pz_study_options_default();
  struct pz_study_watch plain = {.store = NULL};
  double sum = 0;
  int n = 0;
  o.models[0] = "gpt2";
  o.models[1] = "qwen2.5-1.5b";
  o.n_models = 2;
  o.mbs = (struct pz_choices){{1, 8}, 2};
  o.tp = (struct pz_choices){{1, 2}, 2};
  assert_int_equal(pz_study_init(&s, &o, 2, &err), PZ_OK);
  assert_int_equal(pz_study_prepare(&s, &plain, &err), PZ_OK);
  struct pz_original_worker *e = pz_original_worker(s.evaluator, 0);
  for (int i = 0; i < pz_test_part(60); i++) {
    const struct pz_point *p = &s.points[draw(s.n_points)];
    const uint32_t load = draw(s.portfolio.n_variants);
    const struct pz_workload *w = s.portfolio.variants[load].w;
    struct pz_chip c;
    pz_space_chip(&s.space, p, &c);
    pz_cost_set_chip(&e->cost, &c, &s.task.net);
    pz_bounds_go(e->position, p);
    for (uint32_t l = 0; l < w->n_layers; l++)
      for (int d = 0; d < 2; d++) {
        struct pz_layer_time t;
        assert_int_equal(layer_time(&e->cost, &w->layers[l].ops[d], 300, &t, &err), PZ_OK);
        double bound = pz_bounds_layer_s(e->position, load, l, (enum pz_direction)d);
        assert_true(bound <= t.s);
        sum += bound / t.s;
        n++;
      }
  }
  print_message("  bound over schedule: %.3f on average of %d\n", sum / n, n);
  assert_true(sum / n > 0.7);
  pz_study_release(&s);
}

/* A box with this point in it. */
static struct pz_box box_around(const struct pz_space *s, const struct pz_point *p) {
  struct pz_box b = pz_box_of(p);
  for (int a = 0; a < PZ_AXES; a++) {
    if (!draw(2)) continue;
    b.lo[a] = (uint8_t)draw(p->at[a] + 1U);
    b.hi[a] = (uint8_t)(p->at[a] + draw((uint32_t)(s->n[a] - p->at[a])));
  }
  return b;
}

static void no_chip_is_above_its_box(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = pz_study_options_default();
  struct pz_study_watch plain = {.store = NULL};
  int near = 0, n = pz_test_part(400);
  o.models[0] = "gpt2";
  o.models[1] = "qwen2.5-1.5b";
  o.n_models = 2;
  assert_int_equal(pz_study_init(&s, &o, 2, &err), PZ_OK);
  assert_int_equal(pz_study_prepare(&s, &plain, &err), PZ_OK);
  struct pz_bounds_at *at = pz_original_worker(s.evaluator, 0)->position;
  for (int i = 0; i < n; i++) {
    const struct pz_point *p = &s.points[draw(s.n_points)];
    struct pz_box one = pz_box_of(p), b = box_around(&s.space, p);
    for (uint32_t m = 0; m < 2; m++) {
      pz_bounds_go(at, p);
      double own = pz_bounds_model_s(at, m);
      pz_bounds_go_box(at, &one);
      assert_true(pz_bounds_model_s(at, m) == own);
      pz_bounds_go_box(at, &b);
      double box = pz_bounds_model_s(at, m);
      assert_true(box <= own);
      near += box > own / 2;
    }
  }
  print_message("  %d of %d bounds of boxes at least half of the chip's\n", near, 2 * n);
  pz_study_release(&s);
}

/* Axes that its tables do not have are refused before any work. */
static void other_axes_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"{\"base\":\"tpuv4\",\"axes\":{\"clock_mhz\":[900,1000]}}", "has clock_mhz to choose"},
      {"{\"base\":\"tpuv4\",\"axes\":{\"link_gb_per_s\":[50,100]}}", "link_gb_per_s to choose"},
      {"{\"nodes\":[\"5nm\"],\"arrays\":[\"16x16\"],\"hbm\":[\"hbm3\"],\"axes\":{\"tensor_cores\":"
       "[1,2],\"local_kib\":[64],\"vector_cores\":[4],\"lanes\":[16],\"glb_mib\":[4],\"glb_bytes_"
       "per_"
       "cycle\":[256],\"clock_mhz\":[1000],\"hbm_stacks\":[2],\"link_gb_per_s\":[50]}}",
       "no base chip"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_study_options o = paper_study();
    struct pz_study_watch plain = {.store = NULL};
    struct pz_study s;
    struct pz_error err = {0};
    o.space_text = cases[i].text;
    o.evaluator = PZ_EVALUATOR_ORIGINAL;
    o.budget = "10000";
    assert_int_equal(pz_study_init(&s, &o, 1, &err), PZ_OK);
    assert_int_equal(pz_study_prepare(&s, &plain, &err), PZ_BAD_USE);
    if (!strstr(err.message, cases[i].says)) fail_msg("%s", err.message);
    pz_study_release(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds_hold),
      cmocka_unit_test(limits_cut_nothing_else),
      cmocka_unit_test(more_is_never_slower),
      cmocka_unit_test(watts_limit_the_step),
      cmocka_unit_test(values_are_plan_search),
      cmocka_unit_test(one_microbatch_is_plan_search),
      cmocka_unit_test(values_are_those_of_place),
      cmocka_unit_test(models_have_their_own_sequence),
      cmocka_unit_test(the_rate_is_of_the_level_in_use),
      cmocka_unit_test(no_schedule_is_below_the_tables),
      cmocka_unit_test(no_chip_is_above_its_box),
      cmocka_unit_test(other_axes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
