/* Exchanges of one value, and rounds of items; with one rank all of it runs in this process.  In
 * a round every thread asks the transport for items until none remains; then each rank packs the
 * results of its own items into one message, and unpacks the others' from theirs. */
#include "core/ranks.h"

#include <string.h>

#include "core/map.h"

static const struct pz_ranks *transport; /* NULL stands for one rank */

void pz_ranks_use(const struct pz_ranks *ranks) { transport = ranks; }
unsigned pz_ranks_size(void) { return transport ? transport->size : 1; }
bool pz_ranks_first(void) { return !transport || transport->rank == 0; }

void *pz_ranks_shared_memory(struct pz_call *call, size_t bytes) {
  if (!transport || !transport->shared_memory) return NULL;
  return transport->shared_memory(call, transport->ctx, bytes);
}

/* Copies the next n bytes of a message to *out, or returns false if fewer remain. */
bool pz_bytes_read(struct pz_bytes *bytes, void *out, size_t n) {
  if (n > bytes->left) return false;
  if (n) memcpy(out, bytes->at, n);
  bytes->at += n;
  bytes->left -= n;
  return true;
}

/* Appends the part of rank 0 to the buffer; the other ranks contribute nothing. */
static void receive_text(struct pz_call *call, void *receiver, unsigned rank, const char *bytes,
                         size_t n) {
  struct pz_buffer *text = receiver;
  if (rank == 0 && n > 0 && text) pz_buffer_add(call, text, bytes, n);
}

/* Runs fn on rank 0 alone and sends its error, or what it appended to *text, to all ranks. */
void pz_ranks_run_first(struct pz_call *call, pz_call_fn *fn, void *ctx, struct pz_buffer *text) {
  struct pz_error error = {0};
  if (pz_ranks_first()) (void)!pz_border(fn, ctx, &error);
  if (transport) {
    struct pz_ranks_part own = {.error = &error};
    if (text && pz_ranks_first()) {
      own.bytes = text->text;
      own.n = text->bytes;
    }
    transport->exchange(call, transport->ctx, &own, receive_text, text);
  }
  if (error.status != PZ_OK) pz_raise_again(call, &error);
}

/* Copies the flag of rank 0 (pz_ranks_receive). */
static void receive_flag(struct pz_call *call, void *receiver, unsigned rank, const char *bytes,
                         size_t n) {
  bool *flag = receiver;
  (void)call;
  if (rank == 0 && n == sizeof *flag) memcpy(flag, bytes, n);
}

/* Returns the flag of rank 0, on all ranks. */
bool pz_ranks_flag_of_first(struct pz_call *call, bool flag) {
  if (!transport) return flag;
  struct pz_ranks_part own = {.bytes = (const char *)&flag,
                              .n = pz_ranks_first() ? sizeof flag : 0};
  bool received = flag;
  transport->exchange(call, transport->ctx, &own, receive_flag, &received);
  return received;
}

/* The texts of pz_ranks_require_same(). */
struct compared_texts {
  uint64_t own_hash;
  bool differ;
};

/* Notes whether another rank's text has another hash (pz_ranks_receive). */
static void receive_hash(struct pz_call *call, void *receiver, unsigned rank, const char *bytes,
                         size_t n) {
  struct compared_texts *texts = receiver;
  (void)call, (void)rank;
  bool is_same = n == sizeof texts->own_hash && memcmp(bytes, &texts->own_hash, n) == 0;
  if (!is_same) texts->differ = true;
}

/* Raises an error if the ranks have different texts; `what` names them. */
void pz_ranks_require_same(struct pz_call *call, const char *what, const char *text) {
  if (!transport) return;
  struct compared_texts texts = {.own_hash = pz_hash(text, strlen(text))};
  struct pz_ranks_part own = {.bytes = (const char *)&texts.own_hash, .n = sizeof texts.own_hash};
  transport->exchange(call, transport->ctx, &own, receive_hash, &texts);
  if (texts.differ)
    pz_raise(call, PZ_BAD_INPUT,
             "ranks have different %s; accepted: the same program, options and files on all", what);
}

/* A round while it runs on this rank. */
struct running_round {
  const struct pz_round *round;
  struct pz_error *errors; /* indexed by item */
  bool *is_own;            /* indexed by item: whether this rank worked on it */
  struct pz_buffer *packed;
};

struct round_item {
  const struct pz_round *round;
  size_t i;
  unsigned worker;
};

/* Works on one item, unless the round was stopped (pz_call_fn). */
static void work_in_border(struct pz_call *call, void *ctx) {
  const struct round_item *item = ctx;
  const struct pz_round *round = item->round;
  if (round->stop && atomic_load(round->stop)) pz_raise(call, PZ_STOPPED, "stopped");
  round->work(call, round->ctx, item->i, item->worker);
}

/* Works on an item and stores its error. */
static void work_on_item(void *ctx, size_t i, unsigned worker) {
  const struct running_round *running = ctx;
  struct round_item item = {running->round, i, worker};
  (void)!pz_border(work_in_border, &item, &running->errors[i]);
}

/* Runs on each thread of a rank: works on items until no rank has one left. */
static void work_on_items(void *ctx, size_t thread, unsigned worker) {
  struct running_round *running = ctx;
  const struct pz_round *round = running->round;
  (void)thread;
  for (;;) {
    size_t at = transport->next_item(transport->ctx, round->n);
    if (at >= round->n) return;
    size_t i = round->order ? round->order[at] : at;
    work_on_item(running, i, worker);
    running->is_own[i] = true;
  }
}

/* Packs the number, the status, and the result or the error of each item of this rank. */
static void pack_items(struct pz_call *call, void *ctx) {
  const struct running_round *running = ctx;
  for (uint64_t i = 0; i < running->round->n; i++) {
    const struct pz_error *error = &running->errors[i];
    if (!running->is_own[i]) continue;
    pz_buffer_add(call, running->packed, (const char *)&i, sizeof i);
    pz_buffer_add(call, running->packed, (const char *)&error->status, sizeof error->status);
    if (error->status == PZ_OK)
      running->round->pack(call, running->round->ctx, i, running->packed);
    else
      pz_buffer_add(call, running->packed, (const char *)error, sizeof *error);
  }
}

/* Unpacks the items of another rank. */
static void unpack_items(struct pz_call *call, void *receiver, unsigned rank, const char *bytes,
                         size_t n) {
  const struct running_round *running = receiver;
  struct pz_bytes in = {bytes, n};
  (void)rank;
  while (in.left) {
    uint64_t i;
    enum pz_status status;
    bool complete = pz_bytes_read(&in, &i, sizeof i) && pz_bytes_read(&in, &status, sizeof status);
    bool expected = complete && i < running->round->n && !running->is_own[i];
    if (expected && status != PZ_OK)
      expected = pz_bytes_read(&in, &running->errors[i], sizeof *running->errors);
    if (!expected) pz_raise(call, PZ_BAD_INPUT, "an item of another round");
    if (status == PZ_OK) running->round->unpack(call, running->round->ctx, i, &in);
  }
}

/* Runs the items of a round on all ranks; errors[i] receives the error of item i. */
void pz_round_run(struct pz_call *call, struct pz_pool *pool, const struct pz_round *round,
                  struct pz_error *errors) {
  struct running_round running = {.round = round, .errors = errors};
  if (!transport) {
    if (pool)
      pz_pool_for(pool, round->n, work_on_item, &running);
    else
      for (size_t i = 0; i < round->n; i++) work_on_item(&running, i, 0);
    if (round->stop && atomic_load(round->stop)) pz_raise(call, PZ_STOPPED, "stopped");
    return;
  }
  struct pz_call work = pz_scratch(call);
  struct pz_error failure = {0};
  running.is_own = pz_alloc(&work, round->n, sizeof *running.is_own);
  running.packed = pz_buffer_new(&work);
  if (pool)
    pz_pool_for(pool, pz_pool_threads(pool), work_on_items, &running);
  else
    work_on_items(&running, 0, 0);
  bool is_packed = pz_border(pack_items, &running, &failure) == PZ_OK;
  if (is_packed && round->stop && atomic_load(round->stop)) failure.status = PZ_STOPPED;
  struct pz_ranks_part own = {running.packed->text, running.packed->bytes, &failure};
  transport->exchange(call, transport->ctx, &own, unpack_items, &running);
  pz_close(&work, running.packed);
  pz_scratch_end(&work);
}
