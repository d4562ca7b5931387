/* Thread pool: one parallel loop at a time over independent items.  Which thread works on which
 * item is not determined, so each item stores its result in memory of its own. */
#ifndef PZ_CORE_POOL_H
#define PZ_CORE_POOL_H

#include "core/call.h"

struct pz_pool;

/* Works on item i.  `worker` is the index of the thread, 0 .. threads-1. */
typedef void pz_pool_fn(void *ctx, size_t i, unsigned worker);

/* Returns a pool of `threads` threads, including that of the caller; 0 stands for the number of
 * processors.  If not all threads can be started, the pool has fewer.  It is freed when the call
 * ends; an owner that outlives the call takes it over with pz_undefer(). */
struct pz_pool *pz_pool_open(struct pz_call *call, unsigned threads);
void pz_pool_free(void *pool);
unsigned pz_pool_threads(const struct pz_pool *pool);

/* Runs fn for i = 0 .. n-1 and waits until all are done.  fn must not raise, nor use the pool. */
void pz_pool_for(struct pz_pool *pool, size_t n, pz_pool_fn *fn, void *ctx);

/* Works on item i within a call of its own, whose memory is released when the item is done. */
typedef void pz_task_fn(struct pz_call *task, void *ctx, size_t i, unsigned worker);

/* Runs fn for i = 0 .. n-1, on this thread if pool is NULL.  If items raise errors, that of the
 * lowest is raised after all threads have stopped; higher items may have been left out. */
void pz_pool_run(struct pz_call *call, struct pz_pool *pool, size_t n, pz_task_fn *fn, void *ctx);

#endif
