/* Ratios to the reference in few numbers. */
#include "unit/testing.h"

#include <math.h>

#include "report/ratios.h"

static json_t *models_of(const char *text) {
  json_t *models = json_loads(text, 0, NULL);
  assert_non_null(models);
  return models;
}

static char *told(const char *text) {
  json_t *models = models_of(text), *ratios = pz_ratios_json(models);
  char *out = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&out, &size);
  assert_true(json_is_object(ratios));
  pz_ratios_print(ratios, f);
  fclose(f);
  json_decref(ratios);
  json_decref(models);
  return out;
}

static const char six[] = "[{\"model\":\"bert-large\",\"ratio_to_reference\":2.40},"
                          "{\"model\":\"gpt2-xl\",\"ratio_to_reference\":4.03},"
                          "{\"model\":\"opt-350m\",\"ratio_to_reference\":2.72},"
                          "{\"model\":\"llama2-7b\",\"ratio_to_reference\":2.77},"
                          "{\"model\":\"megatron-8.3b\",\"ratio_to_reference\":15.71},"
                          "{\"model\":\"gpt3-175b\",\"ratio_to_reference\":5.95}]";

static void median_and_range(void **state) {
  (void)state;
  char *text = told(six);
  assert_string_equal(text, "geometric mean over 6 models; median 3.40, from 2.40 for bert-large "
                            "to 15.71 for megatron-8.3b");
  free(text);
  json_t *models = models_of(six), *r = pz_ratios_json(models);
  double mean = json_number_value(json_object_get(r, "geometric_mean"));
  assert_true(fabs(mean - 4.354) < 0.005);
  json_decref(r);
  json_array_remove(models, 4);
  r = pz_ratios_json(models); /* an odd number: the middle one */
  assert_true(json_number_value(json_object_get(r, "median")) == 2.77);
  json_decref(r);
  json_decref(models);
}

/* Models without a reference, or that fit nowhere, count for nothing; equal ones: the first. */
static void what_has_no_ratio(void **state) {
  (void)state;
  char *text = told("[{\"model\":\"a\",\"ratio_to_reference\":null},"
                    "{\"model\":\"b\",\"ratio_to_reference\":2},"
                    "{\"model\":\"c\",\"ratio_to_reference\":0},"
                    "{\"model\":\"d\",\"ratio_to_reference\":2}]");
  assert_string_equal(text,
                      "geometric mean over 2 models; median 2.00, from 2.00 for b to 2.00 for b");
  free(text);
  json_t *one = models_of("[{\"model\":\"a\",\"ratio_to_reference\":2}]"),
         *none = pz_ratios_json(one);
  assert_true(json_is_null(none));
  json_decref(none);
  json_decref(one);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(median_and_range),
      cmocka_unit_test(what_has_no_ratio),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
