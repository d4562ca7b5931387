/* Costs and limits.  pz_chip_taken() computes all costs of a chip from its bill; pz_limits_broken() and pz_excess_add()
 * compare them with limits, which pz_limits_apply_budget() completes. */
#include "space/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/num.h"

/* ---- costs ---------------------------------------------------------------------------------- */

struct pz_taken pz_chip_taken(const struct pz_chip *c) {
  static const double HOURS_PER_YEAR = 365.25 * 24, WATTS_PER_KILOWATT = 1e3;
  struct pz_bill bill = pz_chip_bill(c, PZ_BILL_LIKELY);
  const struct pz_tech_info *t = pz_tech_at(pz_chip_bill_tech(c));
  bool lowers_clock = c->cold && !pz_tech_is_library(t);
  bool has_power_limit = lowers_clock && c->watts > 0;
  double watts = pz_bill_peak_watts(c, &bill), at_rest = bill.area_mm2 * t->static_w_per_mm2;
  double running =
      bill.static_watts + (pz_chip_held_part(c) - 1) * bill.area_mm2 * t->clock_w_per_mm2;
  double owner_dollars = bill.dollars + t->server_dollars + t->network_dollars +
                         watts * t->power_overhead * t->life_years * HOURS_PER_YEAR /
                             WATTS_PER_KILOWATT * t->energy_dollars_per_kwh;
  double slowest_hz = has_power_limit ? 0 : c->clock_hz;
  return (struct pz_taken){.mm2 = bill.area_mm2,
                           .watts = watts,
                           .least_watts = lowers_clock ? at_rest : watts,
                           .dollars = bill.dollars,
                           .static_watts = lowers_clock ? at_rest : running,
                           .edge_mm = bill.edge_mm,
                           .edge_room_mm = bill.edge_room_mm,
                           .owner_dollars = owner_dollars,
                           .voltage2 = t->reference_hz > 0 ? pz_tech_voltage2(t, slowest_hz) : 1,
                           .several = c->tensor.cores > 1 && c->vector.cores > 1};
}

/* ---- limits --------------------------------------------------------------------------------- */

const char *pz_limits_broken(const struct pz_limits *l, const struct pz_taken *least,
                             const struct pz_taken *most) {
  if (l->mm2 > 0 && least->mm2 > l->mm2) return "area";
  if (l->watts > 0 && least->least_watts > l->watts) return "watts";
  if (l->dollars > 0 && least->dollars > l->dollars) return "dollars";
  if (most->mm2 < l->least_mm2 && least->several) return "least area";
  return least->edge_mm > most->edge_room_mm ? "edge" : NULL;
}

enum { AREA, WATTS, DOLLARS, LEAST_AREA, EDGE };

void pz_excess_add(struct pz_excess *x, const struct pz_limits *l, const struct pz_taken *least,
                   const struct pz_taken *most) {
  const struct {
    double cost, limit;
    bool broken;
  } of[PZ_EXCESSES] = {
      [AREA] = {least->mm2, l->mm2, l->mm2 > 0 && least->mm2 > l->mm2},
      [WATTS] = {least->least_watts, l->watts, l->watts > 0 && least->least_watts > l->watts},
      [DOLLARS] = {least->dollars, l->dollars, l->dollars > 0 && least->dollars > l->dollars},
      [LEAST_AREA] = {most->mm2, l->least_mm2, most->mm2 < l->least_mm2 && least->several},
      [EDGE] = {least->edge_mm, most->edge_room_mm, least->edge_mm > most->edge_room_mm}};
  for (int i = 0; i < PZ_EXCESSES; i++) {
    bool is_smaller =
        !(x->limit[i] > 0) || !(fabs(x->taken[i] - x->limit[i]) <= fabs(of[i].cost - of[i].limit));
    if (!of[i].broken || !is_smaller) continue;
    x->taken[i] = of[i].cost;
    x->limit[i] = of[i].limit;
  }
}

char *pz_excess_text(const struct pz_excess *x, char *buf, size_t size) {
  static const char *const words[PZ_EXCESSES] = {
      [AREA] = "mm2 of at most",
      [WATTS] = "W of at most",
      [DOLLARS] = "dollars of at most",
      [LEAST_AREA] = "mm2 of at least",
      [EDGE] = "mm of HBM and links at the edges of the dies, which have"};
  size_t n = 0;
  buf[0] = '\0';
  for (int i = 0; i < PZ_EXCESSES && n < size; i++)
    if (x->limit[i] > 0)
      n += (size_t)snprintf(buf + n, size - n, "%s%.6g %s %.6g", n ? ", " : "", x->taken[i],
                            words[i], x->limit[i]);
  return buf;
}

/* ---- budgets -------------------------------------------------------------------------------- */

static void apply_chip_as_budget(struct pz_call *call, const struct pz_space *s, const char *budget,
                                 const char *node, struct pz_limits *limits) {
  struct pz_chip c, *loaded = NULL;
  struct pz_error why = {0};
  enum pz_status status = pz_chip_load(budget, &loaded, &why);
  if (status != PZ_OK) pz_raise(call, status, "--budget: %s", why.message);
  c = *loaded;
  pz_chip_free(loaded);
  pz_chip_make_cold(call, &c, NULL);
  const struct pz_tech_info *tech = pz_tech_at(c.tech);
  bool is_of_space = s->n_nodes == 1 && s->node[0] == c.tech;
  if (!node && !is_of_space)
    pz_raise(call, PZ_BAD_USE,
             "--budget %.40s: a chip of %s, and the space %s has chips of %s%s; accepted: a chip "
             "of the space's technology, mm2, or --node %s where the space has it",
             budget, tech->name, s->name, pz_tech_at(s->node[0])->name,
             s->n_nodes > 1 ? " and others" : "", tech->name);
  struct pz_taken t = pz_chip_taken(&c);
  if (!(limits->mm2 > 0)) limits->mm2 = t.mm2;
  if (pz_tech_is_library(tech)) return; /* it has no bill of HBM and links */
  if (!(limits->watts > 0)) limits->watts = t.watts;
  if (!(limits->dollars > 0)) limits->dollars = t.dollars;
}

void pz_limits_apply_budget(struct pz_call *call, const struct pz_space *s, const char *budget,
                            const char *node, struct pz_limits *limits) {
  if (budget) {
    char *end;
    double mm2 = strtod(budget, &end);
    bool is_number = end != budget && !*end;
    if (!is_number)
      apply_chip_as_budget(call, s, budget, node, limits);
    else if (!(mm2 > 0 && mm2 < 1e9))
      pz_raise(call, PZ_BAD_USE, "--budget %s; accepted: a chip, or an area above 0 mm2", budget);
    else if (!(limits->mm2 > 0))
      limits->mm2 = mm2;
  }
  bool has_limit = limits->mm2 > 0 || limits->watts > 0 || limits->dollars > 0;
  if (!has_limit && s->has_base) limits->mm2 = pz_chip_bill(&s->base, PZ_BILL_LIKELY).area_mm2;
  limits->least_mm2 = s->least_part * limits->mm2;
}
