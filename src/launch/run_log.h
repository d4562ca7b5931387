/* Logs of training runs: the time of a step, and of Megatron-LM's the arguments that it prints at the start.
 *
 * A step is the median over the iterations that are logged, without the first tenth, which warms up.  Megatron-LM logs
 * "elapsed time per iteration (ms): 1234.5", torchtitan "tps: 6,500", tokens of a device in a second. */
#ifndef PZ_LAUNCH_RUN_LOG_H
#define PZ_LAUNCH_RUN_LOG_H

#include "core/arena.h"

/* Does the text log iterations of one of them? */
bool pz_run_log_is(const char *text, size_t bytes);

/* What a log says of a step; 0: not logged. */
struct pz_logged_step {
  double step_s;                  /* of Megatron-LM's */
  double tokens_per_s_per_device; /* of torchtitan's */
};

PZ_NODISCARD enum pz_status pz_run_log_step(const char *name, const char *text, size_t bytes,
                                            struct pz_logged_step *out, struct pz_error *err);

/* The arguments of Megatron-LM that a log shows and pz_megatron_read knows, as a plain list, and its processes; NULL: it
 * shows none.  What a switch that is off leaves without effect is left out. */
PZ_NODISCARD enum pz_status pz_run_log_arguments(const char *name, const char *text, size_t bytes,
                                                 struct pz_arena *arena, const char **arguments,
                                                 int64_t *devices, struct pz_error *err);

#endif
