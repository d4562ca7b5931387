#include "store/run_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "store/digest.h"
#include "store/evaluations.h"
#include "store/inputs.h"
#include "store/run_dir.h"
#include "store/schema.h"

#define ADVICE "; accepted: another directory, or --fresh"
#define NO_MEMORY "%s: out of memory for the run file"

struct pz_run_file {
  struct pz_db db;
  struct pz_run_dir dir;
  struct pz_journal journal;
  sqlite3_stmt *insert; /* an evaluation; NULL: opened to look */
  sqlite3_stmt *find;   /* one by its key */
  uint64_t moved;       /* by which the digest of evaluations changes with the next commit */
  char *inputs;
};

/* ---- single texts --------------------------------------------------------------------------- */

static enum pz_status refuse(const struct pz_run_file *f, const char *what, struct pz_error *err) {
  enum pz_status status = pz_fail(err, PZ_BAD_INPUT, "%s: %s", f->db.path, what);
  pz_error_at(err, f->db.path, 0, 0);
  return status;
}

static enum pz_status copy_text(const struct pz_run_file *f, sqlite3_stmt *stmt, char **out,
                                struct pz_error *err) {
  const char *text = (const char *)sqlite3_column_text(stmt, 0);
  size_t n = (size_t)sqlite3_column_bytes(stmt, 0);
  char *copy = text ? pz_malloc(n + 1) : NULL;
  if (!copy) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", f->db.path);
  memcpy(copy, text, n);
  copy[n] = '\0';
  if (strlen(copy) == n) {
    *out = copy;
    return PZ_OK;
  }
  pz_free(copy);
  return refuse(f, "table run: a text has a NUL byte", err);
}

/* A text of the table run; NULL where there is none. */
static enum pz_status read_text(const struct pz_run_file *f, const char *sql, char **out,
                                struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  bool row = false;
  enum pz_status status = pz_db_prepare(&f->db, sql, &stmt, err);
  if (status == PZ_OK) status = pz_db_next(&f->db, stmt, &row, err);
  if (status == PZ_OK && !row) status = refuse(f, "table run: it has no row", err);
  if (status == PZ_OK && sqlite3_column_type(stmt, 0) == SQLITE_NULL)
    *out = NULL;
  else if (status == PZ_OK)
    status = copy_text(f, stmt, out, err);
  sqlite3_finalize(stmt);
  return status;
}

/* ---- the journal ---------------------------------------------------------------------------- */

static enum pz_status may_write(const struct pz_run_file *f, struct pz_error *err) {
  return f->insert ? PZ_OK : pz_fail(err, PZ_BAD_USE, "%s: was opened read-only", f->db.path);
}

static enum pz_status recall_row(const struct pz_run_file *f, sqlite3_stmt *select,
                                 enum pz_status (*take)(void *into, const struct pz_entry *entry),
                                 void *into, struct pz_error *err) {
  uint16_t layers[PZ_RUN_MOST_STAGES];
  struct pz_entry entry;
  enum pz_status status = pz_evaluations_read(&f->db, select, layers, &entry, err);
  if (status != PZ_OK) return status;
  status = take(into, &entry);
  if (status == PZ_BAD_INPUT)
    return pz_evaluations_refuse(&f->db, select, "does not belong to this search", err);
  return status == PZ_OK ? PZ_OK : pz_fail(err, status, "%s: cannot be stored", f->db.path);
}

static enum pz_status recall(void *ctx,
                             enum pz_status (*take)(void *into, const struct pz_entry *entry),
                             void *into, struct pz_error *err) {
  const struct pz_run_file *f = ctx;
  sqlite3_stmt *select = NULL;
  bool row = true;
  enum pz_status status = pz_db_prepare(&f->db, pz_evaluations_select, &select, err);
  while (status == PZ_OK && row) {
    status = pz_db_next(&f->db, select, &row, err);
    if (status == PZ_OK && row) status = recall_row(f, select, take, into, err);
  }
  sqlite3_finalize(select);
  return status;
}

/* Drop what was not committed. */
static void drop(struct pz_run_file *f) {
  if (f->db.conn) pz_db_drop(&f->db);
  f->moved = 0;
}

/* The evaluation in the place of the one that has its key, and the digest with it. */
static enum pz_status write_evaluation(struct pz_run_file *f, const struct pz_entry *entry,
                                       struct pz_error *err) {
  uint64_t before = 0, after = 0;
  pz_evaluations_bind_key(f->find, entry);
  enum pz_status status = pz_digest_rows(&f->db, f->find, &before, err);
  if (status == PZ_OK) status = pz_evaluations_write(&f->db, f->insert, entry, err);
  if (status == PZ_OK) status = pz_digest_rows(&f->db, f->find, &after, err);
  f->moved += after - before;
  return status;
}

static enum pz_status evaluated(void *ctx, const struct pz_entry *entry, struct pz_error *err) {
  struct pz_run_file *f = ctx;
  enum pz_status status = may_write(f, err);
  if (status == PZ_OK) status = pz_db_begin(&f->db, err);
  if (status == PZ_OK) status = write_evaluation(f, entry, err);
  if (status != PZ_OK) drop(f); /* SQLite may have done so: the digest must not know of it */
  return status;
}

/* All that was written since the last commit, or nothing of it. */
static enum pz_status commit(void *ctx, struct pz_error *err) {
  struct pz_run_file *f = ctx;
  enum pz_status status = PZ_OK;
  if (f->moved) status = pz_digest_add(&f->db, PZ_PART_EVALUATIONS, f->moved, err);
  if (status == PZ_OK) status = pz_db_commit(&f->db, err);
  if (status != PZ_OK) drop(f);
  f->moved = 0;
  return status;
}

const struct pz_journal *pz_run_file_journal(struct pz_run_file *f) { return &f->journal; }

const char *pz_run_file_inputs(const struct pz_run_file *f) { return f->inputs; }

/* ---- opening -------------------------------------------------------------------------------- */

static struct pz_run_file *new_file(void) {
  struct pz_run_file *f = pz_calloc(1, sizeof *f);
  if (!f) return NULL;
  f->journal = (struct pz_journal){f, recall, evaluated, commit};
  f->dir.lock = -1;
  return f;
}

/* Hand it over, or close it. */
static enum pz_status deliver(struct pz_run_file *f, enum pz_status status,
                              struct pz_run_file **out) {
  if (status == PZ_OK)
    *out = f;
  else
    pz_run_file_close(f);
  return status;
}

/* Open it without touching it, see that it is a run file, and read its inputs. */
static enum pz_status examine(struct pz_run_file *f, enum pz_db_mode mode, const char *advice,
                              json_t **inputs, struct pz_error *err) {
  char name[PZ_DB_LONGEST_PATH + 32];
  enum pz_status status = pz_db_open(&f->db, f->dir.run, mode, err);
  if (status == PZ_OK) status = pz_schema_check(&f->db, advice, err);
  if (status == PZ_OK)
    status = read_text(f, "SELECT inputs FROM run WHERE one = 1", &f->inputs, err);
  if (status != PZ_OK) return status;
  if (!f->inputs) return refuse(f, "table run: it has no inputs", err);
  snprintf(name, sizeof name, "%s: table run, inputs", f->db.path);
  return pz_json_parse(name, f->inputs, strlen(f->inputs), inputs, err);
}

/* Is the run that stands here the one that is asked for?  It stays open to look at. */
static enum pz_status compare(struct pz_run_file *f, json_t *now, struct pz_error *err) {
  json_t *was = NULL;
  char difference[600];
  enum pz_db_mode mode = pz_run_dir_has_log(&f->dir) ? PZ_DB_READ : PZ_DB_FROZEN;
  enum pz_status status = examine(f, mode, ADVICE, &was, err);
  if (status == PZ_OK && pz_inputs_differ(was, now, difference, sizeof difference))
    status = pz_fail(err, PZ_BAD_INPUT, "%s: was made with different inputs: %s" ADVICE, f->db.path,
                     difference);
  json_decref(was);
  return status;
}

/* In a directory that cannot be written to a finished run can be read. */
static enum pz_status compare_finished(struct pz_run_file *f, json_t *now, struct pz_error *err) {
  char *result = NULL;
  bool alone = pz_run_dir_share(&f->dir);
  if (!alone) return pz_fail(err, PZ_IO, "%s: another phaze is running there", f->dir.dir);
  enum pz_status status = compare(f, now, err);
  if (status == PZ_OK) status = pz_run_file_result(f, &result, err);
  if (status == PZ_OK && !result)
    status = pz_fail(err, PZ_IO,
                     "%s: the run is not finished; accepted: a directory that can be written to",
                     f->dir.run);
  pz_free(result);
  return status;
}

/* Prepared beside, so that a run is there whole or not at all. */
static enum pz_status create(struct pz_run_file *f, const char *inputs, struct pz_error *err) {
  char part[PZ_DB_LONGEST_PATH];
  struct pz_db db = {0};
  enum pz_status status = pz_run_dir_part(&f->dir, part, err);
  if (status != PZ_OK) return status;
  status = pz_db_open(&db, part, PZ_DB_CREATE, err);
  if (status == PZ_OK) status = pz_schema_make(&db, inputs, err);
  pz_db_close(&db);
  if (status == PZ_OK) status = pz_run_dir_accept(&f->dir, part, err);
  pz_run_dir_discard(part);
  if (status != PZ_OK) return status;
  f->inputs = pz_strdup(inputs);
  return f->inputs ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", f->dir.run);
}

static enum pz_status open_to_write(struct pz_run_file *f, struct pz_error *err) {
  enum pz_status status = pz_db_open(&f->db, f->dir.run, PZ_DB_WRITE, err);
  if (status == PZ_OK) status = pz_schema_log(&f->db, err);
  /* Safe from the end of the process, which is what is promised; the disk's cache is not waited
   * for at every commit. */
  if (status == PZ_OK) status = pz_db_exec(&f->db, "PRAGMA synchronous = NORMAL", err);
  if (status == PZ_OK) status = pz_db_prepare(&f->db, pz_evaluations_find, &f->find, err);
  return status == PZ_OK ? pz_db_prepare(&f->db, pz_evaluations_insert, &f->insert, err) : status;
}

static enum pz_status open_locked(struct pz_run_file *f, const char *inputs, json_t *now,
                                  bool fresh, struct pz_error *err) {
  enum pz_status status = pz_run_dir_lock(&f->dir, err);
  if (status == PZ_OK && fresh) status = pz_run_dir_move_aside(&f->dir, err);
  if (status == PZ_OK)
    status = pz_run_dir_has_run(&f->dir) ? compare(f, now, err) : create(f, inputs, err);
  if (f->db.conn) pz_db_close(&f->db);
  return status == PZ_OK ? open_to_write(f, err) : status;
}

enum pz_status pz_run_file_open(const char *dir, const char *inputs, bool fresh,
                                struct pz_run_file **out, struct pz_error *err) {
  struct pz_run_file *f = new_file();
  json_t *now = NULL;
  if (!f) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY, dir);
  enum pz_status status = pz_json_parse("inputs", inputs, strlen(inputs), &now, err);
  if (status == PZ_OK) status = pz_run_dir_init(&f->dir, dir, err);
  if (status == PZ_OK) status = pz_run_dir_check(&f->dir, err);
  if (status == PZ_OK && !fresh && pz_run_dir_is_shut(&f->dir))
    status = compare_finished(f, now, err);
  else if (status == PZ_OK)
    status = open_locked(f, inputs, now, fresh, err);
  json_decref(now);
  return deliver(f, status, out);
}

static enum pz_status look(struct pz_run_file *f, struct pz_error *err) {
  json_t *inputs = NULL;
  if (!pz_run_dir_has_run(&f->dir))
    return pz_fail(err, PZ_IO, "%s: no run found; accepted: the directory of a search", f->dir.dir);
  enum pz_status status = pz_run_dir_check(&f->dir, err);
  if (status != PZ_OK) return status;
  bool alone = pz_run_dir_share(&f->dir);
  bool frozen = alone && !pz_run_dir_has_log(&f->dir);
  if (!frozen) pz_run_dir_release(&f->dir); /* SQLite's own locks are enough */
  status = examine(f, frozen ? PZ_DB_FROZEN : PZ_DB_READ, "", &inputs, err);
  json_decref(inputs);
  return status;
}

enum pz_status pz_run_file_look(const char *dir, struct pz_run_file **out, struct pz_error *err) {
  struct pz_run_file *f = new_file();
  if (!f) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY, dir);
  enum pz_status status = pz_run_dir_init(&f->dir, dir, err);
  if (status == PZ_OK) status = look(f, err);
  return deliver(f, status, out);
}

enum pz_status pz_run_file_check(struct pz_run_file *f, struct pz_error *err) {
  return pz_digest_check(&f->db, err);
}

bool pz_run_file_is_read_only(const struct pz_run_file *f) { return !f->insert; }

void pz_run_file_close(struct pz_run_file *f) {
  if (!f) return;
  sqlite3_finalize(f->insert);
  /* Evaluations are facts: those since the last commit are worth keeping, and no loss if not. */
  if (f->db.conn && commit(f, NULL) != PZ_OK) drop(f);
  sqlite3_finalize(f->find);
  pz_db_close(&f->db);
  pz_run_dir_release(&f->dir);
  pz_free(f->inputs);
  pz_free(f);
}

/* ---- whole tables --------------------------------------------------------------------------- */

/* A transaction of its own, so that it can be dropped without what came before. */
static enum pz_status begin_own(struct pz_run_file *f, struct pz_error *err) {
  enum pz_status status = may_write(f, err);
  if (status == PZ_OK) status = commit(f, err);
  return status == PZ_OK ? pz_db_begin(&f->db, err) : status;
}

static enum pz_status end_own(struct pz_run_file *f, enum pz_status status, struct pz_error *err) {
  if (status == PZ_OK) status = commit(f, err);
  if (status != PZ_OK) drop(f);
  return status;
}

static enum pz_status write_chips(const struct pz_run_file *f, const struct pz_result_chip *chips,
                                  uint32_t n, struct pz_error *err) {
  static const char sql[] = "INSERT INTO chips(id, name, tensor_cores, rows, cols, vector_cores, "
                            "lanes, glb_bytes, area_mm2, watts) "
                            "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = pz_db_prepare(&f->db, sql, &stmt, err);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    const struct pz_result_chip *c = &chips[i];
    const int64_t sizes[] = {c->tensor_cores, c->rows,  c->cols,
                             c->vector_cores, c->lanes, c->glb_bytes};
    sqlite3_bind_int64(stmt, 1, c->id);
    sqlite3_bind_text(stmt, 2, c->name, -1, SQLITE_STATIC);
    for (int k = 0; k < 6; k++) sqlite3_bind_int64(stmt, 3 + k, sizes[k]);
    sqlite3_bind_double(stmt, 9, c->area_mm2);
    sqlite3_bind_double(stmt, 10, c->watts);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  return status;
}

enum pz_status pz_run_file_chips(struct pz_run_file *f, const struct pz_result_chip *chips,
                                 uint32_t n, struct pz_error *err) {
  int64_t any = 0;
  enum pz_status status = pz_db_number(&f->db, "SELECT 1 FROM chips LIMIT 1", &any, err);
  if (status != PZ_OK || any) return status;
  status = begin_own(f, err);
  if (status != PZ_OK) return status;
  status = write_chips(f, chips, n, err);
  if (status == PZ_OK) status = pz_digest_store(&f->db, PZ_PART_CHIPS, err);
  return end_own(f, status, err);
}

/* Is it a number that a chip can have? */
static bool is_size(double value) { return value >= 0 && value < HUGE_VAL; }

static enum pz_status read_chip(const struct pz_run_file *f, sqlite3_stmt *stmt,
                                struct pz_result_chip *out, struct pz_error *err) {
  char what[160];
  int64_t id = sqlite3_column_int64(stmt, 0);
  const char *name = (const char *)sqlite3_column_text(stmt, 1);
  if (!name) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", f->db.path);
  *out = (struct pz_result_chip){.id = (uint32_t)id,
                                 .name = name,
                                 .tensor_cores = sqlite3_column_int64(stmt, 2),
                                 .rows = sqlite3_column_int64(stmt, 3),
                                 .cols = sqlite3_column_int64(stmt, 4),
                                 .vector_cores = sqlite3_column_int64(stmt, 5),
                                 .lanes = sqlite3_column_int64(stmt, 6),
                                 .glb_bytes = sqlite3_column_int64(stmt, 7),
                                 .area_mm2 = sqlite3_column_double(stmt, 8),
                                 .watts = sqlite3_column_double(stmt, 9)};
  if (id >= 0 && id <= UINT32_MAX && is_size(out->area_mm2) && is_size(out->watts)) return PZ_OK;
  snprintf(what, sizeof what,
           "table chips, row with id %" PRId64
           " is no chip; accepted: an id from 0 to 4294967295, finite area and power",
           id);
  return refuse(f, what, err);
}

enum pz_status pz_run_file_read_chips(struct pz_run_file *f, pz_take_chip *take, void *into,
                                      struct pz_error *err) {
  static const char sql[] = "SELECT id, name, tensor_cores, rows, cols, vector_cores, lanes, "
                            "glb_bytes, area_mm2, watts FROM chips ORDER BY id";
  sqlite3_stmt *stmt = NULL;
  bool row = false;
  enum pz_status status = pz_db_prepare(&f->db, sql, &stmt, err);
  while (status == PZ_OK && (status = pz_db_next(&f->db, stmt, &row, err)) == PZ_OK && row) {
    struct pz_result_chip chip;
    status = read_chip(f, stmt, &chip, err);
    if (status == PZ_OK) status = take(into, &chip);
  }
  sqlite3_finalize(stmt);
  return status;
}

enum pz_status pz_run_file_count_chip_statuses(struct pz_run_file *f, int64_t *n,
                                               struct pz_error *err) {
  return pz_db_number(&f->db, "SELECT count(*) FROM chip_statuses", n, err);
}

/* By how much the digest of all chip statuses is that of these. */
static enum pz_status digest_chip_statuses(const struct pz_run_file *f, const char *objective_run,
                                           uint64_t *sum, struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status =
      pz_db_prepare(&f->db, "SELECT * FROM chip_statuses WHERE objective_run = ?", &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, objective_run, -1, SQLITE_STATIC);
    status = pz_digest_rows(&f->db, stmt, sum, err);
  }
  sqlite3_finalize(stmt);
  return status;
}

static enum pz_status clear_chip_statuses(const struct pz_run_file *f, const char *objective_run,
                                          struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status =
      pz_db_prepare(&f->db, "DELETE FROM chip_statuses WHERE objective_run = ?", &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, objective_run, -1, SQLITE_STATIC);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  return status;
}

static enum pz_status write_chip_statuses(const struct pz_run_file *f, const char *objective_run,
                                          const uint32_t *ids,
                                          const struct pz_chip_status *chip_statuses, uint32_t n,
                                          struct pz_error *err) {
  static const char sql[] =
      "INSERT INTO chip_statuses(objective_run, id, kind, value, bound) VALUES(?, ?, ?, ?, ?)";
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = pz_db_prepare(&f->db, sql, &stmt, err);
  if (status == PZ_OK) sqlite3_bind_text(stmt, 1, objective_run, -1, SQLITE_STATIC);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    sqlite3_bind_int64(stmt, 2, ids[i]);
    sqlite3_bind_text(stmt, 3, pz_chip_status_names[chip_statuses[i].kind], -1, SQLITE_STATIC);
    sqlite3_bind_double(stmt, 4, chip_statuses[i].value);
    sqlite3_bind_double(stmt, 5, chip_statuses[i].bound);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  return status;
}

enum pz_status pz_run_file_chip_statuses(struct pz_run_file *f, const char *objective_run,
                                         const uint32_t *ids,
                                         const struct pz_chip_status *chip_statuses, uint32_t n,
                                         struct pz_error *err) {
  enum pz_status status = begin_own(f, err);
  if (status != PZ_OK) return status;
  uint64_t before = 0, after = 0;
  status = digest_chip_statuses(f, objective_run, &before, err);
  if (status == PZ_OK) status = clear_chip_statuses(f, objective_run, err);
  if (status == PZ_OK) status = write_chip_statuses(f, objective_run, ids, chip_statuses, n, err);
  if (status == PZ_OK) status = digest_chip_statuses(f, objective_run, &after, err);
  if (status == PZ_OK) status = pz_digest_add(&f->db, PZ_PART_CHIP_STATUSES, after - before, err);
  return end_own(f, status, err);
}

static enum pz_chip_status_kind kind_named(const char *name) {
  int k = 0;
  while (k < PZ_CHIP_STATUSES && (!name || strcmp(name, pz_chip_status_names[k]) != 0)) k++;
  return (enum pz_chip_status_kind)k;
}

static enum pz_status read_chip_status(const struct pz_run_file *f, sqlite3_stmt *stmt,
                                       uint32_t *id, struct pz_chip_status *out,
                                       struct pz_error *err) {
  char what[160];
  int64_t number = sqlite3_column_int64(stmt, 0);
  *out = (struct pz_chip_status){kind_named((const char *)sqlite3_column_text(stmt, 1)),
                                 sqlite3_column_double(stmt, 2), sqlite3_column_double(stmt, 3)};
  *id = (uint32_t)number;
  if (number >= 0 && number <= UINT32_MAX && out->kind < PZ_CHIP_STATUSES &&
      sqlite3_column_type(stmt, 2) == SQLITE_FLOAT &&
      sqlite3_column_type(stmt, 3) == SQLITE_FLOAT && !isnan(out->value) && !isnan(out->bound))
    return PZ_OK;
  snprintf(what, sizeof what,
           "table chip_statuses, row with id %" PRId64
           " is not how a chip left a search; accepted: an id, a kind, "
           "two reals",
           number);
  return refuse(f, what, err);
}

enum pz_status pz_run_file_read_chip_statuses(struct pz_run_file *f, const char *objective_run,
                                              pz_take_chip_status *take, void *into,
                                              struct pz_error *err) {
  static const char sql[] =
      "SELECT id, kind, value, bound FROM chip_statuses WHERE objective_run = ? ORDER BY id";
  sqlite3_stmt *stmt = NULL;
  bool row = true;
  enum pz_status status = pz_db_prepare(&f->db, sql, &stmt, err);
  if (status == PZ_OK) sqlite3_bind_text(stmt, 1, objective_run, -1, SQLITE_STATIC);
  while (status == PZ_OK) {
    uint32_t id;
    struct pz_chip_status chip_status;
    status = pz_db_next(&f->db, stmt, &row, err);
    if (status != PZ_OK || !row) break;
    status = read_chip_status(f, stmt, &id, &chip_status, err);
    if (status == PZ_OK) status = take(into, id, &chip_status);
    if (status != PZ_OK)
      pz_fail(err, status,
              "%s: table chip_statuses does not have every chip once; see phaze verify",
              f->db.path);
  }
  sqlite3_finalize(stmt);
  return status;
}

/* ---- single values -------------------------------------------------------------------------- */

enum pz_status pz_run_file_set_timing(struct pz_run_file *f, const char *what, double seconds,
                                      struct pz_error *err) {
  static const char sql[] = "INSERT OR REPLACE INTO timings(what, seconds) VALUES(?, ?)";
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = may_write(f, err);
  if (status == PZ_OK) status = pz_db_begin(&f->db, err);
  if (status == PZ_OK) status = pz_db_prepare(&f->db, sql, &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, what, -1, SQLITE_STATIC);
    sqlite3_bind_double(stmt, 2, seconds);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  if (status == PZ_OK) status = pz_digest_store(&f->db, PZ_PART_TIMINGS, err);
  if (status != PZ_OK) drop(f);
  return status;
}

enum pz_status pz_run_file_timing(struct pz_run_file *f, const char *what, double *seconds,
                                  struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  bool row = false;
  enum pz_status status =
      pz_db_prepare(&f->db, "SELECT seconds FROM timings WHERE what = ?", &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, what, -1, SQLITE_STATIC);
    status = pz_db_next(&f->db, stmt, &row, err);
  }
  if (status == PZ_OK) *seconds = row ? sqlite3_column_double(stmt, 0) : 0;
  sqlite3_finalize(stmt);
  return status;
}

/* Set a text of the table run; all or none. */
static enum pz_status write_text(struct pz_run_file *f, enum pz_part part, const char *sql,
                                 const char *text, struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = begin_own(f, err);
  if (status != PZ_OK) return status;
  status = pz_db_prepare(&f->db, sql, &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  if (status == PZ_OK) status = pz_digest_store(&f->db, part, err);
  status = end_own(f, status, err);
  /* The text is safe in the log too: a reader in the way, or a full disk, is no failure. */
  if (status == PZ_OK)
    sqlite3_wal_checkpoint_v2(f->db.conn, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  return status;
}

enum pz_status pz_run_file_finish(struct pz_run_file *f, const char *result, struct pz_error *err) {
  return write_text(f, PZ_PART_RESULT, "UPDATE run SET result = ? WHERE one = 1", result, err);
}

enum pz_status pz_run_file_result(struct pz_run_file *f, char **text, struct pz_error *err) {
  return read_text(f, "SELECT result FROM run WHERE one = 1", text, err);
}

enum pz_status pz_run_file_set_comparison(struct pz_run_file *f, const char *comparison,
                                          struct pz_error *err) {
  return write_text(f, PZ_PART_COMPARISON, "UPDATE run SET comparison = ? WHERE one = 1",
                    comparison, err);
}

enum pz_status pz_run_file_comparison(struct pz_run_file *f, char **text, struct pz_error *err) {
  return read_text(f, "SELECT comparison FROM run WHERE one = 1", text, err);
}

enum pz_status pz_run_file_set_detail(struct pz_run_file *f, const char *detail,
                                      struct pz_error *err) {
  return write_text(f, PZ_PART_DETAIL, "UPDATE run SET detail = ? WHERE one = 1", detail, err);
}

enum pz_status pz_run_file_detail(struct pz_run_file *f, char **text, struct pz_error *err) {
  return read_text(f, "SELECT detail FROM run WHERE one = 1", text, err);
}
