/* ctest runs a tenth of the random cases, the program alone all of them.
 *
 * Boxes of chips: the search is exhaustive search, bounds hold, more of everything is never slower, certificates cover. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box/box_details.h"
#include "box/certificate.h"
#include "chip/chip.h"
#include "core/alloc.h"
#include "core/map.h"
#include "core/num.h"
#include "place/plan_question.h"
#include "search/space.h"
#include "testing.h"

static struct pz_judge_question small_question(void) {
  return (struct pz_judge_question){.models = {"gpt2"},
                                    .n_models = 1,
                                    .devices = 4,
                                    .batch = 8,
                                    .seq = 64,
                                    .scale_up = 2,
                                    .outer_bytes_per_s = 2e9};
}

static const int32_t values[PZ_RANGE_AXES][8] = {{1, 2, 3, 4, 6, 8, 12, 16},
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

/* A space of some values of every axis, at most so many on each. */
static struct pz_range_space random_space(uint64_t *seed, int most_kinds, const int *most) {
  struct pz_range_space s = {.name = "random", .n_nodes = 1, .node = {PZ_TECH_5NM}};
  uint32_t first = pz_random_below(seed, 6);
  s.n_arrays = 1 + (int)pz_random_below(seed, (uint32_t)most_kinds);
  for (int i = 0; i < s.n_arrays; i++) s.array[i] = arrays[(first + (uint32_t)i) % 6];
  s.n_hbm = 1 + (int)pz_random_below(seed, 2);
  for (int i = 0; i < s.n_hbm; i++) s.hbm[i] = i + 1;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
    int n = 1 + (int)pz_random_below(seed, (uint32_t)most[a]);
    int from = (int)pz_random_below(seed, (uint32_t)(8 - n + 1));
    s.n[a] = n;
    for (int i = 0; i < n; i++) s.value[a][i] = values[a][from + i];
  }
  return s;
}

static struct pz_box random_box(const struct pz_range_space *s, uint64_t *seed) {
  struct pz_box b = {.kind = pz_random_below(seed, pz_range_kinds(s))};
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
    uint8_t x = (uint8_t)pz_random_below(seed, (uint32_t)s->n[a]),
            y = (uint8_t)pz_random_below(seed, (uint32_t)s->n[a]);
    b.lo[a] = x < y ? x : y;
    b.hi[a] = x < y ? y : x;
  }
  return b;
}

static struct pz_box random_chip(const struct pz_box *b, uint64_t *seed) {
  struct pz_box c = *b;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++)
    c.lo[a] = c.hi[a] =
        (uint8_t)(b->lo[a] + (int)pz_random_below(seed, (uint32_t)(b->hi[a] - b->lo[a] + 1)));
  return c;
}

static double value_of(struct pz_judge *j, const struct pz_range_space *s, const struct pz_box *b) {
  struct pz_chip c;
  struct pz_error err;
  double value = -1;
  pz_box_lo(s, b, &c);
  struct pz_taken t = pz_chip_taken(&c);
  assert_int_equal(pz_judge_value(j, &c, &t, 0, &value, NULL, NULL, &err), PZ_OK);
  return value;
}

static const int all_values[PZ_RANGE_AXES] = {8, 8, 8, 8, 8, 8, 8, 8, 8};

/* No chip of a box is worth more than the bounds of its largest one say, and takes less than its smallest. */
static void bounds_hold(void **state) {
  uint64_t seed = 7;
  struct pz_judge_question q = small_question();
  struct pz_error err;
  (void)state;
  for (int k = 0; k < PZ_BOX_OBJECTIVES; k++) {
    struct pz_judge *j = NULL;
    struct pz_range_space s = random_space(&seed, 6, all_values);
    struct pz_chip like;
    struct pz_box all = pz_box_all(&s, 0);
    pz_box_hi(&s, &all, &like);
    q.objective = (enum pz_box_objective)k;
    assert_int_equal(pz_judge_new(&q, &like, &j, &err), PZ_OK);
    for (int i = 0; i < pz_test_part(400); i++) {
      struct pz_box b = random_box(&s, &seed), chip = random_chip(&b, &seed);
      struct pz_chip lo, hi, c;
      double rates = 0, mapped = 0, value = value_of(j, &s, &chip);
      pz_box_lo(&s, &b, &lo);
      pz_box_hi(&s, &b, &hi);
      pz_box_lo(&s, &chip, &c);
      struct pz_taken least = pz_chip_taken(&lo), t = pz_chip_taken(&c), most = pz_chip_taken(&hi);
      assert_int_equal(pz_judge_floor(j, &hi, &least, &rates, &err), PZ_OK);
      assert_int_equal(pz_judge_bound(j, &hi, &least, 0, &mapped, &err), PZ_OK);
      assert_true(value <= mapped * (1 + 1e-9) && mapped <= rates * (1 + 1e-9));
      assert_true(least.mm2 <= t.mm2 * (1 + 1e-12) && t.mm2 <= most.mm2 * (1 + 1e-12));
      assert_true(least.watts <= t.watts * (1 + 1e-12) && t.watts <= most.watts * (1 + 1e-12));
      assert_true(least.dollars <= t.dollars * (1 + 1e-12) &&
                  t.dollars <= most.dollars * (1 + 1e-12));
      assert_true(least.owner_dollars <= t.owner_dollars * (1 + 1e-12));
      assert_true(least.static_watts <= t.static_watts * (1 + 1e-12));
      assert_true(least.voltage2 <= t.voltage2);
    }
    pz_judge_free(j);
  }
}

/* One step more on any axis is never slower. */
static void more_is_never_slower(void **state) {
  uint64_t seed = 11;
  struct pz_judge_question q = small_question();
  struct pz_range_space s = random_space(&seed, 6, all_values);
  struct pz_judge *j = NULL;
  struct pz_error err;
  struct pz_chip like;
  struct pz_box all = pz_box_all(&s, 0);
  (void)state;
  pz_box_hi(&s, &all, &like);
  assert_int_equal(pz_judge_new(&q, &like, &j, &err), PZ_OK);
  for (int i = 0; i < pz_test_part(100); i++) {
    struct pz_box b = pz_box_all(&s, pz_random_below(&seed, pz_range_kinds(&s)));
    struct pz_box chip = random_chip(&b, &seed);
    double value = value_of(j, &s, &chip);
    for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
      struct pz_box more = chip;
      if (chip.lo[a] + 1 >= s.n[a]) continue;
      more.lo[a] = ++more.hi[a];
      assert_true(value_of(j, &s, &more) >= value * (1 - 1e-9));
    }
  }
  pz_judge_free(j);
}

/* The finder's best plan is that of pz_plan_search. */
static void finder_is_plan_search(void **state) {
  uint64_t seed = 13;
  struct pz_judge_question q = small_question();
  struct pz_range_space s = random_space(&seed, 6, all_values);
  struct pz_error err;
  (void)state;
  q.models[0] = "llama2-7b";
  q.devices = 16;
  q.batch = 4;
  q.seq = 256;
  q.scale_up = 4;
  struct pz_judge *j = NULL;
  struct pz_chip c;
  struct pz_box all = pz_box_all(&s, 0);
  pz_box_hi(&s, &all, &c);
  assert_int_equal(pz_judge_new(&q, &c, &j, &err), PZ_OK);
  for (int i = 0; i < pz_test_part(12); i++) {
    struct pz_box b = pz_box_all(&s, pz_random_below(&seed, pz_range_kinds(&s)));
    struct pz_box chip = random_chip(&b, &seed);
    pz_box_lo(&s, &chip, &c);
    c.hbm.bytes_per_stack = INT64_C(24) << 30;
    struct pz_taken t = pz_chip_taken(&c);
    struct pz_cluster net = pz_judge_cluster(&q, &c);
    struct pz_steps steps;
    double value = 0;
    assert_int_equal(pz_judge_value(j, &c, &t, 0, &value, &steps, NULL, &err), PZ_OK);
    struct pz_plan_question p;
    struct pz_arena arena;
    struct pz_found_plans found;
    assert_int_equal(pz_judge_plan_question(&q, 0, &p, &err), PZ_OK);
    p.job.chip = &c;
    p.job.net = &net;
    pz_arena_init(&arena, NULL);
    assert_int_equal(pz_plan_search(&p, &arena, &found, &err), PZ_OK);
    assert_int_equal(found.n > 0, value > 0);
    if (found.n) assert_true(fabs(found.list[0].p.step_s / steps.step_s[0] - 1) < 1e-9);
    pz_arena_release(&arena);
  }
  pz_judge_free(j);
}

/* A chip's value is the step of 'phaze place --framework compiled' with the files that a search saves. */
static void values_are_those_of_place(void **state) {
  uint64_t seed = 37;
  struct pz_judge_question q = small_question();
  struct pz_range_space s = random_space(&seed, 6, all_values);
  struct pz_judge *j = NULL;
  struct pz_chip c, read;
  struct pz_error err;
  struct pz_box all = pz_box_all(&s, 0);
  (void)state;
  q.models[0] = "gpt2-medium";
  q.model_seq[0] = 128;
  q.model_batch[0] = 16;
  pz_box_hi(&s, &all, &c);
  assert_int_equal(pz_judge_new(&q, &c, &j, &err), PZ_OK);
  for (int i = 0; i < pz_test_part(20); i++) {
    struct pz_box b = pz_box_all(&s, pz_random_below(&seed, pz_range_kinds(&s)));
    struct pz_box chip = random_chip(&b, &seed);
    struct pz_steps steps;
    double value = 0;
    char *text = NULL, *net_text = NULL;
    pz_box_lo(&s, &chip, &c);
    assert_true(c.rules.nested_mapping);
    struct pz_taken t = pz_chip_taken(&c);
    struct pz_cluster net = pz_judge_cluster(&q, &c), read_net;
    assert_int_equal(pz_judge_value(j, &c, &t, 0, &value, &steps, NULL, &err), PZ_OK);
    json_t *json = pz_chip_json(&c), *net_json = pz_cluster_json(&net);
    assert_int_equal(pz_json_text(json, &text, &err), PZ_OK);
    assert_int_equal(pz_json_text(net_json, &net_text, &err), PZ_OK);
    assert_int_equal(pz_chip_parse("chip.json", text, strlen(text), &read, &err), PZ_OK);
    assert_int_equal(pz_cluster_parse("cluster.json", net_text, strlen(net_text), &read_net, &err),
                     PZ_OK);
    struct pz_training_place_options o = pz_training_place_options_default();
    o.plan.framework = pz_framework_find("compiled");
    o.plan.devices = q.devices;
    o.plan.batch = 16;
    o.plan.seq = 128;
    o.all_devices = true;
    struct pz_training_plans *plans = NULL;
    assert_int_equal(pz_training_place(q.models[0], &read, &read_net, &o, &plans, &err), PZ_OK);
    assert_true(plans->runs[0]->p.step_s == steps.step_s[0]);
    pz_training_plans_free(plans);
    json_decref(json);
    json_decref(net_json);
    pz_free(text);
    pz_free(net_text);
  }
  pz_judge_free(j);
}

static void models_have_their_own_sequence(void **state) {
  static const struct {
    const char *text, *model;
    int64_t seq, batch;
  } cases[] = {{"gpt2", "gpt2", 0, 0},           {"gpt2@512", "gpt2", 512, 0},
               {"gpt2@512x64", "gpt2", 512, 64}, {"a@b/config.json", "a@b/config.json", 0, 0},
               {"gpt2@512x", "gpt2@512x", 0, 0}, {"gpt2@99999999999", "gpt2@99999999999", 0, 0}};
  struct pz_judge_question q = {.n_models = 0};
  struct pz_arena arena;
  struct pz_error err;
  (void)state;
  pz_arena_init(&arena, NULL);
  for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[PZ_JUDGE_MODEL_TEXT];
    assert_int_equal(pz_judge_add_model(&q, cases[i].text, &arena, &err), PZ_OK);
    assert_string_equal(q.models[i], cases[i].model);
    assert_int_equal(q.model_seq[i], cases[i].seq);
    assert_int_equal(q.model_batch[i], cases[i].batch);
    pz_judge_model_text(&q, i, text);
    assert_string_equal(text, cases[i].text);
  }
  pz_arena_release(&arena);
}

/* ---- the search ----------------------------------------------------------------------------- */

static enum pz_status search(const struct pz_range_space *s, const struct pz_box_options *o,
                             struct pz_arena *arena, struct pz_box_result *r) {
  struct pz_error err;
  return pz_box_search(s, o, arena, r, &err);
}

/* Every chip of the space within the limits; the best value, 0: none. */
static double exhaustive(const struct pz_range_space *s, const struct pz_box_options *o) {
  struct pz_judge *j = NULL;
  struct pz_chip c;
  struct pz_steps steps;
  struct pz_error err;
  double best = 0, value;
  assert_int_equal(pz_box_reference_chip(&c, &err), PZ_OK);
  assert_int_equal(pz_judge_new(&o->question, &c, &j, &err), PZ_OK);
  struct pz_taken t = pz_chip_taken(&c);
  assert_int_equal(pz_judge_value(j, &c, &t, 0, &value, &steps, NULL, &err), PZ_OK);
  pz_judge_set_reference(j, &steps, &t);
  for (uint32_t k = 0; k < pz_range_kinds(s); k++)
    for (int64_t i = 0; i < pz_range_kind_chips(s); i++) {
      struct pz_range_point p = {.kind = k};
      int64_t rest = i;
      for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
        p.at[a] = (uint8_t)(rest % s->n[a]);
        rest /= s->n[a];
      }
      pz_range_chip(s, &p, &c);
      t = pz_chip_taken(&c);
      if (pz_limits_broken(&o->limits, &t, &t)) continue;
      assert_int_equal(pz_judge_value(j, &c, &t, best, &value, NULL, NULL, &err), PZ_OK);
      best = value > best ? value : best;
    }
  pz_judge_free(j);
  return best;
}

static struct pz_limits random_limits(const struct pz_range_space *s, uint64_t *seed) {
  struct pz_chip lo, hi;
  struct pz_box all = pz_box_all(s, 0);
  pz_box_lo(s, &all, &lo);
  pz_box_hi(s, &all, &hi);
  struct pz_taken a = pz_chip_taken(&lo), b = pz_chip_taken(&hi);
  double x = pz_random_below(seed, 100) / 80.0, y = pz_random_below(seed, 100) / 80.0,
         z = pz_random_below(seed, 100) / 80.0;
  struct pz_limits l = {a.mm2 + x * (b.mm2 - a.mm2), a.watts + y * (b.watts - a.watts),
                        a.dollars + z * (b.dollars - a.dollars)};
  if (pz_random_below(seed, 3) == 0) l.dollars = 0;
  return l;
}

/* Two values of every axis, three of some. */
static const int few_values[PZ_RANGE_AXES] = {3, 2, 2, 2, 2, 2, 3, 2, 2};

static void boxes_are_exhaustive(void **state) {
  uint64_t seed = 17;
  (void)state;
  for (int i = 0; i < pz_test_part(50); i++) {
    struct pz_range_space s = random_space(&seed, 2, few_values);
    struct pz_box_options o = {.question = small_question(), .threads = 1};
    struct pz_arena arena;
    struct pz_box_result r = {.found = false};
    o.question.objective = (enum pz_box_objective)(i % PZ_BOX_OBJECTIVES);
    o.limits = random_limits(&s, &seed);
    o.gap = i % 2 ? 0 : 0.02;
    pz_arena_init(&arena, NULL);
    enum pz_status status = search(&s, &o, &arena, &r);
    double best = exhaustive(&s, &o);
    assert_int_equal(status, best > 0 ? PZ_OK : PZ_NO_ANSWER);
    if (best > 0) {
      struct pz_boxes boxes = {r.boxes, r.n_boxes};
      assert_true(r.best.value <= best * (1 + 1e-9));
      assert_true(best <= r.best.value * (1 + r.gap) * (1 + 1e-9) && r.gap <= o.gap + 1e-12);
      assert_true(r.finished && r.closed == r.chips && r.chips == pz_range_chips(&s));
      assert_true(pz_boxes_cover(&s, &boxes));
    }
    pz_arena_release(&arena);
  }
}

/* ---- listed chips --------------------------------------------------------------------------- */

static const char *const listed_texts[] = {
    "{\"tensor_cores\":[4,8],\"rows\":[32,64],\"cols\":[32,64],\"vector_cores\":[2,8],"
    "\"glb_mib\":[4,16]}",
    "{\"tensor_cores\":[66,132],\"rows\":[32,64],\"cols\":[32],\"vector_cores\":[66,132],"
    "\"lanes\":[64,128],\"glb_mib\":[32,60],\"base\":\"h200\"}"};

/* Is the chip what the list has at the point?  But for what all chips of a space of ranges have. */
static void same_chip(const struct pz_chip *a, const struct pz_chip *b) {
  assert_memory_equal(&a->tensor, &b->tensor, sizeof a->tensor);
  assert_memory_equal(&a->vector, &b->vector, sizeof a->vector);
  assert_memory_equal(&a->hbm, &b->hbm, sizeof a->hbm);
  assert_true(a->glb_bytes == b->glb_bytes && a->glb_bytes_per_s == b->glb_bytes_per_s);
  assert_true(a->clock_hz == b->clock_hz && a->link_bytes_per_s == b->link_bytes_per_s);
  assert_true(a->tech == b->tech);
  assert_string_equal(a->name, b->name);
}

/* All chips of both spaces, of which the second is the first one written and read. */
static void same_chips(const struct pz_space *listed, const struct pz_range_space *s,
                       const struct pz_range_space *again) {
  uint32_t n = pz_space_grid(listed);
  assert_int_equal(pz_range_chips(s), n);
  for (uint32_t id = 0; id < n; id++) {
    struct pz_point p = pz_space_point(listed, id);
    struct pz_chip c, found, other;
    struct pz_box b;
    struct pz_error err;
    pz_space_chip(listed, &p, &c);
    assert_int_equal(pz_range_find(s, &c, &b, &err), PZ_OK);
    pz_box_lo(s, &b, &found);
    same_chip(&found, &c);
    pz_box_lo(again, &b, &other);
    same_chip(&other, &c);
  }
}

/* The chips of a space of listed ones are judged by training plans as any others. */
static void listed_chips_are_ranges(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof listed_texts / sizeof *listed_texts; i++) {
    struct pz_error err;
    struct pz_space listed;
    struct pz_range_space s, again;
    struct pz_box_options o = {.question = small_question(), .threads = 1};
    struct pz_box_result r = {.found = false};
    struct pz_arena arena;
    const char *text = listed_texts[i];
    assert_int_equal(pz_space_parse("listed", text, strlen(text), &listed, &err), PZ_OK);
    assert_int_equal(pz_range_from_space(&listed, &s, &err), PZ_OK);
    json_t *json = pz_range_json(&s);
    char *written = pz_json_dump(json, JSON_COMPACT);
    assert_int_equal(pz_range_parse("again", written, strlen(written), &again, &err), PZ_OK);
    same_chips(&listed, &s, &again);
    pz_free(written);
    json_decref(json);
    o.limits.mm2 = pz_chip_taken(&listed.base).mm2 / (i ? 1 : 16);
    pz_arena_init(&arena, NULL);
    assert_int_equal(search(&s, &o, &arena, &r), PZ_OK);
    double best = exhaustive(&s, &o);
    assert_true(r.best.value <= best * (1 + 1e-9) && best <= r.best.value * (1 + 1e-9));
    pz_arena_release(&arena);
  }
}

static void more_limit_is_never_worse(void **state) {
  uint64_t seed = 19;
  (void)state;
  for (int i = 0; i < pz_test_part(200); i++) {
    struct pz_range_space s = random_space(&seed, 1, few_values);
    struct pz_box_options o = {.question = small_question(), .threads = 1};
    struct pz_arena arena;
    struct pz_box_result a = {.found = false}, b = {.found = false};
    o.limits = random_limits(&s, &seed);
    pz_arena_init(&arena, NULL);
    enum pz_status before = search(&s, &o, &arena, &a);
    o.limits.mm2 *= 1 + pz_random_below(&seed, 100) / 100.0;
    o.limits.watts *= 1 + pz_random_below(&seed, 100) / 100.0;
    o.limits.dollars *= 1 + pz_random_below(&seed, 100) / 100.0;
    enum pz_status after = search(&s, &o, &arena, &b);
    assert_true(before == PZ_NO_ANSWER || after == PZ_OK);
    if (before == PZ_OK) assert_true(b.best.value >= a.best.value * (1 - 1e-9));
    pz_arena_release(&arena);
  }
}

static void threads_agree(void **state) {
  uint64_t seed = 23;
  static const int some[PZ_RANGE_AXES] = {8, 4, 4, 3, 4, 4, 5, 4, 4};
  struct pz_range_space s = random_space(&seed, 6, some);
  struct pz_box_options o = {.question = small_question(), .gap = 0.01};
  char *first = NULL;
  (void)state;
  struct pz_chip lo, hi;
  struct pz_box all = pz_box_all(&s, 0);
  pz_box_lo(&s, &all, &lo);
  pz_box_hi(&s, &all, &hi);
  o.limits.mm2 = (pz_chip_taken(&lo).mm2 + pz_chip_taken(&hi).mm2) / 2;
  o.limits.watts = (pz_chip_taken(&lo).watts + pz_chip_taken(&hi).watts) / 2;
  for (unsigned n = 1; n <= 3; n++) {
    struct pz_arena arena;
    struct pz_box_result r;
    char *json = NULL, *boxes;
    struct pz_error err;
    o.threads = n;
    pz_arena_init(&arena, NULL);
    assert_int_equal(search(&s, &o, &arena, &r), PZ_OK);
    boxes = pz_boxes_text(&r);
    json_t *result = pz_box_result_json(&s, &o, &r);
    assert_int_equal(pz_json_text(result, &json, &err), PZ_OK);
    json_decref(result);
    char *both = pz_malloc(strlen(json) + strlen(boxes) + 1);
    strcpy(both, json);
    strcat(both, boxes);
    if (first)
      assert_string_equal(first, both);
    else
      first = both;
    if (first != both) pz_free(both);
    pz_free(json);
    pz_free(boxes);
    pz_arena_release(&arena);
  }
  pz_free(first);
}

/* ---- the journal ---------------------------------------------------------------------------- */

struct stopping {
  int left;
};

static bool stop_after(void *ctx, const struct pz_progress_state *state) {
  struct stopping *s = ctx;
  (void)state;
  return s->left-- > 0;
}

/* A search that is interrupted again and again ends with the same boxes; a torn end of its journal is dropped. */
static void interrupted_searches_go_on(void **state) {
  uint64_t seed = 23;
  static const int some[PZ_RANGE_AXES] = {8, 2, 4, 3, 4, 2, 5, 4, 4};
  static const int few[PZ_RANGE_AXES] = {4, 2, 2, 3, 2, 2, 3, 2, 2};
  struct pz_range_space s = random_space(&seed, 2, pz_test_part(10) < 10 ? few : some);
  struct pz_box_options o = {.question = small_question(), .threads = 1};
  struct pz_arena arena;
  struct pz_box_result r;
  struct pz_error err = {0};
  char path[] = "journal-XXXXXX";
  (void)state;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  pz_arena_init(&arena, NULL);
  assert_int_equal(search(&s, &o, &arena, &r), PZ_OK);
  char *whole = pz_boxes_text(&r);
  struct stopping stopping;
  char *inputs = NULL;
  assert_int_equal(pz_box_inputs_text(&s, &o, &inputs, &err), PZ_OK);
  o.journal = path;
  o.inputs = inputs;
  o.progress = stop_after;
  o.ctx = &stopping;
  enum pz_status status = PZ_STOPPED;
  int stops = 0;
  for (; status == PZ_STOPPED && stops < 100; stops++) {
    stopping.left = 1 + stops; /* reports of rounds that are read again count too */
    status = search(&s, &o, &arena, &r);
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    fputs("c 1 0 0 0", f); /* killed while writing */
    fclose(f);
  }
  assert_int_equal(status, PZ_OK);
  assert_true(stops > 2);
  char *text = pz_boxes_text(&r);
  assert_string_equal(text, whole);
  o.inputs = "others";
  assert_int_equal(pz_box_search(&s, &o, &arena, &r, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "other inputs"));
  remove(path);
  pz_free(inputs);
  pz_free(text);
  pz_free(whole);
  pz_arena_release(&arena);
}

/* A round with the digests that the journal itself would write (box/journal.c). */
static void write_round(const char *path, const char *inputs, const char *lines) {
  char head[128];
  int n = snprintf(head, sizeof head, "phaze boxes 2 %s %016llx\n", pz_version(),
                   (unsigned long long)pz_hash(inputs, strlen(inputs)));
  uint64_t both[2] = {pz_hash(head, (size_t)n), pz_hash(lines, strlen(lines))};
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fprintf(f, "%s%s= %016llx\n", head, lines, (unsigned long long)pz_hash(both, sizeof both));
  fclose(f);
}

/* Digests can be forged: lines and boxes are checked all the same. */
static void forged_journals_are_refused(void **state) {
  static const char *const lines[][2] = {
      {"h 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 200\n", "not of space"},
      {"o 1 4000000000 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", "not of space"},
      {"h 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 250\n", "no search writes"},
      {"h nan 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", "no search writes"},
      {"c 1 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", "no search writes"},
      {"p 1e300\n", "no search writes"},
      {"p -1\n", "no search writes"},
      {"h 1\n 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", "no search writes"}};
  uint64_t seed = 31;
  struct pz_range_space s = random_space(&seed, 1, few_values);
  char path[] = "journal-XXXXXX";
  (void)state;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    struct pz_box_options o = {
        .question = small_question(), .threads = 1, .journal = path, .inputs = "forged"};
    struct pz_arena arena;
    struct pz_box_result r;
    struct pz_error err = {0};
    pz_arena_init(&arena, NULL);
    write_round(path, o.inputs, lines[i][0]);
    assert_int_equal(pz_box_search(&s, &o, &arena, &r, &err), PZ_BAD_INPUT);
    assert_non_null(strstr(err.message, lines[i][1]));
    pz_arena_release(&arena);
  }
  remove(path);
}

/* ---- certificates --------------------------------------------------------------------------- */

static void covers_are_told(void **state) {
  uint64_t seed = 29;
  struct pz_range_space s = random_space(&seed, 1, few_values);
  struct pz_closed_box list[3];
  struct pz_boxes b = {list, 2};
  (void)state;
  s.n_arrays = s.n_hbm = 1;
  s.n[0] = 3;
  s.value[0][0] = 1, s.value[0][1] = 2, s.value[0][2] = 3;
  for (int i = 0; i < 3; i++) list[i] = (struct pz_closed_box){.box = pz_box_all(&s, 0)};
  list[0].box.hi[0] = 0;
  list[1].box.lo[0] = 1;
  assert_true(pz_boxes_cover(&s, &b));
  list[0] = (struct pz_closed_box){.box = pz_box_all(&s, 0)}; /* twice */
  assert_false(pz_boxes_cover(&s, &b));
  list[0].box = list[1].box = pz_box_all(&s, 0);
  list[0].box.hi[0] = 0;
  list[1].box.lo[0] = 2; /* a hole */
  assert_false(pz_boxes_cover(&s, &b));
  b.n = 0;
  assert_false(pz_boxes_cover(&s, &b));
}

static void texts_are_read_again(void **state) {
  uint64_t seed = 31;
  struct pz_range_space s = random_space(&seed, 2, few_values);
  struct pz_box_options o = {.question = small_question(), .threads = 1, .gap = 0.01};
  struct pz_arena arena;
  struct pz_box_result r;
  struct pz_error err;
  struct pz_boxes boxes;
  (void)state;
  pz_arena_init(&arena, NULL);
  struct pz_box_inputs *in = pz_arena_alloc(&arena, 1, sizeof *in);
  assert_int_equal(search(&s, &o, &arena, &r), PZ_OK);
  char *text = pz_boxes_text(&r);
  assert_int_equal(pz_boxes_parse("boxes", text, strlen(text), &s, &arena, &boxes, &err), PZ_OK);
  assert_int_equal(boxes.n, r.n_boxes);
  for (uint32_t i = 0; i < boxes.n; i++) {
    assert_memory_equal(&boxes.list[i].box, &r.boxes[i].box, sizeof boxes.list[i].box);
    assert_true(boxes.list[i].end == r.boxes[i].end && boxes.list[i].bound == r.boxes[i].bound);
  }
  json_t *json = pz_box_inputs_json(&s, &o);
  assert_int_equal(pz_box_inputs_read("inputs", json, &arena, in, &err), PZ_OK);
  assert_int_equal(pz_range_chips(&in->space), pz_range_chips(&s));
  assert_string_equal(in->options.question.models[0], "gpt2");
  json_object_set_new(json, "dvices", json_integer(3));
  assert_int_equal(pz_box_inputs_read("inputs", json, &arena, in, &err), PZ_BAD_INPUT);
  json_decref(json);
  pz_free(text);
  pz_arena_release(&arena);
}

/* ---- spaces --------------------------------------------------------------------------------- */

#define HEAD "{\"nodes\":[\"5nm\"],\"arrays\":[\"16x16\"],\"hbm\":[\"hbm3\"],\"axes\":{"
#define AXES                                                                                       \
  "\"local_kib\":[64],\"vector_cores\":[4],\"lanes\":[16],\"glb_mib\":[4],"                        \
  "\"glb_bytes_per_cycle\":[256],\"clock_mhz\":[1000],\"hbm_stacks\":[2],\"link_gb_per_s\":[50]}"

static void spaces_are_read(void **state) {
  static const struct {
    const char *text;
    enum pz_status status;
    int64_t chips;
    const char *message;
  } cases[] = {
      {HEAD "\"tensor_cores\":[1,2,4]," AXES "}", PZ_OK, 3, NULL},
      {HEAD "\"tensor_cores\":{\"from\":4,\"to\":12,\"step\":4}," AXES "}", PZ_OK, 3, NULL},
      {HEAD "\"tensor_cores\":[2,2]," AXES "}", PZ_BAD_INPUT, 0, "increasing"},
      {HEAD "\"tensor_cores\":{\"from\":4,\"to\":12}," AXES "}", PZ_BAD_INPUT, 0, "step"},
      {HEAD "\"tensor_cores\":{\"from\":1,\"to\":1000,\"step\":1}," AXES "}", PZ_BAD_INPUT, 0,
       "250"},
      {HEAD AXES "}", PZ_BAD_INPUT, 0, "tensor_cores"},
      {HEAD "\"tensor_cores\":[1],\"tensor_core\":[1]," AXES "}", PZ_BAD_INPUT, 0, "tensor_core"},
      {HEAD "\"tensor_cores\":[1]," AXES ",\"limit\":3}", PZ_BAD_INPUT, 0, "limit"},
      {"{\"nodes\":[\"6nm\"],\"arrays\":[\"16x16\"],\"hbm\":[\"hbm3\"],\"axes\":{\"tensor_cores\":["
       "1]," AXES "}",
       PZ_BAD_INPUT, 0, "5nm"},
      {"{\"nodes\":[\"5nm\"],\"arrays\":[\"16*16\"],\"hbm\":[\"hbm3\"],\"axes\":{\"tensor_cores\":["
       "1]," AXES "}",
       PZ_BAD_INPUT, 0, "64x128"},
      {"{\"nodes\":[\"5nm\"],\"arrays\":[\"256x256\"],\"hbm\":[\"hbm3\"],\"axes\":{\"tensor_"
       "cores\":[1]," AXES "}",
       PZ_BAD_INPUT, 0, "local_kib"},
      {"{\"base\":\"h200\",\"axes\":{}}", PZ_OK, 1, NULL},
      {"{\"base\":\"h200\",\"hbm\":[\"hbm3\",\"hbm3e\"],\"axes\":{\"clock_mhz\":[1000,1500]}}",
       PZ_OK, 4, NULL},
      {"{\"base\":\"h200\",\"axes\":{\"lanes\":\"columns\",\"glb_mib\":[16,32]}}", PZ_OK, 2, NULL},
      {"{\"base\":\"h200\",\"axes\":{\"glb_mib\":\"columns\"}}", PZ_BAD_INPUT, 0, "glb_mib"},
      {"{\"base\":\"h2000\",\"axes\":{}}", PZ_BAD_INPUT, 0, "base: unknown chip"},
      {"{\"base\":{\"tech\":\"5nm\"},\"axes\":{}}", PZ_BAD_INPUT, 0, "space: base"},
      {"{\"base\":[1],\"axes\":{}}", PZ_BAD_INPUT, 0, "base"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_range_space s;
    struct pz_error err = {0};
    enum pz_status status = pz_range_parse("space", cases[i].text, strlen(cases[i].text), &s, &err);
    assert_int_equal(status, cases[i].status);
    if (status == PZ_OK) assert_int_equal(pz_range_chips(&s), cases[i].chips);
    if (cases[i].message) assert_non_null(strstr(err.message, cases[i].message));
  }
}

static void modern_is_large(void **state) {
  struct pz_range_space s;
  struct pz_error err;
  bool is = false;
  (void)state;
  assert_int_equal(pz_range_load("modern", &s, &is, &err), PZ_OK);
  assert_true(is);
  assert_int_equal(pz_range_set_node(&s, "5nm", &err), PZ_OK);
  assert_true(pz_range_chips(&s) >= 100000000);
  assert_int_equal(pz_range_set_node(&s, "7nm", &err), PZ_BAD_USE);
  assert_int_equal(pz_range_load("paper", &s, &is, &err), PZ_OK);
  assert_false(is);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bounds_hold),
                                     cmocka_unit_test(more_is_never_slower),
                                     cmocka_unit_test(finder_is_plan_search),
                                     cmocka_unit_test(values_are_those_of_place),
                                     cmocka_unit_test(models_have_their_own_sequence),
                                     cmocka_unit_test(boxes_are_exhaustive),
                                     cmocka_unit_test(listed_chips_are_ranges),
                                     cmocka_unit_test(interrupted_searches_go_on),
                                     cmocka_unit_test(forged_journals_are_refused),
                                     cmocka_unit_test(more_limit_is_never_worse),
                                     cmocka_unit_test(threads_agree),
                                     cmocka_unit_test(covers_are_told),
                                     cmocka_unit_test(texts_are_read_again),
                                     cmocka_unit_test(spaces_are_read),
                                     cmocka_unit_test(modern_is_large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
