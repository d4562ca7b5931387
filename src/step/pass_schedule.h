/* One direction of a layer as a scheduling problem: its operators on the chip's tensor cores, vector cores, HBM, global
 * buffer and link, within its watts.  Collectives of tensor, context and expert parallelism are operators on the link;
 * weight gradients run when they like; what is recomputed comes before; two halves of a microbatch are two chains. */
#ifndef PZ_STEP_PASS_SCHEDULE_H
#define PZ_STEP_PASS_SCHEDULE_H

#include "core/call.h"
#include "schedule/model/schedule.h"
#include "step/op_run.h"

/* Operators of a graph with what they run. */
struct pz_pass_part {
  const struct pz_ops *ops;     /* NULL: none */
  const struct pz_op_run *runs; /* by operator */
  const bool *which;            /* NULL: all */
  double ring_s,
      ring_j; /* keys and values round the ring of a context, beside attention; links' energy */
};

struct pz_pass_question {
  struct pz_cost *cost;
  struct pz_pass_part again, pass; /* recomputed, then the pass itself */
  int chains;                      /* halves of a microbatch; 1: the whole */
};

/* The watts that operators share on a chip that nobody measured. */
struct pz_pass_power {
  struct pz_power_law law;
  double idle_watts, room_watts; /* at rest; what is left beside those, 0: no limit */
};

struct pz_pass_power pz_pass_power_of(const struct pz_chip *chip);

/* Fills in what an operator takes with each share of limited watts; `all`: also with those that only make it longer. */
void pz_run_levels(const struct pz_pass_power *power, bool all, struct pz_op_run *run);

/* An operator that moves more bytes, in so many seconds of HBM. */
void pz_run_add_bytes(const struct pz_pass_power *power, const struct pz_chip *chip, double hbm_s,
                      struct pz_op_run *run);

struct pz_pass_schedule {
  double s, bound_s;
  double dynamic_j,
      serial_j; /* of a chip that nobody measured, and one after another; 0: not known */
};

/* No schedule is shorter: resource loads between heads and tails, and the longest path. */
double pz_pass_bound_s(struct pz_call *call, const struct pz_pass_question *q);

/* `named`: tasks have names of their own, for reports. */
struct pz_problem pz_pass_problem(struct pz_call *call, const struct pz_pass_question *q,
                                  bool named);

/* With so many steps of the solver. */
struct pz_pass_schedule pz_pass_solve(struct pz_call *call, const struct pz_pass_question *q,
                                      int64_t steps);

#endif
