/* The evaluator `training`: the fastest training plan of every model on a cluster of the chip.
 *
 * Times are those of place/plan_question.h for compiled programs: operators run one after another,
 * each as fast as the mapper or the vector model says, so that more of any axis of a space is never
 * slower.  The cluster follows the chip: groups of scale_up devices are connected at the chip's
 * link rate, and the groups with outer_bytes_per_s for each device. */
#ifndef PZ_EVALUATE_TRAINING_H
#define PZ_EVALUATE_TRAINING_H

#include "core/pool.h"
#include "evaluate/evaluator.h"
#include "place/plan_finder.h"

struct pz_training_question {
  const char *models[PZ_SEARCH_MOST_MODELS];
  uint32_t n_models;
  /* Sequence length and global batch size of each model, or 0 for seq and batch below. */
  int64_t model_seq[PZ_SEARCH_MOST_MODELS], model_batch[PZ_SEARCH_MOST_MODELS];
  int64_t devices, batch, seq; /* seq is 0 for the model's own length */
  int64_t scale_up;
  double outer_bytes_per_s;
  bool serial; /* operators run one after another, even on chips whose cores are scheduled */
  bool whole;  /* microbatches are not processed in two halves */
  /* fields of every plan as texts, or NULL for the default */
  const char *precision, *peft, *fp8_recipe, *moment_bytes, *mtp, *offload, *memory_margin;
  const struct pz_ending *ending; /* time limit of the search; may be NULL */
};

/* Parses "MODEL", "MODEL@SEQ" or "MODEL@SEQxBATCH", a model with its own sequence length and
 * global batch size (0 if not given).  Returns a copy of the name. */
const char *pz_model_of_text(struct pz_call *call, const char *text, int64_t *seq, int64_t *batch);

/* Returns the network of a cluster of these chips. */
struct pz_cluster pz_training_cluster(const struct pz_training_question *question,
                                      const struct pz_chip *chip);

/* Returns the question for the plans of one model, as 'phaze place --all-devices' asks it.  The
 * framework is Megatron if the chip launches kernels, otherwise `compiled`. */
struct pz_plan_question pz_training_ask(struct pz_call *call,
                                        const struct pz_training_question *question, uint32_t model,
                                        const struct pz_chip *chip, const struct pz_cluster *net);

/* Creates an evaluator for the threads of a pool, or if the pool is NULL, for one thread that
 * shares nothing with others.  `example_chip` is any chip of the space.  `times` are borrowed
 * from another evaluator for chips of the same space (pz_training_times), or NULL.  The question
 * is copied, its texts are not.  The caller frees it with pz_evaluator_free(). */
struct pz_evaluator *pz_training_create(struct pz_call *call,
                                        const struct pz_training_question *question,
                                        const struct pz_chip *example_chip, struct pz_pool *pool,
                                        struct pz_product_times *times);

/* Returns the GEMM times of a worker, which must be its own and which other threads must not
 * use. */
struct pz_product_times *pz_training_times(const struct pz_evaluator *evaluator, unsigned worker);

/* Finds the best plan of a model on any chip.  Returns false if none fits.  The plan lives until
 * the next call of the worker. */
bool pz_training_find_plan(struct pz_call *call, struct pz_evaluator *evaluator, unsigned worker,
                           const struct pz_chip *chip, uint32_t model, struct pz_found_plan *out,
                           double *dynamic_j);

#endif
