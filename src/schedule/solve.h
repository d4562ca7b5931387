/* Solving a scheduling problem: heuristic schedules by list scheduling and local search, lower
 * bounds, then exact search. */
#ifndef PZ_SCHEDULE_SOLVE_H
#define PZ_SCHEDULE_SOLVE_H

#include "schedule/model/schedule.h"

PZ_NODISCARD enum pz_status pz_schedule_solve(const struct pz_problem *p,
                                              const struct pz_solve_options *options,
                                              struct pz_arena *arena, struct pz_schedule *out,
                                              struct pz_error *err);

/* A solved problem for programs and reports: *out has model, layer, count and direction already.  The
 * arena holds what it points to, copies of all names.  `whole`: with what runs do not keep. */
PZ_NODISCARD enum pz_status pz_layer_schedule_tell(const struct pz_problem *problem,
                                                   const struct pz_schedule *schedule, bool whole,
                                                   bool views, struct pz_arena *arena,
                                                   struct pz_layer_schedule *out,
                                                   struct pz_error *err);

/* Options of a caller, checked. */
PZ_NODISCARD enum pz_status pz_schedule_options_take(const struct pz_schedule_options *given,
                                                     struct pz_schedule_options *o,
                                                     struct pz_error *err);

/* Both: solve a problem as these options say, and tell. */
PZ_NODISCARD enum pz_status pz_schedule_problem(const struct pz_problem *p,
                                                const struct pz_schedule_options *o,
                                                struct pz_arena *work, struct pz_arena *arena,
                                                struct pz_layer_schedule *s, struct pz_error *err);

#endif
