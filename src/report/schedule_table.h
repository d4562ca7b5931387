/* A solved schedule in reports: as JSON, and several as a table. */
#ifndef PZ_REPORT_SCHEDULE_TABLE_H
#define PZ_REPORT_SCHEDULE_TABLE_H

#include <stdio.h>

#include "core/arena.h"
#include "core/json.h"

/* "block backward", or the name of an instance, into buf.  Returns buf. */
const char *pz_scheduled_title(const struct pz_layer_schedule *s, char buf[256]);

/* A unit of its times in microseconds: seconds, or the unit of an instance, printed as it is. */
static inline double pz_scheduled_us(const struct pz_layer_schedule *s) {
  return s->layer ? 1e6 : 1;
}

/* How far the makespan may be above the best, as a part of it. */
double pz_scheduled_gap(const struct pz_layer_schedule *s);

/* "optimal", "1.55%", "<0.01%" into buf.  Returns buf. */
const char *pz_scheduled_gap_text(double gap, bool optimal, char buf[16]);

/* Decimals with which times up to this many microseconds stay narrow. */
int pz_scheduled_decimals(double most_us);

/* Times in the unit of the problem; solve_s: what solving took, below 0: not known.  NULL when out of memory. */
json_t *pz_scheduled_json(const struct pz_layer_schedule *s, double solve_s);

/* The plan, as in predictions. */
json_t *pz_scheduled_plan_json(const struct pz_plan_schedules *s);

/* One row for each, times in microseconds, and with `total` the sums of both directions over all
 * layers. */
PZ_NODISCARD enum pz_status pz_scheduled_table(const struct pz_layer_schedule *const *list,
                                               uint32_t n, bool total, struct pz_arena *arena,
                                               FILE *out);

/* What each technique of the solver did, in all of them together; nothing where none did
 * anything. */
PZ_NODISCARD enum pz_status pz_scheduled_statistics(const struct pz_layer_schedule *const *list,
                                                    uint32_t n, struct pz_arena *arena, FILE *out);

/* The operators that are shown, those of class none left out, by start, end and number: *n of them, in the
 * arena; NULL when out of memory. */
const struct pz_scheduled_operator **pz_scheduled_order(const struct pz_layer_schedule *s,
                                                        struct pz_arena *arena, uint32_t *n);

#endif
