/* phaze compare: the searched chip and every baseline, under one cost model. */
#include <stdlib.h>

#include "cli/compare_chips.h"
#include "cli/study_run.h"
#include "core/alloc.h"
#include "report/comparison.h"
#include "report/original_table.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
  int64_t seed;
  bool original, alone;
  const char *chips;
  bool measured; /* with --chips only */
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT,
                                         .seed = PZ_COMPARE_SEED};

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
    {.name = "measured", .type = PZ_OPTION_FLAG, .offset = offsetof(struct settings, measured),
     .help = "With --chips: use measured efficiencies where a chip has them, instead of its description alone"},
};
/* clang-format on */

static enum pz_status tell(struct pz_study_run *r) {
  struct pz_arena arena;
  if (r->common->json) {
    json_t *result = pz_comparison_report_json(pz_run_result(r->run));
    return result ? pz_command_json(result, r->err)
                  : pz_fail(r->err, PZ_NO_MEMORY, "out of memory for the result");
  }
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_comparison_print(pz_run_result(r->run), &arena, stdout);
  pz_arena_release(&arena);
  return status;
}

/* ---- under the original system's assumptions ------------------------------------------------- */

static const char *original_misuse(const struct settings *s, int n_models) {
  if (n_models < 2) return "--original-assumptions requires two or more MODELs";
  if (s->study.dir) return "--original-assumptions and --output cannot be combined";
  if (s->study.pareto) return "--original-assumptions and --pareto cannot be combined";
  if (s->seed != PZ_COMPARE_SEED) return "--original-assumptions and --seed cannot be combined";
  return s->study.objective ? "--original-assumptions and --objective cannot be combined" : NULL;
}

static enum pz_status tell_original(const struct settings *s, const struct pz_original *r,
                                    struct pz_error *err) {
  struct pz_arena arena;
  if (s->common.json) return pz_command_json(pz_original_json(r), err);
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_original_print(r, &arena, stdout);
  pz_arena_release(&arena);
  return status;
}

/* What is to be said of the models and the network, once for all the searches. */
static enum pz_status tell_notes(const struct settings *s, const struct pz_study_options *o,
                                 struct pz_error *err) {
  struct pz_run *run = NULL;
  enum pz_status status = pz_run_open(o, NULL, &run, err);
  if (status == PZ_OK) pz_study_run_tell_notes(&s->common, &s->study, run);
  pz_run_close(run);
  return status;
}

static enum pz_exit run_original(struct settings *s, char **models, int n_models) {
  struct pz_study_options o;
  struct pz_original *r = pz_calloc(1, sizeof *r);
  struct pz_progress progress;
  struct pz_error err = {0};
  if (!r) return pz_command_fail(&(struct pz_error){.status = PZ_NO_MEMORY});
  enum pz_status status = pz_study_read(&s->study, models, n_models, &o, &err);
  if (status == PZ_OK) status = tell_notes(s, &o, &err);
  if (status == PZ_OK) {
    pz_progress_start(&progress, stderr,
                      s->common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr), "models",
                      "models", 1);
    status = pz_original_run(&o, s->alone, (unsigned)s->study.threads, pz_study_run_progress,
                             &progress, r, &err);
  }
  if (status == PZ_OK) status = tell_original(s, r, &err);
  pz_free(r);
  return status == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

/* ---- chips beside each other ----------------------------------------------------------------- */

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
  known.measured = s->chips && s->measured;
  const struct pz_option *o =
      pz_command_changed(&pz_cmd_compare, offsetof(struct settings, study), s, &known);
  if (!o) return s->chips ? NULL : pz_study_misuse(&pz_cmd_compare, s, &s->study, text, size);
  snprintf(text, size, s->chips ? "--chips and --%s cannot be combined" : "--%s requires --chips",
           o->name);
  return text;
}

static enum pz_exit run_chips(const struct settings *s, char **models, int n_models) {
  struct pz_error err = {0};
  struct pz_chips_call call = {
      .common = &s->common,
      .chips = s->chips,
      .models = models,
      .n_models = n_models,
      .q = {.models = {.devices = s->study.devices,
                       .batch = s->study.batch,
                       .seq = s->study.seq,
                       .scale_up = s->study.training.scale_up,
                       .outer_bytes_per_s = s->study.training.outer_gb_per_s * 1e9},
            .cluster = s->study.original.cluster,
            .measured = s->measured,
            .threads = (unsigned)s->study.threads}};
  return pz_compare_chips(&call, &err) == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

static enum pz_exit run(int argc, char **argv) {
  char text[120];
  struct settings s = defaults;
  struct pz_error err = {0};
  struct pz_study_run r = {.common = &s.common, .s = &s.study, .err = &err};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_compare, argc, argv, &s, &n_args, &code)) return code;
  if (!s.chips && !s.study.evaluator && s.study.semantics < 0) /* as baselines are judged */
    s.study.evaluator = PZ_EVALUATOR_ORIGINAL;
  const char *wrong = pz_study_run_misuse(&s.study, n_args);
  if (!wrong && s.original) wrong = original_misuse(&s, n_args);
  if (!wrong && s.alone && !s.original) wrong = "--alone requires --original-assumptions";
  if (!wrong) wrong = chips_misuse(&s, text, sizeof text);
  if (wrong) return pz_command_misuse(&pz_cmd_compare, wrong);
  if (s.chips) return run_chips(&s, argv + 1, n_args);
  if (s.original) return run_original(&s, argv + 1, n_args);
  uint64_t seed = (uint64_t)s.seed;
  enum pz_status status = pz_study_run_begin(&r, argv + 1, n_args);
  if (status == PZ_OK) status = pz_study_run_search(&r);
  if (status == PZ_OK) status = pz_run_compare(r.run, &seed, &err);
  if (status == PZ_OK) status = tell(&r);
  if (status == PZ_OK) status = pz_study_run_report(&r);
  return pz_study_run_end(&r, status);
}

const struct pz_command pz_cmd_compare = {
    .name = "compare",
    .synopsis = "MODEL... [--seed N | --chips LIST] [-o DIR] [options of search]",
    .summary = "Compare the searched chip with baselines under the same cost model",
    .detail = "Baselines, for each model alone and for one chip common to all models:\n"
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
              "one; area, watts and dollars are those of one bill (doc/silicon.md).\n"
              "\n"
              "Examples:\n"
              "  phaze compare gpt2-xl llama2-7b\n"
              "  phaze compare gpt2-xl llama2-7b -o run --seed 7\n"
              "  phaze compare gpt2-xl llama2-7b megatron-8.3b --original-assumptions\n"
              "  phaze compare llama3-70b --chips h100,b200,tpuv6e,mi300x,./run --batch 2048\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .ranks = true,
    .run = run,
};
