#include "step/prediction_trace.h"

#include <stdio.h>

#include "core/trace_events.h"

static enum pz_status check_limits(const struct pz_training_run *r, struct pz_error *err) {
  if (r->n_events > PZ_PREDICTION_TRACE_MOST)
    return pz_fail(err, PZ_LIMIT, "a trace of %u events; accepted: at most %d (fewer microbatches)",
                   r->n_events, PZ_PREDICTION_TRACE_MOST);
  if (!(r->p.step_s < 1e6))
    return pz_fail(err, PZ_LIMIT, "a trace of a step of %g s; accepted: below 1e6 s", r->p.step_s);
  return PZ_OK;
}

static void add_event(struct pz_trace_events *t, const struct pz_training_run *r,
                      const struct pz_pipeline_event *e) {
  const char *kind = e->backward ? "backward" : "forward";
  char chunk[48];
  const double span[2] = {e->start_s, e->end_s};
  if (r->plan.vpp > 1) {
    snprintf(chunk, sizeof chunk, "%s chunk %u, microbatch", kind, e->chunk + 1);
    kind = chunk;
  }
  pz_trace_span(t, (int)e->stage + 1, kind, (int64_t)e->microbatch + 1, span);
}

enum pz_status pz_prediction_trace(const struct pz_training_run *r, const char *model, char **text,
                                   struct pz_error *err) {
  const struct pz_prediction *p = &r->p;
  struct pz_trace_events t;
  enum pz_status status = check_limits(r, err);
  if (status != PZ_OK) return status;
  double update = p->step_s - p->parts.optimizer_s, exchange = update - p->parts.gradient_s;
  pz_trace_begin(&t);
  pz_trace_name(&t, "process_name", 0,
                json_sprintf("%s: one replica of %lld", model, (long long)r->plan.dp));
  for (int64_t k = 0; k < r->plan.pp; k++)
    pz_trace_name(&t, "thread_name", (int)k + 1, json_sprintf("stage %lld", (long long)k + 1));
  for (uint32_t i = 0; i < r->n_events; i++) add_event(&t, r, &r->events[i]);
  for (int64_t k = 0; k < r->plan.pp; k++) {
    pz_trace_span(&t, (int)k + 1, "gradient exchange", -1, (const double[2]){exchange, update});
    pz_trace_span(&t, (int)k + 1, "optimizer", -1, (const double[2]){update, p->step_s});
  }
  return pz_trace_end(&t, text, err);
}
