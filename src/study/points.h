/* Validation points: a point is one measurement together with its prediction.
 *
 * Each reader below takes one kind of table, predicts its rows, and appends a point for every
 * row: training runs (step/run_table.h), operators (cost/measured_ops.h), kernels that ran
 * beside communication (cost/beside_table.h), and steps on one device.  What is made of the
 * points is not known here: study/validate.h groups and judges them. */
#ifndef PZ_STUDY_POINTS_H
#define PZ_STUDY_POINTS_H

#include <string.h>

#include "core/csv.h"
#include "core/vec.h"
#include "cost/measured_ops.h"
#include "step/run_table.h"

/* How the readers predict and where they append points.  What points refer to belongs to the call
 * of the reader, which has to live as long.  `name` is the name of a table in messages. */
struct pz_point_reader {
  struct pz_vec *points; /* of struct pz_validation_point */
  unsigned threads;      /* 0 uses one per processor */
  /* Progress, or NULL.  If it is cancelled, readers raise PZ_STOPPED. */
  struct pz_progress *progress;
  /* If not NULL, chips are predicted by their data sheets with these constants. */
  const struct pz_cold *cold;
  /* If not NULL, collects the tables of runs (struct pz_run_table). */
  struct pz_vec *tables;
};

/* Prefix of the names of operator groups that span all chips. */
#define PZ_ALL_CHIPS "all chips "

/* Adds the training runs of a table. */
void pz_points_add_runs(struct pz_call *call, const struct pz_point_reader *reader,
                        const char *name, const char *text, size_t bytes);

/* Adds measured operators.  Rows that name no chip, or `chip` (a preset or a file), are predicted
 * on it; others on the presets that they name.  Returns whether any row was predicted on `chip`. */
bool pz_points_add_operators(struct pz_call *call, const struct pz_point_reader *reader,
                             const struct pz_measured *measured, const char *chip);

/* Adds kernels that were measured beside communication on `chip`, which are compared with their
 * measured time alone multiplied by the predicted slowdown.  `plan` states the slowdown. */
void pz_points_add_overlapped(struct pz_call *call, const struct pz_point_reader *reader,
                              const char *name, const char *text, size_t bytes, const char *chip);

/* Adds steps of preset models on one `chip`; the columns are those of h200_steps.csv. */
void pz_points_add_steps(struct pz_call *call, const struct pz_point_reader *reader,
                         const char *name, const char *text, size_t bytes, const char *chip);

/* Returns whether a run is dense in bf16, without context parallelism, under (interleaved) 1F1B:
 * the runs for which the model of a training step was first made. */
bool pz_run_is_dense_bf16(const struct pz_csv *csv, uint32_t row);

/* Returns the errors of a group in a vector of struct pz_errors; a new group is appended. */
struct pz_errors *pz_errors_find(struct pz_call *call, struct pz_vec *list, const char *name,
                                 enum pz_point_kind kind);

#endif
