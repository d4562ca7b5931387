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

enum { HOW = JSON_INDENT(1) | JSON_PRESERVE_ORDER };

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the run");
}

/* ---- texts of the run file ------------------------------------------------------------------ */

typedef enum pz_status read_part(const json_t *json, struct pz_result *r, struct pz_error *err);

/* The text as all ranks have it: rank 0 reads the file. */
static enum pz_status read_shared(struct pz_run *r, enum pz_part part, char **text,
                                  struct pz_error *err) {
  enum pz_status status = r->file ? pz_run_file_text(r->file, part, text, err) : PZ_OK;
  struct pz_buffer b = {*text, *text ? strlen(*text) : 0, 0, false};
  status = pz_ranks_share(&b, status, err);
  *text = b.text;
  return status;
}

/* A part of the result that the run file may have; `found` says whether. */
static enum pz_status read_kept(struct pz_run *r, enum pz_part part, const char *name,
                                read_part *take, bool *found, struct pz_error *err) {
  char *text = NULL;
  json_t *json = NULL;
  *found = false;
  enum pz_status status = read_shared(r, part, &text, err);
  if (status == PZ_OK && text) {
    struct pz_error why = {0};
    status = pz_json_parse(name, text, strlen(text), &json, &why);
    if (status == PZ_OK) status = take(json, &r->result, &why);
    *found = status == PZ_OK;
    if (status != PZ_OK) pz_fail(err, status, "%s/run.sqlite: %s", r->dir, why.message);
  }
  pz_free(text);
  json_decref(json);
  return status;
}

/* Takes over the reference. */
static enum pz_status keep_json(struct pz_run_file *f, enum pz_part part, json_t *value,
                                struct pz_error *err) {
  char *text = value ? pz_json_dump(value, HOW) : NULL;
  enum pz_status status = text ? pz_run_file_set_text(f, part, text, err) : no_memory(err);
  pz_free(text);
  json_decref(value);
  return status;
}

/* ---- opening -------------------------------------------------------------------------------- */

static enum pz_status open_file(struct pz_run *r, const char *inputs, struct pz_error *err) {
  enum pz_status status = pz_run_file_open(r->o.dir, inputs, r->o.fresh, &r->file, err);
  if (status != PZ_OK) return status;
  r->looking = pz_run_file_is_read_only(r->file);
  return pz_run_file_check(r->file, err);
}

/* All ranks have the same inputs; the file is rank 0's. */
static enum pz_status open_shared(struct pz_run *r, struct pz_error *err) {
  struct pz_buffer none = {0};
  json_t *inputs = r->dir || pz_ranks_size() > 1 ? pz_study_inputs(&r->study) : NULL;
  if (!inputs) return r->dir || pz_ranks_size() > 1 ? no_memory(err) : PZ_OK;
  char *text = pz_json_dump(inputs, HOW);
  enum pz_status status = text ? pz_ranks_same("inputs", text, err) : no_memory(err);
  if (status == PZ_OK && r->dir && pz_ranks_first()) status = open_file(r, text, err);
  pz_free(text);
  json_decref(inputs);
  return r->dir ? pz_ranks_share(&none, status, err) : status;
}

struct pz_run_options pz_run_options_default(void) {
  return (struct pz_run_options){.size = sizeof(struct pz_run_options)};
}

/* An empty run with these options. */
static enum pz_status new_run(const struct pz_run_options *options, struct pz_run **out,
                              struct pz_error *err) {
  struct pz_run_options o = pz_run_options_default();
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_run_options_default", err);
  if (status != PZ_OK) return status;
  struct pz_run *r = pz_calloc(1, sizeof *r);
  char *dir = r && o.dir ? pz_strdup(o.dir) : NULL;
  if (!r || (o.dir && !dir)) {
    pz_free(r);
    return no_memory(err);
  }
  r->o = o;
  r->o.dir = r->dir = dir;
  pz_arena_init(&r->arena, NULL);
  pz_result_init(&r->result, &r->arena);
  r->watch.stop = &r->stop;
  if (o.progress) {
    pz_progress_start_call(&r->progress, o.progress, o.ctx, &r->stop);
    r->watch.progress = &r->progress;
  }
  *out = r;
  return PZ_OK;
}

/* The run, or nothing of it. */
static enum pz_status hand_over(struct pz_run *r, enum pz_status status, struct pz_run **out) {
  if (status == PZ_OK)
    *out = r;
  else
    pz_run_close(r);
  return status;
}

enum pz_status pz_run_open(const struct pz_study_options *study,
                           const struct pz_run_options *options, struct pz_run **out,
                           struct pz_error *err) {
  struct pz_study_options o = pz_study_options_default();
  struct pz_run *r = NULL;
  enum pz_status status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_sized_take(&o, sizeof o, study, "pz_study_options_default", err);
  if (status == PZ_OK &&
      (o.precision || o.peft || o.fp8_recipe || o.moment_bytes || o.mtp || o.offload))
    status = pz_fail(err, PZ_BAD_USE,
                     "fields of plans, as precision and peft, of a search; accepted: of a "
                     "comparison of given chips");
  if (status == PZ_OK) status = new_run(options, &r, err);
  if (status != PZ_OK) return status;
  status = pz_study_init(&r->study, &o, r->o.threads, err);
  r->has_study = status == PZ_OK;
  if (status == PZ_OK) status = open_shared(r, err);
  return hand_over(r, status, out);
}

static enum pz_status check_version(struct pz_run_file *f, const char *dir, struct pz_error *err) {
  json_t *inputs = NULL;
  const char *text = pz_run_file_inputs(f);
  enum pz_status status = pz_json_parse("inputs", text, strlen(text), &inputs, err);
  if (status != PZ_OK) return status;
  const char *version = json_string_value(json_object_get(inputs, "version"));
  if (!version || strcmp(version, pz_version()) != 0)
    status = pz_fail(err, PZ_BAD_INPUT, "%s: the run was made by version %s, this is %s", dir,
                     version ? version : "?", pz_version());
  json_decref(inputs);
  return status;
}

static enum pz_status look(const struct pz_run_options *options, bool check, struct pz_run **out,
                           struct pz_error *err) {
  struct pz_run *r = NULL;
  enum pz_status status = pz_need(out, "out", err);
  if (status == PZ_OK) status = new_run(options, &r, err);
  if (status != PZ_OK) return status;
  r->looking = true;
  if (!r->dir) status = pz_fail(err, PZ_BAD_USE, "no directory; accepted: that of a run");
  if (status == PZ_OK && pz_ranks_first()) status = pz_run_file_look(r->dir, &r->file, err);
  if (status == PZ_OK && check && r->file) status = pz_run_file_check(r->file, err);
  if (status == PZ_OK)
    status = read_kept(r, PZ_PART_RESULT, "the result", pz_result_read, &r->reused, err);
  if (status == PZ_OK && !r->reused)
    status =
        pz_fail(err, PZ_BAD_INPUT,
                "%s: the run is not finished; run the same search command to resume it", r->dir);
  if (status == PZ_OK && r->file) status = check_version(r->file, r->dir, err);
  return hand_over(r, status, out);
}

enum pz_status pz_run_look(const struct pz_run_options *options, struct pz_run **out,
                           struct pz_error *err) {
  return look(options, true, out, err);
}

enum pz_status pz_run_look_unchecked(const struct pz_run_options *options, struct pz_run **out,
                                     struct pz_error *err) {
  return look(options, false, out, err);
}

void pz_run_close(struct pz_run *r) {
  if (!r) return;
  pz_run_file_close(r->file);
  if (r->has_study) pz_study_release(&r->study);
  pz_arena_release(&r->arena);
  pz_free(r->dir);
  pz_free(r);
}

/* ---- what is known -------------------------------------------------------------------------- */

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
  const struct pz_vec *notes =
      pz_study_is_training(&r->study) ? &r->study.notes : &r->study.portfolio.notes;
  if (!r->has_study || i >= notes->n) return NULL;
  const struct pz_note *note = pz_vec_at(notes, struct pz_note, i);
  if (lists) *lists = note->lists;
  return note->text;
}

/* ---- the search ----------------------------------------------------------------------------- */

static double lap(double *since_s) {
  double now = pz_clock_s(), took = now - *since_s;
  *since_s = now;
  return took;
}

/* All objective runs, found or restored from rounds that were kept. */
static enum pz_status run_all(struct pz_run *r, const struct pz_round_store *store,
                              struct pz_error *err) {
  struct pz_study_watch w = {r->watch, store};
  double since = pz_clock_s(), since_run;
  enum pz_status status = pz_study_prepare(&r->study, &w, err);
  r->times.bounds_s = lap(&since);
  since_run = since;
  for (uint32_t i = 0; i < r->study.n_runs && status == PZ_OK; i++) {
    status = pz_study_run(&r->study, i, err);
    r->run_s[i] = lap(&since_run);
  }
  r->times.search_s = lap(&since);
  return status;
}

/* From the search to the result. */
static enum pz_status search(struct pz_run *r, struct pz_error *err) {
  enum pz_status status = run_all(r, r->file ? pz_run_file_rounds(r->file) : NULL, err);
  double since = pz_clock_s();
  if (status == PZ_OK) status = pz_result_make(&r->result, &r->study, r->watch, err);
  r->times.result_s = lap(&since);
  if (status == PZ_OK && !pz_study_is_training(&r->study))
    r->times.n_variants = pz_original_variants(r->study.by);
  return status;
}

static enum pz_status keep_times(struct pz_run *r, struct pz_error *err) {
  const struct pz_run_times *t = &r->times;
  enum pz_status status = pz_run_file_set_timing(r->file, "bounds_s", t->bounds_s, err);
  if (status == PZ_OK) status = pz_run_file_set_timing(r->file, "search_s", t->search_s, err);
  if (status == PZ_OK) status = pz_run_file_set_timing(r->file, "result_s", t->result_s, err);
  return status == PZ_OK
             ? pz_run_file_set_timing(r->file, "evaluations", (double)t->n_variants, err)
             : status;
}

/* Certificates, evaluations, how long it took, and the result, which finishes the run. */
static enum pz_status keep_result(struct pz_run *r, struct pz_error *err) {
  struct pz_run_tables t = {.runs = r->study.objective_run, .n_runs = r->study.n_runs};
  struct pz_found_step *known = NULL;
  enum pz_status status =
      pz_search_all_known(r->study.search, &r->study.arena, &known, &t.n_known, err);
  t.known = known;
  if (status == PZ_OK) status = pz_run_file_set_tables(r->file, &t, err);
  if (status == PZ_OK) status = keep_times(r, err);
  if (status == PZ_OK) status = keep_json(r->file, PZ_PART_RESULT, pz_result_json(&r->result), err);
  return status == PZ_OK && r->dir ? pz_exports_write(r->dir, &r->result, err) : status;
}

/* A call begins: what cancelled an earlier one does not count any more. */
static enum pz_status begin(struct pz_run *r, bool after_search, struct pz_error *err) {
  enum pz_status status = pz_need(r, "run", err);
  if (status != PZ_OK) return status;
  atomic_store(&r->stop, false);
  return !after_search || r->result.n_answers
             ? PZ_OK
             : pz_fail(err, PZ_BAD_USE, "the run has no result yet; call pz_run_search first");
}

/* One whose search ended before its gap was proved goes on. */
static bool is_finished(const struct pz_result *r) {
  for (uint32_t i = 0; i < r->n_answers; i++)
    if (!r->answers[i].certificate.finished) return false;
  return true;
}

enum pz_status pz_run_search(struct pz_run *r, struct pz_error *err) {
  enum pz_status status = begin(r, false, err);
  if (status != PZ_OK || r->result.n_answers) return status;
  if (r->dir) status = read_kept(r, PZ_PART_RESULT, "the result", pz_result_read, &r->reused, err);
  if (status == PZ_OK && r->reused && !r->looking && !is_finished(&r->result)) {
    pz_result_init(&r->result, &r->arena);
    r->reused = false;
  }
  if (status == PZ_OK && !r->reused) {
    status = search(r, err);
    r->restored = r->changed = status == PZ_OK;
    if (status == PZ_OK && r->file) status = keep_result(r, err);
  }
  if (status != PZ_OK) pz_result_init(&r->result, &r->arena); /* none of it counts */
  return status;
}

/* ---- comparison and detail ------------------------------------------------------------------ */

/* Rounds of a file that is only read: none is added. */
static enum pz_status keep_none(void *ctx, uint32_t run, uint32_t round, const struct pz_buffer *b,
                                struct pz_error *err) {
  (void)ctx, (void)run, (void)round, (void)b;
  return pz_fail(err, PZ_BAD_INPUT, "the run does not have all of its rounds; see phaze verify");
}

/* As many rounds of every objective run as a result has. */
static void limit_rounds(struct pz_study *s, const struct pz_result *r) {
  for (uint32_t i = 0; i < s->n_runs; i++) s->most_rounds[i] = r->answers[i].certificate.n_rounds;
}

/* The study in memory as it is when its objective runs are done. */
static enum pz_status have_study(struct pz_run *r, struct pz_error *err) {
  struct pz_round_store store = {0};
  enum pz_status status = PZ_OK;
  if (r->restored) return PZ_OK;
  if (!r->has_study) {
    status = pz_study_init(&r->study, &r->result.inputs.options, r->o.threads, err);
    r->has_study = status == PZ_OK;
  }
  if (r->file) store = *pz_run_file_rounds(r->file);
  store.keep = keep_none;
  r->study.o.seconds = 0;
  if (status == PZ_OK) limit_rounds(&r->study, &r->result);
  if (status == PZ_OK) status = run_all(r, r->file ? &store : NULL, err);
  if (status == PZ_OK &&
      pz_space_id(&r->study.space, &r->study.objective_run[r->study.n_runs - 1].best) !=
          pz_result_best(&r->result)->chip_id)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "the run's best chip is not the one its rounds give; see phaze verify");
  r->restored = status == PZ_OK;
  return status;
}

static enum pz_status take_training(const json_t *json, struct pz_result *r, struct pz_error *err) {
  char *text = pz_json_dump(json, HOW);
  r->training_detail = text ? pz_arena_strdup(r->arena, text) : NULL;
  pz_free(text);
  if (!r->training_detail) return no_memory(err);
  return pz_detail_read(json_object_get(json, "layers"), r, err);
}

static enum pz_status make_training(struct pz_run *r, json_t **out, struct pz_error *err) {
  enum pz_status status = pz_training_detail(&r->study, r->watch, out, err);
  return status == PZ_OK ? take_training(*out, &r->result, err) : status;
}

static enum pz_status have_detail(struct pz_run *r, struct pz_error *err) {
  bool kept = false, training = r->result.inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  json_t *made = NULL;
  enum pz_status status = PZ_OK;
  if (r->result.detail || r->result.training_detail) return PZ_OK;
  if (r->dir)
    status = read_kept(r, PZ_PART_DETAIL, "the report's data",
                       training ? take_training : pz_detail_read, &kept, err);
  if (status == PZ_OK && (!kept || !training)) status = have_study(r, err);
  if (status == PZ_OK && kept)
    return training ? PZ_OK : pz_detail_chips(&r->study, &r->result, err);
  if (status == PZ_OK && training) status = make_training(r, &made, err);
  if (status == PZ_OK && !training) {
    status = pz_detail_make(&r->study, r->watch, &r->result, err);
    if (status == PZ_OK && r->file) made = pz_detail_json(&r->result);
  }
  if (status == PZ_OK && r->file && !r->looking)
    return keep_json(r->file, PZ_PART_DETAIL, made, err);
  json_decref(made);
  return status;
}

enum pz_status pz_run_detail(struct pz_run *r, struct pz_error *err) {
  enum pz_status status = begin(r, true, err);
  return status == PZ_OK ? have_detail(r, err) : status;
}

/* Times of the search beside those of the baselines. */
static void add_search_times(struct pz_run *r) {
  for (uint32_t i = 0; i < r->result.comparison->n_runs; i++) {
    struct pz_comparison_run *run = &r->result.comparison->runs[i];
    run->methods[run->n_methods - 1].seconds = r->run_s[i];
  }
}

static bool has_comparison(const struct pz_run *r, const uint64_t *seed) {
  const struct pz_comparison *c = r->result.comparison;
  return c && (!seed || c->seed == *seed);
}

enum pz_status pz_run_compare(struct pz_run *r, const uint64_t *seed, struct pz_error *err) {
  bool kept = false;
  enum pz_status status = begin(r, true, err);
  if (status != PZ_OK || has_comparison(r, seed)) return status;
  if (r->result.inputs.options.evaluator == PZ_EVALUATOR_TRAINING)
    return pz_fail(err, PZ_BAD_USE,
                   "baselines are compared by the evaluator original; accepted: evaluator "
                   "original");
  if (r->dir)
    status = read_kept(r, PZ_PART_COMPARISON, "the comparison", pz_comparison_read, &kept, err);
  if (status != PZ_OK || (kept && has_comparison(r, seed))) return status;
  status = have_study(r, err);
  /* a detail that is kept must not depend on what baselines evaluate */
  if (status == PZ_OK && r->dir) status = have_detail(r, err);
  if (status == PZ_OK)
    status = pz_compare(&r->study, seed ? *seed : PZ_COMPARE_SEED, r->watch, &r->result, err);
  if (status != PZ_OK) return status;
  add_search_times(r);
  r->changed = true;
  if (!r->file || r->looking) return PZ_OK;
  return keep_json(r->file, PZ_PART_COMPARISON, pz_comparison_json(&r->result), err);
}

/* ---- again ---------------------------------------------------------------------------------- */

/* Rounds of one run file, and what is found beside them into another. */
struct source {
  const struct pz_round_store *from, *to;
};

static enum pz_status read_source(void *ctx, uint32_t run, uint32_t round, struct pz_buffer *b,
                                  struct pz_error *err) {
  const struct source *x = ctx;
  enum pz_status status = x->from ? x->from->read(x->from->ctx, run, round, b, err) : PZ_OK;
  return status == PZ_OK && b->text ? x->to->keep(x->to->ctx, run, round, b, err) : status;
}

static enum pz_status keep_source(void *ctx, uint32_t run, uint32_t round,
                                  const struct pz_buffer *b, struct pz_error *err) {
  const struct source *x = ctx;
  return x->to->keep(x->to->ctx, run, round, b, err);
}

/* A run without a directory, with the options that the inputs of another say. */
static enum pz_status begin_again(const struct pz_run *kept, struct pz_run **out,
                                  struct pz_error *err) {
  struct pz_run_options o = kept->o;
  o.dir = NULL;
  enum pz_status status = new_run(&o, out, err);
  if (status != PZ_OK) return status;
  struct pz_run *r = *out;
  status = pz_study_init(&r->study, &kept->result.inputs.options, o.threads, err);
  r->has_study = status == PZ_OK;
  if (status == PZ_OK) limit_rounds(&r->study, &kept->result);
  json_t *inputs = status == PZ_OK ? pz_study_inputs(&r->study) : NULL;
  char *text = inputs ? pz_json_dump(inputs, HOW) : NULL;
  if (status == PZ_OK && !text) status = no_memory(err);
  if (status == PZ_OK && pz_ranks_first()) status = pz_run_file_in_memory(text, &r->file, err);
  pz_free(text);
  json_decref(inputs);
  return status;
}

enum pz_status pz_run_again(const struct pz_run *kept, bool replay, bool detail,
                            const uint64_t *seed, struct pz_run **out, struct pz_error *err) {
  struct pz_run *r = NULL;
  struct source x = {0};
  struct pz_round_store store = {&x, read_source, keep_source};
  enum pz_status status = begin_again(kept, &r, err);
  if (status == PZ_OK && r->file) x.to = pz_run_file_rounds(r->file);
  if (status == PZ_OK && r->file && replay) x.from = pz_run_file_rounds(kept->file);
  if (status == PZ_OK) status = run_all(r, r->file ? &store : NULL, err);
  if (status == PZ_OK) status = pz_result_make(&r->result, &r->study, r->watch, err);
  r->restored = status == PZ_OK;
  if (status == PZ_OK && r->file) status = keep_result(r, err);
  if (status == PZ_OK && detail) status = have_detail(r, err);
  if (status == PZ_OK && seed) status = pz_run_compare(r, seed, err);
  return hand_over(r, status, out);
}
