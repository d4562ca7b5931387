/* The search: the paper's space, bounds that hold, bounded = exhaustive = brute force, any number
 * of threads, interruptions. */
#include "unit/testing.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/csv.h"
#include "core/file.h"
#include "study/pareto.h"
#include "study/sensitivity.h"
#include "unit/studying.h"

static uint64_t seed = 3;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

/* ---- the paper's space ---------------------------------------------------------------------- */

static void the_papers_space_has_29360_chips(void **state) {
  (void)state;
  struct pz_space s;
  struct pz_error err = {0};
  struct pz_arena arena;
  struct pz_point *points;
  uint32_t n;
  assert_int_equal(pz_space_load("paper", &s, &err), PZ_OK);
  assert_int_equal(pz_space_grid(&s), 75712);
  assert_true(fabs(s.budget_um2 - 278826676.31216) < 1e-4);
  pz_arena_init(&arena, NULL);
  assert_int_equal(pz_space_points(&s, &arena, &points, &n, &err), PZ_OK);
  assert_int_equal(n, 29360);
  bool tpuv4 = false;
  for (uint32_t i = 0; i < n; i++) {
    struct pz_chip c;
    struct pz_point again = pz_space_point(&s, points[i].id);
    pz_space_chip(&s, &points[i], &c);
    assert_memory_equal(again.at, points[i].at, sizeof again.at);
    assert_int_equal(pz_space_id(&s, points[i].at), points[i].id);
    assert_true(i == 0 || points[i - 1].id < points[i].id);
    tpuv4 = tpuv4 || strcmp(c.name, "8x128x128-2x128-128M") == 0;
  }
  assert_true(tpuv4); /* it is its own budget */
  pz_arena_release(&arena);
}

/* The sums of ../shared/ref/published/area_22nm.csv, where it is. */
static void areas_are_the_published_ones(void **state) {
  (void)state;
  static const char path[] = PZ_TEST_SHARED "published/area_22nm.csv";
  struct pz_error err = {0};
  struct pz_arena arena;
  struct pz_csv csv;
  char *text = NULL;
  size_t bytes = 0;
  if (!pz_test_has(path)) skip();
  assert_int_equal(pz_file_read(path, 1 << 20, &text, &bytes, &err), PZ_OK);
  pz_arena_init(&arena, NULL);
  assert_int_equal(pz_csv_parse(path, text, bytes, &arena, &csv, &err), PZ_OK);
  int checked = 0;
  for (uint32_t r = 0; r < csv.rows; r++) {
    double size = atof(pz_csv_cell(&csv, r, 1)), area = atof(pz_csv_cell(&csv, r, 2));
    struct pz_chip c;
    assert_int_equal(pz_chip_load("tpuv4", &c, &err), PZ_OK);
    if (strcmp(pz_csv_cell(&csv, r, 0), "tensor_core_macs") != 0) continue;
    c.tensor = (struct pz_tensor_cores){.cores = 1, .rows = (int64_t)size, .cols = 1};
    c.tensor.local_bytes = 16 * size > 1024 ? (int64_t)(16 * size) : 1024;
    struct pz_area a = pz_chip_area(&c);
    assert_true(fabs(a.tensor_um2 + a.tensor_local_um2 - area) < 0.001);
    checked++;
  }
  assert_true(checked > 5);
  free(text);
  pz_arena_release(&arena);
}

static void bad_spaces_say_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"{}", "tensor_cores"},
      {"{\"tensor_cores\":[]}", "increasing integers"},
      {"{\"tensor_cores\":[4,2],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2]}",
       "increasing integers"},
      {"{\"tensor_cores\":[1],\"rows\":[0],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2]}",
       "rows"},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2],"
       "\"base\":\"nosuch\"}",
       "unknown chip"},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mb\":[2]}",
       "space.json: unknown key 'glb_mb'; did you mean 'glb_mib'?"},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2],"
       "\"budget\":5}",
       "space.json: unknown key 'budget'; accepted: name, about, "},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2],"
       "\"base\":{\"clock\":1}}",
       "space.json: base: unknown key 'clock'; "},
      {"{\"tensor_cores\":[1],\"rows\":[8,1024],\"cols\":[8,1024],\"vector_cores\":[1],"
       "\"glb_mib\":[1,4]}",
       "field 'glb_mib' is [1,4]; accepted: at least 3, for a tile of an array of 1024 x 1024"},
      {"[1]", "object"},
      {"{", "space.json"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_space s;
    struct pz_error err = {0};
    assert_int_not_equal(
        pz_space_parse("space.json", cases[i].text, strlen(cases[i].text), &s, &err), PZ_OK);
    if (!strstr(err.message, cases[i].says)) print_message("%s\n", err.message);
    assert_non_null(strstr(err.message, cases[i].says));
  }
}

/* Small arrays would get less than a tile from a base chip with small buffers, and from one whose
 * library has large tiles. */
static void every_chip_of_a_space_has_tiles(void **state) {
  (void)state;
  static const char tight[] = "{\"tech\":\"22nm\",\"clock_hz\":1e9,\"tensor\":{\"cores\":8,"
                              "\"rows\":128,\"cols\":128,\"local_bytes\":98304},\"vector\":{"
                              "\"cores\":2,\"lanes\":128},\"glb\":{\"bytes\":8388608,"
                              "\"bytes_per_s\":1e12},\"hbm\":{\"stacks\":1,\"bytes_per_stack\":"
                              "17179869184,\"bytes_per_s_per_stack\":1e12}}";
  static const char *const bases[] = {tight, "\"h200\"", "\"tpuv4\""};
  for (int i = 0; i < 3; i++) {
    char text[1024];
    struct pz_space s;
    struct pz_error err = {0};
    snprintf(text, sizeof text,
             "{\"tensor_cores\":[1],\"rows\":[2,16,48,128],\"cols\":[2,16,48,256],"
             "\"vector_cores\":[1],\"glb_mib\":[1],\"base\":%s}",
             bases[i]);
    if (pz_space_parse("space", text, strlen(text), &s, &err) != PZ_OK) fail_msg("%s", err.message);
    for (uint32_t id = 0; id < pz_space_grid(&s); id++) {
      struct pz_point p = pz_space_point(&s, id);
      struct pz_product product = {1, 4096, 777, 1000, false};
      struct pz_mapping o;
      struct pz_chip c;
      pz_space_chip(&s, &p, &c);
      if (pz_map_product(&product, &c, &o, &err) != PZ_OK) fail_msg("%s", err.message);
    }
  }
}

/* A cluster that was scaled out comes back from the inputs as it was; one that has too few devices
 * for the study is refused before anything is done. */
static void clusters_of_studies_reach_all_devices(void **state) {
  (void)state;
  static const char eight[] = "{\"name\":\"eight\",\"devices\":8,\"levels\":[{\"name\":\"flat\","
                              "\"devices\":8,\"bytes_per_s\":1e9}]}";
  struct pz_study_options o = paper_study(), back;
  struct pz_study a, b;
  struct pz_error err = {0};
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  o.cluster = "dgx-h100";
  o.devices = 5000;
  assert_int_equal(pz_study_init(&a, &o, 1, &err), PZ_OK);
  json_t *inputs = pz_study_inputs(&a);
  assert_int_equal(pz_study_from_inputs(inputs, &arena, &back, &err), PZ_OK);
  assert_int_equal(pz_study_init(&b, &back, 1, &err), PZ_OK);
  assert_true(b.task.net.scales && b.task.net.devices == 5000);
  assert_string_equal(b.task.net.level[1].name, "infiniband");
  assert_memory_equal(b.task.net.level, a.task.net.level, sizeof a.task.net.level);
  pz_study_release(&b);
  pz_study_release(&a);
  json_decref(inputs);
  o.cluster_text = eight;
  assert_int_equal(pz_study_init(&a, &o, 1, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "devices 5000: cluster eight has 8 devices"));
  o.devices = 8;
  o.tp = (struct pz_choices){{16}, 1};
  err = (struct pz_error){0};
  assert_int_equal(pz_study_init(&a, &o, 1, &err), PZ_BAD_USE);
  assert_non_null(
      strstr(err.message, "tensor-parallel degree 16 is larger than the number of devices 8"));
  pz_arena_release(&arena);
}

/* ---- small studies -------------------------------------------------------------------------- */

static void list_axis(char *text, size_t size, const char *name, uint32_t most_power,
                      uint32_t least_power) {
  size_t at = strlen(text);
  uint32_t first = least_power + draw(most_power - least_power + 1);
  at += (size_t)snprintf(text + at, size - at, ",\"%s\":[%u", name, 1u << first);
  if (draw(2) && first < most_power)
    snprintf(text + at, size - at, ",%u]", 1u << (first + 1 + draw(most_power - first)));
  else
    snprintf(text + at, size - at, "]");
}

/* A space of a few chips, in a file: studies read one. */
static void write_space(const char *path) {
  char text[512] = "{\"name\":\"small\",\"least_part\":0";
  struct pz_error err = {0};
  list_axis(text, sizeof text, "tensor_cores", 5, 0);
  list_axis(text, sizeof text, "rows", 7, 3);
  list_axis(text, sizeof text, "cols", 7, 3);
  list_axis(text, sizeof text, "vector_cores", 6, 0);
  list_axis(text, sizeof text, "glb_mib", 6, 1);
  strcat(text, "}");
  assert_int_equal(pz_file_write(path, text, strlen(text), &err), PZ_OK);
}

static struct pz_study_options draw_study(const char *space) {
  static const char *const models[] = {"bert-base", "gpt2", "opt-125m"};
  struct pz_study_options o = pz_study_options_default();
  uint32_t first = draw(3);
  o.n_models = 1 + draw(2);
  for (uint32_t i = 0; i < o.n_models; i++) o.models[i] = models[(first + i) % 3];
  o.space = space;
  o.workload.seq = 32 << draw(3);
  o.mbs = (struct pz_choices){{1, 4}, 1 + (int)draw(2)};
  o.tp = (struct pz_choices){{1, 2}, 1 + (int)draw(2)};
  o.hbm_gib = (struct pz_choices){{1, 2, 8}, 3};
  o.devices = 4 << draw(5);
  o.batch = 16 << draw(4);
  o.objective = draw(2) ? PZ_OBJECTIVE_GEOMEAN : (enum pz_objective_kind)draw(6);
  o.steps = 200;
  return o;
}

static const char SPACE[] = "test_search_space.json";

/* Every chip and load without any bound, in the plainest way. */
static void brute_force(struct pz_study *s, uint32_t objective_run, uint32_t *best, double *value) {
  const struct pz_objective *o = &s->objective_run[objective_run].objective;
  struct pz_evaluator *e = pz_search_evaluator(s->search);
  double least_area = 0;
  *value = -1;
  for (uint32_t p = 0; p < s->n_points; p++) {
    struct pz_chip c;
    double rates[PZ_SEARCH_MOST_MODELS] = {0};
    struct pz_error err = {0};
    pz_space_chip(&s->space, &s->points[p], &c);
    struct pz_area area = pz_chip_area(&c);
    for (uint32_t i = 0; i < o->n; i++) {
      struct pz_evaluation v;
      assert_int_equal(pz_evaluate_chip(e, &c, o->models[i], pz_task_most_hbm(&s->task),
                                        PZ_EFFORT_FULL, &v, &err),
                       PZ_OK);
      rates[o->models[i]] = v.time_s < HUGE_VAL ? (double)s->o.batch / v.time_s : 0;
    }
    double um2 = pz_area_total_um2(&area),
           now = pz_objective_value(o, rates, um2, pz_chip_peak_watts(&c));
    if (now > *value || (now == *value && um2 < least_area)) {
      *value = now;
      *best = p;
      least_area = um2;
    }
  }
}

/* By boxes of chips: the same answer, from the same evaluations. */
static void same_run(const struct pz_study *a, const struct pz_study *boxes, uint32_t i) {
  const struct pz_objective_run *x = &a->objective_run[i], *y = &boxes->objective_run[i];
  assert_int_equal(x->best, y->best);
  assert_true(x->value == y->value && x->bound == y->bound && x->hbm_gib == y->hbm_gib);
  assert_int_equal(x->n_evaluated, y->n_evaluated);
  assert_int_equal(x->n_looked, y->n_looked);
  for (uint32_t p = 0; p < a->n_points; p++) {
    assert_int_equal(x->chip_status[p].kind, y->chip_status[p].kind);
    assert_true(x->chip_status[p].bound <= y->chip_status[p].bound);
  }
}

static void bounded_is_exhaustive_is_brute_force(void **state) {
  (void)state;
  int solved = 0, nothing = 0, chips = 0, evaluated = 0;
  for (int i = 0; i < pz_test_part(80); i++) {
    struct pz_error err = {0}, same = {0};
    struct pz_study a, b, boxes;
    write_space(SPACE);
    struct pz_study_options o = draw_study(SPACE);
    if (i % 2) o.cluster = "dgx-a100"; /* 4 or 8 devices are in one node, the others are not */
    if (i >= 50) o.assumptions = draw(1U << PZ_ASSUMPTIONS);
    enum pz_status status = run_study(&a, &o, 1, NULL, &err);
    o.boxes = true;
    assert_int_equal(run_study(&boxes, &o, 2, NULL, &same), status);
    if (status != PZ_OK) assert_string_equal(err.message, same.message);
    same = (struct pz_error){0};
    o.exhaustive = true;
    o.boxes = i % 3 == 0;
    assert_int_equal(run_study(&b, &o, 2, NULL, &same), status);
    if (status != PZ_OK) {
      assert_string_equal(err.message, same.message);
      assert_int_equal(status, PZ_NO_ANSWER);
      nothing++;
      continue;
    }
    for (uint32_t c = 0; c < a.n_runs; c++) {
      uint32_t best = 0;
      double value;
      brute_force(&a, c, &best, &value);
      assert_int_equal(a.objective_run[c].best, best);
      assert_true(a.objective_run[c].value == value);
      assert_int_equal(b.objective_run[c].best, best);
      assert_true(b.objective_run[c].value == value);
      assert_true(a.objective_run[c].hbm_gib == b.objective_run[c].hbm_gib);
      assert_true(a.objective_run[c].bound >= value);
      same_run(&a, &boxes, c);
      assert_int_equal(b.objective_run[c].n_evaluated, b.n_points);
      chips += (int)a.n_points;
      evaluated += (int)a.objective_run[c].n_evaluated;
    }
    solved++;
    pz_study_release(&a);
    pz_study_release(&b);
    pz_study_release(&boxes);
  }
  print_message("  %d spaces, %d where nothing fits; %d of %d chips evaluated\n", solved, nothing,
                evaluated, chips);
  assert_true(solved > pz_test_part(40));
  remove(SPACE);
}

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

/* ---- bounds --------------------------------------------------------------------------------- */

static void no_schedule_is_below_the_tables(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = pz_study_options_default();
  struct pz_search_options plain = {0};
  double sum = 0;
  int n = 0;
  o.models[0] = "gpt2";
  o.models[1] = "qwen2.5-1.5b";
  o.n_models = 2;
  o.mbs = (struct pz_choices){{1, 8}, 2};
  o.tp = (struct pz_choices){{1, 2}, 2};
  assert_int_equal(pz_study_init(&s, &o, 2, &err), PZ_OK);
  assert_int_equal(pz_study_prepare(&s, &plain, &err), PZ_OK);
  struct pz_evaluator *e = pz_search_evaluator(s.search);
  for (int i = 0; i < pz_test_part(60); i++) {
    const struct pz_point *p = &s.points[draw(s.n_points)];
    const uint32_t load = draw(s.portfolio.n_variants);
    const struct pz_workload *w = s.portfolio.variants[load].w;
    struct pz_chip c;
    pz_space_chip(&s.space, p, &c);
    pz_cost_set_chip(&e->cost, &c, &s.task.net);
    pz_bounds_go(e->at, p);
    for (uint32_t l = 0; l < w->n_layers; l++)
      for (int d = 0; d < 2; d++) {
        struct pz_layer_time t;
        assert_int_equal(pz_layer_schedule(&e->cost, &w->layers[l].ops[d], 300, NULL, &t, &err),
                         PZ_OK);
        double bound = pz_bounds_layer_s(e->at, load, l, (enum pz_direction)d);
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
static void draw_box(const struct pz_space *s, const struct pz_point *p, struct pz_point *lo,
                     struct pz_point *hi) {
  *lo = *hi = *p;
  for (int a = 0; a < PZ_AXES; a++) {
    if (!draw(2)) continue;
    lo->at[a] = (uint8_t)draw(p->at[a] + 1U);
    hi->at[a] = (uint8_t)(p->at[a] + draw((uint32_t)(s->n[a] - p->at[a])));
  }
}

static void no_chip_is_above_its_box(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = pz_study_options_default();
  struct pz_search_options plain = {0};
  int near = 0, n = pz_test_part(400);
  o.models[0] = "gpt2";
  o.models[1] = "qwen2.5-1.5b";
  o.n_models = 2;
  assert_int_equal(pz_study_init(&s, &o, 2, &err), PZ_OK);
  assert_int_equal(pz_study_prepare(&s, &plain, &err), PZ_OK);
  struct pz_bounds_at *at = pz_search_evaluator(s.search)->at;
  for (int i = 0; i < n; i++) {
    const struct pz_point *p = &s.points[draw(s.n_points)];
    struct pz_point lo, hi;
    draw_box(&s.space, p, &lo, &hi);
    for (uint32_t m = 0; m < 2; m++) {
      pz_bounds_go(at, p);
      double own = pz_bounds_model_s(at, m);
      pz_bounds_go_box(at, p, p);
      assert_true(pz_bounds_model_s(at, m) == own);
      pz_bounds_go_box(at, &lo, &hi);
      double box = pz_bounds_model_s(at, m);
      assert_true(box <= own);
      near += box > own / 2;
    }
  }
  print_message("  %d of %d bounds of boxes at least half of the chip's\n", near, 2 * n);
  pz_study_release(&s);
}

/* ---- progress ------------------------------------------------------------------------------- */

static double seconds_gone;
static double each_look_takes_long(void) { return seconds_gone += 10; }

/* Every phase shows; what it counts is what is left to do, so that it begins near 0 and does not
 * jump; and it never falls. */
static void progress_is_of_what_is_left(void **state) {
  (void)state;
  static const char *const phases[] = {"tables",    "bounds", "reference",
                                       "bert-base", "gpt2",   "all models"};
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_progress p;
  char *text = NULL, *at, label[64];
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  pz_progress_start(&p, out, PZ_PROGRESS_LINES, "models", "models", 1);
  p.now_s = each_look_takes_long;
  p.start_s = p.shown_s = 0;
  struct pz_search_options how = {.progress = &p};
  assert_int_equal(run_study(&s, &o, 2, &how, &err), PZ_OK);
  fclose(out);
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    unsigned done, total, first = 101, before = 0, percent, largest = 0;
    snprintf(label, sizeof label, "%s: ", phases[i]);
    for (at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
      if (strncmp(at, label, strlen(label)) != 0) continue;
      assert_int_equal(
          sscanf(at + strlen(label), "%u of %u %*[a-z] (%u%%)", &done, &total, &percent), 3);
      assert_true(percent >= before && done <= total && percent <= 100);
      if (first > 100) first = percent;
      before = percent;
      if (done) largest = total;
    }
    if (first >= 60 || before != 100) print_message("%s: %u%% at first\n%s", label, first, text);
    assert_true(first < 60 && before == 100);
    if (i > 2) assert_true(largest && largest < s.n_points / 2); /* most are excluded by bounds */
  }
  free(text);
  pz_study_release(&s);
}

/* ---- beside the answer ---------------------------------------------------------------------- */

static void the_front_is_not_dominated(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_front f;
  o.budget = "4";
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  assert_int_equal(pz_front_find(&s, &f, &err), PZ_OK);
  struct pz_objective geomean = s.objective_run[2].objective;
  uint32_t *all = pz_arena_alloc(&s.arena, s.n_points, sizeof *all);
  for (uint32_t p = 0; p < s.n_points; p++) all[p] = p;
  assert_int_equal(pz_search_look(s.search, all, s.n_points, &geomean, &err), PZ_OK);
  for (uint32_t p = 0; p < s.n_points; p++) {
    double value = pz_search_value(s.search, &geomean, p, false);
    double area = pz_search_area_um2(s.search, p), watts = pz_search_watts(s.search, p);
    bool covered = false; /* by a point of the front that is at least as good in all */
    for (uint32_t i = 0; i < f.n && !covered; i++)
      covered =
          f.points[i].value >= value && f.points[i].area_um2 <= area && f.points[i].watts <= watts;
    assert_true(covered || !(value > 0));
  }
  print_message("  %u chips, %u evaluated, %u on the front\n", s.n_points, f.n_evaluated, f.n);
  assert_true(f.n > 2 && f.n_evaluated < s.n_points);
  pz_study_release(&s);
}

/* Straight from the definition of additive epsilon-dominance. */
static bool stands_for(const struct pz_front_point *q, const struct pz_front_point *p,
                       const double slack[3]) {
  return q->value >= p->value - slack[0] && q->area_um2 <= p->area_um2 + slack[1] &&
         q->watts <= p->watts + slack[2];
}

static void check_thinned(const struct pz_front *full, double tolerance) {
  struct pz_front_point points[64];
  struct pz_front f = *full;
  double slack[3] = {0}, fastest = 0;
  memcpy(points, full->points, full->n * sizeof *points);
  f.points = points;
  pz_front_thin(&f, tolerance);
  for (uint32_t i = 0; i < full->n; i++) {
    const struct pz_front_point *p = &full->points[i];
    slack[0] = fmax(slack[0], tolerance * p->value);
    slack[1] = fmax(slack[1], tolerance * p->area_um2);
    slack[2] = fmax(slack[2], tolerance * p->watts);
    fastest = fmax(fastest, p->value);
  }
  bool has_fastest = false, has_knee = false;
  for (uint32_t k = 0; k < f.n; k++) {
    has_fastest = has_fastest || points[k].value == fastest;
    has_knee = has_knee || points[k].knee;
    assert_true(k == 0 || points[k].area_um2 >= points[k - 1].area_um2);
  }
  bool knee = false;
  for (uint32_t i = 0; i < full->n; i++) {
    bool covered = false;
    for (uint32_t k = 0; k < f.n && !covered; k++)
      covered = stands_for(&points[k], &full->points[i], slack);
    assert_true(covered);
    knee = knee || full->points[i].knee;
  }
  assert_true(has_fastest && has_knee == knee && f.n_full == full->n);
  if (tolerance == 0) assert_int_equal(f.n, full->n);
}

/* Points with less value for less area, watts at random. */
static void a_thinned_front_stands_for_the_whole(void **state) {
  (void)state;
  struct pz_front_point points[64];
  for (int round = 0; round < pz_test_part(200); round++) {
    struct pz_front f = {points, (uint32_t)draw(60) + 1, 0, 0};
    f.n_full = f.n;
    for (uint32_t i = 0; i < f.n; i++)
      points[i] = (struct pz_front_point){
          i,    0.0001 + (double)draw(1000) / 100, 1 + (double)i, 10 + (double)draw(100), false,
          false};
    if (draw(2)) points[draw(f.n)].knee = true;
    for (int t = 0; t < 5; t++) check_thinned(&f, (double[]){0, 0.005, 0.01, 0.1, 1}[t]);
  }
  struct pz_front near = {points, 0, 0, 60};
  for (near.n = 0; near.n < 60; near.n++) /* steps of a tenth of a percent: few remain */
    points[near.n] = (struct pz_front_point){
        near.n, 1 + near.n * 0.001, 100 + near.n * 0.1, 50 + near.n * 0.05, false, false};
  pz_front_thin(&near, 0.01);
  assert_true(near.n >= 2 && near.n <= 7);
}

/* No other point is farther above the chord from the smallest to the fastest chip. */
static void the_knee_is_farthest_from_the_chord(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_front f;
  o.budget = "4";
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  assert_int_equal(pz_front_find(&s, &f, &err), PZ_OK);
  const struct pz_front_point *small = &f.points[0], *fast = small, *knee = NULL;
  for (uint32_t i = 0; i < f.n; i++) {
    if (f.points[i].value > fast->value) fast = &f.points[i];
    if (f.points[i].knee) assert_null(knee), knee = &f.points[i];
  }
  assert_non_null(knee);
  double dv = fast->value - small->value, da = fast->area_um2 - small->area_um2, at = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < f.n; i++) {
      const struct pz_front_point *p = &f.points[i];
      double cross = (p->value - small->value) * da - (p->area_um2 - small->area_um2) * dv;
      if (pass && cross > at + 1e-9 * dv * da) fail();
      if (!pass && p == knee) at = cross;
    }
  uint32_t all = f.n;
  pz_front_thin(&f, 0.01);
  print_message("  %u of %u are shown\n", f.n, all);
  assert_true(f.n < all && f.n_full == all);
  pz_study_release(&s);
}

/* ---- the scale of objectives ---------------------------------------------------------------- */

/* Per watt and per mm2 the reference itself comes to 1: throughputs over its own, and so are watts
 * and area. */
static void efficiency_is_relative_to_the_reference(void **state) {
  (void)state;
  static const enum pz_objective_kind kinds[] = {PZ_OBJECTIVE_PER_WATT, PZ_OBJECTIVE_PER_MM2};
  struct pz_chip reference, chip;
  struct pz_error err = {0};
  assert_int_equal(pz_chip_load("tpuv4", &reference, &err), PZ_OK);
  struct pz_area ref_area = pz_chip_area(&reference);
  for (int i = 0; i < 2; i++) {
    struct pz_study s;
    struct pz_study_options o = paper_study();
    o.budget = "4";
    o.objective = kinds[i];
    assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
    const struct pz_objective_run *c = &s.objective_run[s.n_runs - 1];
    double rates[PZ_SEARCH_MOST_MODELS] = {0}, logs = 0;
    for (uint32_t m = 0; m < 2; m++) {
      logs += log((double)o.batch / pz_search_evaluation(s.search, c->best, m)->time_s /
                  s.reference[m].samples_per_s);
      rates[m] = s.reference[m].samples_per_s;
    }
    pz_study_chip(&s, c, &chip);
    struct pz_area area = pz_chip_area(&chip);
    double part = i ? pz_area_total_um2(&area) / pz_area_total_um2(&ref_area)
                    : pz_chip_peak_watts(&chip) / pz_chip_peak_watts(&reference);
    assert_true(fabs(c->value / (exp(logs / 2) / part) - 1) < 1e-9);
    double own = pz_objective_value(&c->objective, rates, pz_area_total_um2(&ref_area),
                                    pz_chip_peak_watts(&reference));
    assert_true(fabs(own - 1) < 1e-12);
    pz_study_release(&s);
  }
}

static void steps_are_what_the_neighbours_do(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_step steps[PZ_MOST_STEPS];
  uint32_t n = 0;
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  const struct pz_objective_run *c = &s.objective_run[2];
  assert_int_equal(pz_sensitivity(&s, c, steps, &n, &err), PZ_OK);
  assert_true(n >= 6);
  for (uint32_t i = 0; i < n; i++) {
    assert_true(steps[i].from != steps[i].to && steps[i].bound >= steps[i].value);
    /* nothing within the budget is better than the best, but for schedules left open */
    if (steps[i].within) assert_true(steps[i].value <= c->bound * (1 + 1e-12));
  }
  pz_study_release(&s);
}

static void nonsense_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *model, *space, *budget;
    int64_t hbm, tp;
    enum pz_status status;
    const char *says;
  } cases[] = {
      {"nosuch", "paper", NULL, 32, 1, PZ_BAD_INPUT, "nosuch"},
      {"gpt2", "papier", NULL, 32, 1, PZ_BAD_INPUT, "did you mean paper?"},
      {"gpt2", "paper", "0.001", 32, 1, PZ_NO_ANSWER, "their areas are 3.35505"},
      {"gpt2", "paper", "-3", 32, 1, PZ_BAD_USE, "--budget"},
      {"gpt2", "paper", "tpuv44", 32, 1, PZ_BAD_INPUT, "tpuv4"},
      {"gpt3-175b", "paper", "5", 1, 1, PZ_NO_ANSWER, "gpt3-175b runs on no chip"},
      {"gpt2-xl", "paper", NULL, 32, 2, PZ_BAD_USE, "accepted: 1, 5, 25"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_study s;
    struct pz_error err = {0};
    struct pz_study_options o = pz_study_options_default();
    o.models[0] = cases[i].model;
    o.n_models = 1;
    o.space = cases[i].space;
    o.budget = cases[i].budget;
    o.mbs = (struct pz_choices){{1}, 1};
    o.tp = (struct pz_choices){{cases[i].tp}, 1};
    o.hbm_gib = (struct pz_choices){{cases[i].hbm}, 1};
    assert_int_equal(run_study(&s, &o, 1, NULL, &err), cases[i].status);
    if (!strstr(err.message, cases[i].says)) print_message("%s\n", err.message);
    assert_non_null(strstr(err.message, cases[i].says));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_papers_space_has_29360_chips),
      cmocka_unit_test(areas_are_the_published_ones),
      cmocka_unit_test(bad_spaces_say_what_is_accepted),
      cmocka_unit_test(every_chip_of_a_space_has_tiles),
      cmocka_unit_test(clusters_of_studies_reach_all_devices),
      cmocka_unit_test(bounded_is_exhaustive_is_brute_force),
      cmocka_unit_test(the_rate_is_of_the_level_in_use),
      cmocka_unit_test(no_schedule_is_below_the_tables),
      cmocka_unit_test(no_chip_is_above_its_box),
      cmocka_unit_test(progress_is_of_what_is_left),
      cmocka_unit_test(the_front_is_not_dominated),
      cmocka_unit_test(a_thinned_front_stands_for_the_whole),
      cmocka_unit_test(the_knee_is_farthest_from_the_chord),
      cmocka_unit_test(efficiency_is_relative_to_the_reference),
      cmocka_unit_test(steps_are_what_the_neighbours_do),
      cmocka_unit_test(nonsense_is_refused),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
