/* Baselines: other methods of choosing a chip and its plans, with which the search is compared.  A
 * baseline is one function and one row of the table in baseline.c.  All methods are evaluated with
 * the same costs, schedules and placements. */
#ifndef PZ_BASELINE_BASELINE_H
#define PZ_BASELINE_BASELINE_H

#include "baseline/expert_plan.h"
#include "search/search.h"

/* What a baseline is asked for: the chip and plans with the highest value of an objective. */
struct pz_baseline_question {
  struct pz_search *search;
  const struct pz_original_task *task; /* the task of the search */
  const struct pz_point *points;       /* the chips of the design space within the limits */
  uint32_t n_points;
  const struct pz_objective *objective;
  /* number of chips that the search evaluated for this objective; `random` evaluates as many */
  uint32_t evaluations;
  uint64_t seed;
  const atomic_bool *stop; /* if it becomes true, the baseline ends with PZ_STOPPED; may be NULL */
  struct pz_evaluator *evaluator; /* evaluates plans in the model of the original system */
  /* Index of the worker of the calling task if other tasks run at the same time, or
   * PZ_BASELINE_ALL if the baseline may use all threads. */
  int worker;
};

enum { PZ_BASELINE_ALL = -1 };

struct pz_baseline_answer {
  struct pz_chip chip;
  double hbm_gib; /* largest memory per device that one of the models requires */
  /* by model of the portfolio, or 0 if no plan fits or the question does not include the model */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  bool expert[PZ_SEARCH_MOST_MODELS]; /* by model: the plan is an expert's, not the search's */
  uint32_t n_evaluated;               /* chips that the baseline evaluated */
};

struct pz_baseline;

/* Answers a question.  The same question always has the same answer.  Raises PZ_NO_ANSWER if the
 * baseline chooses chips by the objective and none of the evaluated chips runs all models. */
typedef struct pz_baseline_answer pz_baseline_fn(struct pz_call *call,
                                                 const struct pz_baseline *baseline,
                                                 const struct pz_baseline_question *question);

struct pz_baseline {
  const char *name, *about;
  pz_baseline_fn *answer;
  const char *chip; /* built-in chip that is evaluated, or NULL if the baseline chooses one */
  bool expert;      /* with the experts' plans instead of the best ones */
};

/* Returns a baseline by its index in the table or by its name, or NULL if there is none. */
const struct pz_baseline *pz_baseline_at(size_t i);
const struct pz_baseline *pz_baseline_find(const char *name);

/* ---- helpers of the baselines --------------------------------------------------------------- */

/* Raises PZ_STOPPED if the question's `stop` has become true. */
void pz_baseline_check_stop(struct pz_call *call, const struct pz_baseline_question *question);

/* Finds the best plans of the question's models on a chip, each with the least memory with which
 * the model is as fast as with the largest memory.  `point` is NULL if the chip is not a point of
 * the design space. */
struct pz_baseline_answer pz_baseline_place(struct pz_call *call,
                                            const struct pz_baseline_question *question,
                                            const struct pz_chip *chip,
                                            const struct pz_point *point);

/* Like pz_baseline_place(), but for a chip of the design space.  It is faster, because the
 * bounds on chips of the space exclude plans. */
struct pz_baseline_answer pz_baseline_place_point(struct pz_call *call,
                                                  const struct pz_baseline_question *question,
                                                  uint32_t point);

/* Evaluates the experts' plans on a chip, as pz_reference_on() chooses them. */
struct pz_baseline_answer pz_baseline_expert(struct pz_call *call,
                                             const struct pz_baseline_question *question,
                                             const struct pz_chip *chip);

/* Returns the area of a chip of the design space in square micrometres.  Of chips with equal values
 * the smaller is better, and of equally large chips the one with the lower index. */
double pz_baseline_area_um2(const struct pz_baseline_question *question, uint32_t point);

/* The best of the chips that were considered so far.  All zeroes at the beginning. */
struct pz_baseline_best {
  bool has_chip;         /* some chip runs all models */
  uint32_t point;        /* index of the best chip in the question's points */
  uint32_t n_considered; /* chips that were evaluated or excluded by bounds */
  double value, area_um2;
};

/* Makes *best the best of these chips and of the previous *best, by their values with full effort.
 * Chips that bounds exclude are not evaluated.  The result does not depend on the order of the
 * chips. */
void pz_baseline_consider(struct pz_call *call, const struct pz_baseline_question *question,
                          const uint32_t *points, uint32_t n, struct pz_baseline_best *best);

/* Returns the value of one chip of the space with full effort, or 0 if a model has no plan. */
double pz_baseline_value(struct pz_call *call, const struct pz_baseline_question *question,
                         uint32_t point);

/* Returns the answer for the best chip.  Raises PZ_NO_ANSWER if there is none. */
struct pz_baseline_answer pz_baseline_conclude(struct pz_call *call,
                                               const struct pz_baseline_question *question,
                                               const struct pz_baseline_best *best);

/* ---- the baselines -------------------------------------------------------------------------- */

pz_baseline_fn pz_baseline_existing_chip, pz_baseline_spotlight, pz_baseline_sweep,
    pz_baseline_random;

#endif
