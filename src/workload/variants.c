/* Variants of a model: building those that are possible, and telling why the others are not.
 *
 * pz_variants_load() tries every pair of a tensor-parallel degree and a microbatch size (load_variant).  Errors about
 * a variant are stored as its reason; in the end they are summed up, so that a degree that is never possible is named
 * once (pz_variants_conclude). */
#include "workload/variants.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"

void pz_variants_add_note(struct pz_call *call, struct pz_vec *notes, unsigned lists,
                          const char *text) {
  for (uint32_t i = 0; i < notes->n; i++)
    if (strcmp(pz_vec_at(notes, struct pz_note, i)->text, text) == 0) return;
  struct pz_call own = pz_call_in(call, notes->arena);
  struct pz_note note = {lists, pz_copy_text(&own, text)};
  pz_append(&own, notes, &note);
}

/* ---- which variants are possible ------------------------------------------------------------ */

struct pz_variants *pz_variants_new(struct pz_call *call, const struct pz_choices *tp,
                                    const struct pz_choices *mbs) {
  struct pz_variants *v = pz_alloc(call, 1, sizeof *v);
  v->tp = tp;
  v->mbs = mbs;
  v->reason = pz_alloc(call, (size_t)(tp->n * mbs->n), sizeof *v->reason);
  return v;
}

void pz_variants_refuse(struct pz_call *call, struct pz_variants *v, int t, int m,
                        const struct pz_error *why) {
  bool about_variant =
      why->status == PZ_BAD_USE || why->status == PZ_BAD_INPUT || why->status == PZ_LIMIT;
  if (!about_variant) pz_raise(call, why->status, "%s", why->message);
  v->reason[t * v->mbs->n + m] = pz_copy_text(call, why->message);
  if (v->status == PZ_OK) v->status = why->status;
}

static const char *reason_against(const struct pz_variants *v, int t, int m) {
  return v->reason[t * v->mbs->n + m];
}

/* If the degree is possible with no microbatch size, returns the reason with the smallest one; otherwise NULL. */
static const char *reason_against_degree(const struct pz_variants *v, int t) {
  for (int m = 0; m < v->mbs->n; m++)
    if (!reason_against(v, t, m)) return NULL;
  return reason_against(v, t, 0);
}

/* If the microbatch size is possible with none of the degrees that others are possible with, returns the reason with
 * the smallest of these; otherwise NULL. */
static const char *reason_against_microbatch(const struct pz_variants *v, int m) {
  const char *reason = NULL;
  for (int t = 0; t < v->tp->n; t++) {
    if (reason_against_degree(v, t)) continue;
    if (!reason_against(v, t, m)) return NULL;
    if (!reason) reason = reason_against(v, t, m);
  }
  return reason;
}

/* ---- notes ---------------------------------------------------------------------------------- */

/* "--tp 3 with --mbs 2 is left out: ...", without a part that is 0; nothing if there is no reason. */
static void note_left_out(struct pz_call *call, struct pz_vec *notes, int64_t tp, int64_t mbs,
                          const char *reason) {
  char degree[40] = "", microbatch[40] = "";
  unsigned lists = 0;
  if (!reason) return;
  if (tp) {
    snprintf(degree, sizeof degree, "--tp %" PRId64, tp);
    lists |= PZ_LIST_TP;
  }
  if (mbs) {
    snprintf(microbatch, sizeof microbatch, "--mbs %" PRId64, mbs);
    lists |= PZ_LIST_MBS;
  }
  const char *text = pz_format(call, "%s%s%s is left out: %s", degree, tp && mbs ? " with " : "",
                               microbatch, reason);
  pz_variants_add_note(call, notes, lists, text);
}

static _Noreturn void raise_none_possible(struct pz_call *call, const struct pz_variants *v) {
  bool same = true;
  for (int i = 1; i < v->tp->n * v->mbs->n; i++)
    if (strcmp(v->reason[i], v->reason[0]) != 0) same = false;
  const char *begin =
      same ? "" : "none of the microbatch sizes and tensor-parallel degrees is possible: ";
  pz_raise(call, v->status, "%s%s", begin, v->reason[0]);
}

void pz_variants_conclude(struct pz_call *call, const struct pz_variants *v, struct pz_vec *notes) {
  bool any_possible = false;
  for (int t = 0; t < v->tp->n; t++)
    if (!reason_against_degree(v, t)) any_possible = true;
  if (!any_possible) raise_none_possible(call, v);
  for (int t = 0; t < v->tp->n; t++)
    note_left_out(call, notes, v->tp->v[t], 0, reason_against_degree(v, t));
  for (int m = 0; m < v->mbs->n; m++)
    note_left_out(call, notes, 0, v->mbs->v[m], reason_against_microbatch(v, m));
  for (int t = 0; t < v->tp->n; t++)
    for (int m = 0; m < v->mbs->n; m++)
      if (!reason_against_degree(v, t) && !reason_against_microbatch(v, m))
        note_left_out(call, notes, v->tp->v[t], v->mbs->v[m], reason_against(v, t, m));
}

/* ---- building variants ---------------------------------------------------------------------- */

/* A tensor-parallel group is a part of the devices, and a microbatch a part of the global batch. */
static void check_part(struct pz_call *call, const char *what, int64_t part, const char *whole_name,
                       int64_t whole) {
  if (part > whole)
    pz_raise(call, PZ_BAD_USE,
             "%s %" PRId64 " is larger than the %s %" PRId64 "; accepted: 1 to %" PRId64, what,
             part, whole_name, whole, whole);
}

static void free_workload(void *w) { pz_workload_free(w); }

struct variant_arguments {
  const char *model;
  const struct pz_variant_choices *choices;
  struct pz_workload_options options;
  struct pz_variant *out;
};

/* Builds one variant.  In the original system, each slice has key/value heads of its own; sharing a head between
 * devices is a technique of Megatron Core. */
static void load_variant(struct pz_call *call, void *ctx) {
  const struct variant_arguments *x = ctx;
  const struct pz_workload_options *o = &x->options;
  struct pz_workload *w;
  check_part(call, "tensor-parallel degree", o->tp, "number of devices", x->choices->devices);
  check_part(call, "microbatch", o->mbs, "global batch size", x->choices->batch);
  pz_must(call, pz_workload_load(x->model, o, &w, pz_call_error(call)));
  pz_defer(call, free_workload, w);
  if (w->kv_heads && w->kv_heads % w->options.tp != 0)
    pz_raise(call, PZ_BAD_USE,
             "tensor-parallel degree %" PRId64
             " does not divide the key/value heads of %s (%" PRId64 "); accepted: a divisor",
             w->options.tp, w->model, w->kv_heads);
  pz_undefer(call, w);
  int64_t microbatches = pz_ceil_div(x->choices->batch, o->mbs);
  *x->out = (struct pz_variant){.mbs = o->mbs, .tp = o->tp, .microbatches = microbatches, .w = w};
}

struct list_arguments {
  const char *model;
  const struct pz_variant_choices *choices;
  const struct pz_workload_options *how;
  struct pz_vec *notes;
  struct pz_variant *list;
  uint32_t *n;
};

static void load_variants(struct pz_call *call, void *ctx) {
  const struct list_arguments *x = ctx;
  const struct pz_choices *tp = x->choices->tp, *mbs = x->choices->mbs;
  struct pz_variants *v = pz_variants_new(call, tp, mbs);
  uint32_t n = 0;
  for (int t = 0; t < tp->n; t++)
    for (int m = 0; m < mbs->n; m++) {
      struct variant_arguments one = {x->model, x->choices, *x->how, &x->list[n]};
      struct pz_error why = {0};
      one.options.tp = tp->v[t];
      one.options.mbs = mbs->v[m];
      if (pz_border(load_variant, &one, &why) != PZ_OK) {
        pz_variants_refuse(call, v, t, m, &why);
        continue;
      }
      pz_defer(call, free_workload, x->list[n].w);
      n++;
    }
  pz_variants_conclude(call, v, x->notes);
  for (uint32_t i = 0; i < n; i++) pz_undefer(call, x->list[i].w);
  *x->n = n;
}

/* ---- for callers that return a status ------------------------------------------------------- */

enum pz_status pz_variants_load(const char *model, const struct pz_variant_choices *c,
                                const struct pz_workload_options *how, struct pz_vec *notes,
                                struct pz_variant *list, uint32_t *n, struct pz_error *err) {
  struct list_arguments x = {model, c, how, notes, list, n};
  *n = 0;
  return pz_border(load_variants, &x, err);
}

struct note_arguments {
  struct pz_vec *notes;
  unsigned lists;
  const char *text;
};

static void add_note(struct pz_call *call, void *ctx) {
  const struct note_arguments *x = ctx;
  pz_variants_add_note(call, x->notes, x->lists, x->text);
}

enum pz_status pz_note_add(struct pz_vec *notes, unsigned lists, const char *text,
                           struct pz_error *err) {
  struct note_arguments x = {notes, lists, text};
  return pz_border(add_note, &x, err);
}
