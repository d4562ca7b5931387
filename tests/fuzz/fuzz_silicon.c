/* Tables of operators measured on real chips: any bytes give rows that are predicted in finite time above 0, or have a
 * reason, or an error with a message. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/silicon_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void check_row(struct pz_cost *cost, const struct pz_ops_row *row, struct pz_arena *arena) {
  struct pz_error err = {0};
  double us = 0;
  require(row->group && row->group[0] && row->line > 1);
  if (row->reason) return;
  require(row->us > 0 && isfinite(row->us) && pz_ops_text(row, arena));
  if (pz_ops_us(cost, row, &us, &err) == PZ_OK)
    require(us > 0 && isfinite(us));
  else
    require(err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char *const chips[] = {"h200", "a100-80", "b200", "tpuv4"};
  struct pz_chip chip;
  struct pz_cost cost;
  struct pz_arena arena;
  struct pz_csv csv;
  struct pz_error err = {0};
  const struct pz_ops_row *rows = NULL;
  require(pz_chip_read(chips[bytes % 4], &chip, &err) == PZ_OK);
  pz_arena_init(&arena, NULL);
  pz_cost_init(&cost, &chip, NULL);
  enum pz_status status = pz_csv_parse("fuzz", (const char *)data, bytes, &arena, &csv, &err);
  if (status == PZ_OK) status = pz_silicon_read("fuzz", &csv, &arena, &rows, &err);
  require(status == PZ_OK || err.message[0]);
  for (uint32_t i = 0; status == PZ_OK && i < csv.rows; i++) check_row(&cost, &rows[i], &arena);
  pz_cost_release(&cost);
  pz_arena_release(&arena);
  return 0;
}
