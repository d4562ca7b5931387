/* Options and statistics of the scheduler.  Techniques stand in options.def. */
#ifndef PZ_SCHEDULE_OPTIONS_H
#define PZ_SCHEDULE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

/* PZ_T_local_search and so on; PZ_T_NONE stands for what cannot be switched off. */
enum pz_technique {
#define TECHNIQUE(name, reason) PZ_T_##name,
#include "schedule/options.def"
  PZ_T_NONE,
  PZ_TECHNIQUES = PZ_T_NONE
};

/* Techniques by name, on or off. */
struct pz_techniques {
#define TECHNIQUE(name, reason) bool name;
#include "schedule/options.def"
};

extern const struct pz_techniques pz_techniques_all;

const char *pz_technique_name(enum pz_technique t);

/* Switch off the techniques of a list with commas.  PZ_BAD_USE names one that there is not, and
 * those there are. */
PZ_NODISCARD enum pz_status pz_techniques_disable(struct pz_techniques *t, const char *list,
                                                  struct pz_error *err);

/* Effort is counted in steps (a task placed, or a node of the search), so that the same input gives
 * the same answer everywhere; some millions a second. */
struct pz_solve_options {
  enum pz_solver solver;
  int64_t steps;                          /* of the exact solver; 0: the default */
  double seconds;                         /* of the ILP; 0: the default */
  const struct pz_techniques *techniques; /* of the exact solver; NULL: all */
};

/* What each technique did in a solve; names are filled in where they are told. */
struct pz_solve_statistics {
  struct pz_technique_count by[PZ_TECHNIQUES + 1];
};

#endif
