/* Placement problems in the original program's JSON format. */
#ifndef PZ_PARTITION_INSTANCE_H
#define PZ_PARTITION_INSTANCE_H

#include "core/json.h"
#include "partition/fixed.h"

enum { PZ_PLACE_MOST_BYTES = 1 << 28 };

PZ_NODISCARD enum pz_status pz_place_parse(const char *name, const char *text, size_t bytes,
                                           struct pz_arena *arena, struct pz_place_problem *out,
                                           struct pz_fixed *fixed, struct pz_error *err);

#endif
