/* The search beside every other way to choose, objective run by objective run. */
#include "report/report_data.h"

static bool tell_method(const char *run, const struct pz_method_result *m, json_t *rows) {
  for (uint32_t i = 0; i < m->n_models; i++)
    if (!pz_dataset_row(rows,
                        json_pack("[s,s,s,s?,f,f,f,s,f,o]", run, m->name, m->about, m->chip,
                                  m->hbm_gib, m->area_mm2, m->objective, m->models[i].model,
                                  m->models[i].samples_per_s, pz_report_ratio(m->models[i].ratio))))
      return false;
  return true;
}

enum pz_status pz_report_baselines(struct pz_report *t) {
  json_t *rows = pz_dataset_add(
      t->datasets, "baselines",
      "objective_run,method,about,chip,hbm_gib,area_mm2,objective,model,samples_per_s,ratio");
  const struct pz_comparison *c = t->result->comparison;
  bool good = rows;
  for (uint32_t i = 0; i < c->n_runs; i++)
    for (uint32_t k = 0; k < c->runs[i].n_methods && good; k++)
      good = tell_method(c->runs[i].name, &c->runs[i].methods[k], rows);
  return pz_report_check(t, good);
}
