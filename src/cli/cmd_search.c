/* phaze search: the best chip of a space for models, and how a cluster of it trains them. */
#include <signal.h>
#include <stdlib.h>

#include "cli/kept_run.h"
#include "cli/report_file.h"
#include "cli/study_options.h"
#include "report/searched.h"
#include "report/story.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
  bool exhaustive, pareto, fresh, no_report;
  const char *dir;
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_STUDY_OPTIONS(struct settings, study),
    {.name = "exhaustive", .type = PZ_OPTION_FLAG, .offset = AT(exhaustive),
     .help = "Evaluate every chip instead of excluding by bounds: the same answer, much later"},
    {.name = "pareto", .type = PZ_OPTION_FLAG, .offset = AT(pareto),
     .help = "Also the front of throughput against area and watts"},
    {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = AT(dir), .arg = "DIR",
     .help = "Keep the run there: go on with one that was interrupted, answer from one that has finished"},
    {.name = "fresh", .type = PZ_OPTION_FLAG, .offset = AT(fresh),
     .help = "With --output: begin anew; an earlier run is moved aside"},
    {.name = "no-report", .type = PZ_OPTION_FLAG, .offset = AT(no_report),
     .help = "With --output: do not write DIR/report.html, the run as a page to look at"},
};
/* clang-format on */

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

/* ---- one run -------------------------------------------------------------------------------- */

struct job {
  const struct settings *s;
  struct pz_study study;
  struct pz_run_file *file; /* NULL: the run is not kept */
  struct pz_progress progress;
  json_t *result, *timing;
  double start_s;
  struct pz_error *err;
};

static void lap(struct job *j, const char *what, double *since_s) {
  double now = pz_clock_s();
  json_object_set_new(j->timing, what, json_real(now - *since_s));
  *since_s = now;
}

static void begin_progress(struct job *j, const char *label) {
  enum pz_progress_style style =
      j->s->common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr);
  pz_progress_start(&j->progress, stderr, style, label, "chips", j->study.n_points);
}

static enum pz_status run_contests(struct job *j) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < j->study.n_contests && status == PZ_OK; i++) {
    begin_progress(j, pz_study_contest_name(&j->study, i));
    status = pz_study_contest(&j->study, i, j->err);
    pz_progress_finish(&j->progress, NULL);
  }
  return status;
}

/* All of it, from the bounds to the result. */
static enum pz_status run_study(struct job *j) {
  struct pz_search_options o = {.progress = &j->progress,
                                .stop = &stop,
                                .journal = j->file ? pz_run_file_journal(j->file) : NULL};
  struct pz_step steps[PZ_MOST_STEPS];
  struct pz_searched_extra extra = {.steps = steps};
  struct pz_front front;
  double since = j->start_s;
  enum pz_status status = pz_study_prepare(&j->study, &o, j->err);
  lap(j, "bounds_s", &since);
  if (status == PZ_OK) status = run_contests(j);
  lap(j, "search_s", &since);
  if (status == PZ_OK)
    status = pz_sensitivity(&j->study, &j->study.contest[j->study.n_contests - 1], steps,
                            &extra.n_steps, j->err);
  lap(j, "sensitivity_s", &since);
  if (status == PZ_OK && j->study.o.pareto) {
    status = pz_front_find(&j->study, &front, j->err);
    extra.front = &front;
    lap(j, "pareto_s", &since);
  }
  if (status == PZ_OK) status = pz_searched_json(&j->study, &extra, &j->result, j->err);
  lap(j, "report_s", &since);
  json_object_set_new(j->timing, "evaluations",
                      json_integer((json_int_t)pz_search_loads(j->study.search)));
  return status;
}

static enum pz_status tell(struct job *j) {
  struct pz_arena arena;
  json_object_set_new(j->timing, "total_s", json_real(pz_clock_s() - j->start_s));
  json_object_set_new(j->timing, "threads", json_integer(pz_pool_threads(j->study.pool)));
  json_object_set(j->result, "timing", j->timing);
  if (j->s->common.json) return pz_command_json(json_incref(j->result), j->err);
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_searched_print(j->result, &arena, stdout);
  pz_arena_release(&arena);
  return status;
}

/* ---- its report ----------------------------------------------------------------------------- */

/* From what the search has in memory, or for a run that had finished before from its file. */
static enum pz_status make_story(struct job *j, json_t **document) {
  struct pz_story t = {.study = &j->study,
                       .file = j->file,
                       .result = j->result,
                       .stop = &stop,
                       .progress = &j->progress,
                       .err = j->err};
  begin_progress(j, "report");
  j->progress.unit = "parts";
  enum pz_status status = j->study.search ? pz_story_make(&t, document)
                                          : pz_story_of_run(j->file, (unsigned)j->s->study.threads,
                                                            &j->progress, document, j->err);
  pz_progress_finish(&j->progress, NULL);
  return status;
}

static bool stands(const char *path) {
  FILE *f = fopen(path, "rb");
  if (f) fclose(f);
  return f != NULL;
}

/* DIR/report.html; one that stands beside a finished run is left, since it would be the same. */
static enum pz_status write_report(struct job *j) {
  char path[4096];
  json_t *document = NULL;
  if (!j->file || j->s->no_report) return PZ_OK;
  enum pz_status status = pz_report_path(j->s->dir, path, sizeof path, j->err);
  if (status != PZ_OK || (!j->study.search && stands(path))) return status;
  status = make_story(j, &document);
  if (status == PZ_OK) status = pz_report_write(document, path, NULL, j->err);
  json_decref(document);
  if (status == PZ_OK && !j->s->common.quiet) fprintf(stderr, "phaze: %s shows it\n", path);
  return status;
}

/* From the run directory if it has the answer already. */
static enum pz_status answer(struct job *j) {
  enum pz_status status = PZ_OK;
  if (j->s->dir) status = pz_kept_run_open(j->s->dir, &j->study, j->s->fresh, &j->file, j->err);
  if (status == PZ_OK && j->file) status = pz_kept_run_result(j->file, &j->result, j->err);
  if (status != PZ_OK) return status;
  if (j->result) {
    json_object_set_new(j->timing, "reused", json_true());
    if (!j->s->common.quiet)
      fprintf(stderr, "phaze: %s has this run's result; --fresh searches again\n", j->s->dir);
    return PZ_OK;
  }
  listen_for_signals();
  status = run_study(j);
  if (status == PZ_OK && j->file)
    status = pz_kept_run_finish(j->file, &j->study, j->result, j->timing, j->err);
  return status;
}

static void say_how_to_go_on(const struct settings *s) {
  if (s->dir)
    fprintf(stderr, "phaze: stopped; %s is whole: the same command goes on from there\n", s->dir);
  else
    fprintf(stderr, "phaze: stopped; with -o DIR the same command would go on from there\n");
}

static enum pz_status search(const struct settings *s, char **models, int n, struct pz_error *err) {
  struct pz_study_options o;
  struct job j = {.s = s, .err = err, .start_s = pz_clock_s(), .timing = json_object()};
  enum pz_status status = pz_study_read(&s->study, models, n, &o, err);
  o.exhaustive = s->exhaustive;
  o.pareto = s->pareto;
  if (status == PZ_OK) status = pz_study_init(&j.study, &o, (unsigned)s->study.threads, err);
  if (status == PZ_OK) {
    status = answer(&j);
    if (status == PZ_OK) status = tell(&j);
    if (status == PZ_OK) status = write_report(&j);
    pz_run_file_close(j.file);
    pz_study_release(&j.study);
  }
  json_decref(j.result);
  json_decref(j.timing);
  return status;
}

/* What is wrong with the use, or NULL. */
static const char *misuse(const struct settings *s, int n_args) {
  if (n_args < 1) return "wants one or more MODELs";
  if (s->no_report && !s->dir) return "--no-report goes with --output DIR";
  return s->fresh && !s->dir ? "--fresh goes with --output DIR" : NULL;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_error err = {0};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_search, argc, argv, &s, &n_args, &code)) return code;
  const char *wrong = misuse(&s, n_args);
  if (wrong) return pz_command_misuse(&pz_cmd_search, wrong);
  enum pz_status status = search(&s, argv + 1, n_args, &err);
  if (status == PZ_STOPPED) {
    say_how_to_go_on(&s);
    return PZ_EXIT_STOPPED;
  }
  return status == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

const struct pz_command pz_cmd_search = {
    .name = "search",
    .synopsis =
        "MODEL... [--space SPACE] [--budget CHIP|MM2] [--cluster NET] [--devices N] [--batch "
        "B] [--mbs LIST] [--hbm LIST] [--tp LIST] [--objective ...] [--threads T] [-o DIR]",
    .summary = "The best chip of a space for models, with a proof that none is better",
    .detail =
        "Every chip of the space is evaluated (each layer's schedule, then the placement) or\n"
        "excluded by a bound that holds for it.  The answer is the best chip common to all models\n"
        "and the best for each alone.  Objectives: throughput (the geometric mean over the\n"
        "reference: tpuv4 with the expert plan), mean (of samples/s), weighted, regret (the least\n"
        "part that a model keeps of its own best), per-watt, per-mm2.\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
