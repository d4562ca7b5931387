/* Tables of operators: any bytes give predictions or an error with a message. */
#include <stdlib.h>

#include "cost/ops_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_chip chip;
  struct pz_cost cost;
  struct pz_arena arena;
  struct pz_csv csv;
  struct pz_error err = {0};
  const double *us = NULL;
  require(pz_chip_load(bytes % 2 ? "h200" : "tpuv4", &chip, &err) == PZ_OK);
  pz_arena_init(&arena, NULL);
  pz_cost_init(&cost, &chip, NULL);
  if (pz_csv_parse("fuzz", (const char *)data, bytes, &arena, &csv, &err) == PZ_OK &&
      pz_ops_predict(&cost, "fuzz", &csv, &arena, &us, &err) == PZ_OK)
    for (uint32_t r = 0; r < csv.rows; r++) require(us[r] > 0);
  else
    require(err.message[0]);
  pz_cost_release(&cost);
  pz_arena_release(&arena);
  return 0;
}
