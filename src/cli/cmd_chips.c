/* phaze chips lists the built-in chips and clusters, the constants of the cost breakdown, or the fields of their files.
 * phaze chip shows one chip with its rates, cost breakdown (chip_bill.h) and sources, or compares measured power. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/chip_bill.h"
#include "cli/machine_options.h"
#include "cli/owned.h"
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

/* ---- chips as JSON -------------------------------------------------------------------------- */

/* Returns the description of a chip with derived rates and its cost breakdown, a new reference. */
static json_t *chip_json(struct pz_call *call, const struct pz_chip *c) {
  char *text = NULL;
  pz_must(call, pz_bill_text(c, &text, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  json_t *bill = pz_json_read(call, "bill", text, strlen(text));
  json_t *o = pz_chip_json(c);
  json_object_set_new(
      o, "derived",
      json_pack("{s:f,s:f,s:f,s:I,s:f}", "tensor_flop_per_s", pz_chip_tensor_flop_per_s(c),
                "vector_op_per_s", pz_chip_vector_op_per_s(c), "hbm_bytes_per_s",
                pz_chip_hbm_bytes_per_s(c), "hbm_bytes", (json_int_t)pz_chip_hbm_bytes(c),
                "peak_watts", pz_chip_peak_watts(c)));
  json_object_set(o, "area_mm2", json_object_get(bill, "area_mm2"));
  json_object_set(o, "dollars", json_object_get(bill, "dollars"));
  json_object_set(o, "bill", bill);
  return o;
}

/* ---- the list of presets -------------------------------------------------------------------- */

static void append_chip_row(struct pz_table *t, const struct pz_chip *c) {
  char rate[32];
  struct pz_bill bill = pz_chip_bill(c, PZ_BILL_LIKELY);
  pz_table_cell(t, "%s", c->name);
  pz_table_cell(t, "%s", pz_tech_at(pz_chip_bill_tech(c))->name);
  pz_table_cell(t, "%" PRId64 " x %" PRId64 "x%" PRId64, c->tensor.cores, c->tensor.rows,
                c->tensor.cols);
  pz_table_cell(t, "%" PRId64 " x %" PRId64, c->vector.cores, c->vector.lanes);
  pz_table_cell(t, "%s", pz_text_si(rate, sizeof rate, pz_chip_tensor_flop_per_s(c), "FLOP/s"));
  pz_table_cell(t, "%" PRId64 " MiB", c->glb_bytes >> 20);
  pz_table_cell(t, "%" PRId64 " GiB", pz_chip_hbm_bytes(c) >> 30);
  pz_table_cell(t, "%s", pz_text_si(rate, sizeof rate, pz_chip_hbm_bytes_per_s(c), "B/s"));
  pz_table_cell(t, "%.0f", bill.area_mm2);
  pz_table_cell(t, "%.0f", c->watts);
}

/* Returns " 16x16" for a torus, " mesh" for a mesh, and "" if every device reaches every other one directly. */
static const char *topology_text(const struct pz_level *l, char *buf, size_t size) {
  size_t n = 0;
  snprintf(buf, size, "%s", l->mesh ? " mesh" : "");
  for (int i = 0; i < l->n_axes && n < size; i++)
    n += (size_t)snprintf(buf + n, size - n, "%s%" PRId64, i ? "x" : " ", l->axis[i]);
  return buf;
}

/* Appends one row for each level of the network; the first one also has what applies to the whole cluster. */
static void append_cluster_rows(struct pz_table *t, const struct pz_cluster *c) {
  for (int i = 0; i < c->n_levels; i++) {
    const struct pz_level *l = &c->level[i];
    char topology[64];
    if (i == 0) {
      pz_table_cell(t, "%s", c->name);
      pz_table_cell(t, "%" PRId64, c->devices);
      pz_table_cell(t, "%s", c->scales ? "yes" : "no");
    } else {
      for (int k = 0; k < 3; k++) pz_table_cell(t, "%s", "");
    }
    pz_table_cell(t, "%s%s", l->name, topology_text(l, topology, sizeof topology));
    pz_table_cell(t, "%" PRId64, l->devices);
    pz_table_cell(t, "%.4g", l->bytes_per_s / 1e9);
    pz_table_cell(t, "%.3g", l->latency_s * 1e6);
  }
}

static void print_presets(struct pz_call *call, bool as_json) {
  static const char *const chip_heads[] = {
      "chip", "tech",           ">tensor cores", ">vector cores", ">peak", ">glb",
      ">hbm", ">hbm bandwidth", ">mm2",          ">watts",        NULL};
  static const char *const cluster_heads[] = {"cluster", ">devices", "scales", "level",
                                              ">group",  ">GB/s",    ">us",    NULL};
  struct pz_error *err = pz_call_error(call);
  struct pz_table *chips = pz_table_new(call, chip_heads);
  struct pz_table *clusters = pz_table_new(call, cluster_heads);
  json_t *chips_json = pz_json_built(call, json_array());
  json_t *clusters_json = pz_json_built(call, json_array());
  struct pz_chip *c = pz_alloc(call, 1, sizeof *c);
  struct pz_cluster *net = pz_alloc(call, 1, sizeof *net);
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    pz_chip_read(call, pz_chip_preset_name(i), c);
    append_chip_row(chips, c);
    if (as_json) json_array_append_new(chips_json, chip_json(call, c));
  }
  for (size_t i = 0; pz_cluster_preset_name(i); i++) {
    pz_must(call, pz_cluster_load(pz_cluster_preset_name(i), net, err));
    append_cluster_rows(clusters, net);
    if (as_json) json_array_append_new(clusters_json, pz_cluster_json(net));
  }
  if (as_json) {
    pz_command_print_json(call,
                          json_pack("{s:O,s:O}", "chips", chips_json, "clusters", clusters_json));
    return;
  }
  pz_table_print(chips, 0, stdout);
  printf("\n");
  pz_table_print(clusters, 0, stdout);
}

/* ---- fields of files ------------------------------------------------------------------------ */

static const char *field_text(const json_t *o, const char *key) {
  const char *text = json_string_value(json_object_get(o, key));
  return text ? text : "";
}

/* The default of a field, that it is required, or what its absence means. */
static void default_cell(struct pz_table *t, const json_t *o) {
  const json_t *value = json_object_get(o, "default");
  if (json_is_number(value))
    pz_table_cell(t, "| %.15g", json_number_value(value));
  else if (json_is_boolean(value))
    pz_table_cell(t, "| %s", json_is_true(value) ? "true" : "false");
  else if (value)
    pz_table_cell(t, "| \"\"");
  else if (json_is_true(json_object_get(o, "required")))
    pz_table_cell(t, "| required");
  else
    pz_table_cell(t, "| %s", field_text(o, "absent"));
}

/* Prints the fields of a kind of file as a Markdown table, which doc/fields.md contains. */
static void print_fields(struct pz_call *call, const char *file, bool as_json) {
  static const char *const heads[] = {"| field",   "| unit",      "| accepted",
                                      "| default", "| meaning |", NULL};
  char *text = NULL;
  json_t *field;
  size_t i;
  pz_must(call, pz_file_fields(file, &text, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  json_t *root = pz_json_read(call, file, text, strlen(text));
  if (as_json) {
    pz_command_print_json(call, json_incref(root));
    return;
  }
  struct pz_table *t = pz_table_new(call, heads);
  for (int k = 0; heads[k]; k++) pz_table_cell(t, "%s", heads[k + 1] ? "|---" : "|---|");
  json_array_foreach(json_object_get(root, "fields"), i, field) {
    pz_table_cell(t, "| `%s`", field_text(field, "field"));
    pz_table_cell(t, "| %s", field_text(field, "unit"));
    pz_table_cell(t, "| %s", field_text(field, "accepted"));
    default_cell(t, field);
    pz_table_cell(t, "| %s |", field_text(field, "meaning"));
  }
  pz_table_print(t, 0, stdout);
}

static void list_chips(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  if (!pz_command_options(call, in, &s)) return;
  if (s.fields >= 0)
    print_fields(call, pz_file_names[s.fields], s.common.json);
  else if (s.dies)
    pz_bill_show_dies(call, s.common.json);
  else if (s.constants)
    pz_bill_show_constants(call, s.common.json);
  else
    print_presets(call, s.common.json);
}

/* ---- one chip ------------------------------------------------------------------------------- */

static void print_line(const char *label, const char *format, ...) PZ_PRINTF(2, 3);

static void print_line(const char *label, const char *format, ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printf("  %-18s %s\n", label, text);
}

static void print_rates(const struct pz_chip *c) {
  char rate[32];
  print_line("clock", "%s", pz_text_si(rate, sizeof rate, c->clock_hz, "Hz"));
  print_line("tensor cores", "%" PRId64 " of %" PRId64 " x %" PRId64 ", %" PRId64 " KiB each: %s",
             c->tensor.cores, c->tensor.rows, c->tensor.cols, c->tensor.local_bytes >> 10,
             pz_text_si(rate, sizeof rate, pz_chip_tensor_flop_per_s(c), "FLOP/s"));
  print_line("vector cores", "%" PRId64 " of %" PRId64 " lane%s: %s", c->vector.cores,
             c->vector.lanes, pz_text_s((double)c->vector.lanes),
             pz_text_si(rate, sizeof rate, pz_chip_vector_op_per_s(c), "op/s"));
  print_line("global buffer", "%" PRId64 " MiB, %s", c->glb_bytes >> 20,
             pz_text_si(rate, sizeof rate, c->glb_bytes_per_s, "B/s"));
  print_line("HBM", "%" PRId64 " GiB in %" PRId64 " stack%s, %s", pz_chip_hbm_bytes(c) >> 30,
             c->hbm.stacks, c->hbm.stacks > 1 ? "s" : "",
             pz_text_si(rate, sizeof rate, pz_chip_hbm_bytes_per_s(c), "B/s"));
  if (c->link_bytes_per_s > 0)
    print_line("link", "%s, %.3g us", pz_text_si(rate, sizeof rate, c->link_bytes_per_s, "B/s"),
               c->link_latency_s * 1e6);
}

static void print_chip(struct pz_call *call, const char *name, const struct pz_chip *c,
                       bool as_json) {
  if (as_json) {
    json_t *known = pz_bill_known(call, name, c), *o = chip_json(call, c);
    if (known) json_object_set_new(o, "known", known);
    pz_command_print_json(call, o);
    return;
  }
  printf("%s: %s\n", c->name, c->about);
  print_rates(c);
  pz_bill_show(call, name, c);
  const char *preset = pz_chip_preset_text(name), *key;
  if (!preset) return;
  json_t *root = pz_json_read(call, name, preset, strlen(preset)), *source;
  printf("\nsources\n");
  json_object_foreach(json_object_get(root, "sources"), key, source)
      print_line(key, "%s", json_string_value(source));
}

/* ---- power of measured operators ------------------------------------------------------------ */

/* Mean relative errors.  `called`: operators are called at the measured rate; `sustained`: one after another. */
struct power_errors {
  double time, called_watts, called_joules, sustained_watts, sustained_joules;
  int n_time, n_watts, n_joules;
};

static double relative_error(double predicted, double measured) {
  return fabs(predicted / measured - 1);
}

static double mean_of(double sum, int n) { return sum / (n > 0 ? n : 1); }

static struct power_errors mean_power_errors(const struct pz_power_row *rows, uint32_t n) {
  struct power_errors e = {0};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_power_row *r = &rows[i];
    if (r->call_s > 0) {
      e.time += relative_error(r->sustained.latency_s, r->call_s);
      e.n_time++;
    }
    if (r->watts > 0) {
      e.called_watts += relative_error(r->called.watts, r->watts);
      e.sustained_watts += relative_error(r->sustained.watts, r->watts);
      e.n_watts++;
    }
    if (r->joules > 0) {
      e.called_joules += relative_error(r->called.joules, r->joules);
      e.sustained_joules += relative_error(r->sustained.joules, r->joules);
      e.n_joules++;
    }
  }
  e.time = mean_of(e.time, e.n_time);
  e.called_watts = mean_of(e.called_watts, e.n_watts);
  e.sustained_watts = mean_of(e.sustained_watts, e.n_watts);
  e.called_joules = mean_of(e.called_joules, e.n_joules);
  e.sustained_joules = mean_of(e.sustained_joules, e.n_joules);
  return e;
}

/* Adds a number, or an empty cell if it is unknown (0). */
static void number_cell(struct pz_table *t, double v) {
  if (v > 0)
    pz_table_cell(t, "%.4g", v);
  else
    pz_table_cell(t, "%s", "");
}

static void append_power_row(struct pz_table *t, const struct pz_power_row *r, bool limits) {
  pz_table_cell(t, "%s", r->op);
  pz_table_cell(t, "%lld x %lld x %lld", (long long)r->m, (long long)r->n, (long long)r->k);
  if (limits) number_cell(t, r->cap_watts);
  if (limits) number_cell(t, r->lock_hz / 1e6);
  number_cell(t, r->sustained.latency_s * 1e6);
  number_cell(t, r->call_s * 1e6);
  number_cell(t, r->called.clock_hz / 1e6);
  number_cell(t, r->clock_hz / 1e6);
  number_cell(t, r->called.watts);
  number_cell(t, r->watts);
  number_cell(t, r->called.joules);
  number_cell(t, r->joules);
  if (r->joules > 0)
    pz_table_cell(t, "%+.1f%%", 100 * (r->called.joules / r->joules - 1));
  else
    pz_table_cell(t, "%s", "");
  number_cell(t, r->throttled_s * 1e6);
}

static json_t *power_json(const struct pz_power_table *power, const struct power_errors *e) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < power->n_rows; i++) {
    const struct pz_power_row *r = &power->rows[i];
    json_array_append_new(
        rows, json_pack("{s:s,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "op",
                        r->op, "m", (json_int_t)r->m, "n", (json_int_t)r->n, "k", (json_int_t)r->k,
                        "cap_watts", r->cap_watts, "lock_hz", r->lock_hz, "sustained_s",
                        r->sustained.latency_s, "latency_s", r->called.latency_s, "clock_hz",
                        r->called.clock_hz, "watts", r->called.watts, "joules", r->called.joules,
                        "throttled_s", r->throttled_s, "measured_s", r->call_s, "measured_clock_hz",
                        r->clock_hz, "measured_watts", r->watts, "measured_joules", r->joules));
  }
  return json_pack("{s:o,s:f,s:f,s:f,s:f,s:f}", "operators", rows, "time_error", e->time,
                   "watts_error", e->called_watts, "joules_error", e->called_joules,
                   "sustained_watts_error", e->sustained_watts, "sustained_joules_error",
                   e->sustained_joules);
}

static void free_power_table(void *table) { pz_power_table_free(table); }

/* Compares measured operators with predictions.  The columns of limits are shown if a row was measured under limits. */
static void print_power(struct pz_call *call, const struct pz_chip *c, const char *path,
                        bool as_json) {
  static const char *const heads[] = {"operator", "m x n x k",
                                      ">cap W",   ">lock MHz",
                                      ">us",      ">measured",
                                      ">MHz",     ">measured",
                                      ">W",       ">measured",
                                      ">J",       ">measured",
                                      ">error",   ">us by fitted throttle",
                                      NULL};
  static const char *const heads_without_limits[] = {
      "operator", "m x n x k", ">us", ">measured", ">MHz",   ">measured",
      ">W",       ">measured", ">J",  ">measured", ">error", ">us by fitted throttle",
      NULL};
  struct pz_power_table *power = NULL;
  size_t bytes = 0;
  const char *text = pz_file_text(call, path, PZ_CSV_MOST_BYTES, &bytes);
  pz_must(call, pz_power_table(c, path, text, bytes, &power, pz_call_error(call)));
  pz_defer(call, free_power_table, power);
  struct power_errors e = mean_power_errors(power->rows, power->n_rows);
  if (as_json) {
    pz_command_print_json(call, power_json(power, &e));
    return;
  }
  bool limits = false;
  for (uint32_t i = 0; i < power->n_rows; i++)
    if (power->rows[i].cap_watts > 0 || power->rows[i].lock_hz > 0) limits = true;
  struct pz_table *t = pz_table_new(call, limits ? heads : heads_without_limits);
  for (uint32_t i = 0; i < power->n_rows; i++) append_power_row(t, &power->rows[i], limits);
  pz_table_print(t, 0, stdout);
  if (e.n_watts)
    printf("\nmean error: time %.1f%% of %d, watts %.1f%% of %d, joules %.1f%% of %d; without the "
           "measured rate of calls watts %.1f%% and joules %.1f%%\n",
           100 * e.time, e.n_time, 100 * e.called_watts, e.n_watts, 100 * e.called_joules,
           e.n_joules, 100 * e.sustained_watts, 100 * e.sustained_joules);
}

static void show_chip(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  struct pz_chip *c = pz_alloc(call, 1, sizeof *c);
  if (!pz_command_options(call, in, &s)) return;
  pz_chip_read_units(call, in->args[0], s.any_units, c);
  if (s.power)
    print_power(call, c, s.power, s.common.json);
  else
    print_chip(call, in->args[0], c, s.common.json);
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
    .body = list_chips,
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
    .body = show_chip,
};
