#include "plan/plan_text.h"

#include <stdio.h>
#include <string.h>

const char *pz_plan_text(const struct pz_plan *o, char *buf, size_t size) {
  char chunks[48] = "", context[48] = "", experts[32] = "", shards[32] = "", ends[64] = "";
  bool some = o->recompute == PZ_RECOMPUTATION_FULL && (o->stage_recompute || o->recompute_layers);
  bool order = o->pp > 1 && o->pipeline > PZ_PIPELINE_INTERLEAVED;
  if (o->vpp > 1) snprintf(chunks, sizeof chunks, " x %lld", (long long)o->vpp);
  if (order)
    snprintf(chunks + strlen(chunks), sizeof chunks - strlen(chunks), " in %s",
             pz_pipeline_names[o->pipeline]);
  if (o->first_layers)
    snprintf(ends, sizeof ends, ", %lld and %lld layers at the ends", (long long)o->first_layers,
             (long long)o->last_layers);
  if (pz_plan_cp(o) > 1)
    snprintf(context, sizeof context, ", cp %lld%s", (long long)o->cp,
             o->cp_form > 0 ? " (all-to-all)" : "");
  if (o->ep > 1) snprintf(experts, sizeof experts, ", ep %lld", (long long)o->ep);
  if (pz_plan_hybrid(o)) snprintf(shards, sizeof shards, " over %lld", (long long)o->shard);
  snprintf(buf, size, "tp %lld%s%s%s, pp %lld%s, dp %lld, mbs %lld, zero %d%s, recompute %s%s",
           (long long)o->tp, o->sp && o->tp > 1 ? " sp" : "", context, experts, (long long)o->pp,
           chunks, (long long)o->dp, (long long)o->mbs, o->zero, shards,
           some ? "some layers" : pz_recomputation_names[o->recompute], ends);
  return buf;
}

char *pz_found_plan_text(const struct pz_training_run *r, struct pz_arena *arena) {
  char text[256];
  return pz_arena_strdup(arena, pz_plan_text(&r->plan, text, sizeof text));
}

struct pz_stage_layers pz_training_run_stage(const struct pz_training_run *r, int64_t stage) {
  const struct pz_plan *p = &r->plan;
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  struct pz_stage_layers sum = {0};
  for (uint32_t c = 0; c < shape.chunks; c++) {
    int64_t n = pz_plan_blocks(p, r->layers, pz_pipeline_chunk_at(&shape, (uint32_t)stage, c));
    sum.layers += n;
    sum.again += pz_plan_recomputed(p, stage, n);
  }
  return sum;
}

/* ---- by stage ------------------------------------------------------------------------------- */

/* What is told of a stage; stages of which the same is told are told together. */
typedef char *stage_text(struct pz_stage_layers x, struct pz_arena *arena);

static char *again_text(struct pz_stage_layers x, struct pz_arena *arena) {
  if (!x.again) return pz_arena_strdup(arena, "none");
  return pz_arena_printf(arena, "%lld of %lld layers", (long long)x.again, (long long)x.layers);
}

static char *layers_text(struct pz_stage_layers x, struct pz_arena *arena) {
  return pz_arena_printf(arena, "%lld", (long long)x.layers);
}

/* Is the same told of both? */
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

char *pz_found_recompute_text(const struct pz_training_run *r, struct pz_arena *arena) {
  struct pz_stage_layers first = pz_training_run_stage(r, 0);
  const char *name = pz_recomputation_names[r->plan.recompute];
  if (r->plan.recompute != PZ_RECOMPUTATION_FULL) return pz_arena_strdup(arena, name);
  if (!all_alike(r, same_again)) return ranges(r, again_text, same_again, arena);
  if (!first.again) return pz_arena_strdup(arena, "none");
  if (first.again == first.layers) return pz_arena_strdup(arena, name);
  return pz_arena_printf(arena, "%lld of %lld layers%s", (long long)first.again,
                         (long long)first.layers, r->plan.pp > 1 ? " of each stage" : "");
}

char *pz_found_layers_text(const struct pz_training_run *r, struct pz_arena *arena) {
  int64_t first = pz_training_run_stage(r, 0).layers;
  if (!all_alike(r, same_layers)) return ranges(r, layers_text, same_layers, arena);
  return pz_arena_printf(arena, "%lld%s", (long long)first, r->plan.pp > 1 ? " a stage" : "");
}
