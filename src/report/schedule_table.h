/* Solved schedules in reports: one as JSON, several as a table, and what the techniques of the solver did. */
#ifndef PZ_REPORT_SCHEDULE_TABLE_H
#define PZ_REPORT_SCHEDULE_TABLE_H

#include <stdio.h>

#include "core/json.h"

/* Writes "block backward", or the name of an instance, into buf and returns buf. */
const char *pz_scheduled_title(const struct pz_layer_schedule *s, char buf[256]);

/* Returns the factor from the schedule's time unit to microseconds.  The unit of a layer is the second; the unit of an
 * instance is unknown, and its times are printed as they are. */
static inline double pz_scheduled_us(const struct pz_layer_schedule *s) {
  return s->layer ? 1e6 : 1;
}

/* Returns the gap between makespan and lower bound as a fraction of the makespan. */
double pz_scheduled_gap(const struct pz_layer_schedule *s);

/* Writes "optimal", "1.55%" or "<0.01%" into buf and returns buf. */
const char *pz_scheduled_gap_text(double gap, bool optimal, char buf[16]);

/* Returns the number of decimals with which times up to `most_us` microseconds stay narrow. */
int pz_scheduled_decimals(double most_us);

/* Returns a new reference, or NULL if out of memory.  Times are in the schedule's unit; solve_s is the time of the solver,
 * below 0 if it is unknown. */
json_t *pz_scheduled_json(const struct pz_layer_schedule *s, double solve_s);

/* Returns the plan in the format of predictions. */
json_t *pz_scheduled_plan_json(const struct pz_plan_schedules *s);

/* Prints one row for each schedule, with times in microseconds.  `total` adds the sums over all layers for both passes. */
void pz_schedules_table(struct pz_call *call, const struct pz_layer_schedule *const *list,
                        uint32_t n, bool total, FILE *out);

/* Prints what each technique of the solver did, summed over all schedules; nothing if none did anything. */
void pz_schedules_statistics(struct pz_call *call, const struct pz_layer_schedule *const *list,
                             uint32_t n, FILE *out);

/* Returns the operators that are shown, which are those with a class, sorted by start, end and number, and their number. */
const struct pz_scheduled_operator **
pz_shown_operators(struct pz_call *call, const struct pz_layer_schedule *s, uint32_t *n);

/* For callers that return a status: pz_schedules_table() and pz_schedules_statistics(). */
PZ_NODISCARD enum pz_status pz_scheduled_table(const struct pz_layer_schedule *const *list,
                                               uint32_t n, bool total, struct pz_arena *arena,
                                               FILE *out);
PZ_NODISCARD enum pz_status pz_scheduled_statistics(const struct pz_layer_schedule *const *list,
                                                    uint32_t n, struct pz_arena *arena, FILE *out);

#endif
