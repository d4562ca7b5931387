/* Exchanges of one value (pz_ranks_share, pz_ranks_same) and rounds of many items (pz_round_run).  With one rank all of it runs
 * in this process. */
#include "core/ranks.h"

#include <string.h>

#include "core/alloc.h"
#include "core/map.h"

static const struct pz_ranks *all;  /* NULL stands for one rank */
static const struct pz_ranks *used; /* the ranks that take part at the moment: all or NULL */

void pz_ranks_use(const struct pz_ranks *ranks) { all = used = ranks; }
void pz_ranks_alone(bool alone) { used = alone ? NULL : all; }
unsigned pz_ranks_size(void) { return used ? used->size : 1; }
bool pz_ranks_first(void) { return !used || used->rank == 0; }

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for what ranks exchange");
}

bool pz_bytes_take(struct pz_bytes *b, void *out, size_t n) {
  if (n > b->left) return false;
  if (n) memcpy(out, b->at, n);
  b->at += n;
  b->left -= n;
  return true;
}

/* ---- sharing -------------------------------------------------------------------------------- */

/* Receives the part of rank 0; the other ranks contribute nothing. */
static enum pz_status receive_shared(void *into, unsigned rank, const char *bytes, size_t n) {
  struct pz_buffer *b = into;
  if (rank || !n) return PZ_OK;
  return pz_buffer_append(b, bytes, n) ? PZ_OK : PZ_NO_MEMORY;
}

enum pz_status pz_ranks_share(struct pz_buffer *b, enum pz_status status, struct pz_error *err) {
  if (!used) return status;
  struct pz_ranks_part mine = {status, NULL, 0};
  if (status != PZ_OK && err)
    mine = (struct pz_ranks_part){status, err->message, strlen(err->message)};
  else if (!used->rank && b->text)
    mine = (struct pz_ranks_part){PZ_OK, b->text, b->bytes};
  return used->exchange(used->ctx, &mine, receive_shared, b, err);
}

enum pz_status pz_ranks_share_flag(bool *flag, struct pz_error *err) {
  struct pz_buffer b = {0};
  enum pz_status status = PZ_OK;
  if (!used) return PZ_OK;
  if (!used->rank && !pz_buffer_append(&b, *flag ? "1" : "0", 1)) status = no_memory(err);
  status = pz_ranks_share(&b, status, err);
  if (status == PZ_OK) *flag = b.bytes == 1 && b.text[0] == '1';
  pz_free(b.text);
  return status;
}

enum pz_status pz_ranks_shared(size_t bytes, void **out, struct pz_error *err) {
  *out = NULL;
  return used && used->shared ? used->shared(used->ctx, bytes, out, err) : PZ_OK;
}

struct texts {
  uint64_t mine; /* hash */
  bool differ;
};

static enum pz_status compare_texts(void *into, unsigned rank, const char *bytes, size_t n) {
  struct texts *x = into;
  (void)rank;
  if (n != sizeof x->mine || memcmp(bytes, &x->mine, n) != 0) x->differ = true;
  return PZ_OK;
}

enum pz_status pz_ranks_same(const char *what, const char *text, struct pz_error *err) {
  if (!used) return PZ_OK;
  struct texts x = {pz_hash(text, strlen(text)), false};
  struct pz_ranks_part part = {PZ_OK, (const char *)&x.mine, sizeof x.mine};
  enum pz_status status = used->exchange(used->ctx, &part, compare_texts, &x, err);
  if (status != PZ_OK || !x.differ) return status;
  return pz_fail(err, PZ_BAD_INPUT,
                 "ranks have different %s; accepted: the same program, options and files on all",
                 what);
}

/* ---- rounds --------------------------------------------------------------------------------- */

struct dealing {
  const struct pz_round *r;
  bool *mine; /* by item: was it done on this rank? */
};

/* Runs on each thread and works on items until none remains. */
static void work_on_items(void *ctx, size_t thread, unsigned worker) {
  struct dealing *d = ctx;
  (void)thread;
  for (size_t at; (at = used->next(used->ctx, d->r->n)) < d->r->n;) {
    size_t i = d->r->order ? d->r->order[at] : at;
    d->r->work(d->r->ctx, i, worker);
    d->mine[i] = true;
  }
}

static bool pack_items(const struct dealing *d, struct pz_buffer *b) {
  for (uint64_t i = 0; i < d->r->n && !b->failed; i++) {
    if (!d->mine[i]) continue;
    pz_buffer_append(b, (const char *)&i, sizeof i);
    d->r->pack(d->r->ctx, i, b);
  }
  return !b->failed;
}

static enum pz_status unpack_items(void *into, unsigned rank, const char *bytes, size_t n) {
  const struct dealing *d = into;
  struct pz_bytes in = {bytes, n};
  enum pz_status status = PZ_OK;
  uint64_t i;
  (void)rank;
  while (in.left && status == PZ_OK) {
    if (!pz_bytes_take(&in, &i, sizeof i) || i >= d->r->n || d->mine[i]) return PZ_BAD_INPUT;
    status = d->r->unpack(d->r->ctx, i, &in);
  }
  return status;
}

static void run_on(struct pz_pool *pool, size_t n, pz_pool_fn *fn, void *ctx) {
  if (pool) {
    pz_pool_for(pool, n, fn, ctx);
    return;
  }
  for (size_t i = 0; i < n; i++) fn(ctx, i, 0);
}

enum pz_status pz_round_run(struct pz_pool *pool, const struct pz_round *r, struct pz_error *err) {
  static const char text[] = "out of memory for what ranks exchange";
  if (!used) {
    run_on(pool, r->n, r->work, r->ctx);
    return r->stop && atomic_load(r->stop) ? pz_fail(err, PZ_STOPPED, "stopped") : PZ_OK;
  }
  struct pz_buffer b = {0};
  struct dealing d = {r, pz_calloc(r->n + 1, sizeof *d.mine)};
  struct pz_ranks_part mine = {PZ_NO_MEMORY, text, sizeof text - 1};
  if (d.mine) {
    run_on(pool, pool ? pz_pool_threads(pool) : 1, work_on_items, &d);
    if (pack_items(&d, &b)) mine = (struct pz_ranks_part){PZ_OK, b.text, b.bytes};
    if (mine.status == PZ_OK && r->stop && atomic_load(r->stop)) mine.status = PZ_STOPPED;
  }
  enum pz_status status = used->exchange(used->ctx, &mine, unpack_items, &d, err);
  pz_free(b.text);
  pz_free(d.mine);
  return status;
}
