#include "cli/chip_power.h"

#include <math.h>

#include "cli/command.h"
#include "core/csv.h"
#include "core/file.h"
#include "report/table.h"

/* Mean relative errors: at the measured rate of calls, and of calls one after the other. */
struct means {
  double watts, joules, sustained_watts, sustained_joules;
  int n_watts, n_joules;
};

static void add_row(struct means *m, const struct pz_power_row *r) {
  if (r->watts > 0) {
    m->watts += fabs(r->called.watts / r->watts - 1);
    m->sustained_watts += fabs(r->sustained.watts / r->watts - 1);
    m->n_watts++;
  }
  if (r->joules > 0) {
    m->joules += fabs(r->called.joules / r->joules - 1);
    m->sustained_joules += fabs(r->sustained.joules / r->joules - 1);
    m->n_joules++;
  }
}

static void close_means(struct means *m) {
  double w = m->n_watts > 0 ? m->n_watts : 1, j = m->n_joules > 0 ? m->n_joules : 1;
  m->watts /= w;
  m->sustained_watts /= w;
  m->joules /= j;
  m->sustained_joules /= j;
}

/* Nothing for what was not measured. */
static void number(struct pz_table *t, int digits, double v) {
  if (v > 0)
    pz_table_cell(t, "%.*g", digits, v);
  else
    pz_table_cell(t, "%s", "");
}

static void pair(struct pz_table *t, double got, double measured) {
  enum { DIGITS = 4 };
  number(t, DIGITS, got);
  number(t, DIGITS, measured);
}

static void power_row(struct pz_table *t, const struct pz_power_row *r) {
  pz_table_cell(t, "%s", r->op);
  pz_table_cell(t, "%lld x %lld x %lld", (long long)r->m, (long long)r->n, (long long)r->k);
  pair(t, r->called.latency_s * 1e6, r->call_s * 1e6);
  pair(t, r->called.clock_hz / 1e6, r->clock_hz / 1e6);
  pair(t, r->called.watts, r->watts);
  pair(t, r->called.joules, r->joules);
  if (r->joules > 0)
    pz_table_cell(t, "%+.1f%%", 100 * (r->called.joules / r->joules - 1));
  else
    pz_table_cell(t, "%s", "");
  number(t, 4, r->throttled_s * 1e6);
}

static json_t *power_json(const struct pz_power_row *r) {
  return json_pack("{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "op", r->op, "m",
                   (json_int_t)r->m, "n", (json_int_t)r->n, "k", (json_int_t)r->k, "latency_s",
                   r->called.latency_s, "clock_hz", r->called.clock_hz, "watts", r->called.watts,
                   "joules", r->called.joules, "throttled_s", r->throttled_s, "measured_s",
                   r->call_s, "measured_clock_hz", r->clock_hz, "measured_watts", r->watts,
                   "measured_joules", r->joules);
}

static enum pz_status print_rows(const struct pz_power_row *rows, uint32_t n, bool as_json,
                                 struct pz_arena *arena, struct pz_error *err) {
  static const char *const heads[] = {"operator", "m x n x k", ">us",    ">measured",
                                      ">MHz",     ">measured", ">W",     ">measured",
                                      ">J",       ">measured", ">error", ">us by fitted throttle",
                                      NULL};
  struct pz_table t;
  struct means m = {0};
  json_t *list = json_array();
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < n; i++) {
    add_row(&m, &rows[i]);
    power_row(&t, &rows[i]);
    json_array_append_new(list, power_json(&rows[i]));
  }
  close_means(&m);
  json_t *root = json_pack("{s:o,s:f,s:f,s:f,s:f}", "operators", list, "watts_error", m.watts,
                           "joules_error", m.joules, "sustained_watts_error", m.sustained_watts,
                           "sustained_joules_error", m.sustained_joules);
  if (as_json) return pz_command_json(root, err);
  json_decref(root);
  enum pz_status status = pz_table_print(&t, 0, stdout);
  if (m.n_watts)
    printf("\nmean error: watts %.1f%% of %d, joules %.1f%% of %d; without the measured rate of "
           "calls %.1f%% and %.1f%%\n",
           100 * m.watts, m.n_watts, 100 * m.joules, m.n_joules, 100 * m.sustained_watts,
           100 * m.sustained_joules);
  return status;
}

enum pz_status pz_chip_power_print(const struct pz_chip *c, const char *path, bool as_json,
                                   struct pz_error *err) {
  struct pz_arena arena;
  struct pz_power_table *t = NULL;
  char *text = NULL;
  size_t bytes = 0;
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_power_table(c, path, text, bytes, &t, err);
  if (status == PZ_OK) status = print_rows(t->rows, t->n_rows, as_json, &arena, err);
  pz_power_table_free(t);
  pz_text_free(text);
  pz_arena_release(&arena);
  return status;
}
