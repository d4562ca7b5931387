/* Validation: rank correlation and regret of small cases, groups and limits, the shipped limits and the
 * table of expected errors. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "core/csv.h"
#include "core/text.h"
#include "step/expected_error.h"
#include "study/cold_validation.h"
#include "study/measured.h"
#include "study/rank.h"
#include "study/validate.h"

/* ---- rank correlation and regret ------------------------------------------------------------ */

static void rank_correlation_of_known_lists(void **state) {
  (void)state;
  double ranks[20];
  const double up[] = {1, 2, 3, 4, 5}, down[] = {50, 40, 30, 20, 10},
               curved[] = {1, 8, 27, 64, 125};
  const double swapped[] = {1, 3, 2, 4, 5}, ties[] = {1, 2, 2, 3, 4}, same[] = {7, 7, 7, 7, 7};
  assert_true(pz_spearman(up, up, 5, ranks) == 1);
  assert_true(pz_spearman(up, curved, 5, ranks) == 1); /* any increasing curve */
  assert_true(pz_spearman(up, down, 5, ranks) == -1);
  assert_true(fabs(pz_spearman(up, swapped, 5, ranks) - 0.9) < 1e-12); /* 1 - 6 * 2 / (5 * 24) */
  /* ranks 1, 2.5, 2.5, 4, 5: 9.5 / sqrt(10 * 9.5) */
  assert_true(fabs(pz_spearman(up, ties, 5, ranks) - sqrt(0.95)) < 1e-12);
  assert_true(pz_spearman(ties, up, 5, ranks) == pz_spearman(up, ties, 5, ranks));
  assert_true(isnan(pz_spearman(up, same, 5, ranks)));
  assert_true(isnan(pz_spearman(up, up, 1, ranks)));
}

/* The example of Spearman's coefficient with ten pairs: d^2 sums up to 194, so -29/165. */
static void rank_correlation_of_ten_pairs(void **state) {
  (void)state;
  const double iq[] = {106, 86, 100, 101, 99, 103, 97, 113, 112, 110};
  const double hours[] = {7, 0, 27, 50, 28, 29, 20, 12, 6, 17};
  double ranks[20];
  assert_true(fabs(pz_spearman(iq, hours, 10, ranks) + 29.0 / 165) < 1e-12);
}

static void regret_is_what_the_choice_costs(void **state) {
  (void)state;
  const double measured[] = {4, 2, 3}, right[] = {9, 5, 7}, second[] = {9, 5, 4}, tie[] = {1, 1, 1};
  assert_true(pz_regret(right, measured, 3) == 0);
  assert_true(pz_regret(second, measured, 3) == 0.5);
  assert_true(pz_regret(tie, measured, 3) == 1); /* the earlier plan */
  assert_true(pz_regret(right, measured, 1) == 0);
}

/* ---- groups and limits ---------------------------------------------------------------------- */

static struct pz_validation_point point_of(const char *group, const char *job, double measured,
                                           double predicted) {
  return (struct pz_validation_point){.kind = PZ_POINT_RUN,
                                      .id = "run",
                                      .group = group,
                                      .quality = "ok",
                                      .chip = "a100-80",
                                      .framework = "megatron",
                                      .model = "m",
                                      .shape = "s",
                                      .plan = "p",
                                      .job = job,
                                      .devices = 8,
                                      .dense = true,
                                      .measured_s = measured,
                                      .predicted_s = predicted,
                                      .reason = ""};
}

/* What a test asks of the functions below, whose errors are raised. */
struct summary_test {
  const struct pz_validation_point *points;
  uint32_t n;
  const char *limits; /* NULL: none */
  struct pz_arena *arena;
  struct pz_validation v;
};

static void summarize_and_compare(struct pz_call *call, void *ctx) {
  struct summary_test *t = ctx;
  struct pz_call own = pz_call_in(call, t->arena);
  t->v = pz_validation_summarize(&own, t->points, t->n);
  if (!t->limits) return;
  pz_limits_parse(&own, "l.csv", t->limits, strlen(t->limits), &t->v);
  pz_limits_compare(&own, &t->v);
}

static struct pz_validation summarize(const struct pz_validation_point *points, uint32_t n,
                                      const char *limits, struct pz_arena *arena) {
  struct summary_test t = {.points = points, .n = n, .limits = limits, .arena = arena};
  struct pz_error err = {0};
  if (pz_border(summarize_and_compare, &t, &err) != PZ_OK) fail_msg("%s", err.message);
  return t.v;
}

static void groups_have_means_of_what_was_compared(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_validation v;
  struct pz_validation_point p[8];
  for (int i = 0; i < 5; i++) p[i] = point_of("a", "job", 10 + i, i == 0 ? 11 : 10 + i);
  p[4].predicted_s = 7; /* of 14: predicted fastest, measured slowest */
  p[5] = point_of("a", "other", 5, 0);
  p[6] = point_of("a", "job", 1, 9);
  p[6].quality = "doubtful: a reason";
  p[7] = point_of("b", "job", 2, 3);
  p[7].measured_bytes = 100;
  p[7].predicted_bytes = 90;
  pz_arena_init(&arena);
  v = summarize(p, 8, NULL, &arena);
  assert_int_equal(v.n_groups, 2);
  assert_int_equal(v.groups[0].n, 5);
  assert_int_equal(v.groups[0].not_predicted, 1);
  assert_true(fabs(v.groups[0].mean - 0.6 / 5) < 1e-12);
  assert_true(fabs(v.groups[0].bias + 0.4 / 5) < 1e-12);
  assert_true(v.groups[0].worst == -0.5 && isnan(v.groups[0].memory_mean));
  assert_true(fabs(v.groups[1].memory_mean - 0.1) < 1e-12);
  assert_int_equal(v.n_apart, 1);
  assert_int_equal(v.apart[0].n, 1);
  assert_int_equal(v.totals[0].n, 6);
  /* "job" of both groups is one list of plans: six of them, led by the one of group b */
  assert_int_equal(v.n_orders, 1);
  assert_int_equal(v.orders[0].plans, 6);
  assert_true(v.orders[0].regret == 0);
  pz_arena_release(&arena);
}

/* Three runs of one plan are one, with the median of their times; without choices every run is a plan of its own. */
static void runs_of_one_plan_count_once(void **state) {
  (void)state;
  static const char *const choices[] = {"a", "b", "a", "c", "a", "d", "e"};
  static const double measured[] = {5, 2, 9, 3, 1, 4, 6}, predicted[] = {5, 2, 5, 3, 5, 4, 6};
  struct pz_arena arena;
  struct pz_validation v;
  struct pz_validation_point p[7];
  for (int i = 0; i < 7; i++) {
    p[i] = point_of("a", "job", measured[i], predicted[i]);
    p[i].choices = choices[i];
  }
  pz_arena_init(&arena);
  v = summarize(p, 7, NULL, &arena);
  assert_int_equal(v.n_orders, 1);
  assert_int_equal(v.orders[0].plans, 5);
  assert_true(v.orders[0].rank_correlation == 1 && v.orders[0].regret == 0);
  for (int i = 1; i < 6; i += 2) p[i].choices = "a"; /* fewer plans than an order needs */
  v = summarize(p, 7, NULL, &arena);
  assert_int_equal(v.n_orders, 0);
  for (int i = 0; i < 7; i++) p[i].choices = NULL;
  v = summarize(p, 7, NULL, &arena);
  assert_int_equal(v.orders[0].plans, 7);
  assert_true(v.orders[0].regret == 1); /* the run of 2 s in place of that of 1 s */
  pz_arena_release(&arena);
}

static struct pz_validation with_limits(struct pz_arena *arena, const char *rows) {
  static struct pz_validation_point p[2];
  char text[300];
  p[0] = point_of("a", NULL, 10, 11);
  p[1] = point_of("a", NULL, 10, 0);
  snprintf(text, sizeof text,
           "group,mean_error,memory_error,not_predicted,rank_correlation,regret\n%s", rows);
  return summarize(p, 2, text, arena);
}

static void limits_are_kept_or_told(void **state) {
  (void)state;
  static const struct {
    const char *rows;
    uint32_t broken;
    enum pz_limited what;
  } cases[] = {{"a,0.11,,1,,\n", 0, 0},
               {"a,0.09,,,,\n", 1, PZ_LIMITED_TIME},
               {"a,,,0,,\n", 1, PZ_LIMITED_MISSING},
               {"a,,0.1,,,\n", 1, PZ_LIMITED_MEMORY}, /* no memory to judge */
               {"none,0.5,,,,\n", 1, PZ_LIMITED_TIME},
               {"a,,,,,\n", 0, 0},
               {"all runs,0.11,,1,,\n", 0, 0},
               {"all models,,,,0.5,\n", 1, PZ_LIMITED_RANK}, /* no plans to judge */
               {"", 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_arena arena;
    pz_arena_init(&arena);
    struct pz_validation v = with_limits(&arena, cases[i].rows);
    if (v.n_broken != cases[i].broken) fail_msg("'%s': %u broken", cases[i].rows, v.n_broken);
    if (v.n_broken) assert_int_equal(v.broken[0].what, cases[i].what);
    pz_arena_release(&arena);
  }
}

static void wrong_limits_are_told(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {{"group,mean_error\na,1\n", "unknown columns; accepted"},
               {"group,mean_error,memory_error,unpredicted\n", "unknown columns; accepted"},
               {"group,mean_error,memory_error,not_predicted,rank_correlation,regret\na,x,,,,\n",
                ":2: column 'mean_error' is 'x'"},
               {"group,mean_error,memory_error,not_predicted,rank_correlation,regret\na,nan,,,,\n",
                "accepted: a number from 0"},
               {"group,mean_error,memory_error,not_predicted,rank_correlation,regret\na,-1,,,,\n",
                "accepted: a number from 0"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_arena arena;
    struct summary_test t = {.limits = cases[i].text, .arena = &arena};
    struct pz_error err = {0};
    pz_arena_init(&arena);
    assert_int_equal(pz_border(summarize_and_compare, &t, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, cases[i].message)) fail_msg("%s", err.message);
    pz_arena_release(&arena);
  }
}

/* Names go to JSON and pages: a table with other bytes is refused, with the line. */
static void tables_are_utf8(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool good;
  } cases[] = {{"a\nb\n", true},
               {"a\n\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n", true},
               {"a\n\xff\n", false},
               {"a\n\xc3\n", false},         /* cut short */
               {"a\n\xc0\xaf\n", false},     /* not the shortest form */
               {"a\n\xed\xa0\x80\n", false}, /* a surrogate */
               {"a\n\xf4\x90\x80\x80\n", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_arena arena;
    struct pz_csv csv;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    bool good =
        pz_csv_parse("t", cases[i].text, strlen(cases[i].text), &arena, &csv, &err) == PZ_OK;
    if (good != cases[i].good) fail_msg("case %zu: %s", i, err.message);
    if (!good && !strstr(err.message, "t:2: a byte that is not UTF-8")) fail_msg("%s", err.message);
    pz_arena_release(&arena);
  }
}

/* ---- the shipped data ----------------------------------------------------------------------- */

static int validate_shipped(void **state) {
  struct pz_validate_options o = pz_validate_options_default();
  struct pz_validation *v = NULL;
  struct pz_error err = {0};
  o.threads = 2;
  if (pz_validate(&o, &v, &err) != PZ_OK) fail_msg("%s", err.message);
  *state = v;
  return 0;
}

static int release_shipped(void **state) {
  pz_validation_free(*state);
  return 0;
}

static void shipped_groups_are_within_limits(void **state) {
  const struct pz_validation *v = *state;
  assert_true(v->n_points > 1000 && v->n_orders >= 10 && v->n_limits > 20);
  for (uint32_t i = 0; i < v->n_broken; i++)
    print_message("  %s: %g, limit %g\n", v->broken[i].group, v->broken[i].value,
                  v->broken[i].limit);
  assert_int_equal(v->n_broken, 0);
}

/* A line of the table of expected errors. */
struct line {
  char name[120];
  unsigned sources, runs;
  double error, variance;
  long long most;
  unsigned long long with;
};

static const char *read_line(const char *at, struct line *l) {
  const char *next = strchr(at, '\n');
  if (!next || !next[1]) return NULL;
  int n = sscanf(next + 1, "%*[^,],%119[^,],%u,%u,%lf,%lf,%lld,%llx", l->name, &l->sources,
                 &l->runs, &l->error, &l->variance, &l->most, &l->with);
  assert_int_equal(n, 7);
  return next + 1;
}

/* Compilers may round the last digits differently. */
static void expected_errors_are_those_of_now(void **state) {
  const struct pz_validation *v = *state;
  const char *kept = pz_embedded_text(pz_embedded_expected, "expected_error");
  static const char again[] =
      "src/step/expected_error.csv is not what validation finds now; make it "
      "again with bench/validate, and read the difference";
  char *text = NULL;
  size_t bytes = 0;
  struct pz_error err = {0};
  struct line a, b;
  assert_int_equal(pz_validation_text(v, PZ_VALIDATION_EXPECTED, &text, &bytes, &err), PZ_OK);
  const char *p = text, *q = kept;
  for (;;) {
    p = read_line(p, &a);
    q = read_line(q, &b);
    if (!p || !q) break;
    if (strcmp(a.name, b.name) != 0 || a.sources != b.sources || a.runs != b.runs ||
        a.most != b.most || a.with != b.with || !(fabs(a.error - b.error) < 0.0005) ||
        !(fabs(a.variance - b.variance) < 0.0002))
      fail_msg("%s: %u runs, %g, %g; now %s: %u runs, %g, %g: %s", b.name, b.runs, b.error,
               b.variance, a.name, a.runs, a.error, a.variance, again);
  }
  if (p || q) fail_msg("%s", again);
  free(text);
}

/* The built-in runs without what was measured on their chips: no chip is favoured by much, and the spread that is told with
 * such predictions is what these have. */
static void check_cold_chips(struct pz_call *call, void *ctx) {
  (void)ctx;
  struct pz_vec points;
  struct pz_cold usual = pz_cold_usual();
  pz_vec_init(&points, call->arena, sizeof(struct pz_validation_point));
  struct pz_point_reader reader = {.points = &points, .threads = 2, .cold = &usual};
  for (const struct pz_embedded *t = pz_embedded_runs; t->name; t++)
    pz_points_add_runs(call, &reader, t->name, t->text, strlen(t->text));
  struct pz_cold_errors e = pz_cold_chip_errors(call, &points);
  assert_true(e.n_chips >= 10 && e.n_others >= 10 && e.mean <= 0.105);
  for (uint32_t i = 0; i < e.n_chips; i++)
    if (e.chips[i].n >= 4 && fabs(e.chips[i].bias) > 0.12)
      fail_msg("%s: bias %g", e.chips[i].name, e.chips[i].bias);
  if (fabs(e.spread - pz_cold_spread()) > 0.01)
    fail_msg("spread %g, told as %g", e.spread, pz_cold_spread());
}

static void chips_without_their_measurements(void **state) {
  (void)state;
  struct pz_error err = {0};
  if (pz_border(check_cold_chips, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
}

/* A table in which runs have six of the features; its last rows name a chip line and a network. */
#define F(f) PZ_FEATURE_BIT(PZ_FEATURE_##f)
#define GROWTH 0.020 /* error_growth of cost/constants.def */

static const char *own_table(char *text, size_t bytes) {
  const uint64_t seen = F(MEGATRON) | F(EXPERTS) | F(TP) | F(PP) | F(EP) | F(NODES);
  size_t n = (size_t)snprintf(text, bytes,
                              "kind,name,sources,runs,mean_error,variance,most,with\n"
                              "all,all runs,3,40,0.05,0.0100,1024,0\n"
                              "unseen,a feature without a validated run,0,0,0,0.0025,0,0\n"
                              "sequence,longest,0,0,0,0,8192,0\n");
  for (int f = 0; f < PZ_FEATURES; f++) {
    /* tp and ep have not been run together */
    uint64_t with = f == PZ_FEATURE_TP ? seen & ~F(EP) : f == PZ_FEATURE_EP ? seen & ~F(TP) : seen;
    bool has = seen >> f & 1;
    n += (size_t)snprintf(text + n, bytes - n, "feature,%s,1,%d,0.05,%g,%d,%llx\n",
                          pz_feature_text((enum pz_feature)f), has ? 7 + f : 0,
                          f == PZ_FEATURE_EP ? 0.0044 : 0, f == PZ_FEATURE_EXPERTS ? 256 : 1024,
                          has ? (unsigned long long)with : 0ULL);
  }
  snprintf(text + n, bytes - n,
           "chip,hopper,3,40,0.05,0,1024,%llx\nnetwork,dgx-h100,3,40,0.05,0,1024,0\n",
           (unsigned long long)seen);
  return text;
}

static double error_of(const char *table, const struct pz_risk_question *q, uint64_t set) {
  struct pz_risk r = pz_risk_of(table, q);
  return pz_risk_error(&r, set);
}

/* By hand: the variance of all runs is 0.01, that of expert parallelism 0.0044, the error of a feature that no run has 5%. */
static void errors_add_in_squares(void **state) {
  (void)state;
  char text[8192];
  const char *t = own_table(text, sizeof text);
  struct pz_chip hopper = {.name = "h200"}, own = {.name = "my-chip"};
  struct pz_cluster net = {.name = "dgx-h100"}, other = {.name = "my-net"},
                    measured = {.name = "my-net", .calibration_error = 0.1};
  struct pz_risk_question q = {.chip = &hopper, .net = &net, .devices = 64, .seq = 4096};
  const struct {
    uint64_t set;
    double variance, unseen;
  } cases[] = {
      {F(MEGATRON), 0.0100, 0},
      {F(MEGATRON) | F(TP) | F(PP), 0.0100, 0},
      {F(MEGATRON) | F(EP), 0.0144, 0},
      {F(MEGATRON) | F(TP) | F(EP), 0.0144, 1},             /* not together */
      {F(MEGATRON) | F(PP) | F(ZERO_3), 0.0100, 1},         /* not at all: its pairs do not count */
      {F(MEGATRON) | F(CP) | F(CP_2) | F(CP_4), 0.0100, 3}, /* three doublings */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_true(fabs(error_of(t, &q, cases[i].set) -
                     (sqrt(cases[i].variance) + 0.05 * sqrt(cases[i].unseen))) < 1e-12);
  q.net = &other;
  assert_true(fabs(error_of(t, &q, F(MEGATRON)) - 0.15) < 1e-12);
  q.net = &measured;
  assert_true(fabs(error_of(t, &q, F(MEGATRON)) - 0.1) < 1e-12);
  q.chip = &own;
  q.seq = 8193;
  assert_true(fabs(error_of(t, &q, F(MEGATRON)) - (0.1 + 0.05 * sqrt(2))) < 1e-12);
  q = (struct pz_risk_question){.chip = &hopper, .devices = 4096, .seq = 4096};
  assert_true(fabs(error_of(t, &q, F(MEGATRON)) - (0.1 + 2 * GROWTH)) < 1e-12);
  q.experts = true; /* the largest run with experts has 256 devices */
  assert_true(fabs(error_of(t, &q, F(MEGATRON)) - (0.1 + 4 * GROWTH)) < 1e-12);
  own.correction = (struct pz_correction){.error = 0.03, .kinds = pz_correction_kind(false, 0)};
  q = (struct pz_risk_question){.chip = &own, .devices = 8};
  struct pz_risk r = pz_risk_of(t, &q);
  assert_true(r.own_steps && r.own[PZ_FEATURE_EP] == 0);
  assert_true(pz_risk_of("no table\n", &q).all_runs == 0);
}

/* Bounds of counted time rest on this. */
static void errors_do_not_fall_with_features(void **state) {
  (void)state;
  struct pz_chip chip = {.name = "h100"};
  struct pz_risk_question q = {.chip = &chip, .devices = 64, .seq = 4096, .experts = true};
  struct pz_risk r = pz_risk_built_in(&q);
  uint64_t random = 7;
  int more = 0;
  for (int i = 0; i < 20000; i++) {
    uint64_t set = 0;
    for (int k = 0; k < 8; k++) set |= PZ_FEATURE_BIT(pz_random_below(&random, PZ_FEATURES));
    uint64_t larger = set | PZ_FEATURE_BIT(pz_random_below(&random, PZ_FEATURES));
    double a = pz_risk_error(&r, set), b = pz_risk_error(&r, larger);
    assert_true(a > 0 && a <= b);
    more += a < b;
  }
  assert_true(more > 5000);
}

/* Features of plans, and the built-in table. */
static void plans_have_features(void **state) {
  (void)state;
  struct pz_plan plan = {.tp = 2, .pp = 4, .vpp = 2, .cp = 2, .dp = 64, .mbs = 1, .batch = 64};
  struct pz_prediction p = {.tokens = 64.0 * 1048576, .params = 2, .active_params = 1};
  struct pz_chip chip = {.name = "h100"};
  struct pz_feature_context c = {.experts = true, .layers = 32, .node = 8};
  plan.framework = pz_framework_find("megatron");
  plan.precision = PZ_PRECISION_FP8;
  plan.zero = 3;
  assert_true(pz_plan_features(&plan, &c) ==
              (F(MEGATRON) | F(EXPERTS) | F(TP) | F(CP) | F(PP) | F(PP_2) | F(VPP) | F(NODES) |
               F(WHOLE_EXPERTS) | F(ZERO_3) | F(EIGHT_BIT)));
  c.layers = 33;
  assert_true(pz_plan_features(&plan, &c) & F(UNEVEN));
  struct pz_expectation e = pz_plan_expectation(&plan, &p, 32, &chip, NULL);
  assert_true(e.error > 0.1 && e.error < 0.6 && e.runs > 0);
  assert_non_null(strstr(e.beyond, "sequence 1,048,576 (longest validated "));
  assert_non_null(strstr(e.beyond, "experts without expert parallelism on several nodes"));
  assert_non_null(strstr(e.of, "all runs "));
}

/* Of the runs that the table was fitted to, the interval has the part that it is made for. */
static void intervals_hold_the_runs(void **state) {
  (void)state;
  struct pz_validate_options o = pz_validate_options_default();
  struct pz_validation *v = NULL;
  struct pz_error err = {0};
  if (pz_validate(&o, &v, &err) != PZ_OK) fail_msg("%s", err.message);
  int runs = 0, within = 0;
  for (uint32_t i = 0; i < v->n_points; i++) {
    const struct pz_validation_point *p = &v->points[i];
    if (p->kind != PZ_POINT_RUN || strcmp(p->quality, "ok") != 0 || !(p->predicted_s > 0)) continue;
    struct pz_chip chip = {.name = ""};
    pz_text_copy(chip.name, sizeof chip.name, p->chip);
    struct pz_risk_question q = {
        .chip = &chip, .experts = p->features & F(EXPERTS), .devices = p->devices, .seq = p->seq};
    struct pz_risk r = pz_risk_built_in(&q);
    runs++;
    within += fabs(p->measured_s / p->predicted_s - 1) <= pz_risk_error(&r, p->features);
  }
  print_message("  %d of %d runs are within\n", within, runs);
  assert_true(runs > 300 && within > 0.8 * runs && within < 0.95 * runs);
  pz_validation_free(v);
}

/* One plan on 8,192, 16,384 and 65,536 A100: by hand two doublings lie between the last two. */
static void expected_errors_grow_with_devices(void **state) {
  (void)state;
  static const int64_t replicas[] = {128, 512};
  struct pz_prediction p = {.params = 4.05e11, .active_params = 4.05e11};
  struct pz_chip chip = {.name = "a100-80"};
  struct pz_expectation e[2];
  for (int i = 0; i < 2; i++) {
    struct pz_plan plan = {.tp = 8, .pp = 16, .vpp = 1, .cp = 1, .mbs = 1};
    plan.dp = replicas[i];
    plan.batch = 16 * plan.dp;
    plan.framework = pz_framework_find("megatron");
    p.tokens = (double)plan.batch * 2048;
    e[i] = pz_plan_expectation(&plan, &p, 126, &chip, NULL);
  }
  assert_true(fabs(e[1].error - e[0].error - 2 * GROWTH) < 1e-12);
}

static void expected_error_takes_microseconds(void **state) {
  (void)state;
  struct pz_plan plan = {.tp = 1, .pp = 1, .vpp = 1, .dp = 1, .mbs = 1, .batch = 1};
  struct pz_prediction p = {.tokens = 4096, .params = 1, .active_params = 1};
  struct pz_chip chip = {.name = "my-chip"};
  clock_t begin = clock();
  for (int i = 0; i < 1000; i++)
    assert_true(pz_plan_expectation(&plan, &p, 32, &chip, NULL).runs > 0);
  double us = 1e3 * (double)(clock() - begin) / (double)CLOCKS_PER_SEC;
  print_message("  %.1f us\n", us);
  assert_true(us < 2000); /* far above, also with sanitizers */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rank_correlation_of_known_lists),
      cmocka_unit_test(rank_correlation_of_ten_pairs),
      cmocka_unit_test(regret_is_what_the_choice_costs),
      cmocka_unit_test(groups_have_means_of_what_was_compared),
      cmocka_unit_test(runs_of_one_plan_count_once),
      cmocka_unit_test(limits_are_kept_or_told),
      cmocka_unit_test(wrong_limits_are_told),
      cmocka_unit_test(tables_are_utf8),
      cmocka_unit_test(shipped_groups_are_within_limits),
      cmocka_unit_test(expected_errors_are_those_of_now),
      cmocka_unit_test(chips_without_their_measurements),
      cmocka_unit_test(errors_add_in_squares),
      cmocka_unit_test(errors_do_not_fall_with_features),
      cmocka_unit_test(intervals_hold_the_runs),
      cmocka_unit_test(plans_have_features),
      cmocka_unit_test(expected_errors_grow_with_devices),
      cmocka_unit_test(expected_error_takes_microseconds),
  };
  return cmocka_run_group_tests(tests, validate_shipped, release_shipped);
}
