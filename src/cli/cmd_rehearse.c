/* phaze rehearse: the script that runs single ranks of a plan on one GPU, and what its results say of the plan. */
#include <inttypes.h>
#include <string.h>

#include "cli/tune_options.h"
#include "core/alloc.h"
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

/* PLAN, with its text. */
struct rehearse_input {
  const SETTINGS *s;
  const char *name;
  char *text;
  struct pz_run_plan *run;
  struct pz_machine machine;
  struct pz_diff_side side;
};

static enum pz_status take_framework(struct rehearse_input *x, struct pz_error *err) {
  int *own = &x->run->plan.framework, asked = x->s->framework;
  if (!asked) return PZ_OK;
  int framework = pz_framework_find(frameworks[asked]);
  if (*own >= 0 && *own != framework)
    return pz_fail(err, PZ_BAD_USE,
                   "--framework %s, but %s is a plan of %s; accepted: a plan of this framework "
                   "('phaze place --framework %s')",
                   frameworks[asked], x->name, pz_framework_names[*own], frameworks[asked]);
  *own = framework;
  return PZ_OK;
}

static enum pz_status read_input(struct rehearse_input *x, const char *path, struct pz_error *err) {
  const SETTINGS *s = x->s;
  struct pz_run_plan_options o = pz_run_plan_options_default();
  size_t bytes = 0;
  bool standard = strcmp(path, "-") == 0;
  x->name = standard ? "standard input" : path;
  o.vocab = s->vocab;
  o.devices = s->devices;
  o.set = s->set;
  o.ignore = s->ignore;
  enum pz_status status =
      pz_file_read(standard ? "/dev/stdin" : path, PZ_PLAN_FILE_MOST_BYTES, &x->text, &bytes, err);
  if (status == PZ_OK) status = pz_run_plan_read(x->name, x->text, bytes, &o, &x->run, err);
  if (status == PZ_OK) status = take_framework(x, err);
  if (status == PZ_OK) pz_tune_warn(s->common.quiet, x->run);
  if (status == PZ_OK)
    status = pz_machine_of_run(&s->machine, x->name, s->common.quiet, x->run, &x->machine, err);
  x->side = (struct pz_diff_side){.size = sizeof x->side,
                                  .run = x->run,
                                  .chip = &x->machine.chip,
                                  .net = pz_machine_net(&x->machine)};
  return status;
}

static enum pz_status print_script(struct rehearse_input *x, struct pz_error *err) {
  char *script = NULL;
  enum pz_status status = pz_rehearsal_script(&x->side, x->text, x->s->set, &script, err);
  if (status == PZ_OK) fputs(script, stdout);
  pz_text_free(script);
  return status;
}

/* ---- the comparison as tables ----------------------------------------------------------------- */

static void figure_cells(struct pz_table *t, const struct pz_rehearsed_rank *k, int i) {
  static const char *const labels[] = {"compute (s)", "between steps (GB)", "peak (GB)",
                                       "reserved (GB)"};
  double by = i == PZ_REHEARSAL_COMPUTE ? 1 : 1e9, m = k->measured[i], p = k->predicted[i];
  const char *word = k->status == PZ_RANK_OOM ? "out of memory" : "failed";
  pz_table_cell(t, "%" PRId64, k->rank);
  pz_table_cell(t, "%" PRId64, k->stage + 1);
  pz_table_cell(t, "%s", labels[i]);
  pz_table_cell(t, by > 1 ? "%.1f" : "%.4g", p / by);
  if (m > 0)
    pz_table_cell(t, by > 1 ? "%.1f" : "%.4g", m / by);
  else
    pz_table_cell(t, "%s", word);
  if (k->status == PZ_RANK_OK)
    pz_table_cell(t, "%+.1f%%", 100 * (p / m - 1));
  else
    pz_table_cell(t, "-");
  if (k->corrected_s > 0 && by == 1)
    pz_table_cell(t, "%+.1f%%", 100 * (k->corrected_s / m - 1));
  else
    pz_table_cell(t, "-");
}

static enum pz_status print_ranks(const struct pz_rehearsal *r, struct pz_arena *arena) {
  static const char *const heads[] = {">rank",     ">stage", "measure",    ">predicted",
                                      ">measured", ">error", ">corrected", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t k = 0; k < r->n_ranks; k++)
    for (int i = 0; i < PZ_REHEARSAL_MEASURES; i++)
      if (r->ranks[k].status == PZ_RANK_OK || i == PZ_REHEARSAL_RESERVED)
        figure_cells(&t, &r->ranks[k], i);
  return pz_table_print(&t, 0, stdout);
}

static void print_fit(const struct pz_rehearsal *r) {
  const struct pz_rehearsed_rank *most = NULL;
  putchar('\n');
  for (uint32_t i = 0; i < r->n_ranks; i++) {
    const struct pz_rehearsed_rank *k = &r->ranks[i];
    if (k->status == PZ_RANK_OOM)
      printf("the plan does not fit: rank %" PRId64 " ran out of memory\n", k->rank);
    if (k->status == PZ_RANK_OK &&
        (!most || k->usable_bytes - k->needed_bytes < most->usable_bytes - most->needed_bytes))
      most = k;
  }
  if (!most) return;
  double spare_gb = r->spare_bytes / 1e9;
  printf("%s: rank %" PRId64 " reserves %.1f GB of %.1f GB usable, %.1f GB %s\n",
         spare_gb < 0  ? "the plan does not fit"
         : !r->fits    ? "the other ranks fit"
         : r->complete ? "the plan fits"
                       : "the ranks that ran fit, but not all that decide were measured",
         most->rank, most->needed_bytes / 1e9, most->usable_bytes / 1e9,
         spare_gb < 0 ? -spare_gb : spare_gb, spare_gb < 0 ? "too much" : "to spare");
  double more = most->measured[PZ_REHEARSAL_RESERVED] - most->predicted[PZ_REHEARSAL_RESERVED];
  if (more > 0) printf("that is %.1f GB more than predicted\n", more / 1e9);
}

static enum pz_status print_results(const struct rehearse_input *x, const struct pz_rehearsal *r,
                                    struct pz_error *err) {
  struct pz_arena arena;
  char text[700];
  pz_arena_init(&arena, NULL);
  snprintf(text, sizeof text,
           "%.200s on %" PRId64
           " x %s: %u rank%s rehearsed with %s %.60s, PyTorch %.60s, on one %.100s",
           x->run->model, x->run->plan.devices, x->machine.chip.name, r->n_ranks,
           pz_text_s(r->n_ranks), r->framework, r->version, r->torch, r->device);
  printf("%s\n\n", pz_text_plain(text));
  enum pz_status status = print_ranks(r, &arena);
  print_fit(r);
  if (status == PZ_OK && r->chip) {
    status = pz_machine_print_factors(r->factors, r->n_factors, &arena);
    printf("\nstep with network and pipeline: %.4g s predicted, %.4g s with the measured compute\n",
           r->p.step_s, r->corrected.step_s);
  }
  for (uint32_t i = 0; i < r->n_notes; i++)
    printf("%snote: %s\n", i ? "" : "\n",
           pz_text_plain(pz_text_copy(text, sizeof text, r->notes[i])));
  pz_arena_release(&arena);
  if (status != PZ_OK && err->status == PZ_OK) return pz_fail(err, status, "out of memory");
  return status;
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

static json_t *results_json(const struct rehearse_input *x, const struct pz_rehearsal *r) {
  json_t *ranks = json_array(), *notes = json_array();
  for (uint32_t i = 0; i < r->n_ranks; i++) json_array_append_new(ranks, rank_json(&r->ranks[i]));
  for (uint32_t i = 0; i < r->n_notes; i++) json_array_append_new(notes, json_string(r->notes[i]));
  json_t *o = json_pack("{s:o,s:s,s:s,s:s,s:s,s:s,s:s}", "model", json_string(x->run->model),
                        "chip", x->machine.chip.name, "plan", r->plan, "framework", r->framework,
                        "version", r->version, "torch", r->torch, "device", r->device);
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

static enum pz_status write_corrected(const struct rehearse_input *x, const struct pz_rehearsal *r,
                                      const char *path, struct pz_error *err) {
  const char *inputs[4] = {x->s->results, x->name};
  size_t n = 2;
  if (x->run->chip && pz_file_named(x->run->chip)) inputs[n++] = x->run->chip;
  if (x->run->cluster && pz_file_named(x->run->cluster)) inputs[n++] = x->run->cluster;
  if (!r->chip)
    return pz_fail(err, PZ_NO_ANSWER, "%s: no rank ran to its end: nothing to write to %s",
                   x->s->results, path);
  enum pz_status status = pz_file_output(path, inputs, n, err);
  return status == PZ_OK ? pz_machine_write_chip(r->chip, path, err) : status;
}

static enum pz_status compare(struct rehearse_input *x, bool *fits, struct pz_error *err) {
  struct pz_rehearsal *r = NULL;
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_file_read(x->s->results, PZ_REHEARSAL_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_rehearsal_read(&x->side, x->s->results, text, bytes, &r, err);
  if (status == PZ_OK && x->s->out) status = write_corrected(x, r, x->s->out, err);
  if (status == PZ_OK)
    status =
        x->s->common.json ? pz_command_json(results_json(x, r), err) : print_results(x, r, err);
  if (status == PZ_OK) *fits = r->fits;
  pz_rehearsal_free(r);
  pz_free(text);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  SETTINGS s = defaults;
  struct pz_long_call call;
  struct rehearse_input x = {.s = &s};
  bool fits = true;
  if (!pz_call_begin(&call, &pz_cmd_rehearse, argc, argv, &s)) return call.code;
  if (!s.results && (s.out || s.common.json))
    return pz_command_misuse(&pz_cmd_rehearse, s.out ? "-o requires --results FILE.csv"
                                                     : "--json requires --results FILE.csv");
  struct pz_error why = {0};
  enum pz_status status = read_input(&x, argv[1], &why);
  if (status == PZ_OK) status = s.results ? compare(&x, &fits, &why) : print_script(&x, &why);
  bool input = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  bool named = strstr(why.message, x.name) || (s.results && strstr(why.message, s.results));
  if (input && !named)
    status = pz_fail(&call.err, status, "%s: %s", x.name, why.message);
  else
    call.err = why;
  pz_run_plan_free(x.run);
  pz_free(x.text);
  enum pz_exit code = pz_call_end(&call, status);
  return code == PZ_EXIT_DONE && !fits ? PZ_EXIT_NO_ANSWER : code;
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
    .run = run,
};
