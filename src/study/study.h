/* A study: models, a design space under limits, and how chips are judged; the best chip for all models and for each alone.
 * `phaze search` runs it, `phaze verify` recomputes it from a run's inputs. */
#ifndef PZ_STUDY_STUDY_H
#define PZ_STUDY_STUDY_H

#include "baseline/expert_plan.h"
#include "core/json.h"
#include "core/vec.h"
#include "evaluate/training.h"
#include "search/search.h"

struct pz_study {
  struct pz_study_options o; /* with what was left open decided: evaluator, gap, each_model */
  struct pz_space space;
  struct pz_limits limits;
  const char *names[PZ_SEARCH_MOST_MODELS]; /* of models, without what is behind an @ */
  int64_t seq[PZ_SEARCH_MOST_MODELS];       /* tokens per sample */
  char digest[PZ_SEARCH_MOST_MODELS][24];   /* of what a model computes */

  struct pz_training_question training; /* of the evaluator training */
  struct pz_ending ending;              /* of the call at hand, for that evaluator */
  struct pz_vec notes; /* likewise: struct pz_note, what the user should know of models */

  struct pz_portfolio portfolio; /* of the evaluator original, and so are these: */
  struct pz_original_task task;
  struct pz_reference reference[PZ_SEARCH_MOST_MODELS];

  struct pz_point *points; /* chips within the limits, in the order of pz_point_order; of the */
  uint32_t n_points;       /* evaluator training only where a front is asked for */

  struct pz_pool *pool;
  struct pz_evaluator *by;
  struct pz_search *search;
  struct pz_chip reference_chip;
  struct pz_taken reference_taken;
  struct pz_step_cost reference_step[PZ_SEARCH_MOST_MODELS]; /* step_s HUGE_VAL: no plan fits */
  struct pz_objective_run
      objective_run[PZ_SEARCH_MOST_MODELS + 1];   /* of each model, if asked for; the common one */
  int64_t most_rounds[PZ_SEARCH_MOST_MODELS + 1]; /* of each; 0: until its gap is proved */
  uint32_t n_runs;
  struct pz_arena arena;
};

/* What a study is watched with, and where its rounds are kept; each may be NULL. */
struct pz_study_watch {
  struct pz_watch watch;
  const struct pz_round_store *store;
};

/* Inputs read and checked; nothing is searched yet.  On success the study is the caller's to release; it must not be
 * moved. */
PZ_NODISCARD enum pz_status pz_study_init(struct pz_study *s, const struct pz_study_options *o,
                                          unsigned threads, struct pz_error *err);
void pz_study_release(struct pz_study *s);

static inline bool pz_study_is_training(const struct pz_study *s) {
  return s->o.evaluator == PZ_EVALUATOR_TRAINING;
}

/* A file may change under its name: s->digest and s->seq of every model. */
PZ_NODISCARD enum pz_status pz_study_digest_models(struct pz_study *s, struct pz_error *err);

/* All that the answer depends on, with contents instead of names of files.  NULL: no memory. */
json_t *pz_study_inputs(const struct pz_study *s);

/* The options that such inputs were made with; texts go to the arena.  What they say of models' contents is for the caller to
 * compare. */
PZ_NODISCARD enum pz_status pz_study_from_inputs(const json_t *inputs, struct pz_arena *arena,
                                                 struct pz_study_options *out,
                                                 struct pz_error *err);

/* Evaluator, search and references: then the study can be asked. */
PZ_NODISCARD enum pz_status pz_study_prepare(struct pz_study *s, const struct pz_study_watch *w,
                                             struct pz_error *err);

/* The references anew, after the task's assumptions have changed. */
PZ_NODISCARD enum pz_status pz_study_references(struct pz_study *s, struct pz_watch watch,
                                                struct pz_error *err);

/* Objective run i, in order: later ones use what earlier ones found. */
PZ_NODISCARD enum pz_status pz_study_run(struct pz_study *s, uint32_t i, struct pz_error *err);

/* What objective run i maximises. */
struct pz_objective pz_study_objective(struct pz_study *s, uint32_t i);

/* The name of an objective run: a model's, or "common". */
const char *pz_study_run_name(const struct pz_study *s, uint32_t i);

/* The least memory of those to choose with which the best chip of an objective run is as good, GiB; of the evaluator
 * training that of the chip. */
PZ_NODISCARD enum pz_status pz_study_least_memory(struct pz_study *s,
                                                  const struct pz_objective_run *run,
                                                  double *hbm_gib, struct pz_error *err);

/* The best chip of an objective run with so much memory. */
void pz_study_chip(const struct pz_study *s, const struct pz_objective_run *run, double hbm_gib,
                   struct pz_chip *out);

#endif
