#include "place/step_shape.h"

#include <math.h>

#include "core/num.h"

struct pz_plan pz_step_shape_plan(const struct pz_plan_question *q,
                                  const struct pz_step_shape *shape) {
  struct pz_plan p = q->plan;
  p.tp = shape->tp;
  p.sp = shape->sp;
  p.cp = shape->cp;
  p.ep = shape->ep;
  p.mbs = shape->mbs;
  p.pp = p.vpp = p.dp = 1;
  p.pipeline = PZ_PIPELINE_1F1B;
  p.first_layers = p.last_layers = 0;
  p.zero = 0;
  p.recompute = PZ_RECOMPUTATION_NONE;
  p.recompute_layers = 0;
  p.stage_recompute = NULL;
  return p;
}

enum pz_status pz_step_shape_open(const struct pz_plan_question *q, struct pz_step_shape *x,
                                  struct pz_error *err) {
  struct pz_plan p = pz_step_shape_plan(q, x);
  if (x->m) return PZ_OK;
  return pz_step_model_new(&q->job, &p, &x->m, err);
}

void pz_step_shape_close(struct pz_step_shape *x) {
  pz_step_model_free(x->m);
  x->m = NULL;
}

static double kernels_s(const struct pz_pass *p) {
  return p->products_s + p->attention_s + p->elementwise_s;
}

/* Seconds of a microbatch through all layers, without recomputation.  On a torus collectives depend on the job's size:
 * there kernels alone. */
static enum pz_status order_s(const struct pz_plan_question *q, struct pz_step_shape *x,
                              int64_t microbatches, enum pz_pipeline_order order, double *out) {
  struct pz_plan p = pz_step_shape_plan(q, x);
  const struct pz_step_model *m = x->m;
  p.pipeline = (int)order;
  enum pz_status status = pz_step_model_time(x->m, &p, microbatches, &x->err);
  if (status != PZ_OK) return status;
  bool torus = m->cost.net.n_levels && m->cost.net.level[0].n_axes;
  *out = pz_layer_step_s(&m->steps.before) + pz_layer_step_s(&m->steps.after);
  for (uint32_t k = 0; k < m->kinds.n; k++)
    *out += (double)m->w->layers[m->kinds.layer[k]].count * pz_layer_step_s(&m->steps.block[k]);
  if (!torus) return PZ_OK;
  *out = 0;
  for (uint32_t l = 0; l < m->w->n_layers; l++)
    *out += (double)m->w->layers[l].count *
            (kernels_s(&m->kernels[l].forward) + kernels_s(&m->kernels[l].backward));
  return PZ_OK;
}

/* In whatever order is fastest: in some tokens on their way to experts do not show. */
static enum pz_status microbatch_s(const struct pz_plan_question *q, struct pz_step_shape *x,
                                   int64_t microbatches, unsigned allowed, double *out) {
  static const enum pz_pipeline_order orders[] = {PZ_PIPELINE_1F1B, PZ_PIPELINE_DUALPIPE_V,
                                                  PZ_PIPELINE_DUALPIPE};
  enum pz_status status = PZ_OK;
  *out = HUGE_VAL;
  for (size_t i = 0; i < sizeof orders / sizeof *orders && status == PZ_OK; i++) {
    double one = HUGE_VAL;
    if (!i || (x->ep > 1 && allowed >> orders[i] & 1))
      status = order_s(q, x, microbatches, orders[i], &one);
    *out = pz_fmin(*out, one);
  }
  return status;
}

enum pz_status pz_step_shape_time(const struct pz_plan_question *q, struct pz_step_shape *x,
                                  unsigned orders) {
  enum pz_status status = microbatch_s(q, x, 1, orders, &x->once_s);
  return status == PZ_OK ? microbatch_s(q, x, 2, orders, &x->several_s) : status;
}

double pz_step_shape_share(const struct pz_plan_question *q, const struct pz_step_shape *x) {
  return (double)(q->plan.batch * x->tp * x->cp) / (double)(x->mbs * q->plan.devices);
}
