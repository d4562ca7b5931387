/* phaze tune: the run, its prediction, the best plan and the changes, as tables and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/tune_options.h"
#include "core/text.h"
#include "report/table.h"
#include "step/prediction.h"

/* ---- the run -------------------------------------------------------------------------------- */

/* Fields that say nothing for this run. */
static bool is_shown(const struct pz_run_plan *r, int f) {
  const struct pz_plan *o = &r->plan;
  switch (f) {
  case PZ_PLAN_FIRST_LAYERS: return o->first_layers;
  case PZ_PLAN_LAST_LAYERS: return o->last_layers;
  case PZ_PLAN_SHARD: return o->zero && o->shard != pz_plan_replicas(o);
  case PZ_PLAN_RECOMPUTE_LAYERS: return o->recompute_layers;
  case PZ_PLAN_ATTENTION_LIBRARY: return o->attention_library && *o->attention_library;
  case PZ_PLAN_PIPELINE: return o->pp > 1;
  case PZ_PLAN_VPP: return o->pp > 1;
  case PZ_PLAN_SP: return o->tp > 1;
  case PZ_PLAN_ETP: return o->etp;
  case PZ_PLAN_IMBALANCE: return o->imbalance > 1;
  case PZ_PLAN_MTP: return o->mtp;
  case PZ_PLAN_CP: return pz_plan_cp(o) > 1 || r->from[f];
  default: return f >= PZ_PLAN_FIELDS || pz_plan_field_told(o, (enum pz_plan_field)f);
  }
}

static const char *run_field_name(int f) {
  static const char *const outside[] = {"model", "chip", "cluster"};
  return f < PZ_PLAN_FIELDS ? pz_plan_field((enum pz_plan_field)f)->name
                            : outside[f - PZ_RUN_MODEL];
}

static char *run_field_text(const struct pz_run_plan *r, int f, char *buf, size_t size) {
  const char *const outside[] = {r->model, r->chip, r->cluster};
  if (f < PZ_PLAN_FIELDS) return pz_plan_field_text(&r->plan, (enum pz_plan_field)f, buf, size);
  const char *text = outside[f - PZ_RUN_MODEL];
  return pz_text_plain(pz_text_copy(buf, size, text ? text : "-"));
}

/* Model, chip and cluster stand before the plan. */
static int run_field_at(int i) { return i < 3 ? PZ_RUN_MODEL + i : i - 3; }

static enum pz_status print_run(const struct pz_tuned *x) {
  static const char *const heads[] = {"run", "value", "from", NULL};
  struct pz_table t;
  char text[128];
  pz_table_init(&t, x->arena, heads);
  for (int i = 0; i < PZ_RUN_FIELDS; i++) {
    int f = run_field_at(i);
    const char *from = x->m.run.from[f];
    if (!is_shown(&x->m.run, f)) continue;
    pz_table_cell(&t, "%s", run_field_name(f));
    pz_table_cell(&t, "%s", run_field_text(&x->m.run, f, text, sizeof text));
    if (!from && f == PZ_PLAN_DP)
      pz_table_cell(&t, "= %s", pz_plan_field(PZ_PLAN_DP)->from);
    else
      pz_table_cell(&t, "%s", from ? from : "default");
  }
  return pz_table_print(&t, 0, stdout);
}

/* ---- its prediction ------------------------------------------------------------------------- */

static enum pz_status print_parts(const struct pz_tuned *x) {
  static const char *const heads[] = {"part of the step", ">seconds", ">share", NULL};
  const struct pz_prediction *p = &x->t.own.p;
  const struct pz_part_info *part;
  struct pz_table t;
  pz_table_init(&t, x->arena, heads);
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double s = pz_time_part(&p->parts, part);
    if (!(s > 1e-4 * p->step_s)) continue;
    pz_table_cell(&t, "%s", part->label);
    pz_table_cell(&t, "%.4g", s);
    pz_table_cell(&t, "%.1f%%", 100 * s / p->step_s);
  }
  return pz_table_print(&t, 0, stdout);
}

static void print_measured(const struct pz_tuned *x) {
  double measured = x->s->measured_s, p = x->t.own.p.step_s;
  if (measured > 0)
    printf("measured: %.4g s per step; the prediction is %.1f%% %s\n", measured,
           100 * (p > measured ? p / measured - 1 : 1 - p / measured),
           p > measured ? "too long" : "too short");
}

static enum pz_status print_prediction(const struct pz_tuned *x) {
  const struct pz_training_run *own = &x->t.own;
  const struct pz_prediction *p = &own->p;
  bool fits = p->peak_bytes <= x->t.limit_bytes;
  printf(
      "\npredicted: %.4g s per step, MFU %.1f%% (conventional %.1f%%), %.4g tokens/s per device\n",
      p->step_s, 100 * p->mfu, 100 * p->mfu_conventional, p->tokens_per_s_per_device);
  pz_predict_print_expected(&own->expected);
  print_measured(x);
  printf("memory: %s, %.1f of %.1f GB usable%s at the peak of stage %u\n\n",
         fits ? "fits" : "does not fit", p->peak_bytes / 1e9, p->usable_bytes / 1e9,
         fits ? "" : " needed", p->peak_stage + 1);
  return print_parts(x);
}

/* ---- other plans ---------------------------------------------------------------------------- */

/* What to change, in the words of the file that was read. */
static enum pz_status change_text(const struct pz_tuned *x, const struct pz_tuned_plan *c,
                                  const char **text, struct pz_error *err) {
  if (x->megatron) return pz_megatron_changes(&x->m, &c->plan, x->arena, text, err);
  *text = pz_plan_options_text(&x->m.run.plan, &c->plan, x->arena);
  return *text ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes");
}

static double gain(const struct pz_tuned *x, const struct pz_tuned_plan *c) {
  return 1 - c->p.step_s / x->t.own.p.step_s;
}

static bool own_fits(const struct pz_tuned *x) { return x->t.own.p.peak_bytes <= x->t.limit_bytes; }

static enum pz_status print_best(const struct pz_tuned *x, const char *title,
                                 const struct pz_tuned_plan *c, struct pz_error *err) {
  const char *text;
  char plan[PZ_PLAN_TEXT_MOST];
  enum pz_status status = change_text(x, c, &text, err);
  if (status != PZ_OK) return status;
  if (own_fits(x) && gain(x, c) <= 0) {
    printf("\n%s: none is faster than the run\n", title);
    return PZ_OK;
  }
  printf("\n%s: %.4g s per step (%+.1f%%), MFU %.1f%%, %.1f GB\n", title, c->p.step_s,
         -100 * gain(x, c), 100 * c->p.mfu, c->p.peak_bytes / 1e9);
  printf("  %s", pz_plan_text(&c->plan, plan, sizeof plan));
  printf("\n  %s\n", *text ? text : "no change");
  return PZ_OK;
}

static enum pz_status print_bests(const struct pz_tuned *x, struct pz_error *err) {
  const struct pz_plan_certificate *c = &x->t.certificate;
  enum pz_status status = PZ_OK;
  if (x->t.why)
    printf("\nbest plan for the same devices and batch: %s\n", x->t.why);
  else if (!x->t.has_best)
    printf("\nbest plan for the same devices and batch: none fits in memory; the smallest holds "
           "%.1f GB\n",
           x->t.least_bytes / 1e9);
  else
    status = print_best(x, "best plan for the same devices and batch", &x->t.best, err);
  bool overlapped = x->t.has_overlapped &&
                    (!x->t.has_best || x->t.overlapped.p.step_s < x->t.best.p.step_s * 0.999);
  if (status == PZ_OK && overlapped)
    status = print_best(x, "best plan with every overlap turned on", &x->t.overlapped, err);
  if (x->t.why) return status;
  if (x->t.has_overlapped && !overlapped) printf("  other overlaps make it no faster\n");
  printf("  of %" PRIu64 " plans: %" PRIu64 " simulated, %" PRIu64 " excluded by a bound, %" PRIu64
         " by memory\n",
         c->plans, c->solved, c->by_bound, c->by_memory);
  return status;
}

static enum pz_status print_changes(const struct pz_tuned *x, struct pz_error *err) {
  const char *const heads[] = {"single change", ">s per step", ">time", ">GB", NULL};
  struct pz_table t;
  if (!x->t.n_changes) {
    printf("\nno single change that fits in memory %s (%u tried)\n",
           own_fits(x) ? "is faster" : "was found", x->t.n_tried);
    return PZ_OK;
  }
  pz_table_init(&t, x->arena, heads);
  for (uint32_t i = 0; i < x->t.n_changes && i < PZ_TUNE_MOST_CHANGES; i++) {
    const struct pz_tuned_plan *c = &x->t.changes[i];
    const char *text;
    enum pz_status status = change_text(x, c, &text, err);
    if (status != PZ_OK) return status;
    pz_table_cell(&t, "%s", text);
    pz_table_cell(&t, "%.4g", c->p.step_s);
    pz_table_cell(&t, "%+.1f%%", -100 * gain(x, c));
    pz_table_cell(&t, "%.1f", c->p.peak_bytes / 1e9);
  }
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

enum pz_status pz_tune_print(const struct pz_tuned *x, struct pz_error *err) {
  enum pz_status status = print_run(x);
  if (status == PZ_OK) status = print_prediction(x);
  if (status == PZ_OK) status = print_bests(x, err);
  if (status == PZ_OK) status = print_changes(x, err);
  return status == PZ_NO_MEMORY && !err->message[0]
             ? pz_fail(err, PZ_NO_MEMORY, "out of memory for the tables")
             : status;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *texts_json(const char *const *list, uint32_t n) {
  json_t *j = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(j, json_string(list[i]));
  return j;
}

static json_t *from_json(const struct pz_run_plan *r) {
  json_t *j = json_object();
  for (int i = 0; i < PZ_RUN_FIELDS; i++) {
    int f = run_field_at(i);
    if (f >= PZ_PLAN_FIELDS || pz_plan_field_told(&r->plan, (enum pz_plan_field)f))
      json_object_set_new(j, run_field_name(f), json_string(r->from[f] ? r->from[f] : "default"));
  }
  return j;
}

static enum pz_status plan_json(const struct pz_tuned *x, const struct pz_tuned_plan *c,
                                json_t **out, struct pz_error *err) {
  const char *megatron = NULL, *options = pz_plan_options_text(&x->m.run.plan, &c->plan, x->arena),
             *field = c->field == PZ_PLAN_FIELDS ? NULL : pz_plan_field(c->field)->name;
  struct pz_run_plan run = x->m.run;
  enum pz_status status = PZ_OK;
  if (!options) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the changes");
  if (x->flags) status = pz_megatron_changes(&x->m, &c->plan, x->arena, &megatron, err);
  if (status != PZ_OK) return status;
  run.plan = c->plan;
  *out = json_pack("{s:s?,s:s,s:s?,s:f,s:f,s:f,s:f,s:f,s:o}", "field", field, "options", options,
                   "megatron", megatron, "step_s", c->p.step_s, "gain", gain(x, c), "mfu", c->p.mfu,
                   "mfu_conventional", c->p.mfu_conventional, "peak_bytes", c->p.peak_bytes, "plan",
                   pz_run_plan_json(&run));
  return PZ_OK;
}

static enum pz_status set_plan(const struct pz_tuned *x, json_t *j, const char *key, bool has,
                               const struct pz_tuned_plan *c, struct pz_error *err) {
  json_t *one = NULL;
  enum pz_status status = has ? plan_json(x, c, &one, err) : PZ_OK;
  if (status == PZ_OK) json_object_set_new(j, key, has ? one : json_null());
  return status;
}

static enum pz_status set_changes(const struct pz_tuned *x, json_t *j, struct pz_error *err) {
  json_t *list = json_array();
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < x->t.n_changes && i < PZ_TUNE_MOST_CHANGES && status == PZ_OK; i++) {
    json_t *one = NULL;
    status = plan_json(x, &x->t.changes[i], &one, err);
    if (one) json_array_append_new(list, one);
  }
  json_object_set_new(j, "changes", list);
  return status;
}

static json_t *measured_json(const struct pz_tuned *x) {
  double s = x->s->measured_s;
  return s > 0 ? json_pack("{s:f,s:f}", "step_s", s, "error", x->t.own.p.step_s / s - 1)
               : json_null();
}

enum pz_status pz_tune_json(const struct pz_tuned *x, json_t **out, struct pz_error *err) {
  const struct pz_plan_certificate *c = &x->t.certificate;
  json_t *j = json_object();
  json_object_set_new(j, "run", pz_run_plan_json(&x->m.run));
  json_object_set_new(j, "from", from_json(&x->m.run));
  json_object_set_new(j, "ignored", texts_json(x->m.ignored, x->m.n_ignored));
  json_object_set_new(j, "notes", texts_json(x->m.notes, x->m.n_notes));
  json_object_set_new(j, "prediction", pz_training_run_json(&x->t.own));
  json_object_set_new(j, "measured", measured_json(x));
  enum pz_status status = set_plan(x, j, "best", x->t.has_best, &x->t.best, err);
  if (status == PZ_OK)
    status = set_plan(x, j, "overlapped", x->t.has_overlapped, &x->t.overlapped, err);
  json_object_set_new(j, "certificate",
                      json_pack("{s:I,s:I,s:I,s:f}", "plans", (json_int_t)c->plans, "solved",
                                (json_int_t)c->solved, "excluded",
                                (json_int_t)(c->by_bound + c->by_memory), "gap", c->gap));
  if (status == PZ_OK) status = set_changes(x, j, err);
  if (status == PZ_OK)
    *out = j;
  else
    json_decref(j);
  return status;
}
