/* phaze tune: reads the training run of a user, predicts it, and searches for what would make it faster.
 *
 * tune() reads the run, opens its machine, calls tune_run() for the prediction, the best plan and the single changes, and
 * prints them (tune_print.c). */
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

static void free_tuning(void *tuning) { pz_plan_tuning_free(tuning); }

/* Fills x->t.  The message of every error about the run contains the name of its file. */
static void tune_run(struct pz_call *call, struct pz_tuned *x) {
  struct pz_tune_options o = pz_tune_options_default();
  struct pz_progress progress;
  struct pz_error why = {0};
  struct pz_plan_tuning *tuning = NULL;
  o.threads = (unsigned)x->s->threads;
  o.measured_s = x->measured_s;
  o.seconds = x->s->seconds;
  o.progress = pz_command_progress;
  o.ctx = &progress;
  pz_command_progress_start(&progress, x->s->common.quiet, false);
  enum pz_status status =
      pz_plan_tune(x->run, &x->machine->chip, pz_machine_net(x->machine), &o, &tuning, &why);
  bool about_input = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  if (about_input && !strstr(why.message, x->name))
    pz_raise(call, status, "%s: %s", x->name, why.message);
  if (status != PZ_OK) pz_raise_again(call, &why);
  pz_defer(call, free_tuning, tuning);
  x->t = tuning;
}

static void tune(struct pz_call *call, struct pz_invocation *in) {
  SETTINGS s = defaults;
  struct pz_tuned x = {.s = &s};
  if (!pz_command_options(call, in, &s)) return;
  const atomic_bool *stop = pz_command_listen();
  struct pz_run_plan_options o = pz_run_plan_options_default();
  o.vocab = s.vocab;
  o.devices = s.devices;
  o.set = s.set;
  o.ignore = s.ignore;
  x.run = pz_machine_read_run(call, in->args[0], &o, &x.name);
  x.measured_s = s.measured_s > 0 ? s.measured_s : x.run->measured_s;
  pz_tune_warn(s.common.quiet, x.run);
  x.machine = pz_machine_of(call, &s.machine, x.name, s.common.quiet, x.run);
  tune_run(call, &x);
  const struct pz_plan_tuning *t = x.t;
  if (t->own.refusal[0]) pz_command_warn(s.common.quiet, t->own.refusal);
  if (s.common.json)
    pz_tune_print_json(call, &x);
  else
    pz_tune_print(call, &x);
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
