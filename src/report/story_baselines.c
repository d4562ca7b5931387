/* The search beside every other way to choose, contest by contest, as the comparison has it. */
#include "report/result.h"
#include "report/story.h"

static bool tell_way(const char *contest, const json_t *way, json_t *rows) {
  const json_t *models = pz_result_at(way, "models");
  for (size_t i = 0; i < json_array_size(models); i++) {
    const json_t *m = json_array_get(models, i);
    if (!pz_sheet_row(rows,
                      json_pack("[s,s,s,O,f,f,f,s,f,O]", contest, pz_result_text(way, "name"),
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
  json_t *rows =
      pz_sheet_add(t->sheets, "baselines",
                   "contest,way,about,chip,hbm_gib,area_mm2,objective,model,samples_per_s,ratio");
  const json_t *contests = pz_result_at(t->comparison, "contests");
  bool good = rows;
  for (size_t i = 0; i < json_array_size(contests); i++) {
    const json_t *contest = json_array_get(contests, i), *ways = pz_result_at(contest, "ways");
    for (size_t k = 0; k < json_array_size(ways) && good; k++)
      good = tell_way(pz_result_text(contest, "name"), json_array_get(ways, k), rows);
  }
  return pz_story_check(t, good);
}
