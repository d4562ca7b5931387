/* Another plan of a Megatron run, as what to change in its arguments. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/buffer.h"
#include "launch/megatron_args.h"
#include "plan/plan.h"

/* Two plans, and how the difference is written: what is set, then what is removed. */
struct difference {
  const struct pz_megatron_run *m;
  const struct pz_plan *from, *to;
  FILE *out;
  bool any;          /* is written already */
  char removed[240]; /* names with commas */
};

static void put(struct difference *d, const char *text) {
  fprintf(d->out, "%s%s", d->any ? " " : "", text);
  d->any = true;
}

static void take_away(struct difference *d, const char *name) {
  size_t n = strlen(d->removed);
  snprintf(d->removed + n, sizeof d->removed - n, "%s--%s", n ? ", " : "", name);
}

static void put_count(struct difference *d, const char *name, int64_t n) {
  char text[96];
  snprintf(text, sizeof text, "--%s %" PRId64, name, n);
  put(d, text);
}

static void put_flag(struct difference *d, bool before, bool now, const char *name) {
  char text[96];
  snprintf(text, sizeof text, "--%s", name);
  if (!before && now) put(d, text);
  if (before && !now) take_away(d, name);
}

/* ---- stages --------------------------------------------------------------------------------- */

static int64_t layers_of(const struct difference *d, const struct pz_plan *p, int64_t chunk) {
  return pz_plan_blocks(p, d->m->layers, chunk);
}

/* Do chunks from `from` to below `to` have the same number of layers? */
static bool are_even(const struct difference *d, const struct pz_plan *p, int64_t from,
                     int64_t to) {
  for (int64_t c = from + 1; c < to; c++)
    if (layers_of(d, p, c) != layers_of(d, p, from)) return false;
  return true;
}

/* Et*3|t*4|t*3L: layers of every chunk, embedding and loss. */
static void put_layout(struct difference *d) {
  int64_t n = d->to->pp * d->to->vpp;
  put(d, "--pipeline-model-parallel-layout '");
  for (int64_t c = 0; c < n; c++)
    fprintf(d->out, "%s%st*%" PRId64 "%s", c ? "|" : "", c ? "" : "E", layers_of(d, d->to, c),
            c == n - 1 ? ",L'" : "");
}

/* Chunks of even stages; by the argument that the run uses. */
static void put_chunks(struct difference *d) {
  const struct pz_plan *a = d->from, *b = d->to;
  bool by_rank = d->m->chunks_by_rank;
  int64_t before = a->vpp > 1 ? d->m->layers / (a->pp * a->vpp) : 0;
  int64_t now = b->vpp > 1 ? d->m->layers / (b->pp * b->vpp) : 0;
  const char *name =
      by_rank ? "num-virtual-stages-per-pipeline-rank" : "num-layers-per-virtual-pipeline-stage";
  if (b->vpp == 1)
    put_flag(d, a->vpp > 1, false, name);
  else if (by_rank ? a->vpp != b->vpp : before != now)
    put_count(d, name, by_rank ? b->vpp : now);
}

static bool same_division(const struct difference *d) {
  int64_t n = d->to->pp * d->to->vpp;
  if (d->from->pp != d->to->pp || d->from->vpp != d->to->vpp) return false;
  for (int64_t c = 0; c < n; c++)
    if (layers_of(d, d->from, c) != layers_of(d, d->to, c)) return false;
  return true;
}

static void put_division(struct difference *d) {
  int64_t n = d->to->pp * d->to->vpp;
  bool even = n == 1 || are_even(d, d->to, 0, n);
  bool ends = !even && d->to->vpp == 1 && are_even(d, d->to, 1, n - 1);
  if (same_division(d)) return;
  if (even || ends) put_chunks(d);
  if (ends) {
    put_count(d, "decoder-first-pipeline-num-layers", layers_of(d, d->to, 0));
    put_count(d, "decoder-last-pipeline-num-layers", layers_of(d, d->to, n - 1));
  } else if (!even) {
    put_layout(d);
  }
  if (!ends && (d->m->run.from[PZ_PLAN_FIRST_LAYERS] || d->m->run.from[PZ_PLAN_LAST_LAYERS]))
    take_away(d, d->m->ends_as_layers ? "account-for-*" : "decoder-*-pipeline-num-layers");
}

/* ---- the others ----------------------------------------------------------------------------- */

static void put_modules(struct difference *d) {
  int set = d->to->recompute_modules ? d->to->recompute_modules : PZ_MODULE_CORE;
  put(d, "--recompute-modules");
  for (int i = 0; pz_module_names[i]; i++)
    if (set >> i & 1) put(d, pz_module_names[i]);
}

static void put_recompute(struct difference *d) {
  const struct pz_plan *a = d->from, *b = d->to;
  if (a->recompute == b->recompute && a->recompute_layers == b->recompute_layers &&
      a->recompute_modules == b->recompute_modules)
    return;
  if (b->recompute == PZ_RECOMPUTATION_NONE) take_away(d, "recompute-*");
  if (b->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    if (a->recompute != b->recompute) put(d, "--recompute-granularity selective");
    if (a->recompute_modules != b->recompute_modules) put_modules(d);
    if (a->recompute == PZ_RECOMPUTATION_FULL)
      take_away(d, "recompute-method, --recompute-num-layers");
  }
  if (b->recompute != PZ_RECOMPUTATION_FULL) return;
  if (a->recompute != PZ_RECOMPUTATION_FULL) put(d, "--recompute-granularity full");
  put(d, b->recompute_layers ? "--recompute-method block" : "--recompute-method uniform");
  put_count(d, "recompute-num-layers", b->recompute_layers ? b->recompute_layers : 1);
}

static void put_sharding(struct difference *d) {
  static const char *const strategies[] = {"no_shard", "optim", "optim_grads",
                                           "optim_grads_params"};
  char text[120];
  if (d->from->zero == d->to->zero) return;
  if (d->to->zero < 2 && d->from->zero < 2) {
    put_flag(d, d->from->zero == 1, d->to->zero == 1, "use-distributed-optimizer");
    return;
  }
  snprintf(text, sizeof text, "%s--data-parallel-sharding-strategy %s",
           d->from->zero < 2 ? "--use-megatron-fsdp " : "", strategies[d->to->zero]);
  put(d, text);
}

/* With chunks transfers overlap by themselves. */
static void put_overlap(struct difference *d) {
  int a = d->from->overlap, b = d->to->overlap;
  put_flag(d, a & PZ_OVERLAP_GRAD, b & PZ_OVERLAP_GRAD, "overlap-grad-reduce");
  put_flag(d, a & PZ_OVERLAP_PARAM, b & PZ_OVERLAP_PARAM, "overlap-param-gather");
  put_flag(d, a & PZ_OVERLAP_TP, b & PZ_OVERLAP_TP, "tp-comm-overlap");
  put_flag(d, a & PZ_OVERLAP_EP, b & PZ_OVERLAP_EP, "overlap-moe-expert-parallel-comm");
  if (d->m->p2p_off && d->to->vpp > 1 && b & PZ_OVERLAP_P2P)
    take_away(d, "no-overlap-p2p-communication");
}

/* Without an argument of its own each expert is divided as the other layers are. */
static void put_experts(struct difference *d) {
  const struct pz_plan *a = d->from, *b = d->to;
  int64_t etp = d->m->run.from[PZ_PLAN_ETP] ? a->etp : b->tp;
  if (a->ep != b->ep) put_count(d, "expert-model-parallel-size", b->ep);
  if (a->etp && b->etp != etp) put_count(d, "expert-tensor-parallel-size", b->etp);
  if (a->ep == 1 && b->ep > 1) put(d, "--moe-token-dispatcher-type alltoall");
}

static void put_all(struct difference *d) {
  const struct pz_plan *a = d->from, *b = d->to;
  if (a->devices != b->devices) {
    char text[64];
    snprintf(text, sizeof text, "(on %" PRId64 " devices)", b->devices);
    put(d, text);
  }
  if (a->tp != b->tp) put_count(d, "tensor-model-parallel-size", b->tp);
  put_flag(d, a->sp > 0, b->sp > 0, "sequence-parallel");
  if (a->cp != b->cp) put_count(d, "context-parallel-size", b->cp);
  put_experts(d);
  if (a->pp != b->pp) put_count(d, "pipeline-model-parallel-size", b->pp);
  put_division(d);
  if (a->mbs != b->mbs) put_count(d, "micro-batch-size", b->mbs);
  put_recompute(d);
  put_sharding(d);
  put_overlap(d);
  if (a->attention != b->attention)
    put(d, b->attention == PZ_ATTENTION_FLASH ? "--attention-backend flash"
                                              : "--attention-backend unfused");
  if (d->removed[0]) fprintf(d->out, "%sremove %s", d->any ? "; " : "", d->removed);
}

enum pz_status pz_megatron_changes(const struct pz_megatron_run *m, const struct pz_plan *to,
                                   struct pz_arena *arena, const char **text,
                                   struct pz_error *err) {
  struct pz_buffer b = {.text = NULL};
  struct difference d = {.m = m, .from = &m->run.plan, .to = to};
  d.out = pz_buffer_stream(&b);
  if (!d.out) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes");
  put_all(&d);
  bool whole = pz_buffer_close(d.out);
  *text = whole ? pz_arena_strdup(arena, b.text ? b.text : "") : NULL;
  pz_free(b.text);
  return *text ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes");
}
