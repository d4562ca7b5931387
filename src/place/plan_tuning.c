/* Finds what would make a training run faster (pz_plan_tune): the best plan for the same model,
 * devices and batch, and the single changes that save the most time.
 *
 * tune() predicts the run itself, searches the best plans with the overlap of the run and with all
 * overlap (search_best_plans), prices the neighbours of its plan (accept_change), and describes the
 * changes.  Framework, attention, execution and gradient types stay those of the run.  All plans
 * can be run by the framework, and times are those of pz_predict().  If a measured step is given,
 * the chip is corrected first so that the prediction matches it. */
#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/call.h"
#include "core/num.h"
#include "core/text.h"
#include "core/vec.h"
#include "launch/megatron_args.h"
#include "place/neighbours.h"
#include "place/plan_question.h"
#include "plan/plan_fill.h"
#include "plan/plan_text.h"
#include "step/correction.h"
#include "step/prediction.h"

/* The least fraction of the step that a change must save; predictions are not more accurate. */
static const double LEAST_GAIN = 1e-3;

/* The state of one call of pz_plan_tune(). */
struct tuning {
  struct pz_run_plan run; /* the run, with its plan filled */
  struct pz_job job;
  unsigned threads;
  struct pz_progress *progress;
  double search_seconds;   /* time limit of each search, or 0 if none */
  struct pz_arena *memory; /* holds the result */
  struct pz_plan_tuning *result;
  struct pz_neighbourhood neighbourhood; /* neighbourhood of the plan of the run */
  struct pz_plan own_plan; /* the plan of the run, with the sequence length of the model */
  struct pz_vec changes;   /* the accepted changes: struct pz_plan_change */
};

/* Lists a neighbour of the run's plan, which has one change, if it fits and is faster by
 * LEAST_GAIN.  If the run itself does not fit, lists every neighbour that fits. */
static bool accept_change(struct pz_call *call, void *ctx, const struct pz_plan *plan,
                          const struct pz_prediction *prediction, enum pz_plan_field field) {
  struct tuning *tuning = ctx;
  const struct pz_training_run *run = &tuning->result->own;
  struct pz_plan_change change = {.plan = *plan, .field = field, .p = *prediction};
  bool is_faster = prediction->step_s < run->p.step_s * (1 - LEAST_GAIN);
  bool is_accepted =
      pz_neighbour_fits(&tuning->neighbourhood, prediction) && (is_faster || !tuning->result->fits);
  tuning->result->n_tried++;
  if (is_accepted) pz_append(call, &tuning->changes, &change);
  return is_accepted;
}

/* ---- the best plan -------------------------------------------------------------------------- */

/* The arguments of search_best_plan(): a wanted overlap, and where the results are stored. */
struct best_search {
  struct tuning *tuning;
  int overlap; /* set of overlaps (PZ_OVERLAP_TP etc.) that the plan is to have */
  bool *found;
  struct pz_plan_change *best;
  struct pz_plan_certificate *certificate;
};

/* Searches the best plan for the model, devices and batch of the run with the wanted overlap. */
static void search_best_plan(struct pz_call *call, void *ctx) {
  struct best_search *search = ctx;
  struct tuning *tuning = search->tuning;
  struct pz_call in_result = pz_call_in(call, tuning->memory);
  struct pz_plan wanted = tuning->own_plan;
  wanted.overlap = search->overlap;
  wanted.shard = wanted.ep = wanted.etp = wanted.recompute_modules = 0;
  wanted.stage_recompute = NULL;
  struct pz_plan_question question = pz_plan_question_make(call, &tuning->job, &wanted, 0);
  question.uniform = true;
  question.threads = tuning->threads;
  question.progress = tuning->progress;
  if (tuning->search_seconds > 0) question.end_s = pz_clock_s() + tuning->search_seconds;
  const struct pz_found_plans *found = pz_find_plans(&in_result, &question);
  if (found->has_least) tuning->result->least_bytes = found->least.p.needed_bytes;
  *search->certificate = found->certificate;
  *search->found = found->n > 0;
  tuning->result->stopped = tuning->result->stopped || found->stopped;
  if (!found->n) return;
  *search->best = (struct pz_plan_change){
      .plan = found->list[0].plan, .field = PZ_PLAN_FIELDS, .p = found->list[0].p};
  struct pz_plan *plan = &search->best->plan;
  pz_fill_plan(call, plan, tuning->job.chip);
  if (tuning->own_plan.etp) plan->etp = pz_plan_etp(plan);
  plan->overlap = pz_plan_effective_overlap(plan); /* removes overlaps without communication */
}

/* Searches the best plan with the overlap of the run, and unless that is all overlap, also the best
 * plan with all.  If there is no such plan, for example because the devices fill no whole nodes,
 * only the single changes are the answer. */
static void search_best_plans(struct pz_call *call, struct tuning *tuning) {
  struct pz_plan_tuning *result = tuning->result;
  struct pz_plan_certificate unused;
  struct pz_error why = {0};
  struct best_search with_run_overlap = {tuning, tuning->neighbourhood.overlap, &result->has_best,
                                         &result->best, &result->certificate};
  struct best_search with_all_overlap = {tuning, PZ_OVERLAP_ALL, &result->has_overlapped,
                                         &result->overlapped, &unused};
  enum pz_status status = pz_border(search_best_plan, &with_run_overlap, &why);
  if (status == PZ_OK && tuning->neighbourhood.overlap != PZ_OVERLAP_ALL) {
    status = pz_border(search_best_plan, &with_all_overlap, &why);
    bool out_of_time =
        status == PZ_STOPPED || (status == PZ_NO_ANSWER && tuning->search_seconds > 0);
    if (result->has_best && out_of_time) {
      result->stopped = true;
      return;
    }
  }
  if (status == PZ_OK) return;
  if (status != PZ_BAD_USE && status != PZ_NO_ANSWER) pz_raise_again(call, &why);
  struct pz_call in_result = pz_call_in(call, tuning->memory);
  result->has_best = result->has_overlapped = false;
  result->why = pz_copy_text(&in_result, why.message);
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* Sets the relative gain of a change, its options, and for Megatron-LM the changed arguments. */
static void describe_change(struct pz_call *call, struct tuning *tuning,
                            struct pz_plan_change *change) {
  struct pz_call in_result = pz_call_in(call, tuning->memory);
  const struct pz_run_plan *run = &tuning->run;
  /* a plan file counts as a run of Megatron-LM unless it demands what Megatron-LM cannot do */
  bool can_be_megatron = run->plan.vpp > 1 || !(run->plan.overlap & PZ_OVERLAP_P2P);
  bool is_megatron =
      run->megatron || (run->plan.framework == pz_framework_find("megatron") && can_be_megatron);
  change->gain = 1 - change->p.step_s / tuning->result->own.p.step_s;
  change->options = pz_plan_options_text(&in_result, &tuning->result->own.plan, &change->plan);
  if (is_megatron) change->megatron = pz_megatron_describe_changes(&in_result, run, &change->plan);
}

/* Fills in the result: the prediction of the run, the best plans, and the single changes that make
 * the run faster, best first. */
static void tune(struct pz_call *call, struct tuning *tuning) {
  struct pz_plan_tuning *result = tuning->result;
  struct pz_training_run *run = &result->own;
  struct pz_call in_result = pz_call_in(call, tuning->memory);
  struct pz_error why = {0};
  const bool events = false;
  *run = pz_training_run_make(&in_result, &tuning->job, &tuning->run.plan, events);
  /* plans may need as much memory as the existing run, even above the usable bytes */
  result->limit_bytes = run->p.usable_bytes;
  if (run->p.peak_bytes <= run->hbm_bytes)
    result->limit_bytes = pz_fmax(run->p.usable_bytes, run->p.needed_bytes);
  result->fits =
      run->p.needed_bytes <= result->limit_bytes && run->p.host_bytes <= run->p.usable_host_bytes;
  tuning->own_plan = run->plan;
  tuning->run.plan.seq = run->plan.seq;
  tuning->neighbourhood = pz_neighbourhood_make(call, &tuning->job, &tuning->own_plan);
  (void)pz_framework_can_run(&tuning->own_plan, &tuning->neighbourhood.model, &why);
  pz_text_copy(run->refusal, sizeof run->refusal, why.message);
  tuning->run.layers = tuning->neighbourhood.layers;
  tuning->neighbourhood.limit_bytes = result->limit_bytes;
  tuning->neighbourhood.etp_is_tp = tuning->own_plan.etp && !tuning->run.from[PZ_PLAN_ETP];
  /* interleaved stages overlap transfers by default, unless the run switches that off */
  struct pz_plan interleaved = tuning->own_plan;
  interleaved.pp = interleaved.vpp = 2;
  interleaved.overlap = 0;
  bool by_default = pz_framework_overlap(&interleaved, NULL) & PZ_OVERLAP_P2P;
  if (by_default && !tuning->run.p2p_off) tuning->neighbourhood.overlap |= PZ_OVERLAP_P2P;
  search_best_plans(call, tuning);
  pz_neighbours_visit(call, &tuning->neighbourhood, accept_change, tuning);
  result->changes = tuning->changes.items;
  result->n_changes = tuning->changes.n;
  if (result->n_changes)
    qsort(result->changes, result->n_changes, sizeof *result->changes, pz_plan_change_order);
  result->fields = pz_list_run_fields(&in_result, &tuning->run, &result->n_fields);
  if (result->has_best) describe_change(call, tuning, &result->best);
  if (result->has_overlapped) describe_change(call, tuning, &result->overlapped);
  for (uint32_t i = 0; i < result->n_changes; i++)
    describe_change(call, tuning, &result->changes[i]);
}

struct pz_tune_options pz_tune_options_default(void) {
  return (struct pz_tune_options){.size = sizeof(struct pz_tune_options),
                                  .seconds = PZ_PLAN_SECONDS};
}

/* Corrects a chip so that the prediction matches the measured step: multiplies the correction
 * factors of all parts of the step by the same ratio, within 0.1 to 10.  Stores it in *chip, which
 * becomes the chip of the job.  Returns the step that was predicted before, in seconds. */
static double correct_chip(struct pz_call *call, struct pz_job *job, const struct pz_plan *plan,
                           double measured_s, struct pz_chip *chip) {
  struct pz_prediction prediction = pz_predict(call, job, plan, NULL);
  pz_measured_step_check(call, "measured", &prediction, measured_s);
  double uncorrected_s = prediction.step_s;
  *chip = *job->chip;
  job->chip = chip;
  /* some latencies are not corrected, so that the factors converge in a few passes */
  for (int pass = 0; pass < 4; pass++) {
    for (int i = 0; i < PZ_CORRECTION_FACTORS; i++) {
      double *factor = pz_correction_factor(&chip->correction, i);
      *factor = pz_fmin(pz_fmax(pz_corrected(*factor) * measured_s / prediction.step_s, 0.1), 10);
    }
    prediction = pz_predict(call, job, plan, NULL);
  }
  return uncorrected_s;
}

/* The arguments of pz_plan_tune(). */
struct tune_args {
  const struct pz_run_plan *run;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_tune_options *options;
  struct pz_plan_tuning **out;
};

/* Checks the arguments of pz_plan_tune() and fills in its result. */
static void check_and_tune(struct pz_call *call, void *ctx) {
  struct tune_args *args = ctx;
  struct pz_tune_options options = pz_tune_options_default();
  struct tuning tuning = {.run = pz_run_plan_default()};
  struct pz_run_plan *run = &tuning.run;
  struct pz_progress progress;
  struct pz_cluster widened;
  struct pz_chip corrected;
  struct pz_call in_result;
  double uncorrected_s = 0;
  atomic_bool stop = false;
  pz_require(call, args->run, "run");
  pz_require_options(call, run, sizeof *run, args->run, "pz_run_plan_default");
  pz_require_options(call, &options, sizeof options, args->options, "pz_tune_options_default");
  pz_require(call, run->model, "model");
  pz_require(call, args->out, "out");
  pz_chip_check(call, args->chip);
  if (!(options.seconds >= 0 && options.seconds <= 1e9))
    pz_raise(call, PZ_BAD_USE, "seconds %g; accepted: 0 (none) to 1e9", options.seconds);
  pz_fill_plan(call, &run->plan, args->chip);
  tuning.job = (struct pz_job){.model = run->model, .config = run->config, .chip = args->chip};
  tuning.job.net = pz_cluster_widen(call, args->net, run->plan.devices, &widened);
  if (options.measured_s > 0)
    uncorrected_s = correct_chip(call, &tuning.job, &run->plan, options.measured_s, &corrected);
  if (options.progress) pz_progress_start_call(&progress, options.progress, options.ctx, &stop);
  tuning.progress = options.progress ? &progress : NULL;
  tuning.threads = options.threads;
  tuning.search_seconds = options.seconds / 2; /* there are up to two searches */
  if (!run->megatron) run->p2p_off = run->plan.vpp > 1 && !(run->plan.overlap & PZ_OVERLAP_P2P);
  tuning.result = pz_object_new(call, sizeof *tuning.result, &in_result);
  tuning.memory = in_result.arena;
  tuning.result->uncorrected_s = uncorrected_s;
  pz_vec_init(&tuning.changes, in_result.arena, sizeof(struct pz_plan_change));
  tune(call, &tuning);
  *args->out = pz_object_keep(call, tuning.result);
}

/* Finds the best plan for the devices of a run, and the single changes that make the run faster. */
enum pz_status pz_plan_tune(const struct pz_run_plan *run, const struct pz_chip *chip,
                            const struct pz_cluster *net, const struct pz_tune_options *options,
                            struct pz_plan_tuning **out, struct pz_error *err) {
  struct tune_args args = {run, chip, net, options, out};
  return pz_border(check_and_tune, &args, err);
}

void pz_plan_tuning_free(struct pz_plan_tuning *result) { pz_object_free(result); }
