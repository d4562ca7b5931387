/* phaze tune: a run that people have, what it takes, and what would make it faster. */
#include <string.h>

#include "cli/tune_options.h"

#define SETTINGS struct pz_tune_settings
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

/* ---- the run -------------------------------------------------------------------------------- */

static enum pz_status read_run(struct pz_tuned *x, const char *path, struct pz_error *err) {
  const SETTINGS *s = x->s;
  struct pz_run_plan_options o = pz_run_plan_options_default();
  o.vocab = s->vocab;
  o.devices = s->devices;
  o.set = s->set;
  o.ignore = s->ignore;
  return pz_machine_run(path, &o, &x->name, &x->run, err);
}

/* What is wrong with the run is said of its file. */
static enum pz_status tune(struct pz_tuned *x, struct pz_error *err) {
  struct pz_tune_options o = pz_tune_options_default();
  struct pz_error why = {0};
  o.threads = (unsigned)x->s->threads;
  o.measured_s = x->measured_s;
  o.seconds = x->s->seconds;
  o.progress = pz_command_progress;
  struct pz_progress progress;
  o.ctx = &progress;
  pz_command_progress_start(&progress, x->s->common.quiet, false);
  enum pz_status status =
      pz_plan_tune(x->run, &x->machine.chip, pz_machine_net(&x->machine), &o, &x->t, &why);
  bool input = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  if (input && !strstr(why.message, x->name))
    return pz_fail(err, status, "%s: %s", x->name, why.message);
  if (status != PZ_OK) *err = why;
  return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

void pz_tune_warn(bool quiet, const struct pz_run_plan *r) {
  char text[400] = "";
  size_t n = 0;
  for (uint32_t i = 0; i < r->n_notes; i++) pz_command_warn(quiet, r->notes[i]);
  for (uint32_t i = 0; i < r->n_ignored && n < 300; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s", i ? ", " : "",
                          strchr(r->ignored[i], '.') ? "" : "--", r->ignored[i]);
  if (!n) return;
  char line[480];
  snprintf(line, sizeof line, "not understood, and not counted: %s%s", text,
           n >= 300 ? " ..." : "");
  pz_command_warn(quiet, line);
}

static enum pz_status tell(const struct pz_tuned *x, struct pz_error *err) {
  return x->s->common.json ? pz_command_json(pz_tune_json(x), err) : pz_tune_print(x, err);
}

/* The run does not fit, and nothing else does. */
static enum pz_status check_answer(const struct pz_tuned *x, struct pz_error *err) {
  const struct pz_plan_tuning *t = x->t;
  if (t->fits || t->has_best || t->n_changes) return PZ_OK;
  return pz_fail(err, PZ_NO_ANSWER,
                 "the run does not fit in memory, and no plan on its %lld devices does: %.1f GB "
                 "needed, %.1f GB usable",
                 (long long)t->own.plan.devices, t->least_bytes / 1e9, t->limit_bytes / 1e9);
}

static enum pz_status tune_file(const SETTINGS *s, const char *path, struct pz_error *err) {
  struct pz_tuned x = {.s = s};
  enum pz_status status = read_run(&x, path, err);
  if (status == PZ_OK) x.measured_s = s->measured_s > 0 ? s->measured_s : x.run->measured_s;
  if (status == PZ_OK) pz_tune_warn(s->common.quiet, x.run);
  if (status == PZ_OK)
    status = pz_machine_of_run(&s->machine, x.name, s->common.quiet, x.run, &x.machine, err);
  if (status == PZ_OK) status = tune(&x, err);
  if (status == PZ_OK && x.t->own.refusal[0]) pz_command_warn(s->common.quiet, x.t->own.refusal);
  if (status == PZ_OK) status = tell(&x, err);
  if (status == PZ_OK) status = check_answer(&x, err);
  pz_plan_tuning_free(x.t);
  pz_run_plan_free(x.run);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  SETTINGS s = defaults;
  struct pz_long_call call;
  if (!pz_call_begin(&call, &pz_cmd_tune, argc, argv, &s)) return call.code;
  const atomic_bool *stop = pz_command_listen();
  enum pz_exit code = pz_call_end(&call, tune_file(&s, argv[1], &call.err));
  return code == PZ_EXIT_DONE && atomic_load(stop) ? PZ_EXIT_STOPPED : code;
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
    .run = run,
};
