/* Verification of a run: what it recorded is recomputed and compared; the boxes of its certificates cover the space, and
 * chips drawn from them are evaluated without the bounds of the search. */

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
#include "study/exports.h"
#include "study/result_json.h"
#include "study/run.h"

/* Values are found in another order of sums. */
static const double SAME = 1e-6;

enum { MOST_DRAWS = 50 };

struct job {
  const struct pz_verify_options *o;
  struct pz_run *kept;  /* as it stands in the directory */
  struct pz_run *again; /* as it should be */
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

/* ---- what was recorded ---------------------------------------------------------------------- */

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

/* Digests tell damage; what they are of is compared with what is made again all the same. */
static enum pz_status check_file(struct job *j) {
  struct pz_error why = {0};
  enum pz_status status = j->kept->file ? pz_run_file_check(j->kept->file, &why) : PZ_OK;
  if (status != PZ_OK && status != PZ_BAD_INPUT) return pz_fail(j->err, status, "%s", why.message);
  bool good = status == PZ_OK;
  status = pz_ranks_share_flag(&good, j->err);
  say(j, good, "%s", good ? "file: every part has its digest" : why.message);
  return status;
}

/* Does a text of both differ, and where? */
static enum pz_status find_difference(struct job *j, enum pz_part part, char *path, size_t size) {
  char *was = NULL, *is = NULL;
  json_t *a = NULL, *b = NULL;
  enum pz_status status = pz_run_file_text(j->kept->file, part, &was, j->err);
  if (status == PZ_OK) status = pz_run_file_text(j->again->file, part, &is, j->err);
  if (status == PZ_OK && was && is && pz_json_parse("", was, strlen(was), &a, NULL) == PZ_OK &&
      pz_json_parse("", is, strlen(is), &b, NULL) == PZ_OK)
    (void)differ(a, b, path, size);
  json_decref(a);
  json_decref(b);
  pz_free(was);
  pz_free(is);
  return status;
}

static bool is_text(enum pz_part part) {
  return part == PZ_PART_RESULT || part == PZ_PART_COMPARISON || part == PZ_PART_DETAIL;
}

static enum pz_status check_part(struct job *j, enum pz_part part) {
  char path[200] = "";
  bool same = false;
  enum pz_status status = pz_run_file_same(j->kept->file, j->again->file, part, &same, j->err);
  if (status == PZ_OK && !same && is_text(part))
    status = find_difference(j, part, path, sizeof path);
  if (status != PZ_OK) return status;
  say(j, same, same ? "%s: same when recomputed%s%s" : "%s: other than recomputed%s%s",
      pz_part_names[part], *path ? ", first at " : "", path);
  return PZ_OK;
}

/* Inputs are what the models, and this program, still make of them. */
static enum pz_status check_inputs(struct job *j) {
  json_t *was = NULL, *is = NULL;
  const char *a = pz_run_file_inputs(j->kept->file), *b = pz_run_file_inputs(j->again->file);
  char path[200] = "";
  enum pz_status status = pz_json_parse("inputs", a, strlen(a), &was, j->err);
  if (status == PZ_OK) status = pz_json_parse("inputs", b, strlen(b), &is, j->err);
  bool other = status == PZ_OK && differ(was, is, path, sizeof path);
  if (status == PZ_OK) say(j, !other, other ? "inputs: %s has changed" : "inputs: unchanged", path);
  json_decref(was);
  json_decref(is);
  return status;
}

/* Every part that the run has; rank 0 has both files. */
static enum pz_status check_parts(struct job *j) {
  enum pz_status status = PZ_OK;
  if (!j->kept->file) return PZ_OK;
  status = check_inputs(j);
  for (enum pz_part p = PZ_PART_RESULT; p < PZ_PART_TIMINGS && status == PZ_OK; p++) {
    char *text = NULL;
    if (is_text(p)) status = pz_run_file_text(j->kept->file, p, &text, j->err);
    if (status == PZ_OK && (text || !is_text(p))) status = check_part(j, p);
    pz_free(text);
  }
  return status;
}

/* Files that the search wrote beside the run. */
static enum pz_status check_exports(struct job *j, const char *dir) {
  enum pz_status status = PZ_OK;
  for (int i = 0; i < PZ_EXPORTS && status == PZ_OK && pz_ranks_first(); i++) {
    bool there = false, same = false;
    status = pz_export_same(dir, &j->again->result, i, &there, &same, j->err);
    if (status == PZ_OK && there)
      say(j, same, "%s: %s", pz_export_names[i], same ? "of the run" : "is not of this run");
  }
  return status;
}

/* ---- certificates --------------------------------------------------------------------------- */

/* A box, with one of its chips. */
struct drawn {
  const struct pz_closed_box *b;
  struct pz_point chip;
  bool good;
};

struct sample {
  struct pz_study *s;
  const struct pz_objective_run *run;
  struct drawn *list;
};

/* What a chip is worth with the best plans of all models, without any bound. */
static enum pz_status value_of(struct sample *x, unsigned worker, const struct pz_boxed *c,
                               const struct pz_taken *price, double *value, struct pz_error *err) {
  const struct pz_objective *o = &x->run->objective;
  struct pz_study *s = x->s;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < o->n && status == PZ_OK; i++) {
    uint32_t m = o->models[i];
    struct pz_evaluation e = {.step_s = HUGE_VAL};
    status = pz_study_is_training(s)
                 ? s->by->ops->value(s->by, worker, c, m, PZ_EFFORT_QUICK, HUGE_VAL, &e, err)
                 : pz_original_value_of_chip(pz_original_worker(s->by, worker), &c->lo, m,
                                             pz_task_most_hbm(&s->task), PZ_EFFORT_QUICK, &e, err);
    steps[m] = (struct pz_step_cost){e.step_s, e.dynamic_j};
  }
  *value = status == PZ_OK ? pz_objective_value(o, steps, price) : 0;
  return status;
}

/* Of a box that a bound closed: the value of one of its chips within the limits, of which alone it tells; and, where more is never slower, of its largest at the price
 * of its smallest. */
static enum pz_status check_bound(struct sample *x, unsigned worker, struct drawn *d,
                                  struct pz_error *err) {
  struct pz_box one = pz_box_of(&d->chip), last = d->b->box;
  struct pz_boxed box, c;
  double value = 0, most = 0, bound = d->b->bound * (1 + SAME);
  pz_boxed_set(&x->s->space, &one, &c);
  enum pz_status status = PZ_OK;
  if (!pz_boxed_breaks(&c, &x->s->limits)) status = value_of(x, worker, &c, &c.least, &value, err);
  if (status == PZ_OK && pz_study_is_training(x->s)) {
    pz_boxed_set(&x->s->space, &d->b->box, &box);
    memcpy(last.lo, last.hi, sizeof last.lo);
    pz_boxed_set(&x->s->space, &last, &c);
    status = value_of(x, worker, &c, &box.least, &most, err);
  }
  d->good = value <= bound && most <= bound;
  return status;
}

static enum pz_status check_box(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  struct sample *x = ctx;
  struct drawn *d = &x->list[i];
  struct pz_boxed b;
  double value = 0;
  enum pz_status status = PZ_OK;
  pz_boxed_set(&x->s->space, &d->b->box, &b);
  switch (d->b->end) {
  case PZ_BOX_INFEASIBLE: d->good = pz_boxed_breaks(&b, &x->s->limits) != NULL; break;
  case PZ_BOX_EVALUATED:
    status = value_of(x, worker, &b, &b.least, &value, err);
    d->good = value <= d->b->bound * (1 + SAME) && value <= x->run->value * (1 + SAME) &&
              d->b->value <= x->run->value * (1 + SAME);
    break;
  default: status = check_bound(x, worker, d, err);
  }
  return status;
}

static void pack_drawn(void *ctx, size_t i, struct pz_buffer *out) {
  const struct sample *x = ctx;
  pz_buffer_append(out, (const char *)&x->list[i].good, sizeof x->list[i].good);
}

static enum pz_status unpack_drawn(void *ctx, size_t i, struct pz_bytes *in) {
  struct sample *x = ctx;
  return pz_bytes_take(in, &x->list[i].good, sizeof x->list[i].good) ? PZ_OK : PZ_BAD_INPUT;
}

/* A chip of the box, at random: within the limits, if one of some is. */
static struct pz_point draw_chip(const struct pz_study *s, const struct pz_box *b, uint64_t *seed) {
  struct pz_point p = {.kind = b->kind};
  bool within = false;
  for (int tries = 0; tries < MOST_DRAWS && !within; tries++) {
    for (enum pz_axis a = 0; a < PZ_AXES; a++)
      p.at[a] =
          (uint8_t)(b->lo[a] + (int)pz_random_below(seed, (uint32_t)(b->hi[a] - b->lo[a] + 1)));
    struct pz_box one = pz_box_of(&p);
    struct pz_boxed c;
    pz_boxed_set(&s->space, &one, &c);
    within = !pz_boxed_breaks(&c, &s->limits);
  }
  return p;
}

/* Boxes without replacement; other ones in every run. */
static uint32_t draw(struct job *j, const struct pz_objective_run *run, struct drawn *list,
                     uint32_t *order) {
  uint32_t n = j->o->all || j->o->sample > run->n_boxes ? run->n_boxes : j->o->sample;
  uint64_t seed = pz_space_id(&j->again->study.space, &run->best) ^ run->n_boxes;
  for (uint32_t i = 0; i < run->n_boxes; i++) order[i] = i;
  pz_random_draw(&seed, order, run->n_boxes, n);
  for (uint32_t i = 0; i < n; i++) {
    list[i].b = &run->boxes[order[i]];
    list[i].chip = draw_chip(&j->again->study, &list[i].b->box, &seed);
  }
  return n;
}

static enum pz_status check_boxes(struct job *j, uint32_t i) {
  struct pz_study *s = &j->again->study;
  const struct pz_objective_run *run = &s->objective_run[i];
  uint32_t wrong = 0, all = run->n_boxes;
  uint32_t *order = pz_calloc(all, sizeof *order);
  struct sample x = {s, run, pz_calloc(all, sizeof *x.list)};
  struct pz_search_work work = {check_box, pack_drawn, unpack_drawn, &x, false};
  uint32_t n = order && x.list ? draw(j, run, x.list, order) : 0;
  enum pz_status status = order && x.list
                              ? pz_search_deal(s->search, n, &work, j->err)
                              : pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the sample");
  for (uint32_t k = 0; k < n && status == PZ_OK; k++) wrong += !x.list[k].good;
  if (status == PZ_OK && wrong)
    say(j, false, "%s: %u of %u boxes are closed wrongly", pz_study_run_name(s, i), wrong, n);
  else if (status == PZ_OK)
    say(j, true, "%s: %u of %u boxes%s are closed rightly, by chips evaluated without bounds",
        pz_study_run_name(s, i), n, all, n < all ? ", drawn at random," : "");
  pz_free(order);
  pz_free(x.list);
  return status;
}

/* Every chip of the space once; the gap that is told. */
static enum pz_status check_certificate(struct job *j, uint32_t i) {
  const struct pz_study *s = &j->again->study;
  const struct pz_objective_run *run = &s->objective_run[i];
  const char *name = pz_study_run_name(s, i);
  char chips[32], boxes[32];
  struct pz_closed_box *list = pz_calloc(run->n_boxes, sizeof *list);
  double most = run->value;
  if (!list) return pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the boxes");
  memcpy(list, run->boxes, run->n_boxes * sizeof *list);
  for (uint32_t k = 0; k < run->n_boxes; k++)
    if (list[k].end != PZ_BOX_INFEASIBLE) most = pz_fmax(most, list[k].bound);
  bool cover = pz_boxes_cover(&s->space, list, run->n_boxes);
  double gap = j->kept->result.answers[i].certificate.gap;
  pz_free(list);
  say(j, cover, "%s: %s boxes hold each of the %s chips %s", name,
      pz_text_count(boxes, sizeof boxes, run->n_boxes),
      pz_text_count(chips, sizeof chips, run->chips), cover ? "once" : "other than once");
  say(j, fabs(most / run->value - 1 - gap) <= SAME,
      "%s: no bound is above the best by more than %.3f%%", name, 100 * (most / run->value - 1));
  return PZ_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Does the run have this part? */
static enum pz_status has_part(struct job *j, enum pz_part part, bool *has) {
  char *text = NULL;
  enum pz_status status =
      j->kept->file ? pz_run_file_text(j->kept->file, part, &text, j->err) : PZ_OK;
  *has = text;
  pz_free(text);
  return status == PZ_OK ? pz_ranks_share_flag(has, j->err) : status;
}

static enum pz_status run_again(struct job *j) {
  bool detail = false, comparison = false;
  uint64_t seed = PZ_COMPARE_SEED;
  enum pz_status status = has_part(j, PZ_PART_DETAIL, &detail);
  if (status == PZ_OK) status = has_part(j, PZ_PART_COMPARISON, &comparison);
  if (status == PZ_OK && comparison) {
    status = pz_run_compare(j->kept, NULL, j->err); /* reads it */
    if (status == PZ_OK) seed = j->kept->result.comparison->seed;
  }
  if (status != PZ_OK) return status;
  return pz_run_again(j->kept, !j->o->all, detail, comparison ? &seed : NULL, &j->again, j->err);
}

static enum pz_status check_all(struct job *j, const char *dir) {
  struct pz_run_options o = pz_run_options_default();
  o.dir = dir;
  o.threads = j->o->threads;
  enum pz_status status = pz_run_look_unchecked(&o, &j->kept, j->err);
  if (status == PZ_OK) status = check_file(j);
  if (status == PZ_OK) status = run_again(j);
  if (status == PZ_OK) status = check_parts(j);
  if (status == PZ_OK) status = check_exports(j, dir);
  for (uint32_t i = 0; status == PZ_OK && i < j->again->study.n_runs; i++) {
    status = check_certificate(j, i);
    if (status == PZ_OK) status = check_boxes(j, i);
  }
  return status;
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
  status = check_all(&j, dir);
  if (status == PZ_OK) status = pz_ranks_share_flag(&j.holds, err);
  pz_run_close(j.again);
  pz_run_close(j.kept);
  if (status == PZ_OK) *holds = j.holds;
  return status;
}
