#include "report/trace.h"

#include <math.h>
#include <stdlib.h>

#include "core/vec.h"
#include "schedule/model/use.h"

/* Times are whole 1024ths of a microsecond.  They are exact in binary, so the end of an event is
 * not after the start of the next on its lane, also in viewers that cut both to nanoseconds and
 * drop what overlaps. */
static const double TICKS_PER_US = 1024;

struct event {
  int64_t tick;
  uint32_t serial; /* equal times keep the order they were made in */
  json_t *json;
};

struct trace {
  struct pz_arena arena;
  struct pz_vec events;
  json_t *meta;
  int threads; /* numbered over all processes: some viewers know threads by number alone */
  bool failed;
};

static void add(struct trace *t, int64_t tick, json_t *json) {
  struct event e = {tick, t->events.n, json};
  if (json && pz_vec_push(&t->events, &e)) return;
  json_decref(json);
  t->failed = true;
}

static void name_it(struct trace *t, const char *what, int pid, int tid, const char *name) {
  json_t *text = json_string(name); /* the name of a file may be any bytes */
  json_t *e = json_pack("{s:s,s:s,s:i,s:i,s:{s:o}}", "name", what, "ph", "M", "pid", pid, "tid",
                        tid, "args", "name", text ? text : json_string("(not UTF-8)"));
  if (json_array_append_new(t->meta, e) != 0) t->failed = true;
}

static double us_of(int64_t ticks) { return (double)ticks / TICKS_PER_US; }

static int64_t ticks_of(const struct pz_scheduled *s, double time) {
  return (int64_t)floor(time * s->to_us * TICKS_PER_US + 0.5);
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

struct span {
  int64_t start, end;
  uint32_t task;
};

static int by_start(const void *a, const void *b) {
  const struct span *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return (x->task > y->task) - (x->task < y->task);
}

static uint32_t spans_of(const struct pz_scheduled *s, enum lane_kind kind, struct span *spans) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->problem.n; i++) {
    const struct pz_slot *slot = &s->schedule.slots[i];
    if (kind_of(s->problem.tasks[i].op_class) != kind) continue;
    spans[n++] = (struct span){ticks_of(s, slot->start), ticks_of(s, slot->end), i};
  }
  qsort(spans, n, sizeof *spans, by_start);
  return n;
}

static void add_op(struct trace *t, const struct pz_scheduled *s, const struct span *at, int pid,
                   int tid) {
  const struct pz_task *task = &s->problem.tasks[at->task];
  const struct pz_mode *m = &task->modes[s->schedule.slots[at->task].mode];
  const char *op_class = pz_op_class_name(task->op_class);
  char buf[16];
  json_t *args =
      json_pack("{s:I,s:s,s:s,s:i,s:i,s:f}", "op", (json_int_t)task->id, "class", op_class, "mode",
                pz_mode_name(m, buf), "tensor_cores", (int)m->use[PZ_TENSOR_CORES], "vector_cores",
                (int)m->use[PZ_VECTOR_CORES], "joules", m->j);
  add(t, at->start,
      json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:o}", "name", task->name, "cat", op_class, "ph", "X",
                "pid", pid, "tid", tid, "ts", us_of(at->start), "dur", us_of(at->end - at->start),
                "args", args));
}

/* Every operator goes to the first lane of its kind that is free when it starts. */
static void add_lanes(struct trace *t, const struct pz_scheduled *s, enum lane_kind kind, int pid,
                      struct span *spans) {
  static const char *const names[] = {"tensor cores", "vector cores", "collectives"};
  uint32_t n = spans_of(s, kind, spans), lanes = 0;
  int64_t *free_at = pz_arena_alloc(&t->arena, n, sizeof *free_at);
  int first = t->threads + 1;
  if (!free_at) t->failed = true;
  for (uint32_t i = 0; i < n && free_at; i++) {
    uint32_t lane = 0;
    while (lane < lanes && free_at[lane] > spans[i].start) lane++;
    if (lane == lanes) name_it(t, "thread_name", pid, first + (int)lanes++, names[kind]);
    free_at[lane] = spans[i].end;
    add_op(t, s, &spans[i], pid, first + (int)lane);
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
  add(t, tick,
      json_pack("{s:s,s:s,s:i,s:f,s:{s:o}}", "name", pz_resource_name(r), "ph", "C", "pid", pid,
                "ts", us_of(tick), "args", rate ? "percent" : "used", value));
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
  struct span *spans = pz_arena_alloc(&t->arena, s->problem.n, sizeof *spans);
  struct change *changes = pz_arena_alloc(&t->arena, s->problem.n, 2 * sizeof *changes);
  if (!spans || !changes) {
    t->failed = true;
    return;
  }
  name_it(t, "process_name", pid, 0, s->title);
  for (int k = 0; k < LANE_KINDS; k++) add_lanes(t, s, (enum lane_kind)k, pid, spans);
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

static int by_time(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->tick != y->tick) return x->tick < y->tick ? -1 : 1;
  return (x->serial > y->serial) - (x->serial < y->serial);
}

/* Names first, then events by time; takes over all references. */
static json_t *join(struct trace *t) {
  if (t->events.n) qsort(t->events.items, t->events.n, sizeof(struct event), by_time);
  for (uint32_t i = 0; i < t->events.n; i++)
    if (json_array_append_new(t->meta, pz_vec_at(&t->events, struct event, i)->json) != 0)
      t->failed = true;
  return json_pack("{s:s,s:o}", "displayTimeUnit", "ns", "traceEvents", t->meta);
}

enum pz_status pz_trace_text(const struct pz_scheduled *list, uint32_t n, char **text,
                             struct pz_error *err) {
  enum pz_status status = check_limits(list, n, err);
  if (status != PZ_OK) return status;
  struct trace t = {.meta = json_array(), .threads = (int)n};
  pz_arena_init(&t.arena, NULL);
  pz_vec_init(&t.events, &t.arena, sizeof(struct event));
  for (uint32_t i = 0; i < n; i++) add_schedule(&t, &list[i], (int)i + 1);
  json_t *root = join(&t);
  status = root && !t.failed ? pz_json_text(root, text, err)
                             : pz_fail(err, PZ_NO_MEMORY, "out of memory for the trace");
  json_decref(root);
  pz_arena_release(&t.arena);
  return status;
}
