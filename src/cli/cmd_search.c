/* phaze search: finds the best chip of a design space for given models, with their training
 * plans, and prints it with the proof (report/result_table.h). */
#include "cli/study.h"
#include "report/records.h"
#include "report/result_table.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT};

static const struct pz_option option_table[] = {PZ_COMMON_OPTIONS(struct settings),
                                                PZ_STUDY_OPTIONS(struct settings, study)};

struct search_work {
  struct pz_study_run run;
  char **models;
  int n_models;
};

/* Searches or loads the finished run, prints the result, and writes the report. */
static void search_and_print(struct pz_call *call, void *ctx) {
  struct search_work *work = ctx;
  struct pz_study_run *run = &work->run;
  pz_study_run_begin(call, run, work->models, work->n_models);
  pz_study_run_open(call, run);
  pz_study_run_search(call, run);
  const struct pz_result *result = pz_run_result(run->run);
  if (run->common->json) {
    const struct pz_run_times times = pz_run_times(run->run);
    const struct pz_searched searched = {times.bounds_s, times.search_s, times.result_s,
                                         (int64_t)times.n_variants};
    bool reused = pz_run_reused(run->run);
    const struct pz_search_times timing = {.reused = reused,
                                           .searched = reused ? NULL : &searched,
                                           .total_s = pz_clock_s() - run->start_s,
                                           .threads = pz_run_threads(run->run)};
    json_t *timing_json = pz_record_json(&pz_search_times_record, &timing);
    json_t *document = pz_result_document(call, result, pz_json_built(call, timing_json));
    pz_command_print_json(call, json_incref(document));
  } else {
    pz_result_table(call, result, stdout);
  }
  pz_study_run_report(call, run);
}

/* Checks the options and runs the search, which a signal may interrupt. */
static void search(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *misuse = pz_study_run_misuse(&settings.study, invocation->n_args);
  if (!misuse) misuse = pz_study_misuse(call, invocation->command, &settings, &settings.study);
  if (misuse) pz_command_refuse(call, invocation, misuse);
  struct search_work work = {{.common = &settings.common, .settings = &settings.study},
                             invocation->args,
                             invocation->n_args};
  pz_study_run_work(call, invocation, &settings.study, search_and_print, &work);
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .ranks = true,
    .n_args = -1,
    .body = search,
};
