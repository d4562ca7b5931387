/* Chips beside each other: the H100 of a comparison is the reference of a search; energy adds up; power stays within the
 * peak. */
#include <math.h>
#include <string.h>

#include "study/chip_comparison.h"
#include "study/study.h"
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
  struct pz_error err = {0};
  struct pz_study_options o = pz_study_options_default();
  struct pz_study_watch none = {.store = NULL};
  struct pz_study s;
  struct pz_arena arena;
  (void)state;
  pz_arena_init(&arena, NULL);
  assert_int_equal(pz_compared_chip_load("h100", &q, &x, &err), PZ_OK);
  x.net = pz_training_cluster(&q.models, &x.chip);
  assert_int_equal(pz_compare_chip(&q, &x, &arena, &err), PZ_OK);
  o.models[0] = q.models.models[0];
  o.n_models = 1;
  o.space = "modern";
  o.node = "5nm";
  o.budget = "h100";
  o.devices = q.models.devices;
  o.batch = q.models.batch;
  o.workload.seq = q.models.seq;
  assert_int_equal(pz_study_init(&s, &o, 1, &err), PZ_OK);
  assert_int_equal(pz_study_prepare(&s, &none, &err), PZ_OK);
  /* the same tiles and the same plan: sums in another order at most */
  assert_true(fabs(s.reference_step[0].step_s / x.model[0].found.p.step_s - 1) < 1e-9);
  const struct pz_taken *t = &s.reference_taken;
  assert_true(x.taken.watts == t->watts && x.taken.dollars == t->dollars && !x.measured);
  assert_true(s.limits.watts == t->watts && s.limits.dollars == t->dollars);
  pz_study_release(&s);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(h100_is_the_reference),
                                     cmocka_unit_test(energy_adds_up),
                                     cmocka_unit_test(power_stays_within_peak)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
