/* Chips judged by training plans: the fastest plan of every model on a cluster of the chip, what these come to under an
 * objective, and bounds on it.  For one thread.
 *
 * Time is that of place/plan_search.h for compiled programs: operators one after another, each as fast as the mapper or
 * the vector model says; so more of any axis of a space of ranges is never slower.  The cluster follows the chip: groups
 * of scale_up devices at the chip's link rate, between them outer_bytes_per_s of each device. */
#ifndef PZ_BOX_JUDGE_H
#define PZ_BOX_JUDGE_H

#include "box/limits.h"
#include "core/arena.h"
#include "place/plan_finder.h"

enum { PZ_JUDGE_MOST_MODELS = 16 };

/* Samples a second of a chip; for each dollar of its bill, watt, dollar of ownership (pz_taken), joule of the step. */
enum pz_box_objective {
  PZ_BOX_THROUGHPUT,
  PZ_BOX_PER_DOLLAR,
  PZ_BOX_PER_WATT,
  PZ_BOX_PER_OWNER_DOLLAR,
  PZ_BOX_PER_JOULE,
  PZ_BOX_OBJECTIVES
};
extern const char *const pz_box_objective_names[]; /* ends with NULL */

struct pz_judge_question {
  const char *models[PZ_JUDGE_MOST_MODELS];
  uint32_t n_models;
  int64_t model_seq[PZ_JUDGE_MOST_MODELS], model_batch[PZ_JUDGE_MOST_MODELS]; /* 0: those below */
  int64_t devices, batch, seq; /* seq 0: each model's */
  int64_t scale_up;
  double outer_bytes_per_s;
  enum pz_box_objective objective;
  const struct pz_shared_table *shared; /* of judges of the same question alone; NULL: none */
};

/* Add "MODEL", "MODEL@SEQ" or "MODEL@SEQxBATCH", with a sequence length and a global batch size of its own; the arena
 * holds the name.  PZ_BAD_USE where there are too many. */
PZ_NODISCARD enum pz_status pz_judge_add_model(struct pz_judge_question *q, const char *text,
                                               struct pz_arena *arena, struct pz_error *err);

/* The text of a model, as pz_judge_add_model reads it. */
enum { PZ_JUDGE_MODEL_TEXT = 320 };
void pz_judge_model_text(const struct pz_judge_question *q, uint32_t model,
                         char out[PZ_JUDGE_MODEL_TEXT]);

/* A chip's steps, and what it takes: what a value is made of. */
struct pz_steps {
  double step_s[PZ_JUDGE_MOST_MODELS];
  double dynamic_j
      [PZ_JUDGE_MOST_MODELS]; /* of all devices (place/plan_finder.h), static power apart */
};

/* Energy of a model's step on all devices, J. */
double pz_judge_joules(const struct pz_judge_question *q, const struct pz_steps *s, uint32_t model,
                       const struct pz_taken *t);

struct pz_judge;

/* `reference`: of which a value is told in times; its own is 1.  Errors as pz_plan_finder_new. */
PZ_NODISCARD enum pz_status pz_judge_new(const struct pz_judge_question *q,
                                         const struct pz_chip *like, struct pz_judge **out,
                                         struct pz_error *err);
void pz_judge_free(struct pz_judge *j); /* accepts NULL */
void pz_judge_set_reference(struct pz_judge *j, const struct pz_steps *steps,
                            const struct pz_taken *taken);

/* What is asked of plans for one of the models, as 'phaze place --all-devices' does for chips that run compiled
 * programs; the caller adds chip and network. */
PZ_NODISCARD enum pz_status pz_judge_plan_question(const struct pz_judge_question *q,
                                                   uint32_t model, struct pz_plan_question *out,
                                                   struct pz_error *err);

/* The network of a cluster of such chips. */
struct pz_cluster pz_judge_cluster(const struct pz_judge_question *q, const struct pz_chip *c);

/* Products have nested mappings (cost/mapper.h), as chips of a space of ranges say; more of any resource has more of them,
 * none slower.  Their relaxation is tried first: it often is enough for a bound. */

/* Upper bounds on the value of every chip that has no more than `chip` and takes no less than `least`: by peak rates
 * alone, and by mapped products, with which it ends at cutoff or below it. */
PZ_NODISCARD enum pz_status pz_judge_floor(struct pz_judge *j, const struct pz_chip *chip,
                                           const struct pz_taken *least, double *bound,
                                           struct pz_error *err);
PZ_NODISCARD enum pz_status pz_judge_bound(struct pz_judge *j, const struct pz_chip *chip,
                                           const struct pz_taken *least, double cutoff,
                                           double *bound, struct pz_error *err);

/* What chips are worth, about: with the plans that the last pz_judge_bound was found with. */
PZ_NODISCARD enum pz_status pz_judge_estimate(struct pz_judge *j, const struct pz_chip *chip,
                                              const struct pz_taken *least, double *value,
                                              struct pz_error *err);

/* The value with the best plans of all models; at most `cutoff` where it is not more.  `plans` (NULL: not wanted), one
 * for each model, live until the next call. */
PZ_NODISCARD enum pz_status pz_judge_value(struct pz_judge *j, const struct pz_chip *chip,
                                           const struct pz_taken *taken, double cutoff,
                                           double *value, struct pz_steps *steps,
                                           struct pz_found_plan *plans, struct pz_error *err);

#endif
