#include "box/box.h"

#include <string.h>

const char *const pz_box_end_names[] = {"infeasible", "bound", "evaluated", "open", NULL};

struct pz_box pz_box_all(const struct pz_range_space *s, uint32_t kind) {
  struct pz_box b = {.kind = kind};
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) b.hi[a] = (uint8_t)(s->n[a] - 1);
  return b;
}

int64_t pz_box_chips(const struct pz_box *b) {
  int64_t n = 1;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) n *= b->hi[a] - b->lo[a] + 1;
  return n;
}

static void chip_at(const struct pz_range_space *s, uint32_t kind, const uint8_t *at,
                    struct pz_chip *out) {
  struct pz_range_point p = {.kind = kind};
  memcpy(p.at, at, sizeof p.at);
  pz_range_chip(s, &p, out);
}

void pz_box_lo(const struct pz_range_space *s, const struct pz_box *b, struct pz_chip *out) {
  chip_at(s, b->kind, b->lo, out);
}

void pz_box_hi(const struct pz_range_space *s, const struct pz_box *b, struct pz_chip *out) {
  chip_at(s, b->kind, b->hi, out);
}
