#include "report/step_view.h"

#include <math.h>

#include "core/alloc.h"
#include "core/num.h"
#include "report/dataset.h"

/* Passes of a stage that are told: the first and the last `half`, or all. */
static uint32_t half_of(const struct pz_step_view *v, const struct pz_memory_curve *c) {
  uint32_t half = v->most / (2 * (uint32_t)v->run->plan.pp);
  if (half < 1) half = 1;
  return c->n > 2 * half ? half : c->n;
}

static bool is_told(uint32_t i, uint32_t n, uint32_t half) { return i < half || i >= n - half; }

/* ---- passes --------------------------------------------------------------------------------- */

/* f: forward, b: backward, w: gradients of weights alone. */
static json_t *kinds(const struct pz_memory_curve *c, uint32_t half) {
  char *text = pz_malloc((size_t)c->n + 1);
  size_t n = 0;
  if (!text) return NULL;
  for (uint32_t i = 0; i < c->n; i++)
    if (is_told(i, c->n, half))
      text[n++] = c->passes[i].weights ? 'w' : c->passes[i].event->backward ? 'b' : 'f';
  json_t *out = json_stringn(text, n);
  pz_free(text);
  return out;
}

enum column { CHUNK, MICROBATCH, START_US, END_US, HELD_MB };

static json_t *value(const struct pz_stage_pass *p, enum column which) {
  const struct pz_pipeline_event *e = p->event;
  switch (which) {
  case CHUNK: return json_integer(e->chunk + 1);
  case MICROBATCH: return json_integer(e->microbatch + 1);
  case START_US: return json_integer((json_int_t)llround(e->start_s * 1e6));
  case END_US: return json_integer((json_int_t)llround(e->end_s * 1e6));
  default: return json_integer((json_int_t)llround(p->activation_bytes / 1e6));
  }
}

static json_t *column(const struct pz_memory_curve *c, uint32_t half, enum column which) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < c->n && list; i++)
    if (is_told(i, c->n, half) && json_array_append_new(list, value(&c->passes[i], which)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static json_t *stage_row(const struct pz_step_view *v, int64_t k) {
  const struct pz_memory_curve *c = &v->curves[k];
  const struct pz_training_memory *m = &v->run->stages[k];
  uint32_t half = half_of(v, c), left_out = half < c->n ? c->n - 2 * half : 0;
  double states = m->weight_bytes + m->optimizer_bytes;
  double gradients = pz_fmin(m->gradient_bytes, c->constant_bytes - states);
  return json_pack(
      "[I,I,f,f,f,f,f,f,f,I,o,o,o,o,o,o]", (json_int_t)v->devices, (json_int_t)k + 1,
      m->weight_bytes, gradients, m->optimizer_bytes, c->constant_bytes - states - gradients,
      c->most_bytes, pz_working_bytes(m),
      states + m->gradient_bytes + m->activation_bytes + m->reserve_bytes + pz_working_bytes(m),
      (json_int_t)left_out, kinds(c, half),
      v->run->plan.vpp > 1 ? column(c, half, CHUNK) : json_array(), column(c, half, MICROBATCH),
      column(c, half, START_US), column(c, half, END_US), column(c, half, HELD_MB));
}

static json_t *pipeline_row(const struct pz_step_view *v) {
  const struct pz_training_run *r = v->run;
  const struct pz_prediction *p = &r->p;
  return json_pack("[I,f,f,f,f,I,I,I,I,s]", (json_int_t)v->devices, p->step_s, p->parts.gradient_s,
                   p->parts.optimizer_s, r->hbm_bytes, (json_int_t)r->plan.pp,
                   (json_int_t)r->plan.vpp, (json_int_t)p->microbatches, (json_int_t)r->n_events,
                   pz_pipeline_names[r->plan.pipeline]);
}

/* The rows of a dataset, which is made with the first run. */
static json_t *rows_of(json_t *datasets, const char *name, const char *columns) {
  json_t *rows = pz_dataset_rows(datasets, name);
  return rows ? rows : pz_dataset_add(datasets, name, columns);
}

bool pz_step_view_add(json_t *datasets, const struct pz_step_view *v) {
  json_t *pipelines = rows_of(datasets, "pipelines",
                              "devices,step_s,exchange_s,optimizer_s,hbm_bytes,stages,chunks,"
                              "microbatches,passes,order");
  json_t *stages = rows_of(datasets, "stages",
                           "devices,stage,weight_bytes,gradient_bytes,optimizer_bytes,other_bytes,"
                           "most_bytes,working_bytes,peak_bytes,left_out,kind,chunk,microbatch,"
                           "start_us,end_us,held_mb");
  bool good = pipelines && stages && pz_dataset_row(pipelines, pipeline_row(v));
  for (int64_t k = 0; k < v->run->plan.pp && good; k++)
    good = pz_dataset_row(stages, stage_row(v, k));
  return good;
}
