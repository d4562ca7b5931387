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

enum role { CONTEXT, PLAIN, MORE };

static const struct feature_info {
  const char *text;
  enum role role;
} features[PZ_FEATURES] = {
#define FEATURE(id, role, when, text) {text, role},
#include "step/plan_features.def"
#undef FEATURE
};

const char *pz_feature_text(enum pz_feature feature) { return features[feature].text; }

bool pz_feature_is_fitted(enum pz_feature feature) {
  static const uint64_t common = PZ_FEATURE_BIT(PZ_FEATURE_TP) | PZ_FEATURE_BIT(PZ_FEATURE_PP) |
                                 PZ_FEATURE_BIT(PZ_FEATURE_MBS) | PZ_FEATURE_BIT(PZ_FEATURE_EP) |
                                 PZ_FEATURE_BIT(PZ_FEATURE_TOKEN_KERNELS);
  return features[feature].role != MORE && !(common >> feature & 1);
}

uint64_t pz_plan_features(const struct pz_plan *plan, const struct pz_feature_context *context) {
  enum pz_framework_family family = pz_plan_framework(plan)->family;
  int64_t cp = pz_plan_cp(plan), ep = pz_plan_ep(plan), devices = pz_plan_devices(plan);
  int overlap = pz_plan_effective_overlap(plan);
  uint64_t set = 0;
#define FEATURE(id, role, when, text) set |= (when) ? PZ_FEATURE_BIT(PZ_FEATURE_##id) : 0;
#include "step/plan_features.def"
#undef FEATURE
  return set;
}

uint64_t pz_feature_partners(enum pz_feature feature) {
  uint64_t set = 0;
  for (int g = (int)feature + 1; g < PZ_FEATURES; g++) {
    bool context = features[feature].role == CONTEXT || features[g].role == CONTEXT;
    if (context || (features[feature].role == PLAIN && features[g].role == PLAIN))
      set |= PZ_FEATURE_BIT(g);
  }
  return set;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* "kind,name,sources,runs,mean_error,variance,most,with": most is the devices of the largest run
 * with a feature, or the longest sequence of all; `with` the set of features that runs with it
 * have. */
struct row {
  char kind[16], name[96];
  unsigned runs;
  double variance;
  int64_t most;
  uint64_t with;
};

/* Reads the row after `text` and returns its beginning, or NULL at the end of the table. */
static const char *next_row(const char *text, struct row *risk) {
  const char *at = text ? strchr(text, '\n') : NULL;
  if (!at) return NULL;
  int n = sscanf(at + 1, "%15[^,],%95[^,],%*u,%u,%*f,%lf,%" SCNd64 ",%" SCNx64, risk->kind,
                 risk->name, &risk->runs, &risk->variance, &risk->most, &risk->with);
  return n == 6 ? at + 1 : NULL;
}

/* Appends a property that no validated run has to a list in words, separated by "; ". */
__attribute__((format(printf, 3, 4))) static void add_beyond(char *text, size_t bytes,
                                                             const char *form, ...) {
  size_t n = strlen(text);
  va_list args;
  va_start(args, form);
  if (n) n += (size_t)snprintf(text + n, bytes - n, "; ");
  if (n < bytes) vsnprintf(text + n, bytes - n, form, args);
  va_end(args);
}

/* Properties of a question that validated runs may not have; each that they lack counts as a
 * feature. */
struct strange {
  bool chip, net; /* such ones are in the table */
  uint64_t with;  /* features of runs on such a chip */
  int64_t longest, largest;
};

static void find_strange(struct pz_risk *risk, const struct pz_risk_question *question,
                         const struct strange *strange) {
  static const enum pz_feature of_chip[] = {PZ_FEATURE_EXPERTS, PZ_FEATURE_EIGHT_BIT,
                                            PZ_FEATURE_FOUR_BIT};
  const bool has[] = {question->experts, question->precision == PZ_PRECISION_FP8,
                      question->precision == PZ_PRECISION_NVFP4};
  char line[48], here[32], most[32];
  unsigned n = 0;
  pz_text_copy(line, sizeof line, pz_chip_line(question->chip->name));
  line[strcspn(line, ",")] = '\0'; /* "h100, calibrated with ..." */
  if (!strange->chip) n++, add_beyond(risk->beyond, sizeof risk->beyond, "chip line %s", line);
  for (size_t i = 0; i < sizeof of_chip / sizeof *of_chip; i++)
    if (strange->chip && has[i] && !(strange->with & PZ_FEATURE_BIT(of_chip[i])))
      n++, add_beyond(risk->beyond, sizeof risk->beyond, "%s on %s", features[of_chip[i]].text,
                      line);
  if (question->net && !strange->net && !(question->net->calibration_error > 0))
    n++, add_beyond(risk->beyond, sizeof risk->beyond, "network %s", question->net->name);
  if (question->seq > strange->longest)
    n++, add_beyond(risk->beyond, sizeof risk->beyond, "sequence %s (longest validated %s)",
                    pz_text_count(here, sizeof here, question->seq),
                    pz_text_count(most, sizeof most, strange->longest));
  risk->beyond_runs = n;
  if (question->devices <= strange->largest || strange->largest <= 0) return;
  risk->growth = pz_constants_default.error_growth *
                 log2((double)question->devices / (double)strange->largest);
  add_beyond(risk->beyond, sizeof risk->beyond, "%s devices (most validated %s)",
             pz_text_count(here, sizeof here, question->devices),
             pz_text_count(most, sizeof most, strange->largest));
}

struct pz_risk pz_risk_of(const char *table, const struct pz_risk_question *question) {
  struct pz_risk risk = {.all = 0};
  struct strange strange = {.largest = 0};
  struct row row;
  int feature = 0;
  char line[48];
  pz_text_copy(line, sizeof line, pz_chip_line(question->chip->name));
  line[strcspn(line, ",")] = '\0';
  while ((table = next_row(table, &row)) != NULL) {
    if (strcmp(row.kind, "all") == 0) {
      risk.all = row.variance;
      risk.all_runs = row.runs;
      strange.largest = row.most;
    }
    if (strcmp(row.kind, "unseen") == 0) risk.unseen = row.variance;
    if (strcmp(row.kind, "sequence") == 0) strange.longest = row.most;
    if (strcmp(row.kind, "chip") == 0 && strcmp(row.name, line) == 0)
      strange.chip = true, strange.with = row.with;
    if (strcmp(row.kind, "network") == 0 && question->net &&
        strcmp(row.name, question->net->name) == 0)
      strange.net = true;
    if (strcmp(row.kind, "feature") != 0 || feature == PZ_FEATURES) continue;
    if (row.runs) risk.seen |= PZ_FEATURE_BIT(feature);
    if (feature == PZ_FEATURE_EXPERTS && question->experts) strange.largest = row.most;
    risk.own[feature] = row.variance;
    risk.runs[feature] = row.runs;
    risk.strange[feature] = pz_feature_partners((enum pz_feature)feature) & ~row.with;
    feature++;
  }
  const struct pz_correction *correction = &question->chip->correction;
  bool alike = correction->kinds & pz_correction_kind(question->experts, question->precision);
  if (correction->error > 0 && (alike || correction->error * correction->error > risk.all)) {
    risk.all =
        correction->error *
        correction->error; /* measured with the user's own steps, whatever features they have */
    memset(risk.own, 0, sizeof risk.own);
    risk.own_steps = true;
  }
  if (risk.all_runs) find_strange(&risk, question, &strange);
  return risk;
}

struct pz_risk pz_risk_built_in(const struct pz_risk_question *question) {
  return pz_risk_of(pz_embedded_text(pz_embedded_expected, "expected_error"), question);
}

/* ---- the error of a plan -------------------------------------------------------------------- */

unsigned pz_risk_unseen(const struct pz_risk *risk, uint64_t set,
                        struct pz_expectation *expectation) {
  unsigned n = 0;
  uint64_t known = set & risk->seen;
  for (uint64_t left = set & ~risk->seen; left; left &= left - 1, n++)
    if (expectation)
      add_beyond(expectation->beyond, sizeof expectation->beyond, "%s",
                 features[__builtin_ctzll(left)].text);
  for (uint64_t left = known; left; left &= left - 1) {
    int feature = __builtin_ctzll(left);
    for (uint64_t strange = known & risk->strange[feature]; strange; strange &= strange - 1, n++)
      if (expectation)
        add_beyond(expectation->beyond, sizeof expectation->beyond, "%s with %s",
                   features[__builtin_ctzll(strange)].text, features[feature].text);
  }
  return n;
}

double pz_risk_error(const struct pz_risk *risk, uint64_t set) {
  double variance = risk->all, unseen = risk->beyond_runs + pz_risk_unseen(risk, set, NULL);
  for (uint64_t left = set; left; left &= left - 1) variance += risk->own[__builtin_ctzll(left)];
  return sqrt(variance) + sqrt(unseen * risk->unseen) + risk->growth;
}

struct pz_expectation pz_plan_expectation(const struct pz_plan *plan,
                                          const struct pz_prediction *prediction, int64_t layers,
                                          const struct pz_chip *chip,
                                          const struct pz_cluster *net) {
  struct pz_expectation expectation = {.runs = 0};
  int64_t devices = pz_plan_devices(plan), node = net && net->n_levels ? pz_cluster_node(net) : 8;
  struct pz_feature_context context = {
      .experts = prediction->active_params<prediction->params, .scans = prediction->scan_layers> 0,
      .sparse = prediction->sparse_layers > 0,
      .layers = layers,
      .node = node};
  struct pz_risk_question question = {
      .chip = chip,
      .net = devices > node ? net : NULL,
      .experts = context.experts,
      .precision = plan->precision,
      .devices = devices,
      .seq = (int64_t)(prediction->tokens / (double)plan->batch + 0.5)};
  struct pz_risk risk = pz_risk_built_in(&question);
  uint64_t set = pz_plan_features(plan, &context);
  if (!risk.all_runs) return expectation;
  expectation.error = pz_risk_error(&risk, set);
  expectation.runs = risk.all_runs;
  for (uint64_t left = set & risk.seen; left; left &= left - 1)
    expectation.runs = (uint32_t)pz_min(expectation.runs, risk.runs[__builtin_ctzll(left)]);
  pz_text_copy(expectation.beyond, sizeof expectation.beyond, risk.beyond);
  pz_risk_unseen(&risk, set, &expectation);
  if (risk.own_steps) {
    expectation.runs = (uint32_t)chip->correction.steps;
    snprintf(expectation.of, sizeof expectation.of,
             "your own steps, each predicted from the others");
    return expectation;
  }
  snprintf(expectation.of, sizeof expectation.of, "all runs %.0f%%", 100 * sqrt(risk.all));
  for (uint64_t left = set; left; left &= left - 1) {
    int feature = __builtin_ctzll(left);
    size_t n = strlen(expectation.of);
    if (risk.own[feature] > 0)
      snprintf(expectation.of + n, sizeof expectation.of - n, ", %s %.0f%%", features[feature].text,
               100 * sqrt(risk.own[feature]));
  }
  return expectation;
}
