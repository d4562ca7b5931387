/* How wrong a prediction may be: an interval around the step that contains the measured one in about 8 of 10 runs.  Its half
 * width is a function of the plan's fields.  It is found from the features that the plan has
 * (step/plan_features.def) and a table of those that validated runs have, which `phaze validate --write-expected` fits
 * (study/error_fit.h) and which is built into the library (step/expected_error.csv):
 *
 *     error = sqrt(base + the sum of each feature's own variance) + unseen x sqrt(number of features that no validated run has)
 *
 * Two features that no run has together count as one that no run has.  So the error never falls when a plan has one feature
 * more, and bounds of the step stay bounds when they are multiplied by 1 + error. */
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

/* What the features depend on besides the plan. */
struct pz_feature_context {
  bool experts, scans, sparse; /* of the model: experts, state-space layers, sparse attention */
  int64_t layers;              /* repeated ones; 0: not known */
  int64_t node;                /* devices of the innermost level of the network */
};

/* The set of a plan's features. */
uint64_t pz_plan_features(const struct pz_plan *p, const struct pz_feature_context *c);

const char *pz_feature_text(enum pz_feature f);

/* May the fit give it a variance of its own?  Further doublings of a degree have none, nor has what most plans have, or most
 * of those of models with experts: its errors cannot be told from those of the models, or of the tables that they are from. */
bool pz_feature_is_fitted(enum pz_feature f);

/* Features behind f in the table with which it is looked at together. */
uint64_t pz_feature_partners(enum pz_feature f);

/* The error of all plans of a question: chip, network, devices and sequence are those of the question. */
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
  char beyond[300]; /* of the question, "; " between; "": nothing */
};

/* What the table's rows are found by besides the features. */
struct pz_risk_question {
  const struct pz_chip *chip;
  const struct pz_cluster *net; /* NULL, or a job within a node: no network */
  bool experts;
  int precision;
  int64_t devices, seq; /* 0: not known */
};

struct pz_risk pz_risk_of(const char *table, const struct pz_risk_question *q);
struct pz_risk pz_risk_built_in(const struct pz_risk_question *q);

/* Half the width of the interval, as a part of the step. */
double pz_risk_error(const struct pz_risk *r, uint64_t features);

/* Features that no validated run has, alone or two together, are counted; told to `e` where that is not NULL. */
unsigned pz_risk_unseen(const struct pz_risk *r, uint64_t features, struct pz_expectation *e);

/* The whole for people, of a plan that was priced on a chip in a network (may be NULL). */
struct pz_expectation pz_plan_expectation(const struct pz_plan *plan, const struct pz_prediction *p,
                                          int64_t layers, const struct pz_chip *chip,
                                          const struct pz_cluster *net);

#endif
