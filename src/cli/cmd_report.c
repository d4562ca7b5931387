/* phaze report: writes a saved run as one HTML file, and the data of its charts as CSV files. */
#include "cli/command.h"
#include "cli/study.h"
#include "core/file.h"
#include "core/text.h"
#include "report/page.h"
#include "report/report_data.h"

struct settings {
  struct pz_common common;
  const char *file, *csv;
  int64_t threads;
};

static const struct settings defaults;

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_TEXT_OPTION("output", AT(file), "FILE.html", "Write the page to this file (default: DIR/report.html)", .letter = 'o'),
    PZ_TEXT_OPTION("csv", AT(csv), "CSVDIR", "Also write the data of every chart as CSV files into this directory"),
    PZ_INT_OPTION("threads", AT(threads), "T", 0, 1024, "Number of threads (default: 0, one per processor)"),
};
/* clang-format on */

/* Computes what the report of a saved run needs, and writes the page and the CSV files. */
static void report(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  struct pz_progress progress;
  struct pz_run *run = NULL;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *dir = invocation->args[0];
  if (invocation->n_args != 1) pz_command_refuse(call, invocation, "expected one run directory");
  if (settings.file && pz_file_same(pz_format(call, "%s/run.sqlite", dir), settings.file))
    pz_command_refuse(call, invocation, "--output would overwrite the run");
  const char *default_file = pz_report_path(call, dir);
  const char *file = settings.file ? settings.file : default_file;
  struct pz_run_options options = pz_run_options_default();
  options.dir = dir;
  options.threads = (unsigned)settings.threads;
  options.progress = pz_command_progress;
  options.ctx = &progress;
  pz_progress_start(&progress, stderr,
                    settings.common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr),
                    "report", "parts", 1);
  pz_must(call, pz_run_look(&options, &run, pz_call_error(call)));
  pz_defer(call, pz_study_run_close, run);
  pz_file_require_output(call, file, NULL, 0); /* fails before the long work, not after it */
  pz_report_complete(call, run);
  json_t *document = pz_report_document(call, pz_run_result(run));
  struct pz_buffer *page = pz_page_html(call, "report_page", document);
  pz_file_save(call, file, page->text, page->bytes);
  if (settings.csv) pz_dataset_save(call, json_object_get(document, "datasets"), settings.csv);
  if (settings.common.json)
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = report,
};
