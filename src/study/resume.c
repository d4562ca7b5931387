#include "study/resume.h"

#include <string.h>

#include "report/result.h"

/* ---- objective runs ------------------------------------------------------------------------------- */

/* A journal that only remembers. */
static enum pz_status forget(void *ctx, const struct pz_entry *entry, struct pz_error *err) {
  (void)ctx, (void)entry, (void)err;
  return PZ_OK;
}

static enum pz_status do_nothing(void *ctx, struct pz_error *err) {
  (void)ctx, (void)err;
  return PZ_OK;
}

/* Objective runs again: they find every evaluation in the journal. */
static enum pz_status run_again(struct pz_study *s, struct pz_run_file *f, const json_t *result,
                                struct pz_watch watch, struct pz_error *err) {
  struct pz_journal journal = *pz_run_file_journal(f);
  journal.evaluated = forget;
  journal.commit = do_nothing;
  struct pz_search_options o = {
      .journal = &journal, .stop = watch.stop, .progress = watch.progress};
  struct pz_chip chip;
  enum pz_status status = pz_study_prepare(s, &o, err);
  for (uint32_t i = 0; i < s->n_runs && status == PZ_OK; i++) status = pz_study_run(s, i, err);
  if (status != PZ_OK) return status;
  pz_study_chip(s, &s->objective_run[s->n_runs - 1], &chip);
  const json_t *best = pz_result_at(pz_result_at(result, "best"), "chip");
  return strcmp(chip.name, pz_result_text(best, "name")) == 0
             ? PZ_OK
             : pz_fail(err, PZ_BAD_INPUT,
                       "the run's best chip is not the one its evaluations give; see "
                       "phaze verify");
}

/* ---- chip statuses ------------------------------------------------------------------------------ */

/* How chips left a objective run depends on what was known when: as the run has it, not as a objective run that
 * is run again with all of its evaluations would have it. */
struct chip_statuses {
  const struct pz_study *s;
  struct pz_objective_run *c;
  uint32_t at; /* the point expected next: both come by id */
};

static enum pz_status take_chip_status(void *into, uint32_t id,
                                       const struct pz_chip_status *chip_status) {
  struct chip_statuses *x = into;
  if (x->at >= x->s->n_points || x->s->points[x->at].id != id) return PZ_BAD_INPUT;
  x->c->chip_status[x->at++] = *chip_status;
  x->c->n_looked += chip_status->kind != PZ_CHIP_EXCLUDED_BY_TABLES;
  return PZ_OK;
}

static enum pz_status read_chip_statuses(struct pz_study *s, struct pz_run_file *f,
                                         struct pz_error *err) {
  for (uint32_t i = 0; i < s->n_runs; i++) {
    struct chip_statuses x = {s, &s->objective_run[i], 0};
    x.c->n_looked = 0;
    enum pz_status status =
        pz_run_file_read_chip_statuses(f, pz_study_run_name(s, i), take_chip_status, &x, err);
    if (status != PZ_OK) return status;
    if (x.at != s->n_points)
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s: the run has records of %u of %u chips; see phaze verify",
                     pz_study_run_name(s, i), x.at, s->n_points);
  }
  return PZ_OK;
}

enum pz_status pz_resume_runs(struct pz_study *s, struct pz_run_file *f, const json_t *result,
                              struct pz_watch watch, struct pz_error *err) {
  enum pz_status status = run_again(s, f, result, watch, err);
  return status == PZ_OK ? read_chip_statuses(s, f, err) : status;
}
