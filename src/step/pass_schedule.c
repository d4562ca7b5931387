#include "step/pass_schedule.h"

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
  SUM,  /* gradients of weights added up */
  LINK,
  JOINT /* an operator on cores that reads what a collective gathers as it arrives */
};

struct node {
  enum node_kind kind;
  const struct pz_op *op;
  const struct pz_op_run *run;
  double s; /* alone on the chip */
  int chain;
  bool again;
};

struct graph {
  const struct pz_pass_question *q;
  struct pz_vec nodes, edges; /* struct node, struct pz_edge: from lower to higher */
  double weight_s;            /* of the weight gradients of a chain */
  bool failed;                /* out of memory */
};

static uint32_t add_node(struct graph *g, enum node_kind kind, const struct pz_op *op,
                         const struct pz_op_run *run, double s, const struct node *like) {
  struct node n = {kind, op, run, s, like->chain, like->again};
  g->failed |= !pz_vec_push(&g->nodes, &n);
  return g->nodes.n - 1;
}

static void add_edge(struct graph *g, uint32_t before, uint32_t after) {
  if (before == PZ_NONE || before == after) return;
  g->failed |= !pz_vec_push(&g->edges, &(struct pz_edge){before, after});
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

/* The first GEMM that reads what a collective gathers. */
static uint32_t find_reader(const struct chain *c, uint32_t gather) {
  const struct pz_ops *ops = c->part->ops;
  for (uint32_t i = gather + 1; i < ops->n; i++)
    for (uint32_t k = 0; k < ops->op[i].n_pred; k++)
      if (ops->op[i].pred[k] == gather && chosen(c->part, i) &&
          c->part->runs[i].kind == PZ_RUN_GEMM)
        return i;
  return PZ_NONE;
}

/* A collective.  Where its GEMM reads it as it arrives, what it takes longer than the GEMM comes before that, the rest
 * beside it. */
static void add_link(struct graph *g, struct chain *c, uint32_t i) {
  const struct pz_op *op = &c->part->ops->op[i];
  const struct pz_op_run *run = &c->part->runs[i];
  uint32_t reader = run->gathers ? find_reader(c, i) : PZ_NONE;
  double s = run->s;
  for (uint32_t k = 0; k < i && reader != PZ_NONE; k++)
    if (c->reader[k] == reader) reader = PZ_NONE; /* it reads one already */
  if (reader != PZ_NONE) {
    s = pz_fmax(0, s - c->part->runs[reader].s);
    c->reader[i] = reader;
  }
  if (s > 0) {
    c->done[i] = add_node(g, LINK, op, run, s, &c->like);
    add_preds(g, c, i, c->done[i]);
  } else {
    c->done[i] = ready_node(g, c, i);
  }
}

/* Keys and values go round the ring while attention reads them: what follows waits for both. */
static void add_ring(struct graph *g, struct chain *c, uint32_t i) {
  const struct pz_op *op = &c->part->ops->op[i];
  uint32_t ring = add_node(g, LINK, op, NULL, c->part->ring_s, &c->like);
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
  if (gather != PZ_NONE) c->done[gather] = at; /* all of it has arrived */
  if (op->kind == PZ_OP_ATTENTION && c->part->ring_s > 0) add_ring(g, c, i);
  if (run->weight && g->q->sum_s > 0 && g->weight_s > 0)
    add_edge(g, at, add_node(g, SUM, op, run, g->q->sum_s * run->s / g->weight_s, &c->like));
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

static bool make_graph(const struct pz_pass_question *q, struct pz_arena *arena, struct graph *g) {
  uint32_t n = q->pass.ops->n + (q->again.ops ? q->again.ops->n : 0);
  uint32_t *done, *reader, *sinks;
  *g = (struct graph){.q = q};
  pz_vec_init(&g->nodes, arena, sizeof(struct node));
  pz_vec_init(&g->edges, arena, sizeof(struct pz_edge));
  if (!PZ_ARRAY(arena, done, n) || !PZ_ARRAY(arena, reader, n) || !PZ_ARRAY(arena, sinks, 4 * n))
    return false;
  for (uint32_t i = 0; i < q->pass.ops->n; i++)
    g->weight_s += q->pass.runs[i].weight ? q->pass.runs[i].s : 0;
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
  return !g->failed;
}

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for a schedule");
}

static const struct node *node_at(const struct graph *g, uint32_t i) {
  return pz_vec_at(&g->nodes, struct node, i);
}

/* ---- the bound ------------------------------------------------------------------------------------ */

/* Seconds that a task keeps each resource busy, had it nothing else to do. */
enum load { TENSOR, VECTOR, WIRE, HBM, GLB, LOADS };

struct bounded {
  double s, head, tail, load[LOADS];
};

static bool on_tensor(const struct node *n) {
  return n->op->op_class == PZ_CLASS_TENSOR || n->op->op_class == PZ_CLASS_FUSED ||
         n->run->kind == PZ_RUN_GEMM;
}

static void loads_of(const struct node *n, struct bounded *b) {
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
    break;
  }
  case CAST:
  case SUM: b->load[HBM] = n->s; break;
  case LINK: b->load[WIRE] = n->s; break;
  default: break;
  }
}

struct keyed {
  double key;
  uint32_t i;
};

static int descending(const void *a, const void *b) {
  const struct keyed *x = a, *y = b;
  return x->key < y->key ? 1 : x->key > y->key ? -1 : (x->i > y->i) - (x->i < y->i);
}

/* Work of the tasks with key at least k, plus k. */
static double load_bound(const struct bounded *b, struct keyed *list, uint32_t n) {
  double sum[LOADS] = {0}, bound = 0;
  qsort(list, n, sizeof *list, descending);
  for (uint32_t i = 0; i < n; i++)
    for (int r = 0; r < LOADS; r++) {
      sum[r] += b[list[i].i].load[r];
      if (b[list[i].i].load[r] > 0) bound = pz_fmax(bound, sum[r] + list[i].key);
    }
  return bound;
}

enum pz_status pz_pass_bound_s(const struct pz_pass_question *q, double *bound_s,
                               struct pz_error *err) {
  struct pz_arena arena;
  struct graph g;
  struct bounded *b = NULL;
  struct keyed *list = NULL;
  pz_arena_init(&arena, NULL);
  bool made = make_graph(q, &arena, &g) && PZ_ARRAY(&arena, b, g.nodes.n + 1) &&
              PZ_ARRAY(&arena, list, g.nodes.n + 1);
  double bound = 0;
  if (made) {
    uint32_t n = g.nodes.n;
    const struct pz_edge *e = g.edges.items;
    for (uint32_t i = 0; i < n; i++) loads_of(node_at(&g, i), &b[i]);
    for (uint32_t k = 0; k < g.edges.n; k++) /* in the order of their ends */
      b[e[k].after].head = pz_fmax(b[e[k].after].head, b[e[k].before].head + b[e[k].before].s);
    for (uint32_t k = g.edges.n; k-- > 0;)
      b[e[k].before].tail = pz_fmax(b[e[k].before].tail, b[e[k].after].tail + b[e[k].after].s);
    for (uint32_t i = 0; i < n; i++) {
      bound = pz_fmax(bound, b[i].head + b[i].s + b[i].tail);
      list[i] = (struct keyed){b[i].tail, i};
    }
    bound = pz_fmax(bound, load_bound(b, list, n));
    for (uint32_t i = 0; i < n; i++) list[i] = (struct keyed){b[i].head, i};
    bound = pz_fmax(bound, load_bound(b, list, n));
  }
  pz_arena_release(&arena);
  return made ? (*bound_s = bound * (1 - 1e-9), PZ_OK) : no_memory(err);
}

/* ---- the problem ---------------------------------------------------------------------------------- */

struct maker {
  const struct graph *g;
  const struct pz_chip *chip;
  struct pz_power_law law;
  double idle_watts, room_watts; /* the watts that are left beside those; 0: no limit */
  double serial_s;
  struct pz_arena *arena;
};

/* With less power and so many vector cores; dynamic energy. */
static void run_with(const struct maker *m, const struct node *n, int64_t vector, double share,
                     double *s, double *joules) {
  struct pz_work w = n->run->work;
  struct pz_power_law law = m->law;
  struct pz_power p;
  double lanes = vector > 0 ? (double)m->chip->vector.cores / (double)vector : 1;
  w.core_s = pz_fmax(w.array_s, w.lane_s * lanes);
  if (n->run->kind == PZ_RUN_ATTENTION) w.core_s = n->run->work.core_s;
  if (!m->chip->cold) {
    *s = n->run->calls * (w.startup_s + pz_fmax(w.core_s, w.hbm_s)) + n->run->merge_s;
    *joules = n->run->calls * (w.core_j + w.outside_j);
    return;
  }
  if (m->room_watts > 0) law.watts = m->idle_watts + share * m->room_watts;
  pz_power_run(&law, &w, 0, &p);
  *s = n->run->calls * p.latency_s + n->run->merge_s;
  *joules = n->run->calls * (p.joules - p.latency_s * m->idle_watts);
}

static struct pz_full_mode full_mode(const struct maker *m, const struct node *n, int64_t vector) {
  struct pz_full_mode f = {.limited = m->chip->cold && m->room_watts > 0};
  f.at.use[PZ_TENSOR_CORES] = on_tensor(n) ? (int32_t)m->chip->tensor.cores : 0;
  f.at.use[PZ_VECTOR_CORES] = (int32_t)vector;
  f.at.use[PZ_LINK] = n->kind == JOINT ? 1 : 0;
  f.at.label = f.at.use[PZ_TENSOR_CORES] ? f.at.use[PZ_TENSOR_CORES] : (int32_t)vector;
  f.at.hbm_s = n->run->calls * n->run->work.hbm_s + n->run->merge_s;
  f.at.glb_s = n->run->calls * n->run->work.glb_s;
  for (int i = PZ_RATE_LEVELS - 1; i >= 0; i--) {
    run_with(m, n, vector, pz_rate_level(i), &f.power_s[i], &f.power_j[i]);
    if (!f.limited) break;
    if (i < PZ_RATE_LEVELS - 1) f.power_s[i] = pz_fmax(f.power_s[i], f.power_s[i + 1]);
  }
  f.at.s = f.power_s[PZ_RATE_LEVELS - 1];
  f.at.j = f.power_j[PZ_RATE_LEVELS - 1];
  return f;
}

/* Vector cores come in powers of two, or all: those with which nothing is slower and, of element-wise operators, half
 * and a quarter of them. */
static bool run_modes(const struct maker *m, const struct node *n, struct pz_vec *modes) {
  struct pz_vec full;
  const struct pz_work *w = &n->run->work;
  bool tensor = on_tensor(n);
  int64_t all = m->chip->vector.cores, least = 1;
  pz_vec_init(&full, m->arena, sizeof(struct pz_full_mode));
  if (n->run->kind == PZ_RUN_ATTENTION) {
    least = all;
  } else if (!(w->lane_s > 0)) {
    least = 0;
  } else {
    double room_s = pz_fmax(w->array_s, w->hbm_s);
    while (least < all && w->lane_s * (double)all > room_s * (double)least) least *= 2;
    least = pz_min(least, all);
  }
  int64_t first = tensor ? least : pz_max(1, least / 4);
  for (int64_t v = first;; v = pz_min(2 * v, least)) {
    struct pz_full_mode f = full_mode(m, n, v);
    if (!pz_vec_push(&full, &f)) return false;
    if (v >= least) break;
  }
  return pz_rate_modes(&full, m->serial_s, modes);
}

/* One that holds memory, or the link, for a time. */
static bool plain_mode(const struct maker *m, const struct node *n, struct pz_vec *modes) {
  struct pz_vec full;
  struct pz_full_mode f = {.at = {.s = n->s}};
  double joules = 0;
  pz_vec_init(&full, m->arena, sizeof(struct pz_full_mode));
  if (n->kind == LINK) {
    f.at.use[PZ_LINK] = 1;
    joules = n->run && n->run->s > 0 ? n->run->work.outside_j * n->s / n->run->s : 0;
  } else if (n->kind != MILESTONE) {
    f.at.use[PZ_VECTOR_CORES] = f.at.label = 1;
    f.at.hbm_s = n->s;
    joules = n->s * pz_chip_hbm_bytes_per_s(m->chip) * pz_tech_at(m->chip->tech)->hbm_j;
  }
  f.at.j = joules;
  f.limited = m->room_watts > 0 && n->s > 0;
  for (int i = 0; i < PZ_RATE_LEVELS; i++) {
    f.power_j[i] = joules;
    f.power_s[i] = f.limited ? pz_fmax(n->s, joules / (pz_rate_level(i) * m->room_watts)) : n->s;
  }
  f.power_s[PZ_RATE_LEVELS - 1] = n->s;
  if (n->kind == LINK) f.at.s = n->s;
  return pz_vec_push(&full, &f) && pz_rate_modes(&full, m->serial_s, modes);
}

/* Both halves run the same. */
static const struct node *same_before(const struct graph *g, uint32_t i) {
  const struct node *n = node_at(g, i);
  uint32_t per_chain = g->nodes.n / (uint32_t)g->q->chains;
  return n->chain > 0 && i >= per_chain ? node_at(g, i - per_chain) : NULL;
}

static bool name_task(const struct node *n, int chains, struct pz_arena *arena,
                      struct pz_task *task) {
  static const char *const before[] = {[CAST] = "cast ", [SUM] = "sum ", [LINK] = "",
                                       [RUN] = "",       [JOINT] = "",   [MILESTONE] = ""};
  char text[160];
  const char *what = n->kind == LINK && !n->run ? "ring " : before[n->kind];
  snprintf(text, sizeof text, "%s%s%s%s", n->again ? "again " : "", what, n->op->name,
           chains == 1 ? "" : n->chain ? " (2)" : " (1)");
  return (task->name = pz_arena_strdup(arena, text)) != NULL;
}

static enum pz_op_class class_of(const struct node *n) {
  switch (n->kind) {
  case MILESTONE: return PZ_CLASS_NONE;
  case LINK: return PZ_CLASS_COLLECTIVE;
  case CAST:
  case SUM: return PZ_CLASS_VECTOR;
  default: return n->op->op_class;
  }
}

static bool make_tasks(const struct maker *m, bool named, struct pz_task *tasks) {
  for (uint32_t i = 0; i < m->g->nodes.n; i++) {
    const struct node *n = node_at(m->g, i);
    tasks[i] = (struct pz_task){.name = n->op->name, .id = i, .op_class = class_of(n)};
    if (named && !name_task(n, m->g->q->chains, m->arena, &tasks[i])) return false;
    const struct node *same = same_before(m->g, i);
    if (same) {
      const struct pz_task *t = &tasks[same - node_at(m->g, 0)];
      tasks[i].modes = t->modes;
      tasks[i].n_modes = t->n_modes;
      continue;
    }
    struct pz_vec modes;
    pz_vec_init(&modes, m->arena, sizeof(struct pz_mode));
    bool done =
        n->kind == RUN || n->kind == JOINT ? run_modes(m, n, &modes) : plain_mode(m, n, &modes);
    if (!done) return false;
    tasks[i].modes = modes.items;
    tasks[i].n_modes = modes.n;
  }
  return true;
}

enum pz_status pz_pass_problem(const struct pz_pass_question *q, bool named,
                               struct pz_arena *arena, struct pz_problem *out,
                               struct pz_error *err) {
  const struct pz_chip *chip = &q->cost->chip;
  struct graph g;
  struct pz_task *tasks;
  if (!make_graph(q, arena, &g) || !PZ_ARRAY(arena, tasks, g.nodes.n)) return no_memory(err);
  struct maker m = {.g = &g, .chip = chip, .arena = arena};
  if (chip->cold) {
    m.law = pz_power_law_of(chip);
    m.idle_watts = pz_power_idle_watts(chip);
    m.room_watts = m.law.watts > 0 ? pz_fmax(0, m.law.watts - m.idle_watts) : 0;
  }
  for (uint32_t i = 0; i < g.nodes.n; i++) m.serial_s += node_at(&g, i)->s;
  m.serial_s *= 1 + 1e-9;
  if (!make_tasks(&m, named, tasks)) return no_memory(err);
  const int32_t capacity[PZ_RESOURCES] = {(int32_t)chip->tensor.cores,
                                          (int32_t)chip->vector.cores,
                                          1,
                                          PZ_RATE_PARTS,
                                          PZ_RATE_PARTS,
                                          PZ_RATE_PARTS};
  return pz_problem_make(arena, capacity, tasks, g.nodes.n, g.edges.items, g.edges.n, out, err);
}

enum pz_status pz_pass_solve(const struct pz_pass_question *q, int64_t steps,
                             struct pz_pass_schedule *out, struct pz_error *err) {
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule s;
  struct pz_solve_options how = {.steps = steps};
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_pass_problem(q, false, &arena, &p, err);
  if (status == PZ_OK) status = pz_schedule_solve(&p, &how, &arena, &s, err);
  if (status == PZ_OK) {
    *out = (struct pz_pass_schedule){.s = s.makespan, .bound_s = s.lower_bound};
    for (uint32_t i = 0; i < p.n && q->cost->chip.cold; i++)
      out->dynamic_j += p.tasks[i].modes[s.slots[i].mode].j;
  }
  pz_arena_release(&arena);
  return status;
}
