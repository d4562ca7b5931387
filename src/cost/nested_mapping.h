/* The tile of a GEMM in the global buffer that contains the tiles of the cores (mapper.h declares
 * which there are): its HBM traffic, and the rounds of its items. */
#ifndef PZ_COST_NESTED_MAPPING_H
#define PZ_COST_NESTED_MAPPING_H

#include "cost/mapspace.h"

struct pz_nested_mapping {
  enum pz_stationary stationary;
  bool in_step;        /* cores work in step, so that only slices are in the buffer */
  double per[PZ_DIMS]; /* core tiles along each dimension of the tile */
  double batch;        /* GEMMs of the batch that are in the buffer at a time */
  double rounds;       /* rounds of all items */
  double hbm_s, hbm_bytes;
};

/* A mapping to the cores, and lower bounds on the HBM traffic of any tile of the global buffer. */
struct pz_nested_work {
  const int *choice;                /* index of the core tile of each dimension */
  const struct pz_spatial *spatial; /* NULL for any, with unlimited local buffers */
  double cycles; /* cycles of an item if spatial is NULL, or 0 for the fewest possible */
  double least_hbm_s, least_hbm_bytes;
};

/* A cache of lower bounds for core tiles over all spatial mappings: on their time in a search for
 * the fastest mapping, on their HBM traffic in a search for the cheapest one.  A search first sets
 * all keys to 0. */
enum { PZ_NESTED_MEMO = 4096 };
struct pz_nested_memo {
  uint32_t key[PZ_NESTED_MEMO]; /* core tiles and way, or 0 if the slot is empty */
  double least[PZ_NESTED_MEMO]; /* lower bound in seconds or bytes */
};

/* Returns the least time of a mapping to the cores with any tile of the global buffer, including
 * HBM traffic; below_s if none takes less. */
double pz_nested_fastest_s(const struct pz_mapspace *space, const struct pz_nested_work *work,
                           double below_s, struct pz_nested_memo *memo);

/* A mapping must take at most `s` and cause less than `bytes` of HBM traffic. */
struct pz_nested_limit {
  double s, bytes;
};

/* Finds the tile of the global buffer with the least HBM traffic within the limit; work->spatial is
 * not NULL.  Returns false, and leaves *out alone, if there is none. */
bool pz_nested_cheapest(const struct pz_mapspace *space, const struct pz_nested_work *work,
                        struct pz_nested_limit limit, struct pz_nested_memo *memo,
                        struct pz_nested_mapping *out);

#endif
