/* What a report shows of a result, as one JSON document:
 *
 *     {version, objective, ratios, search, datasets: {name: {columns, rows}}}
 *
 * A section fills one or more datasets; it is one file report_*.c and a row of the table in
 * report_data.c.  Nothing in it depends on the clock, on threads, or on where the run lies. */
#ifndef PZ_REPORT_REPORT_DATA_H
#define PZ_REPORT_REPORT_DATA_H

#include "report/dataset.h"
#include "study/result.h"

struct pz_report {
  const struct pz_result *result; /* with detail, by the evaluator original with comparison */
  json_t *datasets;
  json_t *search; /* of the evaluator training: {best, reference, certificate, inputs}; else NULL */
  struct pz_error *err;
};

/* The document of a result that has comparison and detail.  New reference in *out. */
PZ_NODISCARD enum pz_status pz_report_data(const struct pz_result *r, json_t **out,
                                           struct pz_error *err);

/* ---- for the sections ----------------------------------------------------------------------- */

/* PZ_NO_MEMORY, with a message, unless `good`. */
PZ_NODISCARD enum pz_status pz_report_check(const struct pz_report *t, bool good);

/* A ratio, or null for NaN.  New reference. */
json_t *pz_report_ratio(double ratio);

/* ---- the rows ------------------------------------------------------------------------------- */

typedef enum pz_status pz_report_section(struct pz_report *t);
pz_report_section pz_report_run, pz_report_chips, pz_report_floorplan, pz_report_plans,
    pz_report_schedules, pz_report_baselines, pz_report_training;

#endif
