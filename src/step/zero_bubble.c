#include "step/zero_bubble.h"
#include "plan/pipeline_order.h"

#include <math.h>

#include "core/num.h"

enum pass { FORWARD, INPUTS, WEIGHTS, NOTHING };

/* What a stage has done. */
struct stage {
  uint32_t n[3]; /* passes, by kind */
  double free_s;
};

struct simulation {
  const struct pz_pipeline *p;
  struct stage *stage;
  double *forward_end, *inputs_end; /* by stage and microbatch; negative: not yet */
  struct pz_pipeline_event *events; /* NULL: not kept */
  uint32_t n_events;
};

static double *at(double *ends, const struct pz_pipeline *p, uint32_t stage, uint32_t microbatch) {
  return &ends[(size_t)stage * p->microbatches + microbatch];
}

/* When the stage's next pass of a kind could begin; infinite: not known yet, or none is left. */
static double ready_s(const struct simulation *s, uint32_t k, enum pass kind) {
  const struct pz_pipeline *p = s->p;
  const struct stage *x = &s->stage[k];
  uint32_t i = x->n[kind], most = pz_zero_bubble_in_flight(p->order, p->stages, k);
  uint32_t whole = pz_zero_bubble_in_flight(p->order, p->stages, 0);
  double end = 0;
  if (i == p->microbatches) return HUGE_VAL;
  if (kind == WEIGHTS) return x->n[WEIGHTS] < x->n[INPUTS] ? x->free_s : HUGE_VAL;
  if (kind == FORWARD) {
    if (x->n[FORWARD] - x->n[INPUTS] >= most || x->n[FORWARD] - x->n[WEIGHTS] >= whole)
      return HUGE_VAL;
    if (k > 0) end = *at(s->forward_end, p, k - 1, i);
  } else {
    if (i == x->n[FORWARD]) return HUGE_VAL;
    end = k + 1 < p->stages ? *at(s->inputs_end, p, k + 1, i) : *at(s->forward_end, p, k, i);
  }
  if (end < 0) return HUGE_VAL;
  return pz_fmax(x->free_s, end + (p->stages > 1 ? p->transfer_s : 0));
}

/* What the stage does next and when: what is there first, and of that the most urgent. */
static enum pass choose(const struct simulation *s, uint32_t k, double *start_s) {
  static const enum pass urgent[] = {INPUTS, FORWARD, WEIGHTS};
  enum pass best = NOTHING;
  *start_s = HUGE_VAL;
  for (int i = 0; i < 3; i++) {
    double t = ready_s(s, k, urgent[i]);
    if (t < *start_s) {
      *start_s = t;
      best = urgent[i];
    }
  }
  return best;
}

static double duration_s(const struct pz_pipeline *p, uint32_t k, enum pass kind) {
  double weights = p->weight_s ? p->weight_s[k] : 0;
  return kind == FORWARD ? p->forward_s[k] : kind == WEIGHTS ? weights : p->backward_s[k] - weights;
}

static void run_pass(struct simulation *s, uint32_t k, enum pass kind, double start_s) {
  struct stage *x = &s->stage[k];
  double end_s = start_s + duration_s(s->p, k, kind);
  uint32_t i = x->n[kind]++;
  if (kind == FORWARD) *at(s->forward_end, s->p, k, i) = end_s;
  if (kind == INPUTS) *at(s->inputs_end, s->p, k, i) = end_s;
  if (s->events)
    s->events[s->n_events] = (struct pz_pipeline_event){k, 0, i, kind != FORWARD, start_s, end_s};
  s->n_events++;
  x->free_s = end_s;
}

/* The pass that begins first of all stages: nothing that is still to begin can come before it. */
static enum pz_status run(struct simulation *s, struct pz_error *err) {
  uint32_t all = 3 * s->p->stages * s->p->microbatches;
  while (s->n_events < all) {
    uint32_t stage = 0;
    enum pass kind = NOTHING;
    double first = HUGE_VAL;
    for (uint32_t k = 0; k < s->p->stages; k++) {
      double start;
      enum pass one = choose(s, k, &start);
      if (!(start < first)) continue;
      first = start;
      stage = k;
      kind = one;
    }
    if (kind == NOTHING)
      return pz_fail(err, PZ_INTERNAL, "a pipeline of %u stages waits for itself", s->p->stages);
    run_pass(s, stage, kind, first);
  }
  return PZ_OK;
}

enum pz_status pz_zero_bubble_simulate(const struct pz_pipeline *p, bool keep,
                                       struct pz_arena *arena, struct pz_pipeline_run *out,
                                       struct pz_error *err) {
  struct pz_arena work;
  size_t units = (size_t)p->stages * p->microbatches;
  struct simulation s = {.p = p};
  pz_arena_init(&work, NULL);
  s.stage = pz_arena_alloc(&work, p->stages, sizeof *s.stage);
  s.forward_end = pz_arena_alloc(&work, units, sizeof *s.forward_end);
  s.inputs_end = pz_arena_alloc(&work, units, sizeof *s.inputs_end);
  s.events = keep ? pz_arena_alloc(arena, 3 * units, sizeof *s.events) : NULL;
  bool good = s.stage && s.forward_end && s.inputs_end && (s.events || !keep);
  for (size_t i = 0; i < units && good; i++) s.forward_end[i] = s.inputs_end[i] = -1;
  enum pz_status status =
      good ? run(&s, err) : pz_fail(err, PZ_NO_MEMORY, "out of memory for the pipeline");
  if (status == PZ_OK) {
    *out = (struct pz_pipeline_run){.events = s.events, .n_events = keep ? s.n_events : 0};
    for (uint32_t k = 0; k < p->stages; k++) out->end_s = pz_fmax(out->end_s, s.stage[k].free_s);
  }
  pz_arena_release(&work);
  return status;
}
