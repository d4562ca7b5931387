/* Solves a scheduling problem: list scheduling and local search find schedules, column
 * generation and energetic reasoning find lower bounds, and tree search closes the gap.  Also
 * describes schedules for programs and reports. */
#ifndef PZ_SCHEDULE_SOLVE_H
#define PZ_SCHEDULE_SOLVE_H

#include "core/call.h"
#include "schedule/model/schedule.h"

/* Finds a schedule of the problem within the effort of the options, and checks it. */
struct pz_schedule pz_schedule_find(struct pz_call *call, const struct pz_problem *problem,
                                    const struct pz_solve_options *options);

/* Describes a schedule in *out, whose model, layer, count and direction are set before.  Names are
 * copied.  `whole` adds what saved runs omit (ids, modes, statistics), and `views` adds operators without
 * work, such as reshapes. */
void pz_layer_schedule_describe(struct pz_call *call, const struct pz_problem *problem,
                                const struct pz_schedule *schedule, bool whole, bool views,
                                struct pz_layer_schedule *out);

/* Checks the options of a caller; NULL stands for the defaults. */
struct pz_schedule_options pz_schedule_options_check(struct pz_call *call,
                                                     const struct pz_schedule_options *given);

/* Solves a problem with these options, and describes the schedule in *out. */
void pz_layer_schedule_find(struct pz_call *call, const struct pz_problem *problem,
                            const struct pz_schedule_options *options,
                            struct pz_layer_schedule *out);

#endif
