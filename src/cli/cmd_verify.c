/* phaze verify: recomputes a saved run from its inputs and compares it with what was recorded,
 * check by check, and at the end the report in its folder. */
#include <unistd.h>

#include "cli/study.h"
#include "core/progress.h"
#include "core/ranks.h"
#include "core/text.h"

struct settings {
  struct pz_common common;
  int64_t sample, threads;
  bool all;
};

static const struct settings defaults = {.sample = 50};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_INT_OPTION("sample", AT(sample), "N", 0, 1 << 20, "Number of boxes to check by evaluating chips without bounds, per objective run"),
    PZ_FLAG_OPTION("all", AT(all), "Check every box, run the search again and compare every number of the run"),
    PZ_INT_OPTION("threads", AT(threads), "T", 0, 1024, "Number of threads (default: 0, one per processor)"),
};
/* clang-format on */

struct verification {
  bool json;
  json_t *checks;
};

/* Records a check of the library, and prints it unless the output is JSON. */
static void print_check(void *ctx, bool holds, const char *text) {
  struct verification *verification = ctx;
  char line[1024];
  json_array_append_new(verification->checks,
                        json_pack("{s:b,s:s}", "holds", holds, "check", text));
  if (!verification->json)
    printf("%s%-6s%s %s\n", pz_colour(stdout, holds ? PZ_GREEN : PZ_RED), holds ? "holds" : "WRONG",
           pz_colour(stdout, PZ_PLAIN), pz_text_plain(pz_text_copy(line, sizeof line, text)));
  fflush(stdout);
}

/* Compares the page in the folder of the run, if there is one, with the page that is made from the
 * run again.  Returns whether they are equal.  Only the first rank reads the page. */
static bool report_holds(struct pz_call *call, const char *dir, unsigned threads,
                         struct verification *verification) {
  struct pz_run *run = NULL;
  struct pz_run_options options = pz_run_options_default();
  const char *path = pz_report_path(call, dir);
  bool exists = pz_ranks_first() && access(path, F_OK) == 0, same = false;
  exists = pz_ranks_flag_of_first(call, exists);
  if (!exists) return true;
  options.dir = dir;
  options.threads = threads;
  pz_must(call, pz_run_look(&options, &run, pz_call_error(call)));
  pz_defer(call, pz_study_run_close, run);
  pz_report_complete(call, run);
  if (pz_ranks_first()) {
    const struct pz_report_page page = pz_report_page(call, pz_run_result(run));
    same = pz_report_matches(call, &page, path, &exists);
  }
  pz_close(call, run);
  if (!exists) return true;
  print_check(verification, same,
              same ? "report.html: shows the run" : "report.html: is not the page of this run");
  return same;
}

/* Verifies a saved run and its report; the exit status tells whether all checks hold. */
static void verify(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  if (invocation->n_args != 1) pz_command_refuse(call, invocation, "expected one run directory");
  bool json = settings.common.json, holds = false;
  const char *dir = invocation->args[0];
  struct verification verification = {json, pz_json_built(call, json_array())};
  struct pz_verify_options options = pz_verify_options_default();
  options.threads = (unsigned)settings.threads;
  options.sample = (uint32_t)settings.sample;
  options.all = settings.all;
  options.say = print_check;
  options.ctx = &verification;
  pz_must(call, pz_verify(dir, &options, &holds, pz_call_error(call)));
  if (holds) holds = report_holds(call, dir, options.threads, &verification);
  if (json)
    pz_command_print_json(call,
                          json_pack("{s:b,s:O}", "holds", holds, "checks", verification.checks));
  if (!holds) invocation->exit = PZ_EXIT_NO_ANSWER;
}

const struct pz_command pz_cmd_verify = {
    .name = "verify",
    .synopsis = "DIR [--sample N | --all] [--threads T] [--json]",
    .summary = "Recompute a run from its inputs and check every recorded result",
    .detail = "DIR is the run directory of 'phaze search -o DIR'. Checked: every part of the\n"
              "file has its digest; models and inputs are as they were; result, boxes,\n"
              "evaluations and the report's data are the same when recomputed from the recorded\n"
              "rounds, and plans pass a checker that shares no code with their solver; the boxes\n"
              "of every objective run hold each chip of the space once; a random sample of them\n"
              "is closed rightly, by chips evaluated without bounds; report.html is the page of\n"
              "the run. With --all every box is checked, the search is run again, and every\n"
              "number of the run is compared. Exit status 1 if a check fails.\n"
              "'mpirun -n R phaze verify ...' divides the work among R processes.\n"
              "\n"
              "Examples:\n"
              "  phaze verify run\n"
              "  phaze verify run --sample 500 --threads 8\n"
              "  phaze verify run --all\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .ranks = true,
    .n_args = -1,
    .body = verify,
};
