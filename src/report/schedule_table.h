/* Solved schedules in reports: one as JSON or as a Gantt chart, several as a table, and the
 * counters of the solver's techniques. */
#ifndef PZ_REPORT_SCHEDULE_TABLE_H
#define PZ_REPORT_SCHEDULE_TABLE_H

#include <stdio.h>

#include "core/json.h"

/* Writes "block backward", or the name of an instance, into buf and returns buf. */
const char *pz_scheduled_title(const struct pz_layer_schedule *schedule, char buf[256]);

/* Returns (makespan - lower bound) / makespan, or 0 if the makespan is 0. */
double pz_schedule_gap(double makespan, double lower_bound);

/* Writes "optimal", "1.55%" or "<0.01%" into buf and returns buf. */
const char *pz_scheduled_gap_text(double gap, bool optimal, char buf[16]);

/* Prints a row in microseconds for each schedule; `total` adds the sums of both passes. */
void pz_schedules_table(struct pz_call *call, const struct pz_layer_schedule *const *list,
                        uint32_t n, bool total, FILE *out);

/* Prints the counters of the solver's techniques, summed over schedules, unless all are 0. */
void pz_schedules_statistics(struct pz_call *call, const struct pz_layer_schedule *const *list,
                             uint32_t n, FILE *out);

/* Returns the operators that reports show, sorted by start, then end, then index, and their number
 * in *n.  Operators that only change shapes (PZ_CLASS_NONE) take no time and are hidden. */
const struct pz_scheduled_operator **
pz_shown_operators(struct pz_call *call, const struct pz_layer_schedule *schedule, uint32_t *n);

/* Prints one row for each shown operator, with its cores, times and a bar, and the number of hidden
 * ones.  Long names are cut; only numbers may make the chart wider than PZ_GANTT_COLUMNS. */
enum { PZ_GANTT_COLUMNS = 100 };
void pz_gantt_chart(struct pz_call *call, const struct pz_layer_schedule *schedule, FILE *out);

#endif
