/* phaze diff: what two training plans differ by, term by term and field by field. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/tune_options.h"
#include "core/file.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

struct diff_settings {
  struct pz_common common;
  const char *with; /* changes of A by words; NULL: B is given */
  int64_t vocab;
  const char *set[PZ_TUNE_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_TUNE_MOST_SETS + 1];
  struct pz_machine_options machine;
  struct pz_plan plan; /* of a MODEL; unset: not given */
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
  struct pz_run_plan run;
  struct pz_run_plan *read; /* of a file or of changes; it holds the run's texts */
  struct pz_machine machine;
};

struct diff {
  const SETTINGS *s;
  struct pz_arena arena;
  struct diff_input a, b;
  struct pz_plan_diff *d;
};

/* Changes are no file, and have a space or nothing in them. */
static bool is_changes(const char *word) {
  return !*word || (strpbrk(word, " \t\n") && !pz_file_is_regular(word));
}

static enum pz_status take_changes(struct diff *x, const char *text, const struct pz_run_plan *of,
                                   struct diff_input *in, struct pz_error *err) {
  const struct pz_machine_options named = {.any_units = x->s->machine.any_units};
  enum pz_status status = pz_run_plan_with(of, text, &in->read, err);
  if (status != PZ_OK) return status;
  in->name = text;
  in->run = *in->read;
  return pz_machine_of_run(&named, "the plan", x->s->common.quiet, &in->run, &in->machine, err);
}

/* --vocab, --set and --ignore are for the script where `other` is one and this file is a plan. */
static enum pz_status take_file(struct diff *x, const char *path, const char *other,
                                struct diff_input *in, struct pz_error *err) {
  const SETTINGS *s = x->s;
  struct pz_run_plan_options o = pz_run_plan_options_default();
  SETTINGS plain = defaults;
  char name[64];
  plain.plan.devices = s->plan.devices;
  const struct pz_option *alone = pz_command_changed(&pz_cmd_diff, AT(plan), s, &plain);
  if (alone)
    return pz_fail(err, PZ_BAD_USE, "--%s is for a MODEL with changes; %s is a file",
                   pz_option_name(alone, name, sizeof name), path);
  if (pz_preset_named(path))
    return pz_fail(
        err, PZ_BAD_USE,
        "%s is a model, and what is to be compared are runs; accepted: two files, a file "
        "and --with CHANGES, or MODEL \"CHANGES\" \"CHANGES\", each with a space",
        path);
  o.devices = s->plan.devices;
  if (!pz_machine_is_plan(path) || !pz_file_is_regular(other) || pz_machine_is_plan(other)) {
    o.vocab = s->vocab;
    o.set = s->set;
    o.ignore = s->ignore;
  }
  enum pz_status status = pz_machine_run(path, &o, &in->name, &in->read, err);
  if (status != PZ_OK) return status;
  in->run = *in->read;
  pz_tune_warn(s->common.quiet, &in->run);
  return pz_machine_of_run(&s->machine, in->name, s->common.quiet, &in->run, &in->machine, err);
}

/* ---- tables --------------------------------------------------------------------------------- */

static void print_run(const struct diff_input *in, const struct pz_training_run *r) {
  char line[PZ_PLAN_LINE_MOST], name[256];
  const struct pz_prediction *p = &r->p;
  printf("%s: %s on %" PRId64
         " x %s: %.4g s per step, %.4g tokens/s per device, MFU %.1f%%, %.1f GB%s\n",
         in->letter, pz_text_plain(pz_text_copy(name, sizeof name, in->run.model)), r->plan.devices,
         in->machine.chip.name, p->step_s, p->tokens_per_s_per_device, 100 * p->mfu,
         p->peak_bytes / 1e9, pz_prediction_fits(p) ? "" : " (does not fit)");
  printf("   %s\n", pz_plan_line(&r->plan, true, line, sizeof line));
}

static enum pz_status print_fields(struct diff *x) {
  static const char *const heads[] = {"field", "A", "B", NULL};
  struct pz_table t;
  pz_table_init(&t, &x->arena, heads);
  for (uint32_t i = 0; i < x->d->n_fields; i++) {
    const struct pz_field_difference *f = &x->d->fields[i];
    char a[128], b[128];
    pz_table_cell(&t, "%s", f->name);
    pz_table_cell(&t, "%s", pz_text_plain(pz_text_copy(a, sizeof a, f->a)));
    pz_table_cell(&t, "%s", pz_text_plain(pz_text_copy(b, sizeof b, f->b)));
  }
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

/* A row of numbers of both, and their difference. */
static void both(struct pz_table *t, const char *label, int digits, double a, double b) {
  pz_table_cell(t, "%s", label);
  pz_table_cell(t, "%.*f", digits, a);
  pz_table_cell(t, "%.*f", digits, b);
  pz_table_cell(t, "%+.*f", digits, b - a);
}

static enum pz_status print_parts(struct diff *x) {
  static const char *const heads[] = {"part of the step (s)", ">A", ">B", ">difference", NULL};
  const struct pz_prediction *a = &x->d->a.p, *b = &x->d->b.p;
  int digits = pz_predict_decimals(fmin(a->step_s, b->step_s));
  const struct pz_part_info *part;
  struct pz_table t;
  pz_table_init(&t, &x->arena, heads);
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double s = pz_time_part(&a->parts, part), z = pz_time_part(&b->parts, part);
    if (s > 1e-9 * a->step_s || z > 1e-9 * b->step_s)
      both(&t, pz_time_part_label(a->scan_layers > 0 ? a : b, part), digits, s, z);
  }
  both(&t, "step", digits, a->step_s, b->step_s);
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status print_memory(struct diff *x) {
  static const char *const heads[] = {"memory of the fullest device (GB)", ">A", ">B",
                                      ">difference", NULL};
  const struct pz_prediction *a = &x->d->a.p, *b = &x->d->b.p;
  const struct pz_part_info *part;
  struct pz_table t;
  pz_table_init(&t, &x->arena, heads);
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++) {
    double m = pz_memory_part(&a->peak, part), z = pz_memory_part(&b->peak, part);
    if (m > 0 || z > 0) both(&t, part->label, 2, m / 1e9, z / 1e9);
  }
  both(&t, "sum", 2, a->peak_bytes / 1e9, b->peak_bytes / 1e9);
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status print_path(struct diff *x) {
  static const char *const heads[] = {"from A to B", ">s per step", ">difference",
                                      ">GB",         ">difference", NULL};
  const struct pz_plan_diff *d = x->d;
  int digits = pz_predict_decimals(fmin(d->a.p.step_s, d->b.p.step_s));
  struct pz_table t;
  pz_table_init(&t, &x->arena, heads);
  for (uint32_t i = 0; i <= d->n_path; i++) {
    const struct pz_diff_change *c = i ? &d->path[i - 1] : NULL;
    const struct pz_prediction *p = c ? &c->p : &d->a.p;
    char text[256] = "A";
    if (c) pz_text_plain(pz_text_copy(text, sizeof text, c->change));
    pz_table_cell(&t, "%s%s", text, pz_prediction_fits(p) ? "" : " (does not fit)");
    pz_table_cell(&t, "%.*f", digits, p->step_s);
    pz_table_cell(&t, c ? "%+.*f" : "-", digits, c ? c->step_s : 0);
    pz_table_cell(&t, "%.2f", p->peak_bytes / 1e9);
    pz_table_cell(&t, c ? "%+.2f" : "-", c ? c->peak_bytes / 1e9 : 0);
  }
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

/* The subject is what differs, where that is short. */
static void print_verdict(const struct diff *x) {
  const struct pz_plan_diff *d = x->d;
  enum { MOST_NAMED = 4 };
  const char *b = pz_file_is_regular(x->b.name) ? x->b.name : "B";
  uint32_t n = 0;
  char text[256];
  for (uint32_t i = 0; i < d->n_path; i++) n += d->path[i].fields;
  pz_text_plain(pz_text_copy(text, sizeof text, n <= MOST_NAMED ? d->changes : b));
  if (d->n_path)
    printf("%s %s\n\n", text, d->verdict);
  else
    printf("A and B are the same plan\n\n");
}

static enum pz_status print_diff(struct diff *x) {
  print_verdict(x);
  print_run(&x->a, &x->d->a);
  print_run(&x->b, &x->d->b);
  enum pz_status status = x->d->n_fields ? print_fields(x) : PZ_OK;
  if (status == PZ_OK) status = print_parts(x);
  if (status == PZ_OK) status = print_memory(x);
  if (status == PZ_OK && x->d->n_path) status = print_path(x);
  return status;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *both_json(double a, double b) {
  return json_pack("{s:f,s:f,s:f}", "a", a, "b", b, "difference", b - a);
}

static json_t *run_json(const struct diff_input *in, const struct pz_training_run *r) {
  json_t *j = json_pack("{s:s?,s:s,s:s?}", "model", in->run.model, "chip", in->machine.chip.name,
                        "cluster", pz_machine_net_name(&in->machine));
  json_t *run = pz_training_run_json(r);
  if (j && run) json_object_update(j, run);
  json_decref(run);
  return j;
}

static json_t *diff_json(const struct diff *x) {
  const struct pz_plan_diff *d = x->d;
  const struct pz_prediction *a = &d->a.p, *b = &d->b.p;
  const struct pz_part_info *part;
  json_t *fields = json_array(), *parts = json_object(), *memory = json_object();
  json_t *path = json_array();
  for (uint32_t i = 0; i < d->n_fields; i++)
    json_array_append_new(fields, json_pack("{s:s,s:s,s:s}", "field", d->fields[i].name, "a",
                                            d->fields[i].a, "b", d->fields[i].b));
  for (size_t i = 0; (part = pz_time_part_at(i)); i++)
    json_object_set_new(parts, part->key,
                        both_json(pz_time_part(&a->parts, part), pz_time_part(&b->parts, part)));
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++)
    json_object_set_new(memory, part->key,
                        both_json(pz_memory_part(&a->peak, part), pz_memory_part(&b->peak, part)));
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
                   fields, "step_s", both_json(a->step_s, b->step_s), "parts", parts, "peak_bytes",
                   both_json(a->peak_bytes, b->peak_bytes), "memory", memory, "path", path);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* The plan of the options, which both sides change. */
static struct pz_run_plan plan_of_model(const struct diff *x, const char *model) {
  struct pz_run_plan r = pz_run_plan_default();
  r.model = model;
  r.chip = x->s->machine.chip;
  r.cluster = x->s->machine.cluster;
  r.plan = x->s->plan;
  return r;
}

static enum pz_status take_both(struct diff *x, int n, char **argv, struct pz_error *err) {
  const char *a = argv[n > 2], *b = x->s->with ? x->s->with : argv[n - 1];
  if (n == 3) {
    const struct pz_run_plan model = plan_of_model(x, argv[0]);
    for (int i = 1; i < n; i++)
      if (!is_changes(argv[i]))
        return pz_fail(err, PZ_BAD_USE,
                       "'%s' with MODEL %s; accepted: changes, in quotes and with a space: 'tp 8'; "
                       "or two files without a MODEL",
                       argv[i], argv[0]);
    enum pz_status status = take_changes(x, a, &model, &x->a, err);
    return status == PZ_OK ? take_changes(x, b, &model, &x->b, err) : status;
  }
  if (is_changes(a))
    return pz_fail(err, PZ_BAD_USE, "'%s' without a MODEL; accepted: MODEL A B, or a file", a);
  enum pz_status status = take_file(x, a, b, &x->a, err);
  if (status != PZ_OK) return status;
  return x->s->with || is_changes(b) ? take_changes(x, b, &x->a.run, &x->b, err)
                                     : take_file(x, b, a, &x->b, err);
}

static enum pz_status diff_runs(struct diff *x, struct pz_error *err) {
  struct pz_diff_side a = {sizeof a, &x->a.run, &x->a.machine.chip, pz_machine_net(&x->a.machine)};
  struct pz_diff_side b = {sizeof b, &x->b.run, &x->b.machine.chip, pz_machine_net(&x->b.machine)};
  enum pz_status status = pz_plan_diff(&a, &b, &x->d, err);
  if (status != PZ_OK) return status;
  const char *refusal = x->d->a.refusal; /* that of B is the verdict */
  char text[sizeof x->d->a.refusal + 8];
  snprintf(text, sizeof text, "A: %s", refusal);
  if (*refusal) pz_command_warn(x->s->common.quiet, text);
  return x->s->common.json ? pz_command_json(diff_json(x), err) : print_diff(x);
}

/* Changes may begin as options do; a space before them tells them apart. */
static bool mark_sets(struct pz_arena *arena, int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (argv[i][0] == '-' && strpbrk(argv[i], " \t\n") &&
        !(argv[i] = pz_arena_printf(arena, " %s", argv[i])))
      return false;
  return true;
}

static enum pz_exit run(int argc, char **argv) {
  SETTINGS s = defaults;
  struct diff x = {.s = &s, .a.letter = "A", .b.letter = "B"};
  struct pz_long_call call;
  enum pz_status status = PZ_NO_MEMORY;
  pz_arena_init(&x.arena, NULL);
  bool begun = mark_sets(&x.arena, argc, argv);
  if (begun && !pz_call_begin(&call, &pz_cmd_diff, argc, argv, &s)) {
    pz_arena_release(&x.arena);
    return call.code;
  }
  if (begun && (s.with ? call.n_args != 1 : call.n_args != 2 && call.n_args != 3)) {
    pz_arena_release(&x.arena);
    return pz_command_misuse(&pz_cmd_diff, s.with ? "expected one FILE and --with CHANGES"
                                                  : "expected two runs A and B, or MODEL A B, or "
                                                    "FILE --with CHANGES");
  }
  if (begun) status = take_both(&x, call.n_args, argv + 1, &call.err);
  if (begun && status == PZ_OK) status = diff_runs(&x, &call.err);
  pz_plan_diff_free(x.d);
  pz_run_plan_free(x.a.read);
  pz_run_plan_free(x.b.read);
  pz_arena_release(&x.arena);
  return pz_call_end(&call, status);
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
    .run = run,
};
