/* A training plan as text: pz_plan_text() and pz_plan_line() print a plan on one line, which plan_words.c reads back, the functions pz_found_...()
 * print what differs by stage, and pz_plan_options_text() prints the difference of two plans. */
#include "plan/plan_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "plan/plan_fields.h"

/* A text under construction, cut to its buffer. */
struct line {
  char *buf;
  size_t size, n;
};

PZ_PRINTF(2, 3) static void put(struct line *l, const char *format, ...) {
  va_list values;
  if (!l->size) return;
  va_start(values, format);
  int n = vsnprintf(l->buf + l->n, l->size - l->n, format, values);
  va_end(values);
  if (n > 0) l->n = (size_t)n < l->size - l->n ? l->n + (size_t)n : l->size - 1;
}

/* Prints precisions other than 16 bit, and adapters. */
static void put_precision(struct line *l, const struct pz_plan *o) {
  char text[PZ_FIELD_TEXT_MOST];
  if (o->precision == PZ_PRECISION_FP8) put(l, ", fp8 GEMMs");
  if (o->precision == PZ_PRECISION_FP8 && o->fp8_recipe >= 0)
    put(l, " (%s)", pz_plan_word(pz_fp8_recipe_names, o->fp8_recipe));
  if (o->precision == PZ_PRECISION_NVFP4) put(l, ", nvfp4 GEMMs");
  if (o->bf16_first_layers) put(l, ", the first %lld layers bf16", (long long)o->bf16_first_layers);
  if (o->bf16_layers) put(l, ", the last %lld layers bf16", (long long)o->bf16_layers);
  if (o->bf16_modules)
    put(l, ", bf16 %s", pz_plan_field_text(o, PZ_PLAN_BF16_MODULES, text, sizeof text));
  if (pz_plan_trains_adapters(o))
    put(l, ", %s", pz_plan_field_text(o, PZ_PLAN_PEFT, text, sizeof text));
}

/* Returns what is on the host, ", 12 layers and 50% of the optimizer on the host", or "". */
static const char *host_text(const struct pz_plan *o, char *buf, size_t size) {
  char layers[60] = "", part[60] = "";
  bool away = o->offload & PZ_OFFLOAD_ACTIVATIONS;
  if (away && o->offload_layers)
    snprintf(layers, sizeof layers, "activations of %lld layers a chunk",
             (long long)o->offload_layers);
  else if (away)
    snprintf(layers, sizeof layers, "activations%s", o->offload_modules ? " of modules" : "");
  if (pz_plan_host_optimizer_fraction(o) > 0 && pz_plan_host_optimizer_fraction(o) < 1)
    snprintf(part, sizeof part, "%.4g%% of the optimizer",
             100 * pz_plan_host_optimizer_fraction(o));
  else if (pz_plan_host_optimizer_fraction(o) > 0)
    snprintf(part, sizeof part, "the optimizer");
  if (!o->offload) return pz_text_copy(buf, size, "");
  snprintf(buf, size, ", %s%s%s on the host", layers, *layers && *part ? " and " : "", part);
  return buf;
}

const char *pz_plan_text(const struct pz_plan *o, char *buf, size_t size) {
  char chunks[48] = "", context[48] = "", experts[32] = "", shards[32] = "", ends[64] = "",
       host[140];
  bool some = o->recompute == PZ_RECOMPUTATION_FULL && (o->stage_recompute || o->recompute_layers);
  bool order = o->pp > 1 && o->pipeline > PZ_PIPELINE_INTERLEAVED;
  if (o->vpp > 1) snprintf(chunks, sizeof chunks, " x %lld", (long long)o->vpp);
  if (order)
    snprintf(chunks + strlen(chunks), sizeof chunks - strlen(chunks), " in %s",
             pz_plan_word(pz_pipeline_names, o->pipeline));
  if (o->first_layers)
    snprintf(ends, sizeof ends, ", %lld and %lld layers at the ends", (long long)o->first_layers,
             (long long)o->last_layers);
  if (pz_plan_cp(o) > 1)
    snprintf(context, sizeof context, ", cp %lld%s", (long long)o->cp,
             o->cp_form > 0 ? " (all-to-all)" : "");
  if (o->ep > 1) snprintf(experts, sizeof experts, ", ep %lld", (long long)o->ep);
  if (pz_plan_is_hybrid_sharded(o))
    snprintf(shards, sizeof shards, " over %lld", (long long)o->shard);
  struct line l = {buf, size, 0};
  put(&l, "tp %lld%s%s%s, pp %lld%s, dp %lld, mbs %lld%s, zero %d%s, recompute %s%s",
      (long long)o->tp, o->sp && o->tp > 1 ? " sp" : "", context, experts, (long long)o->pp, chunks,
      (long long)o->dp, (long long)o->mbs, o->halves > 0 ? " in halves" : "", o->zero, shards,
      some ? "some layers" : pz_plan_word(pz_recomputation_names, o->recompute), ends);
  put_precision(&l, o);
  put(&l, "%s", host_text(o, host, sizeof host));
  return buf;
}

struct pz_stage_layers pz_training_run_stage(const struct pz_training_run *r, int64_t stage) {
  const struct pz_plan *p = &r->plan;
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  struct pz_stage_layers sum = {0};
  if (stage < 0 || stage >= p->pp) return sum;
  for (uint32_t c = 0; c < shape.chunks; c++) {
    int64_t n =
        pz_plan_chunk_layers(p, r->layers, pz_pipeline_chunk_at(&shape, (uint32_t)stage, c));
    sum.layers += n;
    sum.again += pz_plan_recomputed_layers(p, stage, n);
  }
  return sum;
}

/* ---- by stage ------------------------------------------------------------------------------- */

/* Prints a stage.  Stages with the same text are joined to ranges. */
typedef char *stage_text(struct pz_stage_layers x, struct pz_arena *arena);

static char *again_text(struct pz_stage_layers x, struct pz_arena *arena) {
  if (!x.again) return pz_arena_strdup(arena, "none");
  return pz_arena_printf(arena, "%lld of %lld layers", (long long)x.again, (long long)x.layers);
}

static char *layers_text(struct pz_stage_layers x, struct pz_arena *arena) {
  return pz_arena_printf(arena, "%lld", (long long)x.layers);
}

/* Do two stages have the same text? */
typedef bool same_stages(struct pz_stage_layers a, struct pz_stage_layers b);

static bool same_again(struct pz_stage_layers a, struct pz_stage_layers b) {
  return a.again == b.again && (!a.again || a.layers == b.layers);
}

static bool same_layers(struct pz_stage_layers a, struct pz_stage_layers b) {
  return a.layers == b.layers;
}

static char *ranges(const struct pz_training_run *r, stage_text *tell, same_stages *same,
                    struct pz_arena *arena) {
  char *text = NULL;
  for (int64_t k = 0, end; k < r->plan.pp; k = end + 1) {
    struct pz_stage_layers x = pz_training_run_stage(r, k);
    for (end = k; end + 1 < r->plan.pp && same(x, pz_training_run_stage(r, end + 1));) end++;
    char *one = tell(x, arena);
    if (!one) return NULL;
    char to[24] = "";
    if (end > k) snprintf(to, sizeof to, "-%lld", (long long)end + 1);
    text = pz_arena_printf(arena, "%s%sstage%s %lld%s: %s", text ? text : "", text ? "; " : "",
                           end > k ? "s" : "", (long long)k + 1, to, one);
    if (!text) return NULL;
  }
  return text;
}

static bool all_alike(const struct pz_training_run *r, same_stages *same) {
  struct pz_stage_layers first = pz_training_run_stage(r, 0);
  for (int64_t k = 1; k < r->plan.pp; k++)
    if (!same(first, pz_training_run_stage(r, k))) return false;
  return true;
}

char *pz_stage_recompute_text(const struct pz_training_run *r, struct pz_arena *arena) {
  struct pz_stage_layers first = pz_training_run_stage(r, 0);
  const char *name = pz_plan_word(pz_recomputation_names, r->plan.recompute);
  if (r->plan.recompute != PZ_RECOMPUTATION_FULL) return pz_arena_strdup(arena, name);
  if (!all_alike(r, same_again)) return ranges(r, again_text, same_again, arena);
  if (!first.again) return pz_arena_strdup(arena, "none");
  if (first.again == first.layers) return pz_arena_strdup(arena, name);
  return pz_arena_printf(arena, "%lld of %lld layers%s", (long long)first.again,
                         (long long)first.layers, r->plan.pp > 1 ? " of each stage" : "");
}

char *pz_stage_layers_text(const struct pz_training_run *r, struct pz_arena *arena) {
  int64_t first = pz_training_run_stage(r, 0).layers;
  if (!all_alike(r, same_layers)) return ranges(r, layers_text, same_layers, arena);
  return pz_arena_printf(arena, "%lld%s", (long long)first, r->plan.pp > 1 ? " a stage" : "");
}

/* ---- a line --------------------------------------------------------------------------------- */

const char *pz_plan_line(const struct pz_plan *o, bool recompute, char *buf, size_t size) {
  struct line l = {buf, size, 0};
  char text[PZ_FIELD_TEXT_MOST];
  put(&l, "%s: tp %lld%s, pp %lld", pz_plan_word(pz_framework_names, o->framework),
      (long long)o->tp, o->sp ? " with sp" : "", (long long)o->pp);
  if (o->vpp > 1) put(&l, " x %lld chunks", (long long)o->vpp);
  if (o->pp > 1 && o->pipeline > PZ_PIPELINE_INTERLEAVED)
    put(&l, " in %s", pz_plan_word(pz_pipeline_names, o->pipeline));
  if (o->cp > 1) put(&l, ", cp %lld%s", (long long)o->cp, o->cp_form > 0 ? " (all-to-all)" : "");
  if (o->ep > 1 || o->etp) put(&l, ", ep %lld", (long long)o->ep);
  if (o->etp) put(&l, " x etp %lld", (long long)o->etp);
  if (o->imbalance > 1) put(&l, ", imbalance %g", o->imbalance);
  if (o->mtp) put(&l, ", mtp");
  put(&l, ", dp %lld, zero %d", (long long)o->dp, o->zero);
  if (o->zero && o->shard < o->dp * o->cp) put(&l, " over %lld", (long long)o->shard);
  put_precision(&l, o);
  if (o->ep > 1)
    put(&l, ", %s dispatcher", pz_plan_word(pz_dispatcher_names, (int)pz_plan_dispatcher(o)));
  if (recompute) {
    put(&l, ", recompute %s", pz_plan_word(pz_recomputation_names, o->recompute));
    if (o->recompute_layers) put(&l, " (%lld layers a chunk)", (long long)o->recompute_layers);
    if (pz_plan_recomputed_modules(o))
      put(&l, " (%s)", pz_plan_field_text(o, PZ_PLAN_RECOMPUTE_MODULES, text, sizeof text));
  }
  put(&l, "%s", host_text(o, text, sizeof text));
  put(&l, ", %s attention, overlap %s", pz_plan_word(pz_attention_names, o->attention),
      pz_plan_field_text(o, PZ_PLAN_OVERLAP, text, sizeof text));
  if (o->execution != PZ_EXECUTION_EAGER)
    put(&l, ", %s", pz_plan_word(pz_execution_names, o->execution));
  if (o->halves > 0) put(&l, " in two halves");
  if (o->cuda_graphs > 0)
    put(&l, ", CUDA graphs %s", pz_plan_field_text(o, PZ_PLAN_CUDA_GRAPHS, text, sizeof text));
  return buf;
}

/* ---- a difference --------------------------------------------------------------------------- */

char *pz_plan_options_text(const struct pz_plan *a, const struct pz_plan *b,
                           struct pz_arena *arena) {
  char *text = pz_arena_strdup(arena, "");
  for (int i = PZ_PLAN_DEVICES; i < PZ_PLAN_FIELDS && text; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    const struct pz_plan_field_info *x = pz_plan_field(f);
    char was[PZ_FIELD_TEXT_MOST], now[PZ_FIELD_TEXT_MOST], name[40];
    pz_plan_field_text(a, f, was, sizeof was);
    pz_plan_field_text(b, f, now, sizeof now);
    if (strcmp(was, now) == 0 || strcmp(now, "-") == 0 || f == PZ_PLAN_PIPELINE) continue;
    if (f == PZ_PLAN_SHARD || (f == PZ_PLAN_SP && b->tp == 1)) continue;
    if (pz_plan_is_unset(b, f) || (f != PZ_PLAN_EP && !pz_plan_field_is_relevant(b, f))) continue;
    pz_text_copy(name, sizeof name, x->name);
    for (char *c = name; *c; c++)
      if (*c == '_') *c = '-';
    bool off = strcmp(now, "off") == 0, bare = off || strcmp(now, "on") == 0;
    text = pz_arena_printf(arena, "%s%s--%s%s%s%s", text, *text ? " " : "", off ? "no-" : "", name,
                           bare ? "" : " ", bare ? "" : now);
  }
  return text;
}
