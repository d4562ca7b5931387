/* Other ways to choose a chip and its plans, to compare the search with.  A baseline is one file
 * and one row (or a row for each variant) of the table in baseline.c; all are judged by the same
 * costs, schedules and placements. */
#ifndef PZ_BASELINE_BASELINE_H
#define PZ_BASELINE_BASELINE_H

#include "baseline/expert_plan.h"
#include "search/search.h"

/* What a baseline is given: for which models, judged how, and the means to evaluate. */
struct pz_baseline_question {
  struct pz_search *search;
  const struct pz_original_task *task; /* of the search, and so are the points */
  const struct pz_point *points;
  uint32_t n_points;
  const struct pz_objective *objective;
  uint32_t evaluations; /* chips that the search looked at for this objective: random's share */
  uint64_t seed;
  const atomic_bool *stop; /* NULL, or ends it soon with PZ_STOPPED when true */
  struct pz_evaluator *by; /* `original` */
  /* The thread of the piece of work that asks, beside others about other models; PZ_BASELINE_ALL:
   * nothing else runs, and the answer may take all threads. */
  int worker;
};

enum { PZ_BASELINE_ALL = -1 };

struct pz_baseline_answer {
  struct pz_chip chip;
  double hbm_gib; /* where models take different ones: the most of them */
  double samples_per_s[PZ_SEARCH_MOST_MODELS]; /* by model of the portfolio; 0: nothing fits, or
                                                  not asked for */
  bool expert[PZ_SEARCH_MOST_MODELS];          /* likewise: an expert's plan, not the search's */
  uint32_t n_evaluated;                        /* chips it looked at */
};

/* The same question gives the same answer.  PZ_NO_ANSWER where chips
 * are chosen by the objective and none that it looked at takes all models. */
typedef enum pz_status pz_baseline_fn(const struct pz_baseline_question *q,
                                      struct pz_baseline_answer *out, struct pz_error *err);

struct pz_baseline {
  const char *name, *about;
  pz_baseline_fn *run;
};

/* Baseline i of the table, NULL after the last; by name, NULL: there is none. */
const struct pz_baseline *pz_baseline_at(size_t i);
const struct pz_baseline *pz_baseline_find(const char *name);

/* ---- helpers of the baselines --------------------------------------------------------------- */

/* The best plans of the question's models on any chip with so much memory; 0: the smallest choice
 * of the task with which every model is as fast as with the largest. */
PZ_NODISCARD enum pz_status pz_baseline_place(const struct pz_baseline_question *q,
                                              const struct pz_chip *chip, double hbm_gib,
                                              struct pz_baseline_answer *out, struct pz_error *err);

/* The same on a chip of the space: bounds make it faster. */
PZ_NODISCARD enum pz_status pz_baseline_place_point(const struct pz_baseline_question *q,
                                                    uint32_t point, double hbm_gib,
                                                    struct pz_baseline_answer *out,
                                                    struct pz_error *err);

/* The experts' plans, as pz_reference_on has them. */
PZ_NODISCARD enum pz_status pz_baseline_expert(const struct pz_baseline_question *q,
                                               const struct pz_chip *chip,
                                               struct pz_baseline_answer *out,
                                               struct pz_error *err);

/* The area of a chip of the space: of equals the smaller is taken, then the lower id. */
double pz_baseline_area_um2(const struct pz_baseline_question *q, uint32_t point);

/* The best of the chips of the space seen so far; zero to begin with. */
struct pz_baseline_best {
  bool any;
  uint32_t point, n_seen;
  double value, area_um2;
};

/* Look at chips.  What counts is their value with full effort, and their order does not matter: the
 * most promising come first, and where bounds say that one is not the best it is not evaluated. */
PZ_NODISCARD enum pz_status pz_baseline_see(const struct pz_baseline_question *q,
                                            const uint32_t *points, uint32_t n,
                                            struct pz_baseline_best *best, struct pz_error *err);

/* The value of one chip of the space with full effort; 0 where a model has no plan. */
PZ_NODISCARD enum pz_status pz_baseline_value(const struct pz_baseline_question *q, uint32_t point,
                                              double *value, struct pz_error *err);

/* Answer with the best of them.  PZ_NO_ANSWER if there is none. */
PZ_NODISCARD enum pz_status pz_baseline_conclude(const struct pz_baseline_question *q,
                                                 const struct pz_baseline_best *best,
                                                 struct pz_baseline_answer *out,
                                                 struct pz_error *err);

/* ---- the rows ------------------------------------------------------------------------------- */

pz_baseline_fn pz_baseline_tpuv4_expert, pz_baseline_tpuv4_real_expert, pz_baseline_tpuv4_placed,
    pz_baseline_tpuv4_real_placed, pz_baseline_spotlight_expert, pz_baseline_spotlight_placed,
    pz_baseline_original, pz_baseline_random;

#endif
