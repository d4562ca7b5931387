/* phaze tune: the run, its prediction, the best plan and the changes, as tables and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/tune_options.h"
#include "core/alloc.h"
#include "report/table.h"
#include "report/training_json.h"

/* ---- the run -------------------------------------------------------------------------------- */

static enum pz_status print_run(const struct pz_tuned *x, struct pz_arena *arena) {
  static const char *const heads[] = {"run", "value", "from", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < x->t->n_fields; i++) {
    const struct pz_field_origin *f = &x->t->fields[i];
    if (!f->shown) continue;
    pz_table_cell(&t, "%s", f->name);
    pz_table_cell(&t, "%s", f->value);
    pz_table_cell(&t, "%s", f->from);
  }
  return pz_table_print(&t, 0, stdout);
}

/* ---- its prediction ------------------------------------------------------------------------- */

static enum pz_status print_parts(const struct pz_tuned *x, struct pz_arena *arena) {
  static const char *const heads[] = {"part of the step", ">seconds", ">share", NULL};
  const struct pz_prediction *p = &x->t->own.p;
  const struct pz_part_info *part;
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double s = pz_time_part(&p->parts, part);
    if (!(s > 1e-4 * p->step_s)) continue;
    pz_table_cell(&t, "%s", pz_time_part_label(p, part));
    pz_table_cell(&t, "%.4g", s);
    pz_table_cell(&t, "%.1f%%", 100 * s / p->step_s);
  }
  return pz_table_print(&t, 0, stdout);
}

/* A measured step corrects all times: then the errors of other runs say nothing. */
static void print_measured(const struct pz_tuned *x) {
  double measured = x->measured_s, p = x->t->uncorrected_s;
  if (measured > 0)
    printf("measured: %.4g s per step, where %.4g s are predicted, %.1f%% too %s; all times here "
           "are corrected by it\n",
           measured, p, 100 * (p > measured ? p / measured - 1 : 1 - p / measured),
           p > measured ? "long" : "short");
  else
    pz_predict_print_expected(&x->t->own.expected, x->t->own.p.step_s);
}

static enum pz_status print_prediction(const struct pz_tuned *x, struct pz_arena *arena) {
  const struct pz_training_run *own = &x->t->own;
  const struct pz_prediction *p = &own->p;
  bool fits = x->t->fits;
  printf("\n%s: %.4g s per step, MFU %.1f%% (conventional %.1f%%), %.4g tokens/s per device\n",
         x->measured_s > 0 ? "corrected" : "predicted", p->step_s, 100 * p->mfu,
         100 * p->mfu_conventional, p->tokens_per_s_per_device);
  print_measured(x);
  printf("memory: %s, ", fits ? "fits" : "does not fit");
  pz_predict_print_reserved(own);
  if (p->host_bytes > 0)
    printf("on the host: %.1f of %.1f GB usable for each device\n", p->host_bytes / 1e9,
           p->usable_host_bytes / 1e9);
  putchar('\n');
  return print_parts(x, arena);
}

/* ---- other plans ---------------------------------------------------------------------------- */

/* What to change, in the words of the file that was read. */
static const char *change_text(const struct pz_tuned *x, const struct pz_plan_change *c) {
  return x->run->megatron ? c->megatron : c->options;
}

static void print_best(const struct pz_tuned *x, const char *title,
                       const struct pz_plan_change *c) {
  const char *text = change_text(x, c);
  char line[PZ_PLAN_LINE_MOST];
  if (x->t->fits && c->gain <= 0) {
    bool change = x->t->n_changes && x->t->changes[0].gain > 0;
    printf("\n%s: none %sis faster than the run\n", title,
           change ? "of those searched, which fill whole nodes, " : "");
    return;
  }
  printf("\n%s: %.4g s per step (%+.1f%%), MFU %.1f%%, %.1f GB\n", title, c->p.step_s,
         -100 * c->gain, 100 * c->p.mfu, c->p.peak_bytes / 1e9);
  printf("  %s", pz_plan_line(&c->plan, true, line, sizeof line));
  printf("\n  %s\n", *text ? text : "no change");
}

static void print_bests(const struct pz_tuned *x) {
  const struct pz_plan_tuning *t = x->t;
  const struct pz_plan_certificate *c = &t->certificate;
  if (t->why)
    printf("\nbest plan for the same devices and batch: %s\n", t->why);
  else if (!t->has_best)
    printf("\nbest plan for the same devices and batch: none fits in memory; the smallest holds "
           "%.1f GB\n",
           t->least_bytes / 1e9);
  else
    print_best(x, "best plan for the same devices and batch", &t->best);
  bool overlapped =
      t->has_overlapped && (!t->has_best || t->overlapped.p.step_s < t->best.p.step_s * 0.999);
  if (overlapped) print_best(x, "best plan with every overlap turned on", &t->overlapped);
  if (t->why) return;
  if (t->has_overlapped && !overlapped) printf("  other overlaps make it no faster\n");
  printf("  of %" PRIu64 " plans: %" PRIu64 " simulated, %" PRIu64 " excluded by a bound, %" PRIu64
         " by memory",
         c->plans, c->solved, c->by_bound, c->by_memory);
  if (t->stopped) printf("; the best so far, gap %.3g%%", 100 * c->gap);
  putchar('\n');
}

static enum pz_status print_changes(const struct pz_tuned *x, struct pz_arena *arena) {
  const char *const heads[] = {"single change", ">s per step", ">time", ">GB", NULL};
  struct pz_table t;
  if (!x->t->n_changes) {
    printf("\nno single change that fits in memory %s (%u tried)\n",
           x->t->fits ? "is faster" : "was found", x->t->n_tried);
    return PZ_OK;
  }
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < x->t->n_changes && i < PZ_TUNE_MOST_CHANGES; i++) {
    const struct pz_plan_change *c = &x->t->changes[i];
    pz_table_cell(&t, "%s", change_text(x, c));
    pz_table_cell(&t, "%.4g", c->p.step_s);
    pz_table_cell(&t, "%+.1f%%", -100 * c->gain);
    pz_table_cell(&t, "%.1f", c->p.peak_bytes / 1e9);
  }
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

enum pz_status pz_tune_print(const struct pz_tuned *x, struct pz_error *err) {
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  enum pz_status status = print_run(x, &arena);
  if (status == PZ_OK) status = print_prediction(x, &arena);
  if (status == PZ_OK) print_bests(x);
  if (status == PZ_OK) status = print_changes(x, &arena);
  pz_arena_release(&arena);
  return status == PZ_NO_MEMORY ? pz_fail(err, PZ_NO_MEMORY, "out of memory for the tables")
                                : status;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *texts_json(const char *const *list, uint32_t n) {
  json_t *j = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(j, json_string(list[i]));
  return j;
}

static json_t *from_json(const struct pz_plan_tuning *t) {
  json_t *j = json_object();
  for (uint32_t i = 0; i < t->n_fields; i++)
    json_object_set_new(j, t->fields[i].name, json_string(t->fields[i].from));
  return j;
}

/* The run with another plan, as a plan file. */
static json_t *run_json(const struct pz_tuned *x, const struct pz_plan *plan) {
  struct pz_run_plan run = *x->run;
  struct pz_error err = {0};
  json_t *j = NULL;
  char *text = NULL;
  run.plan = *plan;
  if (pz_run_plan_text(&run, &text, &err) != PZ_OK ||
      pz_json_parse("plan", text, strlen(text), &j, &err) != PZ_OK)
    pz_json_lost_set(true);
  pz_text_free(text);
  return j;
}

static json_t *plan_json(const struct pz_tuned *x, bool has, const struct pz_plan_change *c) {
  if (!has) return json_null();
  return json_pack("{s:s?,s:s,s:s?,s:f,s:f,s:f,s:f,s:f,s:o}", "field", pz_plan_field_name(c->field),
                   "options", c->options, "megatron", c->megatron, "step_s", c->p.step_s, "gain",
                   c->gain, "mfu", c->p.mfu, "mfu_conventional", c->p.mfu_conventional,
                   "peak_bytes", c->p.peak_bytes, "plan", run_json(x, &c->plan));
}

static json_t *measured_json(const struct pz_tuned *x) {
  double s = x->measured_s;
  return s > 0 ? json_pack("{s:f,s:f,s:f}", "step_s", s, "predicted_s", x->t->uncorrected_s,
                           "error", x->t->uncorrected_s / s - 1)
               : json_null();
}

json_t *pz_tune_json(const struct pz_tuned *x) {
  const struct pz_plan_tuning *t = x->t;
  const struct pz_plan_certificate *c = &t->certificate;
  json_t *j = json_object(), *changes = json_array();
  for (uint32_t i = 0; i < t->n_changes && i < PZ_TUNE_MOST_CHANGES; i++)
    json_array_append_new(changes, plan_json(x, true, &t->changes[i]));
  json_object_set_new(j, "run", run_json(x, &t->own.plan));
  json_object_set_new(j, "from", from_json(t));
  json_object_set_new(j, "ignored", texts_json(x->run->ignored, x->run->n_ignored));
  json_object_set_new(j, "notes", texts_json(x->run->notes, x->run->n_notes));
  json_object_set_new(j, "prediction", pz_training_run_json(&t->own));
  json_object_set_new(j, "measured", measured_json(x));
  json_object_set_new(j, "best", plan_json(x, t->has_best, &t->best));
  json_object_set_new(j, "overlapped", plan_json(x, t->has_overlapped, &t->overlapped));
  json_object_set_new(j, "certificate",
                      json_pack("{s:I,s:I,s:I,s:f}", "plans", (json_int_t)c->plans, "solved",
                                (json_int_t)c->solved, "excluded",
                                (json_int_t)(c->by_bound + c->by_memory), "gap", c->gap));
  if (t->stopped) json_object_set_new(j, "stopped", json_true());
  json_object_set_new(j, "changes", changes);
  return j;
}
