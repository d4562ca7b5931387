/* Does a list of boxes hold every chip of a space exactly once?  Nothing here knows how they were found. */
#include <stdlib.h>
#include <string.h>

#include "space/box.h"

/* Where a box begins on an axis. */
static _Thread_local enum pz_axis sorted_axis;

static int by_kind(const void *a, const void *b) {
  const struct pz_closed_box *x = a, *y = b;
  return (x->box.kind > y->box.kind) - (x->box.kind < y->box.kind);
}

static int by_start(const void *a, const void *b) {
  const struct pz_closed_box *x = a, *y = b;
  return (x->box.lo[sorted_axis] > y->box.lo[sorted_axis]) -
         (x->box.lo[sorted_axis] < y->box.lo[sorted_axis]);
}

/* A value of the axis that begins boxes and that none crosses; 0: there is none. */
static int find_cut(const struct pz_closed_box *list, uint32_t n, const struct pz_box *all,
                    enum pz_axis a) {
  bool starts[PZ_SPACE_MOST_VALUES + 1] = {false}, crossed[PZ_SPACE_MOST_VALUES + 1] = {false};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_box *b = &list[i].box;
    starts[b->lo[a]] = true;
    for (int v = b->lo[a] + 1; v <= b->hi[a]; v++) crossed[v] = true;
  }
  int first = 0, middle = (all->lo[a] + all->hi[a] + 1) / 2;
  for (int v = all->lo[a] + 1; v <= all->hi[a]; v++)
    if (starts[v] && !crossed[v] && (!first || abs(v - middle) < abs(first - middle))) first = v;
  return first;
}

/* The boxes divide the space as long as some cut crosses none of them, down to single ones. */
static bool divides(struct pz_closed_box *list, uint32_t n, const struct pz_box *all) {
  if (n == 0) return false;
  if (n == 1)
    return memcmp(&list[0].box.lo, &all->lo, sizeof all->lo) == 0 &&
           memcmp(&list[0].box.hi, &all->hi, sizeof all->hi) == 0;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    int cut = find_cut(list, n, all, a);
    if (!cut) continue;
    struct pz_box low = *all, high = *all;
    uint32_t left = 0;
    sorted_axis = a;
    qsort(list, n, sizeof *list, by_start);
    while (left < n && list[left].box.lo[a] < cut) left++;
    low.hi[a] = (uint8_t)(cut - 1);
    high.lo[a] = (uint8_t)cut;
    return divides(list, left, &low) && divides(list + left, n - left, &high);
  }
  return false;
}

static bool inside(const struct pz_box *b, const struct pz_box *all) {
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    if (b->lo[a] < all->lo[a] || b->hi[a] > all->hi[a] || b->lo[a] > b->hi[a]) return false;
  return true;
}

bool pz_boxes_cover(const struct pz_space *s, struct pz_closed_box *list, uint32_t n_list) {
  uint32_t at = 0;
  int64_t chips = 0;
  if (n_list) qsort(list, n_list, sizeof *list, by_kind);
  for (uint32_t k = 0; k < pz_space_kinds(s); k++) {
    struct pz_box all = pz_box_all(s, k);
    uint32_t n = 0;
    for (; at + n < n_list && list[at + n].box.kind == k; n++) {
      if (!inside(&list[at + n].box, &all)) return false;
      chips += pz_box_chips(&list[at + n].box);
    }
    if (!divides(list + at, n, &all)) return false;
    at += n;
  }
  return at == n_list && chips == pz_space_chips(s);
}
