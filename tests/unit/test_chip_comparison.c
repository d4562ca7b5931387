/* Chips beside each other: the H100 of a comparison is the reference of a search; energy adds up; power stays within the
 * peak; and what no comparison can be made of is refused. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/json.h"
#include "space/limits.h"
#include "study/study.h"
#include "testing.h"

static struct pz_study_options question(void) {
  struct pz_study_options o = pz_study_options_default();
  o.models[0] = "gpt2";
  o.n_models = 1;
  o.devices = 8;
  o.batch = 16;
  o.workload.seq = 128;
  o.cluster = NULL;
  return o;
}

/* The rows of a comparison, to be released. */
static json_t *compare(const struct pz_study_options *o, const char *chips, bool cold) {
  struct pz_error err = {0};
  char *text = NULL;
  json_t *root = NULL;
  if (pz_chips_compare(o, chips, cold, NULL, &text, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_int_equal(pz_json_parse("comparison", text, strlen(text), &root, &err), PZ_OK);
  pz_text_free(text);
  return root;
}

static const json_t *row(const json_t *root, size_t i) {
  return json_array_get(json_object_get(root, "chips"), i);
}

static double real(const json_t *row, const char *key) {
  return json_number_value(json_object_get(row, key));
}

static const char *word(const json_t *row, const char *key) {
  return json_string_value(json_object_get(row, key));
}

/* The chip in a file of its own, whose name is made of `path`. */
static void write_chip(const struct pz_chip *c, char *path) {
  struct pz_error err = {0};
  char *text = NULL;
  if (pz_chip_text(c, &text, &err) != PZ_OK) fail_msg("%s", err.message);
  FILE *f = fdopen(mkstemp(path), "w");
  assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
  pz_text_free(text);
}

/* A file has no network of its own: that of the search. */
static void h100_is_the_reference(void **state) {
  struct pz_study_options o = question(), q = o;
  struct pz_study_watch none = {.store = NULL};
  struct pz_error err = {0};
  struct pz_study s;
  struct pz_chip h100;
  char path[] = "/tmp/chipXXXXXX";
  (void)state;
  assert_int_equal(pz_chip_read("h100", &h100, &err), PZ_OK);
  write_chip(&h100, path);
  json_t *root = compare(&q, path, true);
  const json_t *x = row(root, 0);
  remove(path);
  o.cluster = pz_study_options_default().cluster;
  o.space = "modern";
  o.node = "5nm";
  o.budget = "h100";
  assert_int_equal(pz_study_init(&s, &o, 1, &err), PZ_OK);
  assert_int_equal(pz_study_prepare(&s, &none, &err), PZ_OK);
  /* the same plan: sums in another order at most */
  assert_true(fabs(s.reference_step[0].step_s / real(x, "step_s") - 1) < 1e-9);
  const struct pz_taken *t = &s.reference_taken;
  assert_true(real(x, "peak_watts") == t->watts && real(x, "dollars") == t->dollars);
  assert_string_equal(word(x, "known"), "cold");
  assert_true(s.limits.watts == t->watts && s.limits.dollars == t->dollars);
  pz_study_release(&s);
  json_decref(root);
}

/* By operators, by runs, somehow, by the data sheet; a chip without its measurements is one that its class was fitted to. */
static void chips_say_how_they_are_known(void **state) {
  static const struct {
    const char *known;
    double error, cold_error; /* 0: none */
  } kinds[] = {{"measured", 0.045, 0.077},
               {"published runs", 0.14, 0.077},
               {"cold", 0.198, 0.198},
               {"calibrated", 0, 0.198}};
  struct pz_study_options q = question();
  struct pz_chip own;
  char path[] = "/tmp/chipXXXXXX", list[100];
  (void)state;
  assert_int_equal(pz_chip_read("h100", &own, NULL), PZ_OK);
  own.calibrated_by = PZ_CALIBRATED_SOMEHOW;
  write_chip(&own, path);
  snprintf(list, sizeof list, "h200,tpuv5p,gaudi3,%s", path);
  json_t *warm = compare(&q, list, false), *cold = compare(&q, list, true);
  remove(path);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const json_t *a = row(warm, i), *b = row(cold, i);
    assert_string_equal(word(a, "known"), kinds[i].known);
    assert_string_equal(word(b, "known"), "cold");
    assert_true(real(a, "expected_error") == kinds[i].error);
    assert_true(real(b, "expected_error") == kinds[i].cold_error);
    assert_true((real(a, "step_s") == real(b, "step_s")) == (strcmp(kinds[i].known, "cold") == 0));
    assert_true(real(a, "mfu") > 0 && real(a, "mfu") < 0.9 && real(b, "mfu") < 0.9);
  }
  assert_true(json_is_null(json_object_get(row(warm, 3), "expected_error")));
  json_decref(warm);
  json_decref(cold);
}

/* Energy of a sample times samples is power times time; a chip at rest takes less than one at work. */
static void energy_adds_up(void **state) {
  static const char *const chips[] = {"h100", "tpuv6e", "trainium2"};
  struct pz_study_options q = question();
  json_t *root = compare(&q, "h100,tpuv6e,trainium2", true);
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    const json_t *x = row(root, i);
    struct pz_chip c;
    assert_int_equal(pz_chip_read(chips[i], &c, NULL), PZ_OK);
    assert_int_equal(pz_chip_make_cold(&c, NULL, NULL), PZ_OK);
    double joules = 16 * real(x, "joules_per_sample"), watts = real(x, "watts");
    assert_true(fabs(joules / (8 * real(x, "step_s") * watts) - 1) < 1e-9);
    assert_true(watts > pz_chip_taken(&c).static_watts * 0.99);
    if (i == 0) assert_true(real(x, "ratio") == 1);
  }
  json_decref(root);
}

/* No chip that nobody measured takes more than its watts; with fewer its step takes longer. */
static void power_stays_within_peak(void **state) {
  struct pz_study_options q = question();
  struct pz_error err = {0};
  struct pz_chip c;
  double before = 0;
  (void)state;
  q.models[0] = "gpt2-xl";
  q.batch = 32;
  q.workload.seq = 1024;
  assert_int_equal(pz_chip_read("mi300x", &c, &err), PZ_OK);
  for (c.watts = 900; c.watts >= 300; c.watts -= 200) {
    char path[] = "/tmp/chipXXXXXX";
    write_chip(&c, path);
    json_t *root = compare(&q, path, true);
    const json_t *x = row(root, 0);
    remove(path);
    assert_true(json_is_true(json_object_get(x, "fits")) && real(x, "watts") <= c.watts);
    assert_true(real(x, "step_s") > before);
    before = real(x, "step_s");
    json_decref(root);
  }
}

static bool stop_at_once(void *ctx, const struct pz_progress_state *p) {
  (void)ctx;
  (void)p;
  return false;
}

static void comparisons_are_refused(void **state) {
  struct pz_study_options q = question(), none = q;
  struct pz_run_options r = pz_run_options_default();
  struct pz_error err = {0};
  char *text = NULL;
  (void)state;
  none.n_models = 0;
  r.progress = stop_at_once;
  assert_int_equal(pz_chips_compare(NULL, "h100", false, NULL, &text, &err), PZ_BAD_USE);
  assert_int_equal(pz_chips_compare(&q, NULL, false, NULL, &text, &err), PZ_BAD_USE);
  assert_int_equal(pz_chips_compare(&q, "h100", false, NULL, NULL, &err), PZ_BAD_USE);
  assert_int_equal(pz_chips_compare(&none, "h100", false, NULL, &text, &err), PZ_BAD_USE);
  assert_int_equal(pz_chips_compare(&q, "h100,", false, NULL, &text, &err), PZ_BAD_USE);
  assert_int_equal(pz_chips_compare(&q, "tpuv4", false, NULL, &text, &err), PZ_BAD_USE);
  assert_int_equal(pz_chips_compare(&q, "h100,b200", false, &r, &text, &err), PZ_STOPPED);
  assert_null(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chips_say_how_they_are_known), cmocka_unit_test(h100_is_the_reference),
      cmocka_unit_test(energy_adds_up), cmocka_unit_test(power_stays_within_peak),
      cmocka_unit_test(comparisons_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
