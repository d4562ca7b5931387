/* Two-mode scheduling problems in the original system's JSON format. */
#ifndef PZ_SCHEDULE_MODEL_INSTANCE_H
#define PZ_SCHEDULE_MODEL_INSTANCE_H

#include "schedule/model/problem.h"

enum { PZ_INSTANCE_MOST_OPS = 1 << 20 };

/* Sets the modes of one operator: on one core of each class that it uses (a collective uses a vector
 * core), and on the whole chip.  Returns their number, which is 1 for operators that do nothing. */
uint32_t pz_two_modes(enum pz_op_class op_class, const int32_t capacity[PZ_RESOURCES],
                      double single_s, double intra_s, enum pz_exclusive exclusive,
                      struct pz_mode modes[2]);

/* Reads {num_tc, num_vc, ops: [{id, type: TC|VC|TCandVC|Nop, latency, intra_op_latency}], edges:
 * [[before, after]]}. `name` stands for the text in messages. */
struct pz_problem pz_instance_read(struct pz_call *call, const char *name, const char *text,
                                   size_t bytes, enum pz_exclusive exclusive);

#endif
