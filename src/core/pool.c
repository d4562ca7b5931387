/* Threads wait for the next loop (wait_for_loops) and take its items one after another in ascending
 * order (work_on_items).  pz_pool_run() adds a border to each item. */
#include "core/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/num.h"

enum { MOST_THREADS = 1024 };

struct worker {
  struct pz_pool *pool;
  pthread_t thread;
  unsigned index;
};

struct pz_pool {
  pthread_mutex_t lock;
  pthread_cond_t start, done;
  unsigned threads; /* including the caller */
  struct worker *workers;
  /* The current loop, which is changed only under the lock. */
  uint64_t round; /* the number of the current loop */
  unsigned busy;  /* workers that have not finished the current loop */
  bool quit;
  size_t n;
  pz_pool_fn *fn;
  void *ctx;
  atomic_size_t next; /* the first item that no thread has begun */
};

/* Works on items of the current loop until all are begun. */
static void work_on_items(struct pz_pool *pool, unsigned worker) {
  for (;;) {
    size_t i = atomic_fetch_add(&pool->next, 1);
    if (i >= pool->n) return;
    pool->fn(pool->ctx, i, worker);
  }
}

/* Runs on each thread but that of the caller: waits for loops and works on their items. */
static void *wait_for_loops(void *worker) {
  const struct worker *self = worker;
  struct pz_pool *pool = self->pool;
  uint64_t seen_round = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (pool->round == seen_round && !pool->quit) pthread_cond_wait(&pool->start, &pool->lock);
    if (pool->quit) break;
    seen_round = pool->round;
    pthread_mutex_unlock(&pool->lock);
    work_on_items(pool, self->index);
    pthread_mutex_lock(&pool->lock);
    pool->busy--;
    if (pool->busy == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

/* Stops the threads and frees the pool, unless it is NULL (pz_close_fn). */
void pz_pool_free(void *ctx) {
  struct pz_pool *pool = ctx;
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  pool->quit = true;
  pthread_cond_broadcast(&pool->start);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned i = 1; i < pool->threads; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->start);
  pthread_mutex_destroy(&pool->lock);
  pz_free(pool->workers);
  pz_free(pool);
}

unsigned pz_pool_threads(const struct pz_pool *pool) { return pool->threads; }

/* Runs fn(ctx, i, worker) for i = 0 .. n-1 on all threads and waits until all are done. */
void pz_pool_for(struct pz_pool *pool, size_t n, pz_pool_fn *fn, void *ctx) {
  pthread_mutex_lock(&pool->lock);
  pool->n = n;
  pool->fn = fn;
  pool->ctx = ctx;
  atomic_store(&pool->next, 0);
  pool->busy = pool->threads - 1;
  pool->round++;
  pthread_cond_broadcast(&pool->start);
  pthread_mutex_unlock(&pool->lock);
  work_on_items(pool, 0);
  pthread_mutex_lock(&pool->lock);
  while (pool->busy) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

/* Starts a pool of `threads` threads, including the caller's; 0 stands for one per processor. */
struct pz_pool *pz_pool_open(struct pz_call *call, unsigned threads) {
  int64_t processors = pz_max(sysconf(_SC_NPROCESSORS_ONLN), 1);
  if (threads == 0) threads = (unsigned)pz_min(processors, MOST_THREADS);
  if (threads > MOST_THREADS)
    pz_raise(call, PZ_BAD_USE, "%u threads; accepted: 1 to %d, or 0 for one per processor", threads,
             MOST_THREADS);
  struct pz_pool *pool = pz_calloc(1, sizeof *pool);
  struct worker *workers = pz_calloc(threads, sizeof *workers);
  if (!pool || !workers) {
    pz_free(pool);
    pz_free(workers);
    pz_raise(call, PZ_NO_MEMORY, "out of memory for %u threads", threads);
  }
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->start, NULL);
  pthread_cond_init(&pool->done, NULL);
  pool->workers = workers;
  for (pool->threads = 1; pool->threads < threads; pool->threads++) {
    struct worker *worker = &workers[pool->threads];
    *worker = (struct worker){.pool = pool, .index = pool->threads};
    if (pthread_create(&worker->thread, NULL, wait_for_loops, worker) != 0) break;
  }
  pz_defer(call, pz_pool_free, pool);
  return pool;
}

/* The tasks of one loop. */
struct tasks {
  pz_task_fn *fn;
  void *ctx;
  pthread_mutex_t lock;  /* protects `error` */
  atomic_size_t failed;  /* the lowest item that raised an error, or SIZE_MAX */
  struct pz_error error; /* the error of that item */
};

/* Arguments of run_task(): one item of a loop. */
struct task {
  const struct tasks *tasks;
  size_t i;
  unsigned worker;
};

/* Runs one item (pz_call_fn). */
static void run_task(struct pz_call *call, void *ctx) {
  const struct task *task = ctx;
  task->tasks->fn(call, task->tasks->ctx, task->i, task->worker);
}

/* Runs an item unless a lower one has failed; all items below a failed one were begun before. */
static void run_in_border(void *ctx, size_t i, unsigned worker) {
  struct tasks *tasks = ctx;
  struct task task = {tasks, i, worker};
  struct pz_error error = {0};
  if (i > atomic_load(&tasks->failed)) return;
  if (pz_border(run_task, &task, &error) == PZ_OK) return;
  pthread_mutex_lock(&tasks->lock);
  if (i < atomic_load(&tasks->failed)) {
    atomic_store(&tasks->failed, i);
    tasks->error = error;
  }
  pthread_mutex_unlock(&tasks->lock);
}

/* Runs fn for i = 0 .. n-1, each in a call of its own, and raises the error of the lowest i. */
void pz_pool_run(struct pz_call *call, struct pz_pool *pool, size_t n, pz_task_fn *fn, void *ctx) {
  struct tasks tasks = {.fn = fn, .ctx = ctx};
  atomic_init(&tasks.failed, SIZE_MAX);
  pthread_mutex_init(&tasks.lock, NULL);
  if (pool)
    pz_pool_for(pool, n, run_in_border, &tasks);
  else
    for (size_t i = 0; i < n; i++) run_in_border(&tasks, i, 0);
  pthread_mutex_destroy(&tasks.lock);
  if (atomic_load(&tasks.failed) != SIZE_MAX) pz_raise_again(call, &tasks.error);
}
