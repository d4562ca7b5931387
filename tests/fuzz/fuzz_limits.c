/* A table of limits: any bytes give limits that can be checked, or an error with a message. */
#include <math.h>
#include <stdlib.h>

#include "study/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_arena arena;
  struct pz_validation v;
  struct pz_error err = {0};
  pz_arena_init(&arena, NULL);
  require(pz_validation_make(NULL, 0, &arena, &v) == PZ_OK);
  if (pz_limits_read("x", (const char *)data, bytes, &arena, &v, &err) != PZ_OK) {
    require(err.message[0]);
  } else {
    require(pz_limits_check(&arena, &v) == PZ_OK);
    for (uint32_t i = 0; i < v.n_broken; i++) require(v.broken[i].limit >= 0);
  }
  pz_arena_release(&arena);
  return 0;
}
