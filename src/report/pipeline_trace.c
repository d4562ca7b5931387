#include "report/pipeline_trace.h"

#include <stdio.h>

#include "core/trace_events.h"
#include "report/plan_table.h"

struct trace {
  const struct pz_partition *p;
  struct pz_trace_events events;
  int64_t shown; /* microbatches of a replica that are shown */
};

static void add_stage(struct trace *t, uint32_t k) {
  const struct pz_partition *p = t->p;
  const struct pz_partition_stage *s = &p->stages[k];
  char text[256];
  int thread = (int)k + 1;
  pz_partition_stage_text(s, text, sizeof text);
  pz_trace_name(&t->events, "thread_name", PZ_TRACE_PROCESS, thread,
                json_sprintf("stage %d: %s", thread, text));
  for (int64_t j = 0; j < t->shown; j++) {
    double from = (double)(j + k) * p->slowest_stage_s, middle = from + s->forward_s;
    pz_trace_span(&t->events, thread, "forward", j, (double[2]){from, middle});
    pz_trace_span(&t->events, thread, "backward", j, (double[2]){middle, from + s->load_s});
  }
  double end = (double)(p->microbatches + p->pp - 1) * p->slowest_stage_s;
  pz_trace_span(&t->events, thread, "gradients", -1, (double[2]){end, end + p->parts.exchange_s});
}

enum pz_status pz_pipeline_trace(const struct pz_partition *p, const char *model, char **text,
                                 struct pz_error *err) {
  int64_t all = p->microbatches, most = PZ_PIPELINE_TRACE_MOST / (2 * (int64_t)p->pp);
  struct trace t = {.p = p, .shown = all < most ? all : most};
  pz_trace_begin(&t.events, "ms");
  pz_trace_name(&t.events, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: %s%lld of %lld microbatches of one replica", model,
                             t.shown < all ? "the first " : "", (long long)t.shown,
                             (long long)all));
  for (uint32_t k = 0; k < p->pp; k++) add_stage(&t, k);
  return pz_trace_end(&t.events, text, err);
}

/* ---- of a training run ---------------------------------------------------------------------- */

static void add_event(struct pz_trace_events *t, const struct pz_training_run *r,
                      const struct pz_pipeline_event *e) {
  const char *kind = e->backward ? "backward" : "forward";
  char chunk[48];
  if (r->plan.vpp > 1) {
    snprintf(chunk, sizeof chunk, "%s chunk %u, microbatch", kind, e->chunk + 1);
    kind = chunk;
  }
  pz_trace_span(t, (int)e->stage + 1, kind, (int64_t)e->microbatch + 1,
                (const double[2]){e->start_s, e->end_s});
}

enum pz_status pz_training_run_trace(const struct pz_training_run *r, const char *model,
                                     char **text, struct pz_error *err) {
  const struct pz_prediction *p = &r->p;
  struct pz_trace_events t;
  if (r->n_events > PZ_TRACE_MOST_EVENTS)
    return pz_fail(err, PZ_LIMIT, "a trace of %u events; accepted: at most %d (fewer microbatches)",
                   r->n_events, PZ_TRACE_MOST_EVENTS);
  if (!(p->step_s < 1e6))
    return pz_fail(err, PZ_LIMIT, "a trace of a step of %g s; accepted: below 1e6 s", p->step_s);
  double update = p->step_s - p->parts.optimizer_s, exchange = update - p->parts.gradient_s;
  pz_trace_begin(&t, "ms");
  pz_trace_name(&t, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: one replica of %lld", model, (long long)r->plan.dp));
  for (uint32_t i = 0; i < r->n_events; i++) add_event(&t, r, &r->events[i]);
  for (int k = 1; k <= (int)r->plan.pp; k++) {
    pz_trace_name(&t, "thread_name", PZ_TRACE_PROCESS, k, json_sprintf("stage %d", k));
    pz_trace_span(&t, k, "gradient exchange", -1, (const double[2]){exchange, update});
    pz_trace_span(&t, k, "optimizer", -1, (const double[2]){update, p->step_s});
  }
  return pz_trace_end(&t, text, err);
}
