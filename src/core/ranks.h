/* Ranks: processes that run the same command on the same inputs and divide the work of its rounds.
 *
 * Every rank makes every decision itself, from the same data.  What one rank alone has computed or read reaches all others by
 * an exchange, and all ranks make the same exchanges in the same order, so the state after a round does not depend on the
 * number of ranks.  Only rank 0 owns files and streams.
 *
 * This file does not know how bytes are transported.  A program with several ranks sets the transport with pz_ranks_use() (the
 * command does so under mpirun); otherwise there is one rank.  Ranks run the same program on machines of one kind, so structs
 * are exchanged as they are in memory. */
#ifndef PZ_CORE_RANKS_H
#define PZ_CORE_RANKS_H

#include <stdatomic.h>

#include "core/alloc.h"
#include "core/pool.h"

/* The contribution of one rank to an exchange.  A rank that failed contributes its status and message. */
struct pz_ranks_part {
  enum pz_status status;
  const char *bytes;
  size_t n;
};

typedef enum pz_status pz_ranks_take(void *into, unsigned rank, const char *bytes, size_t n);

struct pz_ranks {
  unsigned rank, size;
  void *ctx;
  /* Takes an item that no rank has taken yet: its position in the order of a round of n items, or n if none remains.  Any
   * thread may call it.  Which rank takes which item is not determined, but each rank begins with a part of its own. */
  size_t (*next)(void *ctx, size_t n);
  /* Ends the round and sends all parts to all ranks: calls `take` for the parts of the other ranks, in order.  Returns the
   * status of the first rank whose status is not PZ_OK, with its message, on all ranks. */
  enum pz_status (*exchange)(void *ctx, const struct pz_ranks_part *mine, pz_ranks_take *take,
                             void *into, struct pz_error *err);
  /* Provides zeroed memory that all ranks of a node share until the program ends, or NULL if that is impossible or this is the
   * only rank of its node.  This is an exchange: all ranks call it.  May be NULL. */
  enum pz_status (*shared)(void *ctx, size_t bytes, void **out, struct pz_error *err);
  void (*begin)(void *ctx),
      (*end)(void *ctx); /* called around each item, for benchmarks; may be NULL */
};

/* Sets the transport of the process before any work begins; NULL stands for one rank.  *ranks must outlive the work. */
void pz_ranks_use(const struct pz_ranks *ranks);

/* Between calls with true and false, rank 0 works as if there were no other ranks, and they wait for it. */
void pz_ranks_alone(bool alone);

unsigned pz_ranks_size(void);
bool pz_ranks_first(void); /* Is this rank 0? */

/* Memory that the ranks of a node share (struct pz_ranks).  *out is NULL with a single rank. */
PZ_NODISCARD enum pz_status pz_ranks_shared(size_t bytes, void **out, struct pz_error *err);

/* Sends the bytes of rank 0 to the empty buffers of the other ranks.  `status` and err are those of rank 0: if it failed, all ranks
 * fail with the same error.  A buffer without text remains so. */
PZ_NODISCARD enum pz_status pz_ranks_share(struct pz_buffer *b, enum pz_status status,
                                           struct pz_error *err);
PZ_NODISCARD enum pz_status pz_ranks_share_flag(bool *flag, struct pz_error *err);

/* Returns PZ_BAD_INPUT if the ranks have different texts. */
PZ_NODISCARD enum pz_status pz_ranks_same(const char *what, const char *text, struct pz_error *err);

/* ---- rounds --------------------------------------------------------------------------------- */

/* Bytes of a message that are read from the front. */
struct pz_bytes {
  const char *at;
  size_t left;
};

/* Reads n bytes, or returns false if fewer remain. */
bool pz_bytes_take(struct pz_bytes *b, void *out, size_t n);

/* A round of independent items.  `work` stores its result in a place of the item's own, from where the rank that did the work packs
 * it, and where all others unpack it.  With one rank neither is called. */
struct pz_round {
  void *ctx;
  size_t n;
  pz_pool_fn *work;
  void (*pack)(void *ctx, size_t i, struct pz_buffer *out); /* out->failed if memory ran out */
  enum pz_status (*unpack)(void *ctx, size_t i,
                           struct pz_bytes *in); /* PZ_BAD_INPUT if the bytes are not a result */
  const atomic_bool *stop; /* may be NULL; items were left out if it is true */
  /* An order in which items that profit from the same cached results are neighbours, so that one rank is likely to take them.
   * May be NULL. */
  const uint32_t *order;
};

/* Runs all items on the threads of all ranks, or on their calling threads if there is no pool.  Returns PZ_STOPPED if any rank was
 * stopped; the results of the items that were done are there nevertheless. */
PZ_NODISCARD enum pz_status pz_round_run(struct pz_pool *pool, const struct pz_round *r,
                                         struct pz_error *err);

#endif
