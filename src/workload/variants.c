#include "workload/variants.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"

#define NO_MEMORY "out of memory for the notes on a model"

/* A tensor-parallel group is a part of the devices, a microbatch a part of the global batch. */
static enum pz_status check_part(const char *what, int64_t part, const char *of, int64_t whole,
                                 struct pz_error *err) {
  if (part <= whole) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE,
                 "%s %" PRId64 " is larger than the %s %" PRId64 "; accepted: 1 to %" PRId64, what,
                 part, of, whole, whole);
}

enum pz_status pz_note_add(struct pz_vec *notes, unsigned lists, const char *text,
                           struct pz_error *err) {
  for (uint32_t i = 0; i < notes->n; i++)
    if (strcmp(pz_vec_at(notes, struct pz_note, i)->text, text) == 0) return PZ_OK;
  struct pz_note note = {lists, pz_arena_strdup(notes->arena, text)};
  return note.text && pz_vec_push(notes, &note) ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
}

/* ---- which cannot be ------------------------------------------------------------------------ */

enum pz_status pz_variants_init(struct pz_variants *v, const struct pz_choices *tp,
                                const struct pz_choices *mbs, struct pz_arena *arena,
                                struct pz_error *err) {
  *v = (struct pz_variants){.tp = tp, .mbs = mbs, .arena = arena};
  v->why = pz_arena_alloc(arena, (size_t)(tp->n * mbs->n), sizeof *v->why);
  return v->why ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
}

enum pz_status pz_variants_refuse(struct pz_variants *v, int t, int m, const struct pz_error *why,
                                  struct pz_error *err) {
  enum pz_status s = why->status;
  if (s != PZ_BAD_USE && s != PZ_BAD_INPUT && s != PZ_LIMIT)
    return pz_fail(err, s, "%s", why->message);
  const char *text = pz_arena_strdup(v->arena, why->message);
  if (!text) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  v->why[t * v->mbs->n + m] = text;
  if (v->status == PZ_OK) v->status = s;
  return PZ_OK;
}

static const char *why_not(const struct pz_variants *v, int t, int m) {
  return v->why[t * v->mbs->n + m];
}

/* The tensor-parallel degree is possible with no microbatch size: the reason with the smallest. */
static const char *why_no_degree(const struct pz_variants *v, int t) {
  for (int m = 0; m < v->mbs->n; m++)
    if (!why_not(v, t, m)) return NULL;
  return why_not(v, t, 0);
}

/* The microbatch size is possible with none of the degrees that others are possible with. */
static const char *why_no_microbatch(const struct pz_variants *v, int m) {
  const char *why = NULL;
  for (int t = 0; t < v->tp->n; t++) {
    if (why_no_degree(v, t)) continue;
    if (!why_not(v, t, m)) return NULL;
    if (!why) why = why_not(v, t, m);
  }
  return why;
}

/* ---- what to say of it ---------------------------------------------------------------------- */

static enum pz_status fail_all(const struct pz_variants *v, struct pz_error *err) {
  bool same = true;
  for (int i = 1; i < v->tp->n * v->mbs->n; i++) same = same && strcmp(v->why[i], v->why[0]) == 0;
  return pz_fail(err, v->status, "%s%s",
                 same ? ""
                      : "none of the microbatch sizes and tensor-parallel degrees is possible: ",
                 v->why[0]);
}

/* "--tp 3 is left out: ..."; a part that is 0 is not named. */
static enum pz_status note_left_out(struct pz_vec *notes, int64_t tp, int64_t mbs, const char *why,
                                    struct pz_error *err) {
  char degree[40] = "", microbatch[40] = "";
  unsigned lists = (tp ? PZ_LIST_TP : 0u) | (mbs ? PZ_LIST_MBS : 0u);
  if (!why) return PZ_OK;
  if (tp) snprintf(degree, sizeof degree, "--tp %" PRId64, tp);
  if (mbs) snprintf(microbatch, sizeof microbatch, "--mbs %" PRId64, mbs);
  const char *text = pz_arena_printf(notes->arena, "%s%s%s is left out: %s", degree,
                                     tp && mbs ? " with " : "", microbatch, why);
  return text ? pz_note_add(notes, lists, text, err) : pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
}

enum pz_status pz_variants_conclude(const struct pz_variants *v, struct pz_vec *notes,
                                    struct pz_error *err) {
  enum pz_status status = PZ_OK;
  int n = 0;
  for (int t = 0; t < v->tp->n; t++) n += why_no_degree(v, t) == NULL;
  if (!n) return fail_all(v, err);
  for (int t = 0; t < v->tp->n && status == PZ_OK; t++)
    status = note_left_out(notes, v->tp->v[t], 0, why_no_degree(v, t), err);
  for (int m = 0; m < v->mbs->n && status == PZ_OK; m++)
    status = note_left_out(notes, 0, v->mbs->v[m], why_no_microbatch(v, m), err);
  for (int t = 0; t < v->tp->n; t++)
    for (int m = 0; m < v->mbs->n && status == PZ_OK; m++)
      if (!why_no_degree(v, t) && !why_no_microbatch(v, m))
        status = note_left_out(notes, v->tp->v[t], v->mbs->v[m], why_not(v, t, m), err);
  return status;
}

/* ---- building them -------------------------------------------------------------------------- */

/* The original system's slices have key/value heads of their own; devices that share one are Megatron Core's. */
static enum pz_status check_own_heads(const struct pz_workload *w, struct pz_error *why) {
  if (!w->kv_heads || w->kv_heads % w->options.tp == 0) return PZ_OK;
  return pz_fail(why, PZ_BAD_USE,
                 "tensor-parallel degree %" PRId64
                 " does not divide the key/value heads of %s (%" PRId64 "); accepted: a divisor",
                 w->options.tp, w->model, w->kv_heads);
}

static enum pz_status load_variant(const char *model, const struct pz_variant_choices *c,
                                   struct pz_workload_options o, struct pz_variant *out,
                                   struct pz_error *why) {
  *out =
      (struct pz_variant){.mbs = o.mbs, .tp = o.tp, .microbatches = pz_ceil_div(c->batch, o.mbs)};
  enum pz_status status =
      check_part("tensor-parallel degree", o.tp, "number of devices", c->devices, why);
  if (status == PZ_OK) status = check_part("microbatch", o.mbs, "global batch size", c->batch, why);
  if (status == PZ_OK) status = pz_workload_load(model, &o, &out->w, why);
  if (status == PZ_OK) status = check_own_heads(out->w, why);
  if (status != PZ_OK) {
    pz_workload_free(out->w);
    out->w = NULL;
  }
  return status;
}

enum pz_status pz_variants_load(const char *model, const struct pz_variant_choices *c,
                                const struct pz_workload_options *how, struct pz_vec *notes,
                                struct pz_variant *list, uint32_t *n, struct pz_error *err) {
  struct pz_variants v = {0};
  enum pz_status status = pz_variants_init(&v, c->tp, c->mbs, notes->arena, err);
  *n = 0;
  for (int t = 0; t < c->tp->n; t++)
    for (int m = 0; m < c->mbs->n && status == PZ_OK; m++) {
      struct pz_workload_options o = *how;
      struct pz_error why = {0};
      o.mbs = c->mbs->v[m];
      o.tp = c->tp->v[t];
      if (load_variant(model, c, o, &list[*n], &why) == PZ_OK)
        ++*n;
      else
        status = pz_variants_refuse(&v, t, m, &why, err);
    }
  return status == PZ_OK ? pz_variants_conclude(&v, notes, err) : status;
}
