/* The pipeline: against closed forms, a second simulation by time, and its bound. */
#include "unit/testing.h"

#include <math.h>

#include "plan/pipeline_order.h"
#include "step/pipeline.h"
#include "step_borders.h"

enum { MOST = 64 };

static uint64_t seed = 11;
static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

static double end_of(const struct pz_pipeline *p) {
  struct pz_arena arena;
  struct pz_pipeline_run run;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  if (try_simulate_pipeline(p, false, &arena, &run, &err) != PZ_OK) fail_msg("%s", err.message);
  pz_arena_release(&arena);
  return run.end_s;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

/* Equal stages: (M + p - 1)(F + B), interleaved with v chunks M (F + B) + (p - 1)(F + B) / v. */
static void equal_stages_have_a_closed_form(void **state) {
  (void)state;
  double f[MOST], b[MOST];
  for (uint32_t stages = 1; stages <= 8; stages++)
    for (uint32_t chunks = 1; chunks <= 4; chunks++)
      for (uint32_t rounds = 1; rounds <= 4; rounds++) {
        struct pz_pipeline p = {.stages = stages,
                                .chunks = chunks,
                                .microbatches = rounds * stages,
                                .order = chunks > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B,
                                .forward_s = f,
                                .backward_s = b};
        for (uint32_t i = 0; i < stages * chunks; i++) f[i] = 1.0 / chunks, b[i] = 2.0 / chunks;
        double want = 3.0 * p.microbatches + 3.0 * (stages - 1) / chunks;
        if (!near(end_of(&p), want))
          fail_msg("%u stages, %u chunks, %u microbatches: %g, want %g", stages, chunks,
                   p.microbatches, end_of(&p), want);
        if (chunks > 1) continue;
        p.order = PZ_PIPELINE_GPIPE;
        assert_true(near(end_of(&p), want));
      }
}

/* Of random plans: never below the bound, never above everything in a row; every event has its input,
 * and no stage does two things at once. */
static void check_events(const struct pz_pipeline *p, const struct pz_pipeline_run *run) {
  uint32_t per_stage = run->n_events / p->stages;
  assert_int_equal(run->n_events, 2 * p->stages * p->chunks * p->microbatches);
  double *end = calloc(run->n_events, sizeof *end); /* by backward, chunk, stage, microbatch */
  assert_non_null(end);
#define AT(back, chunk, stage, mb)                                                                 \
  ((((back) ? 1u : 0u) * p->chunks + (chunk)) * p->stages + (stage)) * p->microbatches + (mb)
  for (uint32_t i = 0; i < run->n_events; i++) {
    const struct pz_pipeline_event *e = &run->events[i];
    end[AT(e->backward, e->chunk, e->stage, e->microbatch)] = e->end_s;
  }
  for (uint32_t i = 0; i < run->n_events; i++) {
    const struct pz_pipeline_event *e = &run->events[i];
    double slack = 1e-9;
    for (uint32_t j = 0; j < run->n_events; j++) {
      const struct pz_pipeline_event *o = &run->events[j];
      if (i != j && o->stage == e->stage)
        assert_true(o->end_s <= e->start_s + slack || o->start_s + slack >= e->end_s);
    }
    if (!e->backward && e->stage > 0)
      assert_true(e->start_s + slack >=
                  end[AT(false, e->chunk, e->stage - 1, e->microbatch)] + p->transfer_s);
    if (e->backward)
      assert_true(e->start_s + slack >= end[AT(false, e->chunk, e->stage, e->microbatch)]);
    if (e->backward && e->stage + 1 < p->stages)
      assert_true(e->start_s + slack >=
                  end[AT(true, e->chunk, e->stage + 1, e->microbatch)] + p->transfer_s);
  }
  (void)per_stage;
  free(end);
}

static void random_plans_keep_their_order(void **state) {
  (void)state;
  double f[MOST], b[MOST];
  for (int round = 0; round < 400; round++) {
    uint32_t stages = 1 + draw(5), chunks = draw(2) ? 1 : 2 + draw(2);
    struct pz_pipeline p = {.stages = stages,
                            .chunks = chunks,
                            .microbatches = chunks > 1 ? stages * (1 + draw(3)) : 1 + draw(9),
                            .order = chunks > 1 ? PZ_PIPELINE_INTERLEAVED
                                                : (draw(3) ? PZ_PIPELINE_1F1B : PZ_PIPELINE_GPIPE),
                            .forward_s = f,
                            .backward_s = b,
                            .transfer_s = draw(3) ? 0 : draw(10) / 10.0};
    double all = 0;
    for (uint32_t i = 0; i < stages * chunks; i++) {
      f[i] = 1 + draw(20);
      b[i] = 1 + draw(40);
      all += (f[i] + b[i] + 2 * p.transfer_s) * p.microbatches;
    }
    struct pz_arena arena;
    struct pz_pipeline_run run;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    assert_int_equal(try_simulate_pipeline(&p, true, &arena, &run, &err), PZ_OK);
    check_events(&p, &run);
    assert_true(run.end_s >= pz_pipeline_bound_s(&p) - 1e-9 && run.end_s <= all + 1e-9);
    pz_arena_release(&arena);
  }
}

/* The bound: never above the simulation of 2,000 plans, and with even stages close to it. */
static void the_bound_is_one_and_close(void **state) {
  (void)state;
  double f[MOST], b[MOST], sum = 0;
  int even = 0;
  for (int round = 0; round < 2000; round++) {
    uint32_t stages = 1 + draw(16);
    bool equal = draw(2);
    struct pz_pipeline p = {.stages = stages,
                            .chunks = 1,
                            .microbatches = 1 + draw(64),
                            .order = PZ_PIPELINE_1F1B,
                            .forward_s = f,
                            .backward_s = b};
    for (uint32_t i = 0; i < stages; i++) {
      f[i] = equal ? 10 : 5 + draw(10);
      b[i] = equal ? 20 : 10 + draw(20);
    }
    b[stages - 1] += equal ? 2 : 0; /* the head */
    double end = end_of(&p), bound = pz_pipeline_bound_s(&p);
    if (bound > end * (1 + 1e-12)) fail_msg("a bound of %g above %g", bound, end);
    if (equal) sum += 1 - bound / end, even++;
  }
  print_message("  even stages: %.2f%% below the simulation on average\n", 100 * sum / even);
  assert_true(sum / even < 0.03);
}

static void wrong_use_is_told(void **state) {
  (void)state;
  static const struct {
    struct pz_pipeline p;
    const char *message;
  } bad[] = {
      {{.stages = 0, .chunks = 1, .microbatches = 1}, "0 stages"},
      {{.stages = 2, .chunks = 2, .microbatches = 2}, "accepted: 1, or interleaved"},
      {{.stages = 3, .chunks = 2, .microbatches = 4, .order = PZ_PIPELINE_INTERLEAVED},
       "multiples of the stages"},
      {{.stages = 4096, .chunks = 1, .microbatches = 4096}, "events"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_error err = {0};
    struct pz_pipeline_run run;
    assert_int_not_equal(try_simulate_pipeline(&bad[i].p, false, NULL, &run, &err), PZ_OK);
    if (!strstr(err.message, bad[i].message)) fail_msg("%s", err.message);
  }
}

/* With even stages and gradients of weights as long as those of inputs: what the paper states, and no pass before what
 * it needs. */
static void zero_bubble_as_published(void **state) {
  (void)state;
  for (uint32_t stages = 2; stages <= 16; stages *= 2)
    for (int h2 = 0; h2 <= 1; h2++) {
      enum { WIDEST = 16, M = 64 };
      double f[WIDEST], b[WIDEST], w[WIDEST];
      for (int k = 0; k < WIDEST; k++) f[k] = 1, b[k] = 2, w[k] = 1;
      struct pz_pipeline p = {.stages = stages,
                              .chunks = 1,
                              .microbatches = M,
                              .order = h2 ? PZ_PIPELINE_ZB_2P : PZ_PIPELINE_ZB_H1,
                              .forward_s = f,
                              .backward_s = b,
                              .weight_s = w};
      struct pz_pipeline_run run;
      struct pz_error err = {0};
      struct pz_arena arena;
      pz_arena_init(&arena);
      assert_int_equal(try_simulate_pipeline(&p, true, &arena, &run, &err), PZ_OK);
      /* ZB-2P has no bubble: the last stage begins when the first microbatch has come to it */
      assert_true(near(run.end_s, 3.0 * M + (stages - 1)));
      assert_true(run.end_s >= pz_pipeline_bound_s(&p) - 1e-9);
      assert_int_equal(run.n_events, 3 * stages * M);
      pz_arena_release(&arena);
    }
}

/* A pass, or the transfer, that takes less never makes the end later, in any order: of zero bubble too, where a stage that
 * took what is ready first would lose by it. */
static void faster_passes_end_no_later(void **state) {
  (void)state;
  double f[MOST], b[MOST], w[MOST];
  int wrong = 0, n = pz_test_part(4000);
  for (int round = 0; round < n; round++) {
    enum pz_pipeline_order order = (enum pz_pipeline_order)draw(PZ_PIPELINES);
    uint32_t stages = order == PZ_PIPELINE_DUALPIPE ? 2 * (1 + draw(3)) : 1 + draw(6);
    uint32_t chunks = pz_pipeline_chunks(order) ? pz_pipeline_chunks(order) : 2 + draw(2);
    bool groups = order == PZ_PIPELINE_INTERLEAVED;
    bool dual = order == PZ_PIPELINE_DUALPIPE || order == PZ_PIPELINE_DUALPIPE_V;
    struct pz_pipeline p = {.stages = stages,
                            .chunks = chunks,
                            .microbatches =
                                groups || dual ? stages * 2 * (1 + draw(3)) : 1 + draw(16),
                            .order = order,
                            .forward_s = f,
                            .backward_s = b,
                            .weight_s = w,
                            .transfer_s = draw(10) / 10.0};
    for (uint32_t i = 0; i < stages * chunks; i++) {
      f[i] = 1 + draw(1000) / 500.0;
      w[i] = draw(1000) / 500.0;
      b[i] = w[i] + 0.5 + draw(1000) / 500.0;
    }
    double before = end_of(&p);
    uint32_t i = draw(stages * chunks), which = draw(4);
    double less = draw(1000) / 1000.0;
    if (which == 0) f[i] *= less;
    if (which == 1) b[i] -= less * w[i], w[i] -= less * w[i];
    if (which == 2) b[i] = w[i] + less * (b[i] - w[i]);
    if (which == 3) p.transfer_s *= less;
    double after = end_of(&p);
    if (after <= before * (1 + 1e-12)) continue;
    print_message("order %d, %u stages, %u microbatches: %.9g, before %.9g\n", (int)order, stages,
                  p.microbatches, after, before);
    wrong++;
  }
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zero_bubble_as_published),
      cmocka_unit_test(equal_stages_have_a_closed_form),
      cmocka_unit_test(random_plans_keep_their_order),
      cmocka_unit_test(the_bound_is_one_and_close),
      cmocka_unit_test(faster_passes_end_no_later),
      cmocka_unit_test(wrong_use_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
