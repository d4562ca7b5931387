/* Spaces of ranges and lists of boxes: any bytes give one whose chips can be made, or an error with a message. */
#include <stdlib.h>

#include "box/certificate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void use(const struct pz_range_space *s) {
  require(pz_range_chips(s) >= 1);
  for (uint32_t k = 0; k < pz_range_kinds(s); k++) {
    struct pz_box b = pz_box_all(s, k);
    struct pz_chip lo, hi;
    pz_box_lo(s, &b, &lo);
    pz_box_hi(s, &b, &hi);
    struct pz_taken least = pz_chip_taken(&lo), most = pz_chip_taken(&hi);
    require(least.mm2 > 0 && least.mm2 <= most.mm2 && pz_box_chips(&b) == pz_range_kind_chips(s));
  }
}

/* Boxes of a space of two chips. */
static void read_boxes(const uint8_t *data, size_t bytes) {
  static const struct pz_range_space two = {
      .name = "two",
      .n_nodes = 1,
      .node = {PZ_TECH_5NM},
      .n_arrays = 1,
      .array = {{16, 16}},
      .n_hbm = 1,
      .n = {2, 1, 1, 1, 1, 1, 1, 1, 1},
      .value = {{1, 2}, {64}, {1}, {16}, {4}, {64}, {1000}, {1}, {10}}};
  struct pz_arena arena;
  struct pz_boxes boxes;
  struct pz_error err = {0};
  pz_arena_init(&arena, NULL);
  if (pz_boxes_parse("fuzz", (const char *)data, bytes, &two, &arena, &boxes, &err) == PZ_OK)
    (void)pz_boxes_cover(&two, &boxes);
  else
    require(err.message[0]);
  pz_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static struct pz_range_space s;
  struct pz_error err = {0};
  if (pz_range_parse("fuzz", (const char *)data, bytes, &s, &err) == PZ_OK)
    use(&s);
  else
    require(err.message[0]);
  read_boxes(data, bytes);
  return 0;
}
