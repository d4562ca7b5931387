/* Checks that a list of boxes contains every chip of a space exactly once.  It is a part of the
 * proof and therefore knows nothing of how the boxes were found: it looks for an axis and a value
 * at which the boxes divide into two groups, and recurses into both, down to single boxes. */
#include <stdlib.h>
#include <string.h>

#include "space/box.h"

static int compare_kinds(const void *a, const void *box) {
  const struct pz_closed_box *x = a, *y = box;
  return (x->box.kind > y->box.kind) - (x->box.kind < y->box.kind);
}

/* The axis that compare_starts() compares; qsort has no argument for it. */
static _Thread_local enum pz_axis sorted_axis;

static int compare_starts(const void *a, const void *box) {
  const struct pz_closed_box *x = a, *y = box;
  return (x->box.lo[sorted_axis] > y->box.lo[sorted_axis]) -
         (x->box.lo[sorted_axis] < y->box.lo[sorted_axis]);
}

/* Returns the value nearest to the middle of an axis at which boxes begin and that no box
 * crosses, or 0 if there is none. */
static int find_cut(const struct pz_closed_box *list, uint32_t n, const struct pz_box *all,
                    enum pz_axis a) {
  bool starts[PZ_SPACE_MOST_VALUES + 1] = {false}, crossed[PZ_SPACE_MOST_VALUES + 1] = {false};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_box *box = &list[i].box;
    starts[box->lo[a]] = true;
    for (int v = box->lo[a] + 1; v <= box->hi[a]; v++) crossed[v] = true;
  }
  int nearest = 0, middle = (all->lo[a] + all->hi[a] + 1) / 2;
  for (int v = all->lo[a] + 1; v <= all->hi[a]; v++) {
    if (!starts[v] || crossed[v]) continue;
    if (!nearest || abs(v - middle) < abs(nearest - middle)) nearest = v;
  }
  return nearest;
}

/* Returns whether the boxes are a partition of `all`. */
static bool is_partition(struct pz_closed_box *list, uint32_t n, const struct pz_box *all) {
  if (n == 0) return false;
  if (n == 1)
    return memcmp(&list[0].box.lo, &all->lo, sizeof all->lo) == 0 &&
           memcmp(&list[0].box.hi, &all->hi, sizeof all->hi) == 0;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    int cut = find_cut(list, n, all, a);
    if (!cut) continue;
    struct pz_box low = *all, high = *all;
    uint32_t n_low = 0;
    sorted_axis = a;
    qsort(list, n, sizeof *list, compare_starts);
    while (n_low < n && list[n_low].box.lo[a] < cut) n_low++;
    low.hi[a] = (uint8_t)(cut - 1);
    high.lo[a] = (uint8_t)cut;
    return is_partition(list, n_low, &low) && is_partition(list + n_low, n - n_low, &high);
  }
  return false;
}

static bool is_valid_box(const struct pz_box *box, const struct pz_box *all) {
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    if (box->lo[a] < all->lo[a] || box->hi[a] > all->hi[a] || box->lo[a] > box->hi[a]) return false;
  return true;
}

bool pz_boxes_cover(const struct pz_space *space, struct pz_closed_box *list, uint32_t n_list) {
  uint32_t first = 0; /* the first box of the current kind */
  int64_t chips = 0;
  if (n_list) qsort(list, n_list, sizeof *list, compare_kinds);
  for (uint32_t k = 0; k < pz_space_kinds(space); k++) {
    struct pz_box all = pz_box_all(space, k);
    uint32_t n = 0;
    for (; first + n < n_list && list[first + n].box.kind == k; n++) {
      if (!is_valid_box(&list[first + n].box, &all)) return false;
      chips += pz_box_chips(&list[first + n].box);
    }
    if (!is_partition(list + first, n, &all)) return false;
    first += n;
  }
  return first == n_list && chips == pz_space_chips(space);
}
