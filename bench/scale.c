/* How a search of boxes scales over ranks: the processor time of every box and the bytes of every round are measured on
 * one rank, then dealt to R ranks as they take them, with a network between them.  Called by bench/scale.
 *
 *     bench_scale ROUNDS WORK      WORK: processor time of two ranks over that of one, measured
 *
 * Of R ranks each takes log2(R) times as much more as one of two does: products that several ranks map.  A round ends
 * with two collective calls (recursive doubling: Thakur, Rabenseifner and Gropp, 2005), ceil(log2(R)) steps of
 * LATENCY_S each, and every rank receives 32 bytes of each rank and all outcomes.  A larger round is made of
 * consecutive ones; that it finds later what closes boxes is not in the model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/alloc.h"
#include "core/ranks.h"
#include "core/vec.h"
#include "unit/study_borders.h"
#include "unit/vec_push.h"

/* Of a cluster's network: a small message between nodes, and what one node receives. */
static const double LATENCY_S = 5e-6, BYTES_PER_S = 10e9;
enum { HEAD_BYTES = 32, MOST_RANKS = 4096 };

struct round {
  uint32_t first, n;
  uint64_t bytes;
};

struct trace {
  struct pz_arena arena;
  struct pz_vec items, rounds; /* double, struct round */
  double since_s;
  size_t at;      /* items of this round that have begun */
  uint32_t taken; /* items of rounds that have ended */
};

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Items one after another; each ends when the next is asked for. */
static size_t next_item(void *ctx, size_t n) {
  struct trace *t = ctx;
  double now = cpu_s(), s = now - t->since_s;
  if (t->at && !vec_push(&t->items, &s)) abort();
  t->since_s = now;
  return t->at < n ? t->at++ : n;
}

static void end_round(struct pz_call *call, void *ctx, const struct pz_ranks_part *own,
                      pz_ranks_receive *receive, void *receiver) {
  struct trace *t = ctx;
  struct round r = {t->taken, t->items.n - t->taken, own->n};
  (void)receive, (void)receiver;
  t->at = 0;
  t->taken = t->items.n;
  if (r.n && !vec_push(&t->rounds, &r)) abort();
  if (own->error && own->error->status != PZ_OK) pz_raise_again(call, own->error);
}

static enum pz_status search(int64_t rounds, struct pz_error *err) {
  struct pz_study_options o = pz_study_options_default();
  struct pz_study_watch none = {.store = NULL};
  struct pz_study s;
  o.models[0] = "llama3-70b";
  o.n_models = 1;
  o.space = "modern";
  o.node = "5nm";
  o.limit_mm2 = 814;
  o.limit_watts = 700;
  o.objective = PZ_OBJECTIVE_PER_DOLLAR;
  o.devices = 1024;
  o.batch = 2048;
  o.workload.seq = 8192;
  o.rounds = rounds;
  enum pz_status status = pz_study_init(&s, &o, 1, err);
  if (status != PZ_OK) return status;
  status = pz_study_prepare(&s, &none, err);
  if (status == PZ_OK) status = pz_study_run(&s, 0, err);
  pz_study_release(&s);
  return status;
}

/* ---- the model ------------------------------------------------------------------------------ */

struct model {
  const struct trace *t;
  double serial_s, work; /* what every rank does; of two ranks over one */
};

struct outlook {
  double whole_s, busy_s, exchange_s;
};

/* Each item goes to the rank that is free first; when the last is free. */
static double longest_s(const struct model *m, uint32_t first, uint32_t n, uint32_t ranks) {
  static double busy[MOST_RANKS];
  const double *item = m->t->items.items;
  uint32_t used = ranks < n ? ranks : n;
  double most = 0;
  for (uint32_t r = 0; r < used; r++) busy[r] = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t free = 0;
    for (uint32_t r = 1; r < used; r++)
      if (busy[r] < busy[free]) free = r;
    busy[free] += item[first + i];
    most = fmax(most, busy[free]);
  }
  return most;
}

static struct outlook outlook(const struct model *m, uint32_t ranks, uint32_t together) {
  const struct round *round = m->t->rounds.items;
  double more = 1 + (m->work - 1) * log2(ranks), steps = ceil(log2(ranks));
  struct outlook o = {m->serial_s, m->serial_s, 0};
  for (uint32_t k = 0; k < m->t->rounds.n; k += together) {
    uint32_t n = 0;
    uint64_t bytes = 0;
    double all = 0;
    for (uint32_t j = k; j < k + together && j < m->t->rounds.n; j++)
      n += round[j].n, bytes += round[j].bytes;
    for (uint32_t i = 0; i < n; i++) all += ((double *)m->t->items.items)[round[k].first + i];
    double exchange = ranks == 1 ? 0
                                 : 2 * steps * LATENCY_S +
                                       ((double)bytes + HEAD_BYTES * (double)ranks) / BYTES_PER_S;
    o.whole_s += longest_s(m, round[k].first, n, ranks) * more + exchange;
    o.busy_s += all * more / ranks;
    o.exchange_s += exchange;
  }
  return o;
}

static void print_model(const struct model *m) {
  double one = outlook(m, 1, 1).whole_s;
  for (uint32_t together = 1; together <= 512; together *= 8)
    for (uint32_t ranks = 1; ranks <= MOST_RANKS; ranks *= ranks == 1 ? 2 : ranks == 2 ? 8 : 4) {
      struct outlook o = outlook(m, ranks, together);
      printf("model,%u,%u,%.3f,%.3f,%.3f,%.5f,,,,\n", ranks, 64 * together, one / o.whole_s,
             one / o.whole_s / ranks, 1 - (o.busy_s + o.exchange_s) / o.whole_s,
             o.exchange_s / o.whole_s);
    }
}

int main(int argc, char **argv) {
  struct trace t = {.taken = 0};
  struct pz_error err = {0};
  struct pz_ranks ranks = {.size = 1, .ctx = &t, .next_item = next_item, .exchange = end_round};
  if (argc != 3 || pz_alloc_use(NULL, &err) != PZ_OK) return 2;
  pz_arena_init(&t.arena);
  pz_vec_init(&t.items, &t.arena, sizeof(double));
  pz_vec_init(&t.rounds, &t.arena, sizeof(struct round));
  pz_ranks_use(&ranks);
  enum pz_status status = search(atoll(argv[1]), &err);
  struct model m = {&t, cpu_s(), atof(argv[2])};
  for (uint32_t i = 0; i < t.items.n; i++) m.serial_s -= *pz_vec_at(&t.items, double, i);
  if (status == PZ_OK)
    print_model(&m);
  else
    fprintf(stderr, "bench_scale: %s\n", err.message);
  pz_arena_release(&t.arena);
  return status != PZ_OK;
}
