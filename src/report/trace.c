/* Schedules and pipelines as trace-event files. */
#include <stdio.h>
#include <stdlib.h>

#include "core/status.h"
#include "core/trace_events.h"
#include "report/schedule_table.h"

/* Times of viewers are 64-bit nanoseconds. */
static const double MOST_US = 1e12;

struct trace {
  struct pz_arena arena;
  struct pz_trace_events events;
  int threads; /* numbered over all processes: some viewers know threads by number alone */
};

static int64_t ticks_of(const struct pz_layer_schedule *s, double time) {
  return pz_trace_ticks(time * pz_scheduled_us(s));
}

/* ---- operators in lanes --------------------------------------------------------------------- */

enum lane_kind { LANE_TENSOR, LANE_VECTOR, LANE_LINK, LANE_KINDS };

static enum lane_kind kind_of(enum pz_op_class c) {
  switch (c) {
  case PZ_CLASS_TENSOR:
  case PZ_CLASS_FUSED: return LANE_TENSOR;
  case PZ_CLASS_VECTOR: return LANE_VECTOR;
  case PZ_CLASS_COLLECTIVE: return LANE_LINK;
  case PZ_CLASS_NONE: break;
  }
  return LANE_KINDS;
}

static void add_op(struct trace *t, const struct pz_layer_schedule *s,
                   const struct pz_scheduled_operator *o, int pid, int tid) {
  int64_t start = ticks_of(s, o->start_s), end = ticks_of(s, o->end_s);
  const char *op_class = pz_op_class_name(o->op_class);
  json_t *args = json_pack("{s:I,s:s,s:s?,s:I,s:I,s:f}", "op", (json_int_t)o->id, "class", op_class,
                           "mode", o->mode, "tensor_cores", (json_int_t)o->tensor_held,
                           "vector_cores", (json_int_t)o->vector_held, "joules", o->energy_j);
  pz_trace_add(&t->events, start,
               json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:o}", "name", o->name, "cat", op_class,
                         "ph", "X", "pid", pid, "tid", tid, "ts", pz_trace_us(start), "dur",
                         pz_trace_us(end - start), "args", args));
}

/* Every operator goes to the first lane of its kind that is free when it starts. */
static void add_lanes(struct trace *t, const struct pz_layer_schedule *s, enum lane_kind kind,
                      int pid, const struct pz_scheduled_operator **order, uint32_t n) {
  static const char *const names[] = {"tensor cores", "vector cores", "collectives"};
  uint32_t lanes = 0;
  int64_t *free_at = pz_arena_alloc(&t->arena, n, sizeof *free_at);
  int first = t->threads + 1;
  if (!free_at) t->events.good = false;
  for (uint32_t i = 0; i < n && free_at; i++) {
    uint32_t lane = 0;
    if (kind_of(order[i]->op_class) != kind) continue;
    while (lane < lanes && free_at[lane] > ticks_of(s, order[i]->start_s)) lane++;
    if (lane == lanes)
      pz_trace_name(&t->events, "thread_name", pid, first + (int)lanes++, json_string(names[kind]));
    free_at[lane] = ticks_of(s, order[i]->end_s);
    add_op(t, s, order[i], pid, first + (int)lane);
  }
  t->threads += (int)lanes;
}

/* ---- counters ------------------------------------------------------------------------------- */

struct change {
  int64_t tick;
  double by[PZ_RESOURCES];
};

static int by_tick(const void *a, const void *b) {
  int64_t x = ((const struct change *)a)->tick, y = ((const struct change *)b)->tick;
  return (x > y) - (x < y);
}

static uint32_t changes_of(const struct pz_layer_schedule *s, struct change *changes) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_operators; i++) {
    const struct pz_scheduled_operator *o = &s->operators[i];
    struct change on = {.tick = ticks_of(s, o->start_s)}, off = {.tick = ticks_of(s, o->end_s)};
    for (int r = 0; r < PZ_RESOURCES; r++) {
      on.by[r] = o->used[r];
      off.by[r] = -on.by[r];
    }
    changes[n++] = on;
    changes[n++] = off;
  }
  qsort(changes, n, sizeof *changes, by_tick);
  return n;
}

static void add_value(struct trace *t, int64_t tick, int pid, enum pz_resource r, double used) {
  static const char *const names[PZ_RESOURCES] = {"tensor cores", "vector cores", "link",
                                                  "hbm",          "glb",          "power"};
  bool rate = r >= PZ_HBM_RATE; /* a part of it */
  json_t *value = rate ? json_real(100 * used) : json_integer((json_int_t)used);
  pz_trace_add(&t->events, tick,
               json_pack("{s:s,s:s,s:i,s:f,s:{s:o}}", "name", names[r], "ph", "C", "pid", pid, "ts",
                         pz_trace_us(tick), "args", rate ? "percent" : "used", value));
}

/* A value wherever it changes; resources that are never used have none. */
static void add_counters(struct trace *t, const struct pz_layer_schedule *s, int pid,
                         struct change *changes) {
  double used[PZ_RESOURCES] = {0}, shown[PZ_RESOURCES];
  uint32_t n = changes_of(s, changes);
  for (int r = 0; r < PZ_RESOURCES; r++) shown[r] = s->use[r] > 0 ? -1 : 0;
  for (uint32_t i = 0; i < n; i++) {
    for (int r = 0; r < PZ_RESOURCES; r++) used[r] += changes[i].by[r];
    if (i + 1 < n && changes[i + 1].tick == changes[i].tick) continue;
    for (int r = 0; r < PZ_RESOURCES; r++) {
      if (s->use[r] > 0 && used[r] != shown[r])
        add_value(t, changes[i].tick, pid, (enum pz_resource)r, used[r]);
      shown[r] = used[r];
    }
  }
}

/* ---- all ------------------------------------------------------------------------------------ */

static void add_schedule(struct trace *t, const struct pz_layer_schedule *s, int pid) {
  uint32_t n;
  char title[256];
  const struct pz_scheduled_operator **order = pz_scheduled_order(s, &t->arena, &n);
  struct change *changes = pz_arena_alloc(&t->arena, s->n_operators, 2 * sizeof *changes);
  if (!order || !changes) {
    t->events.good = false;
    return;
  }
  pz_trace_name(&t->events, "process_name", pid, 0, json_string(pz_scheduled_title(s, title)));
  for (int k = 0; k < LANE_KINDS; k++) add_lanes(t, s, (enum lane_kind)k, pid, order, n);
  add_counters(t, s, pid, changes);
}

static enum pz_status check_limits(const struct pz_layer_schedule *const *list, uint32_t n,
                                   struct pz_error *err) {
  uint64_t ops = 0;
  char title[256];
  for (uint32_t i = 0; i < n; i++) {
    enum pz_status status = pz_need(list[i], "schedule", err);
    if (status != PZ_OK) return status;
    ops += list[i]->n_operators;
    double us = list[i]->makespan_s * pz_scheduled_us(list[i]);
    if (!(us <= MOST_US))
      return pz_fail(err, PZ_LIMIT, "a trace of %s would take %.3g us; accepted: at most %.0g us",
                     pz_scheduled_title(list[i], title), us, MOST_US);
  }
  if (ops <= PZ_TRACE_MOST_OPS) return PZ_OK;
  return pz_fail(err, PZ_LIMIT, "a trace of %llu operators; accepted: at most %d",
                 (unsigned long long)ops, PZ_TRACE_MOST_OPS);
}

enum pz_status pz_schedule_trace(const struct pz_layer_schedule *const *list, uint32_t n,
                                 char **text, struct pz_error *err) {
  enum pz_status status = pz_need_each(err, {list, "list"}, {text, "text"});
  if (status == PZ_OK) status = check_limits(list, n, err);
  if (status != PZ_OK) return status;
  struct trace t = {.threads = (int)n};
  pz_arena_init(&t.arena, NULL);
  pz_trace_begin(&t.events, "ns");
  for (uint32_t i = 0; i < n; i++) add_schedule(&t, list[i], (int)i + 1);
  status = pz_trace_end(&t.events, text, err);
  pz_arena_release(&t.arena);
  return status;
}

/* ---- pipelines ---------------------------------------------------------------------------------- */

/* Beyond so many events only the first microbatches are shown, and the name says so. */
enum { PIPELINE_MOST = 1 << 17 };

struct pipeline {
  const struct pz_partition *p;
  struct pz_trace_events events;
  int64_t shown; /* microbatches of a replica that are shown */
};

static void add_stage(struct pipeline *t, uint32_t k) {
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

enum pz_status pz_partition_trace(const struct pz_partition *p, const char *model, char **text,
                                  struct pz_error *err) {
  enum pz_status status = pz_need_each(err, {p, "p"}, {model, "model"}, {text, "text"});
  if (status != PZ_OK) return status;
  int64_t all = p->microbatches, most = PIPELINE_MOST / (2 * (int64_t)p->pp);
  struct pipeline t = {.p = p, .shown = all < most ? all : most};
  pz_trace_begin(&t.events, "ms");
  pz_trace_name(&t.events, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: %s%lld of %lld microbatches of one replica", model,
                             t.shown < all ? "the first " : "", (long long)t.shown,
                             (long long)all));
  for (uint32_t k = 0; k < p->pp; k++) add_stage(&t, k);
  return pz_trace_end(&t.events, text, err);
}
