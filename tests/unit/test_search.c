/* The search: the same answer as every chip evaluated by itself, certificates that hold, rounds of other hands, and what is
 * told beside the answer. */
#include "unit/core_borders.h"
#include "unit/search_borders.h"
#include "unit/testing.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "study/pareto.h"
#include "study/robustness.h"
#include "unit/chip_borders.h"
#include "unit/evaluate_calls.h"
#include "unit/studying.h"

static uint64_t seed = 3;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

/* A cluster that was scaled out comes back from the inputs as it was; one that has too few devices
 * for the study is refused before anything is done. */
static void clusters_of_studies_reach_all_devices(void **state) {
  (void)state;
  static const char eight[] = "{\"name\":\"eight\",\"devices\":8,\"levels\":[{\"name\":\"flat\","
                              "\"devices\":8,\"bytes_per_s\":1e9}]}";
  struct pz_study_options o = paper_study(), back;
  struct pz_study a, b;
  struct pz_error err = {0};
  struct pz_arena arena;
  pz_arena_init(&arena);
  o.cluster = "dgx-h100";
  o.devices = 5000;
  assert_int_equal(pz_study_init(&a, &o, 1, &err), PZ_OK);
  json_t *inputs = pz_study_inputs(&a);
  assert_int_equal(pz_study_from_inputs(inputs, &arena, &back, &err), PZ_OK);
  assert_int_equal(pz_study_init(&b, &back, 1, &err), PZ_OK);
  assert_true(b.task.net.scales && b.task.net.devices == 5000);
  assert_string_equal(b.task.net.level[1].name, "infiniband");
  assert_memory_equal(b.task.net.level, a.task.net.level, sizeof a.task.net.level);
  pz_study_release(&b);
  pz_study_release(&a);
  json_decref(inputs);
  o.cluster_text = eight;
  assert_int_equal(pz_study_init(&a, &o, 1, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "devices 5000: cluster eight has 8 devices"));
  o.devices = 8;
  o.tp = (struct pz_choices){{16}, 1};
  err = (struct pz_error){0};
  assert_int_equal(pz_study_init(&a, &o, 1, &err), PZ_BAD_USE);
  assert_non_null(
      strstr(err.message, "tensor-parallel degree 16 is larger than the number of devices 8"));
  pz_arena_release(&arena);
}

/* ---- random studies ------------------------------------------------------------------------- */

/* So many random spaces: as PHAZE_SPACES says, else n or a part of them. */
static int spaces(int n) {
  const char *many = getenv("PHAZE_SPACES");
  int part = pz_test_part(n);
  return many ? atoi(many) : part > 2 ? part : 2;
}

static void list_axis(char *text, size_t size, const char *name, uint32_t most_power,
                      uint32_t least_power) {
  size_t at = strlen(text);
  uint32_t first = least_power + draw(most_power - least_power + 1);
  at += (size_t)snprintf(text + at, size - at, ",\"%s\":[%u", name, 1u << first);
  if (draw(2) && first < most_power)
    snprintf(text + at, size - at, ",%u]", 1u << (first + 1 + draw(most_power - first)));
  else
    snprintf(text + at, size - at, "]");
}

/* A space of a few chips, some with a part of the area that they have to take. */
static const char *draw_space(void) {
  static char text[512];
  snprintf(text, sizeof text, "{\"name\":\"small\",\"least_part\":%s", draw(3) ? "0" : "0.02");
  list_axis(text, sizeof text, "tensor_cores", 5, 0);
  list_axis(text, sizeof text, "rows", 7, 3);
  list_axis(text, sizeof text, "cols", 7, 3);
  list_axis(text, sizeof text, "vector_cores", 6, 0);
  list_axis(text, sizeof text, "glb_mib", 6, 1);
  strcat(text, "}");
  return text;
}

static struct pz_study_options draw_original(int i) {
  static const char *const models[] = {"bert-base", "gpt2", "opt-125m"};
  struct pz_study_options o = pz_study_options_default();
  uint32_t first = draw(3);
  o.evaluator = PZ_EVALUATOR_ORIGINAL;
  o.space_text = draw_space();
  o.n_models = 1 + draw(2);
  for (uint32_t k = 0; k < o.n_models; k++) o.models[k] = models[(first + k) % 3];
  o.workload.seq = 32 << draw(3);
  o.mbs = (struct pz_choices){{1, 4}, 1 + (int)draw(2)};
  o.tp = (struct pz_choices){{1, 2}, 1 + (int)draw(2)};
  o.hbm_gib = (struct pz_choices){{1, 2, 8}, 3};
  o.devices = 4 << draw(5);
  o.batch = 16 << draw(4);
  o.objective = draw(2) ? PZ_OBJECTIVE_GEOMEAN : (enum pz_objective_kind)draw(6);
  o.steps = 200;
  if (i % 2) o.cluster = "dgx-a100"; /* 4 or 8 devices are in one node, the others are not */
  if (i % 8 > 4) o.assumptions = draw(1U << PZ_ASSUMPTIONS);
  return o;
}

/* Between those of the smallest and a little more than the largest chip. */
static void draw_limits(const struct pz_space *s, struct pz_study_options *o) {
  struct pz_box all = pz_box_all(s, 0);
  struct pz_boxed b;
  pz_boxed_set(s, &all, &b);
  o->limit_mm2 = b.least.mm2 + draw(100) / 80.0 * (b.most.mm2 - b.least.mm2);
  o->limit_watts = b.least.watts + draw(100) / 80.0 * (b.most.watts - b.least.watts);
  if (draw(3))
    o->limit_dollars = b.least.dollars + draw(100) / 80.0 * (b.most.dollars - b.least.dollars);
}

/* Two values of every axis, three of some. */
static const int few_values[PZ_AXES] = {3, 2, 2, 2, 2, 2, 3, 2, 2};

/* The text is the caller's to free, after the studies. */
static struct pz_study_options draw_training(int i, int most_kinds, char **text) {
  static const char *const models[] = {"gpt2", "bert-base@32x16", "opt-125m"};
  struct pz_study_options o = pz_study_options_default();
  struct pz_space s = random_space(&seed, most_kinds, few_values);
  json_t *json = pz_space_json(&s);
  uint32_t first = draw(3);
  o.space_text = *text = pz_json_dump(json, JSON_COMPACT);
  json_decref(json);
  o.n_models = 1 + draw(4) / 3;
  for (uint32_t k = 0; k < o.n_models; k++) o.models[k] = models[(first + k) % 3];
  o.each_model = draw(2);
  o.devices = 4;
  o.batch = 8;
  o.scale_up = 2;
  o.outer_bytes_per_s = 2e9;
  o.workload.seq = 64;
  o.gap = i % 2 ? 0 : 0.02;
  o.serial =
      pz_test_part(2) < 2 || (!getenv("PHAZE_SPACES") && i % 3); /* schedules take their time */
  o.objective = (enum pz_objective_kind)(i % PZ_OBJECTIVES);
  draw_limits(&s, &o);
  return o;
}

/* ---- every chip by itself ------------------------------------------------------------------- */

/* What a chip is worth with the best plans of all models, without any bound; *most: were their schedules proven. */
static double plain_value(struct pz_study *s, const struct pz_objective *o,
                          const struct pz_boxed *c, double *most) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS], least[PZ_SEARCH_MOST_MODELS];
  struct pz_error err = {0};
  for (uint32_t i = 0; i < o->n; i++) {
    struct pz_evaluation v;
    uint32_t m = o->models[i];
    enum pz_status status =
        s->options.evaluator == PZ_EVALUATOR_TRAINING
            ? evaluate_chip(s->evaluator, 0, c, m, PZ_EFFORT_FULL, HUGE_VAL, &v, &err)
            : pz_original_value_of_chip(pz_original_worker(s->evaluator, 0), &c->lo, m,
                                        (double)s->task.o.hbm_gib.v[s->task.o.hbm_gib.n - 1],
                                        PZ_EFFORT_FULL, &v, &err);
    assert_int_equal(status, PZ_OK);
    steps[m] = (struct pz_step_cost){v.step_s, v.dynamic_j};
    least[m] = (struct pz_step_cost){v.least_s, v.dynamic_j};
  }
  *most = pz_objective_value(o, least, &c->least);
  return pz_objective_value(o, steps, &c->least);
}

/* Every chip of the space, in the plainest way. */
struct brute_force {
  double *value; /* by chip; -1: beyond the limits */
  double best;   /* 0: none runs every model */
  double most;   /* of all, were their schedules proven */
  uint64_t id;
  uint32_t within;
};

static struct brute_force brute_force(struct pz_study *s, const struct pz_objective *o) {
  uint64_t n = (uint64_t)pz_space_chips(&s->space);
  struct brute_force f = {.value = pz_malloc(n * sizeof *f.value)};
  double least_mm2 = 0;
  for (uint64_t id = 0; id < n; id++) {
    struct pz_point p = pz_space_point(&s->space, id), best = pz_space_point(&s->space, f.id);
    struct pz_box one = pz_box_of(&p);
    struct pz_boxed c;
    pz_boxed_set(&s->space, &one, &c);
    f.value[id] = -1;
    if (pz_boxed_breaks(&c, &s->limits)) continue;
    double most, now = f.value[id] = plain_value(s, o, &c, &most), mm2 = c.least.mm2;
    f.most = fmax(f.most, most);
    f.within++;
    if (now < f.best || !(now > 0)) continue;
    if (now == f.best &&
        (mm2 > least_mm2 || (mm2 == least_mm2 && pz_point_order(&s->space, &best, &p) < 0)))
      continue;
    f.best = now;
    f.id = id;
    least_mm2 = mm2;
  }
  return f;
}

/* Boxes cover the space, and no chip is worth more than its box says. */
static void certificate_holds(const struct pz_study *s, const struct pz_objective_run *r,
                              const struct brute_force *f) {
  struct pz_closed_box *list = pz_malloc((r->n_boxes + 1) * sizeof *list);
  int64_t chips = 0;
  memcpy(list, r->boxes, r->n_boxes * sizeof *list);
  for (uint32_t i = 0; i < r->n_boxes; i++) {
    const struct pz_closed_box *b = &r->boxes[i];
    struct pz_point p = pz_box_point(&b->box);
    assert_true(b->end != PZ_BOX_OPEN && b->value <= b->bound * (1 + 1e-9));
    chips += pz_box_chips(&b->box);
    for (bool more = true; more;) { /* the next chip of the box, as an odometer */
      double value = f->value[pz_space_id(&s->space, &p)];
      if (b->end == PZ_BOX_INFEASIBLE)
        assert_true(value < 0);
      else
        assert_true(value <= b->bound * (1 + 1e-9));
      if (b->end == PZ_BOX_EVALUATED) assert_true(fabs(value - b->value) <= 1e-9 * value);
      more = false;
      for (enum pz_axis a = 0; a < PZ_AXES && !more; a++) {
        more = p.at[a] < b->box.hi[a];
        p.at[a] = more ? (uint8_t)(p.at[a] + 1) : b->box.lo[a];
      }
    }
  }
  assert_true(pz_boxes_cover(&s->space, list, r->n_boxes));
  assert_true(r->finished && chips == r->chips && r->closed == r->chips);
  assert_int_equal(r->infeasible + r->by_bound + r->n_partly + r->n_evaluated, r->chips);
  pz_free(list);
}

static void same_as_brute_force(struct pz_study *s, uint32_t i) {
  const struct pz_objective_run *r = &s->objective_run[i];
  struct brute_force f = brute_force(s, &r->objective);
  double gap = s->options.gap, hair = 1 + 1e-9;
  assert_true(r->found && r->value <= f.best * hair && f.best <= r->value * (1 + gap) * hair);
  assert_true(r->bound * hair >= f.best && r->bound >= r->value);
  if (!r->n_open) assert_true(r->bound <= fmax(r->value * (1 + gap), f.most) * hair);
  if (!(s->options.evaluator == PZ_EVALUATOR_TRAINING)) {
    assert_true(r->value == f.best);
    assert_int_equal(pz_space_id(&s->space, &r->best), f.id);
  }
  certificate_holds(s, r, &f);
  if (s->options.exhaustive) /* what bounds leave out has no plan at all */
    for (uint32_t k = 0; k < r->n_boxes; k++)
      assert_true(r->boxes[k].end == PZ_BOX_EVALUATED || r->boxes[k].end == PZ_BOX_INFEASIBLE ||
                  r->boxes[k].bound == 0);
  pz_free(f.value);
}

/* Nothing is found: nothing is there. */
static void nothing_by_brute_force(const struct pz_study_options *o) {
  struct pz_study_watch none = {.store = NULL};
  struct pz_study s;
  struct pz_error err = {0};
  bool any = false;
  enum pz_status status = pz_study_init(&s, o, 1, &err); /* no chip is within the limits, or: */
  if (status != PZ_OK) assert_int_equal(status, PZ_NO_ANSWER);
  if (status != PZ_OK) return;
  assert_int_equal(pz_study_prepare(&s, &none, &err), PZ_OK);
  for (uint32_t i = 0; i < s.n_runs; i++) {
    struct pz_objective objective = pz_study_objective(&s, i);
    struct brute_force f = brute_force(&s, &objective);
    any = any || !(f.best > 0);
    pz_free(f.value);
  }
  assert_true(any);
  pz_study_release(&s);
}

struct tally {
  int solved, nothing;
  int64_t chips, evaluated;
};

static void check_study(struct pz_study_options o, struct tally *t) {
  struct pz_study s;
  enum pz_status first = PZ_OK;
  char message[sizeof((struct pz_error *)0)->message] = "";
  for (int exhaustive = 0; exhaustive < 2; exhaustive++) {
    struct pz_error err = {0};
    o.exhaustive = exhaustive;
    enum pz_status status = run_study(&s, &o, 1 + (unsigned)exhaustive, NULL, &err);
    if (exhaustive) assert_int_equal(status, first);
    if (exhaustive && status != PZ_OK) assert_string_equal(err.message, message);
    first = status;
    strcpy(message, err.message);
    if (status != PZ_OK) {
      assert_int_equal(status, PZ_NO_ANSWER);
      continue;
    }
    for (uint32_t i = 0; i < s.n_runs; i++) {
      same_as_brute_force(&s, i);
      if (exhaustive) continue;
      t->chips += s.objective_run[i].chips;
      t->evaluated += s.objective_run[i].n_evaluated;
    }
    pz_study_release(&s);
  }
  t->solved += first == PZ_OK;
  t->nothing += first != PZ_OK;
  if (first != PZ_OK) nothing_by_brute_force(&o);
}

static void tell(const struct tally *t) {
  print_message("  %d spaces, %d where nothing fits; %lld of %lld chips evaluated\n", t->solved,
                t->nothing, (long long)t->evaluated, (long long)t->chips);
}

static void original_is_brute_force(void **state) {
  (void)state;
  struct tally t = {0};
  int n = spaces(30);
  for (int i = 0; i < n; i++) check_study(draw_original(i), &t);
  tell(&t);
  assert_true(2 * t.solved > n);
}

static void training_is_brute_force(void **state) {
  (void)state;
  struct tally t = {0};
  int n = spaces(6);
  for (int i = 0; i < n; i++) {
    char *text = NULL;
    check_study(draw_training(i, 2, &text), &t);
    pz_free(text);
  }
  tell(&t);
  assert_true(t.solved > 0);
}

/* Chips of listed spaces are evaluated by training plans as any others. */
static void listed_chips_are_evaluated_by_training(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{\"tensor_cores\":[4,8],\"rows\":[32,64],\"cols\":[32,64],\"vector_cores\":[2,8],"
      "\"glb_mib\":[4,16]}",
      "{\"tensor_cores\":[66,132],\"rows\":[32,64],\"cols\":[32],\"vector_cores\":[66,132],"
      "\"lanes\":[64,128],\"glb_mib\":[32,60],\"base\":\"h200\"}"};
  struct tally t = {0};
  for (int i = 0; i < 2; i++) {
    struct pz_study_options o = training_study();
    o.space_text = texts[i];
    o.n_models = 1;
    o.limit_watts = o.limit_mm2 = 0;
    if (!i) o.budget = "17.4";
    check_study(o, &t);
  }
  assert_int_equal(t.solved, 2);
}

/* Schedules within more watts may be longer by their gap. */
static void more_limit_is_never_worse(void **state) {
  (void)state;
  for (int i = 0; i < pz_test_part(20); i++) {
    struct pz_study a, b;
    struct pz_error err = {0};
    char *text = NULL;
    struct pz_study_options o = draw_training(i, 1, &text);
    o.gap = 0;
    o.objective = PZ_OBJECTIVE_GEOMEAN;
    enum pz_status before = run_study(&a, &o, 1, NULL, &err);
    o.limit_mm2 *= 1 + draw(100) / 100.0;
    o.limit_watts *= 1 + draw(100) / 100.0;
    o.limit_dollars *= 1 + draw(100) / 100.0;
    enum pz_status after = run_study(&b, &o, 1, NULL, &err);
    assert_true(before == PZ_NO_ANSWER || after == PZ_OK);
    if (before == PZ_OK) {
      const struct pz_objective_run *less = &a.objective_run[a.n_runs - 1],
                                    *more = &b.objective_run[b.n_runs - 1];
      if (!(more->bound >= less->value * (1 - 1e-9) && more->value >= less->value * 0.99))
        fail_msg("study %d: %.9g to %.9g, with lower limits %.9g to %.9g", i, more->value,
                 more->bound, less->value, less->bound);
    }
    if (before == PZ_OK) pz_study_release(&a);
    if (after == PZ_OK) pz_study_release(&b);
    pz_free(text);
  }
}

/* ---- rounds of other hands ------------------------------------------------------------------ */

static enum pz_status run_with(struct kept_rounds *k, const struct pz_study_options *o,
                               struct pz_error *err) {
  struct pz_round_store store = kept_rounds_store(k);
  struct pz_study_watch watch = {.store = &store};
  struct pz_study s;
  enum pz_status status = run_study(&s, o, 1, &watch, err);
  if (status == PZ_OK) pz_study_release(&s);
  return status;
}

static void refuses(const struct kept_rounds *rounds, const struct pz_study_options *o) {
  static struct kept_rounds copy;
  struct pz_error err = {0};
  copy_kept_rounds(&copy, rounds, rounds->n);
  assert_int_equal(run_with(&copy, o, &err), PZ_BAD_INPUT);
  if (!strstr(err.message, "is not of this search")) fail_msg("%s", err.message);
  free_kept_rounds(&copy);
}

/* Cut, with bytes more, changed places, of another search, with boxes beyond the space, NaN or numbers of nothing. */
static void rounds_of_other_searches_are_refused(void **state) {
  (void)state;
  static const char *const others[] = {
      "{\"tensor_cores\":[1,4,8],\"rows\":[64,128],\"cols\":[64],\"vector_cores\":[2,16],\"glb_"
      "mib\":"
      "[8,32]}",
      "{\"base\":\"h200\",\"axes\":{\"tensor_cores\":[66,132],\"clock_mhz\":[1000,1500],"
      "\"glb_mib\":[16,32,50]}}"};
  for (int i = 0; i < 2; i++) {
    static struct kept_rounds all, other;
    struct pz_error err = {0};
    struct pz_study_options o = i ? training_study() : paper_study(), p = o;
    assert_int_equal(run_with(&all, &o, &err), PZ_OK);
    p.space_text = others[i];
    p.evaluator = i ? PZ_EVALUATOR_TRAINING : PZ_EVALUATOR_ORIGINAL;
    p.budget = NULL;
    p.limit_watts = p.limit_mm2 = 0;
    assert_int_equal(run_with(&other, &p, &err), PZ_OK);
    refuses(&other, &o);
    refuses(&all, &p);
    struct kept_round *r = &all.list[all.n / 2], was = *r, *next = r + 1;
    for (size_t n = 0; n < was.n; n += 1 + was.n / (pz_test_is_short() ? 3 : 8)) {
      r->n = n;
      refuses(&all, &o);
    }
    r->bytes = pz_malloc(was.n + 2);
    memcpy(r->bytes, was.bytes, was.n);
    r->n = was.n + 1;
    r->bytes[was.n] = 0;
    refuses(&all, &o);
    r->n = was.n;
    r->bytes[0] = 3; /* an error is never kept */
    refuses(&all, &o);
    memcpy(r->bytes, was.bytes, was.n);
    r->bytes[1] = 2; /* no flag */
    refuses(&all, &o);
    memset(r->bytes, 0xff, was.n);
    refuses(&all, &o);
    pz_free(r->bytes);
    *r = was;
    struct kept_round swap = *next;
    if (next->run == r->run && next->n != r->n) {
      next->bytes = r->bytes, next->n = r->n;
      r->bytes = swap.bytes, r->n = swap.n;
      refuses(&all, &o);
      *next = swap;
      *r = was;
    }
    free_kept_rounds(&all);
    free_kept_rounds(&other);
  }
}

/* Any byte of a round replaced: refused, or searched on with, never a crash; a box that is not inside its own, or a chip
 * more or less, is refused. */
static void changed_bytes_do_no_harm(void **state) {
  (void)state;
  static struct kept_rounds all, copy;
  struct pz_study_options o = training_study();
  struct pz_error err = {0};
  int refused = 0, n = pz_test_part(60);
  o.n_models = 1;
  assert_int_equal(run_with(&all, &o, &err), PZ_OK);
  for (int i = 0; i < n; i++) {
    struct pz_error why = {0};
    copy_kept_rounds(&copy, &all, all.n);
    struct kept_round *r = &copy.list[draw(copy.n)];
    if (r->n) r->bytes[draw((uint32_t)r->n)] ^= (char)(1 << draw(8));
    enum pz_status status = run_with(&copy, &o, &why);
    if (status != PZ_OK && status != PZ_BAD_INPUT && status != PZ_NO_ANSWER)
      fail_msg("%d: %s", status, why.message);
    refused += status == PZ_BAD_INPUT;
    free_kept_rounds(&copy);
  }
  print_message("  %d of %d changes refused\n", refused, n);
  free_kept_rounds(&all);
}

/* ---- progress ------------------------------------------------------------------------------- */

static double seconds_gone;
static double each_look_takes_long(void) { return seconds_gone += 10; }

/* Every phase shows, from its begin to its end, and what it counts never falls. */
static void progress_never_falls(void **state) {
  (void)state;
  static const char *const phases[] = {"tables", "reference", "bert-base", "gpt2", "all models"};
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_progress p;
  char *text = NULL, *at, label[64];
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  pz_progress_start(&p, out, PZ_PROGRESS_LINES, "models", "models", 1);
  p.now_s = each_look_takes_long;
  p.start_s = p.shown_s = 0;
  struct pz_study_watch how = {.watch = {.progress = &p}};
  assert_int_equal(run_study(&s, &o, 2, &how, &err), PZ_OK);
  fclose(out);
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
    snprintf(label, sizeof label, "%s: ", phases[i]);
    bool search = i > 1; /* told by its gap and the chips that are left */
    double first = -1, before = search ? 1e18 : 0, now = 0;
    for (at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
      if (strncmp(at, label, strlen(label)) != 0) continue;
      const char *end = strchr(at, '\n'), *left = strstr(at, "target 0%, ");
      if (!search) {
        unsigned done, total, percent;
        assert_int_equal(
            sscanf(at + strlen(label), "%u of %u %*[a-z] (%u%%)", &done, &total, &percent), 3);
        now = percent;
        assert_true(now >= before && done <= total && percent <= 100);
      } else {
        assert_true(left && left < end);
        now = strncmp(left + 11, "took", 4) == 0 ? 0 : strtod(left + 11, NULL);
        assert_true(now <= before);
      }
      if (first < 0) first = now;
      before = now;
    }
    double last = search ? 0 : 100;
    if (before != last || first == last) print_message("%s%g at first\n%s", label, first, text);
    assert_true(before == last && first != last);
    if (search) assert_true(first == (double)pz_space_chips(&s.space));
  }
  free(text);
  pz_study_release(&s);
}

/* ---- beside the answer ---------------------------------------------------------------------- */

static void the_front_is_not_dominated(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_front f;
  struct pz_watch watch = {NULL, NULL};
  o.budget = "4";
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  assert_int_equal(pz_front_find(&s, watch, &f, &err), PZ_OK);
  struct pz_objective geomean = s.objective_run[2].objective;
  for (uint32_t p = 0; p < s.n_points; p++) {
    struct pz_step_cost steps[2];
    struct pz_box one = pz_box_of(&s.points[p]);
    struct pz_boxed c;
    pz_boxed_set(&s.space, &one, &c);
    for (uint32_t m = 0; m < 2; m++) {
      struct pz_evaluation v = {.step_s = 0};
      assert_int_equal(pz_search_evaluate(s.search, 0, &s.points[p], m, PZ_EFFORT_QUICK, &v, &err),
                       PZ_OK);
      steps[m] = (struct pz_step_cost){v.step_s, 0};
    }
    double value = pz_objective_value(&geomean, steps, &c.least), area = c.least.mm2 * 1e6;
    bool covered = false; /* by a point of the front that is at least as good in all */
    for (uint32_t i = 0; i < f.n && !covered; i++)
      covered = f.points[i].value >= value && f.points[i].area_um2 <= area &&
                f.points[i].watts <= c.least.watts;
    assert_true(covered || !(value > 0));
  }
  print_message("  %u chips, %u evaluated, %u on the front\n", s.n_points, f.n_evaluated, f.n);
  assert_true(f.n > 2 && f.n_evaluated < s.n_points);
  pz_study_release(&s);
}

/* Straight from the definition of additive epsilon-dominance. */
static bool stands_for(const struct pz_front_point *q, const struct pz_front_point *p,
                       const double slack[3]) {
  return q->value >= p->value - slack[0] && q->area_um2 <= p->area_um2 + slack[1] &&
         q->watts <= p->watts + slack[2];
}

static void check_thinned(const struct pz_front *full, double tolerance) {
  struct pz_front_point points[64];
  struct pz_front f = *full;
  double slack[3] = {0}, fastest = 0;
  memcpy(points, full->points, full->n * sizeof *points);
  f.points = points;
  pz_front_thin(&f, tolerance);
  for (uint32_t i = 0; i < full->n; i++) {
    const struct pz_front_point *p = &full->points[i];
    slack[0] = fmax(slack[0], tolerance * p->value);
    slack[1] = fmax(slack[1], tolerance * p->area_um2);
    slack[2] = fmax(slack[2], tolerance * p->watts);
    fastest = fmax(fastest, p->value);
  }
  bool has_fastest = false, has_knee = false;
  for (uint32_t k = 0; k < f.n; k++) {
    has_fastest = has_fastest || points[k].value == fastest;
    has_knee = has_knee || points[k].knee;
    assert_true(k == 0 || points[k].area_um2 >= points[k - 1].area_um2);
  }
  bool knee = false;
  for (uint32_t i = 0; i < full->n; i++) {
    bool covered = false;
    for (uint32_t k = 0; k < f.n && !covered; k++)
      covered = stands_for(&points[k], &full->points[i], slack);
    assert_true(covered);
    knee = knee || full->points[i].knee;
  }
  assert_true(has_fastest && has_knee == knee && f.n_full == full->n);
  if (tolerance == 0) assert_int_equal(f.n, full->n);
}

/* Points with less value for less area, watts at random. */
static void a_thinned_front_stands_for_the_whole(void **state) {
  (void)state;
  struct pz_front_point points[64];
  for (int round = 0; round < pz_test_part(200); round++) {
    struct pz_front f = {points, (uint32_t)draw(60) + 1, 0, 0};
    f.n_full = f.n;
    for (uint32_t i = 0; i < f.n; i++)
      points[i] = (struct pz_front_point){
          i,    0.0001 + (double)draw(1000) / 100, 1 + (double)i, 10 + (double)draw(100), false,
          false};
    if (draw(2)) points[draw(f.n)].knee = true;
    for (int t = 0; t < 5; t++) check_thinned(&f, (double[]){0, 0.005, 0.01, 0.1, 1}[t]);
  }
  struct pz_front near = {points, 0, 0, 60};
  for (near.n = 0; near.n < 60; near.n++) /* steps of a tenth of a percent: few remain */
    points[near.n] = (struct pz_front_point){
        near.n, 1 + near.n * 0.001, 100 + near.n * 0.1, 50 + near.n * 0.05, false, false};
  pz_front_thin(&near, 0.01);
  assert_true(near.n >= 2 && near.n <= 7);
}

/* No other point is farther above the chord from the smallest to the fastest chip. */
static void the_knee_is_farthest_from_the_chord(void **state) {
  (void)state;
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = paper_study();
  struct pz_front f;
  struct pz_watch watch = {NULL, NULL};
  o.budget = "4";
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  assert_int_equal(pz_front_find(&s, watch, &f, &err), PZ_OK);
  const struct pz_front_point *small = &f.points[0], *fast = small, *knee = NULL;
  for (uint32_t i = 0; i < f.n; i++) {
    if (f.points[i].value > fast->value) fast = &f.points[i];
    if (f.points[i].knee) assert_null(knee), knee = &f.points[i];
  }
  assert_non_null(knee);
  double dv = fast->value - small->value, da = fast->area_um2 - small->area_um2, at = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < f.n; i++) {
      const struct pz_front_point *p = &f.points[i];
      double cross = (p->value - small->value) * da - (p->area_um2 - small->area_um2) * dv;
      if (pass && cross > at + 1e-9 * dv * da) fail();
      if (!pass && p == knee) at = cross;
    }
  uint32_t all = f.n;
  pz_front_thin(&f, 0.01);
  print_message("  %u of %u are shown\n", f.n, all);
  assert_true(f.n < all && f.n_full == all);
  pz_study_release(&s);
}

/* ---- the scale of objectives ---------------------------------------------------------------- */

/* Per watt and per mm2 the reference itself comes to 1: throughputs over its own, and so are watts
 * and area. */
static void efficiency_is_relative_to_the_reference(void **state) {
  (void)state;
  static const enum pz_objective_kind kinds[] = {PZ_OBJECTIVE_PER_WATT, PZ_OBJECTIVE_PER_MM2};
  struct pz_chip reference, chip;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("tpuv4", &reference, &err), PZ_OK);
  struct pz_area ref_area = pz_chip_area(&reference);
  for (int i = 0; i < 2; i++) {
    struct pz_study s;
    struct pz_study_options o = paper_study();
    o.budget = "4";
    o.objective = kinds[i];
    assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
    const struct pz_objective_run *c = &s.objective_run[s.n_runs - 1];
    struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
    double logs = 0;
    for (uint32_t m = 0; m < 2; m++) {
      struct pz_evaluation v;
      assert_true(pz_search_known(s.search, &c->best, m, &v));
      logs += log((double)o.batch / v.step_s / s.reference[m].samples_per_s);
      steps[m].step_s = (double)o.batch / s.reference[m].samples_per_s;
    }
    pz_study_chip(&s, c, 32, &chip);
    struct pz_area area = pz_chip_area(&chip);
    double part = i ? pz_area_total_um2(&area) / pz_area_total_um2(&ref_area)
                    : pz_chip_peak_watts(&chip) / pz_chip_peak_watts(&reference);
    assert_true(fabs(c->value / (exp(logs / 2) / part) - 1) < 1e-9);
    struct pz_taken taken = pz_chip_taken(&reference);
    assert_true(fabs(pz_objective_value(&c->objective, steps, &taken) - 1) < 1e-12);
    pz_study_release(&s);
  }
}

/* By what a chip takes of dollars and joules too; and the limit of a step is where the value is reached. */
static void objectives_divide_by_what_is_taken(void **state) {
  (void)state;
  struct pz_taken reference = {100, 200, 300, .static_watts = 50, .owner_dollars = 4000},
                  half = {50, 100, 150, .static_watts = 25, .owner_dollars = 2000};
  for (int kind = 0; kind < PZ_OBJECTIVES; kind++) {
    struct pz_objective o = {.kind = (enum pz_objective_kind)kind,
                             .n = 2,
                             .models = {0, 1},
                             .batch = {8, 16},
                             .weight = {1, 3},
                             .reference = {{1, 400}, {2, 800}},
                             .best_alone = {8, 8},
                             .reference_taken = reference,
                             .devices = 4};
    struct pz_step_cost steps[2] = {{1, 400}, {2, 800}}, less[2] = {{0.5, 200}, {1, 400}};
    bool rate = kind == PZ_OBJECTIVE_MEAN;
    bool divides = kind >= PZ_OBJECTIVE_PER_WATT;
    double one = pz_objective_value(&o, steps, &reference);
    assert_true(fabs(one - (rate ? 8 : 1)) < 1e-12);
    assert_true(fabs(pz_objective_value(&o, less, &reference) / one - 2) < 1e-12);
    double cheap = pz_objective_value(&o, steps, &half) / one;
    double want = kind == PZ_OBJECTIVE_PER_JOULE ? 600.0 / 500.0 : divides ? 2 : 1;
    assert_true(fabs(cheap - want) < 1e-12);
    for (uint32_t m = 0; m < 2; m++) {
      double limit = pz_objective_limit_s(&o, less, &reference, m, one);
      struct pz_step_cost at[2] = {less[0], less[1]};
      at[m].step_s = limit;
      assert_true(limit >= less[m].step_s);
      assert_true(pz_objective_value(&o, at, &reference) <= one * (1 + 1e-9));
      at[m].step_s = limit * (1 - 1e-8);
      assert_true(pz_objective_value(&o, at, &reference) >= one * (1 - 1e-9));
      assert_true(pz_objective_limit_s(&o, less, &reference, m, 1000) == 0);
      assert_true(pz_objective_limit_s(&o, less, &reference, m, 0) == HUGE_VAL);
    }
  }
}

static void steps_are_what_the_neighbours_do(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    struct pz_study s;
    struct pz_error err = {0};
    struct pz_study_options o = k ? training_study() : paper_study();
    struct pz_step steps[PZ_MOST_STEPS];
    struct pz_watch watch = {NULL, NULL};
    uint32_t n = 0;
    double hbm_gib = 0;
    assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
    const struct pz_objective_run *c = &s.objective_run[2];
    assert_int_equal(pz_study_least_memory(&s, c, &hbm_gib, &err), PZ_OK);
    assert_int_equal(pz_sensitivity(&s, c, hbm_gib, watch, steps, &n, &err), PZ_OK);
    assert_true(n >= 6);
    for (uint32_t i = 0; i < n; i++) {
      assert_string_not_equal(steps[i].from, steps[i].to);
      assert_true(steps[i].bound >= steps[i].value && steps[i].parameter);
      /* nothing within the limits is better than the best, but for schedules left open */
      if (!steps[i].breaks) assert_true(steps[i].value <= c->bound * (1 + 1e-12));
      assert_true(!steps[i].plans == !k);
      for (uint32_t m = 0; k && m < o.n_models; m++) { /* terms sum up to the step */
        const struct pz_step_plan *p = &steps[i].plans[m];
        const struct pz_part_info *part;
        double sum = 0;
        for (size_t t = 0; (part = pz_time_part_at(t)); t++) sum += pz_time_part(&p->parts, part);
        assert_true(p->fits == (steps[i].value > 0) && fabs(sum - p->step_s) <= 1e-9 * p->step_s);
      }
    }
    pz_study_release(&s);
  }
}

/* With the usual constants the best chip keeps its value and is the best; better programs are never slower but
 * by the gap of schedules, and another chip is told where it is better by more than the gap. */
static void moved_constants_move_values(void **state) {
  (void)state;
  static const struct {
    enum pz_cold_constant constant;
    bool less; /* is better */
  } cases[] = {{PZ_COLD_compiled_products, false},
               {PZ_COLD_compiled_attention, false},
               {PZ_COLD_compiled_softmax, true},
               {PZ_COLD_compiled_memory, false},
               {PZ_COLD_energy, true},
               {PZ_COLD_launched_products, false}};
  struct pz_study s;
  struct pz_error err = {0};
  struct pz_study_options o = training_study();
  assert_int_equal(run_study(&s, &o, 2, NULL, &err), PZ_OK);
  const struct pz_objective_run *c = &s.objective_run[2];
  struct pz_point other = c->best, all[2] = {c->best, c->best};
  struct pz_cold usual = pz_cold_usual();
  struct pz_moved found;
  other.at[PZ_AXIS_TENSOR_CORES] = 0;
  all[0] = other;
  assert_int_equal(pz_moved_find(&s, &c->objective, &usual, &c->best, all, 2, 0, &found, &err),
                   PZ_OK);
  assert_true(found.value == c->value && found.better == -1);
  assert_int_equal(pz_moved_find(&s, &c->objective, &usual, &other, all, 2, 0, &found, &err),
                   PZ_OK);
  assert_true(found.better == 1 && found.better_value == c->value && found.value < c->value);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct pz_cold_info *info = pz_cold_at(cases[i].constant);
    double value[2], gap = 1.005; /* of schedules */
    for (int k = 0; k < 2; k++) {
      struct pz_cold moved = usual;
      moved.v[cases[i].constant] = k == cases[i].less ? info->low : info->high;
      assert_int_equal(pz_moved_find(&s, &c->objective, &moved, &c->best, NULL, 0, 0, &found, &err),
                       PZ_OK);
      value[k] = found.value;
    }
    assert_true(value[0] <= c->value * gap && c->value <= value[1] * gap);
    bool launched = cases[i].constant == PZ_COLD_launched_products;
    if (launched) assert_true(value[0] == value[1]); /* of the reference alone */
    if (cases[i].constant == PZ_COLD_compiled_products) assert_true(value[0] < value[1]);
  }
  pz_study_release(&s);
}

static void nonsense_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *model, *space, *budget;
    int64_t hbm, tp;
    enum pz_status status;
    const char *says;
  } cases[] = {
      {"nosuch", "paper", NULL, 32, 1, PZ_BAD_INPUT, "nosuch"},
      {"gpt2", "papier", NULL, 32, 1, PZ_BAD_INPUT, "did you mean paper?"},
      {"gpt2", "paper", "0.001", 32, 1, PZ_NO_ANSWER, "nearest are 3.35505 mm2 of at most 0.001"},
      {"gpt2", "paper", "-3", 32, 1, PZ_BAD_USE, "--budget"},
      {"gpt2", "paper", "tpuv44", 32, 1, PZ_BAD_INPUT, "tpuv4"},
      {"gpt3-175b", "paper", "5", 1, 1, PZ_NO_ANSWER,
       "within its limits runs gpt3-175b; 'phaze place"},
      {"gpt2-xl", "paper", NULL, 32, 2, PZ_BAD_USE, "accepted: 1, 5, 25"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_study s;
    struct pz_error err = {0};
    struct pz_study_options o = pz_study_options_default();
    o.models[0] = cases[i].model;
    o.n_models = 1;
    o.space = cases[i].space;
    o.budget = cases[i].budget;
    o.mbs = (struct pz_choices){{1}, 1};
    o.tp = (struct pz_choices){{cases[i].tp}, 1};
    o.hbm_gib = (struct pz_choices){{cases[i].hbm}, 1};
    assert_int_equal(run_study(&s, &o, 1, NULL, &err), cases[i].status);
    if (!strstr(err.message, cases[i].says)) print_message("%s\n", err.message);
    assert_non_null(strstr(err.message, cases[i].says));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clusters_of_studies_reach_all_devices),
      cmocka_unit_test(original_is_brute_force),
      cmocka_unit_test(training_is_brute_force),
      cmocka_unit_test(listed_chips_are_evaluated_by_training),
      cmocka_unit_test(more_limit_is_never_worse),
      cmocka_unit_test(rounds_of_other_searches_are_refused),
      cmocka_unit_test(changed_bytes_do_no_harm),
      cmocka_unit_test(progress_never_falls),
      cmocka_unit_test(the_front_is_not_dominated),
      cmocka_unit_test(a_thinned_front_stands_for_the_whole),
      cmocka_unit_test(the_knee_is_farthest_from_the_chord),
      cmocka_unit_test(efficiency_is_relative_to_the_reference),
      cmocka_unit_test(objectives_divide_by_what_is_taken),
      cmocka_unit_test(steps_are_what_the_neighbours_do),
      cmocka_unit_test(moved_constants_move_values),
      cmocka_unit_test(nonsense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
