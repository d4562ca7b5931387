/* Chips beside each other: the H100 of a comparison is the reference of a search; energy adds up; budgets are bills; the
 * details of a search agree with it. */
#include <math.h>
#include <string.h>

#include "box/box_details.h"
#include "box/budget.h"
#include "box/chip_comparison.h"
#include "core/alloc.h"
#include "testing.h"

static struct pz_comparison_question question(void) {
  return (struct pz_comparison_question){.models = {.models = {"gpt2"},
                                                    .n_models = 1,
                                                    .devices = 8,
                                                    .batch = 16,
                                                    .seq = 128,
                                                    .scale_up = 8,
                                                    .outer_bytes_per_s = 50e9},
                                         .threads = 1};
}

static void h100_is_the_reference(void **state) {
  struct pz_comparison_question q = question();
  struct pz_compared_chip x;
  struct pz_chip reference;
  struct pz_error err = {0};
  struct pz_judge *j = NULL;
  struct pz_arena arena;
  double value = 0;
  (void)state;
  pz_arena_init(&arena, NULL);
  assert_int_equal(pz_compared_chip_load("h100", &q, &x, &err), PZ_OK);
  x.net = pz_judge_cluster(&q.models, &x.chip);
  assert_int_equal(pz_compare_chip(&q, &x, &arena, &err), PZ_OK);
  assert_int_equal(pz_box_reference_chip(&reference, &err), PZ_OK);
  assert_int_equal(pz_judge_new(&q.models, &reference, &j, &err), PZ_OK);
  struct pz_taken t = pz_chip_taken(&reference);
  struct pz_steps steps;
  assert_int_equal(pz_judge_value(j, &reference, &t, 0, &value, &steps, NULL, &err), PZ_OK);
  /* the same tiles and the same plan: sums in another order at most */
  assert_true(fabs(steps.step_s[0] / x.model[0].found.p.step_s - 1) < 1e-9);
  assert_true(x.taken.watts == t.watts && x.taken.dollars == t.dollars && !x.measured);
  pz_judge_free(j);
  pz_arena_release(&arena);
}

/* Energy of a sample times samples is power times time; a chip at rest takes less than one at work. */
static void energy_adds_up(void **state) {
  struct pz_comparison_question q = question();
  static const char *const chips[] = {"h100", "tpuv6e", "trainium2"};
  struct pz_arena arena;
  struct pz_error err = {0};
  (void)state;
  pz_arena_init(&arena, NULL);
  for (size_t i = 0; i < 3; i++) {
    struct pz_compared_chip x;
    assert_int_equal(pz_compared_chip_load(chips[i], &q, &x, &err), PZ_OK);
    assert_int_equal(pz_compare_chip(&q, &x, &arena, &err), PZ_OK);
    const struct pz_step_energy *e = &x.model[0].step.energy;
    double step_s = x.model[0].step.p.step_s;
    assert_true(fabs(16 * e->joules_per_sample / (8 * step_s * e->watts) - 1) < 1e-9);
    assert_true(e->dynamic_j > 0 && e->static_j > 0 && e->watts > x.taken.static_watts * 0.99);
    assert_true(pz_compared_ratio(&q.models, &x, &x) == 1);
  }
  pz_arena_release(&arena);
}

/* No described chip takes more than its peak; one that would lowers its clock, and its step takes longer. */
static void power_stays_within_peak(void **state) {
  static const char *const chips[] = {"tpuv6e", "mi300x", "trainium2"};
  struct pz_comparison_question q = question();
  struct pz_arena arena;
  struct pz_error err = {0};
  uint32_t lowered = 0;
  (void)state;
  q.models.models[0] = "gpt2-xl";
  q.models.batch = 32;
  q.models.seq = 1024;
  pz_arena_init(&arena, NULL);
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
    struct pz_compared_chip x;
    assert_int_equal(pz_compared_chip_load(chips[i], &q, &x, &err), PZ_OK);
    assert_int_equal(pz_compare_chip(&q, &x, &arena, &err), PZ_OK);
    const struct pz_compared_model *m = &x.model[0];
    assert_true(m->fits && m->step.energy.watts <= x.taken.watts);
    if (m->step.full_watts > x.taken.watts) {
      lowered++;
      assert_true(m->step.clock_hz < x.chip.clock_hz && m->step.p.step_s > m->found.p.step_s);
      assert_true(m->step.energy.watts > 0.99 * x.taken.watts); /* and no lower than it must */
      assert_true(m->step.p.mfu < m->found.p.mfu);
    } else {
      assert_true(m->step.clock_hz == x.chip.clock_hz);
      assert_true(m->step.p.step_s == m->found.p.step_s);
    }
  }
  assert_true(lowered > 0 && lowered < sizeof chips / sizeof *chips);
  pz_arena_release(&arena);
}

static void budgets_are_bills(void **state) {
  struct pz_range_space *s = pz_calloc(1, sizeof *s);
  struct pz_limits l = {.watts = 500};
  struct pz_error err = {0};
  bool is = false;
  (void)state;
  assert_int_equal(pz_range_load("modern", s, &is, &err), PZ_OK);
  assert_int_equal(pz_budget_limits("a100-80", s, NULL, &l, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "--node 7nm"));
  assert_int_equal(pz_budget_limits("h100", s, "5nm", &l, &err), PZ_OK);
  assert_int_equal(pz_range_set_node(s, "5nm", &err), PZ_OK);
  l = (struct pz_limits){.watts = 500};
  assert_int_equal(pz_budget_limits("h100", s, NULL, &l, &err), PZ_OK);
  assert_true(fabs(l.mm2 - 813.02) < 0.01 && l.watts == 500 && fabs(l.dollars - 1935) < 1);
  pz_free(s);
}

/* Every chip of a space is found where it stands. */
static void chips_are_found(void **state) {
  struct pz_range_space *s = pz_calloc(1, sizeof *s);
  struct pz_error err = {0};
  bool is = false;
  (void)state;
  assert_int_equal(pz_range_load("modern", s, &is, &err), PZ_OK);
  for (uint32_t kind = 0; kind < pz_range_kinds(s); kind += 7) {
    struct pz_box b = pz_box_all(s, kind), found;
    struct pz_chip c;
    for (int a = 0; a < PZ_RANGE_AXES; a++)
      b.lo[a] = b.hi[a] = (uint8_t)((kind * 5 + (uint32_t)a * 3) % (uint32_t)s->n[a]);
    pz_box_lo(s, &b, &c);
    assert_int_equal(pz_range_find(s, &c, &found, &err), PZ_OK);
    assert_int_equal(found.kind, b.kind);
    assert_memory_equal(found.lo, b.lo, sizeof b.lo);
    c.clock_hz += 1e6;
    assert_int_equal(pz_range_find(s, &c, &found, &err), PZ_BAD_INPUT);
  }
  pz_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(h100_is_the_reference), cmocka_unit_test(energy_adds_up),
      cmocka_unit_test(power_stays_within_peak), cmocka_unit_test(budgets_are_bills),
      cmocka_unit_test(chips_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
