/* Rows of tests/data/published_mapper.csv, and the chip that has the same buffers, bandwidths and
 * array. */
#ifndef PZ_TESTS_PUBLISHED_H
#define PZ_TESTS_PUBLISHED_H

#include <stdio.h>
#include <string.h>

#include "cost/mapper.h"

struct pz_published {
  char name[32];
  struct pz_product product;
  struct pz_chip chip;
  double cycles, ideal_cycles, wall_s;
};

static inline bool pz_published_read(FILE *f, struct pz_published *r) {
  char line[512];
  double N, C, K, B, tc, width, depth, glb, x, y, l2, energy;
  if (!fgets(line, sizeof line, f)) return false;
  if (sscanf(line, "%31[^,],%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,ok,%lf,%lf,%lf,%lf",
             r->name, &N, &C, &K, &B, &tc, &width, &depth, &glb, &x, &y, &l2, &r->cycles, &energy,
             &r->wall_s, &r->ideal_cycles) != 16)
    return false;
  const double hz = 1e9, word = 2;
  r->product = (struct pz_product){1, (int64_t)(N * B), (int64_t)K, (int64_t)C, false};
  r->chip = (struct pz_chip){
      .name = "published",
      .tech = PZ_TECH_22NM,
      .clock_hz = hz,
      .tensor = {.cores = (int64_t)tc,
                 .rows = (int64_t)depth,
                 .cols = (int64_t)width,
                 .local_bytes = (int64_t)(l2 * word),
                 .register_bytes = 32,
                 .local_total_bytes_per_s = 64 * word * hz},
      .vector = {.cores = 1, .lanes = 1, .local_bytes = 1024},
      .glb_bytes = (int64_t)(glb * word),
      .glb_bytes_per_s = 256 * word * hz,
      .hbm = {.stacks = 1,
              .bytes_per_stack = INT64_C(1) << 35,
              .bytes_per_s_per_stack = 128 * word * hz},
      .rules = {.duplex = true, .partitioned = true, .operand_bytes = 2, .sum_bytes = 2},
      .calibration = {.tensor_efficiency = 1,
                      .glb_efficiency = 1,
                      .hbm_read_efficiency = 1,
                      .hbm_write_efficiency = 1,
                      .multicast = 1,
                      .boost_s = 1e9,
                      .throttle = 1,
                      .even_rows = 1,
                      .odd_rows = 1}};
  return true;
}

#endif
