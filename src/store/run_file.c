/* The run file of a search, over SQLite (store/db.h), its schema (store/schema.h) and its directory
 * (store/run_dir.h).
 *
 * pz_run_file_open_for_writing() first opens an existing run without touching it and compares its
 * inputs with those of the current command; only then the file is opened for writing.  A new run is
 * prepared under another name and renamed, so that a run exists completely or not at all.  All
 * changes are made between begin_writing() and pz_db_commit(), and the digest of the part
 * (store/digest.h) is changed in the same transaction.
 *
 * The rounds of a search are bytes that only the search interprets. */
#include "store/run_file.h"

#include <stdio.h>
#include <string.h>

#include "core/buffer.h"
#include "core/json.h"
#include "store/inputs.h"
#include "store/run_dir.h"
#include "store/schema.h"

#define ADVICE "; accepted: another directory, or --fresh"
#define WHOLE "; accepted: as 'phaze search -o' of this version wrote it"

struct pz_run_file {
  struct pz_run_dir dir;
  struct pz_db db;
  struct pz_round_store rounds;
  bool is_writable;
  const char *inputs;
};

/* Raises the error that the content of a run file is not as phaze writes it; `finding` is the
 * deviation. */
static _Noreturn void raise_bad_file(struct pz_call *call, const struct pz_run_file *file,
                                     const char *finding) {
  pz_raise_at(call, PZ_BAD_INPUT, file->db.path, 0, 0, "%s: %s" WHOLE, file->db.path, finding);
}

/* Returns the text that a query of one column finds in the table `run`, or NULL if the column is
 * NULL. The text is freed when the call ends. */
static struct pz_buffer *read_run_text(struct pz_call *call, const struct pz_run_file *file,
                                       const char *sql) {
  struct pz_buffer *text = NULL;
  sqlite3_stmt *stmt = pz_db_prepare(call, &file->db, sql);
  if (!pz_db_next(call, &file->db, stmt)) raise_bad_file(call, file, "table run: it has no row");
  if (sqlite3_column_type(stmt, 0) != SQLITE_NULL) {
    const char *bytes = (const char *)sqlite3_column_text(stmt, 0);
    size_t n = (size_t)sqlite3_column_bytes(stmt, 0);
    if (!bytes) pz_raise_memory(call, file->db.path);
    text = pz_buffer_new(call);
    pz_buffer_add(call, text, bytes, n);
    if (strlen(text->text) != n) raise_bad_file(call, file, "table run: a text has a NUL byte");
  }
  pz_close(call, stmt);
  return text;
}

/* Begins a transaction, which is rolled back if the call ends before the commit. */
static void begin_writing(struct pz_call *call, struct pz_run_file *file) {
  if (!file->is_writable) pz_raise(call, PZ_BAD_USE, "%s: was opened read-only", file->db.path);
  pz_db_begin(call, &file->db);
}

/* Returns a statement on the table of rounds, with its first two parameters set to the objective
 * run and the round. */
static sqlite3_stmt *prepare_for_round(struct pz_call *call, const struct pz_db *db,
                                       const char *sql, uint32_t run, uint32_t round) {
  sqlite3_stmt *stmt = pz_db_prepare(call, db, sql);
  sqlite3_bind_int64(stmt, 1, run);
  sqlite3_bind_int64(stmt, 2, round);
  return stmt;
}

/* Appends the stored result of a round of the search, or nothing if the round is not stored.  This is
 * the callback `read` of struct pz_round_store, by which the search resumes. */
static void read_round(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
                       struct pz_buffer *bytes) {
  const struct pz_run_file *file = ctx;
  sqlite3_stmt *stmt = prepare_for_round(
      call, &file->db, "SELECT found FROM rounds WHERE run = ? AND round = ?", run, round);
  if (pz_db_next(call, &file->db, stmt)) {
    const char *blob = sqlite3_column_blob(stmt, 0);
    pz_buffer_add(call, bytes, blob ? blob : "", (size_t)sqlite3_column_bytes(stmt, 0));
  }
  pz_close(call, stmt);
}

/* Stores the result of a round of the search in a transaction of its own, and adds the row to the
 * digest of the table.  This is the callback `write` of struct pz_round_store. */
static void write_round(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
                        const struct pz_buffer *bytes) {
  struct pz_run_file *file = ctx;
  struct pz_db *db = &file->db;
  begin_writing(call, file);
  sqlite3_stmt *insert = prepare_for_round(
      call, db, "INSERT INTO rounds(run, round, found) VALUES(?, ?, ?)", run, round);
  sqlite3_bind_blob64(insert, 3, bytes->text ? bytes->text : "", bytes->bytes, SQLITE_STATIC);
  pz_db_write(call, db, insert);
  pz_close(call, insert);
  sqlite3_stmt *select =
      prepare_for_round(call, db, "SELECT * FROM rounds WHERE run = ? AND round = ?", run, round);
  uint64_t sum = pz_digest_rows(call, db, select);
  pz_close(call, select);
  pz_digest_add(call, db, PZ_PART_ROUNDS, sum);
  pz_db_commit(call, db);
}

/* Closes the database and the lock of a run file (also a callback of pz_defer). */
static void close_handles(void *ctx) {
  struct pz_run_file *file = ctx;
  pz_db_close(&file->db);
  pz_run_dir_release(&file->dir);
}

void pz_run_file_close(struct pz_run_file *file) {
  if (file) close_handles(file);
  pz_object_free(file);
}

/* Returns a run file that is not open yet, and sets *own to an allocator for what lives as long as
 * the file.  It is closed and freed if the call ends before keep_run_file(). */
static struct pz_run_file *new_run_file(struct pz_call *call, struct pz_call *own) {
  struct pz_run_file *file = pz_object_new(call, sizeof *file, own);
  file->rounds = (struct pz_round_store){file, read_round, write_round};
  file->dir.lock = -1;
  pz_defer(call, close_handles, file);
  return file;
}

/* Hands an open run file to the caller of the public function. */
static struct pz_run_file *keep_run_file(struct pz_call *call, struct pz_run_file *file) {
  pz_undefer(call, file);
  return pz_object_keep(call, file);
}

/* Opens the run without changing it, checks that it is a run file, and returns its inputs.  `own`
 * allocates what lives as long as the file; `advice` ends messages about the schema. */
static json_t *open_and_read_inputs(struct pz_call *call, struct pz_run_file *file,
                                    struct pz_call *own, enum pz_db_mode mode, const char *advice) {
  pz_db_open(call, &file->db, file->dir.run, mode);
  pz_schema_check(call, &file->db, advice);
  struct pz_buffer *text = read_run_text(call, file, "SELECT inputs FROM run WHERE one = 1");
  if (!text) raise_bad_file(call, file, "table run: it has no inputs");
  file->inputs = pz_copy_text(own, text->text);
  return pz_json_read(call, pz_format(call, "%s: table run, inputs", file->db.path), file->inputs,
                      strlen(file->inputs));
}

/* Opens the existing run for reading, and raises an error if it was made with other inputs. */
static void open_with_inputs(struct pz_call *call, struct pz_run_file *file, struct pz_call *own,
                             json_t *inputs) {
  char difference[600];
  enum pz_db_mode mode = pz_run_dir_has_log(&file->dir) ? PZ_DB_READ : PZ_DB_FROZEN;
  json_t *stored_inputs = open_and_read_inputs(call, file, own, mode, ADVICE);
  if (pz_inputs_differ(stored_inputs, inputs, difference, sizeof difference))
    pz_raise(call, PZ_BAD_INPUT, "%s: was made with different inputs: %s" ADVICE, file->db.path,
             difference);
}

/* Opens the run of a directory, or creates it if there is none or if `fresh` replaces it.  If the
 * directory cannot be written to, a finished run is opened read-only. */
struct pz_run_file *pz_run_file_open_for_writing(struct pz_call *call, const char *dir,
                                                 const char *inputs, bool fresh) {
  struct pz_call own;
  struct pz_run_file *file = new_run_file(call, &own);
  json_t *current = pz_json_read(call, "inputs", inputs, strlen(inputs));
  pz_run_dir_init(call, &file->dir, dir);
  pz_run_dir_check(call, &file->dir);
  if (!fresh && pz_run_dir_is_read_only(&file->dir)) {
    if (!pz_run_dir_share(&file->dir))
      pz_raise(call, PZ_IO, "%s: another phaze is running there", file->dir.dir);
    open_with_inputs(call, file, &own, current);
    if (!pz_run_file_read_text(call, file, PZ_PART_RESULT))
      pz_raise(call, PZ_IO,
               "%s: the run is not finished; accepted: a directory that can be written to",
               file->dir.run);
    return keep_run_file(call, file);
  }
  /* Another process cannot write now.  A new run is prepared completely before it gets its name. */
  pz_run_dir_lock(call, &file->dir);
  if (fresh) pz_run_dir_move_aside(call, &file->dir);
  if (pz_run_dir_has_run(&file->dir)) {
    open_with_inputs(call, file, &own, current);
    pz_db_close(&file->db);
  } else {
    char *part = pz_run_dir_prepare(call, &file->dir);
    struct pz_db *db = pz_db_open_in_call(call, part, PZ_DB_CREATE);
    pz_schema_make(call, db, inputs);
    pz_schema_log(call, db);
    pz_close(call, db);
    pz_run_dir_accept(call, &file->dir, part);
    file->inputs = pz_copy_text(&own, inputs);
  }
  pz_db_open(call, &file->db, file->dir.run, PZ_DB_WRITE);
  pz_schema_log(call, &file->db);
  /* A commit survives the end of the process, but does not wait for the cache of the disk. */
  pz_db_exec(call, &file->db, "PRAGMA synchronous = NORMAL");
  file->is_writable = true;
  return keep_run_file(call, file);
}

struct pz_run_file *pz_run_file_open_in_memory(struct pz_call *call, const char *inputs) {
  struct pz_call own;
  struct pz_run_file *file = new_run_file(call, &own);
  pz_db_open(call, &file->db, ":memory:", PZ_DB_CREATE);
  pz_schema_make(call, &file->db, inputs);
  file->inputs = pz_copy_text(&own, inputs);
  file->is_writable = true;
  return keep_run_file(call, file);
}

/* Opens an existing run.  It is read without SQLite's locks ("frozen") if nobody writes it and no log
 * has to be merged into it. */
struct pz_run_file *pz_run_file_open_for_reading(struct pz_call *call, const char *dir) {
  struct pz_call own;
  struct pz_run_file *file = new_run_file(call, &own);
  pz_run_dir_init(call, &file->dir, dir);
  if (!pz_run_dir_has_run(&file->dir))
    pz_raise(call, PZ_IO, "%s: no run found; accepted: the directory of a search", file->dir.dir);
  pz_run_dir_check(call, &file->dir);
  bool no_writer = pz_run_dir_share(&file->dir);
  bool frozen = no_writer && !pz_run_dir_has_log(&file->dir);
  if (!frozen) pz_run_dir_release(&file->dir); /* SQLite's own locks are enough */
  open_and_read_inputs(call, file, &own, frozen ? PZ_DB_FROZEN : PZ_DB_READ, WHOLE);
  return keep_run_file(call, file);
}

void pz_run_file_verify(struct pz_call *call, void *file) {
  pz_digest_check(call, &((struct pz_run_file *)file)->db);
}

bool pz_run_file_has_same_part(struct pz_call *call, const struct pz_run_file *file,
                               const struct pz_run_file *other, enum pz_part part) {
  return pz_digest_part(call, &file->db, part) == pz_digest_part(call, &other->db, part);
}

bool pz_run_file_is_read_only(const struct pz_run_file *file) { return !file->is_writable; }

const char *pz_run_file_inputs(const struct pz_run_file *file) { return file->inputs; }

const struct pz_round_store *pz_run_file_rounds(struct pz_run_file *file) { return &file->rounds; }

/* Replaces the table of boxes: how the search closed each part of the space, with the bound that
 * excluded it. */
static void write_boxes(struct pz_call *call, const struct pz_run_file *file,
                        const struct pz_run_tables *tables) {
  pz_db_exec(call, &file->db, "DELETE FROM boxes");
  sqlite3_stmt *stmt = pz_db_prepare(call, &file->db,
                                     "INSERT INTO boxes(run, i, kind, lo, hi, how, bound, value) "
                                     "VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  for (uint32_t run = 0; run < tables->n_runs; run++)
    for (uint32_t i = 0; i < tables->runs[run].n_boxes; i++) {
      const struct pz_closed_box *closed = &tables->runs[run].boxes[i];
      /* the lowest and the highest index of the box on each axis, such as "3 0 12" */
      char lowest[8 * PZ_AXES], highest[8 * PZ_AXES];
      size_t n_lowest = 0, n_highest = 0;
      for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
        n_lowest += (size_t)snprintf(lowest + n_lowest, sizeof lowest - n_lowest, "%s%d",
                                     axis ? " " : "", closed->box.lo[axis]);
        n_highest += (size_t)snprintf(highest + n_highest, sizeof highest - n_highest, "%s%d",
                                      axis ? " " : "", closed->box.hi[axis]);
      }
      sqlite3_bind_int64(stmt, 1, run);
      sqlite3_bind_int64(stmt, 2, i);
      sqlite3_bind_int64(stmt, 3, closed->box.kind);
      sqlite3_bind_text(stmt, 4, lowest, -1, SQLITE_STATIC);
      sqlite3_bind_text(stmt, 5, highest, -1, SQLITE_STATIC);
      sqlite3_bind_text(stmt, 6, pz_box_end_names[closed->end], -1, SQLITE_STATIC);
      sqlite3_bind_double(stmt, 7, closed->bound);
      sqlite3_bind_double(stmt, 8, closed->value);
      pz_db_write(call, &file->db, stmt);
    }
  pz_close(call, stmt);
  pz_digest_store(call, &file->db, PZ_PART_BOXES);
}

/* Replaces the table of evaluations: the best training plan that was found for each chip and model.
 * */
static void write_evaluations(struct pz_call *call, const struct pz_run_file *file,
                              const struct pz_run_tables *tables) {
  struct pz_buffer *stages = pz_buffer_new(call);
  pz_db_exec(call, &file->db, "DELETE FROM evaluations");
  sqlite3_stmt *stmt = pz_db_prepare(
      call, &file->db,
      "INSERT INTO evaluations(chip, model, effort, step_s, least_s, dynamic_j, n_open, variant, "
      "recompute, dp, stages) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  for (uint32_t i = 0; i < tables->n_known; i++) {
    const struct pz_found_step *step = &tables->known[i];
    const struct pz_evaluation *evaluation = &step->evaluation;
    const struct pz_plan_record *plan = &evaluation->plan;
    stages->bytes = 0;
    pz_buffer_add(call, stages, "", 0);
    for (uint32_t stage = 0; stage < plan->n_stages; stage++) /* "8 8 9": layers of each stage */
      pz_buffer_print(call, stages, "%s%u", stage ? " " : "", (unsigned)plan->layers[stage]);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)step->chip_id);
    sqlite3_bind_int64(stmt, 2, step->entry);
    sqlite3_bind_int64(stmt, 3, evaluation->effort);
    sqlite3_bind_double(stmt, 4, evaluation->step_s);
    sqlite3_bind_double(stmt, 5, evaluation->least_s);
    sqlite3_bind_double(stmt, 6, evaluation->dynamic_j);
    sqlite3_bind_int64(stmt, 7, evaluation->n_open);
    sqlite3_bind_int64(stmt, 8, plan->variant);
    sqlite3_bind_int64(stmt, 9, plan->recompute);
    sqlite3_bind_int64(stmt, 10, plan->replicas);
    sqlite3_bind_text(stmt, 11, stages->text, -1, SQLITE_STATIC);
    pz_db_write(call, &file->db, stmt);
  }
  pz_close(call, stmt);
  pz_digest_store(call, &file->db, PZ_PART_EVALUATIONS);
}

/* Replaces boxes and evaluations in one transaction. */
void pz_run_file_write_tables(struct pz_call *call, struct pz_run_file *file,
                              const struct pz_run_tables *tables) {
  begin_writing(call, file);
  write_boxes(call, file, tables);
  write_evaluations(call, file, tables);
  pz_db_commit(call, &file->db);
}

void pz_run_file_write_timing(struct pz_call *call, struct pz_run_file *file, const char *name,
                              double seconds) {
  begin_writing(call, file);
  sqlite3_stmt *stmt =
      pz_db_prepare(call, &file->db, "INSERT OR REPLACE INTO timings(what, seconds) VALUES(?, ?)");
  sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
  sqlite3_bind_double(stmt, 2, seconds);
  pz_db_write(call, &file->db, stmt);
  pz_close(call, stmt);
  pz_digest_store(call, &file->db, PZ_PART_TIMINGS);
  pz_db_commit(call, &file->db);
}

/* Statements that set and get the columns of the table run. */
static const struct {
  const char *set, *get;
} text_queries[PZ_PARTS] = {
    [PZ_PART_RESULT] = {"UPDATE run SET result = ? WHERE one = 1",
                        "SELECT result FROM run WHERE one = 1"},
    [PZ_PART_COMPARISON] = {"UPDATE run SET comparison = ? WHERE one = 1",
                            "SELECT comparison FROM run WHERE one = 1"},
    [PZ_PART_DETAIL] = {"UPDATE run SET detail = ? WHERE one = 1",
                        "SELECT detail FROM run WHERE one = 1"},
};

void pz_run_file_write_text(struct pz_call *call, struct pz_run_file *file, enum pz_part part,
                            const char *text) {
  begin_writing(call, file);
  sqlite3_stmt *stmt = pz_db_prepare(call, &file->db, text_queries[part].set);
  sqlite3_bind_text(stmt, 1, text, -1, SQLITE_STATIC);
  pz_db_write(call, &file->db, stmt);
  pz_close(call, stmt);
  pz_digest_store(call, &file->db, part);
  pz_db_commit(call, &file->db);
  /* If a reader or a full disk prevents the merge, the text remains in the log. */
  sqlite3_wal_checkpoint_v2(file->db.conn, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

const char *pz_run_file_read_text(struct pz_call *call, struct pz_run_file *file,
                                  enum pz_part part) {
  const struct pz_buffer *text = read_run_text(call, file, text_queries[part].get);
  return text ? text->text : NULL;
}
