#include "place/plan_tuning.h"
#include "plan/plan_fill.h"

#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "place/neighbours.h"
#include "plan/framework_rules.h"
#include "step/expected_error.h"

/* A change that brings less is none: below what the model can tell apart. */
static const double LEAST_GAIN = 1e-3;

struct tuning_job {
  const struct pz_run_plan *r;
  struct pz_job job;
  const struct pz_tuning_options *o;
  struct pz_arena *arena;
  struct pz_tuning *out;
  struct pz_neighbourhood near;
  struct pz_plan own;  /* with the model's sequence length */
  struct pz_vec found; /* struct pz_tuned_plan */
  struct pz_error *err;
};

static enum pz_status predict_own(struct tuning_job *j) {
  struct pz_training_run *own = &j->out->own;
  struct pz_prediction_detail detail = {.arena = j->arena, .no_events = true};
  enum pz_status status = pz_predict(&j->job, &j->r->plan, &own->p, &detail, j->err);
  if (status == PZ_OK && !(isfinite(own->p.step_s) && isfinite(own->p.peak_bytes)))
    status = pz_fail(j->err, PZ_BAD_INPUT, "the prediction is not a finite number");
  if (status != PZ_OK) return status;
  own->plan = j->r->plan;
  own->plan.seq = (int64_t)(own->p.tokens / (double)own->plan.batch + 0.5);
  own->hbm_bytes = (double)pz_chip_hbm_bytes(j->job.chip);
  own->stages = detail.stages;
  own->layers = detail.layers;
  own->expected = pz_plan_expectation(&own->plan, &own->p, j->job.chip);
  bool runs = own->p.peak_bytes <= own->hbm_bytes;
  j->out->limit_bytes =
      runs ? pz_fmax(own->p.usable_bytes, own->p.peak_bytes) : own->p.usable_bytes;
  j->own = own->plan;
  return PZ_OK;
}

/* ---- single changes ------------------------------------------------------------------------- */

/* Kept where it fits and is worth it. */
static enum pz_status take_change(void *ctx, const struct pz_plan *plan,
                                  const struct pz_prediction *p, enum pz_plan_field field,
                                  bool *taken) {
  struct tuning_job *j = ctx;
  const struct pz_training_run *own = &j->out->own;
  struct pz_tuned_plan one = {.plan = *plan, .field = field, .p = *p};
  bool own_fits = own->p.peak_bytes <= j->out->limit_bytes;
  bool faster = p->step_s < own->p.step_s * (1 - LEAST_GAIN);
  j->out->n_tried++;
  *taken = p->peak_bytes <= j->out->limit_bytes && (faster || !own_fits);
  if (*taken && !pz_vec_push(&j->found, &one))
    return pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the plan's changes");
  return PZ_OK;
}

static int by_time(const void *a, const void *b) {
  const struct pz_tuned_plan *x = a, *y = b;
  if (x->p.step_s != y->p.step_s) return x->p.step_s < y->p.step_s ? -1 : 1;
  if (x->p.peak_bytes != y->p.peak_bytes) return x->p.peak_bytes < y->p.peak_bytes ? -1 : 1;
  return (x->field > y->field) - (x->field < y->field);
}

static enum pz_status find_changes(struct tuning_job *j) {
  enum pz_status status = pz_neighbours(&j->near, take_change, j, j->err);
  if (status != PZ_OK) return status;
  if (j->found.n) qsort(j->found.items, j->found.n, sizeof(struct pz_tuned_plan), by_time);
  j->out->changes = j->found.items;
  j->out->n_changes = j->found.n;
  return PZ_OK;
}

/* ---- the best plan -------------------------------------------------------------------------- */

/* The best plan where these overlaps are wanted. */
static enum pz_status find_best(struct tuning_job *j, int overlap, bool *has,
                                struct pz_tuned_plan *out, struct pz_plan_certificate *c) {
  struct pz_found_plans found;
  struct pz_plan wanted = j->own;
  struct pz_plan_question q;
  wanted.overlap = overlap;
  wanted.shard = wanted.ep = wanted.etp = wanted.recompute_modules = 0;
  wanted.stage_recompute = NULL;
  enum pz_status status = pz_plan_question_of(&j->job, &wanted, 0, &q, j->err);
  q.uniform = true;
  q.threads = j->o->threads;
  if (status == PZ_OK) status = pz_plan_search(&q, j->arena, &found, j->err);
  if (status != PZ_OK) return status;
  if (found.has_least) j->out->least_bytes = found.least.p.peak_bytes;
  *c = found.certificate;
  *has = found.n > 0;
  if (!*has) return PZ_OK;
  *out = (struct pz_tuned_plan){
      .plan = found.list[0].plan, .field = PZ_PLAN_FIELDS, .p = found.list[0].p};
  status = pz_plan_fill(&out->plan, j->job.chip, j->err);
  if (j->own.etp) out->plan.etp = pz_plan_etp(&out->plan);
  /* what such a plan has no use for */
  out->plan.overlap = pz_plan_overlap(&out->plan);
  return status;
}

/* A question without any plan (devices that fill no nodes ...) leaves the single changes. */
static enum pz_status find_plans(struct tuning_job *j) {
  struct pz_tuning *t = j->out;
  struct pz_plan_certificate unused;
  struct pz_error why = {0}, *err = j->err;
  j->err = &why;
  enum pz_status status = find_best(j, j->near.overlap, &t->has_best, &t->best, &t->certificate);
  if (status == PZ_OK && j->near.overlap != PZ_OVERLAP_ALL)
    status = find_best(j, PZ_OVERLAP_ALL, &t->has_overlapped, &t->overlapped, &unused);
  j->err = err;
  if (status == PZ_OK) return PZ_OK;
  if (status != PZ_BAD_USE && status != PZ_NO_ANSWER)
    return pz_fail(err, status, "%s", why.message);
  t->has_best = t->has_overlapped = false;
  t->why = pz_arena_strdup(j->arena, why.message);
  return t->why ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan's changes");
}

enum pz_status pz_plan_tune(const struct pz_run_plan *r, const struct pz_chip *chip,
                            const struct pz_cluster *net, const struct pz_tuning_options *o,
                            struct pz_arena *arena, struct pz_tuning *out, struct pz_error *err) {
  struct pz_tuning t = {.has_best = false};
  struct tuning_job j = {.r = r,
                         .job = {.model = r->model, .config = r->config, .chip = chip, .net = net},
                         .o = o,
                         .arena = arena,
                         .out = &t,
                         .err = err};
  pz_vec_init(&j.found, arena, sizeof(struct pz_tuned_plan));
  enum pz_status status = predict_own(&j);
  if (status == PZ_OK) status = pz_neighbourhood_of(&j.job, &j.own, &j.near, err);
  if (status != PZ_OK) return status;
  t.layers = j.near.layers;
  j.near.etp_is_tp = j.own.etp && !r->from[PZ_PLAN_ETP];
  /* transfers beside compute come by themselves where stages have chunks, unless the run turns them off */
  struct pz_plan chunks = j.own;
  chunks.pp = chunks.vpp = 2;
  chunks.overlap = 0;
  bool by_itself = pz_framework_overlap(&chunks, NULL) & PZ_OVERLAP_P2P;
  if (by_itself && !o->p2p_off) j.near.overlap |= PZ_OVERLAP_P2P;
  status = find_plans(&j);
  if (status == PZ_OK) status = find_changes(&j);
  if (status == PZ_OK) *out = t;
  return status;
}
