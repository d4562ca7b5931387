/* Internal state of a search and of one of its objective runs, shared by search.c and outcome.c. */
#ifndef PZ_SEARCH_STATE_H
#define PZ_SEARCH_STATE_H

#include <pthread.h>

#include "core/map.h"
#include "core/vec.h"
#include "search/tighten.h"

struct pz_search {
  struct pz_search_question question;
  struct pz_pool *pool;
  pthread_mutex_t lock;      /* protects known, known_index and the arena */
  struct pz_map known_index; /* from struct step_key (search.c) to the index in known */
  struct pz_vec known;       /* struct pz_found_step */
  struct pz_arena *arena;    /* memory that lives as long as the search */
};

enum { PZ_MOST_ROUND = 64 }; /* maximum number of boxes of a round */

/* An open box with an upper bound on the value of its chips.  With PZ_EFFORT_FULL it is one chip
 * that was evaluated with less effort, and whose value is known. */
struct pz_open_box {
  struct pz_box box;
  double bound, value;
  uint64_t serial; /* open boxes are numbered in the order in which they were found */
  enum pz_effort effort;
  bool tries_greedy_chip; /* a chip that pz_box_greedy() finds in the box is to be evaluated */
};

/* The result of processing a box. */
struct pz_outcome {
  struct pz_arena arena;
  struct pz_vec boxes;     /* the closed parts of the box: struct pz_closed_box */
  struct pz_vec children;  /* the parts that stay open: struct pz_open_box */
  struct pz_vec known;     /* new evaluations: struct pz_found_step */
  struct pz_box candidate; /* box of one chip, the candidate for the best, if value is above 0 */
  double value;
  bool priced; /* a bound of the box was computed */
};

struct pz_driver;

/* Processes box i of a round. */
typedef void pz_round_fn(struct pz_call *call, struct pz_driver *driver,
                         const struct pz_box_task *task, size_t i, struct pz_outcome *outcome);

/* An objective run while it is in progress. */
struct pz_driver {
  struct pz_search *search;
  struct pz_objective_run *run;
  uint32_t number, at_round; /* numbers of the objective run, and of its next round, in the store */
  bool replays;              /* the store may have the outcomes of the next round */
  bool has_cheap_bounds;     /* see struct pz_evaluator_ops */
  bool smaller_wins_ties;    /* among chips with equal values, the smaller is better */
  bool out_of_time;
  double best_mm2;                /* die area of the best chip */
  double start_s;                 /* time of pz_clock_s() when the run began */
  double closed_bound;            /* the largest bound of a closed box that is within the limits */
  struct pz_vec heap;             /* open boxes: struct pz_open_box, the largest bound first */
  struct pz_vec closed;           /* struct pz_closed_box */
  struct pz_buffer *stored_round; /* bytes of the round that is read from the store */
  uint64_t next_serial;           /* the serial number of the next open box */
  pz_round_fn *round_fn;          /* processes a box of the current round */
  uint32_t n_round;
  struct pz_open_box round[PZ_MOST_ROUND];
  struct pz_outcome outcomes[PZ_MOST_ROUND];
  struct pz_error errors[PZ_MOST_ROUND];
};

/* Makes *outcome empty.  The caller releases its arena. */
void pz_outcome_init(struct pz_outcome *outcome);

/* Writes outcome i as bytes, which are the same on every rank, and reads it from bytes.  Reading
 * raises PZ_BAD_INPUT for bytes that pz_outcome_pack() does not write.  Both are functions of
 * struct pz_round, whose ctx is a struct pz_driver. */
void pz_outcome_pack(struct pz_call *call, void *ctx, size_t i, struct pz_buffer *out);
void pz_outcome_unpack(struct pz_call *call, void *ctx, size_t i, struct pz_bytes *in);

/* Returns whether an outcome can belong to this box: all boxes of the outcome are within it.
 * With `covers_box` they must contain as many chips as the box; otherwise there must be none,
 * because only one chip of the box was evaluated. */
bool pz_outcome_is_of(const struct pz_outcome *outcome, const struct pz_box *box, bool covers_box);

#endif
