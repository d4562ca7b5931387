/* Section of a report: the searched chip and every baseline, for each objective run and model. */
#include "report/report_data.h"

/* Adds one row for each objective run, method and model. */
void pz_report_baselines(struct pz_call *call, struct pz_report *report) {
  const struct pz_comparison *comparison = report->result->comparison;
  json_t *rows = pz_dataset_new(
      call, report->datasets, "baselines",
      "objective_run,method,about,chip,hbm_gib,area_mm2,objective,model,samples_per_s,ratio");
  for (uint32_t i = 0; i < comparison->n_runs; i++) {
    const struct pz_comparison_run *run = &comparison->runs[i];
    for (uint32_t k = 0; k < run->n_methods; k++) {
      const struct pz_method_result *method = &run->methods[k];
      for (uint32_t j = 0; j < method->n_models; j++) {
        const struct pz_method_model *model = &method->models[j];
        pz_dataset_add(call, rows, "[s,s,s,s?,f,f,f,s,f,o]", run->name, method->name, method->about,
                       method->chip, method->hbm_gib, method->area_mm2, method->objective,
                       model->model, model->samples_per_s, pz_dataset_real(model->ratio));
      }
    }
  }
}
