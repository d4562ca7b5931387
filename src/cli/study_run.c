#include "cli/study_run.h"

#include <signal.h>

#include "cli/kept_run.h"
#include "cli/machine_options.h"
#include "cli/report_file.h"
#include "report/comparison.h"
#include "report/report_data.h"
#include "report/result_table.h"
#include "study/resume.h"
#include "study/run_read.h"

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
  struct pz_study_options o;
  r->start_s = pz_clock_s();
  r->search_s = json_object();
  begin_progress(r);
  enum pz_status status = pz_study_read(r->s, models, n_models, &o, r->err);
  if (status == PZ_OK) status = pz_study_init(&r->study, &o, (unsigned)r->s->threads, r->err);
  if (status == PZ_OK) pz_study_run_tell_notes(r->common, r->s, &r->study);
  if (status == PZ_OK && r->s->dir)
    status = pz_kept_run_open(r->s->dir, &r->study, r->s->fresh, &r->file, r->err);
  return status;
}

/* ---- the search ----------------------------------------------------------------------------- */

static void lap(struct pz_study_run *r, const char *what, double *since_s) {
  double now = pz_clock_s();
  json_object_set_new(r->search_s, what, json_real(now - *since_s));
  *since_s = now;
}

static enum pz_status run_runs(struct pz_study_run *r) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < r->study.n_runs && status == PZ_OK; i++) {
    double since = pz_clock_s();
    status = pz_study_run(&r->study, i, r->err);
    r->objective_run_s[i] = pz_clock_s() - since;
  }
  return status;
}

/* All of it, from the bounds to the result. */
static enum pz_status run_study(struct pz_study_run *r) {
  struct pz_search_options o = {.progress = &r->progress,
                                .stop = &stop,
                                .journal = r->file ? pz_run_file_journal(r->file) : NULL};
  struct pz_step steps[PZ_MOST_STEPS];
  struct pz_searched_extra extra = {.steps = steps};
  struct pz_front front;
  double since = r->start_s;
  enum pz_status status = pz_study_prepare(&r->study, &o, r->err);
  lap(r, "bounds_s", &since);
  if (status == PZ_OK) status = run_runs(r);
  lap(r, "search_s", &since);
  if (status == PZ_OK)
    status = pz_sensitivity(&r->study, &r->study.objective_run[r->study.n_runs - 1], steps,
                            &extra.n_steps, r->err);
  lap(r, "sensitivity_s", &since);
  if (status == PZ_OK && r->study.o.pareto) {
    status = pz_front_find(&r->study, &front, r->err);
    if (status == PZ_OK) pz_front_thin(&front, r->study.o.pareto_tolerance);
    extra.front = &front;
    lap(r, "pareto_s", &since);
  }
  if (status == PZ_OK) status = pz_searched_json(&r->study, &extra, &r->result, r->err);
  lap(r, "report_s", &since);
  json_object_set_new(r->search_s, "evaluations",
                      json_integer((json_int_t)pz_search_variants(r->study.search)));
  return status;
}

enum pz_status pz_study_run_search(struct pz_study_run *r) {
  enum pz_status status = r->file ? pz_finished_result(r->file, &r->result, r->err) : PZ_OK;
  if (status != PZ_OK) return status;
  if (r->result) {
    json_object_set_new(r->search_s, "reused", json_true());
    if (!r->common->quiet)
      pz_command_say("%s holds the finished result; use --fresh to search again", r->s->dir);
    return PZ_OK;
  }
  listen_for_signals();
  r->news = true;
  status = run_study(r);
  if (status == PZ_OK && r->file)
    status = pz_kept_run_finish(r->file, &r->study, r->result, r->search_s, r->err);
  return status;
}

/* ---- the comparison ------------------------------------------------------------------------- */

/* The study in memory as it is when its objective runs have been run. */
static enum pz_status have_objective_runs(struct pz_study_run *r) {
  struct pz_watch watch = {&stop, &r->progress};
  listen_for_signals();
  return r->study.search ? PZ_OK : pz_resume_runs(&r->study, r->file, r->result, watch, r->err);
}

static void add_objective_run_times(struct pz_study_run *r) {
  for (uint32_t i = 0; i < r->study.n_runs; i++)
    if (r->objective_run_s[i] > 0)
      json_object_set_new(json_object_get(r->way_s, pz_study_run_name(&r->study, i)), "search",
                          json_real(r->objective_run_s[i]));
}

static enum pz_status run_ways(struct pz_study_run *r, uint64_t seed) {
  struct pz_compared_task task = {&r->study, seed, &stop, &r->progress};
  enum pz_status status = have_objective_runs(r);
  if (status != PZ_OK) return status;
  status = pz_compared_make(&task, &r->comparison, &r->way_s, r->err);
  if (status != PZ_OK) return status;
  add_objective_run_times(r);
  r->news = true;
  return r->file ? pz_kept_run_compared(r->file, r->comparison, r->err) : PZ_OK;
}

enum pz_status pz_study_run_compare(struct pz_study_run *r, const uint64_t *seed) {
  json_t *kept = NULL;
  enum pz_status status = r->file ? pz_finished_comparison(r->file, &kept, r->err) : PZ_OK;
  if (status != PZ_OK) return status;
  if (kept && (!seed || pz_compared_seed(kept) == *seed)) {
    r->comparison = kept;
    return pz_compared_check(&r->study, kept, r->err);
  }
  json_decref(kept);
  return run_ways(r, seed ? *seed : PZ_COMPARED_SEED);
}

/* ---- its report ----------------------------------------------------------------------------- */

static enum pz_status make_story(struct pz_study_run *r, json_t **document) {
  enum pz_status status = r->comparison ? PZ_OK : pz_study_run_compare(r, NULL);
  if (status == PZ_OK) status = have_objective_runs(r);
  if (status != PZ_OK) return status;
  struct pz_story t = {.study = &r->study,
                       .file = r->file,
                       .result = r->result,
                       .comparison = r->comparison,
                       .stop = &stop,
                       .progress = &r->progress,
                       .err = r->err};
  return pz_story_make(&t, document);
}

static bool stands(const char *path) {
  FILE *f = fopen(path, "rb");
  if (f) fclose(f);
  return f != NULL;
}

enum pz_status pz_study_run_report(struct pz_study_run *r) {
  char path[4096];
  json_t *document = NULL;
  if (!r->file || r->s->no_report) return PZ_OK;
  enum pz_status status = pz_report_path(r->s->dir, path, sizeof path, r->err);
  if (status != PZ_OK || (!r->news && stands(path))) return status;
  status = make_story(r, &document);
  if (status == PZ_OK) status = pz_report_write(document, path, NULL, r->err);
  json_decref(document);
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
  pz_run_file_close(r->file);
  pz_study_release(&r->study);
  json_decref(r->result);
  json_decref(r->search_s);
  json_decref(r->comparison);
  json_decref(r->way_s);
  if (status == PZ_OK) return pz_command_end();
  if (status != PZ_STOPPED) return pz_command_fail(r->err);
  say_how_to_go_on(r->s);
  return PZ_EXIT_STOPPED;
}
