/* Internal state of a search and of one of its objective runs, shared by the files that run it. */
#ifndef PZ_SEARCH_STATE_H
#define PZ_SEARCH_STATE_H

#include <pthread.h>

#include "core/map.h"
#include "core/vec.h"
#include "search/tighten.h"

struct pz_search {
  struct pz_search_question q;
  struct pz_pool *pool;
  pthread_mutex_t lock; /* of what is known: */
  struct pz_map map;    /* to indices of: */
  struct pz_vec known;  /* struct pz_found_step */
  struct pz_arena arena;
};

enum { PZ_MOST_ROUND = 64 };

/* An open box with an upper bound on its chips; with PZ_EFFORT_FULL one chip, evaluated with less. */
struct pz_open_box {
  struct pz_box box;
  double bound, value;
  uint64_t serial;
  enum pz_effort effort;
  bool dives; /* one of its chips is tried */
};

/* What a thread makes of a box. */
struct pz_outcome {
  struct pz_arena arena;
  struct pz_vec boxes, children, known; /* struct pz_closed_box, pz_open_box, pz_known */
  struct pz_box candidate;              /* one chip, if value is above 0 */
  double value;
  bool priced;
  enum pz_status status;
  struct pz_error err;
};

struct pz_driver;
typedef enum pz_status pz_round_fn(struct pz_driver *d, const struct pz_box_task *t, size_t i,
                                   struct pz_outcome *x);

struct pz_driver {
  struct pz_search *s;
  struct pz_objective_run *run;
  uint32_t number, at_round; /* of the store */
  bool replays;              /* the store may have the next round */
  bool cheap;                /* see pz_evaluator_ops */
  bool ties;                 /* of chips with equal values the smaller is better */
  bool over;                 /* its time is */
  double best_mm2, start_s;
  double closed_bound; /* the largest of a closed box that is within the limits */
  struct pz_arena arena;
  struct pz_vec heap;   /* struct pz_open_box: the one with the largest bound is first */
  struct pz_vec closed; /* struct pz_closed_box */
  pz_round_fn *fn;
  uint32_t n_round;
  uint64_t serial;
  struct pz_open_box round[PZ_MOST_ROUND];
  struct pz_outcome outcome[PZ_MOST_ROUND];
};

PZ_NODISCARD enum pz_status pz_search_learn(struct pz_search *s, const struct pz_found_step *k,
                                            struct pz_error *err);

/* An empty one, whose arena is the caller's to release. */
void pz_outcome_begin(struct pz_outcome *x);

/* An outcome as bytes, which are the same wherever it was found (ctx: struct pz_driver). */
void pz_outcome_pack(void *ctx, size_t i, struct pz_buffer *out);
PZ_NODISCARD enum pz_status pz_outcome_unpack(void *ctx, size_t i, struct pz_bytes *in);

/* Is it one of work on this box: within it, and as many chips closed or left open as it has?  Not `whole`: none is, for a
 * chip of it was tried. */
bool pz_outcome_is_of(const struct pz_outcome *x, const struct pz_box *box, bool whole);

#endif
