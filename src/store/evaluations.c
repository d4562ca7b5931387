#include "store/evaluations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS                                                                                    \
  "id, model, effort, time_s, least_s, n_open, variant, recompute, d, stages, objective_run"

const char pz_evaluations_insert[] =
    "INSERT OR REPLACE INTO evaluations(" COLUMNS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const char pz_evaluations_select[] =
    "SELECT " COLUMNS " FROM evaluations ORDER BY id, model, effort";
const char pz_evaluations_find[] =
    "SELECT * FROM evaluations WHERE id = ? AND model = ? AND effort = ?";

enum {
  ID,
  MODEL,
  EFFORT,
  TIME_S,
  LEAST_S,
  N_OPEN,
  VARIANT,
  RECOMPUTE,
  D,
  STAGES,
  OBJECTIVE_RUN,
  N_COLUMNS
};

static const struct {
  const char *name;
  int type;
  int64_t min, max; /* of integers */
  const char *accepted;
} columns[N_COLUMNS] = {
    [ID] = {"id", SQLITE_INTEGER, 0, UINT32_MAX, "0 to 4294967295"},
    [MODEL] = {"model", SQLITE_INTEGER, 0, PZ_SEARCH_MOST_MODELS - 1, "0 to 63"},
    [EFFORT] = {"effort", SQLITE_INTEGER, PZ_EFFORT_QUICK, PZ_EFFORT_FULL, "1 or 2"},
    [TIME_S] = {"time_s", SQLITE_FLOAT, 0, 0, "a time not below 0"},
    [LEAST_S] = {"least_s", SQLITE_FLOAT, 0, 0, "a time from 0 to time_s"},
    [N_OPEN] = {"n_open", SQLITE_INTEGER, 0, UINT32_MAX, "0 to 4294967295"},
    [VARIANT] = {"variant", SQLITE_INTEGER, 0, UINT32_MAX, "0 to 4294967295"},
    [RECOMPUTE] = {"recompute", SQLITE_INTEGER, 0, 1, "0 or 1"},
    [D] = {"d", SQLITE_INTEGER, 0, INT64_MAX, "an integer not below 0"},
    [STAGES] = {"stages", SQLITE_TEXT, 0, 0,
                "at most 1024 comma-separated numbers from 1 to 65535; none if and only if "
                "time_s is infinite"},
    [OBJECTIVE_RUN] = {"objective_run", SQLITE_INTEGER, 1, PZ_NO_RUN, "1 to 2147483647"},
};

/* ---- stages: 13,13,12 ----------------------------------------------------------------------- */

enum { LONGEST_STAGES = PZ_RUN_MOST_STAGES * 6 };

static int write_stages(char text[LONGEST_STAGES], const struct pz_plan_record *plan) {
  int n = 0;
  text[0] = '\0';
  for (uint32_t k = 0; k < plan->n_stages; k++)
    n += snprintf(text + n, (size_t)(LONGEST_STAGES - n), k ? ",%u" : "%u",
                  (unsigned)plan->layers[k]);
  return n;
}

/* Exactly what is written above, from `text` to `end`. */
static bool read_stages(const char *text, const char *end, uint16_t *layers, uint32_t *n) {
  for (*n = 0; text < end; text++) {
    uint32_t value = 0;
    if (*n >= PZ_RUN_MOST_STAGES) return false;
    for (; text < end && *text >= '0' && *text <= '9' && value <= UINT16_MAX; text++)
      value = 10 * value + (uint32_t)(*text - '0');
    if (value < 1 || value > UINT16_MAX) return false;
    if (text < end && (*text != ',' || text + 1 == end)) return false;
    layers[(*n)++] = (uint16_t)value;
  }
  return true;
}

/* ---- rows ----------------------------------------------------------------------------------- */

enum pz_status pz_evaluations_write(const struct pz_db *db, sqlite3_stmt *insert,
                                    const struct pz_entry *entry, struct pz_error *err) {
  const struct pz_evaluation *e = &entry->e;
  char stages[LONGEST_STAGES];
  if (e->plan.n_stages > PZ_RUN_MOST_STAGES)
    return pz_fail(err, PZ_INTERNAL, "a plan has %u stages", (unsigned)e->plan.n_stages);
  int n = write_stages(stages, &e->plan);
  sqlite3_bind_int64(insert, 1 + ID, entry->id);
  sqlite3_bind_int64(insert, 1 + MODEL, entry->model);
  sqlite3_bind_int64(insert, 1 + EFFORT, (int64_t)e->effort);
  sqlite3_bind_double(insert, 1 + TIME_S, e->time_s);
  sqlite3_bind_double(insert, 1 + LEAST_S, e->least_s);
  sqlite3_bind_int64(insert, 1 + N_OPEN, e->n_open);
  sqlite3_bind_int64(insert, 1 + VARIANT, e->plan.variant);
  sqlite3_bind_int64(insert, 1 + RECOMPUTE, e->plan.recompute);
  sqlite3_bind_int64(insert, 1 + D, e->plan.d);
  sqlite3_bind_text(insert, 1 + STAGES, stages, n, SQLITE_STATIC);
  sqlite3_bind_int64(insert, 1 + OBJECTIVE_RUN, entry->objective_run);
  enum pz_status status = pz_db_write(db, insert, err);
  sqlite3_clear_bindings(insert);
  return status;
}

void pz_evaluations_bind_key(sqlite3_stmt *find, const struct pz_entry *entry) {
  sqlite3_bind_int64(find, 1, entry->id);
  sqlite3_bind_int64(find, 2, entry->model);
  sqlite3_bind_int64(find, 3, (int64_t)entry->e.effort);
}

/* A cell for a message. */
static const char *shown(sqlite3_stmt *select, int column) {
  const char *text = (const char *)sqlite3_column_text(select, column);
  return text ? text : "nothing";
}

enum pz_status pz_evaluations_refuse(const struct pz_db *db, sqlite3_stmt *select, const char *why,
                                     struct pz_error *err) {
  enum pz_status status = pz_fail(
      err, PZ_BAD_INPUT, "%s: table evaluations, row with id %.24s, model %.24s, effort %.24s: %s",
      db->path, shown(select, ID), shown(select, MODEL), shown(select, EFFORT), why);
  pz_error_at(err, db->path, 0, 0);
  return status;
}

static enum pz_status refuse_column(const struct pz_db *db, sqlite3_stmt *select, int column,
                                    struct pz_error *err) {
  char why[300];
  snprintf(why, sizeof why, "%s is %.40s; accepted: %s", columns[column].name,
           shown(select, column), columns[column].accepted);
  return pz_evaluations_refuse(db, select, why, err);
}

/* The first column with a wrong type or out of range, or N_COLUMNS. */
static int wrong_column(sqlite3_stmt *select) {
  for (int i = 0; i < N_COLUMNS; i++) {
    if (sqlite3_column_type(select, i) != columns[i].type) return i;
    if (columns[i].type == SQLITE_FLOAT && !(sqlite3_column_double(select, i) >= 0)) return i;
    if (columns[i].type != SQLITE_INTEGER) continue;
    int64_t value = sqlite3_column_int64(select, i);
    if (value < columns[i].min || value > columns[i].max) return i;
  }
  return N_COLUMNS;
}

static struct pz_entry read_row(sqlite3_stmt *select) {
  return (struct pz_entry){
      .id = (uint32_t)sqlite3_column_int64(select, ID),
      .model = (uint32_t)sqlite3_column_int64(select, MODEL),
      .objective_run = (uint32_t)sqlite3_column_int64(select, OBJECTIVE_RUN),
      .e = {.effort = (enum pz_effort)sqlite3_column_int64(select, EFFORT),
            .time_s = sqlite3_column_double(select, TIME_S),
            .least_s = sqlite3_column_double(select, LEAST_S),
            .n_open = (uint32_t)sqlite3_column_int64(select, N_OPEN),
            .plan = {.variant = (uint32_t)sqlite3_column_int64(select, VARIANT),
                     .recompute = sqlite3_column_int64(select, RECOMPUTE) != 0,
                     .d = sqlite3_column_int64(select, D)}}};
}

enum pz_status pz_evaluations_read(const struct pz_db *db, sqlite3_stmt *select,
                                   uint16_t layers[PZ_RUN_MOST_STAGES], struct pz_entry *out,
                                   struct pz_error *err) {
  int wrong = wrong_column(select);
  if (wrong < N_COLUMNS) return refuse_column(db, select, wrong, err);
  struct pz_entry e = read_row(select);
  const char *text = (const char *)sqlite3_column_text(select, STAGES);
  if (!text) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", db->path);
  if (!(e.e.least_s <= e.e.time_s)) return refuse_column(db, select, LEAST_S, err);
  if (!read_stages(text, text + sqlite3_column_bytes(select, STAGES), layers, &e.e.plan.n_stages) ||
      (e.e.time_s < HUGE_VAL) != (e.e.plan.n_stages > 0))
    return refuse_column(db, select, STAGES, err);
  e.e.plan.layers = layers;
  *out = e;
  return PZ_OK;
}
