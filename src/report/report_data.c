/* The document of a report: pz_report_document() runs the sections that apply to the evaluator and combines their datasets;
 * pz_result_text() is the public function that returns it as JSON or as a page. */
#include "report/report_data.h"

#include <math.h>

#include "report/page.h"
#include "study/result_json.h"

/* A search by the evaluator original stores chips, plans and schedules, and the baselines to compare with; a search by the
 * evaluator training stores its details as one JSON text. */
static const struct {
  pz_report_section *add;
  bool original, training;
} sections[] = {{pz_report_run, true, true},        {pz_report_chips, true, false},
                {pz_report_floorplan, true, false}, {pz_report_plans, true, false},
                {pz_report_schedules, true, true},  {pz_report_baselines, true, false},
                {pz_report_training, false, true}};

json_t *pz_report_ratio(double ratio) { return isnan(ratio) ? json_null() : json_real(ratio); }

static json_t *ratios_json(const struct pz_ratios *r) {
  if (r->n_models < 2) return json_null();
  return json_pack("{s:I,s:f,s:f,s:{s:s,s:f},s:{s:s,s:f}}", "models", (json_int_t)r->n_models,
                   "geometric_mean", r->geometric_mean, "median", r->median, "least", "model",
                   r->least_model, "ratio", r->least, "most", "model", r->most_model, "ratio",
                   r->most);
}

json_t *pz_report_document(struct pz_call *call, const struct pz_result *r) {
  enum pz_objective_kind kind = r->inputs.options.objective;
  struct pz_report report = {.result = r, .datasets = pz_json_built(call, json_object())};
  bool training = r->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    bool applies = training ? sections[i].training : sections[i].original;
    if (applies) sections[i].add(call, &report);
  }
  return pz_json_built(call, json_pack("{s:s,s:{s:s,s:s},s:o,s:O?,s:O}", "version", pz_version(),
                                       "objective", "name", pz_objective_names[kind], "meaning",
                                       pz_objective_unit(kind), "ratios",
                                       ratios_json(&pz_result_best(r)->ratios), "search",
                                       report.search, "datasets", report.datasets));
}

struct result_text {
  const struct pz_result *result;
  enum pz_result_form form;
  char **text;
  size_t *bytes;
};

static void write_result_text(struct pz_call *call, void *ctx) {
  struct result_text *x = ctx;
  pz_require(call, x->result, "r");
  pz_require(call, x->text, "text");
  pz_require(call, x->bytes, "bytes");
  pz_require_range(call, "form", (int64_t)x->form, 0, PZ_RESULT_PAGE);
  const struct pz_result *r = x->result;
  bool detailed = r->training_detail || (r->detail && r->comparison);
  if (!r->n_answers)
    pz_raise(call, PZ_BAD_USE, "the run has no result; accepted: after pz_run_search");
  if (x->form != PZ_RESULT_JSON && !detailed)
    pz_raise(call, PZ_BAD_USE,
             "the result has no details; accepted: after pz_run_detail and, of the evaluator "
             "original, pz_run_compare");
  json_t *document = x->form == PZ_RESULT_JSON ? pz_json_built(call, pz_result_told_json(r))
                                               : pz_report_document(call, r);
  struct pz_buffer *out;
  if (x->form == PZ_RESULT_PAGE) {
    out = pz_page_html(call, "report_page", document);
  } else {
    out = pz_buffer_new(call);
    pz_json_print(call, out, document);
  }
  *x->text = pz_buffer_take(call, out);
  *x->bytes = out->bytes;
}

enum pz_status pz_result_text(const struct pz_result *r, enum pz_result_form form, char **text,
                              size_t *bytes, struct pz_error *err) {
  struct result_text x = {r, form, text, bytes};
  return pz_border(write_result_text, &x, err);
}
