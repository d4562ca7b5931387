#include "report/report_data.h"

#include <stdlib.h>
#include <string.h>

#include "report/comparison.h"
#include "schedule/model/layer.h"
#include "study/resume.h"
#include "study/run_read.h"

static const struct {
  const char *name;
  pz_story_section *tell;
} sections[] = {
    {"run", pz_story_run},
    {"chips", pz_story_chips},
    {"floorplan", pz_story_floorplan},
    {"plans", pz_story_winner},
    {"schedules", pz_story_schedules},
    {"baselines", pz_story_baselines},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

enum pz_status pz_story_check(const struct pz_story *t, bool good) {
  return good ? PZ_OK
              : pz_fail(t->err, PZ_NO_MEMORY,
                        "out of memory for the report, or a number of the run is not finite");
}

/* ---- what the run kept ---------------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
  const struct pz_point *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

static enum pz_status take(void *into, const struct pz_entry *entry) {
  struct pz_story *t = into;
  const struct pz_study *s = t->study;
  struct pz_point key = {.id = entry->id};
  const struct pz_point *p = bsearch(&key, s->points, s->n_points, sizeof key, by_id);
  const struct pz_portfolio *f = &s->portfolio;
  if (!p || entry->model >= f->n_models) return PZ_BAD_INPUT;
  if (entry->e.plan.n_stages && (entry->e.plan.variant >= f->n_variants ||
                                 f->variants[entry->e.plan.variant].model != entry->model))
    return PZ_BAD_INPUT;
  struct pz_kept k = {(uint32_t)(p - s->points), entry->model, entry->e};
  size_t bytes = k.e.plan.n_stages * sizeof *k.e.plan.layers;
  uint16_t *layers = pz_arena_alloc(&t->arena, 1, bytes);
  if (!layers) return PZ_NO_MEMORY;
  if (bytes) memcpy(layers, entry->e.plan.layers, bytes);
  k.e.plan.layers = layers;
  return pz_vec_push(&t->kept, &k) ? PZ_OK : PZ_NO_MEMORY;
}

/* By chip and model, the most effort first. */
static int by_place(const void *a, const void *b) {
  const struct pz_kept *x = a, *y = b;
  if (x->point != y->point) return x->point < y->point ? -1 : 1;
  if (x->model != y->model) return x->model < y->model ? -1 : 1;
  return (x->e.effort < y->e.effort) - (x->e.effort > y->e.effort);
}

static enum pz_status read_kept(struct pz_story *t) {
  const struct pz_journal *j = pz_run_file_journal(t->file);
  enum pz_status status = j->recall(j->ctx, take, t, t->err);
  if (status != PZ_OK) return status;
  struct pz_kept *list = t->kept.items;
  uint32_t n = 0;
  if (t->kept.n) qsort(list, t->kept.n, sizeof *list, by_place);
  for (uint32_t i = 0; i < t->kept.n; i++)
    if (!n || list[n - 1].point != list[i].point || list[n - 1].model != list[i].model)
      list[n++] = list[i];
  t->kept.n = n;
  return PZ_OK;
}

static int by_key(const void *a, const void *b) {
  const struct pz_kept *x = a, *y = b;
  if (x->point != y->point) return x->point < y->point ? -1 : 1;
  return (x->model > y->model) - (x->model < y->model);
}

const struct pz_evaluation *pz_story_kept(const struct pz_story *t, uint32_t point,
                                          uint32_t model) {
  struct pz_kept key = {.point = point, .model = model};
  const struct pz_kept *k =
      t->kept.n ? bsearch(&key, t->kept.items, t->kept.n, sizeof key, by_key) : NULL;
  return k ? &k->e : NULL;
}

/* ---- schedules ------------------------------------------------------------------------------ */

uint32_t pz_story_main_layer(const struct pz_workload *w) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < w->n_layers; i++)
    if (w->layers[i].count > w->layers[most].count) most = i;
  return most;
}

/* As the search does: a first try, then a harder one where that left it open. */
enum pz_status pz_story_schedule(struct pz_evaluator *e, const struct pz_layer *l,
                                 enum pz_direction d, enum pz_effort effort, struct pz_arena *arena,
                                 struct pz_scheduled *out, struct pz_error *err) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options quick = {.steps = e->task->o.quick_steps},
                          full = {.steps = e->task->o.steps};
  struct pz_schedule more;
  *out = (struct pz_scheduled){.layer = l->name, .direction = d, .count = l->count, .to_us = 1e6};
  enum pz_status status = pz_layer_problem(&e->cost, &l->ops[d], &kind, arena, &out->problem, err);
  if (status == PZ_OK)
    status = pz_schedule_solve(&out->problem, &quick, arena, &out->schedule, err);
  if (status != PZ_OK || effort < PZ_EFFORT_FULL || out->schedule.outcome == PZ_OUTCOME_OPTIMAL)
    return status;
  status = pz_schedule_solve(&out->problem, &full, arena, &more, err);
  if (status != PZ_OK) return status;
  double bound = out->schedule.lower_bound;
  if (more.makespan < out->schedule.makespan) out->schedule = more;
  if (more.lower_bound > bound) bound = more.lower_bound;
  out->schedule.lower_bound = bound;
  if (bound >= out->schedule.makespan) out->schedule.outcome = PZ_OUTCOME_OPTIMAL;
  return PZ_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static enum pz_status tell_sections(struct pz_story *t) {
  for (size_t i = 0; i < SECTIONS; i++) {
    if (t->progress) pz_progress_update(t->progress, i, sections[i].name);
    if (t->stop && atomic_load(t->stop)) return pz_fail(t->err, PZ_STOPPED, "stopped");
    enum pz_status status = sections[i].tell(t);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

static enum pz_status tell(struct pz_story *t) {
  pz_progress_next(t->progress, "report", "parts", SECTIONS);
  enum pz_status status = tell_sections(t);
  if (t->progress && status == PZ_OK) pz_progress_update(t->progress, SECTIONS, NULL);
  pz_progress_finish(t->progress, NULL);
  return status;
}

/* The comparison, where the run has none: as it would be kept. */
static enum pz_status compare(struct pz_story *t, json_t **made) {
  struct pz_compared_task task = {t->study, PZ_COMPARED_SEED, t->stop, t->progress};
  json_t *timing = NULL;
  enum pz_status status = pz_compared_make(&task, made, &timing, t->err);
  json_decref(timing);
  t->comparison = *made;
  return status;
}

enum pz_status pz_story_make(struct pz_story *t, json_t **out) {
  json_t *made = NULL;
  pz_arena_init(&t->arena, NULL);
  pz_vec_init(&t->kept, &t->arena, sizeof(struct pz_kept));
  t->datasets = json_object();
  enum pz_status status = read_kept(t);
  if (status == PZ_OK && !t->comparison) status = compare(t, &made);
  if (status == PZ_OK) status = pz_compared_check(t->study, t->comparison, t->err);
  if (status == PZ_OK) status = tell(t);
  if (status == PZ_OK) {
    json_t *ratios = json_object_get(json_object_get(t->result, "best"), "ratios");
    *out = json_pack("{s:s,s:O,s:O?,s:O}", "version", pz_version(), "objective",
                     json_object_get(t->result, "objective"), "ratios", ratios, "datasets",
                     t->datasets);
    status = pz_story_check(t, *out != NULL);
  }
  json_decref(t->datasets);
  json_decref(made);
  pz_arena_release(&t->arena);
  return status;
}

/* ---- from a run file ------------------------------------------------------------------------ */

enum pz_status pz_story_of_run(struct pz_run_file *f, unsigned threads,
                               struct pz_progress *progress, json_t **out, struct pz_error *err) {
  struct pz_study study;
  struct pz_study_options o;
  struct pz_arena arena;
  struct pz_finished run = {0};
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_finished_read(f, &run, err);
  if (status == PZ_OK) status = pz_study_from_inputs(run.inputs, &arena, &o, err);
  if (status == PZ_OK) status = pz_study_init(&study, &o, threads, err);
  if (status == PZ_OK) {
    struct pz_story t = {.study = &study,
                         .file = f,
                         .result = run.result,
                         .comparison = run.comparison,
                         .progress = progress,
                         .err = err};
    status = pz_resume_runs(&study, f, run.result, (struct pz_watch){NULL, progress}, err);
    if (status == PZ_OK) status = pz_story_make(&t, out);
    pz_study_release(&study);
  }
  pz_finished_release(&run);
  pz_arena_release(&arena);
  return status;
}
