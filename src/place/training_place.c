/* The public functions that search training plans.
 *
 * pz_training_place() checks the options, searches the plans (search_and_predict), and predicts
 * each plan that it returns in detail.  pz_training_nothing_fits() explains why no plan fits in
 * memory, and finds single changes of the question that would make a plan fit.
 * pz_training_scale() repeats the search for several numbers of devices. */
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
  struct pz_training_place_options options = {.size = sizeof options,
                                              .plan = pz_plan_default(),
                                              .top = 1,
                                              .risk = PZ_RISK_COUNTED,
                                              .seconds = PZ_PLAN_SECONDS};
  options.plan.devices = options.plan.batch = 1;
  return options;
}

/* Raises PZ_BAD_USE for pinned fields that are unset, not searched, or impossible together. */
static void check_pins(struct pz_call *call, const struct pz_training_place_options *options) {
  const struct pz_plan *plan = &options->plan;
  uint64_t pins = options->pinned, searched = pz_plan_searched();
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field field = (enum pz_plan_field)i;
    if (!(pins >> i & 1)) continue;
    if (!(searched >> i & 1))
      pz_raise(call, PZ_BAD_USE, "%s is pinned; it is the same in every plan",
               pz_plan_field(field)->name);
    if (pz_plan_is_unset(plan, field))
      pz_raise(call, PZ_BAD_USE, "%s is pinned, and unset; accepted: a value",
               pz_plan_field(field)->name);
  }
  if (plan->stage_recompute)
    pz_raise(call, PZ_BAD_USE,
             "stage_recompute; accepted: recompute full, place finds the layers of each stage");
  int64_t tp = pins & PZ_PLAN_PIN(TP) ? plan->tp : 1, pp = pins & PZ_PLAN_PIN(PP) ? plan->pp : 1;
  int64_t dp = pins & PZ_PLAN_PIN(DP) ? plan->dp : 1, mbs = pins & PZ_PLAN_PIN(MBS) ? plan->mbs : 1;
  if (pins & PZ_PLAN_PIN(VPP) && pins & PZ_PLAN_PIN(PP) && plan->vpp > 1 && plan->pp == 1)
    pz_raise(call, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
             (long long)plan->vpp);
  if ((double)tp * (double)pp * (double)dp > (double)plan->devices)
    pz_raise(call, PZ_BAD_USE,
             "tp %lld x pp %lld x dp %lld with %lld devices; accepted: at most that", (long long)tp,
             (long long)pp, (long long)dp, (long long)plan->devices);
  if (plan->batch % mbs || plan->batch / mbs % dp)
    pz_raise(call, PZ_BAD_USE,
             "a batch of %lld is not divided by mbs %lld x dp %lld; accepted: a multiple of these",
             (long long)plan->batch, (long long)mbs, (long long)dp);
}

/* Converts the options to a question.  Its network is *widened, which the caller keeps alive. */
static struct pz_plan_question place_question(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_training_place_options *options,
                                              struct pz_cluster *widened) {
  struct pz_job placed_job = *job;
  placed_job.net = pz_cluster_widen(call, job->net, options->plan.devices, widened);
  placed_job.config = pz_read_model_config(call, job->model);
  struct pz_plan_question question =
      pz_plan_question_make(call, &placed_job, &options->plan, options->pinned);
  question.uniform = options->uniform;
  question.all_devices = options->all_devices;
  question.objective = (enum pz_plan_objective)options->objective;
  question.tie = options->tie;
  question.counts_risk = options->risk == PZ_RISK_COUNTED;
  question.searches_features = true;
  question.without = options->without;
  if (options->plan.dispatcher >= 0) question.fixed_features |= PZ_PLAN_PIN(DISPATCHER);
  if (options->plan.cuda_graphs >= 0 || options->plan.execution >= 0)
    question.fixed_features |= PZ_PLAN_PIN(CUDA_GRAPHS);
  if (options->plan.overlap < 0)
    question.plan.overlap = pz_framework_overlaps(question.plan.framework, options->without);
  question.tokens = options->tokens;
  question.deadline_s = options->deadline_s;
  question.n_alternatives = options->top > 1 ? options->top - 1 : 0;
  question.threads = options->threads;
  if (options->seconds > 0) question.end_s = pz_clock_s() + options->seconds;
  return question;
}

/* ---- the answer ----------------------------------------------------------------------------- */

enum { WITHOUT_EVENTS = false };

/* Returns the detailed prediction of a found plan, with the events of its schedule if `events`. */
static struct pz_training_run *predict_found(struct pz_call *call,
                                             const struct pz_plan_question *question,
                                             const struct pz_found_plan *found, bool events) {
  struct pz_training_run *run = NULL;
  struct pz_plan plan = found->plan;
  if (!plan.zero) plan.shard = 0; /* without sharding, it need not divide the replicas */
  pz_must(call, pz_training_predict(question->job.model, question->job.chip, question->job.net,
                                    &plan, events, &run, pz_call_error(call)));
  assert(run->p.step_s == found->p.step_s);
  return run;
}

/* ---- the gain of options that are off by default -------------------------------------------- */

/* The command-line or configuration option of each family of frameworks (core: Megatron-LM and
 * NeMo) that switches on an overlap, or NULL if it has none. */
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

/* Appends an option of the best plan with its gain: the relative time by which the step of
 * `without`, the plan without it, is longer.  Skips it if the framework cannot run that plan. */
static void add_switched(struct pz_call *call, const struct pz_plan_question *question,
                         const struct pz_plan *without, const char *option,
                         struct pz_training_plans *out) {
  if (!pz_framework_can_run(without, NULL, NULL)) return;
  struct pz_prediction prediction = pz_predict(call, &question->job, without, NULL);
  out->switched[out->n_switched++] =
      (struct pz_switched){option, prediction.step_s / out->runs[0]->p.step_s - 1};
}

/* Lists the options of the best plan that are off by default, with their gains. */
static void find_switched(struct pz_call *call, struct pz_call *in_result,
                          const struct pz_plan_question *question, struct pz_training_plans *out) {
  enum { OVERLAPS = sizeof overlap_options / sizeof *overlap_options };
  const struct pz_plan *plan = &out->runs[0]->plan;
  const struct pz_framework *framework = pz_plan_framework(plan);
  out->switched = pz_alloc(in_result, OVERLAPS + 2, sizeof *out->switched);
  for (size_t i = 0; i < OVERLAPS; i++) {
    int overlap = overlap_options[i].overlap;
    const char *name = overlap_options[i].name, *flag = NULL;
    struct pz_plan without = *plan;
    without.overlap &= ~overlap;
    bool is_default = framework->plan.overlap & overlap;
    if (!(pz_plan_effective_overlap(plan) & overlap) || is_default) continue;
    if (framework->rules == PZ_RULES_CORE) flag = overlap_options[i].core;
    if (framework->rules == PZ_RULES_TITAN) flag = overlap_options[i].titan;
    if (framework->rules == PZ_RULES_DEEPSPEED) flag = overlap_options[i].deepspeed;
    const char *option = pz_format(in_result, "overlap %s", name);
    if (flag) option = pz_format(in_result, "overlap %s (%s)", name, flag);
    add_switched(call, question, &without, option, out);
  }
  struct pz_plan alltoall = *plan, eager = *plan;
  alltoall.dispatcher = (int)framework->dispatcher;
  eager.cuda_graphs = 0;
  if (pz_plan_ep(plan) > 1 && plan->dispatcher != alltoall.dispatcher)
    add_switched(call, question, &alltoall,
                 pz_format(in_result, "dispatcher %s (--moe-flex-dispatcher-backend)",
                           pz_dispatcher_names[plan->dispatcher]),
                 out);
  if (plan->cuda_graphs)
    add_switched(call, question, &eager, "cuda_graphs (--cuda-graph-impl transformer_engine)", out);
}

/* ---- the search ----------------------------------------------------------------------------- */

/* The arguments of find_all_devices(), which runs within a border. */
struct all_devices_search {
  const struct pz_plan_question *question;
  struct pz_training_plans *out;
};

/* Finds the best plan that leaves no device idle, and predicts it for the answer. */
static void find_all_devices(struct pz_call *call, void *ctx) {
  struct all_devices_search *search = ctx;
  struct pz_plan_question question = *search->question;
  question.all_devices = true;
  question.top = 1;
  question.n_alternatives = 0;
  const struct pz_found_plans *found = pz_find_plans(call, &question);
  if (found->n)
    search->out->all_devices = predict_found(call, &question, &found->simplest, WITHOUT_EVENTS);
}

/* Searches the best plans, and predicts in the memory of the result (in_result) the simplest of
 * them, the fastest one unless it looks the same to the user, the best plans of other kinds, and
 * the best plan without idle devices. */
static void search_and_predict(struct pz_call *call, struct pz_call *in_result,
                               const struct pz_job *job,
                               const struct pz_training_place_options *options,
                               struct pz_training_plans *out) {
  struct pz_cluster widened;
  struct pz_progress progress;
  struct pz_error err = {0};
  atomic_bool stop = false;
  struct pz_plan_question question = place_question(call, job, options, &widened);
  if (options->progress) pz_progress_start_call(&progress, options->progress, options->ctx, &stop);
  question.progress = options->progress ? &progress : NULL;
  const struct pz_found_plans *found = pz_find_plans(call, &question);
  out->certificate = found->certificate;
  out->experts = found->experts;
  out->late = found->late;
  out->stopped = found->stopped;
  out->runs = pz_alloc(in_result, found->n_kinds + 2, sizeof(struct pz_training_run *));
  out->warning = pz_copy_text(in_result, found->warning);
  if (!found->n) {
    if (found->has_least)
      out->least = predict_found(call, &question, &found->least, WITHOUT_EVENTS);
    return;
  }
  const struct pz_found_plan *simplest = &found->simplest, *fastest = &found->list[0];
  const struct pz_plan *a = &simplest->plan, *b = &fastest->plan;
  bool same_prediction =
      simplest->p.step_s == fastest->p.step_s && simplest->p.peak_bytes == fastest->p.peak_bytes;
  bool same_degrees = a->tp == b->tp && pz_plan_cp(a) == pz_plan_cp(b) && a->pp == b->pp &&
                      a->vpp == b->vpp && a->mbs == b->mbs && pz_plan_ep(a) == pz_plan_ep(b) &&
                      a->zero == b->zero;
  out->runs[out->n++] = predict_found(call, &question, simplest, options->events);
  if (!same_prediction || !same_degrees)
    out->fastest = predict_found(call, &question, fastest, WITHOUT_EVENTS);
  for (uint32_t i = 0; i < found->n_kinds; i++)
    out->runs[out->n++] =
        predict_found(call, &question, &found->list[found->n + i], WITHOUT_EVENTS);
  find_switched(call, in_result, &question, out);
  if (pz_plan_devices(&out->runs[0]->plan) == question.plan.devices) return;
  /* the answer is complete without the plan on all devices, so that other errors do not matter */
  struct all_devices_search search = {&question, out};
  if (pz_border(find_all_devices, &search, &err) != PZ_OK) pz_raise_if_memory(call, &err);
}

/* The arguments of pz_training_place(). */
struct place_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *options;
  struct pz_training_plans **out;
};

/* Frees the runs of an answer; a pz_close_fn. */
static void free_runs(void *training_plans) {
  struct pz_training_plans *plans = training_plans;
  for (uint32_t i = 0; i < plans->n; i++) pz_training_run_free(plans->runs[i]);
  pz_training_run_free(plans->fastest);
  pz_training_run_free(plans->all_devices);
  pz_training_run_free(plans->least);
}

/* Checks the arguments of pz_training_place() and searches the plans. */
static void check_and_place(struct pz_call *call, void *ctx) {
  struct place_args *args = ctx;
  struct pz_training_place_options options = pz_training_place_options_default();
  struct pz_job job = {.model = args->model, .chip = args->chip, .net = args->net};
  struct pz_call in_result;
  pz_require_options(call, &options, sizeof options, args->options,
                     "pz_training_place_options_default");
  pz_require(call, args->model, "model");
  pz_require(call, args->out, "out");
  pz_chip_check(call, args->chip);
  pz_require_plan_ranges(call, &options.plan);
  pz_require_range(call, "devices", options.plan.devices, 1, 1 << 24);
  pz_require_range(call, "batch", options.plan.batch, 1, 1 << 24);
  pz_require_range(call, "objective", options.objective, 0, PZ_PLAN_OBJECTIVES - 1);
  pz_require_range(call, "top", options.top, 0, 1000);
  pz_require_range(call, "risk", options.risk, 0, PZ_RISK_NONE);
  check_pins(call, &options);
  if (!(options.seconds >= 0 && options.seconds <= 1e9))
    pz_raise(call, PZ_BAD_USE, "seconds %g; accepted: 0 (none) to 1e9", options.seconds);
  struct pz_training_plans *out = pz_object_new(call, sizeof *out, &in_result);
  pz_defer(call, free_runs, out);
  search_and_predict(call, &in_result, &job, &options, out);
  pz_undefer(call, out); /* the result is complete, so that free_runs() must not run */
  *args->out = pz_object_keep(call, out);
}

/* Finds the best plans for a model on a cluster. */
enum pz_status pz_training_place(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net,
                                 const struct pz_training_place_options *options,
                                 struct pz_training_plans **out, struct pz_error *err) {
  struct place_args args = {model, chip, net, options, out};
  return pz_border(check_and_place, &args, err);
}

void pz_training_plans_free(struct pz_training_plans *plans) {
  if (plans) free_runs(plans);
  pz_object_free(plans);
}

/* ---- nothing fits --------------------------------------------------------------------------- */

/* Limits of the changes that are tried: devices times 64, and samples of 128 tokens. */
enum { MAX_DEVICES_FACTOR = 64, MIN_SEQ = 128 };

/* Returns whether a search that began at begin_s found no answer because its time was over. */
static bool ran_out_of_time(const struct pz_training_place_options *options, double begin_s,
                            enum pz_status status) {
  return status == PZ_NO_ANSWER && options->seconds > 0 &&
         pz_clock_s() > begin_s + options->seconds;
}

/* A question for which no plan fits in memory, and the changes of it that would make one fit. */
struct misfit {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *asked;
  bool weak_scaling;                     /* a change of the devices scales the batch */
  const struct pz_training_plans *plans; /* the answer to the question, without a plan that fits */

  /* state of explain_misfit() */
  double end_s;      /* time limit of all changes together, or 0 if none */
  bool out_of_time;  /* some changes were not decided within the time limit */
  char changes[560]; /* a text with the changes with which a plan fits */
  size_t length;     /* length of the text `changes` */
};

/* Searches a plan with changed options or on a changed chip.  Returns whether one fits.  If so, its
 * text and that of the change are appended to misfit->changes. */
static bool try_change(struct pz_call *call, struct misfit *misfit, const struct pz_chip *chip,
                       const struct pz_training_place_options *options, const char *change) {
  struct pz_training_place_options changed = *options;
  struct pz_training_plans *plans = NULL;
  struct pz_error why = {0};
  double begin_s = pz_clock_s();
  misfit->out_of_time = misfit->out_of_time || (misfit->end_s > 0 && begin_s >= misfit->end_s);
  if (misfit->out_of_time) return false;
  if (misfit->end_s > 0) changed.seconds = misfit->end_s - begin_s;
  enum pz_status status =
      pz_training_place(misfit->model, chip, misfit->net, &changed, &plans, &why);
  if (status == PZ_NO_MEMORY || status == PZ_STOPPED) pz_raise_again(call, &why);
  misfit->out_of_time = ran_out_of_time(&changed, begin_s, status);
  /* after other errors the changed question has no plan */
  bool fits = status == PZ_OK && plans->n > 0;
  if (fits) {
    char plan[256];
    int n = snprintf(misfit->changes + misfit->length, sizeof misfit->changes - misfit->length,
                     "%s%s (%s)", misfit->length ? "; " : "", change,
                     pz_plan_text(&plans->runs[0]->plan, plan, sizeof plan));
    bool has_room = n > 0 && (size_t)n < sizeof misfit->changes - misfit->length;
    if (has_room)
      misfit->length += (size_t)n;
    else
      misfit->changes[misfit->length] = 0;
  }
  pz_training_plans_free(plans);
  return fits;
}

/* Tries single changes of the question, and stores those with which a plan fits in misfit->changes:
 * unpinned fields, more devices, more HBM, and if none of these is sufficient, shorter samples.
 * `least` is the plan that needs the least memory. */
static void try_single_changes(struct pz_call *call, struct misfit *misfit,
                               const struct pz_training_run *least) {
  struct pz_training_place_options options;
  char change[64], value[PZ_FIELD_TEXT_MOST];
  bool fits = false;
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    options = *misfit->asked;
    if (!(options.pinned >> i & 1)) continue;
    options.pinned &= ~(UINT64_C(1) << i);
    pz_plan_field_text(&options.plan, (enum pz_plan_field)i, value, sizeof value);
    snprintf(change, sizeof change, "without %s %.30s", pz_plan_field((enum pz_plan_field)i)->name,
             value);
    (void)try_change(call, misfit, misfit->chip, &options, change);
  }
  options = *misfit->asked;
  for (int64_t factor = 2; factor <= MAX_DEVICES_FACTOR && !fits; factor *= 2) {
    options.plan.devices = misfit->asked->plan.devices * factor;
    if (options.plan.devices > 1 << 24) break;
    if (misfit->weak_scaling) options.plan.batch = misfit->asked->plan.batch * factor;
    snprintf(change, sizeof change, "%" PRId64 " devices", options.plan.devices);
    fits = try_change(call, misfit, misfit->chip, &options, change);
  }
  struct pz_chip chip = *misfit->chip; /* with HBM for the plan that needs the least */
  double reserved_bytes = pz_reserved_bytes(misfit->chip, &pz_constants_default);
  double gib = ceil((least->p.needed_bytes + reserved_bytes) / 0x1p30);
  chip.hbm.bytes_per_stack = (int64_t)ceil(gib * 0x1p30 / (double)chip.hbm.stacks);
  snprintf(change, sizeof change, "%.0f GiB of HBM", gib);
  (void)try_change(call, misfit, &chip, misfit->asked, change);
  if (misfit->length) return;
  options = *misfit->asked;
  fits = false;
  for (options.plan.seq = least->plan.seq / 2; options.plan.seq >= MIN_SEQ && !fits;
       options.plan.seq /= 2) {
    snprintf(change, sizeof change, "%" PRId64 " tokens a sample", options.plan.seq);
    fits = try_change(call, misfit, misfit->chip, &options, change);
  }
}

/* Raises an error that says how much memory the plan that needs the least requires, and with
 * which changes a plan fits. */
_Noreturn static void raise_misfit(struct pz_call *call, const struct misfit *misfit,
                                   const struct pz_training_run *least) {
  const struct pz_part_info *largest = NULL, *part;
  char name[120], plan[256];
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++)
    if (!largest || pz_memory_part(&least->p.peak, part) > pz_memory_part(&least->p.peak, largest))
      largest = part;
  struct pz_plan zero_3 = least->plan;
  zero_3.zero = 3;
  bool cannot_shard =
      least->plan.pp > 1 && least->plan.zero < 2 && !pz_framework_can_run(&zero_3, NULL, NULL);
  const char *changes = misfit->changes;
  if (!misfit->length && misfit->out_of_time) changes = "no change that was tried";
  if (!misfit->length && !misfit->out_of_time)
    changes = "no single change of devices, HBM or sequence length";
  pz_raise(call, PZ_NO_ANSWER,
           "no plan of %s fits on %" PRId64
           " x %s: the least is at most %.1f GB a device of %.1f GB usable "
           "(%s), most of it %s, %.1f GB%s. Fits with: %s%s",
           pz_text_plain(pz_text_copy(name, sizeof name, misfit->model)),
           misfit->asked->plan.devices, misfit->chip->name, least->p.needed_bytes / 1e9,
           least->p.usable_bytes / 1e9, pz_plan_text(&least->plan, plan, sizeof plan),
           largest->label, pz_memory_part(&least->p.peak, largest) / 1e9,
           cannot_shard ? "; this framework has ZeRO 2 and 3 only without pipeline stages" : "",
           changes, misfit->out_of_time ? "; the time was over before all changes were tried" : "");
}

/* Raises the error that explains why no plan fits. */
static void explain_misfit(struct pz_call *call, void *ctx) {
  struct misfit *misfit = ctx;
  struct pz_training_place_options options = pz_training_place_options_default();
  const struct pz_training_plans *plans = misfit->plans;
  pz_require_options(call, &options, sizeof options, misfit->asked,
                     "pz_training_place_options_default");
  misfit->asked = &options;
  pz_require(call, misfit->model, "model");
  pz_require(call, misfit->chip, "chip");
  pz_require(call, plans, "plans");
  if (plans->n) pz_raise(call, PZ_BAD_USE, "a plan fits");
  if (!plans->least && plans->certificate.by_memory)
    pz_raise(call, PZ_NO_ANSWER,
             "no plan has what offload asks for within the host's memory, %.1f GB usable for "
             "each device; accepted: less of it",
             pz_usable_host_bytes(misfit->chip, &pz_constants_default) / 1e9);
  if (!plans->least)
    pz_raise(call, PZ_BAD_USE,
             "no plan has these degrees on %" PRId64 " devices with a batch of %" PRId64
             "; accepted: vpp whose chunks divide the layers, with microbatches that "
             "stages divide, and a ZeRO stage that the framework has",
             options.plan.devices, options.plan.batch);
  options.tie = 0; /* any plan that fits is sufficient */
  if (options.seconds > 0) misfit->end_s = pz_clock_s() + options.seconds;
  try_single_changes(call, misfit, plans->least);
  raise_misfit(call, misfit, plans->least);
}

/* Explains why `plans`, the answer to a question, has no plan that fits in memory: *err says how
 * much memory is needed at least, and which single changes of the question would make a plan fit.
 * With `weak` (weak scaling), a change of the number of devices scales the batch as well.  Returns
 * the status of the error that explain_misfit() always raises and pz_border() catches, usually
 * PZ_NO_ANSWER. */
enum pz_status pz_training_nothing_fits(const char *model, const struct pz_chip *chip,
                                        const struct pz_cluster *net,
                                        const struct pz_training_place_options *options, bool weak,
                                        const struct pz_training_plans *plans,
                                        struct pz_error *err) {
  struct misfit misfit = {.model = model,
                          .chip = chip,
                          .net = net,
                          .asked = options,
                          .weak_scaling = weak,
                          .plans = plans};
  return pz_border(explain_misfit, &misfit, err);
}

/* ---- scaling -------------------------------------------------------------------------------- */

/* Fills in a row of the table: the best plan for its number of devices, or none if the time is over
 * before one is found.  Returns false if the search was stopped. */
static bool scale_row(struct pz_call *call, const struct pz_job *job,
                      const struct pz_training_place_options *options, int64_t batch_per_device,
                      struct pz_scaling_row *row, struct pz_error *why) {
  struct pz_training_place_options row_options = *options;
  double begin_s = pz_clock_s();
  row_options.plan.devices = row->devices;
  if (batch_per_device) row_options.plan.batch = batch_per_device * row->devices;
  row->batch = row_options.plan.batch;
  enum pz_status status =
      pz_training_place(job->model, job->chip, job->net, &row_options, &row->plans, why);
  if (status == PZ_STOPPED) return false;
  if (ran_out_of_time(&row_options, begin_s, status)) {
    struct pz_call in_plans;
    struct pz_training_plans *no_plans = pz_object_new(call, sizeof *no_plans, &in_plans);
    no_plans->stopped = true;
    row->plans = pz_object_keep(call, no_plans);
    return true;
  }
  if (status != PZ_OK)
    pz_raise(call, status, "%lld device%s: %s", (long long)row->devices,
             pz_text_s((double)row->devices), why->message);
  row->run = row->plans->n ? row->plans->runs[0] : NULL;
  if (row->run) /* count idle devices, too, because they cost the same */
    row->tokens_per_s_per_device = row->run->p.tokens / row->run->p.step_s / (double)row->devices;
  return true;
}

/* Frees the plans of all rows; a pz_close_fn. */
static void free_rows(void *rows) {
  struct pz_scaling *scaling = rows;
  for (uint32_t i = 0; i < scaling->n_rows; i++) pz_training_plans_free(scaling->rows[i].plans);
}

/* The arguments of pz_training_scale(). */
struct scale_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *options;
  const struct pz_choices *devices;
  int64_t batch_per_device;
  struct pz_scaling **out;
};

/* Checks the arguments of pz_training_scale(), and searches a plan for each number of devices.  The
 * efficiency of a row is its throughput per device relative to the first row with a plan. */
static void scale_devices(struct pz_call *call, void *ctx) {
  struct scale_args *args = ctx;
  struct pz_training_place_options options = pz_training_place_options_default();
  struct pz_job job = {.model = args->model, .chip = args->chip, .net = args->net};
  struct pz_call in_result;
  double first_rate = 0; /* tokens per second and device of the first row with a plan */
  pz_require_options(call, &options, sizeof options, args->options,
                     "pz_training_place_options_default");
  pz_require(call, args->devices, "devices");
  pz_require(call, args->out, "out");
  pz_require_range(call, "devices", args->devices->n, 1, PZ_CHOICES_MOST);
  pz_require_range(call, "batch_per_device", args->batch_per_device, 0, 1 << 24);
  struct pz_scaling *scaling = pz_object_new(call, sizeof *scaling, &in_result);
  pz_defer(call, free_rows, scaling);
  scaling->weak = args->batch_per_device > 0;
  scaling->rows = pz_alloc(&in_result, (size_t)args->devices->n, sizeof *scaling->rows);
  for (int i = 0; i < args->devices->n; i++) {
    struct pz_scaling_row *row = &scaling->rows[scaling->n_rows++];
    struct pz_error why = {0};
    row->devices = args->devices->v[i];
    if (!scale_row(call, &job, &options, args->batch_per_device, row, &why)) {
      if (i == 0) pz_raise_again(call, &why);
      scaling->n_rows--; /* the rows before this one are the answer */
      break;
    }
    if (!(first_rate > 0)) first_rate = row->tokens_per_s_per_device;
    if (first_rate > 0) row->efficiency = row->tokens_per_s_per_device / first_rate;
  }
  if (!(first_rate > 0)) {
    const struct pz_training_plans *last = scaling->rows[scaling->n_rows - 1].plans;
    struct misfit misfit = {.model = args->model,
                            .chip = args->chip,
                            .net = args->net,
                            .asked = &options,
                            .weak_scaling = scaling->weak,
                            .plans = last};
    if (last->stopped)
      pz_raise(call, PZ_NO_ANSWER,
               "the time was over before a plan was found that fits; accepted: more seconds");
    explain_misfit(call, &misfit);
  }
  pz_undefer(call, scaling); /* the result is complete, so that free_rows() must not run */
  *args->out = pz_object_keep(call, scaling);
}

/* Finds the best plan for each of several numbers of devices. */
enum pz_status pz_training_scale(const char *model, const struct pz_chip *chip,
                                 const struct pz_cluster *net,
                                 const struct pz_training_place_options *options,
                                 const struct pz_choices *devices, int64_t batch_per_device,
                                 struct pz_scaling **out, struct pz_error *err) {
  struct scale_args args = {model, chip, net, options, devices, batch_per_device, out};
  return pz_border(scale_devices, &args, err);
}

void pz_scaling_free(struct pz_scaling *scaling) {
  if (scaling) free_rows(scaling);
  pz_object_free(scaling);
}
