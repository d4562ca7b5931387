/* Functions of src/core for tests and benchmarks that check a status. */
#ifndef PZ_TESTS_CORE_BORDERS_H
#define PZ_TESTS_CORE_BORDERS_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/csv.h"
#include "core/file.h"
#include "core/json.h"
#include "core/options.h"
#include "core/pool.h"

/* ---- texts in an arena ---- */

static inline char *pz_arena_strdup(struct pz_arena *arena, const char *text) {
  size_t n = strlen(text) + 1;
  return memcpy(pz_arena_alloc(arena, n, 1), text, n);
}

PZ_PRINTF(2, 3)
static inline char *pz_arena_printf(struct pz_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  size_t n = (size_t)vsnprintf(NULL, 0, format, args) + 1;
  char *text = pz_arena_alloc(arena, n, 1);
  vsnprintf(text, n, format, again);
  va_end(again);
  va_end(args);
  return text;
}

/* ---- files ---- */

struct file_args {
  const char *path, *text;
  const char *const *inputs;
  size_t n;
};

static inline void write_file_in_border(struct pz_call *call, void *ctx) {
  const struct file_args *x = ctx;
  pz_file_save(call, x->path, x->text, x->n);
}

static inline enum pz_status pz_file_write(const char *path, const char *text, size_t bytes,
                                           struct pz_error *err) {
  struct file_args x = {.path = path, .text = text, .n = bytes};
  return pz_border(write_file_in_border, &x, err);
}

static inline void require_writable_in_border(struct pz_call *call, void *ctx) {
  pz_file_require_writable(call, ((const struct file_args *)ctx)->path);
}

static inline enum pz_status pz_file_writable(const char *path, struct pz_error *err) {
  struct file_args x = {.path = path};
  return pz_border(require_writable_in_border, &x, err);
}

static inline void require_output_in_border(struct pz_call *call, void *ctx) {
  const struct file_args *x = ctx;
  pz_file_require_output(call, x->path, x->inputs, x->n);
}

static inline enum pz_status pz_file_output(const char *path, const char *const *inputs, size_t n,
                                            struct pz_error *err) {
  struct file_args x = {.path = path, .inputs = inputs, .n = n};
  return pz_border(require_output_in_border, &x, err);
}

/* ---- options ---- */

struct options_args {
  const struct pz_option_table *table;
  void *settings;
  int argc, n;
  char **argv;
  const char *text, *name;
  int64_t most;
  const struct pz_choices *checked;
  struct pz_choices choices;
};

static inline void read_options_in_border(struct pz_call *call, void *ctx) {
  struct options_args *x = ctx;
  x->n = pz_options_read(call, x->table, x->settings, x->argc, x->argv);
}

static inline enum pz_status pz_options_parse(const struct pz_option_table *table, void *settings,
                                              int argc, char **argv, int *n_args,
                                              struct pz_error *err) {
  struct options_args x = {.table = table, .settings = settings, .argc = argc, .argv = argv};
  enum pz_status status = pz_border(read_options_in_border, &x, err);
  *n_args = x.n;
  return status;
}

static inline void require_choices_in_border(struct pz_call *call, void *ctx) {
  struct options_args *x = ctx;
  pz_choices_require(call, x->name, x->checked, x->n);
}

static inline enum pz_status pz_choices_check(const char *what, const struct pz_choices *choices,
                                              int least, struct pz_error *err) {
  struct options_args x = {.name = what, .checked = choices, .n = least};
  return pz_border(require_choices_in_border, &x, err);
}

static inline void read_choices_in_border(struct pz_call *call, void *ctx) {
  struct options_args *x = ctx;
  x->choices = pz_choices_read(call, x->text, x->name, x->most);
}

static inline enum pz_status pz_choices_parse(const char *text, const char *name, int64_t most,
                                              struct pz_choices *out, struct pz_error *err) {
  struct options_args x = {.text = text, .name = name, .most = most};
  enum pz_status status = pz_border(read_choices_in_border, &x, err);
  if (status == PZ_OK) *out = x.choices;
  return status;
}

/* ---- pools ---- */

struct pool_args {
  unsigned threads;
  struct pz_pool *pool;
};

static inline void open_pool_in_border(struct pz_call *call, void *ctx) {
  struct pool_args *x = ctx;
  x->pool = pz_pool_open(call, x->threads);
  pz_undefer(call, x->pool);
}

/* On success the pool is the caller's to free. */
static inline enum pz_status pz_pool_new(unsigned threads, struct pz_pool **out,
                                         struct pz_error *err) {
  struct pool_args x = {.threads = threads};
  enum pz_status status = pz_border(open_pool_in_border, &x, err);
  if (status == PZ_OK) *out = x.pool;
  return status;
}

/* ---- texts of files ---- */

struct read_request {
  const char *path;
  size_t limit, *bytes;
  char **text;
};

static inline void read_file_in_border(struct pz_call *call, void *ctx) {
  const struct read_request *x = ctx;
  *x->text = pz_file_text(call, x->path, x->limit, x->bytes);
  pz_undefer(call, *x->text);
}

/* On success the text is to be freed with pz_free(). */
static inline enum pz_status pz_file_read(const char *path, size_t limit, char **text,
                                          size_t *bytes, struct pz_error *err) {
  struct read_request x = {path, limit, bytes, text};
  return pz_border(read_file_in_border, &x, err);
}

/* ---- CSV and JSON ---- */

struct csv_request {
  const char *name, *text;
  size_t bytes;
  struct pz_arena *arena;
  struct pz_csv *out;
};

static inline void read_csv_in_border(struct pz_call *call, void *ctx) {
  const struct csv_request *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  *x->out = *pz_csv_read(&own, x->name, x->text, x->bytes);
}

static inline enum pz_status pz_csv_parse(const char *name, const char *text, size_t bytes,
                                          struct pz_arena *arena, struct pz_csv *out,
                                          struct pz_error *err) {
  struct csv_request x = {name, text, bytes, arena, out};
  return pz_border(read_csv_in_border, &x, err);
}

struct json_request {
  const char *name, *text;
  size_t bytes;
  json_t *read;
  const json_t *value;
  char *taken;
};

static inline void read_json_in_border(struct pz_call *call, void *ctx) {
  struct json_request *x = ctx;
  x->read = json_incref(pz_json_read(call, x->name, x->text, x->bytes));
}

static inline enum pz_status pz_json_parse(const char *name, const char *text, size_t bytes,
                                           json_t **out, struct pz_error *err) {
  struct json_request x = {.name = name, .text = text, .bytes = bytes};
  enum pz_status status = pz_border(read_json_in_border, &x, err);
  if (status == PZ_OK) *out = x.read;
  return status;
}

static inline void take_json_in_border(struct pz_call *call, void *ctx) {
  struct json_request *x = ctx;
  x->taken = pz_json_take(call, x->value);
}

static inline enum pz_status pz_json_text(const json_t *value, char **text, struct pz_error *err) {
  struct json_request x = {.value = value};
  enum pz_status status = pz_border(take_json_in_border, &x, err);
  if (status == PZ_OK) *text = x.taken;
  return status;
}

static inline char *pz_json_dump(const json_t *value, size_t flags) {
  return json_dumps(value, flags);
}

#endif
