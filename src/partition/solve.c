/* The solver: finds the fastest plan by a dynamic program over stages, from the last to the first (Piper, NeurIPS 2021; see
 * problem.h).
 *
 * solve_width() works at one tensor-parallel degree.  make_stage_table() finds the cuts of the graph and the cost of every
 * stage between two cuts.  initial_upper_bound() finds a good plan greedily; only better ones are searched for.  fill_row()
 * then computes, for the last k stages that begin at each cut, the least maxload.  Which stage is charged for the
 * all-reduce decides how plans follow from the rows: solve_original() charges the first, solve_corrected() the largest
 * stage.  On chains, bounds on the work of a stage exclude most stages; other graphs are searched in full. */
#include "partition/problem.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/map.h"
#include "core/num.h"
#include "core/vec.h"

enum { MOST_CUTS = 1024 };

/* The cost of a possible stage, which is the layers from a cut to a later one. */
struct stage_cost {
  double kept_s, recompute_s; /* time for a microbatch: with saved activations, with recompute */
  double work_s;              /* forward and backward time without waiting for transfers */
  double recompute_work_s;    /* work_s, and if the problem recomputes, the forward time again */
  double param_bytes, act_bytes, in_bytes; /* in_bytes are inputs from other stages */
  bool tensor_parallel;                    /* the stage has a tensor-parallel layer */
};

/* The tables of the dynamic program at one width.  A cut is a set of layers closed under
 * predecessors (a downset), and a stage is the difference of two cuts.  On a chain, cuts are
 * prefixes.  A cell of maxload_s and end describes the best division of the layers that are not in
 * `cut` into the last k stages of a plan, of which n_single use one device instead of tp. */
struct stage_table {
  const struct pz_place_problem *problem;
  const struct pz_place_width *width;
  const uint64_t *cuts;     /* sets of layers, n_words each; NULL if cuts are prefixes */
  uint32_t n_cuts;          /* from the empty set to all layers, subsets before their supersets */
  uint32_t n_words;         /* number of words of a set */
  struct stage_cost *costs; /* [from][to]: cost of the stage between two cuts */
  uint32_t most_stages;
  uint32_t n_classes;   /* number of values of n_single, which begin with 0 */
  double *maxload_s;    /* [k][n_single][cut]: the least maxload */
  uint32_t *end;        /* [k][n_single][cut]: the cut at which the first of the k stages ends */
  double cap_bytes;     /* largest parameter bytes that a stage may have */
  double largest_bytes; /* parameters of the largest layer */
  double *rounds;       /* by number of stages: the least number of rounds */
  double *load_limit_s; /* by k: loads of the last k stages of plans faster than cutoff_s */
  double cutoff_s;      /* time of the incumbent from which load_limit_s was computed */
};

/* The best plan found so far. */
struct incumbent {
  struct pz_replicas replicas;
  uint32_t n_stages;                   /* 0 if there is no plan at this width */
  uint32_t ends[PZ_PLACE_MOST_LAYERS]; /* by stage: the cut at which it ends */
};

/* Returns the index of a cell in table->maxload_s and table->end.  The cell describes the last k
 * stages of a plan.  They begin at `cut`, and n_single of them use one device only. */
static size_t cell_of(const struct stage_table *table, uint32_t k, uint32_t n_single,
                      uint32_t cut) {
  return ((size_t)k * table->n_classes + n_single) * table->n_cuts + cut;
}

/* Returns the cost of the stage between two cuts. */
static struct stage_cost *cost_of(const struct stage_table *table, uint32_t from, uint32_t to) {
  return &table->costs[(size_t)from * table->n_cuts + to];
}

/* Returns the time of stage i from the end for a microbatch.  The last stage never recomputes. */
static double stage_load_s(const struct stage_table *table, const struct stage_cost *cost,
                           uint32_t i) {
  return table->problem->recompute && i > 1 ? cost->recompute_s : cost->kept_s;
}

/* Returns the memory of stage i from the end: state, activations, other microbatches in flight. */
static double stage_memory_bytes(const struct stage_table *table, const struct stage_cost *cost,
                                 uint32_t i) {
  double kept_bytes = table->problem->recompute ? cost->in_bytes : cost->act_bytes;
  return table->problem->state * cost->param_bytes + cost->act_bytes + (double)(i - 1) * kept_bytes;
}

/* Returns whether stage i from the end fits in memory and has no more parameters than the cap. */
static bool stage_fits(const struct stage_table *table, const struct stage_cost *cost, uint32_t i) {
  return stage_memory_bytes(table, cost, i) <= table->problem->hbm_bytes &&
         cost->param_bytes <= table->cap_bytes;
}

/* Returns whether a stage has no tensor-parallel layer, so that it uses only one device. */
static bool uses_one_device(const struct stage_table *table, const struct stage_cost *cost) {
  return table->width->tp > 1 && !cost->tensor_parallel;
}

/* Returns the number of devices of a pipeline with n_single stages on one device each. */
static int64_t devices_of(const struct stage_table *table, uint32_t n_stages, uint32_t n_single) {
  return (int64_t)(n_stages - n_single) * table->width->tp + n_single;
}

/* ---- cuts ----------------------------------------------------------------------------------- */

/* Returns whether a set of layers contains layer i. */
static bool set_has(const uint64_t *set, uint32_t i) { return set[i / 64] >> (i % 64) & 1; }

/* Returns whether every layer of the set is in the other set. */
static bool set_is_within(const uint64_t *set, const uint64_t *other, uint32_t n_words) {
  for (uint32_t i = 0; i < n_words; i++)
    if (set[i] & ~other[i]) return false;
  return true;
}

/* Returns the layers of a cut, as a set of n_words words. */
static const uint64_t *cut_set(const struct stage_table *table, uint32_t cut) {
  return &table->cuts[(size_t)cut * table->n_words];
}

/* Returns whether a layer is in the stage between two cuts. */
static bool is_in_stage(const struct stage_table *table, uint32_t from, uint32_t to,
                        uint32_t layer) {
  if (!table->cuts) return layer >= from && layer < to;
  return set_has(cut_set(table, to), layer) && !set_has(cut_set(table, from), layer);
}

/* Returns whether the first cut is a proper subset of the second, so that a stage is between them. */
static bool is_stage(const struct stage_table *table, uint32_t from, uint32_t to) {
  if (from >= to || !table->cuts) return from < to;
  return set_is_within(cut_set(table, from), cut_set(table, to), table->n_words);
}

/* Finds all cuts, breadth first, so that each comes after those within it. */
static void find_cuts(struct pz_call *call, struct stage_table *table) {
  uint32_t n = table->width->n, n_words = (n + 63) / 64;
  size_t bytes = n_words * sizeof(uint64_t);
  struct pz_vec cuts;
  struct pz_map seen;
  uint64_t *next = pz_alloc(call, n_words, sizeof *next);
  uint64_t *predecessors = pz_alloc(call, (size_t)n * n_words, sizeof *predecessors); /* by layer */
  pz_vec_init(&cuts, call->arena, bytes);
  pz_map_init(&seen, call->arena);
  pz_append(call, &cuts, NULL); /* the empty set */
  for (uint32_t e = 0; e < table->width->n_edges; e++) {
    const struct pz_place_edge *edge = &table->width->edges[e];
    uint64_t *of_layer = &predecessors[(size_t)edge->to * n_words];
    of_layer[edge->from / 64] |= UINT64_C(1) << (edge->from % 64);
  }
  for (uint32_t cut = 0; cut < cuts.n && cuts.n <= MOST_CUTS; cut++)
    for (uint32_t i = 0; i < n; i++) {
      memcpy(next, (char *)cuts.items + cut * bytes, bytes);
      bool is_ready = set_is_within(&predecessors[(size_t)i * n_words], next, n_words);
      if (set_has(next, i) || !is_ready) continue;
      next[i / 64] |= UINT64_C(1) << (i % 64);
      if (pz_map_get(&seen, next, bytes) != PZ_NONE) continue;
      pz_map_set(call, &seen, next, bytes, 0);
      pz_append(call, &cuts, next);
    }
  if (cuts.n > MOST_CUTS)
    pz_raise(call, PZ_BAD_INPUT, "the layers branch too much: more than %d cuts into two parts",
             MOST_CUTS);
  table->cuts = cuts.items;
  table->n_cuts = cuts.n;
  table->n_words = n_words;
}

/* ---- costs of stages ------------------------------------------------------------------------ */

/* Computes the cost of the stage between two cuts in any graph. arrive_s is scratch by direction
 * and layer: the time at which the last input from another stage arrives, for which the layer
 * waits. */
static void cost_graph_stage(const struct stage_table *table, uint32_t from, uint32_t to,
                             double *arrive_s[2]) {
  const struct pz_place_width *width = table->width;
  struct stage_cost *cost = cost_of(table, from, to);
  double forward_s = 0, backward_s = 0, sum_fwd_s = 0, sum_bwd_s = 0;
  for (int direction = 0; direction < 2; direction++)
    memset(arrive_s[direction], 0, width->n * sizeof *arrive_s[direction]);
  for (uint32_t e = 0; e < width->n_edges; e++) {
    const struct pz_place_edge *edge = &width->edges[e];
    bool leaves = is_in_stage(table, from, to, edge->from);
    bool enters = is_in_stage(table, from, to, edge->to);
    if (leaves == enters) continue; /* the edge is inside the stage, or elsewhere */
    double *latest_s =
        enters ? &arrive_s[PZ_FORWARD][edge->to] : &arrive_s[PZ_BACKWARD][edge->from];
    *latest_s = pz_fmax(*latest_s, edge->bytes / table->problem->bytes_per_s);
    if (enters) cost->in_bytes += edge->bytes;
  }
  for (uint32_t i = 0; i < width->n; i++) {
    if (!is_in_stage(table, from, to, i)) continue;
    const struct pz_place_layer *layer = &width->layers[i];
    forward_s = pz_fmax(forward_s, arrive_s[PZ_FORWARD][i]) + layer->fwd_s;
    sum_fwd_s += layer->fwd_s;
    cost->param_bytes += layer->param_bytes;
    cost->act_bytes += layer->act_bytes;
    cost->tensor_parallel = cost->tensor_parallel || layer->tensor_parallel;
  }
  for (uint32_t i = width->n; i > 0; i--) {
    if (!is_in_stage(table, from, to, i - 1)) continue;
    backward_s = pz_fmax(backward_s, arrive_s[PZ_BACKWARD][i - 1]) + width->layers[i - 1].bwd_s;
    sum_bwd_s += width->layers[i - 1].bwd_s;
  }
  cost->kept_s = forward_s + backward_s;
  cost->recompute_s = forward_s + pz_fmax(backward_s, sum_fwd_s + sum_bwd_s);
  cost->work_s = sum_fwd_s + sum_bwd_s;
  cost->recompute_work_s = cost->work_s + (table->problem->recompute ? sum_fwd_s : 0);
}

/* On a chain, sets the sums and the forward pass of every stage that begins at `from`.  Until
 * cost_chain_backward() has completed a stage, kept_s is the time of forward with waiting, and
 * recompute_s that of forward alone. */
static void cost_chain_forward(const struct stage_table *table, uint32_t from, double *arrive_s,
                               double *arrive_bytes) {
  const struct pz_place_width *width = table->width;
  struct stage_cost sum = {0};
  memset(arrive_s, 0, width->n * sizeof *arrive_s);
  memset(arrive_bytes, 0, width->n * sizeof *arrive_bytes);
  for (uint32_t e = 0; e < width->n_edges; e++) {
    const struct pz_place_edge *edge = &width->edges[e];
    if (edge->from >= from || edge->to < from) continue;
    arrive_s[edge->to] = pz_fmax(arrive_s[edge->to], edge->bytes / table->problem->bytes_per_s);
    arrive_bytes[edge->to] += edge->bytes;
  }
  for (uint32_t i = from; i < width->n; i++) {
    const struct pz_place_layer *layer = &width->layers[i];
    sum.kept_s = pz_fmax(sum.kept_s, arrive_s[i]) + layer->fwd_s;
    sum.recompute_s += layer->fwd_s;
    sum.work_s += layer->fwd_s + layer->bwd_s;
    sum.recompute_work_s += (table->problem->recompute ? 2 : 1) * layer->fwd_s + layer->bwd_s;
    sum.param_bytes += layer->param_bytes;
    sum.act_bytes += layer->act_bytes;
    sum.in_bytes += arrive_bytes[i];
    sum.tensor_parallel = sum.tensor_parallel || layer->tensor_parallel;
    *cost_of(table, from, i + 1) = sum;
  }
}

/* On a chain, completes the costs of every stage that ends at `to` by its backward pass. */
static void cost_chain_backward(const struct stage_table *table, uint32_t to, double *arrive_s) {
  const struct pz_place_width *width = table->width;
  double backward_s = 0, sum_bwd_s = 0;
  memset(arrive_s, 0, width->n * sizeof *arrive_s);
  for (uint32_t e = 0; e < width->n_edges; e++) {
    const struct pz_place_edge *edge = &width->edges[e];
    if (edge->from < to && edge->to >= to)
      arrive_s[edge->from] =
          pz_fmax(arrive_s[edge->from], edge->bytes / table->problem->bytes_per_s);
  }
  for (uint32_t from = to; from > 0; from--) {
    uint32_t i = from - 1; /* the first layer of the stage */
    struct stage_cost *cost = cost_of(table, i, to);
    backward_s = pz_fmax(backward_s, arrive_s[i]) + width->layers[i].bwd_s;
    sum_bwd_s += width->layers[i].bwd_s;
    double forward_s = cost->kept_s, sum_fwd_s = cost->recompute_s;
    cost->kept_s = forward_s + backward_s;
    cost->recompute_s = forward_s + pz_fmax(backward_s, sum_fwd_s + sum_bwd_s);
  }
}

/* Finds the cuts of the graph, and the cost of every stage between two cuts. */
static void cost_all_stages(struct pz_call *call, struct stage_table *table) {
  double *scratch[2] = {pz_alloc(call, table->width->n, sizeof(double)),
                        pz_alloc(call, table->width->n, sizeof(double))};
  /* On a chain, where every layer has an edge to the next one, cuts are prefixes of the layers. */
  bool linked[PZ_PLACE_MOST_LAYERS] = {false}, chain = true;
  for (uint32_t e = 0; e < table->width->n_edges; e++) {
    const struct pz_place_edge *edge = &table->width->edges[e];
    if (edge->to == edge->from + 1) linked[edge->from] = true;
  }
  for (uint32_t i = 0; i + 1 < table->width->n; i++) chain = chain && linked[i];
  if (!chain) find_cuts(call, table);
  uint32_t n = table->n_cuts;
  table->costs = pz_alloc(call, (size_t)n * n, sizeof *table->costs);
  if (chain) {
    for (uint32_t from = 0; from + 1 < n; from++)
      cost_chain_forward(table, from, scratch[0], scratch[1]);
    for (uint32_t to = 1; to < n; to++) cost_chain_backward(table, to, scratch[0]);
    return;
  }
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t to = from + 1; to < n; to++)
      if (is_stage(table, from, to)) cost_graph_stage(table, from, to, scratch);
}

/* ---- rows of the table ---------------------------------------------------------------------- */

/* Lowers the least maxload of the last k stages that begin at the cut `from` to that of plans in
 * which the first of these stages ends at `to`, if that is less; row k - 1 has the others. */
static void try_stage(struct stage_table *table, uint32_t k, uint32_t from, uint32_t to) {
  const struct stage_cost *stage = cost_of(table, from, to);
  if (!stage_fits(table, stage, k)) return;
  double load_s = stage_load_s(table, stage, k);
  uint32_t single = uses_one_device(table, stage); /* 1 or 0 */
  for (uint32_t n_single = single; n_single < table->n_classes; n_single++) {
    double maxload_s =
        pz_fmax(load_s, table->maxload_s[cell_of(table, k - 1, n_single - single, to)]);
    size_t cell = cell_of(table, k, n_single, from);
    if (maxload_s >= table->maxload_s[cell]) continue;
    table->maxload_s[cell] = maxload_s;
    table->end[cell] = to;
  }
}

/* Returns, on a chain, the first end of a stage after which k - 1 stages can do the remaining work
 * within the limit.  The work saved by the last stage, which does not recompute, is subtracted. */
static uint32_t first_useful_end(const struct stage_table *table, uint32_t k, uint32_t from,
                                 double limit_s) {
  uint32_t n = table->n_cuts, low = from + 1, high = n - k; /* k - 1 layers must be left */
  const struct stage_cost *all = cost_of(table, from, n - 1);
  double saved_s = all->recompute_work_s - all->work_s; /* upper bound for the last stage */
  /* The work that the first of the stages must do at least; bisection finds the first such end. */
  double least_s =
      all->recompute_work_s - (k - 1) * limit_s - pz_fmax(0, saved_s < limit_s ? saved_s : limit_s);
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (cost_of(table, from, middle)->recompute_work_s < least_s * (1 - 1e-12))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Computes the least maxload of the last k > 1 stages that begin at the cut `from`, if it is below
 * limit_s.  On a chain, bounds on the work of the first stage limit its ends. */
static void fill_cells(struct stage_table *table, uint32_t k, uint32_t from, double limit_s) {
  uint32_t n = table->n_cuts;
  if (table->cuts) {
    for (uint32_t to = from + 1; to < n; to++)
      if (is_stage(table, from, to)) try_stage(table, k, from, to);
    return;
  }
  if (from + k >= n) return; /* fewer than k layers are left */
  const struct stage_cost *rest = cost_of(table, from, n - 1);
  /* k stages cannot do the remaining work; with recompute, the last saves less than one limit. */
  if (rest->work_s >= limit_s * k || rest->recompute_work_s >= limit_s * (k + 1)) return;
  for (uint32_t to = first_useful_end(table, k, from, limit_s); to + k <= n; to++) {
    /* Memory and work grow with the length of a stage: longer ones are no better either. */
    const struct stage_cost *stage = cost_of(table, from, to);
    double least_bytes = table->problem->state * stage->param_bytes + stage->act_bytes;
    double worst_s = 0;
    if (least_bytes > table->problem->hbm_bytes) return;
    for (uint32_t n_single = 0; n_single < table->n_classes; n_single++)
      worst_s = pz_fmax(worst_s, table->maxload_s[cell_of(table, k, n_single, from)]);
    if (stage->recompute_work_s >= worst_s || stage->recompute_work_s >= limit_s) return;
    try_stage(table, k, from, to);
  }
}

/* Computes row k of the table: the least maxload of the last k stages from every cut at which these
 * stages may begin in a plan that is faster than the incumbent.  Other cells are DBL_MAX. */
static void fill_row(struct stage_table *table, uint32_t k, const struct incumbent *best) {
  uint32_t n = table->n_cuts, most = table->most_stages;
  uint32_t n_stages = k; /* least number of stages of a better plan */
  /* A stage of a better plan of i stages takes less than the incumbent's time over the rounds.
   * load_limit_s[i] is the longest such time over plans of i or more stages. */
  if (table->cutoff_s != best->replicas.time_s) {
    table->cutoff_s = best->replicas.time_s;
    for (uint32_t i = most; i > 0; i--)
      table->load_limit_s[i] =
          pz_fmax(i < most ? table->load_limit_s[i + 1] : 0, table->cutoff_s / table->rounds[i]);
  }
  for (uint32_t n_single = 0; n_single < table->n_classes; n_single++)
    for (uint32_t cut = 0; cut < n; cut++)
      table->maxload_s[cell_of(table, k, n_single, cut)] = DBL_MAX;
  for (uint32_t from = 0; from + 1 < n; from++) {
    bool is_chain = !table->cuts;
    if (is_chain && from > 0) {
      /* The stages of a better plan before `from` must do all work before that cut, each within its
       * limit, so the plan has at least this number of stages. */
      double before_s = cost_of(table, 0, from)->recompute_work_s;
      if (n_stages == k) n_stages++;
      while (n_stages <= most &&
             (n_stages - k) * (table->cutoff_s / table->rounds[n_stages]) <= before_s)
        n_stages++;
    }
    if (n_stages > most) return;
    if (k == 1)
      try_stage(table, 1, from, n - 1);
    else
      fill_cells(table, k, from, table->load_limit_s[n_stages]);
  }
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* Makes the plan of n_stages stages in the table the incumbent: n_single of them are on one
 * device, and the first ends at first_end. */
static void set_incumbent(const struct stage_table *table, struct incumbent *best,
                          struct pz_replicas replicas, uint32_t n_stages, uint32_t n_single,
                          uint32_t first_end) {
  uint32_t cut = first_end;
  uint32_t single = n_single - uses_one_device(table, cost_of(table, 0, first_end));
  best->replicas = replicas;
  best->n_stages = n_stages;
  best->ends[0] = first_end;
  for (uint32_t k = n_stages - 1; k > 0; k--) {
    uint32_t to = table->end[cell_of(table, k, single, cut)];
    single -= uses_one_device(table, cost_of(table, cut, to));
    best->ends[n_stages - k] = to;
    cut = to;
  }
}

/* Returns whether n_stages or more stages that share all work evenly are faster than the
 * incumbent. */
static bool may_improve(const struct stage_table *table, const struct incumbent *best,
                        uint32_t n_stages) {
  double work_s = cost_of(table, 0, table->n_cuts - 1)->work_s;
  for (; n_stages <= table->most_stages; n_stages++)
    if (work_s / n_stages * table->rounds[n_stages] < best->replicas.time_s) return true;
  return false;
}

/* Finds the best plan if the time of the all-reduce is that of the first stage's parameters.  Tries
 * each number of stages with each first stage; row n_stages - 1 of the table has the least maxload
 * of the other stages, and is filled before. */
static void solve_original(struct stage_table *table, struct incumbent *best) {
  for (uint32_t n_stages = 1; n_stages <= table->most_stages && may_improve(table, best, n_stages);
       n_stages++) {
    for (uint32_t to = 1; to < table->n_cuts; to++) {
      const struct stage_cost *first = cost_of(table, 0, to);
      if (!is_stage(table, 0, to) || !stage_fits(table, first, n_stages)) continue;
      uint32_t single = uses_one_device(table, first); /* 1 or 0 */
      for (uint32_t n_single = single; n_single < table->n_classes; n_single++) {
        double rest_s = table->maxload_s[cell_of(table, n_stages - 1, n_single - single, to)];
        double maxload_s = pz_fmax(stage_load_s(table, first, n_stages), rest_s);
        int64_t devices = devices_of(table, n_stages, n_single);
        if (maxload_s == DBL_MAX || devices > table->problem->devices) continue;
        struct pz_replicas found =
            pz_place_best_replicas(table->problem, maxload_s, n_stages, devices, first->param_bytes,
                                   best->replicas.time_s);
        if (found.n) set_incumbent(table, best, found, n_stages, n_single, to);
      }
    }
    if (n_stages < table->most_stages) fill_row(table, n_stages, best);
  }
}

/* Makes the table's plan of n_stages stages, n_single of them on one device, the incumbent if it is
 * better.  A plan with more parameters in its largest stage has a longer all-reduce.  Returns an
 * upper bound on the parameter bytes of the largest stage of every such plan that is faster than
 * the incumbent, found by bisection, or 0 if there is none. */
static double try_table_plan(const struct stage_table *table, struct incumbent *best,
                             uint32_t n_stages, uint32_t n_single) {
  double maxload_s = table->maxload_s[cell_of(table, n_stages, n_single, 0)];
  int64_t devices = devices_of(table, n_stages, n_single);
  if (maxload_s == DBL_MAX || devices > table->problem->devices) return 0;
  double high = 0; /* parameters of the largest stage of the plan */
  for (uint32_t k = n_stages, cut = 0, single = n_single; k > 0; k--) {
    uint32_t to = table->end[cell_of(table, k, single, cut)];
    const struct stage_cost *stage = cost_of(table, cut, to);
    high = pz_fmax(high, stage->param_bytes);
    single -= uses_one_device(table, stage);
    cut = to;
  }
  struct pz_replicas found = pz_place_best_replicas(table->problem, maxload_s, n_stages, devices,
                                                    high, best->replicas.time_s);
  if (found.n)
    set_incumbent(table, best, found, n_stages, n_single,
                  table->end[cell_of(table, n_stages, n_single, 0)]);
  double limit_s = best->replicas.time_s;
  double all_bytes = cost_of(table, 0, table->n_cuts - 1)->param_bytes;
  double low = pz_fmax(all_bytes / n_stages, table->largest_bytes); /* no plan has less */
  if (!pz_place_best_replicas(table->problem, maxload_s, n_stages, devices, low, limit_s).n)
    return 0;
  for (int probe = 0; probe < 12; probe++) {
    double middle = (low + high) / 2;
    if (pz_place_best_replicas(table->problem, maxload_s, n_stages, devices, middle, limit_s).n)
      low = middle;
    else
      high = middle;
  }
  return high;
}

/* Finds the best plan if the time of the all-reduce is that of the largest stage's parameters.
 * Each pass fills the table with stages of at most cap_bytes of parameters, tries its plans, and
 * then lowers the cap just below the largest stage that a better plan can have, if any. */
static void solve_corrected(struct stage_table *table, struct incumbent *best) {
  uint32_t last = table->most_stages; /* plans of more stages are no better than the incumbent */
  table->cap_bytes = DBL_MAX;
  for (;;) {
    double most_bytes = 0;
    uint32_t last_open = 0; /* largest number of stages of which plans may be better */
    for (uint32_t n_stages = 1; n_stages <= last && may_improve(table, best, n_stages);
         n_stages++) {
      fill_row(table, n_stages, best);
      for (uint32_t n_single = 0; n_single < table->n_classes; n_single++) {
        double bytes = try_table_plan(table, best, n_stages, n_single);
        if (bytes > 0) last_open = n_stages;
        most_bytes = pz_fmax(most_bytes, bytes);
      }
    }
    if (most_bytes <= 0) return;
    last = last_open;
    table->cap_bytes = nextafter(most_bytes, 0);
  }
}

/* ---- an initial upper bound ------------------------------------------------------------------ */

/* Returns the step time of the greedy plan of a chain in which each stage, from the last to the
 * first, gets as many layers as fit in memory with a load of at most load_s, or DBL_MAX if this
 * needs more than n_stages stages or too many devices. */
static double greedy_time_s(const struct stage_table *table, uint32_t n_stages, double load_s) {
  /* The gradient all-reduce takes the time of one stage's parameters: those of the largest stage,
   * or of the first one, which is visited last. */
  bool largest_charged = table->problem->semantics == PZ_SEMANTICS_CORRECTED;
  double maxload_s = 0, charged_bytes = 0;
  uint32_t cut = table->n_cuts - 1; /* the layers before this cut are in no stage yet */
  uint32_t k = 0, n_single = 0;     /* stages so far, and how many of them use one device only */
  while (cut > 0 && k < n_stages) {
    uint32_t from = cut;
    k++;
    while (from > 0) { /* extend stage k towards the first layer */
      const struct stage_cost *longer = cost_of(table, from - 1, cut);
      bool extends = stage_load_s(table, longer, k) <= load_s && stage_fits(table, longer, k);
      if (!extends) break;
      from--;
    }
    if (from == cut) return DBL_MAX; /* not even one layer fits */
    const struct stage_cost *cost = cost_of(table, from, cut);
    maxload_s = pz_fmax(maxload_s, stage_load_s(table, cost, k));
    if (!largest_charged) charged_bytes = 0; /* the stage visited last counts */
    charged_bytes = pz_fmax(charged_bytes, cost->param_bytes);
    n_single += uses_one_device(table, cost);
    cut = from;
  }
  int64_t devices = devices_of(table, k, n_single);
  if (cut > 0 || devices > table->problem->devices) return DBL_MAX;
  return pz_place_best_replicas(table->problem, maxload_s, k, devices, charged_bytes, DBL_MAX)
      .time_s;
}

/* On a chain, lowers the incumbent's time to that of the best greedy plan that bisection finds.  The
 * dynamic program finds that plan or a better one. */
static void initial_upper_bound(const struct stage_table *table, struct incumbent *best) {
  if (table->cuts) return;
  double work_s = cost_of(table, 0, table->n_cuts - 1)->work_s, time_s = best->replicas.time_s;
  /* Some numbers of stages, each with 8 loads from the mean load to 4 times as much, are enough. */
  for (uint32_t n_stages = 1; n_stages <= table->most_stages; n_stages += 1 + n_stages / 3) {
    double low = work_s / n_stages, high = 4 * low;
    for (int probe = 0; probe < 8; probe++) {
      double middle = (low + high) / 2, greedy_s = greedy_time_s(table, n_stages, middle);
      if (greedy_s < time_s) time_s = greedy_s;
      if (greedy_s < DBL_MAX)
        high = middle;
      else
        low = middle;
    }
  }
  /* The limit is a little above the greedy time, so that the dynamic program finds that plan too,
   * even if it adds the same numbers in another order. */
  double limit_s = DBL_MAX;
  if (time_s < DBL_MAX) limit_s = pz_fmax(time_s * (1 + 1e-9), nextafter(time_s, DBL_MAX));
  best->replicas.time_s = pz_fmin(best->replicas.time_s, limit_s);
}

/* ---- the solution --------------------------------------------------------------------------- */

/* Allocates the tables.  Sets the costs of all stages, the least numbers of rounds of a step, and
 * the first row of maxloads, for 0 stages, from which the dynamic program begins. */
static void make_stage_table(struct pz_call *call, struct stage_table *table) {
  const struct pz_place_problem *problem = table->problem;
  cost_all_stages(call, table);
  size_t row = (size_t)table->n_classes * table->n_cuts, n = (table->most_stages + (size_t)1) * row;
  table->maxload_s = pz_alloc(call, n, sizeof *table->maxload_s);
  table->end = pz_alloc(call, n, sizeof *table->end);
  table->rounds = pz_alloc(call, table->most_stages + 1, sizeof *table->rounds);
  table->load_limit_s = pz_alloc(call, table->most_stages + 1, sizeof *table->load_limit_s);
  for (size_t i = 0; i < row; i++) table->maxload_s[i] = DBL_MAX;
  uint32_t all_layers = table->n_cuts - 1; /* the only cut after which 0 stages suffice */
  table->maxload_s[cell_of(table, 0, 0, all_layers)] = 0;
  int64_t least_stage_devices = table->n_classes > 1 ? 1 : table->width->tp;
  for (uint32_t n_stages = 1; n_stages <= table->most_stages; n_stages++) {
    int64_t n_replicas =
        pz_min(problem->devices / (n_stages * least_stage_devices), problem->microbatches);
    table->rounds[n_stages] =
        n_replicas < 1 ? DBL_MAX
                       : (double)(pz_ceil_div(problem->microbatches, n_replicas) + n_stages - 1);
  }
  for (uint32_t i = 0; i < table->width->n; i++)
    table->largest_bytes = pz_fmax(table->largest_bytes, table->width->layers[i].param_bytes);
}

/* Returns the incumbent as a solution with stages. */
static struct pz_place_solution describe_incumbent(struct pz_call *call,
                                                   const struct stage_table *table,
                                                   const struct incumbent *best) {
  const struct pz_place_width *width = table->width;
  uint32_t n = best->n_stages, from = 0, *layers = pz_alloc(call, width->n, sizeof *layers);
  double charged_bytes = 0;
  struct pz_place_solution plan = {.width = (uint32_t)(width - table->problem->widths),
                                   .replicas = best->replicas.n,
                                   .stages = pz_alloc(call, n, sizeof *plan.stages),
                                   .n_stages = n,
                                   .time_s = best->replicas.time_s};
  for (uint32_t k = 0; k < n; k++) {
    uint32_t to = best->ends[k];
    const struct stage_cost *cost = cost_of(table, from, to);
    struct pz_stage *stage = &plan.stages[k];
    *stage = (struct pz_stage){.layers = layers,
                               .devices = cost->tensor_parallel ? width->tp : 1,
                               .load_s = stage_load_s(table, cost, n - k),
                               .param_bytes = cost->param_bytes,
                               .memory_bytes = stage_memory_bytes(table, cost, n - k)};
    for (uint32_t i = 0; i < width->n; i++) {
      if (!is_in_stage(table, from, to, i)) continue;
      layers[stage->n] = i;
      stage->n++;
    }
    layers += stage->n;
    plan.maxload_s = pz_fmax(plan.maxload_s, stage->load_s);
    /* The all-reduce counts the largest stage, or in the original semantics the first one. */
    if (k == 0 || table->problem->semantics == PZ_SEMANTICS_CORRECTED)
      charged_bytes = pz_fmax(charged_bytes, cost->param_bytes);
    from = to;
  }
  plan.allreduce_s = pz_place_allreduce_s(table->problem, plan.replicas, charged_bytes);
  return plan;
}

/* Finds the best plan at one width.  A plan faster than the incumbent replaces it and *out. */
static void solve_width(struct pz_call *call, const struct pz_place_problem *problem,
                        const struct pz_place_width *width, struct incumbent *best,
                        struct pz_place_solution *out) {
  struct stage_table table = {.problem = problem,
                              .width = width,
                              .n_cuts = width->n + 1,
                              .most_stages = (uint32_t)pz_min(problem->devices, width->n),
                              .n_classes = 1,
                              .cap_bytes = DBL_MAX,
                              .cutoff_s = -1};
  /* At most as many stages use one device as there are layers that are not tensor-parallel. */
  for (uint32_t i = 0; i < width->n && width->tp > 1; i++)
    table.n_classes += !width->layers[i].tensor_parallel;
  struct pz_call tables = pz_scratch(call); /* the tables are large, and are freed at the end */
  make_stage_table(&tables, &table);
  best->n_stages = 0;
  initial_upper_bound(&table, best);
  if (problem->semantics == PZ_SEMANTICS_ORIGINAL)
    solve_original(&table, best);
  else
    solve_corrected(&table, best);
  if (best->n_stages) *out = describe_incumbent(call, &table, best);
  pz_scratch_end(&tables);
}

/* Finds the fastest plan.  Every domain of the network is solved by itself, the smallest first.  If
 * several plans are equally fast, the one on the fewest devices is therefore returned. */
bool pz_place_find_fastest(struct pz_call *call, const struct pz_place_problem *problem,
                           double limit_s, struct pz_place_solution *out) {
  struct pz_place_solution fastest = {0};
  for (uint32_t i = 0; i <= problem->n_domains; i++) {
    struct pz_place_problem inside = pz_place_within(problem, i);
    struct pz_place_solution plan = {0};
    struct incumbent best;
    /* A plan must be faster than the incumbent, so one of exactly limit_s is found too. */
    best.replicas.time_s = limit_s < DBL_MAX ? nextafter(limit_s, DBL_MAX) : DBL_MAX;
    for (uint32_t width = 0; width < problem->n_widths; width++)
      solve_width(call, &inside, &problem->widths[width], &best, &plan);
    if (!plan.n_stages || (fastest.n_stages && plan.time_s >= fastest.time_s)) continue;
    fastest = plan;
    fastest.domain = i;
    limit_s = plan.time_s;
  }
  if (!fastest.n_stages) return false;
  *out = fastest;
  return true;
}

/* ---- the least memory that would do --------------------------------------------------------- */

/* Returns whether there is a plan with this memory per device.  If so, *out describes its stage
 * with the most memory. */
static bool fits_with(struct pz_call *call, const struct pz_place_problem *problem,
                      double hbm_bytes, struct pz_fit *out) {
  struct pz_call work = pz_scratch(call);
  struct pz_place_problem larger = *problem;
  struct pz_place_solution plan;
  larger.hbm_bytes = hbm_bytes;
  bool fits = pz_place_find_fastest(&work, &larger, DBL_MAX, &plan);
  for (uint32_t k = 0; fits && k < plan.n_stages; k++) {
    const struct pz_stage *stage = &plan.stages[k];
    const struct pz_place_layer *layers = problem->widths[plan.width].layers;
    if (k > 0 && stage->memory_bytes <= out->memory_bytes) continue;
    *out = (struct pz_fit){.hbm_bytes = hbm_bytes,
                           .stage = k,
                           .n_stages = plan.n_stages,
                           .n_layers = stage->n,
                           .first = layers[stage->layers[0]].id,
                           .last = layers[stage->layers[stage->n - 1]].id,
                           .param_bytes = stage->param_bytes,
                           .memory_bytes = stage->memory_bytes};
  }
  pz_scratch_end(&work);
  return fits;
}

/* Returns the least memory per device with which the problem has a plan, to a thousandth. */
struct pz_fit pz_place_least_memory(struct pz_call *call, const struct pz_place_problem *problem) {
  struct pz_fit fit = {.hbm_bytes = DBL_MAX};
  double low = problem->hbm_bytes, high = low > 1 ? 2 * low : 2;
  while (!fits_with(call, problem, high, &fit)) {
    low = high;
    high *= 2;
    if (high > 1e30) return (struct pz_fit){.hbm_bytes = DBL_MAX};
  }
  while (high > 1.001 * low) {
    double middle = (low + high) / 2;
    if (fits_with(call, problem, middle, &fit))
      high = middle;
    else
      low = middle;
  }
  return fit;
}
