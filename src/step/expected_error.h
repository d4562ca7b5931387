/* How wrong a prediction may be: an interval around the step that contains the measured one in
 * about 8 of 10 runs.  Its half width is a function of the plan's fields.  It is found from the
 * features that the plan has (step/plan_features.def) and a table of those that validated runs
 * have, which `phaze validate --write-expected` fits (study/error_fit.h) and which is built into
 * the library (step/expected_error.csv):
 *
 *     error = sqrt(base + the sum of each feature's own variance) + unseen x sqrt(number of features that no validated run has)
 *
 * Two features that no run has together count as one that no run has.  So the error never falls
 * when a plan has one feature more, and bounds of the step stay bounds when they are multiplied by
 * 1 + error. */
#ifndef PZ_STEP_EXPECTED_ERROR_H
#define PZ_STEP_EXPECTED_ERROR_H

#include "chip/embedded.h"
#include "plan/plan.h"

extern const struct pz_embedded pz_embedded_expected[]; /* the table: the entry "expected_error" */

enum pz_feature {
#define FEATURE(id, role, when, text) PZ_FEATURE_##id,
#include "step/plan_features.def"
#undef FEATURE
  PZ_FEATURES
};
_Static_assert(PZ_FEATURES <= 64, "a set of features is a number of 64 bits");

#define PZ_FEATURE_BIT(f) (UINT64_C(1) << (f))

/* Properties besides the plan that its features depend on. */
struct pz_feature_context {
  bool experts, scans, sparse; /* of the model: experts, state-space layers, sparse attention */
  int64_t layers;              /* repeated ones, or 0 if not known */
  int64_t node;                /* devices of the innermost level of the network */
};

/* Returns the features of a plan as a set of PZ_FEATURE_BIT(). */
uint64_t pz_plan_features(const struct pz_plan *plan, const struct pz_feature_context *context);

const char *pz_feature_text(enum pz_feature f);

/* Returns whether the fit may give a feature a variance of its own.  Further doublings of a degree
 * have none.  Neither have features of most plans, or of most plans with experts, because their
 * errors cannot be distinguished from those of the models or of the tables. */
bool pz_feature_is_fitted(enum pz_feature f);

/* Returns the features after this one in the table that are considered in pairs with it. */
uint64_t pz_feature_partners(enum pz_feature f);

/* The expected error for all plans of a question, whose chip, network, devices and sequence are
 * fixed. */
struct pz_risk {
  double all;           /* variance of every plan */
  double unseen;        /* squared error of a feature without a validated run */
  unsigned beyond_runs; /* what the question has and no validated run */
  double growth;        /* of the error: devices beyond the largest validated run */
  double own[64];       /* variances of features */
  uint64_t seen;        /* features of validated runs */
  uint64_t strange[64]; /* of each the later features that no run has together with it */
  uint32_t runs[64], all_runs;
  bool own_steps;   /* of the user say how large the error is */
  char beyond[300]; /* of the question, "; " between, or "" if nothing */
};

/* The properties of a question that select rows of the table, besides features. */
struct pz_risk_question {
  const struct pz_chip *chip;
  const struct pz_cluster *net; /* NULL, or a job within a node: no network */
  bool experts;
  int precision;
  int64_t devices, seq; /* 0 if not known */
};

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
