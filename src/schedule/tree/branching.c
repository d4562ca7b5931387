/* Derives the constant data of the tree searches (branching.h), and finds symmetries: tasks with the same modes and
 * successors, and automorphisms that exchange two tasks together with their successors. */
#include "schedule/tree/branching.h"

#include <string.h>

/* Tuned: surrogate resources with less energy than this fraction of the makespan are ignored. */
static const double LEAST_ENERGY = 0.5;

/* Whether some mode that uses the resource leaves capacity of another one. */
static bool resource_matters(const struct pz_problem *p, int r) {
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++) {
      const int32_t *use = p->tasks[i].modes[m].use;
      for (int k = 0; use[r] && k < PZ_RESOURCES; k++)
        if (use[k] < p->capacity[k]) return true;
    }
  return false;
}

static void add_mix(struct pz_branching *g, int mix) {
  const struct pz_context *c = g->c;
  int at = g->n_measures++;
  for (uint32_t i = 0; i < g->p->n; i++) {
    g->work[i][at] = c->work[g->by_tail[i]][mix];
    for (uint32_t m = 0; m < g->p->tasks[i].n_modes; m++)
      g->rates[c->mode_at[i] + m][at] = pz_mode_share(c, &g->p->tasks[i].modes[m], mix);
  }
}

static void add_duals(struct pz_branching *g, const struct pz_duals *f) {
  int at = g->n_measures++;
  for (uint32_t i = 0; i < g->p->n; i++) g->work[i][at] = f->least[g->by_tail[i]];
  for (uint32_t m = 0; m < g->c->n_modes; m++) g->rates[m][at] = f->rate[m];
}

/* Adds the surrogate resources whose resources all matter and that have enough energy, and dual values.  Their number is
 * rounded up to a multiple of four. */
static void add_measures(struct pz_branching *g) {
  bool wanted[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) wanted[r] = resource_matters(g->p, r);
  for (int k = 0; k < PZ_MIXES; k++) {
    double sum = 0;
    bool all = true;
    for (uint32_t i = 0; i < g->p->n; i++) sum += g->c->work[i][k];
    for (int r = 0; r < PZ_RESOURCES; r++) all = all && (wanted[r] || pz_mixes[k][r] <= 0);
    if (all && sum > LEAST_ENERGY * g->c->best_s) add_mix(g, k);
  }
  if (g->c->duals.sum > 0 && g->c->o->node_dual_bound) add_duals(g, &g->c->duals);
  g->n_measures = (g->n_measures + 3) / 4 * 4;
}

/* Whether the task uses more than half of the resource in every mode. */
static bool uses_most(const struct pz_context *c, uint32_t i, int r) {
  const struct pz_task *t = &c->p->tasks[i];
  for (uint32_t m = 0; m < t->n_modes; m++)
    if (!c->eliminated[c->mode_at[i] + m] && t->modes[m].use[r] <= c->p->capacity[r] / 2)
      return false;
  return true;
}

/* Finds the tasks that use most of a resource, for the resource with most of them, unless there are so many that energy
 * bounds are as good. */
static void find_disjunctive(struct pz_branching *g) {
  for (int r = 0; r < PZ_RESOURCES; r++) {
    uint32_t n = 0, list[PZ_LARGEST_DISJUNCTIVE];
    for (uint32_t k = 0; k < g->p->n && n <= PZ_LARGEST_DISJUNCTIVE; k++)
      if (uses_most(g->c, g->by_tail[k], r) && n++ < PZ_LARGEST_DISJUNCTIVE)
        list[n - 1] = g->by_tail[k];
    if (n > PZ_LARGEST_DISJUNCTIVE || n < 2 || n <= g->n_disjunctive) continue;
    g->n_disjunctive = n;
    memcpy(g->disjunctive, list, n * sizeof *list);
  }
}

/* Sorts tasks by descending tail, with or without their own time; ties in topological order. */
static void sort_by_tail(const struct pz_branching *g, uint32_t *list, bool with_own_time) {
  for (uint32_t i = 0; i < g->p->n; i++) {
    const double *least = g->c->least_s, *tail = g->c->tail_s;
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

/* Whether two tasks have the same modes, of which the same are eliminated. */
static bool same_modes(const struct pz_branching *g, uint32_t a, uint32_t b) {
  const struct pz_context *c = g->c;
  const struct pz_task *t = &c->p->tasks[a];
  return pz_same_modes(t, &c->p->tasks[b]) &&
         !memcmp(&c->eliminated[c->mode_at[a]], &c->eliminated[c->mode_at[b]],
                 t->n_modes * sizeof *c->eliminated);
}

/* Finds tasks with the same modes and the same successors.  If both are ready, one of them comes first: a schedule that
 * starts the other one first is as good with the two exchanged. */
static void find_interchangeable(struct pz_branching *g) {
  for (uint32_t a = 0; a < g->p->n; a++)
    for (uint32_t b = 0; b < g->p->n; b++)
      if (g->rank[a] < g->rank[b] && pz_branching_same(g, &g->after[a], &g->after[b]) &&
          same_modes(g, a, b))
        pz_bits_set(&g->interchangeable[b], a);
}

bool pz_branching_init(struct pz_branching *g, struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *g = (struct pz_branching){.c = c, .p = c->p, .words = (int)(n + 63) / 64};
  if (!PZ_ARRAY(arena, g->slots, n) || !PZ_ARRAY(arena, g->by_tail, n) ||
      !PZ_ARRAY(arena, g->by_path, n) || !PZ_ARRAY(arena, g->rank, n) ||
      !PZ_ARRAY(arena, g->interchangeable, n) || !PZ_ARRAY(arena, g->work, n) ||
      !PZ_ARRAY(arena, g->rates, c->n_modes) || !PZ_ARRAY(arena, g->before, n) ||
      !PZ_ARRAY(arena, g->after, n))
    return false;
  sort_by_tail(g, g->by_tail, false);
  add_measures(g);
  sort_by_tail(g, g->by_path, true);
  if (c->o->disjunctive_bound) find_disjunctive(g);
  for (uint32_t i = 0; i < n; i++) {
    g->rank[g->by_path[i]] = i;
    pz_bits_set(&g->all, i);
    if (c->least_s[i] <= 0) pz_bits_set(&g->milestones, i);
    g->milestones_use = g->milestones_use || pz_milestone_uses(&c->p->tasks[i]);
  }
  pz_bits_order(g->p, g->before, g->after);
  if (c->o->interchangeable_tasks) find_interchangeable(g);
  return true;
}

/* ---- automorphisms --------------------------------------------------------------------------- */

/* Pairs of tasks that can be exchanged together with all their successors (symmetry
 * breaking by lexicographic order, Crawford et al. 1996).
 *
 * Examples are the query and key sides of a layer, or its experts.  Every schedule then has an
 * image of the same makespan, and only those need be searched in which the first task of one side,
 * of lower rank than all exchanged tasks, starts no later than that of the other.  (The optimal
 * schedule whose start times are lexicographically smallest by rank is among them; it also obeys
 * the order of identical tasks.) */
struct automorphism {
  const struct pz_branching *g;
  struct pz_bits deferred; /* tasks that are left out */
  uint32_t image[PZ_TREE_MOST_TASKS];
};

static bool has_image(const struct automorphism *x, const struct pz_bits *set,
                      const struct pz_bits *image) {
  struct pz_bits out = {{0}};
  PZ_EACH_BIT(i, x->g->words, set->w[w]) { pz_bits_set(&out, x->image[i]); }
  return pz_branching_same(x->g, &out, image);
}

/* Finds the image of a task that comes only after a: one of those that come only after b and have the images of its
 * predecessors as predecessors. */
static bool find_image(struct automorphism *x, uint32_t i, struct pz_bits *others) {
  for (uint32_t k = 0; k < x->g->p->n; k++) {
    if (!pz_bits_has(others, k) || !has_image(x, &x->g->before[i], &x->g->before[k]) ||
        !same_modes(x->g, i, k))
      continue;
    pz_bits_clear(others, k);
    x->image[i] = k;
    x->image[k] = i;
    return true;
  }
  return false;
}

/* Exchanges a and b, and the tasks that come after only one of them.  Returns whether this is an automorphism. */
static bool exchange_tasks(struct automorphism *x, uint32_t a, uint32_t b) {
  const struct pz_branching *g = x->g;
  struct pz_bits after_a = pz_bits_minus(&g->after[a], &g->after[b]);
  struct pz_bits after_b = pz_bits_minus(&g->after[b], &g->after[a]);
  after_a = pz_bits_minus(&after_a, &x->deferred);
  after_b = pz_bits_minus(&after_b, &x->deferred);
  if (pz_bits_count(&after_a) != pz_bits_count(&after_b)) return false;
  for (uint32_t i = 0; i < g->p->n; i++) x->image[i] = i;
  x->image[a] = b;
  x->image[b] = a;
  for (uint32_t i = 0; i < g->p->n; i++)
    if (pz_bits_has(&after_a, i) && !find_image(x, i, &after_b)) return false;
  for (uint32_t i = 0; i < g->p->n; i++) {
    if (pz_bits_has(&x->deferred, i)) continue;
    if (x->image[i] != i && g->rank[i] < g->rank[a])
      return false; /* a guard: this has not been observed */
    if (!has_image(x, &g->before[i], &g->before[x->image[i]])) return false;
  }
  return true;
}

void pz_automorphisms(struct pz_branching *g, const bool *deferred) {
  struct automorphism x = {.g = g};
  if (!g->c->o->automorphisms) return;
  g->c->count[PZ_T_automorphisms].calls++;
  for (uint32_t i = 0; deferred && i < g->p->n; i++)
    if (deferred[i]) pz_bits_set(&x.deferred, i);
  for (uint32_t b = 0; b < g->p->n; b++)
    for (uint32_t a = 0; a < g->p->n; a++)
      if (g->rank[a] < g->rank[b] && !pz_bits_has(&x.deferred, a) && !pz_bits_has(&x.deferred, b) &&
          pz_branching_same(g, &g->before[a], &g->before[b]) &&
          !pz_branching_same(g, &g->after[a], &g->after[b]) && same_modes(g, a, b) &&
          exchange_tasks(&x, a, b)) {
        pz_bits_set(&g->interchangeable[b], a);
        g->c->count[PZ_T_automorphisms].prunes++;
      }
}
