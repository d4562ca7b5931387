/* phaze diff: explains the difference of two training plans A and B.  It reads both sides, each
 * a file or changes of another plan, and prints the fields, the parts of step time and memory,
 * and a path of changes from A to B. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/file.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

struct diff_settings {
  struct pz_common common;
  const char *with; /* changes that turn A into B, or NULL if B is an argument */
  int64_t vocab;
  const char *set[PZ_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_MOST_SETS + 1];
  struct pz_machine_options machine;
  struct pz_plan plan; /* the plan of a MODEL; fields that are not given are unset */
};

static const struct diff_settings defaults = {.plan = {
                                                  .size = sizeof(struct pz_plan),
#include "cli/plan_unset.def"
                                              }};

#define SETTINGS struct diff_settings
#define AT(field) offsetof(SETTINGS, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    PZ_TEXT_OPTION("with", AT(with), "CHANGES", "Compare FILE with the same plan with these fields changed: 'tp 8, pp 2, recompute full', or the text of a plan that was printed; devices and batch stay"),
    PZ_INT_OPTION("vocab", AT(vocab), "V", 1, 1 << 26, "Size of the vocabulary, before padding, where a file names a tokenizer alone"),
    PZ_TEXTS_OPTION("set", AT(set), "NAME=VALUE", PZ_MOST_SETS, "Value of a variable of a script; may be given several times"),
    PZ_TEXTS_OPTION("ignore", AT(ignore), "NAME", PZ_MOST_SETS, "Leave out an option of a file that is not covered; may be given several times"),
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
#define PLAN_OF(field) AT(plan.field)
#define OWN
#define SEARCH(x) .default_text = x,
#define FOLLOW(x) .default_text = x,
#include "cli/plan_options.def"
};
/* clang-format on */

/* ---- both runs ------------------------------------------------------------------------------ */

/* One of the two runs: A or B. */
struct diff_side {
  const char *letter; /* "A" or "B" */
  const char *name;   /* the file or the list of changes, for messages */
  struct pz_run_plan *run;
  const struct pz_machine *machine;
};

/* Returns whether an argument is a list of changes: it is empty, or has a space and is no file. */
static bool is_changes(const char *word) {
  return !*word || (strpbrk(word, " \t\n") && !pz_file_is_regular(word));
}

/* Reads one side that is given as changes of another run. */
static void read_changes(struct pz_call *call, const SETTINGS *settings, const char *changes,
                         const struct pz_run_plan *base_run, struct diff_side *side) {
  const struct pz_machine_options units = {.any_units = settings->machine.any_units};
  side->name = changes;
  pz_must(call, pz_run_plan_with(base_run, changes, &side->run, pz_call_error(call)));
  pz_defer(call, pz_object_free, side->run);
  side->machine = pz_machine_of_run(call, &units, "the plan", settings->common.quiet, side->run);
}

/* Reads one side that is given as a file.  --vocab, --set and --ignore are meant for launch
 * scripts: if one side is a script and the other one a plan file, they apply to the script only. */
static void read_file(struct pz_call *call, const SETTINGS *settings, const char *path,
                      const char *other, struct diff_side *side) {
  SETTINGS allowed = defaults; /* of the options of a plan, a file accepts --devices alone */
  allowed.plan.devices = settings->plan.devices;
  const struct pz_option *model_option =
      pz_command_changed(&pz_cmd_diff, AT(plan), settings, &allowed);
  char name[64];
  if (model_option)
    pz_raise(call, PZ_BAD_USE, "--%s is for a MODEL with changes; %s is a file",
             pz_option_name(model_option->name, name, sizeof name), path);
  if (pz_preset_named(path))
    pz_raise(call, PZ_BAD_USE,
             "%s is a model, and what is to be compared are runs; accepted: two files, a file "
             "and --with CHANGES, or MODEL \"CHANGES\" \"CHANGES\", each with a space",
             path);
  struct pz_run_plan_options options = pz_run_plan_options_default();
  bool other_is_script = pz_file_is_regular(other) && !pz_is_plan_file(other);
  bool script_options_apply = !pz_is_plan_file(path) || !other_is_script;
  options.devices = settings->plan.devices;
  if (script_options_apply) {
    options.vocab = settings->vocab;
    options.set = settings->set;
    options.ignore = settings->ignore;
  }
  struct pz_run_file file = pz_run_file_read(call, path, &options);
  side->name = file.name;
  side->run = file.run;
  pz_run_file_warn(settings->common.quiet, file.run);
  side->machine =
      pz_machine_of_run(call, &settings->machine, file.name, settings->common.quiet, file.run);
}

/* Reads MODEL CHANGES CHANGES.  Both sides are changes of the plan that the options give. */
static void read_model_changes(struct pz_call *call, const SETTINGS *settings, char **args,
                               struct diff_side *a_side, struct diff_side *b_side) {
  struct pz_run_plan base = pz_run_plan_default();
  base.model = args[0];
  base.chip = settings->machine.chip;
  base.cluster = settings->machine.cluster;
  base.plan = settings->plan;
  for (int i = 1; i <= 2; i++)
    if (!is_changes(args[i]))
      pz_raise(call, PZ_BAD_USE,
               "'%s' with MODEL %s; accepted: changes, in quotes and with a space: 'tp 8'; "
               "or two files without a MODEL",
               args[i], args[0]);
  read_changes(call, settings, args[1], &base, a_side);
  read_changes(call, settings, args[2], &base, b_side);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Prints one run: its model and devices, step time, rates and memory, and its plan. */
static void print_run(const struct diff_side *side, const struct pz_training_run *run) {
  const struct pz_prediction *prediction = &run->p;
  char line[PZ_PLAN_LINE_MOST], name[256];
  printf("%s: %s on %" PRId64
         " x %s: %.4g s per step, %.4g tokens/s per device, MFU %.1f%%, %.1f GB%s\n",
         side->letter, pz_text_plain(pz_text_copy(name, sizeof name, side->run->model)),
         run->plan.devices, side->machine->chip.name, prediction->step_s,
         prediction->tokens_per_s_per_device, 100 * prediction->mfu, prediction->peak_bytes / 1e9,
         pz_prediction_fits(prediction) ? "" : " (does not fit)");
  printf("   %s\n", pz_plan_line(&run->plan, true, line, sizeof line));
}

/* Appends a row with the number of A, that of B, and B minus A. */
static void append_difference(struct pz_table *table, const char *label, int decimals,
                              double a_value, double b_value) {
  pz_table_cells(table, "%s|%.*f|%.*f|%+.*f", label, decimals, a_value, decimals, b_value, decimals,
                 b_value - a_value);
}

/* Prints the parts of the step time, and of the memory of the fullest device, of both sides. */
static void print_parts(struct pz_call *call, const struct pz_plan_diff *diff) {
  const struct pz_prediction *a_prediction = &diff->a.p, *b_prediction = &diff->b.p;
  int decimals = pz_predict_decimals(fmin(a_prediction->step_s, b_prediction->step_s));
  struct pz_table *times = pz_table_new(call, "part of the step (s)|>A|>B|>difference");
  struct pz_table *memory =
      pz_table_new(call, "memory of the fullest device (GB)|>A|>B|>difference");
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    double a_s = pz_time_part(&a_prediction->parts, part),
           b_s = pz_time_part(&b_prediction->parts, part);
    bool negligible = !(a_s > 1e-9 * a_prediction->step_s || b_s > 1e-9 * b_prediction->step_s);
    const char *label =
        pz_time_part_label(a_prediction->scan_layers > 0 ? a_prediction : b_prediction, part);
    if (!negligible) append_difference(times, label, decimals, a_s, b_s);
  }
  append_difference(times, "step", decimals, a_prediction->step_s, b_prediction->step_s);
  for (size_t i = 0; pz_memory_part_at(i); i++) {
    const struct pz_part_info *part = pz_memory_part_at(i);
    double a_bytes = pz_memory_part(&a_prediction->peak, part),
           b_bytes = pz_memory_part(&b_prediction->peak, part);
    if (a_bytes > 0 || b_bytes > 0)
      append_difference(memory, part->label, 2, a_bytes / 1e9, b_bytes / 1e9);
  }
  append_difference(memory, "sum", 2, a_prediction->peak_bytes / 1e9,
                    b_prediction->peak_bytes / 1e9);
  putchar('\n');
  pz_table_print(times, 0, stdout);
  putchar('\n');
  pz_table_print(memory, 0, stdout);
}

/* Prints the plans on the path from A to B and what each change does to time and memory. */
static void print_path(struct pz_call *call, const struct pz_plan_diff *diff) {
  const struct pz_prediction *a_prediction = &diff->a.p;
  int decimals = pz_predict_decimals(fmin(a_prediction->step_s, diff->b.p.step_s));
  struct pz_table *table =
      pz_table_new(call, "from A to B|>s per step|>difference|>GB|>difference");
  pz_table_cells(table, "A%s|%.*f|-|%.2f|-",
                 pz_prediction_fits(a_prediction) ? "" : " (does not fit)", decimals,
                 a_prediction->step_s, a_prediction->peak_bytes / 1e9);
  for (uint32_t i = 0; i < diff->n_path; i++) {
    const struct pz_diff_change *change = &diff->path[i];
    const struct pz_prediction *prediction = &change->p;
    char text[256];
    pz_table_cells(table, "%s%s|%.*f|%+.*f|%.2f|%+.2f",
                   pz_text_plain(pz_text_copy(text, sizeof text, change->change)),
                   pz_prediction_fits(prediction) ? "" : " (does not fit)", decimals,
                   prediction->step_s, decimals, change->step_s, prediction->peak_bytes / 1e9,
                   change->peak_bytes / 1e9);
  }
  putchar('\n');
  pz_table_print(table, 0, stdout);
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Finds the differences of both runs and prints them as JSON or as tables. */
static void compare_runs(struct pz_call *call, const SETTINGS *settings,
                         const struct diff_side *a_side, const struct diff_side *b_side) {
  struct pz_plan_diff *diff = NULL;
  struct pz_diff_side first = {sizeof first, a_side->run, &a_side->machine->chip,
                               a_side->machine->net};
  struct pz_diff_side second = {sizeof second, b_side->run, &b_side->machine->chip,
                                b_side->machine->net};
  pz_must(call, pz_plan_diff(&first, &second, &diff, pz_call_error(call)));
  pz_defer(call, pz_object_free, diff);
  if (*diff->a.refusal) /* the refusal of B is the verdict */
    pz_command_warn(settings->common.quiet, pz_format(call, "A: %s", diff->a.refusal));
  if (settings->common.json) {
    const struct pz_diff_answer answer = {
        .a = {pz_machine_asked(a_side->machine, &settings->machine, a_side->run->model), &diff->a},
        .b = {pz_machine_asked(b_side->machine, &settings->machine, b_side->run->model), &diff->b},
        .diff = diff,
        .step_s = pz_compare_values(diff->a.p.step_s, diff->b.p.step_s),
        .peak_bytes = pz_compare_values(diff->a.p.peak_bytes, diff->b.p.peak_bytes)};
    pz_command_print_json(call, pz_record_json(&pz_diff_answer_record, &answer));
    return;
  }
  /* Prints how much faster or slower B is.  The sentence begins with the changed fields if these
   * are few, otherwise with the name of B. */
  enum { MOST_NAMED = 4 };
  const char *subject = pz_file_is_regular(b_side->name) ? b_side->name : "B";
  uint32_t n_fields = 0;
  char text[256];
  for (uint32_t i = 0; i < diff->n_path; i++) n_fields += diff->path[i].fields;
  if (n_fields <= MOST_NAMED) subject = diff->changes;
  if (diff->n_path)
    printf("%s %s\n\n", pz_text_plain(pz_text_copy(text, sizeof text, subject)), diff->verdict);
  else
    printf("A and B are the same plan\n\n");
  print_run(a_side, &diff->a);
  print_run(b_side, &diff->b);
  if (diff->n_fields) {
    struct pz_table *fields = pz_table_new(call, "field|A|B");
    for (uint32_t i = 0; i < diff->n_fields; i++) {
      const struct pz_field_difference *field = &diff->fields[i];
      char a[128], b[128];
      pz_table_cells(fields, "%s|%s|%s", field->name, pz_text_copy(a, sizeof a, field->a),
                     pz_text_copy(b, sizeof b, field->b));
    }
    putchar('\n');
    pz_table_print(fields, 0, stdout);
  }
  print_parts(call, diff);
  if (diff->n_path) print_path(call, diff);
}

/* Reads the two runs in one of the three forms of the arguments and compares them. */
static void diff(struct pz_call *call, struct pz_invocation *invocation) {
  SETTINGS settings = defaults;
  struct diff_side a_side = {.letter = "A"}, b_side = {.letter = "B"};
  /* A leading space keeps changes that begin with '-' from being read as options. */
  for (int i = 1; i < invocation->argc; i++)
    if (invocation->argv[i][0] == '-' && strpbrk(invocation->argv[i], " \t\n"))
      invocation->argv[i] = pz_format(call, " %s", invocation->argv[i]);
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *with = settings.with;
  if (with && invocation->n_args != 1)
    pz_command_refuse(call, invocation, "expected one FILE and --with CHANGES");
  if (!with && invocation->n_args != 2 && invocation->n_args != 3)
    pz_command_refuse(call, invocation,
                      "expected two runs A and B, or MODEL A B, or FILE --with CHANGES");
  if (invocation->n_args == 3) {
    read_model_changes(call, &settings, invocation->args, &a_side, &b_side);
  } else { /* A is a file, B is a file or changes of A */
    const char *first = invocation->args[0], *second = with ? with : invocation->args[1];
    if (is_changes(first))
      pz_raise(call, PZ_BAD_USE, "'%s' without a MODEL; accepted: MODEL A B, or a file", first);
    read_file(call, &settings, first, second, &a_side);
    if (with || is_changes(second))
      read_changes(call, &settings, second, a_side.run, &b_side);
    else
      read_file(call, &settings, second, first, &b_side);
  }
  compare_runs(call, &settings, &a_side, &b_side);
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = diff,
};
