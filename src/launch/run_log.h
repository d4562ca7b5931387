/* Reader of the logs of training runs: the time of a step, and the arguments that Megatron-LM
 * prints at its start.
 *
 * The time of a step is the median over the logged iterations without the first tenth, which warms
 * up.  Megatron-LM logs "elapsed time per iteration (ms): 1234.5", torchtitan logs "tps: 6,500",
 * the tokens per second of one device. */
#ifndef PZ_LAUNCH_RUN_LOG_H
#define PZ_LAUNCH_RUN_LOG_H

#include "core/call.h"

/* Returns whether the text is a log of Megatron-LM, or of torchtitan with iterations. */
bool pz_run_log_is(const char *text, size_t bytes);

/* The speed of a logged run.  A value that is not logged is 0. */
struct pz_logged_step {
  double step_s;                  /* logged by Megatron-LM */
  double tokens_per_s_per_device; /* logged by torchtitan */
};

/* Raises PZ_BAD_INPUT if the log has no iteration. */
struct pz_logged_step pz_run_log_step(struct pz_call *call, const char *name, const char *text,
                                      size_t bytes);

struct pz_logged_run {
  const char *arguments; /* NULL if the log shows none */
  int64_t devices;       /* 0 if the log does not say */
};

/* Returns the arguments in a log of Megatron-LM that pz_megatron_read() knows, as a list of
 * arguments, each on the line that it has in the log.  Arguments that have no effect, because the
 * switch that they belong to is off, are left out. */
struct pz_logged_run pz_run_log_arguments(struct pz_call *call, const char *name, const char *text,
                                          size_t bytes);

#endif
