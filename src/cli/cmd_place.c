/* phaze place: the fastest division of a model into pipeline stages, data-parallel replicas and
 * tensor-parallel groups, for a model on a chip or for an instance file of the original program. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

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
  struct pz_place_settings model;             /* from here on: with a MODEL only */
  struct pz_place_training_settings training; /* the last: with training semantics only */
};

enum { NOT_GIVEN = -1 }; /* a choice the user left open */

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
static const int recomputations[] = {/* by name */
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
    /* fields of a plan: those that are searched are pinned where they are given, the others are the same in every plan */
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

static json_t *stage_json(const struct pz_instance_stage *s) {
  json_t *nodes = json_array();
  for (uint32_t i = 0; i < s->n_nodes; i++) json_array_append_new(nodes, json_integer(s->nodes[i]));
  return json_pack("{s:o,s:I,s:f,s:f}", "nodes", nodes, "devicesForStage", (json_int_t)s->devices,
                   "load", s->load_s, "memory", s->memory_bytes);
}

static json_t *instance_json(const struct pz_instance_plan *a) {
  json_t *stages = json_array();
  for (uint32_t k = 0; k < a->n_stages; k++)
    json_array_append_new(stages, stage_json(&a->stages[k]));
  return json_pack("{s:o,s:I,s:I,s:f,s:o,s:s,s:f}", "stages", stages, "dataParallelDegree",
                   (json_int_t)a->dp, "tensorParallelDegree", (json_int_t)a->tp,
                   "finalTimePerBatch", a->step_s, "fixedStrategyTimePerBatch",
                   a->expert ? json_null() : json_real(a->expert_s), "fixedStrategy",
                   a->expert ? a->expert : "evaluated", "solve_seconds", a->solve_s);
}

/* "-1 .. 7" of the ids in a stage. */
static const char *span(const struct pz_instance_stage *s, char buf[64]) {
  if (s->n_nodes == 1)
    snprintf(buf, 64, "%" PRId64, s->nodes[0]);
  else
    snprintf(buf, 64, "%" PRId64 " .. %" PRId64, s->nodes[0], s->nodes[s->n_nodes - 1]);
  return buf;
}

static enum pz_status print_instance(const struct pz_instance_plan *a) {
  static const char *const heads[] = {">stage",        "layers",  ">count",    ">devices",
                                      ">s/microbatch", ">memory", ">of limit", NULL};
  struct pz_arena arena;
  struct pz_table t;
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  for (uint32_t k = 0; k < a->n_stages; k++) {
    const struct pz_instance_stage *s = &a->stages[k];
    char buf[64];
    pz_table_cell(&t, "%u", k + 1);
    pz_table_cell(&t, "%s", span(s, buf));
    pz_table_cell(&t, "%u", s->n_nodes);
    pz_table_cell(&t, "%" PRId64, s->devices);
    pz_table_cell(&t, "%.6g", s->load_s);
    pz_table_cell(&t, "%s", pz_text_si(buf, sizeof buf, s->memory_bytes, "B"));
    pz_table_cell(&t, "%.0f%%", a->hbm_bytes > 0 ? 100 * s->memory_bytes / a->hbm_bytes : 0);
  }
  printf("%.9g s per batch: %u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 "\n",
         a->step_s, a->n_stages, a->n_stages == 1 ? "" : "s", a->dp, a->dp == 1 ? "" : "s", a->tp);
  printf("slowest stage %.6g s per microbatch, gradient all-reduce %.6g s\n", a->slowest_stage_s,
         a->exchange_s);
  double times = a->step_s > 0 ? a->expert_s / a->step_s : HUGE_VAL;
  if (a->expert)
    printf("expert plan: %s\n", a->expert);
  else if (times < HUGE_VAL)
    printf("expert plan: %.9g s per batch, %.2fx as long\n", a->expert_s, times);
  else
    printf("expert plan: %.9g s per batch\n", a->expert_s); /* of no time there is no multiple */
  putchar('\n');
  enum pz_status status = pz_table_print(&t, 0, stdout);
  pz_arena_release(&arena);
  return status;
}

static enum pz_status place_instance(const struct settings *s, struct pz_error *err) {
  struct pz_instance_options o = pz_instance_options_default();
  struct pz_instance_plan *found = NULL;
  char *text = NULL;
  size_t bytes = 0;
  o.corrected = s->semantics == CORRECTED;
  o.compat = s->compat;
  o.check = s->check;
  enum pz_status status = pz_file_read(s->instance, PZ_INSTANCE_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_partition_instance(s->instance, text, bytes, &o, &found, err);
  if (status == PZ_OK)
    status = s->common.json ? pz_command_json(instance_json(found), err) : print_instance(found);
  pz_instance_plan_free(found);
  pz_text_free(text);
  return status;
}

/* What is wrong with the arguments, or NULL. */
static const char *misuse(const struct settings *s, const struct settings *none, int n_args,
                          const char *model, char buf[80]) {
  const struct pz_option *o = pz_command_changed(&pz_cmd_place, AT(model), s, none);
  if (n_args + (s->instance != NULL) != 1) return "expected either a MODEL or --instance FILE.json";
  if (s->instance && o) {
    char name[40];
    snprintf(buf, 80, "--%s requires a MODEL, it does not apply to --instance",
             pz_option_name(o, name, sizeof name));
    return buf;
  }
  if (s->instance) return NULL;
  const char *trace = s->model.trace;
  if (trace && (pz_file_same(trace, model) || pz_machine_reads(&s->model.machine, trace)))
    return "--trace would overwrite the input file";
  const char *page = s->training.report;
  if (page && (pz_file_same(page, model) || pz_machine_reads(&s->model.machine, page)))
    return "--report would overwrite the input file";
  if (s->compat) return "--expert-compat requires --instance";
  if (s->common.json && s->model.emit) return "--json and --emit cannot be combined";
  const struct pz_place_training_settings *t = &s->training;
  if (!t->compare && (t->vocab || t->set[0] || t->ignore[0]))
    return "--vocab, --set and --ignore require --compare FILE";
  return s->model.machine.chip || t->compare ? NULL : "--chip CHIP is required";
}

/* What the user left open; ONNX graphs have no training frameworks. */
static enum pz_status choose_semantics(struct settings *s, const char *model,
                                       struct pz_error *err) {
  struct pz_chip chip;
  if (s->evaluator) s->semantics = s->evaluator == PZ_EVALUATOR_TRAINING ? TRAINING : CORRECTED;
  if (s->semantics != NOT_GIVEN) return PZ_OK;
  s->semantics = s->instance ? ORIGINAL : CORRECTED;
  if (s->instance) return PZ_OK;
  enum pz_status status =
      pz_chip_read_units(s->model.machine.chip, s->model.machine.any_units, &chip, err);
  size_t n = strlen(model);
  bool onnx = n > 5 && strcmp(model + n - 5, ".onnx") == 0;
  bool paper = status == PZ_OK && !(pz_tech_at(chip.tech)->static_w_per_mm2 > 0); /* 45, 22 nm */
  if (status == PZ_OK && !onnx && (pz_chip_built(&chip) || !paper)) s->semantics = TRAINING;
  return status;
}

/* An option that was given and is not for training plans; NULL: none. */
static const struct pz_option *not_of_training(const struct settings *s,
                                               const struct settings *none) {
  static const char *const names[] = {"check",     "optimizer", "dim",
                                      "batch-dim", "layers",    "unknown-ops"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
      if (strcmp(options[i].name, names[k]) == 0 && !pz_option_same(&options[i], s, none))
        return &options[i];
  return NULL;
}

/* Options that the semantics do not have. */
static enum pz_status check_semantics(const struct settings *s, const struct settings *none,
                                      struct pz_error *err) {
  const struct pz_option *only = pz_command_changed(&pz_cmd_place, AT(training), s, none);
  char name[64];
  if (s->semantics != TRAINING && only)
    return pz_fail(err, PZ_BAD_USE,
                   "--%s with --semantics %s; accepted: with --semantics training (the default but "
                   "for chips of 22 nm)",
                   pz_option_name(only, name, sizeof name), semantics_names[s->semantics]);
  int recompute = s->model.recompute;
  if (s->semantics != TRAINING && recompute != PZ_AS_FRAMEWORK &&
      recompute != PZ_RECOMPUTATION_NONE && recompute != PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE, "--recompute %s with --semantics %s; accepted: auto, on, off",
                   pz_recomputation_names[recompute], semantics_names[s->semantics]);
  if (s->semantics == TRAINING && s->instance)
    return pz_fail(err, PZ_BAD_USE,
                   "--semantics training with --instance; accepted: original, corrected");
  const struct pz_option *other = s->semantics == TRAINING ? not_of_training(s, none) : NULL;
  if (other)
    return pz_fail(err, PZ_BAD_USE,
                   "--%s with --semantics training; accepted: with --semantics corrected, original",
                   other->name);
  return PZ_OK;
}

static enum pz_status place_model(struct settings *s, const char *model,
                                  const struct pz_run_plan *compared, enum pz_exit *code,
                                  struct pz_error *err) {
  struct pz_place_question q = {.s = &s->model,
                                .t = &s->training,
                                .model = model,
                                .compared = compared,
                                .json = s->common.json};
  const char *devices = s->model.devices_text;
  int64_t most = s->semantics == TRAINING ? 1 << 24 : 1 << 30;
  enum pz_status status = pz_choices_parse(devices, "devices", most, &q.devices, err);
  if (status != PZ_OK) return status;
  if (s->semantics == TRAINING) return pz_place_training(&q, code, err);
  if (q.devices.n > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "--devices %s with --semantics %s; accepted: one number (a list with "
                   "--semantics training)",
                   devices, semantics_names[s->semantics]);
  s->model.devices = q.devices.v[0];
  if (!s->model.batch) s->model.batch = DEFAULT_BATCH;
  return pz_place_a_model(&s->model, model, s->semantics == ORIGINAL, s->check, s->common.json,
                          err);
}

static enum pz_status place_any(struct settings *s, const struct settings *none, const char *model,
                                enum pz_exit *code, struct pz_error *err) {
  struct pz_run_plan *compared = NULL;
  enum pz_status status = PZ_OK;
  bool devices_given = s->model.devices_text != none->model.devices_text;
  if (s->training.compare)
    status = pz_place_read_compared(&s->model, &s->training, devices_given, &compared, err);
  if (status == PZ_OK) status = choose_semantics(s, model, err);
  if (status == PZ_OK) status = check_semantics(s, none, err);
#ifndef NDEBUG
  s->check = true;
#endif
  if (status == PZ_OK)
    status = s->instance ? place_instance(s, err) : place_model(s, model, compared, code, err);
  pz_run_plan_free(compared);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  const struct settings none = defaults;
  struct settings s = none;
  struct pz_error err = {0};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_place, argc, argv, &s, &n_args, &code)) return code;
  char buf[80];
  const char *wrong = misuse(&s, &none, n_args, argv[1], buf);
  if (wrong) return pz_command_misuse(&pz_cmd_place, wrong);
  s.model.quiet = s.common.quiet;
  s.model.recompute = recomputations[s.model.recompute];
  enum pz_exit answer = PZ_EXIT_DONE;
  enum pz_status status = place_any(&s, &none, argv[1], &answer, &err);
  if (status != PZ_OK) return pz_command_fail(&err);
  code = pz_command_end();
  return code == PZ_EXIT_DONE ? answer : code;
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
    .run = run,
};
