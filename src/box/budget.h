/* A chip's bill as limits: what another may take that is compared with it. */
#ifndef PZ_BOX_BUDGET_H
#define PZ_BOX_BUDGET_H

#include "box/limits.h"
#include "box/range_space.h"

/* Limits that are not set yet (0) become the area, peak watts and dollars of the chip's description.  PZ_BAD_USE where
 * the space has chips of another technology and none was chosen (`node` NULL): the message says what to write. */
PZ_NODISCARD enum pz_status pz_budget_limits(const char *chip, const struct pz_range_space *s,
                                             const char *node, struct pz_limits *limits,
                                             struct pz_error *err);

#endif
