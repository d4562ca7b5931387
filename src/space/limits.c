/* Costs and limits.  pz_chip_taken() computes all costs of a chip from its bill; pz_limits_broken()
 * and pz_excess_add() compare them with limits, which pz_limits_apply_budget() completes. */
#include "space/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/num.h"

/* ---- costs ---------------------------------------------------------------------------------- */

/* Returns the costs of a chip: area, power, money and die edge.  A chip known only by its data
 * sheet (`cold`) lowers its clock under a power limit, so that its least power is that at rest. */
struct pz_taken pz_chip_taken(const struct pz_chip *chip) {
  static const double HOURS_PER_YEAR = 365.25 * 24, WATTS_PER_KILOWATT = 1e3;
  struct pz_bill bill = pz_chip_bill(chip, PZ_BILL_LIKELY);
  const struct pz_tech_info *tech = pz_tech_at(pz_chip_bill_tech(chip));
  bool lowers_clock = chip->cold && !pz_tech_is_library(tech);
  bool has_power_limit = lowers_clock && chip->watts > 0;
  double watts = pz_bill_peak_watts(chip, &bill), at_rest = bill.area_mm2 * tech->static_w_per_mm2;
  double running =
      bill.static_watts + (pz_chip_held_part(chip) - 1) * bill.area_mm2 * tech->clock_w_per_mm2;
  double owner_dollars = bill.dollars + tech->server_dollars + tech->network_dollars +
                         watts * tech->power_overhead * tech->life_years * HOURS_PER_YEAR /
                             WATTS_PER_KILOWATT * tech->energy_dollars_per_kwh;
  double slowest_hz = has_power_limit ? 0 : chip->clock_hz; /* the lowest clock that is possible */
  double voltage2 = tech->reference_hz > 0 ? pz_tech_voltage2(tech, slowest_hz) : 1;
  return (struct pz_taken){.mm2 = bill.area_mm2,
                           .watts = watts,
                           .least_watts = lowers_clock ? at_rest : watts,
                           .dollars = bill.dollars,
                           .static_watts = lowers_clock ? at_rest : running,
                           .edge_mm = bill.edge_mm,
                           .edge_room_mm = bill.edge_room_mm,
                           .owner_dollars = owner_dollars,
                           .voltage2 = voltage2,
                           .several = chip->tensor.cores > 1 && chip->vector.cores > 1};
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Returns the name of the first limit that every chip of a box violates, or NULL.  Costs grow from
 * the smallest chip (`least`) to the largest (`most`). */
const char *pz_limits_broken(const struct pz_limits *limits, const struct pz_taken *least,
                             const struct pz_taken *most) {
  if (limits->mm2 > 0 && least->mm2 > limits->mm2) return "area";
  if (limits->watts > 0 && least->least_watts > limits->watts) return "watts";
  if (limits->dollars > 0 && least->dollars > limits->dollars) return "dollars";
  if (most->mm2 < limits->least_mm2 && least->several) return "least area";
  return least->edge_mm > most->edge_room_mm ? "edge" : NULL;
}

enum { AREA, WATTS, DOLLARS, LEAST_AREA, EDGE };

/* Keeps in *excess the smallest violation of each limit by all chips of a box. */
void pz_excess_add(struct pz_excess *excess, const struct pz_limits *limits,
                   const struct pz_taken *least, const struct pz_taken *most) {
  const struct {
    double cost, limit;
    bool is_violated;
  } checks[PZ_EXCESSES] = {
      [AREA] = {least->mm2, limits->mm2, limits->mm2 > 0 && least->mm2 > limits->mm2},
      [WATTS] = {least->least_watts, limits->watts,
                 limits->watts > 0 && least->least_watts > limits->watts},
      [DOLLARS] = {least->dollars, limits->dollars,
                   limits->dollars > 0 && least->dollars > limits->dollars},
      [LEAST_AREA] = {most->mm2, limits->least_mm2,
                      most->mm2 < limits->least_mm2 && least->several},
      [EDGE] = {least->edge_mm, most->edge_room_mm, least->edge_mm > most->edge_room_mm}};
  for (int i = 0; i < PZ_EXCESSES; i++) {
    double old_distance = fabs(excess->cost[i] - excess->limit[i]);
    double distance = fabs(checks[i].cost - checks[i].limit);
    bool is_first = !(excess->limit[i] > 0);
    bool is_smallest = is_first || !(old_distance <= distance);
    if (!checks[i].is_violated || !is_smallest) continue;
    excess->cost[i] = checks[i].cost;
    excess->limit[i] = checks[i].limit;
  }
}

/* Writes "30 mm2 of at most 20, 45 W of at most 40" into buf, and returns it. */
char *pz_excess_text(const struct pz_excess *excess, char *buf, size_t size) {
  static const char *const words[PZ_EXCESSES] = {
      [AREA] = "mm2 of at most",
      [WATTS] = "W of at most",
      [DOLLARS] = "dollars of at most",
      [LEAST_AREA] = "mm2 of at least",
      [EDGE] = "mm of HBM and links at the edges of the dies, which have"};
  size_t n = 0;
  buf[0] = '\0';
  for (int i = 0; i < PZ_EXCESSES && n < size; i++)
    if (excess->limit[i] > 0)
      n += (size_t)snprintf(buf + n, size - n, "%s%.6g %s %.6g", n ? ", " : "", excess->cost[i],
                            words[i], excess->limit[i]);
  return buf;
}

/* ---- budgets -------------------------------------------------------------------------------- */

/* Sets the limits that are 0 from a budget: an area in mm2, or the costs of a chip. */
void pz_limits_apply_budget(struct pz_call *call, const struct pz_space *space, const char *budget,
                            const char *node, struct pz_limits *limits) {
  if (budget) {
    char *end;
    double mm2 = strtod(budget, &end);
    bool is_number = end != budget && !*end;
    if (is_number && !(mm2 > 0 && mm2 < 1e9))
      pz_raise(call, PZ_BAD_USE, "--budget %s; accepted: a chip, or an area above 0 mm2", budget);
    struct pz_taken costs = {.mm2 = mm2};
    if (!is_number) {
      struct pz_chip chip, *loaded = NULL;
      struct pz_error why = {0};
      enum pz_status status = pz_chip_load(budget, &loaded, &why);
      if (status != PZ_OK) pz_raise(call, status, "--budget: %s", why.message);
      chip = *loaded;
      pz_chip_free(loaded);
      pz_chip_make_cold(call, &chip, NULL);
      const struct pz_tech_info *tech = pz_tech_at(chip.tech);
      bool is_of_space = space->n_nodes == 1 && space->node[0] == chip.tech;
      if (!node && !is_of_space)
        pz_raise(call, PZ_BAD_USE,
                 "--budget %.40s: a chip of %s, and the space %s has chips of %s%s; accepted: a "
                 "chip of the space's technology, mm2, or --node %s where the space has it",
                 budget, tech->name, space->name, pz_tech_at(space->node[0])->name,
                 space->n_nodes > 1 ? " and others" : "", tech->name);
      costs = pz_chip_taken(&chip);
      /* such technologies have no bill of HBM and links */
      if (pz_tech_is_library(tech)) costs.watts = costs.dollars = 0;
    }
    if (!(limits->mm2 > 0)) limits->mm2 = costs.mm2;
    if (!(limits->watts > 0)) limits->watts = costs.watts;
    if (!(limits->dollars > 0)) limits->dollars = costs.dollars;
  }
  bool has_limit = limits->mm2 > 0 || limits->watts > 0 || limits->dollars > 0;
  if (!has_limit && space->has_base)
    limits->mm2 = pz_chip_bill(&space->base, PZ_BILL_LIKELY).area_mm2;
  limits->least_mm2 = space->least_part * limits->mm2;
}
