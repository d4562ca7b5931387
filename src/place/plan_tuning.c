/* What would make a run faster: the best plan for the same model, devices and batch, and the single changes that bring
 * most, all that its framework can run.  By the model of pz_predict; framework, attention, execution and gradient types
 * stay as the run has them. */
#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/held.h"
#include "core/num.h"
#include "core/status.h"
#include "core/text.h"
#include "core/vec.h"
#include "launch/megatron_args.h"
#include "place/neighbours.h"
#include "place/plan_question.h"
#include "plan/plan_fill.h"
#include "step/correction.h"
#include "step/prediction.h"

/* A change that brings less is none: below what the model can tell apart. */
static const double LEAST_GAIN = 1e-3;

struct tuning_job {
  struct pz_run_plan r; /* filled */
  struct pz_job job;
  unsigned threads;
  struct pz_progress *progress;
  double seconds; /* of each search; 0: any */
  struct pz_arena *arena;
  struct pz_plan_tuning *out;
  struct pz_neighbourhood near;
  struct pz_plan own;  /* with the model's sequence length */
  struct pz_vec found; /* struct pz_plan_change */
  struct pz_error *err;
};

static enum pz_status predict_own(struct tuning_job *j) {
  struct pz_plan_tuning *t = j->out;
  struct pz_training_run *own = &t->own;
  enum pz_status status = pz_training_run_make(&j->job, &j->r.plan, false, j->arena, own, j->err);
  if (status != PZ_OK) return status;
  bool runs = own->p.peak_bytes <= own->hbm_bytes;
  t->limit_bytes = runs ? pz_fmax(own->p.usable_bytes, own->p.needed_bytes) : own->p.usable_bytes;
  t->fits = own->p.needed_bytes <= t->limit_bytes && own->p.host_bytes <= own->p.usable_host_bytes;
  j->own = own->plan;
  j->r.plan.seq = own->plan.seq;
  return PZ_OK;
}

/* ---- single changes ------------------------------------------------------------------------- */

/* Kept where it fits and is worth it. */
static enum pz_status take_change(void *ctx, const struct pz_plan *plan,
                                  const struct pz_prediction *p, enum pz_plan_field field,
                                  bool *taken) {
  struct tuning_job *j = ctx;
  const struct pz_training_run *own = &j->out->own;
  struct pz_plan_change one = {.plan = *plan, .field = field, .p = *p};
  bool faster = p->step_s < own->p.step_s * (1 - LEAST_GAIN);
  j->out->n_tried++;
  *taken = pz_neighbour_fits(&j->near, p) && (faster || !j->out->fits);
  if (*taken && !pz_vec_push(&j->found, &one))
    return pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the plan's changes");
  return PZ_OK;
}

static int by_time(const void *a, const void *b) {
  const struct pz_plan_change *x = a, *y = b;
  if (x->p.step_s != y->p.step_s) return x->p.step_s < y->p.step_s ? -1 : 1;
  if (x->p.peak_bytes != y->p.peak_bytes) return x->p.peak_bytes < y->p.peak_bytes ? -1 : 1;
  return (x->field > y->field) - (x->field < y->field);
}

static enum pz_status find_changes(struct tuning_job *j) {
  enum pz_status status = pz_neighbours(&j->near, take_change, j, j->err);
  if (status != PZ_OK) return status;
  if (j->found.n) qsort(j->found.items, j->found.n, sizeof(struct pz_plan_change), by_time);
  j->out->changes = j->found.items;
  j->out->n_changes = j->found.n;
  return PZ_OK;
}

/* ---- the best plan -------------------------------------------------------------------------- */

/* The best plan where these overlaps are wanted. */
static enum pz_status find_best(struct tuning_job *j, int overlap, bool *has,
                                struct pz_plan_change *out, struct pz_plan_certificate *c) {
  struct pz_found_plans found;
  struct pz_plan wanted = j->own;
  struct pz_plan_question q;
  wanted.overlap = overlap;
  wanted.shard = wanted.ep = wanted.etp = wanted.recompute_modules = 0;
  wanted.stage_recompute = NULL;
  enum pz_status status = pz_plan_question_of(&j->job, &wanted, 0, &q, j->err);
  q.uniform = true;
  q.threads = j->threads;
  q.progress = j->progress;
  if (j->seconds > 0) q.end_s = pz_clock_s() + j->seconds;
  if (status == PZ_OK) status = pz_plan_search(&q, j->arena, &found, j->err);
  if (status != PZ_OK) return status;
  if (found.has_least) j->out->least_bytes = found.least.p.needed_bytes;
  *c = found.certificate;
  *has = found.n > 0;
  j->out->stopped = j->out->stopped || found.stopped;
  if (!*has) return PZ_OK;
  *out = (struct pz_plan_change){
      .plan = found.list[0].plan, .field = PZ_PLAN_FIELDS, .p = found.list[0].p};
  status = pz_plan_fill(&out->plan, j->job.chip, j->err);
  if (j->own.etp) out->plan.etp = pz_plan_etp(&out->plan);
  /* what such a plan has no use for */
  out->plan.overlap = pz_plan_overlap(&out->plan);
  return status;
}

/* A question without any plan (devices that fill no nodes ...) leaves the single changes. */
static enum pz_status find_plans(struct tuning_job *j) {
  struct pz_plan_tuning *t = j->out;
  struct pz_plan_certificate unused;
  struct pz_error why = {0}, *err = j->err;
  j->err = &why;
  enum pz_status status = find_best(j, j->near.overlap, &t->has_best, &t->best, &t->certificate);
  if (status == PZ_OK && j->near.overlap != PZ_OVERLAP_ALL) {
    status = find_best(j, PZ_OVERLAP_ALL, &t->has_overlapped, &t->overlapped, &unused);
    bool over = status == PZ_STOPPED || (status == PZ_NO_ANSWER && j->seconds > 0);
    if (t->has_best && over) t->stopped = true, status = PZ_OK;
  }
  j->err = err;
  if (status == PZ_OK) return PZ_OK;
  if (status != PZ_BAD_USE && status != PZ_NO_ANSWER)
    return pz_fail(err, status, "%s", why.message);
  t->has_best = t->has_overlapped = false;
  t->why = pz_arena_strdup(j->arena, why.message);
  return t->why ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan's changes");
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* A plan file is Megatron's where it says so and asks for nothing that Megatron cannot do. */
static bool is_megatron(const struct pz_run_plan *r) {
  return r->megatron || (r->plan.framework == pz_framework_find("megatron") &&
                         (r->plan.vpp > 1 || !pz_plan_overlaps(&r->plan, PZ_OVERLAP_P2P)));
}

static enum pz_status tell_change(struct tuning_job *j, struct pz_plan_change *c) {
  enum pz_status status = pz_plan_change_tell(&j->out->own, c, j->arena, j->err);
  if (status == PZ_OK && is_megatron(&j->r))
    status = pz_megatron_changes(&j->r, &c->plan, j->arena, &c->megatron, j->err);
  return status;
}

static enum pz_status tell_all(struct tuning_job *j) {
  struct pz_plan_tuning *t = j->out;
  enum pz_status status = pz_run_plan_fields(&j->r, j->arena, &t->fields, &t->n_fields, j->err);
  if (status == PZ_OK && t->has_best) status = tell_change(j, &t->best);
  if (status == PZ_OK && t->has_overlapped) status = tell_change(j, &t->overlapped);
  for (uint32_t i = 0; i < t->n_changes && status == PZ_OK; i++)
    status = tell_change(j, &t->changes[i]);
  return status;
}

static enum pz_status tune(struct tuning_job *j) {
  enum pz_status status = predict_own(j);
  if (status == PZ_OK) status = pz_neighbourhood_of(&j->job, &j->own, &j->near, j->err);
  struct pz_error why = {0};
  if (status == PZ_OK) (void)pz_framework_can(&j->own, &j->near.model, &why);
  pz_text_copy(j->out->own.refusal, sizeof j->out->own.refusal, why.message);
  if (status != PZ_OK) return status;
  j->r.layers = j->near.layers;
  j->near.limit_bytes = j->out->limit_bytes;
  j->near.etp_is_tp = j->own.etp && !j->r.from[PZ_PLAN_ETP];
  /* transfers beside compute come by themselves where stages have chunks, unless the run turns them off */
  struct pz_plan chunks = j->own;
  chunks.pp = chunks.vpp = 2;
  chunks.overlap = 0;
  bool by_itself = pz_framework_overlap(&chunks, NULL) & PZ_OVERLAP_P2P;
  if (by_itself && !j->r.p2p_off) j->near.overlap |= PZ_OVERLAP_P2P;
  status = find_plans(j);
  if (status == PZ_OK) status = find_changes(j);
  return status == PZ_OK ? tell_all(j) : status;
}

struct pz_tune_options pz_tune_options_default(void) {
  return (struct pz_tune_options){.size = sizeof(struct pz_tune_options),
                                  .seconds = PZ_PLAN_SECONDS};
}

/* All parts of the step longer, or shorter, until it takes what was measured. */
static enum pz_status correct(struct pz_job *job, const struct pz_plan *plan, double measured_s,
                              struct pz_chip *chip, double *uncorrected_s, struct pz_error *err) {
  struct pz_prediction p;
  enum pz_status status = pz_predict(job, plan, &p, NULL, err);
  if (status == PZ_OK) status = pz_measured_step_check("measured", &p, measured_s, err);
  if (status != PZ_OK) return status;
  *uncorrected_s = p.step_s;
  job->chip = chip;
  for (int again = 0; again < 4 && status == PZ_OK; again++) { /* some latencies stay */
    for (int f = 0; f < PZ_CORRECTION_FACTORS; f++) {
      double *factor = pz_correction_factor(&chip->correction, f);
      *factor = pz_fmin(pz_fmax(pz_corrected(*factor) * measured_s / p.step_s, 0.1), 10);
    }
    status = pz_predict(job, plan, &p, NULL, err);
  }
  return status;
}

enum pz_status pz_plan_tune(const struct pz_run_plan *r, const struct pz_chip *chip,
                            const struct pz_cluster *net, const struct pz_tune_options *options,
                            struct pz_plan_tuning **out, struct pz_error *err) {
  struct pz_tune_options o = pz_tune_options_default();
  struct tuning_job j = {.r = pz_run_plan_default(), .err = err};
  struct pz_progress progress;
  struct pz_cluster wide;
  struct pz_chip corrected;
  double uncorrected_s = 0;
  atomic_bool stop = false;
  void *made = NULL;
  enum pz_status status = pz_need(r, "run", err);
  if (status == PZ_OK) status = pz_sized_take(&j.r, sizeof j.r, r, "pz_run_plan_default", err);
  if (status == PZ_OK)
    status = pz_sized_take(&o, sizeof o, options, "pz_tune_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {j.r.model, "model"}, {out, "out"});
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK && !(o.seconds >= 0 && o.seconds <= 1e9))
    status = pz_fail(err, PZ_BAD_USE, "seconds %g; accepted: 0 (none) to 1e9", o.seconds);
  if (status == PZ_OK) status = pz_plan_fill(&j.r.plan, chip, err);
  j.job = (struct pz_job){.model = j.r.model, .config = j.r.config, .chip = chip};
  if (status == PZ_OK) status = pz_cluster_take(net, j.r.plan.devices, &wide, &j.job.net, err);
  if (status == PZ_OK && o.measured_s > 0) {
    corrected = *chip;
    status = correct(&j.job, &j.r.plan, o.measured_s, &corrected, &uncorrected_s, err);
  }
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the tuning", &made, &j.arena, err);
  if (status != PZ_OK) return status;
  if (o.progress) pz_progress_start_call(&progress, o.progress, o.ctx, &stop);
  j.progress = o.progress ? &progress : NULL;
  j.threads = o.threads;
  j.seconds = o.seconds / 2;
  if (!j.r.megatron) j.r.p2p_off = j.r.plan.vpp > 1 && !pz_plan_overlaps(&j.r.plan, PZ_OVERLAP_P2P);
  j.out = made;
  j.out->uncorrected_s = uncorrected_s;
  pz_vec_init(&j.found, j.arena, sizeof(struct pz_plan_change));
  status = tune(&j);
  return pz_held_give(status, made, out);
}

void pz_plan_tuning_free(struct pz_plan_tuning *t) { pz_held_free(t); }
