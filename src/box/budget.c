#include "box/budget.h"

#include "box/chip_comparison.h"

enum pz_status pz_budget_limits(const char *chip, const struct pz_range_space *s, const char *node,
                                struct pz_limits *limits, struct pz_error *err) {
  const struct pz_comparison_question q = {.models = {.devices = 1, .scale_up = 1}};
  struct pz_compared_chip x;
  enum pz_status status = pz_compared_chip_load(chip, &q, &x, err);
  if (status != PZ_OK) return status;
  const char *own = pz_tech_at(x.chip.tech)->name;
  bool same = s->n_nodes == 1 && s->node[0] == x.chip.tech;
  if (!same && !node)
    return pz_fail(
        err, PZ_BAD_USE,
        "--budget %.40s: a chip of %s, and the space %s has chips of other technologies; "
        "accepted: --node %s, or another --node that is meant",
        chip, own, s->name, own);
  if (!(limits->mm2 > 0)) limits->mm2 = x.taken.mm2;
  if (!(limits->watts > 0)) limits->watts = x.taken.watts;
  if (!(limits->dollars > 0)) limits->dollars = x.taken.dollars;
  return PZ_OK;
}
