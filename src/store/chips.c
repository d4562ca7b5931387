#include "store/chips.h"

#include <string.h>

struct pz_run_chip pz_run_chip_of(const struct pz_study *s, uint32_t i,
                                  char name[PZ_RUN_CHIP_NAME]) {
  struct pz_chip c;
  pz_space_chip(&s->space, &s->points[i], &c);
  memcpy(name, c.name, PZ_RUN_CHIP_NAME);
  return (struct pz_run_chip){.id = s->points[i].id,
                              .name = name,
                              .tensor_cores = c.tensor.cores,
                              .rows = c.tensor.rows,
                              .cols = c.tensor.cols,
                              .vector_cores = c.vector.cores,
                              .lanes = c.vector.lanes,
                              .glb_bytes = c.glb_bytes,
                              .area_mm2 = pz_search_area_um2(s->search, i) / 1e6,
                              .watts = pz_search_watts(s->search, i)};
}
