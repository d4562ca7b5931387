/* Another plan of a Megatron-LM run, as what to change in the run's arguments.  pz_megatron_describe_changes() goes through the
 * fields of the two plans, writes the arguments that are to be set, and collects those that are to be removed, which are written
 * at the end. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/buffer.h"
#include "launch/megatron_args.h"
#include "launch/megatron_core.h"

struct plan_changes {
  const struct pz_run_plan *run;
  const struct pz_plan *from, *to;
  FILE *out;
  bool any;          /* something was written */
  char removed[240]; /* names of arguments to be removed, with commas */
};

PZ_PRINTF(2, 3) static void write_change(struct plan_changes *changes, const char *format, ...) {
  va_list values;
  if (changes->any) fputc(' ', changes->out);
  changes->any = true;
  va_start(values, format);
  vfprintf(changes->out, format, values);
  va_end(values);
}

static void remove_argument(struct plan_changes *changes, const char *name) {
  size_t n = strlen(changes->removed);
  snprintf(changes->removed + n, sizeof changes->removed - n, "%s--%s", n ? ", " : "", name);
}

/* Writes a plain number of the plan. */
static void set_number(struct plan_changes *changes, enum pz_plan_field field, int64_t n) {
  write_change(changes, "%s %" PRId64, pz_plan_field(field)->in[PZ_LAUNCH_MEGATRON], n);
}

static void change_flag(struct plan_changes *changes, bool before, bool now, const char *name) {
  if (!before && now) write_change(changes, "--%s", name);
  if (before && !now) remove_argument(changes, name);
}

/* ---- stages --------------------------------------------------------------------------------- */

static int64_t chunk_layers(const struct plan_changes *changes, const struct pz_plan *plan,
                            int64_t chunk) {
  return pz_plan_chunk_layers(plan, changes->run->layers, chunk);
}

/* Do all stages between the first and the last have the same number of layers? */
static bool has_even_middle(const struct plan_changes *changes) {
  const struct pz_plan *to = changes->to;
  for (int64_t stage = 2; stage < to->pp - 1; stage++)
    if (chunk_layers(changes, to, stage) != chunk_layers(changes, to, 1)) return false;
  return true;
}

/* Returns the value of the argument that divides even stages into chunks, in the unit that the run uses: chunks per stage or
 * layers per chunk.  Returns 0 if the plan needs no such argument. */
static int64_t chunk_argument(const struct plan_changes *changes, const struct pz_plan *plan) {
  if (plan->vpp == 1) return 0;
  return changes->run->chunks_by_rank ? plan->vpp : changes->run->layers / (plan->pp * plan->vpp);
}

static bool has_same_division(const struct plan_changes *changes) {
  const struct pz_plan *from = changes->from, *to = changes->to;
  if (from->pp != to->pp || from->vpp != to->vpp) return false;
  for (int64_t chunk = 0; chunk < to->pp * to->vpp; chunk++)
    if (chunk_layers(changes, from, chunk) != chunk_layers(changes, to, chunk)) return false;
  return true;
}

/* Writes how layers are divided into stages and chunks: evenly, by the layers of the first and the last stage, or by a layout of
 * every chunk. */
static void change_division(struct plan_changes *changes) {
  const struct pz_run_plan *run = changes->run;
  const struct pz_plan *to = changes->to;
  if (has_same_division(changes)) return;
  bool even = pz_plan_is_even(to, run->layers);
  bool by_ends = !even && to->vpp == 1 && has_even_middle(changes);
  if (even || by_ends) {
    int64_t before = chunk_argument(changes, changes->from), now = chunk_argument(changes, to);
    const char *name = run->chunks_by_rank ? "num-virtual-stages-per-pipeline-rank"
                                           : "num-layers-per-virtual-pipeline-stage";
    if (!now)
      change_flag(changes, before, false, name);
    else if (before != now)
      write_change(changes, "--%s %" PRId64, name, now);
  }
  if (by_ends) {
    set_number(changes, PZ_PLAN_FIRST_LAYERS, chunk_layers(changes, to, 0));
    set_number(changes, PZ_PLAN_LAST_LAYERS, chunk_layers(changes, to, to->pp - 1));
  } else if (!even) {
    write_change(changes, "--pipeline-model-parallel-layout '");
    pz_core_write_layout(to, run->layers, to->mtp, changes->out);
    fputc('\'', changes->out);
  }
  bool had_ends = run->from[PZ_PLAN_FIRST_LAYERS] || run->from[PZ_PLAN_LAST_LAYERS];
  if (!by_ends && had_ends)
    remove_argument(changes,
                    run->ends_as_layers ? "account-for-*" : "decoder-*-pipeline-num-layers");
}

/* ---- the other fields ----------------------------------------------------------------------- */

static void change_recomputation(struct plan_changes *changes) {
  const struct pz_plan *from = changes->from, *to = changes->to;
  bool was_full = from->recompute == PZ_RECOMPUTATION_FULL;
  if (from->recompute == to->recompute && from->recompute_layers == to->recompute_layers &&
      from->recompute_modules == to->recompute_modules)
    return;
  if (to->recompute == PZ_RECOMPUTATION_NONE) remove_argument(changes, "recompute-*");
  if (to->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    if (from->recompute != to->recompute)
      write_change(changes, "--recompute-granularity selective");
    if (from->recompute_modules != to->recompute_modules) {
      write_change(changes, "--recompute-modules ");
      pz_core_write_modules(to, false, changes->out);
    }
    if (was_full) remove_argument(changes, "recompute-method, --recompute-num-layers");
  }
  if (to->recompute == PZ_RECOMPUTATION_FULL) {
    int64_t layers = to->recompute_layers;
    if (!was_full) write_change(changes, "--recompute-granularity full");
    write_change(changes, "--recompute-method %s --recompute-num-layers %" PRId64,
                 layers ? "block" : "uniform", layers ? layers : 1);
  }
}

static void change_sharding(struct plan_changes *changes) {
  int from = changes->from->zero, to = changes->to->zero;
  if (from < 2 && to < 2)
    change_flag(changes, from == 1, to == 1, "use-distributed-optimizer");
  else if (from != to)
    write_change(changes, "%s--data-parallel-sharding-strategy %s",
                 from < 2 ? "--use-megatron-fsdp " : "", pz_core_strategies[to]);
}

/* With chunks, transfers between stages overlap by default. */
static void change_overlap(struct plan_changes *changes) {
  int from = changes->from->overlap, to = changes->to->overlap;
  change_flag(changes, from & PZ_OVERLAP_GRAD, to & PZ_OVERLAP_GRAD, "overlap-grad-reduce");
  change_flag(changes, from & PZ_OVERLAP_PARAM, to & PZ_OVERLAP_PARAM, "overlap-param-gather");
  change_flag(changes, from & PZ_OVERLAP_TP, to & PZ_OVERLAP_TP, "tp-comm-overlap");
  change_flag(changes, from & PZ_OVERLAP_EP, to & PZ_OVERLAP_EP,
              "overlap-moe-expert-parallel-comm");
  if (changes->run->p2p_off && changes->to->vpp > 1 && to & PZ_OVERLAP_P2P)
    remove_argument(changes, "no-overlap-p2p-communication");
}

/* Without an argument of its own, the tensor parallelism of experts is that of the other layers. */
static void change_experts(struct plan_changes *changes) {
  const struct pz_plan *from = changes->from, *to = changes->to;
  int64_t etp = changes->run->from[PZ_PLAN_ETP] ? from->etp : to->tp;
  if (from->ep != to->ep) set_number(changes, PZ_PLAN_EP, to->ep);
  if (from->etp && to->etp != etp) set_number(changes, PZ_PLAN_ETP, to->etp);
  if (from->ep == 1 && to->ep > 1) write_change(changes, "--moe-token-dispatcher-type alltoall");
}

static void write_changes(struct plan_changes *changes) {
  const struct pz_plan *from = changes->from, *to = changes->to;
  if (from->devices != to->devices) write_change(changes, "(on %" PRId64 " devices)", to->devices);
  if (from->tp != to->tp) set_number(changes, PZ_PLAN_TP, to->tp);
  change_flag(changes, from->sp > 0, to->sp > 0, "sequence-parallel");
  if (from->cp != to->cp) set_number(changes, PZ_PLAN_CP, to->cp);
  change_experts(changes);
  if (from->pp != to->pp) set_number(changes, PZ_PLAN_PP, to->pp);
  change_division(changes);
  if (from->mbs != to->mbs) set_number(changes, PZ_PLAN_MBS, to->mbs);
  change_recomputation(changes);
  change_sharding(changes);
  change_overlap(changes);
  if (from->attention != to->attention)
    write_change(changes, "--attention-backend %s",
                 to->attention == PZ_ATTENTION_FLASH ? "flash" : "unfused");
  if (changes->removed[0])
    fprintf(changes->out, "%sremove %s", changes->any ? "; " : "", changes->removed);
}

const char *pz_megatron_describe_changes(struct pz_call *call, const struct pz_run_plan *run,
                                         const struct pz_plan *to) {
  struct plan_changes changes = {.run = run, .from = &run->plan, .to = to};
  struct pz_buffer *buffer = pz_buffer_new(call);
  changes.out = pz_buffer_open(call, buffer);
  write_changes(&changes);
  pz_buffer_flush(call, changes.out);
  const char *text = pz_copy_text(call, buffer->text ? buffer->text : "");
  pz_close(call, buffer);
  return text;
}

/* ---- for callers that return a status ---- */

struct changes_request {
  const struct pz_run_plan *run;
  const struct pz_plan *to;
  struct pz_arena *arena;
  const char **text;
};

static void describe_changes(struct pz_call *call, void *ctx) {
  const struct changes_request *x = ctx;
  struct pz_call results = pz_call_in(call, x->arena);
  *x->text = pz_megatron_describe_changes(&results, x->run, x->to);
}

enum pz_status pz_megatron_changes(const struct pz_run_plan *m, const struct pz_plan *to,
                                   struct pz_arena *arena, const char **text,
                                   struct pz_error *err) {
  struct changes_request x = {m, to, arena, text};
  return pz_border(describe_changes, &x, err);
}
