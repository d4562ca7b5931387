/* Runs of searches, as the public header offers them.  pz_run_open() reads the inputs and opens
 * the run file; pz_run_search() restores the result from it, or runs the study and saves the
 * result; pz_run_compare() and pz_run_detail() add the parts that are made on demand, for which
 * restore_study() brings the study back to the state after its search.  Rank 0 alone has the run
 * file: the other ranks receive what it reads. */
#include "study/run.h"

#include <string.h>

#include "core/ranks.h"
#include "core/status.h"
#include "study/compare.h"
#include "study/detail.h"
#include "study/exports.h"
#include "study/result_json.h"
#include "study/result_make.h"

/* ---- texts of the run file ------------------------------------------------------------------ */

/* Returns the text of a JSON value in the memory of the call.  It takes over the reference. */
static char *run_json_text(struct pz_call *call, json_t *value) {
  json_t *document = pz_json_built(call, value);
  char *text = pz_json_format(call, document, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  pz_close(call, document);
  return text;
}

/* Saves a part of the result as JSON, and takes over the reference to `value`. */
static void save_part(struct pz_call *call, struct pz_run_file *file, enum pz_part part,
                      json_t *value) {
  struct pz_call scratch = pz_scratch(call);
  pz_run_file_write_text(call, file, part, run_json_text(&scratch, value));
  pz_scratch_end(&scratch);
}

typedef void parse_part(struct pz_call *call, const json_t *json, struct pz_result *result);

struct part_parsing {
  const char *name, *text;
  parse_part *parse;
  struct pz_result *result;
};

/* Parses a part within a border, so that an error can name the run file. */
static void parse_part_text(struct pz_call *call, void *ctx) {
  const struct part_parsing *parsing = ctx;
  parsing->parse(call, pz_json_read(call, parsing->name, parsing->text, strlen(parsing->text)),
                 parsing->result);
}

struct part_reading {
  struct pz_run_file *file; /* NULL on ranks other than 0 and without a directory */
  enum pz_part part;
  struct pz_buffer *text;
};

/* Reads the text of a part on rank 0; the other ranks receive the buffer. */
static void read_part_text(struct pz_call *call, void *ctx) {
  const struct part_reading *reading = ctx;
  const char *text =
      reading->file ? pz_run_file_read_text(call, reading->file, reading->part) : NULL;
  if (text) pz_buffer_add(call, reading->text, text, strlen(text));
}

/* Reads a part of the result on rank 0 for all ranks; false if the file does not have it. */
static bool read_saved_part(struct pz_call *call, struct pz_run *run, enum pz_part part,
                            const char *name, parse_part *parse) {
  struct part_reading reading = {run->file, part, pz_buffer_new(call)};
  pz_ranks_run_first(call, read_part_text, &reading, reading.text);
  if (!reading.text->text) return false;
  struct part_parsing parsing = {name, reading.text->text, parse, &run->result};
  struct pz_error why = {0};
  enum pz_status status = pz_border(parse_part_text, &parsing, &why);
  if (status != PZ_OK) pz_raise(call, status, "%s/run.sqlite: %s", run->dir, why.message);
  pz_close(call, reading.text);
  return true;
}

/* ---- opening -------------------------------------------------------------------------------- */

struct pz_run_options pz_run_options_default(void) {
  return (struct pz_run_options){.size = sizeof(struct pz_run_options)};
}

/* Closes the file and releases the study of a run; the run itself stays allocated. */
static void close_run_contents(void *ctx) {
  struct pz_run *run = ctx;
  pz_run_file_close(run->file);
  if (run->has_study) pz_study_release(&run->study);
}

/* Returns an empty run.  It is closed when the call ends, unless the call hands it to its caller by
 * pz_undefer() and pz_object_keep(). */
static struct pz_run *new_run(struct pz_call *call, const struct pz_run_options *options) {
  struct pz_run_options run_options = pz_run_options_default();
  struct pz_call object_call;
  pz_require_options(call, &run_options, sizeof run_options, options, "pz_run_options_default");
  struct pz_run *run = pz_object_new(call, sizeof *run, &object_call);
  pz_defer(call, close_run_contents, run);
  run->options = run_options;
  if (run_options.dir) run->dir = pz_copy_text(&object_call, run_options.dir);
  run->options.dir = run->dir;
  pz_result_init(&run->result, object_call.arena);
  run->watch.stop = &run->stop;
  if (run_options.progress) {
    pz_progress_start_call(&run->progress, run_options.progress, run_options.ctx, &run->stop);
    run->watch.progress = &run->progress;
  }
  return run;
}

/* Opens the study of a run, which releases it instead of the call. */
static void open_run_study(struct pz_call *call, struct pz_run *run,
                           const struct pz_study_options *study_options) {
  pz_study_open(call, &run->study, study_options, run->options.threads);
  pz_undefer(call, &run->study); /* the run releases it */
  run->has_study = true;
}

struct run_opening {
  const struct pz_study_options *study;
  const struct pz_run_options *options;
  bool check;
  struct pz_run **out;
};

struct file_opening {
  struct pz_run *run;
  const char *inputs;
};

/* Runs on rank 0, which alone has the run file. */
static void open_run_file(struct pz_call *call, void *ctx) {
  const struct file_opening *opening = ctx;
  struct pz_run *run = opening->run;
  run->file = pz_run_file_open_for_writing(call, run->dir, opening->inputs, run->options.fresh);
  run->read_only = pz_run_file_is_read_only(run->file);
  pz_run_file_verify(call, run->file);
}

/* Opens the study and the run file of a search.  All ranks must have the same inputs. */
static void open_run(struct pz_call *call, void *ctx) {
  struct run_opening *opening = ctx;
  struct pz_study_options study_options = pz_study_options_default();
  pz_require(call, opening->out, "out");
  pz_require_options(call, &study_options, sizeof study_options, opening->study,
                     "pz_study_options_default");
  if (study_options.precision || study_options.peft || study_options.fp8_recipe ||
      study_options.moment_bytes || study_options.mtp || study_options.offload)
    pz_raise(call, PZ_BAD_USE,
             "fields of plans, as precision and peft, of a search; accepted: of a comparison of "
             "given chips");
  struct pz_run *run = new_run(call, opening->options);
  open_run_study(call, run, &study_options);
  if (run->dir || pz_ranks_size() > 1) {
    char *inputs = run_json_text(call, pz_study_inputs(&run->study));
    struct file_opening file_opening = {run, inputs};
    pz_ranks_require_same(call, "inputs", inputs);
    if (run->dir) pz_ranks_run_first(call, open_run_file, &file_opening, NULL);
  }
  pz_undefer(call, run); /* the caller closes it */
  *opening->out = pz_object_keep(call, run);
}

enum pz_status pz_run_open(const struct pz_study_options *study,
                           const struct pz_run_options *options, struct pz_run **out,
                           struct pz_error *err) {
  struct run_opening opening = {.study = study, .options = options, .out = out};
  return pz_border(open_run, &opening, err);
}

/* Opens a saved run for reading if it is finished and of this version; all ranks get its result. */
struct pz_run *pz_run_open_saved(struct pz_call *call, const struct pz_run_options *options,
                                 bool check) {
  struct pz_run *run = new_run(call, options);
  run->read_only = true;
  if (!run->dir) pz_raise(call, PZ_BAD_USE, "no directory; accepted: that of a run");
  if (pz_ranks_first()) run->file = pz_run_file_open_for_reading(call, run->dir);
  if (check && run->file) pz_run_file_verify(call, run->file);
  run->reused = read_saved_part(call, run, PZ_PART_RESULT, "the result", pz_result_parse);
  if (!run->reused)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: the run is not finished; run the same search command to resume it", run->dir);
  if (run->file) {
    const char *text = pz_run_file_inputs(run->file);
    const json_t *inputs = pz_json_read(call, "inputs", text, strlen(text));
    const char *version = json_string_value(json_object_get(inputs, "version"));
    if (!version || strcmp(version, pz_version()) != 0)
      pz_raise(call, PZ_BAD_INPUT, "%s: the run was made by version %s, this is %s", run->dir,
               version ? version : "?", pz_version());
  }
  return run;
}

/* Opens a saved run for reading, without its study; the caller closes it. */
static void look_at_run(struct pz_call *call, void *ctx) {
  struct run_opening *opening = ctx;
  pz_require(call, opening->out, "out");
  struct pz_run *run = pz_run_open_saved(call, opening->options, true);
  pz_undefer(call, run); /* the caller closes it */
  *opening->out = pz_object_keep(call, run);
}

enum pz_status pz_run_look(const struct pz_run_options *options, struct pz_run **out,
                           struct pz_error *err) {
  struct run_opening opening = {.options = options, .out = out};
  return pz_border(look_at_run, &opening, err);
}

void pz_run_close(struct pz_run *run) {
  if (!run) return;
  close_run_contents(run);
  pz_object_free(run);
}

/* ---- state of a run ------------------------------------------------------------------------- */

const struct pz_result *pz_run_result(const struct pz_run *run) { return &run->result; }
bool pz_run_reused(const struct pz_run *run) { return run->reused; }
bool pz_run_changed(const struct pz_run *run) { return run->changed; }
struct pz_run_times pz_run_times(const struct pz_run *run) {
  return run->times;
}

/* Returns the network of a search by the evaluator original, or NULL for the evaluator training,
 * whose chips have networks of their own. */
const struct pz_cluster *pz_run_cluster(const struct pz_run *run) {
  return run->has_study && run->study.options.evaluator != PZ_EVALUATOR_TRAINING
             ? &run->study.task.net
             : NULL;
}

unsigned pz_run_threads(const struct pz_run *run) {
  return run->has_study ? pz_pool_threads(run->study.pool) : run->options.threads;
}

/* Returns note i about the models, or NULL after the last one. */
const char *pz_run_note(const struct pz_run *run, uint32_t i, unsigned *lists) {
  bool training = run->study.options.evaluator == PZ_EVALUATOR_TRAINING;
  const struct pz_vec *notes = training ? &run->study.notes : &run->study.portfolio.notes;
  if (!run->has_study || i >= notes->n) return NULL;
  const struct pz_note *note = pz_vec_at(notes, struct pz_note, i);
  if (lists) *lists = note->lists;
  return note->text;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Returns the seconds since *since_s, and sets *since_s to the current time. */
static double lap_s(double *since_s) {
  double now = pz_clock_s(), elapsed = now - *since_s;
  *since_s = now;
  return elapsed;
}

/* Runs all objective runs, one search each.  Rounds of a search that the store has are restored
 * instead of searched again. */
static void run_all_objectives(struct pz_call *call, struct pz_run *run,
                               const struct pz_round_store *store) {
  struct pz_study_watch watch = {run->watch, store};
  double lap_start_s = pz_clock_s();
  pz_study_start(call, &run->study, &watch);
  run->times.bounds_s = lap_s(&lap_start_s);
  double search_start_s = lap_start_s;
  for (uint32_t i = 0; i < run->study.n_runs; i++) {
    pz_study_run_objective(call, &run->study, i);
    run->run_s[i] = lap_s(&lap_start_s);
  }
  run->times.search_s = pz_clock_s() - search_start_s;
}

/* Saves certificates, evaluations, times and, as the mark of a finished run, the result. */
static void save_result(struct pz_call *call, struct pz_run *run) {
  const struct pz_run_times *times = &run->times;
  struct pz_run_tables tables = {.runs = run->study.objective_run, .n_runs = run->study.n_runs};
  tables.known = pz_search_list_known(call, run->study.search, &tables.n_known);
  pz_run_file_write_tables(call, run->file, &tables);
  pz_run_file_write_timing(call, run->file, "bounds_s", times->bounds_s);
  pz_run_file_write_timing(call, run->file, "search_s", times->search_s);
  pz_run_file_write_timing(call, run->file, "result_s", times->result_s);
  pz_run_file_write_timing(call, run->file, "evaluations", (double)times->n_variants);
  save_part(call, run->file, PZ_PART_RESULT, pz_result_json(&run->result));
  if (run->dir) pz_exports_write(call, run->dir, &run->result);
}

/* Loads the result from the directory if it is finished or read-only; otherwise searches, from the
 * saved rounds on, and saves the result. */
static void search_run(struct pz_call *call, void *ctx) {
  struct pz_run *run = ctx;
  pz_require(call, run, "run");
  atomic_store(&run->stop, false); /* an earlier call may have been cancelled */
  if (run->result.n_answers) return;
  if (run->dir)
    run->reused = read_saved_part(call, run, PZ_PART_RESULT, "the result", pz_result_parse);
  bool finished = true;
  for (uint32_t i = 0; i < run->result.n_answers; i++)
    if (!run->result.answers[i].certificate.finished) finished = false;
  if (run->reused && (run->read_only || finished)) return;
  /* A search that ended before its gap was proved continues. */
  pz_result_init(&run->result, run->result.arena);
  run->reused = false;
  run_all_objectives(call, run, run->file ? pz_run_file_rounds(run->file) : NULL);
  double lap_start_s = pz_clock_s();
  pz_result_build(call, &run->result, &run->study, run->watch);
  run->times.result_s = lap_s(&lap_start_s);
  if (run->study.options.evaluator != PZ_EVALUATOR_TRAINING)
    run->times.n_variants = pz_original_variants(run->study.evaluator);
  run->restored = run->changed = true;
  if (run->file) save_result(call, run);
}

/* Searches, or loads a finished result.  If that fails, the result is emptied, so that a part of
 * one is not mistaken for a result. */
enum pz_status pz_run_search(struct pz_run *run, struct pz_error *err) {
  bool had_result = run && run->result.n_answers;
  enum pz_status status = pz_border(search_run, run, err);
  if (status != PZ_OK && run && !had_result) pz_result_init(&run->result, run->result.arena);
  return status;
}

/* ---- comparison and detail ------------------------------------------------------------------ */

/* Raises an error instead of saving a round: a replay of saved rounds must not need new ones. */
static void refuse_round(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
                         const struct pz_buffer *buffer) {
  (void)ctx, (void)run, (void)round, (void)buffer;
  pz_raise(call, PZ_BAD_INPUT, "the run does not have all of its rounds; see phaze verify");
}

/* Brings the study into the state after its objective runs: replays the rounds of the run file,
 * without a time limit and without further rounds. */
static void restore_study(struct pz_call *call, struct pz_run *run) {
  if (run->restored) return;
  if (!run->has_study) open_run_study(call, run, &run->result.inputs.options);
  struct pz_round_store store = {0};
  if (run->file) store = *pz_run_file_rounds(run->file);
  store.write = refuse_round;
  run->study.options.seconds = 0;
  for (uint32_t i = 0; i < run->study.n_runs; i++)
    run->study.most_rounds[i] = run->result.answers[i].certificate.n_rounds;
  run_all_objectives(call, run, run->file ? &store : NULL);
  const struct pz_objective_run *final_run = &run->study.objective_run[run->study.n_runs - 1];
  if (pz_space_id(&run->study.space, &final_run->best) != pz_result_best(&run->result)->chip_id)
    pz_raise(call, PZ_BAD_INPUT,
             "the run's best chip is not the one its rounds give; see phaze verify");
  run->restored = true;
}

/* The detail of the evaluator training is shown as text; only its layer schedules are parsed. */
static void parse_training_detail(struct pz_call *call, const json_t *json,
                                  struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  result->training_detail = run_json_text(&result_call, json_incref((json_t *)(uintptr_t)json));
  pz_detail_parse(call, json_object_get(json, "layers"), result);
}

/* Reads the report's data from the directory, or else computes and saves them. */
static void find_detail(struct pz_call *call, struct pz_run *run) {
  struct pz_result *result = &run->result;
  bool training = result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING, saved = false;
  if (result->detail || result->training_detail) return;
  if (run->dir)
    saved = read_saved_part(call, run, PZ_PART_DETAIL, "the report's data",
                            training ? parse_training_detail : pz_detail_parse);
  if (saved && training) return;
  restore_study(call, run);
  if (saved) {
    pz_detail_list_chips(call, &run->study, result);
    return;
  }
  bool save = run->file && !run->read_only;
  if (training) {
    json_t *detail = pz_training_detail(call, &run->study, run->watch);
    parse_training_detail(call, detail, result);
    if (save) save_part(call, run->file, PZ_PART_DETAIL, json_incref(detail));
  } else {
    pz_detail_build(call, &run->study, run->watch, result);
    if (save) save_part(call, run->file, PZ_PART_DETAIL, pz_detail_json(result));
  }
}

/* Raises an error unless the run has a result, and clears an earlier cancellation. */
static void require_result(struct pz_call *call, struct pz_run *run) {
  pz_require(call, run, "run");
  atomic_store(&run->stop, false); /* an earlier call may have been cancelled */
  if (!run->result.n_answers)
    pz_raise(call, PZ_BAD_USE, "the run has no result yet; call pz_run_search first");
}

static void detail_run(struct pz_call *call, void *ctx) {
  require_result(call, ctx);
  find_detail(call, ctx);
}

enum pz_status pz_run_detail(struct pz_run *run, struct pz_error *err) {
  return pz_border(detail_run, run, err);
}

/* Reads the comparison from the directory, or else runs the baselines and saves it. */
void pz_run_find_comparison(struct pz_call *call, struct pz_run *run, const uint64_t *seed) {
  require_result(call, run);
  const struct pz_comparison *comparison = run->result.comparison;
  if (comparison && (!seed || comparison->seed == *seed)) return;
  if (run->result.inputs.options.evaluator == PZ_EVALUATOR_TRAINING)
    pz_raise(call, PZ_BAD_USE,
             "baselines are compared by the evaluator original; accepted: evaluator original");
  bool saved = run->dir && read_saved_part(call, run, PZ_PART_COMPARISON, "the comparison",
                                           pz_comparison_parse);
  if (saved && (!seed || run->result.comparison->seed == *seed)) return;
  restore_study(call, run);
  if (run->dir) find_detail(call, run); /* before baselines add evaluations, on which it depends */
  pz_compare_methods(call, &run->study, seed ? *seed : PZ_COMPARE_SEED, run->watch, &run->result);
  for (uint32_t i = 0; i < run->result.comparison->n_runs; i++) {
    struct pz_comparison_run *objective = &run->result.comparison->runs[i];
    struct pz_method_result *search = &objective->methods[objective->n_methods - 1];
    search->seconds = run->run_s[i];
  }
  run->changed = true;
  if (run->file && !run->read_only)
    save_part(call, run->file, PZ_PART_COMPARISON, pz_comparison_json(&run->result));
}

struct run_comparing {
  struct pz_run *run;
  const uint64_t *seed;
};

static void compare_run(struct pz_call *call, void *ctx) {
  const struct run_comparing *comparing = ctx;
  pz_run_find_comparison(call, comparing->run, comparing->seed);
}

enum pz_status pz_run_compare(struct pz_run *run, const uint64_t *seed, struct pz_error *err) {
  struct run_comparing comparing = {run, seed};
  return pz_border(compare_run, &comparing, err);
}

/* ---- recomputing ---------------------------------------------------------------------------- */

/* The stores of a recomputation.  Rounds of the searches are copied from `source`, the saved run
 * file, to `target`, the new one.  If `source` is NULL, they are searched again. */
struct copied_rounds {
  const struct pz_round_store *source, *target;
};

/* Writes a round to the recomputed run file; `ctx` is a struct copied_rounds. */
static void save_new_round(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
                           const struct pz_buffer *buffer) {
  const struct pz_round_store *target = ((const struct copied_rounds *)ctx)->target;
  target->write(call, target->ctx, run, round, buffer);
}

/* Reads a round of the saved run, if rounds are replayed, and copies it to the recomputed run. */
static void read_saved_round(struct pz_call *call, void *ctx, uint32_t run, uint32_t round,
                             struct pz_buffer *buffer) {
  const struct pz_round_store *source = ((const struct copied_rounds *)ctx)->source;
  if (source) source->read(call, source->ctx, run, round, buffer);
  if (buffer->text) save_new_round(call, ctx, run, round, buffer);
}

/* Repeats the search of a saved run and then the parts that it has, into a run file in memory. */
struct pz_run *pz_run_recompute(struct pz_call *call, const struct pz_run *saved, bool replay,
                                bool detail, const uint64_t *seed) {
  struct copied_rounds rounds = {0};
  struct pz_round_store store = {&rounds, read_saved_round, save_new_round};
  struct pz_run_options options = saved->options;
  options.dir = NULL;
  struct pz_run *run = new_run(call, &options);
  open_run_study(call, run, &saved->result.inputs.options);
  for (uint32_t i = 0; i < run->study.n_runs; i++)
    run->study.most_rounds[i] = saved->result.answers[i].certificate.n_rounds;
  char *inputs = run_json_text(call, pz_study_inputs(&run->study));
  if (pz_ranks_first()) run->file = pz_run_file_open_in_memory(call, inputs);
  if (run->file) rounds.target = pz_run_file_rounds(run->file);
  if (run->file && replay) rounds.source = pz_run_file_rounds(saved->file);
  run_all_objectives(call, run, run->file ? &store : NULL);
  pz_result_build(call, &run->result, &run->study, run->watch);
  run->restored = true;
  if (run->file) save_result(call, run);
  if (detail) find_detail(call, run);
  if (seed) pz_run_find_comparison(call, run, seed);
  return run;
}
