/* The order of a model's layers as segments: the shortest description by repeated units. */
#ifndef PZ_WORKLOAD_ORDER_H
#define PZ_WORKLOAD_ORDER_H

#include "core/arena.h"
#include "core/status.h"

/* Segments of `layer`, n indices of layers in the order in which they run, into w->order. */
PZ_NODISCARD enum pz_status pz_order_set(struct pz_workload *w, const uint32_t *layer, uint32_t n,
                                         struct pz_arena *arena);

/* Every layer `count` times, one kind after the other. */
PZ_NODISCARD enum pz_status pz_order_grouped(struct pz_workload *w, struct pz_arena *arena);

#endif
