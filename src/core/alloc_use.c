/* pz_alloc_use(): sets the allocator of the library, of jansson and of SQLite. */
#include <jansson.h>
#include <sqlite3.h>
#include <stdalign.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"

/* The functions below are sqlite3_mem_methods.  SQLite asks for the size of a block, which is
 * therefore stored in front of it. */
enum { HEAD_BYTES = alignof(max_align_t) > sizeof(int) ? alignof(max_align_t) : sizeof(int) };

/* Stores the size in front of a new block and returns its data. */
static void *store_size(void *block, int bytes) {
  if (!block) return NULL;
  memcpy(block, &bytes, sizeof bytes);
  return (unsigned char *)block + HEAD_BYTES;
}

static void *block_of(void *data) { return (unsigned char *)data - HEAD_BYTES; }

static void *db_alloc(int bytes) {
  return store_size(pz_malloc((size_t)bytes + HEAD_BYTES), bytes);
}

static void db_free(void *data) {
  if (data) pz_free(block_of(data));
}

static void *db_resize(void *data, int bytes) {
  return store_size(pz_realloc(block_of(data), (size_t)bytes + HEAD_BYTES), bytes);
}

static int db_size(void *data) {
  int bytes = 0;
  if (data) memcpy(&bytes, block_of(data), sizeof bytes);
  return bytes;
}

static int db_round_up(int bytes) { return (bytes + 7) & ~7; }

static int db_begin(void *ctx) {
  (void)ctx;
  return SQLITE_OK;
}

static void db_end(void *ctx) { (void)ctx; }

enum pz_status pz_alloc_use(const struct pz_allocator *allocator, struct pz_error *err) {
  static const sqlite3_mem_methods methods = {db_alloc,    db_free,  db_resize, db_size,
                                              db_round_up, db_begin, db_end,    NULL};
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
    return pz_fail(err, PZ_BAD_USE, "the allocator is set while SQLite is in use");
  json_set_alloc_funcs(pz_json_alloc, pz_free);
  pz_alloc_set(allocator);
  return PZ_OK;
}
