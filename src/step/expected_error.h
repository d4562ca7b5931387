/* How wrong a prediction is likely to be: the errors of the validated runs most like it, from a table
 * that `phaze validate --write-expected` makes (step/expected_error.csv, built into the library).
 * Nothing is predicted here: a look-up takes microseconds. */
#ifndef PZ_STEP_EXPECTED_ERROR_H
#define PZ_STEP_EXPECTED_ERROR_H

#include "chip/embedded.h"
#include "plan/plan.h"

extern const struct pz_embedded pz_embedded_expected[]; /* the table */

/* A run as the table tells runs apart. */
struct pz_run_kind {
  const char *chip;      /* a chip's name */
  const char *framework; /* its name */
  bool one_node;         /* all devices in the innermost level of the network */
  const char *work;      /* pz_work_name */
};

/* What layers compute: "experts", or products in "fp8" or "16-bit". */
const char *pz_work_name(bool experts, bool fp8);

/* What the rows that were chosen have in common with the run: the first of these with
 * PZ_LEAST_EXPECTED rows or more. */
enum pz_likeness {
  PZ_LIKE_KIND, /* chips of the same line, framework, and one node or several, all for the same work */
  PZ_LIKE_CHIP_FRAMEWORK, /* for the same work too ... */
  PZ_LIKE_CHIP,
  PZ_LIKE_FRAMEWORK,
  PZ_LIKE_WORK, /* ... alone */
  PZ_LIKE_ANY,
  PZ_LIKENESSES
};

enum { PZ_LEAST_EXPECTED = 4 };

struct pz_expected_error {
  uint32_t rows; /* that it rests on; 0: there is no table, and the errors are 0 */
  double mean;   /* of absolute errors of the step time, parts of the measured time */
  double bias;   /* mean of errors: above 0, predictions are too long */
  enum pz_likeness like;
};

struct pz_expected_error pz_expected_error(const struct pz_run_kind *run);

/* The same of a plan that was priced on a chip in a network. */
struct pz_expectation pz_plan_expectation(const struct pz_plan *plan, const struct pz_prediction *p,
                                          const struct pz_chip *chip, const struct pz_cluster *net);

/* "12 validated runs on chips of this line with this framework": for people, after a number of
 * rows. */
extern const char *const pz_likeness_texts[PZ_LIKENESSES];

/* Chips of one architecture, which calibration treats alike: a100-40 and a100-80 are "a100", h100,
 * h200 and h800 "hopper".  A chip of no known line is a line of its own. */
const char *pz_chip_line(const char *chip);

#endif
