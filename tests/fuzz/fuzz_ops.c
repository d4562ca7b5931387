/* Tables of operators: any bytes give predictions, of power and of kernels beside communication too, and a fit where there
 * are times, or an error with a message. */
#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "cost/beside_table.h"
#include "cost/calibrate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

/* Of small tables: what is fitted is a chip that can be used. */
static void calibrate(const struct pz_chip *chip, const struct pz_csv *csv,
                      struct pz_arena *arena) {
  struct pz_measured m;
  struct pz_calibrated fit;
  struct pz_error err = {0};
  if (csv->rows > 4) return;
  enum pz_status status = pz_measured_read("fuzz", csv, arena, &m, &err);
  if (status == PZ_OK) status = pz_calibrate_to(chip, &m, NULL, arena, &fit, &err);
  if (status == PZ_OK)
    require(pz_chip_check(fit.chip, &err) == PZ_OK);
  else
    require(err.message[0]);
}

static void power(const struct pz_chip *chip, const char *text, size_t bytes) {
  struct pz_power_table *t = NULL;
  struct pz_error err = {0};
  if (pz_power_table(chip, "fuzz", text, bytes, &t, &err) != PZ_OK) require(err.message[0]);
  for (uint32_t r = 0; t && r < t->n_rows; r++) require(t->rows[r].sustained.watts >= 0);
  pz_power_table_free(t);
}

static void beside(struct pz_cost *cost, const struct pz_csv *csv, struct pz_arena *arena) {
  const struct pz_beside_row *rows = NULL;
  struct pz_error err = {0};
  if (pz_beside_predict(cost, "fuzz", csv, arena, &rows, &err) != PZ_OK) {
    require(err.message[0]);
    return;
  }
  for (uint32_t r = 0; r < csv->rows; r++) {
    require(rows[r].reason[0] ? rows[r].slowdown == 0
                              : rows[r].slowdown >= 1 && isfinite(rows[r].slowdown));
    require(rows[r].alone_s > 0 && rows[r].together_s > 0 && rows[r].own_alone_s >= 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_chip chip;
  struct pz_cost cost;
  struct pz_arena arena;
  struct pz_csv csv;
  struct pz_error err = {0};
  struct pz_op_times *times = NULL;
  require(pz_chip_read(bytes % 2 ? "h200" : "tpuv4", &chip, &err) == PZ_OK);
  pz_arena_init(&arena, NULL);
  pz_cost_init(&cost, &chip, NULL);
  bool table = pz_csv_parse("fuzz", (const char *)data, bytes, &arena, &csv, &err) == PZ_OK;
  if (table) power(&chip, (const char *)data, bytes);
  if (table) beside(&cost, &csv, &arena);
  if (table && pz_cost_table(&cost, "fuzz", (const char *)data, bytes, &times, &err) == PZ_OK) {
    for (uint32_t r = 0; r < csv.rows; r++) require(times->rows[r].us > 0);
    pz_op_times_free(times);
    calibrate(&chip, &csv, &arena);
  } else
    require(err.message[0]);
  pz_cost_release(&cost);
  pz_arena_release(&arena);
  return 0;
}
