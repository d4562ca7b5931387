/* Other ways to choose a chip and its plans, to compare the search with.  A baseline is one file
 * and one row of the table in baseline.c; all are judged by the same costs, schedules and
 * placements. */
#ifndef PZ_SEARCH_BASELINE_H
#define PZ_SEARCH_BASELINE_H

#include "search/expert.h"
#include "search/search.h"

/* What a baseline is given: for which models, judged how, and the means to evaluate. */
struct pz_baseline_question {
  struct pz_search *search;
  const struct pz_search_task *task;
  const struct pz_point *points;
  uint32_t n_points;
  const struct pz_objective *objective;
  uint32_t evaluations; /* chips that the search evaluated for this objective: random's share */
  uint64_t seed;
};

struct pz_baseline_answer {
  struct pz_chip chip;
  double hbm_gib;
  double samples_per_s[PZ_SEARCH_MOST_MODELS]; /* by model of the portfolio; 0: nothing fits, or
                                                  not asked for */
  uint32_t n_evaluated;                        /* chips it looked at */
};

struct pz_baseline {
  const char *name, *about;
  enum pz_status (*run)(const struct pz_baseline_question *q, struct pz_baseline_answer *out,
                        struct pz_error *err);
};

/* Baseline i of the table, NULL after the last. */
const struct pz_baseline *pz_baseline_at(size_t i);

/* Helpers of the baselines: the best plans of the question's models on a chip, and the expert's
 * (the placement search's where no expert plan is known). */
PZ_NODISCARD enum pz_status pz_baseline_place(const struct pz_baseline_question *q,
                                              const struct pz_chip *chip, double hbm_gib,
                                              struct pz_baseline_answer *out, struct pz_error *err);
PZ_NODISCARD enum pz_status pz_baseline_expert(const struct pz_baseline_question *q,
                                               const struct pz_chip *chip,
                                               struct pz_baseline_answer *out,
                                               struct pz_error *err);

#endif
