/* The run file: bit for bit, refusals that leave everything as it was, locks, kill -9, full disks,
 * rows of other hands. */
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

/* ---- entries -------------------------------------------------------------------------------- */

static uint16_t some_layers[1024];

/* The i-th of a sequence; the order of keys is that of i. */
static struct pz_entry entry(uint32_t i) {
  static const double odd[] = {HUGE_VAL, 0.1, 5e-324, 1.7976931348623157e308, 1.0, 0.0, 1.0 / 3};
  struct pz_entry e = {.id = i / 4, .model = i / 2 % 2, .objective_run = 1 + i % 3};
  double time_s = i % 3 == 0 ? odd[i / 3 % 7] : 1 + sin(i) / 7;
  e.e = (struct pz_evaluation){.effort = (enum pz_effort)(1 + i % 2),
                               .time_s = time_s,
                               .least_s = i % 5 == 0 ? fmin(time_s, 0.3) : time_s,
                               .n_open = i % 5 == 0};
  if (!(time_s < HUGE_VAL)) return e;
  for (uint32_t k = 0; k < 1024; k++)
    some_layers[k] = (uint16_t)(k % 3 == 0 ? 65535 - k : 1 + k % 99);
  e.e.plan = (struct pz_plan_record){.variant = i * 77,
                                     .recompute = i % 2,
                                     .d = INT64_MAX - i,
                                     .n_stages = i == 1 ? 1024 : 1 + i % 9,
                                     .layers = some_layers};
  return e;
}

static bool same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static bool same_entry(const struct pz_entry *a, const struct pz_entry *b) {
  const struct pz_plan_record *x = &a->e.plan, *y = &b->e.plan;
  return a->id == b->id && a->model == b->model && a->objective_run == b->objective_run &&
         a->e.effort == b->e.effort && same_bits(a->e.time_s, b->e.time_s) &&
         same_bits(a->e.least_s, b->e.least_s) && a->e.n_open == b->e.n_open &&
         x->variant == y->variant && x->recompute == y->recompute && x->d == y->d &&
         x->n_stages == y->n_stages &&
         (x->n_stages == 0 || memcmp(x->layers, y->layers, x->n_stages * sizeof *x->layers) == 0);
}

/* Counts them, as long as they come as they were written. */
static enum pz_status take_in_order(void *into, const struct pz_entry *e) {
  uint32_t *n = into;
  struct pz_entry want = entry(*n);
  if (!same_entry(e, &want)) return PZ_BAD_INPUT;
  ++*n;
  return PZ_OK;
}

static uint32_t count_entries(struct pz_run_file *f) {
  const struct pz_journal *j = pz_run_file_journal(f);
  struct pz_error err = {0};
  uint32_t n = 0;
  if (j->recall(j->ctx, take_in_order, &n, &err) != PZ_OK) fail_msg("%s", err.message);
  return n;
}

static enum pz_status write_entries(struct pz_run_file *f, uint32_t from, uint32_t to,
                                    struct pz_error *err) {
  const struct pz_journal *j = pz_run_file_journal(f);
  enum pz_status status = PZ_OK;
  for (uint32_t i = from; i < to && status == PZ_OK; i++) {
    struct pz_entry e = entry(i);
    status = j->evaluated(j->ctx, &e, err);
  }
  return status == PZ_OK ? j->commit(j->ctx, err) : status;
}

/* ---- what is kept --------------------------------------------------------------------------- */

static void evaluations_come_back_bit_for_bit(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  assert_int_equal(count_entries(f), 0);
  assert_int_equal(write_entries(f, 0, 500, NULL), PZ_OK);
  assert_int_equal(write_entries(f, 300, 800, NULL), PZ_OK); /* again: no harm */
  assert_int_equal(count_entries(f), 800);
  pz_run_file_close(f);
  f = open_run(p);
  assert_int_equal(count_entries(f), 800);
  pz_run_file_close(f);
  pz_run_file_close(NULL);
}

/* What was not committed when it was closed in order is kept too. */
static void closing_commits(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  const struct pz_journal *j = pz_run_file_journal(f);
  struct pz_entry e = entry(0);
  assert_int_equal(j->evaluated(j->ctx, &e, NULL), PZ_OK);
  pz_run_file_close(f);
  f = open_run(p);
  assert_int_equal(count_entries(f), 1);
  pz_run_file_close(f);
  assert_false(is_there(p, "run.sqlite-wal"));
}

struct chip_statuses {
  uint32_t ids[64], n;
  struct pz_chip_status list[64];
};

static enum pz_status take_chip_status(void *into, uint32_t id, const struct pz_chip_status *s) {
  struct chip_statuses *all = into;
  if (all->n == 64) return PZ_STOPPED;
  all->ids[all->n] = id;
  all->list[all->n++] = *s;
  return PZ_OK;
}

static void chip_statuses_are_replaced(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  struct chip_statuses back = {.n = 0};
  const uint32_t ids[] = {UINT32_MAX, 4, 9};
  const struct pz_chip_status first[] = {{PZ_CHIP_EXCLUDED_BY_TABLES, 1, 1},
                                         {PZ_CHIP_EXCLUDED_BY_SCHEDULES, 2, 2}},
                              then[] = {{PZ_CHIP_EVALUATED, 0.1, HUGE_VAL},
                                        {PZ_CHIP_EXCLUDED_BY_SCHEDULES, 1.0 / 3, 0.5},
                                        {PZ_CHIP_EXCLUDED_BY_TABLES, -HUGE_VAL, 0}};
  assert_int_equal(pz_run_file_chip_statuses(f, "a", ids, first, 2, NULL), PZ_OK);
  assert_int_equal(pz_run_file_chip_statuses(f, "b", ids, first, 1, NULL), PZ_OK);
  assert_int_equal(pz_run_file_chip_statuses(f, "a", ids, then, 3, NULL), PZ_OK);
  assert_int_equal(pz_run_file_read_chip_statuses(f, "a", take_chip_status, &back, NULL), PZ_OK);
  assert_int_equal(back.n, 3);
  static const int order[] = {1, 2, 0};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(back.ids[i], ids[order[i]]);
    assert_int_equal(back.list[i].kind, then[order[i]].kind);
    assert_true(same_bits(back.list[i].value, then[order[i]].value));
    assert_true(same_bits(back.list[i].bound, then[order[i]].bound));
  }
  pz_run_file_close(f);
}

/* Standings that cannot be written leave those before. */
static void chip_statuses_are_all_or_none(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  struct chip_statuses back = {.n = 0};
  const uint32_t ids[] = {1, 2, 2};
  const struct pz_chip_status list[] = {{PZ_CHIP_EXCLUDED_BY_TABLES, 1, 1},
                                        {PZ_CHIP_EXCLUDED_BY_TABLES, 2, 2},
                                        {PZ_CHIP_EXCLUDED_BY_TABLES, 3, 3}};
  const struct pz_chip_status nan[] = {{PZ_CHIP_EXCLUDED_BY_TABLES, (double)NAN, 1}};
  assert_int_equal(pz_run_file_chip_statuses(f, "a", ids, list, 2, NULL), PZ_OK);
  assert_int_equal(pz_run_file_chip_statuses(f, "a", ids, list, 3, NULL), PZ_INTERNAL);
  assert_int_equal(pz_run_file_chip_statuses(f, "a", ids, nan, 1, NULL), PZ_INTERNAL);
  assert_int_equal(pz_run_file_read_chip_statuses(f, "a", take_chip_status, &back, NULL), PZ_OK);
  assert_int_equal(back.n, 2);
  back.n = 0;
  assert_int_equal(pz_run_file_read_chip_statuses(f, "none", take_chip_status, &back, NULL), PZ_OK);
  assert_int_equal(back.n, 0);
  pz_run_file_close(f);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Well under a second; the limit leaves room for sanitizers and busy machines. */
static void many_chip_statuses_are_fast(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  enum { N = 30000, OBJECTIVE_RUNS = 7 };
  uint32_t *ids = calloc(N, sizeof *ids);
  struct pz_chip_status *list = calloc(N, sizeof *list);
  double begin = now_s();
  for (uint32_t i = 0; i < N; i++) {
    ids[i] = 3 * i;
    list[i] = (struct pz_chip_status){(enum pz_chip_status_kind)(i % 3), i / 7.0, i / 6.0};
  }
  for (int c = 0; c < OBJECTIVE_RUNS; c++) {
    char objective_run[16];
    snprintf(objective_run, sizeof objective_run, "objective_run-%d", c);
    assert_int_equal(pz_run_file_chip_statuses(f, objective_run, ids, list, N, NULL), PZ_OK);
  }
  double took = now_s() - begin;
  print_message("%d chip_statuses in %.2f s\n", N * OBJECTIVE_RUNS, took);
  pz_run_file_close(f);
  free(ids);
  free(list);
  assert_true(took < 20);
}

static void chips_results_and_timings_are_kept(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = open_run(p);
  const struct pz_result_chip chips[] = {
      {7, "4x128x128-16x128-32M", 4, 128, 128, 16, 128, 1 << 25, 1.5, 200},
      {8, "b", 1, 2, 3, 4, 5, 6, 7, 8}};
  char *result = (char *)1;
  double seconds = -1;
  assert_int_equal(pz_run_file_chips(f, chips, 2, NULL), PZ_OK);
  assert_int_equal(pz_run_file_chips(f, chips, 2, NULL), PZ_OK);
  assert_int_equal(pz_run_file_result(f, &result, NULL), PZ_OK);
  assert_null(result);
  assert_int_equal(pz_run_file_timing(f, "search", &seconds, NULL), PZ_OK);
  assert_true(seconds == 0);
  assert_int_equal(pz_run_file_set_timing(f, "search", 2.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_timing(f, "search", 3.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_finish(f, "{\"best\": \"b\"}\n", NULL), PZ_OK);
  assert_int_equal(pz_run_file_comparison(f, &result, NULL), PZ_OK);
  assert_null(result);
  assert_int_equal(pz_run_file_set_comparison(f, "{\"seed\": 1}", NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_comparison(f, "{\"seed\": 2}", NULL), PZ_OK);
  pz_run_file_close(f);
  f = NULL;
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_comparison(f, "{}", NULL), PZ_BAD_USE);
  assert_string_equal(pz_run_file_inputs(f), INPUTS);
  assert_int_equal(pz_run_file_result(f, &result, NULL), PZ_OK);
  assert_string_equal(result, "{\"best\": \"b\"}\n");
  free(result);
  assert_int_equal(pz_run_file_comparison(f, &result, NULL), PZ_OK);
  assert_string_equal(result, "{\"seed\": 2}");
  free(result);
  assert_int_equal(pz_run_file_timing(f, "search", &seconds, NULL), PZ_OK);
  assert_true(seconds == 3.5);
  pz_run_file_close(f);
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
  assert_int_equal(write_entries(f, 0, 50, NULL), PZ_OK);
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
  assert_int_equal(count_entries(f), 50);
  pz_run_file_close(f);
}

static void other_versions_and_tables_are_refused(void **state) {
  struct place *p = *state;
  static const struct {
    const char *sql, *says;
  } cases[] = {
      {"PRAGMA user_version = 7", "version 7, and this phaze writes version 5"},
      {"PRAGMA user_version = 5; PRAGMA application_id = 1", "is not a phaze run file"},
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
  assert_int_equal(write_entries(f, 0, 20, NULL), PZ_OK);
  pz_run_file_close(f);
  struct bytes first = read_file(p, "run.sqlite");
  assert_int_equal(pz_run_file_open(p->dir, "{\"batch\": 1}", true, &f, NULL), PZ_OK);
  assert_int_equal(count_entries(f), 0);
  assert_int_equal(write_entries(f, 0, 3, NULL), PZ_OK);
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

/* Rows of other hands: each is put in, refused, and taken out. */
static void nonsense_rows_are_refused(void **state) {
  struct place *p = *state;
  static const struct {
    const char *values, *says;
  } cases[] = {
      {"-1, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1'", "id is -1"},
      {"4294967296, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1'", "id is 4294967296"},
      {"5, 64, 1, 1.0, 1.0, 0, 0, 0, 1, '1'", "model is 64; accepted: 0 to 63"},
      {"5, 0, 9, 1.0, 1.0, 0, 0, 0, 1, '1'", "row with id 5, model 0, effort 9: effort is 9"},
      {"5, 0, 0, 1.0, 1.0, 0, 0, 0, 1, '1'", "effort is 0; accepted: 1 or 2"},
      {"5, 0, 1, -1.0, -2.0, 0, 0, 0, 1, '1'", "time_s is -1.0"},
      {"5, 0, 1, 1.0, 2.0, 0, 0, 0, 1, '1'", "least_s is 2.0; accepted: a time from 0 to time_s"},
      {"5, 0, 1, 1.0, 1.0, -3, 0, 0, 1, '1'", "n_open is -3"},
      {"5, 0, 1, 1.0, 1.0, 0, -1, 0, 1, '1'", "variant is -1"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 2, 1, '1'", "recompute is 2"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, -1, '1'", "d is -1"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, ''", "stages is ; accepted: at most 1024"},
      {"5, 0, 1, 9e999, 1.0, 0, 0, 0, 1, '1'", "stages is 1;"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '-1,2'", "stages is -1,2"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1,,2'", "stages is 1,,2"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1,2,'", "stages is 1,2,"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, ',1'", "stages is ,1"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1,0'", "stages is 1,0"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '65536'", "stages is 65536"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '99999999999999999999'", "stages is 99999"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1' || char(0) || '2'", "stages is 1"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1' || replace(printf('%1025d', 0), ' ', ',1')",
       "stages is 1,1,1"},
      {"5, 0, 1, 1.0, 1.0, 0, 0, 0, 1, '1'", "does not belong to this search"},
  };
  pz_run_file_close(open_run(p));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char sql[400];
    struct pz_error err = {0};
    uint32_t n = 0;
    snprintf(sql, sizeof sql, "DELETE FROM evaluations; INSERT INTO evaluations VALUES(%s, 1)",
             cases[i].values);
    alter(p, sql);
    struct pz_run_file *f = open_run(p);
    const struct pz_journal *j = pz_run_file_journal(f);
    assert_int_equal(j->recall(j->ctx, take_in_order, &n, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, cases[i].says) || !strstr(err.message, "table evaluations"))
      fail_msg("%s: %s", cases[i].values, err.message);
    pz_run_file_close(f);
  }
}

static void nonsense_chip_statuses_are_refused(void **state) {
  struct place *p = *state;
  static const char *const cases[] = {"-1, 'tables', 1.0, 1.0", "4294967296, 'tables', 1.0, 1.0",
                                      "1, 'Tables', 1.0, 1.0", "1, '', 1.0, 1.0"};
  pz_run_file_close(open_run(p));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char sql[200];
    struct pz_error err = {0};
    struct chip_statuses back = {.n = 0};
    snprintf(sql, sizeof sql,
             "DELETE FROM chip_statuses; INSERT INTO chip_statuses VALUES('a', %s)", cases[i]);
    alter(p, sql);
    struct pz_run_file *f = open_run(p);
    assert_int_equal(pz_run_file_read_chip_statuses(f, "a", take_chip_status, &back, &err),
                     PZ_BAD_INPUT);
    assert_non_null(strstr(err.message, "table chip_statuses, row with id"));
    pz_run_file_close(f);
  }
}

/* ---- digests -------------------------------------------------------------------------------- */

static void fill_all_parts(struct pz_run_file *f) {
  const struct pz_result_chip chips[] = {{7, "a", 4, 128, 128, 16, 128, 1 << 25, 1.5, 200},
                                         {8, "b", 1, 2, 3, 4, 5, 6, 7, 8}};
  const uint32_t ids[] = {7, 8};
  const struct pz_chip_status list[] = {{PZ_CHIP_EXCLUDED_BY_TABLES, 1, 1},
                                        {PZ_CHIP_EVALUATED, 2, HUGE_VAL}};
  assert_int_equal(write_entries(f, 0, 50, NULL), PZ_OK);
  assert_int_equal(write_entries(f, 30, 60, NULL), PZ_OK); /* replaces */
  assert_int_equal(pz_run_file_chips(f, chips, 2, NULL), PZ_OK);
  for (uint32_t i = 1; i < 4; i++)
    assert_int_equal(pz_run_file_chip_statuses(f, i == 2 ? "b" : "a", ids, list, i % 3, NULL),
                     PZ_OK);
  assert_int_equal(pz_run_file_set_timing(f, "search_s", 1.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_timing(f, "search_s", 2.5, NULL), PZ_OK);
  assert_int_equal(pz_run_file_finish(f, "{\"a\": 1}", NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_comparison(f, "{\"b\": 1}", NULL), PZ_OK);
  assert_int_equal(pz_run_file_set_detail(f, "{\"c\": 1}", NULL), PZ_OK);
  assert_int_equal(write_entries(f, 60, 70, NULL), PZ_OK);
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
      {"chips", "UPDATE chips SET area_mm2 = 1.5000000000000002 WHERE id = 7"},
      {"chips", "UPDATE chips SET rows = cols, cols = rows WHERE id = 8"},
      {"chip_statuses", "DELETE FROM chip_statuses WHERE id = 7 AND objective_run = 'b'"},
      {"evaluations", "UPDATE evaluations SET d = d + 1 WHERE id = 3"},
      {"evaluations", "DELETE FROM evaluations WHERE id = 3"},
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

static enum pz_status forget_chip(void *into, const struct pz_result_chip *chip) {
  (void)into, (void)chip;
  return PZ_OK;
}

static void chips_without_a_size_are_refused(void **state) {
  struct place *p = *state;
  static const char *const changes[] = {"area_mm2 = 9e999", "watts = -9e999", "area_mm2 = -1.0",
                                        "id = -1", "id = 4294967296"};
  struct pz_run_file *f = open_run(p);
  fill_all_parts(f);
  pz_run_file_close(f);
  struct bytes good = read_file(p, "run.sqlite");
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    struct pz_error err = {0};
    char sql[100];
    snprintf(sql, sizeof sql, "UPDATE chips SET %s WHERE id = 7", changes[i]);
    put(p, "run.sqlite", good.text, good.n);
    alter(p, sql);
    assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
    assert_int_equal(pz_run_file_read_chips(f, forget_chip, NULL, &err), PZ_BAD_INPUT);
    assert_non_null(strstr(err.message, "table chips, row with id"));
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
        write_entries(f, 0, 10, NULL) != PZ_OK || write(ends[1], "x", 1) != 1)
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
  assert_int_equal(count_entries(f), 10);
  pz_run_file_close(f);
}

static void lookers_go_beside_a_writer(void **state) {
  struct place *p = *state;
  pid_t holder = start_holder(p);
  struct pz_run_file *f = NULL;
  struct pz_entry e = entry(0);
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(count_entries(f), 10);
  const struct pz_journal *j = pz_run_file_journal(f);
  assert_int_equal(j->evaluated(j->ctx, &e, NULL), PZ_BAD_USE);
  assert_int_equal(pz_run_file_finish(f, "", NULL), PZ_BAD_USE);
  assert_int_equal(pz_run_file_set_timing(f, "", 1, NULL), PZ_BAD_USE);
  pz_run_file_close(f);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
  /* What the killed one left is read, and left as it is. */
  struct bytes was = read_file(p, "run.sqlite"), log = read_file(p, "run.sqlite-wal");
  assert_true(log.n > 0);
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(count_entries(f), 10);
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
  assert_int_equal(count_entries(f), 10);
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
  assert_int_equal(write_entries(f, 0, 10, NULL), PZ_OK);
  pz_run_file_close(f);
  struct bytes was = read_file(p, "run.sqlite");
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(pz_run_file_look(p->dir, &other, NULL), PZ_OK);
  assert_int_equal(count_entries(f), 10);
  assert_false(is_there(p, "run.sqlite-wal") || is_there(p, "run.sqlite-shm"));
  refused(p, INPUTS, PZ_IO, "another phaze is running there");
  pz_run_file_close(f);
  pz_run_file_close(other);
  assert_unchanged(p, "run.sqlite", was);
  unlink(path_of(p, "lock")); /* as in a copy */
  assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
  assert_int_equal(count_entries(f), 10);
  pz_run_file_close(f);
  assert_false(is_there(p, "lock"));
}

/* ---- kill -9 -------------------------------------------------------------------------------- */

enum { PER_COMMIT = 7, ROUNDS = 20 };

/* Goes on where the run stands, and says how far it is, at first and after each commit. */
static void write_until_killed(const struct place *p, int to) {
  struct pz_run_file *f = NULL;
  uint32_t n = 0;
  if (pz_run_file_open(p->dir, INPUTS, false, &f, NULL) != PZ_OK) _exit(1);
  const struct pz_journal *j = pz_run_file_journal(f);
  if (j->recall(j->ctx, take_in_order, &n, NULL) != PZ_OK) _exit(2);
  for (;; n += PER_COMMIT) {
    if (write(to, &n, sizeof n) != sizeof n) _exit(3);
    if (write_entries(f, n, n + PER_COMMIT, NULL) != PZ_OK) _exit(4);
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

/* All that was said to be committed, and at most one more transaction, whole. */
static void assert_prefix(uint32_t n, uint32_t said) {
  if (n < said || n > said + PER_COMMIT || n % PER_COMMIT)
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

/* Killed at any moment, the making of the file included: what was said to be committed is there,
 * in whole transactions, and the next one goes on. */
static void killed_writers_leave_a_prefix(void **state) {
  struct place *p = *state;
  struct pz_run_file *f = NULL;
  uint32_t said = 0, n = 0;
  for (int round = 0; round < ROUNDS; round++) {
    said = kill_a_writer(p, round % 2 == 0, said);
    if (round % 3 != 2) continue; /* the next writer finds what the kill left */
    assert_int_equal(pz_run_file_look(p->dir, &f, NULL), PZ_OK);
    assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
    assert_prefix(count_entries(f), said);
    pz_run_file_close(f);
    assert_whole(p);
  }
  f = open_run(p);
  assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
  n = count_entries(f);
  pz_run_file_close(f);
  print_message("%u evaluations survived %d kills\n", (unsigned)n, (int)ROUNDS);
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
  uint32_t n = 0;
  if (!become_nobody() || access(p->dir, W_OK) == 0) return SKIP;
  if (pz_run_file_open(p->dir, INPUTS, false, &f, &err) != PZ_IO || f) return 1;
  if (!strstr(err.message, "accepted: a directory that can be written to")) return 2;
  if (pz_run_file_look(p->dir, &f, &err) != PZ_OK) return 3;
  const struct pz_journal *j = pz_run_file_journal(f);
  if (j->recall(j->ctx, take_in_order, &n, NULL) != PZ_OK || n != 10) return 4;
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
  while (n < 100000 && write_entries(f, n, n + PER_COMMIT, &err) == PZ_OK) n += PER_COMMIT;
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
  assert_true(n > PER_COMMIT);
  assert_whole(p);
  struct pz_run_file *f = open_run(p);
  uint32_t found = count_entries(f);
  print_message("%u were committed before the disk was full, %u are there\n", (unsigned)n,
                (unsigned)found);
  assert_true(found >= n && found <= n + PER_COMMIT);
  assert_int_equal(write_entries(f, found, found + 1000, NULL), PZ_OK);
  assert_int_equal(count_entries(f), found + 1000);
  assert_int_equal(pz_run_file_check(f, NULL), PZ_OK);
  pz_run_file_close(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(evaluations_come_back_bit_for_bit),
      TEST(closing_commits),
      TEST(chip_statuses_are_replaced),
      TEST(chip_statuses_are_all_or_none),
      TEST(many_chip_statuses_are_fast),
      TEST(chips_results_and_timings_are_kept),
      TEST(differences_are_named),
      TEST(other_inputs_are_refused),
      TEST(other_versions_and_tables_are_refused),
      TEST(garbage_is_refused_and_left_alone),
      TEST(fresh_keeps_what_was),
      TEST(nonsense_rows_are_refused),
      TEST(nonsense_chip_statuses_are_refused),
      TEST(digests_follow_what_is_written),
      TEST(parts_that_were_changed_are_refused),
      TEST(chips_without_a_size_are_refused),
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
