/* Pipelines in a V: against the bubbles that their authors state, an own check of every event, and the bound; what
 * stages keep in flight, counted from events. */
#include "unit/testing.h"

#include <math.h>

#include "plan/pipeline_order.h"
#include "step/pipeline.h"
#include "step_borders.h"

enum { MOST_CHUNKS = 64, MOST_MICROBATCHES = 160 };

static const enum pz_pipeline_order orders[] = {PZ_PIPELINE_ZB_V, PZ_PIPELINE_DUALPIPE_V,
                                                PZ_PIPELINE_DUALPIPE};

static uint64_t seed = 23;
static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

struct times {
  double f[MOST_CHUNKS], b[MOST_CHUNKS], w[MOST_CHUNKS], paired[MOST_CHUNKS];
};

static struct pz_pipeline pipeline_of(enum pz_pipeline_order order, uint32_t stages, uint32_t n,
                                      const struct times *t) {
  uint32_t chunks = pz_pipeline_chunks(order);
  return (struct pz_pipeline){.stages = stages,
                              .chunks = chunks ? chunks : 2,
                              .microbatches = n,
                              .order = order,
                              .forward_s = t->f,
                              .backward_s = t->b,
                              .weight_s = t->w};
}

static struct pz_pipeline_shape shape_of(const struct pz_pipeline *p) {
  return (struct pz_pipeline_shape){p->order, p->stages, p->chunks, p->microbatches};
}

static struct pz_pipeline_run run_of(const struct pz_pipeline *p, struct pz_arena *arena) {
  struct pz_pipeline_run run;
  struct pz_error err = {0};
  if (try_simulate_pipeline(p, true, arena, &run, &err) != PZ_OK) fail_msg("%s", err.message);
  return run;
}

static double end_of(const struct pz_pipeline *p) {
  struct pz_arena arena;
  pz_arena_init(&arena);
  double end = run_of(p, &arena).end_s;
  pz_arena_release(&arena);
  return end;
}

/* Chunks of equal times: forward, gradients of inputs, of weights; a pair. */
static void fill_equal(struct times *t, double f, double inputs, double weights, double paired) {
  for (int j = 0; j < MOST_CHUNKS; j++) {
    t->f[j] = f;
    t->b[j] = inputs + weights;
    t->w[j] = weights;
    t->paired[j] = paired;
  }
}

/* ZB-V where a forward, gradients of inputs and of weights take one unit each: every stage works without a break from
 * the time at which the first microbatch comes by. */
static void zb_v_has_no_bubble(void **state) {
  (void)state;
  struct times t;
  fill_equal(&t, 1, 1, 1, 0);
  for (uint32_t stages = 1; stages <= 10; stages++)
    for (uint32_t n = 2 * stages - 1; n <= 6 * stages; n++) {
      struct pz_pipeline p = pipeline_of(PZ_PIPELINE_ZB_V, stages, n, &t);
      struct pz_arena arena;
      pz_arena_init(&arena);
      struct pz_pipeline_run run = run_of(&p, &arena);
      double first[MOST_CHUNKS], last[MOST_CHUNKS] = {0};
      for (uint32_t k = 0; k < stages; k++) first[k] = HUGE_VAL;
      for (uint32_t i = 0; i < run.n_events; i++) {
        const struct pz_pipeline_event *e = &run.events[i];
        first[e->stage] = fmin(first[e->stage], e->start_s);
        last[e->stage] = fmax(last[e->stage], e->end_s);
      }
      for (uint32_t k = 0; k < stages; k++)
        if (!near(last[k] - first[k], 6.0 * n) || first[k] != k)
          fail_msg("%u stages, %u microbatches: stage %u from %g to %g", stages, n, k, first[k],
                   last[k]);
      assert_true(near(run.end_s, 6.0 * n + stages - 1));
      assert_true(near(pz_pipeline_bound_s(&p), run.end_s));
      pz_arena_release(&arena);
    }
}

/* DualPipe as its authors state: of p chunks a bubble of (p/2 - 1)(F&B + B - 3W), F&B being a pair, which the stages in
 * the middle have.  The orders have it where a forward takes as long as gradients of inputs, and those of weights no
 * longer; DualPipeV with half of the stages and of the microbatches is the same. */
static void dualpipe_has_its_bubble(void **state) {
  (void)state;
  struct times t;
  for (uint32_t chunks = 2; chunks <= 16; chunks += 2)
    for (uint32_t n = chunks; n <= 4 * chunks; n += 3)
      for (int round = 0; round < 20; round++) {
        double f = 1 + draw(10), w = f * draw(11) / 10, b = f + w;
        double least = fmax(f, b), paired = least + (f + b - least) * draw(11) / 10;
        fill_equal(&t, f, f, w, paired);
        struct pz_pipeline p = pipeline_of(PZ_PIPELINE_DUALPIPE, chunks, 2 * n, &t),
                           v = pipeline_of(PZ_PIPELINE_DUALPIPE_V, chunks / 2, n, &t);
        p.paired_s = v.paired_s = t.paired;
        double pairs = 2.0 * n - chunks - 1; /* of a stage in the middle: all but the first */
        double busy = pairs * paired + (2 * n - pairs) * (f + b);
        double bubble = (chunks / 2.0 - 1) * (paired + b - 3 * w);
        if (!near(end_of(&p), busy + bubble))
          fail_msg("%u chunks, %u microbatches, F %g, B %g, W %g, F&B %g: %g, want %g", chunks,
                   2 * n, f, b, w, paired, end_of(&p), busy + bubble);
        assert_true(near(end_of(&v), busy + bubble));
      }
}

/* ---- every event ---------------------------------------------------------------------------- */

/* What is known of a microbatch in a chunk of the model. */
struct unit {
  uint32_t stage, forwards, backwards;
  double forward_start, forward_end, inputs_start, inputs_end, backward_s, last_end;
};

static void note(struct unit *u, const struct pz_pipeline_event *e) {
  if (u->forwards + u->backwards) assert_int_equal(u->stage, e->stage);
  u->stage = e->stage;
  if (!e->backward) {
    u->forwards++;
    u->forward_start = e->start_s;
    u->forward_end = e->end_s;
    return;
  }
  if (u->backwards++ == 0) {
    u->inputs_start = e->start_s;
    u->inputs_end = e->end_s;
  }
  assert_true(e->start_s >= u->last_end);
  u->last_end = e->end_s;
  u->backward_s += e->end_s - e->start_s;
}

/* Do they run as one: a forward, then a backward of the stage's other chunk? */
static bool is_pair(const struct pz_pipeline *p, const struct pz_pipeline_event *a,
                    const struct pz_pipeline_event *b) {
  return p->order != PZ_PIPELINE_ZB_V && !a->backward && b->backward && a->chunk != b->chunk &&
         a->start_s == b->start_s && a->end_s == b->end_s;
}

/* The events of each stage come one after another but for pairs, which take as long as they should; fills the units. */
static void check_stages(const struct pz_pipeline *p, const struct pz_pipeline_run *run,
                         struct unit *units, bool *paired) {
  struct pz_pipeline_shape shape = shape_of(p);
  const struct pz_pipeline_event *last[MOST_CHUNKS] = {0};
  for (uint32_t i = 0; i < run->n_events; i++) {
    const struct pz_pipeline_event *e = &run->events[i], *before = last[e->stage];
    uint32_t j = pz_pipeline_chunk_at(&shape, e->stage, e->chunk), m = e->microbatch;
    assert_true(e->stage < p->stages && e->chunk < 2 && m < p->microbatches);
    note(&units[j * p->microbatches + m], e);
    if (before && is_pair(p, before, e)) {
      uint32_t fj = pz_pipeline_chunk_at(&shape, before->stage, before->chunk);
      double sum = p->forward_s[fj] + p->backward_s[j];
      paired[j * p->microbatches + m] = paired[fj * p->microbatches + before->microbatch] = true;
      assert_true(near(e->end_s - e->start_s, p->paired_s ? p->paired_s[fj] : sum));
    } else if (before)
      assert_true(e->start_s >= before->end_s);
    last[e->stage] = e;
  }
}

static void check_unit(const struct pz_pipeline *p, const struct unit *units, uint32_t j,
                       uint32_t m) {
  const struct unit *u = &units[j * p->microbatches + m], *next = u + p->microbatches;
  double slack = 1e-9;
  assert_int_equal(u->forwards, 1);
  assert_in_range(u->backwards, 1, 2);
  assert_true(u->inputs_start >= u->forward_end - slack);
  if (j + 1 == p->stages * p->chunks) return;
  double hop = u->stage == next->stage ? 0 : p->transfer_s;
  assert_true(next->forward_start >= u->forward_end + hop - slack);
  assert_true(u->inputs_start >= next->inputs_end + hop - slack);
}

/* Passes that do not run in pairs take their times. */
static void check_durations(const struct pz_pipeline *p, const struct unit *units,
                            const struct pz_pipeline_run *run, const bool *paired) {
  struct pz_pipeline_shape shape = shape_of(p);
  for (uint32_t i = 0; i < run->n_events; i++) {
    const struct pz_pipeline_event *e = &run->events[i];
    uint32_t j = pz_pipeline_chunk_at(&shape, e->stage, e->chunk);
    const struct unit *u = &units[j * p->microbatches + e->microbatch];
    if (paired[j * p->microbatches + e->microbatch]) continue;
    if (!e->backward) assert_true(near(e->end_s - e->start_s, p->forward_s[j]));
    assert_true(near(u->backward_s, p->backward_s[j]));
    if (u->backwards == 2)
      assert_true(near(u->inputs_end - u->inputs_start, p->backward_s[j] - p->weight_s[j]));
  }
}

/* ---- what is in flight ---------------------------------------------------------------------- */

struct moment {
  double s;
  int change; /* +1: a forward begins; -1: the last of a backward ends */
  uint32_t slot;
  bool far_backward; /* of the last slot begins */
};

static int by_time(const void *a, const void *b) {
  const struct moment *x = a, *y = b;
  if (x->s != y->s) return x->s < y->s ? -1 : 1;
  if (x->change != y->change) return x->change < y->change ? -1 : 1;
  return x->far_backward - y->far_backward;
}

/* Which slot of a stage a unit is in. */
static uint32_t slot_of(const struct pz_pipeline *p, uint32_t stage, uint32_t j, uint32_t m) {
  struct pz_pipeline_shape shape = shape_of(p);
  uint32_t slot = 0;
  if (p->order == PZ_PIPELINE_DUALPIPE) return m >= p->microbatches / 2;
  while (pz_pipeline_chunk_at(&shape, stage, slot) != j) slot++;
  return slot;
}

static uint32_t list_moments(const struct pz_pipeline *p, const struct unit *units, uint32_t stage,
                             struct moment *list) {
  struct pz_pipeline_shape shape = shape_of(p);
  uint32_t n = 0, last = pz_pipeline_slots(&shape) - 1;
  for (uint32_t j = 0; j < p->stages * p->chunks; j++)
    for (uint32_t m = 0; m < p->microbatches; m++) {
      const struct unit *u = &units[j * p->microbatches + m];
      if (u->stage != stage) continue;
      uint32_t slot = slot_of(p, stage, j, m);
      list[n++] = (struct moment){u->forward_start, 1, slot, false};
      list[n++] = (struct moment){u->last_end, -1, slot, false};
      if (slot == last) list[n++] = (struct moment){u->inputs_start, 1, slot, true};
    }
  qsort(list, n, sizeof *list, by_time);
  return n;
}

/* Never more in all than the function says, and where it should be reached, just that when the last slot's chunk begins
 * a backward. */
static void check_in_flight(const struct pz_pipeline *p, const struct unit *units, uint32_t stage,
                            bool reached) {
  static struct moment list[3 * 2 * MOST_MICROBATCHES * 4];
  struct pz_pipeline_shape shape = shape_of(p);
  uint32_t slots = pz_pipeline_slots(&shape), n = list_moments(p, units, stage, list), most = 0;
  int now[4] = {0}, all = 0;
  bool was = false;
  for (uint32_t c = 0; c < slots; c++) most += pz_pipeline_in_flight(&shape, stage, c);
  for (uint32_t i = 0; i < n; i++) {
    bool same = list[i].far_backward;
    for (uint32_t c = 0; c < slots; c++)
      same = same && now[c] == (int)pz_pipeline_in_flight(&shape, stage, c);
    was = was || same;
    if (list[i].far_backward) continue;
    now[list[i].slot] += list[i].change;
    all += list[i].change;
    if (all > (int)most)
      fail_msg("order %d, %u stages, %u microbatches, stage %u: %d in flight, said %u", p->order,
               p->stages, p->microbatches, stage, all, most);
  }
  if (reached && !was)
    fail_msg("order %d, %u stages, %u microbatches, stage %u: not reached", p->order, p->stages,
             p->microbatches, stage);
}

/* ---- random pipelines ----------------------------------------------------------------------- */

static struct pz_pipeline draw_pipeline(struct times *t) {
  enum pz_pipeline_order order = orders[draw(3)];
  uint32_t stages = order == PZ_PIPELINE_DUALPIPE ? 2 * (1 + draw(4)) : 1 + draw(7);
  uint32_t n = 2 * stages + 2 * draw(12);
  if (order == PZ_PIPELINE_ZB_V) n = 1 + draw(30);
  struct pz_pipeline p = pipeline_of(order, stages, n, t);
  for (uint32_t j = 0; j < stages * p.chunks; j++) {
    t->f[j] = 1 + draw(20);
    t->b[j] = 2 + draw(40);
    t->w[j] = t->b[j] * draw(10) / 10;
  }
  for (uint32_t j = 0; j < stages * p.chunks; j++) {
    double f = t->f[j], b = t->b[stages * p.chunks - 1 - j], least = fmax(f, b);
    t->paired[j] = least + (f + b - least) * draw(11) / 10;
  }
  p.paired_s = draw(2) ? t->paired : NULL;
  p.transfer_s = draw(3) ? 0 : draw(10) / 10.0;
  return p;
}

static void check_pipeline(const struct pz_pipeline *p, bool reached) {
  struct pz_arena arena;
  uint32_t chunks = p->stages * p->chunks, n = chunks * p->microbatches;
  pz_arena_init(&arena);
  struct unit *units = calloc(n, sizeof *units);
  bool *paired = calloc(n, sizeof *paired);
  assert_true(units && paired);
  struct pz_pipeline_run run = run_of(p, &arena);
  double last = 0;
  check_stages(p, &run, units, paired);
  for (uint32_t i = 0; i < n; i++) check_unit(p, units, i / p->microbatches, i % p->microbatches);
  check_durations(p, units, &run, paired);
  for (uint32_t k = 0; k < p->stages; k++) check_in_flight(p, units, k, reached);
  for (uint32_t i = 0; i < run.n_events; i++) last = fmax(last, run.events[i].end_s);
  assert_true(last == run.end_s);
  if (pz_pipeline_bound_s(p) > run.end_s * (1 + 1e-12))
    fail_msg("order %d, %u stages, %u microbatches: a bound of %g above %g", p->order, p->stages,
             p->microbatches, pz_pipeline_bound_s(p), run.end_s);
  free(units);
  free(paired);
  pz_arena_release(&arena);
}

static void random_pipelines_keep_their_order(void **state) {
  (void)state;
  struct times t;
  for (int round = 0; round < 1500; round++) {
    struct pz_pipeline p = draw_pipeline(&t);
    check_pipeline(&p, false);
  }
}

/* What the other orders keep is counted in the same way. */
static void in_flight_is_counted_from_events(void **state) {
  (void)state;
  struct times t;
  fill_equal(&t, 1, 1, 1, 3);
  for (uint32_t stages = 2; stages <= 8; stages += 2)
    for (uint32_t n = 2 * stages; n <= 4 * stages; n += stages) {
      for (int i = 0; i < 3; i++) {
        struct pz_pipeline p = pipeline_of(orders[i], stages, n, &t);
        check_pipeline(&p, true);
      }
      static const enum pz_pipeline_order others[] = {PZ_PIPELINE_1F1B, PZ_PIPELINE_INTERLEAVED,
                                                      PZ_PIPELINE_GPIPE};
      for (int i = 0; i < 3; i++) {
        struct pz_pipeline p = pipeline_of(others[i], stages, n, &t);
        struct pz_pipeline_shape shape = shape_of(&p);
        struct pz_arena arena;
        struct unit units[2 * 8 * 32] = {0};
        pz_arena_init(&arena);
        struct pz_pipeline_run run = run_of(&p, &arena);
        for (uint32_t e = 0; e < run.n_events; e++)
          note(&units[pz_pipeline_chunk_at(&shape, run.events[e].stage, run.events[e].chunk) * n +
                      run.events[e].microbatch],
               &run.events[e]);
        for (uint32_t k = 0; k < stages; k++) check_in_flight(&p, units, k, true);
        pz_arena_release(&arena);
      }
    }
}

/* Of the memory of 1F1B, in chunks of the same size: ZB-V as much as its first stage on all of them, DualPipe one chunk
 * more. */
static void memory_is_as_published(void **state) {
  (void)state;
  for (uint32_t stages = 2; stages <= 16; stages += 2)
    for (uint32_t k = 0; k < stages; k++) {
      struct pz_pipeline_shape zb_v = {PZ_PIPELINE_ZB_V, stages, 2, 8 * stages},
                               dual_v = {PZ_PIPELINE_DUALPIPE_V, stages, 2, 8 * stages},
                               dual = {PZ_PIPELINE_DUALPIPE, stages, 1, 8 * stages};
      assert_int_equal(pz_pipeline_in_flight(&zb_v, k, 0) + pz_pipeline_in_flight(&zb_v, k, 1),
                       2 * stages);
      assert_int_equal(pz_pipeline_in_flight(&dual_v, k, 0) + pz_pipeline_in_flight(&dual_v, k, 1),
                       2 * stages + 1);
      assert_int_equal(pz_pipeline_in_flight(&dual, k, 0) + pz_pipeline_in_flight(&dual, k, 1),
                       stages + 1);
    }
}

/* Every chunk of the model is on the stage that is said to hold it, as often as there are copies. */
static void chunks_and_stages_agree(void **state) {
  (void)state;
  for (int order = 0; order < PZ_PIPELINES; order++)
    for (uint32_t stages = 2; stages <= 12; stages += 2) {
      uint32_t chunks = pz_pipeline_chunks((enum pz_pipeline_order)order), held[MOST_CHUNKS] = {0};
      struct pz_pipeline_shape s = {(enum pz_pipeline_order)order, stages, chunks ? chunks : 3, 1};
      for (uint32_t k = 0; k < stages; k++)
        for (uint32_t c = 0; c < pz_pipeline_slots(&s); c++) {
          uint32_t j = pz_pipeline_chunk_at(&s, k, c);
          held[j]++;
          if (c < s.chunks) assert_int_equal(pz_pipeline_stage_of(&s, j), k);
        }
      for (uint32_t j = 0; j < stages * s.chunks; j++)
        assert_int_equal(held[j], pz_pipeline_copies(s.order));
    }
}

static void wrong_use_is_told(void **state) {
  (void)state;
  static const struct {
    struct pz_pipeline p;
    const char *message;
  } bad[] = {
      {{.stages = 2, .chunks = 1, .microbatches = 8, .order = PZ_PIPELINE_ZB_V}, "accepted: 2"},
      {{.stages = 2, .chunks = 3, .microbatches = 8, .order = PZ_PIPELINE_DUALPIPE_V},
       "accepted: 2"},
      {{.stages = 4, .chunks = 2, .microbatches = 7, .order = PZ_PIPELINE_DUALPIPE_V},
       "accepted: 8 and more"},
      {{.stages = 4, .chunks = 2, .microbatches = 8, .order = PZ_PIPELINE_DUALPIPE},
       "2 chunks a stage"},
      {{.stages = 3, .chunks = 1, .microbatches = 8, .order = PZ_PIPELINE_DUALPIPE},
       "dualpipe over 3 stages"},
      {{.stages = 4, .chunks = 1, .microbatches = 9, .order = PZ_PIPELINE_DUALPIPE},
       "half of them from each end"},
      {{.stages = 4, .chunks = 1, .microbatches = 6, .order = PZ_PIPELINE_DUALPIPE},
       "accepted: 8 and more"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_error err = {0};
    struct pz_pipeline_run run;
    assert_int_equal(try_simulate_pipeline(&bad[i].p, false, NULL, &run, &err), PZ_BAD_USE);
    if (!strstr(err.message, bad[i].message)) fail_msg("%s", err.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zb_v_has_no_bubble),
      cmocka_unit_test(dualpipe_has_its_bubble),
      cmocka_unit_test(random_pipelines_keep_their_order),
      cmocka_unit_test(in_flight_is_counted_from_events),
      cmocka_unit_test(memory_is_as_published),
      cmocka_unit_test(chunks_and_stages_agree),
      cmocka_unit_test(wrong_use_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
