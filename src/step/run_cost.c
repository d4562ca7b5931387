/* The cost of a training run (run_cost.h): its steps, and time lost by checkpoints and failures. */
#include "step/run_cost.h"

#include <math.h>

#include "chip/chip.h"
#include "core/call.h"
#include "core/record.h"
#include "cost/constants.h"

static const double HOUR_S = 3600;
static const double MOST_INPUT = 1e30; /* the most tokens, seconds or dollars accepted */

struct pz_run_cost_options pz_run_cost_options_default(void) {
  return (struct pz_run_cost_options){
      .size = sizeof(struct pz_run_cost_options), .checkpoint_s = -1, .restart_s = -1};
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* Returns Young's optimal seconds of work between checkpoints, with Daly's higher-order terms. */
double pz_checkpoint_interval_s(double checkpoint_s, double mtbf_s) {
  double ratio = checkpoint_s / (2 * mtbf_s);
  if (ratio >= 1) return mtbf_s;
  return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s;
}

/* Returns the useful part of the run time: the interval over its expected time (Daly). */
double pz_checkpoint_goodput(double interval_s, double checkpoint_s, double restart_s,
                             double mtbf_s) {
  double expected_s =
      mtbf_s * exp(restart_s / mtbf_s) * expm1((interval_s + checkpoint_s) / mtbf_s);
  return interval_s / expected_s;
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Adds checkpoints and the goodput of a run whose devices fail every options->mtbf_s seconds. */
static void add_failures(struct pz_call *call, const struct pz_training_run *run,
                         const struct pz_run_cost_options *options, struct pz_run_cost *cost) {
  const struct pz_constants *constants = &pz_constants_default;
  double devices = (double)run->plan.devices;
  cost->job_mtbf_s = options->mtbf_s / devices;
  cost->checkpoint_s = options->checkpoint_s >= 0
                           ? options->checkpoint_s
                           : run->p.params * constants->checkpoint_bytes /
                                 (devices * constants->checkpoint_bytes_per_s);
  cost->restart_s = options->restart_s >= 0 ? options->restart_s : constants->restart_s;
  /* a checkpoint that takes no time is written after every step */
  cost->interval_s =
      fmax(pz_checkpoint_interval_s(cost->checkpoint_s, cost->job_mtbf_s), run->p.step_s);
  cost->goodput = pz_checkpoint_goodput(cost->interval_s, cost->checkpoint_s, cost->restart_s,
                                        cost->job_mtbf_s);
  if (!(cost->goodput > 1e-9))
    pz_raise(call, PZ_NO_ANSWER,
             "the job fails every %.3g s, a checkpoint takes %.3g s and a restart %.3g s: the "
             "run does not come to an end",
             cost->job_mtbf_s, cost->checkpoint_s, cost->restart_s);
  cost->all_seconds = cost->seconds / cost->goodput;
  cost->all_device_hours = cost->all_seconds * devices / HOUR_S;
  cost->all_dollars = cost->all_device_hours * options->price;
  cost->all_energy_j = cost->energy_j / cost->goodput;
}

struct cost_args {
  const struct pz_training_run *run;
  const struct pz_chip *chip;
  const struct pz_run_cost_options *options;
  struct pz_run_cost *out;
};

/* Checks the arguments of pz_run_cost() and computes its result. */
static void find_cost(struct pz_call *call, void *ctx) {
  const struct cost_args *args = ctx;
  const struct pz_training_run *run = args->run;
  struct pz_run_cost_options options = pz_run_cost_options_default();
  struct pz_run_cost cost = {0};
  pz_require_options(call, &options, sizeof options, args->options, "pz_run_cost_options_default");
  pz_require(call, run, "run");
  pz_require(call, args->out, "out");
  pz_chip_check(call, args->chip);
  const struct {
    const char *name;
    double value, least;
  } limits[] = {{"tokens", options.tokens, 1},
                {"price", options.price, 0},
                {"mtbf_s", options.mtbf_s, 0},
                {"checkpoint_s", options.checkpoint_s, -1},
                {"restart_s", options.restart_s, -1}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (!(limits[i].value >= limits[i].least && limits[i].value <= MOST_INPUT))
      pz_raise(call, PZ_BAD_USE, "%s %g; accepted: %g to %g", limits[i].name, limits[i].value,
               limits[i].least, MOST_INPUT);
  double devices = (double)run->plan.devices;
  cost.steps = ceil(options.tokens / run->p.tokens);
  cost.seconds = cost.steps * run->p.step_s;
  cost.device_hours = cost.seconds * devices / HOUR_S;
  cost.dollars = cost.device_hours * options.price;
  cost.energy_j = cost.seconds * devices * (run->watts > 0 ? run->watts : args->chip->watts);
  if (options.mtbf_s > 0) add_failures(call, run, &options, &cost);
  *args->out = cost;
}

enum pz_status pz_run_cost(const struct pz_training_run *run, const struct pz_chip *chip,
                           const struct pz_run_cost_options *options, struct pz_run_cost *out,
                           struct pz_error *err) {
  struct cost_args args = {run, chip, options, out};
  return pz_border(find_cost, &args, err);
}
