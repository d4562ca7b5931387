/* phaze verify: recomputes a run from its inputs and compares. */
#include "box/certificate.h"
#include "cli/command.h"
#include "core/colour.h"
#include "core/text.h"

struct settings {
  struct pz_common common;
  int64_t sample, threads;
};

static const struct settings defaults = {.sample = 50};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "sample", .type = PZ_OPTION_INT, .offset = AT(sample), .arg = "N", .min = 0, .max = 1 << 20,
     .help = "Number of excluded chips to evaluate without bounds, per model and for the common chip"},
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

static enum pz_status verify(const struct settings *s, const char *dir, bool *holds,
                             struct pz_error *err) {
  struct telling t = {s, json_array()};
  struct pz_verify_options o = pz_verify_options_default();
  o.threads = (unsigned)s->threads;
  o.sample = (uint32_t)s->sample;
  o.say = say;
  o.ctx = &t;
  enum pz_status status =
      pz_box_is_run(dir) ? pz_box_verify(dir, &o, holds, err) : pz_verify(dir, &o, holds, err);
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
    .synopsis = "DIR [--sample N] [--threads T] [--json]",
    .summary = "Recompute a run from its inputs and check every recorded result",
    .detail = "DIR is the run directory of 'phaze search -o DIR'. Checked: every chip of the\n"
              "space was evaluated or excluded, with the same bounds; every recorded evaluation\n"
              "has the same throughput and plan; the result is the same, and its plans pass a\n"
              "checker that shares no code with their solver; no chip of a random sample of the\n"
              "excluded ones, evaluated without bounds, is better than the result. Of a search\n"
              "in a space of ranges: the boxes hold every chip once, the best chip has its\n"
              "value, and a random sample of the boxes is closed rightly. Exit status 1 if a\n"
              "check fails.\n"
              "\n"
              "Examples:\n"
              "  phaze verify run\n"
              "  phaze verify run --sample 500 --threads 8\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
