/* Another plan of a Megatron run, as what to change in its arguments. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "launch/megatron_args.h"
#include "launch/megatron_core.h"

/* Two plans, and how the difference is written: what is set, then what is removed. */
struct difference {
  const struct pz_run_plan *m;
  const struct pz_plan *from, *to;
  FILE *out;
  bool any;          /* is written already */
  char removed[240]; /* names with commas */
};

PZ_PRINTF(2, 3) static void put(struct difference *d, const char *format, ...) {
  va_list values;
  if (d->any) fputc(' ', d->out);
  d->any = true;
  va_start(values, format);
  vfprintf(d->out, format, values);
  va_end(values);
}

static void take_away(struct difference *d, const char *name) {
  size_t n = strlen(d->removed);
  snprintf(d->removed + n, sizeof d->removed - n, "%s--%s", n ? ", " : "", name);
}

/* A plain number of the plan. */
static void put_number(struct difference *d, enum pz_plan_field f, int64_t n) {
  put(d, "%s %" PRId64, pz_plan_field(f)->in[PZ_LAUNCH_MEGATRON], n);
}

static void put_flag(struct difference *d, bool before, bool now, const char *name) {
  if (!before && now) put(d, "--%s", name);
  if (before && !now) take_away(d, name);
}

/* ---- stages --------------------------------------------------------------------------------- */

static int64_t layers_of(const struct difference *d, const struct pz_plan *p, int64_t chunk) {
  return pz_plan_blocks(p, d->m->layers, chunk);
}

/* Have stages between the first and the last the same number of layers? */
static bool is_middle_even(const struct difference *d) {
  for (int64_t c = 2; c < d->to->pp - 1; c++)
    if (layers_of(d, d->to, c) != layers_of(d, d->to, 1)) return false;
  return true;
}

/* Chunks of even stages; by the argument that the run uses, 0: it needs none. */
static int64_t chunks_of(const struct difference *d, const struct pz_plan *p) {
  if (p->vpp == 1) return 0;
  return d->m->chunks_by_rank ? p->vpp : d->m->layers / (p->pp * p->vpp);
}

static void put_chunks(struct difference *d) {
  int64_t before = chunks_of(d, d->from), now = chunks_of(d, d->to);
  const char *name = d->m->chunks_by_rank ? "num-virtual-stages-per-pipeline-rank"
                                          : "num-layers-per-virtual-pipeline-stage";
  if (!now)
    put_flag(d, before, false, name);
  else if (before != now)
    put(d, "--%s %" PRId64, name, now);
}

static bool same_division(const struct difference *d) {
  if (d->from->pp != d->to->pp || d->from->vpp != d->to->vpp) return false;
  for (int64_t c = 0; c < d->to->pp * d->to->vpp; c++)
    if (layers_of(d, d->from, c) != layers_of(d, d->to, c)) return false;
  return true;
}

static void put_division(struct difference *d) {
  int64_t n = d->to->pp * d->to->vpp;
  bool even = pz_plan_is_even(d->to, d->m->layers);
  bool ends = !even && d->to->vpp == 1 && is_middle_even(d);
  if (same_division(d)) return;
  if (even || ends) put_chunks(d);
  if (ends) {
    put_number(d, PZ_PLAN_FIRST_LAYERS, layers_of(d, d->to, 0));
    put_number(d, PZ_PLAN_LAST_LAYERS, layers_of(d, d->to, n - 1));
  } else if (!even) {
    put(d, "--pipeline-model-parallel-layout '");
    pz_core_layout(d->to, d->m->layers, d->to->mtp, d->out);
    fputc('\'', d->out);
  }
  if (!ends && (d->m->from[PZ_PLAN_FIRST_LAYERS] || d->m->from[PZ_PLAN_LAST_LAYERS]))
    take_away(d, d->m->ends_as_layers ? "account-for-*" : "decoder-*-pipeline-num-layers");
}

/* ---- the others ----------------------------------------------------------------------------- */

static void put_recompute(struct difference *d) {
  const struct pz_plan *a = d->from, *b = d->to;
  if (a->recompute == b->recompute && a->recompute_layers == b->recompute_layers &&
      a->recompute_modules == b->recompute_modules)
    return;
  if (b->recompute == PZ_RECOMPUTATION_NONE) take_away(d, "recompute-*");
  if (b->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    if (a->recompute != b->recompute) put(d, "--recompute-granularity selective");
    if (a->recompute_modules != b->recompute_modules) {
      put(d, "--recompute-modules ");
      pz_core_modules(b, false, d->out);
    }
    if (a->recompute == PZ_RECOMPUTATION_FULL)
      take_away(d, "recompute-method, --recompute-num-layers");
  }
  if (b->recompute != PZ_RECOMPUTATION_FULL) return;
  if (a->recompute != PZ_RECOMPUTATION_FULL) put(d, "--recompute-granularity full");
  put(d, "--recompute-method %s --recompute-num-layers %" PRId64,
      b->recompute_layers ? "block" : "uniform", b->recompute_layers ? b->recompute_layers : 1);
}

static void put_sharding(struct difference *d) {
  int a = d->from->zero, b = d->to->zero;
  if (a < 2 && b < 2)
    put_flag(d, a == 1, b == 1, "use-distributed-optimizer");
  else if (a != b)
    put(d, "%s--data-parallel-sharding-strategy %s", a < 2 ? "--use-megatron-fsdp " : "",
        pz_core_strategies[b]);
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
  int64_t etp = d->m->from[PZ_PLAN_ETP] ? a->etp : b->tp;
  if (a->ep != b->ep) put_number(d, PZ_PLAN_EP, b->ep);
  if (a->etp && b->etp != etp) put_number(d, PZ_PLAN_ETP, b->etp);
  if (a->ep == 1 && b->ep > 1) put(d, "--moe-token-dispatcher-type alltoall");
}

static void put_all(struct difference *d) {
  const struct pz_plan *a = d->from, *b = d->to;
  if (a->devices != b->devices) put(d, "(on %" PRId64 " devices)", b->devices);
  if (a->tp != b->tp) put_number(d, PZ_PLAN_TP, b->tp);
  put_flag(d, a->sp > 0, b->sp > 0, "sequence-parallel");
  if (a->cp != b->cp) put_number(d, PZ_PLAN_CP, b->cp);
  put_experts(d);
  if (a->pp != b->pp) put_number(d, PZ_PLAN_PP, b->pp);
  put_division(d);
  if (a->mbs != b->mbs) put_number(d, PZ_PLAN_MBS, b->mbs);
  put_recompute(d);
  put_sharding(d);
  put_overlap(d);
  if (a->attention != b->attention)
    put(d, "--attention-backend %s", b->attention == PZ_ATTENTION_FLASH ? "flash" : "unfused");
  if (d->removed[0]) fprintf(d->out, "%sremove %s", d->any ? "; " : "", d->removed);
}

enum pz_status pz_megatron_changes(const struct pz_run_plan *m, const struct pz_plan *to,
                                   struct pz_arena *arena, const char **text,
                                   struct pz_error *err) {
  struct pz_buffer b = {.text = NULL};
  struct difference d = {.m = m, .from = &m->plan, .to = to};
  d.out = pz_buffer_stream(&b);
  if (!d.out) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes");
  put_all(&d);
  bool whole = pz_buffer_close(d.out);
  *text = whole ? pz_arena_strdup(arena, b.text ? b.text : "") : NULL;
  pz_free(b.text);
  return *text ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes");
}
