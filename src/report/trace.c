#include "report/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/trace_events.h"
#include "schedule/model/schedule.h"

struct trace {
  struct pz_arena arena;
  struct pz_trace_events events;
  int threads; /* numbered over all processes: some viewers know threads by number alone */
};

static int64_t ticks_of(const struct pz_scheduled *s, double time) {
  return pz_trace_ticks(time * s->to_us);
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

static void add_op(struct trace *t, const struct pz_scheduled *s, uint32_t at, int pid, int tid) {
  const struct pz_task *task = &s->problem.tasks[at];
  const struct pz_slot *slot = &s->schedule.slots[at];
  const struct pz_mode *m = &task->modes[slot->mode];
  int64_t start = ticks_of(s, slot->start), end = ticks_of(s, slot->end);
  const char *op_class = pz_op_class_name(task->op_class);
  char buf[16];
  json_t *args =
      json_pack("{s:I,s:s,s:s,s:i,s:i,s:f}", "op", (json_int_t)task->id, "class", op_class, "mode",
                pz_mode_name(m, buf), "tensor_cores", (int)m->use[PZ_TENSOR_CORES], "vector_cores",
                (int)m->use[PZ_VECTOR_CORES], "joules", m->j);
  pz_trace_add(&t->events, start,
               json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:o}", "name", task->name, "cat", op_class,
                         "ph", "X", "pid", pid, "tid", tid, "ts", pz_trace_us(start), "dur",
                         pz_trace_us(end - start), "args", args));
}

/* Every operator goes to the first lane of its kind that is free when it starts. */
static void add_lanes(struct trace *t, const struct pz_scheduled *s, enum lane_kind kind, int pid,
                      const uint32_t *order, uint32_t n) {
  static const char *const names[] = {"tensor cores", "vector cores", "collectives"};
  uint32_t lanes = 0;
  int64_t *free_at = pz_arena_alloc(&t->arena, n, sizeof *free_at);
  int first = t->threads + 1;
  if (!free_at) t->events.good = false;
  for (uint32_t i = 0; i < n && free_at; i++) {
    const struct pz_slot *slot = &s->schedule.slots[order[i]];
    uint32_t lane = 0;
    if (kind_of(s->problem.tasks[order[i]].op_class) != kind) continue;
    while (lane < lanes && free_at[lane] > ticks_of(s, slot->start)) lane++;
    if (lane == lanes)
      pz_trace_name(&t->events, "thread_name", pid, first + (int)lanes++, json_string(names[kind]));
    free_at[lane] = ticks_of(s, slot->end);
    add_op(t, s, order[i], pid, first + (int)lane);
  }
  t->threads += (int)lanes;
}

/* ---- counters ------------------------------------------------------------------------------- */

struct change {
  int64_t tick;
  int64_t by[PZ_RESOURCES];
};

static int by_tick(const void *a, const void *b) {
  int64_t x = ((const struct change *)a)->tick, y = ((const struct change *)b)->tick;
  return (x > y) - (x < y);
}

static uint32_t changes_of(const struct pz_scheduled *s, struct change *changes) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->problem.n; i++) {
    const struct pz_slot *slot = &s->schedule.slots[i];
    struct change on = {.tick = ticks_of(s, slot->start)}, off = {.tick = ticks_of(s, slot->end)};
    for (int r = 0; r < PZ_RESOURCES; r++) {
      on.by[r] = pz_task_use(&s->problem.tasks[i], slot->mode, (enum pz_resource)r);
      off.by[r] = -on.by[r];
    }
    changes[n++] = on;
    changes[n++] = off;
  }
  qsort(changes, n, sizeof *changes, by_tick);
  return n;
}

static void add_value(struct trace *t, int64_t tick, int pid, enum pz_resource r, int64_t used) {
  bool rate = r == PZ_HBM_RATE || r == PZ_GLB_RATE;
  json_t *value = rate ? json_real(100.0 * (double)used / PZ_RATE_PARTS) : json_integer(used);
  pz_trace_add(&t->events, tick,
               json_pack("{s:s,s:s,s:i,s:f,s:{s:o}}", "name", pz_resource_name(r), "ph", "C", "pid",
                         pid, "ts", pz_trace_us(tick), "args", rate ? "percent" : "used", value));
}

/* A value wherever it changes; resources that are never used have none. */
static void add_counters(struct trace *t, const struct pz_scheduled *s, int pid,
                         struct change *changes) {
  int64_t used[PZ_RESOURCES] = {0}, shown[PZ_RESOURCES];
  double share[PZ_RESOURCES];
  uint32_t n = changes_of(s, changes);
  pz_schedule_use(&s->problem, s->schedule.slots, s->schedule.makespan, share);
  for (int r = 0; r < PZ_RESOURCES; r++) shown[r] = share[r] > 0 ? -1 : 0;
  for (uint32_t i = 0; i < n; i++) {
    for (int r = 0; r < PZ_RESOURCES; r++) used[r] += changes[i].by[r];
    if (i + 1 < n && changes[i + 1].tick == changes[i].tick) continue;
    for (int r = 0; r < PZ_RESOURCES; r++) {
      if (share[r] > 0 && used[r] != shown[r])
        add_value(t, changes[i].tick, pid, (enum pz_resource)r, used[r]);
      shown[r] = used[r];
    }
  }
}

/* ---- all ------------------------------------------------------------------------------------ */

static void add_schedule(struct trace *t, const struct pz_scheduled *s, int pid) {
  uint32_t n;
  const uint32_t *order = pz_scheduled_order(s, &t->arena, &n);
  struct change *changes = pz_arena_alloc(&t->arena, s->problem.n, 2 * sizeof *changes);
  if (!order || !changes) {
    t->events.good = false;
    return;
  }
  pz_trace_name(&t->events, "process_name", pid, 0, json_string(s->title));
  for (int k = 0; k < LANE_KINDS; k++) add_lanes(t, s, (enum lane_kind)k, pid, order, n);
  add_counters(t, s, pid, changes);
}

static enum pz_status check_limits(const struct pz_scheduled *list, uint32_t n,
                                   struct pz_error *err) {
  uint64_t ops = 0;
  for (uint32_t i = 0; i < n; i++) {
    ops += list[i].problem.n;
    double us = list[i].schedule.makespan * list[i].to_us;
    if (!(us <= PZ_TRACE_MOST_US))
      return pz_fail(err, PZ_LIMIT, "a trace of %s would take %.3g us; accepted: at most %.0g us",
                     list[i].title, us, PZ_TRACE_MOST_US);
  }
  if (ops <= PZ_TRACE_MOST_OPS) return PZ_OK;
  return pz_fail(err, PZ_LIMIT, "a trace of %llu operators; accepted: at most %d",
                 (unsigned long long)ops, PZ_TRACE_MOST_OPS);
}

enum pz_status pz_trace_text(const struct pz_scheduled *list, uint32_t n, char **text,
                             struct pz_error *err) {
  enum pz_status status = check_limits(list, n, err);
  if (status != PZ_OK) return status;
  struct trace t = {.threads = (int)n};
  pz_arena_init(&t.arena, NULL);
  pz_trace_begin(&t.events, "ns");
  for (uint32_t i = 0; i < n; i++) add_schedule(&t, &list[i], (int)i + 1);
  status = pz_trace_end(&t.events, text, err);
  pz_arena_release(&t.arena);
  return status;
}

/* ---- pipelines ---------------------------------------------------------------------------------- */

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

enum pz_status pz_pipeline_trace(const struct pz_partition *p, const char *model, char **text,
                                 struct pz_error *err) {
  int64_t all = p->microbatches, most = PZ_PIPELINE_TRACE_MOST / (2 * (int64_t)p->pp);
  struct pipeline t = {.p = p, .shown = all < most ? all : most};
  pz_trace_begin(&t.events, "ms");
  pz_trace_name(&t.events, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: %s%lld of %lld microbatches of one replica", model,
                             t.shown < all ? "the first " : "", (long long)t.shown,
                             (long long)all));
  for (uint32_t k = 0; k < p->pp; k++) add_stage(&t, k);
  return pz_trace_end(&t.events, text, err);
}
