/* Visits the neighbours of a plan (neighbours.h), and finds changes with which a plan fits (pz_training_changes).
 *
 * pz_neighbours_visit() changes one field after another: degrees (change_degree), recomputation, offload, ZeRO stage,
 * overlaps and switches.  try_neighbour() sets the fields that follow from the change, asks the framework's rules, and
 * prices the plan.  For recomputed and offloaded layers the fewest that fit are found by bisection. */
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

struct pz_neighbourhood pz_neighbourhood_make(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_plan *plan) {
  struct pz_step_model *m = pz_step_model_new(call, job, plan);
  struct pz_neighbourhood n = {.job = job,
                               .plan = plan,
                               .layers = m->n_blocks,
                               .node = m->cost.net.n_levels ? pz_cluster_node(&m->cost.net)
                                                            : plan->devices,
                               .overlap = plan->overlap,
                               .fields = ~PZ_PLAN_PIN(OFFLOAD)};
  n.model = pz_model_shape_or_other(call, job->model, job->config, m->w, m->n_blocks);
  if (!n.model.heads) n.model.heads = n.model.kv_heads = 1;
  pz_close(call, m);
  return n;
}

/* ---- one neighbour -------------------------------------------------------------------------- */

struct neighbour_walk {
  const struct pz_neighbourhood *n;
  pz_neighbour_fn *fn;
  void *ctx;
  bool only_memory; /* fn is not called, and `fits` is all that is of interest */
  bool accepted;    /* whether fn returned true for the last plan */
  bool fits;        /* whether the last plan fits in the memory of the device */
};

/* A neighbour that is being priced. */
struct neighbour {
  struct neighbour_walk *walk;
  struct pz_plan plan;
  enum pz_plan_field field;
  bool can_run;
  struct pz_prediction p;
};

/* Completes the plan and prices it, if its framework can run it.  Memory comes first: a plan that needs more than the
 * limit is not simulated, and its step is 0.  Errors mean that this is not a plan. */
static void price_neighbour(struct pz_call *call, void *ctx) {
  struct neighbour *x = ctx;
  struct neighbour_walk *walk = x->walk;
  const struct pz_neighbourhood *n = walk->n;
  struct pz_plan *p = &x->plan;
  pz_fill_plan(call, p, n->job->chip);
  if (x->field != PZ_PLAN_OVERLAP) p->overlap = pz_framework_overlap(p, &n->model);
  if (!pz_framework_can_run(p, &n->model, NULL)) return;
  pz_require_plan(call, p);
  struct pz_step_model *m = pz_step_model_new(call, n->job, p);
  pz_step_check(call, m, p);
  for (int64_t k = 0; k < p->pp; k++) {
    x->p.needed_bytes = pz_fmax(x->p.needed_bytes, pz_step_needed_bytes(m, p, k));
    x->p.host_bytes = pz_fmax(x->p.host_bytes, pz_step_host_bytes(m, p, k));
  }
  x->p.usable_host_bytes = pz_usable_host_bytes(&m->cost.chip, m->k);
  walk->fits = x->p.needed_bytes <= n->limit_bytes;
  if (!walk->only_memory && pz_neighbour_fits(n, &x->p)) x->p = pz_step_price(call, m, p, NULL);
  x->can_run = true;
}

/* Sets the fields that follow from a changed degree: replicas, sharding group, pipeline order and overlap.  Then prices
 * the plan and calls fn, unless it is not a plan. */
static void try_neighbour(struct pz_call *call, struct neighbour_walk *walk, struct pz_plan p,
                          enum pz_plan_field field) {
  const struct pz_plan *own = walk->n->plan;
  int64_t replica = p.tp * p.cp * p.pp;
  walk->accepted = walk->fits = false;
  if (p.devices % replica) return;
  p.dp = p.devices / replica;
  bool same_replicas = p.dp * p.cp == own->dp * own->cp;
  bool keeps_shard = pz_plan_is_hybrid_sharded(own) && same_replicas && field != PZ_PLAN_ZERO;
  p.shard = keeps_shard ? own->shard : 0;
  if (p.tp == 1) p.sp = 0;
  if (walk->n->etp_is_tp) p.etp = p.tp;
  if (p.pp != own->pp || p.vpp != own->vpp) {
    p.first_layers = p.last_layers = 0;
    if (p.pipeline == PZ_PIPELINE_INTERLEAVED || p.vpp > 1) p.pipeline = PZ_AS_FRAMEWORK;
  }
  if (field != PZ_PLAN_OVERLAP) p.overlap = walk->n->overlap;
  struct neighbour x = {.walk = walk, .plan = p, .field = field};
  struct pz_error err = {0};
  enum pz_status status = pz_border(price_neighbour, &x, &err);
  if (status == PZ_NO_MEMORY) pz_raise_again(call, &err);
  bool priced = status == PZ_OK && x.can_run && isfinite(x.p.step_s) && isfinite(x.p.peak_bytes);
  if (priced && !walk->only_memory)
    walk->accepted = walk->fn(call, walk->ctx, &x.plan, &x.p, field);
}

/* ---- degrees -------------------------------------------------------------------------------- */

/* Whether the plan could have the degree v.  Context parallelism divides a sample into pairs of halves, so that the causal
 * work is even.  Expert parallelism is doubled or halved. */
static bool can_have_degree(const struct pz_neighbourhood *n, enum pz_plan_field field, int64_t v) {
  const struct pz_plan *own = n->plan;
  const struct pz_model_shape *m = &n->model;
  switch (field) {
  case PZ_PLAN_TP: return pz_heads_divide(m->heads, m->kv_heads, v);
  case PZ_PLAN_CP: return v == 1 || ((v & (v - 1)) == 0 && own->seq % (2 * v) == 0);
  case PZ_PLAN_PP: return n->layers % (v * (v > 1 ? own->vpp : 1)) == 0;
  case PZ_PLAN_VPP: return own->pp > 1 && n->layers % (own->pp * v) == 0;
  case PZ_PLAN_EP:
    return (v == own->ep / 2 || v == 2 * own->ep) && m->experts && m->experts % v == 0;
  default: return own->batch / own->dp % v == 0;
  }
}

static int64_t largest_degree(const struct pz_neighbourhood *n, enum pz_plan_field field) {
  switch (field) {
  case PZ_PLAN_TP: return pz_min(n->node, n->plan->devices);
  case PZ_PLAN_CP: return n->plan->devices;
  case PZ_PLAN_EP: return 2 * n->plan->ep;
  case PZ_PLAN_MBS: return MAX_MBS;
  default: return n->layers;
  }
}

static void change_degree(struct pz_call *call, struct neighbour_walk *walk,
                          enum pz_plan_field field) {
  const struct pz_plan *own = walk->n->plan;
  int64_t most = largest_degree(walk->n, field);
  for (int64_t v = 1; v <= most; v += field == PZ_PLAN_CP ? v : 1) {
    struct pz_plan p = *own;
    int64_t *degree = (int64_t *)(void *)((char *)&p + pz_plan_field(field)->offset);
    if (*degree == v || !can_have_degree(walk->n, field, v)) continue;
    *degree = v;
    if (field == PZ_PLAN_TP && own->tp == 1) p.sp = 1;
    if (p.pp == 1) p.vpp = 1;
    try_neighbour(call, walk, p, field);
  }
}

/* ---- memory and execution ------------------------------------------------------------------- */

/* Tries the fewest layers of each chunk, but not all, with which the plan p fits.  `layers` is the member of p with their
 * number.  Memory falls with every layer, so that bisection finds them. */
static void try_fewest_layers(struct pz_call *call, struct neighbour_walk *walk, struct pz_plan *p,
                              int64_t *layers, enum pz_plan_field field) {
  int64_t chunk = pz_ceil_div(walk->n->layers, p->pp * p->vpp);
  int64_t too_few = 0, enough = chunk, n = chunk - 1;
  walk->only_memory = true;
  while (too_few + 1 < enough) {
    *layers = n;
    try_neighbour(call, walk, *p, field);
    if (walk->fits)
      enough = n;
    else
      too_few = n;
    n = too_few + (enough - too_few) / 2;
  }
  walk->only_memory = walk->accepted = false;
  *layers = enough;
  if (enough < chunk) try_neighbour(call, walk, *p, field);
}

/* Tries no, selective and full recomputation, and full recomputation of the fewest layers that fit. */
static void change_recompute(struct pz_call *call, struct neighbour_walk *walk) {
  static const int modes[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE,
                              PZ_RECOMPUTATION_FULL};
  const struct pz_plan *own = walk->n->plan;
  struct pz_plan p = *own;
  p.recompute_layers = 0;
  p.recompute_modules = 0;
  p.stage_recompute = NULL;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    p.recompute = modes[i];
    if (own->recompute != modes[i] || own->recompute_layers || own->recompute_modules)
      try_neighbour(call, walk, p, PZ_PLAN_RECOMPUTE);
  }
  p.recompute = PZ_RECOMPUTATION_FULL;
  try_fewest_layers(call, walk, &p, &p.recompute_layers, PZ_PLAN_RECOMPUTE_LAYERS);
}

/* Tries to offload the activations of the fewest layers that fit, then of all layers; and the fewest quarters of the
 * optimizer. */
static void change_offload(struct pz_call *call, struct neighbour_walk *walk) {
  const struct pz_plan *own = walk->n->plan;
  struct pz_plan activations = *own;
  if (own->offload) return;
  activations.offload = PZ_OFFLOAD_ACTIVATIONS;
  try_fewest_layers(call, walk, &activations, &activations.offload_layers, PZ_PLAN_OFFLOAD);
  activations.offload_layers = 0;
  if (!walk->accepted) try_neighbour(call, walk, activations, PZ_PLAN_OFFLOAD);
  walk->accepted = false;
  for (int quarter = 1; quarter <= 4 && !walk->accepted; quarter++) {
    struct pz_plan p = *own;
    p.offload = PZ_OFFLOAD_OPTIMIZER;
    p.offload_fraction = quarter / 4.0;
    try_neighbour(call, walk, p, PZ_PLAN_OFFLOAD);
    p.zero =
        1; /* some frameworks offload the optimizer only in this stage, also with a single replica */
    if (!walk->accepted && !own->zero && own->dp * own->cp == 1)
      try_neighbour(call, walk, p, PZ_PLAN_OFFLOAD);
  }
}

static void change_zero(struct pz_call *call, struct neighbour_walk *walk) {
  const struct pz_plan *own = walk->n->plan;
  for (int zero = 0; zero <= 3 && own->dp * own->cp > 1; zero++) {
    struct pz_plan p = *own;
    p.zero = zero;
    if (zero != own->zero) try_neighbour(call, walk, p, PZ_PLAN_ZERO);
  }
}

/* Turns on each overlap that is off, where there is something to overlap. */
static void change_overlaps(struct pz_call *call, struct neighbour_walk *walk) {
  const struct pz_plan *own = walk->n->plan;
  bool several = own->dp * own->cp > 1;
  const bool applies[] = {several, several && own->zero, own->tp > 1, own->pp > 1, own->ep > 1};
  for (int i = 0; pz_overlap_names[i]; i++) {
    struct pz_plan p = *own;
    p.overlap |= 1 << i;
    if (applies[i] && p.overlap != own->overlap) try_neighbour(call, walk, p, PZ_PLAN_OVERLAP);
  }
}

static void change_switches(struct pz_call *call, struct neighbour_walk *walk) {
  struct pz_plan sp = *walk->n->plan, flash = sp;
  sp.sp = !sp.sp;
  if (sp.tp > 1) try_neighbour(call, walk, sp, PZ_PLAN_SP);
  flash.attention = PZ_ATTENTION_FLASH;
  if (walk->n->plan->attention != PZ_ATTENTION_FLASH)
    try_neighbour(call, walk, flash, PZ_PLAN_ATTENTION);
}

void pz_neighbours_visit(struct pz_call *call, const struct pz_neighbourhood *n,
                         pz_neighbour_fn *fn, void *ctx) {
  static const enum pz_plan_field degrees[] = {PZ_PLAN_TP,  PZ_PLAN_CP, PZ_PLAN_PP,
                                               PZ_PLAN_VPP, PZ_PLAN_EP, PZ_PLAN_MBS};
  struct neighbour_walk walk = {.n = n, .fn = fn, .ctx = ctx};
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    if (n->fields >> degrees[i] & 1) change_degree(call, &walk, degrees[i]);
  if (n->fields & PZ_PLAN_PIN(RECOMPUTE)) change_recompute(call, &walk);
  if (n->fields & PZ_PLAN_PIN(OFFLOAD)) change_offload(call, &walk);
  if (n->fields & PZ_PLAN_PIN(ZERO)) change_zero(call, &walk);
  if (n->fields & PZ_PLAN_PIN(OVERLAP)) change_overlaps(call, &walk);
  if (n->fields & (PZ_PLAN_PIN(SP) | PZ_PLAN_PIN(ATTENTION))) change_switches(call, &walk);
}

void pz_plan_change_describe(struct pz_call *call, const struct pz_training_run *run,
                             struct pz_plan_change *c) {
  c->gain = 1 - c->p.step_s / run->p.step_s;
  c->options = pz_plan_options_text(call, &run->plan, &c->plan);
}

/* ---- changes with which a plan fits --------------------------------------------------------- */

struct fitting_search {
  const struct pz_neighbourhood *n; /* of the run's plan */
  bool two_changes;                 /* pairs of changes are looked for */
  bool is_second;                   /* the neighbours being visited have a first change already */
  struct pz_vec found;              /* struct pz_plan_change */
};

/* Lists the neighbour if it fits, unless a listed plan has the same step and memory. */
static bool accept_fitting(struct pz_call *call, void *ctx, const struct pz_plan *plan,
                           const struct pz_prediction *p, enum pz_plan_field field) {
  struct fitting_search *search = ctx;
  bool fits = pz_neighbour_fits(search->n, p);
  if (fits) {
    struct pz_plan_change one = {
        .plan = *plan, .field = search->two_changes ? PZ_PLAN_FIELDS : field, .p = *p};
    bool listed = false;
    for (uint32_t i = 0; i < search->found.n && !listed; i++) {
      const struct pz_prediction *q = &pz_vec_at(&search->found, struct pz_plan_change, i)->p;
      listed = q->step_s == p->step_s && q->peak_bytes == p->peak_bytes;
    }
    if (!listed) pz_append(call, &search->found, &one);
  } else if (search->two_changes && !search->is_second) {
    struct pz_neighbourhood second = *search->n;
    second.plan = plan;
    search->is_second = true;
    pz_neighbours_visit(call, &second, accept_fitting, search);
    search->is_second = false;
  }
  return fits;
}

static int by_step(const void *a, const void *b) {
  const struct pz_plan_change *x = a, *y = b;
  if (x->p.step_s != y->p.step_s) return x->p.step_s < y->p.step_s ? -1 : 1;
  return (x->p.peak_bytes > y->p.peak_bytes) - (x->p.peak_bytes < y->p.peak_bytes);
}

struct changes_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_run *run;
  struct pz_plan_changes **out;
};

/* Finds single changes with which the plan of a run fits; if there are none, pairs of changes. */
static void find_fitting_changes(struct pz_call *call, void *ctx) {
  struct changes_args *x = ctx;
  struct pz_job job = {.model = x->model, .chip = x->chip};
  struct pz_cluster wide;
  struct pz_call own;
  pz_require(call, x->model, "model");
  pz_require(call, x->run, "run");
  pz_require(call, x->out, "out");
  pz_chip_check(call, x->chip);
  job.net = pz_cluster_widen(call, x->net, x->run->plan.devices, &wide);
  struct pz_plan_changes *changes = pz_object_new(call, sizeof *changes, &own);
  struct pz_neighbourhood n = pz_neighbourhood_make(call, &job, &x->run->plan);
  n.limit_bytes = x->run->p.usable_bytes;
  /* changes of other fields save no memory */
  n.fields = PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(MBS) | PZ_PLAN_PIN(RECOMPUTE) |
             PZ_PLAN_PIN(OFFLOAD) | PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(SP);
  struct fitting_search search = {.n = &n};
  pz_vec_init(&search.found, own.arena, sizeof(struct pz_plan_change));
  pz_neighbours_visit(call, &n, accept_fitting, &search);
  if (!search.found.n) {
    search.two_changes = true;
    pz_neighbours_visit(call, &n, accept_fitting, &search);
  }
  changes->list = search.found.items;
  changes->n = search.found.n;
  if (changes->n) qsort(changes->list, changes->n, sizeof *changes->list, by_step);
  for (uint32_t i = 0; i < changes->n; i++)
    pz_plan_change_describe(&own, x->run, &changes->list[i]);
  *x->out = pz_object_keep(call, changes);
}

enum pz_status pz_training_changes(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_training_run *r,
                                   struct pz_plan_changes **out, struct pz_error *err) {
  struct changes_args x = {model, chip, net, r, out};
  return pz_border(find_fitting_changes, &x, err);
}

void pz_plan_changes_free(struct pz_plan_changes *c) { pz_object_free(c); }
