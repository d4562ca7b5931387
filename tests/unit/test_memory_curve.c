/* Memory over a step: every curve begins and ends without activations, and its highest point is below the predicted peak
 * of its stage by at most what comes and goes within a pass. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/num.h"
#include "step/memory_curve.h"
#include "step/training_memory.h"
#include "step_borders.h"
#include "unit/chip_borders.h"

struct job {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_training_run *run;
  struct pz_memory_curve *curves;
  struct pz_arena arena;
};

/* False: no such plan. */
static bool begin(struct job *x, const char *model, const struct pz_plan *o) {
  struct pz_error err = {0};
  *x = (struct job){.run = NULL};
  pz_arena_init(&x->arena);
  assert_int_equal(pz_test_chip_read("h100", &x->chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &x->net, &err), PZ_OK);
  if (pz_training_predict(model, &x->chip, &x->net, o, true, &x->run, &err) != PZ_OK) return false;
  struct pz_memory_question q = {model, &x->chip, &x->net, x->run};
  if (try_memory_curves(&q, &x->arena, &x->curves, &err) != PZ_OK) fail_msg("%s", err.message);
  return true;
}

static void end(struct job *x) {
  pz_training_run_free(x->run);
  pz_arena_release(&x->arena);
}

static struct pz_plan options_of(const char *framework, int64_t tp, int64_t pp, int64_t vpp,
                                 int64_t batch) {
  struct pz_plan o = pz_plan_default();
  o.framework = pz_framework_find(framework);
  o.tp = tp;
  o.pp = pp;
  o.vpp = vpp;
  o.dp = 1;
  o.batch = batch;
  return o;
}

/* ---- any plan ------------------------------------------------------------------------------- */

static bool within_peak(const struct job *x, int64_t k) {
  const struct pz_memory_curve *c = &x->curves[k];
  const struct pz_training_memory *m = &x->run->stages[k];
  double peak = pz_training_memory_sum(m), most = c->constant_bytes + c->most_bytes;
  double rounding = 1e-9 * peak;
  if (most <= peak + rounding && peak - most <= pz_working_bytes(m) + rounding) return true;
  print_message("stage %lld: at most %.9g, predicted %.9g, of it %.9g within a pass\n",
                (long long)k, most, peak, pz_working_bytes(m));
  return false;
}

static void passes_are_whole(const struct job *x, int64_t k) {
  const struct pz_memory_curve *c = &x->curves[k];
  double before = 0, most = 0;
  for (uint32_t i = 0; i < c->n; i++) {
    const struct pz_stage_pass *p = &c->passes[i];
    assert_int_equal(p->event->stage, k);
    assert_true(i == 0 || p->event->start_s >= c->passes[i - 1].event->end_s);
    assert_true(p->weights ? p->activation_bytes == before
                           : p->event->backward == (p->activation_bytes < before));
    before = p->activation_bytes;
    most = fmax(most, before);
  }
  assert_true(fabs(before) <= 1e-9 * most);
  assert_true(most == c->most_bytes);
}

static struct pz_plan random_options(uint64_t *r) {
  static const char *const frameworks[] = {"megatron", "torchtitan", "nemo", "torch"};
  int64_t pp = 1 << pz_random_below(r, 4), vpp = pp > 1 ? 1 + pz_random_below(r, 3) : 1;
  struct pz_plan o =
      options_of(frameworks[pz_random_below(r, 4)], 1 << pz_random_below(r, 3), pp, vpp, 0);
  static const int orders[] = {PZ_PIPELINE_1F1B, PZ_PIPELINE_GPIPE, PZ_PIPELINE_ZB_H1,
                               PZ_PIPELINE_ZB_2P};
  o.mbs = 1 + pz_random_below(r, 2);
  o.dp = 1 + pz_random_below(r, 2);
  o.batch = o.mbs * o.dp * pp * (1 + pz_random_below(r, 4));
  if (vpp == 1 && pp > 1) o.pipeline = orders[pz_random_below(r, 4)];
  o.recompute = (int)pz_random_below(r, PZ_RECOMPUTATIONS);
  o.zero = (int)pz_random_below(r, 3);
  if (o.recompute == PZ_RECOMPUTATION_FULL) o.recompute_layers = pz_random_below(r, 3);
  return o;
}

static void curves_stay_below_peaks(void **state) {
  (void)state;
  static const char *const models[] = {"gpt2", "llama2-7b", "gpt2-xl"};
  uint64_t r = 5;
  int plans = 0, wrong = 0, stages = 0;
  for (int i = 0; i < pz_test_part(300); i++) {
    struct pz_plan o = random_options(&r);
    const char *model = models[pz_random_below(&r, 3)];
    struct job x;
    if (begin(&x, model, &o)) {
      plans++;
      for (int64_t k = 0; k < o.pp; k++) {
        stages++;
        passes_are_whole(&x, k);
        if (within_peak(&x, k)) continue;
        print_message("  %s, %s, tp %lld, pp %lld x %lld, batch %lld\n", model,
                      pz_framework_names[o.framework], (long long)o.tp, (long long)o.pp,
                      (long long)o.vpp, (long long)o.batch);
        wrong++;
      }
    }
    end(&x);
  }
  print_message("  %d plans, %d stages\n", plans, stages);
  assert_true(plans > pz_test_part(100));
  assert_int_equal(wrong, 0);
}

/* ---- known numbers -------------------------------------------------------------------------- */

/* 1F1B: as many microbatches as there are stages behind, and this one; what each keeps is the same in the stages between
 * the first and the last. */
static void stages_hold_what_1f1b_says(void **state) {
  (void)state;
  struct pz_plan o = options_of("megatron", 1, 8, 1, 32);
  struct job x;
  assert_true(begin(&x, "llama2-7b", &o));
  double one = x.curves[6].most_bytes / 2;
  assert_true(one > 0);
  for (int64_t k = 1; k < 7; k++)
    assert_true(fabs(x.curves[k].most_bytes - (double)(8 - k) * one) <= 1e-9 * 8 * one);
  for (int64_t k = 0; k < 8; k++) assert_int_equal(x.curves[k].n, 64);
  end(&x);
}

/* GPipe holds all. */
static void gpipe_holds_all(void **state) {
  (void)state;
  struct pz_plan o = options_of("megatron", 1, 4, 1, 16);
  struct job all, some;
  assert_true(begin(&some, "llama2-7b", &o));
  o.pipeline = PZ_PIPELINE_GPIPE;
  assert_true(begin(&all, "llama2-7b", &o));
  for (int64_t k = 0; k < 4; k++)
    assert_true(fabs(all.curves[k].most_bytes / 16 - some.curves[k].most_bytes / (double)(4 - k)) <=
                1e-6 * some.curves[k].most_bytes);
  end(&all);
  end(&some);
}

static void gradients_of_weights_are_told_apart(void **state) {
  (void)state;
  struct pz_plan o = options_of("megatron", 1, 4, 1, 16);
  struct job x;
  o.pipeline = PZ_PIPELINE_ZB_H1;
  assert_true(begin(&x, "llama2-7b", &o));
  for (int64_t k = 0; k < 4; k++) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < x.curves[k].n; i++) n += x.curves[k].passes[i].weights;
    assert_int_equal(n, 16);
    assert_int_equal(x.curves[k].n, 48);
  }
  end(&x);
}

static void a_run_without_events_is_refused(void **state) {
  (void)state;
  struct pz_training_run run = {.n_events = 0};
  struct pz_memory_question q = {.run = &run};
  struct pz_error err = {0};
  assert_int_equal(try_memory_curves(&q, NULL, NULL, &err), PZ_BAD_USE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(curves_stay_below_peaks),
      cmocka_unit_test(stages_hold_what_1f1b_says),
      cmocka_unit_test(gpipe_holds_all),
      cmocka_unit_test(gradients_of_weights_are_told_apart),
      cmocka_unit_test(a_run_without_events_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
