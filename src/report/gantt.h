/* A schedule as a text Gantt chart: one row for each operator, sorted by start time, with its cores, its times and a bar. */
#ifndef PZ_REPORT_GANTT_H
#define PZ_REPORT_GANTT_H

#include "report/schedule_table.h"

/* The chart is at most PZ_GANTT_COLUMNS wide unless the numbers alone are wider.  Long names are cut.  Operators without a
 * class, which have no duration, are omitted, and the last line counts them. */
enum { PZ_GANTT_COLUMNS = 100 };

void pz_gantt_chart(struct pz_call *call, const struct pz_layer_schedule *s, FILE *out);

/* For callers that return a status: pz_gantt_chart(). */
PZ_NODISCARD enum pz_status pz_gantt_print(const struct pz_layer_schedule *s,
                                           struct pz_arena *arena, FILE *out);

#endif
