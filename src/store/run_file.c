#include "store/run_file.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/json.h"
#include "store/inputs.h"
#include "store/run_dir.h"
#include "store/schema.h"

#define ADVICE "; accepted: another directory, or --fresh"
#define WHOLE "; accepted: as 'phaze search -o' of this version wrote it"
#define NO_MEMORY "%s: out of memory for the run file"

struct pz_run_file {
  struct pz_db db;
  struct pz_run_dir dir;
  struct pz_round_store rounds;
  bool writes; /* else opened to look */
  char *inputs;
};

/* ---- single texts --------------------------------------------------------------------------- */

static enum pz_status refuse(const struct pz_run_file *f, const char *what, struct pz_error *err) {
  enum pz_status status = pz_fail(err, PZ_BAD_INPUT, "%s: %s" WHOLE, f->db.path, what);
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

/* ---- transactions --------------------------------------------------------------------------- */

static enum pz_status may_write(const struct pz_run_file *f, struct pz_error *err) {
  return f->writes ? PZ_OK : pz_fail(err, PZ_BAD_USE, "%s: was opened read-only", f->db.path);
}

static enum pz_status begin(struct pz_run_file *f, struct pz_error *err) {
  enum pz_status status = may_write(f, err);
  return status == PZ_OK ? pz_db_begin(&f->db, err) : status;
}

/* All that was written, or nothing of it. */
static enum pz_status end(struct pz_run_file *f, enum pz_status status, struct pz_error *err) {
  if (status == PZ_OK) status = pz_db_commit(&f->db, err);
  if (status != PZ_OK) pz_db_drop(&f->db);
  return status;
}

/* ---- rounds --------------------------------------------------------------------------------- */

static enum pz_status find_round(const struct pz_run_file *f, uint32_t run, uint32_t round,
                                 const char *sql, sqlite3_stmt **out, struct pz_error *err) {
  enum pz_status status = pz_db_prepare(&f->db, sql, out, err);
  if (status != PZ_OK) return status;
  sqlite3_bind_int64(*out, 1, run);
  sqlite3_bind_int64(*out, 2, round);
  return PZ_OK;
}

static enum pz_status read_round(void *ctx, uint32_t run, uint32_t round, struct pz_buffer *b,
                                 struct pz_error *err) {
  const struct pz_run_file *f = ctx;
  sqlite3_stmt *stmt = NULL;
  bool row = false;
  enum pz_status status =
      find_round(f, run, round, "SELECT found FROM rounds WHERE run = ? AND round = ?", &stmt, err);
  if (status == PZ_OK) status = pz_db_next(&f->db, stmt, &row, err);
  if (status == PZ_OK && row) {
    const char *bytes = sqlite3_column_blob(stmt, 0);
    size_t n = (size_t)sqlite3_column_bytes(stmt, 0);
    if (!pz_buffer_append(b, bytes ? bytes : "", n))
      status = pz_fail(err, PZ_NO_MEMORY, NO_MEMORY, f->db.path);
  }
  sqlite3_finalize(stmt);
  return status;
}

static enum pz_status write_round(struct pz_run_file *f, uint32_t run, uint32_t round,
                                  const struct pz_buffer *b, struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  uint64_t sum = 0;
  enum pz_status status = find_round(
      f, run, round, "INSERT INTO rounds(run, round, found) VALUES(?, ?, ?)", &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_blob64(stmt, 3, b->text ? b->text : "", b->bytes, SQLITE_STATIC);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  stmt = NULL;
  if (status == PZ_OK)
    status =
        find_round(f, run, round, "SELECT * FROM rounds WHERE run = ? AND round = ?", &stmt, err);
  if (status == PZ_OK) status = pz_digest_rows(&f->db, stmt, &sum, err);
  sqlite3_finalize(stmt);
  return status == PZ_OK ? pz_digest_add(&f->db, PZ_PART_ROUNDS, sum, err) : status;
}

static enum pz_status keep_round(void *ctx, uint32_t run, uint32_t round, const struct pz_buffer *b,
                                 struct pz_error *err) {
  struct pz_run_file *f = ctx;
  enum pz_status status = begin(f, err);
  return status == PZ_OK ? end(f, write_round(f, run, round, b, err), err) : status;
}

const struct pz_round_store *pz_run_file_rounds(struct pz_run_file *f) { return &f->rounds; }

const char *pz_run_file_inputs(const struct pz_run_file *f) { return f->inputs; }

/* ---- opening -------------------------------------------------------------------------------- */

static struct pz_run_file *new_file(void) {
  struct pz_run_file *f = pz_calloc(1, sizeof *f);
  if (!f) return NULL;
  f->rounds = (struct pz_round_store){f, read_round, keep_round};
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
  if (status == PZ_OK) status = pz_run_file_text(f, PZ_PART_RESULT, &result, err);
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
  if (status == PZ_OK) status = pz_schema_log(&db, err);
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
  f->writes = status == PZ_OK;
  return status;
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

enum pz_status pz_run_file_in_memory(const char *inputs, struct pz_run_file **out,
                                     struct pz_error *err) {
  struct pz_run_file *f = new_file();
  if (!f) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY, "memory");
  enum pz_status status = pz_db_open(&f->db, ":memory:", PZ_DB_CREATE, err);
  if (status == PZ_OK) status = pz_schema_make(&f->db, inputs, err);
  f->writes = true;
  f->inputs = pz_strdup(inputs);
  if (status == PZ_OK && !f->inputs) status = pz_fail(err, PZ_NO_MEMORY, NO_MEMORY, "memory");
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
  status = examine(f, frozen ? PZ_DB_FROZEN : PZ_DB_READ, WHOLE, &inputs, err);
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

enum pz_status pz_run_file_same(const struct pz_run_file *f, const struct pz_run_file *g,
                                enum pz_part part, bool *same, struct pz_error *err) {
  uint64_t a = 0, b = 0;
  enum pz_status status = pz_digest_part(&f->db, part, &a, err);
  if (status == PZ_OK) status = pz_digest_part(&g->db, part, &b, err);
  *same = a == b;
  return status;
}

bool pz_run_file_is_read_only(const struct pz_run_file *f) { return !f->writes; }

void pz_run_file_close(struct pz_run_file *f) {
  if (!f) return;
  pz_db_close(&f->db);
  pz_run_dir_release(&f->dir);
  pz_free(f->inputs);
  pz_free(f);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* "3 0 12": which value of each axis. */
static void write_axes(const uint8_t *at, char *text, size_t size) {
  size_t n = 0;
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    n += (size_t)snprintf(text + n, size - n, "%s%d", a ? " " : "", at[a]);
}

static enum pz_status write_box(const struct pz_run_file *f, sqlite3_stmt *stmt,
                                const struct pz_closed_box *b, struct pz_error *err) {
  char lo[8 * PZ_AXES], hi[8 * PZ_AXES];
  write_axes(b->box.lo, lo, sizeof lo);
  write_axes(b->box.hi, hi, sizeof hi);
  sqlite3_bind_int64(stmt, 3, b->box.kind);
  sqlite3_bind_text(stmt, 4, lo, -1, SQLITE_STATIC);
  sqlite3_bind_text(stmt, 5, hi, -1, SQLITE_STATIC);
  sqlite3_bind_text(stmt, 6, pz_box_end_names[b->end], -1, SQLITE_STATIC);
  sqlite3_bind_double(stmt, 7, b->bound);
  sqlite3_bind_double(stmt, 8, b->value);
  return pz_db_write(&f->db, stmt, err);
}

static enum pz_status write_boxes(const struct pz_run_file *f, const struct pz_run_tables *t,
                                  struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = pz_db_exec(&f->db, "DELETE FROM boxes", err);
  if (status == PZ_OK)
    status = pz_db_prepare(&f->db,
                           "INSERT INTO boxes(run, i, kind, lo, hi, how, bound, value) "
                           "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                           &stmt, err);
  for (uint32_t r = 0; r < t->n_runs && status == PZ_OK; r++)
    for (uint32_t i = 0; i < t->runs[r].n_boxes && status == PZ_OK; i++) {
      sqlite3_bind_int64(stmt, 1, r);
      sqlite3_bind_int64(stmt, 2, i);
      status = write_box(f, stmt, &t->runs[r].boxes[i], err);
    }
  sqlite3_finalize(stmt);
  return status == PZ_OK ? pz_digest_store(&f->db, PZ_PART_BOXES, err) : status;
}

/* "8 8 9": layers of each stage. */
static enum pz_status bind_stages(const struct pz_run_file *f, sqlite3_stmt *stmt, int column,
                                  const struct pz_plan_record *p, struct pz_error *err) {
  struct pz_buffer b = {0};
  for (uint32_t i = 0; i < p->n_stages; i++) {
    char text[16];
    int n = snprintf(text, sizeof text, "%s%u", i ? " " : "", (unsigned)p->layers[i]);
    pz_buffer_append(&b, text, (size_t)n);
  }
  bool failed = b.failed || sqlite3_bind_text(stmt, column, b.text ? b.text : "", -1,
                                              SQLITE_TRANSIENT) != SQLITE_OK;
  pz_free(b.text);
  return failed ? pz_fail(err, PZ_NO_MEMORY, NO_MEMORY, f->db.path) : PZ_OK;
}

static enum pz_status write_evaluations(const struct pz_run_file *f, const struct pz_run_tables *t,
                                        struct pz_error *err) {
  static const char sql[] =
      "INSERT INTO evaluations(chip, model, effort, step_s, least_s, dynamic_j, n_open, variant, "
      "recompute, dp, stages) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = pz_db_exec(&f->db, "DELETE FROM evaluations", err);
  if (status == PZ_OK) status = pz_db_prepare(&f->db, sql, &stmt, err);
  for (uint32_t i = 0; i < t->n_known && status == PZ_OK; i++) {
    const struct pz_found_step *k = &t->known[i];
    const struct pz_plan_record *p = &k->e.plan;
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)k->id);
    sqlite3_bind_int64(stmt, 2, k->entry);
    sqlite3_bind_int64(stmt, 3, k->e.effort);
    sqlite3_bind_double(stmt, 4, k->e.step_s);
    sqlite3_bind_double(stmt, 5, k->e.least_s);
    sqlite3_bind_double(stmt, 6, k->e.dynamic_j);
    sqlite3_bind_int64(stmt, 7, k->e.n_open);
    sqlite3_bind_int64(stmt, 8, p->variant);
    sqlite3_bind_int64(stmt, 9, p->recompute);
    sqlite3_bind_int64(stmt, 10, p->d);
    status = bind_stages(f, stmt, 11, p, err);
    if (status == PZ_OK) status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  return status == PZ_OK ? pz_digest_store(&f->db, PZ_PART_EVALUATIONS, err) : status;
}

enum pz_status pz_run_file_set_tables(struct pz_run_file *f, const struct pz_run_tables *t,
                                      struct pz_error *err) {
  enum pz_status status = begin(f, err);
  if (status != PZ_OK) return status;
  status = write_boxes(f, t, err);
  if (status == PZ_OK) status = write_evaluations(f, t, err);
  return end(f, status, err);
}

/* ---- single values -------------------------------------------------------------------------- */

enum pz_status pz_run_file_set_timing(struct pz_run_file *f, const char *what, double seconds,
                                      struct pz_error *err) {
  static const char sql[] = "INSERT OR REPLACE INTO timings(what, seconds) VALUES(?, ?)";
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = begin(f, err);
  if (status != PZ_OK) return status;
  status = pz_db_prepare(&f->db, sql, &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, what, -1, SQLITE_STATIC);
    sqlite3_bind_double(stmt, 2, seconds);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  if (status == PZ_OK) status = pz_digest_store(&f->db, PZ_PART_TIMINGS, err);
  return end(f, status, err);
}

/* Columns of the table run. */
static const struct {
  const char *set, *get;
} texts[PZ_PARTS] = {
    [PZ_PART_RESULT] = {"UPDATE run SET result = ? WHERE one = 1",
                        "SELECT result FROM run WHERE one = 1"},
    [PZ_PART_COMPARISON] = {"UPDATE run SET comparison = ? WHERE one = 1",
                            "SELECT comparison FROM run WHERE one = 1"},
    [PZ_PART_DETAIL] = {"UPDATE run SET detail = ? WHERE one = 1",
                        "SELECT detail FROM run WHERE one = 1"},
};

enum pz_status pz_run_file_set_text(struct pz_run_file *f, enum pz_part part, const char *text,
                                    struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = begin(f, err);
  if (status != PZ_OK) return status;
  status = pz_db_prepare(&f->db, texts[part].set, &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC);
    status = pz_db_write(&f->db, stmt, err);
  }
  sqlite3_finalize(stmt);
  if (status == PZ_OK) status = pz_digest_store(&f->db, part, err);
  status = end(f, status, err);
  /* The text is safe in the log too: a reader in the way, or a full disk, is no failure. */
  if (status == PZ_OK)
    sqlite3_wal_checkpoint_v2(f->db.conn, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  return status;
}

enum pz_status pz_run_file_text(struct pz_run_file *f, enum pz_part part, char **text,
                                struct pz_error *err) {
  return read_text(f, texts[part].get, text, err);
}
