/* The pipeline of a training run as a trace-event file: one thread per stage with its microbatches, gradient exchange and
 * optimizer. */
#include <stdio.h>

#include "core/trace_events.h"

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
