/* The best plans of a training run, for programs.
 *
 * pz_training_place() checks the options, searches the plans (search_and_predict) and predicts each plan that it returns
 * with its detail.  pz_training_nothing_fits() explains why no plan fits, and tries which single changes of the question
 * would have one.  pz_training_scale() repeats the search for several numbers of devices. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/call.h"
#include "core/num.h"
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

/* Raises an error for pinned fields that no plan can have together. */
static void check_pins(struct pz_call *call, const struct pz_training_place_options *o) {
  const struct pz_plan *p = &o->plan;
  uint64_t pins = o->pinned, searched = pz_plan_searched();
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    if (!(pins >> i & 1)) continue;
    if (!(searched >> i & 1))
      pz_raise(call, PZ_BAD_USE, "%s is pinned; it is the same in every plan",
               pz_plan_field(f)->name);
    if (pz_plan_is_unset(p, f))
      pz_raise(call, PZ_BAD_USE, "%s is pinned, and unset; accepted: a value",
               pz_plan_field(f)->name);
  }
  if (p->stage_recompute)
    pz_raise(call, PZ_BAD_USE,
             "stage_recompute; accepted: recompute full, place finds the layers of each stage");
  int64_t tp = pins & PZ_PLAN_PIN(TP) ? p->tp : 1, pp = pins & PZ_PLAN_PIN(PP) ? p->pp : 1;
  int64_t dp = pins & PZ_PLAN_PIN(DP) ? p->dp : 1, mbs = pins & PZ_PLAN_PIN(MBS) ? p->mbs : 1;
  if (pins & PZ_PLAN_PIN(VPP) && pins & PZ_PLAN_PIN(PP) && p->vpp > 1 && p->pp == 1)
    pz_raise(call, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
             (long long)p->vpp);
  if ((double)tp * (double)pp * (double)dp > (double)p->devices)
    pz_raise(call, PZ_BAD_USE,
             "tp %lld x pp %lld x dp %lld with %lld devices; accepted: at most that", (long long)tp,
             (long long)pp, (long long)dp, (long long)p->devices);
  if (p->batch % mbs || p->batch / mbs % dp)
    pz_raise(call, PZ_BAD_USE,
             "a batch of %lld is not divided by mbs %lld x dp %lld; accepted: a multiple of these",
             (long long)p->batch, (long long)mbs, (long long)dp);
}

/* Makes the question of the options.  Texts and the network live as long as the call and `wide`. */
static struct pz_plan_question place_question(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_training_place_options *o,
                                              struct pz_cluster *wide) {
  struct pz_job on = *job;
  on.net = pz_cluster_widen(call, job->net, o->plan.devices, wide);
  on.config = pz_read_model_config(call, job->model);
  struct pz_plan_question q = pz_plan_question_make(call, &on, &o->plan, o->pinned);
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
  return q;
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* Predicts a plan that was found, with its detail. */
static struct pz_training_run *predict_found(struct pz_call *call, const struct pz_plan_question *q,
                                             const struct pz_found_plan *found, bool events) {
  struct pz_training_run *run = NULL;
  struct pz_plan p = found->plan;
  if (!p.zero) p.shard = 0; /* nothing is sharded, so that it need not divide the replicas */
  pz_must(call, pz_training_predict(q->job.model, q->job.chip, q->job.net, &p, events, &run,
                                    pz_call_error(call)));
  assert(run->p.step_s == found->p.step_s);
  return run;
}

static bool same_plan(const struct pz_found_plan *a, const struct pz_found_plan *b) {
  return a->p.step_s == b->p.step_s && a->p.peak_bytes == b->p.peak_bytes &&
         a->plan.tp == b->plan.tp && pz_plan_cp(&a->plan) == pz_plan_cp(&b->plan) &&
         a->plan.pp == b->plan.pp && a->plan.vpp == b->plan.vpp && a->plan.mbs == b->plan.mbs &&
         pz_plan_ep(&a->plan) == pz_plan_ep(&b->plan) && a->plan.zero == b->plan.zero;
}

/* Predicts the simplest of the best plans, then the best plans of other kinds. */
static void predict_all_found(struct pz_call *call, struct pz_call *own,
                              const struct pz_plan_question *q, const struct pz_found_plans *f,
                              bool events, struct pz_training_plans *out) {
  out->certificate = f->certificate;
  out->experts = f->experts;
  out->late = f->late;
  out->stopped = f->stopped;
  out->runs = pz_alloc(own, f->n_kinds + 2, sizeof(struct pz_training_run *));
  out->warning = pz_copy_text(own, f->warning);
  if (!f->n) {
    if (f->has_least) out->least = predict_found(call, q, &f->least, false);
    return;
  }
  out->runs[0] = predict_found(call, q, &f->simplest, events);
  out->n = 1;
  if (!same_plan(&f->simplest, &f->list[0]))
    out->fastest = predict_found(call, q, &f->list[0], false);
  for (uint32_t i = 0; i < f->n_kinds; i++) {
    out->runs[out->n] = predict_found(call, q, &f->list[f->n + i], false);
    out->n++;
  }
}

/* ---- what the chosen plan owes to options that are switched on ------------------------------ */

/* The options of Megatron-LM, torchtitan and DeepSpeed for an overlap, or NULL. */
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

/* Adds how much longer the step is without an option, if the framework can run that. */
static void add_switched(struct pz_call *call, const struct pz_plan_question *q,
                         const struct pz_plan *without, const char *option,
                         struct pz_training_plans *out) {
  if (!pz_framework_can_run(without, NULL, NULL)) return;
  struct pz_prediction p = pz_predict(call, &q->job, without, NULL);
  out->switched[out->n_switched++] =
      (struct pz_switched){option, p.step_s / out->runs[0]->p.step_s - 1};
}

static void find_switched(struct pz_call *call, struct pz_call *own,
                          const struct pz_plan_question *q, struct pz_training_plans *out) {
  enum { OVERLAPS = sizeof overlap_options / sizeof *overlap_options };
  const struct pz_plan *p = &out->runs[0]->plan;
  const struct pz_framework *f = pz_plan_framework(p);
  out->switched = pz_alloc(own, OVERLAPS + 2, sizeof *out->switched);
  for (size_t i = 0; i < OVERLAPS; i++) {
    int overlap = overlap_options[i].overlap;
    const char *name = overlap_options[i].name, *flag = NULL;
    struct pz_plan without = *p;
    without.overlap &= ~overlap;
    bool is_default = f->plan.overlap & overlap;
    if (!(pz_plan_effective_overlap(p) & overlap) || is_default) continue;
    if (f->rules == PZ_RULES_CORE) flag = overlap_options[i].core;
    if (f->rules == PZ_RULES_TITAN) flag = overlap_options[i].titan;
    if (f->rules == PZ_RULES_DEEPSPEED) flag = overlap_options[i].deepspeed;
    add_switched(call, q, &without,
                 flag ? pz_format(own, "overlap %s (%s)", name, flag)
                      : pz_format(own, "overlap %s", name),
                 out);
  }
  struct pz_plan alltoall = *p, eager = *p;
  alltoall.dispatcher = (int)f->dispatcher;
  eager.cuda_graphs = 0;
  if (pz_plan_ep(p) > 1 && p->dispatcher != alltoall.dispatcher)
    add_switched(call, q, &alltoall,
                 pz_format(own, "dispatcher %s (--moe-flex-dispatcher-backend)",
                           pz_dispatcher_names[p->dispatcher]),
                 out);
  if (p->cuda_graphs)
    add_switched(call, q, &eager, "cuda_graphs (--cuda-graph-impl transformer_engine)", out);
}

/* ---- the search ----------------------------------------------------------------------------- */

struct all_devices_search {
  const struct pz_plan_question *q;
  struct pz_training_plans *out;
};

/* If the chosen plan leaves devices idle, finds the best plan that does not. */
static void find_all_devices(struct pz_call *call, void *ctx) {
  struct all_devices_search *search = ctx;
  struct pz_plan_question all = *search->q;
  all.all_devices = true;
  all.top = 1;
  all.kinds = 0;
  const struct pz_found_plans *found = pz_find_plans(call, &all);
  if (found->n) search->out->all_devices = predict_found(call, &all, &found->simplest, false);
}

static void search_and_predict(struct pz_call *call, struct pz_call *own, const struct pz_job *job,
                               const struct pz_training_place_options *o,
                               struct pz_training_plans *out) {
  struct pz_cluster wide;
  struct pz_progress progress;
  struct pz_error err = {0};
  atomic_bool stop = false;
  struct pz_plan_question q = place_question(call, job, o, &wide);
  if (o->progress) pz_progress_start_call(&progress, o->progress, o->ctx, &stop);
  q.progress = o->progress ? &progress : NULL;
  const struct pz_found_plans *found = pz_find_plans(call, &q);
  predict_all_found(call, own, &q, found, o->events, out);
  if (!out->n) return;
  find_switched(call, own, &q, out);
  if (pz_plan_devices(&out->runs[0]->plan) == q.plan.devices) return;
  /* the answer is complete without the plan on all devices, so that other errors do not matter */
  struct all_devices_search search = {&q, out};
  if (pz_border(find_all_devices, &search, &err) == PZ_NO_MEMORY) pz_raise_again(call, &err);
}

struct place_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *options;
  struct pz_training_plans **out;
};

/* Frees the runs of an answer; a pz_close_fn. */
static void free_runs(void *plans) {
  struct pz_training_plans *p = plans;
  for (uint32_t i = 0; i < p->n; i++) pz_training_run_free(p->runs[i]);
  pz_training_run_free(p->fastest);
  pz_training_run_free(p->all_devices);
  pz_training_run_free(p->least);
}

static void check_and_place(struct pz_call *call, void *ctx) {
  struct place_args *x = ctx;
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_job job = {.model = x->model, .chip = x->chip, .net = x->net};
  struct pz_call own;
  pz_require_options(call, &o, sizeof o, x->options, "pz_training_place_options_default");
  pz_require(call, x->model, "model");
  pz_require(call, x->out, "out");
  pz_chip_check(call, x->chip);
  pz_require_plan_ranges(call, &o.plan);
  pz_require_range(call, "devices", o.plan.devices, 1, 1 << 24);
  pz_require_range(call, "batch", o.plan.batch, 1, 1 << 24);
  pz_require_range(call, "objective", o.objective, 0, PZ_PLAN_OBJECTIVES - 1);
  pz_require_range(call, "top", o.top, 0, 1000);
  pz_require_range(call, "risk", o.risk, 0, PZ_RISK_NONE);
  check_pins(call, &o);
  if (!(o.seconds >= 0 && o.seconds <= 1e9))
    pz_raise(call, PZ_BAD_USE, "seconds %g; accepted: 0 (none) to 1e9", o.seconds);
  struct pz_training_plans *out = pz_object_new(call, sizeof *out, &own);
  pz_defer(call, free_runs, out);
  search_and_predict(call, &own, &job, &o, out);
  pz_undefer(call, out); /* free_runs */
  *x->out = pz_object_keep(call, out);
}

enum pz_status pz_training_place(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net,
                                 const struct pz_training_place_options *options,
                                 struct pz_training_plans **out, struct pz_error *err) {
  struct place_args x = {model, chip, net, options, out};
  return pz_border(check_and_place, &x, err);
}

void pz_training_plans_free(struct pz_training_plans *p) {
  if (p) free_runs(p);
  pz_object_free(p);
}

/* ---- nothing fits --------------------------------------------------------------------------- */

enum { MAX_DEVICES_FACTOR = 64, MIN_SEQ = 128 };

/* Whether a search with these options, begun at begin_s, ended without an answer because its time was over. */
static bool ran_out_of_time(const struct pz_training_place_options *o, double begin_s,
                            enum pz_status status) {
  return status == PZ_NO_ANSWER && o->seconds > 0 && pz_clock_s() > begin_s + o->seconds;
}

/* A question without a plan that fits, and a list of the changes with which one does. */
struct misfit {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *asked;
  bool weak;         /* the batch grows with the devices */
  double end_s;      /* time limit of all changes together; 0: none */
  bool out_of_time;  /* some changes were not decided before it */
  char changes[560]; /* text */
  size_t n;          /* its length */
};

/* Searches a plan with these options.  Returns whether one fits; then the change is appended to the text. */
static bool try_change(struct pz_call *call, struct misfit *m, const struct pz_chip *chip,
                       const struct pz_training_place_options *options, const char *change) {
  struct pz_training_place_options o = *options;
  struct pz_training_plans *plans = NULL;
  struct pz_error why = {0};
  double begin_s = pz_clock_s();
  m->out_of_time = m->out_of_time || (m->end_s > 0 && begin_s >= m->end_s);
  if (m->out_of_time) return false;
  if (m->end_s > 0) o.seconds = m->end_s - begin_s;
  enum pz_status status = pz_training_place(m->model, chip, m->net, &o, &plans, &why);
  if (status == PZ_NO_MEMORY || status == PZ_STOPPED) pz_raise_again(call, &why);
  m->out_of_time = ran_out_of_time(&o, begin_s, status);
  bool fits = status == PZ_OK && plans->n > 0; /* other errors: the changed question has no plan */
  if (fits) {
    char plan[256];
    int n = snprintf(m->changes + m->n, sizeof m->changes - m->n, "%s%s (%s)", m->n ? "; " : "",
                     change, pz_plan_text(&plans->runs[0]->plan, plan, sizeof plan));
    bool has_room = n > 0 && (size_t)n < sizeof m->changes - m->n;
    if (has_room)
      m->n += (size_t)n;
    else
      m->changes[m->n] = 0;
  }
  pz_training_plans_free(plans);
  return fits;
}

/* Searches each pinned field. */
static void try_without_pins(struct pz_call *call, struct misfit *m) {
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    struct pz_training_place_options o = *m->asked;
    char change[64], value[PZ_FIELD_TEXT_MOST];
    if (!(o.pinned >> f & 1)) continue;
    o.pinned &= ~(UINT64_C(1) << f);
    pz_plan_field_text(&o.plan, (enum pz_plan_field)f, value, sizeof value);
    snprintf(change, sizeof change, "without %s %.30s", pz_plan_field((enum pz_plan_field)f)->name,
             value);
    (void)try_change(call, m, m->chip, &o, change);
  }
}

static void try_more_devices(struct pz_call *call, struct misfit *m) {
  struct pz_training_place_options o = *m->asked;
  bool fits = false;
  for (int64_t factor = 2; factor <= MAX_DEVICES_FACTOR && !fits; factor *= 2) {
    char change[48];
    o.plan.devices = m->asked->plan.devices * factor;
    if (o.plan.devices > 1 << 24) break;
    if (m->weak) o.plan.batch = m->asked->plan.batch * factor;
    snprintf(change, sizeof change, "%" PRId64 " devices", o.plan.devices);
    fits = try_change(call, m, m->chip, &o, change);
  }
}

static void try_more_hbm(struct pz_call *call, struct misfit *m, double least_bytes) {
  struct pz_chip chip = *m->chip;
  double gib = ceil(pz_hbm_needed(m->chip, &pz_constants_default, least_bytes) / 0x1p30);
  char change[48];
  chip.hbm.bytes_per_stack = (int64_t)ceil(gib * 0x1p30 / (double)chip.hbm.stacks);
  snprintf(change, sizeof change, "%.0f GiB of HBM", gib);
  (void)try_change(call, m, &chip, m->asked, change);
}

static void try_shorter_samples(struct pz_call *call, struct misfit *m, int64_t seq) {
  struct pz_training_place_options o = *m->asked;
  bool fits = false;
  for (o.plan.seq = seq / 2; o.plan.seq >= MIN_SEQ && !fits; o.plan.seq /= 2) {
    char change[48];
    snprintf(change, sizeof change, "%" PRId64 " tokens a sample", o.plan.seq);
    fits = try_change(call, m, m->chip, &o, change);
  }
}

/* Raises the error that says what lacks memory, and with which changes a plan fits. */
_Noreturn static void raise_misfit(struct pz_call *call, const struct misfit *m,
                                   const struct pz_training_run *r) {
  const struct pz_part_info *largest = NULL, *part;
  char name[120], plan[256];
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++)
    if (!largest || pz_memory_part(&r->p.peak, part) > pz_memory_part(&r->p.peak, largest))
      largest = part;
  struct pz_plan zero_3 = r->plan;
  zero_3.zero = 3;
  bool cannot_shard =
      r->plan.pp > 1 && r->plan.zero < 2 && !pz_framework_can_run(&zero_3, NULL, NULL);
  const char *changes = m->changes;
  if (!m->n && m->out_of_time) changes = "no change that was tried";
  if (!m->n && !m->out_of_time) changes = "no single change of devices, HBM or sequence length";
  pz_raise(call, PZ_NO_ANSWER,
           "no plan of %s fits on %" PRId64
           " x %s: the least is at most %.1f GB a device of %.1f GB usable "
           "(%s), most of it %s, %.1f GB%s. Fits with: %s%s",
           pz_text_plain(pz_text_copy(name, sizeof name, m->model)), m->asked->plan.devices,
           m->chip->name, r->p.needed_bytes / 1e9, r->p.usable_bytes / 1e9,
           pz_plan_text(&r->plan, plan, sizeof plan), largest->label,
           pz_memory_part(&r->p.peak, largest) / 1e9,
           cannot_shard ? "; this framework has ZeRO 2 and 3 only without pipeline stages" : "",
           changes, m->out_of_time ? "; the time was over before all changes were tried" : "");
}

struct misfit_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *options;
  bool weak;
  const struct pz_training_plans *plans;
};

/* Explains why no plan fits; always raises. */
static void explain_misfit(struct pz_call *call, void *ctx) {
  const struct misfit_args *x = ctx;
  struct pz_training_place_options o = pz_training_place_options_default();
  const struct pz_training_plans *p = x->plans;
  struct misfit m = {
      .model = x->model, .chip = x->chip, .net = x->net, .asked = &o, .weak = x->weak};
  pz_require_options(call, &o, sizeof o, x->options, "pz_training_place_options_default");
  pz_require(call, x->model, "model");
  pz_require(call, x->chip, "chip");
  pz_require(call, p, "plans");
  if (p->n) pz_raise(call, PZ_BAD_USE, "a plan fits");
  if (!p->least && p->certificate.by_memory)
    pz_raise(call, PZ_NO_ANSWER,
             "no plan has what offload asks for within the host's memory, %.1f GB usable for "
             "each device; accepted: less of it",
             pz_usable_host_bytes(x->chip, &pz_constants_default) / 1e9);
  if (!p->least)
    pz_raise(call, PZ_BAD_USE,
             "no plan has these degrees on %" PRId64 " devices with a batch of %" PRId64
             "; accepted: vpp whose chunks divide the layers, with microbatches that "
             "stages divide, and a ZeRO stage that the framework has",
             o.plan.devices, o.plan.batch);
  o.tie = 0; /* any plan that fits is sufficient */
  if (o.seconds > 0) m.end_s = pz_clock_s() + o.seconds;
  try_without_pins(call, &m);
  try_more_devices(call, &m);
  try_more_hbm(call, &m, p->least->p.needed_bytes);
  if (!m.n) try_shorter_samples(call, &m, p->least->plan.seq);
  raise_misfit(call, &m, p->least);
}

enum pz_status pz_training_nothing_fits(const char *model, const struct pz_chip *chip,
                                        const struct pz_cluster *net,
                                        const struct pz_training_place_options *options, bool weak,
                                        const struct pz_training_plans *p, struct pz_error *err) {
  struct misfit_args x = {model, chip, net, options, weak, p};
  return pz_border(explain_misfit, &x, err);
}

/* ---- scaling -------------------------------------------------------------------------------- */

/* Finds the best plan for the row's number of devices.  A row without plans whose time was over does not end the others.
 * Returns false if the search was stopped. */
static bool scale_row(struct pz_call *call, const struct pz_job *job,
                      const struct pz_training_place_options *o, int64_t batch_per_device,
                      struct pz_scaling_row *row, struct pz_error *why) {
  struct pz_training_place_options at = *o;
  double begin_s = pz_clock_s();
  at.plan.devices = row->devices;
  if (batch_per_device) at.plan.batch = batch_per_device * row->devices;
  row->batch = at.plan.batch;
  enum pz_status status = pz_training_place(job->model, job->chip, job->net, &at, &row->plans, why);
  if (status == PZ_STOPPED) return false;
  if (ran_out_of_time(&at, begin_s, status)) {
    struct pz_call own;
    struct pz_training_plans *none = pz_object_new(call, sizeof *none, &own);
    none->stopped = true;
    row->plans = pz_object_keep(call, none);
    return true;
  }
  if (status != PZ_OK)
    pz_raise(call, status, "%lld device%s: %s", (long long)row->devices,
             pz_text_s((double)row->devices), why->message);
  row->run = row->plans->n ? row->plans->runs[0] : NULL;
  if (row->run) /* idle devices count, because they are paid for */
    row->tokens_per_s_per_device = row->run->p.tokens / row->run->p.step_s / (double)row->devices;
  return true;
}

/* Frees the plans of all rows; a pz_close_fn. */
static void free_rows(void *scaling) {
  struct pz_scaling *s = scaling;
  for (uint32_t i = 0; i < s->n_rows; i++) pz_training_plans_free(s->rows[i].plans);
}

struct scale_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *options;
  const struct pz_choices *devices;
  int64_t batch_per_device;
  struct pz_scaling **out;
};

static void scale_devices(struct pz_call *call, void *ctx) {
  struct scale_args *x = ctx;
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_job job = {.model = x->model, .chip = x->chip, .net = x->net};
  struct pz_call own;
  double first = 0; /* tokens per second and device of the first row with a plan */
  pz_require_options(call, &o, sizeof o, x->options, "pz_training_place_options_default");
  pz_require(call, x->devices, "devices");
  pz_require(call, x->out, "out");
  pz_require_range(call, "devices", x->devices->n, 1, PZ_CHOICES_MOST);
  pz_require_range(call, "batch_per_device", x->batch_per_device, 0, 1 << 24);
  struct pz_scaling *s = pz_object_new(call, sizeof *s, &own);
  pz_defer(call, free_rows, s);
  s->weak = x->batch_per_device > 0;
  s->rows = pz_alloc(&own, (size_t)x->devices->n, sizeof *s->rows);
  for (int i = 0; i < x->devices->n; i++) {
    struct pz_scaling_row *row = &s->rows[s->n_rows++];
    struct pz_error why = {0};
    row->devices = x->devices->v[i];
    if (!scale_row(call, &job, &o, x->batch_per_device, row, &why)) {
      if (i == 0) pz_raise_again(call, &why);
      s->n_rows--; /* the rows before are the answer */
      break;
    }
    if (!(first > 0)) first = row->tokens_per_s_per_device;
    if (first > 0) row->efficiency = row->tokens_per_s_per_device / first;
  }
  if (!(first > 0)) {
    const struct pz_training_plans *last = s->rows[s->n_rows - 1].plans;
    struct misfit_args misfit = {x->model, x->chip, x->net, &o, s->weak, last};
    if (last->stopped)
      pz_raise(call, PZ_NO_ANSWER,
               "the time was over before a plan was found that fits; accepted: more seconds");
    explain_misfit(call, &misfit);
  }
  pz_undefer(call, s); /* free_rows */
  *x->out = pz_object_keep(call, s);
}

enum pz_status pz_training_scale(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net,
                                 const struct pz_training_place_options *options,
                                 const struct pz_choices *devices, int64_t batch_per_device,
                                 struct pz_scaling **out, struct pz_error *err) {
  struct scale_args x = {model, chip, net, options, devices, batch_per_device, out};
  return pz_border(scale_devices, &x, err);
}

void pz_scaling_free(struct pz_scaling *s) {
  if (s) free_rows(s);
  pz_object_free(s);
}
