/* A training plan as text (plan_text.h).
 *
 * pz_plan_text() prints the fields that a search decides, and pz_plan_line() prints a whole
 * plan. plan_words.c reads both texts: a new phrase must be added to its table. */
#include "plan/plan_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "plan/plan_fields.h"

/* A text under construction, which is cut off at the size of its buffer. */
struct line {
  char *buf;
  size_t size, length;
};

/* Appends formatted text to a line. */
PZ_PRINTF(2, 3) static void append(struct line *line, const char *format, ...) {
  va_list values;
  if (!line->size) return;
  va_start(values, format);
  int n = vsnprintf(line->buf + line->length, line->size - line->length, format, values);
  va_end(values);
  if (n <= 0) return;
  bool fits = (size_t)n < line->size - line->length;
  line->length = fits ? line->length + (size_t)n : line->size - 1;
}

/* Appends the precision of GEMMs and of the layers that stay in 16 bit, unless all are 16-bit, and
 * the adapters of a plan. */
static void append_precision(struct line *line, const struct pz_plan *plan) {
  char text[PZ_FIELD_TEXT_MOST];
  if (plan->precision == PZ_PRECISION_FP8) append(line, ", fp8 GEMMs");
  if (plan->precision == PZ_PRECISION_FP8 && plan->fp8_recipe >= 0)
    append(line, " (%s)", pz_plan_word(pz_fp8_recipe_names, plan->fp8_recipe));
  if (plan->precision == PZ_PRECISION_NVFP4) append(line, ", nvfp4 GEMMs");
  if (plan->bf16_first_layers)
    append(line, ", the first %lld layers bf16", (long long)plan->bf16_first_layers);
  if (plan->bf16_layers) append(line, ", the last %lld layers bf16", (long long)plan->bf16_layers);
  if (plan->bf16_modules)
    append(line, ", bf16 %s", pz_plan_field_text(plan, PZ_PLAN_BF16_MODULES, text, sizeof text));
  if (pz_plan_trains_adapters(plan))
    append(line, ", %s", pz_plan_field_text(plan, PZ_PLAN_PEFT, text, sizeof text));
}

/* Appends what is offloaded: ", activations of 12 layers a chunk and 50% of the optimizer on the
 * host". */
static void append_offload(struct line *line, const struct pz_plan *plan) {
  bool offloads_activations = plan->offload & PZ_OFFLOAD_ACTIVATIONS;
  double fraction = pz_plan_host_optimizer_fraction(plan);
  if (!plan->offload) return;
  append(line, ", ");
  if (offloads_activations && plan->offload_layers)
    append(line, "activations of %lld layers a chunk", (long long)plan->offload_layers);
  else if (offloads_activations)
    append(line, "activations%s", plan->offload_modules ? " of modules" : "");
  if (offloads_activations && fraction > 0) append(line, " and ");
  if (fraction > 0 && fraction < 1)
    append(line, "%.4g%% of the optimizer", 100 * fraction);
  else if (fraction > 0)
    append(line, "the optimizer");
  append(line, " on the host");
}

const char *pz_plan_text(const struct pz_plan *plan, char *buf, size_t size) {
  struct line line = {buf, size, 0};
  bool recomputes_some_layers =
      plan->recompute == PZ_RECOMPUTATION_FULL && (plan->stage_recompute || plan->recompute_layers);
  append(&line, "tp %lld%s", (long long)plan->tp, plan->sp && plan->tp > 1 ? " sp" : "");
  if (pz_plan_cp(plan) > 1)
    append(&line, ", cp %lld%s", (long long)plan->cp, plan->cp_form > 0 ? " (all-to-all)" : "");
  if (plan->ep > 1) append(&line, ", ep %lld", (long long)plan->ep);
  append(&line, ", pp %lld", (long long)plan->pp);
  if (plan->vpp > 1) append(&line, " x %lld", (long long)plan->vpp);
  if (plan->pp > 1 && plan->pipeline > PZ_PIPELINE_INTERLEAVED)
    append(&line, " in %s", pz_plan_word(pz_pipeline_names, plan->pipeline));
  append(&line, ", dp %lld, mbs %lld%s, zero %d", (long long)plan->dp, (long long)plan->mbs,
         plan->halves > 0 ? " in halves" : "", plan->zero);
  if (pz_plan_is_hybrid_sharded(plan)) append(&line, " over %lld", (long long)plan->shard);
  append(&line, ", recompute %s",
         recomputes_some_layers ? "some layers"
                                : pz_plan_word(pz_recomputation_names, plan->recompute));
  if (plan->first_layers)
    append(&line, ", %lld and %lld layers at the ends", (long long)plan->first_layers,
           (long long)plan->last_layers);
  append_precision(&line, plan);
  append_offload(&line, plan);
  return buf;
}

const char *pz_plan_line(const struct pz_plan *plan, bool recompute, char *buf, size_t size) {
  struct line line = {buf, size, 0};
  char text[PZ_FIELD_TEXT_MOST];
  append(&line, "%s: tp %lld%s, pp %lld", pz_plan_word(pz_framework_names, plan->framework),
         (long long)plan->tp, plan->sp ? " with sp" : "", (long long)plan->pp);
  if (plan->vpp > 1) append(&line, " x %lld chunks", (long long)plan->vpp);
  if (plan->pp > 1 && plan->pipeline > PZ_PIPELINE_INTERLEAVED)
    append(&line, " in %s", pz_plan_word(pz_pipeline_names, plan->pipeline));
  if (plan->cp > 1)
    append(&line, ", cp %lld%s", (long long)plan->cp, plan->cp_form > 0 ? " (all-to-all)" : "");
  if (plan->ep > 1 || plan->etp) append(&line, ", ep %lld", (long long)plan->ep);
  if (plan->etp) append(&line, " x etp %lld", (long long)plan->etp);
  if (plan->imbalance > 1) append(&line, ", imbalance %g", plan->imbalance);
  if (plan->mtp) append(&line, ", mtp");
  append(&line, ", dp %lld, zero %d", (long long)plan->dp, plan->zero);
  if (plan->zero && plan->shard < plan->dp * plan->cp)
    append(&line, " over %lld", (long long)plan->shard);
  append_precision(&line, plan);
  if (plan->ep > 1)
    append(&line, ", %s dispatcher",
           pz_plan_word(pz_dispatcher_names, (int)pz_plan_dispatcher(plan)));
  if (recompute) {
    append(&line, ", recompute %s", pz_plan_word(pz_recomputation_names, plan->recompute));
    if (plan->recompute_layers)
      append(&line, " (%lld layers a chunk)", (long long)plan->recompute_layers);
    if (pz_plan_recomputed_modules(plan))
      append(&line, " (%s)",
             pz_plan_field_text(plan, PZ_PLAN_RECOMPUTE_MODULES, text, sizeof text));
  }
  append_offload(&line, plan);
  append(&line, ", %s attention, overlap %s", pz_plan_word(pz_attention_names, plan->attention),
         pz_plan_field_text(plan, PZ_PLAN_OVERLAP, text, sizeof text));
  if (plan->execution != PZ_EXECUTION_EAGER)
    append(&line, ", %s", pz_plan_word(pz_execution_names, plan->execution));
  if (plan->halves > 0) append(&line, " in two halves");
  if (plan->cuda_graphs > 0)
    append(&line, ", CUDA graphs %s",
           pz_plan_field_text(plan, PZ_PLAN_CUDA_GRAPHS, text, sizeof text));
  return buf;
}

/* Returns the number of layers of a stage, and how many of them are recomputed (`again`). */
struct pz_stage_layers pz_training_run_stage(const struct pz_training_run *run, int64_t stage) {
  const struct pz_plan *plan = &run->plan;
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  struct pz_stage_layers sum = {0};
  if (stage < 0 || stage >= plan->pp) return sum;
  for (uint32_t slot = 0; slot < shape.chunks; slot++) {
    uint32_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, slot);
    int64_t layers = pz_plan_chunk_layers(plan, run->layers, chunk);
    sum.layers += layers;
    sum.again += pz_plan_recomputed_layers(plan, stage, layers);
  }
  return sum;
}

/* Returns the number of layers of each stage, "stage 1: 9; stages 2-8: 10", or with `recomputed`
 * how many of them the backward pass recomputes, "stage 1: none; stage 2: 4 of 10 layers".  Sets
 * *all_alike to whether all stages have the same text. */
static const char *print_stages(struct pz_call *call, const struct pz_training_run *run,
                                bool recomputed, bool *all_alike) {
  const char *text = "", *value = "";
  int64_t n_stages = run->plan.pp, first = 0; /* first stage that has the text `value` */
  *all_alike = true;
  /* A range of stages with equal text ends where the next text differs, which is empty at the end. */
  for (int64_t stage = 0; stage <= n_stages; stage++) {
    struct pz_stage_layers sum = pz_training_run_stage(run, stage);
    const char *next_value = "";
    if (stage < n_stages && !recomputed)
      next_value = pz_format(call, "%lld", (long long)sum.layers);
    else if (stage < n_stages)
      next_value = sum.again ? pz_format(call, "%lld of %lld layers", (long long)sum.again,
                                         (long long)sum.layers)
                             : "none";
    bool ends_range = stage > 0 && strcmp(value, next_value) != 0;
    if (ends_range) {
      const char *range = pz_format(call, "stage %lld", (long long)first + 1);
      if (stage > first + 1)
        range = pz_format(call, "stages %lld-%lld", (long long)first + 1, (long long)stage);
      text = pz_format(call, "%s%s%s: %s", text, *text ? "; " : "", range, value);
      *all_alike = first == 0 && stage == n_stages;
      first = stage;
    }
    value = next_value;
  }
  return text;
}

/* Returns which layers are recomputed as one text for all stages if they are alike ("full", "none",
 * "4 of 10 layers of each stage"), otherwise by stage. */
const char *pz_stage_recompute_text(struct pz_call *call, const struct pz_training_run *run) {
  struct pz_stage_layers first = pz_training_run_stage(run, 0);
  const char *name = pz_plan_word(pz_recomputation_names, run->plan.recompute);
  bool all_alike;
  if (run->plan.recompute != PZ_RECOMPUTATION_FULL) return name;
  const char *by_stage = print_stages(call, run, true, &all_alike);
  if (!all_alike) return by_stage;
  if (!first.again) return "none";
  if (first.again == first.layers) return name;
  return pz_format(call, "%lld of %lld layers%s", (long long)first.again, (long long)first.layers,
                   run->plan.pp > 1 ? " of each stage" : "");
}

const char *pz_stage_layers_text(struct pz_call *call, const struct pz_training_run *run) {
  bool all_alike;
  const char *by_stage = print_stages(call, run, false, &all_alike);
  if (!all_alike) return by_stage;
  return pz_format(call, "%lld%s", (long long)pz_training_run_stage(run, 0).layers,
                   run->plan.pp > 1 ? " a stage" : "");
}

/* Returns the options, such as "--tp 4 --no-sp", that set the fields in which plan `to` differs from
 * plan `from`, without fields that follow from others or have no effect. */
const char *pz_plan_options_text(struct pz_call *call, const struct pz_plan *from,
                                 const struct pz_plan *to) {
  const char *text = "";
  for (int i = PZ_PLAN_DEVICES; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field field = (enum pz_plan_field)i;
    char old_value[PZ_FIELD_TEXT_MOST], value[PZ_FIELD_TEXT_MOST], name[40];
    pz_plan_field_text(from, field, old_value, sizeof old_value);
    pz_plan_field_text(to, field, value, sizeof value);
    if (strcmp(old_value, value) == 0 || strcmp(value, "-") == 0) continue;
    /* fields that follow from others are not options of their own */
    bool follows =
        field == PZ_PLAN_PIPELINE || field == PZ_PLAN_SHARD || (field == PZ_PLAN_SP && to->tp == 1);
    bool is_relevant = field == PZ_PLAN_EP || pz_plan_field_is_relevant(to, field);
    if (follows || pz_plan_is_unset(to, field) || !is_relevant) continue;
    pz_text_copy(name, sizeof name, pz_plan_field_name(field));
    for (char *c = name; *c; c++)
      if (*c == '_') *c = '-';
    const char *space = *text ? " " : "";
    if (strcmp(value, "off") == 0)
      text = pz_format(call, "%s%s--no-%s", text, space, name);
    else if (strcmp(value, "on") == 0)
      text = pz_format(call, "%s%s--%s", text, space, name);
    else
      text = pz_format(call, "%s%s--%s %s", text, space, name, value);
  }
  return text;
}
