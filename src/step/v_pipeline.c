#include "step/v_pipeline.h"

#include "core/num.h"
#include "step/v_order.h"

/* The V that is simulated: of DualPipe one half. */
struct v {
  const struct pz_pipeline *p;
  uint32_t stages, chunks, microbatches;
  bool halved;
};

static struct v v_of(const struct pz_pipeline *p) {
  bool halved = p->order == PZ_PIPELINE_DUALPIPE;
  uint32_t stages = halved ? p->stages / 2 : p->stages;
  return (struct v){.p = p,
                    .stages = stages,
                    .chunks = 2 * stages,
                    .microbatches = halved ? p->microbatches / 2 : p->microbatches,
                    .halved = halved};
}

static uint32_t chunk_at(const struct v *v, uint32_t stage, bool far) {
  return far ? v->chunks - 1 - stage : stage;
}

/* From a chunk to the next, or back. */
static double hop_s(const struct v *v, uint32_t chunk) {
  return chunk + 1 == v->stages && !v->halved ? 0 : v->p->transfer_s;
}

static double weights_s(const struct v *v, uint32_t chunk) {
  return v->p->weight_s ? v->p->weight_s[chunk] : 0;
}

static double pass_s(const struct v *v, uint32_t chunk, uint32_t kind) {
  if (kind == PZ_V_FORWARD) return v->p->forward_s[chunk];
  if (kind == PZ_V_WEIGHTS) return weights_s(v, chunk);
  return v->p->backward_s[chunk] - (kind == PZ_V_INPUTS ? weights_s(v, chunk) : 0);
}

/* A forward of the chunk as one with a backward of the stage's other chunk: no less than either takes alone. */
static double pair_s(const struct v *v, uint32_t chunk) {
  double f = v->p->forward_s[chunk], b = v->p->backward_s[v->chunks - 1 - chunk];
  return v->p->paired_s ? pz_fmax(v->p->paired_s[chunk], pz_fmax(f, b)) : f + b;
}

/* ---- the simulation ------------------------------------------------------------------------- */

struct stage {
  struct pz_v_pass *pass;
  uint32_t n, next;
  double free_s; /* when it has ended what it began */
};

struct simulation {
  struct v v;
  struct stage *stage;
  double *forward_end, *backward_end; /* by chunk and microbatch; negative: not yet */
  struct pz_pipeline_event *events;   /* NULL: not kept */
  uint32_t n_events;
};

static double *end_at(const struct simulation *s, double *ends, uint32_t chunk, uint32_t i) {
  return &ends[(size_t)chunk * s->v.microbatches + i];
}

/* When the input of a stage's pass is there; negative: not yet known. */
static double ready_s(const struct simulation *s, uint32_t stage, const struct pz_v_pass *a) {
  uint32_t j = chunk_at(&s->v, stage, a->far), i = a->microbatch;
  double end;
  if (a->kind == PZ_V_WEIGHTS) return 0; /* after the gradients of inputs, in this stage */
  if (a->kind == PZ_V_FORWARD) {
    if (j == 0) return 0;
    end = *end_at(s, s->forward_end, j - 1, i);
    return end < 0 ? end : end + hop_s(&s->v, j - 1);
  }
  if (j + 1 == s->v.chunks) return *end_at(s, s->forward_end, j, i);
  end = *end_at(s, s->backward_end, j + 1, i);
  return end < 0 ? end : end + hop_s(&s->v, j);
}

static void keep_event(struct simulation *s, struct pz_pipeline_event e) {
  if (s->events) s->events[s->n_events] = e;
  s->n_events++;
}

/* A pass has run: an event, or in DualPipe one in each direction. */
static void end_pass(struct simulation *s, uint32_t stage, const struct pz_v_pass *a,
                     double start_s, double end_s) {
  uint32_t j = chunk_at(&s->v, stage, a->far), i = a->microbatch;
  bool backward = a->kind != PZ_V_FORWARD;
  if (!backward) *end_at(s, s->forward_end, j, i) = end_s;
  if (backward && a->kind != PZ_V_WEIGHTS) *end_at(s, s->backward_end, j, i) = end_s;
  s->stage[stage].free_s = end_s;
  if (s->v.halved) {
    uint32_t last = s->v.chunks - 1;
    keep_event(s, (struct pz_pipeline_event){j, 0, i, backward, start_s, end_s});
    keep_event(s, (struct pz_pipeline_event){last - j, 1, s->v.microbatches + i, backward, start_s,
                                             end_s});
  } else
    keep_event(s, (struct pz_pipeline_event){stage, a->far, i, backward, start_s, end_s});
}

/* Run what the stage runs next, if its input is known. */
static bool advance(struct simulation *s, uint32_t stage) {
  struct stage *x = &s->stage[stage];
  if (x->next == x->n) return false;
  const struct pz_v_pass *a = &x->pass[x->next];
  uint32_t n = a->with_next ? 2 : 1, j = chunk_at(&s->v, stage, a->far);
  double start_s = x->free_s;
  for (uint32_t i = 0; i < n; i++) {
    double ready = ready_s(s, stage, &a[i]);
    if (ready < 0) return false;
    start_s = pz_fmax(start_s, ready);
  }
  double end_s = start_s + (n == 2 ? pair_s(&s->v, j) : pass_s(&s->v, j, a->kind));
  for (uint32_t i = 0; i < n; i++) end_pass(s, stage, &a[i], start_s, end_s);
  x->next += n;
  return true;
}

/* The order of each stage is fixed, so that the times do not depend on which stage is looked at first. */
static enum pz_status run(struct simulation *s, struct pz_error *err) {
  for (uint32_t done = 0, before; done < s->v.stages;) {
    before = s->n_events;
    for (uint32_t k = 0; k < s->v.stages; k++)
      while (advance(s, k)) {
      }
    for (uint32_t k = s->v.stages; k-- > 0;)
      while (advance(s, k)) {
      }
    for (done = 0; done < s->v.stages && s->stage[done].next == s->stage[done].n;) done++;
    if (s->n_events == before && done < s->v.stages)
      return pz_fail(err, PZ_INTERNAL, "a pipeline of %u stages waits for itself", s->v.p->stages);
  }
  return PZ_OK;
}

/* The passes of all stages; how many there are. */
static uint32_t list_passes(struct simulation *s, struct pz_v_pass *passes) {
  uint32_t all = 0;
  for (uint32_t k = 0; k < s->v.stages; k++) {
    struct stage *x = &s->stage[k];
    x->pass = passes + all;
    x->n = pz_v_order(s->v.p->order, s->v.stages, k, s->v.microbatches, x->pass);
    all += x->n;
  }
  return all;
}

enum pz_status pz_v_simulate(const struct pz_pipeline *p, bool keep, struct pz_arena *arena,
                             struct pz_pipeline_run *out, struct pz_error *err) {
  struct pz_arena work;
  struct simulation s = {.v = v_of(p)};
  size_t units = (size_t)s.v.chunks * s.v.microbatches;
  pz_arena_init(&work, NULL);
  struct pz_v_pass *passes = pz_arena_alloc(&work, 3 * units, sizeof *passes);
  s.stage = pz_arena_alloc(&work, s.v.stages, sizeof *s.stage);
  s.forward_end = pz_arena_alloc(&work, units, sizeof *s.forward_end);
  s.backward_end = pz_arena_alloc(&work, units, sizeof *s.backward_end);
  bool good = passes && s.stage && s.forward_end && s.backward_end;
  for (size_t i = 0; i < units && good; i++) s.forward_end[i] = s.backward_end[i] = -1;
  uint32_t n = good ? list_passes(&s, passes) * (s.v.halved ? 2 : 1) : 0;
  s.events = good && keep ? pz_arena_alloc(arena, n, sizeof *s.events) : NULL;
  enum pz_status status = good && (s.events || !keep)
                              ? run(&s, err)
                              : pz_fail(err, PZ_NO_MEMORY, "out of memory for the pipeline");
  if (status == PZ_OK) {
    *out = (struct pz_pipeline_run){.events = s.events, .n_events = keep ? s.n_events : 0};
    for (uint32_t k = 0; k < s.v.stages; k++) out->end_s = pz_fmax(out->end_s, s.stage[k].free_s);
  }
  pz_arena_release(&work);
  return status;
}

/* ---- the bound ------------------------------------------------------------------------------ */

/* All passes of a stage, one after another. */
static double busy_s(const struct v *v, uint32_t stage) {
  const struct pz_pipeline *p = v->p;
  uint32_t near = stage, far = v->chunks - 1 - stage, later = v->stages - 1 - stage;
  double all = v->microbatches *
               (p->forward_s[near] + p->backward_s[near] + p->forward_s[far] + p->backward_s[far]);
  if (p->order == PZ_PIPELINE_ZB_V || !p->paired_s) return all;
  double both =
      v->microbatches - 2.0 * v->stages + stage + 1; /* times that both kinds of pairs run */
  return all + (both - !later) * (pair_s(v, near) - p->forward_s[near] - p->backward_s[far]) +
         (both + later) * (pair_s(v, far) - p->forward_s[far] - p->backward_s[near]);
}

/* The forwards of a stage before its first backward, one after another; DualPipe has one more at the turn. */
static double warm_up_s(const struct v *v, uint32_t stage) {
  bool more = stage + 1 == v->stages && v->p->order != PZ_PIPELINE_ZB_V;
  int64_t near = v->chunks - 1 - stage + more, far = stage + 1, all = v->microbatches;
  return (double)pz_min(all, near) * v->p->forward_s[stage] +
         (double)pz_min(all, far) * v->p->forward_s[v->chunks - 1 - stage];
}

/* A stage begins when the first microbatch comes by, and what is not warm-up when that microbatch comes back: it has
 * gone through all chunks, and back to the far one of the stage. */
double pz_v_bound_s(const struct pz_pipeline *p) {
  struct v v = v_of(p);
  double most = 0, there = 0, back = 0;
  for (uint32_t j = 0; j < v.chunks; j++)
    back += p->forward_s[j] + (j + 1 < v.chunks ? hop_s(&v, j) : 0);
  for (uint32_t k = 0; k < v.stages; k++) {
    uint32_t far = v.chunks - 1 - k;
    most = pz_fmax(most, busy_s(&v, k) + pz_fmax(there, back - warm_up_s(&v, k)));
    there += p->forward_s[k] + hop_s(&v, k);
    back += pass_s(&v, far, PZ_V_INPUTS) + hop_s(&v, far - 1);
  }
  return most;
}
