/* The pipeline of a training run as a trace-event file (core/trace_events.h): one thread for each stage, with its
 * microbatches, the gradient exchange and the optimizer. */
#include <stdio.h>

#include "core/trace_events.h"

static void add_pass(struct pz_trace_events *t, const struct pz_training_run *r,
                     const struct pz_pipeline_event *e) {
  const char *name = e->backward ? "backward" : "forward";
  char with_chunk[48];
  if (r->plan.vpp > 1) {
    snprintf(with_chunk, sizeof with_chunk, "%s chunk %u, microbatch", name, e->chunk + 1);
    name = with_chunk;
  }
  pz_trace_span(t, (int)e->stage + 1, name, (int64_t)e->microbatch + 1,
                (const double[2]){e->start_s, e->end_s});
}

struct run_trace {
  const struct pz_training_run *run;
  const char *model;
  char **text;
};

static void trace_run(struct pz_call *call, void *ctx) {
  const struct run_trace *x = ctx;
  const struct pz_training_run *r = x->run;
  const struct pz_prediction *p = &r->p;
  struct pz_trace_events t;
  if (r->n_events > PZ_TRACE_MOST_EVENTS)
    pz_raise(call, PZ_LIMIT, "a trace of %u events; accepted: at most %d (fewer microbatches)",
             r->n_events, PZ_TRACE_MOST_EVENTS);
  if (!(p->step_s < 1e6))
    pz_raise(call, PZ_LIMIT, "a trace of a step of %g s; accepted: below 1e6 s", p->step_s);
  double update_start = p->step_s - p->parts.optimizer_s;
  double exchange_start = update_start - p->parts.gradient_s;
  pz_trace_begin(&t, "ms");
  pz_trace_name(&t, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: one replica of %lld", x->model, (long long)r->plan.dp));
  for (uint32_t i = 0; i < r->n_events; i++) add_pass(&t, r, &r->events[i]);
  for (int k = 1; k <= (int)r->plan.pp; k++) {
    pz_trace_name(&t, "thread_name", PZ_TRACE_PROCESS, k, json_sprintf("stage %d", k));
    pz_trace_span(&t, k, "gradient exchange", -1, (const double[2]){exchange_start, update_start});
    pz_trace_span(&t, k, "optimizer", -1, (const double[2]){update_start, p->step_s});
  }
  pz_must(call, pz_trace_end(&t, x->text, pz_call_error(call)));
}

enum pz_status pz_training_run_trace(const struct pz_training_run *r, const char *model,
                                     char **text, struct pz_error *err) {
  struct run_trace x = {r, model, text};
  return pz_border(trace_run, &x, err);
}
