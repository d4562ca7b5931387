/* Checks that a list of boxes contains every chip of a space exactly once.  As a part of the
 * proof, it does not depend on how the boxes were found.  It looks for an axis and a value at
 * which the boxes divide into two groups, and recurses into both, down to single boxes. */
#include <stdlib.h>
#include <string.h>

#include "space/box.h"

/* The axis by which compare_boxes() compares, because qsort() cannot pass it. */
static _Thread_local enum pz_axis sorted_axis;

/* Compares two boxes for qsort(): by kind, then by their lowest index on sorted_axis. */
static int compare_boxes(const void *a, const void *b) {
  const struct pz_closed_box *first = a, *second = b;
  if (first->box.kind != second->box.kind) return first->box.kind < second->box.kind ? -1 : 1;
  return (first->box.lo[sorted_axis] > second->box.lo[sorted_axis]) -
         (first->box.lo[sorted_axis] < second->box.lo[sorted_axis]);
}

/* Returns the index on an axis at which the boxes divide into two groups, those below and those
 * from the index on: some box begins there, and no box contains both the index and the one before.
 * Of several such indices it is the one nearest to the middle.  Returns 0 if there is none. */
static int find_cut(const struct pz_closed_box *list, uint32_t n, const struct pz_box *all,
                    enum pz_axis axis) {
  bool starts[PZ_SPACE_MOST_VALUES + 1] = {false}, crossed[PZ_SPACE_MOST_VALUES + 1] = {false};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_box *box = &list[i].box;
    starts[box->lo[axis]] = true;
    for (int index = box->lo[axis] + 1; index <= box->hi[axis]; index++) crossed[index] = true;
  }
  int nearest = 0, middle = (all->lo[axis] + all->hi[axis] + 1) / 2;
  for (int index = all->lo[axis] + 1; index <= all->hi[axis]; index++) {
    if (!starts[index] || crossed[index]) continue;
    if (!nearest || abs(index - middle) < abs(nearest - middle)) nearest = index;
  }
  return nearest;
}

/* Returns whether the boxes contain every chip of the box `all` exactly once: a single box must be
 * `all` itself, several are divided at a cut and examined in two groups.  The list is reordered. */
static bool is_partition(struct pz_closed_box *list, uint32_t n, const struct pz_box *all) {
  if (n == 0) return false;
  if (n == 1)
    return memcmp(&list[0].box.lo, &all->lo, sizeof all->lo) == 0 &&
           memcmp(&list[0].box.hi, &all->hi, sizeof all->hi) == 0;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
    int cut = find_cut(list, n, all, axis);
    if (!cut) continue;
    struct pz_box low = *all, high = *all;
    uint32_t n_low = 0;
    sorted_axis = axis;
    qsort(list, n, sizeof *list, compare_boxes);
    while (n_low < n && list[n_low].box.lo[axis] < cut) n_low++;
    low.hi[axis] = (uint8_t)(cut - 1);
    high.lo[axis] = (uint8_t)cut;
    return is_partition(list, n_low, &low) && is_partition(list + n_low, n - n_low, &high);
  }
  return false;
}

/* Returns whether every chip of the space is in exactly one box.  The list is reordered. */
bool pz_boxes_cover(const struct pz_space *space, struct pz_closed_box *list, uint32_t n_list) {
  uint32_t first = 0; /* the first box of the current kind */
  int64_t chips = 0;
  sorted_axis = 0;
  if (n_list) qsort(list, n_list, sizeof *list, compare_boxes);
  for (uint32_t k = 0; k < pz_space_kinds(space); k++) {
    struct pz_box all = pz_box_all(space, k);
    uint32_t n = 0;
    for (; first + n < n_list && list[first + n].box.kind == k; n++) {
      const struct pz_box *box = &list[first + n].box;
      for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) { /* find_cut() requires valid indices */
        bool within_all = box->lo[axis] >= all.lo[axis] && box->hi[axis] <= all.hi[axis];
        if (!within_all || box->lo[axis] > box->hi[axis]) return false;
      }
      chips += pz_box_chips(box);
    }
    if (!is_partition(list + first, n, &all)) return false;
    first += n;
  }
  return first == n_list && chips == pz_space_chips(space);
}
