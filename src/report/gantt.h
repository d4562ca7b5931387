/* A schedule as a text Gantt chart: one row per operator, by start time, with cores, times and a
 * bar. */
#ifndef PZ_REPORT_GANTT_H
#define PZ_REPORT_GANTT_H

#include "report/schedule_table.h"

/* At most PZ_GANTT_COLUMNS wide unless the numbers alone are wider.  Long names are cut; operators
 * of class none are left out, with a line that says how many. */
enum { PZ_GANTT_COLUMNS = 100 };

PZ_NODISCARD enum pz_status pz_gantt_print(const struct pz_layer_schedule *s,
                                           struct pz_arena *arena, FILE *out);

#endif
