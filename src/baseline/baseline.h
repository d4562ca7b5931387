/* Baselines: other ways to choose a chip and its plans, which the search is compared with.  A
 * baseline is one function and one row of the table in baseline.c; all are judged by the same
 * costs, schedules and placements. */
#ifndef PZ_BASELINE_BASELINE_H
#define PZ_BASELINE_BASELINE_H

#include "baseline/expert_plan.h"
#include "search/search.h"

struct pz_baseline_question {
  struct pz_search *search;
  const struct pz_original_task *task; /* of the search */
  const struct pz_point *points;       /* the chips of the space within the limits */
  uint32_t n_points;
  const struct pz_objective *objective;
  uint32_t
      evaluations; /* chips that the search evaluated for this objective: `random` evaluates as many */
  uint64_t seed;
  const atomic_bool *stop; /* may be NULL; ends the baseline soon with PZ_STOPPED when true */
  struct pz_evaluator *by; /* `original` */
  /* The worker of the calling task, if other tasks run beside it.  PZ_BASELINE_ALL: nothing else
   * runs, and the baseline may use all threads. */
  int worker;
};

enum { PZ_BASELINE_ALL = -1 };

struct pz_baseline_answer {
  struct pz_chip chip;
  double hbm_gib; /* the largest that a model needs */
  /* Of each model of the portfolio, or 0 if nothing fits, or the model is not asked for. */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  bool expert[PZ_SEARCH_MOST_MODELS]; /* whether it is an expert's plan instead of the search's */
  uint32_t n_evaluated;               /* chips that the baseline evaluated */
};

/* The same question gives the same answer.  Raises PZ_NO_ANSWER if chips are chosen by the
 * objective and none of those that were evaluated runs all models. */
typedef struct pz_baseline_answer pz_baseline_fn(struct pz_call *call,
                                                 const struct pz_baseline_question *question);

struct pz_baseline {
  const char *name, *about;
  pz_baseline_fn *answer;
};

/* Baseline i of the table, NULL after the last; and by name, NULL if there is none. */
const struct pz_baseline *pz_baseline_at(size_t i);
const struct pz_baseline *pz_baseline_find(const char *name);

/* ---- helpers of the baselines --------------------------------------------------------------- */

/* Raises PZ_STOPPED if the question says so. */
void pz_baseline_check_stop(struct pz_call *call, const struct pz_baseline_question *question);

/* Finds the best plans of the question's models on any chip, each with the least memory with
 * which the model is as fast as with the largest. */
struct pz_baseline_answer pz_baseline_place(struct pz_call *call,
                                            const struct pz_baseline_question *question,
                                            const struct pz_chip *chip);

/* Like pz_baseline_place(), for a chip of the space, for which bounds make it faster. */
struct pz_baseline_answer pz_baseline_place_point(struct pz_call *call,
                                                  const struct pz_baseline_question *question,
                                                  uint32_t point);

/* Evaluates the experts' plans on a chip, as pz_reference_on() chooses them. */
struct pz_baseline_answer pz_baseline_expert(struct pz_call *call,
                                             const struct pz_baseline_question *question,
                                             const struct pz_chip *chip);

/* Returns the area of a chip of the space.  Of equal chips the smaller is better, then the one
 * with the lower index. */
double pz_baseline_area_um2(const struct pz_baseline_question *question, uint32_t point);

/* The best of the chips that were evaluated so far.  All zeroes at the beginning. */
struct pz_baseline_best {
  bool any;
  uint32_t point, n_seen;
  double value, area_um2;
};

/* Updates *best by these chips, by their values with full effort.  The result does not depend on
 * the order: the most promising chips come first, and those that bounds exclude are not
 * evaluated. */
void pz_baseline_see(struct pz_call *call, const struct pz_baseline_question *question,
                     const uint32_t *points, uint32_t n, struct pz_baseline_best *best);

/* Returns the value of one chip of the space with full effort; 0 if a model has no plan. */
double pz_baseline_value(struct pz_call *call, const struct pz_baseline_question *question,
                         uint32_t point);

/* Returns the answer for the best chip.  Raises PZ_NO_ANSWER if there is none. */
struct pz_baseline_answer pz_baseline_conclude(struct pz_call *call,
                                               const struct pz_baseline_question *question,
                                               const struct pz_baseline_best *best);

/* ---- the baselines -------------------------------------------------------------------------- */

pz_baseline_fn pz_baseline_tpuv4_expert, pz_baseline_tpuv4_real_expert, pz_baseline_tpuv4_placed,
    pz_baseline_tpuv4_real_placed, pz_baseline_spotlight_expert, pz_baseline_spotlight_placed,
    pz_baseline_sweep, pz_baseline_random;

#endif
