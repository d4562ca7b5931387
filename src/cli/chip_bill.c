/* The cost breakdown of a chip (area of its dies by block, power, production cost, edge): printed for one chip, as a table
 * of all presets whose real dies are known, and with the constants of the model.  The model itself is chip/bill.c behind
 * pz_chip_bill(); this file only shows its results beside the known values. */
#include "cli/chip_bill.h"

#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "report/table.h"

/* ---- one chip ------------------------------------------------------------------------------- */

static struct pz_known load_known(struct pz_call *call, const char *chip) {
  struct pz_known known;
  pz_must(call, pz_known_load(chip, &known, pz_call_error(call)));
  return known;
}

static void set_known(json_t *o, const char *key, const char *error, double known, double bill) {
  if (known <= 0) return;
  json_object_set_new(o, key, json_real(known));
  json_object_set_new(o, error, json_real(bill / known - 1));
}

json_t *pz_bill_known(struct pz_call *call, const char *chip, const struct pz_chip *c) {
  struct pz_known known = load_known(call, chip);
  if (!known.die[0]) return NULL;
  struct pz_bill bill = pz_chip_bill(c, PZ_BILL_LIKELY);
  json_t *o = json_pack("{s:s,s:b}", "die", known.die, "fitted", known.fitted);
  set_known(o, "mm2", "area_error", known.mm2, bill.area_mm2);
  set_known(o, "watts", "watts_error", known.watts, bill.watts);
  return o;
}

static void print_area(const char *label, double mm2, double total_mm2) {
  if (mm2 > 0) printf("  %-24s %9.3f mm2 %5.1f%%\n", label, mm2, 100 * mm2 / total_mm2);
}

static void print_amount(const char *label, double amount, const char *unit) {
  if (amount > 0) printf("  %-24s %9.0f %s\n", label, amount, unit);
}

/* Prints the parts of the breakdown that have a unit: "mm2", "W" or "$". */
static void print_bill_parts(const struct pz_bill *bill, const char *unit) {
  const struct pz_bill_part *part;
  for (size_t i = 0; (part = pz_bill_part_at(i)); i++) {
    if (strcmp(part->unit, unit) != 0) continue;
    double amount = *(const double *)(const void *)((const char *)bill + part->offset);
    if (strcmp(unit, "mm2") == 0)
      print_area(part->label, amount, bill->area_mm2);
    else
      print_amount(part->label, amount, unit);
  }
}

/* Prints the range of a sum that the sources leave open, and its known value (0: unknown) with the error. */
static void print_range(double sum, double low, double high, const char *unit, double known) {
  if (low < high) printf("  %-24s %9.0f to %.0f %s\n", "range of sources", low, high, unit);
  if (known > 0)
    printf("  %-24s %9.0f %s, error %+.1f%%\n", "known", known, unit, 100 * (sum / known - 1));
}

void pz_bill_show(struct pz_call *call, const char *chip, const struct pz_chip *c) {
  const struct pz_known known = load_known(call, chip);
  const struct pz_bill bill = pz_chip_bill(c, PZ_BILL_LIKELY);
  const struct pz_bill low = pz_chip_bill(c, PZ_BILL_LOW);
  const struct pz_bill high = pz_chip_bill(c, PZ_BILL_HIGH);
  const struct pz_package *package = &c->package;
  printf("\narea of %lld die%s (%s model%s%s)\n", (long long)bill.dies, bill.dies > 1 ? "s" : "",
         pz_tech_at(pz_chip_bill_tech(c))->name, package->io_dies ? ", I/O dies " : "",
         package->io_dies ? pz_tech_at(package->io_tech)->name : "");
  print_bill_parts(&bill, "mm2");
  print_area("total", bill.area_mm2, bill.area_mm2);
  print_range(bill.area_mm2, low.area_mm2, high.area_mm2, "mm2", known.mm2);
  printf("\npower at peak: %s\n", bill.static_watts > 0
                                      ? "static, links, and the larger of products and HBM"
                                      : "all units at full rate");
  print_bill_parts(&bill, "W");
  print_amount("total", bill.watts, "W");
  print_range(bill.watts, low.watts, high.watts, "W", known.watts);
  double peak_watts = pz_chip_peak_watts(c);
  if (peak_watts > bill.watts) print_amount("clock held, full rate", peak_watts, "W");
  if (c->watts > 0 && c->watts != known.watts) print_amount("data sheet or limit", c->watts, "W");
  if (bill.dollars > 0) printf("\nprice of production\n");
  print_bill_parts(&bill, "$");
  print_amount("total", bill.dollars, "$");
  print_range(bill.dollars, low.dollars, high.dollars, "$", 0);
  if (bill.edge_mm > 0)
    printf("\nedge: HBM and links take %.0f of %.0f mm\n", bill.edge_mm, bill.edge_room_mm);
}

/* ---- known dies ----------------------------------------------------------------------------- */

struct mean_error {
  double sum;
  int n;
};

static void add_error(struct mean_error *m, double bill, double known) {
  m->sum += fabs(bill / known - 1);
  m->n++;
}

static double mean_of_errors(const struct mean_error *m) { return m->n ? m->sum / m->n : 0; }

/* Each for all dies, and for those that no constant was fitted to ("judged"). */
enum { ALL_DIES, JUDGED_DIES };
struct die_errors {
  struct mean_error area[2], watts[2];
};

static void append_error_cells(struct pz_table *t, double bill, double known) {
  pz_table_cell(t, "%.0f", bill);
  if (known > 0) {
    pz_table_cell(t, "%.0f", known);
    pz_table_cell(t, "%+.1f%%", 100 * (bill / known - 1));
  } else {
    pz_table_cell(t, "%s", "");
    pz_table_cell(t, "%s", "");
  }
}

/* Returns whether an earlier preset has the same die, whose area then counts already. */
static bool is_repeated_die(size_t preset, const char *die) {
  struct pz_known earlier;
  for (size_t i = 0; i < preset; i++)
    if (pz_known_load(pz_chip_preset_name(i), &earlier, NULL) == PZ_OK &&
        strcmp(earlier.die, die) == 0)
      return true;
  return false;
}

/* Adds a preset to the table, the JSON array and the errors, unless nothing is known of its dies. */
static void append_die(struct pz_call *call, size_t preset, struct pz_table *t, json_t *list,
                       struct die_errors *errors) {
  const char *name = pz_chip_preset_name(preset);
  const struct pz_known known = load_known(call, name);
  struct pz_chip c;
  if (!known.die[0]) return;
  pz_chip_read(call, name, &c);
  const struct pz_bill bill = pz_chip_bill(&c, PZ_BILL_LIKELY);
  pz_table_cell(t, "%s", name);
  pz_table_cell(t, "%s", known.die);
  pz_table_cell(t, "%s", pz_tech_at(pz_chip_bill_tech(&c))->name);
  pz_table_cell(t, "%lld", (long long)bill.dies);
  append_error_cells(t, bill.area_mm2, known.mm2);
  append_error_cells(t, bill.watts, known.watts);
  pz_table_cell(t, "%.0f", bill.dollars);
  pz_table_cell(t, "%s", known.fitted ? "fitted" : "judged");
  int last_group = known.fitted ? ALL_DIES : JUDGED_DIES;
  for (int group = ALL_DIES; group <= last_group; group++) {
    if (known.mm2 > 0 && !is_repeated_die(preset, known.die))
      add_error(&errors->area[group], bill.area_mm2, known.mm2);
    if (known.watts > 0) add_error(&errors->watts[group], bill.watts, known.watts);
  }
  json_t *row = pz_bill_known(call, name, &c);
  json_object_set_new(row, "chip", json_string(name));
  json_object_set_new(row, "area_mm2", json_real(bill.area_mm2));
  json_object_set_new(row, "bill_watts", json_real(bill.watts));
  json_object_set_new(row, "dollars", json_real(bill.dollars));
  json_array_append_new(list, row);
}

void pz_bill_show_dies(struct pz_call *call, bool as_json) {
  static const char *const heads[] = {"chip",   "die",    "tech",   ">dies",  ">mm2",
                                      ">known", ">error", ">watts", ">known", ">error",
                                      ">$",     "share",  NULL};
  struct die_errors e = {0};
  json_t *list = pz_json_built(call, json_array());
  struct pz_table *t = pz_table_new(call, heads);
  for (size_t i = 0; pz_chip_preset_name(i); i++) append_die(call, i, t, list, &e);
  double area = mean_of_errors(&e.area[ALL_DIES]), watts = mean_of_errors(&e.watts[ALL_DIES]);
  double area_judged = mean_of_errors(&e.area[JUDGED_DIES]);
  double watts_judged = mean_of_errors(&e.watts[JUDGED_DIES]);
  if (as_json) {
    pz_command_print_json(call, json_pack("{s:O,s:f,s:f,s:f,s:f}", "dies", list, "area_error", area,
                                          "area_error_judged", area_judged, "watts_error", watts,
                                          "watts_error_judged", watts_judged));
    return;
  }
  pz_table_print(t, 0, stdout);
  printf("\nmean error of area: %.1f%% of %d dies, %.1f%% of the %d judged\n", 100 * area,
         e.area[ALL_DIES].n, 100 * area_judged, e.area[JUDGED_DIES].n);
  printf("mean error of watts: %.1f%% of %d chips, %.1f%% of the %d judged\n", 100 * watts,
         e.watts[ALL_DIES].n, 100 * watts_judged, e.watts[JUDGED_DIES].n);
}

/* ---- constants ------------------------------------------------------------------------------ */

static void print_constants(struct pz_call *call) {
  static const char *const silicon_heads[] = {
      "constant", "unit", ">16nm", ">7nm", ">5nm", ">3nm", ">low", ">high", "kind", "source", NULL};
  static const char *const cold_heads[] = {"constant", ">value", ">low", ">high",
                                           "kind",     "source", NULL};
  const struct pz_silicon *s;
  const struct pz_cold_info *c;
  struct pz_table *silicon = pz_table_new(call, silicon_heads);
  for (size_t i = 0; (s = pz_silicon_at(i)); i++) {
    pz_table_cell(silicon, "%s", s->name);
    pz_table_cell(silicon, "%s", s->unit);
    for (int node = 0; node < 4; node++) pz_table_cell(silicon, "%.4g", s->value[node]);
    pz_table_cell(silicon, "x%.2f", s->low);
    pz_table_cell(silicon, "x%.2f", s->high);
    pz_table_cell(silicon, "%s", s->kind);
    pz_table_cell(silicon, "%s", s->source);
  }
  pz_table_print(silicon, 0, stdout);
  printf("\nWhat programs reach on chips that nobody measured (step times: %.0f%% from chip to "
         "chip)\n",
         100 * pz_cold_spread());
  struct pz_table *cold = pz_table_new(call, cold_heads);
  for (size_t i = 0; (c = pz_cold_at(i)); i++) {
    pz_table_cell(cold, "%s", c->name);
    pz_table_cell(cold, "%.4g", c->value);
    pz_table_cell(cold, "%.4g", c->low);
    pz_table_cell(cold, "%.4g", c->high);
    pz_table_cell(cold, "%s", c->kind);
    pz_table_cell(cold, "%s", c->source);
  }
  pz_table_print(cold, 0, stdout);
}

void pz_bill_show_constants(struct pz_call *call, bool as_json) {
  if (!as_json) {
    print_constants(call);
    return;
  }
  const struct pz_silicon *s;
  const struct pz_cold_info *c;
  json_t *silicon = json_array(), *cold = json_array();
  for (size_t i = 0; (s = pz_silicon_at(i)); i++)
    json_array_append_new(
        silicon, json_pack("{s:s,s:s,s:[f,f,f,f],s:f,s:f,s:s,s:s}", "name", s->name, "unit",
                           s->unit, "values", s->value[0], s->value[1], s->value[2], s->value[3],
                           "low", s->low, "high", s->high, "kind", s->kind, "source", s->source));
  for (size_t i = 0; (c = pz_cold_at(i)); i++)
    json_array_append_new(cold, json_pack("{s:s,s:f,s:f,s:f,s:s,s:s}", "name", c->name, "value",
                                          c->value, "low", c->low, "high", c->high, "kind", c->kind,
                                          "source", c->source));
  pz_command_print_json(call, json_pack("{s:[s,s,s,s],s:o,s:o,s:f}", "nodes", "16nm", "7nm", "5nm",
                                        "3nm", "constants", silicon, "cold", cold, "cold_spread",
                                        pz_cold_spread()));
}
