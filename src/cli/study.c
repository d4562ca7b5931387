/* The commands that search (study.h).  pz_study_misuse() checks that options and evaluator go
 * together; read_options() parses lists and numbers that the tables of options leave as text.
 * The steps of a search follow in the order in which they are called: pz_study_run_begin(),
 * _open(), _search() and _report(), all inside pz_study_run_work().  The last section
 * makes the page of a report, or compares a saved report with it. */
#include "cli/study.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/machine_options.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/options.h"
#include "core/ranks.h"
#include "ranks/start.h"

const char *const pz_optimizer_names[] = {"adam", "sgd", NULL};
const char *const pz_semantics_names[] = {"corrected", "training", NULL};
const char *const pz_rules_names[] = {"corrected", "original", NULL};
const char *const pz_study_execution_names[] = {"scheduled", "serial", NULL};
const char *const pz_per_names[] = {"chip", "dollar", "watt", "ownership", "joule", NULL};

/* ---- options -------------------------------------------------------------------------------- */

/* Returns the chosen evaluator (maybe by the older --semantics), or that of the space. */
static enum pz_evaluator_kind evaluator_of(const struct pz_study_settings *study) {
  if (study->evaluator) return (enum pz_evaluator_kind)study->evaluator;
  if (study->semantics >= 0)
    return study->semantics ? PZ_EVALUATOR_TRAINING : PZ_EVALUATOR_ORIGINAL;
  return strcmp(study->space, "paper") == 0 ? PZ_EVALUATOR_ORIGINAL : PZ_EVALUATOR_TRAINING;
}

/* Returns an error message if options require others that are missing, otherwise NULL. */
const char *pz_study_run_misuse(const struct pz_study_settings *study, int n_models) {
  if (n_models < 1) return "expected one or more MODELs";
  if (!study->pareto && study->pareto_tolerance != PZ_PARETO_TOLERANCE)
    return "--pareto-tolerance requires --pareto";
  if (study->no_report && !study->dir) return "--no-report requires --output DIR";
  if (study->fresh && !study->dir) return "--fresh requires --output DIR";
  return NULL;
}

/* Returns an error message if options belong to the other evaluator or exclude each other. */
const char *pz_study_misuse(struct pz_call *call, const struct pz_command *command,
                            const void *settings, const struct pz_study_settings *study) {
  static const struct pz_study_settings standard = PZ_STUDY_SETTINGS_DEFAULT;
  bool training = evaluator_of(study) == PZ_EVALUATOR_TRAINING;
  const char *settings_bytes = settings;
  size_t study_offset = (size_t)((const char *)study - settings_bytes);
  /* the range of the options of the other evaluator in the settings of the command */
  size_t begin_offset = study_offset + (training ? offsetof(struct pz_study_settings, original)
                                                 : offsetof(struct pz_study_settings, training));
  size_t end_offset = begin_offset + (training ? sizeof study->original : sizeof study->training);
  for (size_t i = 0; i < command->table.n; i++) {
    const struct pz_option *option = &command->table.options[i];
    if (option->offset < begin_offset || option->offset >= end_offset) continue;
    /* a pointer, int64_t or double has 8 bytes */
    size_t bytes = option->type == PZ_OPTION_CHOICE ? sizeof(int) : 8;
    const char *standard_value = (const char *)&standard + option->offset - study_offset;
    if (memcmp(settings_bytes + option->offset, standard_value, bytes) == 0) continue;
    char name[40];
    return pz_format(call, "--%s requires --evaluator %s",
                     pz_option_name(option->name, name, sizeof name),
                     training ? "original" : "training");
  }
  if (study->evaluator && study->semantics >= 0)
    return "--evaluator and --semantics cannot be combined";
  if (study->objective && study->per >= 0) return "--objective and --per cannot be combined";
  return NULL;
}

/* Parses a gap, as "1%" or "0.01", and returns it as a fraction. */
static double parse_gap(struct pz_call *call, const char *text) {
  char *end;
  double gap = strtod(text, &end);
  if (end != text && strcmp(end, "%") == 0) {
    gap /= 100;
    end++;
  }
  bool valid = end != text && !*end && gap >= 0 && gap <= 1;
  if (!valid) pz_raise(call, PZ_BAD_USE, "--gap %.40s; accepted: 0%% to 100%%", text);
  return gap;
}

/* Parses one positive number for each of n models. */
static void parse_weights(struct pz_call *call, const char *text, uint32_t n, double *weights) {
  const char *position = text;
  for (uint32_t i = 0; i < n; i++) {
    char *end;
    weights[i] = strtod(position, &end);
    bool positive = end != position && weights[i] > 0 && weights[i] < 1e9;
    char expected_end = i + 1 < n ? ',' : '\0';
    if (!positive || *end != expected_end)
      pz_raise(call, PZ_BAD_USE,
               "--weights '%s'; accepted: one number above 0 for each of the %u models, "
               "comma-separated",
               text, n);
    position = end + 1;
  }
}

struct devices_list {
  const char *text;
  struct pz_choices devices;
};

/* Reads a list of numbers of devices under a border, whose error parse_devices() replaces. */
static void read_devices(struct pz_call *call, void *ctx) {
  struct devices_list *list = ctx;
  list->devices = pz_choices_read(call, list->text, "devices", 1 << 30);
}

/* Parses --devices and returns the largest number; a list requires several_devices. */
static int64_t parse_devices(struct pz_call *call, const struct pz_study_settings *study) {
  struct devices_list list = {study->devices, {.n = 0}};
  struct pz_error error = {0};
  bool is_list = pz_border(read_devices, &list, &error) == PZ_OK;
  if (study->several_devices && !is_list) pz_raise_again(call, &error);
  if (!study->several_devices && (!is_list || list.devices.n > 1))
    pz_raise(call, PZ_BAD_USE, "--devices: '%.40s'; accepted: an integer from 1 to 1073741824%s",
             list.text, is_list ? ", several with 'phaze compare --chips --tokens'" : "");
  return list.devices.v[list.devices.n - 1];
}

/* Returns the options of a study of these models. */
static struct pz_study_options read_options(struct pz_call *call,
                                            const struct pz_study_settings *study, char **models,
                                            int n_models) {
  static const enum pz_objective_kind per_objective[] = {
      PZ_OBJECTIVE_GEOMEAN, PZ_OBJECTIVE_PER_DOLLAR, PZ_OBJECTIVE_PER_WATT,
      PZ_OBJECTIVE_PER_OWNERSHIP, PZ_OBJECTIVE_PER_JOULE};
  const char *mbs = study->original.mbs, *hbm = study->original.hbm, *tp = study->original.tp;
  struct pz_study_options options = pz_study_options_default();
  if (n_models > PZ_SEARCH_MOST_MODELS)
    pz_raise(call, PZ_BAD_USE, "%d models; accepted: at most %d", n_models, PZ_SEARCH_MOST_MODELS);
  for (int i = 0; i < n_models; i++) options.models[options.n_models++] = models[i];
  options.space = study->space;
  options.node = study->node;
  options.budget = study->budget;
  options.limit_mm2 = study->limit_mm2;
  options.limit_watts = study->limit_watts;
  options.limit_dollars = study->limit_dollars;
  options.evaluator = evaluator_of(study);
  options.devices = parse_devices(call, study);
  options.batch = study->batch;
  options.workload = pz_workload_import(&study->import);
  options.workload.seq = study->seq;
  options.objective =
      study->per >= 0 ? per_objective[study->per] : (enum pz_objective_kind)study->objective;
  options.each_model = study->each_model;
  options.rounds = study->rounds;
  options.seconds = (double)study->seconds;
  options.exhaustive = study->exhaustive;
  options.pareto = study->pareto;
  options.pareto_tolerance = study->pareto_tolerance / 100;
  options.scale_up = study->training.scale_up;
  options.outer_bytes_per_s = study->training.outer_gb_per_s * 1e9;
  options.serial = study->training.serial;
  options.memory_margin = study->training.memory_margin;
  if (study->training.gap) options.gap = parse_gap(call, study->training.gap);
  if (study->original.cluster) options.cluster = study->original.cluster;
  options.steps = study->original.steps;
  /* bytes of weights, gradients and optimizer state per byte of weights, with SGD and Adam */
  options.state = study->original.optimizer ? 2 : 3;
  options.assumptions = study->original.rules ? PZ_ASSUME_ALL : 0;
  if (mbs) options.mbs = pz_choices_read(call, mbs, "mbs", 1 << 20);
  if (hbm) options.hbm_gib = pz_choices_read(call, hbm, "hbm", 1 << 20);
  if (tp) options.tp = pz_choices_read(call, tp, "tp", 1 << 20);
  while (!tp && options.tp.v[options.tp.n - 1] > options.devices)
    options.tp.n--; /* the first choice is 1 and stays */
  if (study->weights) {
    parse_weights(call, study->weights, options.n_models, options.weight);
    options.n_weight = options.n_models;
  }
  if ((study->weights != NULL) != (study->objective == PZ_OBJECTIVE_WEIGHTED))
    pz_raise(call, PZ_BAD_USE, "--weights and --objective weighted require each other");
  return options;
}

/* ---- one run -------------------------------------------------------------------------------- */

/* Runs work that a signal may interrupt, and then tells how the run can be resumed. */
void pz_study_run_work(struct pz_call *call, struct pz_invocation *invocation,
                       const struct pz_study_settings *study, pz_call_fn *work, void *ctx) {
  struct pz_error err = {0};
  enum pz_status status = pz_border(work, ctx, &err);
  if (status == PZ_OK) return;
  if (status != PZ_STOPPED) pz_raise_again(call, &err);
  if (study->dir)
    pz_command_say("interrupted; run the same command to resume from %s", study->dir);
  else
    pz_command_say("interrupted; nothing was saved (use -o DIR for a run that can be resumed)");
  invocation->exit = PZ_EXIT_STOPPED;
}

/* Sets the options of the run and of the study, and starts the progress display. */
void pz_study_run_begin(struct pz_call *call, struct pz_study_run *run, char **models,
                        int n_models) {
  run->options = pz_run_options_default();
  run->options.dir = run->settings->dir;
  run->options.fresh = run->settings->fresh;
  run->options.threads = (unsigned)run->settings->threads;
  run->options.progress = pz_command_progress;
  run->options.ctx = &run->progress;
  run->start_s = pz_clock_s();
  pz_command_progress_start(&run->progress, run->common->quiet, true);
  run->study = read_options(call, run->settings, models, n_models);
}

void pz_study_run_close(void *run) { pz_run_close(run); }

/* Opens the run, and prints warnings about models, about values that were removed from lists,
 * and about a network that was scaled out.  A warning about lists is printed only if the user
 * gave one of these lists. */
void pz_study_run_open(struct pz_call *call, struct pz_study_run *run) {
  unsigned given_lists = 0, lists = 0;
  bool quiet = run->common->quiet;
  pz_must(call, pz_run_open(&run->study, &run->options, &run->run, pz_call_error(call)));
  pz_defer(call, pz_study_run_close, run->run);
  if (run->settings->original.tp) given_lists |= PZ_LIST_TP;
  if (run->settings->original.mbs) given_lists |= PZ_LIST_MBS;
  for (uint32_t i = 0;; i++) {
    const char *text = pz_run_note(run->run, i, &lists);
    if (!text) break;
    if (!lists || lists & given_lists) pz_command_warn(quiet, text);
  }
  if (!quiet && pz_run_cluster(run->run)) pz_machine_report_scaling(pz_run_cluster(run->run));
}

/* Searches, or loads the finished result of an earlier search with the same options. */
void pz_study_run_search(struct pz_call *call, struct pz_study_run *run) {
  pz_ranks_watch(pz_command_listen());
  pz_must(call, pz_run_search(run->run, pz_call_error(call)));
  if (pz_run_reused(run->run) && !run->common->quiet)
    pz_command_say("%s holds the finished result; use --fresh to search again", run->settings->dir);
}

/* ---- the report of a run -------------------------------------------------------------------- */

enum { LONGEST_PATH = 4096 };

/* Returns the path of the report of a run directory. */
const char *pz_report_path(struct pz_call *call, const char *dir) {
  const char *path = pz_format(call, "%s/report.html", dir);
  if (strlen(path) >= LONGEST_PATH) pz_raise(call, PZ_BAD_INPUT, "%s: the name is too long", dir);
  return path;
}

/* Computes the details, and with the evaluator original the baselines, that a report shows. */
void pz_report_complete(struct pz_call *call, struct pz_run *run) {
  pz_must(call, pz_run_detail(run, pz_call_error(call)));
  if (!pz_run_result(run)->training_detail)
    pz_must(call, pz_run_compare(run, NULL, pz_call_error(call)));
}

/* Returns the HTML page of a complete result, which belongs to the call. */
struct pz_report_page pz_report_page(struct pz_call *call, const struct pz_result *result) {
  struct pz_report_page page = {NULL, 0};
  pz_must(call,
          pz_result_text(result, PZ_RESULT_PAGE, &page.text, &page.bytes, pz_call_error(call)));
  pz_defer(call, pz_free, page.text);
  return page;
}

struct page_comparison {
  const char *path;
  const struct pz_report_page *page;
  bool same;
};

/* Sets `same` if the file contains the page and nothing else; a longer file raises PZ_LIMIT. */
static void compare_page(struct pz_call *call, void *ctx) {
  struct page_comparison *comparison = ctx;
  const struct pz_report_page *page = comparison->page;
  size_t bytes;
  const char *saved_text = pz_file_text(call, comparison->path, page->bytes, &bytes);
  comparison->same = bytes == page->bytes && memcmp(saved_text, page->text, bytes) == 0;
}

/* Returns whether the file contains the page and nothing else. */
bool pz_report_matches(struct pz_call *call, const struct pz_report_page *page, const char *path,
                       bool *exists) {
  struct page_comparison comparison = {path, page, false};
  struct pz_error why = {0};
  *exists = access(path, F_OK) == 0;
  if (!*exists) return false;
  enum pz_status status = pz_border(compare_page, &comparison, &why);
  if (status == PZ_LIMIT) return false; /* the file is larger than the page */
  if (status != PZ_OK) pz_raise_again(call, &why);
  return comparison.same;
}

/* Writes report.html into the directory of the run, unless it is up to date or not wanted. */
void pz_study_run_report(struct pz_call *call, struct pz_study_run *run) {
  if (!run->settings->dir || run->settings->no_report) return;
  const char *path = pz_report_path(call, run->settings->dir);
  bool exists;
  pz_report_complete(call, run->run);
  if (!pz_ranks_first()) return;
  const struct pz_report_page page = pz_report_page(call, pz_run_result(run->run));
  if (pz_report_matches(call, &page, path, &exists)) return;
  pz_file_require_output(call, path, NULL, 0);
  pz_file_save(call, path, page.text, page.bytes);
  if (!run->common->quiet) pz_command_say("report written to %s", path);
}
