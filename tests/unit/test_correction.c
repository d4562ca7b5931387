/* Predictions corrected by measured steps: known factors are found again, exact steps change nothing, longer
 * parts are longer steps.  That searches stay exact is for test_plan_search. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "step/correction.h"
#include "step/run_table.h"
#include "step_borders.h"

static const char heads[] = "id,model,chip,cluster,n_dev,tp,pp,gbs,mbs,step_time_s\n";

/* Plans whose parts differ: GEMMs alone, many collectives, few microbatches. */
static const struct {
  const char *model, *rest;
} plans[] = {{"llama3-8b", "64,1,1,128,1"},   {"llama3-8b", "64,8,1,128,1"},
             {"llama3-8b", "128,2,4,256,1"},  {"llama3-70b", "256,8,4,256,1"},
             {"llama3-70b", "128,8,1,128,1"}, {"gpt2-xl", "64,1,1,512,4"},
             {"gpt2-xl", "8,1,1,8,1"}};
enum { PLANS = sizeof plans / sizeof *plans };

static struct pz_run_table read_plans(struct pz_arena *arena) {
  char text[2000];
  int n = snprintf(text, sizeof text, "%s", heads);
  struct pz_run_table t;
  struct pz_error err = {0};
  for (int i = 0; i < PLANS; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%d,%s,h100,dgx-h100,%s,1\n", i,
                  plans[i].model, plans[i].rest);
  if (try_read_runs("x", text, strlen(text), 1, arena, &t, &err) != PZ_OK)
    fail_msg("%s", err.message);
  assert_int_equal(t.n_rows, PLANS);
  return t;
}

/* Steps of all plans as a chip with this correction takes them. */
static void steps_with(const struct pz_run_table *t, const struct pz_correction *c,
                       struct pz_measured_step *out) {
  double step_s[PLANS];
  struct pz_error err = {0};
  for (uint32_t i = 0; i < PLANS; i++) {
    if (!t->rows[i].predicted) fail_msg("%s", t->rows[i].reason);
    out[i] = (struct pz_measured_step){
        .id = t->rows[i].id, .job = pz_run_table_job(t, i), .plan = t->rows[i].plan};
  }
  assert_int_equal(try_steps_corrected(out, PLANS, c, 1, step_s, &err), PZ_OK);
  for (int i = 0; i < PLANS; i++) out[i].measured_s = step_s[i];
}

static double error_of(const struct pz_measured_step *steps, const struct pz_correction *c) {
  double step_s[PLANS], sum = 0;
  struct pz_error err = {0};
  assert_int_equal(try_steps_corrected(steps, PLANS, c, 1, step_s, &err), PZ_OK);
  for (int i = 0; i < PLANS; i++) sum += fabs(step_s[i] / steps[i].measured_s - 1) / PLANS;
  return sum;
}

static void known_factors_are_found(void **state) {
  static const struct pz_correction known[] = {{.gemms = 1.25},
                                               {.collectives = 1.6},
                                               {.gemms = 1.2, .collectives = 0.8},
                                               {.attention = 1.4, .elementwise = 1.3},
                                               {.gemms = 0.9, .launches = 1.3}};
  struct pz_arena arena;
  (void)state;
  pz_arena_init(&arena);
  struct pz_run_table t = read_plans(&arena);
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    struct pz_measured_step steps[PLANS];
    struct pz_step_sensitivity s[PLANS];
    struct pz_correction none = {.steps = 0};
    struct pz_error err = {0};
    steps_with(&t, &known[k], steps);
    assert_int_equal(try_step_sensitivities(steps, PLANS, 1, s, &err), PZ_OK);
    struct pz_correction found = pz_correction_fit(steps, s, PLANS, PLANS);
    double before = error_of(steps, &none), after = error_of(steps, &found), left = 0;
    for (uint32_t i = 0; i < PLANS; i++) {
      struct pz_correction others = pz_correction_fit(steps, s, PLANS, i);
      double step_s;
      assert_int_equal(try_steps_corrected(&steps[i], 1, &others, 1, &step_s, &err), PZ_OK);
      left += fabs(step_s / steps[i].measured_s - 1) / PLANS;
    }
    if (after > before / 2 || left > before)
      fail_msg("correction %zu: error %.4f before, %.4f after, %.4f left out", k, before, after,
               left);
  }
  pz_arena_release(&arena);
}

static void exact_steps_change_nothing(void **state) {
  struct pz_arena arena;
  struct pz_correction none = {.steps = 0};
  struct pz_measured_step steps[PLANS];
  struct pz_step_sensitivity s[PLANS];
  struct pz_error err = {0};
  (void)state;
  pz_arena_init(&arena);
  struct pz_run_table t = read_plans(&arena);
  steps_with(&t, &none, steps);
  assert_int_equal(try_step_sensitivities(steps, PLANS, 1, s, &err), PZ_OK);
  struct pz_correction found = pz_correction_fit(steps, s, PLANS, PLANS);
  for (int f = 0; f < PZ_CORRECTION_FACTORS; f++)
    assert_true(fabs(*pz_correction_factor(&found, f) - 1) < 1e-9);
  /* all parts together are the step: nothing counts twice */
  for (int i = 0; i < PLANS; i++) {
    double sum = 0;
    for (int f = 0; f < PZ_CORRECTION_FACTORS; f++) sum += s[i].share[f];
    if (fabs(sum - 1) > 0.05) fail_msg("step %d: shares %.3f", i, sum);
  }
  pz_arena_release(&arena);
}

/* A run that was measured again says no more, and does not judge itself. */
static void repeats_count_once(void **state) {
  static const struct pz_correction known = {.gemms = 1.2, .collectives = 1.1};
  struct pz_arena arena;
  struct pz_measured_step steps[PLANS], twice[2 * PLANS];
  struct pz_step_sensitivity s[PLANS], s2[2 * PLANS];
  struct pz_error err = {0};
  (void)state;
  pz_arena_init(&arena);
  struct pz_run_table t = read_plans(&arena);
  steps_with(&t, &known, steps);
  assert_int_equal(try_step_sensitivities(steps, PLANS, 1, s, &err), PZ_OK);
  for (int i = 0; i < 2 * PLANS; i++) twice[i] = steps[i % PLANS], s2[i] = s[i % PLANS];
  struct pz_correction once = pz_correction_fit(steps, s, PLANS, 2);
  struct pz_correction both = pz_correction_fit(twice, s2, 2 * PLANS, 2);
  for (int f = 0; f < PZ_CORRECTION_FACTORS; f++)
    assert_true(fabs(*pz_correction_factor(&once, f) - *pz_correction_factor(&both, f)) < 1e-9);
  struct pz_correction alone = pz_correction_fit(steps, s, 1, 0);
  for (int f = 0; f < PZ_CORRECTION_FACTORS; f++)
    assert_true(fabs(*pz_correction_factor(&alone, f) - 1) < 1e-12);
  pz_arena_release(&arena);
}

/* With a part that takes longer no plan takes less. */
static void slower_parts_are_slower(void **state) {
  struct pz_arena arena;
  struct pz_measured_step plain[PLANS], slow[PLANS];
  struct pz_correction none = {.steps = 0};
  (void)state;
  pz_arena_init(&arena);
  struct pz_run_table t = read_plans(&arena);
  steps_with(&t, &none, plain);
  for (int f = 0; f < PZ_CORRECTION_FACTORS; f++) {
    struct pz_correction c = none;
    *pz_correction_factor(&c, f) = 1.5;
    steps_with(&t, &c, slow);
    double gain = 0;
    for (int i = 0; i < PLANS; i++) {
      assert_true(slow[i].measured_s >= plain[i].measured_s * (1 - 1e-12));
      gain += slow[i].measured_s / plain[i].measured_s - 1;
    }
    assert_true(gain > 0.005);
  }
  pz_arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_factors_are_found),
      cmocka_unit_test(exact_steps_change_nothing),
      cmocka_unit_test(repeats_count_once),
      cmocka_unit_test(slower_parts_are_slower),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
