/* The steps of a search as a command, in the order in which they are called: pz_study_run_begin(), _open(), _search() and
 * _report(), all inside pz_study_run_work(). */
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
  if (s->fresh && !s->dir) return "--fresh requires --output DIR";
  return NULL;
}

void pz_study_run_work(struct pz_call *call, struct pz_invocation *in,
                       const struct pz_study_settings *s, pz_call_fn *work, void *ctx) {
  struct pz_error err = {0};
  enum pz_status status = pz_border(work, ctx, &err);
  if (status == PZ_OK) return;
  if (status != PZ_STOPPED) pz_raise_again(call, &err);
  if (s->dir)
    pz_command_say("interrupted; run the same command to resume from %s", s->dir);
  else
    pz_command_say("interrupted; nothing was saved (use -o DIR for a run that can be resumed)");
  in->exit = PZ_EXIT_STOPPED;
}

void pz_study_run_begin(struct pz_call *call, struct pz_study_run *r, char **models, int n_models) {
  r->options = pz_run_options_default();
  r->options.dir = r->s->dir;
  r->options.fresh = r->s->fresh;
  r->options.threads = (unsigned)r->s->threads;
  r->options.progress = pz_command_progress;
  r->options.ctx = &r->progress;
  r->start_s = pz_clock_s();
  pz_command_progress_start(&r->progress, r->common->quiet, true);
  r->study = pz_study_options_of(call, r->s, models, n_models);
}

void pz_study_run_close(void *run) { pz_run_close(run); }

/* Prints warnings about models, about values that were removed from lists, and about a network that was scaled out.  A
 * warning about lists is printed only if the user gave one of these lists. */
static void print_notes(const struct pz_study_run *r) {
  unsigned given_lists = 0, lists = 0;
  if (r->s->original.tp) given_lists |= PZ_LIST_TP;
  if (r->s->original.mbs) given_lists |= PZ_LIST_MBS;
  for (uint32_t i = 0;; i++) {
    const char *text = pz_run_note(r->run, i, &lists);
    if (!text) break;
    if (!lists || lists & given_lists) pz_command_warn(r->common->quiet, text);
  }
  if (!r->common->quiet && pz_run_cluster(r->run)) pz_machine_tell_scale(pz_run_cluster(r->run));
}

void pz_study_run_open(struct pz_call *call, struct pz_study_run *r) {
  pz_must(call, pz_run_open(&r->study, &r->options, &r->run, pz_call_error(call)));
  pz_defer(call, pz_study_run_close, r->run);
  print_notes(r);
}

void pz_study_run_search(struct pz_call *call, struct pz_study_run *r) {
  pz_ranks_watch(pz_command_listen());
  pz_must(call, pz_run_search(r->run, pz_call_error(call)));
  if (pz_run_reused(r->run) && !r->common->quiet)
    pz_command_say("%s holds the finished result; use --fresh to search again", r->s->dir);
}

void pz_study_run_report(struct pz_call *call, struct pz_study_run *r) {
  if (!r->s->dir || r->s->no_report) return;
  const char *path = pz_report_path(call, r->s->dir);
  pz_report_complete(call, r->run);
  if (!pz_ranks_first()) return;
  bool written = pz_report_update(call, pz_run_result(r->run), path);
  if (written && !r->common->quiet) pz_command_say("report written to %s", path);
}
