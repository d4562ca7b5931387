/* Schedules as a trace-event file for Perfetto (ui.perfetto.dev) or chrome://tracing: one process
 * per schedule, all from time 0, with a lane for each operator that runs concurrently and a counter
 * for every resource in use. */
#ifndef PZ_REPORT_TRACE_H
#define PZ_REPORT_TRACE_H

#include "report/schedule_table.h"

/* Viewers slow down beyond; and their times are 64-bit nanoseconds. */
enum { PZ_TRACE_MOST_OPS = 1 << 16 };
#define PZ_TRACE_MOST_US 1e12

/* JSON text (malloc'd, the caller's to free).  Events stand in order of time; those of one lane
 * never overlap.  Operators of class none are left out.  PZ_LIMIT beyond the limits above. */
PZ_NODISCARD enum pz_status pz_trace_text(const struct pz_scheduled *list, uint32_t n, char **text,
                                          struct pz_error *err);

/* A plan's pipeline: one thread per stage with its microbatches, forward and backward, and the gradient
 * all-reduce.  As in the placement formula, every time slot is as long as the slowest stage takes. */

/* Beyond so many events only the first microbatches are shown, and the name says so. */
enum { PZ_PIPELINE_TRACE_MOST = 1 << 17 };

/* JSON text (malloc'd, the caller's to free). */
PZ_NODISCARD enum pz_status pz_pipeline_trace(const struct pz_partition *p, const char *model,
                                              char **text, struct pz_error *err);

#endif
