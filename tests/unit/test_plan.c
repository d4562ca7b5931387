/* The record of a plan: its fields as texts and JSON, what is unset, plan files; and every rule of the frameworks over
 * random plans of the built-in models. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

/* The rules one by one, which the library keeps to itself. */
#include "plan/framework_rules.c"

#include "chip/chip.h"
#include "core/alloc.h"
#include "plan/plan_file.h"
#include "plan/plan_fill.h"
#include "unit/chip_borders.h"
#include "unit/plan_borders.h"
#include "workload/workload.h"

static int64_t pick(uint64_t *seed, int64_t n) {
  return (int64_t)pz_random_below(seed, (uint32_t)n);
}

static const char *const libraries[] = {"fa1", "fa2", "fa3", "cudnn", "pallas"};

/* ---- one field ------------------------------------------------------------------------------ */

static void set_text(struct pz_plan *p, enum pz_plan_field f, const char *text) {
  memcpy((char *)p + pz_plan_field(f)->offset, &text, sizeof text);
}

static bool same_field(const struct pz_plan *a, const struct pz_plan *b, enum pz_plan_field f) {
  const struct pz_plan_field_info *x = pz_plan_field(f);
  const char *l = (const char *)a + x->offset, *r = (const char *)b + x->offset;
  const char *s, *t;
  switch (x->kind) {
  case PZ_PLAN_KIND_COUNT:
  case PZ_PLAN_KIND_LENGTH: return memcmp(l, r, sizeof(int64_t)) == 0;
  case PZ_PLAN_KIND_REAL: return memcmp(l, r, sizeof(double)) == 0;
  case PZ_PLAN_KIND_FLAG: return memcmp(l, r, sizeof(bool)) == 0;
  case PZ_PLAN_KIND_LIST: return memcmp(l, r, sizeof(int64_t *)) == 0;
  case PZ_PLAN_KIND_TEXT:
    memcpy(&s, l, sizeof s);
    memcpy(&t, r, sizeof t);
    return s && t ? strcmp(s, t) == 0 : s == t;
  default: return memcmp(l, r, sizeof(int)) == 0;
  }
}

static int names_of(const struct pz_plan_field_info *x) {
  int n = 0;
  while (x->names[n]) n++;
  return n;
}

/* Any value that a text can say, not the unset one. */
static void set_any(struct pz_plan *p, enum pz_plan_field f, uint64_t *seed) {
  const struct pz_plan_field_info *x = pz_plan_field(f);
  switch (x->kind) {
  case PZ_PLAN_KIND_LIST:
  case PZ_PLAN_KIND_LENGTH: return;
  case PZ_PLAN_KIND_TEXT: set_text(p, f, libraries[pick(seed, 5)]); return;
  case PZ_PLAN_KIND_CHOICE: pz_plan_field_store(p, f, (double)pick(seed, names_of(x))); return;
  case PZ_PLAN_KIND_SET:
    pz_plan_field_store(p, f, (double)(1 + pick(seed, (1 << names_of(x)) - 1)));
    return;
  case PZ_PLAN_KIND_FLAG: pz_plan_field_store(p, f, 1); return;
  case PZ_PLAN_KIND_REAL:
    pz_plan_field_store(p, f, fmin(x->most, 1 + (double)pick(seed, 24) / 4));
    return;
  default: {
    double most = fmin(x->most, 1 << 20);
    pz_plan_field_store(p, f, x->least + (double)pick(seed, (int64_t)(most - x->least) + 1));
  }
  }
}

/* All fields set; there is something to overlap and to recompute, so that all sets are printed whole. */
static struct pz_plan any_plan(uint64_t *seed) {
  struct pz_plan p = pz_plan_default();
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) set_any(&p, (enum pz_plan_field)f, seed);
  int64_t *const several[] = {&p.tp, &p.pp, &p.dp, &p.ep};
  for (int i = 0; i < 4; i++) *several[i] = 2 + pick(seed, 64);
  p.zero = 1 + (int)pick(seed, 3);
  p.cp_form = 1;
  p.recompute = PZ_RECOMPUTATION_SELECTIVE;
  p.halves = 1; /* a plan without says nothing of them */
  p.act_precision = 1;
  return p;
}

static void texts_are_read_back(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (int i = 0; i < pz_test_part(2000); i++) {
    struct pz_plan p = any_plan(&seed), read = pz_plan_default();
    for (int j = 0; j < PZ_PLAN_FIELDS; j++) {
      enum pz_plan_field f = (enum pz_plan_field)j;
      const struct pz_plan_field_info *x = pz_plan_field(f);
      char text[PZ_FIELD_TEXT_MOST];
      struct pz_error err = {0};
      if (x->kind >= PZ_PLAN_KIND_LIST) continue;
      pz_plan_field_text(&p, f, text, sizeof text);
      assert_true(strlen(text) < sizeof text - 1);
      const char *given = text;
      if (x->kind == PZ_PLAN_KIND_TEXT) /* texts are not copied */
        given = f == PZ_PLAN_PEFT ? p.peft : p.attention_library;
      if (pz_plan_set(&read, x->name, given, &err) != PZ_OK) fail_msg("%s", err.message);
      if (!same_field(&p, &read, f)) fail_msg("%s: '%s' is read as another value", x->name, text);
    }
  }
  struct pz_plan open = pz_plan_default(); /* replicas of a tp that is not set yet */
  char text[PZ_FIELD_TEXT_MOST];
  open.dp = 1;
  open.overlap = PZ_OVERLAP_GRAD;
  assert_string_equal(pz_plan_field_text(&open, PZ_PLAN_OVERLAP, text, sizeof text), "grad");
}

static void json_is_read_back(void **state) {
  (void)state;
  uint64_t seed = 5;
  struct pz_arena arena;
  pz_arena_init(&arena);
  for (int i = 0; i < pz_test_part(500); i++) {
    struct pz_plan p = any_plan(&seed), read = pz_plan_default();
    struct pz_error err = {0};
    json_t *j = pz_plan_json(&p), *value;
    const char *key;
    size_t n = 0;
    json_object_foreach(j, key, value) {
      enum pz_plan_field f = pz_plan_field_find(key);
      assert_true(f < PZ_PLAN_FIELDS);
      if (try_read_plan_json_field(&read, f, value, &arena, &err) != PZ_OK)
        fail_msg("%s", err.message);
      if (!same_field(&p, &read, f)) fail_msg("%s is read as another value", key);
      n++;
    }
    assert_int_equal(n, PZ_PLAN_FIELDS - 2); /* all but the list and its length */
    json_decref(j);
  }
  pz_arena_release(&arena);
}

static void json_of_another_type_is_refused(void **state) {
  (void)state;
  struct pz_arena arena;
  pz_arena_init(&arena);
  json_t *const wrong[] = {json_integer(1), json_true(), json_string("8"), json_array(),
                           json_real(1.5)};
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)f);
    bool truth = x->kind == PZ_PLAN_KIND_FLAG || x->kind == PZ_PLAN_KIND_SWITCH;
    bool word = x->kind == PZ_PLAN_KIND_CHOICE || x->kind == PZ_PLAN_KIND_SET;
    bool text = x->kind == PZ_PLAN_KIND_TEXT, real = x->kind == PZ_PLAN_KIND_REAL;
    if (x->kind >= PZ_PLAN_KIND_LIST) continue;
    for (int i = 0; i < 5; i++) {
      struct pz_plan p = pz_plan_default();
      struct pz_error err = {0};
      bool right = (i == 0 && !truth && !word && !text) || (i == 1 && truth) || (i == 2 && text) ||
                   (i == 4 && real && x->most > 1.5);
      enum pz_status status =
          try_read_plan_json_field(&p, (enum pz_plan_field)f, wrong[i], &arena, &err);
      assert_int_equal(status, right ? PZ_OK : PZ_BAD_INPUT);
      if (right) continue;
      assert_true(strstr(err.message, x->name) == err.message);
      assert_non_null(strstr(err.message, "accepted: "));
      assert_true(pz_plan_is_unset(&p, (enum pz_plan_field)f));
    }
  }
  for (int i = 0; i < 5; i++) json_decref(wrong[i]);
  pz_arena_release(&arena);
}

/* ---- sets of fields ------------------------------------------------------------------------- */

static void fields_that_are_given(void **state) {
  (void)state;
  uint64_t seed = 7;
  struct pz_plan none = pz_plan_default();
  assert_true(none.size == sizeof none && pz_plan_given(&none) == 0);
  for (int j = 0; j < PZ_PLAN_FIELDS; j++) {
    enum pz_plan_field f = (enum pz_plan_field)j;
    const struct pz_plan_field_info *x = pz_plan_field(f);
    struct pz_plan p = none;
    struct pz_error err = {0};
    assert_true(pz_plan_is_unset(&none, f));
    assert_int_equal(pz_plan_field_find(x->name), f);
    assert_true(x->help && *x->help);
    if (x->kind >= PZ_PLAN_KIND_LIST) continue;
    set_any(&p, f, &seed);
    assert_true(pz_plan_given(&p) == UINT64_C(1) << f && !pz_plan_is_unset(&p, f));
    assert_int_equal(pz_plan_set(&p, x->name, "", &err), PZ_OK);
    assert_true(pz_plan_given(&p) == 0);
    set_any(&p, f, &seed);
    assert_int_equal(try_read_plan_json_field(&p, f, json_null(), NULL, &err), PZ_OK);
    assert_true(pz_plan_given(&p) == 0);
  }
  const int64_t stages[] = {1};
  struct pz_plan p = pz_plan_default();
  struct pz_error err = {0};
  p.recompute = PZ_RECOMPUTATION_FULL;
  p.stage_recompute = stages;
  assert_int_equal(try_fill_plan(&p, NULL, &err), PZ_BAD_USE); /* no length */
  p.pp = 3;
  p.n_stage_recompute = 1;
  err = (struct pz_error){0};
  assert_int_equal(try_fill_plan(&p, NULL, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "1 numbers; accepted: pp of them, 3"));
  none.stage_recompute = stages;
  assert_true(pz_plan_given(&none) == PZ_PLAN_PIN(STAGE_RECOMPUTE));
  assert_true(pz_plan_searched() ==
              (PZ_PLAN_PIN(MBS) | PZ_PLAN_PIN(HALVES) | PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(SP) |
               PZ_PLAN_PIN(CP) | PZ_PLAN_PIN(EP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(VPP) |
               PZ_PLAN_PIN(DP) | PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(RECOMPUTE) | PZ_PLAN_PIN(OVERLAP) |
               PZ_PLAN_PIN(PIPELINE)));
  assert_int_equal(pz_plan_field_find("sequence_parallel"), PZ_PLAN_FIELDS);
}

static void wrong_values_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *name, *value, *message;
  } bad[] = {
      {"tensor", "8", "a plan has no field 'tensor'; accepted: framework, devices, seq, batch"},
      {"stage_recompute", "1,2", "a plan has no field 'stage_recompute'; accepted: framework"},
      {"tp", "0", "tp is '0'; accepted: an integer from 1 to 1048576"},
      {"tp", "1.5", "tp is '1.5'; accepted: an integer from 1"},
      {"tp", "8x", "tp is '8x'; accepted: an integer"},
      {"tp", "nan", "tp is 'nan'; accepted: an integer"},
      {"tp", "1e300", "tp is '1e300'; accepted: an integer"},
      {"zero", "4", "zero is '4'; accepted: an integer from 0 to 3"},
      {"imbalance", "0.5", "imbalance is '0.5'; accepted: a number from 1 to 1000000"},
      {"sp", "2", "sp is '2'; accepted: on, off"},
      {"mtp", "yes", "mtp is 'yes'; accepted: on, off"},
      {"framework", "torched", "framework is 'torched'; accepted: megatron, "},
      {"recompute", "Fully",
       "recompute is 'Fully'; accepted: none, selective, full, alternate, half"},
      {"pipeline", "1f1b,gpipe", "pipeline is '1f1b,gpipe'; accepted: 1f1b, interleaved, gpipe"},
      {"overlap", "grad,parm",
       "overlap is 'parm'; accepted: none, all, or a list of grad, param, tp, p2p, ep"},
      {"overlap", "grad,,tp", "overlap is ''; accepted: none, all, or a list of grad"},
      {"recompute_modules", "none,mlp", "recompute_modules is 'none'; accepted: none, all, or"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_plan p = pz_plan_default();
    struct pz_error err = {0};
    assert_int_equal(pz_plan_set(&p, bad[i].name, bad[i].value, &err), PZ_BAD_USE);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
    assert_true(pz_plan_given(&p) == 0);
  }
  struct pz_plan p = pz_plan_default();
  assert_int_equal(pz_plan_set(NULL, "tp", "8", NULL), PZ_BAD_USE);
  assert_int_equal(pz_plan_set(&p, NULL, "8", NULL), PZ_BAD_USE);
  assert_int_equal(pz_plan_set(&p, "tp", NULL, NULL), PZ_BAD_USE);
  assert_int_equal(pz_plan_set(&p, "overlap", "all", NULL), PZ_OK);
  assert_int_equal(p.overlap, PZ_OVERLAP_ALL);
  assert_int_equal(pz_plan_set(&p, "overlap", "tp grad", NULL), PZ_OK);
  assert_int_equal(p.overlap, PZ_OVERLAP_TP | PZ_OVERLAP_GRAD);
  assert_int_equal(pz_plan_set(&p, "sp", "false", NULL), PZ_OK);
  assert_int_equal(p.sp, 0);
}

/* ---- filled in ------------------------------------------------------------------------------ */

static struct pz_plan filled(struct pz_plan p, const struct pz_chip *chip) {
  struct pz_error err = {0};
  if (try_fill_plan(&p, chip, &err) != PZ_OK) fail_msg("%s", err.message);
  return p;
}

static void defaults_are_the_frameworks(void **state) {
  (void)state;
  /* derived from the model, or nothing unless it is asked for */
  const uint64_t open =
      PZ_PLAN_PIN(SEQ) | PZ_PLAN_PIN(ETP) | PZ_PLAN_PIN(MTP) | PZ_PLAN_PIN(FIRST_LAYERS) |
      PZ_PLAN_PIN(LAST_LAYERS) | PZ_PLAN_PIN(RECOMPUTE_LAYERS) | PZ_PLAN_PIN(RECOMPUTE_MODULES) |
      PZ_PLAN_PIN(STAGE_RECOMPUTE) | PZ_PLAN_PIN(SAVED) | PZ_PLAN_PIN(MOMENT_BYTES) |
      PZ_PLAN_PIN(FUSED_LOSS) | PZ_PLAN_PIN(MAIN_PARAMS) | PZ_PLAN_PIN(OFFLOAD) |
      PZ_PLAN_PIN(OFFLOAD_LAYERS) | PZ_PLAN_PIN(OFFLOAD_MODULES) | PZ_PLAN_PIN(OFFLOAD_FRACTION) |
      PZ_PLAN_PIN(FP8_RECIPE) | PZ_PLAN_PIN(BF16_LAYERS) | PZ_PLAN_PIN(BF16_FIRST_LAYERS) |
      PZ_PLAN_PIN(BF16_MODULES) | PZ_PLAN_PIN(MEMORY_MARGIN) | PZ_PLAN_PIN(PEFT) |
      PZ_PLAN_PIN(N_STAGE_RECOMPUTE);
  const uint64_t all = (UINT64_C(1) << PZ_PLAN_FIELDS) - 1;
  struct pz_chip gpu, tpu;
  assert_int_equal(pz_test_chip_read("h100", &gpu, NULL), PZ_OK);
  assert_int_equal(pz_test_chip_read("tpuv4-real", &tpu, NULL), PZ_OK);
  struct pz_plan p = filled(pz_plan_default(), &gpu);
  assert_int_equal(p.framework, pz_framework_find("megatron"));
  assert_int_equal(filled(pz_plan_default(), &tpu).framework, pz_framework_find("maxtext"));
  for (int f = 0; pz_framework_names[f]; f++) {
    const struct pz_framework_defaults *d = &pz_framework_at(f)->plan;
    struct pz_plan wide = pz_plan_default();
    wide.framework = f;
    p = filled(wide, &gpu);
    assert_true(pz_plan_given(&p) == (all & ~open));
    assert_true(p.devices == 1 && p.batch == 1 && p.sp == 0 && p.shard == 1 && p.cp == 1);
    assert_true(p.zero == d->zero &&
                (p.execution == (int)d->execution || d->execution == PZ_EXECUTION_SCHEDULED) &&
                p.attention == (int)d->attention && p.grad_bytes == d->grad_bytes);
    assert_int_equal(p.recompute, pz_framework_at(f)->recompute_modules ? PZ_RECOMPUTATION_SELECTIVE
                                                                        : (int)d->recompute);
    assert_string_equal(p.attention_library, d->attention_library ? d->attention_library : "");
    wide.tp = 2;
    wide.devices = 32;
    wide.mbs = 2;
    p = filled(wide, &tpu);
    assert_true(p.sp == 1 && p.dp == 16 && p.batch == 32 && p.shard == 16 && p.framework == f);
    wide.pp = 4;
    wide.vpp = 2;
    wide.batch = 64;
    assert_int_equal(filled(wide, &gpu).pipeline, PZ_PIPELINE_INTERLEAVED);
    wide.vpp = 0;
    wide.pipeline = PZ_PIPELINE_ZB_V;
    assert_int_equal(filled(wide, &gpu).vpp, 2);
  }
}

/* ---- plans of any kind ---------------------------------------------------------------------- */

enum { MOST_STAGES = 16 };

static int64_t power(uint64_t *seed, int most) { return INT64_C(1) << pick(seed, most + 1); }

/* A plan that a user could ask for; half of its fields are left open. */
static struct pz_plan asked_plan(uint64_t *seed, int framework) {
  struct pz_plan p = pz_plan_default();
  p.framework = framework;
  if (pick(seed, 2)) p.tp = pick(seed, 12) ? power(seed, 3) : 3;
  if (pick(seed, 3) == 0) p.cp = power(seed, 2);
  if (pick(seed, 2)) p.pp = pick(seed, 8) ? power(seed, 4) : 3;
  if (pick(seed, 2)) p.dp = pick(seed, 8) ? power(seed, 3) : 6;
  if (pick(seed, 2)) p.ep = pick(seed, 8) ? power(seed, 3) : 3;
  if (pick(seed, 8) == 0) p.etp = pick(seed, 4) ? power(seed, 2) : 3;
  if (p.pp > 1 && pick(seed, 2)) p.vpp = 1 + pick(seed, pick(seed, 16) ? 3 : 80);
  if (pick(seed, 2)) p.pipeline = (int)pick(seed, PZ_PIPELINES);
  p.mbs = power(seed, 1);
  if (pick(seed, 4)) p.batch = p.mbs * (p.dp ? p.dp : 1) * (1 + pick(seed, 40));
  p.seq = pick(seed, 8) ? 1024 : pick(seed, 2) ? 1 << 17 : 1025 + pick(seed, 64);
  if (pick(seed, 4) == 0) p.sp = (int)pick(seed, 2);
  if (pick(seed, 2)) p.zero = (int)pick(seed, 4);
  if (pick(seed, 4) == 0) p.shard = power(seed, 3);
  if (pick(seed, 2)) p.recompute = (int)pick(seed, PZ_RECOMPUTATIONS);
  if (p.recompute == PZ_RECOMPUTATION_FULL && pick(seed, 2)) p.recompute_layers = 1 + pick(seed, 3);
  if (p.recompute == PZ_RECOMPUTATION_SELECTIVE && pick(seed, 2))
    p.recompute_modules = 1 << pick(seed, 7);
  if (pick(seed, 2)) p.overlap = (int)pick(seed, PZ_OVERLAP_ALL + 1);
  if (pick(seed, 4) == 0) p.execution = (int)pick(seed, PZ_EXECUTIONS);
  if (pick(seed, 4) == 0) p.cuda_graphs = (int)pick(seed, PZ_GRAPH_ALL + 1);
  if (pick(seed, 8) == 0) p.attention = (int)pick(seed, 2);
  if (pick(seed, 4) == 0) p.attention_library = libraries[pick(seed, 5)];
  if (pick(seed, 8) == 0) p.precision = PZ_PRECISION_FP16;
  if (pick(seed, 4) == 0) p.dispatcher = (int)pick(seed, PZ_DISPATCHERS);
  if (pick(seed, 8) == 0) p.grad_bytes = (double)power(seed, 3);
  if (pick(seed, 8) == 0) p.precision = PZ_PRECISION_FP8;
  if (pick(seed, 8) == 0) p.mtp = true;
  if (pick(seed, 4) == 0) p.cp_form = (int)pick(seed, 2);
  if (pick(seed, 8) == 0) p.first_layers = 1 + pick(seed, 3);
  return p;
}

static void filling_again_changes_nothing(void **state) {
  (void)state;
  uint64_t seed = 11;
  struct pz_chip chip;
  int n = 0;
  assert_int_equal(pz_test_chip_read("h100", &chip, NULL), PZ_OK);
  for (int i = 0; i < pz_test_part(20000); i++) {
    struct pz_plan asked = asked_plan(&seed, (int)pick(&seed, 16) - 1), p = asked, again;
    struct pz_error err = {0};
    if (try_fill_plan(&p, &chip, &err) != PZ_OK) {
      assert_non_null(strstr(err.message, "accepted: "));
      for (int f = 0; f < PZ_PLAN_FIELDS; f++) /* as it was */
        assert_true(same_field(&p, &asked, (enum pz_plan_field)f));
      continue;
    }
    again = p;
    assert_int_equal(try_fill_plan(&again, &chip, &err), PZ_OK);
    for (int j = 0; j < PZ_PLAN_FIELDS; j++) {
      enum pz_plan_field f = (enum pz_plan_field)j;
      if (!same_field(&p, &again, f)) fail_msg("%s is filled twice", pz_plan_field(f)->name);
      bool derived = (f == PZ_PLAN_SP && p.tp == 1) || (f == PZ_PLAN_PIPELINE && p.pp == 1) ||
                     (f == PZ_PLAN_VPP && pz_is_v_pipeline((enum pz_pipeline_order)p.pipeline));
      if (!pz_plan_is_unset(&asked, f) && !derived && !same_field(&p, &asked, f))
        fail_msg("%s was given, and is filled in otherwise", pz_plan_field(f)->name);
    }
    assert_true(p.devices == pz_plan_devices(&p) && p.batch % (p.mbs * p.dp) == 0);
    n++;
  }
  print_message("  %d plans\n", n);
  assert_true(n > pz_test_part(4000));
}

/* ---- plan files ----------------------------------------------------------------------------- */

static struct pz_run_plan read_file(const char *text, struct pz_arena *arena) {
  struct pz_run_plan r;
  struct pz_error err = {0};
  if (try_read_plan_file("plan.json", text, strlen(text), arena, &r, &err) != PZ_OK)
    fail_msg("%s", err.message);
  return r;
}

static void files_are_read_back(void **state) {
  (void)state;
  uint64_t seed = 13;
  struct pz_arena arena;
  pz_arena_init(&arena);
  for (int i = 0; i < pz_test_part(300); i++) {
    struct pz_run_plan r = {.model = "gpt2", .chip = "h100", .plan = pz_plan_default()};
    struct pz_error err = {0};
    char *text = NULL;
    if (i % 2) r.plan = any_plan(&seed);
    if (i % 3) r.config = "{\"model_type\":\"gpt2\",\"n_layer\":3}";
    json_t *j = pz_run_plan_json(&r);
    assert_int_equal(pz_json_text(j, &text, &err), PZ_OK);
    struct pz_run_plan read = read_file(text, &arena);
    assert_string_equal(read.model, "gpt2");
    assert_string_equal(read.chip, "h100");
    assert_null(read.cluster);
    assert_true(!read.config == !r.config && (!r.config || strstr(read.config, "\"n_layer\":3")));
    for (int f = 0; f < PZ_PLAN_FIELDS; f++)
      if (!same_field(&read.plan, &r.plan, (enum pz_plan_field)f))
        fail_msg("%s is read as another value", pz_plan_field((enum pz_plan_field)f)->name);
    assert_string_equal(read.from[PZ_RUN_MODEL], "given");
    assert_null(read.from[PZ_RUN_CLUSTER]);
    pz_free(text);
    json_decref(j);
  }
  struct pz_run_plan r = read_file(
      "{\"model\":\"gpt2\",\"chip\":\"h100\",\"step_s\":1,\"plan\":{\"tp\":8,\"sp\":true}}",
      &arena);
  assert_true(r.plan.tp == 8 && r.plan.sp == 1);
  assert_true(pz_plan_given(&r.plan) == (PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(SP)));
  assert_true(r.from[PZ_PLAN_TP] && !r.from[PZ_PLAN_PP]);
  r = read_file("{\"model\":\"gpt2\",\"chip\":\"mine\",\"chip_file\":\"./mine.json\",\"plan\":"
                "{\"tp\":2,\"pp\":2,\"dp\":4,\"shard\":4,\"sp\":true,\"stage_recompute\":[4,0]}}",
                &arena);
  assert_string_equal(r.chip, "./mine.json");
  assert_true(r.plan.n_stage_recompute == 2 && r.plan.stage_recompute[0] == 4);
  struct pz_plan given = pz_plan_default();
  given.tp = 1;
  pz_run_plan_change(&r, &given);
  assert_true(r.plan.tp == 1 && r.plan.dp == 0 && r.plan.shard == 0 && r.plan.sp < 0);
  assert_true(r.plan.pp == 2 && r.plan.stage_recompute);
  given.pp = 1;
  pz_run_plan_change(&r, &given);
  assert_true(r.plan.pp == 1 && !r.plan.stage_recompute);
  pz_arena_release(&arena);
}

static void wrong_files_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } bad[] = {
      {"", "plan.json"},
      {"[]", "plan.json"},
      {"{\"tp\":8}", "plan.json: no model; accepted: "},
      {"{\"model\":7}", "plan.json: model is an integer"},
      {"{\"model\":\"gpt2\",\"tensor\":8}",
       "plan.json: unknown field 'tensor'; accepted: model, chip, cluster, config, framework"},
      {"{\"model\":\"gpt2\",\"plan\":{\"pp\":2,\"peak\":8}}", "unknown field 'peak'"},
      {"{\"model\":\"gpt2\",\"plan\":8}", "plan.json: plan is an integer"},
      {"{\"model\":\"gpt2\",\"n_stage_recompute\":1}", "unknown field 'n_stage_recompute'"},
      {"{\"model\":\"gpt2\",\"stage_recompute\":[]}", "stage_recompute is []; accepted: a list"},
      {"{\"model\":\"gpt2\",\"stage_recompute\":[1,-1]}", "stage_recompute[1] is -1; accepted"},
      {"{\"model\":\"gpt2\",\"plan\":{},\"chip_file\":1}", "chip_file is an integer; accepted"},
      {"{\"model\":\"gpt2\",\"config\":\"x\"}", "config is a string"},
      {"{\"model\":\"gpt2\",\"tp\":\"8\"}", "tp is \"8\"; accepted: a number from 1 to 1048576"},
      {"{\"model\":\"gpt2\",\"tp\":-8}", "tp is '-8'; accepted: an integer from 1"},
      {"{\"model\":\"gpt2\",\"recompute\":\"some\"}", "recompute is 'some'; accepted: none"},
  };
  struct pz_arena arena;
  pz_arena_init(&arena);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_run_plan r;
    struct pz_error err = {0};
    assert_int_equal(
        try_read_plan_file("plan.json", bad[i].text, strlen(bad[i].text), &arena, &r, &err),
        PZ_BAD_INPUT);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
  pz_arena_release(&arena);
}

/* ---- rules of frameworks -------------------------------------------------------------------- */

/* What searches and launch scripts may hold beside what is filled in. */
static void change_plan(uint64_t *seed, struct pz_plan *p, int64_t *stages) {
  p->halves = pick(seed, 8) == 0;
  if (pick(seed, 8) == 0) p->execution = PZ_EXECUTION_SCHEDULED;
  switch (pick(seed, 8)) {
  case 0: p->shard = 1 + pick(seed, 8); break;
  case 1: p->pipeline = (int)pick(seed, PZ_PIPELINES); break;
  case 2: p->overlap = (int)pick(seed, PZ_OVERLAP_ALL + 1); break;
  case 3: p->batch = p->mbs * p->dp * (1 + pick(seed, 20)); break;
  case 4:
    p->recompute = PZ_RECOMPUTATION_FULL;
    p->recompute_modules = 0;
    p->stage_recompute = stages;
    p->n_stage_recompute = p->pp;
    for (int k = 0; k < MOST_STAGES; k++) stages[k] = pick(seed, 4);
    break;
  case 5: p->moment_bytes = 1 + (double)pick(seed, 4); break;
  case 6: p->fused_loss = true; break;
  case 7:
    p->offload = (int)pick(seed, PZ_OFFLOAD_ALL + 1);
    if (p->offload & PZ_OFFLOAD_ACTIVATIONS) {
      p->offload_layers = pick(seed, 2) ? pick(seed, 4) : 0;
      p->offload_modules = pick(seed, 2) ? (int)pick(seed, PZ_AWAY_ALL + 1) : 0;
    }
    p->offload_fraction = p->offload & PZ_OFFLOAD_OPTIMIZER ? (double)pick(seed, 5) / 4 : 0;
    p->main_params = (int)pick(seed, PZ_MAIN_KINDS + 1) - 1;
    if (pick(seed, 2)) p->moment_bytes = 2;
    break;
  default: break;
  }
  static const char *const adapters[] = {"lora:8:all", "lora:7:linear_fc2", "lora:16:q+v:0.1"};
  uint64_t own = *seed + 1; /* the other draws stay as they are */
  uint64_t loss = *seed + 2;
  if (pick(&loss, 8) == 0) p->fused_loss = true;
  if (pick(&own, 4) == 0) p->peft = adapters[pick(&own, 3)];
  if (pick(&own, 4)) return;
  p->precision = pick(&own, 2) ? PZ_PRECISION_NVFP4 : PZ_PRECISION_FP8;
  p->fp8_recipe = p->precision == PZ_PRECISION_FP8 ? (int)pick(&own, PZ_FP8_RECIPES) : -1;
  if (pick(&own, 2)) p->bf16_layers = 1 + pick(&own, 40);
  if (pick(&own, 2)) p->bf16_first_layers = 1 + pick(&own, 40);
  if (pick(&own, 4) == 0) p->bf16_modules = 1 + (int)pick(&own, PZ_WIDE_ALL);
  p->act_precision = pick(&own, 4) == 0;
}

/* Count the rules that refuse the plan; the first of them is the one that is named. */
static void try_rules(const struct pz_plan *p, const struct pz_model_shape *m, int *refused) {
  struct pz_rule_list list = pz_rule_list_of(p->framework);
  struct pz_error why = {0};
  int by = -1;
  for (int i = 0; i < list.n; i++)
    if (rules[list.rule[i]].refuses(p, m, pz_plan_framework(p))) {
      if (by < 0) by = list.rule[i];
      refused[list.rule[i]]++;
    }
  bool can = pz_framework_can_run(p, m, &why);
  assert_int_equal(can, by < 0);
  if (can) return;
  assert_int_equal(why.status, PZ_BAD_USE);
  if (strncmp(why.message, pz_plan_framework(p)->name, strlen(pz_plan_framework(p)->name)) != 0 ||
      !strstr(why.message, rules[by].message) || !strstr(why.message, "; accepted: "))
    fail_msg("%s: %s", rules[by].name, why.message);
}

/* Overlap as the framework has it is refused by none of the rules about overlap, and asking again changes nothing. */
static void try_overlap(const struct pz_plan *p, const struct pz_model_shape *m) {
  struct pz_rule_list list = pz_rule_list_of(p->framework);
  struct pz_plan x = *p;
  x.overlap = pz_framework_overlap(p, m);
  assert_int_equal(pz_framework_overlap(&x, m), x.overlap);
  for (int i = 0; i < list.n; i++) {
    const struct rule *r = &rules[list.rule[i]];
    if ((r->drops || r->adds) && r->refuses(&x, m, pz_plan_framework(&x)))
      fail_msg("%s refuses overlap %d, made of %d", r->name, x.overlap, p->overlap);
  }
}

/* A rule looks at the ZeRO stage, the division of layers and the recomputation only if its group says so.  Overlaps are
 * settled before, as a search has it. */
static void try_groups(const struct pz_plan *p, const struct pz_model_shape *m) {
  struct pz_rule_list list = pz_rule_list_of(p->framework);
  struct pz_plan a = *p, b;
  a.stage_recompute = NULL;
  a.recompute = PZ_RECOMPUTATION_NONE;
  a.recompute_layers = a.recompute_modules = 0;
  a.overlap = pz_framework_overlap(&a, m);
  for (int k = 0; k < 8; k++) {
    b = a;
    if (k & 1) b.recompute = PZ_RECOMPUTATION_FULL;
    if (k & 2) b.zero = (a.zero + 1) % 4;
    if (k & 4 && a.pp * a.vpp > 2 && m->layers > a.pp * a.vpp + 2)
      b.first_layers = b.last_layers = 1;
    b.overlap = p->overlap;
    b.overlap = pz_framework_overlap(&b, m);
    for (int i = 0; i < list.n; i++) {
      const struct rule *r = &rules[list.rule[i]];
      bool may = r->group == PZ_RULE_RECOMPUTES || (r->group == PZ_RULE_SHARDS && k & 6);
      if (!may &&
          r->refuses(&a, m, pz_plan_framework(p)) != r->refuses(&b, m, pz_plan_framework(p)))
        fail_msg("%s looks at more than it says", r->name);
    }
  }
}

/* The form that a framework recomputes whole layers in is one that it takes. */
static void try_form(const struct pz_plan *p, const struct pz_model_shape *m) {
  struct pz_plan x = *p;
  enum pz_recompute_form form = pz_framework_recompute_form(p);
  unsigned bit = framework_bit(pz_plan_framework(p));
  x.recompute = PZ_RECOMPUTATION_FULL;
  x.stage_recompute = NULL;
  x.recompute_layers = form == PZ_RECOMPUTE_ALL ? 0 : 1;
  for (int i = 0; i < RULES; i++)
    if (rules[i].form && rules[i].frameworks & bit)
      assert_false(rules[i].refuses(&x, m, pz_plan_framework(&x)));
}

static void every_rule_refuses(void **state) {
  (void)state;
  uint64_t seed = 17;
  struct pz_model_shape shapes[128] = {{.name = "unknown", .family = PZ_SHAPE_OTHER}};
  struct pz_chip chip;
  int n_shapes = 1, latent = 0, refused[RULES] = {0}, plans = 0, frameworks = 0, missed = 0;
  int64_t stages[MOST_STAGES];
  assert_int_equal(pz_test_chip_read("h100", &chip, NULL), PZ_OK);
  while (pz_framework_names[frameworks]) frameworks++;
  for (size_t i = 0; pz_preset_name(i) && n_shapes < 128; i++)
    n_shapes += try_load_model_shape(pz_preset_name(i), &shapes[n_shapes], NULL) == PZ_OK;
  assert_true(n_shapes > 10);
  while (latent < n_shapes && !shapes[latent].predict_layers) latent++;
  assert_true(latent < n_shapes);
  for (int i = 0; i < 200000; i++) {
    struct pz_model_shape m = shapes[pick(&seed, 4) ? pick(&seed, n_shapes) : latent];
    struct pz_plan p = asked_plan(&seed, i % frameworks);
    if (m.predict_layers && pick(&seed, 2)) m.predict_layers = 2;
    if (m.kv_rank && pick(&seed, 2)) m.rope = PZ_ROPE_PLAIN;
    if (m.layers && p.pp > 1 && pick(&seed, 8) == 0) { /* embedding and head alone in a chunk */
      p.vpp = (m.layers + 2) / p.pp;
      p.pipeline = PZ_AS_FRAMEWORK;
      p.batch = p.mbs * p.pp * (p.dp ? p.dp : 1);
    }
    if (try_fill_plan(&p, &chip, NULL) != PZ_OK) continue;
    change_plan(&seed, &p, stages);
    if (m.positions && pick(&seed, 8) == 0) p.seq = 4 * m.positions;
    if (m.layers && !can_chunk_layers(&p, m.layers)) continue;
    plans++;
    try_rules(&p, &m, refused);
    try_overlap(&p, &m);
    try_form(&p, &m);
    try_groups(&p, &m);
  }
  print_message("  %d plans of %d models\n", plans, n_shapes);
  for (int i = 0; i < RULES; i++) {
    assert_non_null(strstr(rules[i].message, "; accepted: "));
    assert_true(*rules[i].source);
    if (refused[i]) continue;
    print_message("  %s refuses no plan\n", rules[i].name);
    missed++;
  }
  assert_int_equal(missed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_read_back),
      cmocka_unit_test(json_is_read_back),
      cmocka_unit_test(json_of_another_type_is_refused),
      cmocka_unit_test(fields_that_are_given),
      cmocka_unit_test(wrong_values_are_refused),
      cmocka_unit_test(defaults_are_the_frameworks),
      cmocka_unit_test(filling_again_changes_nothing),
      cmocka_unit_test(files_are_read_back),
      cmocka_unit_test(wrong_files_are_refused),
      cmocka_unit_test(every_rule_refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
