/* Fields of a result in JSON, for printing it as text. */
#ifndef PZ_REPORT_RESULT_H
#define PZ_REPORT_RESULT_H

#include "core/json.h"
#include "report/table.h"

static inline const json_t *pz_result_at(const json_t *o, const char *key) {
  return json_object_get(o, key);
}

/* 0 where there is no number, "" where there is no text. */
static inline double pz_result_number(const json_t *o, const char *key) {
  return json_number_value(json_object_get(o, key));
}

static inline const char *pz_result_text(const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

/* A model's throughput over the reference's, as a cell. */
static inline void pz_result_ratio(struct pz_table *t, const json_t *model) {
  const json_t *ratio = json_object_get(model, "ratio_to_reference");
  if (!(pz_result_number(model, "throughput_samples_s") > 0))
    pz_table_cell(t, "%s", "no fit");
  else if (json_is_number(ratio))
    pz_table_cell(t, "%.2fx", json_number_value(ratio));
  else
    pz_table_cell(t, "%s", "-");
}

#endif
