/* Schedules and pipelines as trace-event files (core/trace_events.h).  pz_schedule_trace() makes one process for each
 * schedule, with the operators in lanes (threads) and a counter for each resource; pz_partition_trace() makes one process
 * with a thread for each pipeline stage. */
#include <stdio.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "core/trace_events.h"
#include "report/schedule_table.h"

/* Viewers store times as 64-bit nanoseconds. */
static const double MOST_US = 1e12;

/* Frees events that were begun if an error is raised before they are written. */
static void discard_events(void *events) {
  char *text = NULL;
  if (pz_trace_end(events, &text, NULL) == PZ_OK) pz_free(text);
}

static struct pz_trace_events *begin_events(struct pz_call *call, const char *unit) {
  struct pz_trace_events *events = pz_alloc(call, 1, sizeof *events);
  pz_trace_begin(events, unit);
  pz_defer(call, discard_events, events);
  return events;
}

static void end_events(struct pz_call *call, struct pz_trace_events *events, char **text) {
  pz_undefer(call, events);
  pz_must(call, pz_trace_end(events, text, pz_call_error(call)));
}

/* ---- operators in lanes --------------------------------------------------------------------- */

struct schedule_trace {
  struct pz_trace_events *events;
  int threads; /* numbered over all processes, because some viewers identify threads by number alone */
};

enum lane_kind { LANE_TENSOR, LANE_VECTOR, LANE_LINK, LANE_KINDS };

static enum lane_kind lane_kind_of(enum pz_op_class c) {
  switch (c) {
  case PZ_CLASS_TENSOR:
  case PZ_CLASS_FUSED: return LANE_TENSOR;
  case PZ_CLASS_VECTOR: return LANE_VECTOR;
  case PZ_CLASS_COLLECTIVE: return LANE_LINK;
  case PZ_CLASS_NONE: break;
  }
  return LANE_KINDS;
}

static int64_t ticks_of(const struct pz_layer_schedule *s, double time) {
  return pz_trace_ticks(time * pz_scheduled_us(s));
}

static void add_operator(struct pz_trace_events *events, const struct pz_layer_schedule *s,
                         const struct pz_scheduled_operator *o, int process, int thread) {
  int64_t start = ticks_of(s, o->start_s), end = ticks_of(s, o->end_s);
  const char *op_class = pz_op_class_name(o->op_class);
  json_t *args = json_pack("{s:I,s:s,s:s?,s:I,s:I,s:f}", "op", (json_int_t)o->id, "class", op_class,
                           "mode", o->mode, "tensor_cores", (json_int_t)o->tensor_held,
                           "vector_cores", (json_int_t)o->vector_held, "joules", o->energy_j);
  pz_trace_add(events, start,
               json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:o}", "name", o->name, "cat", op_class,
                         "ph", "X", "pid", process, "tid", thread, "ts", pz_trace_us(start), "dur",
                         pz_trace_us(end - start), "args", args));
}

/* Adds the operators of one kind.  Each goes to the first lane that is free when it starts. */
static void add_lanes(struct pz_call *call, struct schedule_trace *t,
                      const struct pz_layer_schedule *s, enum lane_kind kind, int process,
                      const struct pz_scheduled_operator *const *operators, uint32_t n) {
  static const char *const names[] = {"tensor cores", "vector cores", "collectives"};
  int64_t *free_at = pz_alloc(call, n, sizeof *free_at);
  int first_thread = t->threads + 1;
  uint32_t n_lanes = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_scheduled_operator *o = operators[i];
    if (lane_kind_of(o->op_class) != kind) continue;
    uint32_t lane = 0;
    while (lane < n_lanes && free_at[lane] > ticks_of(s, o->start_s)) lane++;
    int thread = first_thread + (int)lane;
    if (lane == n_lanes) {
      pz_trace_name(t->events, "thread_name", process, thread, json_string(names[kind]));
      n_lanes++;
    }
    free_at[lane] = ticks_of(s, o->end_s);
    add_operator(t->events, s, o, process, thread);
  }
  t->threads += (int)n_lanes;
}

/* ---- counters ------------------------------------------------------------------------------- */

/* A change of the used resources when an operator starts or ends. */
struct usage_change {
  int64_t tick;
  double by[PZ_RESOURCES];
};

static int compare_ticks(const void *a, const void *b) {
  int64_t x = ((const struct usage_change *)a)->tick, y = ((const struct usage_change *)b)->tick;
  return (x > y) - (x < y);
}

static struct usage_change *list_changes(struct pz_call *call, const struct pz_layer_schedule *s,
                                         uint32_t *n) {
  struct usage_change *changes = pz_alloc(call, s->n_operators, 2 * sizeof *changes);
  *n = 0;
  for (uint32_t i = 0; i < s->n_operators; i++) {
    const struct pz_scheduled_operator *o = &s->operators[i];
    struct usage_change *start = &changes[(*n)++], *end = &changes[(*n)++];
    start->tick = ticks_of(s, o->start_s);
    end->tick = ticks_of(s, o->end_s);
    for (int r = 0; r < PZ_RESOURCES; r++) {
      start->by[r] = o->used[r];
      end->by[r] = -o->used[r];
    }
  }
  qsort(changes, *n, sizeof *changes, compare_ticks);
  return changes;
}

/* Rates, from PZ_HBM_RATE on, are fractions of the chip's and shown in percent; the others are counts. */
static void add_counter_value(struct pz_trace_events *events, int64_t tick, int process,
                              enum pz_resource r, double used) {
  static const char *const names[PZ_RESOURCES] = {"tensor cores", "vector cores", "link",
                                                  "hbm",          "glb",          "power"};
  bool rate = r >= PZ_HBM_RATE;
  json_t *value = rate ? json_real(100 * used) : json_integer((json_int_t)used);
  pz_trace_add(events, tick,
               json_pack("{s:s,s:s,s:i,s:f,s:{s:o}}", "name", names[r], "ph", "C", "pid", process,
                         "ts", pz_trace_us(tick), "args", rate ? "percent" : "used", value));
}

/* Adds a value wherever it changes.  Resources that are never used have no counter. */
static void add_counters(struct pz_call *call, struct pz_trace_events *events,
                         const struct pz_layer_schedule *s, int process) {
  double used[PZ_RESOURCES] = {0}, shown[PZ_RESOURCES];
  uint32_t n;
  struct usage_change *changes = list_changes(call, s, &n);
  for (int r = 0; r < PZ_RESOURCES; r++) shown[r] = s->use[r] > 0 ? -1 : 0;
  for (uint32_t i = 0; i < n; i++) {
    for (int r = 0; r < PZ_RESOURCES; r++) used[r] += changes[i].by[r];
    bool more_at_this_tick = i + 1 < n && changes[i + 1].tick == changes[i].tick;
    if (more_at_this_tick) continue;
    for (int r = 0; r < PZ_RESOURCES; r++) {
      if (s->use[r] > 0 && used[r] != shown[r])
        add_counter_value(events, changes[i].tick, process, (enum pz_resource)r, used[r]);
      shown[r] = used[r];
    }
  }
}

/* ---- schedules ------------------------------------------------------------------------------ */

struct schedules {
  const struct pz_layer_schedule *const *list;
  uint32_t n;
  char **text;
};

static void check_trace_limits(struct pz_call *call, const struct schedules *x) {
  uint64_t n_operators = 0;
  char title[256];
  for (uint32_t i = 0; i < x->n; i++) {
    const struct pz_layer_schedule *s = x->list[i];
    pz_require(call, s, "schedule");
    n_operators += s->n_operators;
    double us = s->makespan_s * pz_scheduled_us(s);
    if (!(us <= MOST_US))
      pz_raise(call, PZ_LIMIT, "a trace of %s would take %.3g us; accepted: at most %.0g us",
               pz_scheduled_title(s, title), us, MOST_US);
  }
  if (n_operators > PZ_TRACE_MOST_OPS)
    pz_raise(call, PZ_LIMIT, "a trace of %llu operators; accepted: at most %d",
             (unsigned long long)n_operators, PZ_TRACE_MOST_OPS);
}

static void trace_schedules(struct pz_call *call, void *ctx) {
  const struct schedules *x = ctx;
  pz_require(call, x->list, "list");
  pz_require(call, x->text, "text");
  check_trace_limits(call, x);
  struct schedule_trace t = {.events = begin_events(call, "ns"), .threads = (int)x->n};
  for (uint32_t i = 0; i < x->n; i++) {
    const struct pz_layer_schedule *s = x->list[i];
    int process = (int)i + 1;
    char title[256];
    uint32_t n;
    const struct pz_scheduled_operator **operators = pz_shown_operators(call, s, &n);
    pz_trace_name(t.events, "process_name", process, 0, json_string(pz_scheduled_title(s, title)));
    for (int k = 0; k < LANE_KINDS; k++)
      add_lanes(call, &t, s, (enum lane_kind)k, process, operators, n);
    add_counters(call, t.events, s, process);
  }
  end_events(call, t.events, x->text);
}

enum pz_status pz_schedule_trace(const struct pz_layer_schedule *const *list, uint32_t n,
                                 char **text, struct pz_error *err) {
  struct schedules x = {list, n, text};
  return pz_border(trace_schedules, &x, err);
}

/* ---- pipelines ------------------------------------------------------------------------------ */

/* If a pipeline has more events, only its first microbatches are shown, and the name of the process says so. */
enum { PIPELINE_MOST = 1 << 17 };

static void add_stage(struct pz_trace_events *events, const struct pz_partition *p, uint32_t stage,
                      int64_t microbatches_shown) {
  const struct pz_partition_stage *s = &p->stages[stage];
  char text[256];
  int thread = (int)stage + 1;
  pz_partition_stage_text(s, text, sizeof text);
  pz_trace_name(events, "thread_name", PZ_TRACE_PROCESS, thread,
                json_sprintf("stage %d: %s", thread, text));
  for (int64_t j = 0; j < microbatches_shown; j++) {
    double start = (double)(j + stage) * p->slowest_stage_s, middle = start + s->forward_s;
    pz_trace_span(events, thread, "forward", j, (double[2]){start, middle});
    pz_trace_span(events, thread, "backward", j, (double[2]){middle, start + s->load_s});
  }
  double end = (double)(p->microbatches + p->pp - 1) * p->slowest_stage_s;
  pz_trace_span(events, thread, "gradients", -1, (double[2]){end, end + p->parts.exchange_s});
}

struct pipeline {
  const struct pz_partition *partition;
  const char *model;
  char **text;
};

static void trace_pipeline(struct pz_call *call, void *ctx) {
  const struct pipeline *x = ctx;
  const struct pz_partition *p = x->partition;
  pz_require(call, p, "p");
  pz_require(call, x->model, "model");
  pz_require(call, x->text, "text");
  int64_t all = p->microbatches, shown = PIPELINE_MOST / (2 * (int64_t)p->pp);
  if (shown > all) shown = all;
  struct pz_trace_events *events = begin_events(call, "ms");
  pz_trace_name(events, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: %s%lld of %lld microbatches of one replica", x->model,
                             shown < all ? "the first " : "", (long long)shown, (long long)all));
  for (uint32_t k = 0; k < p->pp; k++) add_stage(events, p, k, shown);
  end_events(call, events, x->text);
}

enum pz_status pz_partition_trace(const struct pz_partition *p, const char *model, char **text,
                                  struct pz_error *err) {
  struct pipeline x = {p, model, text};
  return pz_border(trace_pipeline, &x, err);
}
