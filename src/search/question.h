/* What a search is asked, and what it answers. */
#ifndef PZ_SEARCH_QUESTION_H
#define PZ_SEARCH_QUESTION_H

#include "core/progress.h"
#include "core/ranks.h"
#include "search/objective.h"

/* One line of the portfolio. */
struct pz_search_entry {
  struct pz_evaluator *by;
  uint32_t model;   /* of the evaluator's own list */
  const char *name; /* for people */
};

/* What rounds found, kept outside: bytes that only this search reads.  `run` counts objective runs from 0, `round` their
 * rounds from 0.  Calls come from one thread. */
struct pz_round_store {
  void *ctx;
  /* The bytes of a round that was kept, to be given back with pz_free; b->text NULL: there is none. */
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
  double seconds;                     /* a run ends after these; 0: none */
  bool exhaustive;                    /* evaluate every chip within the limits */
  const struct pz_round_store *store; /* NULL: none, or that of another rank */
  struct pz_progress *progress;       /* NULL: none */
  const atomic_bool *stop;            /* NULL, or ends the search soon when true */
  struct pz_ending *ending; /* where its evaluators see that a run is to end; NULL: none */
};

/* One question: the best chip by one objective. */
struct pz_objective_run {
  struct pz_objective objective;
  int64_t most_rounds; /* 0: until the gap is proved */
  bool found;
  struct pz_point best;
  double value, bound;               /* of the best; no chip of the space is above the bound */
  const struct pz_closed_box *boxes; /* the certificate: every chip of the space once */
  uint32_t n_boxes;
  int64_t chips, closed;          /* of the space; in closed boxes */
  int64_t infeasible, by_bound;   /* in boxes closed by limits, by bounds alone */
  uint32_t n_evaluated, n_partly; /* chips: with every model; with some, until they could not win */
  uint32_t n_open;         /* schedules of chips above the best that are not proven optimal */
  uint64_t rounds, priced; /* of boxes; boxes whose bound was found */
  bool finished;           /* nothing is open */
};

/* What is known of an entry on a chip. */
struct pz_found_step {
  uint64_t id;
  uint32_t entry;
  struct pz_evaluation e;
};

#endif
