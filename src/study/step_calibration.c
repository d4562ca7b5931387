/* Predictions corrected by training steps that were measured: tables read, the fit of step/correction, and what it leaves. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/held.h"
#include "core/text.h"
#include "core/vec.h"
#include "launch/run_log.h"
#include "plan/plan_fill.h"
#include "step/correction.h"
#include "step/run_table.h"

struct pz_calibrate_steps_options pz_calibrate_steps_options_default(void) {
  return (struct pz_calibrate_steps_options){.size = sizeof(struct pz_calibrate_steps_options)};
}

struct calibrator {
  const struct pz_calibrate_steps_options *o;
  struct pz_chip wanted; /* of option chip */
  struct pz_vec notes;   /* const char * */
  struct pz_vec runs;    /* struct pz_run_plan *, of logs */
  struct pz_vec files;   /* const char *, that were read */
  struct pz_arena *arena;
  struct pz_error *err;
};

static enum pz_status no_memory(const struct calibrator *x) {
  return pz_fail(x->err, PZ_NO_MEMORY, "out of memory for the steps");
}

static enum pz_status note(struct calibrator *x, const char *text) {
  return text && pz_vec_push(&x->notes, &text) ? PZ_OK : no_memory(x);
}

/* ---- the steps of a table ----------------------------------------------------------------------- */

/* Names before "h100, calibrated with ...". */
static bool same_chip(const struct pz_chip *a, const struct pz_chip *b) {
  size_t n = strcspn(a->name, ",");
  return n == strcspn(b->name, ",") && strncmp(a->name, b->name, n) == 0;
}

/* Is the row a step of the chip that is wanted?  A note says why not. */
static enum pz_status is_used(struct calibrator *x, const char *path, const struct pz_run_table *t,
                              uint32_t i, bool *used) {
  const struct pz_run_row *row = &t->rows[i];
  uint32_t line = t->csv.lines[i];
  const char *why = NULL;
  *used = false;
  if (!row->predicted)
    why = row->reason;
  else if (!(row->measured_s > 0))
    why = "no step_time_s";
  else if (strcmp(row->quality, "ok") != 0)
    why = row->quality;
  else if (x->o->chip && !same_chip(pz_run_table_job(t, i)->chip, &x->wanted))
    why = "of another chip";
  if (!why) return *used = true, PZ_OK;
  return note(x, pz_arena_printf(x->arena, "%s:%u: not used: %s", path, line, why));
}

static enum pz_status add_step(struct calibrator *x, const char *where, const char *id,
                               const struct pz_job *job, const struct pz_plan *plan,
                               double measured_s, struct pz_vec *steps) {
  struct pz_job *own = pz_arena_alloc(x->arena, 1, sizeof *own);
  struct pz_measured_step m = {.id = id, .job = own, .plan = plan, .measured_s = measured_s};
  if (!own || !pz_vec_push(steps, &m)) return no_memory(x);
  *own = *job;
  if (x->o->chip) own->chip = &x->wanted; /* as its file says */
  struct pz_prediction p;
  enum pz_status status = pz_predict(own, plan, &p, NULL, x->err);
  return status == PZ_OK ? pz_measured_step_check(where, &p, measured_s, x->err) : status;
}

static enum pz_status note_file(struct calibrator *x, const char *path) {
  const char *own = pz_arena_strdup(x->arena, path);
  return own && pz_vec_push(&x->files, &own) ? PZ_OK : no_memory(x);
}

/* Of a model, chip or cluster, which may be built in. */
static enum pz_status note_named(struct calibrator *x, const char *name) {
  return name && pz_file_named(name) ? note_file(x, name) : PZ_OK;
}

/* Files that a row names. */
static enum pz_status note_files(struct calibrator *x, const struct pz_run_table *t, uint32_t row) {
  static const char *const columns[] = {"model", "chip", "cluster"};
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof columns / sizeof *columns && status == PZ_OK; i++) {
    uint32_t c = pz_csv_column(&t->csv, columns[i]);
    if (c != PZ_NONE) status = note_named(x, pz_csv_cell(&t->csv, row, c));
  }
  return status;
}

static enum pz_status add_table(struct calibrator *x, const char *path, const char *text,
                                size_t bytes, struct pz_vec *steps) {
  struct pz_run_terms terms = {
      .chip = x->o->chip, .cluster = x->o->cluster, .threads = x->o->threads};
  struct pz_run_table t = {.n_rows = 0};
  enum pz_status status = pz_run_table_with(&terms, path, text, bytes, x->arena, &t, x->err);
  for (uint32_t i = 0; i < t.n_rows && status == PZ_OK; i++) {
    const struct pz_run_row *row = &t.rows[i];
    bool used;
    status = is_used(x, path, &t, i, &used);
    char where[300];
    snprintf(where, sizeof where, "%.200s:%u", path, t.csv.lines[i]);
    if (status == PZ_OK) status = note_files(x, &t, i);
    if (status == PZ_OK && used)
      status =
          add_step(x, where, row->id, pz_run_table_job(&t, i), row->plan, row->measured_s, steps);
  }
  return status;
}

/* ---- the step of a log -------------------------------------------------------------------------- */

/* Its chip, its network, and its plan with nothing unset. */
struct logged_run {
  struct pz_chip chip;
  struct pz_network at;
  struct pz_plan plan;
};

/* The run that a log is of: by what it shows, or by the file beside it. */
static enum pz_status read_logged(struct calibrator *x, const char *path, const char *text,
                                  size_t bytes, const char *plan, struct pz_run_plan **out) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  char *own = NULL;
  size_t own_bytes = 0;
  if (!plan) return pz_run_plan_read(path, text, bytes, &o, out, x->err);
  o.devices = x->o->devices;
  enum pz_status status = pz_file_read(plan, PZ_PLAN_FILE_MOST_BYTES, &own, &own_bytes, x->err);
  o.log = text;
  o.log_name = path;
  if (status == PZ_OK) status = pz_run_plan_read(plan, own, own_bytes, &o, out, x->err);
  pz_free(own);
  return status;
}

static enum pz_status add_log(struct calibrator *x, const char *path, const char *text,
                              size_t bytes, const char *plan, struct pz_vec *steps) {
  struct logged_run *l = pz_arena_alloc(x->arena, 1, sizeof *l);
  struct pz_run_plan *r = NULL;
  struct pz_cluster named;
  if (!l) return no_memory(x);
  enum pz_status status = read_logged(x, path, text, bytes, plan, &r);
  if (status != PZ_OK) return status;
  if (!pz_vec_push(&x->runs, &r)) {
    pz_run_plan_free(r);
    return no_memory(x);
  }
  const char *chip = x->o->chip ? x->o->chip : r->chip;
  const char *cluster = x->o->cluster ? x->o->cluster : r->cluster;
  if (!chip)
    return pz_fail(x->err, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP, and --cluster NET",
                   path);
  l->plan = r->plan;
  status = pz_chip_read(chip, &l->chip, x->err);
  if (status == PZ_OK) status = pz_plan_fill(&l->plan, &l->chip, x->err);
  if (status == PZ_OK && cluster) status = pz_cluster_load(cluster, &named, x->err);
  if (status == PZ_OK)
    status = pz_network_find(&l->chip, cluster ? &named : NULL, l->plan.devices, "devices", &l->at,
                             x->err);
  if (status != PZ_OK) return status;
  struct pz_job job = {.model = r->model,
                       .config = r->config,
                       .chip = &l->chip,
                       .net = l->at.own_link ? NULL : &l->at.cluster};
  status = note_named(x, r->model);
  if (status == PZ_OK) status = note_named(x, chip);
  if (status == PZ_OK) status = note_named(x, cluster);
  const char *id = pz_arena_strdup(x->arena, path);
  if (!id) return no_memory(x);
  return status == PZ_OK ? add_step(x, path, id, &job, &l->plan, r->measured_s, steps) : status;
}

/* ---- all files ---------------------------------------------------------------------------------- */

static enum pz_status add_file(struct calibrator *x, const char *path, const char *plan,
                               struct pz_vec *steps) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = note_file(x, path);
  if (status == PZ_OK && plan) status = note_file(x, plan);
  if (status == PZ_OK) status = pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, x->err);
  if (status != PZ_OK) return status;
  if (pz_run_log_is(text, bytes))
    status = add_log(x, path, text, bytes, plan, steps);
  else if (plan)
    status = pz_fail(x->err, PZ_BAD_USE, "%s is no log; accepted: --plan with logs", path);
  else
    status = add_table(x, path, text, bytes, steps);
  pz_free(text);
  return status;
}

/* The next of files with commas between them; NULL: there is none. */
static char *next_file(char **rest) {
  char *word = *rest, *comma = word ? strchr(word, ',') : NULL;
  if (comma) *comma = '\0';
  *rest = comma ? comma + 1 : NULL;
  return word;
}

static enum pz_status read_steps(struct calibrator *x, const char *paths, const char *plans,
                                 struct pz_vec *steps) {
  char *rest = pz_arena_strdup(x->arena, paths), *path;
  char *plan_rest = plans ? pz_arena_strdup(x->arena, plans) : NULL;
  enum pz_status status = rest && !plans == !plan_rest ? PZ_OK : no_memory(x);
  pz_vec_init(steps, x->arena, sizeof(struct pz_measured_step));
  while (status == PZ_OK && (path = next_file(&rest))) {
    char *plan = next_file(&plan_rest);
    if (plans && !plan)
      return pz_fail(x->err, PZ_BAD_USE, "--plan '%s'; accepted: one for each log", plans);
    status = add_file(x, path, plan && *plan ? plan : NULL, steps);
  }
  if (status == PZ_OK && plan_rest)
    return pz_fail(x->err, PZ_BAD_USE, "--plan '%s'; accepted: one for each log", plans);
  if (status == PZ_OK && !steps->n)
    return pz_fail(x->err, PZ_BAD_INPUT, "%s: no step to use%s%s", paths, x->notes.n ? "; " : "",
                   x->notes.n ? *pz_vec_at(&x->notes, const char *, 0) : "");
  return status;
}

/* ---- what is left ------------------------------------------------------------------------------- */

static double mean_error(const struct pz_step_residual *r, uint32_t n, size_t offset) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += fabs(*(const double *)((const char *)&r[i] + offset) / r[i].measured_s - 1);
  return sum / n;
}

static struct pz_step_errors errors_of(const struct pz_step_residual *r, uint32_t n) {
#define MEAN(member) mean_error(r, n, offsetof(struct pz_step_residual, member))
  struct pz_step_errors e = {MEAN(before_s), MEAN(left_out_s), MEAN(after_s)};
#undef MEAN
  if (!n || !(r->left_out_s > 0)) e.left_out = (double)NAN;
  return e;
}

/* Steps before and after a correction. */
static enum pz_status judge(struct calibrator *x, const struct pz_measured_step *steps, uint32_t n,
                            const struct pz_correction *c, struct pz_step_residual **out) {
  double *step_s = pz_arena_alloc(x->arena, n, sizeof *step_s);
  struct pz_correction none = {.steps = 0};
  *out = pz_arena_alloc(x->arena, n, sizeof **out);
  if (!step_s || !*out) return no_memory(x);
  enum pz_status status = pz_steps_corrected(steps, n, &none, x->o->threads, step_s, x->err);
  for (uint32_t i = 0; i < n; i++)
    (*out)[i] = (struct pz_step_residual){steps[i].id, steps[i].measured_s, step_s[i], 0, 0};
  if (status == PZ_OK) status = pz_steps_corrected(steps, n, c, x->o->threads, step_s, x->err);
  for (uint32_t i = 0; i < n; i++) (*out)[i].after_s = step_s[i];
  return status;
}

/* Are there steps of more than one run? */
static bool several(const struct pz_step_sensitivity *s, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (!pz_step_repeats(&s[0], &s[i])) return true;
  return false;
}

/* Each by a correction from those of other runs. */
static enum pz_status leave_out(struct calibrator *x, const struct pz_measured_step *steps,
                                const struct pz_step_sensitivity *s, uint32_t n,
                                struct pz_step_residual *out) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < n && several(s, n) && status == PZ_OK; i++) {
    struct pz_correction others = pz_correction_fit(steps, s, n, i);
    status = pz_steps_corrected(&steps[i], 1, &others, 1, &out[i].left_out_s, x->err);
  }
  return status;
}

static enum pz_status tell_factors(struct calibrator *x, const struct pz_correction *c,
                                   const struct pz_step_sensitivity *s, uint32_t n,
                                   struct pz_step_calibration *out) {
  struct pz_step_factor *list = pz_arena_alloc(x->arena, PZ_CORRECTION_FACTORS, sizeof *list);
  if (!list) return no_memory(x);
  pz_correction_tell(c, s, n, list, PZ_CORRECTION_FACTORS);
  out->factors = list;
  out->n_factors = PZ_CORRECTION_FACTORS;
  return PZ_OK;
}

/* The chip of all steps with the correction, under a name that says where it is from. */
static enum pz_status correct_chip(struct calibrator *x, const struct pz_measured_step *steps,
                                   uint32_t n, const struct pz_correction *c,
                                   struct pz_step_calibration *out) {
  const struct pz_chip *first = steps[0].job->chip;
  for (uint32_t i = 1; i < n; i++)
    if (!same_chip(first, steps[i].job->chip)) return PZ_OK;
  struct pz_chip *chip = pz_arena_alloc(x->arena, 1, sizeof *chip);
  if (!chip) return no_memory(x);
  *chip = *first;
  pz_chip_name_calibrated(chip, x->o->steps);
  double memory = chip->correction.memory; /* steps say nothing of it */
  chip->correction = *c;
  chip->correction.memory = memory;
  return out->chip = chip, PZ_OK;
}

enum { FEW = 3 };
static const double FAR = 0.5; /* mean error */

/* What is told of a corrected chip at least: published runs of no group are predicted better (bench/steps.csv). */
static const double LEAST_ERROR = 0.025;

/* Kinds of runs among the steps, as struct pz_correction has them. */
static int64_t kinds_of(const struct pz_measured_step *steps, uint32_t n) {
  int64_t kinds = 0;
  struct pz_prediction p;
  struct pz_error err = {0};
  for (uint32_t i = 0; i < n; i++)
    if (pz_predict(steps[i].job, steps[i].plan, &p, NULL, &err) == PZ_OK)
      kinds |= pz_correction_kind(p.active_params < p.params, steps[i].plan->precision);
  return kinds;
}

static enum pz_status calibrate(struct calibrator *x, struct pz_step_calibration *out) {
  struct pz_vec used, others = {.n = 0};
  struct pz_step_residual *residuals = NULL, *held_residuals = NULL;
  enum pz_status status = read_steps(x, x->o->steps, x->o->plan, &used);
  if (status == PZ_OK && x->o->held) status = read_steps(x, x->o->held, NULL, &others);
  if (status != PZ_OK) return status;
  const struct pz_measured_step *steps = used.items, *held = others.items;
  uint32_t n = used.n;
  out->n_held = others.n;
  struct pz_step_sensitivity *s = pz_arena_alloc(x->arena, n, sizeof *s);
  if (!s) return no_memory(x);
  status = pz_step_sensitivities(steps, n, x->o->threads, s, x->err);
  if (status != PZ_OK) return status;
  struct pz_correction c = pz_correction_fit(steps, s, n, n);
  status = judge(x, steps, n, &c, &residuals);
  if (status == PZ_OK) status = leave_out(x, steps, s, n, residuals);
  if (status == PZ_OK && held) status = judge(x, held, out->n_held, &c, &held_residuals);
  if (status != PZ_OK) return status;
  out->steps = residuals;
  out->n_steps = n;
  out->held = held_residuals;
  out->errors = errors_of(residuals, n);
  if (held) out->held_errors = errors_of(held_residuals, out->n_held);
  c.steps = n;
  c.error = several(s, n) ? fmax(out->errors.left_out, LEAST_ERROR) : 0;
  c.kinds = kinds_of(steps, n);
  status = tell_factors(x, &c, s, n, out);
  if (status == PZ_OK) status = correct_chip(x, steps, n, &c, out);
  if (status == PZ_OK && (n < FEW || !several(s, n)))
    status = note(x, "fewer than 3 steps, or of one run alone: factors are moved less than more "
                     "would, and nothing is known of other runs");
  if (status == PZ_OK && out->errors.before > FAR)
    status =
        note(x, "steps are far from their predictions: are plan, chip and cluster those that ran?");
  if (status == PZ_OK && out->errors.left_out > out->errors.before)
    status = note(x, "steps left out are predicted no better by the others: measure more, or "
                     "steps that are more alike");
  return status;
}

enum pz_status pz_calibrate_steps(const struct pz_calibrate_steps_options *options,
                                  struct pz_step_calibration **out, struct pz_error *err) {
  struct pz_calibrate_steps_options o = pz_calibrate_steps_options_default();
  struct calibrator x = {.o = &o, .err = err};
  void *made = NULL;
  enum pz_status status =
      pz_sized_take(&o, sizeof o, options, "pz_calibrate_steps_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {o.steps, "steps"}, {out, "out"});
  if (status == PZ_OK && o.chip) status = pz_chip_read(o.chip, &x.wanted, err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the calibration", &made, &x.arena, err);
  if (status != PZ_OK) return status;
  struct pz_step_calibration *c = made;
  pz_vec_init(&x.notes, x.arena, sizeof(const char *));
  pz_vec_init(&x.files, x.arena, sizeof(const char *));
  pz_vec_init(&x.runs, x.arena, sizeof(struct pz_run_plan *));
  status = note_named(&x, o.chip);
  if (status == PZ_OK) status = note_named(&x, o.cluster);
  if (status == PZ_OK) status = calibrate(&x, c);
  for (uint32_t i = 0; i < x.runs.n; i++)
    pz_run_plan_free(*pz_vec_at(&x.runs, struct pz_run_plan *, i));
  c->notes = x.notes.items;
  c->n_notes = x.notes.n;
  c->files = x.files.items;
  c->n_files = x.files.n;
  return pz_held_give(status, made, out);
}

void pz_step_calibration_free(struct pz_step_calibration *c) { pz_held_free(c); }
