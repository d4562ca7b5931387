/* Heuristic schedules (local_search.h).
 *
 * generate_schedule() makes a schedule from a mode and a priority for each task by serial list scheduling.
 * pz_local_search() tries a few rules for the first incumbent (try_rules), then runs passes of threshold accepting over
 * modes and priorities (run_pass), half of them backwards from the end.  Problems that are too large for this get a few
 * list schedules.
 *
 * Serial list scheduling and its backward pass: Kolisch 1996; threshold accepting: Dueck and Scheuer 1990; justification:
 * Valls, Ballestin and Quintanilla 2005. */
#include "schedule/heuristic/local_search.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/num.h"
#include "schedule/model/profile.h"

enum {
  MAX_MODES = 64,
  SEED = 20240721,    /* seed of the random numbers */
  TASKS_PER_STEP = 4, /* tasks placed in one step */
  /* tuned, see solve.c */
  LONG_STEPS = 50000, /* steps from which a search is long */
  PASSES_SHORT = 4,   /* passes of a short search, all from the incumbent */
  PASSES_LONG = 12    /* passes of a long search, two of three from a random choice */
};
/* Tuned: the first threshold as a fraction of the makespan, and how much longer than the current
 * schedule a schedule may be to be justified. */
static const double THRESHOLD = 0.03, JUSTIFY_WITHIN = 1.05;

/* A value of search->mode: the task gets the mode in which it ends first. */
static const uint32_t ANY_MODE = PZ_NONE;

struct local_search {
  struct pz_context *context;
  struct pz_profile profile;         /* residual capacity beside the tasks that are placed */
  struct pz_slot *slots;             /* the schedule that was generated last */
  uint32_t *mode, *saved_mode;       /* by task: the current mode, and the one before the moves */
  double *priority, *saved_priority; /* by task: the current one, and the one before the moves */
  uint32_t *ready, *n_waiting;       /* scratch of generate_schedule() */
  uint32_t *same_modes;              /* by task: the first task with the same modes */
  uint64_t random;                   /* state of the random numbers */
  enum pz_technique credit;          /* the technique to which an incumbent is credited */
  bool backward; /* schedules are generated from the end: successors first, reversed times */
};

/* Allocates a local search for the problem of the context. */
static struct local_search local_search_new(struct pz_call *call, struct pz_context *context) {
  const struct pz_problem *problem = context->problem;
  uint32_t n = problem->n;
  struct local_search search = {.context = context, .credit = PZ_T_NONE};
  search.slots = pz_alloc(call, n, sizeof *search.slots);
  search.mode = pz_alloc(call, n, sizeof *search.mode);
  search.saved_mode = pz_alloc(call, n, sizeof *search.saved_mode);
  search.priority = pz_alloc(call, n, sizeof *search.priority);
  search.saved_priority = pz_alloc(call, n, sizeof *search.saved_priority);
  search.ready = pz_alloc(call, n, sizeof *search.ready);
  search.n_waiting = pz_alloc(call, n, sizeof *search.n_waiting);
  search.same_modes = pz_alloc(call, n, sizeof *search.same_modes);
  search.profile = pz_profile_new(call, problem);
  for (uint32_t i = 0; i < n && n <= PZ_LOCAL_MOST_TASKS; i++)
    while (!pz_same_modes(&problem->tasks[search.same_modes[i]], &problem->tasks[i]))
      search.same_modes[i]++;
  return search;
}

/* Returns a random number below n, or 0 if n is 0. */
static uint32_t draw(struct local_search *search, uint32_t n) {
  uint32_t drawn = pz_random_lcg(&search->random);
  return n ? drawn % n : 0;
}

/* ---- one schedule --------------------------------------------------------------------------- */

/* The predecessors or the successors of a task. */
struct task_list {
  const uint32_t *tasks;
  uint32_t n;
};

enum placed { PLACED_BEFORE, PLACED_AFTER };

/* Returns the tasks that must be placed before task i, or those that must be placed after it: its
 * predecessors and its successors, or the reverse in a backward schedule. */
static struct task_list neighbours(const struct local_search *search, uint32_t i,
                                   enum placed placed) {
  const struct pz_task *task = &search->context->problem->tasks[i];
  bool are_successors = (placed == PLACED_AFTER) != search->backward;
  return are_successors ? (struct task_list){task->succ, task->n_succ}
                        : (struct task_list){task->pred, task->n_pred};
}

/* Places a task at its earliest start in its mode, or if that is ANY_MODE, in the mode in which
 * it ends first. */
static void place_task(struct local_search *search, uint32_t i) {
  const struct pz_task *task = &search->context->problem->tasks[i];
  struct task_list before = neighbours(search, i, PLACED_BEFORE);
  double ready = 0;
  struct pz_slot best = {0, DBL_MAX, 0};
  for (uint32_t k = 0; k < before.n; k++) ready = fmax(ready, search->slots[before.tasks[k]].end);
  if (search->mode[i] != ANY_MODE) {
    const struct pz_mode *mode = &task->modes[search->mode[i]];
    double start = pz_profile_earliest(&search->profile, ready, mode);
    best = (struct pz_slot){start, start + mode->duration, search->mode[i]};
  } else {
    for (uint32_t m = task->n_modes; m-- > 0;) {
      const struct pz_mode *mode = &task->modes[m];
      if (ready + mode->duration >= best.end) continue;
      double start = pz_profile_earliest(&search->profile, ready, mode);
      if (start + mode->duration < best.end)
        best = (struct pz_slot){start, start + mode->duration, m};
    }
  }
  search->slots[i] = best;
  pz_profile_occupy(&search->profile, best.start, &task->modes[best.mode]);
}

/* Returns whether milestones (tasks of zero duration) still fit at their instants after all other
 * tasks were placed. */
static bool milestones_fit(const struct local_search *search) {
  const struct pz_problem *problem = search->context->problem;
  const struct pz_slot *slots = search->slots;
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_mode *mode = &problem->tasks[i].modes[slots[i].mode];
    double instant = slots[i].start;
    int32_t residual[PZ_RESOURCES];
    if (mode->duration > 0) continue;
    memcpy(residual, problem->capacity, sizeof residual);
    for (uint32_t k = 0; k < problem->n; k++)
      for (int r = 0; r < PZ_RESOURCES; r++)
        if (slots[k].start < instant && slots[k].end > instant)
          residual[r] -= problem->tasks[k].modes[slots[k].mode].use[r];
    if (!pz_mode_fits(residual, mode)) return false;
  }
  return true;
}

/* Replaces all times of the schedule by those in the reverse direction: makespan - time. */
static void reverse_times(struct local_search *search, double makespan) {
  for (uint32_t i = 0; i < search->context->problem->n; i++) {
    struct pz_slot *slot = &search->slots[i];
    double start = makespan - slot->end;
    slot->end = makespan - slot->start;
    slot->start = start > 0 ? start : 0;
  }
}

/* Places all tasks, always the ready task of highest priority next.  A schedule that is better than the
 * incumbent replaces it, if its milestones fit.  Returns the makespan, or DBL_MAX if they do not. */
static double generate_schedule(struct local_search *search) {
  struct pz_context *context = search->context;
  uint32_t n = context->problem->n, n_ready = 0, *ready = search->ready;
  double makespan = 0;
  bool valid = true;
  pz_profile_clear(&search->profile);
  for (uint32_t i = 0; i < n; i++) {
    search->n_waiting[i] = neighbours(search, i, PLACED_BEFORE).n;
    if (!search->n_waiting[i]) ready[n_ready++] = i;
  }
  while (n_ready) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n_ready; i++)
      if (search->priority[ready[i]] > search->priority[ready[best]]) best = i;
    uint32_t next = ready[best];
    ready[best] = ready[--n_ready];
    place_task(search, next);
    makespan = fmax(makespan, search->slots[next].end);
    struct task_list after = neighbours(search, next, PLACED_AFTER);
    for (uint32_t k = 0; k < after.n; k++) {
      uint32_t waiting = after.tasks[k];
      search->n_waiting[waiting]--;
      if (!search->n_waiting[waiting]) ready[n_ready++] = waiting;
    }
  }
  context->steps += n / TASKS_PER_STEP + 1;
  if (pz_better(context, makespan, context->incumbent_s)) {
    if (search->backward) reverse_times(search, makespan);
    valid = milestones_fit(search); /* in the order of time, not in reverse */
    if (valid) pz_update_incumbent(context, search->slots, makespan, search->credit);
    if (search->backward) reverse_times(search, makespan);
  }
  return valid ? makespan : DBL_MAX;
}

/* Improves the schedule by justification (forward-backward improvement): generates it again from its
 * other end, tasks that ended last first, and then once more from the first end.  Sets the priorities
 * to the order of the new schedule.  Returns the makespan. */
static double justify(struct local_search *search) {
  struct pz_technique_count *count = &search->context->count[PZ_T_justification];
  uint32_t n = search->context->problem->n;
  double makespan = 0;
  int64_t steps_before = search->context->steps;
  enum pz_technique credit = search->credit;
  search->credit = PZ_T_justification;
  for (int pass = 0; pass < 2; pass++) { /* from the other end, and back in the first direction */
    for (uint32_t i = 0; i < n; i++) search->priority[i] = search->slots[i].end;
    search->backward = !search->backward;
    makespan = generate_schedule(search);
  }
  for (uint32_t i = 0; i < n; i++) search->priority[i] = -search->slots[i].start;
  search->credit = credit;
  count->calls++;
  count->steps += search->context->steps - steps_before;
  return makespan;
}

/* ---- the first incumbent -------------------------------------------------------------------- */

/* Rules for choosing modes: the fastest, the one that saves power, or from 0 to PZ_MIXES - 1 the one
 * of least energy by the surrogate resource with this index. */
enum { RULE_FASTEST = -1, RULE_SAVE_POWER = PZ_MIXES };

/* Returns the index of the fastest mode of a task. */
static uint32_t fastest_mode(const struct pz_task *task) {
  uint32_t best = 0;
  for (uint32_t m = 1; m < task->n_modes; m++)
    if (task->modes[m].duration < task->modes[best].duration) best = m;
  return best;
}

/* Returns the fastest mode that leaves power to other tasks.  Tasks whose fastest mode uses most of
 * the power leave a sixteenth of it to collectives; the other tasks use at most that sixteenth. */
static uint32_t power_saving_mode(const struct pz_task *task, int32_t capacity) {
  enum { RESERVED_POWER = PZ_RATE_PARTS / 16 };
  uint32_t best = fastest_mode(task);
  bool uses_most = task->modes[best].use[PZ_POWER] > capacity / 2;
  int32_t limit = uses_most ? capacity - RESERVED_POWER : RESERVED_POWER;
  double least = DBL_MAX;
  for (uint32_t m = 0; m < task->n_modes; m++) {
    if (task->modes[m].use[PZ_POWER] > limit || task->modes[m].duration >= least) continue;
    best = m;
    least = task->modes[m].duration;
  }
  return best;
}

/* Chooses the modes of all tasks by a rule. */
static void choose_modes(struct local_search *search, int rule) {
  const struct pz_problem *problem = search->context->problem;
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    double least = DBL_MAX;
    search->mode[i] = 0;
    if (rule == RULE_FASTEST) search->mode[i] = fastest_mode(task);
    if (rule == RULE_SAVE_POWER)
      search->mode[i] = power_saving_mode(task, problem->capacity[PZ_POWER]);
    if (rule == RULE_FASTEST || rule == RULE_SAVE_POWER) continue;
    for (uint32_t m = 0; m < task->n_modes; m++) {
      const struct pz_mode *mode = &task->modes[m];
      double energy = pz_mode_share(search->context, mode, rule) * mode->duration;
      if (energy >= least) continue;
      least = energy;
      search->mode[i] = m;
    }
  }
}

/* Sets priorities by the longest path to the end, plus up to `lead` times the makespan for tasks that
 * are early in the input.  With a lead, one half of a microbatch runs ahead of the other, so that one
 * computes during the collectives of the other. */
static void prioritise_by_path(struct local_search *search, double lead) {
  const struct pz_context *context = search->context;
  double lead_s = lead > 0 ? lead * context->incumbent_s : 0, n = (double)context->problem->n;
  for (uint32_t i = 0; i < context->problem->n; i++) {
    double position = (double)context->problem->tasks[i].id / n;
    search->priority[i] = context->tail_s[i] + context->least_s[i] + lead_s * (1 - position);
  }
}

/* Sets the modes of all tasks to those of the incumbent, and their priorities to its order. */
static void choose_incumbent(struct local_search *search) {
  const struct pz_slot *incumbent = search->context->incumbent;
  for (uint32_t i = 0; i < search->context->problem->n; i++) {
    search->mode[i] = incumbent[i].mode;
    search->priority[i] = search->backward ? incumbent[i].end : -incumbent[i].start;
  }
}

/* Changes tasks of the incumbent to their fastest modes one by one, unless the schedule becomes
 * longer. */
static void speed_up_tasks(struct local_search *search) {
  const struct pz_context *context = search->context;
  choose_incumbent(search);
  double makespan = context->incumbent_s;
  for (uint32_t i = 0; i < context->problem->n && pz_open(context); i++) {
    const struct pz_task *task = &context->problem->tasks[i];
    uint32_t before = search->mode[i], fastest = fastest_mode(task);
    if (before == fastest || task->modes[before].duration == task->modes[fastest].duration)
      continue;
    search->mode[i] = fastest;
    double next = generate_schedule(search);
    if (next <= makespan)
      makespan = next;
    else
      search->mode[i] = before;
  }
}

/* Generates schedules with priorities by path: with each rule for modes; where power is limited,
 * also with a lead of the tasks that are early in the input; and finally with the mode in which
 * each task ends first.  The best schedule becomes the incumbent. */
static void try_rules(struct local_search *search) {
  /* fractions of the makespan (prioritise_by_path): none, a short and a long lead */
  static const double leads[] = {0, 0.1, 0.4};
  const struct pz_context *context = search->context;
  prioritise_by_path(search, 0);
  /* the fastest modes (-1), and then those of least energy by each surrogate resource, a weighted
   * sum of resources (context.h) */
  _Static_assert(RULE_FASTEST == -1, "it precedes the surrogate resources, which begin at 0");
  for (int rule = RULE_FASTEST; rule < PZ_MIXES && pz_open(context); rule++) {
    choose_modes(search, rule);
    generate_schedule(search);
  }
  if (context->problem->capacity[PZ_POWER] > 0) {
    choose_modes(search, RULE_SAVE_POWER);
    for (size_t i = 0; i < sizeof leads / sizeof *leads && pz_open(context); i++) {
      prioritise_by_path(search, leads[i]);
      generate_schedule(search);
    }
    speed_up_tasks(search);
  }
  if (!pz_open(context)) return;
  for (uint32_t i = 0; i < context->problem->n; i++) search->mode[i] = ANY_MODE;
  prioritise_by_path(search, 0);
  generate_schedule(search);
  if (context->techniques->justification) justify(search);
}

/* ---- moves ---------------------------------------------------------------------------------- */

/* Draws another mode for a task, among those that are not eliminated.  Half of the time the mode is
 * drawn by its share in the linear program, and otherwise mostly from the two neighbours of the
 * current mode in the order of their size. */
static uint32_t draw_mode(struct local_search *search, uint32_t i) {
  const struct pz_context *context = search->context;
  uint32_t first_mode = context->first_mode[i], current = search->mode[i];
  uint32_t list[MAX_MODES], n = 0, at = 0; /* `at` is the place of the current mode in the list */
  for (uint32_t m = 0; m < context->problem->tasks[i].n_modes && n < MAX_MODES; m++) {
    if (context->eliminated[first_mode + m]) continue;
    if (m <= current) at = n;
    list[n++] = m;
  }
  if (n == 0) return current;
  if (n == 1) return list[0];
  if (draw(search, 2)) {
    double left = draw(search, 1000) / 1000.0; /* a mode is drawn with its share as probability */
    for (uint32_t k = 0; k < n; k++) {
      left -= context->lp_share[first_mode + list[k]];
      if (left < 0) return list[k];
    }
  }
  if (draw(search, 3) == 0) return list[(at + 1 + draw(search, n - 1)) % n];
  bool next = at == 0 || (at + 1 < n && draw(search, 2));
  return next ? list[at + 1] : list[at - 1];
}

/* Makes one move: another mode for a task, or a priority next to that of another task.  Sometimes the
 * mode changes for all tasks with the same modes.  For example, three GEMMs run concurrently on a
 * third of the cores each, but not if only one of them changes to a third. */
static void make_move(struct local_search *search) {
  const struct pz_problem *problem = search->context->problem;
  uint32_t moved = draw(search, problem->n);
  if (problem->tasks[moved].n_modes > 1 && draw(search, 2)) {
    uint32_t mode = draw_mode(search, moved);
    bool all_with_same_modes = draw(search, 3) == 0;
    for (uint32_t i = 0; i < problem->n; i++)
      if (i == moved || (all_with_same_modes && search->same_modes[i] == search->same_modes[moved]))
        search->mode[i] = mode;
    if (draw(search, 2)) return;
  }
  uint32_t other = draw(search, problem->n);
  /* small, so that the task mostly comes next to the other one in the order of priorities */
  double distance = 1e-6 * search->context->scale * (1 + draw(search, 1000)) / 1000;
  search->priority[moved] = search->priority[other] + (draw(search, 2) ? distance : -distance);
}

/* Runs a pass of threshold accepting up to the step `until`, from the incumbent or from random modes
 * and priorities.  Each iteration makes one to three moves, and undoes them if the schedule becomes
 * longer by more than a random threshold whose maximum shrinks to 0. */
static void run_pass(struct local_search *search, int64_t until, bool from_random) {
  struct pz_context *context = search->context;
  uint32_t n = context->problem->n;
  choose_incumbent(search);
  for (uint32_t i = 0; i < n && from_random; i++) { /* modes near those of the incumbent */
    if (draw(search, 2)) search->mode[i] = draw_mode(search, i);
    search->priority[i] =
        (context->tail_s[i] + context->least_s[i]) * (1 + draw(search, 1000) / 1000.0);
  }
  double makespan = generate_schedule(search);
  int64_t begin = context->steps;
  while (context->steps < until && pz_open(context)) {
    double left = (double)(until - context->steps) / (double)(until - begin);
    memcpy(search->saved_mode, search->mode, n * sizeof *search->mode);
    memcpy(search->saved_priority, search->priority, n * sizeof *search->priority);
    for (uint32_t moves = 1 + draw(search, 3); moves > 0; moves--) make_move(search);
    double next = generate_schedule(search);
    bool may_justify = context->techniques->justification && next <= JUSTIFY_WITHIN * makespan;
    if (may_justify && draw(search, 4) == 0) next = justify(search);
    double threshold = THRESHOLD * left * left * context->incumbent_s * draw(search, 1000) / 1000;
    if (next <= makespan + threshold) {
      makespan = next;
    } else {
      memcpy(search->mode, search->saved_mode, n * sizeof *search->mode);
      memcpy(search->priority, search->saved_priority, n * sizeof *search->priority);
    }
  }
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Improves the incumbent in about this number of steps, or makes the first one. */
void pz_local_search(struct pz_context *context, int64_t steps) {
  /* rules for large problems: the fastest mode, or least energy by the surrogate resources 0 (tensor
   * cores), 1 (vector cores) and 5 (half of each) */
  static const int list_rules[] = {RULE_FASTEST, 0, 1, 5};
  struct pz_call scratch = pz_scratch(context->call);
  struct local_search search = local_search_new(&scratch, context);
  bool first = context->incumbent_s >= DBL_MAX;
  if (first) {
    /* tasks one after another in topological order, each in its fastest mode */
    struct pz_slot *slots = search.slots;
    const struct pz_problem *problem = context->problem;
    double now = 0;
    for (uint32_t i = 0; i < problem->n; i++) {
      uint32_t mode = fastest_mode(&problem->tasks[i]);
      slots[i] = (struct pz_slot){now, now + problem->tasks[i].modes[mode].duration, mode};
      now = slots[i].end;
    }
    context->steps += problem->n;
    pz_update_incumbent(context, slots, now, PZ_T_NONE);
  }
  if (context->problem->n > PZ_LOCAL_MOST_TASKS) {
    for (size_t k = 0; k < sizeof list_rules / sizeof *list_rules; k++) {
      choose_modes(&search, list_rules[k]);
      pz_list_schedule(context, search.mode);
    }
  } else if (context->problem->n) {
    int64_t end = context->steps + steps;
    search.random = (uint64_t)(SEED + steps);
    if (first) try_rules(&search);
    if (context->techniques->local_search && pz_open(context)) {
      bool is_long = steps >= LONG_STEPS;
      int64_t passes = is_long ? PASSES_LONG : PASSES_SHORT, steps_before = context->steps;
      search.credit = PZ_T_local_search;
      for (int64_t pass = 1; pass <= passes && pz_open(context); pass++) {
        int64_t pass_steps = (end - context->steps) / (passes + 1 - pass);
        search.backward = pass % 2 == 0;
        bool from_random = is_long && pass % 3 != 0;
        run_pass(&search, context->steps + pass_steps, from_random);
      }
      context->count[PZ_T_local_search].calls++;
      context->count[PZ_T_local_search].steps += context->steps - steps_before;
    }
  }
  pz_scratch_end(&scratch);
}

/* Generates a schedule with these modes and priorities, to improve the incumbent. */
void pz_serial_schedule(struct pz_context *context, const uint32_t *mode, const double *priority) {
  uint32_t n = context->problem->n;
  if (n > PZ_LOCAL_MOST_TASKS) return;
  struct pz_call scratch = pz_scratch(context->call);
  struct local_search search = local_search_new(&scratch, context);
  memcpy(search.mode, mode, n * sizeof *mode);
  memcpy(search.priority, priority, n * sizeof *priority);
  search.credit = PZ_T_lp_rounding;
  generate_schedule(&search);
  pz_scratch_end(&scratch);
}

/* Places the tasks of the incumbent again in order of start, as early as they fit. */
void pz_left_shift_incumbent(struct pz_context *context) {
  uint32_t n = context->problem->n;
  int64_t steps = context->steps; /* this effort does not count */
  if (!n || n > PZ_LOCAL_MOST_TASKS) return;
  struct pz_call scratch = pz_scratch(context->call);
  struct local_search search = local_search_new(&scratch, context);
  choose_incumbent(&search);
  double makespan = generate_schedule(&search);
  if (makespan <= context->incumbent_s && milestones_fit(&search))
    memcpy(context->incumbent, search.slots, n * sizeof *search.slots);
  context->steps = steps;
  pz_scratch_end(&scratch);
}
