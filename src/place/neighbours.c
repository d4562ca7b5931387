/* Visits the neighbours of a plan (neighbours.h), and finds changes with which a plan fits in
 * memory (pz_training_changes).
 *
 * pz_neighbours_visit() changes one field after another: degrees (change_degree), recomputation,
 * offload, ZeRO stage, overlaps, sequence parallelism and attention.  try_neighbour() sets the
 * fields that follow from the change, asks the rules of the framework, and prices the plan.  For
 * recomputed and offloaded layers, the fewest that fit are found by bisection. */
#include "place/neighbours.h"

#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "plan/plan_text.h"
#include "step/step_model.h"
#include "workload/workload.h"

enum { MAX_MBS = 64 };

/* Returns the neighbourhood of a plan: the plan, the fields that may be changed one at a time, and
 * the properties of its model that limit changes.  By default every field may change except
 * offload, which saves memory but never makes a step faster; a caller who needs memory adds it. */
struct pz_neighbourhood pz_neighbourhood_make(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_plan *plan) {
  struct pz_step_model *model = pz_step_model_new(call, job, plan);
  struct pz_neighbourhood neighbourhood = {
      .job = job,
      .plan = plan,
      .layers = model->n_blocks,
      .devices_per_node =
          model->cost.net.n_levels ? pz_cluster_node(&model->cost.net) : plan->devices,
      .overlap = plan->overlap,
      .changeable_fields = ~PZ_PLAN_PIN(OFFLOAD)};
  neighbourhood.model =
      pz_model_shape_or_other(call, job->model, job->config, model->workload, model->n_blocks);
  /* an unknown number of heads admits only tp 1 */
  if (!neighbourhood.model.heads) neighbourhood.model.heads = neighbourhood.model.kv_heads = 1;
  pz_close(call, model);
  return neighbourhood;
}

/* ---- one neighbour -------------------------------------------------------------------------- */

/* A visit of the neighbours of a plan. */
struct neighbour_walk {
  const struct pz_neighbourhood *neighbourhood;
  pz_neighbour_fn *fn;
  void *ctx;
  bool only_memory; /* only computes memory, sets `fits`, and does not call fn */
  bool accepted;    /* whether fn returned true for the last plan */
  bool fits;        /* whether the last plan fits in the memory of the device */
};

/* A neighbour that is being priced. */
struct neighbour {
  struct neighbour_walk *walk;
  struct pz_plan plan;
  enum pz_plan_field field;
  bool can_run;
  struct pz_prediction prediction;
};

/* Completes a neighbour and predicts its memory, and its step if it fits, if its framework can run
 * it.  An error means that the change gives no valid plan. */
static void price_neighbour(struct pz_call *call, void *ctx) {
  struct neighbour *neighbour = ctx;
  struct neighbour_walk *walk = neighbour->walk;
  const struct pz_neighbourhood *neighbourhood = walk->neighbourhood;
  struct pz_plan *plan = &neighbour->plan;
  pz_fill_plan(call, plan, neighbourhood->job->chip);
  if (neighbour->field != PZ_PLAN_OVERLAP)
    plan->overlap = pz_framework_overlap(plan, &neighbourhood->model);
  if (!pz_framework_can_run(plan, &neighbourhood->model, NULL)) return;
  pz_require_plan(call, plan);
  struct pz_step_model *model = pz_step_model_new(call, neighbourhood->job, plan);
  pz_step_check(call, model, plan);
  for (int64_t k = 0; k < plan->pp; k++) {
    neighbour->prediction.needed_bytes =
        pz_fmax(neighbour->prediction.needed_bytes, pz_step_needed_bytes(model, plan, k));
    neighbour->prediction.host_bytes =
        pz_fmax(neighbour->prediction.host_bytes, pz_step_host_bytes(model, plan, k));
  }
  neighbour->prediction.usable_host_bytes =
      pz_usable_host_bytes(&model->cost.chip, model->constants);
  walk->fits = neighbour->prediction.needed_bytes <= neighbourhood->limit_bytes;
  if (!walk->only_memory && pz_neighbour_fits(neighbourhood, &neighbour->prediction))
    neighbour->prediction = pz_step_price(call, model, plan, NULL);
  neighbour->can_run = true;
}

/* Tries a plan in which `field` was changed: sets the fields that follow from it, such as replicas
 * and pipeline order, predicts the plan, and calls fn if the framework can run it. */
static void try_neighbour(struct pz_call *call, struct neighbour_walk *walk, struct pz_plan plan,
                          enum pz_plan_field field) {
  const struct pz_plan *base = walk->neighbourhood->plan;
  int64_t replica_devices = plan.tp * plan.cp * plan.pp;
  walk->accepted = walk->fits = false;
  if (plan.devices % replica_devices) return; /* the devices are no whole number of replicas */
  plan.dp = plan.devices / replica_devices;
  bool same_replicas = plan.dp * plan.cp == base->dp * base->cp;
  bool keeps_shard = pz_plan_is_hybrid_sharded(base) && same_replicas && field != PZ_PLAN_ZERO;
  plan.shard = keeps_shard ? base->shard : 0;
  if (plan.tp == 1) plan.sp = 0;
  if (walk->neighbourhood->etp_is_tp) plan.etp = plan.tp;
  if (plan.pp != base->pp || plan.vpp != base->vpp) { /* the pipeline is another one */
    plan.first_layers = plan.last_layers = 0;
    if (plan.pipeline == PZ_PIPELINE_INTERLEAVED || plan.vpp > 1) plan.pipeline = PZ_AS_FRAMEWORK;
  }
  if (field != PZ_PLAN_OVERLAP) plan.overlap = walk->neighbourhood->overlap;
  struct neighbour neighbour = {.walk = walk, .plan = plan, .field = field};
  struct pz_error err = {0};
  enum pz_status status = pz_border(price_neighbour, &neighbour, &err);
  pz_raise_if_memory(call, &err);
  bool is_priced = status == PZ_OK && neighbour.can_run && isfinite(neighbour.prediction.step_s) &&
                   isfinite(neighbour.prediction.peak_bytes);
  if (is_priced && !walk->only_memory)
    walk->accepted = walk->fn(call, walk->ctx, &neighbour.plan, &neighbour.prediction, field);
}

/* ---- degrees -------------------------------------------------------------------------------- */

/* Returns whether a neighbour may have this value of a degree (tp, cp, pp, vpp, ep or mbs), which
 * must divide the heads, the sequence, the layers, the experts or the batch.  cp gives each device
 * two parts of a sample to balance causal attention; ep is only doubled or halved. */
static bool can_have_degree(const struct pz_neighbourhood *neighbourhood, enum pz_plan_field field,
                            int64_t degree) {
  const struct pz_plan *base = neighbourhood->plan;
  const struct pz_model_shape *model = &neighbourhood->model;
  bool is_power_of_2 = (degree & (degree - 1)) == 0;
  switch (field) {
  case PZ_PLAN_TP: return pz_heads_divide(model->heads, model->kv_heads, degree);
  case PZ_PLAN_CP: return degree == 1 || (is_power_of_2 && base->seq % (2 * degree) == 0);
  case PZ_PLAN_PP: return neighbourhood->layers % (degree > 1 ? degree * base->vpp : 1) == 0;
  case PZ_PLAN_VPP: return base->pp > 1 && neighbourhood->layers % (base->pp * degree) == 0;
  case PZ_PLAN_EP:
    return (degree == base->ep / 2 || degree == 2 * base->ep) && model->experts &&
           model->experts % degree == 0;
  default: return base->batch / base->dp % degree == 0;
  }
}

/* Tries all other values of a degree (tp, cp, pp, vpp, ep or mbs). */
static void change_degree(struct pz_call *call, struct neighbour_walk *walk,
                          enum pz_plan_field field) {
  const struct pz_plan *base = walk->neighbourhood->plan;
  int64_t most = walk->neighbourhood->layers; /* of pp and vpp */
  if (field == PZ_PLAN_TP) most = pz_min(walk->neighbourhood->devices_per_node, base->devices);
  if (field == PZ_PLAN_CP) most = base->devices;
  if (field == PZ_PLAN_EP) most = 2 * base->ep;
  if (field == PZ_PLAN_MBS) most = MAX_MBS;
  for (int64_t value = 1; value <= most; value += field == PZ_PLAN_CP ? value : 1) {
    struct pz_plan plan = *base;
    int64_t *degree = (int64_t *)(void *)((char *)&plan + pz_plan_field(field)->offset);
    if (*degree == value || !can_have_degree(walk->neighbourhood, field, value)) continue;
    *degree = value;
    if (field == PZ_PLAN_TP && base->tp == 1) plan.sp = 1;
    if (plan.pp == 1) plan.vpp = 1;
    try_neighbour(call, walk, plan, field);
  }
}

/* ---- memory and execution ------------------------------------------------------------------- */

/* Tries the plan with the fewest recomputed or offloaded layers of each chunk, but not all, with
 * which it fits.  `layers` points to their number in the plan.  Because memory falls with every
 * layer, the number is found by bisection, in which only memory is computed. */
static void try_fewest_layers(struct pz_call *call, struct neighbour_walk *walk,
                              struct pz_plan *plan, int64_t *layers, enum pz_plan_field field) {
  int64_t chunk_layers = pz_ceil_div(walk->neighbourhood->layers, plan->pp * plan->vpp);
  int64_t too_few = 0, enough = chunk_layers, n = chunk_layers - 1;
  walk->only_memory = true;
  while (too_few + 1 < enough) {
    *layers = n;
    try_neighbour(call, walk, *plan, field);
    if (walk->fits)
      enough = n;
    else
      too_few = n;
    n = too_few + (enough - too_few) / 2;
  }
  walk->only_memory = walk->accepted = false;
  *layers = enough;
  if (enough < chunk_layers) try_neighbour(call, walk, *plan, field);
}

/* Tries no, selective and full recomputation, and full recomputation of the fewest layers. */
static void change_recompute(struct pz_call *call, struct neighbour_walk *walk) {
  static const int modes[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE,
                              PZ_RECOMPUTATION_FULL};
  const struct pz_plan *base = walk->neighbourhood->plan;
  struct pz_plan plan = *base;
  plan.recompute_layers = 0;
  plan.recompute_modules = 0;
  plan.stage_recompute = NULL;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    plan.recompute = modes[i];
    if (base->recompute != modes[i] || base->recompute_layers || base->recompute_modules)
      try_neighbour(call, walk, plan, PZ_PLAN_RECOMPUTE);
  }
  plan.recompute = PZ_RECOMPUTATION_FULL;
  try_fewest_layers(call, walk, &plan, &plan.recompute_layers, PZ_PLAN_RECOMPUTE_LAYERS);
}

/* Tries to offload the activations of the fewest layers with which the plan fits, or else of all
 * layers, and then 1 to 4 quarters of the optimizer state, until a plan is accepted. */
static void change_offload(struct pz_call *call, struct neighbour_walk *walk) {
  const struct pz_plan *base = walk->neighbourhood->plan;
  struct pz_plan activations = *base;
  if (base->offload) return;
  activations.offload = PZ_OFFLOAD_ACTIVATIONS;
  try_fewest_layers(call, walk, &activations, &activations.offload_layers, PZ_PLAN_OFFLOAD);
  activations.offload_layers = 0;
  if (!walk->accepted) try_neighbour(call, walk, activations, PZ_PLAN_OFFLOAD);
  walk->accepted = false;
  for (int quarter = 1; quarter <= 4 && !walk->accepted; quarter++) {
    struct pz_plan plan = *base;
    plan.offload = PZ_OFFLOAD_OPTIMIZER;
    plan.offload_fraction = quarter / 4.0;
    try_neighbour(call, walk, plan, PZ_PLAN_OFFLOAD);
    /* some frameworks offload the optimizer only in ZeRO stage 1, also with a single replica */
    plan.zero = 1;
    if (!walk->accepted && !base->zero && base->dp * base->cp == 1)
      try_neighbour(call, walk, plan, PZ_PLAN_OFFLOAD);
  }
}

/* Changes one field of the plan after another, and calls fn for every plan that can run. */
void pz_neighbours_visit(struct pz_call *call, const struct pz_neighbourhood *neighbourhood,
                         pz_neighbour_fn *fn, void *ctx) {
  static const enum pz_plan_field degrees[] = {PZ_PLAN_TP,  PZ_PLAN_CP, PZ_PLAN_PP,
                                               PZ_PLAN_VPP, PZ_PLAN_EP, PZ_PLAN_MBS};
  const struct pz_plan *base = neighbourhood->plan;
  uint64_t fields = neighbourhood->changeable_fields;
  bool has_replicas = base->dp * base->cp > 1;
  /* whether the plan has a use for each overlap, in the order of pz_overlap_names */
  const bool applies[] = {has_replicas, has_replicas && base->zero, base->tp > 1, base->pp > 1,
                          base->ep > 1};
  struct neighbour_walk walk = {.neighbourhood = neighbourhood, .fn = fn, .ctx = ctx};
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    if (fields >> degrees[i] & 1) change_degree(call, &walk, degrees[i]);
  if (fields & PZ_PLAN_PIN(RECOMPUTE)) change_recompute(call, &walk);
  if (fields & PZ_PLAN_PIN(OFFLOAD)) change_offload(call, &walk);
  for (int zero = 0; zero <= 3 && fields & PZ_PLAN_PIN(ZERO) && has_replicas; zero++) {
    struct pz_plan plan = *base;
    plan.zero = zero;
    if (zero != base->zero) try_neighbour(call, &walk, plan, PZ_PLAN_ZERO);
  }
  for (int i = 0; fields & PZ_PLAN_PIN(OVERLAP) && pz_overlap_names[i]; i++) {
    struct pz_plan plan = *base;
    plan.overlap |= 1 << i;
    if (applies[i] && plan.overlap != base->overlap)
      try_neighbour(call, &walk, plan, PZ_PLAN_OVERLAP);
  }
  if (!(fields & (PZ_PLAN_PIN(SP) | PZ_PLAN_PIN(ATTENTION)))) return;
  struct pz_plan plan = *base, flash = *base;
  plan.sp = !plan.sp;
  flash.attention = PZ_ATTENTION_FLASH;
  if (plan.tp > 1) try_neighbour(call, &walk, plan, PZ_PLAN_SP);
  if (base->attention != PZ_ATTENTION_FLASH) try_neighbour(call, &walk, flash, PZ_PLAN_ATTENTION);
}

/* ---- changes with which a plan fits --------------------------------------------------------- */

/* A search for changes with which the plan of a run fits in memory. */
struct fitting_search {
  const struct pz_neighbourhood *neighbourhood; /* neighbourhood of the run's plan */
  bool two_changes;    /* searches pairs of changes instead of single ones */
  bool is_second;      /* the visited neighbours already have a first change */
  struct pz_vec found; /* struct pz_plan_change */
};

/* Lists a neighbour that fits in memory, unless a listed plan has the same step and memory.  If it
 * does not fit, and pairs of changes are searched, visits the neighbours of the neighbour. */
static bool accept_fitting(struct pz_call *call, void *ctx, const struct pz_plan *plan,
                           const struct pz_prediction *prediction, enum pz_plan_field field) {
  struct fitting_search *search = ctx;
  bool fits = pz_neighbour_fits(search->neighbourhood, prediction);
  if (fits) {
    /* PZ_PLAN_FIELDS stands for several fields */
    struct pz_plan_change change = {
        .plan = *plan, .field = search->two_changes ? PZ_PLAN_FIELDS : field, .p = *prediction};
    bool is_listed = false;
    for (uint32_t i = 0; i < search->found.n && !is_listed; i++) {
      const struct pz_prediction *other = &pz_vec_at(&search->found, struct pz_plan_change, i)->p;
      is_listed =
          other->step_s == prediction->step_s && other->peak_bytes == prediction->peak_bytes;
    }
    if (!is_listed) pz_append(call, &search->found, &change);
  } else if (search->two_changes && !search->is_second) {
    struct pz_neighbourhood second = *search->neighbourhood;
    second.plan = plan;
    search->is_second = true;
    pz_neighbours_visit(call, &second, accept_fitting, search);
    search->is_second = false;
  }
  return fits;
}

/* Compares two changes for qsort(): by step, then by memory, then by field. */
int pz_plan_change_order(const void *a, const void *b) {
  const struct pz_plan_change *first = a, *second = b;
  if (first->p.step_s != second->p.step_s) return first->p.step_s < second->p.step_s ? -1 : 1;
  if (first->p.peak_bytes != second->p.peak_bytes)
    return first->p.peak_bytes < second->p.peak_bytes ? -1 : 1;
  return (first->field > second->field) - (first->field < second->field);
}

/* The arguments of pz_training_changes(). */
struct changes_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_run *run;
  struct pz_plan_changes **out;
};

/* Finds single changes with which the plan of a run fits; if there are none, pairs of changes. */
static void find_fitting_changes(struct pz_call *call, void *ctx) {
  struct changes_args *args = ctx;
  struct pz_job job = {.model = args->model, .chip = args->chip};
  struct pz_cluster widened;
  struct pz_call in_result;
  pz_require(call, args->model, "model");
  pz_require(call, args->run, "run");
  pz_require(call, args->out, "out");
  pz_chip_check(call, args->chip);
  job.net = pz_cluster_widen(call, args->net, args->run->plan.devices, &widened);
  struct pz_plan_changes *changes = pz_object_new(call, sizeof *changes, &in_result);
  struct pz_neighbourhood neighbourhood = pz_neighbourhood_make(call, &job, &args->run->plan);
  neighbourhood.limit_bytes = args->run->p.usable_bytes;
  /* changes of other fields save no memory */
  neighbourhood.changeable_fields = PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(MBS) |
                                    PZ_PLAN_PIN(RECOMPUTE) | PZ_PLAN_PIN(OFFLOAD) |
                                    PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(SP);
  struct fitting_search search = {.neighbourhood = &neighbourhood};
  pz_vec_init(&search.found, in_result.arena, sizeof(struct pz_plan_change));
  pz_neighbours_visit(call, &neighbourhood, accept_fitting, &search);
  if (!search.found.n) {
    search.two_changes = true;
    pz_neighbours_visit(call, &neighbourhood, accept_fitting, &search);
  }
  changes->list = search.found.items;
  changes->n = search.found.n;
  if (changes->n) qsort(changes->list, changes->n, sizeof *changes->list, pz_plan_change_order);
  for (uint32_t i = 0; i < changes->n; i++) {
    struct pz_plan_change *change = &changes->list[i];
    change->gain = 1 - change->p.step_s / args->run->p.step_s;
    change->options = pz_plan_options_text(&in_result, &args->run->plan, &change->plan);
  }
  *args->out = pz_object_keep(call, changes);
}

/* Lists the changes, or pairs of changes, with which the plan of a run fits in memory. */
enum pz_status pz_training_changes(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_training_run *run,
                                   struct pz_plan_changes **out, struct pz_error *err) {
  struct changes_args args = {model, chip, net, run, out};
  return pz_border(find_fitting_changes, &args, err);
}

void pz_plan_changes_free(struct pz_plan_changes *changes) { pz_object_free(changes); }
