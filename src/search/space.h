/* A design space: the chips that differ from a base chip in the values of its axes, within an area
 * budget.  A chip is identified by its number in the full grid, so that it has the same name in
 * every run.  Sized for a million points. */
#ifndef PZ_SEARCH_SPACE_H
#define PZ_SEARCH_SPACE_H

#include "chip/chip.h"
#include "core/arena.h"

/* In the order of the grid, the last running fastest. */
enum pz_axis {
  PZ_AXIS_TENSOR_CORES,
  PZ_AXIS_ROWS,
  PZ_AXIS_COLS,
  PZ_AXIS_VECTOR_CORES,
  PZ_AXIS_LANES, /* one value, 0: as many as columns */
  PZ_AXIS_GLB,   /* bytes */
  PZ_AXES
};

enum { PZ_SPACE_MOST_VALUES = 64, PZ_SPACE_MOST_POINTS = 1 << 20, PZ_SPACE_MOST_BYTES = 1 << 20 };

struct pz_space {
  char name[48], about[200];
  struct pz_chip base;
  int n[PZ_AXES];
  int64_t value[PZ_AXES][PZ_SPACE_MOST_VALUES]; /* ascending */
  double least_part; /* of the budget, where a chip has several cores of both kinds */
  double budget_um2;
};

/* A point: for each axis which of its values. */
struct pz_point {
  uint32_t id;
  uint8_t at[PZ_AXES];
};

/* A preset's name or the path of a space.json; the budget is its base chip's area until
 * pz_space_set_budget. */
PZ_NODISCARD enum pz_status pz_space_load(const char *space, struct pz_space *out,
                                          struct pz_error *err);
PZ_NODISCARD enum pz_status pz_space_parse(const char *name, const char *text, size_t bytes,
                                           struct pz_space *out, struct pz_error *err);

/* A chip's name, whose area it is, or a number of mm2. */
PZ_NODISCARD enum pz_status pz_space_set_budget(struct pz_space *s, const char *budget,
                                                struct pz_error *err);

/* The points within the budget, by id.  PZ_NO_ANSWER when there are none: the message says how far
 * the smallest is. */
PZ_NODISCARD enum pz_status pz_space_points(const struct pz_space *s, struct pz_arena *arena,
                                            struct pz_point **out, uint32_t *n,
                                            struct pz_error *err);

/* The value of a point on an axis, with lanes that follow the columns filled in. */
int64_t pz_space_value(const struct pz_space *s, const struct pz_point *p, enum pz_axis axis);

/* The point with this id; any below the size of the grid. */
struct pz_point pz_space_point(const struct pz_space *s, uint32_t id);
uint32_t pz_space_grid(const struct pz_space *s);
/* Its id again, after a step on an axis. */
uint32_t pz_space_id(const struct pz_space *s, const uint8_t at[PZ_AXES]);

/* Is it within the budget? */
bool pz_space_has(const struct pz_space *s, const struct pz_point *p);

/* The chip at a point, named after its numbers: 4x128x128-16x128-32M. */
void pz_space_chip(const struct pz_space *s, const struct pz_point *p, struct pz_chip *out);

/* As a pz_name_at, of axes; and of the presets, NULL after the last. */
const char *pz_axis_name(const void *ctx, size_t i);
const char *pz_space_preset_name(const void *ctx, size_t i);

#endif
