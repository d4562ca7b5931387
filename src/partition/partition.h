/* The original system's plan to train a model on a cluster, as people and programs are told of it:
 * degrees, times, memory, stages.  A plain value: it knows nothing of the solver, the workload or the
 * chip that it was made with, and can be kept, printed and compared after they are gone. */
#ifndef PZ_PARTITION_PARTITION_H
#define PZ_PARTITION_PARTITION_H

#include "core/record.h"

struct pz_place_model;

/* A solved problem, told as a plan; lower_bound_s as in pz_partition.  Everything is copied into the
 * arena.  Errors: no memory.  Cost: stages x layers x edges. */
PZ_NODISCARD enum pz_status pz_partition_make(const struct pz_place_model *m, double lower_bound_s,
                                              struct pz_arena *arena, struct pz_partition *out,
                                              struct pz_error *err);

/* Fields of struct pz_partition, for results that hold plans. */
extern const struct pz_record pz_partition_record;

#endif
