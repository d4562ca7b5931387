/* The search for training plans: its best is the best of all plans of the space, listed here one by one; more devices,
 * memory or bandwidth are never slower; published plans are never faster; prices do not depend on what was priced before;
 * bounds are below prices. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/num.h"
#include "cost/constants.h"
#include "place/plan_search.h"
#include "place/recompute.h"
#include "place/run_table.h"

/* ---- random questions ----------------------------------------------------------------------- */

struct random_case {
  char config[512];
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_plan_question q;
  int64_t layers, heads, kv_heads;
};

static uint32_t below(uint64_t *r, uint32_t n) { return pz_random_below(r, n); }

static int64_t pick(uint64_t *r, const int64_t *list, uint32_t n) { return list[below(r, n)]; }

static double between(uint64_t *r, double low, double high) {
  return low * pow(high / low, (double)below(r, 1 << 20) / (1 << 20));
}

static void random_model(uint64_t *r, struct random_case *c) {
  static const int64_t heads[] = {2, 4, 6, 8}, seqs[] = {128, 256, 512, 1024};
  c->layers = 2 + below(r, 5);
  c->heads = c->kv_heads = pick(r, heads, 4);
  int64_t seq = pick(r, seqs, 4), dim = 16 << below(r, 3), hidden = c->heads * dim;
  int64_t vocab = 96 * (1 + below(r, 100));
  if (below(r, 2)) {
    if (c->heads % 2 == 0 && below(r, 2)) c->kv_heads /= 2;
    snprintf(c->config, sizeof c->config,
             "{\"model_type\":\"llama\",\"hidden_act\":\"silu\",\"hidden_size\":%lld,"
             "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
             "\"num_key_value_heads\":%lld,\"intermediate_size\":%lld,\"vocab_size\":%lld,"
             "\"max_position_embeddings\":%lld}",
             (long long)hidden, (long long)c->layers, (long long)c->heads, (long long)c->kv_heads,
             (long long)(3 * hidden), (long long)vocab, (long long)seq);
  } else {
    snprintf(c->config, sizeof c->config,
             "{\"model_type\":\"gpt2\",\"n_embd\":%lld,\"n_layer\":%lld,\"n_head\":%lld,"
             "\"n_inner\":%lld,\"vocab_size\":%lld,\"n_positions\":%lld}",
             (long long)hidden, (long long)c->layers, (long long)c->heads, (long long)(4 * hidden),
             (long long)vocab, (long long)seq);
  }
  c->q.model = (struct pz_training_model){
      .name = "small", .config = c->config, .seq = seq, .attention = below(r, 2)};
}

static void random_machine(uint64_t *r, struct random_case *c) {
  static const char *const chips[] = {"a100-80", "h100", "b200"};
  struct pz_error err = {0};
  assert_int_equal(pz_chip_load(chips[below(r, 3)], &c->chip, &err), PZ_OK);
  int64_t node = 2 << below(r, 3);
  c->net = (struct pz_cluster){.name = "made up", .devices = 4096, .n_levels = 2, .scales = true};
  c->net.level[0] = (struct pz_level){.name = "node", .devices = node, .latency_s = 1e-6};
  c->net.level[1] = (struct pz_level){.name = "cluster", .devices = 4096, .latency_s = 5e-6};
  c->net.level[0].bytes_per_s = between(r, 1e10, 1e12);
  c->net.level[1].bytes_per_s = between(r, 1e9, 1e11);
  c->q.chip = &c->chip;
  c->q.net = &c->net;
}

static void random_common(uint64_t *r, struct pz_training_plan *p) {
  static const char *const frameworks[] = {"megatron", "torchtitan", "nemo", "torch"};
  *p = (struct pz_training_plan){.framework = pz_framework_find(frameworks[below(r, 4)])};
  p->overlap = below(r, PZ_OVERLAP_ALL + 1) & PZ_OVERLAP_ALL;
  p->execution = (enum pz_execution)below(r, 3);
  p->grad_bytes = below(r, 2) ? 4 : 2;
  p->order = below(r, 4) ? PZ_PIPELINE_1F1B : PZ_PIPELINE_GPIPE;
}

/* `pins`: one of so many fields is pinned; 0: none. */
static void random_case(uint64_t *r, struct random_case *c, uint32_t pins) {
  static const int64_t batches[] = {4, 6, 8, 12, 16, 24, 32, 48, 64};
  struct pz_plan_question *q = &c->q;
  *q = pz_plan_question_default();
  random_model(r, c);
  random_machine(r, c);
  random_common(r, &q->common);
  q->devices = 1 + below(r, 32);
  q->batch = pick(r, batches, 9);
  q->threads = 1;
  if (!pins) return;
  if (!below(r, pins)) q->tp = 1 << below(r, 3);
  if (!below(r, pins)) q->sp = below(r, 2);
  if (!below(r, pins)) q->pp = 1 + below(r, 4);
  if (!below(r, pins)) q->vpp = 1 + below(r, 2);
  if (!below(r, pins)) q->dp = 1 + below(r, 4);
  if (!below(r, pins)) q->mbs = 1 + below(r, 4);
  if (!below(r, pins)) q->zero = below(r, 4);
  if (!below(r, pins)) q->recompute = below(r, PZ_RECOMPUTATIONS);
  q->uniform = !below(r, 3);
  q->all_devices = !below(r, 6);
  q->objective = (enum pz_plan_objective)below(r, PZ_PLAN_OBJECTIVES);
  q->top = below(r, 3) ? 1 : 4;
}

/* ---- every plan ----------------------------------------------------------------------------- */

/* The plans of a question, listed from the text of plan_search.h. */
struct listing {
  struct random_case *c;
  struct pz_step_model *m; /* of the plans with this tp, sp and mbs */
  double hbm_bytes;
  uint64_t plans;
  double *values; /* of plans that fit, one for each recomputation; NULL: counted only */
  uint32_t n, cap;
  double least_bytes;
  uint64_t *random;
};

static bool takes(int64_t pin, int64_t v) { return pin == PZ_FREE || pin == v; }

static double usable_bytes(const struct pz_chip *chip) {
  return (double)pz_chip_hbm_bytes(chip) * pz_constants_default.usable_part;
}

/* What is sought of the plan, INFINITY where it does not fit; now and then by a model of its own. */
static double value_of(struct listing *l, const struct pz_training_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_prediction x, y;
  struct pz_error err = {0};
  if (pz_step_price(l->m, p, &x, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
  if (below(l->random, 200) == 0) {
    if (pz_predict(&q->model, q->chip, q->net, p, &y, NULL, &err) != PZ_OK)
      fail_msg("%s", err.message);
    assert_true(x.step_s == y.step_s && x.peak_bytes == y.peak_bytes);
  }
  l->least_bytes = fmin(l->least_bytes, x.peak_bytes);
  if (x.peak_bytes > l->hbm_bytes) return HUGE_VAL;
  if (q->objective == PZ_PLAN_MEMORY) return x.peak_bytes;
  return q->objective == PZ_PLAN_COST ? x.step_s * (double)(p->tp * p->pp * p->dp) : x.step_s;
}

/* Full recomputation: every number of layers, of all stages alike or of each. */
static double value_of_full(struct listing *l, struct pz_training_plan *p) {
  int64_t again[16] = {0}, most[16], all = 0;
  double best = HUGE_VAL;
  for (int64_t k = 0; k < p->pp; k++) {
    most[k] = 0;
    for (int64_t c = 0; c < p->vpp; c++)
      most[k] = pz_max(most[k], pz_plan_blocks(p, l->c->layers, c * p->pp + k));
    all = pz_max(all, most[k]);
  }
  p->stage_recompute = again;
  if (l->c->q.uniform) {
    for (int64_t n = 0; n <= all; n++) {
      for (int64_t k = 0; k < p->pp; k++) again[k] = n;
      best = fmin(best, value_of(l, p));
    }
    return best;
  }
  for (int64_t k = 0; k < p->pp;) {
    best = fmin(best, value_of(l, p));
    for (k = 0; k < p->pp && ++again[k] > most[k]; k++) again[k] = 0;
  }
  return best;
}

static void add_value(struct listing *l, double v) {
  if (v == (double)HUGE_VAL) return;
  if (l->n == l->cap) {
    l->cap = 2 * l->cap + 64;
    l->values = realloc(l->values, l->cap * sizeof *l->values);
    assert_non_null(l->values);
  }
  l->values[l->n++] = v;
}

/* Every recomputation; with less time or cost asked for, none where a plan fits without. */
static void list_recomputations(struct listing *l, struct pz_training_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  bool fits = false, titan = strcmp(p->framework->name, "torchtitan") == 0;
  for (int r = 0; r < PZ_RECOMPUTATIONS; r++) {
    if (!takes(q->recompute, r)) continue;
    if (q->recompute == PZ_FREE && r == PZ_RECOMPUTATION_HALF) continue;
    if (q->recompute == PZ_FREE && r == PZ_RECOMPUTATION_ALTERNATE && !titan) continue;
    l->plans++;
    if (fits && q->objective != PZ_PLAN_MEMORY) continue;
    p->recompute = (enum pz_recomputation)r;
    p->stage_recompute = NULL;
    double v = r == PZ_RECOMPUTATION_FULL ? value_of_full(l, p) : value_of(l, p);
    add_value(l, v);
    if (r == PZ_RECOMPUTATION_NONE) fits = v < (double)HUGE_VAL;
  }
}

/* All pairs of layers for the first and the last chunk that the space has. */
static void list_divisions(struct listing *l, struct pz_training_plan *p) {
  int64_t n = p->pp * p->vpp, least = (l->c->layers + n - 1) / n;
  p->first_layers = p->last_layers = 0;
  int64_t first = pz_plan_blocks(p, l->c->layers, 0), last = pz_plan_blocks(p, l->c->layers, n - 1);
  list_recomputations(l, p);
  for (int64_t f = 1; f < l->c->layers && n > 1; f++)
    for (int64_t e = 1; f + e <= l->c->layers; e++) {
      int64_t rest = l->c->layers - f - e, m = n > 2 ? rest / (n - 2) : 0;
      if (n == 2 ? rest != 0 : rest % (n - 2) != 0 || m < least || m > least + 1) continue;
      if (n > 2 && (f > m || e > m)) continue;
      if (f == first && e == last) continue;
      p->first_layers = f;
      p->last_layers = e;
      list_recomputations(l, p);
    }
}

static void list_stages(struct listing *l, struct pz_training_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  int64_t rounds = q->batch / (p->mbs * p->dp), layers = l->c->layers;
  for (p->vpp = 1; p->vpp <= layers + 2; p->vpp++) {
    int64_t n = p->pp * p->vpp;
    bool even = layers % n == 0 || (layers + 2) % n == 0;
    if (!takes(q->vpp, p->vpp)) continue;
    if (p->vpp > 1 && (p->pp == 1 || rounds % p->pp || !even || n > layers + 2)) continue;
    for (p->zero = 0; p->zero <= 3; p->zero++) {
      bool stages = p->pp > 1 && !p->framework->shards_stages;
      if (p->dp == 1 ? p->zero != (q->zero == PZ_FREE ? 0 : q->zero)
                     : !takes(q->zero, p->zero) || (p->zero > 1 && stages))
        continue;
      list_divisions(l, p);
    }
  }
}

static void list_grids(struct listing *l, struct pz_training_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  int64_t node = l->c->net.level[0].devices;
  for (p->pp = 1; p->pp <= l->c->layers; p->pp++)
    for (p->dp = 1; p->dp <= q->batch; p->dp++) {
      int64_t devices = p->tp * p->pp * p->dp;
      bool whole = devices <= node || devices % node == 0;
      if (!takes(q->pp, p->pp) || !takes(q->dp, p->dp) || q->batch % (p->mbs * p->dp)) continue;
      if (devices > q->devices || !(whole || devices == q->devices)) continue;
      if (!whole && q->devices > node) continue;
      if (q->all_devices && devices != q->devices) continue;
      list_stages(l, p);
    }
}

static void list_all(struct listing *l) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_training_plan p = q->common;
  p.batch = q->batch;
  for (p.tp = 1; p.tp <= pz_max(l->c->net.level[0].devices, q->tp); p.tp++)
    for (p.mbs = 1; p.mbs <= q->batch; p.mbs++)
      for (int sp = 0; sp <= (p.tp > 1); sp++) {
        struct pz_error err = {0};
        if (!takes(q->tp, p.tp) || !takes(q->mbs, p.mbs) || (p.tp > 1 && !takes(q->sp, sp)))
          continue;
        if (l->c->heads % p.tp || l->c->kv_heads % p.tp || q->batch % p.mbs) continue;
        if (p.tp > q->devices || (sp && q->model.seq % p.tp)) continue;
        p.sequence_parallel = sp;
        p.pp = p.vpp = p.dp = 1;
        if (pz_step_model_new(&q->model, q->chip, q->net, &p, &l->m, &err) != PZ_OK) continue;
        list_grids(l, &p);
        pz_step_model_free(l->m);
      }
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* ---- the best of all ------------------------------------------------------------------------ */

static double found_value(const struct pz_plan_question *q, const struct pz_found_plan *f) {
  if (q->objective == PZ_PLAN_MEMORY) return f->p.peak_bytes;
  double devices = (double)(f->plan.tp * f->plan.pp * f->plan.dp);
  return q->objective == PZ_PLAN_COST ? f->p.step_s * devices : f->p.step_s;
}

/* HBM so that some plans fit and others do not, or none: between the least that a plan needs and what the best needs. */
static void shrink_memory(uint64_t *r, struct random_case *c) {
  struct pz_plan_question q = c->q;
  struct pz_found_plans least, best;
  struct pz_arena arena;
  q.top = 1;
  pz_arena_init(&arena, NULL);
  q.objective = PZ_PLAN_MEMORY;
  enum pz_status status = pz_plan_search(&q, &arena, &least, NULL);
  q.objective = PZ_PLAN_TIME;
  if (status == PZ_OK) status = pz_plan_search(&q, &arena, &best, NULL);
  if (status == PZ_OK && least.n && best.n) {
    double low = least.list[0].p.peak_bytes, high = best.list[0].p.peak_bytes;
    double bytes = below(r, 5) ? low + (high - low) * below(r, 1000) / 1000 : 0.99 * low;
    c->chip.hbm.bytes_per_stack =
        (int64_t)(bytes / pz_constants_default.usable_part / (double)c->chip.hbm.stacks) + 1;
  }
  pz_arena_release(&arena);
}

struct tally {
  int none, tight, wrong;
  uint64_t plans;
};

static void tell_case(int i, const struct random_case *c) {
  const struct pz_plan_question *q = &c->q;
  print_message("case %d: %s, %lld devices in %lld, batch %lld, %s; tp %lld sp %lld pp %lld vpp "
                "%lld dp %lld mbs %lld zero %lld recompute %lld, uniform %d, %s\n",
                i, c->config, (long long)q->devices, (long long)c->net.level[0].devices,
                (long long)q->batch, q->common.framework->name, (long long)q->tp, (long long)q->sp,
                (long long)q->pp, (long long)q->vpp, (long long)q->dp, (long long)q->mbs,
                (long long)q->zero, (long long)q->recompute, q->uniform,
                pz_plan_objective_names[q->objective]);
}

static bool same_value(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

/* Compare what was found with the list; false: they differ. */
static bool agrees(const struct listing *l, enum pz_status status,
                   const struct pz_found_plans *found) {
  const struct pz_plan_question *q = &l->c->q;
  if (!l->plans) return status == PZ_BAD_USE;
  if (status != PZ_OK) return print_message("refused: %lld plans\n", (long long)l->plans), false;
  const struct pz_plan_certificate *c = &found->certificate;
  if (c->plans != l->plans || c->plans != c->solved + c->by_bound + c->by_memory || c->gap != 0)
    return print_message("%lld plans, %lld in the certificate\n", (long long)l->plans,
                         (long long)c->plans),
           false;
  if (found->n != pz_min(l->n, q->top))
    return print_message("%u plans fit, %u found\n", l->n, found->n), false;
  if (!l->n) return found->has_least && same_value(found->least.p.peak_bytes, l->least_bytes);
  for (uint32_t i = 0; i < found->n; i++)
    if (!same_value(found_value(q, &found->list[i]), l->values[i]))
      return print_message("number %u of the best: %.12g, found %.12g\n", i, l->values[i],
                           found_value(q, &found->list[i])),
             false;
  return !found->has_least;
}

/* The plan itself, by a model of its own. */
static bool predicts(const struct pz_plan_question *q, const struct pz_found_plan *f) {
  struct pz_prediction p;
  struct pz_error err = {0};
  if (pz_predict(&q->model, q->chip, q->net, &f->plan, &p, NULL, &err) != PZ_OK) return false;
  return p.step_s == f->p.step_s && p.peak_bytes == f->p.peak_bytes && p.mfu == f->p.mfu;
}

static void one_listing(uint64_t *r, int i, struct tally *t) {
  struct random_case c;
  struct pz_found_plans found = {0};
  struct pz_arena arena;
  struct pz_error err = {0};
  random_case(r, &c, 3);
  if (below(r, 2)) shrink_memory(r, &c);
  struct listing l = {
      .c = &c, .hbm_bytes = usable_bytes(&c.chip), .least_bytes = HUGE_VAL, .random = r};
  list_all(&l);
  qsort(l.values, l.n, sizeof *l.values, ascending);
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_plan_search(&c.q, &arena, &found, &err);
  bool good = agrees(&l, status, &found);
  if (good && status == PZ_OK)
    good = predicts(&c.q, found.n ? &found.list[found.n - 1] : &found.least);
  if (!good) {
    tell_case(i, &c);
    t->wrong++;
  }
  t->plans += l.plans;
  t->none += status == PZ_OK && !l.n;
  t->tight += status == PZ_OK && found.certificate.by_memory > 0;
  free(l.values);
  pz_arena_release(&arena);
}

static void equals_brute_force(void **state) {
  (void)state;
  struct tally t = {0};
  uint64_t r = 20;
  int n = pz_test_part(500);
  for (int i = 0; i < n; i++) one_listing(&r, i, &t);
  print_message("  %d cases, %lld plans; memory binds in %d, nothing fits in %d; %d differ\n", n,
                (long long)t.plans, t.tight, t.none, t.wrong);
  assert_int_equal(t.wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_brute_force),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
