#include "core/trace_events.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { PROCESS = 1 };

void pz_trace_begin(struct pz_trace_events *t) {
  *t = (struct pz_trace_events){json_array(), true};
}

static void add(struct pz_trace_events *t, json_t *event) {
  t->good = json_array_append_new(t->events, event) == 0 && t->good;
}

void pz_trace_name(struct pz_trace_events *t, const char *what, int thread, json_t *name) {
  add(t, json_pack("{s:s,s:s,s:i,s:i,s:{s:o}}", "name", what, "ph", "M", "pid", PROCESS, "tid",
                   thread, "args", "name", name ? name : json_string("(not UTF-8)")));
}

/* Whole 1024ths of a microsecond: exact in binary, so that neighbours do not overlap in viewers
 * that cut to nanoseconds. */
static double us(double s) { return floor(s * 1e6 * 1024 + 0.5) / 1024; }

void pz_trace_span(struct pz_trace_events *t, int thread, const char *kind, int64_t microbatch,
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

enum pz_status pz_trace_end(struct pz_trace_events *t, char **text, struct pz_error *err) {
  json_t *root = json_pack("{s:s,s:o}", "displayTimeUnit", "ms", "traceEvents", t->events);
  enum pz_status status = t->good && root
                              ? pz_json_text(root, text, err)
                              : pz_fail(err, PZ_NO_MEMORY, "out of memory for the trace");
  json_decref(root);
  return status;
}
