/* One direction of a layer as a scheduling problem: its operators on the chip's tensor cores,
 * vector cores, HBM, global buffer and link, within its power budget.  Collectives are operators
 * on the link.  Gradients of weights may run at any time after their inputs, recomputed operators
 * run before the pass, and two halves of a microbatch are two independent chains. */
#ifndef PZ_STEP_PASS_SCHEDULE_H
#define PZ_STEP_PASS_SCHEDULE_H

#include "core/call.h"
#include "schedule/model/schedule.h"
#include "step/op_run.h"

/* Operators of a graph with their runs. */
struct pz_pass_part {
  const struct pz_ops *ops;     /* NULL if this part of the pass is empty */
  const struct pz_op_run *runs; /* by operator */
  const bool *which;            /* by operator: whether it is run, or NULL if all are */
  double ring_s, ring_j; /* time of the ring beside ring attention, and energy of its links */
};

struct pz_pass_question {
  struct pz_cost *cost;
  struct pz_pass_part again, pass; /* the recomputed operators, then the pass itself */
  int chains;                      /* 2 if the microbatch is split into two halves, otherwise 1 */
};

/* The power budget that concurrent operators share on an unmeasured chip. */
struct pz_pass_power {
  struct pz_power_law law;
  double idle_watts; /* power of the chip at rest */
  double room_watts; /* power limit minus idle_watts, for operators, or 0 without a limit */
};

struct pz_pass_power pz_pass_power_of(const struct pz_chip *chip);

/* Computes the time and the energy of a run with each share of the power budget: all shares if
 * `needs_all`, otherwise from the largest down to the one below which energy falls no more. */
void pz_run_levels(const struct pz_pass_power *power, bool needs_all, struct pz_op_run *run);

/* Adds memory traffic to a run: hbm_s seconds of HBM at its full rate. */
void pz_run_add_bytes(const struct pz_pass_power *power, const struct pz_chip *chip, double hbm_s,
                      struct pz_op_run *run);

struct pz_pass_schedule {
  double s;         /* makespan of the schedule */
  double bound_s;   /* lower bound on the makespan of every schedule */
  double dynamic_j; /* dynamic energy of the schedule, or 0 on measured chips */
  double serial_j;  /* that of the operators one after another, or 0 on measured chips */
};

/* Returns a lower bound on the makespan of all schedules: the longest path, or the work of one
 * resource if that takes longer. */
double pz_pass_bound_s(struct pz_call *call, const struct pz_pass_question *question);

/* Returns the problem for the solver; `named` gives tasks names of their own, for reports. */
struct pz_problem pz_pass_problem(struct pz_call *call, const struct pz_pass_question *question,
                                  bool named);

/* Finds a schedule within a number of steps of the solver. */
struct pz_pass_schedule pz_pass_solve(struct pz_call *call, const struct pz_pass_question *question,
                                      int64_t steps);

#endif
