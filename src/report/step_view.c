/* Rows of a simulated step: pz_step_view_add() adds one row for the pipeline and one for each stage, whose passes are
 * columns of equal length (kind, chunk, microbatch, start, end, held activations), which is shorter than objects. */
#include "report/step_view.h"

#include <math.h>

#include "core/num.h"
#include "report/dataset.h"

/* The passes of one stage: the first and the last `half` are included, or all if `half` is their number. */
struct stage_passes {
  const struct pz_memory_curve *curve;
  uint32_t half;
};

static bool is_included(const struct stage_passes *p, uint32_t i) {
  return i < p->half || i >= p->curve->n - p->half;
}

/* One letter for each pass.  f: forward, b: backward, w: gradients of weights alone. */
static json_t *pass_kinds_json(struct pz_call *call, const struct stage_passes *p) {
  char *kinds = pz_alloc(call, (size_t)p->curve->n + 1, 1);
  size_t n = 0;
  for (uint32_t i = 0; i < p->curve->n; i++) {
    const struct pz_stage_pass *pass = &p->curve->passes[i];
    if (!is_included(p, i)) continue;
    char kind = pass->event->backward ? 'b' : 'f';
    kinds[n++] = pass->weights ? 'w' : kind;
  }
  return json_stringn(kinds, n);
}

enum pass_column { CHUNK, MICROBATCH, START_US, END_US, HELD_MB };

static int64_t pass_value(const struct pz_stage_pass *pass, enum pass_column column) {
  const struct pz_pipeline_event *e = pass->event;
  switch (column) {
  case CHUNK: return (int64_t)e->chunk + 1;
  case MICROBATCH: return (int64_t)e->microbatch + 1;
  case START_US: return llround(e->start_s * 1e6);
  case END_US: return llround(e->end_s * 1e6);
  case HELD_MB: break;
  }
  return llround(pass->activation_bytes / 1e6);
}

static json_t *pass_column_json(const struct stage_passes *p, enum pass_column column) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->curve->n; i++)
    if (is_included(p, i))
      json_array_append_new(list,
                            json_integer((json_int_t)pass_value(&p->curve->passes[i], column)));
  return list;
}

static json_t *stage_row(struct pz_call *call, const struct pz_step_view *v, int64_t stage) {
  const struct pz_memory_curve *c = &v->curves[stage];
  const struct pz_training_memory *m = &v->run->stages[stage];
  uint32_t half = v->most / (2 * (uint32_t)v->run->plan.pp);
  if (half < 1) half = 1;
  bool all = c->n <= 2 * half;
  struct stage_passes p = {c, all ? c->n : half};
  uint32_t left_out = all ? 0 : c->n - 2 * half;
  double states = m->weight_bytes + m->optimizer_bytes;
  double gradients = pz_fmin(m->gradient_bytes, c->constant_bytes - states);
  double peak =
      states + m->gradient_bytes + m->activation_bytes + m->reserve_bytes + pz_working_bytes(m);
  bool chunks = v->run->plan.vpp > 1;
  return json_pack(
      "[I,I,f,f,f,f,f,f,f,I,o,o,o,o,o,o]", (json_int_t)v->devices, (json_int_t)stage + 1,
      m->weight_bytes, gradients, m->optimizer_bytes, c->constant_bytes - states - gradients,
      c->most_bytes, pz_working_bytes(m), peak, (json_int_t)left_out, pass_kinds_json(call, &p),
      chunks ? pass_column_json(&p, CHUNK) : json_array(), pass_column_json(&p, MICROBATCH),
      pass_column_json(&p, START_US), pass_column_json(&p, END_US), pass_column_json(&p, HELD_MB));
}

static json_t *dataset_rows(struct pz_call *call, json_t *datasets, const char *name,
                            const char *columns) {
  json_t *rows = pz_dataset_rows(datasets, name);
  return rows ? rows : pz_dataset_new(call, datasets, name, columns);
}

void pz_step_view_add(struct pz_call *call, json_t *datasets, const struct pz_step_view *v) {
  const struct pz_training_run *r = v->run;
  const struct pz_prediction *p = &r->p;
  json_t *pipelines = dataset_rows(call, datasets, "pipelines",
                                   "devices,step_s,exchange_s,optimizer_s,hbm_bytes,stages,chunks,"
                                   "microbatches,passes,order");
  json_t *stages =
      dataset_rows(call, datasets, "stages",
                   "devices,stage,weight_bytes,gradient_bytes,optimizer_bytes,other_bytes,"
                   "most_bytes,working_bytes,peak_bytes,left_out,kind,chunk,microbatch,"
                   "start_us,end_us,held_mb");
  pz_dataset_append(call, pipelines,
                    json_pack("[I,f,f,f,f,I,I,I,I,s]", (json_int_t)v->devices, p->step_s,
                              p->parts.gradient_s, p->parts.optimizer_s, r->hbm_bytes,
                              (json_int_t)r->plan.pp, (json_int_t)r->plan.vpp,
                              (json_int_t)p->microbatches, (json_int_t)r->n_events,
                              pz_pipeline_names[r->plan.pipeline]));
  for (int64_t k = 0; k < r->plan.pp; k++) pz_dataset_append(call, stages, stage_row(call, v, k));
}
