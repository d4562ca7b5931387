/* Depth-first branch and bound over schedules in order of time (precedence trees of Patterson et
 * al. 1989, with modes).
 *
 * A node is a time t with some tasks finished and some running.  It branches on the next task to
 * start at t, and its mode, or on advancing to the next end.  Pruned are: nodes whose bound is not
 * below the incumbent; starts that were possible at the previous decision time (left shift); waits
 * during which another task could have been completed; permutations of starts at the same time;
 * nodes dominated by another with the same tasks started, all of which end no later and use no
 * more; and, of two identical ready tasks, one of the two orders.
 *
 * Deferred tasks, if given (deferred.h), are left out of the tree. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/map.h"
#include "schedule/tree/deferred.h"
#include "schedule/tree/partial_bound.h"

enum { MOST_BUCKETS = 1 << 16, MOST_MEMOS = 1 << 20 };

/* A node seen before, for dominance. */
struct memo {
  struct memo *next;
  struct pz_bits started;
  double t;
  uint32_t wait;
  uint32_t n_running;
  struct pz_running run[];
};

struct depth_first {
  struct pz_branching g;
  struct pz_arena *arena; /* of this search */
  int64_t until;
  struct pz_partials nodes; /* by depth */
  struct memo **bucket;
  uint32_t n_buckets, n_memos;
  struct pz_deferred *deferred; /* NULL: none */
  bool stopped;
};

static bool promising(struct depth_first *x, const struct pz_partial *n) {
  const struct pz_context *c = x->g.c;
  return pz_better(c, pz_partial_dual_bound(&x->g, n), c->best_s) &&
         pz_better(c, pz_partial_path_bound(&x->g, n), c->best_s) &&
         pz_better(c, pz_partial_energy_bound(&x->g, n), c->best_s);
}

/* ---- dominance ------------------------------------------------------------------------------- */

/* True when the node need not be visited; otherwise it is remembered. */
static bool seen_better(struct depth_first *x, const struct pz_partial *n) {
  struct memo **bucket = &x->bucket[pz_hash(&n->started, sizeof n->started) % x->n_buckets];
  const struct pz_going now = {n->t, n->run, n->n_running};
  struct pz_technique_count *count = &x->g.c->count[PZ_T_state_dominance];
  uint32_t looked = 0;
  count->calls++;
  for (const struct memo *m = *bucket; m; m = m->next, looked++)
    /* a node that waits for this one is no alternative to it */
    if (m->wait != n->wait && pz_branching_same(&x->g, &m->started, &n->started) &&
        pz_partial_dominated(&x->g, &now, &(struct pz_going){m->t, m->run, m->n_running})) {
      count->prunes++;
      return true;
    }
  x->g.c->steps += looked / PZ_LOOKS_PER_STEP;
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

/* ---- the tree -------------------------------------------------------------------------------- */

static void complete(struct depth_first *x, const struct pz_partial *n) {
  double makespan = pz_partial_end(n);
  if (!pz_better(x->g.c, makespan, x->g.c->best_s)) return;
  if (x->deferred) makespan = pz_deferred_insert(x->deferred, &x->g, makespan);
  pz_update_incumbent(x->g.c, x->g.slots, makespan, PZ_T_depth_first);
}

static void visit(struct depth_first *x, uint32_t depth);

static void visit_starts(struct depth_first *x, uint32_t depth) {
  const struct pz_partial *n = pz_partial_at(&x->nodes, depth);
  struct pz_start k = pz_partial_starts(&x->g, n);
  while (!x->stopped && pz_partial_next(&x->g, n, &k)) {
    pz_partial_start(&x->g, n, k.task, k.mode, pz_partial_at(&x->nodes, depth + 1));
    visit(x, depth + 1);
  }
}

static void visit(struct depth_first *x, uint32_t depth) {
  const struct pz_partial *n = pz_partial_at(&x->nodes, depth);
  if (++x->g.c->steps >= x->until) {
    x->stopped = true;
    return;
  }
  if (pz_partial_complete(&x->g, n)) {
    complete(x, n);
    return;
  }
  if (!promising(x, n)) return;
  if (n->last_rank == PZ_NONE && x->g.c->o->state_dominance && seen_better(x, n)) return;
  visit_starts(x, depth);
  if (x->stopped || n->n_running == 0 || pz_partial_wait_dominated(&x->g, n)) return;
  pz_partial_advance(&x->g, n, pz_partial_at(&x->nodes, depth + 1));
  visit(x, depth + 1);
}

static bool prepare(struct depth_first *x, struct pz_context *c) {
  uint32_t n = c->p->n;
  for (x->n_buckets = 64; x->n_buckets < MOST_BUCKETS && x->n_buckets < x->until - c->steps;)
    x->n_buckets *= 2;
  x->bucket = pz_arena_alloc(x->arena, x->n_buckets, sizeof(struct memo *));
  return x->bucket && pz_partials_init(&x->nodes, n, 2 * (size_t)n + 3, x->arena) &&
         pz_branching_init(&x->g, c, x->arena);
}

static void run(struct depth_first *x) {
  struct pz_context *c = x->g.c;
  pz_partial_begin(&x->g, x->deferred ? x->deferred->is : NULL, pz_partial_at(&x->nodes, 0));
  visit(x, 0);
  if (x->stopped) return;
  double proved = x->deferred ? fmin(c->best_s, x->deferred->unfit_s) : c->best_s;
  pz_update_bound(c, proved, PZ_T_depth_first);
}

enum pz_status pz_depth_first_search(struct pz_context *c, int64_t steps,
                                     struct pz_deferred *deferred, struct pz_error *err) {
  struct pz_arena arena;
  pz_arena_init(&arena, c->arena->mem);
  struct depth_first x = {.arena = &arena, .until = c->steps + steps, .deferred = deferred};
  int64_t from = c->steps;
  bool ok = prepare(&x, c);
  if (ok) run(&x);
  c->count[PZ_T_depth_first].calls++;
  c->count[PZ_T_depth_first].steps += c->steps - from;
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule search");
}
