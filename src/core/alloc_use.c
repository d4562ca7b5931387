/* pz_alloc_use(): sets the allocator of the library, of jansson and of SQLite. */
#include <jansson.h>
#include <sqlite3.h>
#include <stdalign.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"

/* The functions below implement sqlite3_mem_methods.  SQLite asks for the size of a block, so every
 * block begins with its size, and SQLite gets the address of the data behind it. */
enum { HEAD_BYTES = alignof(max_align_t) > sizeof(int) ? alignof(max_align_t) : sizeof(int) };

static void *sqlite_alloc(int bytes) {
  unsigned char *block = pz_malloc((size_t)bytes + HEAD_BYTES);
  if (!block) return NULL;
  memcpy(block, &bytes, sizeof bytes);
  return block + HEAD_BYTES;
}

static void sqlite_free(void *data) {
  if (data) pz_free((unsigned char *)data - HEAD_BYTES);
}

static void *sqlite_resize(void *data, int bytes) {
  unsigned char *old_block = (unsigned char *)data - HEAD_BYTES;
  unsigned char *block = pz_realloc(old_block, (size_t)bytes + HEAD_BYTES);
  if (!block) return NULL;
  memcpy(block, &bytes, sizeof bytes);
  return block + HEAD_BYTES;
}

/* Returns the bytes of a block of SQLite, which stand before its data. */
static int sqlite_size(void *data) {
  int bytes = 0;
  if (data) memcpy(&bytes, (unsigned char *)data - HEAD_BYTES, sizeof bytes);
  return bytes;
}

static int sqlite_round_up(int bytes) { return (bytes + 7) & ~7; }

static int sqlite_start(void *ctx) {
  (void)ctx;
  return SQLITE_OK;
}

static void sqlite_stop(void *ctx) { (void)ctx; }

enum pz_status pz_alloc_use(const struct pz_allocator *allocator, struct pz_error *err) {
  static const sqlite3_mem_methods methods = {
      sqlite_alloc,    sqlite_free,  sqlite_resize, sqlite_size,
      sqlite_round_up, sqlite_start, sqlite_stop,   NULL};
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
    return pz_fail(err, PZ_BAD_USE, "the allocator is set while SQLite is in use");
  json_set_alloc_funcs(pz_json_alloc, pz_free);
  pz_alloc_set(allocator);
  return PZ_OK;
}
