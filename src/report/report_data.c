#include "report/report_data.h"

#include <math.h>
#include <string.h>

#include "core/status.h"
#include "report/page.h"
#include "study/result_json.h"

/* By what a search leaves: the evaluator original chips, plans and schedules with baselines, `training` its details. */
static const struct {
  pz_report_section *tell;
  bool original, training;
} sections[] = {{pz_report_run, true, true},        {pz_report_chips, true, false},
                {pz_report_floorplan, true, false}, {pz_report_plans, true, false},
                {pz_report_schedules, true, true},  {pz_report_baselines, true, false},
                {pz_report_training, false, true}};

enum pz_status pz_report_check(const struct pz_report *t, bool good) {
  return good ? PZ_OK
              : pz_fail(t->err, PZ_NO_MEMORY,
                        "out of memory for the report, or a number of the run is not finite");
}

json_t *pz_report_ratio(double ratio) { return isnan(ratio) ? json_null() : json_real(ratio); }

static json_t *ratios_json(const struct pz_ratios *r) {
  if (r->n_models < 2) return json_null();
  return json_pack("{s:I,s:f,s:f,s:{s:s,s:f},s:{s:s,s:f}}", "models", (json_int_t)r->n_models,
                   "geometric_mean", r->geometric_mean, "median", r->median, "least", "model",
                   r->least_model, "ratio", r->least, "most", "model", r->most_model, "ratio",
                   r->most);
}

static json_t *document_json(const struct pz_report *t) {
  enum pz_objective_kind kind = t->result->inputs.options.objective;
  return json_pack("{s:s,s:{s:s,s:s},s:o,s:O?,s:O}", "version", pz_version(), "objective", "name",
                   pz_objective_names[kind], "meaning", pz_objective_unit(kind), "ratios",
                   ratios_json(&pz_result_best(t->result)->ratios), "search", t->search, "datasets",
                   t->datasets);
}

enum pz_status pz_report_data(const struct pz_result *r, json_t **out, struct pz_error *err) {
  struct pz_report t = {r, json_object(), NULL, err};
  bool training = r->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof sections / sizeof *sections && status == PZ_OK; i++)
    if (training ? sections[i].training : sections[i].original) status = sections[i].tell(&t);
  if (status == PZ_OK) {
    *out = document_json(&t);
    status = pz_report_check(&t, *out != NULL);
  }
  json_decref(t.search);
  json_decref(t.datasets);
  return status;
}

enum pz_status pz_result_text(const struct pz_result *r, enum pz_result_form form, char **text,
                              size_t *bytes, struct pz_error *err) {
  enum pz_status status = pz_need_each(err, {r, "r"}, {text, "text"}, {bytes, "bytes"});
  if (status == PZ_OK) status = pz_need_range("form", (int64_t)form, 0, PZ_RESULT_PAGE, err);
  if (status == PZ_OK && !r->n_answers)
    status = pz_fail(err, PZ_BAD_USE, "the run has no result; accepted: after pz_run_search");
  if (status == PZ_OK && form != PZ_RESULT_JSON && !r->training_detail &&
      !(r->detail && r->comparison))
    status = pz_fail(err, PZ_BAD_USE,
                     "the result has no details; accepted: after pz_run_detail and, of the "
                     "evaluator original, pz_run_compare");
  if (status != PZ_OK) return status;
  json_t *document = form == PZ_RESULT_JSON ? pz_result_told_json(r) : NULL;
  if (form != PZ_RESULT_JSON) status = pz_report_data(r, &document, err);
  if (status == PZ_OK && !document)
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the result");
  if (status == PZ_OK && form == PZ_RESULT_PAGE)
    status = pz_page_text("report_page", document, text, bytes, err);
  else if (status == PZ_OK && (status = pz_json_text(document, text, err)) == PZ_OK)
    *bytes = strlen(*text);
  json_decref(document);
  return status;
}
