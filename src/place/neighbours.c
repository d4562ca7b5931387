#include "place/neighbours.h"

#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/held.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "plan/plan_text.h"
#include "step/step_model.h"
#include "workload/workload.h"

enum { MOST_MBS = 64 };

enum pz_status pz_neighbourhood_of(const struct pz_job *job, const struct pz_plan *plan,
                                   struct pz_neighbourhood *out, struct pz_error *err) {
  struct pz_step_model *m = NULL;
  enum pz_status status = pz_step_model_new(job, plan, &m, err);
  if (status != PZ_OK) return status;
  *out = (struct pz_neighbourhood){.job = job,
                                   .plan = plan,
                                   .layers = m->n_blocks,
                                   .node = m->cost.net.n_levels ? pz_cluster_node(&m->cost.net)
                                                                : plan->devices,
                                   .overlap = plan->overlap,
                                   .fields = ~PZ_PLAN_PIN(OFFLOAD)}; /* it brings memory alone */
  status = pz_model_shape_of(job->model, job->config, m->w, m->n_blocks, &out->model);
  if (!out->model.heads) out->model.heads = out->model.kv_heads = 1;
  pz_step_model_free(m);
  return status == PZ_OK ? PZ_OK : pz_fail(err, status, "out of memory for the plan's changes");
}

/* The walk over the neighbours. */
struct walk {
  const struct pz_neighbourhood *n;
  pz_neighbour_fn *fn;
  void *ctx;
  bool probes;      /* plans are neither priced nor handed on: only `fits` is asked for */
  bool taken, fits; /* the last one; it fits in the memory of the device */
  struct pz_error *err;
};

/* Memory first: a plan that needs more than the limit is not simulated, and has no step. */
static enum pz_status price(struct walk *w, const struct pz_plan *p, struct pz_prediction *out,
                            struct pz_error *err) {
  const struct pz_neighbourhood *n = w->n;
  struct pz_step_model *m = NULL;
  *out = (struct pz_prediction){0};
  enum pz_status status = pz_plan_check(p, err);
  if (status == PZ_OK) status = pz_step_model_new(n->job, p, &m, err);
  if (status == PZ_OK) status = pz_step_check(m, p, err);
  for (int64_t k = 0; k < p->pp && status == PZ_OK; k++) {
    out->needed_bytes = pz_fmax(out->needed_bytes, pz_step_needed_bytes(m, p, k));
    out->host_bytes = pz_fmax(out->host_bytes, pz_step_host_bytes(m, p, k));
  }
  if (m) out->usable_host_bytes = pz_usable_host_bytes(&m->cost.chip, m->k);
  w->fits = status == PZ_OK && out->needed_bytes <= n->limit_bytes;
  if (w->fits && !w->probes && pz_neighbour_fits(n, out))
    status = pz_step_price(m, p, out, NULL, err);
  pz_step_model_free(m);
  return status;
}

/* What follows from a changed degree: replicas, shards, the order of the pipeline, the overlap.  Then it is priced, if it
 * is a plan at all. */
static enum pz_status try_plan(struct walk *w, struct pz_plan p, enum pz_plan_field field) {
  const struct pz_plan *own = w->n->plan;
  struct pz_prediction priced;
  struct pz_error why = {0};
  int64_t replica = p.tp * p.cp * p.pp;
  w->taken = w->fits = false;
  if (p.devices % replica) return PZ_OK;
  p.dp = p.devices / replica;
  bool same = p.dp * p.cp == own->dp * own->cp;
  p.shard = pz_plan_hybrid(own) && same && field != PZ_PLAN_ZERO ? own->shard : 0;
  if (p.tp == 1) p.sp = 0;
  if (w->n->etp_is_tp) p.etp = p.tp;
  if (p.pp != own->pp || p.vpp != own->vpp) {
    bool plain = p.pipeline == PZ_PIPELINE_INTERLEAVED || p.vpp > 1;
    p.first_layers = p.last_layers = 0;
    if (plain) p.pipeline = PZ_AS_FRAMEWORK;
  }
  if (field != PZ_PLAN_OVERLAP) p.overlap = w->n->overlap;
  enum pz_status status = pz_plan_fill(&p, w->n->job->chip, &why);
  if (status != PZ_OK) return PZ_OK;
  if (field != PZ_PLAN_OVERLAP) p.overlap = pz_framework_overlap(&p, &w->n->model);
  if (!pz_framework_can(&p, &w->n->model, NULL)) return PZ_OK;
  status = price(w, &p, &priced, &why);
  if (status == PZ_NO_MEMORY) return pz_fail(w->err, status, "%s", why.message);
  if (status != PZ_OK || !isfinite(priced.step_s) || !isfinite(priced.peak_bytes)) return PZ_OK;
  if (w->probes) return PZ_OK;
  return w->fn(w->ctx, &p, &priced, field, &w->taken);
}

/* ---- degrees -------------------------------------------------------------------------------- */

/* Could the plan have this degree?  Parts of a sample's tokens are pairs of halves, so that the causal work is even;
 * experts go to twice the devices, or to half of them. */
static bool is_degree(const struct pz_neighbourhood *n, enum pz_plan_field field, int64_t v) {
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

static enum pz_status try_degree(struct walk *w, enum pz_plan_field field) {
  const struct pz_plan *own = w->n->plan;
  int64_t most = field == PZ_PLAN_TP    ? pz_min(w->n->node, own->devices)
                 : field == PZ_PLAN_CP  ? own->devices
                 : field == PZ_PLAN_EP  ? 2 * own->ep
                 : field == PZ_PLAN_MBS ? MOST_MBS
                                        : w->n->layers;
  enum pz_status status = PZ_OK;
  for (int64_t v = 1; v <= most && status == PZ_OK; v += field == PZ_PLAN_CP ? v : 1) {
    struct pz_plan p = *own;
    int64_t *degree = (int64_t *)(void *)((char *)&p + pz_plan_field(field)->offset);
    if (*degree == v || !is_degree(w->n, field, v)) continue;
    *degree = v;
    if (field == PZ_PLAN_TP && own->tp == 1) p.sp = 1;
    if (p.pp == 1) p.vpp = 1;
    status = try_plan(w, p, field);
  }
  return status;
}

/* ---- memory and execution ------------------------------------------------------------------- */

/* Tries the fewest layers of each chunk, though not all, with which plan p fits on the device: memory falls with every layer, so
 * that bisection finds them.  `layers` is p's number of them. */
static enum pz_status try_fewest(struct walk *w, struct pz_plan *p, int64_t *layers,
                                 enum pz_plan_field field) {
  int64_t chunk = pz_ceil_div(w->n->layers, p->pp * p->vpp), too_few = 0, enough = chunk;
  enum pz_status status = PZ_OK;
  w->probes = true;
  for (int64_t n = chunk - 1; too_few + 1 < enough && status == PZ_OK;
       n = too_few + (enough - too_few) / 2) {
    *layers = n;
    status = try_plan(w, *p, field);
    if (w->fits)
      enough = n;
    else
      too_few = n;
  }
  w->probes = w->taken = false;
  *layers = enough;
  return status == PZ_OK && enough < chunk ? try_plan(w, *p, field) : status;
}

/* None, selective, full; full of some layers of each chunk: the fewest that fit. */
static enum pz_status try_recompute(struct walk *w) {
  static const int modes[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE,
                              PZ_RECOMPUTATION_FULL};
  const struct pz_plan *own = w->n->plan;
  enum pz_status status = PZ_OK;
  struct pz_plan p = *own;
  p.recompute_layers = 0;
  p.recompute_modules = 0;
  p.stage_recompute = NULL;
  for (size_t i = 0; i < sizeof modes / sizeof *modes && status == PZ_OK; i++) {
    p.recompute = modes[i];
    if (own->recompute != modes[i] || own->recompute_layers || own->recompute_modules)
      status = try_plan(w, p, PZ_PLAN_RECOMPUTE);
  }
  p.recompute = PZ_RECOMPUTATION_FULL;
  return status == PZ_OK ? try_fewest(w, &p, &p.recompute_layers, PZ_PLAN_RECOMPUTE_LAYERS)
                         : status;
}

/* Activations of the fewest layers on the host; the optimizer there, the least of quarters that is taken. */
static enum pz_status try_offload(struct walk *w) {
  const struct pz_plan *own = w->n->plan;
  struct pz_plan activations = *own;
  if (own->offload) return PZ_OK;
  activations.offload = PZ_OFFLOAD_ACTIVATIONS;
  enum pz_status status = try_fewest(w, &activations, &activations.offload_layers, PZ_PLAN_OFFLOAD);
  activations.offload_layers = 0;
  if (status == PZ_OK && !w->taken) status = try_plan(w, activations, PZ_PLAN_OFFLOAD);
  w->taken = false;
  for (int quarter = 1; quarter <= 4 && status == PZ_OK && !w->taken; quarter++) {
    struct pz_plan p = *own;
    p.offload = PZ_OFFLOAD_OPTIMIZER;
    p.offload_fraction = quarter / 4.0;
    status = try_plan(w, p, PZ_PLAN_OFFLOAD);
    p.zero = 1; /* some frameworks have it in this stage alone, with one replica too */
    if (status == PZ_OK && !w->taken && !own->zero && own->dp * own->cp == 1)
      status = try_plan(w, p, PZ_PLAN_OFFLOAD);
  }
  return status;
}

static enum pz_status try_zero(struct walk *w) {
  const struct pz_plan *own = w->n->plan;
  enum pz_status status = PZ_OK;
  for (int zero = 0; zero <= 3 && own->dp * own->cp > 1 && status == PZ_OK; zero++) {
    struct pz_plan p = *own;
    p.zero = zero;
    if (zero != own->zero) status = try_plan(w, p, PZ_PLAN_ZERO);
  }
  return status;
}

/* Each overlap that is off turned on, where there is something to overlap. */
static enum pz_status try_overlaps(struct walk *w) {
  const struct pz_plan *own = w->n->plan;
  bool several = own->dp * own->cp > 1;
  const bool has[] = {several, several && own->zero, own->tp > 1, own->pp > 1, own->ep > 1};
  enum pz_status status = PZ_OK;
  for (int i = 0; pz_overlap_names[i] && status == PZ_OK; i++) {
    struct pz_plan p = *own;
    p.overlap |= 1 << i;
    if (has[i] && p.overlap != own->overlap) status = try_plan(w, p, PZ_PLAN_OVERLAP);
  }
  return status;
}

static enum pz_status try_switches(struct walk *w) {
  struct pz_plan sp = *w->n->plan, flash = sp;
  enum pz_status status = PZ_OK;
  sp.sp = !sp.sp;
  if (sp.tp > 1) status = try_plan(w, sp, PZ_PLAN_SP);
  flash.attention = PZ_ATTENTION_FLASH;
  if (status == PZ_OK && w->n->plan->attention != PZ_ATTENTION_FLASH)
    status = try_plan(w, flash, PZ_PLAN_ATTENTION);
  return status;
}

enum pz_status pz_neighbours(const struct pz_neighbourhood *n, pz_neighbour_fn *fn, void *ctx,
                             struct pz_error *err) {
  static const enum pz_plan_field degrees[] = {PZ_PLAN_TP,  PZ_PLAN_CP, PZ_PLAN_PP,
                                               PZ_PLAN_VPP, PZ_PLAN_EP, PZ_PLAN_MBS};
  static const struct {
    enum pz_status (*walk)(struct walk *);
    uint64_t field;
  } others[] = {{try_recompute, PZ_PLAN_PIN(RECOMPUTE)},
                {try_offload, PZ_PLAN_PIN(OFFLOAD)},
                {try_zero, PZ_PLAN_PIN(ZERO)},
                {try_overlaps, PZ_PLAN_PIN(OVERLAP)},
                {try_switches, PZ_PLAN_PIN(SP) | PZ_PLAN_PIN(ATTENTION)}};
  struct walk w = {.n = n, .fn = fn, .ctx = ctx, .err = err};
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees && status == PZ_OK; i++)
    if (n->fields >> degrees[i] & 1) status = try_degree(&w, degrees[i]);
  for (size_t i = 0; i < sizeof others / sizeof *others && status == PZ_OK; i++)
    if (n->fields & others[i].field) status = others[i].walk(&w);
  return status;
}

/* ---- what would fit ------------------------------------------------------------------------- */

struct fitting {
  const struct pz_neighbourhood *of;
  int deeper; /* changes that may follow */
  bool two;   /* changes together are looked for */
  struct pz_vec found;
  struct pz_error *err;
};

static bool is_found(const struct fitting *f, const struct pz_prediction *p) {
  for (uint32_t i = 0; i < f->found.n; i++) {
    const struct pz_prediction *q = &pz_vec_at(&f->found, struct pz_plan_change, i)->p;
    if (q->step_s == p->step_s && q->peak_bytes == p->peak_bytes) return true;
  }
  return false;
}

static enum pz_status take_fitting(void *ctx, const struct pz_plan *plan,
                                   const struct pz_prediction *p, enum pz_plan_field field,
                                   bool *taken) {
  struct fitting *f = ctx;
  struct pz_plan_change one = {.plan = *plan, .field = f->two ? PZ_PLAN_FIELDS : field, .p = *p};
  *taken = pz_neighbour_fits(f->of, p);
  if (*taken && !is_found(f, p) && !pz_vec_push(&f->found, &one))
    return pz_fail(f->err, PZ_NO_MEMORY, "out of memory for the plan's changes");
  if (*taken || !f->deeper) return PZ_OK;
  struct pz_neighbourhood second = *f->of;
  second.plan = plan;
  f->deeper--;
  enum pz_status status = pz_neighbours(&second, take_fitting, f, f->err);
  f->deeper++;
  return status;
}

static int by_time(const void *a, const void *b) {
  const struct pz_plan_change *x = a, *y = b;
  if (x->p.step_s != y->p.step_s) return x->p.step_s < y->p.step_s ? -1 : 1;
  return (x->p.peak_bytes > y->p.peak_bytes) - (x->p.peak_bytes < y->p.peak_bytes);
}

enum pz_status pz_plan_change_tell(const struct pz_training_run *run, struct pz_plan_change *c,
                                   struct pz_arena *arena, struct pz_error *err) {
  c->gain = 1 - c->p.step_s / run->p.step_s;
  c->options = pz_plan_options_text(&run->plan, &c->plan, arena);
  return c->options ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes");
}

static enum pz_status find_fitting(const struct pz_job *job, const struct pz_training_run *r,
                                   struct pz_arena *arena, struct pz_plan_changes *out,
                                   struct pz_error *err) {
  struct pz_neighbourhood of;
  enum pz_status status = pz_neighbourhood_of(job, &r->plan, &of, err);
  /* others bring no memory */
  of.limit_bytes = r->p.usable_bytes;
  of.fields = PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(MBS) | PZ_PLAN_PIN(RECOMPUTE) |
              PZ_PLAN_PIN(OFFLOAD) | PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(SP);
  struct fitting f = {.of = &of, .err = err};
  pz_vec_init(&f.found, arena, sizeof(struct pz_plan_change));
  if (status == PZ_OK) status = pz_neighbours(&of, take_fitting, &f, err);
  f.deeper = f.two = 1;
  if (status == PZ_OK && !f.found.n) status = pz_neighbours(&of, take_fitting, &f, err);
  if (status != PZ_OK) return status;
  if (f.found.n) qsort(f.found.items, f.found.n, sizeof(struct pz_plan_change), by_time);
  *out = (struct pz_plan_changes){f.found.items, f.found.n};
  for (uint32_t i = 0; i < out->n && status == PZ_OK; i++)
    status = pz_plan_change_tell(r, &out->list[i], arena, err);
  return status;
}

enum pz_status pz_training_changes(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_training_run *r,
                                   struct pz_plan_changes **out, struct pz_error *err) {
  struct pz_job job = {.model = model, .chip = chip};
  struct pz_cluster wide;
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status = pz_need_each(err, {model, "model"}, {r, "run"}, {out, "out"});
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK) status = pz_cluster_take(net, r->plan.devices, &wide, &job.net, err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the changes", &made, &arena, err);
  if (status == PZ_OK) status = find_fitting(&job, r, arena, made, err);
  return pz_held_give(status, made, out);
}

void pz_plan_changes_free(struct pz_plan_changes *c) { pz_held_free(c); }
