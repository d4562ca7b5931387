/* How wrong a prediction is likely to be: the errors of the validated runs most like it, from a table
 * that `phaze validate --write-expected` makes (step/expected_error.csv, built into the library): a line
 * for each combination of features that validated runs have.  Nothing is predicted here: a look-up takes
 * tens of microseconds. */
#ifndef PZ_STEP_EXPECTED_ERROR_H
#define PZ_STEP_EXPECTED_ERROR_H

#include "chip/embedded.h"
#include "plan/plan.h"

extern const struct pz_embedded pz_embedded_expected[]; /* the table: the entry "expected_error" */

/* What runs are told apart by.  A look-up takes the runs with all features equal; where these are fewer than
 * PZ_LEAST_EXPECTED, the last feature is dropped, then the one before it, and so on.  So the last ones are those that
 * explain least of the errors: of the variance of absolute errors over the built-in runs context parallelism explained
 * 0.1%, sequence length 1%, size 3%, pipeline and ZeRO-3 4% each, the framework 24%.  Chip line (8%), layers (8%) and
 * precision (14%) stay behind the framework, which nearly determines them in these runs. */
enum pz_feature {
  PZ_FEATURE_CHIP_LINE, /* pz_chip_line */
  PZ_FEATURE_LAYERS,    /* dense, experts */
  PZ_FEATURE_PRECISION, /* 16-bit, fp8 */
  PZ_FEATURE_FRAMEWORK, /* its name */
  PZ_FEATURE_SHARDING,  /* zero3, other */
  PZ_FEATURE_PIPELINE,  /* order of the microbatches, interleaved with chunks; none: one stage */
  PZ_FEATURE_SIZE,      /* devices: 1-8, 9-512, 513+ */
  PZ_FEATURE_SEQUENCE,  /* tokens: 1-4096, 4097-16384, 16385+ */
  PZ_FEATURE_CONTEXT,   /* cp: context parallelism, none */
  PZ_FEATURES
};

extern const char *const pz_feature_names[PZ_FEATURES]; /* columns of the table */

struct pz_run_features {
  char text[PZ_FEATURES][48];
  int64_t seq, devices;
};

/* Of a plan that was priced on a chip. */
struct pz_run_features pz_run_features(const struct pz_plan *plan, const struct pz_prediction *p,
                                       const char *chip);

enum { PZ_LEAST_EXPECTED = 4 };

/* By a table's text.  The error of the runs that are found grows with each doubling of devices beyond the largest of them
 * (error_growth of cost/constants.def).  `beyond` has what the run uses and no run of the table has: values, two of them
 * together, a longer sequence, more devices. */
struct pz_expectation pz_expected_error(const char *table, const struct pz_run_features *f);

/* What the runs that were found have in common with the run, by the number of features that are equal. */
extern const char *const pz_likeness_texts[PZ_FEATURES + 1];

/* By the built-in table. */
struct pz_expectation pz_plan_expectation(const struct pz_plan *plan, const struct pz_prediction *p,
                                          const struct pz_chip *chip);

/* Chips of one architecture, which calibration treats alike: a100-40 and a100-80 are "a100", h100,
 * h200 and h800 "hopper".  A chip of no known line is a line of its own. */
const char *pz_chip_line(const char *chip);

#endif
