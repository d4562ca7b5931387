/* Small studies for tests, and rounds that are kept in memory. */
#ifndef PZ_TESTS_STUDYING_H
#define PZ_TESTS_STUDYING_H

#include "core/alloc.h"
#include "study/study.h"
#include "unit/study_borders.h"
#include "unit/testing.h"

/* All objective runs; the study is the caller's to release if that goes well. */
static inline enum pz_status run_study(struct pz_study *s, const struct pz_study_options *o,
                                       unsigned threads, const struct pz_study_watch *watch,
                                       struct pz_error *err) {
  static const struct pz_study_watch none;
  enum pz_status status = pz_study_init(s, o, threads, err);
  if (status != PZ_OK) return status;
  status = pz_study_prepare(s, watch ? watch : &none, err);
  for (uint32_t i = 0; i < s->n_runs && status == PZ_OK; i++) status = pz_study_run(s, i, err);
  if (status != PZ_OK) pz_study_release(s);
  return status;
}

/* Two small models on the smaller chips of the paper's space. */
static inline struct pz_study_options paper_study(void) {
  struct pz_study_options o = pz_study_options_default();
  o.models[0] = "bert-base";
  o.models[1] = "gpt2";
  o.n_models = 2;
  o.mbs = (struct pz_choices){{1, 4}, 2};
  o.tp = (struct pz_choices){{1}, 1};
  o.workload.seq = 256;
  o.steps = pz_test_is_short() ? 50 : 300;
  o.budget = "6";
  return o;
}

/* Two small models by training plans, on some hundred chips of 5 nm. */
static inline struct pz_study_options training_study(void) {
  static const char space[] =
      "{\"name\":\"few\",\"nodes\":[\"5nm\"],\"arrays\":[\"16x16\",\"32x32\"],\"hbm\":[\"hbm3\"],"
      "\"axes\":{\"tensor_cores\":[2,4,8],\"local_kib\":[64,128],\"vector_cores\":[2,4,8],"
      "\"lanes\":[16,32],\"glb_mib\":[2,4],\"glb_bytes_per_cycle\":[256],\"clock_mhz\":[800,"
      "1600],\"hbm_stacks\":[1,2],\"link_gb_per_s\":[20,80]}}";
  static const char fewer[] =
      "{\"name\":\"few\",\"nodes\":[\"5nm\"],\"arrays\":[\"16x16\",\"32x32\"],\"hbm\":[\"hbm3\"],"
      "\"axes\":{\"tensor_cores\":[4,8],\"local_kib\":[64],\"vector_cores\":[4,8],"
      "\"lanes\":[32],\"glb_mib\":[2,4],\"glb_bytes_per_cycle\":[256],\"clock_mhz\":[800,"
      "1600],\"hbm_stacks\":[1,2],\"link_gb_per_s\":[20,80]}}";
  struct pz_study_options o = pz_study_options_default();
  o.models[0] = "gpt2";
  o.models[1] = "bert-base@32x8";
  o.n_models = 2;
  o.each_model = true;
  o.gap = 0;
  o.space_text = pz_test_is_short() ? fewer : space;
  o.devices = 4;
  o.batch = 4;
  o.scale_up = 2;
  o.outer_bytes_per_s = 2e9;
  o.workload.seq = 64;
  o.limit_mm2 = 80;
  o.limit_watts = 125;
  o.serial =
      true; /* schedules take their time: test_evaluate and training_is_brute_force have them */
  return o;
}

/* A space of chips of 5 nm with some values of every axis, at most so many on each (of 8). */
static inline struct pz_space random_space(uint64_t *seed, int most_kinds, const int *most) {
  static const int32_t values[PZ_AXES][8] = {{1, 2, 3, 4, 6, 8, 12, 16},
                                             {32, 48, 64, 96, 128, 192, 256, 512},
                                             {1, 2, 3, 4, 6, 8, 12, 16},
                                             {8, 16, 24, 32, 48, 64, 96, 128},
                                             {1, 2, 3, 4, 6, 8, 12, 16},
                                             {64, 128, 192, 256, 384, 512, 768, 1024},
                                             {400, 500, 600, 800, 1000, 1200, 1500, 1800},
                                             {1, 2, 3, 4, 5, 6, 7, 8},
                                             {5, 10, 20, 30, 50, 80, 120, 200}};
  static const struct pz_array_shape arrays[] = {{8, 8},   {16, 16}, {16, 8},
                                                 {32, 32}, {24, 24}, {64, 32}};
  struct pz_space s = {.name = "random", .n_nodes = 1, .node = {PZ_TECH_5NM}, .compiled = true};
  uint32_t first = pz_random_below(seed, 6);
  s.n_arrays = 1 + (int)pz_random_below(seed, (uint32_t)most_kinds);
  for (int i = 0; i < s.n_arrays; i++) s.array[i] = arrays[(first + (uint32_t)i) % 6];
  s.n_hbm = 1 + (int)pz_random_below(seed, 2);
  for (int i = 0; i < s.n_hbm; i++) s.hbm[i] = i + 1;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    int n = 1 + (int)pz_random_below(seed, (uint32_t)most[a]);
    int from = (int)pz_random_below(seed, (uint32_t)(8 - n + 1));
    s.n[a] = n;
    for (int i = 0; i < n; i++) s.value[a][i] = values[a][from + i];
  }
  return s;
}

/* The same answer with the same certificate, box by box. */
static inline void same_objective_run(const struct pz_objective_run *x,
                                      const struct pz_objective_run *y) {
  assert_memory_equal(x->best.at, y->best.at, sizeof x->best.at);
  assert_int_equal(x->best.kind, y->best.kind);
  assert_true(x->value == y->value && x->bound == y->bound && x->finished == y->finished);
  assert_int_equal(x->n_evaluated, y->n_evaluated);
  assert_int_equal(x->n_partly, y->n_partly);
  assert_int_equal(x->n_open, y->n_open);
  assert_int_equal(x->rounds, y->rounds);
  assert_int_equal(x->n_boxes, y->n_boxes);
  for (uint32_t i = 0; i < x->n_boxes; i++) {
    const struct pz_closed_box *a = &x->boxes[i], *b = &y->boxes[i];
    assert_int_equal(a->box.kind, b->box.kind);
    assert_memory_equal(a->box.lo, b->box.lo, sizeof a->box.lo);
    assert_memory_equal(a->box.hi, b->box.hi, sizeof a->box.hi);
    assert_true(a->end == b->end && a->bound == b->bound && a->value == b->value);
  }
}

/* ---- rounds in memory ----------------------------------------------------------------------- */

/* In the order in which they were found.  After so many new ones the search is stopped (0: never). */
struct kept_rounds {
  struct kept_round {
    uint32_t run, round;
    char *bytes;
    size_t n;
  } list[1024];
  uint32_t n, n_new, stop_after;
  atomic_bool stop;
};

static inline void read_kept_round(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
                                   struct pz_buffer *b) {
  const struct kept_rounds *k = ctx;
  for (uint32_t i = 0; i < k->n; i++)
    if (k->list[i].run == run && k->list[i].round == round)
      pz_buffer_add(call, b, k->list[i].bytes, k->list[i].n);
}

static inline void keep_round_in_memory(struct pz_call *call, void *ctx, uint32_t run,
                                        uint32_t round, const struct pz_buffer *b) {
  struct kept_rounds *k = ctx;
  (void)call;
  assert_true(k->n < sizeof k->list / sizeof *k->list);
  struct kept_round *r = &k->list[k->n++];
  *r = (struct kept_round){run, round, pz_malloc(b->bytes + 1), b->bytes};
  assert_non_null(r->bytes);
  if (b->bytes) memcpy(r->bytes, b->text, b->bytes);
  if (++k->n_new == k->stop_after) atomic_store(&k->stop, true);
}

static inline struct pz_round_store kept_rounds_store(struct kept_rounds *k) {
  return (struct pz_round_store){k, read_kept_round, keep_round_in_memory};
}

/* The first n of other rounds. */
static inline void copy_kept_rounds(struct kept_rounds *to, const struct kept_rounds *from,
                                    uint32_t n) {
  *to = (struct kept_rounds){.n = 0};
  for (uint32_t i = 0; i < n; i++) {
    struct pz_buffer b = {from->list[i].bytes, from->list[i].n, 0};
    keep_round_in_memory(NULL, to, from->list[i].run, from->list[i].round, &b);
  }
  to->n_new = 0;
}

static inline void same_kept_rounds(const struct kept_rounds *a, const struct kept_rounds *b) {
  assert_int_equal(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    const struct kept_round *x = &a->list[i], *y = &b->list[i];
    assert_true(x->run == y->run && x->round == y->round && x->n == y->n);
    assert_memory_equal(x->bytes, y->bytes, x->n);
  }
}

static inline void free_kept_rounds(struct kept_rounds *k) {
  for (uint32_t i = 0; i < k->n; i++) pz_free(k->list[i].bytes);
  k->n = 0;
}

#endif
