/* The pipeline of a training run as a trace-event file (core/trace_events.h): one thread for
 * each stage, with its microbatches, the gradient exchange and the optimizer. */
#include <stdio.h>

#include "core/trace_events.h"

struct run_trace {
  const struct pz_training_run *run;
  const char *model;
  char **text;
};

/* Writes a span for each pass, and the gradient exchange and optimizer of each stage. */
static void trace_run(struct pz_call *call, void *ctx) {
  const struct run_trace *args = ctx;
  const struct pz_training_run *run = args->run;
  const struct pz_prediction *prediction = &run->p;
  if (run->n_events > PZ_TRACE_MOST_EVENTS)
    pz_raise(call, PZ_LIMIT, "a trace of %u events; accepted: at most %d (fewer microbatches)",
             run->n_events, PZ_TRACE_MOST_EVENTS);
  if (!(prediction->step_s < 1e6))
    pz_raise(call, PZ_LIMIT, "a trace of a step of %g s; accepted: below 1e6 s",
             prediction->step_s);
  double update_start_s = prediction->step_s - prediction->parts.optimizer_s;
  double exchange_start_s = update_start_s - prediction->parts.gradient_s;
  struct pz_trace_events *events = pz_trace_begin(call, "ms");
  pz_trace_name(events, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: one replica of %lld", args->model, (long long)run->plan.dp));
  for (uint32_t i = 0; i < run->n_events; i++) {
    const struct pz_pipeline_event *event = &run->events[i];
    const char *name = event->backward ? "backward" : "forward";
    char with_chunk[48];
    if (run->plan.vpp > 1) {
      snprintf(with_chunk, sizeof with_chunk, "%s chunk %u, microbatch", name, event->chunk + 1);
      name = with_chunk;
    }
    pz_trace_span(events, (int)event->stage + 1, name, (int64_t)event->microbatch + 1,
                  (const double[2]){event->start_s, event->end_s});
  }
  for (int k = 1; k <= (int)run->plan.pp; k++) {
    pz_trace_name(events, "thread_name", PZ_TRACE_PROCESS, k, json_sprintf("stage %d", k));
    pz_trace_span(events, k, "gradient exchange", -1,
                  (const double[2]){exchange_start_s, update_start_s});
    pz_trace_span(events, k, "optimizer", -1,
                  (const double[2]){update_start_s, prediction->step_s});
  }
  *args->text = pz_trace_take(events);
}

enum pz_status pz_training_run_trace(const struct pz_training_run *run, const char *model,
                                     char **text, struct pz_error *err) {
  struct run_trace args = {run, model, text};
  return pz_border(trace_run, &args, err);
}
