/* A solved schedule in reports: as JSON, and several as a table. */
#ifndef PZ_REPORT_SCHEDULE_TABLE_H
#define PZ_REPORT_SCHEDULE_TABLE_H

#include <stdio.h>

#include "core/json.h"
#include "schedule/model/schedule.h"

struct pz_scheduled {
  const char *title; /* "block backward", or the file of an instance */
  const char *layer; /* NULL: an instance, whose operators have numbers for names */
  enum pz_direction direction;
  int64_t count; /* how often the layer occurs */
  double to_us;  /* a unit of its times in microseconds */
  struct pz_problem problem;
  struct pz_schedule schedule;
  double solve_s; /* what solving took */
};

/* How far the makespan may be above the best, as a part of it. */
double pz_scheduled_gap(const struct pz_scheduled *s);

/* "optimal", "1.55%", "<0.01%" into buf.  Returns buf. */
const char *pz_scheduled_gap_text(double gap, bool optimal, char buf[16]);

/* Decimals with which times up to this many microseconds stay narrow. */
int pz_scheduled_decimals(double most_us);

/* Times in the unit of the problem.  NULL when out of memory. */
json_t *pz_scheduled_json(const struct pz_scheduled *s);

/* One row for each, times in microseconds, and with `total` the sums of both directions over all
 * layers. */
PZ_NODISCARD enum pz_status pz_scheduled_table(const struct pz_scheduled *list, uint32_t n,
                                               bool total, struct pz_arena *arena, FILE *out);

/* What each technique of the solver did, in all of them together; nothing where none did
 * anything. */
PZ_NODISCARD enum pz_status pz_scheduled_statistics(const struct pz_scheduled *list, uint32_t n,
                                                    struct pz_arena *arena, FILE *out);

/* The operators that are shown, those of class none left out, by start, end and number: *n of them, in the
 * arena; NULL when out of memory. */
const uint32_t *pz_scheduled_order(const struct pz_scheduled *s, struct pz_arena *arena,
                                   uint32_t *n);

#endif
