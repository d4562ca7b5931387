/* phaze search: the best chip of a design space for given models, with their training plans. */
#include "cli/study_run.h"
#include "report/result_table.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT};

static const struct pz_option options[] = {PZ_COMMON_OPTIONS(struct settings),
                                           PZ_STUDY_OPTIONS(struct settings, study)};

static json_t *timing_json(const struct pz_study_run *r) {
  const struct pz_run_times t = pz_run_times(r->run);
  json_t *timing = pz_run_reused(r->run) ? json_pack("{s:b}", "reused", true)
                                         : json_pack("{s:f,s:f,s:f,s:I}", "bounds_s", t.bounds_s,
                                                     "search_s", t.search_s, "result_s", t.result_s,
                                                     "evaluations", (json_int_t)t.n_variants);
  json_object_set_new(timing, "total_s", json_real(pz_clock_s() - r->start_s));
  json_object_set_new(timing, "threads", json_integer(pz_run_threads(r->run)));
  return timing;
}

static enum pz_status tell(struct pz_study_run *r) {
  struct pz_arena arena;
  if (r->common->json) {
    json_t *result = pz_result_report_json(pz_run_result(r->run), timing_json(r));
    return result ? pz_command_json(result, r->err)
                  : pz_fail(r->err, PZ_NO_MEMORY, "out of memory for the result");
  }
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_result_print(pz_run_result(r->run), &arena, stdout);
  pz_arena_release(&arena);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  char text[120];
  struct settings s = defaults;
  struct pz_error err = {0};
  struct pz_study_run r = {.common = &s.common, .s = &s.study, .err = &err};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_search, argc, argv, &s, &n_args, &code)) return code;
  const char *wrong = pz_study_run_misuse(&s.study, n_args);
  if (!wrong) wrong = pz_study_misuse(&pz_cmd_search, &s, &s.study, text, sizeof text);
  if (wrong) return pz_command_misuse(&pz_cmd_search, wrong);
  enum pz_status status = pz_study_run_begin(&r, argv + 1, n_args, true);
  if (status == PZ_OK) status = pz_study_run_search(&r);
  if (status == PZ_OK) status = tell(&r);
  if (status == PZ_OK) status = pz_study_run_report(&r);
  return pz_study_run_end(&r, status);
}

const struct pz_command pz_cmd_search = {
    .name = "search",
    .synopsis = "MODEL... [--space SPACE] [--budget CHIP|MM2] [-o DIR] [options]",
    .summary = "Find the best chip of a design space for models, with proof of optimality",
    .detail =
        "Finds one chip for all models, with training plans, and by the evaluator original\n"
        "or with --each-model the best chip for each model alone. Boxes of chips are closed\n"
        "by limits and bounds, down to single chips, which are evaluated. Objectives:\n"
        "  throughput     geometric mean of throughput relative to the reference\n"
        "  mean           arithmetic mean of samples/s\n"
        "  weighted       geometric mean with --weights\n"
        "  regret         lowest throughput relative to that of the model's own best chip\n"
        "  per-watt, per-mm2, per-dollar, per-ownership\n"
        "                 geometric mean per peak watt, area, dollar of the chip, dollar of\n"
        "                 chip, server, network and energy, relative to the reference's\n"
        "  per-joule      geometric mean of samples per joule, likewise\n"
        "\n"
        "Evaluators: training judges a chip by the fastest training plan of 'phaze place', on\n"
        "a cluster whose scale-up groups have the chip's link rate, relative to the\n"
        "description of an H100; a model may be MODEL@SEQ or MODEL@SEQxBATCH. original\n"
        "schedules layers on the chip's cores and divides them into stages, relative to\n"
        "tpuv4 with expert plans; it is the default in the space paper.\n"
        "\n"
        "Examples:\n"
        "  phaze search gpt2-xl llama2-7b -o run\n"
        "  phaze search llama3-8b --budget 400 --devices 256 --batch 1024\n"
        "  phaze search bert-large --space ./space.json --objective per-watt\n"
        "  phaze search llama3-70b --space modern --node 5nm --limit-mm2 814\n"
        "    --limit-watts 700 --batch 2048 -o run\n"
        "  phaze search llama3-70b --space modern --node 5nm --budget h100\n"
        "\n"
        "Where 'phaze --version' names an MPI, 'mpirun -n R phaze search ...' divides the\n"
        "work among R processes, with the same result; doc/scaling.md.\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .ranks = true,
    .run = run,
};
