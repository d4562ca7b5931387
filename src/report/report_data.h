/* What a report tells of a finished run, as one JSON document:
 *
 *     {version, objective, ratios, datasets: {name: {columns, rows}}}
 *
 * A section fills one or more datasets; it is one file story_*.c and a row of the table in story.c.
 * Nothing in it depends on the clock, on threads, or on where the run lies. */
#ifndef PZ_REPORT_REPORT_DATA_H
#define PZ_REPORT_REPORT_DATA_H

#include "core/progress.h"
#include "core/vec.h"
#include "report/dataset.h"
#include "report/schedule_table.h"
#include "store/run_file.h"
#include "study/study.h"

/* An evaluation that the run kept: of each chip and model the one with the most effort. */
struct pz_kept {
  uint32_t point, model;
  struct pz_evaluation e;
};

struct pz_story {
  struct pz_study *study;            /* its objective runs have been run */
  struct pz_run_file *file;          /* of that study */
  const json_t *result, *comparison; /* comparison NULL: is made, with the usual seed */
  const atomic_bool *stop;           /* NULL: never */
  struct pz_progress *progress;      /* NULL: none */
  struct pz_error *err;
  /* the rest is made in story.c */
  struct pz_arena arena;
  struct pz_vec kept; /* struct pz_kept, by point and model */
  json_t *datasets;
};

/* The document of a story whose first fields are set; the study's objective runs are as the run has them.
 * New reference in *out. */
PZ_NODISCARD enum pz_status pz_story_make(struct pz_story *t, json_t **out);

/* The same from a run file alone: the study is made again from its inputs, with the evaluations it
 * kept.  PZ_BAD_INPUT for a run that has not finished, or was made by another version. */
PZ_NODISCARD enum pz_status pz_story_of_run(struct pz_run_file *f, unsigned threads,
                                            struct pz_progress *progress, json_t **out,
                                            struct pz_error *err);

/* ---- for the sections ----------------------------------------------------------------------- */

/* What the run kept of a model at a point, or NULL. */
const struct pz_evaluation *pz_story_kept(const struct pz_story *t, uint32_t point, uint32_t model);

/* The last objective run: of all models, or of the one. */
static inline const struct pz_objective_run *pz_story_common(const struct pz_story *t) {
  return &t->study->objective_run[t->study->n_runs - 1];
}

/* PZ_NO_MEMORY, with a message, unless `good`. */
PZ_NODISCARD enum pz_status pz_story_check(const struct pz_story *t, bool good);

/* The schedule of a layer in one direction with the effort that an evaluation had; the evaluator
 * stands on the chip. */
PZ_NODISCARD enum pz_status pz_story_schedule(struct pz_evaluator *e, const struct pz_layer *l,
                                              enum pz_direction d, enum pz_effort effort,
                                              struct pz_arena *arena, struct pz_scheduled *out,
                                              struct pz_error *err);

/* The layer that stands most often in a model. */
uint32_t pz_story_main_layer(const struct pz_workload *w);

/* ---- the rows ------------------------------------------------------------------------------- */

typedef enum pz_status pz_story_section(struct pz_story *t);
pz_story_section pz_story_run, pz_story_chips, pz_story_floorplan, pz_story_winner,
    pz_story_schedules, pz_story_baselines;

#endif
