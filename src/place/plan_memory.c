/* Chooses the least recomputation and offload with which a plan fits in memory (plan_memory.h).
 *
 * pz_plan_memory_once() dispatches: choose_offloaded_layers() for activations on the host, choose_recomputed_layers() for
 * full recomputation, and needed_bytes() for plans that leave nothing to choose.  The peak of a stage falls with every
 * recomputed layer except at the few layer counts that next_rise() finds, so that the fewest layers are found by
 * bisection between these. */
#include "place/plan_memory.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"

enum { MAX_CACHE_BYTES = 256 << 20 };

/* The i-th stage to look at: the first and the last stage, which usually need most memory, come first. */
static int64_t stage_at(const struct pz_plan *p, int64_t i) {
  if (i == 0) return 0;
  return i == 1 ? p->pp - 1 : i - 1;
}

/* Bytes that the fullest stage may reserve, or those of the first stage found that exceeds the cutoff. */
static double needed_bytes(const struct pz_step_shape *x, const struct pz_plan *p,
                           double cutoff_bytes) {
  double most = 0;
  for (int64_t i = 0; i < p->pp && most <= cutoff_bytes; i++)
    most = pz_fmax(most, pz_step_needed_bytes(x->model, p, stage_at(p, i)));
  return most;
}

static bool fits_on_host(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                         const struct pz_plan *p) {
  for (int64_t k = 0; p->offload && k < p->pp; k++)
    if (pz_step_host_bytes(x->model, p, k) > m->host_bytes) return false;
  return true;
}

/* ---- recomputed layers of a stage ----------------------------------------------------------- */

/* The number of layers of the largest chunk of a stage. */
static int64_t chunk_layers(const struct pz_step_shape *x, const struct pz_plan *p, int64_t stage) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  int64_t most = 0;
  for (uint32_t c = 0; c < pz_pipeline_slots(&shape); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, c);
    most = pz_max(most, pz_plan_chunk_layers(p, x->model->n_blocks, chunk));
  }
  return most;
}

static int64_t largest_chunk_layers(const struct pz_step_shape *x, const struct pz_plan *p) {
  int64_t most = 0;
  for (int64_t k = 0; k < p->pp; k++) most = pz_max(most, chunk_layers(x, p, k));
  return most;
}

/* The fewest of the n layers from `start` on that contain `count` layers of a kind. */
static int64_t layers_with(const struct pz_layer_kinds *kinds, uint32_t kind, int64_t start,
                           int64_t n, int64_t count) {
  while (n > 1 && pz_kind_count(kinds, kind, start, n - 1) >= count) n--;
  return n;
}

/* The smallest number of recomputed layers above `low` that may need more memory than one layer less.  These are the
 * numbers that newly recompute in some chunk
 * - the first layer of a kind: its backward pass comes last, when FSDP2 has added the sharded gradients of all others;
 * - or the last layer of a kind, whose output then exists twice.
 * Returns one more than the layers of a chunk if there is none. */
static int64_t next_rise(const struct pz_step_shape *x, const struct pz_plan *p, int64_t stage,
                         int64_t low) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  const struct pz_layer_kinds *kinds = &x->model->kinds;
  int64_t rise = chunk_layers(x, p, stage) + 1;
  bool fsdp2 = pz_plan_framework(p)->shards_stages && p->zero >= 2;
  for (uint32_t c = 0; c < pz_pipeline_slots(&shape); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, c);
    int64_t n = pz_plan_chunk_layers(p, kinds->n_blocks, chunk);
    int64_t start = kinds->n > 1 ? pz_plan_layers_before(p, kinds->n_blocks, chunk) : 0;
    for (uint32_t i = 0; i < kinds->n; i++) {
      int64_t all = pz_kind_count(kinds, i, start, n);
      if (!all) continue;
      int64_t first = fsdp2 ? layers_with(kinds, i, start, n, 1) : 0;
      int64_t last = layers_with(kinds, i, start, n, all);
      if (first > low)
        rise = pz_min(rise, first);
      else if (last > low)
        rise = pz_min(rise, last);
    }
  }
  return rise;
}

static double bytes_with(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                         const struct pz_plan *p, int64_t stage, int64_t layers) {
  m->stage_layers[stage] = layers;
  return pz_step_needed_bytes(x->model, p, stage);
}

/* The fewest recomputed layers with which the stage stays within the limit, or -1 if there are none.  Between two rises
 * the bytes fall with every layer. */
static int64_t fewest_layers(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                             const struct pz_plan *p, int64_t stage, double limit_bytes) {
  int64_t most = chunk_layers(x, p, stage);
  for (int64_t first = 0, rise; first <= most; first = rise) {
    rise = next_rise(x, p, stage, first);
    int64_t low = first, high = rise - 1;
    if (bytes_with(m, x, p, stage, high) > limit_bytes) continue;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (bytes_with(m, x, p, stage, middle) <= limit_bytes)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  return -1;
}

/* Bytes of the stage with the number of recomputed layers that needs least. */
static double least_stage_bytes(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                                const struct pz_plan *p, int64_t stage) {
  int64_t most = chunk_layers(x, p, stage);
  double least = HUGE_VAL;
  for (int64_t low = 0, rise; low <= most; low = rise) {
    rise = next_rise(x, p, stage, low);
    least = pz_fmin(least, bytes_with(m, x, p, stage, rise - 1));
  }
  return least;
}

/* ---- recomputed layers of a plan ------------------------------------------------------------ */

/* How freely the layers can be chosen.  In DualPipe two stages hold each chunk, which must recompute the same layers. */
static enum pz_recompute_form recompute_form(const struct pz_plan_memory *m,
                                             const struct pz_plan *p) {
  enum pz_recompute_form form = pz_framework_recompute_form(p);
  bool alike = m->space->q->uniform || p->pipeline == PZ_PIPELINE_DUALPIPE;
  return alike && form < PZ_RECOMPUTE_ALIKE ? PZ_RECOMPUTE_ALIKE : form;
}

static void recompute_by_stage(const struct pz_plan_memory *m, struct pz_plan *p) {
  p->recompute = PZ_RECOMPUTATION_FULL;
  p->stage_recompute = m->stage_layers;
  p->n_stage_recompute = p->pp;
}

/* Needed bytes of a plan in which all stages recompute this number of layers. */
static double bytes_with_alike(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                               const struct pz_plan *p, int64_t layers, double cutoff_bytes) {
  for (int64_t k = 0; k < p->pp; k++) m->stage_layers[k] = layers;
  return needed_bytes(x, p, cutoff_bytes);
}

/* The least bytes that any choice of recomputed layers needs, or a lower bound of them above the cutoff. */
static double least_bytes(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                          const struct pz_plan *p) {
  double bytes = 0, cutoff = m->cutoff_bytes;
  for (int64_t i = 0; i < p->pp && bytes <= cutoff; i++)
    bytes = pz_fmax(bytes, least_stage_bytes(m, x, p, stage_at(p, i)));
  if (recompute_form(m, p) == PZ_RECOMPUTE_BY_STAGE || bytes > cutoff) return bytes;
  bytes = HUGE_VAL;
  for (int64_t n = 0; n <= largest_chunk_layers(x, p); n++)
    bytes = pz_fmin(bytes, bytes_with_alike(m, x, p, n, pz_fmin(bytes, cutoff)));
  return bytes;
}

/* Sets full recomputation of the fewest layers with which every stage stays within the limit, or no recomputation if the
 * plan fits without.  Returns false if the limit cannot be kept. */
static bool recompute_within(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                             struct pz_plan *p, double limit_bytes) {
  int64_t layers = 0; /* the most that a stage needs */
  recompute_by_stage(m, p);
  for (int64_t i = 0; i < p->pp; i++) {
    int64_t stage = stage_at(p, i);
    int64_t n = fewest_layers(m, x, p, stage, limit_bytes);
    if (n < 0) return false;
    m->stage_layers[stage] = n;
    layers = pz_max(layers, n);
  }
  if (recompute_form(m, p) == PZ_RECOMPUTE_BY_STAGE) {
    if (layers) return true;
    p->recompute = PZ_RECOMPUTATION_NONE;
    p->stage_recompute = NULL;
    return true;
  }
  int64_t most = largest_chunk_layers(x, p);
  while (layers <= most && bytes_with_alike(m, x, p, layers, limit_bytes) > limit_bytes) layers++;
  p->stage_recompute = NULL;
  p->recompute_layers = layers;
  if (layers == 0) p->recompute = PZ_RECOMPUTATION_NONE;
  return layers <= most;
}

/* Sets full recomputation of all layers, or none if the plan fits without.  For the objective "memory", sets whichever
 * needs less.  Returns the needed bytes. */
static double recompute_all_or_none(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                                    struct pz_plan *p) {
  bool memory = m->space->q->objective == PZ_PLAN_MEMORY;
  p->stage_recompute = NULL;
  p->recompute_layers = 0;
  p->recompute = PZ_RECOMPUTATION_NONE;
  /* with activations on the host, recomputing all layers may be faster than recomputing none */
  double none = HUGE_VAL;
  if (!(p->offload & PZ_OFFLOAD_ACTIVATIONS)) none = needed_bytes(x, p, m->cutoff_bytes);
  if (!memory && none <= m->hbm_bytes) return none;
  p->recompute = PZ_RECOMPUTATION_FULL;
  double all = needed_bytes(x, p, m->cutoff_bytes);
  if (all <= none) return all;
  p->recompute = PZ_RECOMPUTATION_NONE;
  return none;
}

/* Sets full recomputation of the fewest layers that memory requires, or of those with the least memory.  Returns the
 * needed bytes, or an upper bound within the HBM if the plan fits. */
static double choose_recomputed_layers(const struct pz_plan_memory *m,
                                       const struct pz_step_shape *x, struct pz_plan *p) {
  bool memory = m->space->q->objective == PZ_PLAN_MEMORY;
  if (recompute_form(m, p) == PZ_RECOMPUTE_ALL) return recompute_all_or_none(m, x, p);
  if (!memory && recompute_within(m, x, p, m->hbm_bytes)) return m->hbm_bytes;
  if (!memory && !m->seeks_least) return HUGE_VAL;
  recompute_by_stage(m, p);
  double least = least_bytes(m, x, p);
  if (least > m->cutoff_bytes) return HUGE_VAL;
  return recompute_within(m, x, p, least) ? least : HUGE_VAL;
}

/* ---- activations on the host ---------------------------------------------------------------- */

/* Offloads the activations of the fewest layers of each chunk that memory requires, or of those with the least memory, as
 * far as the host's memory goes.  Some frameworks can offload only all layers, others only fewer than all. */
static double choose_offloaded_layers(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                                      struct pz_plan *p) {
  bool memory = m->space->q->objective == PZ_PLAN_MEMORY;
  int64_t most = largest_chunk_layers(x, p), best = -1;
  double least = HUGE_VAL;
  for (int64_t n = 1; n <= most; n++) {
    p->offload_layers = n < most ? n : 0; /* 0 stands for all */
    if (!fits_on_host(m, x, p)) break;
    if (!pz_rule_group_allows(&m->space->rules, PZ_RULE_RECOMPUTES, p, &m->space->model)) continue;
    double bytes = needed_bytes(x, p, m->cutoff_bytes);
    if (!memory && bytes <= m->hbm_bytes) return bytes;
    if (bytes < least) {
      least = bytes;
      best = p->offload_layers;
    }
  }
  p->offload_layers = best;
  return best < 0 || !(memory || m->seeks_least) ? HUGE_VAL : least;
}

double pz_plan_memory_once(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                           struct pz_plan *p) {
  if (pz_plan_offload_is_open(m->space->q, p)) return choose_offloaded_layers(m, x, p);
  double bytes = p->recompute == PZ_RECOMPUTATION_FULL ? choose_recomputed_layers(m, x, p)
                                                       : needed_bytes(x, p, m->cutoff_bytes);
  return fits_on_host(m, x, p) ? bytes : HUGE_VAL;
}

/* ---- the cache ------------------------------------------------------------------------------ */

/* The bytes that a plan needs with some HBM, and the choices that pz_plan_memory_once() made. */
struct cached_memory {
  double bytes;
  int recompute;
  int64_t recompute_layers, offload_layers;
  const int64_t *stage_recompute;
};

static void begin_cache(struct pz_plan_memory *m) {
  pz_arena_init(&m->cache_arena, NULL);
  pz_map_init(&m->cache_index, &m->cache_arena);
  pz_vec_init(&m->cache, &m->cache_arena, sizeof(struct cached_memory));
}

void pz_plan_memory_init(struct pz_call *call, struct pz_plan_memory *m,
                         const struct pz_plan_space *space, bool caches) {
  *m = (struct pz_plan_memory){.space = space, .caches = caches};
  begin_cache(m);
  m->stage_layers = pz_alloc(call, (size_t)space->n_blocks + 2, sizeof *m->stage_layers);
}

void pz_plan_memory_release(struct pz_plan_memory *m) { pz_arena_release(&m->cache_arena); }

void pz_plan_memory_set_chip(struct pz_plan_memory *m, const struct pz_chip *chip) {
  const struct pz_constants *given = m->space->q->job.constants;
  const struct pz_constants *constants = given ? given : &pz_constants_default;
  m->hbm_bytes = pz_usable_bytes(chip, constants);
  m->host_bytes = pz_usable_host_bytes(chip, constants);
  m->cutoff_bytes = m->hbm_bytes;
}

double pz_plan_memory_bytes(struct pz_call *call, struct pz_plan_memory *m,
                            const struct pz_step_shape *x, struct pz_plan *p) {
  if (!m->caches) return pz_plan_memory_once(m, x, p);
  if (m->cache_arena.total_bytes > MAX_CACHE_BYTES) {
    pz_arena_release(&m->cache_arena);
    begin_cache(m);
  }
  const int64_t key[] = {x - pz_shape_at(m->space, 0),
                         p->pp,
                         p->vpp,
                         p->dp,
                         p->zero,
                         p->first_layers,
                         p->last_layers,
                         p->pipeline,
                         (int64_t)p->recompute,
                         p->offload,
                         (int64_t)(1e6 * p->offload_fraction),
                         (int64_t)m->hbm_bytes,
                         (int64_t)m->host_bytes};
  uint32_t at = pz_map_get(&m->cache_index, key, sizeof key);
  struct cached_memory entry;
  if (at == PZ_NONE) {
    struct pz_call cache = pz_call_in(call, &m->cache_arena);
    entry.bytes = pz_plan_memory_once(m, x, p);
    entry.recompute = p->recompute;
    entry.recompute_layers = p->recompute_layers;
    entry.offload_layers = p->offload_layers;
    entry.stage_recompute = NULL;
    if (entry.bytes <= m->hbm_bytes && p->stage_recompute)
      entry.stage_recompute =
          pz_copy(&cache, p->stage_recompute, (size_t)p->pp, sizeof *p->stage_recompute);
    at = m->cache.n;
    pz_append(&cache, &m->cache, &entry);
    pz_map_set(&cache, &m->cache_index, key, sizeof key, at);
  } else {
    entry = *pz_vec_at(&m->cache, struct cached_memory, at);
  }
  p->recompute = entry.recompute;
  p->recompute_layers = entry.recompute_layers;
  p->offload_layers = entry.offload_layers;
  p->stage_recompute = entry.stage_recompute;
  p->n_stage_recompute = p->pp;
  return entry.bytes;
}
