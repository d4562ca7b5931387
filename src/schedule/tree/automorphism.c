/* Automorphisms: pairs of tasks that can be exchanged together with all their successors (symmetry
 * breaking by lexicographic order, Crawford et al. 1996).
 *
 * Examples are the query and key sides of a layer, or its experts.  Every schedule then has an
 * image of the same makespan, and only those need be searched in which the first task of one side,
 * of lower rank than all exchanged tasks, starts no later than that of the other.  (The optimal
 * schedule whose start times are lexicographically smallest by rank is among them; it also obeys
 * the order of identical tasks.) */
#include "schedule/tree/automorphism.h"

#include "schedule/tree/branching.h"

struct automorphism {
  const struct pz_branching *g;
  const bool *deferred; /* by task: not there; NULL: none */
  uint32_t image[PZ_TREE_MOST_TASKS];
};

static bool same(const struct automorphism *x, const struct pz_bits *a, const struct pz_bits *b) {
  return pz_branching_same(x->g, a, b);
}

static struct pz_bits image_of(const struct automorphism *x, const struct pz_bits *set) {
  struct pz_bits out = {{0}};
  for (int w = 0; w < x->g->words; w++)
    for (uint64_t left = set->w[w]; left; left &= left - 1)
      pz_bits_set(&out, x->image[64 * w + __builtin_ctzll(left)]);
  return out;
}

/* May the tasks be exchanged, if all before them is? */
static bool may_swap(const struct automorphism *x, uint32_t i, uint32_t k) {
  struct pz_bits before = image_of(x, &x->g->before[i]);
  return same(x, &before, &x->g->before[k]) && pz_branching_same_modes(x->g, i, k);
}

/* A task that comes after a alone gets one that comes after b alone. */
static bool find_image(struct automorphism *x, uint32_t i, struct pz_bits *others) {
  for (uint32_t k = 0; k < x->g->p->n; k++) {
    if (!pz_bits_has(others, k) || !may_swap(x, i, k)) continue;
    pz_bits_clear(others, k);
    x->image[i] = k;
    x->image[k] = i;
    return true;
  }
  return false;
}

static bool is_there(const struct automorphism *x, uint32_t i) {
  return !x->deferred || !x->deferred[i];
}

static void leave_out_deferred(const struct automorphism *x, struct pz_bits *set) {
  for (uint32_t i = 0; i < x->g->p->n; i++)
    if (!is_there(x, i)) pz_bits_clear(set, i);
}

/* Exchange a and b and what comes after only one of them; then all must be as it was. */
static bool exchange(struct automorphism *x, uint32_t a, uint32_t b) {
  const struct pz_branching *g = x->g;
  struct pz_bits after_a = pz_bits_minus(&g->after[a], &g->after[b]);
  struct pz_bits after_b = pz_bits_minus(&g->after[b], &g->after[a]);
  leave_out_deferred(x, &after_a);
  leave_out_deferred(x, &after_b);
  if (pz_bits_count(&after_a) != pz_bits_count(&after_b)) return false;
  for (uint32_t i = 0; i < g->p->n; i++) x->image[i] = i;
  x->image[a] = b;
  x->image[b] = a;
  for (uint32_t i = 0; i < g->p->n; i++)
    if (pz_bits_has(&after_a, i) && !find_image(x, i, &after_b)) return false;
  for (uint32_t i = 0; i < g->p->n; i++) {
    if (!is_there(x, i)) continue;
    if (x->image[i] != i && g->rank[i] < g->rank[a])
      return false; /* a guard: it has not been seen */
    struct pz_bits before = image_of(x, &g->before[i]);
    if (!same(x, &before, &g->before[x->image[i]])) return false;
  }
  return true;
}

void pz_automorphisms(struct pz_branching *g, const bool *deferred) {
  struct automorphism x = {.g = g, .deferred = deferred};
  if (!g->c->o->automorphisms) return;
  g->c->count[PZ_T_automorphisms].calls++;
  for (uint32_t b = 0; b < g->p->n; b++)
    for (uint32_t a = 0; a < g->p->n; a++)
      if (g->rank[a] < g->rank[b] && is_there(&x, a) && is_there(&x, b) &&
          same(&x, &g->before[a], &g->before[b]) && !same(&x, &g->after[a], &g->after[b]) &&
          pz_branching_same_modes(g, a, b) && exchange(&x, a, b)) {
        pz_bits_set(&g->interchangeable[b], a);
        g->c->count[PZ_T_automorphisms].prunes++;
      }
}
