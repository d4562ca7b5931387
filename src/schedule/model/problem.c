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

struct maker {
  struct pz_arena *arena;
  const struct pz_task *tasks;
  uint32_t n;
  const struct pz_edge *edges;
  uint32_t n_edges;
  uint32_t *position; /* of an input task in topological order */
  uint32_t *order;
  struct pz_error *err;
};

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule problem");
}

/* From a task that still waits back to one it waits for, often enough: then in a cycle.  `back` is
 * overwritten. */
static enum pz_status name_cycle(const struct maker *m, const uint32_t *waits, uint32_t *back) {
  uint32_t stuck = 0;
  for (uint32_t e = 0; e < m->n_edges; e++)
    if (waits[m->edges[e].before] && waits[m->edges[e].after])
      back[m->edges[e].after] = m->edges[e].before;
  while (!waits[stuck]) stuck++;
  for (uint32_t i = 0; i < m->n; i++) stuck = back[stuck];
  return pz_fail(m->err, PZ_BAD_INPUT, "operator '%s' is part of a cycle", m->tasks[stuck].name);
}

/* Kahn's algorithm; among ready tasks the one listed first.  `first` and `next` chain the edges of
 * a task. */
static enum pz_status sort(struct maker *m) {
  uint32_t *waits = pz_arena_alloc(m->arena, m->n, sizeof *waits);
  uint32_t *first = pz_arena_alloc(m->arena, m->n, sizeof *first);
  uint32_t *next = pz_arena_alloc(m->arena, m->n_edges, sizeof *next);
  if (!waits || !first || !next) return no_memory(m->err);
  for (uint32_t i = 0; i < m->n; i++) first[i] = PZ_NONE;
  for (uint32_t e = 0; e < m->n_edges; e++) {
    waits[m->edges[e].after]++;
    next[e] = first[m->edges[e].before];
    first[m->edges[e].before] = e;
  }
  uint32_t done = 0;
  for (uint32_t i = 0; i < m->n; i++)
    if (!waits[i]) m->order[done++] = i;
  for (uint32_t at = 0; at < done; at++) {
    m->position[m->order[at]] = at;
    for (uint32_t e = first[m->order[at]]; e != PZ_NONE; e = next[e])
      if (--waits[m->edges[e].after] == 0) m->order[done++] = m->edges[e].after;
  }
  return done == m->n ? PZ_OK : name_cycle(m, waits, first);
}

static bool usable(const struct pz_mode *mode, const int32_t capacity[PZ_RESOURCES]) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (mode->use[r] < 0 || mode->use[r] > capacity[r]) return false;
  return true;
}

/* Neither slower nor wider: the other mode is never needed. */
static bool dominates(const struct pz_mode *a, const struct pz_mode *b) {
  bool equal = a->s == b->s;
  if (a->s > b->s) return false;
  for (int r = 0; r < PZ_RESOURCES; r++) {
    if (a->use[r] > b->use[r]) return false;
    equal = equal && a->use[r] == b->use[r];
  }
  return !equal || a < b;
}

static enum pz_status copy_modes(struct maker *m, const int32_t capacity[PZ_RESOURCES],
                                 const struct pz_task *from, struct pz_task *to) {
  struct pz_mode *modes = pz_arena_alloc(m->arena, from->n_modes, sizeof *modes);
  if (!modes) return no_memory(m->err);
  to->n_modes = 0;
  for (uint32_t i = 0; i < from->n_modes; i++) {
    const struct pz_mode *mode = &from->modes[i];
    if (!(mode->s >= 0 && isfinite(mode->s)))
      return pz_fail(m->err, PZ_BAD_INPUT,
                     "operator '%s' takes %g; accepted: a time that is not negative", from->name,
                     mode->s);
    bool needed = usable(mode, capacity);
    for (uint32_t k = 0; k < from->n_modes && needed; k++)
      needed = k == i || !usable(&from->modes[k], capacity) || !dominates(&from->modes[k], mode);
    if (needed) modes[to->n_modes++] = *mode;
  }
  to->modes = modes;
  return to->n_modes
             ? PZ_OK
             : pz_fail(m->err, PZ_BAD_INPUT,
                       "operator '%s' fits no core: it needs more than the chip has", from->name);
}

/* Neighbours of every task, by position. */
static enum pz_status link_tasks(struct maker *m, struct pz_task *tasks) {
  for (uint32_t e = 0; e < m->n_edges; e++) {
    tasks[m->position[m->edges[e].before]].n_succ++;
    tasks[m->position[m->edges[e].after]].n_pred++;
  }
  uint32_t **pred = pz_arena_alloc(m->arena, m->n, sizeof *pred);
  uint32_t **succ = pz_arena_alloc(m->arena, m->n, sizeof *succ);
  if (!pred || !succ) return no_memory(m->err);
  for (uint32_t i = 0; i < m->n; i++) {
    pred[i] = pz_arena_alloc(m->arena, tasks[i].n_pred, sizeof **pred);
    succ[i] = pz_arena_alloc(m->arena, tasks[i].n_succ, sizeof **succ);
    if (!pred[i] || !succ[i]) return no_memory(m->err);
    tasks[i].pred = pred[i];
    tasks[i].succ = succ[i];
    tasks[i].n_pred = tasks[i].n_succ = 0;
  }
  for (uint32_t e = 0; e < m->n_edges; e++) {
    uint32_t a = m->position[m->edges[e].before], b = m->position[m->edges[e].after];
    succ[a][tasks[a].n_succ++] = b;
    pred[b][tasks[b].n_pred++] = a;
  }
  return PZ_OK;
}

enum pz_status pz_problem_make(struct pz_arena *arena, const int32_t capacity[PZ_RESOURCES],
                               const struct pz_task *tasks, uint32_t n, const struct pz_edge *edges,
                               uint32_t n_edges, struct pz_problem *out, struct pz_error *err) {
  struct maker m = {
      .arena = arena, .tasks = tasks, .n = n, .edges = edges, .n_edges = n_edges, .err = err};
  struct pz_task *copy = pz_arena_alloc(arena, n, sizeof *copy);
  m.position = pz_arena_alloc(arena, n, sizeof *m.position);
  m.order = pz_arena_alloc(arena, n, sizeof *m.order);
  if (!copy || !m.position || !m.order) return no_memory(err);
  enum pz_status status = sort(&m);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    const struct pz_task *from = &tasks[m.order[i]];
    copy[i] = (struct pz_task){
        .name = pz_arena_strdup(arena, from->name), .id = from->id, .op_class = from->op_class};
    status = copy[i].name ? copy_modes(&m, capacity, from, &copy[i]) : no_memory(err);
  }
  if (status == PZ_OK) status = link_tasks(&m, copy);
  if (status != PZ_OK) return status;
  *out = (struct pz_problem){.tasks = copy, .n = n};
  memcpy(out->capacity, capacity, sizeof out->capacity);
  return PZ_OK;
}

bool pz_same_modes(const struct pz_task *a, const struct pz_task *b) {
  if (a->n_modes != b->n_modes) return false;
  for (uint32_t m = 0; m < a->n_modes; m++)
    if (a->modes[m].s < b->modes[m].s || a->modes[m].s > b->modes[m].s ||
        memcmp(a->modes[m].use, b->modes[m].use, sizeof a->modes[m].use) != 0)
      return false;
  return true;
}

bool pz_milestone_uses(const struct pz_task *t) {
  for (uint32_t m = 0; m < t->n_modes; m++)
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (t->modes[m].s <= 0 && t->modes[m].use[r]) return true;
  return false;
}
