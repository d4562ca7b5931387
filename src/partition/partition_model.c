/* The best plans of a model on a chip, as the public header has it. */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>

#include "chip/chip_json.h"
#include "core/alloc.h"
#include "core/choices.h"
#include "core/num.h"
#include "core/sized.h"
#include "core/text.h"
#include "core/vec.h"
#include "partition/best.h"

enum { MOST_DEGREE = 64, MOST_MICROBATCH = 8 }; /* of the lists where none is given */

/* Plans with the memory they lie in. */
struct owned {
  struct pz_partitions p; /* first: its address is the owner's */
  struct pz_arena arena;
};

struct job {
  const char *model;
  struct pz_partition_options o;
  struct pz_cost cost;
  struct owned *own;
  struct pz_arena work;
  struct pz_variant *variants;
  uint32_t n_variants;
  double sample_flop, hbm_bytes;
  struct pz_vec notes; /* struct pz_note */
  struct pz_error *err;
};

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
}

struct pz_partition_options pz_partition_options_default(void) {
  return (struct pz_partition_options){.size = sizeof(struct pz_partition_options),
                                       .devices = 1024,
                                       .batch = 4096,
                                       .recompute = PZ_AS_FRAMEWORK,
                                       .state = 3,
                                       .steps = PZ_LAYER_STEPS,
                                       .workload = pz_workload_options_default()};
}

/* ---- checks --------------------------------------------------------------------------------- */

static enum pz_status check_options(const struct pz_partition_options *o, struct pz_error *err) {
  enum pz_status status = pz_need_range("devices", o->devices, 1, 1 << 30, err);
  if (status == PZ_OK) status = pz_need_range("batch", o->batch, 1, 1 << 30, err);
  if (status == PZ_OK) status = pz_choices_check("mbs", &o->mbs, 0, err);
  if (status == PZ_OK) status = pz_choices_check("tp", &o->tp, 0, err);
  if (status == PZ_OK) status = pz_need_range("steps", o->steps, 1, INT64_MAX, err);
  if (status != PZ_OK) return status;
  if (o->recompute != PZ_AS_FRAMEWORK && o->recompute != PZ_RECOMPUTATION_NONE &&
      o->recompute != PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE, "recompute: %d; accepted: none, full, or as is faster",
                   o->recompute);
  if (!(o->state >= 1 && o->state <= 100))
    return pz_fail(err, PZ_BAD_USE, "state: %g; accepted: 1 to 100", o->state);
  if (!(o->hbm_bytes >= 0 && o->hbm_bytes < 1e18))
    return pz_fail(err, PZ_BAD_USE, "hbm_bytes: %g; accepted: 0 and above", o->hbm_bytes);
  return PZ_OK;
}

/* ---- variants ------------------------------------------------------------------------------- */

/* The undivided model: is it known, what must be said of it, how much work is a sample? */
static enum pz_status look_at(struct job *j, const struct pz_workload_options *how) {
  struct pz_workload *made = NULL;
  enum pz_status status = pz_workload_load(j->model, how, &made, j->err);
  if (status != PZ_OK) return status;
  if (made->warning) status = pz_note_add(&j->notes, 0, made->warning, j->err);
  j->sample_flop = (double)(made->totals.matmul_forward_flop + made->totals.matmul_backward_flop);
  pz_workload_free(made);
  return status;
}

/* Each microbatch size at each tensor-parallel degree; what cannot be is left out, with a note. */
static enum pz_status build_variants(struct job *j) {
  struct pz_choices mbs = j->o.mbs, tp = j->o.tp;
  struct pz_workload_options how = j->o.workload;
  struct pz_variant_choices choices = {&mbs, &tp, j->o.batch,
                                       pz_min(j->o.devices, j->cost.net.devices)};
  if (!mbs.n) mbs = pz_choices_powers(pz_min(j->o.batch, MOST_MICROBATCH));
  if (!tp.n) tp = pz_choices_powers(pz_min(j->o.devices, MOST_DEGREE));
  j->variants = pz_arena_alloc(&j->work, (size_t)(tp.n * mbs.n), sizeof *j->variants);
  if (!j->variants) return no_memory(j->err);
  enum pz_status status = look_at(j, &how);
  return status == PZ_OK ? pz_variants_load(j->model, &choices, &how, &j->notes, j->variants,
                                            &j->n_variants, j->err)
                         : status;
}

/* ---- solving -------------------------------------------------------------------------------- */

static enum pz_status say_what_is_missing(const struct job *j, const struct pz_plan_list *found) {
  const struct pz_fit *fit = &found->fit;
  const struct pz_variant *v = &j->variants[found->fit_variant];
  char has[32], wants[32], params[32];
  if (fit->hbm_bytes == DBL_MAX)
    return pz_fail(j->err, PZ_NO_ANSWER,
                   "no feasible plan on %" PRId64 " device%s; more are needed", j->o.devices,
                   pz_text_s((double)j->o.devices));
  return pz_fail(
      j->err, PZ_NO_ANSWER,
      "no feasible plan with %s of HBM per device; the minimum is %s, with tensor parallel "
      "%" PRId64 ", microbatch %" PRId64 ", activations %s, where stage %u of %u has "
      "%u layer%s with %s of parameters",
      pz_text_si(has, sizeof has, j->hbm_bytes, "B"),
      pz_text_si(wants, sizeof wants, fit->hbm_bytes, "B"), v->tp, v->mbs,
      found->fit_recompute ? "recomputed" : "kept", fit->stage + 1, fit->n_stages, fit->n_layers,
      pz_text_s(fit->n_layers), pz_text_si(params, sizeof params, fit->param_bytes, "B"));
}

static void tell_notes(const struct job *j) {
  for (uint32_t i = 0; i < j->notes.n && j->o.note; i++) {
    const struct pz_note *note = pz_vec_at(&j->notes, struct pz_note, i);
    j->o.note(j->o.note_ctx, note->lists, note->text);
  }
}

static enum pz_status solve(struct job *j) {
  struct pz_plan_list found = {0};
  enum pz_status status = build_variants(j);
  if (status != PZ_OK) return status;
  tell_notes(j);
  const struct pz_plan_inputs in = {
      .cost = &j->cost,
      .variants = j->variants,
      .n_variants = j->n_variants,
      .devices = j->o.devices,
      .batch = j->o.batch,
      .hbm_bytes = j->hbm_bytes,
      .state = j->o.state,
      .sample_flop = j->sample_flop,
      .semantics = j->o.first_stage_gradients ? PZ_SEMANTICS_ORIGINAL : PZ_SEMANTICS_CORRECTED,
      .recompute = j->o.recompute,
      .quick_steps = j->o.steps,
      .steps = j->o.steps,
      .check = j->o.check};
  status = pz_plan_best(&in, j->o.n_next, &j->own->arena, &found, j->err);
  if (status == PZ_OK && !found.n) status = say_what_is_missing(j, &found);
  if (status != PZ_OK) return status;
  j->own->p.plans = found.plans;
  j->own->p.n_plans = found.n;
  return PZ_OK;
}

/* ---- for programs --------------------------------------------------------------------------- */

static enum pz_status run(struct job *j, const struct pz_chip *chip, const struct pz_cluster *net) {
  struct pz_cluster wide = {.devices = 0};
  enum pz_status status = PZ_OK;
  if (net) {
    wide = *net;
    status = pz_cluster_reach(&wide, j->o.devices, "devices", j->err);
  }
  if (status != PZ_OK) return status;
  pz_cost_init(&j->cost, chip, net ? &wide : NULL);
  if (!j->cost.net.n_levels) {
    pz_cost_release(&j->cost);
    return pz_fail(j->err, PZ_BAD_INPUT,
                   "chip %s has no link between devices; set link.bytes_per_s", chip->name);
  }
  pz_arena_init(&j->work, NULL);
  pz_vec_init(&j->notes, &j->work, sizeof(struct pz_note));
  j->hbm_bytes = j->o.hbm_bytes > 0 ? j->o.hbm_bytes : (double)pz_chip_hbm_bytes(chip);
  status = solve(j);
  for (uint32_t i = 0; i < j->n_variants; i++) pz_workload_free(j->variants[i].w);
  pz_arena_release(&j->work);
  pz_cost_release(&j->cost);
  return status == PZ_NO_MEMORY ? no_memory(j->err) : status;
}

enum pz_status pz_partition_model(const char *model, const struct pz_chip *chip,
                                  const struct pz_cluster *net,
                                  const struct pz_partition_options *options,
                                  struct pz_partitions **out, struct pz_error *err) {
  struct job j = {.model = model, .o = pz_partition_options_default(), .err = err};
  enum pz_status status =
      pz_sized_take(&j.o, sizeof j.o, options, "pz_partition_options_default", err);
  if (status == PZ_OK) status = pz_need(model, "model", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK && net) status = pz_cluster_check(net, err);
  if (status == PZ_OK) status = check_options(&j.o, err);
  if (status != PZ_OK) return status;
  j.own = pz_calloc(1, sizeof *j.own);
  if (!j.own) return no_memory(err);
  pz_arena_init(&j.own->arena, NULL);
  status = run(&j, chip, net);
  if (status == PZ_OK)
    *out = &j.own->p;
  else
    pz_partitions_free(&j.own->p);
  return status;
}

void pz_partitions_free(struct pz_partitions *p) {
  struct owned *own = (struct owned *)(void *)p;
  if (!own) return;
  pz_arena_release(&own->arena);
  pz_free(own);
}
