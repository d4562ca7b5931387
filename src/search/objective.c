#include "search/objective.h"

#include <math.h>

static double rate(const struct pz_objective *o, const struct pz_step_cost *s, uint32_t m) {
  return s[m].step_s < HUGE_VAL ? o->batch[m] / s[m].step_s : 0;
}

double pz_objective_joules(const struct pz_objective *o, const struct pz_step_cost *step,
                           const struct pz_taken *t) {
  return o->devices * t->static_watts * step->step_s + step->dynamic_j;
}

/* Geometric mean of the throughputs over the reference's. */
static double geomean(const struct pz_objective *o, const struct pz_step_cost *s, bool weighted) {
  double sum = 0, weights = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    double w = weighted ? o->weight[m] : 1;
    if (!(s[m].step_s < HUGE_VAL)) return 0;
    sum += w * log(o->reference[m].step_s / s[m].step_s);
    weights += w;
  }
  return exp(sum / weights);
}

static double mean(const struct pz_objective *o, const struct pz_step_cost *s) {
  double sum = 0;
  for (uint32_t i = 0; i < o->n; i++) sum += rate(o, s, o->models[i]);
  return sum / o->n;
}

/* A single model regrets nothing on its own best chip: then its throughput decides. */
static double regret(const struct pz_objective *o, const struct pz_step_cost *s) {
  double least = HUGE_VAL;
  if (o->n == 1) return geomean(o, s, false);
  for (uint32_t i = 0; i < o->n; i++) {
    double part = rate(o, s, o->models[i]) / o->best_alone[o->models[i]];
    least = part < least ? part : least;
  }
  return least;
}

static double per_joule(const struct pz_objective *o, const struct pz_step_cost *s,
                        const struct pz_taken *t) {
  double sum = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    if (!(s[m].step_s < HUGE_VAL)) return 0;
    sum += log(pz_objective_joules(o, &o->reference[m], &o->reference_taken) /
               pz_objective_joules(o, &s[m], t));
  }
  return exp(sum / o->n);
}

static const struct {
  const char *unit;
  bool bill;
} table[] = {
    [PZ_OBJECTIVE_GEOMEAN] = {"times the reference (geometric mean)", false},
    [PZ_OBJECTIVE_MEAN] = {"samples/s on average", false},
    [PZ_OBJECTIVE_WEIGHTED] = {"times the reference (weighted geometric mean)", false},
    [PZ_OBJECTIVE_REGRET] = {"times the throughput on each model's own best chip, at least", false},
    [PZ_OBJECTIVE_PER_WATT] = {"times the reference's throughput per peak watt", false},
    [PZ_OBJECTIVE_PER_MM2] = {"times the reference's throughput per mm2", false},
    [PZ_OBJECTIVE_PER_DOLLAR] = {"times the reference's throughput per dollar of the chip", true},
    [PZ_OBJECTIVE_PER_OWNERSHIP] = {"times the reference's throughput per dollar of ownership",
                                    true},
    [PZ_OBJECTIVE_PER_JOULE] = {"times the reference's throughput per joule of the step", true},
};

const char *const pz_objective_names[] = {"throughput", "mean",    "weighted",   "regret",
                                          "per-watt",   "per-mm2", "per-dollar", "per-ownership",
                                          "per-joule",  NULL};

/* What the throughput is divided by. */
static double price(enum pz_objective_kind kind, const struct pz_taken *t) {
  switch (kind) {
  case PZ_OBJECTIVE_PER_WATT: return t->watts;
  case PZ_OBJECTIVE_PER_MM2: return t->mm2;
  case PZ_OBJECTIVE_PER_DOLLAR: return t->dollars;
  case PZ_OBJECTIVE_PER_OWNERSHIP: return t->owner_dollars;
  default: return 1;
  }
}

double pz_objective_value(const struct pz_objective *o, const struct pz_step_cost *steps,
                          const struct pz_taken *t) {
  switch (o->kind) {
  case PZ_OBJECTIVE_MEAN: return mean(o, steps);
  case PZ_OBJECTIVE_REGRET: return regret(o, steps);
  case PZ_OBJECTIVE_PER_JOULE: return per_joule(o, steps, t);
  default:
    return geomean(o, steps, o->kind == PZ_OBJECTIVE_WEIGHTED) /
           (price(o->kind, t) / price(o->kind, &o->reference_taken));
  }
}

double pz_objective_limit_s(const struct pz_objective *o, const struct pz_step_cost *steps,
                            const struct pz_taken *t, uint32_t model, double least) {
  static const double HAIR = 1e-9;
  struct pz_step_cost s[PZ_SEARCH_MOST_MODELS];
  if (!(least > 0)) return HUGE_VAL;
  for (uint32_t i = 0; i < o->n; i++) s[o->models[i]] = steps[o->models[i]];
  double low = steps[model].step_s, high = low; /* low reaches it, high does not */
  if (!(pz_objective_value(o, s, t) >= least)) return 0;
  for (int i = 0; i < 1100; i++) {
    s[model].step_s = high *= 2;
    if (!(high < HUGE_VAL)) return HUGE_VAL;
    if (!(pz_objective_value(o, s, t) >= least)) break;
    low = high;
  }
  while (high - low > HAIR * low) {
    s[model].step_s = low + (high - low) / 2;
    if (pz_objective_value(o, s, t) >= least)
      low = s[model].step_s;
    else
      high = s[model].step_s;
  }
  return high * (1 + HAIR);
}

const char *pz_objective_unit(enum pz_objective_kind kind) {
  return (size_t)kind < sizeof table / sizeof *table ? table[kind].unit : "unknown";
}

bool pz_objective_needs_energy(const struct pz_objective *o) {
  return o->kind == PZ_OBJECTIVE_PER_JOULE;
}

bool pz_objective_needs_bill(enum pz_objective_kind kind) { return table[kind].bill; }
