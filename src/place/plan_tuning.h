/* What would make a run faster: the best plan for the same model, devices and batch, and the single changes that bring
 * most, all that its framework can run.  By the model of pz_predict; framework, attention, execution and gradient types
 * stay as the run has them. */
#ifndef PZ_PLACE_PLAN_TUNING_H
#define PZ_PLACE_PLAN_TUNING_H

#include "place/plan_question.h"
#include "plan/plan_file.h"

struct pz_tuned_plan {
  struct pz_plan plan;      /* filled */
  enum pz_plan_field field; /* that was changed; PZ_PLAN_FIELDS: several */
  struct pz_prediction p;
};

struct pz_tuning {
  struct pz_training_run own; /* stages: in the arena */
  double
      limit_bytes; /* what a plan may hold: pz_usable_bytes, or what the run itself does, which runs after all */
  int64_t layers;     /* repeated ones */
  bool has_best;      /* a plan was found that fits */
  const char *why;    /* ... or why there is no plan to search; NULL: there is */
  double least_bytes; /* where none fits: of the plan that needs least */
  struct pz_tuned_plan best;
  struct pz_plan_certificate certificate;
  bool has_overlapped; /* the run leaves overlaps off: the best plan with them on */
  struct pz_tuned_plan overlapped;
  struct pz_tuned_plan
      *changes; /* single ones that fit, the fastest first; faster than the run if it fits */
  uint32_t n_changes;
  uint32_t n_tried;
};

struct pz_tuning_options {
  bool
      p2p_off; /* the run turns transfers beside compute off, where its framework has them by itself */
  unsigned threads; /* 0: one per processor */
};

/* Tune a filled run on a chip in a network (NULL: the chip's own link).  PZ_BAD_USE for a plan that cannot be.  The
 * arena holds all. */
PZ_NODISCARD enum pz_status pz_plan_tune(const struct pz_run_plan *r, const struct pz_chip *chip,
                                         const struct pz_cluster *net,
                                         const struct pz_tuning_options *o, struct pz_arena *arena,
                                         struct pz_tuning *out, struct pz_error *err);

#endif
