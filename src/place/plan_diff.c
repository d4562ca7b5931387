/* Two runs: the fields in which they differ, and a path of plans from one to the other on which each change is priced
 * (pz_step_price by pz_predict).  The path changes one field at a time, in the order of plan_fields.def, model, chip and
 * cluster first; where no single change gives a plan that can run, the fewest that do together, up to MOST_TOGETHER, else
 * all that are left.  What follows from other fields (replicas, order of the pipeline ...) is no change of its own. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/held.h"
#include "core/num.h"
#include "core/status.h"
#include "core/text.h"
#include "core/vec.h"
#include "place/neighbours.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/prediction.h"

enum { MACHINE = PZ_PLAN_FIELDS, ITEMS, MOST_TOGETHER = 3 };

struct diff_side {
  struct pz_run_plan r;
  struct pz_job job;
  struct pz_cluster wide;
  struct pz_plan told;  /* the filled plan, with one way to say the same */
  struct pz_plan asked; /* that without what follows from its other fields */
  struct pz_model_shape model;
  bool runs; /* its framework can run it */
};

struct diff_walk {
  struct diff_side a, b;
  struct pz_plan at;       /* a's asked plan, with what was changed taken from b */
  const struct pz_job *on; /* a's or b's */
  int items[ITEMS];        /* that are left to change */
  int n;
  bool lost;          /* memory ran out where a plan was tried */
  struct pz_vec path; /* struct pz_diff_change */
  struct pz_plan_diff *out;
  struct pz_arena *arena;
  struct pz_error *err;
};

static enum pz_status diff_no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the difference");
}

/* ---- both sides ----------------------------------------------------------------------------- */

static struct pz_plan plan_asked(const struct pz_plan *p) {
  struct pz_plan a = *p;
  a.dp = a.etp = 0;
  if (p->sp || p->tp == 1) a.sp = PZ_AS_FRAMEWORK;
  if (pz_plan_etp(p) != pz_plan_etp(&a)) a.etp = p->etp;
  if (!pz_plan_hybrid(p)) a.shard = 0;
  if (p->pipeline == (p->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B))
    a.pipeline = PZ_AS_FRAMEWORK;
  return a;
}

/* Ends of a pipeline that its division has without a word, moments and a loss that are the framework's own. */
static struct pz_plan plan_told(const struct pz_training_run *r, bool experts) {
  struct pz_plan t = r->plan, even = r->plan;
  bool same = true;
  even.first_layers = even.last_layers = 0;
  for (int64_t j = 0; j < t.pp * t.vpp && same; j++)
    same = pz_plan_blocks(&t, r->layers, j) == pz_plan_blocks(&even, r->layers, j);
  if (same) t = even;
  t.fused_loss = t.fused_loss && pz_plan_framework(&t)->loss != PZ_LOSS_IN_PLACE;
  even = t;
  even.moment_bytes = 0;
  return pz_plan_moment_bytes(&even, experts) == pz_plan_moment_bytes(&t, experts) ? even : t;
}

static enum pz_status side_take(const struct pz_diff_side *given, struct diff_side *s,
                                struct pz_arena *arena, struct pz_training_run *run,
                                struct pz_error *err) {
  struct pz_diff_side o = {.size = sizeof o};
  struct pz_neighbourhood near;
  struct pz_error why = {0};
  struct pz_plan filled;
  enum pz_status status = pz_sized_take(&o, sizeof o, given, "struct pz_diff_side", err);
  s->r = pz_run_plan_default();
  if (status == PZ_OK)
    status = pz_sized_take(&s->r, sizeof s->r, o.run, "pz_run_plan_default", err);
  if (status != PZ_OK) return status;
  s->job =
      (struct pz_job){.model = s->r.model, .config = s->r.config, .chip = o.chip, .net = o.net};
  status = pz_training_question(&s->job, &s->r.plan, run, &filled, &s->wide, err);
  if (status == PZ_OK) status = pz_training_run_make(&s->job, &filled, false, arena, run, err);
  if (status == PZ_OK) status = pz_neighbourhood_of(&s->job, &run->plan, &near, err);
  if (status != PZ_OK) return status;
  s->model = near.model;
  s->told = plan_told(run, s->model.experts > 0);
  s->asked = plan_asked(&s->told);
  s->runs = pz_framework_can(&run->plan, &s->model, &why);
  pz_text_copy(run->refusal, sizeof run->refusal, why.message);
  return PZ_OK;
}

static bool same_json(json_t *a, json_t *b) {
  bool same = a && b && json_equal(a, b);
  json_decref(a);
  json_decref(b);
  return same;
}

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_model(const struct diff_walk *w) {
  return same_text(w->a.job.model, w->b.job.model) && same_text(w->a.job.config, w->b.job.config);
}

static bool same_chip(const struct diff_walk *w) {
  const struct pz_chip *a = w->a.job.chip, *b = w->b.job.chip;
  return a == b || same_json(pz_chip_json(a), pz_chip_json(b));
}

/* Scaled out they may have other devices. */
static bool same_net(const struct diff_walk *w) {
  const struct pz_cluster *a = w->a.job.net, *b = w->b.job.net;
  if (!a || !b) return a == b;
  struct pz_cluster x = *a, y = *b;
  x.devices = y.devices = pz_max(a->devices, b->devices);
  x.stated_devices = y.stated_devices = 1;
  return same_json(pz_cluster_json(&x), pz_cluster_json(&y));
}

/* ---- fields --------------------------------------------------------------------------------- */

static bool same_stages(const struct pz_plan *a, const struct pz_plan *b) {
  const int64_t *x = a->stage_recompute, *y = b->stage_recompute;
  if (!x || !y) return x == y;
  return a->pp == b->pp && memcmp(x, y, (size_t)a->pp * sizeof *x) == 0;
}

static bool same_field(const struct pz_plan *a, const struct pz_plan *b, enum pz_plan_field f) {
  char x[PZ_FIELD_TEXT_MOST], y[PZ_FIELD_TEXT_MOST];
  if (f == PZ_PLAN_STAGE_RECOMPUTE) return same_stages(a, b);
  return strcmp(pz_plan_field_text(a, f, x, sizeof x), pz_plan_field_text(b, f, y, sizeof y)) == 0;
}

/* Do both say the same? */
static bool same_told(const struct pz_plan *a, const struct pz_plan *b) {
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    bool told =
        f == PZ_PLAN_STAGE_RECOMPUTE || pz_plan_field_told(a, f) || pz_plan_field_told(b, f);
    if (told && !same_field(a, b, f)) return false;
  }
  return true;
}

static enum pz_status add_field(struct diff_walk *w, const char *name, const char *a,
                                const char *b) {
  struct pz_plan_diff *d = w->out;
  struct pz_field_difference *x = &d->fields[d->n_fields];
  x->name = name;
  x->a = pz_arena_strdup(w->arena, a ? a : "-");
  x->b = pz_arena_strdup(w->arena, b ? b : "-");
  d->n_fields++;
  return x->a && x->b ? PZ_OK : diff_no_memory(w->err);
}

/* Fields that differ, and of these the items of the path. */
static enum pz_status find_fields(struct diff_walk *w) {
  const struct pz_plan *a = &w->a.told, *b = &w->b.told;
  bool model = !same_model(w), chip = !same_chip(w), net = !same_net(w);
  enum pz_status status = PZ_OK;
  w->out->fields = pz_arena_alloc(w->arena, PZ_RUN_FIELDS, sizeof *w->out->fields);
  if (!w->out->fields) return diff_no_memory(w->err);
  if (model || chip || net) w->items[w->n++] = MACHINE;
  if (model) status = add_field(w, "model", w->a.job.model, w->b.job.model);
  if (status == PZ_OK && chip)
    status = add_field(w, "chip", w->a.job.chip->name, w->b.job.chip->name);
  if (status == PZ_OK && net)
    status = add_field(w, "cluster", w->a.job.net ? w->a.job.net->name : NULL,
                       w->b.job.net ? w->b.job.net->name : NULL);
  for (int i = 0; i < PZ_PLAN_FIELDS && status == PZ_OK; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    char x[PZ_FIELD_TEXT_MOST], y[PZ_FIELD_TEXT_MOST];
    bool list = f == PZ_PLAN_STAGE_RECOMPUTE;
    if (same_field(a, b, f)) continue;
    if (!list && !pz_plan_field_told(a, f) && !pz_plan_field_told(b, f)) continue;
    bool follows = pz_plan_is_unset(&w->a.asked, f) && pz_plan_is_unset(&w->b.asked, f);
    if (!follows) w->items[w->n++] = i;
    status = add_field(w, pz_plan_field_name(f),
                       list ? w->out->a.recompute_text : pz_plan_field_text(a, f, x, sizeof x),
                       list ? w->out->b.recompute_text : pz_plan_field_text(b, f, y, sizeof y));
  }
  return status;
}

/* ---- the path ------------------------------------------------------------------------------- */

/* Items chosen of those that are left, by position, ascending. */
struct diff_choice {
  int at[ITEMS];
  int n;
};

/* The plan with the chosen items as b has them; false: it cannot be, or its framework cannot run it though it can run
 * both ends.  The overlap is what of it the framework can do there. */
static bool try_choice(struct diff_walk *w, const struct diff_choice *c,
                       struct pz_diff_change *out) {
  struct pz_plan p = w->at;
  const struct pz_job *on = w->on;
  struct pz_error why = {0};
  if (c->n == w->n) {
    out->plan = w->b.told;
    out->p = w->out->b.p;
    return true;
  }
  for (int i = 0; i < c->n; i++) {
    int item = w->items[c->at[i]];
    if (item == MACHINE)
      on = &w->b.job;
    else
      pz_plan_field_copy(&p, &w->b.asked, (enum pz_plan_field)item);
  }
  const struct pz_model_shape *model = on == &w->b.job ? &w->b.model : &w->a.model;
  if (pz_plan_fill(&p, on->chip, &why) != PZ_OK) return false;
  if (w->a.runs && w->b.runs) {
    p.overlap = pz_framework_overlap(&p, model);
    if (!pz_framework_can(&p, model, NULL)) return false;
  }
  out->plan = p;
  enum pz_status status = pz_predict(on, &p, &out->p, NULL, &why);
  if (status == PZ_NO_MEMORY) w->lost = true; /* the plan may be one that can be */
  return status == PZ_OK && isfinite(out->p.step_s) && isfinite(out->p.peak_bytes);
}

/* The first choice of `size` items from position `from` on that can run. */
static bool find_choice(struct diff_walk *w, int size, int from, struct diff_choice *c,
                        struct pz_diff_change *out) {
  if (!size) return try_choice(w, c, out);
  for (int i = from; i + size <= w->n; i++) {
    c->at[c->n++] = i;
    if (find_choice(w, size - 1, i + 1, c, out)) return true;
    c->n--;
  }
  return false;
}

static const char *field_value(const struct pz_plan_diff *d, const char *name, bool b) {
  for (uint32_t i = 0; i < d->n_fields; i++)
    if (strcmp(d->fields[i].name, name) == 0) return b ? d->fields[i].b : d->fields[i].a;
  return NULL;
}

/* "tp 8 -> 4, pp 4 -> 2"; *to, which may be NULL for no memory: "tp 4, pp 2" behind what it had. */
static const char *change_text(const struct diff_walk *w, const struct diff_choice *c,
                               const char **to) {
  static const char *const outside[] = {"model", "chip", "cluster"};
  const char *text = "";
  for (int i = 0; i < c->n && text; i++) {
    int item = w->items[c->at[i]];
    for (int k = 0; k < (item == MACHINE ? 3 : 1) && text; k++) {
      const char *name =
          item == MACHINE ? outside[k] : pz_plan_field_name((enum pz_plan_field)item);
      const char *a = field_value(w->out, name, false), *b = field_value(w->out, name, true);
      if (!a) continue;
      text = pz_arena_printf(w->arena, "%s%s%s %s -> %s", text, *text ? ", " : "", name, a, b);
      if (*to) *to = pz_arena_printf(w->arena, "%s%s%s %s", *to, **to ? ", " : "", name, b);
    }
  }
  return text;
}

/* Takes the chosen items off those that are left. */
static void leave_items(struct diff_walk *w, const struct diff_choice *c) {
  int left = 0;
  for (int i = 0, k = 0; i < w->n; i++) {
    int item = w->items[i];
    if (k == c->n || c->at[k] != i) {
      w->items[left++] = item;
      continue;
    }
    k++;
    if (item == MACHINE)
      w->on = &w->b.job;
    else
      pz_plan_field_copy(&w->at, &w->b.asked, (enum pz_plan_field)item);
  }
  w->n = left;
}

/* Is it b, though items are left, which follow from the others? */
static bool is_there(const struct diff_walk *w, const struct pz_plan *p) {
  for (int i = 0; i < w->n; i++)
    if (w->items[i] == MACHINE) return false;
  return w->n && same_told(p, &w->b.told);
}

static enum pz_status walk_path(struct diff_walk *w) {
  struct pz_prediction before = w->out->a.p;
  struct pz_plan plan = w->a.told;
  while (w->n) {
    const struct pz_job *on = w->on;
    struct pz_diff_change one = {.plan = w->at};
    struct diff_choice c = {.n = 0};
    bool found = false;
    for (int size = 1; size <= MOST_TOGETHER && size <= w->n && !found; size++)
      found = find_choice(w, size, 0, &c, &one);
    if (!found) {
      for (c.n = 0; c.n < w->n; c.n++) c.at[c.n] = c.n;
      (void)try_choice(w, &c, &one); /* all that are left: b itself */
    }
    if (w->lost) return diff_no_memory(w->err);
    one.fields = (uint32_t)c.n;
    const char *to = w->out->changes;
    one.change = change_text(w, &c, &to);
    leave_items(w, &c);
    if (is_there(w, &one.plan)) {
      one.p = w->out->b.p;
      w->n = 0;
    }
    one.step_s = one.p.step_s - before.step_s;
    one.peak_bytes = one.p.peak_bytes - before.peak_bytes;
    bool changed = on != w->on || !same_told(&plan, &one.plan); /* else it follows from others */
    if (!one.change || !to || (changed && !pz_vec_push(&w->path, &one)))
      return diff_no_memory(w->err);
    if (changed) w->out->changes = to;
    before = one.p;
    plan = one.plan;
  }
  w->out->path = w->path.items;
  w->out->n_path = w->path.n;
  return PZ_OK;
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* ": +0.9 s tensor-parallel collectives, -0.1 s GEMMs, +0.01 s others": the parts that differ most, at least by a
 * thousandth of the step. */
static const char *terms_text(const struct pz_prediction *a, const struct pz_prediction *b,
                              struct pz_arena *arena) {
  enum { MOST_TERMS = 3 };
  struct pz_training_parts left = b->parts; /* of what is told as of a */
  const struct pz_part_info *part, *most;
  const char *text = "";
  double others = b->step_s - a->step_s;
  for (int n = 0; n < MOST_TERMS && text; n++) {
    double more = 0;
    most = NULL;
    for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
      double one = pz_time_part(&left, part) - pz_time_part(&a->parts, part);
      if (fabs(one) < fmax(fabs(more), 1e-3 * a->step_s)) continue;
      more = one;
      most = part;
    }
    if (!most) break;
    text = pz_arena_printf(arena, "%s%s %+.2g s %s", text, *text ? "," : ":", more,
                           pz_time_part_label(b->scan_layers > 0 ? b : a, most));
    *(double *)(void *)((char *)&left + most->offset) = pz_time_part(&a->parts, most);
    others -= more;
  }
  bool told = text && *text && fabs(others) >= 1e-3 * a->step_s;
  return told ? pz_arena_printf(arena, "%s, %+.2g s others", text, others) : text;
}

static const char *misfit_text(const struct pz_prediction *p, struct pz_arena *arena) {
  const struct pz_part_info *part, *most = pz_memory_part_at(0);
  bool host = p->needed_bytes <= p->usable_bytes;
  double bytes = host ? p->host_bytes : p->needed_bytes;
  double more = bytes - (host ? p->usable_host_bytes : p->usable_bytes);
  for (size_t i = 1; (part = pz_memory_part_at(i)); i++)
    if (pz_memory_part(&p->peak, part) > pz_memory_part(&p->peak, most)) most = part;
  const char *text =
      pz_arena_printf(arena, "does not fit: %.1f GB %sa device, %.1f GB more than usable",
                      bytes / 1e9, host ? "of the host's memory for " : "", more / 1e9);
  if (!text || host) return text;
  return pz_arena_printf(arena, "%s; the largest part is %s, %.1f GB", text, most->label,
                         pz_memory_part(&p->peak, most) / 1e9);
}

/* Runs of as many tokens on as many devices are compared by their steps, others by tokens of a device. */
static const char *verdict_text(const struct pz_plan_diff *d, struct pz_arena *arena) {
  const struct pz_prediction *a = &d->a.p, *b = &d->b.p;
  bool same = a->tokens == b->tokens && d->a.plan.devices == d->b.plan.devices;
  double longer = a->tokens_per_s_per_device / b->tokens_per_s_per_device;
  double percent = 100 * fabs(longer - 1);
  const char *fits = pz_prediction_fits(a) ? "" : "fits in memory, unlike the other, and ";
  if (d->b.refusal[0]) return pz_arena_printf(arena, "is refused: %s", d->b.refusal);
  if (!pz_prediction_fits(b)) return misfit_text(b, arena);
  const char *why = same ? terms_text(a, b, arena) : " by tokens a second and device";
  if (!why) return NULL;
  if (longer >= 2) return pz_arena_printf(arena, "%stakes %.3g times as long%s", fits, longer, why);
  if (percent < 0.05) return pz_arena_printf(arena, "%sis as fast%s", fits, why);
  return pz_arena_printf(arena, "%sis %.1f%% %s%s", fits, percent, longer > 1 ? "slower" : "faster",
                         why);
}

enum pz_status pz_plan_diff(const struct pz_diff_side *a, const struct pz_diff_side *b,
                            struct pz_plan_diff **out, struct pz_error *err) {
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status = pz_need_each(err, {a, "a"}, {b, "b"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the difference", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_plan_diff *d = made;
  struct diff_walk *w = pz_arena_alloc(arena, 1, sizeof *w);
  if (!w) return pz_held_give(diff_no_memory(err), made, out);
  *w = (struct diff_walk){.out = d, .arena = arena, .err = err};
  pz_vec_init(&w->path, arena, sizeof(struct pz_diff_change));
  status = side_take(a, &w->a, arena, &d->a, err);
  if (status == PZ_OK) status = side_take(b, &w->b, arena, &d->b, err);
  d->changes = "";
  w->at = w->a.asked;
  w->on = &w->a.job;
  if (status == PZ_OK) status = find_fields(w);
  if (status == PZ_OK) status = walk_path(w);
  if (status == PZ_OK && !(d->verdict = verdict_text(d, arena))) status = diff_no_memory(err);
  return pz_held_give(status, made, out);
}

void pz_plan_diff_free(struct pz_plan_diff *d) { pz_held_free(d); }
