/* Reports of schedules: what they use of a chip, charts, traces, JSON. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "core/json.h"
#include "report/records.h"
#include "report/schedule_table.h"
#include "unit/chip_borders.h"
#include "unit/schedule_calls.h"

/* ---- a schedule made by hand ---------------------------------------------------------------- */

/* Four tensor cores, two vector cores, ten seconds:
 *   product  4 cores, half of HBM    0 .. 4
 *   norm     1 vector core, all HBM  4 .. 6
 *   half     2 cores                 4 .. 9
 *   other    2 cores                 6 .. 8
 *   sum      the link                9 .. 10
 *   view     nothing                 4 .. 4 */
enum { PRODUCT, NORM, HALF, OTHER, SUM, VIEW, N };

static const struct pz_mode modes[N][2] = {
    {{.use = {4, 0, 0, PZ_RATE_PARTS / 2, 0}, .label = 4, .duration = 4, .energy_j = 0.5},
     {.use = {1, 0, 0, 0, 0}, .label = 1, .duration = 9}},
    {{.use = {0, 1, 0, PZ_RATE_PARTS, 0}, .label = 1, .duration = 2}},
    {{.use = {2, 0, 0, 0, 0}, .label = 2, .duration = 5},
     {.use = {4, 0, 0, 0, 0}, .label = 4, .duration = 3}},
    {{.use = {2, 0, 0, 0, 0}, .label = 2, .duration = 2}},
    {{.use = {0, 0, 1, 0, 0}, .duration = 1}},
    {{.use = {0}}},
};
static const struct pz_task tasks[N] = {
    {.name = "product", .id = 0, .op_class = PZ_CLASS_TENSOR, .modes = modes[0], .n_modes = 2},
    {.name = "norm", .id = 1, .op_class = PZ_CLASS_VECTOR, .modes = modes[1], .n_modes = 1},
    {.name = "half", .id = 2, .op_class = PZ_CLASS_TENSOR, .modes = modes[2], .n_modes = 2},
    {.name = "a name that is longer than what a chart has room for",
     .id = 3,
     .op_class = PZ_CLASS_FUSED,
     .modes = modes[3],
     .n_modes = 1},
    {.name = "sum", .id = 4, .op_class = PZ_CLASS_COLLECTIVE, .modes = modes[4], .n_modes = 1},
    {.name = "view", .id = 5, .op_class = PZ_CLASS_NONE, .modes = modes[5], .n_modes = 1},
};
static struct pz_slot slots[N] = {{0, 4, 0}, {4, 6, 0},  {4, 9, 0},
                                  {6, 8, 0}, {9, 10, 0}, {4, 4, 0}};
static const struct pz_problem problem = {
    .capacity = {4, 2, 1, PZ_RATE_PARTS, PZ_RATE_PARTS}, .tasks = tasks, .n = N};

/* As a program is told of it, in units of so many seconds. */
static struct pz_layer_schedule made(double unit_s, struct pz_arena *arena) {
  struct pz_slot scaled[N];
  struct pz_schedule schedule = {.slots = scaled,
                                 .makespan = 10 * unit_s,
                                 .lower_bound = 9 * unit_s,
                                 .outcome = PZ_OUTCOME_FEASIBLE,
                                 .stop = PZ_STOP_STEPS};
  struct pz_layer_schedule s = {.layer = "block", .count = 3};
  for (int i = 0; i < N; i++)
    scaled[i] = (struct pz_slot){slots[i].start * unit_s, slots[i].end * unit_s, 0};
  assert_int_equal(pz_layer_schedule_tell(&problem, &schedule, true, true, arena, &s, NULL), PZ_OK);
  s.serial_s *= unit_s;
  return s;
}

static void near(double got, double want) {
  if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want)))) fail_msg("%.17g, not %.17g", got, want);
}

/* ---- use ------------------------------------------------------------------------------------ */

static void shares_are_integrals_over_capacity_and_time(void **state) {
  (void)state;
  double share[PZ_RESOURCES];
  pz_schedule_use(&problem, slots, 10, share);
  near(share[PZ_TENSOR_CORES], (4 * 4 + 2 * 5 + 2 * 2) / 40.0);
  near(share[PZ_VECTOR_CORES], 2 / 20.0);
  near(share[PZ_LINK], 0.1);
  near(share[PZ_HBM_RATE], (0.5 * 4 + 2) / 10);
  near(share[PZ_GLB_RATE], 0);
  near(pz_problem_serial(&problem), 4 + 2 + 3 + 2 + 1);
  pz_schedule_use(&problem, slots, 0, share);
  near(share[PZ_TENSOR_CORES], 0);
}

/* A vector operator alone on the chip keeps the tensor cores from others but does not use them. */
static void what_is_held_to_be_alone_is_not_used(void **state) {
  (void)state;
  const int32_t capacity[PZ_RESOURCES] = {3, 2, 1, 1, 1};
  struct pz_mode two[2];
  struct pz_task t = {.op_class = PZ_CLASS_VECTOR, .modes = two};
  t.n_modes = pz_two_modes(PZ_CLASS_VECTOR, capacity, 5, 2, PZ_EXCLUSIVE_ALL, two);
  assert_int_equal(two[1].use[PZ_TENSOR_CORES], 3);
  const int32_t want[2][PZ_RESOURCES] = {{0, 1, 0, 0, 0}, {0, 2, 0, 0, 0}};
  for (uint32_t m = 0; m < 2; m++)
    for (int r = 0; r < PZ_RESOURCES; r++)
      assert_int_equal(pz_task_use(&t, m, (enum pz_resource)r), want[m][r]);
}

/* ---- chart and table ------------------------------------------------------------------------ */

struct printed {
  const struct pz_layer_schedule *const *list;
  FILE *out;
};

static void print_chart(struct pz_call *call, void *ctx) {
  const struct printed *printed = ctx;
  pz_gantt_chart(call, printed->list[0], printed->out);
}

static void print_table(struct pz_call *call, void *ctx) {
  const struct printed *printed = ctx;
  pz_schedules_table(call, printed->list, 2, true, printed->out);
}

static void a_chart_shows_every_operator_by_start(void **state) {
  (void)state;
  struct pz_arena arena;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  pz_arena_init(&arena);
  struct pz_layer_schedule s = made(1e-6, &arena);
  const struct pz_layer_schedule *const list[] = {&s};
  struct printed printed = {list, out};
  assert_int_equal(pz_border(print_chart, &printed, NULL), PZ_OK);
  fclose(out);
  static const char want[] =
      /* clang-format off */
      "op  operator                          mode  start    end\n"
      " 0  product                           4t     0.00   4.00  #################\n"
      " 1  norm                              1v     4.00   6.00                  =========\n"
      " 2  half                              2t     4.00   9.00                  ######################\n"
      " 3  a name that is longer than wha..  2t     6.00   8.00                           #########\n"
      " 4  sum                               link   9.00  10.00                                       ~~~~~\n"
      "not shown: 1 operator of zero duration\n";
  /* clang-format on */
  assert_string_equal(text, want);
  free(text);
  pz_arena_release(&arena);
}

static void a_table_has_a_row_for_each_and_totals(void **state) {
  (void)state;
  struct pz_arena arena;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  pz_arena_init(&arena);
  struct pz_layer_schedule a = made(1e-6, &arena), b = made(1e-6, &arena);
  b.direction = PZ_BACKWARD;
  b.optimal = true;
  b.lower_bound_s = b.makespan_s;
  const struct pz_layer_schedule *const list[] = {&a, &b};
  struct printed printed = {list, out};
  assert_int_equal(pz_border(print_table, &printed, NULL), PZ_OK);
  fclose(out);
  assert_string_equal(
      text, "layer  x  pass      ops     us  bound      gap  tensor  vector  link  hbm  speedup\n"
            "block  3  forward     6  10.00   9.00   10.00%     75%     10%   10%  40%    1.20x\n"
            "block  3  backward    6  10.00  10.00  optimal     75%     10%   10%  40%    1.20x\n"
            "model     forward    18  30.00  27.00   10.00%     75%     10%   10%  40%    1.20x\n"
            "model     backward   18  30.00  30.00  optimal     75%     10%   10%  40%    1.20x\n");
  free(text);
  pz_arena_release(&arena);
}

/* ---- traces --------------------------------------------------------------------------------- */

struct seen {
  int names, threads, ops, values;
  double last_ts, free_at[64], lane_us[64];
};

static double number(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);
  assert_true(json_is_number(v));
  return json_number_value(v);
}

static void see_op(struct seen *s, const json_t *e) {
  size_t tid = (size_t)number(e, "tid");
  double ts = number(e, "ts"), dur = number(e, "dur");
  assert_true(tid < 64 && dur >= 0);
  if (!(s->free_at[tid] <= ts))
    fail_msg("%s overlaps", json_string_value(json_object_get(e, "name")));
  s->free_at[tid] = ts + dur;
  s->lane_us[tid] += dur;
  s->ops++;
}

/* Every event is one of four kinds; names come first, times never go back, lanes never overlap. */
static struct seen see(const char *text) {
  struct seen s = {0};
  json_t *root = NULL;
  const json_t *e;
  size_t i;
  assert_int_equal(pz_json_parse("trace", text, strlen(text), &root, NULL), PZ_OK);
  json_array_foreach(json_object_get(root, "traceEvents"), i, e) {
    const char *ph = json_string_value(json_object_get(e, "ph"));
    const char *name = json_string_value(json_object_get(e, "name"));
    assert_non_null(ph);
    assert_non_null(name);
    if (*ph == 'M') {
      assert_int_equal(s.ops + s.values, 0);
      strcmp(name, "process_name") ? s.threads++ : s.names++;
      continue;
    }
    assert_true(number(e, "ts") >= s.last_ts);
    s.last_ts = number(e, "ts");
    if (*ph == 'X')
      see_op(&s, e);
    else if (*ph == 'C')
      s.values++;
    else
      fail_msg("an event of kind %s", ph);
  }
  json_decref(root);
  return s;
}

static void a_trace_holds_operators_in_lanes_and_counters(void **state) {
  (void)state;
  char *text = NULL;
  struct pz_error err = {0};
  struct pz_arena arena;
  pz_arena_init(&arena);
  struct pz_layer_schedule a = made(1, &arena), b = made(1, &arena);
  const struct pz_layer_schedule *const list[] = {&a, &b};
  b.layer = "\xff"; /* no UTF-8: must not break the file */
  assert_int_equal(pz_schedule_trace(list, 2, &text, &err), PZ_OK);
  struct seen s = see(text);
  assert_int_equal(s.names, 2);
  assert_int_equal(s.threads,
                   2 * 4); /* two of products, one of vector operators, one of the link */
  assert_int_equal(s.ops, 2 * 5);
  /* changes of tensor at 0, 4, 6, 8, 9; vector 0, 4, 6; link 0, 9, 10; hbm 0, 4, 6 */
  assert_int_equal(s.values, 2 * (5 + 3 + 3 + 3));
  near(s.last_ts, 10e6);
  assert_non_null(strstr(text, "\"joules\": 0.5"));
  assert_non_null(strstr(text, "(not UTF-8)"));
  near(s.lane_us[3], 9e6); /* product, then half */
  pz_text_free(text);
  pz_arena_release(&arena);
}

static void a_trace_has_limits(void **state) {
  (void)state;
  struct pz_error err = {0};
  struct pz_arena arena;
  char *text = NULL;
  pz_arena_init(&arena);
  struct pz_layer_schedule s = made(1e6, &arena);
  const struct pz_layer_schedule *const list[] = {&s};
  assert_int_equal(pz_schedule_trace(list, 1, &text, &err), PZ_LIMIT);
  assert_non_null(
      strstr(err.message, "block forward would take 1e+13 us; accepted: at most 1e+12 us"));
  s = made(1, &arena);
  s.n_operators = PZ_TRACE_MOST_OPS + 1;
  assert_int_equal(pz_schedule_trace(list, 1, &text, NULL), PZ_LIMIT);
  assert_int_equal(pz_schedule_trace(NULL, 1, &text, NULL), PZ_BAD_USE);
  assert_int_equal(
      pz_schedule_trace((const struct pz_layer_schedule *const[]){NULL}, 1, &text, NULL),
      PZ_BAD_USE);
  assert_null(text);
  pz_arena_release(&arena);
}

/* Times of a real layer fall on no grid: lanes must hold all the same, and add up. */
static void traces_of_a_model_do_not_overlap(void **state) {
  (void)state;
  struct pz_workload *w = pz_test_load("llama3-8b", NULL);
  struct pz_chip chip;
  struct pz_cost *cost = NULL;
  struct pz_layer_schedule *s = NULL;
  struct pz_schedule_options o = pz_schedule_options_default();
  char *text = NULL;
  o.steps = 20000;
  o.views = true;
  assert_int_equal(pz_test_chip_read("h200", &chip, NULL), PZ_OK);
  assert_int_equal(pz_cost_new(&chip, NULL, &cost, NULL), PZ_OK);
  assert_int_equal(pz_schedule_layer(cost, &w->layers[1], PZ_BACKWARD, &o, &s, NULL), PZ_OK);
  assert_int_equal(pz_schedule_trace((const struct pz_layer_schedule *const[]){s}, 1, &text, NULL),
                   PZ_OK);
  struct seen seen = see(text);
  int ops = 0;
  double want = 0, got = 0;
  for (uint32_t i = 0; i < s->n_operators; i++) {
    ops += s->operators[i].op_class != PZ_CLASS_NONE;
    want += (s->operators[i].end_s - s->operators[i].start_s) * 1e6;
  }
  for (int i = 0; i < 64; i++) got += seen.lane_us[i];
  assert_int_equal(seen.ops, ops);
  assert_true(fabs(got - want) < 0.001 * ops);
  pz_text_free(text);
  pz_layer_schedule_free(s);
  pz_cost_free(cost);
  pz_workload_free(w);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_keeps_the_fields_of_instances(void **state) {
  (void)state;
  static const char *const fields[] = {"makespan", "lower_bound", "gap",     "outcome",
                                       "stop",     "steps",       "seconds", "ops"};
  struct pz_arena arena;
  pz_arena_init(&arena);
  struct pz_layer_schedule s = made(1, &arena);
  s.layer = NULL;
  const struct pz_solved_schedule solved = {
      .schedule = &s, .gap = 0.1, .solving_s = 1, .outcome = "feasible"};
  json_t *o = pz_record_json(&pz_solved_schedule_record, &solved);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    assert_non_null(json_object_get(o, fields[i]));
  assert_null(json_object_get(o, "layer"));
  near(number(json_object_get(o, "utilisation"), "tensor"), 0.75);
  const json_t *sum = json_array_get(json_object_get(o, "ops"), SUM);
  assert_string_equal(json_string_value(json_object_get(sum, "mode")), "link");
  assert_string_equal(json_string_value(json_object_get(sum, "class")), "collective");
  json_decref(o);
  pz_arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_are_integrals_over_capacity_and_time),
      cmocka_unit_test(what_is_held_to_be_alone_is_not_used),
      cmocka_unit_test(a_chart_shows_every_operator_by_start),
      cmocka_unit_test(a_table_has_a_row_for_each_and_totals),
      cmocka_unit_test(a_trace_holds_operators_in_lanes_and_counters),
      cmocka_unit_test(a_trace_has_limits),
      cmocka_unit_test(traces_of_a_model_do_not_overlap),
      cmocka_unit_test(json_keeps_the_fields_of_instances),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
