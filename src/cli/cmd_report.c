/* phaze report: a run as one HTML file. */
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

/* The run's result with all that a report shows: what the run does not have is made. */
static enum pz_status complete(struct pz_run *r, struct pz_error *err) {
  enum pz_status status = pz_run_detail(r, err);
  bool baselines = status == PZ_OK && !pz_run_result(r)->training_detail;
  return baselines ? pz_run_compare(r, NULL, err) : status;
}

static enum pz_status make(const struct settings *s, const char *dir, const char *file,
                           json_t **document, struct pz_error *err) {
  struct pz_run *r = NULL;
  struct pz_progress progress;
  enum pz_progress_style style =
      s->common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr);
  struct pz_run_options o = pz_run_options_default();
  o.dir = dir;
  o.threads = (unsigned)s->threads;
  o.progress = pz_command_progress;
  o.ctx = &progress;
  pz_progress_start(&progress, stderr, style, "report", "parts", 1);
  enum pz_status status = pz_run_look(&o, &r, err);
  if (status == PZ_OK) status = pz_file_output(file, NULL, 0, err); /* asked before long work */
  if (status == PZ_OK) status = complete(r, err);
  if (status == PZ_OK)
    status = pz_report_write(pz_run_result(r), file, s->csv, s->common.json ? document : NULL, err);
  pz_run_close(r);
  return status;
}

static enum pz_status report(const struct settings *s, const char *dir, struct pz_error *err) {
  char path[4096];
  const char *file = s->file ? s->file : path;
  json_t *document = NULL;
  enum pz_status status = pz_report_path(dir, path, sizeof path, err);
  if (status == PZ_OK) status = make(s, dir, file, &document, err);
  if (status == PZ_OK && s->common.json)
    status = pz_command_json(document, err);
  else if (status == PZ_OK)
    printf("%s\n", pz_text_plain(s->file ? pz_text_copy(path, sizeof path, file) : path));
  return status;
}

static bool is_run(const char *dir, const char *file) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/run.sqlite", dir);
  return n > 0 && (size_t)n < sizeof path && pz_file_same(path, file);
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_error err = {0};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_report, argc, argv, &s, &n_args, &code)) return code;
  if (n_args != 1) return pz_command_misuse(&pz_cmd_report, "expected one run directory");
  if (s.file && is_run(argv[1], s.file))
    return pz_command_misuse(&pz_cmd_report, "--output would overwrite the run");
  return report(&s, argv[1], &err) == PZ_OK ? pz_command_end() : pz_command_fail(&err);
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
    .run = run,
};
