/* Variants of a model: building those that are possible, and reporting why the others are not.
 *
 * pz_variants_load() tries every pair of a tensor-parallel degree and a microbatch size
 * (load_variant).  An error about a variant is stored as its reason.  Finally,
 * pz_variants_conclude() summarizes the reasons, so that a degree that is never possible is
 * reported once. */
#include "workload/variants.h"

#include <inttypes.h>
#include <string.h>

#include "core/num.h"
#include "workload/workload.h"

/* Adds a message for the user once. */
void pz_note_add(struct pz_call *call, struct pz_vec *notes, unsigned lists, const char *text) {
  for (uint32_t i = 0; i < notes->n; i++)
    if (strcmp(pz_vec_at(notes, struct pz_note, i)->text, text) == 0) return;
  struct pz_call notes_call = pz_call_in(call, notes->arena);
  struct pz_note note = {lists, pz_copy_text(&notes_call, text)};
  pz_append(&notes_call, notes, &note);
}

/* ---- which variants are possible ------------------------------------------------------------- */

/* Makes a table of variants, none of which is marked as impossible yet. */
struct pz_variants *pz_variants_new(struct pz_call *call, const struct pz_choices *tp,
                                    const struct pz_choices *mbs) {
  struct pz_variants *variants = pz_alloc(call, 1, sizeof *variants);
  variants->tp = tp;
  variants->mbs = mbs;
  variants->reason = pz_alloc(call, (size_t)(tp->n * mbs->n), sizeof *variants->reason);
  return variants;
}

/* Stores why a variant is not possible.  Other errors, such as lack of memory, are raised. */
void pz_variants_refuse(struct pz_call *call, struct pz_variants *variants, int tp, int mbs,
                        const struct pz_error *error) {
  bool about_variant =
      error->status == PZ_BAD_USE || error->status == PZ_BAD_INPUT || error->status == PZ_LIMIT;
  if (!about_variant) pz_raise(call, error->status, "%s", error->message);
  variants->reason[tp * variants->mbs->n + mbs] = pz_copy_text(call, error->message);
  if (variants->status == PZ_OK) variants->status = error->status;
}

/* Returns why a tensor-parallel degree is possible with no microbatch size (the reason with the
 * smallest one), or NULL if it is possible with some.  `tp` is an index in the list of degrees. */
static const char *reason_against_degree(const struct pz_variants *variants, int tp) {
  const char **reasons = &variants->reason[tp * variants->mbs->n];
  for (int mbs = 0; mbs < variants->mbs->n; mbs++)
    if (!reasons[mbs]) return NULL;
  return reasons[0];
}

/* Returns why microbatch size number `mbs` is possible with none of the degrees that are possible
 * with other sizes (the reason with the smallest such degree), or NULL if it is possible with
 * some. */
static const char *reason_against_microbatch(const struct pz_variants *variants, int mbs) {
  const char *first_reason = NULL;
  for (int tp = 0; tp < variants->tp->n; tp++) {
    if (reason_against_degree(variants, tp)) continue;
    const char *reason = variants->reason[tp * variants->mbs->n + mbs];
    if (!reason) return NULL;
    if (!first_reason) first_reason = reason;
  }
  return first_reason;
}

/* Adds the note "--tp 3 with --mbs 2 is left out: REASON", in which a value of 0 is omitted.  Does
 * nothing without a reason. */
static void note_left_out(struct pz_call *call, struct pz_vec *notes, int64_t tp, int64_t mbs,
                          const char *reason) {
  const char *degree = "", *joint = tp && mbs ? " with " : "", *microbatch = "";
  unsigned lists = 0;
  if (!reason) return;
  if (tp) {
    degree = pz_format(call, "--tp %" PRId64, tp);
    lists |= PZ_LIST_TP;
  }
  if (mbs) {
    microbatch = pz_format(call, "--mbs %" PRId64, mbs);
    lists |= PZ_LIST_MBS;
  }
  pz_note_add(call, notes, lists,
              pz_format(call, "%s%s%s is left out: %s", degree, joint, microbatch, reason));
}

/* Reports the variants that are not possible.  A degree or size that is never possible gets one
 * note, not one for each pair. */
void pz_variants_conclude(struct pz_call *call, const struct pz_variants *variants,
                          struct pz_vec *notes) {
  int n_tp = variants->tp->n, n_mbs = variants->mbs->n;
  bool any_possible = false, same_reason = true;
  for (int i = 0; i < n_tp * n_mbs; i++)
    if (!variants->reason[i]) any_possible = true;
  if (!any_possible) {
    for (int i = 1; i < n_tp * n_mbs; i++)
      if (strcmp(variants->reason[i], variants->reason[0]) != 0) same_reason = false;
    const char *begin =
        same_reason ? "" : "none of the microbatch sizes and tensor-parallel degrees is possible: ";
    pz_raise(call, variants->status, "%s%s", begin, variants->reason[0]);
  }
  static const int64_t ANY = 0; /* omits the degree or the microbatch size from a note */
  for (int tp = 0; tp < n_tp; tp++)
    note_left_out(call, notes, variants->tp->v[tp], ANY, reason_against_degree(variants, tp));
  for (int mbs = 0; mbs < n_mbs; mbs++)
    note_left_out(call, notes, ANY, variants->mbs->v[mbs],
                  reason_against_microbatch(variants, mbs));
  for (int tp = 0; tp < n_tp; tp++)
    for (int mbs = 0; mbs < n_mbs; mbs++) {
      bool is_noted =
          reason_against_degree(variants, tp) || reason_against_microbatch(variants, mbs);
      if (!is_noted)
        note_left_out(call, notes, variants->tp->v[tp], variants->mbs->v[mbs],
                      variants->reason[tp * n_mbs + mbs]);
    }
}

/* ---- building variants ----------------------------------------------------------------------- */

/* Raises an error if a size exceeds the one that it is part of: a tensor-parallel group the number
 * of devices, or a microbatch the global batch. */
static void check_part(struct pz_call *call, const char *part_name, int64_t part,
                       const char *whole_name, int64_t whole) {
  if (part > whole)
    pz_raise(call, PZ_BAD_USE,
             "%s %" PRId64 " is larger than the %s %" PRId64 "; accepted: 1 to %" PRId64, part_name,
             part, whole_name, whole, whole);
}

struct variant_arguments {
  const char *model;
  const struct pz_variant_choices *choices;
  struct pz_workload_options options;
  struct pz_variant *out;
};

/* Builds one variant (a callback of pz_border).  Each device must have whole key/value heads, as in
 * the original system; sharing a head between devices is a technique of Megatron Core. */
static void load_variant(struct pz_call *call, void *ctx) {
  const struct variant_arguments *args = ctx;
  int64_t tp = args->options.tp, mbs = args->options.mbs;
  struct pz_workload *workload;
  check_part(call, "tensor-parallel degree", tp, "number of devices", args->choices->devices);
  check_part(call, "microbatch", mbs, "global batch size", args->choices->batch);
  pz_must(call, pz_workload_load(args->model, &args->options, &workload, pz_call_error(call)));
  pz_defer(call, pz_workload_close, workload);
  if (workload->kv_heads && workload->kv_heads % tp != 0)
    pz_raise(call, PZ_BAD_USE,
             "tensor-parallel degree %" PRId64
             " does not divide the key/value heads of %s (%" PRId64 "); accepted: a divisor",
             tp, workload->model, workload->kv_heads);
  pz_undefer(call, workload);
  *args->out = (struct pz_variant){
      .mbs = mbs, .tp = tp, .microbatches = pz_ceil_div(args->choices->batch, mbs), .w = workload};
}

/* Builds the possible variants of a model.  If an error follows, their workloads are freed;
 * otherwise they belong to the caller. */
uint32_t pz_variants_load(struct pz_call *call, const char *model,
                          const struct pz_variant_choices *choices,
                          const struct pz_workload_options *options, struct pz_vec *notes,
                          struct pz_variant *list) {
  const struct pz_choices *tp = choices->tp, *mbs = choices->mbs;
  struct pz_variants *variants = pz_variants_new(call, tp, mbs);
  uint32_t n = 0;
  for (int tp_index = 0; tp_index < tp->n; tp_index++)
    for (int mbs_index = 0; mbs_index < mbs->n; mbs_index++) {
      struct variant_arguments args = {model, choices, *options, &list[n]};
      struct pz_error error = {0};
      args.options.tp = tp->v[tp_index];
      args.options.mbs = mbs->v[mbs_index];
      if (pz_border(load_variant, &args, &error) != PZ_OK) {
        pz_variants_refuse(call, variants, tp_index, mbs_index, &error);
        continue;
      }
      pz_defer(call, pz_workload_close, list[n].w);
      n++;
    }
  pz_variants_conclude(call, variants, notes);
  for (uint32_t i = 0; i < n; i++) pz_undefer(call, list[i].w);
  return n;
}
