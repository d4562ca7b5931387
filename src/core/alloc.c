#include "core/alloc.h"

#include <jansson.h>
#include <sqlite3.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_lost.h"

static const struct pz_allocator *used; /* NULL: the C library */

void *pz_malloc(size_t bytes) {
  return used ? used->alloc(used->ctx, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
}

void *pz_calloc(size_t n, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(n, bytes, &all)) return NULL;
  if (!used) return calloc(n ? n : 1, bytes ? bytes : 1);
  void *block = pz_malloc(all);
  return block ? memset(block, 0, all) : NULL;
}

void *pz_realloc(void *block, size_t bytes) {
  if (!bytes) bytes = 1; /* zero would free the block, or not */
  return used ? used->resize(used->ctx, block, bytes) : realloc(block, bytes);
}

char *pz_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = pz_malloc(n);
  return copy ? memcpy(copy, s, n) : NULL;
}

void pz_free(void *block) {
  if (!used)
    free(block);
  else if (block)
    used->free(used->ctx, block);
}

/* ---- jansson -------------------------------------------------------------------------------- */

/* Failures are kept, because jansson's callers, and its own reader, pass some over.  The first one of a
 * reader takes what pz_json_reserve put by. */
static void *json_alloc(size_t bytes) {
  void *block = pz_malloc(bytes);
  if (block) return block;
  pz_json_lost_set(true);
  return pz_json_reserve_take(bytes);
}

bool pz_json_reserve(size_t bytes) {
  if (!used) return true; /* jansson has not got our functions */
  void *block = pz_malloc(bytes);
  if (block) pz_json_reserve_set(block, bytes);
  return block != NULL;
}

void pz_json_reserve_end(void) { pz_free(pz_json_reserve_take(0)); }

/* ---- SQLite --------------------------------------------------------------------------------- */

/* SQLite asks for the size of a block, so it stands before it. */
enum { HEAD = alignof(max_align_t) > sizeof(int) ? alignof(max_align_t) : sizeof(int) };

static void *with_head(void *block, int bytes) {
  if (!block) return NULL;
  memcpy(block, &bytes, sizeof bytes);
  return (unsigned char *)block + HEAD;
}

static void *head_of(void *data) { return (unsigned char *)data - HEAD; }

static void *db_alloc(int bytes) { return with_head(pz_malloc((size_t)bytes + HEAD), bytes); }

static void db_free(void *data) {
  if (data) pz_free(head_of(data));
}

static void *db_resize(void *data, int bytes) {
  return with_head(pz_realloc(head_of(data), (size_t)bytes + HEAD), bytes);
}

static int db_size(void *data) {
  int bytes = 0;
  if (data) memcpy(&bytes, head_of(data), sizeof bytes);
  return bytes;
}

static int db_round_up(int bytes) { return (bytes + 7) & ~7; }

static int db_begin(void *ctx) {
  (void)ctx;
  return SQLITE_OK;
}

static void db_end(void *ctx) { (void)ctx; }

void pz_text_free(char *text) { pz_free(text); }

enum pz_status pz_alloc_use(const struct pz_allocator *allocator, struct pz_error *err) {
  static const sqlite3_mem_methods methods = {db_alloc,    db_free,  db_resize, db_size,
                                              db_round_up, db_begin, db_end,    NULL};
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
    return pz_fail(err, PZ_BAD_USE, "the allocator is set while SQLite is in use");
  json_set_alloc_funcs(json_alloc, pz_free);
  used = allocator;
  return PZ_OK;
}
