/* The search beside every other way to choose, contest by contest. */
#include "report/compared.h"
#include "report/story.h"

enum { SEED = 1 }; /* as phaze compare has it */

static bool tell_way(const struct pz_story *t, const struct pz_compared *c, json_t *rows) {
  const struct pz_study *s = t->study;
  const struct pz_objective *o = &s->contest[c->contest].objective;
  double area = pz_compared_area_um2(c);
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    double rate = c->answer.samples_per_s[m], ref = s->reference[m].samples_per_s;
    if (!pz_sheet_row(rows, json_pack("[s,s,s,s,f,f,f,s,f,o]", pz_study_contest_name(s, c->contest),
                                      c->name, c->about, c->answer.chip.name, c->answer.hbm_gib,
                                      area / 1e6, c->value, s->portfolio.models[m], rate,
                                      ref > 0 ? json_real(rate / ref) : json_null())))
      return false;
  }
  return true;
}

static enum pz_status tell_contest(struct pz_story *t, uint32_t contest, json_t *rows) {
  struct pz_compared c;
  for (size_t i = 0; pz_baseline_at(i); i++) {
    struct pz_error why = {0};
    struct pz_compared_task task = {t->study, pz_baseline_at(i), contest, SEED, t->stop};
    enum pz_status status = pz_compared_baseline(&task, &c, &why);
    if (status == PZ_NO_ANSWER) continue; /* what it looked at takes no model: no bar */
    if (status != PZ_OK) return pz_fail(t->err, status, "%s", why.message);
    if (!tell_way(t, &c, rows)) return pz_story_check(t, false);
  }
  pz_compared_search(t->study, contest, &c);
  return pz_story_check(t, tell_way(t, &c, rows));
}

enum pz_status pz_story_baselines(struct pz_story *t) {
  json_t *rows =
      pz_sheet_add(t->sheets, "baselines",
                   "contest,way,about,chip,hbm_gib,area_mm2,objective,model,samples_per_s,ratio");
  enum pz_status status = pz_story_check(t, rows != NULL);
  for (uint32_t i = 0; i < t->study->n_contests && status == PZ_OK; i++)
    status = tell_contest(t, i, rows);
  return status;
}
