#include "report/restored.h"

#include <string.h>

#include "report/result.h"

/* ---- contests ------------------------------------------------------------------------------- */

/* A journal that only remembers. */
static enum pz_status forget(void *ctx, const struct pz_entry *entry, struct pz_error *err) {
  (void)ctx, (void)entry, (void)err;
  return PZ_OK;
}

static enum pz_status do_nothing(void *ctx, struct pz_error *err) {
  (void)ctx, (void)err;
  return PZ_OK;
}

/* Contests again: they find every evaluation in the journal. */
static enum pz_status run_again(struct pz_study *s, struct pz_run_file *f, const json_t *result,
                                struct pz_watch watch, struct pz_error *err) {
  struct pz_journal journal = *pz_run_file_journal(f);
  journal.evaluated = forget;
  journal.commit = do_nothing;
  struct pz_search_options o = {
      .journal = &journal, .stop = watch.stop, .progress = watch.progress};
  struct pz_chip chip;
  enum pz_status status = pz_study_prepare(s, &o, err);
  for (uint32_t i = 0; i < s->n_contests && status == PZ_OK; i++)
    status = pz_study_contest(s, i, err);
  if (status != PZ_OK) return status;
  pz_study_chip(s, &s->contest[s->n_contests - 1], &chip);
  const json_t *best = pz_result_at(pz_result_at(result, "best"), "chip");
  return strcmp(chip.name, pz_result_text(best, "name")) == 0
             ? PZ_OK
             : pz_fail(err, PZ_BAD_INPUT,
                       "the run's best chip is not the one its evaluations give; see "
                       "phaze verify");
}

/* ---- standings ------------------------------------------------------------------------------ */

/* How chips left a contest depends on what was known when: as the run has it, not as a contest that
 * is run again with all of its evaluations would have it. */
struct standings {
  const struct pz_study *s;
  struct pz_contest *c;
  uint32_t at; /* the point expected next: both come by id */
};

static enum pz_status take_standing(void *into, uint32_t id, const struct pz_standing *standing) {
  struct standings *x = into;
  if (x->at >= x->s->n_points || x->s->points[x->at].id != id) return PZ_BAD_INPUT;
  x->c->standing[x->at++] = *standing;
  x->c->n_looked += standing->kind != PZ_OUT_TABLES;
  return PZ_OK;
}

static enum pz_status read_standings(struct pz_study *s, struct pz_run_file *f,
                                     struct pz_error *err) {
  for (uint32_t i = 0; i < s->n_contests; i++) {
    struct standings x = {s, &s->contest[i], 0};
    x.c->n_looked = 0;
    enum pz_status status =
        pz_run_file_read_standings(f, pz_study_contest_name(s, i), take_standing, &x, err);
    if (status != PZ_OK) return status;
    if (x.at != s->n_points)
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s: the run has records of %u of %u chips; see phaze verify",
                     pz_study_contest_name(s, i), x.at, s->n_points);
  }
  return PZ_OK;
}

enum pz_status pz_restored_contests(struct pz_study *s, struct pz_run_file *f, const json_t *result,
                                    struct pz_watch watch, struct pz_error *err) {
  enum pz_status status = run_again(s, f, result, watch, err);
  return status == PZ_OK ? read_standings(s, f, err) : status;
}
