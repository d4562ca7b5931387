/* The run file: bit for bit, refusals that leave everything as it was, locks, kill -9, full disks,
 * parts of other hands. */
#include "unit/core_borders.h"
#include "unit/store_borders.h"
#include "unit/testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/alloc.h"
#include "core/file.h"
#include "store/inputs.h"
#include "store/run_file.h"

#define INPUTS "{\"version\": \"1\", \"models\": [\"opt-350m\", \"gpt2-xl\"], \"batch\": 4096}"

static uint64_t seed = 11;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

/* ---- a directory for each test -------------------------------------------------------------- */

struct place {
  char root[64], dir[96]; /* dir is made by the run file */
};

static int set_up(void **state) {
  struct place *p = calloc(1, sizeof *p);
  const char *tmp = getenv("TMPDIR");
  assert_non_null(p);
  snprintf(p->root, sizeof p->root, "%.30s/phaze-store-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(p->root)) fail_msg("%s: %s", p->root, strerror(errno));
  /* A name SQLite's addresses of files must escape. */
  snprintf(p->dir, sizeof p->dir, "%s/a run?#%%41", p->root);
  *state = p;
  return 0;
}

static void remove_all(const char *dir) {
  chmod(dir, 0700);
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    char path[600];
    struct stat st;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
      remove_all(path);
    else
      unlink(path);
  }
  if (d) closedir(d);
  rmdir(dir);
}

static int tear_down(void **state) {
  struct place *p = *state;
  remove_all(p->root);
  free(p);
  return 0;
}

static char *path_of(const struct place *p, const char *file) {
  static char path[300];
  snprintf(path, sizeof path, "%s/%s", p->dir, file);
  return path;
}

static bool is_there(const struct place *p, const char *file) {
  return access(path_of(p, file), F_OK) == 0;
}

struct bytes {
  char *text;
  size_t n;
};

static struct bytes read_file(const struct place *p, const char *file) {
  struct bytes b = {NULL, 0};
  struct pz_error err = {0};
  if (pz_file_read(path_of(p, file), 64u << 20, &b.text, &b.n, &err) != PZ_OK)
    fail_msg("%s", err.message);
  return b;
}

static void assert_unchanged(const struct place *p, const char *file, struct bytes was) {
  struct bytes now = read_file(p, file);
  assert_int_equal(now.n, was.n);
  assert_memory_equal(now.text, was.text, was.n);
  free(now.text);
  free(was.text);
}

static struct pz_run_file *open_run(const struct place *p) {
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  if (pz_run_file_open(p->dir, INPUTS, false, &f, &err) != PZ_OK) fail_msg("%s", err.message);
  return f;
}

static void refused(const struct place *p, const char *inputs, enum pz_status want,
                    const char *says) {
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  assert_int_equal(pz_run_file_open(p->dir, inputs, false, &f, &err), want);
  assert_null(f);
  if (!strstr(err.message, says)) fail_msg("'%s' is not in: %s", says, err.message);
}

/* Another hand at the file. */
static void alter(const struct place *p, const char *sql) {
  sqlite3 *db = NULL;
  char *message = NULL;
  assert_int_equal(sqlite3_open(path_of(p, "run.sqlite"), &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s", message);
  sqlite3_close(db);
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* The i-th of a sequence: five of each objective run. */
static struct bytes round_bytes(uint32_t i) {
  static char text[3000];
  struct bytes b = {text, i == 7 ? 0 : 1 + i * 37 % 2999};
  for (size_t k = 0; k < b.n; k++) text[k] = (char)(k * 31 + i * 7 + k / 256); /* NUL too */
  return b;
}

/* How many are there, as they were written; they come in their order, without holes. */
static int64_t find_rounds(struct pz_run_file *f) {
  const struct pz_round_store *store = pz_run_file_rounds(f);
  for (uint32_t n = 0;; n++) {
    struct pz_buffer b = {0};
    struct bytes want = round_bytes(n);
    if (read_stored_round(store, n / 5, n % 5, &b, NULL) != PZ_OK) return -1;
    if (!b.text) return n;
    bool same = b.bytes == want.n && memcmp(b.text, want.text, want.n) == 0;
    pz_free(b.text);
    if (!same) return -2;
  }
}

static uint32_t count_rounds(struct pz_run_file *f) {
  int64_t n = find_rounds(f);
  if (n < 0) fail_msg("rounds cannot be read: %d", (int)n);
  return (uint32_t)n;
}

/* Each is committed. */
static enum pz_status write_rounds(struct pz_run_file *f, uint32_t from, uint32_t to,
                                   struct pz_error *err) {
  const struct pz_round_store *store = pz_run_file_rounds(f);
  enum pz_status status = PZ_OK;
  for (uint32_t i = from; i < to && status == PZ_OK; i++) {
    struct bytes r = round_bytes(i);
    struct pz_buffer b = {r.text, r.n, 0};
    status = write_stored_round(store, i / 5, i % 5, &b, err);
  }
  return status;
}

/* ---- tables --------------------------------------------------------------------------------- */

static uint16_t some_layers[1024];

/* The i-th of a sequence; the order of keys is that of i. */
static struct pz_found_step found_step(uint32_t i) {
  static const double odd[] = {HUGE_VAL, 0.1, 5e-324, 1.7976931348623157e308, 1.0, 0.0, 1.0 / 3};
  struct pz_found_step e = {.chip_id = UINT64_C(3000000000) * i, .entry = i % 2};
  double step_s = i % 3 == 0 ? odd[i / 3 % 7] : 1 + sin(i) / 7;
  e.evaluation = (struct pz_evaluation){.effort = (enum pz_effort)(1 + i % 2),
                                        .step_s = step_s,
                                        .least_s = i % 5 == 0 ? fmin(step_s, 0.3) : step_s,
                                        .n_open = i % 5 == 0,
                                        .dynamic_j = i / 3.0};
  if (!(step_s < HUGE_VAL)) return e;
  for (uint32_t k = 0; k < 1024; k++)
    some_layers[k] = (uint16_t)(k % 3 == 0 ? 65535 - k : 1 + k % 99);
  e.evaluation.plan = (struct pz_plan_record){.variant = i * 77,
                                              .recompute = i % 2,
                                              .replicas = INT64_MAX - i,
                                              .n_stages = i == 1 ? 1024 : 1 + i % 9,
                                              .layers = some_layers};
  return e;
}

static struct pz_closed_box closed_box(uint32_t i) {
  struct pz_closed_box b = {.box = {.kind = i % 64},
                            .end = (enum pz_box_end)(i % PZ_BOX_ENDS),
                            .bound = i % 7 ? i / 3.0 : HUGE_VAL,
                            .value = i / 7.0};
  for (int a = 0; a < PZ_AXES; a++) b.box.lo[a] = (uint8_t)(i + (uint32_t)a);
  for (int a = 0; a < PZ_AXES; a++) b.box.hi[a] = (uint8_t)(b.box.lo[a] + i % 3);
  return b;
}

enum { MOST_ITEMS = 30000 };

/* So many evaluations and boxes of each of two objective runs. */
static enum pz_status write_tables(struct pz_run_file *f, uint32_t n, const struct pz_closed_box *b,
                                   const struct pz_found_step *k) {
  struct pz_objective_run runs[2] = {{.boxes = b, .n_boxes = n}, {.boxes = b, .n_boxes = n / 2}};
  struct pz_run_tables t = {runs, 2, k, n};
  return pz_run_file_set_tables(f, &t, NULL);
}

static struct pz_closed_box *some_boxes(uint32_t n) {
  struct pz_closed_box *list = calloc(n, sizeof *list);
  for (uint32_t i = 0; i < n; i++) list[i] = closed_box(i);
  return list;
}

static struct pz_found_step *some_steps(uint32_t n) {
  struct pz_found_step *list = calloc(n, sizeof *list);
  for (uint32_t i = 0; i < n; i++) list[i] = found_step(i);
  return list;
}

/* What a query gives, as SQLite writes it; the caller's to free. */
static char *ask(const struct place *p, const char *sql) {
  sqlite3 *db = NULL;
  sqlite3_stmt *stmt = NULL;
  assert_int_equal(sqlite3_open_v2(path_of(p, "run.sqlite"), &db, SQLITE_OPEN_READONLY, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
  const char *text = (const char *)sqlite3_column_text(stmt, 0);
  char *copy = strdup(text ? text : "NULL");
  sqlite3_finalize(stmt);
  sqlite3_close(db);
  return copy;
}

static void answers(const struct place *p, const char *sql, const char *want) {
  char *text = ask(p, sql);
  assert_string_equal(text, want);
  free(text);
}

static bool same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

/* ---- what is kept --------------------------------------------------------------------------- */

static void rounds_come_back_byte_for_byte(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  assert_int_equal(count_rounds(f), 0);
  assert_int_equal(write_rounds(f, 0, 50, NULL), PZ_OK);
  assert_int_equal(write_rounds(f, 50, 80, NULL), PZ_OK);
  assert_int_equal(count_rounds(f), 80);
  assert_int_not_equal(write_rounds(f, 40, 41, NULL), PZ_OK); /* a round is found once */
  assert_int_equal(count_rounds(f), 80);
  pz_run_file_close(f);
  f = open_run(p);
  assert_int_equal(count_rounds(f), 80);
  assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
  pz_run_file_close(f);
  pz_run_file_close(NULL);
}

/* A round that was kept is seen by others at once. */
static void keeping_commits(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p), *other = NULL;
  assert_int_equal(write_rounds(f, 0, 1, NULL), PZ_OK);
  assert_int_equal(pz_run_file_look(p->dir, &other, NULL), PZ_OK);
  assert_int_equal(count_rounds(other), 1);
  pz_run_file_close(other);
  pz_run_file_close(f);
  f = open_run(p);
  assert_int_equal(count_rounds(f), 1);
  pz_run_file_close(f);
  assert_false(is_there(p, "run.sqlite-wal"));
}

/* A file in memory is one too; parts of two are compared by their rows. */
static void files_in_memory_are_compared(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p), *g = NULL;
  struct pz_closed_box *boxes = some_boxes(20);
  struct pz_found_step *steps = some_steps(20);
  bool same = false;
  assert_int_equal(pz_run_file_in_memory(INPUTS, &g, NULL), PZ_OK);
  assert_int_equal(write_rounds(f, 0, 10, NULL), PZ_OK);
  assert_int_equal(write_rounds(g, 0, 10, NULL), PZ_OK);
  assert_int_equal(write_tables(f, 20, boxes, steps), PZ_OK);
  assert_int_equal(write_tables(g, 20, boxes, steps), PZ_OK);
  assert_int_equal(pz_run_file_check(g, NULL), PZ_OK);
  for (enum pz_part part = 0; part < PZ_PARTS; part++) {
    assert_int_equal(pz_run_file_same(f, g, part, &same, NULL), PZ_OK);
    assert_true(same);
  }
  boxes[3].bound += 1e-9;
  assert_int_equal(write_tables(g, 20, boxes, steps), PZ_OK);
  assert_int_equal(write_rounds(g, 10, 11, NULL), PZ_OK);
  for (enum pz_part part = 0; part < PZ_PARTS; part++) {
    assert_int_equal(pz_run_file_same(f, g, part, &same, NULL), PZ_OK);
    assert_int_equal(same, part != PZ_PART_ROUNDS && part != PZ_PART_BOXES);
  }
  free(boxes);
  free(steps);
  pz_run_file_close(f);
  pz_run_file_close(g);
}

static void tables_are_replaced(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  struct pz_closed_box *boxes = some_boxes(100);
  struct pz_found_step *steps = some_steps(100);
  assert_int_equal(write_tables(f, 100, boxes, steps), PZ_OK);
  assert_int_equal(write_tables(f, 40, boxes, steps), PZ_OK);
  pz_run_file_close(f);
  answers(p, "SELECT count(*) FROM boxes", "60");
  answers(p, "SELECT count(*) FROM evaluations", "40");
  answers(p, "SELECT lo || ' to ' || hi || ' of ' || kind FROM boxes WHERE run = 1 AND i = 4",
          "4 5 6 7 8 9 10 11 12 to 5 6 7 8 9 10 11 12 13 of 4");
  answers(p, "SELECT how FROM boxes WHERE run = 0 AND i = 2", "partly");
  answers(p, "SELECT count(*) FROM boxes WHERE bound = 9e999 AND i % 7 = 0", "9");
  answers(p, "SELECT length(stages) > 3000 FROM evaluations WHERE chip = 3000000000", "1");
  answers(p, "SELECT stages FROM evaluations WHERE chip = 4 * 3000000000", "65535 2 3 65532 5");
  answers(p,
          "SELECT group_concat(chip / 3000000000) FROM (SELECT chip FROM evaluations WHERE "
          "chip < 5 * 3000000000 ORDER BY chip)",
          "0,1,2,3,4");
  sqlite3 *db = NULL;
  sqlite3_stmt *stmt = NULL;
  assert_int_equal(sqlite3_open(path_of(p, "run.sqlite"), &db), SQLITE_OK);
  assert_int_equal(
      sqlite3_prepare_v2(db, "SELECT step_s, least_s, dynamic_j FROM evaluations ORDER BY chip", -1,
                         &stmt, NULL),
      SQLITE_OK);
  for (uint32_t i = 0; i < 40; i++) {
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_true(same_bits(sqlite3_column_double(stmt, 0), steps[i].evaluation.step_s));
    assert_true(same_bits(sqlite3_column_double(stmt, 1), steps[i].evaluation.least_s));
    assert_true(same_bits(sqlite3_column_double(stmt, 2), steps[i].evaluation.dynamic_j));
  }
  sqlite3_finalize(stmt);
  sqlite3_close(db);
  free(boxes);
  free(steps);
}

/* Tables that cannot be written leave those before. */
static void tables_are_all_or_none(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  struct pz_closed_box *boxes = some_boxes(10);
  struct pz_found_step *steps = some_steps(10);
  assert_int_equal(write_tables(f, 4, boxes, steps), PZ_OK);
  steps[9] = steps[8]; /* twice */
  assert_int_equal(write_tables(f, 10, boxes, steps), PZ_INTERNAL);
  boxes[1].bound = (double)NAN;
  assert_int_equal(write_tables(f, 3, boxes, steps), PZ_INTERNAL);
  assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
  pz_run_file_close(f);
  answers(p, "SELECT count(*) FROM boxes", "6");
  answers(p, "SELECT count(*) FROM evaluations", "4");
  free(boxes);
  free(steps);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Well under a second; the limit leaves room for sanitizers and busy machines. */
static void large_tables_are_fast(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  struct pz_closed_box *boxes = some_boxes(MOST_ITEMS);
  struct pz_found_step *steps = some_steps(MOST_ITEMS);
  double begin = now_s();
  for (int i = 0; i < 3; i++) assert_int_equal(write_tables(f, MOST_ITEMS, boxes, steps), PZ_OK);
  double took = now_s() - begin;
  print_message("%d boxes and evaluations in %.2f s\n", 3 * 5 * MOST_ITEMS / 2, took);
  pz_run_file_close(f);
  free(boxes);
  free(steps);
  assert_true(took < 20);
}

static char *text_of(struct pz_run_file *f, enum pz_part part) {
  char *text = (char *)1;
  assert_int_equal(pz_run_file_text(f, part, &text, NULL), PZ_OK);
  return text;
}

static void texts_and_timings_are_kept(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  assert_null(text_of(f, PZ_PART_RESULT));
  assert_int_equal(pz_run_file_set_timing(f, "search", 2.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_timing(f, "search", 3.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_RESULT, "{\"best\": \"b\"}\n", NULL), PZ_OK);
  assert_null(text_of(f, PZ_PART_COMPARISON));
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_COMPARISON, "{\"seed\": 1}", NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_COMPARISON, "{\"seed\": 2}", NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_DETAIL, "{}", NULL), PZ_OK);
  pz_run_file_close(f);
  f = NULL;
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_COMPARISON, "{}", NULL), PZ_BAD_USE);
  assert_string_equal(pz_run_file_inputs(f), INPUTS);
  static const char *const want[] = {"{\"best\": \"b\"}\n", "{\"seed\": 2}", "{}"};
  for (int i = 0; i < 3; i++) {
    char *text = text_of(f, (enum pz_part)(PZ_PART_RESULT + i));
    assert_string_equal(text, want[i]);
    free(text);
  }
  pz_run_file_close(f);
  answers(p, "SELECT seconds FROM timings WHERE what = 'search'", "3.5");
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void differences_are_named(void **state) {
  (void)state;
  static const struct {
    const char *was, *now, *says;
  } cases[] = {
      {"{\"a\": 1, \"b\": [2]}", "{\"b\": [2], \"a\": 1}", NULL},
      {"{\"batch\": 4096}", "{\"batch\": 2048}", "batch was 4096 and is 2048 now"},
      {"{\"batch\": 1}", "{}", "batch was 1 and is absent now"},
      {"{}", "{\"batch\": 1}", "batch was absent and is 1 now"},
      {"{\"a\": 1, \"b\": 1}", "{\"a\": 2, \"b\": 2}",
       "a was 1 and is 2 now, and 1 other input differs"},
      {"{\"a\": 1, \"b\": 1}", "{\"a\": 2, \"c\": 2}",
       "a was 1 and is 2 now, and 2 other inputs differ"},
      {"{\"s\": {\"n\": [1, {\"k\": 2}]}}", "{\"s\": {\"n\": [1, {\"k\": 3}]}}",
       "s.n[1].k was 2 and is 3 now"},
      {"{\"m\": [\"x\"]}", "{\"m\": [\"x\", \"y\"]}", "m was [\"x\"] and is [\"x\",\"y\"] now"},
      {"{\"m\": [1]}", "{\"m\": {\"x\": 1}}", "m was [1] and is {\"x\":1} now"},
      {"{\"m\": [{\"name\": \"x\", \"digest\": \"1\"}]}",
       "{\"m\": [{\"name\": \"y\", \"digest\": \"2\"}, {\"name\": \"x\", \"digest\": \"1\"}]}",
       "m were x and are y, x now"},
      {"{\"a\": 1, \"m\": [{\"name\": \"x\"}, {\"name\": \"y\"}]}",
       "{\"a\": 2, \"m\": [{\"name\": \"x\"}, {\"name\": \"z\"}]}",
       "a was 1 and is 2 now, and 1 other input differs"},
      {"{\"m\": [{\"name\": \"x\"}, {\"name\": \"y\"}]}",
       "{\"m\": [{\"name\": \"x\"}, {\"name\": \"z\"}]}", "m were x, y and are x, z now"},
      {"{\"m\": [{\"name\": \"x\", \"digest\": \"1\"}]}",
       "{\"m\": [{\"name\": \"x\", \"digest\": \"2\"}]}", "x has other contents now"},
      {"{\"m\": [{\"name\": \"x\", \"seq\": 1}]}", "{\"m\": [{\"name\": \"x\", \"seq\": 2}]}",
       "m[0].seq was 1 and is 2 now"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[400] = "";
    json_t *was = json_loads(cases[i].was, 0, NULL), *now = json_loads(cases[i].now, 0, NULL);
    assert_int_equal(pz_inputs_differ(was, now, text, sizeof text), cases[i].says != NULL);
    if (cases[i].says) assert_string_equal(text, cases[i].says);
    json_decref(was);
    json_decref(now);
  }
}

static void other_inputs_are_refused(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  assert_int_equal(write_rounds(f, 0, 50, NULL), PZ_OK);
  pz_run_file_close(f);
  struct bytes was = read_file(p, "run.sqlite");
  refused(
      p, "{\"version\": \"1\", \"models\": [\"opt-350m\", \"gpt2-xl\"], \"batch\": 2048}",
      PZ_BAD_INPUT,
      "different inputs: batch was 4096 and is 2048 now; accepted: another directory, or --fresh");
  refused(p, "{\"version\": \"1\", \"models\": [\"opt-350m\", \"bert\"], \"batch\": 4096}",
          PZ_BAD_INPUT, "models[1] was \"gpt2-xl\" and is \"bert\" now");
  refused(p, "[]", PZ_BAD_INPUT, "accepted: a JSON object");
  assert_unchanged(p, "run.sqlite", was);
  assert_false(is_there(p, "run.sqlite-wal") || is_there(p, "run.sqlite-shm"));
  /* The same inputs in another order are the same. */
  struct pz_error err = {0};
  assert_int_equal(pz_run_file_open(p->dir,
                                    "{\"batch\": 4096, \"models\": [\"opt-350m\", \"gpt2-xl\"],"
                                    " \"version\": \"1\"}",
                                    false, &f, &err),
                   PZ_OK);
  assert_int_equal(count_rounds(f), 50);
  pz_run_file_close(f);
}

static void other_versions_and_tables_are_refused(void **state) {
  struct place *p = *state;
  static const struct {
    const char *sql, *says;
  } cases[] = {
      {"PRAGMA user_version = 7", "version 7, and this phaze writes version 6"},
      {"PRAGMA user_version = 6; PRAGMA application_id = 1", "is not a phaze run file"},
      {"PRAGMA application_id = 1885888890; CREATE VIEW v AS SELECT 1", "its tables are not"},
      {"DROP VIEW v; DROP TABLE timings", "its tables are not those of a phaze run file"},
  };
  pz_run_file_close(open_run(p));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_run_file *f = NULL;
    struct pz_error err = {0};
    alter(p, cases[i].sql);
    struct bytes was = read_file(p, "run.sqlite");
    refused(p, INPUTS, PZ_BAD_INPUT, cases[i].says);
    assert_int_equal(pz_run_file_look(p->dir, &f, &err), PZ_BAD_INPUT);
    assert_non_null(strstr(err.message, cases[i].says));
    assert_null(strstr(err.message, "--fresh"));
    assert_unchanged(p, "run.sqlite", was);
  }
}

static void put(const struct place *p, const char *file, const void *text, size_t n) {
  assert_int_equal(pz_file_write(path_of(p, file), text, n, NULL), PZ_OK);
}

static void garbage_is_refused_and_left_alone(void **state) {
  struct place *p = *state;
  static const char *const texts[] = {"", "SQLite format 3", "all kinds of other things"};
  char long_text[5000];
  memset(long_text, 'x', sizeof long_text);
  memcpy(long_text, "SQLite format 3", 16);
  mkdir(p->dir, 0777);
  for (int i = 0; i < 4; i++) {
    if (i < 3)
      put(p, "run.sqlite", texts[i], strlen(texts[i]));
    else
      put(p, "run.sqlite", long_text, sizeof long_text);
    struct bytes was = read_file(p, "run.sqlite");
    refused(p, INPUTS, PZ_BAD_INPUT, "is not a phaze run file; accepted: another directory");
    assert_unchanged(p, "run.sqlite", was);
  }
  unlink(path_of(p, "run.sqlite"));
  put(p, "run.sqlite-wal", "log", 3);
  refused(p, INPUTS, PZ_BAD_INPUT, "files that belong to it exist");
  assert_true(is_there(p, "run.sqlite-wal"));
  unlink(path_of(p, "run.sqlite-wal"));
  mkdir(path_of(p, "run.sqlite"), 0777);
  refused(p, INPUTS, PZ_IO, "run.sqlite: is not a regular file");
}

static void fresh_keeps_what_was(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  assert_int_equal(write_rounds(f, 0, 20, NULL), PZ_OK);
  pz_run_file_close(f);
  struct bytes first = read_file(p, "run.sqlite");
  assert_int_equal(pz_run_file_open(p->dir, "{\"batch\": 1}", true, &f, NULL), PZ_OK);
  assert_int_equal(count_rounds(f), 0);
  assert_int_equal(write_rounds(f, 0, 3, NULL), PZ_OK);
  pz_run_file_close(f);
  struct bytes second = read_file(p, "run.sqlite");
  put(p, "run-2.sqlite-wal", "taken", 5);
  assert_int_equal(pz_run_file_open(p->dir, INPUTS, true, &f, NULL), PZ_OK);
  pz_run_file_close(f);
  assert_unchanged(p, "run-1.sqlite", first);
  assert_unchanged(p, "run-3.sqlite", second);
  put(p, "run.sqlite", "garbage", 7);
  put(p, "run.sqlite-wal", "more", 4);
  assert_int_equal(pz_run_file_open(p->dir, INPUTS, true, &f, NULL), PZ_OK);
  pz_run_file_close(f);
  assert_unchanged(p, "run-4.sqlite", (struct bytes){strdup("garbage"), 7});
  assert_unchanged(p, "run-4.sqlite-wal", (struct bytes){strdup("more"), 4});
}

/* ---- digests -------------------------------------------------------------------------------- */

static void fill_all_parts(struct pz_run_file *f) {
  struct pz_closed_box *boxes = some_boxes(20);
  struct pz_found_step *steps = some_steps(20);
  assert_int_equal(write_rounds(f, 0, 50, NULL), PZ_OK);
  assert_int_equal(write_tables(f, 20, boxes, steps), PZ_OK);
  assert_int_equal(write_tables(f, 15, boxes, steps), PZ_OK); /* replaces */
  assert_int_equal(pz_run_file_set_timing(f, "search_s", 1.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_timing(f, "search_s", 2.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_RESULT, "{\"a\": 1}", NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_COMPARISON, "{\"b\": 1}", NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_DETAIL, "{\"c\": 1}", NULL), PZ_OK);
  assert_int_equal(write_rounds(f, 50, 60, NULL), PZ_OK);
  free(boxes);
  free(steps);
}

static void digests_follow_what_is_written(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
  fill_all_parts(f);
  pz_run_file_close(f);
  for (int look = 0; look < 2; look++) {
    f = NULL;
    if (look)
      assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
    else
      f = open_run(p);
    assert_int_equal(pz_run_file_is_read_only(f), look);
    assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
    pz_run_file_close(f);
  }
}

static void parts_that_were_changed_are_refused(void **state) {
  struct place *p = *state;
  static const struct {
    const char *part, *sql;
  } changes[] = {
      {"inputs", "UPDATE run SET inputs = inputs || ' '"},
      {"result", "UPDATE run SET result = NULL"},
      {"comparison", "UPDATE run SET comparison = '{\"b\": 2}'"},
      {"detail", "UPDATE run SET detail = '{\"d\": 1}'"},
      {"rounds", "UPDATE rounds SET found = x'00' WHERE run = 0 AND round = 1"},
      {"rounds", "DELETE FROM rounds WHERE run = 11"},
      {"rounds", "INSERT INTO rounds VALUES(12, 0, x'00')"},
      {"boxes", "UPDATE boxes SET bound = 0.6666666666666667 WHERE i = 2"},
      {"boxes", "UPDATE boxes SET lo = hi, hi = lo WHERE i = 2"},
      {"boxes", "DELETE FROM boxes WHERE run = 1 AND i = 3"},
      {"evaluations", "UPDATE evaluations SET dp = dp - 1 WHERE chip = 3000000000"},
      {"evaluations", "DELETE FROM evaluations WHERE chip = 3000000000"},
      {"timings", "UPDATE timings SET seconds = 1.5"},
      {"timings", "DELETE FROM digests WHERE part = 'timings'"},
  };
  struct pz_run_file *f = open_run(p);
  fill_all_parts(f);
  pz_run_file_close(f);
  struct bytes good = read_file(p, "run.sqlite");
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    struct pz_error err = {0};
    put(p, "run.sqlite", good.text, good.n);
    alter(p, changes[i].sql);
    assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
    assert_int_equal(pz_run_file_check(f, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, "recorded: ") || !strstr(err.message, changes[i].part))
      fail_msg("%s: %s", changes[i].sql, err.message);
    pz_run_file_close(f);
  }
  free(good.text);
}

static void pipes_are_not_waited_for(void **state) {
  struct place *p = *state;
  static const char *const names[] = {"run.sqlite", "run.sqlite-wal", "run.sqlite-shm",
                                      "run.sqlite-journal", "lock"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct pz_run_file *f = NULL;
    pz_run_file_close(open_run(p));
    unlink(path_of(p, names[i]));
    assert_int_equal(mkfifo(path_of(p, names[i]), 0666), 0);
    refused(p, INPUTS, PZ_IO, "is not a regular file; accepted: the directory of a run");
    assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_IO);
    unlink(path_of(p, names[i]));
  }
}

/* ---- other processes ------------------------------------------------------------------------ */

/* The exit status of `body` in a process of its own. */
static int in_child(int (*body)(const struct place *p), const struct place *p) {
  int how = 0;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(body(p));
  assert_int_equal(waitpid(child, &how, 0), child);
  return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static int try_to_open(const struct place *p) {
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  enum pz_status status = pz_run_file_open(p->dir, INPUTS, true, &f, &err);
  if (status == PZ_OK) return 0;
  return status == PZ_IO && strstr(err.message, "another phaze is running there") ? 1 : 2;
}

/* Opens, says so, and waits for its end. */
static pid_t start_holder(const struct place *p) {
  int ends[2];
  char c = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct pz_run_file *f = NULL;
    if (pz_run_file_open(p->dir, INPUTS, false, &f, NULL) != PZ_OK ||
        write_rounds(f, 0, 10, NULL) != PZ_OK || write(ends[1], "x", 1) != 1)
      _exit(1);
    for (;;) pause();
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &c, 1), 1);
  close(ends[0]);
  return child;
}

static void a_run_is_written_by_one_process(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  assert_int_equal(in_child(try_to_open, p), 1);
  assert_int_equal(try_to_open(p), 1); /* nor twice by one */
  pz_run_file_close(f);
  assert_int_equal(in_child(try_to_open, p), 0);
  pid_t holder = start_holder(p);
  assert_int_equal(try_to_open(p), 1);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  f = open_run(p);
  assert_int_equal(count_rounds(f), 10);
  pz_run_file_close(f);
}

static void lookers_go_beside_a_writer(void **state) {
  struct place *p = *state;
  pid_t holder = start_holder(p);
  struct pz_run_file *f = NULL;
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(count_rounds(f), 10);
  assert_int_equal(write_rounds(f, 10, 11, NULL), PZ_BAD_USE);
  assert_int_equal(write_tables(f, 0, NULL, NULL), PZ_BAD_USE);
  assert_int_equal(pz_run_file_set_text(f, PZ_PART_RESULT, "", NULL), PZ_BAD_USE);
  assert_int_equal(pz_run_file_set_timing(f, "", 1, NULL), PZ_BAD_USE);
  pz_run_file_close(f);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  /* What the killed one left is read, and left as it is. */
  struct bytes was = read_file(p, "run.sqlite"), log = read_file(p, "run.sqlite-wal");
  assert_true(log.n > 0);
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(count_rounds(f), 10);
  pz_run_file_close(f);
  refused(p, "{}", PZ_BAD_INPUT, "different inputs");
  assert_unchanged(p, "run.sqlite", was);
  assert_unchanged(p, "run.sqlite-wal", log);
  /* Moved aside, nothing of the log is lost. */
  assert_int_equal(pz_run_file_open(p->dir, INPUTS, true, &f, NULL), PZ_OK);
  pz_run_file_close(f);
  assert_false(is_there(p, "run-1.sqlite-wal"));
  char from[300];
  snprintf(from, sizeof from, "%s", path_of(p, "run-1.sqlite"));
  assert_int_equal(rename(from, path_of(p, "run.sqlite")), 0);
  f = open_run(p);
  assert_int_equal(count_rounds(f), 10);
  pz_run_file_close(f);
}

static void looking_leaves_no_trace(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = NULL, *other = NULL;
  struct pz_error err = {0};
  assert_int_equal(pz_run_file_look(p->dir, &f, &err), PZ_IO);
  assert_non_null(strstr(err.message, "no run found; accepted: the directory of a search"));
  assert_int_equal(access(p->dir, F_OK), -1);
  f = open_run(p);
  assert_int_equal(write_rounds(f, 0, 10, NULL), PZ_OK);
  pz_run_file_close(f);
  struct bytes was = read_file(p, "run.sqlite");
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(pz_run_file_look(p->dir, &other, NULL), PZ_OK);
  assert_int_equal(count_rounds(f), 10);
  assert_false(is_there(p, "run.sqlite-wal") || is_there(p, "run.sqlite-shm"));
  refused(p, INPUTS, PZ_IO, "another phaze is running there");
  pz_run_file_close(f);
  pz_run_file_close(other);
  assert_unchanged(p, "run.sqlite", was);
  unlink(path_of(p, "lock")); /* as in a copy */
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(count_rounds(f), 10);
  pz_run_file_close(f);
  assert_false(is_there(p, "lock"));
}

/* ---- kill -9 -------------------------------------------------------------------------------- */

enum { KILLS = 20 };

/* Goes on where the run stands, and says how far it is, at first and after each commit. */
static void write_until_killed(const struct place *p, int to) {
  struct pz_run_file *f = NULL;
  if (pz_run_file_open(p->dir, INPUTS, false, &f, NULL) != PZ_OK) _exit(1);
  int64_t found = find_rounds(f);
  if (found < 0) _exit(2);
  for (uint32_t n = (uint32_t)found;; n++) {
    if (write(to, &n, sizeof n) != sizeof n) _exit(3);
    if (write_rounds(f, n, n + 1, NULL) != PZ_OK) _exit(4);
  }
}

/* The last number said by a child that is killed some milliseconds after its start, or else after
 * its first commit. */
static uint32_t kill_a_writer(const struct place *p, bool early, uint32_t said) {
  int ends[2], how = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) write_until_killed(p, ends[1]);
  close(ends[1]);
  for (int i = 0; i < 2 && !early; i++) (void)!read(ends[0], &said, sizeof said);
  struct timespec pause = {0, 1000 * (long)draw(1000) * (1 + (long)draw(40))};
  nanosleep(&pause, NULL);
  kill(child, SIGKILL);
  waitpid(child, &how, 0);
  if (!WIFSIGNALED(how)) fail_msg("the writer ended by itself: %d", WEXITSTATUS(how));
  for (uint32_t n; read(ends[0], &n, sizeof n) == sizeof n;) said = n;
  close(ends[0]);
  return said;
}

/* All that was said to be committed, and at most one more. */
static void assert_prefix(uint32_t n, uint32_t said) {
  if (n < said || n > said + 1)
    fail_msg("%u are there, %u were committed", (unsigned)n, (unsigned)said);
}

static void assert_whole(const struct place *p) {
  sqlite3 *db = NULL;
  sqlite3_stmt *stmt = NULL;
  assert_int_equal(sqlite3_open(path_of(p, "run.sqlite"), &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &stmt, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(stmt, 0), "ok");
  sqlite3_finalize(stmt);
  sqlite3_close(db);
}

/* Killed at any moment, the making of the file included: what was said to be committed is there, whole, and the next one
 * goes on. */
static void killed_writers_leave_a_prefix(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = NULL;
  uint32_t said = 0, n = 0;
  for (int round = 0; round < KILLS; round++) {
    said = kill_a_writer(p, round % 2 == 0, said);
    if (round % 3 != 2) continue; /* the next writer finds what the kill left */
    assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
    assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
    assert_prefix(count_rounds(f), said);
    pz_run_file_close(f);
    assert_whole(p);
  }
  f = open_run(p);
  assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
  n = count_rounds(f);
  pz_run_file_close(f);
  print_message("%u rounds survived %d kills\n", (unsigned)n, (int)KILLS);
  assert_prefix(n, said);
  assert_true(n > 0);
  assert_whole(p);
}

/* ---- places that cannot be written to ------------------------------------------------------- */

/* As nobody where we are root, whom no mode keeps out. */
static bool become_nobody(void) {
  return geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0);
}

enum { SKIP = 77 };

static int use_read_only(const struct place *p) {
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  if (!become_nobody() || access(p->dir, W_OK) == 0) return SKIP;
  if (pz_run_file_open(p->dir, INPUTS, false, &f, &err) != PZ_IO || f) return 1;
  if (!strstr(err.message, "accepted: a directory that can be written to")) return 2;
  if (pz_run_file_look(p->dir, &f, &err) != PZ_OK) return 3;
  if (find_rounds(f) != 10) return 4;
  pz_run_file_close(f);
  return 0;
}

/* The files too: their owner may write to them in a directory that is shut. */
static void set_modes(const struct place *p, mode_t files, mode_t dir) {
  static const char *const names[] = {"lock", "run.sqlite", "run.sqlite-wal", "run.sqlite-shm"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) chmod(path_of(p, names[i]), files);
  chmod(p->dir, dir);
}

static void check_read_only(const struct place *p) {
  chmod(p->root, 0755);
  set_modes(p, 0444, 0555);
  int code = in_child(use_read_only, p);
  set_modes(p, 0644, 0755);
  if (code == SKIP) {
    print_message("cannot be other than root: skipped\n");
    skip();
  }
  assert_int_equal(code, 0);
}

static void read_only_directories_are_looked_at(void **state) {
  struct place *p = *state;
  pid_t holder = start_holder(p);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  assert_true(is_there(p, "run.sqlite-wal"));
  check_read_only(p); /* with a log left by a kill */
  pz_run_file_close(open_run(p));
  assert_false(is_there(p, "run.sqlite-wal"));
  check_read_only(p);
}

static int make_in_read_only(const struct place *p) {
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  if (!become_nobody() || access(p->root, W_OK) == 0) return SKIP;
  return pz_run_file_open(p->dir, INPUTS, false, &f, &err) == PZ_IO &&
                 strstr(err.message, "cannot create the directory: Permission denied")
             ? 0
             : 1;
}

static void missing_parents_are_not_made(void **state) {
  struct place *p = *state;
  struct place deep = *p;
  snprintf(deep.dir, sizeof deep.dir, "%.60s/no/run", p->root);
  refused(&deep, INPUTS, PZ_IO, "cannot create the directory: No such file or directory");
  snprintf(deep.dir, sizeof deep.dir, "%.60s/file", p->root);
  assert_int_equal(pz_file_write(deep.dir, "x", 1, NULL), PZ_OK);
  refused(&deep, INPUTS, PZ_IO, "Not a directory");
  deep.dir[0] = '\0';
  refused(&deep, INPUTS, PZ_BAD_USE, "the name of the run directory is empty");
  chmod(p->root, 0555);
  int code = in_child(make_in_read_only, p);
  assert_true(code == 0 || code == SKIP);
}

static void limit_files(rlim_t bytes) {
  const struct rlimit limit = {bytes, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(SKIP);
}

static int make_on_a_full_disk(const struct place *p) {
  struct pz_run_file *f = NULL;
  static const rlim_t sizes[] = {0, 100, 4096, 8192, 20000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct pz_error err = {0};
    limit_files(sizes[i]);
    if (pz_run_file_open(p->dir, INPUTS, false, &f, &err) != PZ_IO || f) return 1;
    if (!strstr(err.message, "cannot")) return 2;
    if (is_there(p, "run.sqlite") || is_there(p, "run.sqlite.part") ||
        is_there(p, "run.sqlite.part-journal"))
      return 3;
  }
  return 0;
}

/* Opening reads first, and writes the index of the journal for it. */
static int open_on_a_full_disk(const struct place *p) {
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  if (pz_run_file_open(p->dir, INPUTS, false, &f, &err) != PZ_OK) return 1;
  pz_run_file_close(f);
  f = NULL;
  limit_files(4096);
  if (pz_run_file_open(p->dir, INPUTS, false, &f, &err) != PZ_IO || f) return 2;
  return strstr(err.message, "run.sqlite: cannot write: ") ? 0 : 3;
}

/* Writes until the disk is full; what was committed before is there afterwards. */
static int fill_the_disk(const struct place *p) {
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  limit_files(300000);
  if (pz_run_file_open(p->dir, INPUTS, false, &f, &err) != PZ_OK) return 1;
  uint32_t n = 0;
  while (n < 100000 && write_rounds(f, n, n + 1, &err) == PZ_OK) n++;
  if (err.status != PZ_IO || !strstr(err.message, "run.sqlite: cannot write: ")) return 2;
  int to = open(path_of(p, "said"), O_WRONLY | O_CREAT, 0666);
  if (write(to, &n, sizeof n) != sizeof n) return 3;
  close(to);
  pz_run_file_close(f);
  return 0;
}

static void full_disks_are_survived(void **state) {
  struct place *p = *state;
  assert_int_equal(in_child(make_on_a_full_disk, p), 0);
  assert_int_equal(in_child(open_on_a_full_disk, p), 0);
  assert_int_equal(in_child(fill_the_disk, p), 0);
  struct bytes said = read_file(p, "said");
  uint32_t n;
  memcpy(&n, said.text, sizeof n);
  free(said.text);
  assert_true(n > 7);
  assert_whole(p);
  struct pz_run_file *f = open_run(p);
  uint32_t found = count_rounds(f);
  print_message("%u were committed before the disk was full, %u are there\n", (unsigned)n,
                (unsigned)found);
  assert_true(found >= n && found <= n + 1);
  assert_int_equal(write_rounds(f, found, found + 1000, NULL), PZ_OK);
  assert_int_equal(count_rounds(f), found + 1000);
  assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
  pz_run_file_close(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(rounds_come_back_byte_for_byte),
      TEST(keeping_commits),
      TEST(files_in_memory_are_compared),
      TEST(tables_are_replaced),
      TEST(tables_are_all_or_none),
      TEST(large_tables_are_fast),
      TEST(texts_and_timings_are_kept),
      TEST(differences_are_named),
      TEST(other_inputs_are_refused),
      TEST(other_versions_and_tables_are_refused),
      TEST(garbage_is_refused_and_left_alone),
      TEST(fresh_keeps_what_was),
      TEST(digests_follow_what_is_written),
      TEST(parts_that_were_changed_are_refused),
      TEST(pipes_are_not_waited_for),
      TEST(a_run_is_written_by_one_process),
      TEST(lookers_go_beside_a_writer),
      TEST(looking_leaves_no_trace),
      TEST(killed_writers_leave_a_prefix),
      TEST(read_only_directories_are_looked_at),
      TEST(missing_parents_are_not_made),
      TEST(full_disks_are_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
