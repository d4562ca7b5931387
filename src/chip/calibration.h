/* The measured part of a chip description, to and from JSON. */
#ifndef PZ_CHIP_CALIBRATION_H
#define PZ_CHIP_CALIBRATION_H

#include "core/fields.h"

/* How one kind of vector operator runs, where it was measured. */
struct pz_kernel {
  char kind[24];
  double startup_s;
  double cycles;          /* of a lane, for one value; 0: never what binds */
  double bytes_per_value; /* moved; 0: as the operator says */
  double hbm_efficiency;  /* the part of the HBM rate it reaches */
  double efficiency;      /* of attention: the part of a product's rate */
  double value_latency_s; /* of a row's length, not hidden by other rows */
  double row_s;           /* of one row on one core */
  int64_t long_row;       /* rows beyond this many values do not stay on the core ... */
  double long_row_again;  /* ... and this part of the traffic comes again; 0: never */
  int64_t block_from;     /* rows beyond this are worked on by a block of threads; 0: never */
  double block_row_s, block_value_s; /* time of a block: fixed, and for each value */
};

enum { PZ_CHIP_MOST_KERNELS = 32, PZ_CHIP_MOST_TILES = 8 };

/* What measurements add to the description: facts of the machine and its libraries that the data
 * sheet does not have.  An uncalibrated chip has efficiencies and factors 1, times 0, and no lists.
 */
struct pz_calibration {
  double startup_s, batched_startup_s; /* of a product, of a batched one */
  double item_s;                       /* of one tile of a product on one core */
  double tile_value_s;      /* of every value of a tile: what is not hidden at its ends */
  double tensor_efficiency; /* sustained part of the peak */
  double glb_efficiency, hbm_read_efficiency, hbm_write_efficiency;
  double multicast;         /* cores that share one read of an operand from the global buffer */
  double boost_s, throttle; /* arithmetic beyond this time slows by this factor */
  double even_rows,
      odd_rows; /* slower by this factor when rows are not multiples of 8 values, of 2 */
  double warm_from_bytes,
      warm_to_bytes; /* repeated calls find all, none of their data in the global buffer */
  int n_tiles;       /* tiles the library has kernels for; 0: any */
  int64_t tiles[PZ_CHIP_MOST_TILES], most_tile_values, most_splits, least_split_k;
  int n_kernels;
  struct pz_kernel kernels[PZ_CHIP_MOST_KERNELS];
};

/* Field "calibration" of a chip.json; absent fields get the values of an uncalibrated chip. */
void pz_calibration_read(struct pz_fields *f, int64_t glb_bytes, struct pz_calibration *c);

/* New reference, the caller's. */
json_t *pz_calibration_json(const struct pz_calibration *c);

#endif
