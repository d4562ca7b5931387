/* phaze diff: explains the difference of two training plans A and B.  It reads both sides, each a file or changes of another
 * plan, and prints the fields, the parts of step time and memory, and a path of changes from A to B. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/owned.h"
#include "cli/tune_options.h"
#include "core/file.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

struct diff_settings {
  struct pz_common common;
  const char *with; /* B as changes of A, or NULL if B is an argument */
  int64_t vocab;
  const char *set[PZ_TUNE_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_TUNE_MOST_SETS + 1];
  struct pz_machine_options machine;
  struct pz_plan plan; /* options of a MODEL; fields that are not given are unset */
};

static const struct diff_settings defaults = {.plan = {
                                                  .size = sizeof(struct pz_plan),
#include "cli/plan_unset.def"
                                              }};

#define SETTINGS struct diff_settings
#define AT(field) offsetof(SETTINGS, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    {.name = "with", .type = PZ_OPTION_TEXT, .offset = AT(with), .arg = "CHANGES", .help = "Compare FILE with the same plan with these fields changed: 'tp 8, pp 2, recompute full', or the text of a plan that was printed; devices and batch stay"},
    {.name = "vocab", .type = PZ_OPTION_INT, .offset = AT(vocab), .arg = "V", .min = 1, .max = 1 << 26, .help = "Size of the vocabulary, before padding, where a file names a tokenizer alone"},
    {.name = "set", .type = PZ_OPTION_TEXTS, .offset = AT(set), .arg = "NAME=VALUE", .max = PZ_TUNE_MOST_SETS, .help = "Value of a variable of a script; may be given several times"},
    {.name = "ignore", .type = PZ_OPTION_TEXTS, .offset = AT(ignore), .arg = "NAME", .max = PZ_TUNE_MOST_SETS, .help = "Leave out an option of a file that is not covered; may be given several times"},
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
#define PLAN_OF(field) AT(plan.field)
#define OWN
#define SEARCH(x) .standard = x,
#define FOLLOW(x) .standard = x,
#include "cli/plan_options.def"
};
/* clang-format on */

/* ---- both runs ------------------------------------------------------------------------------ */

struct diff_input {
  const char *letter, *name;
  struct pz_run_plan *run;
  const struct pz_machine *machine;
};

struct diff {
  const SETTINGS *s;
  struct diff_input a, b;
  const struct pz_plan_diff *d;
};

/* Returns whether an argument is a list of changes: it has a space or is empty, and is not the name of a file. */
static bool is_changes(const char *word) {
  return !*word || (strpbrk(word, " \t\n") && !pz_file_is_regular(word));
}

/* Reads one side as changes of another run. */
static void read_changes(struct pz_call *call, const struct diff *x, const char *changes,
                         const struct pz_run_plan *changed, struct diff_input *in) {
  const struct pz_machine_options units = {.any_units = x->s->machine.any_units};
  in->name = changes;
  pz_must(call, pz_run_plan_with(changed, changes, &in->run, pz_call_error(call)));
  pz_defer(call, pz_free_run_plan, in->run);
  in->machine = pz_machine_of(call, &units, "the plan", x->s->common.quiet, in->run);
}

/* Reads one side from a file.  --vocab, --set and --ignore apply to scripts: if the other side is a script and this file is a
 * plan, they are not for this one. */
static void read_file(struct pz_call *call, const struct diff *x, const char *path,
                      const char *other, struct diff_input *in) {
  const SETTINGS *s = x->s;
  SETTINGS allowed = defaults;
  allowed.plan.devices = s->plan.devices;
  const struct pz_option *model_option = pz_command_changed(&pz_cmd_diff, AT(plan), s, &allowed);
  char name[64];
  if (model_option)
    pz_raise(call, PZ_BAD_USE, "--%s is for a MODEL with changes; %s is a file",
             pz_option_name(model_option, name, sizeof name), path);
  if (pz_preset_named(path))
    pz_raise(call, PZ_BAD_USE,
             "%s is a model, and what is to be compared are runs; accepted: two files, a file "
             "and --with CHANGES, or MODEL \"CHANGES\" \"CHANGES\", each with a space",
             path);
  struct pz_run_plan_options o = pz_run_plan_options_default();
  bool other_is_script = pz_file_is_regular(other) && !pz_machine_is_plan(other);
  o.devices = s->plan.devices;
  if (!pz_machine_is_plan(path) || !other_is_script) {
    o.vocab = s->vocab;
    o.set = s->set;
    o.ignore = s->ignore;
  }
  in->run = pz_machine_read_run(call, path, &o, &in->name);
  pz_tune_warn(s->common.quiet, in->run);
  in->machine = pz_machine_of(call, &s->machine, in->name, s->common.quiet, in->run);
}

/* Reads MODEL A B: both sides are changes of the plan that the options describe. */
static void read_model_changes(struct pz_call *call, struct diff *x, char **args) {
  struct pz_run_plan base = pz_run_plan_default();
  base.model = args[0];
  base.chip = x->s->machine.chip;
  base.cluster = x->s->machine.cluster;
  base.plan = x->s->plan;
  for (int i = 1; i <= 2; i++)
    if (!is_changes(args[i]))
      pz_raise(call, PZ_BAD_USE,
               "'%s' with MODEL %s; accepted: changes, in quotes and with a space: 'tp 8'; "
               "or two files without a MODEL",
               args[i], args[0]);
  read_changes(call, x, args[1], &base, &x->a);
  read_changes(call, x, args[2], &base, &x->b);
}

/* ---- tables --------------------------------------------------------------------------------- */

static void print_run(const struct diff_input *in, const struct pz_training_run *r) {
  char line[PZ_PLAN_LINE_MOST], name[256];
  const struct pz_prediction *p = &r->p;
  printf("%s: %s on %" PRId64
         " x %s: %.4g s per step, %.4g tokens/s per device, MFU %.1f%%, %.1f GB%s\n",
         in->letter, pz_text_plain(pz_text_copy(name, sizeof name, in->run->model)),
         r->plan.devices, in->machine->chip.name, p->step_s, p->tokens_per_s_per_device,
         100 * p->mfu, p->peak_bytes / 1e9, pz_prediction_fits(p) ? "" : " (does not fit)");
  printf("   %s\n", pz_plan_line(&r->plan, true, line, sizeof line));
}

static void print_fields(struct pz_call *call, const struct pz_plan_diff *d) {
  static const char *const heads[] = {"field", "A", "B", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < d->n_fields; i++) {
    const struct pz_field_difference *f = &d->fields[i];
    char a[128], b[128];
    pz_table_cell(t, "%s", f->name);
    pz_table_cell(t, "%s", pz_text_plain(pz_text_copy(a, sizeof a, f->a)));
    pz_table_cell(t, "%s", pz_text_plain(pz_text_copy(b, sizeof b, f->b)));
  }
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

/* Appends the numbers of both sides and their difference. */
static void append_difference(struct pz_table *t, const char *label, int digits, double a,
                              double b) {
  pz_table_cell(t, "%s", label);
  pz_table_cell(t, "%.*f", digits, a);
  pz_table_cell(t, "%.*f", digits, b);
  pz_table_cell(t, "%+.*f", digits, b - a);
}

static void print_step_parts(struct pz_call *call, const struct pz_plan_diff *d) {
  static const char *const heads[] = {"part of the step (s)", ">A", ">B", ">difference", NULL};
  const struct pz_prediction *a = &d->a.p, *b = &d->b.p;
  int digits = pz_predict_decimals(fmin(a->step_s, b->step_s));
  struct pz_table *t = pz_table_new(call, heads);
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    double a_s = pz_time_part(&a->parts, part), b_s = pz_time_part(&b->parts, part);
    bool negligible = !(a_s > 1e-9 * a->step_s || b_s > 1e-9 * b->step_s);
    if (!negligible)
      append_difference(t, pz_time_part_label(a->scan_layers > 0 ? a : b, part), digits, a_s, b_s);
  }
  append_difference(t, "step", digits, a->step_s, b->step_s);
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

static void print_memory_parts(struct pz_call *call, const struct pz_plan_diff *d) {
  static const char *const heads[] = {"memory of the fullest device (GB)", ">A", ">B",
                                      ">difference", NULL};
  const struct pz_prediction *a = &d->a.p, *b = &d->b.p;
  struct pz_table *t = pz_table_new(call, heads);
  for (size_t i = 0; pz_memory_part_at(i); i++) {
    const struct pz_part_info *part = pz_memory_part_at(i);
    double a_bytes = pz_memory_part(&a->peak, part), b_bytes = pz_memory_part(&b->peak, part);
    if (a_bytes > 0 || b_bytes > 0)
      append_difference(t, part->label, 2, a_bytes / 1e9, b_bytes / 1e9);
  }
  append_difference(t, "sum", 2, a->peak_bytes / 1e9, b->peak_bytes / 1e9);
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

/* Prints the plans on the path from A to B, with the change of step time and memory by each change of fields. */
static void print_path(struct pz_call *call, const struct pz_plan_diff *d) {
  static const char *const heads[] = {"from A to B", ">s per step", ">difference",
                                      ">GB",         ">difference", NULL};
  int digits = pz_predict_decimals(fmin(d->a.p.step_s, d->b.p.step_s));
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i <= d->n_path; i++) {
    static const struct pz_diff_change none = {0};
    const struct pz_diff_change *c = i ? &d->path[i - 1] : &none;
    const struct pz_prediction *p = i ? &c->p : &d->a.p;
    char text[256] = "A";
    if (i) pz_text_plain(pz_text_copy(text, sizeof text, c->change));
    pz_table_cell(t, "%s%s", text, pz_prediction_fits(p) ? "" : " (does not fit)");
    pz_table_cell(t, "%.*f", digits, p->step_s);
    pz_table_known(t, i > 0, "%+.*f", digits, c->step_s);
    pz_table_cell(t, "%.2f", p->peak_bytes / 1e9);
    pz_table_known(t, i > 0, "%+.2f", c->peak_bytes / 1e9);
  }
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

/* Prints how much faster or slower B is.  The subject of the sentence is the changed fields if these are few. */
static void print_verdict(const struct diff *x) {
  enum { MOST_NAMED = 4 };
  const struct pz_plan_diff *d = x->d;
  const char *subject = pz_file_is_regular(x->b.name) ? x->b.name : "B";
  uint32_t n_fields = 0;
  char text[256];
  for (uint32_t i = 0; i < d->n_path; i++) n_fields += d->path[i].fields;
  if (n_fields <= MOST_NAMED) subject = d->changes;
  if (d->n_path)
    printf("%s %s\n\n", pz_text_plain(pz_text_copy(text, sizeof text, subject)), d->verdict);
  else
    printf("A and B are the same plan\n\n");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *difference_json(double a, double b) {
  return json_pack("{s:f,s:f,s:f}", "a", a, "b", b, "difference", b - a);
}

static json_t *run_json(const struct diff_input *in, const struct pz_training_run *r) {
  json_t *j = json_pack("{s:s?,s:s,s:s?}", "model", in->run->model, "chip", in->machine->chip.name,
                        "cluster", pz_machine_net_name(in->machine));
  json_t *run = pz_training_run_json(r);
  if (j && run) json_object_update(j, run);
  json_decref(run);
  return j;
}

static json_t *diff_json(const struct diff *x) {
  const struct pz_plan_diff *d = x->d;
  const struct pz_prediction *a = &d->a.p, *b = &d->b.p;
  json_t *fields = json_array(), *parts = json_object(), *memory = json_object();
  json_t *path = json_array();
  for (uint32_t i = 0; i < d->n_fields; i++)
    json_array_append_new(fields, json_pack("{s:s,s:s,s:s}", "field", d->fields[i].name, "a",
                                            d->fields[i].a, "b", d->fields[i].b));
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    double a_s = pz_time_part(&a->parts, part), b_s = pz_time_part(&b->parts, part);
    json_object_set_new(parts, part->key, difference_json(a_s, b_s));
  }
  for (size_t i = 0; pz_memory_part_at(i); i++) {
    const struct pz_part_info *part = pz_memory_part_at(i);
    double a_bytes = pz_memory_part(&a->peak, part), b_bytes = pz_memory_part(&b->peak, part);
    json_object_set_new(memory, part->key, difference_json(a_bytes, b_bytes));
  }
  for (uint32_t i = 0; i < d->n_path; i++) {
    const struct pz_diff_change *c = &d->path[i];
    json_array_append_new(path,
                          json_pack("{s:s,s:I,s:f,s:f,s:f,s:f,s:b}", "change", c->change, "fields",
                                    (json_int_t)c->fields, "step_s", c->p.step_s, "difference_s",
                                    c->step_s, "peak_bytes", c->p.peak_bytes, "difference_bytes",
                                    c->peak_bytes, "fits", (int)pz_prediction_fits(&c->p)));
  }
  return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "changes", d->changes, "verdict",
                   d->verdict, "a", run_json(&x->a, &d->a), "b", run_json(&x->b, &d->b), "fields",
                   fields, "step_s", difference_json(a->step_s, b->step_s), "parts", parts,
                   "peak_bytes", difference_json(a->peak_bytes, b->peak_bytes), "memory", memory,
                   "path", path);
}

/* ---- the command ---------------------------------------------------------------------------- */

static void compare_runs(struct pz_call *call, struct diff *x) {
  struct pz_plan_diff *d = NULL;
  struct pz_diff_side a = {sizeof a, x->a.run, &x->a.machine->chip, pz_machine_net(x->a.machine)};
  struct pz_diff_side b = {sizeof b, x->b.run, &x->b.machine->chip, pz_machine_net(x->b.machine)};
  pz_must(call, pz_plan_diff(&a, &b, &d, pz_call_error(call)));
  pz_defer(call, pz_free_plan_diff, d);
  x->d = d;
  if (*d->a.refusal) /* that of B is the verdict */
    pz_command_warn(x->s->common.quiet, pz_format(call, "A: %s", d->a.refusal));
  if (x->s->common.json) {
    pz_command_print_json(call, diff_json(x));
    return;
  }
  print_verdict(x);
  print_run(&x->a, &d->a);
  print_run(&x->b, &d->b);
  if (d->n_fields) print_fields(call, d);
  print_step_parts(call, d);
  print_memory_parts(call, d);
  if (d->n_path) print_path(call, d);
}

static void diff(struct pz_call *call, struct pz_invocation *in) {
  SETTINGS s = defaults;
  struct diff x = {.s = &s, .a.letter = "A", .b.letter = "B"};
  /* changes may begin with '-' as options do; a space in front of them shows that they are none */
  for (int i = 1; i < in->argc; i++)
    if (in->argv[i][0] == '-' && strpbrk(in->argv[i], " \t\n"))
      in->argv[i] = pz_format(call, " %s", in->argv[i]);
  if (!pz_command_options(call, in, &s)) return;
  if (s.with && in->n_args != 1)
    pz_command_refuse(call, in, "expected one FILE and --with CHANGES");
  if (!s.with && in->n_args != 2 && in->n_args != 3)
    pz_command_refuse(call, in, "expected two runs A and B, or MODEL A B, or FILE --with CHANGES");
  if (in->n_args == 3) {
    read_model_changes(call, &x, in->args);
  } else { /* A is a file, B is a file or changes of A */
    const char *a = in->args[0], *b = s.with ? s.with : in->args[1];
    if (is_changes(a))
      pz_raise(call, PZ_BAD_USE, "'%s' without a MODEL; accepted: MODEL A B, or a file", a);
    read_file(call, &x, a, b, &x.a);
    if (s.with || is_changes(b))
      read_changes(call, &x, b, x.a.run, &x.b);
    else
      read_file(call, &x, b, a, &x.b);
  }
  compare_runs(call, &x);
}

const struct pz_command pz_cmd_diff = {
    .name = "diff",
    .synopsis = "FILE FILE | FILE --with CHANGES | MODEL CHANGES CHANGES [--chip CHIP] "
                "[--cluster NET] [options]",
    .summary = "Explain what two training plans differ by: every second and every GB",
    .detail =
        "The first line is the answer: how much faster or slower B is and by what, or that it "
        "does\n"
        "not fit or that its framework cannot run it. Then come the fields that differ, the parts "
        "of\n"
        "both steps and of the memory of the fullest device, and a path of plans from A to B, "
        "field\n"
        "by field: seconds and GB of each change. Fields change together where no single one "
        "gives\n"
        "a plan that can run.\n"
        "FILE is what 'phaze tune' reads: a launch script or a plan. CHANGES are fields of a "
        "plan,\n"
        "options of 'phaze predict' or the text of a plan that was printed, in quotes and with a\n"
        "space in them. With a MODEL both sides are changes of the options beside them.\n"
        "\n"
        "Examples:\n"
        "  phaze diff plan.json --with 'tp 8, pp 2, recompute full'\n"
        "  phaze diff plan.json pretrain_llama.sh --vocab 128256\n"
        "  phaze diff pretrain_llama.sh --with 'tp 4, vpp 1' --chip h100 --vocab 128256\n"
        "  phaze diff llama3-70b 'tp 8, pp 4' 'tp 4, pp 8, recompute full' --chip h100\n"
        "      --cluster dgx-h100 --devices 256 --batch 512 --zero 1\n"
        "  phaze diff plan.json other.json --json\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .body = diff,
};
