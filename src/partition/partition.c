#include "partition/partition.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/held.h"
#include "core/num.h"
#include "core/options.h"
#include "core/text.h"
#include "core/vec.h"
#include "partition/best.h"

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
}

/* ---- a plan from its solution --------------------------------------------------------------- */

/* All stages wait for the slowest, so the step is what it does, and the time it waits itself. */
static struct pz_step_parts step_parts(const struct pz_place_model *m) {
  const struct pz_place_solution *plan = &m->plan;
  const struct pz_stage *s = &plan->stages[0];
  const struct pz_place_layer *layers = m->p.widths[plan->width].layers;
  for (uint32_t k = 1; k < plan->n_stages; k++)
    if (plan->stages[k].load_s > s->load_s) s = &plan->stages[k];
  double own = 0, link = 0, microbatches = (double)pz_ceil_div(m->p.microbatches, plan->d);
  double forwards = m->p.recompute && s != &plan->stages[plan->n_stages - 1] ? 2 : 1;
  for (uint32_t i = 0; i < s->n; i++) {
    const struct pz_place_layer *l = &layers[s->layers[i]];
    own += l->fwd_s * forwards + l->bwd_s;
    link += l->link_s[PZ_FORWARD] * forwards + l->link_s[PZ_BACKWARD];
  }
  return (struct pz_step_parts){.compute_s = microbatches * (own - link),
                                .collectives_s = microbatches * link,
                                .transfers_s = microbatches * fmax(0, s->load_s - own),
                                .bubble_s = plan->maxload_s * (plan->n_stages - 1),
                                .exchange_s = plan->allreduce_s};
}

/* Its layers in the order of the model: those of one name that follow each other are one entry. */
static bool list_layers(const struct pz_place_layer *layers, const struct pz_stage *s,
                        struct pz_arena *arena, struct pz_partition_stage *out) {
  struct pz_partition_layers *list = pz_arena_alloc(arena, s->n, sizeof *list);
  for (uint32_t i = 0; list && i < s->n; i++) {
    const char *name = layers[s->layers[i]].name;
    if (!out->n_layers || strcmp(list[out->n_layers - 1].name, name) != 0) {
      list[out->n_layers].name = pz_arena_strdup(arena, name);
      if (!list[out->n_layers++].name) return false;
    }
    list[out->n_layers - 1].count++;
  }
  out->layers = list;
  out->layer_count = s->n;
  return list;
}

/* memory = state P + A + (i - 1) K of the i-th stage from the end (problem.h), told apart. */
static enum pz_status make_stages(const struct pz_place_model *m, struct pz_arena *arena,
                                  struct pz_partition *out) {
  const struct pz_place_solution *plan = &m->plan;
  const struct pz_place_width *w = &m->p.widths[plan->width];
  uint32_t stage[PZ_PLACE_MOST_LAYERS] = {0};
  out->stages = pz_arena_alloc(arena, plan->n_stages, sizeof *out->stages);
  if (!out->stages) return PZ_NO_MEMORY;
  for (uint32_t k = 0; k < plan->n_stages; k++)
    for (uint32_t i = 0; i < plan->stages[k].n; i++) stage[plan->stages[k].layers[i]] = k;
  for (uint32_t k = 0; k < plan->n_stages; k++) {
    const struct pz_stage *s = &plan->stages[k];
    struct pz_stage_sum sum = pz_stage_sum(&m->p, w, stage, k, plan->n_stages);
    out->stages[k] =
        (struct pz_partition_stage){.devices = s->devices,
                                    .forward_s = sum.forward_s,
                                    .backward_s = sum.backward_s,
                                    .load_s = s->load_s,
                                    .param_bytes = sum.param_bytes,
                                    .optimizer_bytes = (m->p.state - 1) * sum.param_bytes,
                                    .activation_bytes = sum.act_bytes,
                                    .in_flight_bytes = sum.in_flight_bytes,
                                    .memory_bytes = s->memory_bytes};
    out->devices_used += s->devices * plan->d;
    if (!list_layers(w->layers, s, arena, &out->stages[k])) return PZ_NO_MEMORY;
  }
  return PZ_OK;
}

enum pz_status pz_partition_make(const struct pz_place_model *m, double lower_bound_s,
                                 struct pz_arena *arena, struct pz_partition *out,
                                 struct pz_error *err) {
  const struct pz_place_solution *plan = &m->plan;
  struct pz_partition made = {.pp = plan->n_stages,
                              .tp = m->p.widths[plan->width].t,
                              .dp = plan->d,
                              .batch = m->batch,
                              .mbs = m->mbs,
                              .seq = m->seq,
                              .microbatches = pz_ceil_div(m->p.microbatches, plan->d),
                              .recompute = m->p.recompute,
                              .hbm_bytes = m->p.hbm_bytes,
                              .step_s = plan->time_s,
                              .lower_bound_s = lower_bound_s,
                              .slowest_stage_s = plan->maxload_s,
                              .parts = step_parts(m),
                              .samples_per_s = (double)m->batch / plan->time_s,
                              .tokens_per_s = (double)(m->batch * m->seq) / plan->time_s,
                              .n_open_schedules = m->n_open,
                              .worst_schedule_gap = m->worst_gap};
  if (make_stages(m, arena, &made) != PZ_OK) return no_memory(err);
  double peak = (double)made.devices_used * m->peak_flop_per_s;
  made.flop_utilisation = m->sample_flop * (double)m->batch / (plan->time_s * peak);
  *out = made;
  return PZ_OK;
}

/* ---- as text and JSON ----------------------------------------------------------------------- */

const char *pz_partition_stage_text(const struct pz_partition_stage *s, char *buf, size_t size) {
  size_t at = 0;
  if (size) buf[0] = '\0';
  for (uint32_t i = 0; i < s->n_layers && at + 1 < size; i++) {
    const struct pz_partition_layers *l = &s->layers[i];
    int wrote = snprintf(buf + at, size - at, l->count > 1 ? "%s%s x %u" : "%s%s", at ? ", " : "",
                         l->name, l->count);
    at += wrote > 0 ? (size_t)wrote : 0;
  }
  return buf;
}

static const struct pz_field parts_fields[] = {
    PZ_FIELD(struct pz_step_parts, compute_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, collectives_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, transfers_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, bubble_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, exchange_s, PZ_FIELD_REAL)};
static const struct pz_record parts_record = PZ_RECORD(parts_fields, struct pz_step_parts);

static const struct pz_field layers_fields[] = {
    PZ_FIELD(struct pz_partition_layers, name, PZ_FIELD_TEXT),
    PZ_FIELD(struct pz_partition_layers, count, PZ_FIELD_COUNT)};
static const struct pz_record layers_record = PZ_RECORD(layers_fields, struct pz_partition_layers);

/* The layers in words, for people: not read back. */
static json_t *write_layers(const void *value) {
  const struct pz_partition_stage *s = value;
  char text[256];
  return json_string(pz_partition_stage_text(s, text, sizeof text));
}

static const struct pz_field_codec layers_codec = {.write = write_layers};

static const struct pz_field stage_fields[] = {
    {.key = "layers", .type = PZ_FIELD_CUSTOM, .offset = 0, .codec = &layers_codec},
    PZ_FIELD_AS(struct pz_partition_stage, layer_count, PZ_FIELD_COUNT, "count"),
    PZ_FIELD(struct pz_partition_stage, devices, PZ_FIELD_INT),
    PZ_FIELD(struct pz_partition_stage, load_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, memory_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, forward_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, backward_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, param_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, optimizer_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, activation_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, in_flight_bytes, PZ_FIELD_REAL),
    PZ_FIELD_MANY(struct pz_partition_stage, layers, PZ_FIELD_LIST, "layer_runs", &layers_record)};
static const struct pz_record stage_record = PZ_RECORD(stage_fields, struct pz_partition_stage);

static const struct pz_field plan_fields[] = {
    PZ_FIELD(struct pz_partition, step_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, lower_bound_s, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_partition, tp, PZ_FIELD_INT, "tensor_parallel"),
    PZ_FIELD_AS(struct pz_partition, dp, PZ_FIELD_INT, "data_parallel"),
    PZ_FIELD_AS(struct pz_partition, mbs, PZ_FIELD_INT, "microbatch"),
    PZ_FIELD(struct pz_partition, recompute, PZ_FIELD_BOOL),
    PZ_FIELD(struct pz_partition, samples_per_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, tokens_per_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, flop_utilisation, PZ_FIELD_REAL),
    PZ_FIELD_IN(struct pz_partition, parts, PZ_FIELD_STRUCT, "parts", &parts_record),
    PZ_FIELD(struct pz_partition, worst_schedule_gap, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_partition, n_open_schedules, PZ_FIELD_COUNT, "open_schedules"),
    PZ_FIELD(struct pz_partition, devices_used, PZ_FIELD_INT),
    PZ_FIELD_AS(struct pz_partition, pp, PZ_FIELD_COUNT, "n_stages"),
    PZ_FIELD_AS(struct pz_partition, batch, PZ_FIELD_INT, "batch_samples"),
    PZ_FIELD_AS(struct pz_partition, seq, PZ_FIELD_INT, "seq_tokens"),
    PZ_FIELD(struct pz_partition, microbatches, PZ_FIELD_INT),
    PZ_FIELD(struct pz_partition, slowest_stage_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, hbm_bytes, PZ_FIELD_REAL),
    PZ_FIELD_MANY_AS(struct pz_partition, stages, pp, PZ_FIELD_LIST, "stages", &stage_record)};
const struct pz_record pz_partition_record = PZ_RECORD(plan_fields, struct pz_partition);

/* ---- the best plans of a model on a chip ---------------------------------------------------- */

enum { MOST_DEGREE = 64, MOST_MICROBATCH = 8 }; /* of the lists where none is given */

struct job {
  const char *model;
  struct pz_partition_options o;
  struct pz_cost cost;
  struct pz_arena work;
  struct pz_variant *variants;
  uint32_t n_variants;
  double sample_flop;
  struct pz_error *err;
};

struct pz_partition_options pz_partition_options_default(void) {
  return (struct pz_partition_options){.size = sizeof(struct pz_partition_options),
                                       .devices = 1024,
                                       .batch = 4096,
                                       .recompute = PZ_AS_FRAMEWORK,
                                       .state = 3,
                                       .steps = PZ_LAYER_STEPS,
                                       .workload = pz_workload_options_default()};
}

static enum pz_status check_options(const struct pz_partition_options *o, struct pz_error *err) {
  enum pz_status status = pz_need_range("devices", o->devices, 1, 1 << 30, err);
  if (status == PZ_OK) status = pz_need_range("batch", o->batch, 1, 1 << 30, err);
  if (status == PZ_OK) status = pz_choices_check("mbs", &o->mbs, 0, err);
  if (status == PZ_OK) status = pz_choices_check("tp", &o->tp, 0, err);
  if (status == PZ_OK) status = pz_need_range("steps", o->steps, 1, INT64_MAX, err);
  if (status == PZ_OK) status = pz_need_range("n_next", o->n_next, 0, 999, err);
  if (status != PZ_OK) return status;
  if (o->recompute != PZ_AS_FRAMEWORK && o->recompute != PZ_RECOMPUTATION_NONE &&
      o->recompute != PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE,
                   "recompute %d; accepted: none (%d), full (%d), or searched (%d)", o->recompute,
                   PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_FULL, PZ_AS_FRAMEWORK);
  if (!(o->state >= 1 && o->state <= 100))
    return pz_fail(err, PZ_BAD_USE, "state: %g; accepted: 1 to 100", o->state);
  if (!(o->hbm_bytes >= 0 && o->hbm_bytes < 1e18))
    return pz_fail(err, PZ_BAD_USE, "hbm_bytes: %g; accepted: 0 and above", o->hbm_bytes);
  return PZ_OK;
}

/* Each microbatch size at each tensor-parallel degree; what cannot be is left out, with a note. */
static enum pz_status build_variants(struct job *j) {
  struct pz_choices mbs = j->o.mbs, tp = j->o.tp;
  struct pz_workload_options how = j->o.workload;
  struct pz_variant_choices choices = {&mbs, &tp, j->o.batch,
                                       pz_min(j->o.devices, j->cost.net.devices)};
  struct pz_workload *whole = NULL; /* the undivided model: its work, and what must be said of it */
  struct pz_vec notes;
  pz_vec_init(&notes, &j->work, sizeof(struct pz_note));
  if (!mbs.n) mbs = pz_choices_powers(pz_min(j->o.batch, MOST_MICROBATCH));
  if (!tp.n) tp = pz_choices_powers(pz_min(j->o.devices, MOST_DEGREE));
  j->variants = pz_arena_alloc(&j->work, (size_t)tp.n * (size_t)mbs.n, sizeof *j->variants);
  if (!j->variants) return no_memory(j->err);
  enum pz_status status = pz_workload_load(j->model, &how, &whole, j->err);
  if (status != PZ_OK) return status;
  const struct pz_totals *sum = &whole->totals;
  j->sample_flop = (double)(sum->matmul_forward_flop + sum->matmul_backward_flop);
  if (whole->warning) status = pz_note_add(&notes, 0, whole->warning, j->err);
  pz_workload_free(whole);
  if (status == PZ_OK)
    status =
        pz_variants_load(j->model, &choices, &how, &notes, j->variants, &j->n_variants, j->err);
  for (uint32_t i = 0; i < notes.n && j->o.note && status == PZ_OK; i++) {
    const struct pz_note *note = pz_vec_at(&notes, struct pz_note, i);
    j->o.note(j->o.note_ctx, note->lists, note->text);
  }
  return status;
}

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
      pz_text_si(has, sizeof has, j->o.hbm_bytes, "B"),
      pz_text_si(wants, sizeof wants, fit->hbm_bytes, "B"), v->tp, v->mbs,
      found->fit_recompute ? "recomputed" : "kept", fit->stage + 1, fit->n_stages, fit->n_layers,
      pz_text_s(fit->n_layers), pz_text_si(params, sizeof params, fit->param_bytes, "B"));
}

static enum pz_status solve(struct job *j, struct pz_partitions *p, struct pz_arena *arena) {
  struct pz_plan_list found = {0};
  enum pz_status status = build_variants(j);
  const struct pz_plan_inputs in = {
      .cost = &j->cost,
      .variants = j->variants,
      .n_variants = j->n_variants,
      .devices = j->o.devices,
      .batch = j->o.batch,
      .hbm_bytes = j->o.hbm_bytes,
      .state = j->o.state,
      .sample_flop = j->sample_flop,
      .semantics = j->o.first_stage_gradients ? PZ_SEMANTICS_ORIGINAL : PZ_SEMANTICS_CORRECTED,
      .recompute = j->o.recompute,
      .quick_steps = j->o.steps,
      .steps = j->o.steps,
      .check = j->o.check};
  if (status == PZ_OK) status = pz_plan_best(&in, j->o.n_next, &j->work, &found, j->err);
  if (status == PZ_OK && !found.n) status = say_what_is_missing(j, &found);
  if (status != PZ_OK) return status;
  p->plans = pz_arena_alloc(arena, found.n, sizeof *p->plans);
  if (!p->plans) return no_memory(j->err);
  for (; p->n_plans < found.n && status == PZ_OK; p->n_plans++)
    status = pz_partition_make(&found.plans[p->n_plans], found.lower_bound_s, arena,
                               &p->plans[p->n_plans], j->err);
  return status;
}

enum pz_status pz_partition_model(const char *model, const struct pz_chip *chip,
                                  const struct pz_cluster *net,
                                  const struct pz_partition_options *options,
                                  struct pz_partitions **out, struct pz_error *err) {
  struct job j = {.model = model, .o = pz_partition_options_default(), .err = err};
  struct pz_cluster wide;
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status =
      pz_sized_take(&j.o, sizeof j.o, options, "pz_partition_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {model, "model"}, {out, "out"});
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK) status = check_options(&j.o, err);
  if (status == PZ_OK) status = pz_cluster_take(net, j.o.devices, &wide, &net, err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the plans", &made, &arena, err);
  if (status != PZ_OK) return status;
  if (!(j.o.hbm_bytes > 0)) j.o.hbm_bytes = (double)pz_chip_hbm_bytes(chip);
  pz_cost_init(&j.cost, chip, net);
  pz_arena_init(&j.work, NULL);
  status = j.cost.net.n_levels
               ? solve(&j, made, arena)
               : pz_fail(err, PZ_BAD_INPUT,
                         "chip %s has no link between devices; set link.bytes_per_s", chip->name);
  for (uint32_t i = 0; i < j.n_variants; i++) pz_workload_free(j.variants[i].w);
  pz_arena_release(&j.work);
  pz_cost_release(&j.cost);
  status = pz_held_give(status, made, out);
  return status == PZ_NO_MEMORY ? no_memory(err) : status;
}

void pz_partitions_free(struct pz_partitions *p) { pz_held_free(p); }
