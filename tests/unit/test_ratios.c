/* Ratios to the reference in few numbers. */
#include "unit/testing.h"

#include <math.h>

#include "report/ratios.h"

static void is_told(const struct pz_ratios *r, const char *want) {
  char *out = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&out, &size);
  pz_ratios_print(r, f);
  fclose(f);
  assert_string_equal(out, want);
  free(out);
}

static void median_and_range(void **state) {
  (void)state;
  const char *const names[] = {"bert-large", "gpt2-xl",   "opt-350m",
                               "llama2-7b",  "gpt3-175b", "megatron-8.3b"};
  const double ratios[] = {2.40, 4.03, 2.72, 2.77, 5.95, 15.71};
  struct pz_ratios r = pz_ratios_of(ratios, names, 6);
  is_told(&r, "geometric mean over 6 models; median 3.40, from 2.40 for bert-large "
              "to 15.71 for megatron-8.3b");
  assert_true(fabs(r.geometric_mean - 4.354) < 0.005);
  r = pz_ratios_of(ratios, names, 5); /* an odd number: the middle one */
  assert_true(r.median == 2.77);
}

/* Models without a reference, or that fit nowhere, count for nothing; equal ones: the first. */
static void what_has_no_ratio(void **state) {
  (void)state;
  const char *const names[] = {"a", "b", "c", "d"};
  const double ratios[] = {(double)NAN, 2, 0, 2};
  struct pz_ratios r = pz_ratios_of(ratios, names, 4);
  is_told(&r, "geometric mean over 2 models; median 2.00, from 2.00 for b to 2.00 for b");
  assert_int_equal(pz_ratios_of(ratios, names, 2).n_models, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(median_and_range),
      cmocka_unit_test(what_has_no_ratio),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
