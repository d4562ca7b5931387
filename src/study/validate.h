/* Validation: predictions beside measurements, by group, with limits that must hold.
 *
 * The shipped data (study/measured.h) are the regression test of truth: a change of the model that
 * makes a group worse than its limit is found by pz_validation's `broken`.  Sized for thousands of
 * rows. */
#ifndef PZ_STUDY_VALIDATE_H
#define PZ_STUDY_VALIDATE_H

#include "study/points.h"

/* Errors are predicted over measured minus 1.  Means are NaN where nothing was counted. */
struct pz_errors {
  const char *name;
  enum pz_point_kind kind;
  uint32_t n, not_predicted;
  double mean; /* of absolute errors */
  double bias; /* mean of errors */
  double worst;
  const char *worst_id; /* NULL: none */
  uint32_t n_memory;    /* points with measured and predicted peak memory */
  double memory_mean, memory_bias, memory_worst;
};

/* Plans of one model on the same devices with the same batch. */
struct pz_plan_order {
  const char *name; /* for people: model, shape, devices, batch */
  const char *model, *shape, *group, *chip;
  int64_t devices, batch;
  uint32_t plans;
  double rank_correlation; /* Spearman; NaN: all plans take the same time */
  double regret;
};

/* Means over models with several plans. */
struct pz_order_mean {
  const char *name;
  uint32_t n;
  double rank_correlation, regret;
};

enum pz_limited {
  PZ_LIMITED_TIME,
  PZ_LIMITED_MEMORY,
  PZ_LIMITED_MISSING,
  PZ_LIMITED_RANK, /* of plans: the least that is allowed, the others are the most */
  PZ_LIMITED_REGRET,
  PZ_LIMITEDS
};

/* Limits of a group, a total, the plans of a model or a mean over models. */
struct pz_limit {
  const char *group;
  double value[PZ_LIMITEDS]; /* NaN: none */
};

/* A limit that does not hold. */
struct pz_broken_limit {
  const char *group;
  enum pz_limited what;
  double value, limit; /* value NaN: nothing left to judge */
};

struct pz_validation {
  const struct pz_point *points;
  uint32_t n_points;
  const struct pz_errors *groups; /* of quality ok: operators by kind, steps, runs by group */
  uint32_t n_groups;
  const struct pz_errors *apart; /* of another quality */
  uint32_t n_apart;
  const struct pz_errors *totals; /* over training runs of quality ok */
  uint32_t n_totals;
  const struct pz_plan_order *orders; /* of models with PZ_LEAST_PLANS or more */
  uint32_t n_orders;
  const struct pz_order_mean *order_means;
  uint32_t n_order_means;
  const struct pz_limit *limits;
  uint32_t n_limits;
  const struct pz_broken_limit *broken;
  uint32_t n_broken;
};

enum { PZ_LEAST_PLANS = 5 };

struct pz_validate_options {
  const char *const *runs; /* paths of tables of runs, ends with NULL; none: the shipped data */
  const char *ops;         /* path of a table of operators of `chip`, or NULL */
  const char *chip;
  const char *limits; /* path of a table of limits; NULL: the shipped one for shipped data */
  unsigned threads;
};

/* Read and predict everything.  The arena holds the result. */
PZ_NODISCARD enum pz_status pz_validate(const struct pz_validate_options *o, struct pz_arena *arena,
                                        struct pz_validation *out, struct pz_error *err);

/* The parts, for tests: groups, totals and orders of points that are there; limits from a CSV text
 * with the columns of pz_limit_heads (an empty cell: no limit). */
extern const char *const pz_limit_heads[PZ_LIMITEDS + 1];
PZ_NODISCARD enum pz_status pz_validation_make(const struct pz_point *points, uint32_t n,
                                               struct pz_arena *arena, struct pz_validation *out);
PZ_NODISCARD enum pz_status pz_limits_read(const char *name, const char *text, size_t bytes,
                                           struct pz_arena *arena, struct pz_validation *out,
                                           struct pz_error *err);

/* The limit of a group, total, model or mean; NaN: none. */
double pz_limit_of(const struct pz_validation *v, const char *name, enum pz_limited what);

/* Compare; fills `broken`.  A limit for a group that is not there is broken. */
PZ_NODISCARD enum pz_status pz_limits_check(struct pz_arena *arena, struct pz_validation *v);

#endif
