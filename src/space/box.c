/* Boxes of chips.  All costs of a box's chips are between those of its smallest and its largest chip,
 * because more of any axis never costs less. */
#include "space/box.h"

#include <string.h>

const char *const pz_box_end_names[] = {"infeasible", "bound", "partly", "evaluated", "open", NULL};

/* Returns the box of all chips of one kind. */
struct pz_box pz_box_all(const struct pz_space *space, uint32_t kind) {
  struct pz_box box = {.kind = kind};
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) box.hi[axis] = (uint8_t)(space->n[axis] - 1);
  return box;
}

int64_t pz_box_chips(const struct pz_box *box) {
  int64_t n = 1;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) n *= box->hi[axis] - box->lo[axis] + 1;
  return n;
}

bool pz_box_is_chip(const struct pz_box *box) {
  return memcmp(box->lo, box->hi, sizeof box->lo) == 0;
}

bool pz_box_has(const struct pz_box *box, const struct pz_point *point) {
  if (box->kind != point->kind) return false;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++)
    if (point->at[axis] < box->lo[axis] || point->at[axis] > box->hi[axis]) return false;
  return true;
}

struct pz_box pz_box_of(const struct pz_point *point) {
  struct pz_box box = {.kind = point->kind};
  memcpy(box.lo, point->at, sizeof box.lo);
  memcpy(box.hi, point->at, sizeof box.hi);
  return box;
}

/* Returns the smallest chip of a box. */
struct pz_point pz_box_point(const struct pz_box *box) {
  struct pz_point point = {.kind = box->kind};
  memcpy(point.at, box->lo, sizeof point.at);
  return point;
}

/* Sets the smallest and the largest chip of a box, and their costs. */
void pz_boxed_set(const struct pz_space *space, const struct pz_box *box, struct pz_boxed *out) {
  struct pz_point point = pz_box_point(box), hi = point;
  memcpy(hi.at, box->hi, sizeof hi.at);
  out->box = *box;
  pz_space_chip(space, &point, &out->lo);
  out->least = pz_chip_taken(&out->lo);
  if (pz_box_is_chip(box)) {
    out->hi = out->lo;
    out->most = out->least;
  } else {
    pz_space_chip(space, &hi, &out->hi);
    out->most = pz_chip_taken(&out->hi);
    /* as a bound for all chips of the box, its static power is that of the smallest area */
    out->hi.static_mm2 = out->least.mm2;
    out->hi.bounds_others = true;
  }
}

/* Returns the first limit that every chip of the box violates, or NULL. */
const char *pz_boxed_breaks(const struct pz_boxed *boxed, const struct pz_limits *limits) {
  return pz_limits_broken(limits, &boxed->least, &boxed->most);
}
