#include "space/limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/num.h"

static double owner_dollars(const struct pz_tech_info *t, double chip_dollars, double watts) {
  static const double HOURS = 365.25 * 24;
  return chip_dollars + t->server_dollars + t->network_dollars +
         watts * t->power_overhead * t->life_years * HOURS / 1e3 * t->energy_dollars_per_kwh;
}

struct pz_taken pz_chip_taken(const struct pz_chip *c) {
  struct pz_bill b = pz_chip_bill(c, PZ_BILL_LIKELY);
  const struct pz_tech_info *t = pz_tech_at(pz_chip_bill_tech(c));
  bool lowers = c->cold && !pz_tech_is_library(t), limited = lowers && c->watts > 0;
  double watts = pz_bill_peak_watts(c, &b), at_rest = b.area_mm2 * t->static_w_per_mm2;
  double running = b.static_watts + (pz_chip_held_part(c) - 1) * b.area_mm2 * t->clock_w_per_mm2;
  return (struct pz_taken){
      .mm2 = b.area_mm2,
      .watts = watts,
      .least_watts = lowers ? at_rest : watts,
      .dollars = b.dollars,
      .static_watts = lowers ? at_rest : running,
      .edge_mm = b.edge_mm,
      .edge_room_mm = b.edge_room_mm,
      .owner_dollars = owner_dollars(t, b.dollars, watts),
      .voltage2 = t->reference_hz > 0 ? pz_tech_voltage2(t, limited ? 0 : c->clock_hz) : 1,
      .several = c->tensor.cores > 1 && c->vector.cores > 1};
}

const char *pz_limits_broken(const struct pz_limits *l, const struct pz_taken *least,
                             const struct pz_taken *most) {
  if (l->mm2 > 0 && least->mm2 > l->mm2) return "area";
  if (l->watts > 0 && least->least_watts > l->watts) return "watts";
  if (l->dollars > 0 && least->dollars > l->dollars) return "dollars";
  if (most->mm2 < l->least_mm2 && least->several) return "least area";
  return least->edge_mm > most->edge_room_mm ? "edge" : NULL;
}

/* ---- what breaks them ----------------------------------------------------------------------- */

enum { AREA, WATTS, DOLLARS, LEAST_AREA, EDGE };

void pz_excess_add(struct pz_excess *x, const struct pz_limits *l, const struct pz_taken *least,
                   const struct pz_taken *most) {
  double taken[PZ_EXCESSES] = {[AREA] = least->mm2,
                               [WATTS] = least->least_watts,
                               [DOLLARS] = least->dollars,
                               [LEAST_AREA] = most->mm2,
                               [EDGE] = least->edge_mm};
  double limit[PZ_EXCESSES] = {[AREA] = l->mm2,
                               [WATTS] = l->watts,
                               [DOLLARS] = l->dollars,
                               [LEAST_AREA] = l->least_mm2,
                               [EDGE] = most->edge_room_mm};
  for (int i = 0; i < PZ_EXCESSES; i++) {
    bool low = i == LEAST_AREA;
    bool broken = low         ? taken[i] < limit[i] && least->several
                  : i == EDGE ? taken[i] > limit[i]
                              : limit[i] > 0 && taken[i] > limit[i];
    double over = low ? limit[i] - taken[i] : taken[i] - limit[i];
    if (!broken || (x->limit[i] > 0 && fabs(x->taken[i] - x->limit[i]) <= over)) continue;
    x->taken[i] = taken[i];
    x->limit[i] = limit[i];
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

static enum pz_status take_chip(const struct pz_space *s, const char *budget, const char *node,
                                struct pz_limits *limits, struct pz_error *err) {
  struct pz_chip c;
  struct pz_error why = {0};
  enum pz_status status = pz_chip_read(budget, &c, &why);
  if (status != PZ_OK) return pz_fail(err, status, "--budget: %s", why.message);
  status = pz_chip_make_cold(&c, NULL, err);
  if (status != PZ_OK) return status;
  const char *own = pz_tech_at(c.tech)->name;
  if (!node && !(s->n_nodes == 1 && s->node[0] == c.tech))
    return pz_fail(err, PZ_BAD_USE,
                   "--budget %.40s: a chip of %s, and the space %s has chips of %s%s; accepted: a "
                   "chip of the space's technology, mm2, or --node %s where the space has it",
                   budget, own, s->name, pz_tech_at(s->node[0])->name,
                   s->n_nodes > 1 ? " and others" : "", own);
  struct pz_taken t = pz_chip_taken(&c);
  bool library = pz_tech_is_library(pz_tech_at(c.tech)); /* has no bill of HBM and links */
  if (!(limits->mm2 > 0)) limits->mm2 = t.mm2;
  if (!(limits->watts > 0) && !library) limits->watts = t.watts;
  if (!(limits->dollars > 0) && !library) limits->dollars = t.dollars;
  return PZ_OK;
}

static enum pz_status take_budget(const struct pz_space *s, const char *budget, const char *node,
                                  struct pz_limits *limits, struct pz_error *err) {
  char *end;
  double mm2 = strtod(budget, &end);
  if (end == budget || *end) return take_chip(s, budget, node, limits, err);
  if (!(mm2 > 0 && mm2 < 1e9))
    return pz_fail(err, PZ_BAD_USE, "--budget %s; accepted: a chip, or an area above 0 mm2",
                   budget);
  if (!(limits->mm2 > 0)) limits->mm2 = mm2;
  return PZ_OK;
}

enum pz_status pz_limits_complete(const struct pz_space *s, const char *budget, const char *node,
                                  struct pz_limits *limits, struct pz_error *err) {
  enum pz_status status = budget ? take_budget(s, budget, node, limits, err) : PZ_OK;
  bool limited = limits->mm2 > 0 || limits->watts > 0 || limits->dollars > 0;
  if (!limited && s->has_base) limits->mm2 = pz_chip_bill(&s->base, PZ_BILL_LIKELY).area_mm2;
  limits->least_mm2 = s->least_part * limits->mm2;
  return status;
}
