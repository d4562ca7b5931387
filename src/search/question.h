/* The question that a search is asked, and its answer. */
#ifndef PZ_SEARCH_QUESTION_H
#define PZ_SEARCH_QUESTION_H

#include "core/progress.h"
#include "core/ranks.h"
#include "search/objective.h"

/* One entry of the portfolio: a model and how its training step on a chip is evaluated. */
struct pz_search_entry {
  struct pz_evaluator *evaluator;
  uint32_t model;   /* index of the model in the evaluator's list */
  const char *name; /* name of the entry in messages */
};

/* Storage of the outcomes of rounds, as bytes whose meaning only the search knows.  `run` and
 * `round` number the objective runs and their rounds from 0.  All calls come from one thread. */
struct pz_round_store {
  void *ctx;
  /* Appends the bytes of a round to *bytes; bytes->text stays NULL if the round is not stored. */
  void (*read)(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
               struct pz_buffer *bytes);
  void (*write)(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
                const struct pz_buffer *bytes);
};

/* The question: the space and its limits, the portfolio of models, and when the search ends. */
struct pz_search_question {
  const struct pz_space *space;
  struct pz_limits limits;
  struct pz_search_entry entries[PZ_SEARCH_MOST_MODELS];
  uint32_t n_entries;
  double gap;      /* relative gap: with 0.01, a chip that is better by 1% may be missed */
  double seconds;  /* time limit of a run, or 0 if none */
  bool exhaustive; /* evaluate every chip within the limits */
  /* storage of rounds, or NULL if there is none or another rank has it */
  const struct pz_round_store *store;
  struct pz_progress *progress; /* may be NULL */
  const atomic_bool *stop;      /* ends the search soon when it becomes true; may be NULL */
  struct pz_ending *ending;     /* tells the evaluators when a run has to end; may be NULL */
};

/* One objective, and the result of the search for its best chip. */
struct pz_objective_run {
  struct pz_objective objective;
  int64_t most_rounds; /* maximum number of rounds, or 0 to search until the gap is proved */
  bool found;
  struct pz_point best;
  double value; /* the objective of the best chip */
  double bound; /* no chip of the space has a higher value */
  /* The certificate: every chip of the space is in exactly one box. */
  const struct pz_closed_box *boxes;
  uint32_t n_boxes;
  int64_t chips;        /* all chips of the space */
  int64_t closed;       /* chips in closed boxes */
  int64_t infeasible;   /* chips in boxes that were closed because of a limit */
  int64_t by_bound;     /* chips in boxes that were closed because of their bound */
  uint32_t n_evaluated; /* chips evaluated with every model */
  uint32_t n_partly; /* chips evaluated with some models, until it was clear that they cannot win */
  /* schedules that are not proved optimal, on chips whose bound is above the best value */
  uint32_t n_open;
  uint64_t rounds; /* rounds of boxes that were processed */
  uint64_t priced; /* boxes whose bound was computed */
  bool finished;   /* the search ended with no open box */
};

/* The evaluation of an entry on a chip. */
struct pz_found_step {
  uint64_t chip_id; /* pz_space_id() */
  uint32_t entry;
  struct pz_evaluation evaluation;
};

#endif
