/* Independent tasks of a study, divided over the threads and the MPI ranks of its search.
 *
 * Task i writes results[i] and nothing else, so that the results do not depend on the number of
 * threads or ranks.  After the last task every rank has all results. */
#ifndef PZ_STUDY_TASKS_H
#define PZ_STUDY_TASKS_H

#include "core/pool.h"
#include "core/progress.h"
#include "search/search.h"

struct pz_study_tasks {
  pz_task_fn *run;
  void *ctx;
  void *results; /* an array of plain structs, by task, or NULL if every rank runs all tasks */
  size_t result_bytes;
  struct pz_progress *progress; /* counts the tasks that other ranks have run, or NULL */
  uint32_t progress_units;      /* units of progress that each task counts */
  bool uses_all_threads;        /* each task uses all threads, so a rank runs one task at a time */
};

/* Runs tasks 0 to n-1 and raises the error of the lowest task that failed. */
void pz_study_run_tasks(struct pz_call *call, struct pz_search *search, size_t n,
                        const struct pz_study_tasks *tasks);

/* Begins a phase of a progress bar, which may be NULL. pz_study_phase_end() or an error finishes
 * the bar, which therefore must not be a local variable of a function that an error leaves. */
void pz_study_phase_begin(struct pz_call *call, struct pz_progress *progress, const char *label,
                          const char *unit, uint64_t total);
void pz_study_phase_end(struct pz_call *call, struct pz_progress *progress);

#endif
