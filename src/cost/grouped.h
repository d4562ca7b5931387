/* Products of experts: one kernel for many products that share n and k and differ in their rows,
 * and the permutation of tokens to experts. */
#ifndef PZ_COST_GROUPED_H
#define PZ_COST_GROUPED_H

#include "core/status.h"

/* What a serving library's tuned kernel adds: the fastest of its tiles. */
struct pz_grouped_tuned {
  double hbm_efficiency;
  double smooth;       /* arithmetic and HBM together: (a^n + b^n)^(1/n) */
  double beside_bytes; /* that other kernels touch before it is called again, where warm */
};

struct pz_grouped {
  int64_t experts;
  int64_t tokens; /* rows of all of them */
  int64_t n, k;
  int64_t largest;                      /* rows of the largest expert; 0: all alike */
  bool warm;                            /* as in pz_product */
  const struct pz_grouped_tuned *tuned; /* NULL: a training library's kernel */
};

/* Rows of a tile that a tuned kernel may have, ascending; 0 behind the last. */
int64_t pz_grouped_tile(int i);

/* The product whose tiles of so many rows take as long on the chip's cores; 0: of as many as a training library's have. */
struct pz_product pz_grouped_product(const struct pz_chip *c, const struct pz_grouped *g,
                                     int64_t tile);

/* Rows of an expert that a kernel of its weights' gradient sums over, of so many: it knows no alignment of rows, but
 * takes them in steps. */
int64_t pz_grouped_rows(int64_t rows);

/* Bytes and time of such a mapping: start-up and part of the HBM rate are those of kernel "grouped" where the chip
 * has one, else of a batched product. */
void pz_grouped_bytes(const struct pz_chip *c, const struct pz_grouped *g, struct pz_mapping *o);

#endif
