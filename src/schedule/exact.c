/* Exact search: branch and bound over schedules in order of time.
 *
 * A node stands at a time t with some tasks finished and some running.  It branches on the next
 * task to start at t (and its mode), or on going on to the next end.  Pruned are: nodes whose bound
 * is not below the incumbent; starts that could have been made at the time before (left shift);
 * orders of starts at the same time but one; nodes that another with the same tasks started
 * dominates, because all its tasks end no later and use no more; and of two twins the start of the
 * one that may wait before the other's.
 *
 * Late tasks, where given, are left out of the tree and put into each complete schedule where there
 * is room.  What is proved is then that no schedule of the others is better than the shortest of
 * them into which the late ones did not fit. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/map.h"
#include "schedule/partial.h"
#include "schedule/profile.h"

enum { MOST_MEMOS = 1 << 20, MOST_BUCKETS = 1 << 16, LOOKS_PER_STEP = 16 };

/* A node seen before, for dominance. */
struct memo {
  struct memo *next;
  struct pz_bits started;
  double t;
  uint32_t wait;
  uint32_t n_running;
  struct pz_running run[];
};

struct exact {
  struct pz_growth g;
  struct pz_arena *arena; /* of this search */
  int64_t until;
  char *nodes; /* by depth: struct pz_partial, each of node_bytes */
  size_t node_bytes;
  struct memo **bucket;
  uint32_t n_buckets, n_memos;
  const bool *late; /* by task; NULL: none */
  bool *late_failed;
  double unfit_s; /* the shortest schedule into which they did not fit */
  struct pz_profile profile;
  bool instants; /* some task of no length uses something */
  bool stopped;
};

static struct pz_partial *node_at(const struct exact *x, uint32_t depth) {
  return (struct pz_partial *)(void *)(x->nodes + depth * x->node_bytes);
}

static bool promising(struct exact *x, const struct pz_partial *n) {
  const struct pz_context *c = x->g.c;
  return pz_better(c, pz_partial_price_bound(&x->g, n), c->best_s) &&
         pz_better(c, pz_partial_path_bound(&x->g, n), c->best_s) &&
         pz_better(c, pz_partial_work_bound(&x->g, n), c->best_s);
}

/* ---- dominance ------------------------------------------------------------------------------ */

static bool same_bits(const struct exact *x, const struct pz_bits *a, const struct pz_bits *b) {
  for (int i = 0; i < x->g.words; i++)
    if (a->w[i] != b->w[i]) return false;
  return true;
}

/* True when the node need not be visited; otherwise it is remembered. */
static bool seen_better(struct exact *x, const struct pz_partial *n) {
  struct memo **bucket = &x->bucket[pz_hash(&n->started, sizeof n->started) % x->n_buckets];
  uint32_t looked = 0;
  for (const struct memo *m = *bucket; m; m = m->next, looked++)
    /* a node that waits for this one is no alternative to it */
    if (m->wait != n->wait && same_bits(x, &m->started, &n->started) &&
        pz_partial_dominated(&x->g, n, m->t, m->run, m->n_running))
      return true;
  x->g.c->steps += looked / LOOKS_PER_STEP;
  if (x->n_memos >= MOST_MEMOS) return false;
  struct memo *m = pz_arena_alloc(x->arena, 1, sizeof *m + n->n_running * sizeof *m->run);
  if (!m) return false; /* remembering less costs time, not correctness */
  *m = (struct memo){.next = *bucket,
                     .started = n->started,
                     .t = n->t,
                     .wait = n->wait,
                     .n_running = n->n_running};
  memcpy(m->run, n->run, n->n_running * sizeof *m->run);
  *bucket = m;
  x->n_memos++;
  return false;
}

/* ---- late tasks ----------------------------------------------------------------------------- */

static double busy(const struct exact *x, const struct pz_mode *m) {
  double sum = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r]) sum += (double)m->use[r] / (double)x->g.p->capacity[r];
  return sum * m->s;
}

/* Where it ends within the makespan and keeps least busy; otherwise where it ends first. */
static void put_late(struct exact *x, uint32_t i, double makespan) {
  const struct pz_task *t = &x->g.p->tasks[i];
  struct pz_slot best = {0, DBL_MAX, 0};
  double ready = 0, least = DBL_MAX;
  for (uint32_t k = 0; k < t->n_pred; k++) ready = fmax(ready, x->g.slots[t->pred[k]].end);
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (x->g.c->dropped[x->g.c->mode_at[i] + m]) continue;
    double start = pz_profile_earliest(&x->profile, ready, &t->modes[m]);
    double end = start + t->modes[m].s, b = busy(x, &t->modes[m]);
    if (end <= makespan ? b >= least : end >= best.end) continue;
    if (end <= makespan) least = b;
    best = (struct pz_slot){start, end, m};
  }
  x->g.slots[i] = best;
  pz_profile_occupy(&x->profile, best.start, &t->modes[best.mode]);
}

static double put_all_late(struct exact *x, double makespan) {
  double end = makespan;
  pz_profile_clear(&x->profile);
  for (uint32_t i = 0; i < x->g.p->n; i++)
    if (!x->late[i])
      pz_profile_occupy(&x->profile, x->g.slots[i].start,
                        &x->g.p->tasks[i].modes[x->g.slots[i].mode]);
  for (uint32_t i = 0; i < x->g.p->n; i++) {
    if (!x->late[i]) continue;
    put_late(x, i, makespan);
    end = fmax(end, x->g.slots[i].end);
    if (x->g.slots[i].end > makespan) x->late_failed[i] = true;
  }
  if (end > makespan) x->unfit_s = fmin(x->unfit_s, makespan);
  return end;
}

/* ---- the tree ------------------------------------------------------------------------------- */

static void complete(struct exact *x, const struct pz_partial *n) {
  double makespan = pz_partial_end(n);
  if (!pz_better(x->g.c, makespan, x->g.c->best_s)) return;
  if (x->late) makespan = put_all_late(x, makespan);
  pz_context_offer(x->g.c, x->g.slots, makespan);
}

/* Could the task have been started at the time before, through to now?  Then a schedule in which it
 * was is as good, unless a task of no length wants the room at this instant. */
static bool left_shifts(const struct pz_partial *n, uint32_t i, const struct pz_mode *m) {
  return n->t > n->t_before && pz_bits_has(&n->could_before, i) && pz_mode_fits(n->free_before, m);
}

static void visit(struct exact *x, uint32_t depth);

static void visit_starts(struct exact *x, uint32_t depth) {
  const struct pz_partial *n = node_at(x, depth);
  const struct pz_context *c = x->g.c;
  uint32_t first = n->last_rank == PZ_NONE ? 0 : n->last_rank + 1;
  for (uint32_t k = first; k < c->p->n && !x->stopped; k++) {
    uint32_t i = x->g.by_path[k];
    if (!pz_partial_eligible(&x->g, n, i)) continue;
    const struct pz_task *t = &c->p->tasks[i];
    for (uint32_t m = 0; m < t->n_modes && !x->stopped; m++) {
      if (c->dropped[c->mode_at[i] + m] || !pz_mode_fits(n->free, &t->modes[m]) ||
          (!x->instants && left_shifts(n, i, &t->modes[m])))
        continue;
      pz_partial_start(&x->g, n, i, m, node_at(x, depth + 1));
      visit(x, depth + 1);
    }
  }
}

static void visit(struct exact *x, uint32_t depth) {
  const struct pz_partial *n = node_at(x, depth);
  if (++x->g.c->steps >= x->until) {
    x->stopped = true;
    return;
  }
  if (pz_partial_complete(&x->g, n)) {
    complete(x, n);
    return;
  }
  if (!promising(x, n)) return;
  if (n->last_rank == PZ_NONE && seen_better(x, n)) return;
  visit_starts(x, depth);
  if (x->stopped || n->n_running == 0) return;
  pz_partial_advance(&x->g, n, node_at(x, depth + 1));
  visit(x, depth + 1);
}

static bool prepare(struct exact *x, struct pz_context *c) {
  uint32_t n = c->p->n;
  x->node_bytes = pz_partial_bytes(n);
  x->nodes = pz_arena_alloc(x->arena, 2 * (size_t)n + 3, x->node_bytes);
  for (x->n_buckets = 64; x->n_buckets < MOST_BUCKETS && x->n_buckets < x->until - c->steps;)
    x->n_buckets *= 2;
  x->bucket = pz_arena_alloc(x->arena, x->n_buckets, sizeof(struct memo *));
  x->late_failed = pz_arena_alloc(x->arena, n, sizeof *x->late_failed);
  for (uint32_t i = 0; i < n; i++) x->instants = x->instants || pz_wants_instant(&c->p->tasks[i]);
  return x->nodes && x->bucket && x->late_failed && pz_profile_init(&x->profile, c->p, x->arena) &&
         pz_growth_init(&x->g, c, x->arena);
}

static void run(struct exact *x) {
  struct pz_context *c = x->g.c;
  pz_partial_begin(&x->g, x->late, node_at(x, 0));
  visit(x, 0);
  if (!x->stopped) pz_context_raise(c, fmin(c->best_s, x->unfit_s));
}

/* And what they wait for. */
static void take_out_failed(const struct exact *x, bool *late) {
  for (uint32_t i = x->g.p->n; i-- > 0;) {
    const struct pz_task *t = &x->g.p->tasks[i];
    if (x->late_failed[i]) late[i] = false;
    for (uint32_t k = 0; k < t->n_succ; k++)
      if (!late[t->succ[k]]) late[i] = false;
  }
}

enum pz_status pz_exact_search(struct pz_context *c, int64_t steps, bool *late,
                               struct pz_error *err) {
  if (c->p->n == 0 || c->p->n > PZ_EXACT_MOST_TASKS) return PZ_OK;
  struct pz_arena arena;
  pz_arena_init(&arena, c->arena->mem);
  struct exact x = {.arena = &arena, .until = c->steps + steps, .late = late, .unfit_s = DBL_MAX};
  bool ok = prepare(&x, c);
  if (ok) run(&x);
  if (ok && late) take_out_failed(&x, late);
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule search");
}
