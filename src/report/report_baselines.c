/* The search beside every other way to choose, objective run by objective run, as the comparison has it. */
#include "report/report_data.h"
#include "report/result.h"

static bool tell_way(const char *objective_run, const json_t *way, json_t *rows) {
  const json_t *models = pz_result_at(way, "models");
  for (size_t i = 0; i < json_array_size(models); i++) {
    const json_t *m = json_array_get(models, i);
    if (!pz_dataset_row(
            rows, json_pack("[s,s,s,O,f,f,f,s,f,O]", objective_run, pz_result_text(way, "name"),
                            pz_result_text(way, "about"), pz_result_at(way, "chip"),
                            pz_result_number(way, "hbm_gib"), pz_result_number(way, "area_mm2"),
                            pz_result_number(way, "objective"), pz_result_text(m, "model"),
                            pz_result_number(m, "throughput_samples_s"),
                            pz_result_at(m, "ratio_to_reference"))))
      return false;
  }
  return true;
}

enum pz_status pz_story_baselines(struct pz_story *t) {
  json_t *rows = pz_dataset_add(
      t->datasets, "baselines",
      "objective_run,way,about,chip,hbm_gib,area_mm2,objective,model,samples_per_s,ratio");
  const json_t *objective_runs = pz_result_at(t->comparison, "objective_runs");
  bool good = rows;
  for (size_t i = 0; i < json_array_size(objective_runs); i++) {
    const json_t *objective_run = json_array_get(objective_runs, i),
                 *ways = pz_result_at(objective_run, "ways");
    for (size_t k = 0; k < json_array_size(ways) && good; k++)
      good = tell_way(pz_result_text(objective_run, "name"), json_array_get(ways, k), rows);
  }
  return pz_story_check(t, good);
}
