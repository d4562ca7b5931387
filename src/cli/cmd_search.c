/* phaze search: the best chip of a space for models, and how a cluster of it trains them. */
#include "cli/study_run.h"
#include "report/searched.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT};

static const struct pz_option options[] = {PZ_COMMON_OPTIONS(struct settings),
                                           PZ_STUDY_OPTIONS(struct settings, study)};

static enum pz_status tell(struct pz_study_run *r) {
  struct pz_arena arena;
  json_object_set_new(r->search_s, "total_s", json_real(pz_clock_s() - r->start_s));
  json_object_set_new(r->search_s, "threads", json_integer(pz_pool_threads(r->study.pool)));
  json_object_set(r->result, "timing", r->search_s);
  if (r->common->json) return pz_command_json(json_incref(r->result), r->err);
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_searched_print(r->result, &arena, stdout);
  pz_arena_release(&arena);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_error err = {0};
  struct pz_study_run r = {.common = &s.common, .s = &s.study, .err = &err};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_search, argc, argv, &s, &n_args, &code)) return code;
  const char *wrong = pz_study_run_misuse(&s.study, n_args);
  if (wrong) return pz_command_misuse(&pz_cmd_search, wrong);
  enum pz_status status = pz_study_run_begin(&r, argv + 1, n_args);
  if (status == PZ_OK) status = pz_study_run_search(&r);
  if (status == PZ_OK) status = tell(&r);
  if (status == PZ_OK) status = pz_study_run_report(&r);
  return pz_study_run_end(&r, status);
}

const struct pz_command pz_cmd_search = {
    .name = "search",
    .synopsis =
        "MODEL... [--space SPACE] [--budget CHIP|MM2] [--cluster NET] [--devices N] [--batch "
        "B] [--mbs LIST] [--hbm LIST] [--tp LIST] [--objective ...] [--threads T] [-o DIR]",
    .summary = "The best chip of a space for models, with a proof that none is better",
    .detail =
        "Every chip of the space is evaluated (each layer's schedule, then the placement) or\n"
        "excluded by a bound that holds for it.  The answer is the best chip common to all models\n"
        "and the best for each alone.  Objectives: throughput (the geometric mean over the\n"
        "reference: tpuv4 with the expert plan), mean (of samples/s), weighted, regret (the least\n"
        "part that a model keeps of its own best), per-watt, per-mm2.\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
