/* Runs of searches, as the public header offers them.  pz_run_open() reads the inputs and opens the run file;
 * pz_run_search() restores the result from it, or runs the study and saves the result; pz_run_compare() and
 * pz_run_detail() add the parts that are made on demand, for which restore_study() brings the study back to the state after
 * its search.  Rank 0 alone has the run file: the other ranks receive what it reads. */
#include "study/run.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/ranks.h"
#include "core/status.h"
#include "study/compare.h"
#include "study/detail.h"
#include "study/exports.h"
#include "study/result_json.h"
#include "study/result_make.h"
#include "study/training_detail.h"

/* ---- texts of the run file ------------------------------------------------------------------ */

/* The text of a JSON value, whose reference it takes over.  pz_close() frees the text, or the end of the call does. */
static char *run_json_text(struct pz_call *call, json_t *value) {
  char *text = value ? pz_json_dump(value, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
  json_decref(value);
  if (!text) pz_raise(call, PZ_NO_MEMORY, "out of memory for the run");
  pz_defer(call, pz_free, text);
  return text;
}

static void save_part(struct pz_call *call, struct pz_run_file *f, enum pz_part part,
                      json_t *value) {
  char *text = run_json_text(call, value);
  pz_must(call, pz_run_file_set_text(f, part, text, pz_call_error(call)));
  pz_close(call, text);
}

typedef void parse_part(struct pz_call *call, const json_t *json, struct pz_result *r);

struct part_parsing {
  const char *name, *text;
  parse_part *parse;
  struct pz_result *result;
};

static void parse_part_text(struct pz_call *call, void *ctx) {
  const struct part_parsing *x = ctx;
  x->parse(call, pz_json_read(call, x->name, x->text, strlen(x->text)), x->result);
}

/* Reads a part of the result.  Returns false if the run file does not have it. */
static bool read_saved_part(struct pz_call *call, struct pz_run *r, enum pz_part part,
                            const char *name, parse_part *parse) {
  char *text = NULL;
  enum pz_status status =
      r->file ? pz_run_file_text(r->file, part, &text, pz_call_error(call)) : PZ_OK;
  struct pz_buffer shared = {text, text ? strlen(text) : 0, 0, false};
  status = pz_ranks_share(&shared, status, pz_call_error(call));
  if (shared.text) pz_defer(call, pz_free, shared.text);
  pz_must(call, status);
  if (!shared.text) return false;
  struct part_parsing x = {name, shared.text, parse, &r->result};
  struct pz_error why = {0};
  status = pz_border(parse_part_text, &x, &why);
  if (status != PZ_OK) pz_raise(call, status, "%s/run.sqlite: %s", r->dir, why.message);
  pz_close(call, shared.text);
  return true;
}

/* ---- opening -------------------------------------------------------------------------------- */

struct pz_run_options pz_run_options_default(void) {
  return (struct pz_run_options){.size = sizeof(struct pz_run_options)};
}

static void close_run_contents(void *run) {
  struct pz_run *r = run;
  pz_run_file_close(r->file);
  if (r->has_study) pz_study_release(&r->study);
}

/* An empty run, which is closed when the call ends unless keep_run() hands it over. */
static struct pz_run *new_run(struct pz_call *call, const struct pz_run_options *options) {
  struct pz_run_options o = pz_run_options_default();
  struct pz_call own;
  pz_require_options(call, &o, sizeof o, options, "pz_run_options_default");
  struct pz_run *r = pz_object_new(call, sizeof *r, &own);
  pz_defer(call, close_run_contents, r);
  r->o = o;
  if (o.dir) r->dir = pz_copy_text(&own, o.dir);
  r->o.dir = r->dir;
  pz_result_init(&r->result, own.arena);
  r->watch.stop = &r->stop;
  if (o.progress) {
    pz_progress_start_call(&r->progress, o.progress, o.ctx, &r->stop);
    r->watch.progress = &r->progress;
  }
  return r;
}

static struct pz_run *keep_run(struct pz_call *call, struct pz_run *r) {
  pz_undefer(call, r); /* close_run_contents */
  return pz_object_keep(call, r);
}

static void open_run_study(struct pz_call *call, struct pz_run *r,
                           const struct pz_study_options *o) {
  pz_study_open(call, &r->study, o, r->o.threads);
  pz_undefer(call, &r->study); /* the run releases it */
  r->has_study = true;
}

struct run_opening {
  const struct pz_study_options *study;
  const struct pz_run_options *options;
  bool check;
  struct pz_run **out;
};

static void open_run(struct pz_call *call, void *ctx) {
  struct run_opening *x = ctx;
  struct pz_study_options o = pz_study_options_default();
  struct pz_error *err = pz_call_error(call);
  pz_require(call, x->out, "out");
  pz_require_options(call, &o, sizeof o, x->study, "pz_study_options_default");
  if (o.precision || o.peft || o.fp8_recipe || o.moment_bytes || o.mtp || o.offload)
    pz_raise(call, PZ_BAD_USE,
             "fields of plans, as precision and peft, of a search; accepted: of a comparison of "
             "given chips");
  struct pz_run *r = new_run(call, x->options);
  open_run_study(call, r, &o);
  if (r->dir || pz_ranks_size() > 1) {
    char *inputs = run_json_text(call, pz_study_inputs(&r->study));
    struct pz_buffer none = {0};
    enum pz_status status = pz_ranks_same("inputs", inputs, err);
    if (status == PZ_OK && r->dir && pz_ranks_first()) {
      status = pz_run_file_open(r->dir, inputs, r->o.fresh, &r->file, err);
      if (status == PZ_OK) {
        r->read_only = pz_run_file_is_read_only(r->file);
        status = pz_run_file_check(r->file, err);
      }
    }
    if (r->dir) status = pz_ranks_share(&none, status, err); /* the other ranks fail alike */
    pz_must(call, status);
  }
  *x->out = keep_run(call, r);
}

enum pz_status pz_run_open(const struct pz_study_options *study,
                           const struct pz_run_options *options, struct pz_run **out,
                           struct pz_error *err) {
  struct run_opening x = {.study = study, .options = options, .out = out};
  return pz_border(open_run, &x, err);
}

struct pz_run *pz_run_open_saved(struct pz_call *call, const struct pz_run_options *options,
                                 bool check) {
  struct pz_error *err = pz_call_error(call);
  struct pz_run *r = new_run(call, options);
  r->read_only = true;
  if (!r->dir) pz_raise(call, PZ_BAD_USE, "no directory; accepted: that of a run");
  enum pz_status status = PZ_OK;
  if (pz_ranks_first()) status = pz_run_file_look(r->dir, &r->file, err);
  if (status == PZ_OK && check && r->file) status = pz_run_file_check(r->file, err);
  pz_must(call, status);
  r->reused = read_saved_part(call, r, PZ_PART_RESULT, "the result", pz_result_parse);
  if (!r->reused)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: the run is not finished; run the same search command to resume it", r->dir);
  if (r->file) {
    const char *text = pz_run_file_inputs(r->file);
    const json_t *inputs = pz_json_read(call, "inputs", text, strlen(text));
    const char *version = json_string_value(json_object_get(inputs, "version"));
    if (!version || strcmp(version, pz_version()) != 0)
      pz_raise(call, PZ_BAD_INPUT, "%s: the run was made by version %s, this is %s", r->dir,
               version ? version : "?", pz_version());
  }
  return r;
}

static void look_at_run(struct pz_call *call, void *ctx) {
  struct run_opening *x = ctx;
  pz_require(call, x->out, "out");
  *x->out = keep_run(call, pz_run_open_saved(call, x->options, true));
}

enum pz_status pz_run_look(const struct pz_run_options *options, struct pz_run **out,
                           struct pz_error *err) {
  struct run_opening x = {.options = options, .out = out};
  return pz_border(look_at_run, &x, err);
}

void pz_run_close(struct pz_run *r) {
  if (!r) return;
  close_run_contents(r);
  pz_object_free(r);
}

/* ---- what is known of a run ----------------------------------------------------------------- */

const struct pz_result *pz_run_result(const struct pz_run *r) { return &r->result; }
bool pz_run_reused(const struct pz_run *r) { return r->reused; }
bool pz_run_changed(const struct pz_run *r) { return r->changed; }
struct pz_run_times pz_run_times(const struct pz_run *r) {
  return r->times;
}

const struct pz_cluster *pz_run_cluster(const struct pz_run *r) {
  return r->has_study && !pz_study_is_training(&r->study) ? &r->study.task.net : NULL;
}

unsigned pz_run_threads(const struct pz_run *r) {
  return r->has_study ? pz_pool_threads(r->study.pool) : r->o.threads;
}

const char *pz_run_note(const struct pz_run *r, uint32_t i, unsigned *lists) {
  bool training = pz_study_is_training(&r->study);
  const struct pz_vec *notes = training ? &r->study.notes : &r->study.portfolio.notes;
  if (!r->has_study || i >= notes->n) return NULL;
  const struct pz_note *note = pz_vec_at(notes, struct pz_note, i);
  if (lists) *lists = note->lists;
  return note->text;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Returns the seconds since the last call, and sets the time of this one. */
static double lap_s(double *since_s) {
  double now = pz_clock_s(), elapsed = now - *since_s;
  *since_s = now;
  return elapsed;
}

/* Runs all objective runs; rounds in the store are restored instead of searched. */
static void run_all_objectives(struct pz_call *call, struct pz_run *r,
                               const struct pz_round_store *store) {
  struct pz_study_watch watch = {r->watch, store};
  double since = pz_clock_s();
  pz_study_start(call, &r->study, &watch);
  r->times.bounds_s = lap_s(&since);
  double search_began = since;
  for (uint32_t i = 0; i < r->study.n_runs; i++) {
    pz_study_run_objective(call, &r->study, i);
    r->run_s[i] = lap_s(&since);
  }
  r->times.search_s = pz_clock_s() - search_began;
}

/* Saves certificates, evaluations and times, and last the result, which marks the run as finished. */
static void save_result(struct pz_call *call, struct pz_run *r) {
  const struct pz_run_times *times = &r->times;
  struct pz_error *err = pz_call_error(call);
  struct pz_run_tables tables = {.runs = r->study.objective_run, .n_runs = r->study.n_runs};
  struct pz_found_step *known = NULL;
  pz_must(call,
          pz_search_all_known(r->study.search, &r->study.arena, &known, &tables.n_known, err));
  tables.known = known;
  pz_must(call, pz_run_file_set_tables(r->file, &tables, err));
  pz_must(call, pz_run_file_set_timing(r->file, "bounds_s", times->bounds_s, err));
  pz_must(call, pz_run_file_set_timing(r->file, "search_s", times->search_s, err));
  pz_must(call, pz_run_file_set_timing(r->file, "result_s", times->result_s, err));
  pz_must(call, pz_run_file_set_timing(r->file, "evaluations", (double)times->n_variants, err));
  save_part(call, r->file, PZ_PART_RESULT, pz_result_json(&r->result));
  if (r->dir) pz_exports_write(call, r->dir, &r->result);
}

static bool is_finished(const struct pz_result *r) {
  for (uint32_t i = 0; i < r->n_answers; i++)
    if (!r->answers[i].certificate.finished) return false;
  return true;
}

static void search_run(struct pz_call *call, void *ctx) {
  struct pz_run *r = ctx;
  pz_require(call, r, "run");
  atomic_store(&r->stop, false); /* an earlier call may have been cancelled */
  if (r->result.n_answers) return;
  if (r->dir) r->reused = read_saved_part(call, r, PZ_PART_RESULT, "the result", pz_result_parse);
  if (r->reused && (r->read_only || is_finished(&r->result))) return;
  /* A search that ended before its gap was proved continues. */
  pz_result_init(&r->result, r->result.arena);
  r->reused = false;
  run_all_objectives(call, r, r->file ? pz_run_file_rounds(r->file) : NULL);
  double since = pz_clock_s();
  pz_result_build(call, &r->result, &r->study, r->watch);
  r->times.result_s = lap_s(&since);
  if (!pz_study_is_training(&r->study)) r->times.n_variants = pz_original_variants(r->study.by);
  r->restored = r->changed = true;
  if (r->file) save_result(call, r);
}

enum pz_status pz_run_search(struct pz_run *r, struct pz_error *err) {
  bool had_result = r && r->result.n_answers;
  enum pz_status status = pz_border(search_run, r, err);
  if (status != PZ_OK && r && !had_result) pz_result_init(&r->result, r->result.arena);
  return status;
}

/* ---- comparison and detail ------------------------------------------------------------------ */

/* Stands for the store's function that saves a round when the run file is only read. */
static enum pz_status refuse_round(void *ctx, uint32_t run, uint32_t round,
                                   const struct pz_buffer *b, struct pz_error *err) {
  (void)ctx, (void)run, (void)round, (void)b;
  return pz_fail(err, PZ_BAD_INPUT, "the run does not have all of its rounds; see phaze verify");
}

/* Limits every objective run to the rounds that led to a result. */
static void limit_rounds(struct pz_study *s, const struct pz_result *r) {
  for (uint32_t i = 0; i < s->n_runs; i++) s->most_rounds[i] = r->answers[i].certificate.n_rounds;
}

/* Brings the study into the state after its objective runs, from the rounds of the run file. */
static void restore_study(struct pz_call *call, struct pz_run *r) {
  if (r->restored) return;
  if (!r->has_study) open_run_study(call, r, &r->result.inputs.options);
  struct pz_round_store store = {0};
  if (r->file) store = *pz_run_file_rounds(r->file);
  store.keep = refuse_round;
  r->study.o.seconds = 0;
  limit_rounds(&r->study, &r->result);
  run_all_objectives(call, r, r->file ? &store : NULL);
  const struct pz_objective_run *common = &r->study.objective_run[r->study.n_runs - 1];
  if (pz_space_id(&r->study.space, &common->best) != pz_result_best(&r->result)->chip_id)
    pz_raise(call, PZ_BAD_INPUT,
             "the run's best chip is not the one its rounds give; see phaze verify");
  r->restored = true;
}

/* The detail of the evaluator training is shown as text; only its layer schedules are parsed. */
static void parse_training_detail(struct pz_call *call, const json_t *json, struct pz_result *r) {
  struct pz_call own = pz_call_in(call, r->arena);
  char *text = run_json_text(call, json_incref((json_t *)(uintptr_t)json));
  r->training_detail = pz_copy_text(&own, text);
  pz_close(call, text);
  pz_detail_parse(call, json_object_get(json, "layers"), r);
}

static void find_detail(struct pz_call *call, struct pz_run *r) {
  struct pz_result *result = &r->result;
  bool training = result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING, saved = false;
  if (result->detail || result->training_detail) return;
  if (r->dir)
    saved = read_saved_part(call, r, PZ_PART_DETAIL, "the report's data",
                            training ? parse_training_detail : pz_detail_parse);
  if (saved && training) return;
  restore_study(call, r);
  if (saved) {
    pz_detail_list_chips(call, &r->study, result);
    return;
  }
  bool save = r->file && !r->read_only;
  if (training) {
    json_t *detail = pz_training_detail(call, &r->study, r->watch);
    parse_training_detail(call, detail, result);
    if (save) save_part(call, r->file, PZ_PART_DETAIL, json_incref(detail));
  } else {
    pz_detail_build(call, &r->study, r->watch, result);
    if (save) save_part(call, r->file, PZ_PART_DETAIL, pz_detail_json(result));
  }
}

static void require_result(struct pz_call *call, struct pz_run *r) {
  pz_require(call, r, "run");
  atomic_store(&r->stop, false); /* an earlier call may have been cancelled */
  if (!r->result.n_answers)
    pz_raise(call, PZ_BAD_USE, "the run has no result yet; call pz_run_search first");
}

static void detail_run(struct pz_call *call, void *ctx) {
  require_result(call, ctx);
  find_detail(call, ctx);
}

enum pz_status pz_run_detail(struct pz_run *r, struct pz_error *err) {
  return pz_border(detail_run, r, err);
}

static bool has_comparison(const struct pz_run *r, const uint64_t *seed) {
  const struct pz_comparison *c = r->result.comparison;
  return c && (!seed || c->seed == *seed);
}

void pz_run_find_comparison(struct pz_call *call, struct pz_run *r, const uint64_t *seed) {
  require_result(call, r);
  if (has_comparison(r, seed)) return;
  if (r->result.inputs.options.evaluator == PZ_EVALUATOR_TRAINING)
    pz_raise(call, PZ_BAD_USE,
             "baselines are compared by the evaluator original; accepted: evaluator original");
  bool saved =
      r->dir && read_saved_part(call, r, PZ_PART_COMPARISON, "the comparison", pz_comparison_parse);
  if (saved && has_comparison(r, seed)) return;
  restore_study(call, r);
  if (r->dir) find_detail(call, r); /* before baselines add evaluations, on which it depends */
  pz_compare_methods(call, &r->study, seed ? *seed : PZ_COMPARE_SEED, r->watch, &r->result);
  for (uint32_t i = 0; i < r->result.comparison->n_runs; i++) {
    struct pz_comparison_run *run = &r->result.comparison->runs[i];
    run->methods[run->n_methods - 1].seconds = r->run_s[i]; /* the search is the last method */
  }
  r->changed = true;
  if (r->file && !r->read_only)
    save_part(call, r->file, PZ_PART_COMPARISON, pz_comparison_json(&r->result));
}

struct run_comparing {
  struct pz_run *run;
  const uint64_t *seed;
};

static void compare_run(struct pz_call *call, void *ctx) {
  const struct run_comparing *x = ctx;
  pz_run_find_comparison(call, x->run, x->seed);
}

enum pz_status pz_run_compare(struct pz_run *r, const uint64_t *seed, struct pz_error *err) {
  struct run_comparing x = {r, seed};
  return pz_border(compare_run, &x, err);
}

/* ---- recomputing ---------------------------------------------------------------------------- */

/* Rounds are read from the saved run file, if there is one, and written to the recomputed one. */
struct copied_rounds {
  const struct pz_round_store *from, *to;
};

static enum pz_status read_saved_round(void *ctx, uint32_t run, uint32_t round, struct pz_buffer *b,
                                       struct pz_error *err) {
  const struct copied_rounds *x = ctx;
  enum pz_status status = x->from ? x->from->read(x->from->ctx, run, round, b, err) : PZ_OK;
  return status == PZ_OK && b->text ? x->to->keep(x->to->ctx, run, round, b, err) : status;
}

static enum pz_status save_new_round(void *ctx, uint32_t run, uint32_t round,
                                     const struct pz_buffer *b, struct pz_error *err) {
  const struct copied_rounds *x = ctx;
  return x->to->keep(x->to->ctx, run, round, b, err);
}

struct pz_run *pz_run_recompute(struct pz_call *call, const struct pz_run *saved, bool replay,
                                bool detail, const uint64_t *seed) {
  struct copied_rounds rounds = {0};
  struct pz_round_store store = {&rounds, read_saved_round, save_new_round};
  struct pz_run_options o = saved->o;
  o.dir = NULL;
  struct pz_run *r = new_run(call, &o);
  open_run_study(call, r, &saved->result.inputs.options);
  limit_rounds(&r->study, &saved->result);
  char *inputs = run_json_text(call, pz_study_inputs(&r->study));
  if (pz_ranks_first()) pz_must(call, pz_run_file_in_memory(inputs, &r->file, pz_call_error(call)));
  pz_close(call, inputs);
  if (r->file) rounds.to = pz_run_file_rounds(r->file);
  if (r->file && replay) rounds.from = pz_run_file_rounds(saved->file);
  run_all_objectives(call, r, r->file ? &store : NULL);
  pz_result_build(call, &r->result, &r->study, r->watch);
  r->restored = true;
  if (r->file) save_result(call, r);
  if (detail) find_detail(call, r);
  if (seed) pz_run_find_comparison(call, r, seed);
  return r;
}
