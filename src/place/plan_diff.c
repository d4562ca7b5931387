/* Compares two runs: the fields in which they differ, a path of plans from one to the other on which each change is
 * priced, and a verdict.
 *
 * read_side() predicts both runs.  find_differences() lists the fields that differ.  walk_path() changes one field at a
 * time, in the order of plan_fields.def with model, chip and cluster first; where no single change gives a plan that can
 * run, it makes the fewest changes that do together, up to MAX_TOGETHER, else all that are left.  A field that follows
 * from others (replicas, pipeline order etc.) is not a change of its own.  Prices are those of pz_predict(). */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/call.h"
#include "core/num.h"
#include "core/text.h"
#include "core/vec.h"
#include "place/neighbours.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/prediction.h"

/* Items that a path may change: plan fields by number, and the machine (model, chip and cluster together). */
enum { MACHINE = PZ_PLAN_FIELDS, ITEMS, MAX_TOGETHER = 3 };

struct diff_side {
  struct pz_run_plan r;
  struct pz_job job;
  struct pz_cluster wide;
  /* The filled plan; fields that say the same in several ways say it in one. */
  struct pz_plan canonical;
  struct pz_plan chosen; /* the canonical plan with the fields that follow from others unset */
  struct pz_model_shape model;
  bool runs; /* whether its framework can run it */
};

struct diff_walk {
  struct diff_side a, b;
  struct pz_plan plan;      /* a's chosen plan with the changes up to now */
  const struct pz_job *job; /* a's or b's */
  int items[ITEMS];         /* that are left to change */
  int n_items;
  struct pz_vec path; /* struct pz_diff_change */
  struct pz_plan_diff *diff;
};

/* ---- both sides ----------------------------------------------------------------------------- */

static struct pz_plan chosen_plan(const struct pz_plan *p) {
  struct pz_plan c = *p;
  c.dp = c.etp = 0;
  if (p->sp || p->tp == 1) c.sp = PZ_AS_FRAMEWORK;
  if (pz_plan_etp(p) != pz_plan_etp(&c)) c.etp = p->etp;
  if (!pz_plan_is_hybrid_sharded(p)) c.shard = 0;
  if (p->pipeline == (p->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B))
    c.pipeline = PZ_AS_FRAMEWORK;
  return c;
}

/* Unsets first and last layers that the even division has anyway, and moments and a fused loss that are the framework's
 * own. */
static struct pz_plan canonical_plan(const struct pz_training_run *r, bool experts) {
  struct pz_plan p = r->plan, even = r->plan;
  bool is_even = true;
  even.first_layers = even.last_layers = 0;
  for (int64_t j = 0; j < p.pp * p.vpp && is_even; j++)
    is_even = pz_plan_chunk_layers(&p, r->layers, j) == pz_plan_chunk_layers(&even, r->layers, j);
  if (is_even) p = even;
  p.fused_loss = p.fused_loss && pz_plan_framework(&p)->loss != PZ_LOSS_IN_PLACE;
  struct pz_plan default_moments = p;
  default_moments.moment_bytes = 0;
  bool same_moments =
      pz_plan_moment_bytes(&default_moments, experts) == pz_plan_moment_bytes(&p, experts);
  return same_moments ? default_moments : p;
}

/* Predicts the run of one side.  The result's arena holds it. */
static void read_side(struct pz_call *call, const struct pz_diff_side *given, struct diff_side *s,
                      struct pz_call *result, struct pz_training_run *run) {
  struct pz_diff_side o = {.size = sizeof o};
  struct pz_error why = {0};
  struct pz_plan filled;
  pz_require_options(call, &o, sizeof o, given, "struct pz_diff_side");
  s->r = pz_run_plan_default();
  pz_require_options(call, &s->r, sizeof s->r, o.run, "pz_run_plan_default");
  s->job =
      (struct pz_job){.model = s->r.model, .config = s->r.config, .chip = o.chip, .net = o.net};
  pz_training_question(call, &s->job, &s->r.plan, &filled, &s->wide);
  *run = pz_training_run_make(result, &s->job, &filled, false);
  s->model = pz_neighbourhood_make(call, &s->job, &run->plan).model;
  s->canonical = canonical_plan(run, s->model.experts > 0);
  s->chosen = chosen_plan(&s->canonical);
  s->runs = pz_framework_can_run(&run->plan, &s->model, &why);
  pz_text_copy(run->refusal, sizeof run->refusal, why.message);
}

/* ---- differences ---------------------------------------------------------------------------- */

/* Compares two JSON values and releases them. */
static bool same_json(json_t *a, json_t *b) {
  bool same = a && b && json_equal(a, b);
  json_decref(a);
  json_decref(b);
  return same;
}

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_chip(const struct pz_chip *a, const struct pz_chip *b) {
  return a == b || same_json(pz_chip_json(a), pz_chip_json(b));
}

/* Networks are compared without their number of devices, which may be scaled. */
static bool same_network(const struct pz_cluster *a, const struct pz_cluster *b) {
  if (!a || !b) return a == b;
  struct pz_cluster x = *a, y = *b;
  x.devices = y.devices = pz_max(a->devices, b->devices);
  x.stated_devices = y.stated_devices = 1;
  return same_json(pz_cluster_json(&x), pz_cluster_json(&y));
}

static bool same_field(const struct pz_plan *a, const struct pz_plan *b, enum pz_plan_field f) {
  char x[PZ_FIELD_TEXT_MOST], y[PZ_FIELD_TEXT_MOST];
  if (f == PZ_PLAN_STAGE_RECOMPUTE) {
    const int64_t *i = a->stage_recompute, *k = b->stage_recompute;
    if (!i || !k) return i == k;
    return a->pp == b->pp && memcmp(i, k, (size_t)a->pp * sizeof *i) == 0;
  }
  return strcmp(pz_plan_field_text(a, f, x, sizeof x), pz_plan_field_text(b, f, y, sizeof y)) == 0;
}

/* Whether the field says something about one of the plans, and they differ in it. */
static bool differs_visibly(const struct pz_plan *a, const struct pz_plan *b,
                            enum pz_plan_field f) {
  bool visible = f == PZ_PLAN_STAGE_RECOMPUTE || pz_plan_field_is_relevant(a, f) ||
                 pz_plan_field_is_relevant(b, f);
  return visible && !same_field(a, b, f);
}

static bool same_plan(const struct pz_plan *a, const struct pz_plan *b) {
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (differs_visibly(a, b, (enum pz_plan_field)i)) return false;
  return true;
}

static void add_difference(struct pz_call *result, struct pz_plan_diff *d, const char *name,
                           const char *a, const char *b) {
  struct pz_field_difference *x = &d->fields[d->n_fields++];
  x->name = name;
  x->a = pz_copy_text(result, a ? a : "-");
  x->b = pz_copy_text(result, b ? b : "-");
}

/* Lists the fields that differ, and the items of the path. */
static void find_differences(struct pz_call *result, struct diff_walk *w) {
  const struct pz_job *job_a = &w->a.job, *job_b = &w->b.job;
  const struct pz_plan *a = &w->a.canonical, *b = &w->b.canonical;
  struct pz_plan_diff *d = w->diff;
  bool model = !same_text(job_a->model, job_b->model) || !same_text(job_a->config, job_b->config);
  bool chip = !same_chip(job_a->chip, job_b->chip);
  bool net = !same_network(job_a->net, job_b->net);
  d->fields = pz_alloc(result, PZ_RUN_FIELDS, sizeof *d->fields);
  if (model || chip || net) w->items[w->n_items++] = MACHINE;
  if (model) add_difference(result, d, "model", job_a->model, job_b->model);
  if (chip) add_difference(result, d, "chip", job_a->chip->name, job_b->chip->name);
  if (net)
    add_difference(result, d, "cluster", job_a->net ? job_a->net->name : NULL,
                   job_b->net ? job_b->net->name : NULL);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    char x[PZ_FIELD_TEXT_MOST], y[PZ_FIELD_TEXT_MOST];
    if (!differs_visibly(a, b, f)) continue;
    bool follows = pz_plan_is_unset(&w->a.chosen, f) && pz_plan_is_unset(&w->b.chosen, f);
    if (!follows) w->items[w->n_items++] = i;
    if (f == PZ_PLAN_STAGE_RECOMPUTE)
      add_difference(result, d, pz_plan_field_name(f), d->a.recompute_text, d->b.recompute_text);
    else
      add_difference(result, d, pz_plan_field_name(f), pz_plan_field_text(a, f, x, sizeof x),
                     pz_plan_field_text(b, f, y, sizeof y));
  }
}

/* ---- the path ------------------------------------------------------------------------------- */

/* A subset of the items that are left, by ascending position. */
struct item_choice {
  int at[ITEMS];
  int n;
};

/* Sets the item in the plan, or in the job, as b has it. */
static void set_item(const struct diff_walk *w, int item, struct pz_plan *plan,
                     const struct pz_job **job) {
  if (item == MACHINE)
    *job = &w->b.job;
  else
    pz_plan_field_copy(plan, &w->b.chosen, (enum pz_plan_field)item);
}

struct priced_plan {
  const struct pz_job *job;
  const struct pz_plan *plan;
  struct pz_prediction *p;
};

static void price_plan(struct pz_call *call, void *ctx) {
  struct priced_plan *x = ctx;
  *x->p = pz_predict(call, x->job, x->plan, NULL);
}

/* Prices the plan with the chosen items as b has them; with all items, it is b itself.  Returns false if that is not a
 * plan, or if its framework cannot run it although it can run both ends.  It overlaps what its framework can overlap. */
static bool try_items(struct pz_call *call, const struct diff_walk *w,
                      const struct item_choice *choice, struct pz_diff_change *out) {
  struct pz_plan p = w->plan;
  const struct pz_job *job = w->job;
  struct pz_error why = {0};
  if (choice->n == w->n_items) {
    out->plan = w->b.canonical;
    out->p = w->diff->b.p;
    return true;
  }
  for (int i = 0; i < choice->n; i++) set_item(w, w->items[choice->at[i]], &p, &job);
  const struct pz_model_shape *model = job == &w->b.job ? &w->b.model : &w->a.model;
  if (!pz_try_fill_plan(&p, job->chip, &why)) return false;
  if (w->a.runs && w->b.runs) {
    p.overlap = pz_framework_overlap(&p, model);
    if (!pz_framework_can_run(&p, model, NULL)) return false;
  }
  out->plan = p;
  enum pz_status status = pz_border(price_plan, &(struct priced_plan){job, &p, &out->p}, &why);
  if (status == PZ_NO_MEMORY) pz_raise_again(call, &why);
  return status == PZ_OK && isfinite(out->p.step_s) && isfinite(out->p.peak_bytes);
}

/* Extends the choice by `size` items from position `from` on.  Returns whether one of these choices can run; then it is
 * the choice, in the order of the items. */
static bool find_runnable_items(struct pz_call *call, const struct diff_walk *w, int size, int from,
                                struct item_choice *choice, struct pz_diff_change *out) {
  if (!size) return try_items(call, w, choice, out);
  for (int i = from; i + size <= w->n_items; i++) {
    choice->at[choice->n++] = i;
    if (find_runnable_items(call, w, size - 1, i + 1, choice, out)) return true;
    choice->n--;
  }
  return false;
}

static const struct pz_field_difference *find_difference(const struct pz_plan_diff *d,
                                                         const char *name) {
  for (uint32_t i = 0; i < d->n_fields; i++)
    if (strcmp(d->fields[i].name, name) == 0) return &d->fields[i];
  return NULL;
}

/* Describes the chosen items: "tp 8 -> 4, pp 4 -> 2".  Appends their new values to *values: "tp 4, pp 2". */
static const char *describe_items(struct pz_call *result, const struct diff_walk *w,
                                  const struct item_choice *choice, const char **values) {
  static const char *const machine[] = {"model", "chip", "cluster"};
  const char *text = "";
  for (int i = 0; i < choice->n; i++) {
    int item = w->items[choice->at[i]];
    int names = item == MACHINE ? 3 : 1;
    for (int k = 0; k < names; k++) {
      const char *name =
          item == MACHINE ? machine[k] : pz_plan_field_name((enum pz_plan_field)item);
      const struct pz_field_difference *f = find_difference(w->diff, name);
      if (!f) continue;
      text = pz_format(result, "%s%s%s %s -> %s", text, *text ? ", " : "", name, f->a, f->b);
      *values = pz_format(result, "%s%s%s %s", *values, **values ? ", " : "", name, f->b);
    }
  }
  return text;
}

/* Changes the chosen items for good, and removes them from those that are left. */
static void change_items(struct diff_walk *w, const struct item_choice *choice) {
  int left = 0, chosen = 0;
  for (int i = 0; i < w->n_items; i++) {
    if (chosen < choice->n && choice->at[chosen] == i) {
      set_item(w, w->items[i], &w->plan, &w->job);
      chosen++;
    } else {
      w->items[left++] = w->items[i];
    }
  }
  w->n_items = left;
}

/* Whether the plan is b, and the items that are left follow from others. */
static bool only_followers_left(const struct diff_walk *w, const struct pz_plan *p) {
  for (int i = 0; i < w->n_items; i++)
    if (w->items[i] == MACHINE) return false;
  return w->n_items && same_plan(p, &w->b.canonical);
}

static void walk_path(struct pz_call *call, struct pz_call *result, struct diff_walk *w) {
  struct pz_plan_diff *d = w->diff;
  struct pz_prediction before = d->a.p;
  struct pz_plan plan = w->a.canonical;
  while (w->n_items) {
    const struct pz_job *job = w->job;
    struct pz_diff_change one = {.plan = w->plan};
    struct item_choice choice = {.n = 0};
    bool found = false;
    for (int size = 1; size <= MAX_TOGETHER && size <= w->n_items && !found; size++)
      found = find_runnable_items(call, w, size, 0, &choice, &one);
    if (!found) { /* all that are left, which gives b itself */
      for (choice.n = 0; choice.n < w->n_items; choice.n++) choice.at[choice.n] = choice.n;
      (void)try_items(call, w, &choice, &one);
    }
    const char *values = d->changes;
    one.fields = (uint32_t)choice.n;
    one.change = describe_items(result, w, &choice, &values);
    change_items(w, &choice);
    if (only_followers_left(w, &one.plan)) {
      one.p = d->b.p;
      w->n_items = 0;
    }
    one.step_s = one.p.step_s - before.step_s;
    one.peak_bytes = one.p.peak_bytes - before.peak_bytes;
    bool changed = job != w->job || !same_plan(&plan, &one.plan);
    if (changed) {
      pz_append(call, &w->path, &one);
      d->changes = values;
    }
    before = one.p;
    plan = one.plan;
  }
  d->path = w->path.items;
  d->n_path = w->path.n;
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* Lists the parts that differ most, by at least a thousandth of the step:
 * ": +0.9 s tensor-parallel collectives, -0.1 s GEMMs, +0.01 s others". */
static const char *describe_parts(struct pz_call *result, const struct pz_prediction *a,
                                  const struct pz_prediction *b) {
  enum { MAX_PARTS = 3 };
  struct pz_training_parts left = b->parts; /* parts that are listed are set to those of a */
  const struct pz_part_info *part;
  const char *text = "";
  double others_s = b->step_s - a->step_s;
  for (int n = 0; n < MAX_PARTS; n++) {
    const struct pz_part_info *most = NULL;
    double most_s = 0;
    for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
      double more_s = pz_time_part(&left, part) - pz_time_part(&a->parts, part);
      if (fabs(more_s) < fmax(fabs(most_s), 1e-3 * a->step_s)) continue;
      most_s = more_s;
      most = part;
    }
    if (!most) break;
    text = pz_format(result, "%s%s %+.2g s %s", text, *text ? "," : ":", most_s,
                     pz_time_part_label(b->scan_layers > 0 ? b : a, most));
    *(double *)(void *)((char *)&left + most->offset) = pz_time_part(&a->parts, most);
    others_s -= most_s;
  }
  bool has_others = *text && fabs(others_s) >= 1e-3 * a->step_s;
  return has_others ? pz_format(result, "%s, %+.2g s others", text, others_s) : text;
}

static const char *describe_misfit(struct pz_call *result, const struct pz_prediction *p) {
  const struct pz_part_info *part, *most = pz_memory_part_at(0);
  if (p->needed_bytes <= p->usable_bytes)
    return pz_format(result,
                     "does not fit: needs %.1f GB of the host's memory for a device, %.1f GB more "
                     "than usable",
                     p->host_bytes / 1e9, (p->host_bytes - p->usable_host_bytes) / 1e9);
  for (size_t i = 1; (part = pz_memory_part_at(i)); i++)
    if (pz_memory_part(&p->peak, part) > pz_memory_part(&p->peak, most)) most = part;
  return pz_format(result,
                   "does not fit: needs %.1f GB a device, %.1f GB more than usable; the largest "
                   "part is %s, %.1f GB",
                   p->needed_bytes / 1e9, (p->needed_bytes - p->usable_bytes) / 1e9, most->label,
                   pz_memory_part(&p->peak, most) / 1e9);
}

/* Runs with the same tokens per step on the same number of devices are compared by the parts of their steps, others by
 * tokens per second and device. */
static const char *describe_verdict(struct pz_call *result, const struct pz_plan_diff *d) {
  const struct pz_prediction *a = &d->a.p, *b = &d->b.p;
  bool same_work = a->tokens == b->tokens && d->a.plan.devices == d->b.plan.devices;
  double longer = a->tokens_per_s_per_device / b->tokens_per_s_per_device;
  double percent = 100 * fabs(longer - 1);
  const char *fits = pz_prediction_fits(a) ? "" : "fits in memory, unlike the other, and ";
  if (d->b.refusal[0]) return pz_format(result, "is refused: %s", d->b.refusal);
  if (!pz_prediction_fits(b)) return describe_misfit(result, b);
  const char *why = same_work ? describe_parts(result, a, b) : " by tokens a second and device";
  if (longer >= 2) return pz_format(result, "%stakes %.3g times as long%s", fits, longer, why);
  if (percent < 0.05) return pz_format(result, "%sis as fast%s", fits, why);
  return pz_format(result, "%sis %.1f%% %s%s", fits, percent, longer > 1 ? "slower" : "faster",
                   why);
}

struct diff_args {
  const struct pz_diff_side *a, *b;
  struct pz_plan_diff **out;
};

static void compare_runs(struct pz_call *call, void *ctx) {
  struct diff_args *x = ctx;
  struct pz_call result;
  pz_require(call, x->a, "a");
  pz_require(call, x->b, "b");
  pz_require(call, x->out, "out");
  struct pz_plan_diff *d = pz_object_new(call, sizeof *d, &result);
  /* what is predicted may point into the sides, so that these are in the result's memory */
  struct diff_walk *w = pz_alloc(&result, 1, sizeof *w);
  w->diff = d;
  pz_vec_init(&w->path, result.arena, sizeof(struct pz_diff_change));
  read_side(call, x->a, &w->a, &result, &d->a);
  read_side(call, x->b, &w->b, &result, &d->b);
  d->changes = "";
  w->plan = w->a.chosen;
  w->job = &w->a.job;
  find_differences(&result, w);
  walk_path(call, &result, w);
  d->verdict = describe_verdict(&result, d);
  *x->out = pz_object_keep(call, d);
}

enum pz_status pz_plan_diff(const struct pz_diff_side *a, const struct pz_diff_side *b,
                            struct pz_plan_diff **out, struct pz_error *err) {
  struct diff_args x = {a, b, out};
  return pz_border(compare_runs, &x, err);
}

void pz_plan_diff_free(struct pz_plan_diff *d) { pz_object_free(d); }
