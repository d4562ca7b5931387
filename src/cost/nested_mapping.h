/* The tile of a product in the global buffer that contains the tiles of the cores (mapper.h
 * declares which there are): traffic with HBM, and the rounds that its items take. */
#ifndef PZ_COST_NESTED_MAPPING_H
#define PZ_COST_NESTED_MAPPING_H

#include "cost/mapspace.h"

struct pz_nested_mapping {
  enum pz_stationary stationary;
  bool in_step;        /* slices alone pass through the buffer: its items are one round */
  double per[PZ_DIMS]; /* core tiles in it along each dimension */
  double batch;        /* products in the buffer at a time */
  double rounds;
  double hbm_s, hbm_bytes;
};

/* A mapping to the cores, and lower bounds on the HBM traffic of any. */
struct pz_nested_work {
  const int *at;
  const struct pz_spatial *spatial; /* NULL: local buffers do not limit, and an item takes ... */
  double cycles;                    /* ... so many; 0: the fewest of any way */
  double least_hbm_s, least_hbm_bytes;
};

/* Lower bounds of core tiles over all spatial mappings: of their time in a search for the fastest,
 * of their HBM traffic in one for the cheapest within one limit of time.  Clear it in between. */
enum { PZ_NESTED_MEMO = 4096 };
struct pz_nested_memo {
  uint32_t key[PZ_NESTED_MEMO]; /* 0: none */
  double least[PZ_NESTED_MEMO];
};

void pz_nested_memo_clear(struct pz_nested_memo *memo);

/* The least time of these tiles with any tile of the global buffer, HBM included; `below_s` where
 * none takes less. */
double pz_nested_fastest_s(const struct pz_mapspace *m, const struct pz_nested_work *w,
                           double below_s, struct pz_nested_memo *memo);

/* No longer than so many seconds, and less than so many bytes. */
struct pz_nested_limit {
  double s, bytes;
};

/* The tile of the global buffer of least HBM traffic among those within the limit; `w` has a
 * spatial mapping.  False where there is none; *out is untouched then. */
bool pz_nested_cheapest(const struct pz_mapspace *m, const struct pz_nested_work *w,
                        struct pz_nested_limit limit, struct pz_nested_memo *memo,
                        struct pz_nested_mapping *out);

#endif
