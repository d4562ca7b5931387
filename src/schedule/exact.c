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
#include "schedule/context.h"
#include "schedule/profile.h"

enum {
  WORDS = PZ_EXACT_MOST_TASKS / 64,
  MOST_MEMOS = 1 << 20,
  BUCKETS = 1 << 16,
  LOOKS_PER_STEP = 16
};

struct bits {
  uint64_t w[WORDS];
};

struct running {
  uint32_t task, mode;
  double end;
};

struct node {
  struct bits started, finished;
  double t;
  int32_t free[PZ_RESOURCES];
  /* of the interval that ended at t */
  double t_before;
  int32_t free_before[PZ_RESOURCES];
  struct bits could_before;    /* tasks that were eligible at its beginning */
  double left[PZ_MOST_PRICES]; /* priced time of what has not started */
  uint32_t last_rank;          /* of the last task started at t, or PZ_NONE */
  uint32_t wait;               /* nodes of one wait share this: time goes on, nothing starts */
  uint32_t n_running;
  struct running run[PZ_EXACT_MOST_TASKS];
};

/* A node seen before, for dominance. */
struct memo {
  struct memo *next;
  struct bits started;
  double t;
  uint32_t wait;
  uint32_t n_running;
  struct running run[];
};

struct exact {
  struct pz_context *c;
  const struct pz_problem *p;
  struct pz_arena *arena; /* of this search */
  int64_t until;
  struct node *nodes; /* by depth */
  struct pz_slot *slots;
  uint32_t *by_tail; /* tasks, longest tail first: for bounds */
  uint32_t *by_path; /* longest tail with the task itself first: the order of branching */
  uint32_t *rank;    /* in by_path */
  double *est;
  struct bits *twins; /* by task: those that start no later */
  bool *late;         /* by task; NULL: none.  Those that did not fit are taken out at the end */
  bool *late_failed;
  double unfit_s; /* the shortest schedule into which they did not fit */
  struct pz_profile profile;
  int mixes[PZ_MIXES], n_mixes;
  struct memo **bucket;
  uint32_t n_memos, n_waits;
  int words;
  bool stopped;
};

/* All but the part of run that is not used. */
static void copy_node(struct node *to, const struct node *from) {
  memcpy(to, from, offsetof(struct node, run) + from->n_running * sizeof *from->run);
}

static bool has(const struct bits *b, uint32_t i) { return b->w[i / 64] >> (i % 64) & 1; }
static void set(struct bits *b, uint32_t i) { b->w[i / 64] |= UINT64_C(1) << (i % 64); }

static bool same_bits(const struct exact *x, const struct bits *a, const struct bits *b) {
  for (int i = 0; i < x->words; i++)
    if (a->w[i] != b->w[i]) return false;
  return true;
}

/* ---- bounds --------------------------------------------------------------------------------- */

static double path_bound(struct exact *x, const struct node *n) {
  const struct pz_context *c = x->c;
  double bound = n->t;
  for (uint32_t i = 0; i < n->n_running; i++) {
    x->est[n->run[i].task] = n->run[i].end;
    bound = fmax(bound, n->run[i].end + c->tail_s[n->run[i].task]);
  }
  for (uint32_t i = 0; i < x->p->n; i++) {
    if (has(&n->started, i)) continue;
    const struct pz_task *t = &x->p->tasks[i];
    double start = n->t;
    for (uint32_t k = 0; k < t->n_pred; k++)
      if (!has(&n->finished, t->pred[k])) start = fmax(start, x->est[t->pred[k]]);
    x->est[i] = start + c->least_s[i];
    bound = fmax(bound, x->est[i] + c->tail_s[i]);
  }
  return bound;
}

/* For every tail: the work that still has it behind, on top of it. */
static double work_bound(const struct exact *x, const struct node *n) {
  const struct pz_context *c = x->c;
  double sum[PZ_MIXES] = {0}, bound = 0;
  double left[PZ_EXACT_MOST_TASKS];
  for (uint32_t i = 0; i < n->n_running; i++) left[n->run[i].task] = n->run[i].end - n->t;
  for (uint32_t i = 0; i < x->p->n; i++) {
    uint32_t t = x->by_tail[i];
    if (has(&n->finished, t)) continue;
    bool runs = has(&n->started, t);
    const struct pz_mode *m = runs ? &x->p->tasks[t].modes[x->slots[t].mode] : NULL;
    double most = 0;
    for (int k = 0; k < x->n_mixes; k++) {
      int mix = x->mixes[k];
      double w = runs ? 0 : c->work[t][mix];
      for (int r = 0; runs && r < PZ_RESOURCES; r++)
        if (m->use[r]) w += c->mix[mix][r] * m->use[r] / x->p->capacity[r] * left[t];
      sum[k] += w;
      most = fmax(most, sum[k]);
    }
    bound = fmax(bound, most + c->tail_s[t]);
  }
  return n->t + bound;
}

/* At the prices of a relaxation: what runs and what is left. */
static double price_bound(const struct exact *x, const struct node *n) {
  const struct pz_context *c = x->c;
  double bound = 0;
  for (int k = 0; k < c->n_prices; k++) {
    double sum = n->left[k];
    for (uint32_t i = 0; i < n->n_running; i++) {
      const struct running *r = &n->run[i];
      sum += c->prices[k].rate[c->mode_at[r->task] + r->mode] * (r->end - n->t);
    }
    bound = fmax(bound, sum);
  }
  return n->t + bound;
}

static bool promising(struct exact *x, const struct node *n) {
  const struct pz_context *c = x->c;
  return pz_better(c, price_bound(x, n), c->best_s) && pz_better(c, path_bound(x, n), c->best_s) &&
         pz_better(c, work_bound(x, n), c->best_s);
}

/* ---- dominance ------------------------------------------------------------------------------ */

/* Is everything in `m` done no later than in `n`, with no more in use? */
static bool dominated_by(const struct exact *x, const struct memo *m, const struct node *n) {
  if (m->t > n->t + 1e-12 * x->c->scale) return false;
  for (uint32_t i = 0; i < m->n_running; i++) {
    if (m->run[i].end <= n->t) continue;
    const struct running *same = NULL;
    for (uint32_t k = 0; k < n->n_running && !same; k++)
      if (n->run[k].task == m->run[i].task) same = &n->run[k];
    if (!same || m->run[i].end > same->end) return false;
    const struct pz_task *t = &x->p->tasks[same->task];
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (t->modes[m->run[i].mode].use[r] > t->modes[same->mode].use[r]) return false;
  }
  return true;
}

/* True when the node need not be visited; otherwise it is remembered. */
static bool seen_better(struct exact *x, const struct node *n) {
  struct memo **bucket = &x->bucket[pz_hash(&n->started, sizeof n->started) % BUCKETS];
  uint32_t looked = 0;
  for (const struct memo *m = *bucket; m; m = m->next, looked++)
    /* a node that waits for this one is no alternative to it */
    if (m->wait != n->wait && same_bits(x, &m->started, &n->started) && dominated_by(x, m, n))
      return true;
  x->c->steps += looked / LOOKS_PER_STEP;
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

/* ---- moves ---------------------------------------------------------------------------------- */

static bool eligible(const struct exact *x, const struct node *n, uint32_t i) {
  const struct pz_task *t = &x->p->tasks[i];
  if (has(&n->started, i)) return false;
  for (int w = 0; w < x->words; w++)
    if (x->twins[i].w[w] & ~n->started.w[w]) return false;
  for (uint32_t k = 0; k < t->n_pred; k++)
    if (!has(&n->finished, t->pred[k])) return false;
  return true;
}

static bool fits(const int32_t room[PZ_RESOURCES], const struct pz_mode *m) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r] > room[r]) return false;
  return true;
}

/* A task of no length starts and ends as soon as there is room around the instant; that never
 * hurts. */
static void finish_points(struct exact *x, struct node *n) {
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < x->p->n; i++) {
      if (x->c->least_s[i] > 0 || !eligible(x, n, i)) continue;
      const struct pz_task *t = &x->p->tasks[i];
      for (uint32_t m = 0; m < t->n_modes; m++) {
        if (x->c->dropped[x->c->mode_at[i] + m] || t->modes[m].s > 0 ||
            !fits(n->free, &t->modes[m]))
          continue;
        set(&n->started, i);
        set(&n->finished, i);
        for (int k = 0; k < x->c->n_prices; k++) n->left[k] -= x->c->prices[k].least[i];
        x->slots[i] = (struct pz_slot){n->t, n->t, m};
        again = true;
        break;
      }
    }
  }
}

static void start(struct exact *x, const struct node *from, uint32_t i, uint32_t mode,
                  struct node *to) {
  const struct pz_mode *m = &x->p->tasks[i].modes[mode];
  copy_node(to, from);
  set(&to->started, i);
  to->run[to->n_running++] = (struct running){i, mode, from->t + m->s};
  for (int r = 0; r < PZ_RESOURCES; r++) to->free[r] -= m->use[r];
  for (int k = 0; k < x->c->n_prices; k++) to->left[k] -= x->c->prices[k].least[i];
  to->last_rank = x->rank[i];
  x->slots[i] = (struct pz_slot){from->t, from->t + m->s, mode};
}

/* To the next end.  Tasks that end there leave; those of no length go through. */
static void advance(struct exact *x, const struct node *from, struct node *to) {
  double next = DBL_MAX;
  for (uint32_t i = 0; i < from->n_running; i++) next = fmin(next, from->run[i].end);
  double slack = 1e-13 * x->c->scale;
  copy_node(to, from);
  to->t_before = from->t;
  to->t = next;
  to->wait = from->last_rank == PZ_NONE ? from->wait : ++x->n_waits;
  to->last_rank = PZ_NONE;
  to->n_running = 0;
  memcpy(to->free_before, from->free, sizeof to->free);
  for (uint32_t i = 0; i < x->p->n; i++)
    if (eligible(x, from, i)) set(&to->could_before, i);
  for (uint32_t i = 0; i < from->n_running; i++) {
    const struct running *r = &from->run[i];
    if (r->end > next + slack) {
      to->run[to->n_running++] = *r;
      continue;
    }
    set(&to->finished, r->task);
    for (int k = 0; k < PZ_RESOURCES; k++)
      to->free[k] += x->p->tasks[r->task].modes[r->mode].use[k];
  }
  finish_points(x, to);
}

/* Could the task have been started at the time before, through to now? */
static bool left_shifts(const struct node *n, uint32_t i, const struct pz_mode *m) {
  return n->t > n->t_before && has(&n->could_before, i) && fits(n->free_before, m);
}

/* ---- late tasks ----------------------------------------------------------------------------- */

static double busy(const struct exact *x, const struct pz_mode *m) {
  double sum = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (m->use[r]) sum += (double)m->use[r] / (double)x->p->capacity[r];
  return sum * m->s;
}

/* Where it ends within the makespan and keeps least busy; otherwise where it ends first. */
static void put_late(struct exact *x, uint32_t i, double makespan) {
  const struct pz_task *t = &x->p->tasks[i];
  struct pz_slot best = {0, DBL_MAX, 0};
  double ready = 0, least = DBL_MAX;
  for (uint32_t k = 0; k < t->n_pred; k++) ready = fmax(ready, x->slots[t->pred[k]].end);
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (x->c->dropped[x->c->mode_at[i] + m]) continue;
    double start = pz_profile_earliest(&x->profile, ready, &t->modes[m]);
    double end = start + t->modes[m].s, b = busy(x, &t->modes[m]);
    if (end <= makespan ? b >= least : end >= best.end) continue;
    if (end <= makespan) least = b;
    best = (struct pz_slot){start, end, m};
  }
  x->slots[i] = best;
  pz_profile_occupy(&x->profile, best.start, &t->modes[best.mode]);
}

static double put_all_late(struct exact *x, double makespan) {
  double end = makespan;
  pz_profile_clear(&x->profile);
  for (uint32_t i = 0; i < x->p->n; i++)
    if (!x->late[i])
      pz_profile_occupy(&x->profile, x->slots[i].start, &x->p->tasks[i].modes[x->slots[i].mode]);
  for (uint32_t i = 0; i < x->p->n; i++) {
    if (!x->late[i]) continue;
    put_late(x, i, makespan);
    end = fmax(end, x->slots[i].end);
    if (x->slots[i].end > makespan) x->late_failed[i] = true;
  }
  if (end > makespan) x->unfit_s = fmin(x->unfit_s, makespan);
  return end;
}

/* ---- the tree ------------------------------------------------------------------------------- */

static void complete(struct exact *x, const struct node *n) {
  double makespan = n->t;
  for (uint32_t i = 0; i < n->n_running; i++) makespan = fmax(makespan, n->run[i].end);
  if (!pz_better(x->c, makespan, x->c->best_s)) return;
  if (x->late) makespan = put_all_late(x, makespan);
  pz_context_offer(x->c, x->slots, makespan);
}

static bool all_started(const struct exact *x, const struct node *n) {
  for (uint32_t i = 0; i < x->p->n; i++)
    if (!has(&n->started, i)) return false;
  return true;
}

static void visit(struct exact *x, uint32_t depth);

static void visit_starts(struct exact *x, uint32_t depth) {
  const struct node *n = &x->nodes[depth];
  uint32_t first = n->last_rank == PZ_NONE ? 0 : n->last_rank + 1;
  for (uint32_t k = first; k < x->p->n && !x->stopped; k++) {
    uint32_t i = x->by_path[k];
    if (!eligible(x, n, i)) continue;
    const struct pz_task *t = &x->p->tasks[i];
    for (uint32_t m = 0; m < t->n_modes && !x->stopped; m++) {
      if (x->c->dropped[x->c->mode_at[i] + m] || !fits(n->free, &t->modes[m]) ||
          left_shifts(n, i, &t->modes[m]))
        continue;
      start(x, n, i, m, &x->nodes[depth + 1]);
      visit(x, depth + 1);
    }
  }
}

static void visit(struct exact *x, uint32_t depth) {
  const struct node *n = &x->nodes[depth];
  if (++x->c->steps >= x->until) {
    x->stopped = true;
    return;
  }
  if (all_started(x, n)) {
    complete(x, n);
    return;
  }
  if (!promising(x, n)) return;
  if (n->last_rank == PZ_NONE && seen_better(x, n)) return;
  visit_starts(x, depth);
  if (x->stopped || n->n_running == 0) return;
  advance(x, n, &x->nodes[depth + 1]);
  visit(x, depth + 1);
}

/* Is the resource wanted by a task that leaves another one free? */
static bool matters(const struct pz_problem *p, int r) {
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++) {
      const int32_t *use = p->tasks[i].modes[m].use;
      for (int k = 0; use[r] && k < PZ_RESOURCES; k++)
        if (use[k] < p->capacity[k]) return true;
    }
  return false;
}

/* Mixes whose resources all matter. */
static void choose_mixes(struct exact *x) {
  bool wanted[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) wanted[r] = matters(x->p, r);
  for (int k = 0; k < PZ_MIXES; k++) {
    bool all = true;
    for (int r = 0; r < PZ_RESOURCES; r++) all = all && (wanted[r] || x->c->mix[k][r] <= 0);
    if (all) x->mixes[x->n_mixes++] = k;
  }
}

/* Tasks by falling key, ties in topological order. */
static void order(const struct exact *x, uint32_t *list, bool with_own_time) {
  for (uint32_t i = 0; i < x->p->n; i++) {
    const double *least = x->c->least_s, *tail = x->c->tail_s;
    uint32_t at = i;
    for (; at > 0; at--) {
      uint32_t q = list[at - 1];
      if (tail[q] + (with_own_time ? least[q] : 0) >= tail[i] + (with_own_time ? least[i] : 0))
        break;
      list[at] = q;
    }
    list[at] = i;
  }
}

static bool same_modes(const struct pz_task *a, const struct pz_task *b) {
  if (a->n_modes != b->n_modes) return false;
  for (uint32_t m = 0; m < a->n_modes; m++)
    if (a->modes[m].s < b->modes[m].s || a->modes[m].s > b->modes[m].s ||
        memcmp(a->modes[m].use, b->modes[m].use, sizeof a->modes[m].use) != 0)
      return false;
  return true;
}

static bool within(const struct exact *x, const struct bits *a, const struct bits *b) {
  for (int w = 0; w < x->words; w++)
    if (a->w[w] & ~b->w[w]) return false;
  return true;
}

/* Tasks a and b of the same modes, where all that must come before a must come before b, and all
 * after b after a: a schedule that starts b first is as good with the two exchanged. */
static bool find_twins(struct exact *x) {
  uint32_t n = x->p->n;
  struct bits *before = pz_arena_alloc(x->arena, n, sizeof *before);
  struct bits *after = pz_arena_alloc(x->arena, n, sizeof *after);
  if (!before || !after) return false;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < x->p->tasks[i].n_pred; k++) {
      uint32_t pred = x->p->tasks[i].pred[k];
      set(&before[i], pred);
      for (int w = 0; w < x->words; w++) before[i].w[w] |= before[pred].w[w];
    }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++)
      if (has(&before[i], k)) set(&after[k], i);
  for (uint32_t a = 0; a < n; a++)
    for (uint32_t b = 0; b < n; b++)
      if (x->rank[a] < x->rank[b] && within(x, &before[a], &before[b]) &&
          within(x, &after[b], &after[a]) && same_modes(&x->p->tasks[a], &x->p->tasks[b]))
        set(&x->twins[b], a);
  return true;
}

static bool allocate(struct exact *x) {
  uint32_t n = x->p->n;
  x->nodes = pz_arena_alloc(x->arena, 2 * n + 3, sizeof *x->nodes);
  x->slots = pz_arena_alloc(x->arena, n, sizeof *x->slots);
  x->by_tail = pz_arena_alloc(x->arena, n, sizeof *x->by_tail);
  x->by_path = pz_arena_alloc(x->arena, n, sizeof *x->by_path);
  x->rank = pz_arena_alloc(x->arena, n, sizeof *x->rank);
  x->est = pz_arena_alloc(x->arena, n, sizeof *x->est);
  x->bucket = pz_arena_alloc(x->arena, BUCKETS, sizeof *x->bucket);
  x->twins = pz_arena_alloc(x->arena, n, sizeof *x->twins);
  x->late_failed = pz_arena_alloc(x->arena, n, sizeof *x->late_failed);
  return x->nodes && x->slots && x->by_tail && x->by_path && x->rank && x->est && x->bucket &&
         x->twins && x->late_failed && pz_profile_init(&x->profile, x->p, x->arena);
}

static bool prepare(struct exact *x) {
  choose_mixes(x);
  if (!allocate(x)) return false;
  order(x, x->by_tail, false);
  order(x, x->by_path, true);
  for (uint32_t i = 0; i < x->p->n; i++) x->rank[x->by_path[i]] = i;
  return find_twins(x);
}

static void leave_out_late(struct exact *x, struct node *root) {
  for (uint32_t i = 0; x->late && i < x->p->n; i++) {
    if (!x->late[i]) continue;
    set(&root->started, i);
    set(&root->finished, i);
    for (int k = 0; k < x->c->n_prices; k++) root->left[k] -= x->c->prices[k].least[i];
  }
}

static void run(struct exact *x) {
  struct pz_context *c = x->c;
  struct node *root = &x->nodes[0];
  memcpy(root->free, x->p->capacity, sizeof root->free);
  root->last_rank = PZ_NONE;
  for (int k = 0; k < c->n_prices; k++) root->left[k] = c->prices[k].sum;
  leave_out_late(x, root);
  finish_points(x, root);
  visit(x, 0);
  if (!x->stopped) pz_context_raise(c, fmin(c->best_s, x->unfit_s));
}

/* And what they wait for. */
static void take_out_failed(const struct exact *x) {
  for (uint32_t i = x->p->n; i-- > 0;) {
    const struct pz_task *t = &x->p->tasks[i];
    if (x->late_failed[i]) x->late[i] = false;
    for (uint32_t k = 0; k < t->n_succ; k++)
      if (!x->late[t->succ[k]]) x->late[i] = false;
  }
}

enum pz_status pz_exact_search(struct pz_context *c, int64_t steps, bool *late,
                               struct pz_error *err) {
  if (c->p->n == 0 || c->p->n > PZ_EXACT_MOST_TASKS) return PZ_OK;
  struct pz_arena arena;
  pz_arena_init(&arena, c->arena->mem);
  struct exact x = {.c = c,
                    .p = c->p,
                    .arena = &arena,
                    .until = c->steps + steps,
                    .late = late,
                    .unfit_s = DBL_MAX,
                    .words = (int)(c->p->n + 63) / 64};
  bool ok = prepare(&x);
  if (ok) run(&x);
  if (ok && late) take_out_failed(&x);
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule search");
}
