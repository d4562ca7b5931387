/* A plan's pipeline as a trace-event file for Perfetto: one thread per stage with its microbatches,
 * forward and backward, and the gradient all-reduce.  As in the placement formula, every time slot
 * is as long as the slowest stage takes. */
#ifndef PZ_REPORT_PIPELINE_TRACE_H
#define PZ_REPORT_PIPELINE_TRACE_H

#include "core/arena.h"

/* Beyond so many events only the first microbatches are shown, and the name says so. */
enum { PZ_PIPELINE_TRACE_MOST = 1 << 17 };

/* JSON text (malloc'd, the caller's to free). */
PZ_NODISCARD enum pz_status pz_pipeline_trace(const struct pz_partition *p, const char *model,
                                              char **text, struct pz_error *err);

#endif
