#include "place/plan_memory.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"

enum { MOST_KEPT_BYTES = 256 << 20 };

static double stage_bytes(const struct pz_step_shape *x, const struct pz_plan *p, int64_t stage) {
  return pz_step_needed_bytes(x->m, p, stage);
}

/* Stages in an order that begins with the first and the last, which hold most as a rule. */
static int64_t stage_at(const struct pz_plan *p, int64_t i) {
  return i == 0 ? 0 : i == 1 ? p->pp - 1 : i - 1;
}

/* Bytes that the fullest stage may reserve, or those of a stage with more than is enough to know. */
static double needed_bytes(const struct pz_step_shape *x, const struct pz_plan *p, double enough) {
  double most = 0;
  for (int64_t i = 0; i < p->pp && most <= enough; i++)
    most = pz_fmax(most, stage_bytes(x, p, stage_at(p, i)));
  return most;
}

/* Has the host's memory room for what the plan has there? */
static bool host_holds(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                       const struct pz_plan *p) {
  for (int64_t k = 0; p->offload && k < p->pp; k++)
    if (pz_step_host_bytes(x->m, p, k) > m->host_bytes) return false;
  return true;
}

/* ---- recomputation -------------------------------------------------------------------------- */

/* The most layers that a chunk of the stage has. */
static int64_t chunk_layers(const struct pz_step_shape *x, const struct pz_plan *p, int64_t stage) {
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  int64_t most = 0;
  for (uint32_t c = 0; c < pz_pipeline_slots(&shape); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, c);
    most = pz_max(most, pz_plan_blocks(p, x->m->n_blocks, chunk));
  }
  return most;
}

/* The fewest of the n layers from `start` on that contain `count` layers of a kind. */
static int64_t layers_with(const struct pz_layer_kinds *k, uint32_t kind, int64_t start, int64_t n,
                           int64_t count) {
  while (n > 1 && pz_kind_count(k, kind, start, n - 1) >= count) n--;
  return n;
}

/* The next number of recomputed layers above `low` that may take more memory than one layer less: with it the first layer of
 * a kind in one of the stage's chunks is recomputed, whose backward pass comes last, when FSDP2's sharded gradients of all
 * others have been added; or the last one, whose result is then made a second time.  One more than there are if none is. */
static int64_t next_rise(const struct pz_step_shape *x, const struct pz_plan *p, int64_t stage,
                         int64_t low) {
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  const struct pz_layer_kinds *k = &x->m->kinds;
  int64_t rise = chunk_layers(x, p, stage) + 1;
  bool fsdp2 = pz_plan_framework(p)->shards_stages && p->zero >= 2;
  for (uint32_t c = 0; c < pz_pipeline_slots(&shape); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, c);
    int64_t n = pz_plan_blocks(p, k->n_blocks, chunk);
    int64_t start = k->n > 1 ? pz_plan_start(p, k->n_blocks, chunk) : 0;
    for (uint32_t i = 0; i < k->n; i++) {
      int64_t all = pz_kind_count(k, i, start, n);
      if (!all) continue;
      int64_t first = fsdp2 ? layers_with(k, i, start, n, 1) : 0;
      int64_t last = layers_with(k, i, start, n, all);
      if (first > low)
        rise = pz_min(rise, first);
      else if (last > low)
        rise = pz_min(rise, last);
    }
  }
  return rise;
}

/* How layers may be recomputed; in DualPipe two stages hold each chunk. */
static enum pz_recompute_form recompute_form(const struct pz_plan_memory *m,
                                             const struct pz_plan *p) {
  enum pz_recompute_form form = pz_framework_recompute(p);
  bool alike = m->space->q->uniform || p->pipeline == PZ_PIPELINE_DUALPIPE;
  return alike && form < PZ_RECOMPUTE_ALIKE ? PZ_RECOMPUTE_ALIKE : form;
}

static double bytes_with(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                         const struct pz_plan *p, int64_t stage, int64_t layers) {
  m->stages[stage] = layers;
  return stage_bytes(x, p, stage);
}

/* The fewest layers with which the stage stays within the limit; -1: none do.  From one rise to the next bytes fall with
 * every layer. */
static int64_t fewest(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                      const struct pz_plan *p, int64_t stage, double limit) {
  int64_t most = chunk_layers(x, p, stage);
  for (int64_t first = 0, rise; first <= most; first = rise) {
    rise = next_rise(x, p, stage, first);
    int64_t low = first, high = rise - 1;
    if (bytes_with(m, x, p, stage, high) > limit) continue;
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (bytes_with(m, x, p, stage, middle) <= limit)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  return -1;
}

/* Bytes of the stage with the recomputation that leaves the fewest. */
static double least_bytes(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                          const struct pz_plan *p, int64_t stage) {
  int64_t most = chunk_layers(x, p, stage);
  double least = HUGE_VAL;
  for (int64_t low = 0, rise; low <= most; low = rise) {
    rise = next_rise(x, p, stage, low);
    least = pz_fmin(least, bytes_with(m, x, p, stage, rise - 1));
  }
  return least;
}

static int64_t most_layers(const struct pz_step_shape *x, const struct pz_plan *p) {
  int64_t most = 0;
  for (int64_t k = 0; k < p->pp; k++) most = pz_max(most, chunk_layers(x, p, k));
  return most;
}

/* Of the plan whose stages recompute so many layers alike. */
static double peak_with(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                        const struct pz_plan *p, int64_t layers, double enough) {
  for (int64_t k = 0; k < p->pp; k++) m->stages[k] = layers;
  return needed_bytes(x, p, enough);
}

/* The least peak that recomputation can bring, or a bound of it that is more than matters. */
static double least_peak(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                         const struct pz_plan *p) {
  double peak = 0, enough = m->enough_bytes;
  for (int64_t i = 0; i < p->pp && peak <= enough; i++)
    peak = pz_fmax(peak, least_bytes(m, x, p, stage_at(p, i)));
  if (recompute_form(m, p) == PZ_RECOMPUTE_BY_STAGE || peak > enough) return peak;
  peak = HUGE_VAL;
  for (int64_t n = 0; n <= most_layers(x, p); n++)
    peak = pz_fmin(peak, peak_with(m, x, p, n, pz_fmin(peak, enough)));
  return peak;
}

/* The same layers of every stage, at least so many. */
static bool recompute_alike(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                            struct pz_plan *p, double limit, int64_t from) {
  int64_t n = from, most = most_layers(x, p);
  while (n <= most && peak_with(m, x, p, n, limit) > limit) n++;
  p->stage_recompute = NULL;
  p->recompute_layers = n;
  if (n == 0) p->recompute = PZ_RECOMPUTATION_NONE;
  return n <= most;
}

/* Full recomputation of as few layers as the limit asks for, or none; false: it is not enough. */
static bool recompute_within(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                             struct pz_plan *p, double limit) {
  int64_t most = 0;
  p->recompute = PZ_RECOMPUTATION_FULL;
  p->stage_recompute = m->stages;
  p->n_stage_recompute = p->pp;
  for (int64_t i = 0; i < p->pp; i++) {
    int64_t k = stage_at(p, i), n = fewest(m, x, p, k, limit);
    if (n < 0) return false;
    m->stages[k] = n;
    most = pz_max(most, n);
  }
  if (recompute_form(m, p) != PZ_RECOMPUTE_BY_STAGE) return recompute_alike(m, x, p, limit, most);
  if (!most) p->recompute = PZ_RECOMPUTATION_NONE, p->stage_recompute = NULL;
  return true;
}

/* Full recomputation of all layers, or of none where these fit; for the least memory whichever has less. */
static double recompute_all(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                            struct pz_plan *p) {
  bool memory = m->space->q->objective == PZ_PLAN_MEMORY;
  p->stage_recompute = NULL;
  p->recompute_layers = 0;
  p->recompute = PZ_RECOMPUTATION_NONE;
  /* with activations on the host all layers may be faster than none */
  double none =
      p->offload & PZ_OFFLOAD_ACTIVATIONS ? HUGE_VAL : needed_bytes(x, p, m->enough_bytes);
  if (!memory && none <= m->hbm_bytes) return none;
  p->recompute = PZ_RECOMPUTATION_FULL;
  double all = needed_bytes(x, p, m->enough_bytes);
  if (all <= none) return all;
  p->recompute = PZ_RECOMPUTATION_NONE;
  return none;
}

/* Full recomputation: as little as memory asks for, or as brings the least memory.  The peak, or a bound of it that is
 * within HBM if it is. */
static double recompute_fewest(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                               struct pz_plan *p) {
  bool memory = m->space->q->objective == PZ_PLAN_MEMORY;
  if (recompute_form(m, p) == PZ_RECOMPUTE_ALL) return recompute_all(m, x, p);
  if (!memory && recompute_within(m, x, p, m->hbm_bytes)) return m->hbm_bytes;
  if (!memory && !m->least) return HUGE_VAL;
  p->recompute = PZ_RECOMPUTATION_FULL;
  p->stage_recompute = m->stages;
  p->n_stage_recompute = p->pp;
  double least = least_peak(m, x, p);
  if (least > m->enough_bytes) return HUGE_VAL;
  return recompute_within(m, x, p, least) ? least : HUGE_VAL;
}

/* ---- activations on the host ----------------------------------------------------------------- */

/* Those of as few layers of each chunk as memory asks for, or as bring the least, as far as the host's memory goes.
 * Frameworks may have fewer than all layers there alone, or all alone. */
static double offload_fewest(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                             struct pz_plan *p) {
  bool memory = m->space->q->objective == PZ_PLAN_MEMORY;
  int64_t most = most_layers(x, p), best = -1;
  double least = HUGE_VAL;
  for (int64_t n = 1; n <= most; n++) {
    p->offload_layers = n < most ? n : 0;
    if (!host_holds(m, x, p)) break;
    if (!pz_rule_list_group_can(&m->space->rules, PZ_RULE_RECOMPUTES, p, &m->space->model))
      continue;
    double bytes = needed_bytes(x, p, m->enough_bytes);
    if (!memory && bytes <= m->hbm_bytes) return bytes;
    if (bytes < least) least = bytes, best = p->offload_layers;
  }
  p->offload_layers = best;
  return best < 0 || !(memory || m->least) ? HUGE_VAL : least;
}

/* ---- memory of plans on many chips ---------------------------------------------------------- */

/* What a plan needs with this much HBM: bytes, and the recomputation that brings them. */
struct needed {
  double bytes;
  int recompute;
  int64_t layers, away;
  const int64_t *stages;
};

static void begin_kept(struct pz_plan_memory *m) {
  pz_arena_init(&m->kept_arena, NULL);
  pz_map_init(&m->kept_at, &m->kept_arena);
  pz_vec_init(&m->kept, &m->kept_arena, sizeof(struct needed));
}

void pz_plan_memory_init(struct pz_plan_memory *m, const struct pz_plan_space *space, bool keeps) {
  *m = (struct pz_plan_memory){.space = space, .keeps = keeps};
  begin_kept(m);
}

void pz_plan_memory_release(struct pz_plan_memory *m) { pz_arena_release(&m->kept_arena); }

enum pz_status pz_plan_memory_begin(struct pz_plan_memory *m, struct pz_arena *arena) {
  m->stages = pz_arena_alloc(arena, (size_t)m->space->n_blocks + 2, sizeof *m->stages);
  return m->stages ? PZ_OK : pz_plan_no_memory(m->space);
}

void pz_plan_memory_set_chip(struct pz_plan_memory *m, const struct pz_chip *chip) {
  const struct pz_constants *k = m->space->q->job.constants;
  m->hbm_bytes = pz_usable_bytes(chip, k ? k : &pz_constants_default);
  m->host_bytes = pz_usable_host_bytes(chip, k ? k : &pz_constants_default);
  m->enough_bytes = m->hbm_bytes;
}

double pz_plan_memory_once(const struct pz_plan_memory *m, const struct pz_step_shape *x,
                           struct pz_plan *p) {
  if (pz_plan_chooses_layers(m->space->q, p)) return offload_fewest(m, x, p);
  double bytes = p->recompute == PZ_RECOMPUTATION_FULL ? recompute_fewest(m, x, p)
                                                       : needed_bytes(x, p, m->enough_bytes);
  return host_holds(m, x, p) ? bytes : HUGE_VAL;
}

static enum pz_status keep_needed(struct pz_plan_memory *m, const int64_t *key, size_t bytes,
                                  const struct pz_plan *p, struct needed *n) {
  uint32_t at = m->kept.n;
  if (n->stages) {
    int64_t *copy = pz_arena_alloc(&m->kept_arena, (size_t)p->pp, sizeof *copy);
    if (!copy) return PZ_NO_MEMORY;
    memcpy(copy, n->stages, (size_t)p->pp * sizeof *copy);
    n->stages = copy;
  }
  if (!pz_vec_push(&m->kept, n)) return PZ_NO_MEMORY;
  return pz_map_put(&m->kept_at, key, bytes, at);
}

enum pz_status pz_plan_memory_bytes(struct pz_plan_memory *m, const struct pz_step_shape *x,
                                    struct pz_plan *p, double *bytes) {
  if (!m->keeps) return *bytes = pz_plan_memory_once(m, x, p), PZ_OK;
  if (m->kept_arena.total_bytes > MOST_KEPT_BYTES) {
    pz_arena_release(&m->kept_arena);
    begin_kept(m);
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
  uint32_t at = pz_map_get(&m->kept_at, key, sizeof key);
  struct needed n;
  if (at == PZ_NONE) {
    n.bytes = pz_plan_memory_once(m, x, p);
    bool fits = n.bytes <= m->hbm_bytes;
    n.recompute = p->recompute;
    n.layers = p->recompute_layers;
    n.away = p->offload_layers;
    n.stages = fits ? p->stage_recompute : NULL;
    if (keep_needed(m, key, sizeof key, p, &n) != PZ_OK) return pz_plan_no_memory(m->space);
  } else {
    n = *pz_vec_at(&m->kept, struct needed, at);
  }
  p->recompute = n.recompute;
  p->recompute_layers = n.layers;
  p->offload_layers = n.away;
  p->stage_recompute = n.stages;
  p->n_stage_recompute = p->pp;
  return *bytes = n.bytes, PZ_OK;
}
