#include "step/pipeline.h"

#include "core/num.h"
#include "plan/pipeline_order.h"

/* What is simulated: chunks of the model in a row, from its input to its output; of DualPipe one half. */
struct line {
  const struct pz_pipeline *p;
  uint32_t stages, chunks, microbatches; /* chunks: of the model */
  bool v, halved;
  bool listed; /* each stage has a list of its passes */
};

static struct line line_of(const struct pz_pipeline *p) {
  bool halved = p->order == PZ_PIPELINE_DUALPIPE, v = pz_is_v_pipeline(p->order);
  uint32_t stages = halved ? p->stages / 2 : p->stages;
  return (struct line){.p = p,
                       .stages = stages,
                       .chunks = (v ? 2 : p->chunks) * stages,
                       .microbatches = halved ? p->microbatches / 2 : p->microbatches,
                       .v = v,
                       .listed = pz_pipeline_splits_backward(p->order),
                       .halved = halved};
}

static uint32_t chunk_at(const struct line *x, uint32_t stage, uint32_t slot) {
  return x->v && slot ? x->chunks - 1 - stage : slot * x->stages + stage;
}

/* From a chunk to the next, or back; the turn of a V is on one stage. */
static double hop_s(const struct line *x, uint32_t chunk) {
  bool stays = x->v ? chunk + 1 == x->stages && !x->halved : x->stages == 1;
  return stays ? 0 : x->p->transfer_s;
}

/* ---- passes --------------------------------------------------------------------------------- */

enum pass_kind {
  FORWARD,
  INPUTS,  /* gradients of inputs */
  WEIGHTS, /* gradients of weights */
  BACKWARD /* both at once */
};

struct pass {
  uint32_t microbatch;
  uint16_t slot;  /* which of the stage's chunks */
  uint8_t kind;   /* enum pass_kind */
  bool with_next; /* a forward that runs as one with the backward after it */
};

static double pass_s(const struct line *x, uint32_t chunk, enum pass_kind kind) {
  const struct pz_pipeline *p = x->p;
  double weights = p->weight_s ? p->weight_s[chunk] : 0;
  if (kind == FORWARD) return p->forward_s[chunk];
  if (kind == WEIGHTS) return weights;
  return p->backward_s[chunk] - (kind == INPUTS ? weights : 0);
}

/* A forward of the chunk as one with a backward of the stage's other chunk: no less than either takes alone. */
static double pair_s(const struct line *x, uint32_t chunk) {
  double f = x->p->forward_s[chunk], b = x->p->backward_s[x->chunks - 1 - chunk];
  return x->p->paired_s ? pz_fmax(x->p->paired_s[chunk], pz_fmax(f, b)) : f + b;
}

/* ---- passes of 1F1B and GPipe --------------------------------------------------------------- */

/* Step i of a stage's forwards or backwards.  Interleaving takes as many microbatches of a chunk as there are stages, then
 * as many of the next. */
static struct pass pass_at(const struct pz_pipeline *p, uint32_t i, bool backward) {
  uint32_t group = p->stages * p->chunks, in = i % group, slot = in / p->stages;
  if (p->chunks == 1) return (struct pass){.microbatch = i, .kind = backward ? BACKWARD : FORWARD};
  return (struct pass){.microbatch = i / group * p->stages + in % p->stages,
                       .slot = (uint16_t)(backward ? p->chunks - 1 - slot : slot),
                       .kind = backward ? BACKWARD : FORWARD};
}

/* Forwards that a stage runs before its first backward. */
static uint32_t warm_up(const struct pz_pipeline *p, uint32_t stage) {
  uint32_t all = p->microbatches * p->chunks, after = p->stages - stage - 1;
  if (p->order == PZ_PIPELINE_GPIPE) return all;
  uint32_t n = p->chunks == 1 ? after : 2 * after + (p->chunks - 1) * p->stages;
  return n < all ? n : all;
}

/* ---- passes of a stage, gradients of weights apart ------------------------------------------ */

enum { NEAR = false, FAR = true }; /* slots */

struct list {
  struct pass *pass;
  uint32_t n, microbatches;
  uint32_t forwards[2], backwards[2]; /* put or left out, by chunk */
  uint32_t waiting;                   /* no pass before it has gradients of weights to be found */
};

/* Passes of microbatches that there are not are left out. */
static void put_pass(struct list *l, enum pass_kind kind, bool far, uint32_t microbatch) {
  if (microbatch < l->microbatches)
    l->pass[l->n++] = (struct pass){.microbatch = microbatch, .slot = far, .kind = (uint8_t)kind};
}

/* The chunk's next forward or backward, or the gradients of inputs of that. */
static void put(struct list *l, enum pass_kind kind, bool far) {
  put_pass(l, kind, far, kind == FORWARD ? l->forwards[far]++ : l->backwards[far]++);
}

static void put_parts(struct list *l, bool far) {
  put(l, INPUTS, far);
  put_pass(l, WEIGHTS, far, l->backwards[far] - 1);
}

/* ZB-H1 as Megatron-DeepSpeed lists it (deepspeed_zbh1_schedule.py), and ZB-2P likewise with more in flight: forwards as
 * 1F1B; gradients of weights once the stage has as many activations as the first one, and when no forward is left one after
 * each backward.  The order does not depend on the times, so that no pass that takes less makes the step longer, which it
 * may where the stage takes what is ready first (Graham, SIAM J. Appl. Math. 17, 1969). */
static void zero_bubble(struct list *l, enum pz_pipeline_order order, uint32_t stages,
                        uint32_t stage) {
  uint32_t most = pz_zero_bubble_in_flight(order, stages, stage),
           whole = pz_zero_bubble_in_flight(order, stages, 0);
  for (uint32_t weights = 0; weights < l->microbatches;) {
    bool forward = l->forwards[NEAR] < l->microbatches;
    if (forward) put(l, FORWARD, NEAR);
    if (forward && l->forwards[NEAR] < most) continue; /* warm-up */
    put(l, INPUTS, NEAR);
    if (!forward || l->forwards[NEAR] - weights == whole) put_pass(l, WEIGHTS, NEAR, weights++);
  }
}

static void zb_v_forwards_first(struct list *l, uint32_t stage, uint32_t later) {
  for (uint32_t i = 0; i < 2 * later - 1; i++) put(l, FORWARD, NEAR);
  for (uint32_t i = 0; i < stage; i++) {
    put(l, FORWARD, FAR);
    put(l, FORWARD, NEAR);
  }
}

/* Gradients of weights that were left for the end. */
static void zb_v_weights_last(struct list *l, uint32_t stage, uint32_t all) {
  for (uint32_t i = all - stage; i < all; i++) put_pass(l, WEIGHTS, FAR, i);
  for (uint32_t i = all - stage; i < all; i++) put_pass(l, WEIGHTS, NEAR, i);
}

static void zb_v(struct list *l, uint32_t stages, uint32_t stage) {
  uint32_t later = stages - stage; /* and itself */
  uint32_t all = (uint32_t)pz_max(l->microbatches, 2 * (int64_t)stages - 1);
  zb_v_forwards_first(l, stage, later);
  for (uint32_t i = 0; i < later; i++) {
    put(l, FORWARD, FAR);
    put_parts(l, FAR);
  }
  while (l->forwards[FAR] < all) {
    if (l->forwards[NEAR] < all) put(l, FORWARD, NEAR);
    put_parts(l, NEAR);
    put(l, FORWARD, FAR);
    put_parts(l, FAR);
  }
  uint32_t weights = l->backwards[NEAR];
  for (uint32_t i = 0; i < stage; i++) {
    put(l, INPUTS, NEAR);
    put(l, INPUTS, FAR);
  }
  for (uint32_t i = 0; i < later; i++) {
    put(l, INPUTS, NEAR);
    put_pass(l, WEIGHTS, NEAR, weights++);
  }
  zb_v_weights_last(l, stage, all);
}

/* A forward of one chunk beside a backward of the other one. */
static void put_pair(struct list *l, bool forward_far) {
  put(l, FORWARD, forward_far);
  l->pass[l->n - 1].with_next = true;
  put(l, BACKWARD, !forward_far);
}

/* Gradients of weights that wait longest. */
static void put_weights(struct list *l) {
  while (l->pass[l->waiting].kind != INPUTS) l->waiting++;
  const struct pass *inputs = &l->pass[l->waiting++];
  put_pass(l, WEIGHTS, inputs->slot, inputs->microbatch);
}

/* Backward passes when no forward is left; the second half of them leaves gradients of weights for the time in which
 * the stage would wait. */
static void put_last_backwards(struct list *l, uint32_t stage) {
  uint32_t n = 2 * (stage + 1);
  for (uint32_t i = 0; i < n; i++) put(l, i < stage + 1 ? BACKWARD : INPUTS, i % 2 ? NEAR : FAR);
}

static void dualpipe(struct list *l, uint32_t stages, uint32_t stage) {
  uint32_t later = stages - stage - 1, pairs = l->microbatches - 2 * stages + stage + 1;
  for (uint32_t i = 0; i < 2 * later; i++) put(l, FORWARD, NEAR);
  for (uint32_t i = 0; i < stage + 1; i++) {
    put(l, FORWARD, NEAR);
    put(l, FORWARD, FAR);
  }
  for (uint32_t i = 0; i < later; i++) {
    put(l, INPUTS, FAR);
    put_weights(l);
    put(l, FORWARD, FAR);
  }
  for (uint32_t i = 0; i < pairs; i++) {
    put_pair(l, NEAR);
    /* at the turn one after the other, so that the forward is passed on sooner */
    if (i == 0 && !later) l->pass[l->n - 2].with_next = false;
    put_pair(l, FAR);
  }
  for (uint32_t i = 0; i < later; i++) {
    put(l, BACKWARD, FAR);
    put_pair(l, FAR);
  }
  put_last_backwards(l, stage);
  for (uint32_t i = 0; i < later; i++) {
    put_weights(l);
    put(l, INPUTS, NEAR);
  }
  for (uint32_t i = 0; i < stage + 1; i++) put_weights(l);
}

/* ---- the simulation ------------------------------------------------------------------------- */

struct stage {
  uint32_t done[BACKWARD + 1]; /* passes, by kind */
  struct pass *list;           /* all passes in their order, or NULL */
  uint32_t n, next;            /* in the list */
  double free_s;               /* when it has ended what it began */
};

struct simulation {
  struct line line;
  struct stage *stage;
  double *forward_end, *backward_end; /* by chunk and microbatch; negative: not yet */
  struct pz_pipeline_event *events;   /* NULL: not kept */
  uint32_t n_events;
};

static double *end_at(const struct simulation *s, double *ends, uint32_t chunk, uint32_t i) {
  return &ends[(size_t)chunk * s->line.microbatches + i];
}

/* When the input of a stage's pass is there; negative: not yet known. */
static double ready_s(const struct simulation *s, uint32_t stage, const struct pass *a) {
  uint32_t j = chunk_at(&s->line, stage, a->slot), i = a->microbatch;
  double end;
  if (a->kind == WEIGHTS) return 0; /* after the gradients of inputs, in this stage */
  if (a->kind == FORWARD) {
    if (j == 0) return 0;
    end = *end_at(s, s->forward_end, j - 1, i);
    return end < 0 ? end : end + hop_s(&s->line, j - 1);
  }
  if (j + 1 == s->line.chunks) return *end_at(s, s->forward_end, j, i);
  end = *end_at(s, s->backward_end, j + 1, i);
  return end < 0 ? end : end + hop_s(&s->line, j);
}

static void keep_event(struct simulation *s, struct pz_pipeline_event e) {
  if (s->events) s->events[s->n_events] = e;
  s->n_events++;
}

/* A pass has run: an event, or in DualPipe one in each direction. */
static void end_pass(struct simulation *s, uint32_t stage, const struct pass *a, double start_s,
                     double end_s) {
  uint32_t j = chunk_at(&s->line, stage, a->slot), i = a->microbatch;
  bool backward = a->kind != FORWARD;
  if (!backward) *end_at(s, s->forward_end, j, i) = end_s;
  if (backward && a->kind != WEIGHTS) *end_at(s, s->backward_end, j, i) = end_s;
  s->stage[stage].free_s = end_s;
  s->stage[stage].done[a->kind]++;
  s->stage[stage].next++;
  if (s->line.halved) {
    uint32_t last = s->line.chunks - 1, other = s->line.microbatches + i;
    keep_event(s, (struct pz_pipeline_event){j, 0, i, backward, start_s, end_s});
    keep_event(s, (struct pz_pipeline_event){last - j, 1, other, backward, start_s, end_s});
  } else
    keep_event(s, (struct pz_pipeline_event){stage, a->slot, i, backward, start_s, end_s});
}

/* What the stage runs next: one pass, or two as one; 0: it is done.  After the warm-up of 1F1B forwards and backwards
 * alternate. */
static uint32_t next_passes(const struct simulation *s, uint32_t stage, struct pass out[2]) {
  const struct pz_pipeline *p = s->line.p;
  const struct stage *x = &s->stage[stage];
  if (s->line.listed) {
    if (x->next == x->n) return 0;
    out[0] = x->list[x->next];
    if (!out[0].with_next) return 1;
    out[1] = x->list[x->next + 1];
    return 2;
  }
  uint32_t all = p->microbatches * p->chunks, first = warm_up(p, stage);
  uint32_t f = x->done[FORWARD], b = x->done[BACKWARD];
  if (b == all) return 0;
  bool backward = f == all || (f > first && f - first > b);
  out[0] = pass_at(p, backward ? b : f, backward);
  return 1;
}

/* Run what the stage runs next, if its input is known. */
static bool advance(struct simulation *s, uint32_t stage) {
  struct pass pass[2];
  uint32_t n = next_passes(s, stage, pass);
  double start_s = s->stage[stage].free_s;
  for (uint32_t i = 0; i < n; i++) {
    double ready = ready_s(s, stage, &pass[i]);
    if (ready < 0) return false;
    start_s = pz_fmax(start_s, ready);
  }
  if (!n) return false;
  uint32_t j = chunk_at(&s->line, stage, pass[0].slot);
  double end_s = start_s + (n == 2 ? pair_s(&s->line, j) : pass_s(&s->line, j, pass[0].kind));
  for (uint32_t i = 0; i < n; i++) end_pass(s, stage, &pass[i], start_s, end_s);
  return true;
}

/* The order of each stage is fixed, so that the times do not depend on which stage is looked at first; stages wait for each
 * other only forward and backward along the line, so that going over them both ways moves on until all is done. */
static void run_in_order(struct pz_call *call, struct simulation *s, uint32_t n_all) {
  while (s->n_events < n_all) {
    uint32_t before = s->n_events;
    for (uint32_t k = 0; k < s->line.stages; k++)
      while (advance(s, k)) {
      }
    for (uint32_t k = s->line.stages; k-- > 0;)
      while (advance(s, k)) {
      }
    if (s->n_events == before)
      pz_raise(call, PZ_INTERNAL, "a pipeline of %u stages waits for itself", s->line.p->stages);
  }
}

/* ---- any order ------------------------------------------------------------------------------ */

/* Passes of all stages; how many there are. */
static uint32_t list_passes(struct simulation *s, struct pass *passes) {
  const struct line *x = &s->line;
  uint32_t all = 0;
  for (uint32_t k = 0; k < x->stages; k++) {
    struct list l = {.pass = passes + all, .microbatches = x->microbatches};
    if (pz_is_zero_bubble(x->p->order))
      zero_bubble(&l, x->p->order, x->stages, k);
    else if (x->p->order == PZ_PIPELINE_ZB_V)
      zb_v(&l, x->stages, k);
    else
      dualpipe(&l, x->stages, k);
    s->stage[k].list = l.pass;
    s->stage[k].n = l.n;
    all += l.n;
  }
  return all;
}

/* Memory for all but the events; returns how many of these there will be. */
static uint32_t prepare(struct pz_call *call, struct simulation *s) {
  const struct line *x = &s->line;
  size_t units = (size_t)x->chunks * x->microbatches;
  s->stage = pz_alloc(call, x->stages, sizeof *s->stage);
  s->forward_end = pz_alloc(call, units, sizeof *s->forward_end);
  s->backward_end = pz_alloc(call, units, sizeof *s->backward_end);
  for (size_t i = 0; i < units; i++) s->forward_end[i] = s->backward_end[i] = -1;
  if (!x->listed) return (uint32_t)units * 2;
  struct pass *passes = pz_alloc(call, 3 * units, sizeof *passes);
  return list_passes(s, passes) * (x->halved ? 2 : 1);
}

struct pz_pipeline_run pz_pipeline_simulate(struct pz_call *call, const struct pz_pipeline *p,
                                            struct pz_call *events) {
  struct pz_pipeline_shape shape = {p->order, p->stages, p->chunks, p->microbatches};
  pz_require_pipeline(call, &shape);
  struct simulation s = {.line = line_of(p)};
  uint32_t n_events = prepare(call, &s);
  if (events) s.events = pz_alloc(events, n_events, sizeof *s.events);
  run_in_order(call, &s, n_events);
  struct pz_pipeline_run run = {.events = s.events, .n_events = events ? s.n_events : 0};
  for (uint32_t k = 0; k < s.line.stages; k++) run.end_s = pz_fmax(run.end_s, s.stage[k].free_s);
  return run;
}

/* ---- the bound ------------------------------------------------------------------------------ */

/* All passes of a stage, one after another. */
static double busy_s(const struct line *x, uint32_t stage) {
  const struct pz_pipeline *p = x->p;
  uint32_t near = stage, far = x->chunks - 1 - stage, later = x->stages - 1 - stage;
  double all = x->microbatches *
               (p->forward_s[near] + p->backward_s[near] + p->forward_s[far] + p->backward_s[far]);
  if (p->order == PZ_PIPELINE_ZB_V || !p->paired_s) return all;
  double both =
      x->microbatches - 2.0 * x->stages + stage + 1; /* times that both kinds of pairs run */
  return all + (both - !later) * (pair_s(x, near) - p->forward_s[near] - p->backward_s[far]) +
         (both + later) * (pair_s(x, far) - p->forward_s[far] - p->backward_s[near]);
}

/* The forwards of a stage before its first backward, one after another; DualPipe has one more at the turn. */
static double warm_up_s(const struct line *x, uint32_t stage) {
  bool more = stage + 1 == x->stages && x->p->order != PZ_PIPELINE_ZB_V;
  int64_t near = x->chunks - 1 - stage + more, far = stage + 1, all = x->microbatches;
  return (double)pz_min(all, near) * x->p->forward_s[stage] +
         (double)pz_min(all, far) * x->p->forward_s[x->chunks - 1 - stage];
}

/* A stage begins when the first microbatch comes by, and what is not warm-up when that microbatch comes back: it has
 * gone through all chunks, and back to the far one of the stage. */
static double v_bound_s(const struct pz_pipeline *p) {
  struct line x = line_of(p);
  double most = 0, there = 0, back = 0;
  for (uint32_t j = 0; j < x.chunks; j++)
    back += p->forward_s[j] + (j + 1 < x.chunks ? hop_s(&x, j) : 0);
  for (uint32_t k = 0; k < x.stages; k++) {
    uint32_t far = x.chunks - 1 - k;
    most = pz_fmax(most, busy_s(&x, k) + pz_fmax(there, back - warm_up_s(&x, k)));
    there += p->forward_s[k] + hop_s(&x, k);
    back += pass_s(&x, far, INPUTS) + hop_s(&x, far - 1);
  }
  return most;
}

/* Every stage runs all its passes; before the first one a microbatch has gone forward through the
 * stages before it, and after the last one it goes back through them. */
double pz_pipeline_bound_s(const struct pz_pipeline *p) {
  double before = 0, most = 0;
  if (pz_is_v_pipeline(p->order)) return v_bound_s(p);
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
