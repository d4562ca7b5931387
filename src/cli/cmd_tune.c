/* phaze tune: reads the training run of a user, predicts it, and searches for what would make it faster.
 *
 * tune() reads the run, opens its machine, calls tune_run() for the prediction, the best plan and the single changes, and
 * prints them with print_answer() or print_answer_json(). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/owned.h"
#include "cli/tune_options.h"
#include "report/table.h"
#include "report/training_json.h"

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, vocab, threads;
  double measured_s, seconds;
  const char *set[PZ_TUNE_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_TUNE_MOST_SETS + 1];
};

#define SETTINGS struct settings
#define AT(field) offsetof(SETTINGS, field)
static const SETTINGS defaults = {.seconds = PZ_PLAN_SECONDS};

/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    {.name = "devices", .type = PZ_OPTION_INT, .offset = AT(devices), .arg = "N", .min = 1, .max = 1 << 24, .help = "Number of devices (default: as the file says)"},
    {.name = "vocab", .type = PZ_OPTION_INT, .offset = AT(vocab), .arg = "V", .min = 1, .max = 1 << 26, .help = "Size of the vocabulary, before padding, where Megatron's arguments name a tokenizer alone"},
    {.name = "set", .type = PZ_OPTION_TEXTS, .offset = AT(set), .arg = "NAME=VALUE", .max = PZ_TUNE_MOST_SETS, .help = "Value of a variable of the script; may be given several times"},
    {.name = "ignore", .type = PZ_OPTION_TEXTS, .offset = AT(ignore), .arg = "NAME", .max = PZ_TUNE_MOST_SETS, .help = "Leave out an argument or key of the run that is not covered, and predict the run without it; may be given several times"},
    {.name = "measured-s", .type = PZ_OPTION_REAL, .offset = AT(measured_s), .arg = "S", .min = 1e-9, .max = 1e9, .help = "Measured seconds per step, to compare the prediction with and to correct all times by (default: of a log what it shows)"},
    {.name = "threads", .type = PZ_OPTION_INT, .offset = AT(threads), .arg = "T", .min = 0, .max = 1024, .help = "Number of threads (default: 0, one per processor)"},
    {.name = "seconds", .type = PZ_OPTION_REAL, .offset = AT(seconds), .arg = "S", .min = 0, .max = 1e9, .help = "End the searches for the best plan after so many seconds, with the best so far and its gap (default: 300; 0: never)"},
};
/* clang-format on */

enum { MOST_CHANGES = 8 }; /* single changes to show */

/* A run that was read, and the answer. */
struct tuned_run {
  const struct settings *s;
  const char *name; /* of the file, for messages */
  struct pz_run_plan *run;
  const struct pz_machine *machine;
  const struct pz_plan_tuning *t;
  double measured_s; /* 0: not measured */
};

/* ---- the run and its prediction ------------------------------------------------------------- */

static void print_run(struct pz_call *call, const struct tuned_run *tuned) {
  static const char *const heads[] = {"run", "value", "from", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < tuned->t->n_fields; i++) {
    const struct pz_field_origin *f = &tuned->t->fields[i];
    if (!f->shown) continue;
    pz_table_cell(t, "%s", f->name);
    pz_table_cell(t, "%s", f->value);
    pz_table_cell(t, "%s", f->from);
  }
  pz_table_print(t, 0, stdout);
}

/* All times are corrected by a measured step.  The expected error, which comes from other runs, is then not shown. */
static void print_accuracy(const struct tuned_run *tuned) {
  double measured_s = tuned->measured_s, predicted_s = tuned->t->uncorrected_s;
  if (!(measured_s > 0)) {
    pz_predict_print_expected(&tuned->t->own.expected, tuned->t->own.p.step_s);
    return;
  }
  bool too_long = predicted_s > measured_s;
  double error = too_long ? predicted_s / measured_s - 1 : 1 - predicted_s / measured_s;
  printf("measured: %.4g s per step, where %.4g s are predicted, %.1f%% too %s; all times here "
         "are corrected by it\n",
         measured_s, predicted_s, 100 * error, too_long ? "long" : "short");
}

static void print_prediction(struct pz_call *call, const struct tuned_run *tuned) {
  static const char *const heads[] = {"part of the step", ">seconds", ">share", NULL};
  const struct pz_training_run *own = &tuned->t->own;
  const struct pz_prediction *p = &own->p;
  const struct pz_part_info *part;
  printf("\n%s: %.4g s per step, MFU %.1f%% (conventional %.1f%%), %.4g tokens/s per device\n",
         tuned->measured_s > 0 ? "corrected" : "predicted", p->step_s, 100 * p->mfu,
         100 * p->mfu_conventional, p->tokens_per_s_per_device);
  print_accuracy(tuned);
  printf("memory: %s, ", tuned->t->fits ? "fits" : "does not fit");
  pz_predict_print_reserved(own);
  if (p->host_bytes > 0)
    printf("on the host: %.1f of %.1f GB usable for each device\n", p->host_bytes / 1e9,
           p->usable_host_bytes / 1e9);
  putchar('\n');
  struct pz_table *t = pz_table_new(call, heads);
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double part_s = pz_time_part(&p->parts, part);
    bool negligible = !(part_s > 1e-4 * p->step_s);
    if (negligible) continue;
    pz_table_cell(t, "%s", pz_time_part_label(p, part));
    pz_table_cell(t, "%.4g", part_s);
    pz_table_cell(t, "%.1f%%", 100 * part_s / p->step_s);
  }
  pz_table_print(t, 0, stdout);
}

/* ---- other plans ---------------------------------------------------------------------------- */

/* Returns the arguments to change: those of Megatron-LM if the run was read from them, otherwise options of phaze. */
static const char *change_text(const struct tuned_run *tuned, const struct pz_plan_change *c) {
  return tuned->run->megatron ? c->megatron : c->options;
}

static void print_best(const struct tuned_run *tuned, const char *title,
                       const struct pz_plan_change *c) {
  const char *text = change_text(tuned, c);
  char line[PZ_PLAN_LINE_MOST];
  if (tuned->t->fits && c->gain <= 0) {
    bool faster_change = tuned->t->n_changes && tuned->t->changes[0].gain > 0;
    printf("\n%s: none %sis faster than the run\n", title,
           faster_change ? "of those searched, which fill whole nodes, " : "");
    return;
  }
  printf("\n%s: %.4g s per step (%+.1f%%), MFU %.1f%%, %.1f GB\n", title, c->p.step_s,
         -100 * c->gain, 100 * c->p.mfu, c->p.peak_bytes / 1e9);
  printf("  %s", pz_plan_line(&c->plan, true, line, sizeof line));
  printf("\n  %s\n", *text ? text : "no change");
}

static void print_best_plans(const struct tuned_run *tuned) {
  const struct pz_plan_tuning *t = tuned->t;
  const struct pz_plan_certificate *c = &t->certificate;
  if (t->why)
    printf("\nbest plan for the same devices and batch: %s\n", t->why);
  else if (!t->has_best)
    printf("\nbest plan for the same devices and batch: none fits in memory; the smallest holds "
           "%.1f GB\n",
           t->least_bytes / 1e9);
  else
    print_best(tuned, "best plan for the same devices and batch", &t->best);
  bool overlapped =
      t->has_overlapped && (!t->has_best || t->overlapped.p.step_s < t->best.p.step_s * 0.999);
  if (overlapped) print_best(tuned, "best plan with every overlap turned on", &t->overlapped);
  if (t->why) return;
  if (t->has_overlapped && !overlapped) printf("  other overlaps make it no faster\n");
  printf("  of %" PRIu64 " plans: %" PRIu64 " simulated, %" PRIu64 " excluded by a bound, %" PRIu64
         " by memory",
         c->plans, c->solved, c->by_bound, c->by_memory);
  if (t->stopped) printf("; the best so far, gap %.3g%%", 100 * c->gap);
  putchar('\n');
}

static void print_changes(struct pz_call *call, const struct tuned_run *tuned) {
  static const char *const heads[] = {"single change", ">s per step", ">time", ">GB", NULL};
  if (!tuned->t->n_changes) {
    printf("\nno single change that fits in memory %s (%u tried)\n",
           tuned->t->fits ? "is faster" : "was found", tuned->t->n_tried);
    return;
  }
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < tuned->t->n_changes && i < MOST_CHANGES; i++) {
    const struct pz_plan_change *c = &tuned->t->changes[i];
    pz_table_cell(t, "%s", change_text(tuned, c));
    pz_table_cell(t, "%.4g", c->p.step_s);
    pz_table_cell(t, "%+.1f%%", -100 * c->gain);
    pz_table_cell(t, "%.1f", c->p.peak_bytes / 1e9);
  }
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

static void print_answer(struct pz_call *call, const struct tuned_run *tuned) {
  print_run(call, tuned);
  print_prediction(call, tuned);
  print_best_plans(tuned);
  print_changes(call, tuned);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *texts_json(const char *const *list, uint32_t n) {
  json_t *j = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(j, json_string(list[i]));
  return j;
}

/* Adds the run with another plan to a JSON object, in the format of a plan file. */
static void add_run(struct pz_call *call, json_t *out, const char *key,
                    const struct tuned_run *tuned, const struct pz_plan *plan) {
  struct pz_run_plan run = *tuned->run;
  char *text = NULL;
  run.plan = *plan;
  pz_must(call, pz_run_plan_text(&run, &text, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  json_object_set(out, key, pz_json_read(call, "plan", text, strlen(text)));
}

/* Returns a change of the plan as JSON, or null if there is none.  The value belongs to the call. */
static json_t *change_json(struct pz_call *call, const struct tuned_run *tuned,
                           const struct pz_plan_change *c) {
  if (!c) return json_null();
  json_t *j = pz_json_built(call, json_pack("{s:s?,s:s,s:s?,s:f,s:f,s:f,s:f,s:f}", "field",
                                            pz_plan_field_name(c->field), "options", c->options,
                                            "megatron", c->megatron, "step_s", c->p.step_s, "gain",
                                            c->gain, "mfu", c->p.mfu, "mfu_conventional",
                                            c->p.mfu_conventional, "peak_bytes", c->p.peak_bytes));
  add_run(call, j, "plan", tuned, &c->plan);
  return j;
}

static void print_answer_json(struct pz_call *call, const struct tuned_run *tuned) {
  const struct pz_plan_tuning *t = tuned->t;
  const struct pz_plan_certificate *c = &t->certificate;
  json_t *j = pz_json_built(call, json_object());
  add_run(call, j, "run", tuned, &t->own.plan);
  json_t *from = json_object();
  for (uint32_t i = 0; i < t->n_fields; i++)
    json_object_set_new(from, t->fields[i].name, json_string(t->fields[i].from));
  json_object_set_new(j, "from", from);
  json_object_set_new(j, "ignored", texts_json(tuned->run->ignored, tuned->run->n_ignored));
  json_object_set_new(j, "notes", texts_json(tuned->run->notes, tuned->run->n_notes));
  json_object_set_new(j, "prediction", pz_training_run_json(&t->own));
  json_t *measured = json_null();
  if (tuned->measured_s > 0)
    measured = json_pack("{s:f,s:f,s:f}", "step_s", tuned->measured_s, "predicted_s",
                         t->uncorrected_s, "error", t->uncorrected_s / tuned->measured_s - 1);
  json_object_set_new(j, "measured", measured);
  json_object_set(j, "best", change_json(call, tuned, t->has_best ? &t->best : NULL));
  json_object_set(j, "overlapped",
                  change_json(call, tuned, t->has_overlapped ? &t->overlapped : NULL));
  json_object_set_new(j, "certificate",
                      json_pack("{s:I,s:I,s:I,s:f}", "plans", (json_int_t)c->plans, "solved",
                                (json_int_t)c->solved, "excluded",
                                (json_int_t)(c->by_bound + c->by_memory), "gap", c->gap));
  if (t->stopped) json_object_set_new(j, "stopped", json_true());
  json_t *changes = pz_json_built(call, json_array());
  for (uint32_t i = 0; i < t->n_changes && i < MOST_CHANGES; i++)
    json_array_append(changes, change_json(call, tuned, &t->changes[i]));
  json_object_set(j, "changes", changes);
  pz_command_print_json(call, json_incref(j));
}

/* ---- the command ---------------------------------------------------------------------------- */

void pz_tune_warn(bool quiet, const struct pz_run_plan *r) {
  enum { MOST_BYTES = 300 }; /* of names; the rest is cut with "..." */
  char names[400] = "", line[480];
  size_t n = 0;
  for (uint32_t i = 0; i < r->n_notes; i++) pz_command_warn(quiet, r->notes[i]);
  for (uint32_t i = 0; i < r->n_ignored && n < MOST_BYTES; i++) {
    bool is_key = strchr(r->ignored[i], '.'); /* of a configuration, not an argument */
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s%s", i ? ", " : "", is_key ? "" : "--",
                          r->ignored[i]);
  }
  if (!n) return;
  snprintf(line, sizeof line, "not understood, and not counted: %s%s", names,
           n >= MOST_BYTES ? " ..." : "");
  pz_command_warn(quiet, line);
}

/* Fills tuned->t.  The message of every error about the run contains the name of its file. */
static void tune_run(struct pz_call *call, struct tuned_run *tuned) {
  struct pz_tune_options o = pz_tune_options_default();
  struct pz_progress progress;
  struct pz_error why = {0};
  struct pz_plan_tuning *tuning = NULL;
  o.threads = (unsigned)tuned->s->threads;
  o.measured_s = tuned->measured_s;
  o.seconds = tuned->s->seconds;
  o.progress = pz_command_progress;
  o.ctx = &progress;
  pz_command_progress_start(&progress, tuned->s->common.quiet, false);
  enum pz_status status = pz_plan_tune(tuned->run, &tuned->machine->chip,
                                       pz_machine_net(tuned->machine), &o, &tuning, &why);
  if (status != PZ_OK) pz_command_raise_about(call, tuned->name, &why);
  pz_defer(call, pz_free_plan_tuning, tuning);
  tuned->t = tuning;
}

static void tune(struct pz_call *call, struct pz_invocation *in) {
  SETTINGS s = defaults;
  struct tuned_run tuned = {.s = &s};
  if (!pz_command_options(call, in, &s)) return;
  const atomic_bool *stop = pz_command_listen();
  struct pz_run_plan_options o = pz_run_plan_options_default();
  o.vocab = s.vocab;
  o.devices = s.devices;
  o.set = s.set;
  o.ignore = s.ignore;
  tuned.run = pz_machine_read_run(call, in->args[0], &o, &tuned.name);
  tuned.measured_s = s.measured_s > 0 ? s.measured_s : tuned.run->measured_s;
  pz_tune_warn(s.common.quiet, tuned.run);
  tuned.machine = pz_machine_of(call, &s.machine, tuned.name, s.common.quiet, tuned.run);
  tune_run(call, &tuned);
  const struct pz_plan_tuning *t = tuned.t;
  if (t->own.refusal[0]) pz_command_warn(s.common.quiet, t->own.refusal);
  if (s.common.json)
    print_answer_json(call, &tuned);
  else
    print_answer(call, &tuned);
  bool any_fits = t->fits || t->has_best || t->n_changes;
  if (!any_fits)
    pz_raise(call, PZ_NO_ANSWER,
             "the run does not fit in memory, and no plan on its %lld devices does: %.1f GB "
             "needed, %.1f GB usable",
             (long long)t->own.plan.devices, t->least_bytes / 1e9, t->limit_bytes / 1e9);
  if (atomic_load(stop)) in->exit = PZ_EXIT_STOPPED;
}

const struct pz_command pz_cmd_tune = {
    .name = "tune",
    .synopsis = "FILE [--chip CHIP] [--cluster NET] [options]",
    .summary = "Show what would make a training run faster: the best plan, and single changes",
    .detail =
        "FILE is a launch script or list of arguments of Megatron-LM (pretrain_gpt.py), "
        "torchtitan's\n"
        "configuration (TOML), a script that '--emit' writes for any framework, or a plan as JSON\n"
        "with the names that 'phaze predict --json' prints; - is standard input. Shown are\n"
        "the run as it was read, its prediction, the best plan for the same devices and batch, "
        "and\n"
        "the single changes that bring most, with the arguments to change. FILE is never written.\n"
        "\n"
        "Examples:\n"
        "  phaze tune pretrain_llama.sh --chip h100 --cluster dgx-h100 --vocab 128256\n"
        "  phaze tune llama3_70b.toml --chip h100 --devices 256\n"
        "  phaze tune plan.json --measured-s 12.4\n"
        "  phaze tune - --chip a100-80 --cluster dgx-a100 --devices 64 < arguments.txt\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "FILE",
    .body = tune,
};
