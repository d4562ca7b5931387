/* The best plans of a training run, for programs: options checked, the search, and each plan it found
 * predicted with its detail. */
#include <assert.h>

#include "chip/chip_json.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/sized.h"
#include "place/pipeline_order.h"
#include "place/plan_search.h"
#include "place/training_options.h"

/* What a caller holds; the plans stand first. */
struct owned {
  struct pz_training_plans plans;
  struct pz_arena arena;
};

/* What is asked, of whom. */
struct question {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *o;
  struct pz_training_options common; /* filled in: what is the same in every plan */
};

struct pz_training_place_options pz_training_place_options_default(void) {
  return (struct pz_training_place_options){.size = sizeof(struct pz_training_place_options),
                                            .framework = "megatron",
                                            .devices = 1,
                                            .batch = 1,
                                            .tp = PZ_FREE,
                                            .sequence_parallel = PZ_FREE,
                                            .cp = PZ_FREE,
                                            .ep = PZ_FREE,
                                            .pp = PZ_FREE,
                                            .vpp = PZ_FREE,
                                            .dp = PZ_FREE,
                                            .mbs = PZ_FREE,
                                            .zero = PZ_FREE,
                                            .recompute = PZ_FREE,
                                            .attention = PZ_AS_FRAMEWORK,
                                            .overlap = PZ_AS_FRAMEWORK,
                                            .execution = PZ_AS_FRAMEWORK,
                                            .top = 1};
}

/* ---- the question --------------------------------------------------------------------------- */

static enum pz_status check_pins(const struct pz_training_place_options *o, struct pz_error *err) {
  const int64_t most = 1 << 24;
  const struct {
    const char *name;
    int64_t v, min, max;
  } list[] = {{"tp", o->tp, 1, most},  {"sequence_parallel", o->sequence_parallel, 0, 1},
              {"cp", o->cp, 1, most},  {"ep", o->ep, 1, 1 << 16},
              {"pp", o->pp, 1, most},  {"vpp", o->vpp, 1, most},
              {"dp", o->dp, 1, most},  {"mbs", o->mbs, 1, most},
              {"zero", o->zero, 0, 3}, {"recompute", o->recompute, 0, PZ_RECOMPUTATIONS - 1}};
  enum pz_status status = pz_need_range("devices", o->devices, 1, most, err);
  if (status == PZ_OK) status = pz_need_range("batch", o->batch, 1, most, err);
  if (status == PZ_OK)
    status = pz_need_range("objective", o->objective, 0, PZ_PLAN_OBJECTIVES - 1, err);
  for (size_t i = 0; i < sizeof list / sizeof *list && status == PZ_OK; i++)
    if (list[i].v != PZ_FREE)
      status = pz_need_range(list[i].name, list[i].v, list[i].min, list[i].max, err);
  return status;
}

static enum pz_status refuse_tp(const struct question *x, const struct pz_workload *w,
                                struct pz_error *err) {
  int64_t tp = x->o->tp, kv = w->kv_heads ? w->kv_heads : w->heads;
  if (tp == PZ_FREE) return PZ_OK;
  if (tp > x->o->devices)
    return pz_fail(err, PZ_BAD_USE, "tp %lld with %lld devices; accepted: at most that",
                   (long long)tp, (long long)x->o->devices);
  if (w->heads && (w->heads % tp || kv % tp))
    return pz_fail(err, PZ_BAD_USE,
                   "tp %lld does not divide the attention heads of %s (%lld, %lld for keys and "
                   "values); accepted: divisors of both",
                   (long long)tp, x->model, (long long)w->heads, (long long)kv);
  return PZ_OK;
}

/* Pins that no plan can have together. */
static enum pz_status check_degrees(const struct pz_training_place_options *o,
                                    struct pz_error *err) {
  int64_t tp = pz_max(o->tp, 1), pp = pz_max(o->pp, 1), dp = pz_max(o->dp, 1),
          mbs = pz_max(o->mbs, 1);
  if (o->vpp > 1 && o->pp == 1)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
                   (long long)o->vpp);
  if ((double)tp * (double)pp * (double)dp > (double)o->devices)
    return pz_fail(err, PZ_BAD_USE,
                   "tp %lld x pp %lld x dp %lld with %lld devices; accepted: at most that",
                   (long long)tp, (long long)pp, (long long)dp, (long long)o->devices);
  if (o->batch % mbs || o->batch / mbs % dp)
    return pz_fail(
        err, PZ_BAD_USE,
        "a batch of %lld is not divided by mbs %lld x dp %lld; accepted: a multiple of these",
        (long long)o->batch, (long long)mbs, (long long)dp);
  return PZ_OK;
}

static enum pz_status check_model(const struct question *x, struct pz_error *err) {
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  o.seq = x->o->seq;
  enum pz_status status = pz_workload_load(x->model, &o, &w, err);
  if (status == PZ_OK) status = refuse_tp(x, w, err);
  pz_workload_free(w);
  return status == PZ_OK ? check_degrees(x->o, err) : status;
}

/* The framework's habits, taken from the plan of one device. */
static enum pz_status fill_common(struct question *x, struct pz_error *err) {
  const struct pz_training_place_options *o = x->o;
  x->common = pz_training_options_default();
  x->common.framework = o->framework;
  x->common.seq = o->seq;
  x->common.attention = o->attention;
  x->common.overlap = o->overlap;
  x->common.execution = o->execution;
  x->common.precision = o->precision;
  x->common.grad_bytes = o->grad_bytes;
  x->common.attention_library = o->attention_library;
  enum pz_status status = pz_training_options_fill(&x->common, err);
  if (status == PZ_OK && o->overlap < 0)
    x->common.overlap |= (int)pz_framework_find(x->common.framework)->turns_on;
  x->common.shard = 0; /* over all replicas, however many */
  return status;
}

static struct pz_plan_question plan_question(const struct question *x,
                                             const struct pz_cluster *net) {
  const struct pz_training_place_options *o = x->o;
  return (struct pz_plan_question){.model = pz_training_model_of(x->model, &x->common),
                                   .chip = x->chip,
                                   .net = net,
                                   .devices = o->devices,
                                   .batch = o->batch,
                                   .common = pz_training_plan_of(&x->common),
                                   .tp = o->tp,
                                   .sp = o->sequence_parallel,
                                   .cp = o->cp,
                                   .ep = o->ep,
                                   .pp = o->pp,
                                   .vpp = o->vpp,
                                   .dp = o->dp,
                                   .mbs = o->mbs,
                                   .zero = o->zero,
                                   .recompute = o->recompute,
                                   .uniform = o->uniform,
                                   .all_devices = o->all_devices,
                                   .objective = (enum pz_plan_objective)o->objective,
                                   .top = o->top,
                                   .threads = o->threads};
}

/* ---- the answer ----------------------------------------------------------------------------- */

static struct pz_training_options found_options(const struct question *x,
                                                const struct pz_training_plan *p) {
  struct pz_training_options o = x->common;
  o.devices = pz_plan_devices(p);
  o.cp = p->cp;
  o.ep = p->ep;
  o.etp = p->etp;
  o.tp = p->tp;
  o.pp = p->pp;
  o.vpp = p->vpp;
  o.dp = p->dp;
  o.mbs = p->mbs;
  o.batch = p->batch;
  o.sequence_parallel = p->sequence_parallel;
  o.recompute = (int)p->recompute;
  o.recompute_layers = p->recompute_layers;
  o.stage_recompute = p->stage_recompute;
  o.zero = p->zero;
  o.pipeline = p->vpp > 1 && !pz_is_v_pipeline(p->order) ? PZ_AS_FRAMEWORK : (int)p->order;
  o.first_layers = p->first_layers;
  o.last_layers = p->last_layers;
  return o;
}

static enum pz_status detail(const struct question *x, const struct pz_cluster *net,
                             const struct pz_found_plans *found, struct owned *own,
                             struct pz_error *err) {
  struct pz_training_plans *out = &own->plans;
  enum pz_status status = PZ_OK;
  out->certificate = found->certificate;
  out->runs = pz_arena_alloc(&own->arena, found->n + 1, sizeof(struct pz_training_run *));
  if (!out->runs) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < found->n && status == PZ_OK; i++) {
    struct pz_training_options o = found_options(x, &found->list[i].plan);
    o.events = i == 0 && x->o->events;
    status = pz_training_predict(x->model, x->chip, net, &o, &out->runs[i], err);
    if (status != PZ_OK) break;
    assert(out->runs[i]->p.step_s == found->list[i].p.step_s);
    out->n++;
  }
  if (status == PZ_OK && !found->n && found->has_least) {
    struct pz_training_options o = found_options(x, &found->least.plan);
    status = pz_training_predict(x->model, x->chip, net, &o, &out->least, err);
  }
  return status;
}

static enum pz_status search(const struct question *x, struct owned *own, struct pz_error *err) {
  struct pz_cluster wide;
  struct pz_found_plans found;
  struct pz_arena arena;
  enum pz_status status = PZ_OK;
  if (x->net) {
    wide = *x->net;
    status = pz_cluster_reach(&wide, x->o->devices, "devices", err);
  }
  if (status != PZ_OK) return status;
  struct pz_plan_question q = plan_question(x, x->net ? &wide : NULL);
  pz_arena_init(&arena, NULL);
  status = pz_plan_search(&q, &arena, &found, err);
  if (status == PZ_OK) status = detail(x, q.net, &found, own, err);
  pz_arena_release(&arena);
  return status;
}

enum pz_status pz_training_place(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net,
                                 const struct pz_training_place_options *options,
                                 struct pz_training_plans **out, struct pz_error *err) {
  struct pz_training_place_options o = pz_training_place_options_default();
  struct question x = {.model = model, .chip = chip, .net = net, .o = &o};
  enum pz_status status =
      pz_sized_take(&o, sizeof o, options, "pz_training_place_options_default", err);
  if (status == PZ_OK) status = pz_need(model, "model", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK && net) status = pz_cluster_check(net, err);
  if (status == PZ_OK) status = check_pins(&o, err);
  if (status == PZ_OK) status = fill_common(&x, err);
  if (status == PZ_OK) status = check_model(&x, err);
  if (status != PZ_OK) return status;
  struct owned *own = pz_calloc(1, sizeof *own);
  if (!own) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  pz_arena_init(&own->arena, NULL);
  status = search(&x, own, err);
  if (status == PZ_OK)
    *out = &own->plans;
  else
    pz_training_plans_free(&own->plans);
  return status;
}

void pz_training_plans_free(struct pz_training_plans *p) {
  struct owned *own = (struct owned *)(void *)p;
  if (!own) return;
  for (uint32_t i = 0; i < p->n; i++) pz_training_run_free(p->runs[i]);
  pz_training_run_free(p->least);
  pz_arena_release(&own->arena);
  pz_free(own);
}
