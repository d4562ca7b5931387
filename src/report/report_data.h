/* The content of a report as one JSON document:
 *
 *     {version, objective, ratios, search, datasets: {name: {columns, rows}}}
 *
 * A section adds one or more datasets; it is one file report_*.c and one row of the table in
 * report_data.c.  Nothing in the document depends on the clock, on the number of threads, or on
 * the path of the run. */
#ifndef PZ_REPORT_REPORT_DATA_H
#define PZ_REPORT_REPORT_DATA_H

#include "report/dataset.h"
#include "study/result.h"

struct pz_report {
  /* A result with its details and, from the evaluator original, its comparison. */
  const struct pz_result *result;
  json_t *datasets;
  /* {best, robustness, reference, certificate, inputs} of the evaluator training; otherwise NULL */
  json_t *search;
};

/* Returns the report of a finished search as one JSON document, in the form described above.  The
 * result must already have its details, the data that only reports need (pz_run_detail). */
json_t *pz_report_document(struct pz_call *call, const struct pz_result *result);

/* ---- for the sections ----------------------------------------------------------------------- */

typedef void pz_report_section(struct pz_call *call, struct pz_report *report);
pz_report_section pz_report_run, pz_report_chips, pz_report_floorplan, pz_report_plans,
    pz_report_schedules, pz_report_baselines, pz_report_training;

#endif
