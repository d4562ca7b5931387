/* The expected error of a prediction (expected_error.h): reads the table of validated runs, and
 * adds up the variances of a plan's features. */
#include "step/expected_error.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "cost/constants.h"

/* ---- features ------------------------------------------------------------------------------- */

/* The role of a feature: with which others it forms pairs (plan_features.def). */
enum role {
  CONTEXT, /* with all features */
  PLAIN,   /* with CONTEXT and PLAIN features */
  MORE     /* a further doubling of a degree, with CONTEXT features alone */
};

static const struct feature_info {
  const char *text;
  enum role role;
} feature_infos[PZ_FEATURES] = {
#define FEATURE(id, role, when, text) {text, role},
#include "step/plan_features.def"
#undef FEATURE
};

const char *pz_feature_text(enum pz_feature feature) { return feature_infos[feature].text; }

/* Returns whether the fit may give a feature its own variance.  It may not if most plans have the
 * feature (`common`), or if it is a further doubling of a degree. */
bool pz_feature_is_fitted(enum pz_feature feature) {
  static const uint64_t common = PZ_FEATURE_BIT(PZ_FEATURE_TP) | PZ_FEATURE_BIT(PZ_FEATURE_PP) |
                                 PZ_FEATURE_BIT(PZ_FEATURE_MBS) | PZ_FEATURE_BIT(PZ_FEATURE_EP) |
                                 PZ_FEATURE_BIT(PZ_FEATURE_TOKEN_KERNELS);
  return feature_infos[feature].role != MORE && !(common >> feature & 1);
}

/* Returns the features of a plan as a set.  The conditions of plan_features.def use the locals. */
uint64_t pz_plan_features(const struct pz_plan *plan, const struct pz_feature_context *context) {
  enum pz_framework_family family = pz_plan_framework(plan)->family;
  int64_t cp = pz_plan_cp(plan), ep = pz_plan_ep(plan), devices = pz_plan_devices(plan);
  int overlap = pz_plan_effective_overlap(plan);
  uint64_t features = 0;
#define FEATURE(id, role, when, text) features |= (when) ? PZ_FEATURE_BIT(PZ_FEATURE_##id) : 0;
#include "step/plan_features.def"
#undef FEATURE
  return features;
}

/* Returns the later features with which a feature forms pairs, as a set of PZ_FEATURE_BIT(). */
uint64_t pz_feature_partners(enum pz_feature feature) {
  uint64_t partners = 0;
  for (int other = (int)feature + 1; other < PZ_FEATURES; other++) {
    bool has_context =
        feature_infos[feature].role == CONTEXT || feature_infos[other].role == CONTEXT;
    if (has_context || (feature_infos[feature].role == PLAIN && feature_infos[other].role == PLAIN))
      partners |= PZ_FEATURE_BIT(other);
  }
  return partners;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A row of the table, "kind,name,sources,runs,mean_error,variance,most,with".  It summarizes the
 * validated runs with one feature, chip or network, or all of them (kind "all").  The other kinds
 * are the variance of a feature without runs ("unseen") and the longest sequence ("sequence"). */
struct table_row {
  char kind[16], name[96];
  unsigned runs;
  double variance;
  int64_t largest;   /* devices of the largest run, or tokens of the longest sequence */
  uint64_t features; /* set of PZ_FEATURE_BIT(): features that at least one of the row's runs has */
};

/* Appends a property without a validated run to a list, separated by "; ". */
__attribute__((format(printf, 3, 4))) static void append_unvalidated(char *text, size_t bytes,
                                                                     const char *form, ...) {
  size_t length = strlen(text);
  va_list args;
  va_start(args, form);
  if (length) length += (size_t)snprintf(text + length, bytes - length, "; ");
  if (length < bytes) vsnprintf(text + length, bytes - length, form, args);
  va_end(args);
}

/* The validated runs of the table with the chip and the network that a prediction is for. */
struct validated_runs {
  bool has_chip, has_network; /* there are runs with the chip, or the network */
  uint64_t features; /* set of PZ_FEATURE_BIT(): features that at least one run on the chip has */
  int64_t longest_seq, most_devices; /* of all runs */
};

/* Finds the properties of a question that no validated run has (chip, network, kind of model on the
 * chip, sequence length): appends them to risk->beyond and counts them in risk->beyond_runs.  Sets
 * risk->growth if the question has more devices than the largest validated run. */
static void add_unvalidated(struct pz_risk *risk, const struct pz_risk_question *question,
                            const char *chip_line, const struct validated_runs *runs) {
  /* features that a run on the same chip must have, and whether the question has them */
  static const enum pz_feature chip_features[] = {PZ_FEATURE_EXPERTS, PZ_FEATURE_EIGHT_BIT,
                                                  PZ_FEATURE_FOUR_BIT};
  const bool has_feature[] = {question->experts, question->precision == PZ_PRECISION_FP8,
                              question->precision == PZ_PRECISION_NVFP4};
  char asked[32], validated[32];
  unsigned n_unvalidated = 0;
  if (!runs->has_chip) {
    n_unvalidated++;
    append_unvalidated(risk->beyond, sizeof risk->beyond, "chip line %s", chip_line);
  }
  for (size_t i = 0; i < sizeof chip_features / sizeof *chip_features; i++) {
    bool is_validated = runs->features & PZ_FEATURE_BIT(chip_features[i]);
    if (!runs->has_chip || !has_feature[i] || is_validated) continue;
    n_unvalidated++;
    append_unvalidated(risk->beyond, sizeof risk->beyond, "%s on %s",
                       feature_infos[chip_features[i]].text, chip_line);
  }
  bool has_measured_network = question->net && question->net->calibration_error > 0;
  if (question->net && !runs->has_network && !has_measured_network) {
    n_unvalidated++;
    append_unvalidated(risk->beyond, sizeof risk->beyond, "network %s", question->net->name);
  }
  if (question->seq > runs->longest_seq) {
    n_unvalidated++;
    append_unvalidated(risk->beyond, sizeof risk->beyond, "sequence %s (longest validated %s)",
                       pz_text_count(asked, sizeof asked, question->seq),
                       pz_text_count(validated, sizeof validated, runs->longest_seq));
  }
  risk->beyond_runs = n_unvalidated;
  if (question->devices <= runs->most_devices || runs->most_devices <= 0) return;
  risk->growth = pz_constants_default.error_growth *
                 log2((double)question->devices / (double)runs->most_devices);
  append_unvalidated(risk->beyond, sizeof risk->beyond, "%s devices (most validated %s)",
                     pz_text_count(asked, sizeof asked, question->devices),
                     pz_text_count(validated, sizeof validated, runs->most_devices));
}

/* Reads from a table of validated runs what pz_risk_error() needs: the variance of each feature,
 * the pairs of features without a run, and the properties of the question that no run has. */
struct pz_risk pz_risk_of(const char *table, const struct pz_risk_question *question) {
  struct pz_risk risk = {.all = 0};
  struct validated_runs validated = {.most_devices = 0};
  int feature = 0;
  char chip_line[48];
  pz_text_copy(chip_line, sizeof chip_line, pz_chip_line(question->chip->name));
  chip_line[strcspn(chip_line, ",")] = '\0'; /* cuts ", calibrated with ..." */
  /* Reads the rows.  The first line is the heading, and the table ends at the first line that is
   * not a row.  Rows of kind "feature" are in the order of plan_features.def. */
  enum { COLUMNS_READ = 6 };
  const char *line_end = table ? strchr(table, '\n') : NULL;
  for (; line_end; line_end = strchr(line_end + 1, '\n')) {
    struct table_row row;
    int n_read = sscanf(line_end + 1, "%15[^,],%95[^,],%*u,%u,%*f,%lf,%" SCNd64 ",%" SCNx64,
                        row.kind, row.name, &row.runs, &row.variance, &row.largest, &row.features);
    if (n_read != COLUMNS_READ) break;
    if (strcmp(row.kind, "all") == 0) {
      risk.all = row.variance;
      risk.all_runs = row.runs;
      validated.most_devices = row.largest;
    }
    if (strcmp(row.kind, "unseen") == 0) risk.unseen = row.variance;
    if (strcmp(row.kind, "sequence") == 0) validated.longest_seq = row.largest;
    if (strcmp(row.kind, "chip") == 0 && strcmp(row.name, chip_line) == 0) {
      validated.has_chip = true;
      validated.features = row.features;
    }
    if (strcmp(row.kind, "network") == 0 && question->net &&
        strcmp(row.name, question->net->name) == 0)
      validated.has_network = true;
    if (strcmp(row.kind, "feature") != 0 || feature == PZ_FEATURES) continue;
    if (row.runs) risk.seen |= PZ_FEATURE_BIT(feature);
    if (feature == PZ_FEATURE_EXPERTS && question->experts) validated.most_devices = row.largest;
    risk.own[feature] = row.variance;
    risk.runs[feature] = row.runs;
    /* partners that no validated run has together with this feature */
    risk.untested_partners[feature] = pz_feature_partners((enum pz_feature)feature) & ~row.features;
    feature++;
  }
  /* Steps that the user measured on this chip replace the variances of the table if they include
   * such a model and precision, or if they show a larger error. */
  const struct pz_correction *correction = &question->chip->correction;
  bool has_same_kind =
      correction->kinds & pz_correction_kind(question->experts, question->precision);
  double measured_variance = correction->error * correction->error;
  if (correction->error > 0 && (has_same_kind || measured_variance > risk.all)) {
    risk.all = measured_variance;
    memset(risk.own, 0, sizeof risk.own); /* the measured error includes that of all features */
    risk.own_steps = true;
  }
  if (risk.all_runs) add_unvalidated(&risk, question, chip_line, &validated);
  return risk;
}

struct pz_risk pz_risk_built_in(const struct pz_risk_question *question) {
  return pz_risk_of(pz_embedded_text(pz_embedded_expected, "expected_error"), question);
}

/* ---- the error of a plan -------------------------------------------------------------------- */

/* Counts the features of a plan that no validated run has, and the pairs of its other features that
 * no run has together.  Lists them in expectation->beyond unless `expectation` is NULL.  Sets have
 * a bit for each feature, and `rest &= rest - 1` removes the lowest one. */
unsigned pz_risk_unseen(const struct pz_risk *risk, uint64_t plan_features,
                        struct pz_expectation *expectation) {
  unsigned count = 0;
  uint64_t seen = plan_features & risk->seen;
  for (uint64_t rest = plan_features & ~risk->seen; rest; rest &= rest - 1) {
    count++;
    if (expectation)
      append_unvalidated(expectation->beyond, sizeof expectation->beyond, "%s",
                         feature_infos[__builtin_ctzll(rest)].text);
  }
  for (uint64_t rest = seen; rest; rest &= rest - 1) {
    int feature = __builtin_ctzll(rest);
    /* partners are later features, so that each pair is counted once */
    uint64_t partners = seen & risk->untested_partners[feature];
    for (; partners; partners &= partners - 1) {
      count++;
      if (!expectation) continue;
      append_unvalidated(expectation->beyond, sizeof expectation->beyond, "%s with %s",
                         feature_infos[__builtin_ctzll(partners)].text,
                         feature_infos[feature].text);
    }
  }
  return count;
}

/* Returns half the width of the error interval, relative to the step, of a plan with these features
 * (the formula in expected_error.h, with an addition for very many devices). */
double pz_risk_error(const struct pz_risk *risk, uint64_t plan_features) {
  double variance = risk->all;
  double n_unseen = risk->beyond_runs + pz_risk_unseen(risk, plan_features, NULL);
  for (uint64_t rest = plan_features; rest; rest &= rest - 1)
    variance += risk->own[__builtin_ctzll(rest)];
  return sqrt(variance) + sqrt(n_unseen * risk->unseen) + risk->growth;
}

/* Returns the expected error of a priced plan, the number of validated runs that have its rarest
 * feature, and texts that explain both. */
struct pz_expectation pz_plan_expectation(const struct pz_plan *plan,
                                          const struct pz_prediction *prediction, int64_t layers,
                                          const struct pz_chip *chip,
                                          const struct pz_cluster *net) {
  struct pz_expectation expectation = {.runs = 0};
  static const int64_t USUAL_NODE = 8; /* devices of a node if no network is given */
  int64_t devices = pz_plan_devices(plan);
  int64_t node_devices = net && net->n_levels ? pz_cluster_node(net) : USUAL_NODE;
  struct pz_feature_context context = {.experts = (prediction->active_params < prediction->params),
                                       .scans = (prediction->scan_layers > 0),
                                       .sparse = prediction->sparse_layers > 0,
                                       .layers = layers,
                                       .node = node_devices};
  struct pz_risk_question question = {
      .chip = chip,
      .net = devices > node_devices ? net : NULL,
      .experts = context.experts,
      .precision = plan->precision,
      .devices = devices,
      .seq = (int64_t)(prediction->tokens / (double)plan->batch + 0.5)};
  struct pz_risk risk = pz_risk_built_in(&question);
  uint64_t features = pz_plan_features(plan, &context);
  if (!risk.all_runs) return expectation;
  expectation.error = pz_risk_error(&risk, features);
  expectation.runs = risk.all_runs;
  for (uint64_t rest = features & risk.seen; rest; rest &= rest - 1)
    expectation.runs = (uint32_t)pz_min(expectation.runs, risk.runs[__builtin_ctzll(rest)]);
  pz_text_copy(expectation.beyond, sizeof expectation.beyond, risk.beyond);
  pz_risk_unseen(&risk, features, &expectation);
  /* explain where the error comes from */
  if (risk.own_steps) {
    expectation.runs = (uint32_t)chip->correction.steps;
    snprintf(expectation.of, sizeof expectation.of,
             "your own steps, each predicted from the others");
    return expectation;
  }
  snprintf(expectation.of, sizeof expectation.of, "all runs %.0f%%", 100 * sqrt(risk.all));
  for (uint64_t rest = features; rest; rest &= rest - 1) {
    int feature = __builtin_ctzll(rest);
    size_t length = strlen(expectation.of);
    if (risk.own[feature] > 0)
      snprintf(expectation.of + length, sizeof expectation.of - length, ", %s %.0f%%",
               feature_infos[feature].text, 100 * sqrt(risk.own[feature]));
  }
  return expectation;
}
