/* Boxes of the chips of a space: a tree, whose nodes are the smallest boxes around some of its points.  A bound of a box
 * stands for all chips in it, so that most of them need none of their own.  Bounds are found when they are asked for and
 * kept for the next objective. */
#ifndef PZ_SEARCH_CHIP_BOXES_H
#define PZ_SEARCH_CHIP_BOXES_H

#include "search/state.h"

struct pz_chip_box {
  struct pz_point lo, hi;  /* on every axis the lowest and the highest of its points */
  uint32_t first, n;       /* its points, in pz_chip_boxes_points */
  uint32_t child[2];       /* PZ_NONE: not made yet */
  uint32_t least;          /* of its points */
  struct pz_nature nature; /* the least of its points */
  double *rate;            /* samples/s, at most, by model; negative: not known yet */
};

/* The first node is of all points.  NULL: no memory. */
struct pz_chip_boxes *pz_chip_boxes_new(const struct pz_search *s);
void pz_chip_boxes_free(struct pz_chip_boxes *b); /* accepts NULL */

/* Lives until the next box is made. */
const struct pz_chip_box *pz_chip_box_at(const struct pz_chip_boxes *b, uint32_t i);
const uint32_t *pz_chip_boxes_points(const struct pz_chip_boxes *b, const struct pz_chip_box *x);

/* Is it too small to have children? */
bool pz_chip_box_is_leaf(const struct pz_chip_box *x);

/* Make the children of a box that is no leaf. */
PZ_NODISCARD enum pz_status pz_chip_box_split(struct pz_chip_boxes *b, uint32_t i,
                                              struct pz_error *err);

#endif
