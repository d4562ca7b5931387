/* The cost of a training run (run_cost.h). */
#include "step/run_cost.h"

#include <math.h>

#include "chip/chip.h"
#include "core/call.h"
#include "core/record.h"
#include "cost/constants.h"

static const double HOUR_S = 3600;
static const double MOST = 1e30; /* of tokens, seconds and prices */

struct pz_run_cost_options pz_run_cost_options_default(void) {
  return (struct pz_run_cost_options){
      .size = sizeof(struct pz_run_cost_options), .checkpoint_s = -1, .restart_s = -1};
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

double pz_checkpoint_interval_s(double checkpoint_s, double mtbf_s) {
  double ratio = checkpoint_s / (2 * mtbf_s);
  if (ratio >= 1) return mtbf_s;
  return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s;
}

double pz_checkpoint_goodput(double interval_s, double checkpoint_s, double restart_s,
                             double mtbf_s) {
  double all = mtbf_s * exp(restart_s / mtbf_s) * expm1((interval_s + checkpoint_s) / mtbf_s);
  return interval_s / all;
}

/* ---- the run -------------------------------------------------------------------------------- */

static void with_failures(struct pz_call *call, const struct pz_training_run *run,
                          const struct pz_run_cost_options *options, struct pz_run_cost *c) {
  const struct pz_constants *k = &pz_constants_default;
  double devices = (double)run->plan.devices;
  c->job_mtbf_s = options->mtbf_s / devices;
  c->checkpoint_s = options->checkpoint_s >= 0 ? options->checkpoint_s
                                               : run->p.params * k->checkpoint_bytes /
                                                     (devices * k->checkpoint_bytes_per_s);
  c->restart_s = options->restart_s >= 0 ? options->restart_s : k->restart_s;
  /* a checkpoint that takes no time is written after every step */
  c->interval_s = fmax(pz_checkpoint_interval_s(c->checkpoint_s, c->job_mtbf_s), run->p.step_s);
  c->goodput = pz_checkpoint_goodput(c->interval_s, c->checkpoint_s, c->restart_s, c->job_mtbf_s);
  if (!(c->goodput > 1e-9))
    pz_raise(call, PZ_NO_ANSWER,
             "the job fails every %.3g s, a checkpoint takes %.3g s and a restart %.3g s: the "
             "run does not come to an end",
             c->job_mtbf_s, c->checkpoint_s, c->restart_s);
  c->all_seconds = c->seconds / c->goodput;
  c->all_device_hours = c->all_seconds * devices / HOUR_S;
  c->all_dollars = c->all_device_hours * options->price;
  c->all_energy_j = c->energy_j / c->goodput;
}

struct cost_args {
  const struct pz_training_run *run;
  const struct pz_chip *chip;
  const struct pz_run_cost_options *options;
  struct pz_run_cost *out;
};

static void find_cost(struct pz_call *call, void *ctx) {
  const struct cost_args *args = ctx;
  const struct pz_training_run *run = args->run;
  struct pz_run_cost_options o = pz_run_cost_options_default();
  struct pz_run_cost cost = {0};
  pz_require_options(call, &o, sizeof o, args->options, "pz_run_cost_options_default");
  pz_require(call, run, "run");
  pz_require(call, args->out, "out");
  pz_chip_check(call, args->chip);
  /* Check. */
  const struct {
    const char *name;
    double v, min;
  } list[] = {{"tokens", o.tokens, 1},
              {"price", o.price, 0},
              {"mtbf_s", o.mtbf_s, 0},
              {"checkpoint_s", o.checkpoint_s, -1},
              {"restart_s", o.restart_s, -1}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!(list[i].v >= list[i].min && list[i].v <= MOST))
      pz_raise(call, PZ_BAD_USE, "%s %g; accepted: %g to %g", list[i].name, list[i].v, list[i].min,
               MOST);
  double devices = (double)run->plan.devices;
  cost.steps = ceil(o.tokens / run->p.tokens);
  cost.seconds = cost.steps * run->p.step_s;
  cost.device_hours = cost.seconds * devices / HOUR_S;
  cost.dollars = cost.device_hours * o.price;
  cost.energy_j = cost.seconds * devices * (run->watts > 0 ? run->watts : args->chip->watts);
  if (o.mtbf_s > 0) with_failures(call, run, &o, &cost);
  *args->out = cost;
}

enum pz_status pz_run_cost(const struct pz_training_run *run, const struct pz_chip *chip,
                           const struct pz_run_cost_options *options, struct pz_run_cost *out,
                           struct pz_error *err) {
  struct cost_args args = {run, chip, options, out};
  return pz_border(find_cost, &args, err);
}
