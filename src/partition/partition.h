/* The original system's plan to train a model on a cluster, as it is shown to users: degrees, times,
 * memory and stages.  It has no pointers to the solver, the workload or the chip, so that it can be
 * used after they are freed. */
#ifndef PZ_PARTITION_PARTITION_H
#define PZ_PARTITION_PARTITION_H

#include "core/record.h"

struct pz_place_model;

/* Describes a solved problem for users.  lower_bound_s is a bound on the step time of all plans.
 * Everything is copied into the memory of the call.  Cost: stages x layers x edges. */
struct pz_partition pz_partition_describe(struct pz_call *call, const struct pz_place_model *model,
                                          double lower_bound_s);

/* Fields of struct pz_partition, for results that contain plans. */
extern const struct pz_record pz_partition_record;
/* The same without the stages. */
extern const struct pz_record pz_partition_brief_record;

#endif
