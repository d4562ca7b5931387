/* Runs the tasks of a study through the search, which owns the threads and knows the ranks.
 * Each task has a border of its own, because an error may not cross the frames of the search. */
#include "study/tasks.h"

struct one_task {
  const struct pz_study_tasks *tasks;
  size_t i;
  unsigned worker;
};

static void run_one_task(struct pz_call *call, void *ctx) {
  const struct one_task *task = ctx;
  task->tasks->run(call, task->tasks->ctx, task->i, task->worker);
}

static enum pz_status run_task_in_border(void *ctx, size_t i, unsigned worker,
                                         struct pz_error *err) {
  struct one_task task = {ctx, i, worker};
  return pz_border(run_one_task, &task, err);
}

static char *task_result(const struct pz_study_tasks *tasks, size_t i) {
  return (char *)tasks->results + i * tasks->result_bytes;
}

static void pack_task_result(void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_study_tasks *tasks = ctx;
  pz_buffer_append(out, task_result(tasks, i), tasks->result_bytes);
}

static enum pz_status unpack_task_result(void *ctx, size_t i, struct pz_bytes *in) {
  const struct pz_study_tasks *tasks = ctx;
  pz_progress_add(tasks->progress, tasks->progress_units);
  bool complete = pz_bytes_take(in, task_result(tasks, i), tasks->result_bytes);
  return complete ? PZ_OK : PZ_BAD_INPUT;
}

void pz_study_run_tasks(struct pz_call *call, struct pz_search *search, size_t n,
                        const struct pz_study_tasks *tasks) {
  struct pz_study_tasks own = *tasks;
  struct pz_search_work work = {.fn = run_task_in_border,
                                .pack = tasks->results ? pack_task_result : NULL,
                                .unpack = unpack_task_result,
                                .ctx = &own,
                                .wide = tasks->uses_all_threads};
  pz_must(call, pz_search_deal(search, n, &work, pz_call_error(call)));
}

static void finish_progress(void *progress) { pz_progress_finish(progress, NULL); }

void pz_study_phase_begin(struct pz_call *call, struct pz_progress *progress, const char *label,
                          const char *unit, uint64_t total) {
  if (!progress) return;
  pz_progress_next(progress, label, unit, total);
  pz_defer(call, finish_progress, progress);
}

void pz_study_phase_end(struct pz_call *call, struct pz_progress *progress) {
  if (progress) pz_close(call, progress);
}
