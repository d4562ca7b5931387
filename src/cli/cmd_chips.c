/* phaze chips: a list of the built-in chips and clusters.  phaze chip: one chip in full. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/chip_bill.h"
#include "cli/machine_options.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  bool dies, constants, any_units;
  int fields;
  const char *power;
};

#define AT(field) offsetof(struct settings, field)
static const struct settings defaults = {.fields = -1};
/* clang-format off */
static const struct pz_option list_options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "dies", .type = PZ_OPTION_FLAG, .offset = AT(dies),
     .help = "Compare the bill of every chip with what is known of its dies"},
    {.name = "constants", .type = PZ_OPTION_FLAG, .offset = AT(constants),
     .help = "Print the constants of the bill by node, and what programs reach on chips that nobody measured, with ranges and sources"},
    {.name = "fields", .type = PZ_OPTION_CHOICE, .offset = AT(fields), .choices = pz_file_names,
     .help = "Print the fields of a chip.json, cluster.json or space.json as a Markdown table"},
};
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "power", .type = PZ_OPTION_TEXT, .offset = AT(power), .arg = "FILE.csv",
     .help = "Compare watts, clock and joules with a table of operators measured for seconds"},
    PZ_UNITS_OPTION(AT(any_units)),
};
/* clang-format on */
#undef AT

/* The description with derived rates and its bill. */
static json_t *full_json(const struct pz_chip *c) {
  struct pz_error err = {0};
  char *text = NULL;
  json_t *o = pz_chip_json(c), *bill = NULL;
  if (pz_bill_text(c, &text, &err) != PZ_OK ||
      pz_json_parse("bill", text, strlen(text), &bill, &err) != PZ_OK)
    pz_json_lost_set(true);
  pz_text_free(text);
  json_object_set_new(
      o, "derived",
      json_pack("{s:f,s:f,s:f,s:I,s:f}", "tensor_flop_per_s", pz_chip_tensor_flop_per_s(c),
                "vector_op_per_s", pz_chip_vector_op_per_s(c), "hbm_bytes_per_s",
                pz_chip_hbm_bytes_per_s(c), "hbm_bytes", (json_int_t)pz_chip_hbm_bytes(c),
                "peak_watts", pz_chip_peak_watts(c)));
  json_object_set(o, "area_mm2", json_object_get(bill, "area_mm2"));
  json_object_set(o, "dollars", json_object_get(bill, "dollars"));
  json_object_set_new(o, "bill", bill);
  return o;
}

static void chip_row(struct pz_table *t, const struct pz_chip *c) {
  char b[32];
  struct pz_bill bill = pz_chip_bill(c, PZ_BILL_LIKELY);
  pz_table_cell(t, "%s", c->name);
  pz_table_cell(t, "%s", pz_tech_at(pz_chip_bill_tech(c))->name);
  pz_table_cell(t, "%" PRId64 " x %" PRId64 "x%" PRId64, c->tensor.cores, c->tensor.rows,
                c->tensor.cols);
  pz_table_cell(t, "%" PRId64 " x %" PRId64, c->vector.cores, c->vector.lanes);
  pz_table_cell(t, "%s", pz_text_si(b, sizeof b, pz_chip_tensor_flop_per_s(c), "FLOP/s"));
  pz_table_cell(t, "%" PRId64 " MiB", c->glb_bytes >> 20);
  pz_table_cell(t, "%" PRId64 " GiB", pz_chip_hbm_bytes(c) >> 30);
  pz_table_cell(t, "%s", pz_text_si(b, sizeof b, pz_chip_hbm_bytes_per_s(c), "B/s"));
  pz_table_cell(t, "%.0f", bill.area_mm2);
  pz_table_cell(t, "%.0f", c->watts);
}

static enum pz_status list(struct pz_table *t, json_t *chips, struct pz_error *err) {
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_chip c;
    enum pz_status status = pz_chip_read(pz_chip_preset_name(i), &c, err);
    if (status != PZ_OK) return status;
    chip_row(t, &c);
    json_array_append_new(chips, full_json(&c));
  }
  return PZ_OK;
}

/* " 16x16" of a torus, " mesh"; empty where any device reaches any other. */
static const char *form_text(const struct pz_level *l, char *buf, size_t size) {
  size_t n = 0;
  snprintf(buf, size, "%s", l->mesh ? " mesh" : "");
  for (int i = 0; i < l->n_axes && n < size; i++)
    n += (size_t)snprintf(buf + n, size - n, "%s%" PRId64, i ? "x" : " ", l->axis[i]);
  return buf;
}

/* One row for each level; what holds for the whole cluster stands in the first. */
static void cluster_rows(struct pz_table *t, const struct pz_cluster *c) {
  for (int i = 0; i < c->n_levels; i++) {
    const struct pz_level *l = &c->level[i];
    char form[64];
    pz_table_cell(t, "%s", i ? "" : c->name);
    if (i)
      pz_table_cell(t, "%s", "");
    else
      pz_table_cell(t, "%" PRId64, c->devices);
    pz_table_cell(t, "%s", i ? "" : c->scales ? "yes" : "no");
    pz_table_cell(t, "%s%s", l->name, form_text(l, form, sizeof form));
    pz_table_cell(t, "%" PRId64, l->devices);
    pz_table_cell(t, "%.4g", l->bytes_per_s / 1e9);
    pz_table_cell(t, "%.3g", l->latency_s * 1e6);
  }
}

static enum pz_status list_clusters(struct pz_table *t, json_t *clusters, struct pz_error *err) {
  for (size_t i = 0; pz_cluster_preset_name(i); i++) {
    struct pz_cluster c;
    enum pz_status status = pz_cluster_load(pz_cluster_preset_name(i), &c, err);
    if (status != PZ_OK) return status;
    cluster_rows(t, &c);
    json_array_append_new(clusters, pz_cluster_json(&c));
  }
  return PZ_OK;
}

static enum pz_status print_tables(const struct pz_table *chips, const struct pz_table *clusters) {
  enum pz_status status = pz_table_print(chips, 0, stdout);
  printf("\n");
  return status == PZ_OK ? pz_table_print(clusters, 0, stdout) : status;
}

static enum pz_status print_list(bool as_json, struct pz_error *err) {
  static const char *const heads[] = {"chip", "tech", ">tensor cores",  ">vector cores", ">peak",
                                      ">glb", ">hbm", ">hbm bandwidth", ">mm2",          ">watts",
                                      NULL};
  static const char *const cluster_heads[] = {"cluster", ">devices", "scales", "level",
                                              ">group",  ">GB/s",    ">us",    NULL};
  struct pz_arena arena;
  struct pz_table t, u;
  json_t *chips = json_array(), *clusters = json_array();
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  pz_table_init(&u, &arena, cluster_heads);
  enum pz_status status = list(&t, chips, err);
  if (status == PZ_OK) status = list_clusters(&u, clusters, err);
  json_t *root = json_pack("{s:o,s:o}", "chips", chips, "clusters", clusters);
  if (status == PZ_OK)
    status = as_json ? pz_command_json(json_incref(root), err) : print_tables(&t, &u);
  json_decref(root);
  pz_arena_release(&arena);
  return status;
}

/* ---- fields of files ------------------------------------------------------------------------ */

static const char *field_text(const json_t *o, const char *key) {
  const char *text = json_string_value(json_object_get(o, key));
  return text ? text : "";
}

static void field_row(struct pz_table *t, const json_t *o) {
  const json_t *value = json_object_get(o, "default");
  pz_table_cell(t, "| `%s`", field_text(o, "field"));
  pz_table_cell(t, "| %s", field_text(o, "unit"));
  pz_table_cell(t, "| %s", field_text(o, "accepted"));
  if (json_is_number(value))
    pz_table_cell(t, "| %.15g", json_number_value(value));
  else if (value)
    pz_table_cell(t, "| %s",
                  json_is_boolean(value) ? json_is_true(value) ? "true" : "false" : "\"\"");
  else
    pz_table_cell(t, "| %s",
                  json_is_true(json_object_get(o, "required")) ? "required"
                                                               : field_text(o, "absent"));
  pz_table_cell(t, "| %s |", field_text(o, "meaning"));
}

static enum pz_status print_fields(const char *file, bool as_json, struct pz_error *err) {
  static const char *const heads[] = {"| field",   "| unit",      "| accepted",
                                      "| default", "| meaning |", NULL};
  struct pz_arena arena;
  struct pz_table t;
  char *text = NULL;
  json_t *root = NULL, *o;
  size_t i;
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  enum pz_status status = pz_file_fields(file, &text, err);
  if (status == PZ_OK) status = pz_json_parse(file, text, strlen(text), &root, err);
  for (int k = 0; heads[k]; k++) pz_table_cell(&t, "%s", heads[k + 1] ? "|---" : "|---|");
  json_array_foreach(json_object_get(root, "fields"), i, o) field_row(&t, o);
  if (status == PZ_OK)
    status = as_json ? pz_command_json(json_incref(root), err) : pz_table_print(&t, 0, stdout);
  json_decref(root);
  pz_text_free(text);
  pz_arena_release(&arena);
  return status;
}

static enum pz_exit run_chips(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_long_call call;
  if (!pz_call_begin(&call, &pz_cmd_chips, argc, argv, &s)) return call.code;
  enum pz_status status = s.fields >= 0
                              ? print_fields(pz_file_names[s.fields], s.common.json, &call.err)
                          : s.dies      ? pz_bill_print_dies(s.common.json, &call.err)
                          : s.constants ? pz_bill_print_constants(s.common.json, &call.err)
                                        : print_list(s.common.json, &call.err);
  return pz_call_end(&call, status);
}

/* ---- one chip ------------------------------------------------------------------------------- */

static void line(const char *label, const char *format, ...) PZ_PRINTF(2, 3);

static void line(const char *label, const char *format, ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printf("  %-18s %s\n", label, text);
}

static void print_parts(const struct pz_chip *c) {
  char a[32], b[32];
  line("clock", "%s", pz_text_si(a, sizeof a, c->clock_hz, "Hz"));
  line("tensor cores", "%" PRId64 " of %" PRId64 " x %" PRId64 ", %" PRId64 " KiB each: %s",
       c->tensor.cores, c->tensor.rows, c->tensor.cols, c->tensor.local_bytes >> 10,
       pz_text_si(a, sizeof a, pz_chip_tensor_flop_per_s(c), "FLOP/s"));
  line("vector cores", "%" PRId64 " of %" PRId64 " lane%s: %s", c->vector.cores, c->vector.lanes,
       pz_text_s((double)c->vector.lanes),
       pz_text_si(a, sizeof a, pz_chip_vector_op_per_s(c), "op/s"));
  line("global buffer", "%" PRId64 " MiB, %s", c->glb_bytes >> 20,
       pz_text_si(a, sizeof a, c->glb_bytes_per_s, "B/s"));
  line("HBM", "%" PRId64 " GiB in %" PRId64 " stack%s, %s", pz_chip_hbm_bytes(c) >> 30,
       c->hbm.stacks, c->hbm.stacks > 1 ? "s" : "",
       pz_text_si(a, sizeof a, pz_chip_hbm_bytes_per_s(c), "B/s"));
  if (c->link_bytes_per_s > 0)
    line("link", "%s, %.3g us", pz_text_si(b, sizeof b, c->link_bytes_per_s, "B/s"),
         c->link_latency_s * 1e6);
}

static enum pz_status print_sources(const char *name, struct pz_error *err) {
  const char *text = pz_chip_preset_text(name), *key;
  json_t *root = NULL, *value;
  enum pz_status status = text ? pz_json_parse(name, text, strlen(text), &root, err) : PZ_OK;
  if (root) printf("\nsources\n");
  json_object_foreach(json_object_get(root, "sources"), key, value)
      line(key, "%s", json_string_value(value));
  json_decref(root);
  return status;
}

static enum pz_status print_chip(const char *name, const struct pz_chip *c, bool as_json,
                                 struct pz_error *err) {
  json_t *known = NULL, *o;
  if (as_json) {
    enum pz_status status = pz_bill_known_json(name, c, &known, err);
    if (status != PZ_OK) return status;
    o = full_json(c);
    if (known) json_object_set_new(o, "known", known);
    return pz_command_json(o, err);
  }
  printf("%s: %s\n", c->name, c->about);
  print_parts(c);
  enum pz_status status = pz_bill_print(name, c, err);
  return status == PZ_OK ? print_sources(name, err) : status;
}

/* ---- power of operators --------------------------------------------------------------------- */

/* Mean relative errors: at the measured rate of calls, and of calls one after the other, as their time. */
struct means {
  double time, watts, joules, sustained_watts, sustained_joules;
  int n_time, n_watts, n_joules;
};

static void add_row(struct means *m, const struct pz_power_row *r) {
  if (r->call_s > 0) {
    m->time += fabs(r->sustained.latency_s / r->call_s - 1);
    m->n_time++;
  }
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
  m->time /= m->n_time > 0 ? m->n_time : 1;
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

static void power_row(struct pz_table *t, const struct pz_power_row *r, bool limits) {
  pz_table_cell(t, "%s", r->op);
  pz_table_cell(t, "%lld x %lld x %lld", (long long)r->m, (long long)r->n, (long long)r->k);
  if (limits) pair(t, r->cap_watts, r->lock_hz / 1e6);
  pair(t, r->sustained.latency_s * 1e6, r->call_s * 1e6);
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
  return json_pack("{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "op", r->op,
                   "m", (json_int_t)r->m, "n", (json_int_t)r->n, "k", (json_int_t)r->k, "cap_watts",
                   r->cap_watts, "lock_hz", r->lock_hz, "sustained_s", r->sustained.latency_s,
                   "latency_s", r->called.latency_s, "clock_hz", r->called.clock_hz, "watts",
                   r->called.watts, "joules", r->called.joules, "throttled_s", r->throttled_s,
                   "measured_s", r->call_s, "measured_clock_hz", r->clock_hz, "measured_watts",
                   r->watts, "measured_joules", r->joules);
}

static enum pz_status print_rows(const struct pz_power_row *rows, uint32_t n, bool as_json,
                                 struct pz_arena *arena, struct pz_error *err) {
#define REST                                                                                       \
  ">us", ">measured", ">MHz", ">measured", ">W", ">measured", ">J", ">measured", ">error",         \
      ">us by fitted throttle", NULL
  static const char *const heads[] = {"operator", "m x n x k", REST}, *const limited[] = {
                                                                          "operator", "m x n x k",
                                                                          ">cap W", ">lock MHz",
                                                                          REST};
#undef REST
  struct pz_table t;
  struct means m = {0};
  json_t *list = json_array();
  bool limits = false;
  for (uint32_t i = 0; i < n; i++) limits |= rows[i].cap_watts > 0 || rows[i].lock_hz > 0;
  pz_table_init(&t, arena, limits ? limited : heads);
  for (uint32_t i = 0; i < n; i++) {
    add_row(&m, &rows[i]);
    power_row(&t, &rows[i], limits);
    json_array_append_new(list, power_json(&rows[i]));
  }
  close_means(&m);
  json_t *root =
      json_pack("{s:o,s:f,s:f,s:f,s:f,s:f}", "operators", list, "time_error", m.time, "watts_error",
                m.watts, "joules_error", m.joules, "sustained_watts_error", m.sustained_watts,
                "sustained_joules_error", m.sustained_joules);
  if (as_json) return pz_command_json(root, err);
  json_decref(root);
  enum pz_status status = pz_table_print(&t, 0, stdout);
  if (m.n_watts)
    printf("\nmean error: time %.1f%% of %d, watts %.1f%% of %d, joules %.1f%% of %d; without the "
           "measured rate of calls watts %.1f%% and joules %.1f%%\n",
           100 * m.time, m.n_time, 100 * m.watts, m.n_watts, 100 * m.joules, m.n_joules,
           100 * m.sustained_watts, 100 * m.sustained_joules);
  return status;
}

static enum pz_status print_power(const struct pz_chip *c, const char *path, bool as_json,
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

static enum pz_exit run_chip(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_long_call call;
  struct pz_chip c;
  if (!pz_call_begin(&call, &pz_cmd_chip, argc, argv, &s)) return call.code;
  enum pz_status status = pz_chip_read_units(argv[1], s.any_units, &c, &call.err);
  if (status == PZ_OK)
    status = s.power ? print_power(&c, s.power, s.common.json, &call.err)
                     : print_chip(argv[1], &c, s.common.json, &call.err);
  return pz_call_end(&call, status);
}

const struct pz_command pz_cmd_chips = {
    .name = "chips",
    .synopsis = "[--dies | --constants | --fields FILE] [--json]",
    .summary = "List the built-in chips and clusters",
    .detail = "Columns: peak is the dense matrix rate, glb the global on-chip buffer, mm2 the\n"
              "area of all dies by the bill (see 'phaze chip'), watts the power by the data\n"
              "sheet. tpuv4 is the reference chip of the original Phaze system; tpuv4-real has\n"
              "the vector units of the real TPUv4 and the area of its 7 nm die; searches take\n"
              "both at 22 nm.\n"
              "\n"
              "Clusters have a row for every level of the network: group is the number of devices\n"
              "that the level joins, GB/s the rate of one device in one direction, us the latency\n"
              "of one message. A cluster that scales may have more devices at its last level.\n"
              "\n"
              "Examples:\n"
              "  phaze chips\n"
              "  phaze chips --json\n"
              "  phaze chips --dies\n"
              "  phaze chips --constants\n"
              "  phaze chips --fields chip\n",
    .table = {list_options, sizeof list_options / sizeof *list_options},
    .defaults = &defaults,
    .run = run_chips,
};

const struct pz_command pz_cmd_chip = {
    .name = "chip",
    .synopsis = "CHIP [--power FILE.csv] [--any-units] [--json]",
    .summary = "Show one chip: peak rates, area, power and price by component, sources",
    .detail = "CHIP is a name listed by 'phaze chips' or the path of a chip.json file. --json\n"
              "prints a chip in that file format.\n"
              "\n"
              "The bill is a model of all dies (doc/silicon.md): its constants stand in 'phaze\n"
              "chips --constants'. At 45 and 22 nm it is the original system's library, without\n"
              "network on chip, HBM, links and host interface.\n"
              "\n"
              "Examples:\n"
              "  phaze chip h200\n"
              "  phaze chip tpuv4 --json > mine.json\n"
              "  phaze chip ./mine.json\n"
              "  phaze chip h200 --power measured.csv\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "CHIP",
    .run = run_chip,
};
