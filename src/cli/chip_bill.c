#include "cli/chip_bill.h"

#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "report/table.h"

/* ---- one chip ------------------------------------------------------------------------------- */

static void set_known(json_t *o, const char *key, const char *error, double known, double bill) {
  if (known <= 0) return;
  json_object_set_new(o, key, json_real(known));
  json_object_set_new(o, error, json_real(bill / known - 1));
}

enum pz_status pz_bill_known_json(const char *chip, const struct pz_chip *c, json_t **out,
                                  struct pz_error *err) {
  struct pz_known k;
  enum pz_status status = pz_known_load(chip, &k, err);
  if (status != PZ_OK || !k.die[0]) return status;
  struct pz_bill b = pz_chip_bill(c, PZ_BILL_LIKELY);
  json_t *o = json_pack("{s:s,s:b}", "die", k.die, "fitted", k.fitted);
  set_known(o, "mm2", "area_error", k.mm2, b.area_mm2);
  set_known(o, "watts", "watts_error", k.watts, b.watts);
  *out = o;
  return PZ_OK;
}

static void print_area(const char *label, double mm2, double of) {
  if (mm2 > 0) printf("  %-24s %9.3f mm2 %5.1f%%\n", label, mm2, 100 * mm2 / of);
}

static void print_whole(const char *label, double v, const char *unit) {
  if (v > 0) printf("  %-24s %9.0f %s\n", label, v, unit);
}

static void print_bill_parts(const struct pz_bill *b, const char *unit) {
  const struct pz_bill_part *p;
  for (size_t i = 0; (p = pz_bill_part_at(i)); i++) {
    double v = *(const double *)(const void *)((const char *)b + p->offset);
    if (strcmp(p->unit, unit) != 0) continue;
    if (*unit == 'm')
      print_area(p->label, v, b->area_mm2);
    else
      print_whole(p->label, v, unit);
  }
}

/* Of a sum: what sources leave open, and what is known. */
static void print_range(double v, double low, double high, const char *unit, double known) {
  if (low < high) printf("  %-24s %9.0f to %.0f %s\n", "range of sources", low, high, unit);
  if (known > 0)
    printf("  %-24s %9.0f %s, error %+.1f%%\n", "known", known, unit, 100 * (v / known - 1));
}

enum pz_status pz_bill_print(const char *chip, const struct pz_chip *c, struct pz_error *err) {
  struct pz_known k;
  enum pz_status status = pz_known_load(chip, &k, err);
  if (status != PZ_OK) return status;
  struct pz_bill likely = pz_chip_bill(c, PZ_BILL_LIKELY), low = pz_chip_bill(c, PZ_BILL_LOW),
                 high = pz_chip_bill(c, PZ_BILL_HIGH), *l = &likely;
  const struct pz_package *p = &c->package;
  printf("\narea of %lld die%s (%s model%s%s)\n", (long long)l->dies, l->dies > 1 ? "s" : "",
         pz_tech_at(pz_chip_bill_tech(c))->name, p->io_dies ? ", I/O dies " : "",
         p->io_dies ? pz_tech_at(p->io_tech)->name : "");
  print_bill_parts(l, "mm2");
  print_area("total", l->area_mm2, l->area_mm2);
  print_range(l->area_mm2, low.area_mm2, high.area_mm2, "mm2", k.mm2);
  printf("\npower at peak: %s\n", l->static_watts > 0
                                      ? "static, links, and the larger of products and HBM"
                                      : "all units at full rate");
  print_bill_parts(l, "W");
  print_whole("total", l->watts, "W");
  print_range(l->watts, low.watts, high.watts, "W", k.watts);
  if (pz_chip_peak_watts(c) > l->watts)
    print_whole("clock held, full rate", pz_chip_peak_watts(c), "W");
  if (c->watts > 0 && c->watts != k.watts) print_whole("data sheet or limit", c->watts, "W");
  if (l->dollars > 0) printf("\nprice of production\n");
  print_bill_parts(l, "$");
  print_whole("total", l->dollars, "$");
  print_range(l->dollars, low.dollars, high.dollars, "$", 0);
  if (l->edge_mm > 0)
    printf("\nedge: HBM and links take %.0f of %.0f mm\n", l->edge_mm, l->edge_room_mm);
  return PZ_OK;
}

/* ---- known dies ----------------------------------------------------------------------------- */

struct mean {
  double sum;
  int n;
};

static void add_error(struct mean *m, double bill, double known) {
  m->sum += fabs(bill / known - 1);
  m->n++;
}

static double mean_error(const struct mean *m) { return m->n ? m->sum / m->n : 0; }

/* Area and watts: of all, and of those that nothing was fitted to. */
struct errors {
  struct mean area[2], watts[2];
};

static void die_cells(struct pz_table *t, double bill, double known) {
  pz_table_cell(t, "%.0f", bill);
  if (known > 0) {
    pz_table_cell(t, "%.0f", known);
    pz_table_cell(t, "%+.1f%%", 100 * (bill / known - 1));
  } else {
    pz_table_cell(t, "%s", "");
    pz_table_cell(t, "%s", "");
  }
}

static bool seen_before(size_t preset, const char *die) {
  struct pz_known k;
  for (size_t i = 0; i < preset; i++)
    if (pz_known_load(pz_chip_preset_name(i), &k, NULL) == PZ_OK && strcmp(k.die, die) == 0)
      return true;
  return false;
}

static enum pz_status die_row(size_t preset, struct pz_table *t, json_t *list, struct errors *e,
                              struct pz_error *err) {
  const char *name = pz_chip_preset_name(preset);
  struct pz_chip c;
  struct pz_known k;
  json_t *known = NULL;
  enum pz_status status = pz_known_load(name, &k, err);
  if (status != PZ_OK || !k.die[0]) return status;
  status = pz_chip_read(name, &c, err);
  if (status == PZ_OK) status = pz_bill_known_json(name, &c, &known, err);
  if (status != PZ_OK) return status;
  struct pz_bill b = pz_chip_bill(&c, PZ_BILL_LIKELY);
  pz_table_cell(t, "%s", name);
  pz_table_cell(t, "%s", k.die);
  pz_table_cell(t, "%s", pz_tech_at(pz_chip_bill_tech(&c))->name);
  pz_table_cell(t, "%lld", (long long)b.dies);
  die_cells(t, b.area_mm2, k.mm2);
  die_cells(t, b.watts, k.watts);
  pz_table_cell(t, "%.0f", b.dollars);
  pz_table_cell(t, "%s", k.fitted ? "fitted" : "judged");
  for (int judged = 0; judged <= !k.fitted; judged++) {
    if (k.mm2 > 0 && !seen_before(preset, k.die)) add_error(&e->area[judged], b.area_mm2, k.mm2);
    if (k.watts > 0) add_error(&e->watts[judged], b.watts, k.watts);
  }
  json_object_set_new(known, "chip", json_string(name));
  json_object_set_new(known, "area_mm2", json_real(b.area_mm2));
  json_object_set_new(known, "bill_watts", json_real(b.watts));
  json_object_set_new(known, "dollars", json_real(b.dollars));
  json_array_append_new(list, known);
  return PZ_OK;
}

static enum pz_status print_errors(const struct pz_table *t, const struct errors *e) {
  enum pz_status status = pz_table_print(t, 0, stdout);
  printf("\nmean error of area: %.1f%% of %d dies, %.1f%% of the %d judged\n",
         100 * mean_error(&e->area[0]), e->area[0].n, 100 * mean_error(&e->area[1]), e->area[1].n);
  printf("mean error of watts: %.1f%% of %d chips, %.1f%% of the %d judged\n",
         100 * mean_error(&e->watts[0]), e->watts[0].n, 100 * mean_error(&e->watts[1]),
         e->watts[1].n);
  return status;
}

enum pz_status pz_bill_print_dies(bool as_json, struct pz_error *err) {
  static const char *const heads[] = {"chip",   "die",    "tech",   ">dies",  ">mm2",
                                      ">known", ">error", ">watts", ">known", ">error",
                                      ">$",     "share",  NULL};
  struct pz_arena arena;
  struct pz_table t;
  struct errors e = {0};
  json_t *list = json_array();
  enum pz_status status = PZ_OK;
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  for (size_t i = 0; pz_chip_preset_name(i) && status == PZ_OK; i++)
    status = die_row(i, &t, list, &e, err);
  json_t *root =
      json_pack("{s:o,s:f,s:f,s:f,s:f}", "dies", list, "area_error", mean_error(&e.area[0]),
                "area_error_judged", mean_error(&e.area[1]), "watts_error", mean_error(&e.watts[0]),
                "watts_error_judged", mean_error(&e.watts[1]));
  if (status == PZ_OK && as_json) status = pz_command_json(json_incref(root), err);
  if (status == PZ_OK && !as_json) status = print_errors(&t, &e);
  json_decref(root);
  pz_arena_release(&arena);
  return status;
}

/* ---- constants ------------------------------------------------------------------------------ */

static enum pz_status cold_table(struct pz_arena *arena) {
  static const char *const heads[] = {"constant", ">value", ">low", ">high",
                                      "kind",     "source", NULL};
  const struct pz_cold_info *c;
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; (c = pz_cold_at(i)); i++) {
    pz_table_cell(&t, "%s", c->name);
    pz_table_cell(&t, "%.4g", c->value);
    pz_table_cell(&t, "%.4g", c->low);
    pz_table_cell(&t, "%.4g", c->high);
    pz_table_cell(&t, "%s", c->kind);
    pz_table_cell(&t, "%s", c->source);
  }
  printf("\nWhat programs reach on chips that nobody measured (step times: %.0f%% from chip to "
         "chip)\n",
         100 * pz_cold_spread());
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status constants_table(void) {
  static const char *const heads[] = {"constant", "unit",  ">16nm", ">7nm",   ">5nm", ">3nm",
                                      ">low",     ">high", "kind",  "source", NULL};
  const struct pz_silicon *s;
  struct pz_arena arena;
  struct pz_table t;
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  for (size_t i = 0; (s = pz_silicon_at(i)); i++) {
    pz_table_cell(&t, "%s", s->name);
    pz_table_cell(&t, "%s", s->unit);
    for (int k = 0; k < 4; k++) pz_table_cell(&t, "%.4g", s->value[k]);
    pz_table_cell(&t, "x%.2f", s->low);
    pz_table_cell(&t, "x%.2f", s->high);
    pz_table_cell(&t, "%s", s->kind);
    pz_table_cell(&t, "%s", s->source);
  }
  enum pz_status status = pz_table_print(&t, 0, stdout);
  if (status == PZ_OK) status = cold_table(&arena);
  pz_arena_release(&arena);
  return status;
}

enum pz_status pz_bill_print_constants(bool as_json, struct pz_error *err) {
  const struct pz_silicon *s;
  const struct pz_cold_info *c;
  if (!as_json) return constants_table();
  json_t *list = json_array();
  for (size_t i = 0; (s = pz_silicon_at(i)); i++)
    json_array_append_new(list, json_pack("{s:s,s:s,s:[f,f,f,f],s:f,s:f,s:s,s:s}", "name", s->name,
                                          "unit", s->unit, "values", s->value[0], s->value[1],
                                          s->value[2], s->value[3], "low", s->low, "high", s->high,
                                          "kind", s->kind, "source", s->source));
  json_t *cold = json_array();
  for (size_t i = 0; (c = pz_cold_at(i)); i++)
    json_array_append_new(cold, json_pack("{s:s,s:f,s:f,s:f,s:s,s:s}", "name", c->name, "value",
                                          c->value, "low", c->low, "high", c->high, "kind", c->kind,
                                          "source", c->source));
  return pz_command_json(json_pack("{s:[s,s,s,s],s:o,s:o,s:f}", "nodes", "16nm", "7nm", "5nm",
                                   "3nm", "constants", list, "cold", cold, "cold_spread",
                                   pz_cold_spread()),
                         err);
}
