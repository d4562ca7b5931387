/* phaze compare answers three questions, each with a table or JSON: how the searched chip compares with the chips of other
 * methods in the same space (compare_baselines); how the common chip depends on the original system's assumptions
 * (compare_assumptions); and how given chips compare, bought or rented (compare_chips). */
#include <string.h>

#include "cli/owned.h"
#include "cli/predict_options.h"
#include "cli/study_run.h"
#include "core/file.h"
#include "report/comparison.h"
#include "report/original_table.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
  int64_t seed;
  bool original, alone;
  const char *chips;
  bool cold;                              /* this member and those below: only with --chips */
  struct pz_plan plan;                    /* fields that the plans of all chips have */
  const char *tokens, *deadline, *prices; /* this member and those below: only with --tokens */
  double price;
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT,
                                         .seed = PZ_COMPARE_SEED,
                                         .plan = {
                                             .size = sizeof(struct pz_plan),
#include "cli/plan_unset.def"
                                         }};

/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_STUDY_OPTIONS(struct settings, study),
    {.name = "seed", .type = PZ_OPTION_INT, .offset = offsetof(struct settings, seed), .arg = "N", .min = 0,
     .max = 1e15, .help = "Random seed of the baselines that sample"},
    {.name = "original-assumptions", .type = PZ_OPTION_FLAG, .offset = offsetof(struct settings, original),
     .help = "Instead, show the common chip under the assumptions of the original system's code, corrected one by one"},
    {.name = "alone", .type = PZ_OPTION_FLAG, .offset = offsetof(struct settings, alone),
     .help = "With --original-assumptions: also each assumption alone, with all others corrected"},
    {.name = "chips", .type = PZ_OPTION_TEXT, .offset = offsetof(struct settings, chips), .arg = "LIST",
     .help = "Instead, compare these chips with their best training plans: names, chip.json files and directories of searches by training plans, comma-separated"},
    {.name = "cold", .type = PZ_OPTION_FLAG, .offset = offsetof(struct settings, cold),
     .help = "With --chips: all by their data sheets, without what was measured on them"},
    {.name = "precision", .type = PZ_OPTION_CHOICE, .offset = offsetof(struct settings, plan.precision), .choices = pz_precision_names,
     .help = "With --chips: precision of the layers' GEMMs (default: bf16; fp16 on chips without it)"},
    {.name = "fp8-recipe", .type = PZ_OPTION_CHOICE, .offset = offsetof(struct settings, plan.fp8_recipe), .choices = pz_fp8_recipe_names,
     .help = "With --chips and precision fp8: scales of the operands, as for 'phaze predict'"},
    {.name = "moment-bytes", .type = PZ_OPTION_REAL, .offset = offsetof(struct settings, plan.moment_bytes), .arg = "B", .min = 1, .max = 4,
     .help = "With --chips: bytes of each of Adam's two moments, as for 'phaze predict'"},
    {.name = "mtp", .type = PZ_OPTION_FLAG, .offset = offsetof(struct settings, plan.mtp),
     .help = "With --chips: add the models' multi-token-prediction layers"},
    {.name = "offload", .type = PZ_OPTION_SET, .offset = offsetof(struct settings, plan.offload), .choices = pz_offload_names,
     .help = "With --chips: what may be kept on the host, as for 'phaze place'"},
    {.name = "peft", .type = PZ_OPTION_TEXT, .offset = offsetof(struct settings, plan.peft), .arg = "TEXT",
     .help = "With --chips: fine-tuning with frozen weights: lora:RANK:MODULES, as for 'phaze predict'"},
    {.name = "tokens", .type = PZ_OPTION_TEXT, .offset = offsetof(struct settings, tokens), .arg = "N",
     .help = "With --chips: compare what a run over so many tokens costs: 300B, 15T"},
    {.name = "price", .type = PZ_OPTION_REAL, .offset = offsetof(struct settings, price), .arg = "P", .min = 0, .max = 1e9,
     .help = "With --tokens: dollars per device-hour, of every chip"},
    {.name = "price-table", .type = PZ_OPTION_TEXT, .offset = offsetof(struct settings, prices), .arg = "FILE.csv",
     .help = "With --tokens: dollars per device-hour by chip: a table with the columns chip and dollars_per_device_hour"},
    {.name = "deadline", .type = PZ_OPTION_TEXT, .offset = offsetof(struct settings, deadline), .arg = "TIME",
     .help = "With --tokens: the run ends within this time, days or hours: 30d, 36h. Of one number of --devices each chip takes those that cost least; of a list all rows are shown. The exit status is 1 if no chip ends in time"},
};
/* clang-format on */

/* ---- options that exclude each other -------------------------------------------------------- */

/* Returns a message about an option that has no meaning with --chips, or only with it, or NULL.  `allowed` has the defaults
 * for all options that have no meaning; an option that differs from it was given in vain. */
static const char *chips_misuse(struct pz_call *call, const struct settings *s) {
  struct settings allowed = *s;
  if (s->chips) {
    allowed = defaults;
    allowed.common = s->common;
    allowed.study.original.cluster = s->study.original.cluster;
    allowed.study.training = s->study.training;
    allowed.study.training.gap = NULL;
    allowed.study.devices = s->study.devices;
    allowed.study.batch = s->study.batch;
    allowed.study.seq = s->study.seq;
    allowed.study.threads = s->study.threads;
    allowed.chips = s->chips;
  }
  allowed.cold = s->chips && s->cold;
  allowed.plan = s->chips ? s->plan : defaults.plan;
  allowed.tokens = s->chips ? s->tokens : NULL;
  allowed.deadline = allowed.tokens ? s->deadline : NULL;
  allowed.prices = allowed.tokens ? s->prices : NULL;
  allowed.price = allowed.tokens ? s->price : 0;
  const struct pz_option *o =
      pz_command_changed(&pz_cmd_compare, offsetof(struct settings, study), s, &allowed);
  if (!o) return s->chips ? NULL : pz_study_misuse(call, &pz_cmd_compare, s, &s->study);
  if (!s->chips) return pz_format(call, "--%s requires --chips", o->name);
  bool of_rent = o->offset >= offsetof(struct settings, tokens);
  return pz_format(call, of_rent ? "--%s requires --tokens" : "--chips and --%s cannot be combined",
                   o->name);
}

static void check_options(struct pz_call *call, struct pz_invocation *in,
                          const struct settings *s) {
  const char *wrong = pz_study_run_misuse(&s->study, in->n_args);
  if (!wrong && s->original) {
    if (in->n_args < 2)
      wrong = "--original-assumptions requires two or more MODELs";
    else if (s->study.dir)
      wrong = "--original-assumptions and --output cannot be combined";
    else if (s->study.pareto)
      wrong = "--original-assumptions and --pareto cannot be combined";
    else if (s->seed != PZ_COMPARE_SEED)
      wrong = "--original-assumptions and --seed cannot be combined";
    else if (s->study.objective)
      wrong = "--original-assumptions and --objective cannot be combined";
  }
  if (!wrong && s->alone && !s->original) wrong = "--alone requires --original-assumptions";
  if (!wrong) wrong = chips_misuse(call, s);
  if (!wrong && s->price > 0 && s->prices) wrong = "--price and --price-table cannot be combined";
  if (wrong) pz_command_refuse(call, in, wrong);
}

/* ---- the searched chip and the baselines ---------------------------------------------------- */

struct comparison {
  const struct settings *s;
  struct pz_study_run run;
  char **models;
  int n_models;
  bool none; /* a model fits on no chip, or meets the deadline on none */
};

static void compare_baselines(struct pz_call *call, struct comparison *x) {
  struct pz_study_run *r = &x->run;
  uint64_t seed = (uint64_t)x->s->seed;
  pz_study_run_open(call, r);
  pz_study_run_search(call, r);
  pz_must(call, pz_run_compare(r->run, &seed, pz_call_error(call)));
  const struct pz_result *result = pz_run_result(r->run);
  if (x->s->common.json)
    pz_command_print_json(call, json_incref(pz_comparison_document(call, result)));
  else
    pz_comparison_table(call, result, stdout);
  pz_study_run_report(call, r);
}

/* ---- the original system's assumptions ------------------------------------------------------ */

static void compare_assumptions(struct pz_call *call, struct comparison *x) {
  const struct pz_run_options *o = &x->run.options;
  struct pz_original *rows = pz_alloc(call, 1, sizeof *rows);
  pz_study_run_open(call, &x->run);
  pz_must(call, pz_original_run(&x->run.study, x->s->alone, o->threads, o->progress, o->ctx, rows,
                                pz_call_error(call)));
  if (x->s->common.json)
    pz_command_print_json(call, pz_original_json(rows));
  else
    pz_original_table(call, rows, stdout);
}

/* ---- given chips ---------------------------------------------------------------------------- */

static struct pz_rent_options read_rent_options(struct pz_call *call, const struct settings *s) {
  struct pz_rent_options rent = pz_rent_options_default();
  rent.tokens = pz_parse_tokens(call, s->tokens);
  if (s->deadline) rent.deadline_s = pz_parse_deadline(call, s->deadline);
  pz_must(call, pz_choices_parse(s->study.devices, "devices", 1 << 24, &rent.devices,
                                 pz_call_error(call)));
  rent.price = s->price;
  rent.prices_name = s->prices;
  if (s->prices) {
    size_t bytes = 0;
    const char *table = pz_file_text(call, s->prices, PZ_PRICES_MOST_BYTES, &bytes);
    if (strlen(table) != bytes) {
      int line = 1;
      for (const char *c = table; *c; c++)
        if (*c == '\n') line++;
      pz_raise(call, PZ_BAD_INPUT, "%s:%d: a NUL byte; accepted: a text file in UTF-8", s->prices,
               line);
    }
    rent.prices = table;
  }
  return rent;
}

/* Copies the plan fields that were given to the options of the study, which stores them as texts. */
static void set_plan_fields(struct pz_call *call, const struct pz_plan *p,
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
    char text[PZ_FIELD_TEXT_MOST];
    bool given = (pz_plan_given(p) >> fields[i].field & 1) != 0;
    if (given)
      *fields[i].text =
          pz_copy_text(call, pz_plan_field_text(p, fields[i].field, text, sizeof text));
  }
  study->peft = p->peft;
}

static void compare_chips(struct pz_call *call, struct comparison *x) {
  const struct settings *s = x->s;
  struct pz_study_run *r = &x->run;
  struct pz_study_options *study = &r->study;
  struct pz_rent_options rent;
  char *text = NULL;
  study->cluster = s->study.original.cluster;
  set_plan_fields(call, &s->plan, study);
  if (s->tokens) rent = read_rent_options(call, s);
  pz_must(call, pz_chips_rent(study, s->chips, s->cold, s->tokens ? &rent : NULL, &r->options,
                              &text, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  json_t *root = pz_json_read(call, "the comparison", text, strlen(text));
  x->none = pz_compared_chips_none(root, study);
  if (s->common.json) {
    pz_command_print_json(call, json_incref(root));
  } else if (s->tokens) {
    const struct pz_rent_titles titles = {s->tokens, s->deadline};
    pz_rented_chips_table(call, root, study, &titles, stdout);
  } else {
    pz_compared_chips_table(call, root, study, stdout);
  }
}

/* ---- the command ---------------------------------------------------------------------------- */

static void answer_question(struct pz_call *call, void *ctx) {
  struct comparison *x = ctx;
  pz_study_run_begin(call, &x->run, x->models, x->n_models);
  if (x->s->chips)
    compare_chips(call, x);
  else if (x->s->original)
    compare_assumptions(call, x);
  else
    compare_baselines(call, x);
}

static void compare(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  if (!pz_command_options(call, in, &s)) return;
  bool evaluator_given = s.study.evaluator || s.study.semantics >= 0;
  if (!s.chips && !evaluator_given) /* the baselines exist for this evaluator only */
    s.study.evaluator = PZ_EVALUATOR_ORIGINAL;
  check_options(call, in, &s);
  s.study.several_devices = s.chips && s.tokens;
  struct comparison x = {.s = &s,
                         .run = {.common = &s.common, .s = &s.study},
                         .models = in->args,
                         .n_models = in->n_args};
  pz_study_run_work(call, in, &s.study, answer_question, &x);
  if (x.none) in->exit = PZ_EXIT_NO_ANSWER;
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
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .ranks = true,
    .n_args = -1,
    .body = compare,
};
