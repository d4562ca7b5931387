/* Runs the tasks of a study through the search, which owns the threads and knows the ranks. */
#include "study/tasks.h"

static void run_task(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  const struct pz_study_tasks *tasks = ctx;
  tasks->run(call, tasks->ctx, i, worker);
}

/* Copies the result of task i to the buffer that is sent to the other ranks. */
static void pack_task_result(struct pz_call *call, void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_study_tasks *tasks = ctx;
  const char *results = tasks->results;
  pz_buffer_add(call, out, results + i * tasks->result_bytes, tasks->result_bytes);
}

/* Stores the result of task i that another rank has sent, and counts its progress. */
static void unpack_task_result(struct pz_call *call, void *ctx, size_t i, struct pz_bytes *bytes) {
  const struct pz_study_tasks *tasks = ctx;
  pz_progress_add(tasks->progress, tasks->progress_units);
  char *results = tasks->results;
  if (!pz_bytes_read(bytes, results + i * tasks->result_bytes, tasks->result_bytes))
    pz_raise(call, PZ_BAD_INPUT, "the result of a task is incomplete");
}

/* Runs the tasks on the threads of all ranks, which exchange the results if there are any. */
void pz_study_run_tasks(struct pz_call *call, struct pz_search *search, size_t n,
                        const struct pz_study_tasks *tasks) {
  struct pz_study_tasks task_copy = *tasks;
  struct pz_search_tasks shared = {.fn = run_task,
                                   .pack = tasks->results ? pack_task_result : NULL,
                                   .unpack = unpack_task_result,
                                   .ctx = &task_copy,
                                   .wide = tasks->uses_all_threads};
  pz_search_run_tasks(call, search, n, &shared);
}

/* Begins a phase of the progress, which ends with the call or by pz_study_phase_end(). */
void pz_study_phase_begin(struct pz_call *call, struct pz_progress *progress, const char *label,
                          const char *unit, uint64_t total) {
  if (!progress) return;
  pz_progress_next(progress, label, unit, total);
  pz_defer(call, pz_progress_close, progress);
}

void pz_study_phase_end(struct pz_call *call, struct pz_progress *progress) {
  if (progress) pz_close(call, progress);
}
