/* Boxes of chips.  pz_boxed_set() adds the smallest and the largest chip, between which all costs of the box's chips
 * are, because more of any axis never costs less. */
#include "space/box.h"

#include <string.h>

const char *const pz_box_end_names[] = {"infeasible", "bound", "partly", "evaluated", "open", NULL};

struct pz_box pz_box_all(const struct pz_space *s, uint32_t kind) {
  struct pz_box b = {.kind = kind};
  for (enum pz_axis a = 0; a < PZ_AXES; a++) b.hi[a] = (uint8_t)(s->n[a] - 1);
  return b;
}

int64_t pz_box_chips(const struct pz_box *b) {
  int64_t n = 1;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) n *= b->hi[a] - b->lo[a] + 1;
  return n;
}

bool pz_box_is_chip(const struct pz_box *b) { return memcmp(b->lo, b->hi, sizeof b->lo) == 0; }

bool pz_box_has(const struct pz_box *b, const struct pz_point *p) {
  if (b->kind != p->kind) return false;
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    if (p->at[a] < b->lo[a] || p->at[a] > b->hi[a]) return false;
  return true;
}

struct pz_box pz_box_of(const struct pz_point *p) {
  struct pz_box b = {.kind = p->kind};
  memcpy(b.lo, p->at, sizeof b.lo);
  memcpy(b.hi, p->at, sizeof b.hi);
  return b;
}

struct pz_point pz_box_point(const struct pz_box *b) {
  struct pz_point p = {.kind = b->kind};
  memcpy(p.at, b->lo, sizeof p.at);
  return p;
}

void pz_boxed_set(const struct pz_space *s, const struct pz_box *b, struct pz_boxed *out) {
  struct pz_point lo = pz_box_point(b), hi = lo;
  memcpy(hi.at, b->hi, sizeof hi.at);
  out->box = *b;
  pz_space_chip(s, &lo, &out->lo);
  out->least = pz_chip_taken(&out->lo);
  if (pz_box_is_chip(b)) {
    out->hi = out->lo;
    out->most = out->least;
  } else {
    pz_space_chip(s, &hi, &out->hi);
    out->most = pz_chip_taken(&out->hi);
    out->hi.static_mm2 = out->least.mm2; /* the static power of no chip of the box is below this */
    out->hi.bounds_others = true;
  }
}

const char *pz_boxed_breaks(const struct pz_boxed *x, const struct pz_limits *l) {
  return pz_limits_broken(l, &x->least, &x->most);
}
