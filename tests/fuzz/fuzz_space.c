/* space.json: any bytes give a space whose points are chips, or an error with a message. */
#include <stdlib.h>

#include "chip/chip.h"
#include "search/space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void use(const struct pz_space *s) {
  uint32_t grid = pz_space_grid(s);
  require(grid >= 1 && grid <= PZ_SPACE_MOST_POINTS && s->budget_um2 > 0);
  for (uint32_t id = 0; id < grid; id += 1 + grid / 100) {
    struct pz_point p = pz_space_point(s, id);
    struct pz_chip c;
    pz_space_chip(s, &p, &c);
    struct pz_area area = pz_chip_area(&c);
    require(pz_space_id(s, p.at) == id && pz_area_total_um2(&area) > 0 && c.vector.lanes > 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_space s;
  struct pz_error err = {0};
  if (pz_space_parse("fuzz", (const char *)data, bytes, &s, &err) == PZ_OK)
    use(&s);
  else
    require(err.message[0]);
  return 0;
}
