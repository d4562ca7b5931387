#include "place/plan_changes.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/vec.h"

/* ---- changes of one field ------------------------------------------------------------------- */

/* Which fields a change has touched, so that two do not touch the same. */
enum field { FIELD_RECOMPUTE = 1, FIELD_ZERO = 2, FIELD_MBS = 4, FIELD_DEGREES = 8, FIELD_SP = 16 };

enum { CHANGES = 9 };

/* Change i of a plan; 0: the plan has it already, or it cannot be. */
static unsigned change(int i, struct pz_training_options *o, char *text, size_t size) {
  static const int again[] = {PZ_RECOMPUTATION_SELECTIVE, PZ_RECOMPUTATION_FULL};
  if (i < 2) {
    bool more = o->recompute == PZ_RECOMPUTATION_NONE ||
                (i == 1 && (o->recompute != PZ_RECOMPUTATION_FULL || o->recompute_layers));
    o->recompute_layers = 0;
    o->recompute_modules = 0;
    o->recompute = again[i];
    snprintf(text, size, " --recompute %s", pz_recomputation_names[o->recompute]);
    return more ? FIELD_RECOMPUTE : 0;
  }
  if (i < 5) {
    bool more = o->dp > 1 && o->zero < i - 1;
    o->zero = i - 1;
    snprintf(text, size, " --zero %d", o->zero);
    return more ? FIELD_ZERO : 0;
  }
  if (i == 5) {
    bool more = o->mbs > 1;
    o->mbs = 1;
    snprintf(text, size, " --mbs 1");
    return more ? FIELD_MBS : 0;
  }
  if (i == 8) {
    bool more = o->tp > 1 && !o->sequence_parallel;
    o->sequence_parallel = 1;
    snprintf(text, size, " --sp");
    return more ? FIELD_SP : 0;
  }
  bool more = o->dp % 2 == 0;
  int64_t *degree = i == 6 ? &o->tp : &o->pp;
  *degree *= 2;
  o->dp /= 2;
  o->shard = o->shard < o->dp ? o->shard : 0;
  snprintf(text, size, " --%s %lld --dp %lld", i == 6 ? "tp" : "pp", (long long)*degree,
           (long long)o->dp);
  return more ? FIELD_DEGREES : 0;
}

/* ---- those that fit ------------------------------------------------------------------------- */

struct job {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  struct pz_training_options plan;
  struct pz_vec found; /* struct pz_plan_change */
};

/* Keep the plan if it fits; one that cannot be is left out. */
static enum pz_status try_plan(struct job *j, const struct pz_training_options *o, const char *text,
                               struct pz_error *err) {
  struct pz_training_run *r = NULL;
  struct pz_error why = {0};
  enum pz_status status = pz_training_predict(j->model, j->chip, j->net, o, &r, &why);
  if (status == PZ_NO_MEMORY) return pz_fail(err, status, "%s", why.message);
  if (status != PZ_OK) return PZ_OK;
  if (r->p.peak_bytes <= r->hbm_bytes) {
    struct pz_plan_change c = {.text = pz_arena_strdup(j->found.arena, text + 1),
                               .step_s = r->p.step_s,
                               .peak_bytes = r->p.peak_bytes};
    if (!c.text || !pz_vec_push(&j->found, &c))
      status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan's changes");
  }
  pz_training_run_free(r);
  return status;
}

static enum pz_status try_singles(struct job *j, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  for (int i = 0; i < CHANGES && status == PZ_OK; i++) {
    struct pz_training_options o = j->plan;
    char text[64];
    if (change(i, &o, text, sizeof text)) status = try_plan(j, &o, text, err);
  }
  return status;
}

static enum pz_status try_pairs(struct job *j, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  for (int a = 0; a < CHANGES; a++)
    for (int b = a + 1; b < CHANGES && status == PZ_OK; b++) {
      struct pz_training_options o = j->plan;
      char first[64], second[64], text[128];
      unsigned x = change(a, &o, first, sizeof first), y = change(b, &o, second, sizeof second);
      snprintf(text, sizeof text, "%s%s", first, second);
      if (x && y && x != y) status = try_plan(j, &o, text, err);
    }
  return status;
}

static int by_time(const void *a, const void *b) {
  const struct pz_plan_change *x = a, *y = b;
  if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
  return (x->peak_bytes > y->peak_bytes) - (x->peak_bytes < y->peak_bytes);
}

enum pz_status pz_plan_changes(const char *model, const struct pz_chip *chip,
                               const struct pz_cluster *net, const struct pz_training_run *r,
                               struct pz_arena *arena, struct pz_plan_change **list, uint32_t *n,
                               struct pz_error *err) {
  struct job j = {.model = model, .chip = chip, .net = net, .plan = r->plan};
  j.plan.events = false;
  if (j.plan.shard == j.plan.dp) j.plan.shard = 0;
  pz_vec_init(&j.found, arena, sizeof(struct pz_plan_change));
  enum pz_status status = try_singles(&j, err);
  if (status == PZ_OK && !j.found.n) status = try_pairs(&j, err);
  if (status != PZ_OK) return status;
  if (j.found.n) qsort(j.found.items, j.found.n, sizeof(struct pz_plan_change), by_time);
  *list = j.found.items;
  *n = j.found.n;
  return PZ_OK;
}
