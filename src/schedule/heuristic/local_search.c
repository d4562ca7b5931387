/* Heuristic schedules (local_search.h).
 *
 * generate() makes a schedule from a mode and a priority for each task by serial list scheduling.  pz_local_search() tries
 * a few rules for the first incumbent (try_rules), then runs passes of threshold accepting over modes and priorities
 * (anneal), half of them backwards from the end.  Problems that are too large for it get a few list schedules.
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
  SEED = 20240721,    /* of the random numbers */
  TASKS_PER_STEP = 4, /* tasks placed in one step */
  /* tuned, see solve.c */
  LONG_STEPS = 50000, /* steps from which a search is long */
  PASSES_SHORT = 4,   /* passes of a short search, all from the incumbent */
  PASSES_LONG = 12    /* passes of a long search, two of three from a random choice */
};
/* Tuned: the first threshold, as a fraction of the makespan; schedules up to this factor above the current one may be
 * justified. */
static const double THRESHOLD = 0.03, JUSTIFY_WITHIN = 1.05;

/* In place of a mode: the one in which the task ends first. */
static const uint32_t ANY_MODE = PZ_NONE;

struct local_search {
  struct pz_context *c;
  struct pz_profile profile;
  struct pz_slot *slots;
  uint32_t *mode, *saved_mode; /* the current choice, and the one to return to */
  double *priority, *saved_priority;
  uint32_t *ready, *waits; /* of generate() */
  uint32_t *same_modes;    /* by task: the first task with the same modes */
  uint64_t random;
  enum pz_technique credit; /* the technique to which an incumbent is credited */
  bool backward; /* schedules are made from the end: successors first, times counted back */
};

static struct local_search begin_local_search(struct pz_call *call, struct pz_context *c) {
  uint32_t n = c->p->n;
  struct local_search l = {.c = c, .credit = PZ_T_NONE};
  l.slots = pz_alloc(call, n, sizeof *l.slots);
  l.mode = pz_alloc(call, n, sizeof *l.mode);
  l.saved_mode = pz_alloc(call, n, sizeof *l.saved_mode);
  l.priority = pz_alloc(call, n, sizeof *l.priority);
  l.saved_priority = pz_alloc(call, n, sizeof *l.saved_priority);
  l.ready = pz_alloc(call, n, sizeof *l.ready);
  l.waits = pz_alloc(call, n, sizeof *l.waits);
  l.same_modes = pz_alloc(call, n, sizeof *l.same_modes);
  for (uint32_t i = 0; i < n && n <= PZ_LOCAL_MOST_TASKS; i++)
    while (!pz_same_modes(&c->p->tasks[l.same_modes[i]], &c->p->tasks[i])) l.same_modes[i]++;
  if (!pz_profile_init(&l.profile, c->p, call->arena))
    pz_raise(call, PZ_NO_MEMORY, "out of memory");
  return l;
}

static uint32_t draw(struct local_search *l, uint32_t n) {
  uint32_t drawn = pz_random_lcg(&l->random);
  return n ? drawn % n : 0;
}

/* ---- one schedule --------------------------------------------------------------------------- */

struct task_list {
  const uint32_t *list;
  uint32_t n;
};

/* The tasks that must be placed before a task, or those that wait for it. */
static struct task_list tasks_before(const struct local_search *l, uint32_t t) {
  const struct pz_task *task = &l->c->p->tasks[t];
  return l->backward ? (struct task_list){task->succ, task->n_succ}
                     : (struct task_list){task->pred, task->n_pred};
}

static struct task_list tasks_after(const struct local_search *l, uint32_t t) {
  const struct pz_task *task = &l->c->p->tasks[t];
  return l->backward ? (struct task_list){task->pred, task->n_pred}
                     : (struct task_list){task->succ, task->n_succ};
}

static struct pz_slot earliest_slot(const struct local_search *l, uint32_t t, double ready,
                                    uint32_t mode) {
  const struct pz_mode *m = &l->c->p->tasks[t].modes[mode];
  double start = pz_profile_earliest(&l->profile, ready, m);
  return (struct pz_slot){start, start + m->s, mode};
}

static struct pz_slot earliest_slot_of_any_mode(const struct local_search *l, uint32_t t,
                                                double ready) {
  const struct pz_task *task = &l->c->p->tasks[t];
  struct pz_slot best = {0, DBL_MAX, 0};
  for (uint32_t m = task->n_modes; m-- > 0;) {
    if (ready + task->modes[m].s >= best.end) continue;
    struct pz_slot slot = earliest_slot(l, t, ready, m);
    if (slot.end < best.end) best = slot;
  }
  return best;
}

static void place_task(struct local_search *l, uint32_t t) {
  struct task_list before = tasks_before(l, t);
  double ready = 0;
  for (uint32_t k = 0; k < before.n; k++) ready = fmax(ready, l->slots[before.list[k]].end);
  l->slots[t] = l->mode[t] == ANY_MODE ? earliest_slot_of_any_mode(l, t, ready)
                                       : earliest_slot(l, t, ready, l->mode[t]);
  pz_profile_occupy(&l->profile, l->slots[t].start, &l->c->p->tasks[t].modes[l->slots[t].mode]);
}

/* Whether the milestones still fit at their instants after all others were placed. */
static bool milestones_fit(const struct local_search *l) {
  const struct pz_problem *p = l->c->p;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_mode *m = &p->tasks[i].modes[l->slots[i].mode];
    double t = l->slots[i].start;
    int32_t residual[PZ_RESOURCES];
    if (m->s > 0) continue;
    memcpy(residual, p->capacity, sizeof residual);
    for (uint32_t k = 0; k < p->n; k++)
      for (int r = 0; r < PZ_RESOURCES; r++)
        if (l->slots[k].start < t && l->slots[k].end > t)
          residual[r] -= p->tasks[k].modes[l->slots[k].mode].use[r];
    if (!pz_mode_fits(residual, m)) return false;
  }
  return true;
}

/* Turns times that are counted from the end into times from the beginning, and back. */
static void reverse_times(struct local_search *l, double makespan) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    struct pz_slot *s = &l->slots[i];
    double start = makespan - s->end;
    s->end = makespan - s->start;
    s->start = start > 0 ? start : 0;
  }
}

/* Places all tasks, of the ready ones the one of highest priority first.  Returns the makespan, or DBL_MAX for a schedule
 * that would be an incumbent but is not valid. */
static double generate(struct local_search *l) {
  const struct pz_problem *p = l->c->p;
  uint32_t n_ready = 0;
  double makespan = 0;
  bool valid = true;
  pz_profile_clear(&l->profile);
  for (uint32_t i = 0; i < p->n; i++) {
    l->waits[i] = tasks_before(l, i).n;
    if (!l->waits[i]) l->ready[n_ready++] = i;
  }
  while (n_ready) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n_ready; i++)
      if (l->priority[l->ready[i]] > l->priority[l->ready[best]]) best = i;
    uint32_t t = l->ready[best];
    l->ready[best] = l->ready[--n_ready];
    place_task(l, t);
    makespan = fmax(makespan, l->slots[t].end);
    struct task_list after = tasks_after(l, t);
    for (uint32_t k = 0; k < after.n; k++) {
      uint32_t waiting = after.list[k];
      l->waits[waiting]--;
      if (!l->waits[waiting]) l->ready[n_ready++] = waiting;
    }
  }
  l->c->steps += p->n / TASKS_PER_STEP + 1;
  if (pz_better(l->c, makespan, l->c->best_s)) {
    if (l->backward) reverse_times(l, makespan);
    valid = milestones_fit(l);
    if (valid) pz_update_incumbent(l->c, l->slots, makespan, l->credit);
    if (l->backward) reverse_times(l, makespan);
  }
  return valid ? makespan : DBL_MAX;
}

/* Forward-backward improvement (justification): makes the schedule again from its other end, tasks that ended last first,
 * and once more.  The priorities become its order. */
static double justify(struct local_search *l) {
  double makespan = 0;
  int64_t from = l->c->steps;
  enum pz_technique credit = l->credit;
  l->credit = PZ_T_justification;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < l->c->p->n; i++) l->priority[i] = l->slots[i].end;
    l->backward = !l->backward;
    makespan = generate(l);
  }
  for (uint32_t i = 0; i < l->c->p->n; i++) l->priority[i] = -l->slots[i].start;
  l->credit = credit;
  l->c->count[PZ_T_justification].calls++;
  l->c->count[PZ_T_justification].steps += l->c->steps - from;
  return makespan;
}

/* ---- the first incumbent -------------------------------------------------------------------- */

static uint32_t fastest_mode(const struct pz_task *t) {
  uint32_t best = 0;
  for (uint32_t m = 1; m < t->n_modes; m++)
    if (t->modes[m].s < t->modes[best].s) best = m;
  return best;
}

/* The mode of least energy by a surrogate resource. */
static uint32_t least_energy_mode(const struct pz_context *c, uint32_t t, int mix) {
  const struct pz_task *task = &c->p->tasks[t];
  uint32_t best = 0;
  double least = DBL_MAX;
  for (uint32_t m = 0; m < task->n_modes; m++) {
    double energy = pz_mode_share(c, &task->modes[m], mix) * task->modes[m].s;
    if (energy < least) {
      least = energy;
      best = m;
    }
  }
  return best;
}

/* The fastest mode that leaves power to others.  Tasks whose fastest mode uses most of the watts leave RESERVED_POWER, so
 * that collectives can run beside them; the others use at most that. */
static uint32_t power_saving_mode(const struct pz_problem *p, uint32_t t) {
  enum { RESERVED_POWER = PZ_RATE_PARTS / 16 };
  const struct pz_task *task = &p->tasks[t];
  uint32_t best = fastest_mode(task);
  int32_t all = p->capacity[PZ_POWER];
  bool uses_most = task->modes[best].use[PZ_POWER] > all / 2;
  int32_t limit = uses_most ? all - RESERVED_POWER : RESERVED_POWER;
  double least = DBL_MAX;
  for (uint32_t m = 0; m < task->n_modes; m++)
    if (task->modes[m].use[PZ_POWER] <= limit && task->modes[m].s < least) {
      best = m;
      least = task->modes[m].s;
    }
  return best;
}

/* Rules for modes: the fastest, that of least energy by the surrogate resource of this number, or the one that saves
 * power. */
enum { RULE_FASTEST = -1, RULE_SAVE_POWER = PZ_MIXES };

static void choose_modes(struct local_search *l, int rule) {
  const struct pz_problem *p = l->c->p;
  for (uint32_t i = 0; i < p->n; i++) {
    if (rule == RULE_FASTEST)
      l->mode[i] = fastest_mode(&p->tasks[i]);
    else if (rule == RULE_SAVE_POWER)
      l->mode[i] = power_saving_mode(p, i);
    else
      l->mode[i] = least_energy_mode(l->c, i, rule);
  }
}

/* Sets priorities by the longest path to the end, plus up to `lead` times the makespan for tasks that come early in the
 * input: then the first of two halves of a microbatch leads, and one computes while the other's collectives run. */
static void prioritise_by_path(struct local_search *l, double lead) {
  const struct pz_context *c = l->c;
  double lead_s = lead > 0 ? lead * c->best_s : 0, n = (double)c->p->n;
  for (uint32_t i = 0; i < c->p->n; i++)
    l->priority[i] = c->tail_s[i] + c->least_s[i] + lead_s * (1 - (double)c->p->tasks[i].id / n);
}

static void choose_incumbent(struct local_search *l) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    l->mode[i] = l->c->best[i].mode;
    l->priority[i] = l->backward ? l->c->best[i].end : -l->c->best[i].start;
  }
}

/* Changes tasks of the incumbent to their fastest modes one by one, where the schedule becomes no longer. */
static void speed_up_tasks(struct local_search *l) {
  const struct pz_problem *p = l->c->p;
  choose_incumbent(l);
  double now = l->c->best_s;
  for (uint32_t i = 0; i < p->n && pz_open(l->c); i++) {
    uint32_t before = l->mode[i], fastest = fastest_mode(&p->tasks[i]);
    if (before == fastest || p->tasks[i].modes[before].s == p->tasks[i].modes[fastest].s) continue;
    l->mode[i] = fastest;
    double next = generate(l);
    if (next <= now)
      now = next;
    else
      l->mode[i] = before;
  }
}

/* Tries priorities by path with each rule for modes; where power is limited, also with leads; and finally with any mode,
 * in which case tasks that nothing waits for come last and fill gaps. */
static void try_rules(struct local_search *l) {
  static const double leads[] = {0, 0.1, 0.4};
  const struct pz_problem *p = l->c->p;
  bool limited_power = p->capacity[PZ_POWER] > 0;
  prioritise_by_path(l, 0);
  for (int rule = RULE_FASTEST; rule < PZ_MIXES && pz_open(l->c); rule++) {
    choose_modes(l, rule);
    generate(l);
  }
  if (limited_power) {
    choose_modes(l, RULE_SAVE_POWER);
    for (size_t i = 0; i < sizeof leads / sizeof *leads && pz_open(l->c); i++) {
      prioritise_by_path(l, leads[i]);
      generate(l);
    }
    speed_up_tasks(l);
  }
  if (!pz_open(l->c)) return;
  for (uint32_t i = 0; i < p->n; i++) l->mode[i] = ANY_MODE;
  prioritise_by_path(l, 0);
  generate(l);
  if (l->c->o->justification) justify(l);
}

/* ---- moves ---------------------------------------------------------------------------------- */

/* Another mode that a better schedule can have.  Modes are in the order of their size, and mostly a neighbour is drawn;
 * half of the time a mode is drawn by its share in the linear program. */
static uint32_t another_mode(struct local_search *l, uint32_t t) {
  const struct pz_context *c = l->c;
  const bool *eliminated = &c->eliminated[c->mode_at[t]];
  uint32_t list[MAX_MODES], alive = 0, at = 0;
  for (uint32_t m = 0; m < c->p->tasks[t].n_modes && alive < MAX_MODES; m++) {
    if (eliminated[m]) continue;
    if (m <= l->mode[t]) at = alive;
    list[alive++] = m;
  }
  if (alive < 2) return alive ? list[0] : l->mode[t];
  if (draw(l, 2)) {
    double rest = draw(l, 1000) / 1000.0;
    for (uint32_t k = 0; k < alive; k++) {
      rest -= c->lp_share[c->mode_at[t] + list[k]];
      if (rest < 0) return list[k];
    }
  }
  if (draw(l, 3) == 0) return list[(at + 1 + draw(l, alive - 1)) % alive];
  bool next = at == 0 || (at + 1 < alive && draw(l, 2));
  return next ? list[at + 1] : list[at - 1];
}

/* Makes one move: another mode for a task, or a priority next to that of another task.  A mode is sometimes changed for
 * all tasks with the same modes: three GEMMs fit beside each other on a third of the cores each, but two on a third and
 * one on all cores do not. */
static void move(struct local_search *l) {
  const struct pz_problem *p = l->c->p;
  uint32_t t = draw(l, p->n);
  if (p->tasks[t].n_modes > 1 && draw(l, 2)) {
    uint32_t mode = another_mode(l, t);
    bool all_alike = draw(l, 3) == 0;
    for (uint32_t i = 0; i < p->n; i++)
      if (i == t || (all_alike && l->same_modes[i] == l->same_modes[t])) l->mode[i] = mode;
    if (draw(l, 2)) return;
  }
  uint32_t other = draw(l, p->n);
  double distance = 1e-6 * l->c->scale * (1 + draw(l, 1000)) / 1000;
  l->priority[t] = l->priority[other] + (draw(l, 2) ? distance : -distance);
}

/* Draws modes and priorities at random. */
static void choose_randomly(struct local_search *l) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    l->mode[i] = l->c->best[i].mode;
    if (draw(l, 2)) l->mode[i] = another_mode(l, i);
    l->priority[i] = (l->c->tail_s[i] + l->c->least_s[i]) * (1 + draw(l, 1000) / 1000.0);
  }
}

static void save_choice(struct local_search *l) {
  memcpy(l->saved_mode, l->mode, l->c->p->n * sizeof *l->mode);
  memcpy(l->saved_priority, l->priority, l->c->p->n * sizeof *l->priority);
}

static void restore_choice(struct local_search *l) {
  memcpy(l->mode, l->saved_mode, l->c->p->n * sizeof *l->mode);
  memcpy(l->priority, l->saved_priority, l->c->p->n * sizeof *l->priority);
}

/* Threshold accepting: a move is kept unless it is worse by more than a shrinking fraction of the makespan. */
static void anneal(struct local_search *l, int64_t until, bool from_random) {
  struct pz_context *c = l->c;
  if (from_random)
    choose_randomly(l);
  else
    choose_incumbent(l);
  double now = generate(l);
  int64_t begin = c->steps;
  while (c->steps < until && pz_open(c)) {
    double left = (double)(until - c->steps) / (double)(until - begin);
    save_choice(l);
    for (uint32_t n = 1 + draw(l, 3); n > 0; n--) move(l);
    double next = generate(l);
    bool may_justify = c->o->justification && next <= JUSTIFY_WITHIN * now;
    if (may_justify && draw(l, 4) == 0) next = justify(l);
    if (next <= now + THRESHOLD * left * left * c->best_s * draw(l, 1000) / 1000)
      now = next;
    else
      restore_choice(l);
  }
}

/* ---- the search ----------------------------------------------------------------------------- */

/* The first incumbent of a problem of any size: tasks one after another in topological order, each in its fastest mode. */
static void schedule_in_sequence(struct pz_context *c, struct pz_slot *slots) {
  double t = 0;
  for (uint32_t i = 0; i < c->p->n; i++) {
    uint32_t m = fastest_mode(&c->p->tasks[i]);
    slots[i] = (struct pz_slot){t, t + c->p->tasks[i].modes[m].s, m};
    t = slots[i].end;
  }
  c->steps += c->p->n;
  pz_update_incumbent(c, slots, t, PZ_T_NONE);
}

static void run_passes(struct local_search *l, int64_t end, bool is_long) {
  struct pz_context *c = l->c;
  int64_t passes = is_long ? PASSES_LONG : PASSES_SHORT, from = c->steps;
  l->credit = PZ_T_local_search;
  for (int64_t pass = 1; pass <= passes && pz_open(c); pass++) {
    bool from_random = is_long && pass % 3 != 0;
    l->backward = pass % 2 == 0;
    anneal(l, c->steps + (end - c->steps) / (passes + 1 - pass), from_random);
  }
  c->count[PZ_T_local_search].calls++;
  c->count[PZ_T_local_search].steps += c->steps - from;
}

void pz_local_search(struct pz_call *call, struct pz_context *c, int64_t steps) {
  static const int list_rules[] = {RULE_FASTEST, 0, 1, 5}; /* for large problems */
  struct pz_call scratch = pz_scratch(call);
  struct local_search l = begin_local_search(&scratch, c);
  bool first = c->best_s >= DBL_MAX;
  if (first) schedule_in_sequence(c, l.slots);
  if (c->p->n > PZ_LOCAL_MOST_TASKS) {
    for (size_t k = 0; k < sizeof list_rules / sizeof *list_rules; k++) {
      choose_modes(&l, list_rules[k]);
      pz_list_schedule(&scratch, c, l.mode);
    }
  } else if (c->p->n) {
    int64_t end = c->steps + steps;
    l.random = (uint64_t)(SEED + steps);
    if (first) try_rules(&l);
    if (c->o->local_search && pz_open(c)) run_passes(&l, end, steps >= LONG_STEPS);
  }
  pz_scratch_end(&scratch);
}

struct serial_schedule {
  struct pz_context *c;
  const uint32_t *mode;
  const double *priority;
  double makespan;
};

static void schedule_serially(struct pz_call *call, void *ctx) {
  struct serial_schedule *s = ctx;
  struct local_search l = begin_local_search(call, s->c);
  memcpy(l.mode, s->mode, s->c->p->n * sizeof *s->mode);
  memcpy(l.priority, s->priority, s->c->p->n * sizeof *s->priority);
  l.credit = PZ_T_lp_rounding;
  s->makespan = generate(&l);
}

double pz_serial_schedule(struct pz_context *c, const uint32_t *mode, const double *priority) {
  struct serial_schedule s = {c, mode, priority, DBL_MAX};
  if (c->p->n > PZ_LOCAL_MOST_TASKS) return DBL_MAX;
  return pz_border(schedule_serially, &s, NULL) == PZ_OK ? s.makespan : DBL_MAX;
}

static void left_shift_incumbent(struct pz_call *call, void *ctx) {
  struct pz_context *c = ctx;
  struct local_search l = begin_local_search(call, c);
  choose_incumbent(&l);
  if (generate(&l) <= c->best_s && milestones_fit(&l))
    memcpy(c->best, l.slots, c->p->n * sizeof *l.slots);
}

void pz_left_shift_incumbent(struct pz_context *c) {
  int64_t steps = c->steps;
  if (!c->p->n || c->p->n > PZ_LOCAL_MOST_TASKS) return;
  /* without memory the incumbent stays as it is */
  enum pz_status status = pz_border(left_shift_incumbent, c, NULL);
  (void)status;
  c->steps = steps;
}
