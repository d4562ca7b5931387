/* State store of the best-first search: its open list of partial schedules just after a start,
 * ordered by number of started tasks and bound, and indexed by the set of started tasks to find
 * dominated ones. */
#ifndef PZ_SCHEDULE_TREE_STATE_STORE_H
#define PZ_SCHEDULE_TREE_STATE_STORE_H

#include "schedule/tree/partial.h"

enum { PZ_STATE_BUCKETS = 512 };

struct pz_state {
  const struct pz_state *parent;
  struct pz_state *below;     /* in its bucket */
  struct pz_state *next_same; /* in its list, newest first */
  double bound, t;
  double next, last; /* end of what runs */
  double regret_s;   /* of the last idle point before it */
  struct pz_bits started, ready;
  double left_s, alone_s; /* as in a partial schedule */
  bool dominated;
  bool fresh; /* see best_first.c */
  uint32_t n_running;
  struct pz_running run[];
};

struct pz_state_store {
  const struct pz_branching *g;
  struct pz_arena *arena;
  struct pz_state *candidate; /* to become one */
  struct pz_state **bucket;   /* by number of tasks started, and by bound from low_s on */
  int *lowest;                /* by number of tasks started: no bucket below this has states */
  struct pz_state **list;     /* by hash of tasks started */
  uint32_t n_lists, n;
  double low_s, high_s;
};

/* For a search of so many steps.  False: no memory. */
bool pz_state_store_init(struct pz_state_store *x, const struct pz_branching *g, int64_t steps,
                         struct pz_arena *arena);

size_t pz_state_bytes(uint32_t n_running);
void pz_state_fill(struct pz_state *s, const struct pz_state *parent, const struct pz_partial *n);

/* Does a state dominate the candidate?  Those that the candidate dominates are taken no more. */
bool pz_state_store_dominates(struct pz_state_store *x);
/* The candidate becomes a state.  False: no memory. */
bool pz_state_store_add(struct pz_state_store *x);

/* Of the states with so many tasks started one of the lowest bucket, up to `most`, that may still
 * lead to a better schedule; NULL: there is none. */
struct pz_state *pz_state_store_take(struct pz_state_store *x, uint32_t started, int most);
/* States in buckets from this on have no lower bound. */
double pz_state_store_bound(const struct pz_state_store *x, int bucket);

#endif
