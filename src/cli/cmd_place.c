/* phaze place: the fastest division of a model into pipeline stages, data-parallel replicas and
 * tensor-parallel groups, for a model on a chip, or for an instance file of the original program.
 *
 * place() checks the arguments, choose_semantics() decides which model of a step answers, and
 * then place_instance(), pz_place_training() (place_training.c) or pz_place_partition()
 * (place_model.c) searches and prints. */
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
  struct pz_place_settings model;             /* the options from here on require a MODEL */
  struct pz_place_training_settings training; /* these require training semantics */
};

enum { NOT_GIVEN = -1 }; /* value of a choice that was not given */

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
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_TEXT_OPTION("instance", AT(instance), "FILE.json", "Read a placement problem instead of a MODEL (format above)"),
    PZ_CHOICE_OPTION("evaluator", AT(evaluator), pz_evaluator_names, "The same in the words of 'phaze search': training, or original, which is corrected"),
    PZ_CHOICE_OPTION("semantics", AT(semantics), semantics_names, "What a step is: training: as frameworks run it, the model of 'phaze predict' (default but for ONNX files and chips of 45 and 22 nm that are only described); corrected: layers scheduled on the chip's cores, as the evaluator original of 'phaze search' sees them; original: the same, and the gradient all-reduce counts the parameters of the first stage instead of the largest (default with --instance)"),
    PZ_FLAG_OPTION("expert-compat", AT(compat), "With --instance: split the layers of the expert plan as the original program does, off by one layer"),
    PZ_FLAG_OPTION("check", AT(check), "Check the plan with an independent checker"),
    PZ_MACHINE_OPTIONS(struct settings, model.machine),
    PZ_UNITS_OPTION(AT(model.machine.any_units)),
    PZ_TEXT_OPTION("devices", AT(model.devices_text), "N", "Number of devices (chips); with training semantics also a comma-separated list: how the best plan scales (default: 1024)"),
    PZ_INT_OPTION("batch", AT(model.batch), "B", 1, 1 << 30, "Global batch size, samples (default: 4096)"),
    PZ_TEXT_OPTION("mbs", AT(model.mbs), "LIST", "Microbatch sizes to try (samples), comma-separated, or auto (default: auto, which is 1,2,4,8; training: one number, or auto: all)"),
    PZ_TEXT_OPTION("tp", AT(model.tp), "LIST", "Tensor-parallel degrees to try, comma-separated, or auto (default: auto, the powers of two up to 64 that the model allows; training: one number, or auto: all within a node)"),
    PZ_INT_OPTION("seq", AT(model.seq), "S", 1, 1 << 24, "Sequence length, tokens per sample (default: the model's, at most 8192)"),
    PZ_CHOICE_OPTION("recompute", AT(model.recompute), recompute_names, "Recompute activations (checkpointing); auto: whichever is faster, with training semantics by stage as few layers as memory asks for; full is on, none is off; training: selective, alternate and half as for 'phaze predict'"),
    PZ_CHOICE_OPTION("optimizer", AT(model.optimizer), optimizer_names, "Optimizer. Weights, gradients and optimizer state take 3 times (adam) or 2 times (sgd) the bytes of the weights"),
    PZ_REAL_OPTION("hbm", AT(model.hbm_gb), "GIB", 0.001, 1e9, "Memory per device, GiB (default: the chip's HBM)"),
    PZ_CHOICE_OPTION("emit", AT(model.emit), pz_launch_names, "Training: print a complete launch script of the plan for this framework; implies --framework"),
    PZ_TEXT_OPTION("trace", AT(model.trace), "FILE.json", "Write the pipeline as a timeline for ui.perfetto.dev"),
    PZ_IMPORT_OPTIONS(struct settings, model.import),
    PZ_INT_OPTION("batch-per-device", AT(training.batch_per_device), "B", 1, 1 << 24, "Training: samples for each device instead of --batch (weak scaling)"),
    /* Fields of a plan.  A given field that is otherwise searched is fixed; the others are the
     * same in all plans. */
#define PLAN_OF(field) AT(training.plan.field)
#define OWN .hidden = true,
#define SEARCH(x) .default_text = "searched",
#define FOLLOW(x) .default_text = "what the framework has for each plan",
#include "cli/plan_options.def"
    PZ_INT_OPTION("top", AT(training.top), "K", 1, 1000, "Training: show the K best plans, and what makes the others slower"),
    PZ_CHOICE_OPTION("objective", AT(training.objective), pz_plan_objective_names, "Training: the shortest step, the least memory, or the fewest device-seconds per step"),
    PZ_CHOICE_OPTION("risk", AT(training.risk), pz_plan_risk_names, "Training: what a step counts as: the prediction times 1 + the error to be expected of such a plan (counted), or the prediction alone (none)"),
    PZ_SET_OPTION("without", AT(training.without), pz_software_names, "Training: software that is not to be used: a list of te (Transformer Engine: overlap of tensor-parallel communication, CUDA graphs), deepep, hybridep, cuda-graphs", .arg = "LIST"),
    PZ_FLAG_OPTION("all-devices", AT(training.all_devices), "Training: only plans that use all devices"),
    PZ_TEXT_OPTION("tokens", AT(training.tokens), "N", "Training: show what a run over so many tokens costs: 300B, 15T"),
    PZ_REAL_OPTION("price", AT(training.price), "P", 0, 1e9, "With --tokens: dollars per device-hour"),
    PZ_TEXT_OPTION("deadline", AT(training.deadline), "TIME", "With --tokens: only plans with which the run ends within this time, days or hours: 30d, 36h; if there is none, the fastest plan is shown and the exit status is 1"),
    PZ_TEXT_OPTION("report", AT(training.report), "PAGE.html", "Training: write the plan as one self-contained HTML page: pipeline and memory over time, and how it scales over a list of --devices"),
    PZ_TEXT_OPTION("compare", AT(training.compare), "FILE", "Training: show your own plan beside the recommended one: a launch script or a plan as 'phaze tune' reads it. Chip, devices, batch, sequence length, framework and precision are as it has them where they are not given"),
    PZ_INT_OPTION("vocab", AT(training.vocab), "V", 1, 1 << 26, "With --compare: size of the vocabulary, before padding, where FILE names a tokenizer alone"),
    PZ_TEXTS_OPTION("set", AT(training.set), "NAME=VALUE", PZ_MOST_SETS, "With --compare: value of a variable of a script; may be given several times"),
    PZ_TEXTS_OPTION("ignore", AT(training.ignore), "NAME", PZ_MOST_SETS, "With --compare: leave out an option of FILE that is not covered; may be given several times"),
    PZ_REAL_OPTION("seconds", AT(training.seconds), "S", 0, 1e9, "Training: end a search after so many seconds, with the best plan so far and its gap (default: 300; 0: never)"),
};
/* clang-format on */

/* ---- an instance file ----------------------------------------------------------------------- */

/* Returns a placement in the JSON keys of the original program. */
static json_t *instance_json(const struct pz_instance_plan *plan) {
  json_t *stages = json_array();
  for (uint32_t k = 0; k < plan->n_stages; k++) {
    const struct pz_instance_stage *stage = &plan->stages[k];
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < stage->n_nodes; i++)
      json_array_append_new(nodes, json_integer(stage->nodes[i]));
    json_array_append_new(stages, json_pack("{s:o,s:I,s:f,s:f}", "nodes", nodes, "devicesForStage",
                                            (json_int_t)stage->devices, "load", stage->load_s,
                                            "memory", stage->memory_bytes));
  }
  return json_pack("{s:o,s:I,s:I,s:f,s:o,s:s,s:f}", "stages", stages, "dataParallelDegree",
                   (json_int_t)plan->dp, "tensorParallelDegree", (json_int_t)plan->tp,
                   "finalTimePerBatch", plan->step_s, "fixedStrategyTimePerBatch",
                   plan->expert ? json_null() : json_real(plan->expert_s), "fixedStrategy",
                   plan->expert ? plan->expert : "evaluated", "solve_seconds", plan->solve_s);
}

/* Prints the placement of an instance file, its step time beside the expert plan, and its stages. */
static void print_instance(struct pz_call *call, const struct pz_instance_plan *plan) {
  struct pz_table *table =
      pz_table_new(call, ">stage|layers|>count|>devices|>s/microbatch|>memory|>of limit");
  for (uint32_t k = 0; k < plan->n_stages; k++) {
    const struct pz_instance_stage *stage = &plan->stages[k];
    int64_t first = stage->nodes[0], last = stage->nodes[stage->n_nodes - 1];
    char bytes[64], layers[64];
    snprintf(layers, sizeof layers, stage->n_nodes == 1 ? "%" PRId64 : "%" PRId64 " .. %" PRId64,
             first, last);
    pz_table_cells(table, "%u|%s|%u|%" PRId64 "|%.6g|%s|%.0f%%", k + 1, layers, stage->n_nodes,
                   stage->devices, stage->load_s,
                   pz_text_si(bytes, sizeof bytes, stage->memory_bytes, "B"),
                   plan->hbm_bytes > 0 ? 100 * stage->memory_bytes / plan->hbm_bytes : 0);
  }
  printf("%.9g s per batch: %u stage%s, %" PRId64 " replica%s, tensor parallel %" PRId64 "\n",
         plan->step_s, plan->n_stages, pz_text_s(plan->n_stages), plan->dp,
         pz_text_s((double)plan->dp), plan->tp);
  printf("slowest stage %.6g s per microbatch, gradient all-reduce %.6g s\n", plan->slowest_stage_s,
         plan->exchange_s);
  double ratio = plan->step_s > 0 ? plan->expert_s / plan->step_s : HUGE_VAL;
  if (plan->expert)
    printf("expert plan: %s\n", plan->expert);
  else if (ratio < HUGE_VAL)
    printf("expert plan: %.9g s per batch, %.2fx as long\n", plan->expert_s, ratio);
  else
    printf("expert plan: %.9g s per batch\n", plan->expert_s);
  putchar('\n');
  pz_table_print(table, 0, stdout);
}

/* Solves a placement problem from a file in the format of the original program. */
static void place_instance(struct pz_call *call, const struct settings *settings) {
  struct pz_instance_options options = pz_instance_options_default();
  struct pz_instance_plan *found = NULL;
  const char *path = settings->instance;
  size_t bytes = 0;
  options.corrected = settings->semantics == CORRECTED;
  options.compat = settings->compat;
  options.check = settings->check;
  const char *text = pz_file_text(call, path, PZ_INSTANCE_MOST_BYTES, &bytes);
  pz_must(call, pz_partition_instance(path, text, bytes, &options, &found, pz_call_error(call)));
  pz_defer(call, pz_object_free, found);
  if (settings->common.json)
    pz_command_print_json(call, instance_json(found));
  else
    print_instance(call, found);
}

/* ---- the semantics -------------------------------------------------------------------------- */

/* Returns the semantics that the user chose.  The default is `original` for an instance file,
 * `training` for a model on an existing chip or on one of a modern technology, and `corrected`
 * otherwise.  ONNX graphs have no training framework, so their default is `corrected`. */
static int choose_semantics(struct pz_call *call, const struct settings *settings,
                            const char *model) {
  const struct pz_machine_options *machine = &settings->model.machine;
  struct pz_chip chip;
  if (settings->evaluator)
    return settings->evaluator == PZ_EVALUATOR_TRAINING ? TRAINING : CORRECTED;
  if (settings->semantics != NOT_GIVEN) return settings->semantics;
  if (settings->instance) return ORIGINAL;
  pz_chip_read_units(call, machine->chip, machine->any_units, &chip);
  size_t n = strlen(model);
  bool onnx = n > 5 && strcmp(model + n - 5, ".onnx") == 0;
  /* The technologies of the original system, 45 and 22 nm, have no static power. */
  bool original_technology = !(pz_tech_at(chip.tech)->static_w_per_mm2 > 0);
  bool training = !onnx && (pz_chip_built(&chip) || !original_technology);
  return training ? TRAINING : CORRECTED;
}

/* Raises PZ_BAD_USE if an option differs from `unset` that the chosen semantics do not have. */
static void check_semantics(struct pz_call *call, const struct settings *settings,
                            const struct settings *unset) {
  static const char *const not_training[] = {"check",     "optimizer", "dim",
                                             "batch-dim", "layers",    "unknown-ops"};
  const char *semantics = semantics_names[settings->semantics];
  if (settings->semantics == TRAINING) {
    if (settings->instance)
      pz_raise(call, PZ_BAD_USE,
               "--semantics training with --instance; accepted: original, corrected");
    for (size_t i = 0; i < sizeof option_table / sizeof *option_table; i++) {
      const struct pz_option *option = &option_table[i];
      for (size_t k = 0; k < sizeof not_training / sizeof *not_training; k++)
        if (strcmp(option->name, not_training[k]) == 0 && !pz_option_same(option, settings, unset))
          pz_raise(call, PZ_BAD_USE,
                   "--%s with --semantics training; accepted: with --semantics corrected, original",
                   option->name);
    }
    return;
  }
  const struct pz_option *training_option =
      pz_command_changed(&pz_cmd_place, AT(training), settings, unset);
  char name[64];
  if (training_option)
    pz_raise(call, PZ_BAD_USE,
             "--%s with --semantics %s; accepted: with --semantics training (the default but "
             "for chips of 22 nm)",
             pz_option_name(training_option->name, name, sizeof name), semantics);
  int recompute = settings->model.recompute;
  if (recompute != PZ_AS_FRAMEWORK && recompute != PZ_RECOMPUTATION_NONE &&
      recompute != PZ_RECOMPUTATION_FULL)
    pz_raise(call, PZ_BAD_USE, "--recompute %s with --semantics %s; accepted: auto, on, off",
             pz_recomputation_names[recompute], semantics);
}

/* Searches with the chosen semantics, prints the answer, and returns the exit status. */
static enum pz_exit place_model(struct pz_call *call, struct settings *settings, const char *model,
                                const struct pz_run_plan *compared) {
  struct pz_place_settings *shared = &settings->model;
  struct pz_place_job job = {.settings = shared,
                             .training = &settings->training,
                             .model = model,
                             .compared = compared,
                             .json = settings->common.json};
  const char *devices = shared->devices_text;
  if (shared->mbs && strcmp(shared->mbs, "auto") == 0) shared->mbs = NULL; /* the default */
  if (shared->tp && strcmp(shared->tp, "auto") == 0) shared->tp = NULL;
  int64_t most_devices = settings->semantics == TRAINING ? 1 << 24 : 1 << 30;
  job.devices = pz_choices_read(call, devices, "devices", most_devices);
  if (settings->semantics == TRAINING) return pz_place_training(call, &job);
  if (job.devices.n > 1)
    pz_raise(call, PZ_BAD_USE,
             "--devices %s with --semantics %s; accepted: one number (a list with "
             "--semantics training)",
             devices, semantics_names[settings->semantics]);
  shared->devices = job.devices.v[0];
  if (!shared->batch) shared->batch = DEFAULT_BATCH;
  pz_place_partition(call, shared, model, settings->semantics == ORIGINAL, settings->check,
                     settings->common.json);
  return PZ_EXIT_DONE;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns an error message if the arguments are inconsistent, otherwise NULL. */
static const char *place_misuse(struct pz_call *call, const struct settings *settings,
                                const struct settings *unset, int n_args, const char *model) {
  const struct pz_machine_options *machine = &settings->model.machine;
  const struct pz_place_training_settings *training = &settings->training;
  if (n_args + (settings->instance != NULL) != 1)
    return "expected either a MODEL or --instance FILE.json";
  if (settings->instance) {
    const struct pz_option *option = pz_command_changed(&pz_cmd_place, AT(model), settings, unset);
    char name[40];
    if (!option) return NULL;
    return pz_format(call, "--%s requires a MODEL, it does not apply to --instance",
                     pz_option_name(option->name, name, sizeof name));
  }
  const char *overwrite =
      pz_machine_find_overwrite(machine, model, settings->model.trace, training->report);
  if (overwrite) return overwrite;
  if (settings->compat) return "--expert-compat requires --instance";
  if (settings->common.json && settings->model.emit) return "--json and --emit cannot be combined";
  if (!training->compare && (training->vocab || training->set[0] || training->ignore[0]))
    return "--vocab, --set and --ignore require --compare FILE";
  return machine->chip || training->compare ? NULL : "--chip CHIP is required";
}

/* Checks the options, chooses the semantics, and searches for the best plan. */
static void place(struct pz_call *call, struct pz_invocation *invocation) {
  const struct settings unset = defaults;
  struct settings settings = unset;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *model = invocation->args[0];
  const char *misuse = place_misuse(call, &settings, &unset, invocation->n_args, model);
  if (misuse) pz_command_refuse(call, invocation, misuse);
  settings.model.quiet = settings.common.quiet;
  settings.model.recompute = recomputations[settings.model.recompute];
  const struct pz_run_plan *compared = NULL;
  bool devices_given = settings.model.devices_text != unset.model.devices_text;
  if (settings.training.compare)
    compared = pz_place_read_compared(call, &settings.model, &settings.training, devices_given);
  settings.semantics = choose_semantics(call, &settings, model);
  check_semantics(call, &settings, &unset);
#ifndef NDEBUG
  settings.check = true;
#endif
  if (settings.instance)
    place_instance(call, &settings);
  else
    invocation->exit = place_model(call, &settings, model, compared);
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = place,
};
