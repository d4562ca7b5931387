/* Verification of a saved run.  check_all() recomputes the run with its own inputs and compares
 * every saved part with the recomputed one; then it checks the certificates: check_certificate()
 * that the boxes cover the space and prove the gap, and check_boxes() that chips drawn from the
 * boxes, evaluated without the bounds of the search, are not better than the bounds say.  A
 * difference is a finding, which is reported; only what prevents the verification is an error. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/ranks.h"
#include "core/status.h"
#include "core/text.h"
#include "study/exports.h"
#include "study/result_json.h"
#include "study/run.h"
#include "study/tasks.h"

/* Values may differ this much, relatively, because sums are made in another order. */
static const double TOLERANCE = 1e-6;

enum { MOST_DRAWS = 50 }; /* tries to draw a chip of a box that is within the limits */

struct verification {
  const struct pz_verify_options *options;
  struct pz_run *saved;      /* the run in the directory */
  struct pz_run *recomputed; /* the run computed again from the same inputs */
  bool holds;
};

static void report_finding(struct verification *verification, bool holds, const char *format, ...)
    PZ_PRINTF(3, 4);

/* Reports a finding to the caller, on rank 0 alone.  The verification fails if it does not hold. */
static void report_finding(struct verification *verification, bool holds, const char *format, ...) {
  char text[600];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  verification->holds = verification->holds && holds;
  if (verification->options->say && pz_ranks_first())
    verification->options->say(verification->options->ctx, holds, text);
}

/* ---- saved parts ---------------------------------------------------------------------------- */

/* Returns whether two values differ, and appends where to `path`, such as best.models[2].plan. */
static bool find_json_difference(const json_t *saved, const json_t *recomputed, char *path,
                                 size_t size) {
  size_t end = strlen(path), n;
  const char *key;
  json_t *value;
  if (json_equal(saved, recomputed)) return false;
  if (json_is_object(saved) && json_is_object(recomputed))
    json_object_foreach((json_t *)(uintptr_t)saved, key, value) {
      snprintf(path + end, size - end, "%s%s", end ? "." : "", key);
      if (find_json_difference(value, json_object_get(recomputed, key), path, size)) return true;
    }
  if (json_is_array(saved) && json_array_size(saved) == json_array_size(recomputed))
    json_array_foreach((json_t *)(uintptr_t)saved, n, value) {
      snprintf(path + end, size - end, "[%zu]", n);
      if (find_json_difference(value, json_array_get(recomputed, n), path, size)) return true;
    }
  path[end] = '\0'; /* the members are equal, so this value itself differs */
  return true;
}

struct compared_texts {
  const char *saved, *recomputed;
  char *path;
  size_t size;
};

/* Appends the path of the first difference of two JSON texts.  It runs within a border, because a
 * changed run file may contain a text that is no JSON; the path then stays empty. */
static void compare_texts(struct pz_call *call, void *ctx) {
  const struct compared_texts *texts = ctx;
  const json_t *saved = pz_json_read(call, "", texts->saved, strlen(texts->saved));
  const json_t *recomputed = pz_json_read(call, "", texts->recomputed, strlen(texts->recomputed));
  (void)find_json_difference(saved, recomputed, texts->path, texts->size);
}

/* Compares every part of the saved run with the recomputed one.  Only rank 0 has the files. */
static void check_parts(struct pz_call *call, struct verification *verification) {
  struct pz_run_file *saved = verification->saved->file,
                     *recomputed = verification->recomputed->file;
  char path[200] = "";
  if (!saved) return;
  const char *saved_inputs = pz_run_file_inputs(saved),
             *recomputed_inputs = pz_run_file_inputs(recomputed);
  const json_t *saved_json = pz_json_read(call, "inputs", saved_inputs, strlen(saved_inputs));
  const json_t *recomputed_json =
      pz_json_read(call, "inputs", recomputed_inputs, strlen(recomputed_inputs));
  if (find_json_difference(saved_json, recomputed_json, path, sizeof path))
    report_finding(verification, false, "inputs: %s has changed", path);
  else
    report_finding(verification, true, "inputs: unchanged");

  for (enum pz_part part = PZ_PART_RESULT; part < PZ_PART_TIMINGS; part++) {
    bool is_text = part == PZ_PART_RESULT || part == PZ_PART_COMPARISON || part == PZ_PART_DETAIL;
    const char *text = is_text ? pz_run_file_read_text(call, saved, part) : NULL;
    if (is_text && !text) continue;
    bool same = pz_run_file_has_same_part(call, saved, recomputed, part);
    *path = '\0';
    if (!same && is_text) {
      const char *other = pz_run_file_read_text(call, recomputed, part);
      struct compared_texts texts = {text, other, path, sizeof path};
      if (other) (void)!pz_border(compare_texts, &texts, NULL);
    }
    report_finding(verification, same, "%s: %s%s%s", pz_part_names[part],
                   same ? "same when recomputed" : "other than recomputed",
                   *path ? ", first at " : "", path);
  }
}

/* ---- certificates --------------------------------------------------------------------------- */

/* Boxes drawn from a certificate, each with one of its chips. */
struct box_sample {
  struct pz_study *study;
  const struct pz_objective_run *run;
  struct drawn_box {
    const struct pz_closed_box *box;
    struct pz_point chip;
  } * boxes;
  bool *closed_rightly; /* whether each drawn box was closed rightly */
};

/* Returns the objective of a chip with its best plans, which are found without bounds.  `price` has
 * the area, power and dollars with which the objective is computed. */
static double unbounded_objective(struct pz_call *call, const struct box_sample *sample,
                                  unsigned worker, const struct pz_boxed *chip,
                                  const struct pz_taken *price) {
  const struct pz_objective *objective = &sample->run->objective;
  struct pz_study *study = sample->study;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  for (uint32_t i = 0; i < objective->n; i++) {
    uint32_t model = objective->models[i];
    struct pz_evaluation evaluation;
    if (study->options.evaluator == PZ_EVALUATOR_TRAINING)
      evaluation = study->evaluator->ops->evaluate(call, study->evaluator, worker, chip, model,
                                                   PZ_EFFORT_QUICK, HUGE_VAL);
    else
      evaluation = pz_original_evaluate_chip(
          call, pz_original_worker(study->evaluator, worker), &chip->lo, model,
          (double)study->task.o.hbm_gib.v[study->task.o.hbm_gib.n - 1], PZ_EFFORT_QUICK);
    steps[model] = (struct pz_step_cost){evaluation.step_s, evaluation.dynamic_j};
  }
  return pz_objective_value(objective, steps, price);
}

/* Task i: checks whether drawn box i was closed rightly, as far as some of its chips show. */
static void check_drawn_box(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct box_sample *sample = ctx;
  const struct pz_space *space = &sample->study->space;
  const struct pz_limits *limits = &sample->study->limits;
  const struct pz_closed_box *closed = sample->boxes[i].box;
  double bound = closed->bound * (1 + TOLERANCE), best = sample->run->value * (1 + TOLERANCE);
  double value = 0, most = 0;
  struct pz_boxed box, chip;
  pz_boxed_set(space, &closed->box, &box);
  if (closed->end == PZ_BOX_INFEASIBLE) {
    sample->closed_rightly[i] = pz_boxed_breaks(&box, limits) != NULL;
    return;
  }
  if (closed->end == PZ_BOX_EVALUATED) {
    value = unbounded_objective(call, sample, worker, &box, &box.least);
    sample->closed_rightly[i] = value <= bound && value <= best && closed->value <= best;
    return;
  }
  /* Closed by a bound, which holds for chips within the limits. */
  struct pz_box drawn_chip_box = pz_box_of(&sample->boxes[i].chip);
  pz_boxed_set(space, &drawn_chip_box, &chip);
  if (!pz_boxed_breaks(&chip, limits))
    value = unbounded_objective(call, sample, worker, &chip, &chip.least);
  if (sample->study->options.evaluator == PZ_EVALUATOR_TRAINING) {
    /* If more of any axis is never slower, no chip beats the largest at the smallest's price. */
    struct pz_box largest = closed->box;
    memcpy(largest.lo, largest.hi, sizeof largest.lo);
    pz_boxed_set(space, &largest, &chip);
    most = unbounded_objective(call, sample, worker, &chip, &box.least);
  }
  sample->closed_rightly[i] = value <= bound && most <= bound;
}

/* Draws a random chip of a box: one within the limits if there is any among MOST_DRAWS draws. */
static struct pz_point draw_chip(const struct pz_study *study, const struct pz_box *box,
                                 uint64_t *seed) {
  struct pz_point point = {.kind = box->kind};
  bool within = false;
  for (int draws = 0; draws < MOST_DRAWS && !within; draws++) {
    for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
      uint32_t n_values = (uint32_t)(box->hi[axis] - box->lo[axis] + 1);
      point.at[axis] = (uint8_t)(box->lo[axis] + (int)pz_random_below(seed, n_values));
    }
    struct pz_box point_box = pz_box_of(&point);
    struct pz_boxed chip;
    pz_boxed_set(&study->space, &point_box, &chip);
    within = !pz_boxed_breaks(&chip, &study->limits);
  }
  return point;
}

/* Draws boxes of an objective run without replacement, by its own seed, and checks them. */
static void check_boxes(struct pz_call *call, struct verification *verification, uint32_t i) {
  struct pz_study *study = &verification->recomputed->study;
  const struct pz_objective_run *run = &study->objective_run[i];
  struct pz_call work = pz_scratch(call);
  uint32_t n_wrong = 0, n_boxes = run->n_boxes;
  uint32_t n_drawn = verification->options->all || verification->options->sample > n_boxes
                         ? n_boxes
                         : verification->options->sample;
  uint64_t seed = pz_space_id(&study->space, &run->best) ^ n_boxes;
  uint32_t *order = pz_alloc(&work, n_boxes, sizeof *order);
  struct box_sample sample = {.study = study, .run = run};
  sample.boxes = pz_alloc(&work, n_drawn, sizeof *sample.boxes);
  sample.closed_rightly = pz_alloc(&work, n_drawn, sizeof *sample.closed_rightly);
  for (uint32_t k = 0; k < n_boxes; k++) order[k] = k;
  pz_random_draw(&seed, order, n_boxes, n_drawn);
  for (uint32_t k = 0; k < n_drawn; k++) {
    sample.boxes[k].box = &run->boxes[order[k]];
    sample.boxes[k].chip = draw_chip(study, &sample.boxes[k].box->box, &seed);
  }
  struct pz_study_tasks tasks = {.run = check_drawn_box, .ctx = &sample};
  tasks.results = sample.closed_rightly;
  tasks.result_bytes = sizeof *sample.closed_rightly;
  pz_study_run_tasks(call, study->search, n_drawn, &tasks);
  for (uint32_t k = 0; k < n_drawn; k++)
    if (!sample.closed_rightly[k]) n_wrong++;
  const char *name = pz_study_run_name(study, i);
  if (n_wrong)
    report_finding(verification, false, "%s: %u of %u boxes are closed wrongly", name, n_wrong,
                   n_drawn);
  else
    report_finding(verification, true,
                   "%s: %u of %u boxes%s are closed rightly, by chips evaluated without bounds",
                   name, n_drawn, n_boxes, n_drawn < n_boxes ? ", drawn at random," : "");
  pz_scratch_end(&work);
}

/* Checks that the boxes hold every chip of the space once and prove the saved gap. */
static void check_certificate(struct pz_call *call, struct verification *verification, uint32_t i) {
  const struct pz_study *study = &verification->recomputed->study;
  const struct pz_objective_run *run = &study->objective_run[i];
  const char *name = pz_study_run_name(study, i);
  char chips[32], boxes[32];
  struct pz_call work = pz_scratch(call);
  struct pz_closed_box *list = pz_copy(&work, run->boxes, run->n_boxes, sizeof *list);
  double bound = run->value;
  for (uint32_t k = 0; k < run->n_boxes; k++)
    if (list[k].end != PZ_BOX_INFEASIBLE) bound = pz_fmax(bound, list[k].bound);
  bool cover = pz_boxes_cover(&study->space, list, run->n_boxes); /* reorders the list */
  pz_scratch_end(&work);
  double gap = bound / run->value - 1;
  report_finding(verification, cover, "%s: %s boxes hold each of the %s chips %s", name,
                 pz_text_count(boxes, sizeof boxes, run->n_boxes),
                 pz_text_count(chips, sizeof chips, run->chips),
                 cover ? "once" : "other than once");
  report_finding(verification,
                 fabs(gap - verification->saved->result.answers[i].certificate.gap) <= TOLERANCE,
                 "%s: no bound is above the best by more than %.3f%%", name, 100 * gap);
}

/* ---- the verification ----------------------------------------------------------------------- */

struct verifying {
  const char *dir;
  const struct pz_verify_options *options;
  bool *holds;
};

/* Recomputes the saved run and checks its parts, exports and certificates. */
static void check_all(struct pz_call *call, void *ctx) {
  struct verifying *request = ctx;
  struct pz_verify_options options = pz_verify_options_default();
  pz_require_options(call, &options, sizeof options, request->options, "pz_verify_options_default");
  pz_require(call, request->dir, "dir");
  pz_require(call, request->holds, "holds");
  struct verification verification = {.options = &options, .holds = true};
  struct pz_run_options run = pz_run_options_default();
  run.dir = request->dir;
  run.threads = options.threads;
  verification.saved = pz_run_open_saved(call, &run, false);
  /* Digests detect damage of the file; the contents are compared in any case. */
  struct pz_error why = {0};
  struct pz_run_file *file = verification.saved->file;
  enum pz_status status = file ? pz_border(pz_run_file_verify, file, &why) : PZ_OK;
  if (status != PZ_OK && status != PZ_BAD_INPUT) pz_raise_again(call, &why);
  bool digests_hold = pz_ranks_flag_of_first(call, status == PZ_OK);
  report_finding(&verification, digests_hold, "%s",
                 digests_hold ? "file: every part has its digest" : why.message);

  /* Rank 0 alone has the file and tells the other ranks which parts it has. */
  bool detail =
      pz_ranks_flag_of_first(call, file && pz_run_file_read_text(call, file, PZ_PART_DETAIL));
  bool comparison =
      pz_ranks_flag_of_first(call, file && pz_run_file_read_text(call, file, PZ_PART_COMPARISON));
  uint64_t seed = PZ_COMPARE_SEED;
  if (comparison) {
    pz_run_find_comparison(call, verification.saved, NULL); /* reads the saved comparison */
    seed = verification.saved->result.comparison->seed;
  }
  verification.recomputed =
      pz_run_recompute(call, verification.saved, !options.all, detail, comparison ? &seed : NULL);
  check_parts(call, &verification);
  /* Checks the files that the search wrote beside the run file, as far as they exist. */
  for (int i = 0; i < PZ_EXPORTS && pz_ranks_first(); i++) {
    enum pz_export_state state =
        pz_export_check(call, verification.saved->dir, &verification.recomputed->result, i);
    bool same = state == PZ_EXPORT_SAME;
    if (state != PZ_EXPORT_MISSING)
      report_finding(&verification, same, "%s: %s", pz_export_names[i],
                     same ? "of the run" : "is not of this run");
  }
  for (uint32_t i = 0; i < verification.recomputed->study.n_runs; i++) {
    check_certificate(call, &verification, i);
    check_boxes(call, &verification, i);
  }
  verification.holds = pz_ranks_flag_of_first(call, verification.holds);
  *request->holds = verification.holds;
}

struct pz_verify_options pz_verify_options_default(void) {
  return (struct pz_verify_options){.size = sizeof(struct pz_verify_options), .sample = 50};
}

enum pz_status pz_verify(const char *dir, const struct pz_verify_options *options, bool *holds,
                         struct pz_error *err) {
  struct verifying request = {dir, options, holds};
  return pz_border(check_all, &request, err);
}
