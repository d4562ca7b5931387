/* Chooses the least recomputation and offload with which a plan fits in memory (plan_memory.h).
 *
 * pz_plan_memory_once() calls choose_offloaded_layers() for activations on the host,
 * choose_recomputed_layers() for full recomputation, and needed_bytes() for plans without a
 * choice.  The minimizes_memory of a stage falls with every recomputed layer, except at the few
 * layer counts that next_rise() finds, so that the fewest layers are found by bisection between
 * these. pz_plan_memory_bytes() caches the choices for searches over many chips. */
#include "place/plan_memory.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"

enum { MAX_CACHE_BYTES = 256 << 20 };

/* Returns the stage to examine at position i.  The first and the last stage come first, because
 * they usually need the most memory. */
static int64_t stage_at(const struct pz_plan *plan, int64_t i) {
  if (i == 0) return 0;
  return i == 1 ? plan->pp - 1 : i - 1;
}

/* Returns the bytes that the fullest stage may reserve, or those of the first examined stage above
 * the cutoff. */
static double needed_bytes(const struct pz_step_shape *shape, const struct pz_plan *plan,
                           double cutoff_bytes) {
  double most = 0;
  for (int64_t i = 0; i < plan->pp && most <= cutoff_bytes; i++)
    most = pz_fmax(most, pz_step_needed_bytes(shape->model, plan, stage_at(plan, i)));
  return most;
}

/* Returns whether the offloaded state and activations of every stage fit in the host's memory. */
static bool fits_on_host(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                         const struct pz_plan *plan) {
  for (int64_t k = 0; plan->offload && k < plan->pp; k++)
    if (pz_step_host_bytes(shape->model, plan, k) > memory->host_bytes) return false;
  return true;
}

/* ---- recomputed layers of a stage ----------------------------------------------------------- */

/* Returns the number of layers of the largest chunk of a stage. */
static int64_t chunk_layers(const struct pz_step_shape *shape, const struct pz_plan *plan,
                            int64_t stage) {
  struct pz_pipeline_shape pipeline = pz_plan_pipeline_shape(plan);
  int64_t most = 0;
  for (uint32_t c = 0; c < pz_pipeline_slots(&pipeline); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&pipeline, (uint32_t)stage, c);
    most = pz_max(most, pz_plan_chunk_layers(plan, shape->model->n_blocks, chunk));
  }
  return most;
}

/* Returns the number of layers of the largest chunk of a plan. */
static int64_t largest_chunk_layers(const struct pz_step_shape *shape, const struct pz_plan *plan) {
  int64_t most = 0;
  for (int64_t k = 0; k < plan->pp; k++) most = pz_max(most, chunk_layers(shape, plan, k));
  return most;
}

/* Returns the fewest of the n layers from `start` on that contain `count` layers of a kind. */
static int64_t layers_with(const struct pz_layer_kinds *kinds, uint32_t kind, int64_t start,
                           int64_t n, int64_t count) {
  while (n > 1 && pz_kind_count(kinds, kind, start, n - 1) >= count) n--;
  return n;
}

/* Returns the smallest number of recomputed layers above `low` that may need more memory than one
 * layer less, or one more than the layers of the largest chunk if there is none.  Such a number
 * newly recomputes, in some chunk of the stage,
 * - the first layer of a kind, whose backward pass comes last, when FSDP2 has accumulated the
 *   sharded gradients of the others;
 * - or the last layer of a kind, whose output then exists twice. */
static int64_t next_rise(const struct pz_step_shape *step_shape, const struct pz_plan *plan,
                         int64_t stage, int64_t low) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  const struct pz_layer_kinds *kinds = &step_shape->model->kinds;
  int64_t rise = chunk_layers(step_shape, plan, stage) + 1;
  bool fsdp2 = pz_plan_framework(plan)->shards_stages && plan->zero >= 2;
  for (uint32_t c = 0; c < pz_pipeline_slots(&shape); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, c);
    int64_t n = pz_plan_chunk_layers(plan, kinds->n_blocks, chunk);
    int64_t start = kinds->n > 1 ? pz_plan_layers_before(plan, kinds->n_blocks, chunk) : 0;
    for (uint32_t i = 0; i < kinds->n; i++) {
      int64_t of_kind = pz_kind_count(kinds, i, start, n);
      if (!of_kind) continue;
      int64_t first = fsdp2 ? layers_with(kinds, i, start, n, 1) : 0;
      int64_t last = layers_with(kinds, i, start, n, of_kind);
      if (first > low)
        rise = pz_min(rise, first);
      else if (last > low)
        rise = pz_min(rise, last);
    }
  }
  return rise;
}

/* Returns the bytes of a stage if it recomputes this number of layers of each chunk, and sets that
 * number in memory->stage_layers, to which the plan refers. */
static double bytes_with(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                         const struct pz_plan *plan, int64_t stage, int64_t layers) {
  memory->stage_layers[stage] = layers;
  return pz_step_needed_bytes(shape->model, plan, stage);
}

/* Returns the fewest recomputed layers with which the stage stays within the limit, or -1 if no
 * number is sufficient.  Between two rises (next_rise), the bytes fall with every layer. */
static int64_t fewest_layers(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                             const struct pz_plan *plan, int64_t stage, double limit_bytes) {
  int64_t most = chunk_layers(shape, plan, stage);
  for (int64_t first = 0, rise; first <= most; first = rise) {
    rise = next_rise(shape, plan, stage, first);
    int64_t low = first, high = rise - 1;
    if (bytes_with(memory, shape, plan, stage, high) > limit_bytes) continue;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (bytes_with(memory, shape, plan, stage, middle) <= limit_bytes)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  return -1;
}

/* Returns the least bytes that a stage needs with any number of recomputed layers. */
static double least_stage_bytes(const struct pz_plan_memory *memory,
                                const struct pz_step_shape *shape, const struct pz_plan *plan,
                                int64_t stage) {
  int64_t most = chunk_layers(shape, plan, stage);
  double least = HUGE_VAL;
  for (int64_t low = 0, rise; low <= most; low = rise) {
    rise = next_rise(shape, plan, stage, low);
    least = pz_fmin(least, bytes_with(memory, shape, plan, stage, rise - 1));
  }
  return least;
}

/* ---- recomputed layers of a plan ------------------------------------------------------------ */

/* Returns how freely the recomputed layers of a plan can be chosen.  In DualPipe two stages hold
 * each chunk, which must recompute the same layers. */
static enum pz_recompute_form recompute_form(const struct pz_plan_memory *memory,
                                             const struct pz_plan *plan) {
  enum pz_recompute_form form = pz_framework_recompute_form(plan);
  bool alike = memory->space->question->uniform || plan->pipeline == PZ_PIPELINE_DUALPIPE;
  return alike && form < PZ_RECOMPUTE_ALIKE ? PZ_RECOMPUTE_ALIKE : form;
}

/* Sets full recomputation of memory->stage_layers in each stage. */
static void recompute_by_stage(const struct pz_plan_memory *memory, struct pz_plan *plan) {
  plan->recompute = PZ_RECOMPUTATION_FULL;
  plan->stage_recompute = memory->stage_layers;
  plan->n_stage_recompute = plan->pp;
}

/* Returns the bytes that a plan needs if every stage recomputes this number of layers of each
 * chunk. */
static double bytes_with_alike(const struct pz_plan_memory *memory,
                               const struct pz_step_shape *shape, const struct pz_plan *plan,
                               int64_t layers, double cutoff_bytes) {
  for (int64_t k = 0; k < plan->pp; k++) memory->stage_layers[k] = layers;
  return needed_bytes(shape, plan, cutoff_bytes);
}

/* Returns the least bytes that a plan needs with any choice of recomputed layers, or a lower bound
 * above the cutoff. */
static double least_bytes(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                          const struct pz_plan *plan) {
  double bytes = 0, cutoff = memory->cutoff_bytes;
  for (int64_t i = 0; i < plan->pp && bytes <= cutoff; i++)
    bytes = pz_fmax(bytes, least_stage_bytes(memory, shape, plan, stage_at(plan, i)));
  if (recompute_form(memory, plan) == PZ_RECOMPUTE_BY_STAGE || bytes > cutoff) return bytes;
  bytes = HUGE_VAL;
  for (int64_t n = 0; n <= largest_chunk_layers(shape, plan); n++)
    bytes = pz_fmin(bytes, bytes_with_alike(memory, shape, plan, n, pz_fmin(bytes, cutoff)));
  return bytes;
}

/* Sets full recomputation of the fewest layers with which every stage stays within the limit, or no
 * recomputation if none is needed.  Returns false if no choice is within the limit. */
static bool recompute_within(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                             struct pz_plan *plan, double limit_bytes) {
  int64_t layers = 0; /* the maximum over the stages */
  recompute_by_stage(memory, plan);
  for (int64_t i = 0; i < plan->pp; i++) {
    int64_t stage = stage_at(plan, i);
    int64_t n = fewest_layers(memory, shape, plan, stage, limit_bytes);
    if (n < 0) return false;
    memory->stage_layers[stage] = n;
    layers = pz_max(layers, n);
  }
  if (recompute_form(memory, plan) == PZ_RECOMPUTE_BY_STAGE) {
    if (layers) return true;
    plan->recompute = PZ_RECOMPUTATION_NONE;
    plan->stage_recompute = NULL;
    return true;
  }
  int64_t most = largest_chunk_layers(shape, plan);
  while (layers <= most && bytes_with_alike(memory, shape, plan, layers, limit_bytes) > limit_bytes)
    layers++;
  plan->stage_recompute = NULL;
  plan->recompute_layers = layers;
  if (layers == 0) plan->recompute = PZ_RECOMPUTATION_NONE;
  return layers <= most;
}

/* Chooses between full recomputation of all layers and none, for frameworks that cannot choose
 * their number: none if the plan then fits, and for the objective "memory" the one that needs
 * less.  Returns the needed bytes. */
static double recompute_all_or_none(const struct pz_plan_memory *memory,
                                    const struct pz_step_shape *shape, struct pz_plan *plan) {
  bool minimizes_memory = memory->space->question->objective == PZ_PLAN_MEMORY;
  plan->stage_recompute = NULL;
  plan->recompute_layers = 0;
  plan->recompute = PZ_RECOMPUTATION_NONE;
  /* with offloaded activations, recomputing all layers may be faster than recomputing none */
  double none = HUGE_VAL;
  if (!(plan->offload & PZ_OFFLOAD_ACTIVATIONS))
    none = needed_bytes(shape, plan, memory->cutoff_bytes);
  if (!minimizes_memory && none <= memory->hbm_bytes) return none;
  plan->recompute = PZ_RECOMPUTATION_FULL;
  double all = needed_bytes(shape, plan, memory->cutoff_bytes);
  if (all <= none) return all;
  plan->recompute = PZ_RECOMPUTATION_NONE;
  return none;
}

/* Sets full recomputation of the fewest layers that memory requires, or for the objective "memory"
 * of the layers that need the least.  Returns the needed bytes; if the plan fits, this may be the
 * size of the HBM as an upper bound. */
static double choose_recomputed_layers(const struct pz_plan_memory *memory,
                                       const struct pz_step_shape *shape, struct pz_plan *plan) {
  bool minimizes_memory = memory->space->question->objective == PZ_PLAN_MEMORY;
  if (recompute_form(memory, plan) == PZ_RECOMPUTE_ALL)
    return recompute_all_or_none(memory, shape, plan);
  if (!minimizes_memory && recompute_within(memory, shape, plan, memory->hbm_bytes))
    return memory->hbm_bytes;
  if (!minimizes_memory && !memory->seeks_least) return HUGE_VAL;
  recompute_by_stage(memory, plan);
  double least = least_bytes(memory, shape, plan);
  if (least > memory->cutoff_bytes) return HUGE_VAL;
  return recompute_within(memory, shape, plan, least) ? least : HUGE_VAL;
}

/* ---- activations on the host ---------------------------------------------------------------- */

/* Offloads the activations of the fewest layers of each chunk that memory requires, or for the
 * objective "memory" of the layers that need the least, within the memory of the host.  Some
 * frameworks can offload only all layers, others only fewer than all.  Returns the needed bytes. */
static double choose_offloaded_layers(const struct pz_plan_memory *memory,
                                      const struct pz_step_shape *shape, struct pz_plan *plan) {
  bool minimizes_memory = memory->space->question->objective == PZ_PLAN_MEMORY;
  int64_t most = largest_chunk_layers(shape, plan), best = -1;
  double least = HUGE_VAL;
  for (int64_t n = 1; n <= most; n++) {
    plan->offload_layers = n < most ? n : 0; /* 0 stands for all */
    if (!fits_on_host(memory, shape, plan)) break;
    if (!pz_rule_group_allows(&memory->space->rules, PZ_RULE_RECOMPUTES, plan,
                              &memory->space->model))
      continue;
    double bytes = needed_bytes(shape, plan, memory->cutoff_bytes);
    if (!minimizes_memory && bytes <= memory->hbm_bytes) return bytes;
    if (bytes < least) {
      least = bytes;
      best = plan->offload_layers;
    }
  }
  plan->offload_layers = best;
  bool is_of_interest = minimizes_memory || memory->seeks_least;
  return best >= 0 && is_of_interest ? least : HUGE_VAL;
}

double pz_plan_memory_once(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                           struct pz_plan *plan) {
  if (pz_plan_offload_is_open(memory->space->question, plan))
    return choose_offloaded_layers(memory, shape, plan);
  double bytes = plan->recompute == PZ_RECOMPUTATION_FULL
                     ? choose_recomputed_layers(memory, shape, plan)
                     : needed_bytes(shape, plan, memory->cutoff_bytes);
  return fits_on_host(memory, shape, plan) ? bytes : HUGE_VAL;
}

/* ---- the cache ------------------------------------------------------------------------------ */

/* A cached result of pz_plan_memory_once(): the bytes, and the choices that it made in the plan. */
struct cached_memory {
  double bytes;
  int recompute;
  int64_t recompute_layers, offload_layers;
  const int64_t *stage_recompute;
};

/* Initializes an empty cache. */
static void init_cache(struct pz_plan_memory *memory) {
  pz_arena_init(&memory->cache_arena);
  pz_map_init(&memory->cache_index, &memory->cache_arena);
  pz_vec_init(&memory->cache, &memory->cache_arena, sizeof(struct cached_memory));
}

void pz_plan_memory_init(struct pz_call *call, struct pz_plan_memory *memory,
                         const struct pz_plan_space *space, bool caches) {
  *memory = (struct pz_plan_memory){.space = space, .caches = caches};
  init_cache(memory);
  memory->stage_layers = pz_alloc(call, (size_t)space->n_layers + 2, sizeof *memory->stage_layers);
}

void pz_plan_memory_release(struct pz_plan_memory *memory) {
  pz_arena_release(&memory->cache_arena);
}

void pz_plan_memory_set_chip(struct pz_plan_memory *memory, const struct pz_chip *chip) {
  const struct pz_constants *given = memory->space->question->job.constants;
  const struct pz_constants *constants = given ? given : &pz_constants_default;
  memory->hbm_bytes = pz_usable_bytes(chip, constants);
  memory->host_bytes = pz_usable_host_bytes(chip, constants);
  memory->cutoff_bytes = memory->hbm_bytes;
}

double pz_plan_memory_bytes(struct pz_call *call, struct pz_plan_memory *memory,
                            const struct pz_step_shape *shape, struct pz_plan *plan) {
  if (!memory->caches) return pz_plan_memory_once(memory, shape, plan);
  if (memory->cache_arena.total_bytes > MAX_CACHE_BYTES) {
    pz_arena_release(&memory->cache_arena);
    init_cache(memory);
  }
  const int64_t key[] = {shape - pz_shape_at(memory->space, 0),
                         plan->pp,
                         plan->vpp,
                         plan->dp,
                         plan->zero,
                         plan->first_layers,
                         plan->last_layers,
                         plan->pipeline,
                         (int64_t)plan->recompute,
                         plan->offload,
                         (int64_t)(1e6 * plan->offload_fraction),
                         (int64_t)memory->hbm_bytes,
                         (int64_t)memory->host_bytes};
  uint32_t at = pz_map_get(&memory->cache_index, key, sizeof key);
  struct cached_memory entry;
  if (at == PZ_NONE) {
    struct pz_call cache = pz_call_in(call, &memory->cache_arena);
    entry.bytes = pz_plan_memory_once(memory, shape, plan);
    entry.recompute = plan->recompute;
    entry.recompute_layers = plan->recompute_layers;
    entry.offload_layers = plan->offload_layers;
    entry.stage_recompute = NULL;
    if (entry.bytes <= memory->hbm_bytes && plan->stage_recompute)
      entry.stage_recompute =
          pz_copy(&cache, plan->stage_recompute, (size_t)plan->pp, sizeof *plan->stage_recompute);
    at = memory->cache.n;
    pz_append(&cache, &memory->cache, &entry);
    pz_map_set(&cache, &memory->cache_index, key, sizeof key, at);
  } else {
    entry = *pz_vec_at(&memory->cache, struct cached_memory, at);
  }
  plan->recompute = entry.recompute;
  plan->recompute_layers = entry.recompute_layers;
  plan->offload_layers = entry.offload_layers;
  plan->stage_recompute = entry.stage_recompute;
  plan->n_stage_recompute = plan->pp;
  return entry.bytes;
}
