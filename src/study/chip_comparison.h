/* Chips beside each other under one model of time and one bill: built ones by their presets, and those of files and saved
 * searches.  Each trains every model with its best plan, in its own network. */
#ifndef PZ_STUDY_CHIP_COMPARISON_H
#define PZ_STUDY_CHIP_COMPARISON_H

#include "core/json.h"
#include "evaluate/training.h"
#include "step/step_energy.h"

enum { PZ_COMPARISON_MOST_CHIPS = 32 };

struct pz_comparison_question {
  struct pz_training_question models; /* its network: of chips that have none of their own */
  const char *cluster;                /* NULL: each chip's own */
  bool measured;                      /* with what measurements say, where a preset has them */
  unsigned threads;
};

struct pz_compared_model {
  bool fits;
  struct pz_found_plan found; /* stage_recompute: in the arena */
  struct pz_step_energy energy;
};

struct pz_compared_chip {
  struct pz_chip chip;
  struct pz_cluster net;
  bool measured; /* its times follow measurements; else its description alone */
  struct pz_taken taken;
  double tdp_watts; /* of the data sheet; 0: none */
  struct pz_compared_model model[PZ_SEARCH_MOST_MODELS];
};

/* A preset's name, a chip.json, or the folder of a saved search by training plans.  Described: without calibration, as
 * a chip that runs compiled programs; one that lowers its clock in long products (a GPU) at the clock that its node
 * sustains, as the reference of a search. */
PZ_NODISCARD enum pz_status pz_compared_chip_load(const char *text,
                                                  const struct pz_comparison_question *q,
                                                  struct pz_compared_chip *out,
                                                  struct pz_error *err);

/* Best plans of every model for a chip that was loaded, their time and energy.  A described chip lowers its clock where a
 * plan would take more than its peak watts; times that follow measurements stand.  The arena holds plans. */
PZ_NODISCARD enum pz_status pz_compare_chip(const struct pz_comparison_question *q,
                                            struct pz_compared_chip *x, struct pz_arena *arena,
                                            struct pz_error *err);

/* Geometric mean over the models of the throughput over that of another chip; 0 where a model does not fit. */
double pz_compared_ratio(const struct pz_training_question *q, const struct pz_compared_chip *x,
                         const struct pz_compared_chip *to);

/* One row for each chip and model: flat objects.  New reference; NULL: out of memory. */
json_t *pz_compared_chips_json(const struct pz_comparison_question *q,
                               const struct pz_compared_chip *chips, uint32_t n);

#endif
