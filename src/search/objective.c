#include "search/objective.h"

#include <math.h>

static double geomean(const struct pz_objective *o, const double *v, const double *weight) {
  double sum = 0, weights = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    double w = weight ? weight[m] : 1;
    if (!(v[m] > 0)) return 0;
    sum += w * log(v[m] / o->reference[m]);
    weights += w;
  }
  return exp(sum / weights);
}

static double plain(const struct pz_objective *o, const double *v, double area, double watts) {
  (void)area;
  (void)watts;
  return geomean(o, v, NULL);
}

static double mean(const struct pz_objective *o, const double *v, double area, double watts) {
  double sum = 0;
  (void)area;
  (void)watts;
  for (uint32_t i = 0; i < o->n; i++) sum += v[o->models[i]];
  return sum / o->n;
}

static double weighted(const struct pz_objective *o, const double *v, double area, double watts) {
  (void)area;
  (void)watts;
  return geomean(o, v, o->weight);
}

/* A single model regrets nothing on its own best chip: then its throughput decides. */
static double regret(const struct pz_objective *o, const double *v, double area, double watts) {
  double least = HUGE_VAL;
  if (o->n == 1) return plain(o, v, area, watts);
  for (uint32_t i = 0; i < o->n; i++) {
    double part = v[o->models[i]] / o->best_alone[o->models[i]];
    least = part < least ? part : least;
  }
  return least;
}

static double per_watt(const struct pz_objective *o, const double *v, double area, double watts) {
  (void)area;
  return geomean(o, v, NULL) / (watts / o->reference_watts);
}

static double per_mm2(const struct pz_objective *o, const double *v, double area, double watts) {
  (void)watts;
  return geomean(o, v, NULL) / (area / o->reference_um2);
}

static const struct {
  double (*value)(const struct pz_objective *o, const double *v, double area, double watts);
  const char *unit;
} table[] = {
    [PZ_OBJECTIVE_GEOMEAN] = {plain, "times the reference (geometric mean)"},
    [PZ_OBJECTIVE_MEAN] = {mean, "samples/s on average"},
    [PZ_OBJECTIVE_WEIGHTED] = {weighted, "times the reference (weighted geometric mean)"},
    [PZ_OBJECTIVE_REGRET] = {regret,
                             "times the throughput on each model's own best chip, at least"},
    [PZ_OBJECTIVE_PER_WATT] = {per_watt, "times the reference's throughput per peak watt"},
    [PZ_OBJECTIVE_PER_MM2] = {per_mm2, "times the reference's throughput per mm2"},
};

const char *const pz_objective_names[] = {"throughput", "mean",    "weighted", "regret",
                                          "per-watt",   "per-mm2", NULL};

double pz_objective_value(const struct pz_objective *o, const double *samples_per_s,
                          double area_um2, double watts) {
  return table[o->kind].value(o, samples_per_s, area_um2, watts);
}

const char *pz_objective_unit(enum pz_objective_kind kind) {
  return (size_t)kind < sizeof table / sizeof *table ? table[kind].unit : "unknown";
}
