/* phaze rehearse: prints the script that runs single ranks of a plan on one GPU, or compares the results of that script
 * with the prediction.
 *
 * rehearse() calls rehearse_plan(), which reads the plan and its machine and prints the script, or
 * compare_results(), which reads the results, writes the corrected chip and prints the comparison.  The script and the
 * comparison are made by pz_rehearsal_script() and pz_rehearsal_read(). */
#include <inttypes.h>
#include <string.h>

#include "cli/owned.h"
#include "cli/tune_options.h"
#include "core/file.h"
#include "core/text.h"
#include "report/table.h"

struct rehearse_settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, vocab;
  int framework;
  const char *set[PZ_TUNE_MOST_SETS + 1]; /* ends with NULL */
  const char *ignore[PZ_TUNE_MOST_SETS + 1];
  const char *results, *out;
};

#define SETTINGS struct rehearse_settings
#define AT(field) offsetof(SETTINGS, field)
static const SETTINGS defaults;
static const char *const frameworks[] = {"plan", "torchtitan", "megatron", NULL};

/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(SETTINGS),
    {.name = "framework", .type = PZ_OPTION_CHOICE, .offset = AT(framework), .choices = frameworks, .help = "Framework of PLAN; plan: as PLAN says"},
    {.name = "results", .type = PZ_OPTION_TEXT, .offset = AT(results), .arg = "FILE.csv", .help = "Compare what the rehearsal of PLAN printed with the prediction"},
    {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = AT(out), .arg = "CHIP.json", .help = "With --results: write the chip with the measured factors of compute, which other commands accept as --chip"},
    PZ_MACHINE_OPTIONS(SETTINGS, machine),
    PZ_UNITS_OPTION(AT(machine.any_units)),
    {.name = "devices", .type = PZ_OPTION_INT, .offset = AT(devices), .arg = "N", .min = 1, .max = 1 << 24, .help = "Number of devices (default: as PLAN says)"},
    {.name = "vocab", .type = PZ_OPTION_INT, .offset = AT(vocab), .arg = "V", .min = 1, .max = 1 << 26, .help = "Size of the vocabulary, before padding, where Megatron's arguments name a tokenizer alone"},
    {.name = "set", .type = PZ_OPTION_TEXTS, .offset = AT(set), .arg = "NAME=VALUE", .max = PZ_TUNE_MOST_SETS, .help = "Value of a variable of the script, which the rehearsal exports too; may be given several times"},
    {.name = "ignore", .type = PZ_OPTION_TEXTS, .offset = AT(ignore), .arg = "NAME", .max = PZ_TUNE_MOST_SETS, .help = "Leave out an argument or key of the run that is not covered in the prediction; may be given several times"},
};
/* clang-format on */

/* The plan to rehearse. */
struct rehearse_input {
  const SETTINGS *s;
  const char *name; /* of the file, for messages */
  const char *text; /* of the file, which the script starts if it is a launch script */
  struct pz_run_plan *run;
  const struct pz_machine *machine;
  struct pz_diff_side side; /* the same for the library */
};

static void read_input(struct pz_call *call, struct rehearse_input *input, const char *path) {
  const SETTINGS *s = input->s;
  struct pz_run_plan_options o = pz_run_plan_options_default();
  size_t bytes = 0;
  bool standard = strcmp(path, "-") == 0;
  input->name = standard ? "standard input" : path;
  o.vocab = s->vocab;
  o.devices = s->devices;
  o.set = s->set;
  o.ignore = s->ignore;
  input->text = pz_file_text(call, standard ? "/dev/stdin" : path, PZ_PLAN_FILE_MOST_BYTES, &bytes);
  pz_must(call,
          pz_run_plan_read(input->name, input->text, bytes, &o, &input->run, pz_call_error(call)));
  pz_defer(call, pz_free_run_plan, input->run);
  if (s->framework) {
    const char *asked_name = frameworks[s->framework];
    int asked = pz_framework_find(asked_name), own = input->run->plan.framework;
    if (own >= 0 && own != asked)
      pz_raise(call, PZ_BAD_USE,
               "--framework %s, but %s is a plan of %s; accepted: a plan of this framework "
               "('phaze place --framework %s')",
               asked_name, input->name, pz_framework_names[own], asked_name);
    input->run->plan.framework = asked;
  }
  pz_tune_warn(s->common.quiet, input->run);
  input->machine = pz_machine_of(call, &s->machine, input->name, s->common.quiet, input->run);
  input->side = (struct pz_diff_side){.size = sizeof input->side,
                                      .run = input->run,
                                      .chip = &input->machine->chip,
                                      .net = pz_machine_net(input->machine)};
}

/* ---- the comparison as tables ----------------------------------------------------------------- */

static void append_error(struct pz_table *t, bool known, double predicted, double measured) {
  if (known)
    pz_table_cell(t, "%+.1f%%", 100 * (predicted / measured - 1));
  else
    pz_table_cell(t, "-");
}

/* Prints a row for each measure of each rank: predicted, measured, the error of the prediction, and the error of the time
 * that was corrected.  A rank that failed has the row of its reserved memory only. */
static void print_ranks(struct pz_call *call, const struct pz_rehearsal *r) {
  static const char *const heads[] = {">rank",     ">stage", "measure",    ">predicted",
                                      ">measured", ">error", ">corrected", NULL};
  static const char *const labels[] = {"compute (s)", "between steps (GB)", "peak (GB)",
                                       "reserved (GB)"};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t n = 0; n < r->n_ranks; n++)
    for (int i = 0; i < PZ_REHEARSAL_MEASURES; i++) {
      const struct pz_rehearsed_rank *k = &r->ranks[n];
      double measured = k->measured[i], predicted = k->predicted[i];
      bool ok = k->status == PZ_RANK_OK, is_time = i == PZ_REHEARSAL_COMPUTE;
      double unit = is_time ? 1 : 1e9;
      if (!ok && i != PZ_REHEARSAL_RESERVED) continue;
      pz_table_cell(t, "%" PRId64, k->rank);
      pz_table_cell(t, "%" PRId64, k->stage + 1);
      pz_table_cell(t, "%s", labels[i]);
      pz_table_cell(t, is_time ? "%.4g" : "%.1f", predicted / unit);
      if (measured > 0)
        pz_table_cell(t, is_time ? "%.4g" : "%.1f", measured / unit);
      else
        pz_table_cell(t, "%s", k->status == PZ_RANK_OOM ? "out of memory" : "failed");
      append_error(t, ok, predicted, measured);
      append_error(t, is_time && k->corrected_s > 0, k->corrected_s, measured);
    }
  pz_table_print(t, 0, stdout);
}

/* Prints whether the plan fits, by the rank with the least memory to spare. */
static void print_fit(const struct pz_rehearsal *r) {
  const struct pz_rehearsed_rank *tightest = NULL;
  putchar('\n');
  for (uint32_t i = 0; i < r->n_ranks; i++) {
    const struct pz_rehearsed_rank *k = &r->ranks[i];
    if (k->status == PZ_RANK_OOM)
      printf("the plan does not fit: rank %" PRId64 " ran out of memory\n", k->rank);
    if (k->status == PZ_RANK_OK &&
        (!tightest ||
         k->usable_bytes - k->needed_bytes < tightest->usable_bytes - tightest->needed_bytes))
      tightest = k;
  }
  if (!tightest) return;
  double spare_gb = r->spare_bytes / 1e9;
  bool lacking = spare_gb < 0;
  const char *verdict = "the ranks that ran fit, but not all that decide were measured";
  if (lacking)
    verdict = "the plan does not fit";
  else if (!r->fits)
    verdict = "the other ranks fit";
  else if (r->complete)
    verdict = "the plan fits";
  printf("%s: rank %" PRId64 " reserves %.1f GB of %.1f GB usable, %.1f GB %s\n", verdict,
         tightest->rank, tightest->needed_bytes / 1e9, tightest->usable_bytes / 1e9,
         lacking ? -spare_gb : spare_gb, lacking ? "too much" : "to spare");
  double excess_bytes =
      tightest->measured[PZ_REHEARSAL_RESERVED] - tightest->predicted[PZ_REHEARSAL_RESERVED];
  if (excess_bytes > 0) printf("that is %.1f GB more than predicted\n", excess_bytes / 1e9);
}

static void print_results(struct pz_call *call, const struct rehearse_input *input,
                          const struct pz_rehearsal *r) {
  char text[700];
  snprintf(text, sizeof text,
           "%.200s on %" PRId64
           " x %s: %u rank%s rehearsed with %s %.60s, PyTorch %.60s, on one %.100s",
           input->run->model, input->run->plan.devices, input->machine->chip.name, r->n_ranks,
           pz_text_s(r->n_ranks), r->framework, r->version, r->torch, r->device);
  printf("%s\n\n", pz_text_plain(text));
  print_ranks(call, r);
  print_fit(r);
  if (r->chip) {
    pz_machine_show_factors(call, r->factors, r->n_factors);
    printf("\nstep with network and pipeline: %.4g s predicted, %.4g s with the measured compute\n",
           r->p.step_s, r->corrected.step_s);
  }
  for (uint32_t i = 0; i < r->n_notes; i++)
    printf("%snote: %s\n", i ? "" : "\n",
           pz_text_plain(pz_text_copy(text, sizeof text, r->notes[i])));
}

/* ---- the comparison as JSON ------------------------------------------------------------------- */

static json_t *rank_json(const struct pz_rehearsed_rank *k) {
  json_t *o = json_pack("{s:I,s:I,s:s,s:I}", "rank", (json_int_t)k->rank, "stage",
                        (json_int_t)k->stage, "status", pz_rank_status_names[k->status],
                        "microbatches", (json_int_t)k->microbatches);
  for (int i = 0; i < PZ_REHEARSAL_MEASURES; i++)
    json_object_set_new(o, pz_rehearsal_measure_names[i],
                        json_pack("{s:f,s:o}", "predicted", k->predicted[i], "measured",
                                  k->measured[i] > 0 ? json_real(k->measured[i]) : json_null()));
  json_object_set_new(o, "corrected_s",
                      k->corrected_s > 0 ? json_real(k->corrected_s) : json_null());
  json_object_set_new(o, "needed_bytes",
                      k->needed_bytes > 0 ? json_real(k->needed_bytes) : json_null());
  json_object_set_new(o, "usable_bytes", json_real(k->usable_bytes));
  json_object_set_new(o, "left_out", json_string(k->left_out));
  json_object_set_new(o, "message", json_string(k->message));
  return o;
}

static json_t *results_json(const struct rehearse_input *input, const struct pz_rehearsal *r) {
  json_t *ranks = json_array(), *notes = json_array();
  for (uint32_t i = 0; i < r->n_ranks; i++) json_array_append_new(ranks, rank_json(&r->ranks[i]));
  for (uint32_t i = 0; i < r->n_notes; i++) json_array_append_new(notes, json_string(r->notes[i]));
  json_t *o =
      json_pack("{s:o,s:s,s:s,s:s,s:s,s:s,s:s}", "model", json_string(input->run->model), "chip",
                input->machine->chip.name, "plan", r->plan, "framework", r->framework, "version",
                r->version, "torch", r->torch, "device", r->device);
  json_object_set_new(o, "ranks", ranks);
  json_object_set_new(o, "fits", json_boolean(r->fits));
  json_object_set_new(o, "complete", json_boolean(r->complete));
  json_object_set_new(o, "spare_bytes", json_real(r->spare_bytes));
  json_object_set_new(o, "step_s", json_real(r->p.step_s));
  json_object_set_new(o, "corrected_step_s",
                      r->chip ? json_real(r->corrected.step_s) : json_null());
  json_object_set_new(o, "factors", pz_machine_factors_json(r->factors, r->n_factors));
  json_object_set_new(o, "description", r->chip ? pz_chip_json(r->chip) : json_null());
  json_object_set_new(o, "notes", notes);
  return o;
}

/* ---- the command ------------------------------------------------------------------------------ */

/* Writes the chip with the measured factors of compute, unless that would overwrite a file that was read. */
static void write_corrected_chip(struct pz_call *call, const struct rehearse_input *input,
                                 const struct pz_rehearsal *r) {
  const char *path = input->s->out;
  const char *inputs[4] = {input->s->results, input->name};
  size_t n = 2;
  if (input->run->chip && pz_file_named(input->run->chip)) inputs[n++] = input->run->chip;
  if (input->run->cluster && pz_file_named(input->run->cluster)) inputs[n++] = input->run->cluster;
  if (!r->chip)
    pz_raise(call, PZ_NO_ANSWER, "%s: no rank ran to its end: nothing to write to %s",
             input->s->results, path);
  pz_file_require_output(call, path, inputs, n);
  pz_machine_save_chip(call, r->chip, path);
}

/* Returns whether the plan fits by what was measured. */
static bool compare_results(struct pz_call *call, const struct rehearse_input *input) {
  const SETTINGS *s = input->s;
  struct pz_rehearsal *r = NULL;
  size_t bytes = 0;
  const char *text = pz_file_text(call, s->results, PZ_REHEARSAL_MOST_BYTES, &bytes);
  pz_must(call, pz_rehearsal_read(&input->side, s->results, text, bytes, &r, pz_call_error(call)));
  pz_defer(call, pz_free_rehearsal, r);
  if (s->out) write_corrected_chip(call, input, r);
  if (s->common.json)
    pz_command_print_json(call, results_json(input, r));
  else
    print_results(call, input, r);
  return r->fits;
}

struct rehearsal {
  struct rehearse_input input;
  const char *path;
  bool fits;
};

/* Prints the script, or compares the results of an earlier run of it. */
static void rehearse_plan(struct pz_call *call, void *ctx) {
  struct rehearsal *work = ctx;
  struct rehearse_input *input = &work->input;
  char *script = NULL;
  read_input(call, input, work->path);
  if (input->s->results) {
    work->fits = compare_results(call, input);
    return;
  }
  pz_must(call, pz_rehearsal_script(&input->side, input->text, input->s->set, &script,
                                    pz_call_error(call)));
  pz_defer(call, pz_free_text, script);
  fputs(script, stdout);
}

/* The message of every error about the input contains the name of the plan or of the results. */
static void rehearse(struct pz_call *call, struct pz_invocation *in) {
  SETTINGS s = defaults;
  if (!pz_command_options(call, in, &s)) return;
  if (!s.results && s.out) pz_command_refuse(call, in, "-o requires --results FILE.csv");
  if (!s.results && s.common.json)
    pz_command_refuse(call, in, "--json requires --results FILE.csv");
  struct rehearsal work = {.input = {.s = &s}, .path = in->args[0], .fits = true};
  struct pz_error why = {0};
  enum pz_status status = pz_border(rehearse_plan, &work, &why);
  bool about_results = s.results && strstr(why.message, s.results);
  if (status != PZ_OK)
    pz_command_raise_about(call, about_results ? s.results : work.input.name, &why);
  if (!work.fits) in->exit = PZ_EXIT_NO_ANSWER;
}

const struct pz_command pz_cmd_rehearse = {
    .name = "rehearse",
    .synopsis = "PLAN [--chip CHIP] [--cluster NET] [--results FILE.csv [-o CHIP.json]]",
    .summary = "Measure single ranks of a training plan on one GPU, before the cluster is paid for",
    .detail =
        "PLAN is the JSON of 'phaze place' or 'phaze predict', or a launch script, for\n"
        "torchtitan or Megatron-LM; - is standard input. Without --results a bash script is\n"
        "printed. On one GPU it runs the ranks that decide, one after another, each alone: the\n"
        "first stage, the last one, and the one with the most memory. Weights, kernels and the\n"
        "allocator are real; collectives complete at once. It prints a line of CSV for each\n"
        "rank.\n"
        "\n"
        "With --results, memory and compute are compared with the prediction, and the step is\n"
        "predicted again with the measured compute. The exit status is 1 if the plan does not\n"
        "fit. A rank that ran out of memory is a result.\n"
        "\n"
        "Examples:\n"
        "  phaze place llama3-70b --chip h200 --devices 64 --framework torchtitan --json "
        ">plan.json\n"
        "  phaze rehearse plan.json >rehearsal.sh\n"
        "  TORCHTITAN_PATH=~/torchtitan bash rehearsal.sh >results.csv\n"
        "  phaze rehearse plan.json --results results.csv -o mine.json\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = 1,
    .argument = "PLAN",
    .body = rehearse,
};
