/* Rehearsals: factors of compute are found again from ranks that ran alone, whatever the network is; results belong to one
 * plan; texts come through the script unchanged. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "launch/rehearsal.h"
#include "step/rank_alone.h"
#include "step_borders.h"
#include "unit/chip_borders.h"

struct question {
  struct pz_run_plan run;
  struct pz_chip chip;
  struct pz_network at;
  struct pz_diff_side side;
};

static void ask(struct question *q, const char *model, int64_t devices, int64_t tp, int64_t pp) {
  struct pz_error err = {0};
  q->run = pz_run_plan_default();
  q->run.model = model;
  q->run.plan.framework = pz_framework_find("torchtitan");
  q->run.plan.devices = devices;
  q->run.plan.tp = tp;
  q->run.plan.pp = pp;
  q->run.plan.batch = 2 * devices;
  assert_int_equal(pz_test_chip_read("h200", &q->chip, &err), PZ_OK);
  assert_int_equal(pz_network_find(&q->chip, NULL, devices, "devices", &q->at, &err), PZ_OK);
  q->side = (struct pz_diff_side){
      .size = sizeof q->side, .run = &q->run, .chip = &q->chip, .net = &q->at.cluster};
}

/* pz_text_free. */
static void script_of(const struct question *q, const char *launch, const char *const *set,
                      char **text) {
  struct pz_error err = {0};
  if (pz_rehearsal_script(&q->side, launch, set, text, &err) != PZ_OK) fail_msg("%s", err.message);
}

static void digest_of(const struct question *q, char digest[17]) {
  char *text = NULL;
  script_of(q, NULL, NULL, &text);
  bool found = sscanf(strstr(text, "REHEARSE_PLAN="), "REHEARSE_PLAN=%16[0-9a-f]", digest) == 1;
  pz_text_free(text);
  assert_true(found);
}

/* Results of the first and the last stage as a chip with this correction has them. */
static void results_of(const struct question *q, const struct pz_correction *c, char *out,
                       size_t size) {
  struct pz_error err = {0};
  struct pz_training_run *r = NULL;
  struct pz_chip chip = q->chip;
  struct pz_job job = {.model = q->run.model, .chip = &chip, .net = &q->at.cluster};
  char digest[17];
  digest_of(q, digest);
  chip.correction = *c;
  assert_int_equal(pz_training_predict(job.model, &chip, job.net, &q->run.plan, false, &r, &err),
                   PZ_OK);
  size_t n = (size_t)snprintf(out, size, PZ_REHEARSAL_COLUMNS "\n");
  for (int64_t stage = 0; stage<r->plan.pp; stage += r->plan.pp> 1 ? r->plan.pp - 1 : 1) {
    struct pz_rank_alone k;
    assert_int_equal(try_rank_alone(&job, &r->plan, stage, r->p.microbatches, &k, &err), PZ_OK);
    n += (size_t)snprintf(
        out + n, size - n, "%s,torchtitan,0,0,GPU,%lld,%lld,ok,%.9g,%.0f,%.0f,%.0f,1.5e11,%lld,,\n",
        digest, (long long)pz_rehearsal_rank(&r->plan, stage), (long long)stage, k.compute_s,
        k.peak_bytes, k.reserved_bytes, k.static_bytes, (long long)r->p.microbatches);
  }
  pz_training_run_free(r);
}

static void known_factors_are_found(void **state) {
  static const struct pz_correction known[] = {
      {.steps = 0}, {.gemms = 1.15}, {.gemms = 1.1, .attention = 1.2, .elementwise = 1.1}};
  struct pz_error err = {0};
  char text[4096];
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct question q;
    struct pz_rehearsal *r = NULL;
    ask(&q, i % 2 ? "llama3-8b" : "llama3-70b", 64, 2, i == 1 ? 1 : 4);
    q.chip.correction.collectives = 1.25;
    results_of(&q, &known[i], text, sizeof text);
    if (pz_rehearsal_read(&q.side, "x", text, strlen(text), &r, &err) != PZ_OK)
      fail_msg("%s", err.message);
    assert_int_equal(r->n_ranks, i == 1 ? 1 : 2);
    assert_true(r->fits && r->complete && r->spare_bytes > 0 && r->chip && !r->n_notes);
    for (uint32_t k = 0; k < r->n_ranks; k++) {
      const struct pz_rehearsed_rank *rank = &r->ranks[k];
      double error = rank->corrected_s / rank->measured[PZ_REHEARSAL_COMPUTE] - 1;
      assert_true(fabs(error) < 0.02);
      for (int m = PZ_REHEARSAL_STATIC; m < PZ_REHEARSAL_MEASURES; m++)
        assert_true(fabs(rank->measured[m] / rank->predicted[m] - 1) < 1e-6);
      assert_true(fabs(rank->needed_bytes / rank->measured[PZ_REHEARSAL_RESERVED] - 1) < 1e-6);
    }
    assert_true(r->chip->correction.collectives == 1.25); /* of which a rank alone says nothing */
    if (i == 0) assert_true(fabs(r->corrected.step_s / r->p.step_s - 1) < 1e-3);
    if (i > 0) assert_true(r->corrected.step_s > 1.02 * r->p.step_s);
    pz_rehearsal_free(r);
  }
}

/* Another number of devices, or another division, is another plan; the chip and the network are not part of it. */
static void results_belong_to_a_plan(void **state) {
  char a[17], b[17];
  struct question q;
  (void)state;
  ask(&q, "llama3-8b", 64, 2, 2);
  digest_of(&q, a);
  q.run.plan.tp = 4;
  digest_of(&q, b);
  assert_string_not_equal(a, b);
  q.run.plan.tp = 2;
  assert_int_equal(pz_test_chip_read("h100", &q.chip, &(struct pz_error){0}), PZ_OK);
  digest_of(&q, b);
  assert_string_equal(a, b);
}

static void texts_come_through(void **state) {
  static const char launch[] = "#!/bin/bash\necho '$HOME' \"$(id)\"\nEND_OF_FILE\nEND_OF_FILE_2\n"
                               "exec torchrun --nnodes 1 x.py";
  const char *const set[] = {"NAME=it's $(id)", NULL}, *const bad[] = {"a b=3", NULL};
  struct question q;
  struct pz_error err = {0};
  char *text = NULL, *none = NULL;
  (void)state;
  ask(&q, "llama3-8b", 64, 2, 2);
  script_of(&q, launch, set, &text);
  assert_non_null(strstr(text,
                         "<<'END_OF_FILE_3'\n#!/bin/bash\necho '$HOME' \"$(id)\"\nEND_OF_FILE\n"
                         "END_OF_FILE_2\nexec torchrun --nnodes 1 x.py\nEND_OF_FILE_3\n"));
  assert_non_null(strstr(text, "export NAME='it'\\''s $(id)'\n"));
  assert_non_null(strstr(text, "\nrehearse 0 0\nrehearse 32 1\n"));
  pz_text_free(text);
  assert_int_equal(pz_rehearsal_script(&q.side, launch, bad, &none, &err), PZ_BAD_USE);
  q.run.plan.framework = pz_framework_find("nemo");
  assert_int_equal(pz_rehearsal_script(&q.side, NULL, NULL, &none, &err), PZ_BAD_USE);
  assert_null(none);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_factors_are_found),
                                     cmocka_unit_test(results_belong_to_a_plan),
                                     cmocka_unit_test(texts_come_through)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
