/* The original system's partition of a model: pz_partition_model(), and the description of a plan.
 *
 * pz_partition_model() builds the variants of the model, chooses the best plans (best.h), and describes each with
 * pz_partition_describe(): stages with their layers and memory, and the parts of the step.  The tables of fields in the
 * middle are the JSON form of the description. */
#include "partition/partition.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "core/options.h"
#include "core/text.h"
#include "core/vec.h"
#include "partition/best.h"

/* ---- the description of a plan -------------------------------------------------------------- */

/* Divides the step time into the parts of the slowest stage, because all other stages wait for it:
 * its compute, collectives and transfers, the pipeline bubble, and the gradient exchange. */
static struct pz_step_parts step_parts(const struct pz_place_model *model) {
  const struct pz_place_solution *plan = &model->plan;
  const struct pz_place_layer *layers = model->problem.widths[plan->width].layers;
  uint32_t slowest = 0;
  for (uint32_t k = 1; k < plan->n_stages; k++)
    if (plan->stages[k].load_s > plan->stages[slowest].load_s) slowest = k;
  const struct pz_stage *stage = &plan->stages[slowest];
  double microbatches = (double)pz_ceil_div(model->problem.microbatches, plan->replicas);
  double n_forwards = model->problem.recompute && slowest != plan->n_stages - 1 ? 2 : 1;
  double layers_s = 0, link_s = 0;
  for (uint32_t i = 0; i < stage->n; i++) {
    const struct pz_place_layer *layer = &layers[stage->layers[i]];
    layers_s += layer->fwd_s * n_forwards + layer->bwd_s;
    link_s += layer->link_s[PZ_FORWARD] * n_forwards + layer->link_s[PZ_BACKWARD];
  }
  return (struct pz_step_parts){.compute_s = microbatches * (layers_s - link_s),
                                .collectives_s = microbatches * link_s,
                                .transfers_s = microbatches * fmax(0, stage->load_s - layers_s),
                                .bubble_s = plan->maxload_s * (plan->n_stages - 1),
                                .exchange_s = plan->allreduce_s};
}

/* Describes the stages: devices, times, layers, and the terms of the memory formula in problem.h. */
static void describe_stages(struct pz_call *call, const struct pz_place_model *model,
                            struct pz_partition *out) {
  const struct pz_place_solution *plan = &model->plan;
  const struct pz_place_width *width = &model->problem.widths[plan->width];
  uint32_t stage_of[PZ_PLACE_MOST_LAYERS] = {0};
  for (uint32_t k = 0; k < plan->n_stages; k++)
    for (uint32_t i = 0; i < plan->stages[k].n; i++) stage_of[plan->stages[k].layers[i]] = k;
  out->stages = pz_alloc(call, plan->n_stages, sizeof *out->stages);
  for (uint32_t k = 0; k < plan->n_stages; k++) {
    const struct pz_stage *stage = &plan->stages[k];
    struct pz_stage_sum sum = pz_stage_sum(&model->problem, width, stage_of, k, plan->n_stages);
    out->stages[k] =
        (struct pz_partition_stage){.devices = stage->devices,
                                    .forward_s = sum.forward_s,
                                    .backward_s = sum.backward_s,
                                    .load_s = stage->load_s,
                                    .param_bytes = sum.param_bytes,
                                    .optimizer_bytes = (model->problem.state - 1) * sum.param_bytes,
                                    .activation_bytes = sum.act_bytes,
                                    .in_flight_bytes = sum.in_flight_bytes,
                                    .memory_bytes = stage->memory_bytes};
    out->devices_used += stage->devices * plan->replicas;
    /* consecutive layers with the same name are one entry with a count */
    struct pz_partition_layers *list = pz_alloc(call, stage->n, sizeof *list);
    uint32_t n = 0;
    for (uint32_t i = 0; i < stage->n; i++) {
      const char *name = width->layers[stage->layers[i]].name;
      if (n == 0 || strcmp(list[n - 1].name, name) != 0) list[n++].name = pz_copy_text(call, name);
      list[n - 1].count++;
    }
    out->stages[k].layers = list;
    out->stages[k].n_layers = n;
    out->stages[k].layer_count = stage->n;
  }
}

/* Describes the plan of a solved problem for users. */
struct pz_partition pz_partition_describe(struct pz_call *call, const struct pz_place_model *model,
                                          double lower_bound_s) {
  const struct pz_place_solution *plan = &model->plan;
  struct pz_partition out = {.pp = plan->n_stages,
                             .tp = model->problem.widths[plan->width].tp,
                             .dp = plan->replicas,
                             .batch = model->batch,
                             .mbs = model->mbs,
                             .seq = model->seq,
                             .microbatches =
                                 pz_ceil_div(model->problem.microbatches, plan->replicas),
                             .recompute = model->problem.recompute,
                             .hbm_bytes = model->problem.hbm_bytes,
                             .step_s = plan->time_s,
                             .lower_bound_s = lower_bound_s,
                             .slowest_stage_s = plan->maxload_s,
                             .parts = step_parts(model),
                             .samples_per_s = (double)model->batch / plan->time_s,
                             .tokens_per_s = (double)(model->batch * model->seq) / plan->time_s,
                             .n_open_schedules = model->n_open,
                             .worst_schedule_gap = model->worst_gap};
  describe_stages(call, model, &out);
  double peak_flop_per_s = (double)out.devices_used * model->peak_flop_per_s;
  out.flop_utilisation =
      model->sample_flop * (double)model->batch / (plan->time_s * peak_flop_per_s);
  return out;
}

/* ---- as text and JSON ----------------------------------------------------------------------- */

/* Writes the layers of a stage as "embedding, block x 12" into buf, and returns it. */
const char *pz_partition_stage_text(const struct pz_partition_stage *stage, char *buf,
                                    size_t size) {
  size_t length = 0;
  if (size) buf[0] = '\0';
  for (uint32_t i = 0; i < stage->n_layers && length + 1 < size; i++) {
    const struct pz_partition_layers *layer = &stage->layers[i];
    char repeated[16] = "";
    if (layer->count > 1) snprintf(repeated, sizeof repeated, " x %u", layer->count);
    int n =
        snprintf(buf + length, size - length, "%s%s%s", length ? ", " : "", layer->name, repeated);
    if (n > 0) length += (size_t)n;
  }
  return buf;
}

#define PART(f, meaning) PZ_ROW(struct pz_step_parts, f, PZ_FIELD_REAL, "s", meaning)
static const struct pz_field parts_fields[] = {
    PART(compute_s, "Operators"),
    PART(collectives_s, "Tensor-parallel collectives"),
    PART(transfers_s, "Transfers between stages"),
    PART(bubble_s, "Pipeline bubble"),
    PART(exchange_s, "All-reduce of gradients"),
};
static const struct pz_record parts_record = PZ_RECORD(parts_fields, struct pz_step_parts);

#define LAYERS struct pz_partition_layers
static const struct pz_field layers_fields[] = {
    PZ_ROW(LAYERS, name, PZ_FIELD_TEXT, NULL, "Layer"),
    PZ_ROW(LAYERS, count, PZ_FIELD_COUNT, NULL, "Successive layers of this name"),
};
static const struct pz_record layers_record = PZ_RECORD(layers_fields, LAYERS);

/* Returns the layers of a stage as a text for people, which is not read back. */
static json_t *write_layers(const void *value) {
  const struct pz_partition_stage *stage = value;
  char text[256];
  return json_string(pz_partition_stage_text(stage, text, sizeof text));
}
PZ_CODEC(layers, "text", NULL);

#define STAGE struct pz_partition_stage
#define BYTES(f, meaning) PZ_ROW(STAGE, f, PZ_FIELD_REAL, "B", meaning)
#define SECONDS(f, meaning) PZ_ROW(STAGE, f, PZ_FIELD_REAL, "s", meaning)
static const struct pz_field stage_fields[] = {
    PZ_ROW_MADE("layers", &layers_codec, NULL, "Layers, for people"),
    PZ_ROW_AS(STAGE, layer_count, PZ_FIELD_COUNT, "count", NULL, "Number of layers"),
    PZ_ROW(STAGE, devices, PZ_FIELD_INT, NULL, "Devices of one replica of the stage"),
    SECONDS(load_s, "Both passes of a microbatch"),
    BYTES(memory_bytes, "Memory of a device"),
    SECONDS(forward_s, "Forward pass of a microbatch"),
    SECONDS(backward_s, "Backward pass of a microbatch"),
    BYTES(param_bytes, "Weights of a device"),
    BYTES(optimizer_bytes, "Gradients and optimizer state of a device"),
    BYTES(activation_bytes, "Activations of the microbatch at hand"),
    BYTES(in_flight_bytes, "Activations of the other microbatches in flight"),
    PZ_ROW_MANY(STAGE, layers, n_layers, PZ_FIELD_LIST, "layer_runs", &layers_record,
                "Layers in order"),
};
static const struct pz_record stage_record = PZ_RECORD(stage_fields, STAGE);

#define PLAN struct pz_partition
#define REAL(f, unit, meaning) PZ_ROW(PLAN, f, PZ_FIELD_REAL, unit, meaning)
#define COUNT(f, key, t, meaning) PZ_ROW_AS(PLAN, f, t, key, NULL, meaning)
static const struct pz_field plan_fields[] = {
    REAL(step_s, "s", "Time of a training step"),
    REAL(lower_bound_s, "s", "Proven lower bound of the step"),
    COUNT(tp, "tensor_parallel", PZ_FIELD_INT, "Tensor-parallel degree"),
    COUNT(dp, "data_parallel", PZ_FIELD_INT, "Replicas"),
    COUNT(mbs, "microbatch", PZ_FIELD_INT, "Microbatch size in samples"),
    COUNT(recompute, "recompute", PZ_FIELD_BOOL, "Activations are recomputed"),
    REAL(samples_per_s, "1/s", "Samples per second"),
    REAL(tokens_per_s, "1/s", "Tokens per second"),
    REAL(flop_utilisation, "ratio", "Share of the peak FLOP/s of the devices used"),
    PZ_ROW_IN(PLAN, parts, PZ_FIELD_STRUCT, "parts", &parts_record,
              "Parts of the step, which add up to step_s"),
    REAL(worst_schedule_gap, "ratio", "Largest gap of a layer's schedule"),
    COUNT(n_open_schedules, "open_schedules", PZ_FIELD_COUNT,
          "Layer schedules that are not proven optimal"),
    COUNT(devices_used, "devices_used", PZ_FIELD_INT, "Devices that the plan uses"),
    COUNT(pp, "n_stages", PZ_FIELD_COUNT, "Pipeline stages"),
    COUNT(batch, "batch_samples", PZ_FIELD_INT, "Samples of a step"),
    COUNT(seq, "seq_tokens", PZ_FIELD_INT, "Tokens of a sample"),
    COUNT(microbatches, "microbatches", PZ_FIELD_INT, "Microbatches of each replica in a step"),
    REAL(slowest_stage_s, "s", "Time of the slowest stage for a microbatch"),
    REAL(hbm_bytes, "B", "Memory of a device"),
    PZ_ROW_MANY(PLAN, stages, pp, PZ_FIELD_LIST, "stages", &stage_record, "Stages of the pipeline",
                .omitted = PZ_OMITTED_IF_NULL),
};
const struct pz_record pz_partition_record = PZ_RECORD(plan_fields, struct pz_partition);
/* The last field has the stages. */
const struct pz_record pz_partition_brief_record = {
    plan_fields, sizeof plan_fields / sizeof *plan_fields - 1, sizeof(struct pz_partition)};

/* ---- the best plans of a model on a chip ---------------------------------------------------- */

/* The largest tensor-parallel degree and microbatch size that are tried by default. */
enum { MOST_TP = 64, MOST_MBS = 8 };

struct variant_list {
  struct pz_workload *whole; /* the undivided model */
  struct pz_variant *variants;
  uint32_t n;
  double sample_flop; /* work of all GEMMs of the model for a sample, forward and backward */
};

/* Bytes of weights, gradients and optimizer state for each byte of weights: the published program's
 * factor for Adam. */
static const double ADAM_STATE = 3;

struct pz_partition_options pz_partition_options_default(void) {
  return (struct pz_partition_options){.size = sizeof(struct pz_partition_options),
                                       .devices = 1024,
                                       .batch = 4096,
                                       .recompute = PZ_AS_FRAMEWORK,
                                       .state = ADAM_STATE,
                                       .steps = PZ_LAYER_STEPS,
                                       .workload = pz_workload_options_default()};
}

/* Checks the ranges of the options. */
static void check_options(struct pz_call *call, const struct pz_partition_options *options) {
  pz_require_range(call, "devices", options->devices, 1, 1 << 30);
  pz_require_range(call, "batch", options->batch, 1, 1 << 30);
  pz_choices_require(call, "mbs", &options->mbs, 0);
  pz_choices_require(call, "tp", &options->tp, 0);
  pz_require_range(call, "steps", options->steps, 1, INT64_MAX);
  pz_require_range(call, "n_next", options->n_next, 0, 999);
  if (options->recompute != PZ_AS_FRAMEWORK && options->recompute != PZ_RECOMPUTATION_NONE &&
      options->recompute != PZ_RECOMPUTATION_FULL)
    pz_raise(call, PZ_BAD_USE, "recompute %d; accepted: none (%d), full (%d), or searched (%d)",
             options->recompute, PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_FULL, PZ_AS_FRAMEWORK);
  if (!(options->state >= 1 && options->state <= 100))
    pz_raise(call, PZ_BAD_USE, "state: %g; accepted: 1 to 100", options->state);
  if (!(options->hbm_bytes >= 0 && options->hbm_bytes < 1e18))
    pz_raise(call, PZ_BAD_USE, "hbm_bytes: %g; accepted: 0 and above", options->hbm_bytes);
}

/* Frees all workloads of a variant list (a callback of pz_defer). */
static void free_workloads(void *variant_list) {
  const struct variant_list *list = variant_list;
  pz_workload_free(list->whole);
  for (uint32_t i = 0; i < list->n; i++) pz_workload_free(list->variants[i].w);
}

/* Builds a variant for each microbatch size and tensor-parallel degree.  Variants that are not
 * possible are left out, with a note to the caller.  The workloads are freed when the call ends. */
static struct variant_list *build_variants(struct pz_call *call, const char *model,
                                           const struct pz_partition_options *options,
                                           int64_t most_devices) {
  struct variant_list *list = pz_alloc(call, 1, sizeof *list);
  struct pz_choices mbs = options->mbs, tp = options->tp;
  if (!mbs.n) mbs = pz_choices_powers(pz_min(options->batch, MOST_MBS));
  if (!tp.n) tp = pz_choices_powers(pz_min(options->devices, MOST_TP));
  struct pz_variant_choices choices = {&mbs, &tp, options->batch,
                                       pz_min(options->devices, most_devices)};
  struct pz_vec notes;
  pz_vec_init(&notes, call->arena, sizeof(struct pz_note));

  pz_defer(call, free_workloads, list);
  pz_must(call, pz_workload_load(model, &options->workload, &list->whole, pz_call_error(call)));
  const struct pz_totals *totals = &list->whole->totals;
  list->sample_flop = (double)(totals->matmul_forward_flop + totals->matmul_backward_flop);
  if (list->whole->warning) pz_note_add(call, &notes, 0, list->whole->warning);
  list->variants = pz_alloc(call, (size_t)tp.n * (size_t)mbs.n, sizeof *list->variants);
  list->n = pz_variants_load(call, model, &choices, &options->workload, &notes, list->variants);
  for (uint32_t i = 0; i < notes.n && options->note; i++) {
    const struct pz_note *note = pz_vec_at(&notes, struct pz_note, i);
    options->note(options->note_ctx, note->lists, note->text);
  }
  return list;
}

/* Raises an error that names the least memory with which a plan would fit. */
_Noreturn static void raise_no_plan(struct pz_call *call,
                                    const struct pz_partition_options *options,
                                    const struct variant_list *list,
                                    const struct pz_plan_list *found) {
  const struct pz_fit *fit = &found->fit;
  const struct pz_variant *variant = &list->variants[found->fit_variant];
  char given[32], needed[32], params[32];
  if (fit->hbm_bytes == DBL_MAX)
    pz_raise(call, PZ_NO_ANSWER, "no feasible plan on %" PRId64 " device%s; more are needed",
             options->devices, pz_text_s((double)options->devices));
  pz_raise(call, PZ_NO_ANSWER,
           "no feasible plan with %s of HBM per device; the minimum is %s, with tensor parallel "
           "%" PRId64 ", microbatch %" PRId64 ", activations %s, where stage %u of %u has "
           "%u layer%s with %s of parameters",
           pz_text_si(given, sizeof given, options->hbm_bytes, "B"),
           pz_text_si(needed, sizeof needed, fit->hbm_bytes, "B"), variant->tp, variant->mbs,
           found->fit_recompute ? "recomputed" : "kept", fit->stage + 1, fit->n_stages,
           fit->n_layers, pz_text_s(fit->n_layers),
           pz_text_si(params, sizeof params, fit->param_bytes, "B"));
}

struct partition_args {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_partition_options *options;
  struct pz_partitions **out;
};

/* The body of pz_partition_model(): checks the arguments, finds the best plans of a model on a
 * chip, and describes them for the caller. */
static void partition_model(struct pz_call *call, void *ctx) {
  const struct partition_args *args = ctx;
  struct pz_partition_options options = pz_partition_options_default();
  struct pz_cluster wide;
  pz_require_options(call, &options, sizeof options, args->options, "pz_partition_options_default");
  pz_require(call, args->model, "model");
  pz_require(call, args->out, "out");
  pz_chip_check(call, args->chip);
  check_options(call, &options);
  const struct pz_cluster *net = pz_cluster_widen(call, args->net, options.devices, &wide);
  if (!(options.hbm_bytes > 0)) options.hbm_bytes = (double)pz_chip_hbm_bytes(args->chip);
  struct pz_cost *cost = pz_alloc(call, 1, sizeof *cost);
  pz_cost_init(cost, args->chip, net);
  pz_defer(call, pz_cost_release, cost);
  if (!cost->net.n_levels)
    pz_raise(call, PZ_BAD_INPUT, "chip %s has no link between devices; set link.bytes_per_s",
             args->chip->name);
  const struct variant_list *list = build_variants(call, args->model, &options, cost->net.devices);
  const struct pz_plan_inputs inputs = {
      .cost = cost,
      .variants = list->variants,
      .n_variants = list->n,
      .devices = options.devices,
      .batch = options.batch,
      .hbm_bytes = options.hbm_bytes,
      .state = options.state,
      .sample_flop = list->sample_flop,
      .semantics = options.first_stage_gradients ? PZ_SEMANTICS_ORIGINAL : PZ_SEMANTICS_CORRECTED,
      .recompute = options.recompute,
      .quick_steps = options.steps,
      .steps = options.steps,
      .check = options.check};
  struct pz_plan_list found = pz_plan_list_best(call, &inputs, options.n_next);
  if (!found.n) raise_no_plan(call, &options, list, &found);
  struct pz_call result_call;
  struct pz_partitions *out = pz_object_new(call, sizeof *out, &result_call);
  out->n_plans = found.n;
  out->plans = pz_alloc(&result_call, found.n, sizeof *out->plans);
  for (uint32_t i = 0; i < found.n; i++)
    out->plans[i] = pz_partition_describe(&result_call, &found.plans[i], found.lower_bound_s);
  *args->out = pz_object_keep(call, out);
}

enum pz_status pz_partition_model(const char *model, const struct pz_chip *chip,
                                  const struct pz_cluster *net,
                                  const struct pz_partition_options *options,
                                  struct pz_partitions **out, struct pz_error *err) {
  struct partition_args args = {model, chip, net, options, out};
  return pz_border(partition_model, &args, err);
}

void pz_partitions_free(struct pz_partitions *partitions) { pz_object_free(partitions); }
