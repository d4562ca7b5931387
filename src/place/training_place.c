/* The best plans of a training run, for programs: options checked, the search, and each plan it found predicted with its
 * detail; and where nothing fits, what would have to change. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/held.h"
#include "core/num.h"
#include "core/status.h"
#include "core/text.h"
#include "cost/constants.h"
#include "place/plan_question.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"
#include "step/prediction.h"

struct pz_training_place_options pz_training_place_options_default(void) {
  struct pz_training_place_options o = {.size = sizeof o,
                                        .plan = pz_plan_default(),
                                        .top = 1,
                                        .risk = PZ_RISK_COUNTED,
                                        .seconds = PZ_PLAN_SECONDS};
  o.plan.devices = o.plan.batch = 1;
  return o;
}

/* ---- the question --------------------------------------------------------------------------- */

/* Pins that no plan can have together. */
static enum pz_status check_pins(const struct pz_training_place_options *o, struct pz_error *err) {
  const struct pz_plan *p = &o->plan;
  uint64_t searched = pz_plan_searched();
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    if (!(o->pinned >> f & 1)) continue;
    if (!(searched >> f & 1))
      return pz_fail(err, PZ_BAD_USE, "%s is pinned; it is the same in every plan",
                     pz_plan_field((enum pz_plan_field)f)->name);
    if (pz_plan_is_unset(p, (enum pz_plan_field)f))
      return pz_fail(err, PZ_BAD_USE, "%s is pinned, and unset; accepted: a value",
                     pz_plan_field((enum pz_plan_field)f)->name);
  }
  if (p->stage_recompute)
    return pz_fail(err, PZ_BAD_USE,
                   "stage_recompute; accepted: recompute full, place finds the "
                   "layers of each stage");
  uint64_t pins = o->pinned;
  int64_t tp = pins & PZ_PLAN_PIN(TP) ? p->tp : 1, pp = pins & PZ_PLAN_PIN(PP) ? p->pp : 1,
          dp = pins & PZ_PLAN_PIN(DP) ? p->dp : 1, mbs = pins & PZ_PLAN_PIN(MBS) ? p->mbs : 1;
  if (pins & PZ_PLAN_PIN(VPP) && pins & PZ_PLAN_PIN(PP) && p->vpp > 1 && p->pp == 1)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
                   (long long)p->vpp);
  if ((double)tp * (double)pp * (double)dp > (double)p->devices)
    return pz_fail(err, PZ_BAD_USE,
                   "tp %lld x pp %lld x dp %lld with %lld devices; accepted: at most that",
                   (long long)tp, (long long)pp, (long long)dp, (long long)p->devices);
  if (p->batch % mbs || p->batch / mbs % dp)
    return pz_fail(
        err, PZ_BAD_USE,
        "a batch of %lld is not divided by mbs %lld x dp %lld; accepted: a multiple of these",
        (long long)p->batch, (long long)mbs, (long long)dp);
  return PZ_OK;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static enum pz_status detail(const struct pz_plan_question *q, const struct pz_found_plan *found,
                             bool events, struct pz_training_run **out, struct pz_error *err) {
  struct pz_plan p = found->plan;
  if (!p.zero) p.shard = 0; /* nothing is sharded: it need not divide the replicas */
  enum pz_status status =
      pz_training_predict(q->job.model, q->job.chip, q->job.net, &p, events, out, err);
  if (status == PZ_OK) assert((*out)->p.step_s == found->p.step_s);
  return status;
}

static bool same_plan(const struct pz_found_plan *a, const struct pz_found_plan *b) {
  return a->p.step_s == b->p.step_s && a->p.peak_bytes == b->p.peak_bytes &&
         a->plan.tp == b->plan.tp && pz_plan_cp(&a->plan) == pz_plan_cp(&b->plan) &&
         a->plan.pp == b->plan.pp && a->plan.vpp == b->plan.vpp && a->plan.mbs == b->plan.mbs &&
         pz_plan_ep(&a->plan) == pz_plan_ep(&b->plan) && a->plan.zero == b->plan.zero;
}

/* The chosen one first; then the best of other kinds. */
static enum pz_status detail_all(const struct pz_plan_question *q, const struct pz_found_plans *f,
                                 bool events, struct pz_training_plans *out, struct pz_arena *arena,
                                 struct pz_error *err) {
  enum pz_status status = PZ_OK;
  out->certificate = f->certificate;
  out->experts = f->experts;
  out->late = f->late;
  out->stopped = f->stopped;
  out->runs = pz_arena_alloc(arena, f->n_kinds + 2, sizeof(struct pz_training_run *));
  out->warning = pz_arena_strdup(arena, f->warning);
  if (!out->runs || !out->warning) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  if (!f->n) return f->has_least ? detail(q, &f->least, false, &out->least, err) : PZ_OK;
  status = detail(q, &f->simplest, events, &out->runs[0], err);
  out->n = status == PZ_OK;
  if (status == PZ_OK && !same_plan(&f->simplest, &f->list[0]))
    status = detail(q, &f->list[0], false, &out->fastest, err);
  for (uint32_t i = 0; i < f->n_kinds && status == PZ_OK; i++) {
    status = detail(q, &f->list[f->n + i], false, &out->runs[out->n], err);
    if (status == PZ_OK) out->n++;
  }
  return status;
}

/* ---- what the chosen plan owes to what is switched on ------------------------------------------ */

/* Options of Megatron-LM, torchtitan and DeepSpeed; NULL: none. */
static const struct {
  int overlap;
  const char *name, *core, *titan, *deepspeed;
} overlap_options[] = {
    {PZ_OVERLAP_GRAD, "grad", "--overlap-grad-reduce", NULL, "overlap_comm"},
    {PZ_OVERLAP_PARAM, "param", "--overlap-param-gather", NULL, "stage3_prefetch_bucket_size"},
    {PZ_OVERLAP_TP, "tp", "--tp-comm-overlap", "enable_async_tensor_parallel", NULL},
    {PZ_OVERLAP_P2P, "p2p", NULL, NULL, NULL},
    {PZ_OVERLAP_EP, "ep", "--overlap-moe-expert-parallel-comm",
     "pipeline_parallel_expert_parallel_overlap", NULL}};

/* The step without something, if the framework can run that. */
static enum pz_status add_switched(const struct pz_plan_question *q, struct pz_plan without,
                                   const char *option, struct pz_training_plans *out,
                                   struct pz_error *err) {
  struct pz_prediction p;
  if (!option || !pz_framework_can(&without, NULL, NULL))
    return option ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  enum pz_status status = pz_predict(&q->job, &without, &p, NULL, err);
  if (status == PZ_OK)
    out->switched[out->n_switched++] =
        (struct pz_switched){option, p.step_s / out->runs[0]->p.step_s - 1};
  return status;
}

static enum pz_status find_switched(const struct pz_plan_question *q, struct pz_training_plans *out,
                                    struct pz_arena *arena, struct pz_error *err) {
  enum { OVERLAPS = sizeof overlap_options / sizeof *overlap_options };
  const struct pz_plan *p = &out->runs[0]->plan;
  const struct pz_framework *f = pz_plan_framework(p);
  enum pz_status status = PZ_OK;
  out->switched = pz_arena_alloc(arena, OVERLAPS + 2, sizeof *out->switched);
  if (!out->switched) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  for (size_t i = 0; i < OVERLAPS && status == PZ_OK; i++) {
    int bit = overlap_options[i].overlap;
    const char *flag = f->rules == PZ_RULES_CORE        ? overlap_options[i].core
                       : f->rules == PZ_RULES_TITAN     ? overlap_options[i].titan
                       : f->rules == PZ_RULES_DEEPSPEED ? overlap_options[i].deepspeed
                                                        : NULL;
    struct pz_plan without = *p;
    without.overlap &= ~bit;
    if (!(pz_plan_overlap(p) & bit) || f->plan.overlap & bit) continue;
    status = add_switched(q, without,
                          pz_arena_printf(arena, "overlap %s%s%s%s", overlap_options[i].name,
                                          flag ? " (" : "", flag ? flag : "", flag ? ")" : ""),
                          out, err);
  }
  struct pz_plan alltoall = *p, eager = *p;
  alltoall.dispatcher = (int)f->dispatcher;
  eager.cuda_graphs = 0;
  if (status == PZ_OK && pz_plan_ep(p) > 1 && p->dispatcher != alltoall.dispatcher)
    status = add_switched(q, alltoall,
                          pz_arena_printf(arena, "dispatcher %s (--moe-flex-dispatcher-backend)",
                                          pz_dispatcher_names[p->dispatcher]),
                          out, err);
  if (status == PZ_OK && p->cuda_graphs)
    status = add_switched(q, eager, "cuda_graphs (--cuda-graph-impl transformer_engine)", out, err);
  return status;
}

/* What it would be to leave no device idle. */
static enum pz_status find_all_devices(const struct pz_plan_question *q, struct pz_arena *arena,
                                       struct pz_training_plans *out, struct pz_error *err) {
  struct pz_plan_question all = *q;
  struct pz_found_plans found;
  struct pz_error why = {0};
  if (pz_plan_devices(&out->runs[0]->plan) == q->plan.devices) return PZ_OK;
  all.all_devices = true;
  all.top = 1;
  all.kinds = 0;
  enum pz_status status = pz_plan_search(&all, arena, &found, &why);
  if (status == PZ_NO_MEMORY) return pz_fail(err, status, "%s", why.message);
  return status == PZ_OK && found.n ? detail(q, &found.simplest, false, &out->all_devices, err)
                                    : PZ_OK;
}

static enum pz_status search(const struct pz_job *job, const struct pz_training_place_options *o,
                             struct pz_training_plans *out, struct pz_arena *held,
                             struct pz_error *err) {
  struct pz_cluster wide;
  struct pz_job at = *job;
  struct pz_progress progress;
  atomic_bool stop = false;
  struct pz_plan_question q;
  struct pz_found_plans found;
  struct pz_arena arena;
  char *config = NULL;
  enum pz_status status = pz_cluster_take(job->net, o->plan.devices, &wide, &at.net, err);
  if (status == PZ_OK) status = pz_model_config(job->model, &config, err);
  at.config = config;
  if (status == PZ_OK) status = pz_plan_question_of(&at, &o->plan, o->pinned, &q, err);
  if (status != PZ_OK) return pz_free(config), status;
  q.uniform = o->uniform;
  q.all_devices = o->all_devices;
  q.objective = (enum pz_plan_objective)o->objective;
  q.tie = o->tie;
  q.counted = o->risk == PZ_RISK_COUNTED;
  q.switches = true;
  q.without = o->without;
  if (o->plan.dispatcher >= 0) q.fixed |= PZ_PLAN_PIN(DISPATCHER);
  if (o->plan.cuda_graphs >= 0 || o->plan.execution >= 0) q.fixed |= PZ_PLAN_PIN(CUDA_GRAPHS);
  if (o->plan.overlap < 0) q.plan.overlap = pz_framework_overlaps(q.plan.framework, o->without);
  q.tokens = o->tokens;
  q.deadline_s = o->deadline_s;
  q.kinds = o->top > 1 ? o->top - 1 : 0;
  q.threads = o->threads;
  if (o->seconds > 0) q.end_s = pz_clock_s() + o->seconds;
  if (o->progress) pz_progress_start_call(&progress, o->progress, o->ctx, &stop);
  q.progress = o->progress ? &progress : NULL;
  pz_arena_init(&arena, NULL);
  status = pz_plan_search(&q, &arena, &found, err);
  if (status == PZ_OK) status = detail_all(&q, &found, o->events, out, held, err);
  if (status == PZ_OK && out->n) status = find_switched(&q, out, held, err);
  if (status == PZ_OK && out->n) status = find_all_devices(&q, &arena, out, err);
  pz_arena_release(&arena);
  pz_free(config);
  return status;
}

enum pz_status pz_training_place(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net,
                                 const struct pz_training_place_options *options,
                                 struct pz_training_plans **out, struct pz_error *err) {
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_job job = {.model = model, .chip = chip, .net = net};
  enum pz_status status =
      pz_sized_take(&o, sizeof o, options, "pz_training_place_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {model, "model"}, {out, "out"});
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK) status = pz_plan_check_ranges(&o.plan, err);
  if (status == PZ_OK) status = pz_need_range("devices", o.plan.devices, 1, 1 << 24, err);
  if (status == PZ_OK) status = pz_need_range("batch", o.plan.batch, 1, 1 << 24, err);
  if (status == PZ_OK)
    status = pz_need_range("objective", o.objective, 0, PZ_PLAN_OBJECTIVES - 1, err);
  if (status == PZ_OK) status = pz_need_range("top", o.top, 0, 1000, err);
  if (status == PZ_OK) status = pz_need_range("risk", o.risk, 0, PZ_RISK_NONE, err);
  if (status == PZ_OK) status = check_pins(&o, err);
  if (status == PZ_OK && !(o.seconds >= 0 && o.seconds <= 1e9))
    status = pz_fail(err, PZ_BAD_USE, "seconds %g; accepted: 0 (none) to 1e9", o.seconds);
  if (status != PZ_OK) return status;
  struct pz_arena *arena;
  void *made;
  status = pz_held_new(sizeof **out, "the plans", &made, &arena, err);
  if (status != PZ_OK) return status;
  status = search(&job, &o, made, arena, err);
  if (status == PZ_OK)
    *out = made;
  else
    pz_training_plans_free(made);
  return status;
}

void pz_training_plans_free(struct pz_training_plans *p) {
  if (!p) return;
  for (uint32_t i = 0; i < p->n; i++) pz_training_run_free(p->runs[i]);
  pz_training_run_free(p->fastest);
  pz_training_run_free(p->all_devices);
  pz_training_run_free(p->least);
  pz_held_free(p);
}

/* ---- nothing fits --------------------------------------------------------------------------- */

enum { MOST_TIMES = 64, LEAST_SEQ = 128 };

/* Has a search with these options, begun then, ended without an answer because its time was over? */
static bool was_late(const struct pz_training_place_options *o, double begin_s,
                     enum pz_status status) {
  return status == PZ_NO_ANSWER && o->seconds > 0 && pz_clock_s() > begin_s + o->seconds;
}

/* The question, and the message as it grows. */
struct answer {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *asked;
  bool weak;
  double end_s; /* of all changes together; 0: none */
  bool late;    /* some were not decided by then */
  char changes[560];
  size_t n;
};

/* Does a plan fit with these options?  Then the change is told. */
static enum pz_status try_change(struct answer *a, const struct pz_chip *chip,
                                 const struct pz_training_place_options *options,
                                 const char *change, bool *fits) {
  struct pz_training_place_options o = *options;
  struct pz_training_plans *p = NULL;
  struct pz_error why = {0};
  double begin_s = pz_clock_s();
  *fits = false;
  a->late = a->late || (a->end_s > 0 && begin_s >= a->end_s);
  if (a->late) return PZ_OK;
  if (a->end_s > 0) o.seconds = a->end_s - begin_s;
  enum pz_status status = pz_training_place(a->model, chip, a->net, &o, &p, &why);
  a->late = was_late(&o, begin_s, status);
  *fits = status == PZ_OK && p->n > 0;
  if (*fits) {
    char plan[256];
    int n = snprintf(a->changes + a->n, sizeof a->changes - a->n, "%s%s (%s)", a->n ? "; " : "",
                     change, pz_plan_text(&p->runs[0]->plan, plan, sizeof plan));
    if (n > 0 && (size_t)n < sizeof a->changes - a->n)
      a->n += (size_t)n;
    else
      a->changes[a->n] = 0; /* it is too long */
  }
  pz_training_plans_free(p);
  /* a question without plans is no change */
  return status == PZ_NO_MEMORY || status == PZ_STOPPED ? status : PZ_OK;
}

/* A field that was pinned, searched. */
static enum pz_status try_pins(struct answer *a) {
  enum pz_status status = PZ_OK;
  for (int f = 0; f < PZ_PLAN_FIELDS && status == PZ_OK; f++) {
    struct pz_training_place_options o = *a->asked;
    char change[64], value[PZ_FIELD_TEXT_MOST];
    bool fits;
    if (!(o.pinned >> f & 1)) continue;
    o.pinned &= ~(UINT64_C(1) << f);
    pz_plan_field_text(&o.plan, (enum pz_plan_field)f, value, sizeof value);
    snprintf(change, sizeof change, "without %s %.30s", pz_plan_field((enum pz_plan_field)f)->name,
             value);
    status = try_change(a, a->chip, &o, change, &fits);
  }
  return status;
}

static enum pz_status try_devices(struct answer *a) {
  struct pz_training_place_options o = *a->asked;
  enum pz_status status = PZ_OK;
  bool fits = false;
  for (int64_t times = 2; times <= MOST_TIMES && !fits && status == PZ_OK; times *= 2) {
    char change[48];
    o.plan.devices = a->asked->plan.devices * times;
    if (o.plan.devices > 1 << 24) break;
    if (a->weak) o.plan.batch = a->asked->plan.batch * times;
    snprintf(change, sizeof change, "%" PRId64 " devices", o.plan.devices);
    status = try_change(a, a->chip, &o, change, &fits);
  }
  return status;
}

static enum pz_status try_hbm(struct answer *a, double least_bytes) {
  struct pz_chip chip = *a->chip;
  double gib = ceil(pz_hbm_needed(a->chip, &pz_constants_default, least_bytes) / 0x1p30);
  char change[48];
  bool fits;
  chip.hbm.bytes_per_stack = (int64_t)ceil(gib * 0x1p30 / (double)chip.hbm.stacks);
  snprintf(change, sizeof change, "%.0f GiB of HBM", gib);
  return try_change(a, &chip, a->asked, change, &fits);
}

static enum pz_status try_seq(struct answer *a, int64_t seq) {
  struct pz_training_place_options o = *a->asked;
  enum pz_status status = PZ_OK;
  bool fits = false;
  for (o.plan.seq = seq / 2; o.plan.seq >= LEAST_SEQ && !fits && status == PZ_OK; o.plan.seq /= 2) {
    char change[48];
    snprintf(change, sizeof change, "%" PRId64 " tokens a sample", o.plan.seq);
    status = try_change(a, a->chip, &o, change, &fits);
  }
  return status;
}

static const struct pz_part_info *largest_part(const struct pz_training_memory *m) {
  const struct pz_part_info *most = NULL, *part;
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++)
    if (!most || pz_memory_part(m, part) > pz_memory_part(m, most)) most = part;
  return most;
}

/* Weights that could be divided further, if the framework did. */
static const char *framework_note(const struct pz_training_run *r) {
  struct pz_plan sharded = r->plan;
  sharded.zero = 3;
  return r->plan.pp > 1 && r->plan.zero < 2 && !pz_framework_can(&sharded, NULL, NULL)
             ? "; this framework has ZeRO 2 and 3 only without pipeline stages"
             : "";
}

static enum pz_status tell_changes(const struct answer *a, const struct pz_training_run *r,
                                   struct pz_error *err) {
  const struct pz_part_info *part = largest_part(&r->p.peak);
  char name[120], plan[256];
  return pz_fail(err, PZ_NO_ANSWER,
                 "no plan of %s fits on %" PRId64
                 " x %s: the least is at most %.1f GB a device of %.1f GB usable "
                 "(%s), most of it %s, %.1f GB%s. Fits with: %s%s",
                 pz_text_plain(pz_text_copy(name, sizeof name, a->model)), a->asked->plan.devices,
                 a->chip->name, r->p.needed_bytes / 1e9, r->p.usable_bytes / 1e9,
                 pz_plan_text(&r->plan, plan, sizeof plan), part->label,
                 pz_memory_part(&r->p.peak, part) / 1e9, framework_note(r),
                 a->n      ? a->changes
                 : a->late ? "no change that was tried"
                           : "no single change of devices, HBM or sequence length",
                 a->late ? "; the time was over before all changes were tried" : "");
}

enum pz_status pz_training_nothing_fits(const char *model, const struct pz_chip *chip,
                                        const struct pz_cluster *net,
                                        const struct pz_training_place_options *options, bool weak,
                                        const struct pz_training_plans *p, struct pz_error *err) {
  struct pz_training_place_options o = pz_training_place_options_default();
  struct answer a = {.model = model, .chip = chip, .net = net, .asked = &o, .weak = weak};
  enum pz_status status =
      pz_sized_take(&o, sizeof o, options, "pz_training_place_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {model, "model"}, {chip, "chip"}, {p, "plans"});
  if (status == PZ_OK && p->n) status = pz_fail(err, PZ_BAD_USE, "a plan fits");
  if (status == PZ_OK && !p->least && p->certificate.by_memory)
    return pz_fail(err, PZ_NO_ANSWER,
                   "no plan has what offload asks for within the host's memory, %.1f GB usable for "
                   "each device; accepted: less of it",
                   pz_usable_host_bytes(chip, &pz_constants_default) / 1e9);
  if (status == PZ_OK && !p->least)
    status = pz_fail(err, PZ_BAD_USE,
                     "no plan has these degrees on %" PRId64 " devices with a batch of %" PRId64
                     "; accepted: vpp whose chunks divide the layers, with microbatches that "
                     "stages divide, and a ZeRO stage that the framework has",
                     o.plan.devices, o.plan.batch);
  o.tie = 0; /* any plan that fits will do */
  if (o.seconds > 0) a.end_s = pz_clock_s() + o.seconds;
  if (status == PZ_OK) status = try_pins(&a);
  if (status == PZ_OK) status = try_devices(&a);
  if (status == PZ_OK) status = try_hbm(&a, p->least->p.needed_bytes);
  if (status == PZ_OK && !a.n) status = try_seq(&a, p->least->plan.seq);
  if (status == PZ_NO_MEMORY) return pz_fail(err, status, "out of memory for the plans");
  if (status == PZ_STOPPED) return pz_fail(err, status, "stopped");
  return status == PZ_OK ? tell_changes(&a, p->least, err) : status;
}

/* ---- scaling -------------------------------------------------------------------------------- */

/* Idle devices are paid for: they count. */
static void rate_row(struct pz_scaling_row *x) {
  x->run = x->plans->n ? x->plans->runs[0] : NULL;
  if (x->run) x->tokens_per_s_per_device = x->run->p.tokens / x->run->p.step_s / (double)x->devices;
}

static enum pz_status scale_row(const struct pz_job *job, const struct pz_training_place_options *o,
                                int64_t batch_per_device, struct pz_scaling_row *x,
                                struct pz_error *err) {
  struct pz_training_place_options at = *o;
  struct pz_error why = {0};
  struct pz_arena *arena;
  void *none;
  double begin_s = pz_clock_s();
  at.plan.devices = x->devices;
  if (batch_per_device) at.plan.batch = batch_per_device * x->devices;
  x->batch = at.plan.batch;
  enum pz_status status = pz_training_place(job->model, job->chip, job->net, &at, &x->plans, &why);
  if (status == PZ_STOPPED) return pz_fail(err, status, "%s", why.message);
  if (was_late(&at, begin_s, status)) { /* a row without plans, the others have theirs */
    status = pz_held_new(sizeof *x->plans, "the plans", &none, &arena, err);
    if (status != PZ_OK) return status;
    x->plans = none;
    x->plans->stopped = true;
    return PZ_OK;
  }
  if (status != PZ_OK)
    return pz_fail(err, status, "%lld device%s: %s", (long long)x->devices,
                   pz_text_s((double)x->devices), why.message);
  rate_row(x);
  return PZ_OK;
}

enum pz_status pz_training_scale(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net,
                                 const struct pz_training_place_options *options,
                                 const struct pz_choices *devices, int64_t batch_per_device,
                                 struct pz_scaling **out, struct pz_error *err) {
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_job job = {.model = model, .chip = chip, .net = net};
  struct pz_arena *arena;
  void *made = NULL;
  double first = 0;
  enum pz_status status =
      pz_sized_take(&o, sizeof o, options, "pz_training_place_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {devices, "devices"}, {out, "out"});
  if (status == PZ_OK) status = pz_need_range("devices", devices->n, 1, PZ_CHOICES_MOST, err);
  if (status == PZ_OK)
    status = pz_need_range("batch_per_device", batch_per_device, 0, 1 << 24, err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the plans", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_scaling *s = made;
  s->weak = batch_per_device > 0;
  s->rows = pz_arena_alloc(arena, (size_t)devices->n, sizeof *s->rows);
  if (!s->rows) status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  for (int i = 0; i < devices->n && status == PZ_OK; i++) {
    struct pz_scaling_row *x = &s->rows[s->n_rows++];
    x->devices = devices->v[i];
    status = scale_row(&job, &o, batch_per_device, x, err);
    if (status == PZ_STOPPED && i > 0) { /* rows until then are an answer */
      s->n_rows--;
      if (err) *err = (struct pz_error){0};
      status = PZ_OK;
      break;
    }
    if (!(first > 0)) first = x->tokens_per_s_per_device;
    if (first > 0) x->efficiency = x->tokens_per_s_per_device / first;
  }
  const struct pz_training_plans *last =
      s->n_rows && status == PZ_OK ? s->rows[s->n_rows - 1].plans : NULL;
  if (last && !(first > 0) && last->stopped)
    status = pz_fail(err, PZ_NO_ANSWER,
                     "the time was over before a plan was found that fits; accepted: more seconds");
  else if (last && !(first > 0))
    status = pz_training_nothing_fits(model, chip, net, &o, s->weak, last, err);
  if (status == PZ_OK)
    *out = s;
  else
    pz_scaling_free(s);
  return status;
}

void pz_scaling_free(struct pz_scaling *s) {
  for (uint32_t i = 0; s && i < s->n_rows; i++) pz_training_plans_free(s->rows[i].plans);
  pz_held_free(s);
}
