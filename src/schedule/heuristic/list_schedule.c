/* Parallel list scheduling in order of time (Graham 1969), for problems of any size: whenever a
 * task ends, ready tasks start in the order of descending tails, as far as the residual capacity
 * allows. */
#include "core/vec.h"
#include "schedule/heuristic/local_search.h"

/* Number of ready tasks that may fail to fit before time advances. */
enum { LOOKAHEAD = 8 };

struct keyed_task {
  double key;
  uint32_t task;
};

/* Returns whether a task precedes another in a heap: the higher key first, then the lower index. */
static bool comes_first(const void *left, const void *right) {
  const struct keyed_task *first = left, *second = right;
  return first->key > second->key || (first->key >= second->key && first->task < second->task);
}

struct list_scheduler {
  struct pz_context *context;
  struct pz_call *call; /* owns the heaps */
  const uint32_t *mode; /* by task: index of its mode */
  struct pz_slot *slots;
  uint32_t *n_waiting;   /* by task: predecessors that have not ended */
  struct pz_vec ready;   /* heap of struct keyed_task: the key is the longest path to the end */
  struct pz_vec running; /* heap of struct keyed_task: the key is minus the end of the task */
  int32_t residual[PZ_RESOURCES];
};

/* Adds a task to the heap of ready tasks. */
static void add_ready(struct list_scheduler *scheduler, uint32_t task) {
  const struct pz_context *context = scheduler->context;
  struct keyed_task entry = {context->tail_s[task] + context->least_s[task], task};
  pz_heap_add(scheduler->call, &scheduler->ready, comes_first, &entry);
}

/* Starts ready tasks that fit at the time `now`. */
static void start_ready(struct list_scheduler *scheduler, double now) {
  struct keyed_task unfit[LOOKAHEAD];
  int n_unfit = 0;
  while (scheduler->ready.n && n_unfit < LOOKAHEAD) {
    struct keyed_task first;
    pz_heap_pop(&scheduler->ready, comes_first, &first);
    const struct pz_task *task = &scheduler->context->problem->tasks[first.task];
    const struct pz_mode *mode = &task->modes[scheduler->mode[first.task]];
    if (!pz_mode_fits(scheduler->residual, mode)) {
      unfit[n_unfit++] = first;
      continue;
    }
    for (int r = 0; r < PZ_RESOURCES; r++) scheduler->residual[r] -= mode->use[r];
    scheduler->slots[first.task] =
        (struct pz_slot){now, now + mode->duration, scheduler->mode[first.task]};
    struct keyed_task end = {-(now + mode->duration), first.task};
    pz_heap_add(scheduler->call, &scheduler->running, comes_first, &end);
  }
  while (n_unfit > 0) {
    n_unfit--;
    pz_heap_add(scheduler->call, &scheduler->ready, comes_first, &unfit[n_unfit]);
  }
}

/* Schedules every task in its mode of `mode`, and makes a better schedule the incumbent. */
void pz_list_schedule(struct pz_context *context, const uint32_t *mode) {
  const struct pz_problem *problem = context->problem;
  struct pz_call scratch = pz_scratch(context->call);
  struct list_scheduler scheduler = {.context = context, .call = &scratch, .mode = mode};
  double now = 0;
  scheduler.slots = pz_alloc(&scratch, problem->n, sizeof *scheduler.slots);
  scheduler.n_waiting = pz_alloc(&scratch, problem->n, sizeof *scheduler.n_waiting);
  pz_vec_init(&scheduler.ready, scratch.arena, sizeof(struct keyed_task));
  pz_vec_init(&scheduler.running, scratch.arena, sizeof(struct keyed_task));
  for (int r = 0; r < PZ_RESOURCES; r++) scheduler.residual[r] = problem->capacity[r];
  for (uint32_t i = 0; i < problem->n; i++) {
    scheduler.n_waiting[i] = problem->tasks[i].n_pred;
    if (!scheduler.n_waiting[i]) add_ready(&scheduler, i);
  }
  while (scheduler.ready.n || scheduler.running.n) {
    start_ready(&scheduler, now);
    if (!scheduler.running.n) continue;
    /* advance to the next end, and add the tasks that become ready */
    const struct keyed_task *first = scheduler.running.items;
    now = -first->key;
    while (scheduler.running.n && -first->key <= now) {
      struct keyed_task ended;
      pz_heap_pop(&scheduler.running, comes_first, &ended);
      const struct pz_task *task = &problem->tasks[ended.task];
      const int32_t *use = task->modes[mode[ended.task]].use;
      for (int r = 0; r < PZ_RESOURCES; r++) scheduler.residual[r] += use[r];
      for (uint32_t i = 0; i < task->n_succ; i++) {
        uint32_t next = task->succ[i];
        scheduler.n_waiting[next]--;
        if (!scheduler.n_waiting[next]) add_ready(&scheduler, next);
      }
    }
  }
  if (problem->n) {
    context->steps += problem->n;
    pz_update_incumbent(context, scheduler.slots, now, PZ_T_NONE);
  }
  pz_scratch_end(&scratch);
}
