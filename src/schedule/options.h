/* Options and statistics of the scheduler.  Its techniques are listed in options.def. */
#ifndef PZ_SCHEDULE_OPTIONS_H
#define PZ_SCHEDULE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/call.h"

/* PZ_T_local_search etc., and PZ_T_NONE for everything that cannot be switched off. */
enum pz_technique {
#define TECHNIQUE(name, reason) PZ_T_##name,
#include "schedule/options.def"
  PZ_T_NONE,
  PZ_TECHNIQUES = PZ_T_NONE
};

/* Whether each technique is switched on. */
struct pz_techniques {
#define TECHNIQUE(name, reason) bool name;
#include "schedule/options.def"
};

extern const struct pz_techniques pz_techniques_all;

const char *pz_technique_name(enum pz_technique technique);

/* Switches off the techniques of a comma-separated list of names.  Raises PZ_BAD_USE for an
 * unknown name. */
void pz_techniques_disable(struct pz_call *call, struct pz_techniques *switched_on,
                           const char *list);

/* Effort is counted in steps (tasks that are placed, nodes of the search), so that the same
 * input gives the same answer everywhere.  A core makes some millions of steps per second. */
struct pz_solve_options {
  enum pz_solver solver;
  int64_t steps;                          /* limit of the exact solver, or 0 if the default */
  double seconds;                         /* limit of the ILP, or 0 if the default */
  const struct pz_techniques *techniques; /* techniques of the exact solver, or NULL for all */
};

/* Counters of each technique.  Names are set by pz_layer_schedule_describe(). */
struct pz_solve_statistics {
  struct pz_technique_count techniques[PZ_TECHNIQUES + 1];
};

#endif
