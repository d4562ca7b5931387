/* Two-machine partition bound: a lower bound for two cores of a kind, by dynamic programming over
 * the difference of loads (number partitioning, Karp 1972; P2||Cmax).
 *
 * Without precedence, each task runs on one of the two cores or on both.  The makespan is the time
 * of those on both, plus half of the sum of the others, plus half of the difference of the two
 * loads.  So the bound is the minimum over all differences that sums of the tasks' times can make.
 * Times must be multiples of a unit, and few enough. */
#include <stdlib.h>

#include "schedule/bound/root_bound.h"

/* The largest product of differences and modes for which the bound is computed. */
enum { MAX_PARTITION_WORK = 2000000 };

/* By difference of the two loads, the least of twice the makespan minus that difference. */
struct partition {
  int64_t *now, *next;
  uint32_t most; /* the largest difference */
};

static int64_t time_units(const struct pz_context *c, double s) {
  return (int64_t)(s / c->time_unit + 0.5);
}

static void lower_to(int64_t *at, int64_t cost) {
  if (cost < *at) *at = cost;
}

/* Adds a task in every mode, and on either core. */
static void add_task(const struct pz_context *c, struct partition *x, uint32_t i, int r) {
  const struct pz_task *t = &c->p->tasks[i];
  for (uint32_t d = 0; d <= x->most; d++) x->next[d] = INT64_MAX;
  for (uint32_t m = 0; m < t->n_modes; m++) {
    if (c->eliminated[c->mode_at[i] + m]) continue;
    int64_t s = time_units(c, t->modes[m].s);
    for (int64_t d = 0; d <= x->most; d++) {
      if (x->now[d] == INT64_MAX) continue;
      if (t->modes[m].use[r] == 1) {
        if (d + s <= x->most) lower_to(&x->next[d + s], x->now[d] + s);
        lower_to(&x->next[llabs(d - s)], x->now[d] + s);
      } else {
        lower_to(&x->next[d], x->now[d] + s * t->modes[m].use[r]);
      }
    }
  }
  int64_t *swap = x->now;
  x->now = x->next;
  x->next = swap;
}

/* The largest load of one core, which the difference cannot exceed. */
static int64_t most_on_one(const struct pz_context *c, int r) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < c->p->n; i++) {
    int64_t most = 0;
    for (uint32_t m = 0; m < c->p->tasks[i].n_modes; m++) {
      const struct pz_mode *mode = &c->p->tasks[i].modes[m];
      if (mode->use[r] == 1 && time_units(c, mode->s) > most) most = time_units(c, mode->s);
    }
    sum += most;
  }
  return sum;
}

static double partition_bound(const struct pz_context *c, struct partition *x, int r) {
  int64_t least = INT64_MAX;
  for (uint32_t d = 0; d <= x->most; d++) x->now[d] = d ? INT64_MAX : 0;
  for (uint32_t i = 0; i < c->p->n; i++) add_task(c, x, i, r);
  for (uint32_t d = 0; d <= x->most; d++)
    if (x->now[d] < INT64_MAX) lower_to(&least, x->now[d] + d);
  return least < INT64_MAX ? 0.5 * (double)least * c->time_unit : 0;
}

void pz_two_machine_bound(struct pz_context *c) {
  if (!c->o->two_machine_bound) return;
  for (int r = 0; r < PZ_RESOURCES && c->time_unit > 0; r++) {
    if (c->p->capacity[r] != 2) continue;
    int64_t most = most_on_one(c, r);
    if (most * (int64_t)c->n_modes > MAX_PARTITION_WORK) continue;
    struct pz_arena arena;
    pz_arena_init(&arena, c->arena->mem);
    struct partition x = {.most = (uint32_t)most};
    x.now = pz_arena_alloc(&arena, (size_t)most + 1, sizeof *x.now);
    x.next = pz_arena_alloc(&arena, (size_t)most + 1, sizeof *x.next);
    c->count[PZ_T_two_machine_bound].calls++;
    if (x.now && x.next) pz_update_bound(c, partition_bound(c, &x, r), PZ_T_two_machine_bound);
    pz_arena_release(&arena);
  }
}
