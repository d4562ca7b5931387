#include "place/step_shape.h"

#include <math.h>

#include "core/num.h"

struct pz_training_plan pz_step_shape_plan(const struct pz_plan_question *q,
                                           const struct pz_step_shape *shape) {
  struct pz_training_plan p = q->common;
  p.tp = shape->tp;
  p.cp = shape->cp;
  p.ep = shape->ep;
  if (q->ep) p.etp = 0;
  p.mbs = shape->mbs;
  p.sequence_parallel = shape->sp;
  p.batch = q->batch;
  p.pp = p.vpp = p.dp = 1;
  p.recompute = PZ_RECOMPUTATION_NONE;
  p.recompute_layers = 0;
  p.stage_recompute = NULL;
  p.first_layers = p.last_layers = 0;
  p.zero = 0;
  return p;
}

enum pz_status pz_step_shape_open(const struct pz_plan_question *q, struct pz_step_shape *x,
                                  struct pz_error *err) {
  struct pz_training_plan p = pz_step_shape_plan(q, x);
  if (x->m) return PZ_OK;
  return pz_step_model_new(&q->model, q->chip, q->net, &p, &x->m, err);
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
                              int64_t rounds, enum pz_pipeline_order order, double *out) {
  struct pz_training_plan p = pz_step_shape_plan(q, x);
  const struct pz_step_model *m = x->m;
  p.order = order;
  enum pz_status status = pz_step_model_time(x->m, &p, rounds, &x->err);
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

/* In whatever order is fastest: in some rows on their way to experts do not show. */
static enum pz_status microbatch_s(const struct pz_plan_question *q, struct pz_step_shape *x,
                                   int64_t rounds, double *out) {
  double other = HUGE_VAL;
  enum pz_status status = order_s(q, x, rounds, q->common.order, out);
  if (status == PZ_OK && q->common.framework->dualpipe)
    status = order_s(q, x, rounds, PZ_PIPELINE_DUALPIPE, &other);
  *out = pz_fmin(*out, other);
  return status;
}

enum pz_status pz_step_shape_time(const struct pz_plan_question *q, struct pz_step_shape *x) {
  enum pz_status status = microbatch_s(q, x, 1, &x->once_s);
  return status == PZ_OK ? microbatch_s(q, x, 2, &x->several_s) : status;
}

double pz_step_shape_share(const struct pz_plan_question *q, const struct pz_step_shape *x) {
  return (double)(q->batch * x->tp * x->cp) / (double)(x->mbs * q->devices);
}
