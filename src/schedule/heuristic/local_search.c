/* Heuristic schedules: serial list scheduling from a priority and a mode per task, and a local
 * search over both.  Problems too large for it get a few list schedules.  Serial list scheduling
 * and its backward pass: Kolisch 1996; threshold accepting: Dueck and Scheuer 1990. */
#include "schedule/heuristic/local_search.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/num.h"
#include "schedule/model/profile.h"

enum {
  MOST_MODES = 64,
  SEED = 20240721,    /* of the random numbers */
  TASKS_PER_STEP = 4, /* placed in one step */
  /* tuned, as solve.c says */
  LONG = 50000,     /* steps from which a search is long */
  PASSES_SHORT = 4, /* of a short one, all from the incumbent */
  PASSES_LONG = 12  /* of a long one, two in three from elsewhere */
};
/* Tuned: the first threshold, as a part of the makespan; schedules up to this factor above the
 * current one may be justified. */
static const double THRESHOLD = 0.03, JUSTIFY_WITHIN = 1.05;

static const uint32_t ANY = PZ_NONE; /* a mode: that in which the task ends first */

struct local {
  struct pz_context *c;
  struct pz_profile profile;
  struct pz_slot *slots;
  double *priority, *kept_priority;
  uint32_t *mode, *kept_mode, *ready, *waits;
  uint32_t *same_modes; /* by task: the first of those with the same modes */
  uint64_t random;
  enum pz_technique by; /* to whom an incumbent is credited */
  bool backward;        /* from the end: successors first, times counted back */
};

static bool begin(struct local *l, struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *l = (struct local){.c = c, .by = PZ_T_NONE};
  if (!PZ_ARRAY(arena, l->slots, n) || !PZ_ARRAY(arena, l->priority, n) ||
      !PZ_ARRAY(arena, l->kept_priority, n) || !PZ_ARRAY(arena, l->mode, n) ||
      !PZ_ARRAY(arena, l->kept_mode, n) || !PZ_ARRAY(arena, l->same_modes, n) ||
      !PZ_ARRAY(arena, l->ready, n) || !PZ_ARRAY(arena, l->waits, n))
    return false;
  for (uint32_t i = 0; i < n && n <= PZ_LOCAL_MOST_TASKS; i++)
    while (!pz_same_modes(&c->p->tasks[l->same_modes[i]], &c->p->tasks[i])) l->same_modes[i]++;
  return pz_profile_init(&l->profile, c->p, arena);
}

static uint32_t draw(struct local *l, uint32_t n) {
  uint32_t drawn = pz_random_lcg(&l->random);
  return n ? drawn % n : 0;
}

/* What must be placed before a task, and what waits for it. */
struct neighbours {
  const uint32_t *list;
  uint32_t n;
};

static struct neighbours neighbours_of(const struct local *l, uint32_t t, bool after) {
  const struct pz_task *k = &l->c->p->tasks[t];
  return l->backward != after ? (struct neighbours){k->succ, k->n_succ}
                              : (struct neighbours){k->pred, k->n_pred};
}

static struct pz_slot earliest(const struct local *l, uint32_t t, double ready, uint32_t mode) {
  const struct pz_mode *m = &l->c->p->tasks[t].modes[mode];
  double start = pz_profile_earliest(&l->profile, ready, m);
  return (struct pz_slot){start, start + m->s, mode};
}

static struct pz_slot earliest_of_any(const struct local *l, uint32_t t, double ready) {
  const struct pz_task *task = &l->c->p->tasks[t];
  struct pz_slot best = {0, DBL_MAX, 0};
  for (uint32_t m = task->n_modes; m-- > 0;) {
    if (ready + task->modes[m].s >= best.end) continue;
    struct pz_slot slot = earliest(l, t, ready, m);
    if (slot.end < best.end) best = slot;
  }
  return best;
}

static void place(struct local *l, uint32_t t) {
  double ready = 0;
  struct neighbours b = neighbours_of(l, t, false);
  for (uint32_t k = 0; k < b.n; k++) ready = fmax(ready, l->slots[b.list[k]].end);
  struct pz_slot slot =
      l->mode[t] == ANY ? earliest_of_any(l, t, ready) : earliest(l, t, ready, l->mode[t]);
  l->slots[t] = slot;
  pz_profile_occupy(&l->profile, slot.start, &l->c->p->tasks[t].modes[slot.mode]);
}

/* Do the milestones still fit at their instants, after all others were placed? */
static bool milestones_fit(const struct local *l) {
  const struct pz_problem *p = l->c->p;
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_mode *m = &p->tasks[i].modes[l->slots[i].mode];
    int32_t residual[PZ_RESOURCES];
    if (m->s > 0) continue;
    memcpy(residual, p->capacity, sizeof residual);
    for (uint32_t k = 0; k < p->n; k++)
      for (int r = 0; r < PZ_RESOURCES; r++)
        if (l->slots[k].start < l->slots[i].start && l->slots[k].end > l->slots[i].start)
          residual[r] -= p->tasks[k].modes[l->slots[k].mode].use[r];
    if (!pz_mode_fits(residual, m)) return false;
  }
  return true;
}

/* Times from the end become times from the beginning. */
static void reverse(struct local *l, double makespan) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    struct pz_slot *s = &l->slots[i];
    double start = makespan - s->end;
    s->end = makespan - s->start;
    s->start = start > 0 ? start : 0;
  }
}

/* Place all tasks: among the ready ones the one of highest priority first. */
static double generate(struct local *l) {
  const struct pz_problem *p = l->c->p;
  uint32_t n_ready = 0;
  double makespan = 0;
  bool refused = false;
  pz_profile_clear(&l->profile);
  for (uint32_t i = 0; i < p->n; i++) {
    l->waits[i] = neighbours_of(l, i, false).n;
    if (!l->waits[i]) l->ready[n_ready++] = i;
  }
  while (n_ready) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n_ready; i++)
      if (l->priority[l->ready[i]] > l->priority[l->ready[best]]) best = i;
    uint32_t t = l->ready[best];
    l->ready[best] = l->ready[--n_ready];
    place(l, t);
    makespan = fmax(makespan, l->slots[t].end);
    struct neighbours a = neighbours_of(l, t, true);
    for (uint32_t k = 0; k < a.n; k++)
      if (--l->waits[a.list[k]] == 0) l->ready[n_ready++] = a.list[k];
  }
  l->c->steps += p->n / TASKS_PER_STEP + 1;
  if (pz_better(l->c, makespan, l->c->best_s)) {
    if (l->backward) reverse(l, makespan);
    if (milestones_fit(l))
      pz_update_incumbent(l->c, l->slots, makespan, l->by);
    else
      refused = true;
    if (l->backward) reverse(l, makespan);
  }
  return refused ? DBL_MAX : makespan;
}

/* Forward-backward improvement (justification: Valls, Ballestin and Quintanilla 2005): the schedule
 * from its other end, tasks that ended last first, and once more.  The priorities become its
 * order. */
static double justify(struct local *l) {
  double makespan = 0;
  int64_t from = l->c->steps;
  enum pz_technique by = l->by;
  l->by = PZ_T_justification;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < l->c->p->n; i++) l->priority[i] = l->slots[i].end;
    l->backward = !l->backward;
    makespan = generate(l);
  }
  for (uint32_t i = 0; i < l->c->p->n; i++) l->priority[i] = -l->slots[i].start;
  l->by = by;
  l->c->count[PZ_T_justification].calls++;
  l->c->count[PZ_T_justification].steps += l->c->steps - from;
  return makespan;
}

/* The mode of least energy by a surrogate resource. */
static uint32_t least_work_mode(const struct pz_context *c, uint32_t t, int mix) {
  const struct pz_task *task = &c->p->tasks[t];
  uint32_t best = 0;
  double least = DBL_MAX;
  for (uint32_t m = 0; m < task->n_modes; m++) {
    double w = pz_mode_share(c, &task->modes[m], mix) * task->modes[m].s;
    if (w < least) least = w, best = m;
  }
  return best;
}

static uint32_t fastest(const struct pz_task *t) {
  uint32_t best = 0;
  for (uint32_t m = 1; m < t->n_modes; m++)
    if (t->modes[m].s < t->modes[best].s) best = m;
  return best;
}

/* Of the watts tasks leave so much to collectives beside them: those whose fastest mode takes most of them hold all but
 * that, the others that. */
enum { LEFT_WATTS = PZ_RATE_PARTS / 16 };

static uint32_t within_watts(const struct pz_problem *p, uint32_t t) {
  const struct pz_task *task = &p->tasks[t];
  uint32_t best = fastest(task);
  int32_t all = p->capacity[PZ_POWER],
          most = task->modes[best].use[PZ_POWER] > all / 2 ? all - LEFT_WATTS : LEFT_WATTS;
  double least = DBL_MAX;
  for (uint32_t m = 0; m < task->n_modes; m++)
    if (task->modes[m].use[PZ_POWER] <= most && task->modes[m].s < least)
      best = m, least = task->modes[m].s;
  return best;
}

/* The fastest, or that of least energy by a surrogate resource, or the fastest that leaves watts to others. */
static void choose_modes(struct local *l, int way) {
  const struct pz_problem *p = l->c->p;
  for (uint32_t i = 0; i < p->n; i++)
    l->mode[i] = way < 0          ? fastest(&p->tasks[i])
                 : way < PZ_MIXES ? least_work_mode(l->c, i, way)
                                  : within_watts(p, i);
}

/* The longest path to the end comes first, and what stands earlier in the list by so much of the makespan: of two halves of a
 * microbatch the first leads, and one computes while the other's collectives run. */
static void lead(struct local *l, double part) {
  const struct pz_context *c = l->c;
  double all = part > 0 ? part * c->best_s : 0, n = (double)c->p->n;
  for (uint32_t i = 0; i < c->p->n; i++)
    l->priority[i] = c->tail_s[i] + c->least_s[i] + all * (1 - (double)c->p->tasks[i].id / n);
}

static void adopt_best(struct local *l) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    l->mode[i] = l->c->best[i].mode;
    l->priority[i] = l->backward ? l->c->best[i].end : -l->c->best[i].start;
  }
}

/* The best schedule with tasks in their fastest modes, one by one, where it becomes no longer. */
static void raise_modes(struct local *l) {
  const struct pz_problem *p = l->c->p;
  adopt_best(l);
  double now = l->c->best_s;
  for (uint32_t i = 0; i < p->n && pz_open(l->c); i++) {
    uint32_t before = l->mode[i], most = fastest(&p->tasks[i]);
    if (before == most || p->tasks[i].modes[before].s == p->tasks[i].modes[most].s) continue;
    l->mode[i] = most;
    double next = generate(l);
    if (next <= now)
      now = next;
    else
      l->mode[i] = before;
  }
}

/* The start: priorities by the longest path to the end, modes all fast, or all of least energy, or
 * any: what nothing waits for comes last and fills gaps. */
static void first_tries(struct local *l) {
  static const double leads[] = {0, 0.1, 0.4};
  const struct pz_problem *p = l->c->p;
  bool watts = p->capacity[PZ_POWER] > 0;
  lead(l, 0);
  for (int way = -1; way < PZ_MIXES && pz_open(l->c); way++) {
    choose_modes(l, way);
    generate(l);
  }
  choose_modes(l, PZ_MIXES);
  for (size_t i = 0; watts && i < sizeof leads / sizeof *leads && pz_open(l->c); i++) {
    lead(l, leads[i]);
    generate(l);
  }
  if (watts) raise_modes(l);
  if (!pz_open(l->c)) return;
  for (uint32_t i = 0; i < p->n; i++) l->mode[i] = ANY;
  lead(l, 0);
  generate(l);
  if (l->c->o->justification) justify(l);
}

double pz_serial_schedule(struct pz_context *c, const uint32_t *mode, const double *priority) {
  struct pz_arena arena;
  struct local l;
  double makespan = DBL_MAX;
  pz_arena_init(&arena, c->arena->mem);
  if (c->p->n <= PZ_LOCAL_MOST_TASKS && begin(&l, c, &arena)) {
    memcpy(l.mode, mode, c->p->n * sizeof *mode);
    memcpy(l.priority, priority, c->p->n * sizeof *priority);
    l.by = PZ_T_lp_rounding;
    makespan = generate(&l);
  }
  pz_arena_release(&arena);
  return makespan;
}

void pz_left_shift_incumbent(struct pz_context *c) {
  struct pz_arena arena;
  struct local l;
  pz_arena_init(&arena, c->arena->mem);
  int64_t steps = c->steps;
  if (c->p->n && c->p->n <= PZ_LOCAL_MOST_TASKS && begin(&l, c, &arena)) {
    adopt_best(&l);
    if (generate(&l) <= c->best_s && milestones_fit(&l))
      memcpy(c->best, l.slots, c->p->n * sizeof *l.slots);
  }
  c->steps = steps;
  pz_arena_release(&arena);
}

/* Another mode, of those a better schedule can have; mostly a neighbour, for modes stand in the
 * order of their size. */
static uint32_t another_mode(struct local *l, uint32_t t) {
  const struct pz_context *c = l->c;
  const bool *eliminated = &c->eliminated[c->mode_at[t]];
  uint32_t n = c->p->tasks[t].n_modes, list[MOST_MODES], alive = 0, at = 0;
  for (uint32_t m = 0; m < n && alive < MOST_MODES; m++) {
    if (eliminated[m]) continue;
    if (m <= l->mode[t]) at = alive;
    list[alive++] = m;
  }
  if (alive < 2) return alive ? list[0] : l->mode[t];
  if (draw(l, 2)) { /* one a relaxation has */
    double rest = draw(l, 1000) / 1000.0;
    for (uint32_t k = 0; k < alive; k++)
      if ((rest -= c->lp_share[c->mode_at[t] + list[k]]) < 0) return list[k];
  }
  if (draw(l, 3) == 0) return list[(at + 1 + draw(l, alive - 1)) % alive];
  return at == 0 || (at + 1 < alive && draw(l, 2)) ? list[at + 1] : list[at - 1];
}

/* One move: another mode for a task, at times for all that are like it (three products fit beside
 * each other on a third of the cores each, two on a third and one on all do not), or a priority
 * next to another's. */
static void change(struct local *l) {
  const struct pz_problem *p = l->c->p;
  uint32_t t = draw(l, p->n);
  if (p->tasks[t].n_modes > 1 && draw(l, 2)) {
    uint32_t mode = another_mode(l, t);
    bool all = draw(l, 3) == 0;
    for (uint32_t i = 0; i < p->n; i++)
      if (i == t || (all && l->same_modes[i] == l->same_modes[t])) l->mode[i] = mode;
    if (draw(l, 2)) return;
  }
  uint32_t other = draw(l, p->n);
  double step = 1e-6 * l->c->scale * (1 + draw(l, 1000)) / 1000;
  l->priority[t] = l->priority[other] + (draw(l, 2) ? step : -step);
}

static void copy_choice(const struct local *l, uint32_t *mode_to, double *priority_to,
                        const uint32_t *mode, const double *priority) {
  memcpy(mode_to, mode, l->c->p->n * sizeof *mode);
  memcpy(priority_to, priority, l->c->p->n * sizeof *priority);
}

/* Somewhere else: modes and priorities by chance. */
static void scatter(struct local *l) {
  for (uint32_t i = 0; i < l->c->p->n; i++) {
    l->mode[i] = l->c->best[i].mode;
    if (draw(l, 2)) l->mode[i] = another_mode(l, i);
    l->priority[i] = (l->c->tail_s[i] + l->c->least_s[i]) * (1 + draw(l, 1000) / 1000.0);
  }
}

/* Threshold accepting: worse by a shrinking part of the makespan will do. */
static void anneal(struct local *l, int64_t until, bool afresh) {
  struct pz_context *c = l->c;
  if (afresh)
    scatter(l);
  else
    adopt_best(l);
  double now = generate(l);
  int64_t begin = c->steps;
  while (c->steps < until && pz_open(c)) {
    double left = (double)(until - c->steps) / (double)(until - begin);
    copy_choice(l, l->kept_mode, l->kept_priority, l->mode, l->priority);
    for (uint32_t n = 1 + draw(l, 3); n > 0; n--) change(l);
    double next = generate(l);
    if (c->o->justification && next <= JUSTIFY_WITHIN * now && draw(l, 4) == 0) next = justify(l);
    if (next <= now + THRESHOLD * left * left * c->best_s * draw(l, 1000) / 1000) {
      now = next;
      continue;
    }
    copy_choice(l, l->mode, l->priority, l->kept_mode, l->kept_priority);
  }
}

/* ---- large problems -------------------------------------------------------------------------- */

/* One after another in topological order, each in its fastest mode: valid for any size. */
static void in_sequence(struct pz_context *c, struct pz_slot *slots) {
  double t = 0;
  for (uint32_t i = 0; i < c->p->n; i++) {
    uint32_t m = fastest(&c->p->tasks[i]);
    slots[i] = (struct pz_slot){t, t + c->p->tasks[i].modes[m].s, m};
    t = slots[i].end;
  }
  c->steps += c->p->n;
  pz_update_incumbent(c, slots, t, PZ_T_NONE);
}

static enum pz_status list_schedules(struct local *l, struct pz_error *err) {
  static const int ways[] = {-1, 0, 1, 5}; /* fastest, or least energy by these mixes */
  enum pz_status status = PZ_OK;
  for (size_t k = 0; k < sizeof ways / sizeof *ways && status == PZ_OK; k++) {
    choose_modes(l, ways[k]);
    status = pz_list_schedule(l->c, l->mode, err);
  }
  return status;
}

/* ---- the search ------------------------------------------------------------------------------ */

static void search(struct local *l, int64_t steps, bool first) {
  struct pz_context *c = l->c;
  int64_t end = c->steps + steps;
  l->random = (uint64_t)(SEED + steps);
  if (first) first_tries(l);
  if (!c->o->local_search || !pz_open(c)) return;
  bool longer = steps >= LONG; /* of many passes two in three begin elsewhere */
  int64_t passes = longer ? PASSES_LONG : PASSES_SHORT, from = c->steps;
  l->by = PZ_T_local_search;
  for (int64_t pass = 1; pass <= passes && pz_open(c); pass++) {
    l->backward = pass % 2 == 0;
    anneal(l, c->steps + (end - c->steps) / (passes + 1 - pass), longer && pass % 3 != 0);
  }
  c->count[PZ_T_local_search].calls++;
  c->count[PZ_T_local_search].steps += c->steps - from;
}

enum pz_status pz_local_search(struct pz_context *c, int64_t steps, struct pz_error *err) {
  struct pz_arena arena;
  struct local l;
  enum pz_status status = PZ_OK;
  pz_arena_init(&arena, c->arena->mem);
  if (!begin(&l, c, &arena)) status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  bool first = c->best_s >= DBL_MAX;
  if (status == PZ_OK && first) in_sequence(c, l.slots);
  if (status == PZ_OK && c->p->n > PZ_LOCAL_MOST_TASKS)
    status = list_schedules(&l, err);
  else if (status == PZ_OK && c->p->n)
    search(&l, steps, first);
  pz_arena_release(&arena);
  return status;
}
