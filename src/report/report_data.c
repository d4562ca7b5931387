/* The document of a report: pz_report_document() runs the sections that apply to the evaluator and
 * combines their datasets; pz_result_text(), which is public, returns it as JSON or as a page. */
#include "report/report_data.h"

#include "report/page.h"
#include "study/result_json.h"

/* A search by the evaluator original stores chips, plans and schedules, and the baselines to
 * compare with; a search by the evaluator training stores its details as one JSON text. */
static const struct {
  pz_report_section *add;
  bool original, training;
} sections[] = {{pz_report_run, true, true},        {pz_report_chips, true, false},
                {pz_report_floorplan, true, false}, {pz_report_plans, true, false},
                {pz_report_schedules, true, true},  {pz_report_baselines, true, false},
                {pz_report_training, false, true}};

/* Returns the report of a result as one JSON document, with the datasets of all sections that apply
 * to its evaluator. */
json_t *pz_report_document(struct pz_call *call, const struct pz_result *result) {
  enum pz_objective_kind kind = result->inputs.options.objective;
  const struct pz_ratios *ratios = &pz_result_best(result)->ratios;
  struct pz_report report = {.result = result, .datasets = pz_json_built(call, json_object())};
  bool training = result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  json_t *ratios_json = json_null();
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    bool applies = training ? sections[i].training : sections[i].original;
    if (applies) sections[i].add(call, &report);
  }
  if (ratios->n_models > 1)
    ratios_json =
        json_pack("{s:I,s:f,s:f,s:{s:s,s:f},s:{s:s,s:f}}", "models", (json_int_t)ratios->n_models,
                  "geometric_mean", ratios->geometric_mean, "median", ratios->median, "least",
                  "model", ratios->least_model, "ratio", ratios->least, "most", "model",
                  ratios->most_model, "ratio", ratios->most);
  return pz_json_built(call, json_pack("{s:s,s:{s:s,s:s},s:o,s:O?,s:O}", "version", pz_version(),
                                       "objective", "name", pz_objective_names[kind], "meaning",
                                       pz_objective_unit(kind), "ratios", ratios_json, "search",
                                       report.search, "datasets", report.datasets));
}

struct result_text {
  const struct pz_result *result;
  enum pz_result_form form;
  char **text;
  size_t *bytes;
};

/* Writes a result as JSON, as the JSON document of its report, or as an HTML page. */
static void write_result_text(struct pz_call *call, void *ctx) {
  struct result_text *args = ctx;
  pz_require(call, args->result, "r");
  pz_require(call, args->text, "text");
  pz_require(call, args->bytes, "bytes");
  pz_require_range(call, "form", (int64_t)args->form, 0, PZ_RESULT_PAGE);
  const struct pz_result *result = args->result;
  bool detailed = result->training_detail || (result->detail && result->comparison);
  if (!result->n_answers)
    pz_raise(call, PZ_BAD_USE, "the run has no result; accepted: after pz_run_search");
  if (args->form != PZ_RESULT_JSON && !detailed)
    pz_raise(call, PZ_BAD_USE,
             "the result has no details; accepted: after pz_run_detail and, of the evaluator "
             "original, pz_run_compare");
  json_t *document = args->form == PZ_RESULT_JSON
                         ? pz_json_built(call, pz_result_display_json(result))
                         : pz_report_document(call, result);
  struct pz_buffer *out;
  if (args->form == PZ_RESULT_PAGE) {
    out = pz_page_html(call, "report_page", document);
  } else {
    out = pz_buffer_new(call);
    pz_json_print(call, out, document);
  }
  *args->text = pz_buffer_take(call, out);
  *args->bytes = out->bytes;
}

enum pz_status pz_result_text(const struct pz_result *result, enum pz_result_form form, char **text,
                              size_t *bytes, struct pz_error *err) {
  struct result_text args = {result, form, text, bytes};
  return pz_border(write_result_text, &args, err);
}
