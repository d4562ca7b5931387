#include "study/error_fit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/text.h"
#include "step/expected_error.h"

/* Chosen: an error counts as at most so much; runs of a source as at most so many; a feature's variance is drawn towards 0
 * by so many runs without error; the fit's steps. */
static const double MOST_ERROR = 0.3, SOURCE_RUNS = 12, DRAWN_BY = 40;
enum { FIT_STEPS = 60 };

/* Part of the runs of left-out sources within the interval.  The model's constants were fitted to these runs: of published
 * runs that no constant has seen, 8 of 10 are within it. */
static const double COVERED = 0.87;

struct fitted {
  uint32_t n;
  const struct pz_validation_point **run;
  double *e2;     /* squared errors */
  double *weight; /* of the run */
  double *rest;   /* e2 less what is explained */
  uint32_t *source, *runs_of;
  uint32_t n_sources;
};

struct variances {
  double all, own[PZ_FEATURES];
};

static bool is_counted(const struct pz_validation_point *p) {
  return p->kind == PZ_POINT_RUN && p->features && strcmp(p->quality, "ok") == 0 &&
         p->predicted_s > 0 && p->measured_s > 0;
}

static void take_runs(struct fitted *f, const struct pz_validation_point *points, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (!is_counted(&points[i])) continue;
    uint32_t k = f->n, s = f->n_sources;
    for (uint32_t j = 0; j < k && s == f->n_sources; j++)
      if (strcmp(f->run[j]->group, points[i].group) == 0) s = f->source[j];
    if (s == f->n_sources) f->n_sources++;
    f->run[k] = &points[i];
    f->source[k] = s;
    f->runs_of[s]++;
    double e = pz_fmin(fabs(points[i].measured_s / points[i].predicted_s - 1), MOST_ERROR);
    f->e2[k] = e * e;
    f->n++;
  }
  for (uint32_t i = 0; i < f->n; i++)
    f->weight[i] = pz_fmin(1, SOURCE_RUNS / f->runs_of[f->source[i]]);
}

/* One number of the sum, 0 or more, as the others leave it. */
static void improve(struct fitted *f, uint32_t without, uint64_t feature, double drawn_by,
                    double *v) {
  double sum = 0, weight = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    if (f->source[i] == without || (feature && !(f->run[i]->features & feature))) continue;
    sum += f->weight[i] * (f->rest[i] + *v);
    weight += f->weight[i];
  }
  double better = weight > 0 ? pz_fmax(0, sum / (weight + drawn_by)) : 0;
  for (uint32_t i = 0; i < f->n; i++)
    if (!feature || f->run[i]->features & feature) f->rest[i] += *v - better;
  *v = better;
}

/* By the sources but one; f->rest is then what each run has more than is explained. */
static struct variances fit(struct fitted *f, uint32_t without) {
  struct variances v = {.all = 0};
  memcpy(f->rest, f->e2, f->n * sizeof *f->rest);
  for (int step = 0; step < FIT_STEPS; step++) {
    improve(f, without, 0, 0, &v.all);
    for (int k = 0; k < PZ_FEATURES; k++)
      if (pz_feature_is_fitted((enum pz_feature)k))
        improve(f, without, PZ_FEATURE_BIT(k), DRAWN_BY, &v.own[k]);
  }
  return v;
}

/* What the runs of all sources but one have. */
static struct pz_risk seen_without(const struct fitted *f, uint32_t without) {
  struct pz_risk r = {.seen = 0};
  uint64_t with[PZ_FEATURES] = {0};
  for (uint32_t i = 0; i < f->n; i++) {
    uint64_t set = f->source[i] == without ? 0 : f->run[i]->features;
    r.seen |= set;
    for (; set; set &= set - 1) with[__builtin_ctzll(set)] |= f->run[i]->features;
  }
  for (int k = 0; k < PZ_FEATURES; k++)
    r.strange[k] = pz_feature_partners((enum pz_feature)k) & ~with[k];
  return r;
}

/* A run whose source was left out. */
struct left_out {
  double e2, explained, weight, unseen, ratio;
  uint32_t source;
};

static int by_ratio(const void *a, const void *b) {
  const struct left_out *x = a, *y = b;
  return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

/* The ratio below which so many of the runs lie as should be covered. */
static double covering(struct left_out *l, uint32_t n) {
  double all = 0, covered = 0, ratio = 0;
  qsort(l, n, sizeof *l, by_ratio);
  for (uint32_t i = 0; i < n; i++) all += l[i].weight;
  for (uint32_t i = 0; i < n && covered < COVERED * all; i++) {
    covered += l[i].weight;
    ratio = l[i].ratio;
  }
  return ratio;
}

/* The squared width in standard deviations that covers as many of the runs that were left out as it should, of those without
 * unseen features; and the error that covers as many of the others when it is added for the root of their number. */
static void fit_left_out(struct fitted *f, struct left_out *l, double *unseen, double *width2) {
  enum { MOST_UNSEEN = 6 }; /* more of them say no more */
  uint32_t known = 0;
  for (uint32_t s = 0; s < f->n_sources; s++) {
    struct pz_risk r = seen_without(f, s);
    fit(f, s);
    for (uint32_t i = 0; i < f->n; i++) {
      if (f->source[i] != s) continue;
      double n = pz_fmin(pz_risk_unseen(&r, f->run[i]->features, NULL), MOST_UNSEEN);
      double explained = pz_fmax(f->e2[i] - f->rest[i], 1e-9);
      l[i] = (struct left_out){f->e2[i], explained, f->weight[i], n, f->e2[i] / explained, s};
    }
  }
  for (uint32_t i = 0; i < f->n; i++) /* those without unseen features to the front */
    if (l[i].unseen == 0) {
      struct left_out one = l[i];
      l[i] = l[known];
      l[known++] = one;
    }
  *width2 = covering(l, known);
  for (uint32_t i = known; i < f->n;
       i++) { /* runs of a source err alike: each source counts as one */
    uint32_t like = 0;
    for (uint32_t j = known; j < f->n; j++) like += l[j].source == l[i].source;
    l[i].weight = 1.0 / like;
    l[i].ratio = (sqrt(l[i].e2) - sqrt(*width2 * l[i].explained)) / sqrt(l[i].unseen);
  }
  *unseen = pz_fmax(0, covering(l + known, f->n - known));
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A row for the runs that have something: a feature, or a text of their own. */
struct counted {
  uint32_t runs, sources;
  double error;
  int64_t most;
  uint64_t with;
};

static void put_row(const char *kind, const char *name, const struct counted *c, double variance,
                    FILE *out) {
  fprintf(out, "%s,%s,%u,%u,%.4f,%.6f,%" PRId64 ",%" PRIx64 "\n", kind, name, c->sources, c->runs,
          c->runs ? c->error / c->runs : 0, variance, c->most, c->with);
}

typedef bool has_fn(const struct pz_validation_point *p, const void *what);

static bool has_features(const struct pz_validation_point *p, const void *what) {
  uint64_t set = *(const uint64_t *)what;
  return (p->features & set) == set;
}

static bool has_chip(const struct pz_validation_point *p, const void *what) {
  return strcmp(pz_chip_line(p->chip), what) == 0;
}

static bool has_network(const struct pz_validation_point *p, const void *what) {
  return strcmp(p->cluster, what) == 0;
}

static struct counted count(const struct fitted *f, has_fn *has, const void *what) {
  struct counted c = {.runs = 0};
  for (uint32_t i = 0; i < f->n; i++) {
    const struct pz_validation_point *p = f->run[i];
    bool first = has(p, what);
    if (!first) continue;
    for (uint32_t j = 0; j < i && first; j++)
      first = f->source[j] != f->source[i] || !has(f->run[j], what);
    c.sources += first;
    c.runs++;
    c.error += fabs(p->predicted_s / p->measured_s - 1);
    c.most = pz_max(c.most, p->devices);
    c.with |= p->features;
  }
  return c;
}

/* A row for each text of the runs. */
static void put_texts(const struct fitted *f, const char *kind, has_fn *has, bool chips,
                      FILE *out) {
  for (uint32_t i = 0; i < f->n; i++) {
    const char *text = chips ? pz_chip_line(f->run[i]->chip) : f->run[i]->cluster;
    bool first = *text;
    for (uint32_t j = 0; j < i && first; j++) first = !has(f->run[j], text);
    struct counted c = count(f, has, text);
    if (first) put_row(kind, text, &c, 0, out);
  }
}

static void put_table(struct fitted *f, struct left_out *l, FILE *out) {
  double unseen, width2;
  struct counted none = {.runs = 0}, longest = {.runs = 0};
  const uint64_t nothing = 0;
  fit_left_out(f, l, &unseen, &width2);
  struct variances v = fit(f, f->n_sources);
  struct counted all = count(f, has_features, &nothing);
  fputs("kind,name,sources,runs,mean_error,variance,most,with\n", out);
  put_row("all", "all runs", &all, width2 * v.all, out);
  put_row("unseen", "a feature without a validated run", &none, unseen * unseen, out);
  for (uint32_t i = 0; i < f->n; i++) longest.most = pz_max(longest.most, f->run[i]->seq);
  put_row("sequence", "longest", &longest, 0, out);
  for (int k = 0; k < PZ_FEATURES; k++) {
    uint64_t bit = PZ_FEATURE_BIT(k);
    struct counted c = count(f, has_features, &bit);
    put_row("feature", pz_feature_text((enum pz_feature)k), &c, width2 * v.own[k], out);
  }
  put_texts(f, "chip", has_chip, true, out);
  put_texts(f, "network", has_network, false, out);
}

/* ---- for people ----------------------------------------------------------------------------- */

static struct pz_risk risk_of_run(const struct pz_validation_point *p) {
  struct pz_chip chip = {.name = ""};
  struct pz_cluster net = {.n_levels = 0};
  uint64_t set = p->features;
  pz_text_copy(chip.name, sizeof chip.name, p->chip);
  pz_text_copy(net.name, sizeof net.name, p->cluster);
  struct pz_risk_question q = {
      .chip = &chip,
      .net = set & PZ_FEATURE_BIT(PZ_FEATURE_NODES) && *p->cluster ? &net : NULL,
      .experts = set & PZ_FEATURE_BIT(PZ_FEATURE_EXPERTS),
      .precision = set & PZ_FEATURE_BIT(PZ_FEATURE_EIGHT_BIT)  ? PZ_PRECISION_FP8
                   : set & PZ_FEATURE_BIT(PZ_FEATURE_FOUR_BIT) ? PZ_PRECISION_NVFP4
                                                               : PZ_PRECISION_BF16,
      .devices = p->devices,
      .seq = p->seq};
  return pz_risk_built_in(&q);
}

static void tell_row(const struct fitted *f, const char *name, has_fn *has, const void *what,
                     double own, FILE *out) {
  struct counted c = count(f, has, what);
  double width = 0;
  uint32_t within = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    const struct pz_validation_point *p = f->run[i];
    if (!has(p, what)) continue;
    struct pz_risk r = risk_of_run(p);
    double error = pz_risk_error(&r, p->features);
    width += error;
    within += fabs(p->measured_s / p->predicted_s - 1) <= error;
  }
  if (c.runs)
    fprintf(out, "%-56s %7u %5u %6.1f%% %6.1f%% %8.1f%% %6.0f%%\n", name, c.sources, c.runs,
            100 * c.error / c.runs, 100 * own, 100 * width / c.runs, 100.0 * within / c.runs);
}

static bool has_unseen(const struct pz_validation_point *p, const void *what) {
  struct pz_risk r = risk_of_run(p);
  bool any = pz_risk_unseen(&r, p->features, NULL) || *r.beyond;
  return any == *(const bool *)what;
}

static void tell_table(const struct fitted *f, FILE *out) {
  const uint64_t all = 0;
  const bool yes = true;
  struct pz_chip none = {.name = ""};
  struct pz_risk r = pz_risk_built_in(&(struct pz_risk_question){.chip = &none});
  fprintf(out, "%-56s %7s %5s %7s %7s %9s %7s\n", "feature", "sources", "runs", "error", "adds",
          "interval", "within");
  tell_row(f, "all runs", has_features, &all, sqrt(r.all), out);
  for (int k = 0; k < PZ_FEATURES; k++) {
    uint64_t bit = PZ_FEATURE_BIT(k);
    tell_row(f, pz_feature_text((enum pz_feature)k), has_features, &bit, sqrt(r.own[k]), out);
  }
  tell_row(f, "something that no validated run has", has_unseen, &yes, sqrt(r.unseen), out);
}

static bool with_runs(const struct pz_validation_point *points, uint32_t n, bool tell, FILE *out) {
  struct pz_arena arena;
  struct fitted f = {.n = 0};
  pz_arena_init(&arena, NULL);
  f.run = pz_arena_alloc(&arena, n + 1, sizeof(struct pz_validation_point *));
  f.e2 = pz_arena_alloc(&arena, n + 1, sizeof *f.e2);
  f.weight = pz_arena_alloc(&arena, n + 1, sizeof *f.weight);
  f.rest = pz_arena_alloc(&arena, n + 1, sizeof *f.rest);
  f.source = pz_arena_alloc(&arena, n + 1, sizeof *f.source);
  f.runs_of = pz_arena_alloc(&arena, n + 1, sizeof *f.runs_of);
  struct left_out *l = pz_arena_alloc(&arena, n + 1, sizeof *l);
  bool good = f.run && f.e2 && f.weight && f.rest && f.source && f.runs_of && l;
  if (good) take_runs(&f, points, n);
  if (good && tell) tell_table(&f, out);
  if (good && !tell) put_table(&f, l, out);
  pz_arena_release(&arena);
  return good;
}

bool pz_error_fit_put(const struct pz_validation_point *points, uint32_t n, FILE *out) {
  return with_runs(points, n, false, out);
}

bool pz_error_fit_tell(const struct pz_validation_point *points, uint32_t n, FILE *out) {
  return with_runs(points, n, true, out);
}
