/* A table of training runs: any bytes give predictions that are finite, or an error with a message. */
#include <math.h>
#include <stdlib.h>

#include "step/run_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_arena arena;
  struct pz_run_table t;
  struct pz_error err = {0};
  pz_arena_init(&arena, NULL);
  if (bytes > 1 << 16) return 0;
  if (pz_run_table_read("x", (const char *)data, bytes, 1, &arena, &t, &err) != PZ_OK)
    require(err.message[0]);
  else
    for (uint32_t i = 0; i < t.n_rows; i++)
      require(t.rows[i].predicted ? isfinite(t.rows[i].p.step_s) && t.rows[i].p.step_s > 0
                                  : t.rows[i].reason[0] != '\0');
  pz_arena_release(&arena);
  return 0;
}
