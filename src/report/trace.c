/* Schedules and pipelines as trace-event files (core/trace_events.h): a process for each schedule,
 * with operators in lanes (threads) and resource counters, or a thread for each pipeline stage. */
#include <stdlib.h>

#include "core/alloc.h"
#include "core/trace_events.h"
#include "report/schedule_table.h"

/* Viewers store times as 64-bit nanoseconds. */
static const double MOST_US = 1e12;

/* ---- operators in lanes --------------------------------------------------------------------- */

enum lane_kind { LANE_TENSOR, LANE_VECTOR, LANE_LINK, LANE_KINDS };

/* Kinds of lanes by class of operator; operators without a class are not shown. */
static const enum lane_kind lane_kinds[] = {[PZ_CLASS_TENSOR] = LANE_TENSOR,
                                            [PZ_CLASS_VECTOR] = LANE_VECTOR,
                                            [PZ_CLASS_FUSED] = LANE_TENSOR,
                                            [PZ_CLASS_NONE] = LANE_KINDS,
                                            [PZ_CLASS_COLLECTIVE] = LANE_LINK};

/* Adds the operators of one kind and returns the number of their lanes.  A lane is a thread of the
 * trace; an operator uses the first lane that is free when it starts.  Numbers of threads are
 * unique over all processes, because some viewers identify threads by number alone. */
static int add_lanes(struct pz_call *call, struct pz_trace_events *events,
                     const struct pz_layer_schedule *schedule, enum lane_kind kind, int process,
                     int first_thread) {
  static const char *const names[] = {"tensor cores", "vector cores", "collectives"};
  uint32_t n, n_lanes = 0;
  const struct pz_scheduled_operator **operators = pz_shown_operators(call, schedule, &n);
  int64_t *lane_end = pz_alloc(call, n, sizeof *lane_end);
  double to_us = schedule->layer ? 1e6 : 1;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_scheduled_operator *op = operators[i];
    if (lane_kinds[op->op_class] != kind) continue;
    int64_t start = pz_trace_ticks(op->start_s * to_us), end = pz_trace_ticks(op->end_s * to_us);
    uint32_t lane = 0;
    while (lane < n_lanes && lane_end[lane] > start) lane++;
    int thread = first_thread + (int)lane;
    if (lane == n_lanes) {
      pz_trace_name(events, "thread_name", process, thread, json_string(names[kind]));
      n_lanes++;
    }
    lane_end[lane] = end;
    const char *op_class = pz_op_class_name(op->op_class);
    json_t *details =
        json_pack("{s:I,s:s,s:s?,s:I,s:I,s:f}", "op", (json_int_t)op->id, "class", op_class, "mode",
                  op->mode, "tensor_cores", (json_int_t)op->tensor_held, "vector_cores",
                  (json_int_t)op->vector_held, "joules", op->energy_j);
    pz_trace_add(events, start,
                 json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f,s:o}", "name", op->name, "cat", op_class,
                           "ph", "X", "pid", process, "tid", thread, "ts", pz_trace_us(start),
                           "dur", pz_trace_us(end - start), "args", details));
  }
  return (int)n_lanes;
}

/* ---- counters ------------------------------------------------------------------------------- */

/* The change of the used resources when an operator starts or ends. */
struct usage_change {
  int64_t tick;
  double change[PZ_RESOURCES];
};

static int compare_ticks(const void *a, const void *b) {
  int64_t first_tick = ((const struct usage_change *)a)->tick,
          second_tick = ((const struct usage_change *)b)->tick;
  return (first_tick > second_tick) - (first_tick < second_tick);
}

/* Adds a counter for each resource that is ever used, with a value wherever it changes.  Rates,
 * from PZ_HBM_RATE on, are shown in percent of the chip's rate; the other resources are counts. */
static void add_counters(struct pz_call *call, struct pz_trace_events *events,
                         const struct pz_layer_schedule *schedule, int process) {
  static const char *const names[PZ_RESOURCES] = {"tensor cores", "vector cores", "link",
                                                  "hbm",          "glb",          "power"};
  double used[PZ_RESOURCES] = {0}, shown[PZ_RESOURCES], to_us = schedule->layer ? 1e6 : 1;
  uint32_t n = 2 * schedule->n_operators;
  /* Lists the changes in order of time, two for each operator. */
  struct usage_change *changes = pz_alloc(call, n, sizeof *changes);
  for (uint32_t i = 0; i < schedule->n_operators; i++) {
    const struct pz_scheduled_operator *op = &schedule->operators[i];
    struct usage_change *start = &changes[2 * i], *end = &changes[2 * i + 1];
    start->tick = pz_trace_ticks(op->start_s * to_us);
    end->tick = pz_trace_ticks(op->end_s * to_us);
    for (int resource = 0; resource < PZ_RESOURCES; resource++) {
      start->change[resource] = op->used[resource];
      end->change[resource] = -op->used[resource];
    }
  }
  qsort(changes, n, sizeof *changes, compare_ticks);
  for (int resource = 0; resource < PZ_RESOURCES; resource++)
    shown[resource] = schedule->use[resource] > 0 ? -1 : 0;
  for (uint32_t i = 0; i < n; i++) {
    int64_t tick = changes[i].tick;
    for (int resource = 0; resource < PZ_RESOURCES; resource++)
      used[resource] += changes[i].change[resource];
    bool more_at_this_tick = i + 1 < n && changes[i + 1].tick == tick;
    if (more_at_this_tick) continue;
    for (int resource = 0; resource < PZ_RESOURCES; resource++) {
      bool changed = schedule->use[resource] > 0 && used[resource] != shown[resource],
           rate = resource >= PZ_HBM_RATE;
      shown[resource] = used[resource];
      if (!changed) continue;
      json_t *value =
          rate ? json_real(100 * used[resource]) : json_integer((json_int_t)used[resource]);
      pz_trace_add(events, tick,
                   json_pack("{s:s,s:s,s:i,s:f,s:{s:o}}", "name", names[resource], "ph", "C", "pid",
                             process, "ts", pz_trace_us(tick), "args", rate ? "percent" : "used",
                             value));
    }
  }
}

/* ---- schedules ------------------------------------------------------------------------------ */

struct schedule_trace {
  const struct pz_layer_schedule *const *list;
  uint32_t n;
  char **text;
};

/* Checks the size of the schedules and writes a process with lanes and counters for each. */
static void trace_schedules(struct pz_call *call, void *ctx) {
  const struct schedule_trace *args = ctx;
  uint64_t n_operators = 0;
  char title[256];
  pz_require(call, args->list, "list");
  pz_require(call, args->text, "text");
  for (uint32_t i = 0; i < args->n; i++) {
    const struct pz_layer_schedule *schedule = args->list[i];
    pz_require(call, schedule, "schedule");
    n_operators += schedule->n_operators;
    double us = schedule->makespan_s * (schedule->layer ? 1e6 : 1);
    if (!(us <= MOST_US))
      pz_raise(call, PZ_LIMIT, "a trace of %s would take %.3g us; accepted: at most %.0g us",
               pz_scheduled_title(schedule, title), us, MOST_US);
  }
  if (n_operators > PZ_TRACE_MOST_OPS)
    pz_raise(call, PZ_LIMIT, "a trace of %llu operators; accepted: at most %d",
             (unsigned long long)n_operators, PZ_TRACE_MOST_OPS);
  struct pz_trace_events *events = pz_trace_begin(call, "ns");
  int n_threads = (int)args->n; /* the numbers up to n are those of the processes */
  for (uint32_t i = 0; i < args->n; i++) {
    const struct pz_layer_schedule *schedule = args->list[i];
    int process = (int)i + 1;
    pz_trace_name(events, "process_name", process, 0,
                  json_string(pz_scheduled_title(schedule, title)));
    for (enum lane_kind kind = 0; kind < LANE_KINDS; kind++)
      n_threads += add_lanes(call, events, schedule, kind, process, n_threads + 1);
    add_counters(call, events, schedule, process);
  }
  *args->text = pz_trace_take(events);
}

enum pz_status pz_schedule_trace(const struct pz_layer_schedule *const *list, uint32_t n,
                                 char **text, struct pz_error *err) {
  struct schedule_trace args = {list, n, text};
  return pz_border(trace_schedules, &args, err);
}

/* ---- pipelines ------------------------------------------------------------------------------ */

/* Largest number of events of a pipeline.  If it has more, only its first microbatches are
 * shown, and the name of the process says so. */
enum { PIPELINE_MOST = 1 << 17 };

struct pipeline_trace {
  const struct pz_partition *partition;
  const char *model;
  char **text;
};

/* Writes a synchronous pipeline, in which every stage takes as long as the slowest one. */
static void trace_pipeline(struct pz_call *call, void *ctx) {
  const struct pipeline_trace *args = ctx;
  const struct pz_partition *plan = args->partition;
  pz_require(call, plan, "p");
  pz_require(call, args->model, "model");
  pz_require(call, args->text, "text");
  int64_t n_microbatches = plan->microbatches, n_shown = PIPELINE_MOST / (2 * (int64_t)plan->pp);
  if (n_shown > n_microbatches) n_shown = n_microbatches;
  double slot_s = plan->slowest_stage_s, end_s = (double)(n_microbatches + plan->pp - 1) * slot_s;
  struct pz_trace_events *events = pz_trace_begin(call, "ms");
  pz_trace_name(events, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: %s%lld of %lld microbatches of one replica", args->model,
                             n_shown < n_microbatches ? "the first " : "", (long long)n_shown,
                             (long long)n_microbatches));
  for (uint32_t k = 0; k < plan->pp; k++) {
    const struct pz_partition_stage *stage = &plan->stages[k];
    int thread = (int)k + 1;
    char layers[256];
    pz_partition_stage_text(stage, layers, sizeof layers);
    pz_trace_name(events, "thread_name", PZ_TRACE_PROCESS, thread,
                  json_sprintf("stage %d: %s", thread, layers));
    for (int64_t j = 0; j < n_shown; j++) {
      double start_s = (double)(j + k) * slot_s, middle_s = start_s + stage->forward_s;
      pz_trace_span(events, thread, "forward", j, (double[2]){start_s, middle_s});
      pz_trace_span(events, thread, "backward", j, (double[2]){middle_s, start_s + stage->load_s});
    }
    pz_trace_span(events, thread, "gradients", -1,
                  (double[2]){end_s, end_s + plan->parts.exchange_s});
  }
  *args->text = pz_trace_take(events);
}

enum pz_status pz_partition_trace(const struct pz_partition *partition, const char *model,
                                  char **text, struct pz_error *err) {
  struct pipeline_trace args = {partition, model, text};
  return pz_border(trace_pipeline, &args, err);
}
