/* The evaluator `training`: the fastest training plan of every model on a cluster of the chip.
 *
 * Time is that of place/plan_search.h for compiled programs: operators one after another, each as fast as the mapper or
 * the vector model says; so more of any axis of a space is never slower.  The cluster follows the chip: groups of scale_up
 * devices at the chip's link rate, between them outer_bytes_per_s of each device. */
#ifndef PZ_EVALUATE_TRAINING_H
#define PZ_EVALUATE_TRAINING_H

#include "core/arena.h"
#include "core/pool.h"
#include "evaluate/evaluator.h"
#include "place/plan_finder.h"

struct pz_training_question {
  const char *models[PZ_SEARCH_MOST_MODELS];
  uint32_t n_models;
  int64_t model_seq[PZ_SEARCH_MOST_MODELS], model_batch[PZ_SEARCH_MOST_MODELS]; /* 0: those below */
  int64_t devices, batch, seq; /* seq 0: each model's */
  int64_t scale_up;
  double outer_bytes_per_s;
  bool serial; /* operators one after another, on chips whose cores are scheduled too */
  bool whole;  /* no two halves of a microbatch in a pass */
  const char *precision, *peft, *fp8_recipe, *moment_bytes, *mtp, *offload,
      *memory_margin;             /* of every plan, as texts; NULL: the default */
  const struct pz_ending *ending; /* of what asks; NULL: none */
};

/* A text "MODEL", "MODEL@SEQ" or "MODEL@SEQxBATCH" with a sequence length and a global batch size of its own, taken apart;
 * 0: not given.  The arena holds the name; NULL: no memory. */
const char *pz_model_of_text(const char *text, struct pz_arena *arena, int64_t *seq,
                             int64_t *batch);

/* Samples of a model's step. */
int64_t pz_training_batch(const struct pz_training_question *q, uint32_t model);

/* The network of a cluster of such chips. */
struct pz_cluster pz_training_cluster(const struct pz_training_question *q,
                                      const struct pz_chip *c);

/* What is asked of plans for one of the models, as 'phaze place --all-devices' does: of Megatron where kernels are launched,
 * else of compiled programs. */
PZ_NODISCARD enum pz_status pz_training_plan_question(const struct pz_training_question *q,
                                                      uint32_t model, const struct pz_chip *chip,
                                                      const struct pz_cluster *net,
                                                      struct pz_plan_question *out,
                                                      struct pz_error *err);

/* For the threads of a pool, or for one thread that shares nothing with others (NULL); `like`: the first chip; `times`:
 * borrowed, of an evaluator for chips of the same space (pz_training_times), or NULL.  The question is copied, its texts
 * are not.  Errors as pz_plan_finder_new. */
PZ_NODISCARD enum pz_status pz_training_new(const struct pz_training_question *q,
                                            const struct pz_chip *like, struct pz_pool *pool,
                                            struct pz_product_times *times,
                                            struct pz_evaluator **out, struct pz_error *err);

/* Of its own, not borrowed; for the worker alone. */
struct pz_product_times *pz_training_times(const struct pz_evaluator *e, unsigned worker);

const struct pz_training_question *pz_training_asked(const struct pz_evaluator *e);

/* The best plan of a model on any chip; *fits: there is one.  It lives until the worker's next call. */
PZ_NODISCARD enum pz_status pz_training_plan(struct pz_evaluator *e, unsigned worker,
                                             const struct pz_chip *chip, uint32_t model,
                                             struct pz_found_plan *out, double *dynamic_j,
                                             bool *fits, struct pz_error *err);

#endif
