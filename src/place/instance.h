/* Placement problems in the original program's JSON format. */
#ifndef PZ_PLACE_INSTANCE_H
#define PZ_PLACE_INSTANCE_H

#include "core/json.h"
#include "place/problem.h"

/* A plan given beforehand: p stages, t wide, d times. */
struct pz_fixed {
  int64_t stages, t, d, layers;
  bool given;
};

enum { PZ_PLACE_MOST_BYTES = 1 << 28 };

PZ_NODISCARD enum pz_status pz_place_parse(const char *name, const char *text, size_t bytes,
                                           struct pz_arena *arena, struct pz_place_problem *out,
                                           struct pz_fixed *fixed, struct pz_error *err);

#endif
