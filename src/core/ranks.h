/* Ranks: processes that run the same command on the same inputs and divide the work of its rounds.
 *
 * Every rank makes every decision itself, from the same data.  What one rank has computed or read
 * reaches the others by an exchange, and all ranks make the same exchanges in the same order, so
 * the result does not depend on the number of ranks.  Only rank 0 owns files and streams.  A rank
 * that fails joins the next exchange with its error, which all ranks then raise.
 *
 * A program with several ranks sets the transport of bytes with pz_ranks_use(), as the command does
 * under mpirun; otherwise there is one rank.  All machines have the same architecture, so structs
 * are exchanged as they are in memory. */
#ifndef PZ_CORE_RANKS_H
#define PZ_CORE_RANKS_H

#include <stdatomic.h>

#include "core/buffer.h"
#include "core/pool.h"

/* The contribution of one rank to an exchange: bytes, unless it failed. */
struct pz_ranks_part {
  const char *bytes;
  size_t n;
  const struct pz_error *error; /* NULL if none; with PZ_STOPPED the bytes are sent, too */
};

/* Receives the bytes that another rank contributed. */
typedef void pz_ranks_receive(struct pz_call *call, void *receiver, unsigned rank,
                              const char *bytes, size_t n);

struct pz_ranks {
  unsigned rank, size;
  void *ctx;
  /* Returns the position of an item that no rank has begun yet in the order of a round of n
   * items, or n if none remains.  Any thread may call it; which rank gets which item is
   * undetermined. */
  size_t (*next_item)(void *ctx, size_t n);
  /* Ends the round and sends the parts of all ranks to all ranks: calls `receive` for the parts of
   * the other ranks, in order.  Raises the error of the lowest rank that has one, on all ranks. */
  void (*exchange)(struct pz_call *call, void *ctx, const struct pz_ranks_part *own,
                   pz_ranks_receive *receive, void *receiver);
  /* Returns zeroed memory that all ranks of a node share until the program ends, or NULL if that is
   * impossible or this is the only rank of its node.  This is an exchange: all ranks call it.  May
   * be NULL. */
  void *(*shared_memory)(struct pz_call *call, void *ctx, size_t bytes);
};

/* Sets the transport of the process, which must outlive the work; NULL stands for one rank. */
void pz_ranks_use(const struct pz_ranks *ranks);

unsigned pz_ranks_size(void);

/* Returns whether this process is rank 0. */
bool pz_ranks_first(void);

/* Returns memory that the ranks of a node share (struct pz_ranks), or NULL. */
void *pz_ranks_shared_memory(struct pz_call *call, size_t bytes);

/* Runs fn(call, ctx) on rank 0 alone, at a border of its own, and sends the text that it has
 * appended to *text to the empty buffers of the other ranks.  A buffer without text remains so;
 * `text` may be NULL.  If fn raises an error, all ranks raise it. */
void pz_ranks_run_first(struct pz_call *call, pz_call_fn *fn, void *ctx, struct pz_buffer *text);

/* Returns the flag of rank 0, on all ranks. */
bool pz_ranks_flag_of_first(struct pz_call *call, bool flag);

/* Raises PZ_BAD_INPUT if the ranks have different texts; `what` names the texts. */
void pz_ranks_require_same(struct pz_call *call, const char *what, const char *text);

/* The bytes of a message that have not been read yet. */
struct pz_bytes {
  const char *at;
  size_t left;
};

/* Copies the next n bytes to *out, or returns false if fewer remain. */
bool pz_bytes_read(struct pz_bytes *bytes, void *out, size_t n);

/* A round of independent items.  `work` stores the result of an item in memory of that item.  The
 * rank that did the work packs the result, and the others unpack it into the same place.  With one
 * rank neither `pack` nor `unpack` is called. */
struct pz_round {
  void *ctx;
  size_t n;
  pz_task_fn *work;
  void (*pack)(struct pz_call *call, void *ctx, size_t i, struct pz_buffer *out);
  /* Raises PZ_BAD_INPUT if the bytes are not a result. */
  void (*unpack)(struct pz_call *call, void *ctx, size_t i, struct pz_bytes *in);
  const atomic_bool *stop; /* items are left out once it is true; may be NULL */
  /* An order in which items that profit from the same cached results are neighbours, so that one
   * rank is likely to work on them.  May be NULL. */
  const uint32_t *order;
};

/* Runs all items on the threads of all ranks, or on their calling threads if `pool` is NULL.
 * errors[i] receives the error of item i on all ranks; it is zero if there was none.  Raises
 * PZ_STOPPED if any rank was stopped; the items that were done have their results nevertheless. */
void pz_round_run(struct pz_call *call, struct pz_pool *pool, const struct pz_round *round,
                  struct pz_error *errors);

#endif
