/* phaze predict --explain: where every field of the plan comes from, and the constants of the model
 * that count for this plan. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/predict_options.h"
#include "place/constant_effects.h"
#include "place/prediction_json.h"
#include "place/training_options.h"
#include "report/table.h"

/* ---- the plan ------------------------------------------------------------------------------- */

struct explanation {
  struct pz_table t; /* for people, or ... */
  json_t *json;      /* ... by key, where each comes from */
  bool as_json;
  char framework[64]; /* "default of megatron" */
};

/* `name` is "label (key)", or a key alone. */
static void field(struct explanation *e, const char *name, const char *value, const char *from) {
  if (e->as_json) {
    const char *open = strchr(name, '('), *key = open ? open + 1 : name;
    char text[40];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(key, ")"), key);
    for (char *c = text; *c; c++)
      if (*c == ' ') *c = '_';
    json_object_set_new(e->json, text, json_string(from));
    return;
  }
  pz_table_cell(&e->t, "%s", name);
  pz_table_cell(&e->t, "%s", value);
  pz_table_cell(&e->t, "%s", from);
}

static void count(struct explanation *e, const char *name, int64_t value, bool given,
                  const char *otherwise) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  field(e, name, text, given ? "given" : otherwise);
}

static void choice(struct explanation *e, const char *name, const char *value, bool given) {
  field(e, name, value, given ? "given" : e->framework);
}

/* Degrees and sizes: by themselves 1, or they follow from each other. */
static void explain_sizes(struct explanation *e, const struct pz_predicted *x) {
  const struct pz_training_options *o = &x->run->plan, *g = &x->s->plan;
  const char *standard = "default";
  count(e, "devices", o->devices, g->devices > 0, "tp x pp x dp");
  count(e, "tensor parallel (tp)", o->tp, g->tp > 0, standard);
  field(e, "sequence parallel (sp)", o->sequence_parallel ? "on" : "off",
        x->s->sp || x->s->no_sp ? "given"
        : o->tp == 1            ? "off without tensor parallelism"
                                : "default: on with tp above 1");
  count(e, "pipeline stages (pp)", o->pp, g->pp > 0, standard);
  count(e, "chunks per stage (vpp)", o->vpp, g->vpp > 0, standard);
  field(e, "pipeline", pz_pipeline_names[o->pipeline],
        g->pipeline >= 0 ? "given"
        : o->vpp > 1     ? "default with several chunks"
                         : standard);
  count(e, "replicas (dp)", o->dp, g->dp > 0, g->devices ? "devices / (tp x pp)" : standard);
  count(e, "microbatch (mbs)", o->mbs, g->mbs > 0, standard);
  count(e, "batch", o->batch, g->batch > 0, "one microbatch on each replica");
  count(e, "sequence length (seq)", o->seq, g->seq > 0, "the model's");
}

/* The experts' grid; nothing where the plan leaves it all alone. */
static void explain_experts(struct explanation *e, const struct pz_predicted *x) {
  const struct pz_training_options *o = &x->run->plan, *g = &x->s->plan;
  char text[32];
  if (!pz_experts_told(o)) return;
  count(e, "expert parallel (ep)", o->ep, g->ep > 0, "default");
  count(e, "devices of an expert (etp)", pz_options_etp(o), g->etp > 0,
        o->ep > 1 ? "default with ep above 1" : "tp, without expert parallelism");
  snprintf(text, sizeof text, "%g", o->imbalance);
  field(e, "imbalance", text, g->imbalance > 0 ? "given" : "default: even load");
  field(e, "multi-token prediction (mtp)", o->mtp ? "on" : "off", g->mtp ? "given" : "default");
}

/* What frameworks do by themselves. */
static void explain_habits(struct explanation *e, const struct pz_predicted *x) {
  const struct pz_training_options *o = &x->run->plan, *g = &x->s->plan;
  char text[40];
  choice(e, "recompute", pz_recomputation_names[o->recompute], g->recompute >= 0);
  if (o->recompute_layers)
    count(e, "layers recomputed", o->recompute_layers, true, "of each chunk");
  if (pz_options_modules(o)) {
    char modules[PZ_MODULES_TEXT];
    choice(e, "modules recomputed (recompute_modules)",
           pz_modules_text(pz_options_modules(o), modules, sizeof modules), o->recompute_modules);
  }
  snprintf(text, sizeof text, "%d", o->zero);
  choice(e, "zero", text, g->zero >= 0);
  count(e, "sharded over (shard)", o->shard, g->shard > 0, "all replicas");
  choice(e, "attention", pz_attention_names[o->attention], g->attention >= 0);
  choice(e, "attention library", *o->attention_library ? o->attention_library : "the chip's best",
         g->attention_library != NULL);
  choice(e, "overlap", pz_overlap_text(pz_options_overlap(o), text, sizeof text),
         x->s->overlap != NULL);
  choice(e, "execution", pz_execution_names[o->execution], g->execution >= 0);
  snprintf(text, sizeof text, "%g", o->grad_bytes);
  choice(e, "gradient bytes (grad_bytes)", text, g->grad_bytes > 0);
}

static void explain_fields(struct explanation *e, const struct pz_predicted *x) {
  snprintf(e->framework, sizeof e->framework, "default of %s", x->run->plan.framework);
  field(e, "framework", x->run->plan.framework,
        x->s->plan.framework                             ? "given"
        : x->machine.chip.execution == PZ_CHIP_SCHEDULED ? "default on such a chip"
                                                         : "default");
  explain_sizes(e, x);
  explain_experts(e, x);
  explain_habits(e, x);
}

static enum pz_status explain_plan(const struct pz_predicted *x, struct pz_arena *arena) {
  static const char *const heads[] = {"plan", "value", "from", NULL};
  struct explanation e = {.as_json = false};
  pz_table_init(&e.t, arena, heads);
  explain_fields(&e, x);
  putchar('\n');
  return pz_table_print(&e.t, 0, stdout);
}

/* ---- constants ------------------------------------------------------------------------------ */

static void change_cell(struct pz_table *t, double change) {
  if (change > 5e-6 || change < -5e-6)
    pz_table_cell(t, "%+.2f%%", 100 * change);
  else
    pz_table_cell(t, "-");
}

static enum pz_status effects(const struct pz_predicted *x, struct pz_arena *arena,
                              struct pz_constant_effect **list, uint32_t *n, struct pz_error *err) {
  const struct pz_machine *m = &x->machine;
  return pz_constant_effects(x->model, &m->chip, m->own_link ? NULL : &m->net, &x->run->plan, arena,
                             list, n, err);
}

static enum pz_status explain_constants(const struct pz_predicted *x, struct pz_arena *arena,
                                        struct pz_error *err) {
  static const char *const heads[] = {"constant", ">value", "unit",   ">step",
                                      ">memory",  "part",   "source", NULL};
  struct pz_constant_effect *list = NULL;
  struct pz_table t;
  uint32_t n = 0;
  enum pz_status status = effects(x, arena, &list, &n, err);
  if (status != PZ_OK) return status;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < n; i++) {
    pz_table_cell(&t, "%s", list[i].info->name);
    pz_table_cell(&t, "%g", list[i].value);
    pz_table_cell(&t, "%s", list[i].info->unit[0] ? list[i].info->unit : "-");
    change_cell(&t, list[i].step_change);
    change_cell(&t, list[i].memory_change);
    pz_table_cell(&t, "%s", list[i].part);
    pz_table_cell(&t, "%s: %s", list[i].info->kind, list[i].info->source);
  }
  printf(
      "\nConstants that count for this plan; step, memory: the change if one is a tenth larger.\n"
      "Rates of the chip and of the network are in 'phaze chip %s' and its cluster.\n",
      x->machine.chip.name);
  return pz_table_print(&t, 0, stdout);
}

enum pz_status pz_predict_explain(const struct pz_predicted *x, struct pz_error *err) {
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  enum pz_status status = explain_plan(x, &arena);
  if (status == PZ_OK) status = explain_constants(x, &arena, err);
  pz_arena_release(&arena);
  return status;
}

enum pz_status pz_predict_explain_json(const struct pz_predicted *x, json_t **out,
                                       struct pz_error *err) {
  struct explanation e = {.json = json_object(), .as_json = true};
  struct pz_constant_effect *list = NULL;
  struct pz_arena arena;
  uint32_t n = 0;
  pz_arena_init(&arena, NULL);
  enum pz_status status = effects(x, &arena, &list, &n, err);
  explain_fields(&e, x);
  json_t *constants = json_array();
  for (uint32_t i = 0; i < n; i++)
    json_array_append_new(constants,
                          json_pack("{s:s,s:f,s:s,s:s,s:s,s:s,s:f,s:f}", "name", list[i].info->name,
                                    "value", list[i].value, "unit", list[i].info->unit, "kind",
                                    list[i].info->kind, "source", list[i].info->source, "part",
                                    list[i].part, "step_change", list[i].step_change,
                                    "memory_change", list[i].memory_change));
  pz_arena_release(&arena);
  *out = json_pack("{s:o,s:f,s:o}", "from", e.json, "raised_by", 0.1, "constants", constants);
  return status;
}
