#include "step/pipeline.h"

#include <math.h>

#include "core/num.h"
#include "plan/pipeline_order.h"
#include "step/v_pipeline.h"
#include "step/zero_bubble.h"

/* Step i of a stage's forwards or backwards: which chunk, which microbatch.  Interleaving takes as
 * many microbatches of a chunk as there are stages, then as many of the next. */
struct step {
  uint32_t chunk, microbatch;
};

static struct step step_at(const struct pz_pipeline *p, uint32_t i, bool backward) {
  if (p->chunks == 1) return (struct step){0, i};
  uint32_t group = p->stages * p->chunks, in = i % group;
  uint32_t chunk = in / p->stages;
  return (struct step){backward ? p->chunks - 1 - chunk : chunk,
                       i / group * p->stages + in % p->stages};
}

/* Forwards that a stage runs before its first backward. */
static uint32_t warm_up(const struct pz_pipeline *p, uint32_t stage) {
  uint32_t all = p->microbatches * p->chunks, after = p->stages - stage - 1;
  if (p->order == PZ_PIPELINE_GPIPE) return all;
  uint32_t n = p->chunks == 1 ? after : 2 * after + (p->chunks - 1) * p->stages;
  return n < all ? n : all;
}

/* ---- the simulation ------------------------------------------------------------------------- */

struct simulation {
  const struct pz_pipeline *p;
  double *forward_end, *backward_end; /* by chunk, stage and microbatch; negative: not yet */
  uint32_t *n_forward, *n_backward;   /* done, by stage */
  double *free_s;                     /* when a stage has ended what it began */
  struct pz_pipeline_event *events;   /* NULL: not kept */
  uint32_t n_events;
};

static size_t at(const struct pz_pipeline *p, uint32_t chunk, uint32_t stage, uint32_t microbatch) {
  return ((size_t)chunk * p->stages + stage) * p->microbatches + microbatch;
}

/* When the input of a forward is there; negative: not yet known. */
static double forward_ready(const struct simulation *s, uint32_t stage, struct step step) {
  const struct pz_pipeline *p = s->p;
  if (stage == 0 && step.chunk == 0) return 0;
  double end = stage ? s->forward_end[at(p, step.chunk, stage - 1, step.microbatch)]
                     : s->forward_end[at(p, step.chunk - 1, p->stages - 1, step.microbatch)];
  return end < 0 ? end : end + (p->stages > 1 ? p->transfer_s : 0);
}

static double backward_ready(const struct simulation *s, uint32_t stage, struct step step) {
  const struct pz_pipeline *p = s->p;
  bool last = stage == p->stages - 1;
  double own = s->forward_end[at(p, step.chunk, stage, step.microbatch)];
  if (last && step.chunk == p->chunks - 1) return own;
  double end = last ? s->backward_end[at(p, step.chunk + 1, 0, step.microbatch)]
                    : s->backward_end[at(p, step.chunk, stage + 1, step.microbatch)];
  if (end < 0 || own < 0) return -1;
  return pz_fmax(own, end + (p->stages > 1 ? p->transfer_s : 0));
}

/* Does the stage run a backward next?  After the warm-up forwards and backwards alternate. */
static bool backward_is_next(const struct simulation *s, uint32_t stage) {
  uint32_t all = s->p->microbatches * s->p->chunks, f = s->n_forward[stage];
  if (f == all) return true;
  return f > warm_up(s->p, stage) && f - warm_up(s->p, stage) > s->n_backward[stage];
}

static void record(struct simulation *s, uint32_t stage, struct step step, bool backward,
                   double start_s, double end_s) {
  if (s->events)
    s->events[s->n_events] =
        (struct pz_pipeline_event){stage, step.chunk, step.microbatch, backward, start_s, end_s};
  s->n_events++;
  s->free_s[stage] = end_s;
}

/* Run what the stage runs next, if its input is known. */
static bool advance(struct simulation *s, uint32_t stage) {
  const struct pz_pipeline *p = s->p;
  uint32_t all = p->microbatches * p->chunks;
  if (s->n_backward[stage] == all) return false;
  bool backward = backward_is_next(s, stage);
  struct step step = step_at(p, backward ? s->n_backward[stage] : s->n_forward[stage], backward);
  double ready = backward ? backward_ready(s, stage, step) : forward_ready(s, stage, step);
  if (ready < 0) return false;
  double start = pz_fmax(ready, s->free_s[stage]);
  size_t unit = (size_t)step.chunk * p->stages + stage;
  double end = start + (backward ? p->backward_s[unit] : p->forward_s[unit]);
  size_t i = at(p, step.chunk, stage, step.microbatch);
  *(backward ? &s->backward_end[i] : &s->forward_end[i]) = end;
  ++*(backward ? &s->n_backward[stage] : &s->n_forward[stage]);
  record(s, stage, step, backward, start, end);
  return true;
}

/* Stages wait for each other only forward and backward along the pipeline, so that going over them
 * both ways moves on until all is done. */
static enum pz_status run(struct simulation *s, uint32_t n_all, struct pz_error *err) {
  while (s->n_events < n_all) {
    uint32_t before = s->n_events;
    for (uint32_t k = 0; k < s->p->stages; k++)
      while (advance(s, k)) {
      }
    for (uint32_t k = s->p->stages; k-- > 0;)
      while (advance(s, k)) {
      }
    if (s->n_events == before)
      return pz_fail(err, PZ_INTERNAL, "a pipeline of %u stages waits for itself", s->p->stages);
  }
  return PZ_OK;
}

static enum pz_status check(const struct pz_pipeline *p, struct pz_error *err) {
  struct pz_pipeline_shape shape = {p->order, p->stages, p->chunks, p->microbatches};
  enum pz_status status = pz_pipeline_check(&shape, err);
  if (status != PZ_OK) return status;
  double events = 2.0 * p->stages * p->chunks * p->microbatches;
  return events <= PZ_PIPELINE_MOST_EVENTS ? PZ_OK
                                           : pz_fail(err, PZ_LIMIT,
                                                     "a pipeline of %.0f events (2 x stages x "
                                                     "chunks x microbatches); accepted: at most %d",
                                                     events, PZ_PIPELINE_MOST_EVENTS);
}

enum pz_status pz_pipeline_simulate(const struct pz_pipeline *p, bool keep, struct pz_arena *arena,
                                    struct pz_pipeline_run *out, struct pz_error *err) {
  struct pz_arena work;
  enum pz_status status = check(p, err);
  if (status != PZ_OK) return status;
  if (pz_is_v_pipeline(p->order)) return pz_v_simulate(p, keep, arena, out, err);
  if (pz_is_zero_bubble(p->order)) return pz_zero_bubble_simulate(p, keep, arena, out, err);
  uint32_t units = p->stages * p->chunks * p->microbatches;
  struct simulation s = {.p = p};
  pz_arena_init(&work, NULL);
  s.forward_end = pz_arena_alloc(&work, units, sizeof *s.forward_end);
  s.backward_end = pz_arena_alloc(&work, units, sizeof *s.backward_end);
  s.n_forward = pz_arena_alloc(&work, p->stages, sizeof *s.n_forward);
  s.n_backward = pz_arena_alloc(&work, p->stages, sizeof *s.n_backward);
  s.free_s = pz_arena_alloc(&work, p->stages, sizeof *s.free_s);
  s.events = keep ? pz_arena_alloc(arena, 2 * (size_t)units, sizeof *s.events) : NULL;
  bool good = s.forward_end && s.backward_end && s.n_forward && s.n_backward && s.free_s &&
              (s.events || !keep);
  for (uint32_t i = 0; i < units && good; i++) s.forward_end[i] = s.backward_end[i] = -1;
  status =
      good ? run(&s, 2 * units, err) : pz_fail(err, PZ_NO_MEMORY, "out of memory for the pipeline");
  if (status == PZ_OK) {
    *out = (struct pz_pipeline_run){.events = s.events, .n_events = keep ? s.n_events : 0};
    for (uint32_t k = 0; k < p->stages; k++) out->end_s = pz_fmax(out->end_s, s.free_s[k]);
  }
  pz_arena_release(&work);
  return status;
}

/* ---- the bound ------------------------------------------------------------------------------ */

/* Every stage runs all its passes; before the first one a microbatch has gone forward through the
 * stages before it, and after the last one it goes back through them. */
double pz_pipeline_bound_s(const struct pz_pipeline *p) {
  double before = 0, most = 0;
  if (pz_is_v_pipeline(p->order)) return pz_v_bound_s(p);
  for (uint32_t k = 0; k < p->stages; k++) {
    double own = 0;
    for (uint32_t c = 0; c < p->chunks; c++)
      own += p->forward_s[(size_t)c * p->stages + k] + p->backward_s[(size_t)c * p->stages + k];
    most = pz_fmax(most, p->microbatches * own + before);
    /* of the first chunk: the way to it and back, in whose time gradients of weights may be found */
    before += p->forward_s[k] + (pz_is_zero_bubble(p->order) ? 0 : p->backward_s[k]);
  }
  return most;
}
