/* Calls: errors that are raised and caught at a border, deferred functions, memory, and the places where an error must
 * not jump over somebody else's frame: jansson, SQLite, CBC, qsort and tasks of the thread pool. */
#include "unit/testing.h"

#include <Cbc_C_Interface.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/file.h"
#include "core/json.h"
#include "core/map.h"
#include "core/pool.h"
#include "core/vec.h"

/* ---- an allocator that counts blocks and fails ---------------------------------------------- */

static struct {
  atomic_long blocks;    /* in use */
  atomic_long remaining; /* allocations before the next one fails; negative: none fails */
} memory;

static bool fails(void) { return atomic_fetch_sub(&memory.remaining, 1) == 0; }

static void *counted_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  void *block = fails() ? NULL : malloc(bytes);
  if (block) atomic_fetch_add(&memory.blocks, 1);
  return block;
}

static void *counted_resize(void *ctx, void *block, size_t bytes) {
  (void)ctx;
  void *moved = fails() ? NULL : realloc(block, bytes);
  if (moved && !block) atomic_fetch_add(&memory.blocks, 1);
  return moved;
}

static void counted_free(void *ctx, void *block) {
  (void)ctx;
  atomic_fetch_sub(&memory.blocks, 1);
  free(block);
}

static int use_counted_memory(void **state) {
  static const struct pz_allocator counted = {counted_alloc, counted_resize, counted_free, NULL};
  (void)state;
  atomic_store(&memory.remaining, -1);
  return pz_alloc_use(&counted, NULL) == PZ_OK ? 0 : -1;
}

/* ---- borders -------------------------------------------------------------------------------- */

static void return_normally(struct pz_call *call, void *ctx) {
  *(char **)ctx = pz_format(call, "%d", 7);
}

static void raise_with_place(struct pz_call *call, void *ctx) {
  pz_raise_at(call, PZ_LIMIT, "plan.json", 3, 9, "%s is too large", (const char *)ctx);
}

static void errors_reach_the_border(void **state) {
  (void)state;
  struct pz_error err = {0};
  char *text = NULL;
  assert_int_equal(pz_border(return_normally, &text, &err), PZ_OK);
  assert_int_equal(err.status, PZ_OK);
  assert_int_equal(pz_border(raise_with_place, "tp", &err), PZ_LIMIT);
  assert_string_equal(err.message, "tp is too large");
  assert_string_equal(err.input, "plan.json");
  assert_int_equal(err.line, 3);
  assert_int_equal(err.column, 9);
  assert_non_null(strstr(err.origin_file, "test_call.c"));
  assert_int_equal(pz_border(raise_with_place, "pp", &err), PZ_LIMIT);
  assert_string_equal(err.message, "tp is too large"); /* the first error stays */
  assert_int_equal(pz_border(raise_with_place, "pp", NULL), PZ_LIMIT);
}

/* An inner error that is tolerated leaves no trace; one that is raised again keeps its text. */
static void tolerate(struct pz_call *call, void *ctx) {
  struct pz_error inner = {0};
  assert_int_equal(pz_border(raise_with_place, "inner", &inner), PZ_LIMIT);
  assert_int_equal(pz_fail(pz_call_error(call), PZ_IO, "tolerated"), PZ_IO);
  if (ctx) pz_raise_again(call, &inner);
}

static void tolerate_then_raise(struct pz_call *call, void *ctx) {
  tolerate(call, NULL);
  pz_raise(call, PZ_BAD_INPUT, "%s", (const char *)ctx);
}

static void check_status(struct pz_call *call, void *ctx) {
  pz_must(call, PZ_OK);
  pz_must(call, ctx ? pz_fail(pz_call_error(call), PZ_IO, "from a status") : PZ_NO_ANSWER);
}

static void errors_are_tolerated_and_raised_again(void **state) {
  (void)state;
  struct pz_error err = {0};
  assert_int_equal(pz_border(tolerate, NULL, &err), PZ_OK);
  assert_int_equal(err.status, PZ_OK);
  assert_int_equal(pz_border(tolerate, "again", &err), PZ_LIMIT);
  assert_string_equal(err.message, "inner is too large");
  err = (struct pz_error){0};
  assert_int_equal(pz_border(tolerate_then_raise, "second", &err), PZ_BAD_INPUT);
  assert_string_equal(err.message, "second");
  assert_string_equal(err.input, "");
  err = (struct pz_error){0};
  assert_int_equal(pz_border(check_status, "text", &err), PZ_IO);
  assert_string_equal(err.message, "from a status");
  err = (struct pz_error){0};
  assert_int_equal(pz_border(check_status, NULL, &err), PZ_NO_ANSWER);
  assert_string_equal(err.message, "no answer");
}

/* ---- deferred functions --------------------------------------------------------------------- */

struct log {
  char text[64];
  bool raises;
};

struct resource {
  struct log *log;
  char name;
};

static void log_closing(void *what) {
  struct resource *r = what;
  size_t n = strlen(r->log->text);
  assert_true(n + 1 < sizeof r->log->text);
  r->log->text[n] = r->name;
}

static void defer_some(struct pz_call *call, void *ctx) {
  struct log *log = ctx;
  static struct resource r[5];
  for (int i = 0; i < 5; i++) {
    r[i] = (struct resource){log, (char)('a' + i)};
    pz_defer(call, log_closing, &r[i]);
  }
  pz_close(call, &r[1]);
  pz_undefer(call, &r[3]);
  if (log->raises) pz_raise(call, PZ_IO, "unreadable");
}

static void deferred_functions_run_newest_first(void **state) {
  (void)state;
  struct log log = {.raises = false}, raising = {.raises = true};
  assert_int_equal(pz_border(defer_some, &log, NULL), PZ_OK);
  assert_string_equal(log.text, "beca");
  assert_int_equal(pz_border(defer_some, &raising, NULL), PZ_IO);
  assert_string_equal(raising.text, "beca");
}

/* ---- memory --------------------------------------------------------------------------------- */

struct product {
  uint32_t n;
  const char *name;
};

struct making {
  struct product *product;
  bool raises;
};

/* Uses every allocating function, keeps one object. */
static void make_product(struct pz_call *call, void *ctx) {
  struct making *m = ctx;
  struct pz_call own;
  struct product *p = pz_object_new(call, sizeof *p, &own);
  struct pz_vec numbers, heap;
  struct pz_map map;
  struct pz_call scratch = pz_scratch(call);
  pz_vec_init(&numbers, scratch.arena, sizeof(uint32_t));
  for (uint32_t i = 0; i < 3000; i++) pz_append(&scratch, &numbers, &i);
  p->n = numbers.n;
  pz_map_init(&map, call->arena);
  for (uint32_t i = 0; i < 100; i++) pz_map_set(call, &map, &i, sizeof i, 2 * i);
  pz_scratch_end(&scratch);
  pz_vec_init(&heap, call->arena, sizeof(uint32_t));
  struct pz_buffer *text = pz_buffer_new(call);
  FILE *stream = pz_buffer_open(call, text);
  fprintf(stream, "%u", p->n);
  pz_buffer_flush(call, stream);
  pz_buffer_print(call, text, "%5000d", 1);
  p->name = pz_copy_text(&own, text->text);
  json_t *made = pz_json_built(call, json_pack("{s:i}", "n", 1));
  pz_json_print(call, text, made);
  json_t *read = pz_json_read(call, "text", "{\"a\": [1, 2]}", 13);
  assert_int_equal(json_array_size(json_object_get(read, "a")), 2);
  if (m->raises) pz_raise(call, PZ_BAD_INPUT, "refused");
  m->product = pz_object_keep(call, p);
}

static void objects_outlive_the_call(void **state) {
  (void)state;
  struct making m = {0};
  long before = atomic_load(&memory.blocks);
  assert_int_equal(pz_border(make_product, &m, NULL), PZ_OK);
  assert_int_equal(m.product->n, 3000);
  assert_int_equal(strlen(m.product->name), 5004);
  assert_true(atomic_load(&memory.blocks) > before);
  pz_object_free(m.product);
  pz_object_free(NULL);
  assert_int_equal(atomic_load(&memory.blocks), before);
  m = (struct making){.raises = true};
  assert_int_equal(pz_border(make_product, &m, NULL), PZ_BAD_INPUT);
  assert_null(m.product);
  assert_int_equal(atomic_load(&memory.blocks), before);
}

/* Each allocation fails once. */
static void failed_allocations_are_one_error(void **state) {
  (void)state;
  long before = atomic_load(&memory.blocks), failures = 0;
  for (long n = 0;; n++) {
    struct making m = {0};
    struct pz_error err = {0};
    atomic_store(&memory.remaining, n);
    enum pz_status status = pz_border(make_product, &m, &err);
    atomic_store(&memory.remaining, -1);
    if (status == PZ_OK) {
      pz_object_free(m.product);
      break;
    }
    assert_int_equal(status, PZ_NO_MEMORY);
    assert_non_null(strstr(err.message, "out of memory"));
    assert_null(m.product);
    assert_int_equal(atomic_load(&memory.blocks), before);
    failures++;
  }
  assert_true(failures > 15);
  assert_int_equal(atomic_load(&memory.blocks), before);
}

static void allocate_too_much(struct pz_call *call, void *ctx) {
  (void)ctx;
  assert_non_null(pz_alloc(call, 0, 8));
  pz_alloc(call, SIZE_MAX / 2, 4);
}

static void sizes_do_not_wrap(void **state) {
  (void)state;
  assert_int_equal(pz_border(allocate_too_much, NULL, NULL), PZ_NO_MEMORY);
}

/* ---- tasks ---------------------------------------------------------------------------------- */

enum { TASKS = 400 };

struct loop {
  unsigned threads;
  size_t first_bad;
  atomic_size_t done[TASKS];
};

/* Every tenth item from first_bad on raises an error. */
static void do_task(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct loop *loop = ctx;
  (void)worker;
  char *text = pz_format(task, "item %zu", i);
  if (i >= loop->first_bad && i % 10 == 0) pz_raise(task, PZ_BAD_INPUT, "%s is bad", text);
  atomic_fetch_add(&loop->done[i], 1);
}

static void run_loop(struct pz_call *call, void *ctx) {
  struct loop *loop = ctx;
  struct pz_pool *pool = loop->threads ? pz_pool_open(call, loop->threads) : NULL;
  pz_pool_run(call, pool, TASKS, do_task, loop);
}

static void the_lowest_task_reports_its_error(void **state) {
  (void)state;
  for (unsigned threads = 0; threads <= 8; threads++)
    for (size_t bad = 0; bad <= TASKS; bad += 50) {
      struct loop loop = {.threads = threads, .first_bad = bad};
      struct pz_error err = {0};
      char text[32];
      enum pz_status status = pz_border(run_loop, &loop, &err);
      assert_int_equal(status, bad < TASKS ? PZ_BAD_INPUT : PZ_OK);
      snprintf(text, sizeof text, "item %zu is bad", bad);
      if (bad < TASKS) assert_string_equal(err.message, text);
      for (size_t i = 0; i < bad; i++) assert_int_equal(atomic_load(&loop.done[i]), 1);
    }
}

/* ---- foreign frames ------------------------------------------------------------------------- */

/* What a callback stores: the call that its foreign caller was called in may not be raised to. */
struct callback {
  int seen, bad;
  struct pz_error error;
};

static void take_one(struct pz_call *call, void *ctx) {
  struct callback *c = ctx;
  pz_alloc(call, 100, 8);
  if (c->seen++ == c->bad) pz_raise(call, PZ_BAD_INPUT, "the callback refuses number %d", c->bad);
}

static int take_text(const char *text, size_t bytes, void *ctx) {
  struct callback *c = ctx;
  (void)text, (void)bytes;
  return pz_border(take_one, c, &c->error) == PZ_OK ? 0 : -1;
}

static int take_row(void *ctx, int columns, char **values, char **names) {
  (void)columns, (void)values, (void)names;
  return take_text("", 0, ctx);
}

static void close_database(void *db) { sqlite3_close(db); }

static void dump_json(struct pz_call *call, void *ctx) {
  struct callback *c = ctx;
  json_t *list = pz_json_built(call, json_pack("[i, i, i, i]", 1, 2, 3, 4));
  if (json_dump_callback(list, take_text, c, 0) != 0) pz_raise_again(call, &c->error);
}

static void query_database(struct pz_call *call, void *ctx) {
  struct callback *c = ctx;
  sqlite3 *db = NULL;
  char *message = NULL;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) pz_raise(call, PZ_IO, "no database");
  pz_defer(call, close_database, db);
  int code = sqlite3_exec(db, "VALUES (1), (2), (3), (4)", take_row, c, &message);
  sqlite3_free(message);
  if (code == SQLITE_ABORT) pz_raise_again(call, &c->error);
}

static void close_model(void *model) { Cbc_deleteModel(model); }

static struct callback *of_cbc; /* CBC hands nothing on to its callbacks */

static void take_message(Cbc_Model *model, int message, int n_reals, const double *reals,
                         int n_ints, const int *ints, int n_texts, char **texts) {
  (void)model, (void)message, (void)n_reals, (void)reals, (void)n_ints, (void)ints, (void)n_texts;
  (void)texts;
  if (of_cbc->error.status == PZ_OK) take_text("", 0, of_cbc);
}

/* A small knapsack, so that CBC has something to say. */
static void solve_model(struct pz_call *call, void *ctx) {
  static const double weight[] = {3, 5, 7, 11, 13, 17};
  enum { COLUMNS = 6 };
  static const int columns[] = {0, 1, 2, 3, 4, 5};
  of_cbc = ctx;
  Cbc_Model *model = Cbc_newModel();
  pz_defer(call, close_model, model);
  for (int i = 0; i < COLUMNS; i++)
    Cbc_addCol(model, "x", 0, 1, -weight[i] - 1.0 / (i + 1), 1, 0, NULL, NULL);
  Cbc_addRow(model, "weight", COLUMNS, columns, weight, 'L', 26.5);
  Cbc_registerCallBack(model, take_message);
  Cbc_solve(model);
  if (of_cbc->error.status != PZ_OK) pz_raise_again(call, &of_cbc->error);
}

static void callbacks_store_their_error(void **state) {
  (void)state;
  pz_call_fn *const users[] = {dump_json, query_database, solve_model};
  for (size_t u = 0; u < sizeof users / sizeof *users; u++) {
    long before = atomic_load(&memory.blocks);
    struct callback refusing = {.bad = 1}, taking = {.bad = -1};
    struct pz_error err = {0};
    assert_int_equal(pz_border(users[u], &refusing, &err), PZ_BAD_INPUT);
    assert_string_equal(err.message, "the callback refuses number 1");
    assert_int_equal(pz_border(users[u], &taking, NULL), PZ_OK);
    assert_true(taking.seen > 2);
    if (u < 2) assert_int_equal(atomic_load(&memory.blocks), before);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_reach_the_border),
      cmocka_unit_test(errors_are_tolerated_and_raised_again),
      cmocka_unit_test(deferred_functions_run_newest_first),
      cmocka_unit_test(objects_outlive_the_call),
      cmocka_unit_test(failed_allocations_are_one_error),
      cmocka_unit_test(sizes_do_not_wrap),
      cmocka_unit_test(the_lowest_task_reports_its_error),
      cmocka_unit_test(callbacks_store_their_error),
  };
  return cmocka_run_group_tests(tests, use_counted_memory, NULL);
}
