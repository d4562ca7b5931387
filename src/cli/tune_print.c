/* The answer of phaze tune.  pz_tune_print() prints the run as it was read, its prediction, the best plans and the single
 * changes; pz_tune_print_json() writes the same with all fields of the plans. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/tune_options.h"
#include "report/table.h"
#include "report/training_json.h"

/* ---- the run and its prediction ------------------------------------------------------------- */

static void print_run(struct pz_call *call, const struct pz_tuned *x) {
  static const char *const heads[] = {"run", "value", "from", NULL};
  struct pz_table t;
  pz_table_init(&t, call->arena, heads);
  for (uint32_t i = 0; i < x->t->n_fields; i++) {
    const struct pz_field_origin *f = &x->t->fields[i];
    if (!f->shown) continue;
    pz_table_cell(&t, "%s", f->name);
    pz_table_cell(&t, "%s", f->value);
    pz_table_cell(&t, "%s", f->from);
  }
  pz_must(call, pz_table_print(&t, 0, stdout));
}

static void print_parts(struct pz_call *call, const struct pz_prediction *p) {
  static const char *const heads[] = {"part of the step", ">seconds", ">share", NULL};
  const struct pz_part_info *part;
  struct pz_table t;
  pz_table_init(&t, call->arena, heads);
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double part_s = pz_time_part(&p->parts, part);
    bool negligible = !(part_s > 1e-4 * p->step_s);
    if (negligible) continue;
    pz_table_cell(&t, "%s", pz_time_part_label(p, part));
    pz_table_cell(&t, "%.4g", part_s);
    pz_table_cell(&t, "%.1f%%", 100 * part_s / p->step_s);
  }
  pz_must(call, pz_table_print(&t, 0, stdout));
}

/* All times are corrected by a measured step.  The expected error, which comes from other runs, is then not shown. */
static void print_accuracy(const struct pz_tuned *x) {
  double measured_s = x->measured_s, predicted_s = x->t->uncorrected_s;
  if (!(measured_s > 0)) {
    pz_predict_print_expected(&x->t->own.expected, x->t->own.p.step_s);
    return;
  }
  bool too_long = predicted_s > measured_s;
  double error = too_long ? predicted_s / measured_s - 1 : 1 - predicted_s / measured_s;
  printf("measured: %.4g s per step, where %.4g s are predicted, %.1f%% too %s; all times here "
         "are corrected by it\n",
         measured_s, predicted_s, 100 * error, too_long ? "long" : "short");
}

static void print_prediction(struct pz_call *call, const struct pz_tuned *x) {
  const struct pz_training_run *own = &x->t->own;
  const struct pz_prediction *p = &own->p;
  printf("\n%s: %.4g s per step, MFU %.1f%% (conventional %.1f%%), %.4g tokens/s per device\n",
         x->measured_s > 0 ? "corrected" : "predicted", p->step_s, 100 * p->mfu,
         100 * p->mfu_conventional, p->tokens_per_s_per_device);
  print_accuracy(x);
  printf("memory: %s, ", x->t->fits ? "fits" : "does not fit");
  pz_predict_print_reserved(own);
  if (p->host_bytes > 0)
    printf("on the host: %.1f of %.1f GB usable for each device\n", p->host_bytes / 1e9,
           p->usable_host_bytes / 1e9);
  putchar('\n');
  print_parts(call, p);
}

/* ---- other plans ---------------------------------------------------------------------------- */

/* Returns the arguments to change: those of Megatron-LM if the run was read from them, otherwise options of phaze. */
static const char *change_text(const struct pz_tuned *x, const struct pz_plan_change *c) {
  return x->run->megatron ? c->megatron : c->options;
}

static void print_best(const struct pz_tuned *x, const char *title,
                       const struct pz_plan_change *c) {
  const char *text = change_text(x, c);
  char line[PZ_PLAN_LINE_MOST];
  if (x->t->fits && c->gain <= 0) {
    bool faster_change = x->t->n_changes && x->t->changes[0].gain > 0;
    printf("\n%s: none %sis faster than the run\n", title,
           faster_change ? "of those searched, which fill whole nodes, " : "");
    return;
  }
  printf("\n%s: %.4g s per step (%+.1f%%), MFU %.1f%%, %.1f GB\n", title, c->p.step_s,
         -100 * c->gain, 100 * c->p.mfu, c->p.peak_bytes / 1e9);
  printf("  %s", pz_plan_line(&c->plan, true, line, sizeof line));
  printf("\n  %s\n", *text ? text : "no change");
}

static void print_best_plans(const struct pz_tuned *x) {
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

static void print_changes(struct pz_call *call, const struct pz_tuned *x) {
  static const char *const heads[] = {"single change", ">s per step", ">time", ">GB", NULL};
  struct pz_table t;
  if (!x->t->n_changes) {
    printf("\nno single change that fits in memory %s (%u tried)\n",
           x->t->fits ? "is faster" : "was found", x->t->n_tried);
    return;
  }
  pz_table_init(&t, call->arena, heads);
  for (uint32_t i = 0; i < x->t->n_changes && i < PZ_TUNE_MOST_CHANGES; i++) {
    const struct pz_plan_change *c = &x->t->changes[i];
    pz_table_cell(&t, "%s", change_text(x, c));
    pz_table_cell(&t, "%.4g", c->p.step_s);
    pz_table_cell(&t, "%+.1f%%", -100 * c->gain);
    pz_table_cell(&t, "%.1f", c->p.peak_bytes / 1e9);
  }
  putchar('\n');
  pz_must(call, pz_table_print(&t, 0, stdout));
}

void pz_tune_print(struct pz_call *call, const struct pz_tuned *x) {
  print_run(call, x);
  print_prediction(call, x);
  print_best_plans(x);
  print_changes(call, x);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *texts_json(const char *const *list, uint32_t n) {
  json_t *j = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(j, json_string(list[i]));
  return j;
}

/* Adds the run with another plan to a JSON object, in the format of a plan file. */
static void add_run(struct pz_call *call, json_t *out, const char *key, const struct pz_tuned *x,
                    const struct pz_plan *plan) {
  struct pz_run_plan run = *x->run;
  char *text = NULL;
  run.plan = *plan;
  pz_must(call, pz_run_plan_text(&run, &text, pz_call_error(call)));
  pz_command_own_text(call, text);
  json_object_set(out, key, pz_json_read(call, "plan", text, strlen(text)));
}

/* Returns a change of the plan as JSON, or null if there is none.  The value belongs to the call. */
static json_t *change_json(struct pz_call *call, const struct pz_tuned *x,
                           const struct pz_plan_change *c) {
  if (!c) return json_null();
  json_t *j = pz_json_built(call, json_pack("{s:s?,s:s,s:s?,s:f,s:f,s:f,s:f,s:f}", "field",
                                            pz_plan_field_name(c->field), "options", c->options,
                                            "megatron", c->megatron, "step_s", c->p.step_s, "gain",
                                            c->gain, "mfu", c->p.mfu, "mfu_conventional",
                                            c->p.mfu_conventional, "peak_bytes", c->p.peak_bytes));
  add_run(call, j, "plan", x, &c->plan);
  return j;
}

void pz_tune_print_json(struct pz_call *call, const struct pz_tuned *x) {
  const struct pz_plan_tuning *t = x->t;
  const struct pz_plan_certificate *c = &t->certificate;
  json_t *j = pz_json_built(call, json_object());
  add_run(call, j, "run", x, &t->own.plan);
  json_t *from = json_object();
  for (uint32_t i = 0; i < t->n_fields; i++)
    json_object_set_new(from, t->fields[i].name, json_string(t->fields[i].from));
  json_object_set_new(j, "from", from);
  json_object_set_new(j, "ignored", texts_json(x->run->ignored, x->run->n_ignored));
  json_object_set_new(j, "notes", texts_json(x->run->notes, x->run->n_notes));
  json_object_set_new(j, "prediction", pz_training_run_json(&t->own));
  json_t *measured = json_null();
  if (x->measured_s > 0)
    measured = json_pack("{s:f,s:f,s:f}", "step_s", x->measured_s, "predicted_s", t->uncorrected_s,
                         "error", t->uncorrected_s / x->measured_s - 1);
  json_object_set_new(j, "measured", measured);
  json_object_set(j, "best", change_json(call, x, t->has_best ? &t->best : NULL));
  json_object_set(j, "overlapped", change_json(call, x, t->has_overlapped ? &t->overlapped : NULL));
  json_object_set_new(j, "certificate",
                      json_pack("{s:I,s:I,s:I,s:f}", "plans", (json_int_t)c->plans, "solved",
                                (json_int_t)c->solved, "excluded",
                                (json_int_t)(c->by_bound + c->by_memory), "gap", c->gap));
  if (t->stopped) json_object_set_new(j, "stopped", json_true());
  json_t *changes = pz_json_built(call, json_array());
  for (uint32_t i = 0; i < t->n_changes && i < PZ_TUNE_MOST_CHANGES; i++)
    json_array_append(changes, change_json(call, x, &t->changes[i]));
  json_object_set(j, "changes", changes);
  pz_command_print_json(call, json_incref(j));
}
