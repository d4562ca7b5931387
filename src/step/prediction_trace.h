/* The simulated pipeline of a prediction as a trace-event file for Perfetto: one thread per stage
 * with its forwards and backwards, then the exchange of gradients that is not hidden, and the
 * optimizer. */
#ifndef PZ_STEP_PREDICTION_TRACE_H
#define PZ_STEP_PREDICTION_TRACE_H

#include "core/status.h"

/* Viewers slow down beyond. */
enum { PZ_PREDICTION_TRACE_MOST = 1 << 19 };

/* JSON text (the caller's to pz_free) of a run with events.  The last event ends with the step.
 * PZ_LIMIT beyond PZ_PREDICTION_TRACE_MOST events, or a step that is not below 1e6 s. */
PZ_NODISCARD enum pz_status pz_prediction_trace(const struct pz_training_run *r, const char *model,
                                                char **text, struct pz_error *err);

#endif
