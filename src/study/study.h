/* A study: models, a design space and a cluster; the best chip for each model alone and for all.
 * `phaze search` runs it, `phaze verify` recomputes it from a run's inputs. */
#ifndef PZ_STUDY_STUDY_H
#define PZ_STUDY_STUDY_H

#include "baseline/expert_plan.h"
#include "core/json.h"
#include "search/search.h"

struct pz_study {
  struct pz_study_options o;
  struct pz_space space;
  struct pz_portfolio portfolio;
  struct pz_search_task task;
  struct pz_point *points;
  uint32_t n_points;
  struct pz_pool *pool;
  struct pz_search *search;
  struct pz_reference reference[PZ_SEARCH_MOST_MODELS];
  double reference_watts, reference_um2; /* of the reference chip: peak, area */
  struct pz_objective_run
      objective_run[PZ_SEARCH_MOST_MODELS + 1]; /* one a model, then the common one */
  uint32_t n_runs;
  struct pz_arena arena;
};

/* Inputs read and checked; nothing is searched yet.  On success the study is the caller's to
 * release; it must not be moved. */
PZ_NODISCARD enum pz_status pz_study_init(struct pz_study *s, const struct pz_study_options *o,
                                          unsigned threads, struct pz_error *err);
void pz_study_release(struct pz_study *s);

/* All that the answer depends on, with contents instead of names of files.  NULL: no memory. */
json_t *pz_study_inputs(const struct pz_study *s);

/* The options that such inputs were made with; texts go to the arena.  What they say of models'
 * contents is for the caller to compare. */
PZ_NODISCARD enum pz_status pz_study_from_inputs(const json_t *inputs, struct pz_arena *arena,
                                                 struct pz_study_options *out,
                                                 struct pz_error *err);

/* Bounds and references: then the study can be asked. */
PZ_NODISCARD enum pz_status pz_study_prepare(struct pz_study *s, const struct pz_search_options *o,
                                             struct pz_error *err);

/* The references anew, after the task's assumptions have changed. */
PZ_NODISCARD enum pz_status pz_study_references(struct pz_study *s, struct pz_error *err);

/* Objective run i, in order: later ones use what earlier ones found. */
PZ_NODISCARD enum pz_status pz_study_run(struct pz_study *s, uint32_t i, struct pz_error *err);

/* What objective run i maximises. */
struct pz_objective pz_study_objective(const struct pz_study *s, uint32_t i);

/* The name of an objective run: a model's, or "common". */
const char *pz_study_run_name(const struct pz_study *s, uint32_t i);

/* The best chip of an objective run, with the memory it needs. */
void pz_study_chip(const struct pz_study *s, const struct pz_objective_run *c, struct pz_chip *out);

#endif
