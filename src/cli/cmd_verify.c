/* phaze verify: recomputes a run from its inputs and compares. */
#include <unistd.h>

#include "cli/command.h"
#include "cli/report_file.h"
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
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "sample", .type = PZ_OPTION_INT, .offset = AT(sample), .arg = "N", .min = 0, .max = 1 << 20,
     .help = "Number of boxes to check by evaluating chips without bounds, per objective run"},
    {.name = "all", .type = PZ_OPTION_FLAG, .offset = AT(all),
     .help = "Check every box, run the search again and compare every number of the run"},
    {.name = "threads", .type = PZ_OPTION_INT, .offset = AT(threads), .arg = "T", .min = 0, .max = 1024,
     .help = "Number of threads (default: 0, one per processor)"},
};
/* clang-format on */

struct telling {
  const struct settings *s;
  json_t *checks;
};

static void say(void *ctx, bool holds, const char *text) {
  struct telling *t = ctx;
  char line[1024];
  json_array_append_new(t->checks, json_pack("{s:b,s:s}", "holds", holds, "check", text));
  if (!t->s->common.json)
    printf("%s%-6s%s %s\n", pz_colour(stdout, holds ? PZ_GREEN : PZ_RED), holds ? "holds" : "WRONG",
           pz_colour(stdout, PZ_PLAIN), pz_text_plain(pz_text_copy(line, sizeof line, text)));
  fflush(stdout);
}

/* The page in the directory, if there is one, against the one that the run gives. */
static enum pz_status check_report(struct telling *t, const char *dir, bool *holds,
                                   struct pz_error *err) {
  char path[4096];
  struct pz_run *run = NULL;
  struct pz_run_options o = pz_run_options_default();
  bool there = false, same = false;
  o.dir = dir;
  o.threads = (unsigned)t->s->threads;
  enum pz_status status = pz_report_path(dir, path, sizeof path, err);
  if (status == PZ_OK) there = pz_ranks_first() && access(path, F_OK) == 0;
  if (status == PZ_OK) status = pz_ranks_share_flag(&there, err);
  if (status != PZ_OK || !there) return status;
  status = pz_run_look(&o, &run, err);
  if (status == PZ_OK) status = pz_run_detail(run, err);
  if (status == PZ_OK && !pz_run_result(run)->training_detail)
    status = pz_run_compare(run, NULL, err);
  if (status == PZ_OK && pz_ranks_first())
    status = pz_report_same(pz_run_result(run), path, &there, &same, err);
  pz_run_close(run);
  if (status != PZ_OK || !there) return status;
  say(t, same, same ? "report.html: shows the run" : "report.html: is not the page of this run");
  *holds = *holds && same;
  return PZ_OK;
}

static enum pz_status verify(const struct settings *s, const char *dir, bool *holds,
                             struct pz_error *err) {
  struct telling t = {s, json_array()};
  struct pz_verify_options o = pz_verify_options_default();
  o.threads = (unsigned)s->threads;
  o.sample = (uint32_t)s->sample;
  o.all = s->all;
  o.say = say;
  o.ctx = &t;
  enum pz_status status = pz_verify(dir, &o, holds, err);
  if (status == PZ_OK && *holds) status = check_report(&t, dir, holds, err);
  if (status == PZ_OK && s->common.json)
    status = pz_command_json(json_pack("{s:b,s:O}", "holds", *holds, "checks", t.checks), err);
  json_decref(t.checks);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_error err = {0};
  enum pz_exit code;
  int n_args;
  bool holds = false;
  if (!pz_command_begin(&pz_cmd_verify, argc, argv, &s, &n_args, &code)) return code;
  if (n_args != 1) return pz_command_misuse(&pz_cmd_verify, "expected one run directory");
  if (verify(&s, argv[1], &holds, &err) != PZ_OK) return pz_command_fail(&err);
  enum pz_exit end = pz_command_end();
  return end == PZ_EXIT_DONE && !holds ? PZ_EXIT_NO_ANSWER : end;
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
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .ranks = true,
    .run = run,
};
