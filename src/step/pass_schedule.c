/* One direction of a layer as a scheduling problem (pass_schedule.h).
 *
 * make_graph() turns the operators of a pass into a graph of tasks: kernels, casts, collectives
 * and milestones without work.  pz_pass_bound_s() bounds the time of every schedule from below, by
 * the longest path and by the work of each resource.  pz_pass_problem() gives each task its modes
 * (numbers of cores, shares of the bandwidths and of the power budget) for the solver.  If a
 * microbatch is split into two halves (chains), each has tasks of its own. */
#include "step/pass_schedule.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "schedule/model/rate_modes.h"
#include "schedule/solve.h"
#include "workload/op.h"

/* ---- tasks ---------------------------------------------------------------------------------- */

enum node_kind {
  MILESTONE, /* no work: a point that several tasks precede */
  RUN,       /* an operator on cores */
  CAST,      /* element-wise work before a GEMM in 8 or 4 bit */
  LINK,      /* a collective */
  JOINT      /* a GEMM that reads the result of a collective while it arrives */
};

struct node {
  enum node_kind kind;
  const struct pz_op *op;
  const struct pz_op_run *run; /* NULL for milestones and rings */
  double s;                    /* duration if the task is alone on the chip */
  double link_j;               /* energy of links in J, in addition to that of the run */
  int chain;
  bool again; /* the operator is recomputed */
};

/* The tasks of a pass. */
struct graph {
  struct pz_call *call;
  const struct pz_pass_question *question;
  struct pz_vec nodes, edges; /* struct node; struct pz_edge, from lower to higher nodes */
};

/* The recomputed operators or those of the pass itself, for one of the chains (the whole microbatch
 * or one of its halves), and the tasks that they have become. */
struct chain {
  const struct pz_pass_part *part;
  int number; /* index of the chain */
  bool again;
  uint32_t *last_task;     /* by operator: the task that completes it, or PZ_NONE */
  uint32_t *reader;        /* by collective: the GEMM that reads it while it arrives, or PZ_NONE */
  const uint32_t *sources; /* tasks that operators without predecessors wait for */
  uint32_t n_sources;
};

/* Appends a task and returns its index. */
static uint32_t add_node(struct graph *graph, const struct chain *chain, enum node_kind kind,
                         const struct pz_op *op, const struct pz_op_run *run, double s,
                         double link_j) {
  struct node node = {kind, op, run, s, link_j, chain->number, chain->again};
  pz_append(graph->call, &graph->nodes, &node);
  return graph->nodes.n - 1;
}

/* Makes the task `after` wait for the task `before`, unless this is PZ_NONE or the same task. */
static void add_edge(struct graph *graph, uint32_t before, uint32_t after) {
  if (before == PZ_NONE || before == after) return;
  pz_append(graph->call, &graph->edges, &(struct pz_edge){before, after});
}

/* Makes a node wait for all tasks that operator i waits for: the last tasks of its predecessors, or
 * the sources of the chain if it has none. */
static void add_predecessors(struct graph *graph, const struct chain *chain, uint32_t i,
                             uint32_t node) {
  const struct pz_op *op = &chain->part->ops->op[i];
  bool has_predecessor = false;
  for (uint32_t k = 0; k < op->n_pred; k++) {
    uint32_t before = chain->last_task[op->pred[k]];
    has_predecessor |= before != PZ_NONE;
    add_edge(graph, before, node);
  }
  for (uint32_t k = 0; k < chain->n_sources && !has_predecessor; k++)
    add_edge(graph, chain->sources[k], node);
}

/* Returns the task after which operator i can start.  It waits for the last tasks of its
 * predecessors, or if it has none, for the sources of its chain (the last tasks of recomputation).
 * The result is that task if there is one, a new milestone after all of them if there are several,
 * or PZ_NONE if there is none. */
static uint32_t ready_node(struct graph *graph, const struct chain *chain, uint32_t i) {
  const struct pz_op *op = &chain->part->ops->op[i];
  uint32_t only = PZ_NONE, n = 0;
  for (uint32_t k = 0; k < op->n_pred; k++) {
    uint32_t before = chain->last_task[op->pred[k]];
    if (before == PZ_NONE || before == only) continue;
    only = before;
    n++;
  }
  if (!n) {
    n = chain->n_sources;
    if (n == 1) only = chain->sources[0];
  }
  if (n <= 1) return only;
  uint32_t milestone = add_node(graph, chain, MILESTONE, op, NULL, 0, 0);
  add_predecessors(graph, chain, i, milestone);
  return milestone;
}

/* Returns the operator that can read the result of a collective while it arrives: the first one
 * that reads it, if this is a GEMM.  Returns PZ_NONE for other operators, and for a GEMM that
 * already reads the result of an earlier collective in this way. */
static uint32_t find_reader(const struct chain *chain, uint32_t collective) {
  const struct pz_ops *ops = chain->part->ops;
  for (uint32_t i = collective + 1; i < ops->n; i++)
    for (uint32_t k = 0; k < ops->op[i].n_pred; k++) {
      bool is_executed = !chain->part->which || chain->part->which[i];
      if (ops->op[i].pred[k] != collective || !is_executed) continue;
      if (chain->part->runs[i].kind != PZ_RUN_GEMM) return PZ_NONE;
      for (uint32_t earlier = 0; earlier < collective; earlier++)
        if (chain->reader[earlier] == i) return PZ_NONE;
      return i;
    }
  return PZ_NONE;
}

/* Adds a collective.  If a GEMM reads its result while it arrives, only the time by which the
 * collective is longer than the GEMM precedes it. */
static void add_link(struct graph *graph, struct chain *chain, uint32_t i) {
  const struct pz_op *op = &chain->part->ops->op[i];
  const struct pz_op_run *run = &chain->part->runs[i];
  uint32_t reader = run->streamed ? find_reader(chain, i) : PZ_NONE;
  double s = run->s;
  if (reader != PZ_NONE) {
    s = pz_fmax(0, s - chain->part->runs[reader].s);
    chain->reader[i] = reader;
  }
  if (!(s > 0)) { /* the collective takes no longer than its GEMM, which add_run() makes a JOINT */
    chain->last_task[i] = ready_node(graph, chain, i);
    return;
  }
  uint32_t link = add_node(graph, chain, LINK, op, run, s, run->work.outside_j * s / run->s);
  chain->last_task[i] = link;
  add_predecessors(graph, chain, i, link);
}

/* Adds an operator on cores: the cast before it, its kernels, and beside ring attention a transfer
 * of keys and values round the ring.  The kernels of a GEMM that reads the result of a collective
 * while it arrives also use the link. */
static void add_run(struct graph *graph, struct chain *chain, uint32_t i) {
  const struct pz_pass_part *part = chain->part;
  const struct pz_op *op = &part->ops->op[i];
  const struct pz_op_run *run = &part->runs[i];
  uint32_t collective = PZ_NONE, cast = PZ_NONE;
  double link_j = 0;
  for (uint32_t k = 0; k < op->n_pred; k++)
    if (chain->reader[op->pred[k]] == i) collective = op->pred[k];
  if (run->cast_s > 0) {
    cast = add_node(graph, chain, CAST, op, run, run->cast_s, 0);
    add_predecessors(graph, chain, i, cast);
  }
  if (collective != PZ_NONE) {
    const struct pz_op_run *link = &part->runs[collective];
    link_j = link->work.outside_j * pz_fmin(1, run->s / link->s); /* the rest is in add_link() */
  }
  uint32_t node =
      add_node(graph, chain, collective == PZ_NONE ? RUN : JOINT, op, run, run->s, link_j);
  add_predecessors(graph, chain, i, node);
  add_edge(graph, cast, node);
  chain->last_task[i] = node;
  if (collective != PZ_NONE) chain->last_task[collective] = node; /* all of it has arrived */
  if (op->kind != PZ_OP_ATTENTION || !(part->ring_s > 0)) return;
  /* what follows ring attention waits for the kernels and for the ring */
  uint32_t ring = add_node(graph, chain, LINK, op, NULL, part->ring_s, part->ring_j);
  add_predecessors(graph, chain, i, ring);
  uint32_t joined = add_node(graph, chain, MILESTONE, op, NULL, 0, 0);
  add_edge(graph, node, joined);
  add_edge(graph, ring, joined);
  chain->last_task[i] = joined;
}

/* Adds the tasks of a chain's operators. */
static void add_part(struct graph *graph, struct chain *chain) {
  const struct pz_ops *ops = chain->part->ops;
  for (uint32_t i = 0; i < ops->n; i++) {
    chain->last_task[i] = chain->reader[i] = PZ_NONE;
    if (chain->part->which && !chain->part->which[i]) continue;
    switch (chain->part->runs[i].kind) {
    case PZ_RUN_NONE: chain->last_task[i] = ready_node(graph, chain, i); break;
    case PZ_RUN_LINK: add_link(graph, chain, i); break;
    default: add_run(graph, chain, i);
    }
  }
}

/* Makes the tasks of a pass.  Within a chain, the pass waits for the last tasks of recomputation:
 * those for which no other task waits (sinks). */
static struct graph make_graph(struct pz_call *call, const struct pz_pass_question *question) {
  const struct pz_ops *again = question->again.ops;
  uint32_t n = question->pass.ops->n + (again ? again->n : 0);
  struct graph graph = {.call = call, .question = question};
  pz_vec_init(&graph.nodes, call->arena, sizeof(struct node));
  pz_vec_init(&graph.edges, call->arena, sizeof(struct pz_edge));
  uint32_t *last_task = pz_alloc(call, n, sizeof *last_task);
  uint32_t *reader = pz_alloc(call, n, sizeof *reader);
  const bool recomputed = true;
  const uint32_t *const no_sources = NULL;
  enum { MOST_TASKS = 4 }; /* of an operator: cast, kernels, ring, milestone */
  uint32_t *sinks = pz_alloc(call, MOST_TASKS * (size_t)n, sizeof *sinks);
  for (int i = 0; i < question->chains; i++) {
    uint32_t first = graph.nodes.n, n_sinks = 0;
    if (again) {
      struct chain chain = {&question->again, i, recomputed, last_task, reader, no_sources, 0};
      add_part(&graph, &chain);
      for (uint32_t node = first; node < graph.nodes.n; node++) {
        bool is_sink = true;
        for (uint32_t e = 0; e < graph.edges.n && is_sink; e++)
          is_sink = pz_vec_at(&graph.edges, struct pz_edge, e)->before != node;
        if (is_sink) sinks[n_sinks++] = node;
      }
    }
    struct chain chain = {&question->pass, i, !recomputed, last_task, reader, sinks, n_sinks};
    add_part(&graph, &chain);
  }
  return graph;
}

/* ---- power ---------------------------------------------------------------------------------- */

/* Returns the joules that HBM uses at its full rate for s seconds. */
static double hbm_j(const struct pz_chip *chip, double s) {
  return s * pz_chip_hbm_bytes_per_s(chip) * pz_tech_at(chip->tech)->hbm_j;
}

/* Returns the power budget that concurrent operators share; measured chips have none. */
struct pz_pass_power pz_pass_power_of(const struct pz_chip *chip) {
  struct pz_pass_power power = {.idle_watts = 0};
  if (!chip->cold) return power;
  power.law = pz_power_law_of(chip);
  const struct pz_power_law *law = &power.law;
  power.idle_watts = law->tech ? law->mm2 * law->tech->static_w_per_mm2 : 0;
  power.room_watts = law->watts > 0 ? pz_fmax(0, law->watts - power.idle_watts) : 0;
  return power;
}

/* The share of the power budget that a run gets if it is alone on the chip. */
static const double WHOLE_BUDGET = 1;

/* Computes the seconds and the dynamic joules of a run, whose calls each have this work, with a
 * share of the power budget. */
static void run_with_share(const struct pz_pass_power *power, const struct pz_op_run *run,
                           const struct pz_work *work, double share, double *s, double *joules) {
  struct pz_power_law law = power->law;
  struct pz_power run_power;
  const double no_interval_s = 0; /* calls follow each other at once */
  if (power->room_watts > 0) law.watts = power->idle_watts + share * power->room_watts;
  pz_power_run(&law, work, no_interval_s, &run_power);
  *s = run->calls * run_power.latency_s + run->merge_s;
  *joules = run->calls * (run_power.joules - run_power.latency_s * power->idle_watts);
}

/* Computes the time and the energy of a run with each share of the power budget, from the whole
 * budget downward (level PZ_RATE_LEVELS - 1 to 0).  A run that needs less power than a share has
 * the time and the energy of the next larger share.  Unless `needs_all`, stops at a smaller share
 * that saves no energy: such a share only makes the run longer. */
void pz_run_levels(const struct pz_pass_power *power, bool needs_all, struct pz_op_run *run) {
  while (run->levels < PZ_RATE_LEVELS) {
    int level = PZ_RATE_LEVELS - 1 - run->levels, above = level + 1;
    double share = pz_rate_level(level);
    run->levels++;
    if (above == PZ_RATE_LEVELS) {
      run_with_share(power, run, &run->work, share, &run->level_s[level], &run->level_j[level]);
      continue;
    }
    bool needs_less = run->level_j[above] <= share * power->room_watts * run->level_s[above];
    if (needs_less) {
      run->level_s[level] = run->level_s[above];
      run->level_j[level] = run->level_j[above];
      continue;
    }
    run_with_share(power, run, &run->work, share, &run->level_s[level], &run->level_j[level]);
    run->level_s[level] = pz_fmax(run->level_s[level], run->level_s[above]);
    bool saves_energy = run->level_j[level] < run->level_j[above] * (1 - 1e-9);
    if (!needs_all && !saves_energy) return;
  }
}

/* Adds hbm_s seconds of memory traffic to the calls of a run, with its energy, and updates the time
 * of the run.  On an unmeasured (cold) chip, the power law times it anew with the whole power
 * budget.  On a measured chip, the run becomes longer only if HBM becomes the bottleneck: if
 * starting its calls, moving their bytes and merging the turns of ring attention take longer. */
void pz_run_add_bytes(const struct pz_pass_power *power, const struct pz_chip *chip, double hbm_s,
                      struct pz_op_run *run) {
  struct pz_work *work = &run->work;
  double joules; /* not stored in a run */
  work->hbm_s += hbm_s / run->calls;
  work->outside_j += hbm_j(chip, hbm_s) / run->calls; /* outside of the cores */
  run->levels = 0; /* discards the times and energies of the shares, which lack these bytes */
  if (chip->cold)
    run_with_share(power, run, work, WHOLE_BUDGET, &run->s, &joules);
  else
    run->s = pz_fmax(run->s, run->calls * (work->startup_s + work->hbm_s) + run->merge_s);
}

/* ---- the bound ------------------------------------------------------------------------------ */

/* The resources of a task's load: real ones, then weighted sums of tensor cores and power.  A GEMM
 * with less power occupies the tensor cores for longer, so that neither alone bounds it well.  The
 * tensor cores have the weights tensor_weights[], power has 1 - weight: in the last sum 1. */
enum { TENSOR, VECTOR, WIRE, HBM, GLOBAL_BUFFER, FIRST_SUM };
static const double tensor_weights[] = {0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0};
enum { WEIGHTED_SUMS = sizeof tensor_weights / sizeof *tensor_weights };
enum { LOADS = FIRST_SUM + WEIGHTED_SUMS, POWER = LOADS - 1 };

/* A task of the bound, in seconds. */
struct bounded_task {
  double s;           /* duration */
  double head, tail;  /* least time before and after the task */
  double load[LOADS]; /* least time for which the task occupies each resource */
};

/* Returns whether a task runs on the tensor cores. */
static bool uses_tensor_cores(const struct node *node) {
  return node->op->op_class == PZ_CLASS_TENSOR || node->op->op_class == PZ_CLASS_FUSED ||
         node->run->kind == PZ_RUN_GEMM;
}

/* Adds an energy of `joules` to the weighted sums of a task's load: the seconds for which it needs
 * the whole power budget, times the weight of power. */
static void add_power_load(double joules, const struct pz_pass_power *power,
                           struct bounded_task *task) {
  for (int k = 0; k < WEIGHTED_SUMS && power->room_watts > 0; k++)
    task->load[FIRST_SUM + k] += (1 - tensor_weights[k]) * joules / power->room_watts;
}

/* Sets the duration and the loads of a task: the least time for which it occupies each resource. */
static void set_loads(const struct node *node, const struct pz_pass_power *power,
                      const struct pz_chip *chip, struct bounded_task *task) {
  const struct pz_op_run *run = node->run;
  bool has_run = node->kind == RUN || node->kind == JOINT;
  bool is_tensor = has_run && uses_tensor_cores(node);
  task->s = node->s;
  switch (node->kind) {
  case JOINT:
  case RUN:
    if (is_tensor) task->load[TENSOR] = node->s;
    task->load[VECTOR] = run->kind == PZ_RUN_ATTENTION ? node->s : run->calls * run->work.lane_s;
    task->load[HBM] = run->calls * run->work.hbm_s + run->merge_s;
    task->load[GLOBAL_BUFFER] = run->calls * run->work.glb_s;
    if (node->kind == JOINT) task->load[WIRE] = node->s;
    if (!(power->room_watts > 0)) break;
    /* a weighted sum is the least over all shares of the power budget that the run may get */
    for (int k = 0; k < WEIGHTED_SUMS; k++) task->load[FIRST_SUM + k] = HUGE_VAL;
    for (int i = PZ_RATE_LEVELS - 1; i >= PZ_RATE_LEVELS - run->levels; i--) {
      double power_s = run->level_j[i] / power->room_watts;
      for (int k = 0; k < WEIGHTED_SUMS; k++) {
        double tensor_s = is_tensor ? tensor_weights[k] * run->level_s[i] : 0;
        double load_s = tensor_s + (1 - tensor_weights[k]) * power_s;
        task->load[FIRST_SUM + k] = pz_fmin(task->load[FIRST_SUM + k], load_s);
      }
    }
    break;
  case CAST:
    task->load[HBM] = node->s;
    add_power_load(hbm_j(chip, node->s), power, task);
    break;
  case LINK: task->load[WIRE] = node->s; break;
  default: break;
  }
  add_power_load(node->link_j, power, task);
}

/* Returns a lower bound of the makespan from the work of one resource: the least head of the tasks
 * that use it, the loads of all tasks with at least this head and this tail, and the least tail.
 * This bounds the makespan for any choice of head and tail; the weighted sums use those of the
 * tasks on the tensor cores, except power alone. */
static double resource_bound_s(const struct bounded_task *tasks, uint32_t n, int resource) {
  double sum = 0, head = HUGE_VAL, tail = HUGE_VAL;
  bool is_weighted_sum = resource >= FIRST_SUM && resource != POWER;
  int selecting = is_weighted_sum ? TENSOR : resource;
  for (uint32_t i = 0; i < n; i++) {
    if (!(tasks[i].load[selecting] > 0)) continue;
    head = pz_fmin(head, tasks[i].head);
    tail = pz_fmin(tail, tasks[i].tail);
  }
  for (uint32_t i = 0; i < n; i++)
    if (tasks[i].head >= head && tasks[i].tail >= tail) sum += tasks[i].load[resource];
  return sum > 0 ? head + sum + tail : 0;
}

/* Returns a lower bound of the makespan: the longest path, or the work of a resource if longer. */
double pz_pass_bound_s(struct pz_call *call, const struct pz_pass_question *question) {
  const struct pz_chip *chip = &question->cost->chip;
  struct graph graph = make_graph(call, question);
  struct pz_pass_power power = pz_pass_power_of(chip);
  uint32_t n = graph.nodes.n;
  struct bounded_task *tasks = pz_alloc(call, n, sizeof *tasks);
  const struct pz_edge *edges = graph.edges.items;
  double bound_s = 0;
  for (uint32_t i = 0; i < n; i++)
    set_loads(pz_vec_at(&graph.nodes, struct node, i), &power, chip, &tasks[i]);
  /* longest paths; edges are sorted by their ends: all edges to a node come before those from it */
  for (uint32_t e = 0; e < graph.edges.n; e++) {
    const struct bounded_task *before = &tasks[edges[e].before];
    struct bounded_task *after = &tasks[edges[e].after];
    after->head = pz_fmax(after->head, before->head + before->s);
  }
  for (uint32_t e = graph.edges.n; e > 0; e--) {
    struct bounded_task *before = &tasks[edges[e - 1].before];
    const struct bounded_task *after = &tasks[edges[e - 1].after];
    before->tail = pz_fmax(before->tail, after->tail + after->s);
  }
  for (uint32_t i = 0; i < n; i++)
    bound_s = pz_fmax(bound_s, tasks[i].head + tasks[i].s + tasks[i].tail);
  for (int r = 0; r < LOADS; r++) bound_s = pz_fmax(bound_s, resource_bound_s(tasks, n, r));
  return bound_s * (1 - 1e-9); /* rounding must not raise it above a schedule */
}

/* ---- the problem ---------------------------------------------------------------------------- */

/* What the modes of a pass's tasks depend on.  A mode is one of several ways to run a task: the
 * resources that it holds, its duration and its energy. */
struct problem_builder {
  struct pz_call *call;
  const struct pz_chip *chip;
  struct pz_pass_power power;
  double serial_s; /* time of all tasks in series, which no mode has to exceed */
};

/* Returns the mode of a run on a number of vector cores: its use of cores and bandwidths, time and
 * energy.  node->run has the times with all vector cores, which these reach if has_enough_cores. */
static struct pz_full_mode full_mode(const struct problem_builder *builder, const struct node *node,
                                     int64_t vector_cores, bool has_enough_cores) {
  struct pz_op_run run = *node->run;
  const struct pz_work *work = &run.work;
  const struct pz_chip *chip = builder->chip;
  struct pz_full_mode mode = {.limited = builder->power.room_watts > 0};
  int32_t tensor_cores = uses_tensor_cores(node) ? (int32_t)chip->tensor.cores : 0;
  mode.mode.use[PZ_TENSOR_CORES] = tensor_cores;
  mode.mode.use[PZ_VECTOR_CORES] = (int32_t)vector_cores;
  mode.mode.use[PZ_LINK] = node->kind == JOINT ? 1 : 0;
  mode.mode.label = uses_tensor_cores(node) ? tensor_cores : (int32_t)vector_cores;
  mode.mode.hbm_s = run.calls * run.work.hbm_s + run.merge_s;
  mode.mode.glb_s = run.calls * run.work.glb_s;
  if (node->link_j > 0) {
    run.work.outside_j += node->link_j / run.calls;
    run.levels = 0; /* discards the times and energies of the shares */
  }
  if (!has_enough_cores) {
    double lane_factor = (double)chip->vector.cores / (double)vector_cores;
    run.work.core_s = pz_fmax(run.work.core_s, run.work.lane_s * lane_factor);
    run.levels = 0;
  }
  /* time and energy: with each share of a limited power budget, and with all of it */
  const bool needs_all = true;
  if (mode.limited) pz_run_levels(&builder->power, needs_all, &run);
  memcpy(mode.power_s, run.level_s, sizeof mode.power_s);
  memcpy(mode.power_j, run.level_j, sizeof mode.power_j);
  mode.mode.duration = mode.power_s[PZ_RATE_LEVELS - 1];
  mode.mode.energy_j = mode.power_j[PZ_RATE_LEVELS - 1];
  if (mode.limited) return mode;
  mode.mode.duration = has_enough_cores ? node->s : run.calls * pz_work_s(work) + run.merge_s;
  mode.mode.energy_j = run.calls * (work->core_j + work->outside_j);
  if (chip->cold)
    run_with_share(&builder->power, &run, work, WHOLE_BUDGET, &mode.mode.duration,
                   &mode.mode.energy_j);
  return mode;
}

/* Appends the modes of an operator on cores.  The number of vector cores is the smallest power of
 * two that does not slow it down, and without tensor cores also a quarter and half of it.  The
 * vector lanes hide beside the tensor cores, the global buffer, or HBM.  HBM does not slow down
 * with the clock, which the power limit may lower to USUAL_CLOCK of the highest one. */
static void append_run_modes(const struct problem_builder *builder, const struct node *node,
                             struct pz_vec *modes) {
  static const double USUAL_CLOCK = 0.82;
  struct pz_vec full_modes;
  const struct pz_work *work = &node->run->work;
  int64_t all_cores = builder->chip->vector.cores, enough_cores = 1;
  pz_vec_init(&full_modes, builder->call->arena, sizeof(struct pz_full_mode));
  if (node->run->kind == PZ_RUN_ATTENTION) {
    enough_cores = all_cores;
  } else if (!(work->lane_s > 0)) {
    enough_cores = 0;
  } else {
    double hiding_s = pz_fmax(pz_fmax(work->array_s, work->glb_s), USUAL_CLOCK * work->hbm_s);
    while (enough_cores < all_cores &&
           work->lane_s * (double)all_cores > hiding_s * (double)enough_cores)
      enough_cores *= 2;
    enough_cores = pz_min(enough_cores, all_cores);
  }
  int64_t cores = uses_tensor_cores(node) ? enough_cores : pz_max(1, enough_cores / 4);
  for (;; cores = pz_min(2 * cores, enough_cores)) {
    struct pz_full_mode mode = full_mode(builder, node, cores, cores >= enough_cores);
    pz_append(builder->call, &full_modes, &mode);
    if (cores >= enough_cores) break;
  }
  pz_append_rate_modes(builder->call, &full_modes, builder->serial_s, modes);
}

/* Appends the modes of a task without an operator on cores: a collective uses the link, a cast HBM
 * and one vector core, both with the power for their energy; a milestone uses nothing. */
static void append_transfer_modes(const struct problem_builder *builder, const struct node *node,
                                  struct pz_vec *modes) {
  struct pz_vec full_modes;
  struct pz_full_mode mode = {.mode = {.duration = node->s}};
  double room_watts = builder->power.room_watts;
  pz_vec_init(&full_modes, builder->call->arena, sizeof(struct pz_full_mode));
  if (node->kind == LINK) {
    mode.mode.use[PZ_LINK] = 1;
    mode.mode.energy_j = node->link_j;
  } else if (node->kind != MILESTONE) {
    mode.mode.use[PZ_VECTOR_CORES] = 1;
    mode.mode.label = 1;
    mode.mode.hbm_s = node->s;
    mode.mode.energy_j = hbm_j(builder->chip, node->s);
  }
  mode.limited = room_watts > 0 && node->kind != MILESTONE;
  for (int i = 0; i < PZ_RATE_LEVELS; i++) {
    mode.power_j[i] = mode.mode.energy_j;
    mode.power_s[i] = node->s;
    if (mode.limited)
      mode.power_s[i] = pz_fmax(node->s, mode.mode.energy_j / (pz_rate_level(i) * room_watts));
  }
  mode.mode.duration = mode.power_s[PZ_RATE_LEVELS - 1];
  pz_append(builder->call, &full_modes, &mode);
  pz_append_rate_modes(builder->call, &full_modes, builder->serial_s, modes);
}

/* Returns the pass as a problem for the solver.  In reports, tasks have names of their own: "again
 * cast mlp_up (2)" is a recomputed cast of the second half of a microbatch. */
struct pz_problem pz_pass_problem(struct pz_call *call, const struct pz_pass_question *question,
                                  bool named) {
  const struct pz_chip *chip = &question->cost->chip;
  struct graph graph = make_graph(call, question);
  const struct node *nodes = graph.nodes.items;
  uint32_t n = graph.nodes.n, per_chain = n / (uint32_t)question->chains;
  struct pz_task *tasks = pz_alloc(call, n, sizeof *tasks);
  struct problem_builder builder = {.call = call, .chip = chip, .power = pz_pass_power_of(chip)};
  for (uint32_t i = 0; i < n; i++) builder.serial_s += nodes[i].s;
  builder.serial_s *= 1 + 1e-9; /* rounding must not exclude the tasks in series */
  for (uint32_t i = 0; i < n; i++) {
    const struct node *node = &nodes[i];
    tasks[i] = (struct pz_task){.name = node->op->name, .id = i, .op_class = node->op->op_class};
    if (node->kind == MILESTONE) tasks[i].op_class = PZ_CLASS_NONE;
    if (node->kind == LINK) tasks[i].op_class = PZ_CLASS_COLLECTIVE;
    if (node->kind == CAST) tasks[i].op_class = PZ_CLASS_VECTOR;
    if (named) {
      const char *kind = "", *half = "";
      if (node->kind == CAST) kind = "cast ";
      if (node->kind == LINK && !node->run) kind = "ring ";
      if (question->chains > 1) half = node->chain ? " (2)" : " (1)";
      tasks[i].name =
          pz_format(call, "%s%s%s%s", node->again ? "again " : "", kind, node->op->name, half);
    }
    if (node->chain > 0 && i >= per_chain) { /* both halves have the same tasks */
      tasks[i].modes = tasks[i - per_chain].modes;
      tasks[i].n_modes = tasks[i - per_chain].n_modes;
      continue;
    }
    struct pz_vec modes;
    pz_vec_init(&modes, call->arena, sizeof(struct pz_mode));
    if (node->kind == RUN || node->kind == JOINT)
      append_run_modes(&builder, node, &modes);
    else
      append_transfer_modes(&builder, node, &modes);
    tasks[i].modes = modes.items;
    tasks[i].n_modes = modes.n;
  }
  const int32_t capacity[PZ_RESOURCES] = {(int32_t)chip->tensor.cores,
                                          (int32_t)chip->vector.cores,
                                          1, /* the link */
                                          PZ_RATE_PARTS,
                                          PZ_RATE_PARTS,
                                          builder.power.room_watts > 0 ? PZ_RATE_PARTS : 0};
  return pz_problem_build(call, capacity, tasks, n, graph.edges.items, graph.edges.n);
}

/* Returns the schedule that the solver finds within `steps` steps.  On unmeasured chips, it has the
 * energy of the schedule, and that of all tasks in their fastest modes one after another. */
struct pz_pass_schedule pz_pass_solve(struct pz_call *call, const struct pz_pass_question *question,
                                      int64_t steps) {
  struct pz_solve_options options = {.steps = steps};
  struct pz_problem problem = pz_pass_problem(call, question, false);
  struct pz_schedule schedule = pz_schedule_find(call, &problem, &options);
  struct pz_pass_schedule result = {.s = schedule.makespan, .bound_s = schedule.lower_bound};
  for (uint32_t i = 0; i < problem.n && question->cost->chip.cold; i++) {
    const struct pz_task *task = &problem.tasks[i];
    const struct pz_mode *fastest = &task->modes[0];
    for (uint32_t k = 1; k < task->n_modes; k++)
      if (task->modes[k].duration < fastest->duration) fastest = &task->modes[k];
    result.dynamic_j += task->modes[schedule.slots[i].mode].energy_j;
    result.serial_j += fastest->energy_j;
  }
  return result;
}
