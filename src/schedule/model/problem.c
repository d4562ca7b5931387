/* Makes scheduling problems (problem.h).
 *
 * pz_problem_build() sorts the tasks topologically (sort_tasks), copies those of their modes that a shortest schedule may
 * need (copy_modes), and links every task with its predecessors and successors (link_tasks). */
#include "schedule/model/problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *pz_mode_name(const struct pz_mode *m, char buf[16]) {
  if (m->label == PZ_MODE_SINGLE) return "single";
  if (m->label == PZ_MODE_INTRA) return "intra";
  if (m->label == PZ_MODE_NONE) return m->use[PZ_LINK] ? "link" : "none";
  snprintf(buf, 16, "%d", (int)m->label);
  return buf;
}

struct problem_input {
  const struct pz_task *tasks;
  uint32_t n;
  const struct pz_edge *edges;
  uint32_t n_edges;
  uint32_t *position; /* of an input task in topological order */
  uint32_t *order;    /* the input task at a position */
};

/* Raises an error that names a task in a cycle.  Every task that still waits has a predecessor that waits.  Walking back
 * n times from any of them ends in a cycle. */
_Noreturn static void raise_cycle(struct pz_call *call, const struct problem_input *in,
                                  const uint32_t *waits) {
  uint32_t *back = pz_alloc(call, in->n, sizeof *back), task = 0;
  for (uint32_t e = 0; e < in->n_edges; e++)
    if (waits[in->edges[e].before] && waits[in->edges[e].after])
      back[in->edges[e].after] = in->edges[e].before;
  while (!waits[task]) task++;
  for (uint32_t i = 0; i < in->n; i++) task = back[task];
  pz_raise(call, PZ_BAD_INPUT, "operator '%s' is part of a cycle", in->tasks[task].name);
}

/* Sorts the tasks by Kahn's algorithm; among ready tasks the one that became ready first comes first.  The edges of a task
 * are chained: first_edge[task], then next_edge[edge]. */
static void sort_tasks(struct pz_call *call, struct problem_input *in) {
  uint32_t *waits = pz_alloc(call, in->n, sizeof *waits);
  uint32_t *first_edge = pz_alloc(call, in->n, sizeof *first_edge);
  uint32_t *next_edge = pz_alloc(call, in->n_edges, sizeof *next_edge);
  in->position = pz_alloc(call, in->n, sizeof *in->position);
  in->order = pz_alloc(call, in->n, sizeof *in->order);
  for (uint32_t i = 0; i < in->n; i++) first_edge[i] = PZ_NONE;
  for (uint32_t e = 0; e < in->n_edges; e++) {
    waits[in->edges[e].after]++;
    next_edge[e] = first_edge[in->edges[e].before];
    first_edge[in->edges[e].before] = e;
  }
  uint32_t done = 0;
  for (uint32_t i = 0; i < in->n; i++)
    if (!waits[i]) in->order[done++] = i;
  for (uint32_t at = 0; at < done; at++) {
    in->position[in->order[at]] = at;
    for (uint32_t e = first_edge[in->order[at]]; e != PZ_NONE; e = next_edge[e]) {
      uint32_t after = in->edges[e].after;
      waits[after]--;
      if (!waits[after]) in->order[done++] = after;
    }
  }
  if (done < in->n) raise_cycle(call, in, waits);
}

static bool fits_capacity(const struct pz_mode *mode, const int32_t capacity[PZ_RESOURCES]) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (mode->use[r] < 0 || mode->use[r] > capacity[r]) return false;
  return true;
}

/* Whether mode a makes mode b superfluous: it is no slower and uses no more.  Of equal modes, the first one does. */
static bool makes_superfluous(const struct pz_mode *a, const struct pz_mode *b) {
  bool equal = a->s == b->s;
  if (a->s > b->s) return false;
  for (int r = 0; r < PZ_RESOURCES; r++) {
    if (a->use[r] > b->use[r]) return false;
    equal = equal && a->use[r] == b->use[r];
  }
  return !equal || a < b;
}

static void copy_modes(struct pz_call *call, const int32_t capacity[PZ_RESOURCES],
                       const struct pz_task *from, struct pz_task *to) {
  struct pz_mode *modes = pz_alloc(call, from->n_modes, sizeof *modes);
  to->n_modes = 0;
  for (uint32_t i = 0; i < from->n_modes; i++) {
    const struct pz_mode *mode = &from->modes[i];
    if (!(mode->s >= 0 && isfinite(mode->s)))
      pz_raise(call, PZ_BAD_INPUT, "operator '%s' takes %g; accepted: a time that is not negative",
               from->name, mode->s);
    bool needed = fits_capacity(mode, capacity);
    for (uint32_t k = 0; k < from->n_modes && needed; k++) {
      const struct pz_mode *other = &from->modes[k];
      needed = k == i || !fits_capacity(other, capacity) || !makes_superfluous(other, mode);
    }
    if (needed) modes[to->n_modes++] = *mode;
  }
  to->modes = modes;
  if (!to->n_modes)
    pz_raise(call, PZ_BAD_INPUT, "operator '%s' fits no core: it needs more than the chip has",
             from->name);
}

/* Sets the predecessors and successors of every task, by position. */
static void link_tasks(struct pz_call *call, const struct problem_input *in,
                       struct pz_task *tasks) {
  uint32_t **pred = pz_alloc(call, in->n, sizeof *pred);
  uint32_t **succ = pz_alloc(call, in->n, sizeof *succ);
  for (uint32_t e = 0; e < in->n_edges; e++) {
    tasks[in->position[in->edges[e].before]].n_succ++;
    tasks[in->position[in->edges[e].after]].n_pred++;
  }
  for (uint32_t i = 0; i < in->n; i++) {
    pred[i] = pz_alloc(call, tasks[i].n_pred, sizeof **pred);
    succ[i] = pz_alloc(call, tasks[i].n_succ, sizeof **succ);
    tasks[i].pred = pred[i];
    tasks[i].succ = succ[i];
    tasks[i].n_pred = tasks[i].n_succ = 0;
  }
  for (uint32_t e = 0; e < in->n_edges; e++) {
    uint32_t a = in->position[in->edges[e].before], b = in->position[in->edges[e].after];
    succ[a][tasks[a].n_succ++] = b;
    pred[b][tasks[b].n_pred++] = a;
  }
}

struct pz_problem pz_problem_build(struct pz_call *call, const int32_t capacity[PZ_RESOURCES],
                                   const struct pz_task *tasks, uint32_t n,
                                   const struct pz_edge *edges, uint32_t n_edges) {
  struct problem_input in = {.tasks = tasks, .n = n, .edges = edges, .n_edges = n_edges};
  struct pz_task *sorted = pz_alloc(call, n, sizeof *sorted);
  struct pz_problem p = {.tasks = sorted, .n = n};
  sort_tasks(call, &in);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_task *from = &tasks[in.order[i]];
    sorted[i] = (struct pz_task){
        .name = pz_copy_text(call, from->name), .id = from->id, .op_class = from->op_class};
    copy_modes(call, capacity, from, &sorted[i]);
  }
  link_tasks(call, &in, sorted);
  memcpy(p.capacity, capacity, sizeof p.capacity);
  return p;
}

bool pz_same_modes(const struct pz_task *a, const struct pz_task *b) {
  if (a->n_modes != b->n_modes) return false;
  for (uint32_t m = 0; m < a->n_modes; m++) {
    const struct pz_mode *x = &a->modes[m], *y = &b->modes[m];
    if (x->s < y->s || x->s > y->s || memcmp(x->use, y->use, sizeof x->use) != 0) return false;
  }
  return true;
}

bool pz_milestone_uses(const struct pz_task *t) {
  for (uint32_t m = 0; m < t->n_modes; m++)
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (t->modes[m].s <= 0 && t->modes[m].use[r]) return true;
  return false;
}

/* ---- for callers that return a status ---- */

struct problem_args {
  struct pz_arena *arena;
  const int32_t *capacity;
  const struct pz_task *tasks;
  uint32_t n;
  const struct pz_edge *edges;
  uint32_t n_edges;
  struct pz_problem *out;
};

static void build_problem(struct pz_call *call, void *ctx) {
  struct problem_args *x = ctx;
  struct pz_call result = pz_call_in(call, x->arena);
  *x->out = pz_problem_build(&result, x->capacity, x->tasks, x->n, x->edges, x->n_edges);
}

enum pz_status pz_problem_make(struct pz_arena *arena, const int32_t capacity[PZ_RESOURCES],
                               const struct pz_task *tasks, uint32_t n, const struct pz_edge *edges,
                               uint32_t n_edges, struct pz_problem *out, struct pz_error *err) {
  struct problem_args x = {arena, capacity, tasks, n, edges, n_edges, out};
  return pz_border(build_problem, &x, err);
}
