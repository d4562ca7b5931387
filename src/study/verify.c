/* Verification of a run: everything is recomputed from its inputs and compared; plans are
 * checked by code that shares nothing with their solver, and a sample of the excluded chips is
 * evaluated without bounds. */

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/ranks.h"
#include "core/status.h"
#include "core/text.h"
#include "study/compare.h"
#include "study/detail.h"
#include "study/result_json.h"
#include "study/result_make.h"
#include "study/run.h"

struct job {
  const struct pz_verify_options *o;
  struct pz_study study;
  struct pz_arena arena;
  struct pz_run *kept;     /* as it stands in the directory */
  struct pz_result result; /* made again */
  bool holds;
  struct pz_error *err;
};

static void say(struct job *j, bool holds, const char *format, ...) PZ_PRINTF(3, 4);

static void say(struct job *j, bool holds, const char *format, ...) {
  char text[600];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  j->holds = j->holds && holds;
  if (j->o->say && pz_ranks_first()) j->o->say(j->o->ctx, holds, text);
}

/* ---- what differs --------------------------------------------------------------------------- */

/* Where two values differ first, as best.models[2].plan; false: nowhere. */
static bool differ(const json_t *a, const json_t *b, char *path, size_t size) {
  size_t at = strlen(path), n;
  const char *key;
  json_t *v;
  if (json_equal(a, b)) return false;
  if (json_is_object(a) && json_is_object(b)) json_object_foreach((json_t *)(uintptr_t)a, key, v) {
      snprintf(path + at, size - at, "%s%s", at ? "." : "", key);
      if (differ(v, json_object_get(b, key), path, size)) return true;
    }
  if (json_is_array(a) && json_array_size(a) == json_array_size(b))
    json_array_foreach((json_t *)(uintptr_t)a, n, v) {
      snprintf(path + at, size - at, "[%zu]", n);
      if (differ(v, json_array_get(b, n), path, size)) return true;
    }
  path[at] = '\0'; /* not inside: here */
  return true;
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* The study that the inputs describe: they must describe it whole. */
static enum pz_status make_study(struct job *j) {
  struct pz_study_options o;
  char path[200] = "";
  json_t *inputs = NULL;
  struct pz_buffer b = {0};
  const char *kept = j->kept->file ? pz_run_file_inputs(j->kept->file) : NULL;
  enum pz_status status = !kept || pz_buffer_append(&b, kept, strlen(kept))
                              ? PZ_OK
                              : pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the inputs");
  status = pz_ranks_share(&b, status, j->err);
  if (status == PZ_OK) status = pz_json_parse("inputs", b.text, b.bytes, &inputs, j->err);
  pz_free(b.text);
  if (status == PZ_OK) status = pz_study_from_inputs(inputs, &j->arena, &o, j->err);
  if (status == PZ_OK) status = pz_study_init(&j->study, &o, j->o->threads, j->err);
  if (status != PZ_OK) {
    json_decref(inputs);
    return status;
  }
  json_t *again = pz_study_inputs(&j->study);
  bool other = differ(inputs, again, path, sizeof path);
  json_decref(again);
  json_decref(inputs);
  say(j, !other, other ? "inputs: %s has changed" : "inputs: unchanged", path);
  return PZ_OK;
}

/* ---- chip statuses --------------------------------------------------------------------------- */

struct cover {
  struct job *j;
  uint32_t objective_run, n, at; /* rows, and the point expected next */
  uint32_t missing, strange, wrong;
};

static bool same_chip_status(const struct pz_chip_status *a, const struct pz_chip_status *b) {
  return a->kind == b->kind && a->value == b->value && a->bound == b->bound;
}

/* Rows come by id, as the points do. */
static enum pz_status take(void *into, uint32_t id, const struct pz_chip_status *chip_status) {
  struct cover *c = into;
  const struct pz_study *s = &c->j->study;
  while (c->at < s->n_points && s->points[c->at].id < id) c->at++, c->missing++;
  if (c->at >= s->n_points || s->points[c->at].id != id) {
    c->strange++;
    return PZ_OK;
  }
  c->wrong +=
      !same_chip_status(chip_status, &s->objective_run[c->objective_run].chip_status[c->at]);
  c->at++;
  c->n++;
  return PZ_OK;
}

/* Every chip of the space stands there once, as it does when the objective run is run again. */
static enum pz_status check_chip_statuses(struct job *j, uint32_t objective_run) {
  if (!j->kept->file) return PZ_OK; /* rank 0 has it */
  struct cover c = {.j = j, .objective_run = objective_run};
  const char *name = pz_study_run_name(&j->study, objective_run);
  enum pz_status status = pz_run_file_read_chip_statuses(j->kept->file, name, take, &c, j->err);
  if (status != PZ_OK) return status;
  c.missing += j->study.n_points - c.at;
  bool whole = !c.missing && !c.strange, same = !c.wrong;
  say(j, whole && same,
      whole ? same ? "%s: all %u chip%s evaluated or excluded, with the same bounds"
                   : "%s: %u chip%s recorded, %u of them differ when recomputed"
            : "%s: %u chip%s recorded; %u of the space are missing, %u are not in the space",
      name, whole ? j->study.n_points : c.n, pz_text_s(whole ? j->study.n_points : c.n),
      whole ? c.wrong : c.missing, c.strange);
  return PZ_OK;
}

/* ---- evaluations ---------------------------------------------------------------------------- */

struct rows {
  struct job *j;
  uint32_t n, wrong, missing;
  bool *seen;     /* by point, model and effort */
  char first[80]; /* of the wrong ones */
  struct pz_error *err;
};

static bool same_evaluation(const struct pz_evaluation *a, const struct pz_evaluation *b) {
  const struct pz_plan_record *p = &a->plan, *q = &b->plan;
  if (a->time_s != b->time_s || a->least_s != b->least_s || a->n_open != b->n_open) return false;
  if (p->variant != q->variant || p->recompute != q->recompute || p->d != q->d) return false;
  if (p->n_stages != q->n_stages) return false;
  return !p->n_stages || memcmp(p->layers, q->layers, p->n_stages * sizeof *p->layers) == 0;
}

static int by_id(const void *a, const void *b) {
  const struct pz_point *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

static size_t seen_at(const struct pz_study *s, uint32_t point, uint32_t model,
                      enum pz_effort effort) {
  return ((size_t)point * s->portfolio.n_models + model) * PZ_EFFORT_FULL + (size_t)effort - 1;
}

static enum pz_status check_row(void *into, const struct pz_entry *entry) {
  struct rows *r = into;
  struct pz_study *s = &r->j->study;
  struct pz_point key = {.id = entry->id};
  const struct pz_point *p = bsearch(&key, s->points, s->n_points, sizeof key, by_id);
  const struct pz_evaluation *again = NULL;
  bool known = p && entry->model < s->portfolio.n_models && entry->e.effort >= PZ_EFFORT_QUICK &&
               entry->e.effort <= PZ_EFFORT_FULL;
  r->n++;
  if (known) {
    enum pz_status status = pz_search_evaluate(s->search, (uint32_t)(p - s->points), entry->model,
                                               entry->e.effort, &again, r->err);
    if (status != PZ_OK) return status;
  }
  if (again && same_evaluation(&entry->e, again)) {
    r->seen[seen_at(s, (uint32_t)(p - s->points), entry->model, entry->e.effort)] = true;
    return PZ_OK;
  }
  if (!r->wrong++)
    snprintf(r->first, sizeof r->first, "chip %u, model %u, effort %d", entry->id, entry->model,
             (int)entry->e.effort);
  return PZ_OK;
}

/* Evaluations that the study made and the run does not have; before rows are made again. */
static uint32_t count_known(const struct pz_study *s, const bool *seen) {
  uint32_t n = 0;
  for (uint32_t p = 0; p < s->n_points; p++)
    for (uint32_t m = 0; m < s->portfolio.n_models; m++)
      for (enum pz_effort e = PZ_EFFORT_QUICK; e <= PZ_EFFORT_FULL; e++)
        n += pz_search_known(s->search, p, m, e) && !seen[seen_at(s, p, m, e)];
  return n;
}

static enum pz_status compare_rows(struct job *j, bool *seen) {
  const struct pz_journal *journal = pz_run_file_journal(j->kept->file);
  struct pz_error why = {0};
  struct rows r = {.j = j, .err = &why, .seen = seen};
  enum pz_status status = journal->recall(journal->ctx, check_row, &r, &why);
  if (status == PZ_BAD_INPUT) {
    say(j, false, "%s", why.message);
    return PZ_OK;
  }
  if (status != PZ_OK) return pz_fail(j->err, status, "%s", why.message);
  r.missing = count_known(&j->study, seen);
  if (r.wrong)
    say(j, false, "evaluations: %u of %u differ when recomputed, the first: %s", r.wrong, r.n,
        r.first);
  else if (r.missing)
    say(j, false, "evaluations: %u are missing", r.missing);
  else
    say(j, true, "evaluations: all %u recomputed, same throughputs and plans", r.n);
  return PZ_OK;
}

static enum pz_status check_evaluations(struct job *j) {
  if (!j->kept->file) return PZ_OK;
  size_t n = (size_t)j->study.n_points * j->study.portfolio.n_models * PZ_EFFORT_FULL;
  bool *seen = pz_calloc(n, sizeof *seen);
  if (!seen) return pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the evaluations");
  enum pz_status status = compare_rows(j, seen);
  pz_free(seen);
  return status;
}

/* ---- chips ---------------------------------------------------------------------------------- */

struct chips {
  const struct pz_result *r;
  uint32_t n, wrong;
};

static enum pz_status check_chip(void *into, const struct pz_result_chip *c) {
  struct chips *x = into;
  if (x->n < x->r->n_chips) {
    struct pz_result_chip o = x->r->chips[x->n];
    x->wrong += c->id != o.id || strcmp(c->name, o.name) != 0 ||
                c->tensor_cores != o.tensor_cores || c->rows != o.rows || c->cols != o.cols ||
                c->vector_cores != o.vector_cores || c->lanes != o.lanes ||
                c->glb_bytes != o.glb_bytes || c->area_mm2 != o.area_mm2 || c->watts != o.watts;
  }
  x->n++;
  return PZ_OK;
}

static enum pz_status check_chips(struct job *j) {
  if (!j->kept->file) return PZ_OK;
  struct chips x = {.r = &j->result};
  int64_t rows = 0, want = (int64_t)j->study.n_points * j->study.n_runs;
  enum pz_status status = pz_run_file_read_chips(j->kept->file, check_chip, &x, j->err);
  if (status == PZ_OK) status = pz_run_file_count_chip_statuses(j->kept->file, &rows, j->err);
  if (status != PZ_OK) return status;
  bool same = x.n == j->study.n_points && !x.wrong;
  say(j, same,
      same ? "chips: all %u of the space" : "chips: %u recorded, %u of them differ from the space",
      x.n, x.wrong);
  if (rows > want)
    say(j, false, "chip statuses: %" PRId64 " belong to no objective run", rows - want);
  return PZ_OK;
}

/* ---- exclusions ----------------------------------------------------------------------------- */

struct sample {
  struct job *j;
  const struct pz_objective_run *c;
  uint32_t *points;
  bool *refuted;
};

/* The chip without any bound: is it really not better than the best, nor than its own bound? */
static enum pz_status try_exclusion(void *ctx, size_t i, struct pz_evaluator *e,
                                    struct pz_error *err) {
  struct sample *x = ctx;
  const struct pz_study *s = &x->j->study;
  uint32_t point = x->points[i];
  struct pz_chip chip;
  double rates[PZ_SEARCH_MOST_MODELS] = {0};
  pz_space_chip(&s->space, &s->points[point], &chip);
  for (uint32_t k = 0; k < x->c->objective.n; k++) {
    uint32_t m = x->c->objective.models[k];
    struct pz_evaluation v;
    enum pz_status status =
        pz_evaluate_chip(e, &chip, m, pz_task_most_hbm(&s->task), PZ_EFFORT_QUICK, &v, err);
    if (status != PZ_OK) return status;
    rates[m] = v.time_s < HUGE_VAL ? (double)s->o.batch / v.time_s : 0;
  }
  double value = pz_objective_value(&x->c->objective, rates, pz_search_area_um2(s->search, point),
                                    pz_search_watts(s->search, point));
  x->refuted[i] = value > x->c->value || value > x->c->chip_status[point].bound;
  return PZ_OK;
}

static void pack_refuted(void *ctx, size_t i, struct pz_buffer *out) {
  const struct sample *x = ctx;
  pz_buffer_append(out, x->refuted[i] ? "1" : "0", 1);
}

static enum pz_status unpack_refuted(void *ctx, size_t i, struct pz_bytes *in) {
  struct sample *x = ctx;
  char c = 0;
  bool good = pz_bytes_take(in, &c, 1);
  x->refuted[i] = c != '0';
  return good ? PZ_OK : PZ_BAD_INPUT;
}

/* At most `most` of them into points; *all is how many there are. */
static uint32_t draw_excluded(const struct job *j, const struct pz_objective_run *c, uint32_t most,
                              uint32_t *points, uint32_t *all) {
  uint32_t n = 0;
  uint64_t random = c->best;
  *all = 0;
  for (uint32_t p = 0; p < j->study.n_points; p++) {
    if (c->chip_status[p].kind == PZ_CHIP_EVALUATED) continue;
    ++*all; /* each with the same chance to stay */
    uint32_t at = n < most ? n++ : (uint32_t)pz_random_below(&random, *all);
    if (at < most) points[at] = p;
  }
  return n;
}

/* A sample says how likely it has one that is wrong: of n out of `all` without replacement, n / all. */
static void say_exclusions(struct job *j, uint32_t objective_run, uint32_t n, uint32_t all,
                           uint32_t wrong) {
  const char *name = pz_study_run_name(&j->study, objective_run);
  if (wrong)
    say(j, false, "%s: %u of %u excluded chip%s evaluated exceed the bound or the best", name,
        wrong, n, pz_text_s(n));
  else if (n == all && n)
    say(j, true, "%s: all %u excluded chip%s evaluated without bounds, none is better", name, n,
        pz_text_s(n));
  else if (n)
    say(j, true,
        "%s: %u excluded chip%s evaluated without bounds, none is better (of %u: one that is would "
        "be among them with probability %.3g)",
        name, n, pz_text_s(n), all, (double)n / all);
}

static enum pz_status check_exclusions(struct job *j, uint32_t objective_run) {
  const struct pz_objective_run *c = &j->study.objective_run[objective_run];
  uint32_t most = j->o->sample < j->study.n_points ? j->o->sample : j->study.n_points, all = 0;
  struct sample x = {j, c, pz_calloc(most, sizeof *x.points), pz_calloc(most, sizeof *x.refuted)};
  struct pz_search_items items = {try_exclusion, pack_refuted, unpack_refuted, &x, false};
  uint32_t n = x.points && x.refuted ? draw_excluded(j, c, most, x.points, &all) : 0, wrong = 0;
  enum pz_status status = x.points && x.refuted
                              ? pz_search_deal(j->study.search, n, &items, j->err)
                              : pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the sample");
  for (uint32_t i = 0; i < n && x.refuted; i++) wrong += x.refuted[i];
  if (status == PZ_OK) say_exclusions(j, objective_run, n, all, wrong);
  pz_free(x.points);
  pz_free(x.refuted);
  return status;
}

/* ---- the result ----------------------------------------------------------------------------- */

typedef enum pz_status read_text(struct pz_run_file *f, char **text, struct pz_error *err);

/* A text of the run and the same made again, as that reads back: numbers have gone through text.
 * Takes over the reference. */
static enum pz_status compare_again(struct job *j, const char *what, const char *as_it_was,
                                    read_text *read, json_t *again) {
  char *text = again ? pz_json_dump(again, JSON_COMPACT) : NULL, *was = NULL, path[200] = "";
  json_t *back = NULL, *kept = NULL;
  enum pz_status status = text ? pz_json_parse(what, text, strlen(text), &back, j->err)
                               : pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the %s", what);
  if (status == PZ_OK) status = read(j->kept->file, &was, j->err);
  if (status == PZ_OK && was) status = pz_json_parse(what, was, strlen(was), &kept, j->err);
  bool other = !back || !kept || differ(back, kept, path, sizeof path);
  if (status == PZ_OK)
    say(j, !other, other ? "%s: %s differs when recomputed" : "%s: %s", what,
        other ? path : as_it_was);
  pz_free(text);
  pz_free(was);
  json_decref(again);
  json_decref(back);
  json_decref(kept);
  return status;
}

static enum pz_status check_result(struct job *j) {
  if (!j->kept->file) return PZ_OK;
  return compare_again(j, "result", "same when recomputed, plans checked", pz_run_file_result,
                       pz_result_json(&j->result));
}

/* Does the run have it? */
static enum pz_status has_text(struct job *j, read_text *read, bool *has) {
  char *text = NULL;
  enum pz_status status = j->kept->file ? read(j->kept->file, &text, j->err) : PZ_OK;
  *has = text;
  pz_free(text);
  return status == PZ_OK ? pz_ranks_share_flag(has, j->err) : status;
}

/* What reports show beside, where the run has it: before baselines evaluate more. */
static enum pz_status check_detail(struct job *j) {
  bool has = false;
  enum pz_status status = has_text(j, pz_run_file_detail, &has);
  if (status != PZ_OK || !has) return status;
  status = pz_detail_make(&j->study, (struct pz_watch){NULL, NULL}, &j->result, j->err);
  if (status != PZ_OK || !j->kept->file) return status;
  return compare_again(j, "report's data", "same when recomputed", pz_run_file_detail,
                       pz_detail_json(&j->result));
}

/* What other ways to choose came to, where the run has it. */
static enum pz_status check_comparison(struct job *j) {
  bool has = false;
  enum pz_status status = has_text(j, pz_run_file_comparison, &has);
  if (status != PZ_OK || !has) return status;
  status = pz_run_compare(j->kept, NULL, j->err); /* reads it */
  if (status != PZ_OK) return status;
  uint64_t seed = j->kept->result.comparison->seed;
  status = pz_compare(&j->study, seed, (struct pz_watch){NULL, NULL}, &j->result, j->err);
  if (status != PZ_OK || !j->kept->file) return status;
  return compare_again(j, "comparison", "same when recomputed, all baselines",
                       pz_run_file_comparison, pz_comparison_json(&j->result));
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Digests tell damage; what they are of is compared with what is made again all the same. */
static enum pz_status check_file(struct job *j) {
  if (!j->kept->file) return PZ_OK;
  struct pz_error why = {0};
  enum pz_status status = pz_run_file_check(j->kept->file, &why);
  if (status == PZ_OK || status == PZ_BAD_INPUT) {
    say(j, status == PZ_OK, "%s",
        status == PZ_OK ? "file: every part has its digest" : why.message);
    return PZ_OK;
  }
  return pz_fail(j->err, status, "%s", why.message);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Every objective run again. */
static enum pz_status check_runs(struct job *j) {
  struct pz_search_options o = {.stop = NULL};
  enum pz_status status = pz_study_prepare(&j->study, &o, j->err);
  for (uint32_t i = 0; status == PZ_OK && i < j->study.n_runs; i++) {
    status = pz_study_run(&j->study, i, j->err);
    if (status == PZ_OK) status = check_chip_statuses(j, i);
    if (status == PZ_OK) status = check_exclusions(j, i);
  }
  return status;
}

static enum pz_status check_all(struct job *j, const char *dir) {
  struct pz_run_options o = pz_run_options_default();
  o.dir = dir;
  o.threads = j->o->threads;
  enum pz_status status = pz_run_look_unchecked(&o, &j->kept, j->err);
  if (status == PZ_OK) status = check_file(j);
  if (status == PZ_OK) status = make_study(j);
  if (status == PZ_OK) status = check_runs(j);
  if (status == PZ_OK) status = pz_result_make(&j->result, &j->study, j->err);
  if (status == PZ_OK) status = pz_detail_chips(&j->study, &j->result, j->err);
  if (status == PZ_OK) status = check_chips(j);
  if (status == PZ_OK) status = check_result(j);
  if (status == PZ_OK) status = check_detail(j);
  if (status == PZ_OK) status = check_evaluations(j);
  return status == PZ_OK ? check_comparison(j) : status;
}

struct pz_verify_options pz_verify_options_default(void) {
  return (struct pz_verify_options){.size = sizeof(struct pz_verify_options), .sample = 50};
}

enum pz_status pz_verify(const char *dir, const struct pz_verify_options *options, bool *holds,
                         struct pz_error *err) {
  struct pz_verify_options o = pz_verify_options_default();
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_verify_options_default", err);
  if (status == PZ_OK) status = pz_need(dir, "dir", err);
  if (status == PZ_OK) status = pz_need(holds, "holds", err);
  if (status != PZ_OK) return status;
  struct job j = {.o = &o, .holds = true, .err = err};
  pz_arena_init(&j.arena, NULL);
  pz_result_init(&j.result, &j.arena);
  status = check_all(&j, dir);
  if (status == PZ_OK) status = pz_ranks_share_flag(&j.holds, err);
  pz_study_release(&j.study);
  pz_run_close(j.kept);
  pz_arena_release(&j.arena);
  if (status == PZ_OK) *holds = j.holds;
  return status;
}
