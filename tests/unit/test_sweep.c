/* pz_training_sweep(): its predictions are those of pz_training_predict(), plan by plan, whatever the plans have in
 * common, on any number of threads; a plan that cannot be predicted has the same message. */
#include "unit/testing.h"

#include <string.h>

#include "core/record.h"
#include "plan/plan_fields.h"
#include "report/records.h"
#include "unit/chip_borders.h"

enum { PLANS = 96 };

static uint64_t next(uint64_t *state, uint64_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % n;
}

/* A random plan; some do not divide their devices, layers or heads. */
static struct pz_plan random_plan(uint64_t *state) {
  struct pz_plan plan = pz_plan_default();
  plan.devices = INT64_C(8) << next(state, 5);
  plan.batch = INT64_C(64) << next(state, 3);
  plan.seq = 2048;
  plan.tp = INT64_C(1) << next(state, 4);
  plan.pp = 1 + (int64_t)next(state, 4);
  plan.mbs = INT64_C(1) << next(state, 3);
  if (next(state, 3) == 0) plan.vpp = 2;
  if (next(state, 2) == 0) plan.zero = (int)next(state, 4);
  if (next(state, 2) == 0) plan.recompute = (int)next(state, 3);
  if (next(state, 4) == 0) plan.cp = 2;
  if (next(state, 4) == 0) plan.overlap = (int)next(state, 8);
  if (next(state, 5) == 0) plan.precision = PZ_PRECISION_FP8;
  if (next(state, 6) == 0) plan.framework = pz_framework_find("torchtitan");
  if (next(state, 8) == 0) plan.peft = "lora:16:all";
  if (next(state, 8) == 0) plan.offload = 1;
  return plan;
}

/* All of a prediction as text. */
static char *text_of(const struct pz_training_run *run) {
  json_t *json = pz_record_json(&pz_training_run_record, run);
  char *text = json_dumps(json, 0);
  json_decref(json);
  assert_non_null(text);
  return text;
}

static void compare(const char *model, const char *chip_name, const char *net_name, uint64_t seed) {
  struct pz_plan plans[PLANS];
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_error err = {0};
  uint32_t n_refused = 0;
  assert_int_equal(pz_test_chip_read(chip_name, &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load(net_name, &net, &err), PZ_OK);
  for (int i = 0; i < PLANS; i++) plans[i] = random_plan(&seed);
  for (unsigned threads = 1; threads <= 4; threads += 3) {
    struct pz_training_sweep *sweep = NULL;
    assert_int_equal(pz_training_sweep(model, &chip, &net, plans, PLANS, threads, &sweep, &err),
                     PZ_OK);
    assert_int_equal(sweep->n, PLANS);
    for (int i = 0; i < PLANS; i++) {
      struct pz_training_run *run = NULL;
      struct pz_error why = {0};
      if (pz_training_predict(model, &chip, &net, &plans[i], false, &run, &why) != PZ_OK) {
        assert_null(sweep->runs[i]);
        assert_string_equal(sweep->errors[i], why.message);
        n_refused += threads == 1;
        continue;
      }
      assert_null(sweep->errors[i]);
      char *one = text_of(run), *many = text_of(sweep->runs[i]);
      assert_string_equal(many, one);
      free(one);
      free(many);
      pz_training_run_free(run);
    }
    pz_training_sweep_free(sweep);
  }
  assert_true(n_refused > 0 && n_refused < PLANS - 8);
}

static void predictions_are_those_of_single_plans(void **state) {
  (void)state;
  compare("llama2-7b", "h100", "dgx-h100", 1);
  compare("mixtral-8x7b", "h200", "dgx-h200", 2);
  compare("llama2-7b", "tpuv5e", "tpuv5e-pod", 3);
}

static void arguments_are_checked(void **state) {
  (void)state;
  struct pz_chip chip;
  struct pz_training_sweep *sweep = NULL;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_training_sweep("gpt2", &chip, NULL, NULL, 0, 1, &sweep, &err), PZ_OK);
  assert_int_equal(sweep->n, 0);
  pz_training_sweep_free(sweep);
  pz_training_sweep_free(NULL);
  assert_int_equal(pz_training_sweep("gpt2", &chip, NULL, NULL, 1, 1, &sweep, &err), PZ_BAD_USE);
  struct pz_plan plan = pz_plan_default();
  err = (struct pz_error){0};
  assert_int_equal(pz_training_sweep("no-such-model", &chip, NULL, &plan, 1, 1, &sweep, &err),
                   PZ_OK);
  assert_non_null(strstr(sweep->errors[0], "no-such-model"));
  pz_training_sweep_free(sweep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predictions_are_those_of_single_plans),
      cmocka_unit_test(arguments_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
