/* A result survives being written and read: run files and pages show what the search found.  And
 * what is not such a result is refused. */
#include "unit/testing.h"

#include <math.h>
#include <string.h>

#include "core/record.h"
#include "study/compare.h"
#include "study/detail.h"
#include "study/result_json.h"
#include "study/result_make.h"
#include "unit/studying.h"

static char *text_of(json_t *json) {
  assert_non_null(json);
  char *text = json_dumps(json, JSON_COMPACT);
  assert_non_null(text);
  json_decref(json);
  return text;
}

static json_t *parsed(const char *text) {
  json_t *json = json_loads(text, 0, NULL);
  assert_non_null(json);
  return json;
}

/* Of one model, and of two with a front; each test reads them. */
static struct pz_result results[2];
static struct pz_arena arenas[2];

static void make(struct pz_result *r, uint32_t n_models, bool pareto) {
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_watch watch = {NULL, NULL};
  o.n_models = n_models;
  o.pareto = pareto;
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  pz_arena_init(&arenas[n_models - 1]);
  pz_result_init(r, &arenas[n_models - 1]);
  assert_int_equal(pz_result_make(r, &s, watch, &err), PZ_OK);
  assert_int_equal(pz_detail_make(&s, watch, r, &err), PZ_OK);
  assert_int_equal(pz_compare(&s, 3, watch, r, &err), PZ_OK);
  pz_study_release(&s); /* the result owns all that it has */
}

static int make_results(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 2; n++) make(&results[n - 1], n, n == 2);
  return 0;
}

static int release_results(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) pz_arena_release(&arenas[i]);
  return 0;
}

static void reads_back(const struct pz_result *r) {
  struct pz_result back;
  struct pz_arena arena;
  struct pz_error err = {0};
  char *text[3] = {text_of(pz_result_json(r)), text_of(pz_comparison_json(r)),
                   text_of(pz_detail_json(r))};
  json_t *json[3] = {parsed(text[0]), parsed(text[1]), parsed(text[2])};
  pz_arena_init(&arena);
  pz_result_init(&back, &arena);
  assert_int_equal(pz_result_read(json[0], &back, &err), PZ_OK);
  assert_int_equal(pz_comparison_read(json[1], &back, &err), PZ_OK);
  assert_int_equal(pz_detail_read(json[2], &back, &err), PZ_OK);
  char *again[3] = {text_of(pz_result_json(&back)), text_of(pz_comparison_json(&back)),
                    text_of(pz_detail_json(&back))};
  for (int i = 0; i < 3; i++) {
    assert_string_equal(text[i], again[i]);
    free(text[i]);
    free(again[i]);
    json_decref(json[i]);
  }
  assert_string_equal(pz_chip_name(pz_result_best(&back)->chip),
                      pz_chip_name(pz_result_best(r)->chip));
  assert_int_equal(back.comparison->seed, 3);
  pz_arena_release(&arena);
}

static void round_trip(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 2; n++) {
    const struct pz_result *r = &results[n - 1];
    assert_int_equal(r->n_answers, n == 1 ? 1 : 3);
    assert_true(r->detail->n_plans > 0 && r->detail->n_schedules > 0 && r->detail->n_shown > 0);
    assert_true((n == 2) == (r->front != NULL));
    reads_back(r);
  }
}

/* By training plans: the answers have them, and energy; no comparison. */
static void training_results_read_back(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_result r, back;
  struct pz_arena arena;
  struct pz_error err = {0};
  struct pz_study_options o = training_study();
  struct pz_watch watch = {NULL, NULL};
  o.pareto = true;
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  pz_arena_init(&arena);
  pz_result_init(&r, &arena);
  pz_result_init(&back, &arena);
  assert_int_equal(pz_result_make(&r, &s, watch, &err), PZ_OK);
  char *text = text_of(pz_result_json(&r));
  json_t *json = parsed(text);
  assert_int_equal(pz_result_read(json, &back, &err), PZ_OK);
  char *again = text_of(pz_result_json(&back));
  assert_string_equal(text, again);
  for (uint32_t i = 0; i < back.n_answers; i++)
    for (uint32_t m = 0; m < back.answers[i].n_models; m++) {
      const struct pz_training_answer *t = back.answers[i].models[m].training;
      assert_true(t && !back.answers[i].models[m].plan && t->step_s > 0 && t->joules > 0);
      assert_true(t->peak_bytes <= t->usable_bytes && t->mfu > 0 && t->mfu < 1);
    }
  assert_true(back.front && back.n_answers == 3 && back.n_sensitivity > 0);
  const struct pz_uncertainty *u = &back.answers[2].uncertainty;
  double value = back.answers[2].objective;
  assert_true(u->spread == pz_cold_spread() && u->low < value && value < u->high);
  assert_true(fabs(u->low * u->high / (value * value) - 1) < 1e-12);
  assert_true(back.robustness && back.robustness->n_moves > 8);
  bool better = false;
  for (uint32_t i = 0; i < back.robustness->n_moves; i++) {
    assert_true(back.robustness->moves[i].objective > 0);
    better |= back.robustness->moves[i].better != NULL;
  }
  assert_int_equal(back.robustness->robust, !better);
  assert_null(back.executions); /* nothing is scheduled */
  free(text);
  free(again);
  json_decref(json);
  pz_study_release(&s);
  pz_arena_release(&arena);
}

/* Conservation: parts of a step sum up to it, a stage's bytes to its memory, infeasible, excluded and
 * evaluated chips to the space, and every status is counted once. */
static void sums_hold(void **state) {
  (void)state;
  struct pz_result r = results[1];
  for (uint32_t i = 0; i < r.n_answers; i++) {
    const struct pz_answer *a = &r.answers[i];
    const struct pz_certificate *c = &a->certificate;
    int64_t n[PZ_CHIP_STATUSES] = {0};
    for (uint32_t p = 0; p < r.n_chips; p++) n[a->status[p].kind]++;
    assert_int_equal(n[PZ_CHIP_EVALUATED], c->n_evaluated);
    assert_int_equal(n[PZ_CHIP_EXCLUDED_BY_SCHEDULES], c->n_excluded_by_schedules);
    assert_int_equal(c->n_infeasible + c->n_excluded + c->n_excluded_by_schedules + c->n_evaluated,
                     c->n_chips);
    assert_true(r.n_chips <= c->n_chips - c->n_infeasible && c->finished);
    for (uint32_t m = 0; m < a->n_models; m++) {
      const struct pz_partition *p = a->models[m].plan;
      double sum = p->parts.compute_s + p->parts.collectives_s + p->parts.transfers_s +
                   p->parts.bubble_s + p->parts.exchange_s;
      assert_true(sum > p->step_s * (1 - 1e-9) && sum < p->step_s * (1 + 1e-9));
      for (uint32_t k = 0; k < p->pp; k++) {
        const struct pz_partition_stage *s = &p->stages[k];
        double bytes =
            s->param_bytes + s->optimizer_bytes + s->activation_bytes + s->in_flight_bytes;
        assert_true(bytes > s->memory_bytes * (1 - 1e-9) && bytes < s->memory_bytes * (1 + 1e-9));
      }
    }
  }
}

/* Every value of a result replaced by another, one at a time: an error with a message, or a result
 * that is written as it was read. */
static int mutate(json_t *root, json_t *at, int *refused) {
  int n = 0;
  const char *key;
  json_t *v;
  void *tmp;
  json_object_foreach_safe(at, tmp, key, v) {
    if (json_is_object(v)) {
      n += mutate(root, v, refused);
      continue;
    }
    struct pz_result r;
    struct pz_arena arena;
    struct pz_error err = {0};
    json_t *was = json_incref(v);
    json_object_set_new(at, key, json_is_string(v) ? json_integer(7) : json_string("x"));
    pz_arena_init(&arena);
    pz_result_init(&r, &arena);
    enum pz_status status = pz_result_read(root, &r, &err);
    if (status != PZ_OK) {
      assert_true(status == PZ_BAD_INPUT && err.message[0]);
      ++*refused;
    }
    pz_arena_release(&arena);
    json_object_set_new(at, key, was);
    n++;
  }
  return n;
}

static void changed_results_are_refused(void **state) {
  (void)state;
  struct pz_error err = {0};
  int refused = 0;
  json_t *json = pz_result_json(&results[0]);
  int n = mutate(json, json, &refused);
  print_message("  %d of %d changed values refused\n", refused, n);
  assert_true(n > 50 && refused > n / 2);
  json_object_set_new(json_object_get(json, "best"), "chop", json_integer(1));
  struct pz_result back;
  struct pz_arena arena;
  pz_arena_init(&arena);
  pz_result_init(&back, &arena);
  assert_int_equal(pz_result_read(json, &back, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "unknown key 'chop'"));
  pz_arena_release(&arena);
  json_decref(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(training_results_read_back),
      cmocka_unit_test(sums_hold),
      cmocka_unit_test(changed_results_are_refused),
  };
  return cmocka_run_group_tests(tests, make_results, release_results);
}
