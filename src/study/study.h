/* A study: models, a design space under limits, and an objective; it finds the best chip for all
 * models together and, if asked for, for each model alone.  `phaze search` runs it, `phaze
 * verify` recomputes it from the inputs of a saved run.
 *
 * pz_study_open() reads and checks the inputs, pz_study_start() makes the evaluator and the
 * search and evaluates the reference chip, and pz_study_run_objective() runs one search.  A
 * study knows nothing of results, tables and files. */
#ifndef PZ_STUDY_STUDY_H
#define PZ_STUDY_STUDY_H

#include "baseline/expert_plan.h"
#include "core/json.h"
#include "core/vec.h"
#include "evaluate/training.h"
#include "search/search.h"

struct pz_study {
  /* The caller's options.  pz_study_open() replaces a default evaluator or gap by the one that it
   * stands for, and sets each_model if the evaluator or the objective requires it. */
  struct pz_study_options options;
  struct pz_space space;
  struct pz_limits limits;
  const char *names[PZ_SEARCH_MOST_MODELS]; /* names of the models, without @SEQxBATCH */
  int64_t seq[PZ_SEARCH_MOST_MODELS];       /* tokens per sample */
  char digest[PZ_SEARCH_MOST_MODELS][24];   /* hash of each model's workload */

  /* Evaluator training, which judges chips by their best training plans */
  struct pz_training_question training;
  struct pz_ending ending; /* ends the searches of the current call: cancellation or time limit */
  struct pz_vec notes;     /* struct pz_note: warnings about models for the user */

  /* Evaluator original, which judges chips as the published Phaze program (ICML 2024) does */
  struct pz_portfolio portfolio;
  struct pz_original_task task;
  struct pz_reference reference[PZ_SEARCH_MOST_MODELS];

  /* The chips within the limits, in the order of pz_point_order().  With the evaluator training
   * they are listed only if a Pareto front is asked for. */
  struct pz_point *points;
  uint32_t n_points;

  struct pz_pool *pool;
  struct pz_evaluator *evaluator;
  struct pz_search *search;
  struct pz_chip reference_chip;
  struct pz_taken reference_taken;
  struct pz_step_cost reference_step[PZ_SEARCH_MOST_MODELS]; /* HUGE_VAL if no plan fits */

  /* Objective runs, each of which searches the best chip for one objective: if each_model is set,
   * one run for each model alone; then the common run, for all models together. */
  struct pz_objective_run objective_run[PZ_SEARCH_MOST_MODELS + 1];
  int64_t most_rounds[PZ_SEARCH_MOST_MODELS + 1]; /* 0: as many as prove the gap */
  uint32_t n_runs;
  struct pz_arena arena;
};

struct pz_study_watch {
  struct pz_watch watch;              /* may be zero */
  const struct pz_round_store *store; /* saves and restores rounds, or NULL */
};

/* Reads and checks all inputs; nothing is searched yet.  The study is released when the call
 * ends, unless the caller keeps it with pz_undefer(call, study).  It must not be moved. */
void pz_study_open(struct pz_call *call, struct pz_study *study,
                   const struct pz_study_options *options, unsigned threads);
void pz_study_release(void *study); /* a struct pz_study or NULL; for pz_defer(), too */

/* Sets digest and seq of every model.  The digest tells whether a model file has changed under
 * the same name. */
void pz_study_hash_models(struct pz_call *call, struct pz_study *study);

/* Returns everything that the answer depends on as JSON, with the contents of files instead of
 * their names.  Returns a new reference, or NULL if there is no memory. */
json_t *pz_study_inputs(const struct pz_study *study);

/* Returns the options from which such inputs were made.  Digests of models are not compared with
 * those of the current models. */
struct pz_study_options pz_study_options_from_inputs(struct pz_call *call, const json_t *inputs);

/* Makes the evaluator and the search, and evaluates the reference chip. */
void pz_study_start(struct pz_call *call, struct pz_study *study,
                    const struct pz_study_watch *watch);

/* Evaluates the reference chip again, after the assumptions of the task have changed. */
void pz_study_find_references(struct pz_call *call, struct pz_study *study, struct pz_watch watch);

/* Runs objective run i; runs are called in order, because they reuse earlier evaluations. */
void pz_study_run_objective(struct pz_call *call, struct pz_study *study, uint32_t i);

/* Returns the objective that run i maximises. */
struct pz_objective pz_study_objective(struct pz_study *study, uint32_t i);

/* Returns the name of objective run i: that of its model, or "common". */
const char *pz_study_run_name(const struct pz_study *study, uint32_t i);

/* Returns the GiB of HBM of run->best, the best chip that an objective run found.  With the
 * evaluator original it is the smallest size with which the chip is as fast as with the largest
 * one. */
double pz_study_smallest_memory(struct pz_call *call, struct pz_study *study,
                                const struct pz_objective_run *run);

/* Sets *out to run->best, the best chip that an objective run found.  With the evaluator original,
 * *out gets hbm_gib GiB of memory; otherwise the chip has its own, and hbm_gib is ignored. */
void pz_study_chip(const struct pz_study *study, const struct pz_objective_run *run, double hbm_gib,
                   struct pz_chip *out);

#endif
