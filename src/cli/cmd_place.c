/* phaze place: the fastest division of a model into pipeline stages, data-parallel replicas and tensor-parallel groups, for a
 * model on a chip, or for an instance file of the original program.
 *
 * place() checks the arguments, choose_semantics() decides which model of a step answers, and then place_instance(),
 * pz_place_training() (place_training.c) or pz_place_partition() (place_model.c) searches and prints. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/owned.h"
#include "cli/place_training.h"
#include "core/file.h"
#include "core/options.h"
#include "core/text.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  const char *instance;
  int semantics, evaluator;
  bool compat, check;
  struct pz_place_settings model;             /* this field and the next: with a MODEL only */
  struct pz_place_training_settings training; /* with training semantics only */
};

enum { NOT_GIVEN = -1 }; /* a choice that the user left open */

static const struct settings defaults = {.semantics = NOT_GIVEN,
                                         .model = {.devices_text = "1024"},
                                         .training = {.plan =
                                                          {
                                                              .size = sizeof(struct pz_plan),
#include "cli/plan_unset.def"
                                                          },
                                                      .top = 1,
                                                      .seconds = PZ_PLAN_SECONDS}};
enum { ORIGINAL, CORRECTED, TRAINING, DEFAULT_BATCH = 4096 };
static const char *const semantics_names[] = {"original", "corrected", "training", NULL};
static const char *const recompute_names[] = {"auto", "on",   "off",  "selective", "alternate",
                                              "half", "full", "none", NULL};
static const int recomputations[] = {/* in the order of recompute_names */
                                     PZ_AS_FRAMEWORK,
                                     PZ_RECOMPUTATION_FULL,
                                     PZ_RECOMPUTATION_NONE,
                                     PZ_RECOMPUTATION_SELECTIVE,
                                     PZ_RECOMPUTATION_ALTERNATE,
                                     PZ_RECOMPUTATION_HALF,
                                     PZ_RECOMPUTATION_FULL,
                                     PZ_RECOMPUTATION_NONE};
static const char *const optimizer_names[] = {"adam", "sgd", NULL};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "instance", .type = PZ_OPTION_TEXT, .offset = AT(instance), .arg = "FILE.json",
     .help = "Read a placement problem instead of a MODEL (format above)"},
    {.name = "evaluator", .type = PZ_OPTION_CHOICE, .offset = AT(evaluator), .choices = pz_evaluator_names,
     .help = "The same in the words of 'phaze search': training, or original, which is corrected"},
    {.name = "semantics", .type = PZ_OPTION_CHOICE, .offset = AT(semantics), .choices = semantics_names,
     .help = "What a step is: training: as frameworks run it, the model of 'phaze predict' (default but for ONNX files and chips of 45 and 22 nm that are only described); corrected: layers scheduled on the chip's cores, as the evaluator original of 'phaze search' sees them; original: the same, and the gradient all-reduce counts the parameters of the first stage instead of the largest (default with --instance)"},
    {.name = "expert-compat", .type = PZ_OPTION_FLAG, .offset = AT(compat),
     .help = "With --instance: split the layers of the expert plan as the original program does, off by one layer"},
    {.name = "check", .type = PZ_OPTION_FLAG, .offset = AT(check),
     .help = "Check the plan with an independent checker"},
    PZ_MACHINE_OPTIONS(struct settings, model.machine),
    PZ_UNITS_OPTION(AT(model.machine.any_units)),
    {.name = "devices", .type = PZ_OPTION_TEXT, .offset = AT(model.devices_text), .arg = "N",
     .help = "Number of devices (chips); with training semantics also a comma-separated list: how the best plan scales (default: 1024)"},
    {.name = "batch", .type = PZ_OPTION_INT, .offset = AT(model.batch), .arg = "B", .min = 1, .max = 1 << 30,
     .help = "Global batch size, samples (default: 4096)"},
    {.name = "mbs", .type = PZ_OPTION_TEXT, .offset = AT(model.mbs), .arg = "LIST",
     .help = "Microbatch sizes to try (samples), comma-separated, or auto (default: auto, which is 1,2,4,8; training: one number, or auto: all)"},
    {.name = "tp", .type = PZ_OPTION_TEXT, .offset = AT(model.tp), .arg = "LIST",
     .help = "Tensor-parallel degrees to try, comma-separated, or auto (default: auto, the powers of two up to 64 that the model allows; training: one number, or auto: all within a node)"},
    {.name = "seq", .type = PZ_OPTION_INT, .offset = AT(model.seq), .arg = "S", .min = 1, .max = 1 << 24,
     .help = "Sequence length, tokens per sample (default: the model's, at most 8192)"},
    {.name = "recompute", .type = PZ_OPTION_CHOICE, .offset = AT(model.recompute), .choices = recompute_names,
     .help = "Recompute activations (checkpointing); auto: whichever is faster, with training semantics by stage as few layers as memory asks for; full is on, none is off; training: selective, alternate and half as for 'phaze predict'"},
    {.name = "optimizer", .type = PZ_OPTION_CHOICE, .offset = AT(model.optimizer), .choices = optimizer_names,
     .help = "Optimizer. Weights, gradients and optimizer state take 3 times (adam) or 2 times (sgd) the bytes of the weights"},
    {.name = "hbm", .type = PZ_OPTION_REAL, .offset = AT(model.hbm_gb), .arg = "GIB", .min = 0.001, .max = 1e9,
     .help = "Memory per device, GiB (default: the chip's HBM)"},
    {.name = "emit", .type = PZ_OPTION_CHOICE, .offset = AT(model.emit), .choices = pz_launch_names,
     .help = "Training: print a complete launch script of the plan for this framework; implies --framework"},
    {.name = "trace", .type = PZ_OPTION_TEXT, .offset = AT(model.trace), .arg = "FILE.json",
     .help = "Write the pipeline as a timeline for ui.perfetto.dev"},
    PZ_IMPORT_OPTIONS(struct settings, model.import),
    {.name = "batch-per-device", .type = PZ_OPTION_INT, .offset = AT(training.batch_per_device), .arg = "B", .min = 1, .max = 1 << 24,
     .help = "Training: samples for each device instead of --batch (weak scaling)"},
    /* Fields of a plan.  A given field that is otherwise searched is fixed; the others are the same in all plans. */
#define PLAN_OF(field) AT(training.plan.field)
#define OWN .hidden = true,
#define SEARCH(x) .standard = "searched",
#define FOLLOW(x) .standard = "what the framework has for each plan",
#include "cli/plan_options.def"
    {.name = "top", .type = PZ_OPTION_INT, .offset = AT(training.top), .arg = "K", .min = 1, .max = 1000,
     .help = "Training: show the K best plans, and what makes the others slower"},
    {.name = "objective", .type = PZ_OPTION_CHOICE, .offset = AT(training.objective), .choices = pz_plan_objective_names,
     .help = "Training: the shortest step, the least memory, or the fewest device-seconds per step"},
    {.name = "risk", .type = PZ_OPTION_CHOICE, .offset = AT(training.risk), .choices = pz_plan_risk_names,
     .help = "Training: what a step counts as: the prediction times 1 + the error to be expected of such a plan (counted), or the prediction alone (none)"},
    {.name = "without", .type = PZ_OPTION_SET, .offset = AT(training.without), .choices = pz_software_names, .arg = "LIST",
     .help = "Training: software that is not to be used: a list of te (Transformer Engine: overlap of tensor-parallel communication, CUDA graphs), deepep, hybridep, cuda-graphs"},
    {.name = "all-devices", .type = PZ_OPTION_FLAG, .offset = AT(training.all_devices), .help = "Training: only plans that use all devices"},
    {.name = "tokens", .type = PZ_OPTION_TEXT, .offset = AT(training.tokens), .arg = "N", .help = "Training: show what a run over so many tokens costs: 300B, 15T"},
    {.name = "price", .type = PZ_OPTION_REAL, .offset = AT(training.price), .arg = "P", .min = 0, .max = 1e9, .help = "With --tokens: dollars per device-hour"},
    {.name = "deadline", .type = PZ_OPTION_TEXT, .offset = AT(training.deadline), .arg = "TIME",
     .help = "With --tokens: only plans with which the run ends within this time, days or hours: 30d, 36h; if there is none, the fastest plan is shown and the exit status is 1"},
    {.name = "report", .type = PZ_OPTION_TEXT, .offset = AT(training.report), .arg = "PAGE.html",
     .help = "Training: write the plan as one self-contained HTML page: pipeline and memory over time, and how it scales over a list of --devices"},
    {.name = "compare", .type = PZ_OPTION_TEXT, .offset = AT(training.compare), .arg = "FILE",
     .help = "Training: show your own plan beside the recommended one: a launch script or a plan as 'phaze tune' reads it. Chip, devices, batch, sequence length, framework and precision are as it has them where they are not given"},
    {.name = "vocab", .type = PZ_OPTION_INT, .offset = AT(training.vocab), .arg = "V", .min = 1, .max = 1 << 26, .help = "With --compare: size of the vocabulary, before padding, where FILE names a tokenizer alone"},
    {.name = "set", .type = PZ_OPTION_TEXTS, .offset = AT(training.set), .arg = "NAME=VALUE", .max = PZ_TUNE_MOST_SETS, .help = "With --compare: value of a variable of a script; may be given several times"},
    {.name = "ignore", .type = PZ_OPTION_TEXTS, .offset = AT(training.ignore), .arg = "NAME", .max = PZ_TUNE_MOST_SETS, .help = "With --compare: leave out an option of FILE that is not covered; may be given several times"},
    {.name = "seconds", .type = PZ_OPTION_REAL, .offset = AT(training.seconds), .arg = "S", .min = 0, .max = 1e9,
     .help = "Training: end a search after so many seconds, with the best plan so far and its gap (default: 300; 0: never)"},
};
/* clang-format on */

/* ---- an instance file ----------------------------------------------------------------------- */

static json_t *instance_json(const struct pz_instance_plan *p) {
  json_t *stages = json_array();
  for (uint32_t k = 0; k < p->n_stages; k++) {
    const struct pz_instance_stage *s = &p->stages[k];
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < s->n_nodes; i++)
      json_array_append_new(nodes, json_integer(s->nodes[i]));
    json_array_append_new(stages, json_pack("{s:o,s:I,s:f,s:f}", "nodes", nodes, "devicesForStage",
                                            (json_int_t)s->devices, "load", s->load_s, "memory",
                                            s->memory_bytes));
  }
  return json_pack("{s:o,s:I,s:I,s:f,s:o,s:s,s:f}", "stages", stages, "dataParallelDegree",
                   (json_int_t)p->dp, "tensorParallelDegree", (json_int_t)p->tp,
                   "finalTimePerBatch", p->step_s, "fixedStrategyTimePerBatch",
                   p->expert ? json_null() : json_real(p->expert_s), "fixedStrategy",
                   p->expert ? p->expert : "evaluated", "solve_seconds", p->solve_s);
}

static void print_instance(struct pz_call *call, const struct pz_instance_plan *p) {
  static const char *const heads[] = {">stage",        "layers",  ">count",    ">devices",
                                      ">s/microbatch", ">memory", ">of limit", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t k = 0; k < p->n_stages; k++) {
    const struct pz_instance_stage *s = &p->stages[k];
    char text[64];
    pz_table_cell(t, "%u", k + 1);
    if (s->n_nodes == 1)
      pz_table_cell(t, "%" PRId64, s->nodes[0]);
    else
      pz_table_cell(t, "%" PRId64 " .. %" PRId64, s->nodes[0], s->nodes[s->n_nodes - 1]);
    pz_table_cell(t, "%u", s->n_nodes);
    pz_table_cell(t, "%" PRId64, s->devices);
    pz_table_cell(t, "%.6g", s->load_s);
    pz_table_cell(t, "%s", pz_text_si(text, sizeof text, s->memory_bytes, "B"));
    pz_table_cell(t, "%.0f%%", p->hbm_bytes > 0 ? 100 * s->memory_bytes / p->hbm_bytes : 0);
  }
  printf("%.9g s per batch: %u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 "\n",
         p->step_s, p->n_stages, p->n_stages == 1 ? "" : "s", p->dp, p->dp == 1 ? "" : "s", p->tp);
  printf("slowest stage %.6g s per microbatch, gradient all-reduce %.6g s\n", p->slowest_stage_s,
         p->exchange_s);
  double ratio = p->step_s > 0 ? p->expert_s / p->step_s : HUGE_VAL;
  if (p->expert)
    printf("expert plan: %s\n", p->expert);
  else if (ratio < HUGE_VAL)
    printf("expert plan: %.9g s per batch, %.2fx as long\n", p->expert_s, ratio);
  else
    printf("expert plan: %.9g s per batch\n", p->expert_s);
  putchar('\n');
  pz_table_print(t, 0, stdout);
}

static void place_instance(struct pz_call *call, const struct settings *s) {
  struct pz_instance_options o = pz_instance_options_default();
  struct pz_instance_plan *found = NULL;
  size_t bytes = 0;
  o.corrected = s->semantics == CORRECTED;
  o.compat = s->compat;
  o.check = s->check;
  const char *text = pz_file_text(call, s->instance, PZ_INSTANCE_MOST_BYTES, &bytes);
  pz_must(call, pz_partition_instance(s->instance, text, bytes, &o, &found, pz_call_error(call)));
  pz_defer(call, pz_free_instance_plan, found);
  if (s->common.json)
    pz_command_print_json(call, instance_json(found));
  else
    print_instance(call, found);
}

/* ---- the semantics -------------------------------------------------------------------------- */

/* Chooses the semantics that the user left open: original for an instance file, training for a model on a chip that is
 * built or of a modern technology, and corrected otherwise.  ONNX graphs have no training framework. */
static void choose_semantics(struct pz_call *call, struct settings *s, const char *model) {
  struct pz_chip chip;
  if (s->evaluator) s->semantics = s->evaluator == PZ_EVALUATOR_TRAINING ? TRAINING : CORRECTED;
  if (s->semantics != NOT_GIVEN) return;
  s->semantics = ORIGINAL;
  if (s->instance) return;
  pz_chip_read_units(call, s->model.machine.chip, s->model.machine.any_units, &chip);
  size_t n = strlen(model);
  bool onnx = n > 5 && strcmp(model + n - 5, ".onnx") == 0;
  /* The technologies of the original system, 45 and 22 nm, have no static power. */
  bool original_technology = !(pz_tech_at(chip.tech)->static_w_per_mm2 > 0);
  bool training = !onnx && (pz_chip_built(&chip) || !original_technology);
  s->semantics = training ? TRAINING : CORRECTED;
}

/* Raises PZ_BAD_USE for options that the chosen semantics do not have. */
static void check_semantics(struct pz_call *call, const struct settings *s,
                            const struct settings *none) {
  static const char *const not_training[] = {"check",     "optimizer", "dim",
                                             "batch-dim", "layers",    "unknown-ops"};
  const char *semantics = semantics_names[s->semantics];
  if (s->semantics == TRAINING) {
    if (s->instance)
      pz_raise(call, PZ_BAD_USE,
               "--semantics training with --instance; accepted: original, corrected");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
      for (size_t k = 0; k < sizeof not_training / sizeof *not_training; k++)
        if (strcmp(options[i].name, not_training[k]) == 0 && !pz_option_same(&options[i], s, none))
          pz_raise(call, PZ_BAD_USE,
                   "--%s with --semantics training; accepted: with --semantics corrected, original",
                   options[i].name);
    return;
  }
  const struct pz_option *only = pz_command_changed(&pz_cmd_place, AT(training), s, none);
  char name[64];
  if (only)
    pz_raise(call, PZ_BAD_USE,
             "--%s with --semantics %s; accepted: with --semantics training (the default but "
             "for chips of 22 nm)",
             pz_option_name(only, name, sizeof name), semantics);
  int recompute = s->model.recompute;
  if (recompute != PZ_AS_FRAMEWORK && recompute != PZ_RECOMPUTATION_NONE &&
      recompute != PZ_RECOMPUTATION_FULL)
    pz_raise(call, PZ_BAD_USE, "--recompute %s with --semantics %s; accepted: auto, on, off",
             pz_recomputation_names[recompute], semantics);
}

/* Searches with the chosen semantics, prints the answer, and returns the exit status. */
static enum pz_exit place_model(struct pz_call *call, struct settings *s, const char *model,
                                const struct pz_run_plan *compared) {
  struct pz_place_job job = {.s = &s->model,
                             .training = &s->training,
                             .model = model,
                             .compared = compared,
                             .json = s->common.json};
  const char *devices = s->model.devices_text;
  int64_t most = s->semantics == TRAINING ? 1 << 24 : 1 << 30;
  job.devices = pz_choices_read(call, devices, "devices", most);
  if (s->semantics == TRAINING) return pz_place_training(call, &job);
  if (job.devices.n > 1)
    pz_raise(call, PZ_BAD_USE,
             "--devices %s with --semantics %s; accepted: one number (a list with "
             "--semantics training)",
             devices, semantics_names[s->semantics]);
  s->model.devices = job.devices.v[0];
  if (!s->model.batch) s->model.batch = DEFAULT_BATCH;
  pz_place_partition(call, &s->model, model, s->semantics == ORIGINAL, s->check, s->common.json);
  return PZ_EXIT_DONE;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns what is wrong with the arguments, or NULL. */
static const char *find_misuse(struct pz_call *call, const struct settings *s,
                               const struct settings *none, int n_args, const char *model) {
  const struct pz_machine_options *machine = &s->model.machine;
  const struct pz_place_training_settings *t = &s->training;
  if (n_args + (s->instance != NULL) != 1) return "expected either a MODEL or --instance FILE.json";
  if (s->instance) {
    const struct pz_option *o = pz_command_changed(&pz_cmd_place, AT(model), s, none);
    char name[40];
    if (!o) return NULL;
    return pz_format(call, "--%s requires a MODEL, it does not apply to --instance",
                     pz_option_name(o, name, sizeof name));
  }
  if (pz_machine_overwrites(machine, model, s->model.trace))
    return "--trace would overwrite the input file";
  if (pz_machine_overwrites(machine, model, t->report))
    return "--report would overwrite the input file";
  if (s->compat) return "--expert-compat requires --instance";
  if (s->common.json && s->model.emit) return "--json and --emit cannot be combined";
  if (!t->compare && (t->vocab || t->set[0] || t->ignore[0]))
    return "--vocab, --set and --ignore require --compare FILE";
  return machine->chip || t->compare ? NULL : "--chip CHIP is required";
}

static void place(struct pz_call *call, struct pz_invocation *in) {
  const struct settings none = defaults;
  struct settings s = none;
  if (!pz_command_options(call, in, &s)) return;
  const char *model = in->args[0];
  const char *misuse = find_misuse(call, &s, &none, in->n_args, model);
  if (misuse) pz_command_refuse(call, in, misuse);
  s.model.quiet = s.common.quiet;
  s.model.recompute = recomputations[s.model.recompute];
  const struct pz_run_plan *compared = NULL;
  bool devices_given = s.model.devices_text != none.model.devices_text;
  if (s.training.compare)
    compared = pz_place_read_compared(call, &s.model, &s.training, devices_given);
  choose_semantics(call, &s, model);
  check_semantics(call, &s, &none);
#ifndef NDEBUG
  s.check = true;
#endif
  if (s.instance)
    place_instance(call, &s);
  else
    in->exit = place_model(call, &s, model, compared);
}

const struct pz_command pz_cmd_place = {
    .name = "place",
    .synopsis = "(MODEL --chip CHIP | --instance FILE.json) [options]",
    .summary = "Find the fastest parallel plan to train a model on a cluster of a chip",
    .detail =
        "With a MODEL: the plan with the shortest step within memory. On chips that are built\n"
        "(--semantics training): tensor, sequence, context and expert parallelism,\n"
        "pipeline stages and their chunks, replicas, microbatch size, ZeRO stage and\n"
        "recomputation by stage, as training frameworks run them; the answer is proved by\n"
        "a count of the plans that were simulated or excluded. On chips of 22 nm: stages\n"
        "and their layers, replicas, tensor-parallel degree, microbatch size and\n"
        "recomputation.\n"
        "With --instance: a placement problem in the format of the original Phaze\n"
        "program,\n"
        "  {maxMemoryPerDevice, maxDevices, bandwidth, mbsInBatch,\n"
        "   activationRecomputation, optimizerAlgorithm,\n"
        "   nodes: {DEGREE: [{id, parameterSize, activationSize, optimalLatencyFw,\n"
        "                     optimalLatencyBw, isTensorParallelized}]},\n"
        "   edges: {DEGREE: [{sourceId, destId, communicationCost}]}}\n"
        "where DEGREE is a tensor-parallel degree; with fixedPP, fixedTMPC, fixedDP and\n"
        "numTransformerLayers it also has an expert plan to compare with.\n"
        "\n"
        "Examples:\n"
        "  phaze place llama3-70b --chip h100 --cluster dgx-h100 --devices 1024 --batch 2048\n"
        "  phaze place llama3-8b --chip h100 --cluster dgx-h100 --devices 8,16,32,64\n"
        "      --batch-per-device 16\n"
        "  phaze place llama3-8b --chip h100 --cluster dgx-h100 --devices 1024 --batch 1024\n"
        "      --tokens 15T --price 2.5 --deadline 30d --objective cost\n"
        "  phaze place llama3-70b --chip h200 --cluster dgx-h200 --devices 256 --batch 512\n"
        "      --emit megatron > launch.sh\n"
        "  phaze place gpt3-175b --chip tpuv4 --mbs 1,2 --tp 1,2,4,8 --recompute on\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .body = place,
};
