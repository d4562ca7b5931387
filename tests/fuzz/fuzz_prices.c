/* A price table: any bytes give prices above 0, or an error with a message. */
#include <math.h>
#include <stdlib.h>

#include "chip/price_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_arena arena;
  struct pz_price_table t;
  struct pz_error err = {0};
  pz_arena_init(&arena, NULL);
  if (pz_price_table_read("x", (const char *)data, bytes, "a.json,b", &arena, &t, &err) != PZ_OK)
    require(err.message[0]);
  else
    for (uint32_t i = 0; i < t.n_rows; i++)
      require(pz_price_of(&t, t.rows[i].chip) > 0 && isfinite(t.rows[i].dollars_per_device_hour));
  pz_arena_release(&arena);
  return 0;
}
