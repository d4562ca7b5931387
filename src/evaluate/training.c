#include "evaluate/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/ranks.h"
#include "core/shared_table.h"
#include "step/step_energy.h"

/* What threads and ranks share of the times of GEMMs; used as it fills. */
enum { SHARED_BYTES = 192 << 20 };

struct training {
  struct pz_evaluator base;
  struct pz_training_question q;
  unsigned n_workers;
  struct pz_plan_finder **finder;  /* by worker and model */
  struct pz_arena *plans;          /* by worker: of chips of another class than the space's */
  struct pz_product_times **times; /* by worker: of all models; NULL: borrowed */
  struct pz_shared_table shared;
  void *block; /* its memory, unless that is of all ranks */
};

static const struct pz_evaluator_ops ops;

static struct training *of(struct pz_evaluator *e) { return (struct training *)e; }

/* ---- the question --------------------------------------------------------------------------- */

/* "@SEQ" or "@SEQxBATCH" at the end of a text; its length, 0: there is none. */
static size_t read_suffix(const char *text, int64_t *seq, int64_t *batch) {
  enum { MOST = 1 << 24 };
  const char *at = strrchr(text, '@');
  char *end;
  if (!at || at == text || at[1] < '1' || at[1] > '9') return 0;
  *seq = strtol(at + 1, &end, 10);
  if (*end == 'x' && end[1] >= '1' && end[1] <= '9') *batch = strtol(end + 1, &end, 10);
  return *end || *seq > MOST || *batch > MOST ? 0 : strlen(at);
}

const char *pz_model_of_text(const char *text, struct pz_arena *arena, int64_t *seq,
                             int64_t *batch) {
  int64_t own_seq = 0, own_batch = 0;
  size_t suffix = read_suffix(text, &own_seq, &own_batch);
  char *name = pz_arena_strdup(arena, text);
  if (name && suffix) name[strlen(name) - suffix] = 0;
  *seq = suffix ? own_seq : 0;
  *batch = suffix ? own_batch : 0;
  return name;
}

int64_t pz_training_batch(const struct pz_training_question *q, uint32_t model) {
  return q->model_batch[model] ? q->model_batch[model] : q->batch;
}

struct pz_cluster pz_training_cluster(const struct pz_training_question *q,
                                      const struct pz_chip *c) {
  static const double OUTER_LATENCY_S = 5e-6;
  struct pz_cluster net = pz_cluster_flat(q->devices, c->link_bytes_per_s, c->link_latency_s);
  if (q->devices <= q->scale_up) return net;
  net.n_levels = 2;
  net.level[1] = net.level[0];
  net.level[0].devices = q->scale_up;
  net.level[1].bytes_per_s = pz_fmin(q->outer_bytes_per_s, c->link_bytes_per_s);
  net.level[1].latency_s = OUTER_LATENCY_S;
  snprintf(net.name, sizeof net.name, "scale-up of %lld", (long long)q->scale_up);
  snprintf(net.level[0].name, sizeof net.level[0].name, "scale-up");
  snprintf(net.level[1].name, sizeof net.level[1].name, "scale-out");
  return net;
}

enum pz_status pz_training_plan_question(const struct pz_training_question *q, uint32_t model,
                                         const struct pz_chip *chip, const struct pz_cluster *net,
                                         struct pz_plan_question *out, struct pz_error *err) {
  const struct {
    const char *name, *value;
  } fields[] = {{"precision", q->precision},       {"fp8_recipe", q->fp8_recipe},
                {"moment_bytes", q->moment_bytes}, {"mtp", q->mtp},
                {"offload", q->offload},           {"memory_margin", q->memory_margin}};
  struct pz_plan plan = pz_plan_default();
  struct pz_job job = {.model = q->models[model], .chip = chip, .net = net};
  bool stream = chip->execution == PZ_CHIP_STREAM;
  plan.peft = q->peft;
  plan.framework = pz_framework_find(!stream                 ? "compiled"
                                     : pz_plan_adapts(&plan) ? "nemo"
                                                             : "megatron");
  if (q->serial && chip->execution != PZ_CHIP_STREAM) plan.execution = PZ_EXECUTION_SERIAL;
  if (q->whole) plan.halves = 0;
  plan.seq = q->model_seq[model] ? q->model_seq[model] : q->seq;
  plan.devices = q->devices;
  plan.batch = pz_training_batch(q, model);
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof fields / sizeof *fields && status == PZ_OK; i++)
    if (fields[i].value) status = pz_plan_set(&plan, fields[i].name, fields[i].value, err);
  if (status == PZ_OK)
    status = pz_plan_question_of(&job, &plan, q->whole ? PZ_PLAN_PIN(HALVES) : 0, out, err);
  if (status != PZ_OK) return status;
  out->threads = 1;
  out->all_devices = true;
  out->ending = q->ending;
  return status;
}

/* ---- making --------------------------------------------------------------------------------- */

static void free_training(struct pz_evaluator *e) {
  struct training *t = of(e);
  for (size_t i = 0; t->finder && i < (size_t)t->n_workers * t->q.n_models; i++)
    pz_plan_finder_free(t->finder[i]);
  for (unsigned i = 0; t->plans && i < t->n_workers; i++) pz_arena_release(&t->plans[i]);
  for (unsigned i = 0; t->times && i < t->n_workers; i++) pz_product_times_free(t->times[i]);
  pz_free(t->times);
  pz_free(t->plans);
  pz_free(t->finder);
  pz_free(t->block);
  pz_free(t);
}

/* With several ranks on a node or several threads; without memory for it each finds out all by itself. */
static enum pz_status share_memory(struct training *t, const struct pz_pool *pool,
                                   struct pz_error *err) {
  void *block = NULL;
  enum pz_status status = pool ? pz_ranks_shared(SHARED_BYTES, &block, err) : PZ_OK;
  if (!block && t->n_workers > 1) block = t->block = pz_calloc(1, SHARED_BYTES);
  pz_shared_table_init(&t->shared, block, SHARED_BYTES);
  return status;
}

struct making {
  struct training *t;
  const struct pz_chip *like;
  struct pz_product_times *times; /* borrowed; NULL: each worker's own */
  struct pz_error *err;           /* by worker */
};

/* All models of a worker by one thread: they share the times. */
static void make_finders_of(void *ctx, size_t worker, unsigned thread) {
  struct making *m = ctx;
  struct training *t = m->t;
  struct pz_cluster net = pz_training_cluster(&t->q, m->like);
  enum pz_status status = PZ_OK;
  (void)thread;
  for (uint32_t model = 0; model < t->q.n_models && status == PZ_OK; model++) {
    struct pz_plan_question one;
    status = pz_training_plan_question(&t->q, model, m->like, &net, &one, &m->err[worker]);
    one.shared = &t->shared;
    one.shared_as = model;
    one.job.times = m->times ? m->times : t->times[worker];
    if (status == PZ_OK)
      status =
          pz_plan_finder_new(&one, &t->finder[worker * t->q.n_models + model], &m->err[worker]);
  }
  m->err[worker].status = status;
}

static enum pz_status make_finders(struct training *t, const struct pz_chip *like,
                                   struct pz_pool *pool, struct pz_product_times *times,
                                   struct pz_error *err) {
  struct making m = {t, like, times, pz_calloc(t->n_workers, sizeof *m.err)};
  enum pz_status status = PZ_OK;
  t->finder = pz_calloc((size_t)t->n_workers * t->q.n_models, sizeof *t->finder);
  if (!t->finder || !m.err)
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  else if (pool)
    pz_pool_for(pool, t->n_workers, make_finders_of, &m);
  else
    make_finders_of(&m, 0, 0);
  for (unsigned i = 0; i < t->n_workers && status == PZ_OK; i++)
    if (m.err[i].status != PZ_OK) status = pz_fail(err, m.err[i].status, "%s", m.err[i].message);
  pz_free(m.err);
  return status;
}

static enum pz_status make_times(struct training *t, struct pz_error *err) {
  t->times = pz_calloc(t->n_workers, sizeof *t->times);
  enum pz_status status =
      t->times ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  for (unsigned i = 0; i < t->n_workers && status == PZ_OK; i++)
    status = pz_product_times_new(&t->shared, &t->times[i], err);
  return status;
}

enum pz_status pz_training_new(const struct pz_training_question *q, const struct pz_chip *like,
                               struct pz_pool *pool, struct pz_product_times *times,
                               struct pz_evaluator **out, struct pz_error *err) {
  struct training *t = pz_calloc(1, sizeof *t);
  if (!t) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  t->base.ops = &ops;
  t->q = *q;
  t->n_workers = pool ? pz_pool_threads(pool) : 1;
  enum pz_status status = share_memory(t, pool, err);
  t->plans = pz_calloc(t->n_workers, sizeof *t->plans);
  if (!t->plans) status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  for (unsigned i = 0; t->plans && i < t->n_workers; i++) pz_arena_init(&t->plans[i], NULL);
  if (status == PZ_OK && !times) status = make_times(t, err);
  if (status == PZ_OK) status = make_finders(t, like, pool, times, err);
  if (status == PZ_OK)
    *out = &t->base;
  else
    free_training(&t->base);
  return status;
}

struct pz_product_times *pz_training_times(const struct pz_evaluator *e, unsigned worker) {
  return ((const struct training *)e)->times[worker];
}

const struct pz_training_question *pz_training_asked(const struct pz_evaluator *e) {
  return &((const struct training *)e)->q;
}

/* ---- values and bounds ---------------------------------------------------------------------- */

static struct pz_plan_finder *finder_of(struct training *t, unsigned worker, uint32_t model) {
  return t->finder[(size_t)worker * t->q.n_models + model];
}

/* Do its buffers hold a tile? */
static bool holds_tiles(const struct pz_chip *c) {
  return c->tensor.local_bytes >= pz_chip_least_local_bytes(c) &&
         c->glb_bytes >= pz_chip_least_glb_bytes(c);
}

/* Products have nested mappings (cost/mapper.h), as chips of a space say; more of any resource has more of them, none
 * slower: the largest chip of a box bounds all.  Their relaxation is tried first: it often is enough for a bound. */
static enum pz_status bound(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *b,
                            uint32_t model, int level, double enough_s, double *step_s,
                            struct pz_error *err) {
  struct training *t = of(e);
  struct pz_cluster net = pz_training_cluster(&t->q, &b->hi);
  struct pz_plan_finder *f = finder_of(t, worker, model);
  if (!holds_tiles(&b->hi)) return *step_s = HUGE_VAL, PZ_OK;
  return level ? pz_plan_finder_bound_s(f, &b->hi, &net, enough_s, step_s, err)
               : pz_plan_finder_floor_s(f, &b->hi, &net, enough_s, step_s, err);
}

/* The energy of any chip of a box is at least static_watts of the smallest, which area and clock raise, times a lower bound
 * on the step of the largest, plus this: what must be computed, at the voltage of the slowest clock, and moved past the
 * largest global buffer. */
static enum pz_status least_j(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *b,
                              uint32_t model, double *joules, struct pz_error *err) {
  return pz_plan_finder_least_j(finder_of(of(e), worker, model), &b->hi, b->least.voltage2, joules,
                                err);
}

static enum pz_status estimate(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *b,
                               uint32_t model, double *step_s, struct pz_error *err) {
  struct training *t = of(e);
  struct pz_cluster net = pz_training_cluster(&t->q, &b->hi);
  if (!holds_tiles(&b->hi)) return *step_s = HUGE_VAL, PZ_OK;
  return pz_plan_finder_again_s(finder_of(t, worker, model), &b->hi, &net, step_s, err);
}

static enum pz_status find(struct training *t, unsigned worker, const struct pz_chip *chip,
                           uint32_t model, double limit_s, struct pz_found_plans *out,
                           double *least_s, struct pz_error *err) {
  struct pz_cluster net = pz_training_cluster(&t->q, chip);
  *out = (struct pz_found_plans){.n = 0};
  if (!holds_tiles(chip)) return PZ_OK;
  return pz_plan_finder_find(finder_of(t, worker, model), chip, &net, limit_s, out, least_s, err);
}

static enum pz_status plan_j(struct training *t, unsigned worker, const struct pz_chip *chip,
                             uint32_t model, const struct pz_found_plan *found, double *dynamic_j,
                             struct pz_error *err) {
  struct pz_cluster net = pz_training_cluster(&t->q, chip);
  return pz_plan_finder_plan_j(finder_of(t, worker, model), chip, &net, &found->plan,
                               found->p.params, dynamic_j, err);
}

static enum pz_status value(struct pz_evaluator *e, unsigned worker, const struct pz_boxed *chip,
                            uint32_t model, enum pz_effort effort, double limit_s,
                            struct pz_evaluation *out, struct pz_error *err) {
  struct pz_found_plans found;
  double least_s = limit_s;
  enum pz_status status = find(of(e), worker, &chip->lo, model, limit_s, &found, &least_s, err);
  if (status != PZ_OK) return status;
  *out = (struct pz_evaluation){.effort = limit_s < HUGE_VAL ? PZ_EFFORT_NONE : effort,
                                .step_s = HUGE_VAL,
                                .least_s = limit_s};
  if (!found.n) return PZ_OK;
  out->effort = effort;
  out->step_s = found.list[0].p.step_s;
  out->least_s = least_s;
  out->n_open = least_s < out->step_s;
  return plan_j(of(e), worker, &chip->lo, model, &found.list[0], &out->dynamic_j, err);
}

/* By a search of its own: the finders know chips of one class. */
static enum pz_status plan_elsewhere(struct training *t, unsigned worker,
                                     const struct pz_chip *chip, uint32_t model,
                                     struct pz_found_plan *out, double *dynamic_j, bool *fits,
                                     struct pz_error *err) {
  struct pz_cluster net = pz_training_cluster(&t->q, chip);
  struct pz_plan_question one;
  struct pz_found_plans found = {.n = 0};
  struct pz_step_energy energy = {0};
  pz_arena_release(&t->plans[worker]);
  pz_arena_init(&t->plans[worker], NULL);
  enum pz_status status = pz_training_plan_question(&t->q, model, chip, &net, &one, err);
  if (status == PZ_OK) status = pz_plan_search(&one, &t->plans[worker], &found, err);
  *fits = status == PZ_OK && found.n;
  if (!*fits) return status;
  *out = found.list[0];
  status = pz_step_energy(&one.job, &out->plan, &out->p, &energy, err);
  return *dynamic_j = energy.dynamic_j, status;
}

enum pz_status pz_training_plan(struct pz_evaluator *e, unsigned worker, const struct pz_chip *chip,
                                uint32_t model, struct pz_found_plan *out, double *dynamic_j,
                                bool *fits, struct pz_error *err) {
  struct pz_found_plans found;
  double least_s;
  if (chip->execution != PZ_CHIP_SCHEDULED)
    return plan_elsewhere(of(e), worker, chip, model, out, dynamic_j, fits, err);
  enum pz_status status = find(of(e), worker, chip, model, HUGE_VAL, &found, &least_s, err);
  *fits = status == PZ_OK && found.n;
  if (!*fits) return status;
  *out = found.list[0];
  return plan_j(of(e), worker, chip, model, out, dynamic_j, err);
}

static const struct pz_evaluator_ops ops = {.name = "training",
                                            .cheap = true,
                                            .free = free_training,
                                            .bound = bound,
                                            .least_j = least_j,
                                            .estimate = estimate,
                                            .value = value};
