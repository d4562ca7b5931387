/* Points of a validation: one measurement beside its prediction, read from a table of training runs
 * (place/run_table.h), of operators (cost/measured_ops.h), of kernels beside communication (cost/beside_table.h), or of
 * single-device steps. */
#ifndef PZ_STUDY_POINTS_H
#define PZ_STUDY_POINTS_H

#include "core/csv.h"
#include "core/vec.h"
#include "cost/measured_ops.h"
#include "step/run_table.h"

/* All of it lives in the arena of `points` (struct pz_validation_point), to which the rows of a table are
 * added.  `name` stands for the table in messages. */
struct pz_point_reader {
  struct pz_vec *points;
  unsigned threads;
  struct pz_progress *progress; /* NULL: none; where it is stopped, readers end with PZ_STOPPED */
  struct pz_error *err;
  const struct pz_cold
      *cold; /* runs on chips by their data sheets, with these constants; NULL: as measured */
  struct pz_vec *tables; /* of runs that were read (struct pz_run_table), or NULL */
};

/* A table of runs, predicted on all threads. */
PZ_NODISCARD enum pz_status pz_points_runs(const struct pz_point_reader *r, const char *name,
                                           const char *text, size_t bytes);

/* Is a row of such a table a dense model in bf16, without context parallelism, 1F1B or interleaved?  The model of a
 * step was made for these first. */
bool pz_points_dense(const struct pz_csv *csv, uint32_t row);

/* What the groups of a kind of operators on all chips begin with. */
#define PZ_ALL_CHIPS "all chips "

/* Measured operators, predicted on all threads.  Rows that name no chip, or the name of `chip` (a preset or a file), are
 * of it, others of presets; *given: are there any of `chip`? */
PZ_NODISCARD enum pz_status pz_points_operators(const struct pz_point_reader *r,
                                                const struct pz_measured *m, const char *chip,
                                                bool *given);

/* Kernels measured beside communication on a chip: the columns of cost/beside_table.h.  Predicted is the measured time
 * alone, as many times longer as the model says; `plan` has this number, and the time from the predicted time alone. */
PZ_NODISCARD enum pz_status pz_points_beside(const struct pz_point_reader *r, const char *name,
                                             const char *text, size_t bytes, const char *chip);

/* Steps of preset models on one device of a chip: the columns of tests/data/h200_steps.csv. */
PZ_NODISCARD enum pz_status pz_points_steps(const struct pz_point_reader *r, const char *name,
                                            const char *text, size_t bytes, const char *chip);

#endif
