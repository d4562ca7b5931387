/* phaze report: writes a saved run as one HTML file, and the data of its charts as CSV files. */
#include "cli/command.h"
#include "cli/report_file.h"
#include "cli/study_run.h"
#include "core/file.h"
#include "core/text.h"

struct settings {
  struct pz_common common;
  const char *file, *csv;
  int64_t threads;
};

static const struct settings defaults;

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = AT(file), .arg = "FILE.html",
     .help = "Write the page to this file (default: DIR/report.html)"},
    {.name = "csv", .type = PZ_OPTION_TEXT, .offset = AT(csv), .arg = "CSVDIR",
     .help = "Also write the data of every chart as CSV files into this directory"},
    {.name = "threads", .type = PZ_OPTION_INT, .offset = AT(threads), .arg = "T", .min = 0, .max = 1024,
     .help = "Number of threads (default: 0, one per processor)"},
};
/* clang-format on */

static bool is_run_file(const char *dir, const char *file) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/run.sqlite", dir);
  return n > 0 && (size_t)n < sizeof path && pz_file_same(path, file);
}

static void report(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  struct pz_progress progress;
  struct pz_run *run = NULL;
  if (!pz_command_options(call, in, &s)) return;
  const char *dir = in->args[0];
  if (in->n_args != 1) pz_command_refuse(call, in, "expected one run directory");
  if (s.file && is_run_file(dir, s.file))
    pz_command_refuse(call, in, "--output would overwrite the run");
  const char *default_file = pz_report_path(call, dir);
  const char *file = s.file ? s.file : default_file;
  struct pz_run_options o = pz_run_options_default();
  o.dir = dir;
  o.threads = (unsigned)s.threads;
  o.progress = pz_command_progress;
  o.ctx = &progress;
  pz_progress_start(&progress, stderr,
                    s.common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr), "report",
                    "parts", 1);
  pz_must(call, pz_run_look(&o, &run, pz_call_error(call)));
  pz_defer(call, pz_study_run_close, run);
  pz_file_require_output(call, file, NULL, 0); /* asked before the long work */
  pz_report_complete(call, run);
  json_t *document = pz_report_write(call, pz_run_result(run), file, s.csv);
  if (s.common.json)
    pz_command_print_json(call, json_incref(document));
  else
    printf("%s\n", pz_text_plain(pz_copy_text(call, file)));
}

const struct pz_command pz_cmd_report = {
    .name = "report",
    .synopsis = "DIR [-o FILE.html] [--csv CSVDIR] [--threads T]",
    .summary = "Write a finished search as one self-contained HTML page",
    .detail = "DIR is the run directory of 'phaze search -o DIR' or 'phaze compare -o DIR'. The\n"
              "page opens offline. It shows the best chip and its plans, the baselines, every\n"
              "evaluated chip, floorplan, schedules, pipeline, memory, step time, sensitivity,\n"
              "the optimality certificate and the inputs. The same run always gives the same\n"
              "bytes.\n"
              "\n"
              "Examples:\n"
              "  phaze report run\n"
              "  phaze report run -o six-models.html --csv tables\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .body = report,
};
