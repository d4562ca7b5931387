/* How wrong a prediction may be: an interval around the step that contains the measured one in
 * about 8 of 10 runs.  Its half width follows from the features of the plan
 * (step/plan_features.def) and a table of the features of validated runs.  `phaze validate
 * --write-expected` fits the table (study/error_fit.h), which is built into the library
 * (step/expected_error.csv):
 *
 *     error = sqrt(base + sum of the features' variances) + unseen x sqrt(features without a run)
 *
 * A pair of features that no run has together counts as one unseen feature.  The error never falls
 * with an additional feature, so lower bounds of the step multiplied by 1 + error remain bounds. */
#ifndef PZ_STEP_EXPECTED_ERROR_H
#define PZ_STEP_EXPECTED_ERROR_H

#include "chip/embedded.h"
#include "plan/plan.h"

extern const struct pz_embedded pz_embedded_expected[]; /* contains the table as "expected_error" */

enum pz_feature {
#define FEATURE(id, role, when, text) PZ_FEATURE_##id,
#include "step/plan_features.def"
#undef FEATURE
  PZ_FEATURES
};
_Static_assert(PZ_FEATURES <= 64, "a set of features is a number of 64 bits");

#define PZ_FEATURE_BIT(f) (UINT64_C(1) << (f))

/* Properties of the model and the network that the features of a plan depend on. */
struct pz_feature_context {
  bool experts, scans, sparse; /* the model has experts, state-space layers, sparse attention */
  int64_t layers;              /* number of repeated layers, or 0 if unknown */
  int64_t node;                /* devices in the innermost level of the network */
};

/* Returns the features of a plan as a set of PZ_FEATURE_BIT(). */
uint64_t pz_plan_features(const struct pz_plan *plan, const struct pz_feature_context *context);

const char *pz_feature_text(enum pz_feature f);

/* Returns whether the fit may give a feature a variance of its own.  Further doublings of a
 * degree have none.  Features of most plans have none either, because their errors cannot be
 * separated from those of the models or the tables. */
bool pz_feature_is_fitted(enum pz_feature f);

/* Returns the features after this one in plan_features.def that form pairs with it. */
uint64_t pz_feature_partners(enum pz_feature f);

/* The expected error for all plans of a question: of a model on a chip, network and number of
 * devices, with a sequence length. */
struct pz_risk {
  double all;           /* variance that every plan has */
  double unseen;        /* squared error of a feature without a validated run */
  unsigned beyond_runs; /* number of properties of the question that no validated run has */
  double growth;        /* relative error added for devices beyond the largest validated run */
  double own[64];       /* the variance of each feature */
  uint64_t seen;        /* features of validated runs */
  uint64_t untested_partners[64]; /* by feature: later features that no run has together with it */
  uint32_t runs[64], all_runs;    /* validated runs with each feature, and in total */
  bool own_steps;                 /* `all` comes from the user's own measured steps */
  char beyond[300];               /* the properties counted by beyond_runs, separated by "; " */
};

/* The properties of a question that select rows of the table, besides the features of a plan. */
struct pz_risk_question {
  const struct pz_chip *chip;
  const struct pz_cluster *net; /* NULL if the job runs within a node */
  bool experts;
  int precision;
  int64_t devices, seq; /* 0 if unknown */
};

/* Returns the expected error of a question, from the text of a table or from the built-in table. */
struct pz_risk pz_risk_of(const char *table, const struct pz_risk_question *question);
struct pz_risk pz_risk_built_in(const struct pz_risk_question *question);

/* Returns half the width of the interval, relative to the step. */
double pz_risk_error(const struct pz_risk *risk, uint64_t features);

/* Counts the features that no validated run has, alone or in pairs.  Lists them in *expectation
 * unless it is NULL. */
unsigned pz_risk_unseen(const struct pz_risk *risk, uint64_t features,
                        struct pz_expectation *expectation);

/* Returns the expected error of a priced plan with its explanation.  The network may be NULL. */
struct pz_expectation pz_plan_expectation(const struct pz_plan *plan,
                                          const struct pz_prediction *prediction, int64_t layers,
                                          const struct pz_chip *chip, const struct pz_cluster *net);

#endif
