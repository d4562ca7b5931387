/* The question that a search is asked, and its answer. */
#ifndef PZ_SEARCH_QUESTION_H
#define PZ_SEARCH_QUESTION_H

#include "core/progress.h"
#include "core/ranks.h"
#include "search/objective.h"

/* One entry of the portfolio. */
struct pz_search_entry {
  struct pz_evaluator *by;
  uint32_t model;   /* index in the evaluator's own list */
  const char *name; /* for people */
};

/* Storage of the outcomes of rounds, as bytes whose meaning only the search knows.  `run` and `round` count the
 * objective runs, and the rounds of each, from 0.  All calls come from one thread. */
struct pz_round_store {
  void *ctx;
  /* Appends the bytes of a stored round to *b, whose text the caller frees with pz_free().  b->text stays NULL if the
   * round is not stored. */
  enum pz_status (*read)(void *ctx, uint32_t run, uint32_t round, struct pz_buffer *b,
                         struct pz_error *err);
  enum pz_status (*keep)(void *ctx, uint32_t run, uint32_t round, const struct pz_buffer *b,
                         struct pz_error *err);
};

struct pz_search_question {
  const struct pz_space *space;
  struct pz_limits limits;
  struct pz_search_entry entries[PZ_SEARCH_MOST_MODELS];
  uint32_t n_entries;
  double gap;                         /* 0.01: a chip that is better by 1% may be missed */
  double seconds;                     /* time limit of a run; 0: none */
  bool exhaustive;                    /* evaluate every chip within the limits */
  const struct pz_round_store *store; /* NULL: none, or another rank has it */
  struct pz_progress *progress;       /* may be NULL */
  const atomic_bool *stop;            /* may be NULL; ends the search soon when true */
  struct pz_ending *ending;           /* may be NULL; tells the evaluators when a run has to end */
};

/* One objective: the search for its best chip. */
struct pz_objective_run {
  struct pz_objective objective;
  int64_t most_rounds; /* 0: until the gap is proved */
  bool found;
  struct pz_point best;
  double value; /* of the best chip */
  double bound; /* no chip of the space is above it */
  const struct pz_closed_box
      *boxes; /* the certificate: every chip of the space in exactly one box */
  uint32_t n_boxes;
  int64_t chips;                /* of the space */
  int64_t closed;               /* chips in closed boxes */
  int64_t infeasible, by_bound; /* chips in boxes that limits alone, or bounds alone, closed */
  uint32_t n_evaluated,
      n_partly;    /* chips evaluated with every model; with some, until they could not win */
  uint32_t n_open; /* schedules, not proved optimal, of chips whose bound is above the best */
  uint64_t rounds, priced; /* rounds of boxes; boxes whose bound was computed */
  bool finished;           /* no box is open */
};

/* The evaluation of an entry on a chip. */
struct pz_found_step {
  uint64_t id; /* of the chip in the space */
  uint32_t entry;
  struct pz_evaluation e;
};

#endif
