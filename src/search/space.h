/* A design space: the chips that differ from a base chip in the values of its axes, within an area
 * budget.  A chip is identified by its number in the full grid, so that it has the same name in
 * every run.  Sized for a million points. */
#ifndef PZ_SEARCH_SPACE_H
#define PZ_SEARCH_SPACE_H

#include "chip/chip.h"
#include "core/arena.h"

/* A point: for each axis which of its values. */
struct pz_point {
  uint32_t id;
  uint8_t at[PZ_AXES];
};

/* The points within the budget, by id.  PZ_NO_ANSWER when there are none: the message says how far
 * the smallest is. */
PZ_NODISCARD enum pz_status pz_space_points(const struct pz_space *s, struct pz_arena *arena,
                                            struct pz_point **out, uint32_t *n,
                                            struct pz_error *err);

/* The value of a point on an axis, with lanes that follow the columns filled in. */
int64_t pz_space_value(const struct pz_space *s, const struct pz_point *p, enum pz_axis axis);

/* The point with this id; any below the size of the grid. */
struct pz_point pz_space_point(const struct pz_space *s, uint32_t id);
/* Its id again, after a step on an axis. */
uint32_t pz_space_id(const struct pz_space *s, const uint8_t at[PZ_AXES]);

/* Is it within the budget? */
bool pz_space_has(const struct pz_space *s, const struct pz_point *p);

/* The chip at a point, named after its numbers: 4x128x128-16x128-32M. */
void pz_space_chip(const struct pz_space *s, const struct pz_point *p, struct pz_chip *out);

#endif
