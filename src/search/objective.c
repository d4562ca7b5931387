/* Objectives.  pz_objective_value() dispatches by the kind: means of throughputs (geometric_mean),
 * the least fraction of the throughputs on the models' own best chips, throughput per joule, or
 * throughput divided by a cost of the chip (cost_divisor).  pz_objective_limit_s() inverts it in
 * one step by bisection, so that an evaluation can stop early. */
#include "search/objective.h"

#include <math.h>

/* Returns the samples per second of a portfolio entry, or 0 if no plan fits. */
static double throughput(const struct pz_objective *objective, const struct pz_step_cost *steps,
                         uint32_t entry) {
  return steps[entry].step_s < HUGE_VAL ? objective->batch[entry] / steps[entry].step_s : 0;
}

/* Returns the energy of a step on all devices, joules: static power over the step, and the rest. */
static double joules(const struct pz_objective *objective, const struct pz_step_cost *step,
                     const struct pz_taken *costs) {
  return objective->devices * costs->static_watts * step->step_s + step->dynamic_j;
}

/* Returns the geometric mean of the models' throughputs relative to the reference chip, or 0 if a
 * model does not fit.  Without `weighted` all models have the same weight. */
static double geometric_mean(const struct pz_objective *objective, const struct pz_step_cost *steps,
                             bool weighted) {
  double sum = 0, weights = 0;
  for (uint32_t i = 0; i < objective->n; i++) {
    uint32_t entry = objective->models[i];
    double weight = weighted ? objective->weight[entry] : 1;
    if (!(steps[entry].step_s < HUGE_VAL)) return 0;
    sum += weight * log(objective->reference[entry].step_s / steps[entry].step_s);
    weights += weight;
  }
  return exp(sum / weights);
}

/* Returns the geometric mean of the samples per joule relative to the reference chip. */
static double throughput_per_joule(const struct pz_objective *objective,
                                   const struct pz_step_cost *steps, const struct pz_taken *costs) {
  double sum = 0;
  for (uint32_t i = 0; i < objective->n; i++) {
    uint32_t entry = objective->models[i];
    if (!(steps[entry].step_s < HUGE_VAL)) return 0;
    sum += log(joules(objective, &objective->reference[entry], &objective->reference_taken) /
               joules(objective, &steps[entry], costs));
  }
  return exp(sum / objective->n);
}

/* The unit of the value of each objective, and pz_objective_needs_bill(). */
static const struct {
  const char *unit;
  bool needs_bill;
} objectives[] = {
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

/* Returns the cost of a chip by which the objective divides the throughput, or 1 if by none. */
static double cost_divisor(enum pz_objective_kind kind, const struct pz_taken *costs) {
  switch (kind) {
  case PZ_OBJECTIVE_PER_WATT: return costs->watts;
  case PZ_OBJECTIVE_PER_MM2: return costs->mm2;
  case PZ_OBJECTIVE_PER_DOLLAR: return costs->dollars;
  case PZ_OBJECTIVE_PER_OWNERSHIP: return costs->owner_dollars;
  default: return 1;
  }
}

/* Returns the value of a chip by the objective; more is better.  The default case is the geometric
 * mean of throughputs over a cost of the chip, both relative to the reference chip. */
double pz_objective_value(const struct pz_objective *objective, const struct pz_step_cost *steps,
                          const struct pz_taken *costs) {
  enum pz_objective_kind kind = objective->kind;
  double sum = 0, least = HUGE_VAL;
  switch (kind) {
  case PZ_OBJECTIVE_MEAN:
    for (uint32_t i = 0; i < objective->n; i++)
      sum += throughput(objective, steps, objective->models[i]);
    return sum / objective->n;
  case PZ_OBJECTIVE_REGRET:
    /* The best chip for a single model alone is the one that the search looks for, so that its
     * throughput is related to that on the reference chip. */
    if (objective->n == 1) return geometric_mean(objective, steps, false);
    for (uint32_t i = 0; i < objective->n; i++) {
      uint32_t entry = objective->models[i];
      double fraction = throughput(objective, steps, entry) / objective->best_alone[entry];
      least = fraction < least ? fraction : least;
    }
    return least;
  case PZ_OBJECTIVE_PER_JOULE: return throughput_per_joule(objective, steps, costs);
  default:
    return geometric_mean(objective, steps, kind == PZ_OBJECTIVE_WEIGHTED) /
           (cost_divisor(kind, costs) / cost_divisor(kind, &objective->reference_taken));
  }
}

/* Returns the longest step of an entry, in seconds, with which the value still reaches `least`:
 * doubles the step until it does not, then bisects. */
double pz_objective_limit_s(const struct pz_objective *objective, const struct pz_step_cost *steps,
                            const struct pz_taken *costs, uint32_t entry, double least) {
  static const double TOLERANCE = 1e-9;
  struct pz_step_cost trial[PZ_SEARCH_MOST_MODELS];
  if (!(least > 0)) return HUGE_VAL;
  for (uint32_t i = 0; i < objective->n; i++)
    trial[objective->models[i]] = steps[objective->models[i]];
  double reaching_s = steps[entry].step_s, failing_s = reaching_s;
  if (!(pz_objective_value(objective, trial, costs) >= least)) return 0;
  for (int i = 0; i < 1100; i++) { /* more doublings than doubles have */
    failing_s *= 2;
    trial[entry].step_s = failing_s;
    if (!(failing_s < HUGE_VAL)) return HUGE_VAL; /* every step reaches it */
    if (!(pz_objective_value(objective, trial, costs) >= least)) break;
    reaching_s = failing_s;
  }
  while (failing_s - reaching_s > TOLERANCE * reaching_s) {
    trial[entry].step_s = reaching_s + (failing_s - reaching_s) / 2;
    if (pz_objective_value(objective, trial, costs) >= least)
      reaching_s = trial[entry].step_s;
    else
      failing_s = trial[entry].step_s;
  }
  return failing_s * (1 + TOLERANCE);
}

const char *pz_objective_unit(enum pz_objective_kind kind) {
  return (size_t)kind < sizeof objectives / sizeof *objectives ? objectives[kind].unit : "unknown";
}

bool pz_objective_needs_bill(enum pz_objective_kind kind) { return objectives[kind].needs_bill; }
