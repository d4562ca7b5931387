#include "schedule/tree/residual.h"

#include <string.h>

void pz_residual_find(const struct pz_branching *g, const struct pz_partial *n,
                      struct pz_residual *x) {
  const struct pz_running *order[PZ_TREE_MOST_TASKS];
  for (uint32_t i = 0; i < n->n_running; i++) {
    uint32_t at = i;
    for (; at > 0 && order[at - 1]->end > n->run[i].end; at--) order[at] = order[at - 1];
    order[at] = &n->run[i];
  }
  x->n = n->n_running;
  x->at[0] = n->t;
  memcpy(x->left[0], n->free, sizeof n->free);
  for (uint32_t i = 0; i < x->n; i++) {
    const int32_t *use = g->p->tasks[order[i]->task].modes[order[i]->mode].use;
    x->at[i + 1] = order[i]->end;
    for (int r = 0; r < PZ_RESOURCES; r++) x->left[i + 1][r] = x->left[i][r] + use[r];
  }
}
