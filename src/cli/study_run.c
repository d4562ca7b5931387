#include "cli/study_run.h"

#include <signal.h>

#include "cli/machine_options.h"
#include "cli/report_file.h"

static atomic_bool stop;

static void on_signal(int sig) {
  (void)sig;
  atomic_store(&stop, true);
}

static void listen_for_signals(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
}

/* The first phase; those that follow are begun where the work is. */
static void begin_progress(struct pz_study_run *r) {
  enum pz_progress_style style =
      r->common->quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr);
  pz_progress_start(&r->progress, stderr, style, "models", "models", 1);
}

const char *pz_study_run_misuse(const struct pz_study_settings *s, int n_models) {
  if (n_models < 1) return "expected one or more MODELs";
  if (!s->pareto && s->pareto_tolerance != PZ_PARETO_TOLERANCE)
    return "--pareto-tolerance requires --pareto";
  if (s->no_report && !s->dir) return "--no-report requires --output DIR";
  return s->fresh && !s->dir ? "--fresh requires --output DIR" : NULL;
}

void pz_study_run_tell_notes(const struct pz_common *common, const struct pz_study_settings *s,
                             const struct pz_study *study) {
  pz_command_notes(common->quiet, &study->portfolio.notes,
                   (s->tp ? PZ_LIST_TP : 0u) | (s->mbs ? PZ_LIST_MBS : 0u));
  if (!common->quiet) pz_machine_tell_scale(&study->task.net);
}

enum pz_status pz_study_run_begin(struct pz_study_run *r, char **models, int n_models) {
  struct pz_study_options study;
  struct pz_run_options o = {.dir = r->s->dir,
                             .fresh = r->s->fresh,
                             .threads = (unsigned)r->s->threads,
                             .watch = {&stop, &r->progress}};
  r->start_s = pz_clock_s();
  begin_progress(r);
  enum pz_status status = pz_study_read(r->s, models, n_models, &study, r->err);
  if (status == PZ_OK) status = pz_run_open(&r->run, &study, &o, r->err);
  if (r->run.has_study) pz_study_run_tell_notes(r->common, r->s, &r->run.study);
  return status;
}

enum pz_status pz_study_run_search(struct pz_study_run *r) {
  listen_for_signals();
  enum pz_status status = pz_run_search(&r->run, r->err);
  if (status == PZ_OK && r->run.reused && !r->common->quiet)
    pz_command_say("%s holds the finished result; use --fresh to search again", r->s->dir);
  return status;
}

static bool stands(const char *path) {
  FILE *f = fopen(path, "rb");
  if (f) fclose(f);
  return f != NULL;
}

enum pz_status pz_study_run_report(struct pz_study_run *r) {
  char path[4096];
  if (!r->run.file || r->s->no_report) return PZ_OK;
  enum pz_status status = pz_report_path(r->s->dir, path, sizeof path, r->err);
  if (status != PZ_OK || (!r->run.changed && stands(path))) return status;
  status = pz_run_detail(&r->run, r->err);
  if (status == PZ_OK && !r->run.result.comparison) status = pz_run_compare(&r->run, NULL, r->err);
  if (status == PZ_OK) status = pz_report_write(&r->run.result, path, NULL, NULL, r->err);
  if (status == PZ_OK && !r->common->quiet) pz_command_say("report written to %s", path);
  return status;
}

/* ---- its end -------------------------------------------------------------------------------- */

static void say_how_to_go_on(const struct pz_study_settings *s) {
  if (s->dir)
    pz_command_say("interrupted; run the same command to resume from %s", s->dir);
  else
    pz_command_say("interrupted; nothing was saved (use -o DIR for a run that can be resumed)");
}

enum pz_exit pz_study_run_end(struct pz_study_run *r, enum pz_status status) {
  pz_run_close(&r->run);
  if (status == PZ_OK) return pz_command_end();
  if (status != PZ_STOPPED) return pz_command_fail(r->err);
  say_how_to_go_on(r->s);
  return PZ_EXIT_STOPPED;
}
