/* Ranks: processes that run the same command on the same inputs and divide the work of its rounds.
 *
 * Every rank takes every decision itself, from the same data: what one rank alone has worked out or
 * read comes to all others by an exchange, and all ranks make the same exchanges in the same order.
 * So the state after a round does not depend on how many ranks there are.  Rank 0 alone owns files
 * and streams.
 *
 * How bytes travel is not known here: a program that has ranks says so with pz_ranks_use (the
 * command does, under mpirun); without it there is one.  Ranks run the same program on machines of
 * one kind, so plain structs travel as they lie in memory. */
#ifndef PZ_CORE_RANKS_H
#define PZ_CORE_RANKS_H

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/pool.h"

/* What one rank brings to an exchange.  A rank that failed brings the status and its message. */
struct pz_ranks_part {
  enum pz_status status;
  const char *bytes;
  size_t n;
};

typedef enum pz_status pz_ranks_take(void *into, unsigned rank, const char *bytes, size_t n);

struct pz_ranks {
  unsigned rank, size;
  void *ctx;
  /* The place of an item in the order of a round of n that no rank has taken; n: there is none.
   * Called by any thread.  Who takes which is not determined, but each rank begins with a part of
   * the order that is its own. */
  size_t (*next)(void *ctx, size_t n);
  /* All parts to all ranks, and the round ends: `take` is called for the others', by rank.  Then the status of the first
   * rank that has another than PZ_OK, with its message; the same on all ranks. */
  enum pz_status (*exchange)(void *ctx, const struct pz_ranks_part *mine, pz_ranks_take *take,
                             void *into, struct pz_error *err);
  /* NULL, or: memory of zeroes that all ranks of a node see, until the program ends; NULL where it cannot be had, or this
   * is the only rank of its node.  All ranks ask for it alike: this is an exchange. */
  enum pz_status (*shared)(void *ctx, size_t bytes, void **out, struct pz_error *err);
  void (*begin)(void *ctx),
      (*end)(void *ctx); /* NULL, or called around each item: for benchmarks */
};

/* For the whole process, before any work; NULL: one rank.  Borrowed. */
void pz_ranks_use(const struct pz_ranks *ranks);

/* True: from here on rank 0 works as if there were no others, which wait for it, until false. */
void pz_ranks_alone(bool alone);

unsigned pz_ranks_size(void);
bool pz_ranks_first(void); /* is this rank 0? */

/* Memory of a node's ranks, as struct pz_ranks has it; one rank has none. */
PZ_NODISCARD enum pz_status pz_ranks_shared(size_t bytes, void **out, struct pz_error *err);

/* Rank 0's bytes to all: the others' buffers are empty and get them.  `status` and err are rank 0's:
 * where it failed all ranks fail alike.  A buffer without text stays one. */
PZ_NODISCARD enum pz_status pz_ranks_share(struct pz_buffer *b, enum pz_status status,
                                           struct pz_error *err);
PZ_NODISCARD enum pz_status pz_ranks_share_flag(bool *flag, struct pz_error *err);

/* PZ_BAD_INPUT where a rank has another text. */
PZ_NODISCARD enum pz_status pz_ranks_same(const char *what, const char *text, struct pz_error *err);

/* ---- rounds --------------------------------------------------------------------------------- */

/* Bytes that are read from the front. */
struct pz_bytes {
  const char *at;
  size_t left;
};

/* False: there are not so many. */
bool pz_bytes_take(struct pz_bytes *b, void *out, size_t n);

/* Independent items.  What `work` leaves in the item's own place is packed on the rank that did it
 * and unpacked on all others; with one rank neither is called. */
struct pz_round {
  void *ctx;
  size_t n;
  pz_pool_fn *work;
  void (*pack)(void *ctx, size_t i, struct pz_buffer *out);           /* out->failed: no memory */
  enum pz_status (*unpack)(void *ctx, size_t i, struct pz_bytes *in); /* PZ_BAD_INPUT: not it */
  const atomic_bool *stop; /* NULL, or items were left out when it is true */
  /* NULL, or an order in which items that share what is cached stand together: the same rank is then
   * likely to take them. */
  const uint32_t *order;
};

/* All items, on the threads of all ranks; with no pool on their calling threads, one at a time.  PZ_STOPPED where any rank was stopped: what was done is
 * there nevertheless. */
PZ_NODISCARD enum pz_status pz_round_run(struct pz_pool *pool, const struct pz_round *r,
                                         struct pz_error *err);

#endif
