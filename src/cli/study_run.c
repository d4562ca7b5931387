#include "cli/study_run.h"

#include "cli/machine_options.h"
#include "cli/report_file.h"
#include "core/ranks.h"
#include "ranks/start.h"

const char *pz_study_run_misuse(const struct pz_study_settings *s, int n_models) {
  if (n_models < 1) return "expected one or more MODELs";
  if (!s->pareto && s->pareto_tolerance != PZ_PARETO_TOLERANCE)
    return "--pareto-tolerance requires --pareto";
  if (s->no_report && !s->dir) return "--no-report requires --output DIR";
  return s->fresh && !s->dir ? "--fresh requires --output DIR" : NULL;
}

/* Warnings about models, what was left out of lists, and a network that was scaled out; not with
 * -q. */
static void tell_notes(const struct pz_study_run *r) {
  unsigned wrote = (r->s->original.tp ? PZ_LIST_TP : 0u) | (r->s->original.mbs ? PZ_LIST_MBS : 0u),
           lists = 0;
  const char *text;
  for (uint32_t i = 0; (text = pz_run_note(r->run, i, &lists)); i++)
    if (!lists || lists & wrote) pz_command_warn(r->common->quiet, text);
  if (!r->common->quiet && pz_run_cluster(r->run)) pz_machine_tell_scale(pz_run_cluster(r->run));
}

enum pz_status pz_study_run_begin(struct pz_study_run *r, char **models, int n_models, bool open) {
  struct pz_run_options o = pz_run_options_default();
  o.dir = r->s->dir;
  o.fresh = r->s->fresh;
  o.threads = (unsigned)r->s->threads;
  o.progress = pz_command_progress;
  o.ctx = &r->progress;
  r->start_s = pz_clock_s();
  pz_command_progress_start(&r->progress, r->common->quiet, true);
  enum pz_status status = pz_study_read(r->s, models, n_models, &r->study, r->err);
  r->options = o;
  if (status != PZ_OK || !open) return status;
  status = pz_run_open(&r->study, &o, &r->run, r->err);
  if (status == PZ_OK) tell_notes(r);
  return status;
}

enum pz_status pz_study_run_search(struct pz_study_run *r) {
  pz_ranks_watch(pz_command_listen());
  enum pz_status status = pz_run_search(r->run, r->err);
  if (status == PZ_OK && pz_run_reused(r->run) && !r->common->quiet)
    pz_command_say("%s holds the finished result; use --fresh to search again", r->s->dir);
  return status;
}

enum pz_status pz_study_run_report(struct pz_study_run *r) {
  char path[4096];
  bool written = false;
  if (!r->s->dir || r->s->no_report) return PZ_OK;
  enum pz_status status = pz_report_path(r->s->dir, path, sizeof path, r->err);
  if (status == PZ_OK) status = pz_run_detail(r->run, r->err);
  if (status == PZ_OK && !pz_run_result(r->run)->training_detail)
    status = pz_run_compare(r->run, NULL, r->err);
  if (status == PZ_OK && pz_ranks_first())
    status = pz_report_update(pz_run_result(r->run), path, &written, r->err);
  if (status == PZ_OK && written && !r->common->quiet) pz_command_say("report written to %s", path);
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
  pz_run_close(r->run);
  if (status == PZ_OK) return pz_command_end();
  if (status != PZ_STOPPED) return pz_command_fail(r->err);
  say_how_to_go_on(r->s);
  return PZ_EXIT_STOPPED;
}
