/* Grouped GEMMs of experts: one kernel for many GEMMs that differ only in their rows. */
#ifndef PZ_COST_GROUPED_H
#define PZ_COST_GROUPED_H

#include "core/status.h"

/* The properties of a serving library's tuned kernel, which uses the fastest of its tiles. */
struct pz_grouped_tuned {
  double hbm_efficiency; /* part of the HBM rate that the kernel reaches */
  double smooth;       /* exponent n of the overlap of arithmetic a and HBM b, (a^n + b^n)^(1/n) */
  double beside_bytes; /* bytes that other kernels move before the kernel is called again */
};

struct pz_grouped {
  int64_t experts; /* number of GEMMs */
  int64_t tokens;  /* rows of all experts together */
  int64_t n, k;    /* columns of the results, and inner dimension */
  int64_t largest; /* rows of the largest expert, or 0 if all experts have the same number */
  bool warm;       /* the call is repeated, so that data can stay in the global buffer */
  const struct pz_grouped_tuned *tuned; /* tuned kernel, or NULL for that of a training library */
};

/* Returns the batched GEMM that has as many tiles of tile_rows rows as the grouped one and
 * therefore takes as long on the cores.  tile_rows is 0 for the tile of a training library. */
struct pz_product pz_grouped_product(const struct pz_chip *chip, const struct pz_grouped *grouped,
                                     int64_t tile_rows);

/* Returns the rows of an expert over which the GEMM of its weight gradient sums.  The kernel does
 * not know how the rows are aligned, and processes them in steps of 64. */
int64_t pz_grouped_gradient_rows(int64_t rows);

/* Replaces the HBM traffic in the mapping of pz_grouped_product() by that of the grouped GEMM, and
 * its time accordingly.  Start-up and efficiency are those of kernel "grouped" if the chip has one,
 * otherwise those of a batched GEMM. */
void pz_grouped_set_hbm_traffic(const struct pz_chip *chip, const struct pz_grouped *grouped,
                                struct pz_mapping *mapping);

#endif
