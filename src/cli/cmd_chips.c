/* phaze chips lists the built-in chips and clusters, compares the dies of chips with published data,
 * or lists the constants of the cost breakdown.  phaze chip shows one chip with its rates, its cost
 * breakdown (area of its dies by block, power, production cost, edge) and sources, or compares
 * predicted with measured power.
 *
 * The model behind the breakdown is pz_chip_bill(); this file only prints its results beside the
 * published values. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli/machine_options.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  bool dies, constants, any_units;
  const char *power;
};

#define AT(field) offsetof(struct settings, field)
static const struct settings defaults;
/* clang-format off */
static const struct pz_option list_options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_FLAG_OPTION("dies", AT(dies), "Compare the bill of every chip with what is known of its dies"),
    PZ_FLAG_OPTION("constants", AT(constants), "Print the constants of the bill by node, and what programs reach on chips that nobody measured, with ranges and sources"),
};
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_TEXT_OPTION("power", AT(power), "FILE.csv", "Compare watts, clock and joules with a table of operators measured for seconds"),
    PZ_UNITS_OPTION(AT(any_units)),
};
/* clang-format on */
#undef AT

/* ---- known dies ----------------------------------------------------------------------------- */

/* Returns the published area and power of a chip, with the relative errors of its cost breakdown. */
static struct pz_known_die describe_die(const char *chip, const struct pz_known *known,
                                        const struct pz_bill *bill) {
  struct pz_known_die die = {.chip = chip,
                             .die = known->die,
                             .fitted = known->fitted,
                             .mm2 = known->mm2,
                             .watts = known->watts,
                             .area_mm2 = bill->area_mm2,
                             .bill_watts = bill->watts,
                             .dollars = bill->dollars};
  if (known->mm2 > 0) die.area_error = bill->area_mm2 / known->mm2 - 1;
  if (known->watts > 0) die.watts_error = bill->watts / known->watts - 1;
  return die;
}

/* A sum of absolute relative errors and the number of its terms. */
struct mean_error {
  double sum;
  int n;
};

/* Adds the relative error of a computed number, whose known value is above 0, to a mean. */
static void add_error(struct mean_error *mean, double computed, double known) {
  mean->sum += fabs(computed / known - 1);
  mean->n++;
}

static double mean_of_errors(const struct mean_error *mean) {
  return mean->n ? mean->sum / mean->n : 0;
}

/* Indices: all dies, and the dies to which no constant was fitted ("judged"). */
enum { ALL_DIES, JUDGED_DIES };
struct die_errors {
  struct mean_error area[2], watts[2];
};

/* Adds a preset whose die has published data to the table, to the list of struct pz_known_die and to
 * the errors.  A missing published number is 0 and leaves its cells empty. */
static void append_die(struct pz_call *call, size_t preset, struct pz_table *table,
                       struct pz_vec *list, struct die_errors *errors) {
  const char *name = pz_chip_preset_name(preset);
  struct pz_known known, earlier;
  struct pz_chip chip;
  bool is_repeated = false; /* an earlier preset has the same die, whose area is counted already */
  pz_must(call, pz_known_load(name, &known, pz_call_error(call)));
  if (!known.die[0]) return;
  for (size_t i = 0; i < preset; i++)
    if (pz_known_load(pz_chip_preset_name(i), &earlier, NULL) == PZ_OK &&
        strcmp(earlier.die, known.die) == 0)
      is_repeated = true;
  pz_chip_read(call, name, &chip);
  const struct pz_bill bill = pz_chip_bill(&chip, PZ_BILL_LIKELY);
  pz_table_cells(table, "%s|%s|%s|%lld", name, known.die,
                 pz_tech_at(pz_chip_bill_tech(&chip))->name, (long long)bill.dies);
  const double computed[] = {bill.area_mm2, bill.watts}, published[] = {known.mm2, known.watts};
  for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
    if (published[i] > 0)
      pz_table_cells(table, "%.0f|%.0f|%+.1f%%", computed[i], published[i],
                     100 * (computed[i] / published[i] - 1));
    else
      pz_table_cells(table, "%.0f||", computed[i]);
  pz_table_cells(table, "%.0f|%s", bill.dollars, known.fitted ? "fitted" : "judged");
  int last_group = known.fitted ? ALL_DIES : JUDGED_DIES;
  for (int group = ALL_DIES; group <= last_group; group++) {
    if (known.mm2 > 0 && !is_repeated) add_error(&errors->area[group], bill.area_mm2, known.mm2);
    if (known.watts > 0) add_error(&errors->watts[group], bill.watts, known.watts);
  }
  struct pz_known_die die = describe_die(name, &known, &bill);
  die.die = pz_copy_text(call, known.die);
  pz_append(call, list, &die);
}

/* Prints area and power of every preset with known dies, computed and known, and the mean
 * errors.  Presets with the same die count once in the mean error of the area. */
static void print_dies(struct pz_call *call, bool as_json) {
  struct die_errors errors = {0};
  struct pz_vec list; /* struct pz_known_die */
  pz_vec_init(&list, call->arena, sizeof(struct pz_known_die));
  struct pz_table *table =
      pz_table_new(call, "chip|die|tech|>dies|>mm2|>known|>error|>watts|>known|>error|>$|share");
  for (size_t i = 0; pz_chip_preset_name(i); i++) append_die(call, i, table, &list, &errors);
  double area = mean_of_errors(&errors.area[ALL_DIES]);
  double watts = mean_of_errors(&errors.watts[ALL_DIES]);
  double area_judged = mean_of_errors(&errors.area[JUDGED_DIES]);
  double watts_judged = mean_of_errors(&errors.watts[JUDGED_DIES]);
  if (as_json) {
    const struct pz_known_dies dies = {list.items, list.n, area, area_judged, watts, watts_judged};
    pz_command_print_json(call, pz_record_json(&pz_known_dies_record, &dies));
    return;
  }
  pz_table_print(table, 0, stdout);
  printf("\nmean error of area: %.1f%% of %d dies, %.1f%% of the %d judged\n", 100 * area,
         errors.area[ALL_DIES].n, 100 * area_judged, errors.area[JUDGED_DIES].n);
  printf("mean error of watts: %.1f%% of %d chips, %.1f%% of the %d judged\n", 100 * watts,
         errors.watts[ALL_DIES].n, 100 * watts_judged, errors.watts[JUDGED_DIES].n);
}

/* ---- constants ------------------------------------------------------------------------------ */

/* Prints the constants of the cost breakdown and those of unmeasured chips (chip/cold.def). */
static void print_constants(struct pz_call *call, bool as_json) {
  struct pz_table *silicon =
      pz_table_new(call, "constant|unit|>16nm|>7nm|>5nm|>3nm|>low|>high|kind|source");
  struct pz_table *cold = pz_table_new(call, "constant|>value|>low|>high|kind|source");
  static const char *const nodes[] = {"16nm", "7nm", "5nm", "3nm"};
  struct pz_silicon_constants all = {.nodes = nodes,
                                     .n_nodes = sizeof nodes / sizeof *nodes,
                                     .constants = pz_silicon_at(0),
                                     .cold = pz_cold_at(0),
                                     .cold_spread = pz_cold_spread()};
  while (pz_silicon_at(all.n_constants)) all.n_constants++;
  while (pz_cold_at(all.n_cold)) all.n_cold++;
  if (as_json) {
    pz_command_print_json(call, pz_record_json(&pz_silicon_constants_record, &all));
    return;
  }
  for (uint32_t i = 0; i < all.n_constants; i++) {
    const struct pz_silicon *constant = &all.constants[i];
    const double *value = constant->value;
    pz_table_cells(silicon, "%s|%s|%.4g|%.4g|%.4g|%.4g|x%.2f|x%.2f|%s|%s", constant->name,
                   constant->unit, value[0], value[1], value[2], value[3], constant->low,
                   constant->high, constant->kind, constant->source);
  }
  for (uint32_t i = 0; i < all.n_cold; i++) {
    const struct pz_cold_info *constant = &all.cold[i];
    pz_table_cells(cold, "%s|%.4g|%.4g|%.4g|%s|%s", constant->name, constant->value, constant->low,
                   constant->high, constant->kind, constant->source);
  }
  pz_table_print(silicon, 0, stdout);
  printf("\nWhat programs reach on chips that nobody measured (step times: %.0f%% from chip to "
         "chip)\n",
         100 * pz_cold_spread());
  pz_table_print(cold, 0, stdout);
}

/* ---- the list of presets -------------------------------------------------------------------- */

/* Returns the description of a chip with derived rates and its cost breakdown, a new reference. */
static json_t *chip_json(struct pz_call *call, const struct pz_chip *chip) {
  char *text = NULL;
  pz_must(call, pz_bill_text(chip, &text, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  json_t *bill = pz_json_read(call, "bill", text, strlen(text));
  json_t *root = pz_chip_json(chip);
  const struct pz_chip_rates rates = {.tensor_flop_per_s = pz_chip_tensor_flop_per_s(chip),
                                      .vector_op_per_s = pz_chip_vector_op_per_s(chip),
                                      .hbm_bytes_per_s = pz_chip_hbm_bytes_per_s(chip),
                                      .hbm_bytes = pz_chip_hbm_bytes(chip),
                                      .peak_watts = pz_chip_peak_watts(chip)};
  json_object_set_new(root, "derived", pz_record_json(&pz_chip_rates_record, &rates));
  json_object_set(root, "area_mm2", json_object_get(bill, "area_mm2"));
  json_object_set(root, "dollars", json_object_get(bill, "dollars"));
  json_object_set(root, "bill", bill);
  return root;
}

/* Appends one row for each level of the network; the first one also has what applies to the
 * whole cluster.  The topology of a level is " 16x16" for a torus, " mesh" for a mesh, and "" if
 * every device reaches every other one directly. */
static void append_cluster_rows(struct pz_table *table, const struct pz_cluster *cluster) {
  for (int i = 0; i < cluster->n_levels; i++) {
    const struct pz_level *level = &cluster->level[i];
    char topology[64];
    size_t n = 0;
    snprintf(topology, sizeof topology, "%s", level->mesh ? " mesh" : "");
    for (int k = 0; k < level->n_axes && n < sizeof topology; k++)
      n += (size_t)snprintf(topology + n, sizeof topology - n, "%s%" PRId64, k ? "x" : " ",
                            level->axis[k]);
    if (i == 0)
      pz_table_cells(table, "%s|%" PRId64 "|%s", cluster->name, cluster->devices,
                     cluster->scales ? "yes" : "no");
    else
      pz_table_cells(table, "%s||", "");
    pz_table_cells(table, "%s%s|%" PRId64 "|%.4g|%.3g", level->name, topology, level->devices,
                   level->bytes_per_s / 1e9, level->latency_s * 1e6);
  }
}

/* Prints the tables of the built-in chips and clusters, or both as JSON. */
static void print_presets(struct pz_call *call, bool as_json) {
  struct pz_error *err = pz_call_error(call);
  struct pz_table *chips = pz_table_new(
      call, "chip|tech|>tensor cores|>vector cores|>peak|>glb|>hbm|>hbm bandwidth|>mm2|>watts");
  struct pz_table *clusters = pz_table_new(call, "cluster|>devices|scales|level|>group|>GB/s|>us");
  json_t *chips_json = pz_json_built(call, json_array());
  json_t *clusters_json = pz_json_built(call, json_array());
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  struct pz_cluster *cluster = pz_alloc(call, 1, sizeof *cluster);
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    pz_chip_read(call, pz_chip_preset_name(i), chip);
    char flop[32], hbm[32];
    pz_table_cells(chips,
                   "%s|%s|%" PRId64 " x %" PRId64 "x%" PRId64 "|%" PRId64 " x %" PRId64
                   "|%s|%" PRId64 " MiB|%" PRId64 " GiB|%s|%.0f|%.0f",
                   chip->name, pz_tech_at(pz_chip_bill_tech(chip))->name, chip->tensor.cores,
                   chip->tensor.rows, chip->tensor.cols, chip->vector.cores, chip->vector.lanes,
                   pz_text_si(flop, sizeof flop, pz_chip_tensor_flop_per_s(chip), "FLOP/s"),
                   chip->glb_bytes >> 20, pz_chip_hbm_bytes(chip) >> 30,
                   pz_text_si(hbm, sizeof hbm, pz_chip_hbm_bytes_per_s(chip), "B/s"),
                   pz_chip_bill(chip, PZ_BILL_LIKELY).area_mm2, chip->watts);
    if (as_json) json_array_append_new(chips_json, chip_json(call, chip));
  }
  for (size_t i = 0; pz_cluster_preset_name(i); i++) {
    pz_must(call, pz_cluster_load(pz_cluster_preset_name(i), cluster, err));
    append_cluster_rows(clusters, cluster);
    if (as_json) json_array_append_new(clusters_json, pz_cluster_json(cluster));
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

/* Prints the presets, or the comparison of dies or the constants if an option asks for them. */
static void list_chips(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  bool as_json = settings.common.json;
  if (settings.dies)
    print_dies(call, as_json);
  else if (settings.constants)
    print_constants(call, as_json);
  else
    print_presets(call, as_json);
}

/* ---- one chip ------------------------------------------------------------------------------- */

static void print_line(const char *label, const char *format, ...) PZ_PRINTF(2, 3);

/* Prints an indented label and a value. */
static void print_line(const char *label, const char *format, ...) {
  char text[200];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printf("  %-18s %s\n", label, text);
}

/* Prints the peak rates and the memory of a chip. */
static void print_rates(const struct pz_chip *chip) {
  char rate[32];
  print_line("clock", "%s", pz_text_si(rate, sizeof rate, chip->clock_hz, "Hz"));
  print_line("tensor cores", "%" PRId64 " of %" PRId64 " x %" PRId64 ", %" PRId64 " KiB each: %s",
             chip->tensor.cores, chip->tensor.rows, chip->tensor.cols,
             chip->tensor.local_bytes >> 10,
             pz_text_si(rate, sizeof rate, pz_chip_tensor_flop_per_s(chip), "FLOP/s"));
  print_line("vector cores", "%" PRId64 " of %" PRId64 " lane%s: %s", chip->vector.cores,
             chip->vector.lanes, pz_text_s((double)chip->vector.lanes),
             pz_text_si(rate, sizeof rate, pz_chip_vector_op_per_s(chip), "op/s"));
  print_line("global buffer", "%" PRId64 " MiB, %s", chip->glb_bytes >> 20,
             pz_text_si(rate, sizeof rate, chip->glb_bytes_per_s, "B/s"));
  print_line("HBM", "%" PRId64 " GiB in %" PRId64 " stack%s, %s", pz_chip_hbm_bytes(chip) >> 30,
             chip->hbm.stacks, chip->hbm.stacks > 1 ? "s" : "",
             pz_text_si(rate, sizeof rate, pz_chip_hbm_bytes_per_s(chip), "B/s"));
  if (chip->link_bytes_per_s > 0)
    print_line("link", "%s, %.3g us", pz_text_si(rate, sizeof rate, chip->link_bytes_per_s, "B/s"),
               chip->link_latency_s * 1e6);
}

/* Prints the parts of the breakdown that have a unit ("mm2", "W" or "$"), their total, its range
 * over the uncertainty of the sources, and the published total unless it is unknown (0). */
static void print_breakdown(const struct pz_bill *bill, const char *unit, double total, double low,
                            double high, double published) {
  for (size_t i = 0;; i++) {
    const struct pz_bill_part *part = pz_bill_part_at(i); /* the total follows the parts */
    if (part && strcmp(part->unit, unit) != 0) continue;
    const char *label = part ? part->label : "total";
    double amount = total;
    if (part) amount = *(const double *)(const void *)((const char *)bill + part->offset);
    if (amount > 0 && strcmp(unit, "mm2") == 0)
      printf("  %-24s %9.3f mm2 %5.1f%%\n", label, amount, 100 * amount / total);
    else if (amount > 0)
      printf("  %-24s %9.0f %s\n", label, amount, unit);
    if (!part) break;
  }
  if (low < high) printf("  %-24s %9.0f to %.0f %s\n", "range of sources", low, high, unit);
  if (published > 0)
    printf("  %-24s %9.0f %s, error %+.1f%%\n", "known", published, unit,
           100 * (total / published - 1));
}

/* Prints the breakdown of area, power, production cost and edge. */
static void print_bill(const struct pz_chip *chip, const struct pz_bill *bill,
                       const struct pz_known *known) {
  const struct pz_bill low = pz_chip_bill(chip, PZ_BILL_LOW);
  const struct pz_bill high = pz_chip_bill(chip, PZ_BILL_HIGH);
  const struct pz_package *package = &chip->package;
  printf("\narea of %lld die%s (%s model%s%s)\n", (long long)bill->dies, bill->dies > 1 ? "s" : "",
         pz_tech_at(pz_chip_bill_tech(chip))->name, package->io_dies ? ", I/O dies " : "",
         package->io_dies ? pz_tech_at(package->io_tech)->name : "");
  print_breakdown(bill, "mm2", bill->area_mm2, low.area_mm2, high.area_mm2, known->mm2);
  printf("\npower at peak: %s\n", bill->static_watts > 0
                                      ? "static, links, and the larger of products and HBM"
                                      : "all units at full rate");
  print_breakdown(bill, "W", bill->watts, low.watts, high.watts, known->watts);
  double peak_watts = pz_chip_peak_watts(chip);
  if (peak_watts > bill->watts) printf("  %-24s %9.0f W\n", "clock held, full rate", peak_watts);
  if (chip->watts > 0 && chip->watts != known->watts)
    printf("  %-24s %9.0f W\n", "data sheet or limit", chip->watts);
  if (bill->dollars > 0) printf("\nprice of production\n");
  print_breakdown(bill, "$", bill->dollars, low.dollars, high.dollars, 0);
  if (bill->edge_mm > 0)
    printf("\nedge: HBM and links take %.0f of %.0f mm\n", bill->edge_mm, bill->edge_room_mm);
}

/* Prints a chip with rates, cost breakdown and sources; `name` is a preset or a path. */
static void print_chip(struct pz_call *call, const char *name, const struct pz_chip *chip,
                       bool as_json) {
  struct pz_known known; /* its member `die` is "" if nothing is published */
  pz_must(call, pz_known_load(name, &known, pz_call_error(call)));
  const struct pz_bill bill = pz_chip_bill(chip, PZ_BILL_LIKELY);
  if (as_json) {
    json_t *root = chip_json(call, chip);
    const struct pz_known_die die = describe_die(name, &known, &bill);
    if (known.die[0])
      json_object_set_new(root, "known", pz_record_json(&pz_known_die_record, &die));
    pz_command_print_json(call, root);
    return;
  }
  printf("%s: %s\n", chip->name, chip->about);
  print_rates(chip);
  print_bill(chip, &bill, &known);
  const char *preset = pz_chip_preset_text(name), *key;
  if (!preset) return;
  json_t *root = pz_json_read(call, name, preset, strlen(preset)), *source;
  printf("\nsources\n");
  json_object_foreach(json_object_get(root, "sources"), key, source)
      print_line(key, "%s", json_string_value(source));
}

/* ---- power of measured operators ------------------------------------------------------------ */

/* Mean relative errors.  Predictions are `called` if operators start at the measured rate of
 * calls, and `sustained` if each starts when the previous one ends. */
struct power_errors {
  struct mean_error time, called_watts, called_joules, sustained_watts, sustained_joules;
};

/* Returns the errors of the predictions over all rows; a measured value of 0 is unknown. */
static struct power_errors sum_power_errors(const struct pz_power_row *rows, uint32_t n) {
  struct power_errors errors = {0};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_power_row *row = &rows[i];
    if (row->call_s > 0) add_error(&errors.time, row->sustained.latency_s, row->call_s);
    if (row->watts > 0) {
      add_error(&errors.called_watts, row->called.watts, row->watts);
      add_error(&errors.sustained_watts, row->sustained.watts, row->watts);
    }
    if (row->joules > 0) {
      add_error(&errors.called_joules, row->called.joules, row->joules);
      add_error(&errors.sustained_joules, row->sustained.joules, row->joules);
    }
  }
  return errors;
}

/* Adds one measured operator: each predicted number is followed by the measured one.  Unknown
 * numbers (0) leave empty cells.  `limits` says whether the table has columns for them. */
static void append_power_row(struct pz_table *table, const struct pz_power_row *row, bool limits) {
  const double numbers[] = {row->cap_watts,
                            row->lock_hz / 1e6,
                            row->sustained.latency_s * 1e6,
                            row->call_s * 1e6,
                            row->called.clock_hz / 1e6,
                            row->clock_hz / 1e6,
                            row->called.watts,
                            row->watts,
                            row->called.joules,
                            row->joules,
                            row->throttled_s * 1e6};
  const size_t n = sizeof numbers / sizeof *numbers;
  pz_table_cells(table, "%s|%lld x %lld x %lld", row->op, (long long)row->m, (long long)row->n,
                 (long long)row->k);
  for (size_t i = limits ? 0 : 2; i < n; i++) {
    bool is_last = i == n - 1; /* the error of the joules stands before it */
    if (is_last && row->joules > 0)
      pz_table_cell(table, "%+.1f%%", 100 * (row->called.joules / row->joules - 1));
    else if (is_last)
      pz_table_cell(table, "%s", "");
    if (numbers[i] > 0)
      pz_table_cell(table, "%.4g", numbers[i]);
    else
      pz_table_cell(table, "%s", "");
  }
}

/* Prints predicted beside measured time, clock, power and energy of operators.  Power caps and
 * clock locks have columns only if some row was measured under one. */
static void print_power(struct pz_call *call, const struct pz_chip *chip, const char *path,
                        bool as_json) {
  static const char *const limit_heads[] = {">cap W", ">lock MHz"};
  static const char *const number_heads[] = {
      ">us",       ">measured", ">MHz",      ">measured", ">W",
      ">measured", ">J",        ">measured", ">error",    ">us by fitted throttle"};
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {"operator", "m x n x k"};
  struct pz_power_table *power = NULL;
  size_t bytes = 0, n_heads = 2;
  const char *text = pz_file_text(call, path, PZ_CSV_MOST_BYTES, &bytes);
  pz_must(call, pz_power_table(chip, path, text, bytes, &power, pz_call_error(call)));
  pz_defer(call, pz_object_free, power);
  struct power_errors errors = sum_power_errors(power->rows, power->n_rows);
  if (as_json) {
    const struct pz_power_comparison comparison = {
        .rows = power->rows,
        .n_rows = power->n_rows,
        .time_error = mean_of_errors(&errors.time),
        .watts_error = mean_of_errors(&errors.called_watts),
        .joules_error = mean_of_errors(&errors.called_joules),
        .sustained_watts_error = mean_of_errors(&errors.sustained_watts),
        .sustained_joules_error = mean_of_errors(&errors.sustained_joules)};
    pz_command_print_json(call, pz_record_json(&pz_power_comparison_record, &comparison));
    return;
  }
  bool any_limits = false;
  for (uint32_t i = 0; i < power->n_rows; i++)
    if (power->rows[i].cap_watts > 0 || power->rows[i].lock_hz > 0) any_limits = true;
  for (size_t i = 0; any_limits && i < sizeof limit_heads / sizeof *limit_heads; i++)
    heads[n_heads++] = limit_heads[i];
  for (size_t i = 0; i < sizeof number_heads / sizeof *number_heads; i++)
    heads[n_heads++] = number_heads[i];
  struct pz_table *table = pz_table_with(call, heads);
  for (uint32_t i = 0; i < power->n_rows; i++) append_power_row(table, &power->rows[i], any_limits);
  pz_table_print(table, 0, stdout);
  if (errors.called_watts.n)
    printf("\nmean error: time %.1f%% of %d, watts %.1f%% of %d, joules %.1f%% of %d; without the "
           "measured rate of calls watts %.1f%% and joules %.1f%%\n",
           100 * mean_of_errors(&errors.time), errors.time.n,
           100 * mean_of_errors(&errors.called_watts), errors.called_watts.n,
           100 * mean_of_errors(&errors.called_joules), errors.called_joules.n,
           100 * mean_of_errors(&errors.sustained_watts),
           100 * mean_of_errors(&errors.sustained_joules));
}

/* Prints one chip, or with --power its predictions beside measured operators. */
static void show_chip(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *name = invocation->args[0];
  pz_chip_read_units(call, name, settings.any_units, chip);
  if (settings.power)
    print_power(call, chip, settings.power, settings.common.json);
  else
    print_chip(call, name, chip, settings.common.json);
}

const struct pz_command pz_cmd_chips = {
    .name = "chips",
    .synopsis = "[--dies | --constants] [--json]",
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
              "  phaze chips --constants\n",
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "CHIP",
    .body = show_chip,
};
