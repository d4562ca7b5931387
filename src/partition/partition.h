/* The original system's plan to train a model on a cluster, as it is shown to users: degrees,
 * times, memory, stages.  A plain value: it refers to neither the solver nor the workload nor
 * the chip that it was made with, and can be kept, printed and compared after they are gone. */
#ifndef PZ_PARTITION_PARTITION_H
#define PZ_PARTITION_PARTITION_H

#include "core/record.h"

struct pz_place_model;

/* Describes a solved problem; lower_bound_s is that of struct pz_partition.  Everything is
 * copied into the memory of the call.  Cost: stages x layers x edges. */
struct pz_partition pz_partition_describe(struct pz_call *call, const struct pz_place_model *model,
                                          double lower_bound_s);

/* Fields of struct pz_partition, for results that contain plans. */
extern const struct pz_record pz_partition_record;

#endif
