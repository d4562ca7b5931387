/* Chooses the least recomputation and offload with which a plan fits in memory (plan_memory.h).
 *
 * pz_plan_memory_once() calls choose_offloaded_layers() for activations on the host,
 * choose_recomputed_layers() for full recomputation, and needed_bytes() for plans without a
 * choice.  The memory of a stage falls with every recomputed layer, except at a few numbers of
 * layers that next_rise() finds.  Between these, bisection finds the fewest layers.
 * pz_plan_memory_bytes() caches the choices for searches over many chips. */
#include "place/plan_memory.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"

enum { MAX_CACHE_BYTES = 256 << 20 };

/* Returns the i-th stage to examine: the first and the last one, which usually need the most
 * memory, and then the others. */
static int64_t stage_at(const struct pz_plan *plan, int64_t i) {
  if (i == 0) return 0;
  return i == 1 ? plan->pp - 1 : i - 1;
}

/* Returns the bytes that the fullest stage of a plan needs.  As soon as a stage needs more than the
 * cutoff, the others are not examined. */
static double needed_bytes(const struct pz_step_shape *shape, const struct pz_plan *plan,
                           double cutoff_bytes) {
  double most_bytes = 0;
  for (int64_t i = 0; i < plan->pp && most_bytes <= cutoff_bytes; i++)
    most_bytes = pz_fmax(most_bytes, pz_step_needed_bytes(shape->model, plan, stage_at(plan, i)));
  return most_bytes;
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
static int64_t largest_chunk_of_stage(const struct pz_step_shape *shape, const struct pz_plan *plan,
                                      int64_t stage) {
  struct pz_pipeline_shape pipeline = pz_plan_pipeline_shape(plan);
  int64_t most = 0;
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&pipeline); slot++) {
    int64_t chunk = pz_pipeline_chunk_at(&pipeline, (uint32_t)stage, slot);
    most = pz_max(most, pz_plan_chunk_layers(plan, shape->model->n_blocks, chunk));
  }
  return most;
}

/* Returns the number of layers of the largest chunk of a plan. */
static int64_t largest_chunk_of_plan(const struct pz_step_shape *shape,
                                     const struct pz_plan *plan) {
  int64_t most = 0;
  for (int64_t k = 0; k < plan->pp; k++)
    most = pz_max(most, largest_chunk_of_stage(shape, plan, k));
  return most;
}

/* Returns the smallest number of consecutive layers, beginning with layer `start`, that contains
 * `count` layers of a kind.  The first n layers must contain as many. */
static int64_t layers_containing(const struct pz_layer_kinds *kinds, uint32_t kind, int64_t start,
                                 int64_t n, int64_t count) {
  while (n > 1 && pz_kind_count(kinds, kind, start, n - 1) >= count) n--;
  return n;
}

/* Returns the smallest number of recomputed layers of a stage, greater than `above`, with which the
 * stage may need more memory than with one recomputed layer less (a "rise").  If there is none,
 * returns one more than the layers of the largest chunk.  Such a number newly recomputes, in some
 * chunk of the stage,
 * - the first layer of a kind, whose backward pass comes last, when FSDP2 has accumulated the
 *   sharded gradients of the others;
 * - or the last layer of a kind, whose output then exists twice. */
static int64_t next_rise(const struct pz_step_shape *step_shape, const struct pz_plan *plan,
                         int64_t stage, int64_t above) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  const struct pz_layer_kinds *kinds = &step_shape->model->kinds;
  int64_t rise = largest_chunk_of_stage(step_shape, plan, stage) + 1;
  bool fsdp2 = pz_plan_framework(plan)->shards_stages && plan->zero >= 2;
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&shape); slot++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, slot);
    int64_t n = pz_plan_chunk_layers(plan, kinds->n_blocks, chunk);
    int64_t start = kinds->n > 1 ? pz_plan_layers_before(plan, kinds->n_blocks, chunk) : 0;
    for (uint32_t i = 0; i < kinds->n; i++) {
      int64_t kind_layers = pz_kind_count(kinds, i, start, n);
      if (!kind_layers) continue;
      /* the numbers with which the first and the last layer of the kind are recomputed */
      int64_t first = fsdp2 ? layers_containing(kinds, i, start, n, 1) : 0;
      int64_t last = layers_containing(kinds, i, start, n, kind_layers);
      if (first > above)
        rise = pz_min(rise, first);
      else if (last > above)
        rise = pz_min(rise, last);
    }
  }
  return rise;
}

/* Sets the number of recomputed layers of a stage in memory->stage_layers, to which the plan
 * refers, and returns the bytes that the stage then needs. */
static double stage_bytes_with(const struct pz_plan_memory *memory,
                               const struct pz_step_shape *shape, const struct pz_plan *plan,
                               int64_t stage, int64_t layers) {
  memory->stage_layers[stage] = layers;
  return pz_step_needed_bytes(shape->model, plan, stage);
}

/* Returns the fewest recomputed layers with which the stage stays within the limit, or -1 if no
 * number is sufficient.  Bisects the first range between two rises (next_rise) that reaches the
 * limit, because there the bytes fall with every layer. */
static int64_t fewest_layers(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                             const struct pz_plan *plan, int64_t stage, double limit_bytes) {
  int64_t most = largest_chunk_of_stage(shape, plan, stage);
  for (int64_t first = 0, rise; first <= most; first = rise) {
    rise = next_rise(shape, plan, stage, first);
    int64_t low = first, high = rise - 1; /* of this range, `high` needs the least memory */
    if (stage_bytes_with(memory, shape, plan, stage, high) > limit_bytes) continue;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (stage_bytes_with(memory, shape, plan, stage, middle) <= limit_bytes)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  return -1;
}

/* ---- recomputed layers of a plan ------------------------------------------------------------ */

/* Returns how freely the recomputed layers of a plan can be chosen.  In DualPipe two stages hold
 * each chunk, which must recompute the same layers. */
static enum pz_recompute_form recompute_form(const struct pz_plan_memory *memory,
                                             const struct pz_plan *plan) {
  enum pz_recompute_form form = pz_framework_recompute_form(plan);
  bool same_in_all_stages =
      memory->space->question->uniform || plan->pipeline == PZ_PIPELINE_DUALPIPE;
  if (same_in_all_stages && form == PZ_RECOMPUTE_BY_STAGE) return PZ_RECOMPUTE_ALIKE;
  return form;
}

/* Returns the bytes that a plan needs if every chunk recomputes this number of layers, which is set
 * in memory->stage_layers. */
static double plan_bytes_with(const struct pz_plan_memory *memory,
                              const struct pz_step_shape *shape, const struct pz_plan *plan,
                              int64_t layers, double cutoff_bytes) {
  for (int64_t k = 0; k < plan->pp; k++) memory->stage_layers[k] = layers;
  return needed_bytes(shape, plan, cutoff_bytes);
}

/* Returns the least bytes that a plan needs with any number of fully recomputed layers, or a lower
 * bound above the cutoff.  Leaves the numbers that were tried last in the plan. */
static double least_bytes(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                          struct pz_plan *plan) {
  double bytes = 0, cutoff = memory->cutoff_bytes;
  plan->recompute = PZ_RECOMPUTATION_FULL;
  plan->stage_recompute = memory->stage_layers;
  plan->n_stage_recompute = plan->pp;
  for (int64_t i = 0; i < plan->pp && bytes <= cutoff; i++) {
    /* bytes of a stage have a local minimum before each rise (next_rise), at layers - 1 */
    int64_t stage = stage_at(plan, i), most = largest_chunk_of_stage(shape, plan, stage);
    double stage_bytes = HUGE_VAL;
    for (int64_t layers = 0; layers <= most;) {
      layers = next_rise(shape, plan, stage, layers);
      stage_bytes = pz_fmin(stage_bytes, stage_bytes_with(memory, shape, plan, stage, layers - 1));
    }
    bytes = pz_fmax(bytes, stage_bytes);
  }
  if (recompute_form(memory, plan) == PZ_RECOMPUTE_BY_STAGE || bytes > cutoff) return bytes;
  /* all stages must recompute the same number of layers: try every number */
  bytes = HUGE_VAL;
  for (int64_t n = 0; n <= largest_chunk_of_plan(shape, plan); n++)
    bytes = pz_fmin(bytes, plan_bytes_with(memory, shape, plan, n, pz_fmin(bytes, cutoff)));
  return bytes;
}

/* Sets full recomputation of the fewest layers with which every stage stays within the limit, or no
 * recomputation if none is needed.  Returns false if no choice is within the limit. */
static bool recompute_within(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                             struct pz_plan *plan, double limit_bytes) {
  int64_t layers = 0; /* the largest number that a stage requires */
  plan->recompute = PZ_RECOMPUTATION_FULL;
  plan->stage_recompute = memory->stage_layers;
  plan->n_stage_recompute = plan->pp;
  for (int64_t i = 0; i < plan->pp; i++) {
    int64_t stage = stage_at(plan, i);
    int64_t n = fewest_layers(memory, shape, plan, stage, limit_bytes);
    if (n < 0) return false;
    memory->stage_layers[stage] = n;
    layers = pz_max(layers, n);
  }
  if (recompute_form(memory, plan) == PZ_RECOMPUTE_BY_STAGE) {
    if (!layers) {
      plan->recompute = PZ_RECOMPUTATION_NONE;
      plan->stage_recompute = NULL;
    }
    return true;
  }
  /* all stages must recompute the same number, the largest one or more */
  int64_t most = largest_chunk_of_plan(shape, plan);
  while (layers <= most && plan_bytes_with(memory, shape, plan, layers, limit_bytes) > limit_bytes)
    layers++;
  plan->stage_recompute = NULL;
  plan->recompute_layers = layers;
  if (layers == 0) plan->recompute = PZ_RECOMPUTATION_NONE;
  return layers <= most;
}

/* Chooses between full recomputation of all layers and no recomputation, for frameworks that cannot
 * recompute some of the layers: none if the plan then fits, otherwise the choice that needs less
 * memory, as always for the objective "memory".  Returns the needed bytes. */
static double recompute_all_or_none(const struct pz_plan_memory *memory,
                                    const struct pz_step_shape *shape, struct pz_plan *plan) {
  bool minimizes_memory = memory->space->question->objective == PZ_PLAN_MEMORY;
  plan->stage_recompute = NULL;
  plan->recompute_layers = 0;
  plan->recompute = PZ_RECOMPUTATION_NONE;
  /* with offloaded activations, recomputing all layers may be faster than recomputing none */
  double none_bytes = HUGE_VAL;
  if (!(plan->offload & PZ_OFFLOAD_ACTIVATIONS))
    none_bytes = needed_bytes(shape, plan, memory->cutoff_bytes);
  if (!minimizes_memory && none_bytes <= memory->hbm_bytes) return none_bytes;
  plan->recompute = PZ_RECOMPUTATION_FULL;
  double all_bytes = needed_bytes(shape, plan, memory->cutoff_bytes);
  if (all_bytes <= none_bytes) return all_bytes;
  plan->recompute = PZ_RECOMPUTATION_NONE;
  return none_bytes;
}

/* Sets full recomputation of the fewest layers with which the plan fits, or for the objective
 * "memory" of the layers with which it needs the least.  Returns the needed bytes; the size of the
 * HBM may stand for those of a plan that fits, and HUGE_VAL for those of one that does not. */
static double choose_recomputed_layers(const struct pz_plan_memory *memory,
                                       const struct pz_step_shape *shape, struct pz_plan *plan) {
  bool minimizes_memory = memory->space->question->objective == PZ_PLAN_MEMORY;
  if (recompute_form(memory, plan) == PZ_RECOMPUTE_ALL)
    return recompute_all_or_none(memory, shape, plan);
  if (!minimizes_memory && recompute_within(memory, shape, plan, memory->hbm_bytes))
    return memory->hbm_bytes;
  if (!minimizes_memory && !memory->seeks_least) return HUGE_VAL;
  double least = least_bytes(memory, shape, plan);
  if (least > memory->cutoff_bytes) return HUGE_VAL;
  return recompute_within(memory, shape, plan, least) ? least : HUGE_VAL;
}

/* Offloads the activations of the fewest layers of each chunk with which the plan fits, or for the
 * objective "memory" of those with which it needs the least, within the memory of the host.  Some
 * frameworks can offload only all layers, others only fewer than all.  Returns the needed bytes. */
static double choose_offloaded_layers(const struct pz_plan_memory *memory,
                                      const struct pz_step_shape *shape, struct pz_plan *plan) {
  bool minimizes_memory = memory->space->question->objective == PZ_PLAN_MEMORY;
  enum { NO_CHOICE = -1, ALL_LAYERS = 0 }; /* values of offload_layers besides numbers of layers */
  int64_t most = largest_chunk_of_plan(shape, plan), best = NO_CHOICE;
  double least_needed_bytes = HUGE_VAL;
  for (int64_t n = 1; n <= most; n++) {
    plan->offload_layers = n < most ? n : ALL_LAYERS;
    if (!fits_on_host(memory, shape, plan)) break; /* more layers need more of the host's memory */
    if (!pz_rules_allow(&memory->space->rules, PZ_RULE_RECOMPUTES, plan, &memory->space->model,
                        NULL))
      continue;
    double bytes = needed_bytes(shape, plan, memory->cutoff_bytes);
    if (!minimizes_memory && bytes <= memory->hbm_bytes) return bytes;
    if (bytes < least_needed_bytes) {
      least_needed_bytes = bytes;
      best = plan->offload_layers;
    }
  }
  plan->offload_layers = best;
  bool is_of_interest = minimizes_memory || memory->seeks_least;
  return best != NO_CHOICE && is_of_interest ? least_needed_bytes : HUGE_VAL;
}

/* Returns the bytes that a plan needs, and sets in it how many layers are recomputed or offloaded.
 * Returns HUGE_VAL if it exceeds the memory of the host (see pz_plan_memory_bytes()). */
double pz_plan_memory_once(const struct pz_plan_memory *memory, const struct pz_step_shape *shape,
                           struct pz_plan *plan) {
  if (pz_plan_offload_is_open(memory->space->question, plan))
    return choose_offloaded_layers(memory, shape, plan);
  double bytes = plan->recompute == PZ_RECOMPUTATION_FULL
                     ? choose_recomputed_layers(memory, shape, plan)
                     : needed_bytes(shape, plan, memory->cutoff_bytes);
  return fits_on_host(memory, shape, plan) ? bytes : HUGE_VAL;
}

/* A cached result of pz_plan_memory_once(): the bytes, and the choices that it made in the plan. */
struct cached_memory {
  double bytes;
  int recompute;
  int64_t recompute_layers, offload_layers;
  const int64_t *stage_recompute;
};

/* Prepares the memory computation for the plans of a space.  `caches` keeps results for other
 * chips. */
void pz_plan_memory_init(struct pz_call *call, struct pz_plan_memory *memory,
                         const struct pz_plan_space *space, bool caches) {
  *memory = (struct pz_plan_memory){.space = space, .caches = caches};
  pz_arena_init(&memory->cache_arena);
  pz_map_init(&memory->cache_index, &memory->cache_arena);
  pz_vec_init(&memory->cache, &memory->cache_arena, sizeof(struct cached_memory));
  memory->stage_layers = pz_alloc(call, (size_t)space->n_layers + 2, sizeof *memory->stage_layers);
}

/* Sets the bytes that a plan may use on a device of this chip and on its host. */
void pz_plan_memory_set_chip(struct pz_plan_memory *memory, const struct pz_chip *chip) {
  const struct pz_constants *given = memory->space->question->job.constants;
  const struct pz_constants *constants = given ? given : &pz_constants_default;
  memory->hbm_bytes = pz_usable_bytes(chip, constants);
  memory->host_bytes = pz_usable_host_bytes(chip, constants);
  memory->cutoff_bytes = memory->hbm_bytes;
}

/* Like pz_plan_memory_once(), with a cache of the bytes and of the chosen numbers of layers. */
double pz_plan_memory_bytes(struct pz_call *call, struct pz_plan_memory *memory,
                            const struct pz_step_shape *shape, struct pz_plan *plan) {
  if (!memory->caches) return pz_plan_memory_once(memory, shape, plan);
  if (memory->cache_arena.total_bytes > MAX_CACHE_BYTES) { /* empty the cache */
    pz_arena_release(&memory->cache_arena);
    pz_arena_init(&memory->cache_arena);
    pz_map_init(&memory->cache_index, &memory->cache_arena);
    pz_vec_init(&memory->cache, &memory->cache_arena, sizeof(struct cached_memory));
  }
  int64_t shape_index = shape - pz_shape_at(memory->space, 0);
  int64_t hbm_bytes = (int64_t)memory->hbm_bytes, host_bytes = (int64_t)memory->host_bytes;
  int64_t host_ppm = (int64_t)(1e6 * plan->offload_fraction);
  const int64_t key[] = {shape_index,     plan->pp,           plan->vpp,         plan->dp,
                         plan->zero,      plan->first_layers, plan->last_layers, plan->pipeline,
                         plan->recompute, plan->offload,      host_ppm,          hbm_bytes,
                         host_bytes};
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
