/* Branch and bound over modes.  A node holds the allowed modes of each task.  Column generation
 * bounds it, and a short depth-first search over schedules usually closes it: with few modes the
 * order is easy.  Otherwise the task whose modes the linear program mixes most gets the faster
 * modes in one child, the others in the other (mode partition as in Sprecher and Drexl 1998). */
#include "schedule/tree/mode_branching.h"

#include <float.h>
#include <math.h>

#include "schedule/bound/root_bound.h"
#include "schedule/colgen/column_generation.h"
#include "schedule/tree/tree_search.h"

struct branch {
  struct pz_colgen *colgen;
  int64_t until, node_steps;
  double open_s; /* least bound of the nodes left open */
  struct pz_error *err;
};

struct split {
  uint32_t task;
  bool up[64]; /* by mode: of the second child */
};

/* How much the solution mixes the modes of a task: its dual value times what is left of 1 beside
 * the largest share. */
static double mixed_time(const struct pz_context *c, uint32_t i) {
  const struct pz_task *t = &c->p->tasks[i];
  double largest = 0;
  for (uint32_t m = 0; m < t->n_modes; m++) largest = fmax(largest, c->lp_share[c->mode_at[i] + m]);
  return (1 - largest) * c->duals.least[i];
}

/* The modes up to the mean of the mixed durations, and those above.  False: nothing is mixed. */
static bool choose(const struct pz_context *c, struct split *s) {
  double most = 1e-9 * c->scale, mean = 0;
  s->task = PZ_NONE;
  for (uint32_t i = 0; i < c->p->n; i++) {
    double by = c->p->tasks[i].n_modes <= 64 ? mixed_time(c, i) : 0;
    if (by > most) most = by, s->task = i;
  }
  if (s->task == PZ_NONE) return false;
  const struct pz_task *t = &c->p->tasks[s->task];
  const uint32_t first = c->mode_at[s->task];
  for (uint32_t m = 0; m < t->n_modes; m++) mean += c->lp_share[first + m] * t->modes[m].s;
  uint32_t n[2] = {0, 0};
  for (uint32_t m = 0; m < t->n_modes; m++) {
    s->up[m] = t->modes[m].s > mean;
    if (!c->eliminated[first + m]) n[s->up[m]]++;
  }
  return n[0] && n[1];
}

static enum pz_status visit(struct branch *b, struct pz_context *c);

/* The child with more of the solution first. */
static enum pz_status visit_children(struct branch *b, struct pz_context *c,
                                     const struct split *s) {
  const uint32_t first = c->mode_at[s->task], n = c->p->tasks[s->task].n_modes;
  enum pz_status status = PZ_OK;
  double up = 0;
  for (uint32_t m = 0; m < n; m++)
    if (s->up[m]) up += c->lp_share[first + m];
  for (int half = 0; half < 2 && status == PZ_OK; half++) {
    bool side = (up > 0.5) == (half == 0);
    struct pz_context child;
    struct pz_arena arena;
    pz_arena_init(&arena, c->arena->mem);
    if (pz_context_fork(c, &arena, &child)) {
      for (uint32_t m = 0; m < n; m++)
        if (s->up[m] != side) child.eliminated[first + m] = true;
      status = visit(b, &child);
      c->best_s = child.best_s;
      c->steps = child.steps;
    } else {
      status = pz_fail(b->err, PZ_NO_MEMORY, "out of memory for the schedule search");
    }
    pz_arena_release(&arena);
  }
  return status;
}

static enum pz_status visit(struct branch *b, struct pz_context *c) {
  struct split s = {0};
  pz_bound_tighten(c);
  if (pz_open(c)) pz_colgen_run(b->colgen, c, b->until - c->steps);
  if (pz_open(c)) pz_colgen_round(b->colgen, c, c->o->node_draws);
  if (!pz_open(c)) return PZ_OK;
  bool split = choose(c, &s);
  int64_t left = b->until - c->steps;
  enum pz_status status = pz_tree_search(
      c, PZ_DEPTH_FIRST, split && left > b->node_steps ? b->node_steps : left, b->err);
  if (status != PZ_OK || !pz_open(c)) return status;
  if (split && c->steps < b->until) return visit_children(b, c, &s);
  b->open_s = fmin(b->open_s, c->bound_s);
  return PZ_OK;
}

/* Depth-first search gets more at a node the fewer of them there can be. */
static int64_t node_steps(const struct pz_tuning *o, int64_t steps) {
  int64_t n = steps / o->node_steps_divisor;
  return n < o->node_steps_least  ? o->node_steps_least
         : n > o->node_steps_most ? o->node_steps_most
                                  : n;
}

enum pz_status pz_mode_branching(struct pz_context *c, struct pz_colgen *colgen, int64_t steps,
                                 struct pz_error *err) {
  struct branch b = {.colgen = colgen,
                     .until = c->steps + steps,
                     .node_steps = node_steps(c->o, steps),
                     .open_s = DBL_MAX,
                     .err = err};
  if (!colgen) return pz_tree_search(c, PZ_DEPTH_FIRST, steps, err);
  int64_t from = c->steps;
  enum pz_status status = visit(&b, c);
  if (status == PZ_OK) pz_update_bound(c, fmin(c->best_s, b.open_s), PZ_T_mode_branching);
  c->count[PZ_T_mode_branching].calls++;
  c->count[PZ_T_mode_branching].steps += c->steps - from;
  return status;
}
