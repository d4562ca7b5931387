/* The difference between two plans of a Megatron-LM run, as changes to the run's arguments.
 *
 * pz_megatron_describe_changes() compares the fields of the two plans, writes the arguments that
 * are to be set, and collects the names of those that are to be removed, which are written at the
 * end. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/buffer.h"
#include "launch/megatron_args.h"
#include "launch/megatron_core.h"

/* The text of changes that is being written. */
struct plan_changes {
  const struct pz_run_plan *run;
  const struct pz_plan *from, *to; /* the run's plan, and the plan that it is changed into */
  FILE *out;
  bool has_written;  /* something was written to `out` */
  char removed[240]; /* names of arguments to be removed, separated by commas */
};

/* Writes a change after a space, unless it is the first. */
PZ_PRINTF(2, 3) static void write_change(struct plan_changes *changes, const char *format, ...) {
  va_list values;
  if (changes->has_written) fputc(' ', changes->out);
  changes->has_written = true;
  va_start(values, format);
  vfprintf(changes->out, format, values);
  va_end(values);
}

/* Appends an argument to the list of those to be removed. */
static void remove_argument(struct plan_changes *changes, const char *name) {
  size_t n = strlen(changes->removed);
  snprintf(changes->removed + n, sizeof changes->removed - n, "%s--%s", n ? ", " : "", name);
}

/* Writes the argument of an integer field of the plan. */
static void set_number(struct plan_changes *changes, enum pz_plan_field field, int64_t value) {
  write_change(changes, "%s %" PRId64, pz_plan_field(field)->in[PZ_LAUNCH_MEGATRON], value);
}

/* Writes or removes an argument without a value, if the two plans differ in it. */
static void change_flag(struct plan_changes *changes, bool before, bool now, const char *name) {
  if (!before && now) write_change(changes, "--%s", name);
  if (before && !now) remove_argument(changes, name);
}

/* ---- stages --------------------------------------------------------------------------------- */

/* Returns the value of the argument that divides equal stages into chunks, as the run states it:
 * the chunks of a stage, or the layers of a chunk; 0 if the plan has one chunk per stage. */
static int64_t chunk_argument(const struct plan_changes *changes, const struct pz_plan *plan) {
  if (plan->vpp == 1) return 0;
  return changes->run->chunks_by_rank ? plan->vpp : changes->run->layers / (plan->pp * plan->vpp);
}

/* Writes how layers are divided into stages and chunks, if that changes: evenly, by the layers of
 * the first and the last stage, or by a layout of every chunk. */
static void change_division(struct plan_changes *changes) {
  const struct pz_run_plan *run = changes->run;
  const struct pz_plan *from = changes->from, *to = changes->to;
  int64_t layers = run->layers, middle_layers = pz_plan_chunk_layers(to, layers, 1);
  bool is_same = from->pp == to->pp && from->vpp == to->vpp, even_middle = true;
  for (int64_t chunk = 0; chunk < to->pp * to->vpp && is_same; chunk++)
    is_same = pz_plan_chunk_layers(from, layers, chunk) == pz_plan_chunk_layers(to, layers, chunk);
  if (is_same) return;
  /* stages between the first and the last; with one chunk per stage, chunks are stages */
  for (int64_t stage = 2; stage < to->pp - 1; stage++)
    if (pz_plan_chunk_layers(to, layers, stage) != middle_layers) even_middle = false;
  bool even = pz_plan_is_even(to, layers);
  bool by_ends = !even && to->vpp == 1 && even_middle;
  if (even || by_ends) {
    int64_t before = chunk_argument(changes, from), now = chunk_argument(changes, to);
    const char *name = run->chunks_by_rank ? "num-virtual-stages-per-pipeline-rank"
                                           : "num-layers-per-virtual-pipeline-stage";
    if (!now)
      change_flag(changes, before, false, name);
    else if (before != now)
      write_change(changes, "--%s %" PRId64, name, now);
  }
  if (by_ends) {
    set_number(changes, PZ_PLAN_FIRST_LAYERS, pz_plan_chunk_layers(to, layers, 0));
    set_number(changes, PZ_PLAN_LAST_LAYERS, pz_plan_chunk_layers(to, layers, to->pp - 1));
  } else if (!even) {
    write_change(changes, "--pipeline-model-parallel-layout '");
    pz_core_write_layout(to, layers, to->mtp, changes->out);
    fputc('\'', changes->out);
  }
  bool had_ends = run->from[PZ_PLAN_FIRST_LAYERS] || run->from[PZ_PLAN_LAST_LAYERS];
  if (!by_ends && had_ends)
    remove_argument(changes,
                    run->ends_as_layers ? "account-for-*" : "decoder-*-pipeline-num-layers");
}

/* ---- the other fields ----------------------------------------------------------------------- */

/* Writes the arguments of recomputation if that changes. */
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
      pz_core_write_modules(to, changes->out);
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

/* Compares the plans' fields; returns the arguments to be set, then those to be removed. */
const char *pz_megatron_describe_changes(struct pz_call *call, const struct pz_run_plan *run,
                                         const struct pz_plan *to) {
  static const struct {
    int overlap;
    const char *argument;
  } overlaps[] = {{PZ_OVERLAP_GRAD, "overlap-grad-reduce"},
                  {PZ_OVERLAP_PARAM, "overlap-param-gather"},
                  {PZ_OVERLAP_TP, "tp-comm-overlap"},
                  {PZ_OVERLAP_EP, "overlap-moe-expert-parallel-comm"}};
  const struct pz_plan *from = &run->plan;
  struct plan_changes changes = {.run = run, .from = from, .to = to};
  struct pz_buffer *buffer = pz_buffer_new(call);
  changes.out = pz_buffer_open(call, buffer);
  if (from->devices != to->devices) write_change(&changes, "(on %" PRId64 " devices)", to->devices);
  if (from->tp != to->tp) set_number(&changes, PZ_PLAN_TP, to->tp);
  change_flag(&changes, from->sp > 0, to->sp > 0, "sequence-parallel");
  if (from->cp != to->cp) set_number(&changes, PZ_PLAN_CP, to->cp);
  /* by default experts have the tensor parallelism of the other layers */
  int64_t default_etp = run->from[PZ_PLAN_ETP] ? from->etp : to->tp;
  if (from->ep != to->ep) set_number(&changes, PZ_PLAN_EP, to->ep);
  if (from->etp && to->etp != default_etp) set_number(&changes, PZ_PLAN_ETP, to->etp);
  if (from->ep == 1 && to->ep > 1) write_change(&changes, "--moe-token-dispatcher-type alltoall");
  if (from->pp != to->pp) set_number(&changes, PZ_PLAN_PP, to->pp);
  change_division(&changes);
  if (from->mbs != to->mbs) set_number(&changes, PZ_PLAN_MBS, to->mbs);
  change_recomputation(&changes);
  bool uses_fsdp = from->zero > 1 || to->zero > 1; /* ZeRO stages 2 and 3 are Megatron FSDP's */
  if (!uses_fsdp)
    change_flag(&changes, from->zero == 1, to->zero == 1, "use-distributed-optimizer");
  else if (from->zero != to->zero)
    write_change(&changes, "%s--data-parallel-sharding-strategy %s",
                 from->zero < 2 ? "--use-megatron-fsdp " : "", pz_core_strategies[to->zero]);
  for (size_t i = 0; i < sizeof overlaps / sizeof *overlaps; i++)
    change_flag(&changes, from->overlap & overlaps[i].overlap, to->overlap & overlaps[i].overlap,
                overlaps[i].argument);
  /* with chunks, transfers between stages overlap by default */
  if (run->p2p_off && to->vpp > 1 && to->overlap & PZ_OVERLAP_P2P)
    remove_argument(&changes, "no-overlap-p2p-communication");
  if (from->attention != to->attention)
    write_change(&changes, "--attention-backend %s",
                 to->attention == PZ_ATTENTION_FLASH ? "flash" : "unfused");
  if (changes.removed[0])
    fprintf(changes.out, "%sremove %s", changes.has_written ? "; " : "", changes.removed);
  pz_buffer_flush(call, changes.out);
  const char *text = pz_copy_text(call, buffer->text ? buffer->text : "");
  pz_close(call, buffer);
  return text;
}
