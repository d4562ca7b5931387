/* phaze compare answers three questions, each with a table or JSON: how the searched chip
 * compares with the chips of other methods in the same space (compare_baselines); how the common
 * chip, the best one for all models together, depends on the assumptions of the original system,
 * which is the published research program Phaze (ICML 2024) (compare_assumptions); and how given
 * chips compare, bought or rented (compare_chips). */
#include <string.h>

#include "cli/predict_options.h"
#include "cli/study.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/options.h"
#include "report/comparison.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
  int64_t seed;
  bool original, alone;
  const char *chips;
  bool cold;                              /* options of this member and below require --chips */
  struct pz_plan plan;                    /* fields that are fixed in the plans of all chips */
  const char *tokens, *deadline, *prices; /* this member and those below require --tokens */
  double price;
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT,
                                         .seed = PZ_COMPARE_SEED,
                                         .plan = {
                                             .size = sizeof(struct pz_plan),
#include "cli/plan_unset.def"
                                         }};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_STUDY_OPTIONS(struct settings, study),
    PZ_INT_OPTION("seed", AT(seed), "N", 0, 1e15, "Random seed of the baselines that sample"),
    PZ_FLAG_OPTION("original-assumptions", AT(original), "Instead, show the common chip under the assumptions of the original system's code, corrected one by one"),
    PZ_FLAG_OPTION("alone", AT(alone), "With --original-assumptions: also each assumption alone, with all others corrected"),
    PZ_TEXT_OPTION("chips", AT(chips), "LIST", "Instead, compare these chips with their best training plans: names, chip.json files and directories of searches by training plans, comma-separated"),
    PZ_FLAG_OPTION("cold", AT(cold), "With --chips: all by their data sheets, without what was measured on them"),
    PZ_CHOICE_OPTION("precision", AT(plan.precision), pz_precision_names, "With --chips: precision of the layers' GEMMs (default: bf16; fp16 on chips without it)"),
    PZ_CHOICE_OPTION("fp8-recipe", AT(plan.fp8_recipe), pz_fp8_recipe_names, "With --chips and precision fp8: scales of the operands, as for 'phaze predict'"),
    PZ_REAL_OPTION("moment-bytes", AT(plan.moment_bytes), "B", 1, 4, "With --chips: bytes of each of Adam's two moments, as for 'phaze predict'"),
    PZ_FLAG_OPTION("mtp", AT(plan.mtp), "With --chips: add the models' multi-token-prediction layers"),
    PZ_SET_OPTION("offload", AT(plan.offload), pz_offload_names, "With --chips: what may be kept on the host, as for 'phaze place'"),
    PZ_TEXT_OPTION("peft", AT(plan.peft), "TEXT", "With --chips: fine-tuning with frozen weights: lora:RANK:MODULES, as for 'phaze predict'"),
    PZ_TEXT_OPTION("tokens", AT(tokens), "N", "With --chips: compare what a run over so many tokens costs: 300B, 15T"),
    PZ_REAL_OPTION("price", AT(price), "P", 0, 1e9, "With --tokens: dollars per device-hour, of every chip"),
    PZ_TEXT_OPTION("price-table", AT(prices), "FILE.csv", "With --tokens: dollars per device-hour by chip: a table with the columns chip and dollars_per_device_hour"),
    PZ_TEXT_OPTION("deadline", AT(deadline), "TIME", "With --tokens: the run ends within this time, days or hours: 30d, 36h. Of one number of --devices each chip takes those that cost least; of a list all rows are shown. The exit status is 1 if no chip ends in time"),
};
/* clang-format on */

/* ---- options that exclude each other -------------------------------------------------------- */

/* Returns an error message if an option cannot be combined with --chips, or requires --chips or
 * --tokens; otherwise NULL.  `allowed` is a copy of the settings in which every misplaced option
 * has its default, so that an option whose value differs is misplaced. */
static const char *chips_misuse(struct pz_call *call, const struct settings *settings) {
  const struct pz_study_settings *study = &settings->study;
  struct settings allowed = *settings;
  bool chips = settings->chips != NULL;
  if (chips) {
    allowed = defaults;
    allowed.common = settings->common;
    allowed.study.original.cluster = study->original.cluster;
    allowed.study.training = study->training;
    allowed.study.training.gap = NULL;
    allowed.study.devices = study->devices;
    allowed.study.batch = study->batch;
    allowed.study.seq = study->seq;
    allowed.study.threads = study->threads;
    allowed.chips = settings->chips;
  }
  allowed.cold = chips && settings->cold;
  allowed.plan = chips ? settings->plan : defaults.plan;
  allowed.tokens = chips ? settings->tokens : NULL;
  allowed.deadline = allowed.tokens ? settings->deadline : NULL;
  allowed.prices = allowed.tokens ? settings->prices : NULL;
  allowed.price = allowed.tokens ? settings->price : 0;
  const struct pz_option *misplaced =
      pz_command_changed(&pz_cmd_compare, AT(study), settings, &allowed);
  if (!misplaced) return chips ? NULL : pz_study_misuse(call, &pz_cmd_compare, settings, study);
  if (!chips) return pz_format(call, "--%s requires --chips", misplaced->name);
  bool is_rent_option = misplaced->offset >= AT(tokens);
  return pz_format(
      call, is_rent_option ? "--%s requires --tokens" : "--chips and --%s cannot be combined",
      misplaced->name);
}

/* Returns an error message if the arguments are inconsistent, otherwise NULL. */
static const char *compare_misuse(struct pz_call *call, const struct settings *settings,
                                  int n_models) {
  const struct pz_study_settings *study = &settings->study;
  const char *misuse = pz_study_run_misuse(study, n_models);
  if (misuse) return misuse;
  if (settings->original) {
    if (n_models < 2) return "--original-assumptions requires two or more MODELs";
    if (study->dir) return "--original-assumptions and --output cannot be combined";
    if (study->pareto) return "--original-assumptions and --pareto cannot be combined";
    if (settings->seed != PZ_COMPARE_SEED)
      return "--original-assumptions and --seed cannot be combined";
    if (study->objective) return "--original-assumptions and --objective cannot be combined";
  }
  if (settings->alone && !settings->original) return "--alone requires --original-assumptions";
  misuse = chips_misuse(call, settings);
  if (!misuse && settings->price > 0 && settings->prices)
    misuse = "--price and --price-table cannot be combined";
  return misuse;
}

/* ---- the three questions -------------------------------------------------------------------- */

struct comparison {
  const struct settings *settings;
  struct pz_study_run run;
  char **models;
  int n_models;
  bool no_answer; /* some model fits on no chip, or meets the deadline on none */
};

/* Searches the best chip, and prints it beside the chips that the baselines find. */
static void compare_baselines(struct pz_call *call, struct comparison *comparison) {
  struct pz_study_run *run = &comparison->run;
  uint64_t seed = (uint64_t)comparison->settings->seed;
  pz_study_run_open(call, run);
  pz_study_run_search(call, run);
  pz_must(call, pz_run_compare(run->run, &seed, pz_call_error(call)));
  const struct pz_result *result = pz_run_result(run->run);
  if (run->common->json)
    pz_command_print_json(call, json_incref(pz_comparison_document(call, result)));
  else
    pz_comparison_table(call, result, stdout);
  pz_study_run_report(call, run);
}

/* Prints the best chip for all models together under the assumptions of the original system's code
 * (the Phaze program of ICML 2024), and how it changes as they are corrected one after another. */
static void compare_assumptions(struct pz_call *call, struct comparison *comparison) {
  struct pz_study_run *run = &comparison->run;
  const struct pz_run_options *options = &run->options;
  struct pz_original *rows = pz_alloc(call, 1, sizeof *rows);
  pz_study_run_open(call, run);
  pz_must(call, pz_original_run(&run->study, comparison->settings->alone, options->threads,
                                options->progress, options->ctx, rows, pz_call_error(call)));
  if (run->common->json)
    pz_command_print_json(call, pz_original_json(rows));
  else
    pz_original_table(call, rows, stdout);
}

/* Returns the options for chips that are rented: tokens, deadline, prices and devices. */
static struct pz_rent_options read_rent_options(struct pz_call *call,
                                                const struct settings *settings) {
  struct pz_rent_options rent = pz_rent_options_default();
  rent.tokens = pz_parse_tokens(call, settings->tokens);
  if (settings->deadline) rent.deadline_s = pz_parse_deadline(call, settings->deadline);
  rent.devices = pz_choices_read(call, settings->study.devices, "devices", 1 << 24);
  rent.price = settings->price;
  rent.prices_name = settings->prices;
  if (settings->prices) {
    size_t bytes = 0;
    const char *table = pz_file_text(call, settings->prices, PZ_PRICES_MOST_BYTES, &bytes);
    if (strlen(table) != bytes) {
      int line = 1;
      for (const char *at = table; *at; at++)
        if (*at == '\n') line++;
      pz_raise(call, PZ_BAD_INPUT, "%s:%d: a NUL byte; accepted: a text file in UTF-8",
               settings->prices, line);
    }
    rent.prices = table;
  }
  return rent;
}

/* Copies the given plan fields to the options of the study, which stores them as texts. */
static void set_plan_fields(struct pz_call *call, const struct pz_plan *plan,
                            struct pz_study_options *study) {
  const struct {
    enum pz_plan_field field;
    const char **text;
  } fields[] = {{PZ_PLAN_PRECISION, &study->precision},
                {PZ_PLAN_FP8_RECIPE, &study->fp8_recipe},
                {PZ_PLAN_MOMENT_BYTES, &study->moment_bytes},
                {PZ_PLAN_MTP, &study->mtp},
                {PZ_PLAN_OFFLOAD, &study->offload}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    enum pz_plan_field field = fields[i].field;
    char text[PZ_FIELD_TEXT_MOST];
    bool given = (pz_plan_given(plan) >> field & 1) != 0;
    if (given)
      *fields[i].text = pz_copy_text(call, pz_plan_field_text(plan, field, text, sizeof text));
  }
  study->peft = plan->peft;
}

/* Prints the given chips beside each other, with their best training plans and, if --tokens is
 * given, the price of a training run on rented ones. */
static void compare_chips(struct pz_call *call, struct comparison *comparison) {
  const struct settings *settings = comparison->settings;
  struct pz_study_options *study = &comparison->run.study;
  struct pz_rent_options rent;
  char *text = NULL;
  study->cluster = settings->study.original.cluster;
  set_plan_fields(call, &settings->plan, study);
  if (settings->tokens) rent = read_rent_options(call, settings);
  pz_must(call,
          pz_chips_rent(study, settings->chips, settings->cold, settings->tokens ? &rent : NULL,
                        &comparison->run.options, &text, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  json_t *root = pz_json_read(call, "the comparison", text, strlen(text));
  comparison->no_answer = pz_compared_chips_none(root, study);
  if (settings->common.json) {
    pz_command_print_json(call, json_incref(root));
  } else if (settings->tokens) {
    const struct pz_rent_titles titles = {settings->tokens, settings->deadline};
    pz_rented_chips_table(call, root, study, &titles, stdout);
  } else {
    pz_compared_chips_table(call, root, study, stdout);
  }
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Begins the study and answers the question of the options; runs under pz_study_run_work(). */
static void answer_question(struct pz_call *call, void *ctx) {
  struct comparison *comparison = ctx;
  pz_study_run_begin(call, &comparison->run, comparison->models, comparison->n_models);
  if (comparison->settings->chips)
    compare_chips(call, comparison);
  else if (comparison->settings->original)
    compare_assumptions(call, comparison);
  else
    compare_baselines(call, comparison);
}

/* Checks the options, answers the question, and sets the exit status. */
static void compare(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  struct pz_study_settings *study = &settings.study;
  if (!pz_command_options(call, invocation, &settings)) return;
  bool evaluator_given = study->evaluator || study->semantics >= 0;
  if (!settings.chips && !evaluator_given) /* the baselines exist for the evaluator original only */
    study->evaluator = PZ_EVALUATOR_ORIGINAL;
  const char *misuse = compare_misuse(call, &settings, invocation->n_args);
  if (misuse) pz_command_refuse(call, invocation, misuse);
  study->several_devices = settings.chips && settings.tokens;
  struct comparison comparison = {.settings = &settings,
                                  .run = {.common = &settings.common, .settings = study},
                                  .models = invocation->args,
                                  .n_models = invocation->n_args};
  pz_study_run_work(call, invocation, study, answer_question, &comparison);
  if (comparison.no_answer) invocation->exit = PZ_EXIT_NO_ANSWER;
}

const struct pz_command pz_cmd_compare = {
    .name = "compare",
    .synopsis = "MODEL... [--seed N | --chips LIST] [-o DIR] [options of search]",
    .summary = "Compare the searched chip with baselines under the same cost model",
    .detail =
        "Baselines, for one chip common to all models; --json and the report also have them\n"
        "for each model alone:\n"
        "  tpuv4-*       the reference chip with the expert plan, and with the best plan\n"
        "  tpuv4-real-*  the same with the real TPUv4's vector units\n"
        "  spotlight-*   Bayesian optimisation of the chip alone, placement ignored\n"
        "  original      the original Phaze system's sweep over areas\n"
        "  random        random chips, as many as the search looked at\n"
        "The options are those of 'phaze search'. If DIR holds a finished search with the\n"
        "same options, only the baselines are run. 'mpirun -n R phaze compare ...' divides\n"
        "the work among R processes.\n"
        "\n"
        "--chips compares built chips and searched ones: each trains the models with its\n"
        "best training plan ('phaze place') in its own network, --cluster puts all into\n"
        "one; area, watts and dollars are those of one bill (doc/silicon.md). Each chip\n"
        "says how it is known and what error such chips had in validation. The exit status\n"
        "is 1 if a model fits on none of them.\n"
        "With --tokens it prints what a run on rented chips takes: dollars, days and tokens\n"
        "per dollar, with the range that the error leaves. Failures, checkpoints, storage and\n"
        "traffic are not counted.\n"
        "\n"
        "Examples:\n"
        "  phaze compare gpt2-xl llama2-7b\n"
        "  phaze compare gpt2-xl llama2-7b -o run --seed 7\n"
        "  phaze compare gpt2-xl llama2-7b megatron-8.3b --original-assumptions\n"
        "  phaze compare llama3-70b --chips h100,b200,tpuv6e,mi300x,./run --batch 2048\n"
        "  phaze compare llama3-8b --chips h100,b200 --devices 1024 --batch 1024\n"
        "      --tokens 15T --price-table prices.csv --deadline 30d\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .ranks = true,
    .n_args = -1,
    .body = compare,
};
