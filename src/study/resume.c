#include "study/resume.h"

#include <string.h>

#include "core/alloc.h"
#include "core/ranks.h"
#include "core/vec.h"

/* ---- objective runs -------------------------------------------------------------------------- */

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
static enum pz_status run_again(struct pz_study *s, struct pz_run_file *f,
                                const struct pz_answer *best, struct pz_watch watch,
                                struct pz_error *err) {
  struct pz_journal journal = {0};
  if (f) journal = *pz_run_file_journal(f);
  journal.evaluated = forget;
  journal.commit = do_nothing;
  struct pz_search_options o = {
      .journal = f ? &journal : NULL, .stop = watch.stop, .progress = watch.progress};
  enum pz_status status = pz_study_prepare(s, &o, err);
  for (uint32_t i = 0; i < s->n_runs && status == PZ_OK; i++) status = pz_study_run(s, i, err);
  if (status != PZ_OK) return status;
  uint32_t found = s->points[s->objective_run[s->n_runs - 1].best].id;
  return found == best->chip_id ? PZ_OK
                                : pz_fail(err, PZ_BAD_INPUT,
                                          "the run's best chip is not the one its evaluations "
                                          "give; see phaze verify");
}

/* ---- chip statuses --------------------------------------------------------------------------- */

/* How chips left an objective run depends on what was known when: as the run has it, not as an
 * objective run that is run again with all of its evaluations would have it. */
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
  return PZ_OK;
}

static enum pz_status read_run_statuses(struct pz_study *s, struct pz_run_file *f, uint32_t i,
                                        struct pz_error *err) {
  struct chip_statuses x = {s, &s->objective_run[i], 0};
  enum pz_status status =
      pz_run_file_read_chip_statuses(f, pz_study_run_name(s, i), take_chip_status, &x, err);
  if (status != PZ_OK || x.at == s->n_points) return status;
  return pz_fail(err, PZ_BAD_INPUT, "%s: the run has records of %u of %u chips; see phaze verify",
                 pz_study_run_name(s, i), x.at, s->n_points);
}

/* Those that rank 0 has read, to all. */
static enum pz_status share_statuses(struct pz_study *s, uint32_t i, enum pz_status status,
                                     struct pz_error *err) {
  struct pz_chip_status *list = s->objective_run[i].chip_status;
  size_t bytes = s->n_points * sizeof *list;
  struct pz_buffer b = {0};
  if (pz_ranks_size() == 1) return status;
  if (status == PZ_OK && pz_ranks_first() && !pz_buffer_append(&b, (char *)list, bytes))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the chips");
  status = pz_ranks_share(&b, status, err);
  if (status == PZ_OK && b.bytes == bytes) memcpy(list, b.text, bytes);
  pz_free(b.text);
  return status;
}

static enum pz_status read_chip_statuses(struct pz_study *s, struct pz_run_file *f,
                                         struct pz_error *err) {
  for (uint32_t i = 0; i < s->n_runs; i++) {
    struct pz_objective_run *c = &s->objective_run[i];
    enum pz_status status = f ? read_run_statuses(s, f, i, err) : PZ_OK;
    status = share_statuses(s, i, status, err);
    if (status != PZ_OK) return status;
    c->n_looked = 0;
    for (uint32_t p = 0; p < s->n_points; p++)
      c->n_looked += c->chip_status[p].kind != PZ_CHIP_EXCLUDED_BY_TABLES;
  }
  return PZ_OK;
}

enum pz_status pz_resume_runs(struct pz_study *s, struct pz_run_file *f,
                              const struct pz_answer *best, struct pz_watch watch,
                              struct pz_error *err) {
  enum pz_status status = run_again(s, f, best, watch, err);
  return status == PZ_OK ? read_chip_statuses(s, f, err) : status;
}

/* ---- chips of a result ---------------------------------------------------------------------- */

struct chips {
  struct pz_arena *arena;
  struct pz_vec list; /* struct pz_result_chip */
};

static enum pz_status take_chip(void *into, const struct pz_result_chip *chip) {
  struct chips *x = into;
  struct pz_result_chip copy = *chip;
  copy.name = pz_arena_strdup(x->arena, chip->name);
  return copy.name && pz_vec_push(&x->list, &copy) ? PZ_OK : PZ_NO_MEMORY;
}

struct statuses {
  const struct pz_result *r;
  struct pz_chip_status *list;
  uint32_t at; /* the chip expected next: both come by id */
};

static enum pz_status take_status(void *into, uint32_t id, const struct pz_chip_status *status) {
  struct statuses *x = into;
  if (x->at >= x->r->n_chips || x->r->chips[x->at].id != id) return PZ_BAD_INPUT;
  x->list[x->at++] = *status;
  return PZ_OK;
}

static enum pz_status check_answer(const struct pz_result *r, uint32_t i, struct pz_error *err) {
  const struct pz_answer *a = &r->answers[i];
  if (pz_result_chip(r, a->chip_id)) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT, "%s: chip %u is not of the space; see phaze verify", a->name,
                 a->chip_id);
}

static enum pz_status read_statuses(struct pz_result *r, struct pz_run_file *f, uint32_t i,
                                    struct pz_error *err) {
  struct statuses x = {.r = r};
  x.list = pz_arena_alloc(r->arena, r->n_chips, sizeof *x.list);
  if (!x.list) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the chips");
  enum pz_status status =
      pz_run_file_read_chip_statuses(f, r->answers[i].name, take_status, &x, err);
  r->answers[i].status = x.list;
  if (status == PZ_OK && x.at != r->n_chips)
    status =
        pz_fail(err, PZ_BAD_INPUT, "%s: the run has records of %u of %u chips; see phaze verify",
                r->answers[i].name, x.at, r->n_chips);
  return status;
}

enum pz_status pz_resume_chips(struct pz_result *r, struct pz_run_file *f, struct pz_error *err) {
  struct chips x = {.arena = r->arena};
  pz_vec_init(&x.list, r->arena, sizeof(struct pz_result_chip));
  enum pz_status status = pz_run_file_read_chips(f, take_chip, &x, err);
  if (status == PZ_OK && x.list.n != pz_result_best(r)->certificate.n_chips)
    status = pz_fail(err, PZ_BAD_INPUT, "the run has %u chips of %u; see phaze verify", x.list.n,
                     pz_result_best(r)->certificate.n_chips);
  if (status != PZ_OK) return status;
  r->chips = x.list.items;
  r->n_chips = x.list.n;
  for (uint32_t i = 0; i < r->n_answers && status == PZ_OK; i++) {
    status = check_answer(r, i, err);
    if (status == PZ_OK) status = read_statuses(r, f, i, err);
  }
  return status;
}
