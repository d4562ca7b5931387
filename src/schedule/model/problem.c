/* Builds scheduling problems (problem.h).
 *
 * pz_problem_build() sorts the tasks topologically (sort_tasks), copies those of their modes that a shortest schedule may
 * need (copy_modes), and sets the predecessors and successors of every task (link_tasks). */
#include "schedule/model/problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns "single", "intra", "link", "none", or the number of cores, which is written to `buffer`. */
const char *pz_mode_name(const struct pz_mode *mode, char buffer[16]) {
  if (mode->label == PZ_MODE_SINGLE) return "single";
  if (mode->label == PZ_MODE_INTRA) return "intra";
  if (mode->label == PZ_MODE_NONE) return mode->use[PZ_LINK] ? "link" : "none";
  snprintf(buffer, 16, "%d", (int)mode->label);
  return buffer;
}

/* Returns whether two tasks have the same durations and resource uses, mode by mode. */
bool pz_same_modes(const struct pz_task *a, const struct pz_task *b) {
  if (a->n_modes != b->n_modes) return false;
  for (uint32_t m = 0; m < a->n_modes; m++) {
    const struct pz_mode *mode = &a->modes[m], *other = &b->modes[m];
    if (mode->duration < other->duration || mode->duration > other->duration ||
        memcmp(mode->use, other->use, sizeof mode->use) != 0)
      return false;
  }
  return true;
}

/* Returns whether some mode of the task has zero duration (a milestone) and uses a resource. */
bool pz_milestone_uses(const struct pz_task *task) {
  for (uint32_t m = 0; m < task->n_modes; m++)
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (task->modes[m].duration <= 0 && task->modes[m].use[r]) return true;
  return false;
}

/* ---- building a problem --------------------------------------------------------------------- */

struct problem_input {
  const struct pz_task *tasks;
  uint32_t n;
  const struct pz_edge *edges;
  uint32_t n_edges;
  uint32_t *position; /* by input task: its position in topological order */
  uint32_t *order;    /* by position: the input task */
};

/* Sorts the tasks topologically by Kahn's algorithm, in the order in which they become ready, or
 * raises an error if they form a cycle.  The edges of a task are a linked list: first_edge[task],
 * then next_edge[edge].  n_waiting[task] counts the predecessors that are not yet sorted. */
static void sort_tasks(struct pz_call *call, struct problem_input *input) {
  uint32_t *n_waiting = pz_alloc(call, input->n, sizeof *n_waiting);
  uint32_t *first_edge = pz_alloc(call, input->n, sizeof *first_edge);
  uint32_t *next_edge = pz_alloc(call, input->n_edges, sizeof *next_edge);
  input->position = pz_alloc(call, input->n, sizeof *input->position);
  input->order = pz_alloc(call, input->n, sizeof *input->order);
  for (uint32_t i = 0; i < input->n; i++) first_edge[i] = PZ_NONE;
  for (uint32_t e = 0; e < input->n_edges; e++) {
    n_waiting[input->edges[e].after]++;
    next_edge[e] = first_edge[input->edges[e].before];
    first_edge[input->edges[e].before] = e;
  }
  uint32_t n_sorted = 0;
  for (uint32_t i = 0; i < input->n; i++)
    if (!n_waiting[i]) input->order[n_sorted++] = i;
  for (uint32_t at = 0; at < n_sorted; at++) {
    input->position[input->order[at]] = at;
    for (uint32_t e = first_edge[input->order[at]]; e != PZ_NONE; e = next_edge[e]) {
      uint32_t after = input->edges[e].after;
      n_waiting[after]--;
      if (!n_waiting[after]) input->order[n_sorted++] = after;
    }
  }
  if (n_sorted == input->n) return;
  /* Every task that still waits has a predecessor that waits, so that walking back n times ends in
   * a cycle. */
  uint32_t *back = pz_alloc(call, input->n, sizeof *back), task = 0;
  for (uint32_t e = 0; e < input->n_edges; e++) {
    const struct pz_edge *edge = &input->edges[e];
    if (n_waiting[edge->before] && n_waiting[edge->after]) back[edge->after] = edge->before;
  }
  while (!n_waiting[task]) task++;
  for (uint32_t i = 0; i < input->n; i++) task = back[task];
  pz_raise(call, PZ_BAD_INPUT, "operator '%s' is part of a cycle", input->tasks[task].name);
}

/* Returns whether a mode fits within the capacities. */
static bool fits_capacity(const struct pz_mode *mode, const int32_t capacity[PZ_RESOURCES]) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (mode->use[r] < 0 || mode->use[r] > capacity[r]) return false;
  return true;
}

/* Returns whether mode a makes mode b superfluous: it is no slower and uses no more.  Of two equal
 * modes, the first one makes the second superfluous. */
static bool makes_superfluous(const struct pz_mode *a, const struct pz_mode *b) {
  bool equal = a->duration == b->duration;
  if (a->duration > b->duration) return false;
  for (int r = 0; r < PZ_RESOURCES; r++) {
    if (a->use[r] > b->use[r]) return false;
    equal = equal && a->use[r] == b->use[r];
  }
  return !equal || a < b;
}

/* Copies the modes of a task that fit the capacities and that no other such mode makes
 * superfluous. */
static void copy_modes(struct pz_call *call, const int32_t capacity[PZ_RESOURCES],
                       const struct pz_task *from, struct pz_task *to) {
  struct pz_mode *modes = pz_alloc(call, from->n_modes, sizeof *modes);
  to->n_modes = 0;
  for (uint32_t i = 0; i < from->n_modes; i++) {
    const struct pz_mode *mode = &from->modes[i];
    if (!(mode->duration >= 0 && isfinite(mode->duration)))
      pz_raise(call, PZ_BAD_INPUT, "operator '%s' takes %g; accepted: a time that is not negative",
               from->name, mode->duration);
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

/* Sets the direct predecessors and successors of every task, by position. */
static void link_tasks(struct pz_call *call, const struct problem_input *input,
                       struct pz_task *tasks) {
  uint32_t **pred = pz_alloc(call, input->n, sizeof *pred);
  uint32_t **succ = pz_alloc(call, input->n, sizeof *succ);
  for (uint32_t e = 0; e < input->n_edges; e++) {
    tasks[input->position[input->edges[e].before]].n_succ++;
    tasks[input->position[input->edges[e].after]].n_pred++;
  }
  for (uint32_t i = 0; i < input->n; i++) {
    pred[i] = pz_alloc(call, tasks[i].n_pred, sizeof **pred);
    succ[i] = pz_alloc(call, tasks[i].n_succ, sizeof **succ);
    tasks[i].pred = pred[i];
    tasks[i].succ = succ[i];
    tasks[i].n_pred = tasks[i].n_succ = 0;
  }
  for (uint32_t e = 0; e < input->n_edges; e++) {
    uint32_t before = input->position[input->edges[e].before];
    uint32_t after = input->position[input->edges[e].after];
    succ[before][tasks[before].n_succ++] = after;
    pred[after][tasks[after].n_pred++] = before;
  }
}

/* Builds a problem from copies of the tasks, sorted topologically, without modes that are not needed. */
struct pz_problem pz_problem_build(struct pz_call *call, const int32_t capacity[PZ_RESOURCES],
                                   const struct pz_task *tasks, uint32_t n,
                                   const struct pz_edge *edges, uint32_t n_edges) {
  struct problem_input input = {.tasks = tasks, .n = n, .edges = edges, .n_edges = n_edges};
  struct pz_task *sorted = pz_alloc(call, n, sizeof *sorted);
  struct pz_problem problem = {.tasks = sorted, .n = n};
  sort_tasks(call, &input);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_task *from = &tasks[input.order[i]];
    sorted[i] = (struct pz_task){
        .name = pz_copy_text(call, from->name), .id = from->id, .op_class = from->op_class};
    copy_modes(call, capacity, from, &sorted[i]);
  }
  link_tasks(call, &input, sorted);
  memcpy(problem.capacity, capacity, sizeof problem.capacity);
  return problem;
}
