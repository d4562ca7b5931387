/* phaze compare answers three questions: the searched chip beside those of other methods of the same space; the common chip
 * under the original system's assumptions; and given chips beside each other. */
#include <stdlib.h>
#include <string.h>

#include "cli/predict_options.h"
#include "cli/study_run.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/options.h"
#include "report/comparison.h"
#include "report/original_table.h"

enum { CHIPS_FIELDS = 5 }; /* of a plan, as texts */

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
  int64_t seed;
  bool original, alone;
  const char *chips;
  bool cold;                              /* with --chips only, as what follows */
  struct pz_plan plan;                    /* fields that every plan has */
  const char *tokens, *deadline, *prices; /* NULL: not asked for */
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

static const char *original_misuse(const struct settings *s, int n_models) {
  if (n_models < 2) return "--original-assumptions requires two or more MODELs";
  if (s->study.dir) return "--original-assumptions and --output cannot be combined";
  if (s->study.pareto) return "--original-assumptions and --pareto cannot be combined";
  if (s->seed != PZ_COMPARE_SEED) return "--original-assumptions and --seed cannot be combined";
  return s->study.objective ? "--original-assumptions and --objective cannot be combined" : NULL;
}

/* An option that has no meaning with --chips, or without it; NULL: none. */
static const char *chips_misuse(const struct settings *s, char *text, size_t size) {
  struct settings known = *s;
  if (s->chips) {
    known = defaults;
    known.common = s->common;
    known.study.original.cluster = s->study.original.cluster;
    known.study.training = s->study.training;
    known.study.training.gap = NULL;
    known.study.devices = s->study.devices;
    known.study.batch = s->study.batch;
    known.study.seq = s->study.seq;
    known.study.threads = s->study.threads;
    known.chips = s->chips;
  }
  known.cold = s->chips && s->cold;
  known.plan = s->chips ? s->plan : defaults.plan;
  known.tokens = s->chips ? s->tokens : NULL;
  known.deadline = known.tokens ? s->deadline : NULL;
  known.prices = known.tokens ? s->prices : NULL;
  known.price = known.tokens ? s->price : 0;
  const struct pz_option *o =
      pz_command_changed(&pz_cmd_compare, offsetof(struct settings, study), s, &known);
  if (!o) return s->chips ? NULL : pz_study_misuse(&pz_cmd_compare, s, &s->study, text, size);
  bool rent = o->offset >= offsetof(struct settings, tokens);
  snprintf(text, size,
           s->chips && rent ? "--%s requires --tokens"
           : s->chips       ? "--chips and --%s cannot be combined"
                            : "--%s requires --chips",
           o->name);
  return text;
}

/* ---- the three questions: each ends with JSON, or printed ------------------------------------ */

struct comparison {
  const struct settings *s;
  struct pz_study_run *run;
  bool none;             /* a model fits on no chip, or none ends by the deadline */
  struct pz_arena arena; /* for tables */
};

/* JSON to stdout where it is asked for; takes it over.  NULL: out of memory. */
static enum pz_status tell_json(struct comparison *x, json_t *json) {
  return json ? pz_command_json(json, x->run->err)
              : pz_fail(x->run->err, PZ_NO_MEMORY, "out of memory for the result");
}

/* The search and every baseline. */
static enum pz_status compare_methods(struct comparison *x) {
  struct pz_study_run *r = x->run;
  uint64_t seed = (uint64_t)x->s->seed;
  enum pz_status status = pz_study_run_search(r);
  if (status == PZ_OK) status = pz_run_compare(r->run, &seed, r->err);
  if (status != PZ_OK) return status;
  const struct pz_result *result = pz_run_result(r->run);
  status = x->s->common.json ? tell_json(x, pz_comparison_report_json(result))
                             : pz_comparison_print(result, &x->arena, stdout);
  return status == PZ_OK ? pz_study_run_report(r) : status;
}

/* Under the original system's assumptions. */
static enum pz_status compare_original(struct comparison *x) {
  const struct pz_run_options *o = &x->run->options;
  struct pz_original *rows = pz_calloc(1, sizeof *rows);
  if (!rows) return pz_fail(x->run->err, PZ_NO_MEMORY, "out of memory for the result");
  enum pz_status status = pz_original_run(&x->run->study, x->s->alone, o->threads, o->progress,
                                          o->ctx, rows, x->run->err);
  if (status == PZ_OK)
    status = x->s->common.json ? tell_json(x, pz_original_json(rows))
                               : pz_original_print(rows, &x->arena, stdout);
  pz_free(rows);
  return status;
}

/* What a run on rented chips is asked for; *table, the price table's text, is to be freed. */
static enum pz_status read_rent(const struct settings *s, struct pz_rent_options *rent,
                                char **table, struct pz_error *err) {
  size_t bytes = 0;
  *rent = pz_rent_options_default();
  enum pz_status status = pz_read_tokens(s->tokens, &rent->tokens, err);
  if (status == PZ_OK && s->deadline)
    status = pz_read_deadline(s->deadline, &rent->deadline_s, err);
  if (status == PZ_OK)
    status = pz_choices_parse(s->study.devices, "devices", 1 << 24, &rent->devices, err);
  if (status == PZ_OK && s->prices)
    status = pz_file_read(s->prices, PZ_PRICES_MOST_BYTES, table, &bytes, err);
  if (status == PZ_OK && *table && strlen(*table) != bytes) {
    int line = 1;
    for (const char *c = *table; *c; c++) line += *c == '\n';
    status = pz_fail(err, PZ_BAD_INPUT, "%s:%d: a NUL byte; accepted: a text file in UTF-8",
                     s->prices, line);
  }
  rent->price = s->price;
  rent->prices = *table;
  rent->prices_name = s->prices;
  return status;
}

/* The fields that every plan is to have, as texts of the study. */
static void set_plan(const struct pz_plan *p, char texts[][PZ_FIELD_TEXT_MOST],
                     struct pz_study_options *study) {
  const struct {
    enum pz_plan_field field;
    const char **to;
  } list[CHIPS_FIELDS] = {{PZ_PLAN_PRECISION, &study->precision},
                          {PZ_PLAN_FP8_RECIPE, &study->fp8_recipe},
                          {PZ_PLAN_MOMENT_BYTES, &study->moment_bytes},
                          {PZ_PLAN_MTP, &study->mtp},
                          {PZ_PLAN_OFFLOAD, &study->offload}};
  for (int i = 0; i < CHIPS_FIELDS; i++)
    if (pz_plan_given(p) >> list[i].field & 1)
      *list[i].to = pz_plan_field_text(p, list[i].field, texts[i], sizeof texts[i]);
  study->peft = p->peft;
}

/* Given chips. */
static enum pz_status compare_chips(struct comparison *x) {
  struct pz_study_run *r = x->run;
  const struct settings *s = x->s;
  char *text = NULL, *table = NULL, texts[CHIPS_FIELDS][PZ_FIELD_TEXT_MOST];
  struct pz_rent_options rent;
  json_t *root = NULL;
  r->study.cluster = r->s->original.cluster;
  set_plan(&s->plan, texts, &r->study);
  enum pz_status status = s->tokens ? read_rent(s, &rent, &table, r->err) : PZ_OK;
  if (status == PZ_OK)
    status = pz_chips_rent(&r->study, s->chips, s->cold, s->tokens ? &rent : NULL, &r->options,
                           &text, r->err);
  pz_text_free(table);
  if (status == PZ_OK) status = pz_json_parse("the comparison", text, strlen(text), &root, r->err);
  pz_text_free(text);
  if (status == PZ_OK) x->none = pz_compared_chips_none(root, &r->study);
  if (status == PZ_OK && x->s->common.json) return tell_json(x, root);
  const struct pz_rent_titles titles = {s->tokens, s->deadline};
  if (status == PZ_OK)
    status = s->tokens ? pz_rented_chips_print(root, &r->study, &titles, &x->arena, stdout)
                       : pz_compared_chips_print(root, &r->study, &x->arena, stdout);
  json_decref(root);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  char text[120];
  struct settings s = defaults;
  struct pz_error err = {0};
  struct pz_study_run r = {.common = &s.common, .s = &s.study, .err = &err};
  struct comparison x = {.s = &s, .run = &r};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_compare, argc, argv, &s, &n_args, &code)) return code;
  if (!s.chips && !s.study.evaluator && s.study.semantics < 0) /* as baselines are judged */
    s.study.evaluator = PZ_EVALUATOR_ORIGINAL;
  const char *wrong = pz_study_run_misuse(&s.study, n_args);
  if (!wrong && s.original) wrong = original_misuse(&s, n_args);
  if (!wrong && s.alone && !s.original) wrong = "--alone requires --original-assumptions";
  if (!wrong) wrong = chips_misuse(&s, text, sizeof text);
  if (!wrong && s.price > 0 && s.prices) wrong = "--price and --price-table cannot be combined";
  if (wrong) return pz_command_misuse(&pz_cmd_compare, wrong);
  s.study.several_devices = s.chips && s.tokens;
  pz_arena_init(&x.arena, NULL);
  enum pz_status status = pz_study_run_begin(&r, argv + 1, n_args, !s.chips);
  if (status == PZ_OK)
    status = s.chips ? compare_chips(&x) : s.original ? compare_original(&x) : compare_methods(&x);
  pz_arena_release(&x.arena);
  code = pz_study_run_end(&r, status);
  return code == PZ_EXIT_DONE && x.none ? PZ_EXIT_NO_ANSWER : code;
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
    .run = run,
};
