/* Fits the table of expected errors, and shows how well the built-in table covers the runs.
 * error_fit_of() collects the training runs. fit_variances() fits the variances of all features by
 * coordinate descent: weighted least squares on squared errors with a ridge term. fit_left_out()
 * repeats it without each source in turn. pz_error_fit_write_csv() writes the table, also with the
 * features, chips and networks of validated runs.  The constants below are chosen, not derived. */
#include "study/error_fit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/num.h"
#include "core/text.h"
#include "step/expected_error.h"

/* Larger errors are cut off here, so that outliers do not dominate the fit. */
static const double MOST_ERROR = 0.3;
static const double SOURCE_RUNS = 12; /* largest total weight of the runs of a source */
static const double SHRINK_RUNS = 40; /* runs without error that shrink the variance of a feature */
enum {
  FIT_STEPS = 60, /* sweeps over the variances of all features */
  MOST_UNSEEN = 6 /* a run with more unseen features counts as one with these */
};

/* Fraction of the left-out runs that the interval covers.  The constants of the model were fitted
 * to these runs; the interval covers 8 of 10 published runs to which no constant was fitted. */
static const double COVERED = 0.87;

struct error_run {
  const struct pz_validation_point *point;
  double squared_error;
  double unexplained; /* squared error minus the variances of its features */
  double weight;
  uint32_t source; /* runs of one group are from one source */
};

struct error_fit {
  struct error_run *runs;
  uint32_t n, n_sources;
};

/* Collects the predicted runs of quality ok, with their squared errors and sources.  A source with
 * more than SOURCE_RUNS runs has the total weight of SOURCE_RUNS. */
static struct error_fit error_fit_of(struct pz_call *call, const struct pz_validation_point *points,
                                     uint32_t n) {
  struct error_fit fit = {.runs = pz_alloc(call, n, sizeof *fit.runs)};
  uint32_t *runs_of_source = pz_alloc(call, n, sizeof *runs_of_source);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_validation_point *point = &points[i];
    bool is_predicted_run = point->kind == PZ_POINT_RUN && point->features;
    if (!is_predicted_run || strcmp(point->quality, "ok") != 0 ||
        !(point->predicted_s > 0 && point->measured_s > 0))
      continue;
    uint32_t source = fit.n_sources;
    for (uint32_t j = 0; j < fit.n && source == fit.n_sources; j++)
      if (strcmp(fit.runs[j].point->group, point->group) == 0) source = fit.runs[j].source;
    if (source == fit.n_sources) fit.n_sources++;
    runs_of_source[source]++;
    double error = pz_fmin(fabs(point->measured_s / point->predicted_s - 1), MOST_ERROR);
    fit.runs[fit.n] =
        (struct error_run){.point = point, .squared_error = error * error, .source = source};
    fit.n++;
  }
  for (uint32_t i = 0; i < fit.n; i++)
    fit.runs[i].weight = pz_fmin(1, SOURCE_RUNS / runs_of_source[fit.runs[i].source]);
  return fit;
}

/* ---- the fit -------------------------------------------------------------------------------- */

struct variances {
  double all; /* variance of every run */
  double own[PZ_FEATURES];
};

/* Sets the variance of a feature (a bit), or that of every run (0), to its least-squares value of
 * at least 0, while all others are fixed.  Runs of the source `without` do not count. */
static void improve_variance(struct error_fit *fit, uint32_t without, uint64_t feature,
                             double shrink_runs, double *variance) {
  double sum = 0, weight = 0;
  for (uint32_t i = 0; i < fit->n; i++) {
    const struct error_run *run = &fit->runs[i];
    if (run->source == without || (feature && !(run->point->features & feature))) continue;
    sum += run->weight * (run->unexplained + *variance);
    weight += run->weight;
  }
  double better = weight > 0 ? pz_fmax(0, sum / (weight + shrink_runs)) : 0;
  for (uint32_t i = 0; i < fit->n; i++) {
    struct error_run *run = &fit->runs[i];
    if (!feature || run->point->features & feature) run->unexplained += *variance - better;
  }
  *variance = better;
}

/* Fits the variances to all sources but one (`without`, or n_sources to use all) by coordinate
 * descent, and sets `unexplained` of every run. */
static struct variances fit_variances(struct error_fit *fit, uint32_t without) {
  struct variances variances = {.all = 0};
  for (uint32_t i = 0; i < fit->n; i++) fit->runs[i].unexplained = fit->runs[i].squared_error;
  for (int step = 0; step < FIT_STEPS; step++) {
    improve_variance(fit, without, 0, 0, &variances.all);
    for (int k = 0; k < PZ_FEATURES; k++)
      if (pz_feature_is_fitted((enum pz_feature)k))
        improve_variance(fit, without, PZ_FEATURE_BIT(k), SHRINK_RUNS, &variances.own[k]);
  }
  return variances;
}

/* Returns the features, alone and in pairs, of the runs of all sources but one. */
static struct pz_risk features_seen_without(const struct error_fit *fit, uint32_t without) {
  struct pz_risk seen = {.seen = 0};
  uint64_t together[PZ_FEATURES] = {0};
  for (uint32_t i = 0; i < fit->n; i++) {
    if (fit->runs[i].source == without) continue;
    uint64_t features = fit->runs[i].point->features;
    seen.seen |= features;
    for (int k = 0; k < PZ_FEATURES; k++)
      if (features & PZ_FEATURE_BIT(k)) together[k] |= features;
  }
  for (int k = 0; k < PZ_FEATURES; k++)
    seen.untested_partners[k] = pz_feature_partners((enum pz_feature)k) & ~together[k];
  return seen;
}

/* A run that was compared with the fit of the other sources. */
struct left_out_run {
  double squared_error;
  double explained; /* sum of the fitted variances of its features */
  double n_unseen;  /* its features that no other source has */
  double weight;
  double ratio; /* squared error over `explained`, or the error for one unseen feature */
  uint32_t source;
};

static int compare_ratios(const void *a, const void *b) {
  const struct left_out_run *first = a, *second = b;
  return (first->ratio > second->ratio) - (first->ratio < second->ratio);
}

/* Sorts the runs and returns the smallest ratio that covers COVERED of their weight. */
static double covering_ratio(struct left_out_run *runs, uint32_t n) {
  double all = 0, covered = 0, ratio = 0;
  qsort(runs, n, sizeof *runs, compare_ratios);
  for (uint32_t i = 0; i < n; i++) all += runs[i].weight;
  for (uint32_t i = 0; i < n && covered < COVERED * all; i++) {
    covered += runs[i].weight;
    ratio = runs[i].ratio;
  }
  return ratio;
}

struct interval {
  double squared_width; /* in variances */
  double unseen_error;  /* added once, times the root of the number of unseen features */
};

/* Returns the interval that covers the left-out runs.  Its width follows from runs without unseen
 * features; the error of an unseen feature from the others, with equal weight for every source. */
static struct interval fit_left_out(struct pz_call *call, struct error_fit *fit) {
  struct left_out_run *left_out = pz_alloc(call, fit->n, sizeof *left_out);
  /* Compare the runs of each source with the variances that are fitted to all other sources. */
  for (uint32_t source = 0; source < fit->n_sources; source++) {
    struct pz_risk seen = features_seen_without(fit, source);
    fit_variances(fit, source);
    for (uint32_t i = 0; i < fit->n; i++) {
      const struct error_run *run = &fit->runs[i];
      if (run->source != source) continue;
      double explained = pz_fmax(run->squared_error - run->unexplained, 1e-9); /* never 0 */
      left_out[i] = (struct left_out_run){
          .squared_error = run->squared_error,
          .explained = explained,
          .n_unseen = pz_fmin(pz_risk_unseen(&seen, run->point->features, NULL), MOST_UNSEEN),
          .weight = run->weight,
          .ratio = run->squared_error / explained,
          .source = source};
    }
  }
  /* The width: move the runs without unseen features to the front, and cover most of them. */
  uint32_t n_known = 0;
  for (uint32_t i = 0; i < fit->n; i++) {
    if (left_out[i].n_unseen != 0) continue;
    struct left_out_run known = left_out[i];
    left_out[i] = left_out[n_known];
    left_out[n_known] = known;
    n_known++;
  }
  struct interval interval = {.squared_width = covering_ratio(left_out, n_known)};
  /* The error of unseen features: what the interval of this width does not cover of other runs. */
  for (uint32_t i = n_known; i < fit->n; i++) {
    struct left_out_run *run = &left_out[i];
    uint32_t n_of_source = 0;
    for (uint32_t j = n_known; j < fit->n; j++)
      if (left_out[j].source == run->source) n_of_source++;
    double covered = sqrt(interval.squared_width * run->explained);
    run->weight = 1.0 / n_of_source;
    run->ratio = (sqrt(run->squared_error) - covered) / sqrt(run->n_unseen);
  }
  interval.unseen_error = pz_fmax(0, covering_ratio(left_out + n_known, fit->n - n_known));
  return interval;
}

/* ---- runs that have something in common ----------------------------------------------------- */

/* Returns whether a run belongs to a row; `key` is the row's set of features, chip or network. */
typedef bool run_filter(const struct pz_validation_point *point, const void *key);

/* A run_filter: the run has all features of a set, which may be empty. */
static bool has_features(const struct pz_validation_point *point, const void *key) {
  const uint64_t *features = key;
  return (point->features & *features) == *features;
}

static bool has_chip(const struct pz_validation_point *point, const void *key) {
  return strcmp(pz_chip_line(point->chip), key) == 0;
}

static bool has_network(const struct pz_validation_point *point, const void *key) {
  return strcmp(point->cluster, key) == 0;
}

struct run_count {
  uint32_t runs, sources;
  double error_sum;
  int64_t most;      /* devices of the largest run */
  uint64_t features; /* set of the features that any of the runs has */
};

/* Counts the runs and sources that pass the filter, and sums up their errors. */
static struct run_count count_runs(const struct error_fit *fit, run_filter *filter,
                                   const void *key) {
  struct run_count count = {.runs = 0};
  for (uint32_t i = 0; i < fit->n; i++) {
    const struct pz_validation_point *point = fit->runs[i].point;
    if (!filter(point, key)) continue;
    bool new_source = true;
    for (uint32_t j = 0; j < i && new_source; j++)
      new_source = fit->runs[j].source != fit->runs[i].source || !filter(fit->runs[j].point, key);
    if (new_source) count.sources++;
    count.runs++;
    count.error_sum += fabs(point->predicted_s / point->measured_s - 1);
    count.most = pz_max(count.most, point->devices);
    count.features |= point->features;
  }
  return count;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* Writes a row of the table; its column `with` is the set of features in hexadecimal digits. */
static void write_row(const char *kind, const char *name, const struct run_count *count,
                      double variance, FILE *out) {
  fprintf(out, "%s,%s,%u,%u,%.4f,%.6f,%" PRId64 ",%" PRIx64 "\n", kind, name, count->sources,
          count->runs, count->runs ? count->error_sum / count->runs : 0, variance, count->most,
          count->features);
}

/* Writes a row for each chip line (`chips`), or else for each network, on which runs were made. */
static void write_names(const struct error_fit *fit, bool chips, FILE *out) {
  run_filter *filter = chips ? has_chip : has_network;
  for (uint32_t i = 0; i < fit->n; i++) {
    const struct pz_validation_point *point = fit->runs[i].point;
    const char *name = chips ? pz_chip_line(point->chip) : point->cluster;
    bool is_new = *name;
    for (uint32_t j = 0; j < i && is_new; j++) is_new = !filter(fit->runs[j].point, name);
    if (!is_new) continue;
    struct run_count count = count_runs(fit, filter, name);
    write_row(chips ? "chip" : "network", name, &count, 0, out);
  }
}

/* Writes the table of expected errors: rows for all runs, for unseen features and for the longest
 * sequence, and one row for each feature, chip and network. */
void pz_error_fit_write_csv(struct pz_call *call, const struct pz_validation_point *points,
                            uint32_t n, FILE *out) {
  struct pz_call work = pz_scratch(call);
  struct error_fit fit = error_fit_of(&work, points, n);
  struct interval interval = fit_left_out(&work, &fit);
  struct variances variances = fit_variances(&fit, fit.n_sources);
  const uint64_t no_feature = 0;
  const struct run_count none = {.runs = 0};
  struct run_count all = count_runs(&fit, has_features, &no_feature), longest = none;
  /* the row of the longest sequence has its tokens in the column `most` */
  for (uint32_t i = 0; i < fit.n; i++) longest.most = pz_max(longest.most, fit.runs[i].point->seq);
  fputs("kind,name,sources,runs,mean_error,variance,most,with\n", out);
  write_row("all", "all runs", &all, interval.squared_width * variances.all, out);
  write_row("unseen", "a feature without a validated run", &none,
            interval.unseen_error * interval.unseen_error, out);
  write_row("sequence", "longest", &longest, 0, out);
  for (int k = 0; k < PZ_FEATURES; k++) {
    uint64_t feature = PZ_FEATURE_BIT(k);
    struct run_count count = count_runs(&fit, has_features, &feature);
    write_row("feature", pz_feature_text((enum pz_feature)k), &count,
              interval.squared_width * variances.own[k], out);
  }
  write_names(&fit, true, out);
  write_names(&fit, false, out);
  pz_scratch_end(&work);
}

/* ---- the report of features ----------------------------------------------------------------- */

/* Returns the expected error of a run in the built-in table (step/expected_error.csv), with the
 * features of validated runs and their variances. */
static struct pz_risk built_in_risk(const struct pz_validation_point *point) {
  struct pz_chip chip = {.name = ""};
  struct pz_cluster net = {.n_levels = 0};
  bool has_several_nodes = point->features & PZ_FEATURE_BIT(PZ_FEATURE_NODES);
  pz_text_copy(chip.name, sizeof chip.name, point->chip);
  pz_text_copy(net.name, sizeof net.name, point->cluster);
  struct pz_risk_question question = {.chip = &chip,
                                      .net = has_several_nodes && *point->cluster ? &net : NULL,
                                      .experts =
                                          point->features & PZ_FEATURE_BIT(PZ_FEATURE_EXPERTS),
                                      .precision = PZ_PRECISION_BF16,
                                      .devices = point->devices,
                                      .seq = point->seq};
  if (point->features & PZ_FEATURE_BIT(PZ_FEATURE_EIGHT_BIT))
    question.precision = PZ_PRECISION_FP8;
  else if (point->features & PZ_FEATURE_BIT(PZ_FEATURE_FOUR_BIT))
    question.precision = PZ_PRECISION_NVFP4;
  return pz_risk_built_in(&question);
}

/* A run_filter: something about the run is in no validated run of the built-in table.  This may be
 * a feature, alone, in a pair or on this chip; the chip or the network; or a sequence or a number
 * of devices as large as that of the run. */
static bool has_unseen(const struct pz_validation_point *point, const void *key) {
  struct pz_risk risk = built_in_risk(point);
  (void)key;
  return pz_risk_unseen(&risk, point->features, NULL) || *risk.beyond;
}

/* Prints a line about the runs that pass the filter, or nothing if there are none.
 * `added_error` is the error that the feature adds. */
static void print_feature(const struct error_fit *fit, const char *name, run_filter *filter,
                          const void *key, double added_error, FILE *out) {
  struct run_count count = count_runs(fit, filter, key);
  double width_sum = 0;
  uint32_t n_within = 0;
  for (uint32_t i = 0; i < fit->n; i++) {
    const struct pz_validation_point *point = fit->runs[i].point;
    if (!filter(point, key)) continue;
    struct pz_risk risk = built_in_risk(point);
    double width = pz_risk_error(&risk, point->features);
    width_sum += width;
    if (fabs(point->measured_s / point->predicted_s - 1) <= width) n_within++;
  }
  if (!count.runs) return;
  fprintf(out, "%-56s %7u %5u %6.1f%% %6.1f%% %8.1f%% %6.0f%%\n", name, count.sources, count.runs,
          100 * count.error_sum / count.runs, 100 * added_error, 100 * width_sum / count.runs,
          100.0 * n_within / count.runs);
}

/* Prints a line for all runs, for each feature, and for the runs with anything unseen. */
void pz_error_fit_print(struct pz_call *call, const struct pz_validation_point *points, uint32_t n,
                        FILE *out) {
  struct pz_call work = pz_scratch(call);
  struct error_fit fit = error_fit_of(&work, points, n);
  const uint64_t no_feature = 0;
  struct pz_chip unnamed = {.name = ""};
  struct pz_risk risk = pz_risk_built_in(&(struct pz_risk_question){.chip = &unnamed});
  fprintf(out, "%-56s %7s %5s %7s %7s %9s %7s\n", "feature", "sources", "runs", "error", "adds",
          "interval", "within");
  print_feature(&fit, "all runs", has_features, &no_feature, sqrt(risk.all), out);
  for (int k = 0; k < PZ_FEATURES; k++) {
    uint64_t feature = PZ_FEATURE_BIT(k);
    print_feature(&fit, pz_feature_text((enum pz_feature)k), has_features, &feature,
                  sqrt(risk.own[k]), out);
  }
  print_feature(&fit, "something that no validated run has", has_unseen, NULL, sqrt(risk.unseen),
                out);
  pz_scratch_end(&work);
}
