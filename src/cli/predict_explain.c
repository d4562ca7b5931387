/* phaze predict --explain: where every field of the plan comes from, and the constants of the model
 * that count for this plan. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/predict_options.h"
#include "place/prediction_json.h"
#include "report/table.h"

/* ---- the plan ------------------------------------------------------------------------------- */

struct explanation {
  struct pz_table t;
  char framework[64]; /* "default of megatron" */
};

static void field(struct explanation *e, const char *name, const char *value, const char *from) {
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

/* What frameworks do by themselves. */
static void explain_habits(struct explanation *e, const struct pz_predicted *x) {
  const struct pz_training_options *o = &x->run->plan, *g = &x->s->plan;
  char text[40];
  choice(e, "recompute", pz_recomputation_names[o->recompute], g->recompute >= 0);
  snprintf(text, sizeof text, "%d", o->zero);
  choice(e, "zero", text, g->zero >= 0);
  count(e, "sharded over (shard)", o->shard, g->shard > 0, "all replicas");
  choice(e, "attention", pz_attention_names[o->attention], g->attention >= 0);
  choice(e, "attention library", *o->attention_library ? o->attention_library : "the chip's best",
         g->attention_library != NULL);
  choice(e, "overlap", pz_overlap_text((unsigned)o->overlap, text, sizeof text),
         x->s->overlap != NULL);
  choice(e, "execution", pz_execution_names[o->execution], g->execution >= 0);
  snprintf(text, sizeof text, "%g", o->grad_bytes);
  choice(e, "gradient bytes", text, g->grad_bytes > 0);
}

static enum pz_status explain_plan(const struct pz_predicted *x, struct pz_arena *arena) {
  static const char *const heads[] = {"plan", "value", "from", NULL};
  struct explanation e;
  snprintf(e.framework, sizeof e.framework, "default of %s", x->run->plan.framework);
  pz_table_init(&e.t, arena, heads);
  field(&e, "framework", x->run->plan.framework, x->s->plan.framework ? "given" : "default");
  explain_sizes(&e, x);
  explain_habits(&e, x);
  putchar('\n');
  return pz_table_print(&e.t, 0, stdout);
}

enum pz_status pz_predict_explain(const struct pz_predicted *x, struct pz_error *err) {
  struct pz_arena arena;
  (void)err;
  pz_arena_init(&arena, NULL);
  enum pz_status status = explain_plan(x, &arena);
  pz_arena_release(&arena);
  return status;
}
