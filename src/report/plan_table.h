/* A plan of a model in reports: its degrees, the parts of its step time, its stages. */
#ifndef PZ_REPORT_PLAN_TABLE_H
#define PZ_REPORT_PLAN_TABLE_H

#include <stdio.h>

#include "core/json.h"
#include "place/model.h"

struct pz_planned {
  const struct pz_place_model *model;
  const struct pz_plan *plan;
  bool recompute;
  int64_t batch;
  double peak_flop_per_s; /* of one device */
};

/* The parts of a step: they sum up to its time. */
struct pz_step_parts {
  double compute_s, collectives_s, transfers_s, bubble_s, exchange_s;
};

struct pz_step_parts pz_planned_parts(const struct pz_planned *p);
int64_t pz_planned_devices(const struct pz_planned *p);

/* Products over the peak of the devices in use. */
double pz_planned_flop_part(const struct pz_planned *p);

/* "embedding, block x 11" into buf.  Returns buf. */
const char *pz_planned_stage(const struct pz_planned *p, const struct pz_stage *s, char *buf,
                             size_t size);

/* `whole`: with every stage. */
json_t *pz_planned_json(const struct pz_planned *p, bool whole);

/* "14 stages, 72 replicas, tensor parallel 1, microbatch 1, activations kept" into buf. */
const char *pz_planned_text(const struct pz_planned *p, char *buf, size_t size);

/* One row for each stage, equal neighbours together. */
PZ_NODISCARD enum pz_status pz_planned_table(const struct pz_planned *p, struct pz_arena *arena,
                                             FILE *out);

#endif
