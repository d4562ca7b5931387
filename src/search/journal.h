/* What a search keeps while it runs, where, and how it is told to stop. */
#ifndef PZ_SEARCH_JOURNAL_H
#define PZ_SEARCH_JOURNAL_H

#include <stdatomic.h>

#include "core/progress.h"
#include "search/evaluate.h"

/* An evaluation as it is kept: everything is evaluated with the most memory there is to choose. */
struct pz_entry {
  uint32_t id, model;     /* of the space, of the portfolio */
  uint32_t objective_run; /* in which it was made, from 1; PZ_NO_RUN: beside them */
  struct pz_evaluation e;
};

enum { PZ_NO_RUN = INT32_MAX };

/* Where a search keeps what it has found, so that it can go on after an interruption.  Calls come
 * from one thread; each may fail, which ends the search. */
struct pz_journal {
  void *ctx;
  /* Every evaluation kept earlier, by calling `take`, which copies. */
  enum pz_status (*recall)(void *ctx,
                           enum pz_status (*take)(void *into, const struct pz_entry *entry),
                           void *into, struct pz_error *err);
  enum pz_status (*evaluated)(void *ctx, const struct pz_entry *entry, struct pz_error *err);
  enum pz_status (*commit)(void *ctx, struct pz_error *err); /* what came since is safe */
};

struct pz_search_options {
  bool exhaustive;                  /* exclude nothing by bounds */
  bool boxes;                       /* bound boxes of chips before single ones */
  const struct pz_journal *journal; /* NULL: none */
  struct pz_progress *progress;     /* NULL: none */
  const atomic_bool *stop;          /* NULL, or ends the search soon when true */
};

#endif
