#include "report/pipeline_trace.h"

#include <inttypes.h>
#include <math.h>

#include "core/alloc.h"
#include "place/cost.h"

enum { PROCESS = 1 };

struct trace {
  const struct pz_planned *p;
  json_t *events;
  int64_t rounds, shown; /* microbatches of a replica: all, told */
  bool good;
};

static void add(struct trace *t, json_t *event) {
  t->good = json_array_append_new(t->events, event) == 0 && t->good;
}

static void add_name(struct trace *t, const char *what, int thread, json_t *name) {
  add(t, json_pack("{s:s,s:s,s:i,s:i,s:{s:o}}", "name", what, "ph", "M", "pid", PROCESS, "tid",
                   thread, "args", "name", name));
}

/* Whole 1024ths of a microsecond: exact in binary, so that neighbours do not overlap in viewers
 * that cut to nanoseconds. */
static double us(double s) { return floor(s * 1e6 * 1024 + 0.5) / 1024; }

static void add_span(struct trace *t, int thread, const char *kind, int64_t microbatch,
                     const double span_s[2]) {
  char name[48];
  if (!(span_s[1] > span_s[0])) return;
  if (microbatch >= 0)
    snprintf(name, sizeof name, "%s %" PRId64, kind, microbatch);
  else
    snprintf(name, sizeof name, "%s", kind);
  add(t,
      json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f}", "name", name, "cat", kind, "ph", "X", "pid",
                PROCESS, "tid", thread, "ts", us(span_s[0]), "dur", us(span_s[1]) - us(span_s[0])));
}

static void add_stage(struct trace *t, uint32_t k, double forward_s) {
  const struct pz_plan *plan = t->p->plan;
  const struct pz_stage *s = &plan->stages[k];
  char text[256];
  int thread = (int)k + 1;
  pz_planned_stage(t->p, s, text, sizeof text);
  add_name(t, "thread_name", thread, json_sprintf("stage %d: %s", thread, text));
  for (int64_t j = 0; j < t->shown; j++) {
    double from = (double)(j + k) * plan->maxload_s, middle = from + forward_s;
    add_span(t, thread, "forward", j, (double[2]){from, middle});
    add_span(t, thread, "backward", j, (double[2]){middle, from + s->load_s});
  }
  double end = (double)(t->rounds + plan->n_stages - 1) * plan->maxload_s;
  add_span(t, thread, "gradients", -1, (double[2]){end, end + plan->resync_s});
}

static enum pz_status add_stages(struct trace *t, struct pz_error *err) {
  const struct pz_plan *plan = t->p->plan;
  const struct pz_place_width *w = &t->p->model->p.widths[plan->width];
  uint32_t *stage = pz_calloc(w->n, sizeof *stage);
  if (!stage) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the trace");
  for (uint32_t k = 0; k < plan->n_stages; k++)
    for (uint32_t i = 0; i < plan->stages[k].n; i++) stage[plan->stages[k].layers[i]] = k;
  for (uint32_t k = 0; k < plan->n_stages; k++)
    add_stage(t, k, pz_stage_sum(&t->p->model->p, w, stage, k).forward_s);
  pz_free(stage);
  return PZ_OK;
}

enum pz_status pz_pipeline_trace(const struct pz_planned *p, const char *model, char **text,
                                 struct pz_error *err) {
  int64_t rounds = (p->model->p.microbatches + p->plan->d - 1) / p->plan->d;
  int64_t most = PZ_PIPELINE_MOST_EVENTS / (2 * (int64_t)p->plan->n_stages);
  struct trace t = {p, json_array(), rounds, rounds < most ? rounds : most, true};
  add_name(&t, "process_name", 0,
           json_sprintf("%s: %s%lld of %lld microbatches of one replica", model,
                        t.shown < rounds ? "the first " : "", (long long)t.shown,
                        (long long)rounds));
  enum pz_status status = add_stages(&t, err);
  json_t *root = json_pack("{s:s,s:o}", "displayTimeUnit", "ms", "traceEvents", t.events);
  if (status == PZ_OK && (!t.good || !root))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the trace");
  if (status == PZ_OK) status = pz_json_text(root, text, err);
  json_decref(root);
  return status;
}
