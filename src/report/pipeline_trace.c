#include "report/pipeline_trace.h"

#include "core/trace_events.h"
#include "report/plan_table.h"

struct trace {
  const struct pz_partition *p;
  struct pz_trace_events events;
  int64_t shown; /* microbatches of a replica that are told */
};

static void add_stage(struct trace *t, uint32_t k) {
  const struct pz_partition *p = t->p;
  const struct pz_partition_stage *s = &p->stages[k];
  char text[256];
  int thread = (int)k + 1;
  pz_partition_stage_text(s, text, sizeof text);
  pz_trace_name(&t->events, "thread_name", thread, json_sprintf("stage %d: %s", thread, text));
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
  int64_t all = p->microbatches, most = PZ_PIPELINE_MOST_EVENTS / (2 * (int64_t)p->pp);
  struct trace t = {.p = p, .shown = all < most ? all : most};
  pz_trace_begin(&t.events);
  pz_trace_name(&t.events, "process_name", 0,
                json_sprintf("%s: %s%lld of %lld microbatches of one replica", model,
                             t.shown < all ? "the first " : "", (long long)t.shown,
                             (long long)all));
  for (uint32_t k = 0; k < p->pp; k++) add_stage(&t, k);
  return pz_trace_end(&t.events, text, err);
}
