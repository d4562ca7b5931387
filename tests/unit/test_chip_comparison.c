/* Chips beside each other: the H100 of a comparison is the reference of a search; energy adds up; power stays within the
 * peak; and what no comparison can be made of is refused. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/json.h"
#include "space/limits.h"
#include "testing.h"
#include "unit/chip_borders.h"
#include "unit/core_borders.h"
#include "unit/study_borders.h"

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
  assert_int_equal(pz_test_chip_read("h100", &h100, &err), PZ_OK);
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
  assert_int_equal(pz_test_chip_read("h100", &own, NULL), PZ_OK);
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
    assert_int_equal(pz_test_chip_read(chips[i], &c, NULL), PZ_OK);
    assert_int_equal(pz_test_chip_make_cold(&c, NULL, NULL), PZ_OK);
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
  assert_int_equal(pz_test_chip_read("mi300x", &c, &err), PZ_OK);
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

/* ---- rented chips --------------------------------------------------------------------------- */

/* The rows of a comparison for rent, to be released. */
static json_t *rent(const struct pz_study_options *o, const char *chips,
                    const struct pz_rent_options *r) {
  struct pz_error err = {0};
  char *text = NULL;
  json_t *root = NULL;
  if (pz_chips_rent(o, chips, false, r, NULL, &text, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_int_equal(pz_json_parse("comparison", text, strlen(text), &root, &err), PZ_OK);
  pz_text_free(text);
  return root;
}

/* Half of the price is half of the dollars, and changes nothing else; twice the tokens take twice as long; the range is the
 * error's; of each model one row is the cheapest. */
static void dollars_follow_prices(void **state) {
  struct pz_study_options q = question();
  struct pz_rent_options r = pz_rent_options_default(), half, more;
  (void)state;
  r.devices = (struct pz_choices){.v = {4, 8}, .n = 2};
  r.tokens = 1e9;
  r.price = 3;
  half = more = r;
  half.price = 1.5;
  more.tokens = 2e9;
  json_t *a = rent(&q, "h100,gaudi3", &r), *b = rent(&q, "h100,gaudi3", &half),
         *c = rent(&q, "h100,gaudi3", &more);
  assert_int_equal(json_array_size(json_object_get(a, "chips")), 4);
  int cheapest = 0;
  for (size_t i = 0; i < 4; i++) {
    const json_t *x = row(a, i), *y = row(b, i), *z = row(c, i);
    double dollars = real(x, "run_dollars"), error = real(x, "expected_error");
    assert_true(real(x, "devices") == (i % 2 ? 8 : 4));
    assert_true(real(y, "run_dollars") == dollars / 2 && real(y, "days") == real(x, "days"));
    assert_true(fabs(real(z, "days") / real(x, "days") - 2) < 1e-3);
    assert_true(fabs(dollars - 3 * 24 * real(x, "days") * real(x, "devices")) < 1e-9 * dollars);
    assert_true(fabs(real(x, "run_dollars_high") / dollars - 1 - error) < 1e-12);
    assert_true(fabs(real(x, "tokens_per_dollar") * dollars - 1e9) < 1);
    assert_null(json_object_get(x, "deadline"));
    cheapest += json_is_true(json_object_get(x, "cheapest"));
    for (size_t k = 0; k < 4 && json_is_true(json_object_get(x, "cheapest")); k++)
      assert_true(dollars <= real(row(a, k), "run_dollars"));
  }
  assert_int_equal(cheapest, 1);
  json_decref(a);
  json_decref(b);
  json_decref(c);
}

/* The deadline's devices: the fewest dollars of all numbers that end in time, as listing these finds them. */
static void deadlines_are_met_cheaply(void **state) {
  struct pz_study_options q = question();
  struct pz_rent_options r = pz_rent_options_default(), list;
  (void)state;
  q.models[0] = "gpt2-xl";
  q.devices = 64;
  q.batch = 64;
  q.workload.seq = 1024;
  r.tokens = 1e11;
  r.price = 2;
  list = r;
  list.devices = (struct pz_choices){.v = {1, 2, 4, 8, 16, 32, 64}, .n = 7};
  json_t *all = rent(&q, "h100", &list);
  for (size_t i = 2; i < 7; i++) {
    double least = HUGE_VAL;
    r.deadline_s = real(row(all, i), "days") * 86400 * 1.0001;
    for (size_t k = 0; k < 7; k++)
      if (json_is_true(json_object_get(row(all, k), "fits")) &&
          real(row(all, k), "days") * 86400 <= r.deadline_s)
        least = fmin(least, real(row(all, k), "run_dollars"));
    json_t *one = rent(&q, "h100", &r);
    const json_t *x = row(one, 0);
    assert_true(real(x, "days") * 86400 <= r.deadline_s);
    assert_true(real(x, "run_dollars") <= least * (1 + 1e-12));
    assert_string_not_equal(word(x, "deadline"), "missed");
    json_decref(one);
  }
  r.deadline_s = 60; /* nothing ends by then: the fastest */
  json_t *late = rent(&q, "h100", &r);
  assert_string_equal(word(row(late, 0), "deadline"), "missed");
  assert_true(real(row(late, 0), "days") <= real(row(all, 6), "days"));
  assert_true(json_is_false(json_object_get(row(late, 0), "cheapest")));
  json_decref(late);
  json_decref(all);
}

static void price_tables(void **state) {
  static const struct {
    const char *text, *message;
  } refused[] = {
      {"chip,dollars_per_device_hour\nh100,2\n", "prices: no price of gaudi3"},
      {"chip,dollars_per_device_hour,spot\nh100,2,1\n", "prices:1: unknown column 'spot'"},
      {"chip\nh100\n", "prices:1: no column 'dollars_per_device_hour'"},
      {"chip,dollars_per_device_hour\nh100,2\nmoon,1\n", "prices:3: unknown chip 'moon'"},
      {"chip,dollars_per_device_hour\nh100,2\nh100,1\n", "prices:3: a second price of h100"},
      {"chip,dollars_per_device_hour\nh100,nan\n", "prices:2: column"},
      {"chip,dollars_per_device_hour\nh100,0\n", "prices:2: no price of h100"}};
  struct pz_study_options q = question();
  struct pz_rent_options r = pz_rent_options_default();
  struct pz_error err = {0};
  char *text = NULL;
  (void)state;
  r.tokens = 1e9;
  r.prices_name = "prices";
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    err = (struct pz_error){0};
    r.prices = refused[i].text;
    assert_int_equal(pz_chips_rent(&q, "h100,gaudi3", false, &r, NULL, &text, &err), PZ_BAD_INPUT);
    assert_memory_equal(err.message, refused[i].message, strlen(refused[i].message));
  }
  r.prices = "source,chip,dollars_per_device_hour\nme,gaudi3,1\nme,h100,2\nme,b200,3\n";
  json_t *root = rent(&q, "h100,gaudi3", &r);
  assert_true(real(row(root, 0), "dollars_per_device_hour") == 2);
  assert_true(real(row(root, 1), "dollars_per_device_hour") == 1);
  json_decref(root);
  r.price = 1;
  assert_int_equal(pz_chips_rent(&q, "h100", false, &r, NULL, &text, &err), PZ_BAD_USE);
  r = pz_rent_options_default();
  assert_int_equal(pz_chips_rent(&q, "h100", false, &r, NULL, &text, &err),
                   PZ_BAD_USE); /* tokens */
  r.tokens = 1e9;
  r.deadline_s = -1;
  assert_int_equal(pz_chips_rent(&q, "h100", false, &r, NULL, &text, &err), PZ_BAD_USE);
  assert_null(text);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(chips_say_how_they_are_known),
                                     cmocka_unit_test(h100_is_the_reference),
                                     cmocka_unit_test(energy_adds_up),
                                     cmocka_unit_test(power_stays_within_peak),
                                     cmocka_unit_test(dollars_follow_prices),
                                     cmocka_unit_test(deadlines_are_met_cheaply),
                                     cmocka_unit_test(price_tables),
                                     cmocka_unit_test(comparisons_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
