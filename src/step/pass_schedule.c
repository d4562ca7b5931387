#include "step/pass_schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "schedule/model/rate_modes.h"
#include "schedule/solve.h"
#include "workload/op.h"

/* ---- tasks ------------------------------------------------------------------------------------- */

enum node_kind {
  MILESTONE,
  RUN,  /* an operator on cores */
  CAST, /* element-wise work before one in 8 bit */
  LINK,
  JOINT /* an operator on cores that reads what a collective gathers as it arrives */
};

struct node {
  enum node_kind kind;
  const struct pz_op *op;
  const struct pz_op_run *run;
  double s;      /* alone on the chip */
  double link_j; /* of links, beside what the run takes */
  int chain;
  bool again;
};

struct graph {
  struct pz_call *call;
  const struct pz_pass_question *q;
  struct pz_vec nodes, edges; /* struct node, struct pz_edge: from lower to higher */
};

static uint32_t add_node(struct graph *g, enum node_kind kind, const struct pz_op *op,
                         const struct pz_op_run *run, double s, const struct node *like) {
  struct node n = {kind, op, run, s, 0, like->chain, like->again};
  pz_append(g->call, &g->nodes, &n);
  return g->nodes.n - 1;
}

static void set_link_j(struct graph *g, uint32_t node, double joules) {
  pz_vec_at(&g->nodes, struct node, node)->link_j = joules;
}

static void add_edge(struct graph *g, uint32_t before, uint32_t after) {
  if (before == PZ_NONE || before == after) return;
  pz_append(g->call, &g->edges, &(struct pz_edge){before, after});
}

/* What operators of one chain and part wait for. */
struct chain {
  const struct pz_pass_part *part;
  struct node like;
  uint32_t *done;          /* by operator: the task that ends it; PZ_NONE: none */
  uint32_t *reader;        /* by collective: the GEMM that reads it as it arrives; PZ_NONE: none */
  const uint32_t *sources; /* what operators without predecessors wait for */
  uint32_t n_sources;
};

static bool chosen(const struct pz_pass_part *p, uint32_t i) { return !p->which || p->which[i]; }

/* Edges from all that operator i waits for. */
static void add_preds(struct graph *g, const struct chain *c, uint32_t i, uint32_t node) {
  const struct pz_op *op = &c->part->ops->op[i];
  bool any = false;
  for (uint32_t k = 0; k < op->n_pred; k++) {
    uint32_t before = c->done[op->pred[k]];
    any |= before != PZ_NONE;
    add_edge(g, before, node);
  }
  for (uint32_t k = 0; k < c->n_sources && !any; k++) add_edge(g, c->sources[k], node);
}

/* The task after which operator i could start: the only one it waits for, or a milestone behind all. */
static uint32_t ready_node(struct graph *g, const struct chain *c, uint32_t i) {
  const struct pz_op *op = &c->part->ops->op[i];
  uint32_t one = PZ_NONE, n = 0;
  for (uint32_t k = 0; k < op->n_pred; k++) {
    uint32_t before = c->done[op->pred[k]];
    if (before == PZ_NONE || before == one) continue;
    one = before;
    n++;
  }
  if (n == 1 || (!n && !c->n_sources)) return one;
  if (!n && c->n_sources == 1) return c->sources[0];
  uint32_t at = add_node(g, MILESTONE, op, NULL, 0, &c->like);
  add_preds(g, c, i, at);
  return at;
}

/* The first operator that reads what a collective gathers, if that is a GEMM: others wait for all of it. */
static uint32_t find_reader(const struct chain *c, uint32_t gather) {
  const struct pz_ops *ops = c->part->ops;
  for (uint32_t i = gather + 1; i < ops->n; i++)
    for (uint32_t k = 0; k < ops->op[i].n_pred; k++)
      if (ops->op[i].pred[k] == gather && chosen(c->part, i))
        return c->part->runs[i].kind == PZ_RUN_GEMM ? i : PZ_NONE;
  return PZ_NONE;
}

/* A collective.  Where its GEMM reads it as it arrives, what it takes longer than the GEMM comes before that, the rest
 * beside it. */
static void add_link(struct graph *g, struct chain *c, uint32_t i) {
  const struct pz_op *op = &c->part->ops->op[i];
  const struct pz_op_run *run = &c->part->runs[i];
  uint32_t reader = run->streamed ? find_reader(c, i) : PZ_NONE;
  double s = run->s;
  for (uint32_t k = 0; k < i && reader != PZ_NONE; k++)
    if (c->reader[k] == reader) reader = PZ_NONE; /* it reads one already */
  if (reader != PZ_NONE) {
    s = pz_fmax(0, s - c->part->runs[reader].s);
    c->reader[i] = reader;
  }
  if (s > 0) {
    c->done[i] = add_node(g, LINK, op, run, s, &c->like);
    set_link_j(g, c->done[i], run->work.outside_j * s / run->s);
    add_preds(g, c, i, c->done[i]);
  } else {
    c->done[i] = ready_node(g, c, i);
  }
}

/* Keys and values go round the ring while attention reads them: what follows waits for both. */
static void add_ring(struct graph *g, struct chain *c, uint32_t i) {
  const struct pz_op *op = &c->part->ops->op[i];
  uint32_t ring = add_node(g, LINK, op, NULL, c->part->ring_s, &c->like);
  set_link_j(g, ring, c->part->ring_j);
  add_preds(g, c, i, ring);
  uint32_t both = add_node(g, MILESTONE, op, NULL, 0, &c->like);
  add_edge(g, c->done[i], both);
  add_edge(g, ring, both);
  c->done[i] = both;
}

static void add_run(struct graph *g, struct chain *c, uint32_t i) {
  const struct pz_op *op = &c->part->ops->op[i];
  const struct pz_op_run *run = &c->part->runs[i];
  uint32_t gather = PZ_NONE, cast = PZ_NONE;
  for (uint32_t k = 0; k < op->n_pred; k++)
    if (c->reader[op->pred[k]] == i) gather = op->pred[k];
  if (run->cast_s > 0) {
    cast = add_node(g, CAST, op, run, run->cast_s, &c->like);
    add_preds(g, c, i, cast);
  }
  uint32_t at = add_node(g, gather == PZ_NONE ? RUN : JOINT, op, run, run->s, &c->like);
  add_preds(g, c, i, at);
  add_edge(g, cast, at);
  c->done[i] = at;
  if (gather != PZ_NONE) {
    const struct pz_op_run *link = &c->part->runs[gather];
    set_link_j(g, at, link->work.outside_j * pz_fmin(1, run->s / link->s));
    c->done[gather] = at; /* all of it has arrived */
  }
  if (op->kind == PZ_OP_ATTENTION && c->part->ring_s > 0) add_ring(g, c, i);
}

static void add_part(struct graph *g, struct chain *c) {
  const struct pz_ops *ops = c->part->ops;
  for (uint32_t i = 0; i < ops->n; i++) {
    c->done[i] = c->reader[i] = PZ_NONE;
    if (!chosen(c->part, i)) continue;
    switch (c->part->runs[i].kind) {
    case PZ_RUN_NONE: c->done[i] = ready_node(g, c, i); break;
    case PZ_RUN_LINK: add_link(g, c, i); break;
    default: add_run(g, c, i);
    }
  }
}

/* Tasks of a part that nothing of it waits for. */
static uint32_t list_sinks(struct graph *g, uint32_t first, uint32_t *out) {
  uint32_t n = 0;
  for (uint32_t i = first; i < g->nodes.n; i++) {
    bool last = true;
    for (uint32_t e = 0; e < g->edges.n && last; e++)
      last = pz_vec_at(&g->edges, struct pz_edge, e)->before != i;
    if (last) out[n++] = i;
  }
  return n;
}

static void make_graph(struct pz_call *call, const struct pz_pass_question *q, struct graph *g) {
  uint32_t n = q->pass.ops->n + (q->again.ops ? q->again.ops->n : 0);
  *g = (struct graph){.call = call, .q = q};
  pz_vec_init(&g->nodes, call->arena, sizeof(struct node));
  pz_vec_init(&g->edges, call->arena, sizeof(struct pz_edge));
  uint32_t *done = pz_alloc(call, n, sizeof *done), *reader = pz_alloc(call, n, sizeof *reader);
  uint32_t *sinks = pz_alloc(call, 4 * (size_t)n, sizeof *sinks);
  for (int k = 0; k < q->chains; k++) {
    uint32_t first = g->nodes.n, n_sinks = 0;
    if (q->again.ops) {
      struct chain c = {&q->again, {.chain = k, .again = true}, done, reader, NULL, 0};
      add_part(g, &c);
      n_sinks = list_sinks(g, first, sinks);
    }
    struct chain c = {&q->pass, {.chain = k}, done, reader, sinks, n_sinks};
    add_part(g, &c);
  }
}

static const struct node *node_at(const struct graph *g, uint32_t i) {
  return pz_vec_at(&g->nodes, struct node, i);
}

/* Of HBM at its full rate for so long. */
static double moved_j(const struct pz_chip *c, double s) {
  return s * pz_chip_hbm_bytes_per_s(c) * pz_tech_at(c->tech)->hbm_j;
}

/* ---- power ---------------------------------------------------------------------------------------- */

struct pz_pass_power pz_pass_power_of(const struct pz_chip *chip) {
  struct pz_pass_power p = {.idle_watts = 0};
  if (!chip->cold) return p;
  p.law = pz_power_law_of(chip);
  p.idle_watts = p.law.tech ? p.law.mm2 * p.law.tech->static_w_per_mm2 : 0;
  p.room_watts = p.law.watts > 0 ? pz_fmax(0, p.law.watts - p.idle_watts) : 0;
  return p;
}

/* So many calls of some work with a share of the watts: time, dynamic energy. */
static void run_with(const struct pz_pass_power *power, const struct pz_op_run *run,
                     const struct pz_work *w, double share, double *s, double *joules) {
  struct pz_power_law law = power->law;
  struct pz_power p;
  if (power->room_watts > 0) law.watts = power->idle_watts + share * power->room_watts;
  pz_power_run(&law, w, 0, &p);
  *s = run->calls * p.latency_s + run->merge_s;
  *joules = run->calls * (p.joules - p.latency_s * power->idle_watts);
}

void pz_run_levels(const struct pz_pass_power *power, bool all, struct pz_op_run *run) {
  while (run->levels < PZ_RATE_LEVELS) {
    int i = PZ_RATE_LEVELS - 1 - run->levels++, above = i + 1;
    double share = pz_rate_level(i);
    if (above == PZ_RATE_LEVELS) {
      run_with(power, run, &run->work, share, &run->level_s[i], &run->level_j[i]);
      continue;
    }
    if (run->level_j[above] <= share * power->room_watts * run->level_s[above]) {
      run->level_s[i] = run->level_s[above]; /* it takes no more than that as it is */
      run->level_j[i] = run->level_j[above];
      continue;
    }
    run_with(power, run, &run->work, share, &run->level_s[i], &run->level_j[i]);
    run->level_s[i] = pz_fmax(run->level_s[i], run->level_s[above]);
    if (!all && run->level_j[i] >= run->level_j[above] * (1 - 1e-9)) return;
  }
}

void pz_run_add_bytes(const struct pz_pass_power *power, const struct pz_chip *chip, double hbm_s,
                      struct pz_op_run *run) {
  run->work.hbm_s += hbm_s / run->calls;
  run->work.outside_j += moved_j(chip, hbm_s) / run->calls;
  run->levels = 0;
  double joules;
  const struct pz_work *w = &run->work;
  if (chip->cold)
    run_with(power, run, w, 1, &run->s, &joules);
  else
    run->s = pz_fmax(run->s, run->calls * (w->startup_s + w->hbm_s) + run->merge_s);
}

/* ---- the bound ------------------------------------------------------------------------------------ */

/* Seconds that a task keeps each resource busy, had it nothing else to do; and weighted sums of tensor cores and watts:
 * what products leave of one they take of the other. */
enum { TENSOR, VECTOR, WIRE, HBM, GLB, MIX };
static const double tensor_parts[] = {0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0};
enum { MIXES = sizeof tensor_parts / sizeof *tensor_parts, LOADS = MIX + MIXES };

struct bounded {
  double s, head, tail, load[LOADS];
};

static bool on_tensor(const struct node *n) {
  return n->op->op_class == PZ_CLASS_TENSOR || n->op->op_class == PZ_CLASS_FUSED ||
         n->run->kind == PZ_RUN_GEMM;
}

/* The least of each weighted sum over all shares of the watts; with less than one at which energy falls no more, time
 * only grows. */
static void mix_loads(const struct pz_op_run *run, bool tensor, double room_watts,
                      struct bounded *b) {
  for (int k = 0; k < MIXES; k++) b->load[MIX + k] = HUGE_VAL;
  for (int i = PZ_RATE_LEVELS - 1; i >= PZ_RATE_LEVELS - run->levels; i--) {
    double watts_s = run->level_j[i] / room_watts;
    for (int k = 0; k < MIXES; k++) {
      double part = tensor_parts[k];
      double load = (tensor ? part * run->level_s[i] : 0) + (1 - part) * watts_s;
      b->load[MIX + k] = pz_fmin(b->load[MIX + k], load);
    }
  }
}

static void add_watts(double joules, const struct pz_pass_power *power, struct bounded *b) {
  for (int k = 0; k < MIXES && power->room_watts > 0; k++)
    b->load[MIX + k] += (1 - tensor_parts[k]) * joules / power->room_watts;
}

static void loads_of(const struct node *n, const struct pz_pass_power *power,
                     const struct pz_chip *chip, struct bounded *b) {
  b->s = n->s;
  switch (n->kind) {
  case JOINT:
  case RUN: {
    const struct pz_work *w = &n->run->work;
    if (on_tensor(n)) b->load[TENSOR] = n->s;
    b->load[VECTOR] = n->run->kind == PZ_RUN_ATTENTION ? n->s : n->run->calls * w->lane_s;
    b->load[HBM] = n->run->calls * w->hbm_s + n->run->merge_s;
    b->load[GLB] = n->run->calls * w->glb_s;
    if (n->kind == JOINT) b->load[WIRE] = n->s;
    if (power->room_watts > 0) mix_loads(n->run, on_tensor(n), power->room_watts, b);
    break;
  }
  case CAST:
    b->load[HBM] = n->s;
    add_watts(moved_j(chip, n->s), power, b);
    break;
  case LINK: b->load[WIRE] = n->s; break;
  default: break;
  }
  add_watts(n->link_j, power, b);
}

/* Work of the tasks from the first head and before the last tail of any that use the tensor cores, or this resource: a
 * set of tasks takes its work, and the least that comes before and behind. */
static double middle_bound(const struct bounded *b, uint32_t n, int r) {
  double sum = 0, head = HUGE_VAL, tail = HUGE_VAL;
  int by = r < MIX || r == LOADS - 1 ? r : TENSOR;
  for (uint32_t i = 0; i < n; i++)
    if (b[i].load[by] > 0) {
      head = pz_fmin(head, b[i].head);
      tail = pz_fmin(tail, b[i].tail);
    }
  for (uint32_t i = 0; i < n; i++)
    if (b[i].head >= head && b[i].tail >= tail) sum += b[i].load[r];
  return sum > 0 ? head + sum + tail : 0;
}

double pz_pass_bound_s(struct pz_call *call, const struct pz_pass_question *q) {
  struct graph g;
  double bound = 0;
  make_graph(call, q, &g);
  struct pz_pass_power power = pz_pass_power_of(&q->cost->chip);
  uint32_t n = g.nodes.n;
  struct bounded *b = pz_alloc(call, n, sizeof *b);
  const struct pz_edge *e = g.edges.items;
  for (uint32_t i = 0; i < n; i++) loads_of(node_at(&g, i), &power, &q->cost->chip, &b[i]);
  for (uint32_t k = 0; k < g.edges.n; k++) /* in the order of their ends */
    b[e[k].after].head = pz_fmax(b[e[k].after].head, b[e[k].before].head + b[e[k].before].s);
  for (uint32_t k = g.edges.n; k-- > 0;)
    b[e[k].before].tail = pz_fmax(b[e[k].before].tail, b[e[k].after].tail + b[e[k].after].s);
  for (uint32_t i = 0; i < n; i++) bound = pz_fmax(bound, b[i].head + b[i].s + b[i].tail);
  for (int r = 0; r < LOADS; r++) bound = pz_fmax(bound, middle_bound(b, n, r));
  return bound * (1 - 1e-9);
}

/* ---- the problem ---------------------------------------------------------------------------------- */

struct maker {
  struct pz_call *call;
  const struct graph *g;
  const struct pz_chip *chip;
  struct pz_pass_power power;
  double serial_s;
};

/* On so many vector cores: as `run` has it where these are enough. */
static struct pz_full_mode full_mode(const struct maker *m, const struct node *n, int64_t vector,
                                     bool enough) {
  struct pz_op_run run = *n->run;
  struct pz_full_mode f = {.limited = m->power.room_watts > 0};
  f.at.use[PZ_TENSOR_CORES] = on_tensor(n) ? (int32_t)m->chip->tensor.cores : 0;
  f.at.use[PZ_VECTOR_CORES] = (int32_t)vector;
  f.at.use[PZ_LINK] = n->kind == JOINT ? 1 : 0;
  f.at.label = on_tensor(n) ? f.at.use[PZ_TENSOR_CORES] : f.at.use[PZ_VECTOR_CORES];
  f.at.hbm_s = run.calls * run.work.hbm_s + run.merge_s;
  f.at.glb_s = run.calls * run.work.glb_s;
  if (n->link_j > 0) {
    run.work.outside_j += n->link_j / run.calls;
    run.levels = 0;
  }
  if (!enough) {
    double lanes = (double)m->chip->vector.cores / (double)vector;
    run.work.core_s = pz_fmax(run.work.core_s, run.work.lane_s * lanes);
    run.levels = 0;
  }
  if (f.limited) pz_run_levels(&m->power, true, &run);
  memcpy(f.power_s, run.level_s, sizeof f.power_s);
  memcpy(f.power_j, run.level_j, sizeof f.power_j);
  f.at.s = f.power_s[PZ_RATE_LEVELS - 1];
  f.at.j = f.power_j[PZ_RATE_LEVELS - 1];
  if (f.limited) return f;
  const struct pz_work *w = &run.work;
  f.at.s = enough ? n->s : run.calls * pz_work_s(w) + run.merge_s;
  f.at.j = run.calls * (w->core_j + w->outside_j);
  if (m->chip->cold) run_with(&m->power, &run, w, 1, &f.at.s, &f.at.j);
  return f;
}

/* Vector cores come in powers of two, or all: those with which nothing is slower down to this part of the chip's clock and, of
 * element-wise operators, half and a quarter of them. */
static const double USUAL_CLOCK = 0.82;
static void run_modes(const struct maker *m, const struct node *n, struct pz_vec *modes) {
  struct pz_vec full;
  const struct pz_work *w = &n->run->work;
  bool tensor = on_tensor(n);
  int64_t all = m->chip->vector.cores, least = 1;
  pz_vec_init(&full, m->call->arena, sizeof(struct pz_full_mode));
  if (n->run->kind == PZ_RUN_ATTENTION) {
    least = all;
  } else if (!(w->lane_s > 0)) {
    least = 0;
  } else {
    double room_s = pz_fmax(pz_fmax(w->array_s, w->glb_s), USUAL_CLOCK * w->hbm_s);
    while (least < all && w->lane_s * (double)all > room_s * (double)least) least *= 2;
    least = pz_min(least, all);
  }
  int64_t first = tensor ? least : pz_max(1, least / 4);
  for (int64_t v = first;; v = pz_min(2 * v, least)) {
    struct pz_full_mode f = full_mode(m, n, v, v >= least);
    pz_append(m->call, &full, &f);
    if (v >= least) break;
  }
  pz_append_rate_modes(m->call, &full, m->serial_s, modes);
}

/* One that holds memory or the link for a time, and their watts. */
static void plain_mode(const struct maker *m, const struct node *n, struct pz_vec *modes) {
  struct pz_vec full;
  struct pz_full_mode f = {.at = {.s = n->s}};
  pz_vec_init(&full, m->call->arena, sizeof(struct pz_full_mode));
  if (n->kind == LINK) {
    f.at.use[PZ_LINK] = 1;
    f.at.j = n->link_j;
  } else if (n->kind != MILESTONE) {
    f.at.use[PZ_VECTOR_CORES] = f.at.label = 1;
    f.at.hbm_s = n->s;
    f.at.j = moved_j(m->chip, n->s);
  }
  f.limited = m->power.room_watts > 0 && n->kind != MILESTONE;
  for (int i = 0; i < PZ_RATE_LEVELS; i++) {
    f.power_j[i] = f.at.j;
    f.power_s[i] =
        f.limited ? pz_fmax(n->s, f.at.j / (pz_rate_level(i) * m->power.room_watts)) : n->s;
  }
  f.at.s = f.power_s[PZ_RATE_LEVELS - 1];
  pz_append(m->call, &full, &f);
  pz_append_rate_modes(m->call, &full, m->serial_s, modes);
}

/* Both halves run the same. */
static const struct node *same_before(const struct graph *g, uint32_t i) {
  const struct node *n = node_at(g, i);
  uint32_t per_chain = g->nodes.n / (uint32_t)g->q->chains; /* all alike */
  return n->chain > 0 && i >= per_chain ? node_at(g, i - per_chain) : NULL;
}

static const char *task_name(const struct maker *m, const struct node *n) {
  static const char *const before[] = {
      [CAST] = "cast ", [LINK] = "", [RUN] = "", [JOINT] = "", [MILESTONE] = ""};
  char text[160];
  const char *what = n->kind == LINK && !n->run ? "ring " : before[n->kind];
  const char *half = n->chain ? " (2)" : " (1)";
  snprintf(text, sizeof text, "%s%s%s%s", n->again ? "again " : "", what, n->op->name,
           m->g->q->chains == 1 ? "" : half);
  return pz_copy_text(m->call, text);
}

static enum pz_op_class class_of(const struct node *n) {
  switch (n->kind) {
  case MILESTONE: return PZ_CLASS_NONE;
  case LINK: return PZ_CLASS_COLLECTIVE;
  case CAST: return PZ_CLASS_VECTOR;
  default: return n->op->op_class;
  }
}

static void make_tasks(const struct maker *m, bool named, struct pz_task *tasks) {
  for (uint32_t i = 0; i < m->g->nodes.n; i++) {
    const struct node *n = node_at(m->g, i);
    tasks[i] = (struct pz_task){.name = n->op->name, .id = i, .op_class = class_of(n)};
    if (named) tasks[i].name = task_name(m, n);
    const struct node *same = same_before(m->g, i);
    if (same) {
      const struct pz_task *t = &tasks[same - node_at(m->g, 0)];
      tasks[i].modes = t->modes;
      tasks[i].n_modes = t->n_modes;
      continue;
    }
    struct pz_vec modes;
    pz_vec_init(&modes, m->call->arena, sizeof(struct pz_mode));
    if (n->kind == RUN || n->kind == JOINT)
      run_modes(m, n, &modes);
    else
      plain_mode(m, n, &modes);
    tasks[i].modes = modes.items;
    tasks[i].n_modes = modes.n;
  }
}

struct pz_problem pz_pass_problem(struct pz_call *call, const struct pz_pass_question *q,
                                  bool named) {
  const struct pz_chip *chip = &q->cost->chip;
  struct graph g;
  make_graph(call, q, &g);
  struct pz_task *tasks = pz_alloc(call, g.nodes.n, sizeof *tasks);
  struct maker m = {.call = call, .g = &g, .chip = chip, .power = pz_pass_power_of(chip)};
  for (uint32_t i = 0; i < g.nodes.n; i++) m.serial_s += node_at(&g, i)->s;
  m.serial_s *= 1 + 1e-9;
  make_tasks(&m, named, tasks);
  const int32_t capacity[PZ_RESOURCES] = {(int32_t)chip->tensor.cores,
                                          (int32_t)chip->vector.cores,
                                          1,
                                          PZ_RATE_PARTS,
                                          PZ_RATE_PARTS,
                                          m.power.room_watts > 0 ? PZ_RATE_PARTS : 0};
  return pz_problem_build(call, capacity, tasks, g.nodes.n, g.edges.items, g.edges.n);
}

static double fastest_j(const struct pz_task *t) {
  const struct pz_mode *best = &t->modes[0];
  for (uint32_t i = 1; i < t->n_modes; i++)
    if (t->modes[i].s < best->s) best = &t->modes[i];
  return best->j;
}

struct pz_pass_schedule pz_pass_solve(struct pz_call *call, const struct pz_pass_question *q,
                                      int64_t steps) {
  struct pz_solve_options how = {.steps = steps};
  struct pz_problem p = pz_pass_problem(call, q, false);
  struct pz_schedule s = pz_schedule_find(call, &p, &how);
  struct pz_pass_schedule found = {.s = s.makespan, .bound_s = s.lower_bound};
  for (uint32_t i = 0; i < p.n && q->cost->chip.cold; i++) {
    found.dynamic_j += p.tasks[i].modes[s.slots[i].mode].j;
    found.serial_j += fastest_j(&p.tasks[i]);
  }
  return found;
}
