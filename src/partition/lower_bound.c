/* A lower bound on the step time of all plans of a model (problem.h names the relaxations).
 *
 * prepare_domain() tabulates, for every number of stages that memory and devices allow, the parameters that are charged at
 * least and the least number of rounds.  pz_place_bound_time_s() then bounds the time for given layer times: for each
 * number of stages the load of the slowest stage, first from the even share of the work and then from whole layers
 * (slowest_stage_s), and the best number of replicas for that load. */
#include "partition/problem.h"

#include <math.h>

#include "core/num.h"

/* ---- what memory allows --------------------------------------------------------------------- */

/* A stage that is not the first has inputs of at least edge_bytes; the first has none. */
static const double NO_INPUT_BYTES = 0;

/* Returns a lower bound on the memory of stage i from the end.  It has i microbatches in flight:
 * the current one, and i - 1 others, each of which keeps its activations, or with recompute only
 * the stage's input. */
static double stage_memory_bytes(const struct pz_place_bound *bound, double param_bytes,
                                 double act_bytes, uint32_t i, double input_bytes) {
  double kept_bytes = bound->problem.recompute ? input_bytes : act_bytes;
  return bound->problem.state * param_bytes + act_bytes + (double)(i - 1) * kept_bytes;
}

/* Returns the least number of stages with which any plan fits in memory, or more than there are
 * layers if none does. From the last to the first, stages are as long as memory allows. The first
 * stage of a plan keeps no input, so it may be longer than others. */
static uint32_t least_stages_by_memory(const struct pz_place_bound *bound) {
  const struct pz_place_width *width = &bound->problem.widths[0];
  uint32_t end = width->n;
  for (uint32_t i = 1; i <= width->n; i++) {
    double param_bytes = 0, act_bytes = 0; /* sums over the layers from `at` to `end` */
    uint32_t begin = end;                  /* the earliest layer at which stage i can begin */
    bool all_fit = true;                   /* stage i can have all layers added so far */
    /* The sums over all remaining layers are needed below, so the loop has no early exit. */
    for (uint32_t at = end; at > 0; at--) {
      param_bytes += width->layers[at - 1].param_bytes;
      act_bytes += width->layers[at - 1].act_bytes;
      all_fit = all_fit && stage_memory_bytes(bound, param_bytes, act_bytes, i,
                                              bound->edge_bytes) <= bound->problem.hbm_bytes;
      if (all_fit) begin = at - 1;
    }
    bool rest_fits_first = stage_memory_bytes(bound, param_bytes, act_bytes, i, NO_INPUT_BYTES) <=
                           bound->problem.hbm_bytes;
    if (begin == 0 || rest_fits_first) return i;
    end = begin;
  }
  return width->n + 1;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Returns the most replicas of a pipeline of n_stages stages that devices and microbatches allow. */
static int64_t most_replicas(const struct pz_place_problem *problem, uint32_t n_stages) {
  return pz_min(problem->devices / ((int64_t)n_stages * problem->widths[0].tp),
                problem->microbatches);
}

/* Sets the numbers of stages that memory and devices allow, and for each of them the least
 * parameters of the stage that is charged for the all-reduce, and the least rounds of a step. The
 * largest of several stages has at least an even share of the parameters, and at least those of the
 * largest layer. The first stage has at least those of the first layer. */
static void prepare_domain(struct pz_call *call, struct pz_place_bound *bound) {
  const struct pz_place_problem *problem = &bound->problem;
  const struct pz_place_width *width = &problem->widths[0];
  double all_bytes = 0, largest_bytes = 0;
  for (uint32_t i = 0; i < bound->n_runs; i++)
    if (bound->runs[i] > bound->runs[bound->main_run]) bound->main_run = i;
  for (uint32_t edge = 0; edge < width->n_edges; edge++)
    if (edge == 0 || width->edges[edge].bytes < bound->edge_bytes)
      bound->edge_bytes = width->edges[edge].bytes;
  for (uint32_t i = 0; i < width->n; i++) {
    all_bytes += width->layers[i].param_bytes;
    largest_bytes = fmax(largest_bytes, width->layers[i].param_bytes);
  }
  bound->transfer_s = bound->edge_bytes / problem->bytes_per_s;
  bound->share =
      (double)(problem->microbatches * width->tp) / (double)problem->devices * (1 - 1e-12);
  bound->least_stages = least_stages_by_memory(bound);
  /* The most stages for which the first one, which has the most microbatches in flight, can fit
   * with one layer, and for which there are enough devices. */
  bound->most_stages = width->n;
  for (; bound->most_stages > 0; bound->most_stages--) {
    bool first_fits = false; /* some layer alone fits in memory as the first stage */
    for (uint32_t i = 0; i < width->n && !first_fits; i++)
      first_fits =
          stage_memory_bytes(bound, width->layers[i].param_bytes, width->layers[i].act_bytes,
                             bound->most_stages, NO_INPUT_BYTES) <= problem->hbm_bytes;
    if (first_fits && most_replicas(problem, bound->most_stages) >= 1) break;
  }
  bound->charged_bytes =
      pz_alloc(call, (size_t)bound->most_stages + 1, sizeof *bound->charged_bytes);
  bound->rounds = pz_alloc(call, (size_t)bound->most_stages + 1, sizeof *bound->rounds);
  for (uint32_t n_stages = 1; n_stages <= bound->most_stages; n_stages++) {
    if (n_stages == 1)
      bound->charged_bytes[n_stages] = all_bytes;
    else if (problem->semantics == PZ_SEMANTICS_CORRECTED)
      bound->charged_bytes[n_stages] = fmax(all_bytes / n_stages, largest_bytes);
    else
      bound->charged_bytes[n_stages] = width->layers[0].param_bytes;
    int64_t rounds =
        pz_ceil_div(problem->microbatches, most_replicas(problem, n_stages)) + n_stages - 1;
    bound->rounds[n_stages] = (double)rounds;
  }
}

/* Prepares bounds for the whole network and each domain.  Run i has runs[i] equal layers. */
void pz_place_bound_prepare(struct pz_call *call, const struct pz_place_problem *problem,
                            const uint32_t *runs, uint32_t n_runs, struct pz_place_bound *out) {
  struct pz_place_bound *inner = pz_alloc(call, problem->n_domains, sizeof *inner);
  for (uint32_t i = 0; i <= problem->n_domains; i++) {
    struct pz_place_bound *bound = i < problem->n_domains ? &inner[i] : out;
    *bound = (struct pz_place_bound){
        .problem = pz_place_within(problem, i), .runs = runs, .n_runs = n_runs};
    prepare_domain(call, bound);
  }
  out->inner = inner;
  out->n_inner = problem->n_domains;
}

/* ---- the bound ------------------------------------------------------------------------------ */

/* The solver adds in another order, so its sums may be smaller by rounding. */
static const double ROUNDING = 1 - 1e-9;

/* Sums of the layer times for which a bound is asked.  The main run is the longest run of equal
 * layers, such as the blocks of a transformer. */
struct chain_work {
  double fwd_s, bwd_s;             /* sums over all layers */
  double longest_s;                /* largest time of a layer, both directions */
  double most_forward;             /* largest fraction of a layer's time that forward takes */
  double main_fwd_s, main_bwd_s;   /* times of one layer of the main run */
  double n_main;                   /* number of layers of the main run */
  double first_fwd_s, first_bwd_s; /* times of the first layer, or 0 if it is in the main run */
  double last_s;                   /* time of the last layer, or 0 if it is in the main run */
};

/* Sums the times of all layers, and keeps those of the main run and of the first and last layer. */
static struct chain_work sum_work(const struct pz_place_bound *bound, const double *fwd_s,
                                  const double *bwd_s) {
  uint32_t last = bound->n_runs - 1;
  struct chain_work work = {.main_fwd_s = fwd_s[bound->main_run],
                            .main_bwd_s = bwd_s[bound->main_run],
                            .n_main = bound->runs[bound->main_run]};
  for (uint32_t i = 0; i < bound->n_runs; i++) {
    double n = bound->runs[i], layer_s = fwd_s[i] + bwd_s[i];
    work.fwd_s += n * fwd_s[i];
    work.bwd_s += n * bwd_s[i];
    work.longest_s = pz_fmax(work.longest_s, layer_s);
    if (fwd_s[i] > work.most_forward * layer_s) work.most_forward = fwd_s[i] / layer_s;
  }
  if (bound->main_run > 0) {
    work.first_fwd_s = fwd_s[0];
    work.first_bwd_s = bwd_s[0];
  }
  if (bound->main_run < last) work.last_s = fwd_s[last] + bwd_s[last];
  return work;
}

/* The first stage, the inner stages or the last stage of a pipeline, with two lower bounds (j = 0
 * and 1) on the load of such a stage: offset_s[j] + k layer_s[j], if it has k layers of the main
 * run, the longest run of equal layers.  With recompute, a stage repeats its forward pass while it
 * waits for the gradient.  Its load is at least both forward passes and the backward pass (j = 0),
 * and at least one forward pass, the wait and the backward pass (j = 1).  Without recompute, both
 * bounds are the same. */
struct stage_kind {
  double count;       /* number of such stages */
  double offset_s[2]; /* by j: load without layers of the main run */
  double layer_s[2];  /* by j: load of one layer of the main run */
};

/* Returns a lower bound of at least load_s on the load of the slowest stage: the least load with
 * which all stages together can have n layers of the main run.  Each step raises the load until
 * some stage can have one more layer.  After MOST_STEPS, the load still is a lower bound. */
static double least_load_s(const struct stage_kind kinds[3], double n, double load_s) {
  enum { MOST_STEPS = 32 };
  for (int step = 0; step < MOST_STEPS; step++) {
    double capacity = 0;      /* layers of the main run that all stages can have with load_s */
    double next_s = HUGE_VAL; /* the load with which some stage can have one more */
    for (int i = 0; i < 3; i++) {
      /* the layers that a stage of this kind can have with at most this load */
      const struct stage_kind *kind = &kinds[i];
      double most = HUGE_VAL, stage_layers = PZ_PLACE_MOST_LAYERS;
      for (int j = 0; j < 2; j++) {
        double layers = (load_s - kind->offset_s[j]) / kind->layer_s[j];
        if (layers < most) most = layers;
      }
      if (most < PZ_PLACE_MOST_LAYERS)
        stage_layers = most > 0 ? (double)(int64_t)(most * (1 + 1e-12)) : 0;
      double one_more_s = pz_fmax(kind->offset_s[0] + (stage_layers + 1) * kind->layer_s[0],
                                  kind->offset_s[1] + (stage_layers + 1) * kind->layer_s[1]);
      capacity += kind->count * stage_layers;
      if (kind->count > 0 && one_more_s < next_s) next_s = one_more_s;
    }
    if (capacity >= n || !(next_s > load_s)) break;
    load_s = next_s;
  }
  return load_s;
}

/* Returns a lower bound of at least load_s on the load of the slowest of two or more stages.  Inner
 * stages wait for two transfers, activations and their gradient; the first and the last wait for
 * one of these.  With recompute, all stages but the last repeat their forward pass while the
 * gradient arrives. */
static double slowest_stage_s(const struct pz_place_bound *bound, const struct chain_work *work,
                              double n_stages, double load_s) {
  double once_s = work->main_fwd_s + work->main_bwd_s, twice_s = once_s + work->main_fwd_s;
  double transfer_s = bound->transfer_s, last_s = transfer_s + work->last_s;
  if (!bound->problem.recompute) {
    double first_s = transfer_s + work->first_fwd_s + work->first_bwd_s;
    const struct stage_kind kinds[3] = {
        {1, {first_s, first_s}, {once_s, once_s}},
        {n_stages - 2, {2 * transfer_s, 2 * transfer_s}, {once_s, once_s}},
        {1, {last_s, last_s}, {once_s, once_s}}};
    return least_load_s(kinds, work->n_main, load_s);
  }
  double first_s = work->first_fwd_s + work->first_bwd_s;
  const struct stage_kind kinds[3] = {
      {1, {first_s + work->first_fwd_s, transfer_s + first_s}, {twice_s, once_s}},
      {n_stages - 2, {transfer_s, 2 * transfer_s}, {twice_s, once_s}},
      {1, {last_s, last_s}, {once_s, once_s}}};
  return least_load_s(kinds, work->n_main, load_s);
}

/* Returns a lower bound on the step time of plans inside one domain of the network, or any number
 * of at least limit_s if the bound is not below limit_s. */
static double domain_bound_s(const struct pz_place_bound *bound, const double *fwd_s,
                             const double *bwd_s, double limit_s) {
  struct chain_work work = sum_work(bound, fwd_s, bwd_s);
  double best_s = HUGE_VAL, once_s = work.fwd_s + work.bwd_s;
  if (bound->least_stages > bound->most_stages) return HUGE_VAL; /* no plan fits */
  if (once_s * bound->share >= limit_s) return limit_s;
  for (uint32_t n_stages = bound->least_stages; n_stages <= bound->most_stages; n_stages++) {
    double cutoff_s = best_s < limit_s ? best_s : limit_s;
    /* The load if stages share all evenly; with recompute, the last runs forward once. */
    double even_s = once_s, transfers_s = (n_stages - 1) * bound->transfer_s;
    if (n_stages > 1 && bound->problem.recompute)
      even_s = (once_s + work.fwd_s + transfers_s) / (n_stages + work.most_forward);
    else if (n_stages > 1)
      even_s = (once_s + 2 * (n_stages - 1) * bound->transfer_s) / n_stages;
    double load_s = pz_fmax(even_s, work.longest_s);
    if (load_s * ROUNDING * bound->rounds[n_stages] >= cutoff_s) continue;
    /* The bound with whole layers takes longer to compute. */
    if (n_stages > 1) load_s = slowest_stage_s(bound, &work, n_stages, load_s);
    load_s *= ROUNDING;
    if (load_s * bound->rounds[n_stages] >= cutoff_s) continue;
    int64_t devices = (int64_t)n_stages * bound->problem.widths[0].tp;
    struct pz_replicas replicas = pz_place_best_replicas(&bound->problem, load_s, n_stages, devices,
                                                         bound->charged_bytes[n_stages], HUGE_VAL);
    best_s = pz_fmin(best_s, replicas.time_s);
  }
  return best_s < HUGE_VAL ? best_s : limit_s;
}

/* Returns the least bound over the whole network and all of its domains. */
double pz_place_bound_time_s(const struct pz_place_bound *bound, const double *fwd_s,
                             const double *bwd_s, double limit_s) {
  double best_s = domain_bound_s(bound, fwd_s, bwd_s, limit_s);
  for (uint32_t i = 0; i < bound->n_inner; i++) {
    double cutoff_s = best_s < limit_s ? best_s : limit_s;
    double inner_s = domain_bound_s(&bound->inner[i], fwd_s, bwd_s, cutoff_s);
    if (inner_s < best_s) best_s = inner_s;
  }
  return best_s;
}
